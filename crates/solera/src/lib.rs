//! Solera is an ordered key-value store that a program embeds. Learned models locate its entries.
//!
//! Keys and values are bytes. Keys are sorted. A database is one directory; one process at a time
//! writes to it, with many threads. Acknowledged writes survive the process, or a power failure if
//! you ask.
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! let db = solera::Db::open(dir.path().join("cellar"))?;
//! db.put(b"cask/1", b"oak")?;
//! db.put(b"cask/2", b"cherry")?;
//! assert_eq!(db.get(b"cask/1")?.unwrap(), b"oak");
//!
//! for entry in db.prefix(b"cask/") {
//!     let (key, wood) = entry?;
//!     println!("{key:?} is of {wood:?}");
//! }
//! # Ok(()) }
//! ```
//!
//! # Guide
//!
//! **[`Db`]** is an open database. It is cheap to clone, and all threads may share it.
//! Its methods read and write the keyspace `default`.
//!
//! **[`Keyspace`]** is a sorted map of its own inside a database. A batch or a transaction may span
//! several.
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = solera::Db::open(dir.path())?;
//! let sessions = db.keyspace("sessions")?; // created if it is not there
//! sessions.put_with_ttl(b"kim", b"token", std::time::Duration::from_secs(3600))?;
//! assert!(sessions.contains_key(b"kim")? && !db.contains_key(b"kim")?);
//! # Ok(()) }
//! ```
//!
//! **[`Batch`]** collects writes. They take effect together, or not at all.
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = solera::Db::open(dir.path())?;
//! let mut batch = db.batch();
//! batch.put(db.default(), b"cask/3", b"acacia")?;
//! batch.delete(db.default(), b"cask/1")?;
//! batch.durability(solera::Durability::Sync); // survives a power failure
//! db.write(batch)?;
//! # Ok(()) }
//! ```
//!
//! **[`Iter`]** walks keys in order, from either end. It shows the database as of one moment.
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = solera::Db::open(dir.path())?;
//! # db.put(b"b", b"1")?;
//! # db.put(b"c", b"2")?;
//! let mut iter = db.range("a".."z").rev();
//! let (last, _) = iter.next().unwrap()?;
//! assert_eq!(last, b"c");
//! # Ok(()) }
//! ```
//!
//! **[`Snapshot`]** keeps one moment readable, for as long as you hold it.
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = solera::Db::open(dir.path())?;
//! db.put(b"jug", b"empty")?;
//! let before = db.snapshot();
//! db.put(b"jug", b"full")?;
//! assert_eq!(before.get(db.default(), b"jug")?.unwrap(), b"empty");
//! # Ok(()) }
//! ```
//!
//! **[`Transaction`]** reads and writes as if it ran alone. If another write came between, its
//! commit fails with [`Error::Conflict`], and [`Db::transact`] runs it again. What concerns one key
//! or one end is a call: [`Keyspace::fetch_update`], [`Keyspace::pop_first`].
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = solera::Db::open(dir.path())?;
//! db.transact(|transaction| {
//!     let count = transaction.get(db.default(), "visits")?.map_or(0, |count| count[0]);
//!     transaction.put(db.default(), "visits", [count + 1])
//! })?;
//! assert_eq!(db.get(b"visits")?.unwrap(), b"\x01");
//! # Ok(()) }
//! ```
//!
//! **[`Ticket`]** stands for writes that can be read already, and tells when they survive a power
//! failure.
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let db = solera::Db::open(dir.path())?;
//! db.put("cask/4", "chestnut")?;
//! db.ticket().wait()?;
//! # Ok(()) }
//! ```
//!
//! **[`Options`]** say how to open a database. The memory budget is the one that matters.
//!
//! ```
//! # fn main() -> solera::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! let db = solera::Options::new().memory(64 << 20).durability(solera::Durability::Sync).open(dir.path())?;
//! # drop(db);
//! # Ok(()) }
//! ```
//!
//! **[`Error`]** names the file and the offset if a file is at fault, and says what to do.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! let missing = solera::Options::new().create_if_missing(false).open(dir.path().join("nowhere"));
//! println!("{}", missing.unwrap_err());
//! ```
//!
//! [`Db::control`] changes settings while the database runs, and shows what it does. [`inspect`]
//! reads a closed database. [`trace`] reads recorded work back. Rooms that are not shown here are
//! open to fuzzers and the simulator; they promise nothing from release to release.

// The module list is the architecture, bottom to top, in five storeys: a room may use only rooms
// that the list names before it. `crates/solera-sim/tests/layers.rs` reads the order and the
// storeys from here, and docs/ARCHITECTURE.md says what each room owns.

// Storey: words: what every room says and counts in; no room here touches a file.
#[doc(hidden)]
pub mod canary;
pub mod error;
pub mod ids;
pub mod clock;
mod prefetch;
mod sync;
#[doc(hidden)]
pub mod pin;
#[doc(hidden)]
pub mod pool;
pub mod key;
#[doc(hidden)]
pub mod cursor;
#[doc(hidden)]
pub mod codec;
pub mod knob;
pub mod operator;
#[doc(hidden)]
pub mod tombstone;

// Storey: files: bytes that survive: the file system, framed records, the log, traces.
pub mod vfs;
#[doc(hidden)]
pub mod dir;
#[doc(hidden)]
pub mod frame;
#[doc(hidden)]
pub mod values;
#[doc(hidden)]
pub mod wal;
pub mod trace;

// Storey: tables: immutable sorted files and what finds an entry in one.
#[doc(hidden)]
pub mod sight;
pub mod stats;
#[doc(hidden)]
pub mod cache;
#[doc(hidden)]
pub mod filter;
#[doc(hidden)]
pub mod block;
#[doc(hidden)]
pub mod index;
#[doc(hidden)]
pub mod table;

// Storey: tree: one keyspace: its newest entries, its runs, and the merge of both.
#[doc(hidden)]
pub mod memtable;
#[doc(hidden)]
pub mod version;
#[doc(hidden)]
pub mod merge;
#[doc(hidden)]
pub mod compaction;
#[doc(hidden)]
pub mod tree;

// Storey: database: many trees under one log, and who may change or inspect them.
#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod db;
pub mod control;
pub mod inspect;

pub use crate::{
    block::Compression,
    clock::{Clock, ManualClock, SystemClock},
    compaction::{LevelFilters, Reclaim, Shape, SpaceUse},
    control::Control,
    db::{
        Batch, Db, Entry, Iter, KeyBounds, Keys, Keyspace, Snapshot, Ticket, Transaction, TransactionIter,
        TransactionKeys,
    },
    engine::{
        DamagedTable, Durability, IngestReport, KeyspaceOptions, KeyspaceStats, LevelStats, Options,
        RunStats, Stats, VerifyReport,
    },
    error::{Error, Result},
    filter::{BITS_PER_KEY_MAX, FilterKind, FilterSpec, FilterSpread, Filters, false_positives_over},
    index::IndexKind,
    operator::MergeOperator,
    pin::Slice,
    table::Layout,
    version::LEVELS_MAX,
};
