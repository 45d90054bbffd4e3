//! Found reads and scans where there is memory for everything: `section`, a part of the page of
//! LearnedKV.
//!
//! It measures two databases of the same pairs: values inline, and values separated with
//! `Reclaim::Tier`. Each is loaded, updated, flushed, walked until its values lie in order, and
//! read once.
//!
//! What must hold: both do as many operations of the same kinds, and take turns; each round begins
//! with the other one. The first `ROUNDS_UNTIMED` rounds do not count.
//!
//! Caller: `learnedkv::run`.

use super::{SCAN_ENTRIES, Site, VALUE_BYTES};
use crate::{
    paper::{
        Verdict,
        document::{Section, Table, cell},
        keeper::{KEY_BYTES, Keeper, Setting, Way},
        row,
    },
    report::Spread,
    runner::{Progress, Result},
};
use solera::Reclaim;

/// Memory for everything: so many bytes, and so many times the live ones.
const MEMORY_BYTES_ENOUGH: u64 = 256 << 20;
const MEMORY_TIMES: u64 = 4;
/// Rounds in memory that are not timed, and those of a repeat that are.
const ROUNDS_UNTIMED: usize = 3;
const ROUNDS_IN_MEMORY: usize = 3;
/// Found reads and scans with memory for everything, which is filled before: inline and `tier`,
/// both open, in turns.
pub(super) fn section(
    site: &Site<'_>,
    asked: &mut Vec<Verdict>,
    progress: &mut dyn Progress,
) -> Result<Section> {
    let (pairs, reads) = (site.scale.entries as u64, site.scale.lookups as u64);
    let ways = [Way::Inline, Way::Separated(Reclaim::Tier)];
    let mut keepers = Vec::new();
    for way in ways {
        let setting = site.setting(way, pairs, VALUE_BYTES);
        let memory_bytes = MEMORY_BYTES_ENOUGH + MEMORY_TIMES * setting.live_bytes();
        let mut keeper = Keeper::new(&Setting { memory_bytes, ..setting })?;
        let stage = format!("{}, in memory", way.name());
        let mut at = |done: u64, of: u64| progress.at(&stage, done, of);
        keeper.load(site.clock, &mut at)?;
        keeper.mixed(site.clock, pairs, 1, &mut at)?;
        keeper.flush()?;
        keeper.put_in_order()?;
        keeper.read_all()?;
        keepers.push(keeper);
    }
    // Found reads and entries of scans per second, of each way and round.
    let mut rates: [[Vec<f64>; 2]; 2] = Default::default();
    for round in 0..ROUNDS_UNTIMED + ROUNDS_IN_MEMORY * site.scale.repeats {
        for turn in 0..ways.len() {
            let way = (turn + round) % ways.len();
            let found = keepers[way].reads(site.clock, reads)?.0;
            let scanned = keepers[way].scans(site.clock, pairs / SCAN_ENTRIES + 1, SCAN_ENTRIES)?;
            if round >= ROUNDS_UNTIMED {
                rates[way][0].push(found);
                rates[way][1].push(scanned);
            }
        }
    }
    let mut table =
        Table::new("Thousand found reads, and entries of scans, per second", &["way", "reads", "scans"]);
    for (way, [found, scanned]) in ways.iter().zip(&rates) {
        let shown = [found, scanned].map(|rates| cell(&Spread::of(rates.clone()), 1e3));
        table.row(way.name(), shown);
    }
    for (at, what, least) in [(0, "found reads", 1.0), (1, "scans of 500", 0.9)] {
        let beside = rates[0][at].iter().zip(&rates[1][at]).map(|(inline, tier)| tier / inline);
        let beside = Spread::of(beside.collect()).median;
        row(
            asked,
            format!("{what} in memory are at least {least:.1} times those of inline (`tier`)"),
            format!("{beside:.2} times"),
            beside >= least,
        );
    }
    Ok(Section {
        title: "In memory".into(),
        text: vec![format!(
            "{pairs} pairs of {KEY_BYTES} + {VALUE_BYTES} bytes, with memory for four times as much. After as many updates, a flush \
             and walks that put values into order, each value is read once; then both databases take turns. The first {ROUNDS_UNTIMED} rounds do not count."
        )],
        tables: vec![table],
        ..Section::default()
    })
}
