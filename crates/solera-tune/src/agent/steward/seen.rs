//! What a window tells of the tree that it saw and of how it was used, for the model of
//! `foresight`.
//!
//! Sizes: `keys`, `times_mean` (entries of a level beside the mean), `arriving` (those that come
//! in), `table_bytes`, `table_of`. Uses: `skew` (how unevenly keys are used), `missed_share`,
//! `read_on`. `is_monkey` tells how filter bits are spread.
//!
//! What must hold: a window that tells too little has a value that changes nothing.
//!
//! Callers: `foresight`; `steward` and the tests of `apart` (`skew`).

use super::{apart::Apart, plan::Plan};
use crate::{
    cost::skew::Skew,
    sight::{LevelSight, Operations, Window},
};

/// Size at which tables are cut, in bytes, where no run has several.
const TABLE_BYTES: u64 = 16 << 20;
/// Farthest that entries of one level, or those that come in, are from the mean, as a factor.
const TIMES_MEAN_MAX: f64 = 1024.0;
/// How far they are from it at least, as a share: less may be filters, indexes and small tables.
pub(super) const TIMES_MEAN_MIN: f64 = 0.1;
/// Bits of a filter by which levels differ where small ones get more of them.
const BITS_APART: f64 = 0.5;
/// Lookups that find their key without which nothing tells how unevenly keys are used; and how many
/// versions there must be above the deepest level at least and at most, as a share of all keys.
const SKEW_LOOKUPS_MIN: u64 = 200;
const SKEW_COVERED: (f64, f64) = (0.01, 1.5);
/// Standard deviations by which what is counted may be chance.
const CHANCE_DEVIATIONS: f64 = 2.0;

/// How many times as large as the mean of all tables the entries of `level` are.
pub(super) fn times_mean(window: &Window, level: &LevelSight) -> f64 {
    let of = |bytes: u64, entries: u64| bytes as f64 / entries.max(1) as f64;
    let mean = of(window.table_bytes(), window.table_entries());
    let own = of(level.bytes, level.entries);
    if own * mean <= 0.0 || (own / mean - 1.0).abs() < TIMES_MEAN_MIN {
        return 1.0;
    }
    (own / mean).clamp(1.0 / TIMES_MEAN_MAX, TIMES_MEAN_MAX)
}

/// How many times as large as the mean of all tables the entries are that come in under `plan`: as
/// flushes wrote them, or else as those that came last. What is in the tables may be of another
/// time. Where `plan` keeps other values apart, they are as large as it makes them.
pub(super) fn arriving(window: &Window, plan: &Plan) -> f64 {
    if let Some(entry) = Apart::of(window, plan, keys(window)).and_then(|apart| apart.entry) {
        let mean = window.table_bytes() as f64 / window.table_entries().max(1) as f64;
        return (entry / mean.max(1.0)).clamp(1.0 / TIMES_MEAN_MAX, TIMES_MEAN_MAX);
    }
    let Some(level0) = window.levels.iter().find(|level| level.level == 0) else { return 1.0 };
    let flushed = LevelSight { bytes: level0.bytes_in, entries: level0.entries_in, ..level0.clone() };
    times_mean(window, if flushed.bytes > 0 && flushed.entries > 0 { &flushed } else { level0 })
}

