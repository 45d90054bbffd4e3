//! `faultloop`: of a scripted life and of a random one, every file call that a way concerns fails
//! in turn; `run`.
//!
//! A call fails once, or all from it on until they heal (`faults::Plan`). Scripted lives are also
//! lived with background threads; there some of the first 500 calls fail. A violation is printed
//! with a shrunk script, or the whole one if there are threads. Lives whose clock jumps go beside.
//!
//! What must hold: the rules of `faults`, in every life.
//!
//! Callers: `solera-sim faultloop`; `tests/lives.rs`.

use super::{Scale, Verdict, crashsim, for_each_seed, watch};
use crate::{
    digest::Digest,
    faults::{self, Failing, Outcome, Plan, clock},
    life::Pulse,
    random::Random,
    script::{Script, shrink::shrink},
};

/// Runs spent on shrinking one violation; each is a whole loop.
const SHRINK_RUNS_MAX: usize = 80;
/// Threads of a database that has any.
const BACKGROUND_THREADS: usize = 2;
/// Of a life with background threads, one of so many first calls fails; of fewer once a life had
/// fewer.
const CALLS_WITH_THREADS: u64 = 500;
/// Lives with background threads, at most, until in one of them a call failed.
const LIVES_PER_POINT: u64 = 8;
/// Operations of a random life.
const RANDOM_OPERATIONS: usize = 60;
/// Steps of a life whose clock jumps.
const CLOCK_STEPS: usize = 400;

/// How much to do.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds, each with two lives and a setting for each.
    pub seeds: u64,
    /// Of a life's calls, one in so many fails.
    pub stride: u64,
    /// Calls that fail in lives with background threads, in scripted lives, for each seed and way,
    /// if lives have so many.
    pub with_threads: u64,
    /// Loops at the same time.
    pub threads: usize,
}

impl Amount {
    /// As much as the scale says, from seed `first_seed` on.
    pub fn at(scale: Scale, first_seed: u64, threads: usize) -> Amount {
        Amount { first_seed, seeds: scale.of(2, 15), stride: 1, with_threads: scale.of(4, 20), threads }
    }
}

/// What a loop has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    points: u64,
    errors: u64,
    poisoned: u64,
    /// Points at which space ran out while the database was open, and of these those that resumed.
    must_resume: u64,
    resumed: u64,
    violations: u64,
    digest: Digest,
}

/// What one loop does: one life, one way to fail, once or sticky, with threads or without.
struct Loop {
    seed: u64,
    life: Life,
    failing: Failing,
    sticky: bool,
    background_threads: usize,
    skips: Skips,
}

/// What is lived.
#[derive(Clone, Copy)]
enum Life {
    /// Every kind of change, in an order that reaches every kind of file.
    Scripted,
    /// Whatever comes.
    Random,
}

impl Life {
    fn name(self) -> &'static str {
        match self {
            Life::Scripted => "scripted",
            Life::Random => "random",
        }
    }

    fn script(self, seed: u64) -> Script {
        faults::with_reads(&match self {
            Life::Scripted => crashsim::scripted(seed),
            Life::Random => crashsim::random(seed, RANDOM_OPERATIONS),
        })
    }
}

/// Which calls fail, one in each life.
#[derive(Clone, Copy)]
enum Skips {
    /// Every so many, until a life has no call left to fail.
    Every(u64),
    /// So many, anywhere: how many calls a life with threads makes is not known before.
    Drawn(u64),
}

