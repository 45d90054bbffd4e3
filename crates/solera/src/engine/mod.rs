//! The engine: many trees behind one log, one manifest and one commit order.
//!
//! Owns `Core`, what all handles of an open database share, and `Handle`, which keeps it open.
//! docs/ARCHITECTURE.md tells the data's way.
//!
//! What must hold: each part owns its state and its methods, and takes as arguments what it needs
//! of others.
//!
//! Callers: `db`, the users' face; `control`, for knobs, observations and recordings;
//! `inspect::edits`. The crate's root hands options and reports to users of all crates.
//!
//! Files, bottom to top; each uses only those above it.

mod options;
mod poison;
mod catalog;
pub(crate) mod snapshots;
mod expiry;
mod resident;
mod files;
mod memory;
mod keyspace_record;
pub mod descriptions;
pub(crate) mod assignments;
mod leaving;
mod lending;
mod store;
pub(crate) mod reads;
pub(crate) mod commit;
mod values;
mod apply;
mod work;
mod logs;
mod throttle;
mod callers;
pub(crate) mod change;
pub(crate) mod tracing;
mod census;
mod drops;
mod resting;
mod reclaiming;
mod reclaim;
mod convert;
mod rewrite;
mod warming;
mod job_parts;
mod flushing;
mod large;
mod core;
mod jobs;
mod workers;
mod ingest;
mod checkpoint;
mod garbage;
pub(crate) mod report;
mod open;
mod handle;
#[cfg(test)]
mod unopened;

pub use catalog::DEFAULT_KEYSPACE;
pub use ingest::IngestReport;
pub use memory::Split;
pub use options::{Durability, KeyspaceOptions, MEMORY_BYTES_DEFAULT, MEMORY_BYTES_MIN, Options};
pub use report::{DamagedTable, KeyspaceStats, LevelStats, RunStats, Stats, VerifyReport};

pub(crate) use self::core::{Core, check_sizes};
pub(crate) use garbage::Garbage;
pub(crate) use handle::Handle;
pub(crate) use keyspace_record::recorded_settings;
pub(crate) use report::filter_bits_per_key;
