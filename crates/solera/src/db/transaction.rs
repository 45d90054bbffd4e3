//! Optimistic transactions: read at a snapshot, write privately, validate at commit.
//!
//! Owns [`Transaction`] and its iterators; `writes` owns what it wrote, `reads` what it read. Serializable: nothing that the transaction read (keys
//! and ranges, absent keys too) may have been written between its snapshot and its commit; then its place in
//! the serial order is its commit. A transaction that wrote nothing read one snapshot and needs no
//! validation.

use super::{
    Batch, Handle, Iter, Keyspace, Snapshot, check_sizes, keyspace,
    reads::{Reads, Span},
    writes::{Writes, WritesCursor},
};
use crate::{
    cursor::Cursor,
    error::{Error, Result},
    ids::{KeyspaceId, Seqno},
    key::{EXPIRY_BYTES, KeyEnd, KeyRange, Kind},
    pin::Slice,
    sync::Mutex,
    tree::Walk,
};
use std::{
    collections::BTreeMap,
    fmt,
    iter::{self, FusedIterator},
    ops::RangeBounds,
    sync::Arc,
    time::Duration,
};

/// A unit of reads and writes that takes effect as if it ran alone, at its commit. It sees the database
/// as it was when it began, and its own writes. Dropping it without [`commit`](Transaction::commit) rolls
/// it back.
///
/// A keyspace that is dropped takes with it what the transaction has read and written there: the commit is refused
/// if it wrote there. A new keyspace of that name is another one, in which the transaction has written nothing.
///
/// ```
/// # fn main() -> solera::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = solera::Db::open(dir.path())?;
/// let accounts = db.keyspace("accounts")?;
/// accounts.put(b"ann", b"10")?;
/// loop {
///     let mut transaction = db.transaction();
///     let coins = transaction.get(&accounts, b"ann")?.unwrap();
///     transaction.put(&accounts, b"bob", &coins)?;
///     transaction.delete(&accounts, b"ann")?;
///     match transaction.commit() {
///         Err(error) if error.is_retryable() => continue,
///         outcome => break outcome.map(drop),
///     }
/// }
/// # }
/// ```
pub struct Transaction {
    snapshot: Snapshot,
    writes: BTreeMap<KeyspaceId, (Keyspace, Arc<Writes>)>,
    reads: Mutex<Reads>,
    durability: super::Durability,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction(at {})", self.snapshot.seqno())
    }
}

