//! The handle that keeps a database open: `Handle`, and the calls of users that need several parts:
//! writes, transactions, keyspaces, merge operators, knobs.
//!
//! It stands above the jobs, because a writer that outruns a database without threads does a step
//! of the work itself.
//!
//! What must hold: the last handle closes. `close` stops the workers, waits for users' threads
//! inside, makes the log durable and records the time. Then it gives the directory up, also when
//! one of these failed. Whoever closes besides returns after that. `create_keyspace` gives a
//! keyspace that exists as it is; the default one cannot be dropped.
//!
//! Callers: `db`, whose objects hold one, and `control` (changes, observations, recordings).

use super::{
    catalog::DEFAULT_KEYSPACE,
    change::{Changing, Obeying},
    commit::{Operations, Single, Terms},
    core::Core,
    drops::Then,
    keyspace_record,
    large::{LargeWriter, is_large},
    open,
    options::{Durability, KeyspaceOptions, Options},
    reads::{Announced, ReadSet},
    store, workers,
};
use crate::{
    error::{Error, Result},
    ids::Seqno,
    key::KeyRange,
    merge::visible::gaps::Eye,
    sync::{Mutex, atomic::Ordering},
    tree::Tree,
};
use std::{
    path::Path,
    sync::Arc,
    thread::{self, JoinHandle, ThreadId},
};

/// Keeps the database open as long as a handle, keyspace, snapshot or iterator is alive; the last
/// one closes it.
pub(crate) struct Handle {
    core: Arc<Core>,
    workers: Vec<ThreadId>,
    /// Held while the database is closed.
    ending: Mutex<Ending>,
}

/// The workers to wait for, until the database is closed; what came of that afterwards.
enum Ending {
    Awaited(Vec<JoinHandle<()>>),
    Ended(Result<()>),
}

impl std::ops::Deref for Handle {
    type Target = Core;
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // No caller is left to hear of a failure; `Db::close` is the call that reports one.
        let _ = self.close();
    }
}

impl Handle {
    /// Opens the database in `dir` and starts its workers.
    pub(crate) fn open(options: Options, dir: &Path) -> Result<Handle> {
        let core = Arc::new(open::open(options, dir)?);
        let threads = workers::spawn(&core)?;
        let workers = threads.iter().map(|thread| thread.thread().id()).collect();
        Ok(Handle { core, workers, ending: Mutex::new(Ending::Awaited(threads)) })
    }

    /// Stops the workers, waits for users' threads that do their work, makes the log durable and
    /// records the time. Then it gives up the directory, whatever failed before. Further calls wait
    /// for the first one, and return the same.
    ///
    /// # Errors
    /// [`Error::Invalid`] on a thread that does the database's work now, which would wait for
    /// itself: nothing is closed then.
    pub(crate) fn close(&self) -> Result<()> {
        let this = thread::current().id();
        if self.callers.is_inside() || self.workers.contains(&this) {
            return Err(Error::Invalid(
                "close was called from within a call that it waits for, such as by the entries of an ingest or by a \
                 merge operator; call it outside"
                    .into(),
            ));
        }
        let mut ending = self.ending.lock();
        // A close that panics is not begun again.
        let threads = match std::mem::replace(&mut *ending, Ending::Ended(Err(Error::Closed))) {
            Ending::Awaited(threads) => threads,
            Ending::Ended(outcome) => {
                *ending = Ending::Ended(outcome.clone());
                return outcome;
            }
        };
        self.core.closed.store(true, Ordering::Release);
        self.core.work.stop();
        for thread in threads {
            // A worker that panicked has poisoned the database already.
            let _ = thread.join();
        }
        self.callers.shut();
        self.store.leaving.let_all_go();
        let ended = if self.core.options.read_only { Ok(()) } else { self.end() };
        self.let_go();
        *ending = Ending::Ended(ended.clone());
        ended
    }

