//! Slowing writers down when flush, compaction or giving back the space of values is behind:
//! `Throttle::admit`. `Tree::stall` and `Reclaiming::delay` say how long; the longer counts.
//!
//! `Delays` adds up what is too short to sleep, to a millisecond (docs/decisions/0017), or to 100
//! µs where giving back space sets the pace of all writes. A writer that must wait for work is held
//! by `Work::hold_writer`.
//!
//! What must hold: what a sleep took too long counts against later delays, up to 2 ms. Without
//! background threads a writer does one step of the work and does not sleep.
//!
//! Caller: `jobs`' `throttle`: before a write, for each tree, and before an ingest whose keys level
//! 0 may hold.

use super::work::Work;
use crate::{
    clock::Clock,
    error::Result,
    sync::atomic::{AtomicI64, Ordering},
    tree::{
        Tree,
        stall::{Stall, longest},
    },
};
use std::{sync::Arc, time::Duration};

/// Delays are added up to this before a writer sleeps: many times what the system sleeps too long,
/// so that few writes sleep. One in a thousand is what users look at.
const SLEEP_NS_MIN: i64 = 1_000_000;
/// With delays of so much, more than one write in a hundred would sleep for a millisecond, which is
/// what users look at, too.
const MANY_NS: i64 = SLEEP_NS_MIN / 100;
/// Then more writes sleep, each for so long at least. The system wakes them 50 µs late.
const SLEEP_EVEN_NS_MIN: i64 = 100_000;
/// What was slept too long counts against later delays, up to this at a time.
const CREDIT_NS_MAX: i64 = 2_000_000;

/// What writers are to be held for and have not slept yet, in nanoseconds; below 0 if they have
/// slept longer. A write of a hundred bytes is held for some microseconds, and the system wakes no
/// sleeper before some fifty more have passed: held one by one, writes would be ten to a hundred
/// times as slow as they ought to be.
#[derive(Debug, Default)]
struct Delays {
    owed_ns: AtomicI64,
}

impl Delays {
    /// Adds `delay`. Returns what the caller is to sleep, if that is long enough, and reports with
    /// [`Delays::slept`]: of small delays all that is owed, of a long one what is left of it when
    /// what was slept too long is taken off.
    /// `is_even`: where many writes would sleep so, each sleeps less.
    fn owe(&self, delay: Duration, is_even: bool) -> Option<Duration> {
        let delay = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX / 2);
        let least = if is_even && delay >= MANY_NS { SLEEP_EVEN_NS_MIN } else { SLEEP_NS_MIN };
        let mut sleep = 0;
        let owe = |owed: i64| {
            // A writer with a long delay sleeps it itself, and no other writer does.
            let due = delay + if delay < least { owed } else { owed.min(0) };
            sleep = if due < least { 0 } else { due };
            Some(owed + delay - sleep)
        };
        let _ = self.owed_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, owe);
        u64::try_from(sleep).ok().filter(|&sleep| sleep > 0).map(Duration::from_nanos)
    }

    /// Counts what was slept longer than `asked`.
    fn slept(&self, asked: Duration, slept: Duration) {
        let longer = slept.saturating_sub(asked).as_nanos();
        let longer = i64::try_from(longer).unwrap_or(CREDIT_NS_MAX).min(CREDIT_NS_MAX);
        let count = |owed: i64| Some((owed - longer).max(-CREDIT_NS_MAX));
        let _ = self.owed_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
    }
}

/// Holds writers, by this clock.
pub(super) struct Throttle {
    delays: Delays,
    clock: Arc<dyn Clock>,
    /// No worker does the work: writers do it.
    is_alone: bool,
}

impl Throttle {
    /// No delay is owed yet. `is_alone`: there are no background threads.
    pub(super) fn new(clock: Arc<dyn Clock>, is_alone: bool) -> Self {
        Throttle { delays: Delays::default(), clock, is_alone }
    }

