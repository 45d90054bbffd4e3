//! One run, tables with disjoint key ranges in key order: `Run`; and `TableRef`, a table or the
//! part that counts.
//!
//! `Run::find` gives the one table that may hold a key (by `RunIndex`), `overlapping` the tables of
//! a range, `tombstones` the range tombstones of all. `TableRef::within` and `without` cut a part;
//! bytes and entries of a part are estimated as if keys were spread evenly.
//!
//! What must hold: the clips of a run's tables are not empty, disjoint and ascending. A file may be
//! in a run more than once, with disjoint clips: a plan that takes a range out of it leaves both
//! sides.
//! Callers: `Version` is made of runs; `tree::read` asks `find`, `RunCursor` walks, `compaction`
//! plans over both, `engine` and `inspect` look at `TableRef`s.

use super::run_index::{RunIndex, share};
use crate::{
    error::{Error, Result},
    ids::{FileId, RunId},
    key::{KeyEnd, KeyRange},
    table::{TableDescriptor, TableFile},
    tombstone::RangeTombstones,
};
use std::{
    fmt,
    sync::{Arc, OnceLock},
};

/// A table in a run, or the part of it that counts.
#[derive(Clone, Debug)]
pub struct TableRef {
    file: Arc<TableFile>,
    clip: KeyRange,
    bytes: u64,
}

impl TableRef {
    /// The part of `file` within `clip`; `None` if the table has no key there. The clip that is
    /// kept is cut to the table's own range.
    pub fn new(file: Arc<TableFile>, clip: &KeyRange) -> Option<TableRef> {
        let range = &file.descriptor().range;
        let clip = range.intersection(clip);
        if clip.is_empty() {
            return None;
        }
        let bytes = (file.descriptor().bytes as f64 * share(range, &clip)) as u64;
        Some(TableRef { bytes: bytes.max(1), file, clip })
    }

    /// The table.
    #[inline]
    pub fn file(&self) -> &Arc<TableFile> {
        &self.file
    }

    /// What is known of the whole table.
    #[inline]
    pub fn descriptor(&self) -> &Arc<TableDescriptor> {
        self.file.descriptor()
    }

    /// The table's file.
    pub fn id(&self) -> FileId {
        self.descriptor().file
    }

    /// The keys that count: never empty, within the table's range. For the engine, an entry of the
    /// table outside does not exist.
    #[inline]
    pub fn clip(&self) -> &KeyRange {
        &self.clip
    }

    /// Whether `other` is the same part of the same table.
    pub fn is_same_part(&self, other: &TableRef) -> bool {
        (self.id(), &self.clip) == (other.id(), &other.clip)
    }

    /// Whether all of the table counts.
    pub fn is_whole(&self) -> bool {
        self.clip == self.descriptor().range
    }

    /// Bytes of the file that belong to the clip, estimated as if keys were spread evenly; exact
    /// for a whole table, never 0.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The same for the part of the clip within `range`.
    pub fn bytes_within(&self, range: &KeyRange) -> u64 {
        if range.covers(&self.clip) {
            return self.bytes;
        }
        (self.bytes as f64 * share(&self.clip, range)) as u64
    }

    /// Entries within the clip, estimated in the same way.
    pub fn entries(&self) -> u64 {
        let table = self.descriptor();
        (table.entries as f64 * (self.bytes as f64 / table.bytes.max(1) as f64)).round() as u64
    }

    /// Keys within the clip, estimated in the same way.
    pub fn keys(&self) -> u64 {
        let table = self.descriptor();
        (table.keys() as f64 * (self.bytes as f64 / table.bytes.max(1) as f64)).round() as u64
    }

    /// Deletes within the clip, estimated in the same way.
    pub fn deletes(&self) -> u64 {
        let table = self.descriptor();
        (table.deletes as f64 * (self.bytes as f64 / table.bytes.max(1) as f64)).round() as u64
    }

    /// Whether the table holds entries or range tombstones that hide older ones.
    pub fn has_tombstones(&self) -> bool {
        self.descriptor().deletes > 0 || self.descriptor().range_tombstones > 0
    }

    /// The part within `range`.
    pub fn within(&self, range: &KeyRange) -> Option<TableRef> {
        TableRef::new(self.file.clone(), &self.clip.intersection(range))
    }

    /// The parts before and after `range`.
    pub fn without(&self, range: &KeyRange) -> [Option<TableRef>; 2] {
        let before = KeyRange { start: Box::default(), end: KeyEnd::Excluded(range.start.clone()) };
        let after = match &range.end {
            KeyEnd::Included(last) => Some([last, &[0][..]].concat().into()),
            KeyEnd::Excluded(end) => Some(end.clone()),
            KeyEnd::Unbounded => None,
        };
        let after = after.map(|start| KeyRange { start, end: KeyEnd::Unbounded });
        [self.within(&before), after.and_then(|after| self.within(&after))]
    }

