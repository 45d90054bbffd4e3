//! L3, cell by cell: what value size, over-provision and the error bound do (`sizes`, `spares`,
//! `bounds`).
//!
//! A cell loads, updates as many pairs as there are, scans and reads. `sizes` is of all ways that
//! give space back and of inline, `spares` of the former alone, `bounds` of `learnedkv`.
//!
//! What must hold: each cell has a database of its own in each repeat, and all of a table hold
//! about as many bytes. Figures are medians of the repeats.
//!
//! Caller: `learnedkv::run`.

use super::{SCAN_ENTRIES, SPARE_PERCENT, Site, VALUE_BYTES};
use crate::{
    paper::{
        document::{Section, Table},
        keeper::{Holding, KEY_BYTES, Keeper, Setting, Way},
    },
    report::{
        Spread,
        number::{bytes, digits},
    },
    runner::{Progress, Result},
};
use solera::{Layout, Reclaim};

/// Value sizes, in bytes.
const SIZES: [usize; 5] = [64, 256, 1016, 4096, 16_384];
/// The most pairs of a cell, in multiples of those at 1 KiB.
const PAIRS_TIMES_MAX: u64 = 4;
/// Over-provisions, in percent.
const SPARES: [u32; 5] = [10, 20, 30, 40, 50];
/// Error bounds, in entries.
const BOUNDS: [u32; 4] = [8, 32, 128, 1000];

/// What a cell of L3 shows.
struct Cell {
    load: f64,
    churn: f64,
    updates: f64,
    reads: f64,
    calls: Option<f64>,
    scans: f64,
    /// The same once walks have put values into order.
    scans_in_order: f64,
    space: f64,
    holding: Holding,
}

/// Loads, updates as many pairs as there are, reads and scans.
fn measured(site: &Site<'_>, setting: &Setting, what: &str, progress: &mut dyn Progress) -> Result<Cell> {
    let pair = KEY_BYTES + setting.value_bytes as u64;
    let reads = (site.scale.lookups as u64 / 10).max(100);
    let mut keeper = Keeper::new(setting)?;
    let stage = format!("L3, {}: {what}", setting.way.name());
    let mut at = |done: u64, of: u64| progress.at(&stage, done, of);
    let load = keeper.load(site.clock, &mut at)?;
    let phase = keeper.mixed(site.clock, setting.pairs, reads, &mut at)?;
    let scans = keeper.scans(site.clock, 20, SCAN_ENTRIES)?;
    let (found, calls) = keeper.reads(site.clock, reads)?;
    let holding = keeper.holding()?;
    keeper.put_in_order()?;
    let scans_in_order = keeper.scans(site.clock, 20, SCAN_ENTRIES)?;
    Ok(Cell {
        load: load.written.all() as f64 / (load.writes.count * pair) as f64,
        churn: phase.written.all() as f64 / (phase.writes.count * pair) as f64,
        updates: phase.writes.per_second(),
        reads: found,
        calls,
        scans,
        scans_in_order,
        space: holding.space as f64 / setting.live_bytes() as f64,
        holding,
    })
}

/// The median over the repeats of each figure.
fn cells(site: &Site<'_>, setting: &Setting, what: &str, progress: &mut dyn Progress) -> Result<Vec<Cell>> {
    (0..site.scale.repeats).map(|_| measured(site, setting, what, progress)).collect()
}

fn median(cells: &[Cell], of: impl Fn(&Cell) -> f64) -> f64 {
    Spread::of(cells.iter().map(of).collect()).median
}

/// The columns of a table of L3.
const COLUMNS: [&str; 8] = [
    "P0 written",
    "P1 written",
    "K updates/s",
    "K reads/s",
    "read calls",
    "K entries/s scanned",
    "in order",
    "space",
];

fn figures(cells: &[Cell]) -> [String; 8] {
    let calls = median(cells, |cell| cell.calls.unwrap_or(f64::NAN));
    [
        digits(median(cells, |cell| cell.load)),
        digits(median(cells, |cell| cell.churn)),
        digits(median(cells, |cell| cell.updates) / 1e3),
        digits(median(cells, |cell| cell.reads) / 1e3),
        format!("{calls:.3}"),
        digits(median(cells, |cell| cell.scans) / 1e3),
        digits(median(cells, |cell| cell.scans_in_order) / 1e3),
        digits(median(cells, |cell| cell.space)),
    ]
}

