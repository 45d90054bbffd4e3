//! What readers see: `Snapshots`, the newest visible number, and the `Moment`s that readers hold.
//!
//! Commits `publish` numbers; readers `hold` moments and `release` them. Jobs ask for the
//! `horizon`: what old versions readers may still see. `wait_for` says which releases wake workers.
//!
//! What must hold: `visible` only grows. `hold` reads it under its lane's lock, `horizon` under
//! all. So a moment that is held later is not below the horizon's `visible`. Its `now_ms` is not
//! after the beginning of any open transaction.
//!
//! Callers: `core` publishes and releases, `ingest` publishes; `db::snapshot`, `db::iterator` and
//! `rewrite` hold; `store` and `job_parts` ask for horizons; `jobs` waits; `report` and
//! `control::observe` count.

use crate::{
    canary::{Bug, planted},
    compaction::Horizon,
    ids::Seqno,
    stats::lane_of_this_thread,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
};
use std::collections::{BTreeMap, VecDeque};

/// Threads that hold moments do so in one of so many places: every iterator holds one, and threads
/// that wrote to one place would wait for its cache line.
const LANES: usize = 8;

/// Moments that no reader holds any more, and that lie between others, are swept out when there are
/// so many more of them than of held ones.
const GAPS_MAX: usize = 64;

/// The newest visible number, and which moments are held, and how often.
pub(crate) struct Snapshots {
    /// Everything up to this number is visible to readers.
    visible: AtomicU64,
    lanes: [Lane; LANES],
}

/// What threads of one lane hold, on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Lane(Mutex<Held>);

/// A moment that a reader holds, to be given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    seqno: Seqno,
    lane: u32,
    /// When it began by the database's clock, if it is a transaction's.
    began_ms: Option<u64>,
}

impl Moment {
    /// Everything up to this number is seen.
    #[inline]
    pub(crate) fn seqno(self) -> Seqno {
        self.seqno
    }

    /// When it began, in Unix milliseconds, if it is a transaction's. Nothing expires for that one
    /// later.
    pub(crate) fn began_ms(self) -> Option<u64> {
        self.began_ms
    }
}

#[derive(Default)]
struct Held {
    /// By number, ascending. A new one is the last, since the visible number only grows.
    moments: VecDeque<(Seqno, Holders)>,
    /// Those of `moments` that no reader holds.
    gaps: usize,
    /// When the open transactions began, by the database's clock, and how many at each moment.
    began_ms: BTreeMap<u64, usize>,
    /// Compaction waits for the release of moments up to this one.
    awaited: Option<Seqno>,
}

/// How many readers hold a moment.
#[derive(Clone, Copy, Default)]
struct Holders {
    all: usize,
    /// Those of `all` that ask what has changed since.
    transactions: usize,
}

impl Held {
    fn hold(&mut self, seqno: Seqno, began_ms: Option<u64>) {
        if let Some(began_ms) = began_ms {
            *self.began_ms.entry(began_ms).or_default() += 1;
        }
        if self.moments.back().is_none_or(|&(last, _)| last != seqno) {
            debug_assert!(self.moments.back().is_none_or(|&(last, _)| last < seqno));
            self.moments.push_back((seqno, Holders::default()));
        } else if self.moments.back().is_some_and(|(_, holders)| holders.all == 0) {
            self.gaps -= 1;
        }
        if let Some((_, holders)) = self.moments.back_mut() {
            holders.all += 1;
            holders.transactions += usize::from(began_ms.is_some());
        }
    }

    /// Whether compaction waits for that.
    fn release(&mut self, seqno: Seqno, began_ms: Option<u64>) -> bool {
        let is_transaction = began_ms.is_some();
        if let Some(began_ms) = began_ms
            && let Some(count) = self.began_ms.get_mut(&began_ms)
        {
            *count -= 1;
            if *count == 0 {
                self.began_ms.remove(&began_ms);
            }
        }
        let Ok(at) = self.moments.binary_search_by_key(&seqno, |&(seqno, _)| seqno) else { return false };
        let holders = &mut self.moments[at].1;
        holders.all -= 1;
        holders.transactions -= usize::from(is_transaction);
        // While other readers hold the moment, less may be dropped; but no transaction asks any
        // more.
        let told = holders.all == 0 || is_transaction && holders.transactions == 0;
        if holders.all == 0 {
            self.gaps += 1;
            self.sweep();
        }
        told && self.awaited.is_some_and(|awaited| seqno <= awaited)
    }

