//! Point lookups in a view: `View::lookup` for one key, `View::lookup_many` for many, and
//! `Outcome`.
//!
//! A lookup asks active memtable, sealed memtables and then runs, newest first. It stops at the
//! first version that the snapshot sees, or at a source whose range tombstone covers the key.
//! `sight::judge` says what that version means. `lookup_many` takes 32 keys through each step
//! together (filter, place in the cache, block, entry), so that they wait for memory together.
//! What must hold: sources are asked in the order of their ages (invariant R). The caller took the
//! view before it chose the snapshot. `Outcome::Operand` ends a lookup too: the caller then folds
//! by `Tree::fold`.
//! Callers: `db::keyspace` (get, `multi_get`), `engine::rewrite`, which asks whether a value still
//! counts.

use super::View;
use crate::{
    codec::DecodeError,
    cursor::{Hit, Probe},
    error::{Error, Result},
    ids::Seqno,
    index::Span,
    memtable::Memtable,
    sight::{Verdict, expires_ms, hides, judge},
    stats::Here,
    table::{Entered, Table},
    values::{Pointer, ValueFiles},
    version::Run,
};
use crossbeam_epoch::Guard;
use std::ptr;

/// So many keys wait for memory together: more than a processor's outstanding misses, few enough
/// that what was asked for is still in its first caches when its turn comes.
const WAVE: usize = 32;

/// Tables of so many bytes together are taken to lie in the processor's caches, once they are read.
/// What a lookup could ask for early is there at once then, and working out what that is would be a
/// tenth of it.
const NEAR_BYTES_MAX: u64 = 6 << 20;

/// What a lookup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// No version, or the newest one says that the key is absent.
    Absent,
    /// The key has a value; this is what the caller made of it.
    Found(R),
    /// The newest version is an operand: the value must be folded from several versions.
    Operand,
    /// The key has a value, which lies elsewhere.
    Separated {
        /// Where.
        pointer: Result<Pointer, DecodeError>,
        /// When its entry expires, in Unix milliseconds; `None`: it does not.
        expires_ms: Option<u64>,
    },
    /// The newest version is too short for what it should hold.
    Malformed,
}