    /// Slows a writer of `bytes` down when flush and compaction are behind, and holds the writer
    /// for `at_least` so long. Where there are no background threads, `step` does some of the work.
    #[inline]
    pub(super) fn admit(
        &self,
        tree: &Tree,
        bytes: u64,
        at_least: Duration,
        work: &Work,
        step: impl FnOnce() -> Result<bool>,
    ) -> Result<()> {
        let stall = tree.stall(bytes);
        // Giving back space sets the pace of all writes for long; other stalls pass.
        let is_even =
            matches!(stall, Stall::None) || matches!(stall, Stall::Delay(delay) if delay < at_least);
        let stalled = match stall {
            Stall::None if at_least.is_zero() => Stall::None,
            Stall::None => Stall::Delay(at_least),
            Stall::Delay(delay) => Stall::Delay(delay.max(at_least)),
            Stall::Wait => Stall::Wait,
        };
        match stalled {
            Stall::None => Ok(()),
            // Without threads of its own the database has its writers do the work, however small
            // the delay.
            Stall::Delay(delay) if !self.is_alone => {
                if let Some(delay) = self.delays.owe(delay, is_even) {
                    self.hold(tree, bytes, Stall::Delay(delay), work, step)?;
                }
                Ok(())
            }
            stalled => self.hold(tree, bytes, stalled, work, step),
        }
    }

    /// Holds a writer while memtables are too many, until a flush has ended, at most for so long.
    #[cold]
    pub(super) fn await_flush(
        &self,
        tree: &Tree,
        at_most: Duration,
        work: &Work,
        are_too_many: impl Fn() -> bool,
    ) -> Result<()> {
        let start = self.clock.monotonic_ns();
        let elapsed = || Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(start));
        let held = work.hold_writer(tree, are_too_many, at_most, elapsed);
        tree.context.stats.stalled(elapsed().as_micros() as u64);
        held
    }

    #[cold]
    fn hold(
        &self,
        tree: &Tree,
        bytes: u64,
        first: Stall,
        work: &Work,
        step: impl FnOnce() -> Result<bool>,
    ) -> Result<()> {
        let start = self.clock.monotonic_ns();
        // A simulated clock may be set back.
        let elapsed = || Duration::from_nanos(self.clock.monotonic_ns().saturating_sub(start));
        if self.is_alone {
            // No worker does the work: the writer does one step of it.
            step()?;
        } else {
            match first {
                Stall::None => {}
                Stall::Delay(delay) => {
                    self.clock.sleep(delay);
                    self.delays.slept(delay, elapsed());
                }
                Stall::Wait => {
                    let is_behind = || tree.stall(bytes) == Stall::Wait;
                    work.hold_writer(tree, is_behind, longest(bytes), elapsed)?;
                }
            }
        }
        tree.context.stats.stalled(elapsed().as_micros() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: Duration = Duration::from_micros(1);

    #[test]
    fn small_delays_are_slept_together_and_what_is_slept_too_long_counts() {
        let delays = Delays::default();
        let mut slept = Duration::ZERO;
        let mut sleeps = 0;
        for _ in 0..100_000 {
            if let Some(delay) = delays.owe(MICRO, false) {
                // As systems do: fifty microseconds too long.
                let longer = delay + 50 * MICRO;
                delays.slept(delay, longer);
                (slept, sleeps) = (slept + longer, sleeps + 1);
            }
        }
        assert!((99_000..=100_050).contains(&slept.as_micros()), "{slept:?} for 100 ms");
        assert!((90..=100).contains(&sleeps), "{sleeps} sleeps of 1.05 ms");
    }

    #[test]
    fn where_all_writes_are_held_evenly_more_of_them_sleep_each_for_less() {
        for (delay, is_even, longest, count) in
            [(30, true, 130, 600..=1000), (30, false, 1030, 80..=100), (2, true, 1002, 5..=7)]
        {
            let (delays, mut sleeps) = (Delays::default(), Vec::new());
            for _ in 0..3000 {
                if let Some(sleep) = delays.owe(delay * MICRO, is_even) {
                    delays.slept(sleep, sleep);
                    sleeps.push(sleep);
                }
            }
            assert!(sleeps.iter().all(|sleep| *sleep < longest * MICRO), "{sleeps:?}");
            assert!(count.contains(&sleeps.len()), "{} sleeps for {delay} µs each", sleeps.len());
            let slept: Duration = sleeps.iter().sum();
            assert!(slept <= 3000 * delay * MICRO && slept + longest * MICRO >= 3000 * delay * MICRO);
        }
    }

    #[test]
    fn a_long_delay_is_slept_at_once_and_one_long_sleep_lets_few_others_pass() {
        let delays = Delays::default();
        assert_eq!(delays.owe(7_000 * MICRO, false), Some(7_000 * MICRO));
        delays.slept(7_000 * MICRO, Duration::from_secs(3600));
        assert_eq!(delays.owe(2_000 * MICRO, false), None);
        assert_eq!(delays.owe(2_000 * MICRO, false), Some(2_000 * MICRO));
    }
}
