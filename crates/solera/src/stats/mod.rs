//! What a keyspace did since it was opened: `Stats`, its counters and times; `Here`, a thread's
//! part.
//!
//! Up to 64 threads own a shard each and add by plain loads and stores. Others share one, by locked
//! instructions; `add_rarely` and `add_merged` use no shard. One operation in `SAMPLE_PERIOD` (128)
//! is timed, at distances that vary, or all (`time_all`). `multi_get` is never timed; a batch's
//! time is its first keyspace's. `lane_of_this_thread` gives other parts a number of the thread, so
//! that threads keep off each other's memory.
//!
//! What must hold: no count is lost. Counts only grow, but for those of layouts (`layouts`).
//!
//! Callers: `table`, `db`, `compaction::plan` and `engine` count; `engine::core` has one more, of
//! log bytes. `table::lookup`, `tree`, `engine` and `control::observe` read. `engine::snapshots`
//! and `tree::rests` ask for lanes.

mod counts;
mod histogram;
mod latencies;
mod layouts;
mod made_once;
mod pace;
mod shard_numbers;

pub use counts::{
    Counter, Counters, LayoutCounter, LayoutCounters, LevelCounter, LevelCounters, MergeCounter,
    MergeCounters,
};
pub use histogram::{BUCKETS, Histogram};
pub use latencies::{Latencies, Latency, Sampled};
pub use layouts::LAYOUTS_COUNTED;

use crate::clock::Clock;
use counts::{COUNTERS, LAYOUT_COUNTERS, LEVEL_COUNTERS, MERGE_COUNTERS};
use histogram::Recorder;
use latencies::{LATENCIES, SAMPLED};
use layouts::Layouts;
use made_once::MadeOnce;
use pace::Pace;
use shard_numbers::OWNED_SHARDS;
use std::{
    array,
    marker::PhantomData,
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Relaxed, SeqCst},
        fence,
    },
};

/// Levels that are counted one by one; deeper ones are counted with the last. At the smallest size
/// ratio and the default write buffer it holds a terabyte.
pub const LEVELS_COUNTED: usize = 16;
/// One operation in so many is timed, in the mean: a time costs some 110 ns, two looks at the clock
/// and that the operations before and after it do not overlap, so less than 1 ns for each
/// operation.
pub const SAMPLE_PERIOD: u64 = 128;
/// Counts as one in a mean that fades.
const ONE: u64 = 1 << 16;
/// Of such a mean 2^-6 is the last that was counted: half of it are the last 44.
const FADE_BITS: u32 = 6;

/// Shards that are made places for together.
const SHARD_PLACES: usize = 8;
/// Levels whose counters are made together: what is read of a small keyspace is in two.
const LEVELS_MADE: usize = 2;
/// Layouts whose counters are made together.
const LAYOUTS_MADE: usize = 4;
/// Levels whose counters of merges are made together.
const MERGES_MADE: usize = 4;

/// One thread's counters, on cache lines of their own (two, for the adjacent-line prefetcher). The
/// order is that of use: a lookup's first counts and when the next is due share a line.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Shard {
    /// Counts at which the next operation is timed.
    due: [AtomicU64; SAMPLED],
    whole: [AtomicU64; COUNTERS],
    levels: [MadeOnce<OfLevels>; LEVELS_COUNTED / LEVELS_MADE],
    layouts: [MadeOnce<OfLayouts>; LAYOUTS_COUNTED / LAYOUTS_MADE],
}

/// What one thread counts of neighbouring levels.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct OfLevels {
    levels: [[AtomicU64; LEVEL_COUNTERS]; LEVELS_MADE],
    /// Of each level, which part of the filters asked lately said yes, [`ONE`] if all did.
    filter_yes: [AtomicU64; LEVELS_MADE],
}

/// What one thread counts of some layouts.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct OfLayouts([[AtomicU64; LAYOUT_COUNTERS]; LAYOUTS_MADE]);

/// What merges counted of neighbouring levels.
type OfMerges = [[AtomicU64; MERGE_COUNTERS]; MERGES_MADE];

impl Shard {
    /// The counters of `level`, with its neighbours'.
    #[inline]
    fn levels(&self, level: u32) -> &OfLevels {
        self.levels[counted(level) / LEVELS_MADE].get_or_make()
    }