/// How unevenly the keys of `window` are used, by how many lookups found theirs above the deepest
/// level; `None` where too little lies there to tell.
pub(super) fn skew(window: &Window) -> Option<Skew> {
    let Operations { absent, found, .. } = window.operations;
    let deepest = window.levels.iter().rposition(|level| level.level > 0 && level.entries > 0)?;
    if found < SKEW_LOOKUPS_MIN {
        return None;
    }
    let of = &window.levels[deepest];
    let deep = of.tables_probed.saturating_sub(of.misses).min(found) as f64 / found as f64;
    // As far as it is more than chance.
    let served = 1.0 - deep - CHANCE_DEVIATIONS * (deep * (1.0 - deep) / found as f64).sqrt();
    // Taken to be all keys, so that what lies above seems to hold many of them.
    let keys = (of.entries as f64).max(1.0);
    let above = |skew: Skew| {
        let memtable = (0.5, window.flushed_entries() / keys);
        let of = |level: &LevelSight| match level.level {
            // Runs of level 0 come and go: lookups say how many they met.
            0 => {
                let covered = match level.runs {
                    0 => window.flushed_entries() / keys,
                    runs => level.entries as f64 / runs as f64 / keys,
                };
                let lookups = [absent, found].map(|count| count as f64);
                (skew.met(covered, lookups, level.tables_probed as f64), covered)
            }
            _ => (level.runs as f64, level.entries as f64 / level.runs.max(1) as f64 / keys),
        };
        [memtable].into_iter().chain(window.levels[..deepest].iter().map(of)).collect::<Vec<_>>()
    };
    let covered: f64 = above(Skew::EVEN).iter().map(|(runs, covered)| runs * covered).sum();
    (SKEW_COVERED.0..=SKEW_COVERED.1).contains(&covered).then(|| Skew::of_served(served, above))
}

/// Of the blocks that reads of `window` came to, those that were read from files.
pub(super) fn missed_share(window: &Window) -> f64 {
    window.blocks_read as f64 / (window.blocks_hit + window.blocks_read).max(1) as f64
}

/// Blocks that scans of `window` read behind the one that they had read before: all that they came
/// to but the first of each run.
pub(super) fn read_on(window: &Window) -> f64 {
    let of = |level: &LevelSight| {
        let first = window.operations.scans.saturating_mul(level.runs);
        let walked = level.scan_blocks.saturating_sub(first) as f64;
        walked / level.scan_blocks.max(1) as f64 * level.scan_blocks_read as f64
    };
    window.levels.iter().map(of).sum()
}

/// What a table of `level` holds that merges read, about, in bytes. In level 0 it is what a flush
/// wrote.
pub(super) fn table_of(window: &Window, level: &LevelSight) -> f64 {
    let mean = |bytes: u64, count: u64| (count > 0 && bytes > 0).then(|| bytes as f64 / count as f64);
    let tables = mean(level.bytes, level.tables);
    let of_flushes = || mean(window.bytes_flushed, window.flushes);
    let one = if level.level == 0 { of_flushes().or(tables) } else { tables };
    one.unwrap_or(table_bytes(window) as f64)
}

/// Size at which tables are cut, as far as `window` tells: about half a table is missing in each
/// run's last.
pub(super) fn table_bytes(window: &Window) -> u64 {
    let of = |level: &LevelSight| level.bytes as f64 / (level.tables as f64 - 0.5 * level.runs as f64);
    let several = window.levels.iter().filter(|level| level.level > 0 && level.tables > level.runs);
    several.map(of).max_by(f64::total_cmp).map_or(TABLE_BYTES, |bytes| bytes as u64)
}

/// Whether small levels get more filter bits than large ones: where one level alone is to be seen,
/// they do by default.
pub(super) fn is_monkey(window: &Window) -> bool {
    let bits: Vec<f64> =
        window.levels.iter().filter(|level| level.entries > 0).map(|level| level.filter_bits).collect();
    let Some(deepest) = bits.last() else { return true };
    bits.len() == 1 || bits.iter().any(|bits| *bits > deepest + BITS_APART)
}

/// Keys that are there, as far as sizes tell: a run holds each once.
pub(super) fn keys(window: &Window) -> f64 {
    let entries = window.table_entries().max(1) as f64;
    let deepest = window.levels.iter().rev().find(|level| level.entries > 0);
    let Some(deepest) = deepest else { return entries };
    let run = deepest.entries as f64 / deepest.runs.max(1) as f64;
    // Of what is in other runs, part is new and part is there already.
    (run + 0.5 * (entries - run)).max(1.0)
}
