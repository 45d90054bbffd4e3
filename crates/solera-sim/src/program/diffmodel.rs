//! `diffmodel`: random lives, the engine against the oracle.

use super::Verdict;
use crate::{
    life::{Failure, Pulse, live},
    random::Random,
    script::{Script, generate::Generator, shrink::shrink},
    setting::Setting,
    tell::Work,
};
use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A life in which nothing happens for so long hangs.
const HANG: Duration = Duration::from_secs(120);
/// Runs spent on shrinking one failure.
const SHRINK_RUNS_MAX: usize = 4000;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Operations per seed.
    pub operations: usize,
    /// Lives lived at the same time.
    pub threads: usize,
    /// Live every script twice and compare.
    pub twice: bool,
}

/// The script of a seed.
pub fn script(seed: u64, operations: usize) -> Script {
    let mut random = Random::new(seed);
    let setting = Setting::random(&mut random);
    Generator::new(&setting, &mut random).script(setting, operations)
}

/// Lives the scripts of the seeds and prints each failure with a shrunk reproduction.
pub fn run(amount: Amount) -> Verdict {
    let next = AtomicU64::new(amount.first_seed);
    let total = Mutex::new((Work::default(), Vec::new()));
    let kinds = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for _ in 0..amount.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= amount.first_seed + amount.seeds {
                        return;
                    }
                    let script = script(seed, amount.operations);
                    {
                        let mut kinds = kinds.lock().unwrap_or_else(PoisonError::into_inner);
                        kinds.extend(
                            script
                                .setting
                                .spaces
                                .iter()
                                .map(|space| format!("{}+{}", space.index.name(), space.compression.name())),
                        );
                    }
                    let lived = one(seed, &script, amount);
                    let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
                    match lived {
                        Ok(work) => {
                            println!("seed {seed}: same");
                            total.0.add(&work);
                        }
                        Err(failure) => {
                            println!("seed {seed}: {failure}");
                            total.1.push(seed);
                        }
                    }
                }
            });
        }
    });
    let (work, failed) = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    let verdict = Verdict::new("diffmodel")
        .figure("seeds", amount.seeds)
        .figure("ops", amount.seeds * amount.operations as u64)
        .figure("configs", kinds.into_inner().unwrap_or_else(PoisonError::into_inner).len())
        .figure("flushes", work.flushes)
        .figure("compactions", work.compactions)
        .must_be_none("mismatches", failed.len() as u64);
    if failed.is_empty() {
        verdict
    } else {
        verdict.figure("failed_seeds", format!("{failed:?}").replace(' ', ""))
    }
}

fn one(seed: u64, script: &Script, amount: Amount) -> Result<Work, String> {
    let again = |first| match live(script, &Pulse::default()) {
        Ok(second) if second == first => Ok(second),
        Ok(second) => {
            Err(Failure { at: 0, what: format!("lived twice, ended as {first:x?} and as {second:x?}") })
        }
        Err(failure) => Err(failure),
    };
    match watched(seed, script).and_then(|first| if amount.twice { again(first) } else { Ok(first) }) {
        Ok(outcome) => Ok(outcome.work),
        Err(failure) => Err(reproduce(seed, script, &failure)),
    }
}

/// Lives the script on its own thread and gives up on the whole process if it hangs: a thread cannot be
/// stopped from outside.
fn watched(seed: u64, script: &Script) -> Result<crate::life::Outcome, Failure> {
    let pulse = Arc::new(Pulse::default());
    std::thread::scope(|scope| {
        let life = scope.spawn({
            let pulse = pulse.clone();
            move || live(script, &pulse)
        });
        let (mut beats, mut idle) = (0, Duration::ZERO);
        while !life.is_finished() {
            let pause = Duration::from_millis(5);
            std::thread::park_timeout(pause);
            idle = if pulse.beats() == beats { idle + pause } else { Duration::ZERO };
            beats = pulse.beats();
            if idle > HANG {
                let at = beats as usize - 1;
                println!(
                    "seed {seed}: hangs at operation {at}: {}",
                    script.operations[at.min(script.operations.len() - 1)]
                );
                std::process::exit(3);
            }
        }
        life.join()
            .unwrap_or_else(|_| Err(Failure { at: 0, what: "the life's own thread panicked".to_owned() }))
    })
}

/// The failure with the shortest script found that fails.
pub fn reproduce(seed: u64, script: &Script, failure: &Failure) -> String {
    let mut operations = script.operations.clone();
    operations.truncate(failure.at + 1);
    let script = Script { setting: script.setting.clone(), operations };
    let mut last = failure.clone();
    let short = shrink(&script, SHRINK_RUNS_MAX, |candidate| match live(candidate, &Pulse::default()) {
        Ok(_) => false,
        Err(failure) => {
            last = failure;
            true
        }
    });
    format!(
        "FAILED: {failure}\n  shrunk to {} operations: {last}\n# seed {seed}\n{short}",
        short.operations.len()
    )
}