    /// The counters of the layout in `row`, with others.
    #[inline]
    fn layouts(&self, row: usize) -> &OfLayouts {
        self.layouts[row / LAYOUTS_MADE].get_or_make()
    }
}

/// A number below `count` of this thread, by which threads that do one thing keep off each other's
/// memory. Another thread may have it too.
#[inline]
pub(crate) fn lane_of_this_thread(count: usize) -> usize {
    shard_numbers::of_this_thread() % count
}

/// Counters that many threads add to.
#[derive(Debug)]
pub struct Stats {
    shards: [MadeOnce<[MadeOnce<Shard>; SHARD_PLACES]>; OWNED_SHARDS / SHARD_PLACES + 1],
    sample_period: AtomicU64,
    /// Whether every operation is timed, whatever the period.
    all_timed: AtomicBool,
    /// Made when the first operation is timed.
    latencies: MadeOnce<[Recorder; LATENCIES]>,
    /// What happens rarely, by any thread: none has a shard made for that alone.
    rare: [AtomicU64; COUNTERS],
    merges: [MadeOnce<OfMerges>; LEVELS_COUNTED / MERGES_MADE],
    layouts: Layouts,
    stall_us_max: AtomicU64,
    pace: Pace,
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
            shards: Default::default(),
            sample_period: AtomicU64::new(SAMPLE_PERIOD),
            all_timed: AtomicBool::new(false),
            latencies: Default::default(),
            rare: Default::default(),
            merges: Default::default(),
            layouts: Layouts::default(),
            stall_us_max: AtomicU64::new(0),
            pace: Pace::default(),
        }
    }

    /// This thread's shard. Take it once per operation, then count with [`Here::add`].
    #[inline]
    pub fn here(&self) -> Here<'_> {
        let number = shard_numbers::of_this_thread();
        let places = self.shards[number / SHARD_PLACES].get();
        let shard = match places.and_then(|places| places[number % SHARD_PLACES].get()) {
            Some(shard) => shard,
            None => self.new_shard(number),
        };
        Here { shard, owned: number < OWNED_SHARDS, _this_thread: PhantomData }
    }

    #[cold]
    fn new_shard(&self, number: usize) -> &Shard {
        let places = self.shards[number / SHARD_PLACES].get_or_make();
        let shard = places[number % SHARD_PLACES].get_or_make();
        Sampled::ALL.into_iter().for_each(|sampled| self.set_due(shard, sampled));
        shard
    }

    /// Says when an operation of this kind is timed next in `shard`. Either this sees what another
    /// thread has just changed about that, or that thread sees the shard and says it itself, later
    /// than this does.
    fn set_due(&self, shard: &Shard, sampled: Sampled) {
        let count = shard.whole[sampled.counter() as usize].load(Relaxed);
        let mut due = self.due_after(count);
        loop {
            shard.due[sampled as usize].store(due, Relaxed);
            fence(SeqCst);
            let now = self.due_after(count);
            if now == due {
                return;
            }
            due = now;
        }
    }

    /// The count at which an operation is timed again, after `count`: 1 to twice the period later.
    fn due_after(&self, count: u64) -> u64 {
        if self.all_timed.load(Relaxed) {
            return 0;
        }
        let period = self.sample_period.load(Relaxed);
        if period == 0 {
            return u64::MAX;
        }
        let random = (count ^ 0x5eed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        count + 1 + random % (2 * period - 1)
    }

    /// Adds to one counter.
    #[inline]
    pub fn add(&self, counter: Counter, n: u64) {
        self.here().add(counter, n);
    }

    /// Adds to a counter of what happens rarely: no shard is made for that, and threads wait for
    /// each other.
    pub fn add_rarely(&self, counter: Counter, n: u64) {
        self.rare[counter as usize].fetch_add(n, Relaxed);
    }

    /// Counts what flushes, ingestion and merges do in `level`.
    pub fn add_merged(&self, level: u32, counter: MergeCounter, n: u64) {
        let level = counted(level);
        let merges = self.merges[level / MERGES_MADE].get_or_make();
        merges[level % MERGES_MADE][counter as usize].fetch_add(n, Relaxed);
    }

    /// How fast its merges go.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// Counts a write that waited `us` microseconds for background work.
    pub fn stalled(&self, us: u64) {
        self.add_rarely(Counter::Stalls, 1);
        self.add_rarely(Counter::StallUsTotal, us);
        self.stall_us_max.fetch_max(us, Relaxed);
    }

    /// From now on times one operation in `period`, none if it is 0: to measure what that costs.
    pub fn sample_one_in(&self, period: u64) {
        self.sample_period.store(period, Relaxed);
        self.set_all_due();
    }

    /// From now on times every operation, or again one in so many.
    pub fn time_all(&self, all: bool) {
        self.all_timed.store(all, Relaxed);
        self.set_all_due();
    }

    fn set_all_due(&self) {
        fence(SeqCst);
        for shard in self.shards() {
            Sampled::ALL.into_iter().for_each(|sampled| self.set_due(shard, sampled));
        }
    }

    /// Called where an operation begins that [is to be timed](Here::is_due): the moment.
    #[cold]
    pub fn begin(&self, here: Here<'_>, sampled: Sampled, clock: &dyn Clock) -> u64 {
        self.latencies.get_or_make();
        self.set_due(here.shard, sampled);
        clock.monotonic_ns()
    }

    /// Called where an operation ends that began at `begin_ns`.
    #[cold]
    pub fn end(&self, latency: Latency, begin_ns: u64, clock: &dyn Clock) {
        // A simulated clock may be set back.
        let ns = clock.monotonic_ns().saturating_sub(begin_ns);
        if let Some(recorders) = self.latencies.get() {
            recorders[latency as usize].record(ns);
        }
    }

    /// How long operations took.
    pub fn latencies(&self) -> Latencies {
        let of = |latency: Latency| {
            let recorders = self.latencies.get();
            recorders.map(|recorders| recorders[latency as usize].histogram()).unwrap_or_default()
        };
        Latencies {
            lookup_absent_ns: of(Latency::LookupAbsent),
            lookup_found_ns: of(Latency::LookupFound),
            scan_ns: of(Latency::Scan),
            write_ns: of(Latency::Write),
        }
    }

    fn shards(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter_map(MadeOnce::get).flatten().filter_map(MadeOnce::get)
    }

    /// The counters now. Counts made by other threads meanwhile may or may not be in it.
    pub fn snapshot(&self) -> Counters {
        let mut sums = [0; COUNTERS];
        add_to_sums(&mut sums, &self.rare);
        self.shards().for_each(|shard| add_to_sums(&mut sums, &shard.whole));
        let levels = self.levels().iter().fold(LevelCounters::default(), |sum, level| sum.plus(level));
        Counters::from_sums(&sums).with_levels(&levels, self.stall_us_max.load(Relaxed))
    }

    /// The counters of each level now; the last stands for all deeper ones too.
    pub fn levels(&self) -> [LevelCounters; LEVELS_COUNTED] {
        array::from_fn(|level| self.level(level as u32))
    }

    /// The counters of `level` now.
    pub fn level(&self, level: u32) -> LevelCounters {
        let mut sums = [0; LEVEL_COUNTERS];
        let level = counted(level);
        let of_shards = self.shards().filter_map(|shard| shard.levels[level / LEVELS_MADE].get());
        of_shards.for_each(|of| add_to_sums(&mut sums, &of.levels[level % LEVELS_MADE]));
        LevelCounters::from_sums(&sums)
    }

    /// What went into each level and out of it; the last stands for all deeper ones too.
    pub fn merges(&self) -> [MergeCounters; LEVELS_COUNTED] {
        array::from_fn(|level| {
            let mut sums = [0; MERGE_COUNTERS];
            if let Some(merges) = self.merges[level / MERGES_MADE].get() {
                add_to_sums(&mut sums, &merges[level % MERGES_MADE]);
            }
            MergeCounters::from_sums(&sums)
        })
    }

    /// One more open table of `layout`, a number that means a layout to the caller: the row in
    /// which its reads are counted. To be given back by [`Stats::leave_layout`].
    pub fn enter_layout(&self, layout: u64) -> usize {
        self.layouts.enter(layout, || self.layout_sums())
    }

    /// One table less in `row`.
    pub fn leave_layout(&self, row: usize) {
        self.layouts.leave(row);
    }

    /// What was counted for each layout that open tables have or had lately; `None` stands for all
    /// others.
    pub fn layouts(&self) -> Vec<(Option<u64>, LayoutCounters)> {
        self.layouts.counts(&self.layout_sums())
    }

    fn layout_sums(&self) -> layouts::Sums {
        let mut sums = layouts::Sums::default();
        for shard in self.shards() {
            for (sums, of) in sums.chunks_mut(LAYOUTS_MADE).zip(&shard.layouts) {
                let counts = of.get().into_iter().flat_map(|OfLayouts(counts)| counts);
                sums.iter_mut().zip(counts).for_each(|(sums, counts)| add_to_sums(sums, counts));
            }
        }
        sums
    }
}

