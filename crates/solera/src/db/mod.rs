//! The face of the database, what users hold: `Db`, and `Keyspace`, `Batch`, `Iter`, `Snapshot`,
//! `Transaction`, `Ticket`.
//!
//! `Db` opens, makes and drops keyspaces, writes batches, takes snapshots, begins transactions,
//! flushes, syncs, checkpoints, verifies and closes. `step` and `wait_idle` do background work on
//! the caller's thread. Data calls on it act on the keyspace `default`. `Options::open` lives here
//! too.
//!
//! What must hold: these types check what users give them, keep the engine open by a counted
//! `Handle`, and hand over to it. They keep nothing themselves that must survive.
//!
//! Callers: applications; `control` (`Db::control`), `solera-tune`, `solera-bench`,
//! `solera-bench-peers`, `solera-sim` and the command line.

mod batch;
mod bounds;
mod compound;
mod emptied;
mod entry;
mod iterator;
mod keyspace;
mod scout;
mod snapshot;
mod ticket;
mod transaction;
mod writes;

pub use batch::Batch;
pub use bounds::KeyBounds;
pub use entry::Entry;
pub use iterator::{Iter, Keys};
pub use keyspace::Keyspace;
pub use snapshot::Snapshot;
pub use ticket::Ticket;
pub use transaction::{Transaction, TransactionIter, TransactionKeys};

