//! What all handles of an open database share: `Core`, the parts, each of which owns its state and
//! its methods.
//!
//! It also owns what needs several of them at once: `writable`, `enter`, `flush_trees`, making a
//! number durable, and the `Environment`s of commit order and flushes. `check_sizes` refuses keys
//! and values over their limits.
//!
//! What must hold: locks are taken in the order that `Core`'s comment gives. `let_go` comes last,
//! when no thread is at work.
//!
//! Callers: `open` makes it; `handle` derefs to it; `jobs`, `ingest` and `checkpoint` add methods;
//! `workers` step it; `db` and `control` use it. `ingest` and `db` check sizes.

use super::{
    apply,
    callers::{Caller, Callers},
    commit::{self, Commit, Writer},
    drops::Drops,
    flushing::{self, Flusher},
    job_parts::JobParts,
    lending::Lending,
    logs::{self, Around, Logs, Present},
    memory::Memory,
    options::Options,
    reclaiming::Reclaiming,
    resting::Resting,
    snapshots::Moment,
    store::Store,
    throttle::Throttle,
    tracing::Tracing,
    values::Promised,
    work::Work,
};
use crate::{
    clock::Clock,
    compaction::Horizon,
    error::{Error, Result},
    ids::Seqno,
    key::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    stats::{Counter, Stats},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    tree::Tree,
    wal::batch::BatchEncoder,
};
use std::sync::Arc;

/// What all handles of one open database share. Locks are taken in this order and never the other
/// way round: a flush claim (`work`), the commit lock (`commit`), the store lock (`store`), the
/// dealing of memory, then the leaves, under which no other is taken: the catalog, the work state,
/// the snapshot list, a tree's change of view.
pub(crate) struct Core {
    pub(crate) options: Options,
    /// When it was opened: on the wall, in Unix milliseconds, and by the monotonic clock.
    pub(crate) opened_unix_ms: u64,
    pub(crate) opened_ns: u64,
    /// What is counted for the database as a whole: the log's bytes.
    pub(crate) stats: Stats,
    pub(crate) store: Store,
    pub(super) commit: Commit<Present>,
    pub(super) logs: Logs,
    pub(crate) memory: Memory,
    pub(crate) reclaiming: Reclaiming,
    pub(super) resting: Resting,
    pub(super) drops: Drops,
    pub(super) lending: Lending,
    pub(crate) work: Work,
    pub(super) throttle: Throttle,
    pub(crate) tracing: Tracing,
    pub(crate) closed: AtomicBool,
    pub(crate) callers: Callers,
    /// Held for its `Drop`: other openers are kept out until the database is closed.
    pub(super) lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl Core {
    /// The database's clock.
    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.options.clock
    }

    /// The newest number that readers see.
    #[inline]
    pub(crate) fn visible(&self) -> Seqno {
        self.store.snapshots.visible()
    }

    /// Refuses if nothing may be written.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.store.poison.check()
    }

    /// As [`Core::writable`], for a thread of a user's that does the database's work. It is not
    /// closed before the result is dropped.
    pub(crate) fn enter(&self) -> Result<Caller<'_>> {
        self.writable()?;
        self.callers.enter()
    }

    /// Gives up the directory: readers are told that the database is closed, no writer writes, and
    /// it may be opened again. No thread is at work any more.
    pub(super) fn let_go(&self) {
        self.trees().iter().for_each(|tree| tree.mark_closed());
        // Files that grow have their ends when they are dropped.
        drop(self.commit.lock().log.take());
        // Handles of users may live on for long. Only iterators keep what they walk over.
        self.trees().iter().for_each(|tree| drop(tree.give_up()));
        self.memory.let_go();
        self.logs.let_go();
        self.store.let_go();
        drop(self.lock.lock().take());
    }

    /// All trees.
    pub(crate) fn trees(&self) -> Vec<Arc<Tree>> {
        self.store.catalog.trees()
    }

    /// Reads have looked into `tree`: if they have now paid for the merge of level 0, it is begun.
    pub(crate) fn weigh_reads(&self, tree: &Tree) {
        if self.options.background_threads > 0 && !self.options.read_only {
            self.work.weigh_reads(tree, self.clock(), || self.horizon());
        }
    }

    /// What readers may see now.
    pub(crate) fn horizon(&self) -> Horizon {
        self.store.horizon()
    }

    /// A reader lets go of the moment that it held.
    pub(crate) fn release_snapshot(&self, moment: Moment) {
        if self.store.snapshots.release(moment) {
            self.work.wake();
        }
    }

    /// What the logs need of the rest.
    #[inline]
    pub(super) fn around_logs(&self) -> Around<'_> {
        let write_buffer_bytes = self.memory.write_buffer_bytes();
        Around { store: &self.store, work: &self.work, write_buffer_bytes }
    }

    /// What every job works with.
    pub(super) fn job_parts(&self) -> JobParts<'_> {
        let Core { options, store, work, memory, reclaiming, .. } = self;
        JobParts { reclaim: options.reclaim, store, work, memory, reclaiming }
    }

    /// Brings memtables into tables.
    pub(super) fn flusher(&self) -> Flusher<'_> {
        Flusher { parts: self.job_parts(), rest: self }
    }

    /// Flushes `trees` completely, as they are now.
    pub(crate) fn flush_trees(&self, trees: &[Arc<Tree>]) -> Result<()> {
        self.flusher().flush_trees(trees)
    }

    /// Makes everything that was acknowledged durable.
    pub(crate) fn sync_log(&self) -> Result<()> {
        self.store.poison.check()?;
        self.logs.sync_all(&self.store.poison, &self.commit)?;
        // Where nothing was to be synced, its files may be gone all the same.
        self.store.check_directory()
    }

    /// Whether everything up to `seqno` survives a power failure.
    pub(crate) fn is_durable(&self, seqno: Seqno) -> bool {
        self.commit.is_durable(seqno)
    }

    /// Makes everything up to `seqno` survive a power failure.
    pub(crate) fn make_durable(&self, seqno: Seqno) -> Result<()> {
        self.writable()?;
        self.logs.sync_to(&self.store.poison, &self.commit, seqno)
    }

    /// Forgets and removes logs whose every operation is in a table.
    pub(super) fn remove_flushed_logs(&self) {
        logs::remove_flushed(&self.store, &self.commit);
    }
}

