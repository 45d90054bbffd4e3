//! What each table points to, by value file, and what its entries hide of older ones: `Census`.
//!
//! A version counts for a whole tree, but a conversion is about a range of its keys. So tables are
//! walked one by one. Some of their keys are looked for in older runs, and stand for all. A filter
//! says whether a key is there. The older entry says what it hides; where all values of its table
//! lie apart, the mean most often does.
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
    key::{KeyEnd, KeyRange, Kind, hash},
    table::{Access, waste::Cover},
    tree::Tree,
    values::{LiveValues, Tally},
    version::{Run, RunCursor, TableRef, Version, pointer_at},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// About so many entries of a table are looked for in older runs. Each look may read a block.
const SAMPLES: u64 = 256;
/// So many looks read a block where all values of the older table lie apart: they may still differ
/// in length.
const LOOKS_AT_LIKE: u32 = 16;
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
        let pointers = match unless_damaged(walk(table, &older))? {
            Some(pointers) => Arc::new(pointers),
            None => Arc::default(),
        };
        // Parts of one table do not overlap, so what does is a part of before.
        parts.retain(|(clip, _)| !clip.overlaps(table.clip()));
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
/// these first.
fn walk(table: &TableRef, older: &[&Arc<Run>]) -> Result<TablePointers> {
    let mut tally = Tally::default();
    let mut hiding = Hiding::new(table, older);
    let mut cursor = table.file().cursor(table.clip(), Access::Sequential)?;
    cursor.seek_first()?;
    while cursor.valid() {
        if cursor.kind().is_separated() {
            tally.add(&pointer_at(&cursor)?);
        }
        // Operands hide nothing: what they amount to is made of what lies below.
        if !older.is_empty() && cursor.kind() != Kind::Merge {
            hiding.see(cursor.key())?;
        }
        cursor.next()?;
    }
    for cover in &table.descriptor().waste.covers {
        hiding.cover(cover, table.clip());
    }
    let live = LiveValues::default().after(&tally).map_err(Error::Invalid)?;
    Ok(TablePointers { live, hides: hiding.finish() })
}

/// What the entries of a table hide of values in older runs, in the order of their keys.
struct Hiding {
    older: Vec<Below>,
    /// One of so many keys is looked for, as their hashes fall.
    per_sample: u64,
    last: Vec<u8>,
    /// Bytes by the first keys of stretches.
    stretches: Vec<(Box<[u8]>, u64)>,
}

impl Hiding {
    fn new(table: &TableRef, older: &[&Arc<Run>]) -> Hiding {
        Hiding {
            older: older.iter().map(|run| Below::new(run)).collect(),
            per_sample: table.entries().div_ceil(SAMPLES).max(1),
            last: Vec::new(),
            stretches: Vec::new(),
        }
    }

    /// An entry of `key`, of which there may be several.
    fn see(&mut self, key: &[u8]) -> Result<()> {
        let hash = hash(key);
        if !hash.is_multiple_of(self.per_sample) || self.last == key {
            return Ok(());
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        for below in &mut self.older {
            if let Some(bytes) = below.value_bytes(key, hash)? {
                if bytes > 0 {
                    self.stretches.push((key.into(), bytes.saturating_mul(self.per_sample)));
                    self.join_pairs(2 * STRETCHES_MAX);
                }
                break;
            }
        }
        Ok(())
    }

    /// A range tombstone covers what lies below it, but for the ends about as a share of tables.
    fn cover(&mut self, cover: &Cover, clip: &KeyRange) {
        let end = KeyEnd::Excluded(cover.end.clone());
        let range = KeyRange { start: cover.start.clone(), end }.intersection(clip);
        let below = self.older.iter().flat_map(|below| below.run.overlapping(&range));
        let bytes = below.fold(0, |sum: u64, table| {
            let share =
                table.file().opened().map_or(0.0, |open| open.share(&range.intersection(table.clip())));
            sum.saturating_add((share * pointed(table).1 as f64) as u64)
        });
        if bytes > 0 {
            self.stretches.push((range.start, bytes));
        }
    }

    /// Makes one stretch of each two where there are more than `most`.
    fn join_pairs(&mut self, most: usize) {
        if self.stretches.len() <= most {
            return;
        }
        let mut pairs = std::mem::take(&mut self.stretches).into_iter();
        while let Some((key, bytes)) = pairs.next() {
            let next = pairs.next().map_or(0, |(_, next)| next);
            self.stretches.push((key, bytes.saturating_add(next)));
        }
    }

    fn finish(mut self) -> Vec<(Box<[u8]>, u64)> {
        self.stretches.sort_by(|a, b| a.0.cmp(&b.0));
        // Twice as many as are kept, and those of range tombstones.
        self.join_pairs(STRETCHES_MAX);
        self.join_pairs(STRETCHES_MAX);
        self.stretches.shrink_to_fit();
        self.stretches
    }
}

/// How many entries of a table point to values, and the bytes of these, as far as it is known.
fn pointed(table: &TableRef) -> (u64, u64) {
    let told = table.descriptor().waste.pointers.changes();
    told.fold((0, 0), |sum: (u64, u64), (_, values, bytes)| {
        (sum.0.saturating_add_signed(values), sum.1.saturating_add_signed(bytes))
    })
}

/// An older run, in which keys are looked for in their order.
struct Below {
    run: Arc<Run>,
    cursor: RunCursor,
    /// How many entries may be read yet where all values of a table lie apart.
    looks: u32,
}

impl Below {
    fn new(run: &Arc<Run>) -> Below {
        let cursor = RunCursor::new(run.tables().clone(), Access::Sparse);
        Below { run: run.clone(), cursor, looks: LOOKS_AT_LIKE }
    }

    /// How many bytes the value of `key` has in a value file. Where all values of a table lie
    /// apart, most are taken for the mean. `None`: the key is not in this run, or its table is
    /// damaged.
    fn value_bytes(&mut self, key: &[u8], hash: u64) -> Result<Option<u64>> {
        let Some(table) = self.run.find(key) else { return Ok(None) };
        match unless_damaged(table.file().table().map(|table| table.filter_admits(hash)))? {
            Some(true) => {}
            _ => return Ok(None),
        }
        let (values, bytes) = pointed(table);
        if values == table.descriptor().entries {
            if self.looks == 0 {
                return Ok(Some(bytes / values.max(1)));
            }
            self.looks -= 1;
        }
        let sought = unless_damaged(self.cursor.seek(key))?;
        if sought.is_none() || !self.cursor.valid() || self.cursor.key() != key {
            return Ok(None);
        }
        let is_apart = self.cursor.kind().is_separated();
        Ok(Some(if is_apart { pointer_at(&self.cursor).map_or(0, |pointer| pointer.len.into()) } else { 0 }))
    }
}

/// What was read; `None` where there is damage. A shortage of memory or handles is an error.
fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read.map_err(Error::of_read) {
        Err(Error::Corrupt { .. }) => Ok(None),
        read => read.map(Some),
    }
}
