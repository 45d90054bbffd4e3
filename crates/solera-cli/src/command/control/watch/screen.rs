//! A look at a database as lines of text, in the manner of `top`: `draw`, over an observation of a
//! window.
//!
//! It shows rates, latencies, memory, stalls, each keyspace's levels and layouts, and knobs that
//! were set.
//!
//! What must hold: plain functions over plain data. Lines are broken between words, not in numbers,
//! and fit 80 columns unless a word is too long.
//!
//! Caller: `control watch`.

use crate::{output::utc, units};
use solera::control::{
    Histogram, KeyspaceObservation, LayoutObservation, LevelObservation, MemoryUse, Observation, Setting,
};
use std::{fmt::Write, time::Duration};

/// What happened in `window`. `stale` is how old it is, if it is too old to be true any more;
/// `whole` says that the window is all the time since the opening.
pub(super) fn draw(window: &Observation, stale: Option<Duration>, whole: bool) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let seconds = window.window_us as f64 / 1e6;
    let since = if whole { " since it was opened" } else { "" };
    let _ = writeln!(
        out,
        "{}  {}{since}  log {}/s  seqno {}  snapshots {}",
        utc(window.unix_ms),
        units::seconds(seconds),
        units::bytes(rate(window.bytes_written_log, seconds) as u64),
        units::count(window.last_seqno),
        window.snapshots
    );
    if let Some(age) = stale {
        let age = units::seconds(age.as_secs_f64());
        let _ = writeln!(out, "OLD: last published {age} ago; its owner was killed, or hangs");
    }
    if let Some(failure) = &window.background_failure {
        let _ = writeln!(out, "background work fails: {}", failure.escape_debug());
    }
    let _ = writeln!(out, "{}", memory(&window.memory));
    for keyspace in &window.keyspaces {
        draw_keyspace(&mut out, keyspace, seconds);
        let _ = writeln!(out, "  knobs    {}", settings(&window.settings, Some(&keyspace.name)));
    }
    let _ = writeln!(out, "knobs {}", settings(&window.settings, None));
    out.lines().map(|line| wrapped(line.trim_end())).collect()
}

/// Columns of the narrowest terminal that a look is made for.
const COLUMNS: usize = 80;
/// Where a line goes on that is longer.
const INDENT: &str = "           ";

/// The line, broken behind a comma or semicolon, or else at a space, wherever it would pass the
/// last column.
fn wrapped(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line.to_owned();
    while let Some((limit, _)) = rest.char_indices().nth(COLUMNS) {
        let head = &rest[..limit];
        let beyond_indent = |at: usize| at > INDENT.len();
        let at = head.rfind(", ").max(head.rfind("; ")).map(|at| at + 1).filter(|&at| beyond_indent(at));
        let Some(at) = at.or(head.rfind(' ').filter(|&at| beyond_indent(at))) else { break };
        out.push_str(&rest[..at]);
        out.push('\n');
        rest = format!("{INDENT}{}", rest[at..].trim_start());
    }
    out + &rest + "\n"
}

fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn memory(memory: &MemoryUse) -> String {
    let MemoryUse { budget_bytes, .. } = memory;
    let owners = [
        ("memtables", memory.memtable_bytes),
        ("filters", memory.filter_bytes),
        ("indexes", memory.index_bytes),
        ("tables", memory.table_bytes),
        ("cache", memory.cache_bytes),
        ("kept", memory.kept_bytes),
        ("lent", memory.lent_bytes),
    ];
    let owners = owners.map(|(owner, bytes)| format!("{owner} {}", units::bytes(bytes)));
    format!(
        "memory {}: {}; the cache may have {}",
        units::bytes(*budget_bytes),
        owners.join(", "),
        units::bytes(memory.cache_capacity_bytes)
    )
}

