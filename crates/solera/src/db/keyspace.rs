//! One keyspace, as users hold it: `Keyspace`, a cheap handle with its reads, writes, iterators and
//! loads. Calls that are made of others, and estimates, are in `compound`.
//!
//! `get` and its kin ask `View::lookup` under one epoch guard, `multi_get` asks for 256 keys under
//! one. Values that lie apart are read then, operands folded by `Tree::fold`. Single writes go to
//! the engine as they are (`Handle::write_single`); `ingest`, `flush` and `compact_range` are the
//! engine's too.
//!
//! What must hold: the view is taken before the snapshot is chosen, and before it is asked whether
//! the tree is gone. A keyspace that was dropped, or whose database was closed, refuses to read and
//! write, and keeps neither files nor memory; `stats` and estimates find nothing in it.
//!
//! Callers: applications and other crates; `Db` forwards its data calls to the default keyspace;
//! `Snapshot` and `Transaction` read through it.

use super::{
    Entry, Handle, IngestReport, Iter, KeyBounds, KeyspaceStats,
    bounds::{deleted, deleted_prefix, key_range, prefix_range},
    check_sizes,
};
use crate::{
    codec::DecodeError,
    cursor::{Hit, Probe},
    engine::{commit::Single, report},
    error::{Error, Result},
    ids::Seqno,
    key::{self, EXPIRY_BYTES, SharedRange},
    operator::NOT_GIVEN,
    pin::Slice,
    sight::{self, Reader},
    stats::{Counter, Latency, SAMPLE_PERIOD, Sampled},
    sync::atomic::Ordering,
    tree::{Outcome, Tree, View},
    values::{self, Pointer, ReadAhead},
};
use crossbeam_epoch::Guard;
use std::{borrow::Cow, fmt, iter, sync::Arc, time::Duration};

/// Keys of a [`Keyspace::multi_get`] that are looked up under one guard.
const KEYS_PINNED: usize = 256;

/// An independent ordered map inside a database (RocksDB: column family). A cheap handle.
#[derive(Clone)]
pub struct Keyspace {
    handle: Arc<Handle>,
    tree: Arc<Tree>,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyspace({:?})", self.tree.name)
    }
}

/// A value that a lookup came to.
pub(super) enum Value<'v> {
    /// It lies in a block or memtable.
    InPlace(&'v Hit<'v>, &'v [u8]),
    /// It was folded from operands.
    Folded(Slice),
    /// It lay apart from its entry, which expires at this moment, if it does.
    Apart(Slice, Option<u64>),
}

impl Value<'_> {
    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self {
            Value::InPlace(_, bytes) => bytes,
            Value::Folded(slice) | Value::Apart(slice, _) => slice,
        }
    }

    /// The value, kept alive beyond the lookup.
    #[inline]
    pub(super) fn into_slice(self) -> Slice {
        match self {
            // SAFETY: `bytes` is the hit's value or a part of it, which its pin keeps alive and
            // unchanged.
            Value::InPlace(hit, bytes) => unsafe { Slice::pinned(hit.pin(), bytes) },
            Value::Folded(slice) | Value::Apart(slice, _) => slice,
        }
    }

    /// The value and its moment.
    pub(super) fn into_entry(self) -> Entry {
        let expires_ms = match &self {
            Value::InPlace(hit, _) => sight::expires_ms(hit.kind, hit.value()),
            Value::Folded(_) => None,
            Value::Apart(_, expires_ms) => *expires_ms,
        };
        Entry { value: self.into_slice(), expires_ms }
    }
}

/// What a lookup is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    /// The value.
    Value,
    /// Whether there is one: a value that is kept apart is not read.
    Presence,
}

/// As of when a reader reads.
#[derive(Clone, Copy, Default)]
pub(super) struct AsOf {
    /// What the reader sees; `None`: what is visible now.
    pub(super) snapshot: Option<Seqno>,
    /// By which time entries have expired; `None`: by the clock.
    pub(super) now_ms: Option<u64>,
}

impl Keyspace {
    pub(super) fn new(handle: Arc<Handle>, tree: Arc<Tree>) -> Self {
        Keyspace { handle, tree }
    }

    pub(super) fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    pub(super) fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// The keyspace's name.
    pub fn name(&self) -> &str {
        &self.tree.name
    }

