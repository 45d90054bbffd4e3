//! One memory budget: what write buffers, indexes and filters do not take is the block cache's.

use super::Core;
use crate::version::TableRef;

/// Smallest share of the budget that the block cache keeps, whatever the rest takes: 1/8. Without it a
/// scan would read each block once per entry.
const CACHE_SHARE_MIN: u64 = 8;
/// Memtables that a keyspace is granted before its data is counted: the active one and the one being
/// flushed.
const BUFFERS_GRANTED: u64 = 2;

impl Core {
    /// Bytes of memory that tables hold for as long as they are open: indexes, filters, cache slots.
    pub(super) fn table_memory_bytes(&self) -> u64 {
        let of_table = |table: &TableRef| {
            let slots = u64::from(table.descriptor().blocks) * size_of::<usize>() as u64;
            table.descriptor().index_bytes + table.descriptor().filter_bytes + slots
        };
        self.trees().iter().map(|tree| tree.view().version.tables().map(of_table).sum::<u64>()).sum()
    }

    /// Fits the block cache into what the budget leaves. Called whenever a memtable is sealed or a
    /// version installed.
    pub(super) fn fit_cache(&self) {
        let budget = self.options.memory_bytes;
        let buffer = self.options.effective_write_buffer();
        let memtables: u64 = self.trees().iter().map(|tree| tree.view().memtable_bytes()).sum();
        let reserved = memtables.max(buffer * BUFFERS_GRANTED) + self.table_memory_bytes();
        let cache = budget.saturating_sub(reserved).max(budget / CACHE_SHARE_MIN);
        self.cache.set_capacity(usize::try_from(cache).unwrap_or(usize::MAX));
    }
}
