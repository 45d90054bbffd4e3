//! The database: many trees behind one log, one manifest and one commit order.
//!
//! Owns [`Db`], the handle that users hold, and `Core`, what all handles share. The data's way is told in
//! docs/ARCHITECTURE.md. Locks are taken in this order and never the other way round: a flush claim
//! (`workers`), the commit lock (`commit`), the store lock (`install`), then the leaves, under which no
//! other is taken: the catalog, the work state, the snapshot list, a tree's change of view.

mod batch;
mod checkpoint;
mod commit;
mod ingest;
mod install;
mod iterator;
mod keyspace;
mod logs;
pub(crate) mod knobs;
mod memory;
mod open;
mod options;
mod reads;
mod report;
mod settings;
mod snapshot;
mod throttle;
mod tracing;
mod transaction;
mod workers;
mod writes;

pub use batch::Batch;
pub use ingest::IngestReport;
pub use iterator::{Iter, Keys};
pub use keyspace::Keyspace;
pub use memory::{CACHE_PERCENT, FILTER_PERCENT, Split, WRITE_BUFFER_PERCENT};
pub use options::{Durability, KeyspaceOptions, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN, Options};
pub(crate) use report::filter_bits_per_key;
pub use report::{DamagedTable, KeyspaceStats, LevelStats, RunStats, Stats, VerifyReport};
pub use snapshot::Snapshot;
pub use transaction::{Transaction, TransactionIter, TransactionKeys};

use crate::{
    cache::Cache,
    clock::Clock,
    error::{Error, Result},
    ids::{DatabaseId, FileId, KeyspaceId, Seqno},
    key::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    pin::Slice,
    pool::Share,
    stats,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    tree::Tree,
    vfs::Fs,
};
use commit::Commit;
use install::Store;
use snapshot::Snapshots;
use std::{
    collections::BTreeMap,
    fmt,
    ops::RangeBounds,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use workers::Work;

/// Name of the keyspace that every database has.
pub const DEFAULT_KEYSPACE: &str = "default";

/// What all handles of one open database share.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) database: DatabaseId,
    pub(crate) dir: PathBuf,
    /// When it was opened: on the wall, in Unix milliseconds, and by the monotonic clock.
    pub(crate) opened_unix_ms: u64,
    pub(crate) opened_ns: u64,
    pub(crate) cache: Arc<Cache>,
    /// Chunks of memtables that were flushed are kept for the next ones, as far as this goes.
    pub(crate) chunks: Share<1>,
    memory: memory::Memory,
    /// What is counted for the database as a whole: the log's bytes.
    pub(crate) stats: stats::Stats,
    pub(crate) catalog: RwLock<Catalog>,
    pub(crate) commit: Commit,
    /// Everything up to this number is visible to readers.
    pub(crate) visible: AtomicU64,
    pub(crate) snapshots: Snapshots,
    pub(crate) store: Mutex<Store>,
    pub(crate) next_file: AtomicU64,
    pub(crate) work: Work,
    delays: throttle::Delays,
    pub(crate) poison: Poison,
    /// Latest wall time by which something was found expired: expiry never runs backwards.
    pub(crate) clock_high_ms: AtomicU64,
    pub(crate) tracing: tracing::Tracing,
    pub(crate) closed: AtomicBool,
    /// Held for its `Drop`: other openers are kept out until the core is gone.
    pub(crate) _lock: Option<Box<dyn Send + Sync>>,
}

/// The keyspaces.
#[derive(Default)]
pub(crate) struct Catalog {
    pub(crate) by_name: BTreeMap<String, Arc<Tree>>,
    pub(crate) by_id: BTreeMap<KeyspaceId, Arc<Tree>>,
    pub(crate) next_id: u32,
}

impl Catalog {
    pub(crate) fn insert(&mut self, tree: Arc<Tree>) {
        self.next_id = self.next_id.max(tree.id.0 + 1);
        self.by_name.insert(tree.name.clone(), tree.clone());
        self.by_id.insert(tree.id, tree);
    }

    pub(crate) fn remove(&mut self, tree: &Tree) {
        self.by_name.remove(&tree.name);
        self.by_id.remove(&tree.id);
    }
}

/// Set once, by the first failure after which a write could be acknowledged and lost.
#[derive(Default)]
pub(crate) struct Poison {
    set: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Poison {
    pub(crate) fn set(&self, why: impl fmt::Display) {
        self.why.lock().get_or_insert_with(|| why.to_string());
        self.set.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.set.load(Ordering::Acquire) {
            return Err(Error::Poisoned(self.why.lock().clone().unwrap_or_default()));
        }
        Ok(())
    }
}

impl Core {
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn fs(&self) -> Arc<dyn Fs> {
        self.options.fs.clone()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.options.clock
    }

