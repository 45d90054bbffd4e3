//! The commit order: `Commit`. Its steps are log append, sync if asked for, memtables, visibility;
//! the `Environment` does them.
//!
//! A writer that finds the lock free commits alone. Writers that wait are one group: one append,
//! one sync if any asks, one number that makes all visible. A large batch always goes alone and
//! synced.
//!
//! What must hold: no reader sees half a batch. A failed append is taken back. One that cannot be,
//! a failed sync and a failed insert poison; no reader sees them until the next open, which may
//! find them. A transaction is checked again at its turn, against its mark and the group before it.
//! Callers: `handle`, `large` and `jobs` commit; `ingest`, `logs` and `checkpoint` lock; `core` is
//! the `Environment`; `db` makes `Single` and `Operations`, `tracing` reads them.

use super::{
    options::Durability,
    reads::{Announced, Announcements},
};
use crate::{
    error::{Error, Result},
    ids::{KeyspaceId, SEQNO_MAX, Seqno},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    tree::Tree,
    wal::batch::BatchEncoder,
};
use std::sync::Arc;

/// Bytes of scratch that a single put may leave allocated.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// An operand of so many bytes is looked at by itself: a few of them are all that memtables may
/// take.
const LARGE_OPERAND_BYTES: usize = 1 << 20;

/// What a commit works on. It is entered under the commit lock, always in this order: `writable`,
/// `append`, `sync` if asked for, `insert` for each batch, `publish`, `seal`.
pub(super) trait Environment {
    /// The log, as the commit lock guards it.
    type Log;

    /// Whether anything may be committed at all.
    fn writable(&self) -> Result<()>;

    /// Appends a frame for each batch, and tells those with separated values where they stand;
    /// `last` is the newest number before them. After an error none of them is in the log.
    fn append(&self, log: &mut Self::Log, last: Seqno, batches: &mut [BatchEncoder]) -> Result<()>;

    /// Makes all that was appended survive a power failure. After an error nothing may be committed
    /// any more, and the environment sees to that.
    fn sync(&self, log: &mut Self::Log) -> Result<()>;

    /// Puts a batch into memtables; notes trees whose memtable is now full.
    fn insert(&self, batch: &BatchEncoder, full: &mut Vec<Arc<Tree>>) -> Result<()>;

    /// Makes everything up to `last` visible.
    fn publish(&self, last: Seqno);

    /// Seals the memtables that are `full`, and changes the log with them. `last` is the newest
    /// number in it.
    fn seal(&self, log: &mut Self::Log, last: Seqno, full: &[Arc<Tree>]);

    /// An append is in the log and its batch cannot be shown: nothing may be committed any more.
    fn poison(&self, why: &Error);
}

/// One write that needs no batch.
#[derive(Clone, Copy)]
pub(crate) enum Single<'w> {
    Put { key: &'w [u8], value: &'w [u8] },
    PutExpiring { key: &'w [u8], value: &'w [u8], expires_ms: u64 },
    PutSeparated { key: &'w [u8], value: &'w [u8] },
    PutExpiringSeparated { key: &'w [u8], value: &'w [u8], expires_ms: u64 },
    Delete { key: &'w [u8] },
    DeleteRange { start: &'w [u8], end: &'w [u8] },
    Merge { key: &'w [u8], operand: &'w [u8] },
}

/// Operations that are committed together or not at all.
pub(crate) struct Operations {
    pub(crate) encoder: BatchEncoder,
    /// The trees written to, each once.
    pub(crate) trees: Vec<Arc<Tree>>,
    pub(crate) durability: Durability,
}