impl Transaction {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        let durability = handle.options.durability;
        Transaction {
            snapshot: Snapshot::new(handle),
            writes: BTreeMap::new(),
            reads: Mutex::default(),
            durability,
        }
    }

    /// What the commit survives; default the database's.
    pub fn durability(&mut self, durability: super::Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// The value of `key`: this transaction's own, or the one at its snapshot. The key joins the read
    /// set, present or absent.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Slice>> {
        check_sizes(key, 0)?;
        keyspace.live()?;
        self.snapshot.sees(keyspace)?;
        let own = self.writes.get(&keyspace.tree().id).map(|(_, writes)| writes);
        // A key that the transaction itself has set is read without looking at the database.
        if let Some(newest) = own.and_then(|writes| writes.keys.get(key)).and_then(|writes| writes.first()) {
            match newest.kind {
                Kind::Put => return Ok(Some(newest.stored.clone())),
                Kind::Delete => return Ok(None),
                Kind::PutExpiring | Kind::Merge => {}
            }
        }
        self.reads.lock().add_key(keyspace.tree().id, key);
        match own {
            None => self.snapshot.get(keyspace, key),
            Some(writes) => {
                let range = KeyRange::closed(key, key);
                let view = keyspace.tree().view_owned();
                let cursor = WritesCursor::new(writes.clone());
                let mut walker = Walk::new(&view, &range)?
                    .with_front(Box::new(cursor), Arc::new(writes.tombstones()))
                    .forward(keyspace.read_context(self.snapshot.seqno()));
                walker.seek(key)?;
                let found = walker.valid();
                keyspace.count_lookups(iter::once((key, found)));
                Ok(found.then(|| walker.pin_value()))
            }
        }
    }

    /// As [`Transaction::get`], into the caller's buffer, whose old content is replaced if the key is found.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_into(&self, keyspace: &Keyspace, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.get(keyspace, key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    /// The values of several keys, in their order; all join the read set.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        keys.iter().map(|key| self.get(keyspace, key.as_ref())).collect()
    }

    /// Whether `key` has a value; it joins the read set.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: &[u8]) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// All entries in key order, this transaction's own writes among them. What the iterator passes over
    /// joins the read set. Later writes of the transaction do not show in it.
    pub fn iter<'t>(&'t self, keyspace: &Keyspace) -> TransactionIter<'t> {
        self.entries(keyspace, KeyRange::all())
    }

    /// The entries whose keys are in `range`; see [`Transaction::iter`].
    pub fn range<'t, K: AsRef<[u8]>>(
        &'t self,
        keyspace: &Keyspace,
        range: impl RangeBounds<K>,
    ) -> TransactionIter<'t> {
        self.entries(keyspace, keyspace::key_range(&range))
    }

    /// The entries whose keys start with `prefix`; see [`Transaction::iter`].
    pub fn prefix<'t>(&'t self, keyspace: &Keyspace, prefix: &[u8]) -> TransactionIter<'t> {
        self.entries(keyspace, keyspace::prefix_range(prefix))
    }

    fn entries<'t>(&'t self, keyspace: &Keyspace, range: KeyRange) -> TransactionIter<'t> {
        let mut iter = Iter::new(keyspace, self.snapshot.clone(), range.clone());
        if let Some((_, writes)) = self.writes.get(&keyspace.tree().id) {
            let writes = writes.clone();
            iter = iter.with_overlay(Box::new(move || {
                let cursor = WritesCursor::new(writes.clone());
                (Box::new(cursor) as Box<dyn Cursor + Send>, Arc::new(writes.tombstones()))
            }));
        }
        TransactionIter {
            transaction: self,
            keyspace: keyspace.tree().id,
            iter,
            front: End { from: range.start.clone(), passed: None },
            back: End { from: range.end.clone(), passed: None },
            range,
        }
    }

    fn writes_to(&mut self, keyspace: &Keyspace) -> Result<&mut Writes> {
        keyspace.live()?;
        if !Arc::ptr_eq(keyspace.handle(), self.snapshot.handle()) {
            return Err(Error::Invalid("a transaction cannot write to another database".into()));
        }
        let (_, writes) = self
            .writes
            .entry(keyspace.tree().id)
            .or_insert_with(|| (keyspace.clone(), Arc::new(Writes::default())));
        Ok(Arc::make_mut(writes))
    }

    /// See [`Keyspace::put`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn put(&mut self, keyspace: &Keyspace, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value.len())?;
        self.writes_to(keyspace)?.set(key, Kind::Put, Slice::copy_from(value));
        Ok(())
    }

    /// See [`Keyspace::put_with_ttl`]; takes effect at commit, the time to live counts from this call.
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
        let moment: [u8; EXPIRY_BYTES] = keyspace.handle().expiry(ttl).to_be_bytes();
        let stored = Slice::from([&moment, value].concat());
        self.writes_to(keyspace)?.set(key, Kind::PutExpiring, stored);
        Ok(())
    }

    /// See [`Keyspace::delete`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: &[u8]) -> Result<()> {
        check_sizes(key, 0)?;
        self.writes_to(keyspace)?.set(key, Kind::Delete, Slice::empty());
        Ok(())
    }

    /// See [`Keyspace::delete_range`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, start: &[u8], end: &[u8]) -> Result<()> {
        check_sizes(start, 0)?;
        check_sizes(end, 0)?;
        let writes = self.writes_to(keyspace)?;
        if start < end {
            writes.delete_range(start, end);
        }
        Ok(())
    }

    /// See [`Keyspace::merge`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::merge`].
    pub fn merge(&mut self, keyspace: &Keyspace, key: &[u8], operand: &[u8]) -> Result<()> {
        check_sizes(key, operand.len())?;
        keyspace.can_merge()?;
        self.writes_to(keyspace)?.set(key, Kind::Merge, Slice::copy_from(operand));
        Ok(())
    }

    /// Makes the writes take effect, all at once, if nothing that was read has been written meanwhile.
    /// Returns the commit's sequence number.
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing took effect, run the transaction again. Else as
    /// [`Db::write`](crate::Db::write).
    pub fn commit(self) -> Result<Seqno> {
        let handle = self.snapshot.handle().clone();
        let mut batch = Batch::new(self.durability);
        for (keyspace, writes) in self.writes.values() {
            for range in &writes.deleted {
                if let Some(end) = range.end.key() {
                    batch.delete_range(keyspace, &range.start, end)?;
                }
            }
            for (key, versions) in &writes.keys {
                for write in versions.iter().rev() {
                    batch.stored(keyspace, key, write.kind, &write.stored)?;
                }
            }
        }
        if batch.is_empty() {
            handle.write_nothing(self.durability)?;
            return Ok(self.snapshot.seqno());
        }
        let (reads, since) = (self.reads.into_inner().finish(), self.snapshot.seqno());
        handle.timed_write(batch, |batch| handle.write_transaction(batch, reads, since))
    }

    /// Forgets the writes. The same as dropping the transaction.
    pub fn rollback(self) {}
}

