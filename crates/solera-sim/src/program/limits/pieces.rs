//! What is asked of one large piece, of very many small keyspaces, and of small budgets: `measure`,
//! row by row, and `judge`.
//!
//! A `Row` says which child runs, under which budget, and whether that is promised yet. It is over
//! (`Miss`) if it took more memory than it may, kept what a large piece had taken, or left more on
//! disk than its rest allows. On a quiet machine it is over, too, if it took too long.
//!
//! What must hold: a row that is promised fails the program when it is over. One that is not is
//! named as an `aim_missed`, and its figure stands beside. Without `Amount::quiet` no time fails
//! anything.
//!
//! Caller: `limits::mod`.

use super::{Amount, RSS_PERCENT_MAX, Verdict, child, figure, keyspaces, large};
use std::{collections::BTreeMap, path::Path};

const BUDGET_MIB: u64 = 64;
/// Operations under a small budget: what the allocator keeps grows for about so long.
const SMALL_OPERATIONS: u64 = 60_000;
/// Of their load.
const SMALL_SEED: u64 = 7;

/// One measurement.
struct Row {
    name: &'static str,
    budget_mib: u64,
    task: Vec<String>,
    /// Whether being over the aim fails the program.
    is_promised: bool,
}

/// What a row measured.
pub(super) struct Measured {
    name: &'static str,
    /// Of what it may take.
    percent: u64,
    is_promised: bool,
    misses: Vec<Miss>,
}

/// What a row took too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Miss {
    /// Memory at its peak.
    Memory,
    /// Memory at its end: what was taken for a large piece has not gone back.
    Kept,
    /// Space at rest.
    Disk,
    /// Time of the processor.
    Time,
}

fn rows(factor: u64) -> Vec<Row> {
    let under = |budget_mib: u64, name, is_promised, task: &str, numbers: &[u64]| {
        let numbers = std::iter::once(budget_mib << 20).chain(numbers.iter().copied());
        let numbers = numbers.map(|number| number.to_string());
        let task = std::iter::once(task.to_owned()).chain(numbers).collect();
        Row { name, budget_mib, task, is_promised }
    };
    let row = |name, task: &str, numbers: &[u64]| under(BUDGET_MIB, name, true, task, numbers);
    // The operator's name is no number.
    let operands = |name, operator: &str| {
        let mut row = under(BUDGET_MIB, name, false, "operands", &[8 << 20, 16 * factor]);
        row.task.push(operator.to_owned());
        row
    };
    let held = |name, numbers: &[u64]| under(BUDGET_MIB, name, false, "iterators", numbers);
    let small = [SMALL_OPERATIONS * factor, SMALL_SEED, 0];
    vec![
        row("batch_percent", "batch", &[500_000 * factor, 0]),
        row("transaction_percent", "batch", &[500_000 * factor, 1]),
        row("value_percent", "value", &[(64 << 20) * factor, 4]),
        // Four times as many are not promised yet (docs/results/space.md).
        under(BUDGET_MIB, "long_keys_percent", factor == 1, "long-keys", &[1500 * factor]),
        row("keyspaces_percent", "keyspaces", &[2500 * factor]),
        operands("appended_operands_percent", "append"),
        operands("largest_operands_percent", "max"),
        held("iterators_percent", &[375 * factor, 60_000, 8, 50 * factor, 20]),
        held("iterators_over_values_percent", &[375 * factor, 16, 60_000, 50 * factor, 20]),
        under(BUDGET_MIB, "deleted_ranges_percent", factor == 1, "ranges", &[50_000 * factor]),
        under(BUDGET_MIB, "nearly_large_values_percent", false, "near", &[8, 262_000, 50 * factor]),
        row("rests_percent", "rests", &[4 * factor, SMALL_SEED]),
        under(256, "rests_of_256_mib_percent", true, "rests", &[4 * factor, SMALL_SEED]),
        under(32, "of_32_mib_percent", false, "memory", &small),
        under(16, "of_16_mib_percent", false, "memory", &small),
    ]
}

/// Runs the rows, one after the other.
pub(super) fn measure(amount: &Amount, place: &Path) -> Result<Vec<Measured>, String> {
    rows(amount.piece_factor).iter().map(|row| measure_row(amount, place, row)).collect()
}

