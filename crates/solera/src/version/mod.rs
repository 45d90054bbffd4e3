//! Which tables make up a tree, and how that changes: `Version`, `Edit`, `Manifest`.
//!
//! A `Version` is an immutable picture of one tree: `Level`s of `Run`s of `TableRef`s. An `Edit`
//! leads from one version to the next and is one atomic record of the `Manifest`. `RunCursor` walks
//! a run; `Receipt` and `Assignment` tell of changed knobs; `each_pointer` finds a table's
//! pointers.
//!
//! What must hold: every version of a key in a newer run is newer than those in older runs
//! (invariant R, docs/decisions/0002). What the manifest does not say does not count.
//! Files, bottom to top; each uses only those above it.
//! Callers: `compaction` decides on versions, `tree` shows them to readers, `engine` records edits.
//! `control`, `inspect` and `fuzz` read them.

mod run_index;
mod run;
mod pointers;
mod cursor;
mod level;
mod receipt;
mod edit;
#[expect(clippy::module_inception, reason = "one file, one noun: it owns Version")]
mod version;
pub mod manifest;

pub use cursor::RunCursor;
pub use edit::{Added, CreatedKeyspace, Edit, Removed, TreeEdit};
pub use level::{LEVELS_MAX, Level};
pub use manifest::Manifest;
pub use pointers::{each_pointer, pointer_at};
pub use receipt::{Assignment, Changed, Receipt};
pub use run::{Run, TableRef, collect_tombstones};
pub use version::{Applied, Version};

#[cfg(test)]
mod tests;
