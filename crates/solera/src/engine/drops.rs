//! When to clean up after keyspaces that were dropped: `Drops` counts those after which the cache
//! was not fitted and logs were not let go.
//!
//! Cleaning up looks at all trees. A user that drops very many keyspaces, one by one, would do that
//! each time. So `add` lets drops wait until there is one for every sixteen trees that are left
//! (`Then::Look`). What still waits 100 ms after the last drop is for a worker (`take`, `next`).
//!
//! What must hold: after a drop, the user's thread or a worker cleans up. Until then the cache is
//! smaller than it could be, and logs stay.
//!
//! Callers: `handle` (a drop), `jobs` (`give_back`, `wait_idle`), `workers` (when to look again).

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Drops wait for others until there are as many as one in so many of the trees.
const TREES_PER_DROP: usize = 16;
/// So long after the last drop, those that wait do not wait for others any more.
const WAIT: Duration = Duration::from_millis(100);

/// How many keyspaces were dropped since all trees were last looked at, and when the last one was.
#[derive(Default)]
pub(super) struct Drops {
    waiting: AtomicUsize,
    last_ns: AtomicU64,
}

/// What a drop is followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// All trees are to be looked at now.
    Look,
    /// A worker is to be told that drops wait.
    Tell,
    /// They wait already.
    Wait,
}

impl Drops {
    /// So many keyspaces were `dropped` at `now_ns`, and `trees` are left.
    pub(super) fn add(&self, dropped: usize, trees: usize, now_ns: u64) -> Then {
        if dropped == 0 {
            return Then::Wait;
        }
        self.last_ns.store(now_ns, Ordering::Relaxed);
        match self.waiting.fetch_add(dropped, Ordering::AcqRel) {
            before if (before + dropped) * TREES_PER_DROP >= trees => Then::Look,
            0 => Then::Tell,
            _ => Then::Wait,
        }
    }

    /// Takes all that wait; the caller looks at all trees. False: none waits, or the last came less
    /// than a while ago.
    pub(super) fn take(&self, now_ns: u64) -> bool {
        self.next(now_ns).is_some_and(|left| left.is_zero()) && self.take_all()
    }

    /// As [`Drops::take`], without regard to the time.
    pub(super) fn take_all(&self) -> bool {
        self.waiting.swap(0, Ordering::AcqRel) > 0
    }

    /// How long those that wait still do; `None`: none waits.
    pub(super) fn next(&self, now_ns: u64) -> Option<Duration> {
        let since = Duration::from_nanos(now_ns.saturating_sub(self.last_ns.load(Ordering::Relaxed)));
        (self.waiting.load(Ordering::Acquire) > 0).then(|| WAIT.saturating_sub(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_followed_by_a_look_at_all_trees_now_and_then_and_none_is_left_over() {
        let drops = Drops::default();
        assert_eq!(drops.add(1, 10, 0), Then::Look, "few trees");
        assert!(drops.take_all() && !drops.take_all());
        assert_eq!(drops.add(0, 0, 0), Then::Wait, "nothing was dropped");
        assert_eq!(drops.add(700, 10_000, 0), Then::Look, "many at once");
        assert!(drops.take_all());
        let (mut looks, mut told) = (0, 0);
        for trees in (0..10_000).rev() {
            match drops.add(1, trees, 1_000_000_000) {
                Then::Look => looks += usize::from(drops.take_all()),
                Then::Tell => told += 1,
                Then::Wait => {}
            }
        }
        assert!(looks < 200 && told <= looks + 1, "{looks} looks, {told} calls");
        assert_eq!(drops.add(1, 10_000, 1_000_000_000), Then::Tell);
        assert!(!drops.take(1_000_000_000), "others may follow");
        assert_eq!(drops.next(1_060_000_000), Some(Duration::from_millis(40)));
        assert!(drops.take(1_100_000_000) && drops.next(2_000_000_000).is_none());
    }
}
