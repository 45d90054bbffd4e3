//! The commit order: one log append for all writers that wait, then memtables, then visibility.
//!
//! Owns the log, the next sequence number and the rule that makes a commit a commit:
//!
//! 1. frames of all waiting batches go to the log in one append (and one sync if any of them asks);
//! 2. then their operations go to the memtables;
//! 3. then `Core::visible` moves past all of them at once, so no reader sees half a batch.
//!
//! A log that is full is changed for the next; what becomes of it then is the business of `logs`.
//!
//! A failed append is taken back and reported: nothing was committed. A failed sync poisons the database,
//! because no later success would tell whether these bytes are durable: nobody sees the writes until the
//! next open, which may find them.
//!
//! Transactions queue like other writers. What they read is validated before they queue (`reads`).

use super::{
    Batch, Core, Durability,
    logs::{Ended, Spare},
    reads::{Announced, Announcements, ReadSet},
};
use crate::{
    codec::DecodeError,
    error::{Error, Result},
    ids::{FileId, SEQNO_MAX, Seqno},
    memtable::Memtable,
    stats::Counter,
    sync::{
        Guard, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
    tombstone::RangeTombstone,
    tree::{Tree, View},
    wal::{
        self,
        batch::{BatchEncoder, BatchReader, Operation},
    },
};
use std::{mem, sync::Arc};

/// A log grows to as many write buffers before the next one is begun.
const LOG_WRITE_BUFFERS: u64 = 1;
/// With more logs than this kept, the keyspace that pins the oldest is flushed, however small.
pub(super) const LOGS_MAX: usize = 8;
/// A log smaller than this is read at an open in less time than it takes to begin another.
const LOG_RETIRE_BYTES_MIN: u64 = 64 << 10;
/// Bytes of scratch that a single put may leave allocated.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// One write that needs no batch.
#[derive(Clone, Copy)]
pub(super) enum Single<'w> {
    Put { key: &'w [u8], value: &'w [u8] },
    PutExpiring { key: &'w [u8], value: &'w [u8], expires_ms: u64 },
    Delete { key: &'w [u8] },
    DeleteRange { start: &'w [u8], end: &'w [u8] },
    Merge { key: &'w [u8], operand: &'w [u8] },
}

/// A log that takes no more writes, kept until all that it holds is in tables.
struct ClosedLog {
    file: FileId,
    last_seqno: Seqno,
}

/// What the commit lock guards.
pub(crate) struct Writer {
    /// `None` while read-only, and between the end of one log and the beginning of the next.
    pub(super) log: Option<wal::Writer>,
    closed: Vec<ClosedLog>,
    /// Newest number that was given out.
    last_seqno: Seqno,
    /// Everything up to here survives a power failure.
    synced_seqno: Seqno,
    /// Lent to the one put that encodes into it.
    scratch: Option<BatchEncoder>,
}

/// A write whose batch must be as a whole: which trees must be there still, and what must not have been
/// written meanwhile because a transaction read it.
#[derive(Default)]
struct Terms {
    trees: Vec<Arc<Tree>>,
    reads: Option<Arc<Announced>>,
}

impl Terms {
    /// Refuses a batch whose terms are not met, `before` being committed first. Under the commit lock.
    fn check<'b>(&self, before: impl Iterator<Item = &'b BatchEncoder>) -> Result<()> {
        if let Some(gone) = self.trees.iter().find(|tree| tree.is_dropped()) {
            return Err(Error::NoKeyspace(gone.name.clone()));
        }
        self.reads.as_ref().map_or(Ok(()), |reads| reads.check(before))
    }
}

/// Writers that wait for whoever holds the commit lock to commit for them.
struct Waiting {
    batch: Mutex<Option<BatchEncoder>>,
    terms: Terms,
    durability: Durability,
    outcome: Mutex<Option<Result<Seqno>>>,
}

/// The commit order's state.
pub(crate) struct Commit {
    writer: Mutex<Writer>,
    waiting: Mutex<Vec<Arc<Waiting>>>,
    waiting_count: AtomicUsize,
    /// Logs that are not written any more and not durable yet.
    pub(super) ended: Ended,
    /// The log after the present one.
    pub(super) spare: Spare,
    /// What transactions that are about to commit have read.
    pub(super) announcements: Announcements,
}

