//! One level of a tree: `Level`, its runs, newest first; and `LEVELS_MAX` (64).
//!
//! It answers for its runs together: bytes, entries, tables, whether some table overlaps a key
//! range. `next_run` gives the id of a new run. `Version::apply` alone changes levels.
//!
//! What must hold: runs stand by descending id, as `Version::apply` asserts. For any key, every
//! version in a newer run is newer than those in an older one (invariant R); nothing here checks
//! that. `next_run` is above all ids that the level had since the manifest was read, also of runs
//! that are gone.
//!
//! Callers: `Version` is made of levels; `compaction` decides by them, `control::observe` and
//! `engine::report` show them. `tree::stall`, `engine::work` and `engine::ingest` look at level 0.

use super::run::Run;
use crate::{ids::RunId, key::KeyRange};
use std::sync::Arc;

/// Most levels that a tree can have: at the smallest size ratio and buffer, more bytes than a u64
/// counts.
pub const LEVELS_MAX: u32 = 64;

/// The runs of one level, newest first. For any key, every version in a newer run is newer than
/// every version in an older run (invariant R, docs/decisions/0002).
#[derive(Clone, Debug, Default)]
pub struct Level {
    pub(super) runs: Vec<Arc<Run>>,
    pub(super) newest_ever: RunId,
}

impl Level {
    /// The runs, by descending id: newest first.
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// The run of this id.
    pub fn run(&self, id: RunId) -> Option<&Arc<Run>> {
        let at = self.runs.binary_search_by(|run| id.cmp(&run.id())).ok()?;
        Some(&self.runs[at])
    }

    /// The id for a new run, newer than every run that the level has or had since the manifest was
    /// read.
    pub fn next_run(&self) -> RunId {
        RunId(self.newest_ever.0 + 1)
    }

    /// Bytes of its runs, estimated where tables are clipped.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes()).sum()
    }

    /// Entries of its runs, estimated where tables are clipped.
    pub fn entries(&self) -> u64 {
        self.runs.iter().map(|run| run.entries()).sum()
    }

    /// Number of its tables; parts of one file count each.
    pub fn tables(&self) -> usize {
        self.runs.iter().map(|run| run.tables().len()).sum()
    }

    /// Whether some table has keys in `range`.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        self.runs.iter().any(|run| !run.overlapping(range).is_empty())
    }
}
