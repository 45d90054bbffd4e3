//! Values of their own: files that hold values whose entries hold only a pointer.
//!
//! Owns the [`Pointer`], the record that a pointer leads to ([`record`]), and the open
//! [`ValueFile`]. The registry [`ValueFiles`] finds a file by its number. The [`ValueWriter`]
//! writes sorted value files. [`Live`] knows how much of each file some entry still points to
//! (docs/decisions/0019).
//!
//! Two kinds of files hold values. A **log** holds those that were put: the log that makes them
//! durable is their only copy. A **sorted value file** holds those that a merge moved or that were
//! ingested, in the order of their keys.
//!
//! What must hold:
//!
//! * A value is durable before a table that points at it is named by the manifest. The log is
//!   synced before a flush is installed; a sorted value file is synced when it is finished.
//! * Whoever reads through a pointer holds what keeps its file: a version for pointers in tables, a
//!   memtable for its own. A file that no version counts as live goes when the last of them does.
//! * Every read checks the record: its sum covers file, offset, key and value.
//!
//! Called by `wal` (sums), `memtable` and `version` (what keeps files), `merge` and `tree` (reads),
//! `compaction` (moves) and the database.

mod ahead;
mod file;
mod files;
mod live;
mod pointer;
pub mod record;
mod writer;

pub use ahead::ReadAhead;
pub use file::{SORTED, ValueFile, check_sorted};
pub use files::{Resident, ValueFiles, decode, not_a_pointer};
pub use live::{Live, LiveValues, Tally};
pub use pointer::{POINTER_BYTES_MAX, Pointer};
pub use writer::{SortedValues, ValueWriter, WrittenValues};

#[cfg(test)]
mod tests;
