//! Values of their own: files that hold values whose entries hold only a pointer
//! (docs/decisions/0019). Owns `Pointer`, its `record`, `ValueFile`, the registry `ValueFiles`,
//! `ValueWriter`, `SortedValues`, `ReadAhead`, and the counts `LiveValues` and `Tally`. A log holds
//! the values that were put. A sorted value file holds those that a merge moved or that were
//! ingested, by key.
//! What must hold:
//! - A value is durable before a table that points at it is named by the manifest.
//! - A reader that follows a pointer holds what keeps its file: a version or a memtable.
//! - Every read of a file but `pieces` checks the sum, of file, offset, key and value.
//!
//! Callers: `wal` (sums), `memtable`, `version` (keep files), `sight`, `tree`, `db` (read),
//! `compaction` (moves), `engine`, `inspect`.

mod ahead;
mod file;
mod files;
mod live;
mod pointer;
pub mod record;
mod stretch;
mod writer;

pub use ahead::ReadAhead;
pub use file::{SORTED, ValueFile, check_sorted};
pub use files::{Resident, ValueFiles, decode, not_a_pointer};
pub use live::{Live, LiveValues, Tally};
pub use pointer::{POINTER_BYTES_MAX, Pointer};
pub use stretch::Stretches;
pub use writer::{SortedValues, ValueWriter, WrittenValues};

#[cfg(test)]
mod tests;
