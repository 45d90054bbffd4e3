//! `solera trace show`: what a trace holds, as text or JSON.
//!
//! It prints `summary`'s counts for each keyspace: operations by kind, the mix, keys, and lengths.
//!
//! What must hold: how a trace ended, and what was left out, is said.
//!
//! Caller: `command::trace`.

use super::{
    remark,
    summary::{Counts, Summary},
};
use crate::{
    failure::{Outcome, Result},
    output::{print_json, print_text, utc},
    progress, units,
};
use serde_json::{Value, json};
use solera::trace::Ending;
use std::{fmt::Write, path::PathBuf};

/// Print what a trace holds: operations by kind and keyspace, the mix, distinct keys, skew, what is
/// missing
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
The mix is in the words of `solera cost`: v lookups of absent keys, r of present ones, q scans, w writes. `hottest 1 %` is the \
share of lookups and writes that the most used hundredth of the keys has: 1 % if all are used alike.")]
pub(crate) struct Show {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<Outcome> {
        let bytes = std::fs::metadata(&self.file).ok().map(|file| file.len());
        let bar = progress::bar(bytes);
        let (summary, ending) = Summary::read(&self.file, &bar)?;
        bar.finish_and_clear();
        if self.json {
            print_json(&to_json(&summary, &ending))?;
        } else {
            print_text(&to_text(&summary, &ending))?;
        }
        Ok(Outcome::Done)
    }
}

fn to_json(summary: &Summary, ending: &Ending) -> Value {
    let keyspace = |(name, counts): (&String, &Counts)| {
        let [v, r, q, w] = counts.mix();
        json!({
            "name": name,
            "operations": counts.operations(),
            "absent_lookups": counts.absent,
            "found_lookups": counts.found,
            "scans_up": counts.scans_up,
            "scans_down": counts.scans_down,
            "entries_up": counts.entries_up,
            "entries_down": counts.entries_down,
            "puts": counts.puts,
            "expiring_puts": counts.expiring_puts,
            "deletes": counts.deletes,
            "range_deletes": counts.range_deletes,
            "merges": counts.merges,
            "drops": counts.drops,
            "value_bytes_mean": counts.value_bytes_mean(),
            "mix": { "v": v, "r": r, "q": q, "w": w },
            "distinct_keys": counts.distinct_keys(),
            "hottest_percent_share": counts.hottest_share(),
        })
    };
    json!({
        "begun_unix_ms": (summary.operations() > 0).then_some(summary.first_us / 1000),
        "seconds": summary.seconds(),
        "operations": summary.operations(),
        "batches": summary.batches,
        "dropped": summary.dropped,
        "keys_hashed": summary.hashed,
        "bytes": ending.bytes,
        "ended": ending.ended,
        "cut_bytes": ending.cut_bytes,
        "keyspaces": summary.keyspaces.iter().map(keyspace).collect::<Vec<_>>(),
    })
}

fn to_text(summary: &Summary, ending: &Ending) -> String {
    let mut out = String::new();
    let operations = summary.operations();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{}{}; {}{}",
        units::plural(operations, "operation"),
        // Without one there is no moment.
        match operations {
            0 => String::new(),
            _ => format!(" in {} from {}", units::seconds(summary.seconds()), utc(summary.first_us / 1000)),
        },
        units::bytes(ending.bytes),
        if summary.hashed { ", keys are hashes" } else { "" },
    );
    if summary.dropped > 0 {
        let _ =
            writeln!(out, "{} were left out while recording", units::plural(summary.dropped, "operation"));
    }
    if let Some(remark) = remark(ending) {
        let _ = writeln!(out, "{remark}");
    }
    if summary.batches > 0 {
        let _ = writeln!(out, "{} of several writes", units::plural(summary.batches, "batch-commit"));
    }
    for (name, counts) in &summary.keyspaces {
        keyspace_text(&mut out, name, counts);
    }
    out
}

fn keyspace_text(out: &mut String, name: &str, counts: &Counts) {
    let _ = writeln!(out, "keyspace {}", name.escape_debug());
    let [v, r, q, w] = counts.mix().map(|share| (share * 1000.0).round() / 10.0);
    let _ = writeln!(out, "  mix            v={v} r={r} q={q} w={w} %");
    let each =
        |entries: u64, scans: u64| format!("{:.1} entries in the mean", entries as f64 / scans.max(1) as f64);
    let values = counts.value_bytes_mean().map(|bytes| format!("values of {bytes} bytes in the mean"));
    for (kind, count, remark) in [
        ("found lookups", counts.found, String::new()),
        ("absent lookups", counts.absent, String::new()),
        ("scans up", counts.scans_up, each(counts.entries_up, counts.scans_up)),
        ("scans down", counts.scans_down, each(counts.entries_down, counts.scans_down)),
        ("puts", counts.puts, values.unwrap_or_default()),
        ("expiring puts", counts.expiring_puts, String::new()),
        ("deletes", counts.deletes, String::new()),
        ("range deletes", counts.range_deletes, String::new()),
        ("merges", counts.merges, String::new()),
        ("drops", counts.drops, String::new()),
    ] {
        if count > 0 {
            let _ =
                writeln!(out, "{}", format!("  {kind:<14} {:>14}  {remark}", units::count(count)).trim_end());
        }
    }
    let hottest =
        counts.hottest_share().map(|share| format!("hottest 1 %: {:.1} % of their uses", share * 100.0));
    let keys = units::count(counts.distinct_keys());
    let _ = writeln!(
        out,
        "{}",
        format!("  {:<14} {keys:>14}  {}", "distinct keys", hottest.unwrap_or_default()).trim_end()
    );
}
