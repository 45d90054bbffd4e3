//! One memory budget: what write buffers, indexes and filters do not take is the block cache's.
//!
//! `Split` says how much each may take, in percent of the divided memory: the budget without what
//! is not counted. `Memory` puts one in force: `write_buffer_bytes`, `level_filters` (for tables to
//! come), and `fit_cache`. `lend` gives the cache idle write buffers. `delay` holds writers while
//! memtables take too much. `after_job` has the allocator give back what it keeps.
//!
//! What must hold: a cache that was fitted, what is lent to it and all that is counted are at most
//! the budget. But it keeps an eighth (a 16th of a scarce one), unless less was set. A loan is
//! called in before memtables need it. `validate` allows what was set under a larger budget.
//! Callers: `open`, `job_parts`, `change`, `large`, `ingest` and `jobs` fit the cache;
//! `lending` lends. `core` tells of writes. `job_parts`, `ingest` and `report` ask for filters;
//! `assignments` and `control` use a `Split`.

use super::{
    catalog::Catalog,
    options::{self, Options, WRITE_BUFFER_BYTES_MIN},
};
use crate::{
    cache::Cache,
    compaction::LevelFilters,
    error::{Error, Result},
    filter::BITS_PER_KEY_MAX,
    knob::{Legal, MemoryKnob, Value},
    memtable::Holdings,
    pool::{self, BLOCKS, CHUNK_BYTES, CHUNKS, Share},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    tree::{Tree, View, stall::longest},
    version::{TableRef, Version},
};
use std::{ops::Range, sync::Arc, time::Duration};

/// Smallest share of the budget that the block cache keeps, whatever the rest takes: 1/8, and 1/16
/// of a scarce one. Without it a scan would read each block once per entry.
const CACHE_SHARE_MIN: u64 = 8;
const CACHE_SHARE_MIN_SCARCE: u64 = 16;
/// Memtables that writers are granted before their data is counted: the active one, one being
/// flushed, and two that wait. What the cache gives up when more wait, it could hardly give back to
/// the system, so it is not given out in the first place.
const BUFFERS_GRANTED: u64 = 4;
/// What is not lent of them: what is in memtables, one buffer at least, and as much more: a quarter
/// of one, or so many bytes. When half of that is filled the loan is called in. The other half is
/// for the time in which readers let go of it.
const KEPT_BACK: (u64, u64) = (4, 4 << 20);
/// A writer is held once memtables take more than was granted, one part in so many of that, and the
/// last chunk of each. That counts those that were flushed and that readers hold.
const CROWDED_PARTS: u64 = 16;
/// What holds a writer for each KiB where they take half a buffer more: as long as the hardest
/// backlog does (`tree::stall`). It grows with the square of what they take.
const CROWDED_DELAY_PER_KIB: Duration = Duration::from_micros(400);
/// Under a scarce budget a memtable's chunks are at most one part in so many of a write buffer.
const CHUNK_PARTS_SCARCE: u64 = 8;
/// And at least so many bytes.
const CHUNK_BYTES_LEAST: usize = 16 << 10;
/// A table that is written has at most one part in so many of a scarce budget.
const TABLE_PARTS_SCARCE: u64 = 4;
/// While something is lent, or held, the memtables are summed up each time that one part in so many
/// of a buffer was written.
const LOOKS: u64 = 16;
/// What a keyspace takes, whether it has anything in memory or not: measured of ten thousand.
const KEYSPACE_BYTES: u64 = 3 << 10;
/// What walks have learned of gaps takes at most one part in so many of the budget, or so many
/// bytes.
const GAPS_SHARE: (u64, u64) = (64, 256 << 10);
/// Under smaller budgets, from the smallest that is promised, what the allocator keeps is given
/// back to the system after jobs: the rest of the budget is not enough for it.
const SMALL: Range<u64> = 16 << 20..128 << 20;
/// That is after jobs have written one part in so many of the budget: of one below 64 MiB, and of a
/// larger one. There a load would lose 8 % by going back as often.
const TRIM_SHARES: (u64, u64) = (64, 8);
/// Under any budget, after large pieces of so many parts of it were freed.
const LARGE_SHARE: u64 = 8;

