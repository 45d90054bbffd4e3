//! Which share of a table's keys lies in older runs too: `Overlap`, by table, of one tree.
//!
//! Puts do not tell what they displace, and level 0 may wait for its merge until reads pay
//! (docs/decisions/0016). So once a tree rests, a worker looks for some keys in older runs. `space`
//! weighs the shares like deletes.
//!
//! What must hold: a share is an estimate, as of the look; a plan made for it may free less. A
//! table without a look has 0. Once more was flushed, `forget_older` forgets all.
//!
//! Callers: `engine::resting` makes one; `engine::work` gives it to the `Ledger`, which keeps it;
//! `space` asks it.

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