/// What a version says of its key, if `cover` is the newest range tombstone of the same source.
/// `found` gets the hit and the user value.
#[inline]
fn outcome_of<R>(
    hit: Hit<'_>,
    cover: Option<Seqno>,
    now_ms: impl Fn() -> u64,
    found: impl FnOnce(&Hit<'_>, &[u8]) -> R,
) -> Outcome<R> {
    let is_hidden = cover.is_some_and(|tombstone| hides(tombstone, false, hit.seqno));
    match judge(hit.kind, || hit.value(), is_hidden, now_ms) {
        Verdict::Value(skipped) => Outcome::Found(found(&hit, &hit.value()[skipped..])),
        Verdict::Absent => Outcome::Absent,
        Verdict::Operand => Outcome::Operand,
        Verdict::Separated(skipped) => Outcome::Separated {
            pointer: Pointer::decode(&hit.value()[skipped..]),
            expires_ms: expires_ms(hit.kind, hit.value()),
        },
        Verdict::Malformed => Outcome::Malformed,
    }
}

/// One table's part in a lookup of many keys, between two steps.
struct Step<'v, 'g> {
    /// Which of the probes.
    probe: usize,
    table: &'v Table,
    cover: Option<Seqno>,
    span: Option<Span>,
    entered: Option<Entered<'g>>,
}

impl View {
    /// Looks `probe` up. `now_ms` is asked only if an expiring entry is met. `found` gets the
    /// newest version's hit and user value. `values` are the tree's, and only told what to expect.
    /// `here` is where this thread counts what the tree does.
    ///
    /// The caller took the view **before** choosing `probe.snapshot`, or has the snapshot
    /// registered: otherwise a compaction could have dropped the version that the snapshot sees.
    #[inline]
    pub fn lookup<R>(
        &self,
        probe: &Probe<'_>,
        values: &ValueFiles,
        here: Here<'_>,
        guard: &Guard,
        now_ms: impl Fn() -> u64,
        mut found: impl FnMut(&Hit<'_>, &[u8]) -> R,
    ) -> Result<Outcome<R>> {
        // The hash is known before the pointer: the value comes from memory beside its table.
        let apart = self.version.has_values_apart();
        if apart {
            values.expect(probe.hash);
        }
        if let Some(outcome) = self.lookup_in_memory(probe, &now_ms, &mut found) {
            return Ok(outcome);
        }
        let is_far = self.version.bytes() > NEAR_BYTES_MAX;
        for run in self.version.runs() {
            let Some((table, cover)) = part_of(run, probe)? else { continue };
            let level = run.level();
            let judge = |hit: Hit<'_>| outcome_of(hit, cover, &now_ms, &mut found);
            // One chain for both kinds of keyspaces: with one of its own for each, none is inlined.
            let outcome = match table.ask(here, level, probe, is_far) {
                Some(span) => {
                    if apart {
                        // Filter and index have taken as long as the place needs to come.
                        values.expect_value(probe.hash, guard);
                    }
                    let entered = table.enter(level, span, probe, guard)?;
                    table.finish(level, entered, probe, guard, judge)?
                }
                None => None,
            };
            if let Some(outcome) = outcome.or(cover.map(|_| Outcome::Absent)) {
                return Ok(outcome);
            }
        }
        Ok(Outcome::Absent)
    }

    /// [`View::lookup`] of many keys: what becomes of each is put in its place in `outcomes`.
    ///
    /// Every step (filter line, place in the cache, block, entry) is asked for on behalf of all
    /// keys before it is taken for the first, so the keys wait for memory together and not one
    /// after the other. Keys of a wave that follow on each other in a block share it: it is read
    /// once, even if the cache does not take it.
    pub fn lookup_many<R>(
        &self,
        probes: &[Probe<'_>],
        values: &ValueFiles,
        guard: &Guard,
        now_ms: impl Fn() -> u64,
        mut found: impl FnMut(usize, &Hit<'_>, &[u8]) -> R,
    ) -> Result<Vec<Outcome<R>>> {
        let mut outcomes: Vec<_> = probes
            .iter()
            .enumerate()
            .map(|(i, probe)| self.lookup_in_memory(probe, &now_ms, |hit, value| found(i, hit, value)))
            .collect();
        let mut open: Vec<_> = (0..probes.len()).filter(|&i| outcomes[i].is_none()).collect();
        let mut steps: Vec<Step<'_, '_>> = Vec::with_capacity(open.len().min(WAVE));
        if self.version.has_values_apart() {
            open.iter().for_each(|&i| values.expect(probes[i].hash));
        }
        for run in self.version.runs() {
            for wave in open.chunks(WAVE) {
                for &probe in wave {
                    let Some((table, cover)) = part_of(run, &probes[probe])? else { continue };
                    table.prefetch_filter(probes[probe].hash);
                    steps.push(Step { probe, table, cover, span: None, entered: None });
                }
                for step in &mut steps {
                    step.span = step.table.may_hold(run.level(), &probes[step.probe]);
                    step.span.inspect(|&span| step.table.prefetch_slot(span));
                }
                for step in &steps {
                    step.span.inspect(|&span| step.table.prefetch_block(span, guard));
                }
                let mut before: Option<usize> = None;
                for i in 0..steps.len() {
                    let Step { probe, table, span, .. } = steps[i];
                    let Some(span) = span else { continue };
                    let beside =
                        before.map(|before| &steps[before]).filter(|step| ptr::eq(step.table, table));
                    let (level, probe) = (run.level(), &probes[probe]);
                    let entered = match beside.and_then(|step| step.entered.as_ref()) {
                        Some(other) => table.enter_beside(level, span, probe, guard, other),
                        None => table.enter(level, span, probe, guard),
                    }?;
                    entered.prefetch_entry();
                    steps[i].entered = Some(entered);
                    before = Some(i);
                }
                for Step { probe, table, cover, entered, .. } in steps.drain(..) {
                    let mut outcome = None;
                    if let Some(entered) = entered {
                        let found = |hit: &Hit<'_>, value: &[u8]| found(probe, hit, value);
                        let f = |hit: Hit<'_>| outcome_of(hit, cover, &now_ms, found);
                        outcome = table.finish(run.level(), entered, &probes[probe], guard, f)?;
                    }
                    outcomes[probe] = outcome.or(cover.map(|_| Outcome::Absent));
                }
            }
            open.retain(|&i| outcomes[i].is_none());
            if open.is_empty() {
                break;
            }
        }
        Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Absent)).collect())
    }

    /// What the memtables say; `None` if they do not know the key.
    #[inline]
    fn lookup_in_memory<R>(
        &self,
        probe: &Probe<'_>,
        now_ms: impl Fn() -> u64,
        mut found: impl FnMut(&Hit<'_>, &[u8]) -> R,
    ) -> Option<Outcome<R>> {
        // Where most reads are, there often was no write since the last flush.
        if self.sealed.is_empty() && self.active.is_empty() {
            return None;
        }
        let mut ask = |memtable: &Memtable| {
            let cover = memtable.covering(probe.key, probe.snapshot);
            let outcome = memtable.lookup(probe, |hit| outcome_of(hit, cover, &now_ms, &mut found));
            outcome.or(cover.map(|_| Outcome::Absent))
        };
        // Mostly there is one memtable; a chained iterator costs as much as it does.
        match ask(&self.active) {
            None if self.sealed.is_empty() => None,
            None => self.sealed.iter().find_map(|memtable| ask(memtable)),
            outcome => outcome,
        }
    }
}

/// The table of `run` that may hold the probe's key, and its newest range tombstone over it.
#[inline(always)]
fn part_of<'v>(run: &'v Run, probe: &Probe<'_>) -> Result<Option<(&'v Table, Option<Seqno>)>> {
    let Some(table_ref) = run.find(probe.key) else { return Ok(None) };
    let table = table_ref.file().table()?;
    let cover = match table_ref.has_tombstones() {
        true => table.tombstones().covering(probe.key, probe.snapshot),
        false => None,
    };
    Ok(Some((table, cover)))
}

/// The error for an operand in a keyspace that has no operator.
pub(super) fn no_operator(keyspace: &str) -> Error {
    Error::Invalid(format!("keyspace {keyspace:?} has no merge operator; give it one with Db::keyspace_with"))
}
