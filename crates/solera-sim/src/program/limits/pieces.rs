//! What is asked of one large piece, of very many small keyspaces, and of small budgets: `measure`,
//! row by row, and `judge`.
//!
//! A `Row` says which child runs, under which budget, and whether that is promised yet. It is over
//! if it took more memory than it may, or if the keyspaces were opened or flushed too slowly.
//!
//! What must hold: a row that is promised fails the program when it is over. One that is not is
//! named as an `aim_missed`, and its figure stands beside.
//!
//! Caller: `limits::mod`.

use super::{Amount, Verdict, child, figure, keyspaces, large};
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
    /// What else it took too much of.
    slow: bool,
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
    println!("{}: {percent} % of {} MiB allowed: {found:?}", task.join(" "), allowed >> 20);
    Ok(Measured { name: row.name, percent, is_promised: row.is_promised, slow: is_slow(&found) })
}

/// Whether an open or a flush took more of the processor than it may.
fn is_slow(found: &BTreeMap<String, u64>) -> bool {
    let over = |name: &str, most| found.get(name).is_some_and(|&took| took > most);
    over("open_ms", keyspaces::OPEN_MS_MAX) || over("flush_ms", keyspaces::FLUSH_MS_MAX)
}

/// Adds what a row measured to the verdict.
pub(super) fn judge(verdict: Verdict, row: Measured) -> Verdict {
    let verdict = verdict.figure(row.name, row.percent);
    let misses = row.percent > 100 || row.slow;
    match (misses, row.is_promised) {
        (true, true) => verdict.must_be_none("over_promise", 1),
        (true, false) => verdict.figure("aim_missed", row.name),
        (false, _) => verdict,
    }
}