    pub(crate) fn new_file(&self) -> FileId {
        FileId(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn visible(&self) -> Seqno {
        self.visible.load(Ordering::Acquire)
    }

    /// The time by which expiry is judged: the clock's, but never earlier than ever before.
    pub(crate) fn now_ms(&self) -> u64 {
        let now = self.clock().unix_ms();
        now.max(self.clock_high_ms.fetch_max(now, Ordering::Relaxed))
    }

    pub(crate) fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed);
        }
        self.poison.check()
    }

    pub(crate) fn trees(&self) -> Vec<Arc<Tree>> {
        self.catalog.read().by_id.values().cloned().collect()
    }
}

/// Keeps the database open as long as a handle, keyspace, snapshot or iterator is alive; the last one
/// closes it.
pub(crate) struct Handle {
    core: Arc<Core>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
}

impl std::ops::Deref for Handle {
    type Target = Core;
    fn deref(&self) -> &Core {
        &self.core
    }
}

impl Handle {
    /// Stops the workers, makes the log durable and records the time. Later calls do nothing.
    fn close(&self) -> Result<()> {
        if self.core.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.core.work.stop();
        for thread in self.threads.lock().drain(..) {
            // A worker that panicked has poisoned the database already.
            let _ = thread.join();
        }
        if self.core.options.read_only {
            return Ok(());
        }
        self.core.settle_ended_logs()?;
        self.core.sync_log()?;
        self.core.record_clock()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nobody is left to hear of a failure; `Db::close` is the call that reports one.
        let _ = self.close();
    }
}

/// A database: a directory of keyspaces with one commit order. A cheap handle, to be cloned and shared
/// between threads. Data calls on `Db` act on the keyspace named `default`; [`Db::keyspace`] opens
/// others.
///
/// ```
/// # fn main() -> solera::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = solera::Db::open(dir.path())?;
/// db.put(b"apple", b"red")?;
/// db.put(b"pear", b"green")?;
/// assert_eq!(db.get(b"apple")?.unwrap(), b"red");
/// for entry in db.prefix(b"p") {
///     let (key, value) = entry?;
///     println!("{key:?} is {value:?}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Db {
    pub(crate) handle: Arc<Handle>,
    default: Keyspace,
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Db").field("dir", &self.handle.dir()).finish_non_exhaustive()
    }
}

