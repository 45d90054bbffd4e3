//! What is remembered of giving back the space of values (`Reclaiming`), and `Reclaimer`, which
//! does one step of it.
//!
//! The steps of each way are in `reclaim`, `convert` and `rewrite`; `compaction` decides. `delay`
//! says how long a writer is held, at most 50 ms: it must not fill the disk faster than space is
//! given back. LearnedKV's way holds no writer.
//!
//! What must hold: a step asks the rest of the engine for few things, its `Environment`. Nothing is
//! on disk: a restart decides anew from what is there.
//!
//! Callers: `jobs` (which is the `Environment`, and asks `delay` and `victims`), the three ways,
//! `job_parts` (`victims`), `core` (`leaving`); `open` makes it.

use super::{
    census::Census, commit::Terms, options::Options, reads::Announcements, store::Store, work::Work,
};
use crate::{
    clock::Clock,
    compaction::{Headroom, Horizon, Plan, Victims, Written},
    error::Result,
    ids::{FileId, KeyspaceId},
    sync::{
        ArcSwap, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    tree::Tree,
    wal::batch::BatchEncoder,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// While the headroom shrinks from the whole ramp to an eighth of it, what a writer is held for a
/// byte grows evenly, up to nearly so many nanoseconds: 8 MB a second. Most conversions end within
/// that, so no write is held for much longer than the others.
const EVEN_NS: u64 = 128;
/// In the last of so many parts of the ramp
const HARD_PARTS: u64 = 8;
/// it doubles so often: 1 MB a second in the end.
const HARD_DOUBLINGS: u64 = 3;
/// Longest that one write is held.
const HELD_MAX: Duration = Duration::from_millis(50);
/// More than any writer writes: with so much left, or half of it, writers are not held.
const UNBOUNDED: i64 = i64::MAX / 2;
const UNBOUNDED_MIN: i64 = UNBOUNDED / 2;

/// What giving back space asks of the rest of the engine.
pub(super) trait Environment {
    /// Brings all that was written to `trees` into tables, and begins a log for what is written
    /// from now on. Logs of which all is in tables are gone then, unless values in them are live.
    fn freeze(&self, trees: &[Arc<Tree>]) -> Result<()>;

    /// Brings what is in memory of `tree` into tables.
    fn flush(&self, tree: &Arc<Tree>) -> Result<()>;

    /// Carries `plan` out and installs the result; the values of `victims` move.
    fn carry_out(&self, tree: &Arc<Tree>, plan: &Plan, victims: Victims) -> Result<Written>;

    /// Commits values that are put again.
    fn put(&self, encoder: BatchEncoder, terms: Terms) -> Result<()>;

    /// Bytes of the logs that recovery needs.
    fn log_bytes(&self) -> u64;

    /// Bytes of one write buffer.
    fn write_buffer_bytes(&self) -> u64;
}

/// Takes a step of giving back the space of values.
pub(super) struct Reclaimer<'c> {
    pub(super) options: &'c Options,
    pub(super) store: &'c Store,
    pub(super) work: &'c Work,
    pub(super) reclaiming: &'c Reclaiming,
    /// Where a put again says what it has read.
    pub(super) announcements: &'c Announcements,
    pub(super) rest: &'c dyn Environment,
}

impl Reclaimer<'_> {
    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.options.clock
    }

    /// All trees.
    pub(super) fn trees(&self) -> Vec<Arc<Tree>> {
        self.store.catalog.trees()
    }

    /// What readers may see now.
    pub(super) fn horizon(&self) -> Horizon {
        self.store.horizon()
    }
}

/// What is being emptied, and how far that has come.
pub(crate) struct Reclaiming {
    /// The files whose values leave them: read by every job that begins.
    pub(super) victims: ArcSwap<Victims>,
    /// What writers may write, and from where on they are slowed down, as of the last look.
    headroom: AtomicI64,
    ramp: AtomicU64,
    /// How many files conversions or rewriting that is going on move values out of besides.
    pub(super) at_work: AtomicU64,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    /// Tables that point to no file that is rewritten.
    pub(super) clean: BTreeSet<FileId>,
    /// Keyspaces that the present conversion is done with.
    pub(super) converted: BTreeSet<KeyspaceId>,
    /// Files that cannot be emptied: values in them cannot be read.
    pub(super) spared: BTreeSet<FileId>,
    /// Files that `rewrite` leaves alone, since it would give too little back, until at most so
    /// many bytes of each are live.
    pub(super) unworthy: BTreeMap<FileId, u64>,
    /// What tables point to.
    pub(super) census: Census,
    /// The files that conversions empty, range by range.
    pub(super) emptied: BTreeSet<FileId>,
    /// What is too much cannot be given back now: a snapshot holds it, or damage.
    pub(super) is_stuck: bool,
    /// Bytes that running conversions are about to write.
    pub(super) moving: u64,
    /// Files whose values were put again, to which old pointers lead still; and whether that is
    /// going on.
    pub(super) rewritten: BTreeSet<FileId>,
    /// Their bytes, since tables were last merged for them, and whether new pointers are in memory
    /// still.
    pub(super) rewritten_bytes: u64,
    pub(super) is_unflushed: bool,
    pub(super) is_rewriting: bool,
    /// Failures in a row, and until when nothing is tried, by the monotonic clock.
    pub(super) failures: u32,
    pub(super) rests_until_ns: u64,
}

