//! Which tables make up a tree, and how that changes.
//!
//! A **version** is an immutable picture of one tree: levels of runs of tables. An **edit** leads
//! from one version to the next and is one atomic record of the manifest.
//!
//! Files, bottom to top; each uses only those above it.

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
pub use pointers::each_pointer;
pub use receipt::{Assignment, Changed, Receipt};
pub use run::{Run, TableRef, collect_tombstones};
pub use version::{Applied, Version};

#[cfg(test)]
mod tests;