impl Db {
    /// Opens the database in `dir` with default options, creating it if there is none.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Db> {
        Options::new().open(dir)
    }

    pub(crate) fn open_with(options: Options, dir: &Path) -> Result<Db> {
        let core = Arc::new(open::open(options, dir)?);
        let threads = workers::spawn(&core)?;
        let handle = Arc::new(Handle { core, threads: Mutex::new(threads) });
        let tree = handle.catalog.read().by_name.get(DEFAULT_KEYSPACE).cloned();
        let tree = tree.ok_or_else(|| Error::NoKeyspace(DEFAULT_KEYSPACE.into()))?;
        let default = Keyspace::new(handle.clone(), tree);
        Ok(Db { handle, default })
    }

    /// The directory.
    pub fn dir(&self) -> PathBuf {
        self.handle.dir().to_path_buf()
    }

    /// The keyspace that every database has.
    pub fn default(&self) -> &Keyspace {
        &self.default
    }

    /// The keyspace `name`, created with the database's defaults if missing.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`] if it is missing and the database is read-only; [`Error::Invalid`] for an
    /// empty name or one over 255 bytes.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let existing = self.handle.catalog.read().by_name.get(name).cloned();
        match existing {
            Some(tree) => Ok(Keyspace::new(self.handle.clone(), tree)),
            None => {
                let tree = self.handle.create_keyspace(name, self.handle.options.keyspace.clone())?;
                Ok(Keyspace::new(self.handle.clone(), tree))
            }
        }
    }

    /// The keyspace `name`, created with `options` if missing. An existing keyspace keeps the layout and
    /// shape that it was created with; it gets the merge operator if it has none.
    ///
    /// # Errors
    /// As [`Db::keyspace`], and [`Error::Invalid`] for an option out of range, or if the keyspace has a
    /// merge operator of another name.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let operator = options.merge_operator.clone();
        let tree = self.handle.create_keyspace(name, options)?;
        self.handle.adopt_operator(&tree, operator)?;
        Ok(Keyspace::new(self.handle.clone(), tree))
    }

    /// The names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.handle.catalog.read().by_name.keys().cloned().collect()
    }

    /// Drops a keyspace and its data. Its handles fail from now on; iterators that are open go on. The
    /// default keyspace cannot be dropped.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`], [`Error::Invalid`] for the default keyspace.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.handle.drop_keyspace(name)
    }

    /// An empty batch for this database.
    pub fn batch(&self) -> Batch {
        Batch::new(self.handle.options.durability)
    }

    /// Commits a batch: all of it, over all its keyspaces, or nothing. Returns the sequence number of
    /// its last operation.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`] if one was dropped, [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Closed`]:
    /// nothing was committed. [`Error::Io`] if the log cannot be written: nothing was committed, and after a
    /// full disk the call may be tried again. The exception is a failed sync of the log, after which every
    /// write is refused with [`Error::Poisoned`]: nobody sees the batch while the database stays open, but
    /// its bytes may be on the disk, and then the next open finds it, whole.
    pub fn write(&self, batch: Batch) -> Result<Seqno> {
        self.handle.timed_write(batch, |batch| self.handle.write(batch))
    }

    /// A consistent view of all keyspaces as they are now. It holds back the removal of old versions
    /// while it lives.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.handle.clone())
    }

    /// Starts an optimistic transaction: serializable, validated at commit.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.handle.clone())
    }

    /// Writes every memtable out to tables. Returns when they are durable.
    ///
    /// # Errors
    /// What stopped the flush.
    pub fn flush(&self) -> Result<()> {
        self.handle.writable()?;
        self.handle.flush_trees(&self.handle.trees())
    }

    /// Makes all acknowledged writes survive a power failure.
    ///
    /// # Errors
    /// [`Error::Io`] if the sync fails; the database is then poisoned.
    pub fn sync(&self) -> Result<()> {
        self.handle.writable()?;
        self.handle.sync_log()
    }

    /// Copies the database as it is now, consistent over all keyspaces, to `dir`, which must not exist
    /// or be empty. Tables are hard links: the copy takes no time and no space until the original moves
    /// on. `dir` must be on the same file system.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `dir` holds anything; [`Error::Io`].
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.handle.checkpoint(dir.as_ref())
    }

    /// Reads everything and verifies every checksum, order and model bound.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read; damage is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.handle.verify()
    }

    /// Does one unit of background work (one flush or one compaction) on this thread. False: there was
    /// nothing to do. For programs that run with no background threads.
    ///
    /// # Errors
    /// What stopped the work; it is tried again at the next call.
    pub fn step(&self) -> Result<bool> {
        self.handle.writable()?;
        self.handle.step()
    }

    /// Waits until there is no background work left, doing some of it on this thread, and none is put off: level 0 is merged if it has as many runs as its
    /// limit, also where reads have not paid for that yet (`level0_patience` in docs/TUNING.md). To be called after a bulk
    /// load, before the reads.
    ///
    /// # Errors
    /// What stops the work.
    pub fn wait_idle(&self) -> Result<()> {
        self.handle.writable()?;
        self.handle.wait_idle()
    }

    /// Sequence number of the newest committed operation.
    pub fn last_seqno(&self) -> Seqno {
        self.handle.visible()
    }

    /// What the database has done and holds, as plain numbers.
    pub fn stats(&self) -> Stats {
        self.handle.report()
    }

    /// Stops background work, makes the log and the time that expiry has come to durable, and closes the database for every handle: later
    /// writes fail with [`Error::Closed`], reads go on until the handles are gone. Dropping the last
    /// handle does the same but cannot report a failure.
    ///
    /// # Errors
    /// [`Error::Io`] if the log or the manifest cannot be synced.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

macro_rules! on_default {
    ($($(#[$doc:meta])* fn $name:ident $(<$($lt:lifetime),* $($g:ident: $bound:path),*>)? (&self $(, $arg:ident: $ty:ty)*) -> $ret:ty;)*) => {
        /// Calls on the default keyspace; each is described at [`Keyspace`].
        impl Db {
            $(
                #[doc = concat!("See [`Keyspace::", stringify!($name), "`].")]
                $(#[$doc])*
                pub fn $name $(<$($lt),* $($g: $bound),*>)? (&self $(, $arg: $ty)*) -> $ret {
                    self.default.$name($($arg),*)
                }
            )*
        }
    };
}

on_default! {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: Duration) -> Result<()>;
    fn get(&self, key: &[u8]) -> Result<Option<Slice>>;
    fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
    fn contains_key(&self, key: &[u8]) -> Result<bool>;
    fn delete(&self, key: &[u8]) -> Result<()>;
    fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<()>;
    fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()>;
    fn iter(&self) -> Iter;
    fn prefix(&self, prefix: &[u8]) -> Iter;
}

impl Db {
    /// See [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.default.multi_get(keys)
    }

    /// See [`Keyspace::range`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Iter {
        self.default.range(range)
    }

    /// See [`Keyspace::ingest`].
    ///
    /// # Errors
    /// As [`Keyspace::ingest`].
    pub fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        self.default.ingest(entries)
    }

    /// See [`Keyspace::compact_range`].
    ///
    /// # Errors
    /// As [`Keyspace::compact_range`].
    pub fn compact_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        self.default.compact_range(range)
    }
}

/// Refuses a key or value over its limit.
#[inline]
pub(crate) fn check_sizes(key: &[u8], value_len: usize) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::TooLarge { what: "key", len: key.len() as u64, limit: KEY_BYTES_MAX as u64 });
    }
    if value_len as u64 > VALUE_BYTES_MAX {
        return Err(Error::TooLarge { what: "value", len: value_len as u64, limit: VALUE_BYTES_MAX });
    }
    Ok(())
}