impl Single<'_> {
    /// Bytes of keys and values.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match self {
            Single::Put { key, value }
            | Single::PutExpiring { key, value, .. }
            | Single::PutSeparated { key, value }
            | Single::PutExpiringSeparated { key, value, .. } => key.len() + value.len(),
            Single::Delete { key } => key.len(),
            Single::DeleteRange { start, end } => start.len() + end.len(),
            Single::Merge { key, operand } => key.len() + operand.len(),
        };
        bytes as u64
    }

    /// Bytes of an operand that is large: in memory it lies in a memtable, as no value of its size.
    #[inline]
    pub(super) fn large_in_memory(&self) -> u64 {
        match self {
            Single::Merge { operand, .. } if operand.len() >= LARGE_OPERAND_BYTES => operand.len() as u64,
            _ => 0,
        }
    }

    fn encode(self, keyspace: KeyspaceId, encoder: &mut BatchEncoder) {
        match self {
            Single::PutSeparated { key, value } => encoder.put_separated(keyspace, key, value),
            Single::PutExpiringSeparated { key, value, expires_ms } => {
                encoder.put_expiring_separated(keyspace, key, value, expires_ms)
            }
            Single::Put { key, value } => encoder.put(keyspace, key, value),
            Single::PutExpiring { key, value, expires_ms } => {
                encoder.put_expiring(keyspace, key, value, expires_ms)
            }
            Single::Delete { key } => encoder.delete(keyspace, key),
            Single::DeleteRange { start, end } => encoder.delete_range(keyspace, start, end),
            Single::Merge { key, operand } => encoder.merge(keyspace, key, operand),
        }
    }
}

/// What the commit lock guards.
pub(crate) struct Writer<L> {
    pub(super) log: L,
    /// Newest number that was given out.
    pub(super) last_seqno: Seqno,
    /// Everything up to here survives a power failure.
    synced_seqno: Seqno,
    /// The same, for threads that do not hold the lock.
    durable: Arc<AtomicU64>,
    /// Lent to the one put that encodes into it.
    scratch: Option<BatchEncoder>,
}

impl<L> Writer<L> {
    /// Takes the next number for something that commits without the log: an ingest. The caller
    /// makes it visible, or gives up for good.
    pub(super) fn next_seqno(&mut self) -> Result<Seqno> {
        self.last_seqno = number_after(self.last_seqno, 1)?;
        Ok(self.last_seqno)
    }

    /// Everything up to `seqno` survives a power failure now.
    pub(super) fn are_durable(&mut self, seqno: Seqno) {
        assert!(seqno <= self.last_seqno, "what is durable was given out");
        self.synced_seqno = self.synced_seqno.max(seqno);
        self.durable.store(self.synced_seqno, Ordering::Release);
    }

    /// Makes everything up to `seqno`, and what came before it, survive a power failure.
    /// `sync` does that for all that was appended.
    pub(super) fn sync_to(&mut self, seqno: Seqno, sync: impl FnOnce(&mut L) -> Result<()>) -> Result<()> {
        if self.synced_seqno < seqno { self.sync(sync) } else { Ok(()) }
    }

    /// As [`Writer::sync_to`], for everything that was acknowledged.
    pub(super) fn sync(&mut self, sync: impl FnOnce(&mut L) -> Result<()>) -> Result<()> {
        if self.synced_seqno < self.last_seqno {
            sync(&mut self.log)?;
            self.are_durable(self.last_seqno);
        }
        Ok(())
    }
}

/// The last of `count` numbers after `last`.
fn number_after(last: Seqno, count: u64) -> Result<Seqno> {
    if SEQNO_MAX - last < count {
        return Err(Error::Poisoned("sequence numbers are used up".into()));
    }
    Ok(last + count)
}

/// A write whose batch must be as a whole: which trees must be there still, and what must not have
/// been written meanwhile because a transaction read it.
#[derive(Default)]
pub(super) struct Terms {
    pub(super) trees: Vec<Arc<Tree>>,
    pub(super) reads: Option<Arc<Announced>>,
}

impl Terms {
    /// Refuses a batch whose terms are not met, `before` being committed first. Under the commit
    /// lock.
    fn check<'b>(&self, before: impl Iterator<Item = &'b BatchEncoder>) -> Result<()> {
        if let Some(gone) = self.trees.iter().find(|tree| tree.is_dropped()) {
            return Err(Error::NoKeyspace(gone.name.clone()));
        }
        self.reads.as_ref().map_or(Ok(()), |reads| reads.check(before))
    }
}

/// A writer that waits for the holder of the commit lock to commit for it.
struct Waiting {
    batch: Mutex<Option<BatchEncoder>>,
    terms: Terms,
    durability: Durability,
    outcome: Mutex<Option<Result<Seqno>>>,
}

