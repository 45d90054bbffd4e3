//! How hard writers are slowed when flush and compaction fall behind: `stall(Backlog, bytes) ->
//! Stall`, pure.
//!
//! `Backlog::of` a view counts sealed memtables and runs of level 0. `Stall` is: go on, wait so
//! long, or wait for work. The delay per KiB grows with the square of the way from a soft limit to
//! a hard one. These are 2 and 4 sealed memtables; or one and four run limits of level 0 beyond its
//! limit, or its patience if larger.
//!
//! What must hold: the delay rises with the backlog. A delay is at most `longest`: 90 ms, and as
//! much more for each 16 KiB, up to 5 s. So is a wait: then the writer goes on though still behind.
//! Where work has failed, a wait may last 2 s, and ends with that error. Without background threads
//! a writer does a step of the work instead.
//!
//! Callers: `Tree::stall`, which `engine::throttle` asks; `Tree` (`slows`); `engine::throttle`
//! (`longest`) and `engine::work` (`STALL_MAX`).

use super::View;
use std::time::Duration;

/// Longest that one write is held back while background work can progress, unless it is large.
pub const STALL_MAX: Duration = Duration::from_millis(90);
/// A write is held that long for each piece of so many bytes that it has begun. Else large ones
/// would fill the memory while the threads that flush are behind: one every 90 ms, of each thread.
const PIECE_BYTES: u64 = 16 << 10;
/// Longest that any write is held back.
const LONGEST: Duration = Duration::from_secs(5);

/// Longest that a write of so many bytes is held back while background work can progress.
pub fn longest(bytes: u64) -> Duration {
    let pieces = u32::try_from(bytes / PIECE_BYTES).unwrap_or(u32::MAX).saturating_add(1);
    STALL_MAX.saturating_mul(pieces).min(LONGEST)
}

/// Sealed memtables of one tree at which writers begin to slow. One is being flushed, one waits.
const SEALED_SOFT: u64 = 2;
/// Sealed memtables at which a writer waits for a flush.
const SEALED_HARD: u64 = 4;
/// Runs in level 0 beyond those at which it is due, as a multiple of its run limit, at which
/// writers begin to slow.
const RUNS_SOFT_FACTOR: u64 = 1;
/// Runs in level 0 beyond those at which it is due, as a multiple of its run limit, at which a
/// writer waits for a compaction.
const RUNS_HARD_FACTOR: u64 = 4;
/// Delay per written KiB at the hard limit; the delay grows with the square of how far past soft.
const DELAY_PER_KIB_MAX: Duration = Duration::from_micros(400);

/// What to do with a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// Let it pass.
    None,
    /// Hold it for this long.
    Delay(Duration),
    /// Hold it until background work has progressed, at most for the [`longest`] that it may be.
    Wait,
}

/// How far behind one tree is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backlog {
    /// Sealed memtables that wait for a flush.
    pub sealed: u64,
    /// Runs in level 0.
    pub level0_runs: u64,
    /// Run limit of level 0.
    pub level0_limit: u64,
    /// Runs that it may come to while reads have not paid for its merge, if that is more.
    pub level0_patience: u64,
}

impl Backlog {
    /// How far behind the tree is of which this is the view.
    pub fn of(view: &View) -> Backlog {
        Backlog {
            sealed: view.sealed.len() as u64,
            level0_runs: view.version.level(0).runs().len() as u64,
            level0_limit: u64::from(view.settings.shape.run_limit(0)),
            level0_patience: u64::from(view.settings.level0_patience),
        }
    }

    /// Whether any writer is slowed.
    pub fn slows(self) -> bool {
        stall(self, 1) != Stall::None
    }
}

/// What to do with a writer of `bytes` under this backlog.
pub fn stall(backlog: Backlog, bytes: u64) -> Stall {
    let limit = backlog.level0_limit.max(1);
    let due = limit.max(backlog.level0_patience);
    let (runs_soft, runs_hard) = (due + limit * RUNS_SOFT_FACTOR, due + limit * RUNS_HARD_FACTOR);
    if backlog.sealed >= SEALED_HARD || backlog.level0_runs >= runs_hard {
        return Stall::Wait;
    }
    let past = |value: u64, soft: u64, hard: u64| value.saturating_sub(soft) as f64 / (hard - soft) as f64;
    let pressure =
        past(backlog.sealed, SEALED_SOFT, SEALED_HARD).max(past(backlog.level0_runs, runs_soft, runs_hard));
    if pressure <= 0.0 {
        return Stall::None;
    }
    let kib = (bytes as f64 / 1024.0).max(0.05);
    let delay = DELAY_PER_KIB_MAX.mul_f64(pressure * pressure * kib);
    Stall::Delay(delay.min(longest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_slowed_more_the_further_behind_and_never_for_long() {
        let at = |level0_runs| stall(Backlog { level0_runs, level0_limit: 4, ..Backlog::default() }, 8 << 10);
        assert_eq!(at(4), Stall::None);
        assert_eq!(at(8), Stall::None);
        let delays: Vec<_> = (9..20)
            .map(|runs| match at(runs) {
                Stall::Delay(delay) => delay,
                other => panic!("{runs} runs: {other:?}"),
            })
            .collect();
        assert!(delays.is_sorted() && delays[0] > Duration::ZERO && *delays.last().unwrap() <= STALL_MAX);
        assert_eq!(at(20), Stall::Wait);
        assert_eq!(stall(Backlog { sealed: 4, level0_limit: 4, ..Backlog::default() }, 1), Stall::Wait);
        let patient = |level0_runs| {
            stall(Backlog { level0_runs, level0_limit: 4, level0_patience: 9, ..Backlog::default() }, 1)
        };
        assert_eq!((patient(13), patient(25)), (Stall::None, Stall::Wait));
        assert_ne!(patient(14), Stall::None);
    }

    #[test]
    fn a_large_write_may_be_held_for_longer() {
        assert_eq!([0, 100, (16 << 10) - 1].map(longest), [STALL_MAX; 3]);
        assert_eq!((longest(16 << 10), longest(u64::MAX)), (2 * STALL_MAX, LONGEST));
    }
}
