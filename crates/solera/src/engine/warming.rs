//! What was just written comes into the cache: what was in memory before stays there
//! (docs/decisions/0033).
//!
//! Blocks of flushes, and of merges whose inputs were in the cache (`are_cached`), stay in memory
//! as they are written, while there is room. `take_in` gives them their places. Tables of pointers
//! come in whole: `flushed` and `merged` read what is missing, and others give way.
//!
//! A block of pointers leads to hundreds of values, so nearly each lookup needs one that is in
//! memory. A conversion writes all tables of its range anew, again and again. Left to lookups, the
//! first that needs a new block would wait for the device. That one does keep it in the cache at
//! once (`Table::load`).
//!
//! What must hold: only tables come in whose keyspace has more bytes in value files than in tables.
//! They take a part of the cache. What is merged comes in only if half of what it was made of was
//! there.
//!
//! Callers: `job_parts` (`take_in`, flushes), `jobs` (merges).

use crate::{
    cache::Cache,
    compaction::{Plan, Written},
    ids::FileId,
    table::{FreshBlocks, Table},
    tree::Tree,
    version::TableRef,
};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks of new tables that stayed in memory.
pub(super) type Fresh = Vec<(FileId, FreshBlocks)>;

/// Flushed tables take at most one part in so many of the cache,
const FLUSHED_PARTS: u64 = 8;
/// and merged ones leave one part in so many to values.
const LEFT_PARTS: u64 = 4;

/// Memtables became `files` of `tree`: what was in memory stays there.
pub(super) fn flushed(tree: &Tree, files: &BTreeSet<FileId>, cache: &Cache) {
    warm(tree, files, cache.capacity() as u64 / FLUSHED_PARTS);
}

/// Tables that were half in the cache became what is `written`.
pub(super) fn merged(tree: &Tree, written: &Written, cache: &Cache) {
    let capacity = cache.capacity() as u64;
    warm(tree, &files(written), capacity - capacity / LEFT_PARTS);
}

/// Whether half of what `plan` merges is in the cache.
pub(super) fn are_cached(plan: &Plan) -> bool {
    let cached = |table: &TableRef| table.file().opened().map_or(0, Table::cached_bytes);
    let inputs = || plan.sources.iter().flat_map(|source| &source.tables).chain(&plan.target.tables);
    let all: u64 = inputs().map(|table| table.descriptor().bytes).sum();
    2 * inputs().map(cached).sum::<u64>() >= all
}

/// Blocks of new tables of `tree`, which stayed in memory, come into the cache.
pub(super) fn take_in(tree: &Tree, mut fresh: Fresh) {
    fresh.retain(|(_, blocks)| !blocks.is_empty());
    if fresh.is_empty() {
        return;
    }
    let mut fresh: BTreeMap<FileId, FreshBlocks> = fresh.into_iter().collect();
    let version = tree.view().version.clone();
    for table in version.tables() {
        // A reader that comes to what cannot be opened is told.
        if let Some(blocks) = fresh.remove(&table.id())
            && let Ok(table) = table.file().table()
        {
            table.take_in_fresh(blocks);
        }
    }
}

/// The tables that a job wrote.
pub(super) fn files(written: &Written) -> BTreeSet<FileId> {
    written.tables.iter().map(|table| table.file).collect()
}

/// Brings `files` into the cache if they have no more than `bytes_max`.
fn warm(tree: &Tree, files: &BTreeSet<FileId>, bytes_max: u64) {
    let version = tree.view().version.clone();
    if version.values().bytes() <= version.bytes() {
        return;
    }
    let new = || version.tables().filter(|table| files.contains(&table.id()));
    if new().map(|table| table.descriptor().bytes).sum::<u64>() > bytes_max {
        return;
    }
    for table in new() {
        // A reader that comes to what cannot be read is told.
        let _ = table.file().table().and_then(|table| table.warm());
    }
}
