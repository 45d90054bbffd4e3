//! Which tables make up a tree, and how that changes.
//!
//! A **version** is an immutable picture of one tree: levels of runs of tables. An **edit** leads from
//! one version to the next and is one atomic record of the manifest.

mod cursor;
mod edit;
mod fence;
mod level;
pub mod manifest;
mod receipt;
mod run;
#[expect(clippy::module_inception, reason = "one file, one noun: it owns Version")]
mod version;

pub use cursor::RunCursor;
pub use edit::{Added, CreatedKeyspace, Edit, Removed, TreeEdit};
pub use level::Level;
pub use manifest::Manifest;
pub use receipt::{Changed, Receipt, Turned};
pub use run::{Run, TableRef, collect_tombstones};
pub use version::{Applied, LEVELS_MAX, Version};

#[cfg(test)]
mod tests;
