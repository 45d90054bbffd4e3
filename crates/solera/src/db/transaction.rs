//! Optimistic transactions: `Transaction`, `TransactionIter`, `TransactionKeys`.
//!
//! A transaction reads at a snapshot, keeps its writes to itself (`db::writes`), and notes keys and
//! ranges that it has read (`engine::reads`). `commit` hands both to the engine, which validates
//! the reads before the commit and once more at its turn.
//!
//! What must hold: transactions are serializable. Nothing that one has read, absent keys and passed
//! ranges included, may have been written between its snapshot and its commit. Else the commit
//! fails with `Error::Conflict` and writes nothing. What a transaction reads of its own writes does
//! not count, unless it expires. Its place in the serial order is its commit. One that wrote
//! nothing needs no validation.
//!
//! Callers: applications and `solera-sim` by `Db::transaction`; `db::compound` (`transact`,
//! `fetch_update`, `pop_first`, which reads past the read set by `seen`).

use super::{
    Batch, Handle, Iter, KeyBounds, Keyspace, Snapshot,
    bounds::{deleted, deleted_prefix, key_range, prefix_range},
    check_sizes,
    keyspace::AsOf,
    writes::{Made, Writes},
};
use crate::{
    engine::reads::{Reads, Span},
    error::{Error, Result},
    ids::{KeyspaceId, Seqno},
    key::{EXPIRY_BYTES, KeyEnd, KeyRange, Kind, SharedRange},
    merge::visible::gaps::Eye,
    pin::Slice,
    sight::{self, Verdict},
    sync::Mutex,
    tree::{Walk, value_of},
};
use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    iter::{self, FusedIterator},
    sync::Arc,
    time::Duration,
};

/// A unit of reads and writes that takes effect as if it ran alone, at its commit. It sees the
/// database as it was when it began, and its own writes. Nothing expires while it runs: its time is
/// that of its beginning. Dropping it without
/// [`commit`](Transaction::commit) rolls it back.
///
/// A keyspace that is dropped takes with it what the transaction has read and written there: the
/// commit is refused if it wrote there. A new keyspace of that name is another one, in which the
/// transaction has written nothing. Creating a keyspace and dropping one are not part of a
/// transaction: they take effect at once, and stay when it is rolled back.
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
    reads: ReadSoFar,
    durability: super::Durability,
}

/// What a transaction and its iterators have read; `None` once it was committed.
type ReadSoFar = Arc<Mutex<Option<Reads>>>;

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transaction(at {})", self.snapshot.seqno())
    }
}

impl Transaction {
    pub(super) fn new(handle: Arc<Handle>) -> Self {
        let durability = handle.options.durability;
        Transaction {
            snapshot: Snapshot::of_transaction(handle),
            writes: BTreeMap::new(),
            reads: Arc::new(Mutex::new(Some(Reads::default()))),
            durability,
        }
    }

    /// What the commit survives; default the database's.
    pub fn durability(&mut self, durability: super::Durability) -> &mut Self {
        self.durability = durability;
        self
    }

