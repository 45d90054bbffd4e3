//! Results as a Markdown page with pictures: `markdown` and `pictures`.
//!
//! The page tells the aims (`aim`); then, of each set and phase, medians and the ratio of Solera to
//! each peer. Rates have their least and greatest value too. There is a picture of rates for each
//! set, and one of read time over size where three sizes were measured.
//!
//! What must hold: a ratio above 1 is better for Solera. A set tells its number of clients if it is
//! not one. The page names command, commit, machine and memory.
//!
//! Caller: `main`.

use crate::{
    aim,
    column::{COLUMNS, RATE, cells, median},
    compare::{Results, SetResults},
    engines,
    phase::Phase,
    results::PAGE_TITLE,
};
use solera_bench::{
    paper::document::wrapped,
    report::number::{Quantity, count, date, digits},
    report::{
        chart::Chart,
        lines::LineChart,
        picture::{Drawing, sheet},
    },
};
use std::{collections::BTreeMap, fmt::Write};

fn phases(set: &SetResults) -> impl Iterator<Item = Phase> {
    set.engines.first().into_iter().flat_map(|engine| engine.phases.iter().map(|(phase, _)| *phase))
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    vec![
        ("command", results.command.clone()),
        ("commit", results.commit.clone().unwrap_or_else(|| "unknown".into())),
        ("machine", results.machine.clone()),
        ("peers", results.peers.clone()),
        ("run", format!("{}, {:.0} s", date(results.started_unix_s), results.run_s)),
        (
            "method",
            format!(
                "every engine in a process of its own; one process works at a time; median [least – greatest] of up to {} \
             repeats, alone where there was one; engines interleaved; checked are values of single reads and of multi-get, the last key \
             of a scan, number and bytes of a full scan, and in mixes that what is asked for is there",
                results.repeats
            ),
        ),
    ]
}

/// What the data is, and by how many client threads it was asked for if not by one.
fn title(set: &SetResults) -> String {
    match set.threads {
        1 => set.name.clone(),
        threads => format!("{}, {threads} client threads", set.name),
    }
}

/// What compresses the data, and in which engines something else or nothing does.
fn compression(set: &SetResults) -> String {
    if !set.lz4 {
        return "no compression".into();
    }
    let another = set.engines.iter().filter_map(|engine| match engines::compression(&engine.engine) {
        Some("LZ4") => None,
        other => Some(format!("{} in {}", other.unwrap_or("none"), engine.engine)),
    });
    let another: Vec<String> = another.collect();
    if another.is_empty() { "LZ4".into() } else { format!("LZ4 ({})", another.join(", ")) }
}

fn conditions(set: &SetResults) -> String {
    let clients = match set.threads {
        1 => String::new(),
        threads => format!(
            "; {threads} client threads at the same time, but one in full scans and two in the phase two-threads, and \
             one writer at a time in LMDB and redb"
        ),
    };
    format!(
        "{} pairs, {} of keys and values; memory budget {} for every engine that can be told (LMDB cannot, nor can the system's page \
         cache, from which rocksdb-paper reads); {}{}{clients}",
        set.entries,
        shown(Quantity::Bytes, set.data_bytes as f64),
        shown(Quantity::Bytes, set.memory_bytes as f64),
        compression(set),
        if set.direct { "; tables read past the page cache" } else { "" }
    )
}

fn shown(quantity: Quantity, value: f64) -> String {
    let scale = quantity.scale(value);
    format!("{} {}", digits(value / scale.divisor), scale.unit)
}

/// The results of one run or several as Markdown, whose pictures lie in `pictures`; with none, it
/// names none.
pub fn markdown(runs: &[Results], pictures: Option<&str>) -> String {
    let mut out = format!(
        "# {PAGE_TITLE}\n\nA ratio is Solera's median to the peer's, turned so that more than 1 is better for Solera.\n"
    );
    let _ = write!(out, "\n## Aims\n\n{}\n\n{}", aim::ABOUT, aim::table(runs));
    if let (Some(pictures), false) = (pictures, sizes(runs).is_empty()) {
        let _ = write!(
            out,
            "\n## Time of a read over size\n\n![Time of a read over size]({pictures}/sizes.svg)\n"
        );
    }
    let mut number = 0;
    for run in runs {
        out.push_str("\n---\n\n");
        for (name, text) in facts(run) {
            out.push_str(&wrapped(&format!("- **{name}**: {text}")));
        }
        for set in &run.sets {
            let picture = pictures.map(|pictures| format!("{pictures}/{}", picture_name(number)));
            tell(set, picture.as_deref(), &mut out);
            number += 1;
        }
    }
    out
}

