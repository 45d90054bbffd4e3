//! The newest entries, in memory and sorted, until they are flushed to a table: `Memtable` and
//! `MemtableWriter`.
//!
//! It is a B+tree of entries in an arena (`tree`), a filter of its keys (`known`), and a set of
//! range tombstones. It keeps the logs
//! that its separated values lie in (`keep_log`).
//!
//! What must hold: there is one writer at a time (`MemtableWriter` is a lock). Readers take no lock
//! and never wait. A reader finds every entry that was inserted before it started: an insertion is
//! finished before its sequence number becomes visible. Versions of a key are inserted in ascending
//! order of their numbers.
//! Callers: `engine::{apply, large, values}` write; other parts of `engine` ask how full a memtable
//! is and which numbers it has. `tree` makes, seals and reads them; `compaction::job` flushes;
//! `db::compound` counts.

mod arena;
mod cursor;
mod known;
mod node;
mod record;
mod tree;

pub use arena::Holdings;
pub use cursor::MemtableCursor;

use crate::{
    cursor::{Hit, Probe},
    ids::Seqno,
    key::{KEY_BYTES_MAX, Kind},
    sync::{
        ArcSwap, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    tombstone::{RangeTombstone, RangeTombstones},
    values::ValueFile,
};
use node::Position;
use std::{fmt, sync::Arc};
use tree::{Tree, Writer};

/// What a range tombstone takes besides its two keys: two counted keys in a fragment, two boxes in
/// the list, and the pointers to them.
const TOMBSTONE_BYTES: usize = 160;

/// A memtable with so many range tombstones is full: each one more costs a copy of the list of
/// them.
const RANGE_TOMBSTONES_MAX: usize = 1024;

/// A sorted set of entries that can be read while it is written.
pub struct Memtable {
    tree: Tree,
    writer: Mutex<Writer>,
    /// Set once the first range tombstone is in: most memtables never have one.
    has_tombstones: AtomicBool,
    tombstones: ArcSwap<RangeTombstones>,
    /// The writer's counts, for other threads.
    bytes: AtomicUsize,
    entries: AtomicUsize,
    deletes: AtomicUsize,
    tombstone_bytes: AtomicUsize,
    /// `Seqno::MAX` while the memtable is empty.
    first_seqno: AtomicU64,
    last_seqno: AtomicU64,
    /// The logs that hold values of its entries, kept for readers of the memtable.
    logs: Mutex<Vec<Arc<ValueFile>>>,
}

impl Memtable {
    /// An empty memtable that counts nowhere.
    pub fn new() -> Arc<Memtable> {
        Memtable::counted(&Arc::default())
    }

    /// An empty memtable, whose memory counts in `holdings`.
    pub fn counted(holdings: &Arc<Holdings>) -> Arc<Memtable> {
        let (tree, writer) = Tree::new(holdings);
        Arc::new(Memtable {
            tree,
            bytes: AtomicUsize::new(writer.bytes()),
            writer: Mutex::new(writer),
            has_tombstones: AtomicBool::new(false),
            tombstones: ArcSwap::new(holdings.no_tombstones.clone()),
            entries: AtomicUsize::new(0),
            deletes: AtomicUsize::new(0),
            tombstone_bytes: AtomicUsize::new(0),
            first_seqno: AtomicU64::new(Seqno::MAX),
            last_seqno: AtomicU64::new(0),
            logs: Mutex::default(),
        })
    }

    /// The writer's half, for a batch of insertions. Waits while another thread has it.
    pub fn writer(&self) -> MemtableWriter<'_> {
        MemtableWriter { memtable: self, writer: self.writer.lock() }
    }

    /// Adds one entry; see [`MemtableWriter::insert`].
    pub fn insert(&self, key: &[u8], seqno: Seqno, kind: Kind, value: &[&[u8]]) {
        self.writer().insert(key, seqno, kind, value);
    }

    /// Keeps a log for as long as the memtable is held: entries that are inserted next have their
    /// values there.
    pub fn keep_log(&self, log: &Arc<ValueFile>) {
        let mut logs = self.logs.lock();
        if logs.last().is_none_or(|last| last.id() != log.id()) {
            logs.push(log.clone());
        }
    }

    /// Adds range tombstones; see [`MemtableWriter::add_range_tombstones`].
    pub fn add_range_tombstones(&self, tombstones: Vec<RangeTombstone>) {
        // Nearly always there are none, and then the lock is not worth it.
        if !tombstones.is_empty() {
            self.writer().add_range_tombstones(tombstones);
        }
    }

    /// The newest version of the probe's key that its snapshot sees, shown to `f`. Range tombstones
    /// are the caller's to ask: [`Memtable::covering`].
    #[inline]
    pub fn lookup<R>(&self, probe: &Probe<'_>, f: impl FnOnce(Hit<'_>) -> R) -> Option<R> {
        if self.is_empty() || !self.tree.may_hold(probe.hash) {
            return None;
        }
        let position = Position::of(probe.key);
        let place = self.tree.first_from(position).filter(|place| place.has_key_of(position));
        let Some(place) = place else {
            self.tree.want_filter();
            return None;
        };
        let record = place.record().seen_by(probe.snapshot)?;
        let pin = self.tree.arena();
        // SAFETY: the record lies in the arena that the pin keeps; records are never changed or
        // moved.
        let hit = unsafe { Hit::new(record.seqno(), record.kind(), record.value(), pin) };
        Some(f(hit))
    }

    /// A cursor over the entries.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// Whether there is any range tombstone. One load.
    #[inline]
    pub fn has_range_tombstones(&self) -> bool {
        self.has_tombstones.load(Ordering::Acquire)
    }

    /// The range tombstones as they stand now.
    pub fn tombstones(&self) -> Arc<RangeTombstones> {
        self.tombstones.load_full()
    }

    /// The newest range tombstone over `key` that `snapshot` sees. One load if there is none at
    /// all.
    #[inline]
    pub fn covering(&self, key: &[u8], snapshot: Seqno) -> Option<Seqno> {
        if !self.has_range_tombstones() {
            return None;
        }
        self.tombstones.load().covering(key, snapshot)
    }

    /// Bytes in use: records, nodes and range tombstones. A new memtable has less than a kilobyte.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.tombstone_bytes.load(Ordering::Relaxed)
    }

    /// Whether it is time for the next one: there are `limit_bytes`, or very many range tombstones.
    pub fn is_full(&self, limit_bytes: u64) -> bool {
        self.bytes() as u64 >= limit_bytes
            || self.has_range_tombstones() && self.tombstones.load().len() >= RANGE_TOMBSTONES_MAX
    }

    /// Entries, range tombstones not counted.
    pub fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }

    /// Entries of kind [`Kind::Delete`].
    pub fn deletes(&self) -> usize {
        self.deletes.load(Ordering::Relaxed)
    }

    /// Whether there is neither an entry nor a range tombstone.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.first_seqno().is_none()
    }

    /// The smallest sequence number of all entries and range tombstones.
    pub fn first_seqno(&self) -> Option<Seqno> {
        Some(self.first_seqno.load(Ordering::Relaxed)).filter(|&seqno| seqno != Seqno::MAX)
    }

    /// The largest sequence number of all entries and range tombstones.
    pub fn last_seqno(&self) -> Option<Seqno> {
        self.first_seqno().map(|_| self.last_seqno.load(Ordering::Relaxed))
    }
}