    /// The value of `key`: this transaction's own, or the one at its snapshot. The key joins the
    /// read set, present or absent.
    ///
    /// # Errors
    /// As [`Keyspace::get`], and [`Error::TooLarge`] for a key that is longer than any may be.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_bytes(keyspace, key.as_ref())
    }

    fn get_bytes(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<Slice>> {
        check_sizes(key, 0)?;
        keyspace.live()?;
        self.snapshot.sees(keyspace)?;
        let own = self.writes.get(&keyspace.tree().id).map(|(_, writes)| writes);
        // A key that the transaction itself has set is read without looking at the database. A
        // value that expires is another matter: what is read depends on the moment, so that the key
        // joins the read set.
        let newest = own.and_then(|writes| writes.newest(key));
        if let Some(newest) = newest.filter(|newest| !newest.kind.expires()) {
            let now_ms = || keyspace.handle().store.expiry.now_ms();
            match sight::judge(newest.kind, || newest.stored, false, now_ms) {
                Verdict::Value(skipped) => return Ok(Some(Slice::copy_from(&newest.stored[skipped..]))),
                Verdict::Absent => return Ok(None),
                Verdict::Operand => {}
                Verdict::Separated(_) | Verdict::Malformed => {
                    unreachable!("a transaction holds its values itself, as it was given them")
                }
            }
        }
        if newest.is_none() && own.is_some_and(|writes| writes.covers(key)) {
            return Ok(None);
        }
        self.has_read(keyspace, key);
        match own.filter(|_| newest.is_some()) {
            None => self.snapshot.get(keyspace, key),
            Some(writes) => {
                let range = KeyRange::closed(key, key);
                let view = keyspace.tree().view_owned();
                keyspace.live()?;
                let mut walker = Walk::new(&view, range.into())?
                    .with_fronts(writes.sources())
                    .forward(keyspace.reader(self.snapshot.seqno(), self.snapshot.now_ms()));
                walker.seek(key)?;
                let found = walker.valid();
                keyspace.count_lookups(iter::once((key, found)));
                if found { value_of(&mut walker, &keyspace.tree().values).map(Some) } else { Ok(None) }
            }
        }
    }

    /// As [`Transaction::get`], into the caller's buffer, whose old content is replaced if the key
    /// is found.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_into(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.get(keyspace, key)? else { return Ok(false) };
        value.clear();
        value.extend_from_slice(&found);
        Ok(true)
    }

    /// The values of several keys, in their order; all join the read set.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keyspace: &Keyspace, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        keys.iter().try_for_each(|key| check_sizes(key.as_ref(), 0))?;
        let own = self.writes.get(&keyspace.tree().id).map(|(_, writes)| writes);
        let is_own =
            |key: &[u8]| own.is_some_and(|writes| writes.newest(key).is_some() || writes.covers(key));
        let keys = || keys.iter().map(AsRef::as_ref);
        let others: Vec<&[u8]> = keys().filter(|key| !is_own(key)).collect();
        others.iter().for_each(|key| self.has_read(keyspace, key));
        let mut values = self.snapshot.multi_get(keyspace, &others)?.into_iter();
        // Both walks ask the same of each key, so there is a value for each of the others.
        keys()
            .map(|key| match is_own(key) {
                true => self.get_bytes(keyspace, key),
                false => Ok(values.next().flatten()),
            })
            .collect()
    }

    /// Whether `key` has a value; it joins the read set.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains_key(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(keyspace, key)?.is_some())
    }

    /// All entries in key order, this transaction's own writes among them. What the iterator passes
    /// over joins the read set. The transaction may write while the iterator walks; what is written
    /// later does not show in it. The first write to the keyspace while an iterator is alive copies
    /// the list of the transaction's writes there.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// db.put("a", "1")?;
    /// db.put("b", "2")?;
    /// let mut transaction = db.transaction();
    /// for entry in transaction.iter(db.default()) {
    ///     let (key, value) = entry?;
    ///     transaction.put(db.default(), [b"copy/", &key[..]].concat(), value)?;
    /// }
    /// transaction.commit()?;
    /// assert_eq!(db.get("copy/b")?.unwrap(), "2");
    /// # Ok(()) }
    /// ```
    pub fn iter(&self, keyspace: &Keyspace) -> TransactionIter {
        self.entries(keyspace, SharedRange::default())
    }

    /// The entries whose keys are in `range`; see [`Transaction::iter`].
    pub fn range(&self, keyspace: &Keyspace, range: impl KeyBounds) -> TransactionIter {
        self.entries(keyspace, key_range(range.key_bounds()).into())
    }

    /// The entries whose keys start with `prefix`; see [`Transaction::iter`].
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> TransactionIter {
        self.entries(keyspace, prefix_range(prefix.as_ref()).into())
    }

    fn entries(&self, keyspace: &Keyspace, range: SharedRange) -> TransactionIter {
        let own = self.writes.get(&keyspace.tree().id).map(|(_, writes)| writes.clone());
        let narrowed = own.as_ref().and_then(|writes| writes.emptied().lock().narrowed(&range));
        let walked = narrowed.map_or_else(|| range.clone(), SharedRange::from);
        let mut iter = Iter::new(keyspace, Some(self.snapshot.clone()), walked);
        if let Some(writes) = own.clone() {
            iter = iter.with_overlay(Box::new(move || writes.sources()));
        }
        TransactionIter {
            reads: self.reads.clone(),
            keyspace: keyspace.tree().id,
            own,
            iter,
            front: End::placed(None),
            back: End::placed(None),
            range,
        }
    }

    /// The entries of `keyspace` at the transaction's moment. They do not join the read set.
    pub(super) fn seen(&self, keyspace: &Keyspace) -> Iter {
        self.snapshot.iter(keyspace)
    }

    /// As of when the transaction reads.
    pub(super) fn as_of(&self) -> AsOf {
        self.snapshot.as_of()
    }

    /// The caller has read `key`: it joins the read set.
    pub(super) fn has_read(&self, keyspace: &Keyspace, key: &[u8]) {
        if let Some(reads) = &mut *self.reads.lock() {
            reads.add_key(keyspace.tree().id, key);
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
    pub fn put(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_sizes(key, value.len())?;
        self.writes_to(keyspace)?.set(key, Kind::Put, &[value]);
        Ok(())
    }

    /// See [`Keyspace::put_with_ttl`]; takes effect at commit, the time to live counts from this
    /// call.
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
        self.writes_to(keyspace)?.set(key, Kind::PutExpiring, &[&expires_ms.to_be_bytes(), value]);
        Ok(())
    }

    /// See [`Keyspace::delete`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        check_sizes(key, 0)?;
        self.writes_to(keyspace)?.set(key, Kind::Delete, &[]);
        Ok(())
    }

    /// See [`Keyspace::delete_range`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_range(&mut self, keyspace: &Keyspace, range: impl KeyBounds) -> Result<()> {
        self.delete_between(keyspace, deleted(range.key_bounds())?)
    }

    /// See [`Keyspace::delete_prefix`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn delete_prefix(&mut self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_between(keyspace, deleted_prefix(prefix.as_ref())?)
    }

    /// See [`Keyspace::clear`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::put`].
    pub fn clear(&mut self, keyspace: &Keyspace) -> Result<()> {
        self.delete_range(keyspace, ..)
    }

    fn delete_between(
        &mut self,
        keyspace: &Keyspace,
        range: Option<(Cow<'_, [u8]>, Cow<'_, [u8]>)>,
    ) -> Result<()> {
        let writes = self.writes_to(keyspace)?;
        if let Some((start, end)) = range {
            writes.delete_range(&start, &end);
        }
        Ok(())
    }

    /// See [`Keyspace::merge`]; takes effect at commit.
    ///
    /// # Errors
    /// As [`Batch::merge`].
    pub fn merge(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        check_sizes(key, operand.len())?;
        keyspace.can_merge()?;
        self.writes_to(keyspace)?.set(key, Kind::Merge, &[operand]);
        Ok(())
    }

    /// Makes the writes take effect, all at once, if nothing that was read has been written
    /// meanwhile. Returns the commit's sequence number.
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing took effect, run the transaction again. Else as
    /// [`Db::write`](crate::Db::write).
    pub fn commit(mut self) -> Result<Seqno> {
        let handle = self.snapshot.handle().clone();
        let mut batch = Batch::new(self.durability);
        // They go as the batch comes, so that a large transaction is in memory twice at most.
        while let Some((_, (keyspace, writes))) = self.writes.pop_first() {
            writes.each(|made| match made {
                Made::Write(write) => batch.stored(&keyspace, write.key, write.kind, write.stored),
                Made::Deleted(range) => match range.end.key() {
                    Some(end) => batch.deleted(&keyspace, &range.start, end),
                    None => Ok(()),
                },
            })?;
        }
        if batch.is_empty() {
            handle.write_no_transaction(self.durability)?;
            return Ok(self.snapshot.seqno());
        }
        let reads = self.reads.lock().take().unwrap_or_default().finish();
        // Whose time is not known has seen what never expires: no gap is for it.
        let eye = Eye { snapshot: self.snapshot.seqno(), now_ms: self.snapshot.now_ms().unwrap_or(0) };
        let operations = batch.for_database(&handle)?;
        let write = |operations| handle.write_transaction(operations, reads, eye);
        handle.tracing.timed_write(operations, handle.clock(), write)
    }

    /// Forgets the writes. The same as dropping the transaction.
    pub fn rollback(self) {}
}