/// Least that the other parts leave to a cache whose share was not set, in percent.
const CACHE_PERCENT_LEFT: f64 = 15.0;
/// Least that the cache can be set to, in percent: the blocks of a few readers at the same time.
pub(super) const CACHE_PERCENT_MIN: f64 = 1.0;
/// Percentages that add up to so little more than 100 do so by rounding: they are shown in
/// hundredths.
const ROUNDING: f64 = 0.02;

/// How the budget is split. What is `None` is not limited but by the others.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Split {
    /// M_b: percent of the divided memory for write buffers.
    pub write_buffer_percent: Option<f64>,
    /// M_f: most that filters may take, in percent of the divided memory.
    pub filter_percent: Option<f64>,
    /// M_c: most that the block cache may take, in percent of the divided memory.
    pub cache_percent: Option<f64>,
}

impl Split {
    /// Sets `knob` to a value that is legal for it by itself; another value is a mistake of the
    /// caller's. Whether it suits the others is said by [`Split::validate`].
    pub(crate) fn set(&mut self, knob: MemoryKnob, value: &Value) {
        let percent = Some(value.to_f64());
        match knob {
            MemoryKnob::WriteBufferPercent => self.write_buffer_percent = percent,
            MemoryKnob::FilterPercent => self.filter_percent = percent,
            MemoryKnob::CachePercent => self.cache_percent = percent,
        }
    }

    /// What `knob` comes to, in hundredths of a percent.
    pub(crate) fn get(&self, knob: MemoryKnob, budget: &Budget) -> Value {
        let buffers = self.buffers_percent(budget);
        let percent = match knob {
            MemoryKnob::WriteBufferPercent => buffers,
            MemoryKnob::FilterPercent => {
                self.filter_percent.unwrap_or(100.0 - buffers - self.kept_for_cache())
            }
            MemoryKnob::CachePercent => {
                self.cache_percent.unwrap_or(100.0 - buffers - self.filter_percent.unwrap_or(0.0))
            }
        };
        Value::Number((percent.max(0.0) * 100.0).round() / 100.0)
    }

    /// What `knob` may be set to while the others stay as they are. Where they take more than the
    /// whole already, as an open with another budget may find them, it is what `knob` takes itself,
    /// or less.
    pub(crate) fn legal(&self, knob: MemoryKnob, budget: &Budget) -> Legal {
        let (min, own) = match knob {
            MemoryKnob::WriteBufferPercent => (buffer_percent_min(budget), self.buffers_percent(budget)),
            MemoryKnob::FilterPercent => (0.0, self.filter_percent.unwrap_or(0.0)),
            MemoryKnob::CachePercent => (CACHE_PERCENT_MIN, self.kept_for_cache()),
        };
        let left = 100.0 - (self.sum_percent(budget) - own);
        // Down to what is legal for certain.
        Legal::Real { min, max: (left.max(own) * 100.0).floor().max(min * 100.0) / 100.0 }
    }

