//! One memory budget: what write buffers, indexes and filters do not take is the block cache's.

use super::{Core, Options};
use crate::version::TableRef;

/// Smallest share of the budget that the block cache keeps, whatever the rest takes: 1/8. Without it a
/// scan would read each block once per entry.
const CACHE_SHARE_MIN: u64 = 8;
/// Memtables that writers are granted before their data is counted: the active one, one being flushed, and
/// two that wait. What the cache gives up when more wait, it could hardly give back to the system, so it is
/// not given out in the first place.
const BUFFERS_GRANTED: u64 = 4;
/// For what is not counted: buffers of flushes and compactions, blocks on their way in and out, the views of
/// iterators, what an allocator adds to each piece and keeps for each thread. Measured (`solera-sim limits`):
/// this, and 1/16 of the budget; but no more than [`UNCOUNTED_PARTS_MAX`].
///
/// What an allocator keeps grows for a while: tables that threads open for their reads leave holes in those
/// threads' heaps, between blocks, that nothing fits any more. After 64,000 operations under 64 MiB it was
/// 10 MiB less than after 320,000.
const UNCOUNTED_BYTES: u64 = 16 << 20;
/// Most of a budget that is left to what is not counted: 3/8.
const UNCOUNTED_PARTS_MAX: (u64, u64) = (3, 8);

impl Options {
    /// Bytes of memtables that are never the cache's.
    pub(super) fn memtables_granted(&self) -> u64 {
        self.effective_write_buffer() * BUFFERS_GRANTED
    }
}

impl Core {
    /// Bytes of memory that tables hold for as long as they are open: indexes, filters, cache slots.
    pub(super) fn table_memory_bytes(&self) -> u64 {
        let of_table = |table: &TableRef| {
            if let Some(open) = table.file().opened() {
                return open.memory_bytes();
            }
            let slots = u64::from(table.descriptor().blocks) * size_of::<usize>() as u64;
            table.descriptor().index_bytes + table.descriptor().filter_bytes + slots
        };
        self.trees().iter().map(|tree| tree.view().version.tables().map(of_table).sum::<u64>()).sum()
    }

    /// Fits the block cache into what the budget leaves. Called whenever a memtable is sealed or a
    /// version installed.
    pub(super) fn fit_cache(&self) {
        let budget = self.options.memory_bytes;
        let memtables: u64 = self.trees().iter().map(|tree| tree.view().memtable_bytes()).sum();
        let reserved = memtables.max(self.options.memtables_granted())
            + self.table_memory_bytes()
            + (UNCOUNTED_BYTES + budget / 16).min(budget / UNCOUNTED_PARTS_MAX.1 * UNCOUNTED_PARTS_MAX.0);
        let cache = budget.saturating_sub(reserved).max(budget / CACHE_SHARE_MIN);
        self.cache.set_capacity(usize::try_from(cache).unwrap_or(usize::MAX));
    }
}
