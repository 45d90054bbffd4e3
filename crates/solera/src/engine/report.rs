//! What a database holds and has done, as plain numbers: `Stats` and `KeyspaceStats`, made by
//! `database` and `keyspace`.
//!
//! `verify` reads every table and every value that a readable table points to, and makes a
//! `VerifyReport`. It compares how many pointers there are with what the manifest counts, but not
//! of a keyspace with a damaged table.
//! What must hold: a report changes nothing on disk. Each opens every table, since what an index
//! takes in memory is known only then, and every value file. Damage does not end it: it is listed.
//! An I/O error ends `verify`; `keyspace` lists the file, and leaves its memory out.
//!
//! Callers: `db` (stats, verify), and `control::observe`, for `filter_bits_per_key`. `solera-cli`,
//! `solera-sim`, `solera-bench` and `solera-bench-peers` read the numbers.

use super::{catalog::Catalog, garbage::Garbage, memory::Memory, store::Store, work::Work};
use crate::{
    compaction::{self, SpaceUse},
    error::{Error, Result},
    filter::FilterSpec,
    stats::{self, Counters, LEVELS_COUNTED, LevelCounters},
    tree::{Tree, View},
    values::{Live, Tally, ValueFile},
    version::{Level, each_pointer},
};
use std::{collections::BTreeMap, io::ErrorKind, path::PathBuf, sync::Arc};

/// One run of a level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunStats {
    /// Its number; within a level, larger is newer.
    pub id: u64,
    /// Tables in it.
    pub tables: u64,
    /// Bytes of its tables' live parts.
    pub bytes: u64,
    /// Entries of its tables, versions and tombstones included.
    pub entries: u64,
    /// First key that it may hold.
    pub first_key: Vec<u8>,
    /// Last key that it may hold.
    pub last_key: Vec<u8>,
}

/// One level of a tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelStats {
    /// Its number; 0 is the newest.
    pub level: u32,
    /// Its runs, newest first.
    pub runs: Vec<RunStats>,
    /// Bytes that it may hold before it is merged down.
    pub capacity_bytes: u64,
    /// Runs that it may hold before they are merged down.
    pub run_limit: u32,
    /// Bits of filter that its tables have for every entry, in the mean.
    pub filter_bits_per_key: f64,
    /// The filter that a table gets that is written for it now.
    pub filter_next: FilterSpec,
    /// What lookups did in its tables since the keyspace was opened; at the last level that is
    /// counted alone ([`LEVELS_COUNTED`] - 1) also what they did in deeper ones.
    pub counters: LevelCounters,
}

/// A table or value file that cannot be read, whole or in part. Reads of what is damaged fail, and
/// a table's keys are not compacted; all else goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedTable {
    /// The file.
    pub file: PathBuf,
    /// Byte offset of the damage.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// The kind of the I/O error, if one kept it from being read: it may be whole.
    pub io: Option<ErrorKind>,
}

/// One keyspace.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// Name of its index kind; of [`IndexKind::Auto`](crate::IndexKind::Auto) also what it chose,
    /// and for how many tables.
    pub index: String,
    /// Which filters its tables get.
    pub filters: String,
    /// Its levels, newest first.
    pub levels: Vec<LevelStats>,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Memtables that wait to be flushed.
    pub sealed_memtables: u64,
    /// Data blocks in its tables.
    pub blocks: u64,
    /// Bytes that indexes take in memory; asking opens every table.
    pub index_bytes: u64,
    /// Bytes that filters take in memory.
    pub filter_bytes: u64,
    /// Bytes of its table files.
    pub table_bytes: u64,
    /// Values to which its tables point, and the bytes of these values.
    pub separated_values: u64,
    /// See [`KeyspaceStats::separated_values`].
    pub separated_bytes: u64,
    /// Entries in tables and memtables, versions and tombstones included: an upper bound of the
    /// keys.
    pub entries: u64,
    /// Tables and value files that do not open or lack their end, and tables that compactions found
    /// damaged since it was opened. [`Db::verify`](crate::Db::verify) finds all damage.
    pub damaged: Vec<DamagedTable>,
    /// What the bytes of its tables are, by cause, what compaction owes and how fast it goes; and
    /// what is dead of values kept apart.
    pub space: SpaceUse,
    /// What it has done since it was opened.
    pub counters: Counters,
}

impl KeyspaceStats {
    /// A file that does not open, unless it is known already. One file may count in several parts.
    fn add_damage(&mut self, error: Error) {
        let found = damaged_table(error);
        self.damaged.extend(found.filter(|found| !self.damaged.iter().any(|known| known.file == found.file)));
    }
}