    /// Whether the parts fit into the whole. Parts that were set `before`, and that an open with
    /// another budget made too large, are no reason to refuse.
    pub(crate) fn validate(&self, before: &Split, budget: &Budget) -> Result<()> {
        let min = buffer_percent_min(budget);
        let is_new = self.write_buffer_percent != before.write_buffer_percent;
        if let Some(percent) = self.write_buffer_percent
            && is_new
            && percent < min
        {
            return Err(Error::Invalid(format!(
                "write_buffer_percent is {percent}; it must be {}: a buffer has at least {WRITE_BUFFER_BYTES_MIN} bytes",
                before.legal(MemoryKnob::WriteBufferPercent, budget)
            )));
        }
        let sum = self.sum_percent(budget);
        if sum <= before.sum_percent(budget).max(100.0) + ROUNDING {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "write buffers, filters and cache are {:.2} % of the memory; together they must be at most 100, so \
             write_buffer_percent {}, filter_percent {}, or cache_percent {}",
            sum,
            before.legal(MemoryKnob::WriteBufferPercent, budget),
            before.legal(MemoryKnob::FilterPercent, budget),
            before.legal(MemoryKnob::CachePercent, budget),
        )))
    }

    /// What write buffers and filters may take, and the cache has at least.
    fn sum_percent(&self, budget: &Budget) -> f64 {
        self.buffers_percent(budget) + self.filter_percent.unwrap_or(0.0) + self.kept_for_cache()
    }

    /// What the cache has at least.
    fn kept_for_cache(&self) -> f64 {
        self.cache_percent.unwrap_or(CACHE_PERCENT_LEFT)
    }

    /// What write buffers may take, set or not.
    fn buffers_percent(&self, budget: &Budget) -> f64 {
        let given = budget.write_buffer_bytes * BUFFERS_GRANTED;
        let given = given as f64 * 100.0 / budget.divided_bytes() as f64;
        match self.write_buffer_percent {
            // `Options::write_buffer` may ask for more.
            None => given.min(100.0 - CACHE_PERCENT_LEFT),
            // What was set under a larger budget may be less than buffers can be.
            Some(percent) => percent.max(buffer_percent_min(budget)),
        }
    }

    /// Bytes at which a memtable is sealed.
    pub(crate) fn write_buffer_bytes(&self, budget: &Budget) -> u64 {
        let share = |percent| budget.part(percent) / BUFFERS_GRANTED;
        match self.write_buffer_percent {
            None => budget.write_buffer_bytes,
            Some(percent) => share(percent).max(WRITE_BUFFER_BYTES_MIN),
        }
    }
}

/// What four of the smallest write buffers take, in hundredths of a percent.
fn buffer_percent_min(budget: &Budget) -> f64 {
    let smallest = WRITE_BUFFER_BYTES_MIN * BUFFERS_GRANTED;
    (smallest as f64 * 10_000.0 / budget.divided_bytes() as f64).ceil() / 100.0
}

/// What there is to split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// All of it, in bytes.
    pub(crate) bytes: u64,
    /// Bytes at which a memtable is sealed, unless a knob says otherwise.
    pub(super) write_buffer_bytes: u64,
}

impl Budget {
    /// As the program gives it.
    pub(super) fn given(options: &Options) -> Budget {
        Budget { bytes: options.memory_bytes, write_buffer_bytes: options.effective_write_buffer() }
    }

    /// The budget without what is not counted.
    fn divided_bytes(&self) -> u64 {
        options::divided_bytes(self.bytes)
    }

    /// So many percent of the divided memory, in bytes.
    fn part(&self, percent: f64) -> u64 {
        (self.divided_bytes() as f64 * percent / 100.0) as u64
    }
}

/// The budget, and the split of it that is in force.
pub(crate) struct Memory {
    pub(crate) budget: Budget,
    split: Mutex<Split>,
    write_buffer_bytes: AtomicU64,
    pub(crate) cache: Arc<Cache>,
    /// Chunks of memtables that were flushed are kept for the next ones, as far as this goes.
    chunks: Share<1>,
    /// What memtables take.
    holdings: Arc<Holdings>,
    /// From so much on they are too many.
    crowded_from: AtomicU64,
    /// Bytes that jobs have written since the allocator was last trimmed.
    untrimmed: AtomicU64,
    /// Bytes of write buffers that are lent to the cache.
    lent: AtomicU64,
    /// Something is lent, or readers still hold what was.
    is_on_loan: AtomicBool,
    /// Bytes that writers have written since memtables were last summed up.
    unseen: AtomicU64,
    /// No writer will come.
    read_only: bool,
    /// Held while the budget is dealt out. Under it the catalog and the cache are asked.
    dealing: Mutex<()>,
}

