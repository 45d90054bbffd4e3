//! `diffmodel`: random lives, the engine against the oracle (`life::live`); `run`, and `script`,
//! the script of a seed.
//!
//! It lives the scripts of many seeds on many threads, under a watch for hangs. A failure is
//! printed with the shortest script found that fails (`reproduce`).
//!
//! What must hold: the engine answers as the oracle does, at every step of every life.
//!
//! Callers: `solera-sim diffmodel`, `canary`; `tests/lives.rs`.

use super::{Scale, Verdict, for_each_seed, watch};
use crate::{
    digest::Digest,
    life::{Failure, Outcome, Pulse, live},
    random::Random,
    script::{Script, generate::Generator, shrink::shrink},
    setting::Setting,
    tell::Work,
};
use std::collections::BTreeSet;

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
    /// Look for a shorter script that fails, too.
    pub shrinks: bool,
}

/// The script of a seed.
pub fn script(seed: u64, operations: usize) -> Script {
    let mut random = Random::new(seed);
    let setting = Setting::random(&mut random);
    Generator::new(&setting, &mut random).script(setting, operations)
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64, threads: usize) -> Amount {
        Amount {
            first_seed,
            seeds: scale.of(50, 2000),
            operations: 100_000,
            threads,
            twice: false,
            shrinks: true,
        }
    }
}

/// Lives the scripts of the seeds and prints each failure with a shrunk reproduction.
pub fn run(amount: Amount) -> Verdict {
    let lived = for_each_seed(amount.first_seed, amount.seeds, amount.threads, |seed| {
        let script = script(seed, amount.operations);
        let lived = one(seed, &script, amount);
        println!("seed {seed}: {}", lived.as_ref().err().map_or("same", String::as_str));
        (seed, script.setting, lived)
    });
    let mut kinds = BTreeSet::new();
    let mut work = Work::default();
    let mut digest = Digest::new();
    let mut failed = Vec::new();
    for (seed, setting, lived) in lived {
        kinds.extend(setting.spaces.iter().map(|space| (space.index.name(), space.compression.name())));
        match lived {
            Ok(outcome) => {
                work.add(&outcome.work);
                digest.add(&outcome.answers.to_le_bytes());
                digest.add(&outcome.files.to_le_bytes());
            }
            Err(_) => failed.push(seed),
        }
    }
    let verdict = Verdict::new("diffmodel")
        .figure("seeds", amount.seeds)
        .figure("ops", amount.seeds * amount.operations as u64)
        .figure("configs", kinds.len())
        .figure("flushes", work.flushes)
        .figure("compactions", work.compactions)
        .must_be_none("mismatches", failed.len() as u64)
        .figure("digest", digest);
    if failed.is_empty() {
        verdict
    } else {
        verdict.figure("failed_seeds", format!("{failed:?}").replace(' ', ""))
    }
}

fn one(seed: u64, script: &Script, amount: Amount) -> Result<Outcome, String> {
    let again = |first| match live(script, &Pulse::default()) {
        Ok(second) if second == first => Ok(second),
        Ok(second) => {
            Err(Failure { at: 0, what: format!("lived twice, ended as {first:x?} and as {second:x?}") })
        }
        Err(failure) => Err(failure),
    };
    watched(seed, script).and_then(|first| if amount.twice { again(first) } else { Ok(first) }).map_err(
        |failure| match amount.shrinks {
            true => reproduce(seed, script, &failure),
            false => format!("FAILED: {failure}"),
        },
    )
}

/// Lives the script under a watch.
fn watched(seed: u64, script: &Script) -> Result<Outcome, Failure> {
    watch(
        |pulse| live(script, pulse),
        |beats| {
            let at = (beats as usize).saturating_sub(1).min(script.operations.len() - 1);
            println!("seed {seed}: hangs at operation {at}: {}", script.operations[at]);
        },
    )
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