impl fmt::Debug for Memtable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memtable")
            .field("entries", &self.entries())
            .field("bytes", &self.bytes())
            .field("first_seqno", &self.first_seqno())
            .field("last_seqno", &self.last_seqno())
            .finish_non_exhaustive()
    }
}

/// The right to write to a memtable: one at a time.
pub struct MemtableWriter<'m> {
    memtable: &'m Memtable,
    writer: MutexGuard<'m, Writer>,
}

impl MemtableWriter<'_> {
    /// Adds an entry whose value is the concatenation of `value`. Every entry with the same key
    /// must have a smaller `seqno`. Limits: [`KEY_BYTES_MAX`], [`crate::key::VALUE_BYTES_MAX`] and
    /// [`crate::ids::SEQNO_MAX`], which the commit path has checked.
    #[inline]
    pub fn insert(&mut self, key: &[u8], seqno: Seqno, kind: Kind, value: &[&[u8]]) {
        debug_assert!(key.len() <= KEY_BYTES_MAX);
        let memtable = self.memtable;
        let hash = memtable.tree.announce(&mut self.writer, key, memtable.entries());
        memtable.tree.insert(&mut self.writer, key, seqno, kind, value);
        if let Some(hash) = hash {
            memtable.tree.know(&mut self.writer, hash);
        }
        // There is one writer, so a store does for an addition.
        memtable.bytes.store(self.writer.bytes(), Ordering::Relaxed);
        memtable.entries.store(memtable.entries() + 1, Ordering::Relaxed);
        if kind == Kind::Delete {
            memtable.deletes.store(memtable.deletes() + 1, Ordering::Relaxed);
        }
        self.saw(seqno);
    }

    /// Adds range tombstones. Costs a copy of the list of those that are there: many at once cost
    /// little more than one.
    pub fn add_range_tombstones(&mut self, tombstones: Vec<RangeTombstone>) {
        if tombstones.is_empty() {
            return;
        }
        let memtable = self.memtable;
        let mut bytes = memtable.tombstone_bytes.load(Ordering::Relaxed);
        for tombstone in &tombstones {
            bytes += TOMBSTONE_BYTES + 2 * (tombstone.start.len() + tombstone.end.len());
            self.saw(tombstone.seqno);
        }
        memtable.tombstone_bytes.store(bytes, Ordering::Relaxed);
        let all = memtable.tombstones.load().with_all(tombstones);
        memtable.tombstones.store(Arc::new(all));
        memtable.has_tombstones.store(true, Ordering::Release);
    }

    fn saw(&self, seqno: Seqno) {
        let Memtable { first_seqno, last_seqno, .. } = self.memtable;
        if seqno > last_seqno.load(Ordering::Relaxed) {
            last_seqno.store(seqno, Ordering::Relaxed);
        }
        if seqno < first_seqno.load(Ordering::Relaxed) {
            first_seqno.store(seqno, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
