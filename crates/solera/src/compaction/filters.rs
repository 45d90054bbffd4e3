//! Which filter a new table gets: `LevelFilters`, by level, and `resting_level`, the level to ask
//! for.
//!
//! With `FilterSpread::Uniform`, or one level, all levels get the same bits. With `Monkey` they
//! share them by `filter::allotment`, weighed by recent misses of lookups. Each level counts as at
//! least half full, since a drained level fills again. The last level has the kind that is wanted,
//! all others are `Bloom`. `set_bits` puts in what single levels were given. `resting_level` says
//! how far a table will move down unmerged: to right above the next keys of its range.
//!
//! What must hold: pure functions of version, shape, wanted filters and misses. Tables that exist
//! keep the filter that they have.
//!
//! Callers: `Tree::level_filters` for flushes, compactions, ingestion, memory and reports;
//! `engine::job_parts` (`resting_level`); the cost model of `solera-tune` (`expected`).

use super::shape::Shape;
use crate::{
    filter::{
        FilterKind, FilterSpec, FilterSpread, Filters,
        allotment::{LevelLoad, allot},
    },
    key::KeyRange,
    version::Version,
};

/// However few lookups miss at a level, it counts as if a quarter as many did as at the level where
/// most do: what is measured now tells little of the time when the table is old.
const MISSES_SHARE_MIN: f64 = 0.25;

/// The filters of the tables that a tree writes, by the level for which they are written.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelFilters {
    /// By level; the last stands for deeper ones too. Not empty.
    specs: Vec<FilterSpec>,
}

impl LevelFilters {
    /// The filters for tables of a tree that has, or will have once a job for it is done, `deepest`
    /// as its last level. `misses` by level: tables recently asked for keys that they do not hold;
    /// all 0 if nothing is known.
    pub fn new(version: &Version, shape: &Shape, filters: &Filters, misses: &[f64], deepest: u32) -> Self {
        let last = deepest.max(last_level(version));
        let entries: Vec<f64> = (0..=last).map(|level| version.level(level).entries() as f64).collect();
        let bytes: u64 = version.levels().iter().map(|level| level.bytes()).sum();
        let entry_bytes = bytes as f64 / entries.iter().sum::<f64>().max(1.0);
        LevelFilters::expected(&entries, entry_bytes, shape, filters, misses)
    }

    /// The filters for tables of a tree whose levels, the last of them the last that it has or will
    /// have, hold so many `entries`, each of `entry_bytes` of a table file. This is all that counts
    /// of a tree, so that a model of one can ask as well.
    pub fn expected(
        entries: &[f64],
        entry_bytes: f64,
        shape: &Shape,
        filters: &Filters,
        misses: &[f64],
    ) -> Self {
        let last = entries.len().saturating_sub(1) as u32;
        let kind = |level| if level == last { filters.last_level } else { FilterKind::Bloom };
        let bits = match filters.spread {
            FilterSpread::Monkey if last > 0 => {
                let mut loads = loads(entries, entry_bytes, shape);
                weigh(&mut loads, misses);
                loads.iter_mut().zip(0..).for_each(|(load, level)| load.kind = kind(level));
                let entries: f64 = loads.iter().map(|load| load.entries).sum();
                allot(&loads, entries * f64::from(filters.bits_per_key))
            }
            FilterSpread::Uniform | FilterSpread::Monkey => vec![filters.bits_per_key; last as usize + 1],
        };
        let spec = |(bits_per_key, level)| FilterSpec { kind: kind(level), bits_per_key };
        LevelFilters { specs: bits.into_iter().zip(0..).map(spec).collect() }
    }

    /// Gives levels the bits that `own` has for them, whatever the others have.
    pub fn set_bits(&mut self, own: impl Fn(u32) -> Option<f32>) {
        for (spec, level) in self.specs.iter_mut().zip(0..) {
            spec.bits_per_key = own(level).unwrap_or(spec.bits_per_key);
        }
    }

    /// The filter of a table for `level`.
    pub fn of(&self, level: u32) -> FilterSpec {
        self.specs[(level as usize).min(self.specs.len() - 1)]
    }
}