impl Commit {
    /// Begins after `last_seqno`. `closed` are the logs that recovery read, oldest first, with the newest
    /// number in each.
    pub(super) fn new(log: Option<wal::Writer>, closed: Vec<(FileId, Seqno)>, last_seqno: Seqno) -> Self {
        let closed = closed.into_iter().map(|(file, last_seqno)| ClosedLog { file, last_seqno }).collect();
        let writer = Writer { log, closed, last_seqno, synced_seqno: last_seqno, scratch: None };
        Commit {
            writer: Mutex::new(writer),
            waiting: Mutex::default(),
            waiting_count: AtomicUsize::new(0),
            ended: Ended::default(),
            spare: Spare::default(),
            announcements: Announcements::default(),
        }
    }

    /// Takes the commit lock: while it is held nothing is committed.
    pub(super) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }
}

impl Writer {
    /// Takes the next number for something that commits without the log: an ingest. The caller makes it
    /// visible, or gives up for good.
    pub(super) fn next_seqno(&mut self) -> Result<Seqno> {
        if self.last_seqno >= SEQNO_MAX {
            return Err(Error::Poisoned("sequence numbers are used up".into()));
        }
        self.last_seqno += 1;
        Ok(self.last_seqno)
    }

    /// Everything up to `seqno` survives a power failure now.
    pub(super) fn are_durable(&mut self, seqno: Seqno) {
        self.synced_seqno = self.synced_seqno.max(seqno);
    }

    /// Every log that is needed, the present one included.
    pub(super) fn logs(&self) -> Vec<FileId> {
        self.closed.iter().map(|log| log.file).chain(self.log.as_ref().map(wal::Writer::file)).collect()
    }
}

impl Core {
    /// Commits a batch.
    pub(super) fn write(&self, batch: Batch) -> Result<Seqno> {
        self.admit(&batch)?;
        if batch.is_empty() {
            self.write_nothing(batch.durability)?;
            return Ok(self.visible());
        }
        self.write_on_terms(batch, None)
    }

    /// Commits what changes nothing. Durable, it vouches all the same for all that was acknowledged before it.
    pub(super) fn write_nothing(&self, durability: Durability) -> Result<()> {
        self.writable()?;
        if durability == Durability::Sync { self.sync_log() } else { Ok(()) }
    }

    /// Commits a transaction's batch if nothing of what it read at `since`, its snapshot, was written.
    pub(super) fn write_transaction(&self, batch: Batch, reads: ReadSet, since: Seqno) -> Result<Seqno> {
        self.admit(&batch)?;
        let announced = self.commit.announcements.announce(reads);
        announced.validate(self, since)?;
        self.write_on_terms(batch, Some(announced.clone()))
    }

    fn admit(&self, batch: &Batch) -> Result<()> {
        self.writable()?;
        batch.belongs_to(self)?;
        batch.trees.iter().try_for_each(|tree| self.throttle(tree, batch.encoder.bytes() as u64))
    }

    fn write_on_terms(&self, batch: Batch, reads: Option<Arc<Announced>>) -> Result<Seqno> {
        let Batch { mut encoder, trees, durability, .. } = batch;
        let terms = Terms { trees, reads };
        if self.commit.waiting_count.load(Ordering::Relaxed) == 0
            && let Some(mut writer) = self.commit.writer.try_lock()
        {
            terms.check(std::iter::empty())?;
            return self.commit_one(&mut writer, &mut encoder, durability);
        }
        self.write_contended(encoder, terms, durability)
    }