    /// Forgets moments that no reader holds: at both ends at once, between others when they are
    /// many.
    fn sweep(&mut self) {
        let is_gap = |entry: Option<&(Seqno, Holders)>| entry.is_some_and(|(_, holders)| holders.all == 0);
        while is_gap(self.moments.back()) {
            self.moments.pop_back();
            self.gaps -= 1;
        }
        while is_gap(self.moments.front()) {
            self.moments.pop_front();
            self.gaps -= 1;
        }
        if self.gaps > self.moments.len() / 2 + GAPS_MAX {
            self.moments.retain(|(_, holders)| holders.all > 0);
            self.gaps = 0;
        }
    }

    /// What is held, by number, ascending.
    fn held(&self) -> impl Iterator<Item = (Seqno, Holders)> {
        self.moments.iter().copied().filter(|(_, holders)| holders.all > 0)
    }

    fn holds(&self, seqno: Seqno) -> bool {
        let found = self.moments.binary_search_by_key(&seqno, |&(seqno, _)| seqno);
        found.is_ok_and(|at| self.moments[at].1.all > 0)
    }
}

impl Snapshots {
    /// Begins with everything up to `visible` visible.
    pub(super) fn new(visible: Seqno) -> Self {
        Snapshots { visible: AtomicU64::new(visible), lanes: Default::default() }
    }

    /// The newest number that readers see.
    #[inline]
    pub(crate) fn visible(&self) -> Seqno {
        self.visible.load(Ordering::Acquire)
    }

    /// Makes everything up to `seqno` visible. Under the commit lock.
    pub(super) fn publish(&self, seqno: Seqno) {
        assert!(self.visible.load(Ordering::Relaxed) < seqno, "numbers become visible in their order");
        self.visible.store(seqno, Ordering::Release);
    }

    /// Holds the present moment, for a caller that only reads. It is read under the lock, so that a
    /// compaction which lists the snapshots either sees this one or began before anything that it
    /// could not see was visible.
    pub(crate) fn hold(&self) -> Moment {
        self.hold_from(|| None)
    }

    /// As [`Snapshots::hold`], for a transaction. `now_ms` is asked under the lock too: until the
    /// release nothing is dropped that has not expired by then.
    pub(crate) fn hold_transaction(&self, now_ms: impl FnOnce() -> u64) -> Moment {
        self.hold_from(|| Some(now_ms()))
    }

    #[inline]
    fn hold_from(&self, began_ms: impl FnOnce() -> Option<u64>) -> Moment {
        let lane = lane_of_this_thread(LANES);
        let mut held = self.lanes[lane].0.lock();
        let began_ms = began_ms();
        let seqno = self.visible() + Seqno::from(planted(Bug::SnapshotTooNew));
        held.hold(seqno, began_ms);
        Moment { seqno, lane: lane as u32, began_ms }
    }

    /// Gives back what was held, on whatever thread. Whether compaction waits for that; it may be
    /// told so too while other readers hold the moment.
    pub(super) fn release(&self, moment: Moment) -> bool {
        let Moment { seqno, lane, began_ms } = moment;
        self.lanes[lane as usize].0.lock().release(seqno, began_ms)
    }

    /// Everything that is held: no thread holds or releases meanwhile. Locked in the order of
    /// lanes.
    fn all(&self) -> [MutexGuard<'_, Held>; LANES] {
        self.lanes.each_ref().map(|lane| lane.0.lock())
    }