impl commit::Environment for Core {
    type Log = Present;

    fn writable(&self) -> Result<()> {
        Core::writable(self)
    }

    #[inline]
    fn append(&self, present: &mut Present, last: Seqno, batches: &mut [BatchEncoder]) -> Result<()> {
        let log = self.logs.with_room(self.around_logs(), present, last)?;
        let promised = Promised::place(log, batches)?;
        let bytes_before = log.len();
        let appended = log.append(batches.iter().map(|batch| [batch.payload()]));
        if let Err(error) = appended {
            logs::poison_with(&self.store.poison, log);
            return Err(error);
        }
        promised.assert_kept(log, &self.store.poison);
        self.stats.add(Counter::BytesWrittenLog, log.len() - bytes_before);
        Ok(())
    }

    fn sync(&self, present: &mut Present) -> Result<()> {
        self.logs.sync(&self.store.poison, present)
    }

    #[inline]
    fn insert(&self, batch: &BatchEncoder, full: &mut Vec<Arc<Tree>>) -> Result<()> {
        let limit = self.memory.write_buffer_bytes();
        let values = &self.store.files.values;
        if self.store.catalog.look(|keyspaces| apply::batch(keyspaces, limit, batch, values, full))? {
            self.work.wake();
        }
        if self.memory.is_on_loan() && self.memory.filled(batch.payload().len() as u64, &self.store.catalog) {
            // A worker looks when it can be lent again.
            self.work.wake();
        }
        Ok(())
    }

    fn publish(&self, last: Seqno) {
        self.store.snapshots.publish(last);
        if self.resting.hears() {
            self.work.wake();
        }
    }

    fn seal(&self, present: &mut Present, last: Seqno, full: &[Arc<Tree>]) {
        self.logs.seal(self.around_logs(), present, last, full);
    }

    fn poison(&self, why: &Error) {
        self.store.poison.set(why);
    }
}

impl flushing::Environment for Core {
    fn writable(&self) -> Result<()> {
        Core::writable(self)
    }

    fn seal(&self, trees: &[Arc<Tree>]) -> Vec<Option<Seqno>> {
        let mut writer = self.commit.lock();
        let newest =
            |tree: &Arc<Tree>| tree.view().memtables().filter_map(|memtable| memtable.last_seqno()).max();
        let newest = trees.iter().map(newest).collect();
        let Writer { log, last_seqno, .. } = &mut *writer;
        self.logs.seal(self.around_logs(), log, *last_seqno, trees);
        newest
    }

    fn sync_to(&self, seqno: Seqno) -> Result<()> {
        self.logs.sync_to(&self.store.poison, &self.commit, seqno)
    }

    fn remove_flushed_logs(&self) {
        Core::remove_flushed_logs(self);
    }

    fn retire_log(&self) -> Result<()> {
        self.logs.retire(self.around_logs(), &self.commit)
    }
}

/// Refuses a key or value over its limit.
#[inline]
pub(crate) fn check_sizes(key: &[u8], value_len: usize) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::TooLarge { what: "key", len: key.len() as u64, limit: KEY_BYTES_MAX as u64 });
    }
    if value_len as u64 > VALUE_BYTES_MAX {
        return Err(Error::TooLarge { what: "value", len: value_len as u64, limit: VALUE_BYTES_MAX });
    }
    Ok(())
}
