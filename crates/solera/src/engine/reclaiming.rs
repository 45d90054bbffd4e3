//! What is remembered of giving back the space of values, and who does it.
//!
//! Owns [`Reclaiming`], the memory, and [`Reclaimer`], which takes one step; the steps of each way
//! are in `reclaim`, `convert` and `rewrite`, and `compaction` decides. A step asks the rest of the
//! engine for four things, its [`Environment`]. Nothing of it is on disk: after a restart the
//! decision is made anew from what is there. Called by `jobs`.

use super::{
    census::Census, commit::Terms, options::Options, reads::Announcements, store::Store, work::Work,
};
use crate::{
    clock::Clock,
    compaction::{Horizon, Plan, Victims, Written},
    error::Result,
    ids::{FileId, KeyspaceId},
    sync::{
        ArcSwap, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    tree::Tree,
    wal::batch::BatchEncoder,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// At an excess of so many parts of a thousand a writer is held a nanosecond for each byte. An
/// eighth of the live values too much makes 12 of it: 80 MB a second.
const EXCESS_PER_NS: u64 = 10;

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

    /// Who may see what now.
    pub(super) fn horizon(&self) -> Horizon {
        self.store.horizon()
    }
}

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