fn measure_row(amount: &Amount, place: &Path, row: &Row) -> Result<Measured, String> {
    let dir = place.join(row.name);
    let task: Vec<&str> = row.task.iter().map(String::as_str).collect();
    let found = child(&amount.program, &dir, &task)?;
    std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    let in_flight = found.get("in_flight_bytes").copied().unwrap_or(0);
    let allowed = (row.budget_mib << 20) * 11 / 10 + in_flight * large::IN_FLIGHT_TENTHS / 10;
    let percent = ((figure(&found, "rss_kib")? << 10) * 100).div_ceil(allowed);
    let misses = misses(&found, row.budget_mib << 20, allowed, amount.quiet);
    println!("{}: {percent} % of {} MiB allowed, over {misses:?}: {found:?}", task.join(" "), allowed >> 20);
    Ok(Measured { name: row.name, percent, is_promised: row.is_promised, misses })
}

/// What a child took too much of, which may have had `allowed` bytes at its peak. Of a figure that
/// it does not say nothing is asked.
fn misses(found: &BTreeMap<String, u64>, budget: u64, allowed: u64, quiet: bool) -> Vec<Miss> {
    let over = |name: &str, most: u64| found.get(name).is_some_and(|&took| took > most);
    let live_bytes = found.get("live_bytes").copied().unwrap_or(u64::MAX >> 8);
    let slow = [
        ("open_ms", keyspaces::OPEN_MS_MAX),
        ("flush_ms", keyspaces::FLUSH_MS_MAX),
        ("fill_ns_per_put", large::FILL_NS_MAX),
    ];
    [
        (Miss::Memory, over("rss_kib", allowed >> 10)),
        (Miss::Kept, over("rss_end_kib", (budget * RSS_PERCENT_MAX / 100) >> 10)),
        (Miss::Disk, over("disk_bytes", large::disk_allowed(budget, live_bytes))),
        (Miss::Time, quiet && slow.iter().any(|&(name, most)| over(name, most))),
    ]
    .into_iter()
    .filter_map(|(miss, is_over)| is_over.then_some(miss))
    .collect()
}

/// Adds what a row measured to the verdict.
pub(super) fn judge(verdict: Verdict, row: Measured) -> Verdict {
    let verdict = verdict.figure(row.name, row.percent);
    match (row.misses.is_empty(), row.is_promised) {
        (false, true) => verdict.must_be_none("over_promise", 1),
        (false, false) => verdict.figure("aim_missed", row.name),
        (true, _) => verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a child under 64 MiB says, with some figures in place of those of one that is within.
    fn missed(figures: &[(&str, u64)], quiet: bool) -> Vec<Miss> {
        let within = [
            ("rss_kib", 200 << 10),
            ("rss_end_kib", 70 << 10),
            ("live_bytes", 100 << 20),
            ("disk_bytes", 138 << 20),
            ("open_ms", 300),
            ("flush_ms", 5000),
        ];
        let found = within.iter().chain(figures).map(|&(name, figure)| (name.to_owned(), figure)).collect();
        misses(&found, 64 << 20, 200 << 20, quiet)
    }

    #[test]
    fn a_row_is_over_by_memory_that_stays_and_by_space_at_rest_and_by_time_on_a_quiet_machine() {
        assert_eq!(missed(&[], true), []);
        assert_eq!(missed(&[("rss_kib", (200 << 10) + 1)], true), [Miss::Memory]);
        assert_eq!(missed(&[("rss_end_kib", 71 << 10)], true), [Miss::Kept]);
        assert_eq!(missed(&[("disk_bytes", (138 << 20) + 1)], true), [Miss::Disk]);
        for slow in [("open_ms", 301), ("flush_ms", 5001), ("fill_ns_per_put", large::FILL_NS_MAX + 1)] {
            assert_eq!(missed(&[slow], true), [Miss::Time]);
            assert_eq!(missed(&[slow], false), [], "a busy machine fails nothing");
        }
    }

    #[test]
    fn a_promised_row_that_is_over_fails_the_program_and_an_aim_does_not() {
        let row = |is_promised, misses: &[Miss]| Measured {
            name: "row_percent",
            percent: 50,
            is_promised,
            misses: misses.to_vec(),
        };
        let passed = |row| judge(Verdict::new("limits"), row).kept();
        assert!(passed(row(true, &[])) && passed(row(false, &[Miss::Kept])));
        assert!(!passed(row(true, &[Miss::Kept])) && !passed(row(true, &[Miss::Disk])));
    }
}