    #[inline]
    pub(super) fn live(&self) -> Result<()> {
        if self.tree.is_gone() { Err(self.gone()) } else { Ok(()) }
    }

    /// Whether the database was closed, also of a keyspace that was dropped before.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.tree.is_gone() && (self.tree.is_closed() || self.handle.closed.load(Ordering::Acquire))
    }

    /// Why nothing can be asked of the keyspace any more.
    #[cold]
    fn gone(&self) -> Error {
        if self.tree.is_closed() { Error::Closed } else { Error::NoKeyspace(self.tree.name.clone()) }
    }

    /// Sets the value of `key`. Keys are 0 to 65,535 bytes, values 0 to 4 GiB − 1.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and as [`Db::write`](crate::Db::write).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_bytes(key.as_ref(), value.as_ref())
    }

    fn put_bytes(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value.len())?;
        self.single(match self.tree.separates(value.len()) {
            true => Single::PutSeparated { key, value },
            false => Single::Put { key, value },
        })
    }

    /// As [`Keyspace::put`], but the key is absent again once `ttl` has passed (resolution 1 ms).
    /// The engine's clock decides, at the moment of the read or of the iterator's creation: time is
    /// not part of a snapshot, so an entry expires for older snapshots too. A transaction reads by
    /// the time at which it began: what was there for it stays, and is kept on disk for as long.
    ///
    /// A key that was found expired does not come back when the clock is set back, neither while
    /// the database is open nor after it was closed. A crash forgets what time it was since the
    /// last change of the tables; then a clock that was set back makes such keys expire later. The
    /// value may have 8 bytes less than others.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()> {
        self.put_bytes_until(key.as_ref(), value.as_ref(), self.handle.store.expiry.moment(ttl))
    }

    /// As [`Keyspace::put_with_ttl`], until a moment: from `expires_ms` on, in Unix milliseconds,
    /// the key is absent. A moment that is past makes it absent at once.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_until(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expires_ms: u64) -> Result<()> {
        self.put_bytes_until(key.as_ref(), value.as_ref(), expires_ms)
    }

    fn put_bytes_until(&self, key: &[u8], value: &[u8], expires_ms: u64) -> Result<()> {
        check_sizes(key, value.len() + EXPIRY_BYTES)?;
        self.single(match self.tree.separates(value.len()) {
            true => Single::PutExpiringSeparated { key, value, expires_ms },
            false => Single::PutExpiring { key, value, expires_ms },
        })
    }

    /// Removes `key`. Removing an absent key is not an error.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        check_sizes(key, 0)?;
        self.single(Single::Delete { key })
    }

    /// Removes every key in `range`, without reading them; `..` is every key. An empty range
    /// removes nothing. A write buffer is full with 1,024 range deletions; many are fastest in one
    /// batch.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// for key in ["a", "b", "c", "d"] {
    ///     db.put(key, "")?;
    /// }
    /// db.delete_range("a"..="b")?;
    /// db.delete_range("d"..)?;
    /// assert_eq!(db.iter().keys().next().unwrap()?, "c");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_range(&self, range: impl KeyBounds) -> Result<()> {
        self.delete_between(deleted(range.key_bounds())?)
    }

    /// Removes every key that starts with `prefix`, as [`Keyspace::delete_range`].
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.delete_between(deleted_prefix(prefix.as_ref())?)
    }

    /// Removes every key, as [`Keyspace::delete_range`]. The keyspace and its settings stay.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn clear(&self) -> Result<()> {
        self.delete_range(..)
    }

    fn delete_between(&self, range: Option<(Cow<'_, [u8]>, Cow<'_, [u8]>)>) -> Result<()> {
        let Some((start, end)) = range else {
            self.live()?;
            return self.handle.write_nothing(self.handle.options.durability);
        };
        self.single(Single::DeleteRange { start: &start, end: &end })
    }

    /// Merges `operand` onto the value of `key` by the keyspace's merge operator, without reading
    /// it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the keyspace has no operator, [`Error::Merge`] if it has one that was
    /// not given when the database was opened; as [`Keyspace::put`].
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        check_sizes(key, operand.len())?;
        self.can_merge()?;
        self.single(Single::Merge { key, operand })
    }

    pub(super) fn can_merge(&self) -> Result<()> {
        match self.tree.operator() {
            Some(operator) if operator.is_given() => Ok(()),
            Some(operator) => Err(Error::Merge { operator: operator.name().into(), what: NOT_GIVEN.into() }),
            None => Err(Error::Invalid(format!(
                "keyspace {:?} has no merge operator; give it one with Db::keyspace_with",
                self.tree.name
            ))),
        }
    }

    fn single(&self, operation: Single<'_>) -> Result<()> {
        self.live()?;
        let stats = &*self.tree.context.stats;
        let here = stats.here();
        let begin = || stats.begin(here, Sampled::Write, self.handle.clock());
        let begun = here.is_due(Sampled::Write).then(begin);
        here.add(Counter::Writes, 1);
        let written = self.handle.write_single(&self.tree, operation, self.handle.options.durability);
        if let Some(begun) = begun {
            self.written(begun, operation, written.is_ok());
        }
        written
    }

    /// A write that began at `begun` and is timed has ended.
    #[cold]
    fn written(&self, begun: u64, operation: Single<'_>, succeeded: bool) {
        self.tree.context.stats.end(Latency::Write, begun, self.handle.clock());
        if succeeded {
            self.handle.tracing.single(&self.tree, operation);
        }
    }

    /// The value of `key`, sharing the memory it lies in: no copy, but a large value kept for long
    /// keeps its block in memory.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if a table cannot be read, [`Error::Merge`] if the
    /// operator refuses or was not given, [`Error::NoKeyspace`] if the keyspace was dropped.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        self.get_bytes(key.as_ref())
    }

    #[inline]
    fn get_bytes(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.get_at(key, AsOf::default(), Wants::Value, |value| value.into_slice())
    }

    /// As [`Keyspace::get`], into the caller's buffer: no allocation once the buffer is large
    /// enough. The buffer's old content is replaced if the key is found and kept if not.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.read_into(key.as_ref(), AsOf::default(), value)
    }

    /// The value of `key`, and when it expires.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// db.put_with_ttl(b"session", b"open", std::time::Duration::from_secs(60))?;
    /// db.put(b"name", b"solera")?;
    /// assert!(db.get_entry(b"session")?.is_some_and(|entry| entry.expires_ms.is_some()));
    /// assert!(db.get_entry(b"name")?.is_some_and(|entry| entry.expires_ms.is_none()));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_entry(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        self.entry_at(key.as_ref(), AsOf::default())
    }

    pub(super) fn entry_at(&self, key: &[u8], as_of: AsOf) -> Result<Option<Entry>> {
        self.get_at(key, as_of, Wants::Value, |value| value.into_entry())
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.holds(key.as_ref(), AsOf::default())
    }

    pub(super) fn holds(&self, key: &[u8], as_of: AsOf) -> Result<bool> {
        Ok(self.get_at(key, as_of, Wants::Presence, |_| ())?.is_some())
    }

    /// The values of several keys, in their order, all as of one moment.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.multi_get_at(keys, AsOf::default())
    }

    pub(super) fn multi_get_at<K: AsRef<[u8]>>(&self, keys: &[K], as_of: AsOf) -> Result<Vec<Option<Slice>>> {
        let view = self.tree.view();
        self.live()?;
        let snapshot = as_of.snapshot.unwrap_or_else(|| self.handle.visible());
        let mut order: Vec<_> = keys.iter().map(|key| key::head(key.as_ref())).zip(0..keys.len()).collect();
        order.sort_unstable_by(|&(a, i), &(b, j)| {
            a.cmp(&b).then_with(|| keys[i].as_ref().cmp(keys[j].as_ref()))
        });
        let probe = |key| Probe { key, hash: key::hash(key), snapshot };
        let probes: Vec<_> = order.iter().map(|&(_, i)| probe(keys[i].as_ref())).collect();
        let now_ms = || self.now_ms(as_of.now_ms);
        let found = |_, hit: &Hit<'_>, value: &[u8]| Value::InPlace(hit, value).into_slice();
        let mut outcomes = Vec::with_capacity(probes.len());
        // While one guard lives, nothing that leaves the cache is released.
        for probes in probes.chunks(KEYS_PINNED) {
            let guard = crossbeam_epoch::pin();
            outcomes.extend(view.lookup_many(probes, &self.tree.values, &guard, now_ms, found)?);
        }
        let mut values: Vec<_> = std::iter::repeat_with(|| None).take(keys.len()).collect();
        let mut apart: Vec<(Pointer, usize)> = Vec::new();
        for ((outcome, probe), (_, i)) in outcomes.into_iter().zip(&probes).zip(order) {
            values[i] = match outcome {
                Outcome::Found(value) => Some(value),
                Outcome::Absent => None,
                Outcome::Operand => self.tree.fold(&view, probe.key, self.reader(snapshot, as_of.now_ms))?,
                Outcome::Separated { pointer, .. } => {
                    let pointer = self.pointer(pointer, probe.key)?;
                    let resident = self.tree.values.resident(&pointer, probe.key);
                    if resident.is_none() {
                        apart.push((pointer, i));
                    }
                    resident
                }
                Outcome::Malformed => return Err(sight::malformed(probe.key)),
            };
        }
        // Neighbours in a file are read together.
        apart.sort_unstable();
        let key = |i: usize| keys[i].as_ref();
        let found = |i: usize, value| values[i] = Some(value);
        ReadAhead::default().read_listed(&self.tree.values, &apart, key, found)?;
        self.count_lookups(
            keys.iter()
                .zip(&values)
                .map(|(key, value): (&K, &Option<Slice>)| (key.as_ref(), value.is_some())),
        );
        Ok(values)
    }

    pub(super) fn read_into(&self, key: &[u8], as_of: AsOf, out: &mut Vec<u8>) -> Result<bool> {
        let found = self.get_at(key, as_of, Wants::Value, |value| {
            out.clear();
            out.extend_from_slice(value.as_bytes());
        })?;
        Ok(found.is_some())
    }

    #[inline]
    pub(super) fn get_at<R>(
        &self,
        key: &[u8],
        as_of: AsOf,
        wants: Wants,
        found: impl FnMut(Value<'_>) -> R,
    ) -> Result<Option<R>> {
        // The view first, then the moment: see `View::lookup`. And then whether the tree is gone:
        // see `Tree::give_up`.
        let view = self.tree.view();
        self.live()?;
        let snapshot = as_of.snapshot.unwrap_or_else(|| self.handle.visible());
        let as_of = (snapshot, as_of.now_ms);
        self.lookup(&view, &crossbeam_epoch::pin(), key, as_of, wants, found)
    }

    #[inline]
    fn lookup<R>(
        &self,
        view: &View,
        guard: &Guard,
        key: &[u8],
        (snapshot, now_ms): (Seqno, Option<u64>),
        wants: Wants,
        mut found: impl FnMut(Value<'_>) -> R,
    ) -> Result<Option<R>> {
        let stats = &*self.tree.context.stats;
        let here = stats.here();
        let begin = || stats.begin(here, Sampled::Lookup, self.handle.clock());
        let begun = here.is_due(Sampled::Lookup).then(begin);
        let probe = Probe { key, hash: key::hash(key), snapshot };
        let clock_ms = || self.now_ms(now_ms);
        let in_place = |hit: &Hit<'_>, value: &[u8]| found(Value::InPlace(hit, value));
        let value = match view.lookup(&probe, &self.tree.values, here, guard, clock_ms, in_place)? {
            Outcome::Found(value) => Some(value),
            Outcome::Absent => None,
            // Whatever they fold to, it is a value.
            Outcome::Operand if wants == Wants::Presence => Some(found(Value::Folded(Slice::empty()))),
            Outcome::Operand => {
                let folded = self.tree.fold(view, key, self.reader(snapshot, now_ms))?;
                folded.map(|slice| found(Value::Folded(slice)))
            }
            Outcome::Separated { pointer, expires_ms } => {
                Some(found(Value::Apart(self.value_apart(pointer, key, wants)?, expires_ms)))
            }
            Outcome::Malformed => return Err(sight::malformed(key)),
        };
        here.add(Counter::Gets, 1);
        here.add(Counter::GetsFound, u64::from(value.is_some()));
        if let Some(begun) = begun {
            self.looked_up(begun, key, value.is_some());
        }
        Ok(value)
    }

    /// What an entry of `key` says of where its value lies.
    fn pointer(&self, found: Result<Pointer, DecodeError>, key: &[u8]) -> Result<Pointer> {
        found.map_err(|_| values::not_a_pointer(key))
    }

    /// A value that is kept apart.
    #[inline(never)]
    fn value_apart(&self, found: Result<Pointer, DecodeError>, key: &[u8], wants: Wants) -> Result<Slice> {
        match wants {
            Wants::Value => self.tree.values.read(&self.pointer(found, key)?, key),
            Wants::Presence => Ok(Slice::empty()),
        }
    }

    /// A lookup that began at `begun` and is timed has ended.
    #[cold]
    fn looked_up(&self, begun: u64, key: &[u8], found: bool) {
        let latency = if found { Latency::LookupFound } else { Latency::LookupAbsent };
        self.tree.context.stats.end(latency, begun, self.handle.clock());
        self.handle.tracing.lookups(&self.tree, iter::once((key, found)));
        self.handle.weigh_reads(&self.tree);
    }

    /// Counts lookups that did not come through [`Keyspace::lookup`], each with whether it found a
    /// value.
    pub(super) fn count_lookups<'k>(&self, lookups: impl ExactSizeIterator<Item = (&'k [u8], bool)> + Clone) {
        let counts = self.tree.context.stats.here();
        let before = counts.of(Counter::Gets);
        let after = before + lookups.len() as u64;
        counts.add(Counter::Gets, lookups.len() as u64);
        counts.add(Counter::GetsFound, lookups.clone().filter(|&(_, found)| found).count() as u64);
        self.handle.tracing.lookups(&self.tree, lookups);
        if before / SAMPLE_PERIOD != after / SAMPLE_PERIOD {
            self.handle.weigh_reads(&self.tree);
        }
    }

    /// By which time entries have expired for a reader that has this time, or none.
    fn now_ms(&self, given: Option<u64>) -> u64 {
        given.unwrap_or_else(|| self.handle.store.expiry.now_ms())
    }

    /// The reader at this snapshot, by the time that it has, else by the clock.
    pub(super) fn reader(&self, snapshot: Seqno, now_ms: Option<u64>) -> Reader {
        Reader {
            snapshot,
            now_ms: self.now_ms(now_ms),
            operator: self.tree.operator().cloned(),
            // Only what operands are merged onto is read by it.
            values: self.tree.operator().map(|_| self.tree.values.clone()),
        }
    }

    /// All entries in key order, as of now.
    pub fn iter(&self) -> Iter {
        Iter::new(self, None, SharedRange::default())
    }

    /// The entries whose keys are in `range`, as of now.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// db.put("a", "1")?;
    /// db.put("c", "3")?;
    /// let mut range = db.range("b"..);
    /// assert_eq!(range.next_back().unwrap()?.0, b"c");
    /// assert!(range.next().is_none());
    /// # Ok(()) }
    /// ```
    pub fn range(&self, range: impl KeyBounds) -> Iter {
        Iter::new(self, None, key_range(range.key_bounds()).into())
    }

    /// The entries whose keys start with `prefix`, as of now.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        Iter::new(self, None, prefix_range(prefix.as_ref()).into())
    }

    /// Loads sorted entries straight into tables: no log, no memtable, all visible and durable at
    /// once when the call returns. The entries are newer than everything written before. Where
    /// nothing older has keys between theirs, the tables go to a lower level and are not merged
    /// again; else they are a new run of level 0, and the call is slowed like other writes when
    /// compaction is behind.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a key is not above the one before it, [`Error::TooLarge`],
    /// [`Error::Io`]; nothing is loaded then.
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        self.live()?;
        self.handle.ingest(&self.tree, entries)
    }

    /// Writes this keyspace's memtables out to tables. Returns when they are durable.
    ///
    /// # Errors
    /// What stopped the flush.
    pub fn flush(&self) -> Result<()> {
        self.live()?;
        let _caller = self.handle.enter()?;
        self.handle.flush_trees(std::slice::from_ref(&self.tree))
    }

    /// Merges everything in `range` down to the last level: old versions and deleted keys that no
    /// snapshot sees give their space back.
    ///
    /// # Errors
    /// What stopped the compaction.
    pub fn compact_range(&self, range: impl KeyBounds) -> Result<()> {
        self.live()?;
        let _caller = self.handle.enter()?;
        self.handle.compact_range(&self.tree, &key_range(range.key_bounds()))
    }

    /// What the keyspace holds and has done, as plain numbers.
    pub fn stats(&self) -> KeyspaceStats {
        report::keyspace(&self.tree, &self.handle.store, &self.handle.memory, &self.handle.work)
    }
}
