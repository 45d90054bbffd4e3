//! The whole tree at one moment: `Version`, and `apply`, how a `TreeEdit` leads to the next one
//! (`Applied`).
//!
//! It holds the levels, all runs by age, and the live values. Handles of the value files come only
//! by `keep_value_files`: after `apply` there are none. A version never changes: readers hold one
//! and see the same tables as long as they like. `to_edit` makes the edit that builds it from
//! nothing.
//! What must hold: runs are ranked by age, those of level 0 first, newest first. For any key, every
//! version in a newer run is newer (invariant R). Plans keep it; `apply` refuses what does not fit
//! and asserts the order of runs and levels.
//! Callers: `engine::store` and `engine::open` apply edits, `engine::files` keeps value files,
//! `View` holds the present version; `compaction`, `engine`, `tree` and `control` read it.

use super::{
    edit::{Added, Removed, TreeEdit},
    level::{LEVELS_MAX, Level},
    run::{Run, TableRef},
};
use crate::{
    error::{Error, Result},
    ids::{FileId, RunId, Seqno},
    key::KeyRange,
    table::{TableDescriptor, TableFile},
    values::{Live, LiveValues, ValueFile},
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    sync::Arc,
};

/// One tree at one moment: levels of runs of tables. Immutable.
#[derive(Clone, Debug, Default)]
pub struct Version {
    levels: Vec<Level>,
    /// The runs of all levels, newest source first.
    runs: Vec<Arc<Run>>,
    /// What its runs say of themselves, summed up.
    bytes: u64,
    entries: u64,
    keys: u64,
    flushed_seqno: Seqno,
    /// How many pointers of the tables lead to which value file.
    values: Arc<LiveValues>,
    /// The files that they lead to, kept for the readers of this version.
    value_files: Arc<[Arc<ValueFile>]>,
}

/// What an edit led to.
#[derive(Debug)]
pub struct Applied {
    /// The new version.
    pub version: Version,
    /// Files that the old version names and the new one does not. Mark them obsolete once the edit
    /// is durable, not before.
    pub unreferenced: Vec<Arc<TableFile>>,
}

impl Version {
    /// An empty tree.
    pub fn new() -> Version {
        Version::default()
    }

    /// The levels, from 0 to the deepest that was ever used.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// A level; an empty one if the tree is not that deep.
    pub fn level(&self, level: u32) -> &Level {
        const NONE: &Level = &Level { runs: Vec::new(), newest_ever: RunId(0) };
        self.levels.get(level as usize).unwrap_or(NONE)
    }

    /// The runs of all levels in the order of age, newest first: the order in which lookups ask
    /// them.
    #[inline]
    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Every write up to this sequence number is in these tables.
    pub fn flushed_seqno(&self) -> Seqno {
        self.flushed_seqno
    }

    /// How much of which value file the tables point to.
    pub fn values(&self) -> &LiveValues {
        &self.values
    }

    /// Whether the tables point to any.
    #[inline]
    pub fn has_values_apart(&self) -> bool {
        !self.value_files.is_empty()
    }

    /// Keeps the value files that the tables point to, for as long as this version is held. `find`
    /// gives the one handle of a file.
    pub fn keep_value_files(&mut self, find: impl Fn(FileId, &Live) -> Arc<ValueFile>) {
        self.value_files = self.values.iter().map(|(file, live)| find(file, live)).collect();
    }

    /// The value files that the tables point to.
    pub fn value_files(&self) -> &[Arc<ValueFile>] {
        &self.value_files
    }

    /// The deepest level that holds keys of `range`.
    pub fn deepest_level(&self, range: &KeyRange) -> Option<u32> {
        self.runs.iter().rev().find(|run| !run.overlapping(range).is_empty()).map(|run| run.level())
    }