/// Runs the loops of the seeds and prints each violation with a shrunk reproduction.
pub fn run(amount: Amount) -> Verdict {
    let seeds = amount.first_seed..amount.first_seed + amount.seeds;
    let mut loops = Vec::new();
    for seed in seeds.clone() {
        for life in [Life::Scripted, Life::Random] {
            for failing in Failing::ALL {
                for sticky in [false, true] {
                    let skips = Skips::Every(amount.stride.max(1));
                    let alone = Loop { seed, life, failing, sticky, background_threads: 0, skips };
                    let skips = Skips::Drawn(amount.with_threads);
                    let crowd = Loop { background_threads: BACKGROUND_THREADS, skips, ..alone };
                    loops.push(alone);
                    // With threads time goes on by itself, and random lives have what expires.
                    loops.extend(matches!(life, Life::Scripted).then_some(crowd));
                }
            }
        }
    }
    let seen = for_each_seed(0, loops.len() as u64, amount.threads, |nth| one(&loops[nth as usize]));
    let jumps = for_each_seed(amount.first_seed, amount.seeds * 10, amount.threads, |seed| {
        clock::live(seed, CLOCK_STEPS).unwrap_or_else(|what| {
            println!("seed {seed}, a clock that jumps: VIOLATED: {what}");
            u64::MAX
        })
    });
    let (alone, crowd): (Vec<_>, Vec<_>) =
        loops.iter().zip(&seen).map(|(one, seen)| (one.background_threads, seen)).partition(|(n, _)| *n == 0);
    let sum =
        |all: &[(usize, &Seen)], of: fn(&Seen) -> u64| all.iter().map(|(_, seen)| of(seen)).sum::<u64>();
    let mut digest = Digest::new();
    alone.iter().for_each(|(_, seen)| digest.add(&seen.digest.0.to_le_bytes()));
    let clock_violations = jumps.iter().filter(|jumps| **jumps == u64::MAX).count() as u64;
    let violations = sum(&alone, |seen| seen.violations) + sum(&crowd, |seen| seen.violations);
    let (must, did) = (sum(&alone, |seen| seen.must_resume), sum(&alone, |seen| seen.resumed));
    Verdict::new("faultloop")
        .figure("points", sum(&alone, |seen| seen.points))
        .figure("points_with_threads", sum(&crowd, |seen| seen.points))
        .figure("ways", Failing::ALL.len() * 2)
        .figure("errors", sum(&alone, |seen| seen.errors))
        .figure("poisoned", sum(&alone, |seen| seen.poisoned))
        .figure("autoresume", format!("{did}/{must}"))
        .figure("clock_jumps", jumps.iter().filter(|jumps| **jumps != u64::MAX).sum::<u64>())
        .figure("seeds", amount.seeds)
        .must_be_none("violations", violations + clock_violations)
        .figure("digest", digest)
}

fn one(one: &Loop) -> Seen {
    let Loop { seed, life, failing, sticky, background_threads, skips } = *one;
    let script = life.script(seed);
    let name = life.name();
    let plan = |skip| Plan { failing, skip, sticky, background_threads };
    let mut seen = Seen::default();
    let mut random = Random::new(seed);
    let mut calls = CALLS_WITH_THREADS;
    let hangs = |beats| println!("seed {seed} {name}: hangs, {beats} lives after {}", plan(0));
    watch(
        |pulse| {
            for nth in 0.. {
                let skip = match skips {
                    Skips::Every(stride) => nth * stride,
                    Skips::Drawn(count) if seen.points < count && nth < count * LIVES_PER_POINT => {
                        random.below(calls)
                    }
                    Skips::Drawn(_) => break,
                };
                pulse.beat();
                match faults::live(&script, Some(plan(skip))) {
                    Ok(outcome) if outcome.hit => count(&mut seen, &outcome, failing),
                    Ok(_) if background_threads == 0 => break,
                    Ok(_) => calls = skip.max(1),
                    Err(what) => {
                        seen.violations += 1;
                        // At once: what follows takes its time.
                        println!("seed {seed} {name}: {}: VIOLATED: {what}", plan(skip));
                        // With threads no life is like another, and none says that a shorter one
                        // would not fail.
                        match background_threads {
                            0 => println!("{}", reproduce(&script, plan(skip), &what, pulse)),
                            _ => println!("# solera-sim replay FILE --fault '{}'\n{script}", plan(skip)),
                        }
                        // One reproduction of a loop is enough to read at a time.
                        break;
                    }
                }
            }
        },
        hangs,
    );
    let threads = if background_threads == 0 { "" } else { ", with threads" };
    let how = if sticky { "until healed" } else { "once" };
    println!(
        "seed {seed} {name}: {} {how}{threads}: {} points, {} errors, {} refused writes",
        failing.name, seen.points, seen.errors, seen.poisoned
    );
    seen
}

fn count(seen: &mut Seen, outcome: &Outcome, failing: Failing) {
    seen.points += 1;
    seen.errors += outcome.errors;
    seen.poisoned += u64::from(outcome.poisoned);
    if failing.space && outcome.probed {
        seen.must_resume += 1;
        seen.resumed += u64::from(outcome.resumed);
    }
    seen.digest.add(&outcome.digest.0.to_le_bytes());
    seen.digest.add(&[u8::from(outcome.poisoned), u8::from(outcome.resumed)]);
}

fn reproduce(script: &Script, plan: Plan, what: &str, pulse: &Pulse) -> String {
    let mut last = (plan, what.to_owned());
    let short = shrink(script, SHRINK_RUNS_MAX, |candidate| {
        for skip in 0.. {
            pulse.beat();
            let plan = Plan { skip, ..plan };
            match faults::live(candidate, Some(plan)) {
                Ok(outcome) if outcome.hit => {}
                Ok(_) => return false,
                Err(what) => {
                    last = (plan, what);
                    return true;
                }
            }
        }
        false
    });
    let (plan_of_short, what_of_short) = last;
    format!(
        "  shrunk to {} operations: {what_of_short}\n\
         # solera-sim replay FILE --fault '{plan_of_short}'\n{short}",
        short.operations.len(),
    )
}
