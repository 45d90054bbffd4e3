//! Mixed phases: `Child::mixed`, where clients read, scan, update, insert and modify by turns; and
//! `HeldOut`.
//!
//! All plans, the operations of each client and their keys, are drawn before the clock starts.
//! `HeldOut` knows which held-out keys were inserted so far.
//!
//! What must hold:
//! - Each client has a share of the keys to insert. No two shares have a key in common.
//! - A client reads keys that were there before the phase, or that it has inserted itself.
//! - A reader that is not live is made anew before it reads, if something was written.
//!
//! Caller: `Child::measure`. Each load begins with a new `HeldOut`.

use super::{
    Child, FRESH_VALUES,
    threads::{Done, random_of, shares, together},
};
use crate::{
    engine::Result,
    phase::{Measured, Mix},
    process,
};
use solera_bench::{probes::ZIPF_EXPONENT, random::Random, zipf::Zipf};
use std::{
    hint::black_box,
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Read,
    Update,
    Insert,
    Modify,
    Scan(usize),
}

impl Step {
    fn reads(self) -> bool {
        !matches!(self, Step::Update | Step::Insert)
    }

    fn writes(self) -> bool {
        matches!(self, Step::Update | Step::Insert | Step::Modify)
    }
}

/// One key of a plan: that of a pair that was loaded, or of one that was held out; by its place
/// there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Key {
    Loaded(u32),
    HeldOut(u32),
}

/// The keys that were not loaded, by their places among them.
pub(super) struct HeldOut {
    /// The oldest first.
    inserted: Vec<u32>,
    waiting: Vec<u32>,
}

impl HeldOut {
    /// So many, of which none is inserted.
    pub(super) fn new(count: usize) -> Self {
        HeldOut { inserted: Vec::new(), waiting: (0..count as u32).collect() }
    }

    /// What clients with these shares of the waiting keys have done is inserted now. What they did
    /// at the same time is equally old.
    fn insert(&mut self, shares: &[Range<usize>], done: &[&[(Step, Key)]]) {
        let mut inserted = Vec::new();
        let mut waiting = Vec::with_capacity(self.waiting.len());
        for (share, steps) in shares.iter().zip(done) {
            let before = inserted.len();
            inserted.extend(steps.iter().enumerate().filter_map(|(at, &(step, key))| match (step, key) {
                (Step::Insert, Key::HeldOut(key)) => Some((at, key)),
                _ => None,
            }));
            // A client inserts its share in order.
            waiting.extend(&self.waiting[share.start + inserted.len() - before..share.end]);
        }
        inserted.sort_by_key(|&(at, _)| at);
        self.inserted.extend(inserted.into_iter().map(|(_, key)| key));
        self.waiting = waiting;
    }
}

/// What plans are drawn from.
struct Planner<'a> {
    mix: Mix,
    zipf: Zipf,
    popular: Vec<u32>,
    held_out: &'a HeldOut,
}

impl Planner<'_> {
    /// So many operations of a client that may insert this share of the waiting keys.
    fn plan(&self, operations: usize, share: Range<usize>, random: &mut Random) -> Vec<(Step, Key)> {
        let (mix, before) = (self.mix, &self.held_out.inserted);
        let waiting = &self.held_out.waiting[share];
        let mut inserted = 0;
        let mut plan = Vec::with_capacity(operations);
        for _ in 0..operations {
            let die = random.below(100) as u32;
            let drawn = self.zipf.draw(random) as usize;
            let known = before.len() + inserted;
            let key = if mix.latest && drawn < known {
                let at = known - 1 - drawn;
                Key::HeldOut(before.get(at).copied().unwrap_or_else(|| waiting[at - before.len()]))
            } else {
                Key::Loaded(self.popular[drawn])
            };
            plan.push(if die < mix.reads {
                (Step::Read, key)
            } else if die < mix.reads + mix.updates {
                (Step::Update, key)
            } else if die < mix.reads + mix.updates + mix.scans {
                (Step::Scan(1 + random.below(100) as usize), key)
            } else if die < mix.reads + mix.updates + mix.scans + mix.modifies {
                (Step::Modify, key)
            } else if let Some(&new) = waiting.get(inserted) {
                inserted += 1;
                (Step::Insert, Key::HeldOut(new))
            } else {
                // All keys are there.
                (Step::Update, key)
            });
        }
        plan
    }
}