use crate::{
    engine::{
        Core, DEFAULT_KEYSPACE, Durability, Handle, IngestReport, KeyspaceOptions, KeyspaceStats, Options,
        Stats, VerifyReport, check_sizes, report,
    },
    error::{Error, Result},
    ids::Seqno,
    pin::Slice,
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A database: a directory of keyspaces with one commit order. A cheap handle, to be cloned and
/// shared between threads. Data calls on `Db` act on the keyspace named `default`; [`Db::keyspace`]
/// opens others.
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
        f.debug_struct("Db").field("dir", &self.handle.store.files.dir).finish_non_exhaustive()
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

    fn open_with(options: Options, dir: &Path) -> Result<Db> {
        let handle = Arc::new(Handle::open(options, dir)?);
        let tree = handle.store.catalog.named(DEFAULT_KEYSPACE);
        let tree = tree.ok_or_else(|| Error::NoKeyspace(DEFAULT_KEYSPACE.into()))?;
        let default = Keyspace::new(handle.clone(), tree);
        Ok(Db { handle, default })
    }

    /// The directory.
    pub fn dir(&self) -> PathBuf {
        self.handle.store.files.dir.clone()
    }

    /// The keyspace that every database has.
    pub fn default(&self) -> &Keyspace {
        &self.default
    }

    /// The keyspace `name`, created with the database's defaults if missing. That is durable and
    /// done at once: no batch and no transaction that is rolled back takes it back.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`] if it is missing and the database is read-only; [`Error::Invalid`] for
    /// an empty name or one over 255 bytes.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        let existing = self.handle.store.catalog.named(name);
        match existing {
            Some(tree) => Ok(Keyspace::new(self.handle.clone(), tree)),
            None => {
                let tree = self.handle.create_keyspace(name, self.handle.options.keyspace.clone())?;
                Ok(Keyspace::new(self.handle.clone(), tree))
            }
        }
    }

    /// The keyspace `name`, created with `options` if missing. One that exists is kept as `options`
    /// say from now on, durably: its tables stay as they are until they are merged, and its values
    /// where they are. What `options` do not say stays, and so does a knob that was set
    /// ([`Db::control`](crate::Db::control)). It gets the merge operator if it has none. A
    /// read-only database writes nothing, and takes of `options` only the operator.
    ///
    /// # Errors
    /// As [`Db::keyspace`], and [`Error::Invalid`] for an option out of range, or if the keyspace
    /// has a merge operator of another name; as [`Db::write`] if the change cannot be recorded.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let tree = self.handle.create_keyspace(name, options.clone())?;
        self.handle.give(&tree, &options)?;
        Ok(Keyspace::new(self.handle.clone(), tree))
    }

    /// The names of all keyspaces, sorted.
    pub fn keyspaces(&self) -> Vec<String> {
        self.handle.store.catalog.names()
    }

    /// Drops a keyspace and its data. Its handles fail from now on, and keep nothing on disk;
    /// iterators that are open go on, and keep what they walk over. The default keyspace cannot be
    /// dropped.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`], [`Error::Invalid`] for the default keyspace.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.handle.drop_keyspaces(&[name])
    }

    /// Drops several keyspaces and their data, all or none. It is made durable once, where
    /// [`Db::drop_keyspace`] waits for the device each time.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// for year in ["1998", "1999", "2000"] {
    ///     db.keyspace(year)?;
    /// }
    /// db.drop_keyspaces(&["1998", "1999"])?;
    /// assert_eq!(db.keyspaces(), ["2000", "default"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Db::drop_keyspace`]; none is dropped then.
    pub fn drop_keyspaces<N: AsRef<str>>(&self, names: &[N]) -> Result<()> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        self.handle.drop_keyspaces(&names)
    }

    /// An empty batch for this database.
    pub fn batch(&self) -> Batch {
        Batch::new(self.handle.options.durability)
    }

    /// Commits a batch: all of it, over all its keyspaces, or nothing. Returns the sequence number
    /// of its last operation.
    ///
    /// # Errors
    /// [`Error::NoKeyspace`] if one was dropped, [`Error::ReadOnly`], [`Error::Poisoned`],
    /// [`Error::Closed`]: nothing was committed. [`Error::Io`] if the log cannot be written:
    /// nothing was committed, and after a full disk the call may be tried again. The exception is a
    /// failed sync of the log, after which every write is refused with [`Error::Poisoned`]. No
    /// reader sees the batch while the database stays open. But its bytes may be on the disk, and
    /// then the next open finds it, whole.
    pub fn write(&self, batch: Batch) -> Result<Seqno> {
        let operations = batch.for_database(&self.handle)?;
        let write = |operations| self.handle.write(operations);
        self.handle.tracing.timed_write(operations, self.handle.clock(), write)
    }

    /// A consistent view of all keyspaces as they are now. It holds back the removal of old
    /// versions while it lives.
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
        let _caller = self.handle.enter()?;
        self.handle.flush_trees(&self.handle.trees())
    }

    /// Makes all acknowledged writes survive a power failure.
    ///
    /// # Errors
    /// [`Error::Io`] if the sync fails; the database is then poisoned. Of kind
    /// [`NotFound`](std::io::ErrorKind::NotFound) if the database's files were removed.
    pub fn sync(&self) -> Result<()> {
        self.handle.writable()?;
        self.handle.sync_log()
    }

    /// Copies the database as it is now, consistent over all keyspaces, to `dir`, which must not
    /// exist or be empty. Tables are hard links: the copy takes no time and no space until the
    /// original moves on. `dir` must be on the same file system.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `dir` holds anything or is no name; [`Error::Io`].
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.handle.checkpoint(named(dir.as_ref())?)
    }

    /// Reads everything and verifies every checksum, order and model bound.
    ///
    /// # Errors
    /// [`Error::Io`] if a file cannot be read, [`Error::Closed`]; damage is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.default().live()?;
        report::verify(&self.handle.store.catalog)
    }

    /// Does one unit of background work (one flush or one compaction) on this thread. False: there
    /// was nothing to do. For programs that run with no background threads.
    ///
    /// # Errors
    /// What stopped the work; it is tried again at the next call.
    pub fn step(&self) -> Result<bool> {
        let _caller = self.handle.enter()?;
        self.handle.step(false)
    }

    /// Waits until there is no background work left, doing some of it on this thread, and none is
    /// put off: level 0 is merged if it has as many runs as its limit, also where reads have not
    /// paid for that yet (`level0_patience` in docs/TUNING.md). To be called after a bulk load,
    /// before the reads.
    ///
    /// # Errors
    /// What stops the work.
    pub fn wait_idle(&self) -> Result<()> {
        let _caller = self.handle.enter()?;
        self.handle.wait_idle()
    }

    /// Sequence number of the newest committed operation.
    pub fn last_seqno(&self) -> Seqno {
        self.handle.visible()
    }

    /// What the database has done and holds, as plain numbers.
    pub fn stats(&self) -> Stats {
        let handle = &self.handle;
        let leaving = handle.reclaiming.leaving();
        report::database(&handle.store, &handle.memory, &handle.work, &handle.stats, leaving)
    }

    /// Closes the database for every handle. Stops background work, waits for calls of other
    /// threads that flush, merge or load, makes the log and the time that expiry has come to
    /// durable, and lets go of the directory: it may be opened again, here or elsewhere, though
    /// handles, iterators, batches and snapshots are still alive. What is asked of them later fails
    /// with [`Error::Closed`]; what they returned stays. Of the memory, only what iterators walk
    /// over is kept. A second call waits for the first and returns the same. Dropping the last
    /// handle does the same but cannot report a failure.
    ///
    /// # Errors
    /// [`Error::Io`] if the log or the manifest cannot be synced, or of kind
    /// [`NotFound`](std::io::ErrorKind::NotFound) if the database's files were removed while it was
    /// open. The database is closed all the same. [`Error::Invalid`] from within a call that it
    /// would wait for, such as by the entries of an ingest: then it stays open.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

