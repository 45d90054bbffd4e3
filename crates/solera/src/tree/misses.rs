//! How often lookups asked the tables of each level for keys that they do not hold, of late:
//! `RecentMisses`, a decaying sum over counters that only grow.
//!
//! `update` takes the level counters as they are now. Once tables were asked in vain 16,384 more
//! times than at the last time, it halves the old sums and adds the new misses. Until then it
//! returns the sums unchanged, and all 0 before the first time.
//!
//! What must hold: lookups only count and never wait for this. One lock of the tree guards it.
//!
//! Caller: `Tree::level_filters`, which weighs `LevelFilters` by the result: for each flush,
//! compaction and ingested table, for memory and for reports.

use crate::stats::{LEVELS_COUNTED, LevelCounters};

/// After so many misses, those before count half.
const HALF_LIFE_MISSES: u64 = 1 << 14;

/// Tables that were asked for keys that they do not hold, by level, older ones counting for less.
/// Nothing is kept before there were enough.
#[derive(Debug, Default)]
pub(super) struct RecentMisses {
    known: Option<Box<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    counted: [LevelCounters; LEVELS_COUNTED],
    recent: [f64; LEVELS_COUNTED],
}

impl RecentMisses {
    /// Takes in what the counters say now. All 0 until there were enough to tell something.
    pub(super) fn update(&mut self, now: [LevelCounters; LEVELS_COUNTED]) -> [f64; LEVELS_COUNTED] {
        let none = LevelCounters::default();
        let before = |level: usize| self.known.as_ref().map_or(&none, |known| &known.counted[level]);
        let fresh: [u64; LEVELS_COUNTED] =
            std::array::from_fn(|level| now[level].since(before(level)).misses());
        if fresh.iter().sum::<u64>() >= HALF_LIFE_MISSES {
            let known = self.known.get_or_insert_default();
            known.recent = std::array::from_fn(|level| known.recent[level] / 2.0 + fresh[level] as f64);
            known.counted = now;
        }
        self.known.as_ref().map_or([0.0; LEVELS_COUNTED], |known| known.recent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{LevelCounter, Stats};

    #[test]
    fn few_misses_say_nothing_and_older_ones_count_for_less() {
        let stats = Stats::new();
        let miss = |level, n| stats.here().add_at(level, LevelCounter::FilterNegatives, n);
        let mut recent = RecentMisses::default();
        miss(0, HALF_LIFE_MISSES - 1);
        assert_eq!(recent.update(stats.levels()), [0.0; LEVELS_COUNTED]);
        miss(1, 1);
        let first = recent.update(stats.levels());
        assert_eq!(first[..3], [(HALF_LIFE_MISSES - 1) as f64, 1.0, 0.0]);
        assert_eq!(recent.update(stats.levels()), first, "nothing new");
        miss(2, HALF_LIFE_MISSES);
        let second = recent.update(stats.levels());
        assert_eq!(second[..3], [first[0] / 2.0, 0.5, HALF_LIFE_MISSES as f64]);
    }
}
