//! Batches: several operations that are committed together or not at all.

use super::{Core, Durability, Handle, Keyspace, check_sizes};
use crate::{
    error::{Error, Result},
    ids::Seqno,
    key::{EXPIRY_BYTES, Kind, split_expiry},
    stats::{Counter, Latency, Sampled},
    tree::Tree,
    wal::batch::BatchEncoder,
};
use std::{fmt, sync::Arc, time::Duration};

/// Operations over any keyspaces of one database, applied in order, all or none, by
/// [`Db::write`](crate::Db::write). Operations are checked as they are added; an operation that is
/// refused leaves the batch as it was.
pub struct Batch {
    pub(super) encoder: BatchEncoder,
    pub(super) durability: Durability,
    /// The trees written to, each once.
    pub(super) trees: Vec<Arc<Tree>>,
    handle: Option<Arc<Handle>>,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} operations)", self.len())
    }
}

impl Batch {
    pub(super) fn new(durability: Durability) -> Self {
        Batch { encoder: BatchEncoder::new(), durability, trees: Vec::new(), handle: None }
    }

    fn admit(&mut self, keyspace: &Keyspace) -> Result<()> {
        keyspace.live()?;
        match &self.handle {
            None => self.handle = Some(keyspace.handle().clone()),
            Some(handle) if Arc::ptr_eq(handle, keyspace.handle()) => {}
            Some(_) => return Err(Error::Invalid("a batch cannot write to two databases".into())),
        }
        if !self.trees.iter().any(|tree| tree.id == keyspace.tree().id) {
            self.trees.push(keyspace.tree().clone());
        }
        Ok(())
    }

    /// See [`Keyspace::put`].
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::NoKeyspace`] if it was dropped, [`Error::Invalid`] if it belongs to
    /// another database. The same holds for the other operations.
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value.len())?;
        self.admit(keyspace)?;
        self.encoder.put(keyspace.tree().id, key, value);
        Ok(())
    }

    /// See [`Keyspace::put_with_ttl`]. The time to live counts from this call.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        ttl: Duration,
    ) -> Result<()> {
        check_sizes(key, value.len() + EXPIRY_BYTES)?;
        self.admit(keyspace)?;
        self.encoder.put_expiring(keyspace.tree().id, key, value, keyspace.handle().expiry(ttl));
        Ok(())
    }

    /// See [`Keyspace::delete`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        check_sizes(key, 0)?;
        self.admit(keyspace)?;
        self.encoder.delete(keyspace.tree().id, key);
        Ok(())
    }

    /// See [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, start: &[u8], end: &[u8]) -> Result<()> {
        check_sizes(start, 0)?;
        check_sizes(end, 0)?;
        self.admit(keyspace)?;
        if start < end {
            self.encoder.delete_range(keyspace.tree().id, start, end);
        }
        Ok(())
    }

    /// See [`Keyspace::merge`].
    ///
    /// # Errors
    /// As [`Batch::put`], and [`Error::Invalid`] if the keyspace has no merge operator.
    pub fn merge(&mut self, keyspace: &Keyspace, key: &[u8], operand: &[u8]) -> Result<()> {
        check_sizes(key, operand.len())?;
        keyspace.can_merge()?;
        self.admit(keyspace)?;
        self.encoder.merge(keyspace.tree().id, key, operand);
        Ok(())
    }

    /// Adds an entry as it would be stored: what a transaction has collected.
    pub(super) fn stored(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        kind: Kind,
        stored: &[u8],
    ) -> Result<()> {
        match kind {
            Kind::Put => self.put(keyspace, key, stored),
            Kind::Delete => self.delete(keyspace, key),
            Kind::Merge => self.merge(keyspace, key, stored),
            Kind::PutExpiring => {
                let (expires_ms, value) = split_expiry(stored)
                    .ok_or_else(|| Error::Invalid("an expiring value lacks its moment".into()))?;
                self.admit(keyspace)?;
                self.encoder.put_expiring(keyspace.tree().id, key, value, expires_ms);
                Ok(())
            }
        }
    }

    /// What this batch survives once it is acknowledged; default the database's.
    pub fn durability(&mut self, durability: Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        self.encoder.count() as usize
    }

    /// Whether the batch does nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the batch will take in the log.
    pub fn bytes(&self) -> usize {
        self.encoder.bytes()
    }

    /// Takes all operations back; keeps the allocated memory.
    pub fn clear(&mut self) {
        self.encoder.clear();
        self.trees.clear();
    }

    /// Refuses a batch of another database.
    pub(super) fn belongs_to(&self, core: &Core) -> Result<()> {
        match &self.handle {
            Some(handle) if !std::ptr::eq::<Core>(&***handle, core) => {
                Err(Error::Invalid("the batch was filled for another database".into()))
            }
            _ => Ok(()),
        }
    }
}

impl Core {
    /// Does `write`, recorded if somebody records, and counted for every keyspace that the batch writes to. If it is one that is timed, its time is the
    /// first keyspace's.
    pub(super) fn timed_write(
        &self,
        batch: Batch,
        write: impl FnOnce(Batch) -> Result<Seqno>,
    ) -> Result<Seqno> {
        let mut timed = None;
        for (number, tree) in batch.trees.iter().enumerate() {
            let stats = &tree.context.stats;
            let here = stats.here();
            if number == 0 && here.is_due(Sampled::Write) {
                timed = Some((tree.clone(), stats.begin(here, Sampled::Write, self.clock())));
            }
            here.add(Counter::Writes, 1);
        }
        let written = self.traced_write(batch, write);
        if let Some((tree, begun)) = timed {
            tree.context.stats.end(Latency::Write, begun, self.clock());
        }
        written
    }
}