/// What the levels hold while a table that is written now is there.
fn loads(entries: &[f64], entry_bytes: f64, shape: &Shape) -> Vec<LevelLoad> {
    let all: f64 = entries.iter().sum();
    // No level comes to hold more than there is.
    let capacity_of = |level: u32| (shape.capacity_bytes(level) as f64 / entry_bytes).min(all.max(1.0));
    let last = entries.len().saturating_sub(1) as u32;
    let load = |(level, &now): (u32, &f64)| {
        let capacity = capacity_of(level);
        // The last level is as large as it is, or soon as large as what its parent lets go.
        let half = (if level < last { capacity } else { capacity_of(last.saturating_sub(1)) }) / 2.0;
        let entries = now.max(half).max(1.0);
        let runs = f64::from(shape.run_limit(level)) * (entries / capacity.max(1.0)).min(1.0);
        LevelLoad { entries, runs: runs.max(1.0), misses: 1.0, kind: FilterKind::Bloom }
    };
    (0..).zip(entries).map(load).collect()
}

/// Weighs the levels by what lookups met: misses for each run.
fn weigh(loads: &mut [LevelLoad], misses: &[f64]) {
    let of_run = |(level, load): (usize, &LevelLoad)| misses.get(level).unwrap_or(&0.0) / load.runs;
    let measured: Vec<f64> = loads.iter().enumerate().map(of_run).collect();
    let most = measured.iter().copied().fold(0.0, f64::max);
    if most > 0.0 {
        for (load, measured) in loads.iter_mut().zip(measured) {
            load.misses = (measured / most).max(MISSES_SHARE_MIN);
        }
    }
}

/// The level where a table over `range` comes to rest that is written for `level`: where nothing
/// below it has keys in its range, it will be moved down as it is, and should have the filter of
/// where it arrives.
pub fn resting_level(version: &Version, level: u32, range: &KeyRange) -> u32 {
    let is_free = |level: &u32| !version.level(*level).overlaps(range);
    (level + 1..=last_level(version)).take_while(is_free).last().unwrap_or(level)
}

