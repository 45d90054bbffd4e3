//! Batches, several operations that are committed together or not at all: `Batch`.
//!
//! `put`, `delete`, `delete_range`, `merge` and their kin check each operation when it is added,
//! and encode it as the log will hold it (`wal::batch`). `durability` says what the batch survives
//! once acknowledged.
//!
//! What must hold: a batch is committed only by the database whose keyspaces it names
//! (`for_database`). Operations apply in the order in which they were added.
//!
//! Callers: applications, `solera-cli`, `solera-sim` and `fuzz` by `Db::batch` and `Db::write`;
//! `Transaction::commit`, whose writes become a batch. (Single writes of a `Keyspace` go to the
//! engine without one.)

use super::{
    Core, Durability, Handle, KeyBounds, Keyspace,
    bounds::{deleted, deleted_prefix},
    check_sizes,
};
use crate::{
    engine::commit::{Operations, encode_put, encode_put_expiring},
    error::{Error, Result},
    key::{EXPIRY_BYTES, Kind, split_expiry},
    tree::Tree,
    wal::batch::BatchEncoder,
};
use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

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
    /// [`Error::TooLarge`], [`Error::NoKeyspace`] if it was dropped, [`Error::Invalid`] if it
    /// belongs to another database. The same holds for the other operations.
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_sizes(key, value.len())?;
        self.admit(keyspace)?;
        encode_put(&mut self.encoder, keyspace.tree(), key, value);
        Ok(())
    }

    /// See [`Keyspace::put_with_ttl`]. The time to live counts from this call.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_with_ttl(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: Duration,
    ) -> Result<()> {
        let expires_ms = keyspace.handle().store.expiry.moment(ttl);
        self.put_bytes_until(keyspace, key.as_ref(), value.as_ref(), expires_ms)
    }

    /// See [`Keyspace::put_until`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put_until(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_ms: u64,
    ) -> Result<()> {
        self.put_bytes_until(keyspace, key.as_ref(), value.as_ref(), expires_ms)
    }

    fn put_bytes_until(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: &[u8],
        expires_ms: u64,
    ) -> Result<()> {
        check_sizes(key, value.len() + EXPIRY_BYTES)?;
        self.admit(keyspace)?;
        encode_put_expiring(&mut self.encoder, keyspace.tree(), key, value, expires_ms);
        Ok(())
    }

    /// See [`Keyspace::delete`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        check_sizes(key, 0)?;
        self.admit(keyspace)?;
        self.encoder.delete(keyspace.tree().id, key);
        Ok(())
    }

    /// See [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyBounds) -> Result<()> {
        self.delete_between(keyspace, deleted(range.key_bounds())?)
    }

    /// See [`Keyspace::delete_prefix`].
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_between(keyspace, deleted_prefix(prefix.as_ref())?)
    }

    fn delete_between(
        &mut self,
        keyspace: &Keyspace,
        range: Option<(Cow<'_, [u8]>, Cow<'_, [u8]>)>,
    ) -> Result<()> {
        self.admit(keyspace)?;
        if let Some((start, end)) = range {
            self.encoder.delete_range(keyspace.tree().id, &start, &end);
        }
        Ok(())
    }

    /// Deletes a range that a transaction has collected.
    pub(super) fn deleted(&mut self, keyspace: &Keyspace, start: &[u8], end: &[u8]) -> Result<()> {
        self.delete_between(keyspace, Some((Cow::Borrowed(start), Cow::Borrowed(end))))
    }

    /// See [`Keyspace::merge`].
    ///
    /// # Errors
    /// As [`Batch::put`], and [`Error::Invalid`] if the keyspace has no merge operator.
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
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
                encode_put_expiring(&mut self.encoder, keyspace.tree(), key, value, expires_ms);
                Ok(())
            }
            Kind::PutSeparated | Kind::PutExpiringSeparated => {
                unreachable!("a transaction holds its values itself")
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

    /// Takes all operations of the batch back; keeps the allocated memory. To remove all keys of a
    /// keyspace, [delete](Batch::delete_range) the range `..`.
    pub fn clear(&mut self) {
        self.encoder.clear();
        self.trees.clear();
    }

    /// What is to be committed. Refuses a batch of another database.
    pub(super) fn for_database(self, core: &Core) -> Result<Operations> {
        match &self.handle {
            Some(handle) if !std::ptr::eq::<Core>(&***handle, core) => {
                Err(Error::Invalid("the batch was filled for another database".into()))
            }
            _ => Ok(Operations { encoder: self.encoder, trees: self.trees, durability: self.durability }),
        }
    }
}
