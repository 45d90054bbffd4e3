//! Solera: an embeddable, ordered, durable key-value engine whose tables are located by learned models.
//!
//! The module list is the architecture: it runs bottom to top, and each module may use only those above
//! it in this list (`crates/solera-sim/tests/layers.rs` reads the order from here and fails on an import
//! that points up).

pub mod error;
pub mod ids;
pub mod clock;
pub mod pin;
pub mod key;
pub mod cursor;
pub mod codec;
pub mod vfs;
pub mod frame;
pub mod operator;
pub mod tombstone;
pub mod stats;
pub mod cache;
pub mod filter;
pub mod block;
pub mod index;
pub mod table;
pub mod wal;
pub mod memtable;
pub mod version;
pub mod merge;
pub mod compaction;
pub mod tree;
pub mod db;
pub mod inspect;

pub use crate::{
    block::Compression,
    clock::{Clock, ManualClock, SystemClock},
    compaction::Shape,
    db::{
        Batch, Db, Durability, IngestReport, Iter, Keys, Keyspace, KeyspaceOptions, KeyspaceStats,
        LevelStats, Options, RunStats, Snapshot, Stats, Transaction, TransactionIter, VerifyReport,
    },
    error::{Error, Result},
    index::IndexKind,
    operator::MergeOperator,
    pin::Slice,
    table::Layout,
};
