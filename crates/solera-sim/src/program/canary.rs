//! `canary`: bugs are planted into the engine, one after the other, and the program that is there for their
//! like must find each within a minute. A bug that survives is a defect of that program.
//!
//! The program runs itself as a child, with the bug named in the environment. First every way in which a
//! program is run is run without a bug: it must find nothing then.

use super::Verdict;
use solera::{
    Clock, SystemClock,
    canary::{Bug, plant},
};
use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Names the planted bug.
const VARIABLE: &str = "SOLERA_CANARY";
/// A bug must be found in this time.
const FOUND_WITHIN: Duration = Duration::from_secs(60);

/// A bug, and how its program is run to find it.
const CANARIES: [(Bug, &[&str]); Bug::ALL.len()] = [
    (Bug::SkipLogSync, CRASHSIM),
    (Bug::SkipDirectorySync, CRASHSIM),
    (Bug::IgnoreBlockChecksum, BITFLIP),
    (Bug::LineBoundOffByOne, DIFFMODEL),
    (Bug::TrustIndexOnMiss, EVILMODEL),
    (Bug::PublishBeforeSync, CRASHSIM),
    (Bug::ReuseFileNumber, CRASHSIM),
    (Bug::DropTombstoneEarly, DIFFMODEL),
    (Bug::SnapshotTooNew, DIFFMODEL),
    (Bug::ShortSeekKey, DIFFMODEL),
    (Bug::KeyAcrossBlocks, DIFFMODEL),
    (Bug::IteratorNotFused, BITFLIP),
];
const CRASHSIM: &[&str] = &["crashsim", "--seeds", "1", "--ops", "30", "--letters", "0"];
const DIFFMODEL: &[&str] = &["diffmodel", "--seeds", "4", "--ops", "3000"];
const BITFLIP: &[&str] = &["bitflip", "--flips", "1000"];
const EVILMODEL: &[&str] = &["evilmodel", "--seeds", "30"];

fn name(bug: Bug) -> String {
    format!("{bug:?}")
}

/// Plants the bug that the environment names.
///
/// # Errors
/// There is no such bug.
pub fn plant_named() -> Result<(), String> {
    let Ok(named) = std::env::var(VARIABLE) else { return Ok(()) };
    let bug = Bug::ALL.into_iter().find(|bug| name(*bug) == named);
    bug.map(plant)
        .ok_or_else(|| format!("{VARIABLE} is {named:?}; the bugs are {}", Bug::ALL.map(name).join(", ")))
}

/// How a child ended.
#[derive(PartialEq)]
enum End {
    Kept,
    Broken,
    TooLate,
}

/// Plants each bug into a child that is `program`, and prints which program found it and how fast.
///
/// # Errors
/// A child could not be run, or finds something where nothing is.
pub fn run(program: &Path) -> Result<Verdict, String> {
    let ways: BTreeSet<&[&str]> = CANARIES.iter().map(|(_, way)| *way).collect();
    for way in ways {
        let (end, seconds) = child(program, way, None)?;
        println!("{:20} {:12} {seconds:6.1} s", "no bug", way[0]);
        if end != End::Kept {
            return Err(format!("{} fails without a bug", way.join(" ")));
        }
    }
    let (mut found, mut slowest) = (0, 0.0_f64);
    for (bug, way) in CANARIES {
        let (end, seconds) = child(program, way, Some(bug))?;
        let outcome = match end {
            End::Broken => "found",
            End::Kept => "SURVIVED",
            End::TooLate => "NOT FOUND IN TIME",
        };
        println!("{:20} {:12} {seconds:6.1} s  {outcome}", name(bug), way[0]);
        found += u64::from(end == End::Broken);
        slowest = slowest.max(seconds);
    }
    let all = CANARIES.len() as u64;
    Ok(Verdict::new("canary")
        .figure("found", format!("{found}/{all}"))
        .must_be_none("survived", all - found)
        .figure("slowest_s", format!("{slowest:.1}")))
}

fn child(program: &Path, way: &[&str], bug: Option<Bug>) -> Result<(End, f64), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut command = Command::new(program);
    command.args(way).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_remove(VARIABLE);
    if let Some(bug) = bug {
        command.env(VARIABLE, name(bug));
    }
    let clock = SystemClock::new();
    let begun = clock.monotonic_ns();
    let mut child = command.spawn().map_err(text)?;
    loop {
        let took = Duration::from_nanos(clock.monotonic_ns() - begun);
        if let Some(status) = child.try_wait().map_err(text)? {
            let end = if status.success() { End::Kept } else { End::Broken };
            return Ok((end, took.as_secs_f64()));
        }
        if bug.is_some() && took > FOUND_WITHIN {
            child.kill().and_then(|()| child.wait()).map_err(text)?;
            return Ok((End::TooLate, took.as_secs_f64()));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_program_that_must_find_it() {
        assert!(CANARIES.iter().map(|(bug, _)| *bug).eq(Bug::ALL));
    }
}
