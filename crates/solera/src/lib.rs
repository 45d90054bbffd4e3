//! Solera: an embeddable, ordered, durable key-value engine whose tables are located by learned models.
//!
//! The module list is the architecture: it runs bottom to top, and each module may use only those above
//! it in this list (`crates/solera-sim/tests/layers.rs` reads the order from here and fails on an import
//! that points up). What users need is named at the root and in the modules listed below; the other rooms are
//! open so that fuzzers and the simulator can enter them, and promise nothing from release to release.

pub mod canary;
pub mod error;
pub mod ids;
pub mod clock;
mod prefetch;
mod sync;
#[doc(hidden)]
pub mod pin;
pub mod pool;
pub mod key;
#[doc(hidden)]
pub mod cursor;
#[doc(hidden)]
pub mod codec;
pub mod knob;
pub mod vfs;
#[doc(hidden)]
pub mod frame;
pub mod trace;
pub mod operator;
#[doc(hidden)]
pub mod tombstone;
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
#[doc(hidden)]
pub mod wal;
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
#[doc(hidden)]
pub mod db;
pub mod control;
pub mod inspect;

pub use crate::{
    block::Compression,
    clock::{Clock, ManualClock, SystemClock},
    compaction::Shape,
    control::Control,
    db::{
        Batch, DamagedTable, Db, Durability, IngestReport, Iter, Keys, Keyspace, KeyspaceOptions,
        KeyspaceStats, LevelStats, Options, RunStats, Snapshot, Stats, Transaction, TransactionIter,
        VerifyReport,
    },
    error::{Error, Result},
    filter::{FilterKind, FilterSpec, FilterSpread, Filters},
    index::IndexKind,
    operator::MergeOperator,
    pin::Slice,
    table::Layout,
};