    /// The table's range tombstones, cut to the clip. Opens the table if it has any.
    pub fn tombstones(&self) -> Result<RangeTombstones> {
        if self.descriptor().range_tombstones == 0 {
            return Ok(RangeTombstones::default());
        }
        Ok(self.file.table()?.tombstones().clip(&self.clip))
    }
}

/// Tables with disjoint key ranges, in key order. Immutable.
#[derive(Debug)]
pub struct Run {
    level: u32,
    id: RunId,
    tables: Arc<[TableRef]>,
    index: RunIndex,
    bytes: u64,
    tombstones: OnceLock<Arc<RangeTombstones>>,
}

impl Run {
    /// A run of `tables`, in any order. They must be disjoint, and there must be one.
    pub fn new(level: u32, id: RunId, mut tables: Vec<TableRef>) -> Result<Run> {
        tables.sort_by(|a, b| a.clip.start.cmp(&b.clip.start));
        if tables.is_empty() {
            return Err(Error::Invalid(format!("run {id} of level {level} has no table")));
        }
        if let Some((a, b)) = tables.iter().zip(tables.iter().skip(1)).find(|(a, b)| a.clip.overlaps(&b.clip))
        {
            return Err(Error::Invalid(format!(
                "tables {} {} and {} {} of run {id} of level {level} overlap",
                a.id(),
                a.clip,
                b.id(),
                b.clip
            )));
        }
        Ok(Run {
            level,
            id,
            index: RunIndex::new(tables.iter().map(|table| &table.clip)),
            bytes: tables.iter().map(TableRef::bytes).sum(),
            tables: tables.into(),
            tombstones: OnceLock::new(),
        })
    }

    /// Its level.
    pub fn level(&self) -> u32 {
        self.level
    }

    /// Its id; within a level, a larger id is a newer run.
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Its tables in key order; never empty.
    #[inline]
    pub fn tables(&self) -> &Arc<[TableRef]> {
        &self.tables
    }

    /// Bytes of its tables that count, estimated where tables are clipped.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Entries of its tables that count, estimated where tables are clipped.
    pub fn entries(&self) -> u64 {
        self.tables.iter().map(TableRef::entries).sum()
    }

    /// The hull of its tables.
    pub fn range(&self) -> KeyRange {
        self.tables[0].clip.hull(&self.tables[self.tables.len() - 1].clip)
    }

    /// The one table that may hold `key`.
    #[inline(always)]
    pub fn find(&self, key: &[u8]) -> Option<&TableRef> {
        let at = self.index.find(key, |i| &self.tables[i].clip)?;
        Some(&self.tables[at])
    }

    /// The tables that have keys in `range`, in key order.
    pub fn overlapping(&self, range: &KeyRange) -> &[TableRef] {
        if range.is_empty() {
            return &[];
        }
        let first = self.first_reaching(&range.start);
        let count = self.tables[first..].partition_point(|table| range.end.admits(&table.clip.start));
        &self.tables[first..first + count]
    }

    /// The number of the first table that reaches `key` or lies behind it.
    pub(super) fn first_reaching(&self, key: &[u8]) -> usize {
        first_reaching(&self.tables, key)
    }

    /// The range tombstones of all its tables, each cut to its table's clip. The first call opens
    /// the tables that have any; later calls are cheap.
    pub fn tombstones(&self) -> Result<&Arc<RangeTombstones>> {
        if let Some(known) = self.tombstones.get() {
            return Ok(known);
        }
        let found = collect_tombstones(&self.tables)?;
        Ok(self.tombstones.get_or_init(|| Arc::new(found)))
    }
}

/// The number of the first of `tables` that reaches `key` or lies behind it.
pub(super) fn first_reaching(tables: &[TableRef], key: &[u8]) -> usize {
    tables.partition_point(|table| !table.clip.end.admits(key))
}

/// The range tombstones of `tables`, each cut to its table's clip.
pub fn collect_tombstones(tables: &[TableRef]) -> Result<RangeTombstones> {
    let mut all = Vec::new();
    for table in tables {
        all.extend_from_slice(table.tombstones()?.shared());
    }
    Ok(RangeTombstones::from_shared(all))
}

impl fmt::Display for TableRef {
    /// The file, and the clip unless all of the table counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id())?;
        if self.is_whole() { Ok(()) } else { write!(f, "{}", self.clip) }
    }
}
