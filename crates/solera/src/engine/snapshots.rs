//! What readers see: `Snapshots`, the newest visible number, and the moments that readers hold on
//! to.
//!
//! The commit order publishes numbers, and readers `hold` and `release` moments. Jobs ask for the
//! `horizon`: which old versions somebody can still see. When nothing is to do, `jobs` leaves word
//! which releases it waits for (`wait_for`).
//!
//! What must hold: the visible number only grows. A moment is read under the lock, so that a
//! compaction which does not see it began before. Nothing expires for a job that has not for an
//! open transaction.
//!
//! Callers: `core` publishes and releases, `ingest` publishes; `db::snapshot` and `rewrite` hold;
//! `store` and `job_parts` ask for horizons; `jobs` waits; `report` and `control::observe` count.

use crate::{
    canary::{Bug, planted},
    compaction::Horizon,
    ids::Seqno,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use std::collections::BTreeMap;

/// The newest visible number, and which moments are held, and how often.
pub(crate) struct Snapshots {
    /// Everything up to this number is visible to readers.
    visible: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    moments: BTreeMap<Seqno, Holders>,
    /// When the open transactions began, by the database's clock, and how many at each moment.
    began_ms: BTreeMap<u64, usize>,
    /// Compaction waits for the release of moments up to this one.
    awaited: Option<Seqno>,
}

/// Who holds a moment.
#[derive(Clone, Copy, Default)]
struct Holders {
    all: usize,
    /// Those of `all` that ask what has changed since.
    transactions: usize,
}

impl Snapshots {
    /// Begins with everything up to `visible` visible.
    pub(super) fn new(visible: Seqno) -> Self {
        Snapshots { visible: AtomicU64::new(visible), held: Mutex::default() }
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

    /// Holds the present moment, for somebody who only reads. It is read under the lock, so that a
    /// compaction which lists the snapshots either sees this one or began before anything that it
    /// could not see was visible.
    pub(crate) fn hold(&self) -> Seqno {
        self.hold_in(&mut self.held.lock(), false)
    }

    /// As [`Snapshots::hold`], for a transaction. `now_ms` is asked under the lock too: until the
    /// release nothing is dropped that has not expired by then. Returns both.
    pub(crate) fn hold_transaction(&self, now_ms: impl FnOnce() -> u64) -> (Seqno, u64) {
        let mut held = self.held.lock();
        let now_ms = now_ms();
        *held.began_ms.entry(now_ms).or_default() += 1;
        (self.hold_in(&mut held, true), now_ms)
    }

    fn hold_in(&self, held: &mut Held, is_transaction: bool) -> Seqno {
        let seqno = self.visible() + Seqno::from(planted(Bug::SnapshotTooNew));
        let holders = held.moments.entry(seqno).or_default();
        holders.all += 1;
        holders.transactions += usize::from(is_transaction);
        seqno
    }

    /// Gives back what was held; `began_ms` if it was for a transaction. Whether compaction waits
    /// for that.
    pub(super) fn release(&self, seqno: Seqno, began_ms: Option<u64>) -> bool {
        let mut held = self.held.lock();
        let is_transaction = began_ms.is_some();
        if let Some(began_ms) = began_ms
            && let Some(count) = held.began_ms.get_mut(&began_ms)
        {
            *count -= 1;
            if *count == 0 {
                held.began_ms.remove(&began_ms);
            }
        }
        let awaited = held.awaited.is_some_and(|awaited| seqno <= awaited);
        let Some(holders) = held.moments.get_mut(&seqno) else { return false };
        holders.all -= 1;
        holders.transactions -= usize::from(is_transaction);
        // While others hold the moment, less may be dropped; but no transaction asks any more.
        let told = holders.all == 0 || is_transaction && holders.transactions == 0;
        if holders.all == 0 {
            held.moments.remove(&seqno);
        }
        awaited && told
    }

    /// Who may see what now, by this clock. All of it is read under the lock.
    pub(super) fn horizon(&self, clock_ms: impl FnOnce() -> u64) -> Horizon {
        let held = self.held.lock();
        let clock_ms = clock_ms();
        let now_ms = held.began_ms.keys().next().map_or(clock_ms, |began_ms| clock_ms.min(*began_ms));
        let visible = self.visible();
        let asks = |holders: &&Holders| holders.transactions > 0;
        let mut transactions = held.moments.iter().filter(|(_, holders)| asks(holders));
        let oldest_transaction = transactions.next().map_or(visible, |(&seqno, _)| seqno);
        let snapshots = held.moments.keys().copied().collect();
        Horizon { snapshots, visible, oldest_transaction, now_ms, is_held_back: now_ms < clock_ms }
    }

    /// From now on the release of a moment up to `awaited` is told. `seen` is what the caller
    /// decided by: `false` if a moment that it lists, and that is waited for, was released since.
    pub(super) fn wait_for(&self, awaited: Option<Seqno>, seen: &Horizon) -> bool {
        let mut held = self.held.lock();
        held.awaited = awaited;
        let is_held = |seqno: &Seqno| held.moments.contains_key(seqno);
        seen.snapshots.iter().filter(|seqno| Some(**seqno) <= awaited).all(is_held)
    }

    /// How many snapshots, iterators and transactions hold a moment.
    pub(crate) fn count(&self) -> u64 {
        self.held.lock().moments.values().map(|holders| holders.all as u64).sum()
    }
}
