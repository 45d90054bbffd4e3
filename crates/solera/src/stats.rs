//! Counters of what a keyspace did since it was opened.
//!
//! Owns [`Stats`], counters of the whole keyspace and of each of its levels. A point lookup counts about five things, so a count must not cost a locked
//! instruction (it would also drain the store buffer between two cache misses): each thread owns a
//! shard and adds to it with plain loads and stores. Whoever reads the counters adds the shards up. A shard is
//! made when a thread first counts, since a level's counters make it large and most seats stay empty.
//!
//! Invariant: a shard number below [`OWNED_SHARDS`] belongs to at most one living thread; every other
//! thread uses the last shard, with locked additions.

use parking_lot::Mutex;
use std::{
    marker::PhantomData,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Threads that count without locked instructions. More than that only count slower.
const OWNED_SHARDS: usize = 64;
/// Levels that are counted one by one; deeper ones are counted with the last. At the smallest size ratio and
/// the default write buffer it holds a terabyte.
pub const LEVELS_COUNTED: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident => $field:ident,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        const COUNTERS: usize = [$(Counter::$name),*].len();

        /// The counters at one moment, as plain data.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $field: u64,)*
            /// Filters asked.
            pub filter_probes: u64,
            /// Filters that said no.
            pub filter_negatives: u64,
            /// Filters that said yes for a key that the table does not hold.
            pub filter_false_positives: u64,
            /// Longest time that one write waited for background work, in microseconds.
            pub stall_us_max: u64,
        }

        impl Counters {
            fn from_sums(sums: [u64; COUNTERS], levels: &LevelCounters, stall_us_max: u64) -> Self {
                Counters {
                    $($field: sums[Counter::$name as usize],)*
                    filter_probes: levels.filter_probes(),
                    filter_negatives: levels.filter_negatives,
                    filter_false_positives: levels.filter_false_positives,
                    stall_us_max,
                }
            }
        }
    };
}