/// The deepest level that has tables.
fn last_level(version: &Version) -> u32 {
    version.runs().last().map_or(0, |run| run.level())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cache::Cache,
        ids::{DatabaseId, FileId, RunId},
        stats::Stats,
        table::{Layout, TableContext, TableDescriptor, TableFile, waste::Waste},
        version::{Added, TreeEdit},
        vfs::mem::MemFs,
    };
    use std::sync::Arc;

    const ENTRY_BYTES: u64 = 100;

    /// A tree of tables that are only pretended: level, entries, first and last key.
    fn tree(tables: &[(u32, u64, &[u8], &[u8])]) -> Version {
        let context = Arc::new(TableContext {
            fs: Arc::new(MemFs::new()),
            dir: "/pretended".into(),
            database: DatabaseId(1),
            cache: Cache::new(0),
            stats: Arc::new(Stats::new()),
            wanted: Arc::default(),
            direct_reads: false,
        });
        let added = tables.iter().zip(1..).map(|(&(level, entries, first, last), number)| {
            let descriptor = TableDescriptor {
                file: FileId(number),
                bytes: entries * ENTRY_BYTES,
                entries,
                deletes: 0,
                merges: 0,
                range_tombstones: 0,
                range: KeyRange::closed(first, last),
                seqno_min: 1,
                seqno_max: 1,
                elided_seqno: 0,
                blocks: 1,
                index_bytes: 0,
                filter_bytes: 0,
                key_bytes: 0,
                value_bytes: 0,
                filter: Filters::default().mean(),
                layout: Layout::default(),
                waste: Waste::default(),
            };
            Added::whole(level, RunId(number), descriptor)
        });
        let edit = TreeEdit { added: added.collect(), ..TreeEdit::default() };
        Version::new().apply(&edit, |table| TableFile::new(&context, table.clone())).unwrap().version
    }

    /// T = 10 and four runs of 10,000 entries in level 0: capacities of 40,000, 900,000 and 9
    /// million entries.
    fn shape() -> Shape {
        Shape { write_buffer_bytes: 10_000 * ENTRY_BYTES, ..Shape::default() }
    }

    const FULL: &[(u32, u64, &[u8], &[u8])] = &[
        (0, 10_000, b"a", b"z"),
        (0, 10_000, b"a", b"z"),
        (1, 900_000, b"a", b"z"),
        (2, 5_000_000, b"a", b"z"),
    ];

    fn filters(version: &Version, filters: Filters, misses: &[f64]) -> LevelFilters {
        LevelFilters::new(version, &shape(), &filters, misses, 0)
    }

    fn bits(filters: &LevelFilters) -> [f32; 3] {
        [0, 1, 2].map(|level| filters.of(level).bits_per_key)
    }

    #[test]
    fn uniform_filters_have_the_same_bits_everywhere_and_their_kind_below() {
        let asked = Filters::uniform(8.0).with_last_level(FilterKind::Ribbon);
        let filters = filters(&tree(FULL), asked, &[]);
        assert_eq!(bits(&filters), [8.0; 3]);
        let kinds = [0, 1, 2, 3].map(|level| filters.of(level).kind);
        assert_eq!(kinds, [FilterKind::Bloom, FilterKind::Bloom, FilterKind::Ribbon, FilterKind::Ribbon]);
    }

    #[test]
    fn monkey_gives_smaller_levels_more_and_spends_the_mean() {
        for asked in [Filters::monkey(10.0), Filters::monkey(5.0).with_last_level(FilterKind::Ribbon)] {
            let [top, middle, last] = bits(&filters(&tree(FULL), asked, &[]));
            assert!(top > middle + 3.0 && middle > last + 1.5, "{top}, {middle}, {last}");
            let spent = 20_000.0 * top + 900_000.0 * middle + 5_000_000.0 * last;
            let mean = spent / 5_920_000.0;
            assert!((mean / asked.bits_per_key - 1.0).abs() < 0.01, "{mean} bits: {top}, {middle}, {last}");
        }
    }

    #[test]
    fn a_level_that_was_just_drained_counts_as_half_full() {
        let drained: Vec<_> = FULL.iter().copied().filter(|table| table.0 != 0).collect();
        let [full, drained] =
            [FULL, &drained].map(|tables| bits(&filters(&tree(tables), Filters::default(), &[])));
        assert!((full[0] - drained[0]).abs() < 0.3 && full[0] < 30.0, "{full:?}, {drained:?}");
    }

    #[test]
    fn a_tree_of_one_level_has_nothing_to_share() {
        for tables in [&[][..], &FULL[..2]] {
            assert_eq!(filters(&tree(tables), Filters::default(), &[]).of(0), Filters::default().mean());
        }
        // The first compaction makes a second level: it gets what level 0 will hardly take.
        let begun = LevelFilters::new(&tree(&FULL[..2]), &shape(), &Filters::default(), &[], 1);
        assert!(begun.of(1).bits_per_key > 8.0 && begun.of(1).bits_per_key <= 10.0, "{begun:?}");
    }

    #[test]
    fn levels_where_lookups_miss_less_get_fewer_bits_but_not_none() {
        let plain = bits(&filters(&tree(FULL), Filters::default(), &[0.0; 16]));
        assert_eq!(plain, bits(&filters(&tree(FULL), Filters::default(), &[])), "nothing known");
        // Every key is found at the last level, so no lookup misses there.
        let found = bits(&filters(&tree(FULL), Filters::default(), &[2000.0, 1000.0, 0.0]));
        assert!(found[1] > plain[1] + 0.5 && found[2] < plain[2] && found[2] > 6.0, "{plain:?}, {found:?}");
    }

    #[test]
    fn no_bits_are_no_filters() {
        assert_eq!(bits(&filters(&tree(FULL), Filters::NONE, &[])), [0.0; 3]);
        assert_eq!(bits(&filters(&tree(FULL), Filters::monkey(0.0), &[])), [0.0; 3]);
    }

    #[test]
    fn a_table_that_nothing_below_overlaps_gets_the_filter_of_where_it_will_lie() {
        let version = tree(&[(1, 9, b"k", b"p"), (2, 9, b"b", b"p"), (3, 9, b"a", b"c")]);
        let rest = |first: &[u8], last: &[u8]| resting_level(&version, 0, &KeyRange::closed(first, last));
        assert_eq!(rest(b"l", b"m"), 0);
        assert_eq!(rest(b"d", b"e"), 1);
        assert_eq!(rest(b"a", b"a"), 2);
        assert_eq!(rest(b"q", b"z"), 3, "as when keys ascend");
        assert_eq!(resting_level(&version, 4, &KeyRange::all()), 4);
    }
}