impl Child<'_> {
    /// A mixed load, every operation timed.
    pub(super) fn mixed(&mut self, mix: Mix, seed: u64) -> Result<Measured> {
        let n = self.set.pairs.len();
        let clients = self.task.threads;
        let zipf = Zipf::new(n as u64, ZIPF_EXPONENT);
        let mut popular: Vec<u32> = (0..n as u32).collect();
        Random::new(self.task.seed).shuffle(&mut popular);
        let planner = Planner { mix, zipf, popular, held_out: &self.held_out };
        let waiting = shares(self.held_out.waiting.len(), clients);
        let plans = shares(self.task.operations, clients).into_iter().zip(&waiting).enumerate();
        let plans: Vec<_> = plans
            .map(|(client, (operations, share))| {
                planner.plan(operations.len(), share.clone(), &mut random_of(seed, client))
            })
            .collect();
        let cpu = process::cpu_seconds();
        let done = self.carry_out(&plans)?;
        let cpu_seconds = process::cpu_seconds() - cpu;
        let steps = plans.iter().zip(&done).map(|(plan, done)| &plan[..done.operations as usize]);
        let steps: Vec<&[_]> = steps.collect();
        self.held_out.insert(&waiting, &steps);
        let done = Done::of_all(done)?;
        Ok(Measured { cpu_seconds, write_ns_max: Some(done.write_ns_max), ..done.measured() })
    }

    /// Each plan by a client.
    fn carry_out(&self, plans: &[Vec<(Step, Key)>]) -> Result<Vec<Done>> {
        let (engine, clock, limit_ns) = (self.engine()?, &self.clock, self.limit_ns());
        let is_live = engine.reader_is_live();
        // Writes of all clients, if a reader must be made anew to see those of the others too.
        let writes = (plans.len() > 1 && !is_live).then(|| AtomicU64::new(0));
        together(
            plans.iter().collect(),
            || engine.reader(),
            |plan, mut reader| {
                let (mut touched, mut written, mut seen) = (0u64, false, 0);
                let mut done = Done::begin_timed(clock);
                for (i, &(step, key)) in plan.iter().enumerate() {
                    let key = match key {
                        Key::Loaded(at) => self.set.pairs.get(at as usize).0,
                        Key::HeldOut(at) => self.set.absent.get(at as usize).0,
                    };
                    if step.reads() && !is_live {
                        let now = writes.as_ref().map_or(0, |writes| writes.load(Ordering::Acquire));
                        if written || now != seen {
                            drop(reader);
                            reader = engine.reader()?;
                            (written, seen) = (false, now);
                        }
                    }
                    let value = &self.fresh[i % FRESH_VALUES];
                    match step {
                        Step::Read => {
                            let found = reader.get(key, &mut |value| touched += value.len() as u64)?;
                            done.wrong += u64::from(!found);
                        }
                        Step::Update | Step::Insert => engine.put(key, value)?,
                        Step::Modify => {
                            let found = reader.get(key, &mut |value| touched += value.len() as u64)?;
                            done.wrong += u64::from(!found);
                            engine.put(key, value)?;
                        }
                        Step::Scan(limit) => {
                            let mut touch = |_: &[u8], value: &[u8]| touched += value.len() as u64;
                            let count = reader.scan(key, limit, false, &mut touch)?;
                            done.wrong += u64::from(count == 0);
                        }
                    }
                    if step.writes() {
                        written = true;
                        if let Some(writes) = &writes {
                            writes.fetch_add(1, Ordering::Release);
                        }
                    }
                    let ns = done.lap(clock, 1);
                    if step.writes() {
                        done.write_ns_max = done.write_ns_max.max(ns);
                    }
                    if done.ns() > limit_ns {
                        break;
                    }
                }
                black_box(touched);
                Ok(done)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::Phase;
    use std::collections::HashSet;

    const LOADED: u64 = 1000;
    const CLIENTS: usize = 3;

    fn plans(phase: Phase, held_out: &HeldOut, operations: usize, seed: u64) -> Vec<Vec<(Step, Key)>> {
        let zipf = Zipf::new(LOADED, ZIPF_EXPONENT);
        let mix = phase.mix().unwrap();
        let planner = Planner { mix, zipf, popular: (0..LOADED as u32).collect(), held_out };
        let operations = shares(operations, CLIENTS).into_iter().enumerate();
        operations
            .zip(shares(held_out.waiting.len(), CLIENTS))
            .map(|((client, operations), share)| {
                planner.plan(operations.len(), share, &mut random_of(seed, client))
            })
            .collect()
    }

    fn held_out(steps: &[(Step, Key)], inserts: bool) -> impl Iterator<Item = u32> {
        steps.iter().filter_map(move |&(step, key)| match key {
            Key::HeldOut(key) if inserts == (step == Step::Insert) => Some(key),
            _ => None,
        })
    }

    #[test]
    fn clients_ask_for_what_was_there_or_is_their_own() {
        let mut keys = HeldOut::new(2000);
        for repeat in 0..4 {
            let before: HashSet<u32> = keys.inserted.iter().copied().collect();
            let plans = plans(Phase::YcsbD, &keys, 9000, repeat);
            assert_eq!(plans.iter().map(Vec::len).sum::<usize>(), 9000);
            let mut new = HashSet::new();
            let (mut asked_before, mut asked_own) = (0, 0);
            for plan in &plans {
                let mut own = HashSet::new();
                for (at, &(step, _)) in plan.iter().enumerate() {
                    own.extend(held_out(&plan[at..at + 1], true));
                    if step == Step::Read {
                        for key in held_out(&plan[at..at + 1], false) {
                            assert!(before.contains(&key) || own.contains(&key), "{key} in {repeat}");
                            asked_before += u32::from(before.contains(&key));
                            asked_own += u32::from(own.contains(&key));
                        }
                    }
                }
                assert!(own.is_disjoint(&before) && own.is_disjoint(&new), "inserted once");
                new.extend(own);
            }
            assert!(asked_own > 0 && (asked_before > 0) == (repeat > 0));
            // The clients get unequally far in their time.
            let waiting = shares(keys.waiting.len(), CLIENTS);
            let steps = [&plans[0][..], &plans[1][..1000], &plans[2][..0]];
            let done: HashSet<u32> = steps.iter().flat_map(|steps| held_out(steps, true)).collect();
            keys.insert(&waiting, &steps);
            let after: HashSet<u32> = keys.inserted.iter().copied().collect();
            assert_eq!(after, &before | &done);
            assert_eq!(keys.inserted.len(), after.len());
            let rest: HashSet<u32> = keys.waiting.iter().copied().collect();
            assert!(rest.is_disjoint(&after));
            assert_eq!(rest.len() + after.len(), 2000);
            assert_eq!(keys.waiting.len(), rest.len());
        }
    }

    #[test]
    fn what_was_inserted_last_by_any_client_is_the_latest() {
        let mut keys = HeldOut::new(9);
        let insert = |key| (Step::Insert, Key::HeldOut(key));
        let read = (Step::Read, Key::Loaded(0));
        let shares = shares(9, CLIENTS);
        keys.insert(&shares, &[&[read, insert(0), read, insert(1)], &[insert(3)], &[read, read, insert(6)]]);
        assert_eq!(keys.inserted, [3, 0, 6, 1]);
        assert_eq!(keys.waiting, [2, 4, 5, 7, 8]);
    }

    #[test]
    fn where_no_key_is_left_to_insert_there_are_updates() {
        let mut keys = HeldOut::new(10);
        for repeat in 0..2 {
            let plans = plans(Phase::YcsbD, &keys, 3000, repeat);
            let inserts: usize = plans.iter().map(|plan| held_out(plan, true).count()).sum();
            assert_eq!(inserts, if repeat == 0 { 10 } else { 0 });
            assert!(plans.iter().flatten().any(|(step, _)| *step == Step::Update));
            let steps: Vec<&[_]> = plans.iter().map(|plan| &plan[..]).collect();
            keys.insert(&shares(keys.waiting.len(), CLIENTS), &steps);
            assert_eq!((keys.inserted.len(), keys.waiting.len()), (10, 0));
        }
    }
}
