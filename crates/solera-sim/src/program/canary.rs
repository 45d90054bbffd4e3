//! `canary`: plants each bug of `solera::canary::Bug` alone, and its program must find it: `run`.
//!
//! `CANARIES` names each bug's program and arguments. `run` starts this binary with them as a
//! child, the bug named in the environment (`plant_named`). As many run at once as there are
//! threads. Before that, each program runs without a bug; unless it keeps all promises, `run`
//! fails.
//!
//! What must hold: a bug is found when the child's verdict says within three minutes of processor
//! time that a promise was broken. No other end is a find, and what else the machine does changes
//! none. Every bug has a program.
//!
//! Callers: `solera-sim canary`, in builds with the feature; there `main` first calls
//! `plant_named`.

use super::{Verdict, for_each_seed};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use solera::{
    Clock, SystemClock,
    canary::{Bug, plant},
};
use std::{
    collections::BTreeSet,
    io::Read,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

/// Names the planted bug.
const VARIABLE: &str = "SOLERA_CANARY";
/// A bug must be found in so many seconds of processor time, of all threads together.
const FOUND_WITHIN_S: u64 = 180;
/// A child that waits for ever takes no processor time: one that is there for so long hangs.
const HANGS_AFTER: Duration = Duration::from_secs(45 * 60);

/// A bug, and how its program is run to find it.
const CANARIES: [(Bug, &[&str]); Bug::ALL.len()] = [
    (Bug::SkipLogSync, CRASHSIM),
    (Bug::SkipEndedLogSync, CRASHSIM),
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
    (Bug::ReclaimLive, DIFFMODEL),
    (Bug::LoseLargestKey, DIFFMODEL),
    (Bug::PointerBeforeValue, CRASHSIM),
    (Bug::StaleAboveTier, DIFFMODEL),
];
const CRASHSIM: &[&str] =
    &["crashsim", "--seed", "1", "--seeds", "1", "--ops", "30", "--letters", "0", "--as-found"];
const DIFFMODEL: &[&str] = &["diffmodel", "--seeds", "40", "--ops", "5000", "--as-found"];
const BITFLIP: &[&str] = &["bitflip", "--flips", "1000"];
const EVILMODEL: &[&str] = &["evilmodel", "--seeds", "30"];

fn name(bug: Bug) -> String {
    format!("{bug:?}")
}

/// Plants the bug that the environment names, which this process must find in time: else the system
/// ends it.
///
/// # Errors
/// There is no such bug, or the system cannot limit processor time.
pub fn plant_named() -> Result<(), String> {
    let Ok(named) = std::env::var(VARIABLE) else { return Ok(()) };
    let bug = Bug::ALL.into_iter().find(|bug| name(*bug) == named);
    let bug = bug
        .ok_or_else(|| format!("{VARIABLE} is {named:?}; the bugs are {}", Bug::ALL.map(name).join(", ")))?;
    plant(bug);
    let limit = Rlimit { current: Some(FOUND_WITHIN_S), ..getrlimit(Resource::Cpu) };
    setrlimit(Resource::Cpu, limit).map_err(|error| format!("processor time cannot be limited: {error}"))
}

/// How a child ended.
#[derive(Debug, PartialEq)]
enum End {
    /// Every promise was kept.
    Kept,
    /// The child's last line says that a promise was broken.
    Broken,
    /// It failed and did not say so: it could not do its work, or did not survive it.
    Failed(String),
    TooLate,
}

/// How a child ended that said this and has this status.
fn end(said: &str, status: ExitStatus) -> End {
    match status.signal() {
        Some(signal) if signal == Signal::XCPU.as_raw() => End::TooLate,
        _ => verdict(said, status.success()),
    }
}

/// What the last line of a child says, which was asked for it as JSON.
fn verdict(said: &str, succeeded: bool) -> End {
    let last = said.lines().last().unwrap_or_default();
    let keeps =
        |kept: bool| last.starts_with("{\"program\":") && last.ends_with(&format!(",\"kept\":{kept}}}"));
    match succeeded {
        true if keeps(true) => End::Kept,
        false if keeps(false) => End::Broken,
        _ => End::Failed(last.to_owned()),
    }
}

/// Plants each bug into a child that is `program`, and prints which program found it and how fast.
/// As many children run at the same time as there are `threads`.
///
/// # Errors
/// A child could not be run, or finds something where nothing is.
pub fn run(program: &Path, threads: usize) -> Result<Verdict, String> {
    let ways: BTreeSet<&[&str]> = CANARIES.iter().map(|(_, way)| *way).collect();
    let ways: Vec<&[&str]> = ways.into_iter().collect();
    let without = for_each_seed(0, ways.len() as u64, threads, |at| {
        let way = ways[at as usize];
        let (end, seconds) = child(program, way, None)?;
        println!("{:20} {:12} {seconds:6.1} s", "no bug", way[0]);
        match end {
            End::Kept => Ok(()),
            end => Err(format!("{} fails without a bug: {end:?}", way.join(" "))),
        }
    });
    without.into_iter().collect::<Result<(), String>>()?;
    let ended = for_each_seed(0, CANARIES.len() as u64, threads, |at| {
        let (bug, way) = CANARIES[at as usize];
        let (end, seconds) = child(program, way, Some(bug))?;
        let outcome = match &end {
            End::Broken => "found".to_owned(),
            End::Kept => "SURVIVED".to_owned(),
            End::Failed(last) => format!("FAILED WITHOUT A VERDICT: {last}"),
            End::TooLate => "NOT FOUND IN TIME".to_owned(),
        };
        println!("{:20} {:12} {seconds:6.1} s  {outcome}", name(bug), way[0]);
        Ok((end == End::Broken, seconds))
    });
    let ended = ended.into_iter().collect::<Result<Vec<(bool, f64)>, String>>()?;
    let found = ended.iter().filter(|(found, _)| *found).count();
    let slowest = ended.iter().map(|(_, seconds)| *seconds).fold(0.0, f64::max);
    let all = CANARIES.len();
    Ok(Verdict::new("canary")
        .figure("found", format!("{found}/{all}"))
        .must_be_none("survived", (all - found) as u64)
        .figure("slowest_s", format!("{slowest:.1}")))
}

fn child(program: &Path, way: &[&str], bug: Option<Bug>) -> Result<(End, f64), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut command = Command::new(program);
    command.args(way).arg("--json").env_remove(VARIABLE);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(bug) = bug {
        command.env(VARIABLE, name(bug));
    }
    let clock = SystemClock::new();
    let begun = clock.monotonic_ns();
    let took = || Duration::from_nanos(clock.monotonic_ns() - begun);
    let mut child = command.spawn().map_err(text)?;
    let mut out = child.stdout.take().ok_or("a child without a pipe")?;
    // Read while it runs: a child whose pipe is full waits.
    let reader = std::thread::spawn(move || {
        let mut said = Vec::new();
        out.read_to_end(&mut said).map(|_| String::from_utf8_lossy(&said).into_owned())
    });
    let status = loop {
        if let Some(status) = child.try_wait().map_err(text)? {
            break status;
        }
        if took() > HANGS_AFTER {
            child.kill().and_then(|()| child.wait()).map_err(text)?;
            return Ok((End::TooLate, took().as_secs_f64()));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    };
    let took = took().as_secs_f64();
    let said = reader.join().map_err(|_| "a child's words could not be read")?.map_err(text)?;
    Ok((end(&said, status), took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_a_program_that_must_find_it() {
        assert!(CANARIES.iter().map(|(bug, _)| *bug).eq(Bug::ALL));
    }

    /// Symptom: beside sixteen busy programs bugs were not found in time. Cause: time was counted
    /// by the clock, and a child had a thirtieth of a processor. Cure: it is the child's own.
    #[test]
    fn a_child_that_used_up_its_processor_time_is_too_late_and_one_that_waits_is_not() {
        let of = |script: &str| {
            let output = Command::new("sh").args(["-c", script]).output().unwrap();
            end(&String::from_utf8_lossy(&output.stdout), output.status)
        };
        assert_eq!(of("ulimit -S -t 1; while :; do :; done"), End::TooLate);
        let broken = Verdict::new("isolate").must_be_none("wrong", 2).json();
        assert_eq!(of(&format!("ulimit -S -t 1; sleep 2; echo '{broken}'; exit 1")), End::Broken);
        assert!(matches!(of("kill -9 $$"), End::Failed(_)));
    }

    #[test]
    fn only_a_broken_promise_counts_as_found() {
        let kept = Verdict::new("isolate").must_be_none("wrong", 0);
        let broken = Verdict::new("isolate").must_be_none("wrong", 2);
        assert_eq!(verdict(&format!("seed 1\n{}\n", kept.json()), true), End::Kept);
        assert_eq!(verdict(&broken.json(), false), End::Broken);
        for (said, succeeded) in
            [("", false), ("no table", false), (&*kept.json(), false), (&*broken.json(), true), ("", true)]
        {
            assert!(matches!(verdict(said, succeeded), End::Failed(_)), "{said:?}");
        }
    }
}
