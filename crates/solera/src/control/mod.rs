//! Seeing what the database does, and changing how it is kept while it runs: `Control`
//! (docs/decisions/0010). `observe` says what happens, `ranges` what may be set, `apply` sets,
//! `history` tells what was set, `publish` shows it to other processes, `trace` records operations.
//! `render` and `record` make text and bytes of an observation.
//! What must hold of a change:
//! - Bounded: one that is not legal is refused with what is. It never changes an answer.
//! - Lazy: one record of the manifest. The cache takes its new size at once. Files are written anew
//!   by later flushes and compactions.
//! - Durable: in force after every later open, if need be fitted to what that open gives.
//! - Pulled: users and tuners ask the engine, which never calls them.
//!
//! Callers: applications by `Db::control`, `solera control`, the tuners of `solera-tune`,
//! `solera-bench`, `solera-sim`.

mod change;
mod check;
mod observation;
mod observe;
mod publish;
mod ranges;
mod record;
mod render;
mod trace;

pub use crate::{
    knob::{Knob, KnobId, LayoutKnob, Legal, MemoryKnob, Scope, TreeKnob, Value},
    stats::{Counters, Histogram, Latencies, LayoutCounters, LevelCounters, MergeCounters},
    table::LayoutTag,
    version::{Changed, Receipt},
};
pub use change::{Change, TAG_BYTES_MAX, WHO_BYTES_MAX, WHY_BYTES_MAX};
pub use observation::{
    KeyspaceObservation, LayoutObservation, Level0Observation, LevelObservation, MemoryUse, Mix, Observation,
    Setting,
};
pub use publish::{PUBLISH_EVERY_MIN, Publisher, published};
pub use ranges::{Range, Ranges};
pub use record::OBSERVATION_VERSION;
pub use trace::Recording;

use crate::{clock::Clock, db::Db, engine::Handle, error::Result, vfs::Fs};
use check::Checked;
use std::{fmt, path::PathBuf, sync::Arc};

/// Every knob: by name, by number, and as a list.
pub mod knob {
    pub use crate::engine::descriptions::*;
}

/// The knobs of an open database. A cheap handle, which keeps the database open.
#[derive(Clone)]
pub struct Control {
    handle: Arc<Handle>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("dir", &self.handle.store.files.dir).finish_non_exhaustive()
    }
}

impl Db {
    /// The knobs of this database: what can be changed while it runs.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// use solera::control::{Change, knob};
    /// let change = Change::new("operator", "the night is for loading").set(&knob::SIZE_RATIO, 6u32);
    /// let receipt = db.control().apply(change.set_level(&knob::RUN_LIMIT, 1, 6u32))?;
    /// assert_eq!(receipt.changed[0].old, "10");
    /// # Ok(()) }
    /// ```
    pub fn control(&self) -> Control {
        Control { handle: self.handle.clone() }
    }
}

impl Control {
    /// What the database does and holds. Opens nothing, reads nothing from files and holds up no
    /// reader or writer; takes as long as it takes to look at every table's description. To see
    /// what happens in a window, of time or of operations, keep one observation and take the next
    /// one [`since`](Observation::since) it:
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// let before = db.control().observe();
    /// db.put(b"key", b"value")?;
    /// db.get(b"key")?;
    /// let window = db.control().observe().since(&before);
    /// let mix = window.keyspaces[0].mix();
    /// assert_eq!((mix.found_lookups, mix.absent_lookups, mix.entries_written), (1, 0, 1));
    /// # Ok(()) }
    /// ```
    pub fn observe(&self) -> Observation {
        observe::observe(&self.handle)
    }

    /// Times one operation in `period` instead of one in 128, none if it is 0: to measure what that
    /// costs.
    #[doc(hidden)]
    pub fn sample_one_in(&self, period: u64) {
        self.handle.trees().iter().for_each(|tree| tree.context.stats.sample_one_in(period));
    }

    /// Every knob: what it is set to, and what it may be set to now.
    pub fn ranges(&self) -> Ranges {
        ranges::ranges(&self.handle)
    }

    /// Makes a change: all of it, or nothing. It is durable when the call returns, which takes one
    /// record of the manifest with its sync, and no other reading or writing. It is in force for
    /// every decision from then on; a flush or compaction that is under way ends as it began. What
    /// a knob's [`effect`](Knob::effect) says follows.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) for a value, level or knob that is not legal, with
    /// what is; [`Error::Outdated`](crate::Error::Outdated) if another change came first and the
    /// change was to be made [only before it](Change::only_if_newest);
    /// [`Error::NoKeyspace`](crate::Error::NoKeyspace);
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Poisoned`](crate::Error::Poisoned), and [`Error::Io`](crate::Error::Io) if the
    /// manifest cannot be written: nothing is changed. After a failed sync of the manifest every
    /// write is refused, and the next open may find the change, whole.
    pub fn apply(&self, change: Change) -> Result<Receipt> {
        let changing = self.handle.begin_change()?;
        let Checked { assignments, receipt } = check::check(&change, &changing)?;
        changing.record(assignments, receipt)
    }

    /// The changes that are remembered, the oldest first: of every author the newest 128, and of
    /// all authors together the newest 256. Where those are too many, the author of most of them
    /// loses the oldest. The newest change is always remembered.
    pub fn history(&self) -> Vec<Receipt> {
        self.handle.store.assignments().history().cloned().collect()
    }

    /// The changes by `who` that are remembered, the oldest first.
    pub fn history_of(&self, who: &str) -> Vec<Receipt> {
        self.handle.store.assignments().history().filter(|receipt| receipt.who == who).cloned().collect()
    }

    /// The clock of the database ([`Options::clock`](crate::Options::clock)). A program that
    /// decides from outside waits and measures by the same time as the engine, simulated or not.
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.handle.options.clock.clone()
    }

    /// The files of the database ([`Options::fs`](crate::Options::fs)). A program that decides from
    /// outside may keep a file of its own beside them, under a name that the engine does not use.
    pub fn fs(&self) -> Arc<dyn Fs> {
        self.handle.options.fs.clone()
    }

    /// The directory of the database.
    pub fn dir(&self) -> PathBuf {
        self.handle.store.files.dir.clone()
    }

    /// Whether the database was [closed](Db::close): nothing can be changed any more.
    pub fn is_closed(&self) -> bool {
        self.handle.closed.load(crate::sync::atomic::Ordering::Acquire)
    }
}
