//! What each table points to, by value file, and how many of its entries hide older ones: `Census`.
//!
//! A version counts for a whole tree, but a conversion is about a range of its keys. So tables are
//! walked one by one. One of 32 entries is looked for in older runs, by their filters, and stands
//! for all 32.
//!
//! What must hold: the part of a table that counts (its clip) is walked once. It is remembered
//! until `forget_gone` finds the table gone. Nothing is on disk. A table that cannot be read
//! points to nothing; a shortage of memory or handles is an error.
//!
//! Callers: `convert` (`cells`, for `rewrite` too) and `rewrite`; `reclaiming`'s state keeps it.

use crate::{
    compaction::TablePointers,
    cursor::Cursor,
    error::{Error, Result},
    ids::FileId,
    key::{EXPIRY_BYTES, KeyRange, hash},
    table::Access,
    tree::Tree,
    values::{self, LiveValues, Tally},
    version::{Run, TableRef, Version},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Of so many entries of a table, one is looked for in older runs.
const ENTRIES_PER_SAMPLE: u64 = 32;

/// Tables that were walked: what the part of each that counts points to.
#[derive(Default)]
pub(super) struct Census {
    tables: BTreeMap<FileId, Vec<(KeyRange, Arc<TablePointers>)>>,
}

impl Census {
    /// What the part of `table` that counts points to, `run` of `version` being the table's. A
    /// table that cannot be read points to nothing: plans go around it.
    pub(super) fn of(
        &mut self,
        version: &Version,
        run: &Run,
        table: &TableRef,
    ) -> Result<Arc<TablePointers>> {
        let parts = self.tables.entry(table.id()).or_default();
        if let Some((_, pointers)) = parts.iter().find(|(clip, _)| clip == table.clip()) {
            return Ok(pointers.clone());
        }
        let older = |other: &&Arc<Run>| (other.level(), run.id()) > (run.level(), other.id());
        let older: Vec<_> = version.runs().iter().filter(older).collect();
        let pointers = match walk(table, &older).map_err(Error::of_read) {
            Err(Error::Corrupt { .. }) => TablePointers::default(),
            walked => walked?,
        };
        let pointers = Arc::new(pointers);
        parts.push((table.clip().clone(), pointers.clone()));
        Ok(pointers)
    }

    /// Forgets tables that are not there any more.
    pub(super) fn forget_gone(&mut self, trees: &[Arc<Tree>]) {
        let views: Vec<_> = trees.iter().map(|tree| tree.view_owned()).collect();
        let there: BTreeSet<FileId> =
            views.iter().flat_map(|view| view.version.tables()).map(TableRef::id).collect();
        self.tables.retain(|table, _| there.contains(table));
    }
}

/// Counts the pointers of a table, and asks the filters of `older` runs for some of its keys.
fn walk(table: &TableRef, older: &[&Arc<Run>]) -> Result<TablePointers> {
    let (mut tally, mut entries, mut hides) = (Tally::default(), 0u64, 0u64);
    let mut cursor = table.file().cursor(table.clip(), Access::Sequential)?;
    cursor.seek_first()?;
    while cursor.valid() {
        let kind = cursor.kind();
        if kind.is_separated() {
            let moment = if kind.expires() { EXPIRY_BYTES } else { 0 };
            let stored = cursor.value().get(moment..).unwrap_or_default();
            tally.add(&values::decode(stored, cursor.key())?);
        }
        if entries.is_multiple_of(ENTRIES_PER_SAMPLE) && is_below(older, cursor.key()) {
            hides += ENTRIES_PER_SAMPLE;
        }
        entries += 1;
        cursor.next()?;
    }
    let live = LiveValues::default().after(&tally).map_err(Error::Invalid)?;
    Ok(TablePointers { live, hides: hides.min(entries) })
}

/// Whether `key` is in one of these runs, by their filters. A table that cannot be opened holds
/// nothing.
fn is_below(older: &[&Arc<Run>], key: &[u8]) -> bool {
    let hash = hash(key);
    older.iter().any(|run| {
        let table = run.find(key).map(|table| table.file().table());
        table.is_some_and(|table| table.is_ok_and(|table| table.filter_admits(hash)))
    })
}