macro_rules! level_counters {
    ($($(#[$doc:meta])* $name:ident => $field:ident,)*) => {
        /// What is counted level by level.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LevelCounter { $($(#[$doc])* $name,)* }

        const LEVEL_COUNTERS: usize = [$(LevelCounter::$name),*].len();

        /// The counters of one level at one moment, as plain data.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LevelCounters { $($(#[$doc])* pub $field: u64,)* }

        impl LevelCounters {
            fn add(&mut self, counts: &[AtomicU64; LEVEL_COUNTERS]) {
                $(self.$field = self.$field.wrapping_add(counts[LevelCounter::$name as usize].load(Relaxed));)*
            }

            /// What was counted since `before`, an earlier moment.
            pub fn since(&self, before: &LevelCounters) -> LevelCounters {
                LevelCounters { $($field: self.$field.wrapping_sub(before.$field),)* }
            }
        }
    };
}

level_counters! {
    /// Filters that said no.
    FilterNegatives => filter_negatives,
    /// Filters that said yes.
    FilterPasses => filter_passes,
    /// Filters that said yes for a key that the table does not hold.
    FilterFalsePositives => filter_false_positives,
    /// Lookups in tables without a filter.
    Unfiltered => unfiltered,
    /// Lookups in tables without a filter that found no such key.
    UnfilteredMisses => unfiltered_misses,
}

impl LevelCounters {
    /// Filters asked.
    pub fn filter_probes(&self) -> u64 {
        self.filter_negatives + self.filter_passes
    }

    /// Tables asked: one at most in each run that a lookup came to.
    pub fn tables_probed(&self) -> u64 {
        self.filter_probes() + self.unfiltered
    }

    /// Tables asked for a key that they do not hold: the occasions at which a filter can be of use.
    pub fn misses(&self) -> u64 {
        self.filter_negatives + self.filter_false_positives + self.unfiltered_misses
    }
}

counters! {
    /// Point lookups.
    Gets => gets,
    /// Point lookups that found a value.
    GetsFound => gets_found,
    /// Lookups in which a model was of no use and a plain search was made.
    IndexFallbacks => index_fallbacks,
    /// Data blocks that lookups and scans had to look into beyond the one where an index's answer began.
    IndexSteps => index_steps,
    /// Data blocks read from a file by lookups and scans.
    BlocksRead => blocks_read,
    /// Data blocks found in the cache.
    BlocksHit => blocks_hit,
    /// Data blocks that lookups searched.
    BlocksProbed => blocks_probed,
    /// Bytes read from table files.
    BytesRead => bytes_read,
    /// Entries written by users.
    EntriesWritten => entries_written,
    /// Table bytes written by flushes.
    BytesWrittenFlush => bytes_written_flush,
    /// Table bytes written by compactions.
    BytesWrittenCompaction => bytes_written_compaction,
    /// Log bytes written.
    BytesWrittenLog => bytes_written_log,
    /// Time that writes waited for background work, in microseconds, summed over writes.
    StallUsTotal => stall_us_total,
    /// Compactions finished.
    Compactions => compactions,
    /// Flushes finished.
    Flushes => flushes,
    /// Files no longer needed that could not be removed; the next open of the database tries again.
    FilesNotRemoved => files_not_removed,
}

/// One thread's counters, on cache lines of their own (two, for the adjacent-line prefetcher).
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    whole: [AtomicU64; COUNTERS],
    levels: [[AtomicU64; LEVEL_COUNTERS]; LEVELS_COUNTED],
}

/// Counters that many threads add to.
#[derive(Debug)]
pub struct Stats {
    shards: Box<[OnceLock<Box<Shard>>]>,
    stall_us_max: AtomicU64,
}

impl Default for Stats {
    fn default() -> Self {
        Stats::new()
    }
}

impl Stats {
    /// Counters at zero.
    pub fn new() -> Self {
        Stats {
            shards: (0..=OWNED_SHARDS).map(|_| OnceLock::new()).collect(),
            stall_us_max: AtomicU64::new(0),
        }
    }

    /// This thread's shard. Take it once per operation, then count with [`Here::add`].
    #[inline]
    pub fn here(&self) -> Here<'_> {
        let seat = SEAT.try_with(|seat| seat.0).unwrap_or(OWNED_SHARDS);
        let shard = self.shards[seat].get_or_init(Box::default);
        Here { shard, owned: seat < OWNED_SHARDS, _this_thread: PhantomData }
    }

    /// Adds to one counter.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.here().add(counter, n);
    }

    /// Counts a write that waited `us` microseconds for background work.
    pub fn stalled(&self, us: u64) {
        self.add(Counter::StallUsTotal, us);
        self.stall_us_max.fetch_max(us, Relaxed);
    }

    /// The counters now. Counts made by other threads meanwhile may or may not be in it.
    pub fn snapshot(&self) -> Counters {
        let mut sums = [0u64; COUNTERS];
        let mut levels = LevelCounters::default();
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            for (sum, count) in sums.iter_mut().zip(&shard.whole) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
            shard.levels.iter().for_each(|counts| levels.add(counts));
        }
        Counters::from_sums(sums, &levels, self.stall_us_max.load(Relaxed))
    }

    /// The counters of each level now; the last stands for all deeper ones too.
    pub fn levels(&self) -> [LevelCounters; LEVELS_COUNTED] {
        let mut levels = [LevelCounters::default(); LEVELS_COUNTED];
        for shard in self.shards.iter().filter_map(OnceLock::get) {
            levels.iter_mut().zip(&shard.levels).for_each(|(level, counts)| level.add(counts));
        }
        levels
    }
}

/// One thread's shard of a [`Stats`]. Not `Send`: another thread would count into the wrong shard.
#[derive(Clone, Copy, Debug)]
pub struct Here<'s> {
    shard: &'s Shard,
    owned: bool,
    _this_thread: PhantomData<*const ()>,
}