/// A database.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Its keyspaces, by name.
    pub keyspaces: Vec<KeyspaceStats>,
    /// Newest committed operation.
    pub last_seqno: u64,
    /// Snapshots, iterators and transactions that hold back the removal of old versions.
    pub snapshots: u64,
    /// The memory budget.
    pub memory_bytes: u64,
    /// Bytes in the block cache.
    pub block_cache_bytes: u64,
    /// Bytes that the block cache may hold now, with what is lent to it.
    pub block_cache_capacity_bytes: u64,
    /// Bytes of idle write buffers that are lent to the block cache, or that readers of it have not
    /// given back.
    pub block_cache_lent_bytes: u64,
    /// Bytes appended to logs since the database was opened.
    pub bytes_written_log: u64,
    /// Value files that live values are being moved out of.
    pub value_files_leaving: u64,
    /// Why background work is stuck, if it is.
    pub background_failure: Option<String>,
}

/// What [`Db::verify`](crate::Db::verify) read and found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Tables read.
    pub tables: u64,
    /// Data blocks read.
    pub blocks: u64,
    /// Entries read.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Everything that is not as it should be; empty is good.
    pub problems: Vec<Error>,
}

fn damaged_table(error: Error) -> Option<DamagedTable> {
    let (file, offset, what, io) = match error {
        Error::Corrupt { file, offset, what } => (file, offset, what, None),
        Error::Io { path, source, .. } if source.kind() == ErrorKind::NotFound => {
            (path, 0, "the file is missing; the manifest names it".to_owned(), None)
        }
        Error::Io { op, path, source } => (path, 0, format!("cannot {op} it: {source}"), Some(source.kind())),
        _ => return None,
    };
    Some(DamagedTable { file, offset, what, io })
}

/// Fails unless `file` has the beginning and the end of a value file, and room for `live`.
fn value_file(file: &ValueFile, live: &Live) -> Result<()> {
    file.space()?;
    let len = file.file_bytes()?;
    match len < live.bytes {
        true => Err(Error::corrupt(file.path(), len, "the file ends before the values that tables point to")),
        false => Ok(()),
    }
}

/// Bits of filter for every entry of a level, in the mean of its tables.
pub(crate) fn filter_bits_per_key(level: &Level) -> f64 {
    let tables = level.runs().iter().flat_map(|run| run.tables().iter()).filter(|table| table.entries() > 0);
    let [bits, entries] = tables.fold([0.0, 0.0], |[bits, entries], table| {
        let whole = table.descriptor();
        let per_entry = whole.filter_bytes as f64 * 8.0 / whole.entries as f64;
        [bits + table.entries() as f64 * per_entry, entries + table.entries() as f64]
    });
    if entries == 0.0 { 0.0 } else { bits / entries }
}

/// What of the value files that `trees` point to is dead.
fn garbage(store: &Store, trees: &[Arc<Tree>]) -> Garbage {
    Garbage::new(store, trees, |file| file.space().ok())
}

/// What `tree` holds and has done.
pub(crate) fn keyspace(tree: &Tree, store: &Store, memory: &Memory, work: &Work) -> KeyspaceStats {
    let garbage = match tree.view().version.values().is_empty() {
        true => Garbage::default(),
        false => garbage(store, &store.catalog.trees()),
    };
    keyspace_with(tree, store, memory, work, &garbage)
}