fn draw_keyspace(out: &mut String, keyspace: &KeyspaceObservation, seconds: f64) {
    let (mix, counters) = (keyspace.mix(), &keyspace.counters);
    let _ = writeln!(
        out,
        "\nkeyspace {}  {} entries, memtables {} ({} sealed)",
        keyspace.name.escape_debug(),
        units::count(keyspace.entries()),
        units::bytes(keyspace.memtable_bytes),
        keyspace.sealed_memtables
    );
    let shares = mix.shares().unwrap_or_default();
    let latencies = &keyspace.latencies;
    for (name, count, share, times) in [
        ("absent", mix.absent_lookups, shares[0], Some(&latencies.lookup_absent_ns)),
        ("found", mix.found_lookups, shares[1], Some(&latencies.lookup_found_ns)),
        ("scans", mix.scans, shares[2], Some(&latencies.scan_ns)),
        ("written", mix.entries_written, shares[3], None),
    ] {
        let _ = writeln!(
            out,
            "  {name:<8} {:>12}/s {:>5.1} %  {}",
            units::count(rate(count, seconds) as u64),
            share * 100.0,
            times.map_or(String::new(), quantiles)
        );
    }
    // Entries are counted, but it is calls that are timed, and a call may write a batch of them.
    let _ = writeln!(out, "  {:<8} {:>14} {:>7}  {}", "writes", "", "", quantiles(&latencies.write_ns));
    let _ = writeln!(
        out,
        "  blocks   {} hit, {} read ({:.1} % hit)   index: {} steps, {} fallbacks",
        units::count(counters.blocks_hit),
        units::count(counters.blocks_read),
        units::percent(counters.blocks_hit, counters.blocks_hit + counters.blocks_read),
        units::count(counters.index_steps),
        units::count(counters.index_fallbacks)
    );
    let _ = writeln!(
        out,
        "  stalls   {} writes for {} (longest since opening {})   flushes {}, compactions {}",
        units::count(counters.stalls),
        units::seconds(counters.stall_us_total as f64 / 1e6),
        units::seconds(counters.stall_us_max as f64 / 1e6),
        units::count(counters.flushes),
        units::count(counters.compactions)
    );
    let space = &keyspace.space;
    let drain = match space.drain_seconds() {
        Some(0.0) => "nothing is due".to_owned(),
        Some(seconds) => format!("drained in {}", units::seconds(seconds)),
        None => "no compaction was timed yet".to_owned(),
    };
    let _ = writeln!(
        out,
        "  debt     {}, {drain}   values apart: {} live, {} dead",
        units::bytes(space.debt_bytes),
        units::bytes(keyspace.separated_bytes),
        units::bytes(space.value_garbage_bytes)
    );
    if !keyspace.levels.is_empty() {
        let _ = writeln!(
            out,
            "  {:<6}{:>10} {:>8} {:>10} {:>10} {:>6} {:>6}",
            "level", "runs", "tables", "entries", "size", "full", "bits"
        );
    }
    keyspace.levels.iter().for_each(|level| draw_level(out, level));
    if !keyspace.levels.is_empty() {
        let _ = writeln!(
            out,
            "  {:<6}{:>12} {:>8} {:>10} {:>12} {:>12}",
            "level", "probed/s", "hit %", "false", "in/s", "out/s"
        );
    }
    keyspace.levels.iter().for_each(|level| draw_work(out, level, seconds));
    keyspace.layouts.iter().for_each(|layout| draw_layout(out, layout, seconds));
}

/// `p50 612 ns p99 2.1 µs (1,234 timed)`.
fn quantiles(times: &Histogram) -> String {
    let (Some(p50), Some(p99)) = (times.quantile(0.5), times.quantile(0.99)) else {
        return "none timed".to_owned();
    };
    let timed = units::count(times.count());
    format!("p50 {:>8}  p99 {:>8}  ({timed} timed)", nanoseconds(p50), nanoseconds(p99))
}

