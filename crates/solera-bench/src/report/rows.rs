//! The table of one data set, as data: `groups` of `Row`s, a row for each number and a column for
//! each index kind.
//!
//! `phase_title` names a phase. The cells of a row share the scale of the largest.
//!
//! What must hold: text and web page print the same rows, so that they cannot disagree.
//!
//! Callers: `report::text` and `report::html`.

use super::{
    ArmReport, Phase, PhaseReport, SetReport, Spread,
    number::{Quantity, digits},
};

/// One number of every arm.
pub(super) struct Row {
    /// What it is.
    pub(super) label: String,
    /// The unit of every cell.
    pub(super) unit: String,
    /// One text per arm; `–` where there is nothing to say.
    pub(super) cells: Vec<String>,
}

impl Row {
    fn says_something(&self) -> bool {
        self.cells.iter().any(|cell| cell != NOTHING)
    }
}

/// Rows that belong together.
pub(super) struct Group {
    /// What they are about.
    pub(super) title: String,
    pub(super) rows: Vec<Row>,
}

/// The title of a phase.
pub(super) fn phase_title(phase: Phase, scan_entries: usize) -> String {
    match phase {
        Phase::FoundUniform => "Found reads, uniform".into(),
        Phase::FoundZipf => "Found reads, Zipf".into(),
        Phase::Absent => "Absent reads".into(),
        Phase::Scan => format!("Scans of {scan_entries}"),
        Phase::FullScan => "Full scan".into(),
    }
}

/// All rows of a data set.
pub(super) fn groups(set: &SetReport, scan_entries: usize) -> Vec<Group> {
    let plain = |label: &str, quantity: Quantity, value: &dyn Fn(&ArmReport) -> Option<f64>| {
        row(set, label, quantity, &|arm| value(arm).map(|x| (x, None)))
    };
    let mut load = vec![
        plain("rate", Quantity::Rate("puts"), &|arm| Some(arm.load.puts_per_s)),
        plain("flush and compaction after it", Quantity::Plain("s"), &|arm| Some(arm.load.settle_s)),
        plain("compaction to one run after that", Quantity::Plain("s"), &|arm| arm.load.compact_s),
        plain("writers waited, in all", Quantity::Plain("ms"), &|arm| {
            Some(arm.load.stall_us_total as f64 / 1e3)
        }),
        plain("writers waited, longest", Quantity::Plain("ms"), &|arm| {
            Some(arm.load.stall_us_max as f64 / 1e3)
        }),
        plain("written per byte of data", Quantity::Plain("B/B"), &|arm| Some(arm.load.write_amplification)),
    ];
    load.retain(Row::says_something);
    let mut groups = vec![Group { title: "Load in random order".into(), rows: load }];
    for phase in Phase::ALL {
        let of = |arm: &ArmReport| arm.phases.iter().find(|report| report.phase == phase).cloned();
        let spread = |label: &str, quantity: Quantity, value: &dyn Fn(PhaseReport) -> Option<Spread>| {
            row(set, label, quantity, &|arm| {
                of(arm).and_then(value).map(|spread| (spread.median, Some((spread.min, spread.max))))
            })
        };
        let per_read = |label: &str, value: &dyn Fn(PhaseReport) -> Option<f64>| {
            row(set, label, Quantity::Plain("blocks/read"), &|arm| of(arm).and_then(value).map(|x| (x, None)))
        };
        let mut rows = vec![
            spread("rate", Quantity::Rate(phase.operations()), &|report| Some(report.per_second)),
            spread("p50", Quantity::Nanoseconds, &|report| report.p50_ns),
            spread("p99", Quantity::Nanoseconds, &|report| report.p99_ns),
            per_read("blocks probed", &|report| report.blocks_probed_per_operation),
            per_read("blocks read from file", &|report| report.blocks_read_per_operation),
        ];
        rows.retain(Row::says_something);
        groups.push(Group { title: phase_title(phase, scan_entries), rows });
    }
    let raw_bytes = (set.key_bytes + set.value_bytes).max(1) as f64;
    let mut size = vec![
        plain("index, in memory", Quantity::Plain("B/key"), &|arm| Some(arm.size.index_file_bytes_per_key)),
        plain("filter, in memory", Quantity::Plain("B/key"), &|arm| Some(arm.size.filter_file_bytes_per_key)),
        plain("tables on disk", Quantity::Bytes, &|arm| Some(arm.size.table_bytes as f64)),
        plain("tables per byte of data", Quantity::Plain("B/B"), &|arm| {
            Some(arm.size.table_bytes as f64 / raw_bytes)
        }),
        plain("tables", Quantity::Plain("tables"), &|arm| Some(arm.size.tables as f64)),
    ];
    size.push(Row {
        label: "runs at levels 0, 1, ...".into(),
        unit: "runs".into(),
        cells: set.arms.iter().map(|arm| join(&arm.size.runs_per_level)).collect(),
    });
    groups.push(Group { title: "Size".into(), rows: size });
    groups
}

const NOTHING: &str = "–";

fn join(counts: &[usize]) -> String {
    if counts.is_empty() {
        return NOTHING.into();
    }
    counts.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// A row whose cells are a number, with its least and greatest if it was measured several times,
/// all at the scale of the largest.
fn row(
    set: &SetReport,
    label: &str,
    quantity: Quantity,
    value: &dyn Fn(&ArmReport) -> Option<(f64, Option<(f64, f64)>)>,
) -> Row {
    let values: Vec<_> = set.arms.iter().map(value).collect();
    let largest = values.iter().flatten().map(|(x, _)| *x).fold(0.0, f64::max);
    let scale = quantity.scale(largest);
    let show = |x: f64| digits(x / scale.divisor);
    let cell = |value: &Option<(f64, Option<(f64, f64)>)>| match value {
        None => NOTHING.to_owned(),
        Some((x, None)) => show(*x),
        Some((x, Some((min, max)))) => format!("{} [{} – {}]", show(*x), show(*min), show(*max)),
    };
    Row { label: label.into(), cells: values.iter().map(cell).collect(), unit: scale.unit }
}