    /// Bytes of all tables that count, estimated where tables are clipped.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Entries of all tables that count, estimated where tables are clipped.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Keys of all tables that count, each as often as tables hold it, estimated in the same way.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// All tables, newest source first, by key within a run. A file occurs once for every part of
    /// it.
    pub fn tables(&self) -> impl Iterator<Item = &TableRef> {
        self.runs.iter().flat_map(|run| run.tables().iter())
    }

    /// As [`Version::tables`], but each file once, by one of its parts.
    pub fn files(&self) -> impl Iterator<Item = &TableRef> {
        let mut seen = HashSet::new();
        self.tables().filter(move |table| table.is_whole() || seen.insert(table.id()))
    }

    /// The edit that makes this version out of an empty one.
    pub fn to_edit(&self) -> TreeEdit {
        let mut added = Vec::with_capacity(self.tables().count());
        added.extend(self.runs.iter().flat_map(|run| {
            run.tables().iter().map(|table| Added {
                level: run.level(),
                run: run.id(),
                descriptor: TableDescriptor::clone(table.descriptor()),
                clip: table.clip().clone(),
            })
        }));
        TreeEdit {
            removed: Vec::new(),
            added,
            flushed_seqno: Some(self.flushed_seqno),
            values: self.values.to_tally(),
        }
    }

    /// The version after `edit`. `make_file` makes the handle of a file that this version does not
    /// name; a file that it does name keeps its handle.
    ///
    /// An edit that does not fit (it removes what is not there, or makes tables of a run overlap)
    /// is [`Error::Invalid`]; if it was read from a manifest, the manifest is damaged.
    pub fn apply(
        &self,
        edit: &TreeEdit,
        mut make_file: impl FnMut(&Arc<TableDescriptor>) -> Arc<TableFile>,
    ) -> Result<Applied> {
        let mut changed: BTreeMap<(u32, RunId), Vec<TableRef>> = BTreeMap::new();
        for key in edit.removed.iter().map(Removed::place).chain(edit.added.iter().map(Added::place)) {
            if key.0 >= LEVELS_MAX {
                return Err(Error::Invalid(format!("an edit names level {}, the deepest is 63", key.0)));
            }
            let old = |run: &Arc<Run>| run.tables().to_vec();
            changed.entry(key).or_insert_with(|| self.level(key.0).run(key.1).map(old).unwrap_or_default());
        }

        let mut leaving: HashMap<FileId, Arc<TableFile>> = HashMap::new();
        for removed in &edit.removed {
            let tables = changed.get_mut(&removed.place()).expect("entered above");
            let is_removed =
                |table: &TableRef| table.id() == removed.file && table.clip().start == removed.clip_start;
            let Some(at) = tables.iter().position(is_removed) else {
                return Err(Error::Invalid(format!(
                    "an edit removes table {} from run {} of level {}, which does not hold it",
                    removed.file, removed.run, removed.level
                )));
            };
            let table = tables.swap_remove(at);
            leaving.insert(table.id(), table.file().clone());
        }

        let mut files = self.files_named_by(edit);
        for added in &edit.added {
            let file = files.entry(added.descriptor.file).or_insert_with(|| {
                let descriptor = Arc::new(added.descriptor.clone());
                make_file(&descriptor)
            });
            if **file.descriptor() != added.descriptor {
                return Err(Error::Invalid(format!(
                    "an edit describes table {} otherwise than before",
                    added.descriptor.file
                )));
            }
            let Some(table) = TableRef::new(file.clone(), &added.clip) else {
                return Err(Error::Invalid(format!(
                    "an edit adds table {} clipped to {}, where it has no key",
                    added.descriptor.file, added.clip
                )));
            };
            changed.get_mut(&added.place()).expect("entered above").push(table);
        }

        let mut version = self.with_runs(changed)?;
        version.flushed_seqno = self.flushed_seqno.max(edit.flushed_seqno.unwrap_or(0));
        if !edit.values.is_empty() {
            version.values = Arc::new(self.values.after(&edit.values).map_err(Error::Invalid)?);
        }
        if !leaving.is_empty() {
            version.tables().for_each(|table| drop(leaving.remove(&table.id())));
        }
        let mut unreferenced: Vec<_> = leaving.into_values().collect();
        unreferenced.sort_by_key(|file| file.descriptor().file);
        Ok(Applied { version, unreferenced })
    }

