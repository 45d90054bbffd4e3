//! `solera stats`: what keyspaces hold and what their bytes are, as text or JSON. It takes one
//! keyspace or all, and its numbers from `Keyspace::stats`.
//!
//! Text has a line each for entries, tables, live and useless bytes, index, filters and memtables.
//! Index and filters have bytes per entry there. JSON has totals instead, and also damaged tables
//! and every level with its runs.
//!
//! It owns how a level and damage are written in JSON (`level_json`, `damaged_json`).
//!
//! What must hold: what a handle counts since the open is left out, since this process has only
//! opened it. All keyspaces are printed first; then damaged tables make the command fail.
//!
//! Callers: `main`; `command::levels` shares the JSON.

use crate::{
    failure::{Failure, Outcome, Result},
    output::{json_bytes, print_json, print_text},
    target::{Database, damage},
    units,
};
use serde_json::{Map, Value, json};
use solera::{DamagedTable, KeyspaceStats, LevelStats, RunStats};
use std::{collections::BTreeMap, fmt::Write};

/// Print sizes of the database: entries, tables, index and filter bytes per key, levels
#[derive(Debug, clap::Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    database: Database,
    /// Only this keyspace [default: all]
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Print one JSON object per keyspace
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self) -> Result<Outcome> {
        let all = self.database.keyspace_stats(self.keyspace.as_deref())?;
        let print = |stats: &KeyspaceStats| match self.json {
            true => print_json(&to_json(stats)),
            false => print_text(&to_text(stats)),
        };
        let printed = all.iter().try_for_each(print).map_err(Failure::from);
        Failure::told(damage(&all).map_or(Ok(Outcome::Done), Err), printed)
    }
}

/// The numbers that a keyspace's handle counts since the open are left out: this process has only
/// opened it.
fn to_json(stats: &KeyspaceStats) -> Value {
    json!({
        "keyspace": stats.name,
        "index": stats.index,
        "filters": stats.filters,
        "entries": stats.entries,
        "memtable_entries": stats.memtable_entries,
        "blocks": stats.blocks,
        "table_bytes": stats.table_bytes,
        "index_bytes": stats.index_bytes,
        "filter_bytes": stats.filter_bytes,
        "memtable_bytes": stats.memtable_bytes,
        "space": stats.space.named().into_iter().collect::<BTreeMap<_, _>>(),
        "drain_seconds": stats.space.drain_seconds(),
        "sealed_memtables": stats.sealed_memtables,
        "damaged": damaged_json(stats),
        "levels": stats.levels.iter().map(level_json).collect::<Vec<_>>(),
    })
}

/// The tables that are damaged.
pub(super) fn damaged_json(stats: &KeyspaceStats) -> Vec<Value> {
    let one = |table: &DamagedTable| json!({"file": table.file.to_string_lossy(), "offset": table.offset, "what": table.what});
    stats.damaged.iter().map(one).collect()
}

/// A level and its runs.
pub(super) fn level_json(level: &LevelStats) -> Value {
    json!({
        "level": level.level,
        "capacity_bytes": level.capacity_bytes,
        "run_limit": level.run_limit,
        "filter_bits_per_key": level.filter_bits_per_key,
        "filter_next": { "kind": level.filter_next.kind.name(), "bits_per_key": level.filter_next.bits_per_key },
        "runs": level.runs.iter().map(run_json).collect::<Vec<_>>(),
    })
}

fn run_json(run: &RunStats) -> Value {
    let mut object = Map::new();
    object.insert("run".to_owned(), run.id.into());
    object.insert("tables".to_owned(), run.tables.into());
    object.insert("bytes".to_owned(), run.bytes.into());
    object.insert("entries".to_owned(), run.entries.into());
    json_bytes(&mut object, "first_key", &run.first_key);
    json_bytes(&mut object, "last_key", &run.last_key);
    object.into()
}

fn to_text(stats: &KeyspaceStats) -> String {
    let per_entry = |bytes: u64| match stats.entries {
        0 => String::new(),
        entries => format!("{:.3} bytes per entry", bytes as f64 / entries as f64),
    };
    let runs = stats.levels.iter().map(|level| level.runs.len() as u64).sum::<u64>();
    let tables = stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum::<u64>();
    let shape = format!(
        "{} of {} in {}",
        units::plural(tables, "table"),
        units::plural(stats.blocks, "block"),
        units::plural(runs, "run")
    );
    let sealed = match stats.sealed_memtables {
        0 => String::new(),
        sealed => format!("{} waiting for a flush", units::plural(sealed, "sealed memtable")),
    };
    let useless = |(name, bytes): (&str, u64)| {
        let cause = name.trim_end_matches("_bytes").replace('_', " ");
        (bytes > 0).then(|| format!("{} {cause}", units::bytes(bytes)))
    };
    let [live, causes @ .., _rate] = stats.space.named();
    let mut useless: Vec<String> = causes.into_iter().filter_map(useless).collect();
    let drain = stats.space.drain_seconds().filter(|&seconds| seconds > 0.0);
    useless.extend(drain.map(|seconds| format!("drained in {}", units::seconds(seconds))));
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "keyspace {}", stats.name.escape_debug());
    for (name, value, remark) in [
        ("entries", units::count(stats.entries), "versions and deletions counted".to_owned()),
        ("tables", units::bytes(stats.table_bytes), shape),
        ("live", units::bytes(live.1), useless.join(", ")),
        (
            "index",
            units::bytes(stats.index_bytes),
            format!("{}  {}", per_entry(stats.index_bytes), stats.index),
        ),
        (
            "filters",
            units::bytes(stats.filter_bytes),
            format!("{}  {}", per_entry(stats.filter_bytes), stats.filters),
        ),
        ("memtable", units::bytes(stats.memtable_bytes), sealed),
    ] {
        let _ = writeln!(out, "{}", format!("  {name:<9} {value:>14}  {remark}").trim_end());
    }
    out
}