/// What the budget goes to before the cache, in bytes.
struct Needs {
    memtables: u64,
    /// Tables, keyspaces, and what walks have learned of those.
    rest: u64,
}

impl Needs {
    fn of(catalog: &Catalog) -> Needs {
        let trees = catalog.trees();
        let of_tables = |version: &Version| version.files().map(table_memory_bytes).sum::<u64>();
        let tables: u64 = trees.iter().map(|tree| of_tables(&tree.view().version)).sum();
        Needs {
            memtables: trees.iter().map(|tree| tree.view().memtable_bytes()).sum(),
            rest: tables + trees.iter().map(|tree| KEYSPACE_BYTES + tree.gap_bytes()).sum::<u64>(),
        }
    }
}

impl Memory {
    /// Nothing is set; `cache` has its size from [`Memory::fit_cache`].
    pub(super) fn new(budget: Budget, cache: Arc<Cache>, holdings: Arc<Holdings>, read_only: bool) -> Memory {
        if SMALL.contains(&budget.bytes) {
            pool::map_large_allocations();
        }
        let split = Split::default();
        let write_buffer_bytes = AtomicU64::new(split.write_buffer_bytes(&budget));
        Memory {
            budget,
            split: Mutex::new(split),
            write_buffer_bytes,
            cache,
            chunks: CHUNKS.share(0),
            holdings,
            crowded_from: AtomicU64::new(u64::MAX),
            untrimmed: AtomicU64::new(0),
            lent: AtomicU64::new(0),
            is_on_loan: AtomicBool::new(false),
            unseen: AtomicU64::new(0),
            read_only,
            dealing: Mutex::new(()),
        }
    }

    /// Most that walks may learn of gaps, in bytes.
    pub(super) fn gap_bytes_max(&self) -> usize {
        let (share, least) = GAPS_SHARE;
        usize::try_from((self.budget.bytes / share).max(least)).unwrap_or(usize::MAX)
    }

    /// Whether blocks stay in memory as they are written. Under a small budget the allocator keeps
    /// what one thread writes and another evicts.
    pub(super) fn keeps_blocks(&self) -> bool {
        !SMALL.contains(&self.budget.bytes)
    }

