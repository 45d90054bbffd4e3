//! `solera levels`: the tree as a picture, or as JSON, from `Keyspace::stats`. It takes one
//! keyspace or all.
//!
//! Each level is a bar, wider the deeper it lies (up to 48 columns), filled by how full the level
//! is. Runs alternate in shade, the newest on the left. Under it stand its runs with their key
//! ranges, and the filters that its tables have and will get.
//!
//! What must hold: every run is listed. Long keys are cut, and no byte of one breaks the picture.
//! All keyspaces are shown first; then damaged tables make the command fail.
//!
//! Caller: `main`.

use super::stats::{damaged_json, level_json};
use crate::{
    escape::escaped,
    failure::{Failure, Outcome, Result},
    output::{print_json, print_text},
    target::{Database, damage},
    units,
};
use serde_json::{Value, json};
use solera::{KeyspaceStats, LevelStats};
use std::fmt::Write;

/// Draw the tree in the terminal: levels, how full they are, and the runs in each
#[derive(Debug, clap::Args)]
pub(crate) struct Levels {
    #[command(flatten)]
    database: Database,
    /// Only this keyspace [default: all]
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Print one JSON object per keyspace
    #[arg(long)]
    json: bool,
}

impl Levels {
    pub(crate) fn run(self) -> Result<Outcome> {
        let all = self.database.keyspace_stats(self.keyspace.as_deref())?;
        let print = |stats: &KeyspaceStats| match self.json {
            true => print_json(&to_json(stats)),
            false => print_text(&picture(stats)),
        };
        let printed = all.iter().try_for_each(print).map_err(Failure::from);
        Failure::told(damage(&all).map_or(Ok(Outcome::Done), Err), printed)
    }
}

/// Columns of the first level's bar, and how many each further level has more.
const BAR_FIRST: usize = 16;
const BAR_STEP: usize = 8;
/// Columns of the widest bar.
const BAR_MAX: usize = 48;
/// Why level 0 may have more runs than its limit.
const WAITING: &str =
    "more runs than the limit are as intended: they wait until reads have paid for the merge";
/// Characters of a key that are shown.
const KEY_SHOWN: usize = 26;

fn to_json(stats: &KeyspaceStats) -> Value {
    json!({
        "keyspace": stats.name,
        "memtable_bytes": stats.memtable_bytes,
        "sealed_memtables": stats.sealed_memtables,
        "damaged": damaged_json(stats),
        "levels": stats.levels.iter().map(level_json).collect::<Vec<_>>(),
    })
}

fn picture(stats: &KeyspaceStats) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{}: {} entries, {} in tables; {} in memory{}",
        stats.name.escape_debug(),
        units::count(stats.entries),
        units::bytes(stats.table_bytes),
        units::bytes(stats.memtable_bytes),
        match stats.sealed_memtables {
            0 => String::new(),
            sealed => format!(", {sealed} memtables waiting for their flush"),
        }
    );
    for level in &stats.levels {
        let width = (BAR_FIRST + BAR_STEP * level.level as usize).min(BAR_MAX);
        let indent = (BAR_MAX - width) / 2;
        let _ = writeln!(
            out,
            "  L{:<2} {:indent$}{}{:indent$}  {}",
            level.level,
            "",
            bar(level, width),
            "",
            fullness(level)
        );
        if !level.runs.is_empty() {
            let _ = writeln!(out, "        filters {}", filters(level));
        }
        if level.level == 0 && level.runs.len() as u64 > u64::from(level.run_limit) {
            let _ = writeln!(out, "        {WAITING}");
        }
        for run in &level.runs {
            let _ = writeln!(
                out,
                "        run {:<6} {:>10} in {}, {} entries  {} … {}",
                run.id,
                units::bytes(run.bytes),
                units::plural(run.tables, "table"),
                units::count(run.entries),
                shown(&run.first_key),
                shown(&run.last_key)
            );
        }
    }
    out
}

fn bytes(level: &LevelStats) -> u64 {
    level.runs.iter().map(|run| run.bytes).sum()
}

fn fullness(level: &LevelStats) -> String {
    let bytes = bytes(level);
    let mut text = format!("{:>9}  {}", units::bytes(bytes), units::plural(level.runs.len() as u64, "run"));
    let _ = write!(text, ", merged from {} on", level.run_limit);
    if level.capacity_bytes > 0 {
        let _ = write!(
            text,
            "  {:.0} % of {}",
            units::percent(bytes, level.capacity_bytes),
            units::bytes(level.capacity_bytes)
        );
    }
    text
}

/// What filters its tables have, and what the next one gets.
fn filters(level: &LevelStats) -> String {
    format!("{:.1} bits per key, next table {}", level.filter_bits_per_key, level.filter_next)
}

/// The level's runs, newest first, each as wide as its share of the capacity (or of the level, if
/// that is over its capacity), at least one column.
fn bar(level: &LevelStats, width: usize) -> String {
    let whole = level.capacity_bytes.max(bytes(level)).max(1);
    let mut columns = Vec::with_capacity(width);
    let mut end_bytes = 0;
    for (i, run) in level.runs.iter().enumerate() {
        end_bytes += run.bytes;
        let end = (end_bytes as f64 / whole as f64 * width as f64).round() as usize;
        let end = end.max(columns.len() + 1).min(width);
        columns.resize(end.max(columns.len()), if i % 2 == 0 { '█' } else { '▓' });
    }
    columns.resize(width, '░');
    columns.into_iter().collect()
}

fn shown(key: &[u8]) -> String {
    let text = escaped(key);
    match text.char_indices().nth(KEY_SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solera::{FilterKind, FilterSpec, RunStats};

    fn level(capacity_bytes: u64, runs: &[u64]) -> LevelStats {
        let run = |&bytes: &u64| RunStats { bytes, ..RunStats::default() };
        LevelStats { capacity_bytes, runs: runs.iter().map(run).collect(), ..LevelStats::default() }
    }

    #[test]
    fn a_bar_is_as_full_as_its_level_and_shows_every_run() {
        assert_eq!(bar(&level(100, &[]), 10), "░░░░░░░░░░");
        assert_eq!(bar(&level(100, &[50]), 10), "█████░░░░░");
        assert_eq!(bar(&level(100, &[30, 20, 10]), 10), "███▓▓█░░░░");
        assert_eq!(bar(&level(1000, &[1, 1]), 10), "█▓░░░░░░░░", "no run is invisible");
        assert_eq!(bar(&level(100, &[300, 100]), 8), "██████▓▓", "over its capacity");
        assert_eq!(bar(&level(0, &[7]), 4), "████", "a level limited by its number of runs");
        assert_eq!(bar(&level(100, &[1; 50]), 4), "█▓█▓", "more runs than columns");
    }

    #[test]
    fn a_level_shows_the_bits_it_has_and_the_bits_to_come() {
        let filter_next = FilterSpec { kind: FilterKind::Ribbon, bits_per_key: 7.25 };
        let level = LevelStats { filter_bits_per_key: 10.04, filter_next, ..level(100, &[50]) };
        assert_eq!(filters(&level), "10.0 bits per key, next table ribbon 7.2");
    }

    #[test]
    fn long_keys_are_cut_and_no_escape_breaks_the_picture() {
        assert_eq!(shown(b"short\n"), "short\\n");
        assert_eq!(shown(&[b'k'; 40]), format!("{}..", "k".repeat(KEY_SHOWN)));
    }
}