/// One end of an iterator: where it was placed, and what it has passed over since.
struct End<F> {
    /// `None`: where the whole range begins, or ends.
    from: Option<F>,
    /// It has not moved since.
    is_fresh: bool,
    passed: Option<Span>,
}

impl<F> End<F> {
    fn placed(from: Option<F>) -> End<F> {
        End { from, is_fresh: true, passed: None }
    }
}

/// Entries as a [`Transaction`] sees them. What it passes over joins the transaction's read set at
/// once. It may live longer than the transaction; then no commit asks what it read.
pub struct TransactionIter {
    reads: ReadSoFar,
    keyspace: KeyspaceId,
    /// The transaction's writes that it sees.
    own: Option<Arc<Writes>>,
    /// Over what is not known to be empty.
    iter: Iter,
    /// The whole range asked for.
    range: SharedRange,
    front: End<Box<[u8]>>,
    back: End<KeyEnd>,
}

impl fmt::Debug for TransactionIter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter.fmt(f)
    }
}

impl TransactionIter {
    /// As [`Iter::seek`]. What is passed over after the seek joins the read set, not what lies
    /// between.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.front = End::placed(Some(self.range.clamp_to_start(key).into()));
        self.iter.seek(key)
    }

    /// As [`Iter::seek_back`]. What is passed over after the seek joins the read set, not what lies
    /// between.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.back = End::placed(Some(KeyEnd::Included(key.into()).min(self.range.end.clone())));
        self.iter.seek_back(key)
    }

    /// Only the keys: values are not looked at.
    pub fn keys(mut self) -> TransactionKeys {
        self.iter.reads_no_values();
        TransactionKeys { entries: self }
    }

    /// Where the front was placed.
    fn front_start(&self) -> Box<[u8]> {
        self.front.from.as_ref().unwrap_or(&self.range.start).clone()
    }

    /// Where the back was placed.
    fn back_end(&self) -> KeyEnd {
        self.back.from.as_ref().unwrap_or(&self.range.end).clone()
    }

    fn advance(&mut self) -> Result<bool> {
        let moved = self.iter.advance();
        let is_first = std::mem::take(&mut self.front.is_fresh);
        if let (Some(own), true, Ok(true)) = (&self.own, is_first, &moved) {
            let end = KeyEnd::Excluded(self.iter.key().into());
            own.emptied().lock().learn(KeyRange { start: self.front_start(), end });
        }
        // An end or an error says something about everything up to the end.
        let end = match moved {
            Ok(true) => KeyEnd::Included(self.iter.key().into()),
            _ => self.range.end.clone(),
        };
        let mut reads = self.reads.lock();
        let Some(reads) = &mut *reads else { return moved };
        match self.front.passed {
            Some(span) => reads.span_mut(span).end = end,
            None => {
                let range = KeyRange { start: self.front_start(), end };
                self.front.passed = Some(reads.add_span(self.keyspace, range));
            }
        }
        moved
    }

    fn advance_back(&mut self) -> Result<bool> {
        let moved = self.iter.advance_back();
        let is_first = std::mem::take(&mut self.back.is_fresh);
        if let (Some(own), true, Ok(true)) = (&self.own, is_first, &moved) {
            let start = [self.iter.key(), &[0]].concat().into();
            own.emptied().lock().learn(KeyRange { start, end: self.back_end() });
        }
        let start = match moved {
            Ok(true) => self.iter.key().into(),
            _ => self.range.start.clone(),
        };
        let mut reads = self.reads.lock();
        let Some(reads) = &mut *reads else { return moved };
        match self.back.passed {
            Some(span) => reads.span_mut(span).start = start,
            None => {
                let range = KeyRange { start, end: self.back_end() };
                self.back.passed = Some(reads.add_span(self.keyspace, range));
            }
        }
        moved
    }
}

impl Iterator for TransactionIter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.advance();
        self.iter.item(moved)
    }
}

impl DoubleEndedIterator for TransactionIter {
    fn next_back(&mut self) -> Option<Self::Item> {
        let moved = self.advance_back();
        self.iter.item(moved)
    }
}

impl FusedIterator for TransactionIter {}

/// As [`TransactionIter`], but yields keys only.
#[derive(Debug)]
pub struct TransactionKeys {
    entries: TransactionIter,
}

impl TransactionKeys {
    /// As [`TransactionIter::seek`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.entries.seek(key)
    }

    /// As [`TransactionIter::seek_back`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.entries.seek_back(key)
    }
}

impl Iterator for TransactionKeys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance();
        self.entries.iter.key_item(moved)
    }
}

impl DoubleEndedIterator for TransactionKeys {
    fn next_back(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance_back();
        self.entries.iter.key_item(moved)
    }
}

impl FusedIterator for TransactionKeys {}
