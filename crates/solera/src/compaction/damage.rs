//! Which tables of a tree could not be read: `Damage`, by file, with the error of each.
//!
//! `note` takes a failed plan and its error. If that says that a table of the plan cannot be read,
//! since it is damaged or its device refuses it, the table is noted. `forget_replaced` drops tables
//! that the version does not have any more. `has` and `touches` ask for one table and for a run.
//!
//! What must hold: it is not on disk. After a restart the first plan that reads a damaged table
//! notes it again.
//!
//! Callers: `ledger` notes and forgets. `cut` (for `convert` and `lift` too), `pick` and `space`
//! plan around damage through the `Picture`, so that one bad block does not stop other work.
//! `key_list` waits while there is any; `manual` ignores it. `engine::work` hands the errors to
//! users.

use super::plan::Plan;
use crate::{
    error::Error,
    ids::FileId,
    version::{Run, TableRef, Version},
};
use std::collections::BTreeMap;

/// Damaged tables of one tree, and what is wrong with each.
#[derive(Clone, Debug, Default)]
pub struct Damage {
    tables: BTreeMap<FileId, Error>,
}

impl Damage {
    /// Notes that a table of `plan` cannot be read, if `error` says so.
    pub(super) fn note(&mut self, plan: &Plan, error: &Error) -> bool {
        let error = error.clone().of_read();
        let Error::Corrupt { file, .. } = &error else { return false };
        let tables = plan.sources.iter().flat_map(|source| &source.tables).chain(&plan.target.tables);
        let damaged = tables.filter(|table| table.file().path() == file).map(TableRef::id).next();
        damaged.is_some_and(|table| {
            self.tables.insert(table, error);
            true
        })
    }

    /// Forgets tables that `version` does not have any more.
    pub(super) fn forget_replaced(&mut self, version: &Version) {
        if !self.tables.is_empty() {
            self.tables.retain(|damaged, _| version.tables().any(|table| table.id() == *damaged));
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// What is wrong with each damaged table.
    pub fn errors(&self) -> impl Iterator<Item = &Error> {
        self.tables.values()
    }

    /// The damaged tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = FileId> {
        self.tables.keys().copied()
    }

    /// Whether `table` is damaged.
    pub(super) fn has(&self, table: &TableRef) -> bool {
        self.tables.contains_key(&table.id())
    }

    /// Whether a table of `run` is damaged.
    pub(super) fn touches(&self, run: &Run) -> bool {
        run.tables().iter().any(|table| self.has(table))
    }
}