fn heads(first: &'static str) -> Vec<&'static str> {
    [first].into_iter().chain(COLUMNS).collect()
}

/// L3: value sizes.
pub(super) fn sizes(site: &Site<'_>, progress: &mut dyn Progress) -> Result<Section> {
    let data = site.scale.entries_small as u64 * (KEY_BYTES + VALUE_BYTES as u64);
    let mut tables = Vec::new();
    for value_bytes in SIZES {
        let pairs = (data / (KEY_BYTES + value_bytes as u64))
            .min(PAIRS_TIMES_MAX * site.scale.entries_small as u64)
            .max(100);
        let title = format!("{pairs} pairs with values of {value_bytes} bytes");
        let mut table = Table::new(title, &heads("way"));
        for way in Way::all().into_iter().filter(|way| *way != Way::Separated(Reclaim::Off)) {
            let setting = site.setting(way, pairs, value_bytes);
            let found = cells(site, &setting, &format!("values of {value_bytes} bytes"), progress)?;
            table.row(way.name(), figures(&found));
        }
        tables.push(table);
    }
    Ok(Section {
        title: "L3: value size".into(),
        text: vec![format!(
            "Over-provision {SPARE_PERCENT} %. After the load come as many updates as pairs, by Zipf's law. Bytes written are for each \
             byte put, settled; space is for each live byte. Reads and scans are at rest; scans also once walks have put values \
             into order."
        )],
        tables,
        ..Section::default()
    })
}

/// L3: over-provision.
pub(super) fn spares(site: &Site<'_>, progress: &mut dyn Progress) -> Result<Section> {
    let pairs = site.scale.entries_small as u64;
    let mut tables = Vec::new();
    let ways = Way::all();
    for &way in ways.iter().filter(|way| matches!(way, Way::Separated(way) if *way != Reclaim::Off)) {
        let mut table =
            Table::new(format!("`{}`, by over-provision in percent", way.name()), &heads("spare, %"));
        for spare_percent in SPARES {
            let setting = Setting { spare_percent, ..site.setting(way, pairs, VALUE_BYTES) };
            let found = cells(site, &setting, &format!("{spare_percent} % spare"), progress)?;
            table.row(spare_percent.to_string(), figures(&found));
        }
        tables.push(table);
    }
    Ok(Section {
        title: "L3: over-provision".into(),
        text: vec![format!("{pairs} pairs of {KEY_BYTES} + {VALUE_BYTES} bytes; columns as above.")],
        tables,
        ..Section::default()
    })
}

/// L3: the error bound of the model over the key list.
pub(super) fn bounds(site: &Site<'_>, progress: &mut dyn Progress) -> Result<Section> {
    let pairs = site.scale.entries_small as u64;
    let way = Way::Separated(Reclaim::LearnedKv);
    let mut table = Table::new(
        "`learnedkv`, by the error bound in entries",
        &["bound", "index in memory", "K reads/s", "read calls", "K entries/s scanned"],
    );
    for epsilon in BOUNDS {
        let base = site.setting(way, pairs, VALUE_BYTES);
        let setting = Setting { layout: Layout { epsilon, ..base.layout }, ..base };
        let found = cells(site, &setting, &format!("bound {epsilon}"), progress)?;
        let [_, _, _, reads, calls, scans, ..] = figures(&found);
        let index = bytes(median(&found, |cell| cell.holding.index_bytes as f64) as u64);
        table.row(epsilon.to_string(), [index, reads, calls, scans]);
    }
    Ok(Section {
        title: "L3: error bound".into(),
        text: vec![format!(
            "{pairs} pairs of {KEY_BYTES} + {VALUE_BYTES} bytes, over-provision {SPARE_PERCENT} %."
        )],
        tables: vec![table],
        ..Section::default()
    })
}