    /// Refuses once the database is closed: others may have the directory.
    pub(crate) fn not_closed(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    fn end(&self) -> Result<()> {
        self.logs.settle(&self.store.poison, &self.commit)?;
        self.sync_log()?;
        self.store.record_clock()
    }

    /// Commits a batch.
    pub(crate) fn write(&self, operations: Operations) -> Result<Seqno> {
        self.admit(&operations)?;
        if operations.encoder.count() == 0 {
            self.write_nothing(operations.durability)?;
            return Ok(self.visible());
        }
        self.commit_batch(operations, None)
    }

    /// Commits a transaction that only read, which needs no writer. Durable, it vouches for what
    /// was acknowledged before, of which a read-only database has nothing.
    pub(crate) fn write_no_transaction(&self, durability: Durability) -> Result<()> {
        match self.writable() {
            Err(Error::ReadOnly) => Ok(()),
            Err(Error::Poisoned(_)) if durability == Durability::Buffered => Ok(()),
            _ => self.write_nothing(durability),
        }
    }

    /// Commits what changes nothing. Durable, it vouches all the same for all that was acknowledged
    /// before it.
    pub(crate) fn write_nothing(&self, durability: Durability) -> Result<()> {
        self.writable()?;
        if durability == Durability::Sync { self.sync_log() } else { Ok(()) }
    }

    /// Commits a transaction's batch if nothing of what it read by `eye` was written since.
    pub(crate) fn write_transaction(
        &self,
        operations: Operations,
        reads: ReadSet,
        eye: Eye,
    ) -> Result<Seqno> {
        self.admit(&operations)?;
        let announced = self.commit.announcements.announce(reads);
        announced.validate(&self.store.catalog, eye)?;
        self.commit_batch(operations, Some(announced.clone()))
    }

    fn commit_batch(&self, operations: Operations, reads: Option<Arc<Announced>>) -> Result<Seqno> {
        let is_large = is_large(&operations, self.memory.write_buffer_bytes());
        let Operations { encoder, trees, durability } = operations;
        let terms = Terms { trees, reads };
        if !is_large {
            return self.commit.batch(encoder, terms, durability, &*self.core);
        }
        let _caller = self.enter()?;
        LargeWriter { flusher: self.flusher(), commit: &self.commit, env: &*self.core }.write(encoder, terms)
    }

    /// Commits one operation.
    pub(crate) fn write_single(
        &self,
        tree: &Tree,
        operation: Single<'_>,
        durability: Durability,
    ) -> Result<()> {
        self.writable()?;
        self.throttle(tree, operation.bytes(), operation.large_in_memory())?;
        self.commit.single(tree.id, operation, durability, &*self.core)
    }

    fn admit(&self, operations: &Operations) -> Result<()> {
        self.writable()?;
        let bytes = operations.encoder.bytes() as u64;
        operations.trees.iter().try_for_each(|tree| self.throttle(tree, bytes, 0))
    }

    /// Creates the keyspace `name` with `options`, unless there is one of this name.
    pub(crate) fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<Tree>> {
        if let Some(tree) = self.store.catalog.named(name) {
            return Ok(tree);
        }
        if self.options.read_only {
            return Err(Error::NoKeyspace(name.into()));
        }
        let _caller = self.enter()?;
        let traced = |tree: &Tree| self.tracing.new_tree(tree);
        self.store.create_keyspace(name, options, &self.memory.budget, traced)
    }

    /// Has an existing keyspace kept like `given` from now on, as far as that says something and
    /// the database may be written to. Another merge operator than it has is refused.
    pub(crate) fn give(&self, tree: &Tree, given: &KeyspaceOptions) -> Result<()> {
        given.validate()?;
        given.check_write_buffer(self.memory.budget.write_buffer_bytes)?;
        if let Some(operator) = &given.merge_operator {
            keyspace_record::check_operator(&tree.name, tree.operator(), operator)?;
        }
        let has = store::kept(tree);
        let options = given.over(&has);
        let is_the_same = options.merge_operator.is_some() == has.merge_operator.is_some()
            && store::given(&self.store.files, &self.memory.budget, &options) == tree.given();
        if is_the_same || self.options.read_only {
            // Code that is given at every open: its name is recorded, if anything is.
            given.merge_operator.iter().for_each(|operator| tree.set_operator(operator.clone()));
            return Ok(());
        }
        let _caller = self.enter()?;
        self.begin_change()?.give(tree, given)
    }

    /// Drops the keyspaces of these names and their data, all or none.
    pub(crate) fn drop_keyspaces(&self, names: &[&str]) -> Result<()> {
        let _caller = self.enter()?;
        if names.contains(&DEFAULT_KEYSPACE) {
            return Err(Error::Invalid("the default keyspace cannot be dropped".into()));
        }
        // No commit is under way while the keyspaces go.
        let writer = self.commit.lock();
        let shown = |tree: &Tree| self.commit.announcements.written(tree.id, &[KeyRange::all()]);
        let dropped = self.store.drop_keyspaces(names, shown)?;
        drop(writer);
        let count = dropped.len();
        for (tree, view) in dropped {
            self.tracing.dropped(&tree);
            self.work.forget(&tree);
            // Here its files go, unless an iterator has them.
            drop(view);
        }
        match self.drops.add(count, self.store.catalog.count(), self.clock().monotonic_ns()) {
            Then::Look if self.drops.take_all() => self.follow_drops(),
            Then::Tell => self.work.wake(),
            Then::Look | Then::Wait => {}
        }
        Ok(())
    }

    /// Begins a change of knobs. Nothing is changed before it is recorded.
    pub(crate) fn begin_change(&self) -> Result<Changing<'_>> {
        self.writable()?;
        let obeying = Obeying { catalog: &self.store.catalog, memory: &self.memory, work: &self.work };
        Ok(Changing::begin(&self.store, obeying, self.clock()))
    }
}