fn keyspace_with(
    tree: &Tree,
    store: &Store,
    memory: &Memory,
    work: &Work,
    garbage: &Garbage,
) -> KeyspaceStats {
    let view = tree.view_owned();
    let of_tables = work.show(tree, &view, &store.horizon(), compaction::space_use);
    let mut report = KeyspaceStats {
        name: tree.name.clone(),
        index: view.settings.layout.index.to_string(),
        filters: view.settings.layout.filter.to_string(),
        memtable_bytes: view.memtable_bytes(),
        memtable_entries: view.memtables().map(|memtable| memtable.entries() as u64).sum(),
        sealed_memtables: view.sealed.len() as u64,
        damaged: work.damaged(tree).into_iter().filter_map(damaged_table).collect(),
        space: garbage.space(tree, &view.version, of_tables),
        counters: tree.context.stats.snapshot(),
        ..KeyspaceStats::default()
    };
    report.entries = report.memtable_entries;
    let filters = memory.level_filters(tree, &view, 0, &store.catalog);
    let counters = tree.context.stats.levels();
    for (number, level) in view.version.levels().iter().enumerate() {
        let number = number as u32;
        let runs = level.runs().iter().map(|run| RunStats {
            id: run.id().0,
            tables: run.tables().len() as u64,
            bytes: run.bytes(),
            entries: run.entries(),
            first_key: run.range().start.to_vec(),
            last_key: run.range().end.key().map(<[u8]>::to_vec).unwrap_or_default(),
        });
        report.levels.push(LevelStats {
            level: number,
            runs: runs.collect(),
            capacity_bytes: view.settings.shape.capacity_bytes(number),
            run_limit: view.settings.shape.run_limit(number),
            filter_bits_per_key: filter_bits_per_key(level),
            filter_next: filters.of(number),
            counters: counters[(number as usize).min(LEVELS_COUNTED - 1)],
        });
    }
    for (id, live) in view.version.values().iter() {
        report.separated_values += live.values;
        report.separated_bytes += live.bytes;
        let file = view.version.value_files().iter().find(|file| file.id() == id);
        let found = file.map_or(Ok(()), |file| value_file(file, live));
        found.unwrap_or_else(|error| report.add_damage(error));
    }
    let mut chosen = BTreeMap::<&str, u64>::new();
    for table in view.version.files() {
        report.blocks += u64::from(table.descriptor().blocks);
        // What an index takes in memory is known once its table is open.
        match table.file().table() {
            Ok(open) => {
                report.index_bytes += open.index_bytes();
                report.filter_bytes += open.filter_bytes();
                if let Some(index) = open.index().filter(|index| index.reason().is_some()) {
                    *chosen.entry(index.kind().name()).or_default() += 1;
                }
            }
            Err(error) => report.add_damage(error),
        }
        report.table_bytes += table.descriptor().bytes;
        report.entries += table.descriptor().entries;
    }
    if !chosen.is_empty() {
        let chosen: Vec<String> = chosen.iter().map(|(kind, tables)| format!("{tables} {kind}")).collect();
        report.index = format!("{} ({})", report.index, chosen.join(", "));
    }
    report
}

/// What the database holds and has done; `counted` for it as a whole. Values leave so many files,
/// `leaving`.
pub(crate) fn database(
    store: &Store,
    memory: &Memory,
    work: &Work,
    counted: &stats::Stats,
    leaving: u64,
) -> Stats {
    let trees = store.catalog.trees();
    let garbage = garbage(store, &trees);
    let of = |tree: &Arc<Tree>| keyspace_with(tree, store, memory, work, &garbage);
    Stats {
        keyspaces: trees.iter().map(of).collect(),
        last_seqno: store.snapshots.visible(),
        snapshots: store.snapshots.count(),
        memory_bytes: memory.budget.bytes,
        block_cache_bytes: memory.cache.used() as u64,
        block_cache_capacity_bytes: memory.cache.capacity() as u64,
        block_cache_lent_bytes: memory.lent_bytes(),
        bytes_written_log: counted.snapshot().bytes_written_log,
        value_files_leaving: leaving,
        background_failure: work.failure().err().map(|error| error.to_string()),
    }
}

/// Reads every table that `catalog` leads to.
pub(crate) fn verify(catalog: &Catalog) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    for tree in catalog.trees() {
        let view: Arc<_> = tree.view_owned();
        for table_ref in view.version.files() {
            report.tables += 1;
            match table_ref.file().table().and_then(|table| table.check()) {
                Ok(check) => {
                    report.blocks += check.blocks;
                    report.entries += check.entries;
                    report.bytes += check.bytes;
                    report.problems.extend(check.problems);
                }
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) => report.problems.push(error),
            }
        }
        verify_values(&tree, &view, &mut report)?;
    }
    Ok(report)
}

/// Reads every value to which a table of `tree` points, and counts the pointers anew.
fn verify_values(tree: &Tree, view: &View, report: &mut VerifyReport) -> Result<()> {
    if view.version.values().is_empty() && view.settings.separate_from.is_none() {
        return Ok(());
    }
    let mut counted = Tally::default();
    let mut is_whole = true;
    for table in view.version.tables() {
        let walked = each_pointer(table, |key, pointer| {
            counted.add(&pointer);
            match tree.values.read_file(&pointer, key) {
                Ok(value) => report.bytes += value.len() as u64,
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) => report.problems.push(error),
            }
            Ok(())
        });
        match walked {
            Err(error @ Error::Io { .. }) => return Err(error),
            // The table's own check has told of it, and what it holds cannot be counted.
            Err(_) => is_whole = false,
            Ok(()) => {}
        }
    }
    if is_whole && counted != view.version.values().to_tally() {
        report.problems.push(Error::Invalid(format!(
            "keyspace {:?}: the manifest counts other pointers to value files than its tables hold",
            tree.name
        )));
    }
    Ok(())
}
