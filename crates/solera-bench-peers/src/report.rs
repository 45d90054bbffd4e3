//! Results as a Markdown page and as a web page with charts: medians with their spread, and the ratio of
//! Solera to each peer.

use crate::{
    aim,
    column::{COLUMNS, P99, RATE, RESIDENT, cells},
    compare::{Results, SetResults},
    phase::Phase,
};
use solera_bench::{
    report::number::{Quantity, date, digits},
    report::{
        chart::Chart,
        html::{escape, page},
    },
};
use std::fmt::Write;

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
        if set.lz4 { "LZ4" } else { "no compression" },
        if set.direct { "; tables read past the page cache" } else { "" }
    )
}

fn shown(quantity: Quantity, value: f64) -> String {
    let scale = quantity.scale(value);
    format!("{} {}", digits(value / scale.divisor), scale.unit)
}

/// The results of one run or several as Markdown.
pub fn markdown(runs: &[Results]) -> String {
    let mut out = String::from(
        "# Solera beside its peers\n\nWritten by `solera-bench-peers report`. A ratio is Solera's median to the peer's, turned so that more than 1 is better for Solera.\n",
    );
    let row = |cells: [String; 7]| format!("| {} |\n", cells.join(" | "));
    let _ = write!(
        out,
        "\n## Aims\n\n{}\n\n{}|{}\n",
        aim::ABOUT,
        row(aim::HEADS.map(Into::into)),
        "---|".repeat(7)
    );
    aim::held(runs).iter().for_each(|held| out.push_str(&row(held.cells())));
    for run in runs {
        out.push_str("\n---\n\n");
        for (name, text) in facts(run) {
            let _ = writeln!(out, "- **{name}**: {text}");
        }
        run.sets.iter().for_each(|set| tell(set, &mut out));
    }
    out
}

/// One set, phase by phase.
fn tell(set: &SetResults, out: &mut String) {
    let _ = write!(out, "\n## {}\n\n{}\n", title(set), conditions(set));
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

/// The results of one run or several as one web page that needs nothing else.
pub fn html(runs: &[Results]) -> String {
    let row = |tag: &str, cells: [String; 7]| {
        let cells = cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(&cell.replace("**", ""))));
        format!("<tr>{}</tr>\n", cells.concat())
    };
    let heads = row("th", aim::HEADS.map(Into::into));
    let aims: String = aim::held(runs).iter().map(|held| row("td", held.cells())).collect();
    let mut body = format!(
        "<h2>Aims</h2><p class=\"soft\">{}</p><div class=\"wide\"><table>{heads}{aims}</table></div>",
        aim::ABOUT
    );
    for (run, set) in runs.iter().flat_map(|run| run.sets.iter().map(move |set| (run, set))) {
        let _ = write!(body, "<h2>{}</h2><p class=\"soft\">{}</p><dl>", title(set), conditions(set));
        for (name, text) in facts(run) {
            let _ = write!(body, "<dt>{name}</dt><dd>{}</dd>", escape(&text));
        }
        body.push_str("</dl><div class=\"charts\">\n");
        for phase in phases(set) {
            for column in [&RATE, &P99, &RESIDENT] {
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
    page("Solera beside its peers", &[], &body)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            [markdown(runs), html(runs)]
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