    /// Commits one operation: as a batch of one, but encoded into the writer's own buffer.
    pub(super) fn write_single(
        &self,
        tree: &Tree,
        operation: Single<'_>,
        durability: Durability,
    ) -> Result<()> {
        self.writable()?;
        let bytes = match &operation {
            Single::Put { key, value } | Single::PutExpiring { key, value, .. } => key.len() + value.len(),
            Single::Delete { key } => key.len(),
            Single::DeleteRange { start, end } => start.len() + end.len(),
            Single::Merge { key, operand } => key.len() + operand.len(),
        };
        self.throttle(tree, bytes as u64)?;
        let encode = |encoder: &mut BatchEncoder| match operation {
            Single::Put { key, value } => encoder.put(tree.id, key, value),
            Single::PutExpiring { key, value, expires_ms } => {
                encoder.put_expiring(tree.id, key, value, expires_ms)
            }
            Single::Delete { key } => encoder.delete(tree.id, key),
            Single::DeleteRange { start, end } => encoder.delete_range(tree.id, start, end),
            Single::Merge { key, operand } => encoder.merge(tree.id, key, operand),
        };
        if self.commit.waiting_count.load(Ordering::Relaxed) == 0
            && let Some(mut writer) = self.commit.writer.try_lock()
        {
            let mut scratch = writer.scratch.take().unwrap_or_default();
            scratch.clear();
            encode(&mut scratch);
            let committed = self.commit_one(&mut writer, &mut scratch, durability);
            if scratch.bytes() <= SCRATCH_BYTES_MAX {
                writer.scratch = Some(scratch);
            }
            return committed.map(drop);
        }
        let mut encoder = BatchEncoder::new();
        encode(&mut encoder);
        self.write_contended(encoder, Terms::default(), durability).map(drop)
    }

    /// Queues behind the writer that holds the lock; commits for everybody in the queue if nobody did.
    fn write_contended(&self, encoder: BatchEncoder, terms: Terms, durability: Durability) -> Result<Seqno> {
        let batch = Mutex::new(Some(encoder));
        let waiting = Arc::new(Waiting { batch, terms, durability, outcome: Mutex::default() });
        self.commit.waiting.lock().push(waiting.clone());
        self.commit.waiting_count.fetch_add(1, Ordering::Relaxed);
        let mut writer = self.commit.writer.lock();
        if waiting.outcome.lock().is_none() {
            // Nobody committed it for us, so it is still in the queue: we lead.
            self.commit_waiting(&mut writer);
        }
        let outcome = waiting.outcome.lock().take();
        outcome.unwrap_or(Err(Error::Closed))
    }

    /// Commits everything in the queue as one group.
    fn commit_waiting(&self, writer: &mut Writer) {
        let waiting = std::mem::take(&mut *self.commit.waiting.lock());
        self.commit.waiting_count.fetch_sub(waiting.len(), Ordering::Relaxed);
        let mut group = Vec::with_capacity(waiting.len());
        let mut encoders: Vec<BatchEncoder> = Vec::with_capacity(waiting.len());
        for waiting in waiting {
            let Some(mut encoder) = waiting.batch.lock().take() else { continue };
            // Numbered anew at the commit; until then those who come later can read it.
            encoder.finish(0);
            match waiting.terms.check(encoders.iter()) {
                Ok(()) => {
                    encoders.push(encoder);
                    group.push(waiting);
                }
                Err(error) => *waiting.outcome.lock() = Some(Err(error)),
            }
        }
        if encoders.is_empty() {
            return;
        }
        let sync = group.iter().any(|waiting| waiting.durability == Durability::Sync);
        let before = writer.last_seqno;
        let committed = self.commit_encoders(writer, &mut encoders, sync);
        let mut last = before;
        for (encoder, waiting) in encoders.iter().zip(&group) {
            last += u64::from(encoder.count());
            *waiting.outcome.lock() = Some(committed.clone().map(|()| last));
        }
    }

    /// Commits `encoder` under the lock that the caller holds.
    fn commit_one(
        &self,
        writer: &mut Writer,
        encoder: &mut BatchEncoder,
        durability: Durability,
    ) -> Result<Seqno> {
        self.commit_encoders(writer, std::slice::from_mut(encoder), durability == Durability::Sync)?;
        Ok(writer.last_seqno)
    }

    /// The commit: log, memtables, visibility. Gives every batch its first sequence number.
    fn commit_encoders(&self, writer: &mut Writer, encoders: &mut [BatchEncoder], sync: bool) -> Result<()> {
        self.writable()?;
        let mut next = writer.last_seqno;
        for encoder in encoders.iter_mut() {
            let count = u64::from(encoder.count());
            if SEQNO_MAX - next < count {
                return Err(Error::Poisoned("sequence numbers are used up".into()));
            }
            encoder.finish(next + 1);
            next += count;
        }
        let log = self.log_with_room(writer)?;
        let bytes_before = log.len();
        let appended = log.append(encoders.iter().map(|encoder| [encoder.payload()]));
        if let Err(error) = appended {
            self.poison_with(log);
            return Err(error);
        }
        self.stats.add(Counter::BytesWrittenLog, log.len() - bytes_before);
        if sync {
            self.sync_logs(Some(log))?;
            writer.are_durable(next);
        }
        writer.last_seqno = next;
        let mut full = Vec::new();
        for encoder in encoders.iter() {
            self.apply(encoder, &mut full).inspect_err(|error| self.poison.set(error))?;
        }
        self.visible.store(next, Ordering::Release);
        self.commit.announcements.committed(encoders);
        for tree in full {
            self.seal(writer, &tree);
        }
        Ok(())
    }

