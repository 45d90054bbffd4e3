//! Which tables make up a tree, and how that changes.
//!
//! A **version** is an immutable picture of one tree: levels of runs of tables. An **edit** leads from
//! one version to the next and is one atomic record of the manifest.

mod edit;
pub mod manifest;

pub use edit::{Added, CreatedKeyspace, Edit, Removed, TreeEdit};
pub use manifest::Manifest;