/// The commit order's state.
pub(crate) struct Commit<L> {
    writer: Mutex<Writer<L>>,
    waiting: Mutex<Vec<Arc<Waiting>>>,
    waiting_count: AtomicUsize,
    durable: Arc<AtomicU64>,
    /// What transactions that are about to commit have read.
    pub(super) announcements: Announcements,
}

impl<L> Commit<L> {
    /// Goes on in `log` after `last_seqno`; up to there everything is durable.
    pub(super) fn new(log: L, last_seqno: Seqno) -> Self {
        let durable = Arc::new(AtomicU64::new(last_seqno));
        let writer =
            Writer { log, last_seqno, synced_seqno: last_seqno, durable: durable.clone(), scratch: None };
        Commit {
            durable,
            writer: Mutex::new(writer),
            waiting: Mutex::default(),
            waiting_count: AtomicUsize::new(0),
            announcements: Announcements::default(),
        }
    }

    /// Of what was there at the open, only what came up to `seqno` is known to be durable.
    pub(super) fn proven_to(self, seqno: Seqno) -> Self {
        self.durable.store(seqno, Ordering::Release);
        self.writer.lock().synced_seqno = seqno;
        self
    }

    /// Whether everything up to `seqno` survives a power failure.
    pub(super) fn is_durable(&self, seqno: Seqno) -> bool {
        seqno <= self.durable.load(Ordering::Acquire)
    }