impl Default for Reclaiming {
    fn default() -> Reclaiming {
        Reclaiming {
            victims: ArcSwap::default(),
            headroom: AtomicI64::new(UNBOUNDED),
            ramp: AtomicU64::new(0),
            at_work: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }
}

impl Reclaiming {
    /// How many files live values are being moved out of.
    pub(crate) fn leaving(&self) -> u64 {
        self.victims.load().iter().count() as u64 + self.at_work.load(Ordering::Relaxed)
    }

    /// Whether values are being moved or put again.
    pub(super) fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) > 0
    }

    /// Writers may write so much until they are told again.
    pub(super) fn allow(&self, headroom: Headroom) {
        self.ramp.store(headroom.ramp, Ordering::Relaxed);
        self.headroom.store(headroom.bytes.min(UNBOUNDED_MIN - 1), Ordering::Relaxed);
    }

    /// Writers are not held for the space of values.
    pub(super) fn allow_all(&self) {
        self.headroom.store(UNBOUNDED, Ordering::Relaxed);
    }

    /// How long a writer of `bytes` is held, so that it does not fill the disk faster than space is
    /// given back.
    #[inline]
    pub(super) fn delay(&self, bytes: u64) -> Duration {
        match self.headroom.load(Ordering::Relaxed) {
            UNBOUNDED_MIN.. => Duration::ZERO,
            _ => self.delay_of(bytes),
        }
    }

    fn delay_of(&self, bytes: u64) -> Duration {
        let taken = i64::try_from(bytes).unwrap_or(UNBOUNDED_MIN);
        let left = self.headroom.fetch_sub(taken, Ordering::Relaxed).saturating_sub(taken);
        let ramp = self.ramp.load(Ordering::Relaxed);
        let missing = ramp.saturating_sub(u64::try_from(left).unwrap_or(0));
        match missing {
            0 if left > 0 => Duration::ZERO,
            _ => held(bytes, missing, ramp),
        }
    }

    /// Counts `files` that values are moved out of until the result is dropped.
    pub(super) fn begin(&self, files: u64) -> AtWork<'_> {
        self.at_work.fetch_add(files, Ordering::Relaxed);
        AtWork { reclaiming: self, files }
    }

    /// The files whose values a job moves that begins now.
    pub(super) fn victims(&self) -> Victims {
        Victims::clone(&self.victims.load())
    }
}

/// How long a writer of `bytes` is held when `missing` bytes of the ramp are used up.
fn held(bytes: u64, missing: u64, ramp: u64) -> Duration {
    // In 1/1024 of the ramp.
    const PARTS: u128 = 1024;
    let missing = (u128::from(missing) * PARTS).checked_div(u128::from(ramp)).unwrap_or(PARTS);
    let hard = PARTS - PARTS / u128::from(HARD_PARTS);
    let even_ns = u128::from(bytes) * u128::from(EVEN_NS);
    let ns = match missing.checked_sub(hard) {
        None => even_ns * missing / PARTS,
        Some(over) => {
            let doublings = over * u128::from(HARD_PARTS * HARD_DOUBLINGS) / PARTS;
            even_ns << doublings
        }
    };
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)).min(HELD_MAX)
}

/// Keeps files counted that values are moved out of.
pub(super) struct AtWork<'r> {
    reclaiming: &'r Reclaiming,
    files: u64,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.reclaiming.at_work.fetch_sub(self.files, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_held_the_longer_the_less_room_is_left_and_never_longer_than_the_most() {
        let reclaiming = Reclaiming::default();
        assert_eq!(reclaiming.delay(1 << 30), Duration::ZERO, "nothing was told yet");
        reclaiming.allow(Headroom { bytes: 200_000, ramp: 100_000 });
        let held: Vec<Duration> = (0..30).map(|_| reclaiming.delay(10_000)).collect();
        assert!(held[..10].iter().all(Duration::is_zero), "{held:?}");
        assert!(held.is_sorted() && !held[11].is_zero(), "{held:?}");
        // The room is used up: a megabyte a second from now on.
        assert_eq!(held[20..], vec![Duration::from_nanos((10_000 * EVEN_NS) << HARD_DOUBLINGS); 10]);
        assert_eq!(reclaiming.delay(1 << 30), HELD_MAX);
        reclaiming.allow_all();
        assert_eq!(reclaiming.delay(1 << 40), Duration::ZERO);
        assert_eq!(reclaiming.delay(1 << 40), Duration::ZERO);
    }

    /// Symptom: one write in a hundred was held for half a millisecond while values moved. Cause:
    /// what a byte is held for doubled with each tenth of the ramp. So the last few writes paid for
    /// nearly all of the time that a conversion took. Cure: it grows evenly.
    #[test]
    fn what_a_conversion_takes_is_paid_for_by_all_writes_of_its_time() {
        const WRITE: u64 = 1024;
        const RAMP: u64 = 3200 * WRITE;
        for conversion_ms in [50, 100, 150] {
            let (mut taken, mut paid, mut longest) = (0, Duration::ZERO, Duration::ZERO);
            while paid < Duration::from_millis(conversion_ms) {
                taken += WRITE;
                assert!(taken <= RAMP, "it ends in time");
                longest = held(WRITE, taken, RAMP);
                paid += longest;
            }
            assert!(longest < Duration::from_micros(132), "{longest:?} for {conversion_ms} ms");
        }
    }

    #[test]
    fn a_bound_however_wide_holds_nobody_who_is_far_from_it() {
        let reclaiming = Reclaiming::default();
        reclaiming.allow(Headroom { bytes: i64::MAX, ramp: 0 });
        assert_eq!(reclaiming.delay(1 << 40), Duration::ZERO);
    }
}