/// One set, phase by phase.
fn tell(set: &SetResults, picture: Option<&str>, out: &mut String) {
    let title = title(set);
    let _ = write!(out, "\n## {title}\n\n{}\n", wrapped(&conditions(set)));
    if let Some(picture) = picture {
        let _ = writeln!(out, "![{title}]({picture})");
    }
    for phase in phases(set) {
        let _ = write!(out, "\n### {}\n\n{}\n", phase.name(), wrapped(&format!("{}.", phase.about())));
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
            let own =
                cells.iter().find(|(engine, _)| *engine == "solera").and_then(|(_, spread)| spread.clone());
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

/// The pictures of a page: file name and SVG. One for each set of each run, with the rate of every
/// phase; and one of the time of a read over size, where sets differ in size alone.
pub fn pictures(runs: &[Results]) -> Vec<(String, String)> {
    let sets = runs.iter().flat_map(|run| &run.sets).enumerate();
    let mut pictures: Vec<_> = sets.map(|(number, set)| (picture_name(number), picture(set))).collect();
    let charts = sizes(runs);
    if !charts.is_empty() {
        pictures.push(("sizes.svg".into(), sheet("Time of a read over size", &charts)));
    }
    pictures
}

/// Of each recipe of data that was measured in three sizes or more: how long a found read takes
/// each engine, over the size.
fn sizes(runs: &[Results]) -> Vec<Drawing> {
    let mut alike: BTreeMap<&str, Vec<&SetResults>> = BTreeMap::new();
    for set in runs.iter().flat_map(|run| &run.sets) {
        let is_plain = set.threads == 1 && !set.direct && !set.lz4 && set.memory_bytes > set.data_bytes;
        let recipe = set.name.split('@').next().filter(|_| is_plain);
        recipe.into_iter().for_each(|recipe| alike.entry(recipe).or_default().push(set));
    }
    let chart = |(recipe, mut sets): (&str, Vec<&SetResults>)| {
        sets.sort_by_key(|set| set.entries);
        // Of sets of one size the first that was told.
        sets.dedup_by_key(|set| set.entries);
        let smallest = sets[0].entries;
        if sets.len() < 3 {
            return None;
        }
        let engines = &sets[0].engines;
        let lines: Vec<(&str, Vec<(f64, f64)>)> = engines
            .iter()
            .map(|engine| {
                let point = |set: &&SetResults| {
                    let rate = median(set, &engine.engine, Phase::FoundUniform, &RATE)?;
                    Some(((set.entries as f64 / smallest as f64).log2(), 1e9 / rate))
                };
                (&engine.engine[..], sets.iter().filter_map(point).collect())
            })
            .collect();
        let chart = LineChart {
            title: &format!("{recipe}: a found read"),
            quantity: Quantity::Nanoseconds,
            better: "lower",
            over: &format!("doublings of {}", count(smallest as u64)),
            mark: None,
            lines: lines.iter().map(|(name, points)| (*name, &points[..])).collect(),
        };
        Some(chart.draw())
    };
    alike.into_iter().filter_map(chart).collect()
}

fn picture_name(set: usize) -> String {
    format!("{}.svg", set + 1)
}

fn picture(set: &SetResults) -> String {
    let charts = phases(set).filter_map(|phase| {
        let cells = cells(set, phase, &RATE).into_iter();
        let bars: Vec<_> = cells.filter_map(|(name, spread)| Some((name, spread?))).collect();
        let chart = Chart { title: &phase.name(), quantity: RATE.quantity, better: "higher", bars };
        (!chart.bars.is_empty()).then(|| chart.draw())
    });
    sheet(&title(set), &charts.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::EngineResults;

    #[test]
    fn a_set_tells_which_engines_do_not_compress_with_lz4() {
        let engine = |name: &str| EngineResults { engine: name.into(), phases: Vec::new() };
        let mut set = SetResults {
            name: "uniform/8+64".into(),
            entries: 5,
            data_bytes: 360,
            memory_bytes: 1000,
            direct: false,
            lz4: true,
            threads: 1,
            engines: ["solera", "rocksdb-tuned", "lmdb", "surrealkv"].map(engine).into(),
        };
        assert!(conditions(&set).contains("; LZ4 (none in lmdb, Snappy in surrealkv)"));
        set.lz4 = false;
        assert!(conditions(&set).contains("no compression") && !conditions(&set).contains("Snappy"));
    }

    #[test]
    fn a_set_tells_its_clients_if_they_are_not_one() {
        let mut results: Results = serde_json::from_str(
            r#"{"command": "compare", "commit": null, "machine": "m", "started_unix_s": 0, "run_s": 1, "repeats": 1,
            "sets": [{"name": "uniform/8+64", "entries": 5, "data_bytes": 360, "memory_bytes": 1000,
            "direct": false, "lz4": false, "engines": []}]}"#,
        )
        .unwrap();
        let pages = |results: &Results| {
            let runs = std::slice::from_ref(results);
            [markdown(runs, Some("peers")), markdown(runs, None)]
        };
        assert!(pages(&results).iter().all(|page| !page.contains("client threads")));
        results.sets[0].threads = 3;
        for page in pages(&results) {
            assert!(
                page.contains("uniform/8+64, 3 client threads") && page.contains("; 3 client threads at")
            );
        }
    }
}