    /// Puts a batch's operations into the memtables; notes trees whose memtable is now full.
    fn apply(&self, encoder: &BatchEncoder, full: &mut Vec<Arc<Tree>>) -> Result<()> {
        let catalog = self.catalog.read();
        let limit = self.write_buffer_bytes();
        let undecodable = |error: DecodeError| Error::Poisoned(format!("a batch does not decode: {error:?}"));
        // One tree after the other, each with how many operations it got, and the ranges among them.
        let mut current: Option<(&Arc<Tree>, Guard<Arc<View>>, u64)> = None;
        let mut deleted = Vec::new();
        let leave = |(tree, view, entries): (&Arc<Tree>, Guard<Arc<View>>, u64),
                     deleted: &mut Vec<_>,
                     full: &mut Vec<_>| {
            view.active.add_range_tombstones(mem::take(deleted));
            tree.context.stats.add(Counter::EntriesWritten, entries);
            if view.active.is_full(limit) && !full.iter().any(|other: &Arc<Tree>| other.id == tree.id) {
                full.push(tree.clone());
            }
        };
        for numbered in BatchReader::new(encoder.payload()).map_err(undecodable)? {
            let (seqno, operation) = numbered.map_err(undecodable)?;
            let id = operation.keyspace();
            if current.as_ref().is_none_or(|(tree, ..)| tree.id != id) {
                current.take().into_iter().for_each(|left| leave(left, &mut deleted, full));
                // A keyspace dropped since the batch was filled: its operations go nowhere.
                let Some(tree) = catalog.by_id.get(&id) else { continue };
                current = Some((tree, tree.view(), 0));
            }
            if let Some((_, view, entries)) = &mut current {
                insert(&view.active, seqno, operation, &mut deleted);
                *entries += 1;
            }
        }
        current.take().into_iter().for_each(|left| leave(left, &mut deleted, full));
        Ok(())
    }

    /// Seals a tree's memtable and begins a new log with it, so that the old log can go once the
    /// memtable is in tables.
    pub(super) fn seal(&self, writer: &mut Writer, tree: &Tree) {
        if tree.seal() {
            self.work.wake();
        }
        if writer.log.as_ref().is_some_and(|log| log.len() >= self.log_bytes_max() / 2)
            && let Err(error) = self.change_full_log(writer)
        {
            // The next commit tries again and reports.
            self.work.note_failure(&error);
        }
    }

    fn log_bytes_max(&self) -> u64 {
        self.write_buffer_bytes() * LOG_WRITE_BUFFERS
    }

