//! How many keys of a table lie in older runs too: `Overlap`, by table, of one tree.
//!
//! Of puts this is not known without a look, and level 0 waits for reads with its merge
//! (docs/decisions/0016). So a worker looks at some keys once the tree rests. What it found is
//! weighed as deletes are (`space`).
//!
//! What must hold: it is of the tables as they were. Once more was flushed the tree does not rest,
//! and nothing counts as known. It is an estimate: a plan made for it may free less.
//! Callers: `Ledger` keeps one; `space` asks; `engine::resting` looks.

use crate::{
    ids::{FileId, Seqno},
    version::{TableRef, Version},
};
use std::collections::BTreeMap;

/// Which share of a table's keys is in older runs too, as far as a worker has looked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overlap {
    /// What was flushed when a worker looked.
    flushed: Seqno,
    shares: BTreeMap<FileId, f64>,
}

impl Overlap {
    /// Of the tables of `version`, as far as `shares` says.
    pub fn new(version: &Version, shares: BTreeMap<FileId, f64>) -> Overlap {
        Overlap { flushed: version.flushed_seqno(), shares }
    }

    /// Which share of the table's keys is in older runs too; 0 if no worker has looked.
    pub(super) fn share(&self, table: &TableRef) -> f64 {
        self.shares.get(&table.id()).copied().unwrap_or(0.0)
    }

    /// Forgets all if more was flushed than when a worker looked.
    pub(super) fn forget_older(&mut self, version: &Version) {
        if !self.shares.is_empty() && self.flushed != version.flushed_seqno() {
            *self = Overlap::default();
        }
    }
}