    /// Takes the commit lock: while it is held nothing is committed.
    pub(super) fn lock(&self) -> MutexGuard<'_, Writer<L>> {
        self.writer.lock()
    }

    /// The commit lock, if no thread holds it or waits for it.
    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, Writer<L>>> {
        if self.waiting_count.load(Ordering::Relaxed) == 0 { self.writer.try_lock() } else { None }
    }

    /// Commits a batch, which is not empty, if its terms are met. Returns its last number.
    pub(super) fn batch<E: Environment<Log = L>>(
        &self,
        mut encoder: BatchEncoder,
        terms: Terms,
        durability: Durability,
        env: &E,
    ) -> Result<Seqno> {
        if let Some(mut writer) = self.try_lock() {
            terms.check(std::iter::empty())?;
            return self.one(&mut writer, &mut encoder, durability, env);
        }
        self.queue(encoder, terms, durability, env)
    }

    /// Commits a batch by itself, durably: `ready` is called before anything is appended, and
    /// `insert` in the place of [`Environment::insert`].
    pub(super) fn large<E: Environment<Log = L>>(
        &self,
        mut encoder: BatchEncoder,
        terms: Terms,
        env: &E,
        ready: impl FnOnce(&mut Writer<L>) -> Result<()>,
        insert: impl FnMut(&BatchEncoder, &mut Vec<Arc<Tree>>) -> Result<()>,
    ) -> Result<Seqno> {
        let mut writer = self.lock();
        terms.check(std::iter::empty())?;
        env.writable()?;
        ready(&mut writer)?;
        self.group_by(&mut writer, std::slice::from_mut(&mut encoder), true, env, insert)?;
        Ok(writer.last_seqno)
    }

    /// Commits one operation: as a batch of one, but encoded into the writer's own buffer.
    pub(super) fn single<E: Environment<Log = L>>(
        &self,
        keyspace: KeyspaceId,
        operation: Single<'_>,
        durability: Durability,
        env: &E,
    ) -> Result<()> {
        if let Some(mut writer) = self.try_lock() {
            let mut scratch = writer.scratch.take().unwrap_or_default();
            scratch.clear();
            operation.encode(keyspace, &mut scratch);
            let committed = self.one(&mut writer, &mut scratch, durability, env);
            if scratch.bytes() <= SCRATCH_BYTES_MAX {
                writer.scratch = Some(scratch);
            }
            return committed.map(drop);
        }
        let mut encoder = BatchEncoder::new();
        operation.encode(keyspace, &mut encoder);
        self.queue(encoder, Terms::default(), durability, env).map(drop)
    }

    /// Queues behind the writer that holds the lock; commits for all writers in the queue if no
    /// other leader did.
    fn queue<E: Environment<Log = L>>(
        &self,
        encoder: BatchEncoder,
        terms: Terms,
        durability: Durability,
        env: &E,
    ) -> Result<Seqno> {
        let batch = Mutex::new(Some(encoder));
        let waiting = Arc::new(Waiting { batch, terms, durability, outcome: Mutex::default() });
        self.waiting.lock().push(waiting.clone());
        self.waiting_count.fetch_add(1, Ordering::Relaxed);
        let mut writer = self.writer.lock();
        if waiting.outcome.lock().is_none() {
            // No leader committed it for us, so it is still in the queue: we lead.
            self.lead(&mut writer, env);
        }
        let outcome = waiting.outcome.lock().take();
        outcome.unwrap_or(Err(Error::Closed))
    }

    /// Commits everything in the queue as one group.
    fn lead<E: Environment<Log = L>>(&self, writer: &mut Writer<L>, env: &E) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        self.waiting_count.fetch_sub(waiting.len(), Ordering::Relaxed);
        let mut group = Vec::with_capacity(waiting.len());
        let mut encoders: Vec<BatchEncoder> = Vec::with_capacity(waiting.len());
        for waiting in waiting {
            let Some(mut encoder) = waiting.batch.lock().take() else { continue };
            // Numbered anew at the commit; until then the checks of later writers can read it.
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
        let mut last = writer.last_seqno;
        let committed = self.group(writer, &mut encoders, sync, env);
        for (encoder, waiting) in encoders.iter().zip(&group) {
            last += u64::from(encoder.count());
            *waiting.outcome.lock() = Some(committed.clone().map(|()| last));
        }
    }

    /// Commits `encoder` under the lock that the caller holds.
    #[inline]
    fn one<E: Environment<Log = L>>(
        &self,
        writer: &mut Writer<L>,
        encoder: &mut BatchEncoder,
        durability: Durability,
        env: &E,
    ) -> Result<Seqno> {
        self.group(writer, std::slice::from_mut(encoder), durability == Durability::Sync, env)?;
        Ok(writer.last_seqno)
    }

    /// The commit: log, memtables, visibility. Gives every batch its first sequence number.
    #[inline]
    fn group<E: Environment<Log = L>>(
        &self,
        writer: &mut Writer<L>,
        encoders: &mut [BatchEncoder],
        sync: bool,
        env: &E,
    ) -> Result<()> {
        self.group_by(writer, encoders, sync, env, |encoder, full| env.insert(encoder, full))
    }

    /// As [`Commit::group`], with `insert` in the place of the environment's.
    #[inline]
    fn group_by<E: Environment<Log = L>>(
        &self,
        writer: &mut Writer<L>,
        encoders: &mut [BatchEncoder],
        sync: bool,
        env: &E,
        mut insert: impl FnMut(&BatchEncoder, &mut Vec<Arc<Tree>>) -> Result<()>,
    ) -> Result<()> {
        env.writable()?;
        let mut next = writer.last_seqno;
        for encoder in encoders.iter_mut() {
            let last = number_after(next, encoder.count().into())?;
            encoder.finish(next + 1);
            next = last;
        }
        env.append(&mut writer.log, writer.last_seqno, encoders)?;
        if sync {
            env.sync(&mut writer.log)?;
        }
        writer.last_seqno = next;
        if sync {
            writer.are_durable(next);
        }
        let mut full = Vec::new();
        for encoder in encoders.iter() {
            insert(encoder, &mut full).inspect_err(|error| env.poison(error))?;
        }
        env.publish(next);
        self.announcements.committed(encoders);
        if !full.is_empty() {
            env.seal(&mut writer.log, next, &full);
        }
        Ok(())
    }
}

/// Encodes a put of `tree`, whose value stays in the log if it is large enough.
pub(crate) fn encode_put(encoder: &mut BatchEncoder, tree: &Tree, key: &[u8], value: &[u8]) {
    match tree.separates(value.len()) {
        true => encoder.put_separated(tree.id, key, value),
        false => encoder.put(tree.id, key, value),
    }
}

/// As [`encode_put`], of a value that expires.
pub(crate) fn encode_put_expiring(
    encoder: &mut BatchEncoder,
    tree: &Tree,
    key: &[u8],
    value: &[u8],
    expires_ms: u64,
) {
    match tree.separates(value.len()) {
        true => encoder.put_expiring_separated(tree.id, key, value, expires_ms),
        false => encoder.put_expiring(tree.id, key, value, expires_ms),
    }
}

#[cfg(test)]
mod tests;