    /// The files of this version that `edit` adds again: clipped, or moved.
    fn files_named_by(&self, edit: &TreeEdit) -> HashMap<FileId, Arc<TableFile>> {
        let added: HashSet<FileId> = edit.added.iter().map(|added| added.descriptor.file).collect();
        if added.is_empty() {
            return HashMap::new();
        }
        let again = self.tables().filter(|table| added.contains(&table.id()));
        again.map(|table| (table.id(), table.file().clone())).collect()
    }

    /// This version with the named runs replaced; a run without tables is gone.
    fn with_runs(&self, changed: BTreeMap<(u32, RunId), Vec<TableRef>>) -> Result<Version> {
        let mut levels = self.levels.clone();
        for ((level, id), tables) in changed {
            if levels.len() <= level as usize {
                // No room for more: of ten thousand keyspaces most have one level.
                levels.reserve_exact(level as usize + 1 - levels.len());
                levels.resize_with(level as usize + 1, Level::default);
            }
            let level_now = &mut levels[level as usize];
            level_now.newest_ever = level_now.newest_ever.max(id);
            let place = level_now.runs.binary_search_by(|run| id.cmp(&run.id()));
            let run = if tables.is_empty() { None } else { Some(Arc::new(Run::new(level, id, tables)?)) };
            match (place, run) {
                (Ok(at), Some(run)) => level_now.runs[at] = run,
                (Ok(at), None) => drop(level_now.runs.remove(at)),
                (Err(at), Some(run)) => level_now.runs.insert(at, run),
                (Err(_), None) => {}
            }
        }
        let runs: Vec<Arc<Run>> = levels.iter().flat_map(|level| level.runs.iter().cloned()).collect();
        let version = Version {
            bytes: runs.iter().map(|run| run.bytes()).sum(),
            entries: runs.iter().map(|run| run.entries()).sum(),
            keys: runs.iter().flat_map(|run| run.tables().iter()).map(TableRef::keys).sum(),
            levels,
            runs,
            flushed_seqno: self.flushed_seqno,
            values: self.values.clone(),
            value_files: Arc::default(),
        };
        version.assert_in_order();
        Ok(version)
    }

    /// Stops unless every run stands in its level, newer ones first, and no run is newer than the
    /// newest that its level ever had. Readers stop at the first version that they find, so the
    /// order decides what they see.
    fn assert_in_order(&self) {
        for (number, level) in self.levels.iter().enumerate() {
            let newest = level.runs.first().map_or(RunId(0), |run| run.id());
            let is_in_order = newest <= level.newest_ever
                && level.runs.iter().all(|run| run.level() as usize == number && !run.tables().is_empty())
                && level.runs.is_sorted_by(|newer, older| newer.id() > older.id());
            assert!(is_in_order, "the runs of level {number} are not in order:\n{self}");
        }
        assert!(self.runs.is_sorted_by_key(|run| run.level()), "levels are not in order:\n{self}");
    }
}

impl Removed {
    fn place(&self) -> (u32, RunId) {
        (self.level, self.run)
    }
}

impl Added {
    fn place(&self) -> (u32, RunId) {
        (self.level, self.run)
    }

    /// All of a table, entering a run.
    pub fn whole(level: u32, run: RunId, descriptor: TableDescriptor) -> Added {
        Added { level, run, clip: descriptor.range.clone(), descriptor }
    }
}

impl fmt::Display for Version {
    /// One line for each run: level, run, bytes, tables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for run in &self.runs {
            write!(f, "level {} run {}: {} bytes in", run.level(), run.id(), run.bytes())?;
            run.tables().iter().try_for_each(|table| write!(f, " {table}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}