    /// What readers may see now, by this clock. All of it is read under the locks.
    pub(super) fn horizon(&self, clock_ms: impl FnOnce() -> u64) -> Horizon {
        let all = self.all();
        let clock_ms = clock_ms();
        let began_ms = all.iter().filter_map(|held| held.began_ms.keys().next().copied()).min();
        let now_ms = began_ms.map_or(clock_ms, |began_ms| clock_ms.min(began_ms));
        let visible = self.visible();
        let mut moments: Vec<(Seqno, Holders)> = all.iter().flat_map(|held| held.held()).collect();
        drop(all);
        moments.sort_unstable_by_key(|&(seqno, _)| seqno);
        let oldest_transaction = moments.iter().find(|(_, holders)| holders.transactions > 0);
        let oldest_transaction = oldest_transaction.map_or(visible, |&(seqno, _)| seqno);
        let mut snapshots: Vec<Seqno> = moments.into_iter().map(|(seqno, _)| seqno).collect();
        snapshots.dedup();
        Horizon { snapshots, visible, oldest_transaction, now_ms, is_held_back: now_ms < clock_ms }
    }

    /// From now on the release of a moment up to `awaited` is told. `seen` is what the caller
    /// decided by: `false` if a moment that it lists, and that is waited for, was released since.
    pub(super) fn wait_for(&self, awaited: Option<Seqno>, seen: &Horizon) -> bool {
        let mut all = self.all();
        all.iter_mut().for_each(|held| held.awaited = awaited);
        let is_held = |seqno: &Seqno| all.iter().any(|held| held.holds(*seqno));
        seen.snapshots.iter().filter(|seqno| Some(**seqno) <= awaited).all(is_held)
    }

    /// How many snapshots, iterators and transactions hold a moment.
    pub(crate) fn count(&self) -> u64 {
        self.all().iter().flat_map(|held| held.held()).map(|(_, holders)| holders.all as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_counts_until_all_who_hold_it_have_given_it_back_in_whatever_order_and_on_whatever_thread() {
        let snapshots = Snapshots::new(1);
        let mut held: Vec<Moment> = Vec::new();
        let mut truth: BTreeMap<Seqno, u64> = BTreeMap::new();
        let mut random = 7u64;
        for step in 0..4000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            match random >> 60 {
                0..5 => snapshots.publish(step + 2),
                5..11 => {
                    let hold = || match random >> 59 & 1 {
                        0 => snapshots.hold_transaction(|| step),
                        _ => snapshots.hold(),
                    };
                    // Threads that live at the same time have lanes of their own.
                    let moment = match random >> 58 & 1 {
                        0 => hold(),
                        _ => std::thread::scope(|scope| scope.spawn(hold).join().unwrap()),
                    };
                    *truth.entry(moment.seqno()).or_default() += 1;
                    held.push(moment);
                }
                _ if held.is_empty() => {}
                _ => {
                    let moment = held.swap_remove((random >> 30) as usize % held.len());
                    snapshots.release(moment);
                    let count = truth.get_mut(&moment.seqno()).unwrap();
                    *count -= 1;
                    if *count == 0 {
                        truth.remove(&moment.seqno());
                    }
                }
            }
            let horizon = snapshots.horizon(|| step);
            let began_ms = held.iter().filter_map(|moment| moment.began_ms()).min();
            assert_eq!(horizon.now_ms, began_ms.unwrap_or(step));
            assert_eq!(horizon.is_held_back, horizon.now_ms < step);
            assert!(horizon.snapshots.iter().eq(truth.keys()));
            assert_eq!(snapshots.count(), truth.values().sum::<u64>());
            let transactions = held.iter().filter(|moment| moment.began_ms().is_some());
            let oldest = transactions.map(|moment| moment.seqno()).min();
            assert_eq!(horizon.oldest_transaction, oldest.unwrap_or(horizon.visible));
        }
        for moment in held {
            snapshots.release(moment);
        }
        assert_eq!(snapshots.count(), 0);
        assert!(
            snapshots
                .all()
                .iter()
                .all(|held| held.moments.is_empty() && held.gaps == 0 && held.began_ms.is_empty())
        );
    }

    #[test]
    fn who_waits_for_a_moment_is_told_when_it_is_released_and_when_it_was_before() {
        let snapshots = Snapshots::new(5);
        let (first, second) = (snapshots.hold(), snapshots.hold());
        let seen = snapshots.horizon(|| 0);
        assert!(snapshots.wait_for(Some(5), &seen));
        assert!(!snapshots.release(first), "another one holds it");
        assert!(snapshots.release(second));
        assert!(!snapshots.wait_for(Some(5), &seen), "it was released since");
    }
}