fn nanoseconds(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// What a level holds.
fn draw_level(out: &mut String, level: &LevelObservation) {
    let _ = writeln!(
        out,
        "  L{:<5}{:>10} {:>8} {:>10} {:>10} {:>5.0}% {:>6.1}",
        level.level,
        format!("{} of {}", level.runs, level.run_limit),
        units::count(level.tables),
        short(level.entries),
        units::bytes(level.bytes),
        units::percent(level.bytes, level.capacity_bytes),
        level.filter_bits_per_key
    );
}

/// What is done with a level: lookups, and merges into it and out of it.
fn draw_work(out: &mut String, level: &LevelObservation, seconds: f64) {
    let LevelObservation { reads, merges, .. } = level;
    let probed = reads.tables_probed();
    let _ = writeln!(
        out,
        "  L{:<5}{:>12} {:>8.2} {:>10} {:>12} {:>12}",
        level.level,
        units::count(rate(probed, seconds) as u64),
        units::percent(reads.hits(), probed),
        units::count(reads.filter_false_positives),
        units::bytes(rate(merges.bytes_in, seconds) as u64),
        units::bytes(rate(merges.bytes_out, seconds) as u64)
    );
}

/// `12.3 M`.
fn short(count: u64) -> String {
    match count {
        0..100_000 => units::count(count),
        100_000..100_000_000 => format!("{:.2} M", count as f64 / 1e6),
        _ => format!("{:.2} G", count as f64 / 1e9),
    }
}

fn draw_layout(out: &mut String, layout: &LayoutObservation, seconds: f64) {
    let name = layout.tag.map_or("other layouts".to_owned(), |tag| tag.to_string());
    let _ = writeln!(
        out,
        "  {}: {}, {} entries; {} searches/s, {} blocks read/s",
        name,
        units::plural(layout.tables, "table"),
        units::count(layout.entries),
        units::count(rate(layout.reads.searches, seconds) as u64),
        units::count(rate(layout.reads.blocks_read, seconds) as u64)
    );
}

/// The knobs of a keyspace, or of the database: what holds for all levels, and what was set. `*`
/// marks what was set.
fn settings(settings: &[Setting], keyspace: Option<&str>) -> String {
    let shown = settings
        .iter()
        .filter(|setting| setting.keyspace.as_deref() == keyspace)
        .filter(|setting| setting.level.is_none() || setting.is_set);
    let shown = shown.map(|setting| format!("{setting}{}", if setting.is_set { "*" } else { "" }));
    shown.collect::<Vec<_>>().join(", ").escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use solera::Db;

    #[test]
    fn a_look_shows_what_a_workload_does() {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::open(dir.path()).unwrap();
        let before = db.control().observe();
        for n in 0..3000u32 {
            db.put(n.to_be_bytes(), [7; 50]).unwrap();
        }
        db.flush().unwrap();
        for n in 0..6000u32 {
            db.get(n.to_be_bytes()).unwrap();
        }
        let mut window = db.control().observe().since(&before);
        window.window_us = 2_000_000;
        let text = draw(&window, None, false);
        let line = |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
        assert!(line("absent").contains("1,500/s  33.3 %  p50 "), "{text}");
        assert!(line("found").contains("1,500/s  33.3 %  p50 "), "{text}");
        assert!(line("scans").contains(" 0/s   0.0 %  none timed"), "{text}");
        assert!(line("written").ends_with("1,500/s  33.3 %"), "{text}");
        assert!(line("writes").contains(" timed)"), "{text}");
        assert!(line("L0").contains("1 of "), "{text}");
        assert!(line("learned").contains("1 table, 3,000 entries"), "{text}");
        assert!(line("debt").contains("0 B, nothing is due"), "{text}");
        assert!(line("debt").ends_with("values apart: 0 B live, 0 B dead"), "{text}");
        assert!(line("knobs").contains("size_ratio 10"), "{text}");
        assert!(line("memory").contains("268.4 MB: memtables "), "{text}");
        assert!(!text.contains('\x1b'));
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= COLUMNS, "{widest}");

        window.background_failure = Some("bad\x1b[2J".into());
        let text = draw(&window, Some(Duration::from_secs(12)), true);
        assert!(text.contains("last published 12.00 s ago"), "{text}");
        assert!(text.contains("since it was opened") && !text.contains('\x1b'), "{text}");
    }

    #[test]
    fn long_lines_are_broken_between_words_and_not_in_numbers() {
        let line = format!("memory {}, cache may have 15/7.4 MB", "memtables 1.0 MB, ".repeat(5));
        let text = wrapped(&line);
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(wrapped(&"x".repeat(90)), "x".repeat(90) + "\n");
    }

    #[test]
    fn times_and_counts_choose_their_unit() {
        assert_eq!(
            [612, 2_100, 3_400_000, 1_200_000_000].map(nanoseconds),
            ["612 ns", "2.1 µs", "3.4 ms", "1.2 s"]
        );
        assert_eq!([99_999, 123_456, 1_500_000_000].map(short), ["99,999", "0.12 M", "1.50 G"]);
    }
}