/// Where `level` is counted.
#[inline]
fn counted(level: u32) -> usize {
    (level as usize).min(LEVELS_COUNTED - 1)
}

fn add_to_sums<const N: usize>(sums: &mut [u64; N], counts: &[AtomicU64; N]) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.wrapping_add(count.load(Relaxed));
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

    /// What this shard counted.
    pub fn of(&self, counter: Counter) -> u64 {
        self.shard.whole[counter as usize].load(Relaxed)
    }

    /// Adds to one counter of `level`.
    #[inline]
    pub fn add_at(&self, level: u32, counter: LevelCounter, n: u64) {
        let of = self.shard.levels(level);
        self.add_to(&of.levels[counted(level) % LEVELS_MADE][counter as usize], n);
    }

    /// Counts what a filter of `level` said.
    #[inline]
    pub fn filter_said(&self, level: u32, yes: bool) {
        let counter = if yes { LevelCounter::FilterPasses } else { LevelCounter::FilterNegatives };
        let of = self.shard.levels(level);
        self.add_to(&of.levels[counted(level) % LEVELS_MADE][counter as usize], 1);
        let part = &of.filter_yes[counted(level) % LEVELS_MADE];
        let before = part.load(Relaxed);
        let last = if yes { ONE } else { 0 };
        part.store(before - (before >> FADE_BITS) + (last >> FADE_BITS), Relaxed);
    }

    /// Whether most filters of `level` that were asked lately in this shard said yes.
    #[inline]
    pub fn filters_say_yes(&self, level: u32) -> bool {
        self.shard.levels(level).filter_yes[counted(level) % LEVELS_MADE].load(Relaxed) > ONE / 2
    }

    /// Adds to one counter of the layout in `row`.
    #[inline]
    pub fn add_of(&self, row: usize, counter: LayoutCounter, n: u64) {
        let row = row.min(LAYOUTS_COUNTED - 1);
        let OfLayouts(layouts) = self.shard.layouts(row);
        self.add_to(&layouts[row % LAYOUTS_MADE][counter as usize], n);
    }

    /// Whether the operation that begins is one that is timed: then call [`Stats::begin`], and
    /// [`Stats::end`].
    #[inline]
    pub fn is_due(&self, sampled: Sampled) -> bool {
        let count = self.shard.whole[sampled.counter() as usize].load(Relaxed);
        count >= self.shard.due[sampled as usize].load(Relaxed)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use std::time::Duration;

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
        // A second generation of threads takes the numbers of the first and goes on counting there.
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

    /// Symptom: on a busy machine a tuner ended with "attempt to add with overflow", in one of ten
    /// runs. Cause: blocks of the cache are worked out from three counts that are read while others
    /// count; there were fewer of them later, and the difference was nearly 2^64. Cure: it is 0.
    #[test]
    fn what_is_worked_out_from_counts_and_falls_back_is_no_huge_difference() {
        let of = |blocks_probed, blocks_hit| Counters {
            gets: 7,
            blocks_probed,
            blocks_hit,
            ..Counters::default()
        };
        let (before, after) = (of(9, 5), of(12, 4));
        let since = after.since(&before);
        assert_eq!((since.gets, since.blocks_probed, since.blocks_hit), (0, 3, 0));
        assert!(after.may_follow(&before), "nothing began anew");
        assert!(!Counters::default().may_follow(&before));
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
    fn what_filters_say_is_expected_to_go_on_level_by_level() {
        let stats = Stats::new();
        let here = stats.here();
        let say = |level, yes, times| (0..times).for_each(|_| here.filter_said(level, yes));
        assert!(!here.filters_say_yes(1));
        say(1, true, 1_000_000);
        assert!(here.filters_say_yes(1) && !here.filters_say_yes(2));
        say(1, false, 10);
        assert!(here.filters_say_yes(1), "a few do not change it");
        say(1, false, 90);
        assert!(!here.filters_say_yes(1), "however many were before");
        (0..300).for_each(|i| say(1, i % 4 > 0, 1));
        assert!(here.filters_say_yes(1), "three of four");
        (0..300).for_each(|i| say(1, i % 4 == 0, 1));
        assert!(!here.filters_say_yes(1), "one of four");
        assert_eq!(stats.level(1).filter_probes(), 1_000_700);
        assert_eq!(stats.level(1).filter_passes, 1_000_300);
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

    #[test]
    fn one_operation_in_so_many_is_timed_and_none_if_sampling_is_off() {
        let clock = ManualClock::default();
        let run = |stats: &Stats| {
            for _ in 0..128_000 {
                let here = stats.here();
                let begun = here.is_due(Sampled::Write).then(|| stats.begin(here, Sampled::Write, &clock));
                clock.advance(Duration::from_nanos(1000));
                here.add(Counter::Writes, 1);
                if let Some(begun) = begun {
                    stats.end(Latency::Write, begun, &clock);
                }
            }
            stats.latencies()
        };
        let sampling = |period| {
            let stats = Stats::new();
            stats.sample_one_in(period);
            run(&stats)
        };
        let latencies = run(&Stats::new());
        let timed = latencies.write_ns.count();
        assert!((900..1100).contains(&timed), "{timed} of 128,000");
        assert_eq!(latencies.write_ns.quantile(0.5), Some(1008));
        assert_eq!(latencies.lookup_found_ns.count(), 0);
        assert_eq!(sampling(1).write_ns.count(), 127_999);
        assert_eq!(sampling(0), Latencies::default());
    }

    #[test]
    fn every_operation_is_timed_while_somebody_asks_for_it() {
        let (stats, clock) = (Stats::new(), ManualClock::default());
        let run = |times: u64| {
            let before = stats.latencies().lookup_found_ns.count();
            for _ in 0..times {
                let here = stats.here();
                if here.is_due(Sampled::Lookup) {
                    let begun = stats.begin(here, Sampled::Lookup, &clock);
                    stats.end(Latency::LookupFound, begun, &clock);
                }
                here.add(Counter::Gets, 1);
            }
            stats.latencies().lookup_found_ns.count() - before
        };
        stats.time_all(true);
        assert_eq!(run(1000), 1000, "the thread's first operations too");
        stats.time_all(false);
        assert!(run(128_000) < 1100);
        stats.time_all(true);
        assert_eq!(run(1000), 1000);
    }

    #[test]
    fn a_period_in_the_workload_does_not_hide_operations_from_sampling() {
        let stats = Stats::new();
        let clock = ManualClock::default();
        let mut timed = [0; 64];
        for n in 0..1_280_000 {
            let here = stats.here();
            if here.is_due(Sampled::Scan) {
                stats.begin(here, Sampled::Scan, &clock);
                timed[n % 64] += 1;
            }
            here.add(Counter::Scans, 1);
        }
        assert!(timed.iter().all(|&times| (50..400).contains(&times)), "{timed:?}");
    }

    #[test]
    fn what_merges_do_is_counted_by_level() {
        let stats = Stats::new();
        stats.add_merged(1, MergeCounter::BytesIn, 10);
        stats.add_merged(40, MergeCounter::EntriesOut, 3);
        let merges = stats.merges();
        assert_eq!((merges[1].bytes_in, merges[LEVELS_COUNTED - 1].entries_out), (10, 3));
        let named: Vec<_> = merges[1].named().filter(|(_, count)| *count > 0).collect();
        assert_eq!(named, [("bytes_in", 10)]);
        let numbers: Vec<_> = merges[1].named().map(|(_, count)| count).collect();
        assert_eq!(MergeCounters::from_numbers(&numbers), merges[1]);
    }
}