macro_rules! on_default {
    ($(fn $name:ident(&self $(, $arg:ident: $ty:ty)*) -> $ret:ty;)*) => {
        /// Calls on the default keyspace; each is described at [`Keyspace`].
        impl Db {
            $(
                #[doc = concat!("See [`Keyspace::", stringify!($name), "`].")]
                ///
                /// # Errors
                /// As the call on the keyspace.
                #[inline]
                pub fn $name(&self $(, $arg: $ty)*) -> $ret {
                    self.default.$name($($arg),*)
                }
            )*
        }
    };
}

on_default! {
    fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()>;
    fn put_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: Duration) -> Result<()>;
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>>;
    fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool>;
    fn get_entry(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>>;
    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool>;
    fn delete(&self, key: impl AsRef<[u8]>) -> Result<()>;
    fn delete_range(&self, range: impl KeyBounds) -> Result<()>;
    fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()>;
    fn clear(&self) -> Result<()>;
    fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()>;
    fn compact_range(&self, range: impl KeyBounds) -> Result<()>;
    fn put_until(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, expires_ms: u64) -> Result<()>;
    fn set_expiry(&self, key: impl AsRef<[u8]>, expires_ms: Option<u64>) -> Result<bool>;
    fn first_key_value(&self) -> Result<Option<(Slice, Slice)>>;
    fn last_key_value(&self) -> Result<Option<(Slice, Slice)>>;
    fn pop_first(&self) -> Result<Option<(Slice, Slice)>>;
    fn pop_last(&self) -> Result<Option<(Slice, Slice)>>;
    fn fetch_update(&self, key: impl AsRef<[u8]>, update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<Option<Slice>>;
    fn is_empty(&self) -> Result<bool>;
    fn len(&self) -> Result<u64>;
}

impl Db {
    /// See [`Keyspace::iter`].
    pub fn iter(&self) -> Iter {
        self.default.iter()
    }

    /// See [`Keyspace::range`].
    pub fn range(&self, range: impl KeyBounds) -> Iter {
        self.default.range(range)
    }

    /// See [`Keyspace::prefix`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter {
        self.default.prefix(prefix)
    }

    /// See [`Keyspace::approximate_len`].
    pub fn approximate_len(&self) -> u64 {
        self.default.approximate_len()
    }

    /// See [`Keyspace::multi_get`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Slice>>> {
        self.default.multi_get(keys)
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
}

/// A directory that has a name: an unset variable has none.
fn named(dir: &Path) -> Result<&Path> {
    match dir.as_os_str().is_empty() {
        true => {
            Err(Error::Invalid("the directory's name is empty; name one, `.` for the present one".into()))
        }
        false => Ok(dir),
    }
}

impl Options {
    /// Opens the database in `dir`.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an option out of range, [`Error::Locked`] if it is open elsewhere,
    /// [`Error::NotADatabase`], [`Error::NewerFormat`], [`Error::Corrupt`], [`Error::Io`].
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(self, named(dir.as_ref())?)
    }
}
