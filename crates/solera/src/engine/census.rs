//! What each table points to, by value file, and what its entries hide of older ones: `Census`.
//!
//! A version counts for a whole tree, but a conversion is about a range of its keys. So tables are
//! walked one by one. Some entries are looked for in older runs, and stand for all: first by a
//! filter; then, where values lie apart and others do not, by the older entry.
//!
//! What must hold: the part of a table that counts (its clip) is walked once. It is remembered
//! until `forget_gone` finds the table gone. Nothing is on disk. A table that cannot be read
//! points to nothing; a shortage of memory or handles is an error.
//!
//! Callers: `convert` (`cells`, for `rewrite` too) and `rewrite`; `reclaiming`'s state keeps it.

use crate::{
    compaction::{TablePointers, are_pointers_told},
    cursor::Cursor,
    error::{Error, Result},
    ids::FileId,
    key::{EXPIRY_BYTES, KeyRange, hash},
    table::Access,
    tree::Tree,
    values::{self, LiveValues, Pointer, Tally},
    version::{Run, RunCursor, TableRef, Version},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// At most so many entries of a table are looked for in older runs. Each look may read a block.
const SAMPLES_MAX: u64 = 256;
/// What they hide is remembered by so many stretches of keys.
const STRETCHES_MAX: usize = 64;

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
        let pointers = match walk(table, &older, are_pointers_told(version)).map_err(Error::of_read) {
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

/// Counts the pointers of a table, and looks for some of its keys in `older` runs, the newest of
/// these first. A table without pointers points nowhere if `all_are_told`.
fn walk(table: &TableRef, older: &[&Arc<Run>], all_are_told: bool) -> Result<TablePointers> {
    let (mut tally, mut entries, mut hides) = (Tally::default(), 0u64, Vec::new());
    let mut older: Vec<Below> = older.iter().map(|run| Below::new(run, all_are_told)).collect();
    let per_sample = table.entries().div_ceil(SAMPLES_MAX).max(1);
    let mut cursor = table.file().cursor(table.clip(), Access::Sequential)?;
    cursor.seek_first()?;
    while cursor.valid() {
        if cursor.kind().is_separated() {
            tally.add(&pointer(&cursor)?);
        }
        if entries.is_multiple_of(per_sample) {
            let hidden = per_sample as f64 * hidden_value(&mut older, cursor.key())?;
            if hidden > 0.0 {
                hides.push((cursor.key().into(), hidden as u64));
                join_pairs(&mut hides, 2 * STRETCHES_MAX);
            }
        }
        entries += 1;
        cursor.next()?;
    }
    let live = LiveValues::default().after(&tally).map_err(Error::Invalid)?;
    join_pairs(&mut hides, STRETCHES_MAX);
    hides.shrink_to_fit();
    Ok(TablePointers { live, hides })
}

/// Makes one stretch of each two where there are more than `most`.
fn join_pairs(hides: &mut Vec<(Box<[u8]>, u64)>, most: usize) {
    if hides.len() > most {
        let bytes: Vec<u64> = hides.chunks(2).map(|pair| pair.iter().map(|(_, bytes)| bytes).sum()).collect();
        let mut at = 0..;
        hides.retain(|_| at.next().is_some_and(|at: usize| at.is_multiple_of(2)));
        hides.iter_mut().zip(bytes).for_each(|(stretch, bytes)| stretch.1 = bytes);
    }
}

/// What the entry at `cursor` points to.
fn pointer(cursor: &impl Cursor) -> Result<Pointer> {
    let moment = if cursor.kind().expires() { EXPIRY_BYTES } else { 0 };
    let stored = cursor.value().get(moment..).unwrap_or_default();
    values::decode(stored, cursor.key())
}

/// How many bytes the newest older version of `key` has in a value file, about.
fn hidden_value(older: &mut [Below], key: &[u8]) -> Result<f64> {
    let hash = hash(key);
    for below in older {
        if let Some(bytes) = below.value_bytes(key, hash)? {
            return Ok(bytes);
        }
    }
    Ok(0.0)
}

/// An older run, in which keys are looked for in their order.
struct Below {
    run: Arc<Run>,
    cursor: RunCursor,
    all_are_told: bool,
}

impl Below {
    fn new(run: &Arc<Run>, all_are_told: bool) -> Below {
        let cursor = RunCursor::new(run.tables().clone(), Access::Sequential);
        Below { run: run.clone(), cursor, all_are_told }
    }

    /// How many bytes the value of `key` has in a value file: the mean of its table where all that
    /// it has lies apart. `None`: the key is not in this run, or its table cannot be read.
    fn value_bytes(&mut self, key: &[u8], hash: u64) -> Result<Option<f64>> {
        let Some(table) = self.run.find(key) else { return Ok(None) };
        if !table.file().table().is_ok_and(|table| table.filter_admits(hash)) {
            return Ok(None);
        }
        let descriptor = table.descriptor();
        let told = descriptor.waste.pointers.changes();
        let (values, bytes) = told.fold((0, 0), |sum, (_, values, bytes)| (sum.0 + values, sum.1 + bytes));
        if values == 0 && self.all_are_told {
            return Ok(Some(0.0));
        }
        if values > 0 && values as u64 + descriptor.deletes == descriptor.entries {
            return Ok(Some(bytes as f64 / values as f64));
        }
        match self.cursor.seek(key).map_err(Error::of_read) {
            Err(Error::Corrupt { .. }) => return Ok(None),
            sought => sought?,
        }
        if !self.cursor.valid() || self.cursor.key() != key {
            return Ok(None);
        }
        let is_apart = self.cursor.kind().is_separated();
        Ok(Some(if is_apart { pointer(&self.cursor).map_or(0.0, |pointer| pointer.len.into()) } else { 0.0 }))
    }
}