/// One end of an iterator: where it began, and what it has passed over since.
struct End<F> {
    from: F,
    passed: Option<Span>,
}

/// Entries as a [`Transaction`] sees them. What it passes over joins the transaction's read set at once.
pub struct TransactionIter<'t> {
    transaction: &'t Transaction,
    keyspace: KeyspaceId,
    iter: Iter,
    /// The whole range asked for.
    range: KeyRange,
    front: End<Box<[u8]>>,
    back: End<KeyEnd>,
}

impl fmt::Debug for TransactionIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter.fmt(f)
    }
}

impl<'t> TransactionIter<'t> {
    /// As [`Iter::seek`]. What is passed over after the seek joins the read set, not what lies between.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.front = End { from: self.range.clamp_to_start(key).into(), passed: None };
        self.iter.seek(key)
    }

    /// As [`Iter::seek_back`]. What is passed over after the seek joins the read set, not what lies between.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.back = End { from: KeyEnd::Included(key.into()).min(self.range.end.clone()), passed: None };
        self.iter.seek_back(key)
    }

    /// Only the keys: values are not looked at.
    pub fn keys(self) -> TransactionKeys<'t> {
        TransactionKeys { entries: self }
    }

    fn advance(&mut self) -> Result<bool> {
        let moved = self.iter.advance();
        // An end or an error says something about everything up to the end.
        let end = match moved {
            Ok(true) => KeyEnd::Included(self.iter.key().into()),
            _ => self.range.end.clone(),
        };
        let mut reads = self.transaction.reads.lock();
        match self.front.passed {
            Some(span) => reads.span_mut(span).end = end,
            None => {
                let range = KeyRange { start: self.front.from.clone(), end };
                self.front.passed = Some(reads.add_span(self.keyspace, range));
            }
        }
        moved
    }

    fn advance_back(&mut self) -> Result<bool> {
        let moved = self.iter.advance_back();
        let start = match moved {
            Ok(true) => self.iter.key().into(),
            _ => self.range.start.clone(),
        };
        let mut reads = self.transaction.reads.lock();
        match self.back.passed {
            Some(span) => reads.span_mut(span).start = start,
            None => {
                let range = KeyRange { start, end: self.back.from.clone() };
                self.back.passed = Some(reads.add_span(self.keyspace, range));
            }
        }
        moved
    }
}

impl Iterator for TransactionIter<'_> {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.advance();
        self.iter.item(moved)
    }
}

impl DoubleEndedIterator for TransactionIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let moved = self.advance_back();
        self.iter.item(moved)
    }
}

impl FusedIterator for TransactionIter<'_> {}

/// As [`TransactionIter`], but yields keys only.
#[derive(Debug)]
pub struct TransactionKeys<'t> {
    entries: TransactionIter<'t>,
}

impl TransactionKeys<'_> {
    /// As [`TransactionIter::seek`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.entries.seek(key)
    }

    /// As [`TransactionIter::seek_back`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.entries.seek_back(key)
    }

    fn item(&self, moved: Result<bool>) -> Option<Result<Slice>> {
        moved.map(|moved| moved.then(|| Slice::copy_from(self.entries.iter.key()))).transpose()
    }
}

impl Iterator for TransactionKeys<'_> {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance();
        self.item(moved)
    }
}

impl DoubleEndedIterator for TransactionKeys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance_back();
        self.item(moved)
    }
}

impl FusedIterator for TransactionKeys<'_> {}
