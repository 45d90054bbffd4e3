//! One keyspace, as users hold it.

use super::{Core, Handle, IngestReport, Iter, KeyspaceStats, Snapshot, check_sizes, commit::Single};
use crate::{
    cursor::{Hit, Probe},
    error::{Error, Result},
    ids::Seqno,
    key::{self, EXPIRY_BYTES, KeyEnd, KeyRange},
    pin::Slice,
    stats::{Counter, Latency, SAMPLE_PERIOD, Sampled},
    tree::{Outcome, ReadContext, Tree, View},
};
use crossbeam_epoch::Guard;
use std::{
    fmt, iter,
    ops::{Bound, RangeBounds},
    sync::Arc,
    time::Duration,
};

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
}

impl Value<'_> {
    fn as_bytes(&self) -> &[u8] {
        match self {
            Value::InPlace(_, bytes) => bytes,
            Value::Folded(slice) => slice,
        }
    }

    /// The value, kept alive beyond the lookup.
    pub(super) fn into_slice(self) -> Slice {
        match self {
            // SAFETY: `bytes` is the hit's value or a part of it, which its pin keeps alive and unchanged.
            Value::InPlace(hit, bytes) => unsafe { Slice::pinned(hit.pin(), bytes) },
            Value::Folded(slice) => slice,
        }
    }
}

/// The engine's form of a range given by bounds. An excluded start `k` becomes an included `k` + zero
/// byte, its immediate successor.
pub(super) fn key_range<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
    let start = match range.start_bound() {
        Bound::Included(key) => key.as_ref().into(),
        Bound::Excluded(key) => [key.as_ref(), &[0]].concat().into(),
        Bound::Unbounded => Box::default(),
    };
    let end = match range.end_bound() {
        Bound::Included(key) => KeyEnd::Included(key.as_ref().into()),
        Bound::Excluded(key) => KeyEnd::Excluded(key.as_ref().into()),
        Bound::Unbounded => KeyEnd::Unbounded,
    };
    KeyRange { start, end }
}

