//! Results as a Markdown page and as a web page with charts: medians with their spread, and the ratio of
//! Solera to each peer.

use crate::{
    compare::{Results, SetResults},
    phase::{Measured, Phase},
};
use solera_bench::{
    Spread,
    report::number::{Quantity, date, digits},
    report::{chart::Chart, html::page},
};
use std::fmt::Write;

/// A quantity of a phase.
struct Column {
    title: &'static str,
    quantity: Quantity,
    higher_is_better: bool,
    of: fn(&Measured) -> Option<f64>,
}

const COLUMNS: [Column; 11] = [
    Column {
        title: "rate",
        quantity: Quantity::Rate("op"),
        higher_is_better: true,
        of: |m| Some(m.operations as f64 / m.seconds),
    },
    Column {
        title: "p50",
        quantity: Quantity::Nanoseconds,
        higher_is_better: false,
        of: |m| Some(m.latency_ns?[0] as f64),
    },
    Column {
        title: "p95",
        quantity: Quantity::Nanoseconds,
        higher_is_better: false,
        of: |m| Some(m.latency_ns?[1] as f64),
    },
    Column {
        title: "p99",
        quantity: Quantity::Nanoseconds,
        higher_is_better: false,
        of: |m| Some(m.latency_ns?[2] as f64),
    },
    Column {
        title: "p99.9",
        quantity: Quantity::Nanoseconds,
        higher_is_better: false,
        of: |m| Some(m.latency_ns?[3] as f64),
    },
    Column {
        title: "longest write",
        quantity: Quantity::Nanoseconds,
        higher_is_better: false,
        of: |m| Some(m.write_ns_max? as f64),
    },
    Column {
        title: "processor time per million",
        quantity: Quantity::Plain("s"),
        higher_is_better: false,
        of: |m| Some(m.cpu_seconds * 1e6 / m.operations as f64),
    },
    Column {
        title: "written per byte put",
        quantity: Quantity::Plain("B/B"),
        higher_is_better: false,
        of: |m| m.written_per_byte,
    },
    Column {
        title: "space per byte",
        quantity: Quantity::Plain("B/B"),
        higher_is_better: false,
        of: |m| m.space_per_byte,
    },
    Column {
        title: "resident memory",
        quantity: Quantity::Bytes,
        higher_is_better: false,
        of: |m| Some(m.resident_bytes? as f64),
    },
    Column {
        title: "indexes and filters",
        quantity: Quantity::Bytes,
        higher_is_better: false,
        of: |m| Some((m.index_bytes? + m.filter_bytes?) as f64),
    },
];

/// Of each engine that has it, the spread of this quantity in this phase.
fn cells<'a>(set: &'a SetResults, phase: Phase, column: &Column) -> Vec<(&'a str, Option<Spread>)> {
    let of = |phases: &[(Phase, Vec<Measured>)]| {
        let (_, repeats) = phases.iter().find(|(measured, _)| *measured == phase)?;
        let values: Option<Vec<f64>> = repeats.iter().map(column.of).collect();
        values.filter(|values| !values.is_empty()).map(Spread::of)
    };
    set.engines.iter().map(|engine| (&engine.engine[..], of(&engine.phases))).collect()
}

fn phases(set: &SetResults) -> impl Iterator<Item = Phase> {
    set.engines.first().into_iter().flat_map(|engine| engine.phases.iter().map(|(phase, _)| *phase))
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("command", results.command.clone()),
        ("commit", results.commit.clone().unwrap_or_else(|| "unknown".into())),
        ("machine", results.machine.clone()),
        ("run", format!("{}, {:.0} s", date(results.started_unix_s), results.run_s)),
        (
            "method",
            format!(
                "every engine in a process of its own; one process works at a time; median [least – greatest] of {} \
             repeats, engines interleaved; every answer of the reading phases checked",
                results.repeats
            ),
        ),
    ]
}

fn conditions(set: &SetResults) -> String {
    format!(
        "{} pairs, {} of keys and values; memory budget {} for every engine; {}",
        set.entries,
        shown(Quantity::Bytes, set.data_bytes as f64),
        shown(Quantity::Bytes, set.memory_bytes as f64),
        if set.lz4 { "LZ4" } else { "no compression" }
    )
}

fn shown(quantity: Quantity, value: f64) -> String {
    let scale = quantity.scale(value);
    format!("{} {}", digits(value / scale.divisor), scale.unit)
}

/// The results as Markdown.
pub fn markdown(results: &Results) -> String {
    let mut out = String::from(
        "# Solera beside its peers\n\nWritten by `solera-bench-peers report`. A ratio is Solera's median to the peer's, turned so that more than 1 is better for Solera.\n\n",
    );
    for (name, text) in facts(results) {
        let _ = writeln!(out, "- **{name}**: {text}");
    }
    for set in &results.sets {
        let _ = write!(out, "\n## {}\n\n{}\n", set.name, conditions(set));
        for phase in phases(set) {
            let _ = write!(out, "\n### {}\n\n{}.\n\n", phase.name(), phase.about());
            let _ = write!(out, "| |");
            set.engines.iter().for_each(|engine| {
                let _ = write!(out, " {} |", engine.engine);
            });
            let _ = write!(out, "\n|---|{}\n", "---|".repeat(set.engines.len()));
            for column in &COLUMNS {
                let cells = cells(set, phase, column);
                if cells.iter().all(|(_, spread)| spread.is_none()) {
                    continue;
                }
                let own = cells
                    .iter()
                    .find(|(engine, _)| *engine == "solera")
                    .and_then(|(_, spread)| spread.clone());
                let _ = write!(out, "| {} |", column.title);
                for (engine, spread) in &cells {
                    let Some(spread) = spread else {
                        out.push_str(" – |");
                        continue;
                    };
                    let scale = column.quantity.scale(spread.median);
                    let _ = write!(out, " {} {}", digits(spread.median / scale.divisor), scale.unit);
                    if spread.repeats.len() > 1 && column.title == "rate" {
                        let _ = write!(
                            out,
                            " [{} – {}]",
                            digits(spread.min / scale.divisor),
                            digits(spread.max / scale.divisor)
                        );
                    }
                    if let (Some(own), false) = (&own, *engine == "solera") {
                        let ratio = if column.higher_is_better {
                            own.median / spread.median
                        } else {
                            spread.median / own.median
                        };
                        if ratio.is_finite() {
                            let _ = write!(out, " (**{ratio:.2}×**)");
                        }
                    }
                    out.push_str(" |");
                }
                out.push('\n');
            }
        }
    }
    out
}

/// The results as one web page that needs nothing else.
pub fn html(results: &Results) -> String {
    let mut body = String::new();
    for set in &results.sets {
        let _ = writeln!(
            body,
            "<h2>{}</h2><p class=\"soft\">{}</p><div class=\"charts\">",
            set.name,
            conditions(set)
        );
        for phase in phases(set) {
            for column in [&COLUMNS[0], &COLUMNS[3], &COLUMNS[9]] {
                let bars: Vec<_> = cells(set, phase, column)
                    .into_iter()
                    .filter_map(|(name, spread)| Some((name, spread?)))
                    .collect();
                if bars.is_empty() {
                    continue;
                }
                let title = format!("{}, {}", phase.name(), column.title);
                let better = if column.higher_is_better { "higher" } else { "lower" };
                let _ = writeln!(
                    body,
                    "{}",
                    Chart { title: &title, quantity: column.quantity, better, bars }.render()
                );
            }
        }
        body.push_str("</div>\n");
    }
    page("Solera beside its peers", &facts(results), &body)
}
