//! What a database holds and has done, as plain numbers; and `verify`.

use super::Core;
use crate::{
    error::{Error, Result},
    filter::FilterSpec,
    stats::{Counters, LEVELS_COUNTED, LevelCounters},
    tree::Tree,
    version::Level,
};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

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
    /// What lookups did in its tables since the keyspace was opened; at the last level that is counted alone
    /// ([`LEVELS_COUNTED`] - 1) also what they did in deeper ones.
    pub counters: LevelCounters,
}

/// A table that a compaction could not read. Reads of what is damaged fail, and its keys are not compacted;
/// all else goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedTable {
    /// The file.
    pub file: PathBuf,
    /// Byte offset of the damage.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
}

/// One keyspace.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceStats {
    /// Its name.
    pub name: String,
    /// Name of its index kind; of [`IndexKind::Auto`](crate::IndexKind::Auto) also what it chose, and for how many tables.
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
    /// Entries in tables and memtables, versions and tombstones included: an upper bound of the keys.
    pub entries: u64,
    /// Tables that compactions found damaged since it was opened and that are there still.
    /// [`Db::verify`](crate::Db::verify) finds all damage.
    pub damaged: Vec<DamagedTable>,
    /// What it has done since it was opened.
    pub counters: Counters,
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
    /// Bytes that the block cache may hold now.
    pub block_cache_capacity_bytes: u64,
    /// Bytes appended to logs since the database was opened.
    pub bytes_written_log: u64,
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
    match error {
        Error::Corrupt { file, offset, what } => Some(DamagedTable { file, offset, what }),
        _ => None,
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

impl Core {
    pub(super) fn report_keyspace(&self, tree: &Tree) -> KeyspaceStats {
        let view = tree.view_owned();
        let mut stats = KeyspaceStats {
            name: tree.name.clone(),
            index: view.settings.layout.index.to_string(),
            filters: view.settings.layout.filter.to_string(),
            memtable_bytes: view.memtable_bytes(),
            memtable_entries: view.memtables().map(|memtable| memtable.entries() as u64).sum(),
            sealed_memtables: view.sealed.len() as u64,
            damaged: self.work.damaged(tree).into_iter().filter_map(damaged_table).collect(),
            counters: tree.context.stats.snapshot(),
            ..KeyspaceStats::default()
        };
        stats.entries = stats.memtable_entries;
        let filters = self.level_filters(tree, &view, 0);
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
            stats.levels.push(LevelStats {
                level: number,
                runs: runs.collect(),
                capacity_bytes: view.settings.shape.capacity_bytes(number),
                run_limit: view.settings.shape.run_limit(number),
                filter_bits_per_key: filter_bits_per_key(level),
                filter_next: filters.of(number),
                counters: counters[(number as usize).min(LEVELS_COUNTED - 1)],
            });
        }
        let mut chosen = BTreeMap::<&str, u64>::new();
        for table in view.version.tables() {
            stats.blocks += u64::from(table.descriptor().blocks);
            // What an index takes in memory is known once its table is open; one that does not open takes
            // nothing.
            if let Ok(open) = table.file().table() {
                stats.index_bytes += open.index_bytes();
                stats.filter_bytes += open.filter_bytes();
                if let Some(index) = open.index().filter(|index| index.reason().is_some()) {
                    *chosen.entry(index.kind().name()).or_default() += 1;
                }
            }
            stats.table_bytes += table.descriptor().bytes;
            stats.entries += table.descriptor().entries;
        }
        if !chosen.is_empty() {
            let chosen: Vec<String> =
                chosen.iter().map(|(kind, tables)| format!("{tables} {kind}")).collect();
            stats.index = format!("{} ({})", stats.index, chosen.join(", "));
        }
        stats
    }

    pub(super) fn report(&self) -> Stats {
        Stats {
            keyspaces: self.trees().iter().map(|tree| self.report_keyspace(tree)).collect(),
            last_seqno: self.visible(),
            snapshots: self.snapshots.count(),
            memory_bytes: self.options.memory_bytes,
            block_cache_bytes: self.cache.used() as u64,
            block_cache_capacity_bytes: self.cache.capacity() as u64,
            bytes_written_log: self.stats.snapshot().bytes_written_log,
            background_failure: self.work.failure().err().map(|error| error.to_string()),
        }
    }

    pub(super) fn verify(&self) -> Result<VerifyReport> {
        let mut report = VerifyReport::default();
        for tree in self.trees() {
            let view: Arc<_> = tree.view_owned();
            for table_ref in view.version.tables() {
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
        }
        Ok(report)
    }
}
