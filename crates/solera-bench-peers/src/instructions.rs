//! Instructions and cache misses per operation, which repeat where times do not. `run` counts them;
//! `once` is the process that it measures.
//!
//! For each phase and engine `run` starts `once` twice under valgrind's callgrind: with one pass
//! and with three. Two levels of cache are simulated. The difference of the counts, divided by
//! that of the operations, is what one operation takes.
//!
//! What must hold: both processes load and check the same data, and draw the same probes once, so
//! these cancel. All else that a pass does is counted: background threads, and what it prepares
//! before its clock starts (plans of mixes, deletes before scans).
//!
//! Caller: `main`.

use crate::{
    child::{self, Ask, Task},
    compare::{EngineResults, HUGE_PAGES},
    engine::Result,
    phase::{Measured, Phase},
};
use std::process::Command;

/// Passes of the longer of the two runs.
const PASSES: usize = 3;

/// What the tool says at its end: the names of the events that it counts, and their sums.
fn events(output: &str) -> Option<Vec<(String, u64)>> {
    let after = |name: &str| {
        let line = output.lines().find_map(|line| line.split_once(name));
        line.map(|(_, rest)| rest.trim_start_matches([' ', ':']).split_whitespace())
    };
    let (names, sums) = (after("Events")?, after("Collected")?);
    names.zip(sums).map(|(name, sum)| Some((name.to_owned(), sum.parse().ok()?))).collect()
}

/// The process that [`run`] starts under valgrind: loads, does the phase so often, and prints how
/// many operations that were.
pub fn once(task: &str, phase: Phase, passes: usize) -> Result<()> {
    let task: Task = serde_json::from_str(task)?;
    let operations = |measured: Measured| measured.operations + measured.timed_operations;
    // Always the same operations: they are drawn once, and drawing them is not counted.
    let asks = (0..passes).map(|_| Ask { phase, repeat: 0 });
    let mut done = 0;
    child::alone(&task, asks, &mut |measured| done += operations(measured))?;
    println!("{done}");
    Ok(())
}

fn count(task: &Task, phase: Phase, passes: usize) -> Result<(u64, Vec<(String, u64)>)> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--cache-sim=yes", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["once", &serde_json::to_string(task)?, &phase.name(), &passes.to_string()])
        .env(HUGE_PAGES.0, HUGE_PAGES.1)
        .output()
        .map_err(|error| format!("cannot run valgrind (Debian: apt-get install -y valgrind): {error}"))?;
    let said = String::from_utf8_lossy(&ran.stderr);
    if !ran.status.success() {
        return Err(format!("{}, {}: {said}", task.engine, phase.name()).into());
    }
    let done = String::from_utf8_lossy(&ran.stdout).trim().parse()?;
    Ok((done, events(&said).ok_or_else(|| format!("valgrind told no sums: {said}"))?))
}

fn measure(task: &Task, phase: Phase) -> Result<Measured> {
    let (few, before) = count(task, phase, 1)?;
    let (many, after) = count(task, phase, PASSES)?;
    let operations = many - few;
    let sum = |names: &[&str]| {
        let of = |events: &[(String, u64)]| -> u64 {
            events.iter().filter(|(name, _)| names.contains(&&name[..])).map(|(_, sum)| sum).sum()
        };
        of(&after).saturating_sub(of(&before)) as f64 / operations as f64
    };
    let counts = Some([sum(&["Ir"]), sum(&["D1mr", "D1mw"]), sum(&["DLmr", "DLmw"])]);
    Ok(Measured { operations, counts, ..Measured::default() })
}

/// What each of these phases takes each engine, in a set of its own.
pub fn run(tasks: &[Task], phases: &[Phase]) -> Result<Vec<EngineResults>> {
    let of = |task: &Task| {
        std::fs::create_dir_all(&task.directory)?;
        let measured = |&phase: &Phase| {
            let measured = measure(task, phase)?;
            // As soon as it is known: a later engine may fail under valgrind.
            eprintln!("{} {}: {:.1?}", phase.name(), task.engine, measured.counts.unwrap_or_default());
            Ok((phase, vec![measured]))
        };
        let phases = phases.iter().map(measured).collect::<Result<_>>()?;
        Ok(EngineResults { engine: task.engine.clone(), phases })
    };
    tasks.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_read_from_what_the_tool_says() {
        let said = "==7== Events    : Ir Dr Dw I1mr\n==7== Collected : 2076000 512 3 40\n==7== \n";
        let events = events(said).unwrap();
        assert_eq!(events[0], ("Ir".to_owned(), 2_076_000));
        assert_eq!(events.len(), 4);
        assert_eq!(super::events("==7== nothing"), None);
    }
}
