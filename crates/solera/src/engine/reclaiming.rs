//! What is remembered of giving back the space of values.
//!
//! Owns [`Reclaiming`]. `compaction::reclaim` decides, and the steps are in `reclaim`. Not on disk:
//! after a restart the decision is made anew from what is there.

use super::census::Census;
use crate::{
    compaction::Victims,
    ids::{FileId, KeyspaceId},
    sync::{
        ArcSwap, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use std::{collections::BTreeSet, time::Duration};

/// At an excess of so many parts of a thousand a writer is held a nanosecond for each byte. An
/// eighth of the live values too much makes 12 of it: 80 MB a second.
const EXCESS_PER_NS: u64 = 10;

/// What is being emptied, and how far that has come.
#[derive(Default)]
pub(crate) struct Reclaiming {
    /// The files whose values leave them: read by every job that begins.
    pub(super) victims: ArcSwap<Victims>,
    /// By how much value files take too much, in parts of a thousand of what is live: writers are
    /// slowed down for it.
    pub(super) excess_permille: AtomicU64,
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
    /// What tables point to.
    pub(super) census: Census,
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

impl Reclaiming {
    /// How many files live values are being moved out of.
    pub(super) fn leaving(&self) -> u64 {
        self.victims.load().iter().count() as u64 + self.at_work.load(Ordering::Relaxed)
    }

    /// Whether values are being moved or put again.
    pub(super) fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Relaxed) > 0
    }

    /// How long a writer of `bytes` is held, so that he does not fill the disk faster than space is
    /// given back.
    #[inline]
    pub(super) fn delay(&self, bytes: u64) -> Duration {
        match self.excess_permille.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            excess => Duration::from_nanos(bytes.saturating_mul(excess) / EXCESS_PER_NS),
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