    /// A job has written so much.
    pub(super) fn wrote(&self, bytes: u64) {
        self.untrimmed.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A job is done, and has freed what it took: under a small budget, and of large pieces, what
    /// the allocator has kept of that goes back.
    pub(super) fn after_job(&self) {
        let bytes = self.budget.bytes;
        let share = if bytes < 64 << 20 { TRIM_SHARES.0 } else { TRIM_SHARES.1 };
        if SMALL.contains(&bytes) && self.untrimmed.load(Ordering::Relaxed) >= bytes / share {
            self.untrimmed.store(0, Ordering::Relaxed);
            pool::trim_allocator();
        }
        pool::trim_after_large(self.budget.bytes / LARGE_SHARE);
        BLOCKS.shrink();
        CHUNKS.shrink();
    }

    /// The size at which tables are cut that are to have so many bytes: of a scarce budget no more
    /// than a part. What a job collects for a table's index and filter is in memory until the end.
    pub(super) fn table_bytes(&self, wanted: u64) -> u64 {
        match options::is_scarce(self.budget.bytes) {
            true => wanted.min(self.budget.bytes / TABLE_PARTS_SCARCE),
            false => wanted,
        }
    }

    /// Bytes at which a memtable is sealed.
    #[inline]
    pub(super) fn write_buffer_bytes(&self) -> u64 {
        self.write_buffer_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of memtables that the cache has only on loan.
    fn memtables_granted(&self) -> u64 {
        if self.read_only { 0 } else { self.write_buffer_bytes() * BUFFERS_GRANTED }
    }

    /// Splits the budget like this from now on, except that the cache is not fitted to it.
    pub(super) fn split_like(&self, split: Split) {
        // Who deals the budget out reads several of these, and they must belong together.
        let _dealing = self.dealing.lock();
        *self.split.lock() = split;
        self.write_buffer_bytes.store(split.write_buffer_bytes(&self.budget), Ordering::Relaxed);
        let granted = self.memtables_granted();
        self.chunks.set(usize::try_from(granted).unwrap_or(usize::MAX));
        // Of smaller budgets nothing is promised.
        if self.budget.bytes >= SMALL.start && !self.read_only {
            if options::is_scarce(self.budget.bytes) {
                self.cache.set_scarce();
                let part = (self.write_buffer_bytes() / CHUNK_PARTS_SCARCE).next_power_of_two();
                let part = usize::try_from(part).unwrap_or(CHUNK_BYTES);
                self.holdings.set_chunk_bytes_max(part.clamp(CHUNK_BYTES_LEAST, CHUNK_BYTES));
            }
            let ends = BUFFERS_GRANTED * self.holdings.chunk_bytes_max() as u64;
            self.crowded_from.store(granted + granted / CROWDED_PARTS + ends, Ordering::Relaxed);
        }
    }

    /// How long a writer of `bytes` to `tree` is held at most because memtables take more than was
    /// granted, with a large entry of `coming` bytes that it is about to add. Only while one of the
    /// tree's waits for a flush: what readers hold, no writer can change.
    #[inline]
    pub(super) fn delay(&self, bytes: u64, coming: u64, tree: &Tree) -> Duration {
        let taken = (self.holdings.bytes() as u64).saturating_add(coming);
        let from = self.crowded_from.load(Ordering::Relaxed);
        if taken <= from { Duration::ZERO } else { self.crowded(bytes, taken - from, tree) }
    }

    #[cold]
    fn crowded(&self, bytes: u64, over: u64, tree: &Tree) -> Duration {
        if tree.view().sealed.is_empty() {
            return Duration::ZERO;
        }
        let pressure = over as f64 / (self.write_buffer_bytes() as f64 / 2.0);
        let kib = (bytes as f64 / 1024.0).max(0.05);
        let delay = CROWDED_DELAY_PER_KIB.as_secs_f64() * pressure * pressure * kib;
        let longest = longest(bytes);
        Duration::from_secs_f64(delay.min(longest.as_secs_f64()))
    }

    /// Filter bits for every key of a table that is written now: as many as `wanted`, unless all
    /// keys that there are would then take more than M_f.
    fn filter_bits_allowed(&self, wanted: f32, catalog: &Catalog) -> f32 {
        let Some(percent) = self.split.lock().filter_percent else { return wanted };
        let entries =
            |version: &Version| version.files().map(|table| table.descriptor().entries).sum::<u64>();
        let keys: u64 = catalog.trees().iter().map(|tree| entries(&tree.view().version)).sum();
        let allowed = self.budget.part(percent) as f64 * 8.0 / keys.max(1) as f64;
        let allowed = allowed.min(BITS_PER_KEY_MAX.into()) as f32;
        // Less than a bit is none: a layout knows nothing between.
        if allowed < 1.0 { 0.0 } else { wanted.min(allowed) }
    }

    /// The filters of tables of `tree` that are written now, if `deepest` is the last level of
    /// `view`, or a deeper one is.
    pub(super) fn level_filters(
        &self,
        tree: &Tree,
        view: &View,
        deepest: u32,
        catalog: &Catalog,
    ) -> LevelFilters {
        tree.level_filters(view, deepest, |wanted| self.filter_bits_allowed(wanted, catalog))
    }

    /// Fits the block cache into what the budget leaves, and calls in what is lent if memtables
    /// need it. Called whenever a version is installed, and as memtables fill while anything is
    /// lent.
    pub(super) fn fit_cache(&self, catalog: &Catalog) {
        let _dealing = self.dealing.lock();
        self.fit(&Needs::of(catalog));
    }

    fn fit(&self, needs: &Needs) {
        let held = self.held_after_call();
        let cache = self.own_cache(needs, held);
        if self.lent() > self.idle(needs, cache, needs.memtables + self.kept_back() / 2) {
            self.call_in();
        }
        let (granted, lent) = (self.memtables_granted(), self.lent());
        assert!(lent == 0 || needs.memtables + lent <= granted, "what is lent is no memtable's");
        self.cache.set_capacity(usize::try_from(cache).unwrap_or(usize::MAX));
    }

    /// Bytes that the cache has of its own, where readers hold so many of what was called in.
    fn own_cache(&self, needs: &Needs, held: u64) -> u64 {
        let reserved = needs.memtables.max(self.memtables_granted()) + needs.rest + held;
        let share = match options::is_scarce(self.budget.bytes) {
            true => CACHE_SHARE_MIN_SCARCE,
            false => CACHE_SHARE_MIN,
        };
        let least = self.budget.bytes / share;
        let left = self.budget.divided_bytes().saturating_sub(reserved).max(least);
        let cache = self.cache_most().map_or(left, |most| left.min(most));
        assert!(cache <= least || cache + reserved <= self.budget.bytes, "the accounts add up to the budget");
        cache
    }

    /// Bytes that readers hold of what was called in at an earlier time: memtables cannot have
    /// them. The pages beside go back to the system.
    fn held_after_call(&self) -> u64 {
        if self.lent() > 0 || !self.is_on_loan() {
            return 0;
        }
        self.cache.give_back_held();
        let held = self.cache.lent_held() as u64;
        self.is_on_loan.store(held > 0, Ordering::Relaxed);
        held
    }

    /// Most that the cache may have, if that was set.
    fn cache_most(&self) -> Option<u64> {
        self.split.lock().cache_percent.map(|percent| self.budget.part(percent))
    }

    /// Bytes of write buffers that are idle, where memtables take `reserved` and the cache has
    /// `cache` bytes of its own. What was set for write buffers is theirs alone.
    fn idle(&self, needs: &Needs, cache: u64, reserved: u64) -> u64 {
        if self.split.lock().write_buffer_percent.is_some() {
            return 0;
        }
        // A cache that keeps its least has a part of them for good.
        let unclaimed = self.budget.divided_bytes().saturating_sub(cache + needs.rest);
        let idle = self.memtables_granted().min(unclaimed).saturating_sub(reserved);
        self.cache_most().map_or(idle, |most| idle.min(most.saturating_sub(cache)))
    }

    /// What is not lent beside what memtables have.
    fn kept_back(&self) -> u64 {
        (self.write_buffer_bytes() / KEPT_BACK.0).max(KEPT_BACK.1)
    }

    /// Lends the cache what no writer needs now, in whole chunks.
    pub(super) fn lend(&self, catalog: &Catalog) {
        let _dealing = self.dealing.lock();
        let needs = Needs::of(catalog);
        self.fit(&needs);
        let own = (self.cache.capacity() - self.cache.lent()) as u64;
        let reserved = needs.memtables.max(self.write_buffer_bytes()) + self.kept_back();
        let idle = self.idle(&needs, own, reserved);
        let lent = idle / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        if self.lent() == 0 && lent > 0 {
            self.unseen.store(0, Ordering::Relaxed);
            self.lent.store(lent, Ordering::Relaxed);
            self.is_on_loan.store(true, Ordering::Relaxed);
            self.cache.lend(usize::try_from(lent).unwrap_or(usize::MAX));
        }
    }

    /// The cache uses write buffers no more.
    pub(super) fn call_in(&self) {
        self.lent.store(0, Ordering::Relaxed);
        self.cache.call_in();
    }

    /// The database was closed: nothing is kept for readers and writers to come.
    pub(super) fn let_go(&self) {
        let _dealing = self.dealing.lock();
        self.call_in();
        self.chunks.set(0);
        self.cache.set_capacity(0);
    }

    /// Bytes of write buffers that are lent to the cache.
    #[inline]
    pub(super) fn lent(&self) -> u64 {
        self.lent.load(Ordering::Relaxed)
    }

    /// Whether something is lent, or readers still hold what was.
    #[inline]
    pub(super) fn is_on_loan(&self) -> bool {
        self.is_on_loan.load(Ordering::Relaxed)
    }

    /// Bytes that are lent, or that the cache and its readers still have of what was.
    pub(crate) fn lent_bytes(&self) -> u64 {
        self.lent().max(self.cache.lent_held() as u64)
    }

    /// Whether anything could be lent, if no writer needs it.
    pub(super) fn may_lend(&self) -> bool {
        let kept = self.write_buffer_bytes() + self.kept_back();
        self.memtables_granted() >= kept + CHUNK_BYTES as u64
            && self.split.lock().write_buffer_percent.is_none()
    }

    /// Writers have put so many bytes into memtables while something was lent, or held. True: it
    /// was called in now.
    #[cold]
    pub(super) fn filled(&self, bytes: u64, catalog: &Catalog) -> bool {
        let unseen = self.unseen.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if unseen < self.write_buffer_bytes() / LOOKS {
            return false;
        }
        self.unseen.store(0, Ordering::Relaxed);
        let was_lent = self.lent() > 0;
        self.fit_cache(catalog);
        was_lent && self.lent() == 0
    }
}

/// Bytes of memory that a table holds for as long as it is open: index, filter, cache slots.
fn table_memory_bytes(table: &TableRef) -> u64 {
    if let Some(open) = table.file().opened() {
        return open.memory_bytes();
    }
    let slots = u64::from(table.descriptor().blocks) * size_of::<usize>() as u64;
    table.descriptor().index_bytes + table.descriptor().filter_bytes + slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{engine::unopened::Unopened, ids::Seqno, key::Kind};

    /// Symptom: under 16 MiB a merge held 1.5 MiB for the index, filter and end of one table of 16
    /// MiB. Cause: tables had one size whatever the budget. Cure: they go by a scarce one.
    #[test]
    fn tables_that_are_written_go_by_a_scarce_budget() {
        let of = |mib: u64| {
            let budget = Budget { bytes: mib << 20, write_buffer_bytes: 1 << 20 };
            Memory::new(budget, Cache::new(0), Arc::default(), false).table_bytes(16 << 20) >> 20
        };
        assert_eq!([8, 16, 24, 32, 64].map(of), [16, 4, 6, 16, 16]);
    }

    /// Symptom: five memtables took 88 MiB of a budget of 256, where four of 16 are granted. Cause:
    /// what readers hold of flushed ones counted nowhere. Cure: writers are held for that too.
    #[test]
    fn writers_are_held_for_what_readers_hold_of_memtables_but_only_while_one_waits_for_a_flush() {
        let engine = Unopened::new(&["a"]);
        let (tree, memory) = (engine.tree("a"), &engine.memory);
        memory.split_like(Split::default());
        let put = |seqno: Seqno, bytes: usize| {
            tree.view().active.insert(b"key", seqno, Kind::Put, &[&vec![7; bytes]]);
            engine.store.snapshots.publish(seqno);
            tree.seal();
        };
        let flush = || engine.flusher().flush(&engine.work.claim_flush(&tree)).unwrap();
        put(1, 300_000);
        assert!(memory.delay(100, 0, &tree).is_zero(), "so much is granted, and the ends of chunks");
        assert!(!memory.delay(8 << 20, 8 << 20, &tree).is_zero(), "a large entry counts before it is there");
        put(2, 5 << 20);
        let delay = memory.delay(100, 0, &tree);
        assert!(!delay.is_zero() && delay <= longest(100), "{delay:?}");
        assert!(memory.delay(1000, 0, &tree) >= delay);
        let reader = tree.view_owned();
        flush();
        assert!(memory.holdings.bytes() > 5 << 20, "a reader holds it");
        assert!(memory.delay(100, 0, &tree).is_zero(), "no flush would help");
        put(3, 100);
        assert!(!memory.delay(100, 0, &tree).is_zero(), "one of two would go");
        drop(reader);
        assert!(memory.delay(100, 0, &tree).is_zero());
    }
}