/// The keys that start with `prefix`.
pub(super) fn prefix_range(prefix: &[u8]) -> KeyRange {
    let end = match key::prefix_end(prefix) {
        Some(end) => KeyEnd::Excluded(end.into()),
        None => KeyEnd::Unbounded,
    };
    KeyRange { start: prefix.into(), end }
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
        if self.tree.is_dropped() {
            return Err(Error::NoKeyspace(self.tree.name.clone()));
        }
        Ok(())
    }

    /// Sets the value of `key`. Keys are 0 to 65,535 bytes, values 0 to 4 GiB − 1.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and as [`Db::write`](crate::Db::write).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, value.len())?;
        self.single(Single::Put { key, value })
    }

    /// As [`Keyspace::put`], but the key is absent again once `ttl` has passed (resolution 1 ms). The
    /// engine's clock decides, at the moment of the read or of the iterator's creation: time is not part of
    /// a snapshot, so an entry expires for older snapshots and transactions too.
    ///
    /// A key that was found expired does not come back when the clock is set back, neither while the
    /// database is open nor after it was closed. A crash forgets what time it was since the last change of
    /// the tables; then a clock that was set back makes such keys expire later. The value may have 8 bytes
    /// less than others.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()> {
        check_sizes(key, value.len() + EXPIRY_BYTES)?;
        let expires_ms = self.handle.expiry(ttl);
        self.single(Single::PutExpiring { key, value, expires_ms })
    }

    /// Removes `key`. Removing an absent key is not an error.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: &[u8]) -> Result<()> {
        check_sizes(key, 0)?;
        self.single(Single::Delete { key })
    }

    /// Removes every key from `start` up to, not including, `end`, without reading them. An empty range
    /// removes nothing. A write buffer is full with 1,024 range deletions; many are fastest in one batch.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()> {
        check_sizes(start, 0)?;
        check_sizes(end, 0)?;
        if start >= end {
            self.live()?;
            return self.handle.write_nothing(self.handle.options.durability);
        }
        self.single(Single::DeleteRange { start, end })
    }

    /// Merges `operand` onto the value of `key` by the keyspace's merge operator, without reading it.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the keyspace has no operator; as [`Keyspace::put`].
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        check_sizes(key, operand.len())?;
        self.can_merge()?;
        self.single(Single::Merge { key, operand })
    }

    pub(super) fn can_merge(&self) -> Result<()> {
        match self.tree.operator() {
            Some(_) => Ok(()),
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
            self.handle.trace_single(&self.tree, operation);
        }
    }

    /// The value of `key`, sharing the memory it lies in: no copy, but a large value kept for long keeps
    /// its block in memory.
    ///
    /// # Errors
    /// [`Error::Corrupt`] or [`Error::Io`] if a table cannot be read, [`Error::Merge`] if the operator
    /// refuses, [`Error::NoKeyspace`] if the keyspace was dropped.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.get_at(key, None, |value| value.into_slice())
    }

    /// As [`Keyspace::get`], into the caller's buffer: no allocation once the buffer is large enough. The
    /// buffer's old content is replaced if the key is found and kept if not.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.read_into(key, None, value)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains_key(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get_at(key, None, |_| ())?.is_some())
    }

    /// The values of several keys, in their order, all as of one moment.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.multi_get_at(keys, None)
    }

    pub(super) fn multi_get_at<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        snapshot: Option<Seqno>,
    ) -> Result<Vec<Option<Slice>>> {
        self.live()?;
        let view = self.tree.view();
        let snapshot = snapshot.unwrap_or_else(|| self.handle.visible());
        let mut order: Vec<_> = keys.iter().map(|key| key::head(key.as_ref())).zip(0..keys.len()).collect();
        order.sort_unstable_by(|&(a, i), &(b, j)| {
            a.cmp(&b).then_with(|| keys[i].as_ref().cmp(keys[j].as_ref()))
        });
        let probe = |key| Probe { key, hash: key::hash(key), snapshot };
        let probes: Vec<_> = order.iter().map(|&(_, i)| probe(keys[i].as_ref())).collect();
        let now_ms = || self.handle.now_ms();
        let found = |_, hit: &Hit<'_>, value: &[u8]| Value::InPlace(hit, value).into_slice();
        let mut outcomes = Vec::with_capacity(probes.len());
        // While one guard lives, nothing that leaves the cache is released.
        for probes in probes.chunks(KEYS_PINNED) {
            outcomes.extend(view.lookup_many(probes, &crossbeam_epoch::pin(), now_ms, found)?);
        }
        let mut values: Vec<_> = std::iter::repeat_with(|| None).take(keys.len()).collect();
        for ((outcome, probe), (_, i)) in outcomes.into_iter().zip(&probes).zip(order) {
            values[i] = match outcome {
                Outcome::Found(value) => Some(value),
                Outcome::Absent => None,
                Outcome::Operand => self.tree.fold(&view, probe.key, self.read_context(snapshot))?,
            };
        }
        self.count_lookups(
            keys.iter()
                .zip(&values)
                .map(|(key, value): (&K, &Option<Slice>)| (key.as_ref(), value.is_some())),
        );
        Ok(values)
    }

    pub(super) fn read_into(&self, key: &[u8], snapshot: Option<Seqno>, out: &mut Vec<u8>) -> Result<bool> {
        let found = self.get_at(key, snapshot, |value| {
            out.clear();
            out.extend_from_slice(value.as_bytes());
        })?;
        Ok(found.is_some())
    }

    #[inline]
    pub(super) fn get_at<R>(
        &self,
        key: &[u8],
        snapshot: Option<Seqno>,
        found: impl FnMut(Value<'_>) -> R,
    ) -> Result<Option<R>> {
        self.live()?;
        // The view first, then the moment: see `View::lookup`.
        let view = self.tree.view();
        let snapshot = snapshot.unwrap_or_else(|| self.handle.visible());
        self.lookup(&view, &crossbeam_epoch::pin(), key, snapshot, found)
    }

    #[inline]
    fn lookup<R>(
        &self,
        view: &View,
        guard: &Guard,
        key: &[u8],
        snapshot: Seqno,
        mut found: impl FnMut(Value<'_>) -> R,
    ) -> Result<Option<R>> {
        let stats = &*self.tree.context.stats;
        let here = stats.here();
        let begin = || stats.begin(here, Sampled::Lookup, self.handle.clock());
        let begun = here.is_due(Sampled::Lookup).then(begin);
        let probe = Probe { key, hash: key::hash(key), snapshot };
        let now_ms = || self.handle.now_ms();
        let value =
            match view.lookup(&probe, guard, now_ms, |hit, value| found(Value::InPlace(hit, value)))? {
                Outcome::Found(value) => Some(value),
                Outcome::Absent => None,
                Outcome::Operand => {
                    let folded = self.tree.fold(view, key, self.read_context(snapshot))?;
                    folded.map(|slice| found(Value::Folded(slice)))
                }
            };
        here.add(Counter::Gets, 1);
        here.add(Counter::GetsFound, u64::from(value.is_some()));
        if let Some(begun) = begun {
            self.looked_up(begun, key, value.is_some());
        }
        Ok(value)
    }

    /// A lookup that began at `begun` and is timed has ended.
    #[cold]
    fn looked_up(&self, begun: u64, key: &[u8], found: bool) {
        let latency = if found { Latency::LookupFound } else { Latency::LookupAbsent };
        self.tree.context.stats.end(latency, begun, self.handle.clock());
        self.handle.trace_lookups(&self.tree, iter::once((key, found)));
        self.handle.weigh_reads(&self.tree);
    }

    /// Counts lookups that did not come through [`Keyspace::lookup`], each with whether it found a value.
    pub(super) fn count_lookups<'k>(&self, lookups: impl ExactSizeIterator<Item = (&'k [u8], bool)> + Clone) {
        let counts = self.tree.context.stats.here();
        let before = counts.of(Counter::Gets);
        let after = before + lookups.len() as u64;
        counts.add(Counter::Gets, lookups.len() as u64);
        counts.add(Counter::GetsFound, lookups.clone().filter(|&(_, found)| found).count() as u64);
        self.handle.trace_lookups(&self.tree, lookups);
        if before / SAMPLE_PERIOD != after / SAMPLE_PERIOD {
            self.handle.weigh_reads(&self.tree);
        }
    }

    pub(super) fn read_context(&self, snapshot: Seqno) -> ReadContext {
        ReadContext { snapshot, now_ms: self.handle.now_ms(), operator: self.tree.operator().cloned() }
    }

    /// All entries in key order, as of now.
    pub fn iter(&self) -> Iter {
        Iter::new(self, Snapshot::new(self.handle.clone()), KeyRange::all())
    }

    /// The entries whose keys are in `range`, as of now. For a range open at both ends use
    /// [`Keyspace::iter`].
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// db.put(b"a", b"1")?;
    /// db.put(b"c", b"3")?;
    /// let mut range = db.range::<&[u8]>(b"b".as_slice()..);
    /// assert_eq!(range.next_back().unwrap()?.0, b"c");
    /// assert!(range.next().is_none());
    /// # Ok(()) }
    /// ```
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        Iter::new(self, Snapshot::new(self.handle.clone()), key_range(&range))
    }

    /// The entries whose keys start with `prefix`, as of now.
    pub fn prefix(&self, prefix: &[u8]) -> Iter {
        Iter::new(self, Snapshot::new(self.handle.clone()), prefix_range(prefix))
    }

    /// Loads sorted entries straight into tables: no log, no memtable, all visible and durable at once
    /// when the call returns. The entries are newer than everything written before. Where nothing older has
    /// keys between theirs, the tables go to a lower level and are not merged again; else they are a new run
    /// of level 0, and the call is slowed like other writes when compaction is behind.
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
        self.handle.writable()?;
        self.handle.flush_trees(std::slice::from_ref(&self.tree))
    }

    /// Merges everything in `range` down to the last level: old versions and deleted keys that no
    /// snapshot sees give their space back.
    ///
    /// # Errors
    /// What stopped the compaction.
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.live()?;
        self.handle.writable()?;
        self.handle.compact_range(&self.tree, &key_range(&range))
    }

    /// What the keyspace holds and has done, as plain numbers.
    pub fn stats(&self) -> KeyspaceStats {
        self.handle.report_keyspace(&self.tree)
    }
}

impl Core {
    /// The moment at which something written now with `ttl` expires, in Unix milliseconds.
    pub(super) fn expiry(&self, ttl: Duration) -> u64 {
        self.now_ms().saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }
}