    /// The log to append to, begun anew if the present one is full or was ended without a successor.
    fn log_with_room<'w>(&self, writer: &'w mut Writer) -> Result<&'w mut wal::Writer> {
        if writer.log.as_ref().is_none_or(|log| log.len() >= self.log_bytes_max()) {
            self.change_full_log(writer)?;
        }
        writer.log.as_mut().ok_or(Error::ReadOnly)
    }

    /// As [`Core::change_log`], and the workers tend to the old log and to the one after the new one.
    fn change_full_log(&self, writer: &mut Writer) -> Result<()> {
        let changed = self.change_log(writer);
        self.commit.spare.want();
        self.work.wake();
        changed
    }

    /// Ends the present log and goes on with the next. The manifest names the new log before it is used, and it vouches for
    /// nothing until the old one is durable: so recovery finds a prefix of the commit order.
    fn change_log(&self, writer: &mut Writer) -> Result<()> {
        if let Some(mut log) = writer.log.take() {
            if let Err(error) = log.end() {
                self.poison_with(&log);
                writer.log = Some(log);
                return Err(error);
            }
            writer.closed.push(ClosedLog { file: log.file(), last_seqno: writer.last_seqno });
            self.commit.ended.push(log, writer.last_seqno);
        }
        if self.commit.ended.are_many() {
            self.settle_ended()?;
        }
        let mut next = self.commit.spare.take_or(|| self.begin_log())?;
        debug_assert!(
            writer.closed.last().is_none_or(|log| log.file < next.file()),
            "recovery goes by their numbers"
        );
        if !self.commit.ended.are_durable() {
            next.withhold();
        }
        writer.log = Some(next);
        if writer.closed.len() > LOGS_MAX {
            let oldest = writer.closed[0].last_seqno;
            for tree in self.trees() {
                if tree.view().active.first_seqno().is_some_and(|first| first <= oldest) && tree.seal() {
                    self.work.wake();
                }
            }
        }
        Ok(())
    }

    /// If `log` can no longer be trusted or appended to, neither can the database.
    fn poison_with(&self, log: &wal::Writer) {
        if let Some(why) = log.poisoned() {
            self.poison.set(why);
        }
    }

    fn sync_writer(&self, writer: &mut Writer) -> Result<()> {
        if writer.synced_seqno < writer.last_seqno {
            self.sync_logs(writer.log.as_mut())?;
            writer.are_durable(writer.last_seqno);
        }
        Ok(())
    }

    /// Makes everything that was acknowledged durable.
    pub(super) fn sync_log(&self) -> Result<()> {
        self.poison.check()?;
        self.sync_writer(&mut self.commit.lock())
    }

    /// As [`Core::sync_log`], under the lock that the caller holds.
    pub(super) fn sync_log_locked(&self, writer: &mut Writer) -> Result<()> {
        self.poison.check()?;
        self.sync_writer(writer)
    }

    /// Makes everything up to `seqno` durable: tables that hold it must not outlive what came before it
    /// in other keyspaces.
    pub(super) fn sync_log_to(&self, seqno: Seqno) -> Result<()> {
        // Mostly it is in a log that has ended, and writers need not wait.
        self.settle_ended_logs()?;
        let mut writer = self.commit.lock();
        if writer.synced_seqno < seqno { self.sync_writer(&mut writer) } else { Ok(()) }
    }

    /// Begins a new log if everything in the present one is in tables and it is worth it: what
    /// a flush has made useless is not read again at the next open.
    pub(super) fn retire_log(&self) -> Result<()> {
        let mut writer = self.commit.lock();
        let worth = writer.log.as_ref().is_some_and(|log| log.len() >= LOG_RETIRE_BYTES_MIN);
        if worth && self.trees().iter().all(|tree| tree.view().oldest_unflushed().is_none()) {
            self.change_log(&mut writer)?;
            drop(writer);
            self.settle_ended_logs()?;
            self.remove_flushed_logs();
        }
        Ok(())
    }

    /// Forgets and removes logs whose every operation is in a table.
    pub(super) fn remove_flushed_logs(&self) {
        let writer = self.commit.lock();
        let needed = self.trees().iter().filter_map(|tree| tree.view().oldest_unflushed()).min();
        let unneeded = |log: &&ClosedLog| needed.is_none_or(|needed| log.last_seqno < needed);
        let gone = writer.closed.iter().take_while(unneeded).count();
        let oldest = writer.logs().get(gone).copied();
        drop(writer);
        let (Some(oldest), true) = (oldest, gone > 0) else { return };
        // They are forgotten only once the manifest has forgotten them: else nobody would try again.
        if self.record_oldest_log(oldest).is_err() {
            return;
        }
        let mut writer = self.commit.lock();
        let kept = writer.closed.partition_point(|log| log.file < oldest);
        let gone: Vec<_> = writer.closed.drain(..kept).collect();
        drop(writer);
        for log in gone {
            // One that cannot be removed now is removed at the next open.
            let _ = self.fs().remove_file(&self.dir().join(wal::file_name(log.file)));
        }
    }
}

/// Applies one operation to a memtable, at commit and at recovery. A range deletion is put with those that
/// the caller then adds together.
pub(super) fn insert(
    memtable: &Memtable,
    seqno: Seqno,
    operation: Operation<'_>,
    deleted: &mut Vec<RangeTombstone>,
) {
    match operation {
        Operation::Entry { kind, key, value, .. } => memtable.insert(key, seqno, kind, &[value]),
        Operation::DeleteRange { start, end, .. } => {
            deleted.push(RangeTombstone { start: start.into(), end: end.into(), seqno });
        }
    }
}