impl Here<'_> {
    /// Adds to one counter.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.add_to(&self.shard.whole[counter as usize], n);
    }

    /// Adds to one counter of `level`.
    #[inline]
    pub fn add_at(&self, level: u32, counter: LevelCounter, n: u64) {
        let counts = &self.shard.levels[(level as usize).min(LEVELS_COUNTED - 1)];
        self.add_to(&counts[counter as usize], n);
    }

    #[inline]
    fn add_to(&self, count: &AtomicU64, n: u64) {
        if self.owned {
            // No other thread writes here, so no locked instruction is needed.
            count.store(count.load(Relaxed).wrapping_add(n), Relaxed);
        } else {
            count.fetch_add(n, Relaxed);
        }
    }
}

/// Who sits where. The lock also orders one owner's counts before the next owner's.
struct Seats {
    free: Vec<usize>,
    taken_ever: usize,
}

static SEATS: Mutex<Seats> = Mutex::new(Seats { free: Vec::new(), taken_ever: 0 });

/// A thread's hold on a shard number; given back when the thread ends.
struct Seat(usize);

impl Seat {
    fn take() -> Self {
        let mut seats = SEATS.lock();
        if let Some(seat) = seats.free.pop() {
            return Seat(seat);
        }
        let seat = seats.taken_ever.min(OWNED_SHARDS);
        seats.taken_ever += usize::from(seat < OWNED_SHARDS);
        Seat(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.0 < OWNED_SHARDS {
            SEATS.lock().free.push(self.0);
        }
    }
}

thread_local! {
    static SEAT: Seat = Seat::take();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_lost_with_more_threads_than_shards() {
        let stats = Stats::new();
        let barrier = std::sync::Barrier::new(OWNED_SHARDS + 20);
        std::thread::scope(|scope| {
            for _ in 0..OWNED_SHARDS + 20 {
                scope.spawn(|| {
                    let here = stats.here();
                    barrier.wait();
                    for _ in 0..100 {
                        here.add(Counter::Gets, 1);
                        stats.add(Counter::BytesRead, 3);
                    }
                });
            }
        });
        // A second generation of threads sits on the seats of the first and goes on counting there.
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| stats.add(Counter::Gets, 1));
            }
        });
        let counters = stats.snapshot();
        assert_eq!(counters.gets, 100 * (OWNED_SHARDS as u64 + 20) + 10);
        assert_eq!(counters.bytes_read, 300 * (OWNED_SHARDS as u64 + 20));
        assert_eq!(counters.flushes, 0);
    }

    #[test]
    fn levels_are_counted_one_by_one_and_together() {
        let stats = Stats::new();
        let count = |level, counter, n| stats.here().add_at(level, counter, n);
        count(0, LevelCounter::FilterNegatives, 5);
        count(1, LevelCounter::FilterPasses, 3);
        count(1, LevelCounter::FilterFalsePositives, 2);
        let before = stats.levels();
        for level in [15, 16, 63] {
            std::thread::scope(|scope| {
                scope.spawn(|| stats.here().add_at(level, LevelCounter::UnfilteredMisses, 1));
            });
        }
        let levels = stats.levels();
        assert_eq!((levels[0].misses(), levels[1].misses(), levels[1].tables_probed()), (5, 2, 3));
        assert_eq!(levels[15].since(&before[15]).misses(), 3, "deeper levels are counted with the last");
        let whole = stats.snapshot();
        assert_eq!((whole.filter_probes, whole.filter_negatives, whole.filter_false_positives), (8, 5, 2));
    }

    #[test]
    fn the_longest_stall_is_kept() {
        let stats = Stats::new();
        for us in [3, 9, 4] {
            stats.stalled(us);
        }
        let counters = stats.snapshot();
        assert_eq!((counters.stall_us_total, counters.stall_us_max), (16, 9));
    }
}
