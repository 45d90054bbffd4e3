//! Counters of what a keyspace did since it was opened.
//!
//! Owns [`Stats`]. A point lookup counts about five things, so a count must not cost a locked
//! instruction (it would also drain the store buffer between two cache misses): each thread owns a
//! shard and adds to it with plain loads and stores. Whoever reads the counters adds the shards up.
//!
//! Invariant: a shard number below [`OWNED_SHARDS`] belongs to at most one living thread; every other
//! thread uses the last shard, with locked additions.

use parking_lot::Mutex;
use std::{
    marker::PhantomData,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Threads that count without locked instructions. More than that only count slower.
const OWNED_SHARDS: usize = 64;

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
            /// Longest time that one write waited for background work, in microseconds.
            pub stall_us_max: u64,
        }

        impl Counters {
            fn from_sums(sums: [u64; COUNTERS], stall_us_max: u64) -> Self {
                Counters { $($field: sums[Counter::$name as usize],)* stall_us_max }
            }
        }
    };
}

counters! {
    /// Point lookups.
    Gets => gets,
    /// Point lookups that found a value.
    GetsFound => gets_found,
    /// Filters asked.
    FilterProbes => filter_probes,
    /// Filters that said no.
    FilterNegatives => filter_negatives,
    /// Filters that said yes for a key that the table does not hold.
    FilterFalsePositives => filter_false_positives,
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
struct Shard([AtomicU64; COUNTERS]);

/// Counters that many threads add to.
#[derive(Debug)]
pub struct Stats {
    shards: Box<[Shard]>,
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
            shards: (0..=OWNED_SHARDS).map(|_| Shard::default()).collect(),
            stall_us_max: AtomicU64::new(0),
        }
    }

    /// This thread's shard. Take it once per operation, then count with [`Here::add`].
    #[inline]
    pub fn here(&self) -> Here<'_> {
        let seat = SEAT.try_with(|seat| seat.0).unwrap_or(OWNED_SHARDS);
        Here { counters: &self.shards[seat].0, owned: seat < OWNED_SHARDS, _this_thread: PhantomData }
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
        for shard in &self.shards {
            for (sum, count) in sums.iter_mut().zip(&shard.0) {
                *sum = sum.wrapping_add(count.load(Relaxed));
            }
        }
        Counters::from_sums(sums, self.stall_us_max.load(Relaxed))
    }
}

/// One thread's shard of a [`Stats`]. Not `Send`: another thread would count into the wrong shard.
#[derive(Clone, Copy, Debug)]
pub struct Here<'s> {
    counters: &'s [AtomicU64; COUNTERS],
    owned: bool,
    _this_thread: PhantomData<*const ()>,
}

impl Here<'_> {
    /// Adds to one counter.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        let count = &self.counters[counter as usize];
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
    fn the_longest_stall_is_kept() {
        let stats = Stats::new();
        for us in [3, 9, 4] {
            stats.stalled(us);
        }
        let counters = stats.snapshot();
        assert_eq!((counters.stall_us_total, counters.stall_us_max), (16, 9));
    }
}
