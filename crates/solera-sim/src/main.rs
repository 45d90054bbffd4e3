//! `solera-sim PROGRAM`: the command line of the programs that try to break Solera.
//!
//! It reads scale, seed, threads and other words of each program, runs it, and prints its verdict,
//! as words or as JSON. `all` runs every program but `canary`, even after one that failed. `replay`
//! lives a printed script, with power cuts or failing calls if asked.
//!
//! `--record` writes the figures of a whole scale into a document.
//!
//! What must hold: it exits with success only if every promise was kept.
//!
//! Callers: people, `.ci`, and the program itself (`canary`, `kill9` and `limits` run it as a
//! child).

use clap::{Args, Parser, Subcommand};
use solera::vfs::mem::Persist;
#[cfg(feature = "canary")]
use solera_sim::program::canary;
use solera_sim::{
    crash::{Plan, Sweep},
    faults,
    life::{Pulse, live},
    program::{
        Scale, Verdict, bitflip, crashsim, crowd, diffmodel, evilmodel, faultloop, isolate, kill9, limits,
        metamorph, record::record,
    },
    script::Script,
};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    time::Instant,
};

/// What `all` runs, in this order.
const ALL: [&str; 10] = [
    "diffmodel",
    "metamorph",
    "bitflip",
    "evilmodel",
    "crashsim",
    "faultloop",
    "crowd",
    "kill9",
    "isolate",
    "limits",
];

/// Largest first seed: programs count on from it.
const SEED_MAX: u64 = 1 << 62;

/// A count. Of nothing at all every promise would be kept.
fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    let count: Option<T> = text.parse().ok();
    count
        .filter(|count| *count >= T::from(1))
        .ok_or_else(|| "a whole number of at least 1 is needed".to_owned())
}

/// Programs that try to break Solera; each ends with one line of figures and fails if a promise was
/// broken
#[derive(Debug, Parser)]
#[command(name = "solera-sim", version)]
struct Cli {
    #[command(flatten)]
    how: How,
    #[command(subcommand)]
    program: Program,
}

/// What every program understands.
#[derive(Clone, Debug, Args)]
struct How {
    /// Do as much as the test command affords (the default)
    #[arg(long, global = true, conflicts_with = "nightly")]
    quick: bool,
    /// Do as much as a night affords
    #[arg(long, global = true)]
    nightly: bool,
    /// The first seed
    #[arg(long, global = true, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=SEED_MAX))]
    seed: u64,
    /// Lives lived at the same time, by programs whose lives are independent
    #[arg(long, global = true, default_value_t = 2)]
    threads: usize,
    /// End with a line of JSON instead
    #[arg(long, global = true)]
    json: bool,
    /// Write the figures, with command and commit, into the table of this document
    #[arg(long, global = true, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl How {
    fn scale(&self) -> Scale {
        if self.nightly { Scale::Nightly } else { Scale::Quick }
    }
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Every program below, one after the other
    All,
    /// Random operations against an in-memory oracle, over random layouts and shapes
    Diffmodel {
        /// How many seeds
        #[arg(long, value_parser = at_least_one::<u64>)]
        seeds: Option<u64>,
        /// Operations per seed
        #[arg(long, value_parser = at_least_one::<usize>)]
        ops: Option<usize>,
        /// Live every script twice: answers and files must be the same
        #[arg(long)]
        twice: bool,
        /// Print a failure as it was found, without a search for a shorter script
        #[arg(long)]
        as_found: bool,
    },
    /// The same operations under many option sets
    Metamorph {
        /// How many seeds; each is lived under every set
        #[arg(long, value_parser = at_least_one::<u64>)]
        seeds: Option<u64>,
        /// Operations per life
        #[arg(long, value_parser = at_least_one::<usize>)]
        ops: Option<usize>,
    },
    /// Every bit of a small complete database, one at a time
    Bitflip {
        /// How many flips, evenly over the image
        #[arg(long, value_parser = at_least_one::<u64>)]
        flips: Option<u64>,
        /// This bit only
        #[arg(long, conflicts_with = "flips")]
        bit: Option<u64>,
    },
    /// Models and index bytes made by an enemy, with right checksums
    Evilmodel {
        /// How many seeds, each a table and a climb of models from it
        #[arg(long, value_parser = at_least_one::<u64>)]
        seeds: Option<u64>,
        /// Lookups of each model
        #[arg(long, value_parser = at_least_one::<usize>)]
        lookups: Option<usize>,
        /// Only this model of the first seed's table, as a failure prints it, such as "line 17,4"
        #[arg(long, value_name = "MODEL", conflicts_with_all = ["seeds", "lookups"])]
        model: Option<evilmodel::Model>,
    },
    /// Power cuts at every file operation of a life
    Crashsim {
        /// How many seeds
        #[arg(long, value_parser = at_least_one::<u64>)]
        seeds: Option<u64>,
        /// Operations of a random life
        #[arg(long, value_parser = at_least_one::<usize>)]
        ops: Option<usize>,
        /// Letters of the longest sequences, all of which are swept; 0: no sequences
        #[arg(long)]
        letters: Option<u32>,
        /// Print a violation as it was found, without a search for a shorter script
        #[arg(long)]
        as_found: bool,
    },
    /// File calls that fail, each in turn and in every way
    Faultloop {
        /// How many seeds
        #[arg(long, value_parser = at_least_one::<u64>)]
        seeds: Option<u64>,
        /// Of a life's calls, one in so many fails
        #[arg(long, value_parser = at_least_one::<u64>)]
        stride: Option<u64>,
    },
    /// Many threads on one database with its background workers
    Crowd {
        /// How many databases, one after the other
        #[arg(long, value_parser = at_least_one::<u64>)]
        seeds: Option<u64>,
        /// Operations of each thread
        #[arg(long, value_parser = at_least_one::<usize>)]
        ops: Option<usize>,
        /// Threads that use the database
        #[arg(long, value_parser = at_least_one::<u8>)]
        users: Option<u8>,
        /// Threads of the database
        #[arg(long)]
        background: Option<usize>,
    },
    /// A child process on the real file system, killed at random moments and at named points
    Kill9 {
        /// How many kills
        #[arg(long, value_parser = at_least_one::<u64>)]
        kills: Option<u64>,
        /// Kill this `solera` command during a load
        #[arg(long, value_name = "PATH")]
        solera: Option<PathBuf>,
        /// Where databases are made [default: the system's directory for temporary files]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Concurrent transactions, and two independent judges of what they saw
    Isolate {
        /// How many transactions
        #[arg(long, value_parser = at_least_one::<u64>)]
        transactions: Option<u64>,
        /// Threads that do them
        #[arg(long, value_parser = at_least_one::<u32>)]
        users: Option<u32>,
    },
    /// Memory budgets, few descriptors for many tables, many tombstones, many iterators
    Limits {
        /// Memory budgets, MiB
        #[arg(long, value_delimiter = ',', value_parser = at_least_one::<u64>)]
        budgets: Option<Vec<u64>>,
        /// Operations for each MiB of a budget
        #[arg(long, value_parser = at_least_one::<u64>)]
        ops: Option<u64>,
        /// Nothing else runs on this machine: judge times, too
        #[arg(long)]
        quiet: bool,
        /// Where databases are made [default: the system's directory for temporary files]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Bugs planted into the engine, each of which a program must find (built with --features
    /// canary)
    Canary,
    /// Lives a printed script
    Replay {
        /// The file with the script
        file: PathBuf,
        /// Cut the power at every file operation of it, with what chance --seed draws
        #[arg(long)]
        crash: bool,
        /// Let file calls fail as faultloop says it, such as "EIO at call 30, once, 0 background
        /// threads"
        #[arg(long, value_name = "FAULT", conflicts_with = "crash")]
        fault: Option<faults::Plan>,
    },
    /// The children of limits
    #[command(hide = true)]
    LimitsChild {
        /// The database
        dir: PathBuf,
        #[command(subcommand)]
        task: limits::Task,
    },
    /// The child of kill9
    #[command(hide = true)]
    Kill9Child(kill9::Sentence),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    #[cfg(feature = "canary")]
    if let Err(what) = canary::plant_named() {
        return failed(&what);
    }
    match cli.program {
        Program::Replay { file, crash, fault } => replay(&file, crash.then_some(cli.how.seed), fault),
        Program::Kill9Child(sentence) => match kill9::child(&sentence) {
            Ok(()) => ExitCode::SUCCESS,
            Err(what) => failed(&what),
        },
        Program::LimitsChild { dir, task } => match limits::run_child(&dir, &task) {
            Ok(()) => ExitCode::SUCCESS,
            Err(what) => failed(&what),
        },
        Program::All => all(&cli.how),
        program => {
            let mut said: Vec<_> = std::env::args().skip(1).collect();
            if let Some(at) = said.iter().position(|word| word.starts_with("--record")) {
                said.drain(at..said.len().min(at + 2 - usize::from(said[at].contains('='))));
                if let Err(what) = is_of_a_scale(&said) {
                    return failed(&what);
                }
            }
            tell(&cli.how, &format!("solera-sim {}", said.join(" ")), program)
        }
    }
}

/// Whether what was said asks for as much as a scale does.
fn is_of_a_scale(said: &[String]) -> Result<(), String> {
    const KNOWN: [&str; 5] = ["--quick", "--nightly", "--seed", "--threads", "--json"];
    let other = said.iter().filter(|word| word.starts_with("--"));
    let other = other.map(|word| word.split('=').next().unwrap_or(word)).find(|word| !KNOWN.contains(word));
    other.map_or(Ok(()), |other| {
        Err(format!(
            "figures with {other} are those of no scale: --record keeps those of --quick and --nightly"
        ))
    })
}

/// Runs every program, even after one that failed.
fn all(how: &How) -> ExitCode {
    let mut exit_code = ExitCode::SUCCESS;
    for name in ALL {
        let program = Cli::parse_from(["solera-sim", name]).program;
        let mut command = format!("solera-sim {name} --{} --threads {}", how.scale().name(), how.threads);
        if how.seed != 0 {
            command += &format!(" --seed {}", how.seed);
        }
        let told = tell(how, &command, program);
        if told != ExitCode::SUCCESS {
            exit_code = told;
        }
    }
    exit_code
}

/// Runs a program and tells what it found.
fn tell(how: &How, command: &str, program: Program) -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "how long a program took is no part of what it does")]
    let begun = Instant::now();
    let verdict = match run(how, program) {
        Ok(verdict) => verdict,
        Err(what) => return failed(&what),
    };
    verdict.print(how.json);
    let recorded = how
        .record
        .as_ref()
        .map_or(Ok(()), |document| record(document, &verdict, how.scale(), command, begun.elapsed()));
    match recorded {
        Ok(()) => verdict.exit_code(),
        Err(what) => failed(&what),
    }
}

fn run(how: &How, program: Program) -> Result<Verdict, String> {
    let (scale, seed, threads) = (how.scale(), how.seed, how.threads);
    match program {
        Program::Diffmodel { seeds, ops, twice, as_found } => {
            let usual = diffmodel::Amount::at(scale, seed, threads);
            Ok(diffmodel::run(diffmodel::Amount {
                seeds: seeds.unwrap_or(usual.seeds),
                operations: ops.unwrap_or(usual.operations),
                twice,
                shrinks: !as_found,
                ..usual
            }))
        }
        Program::Metamorph { seeds, ops } => {
            let usual = metamorph::Amount::at(scale, seed, threads);
            Ok(metamorph::run(metamorph::Amount {
                seeds: seeds.unwrap_or(usual.seeds),
                operations: ops.unwrap_or(usual.operations),
                ..usual
            }))
        }
        Program::Bitflip { flips, bit } => {
            let usual = bitflip::Amount::at(scale, seed, threads);
            bitflip::run(bitflip::Amount { flips: flips.or(usual.flips), only: bit, ..usual })
        }
        Program::Evilmodel { seeds, lookups, model } => {
            let usual = evilmodel::Amount::at(scale, seed, threads);
            Ok(evilmodel::run(&evilmodel::Amount {
                seeds: seeds.unwrap_or(usual.seeds),
                lookups: lookups.unwrap_or(usual.lookups),
                only: model,
                ..usual
            }))
        }
        Program::Crashsim { seeds, ops, letters, as_found } => {
            let usual = crashsim::Amount::at(scale, seed, threads);
            Ok(crashsim::run(&crashsim::Amount {
                seeds: seeds.unwrap_or(usual.seeds),
                operations: ops.unwrap_or(usual.operations),
                letters: letters.unwrap_or(usual.letters),
                shrinks: !as_found,
                ..usual
            }))
        }
        Program::Faultloop { seeds, stride } => {
            let usual = faultloop::Amount::at(scale, seed, threads);
            Ok(faultloop::run(faultloop::Amount {
                seeds: seeds.unwrap_or(usual.seeds),
                stride: stride.unwrap_or(usual.stride),
                ..usual
            }))
        }
        Program::Crowd { seeds, ops, users, background } => {
            let usual = crowd::Amount::at(scale, seed);
            Ok(crowd::run(crowd::Amount {
                seeds: seeds.unwrap_or(usual.seeds),
                operations: ops.unwrap_or(usual.operations),
                threads: users.unwrap_or(usual.threads),
                background_threads: background.unwrap_or(usual.background_threads),
                ..usual
            }))
        }
        Program::Kill9 { kills, solera, dir } => {
            let child = std::env::current_exe().map_err(|error| error.to_string())?;
            let usual = kill9::Amount::at(scale, seed, child);
            let amount = kill9::Amount {
                kills: kills.unwrap_or(usual.kills),
                solera,
                dir: dir.unwrap_or(usual.dir),
                ..usual
            };
            kill9::run(&amount).map_err(|error| error.to_string())
        }
        Program::Isolate { transactions, users } => {
            let usual = isolate::Amount::at(scale, seed);
            Ok(isolate::run(isolate::Amount {
                transactions: transactions.unwrap_or(usual.transactions),
                threads: users.unwrap_or(usual.threads),
                ..usual
            }))
        }
        Program::Limits { budgets, ops, quiet, dir } => {
            let program = std::env::current_exe().map_err(|error| error.to_string())?;
            let usual = limits::Amount::at(scale, seed, program);
            limits::run(&limits::Amount {
                budgets_mib: budgets.unwrap_or(usual.budgets_mib),
                operations_per_mib: ops.unwrap_or(usual.operations_per_mib),
                quiet,
                dir: dir.unwrap_or(usual.dir),
                ..usual
            })
        }
        #[cfg(feature = "canary")]
        Program::Canary => canary::run(&std::env::current_exe().map_err(|error| error.to_string())?, threads),
        #[cfg(not(feature = "canary"))]
        Program::Canary => Err("no bug can be planted into this build; the one that has them: \
                                cargo run --profile test -p solera-sim --features canary -- canary"
            .to_owned()),
        Program::All | Program::Replay { .. } | Program::Kill9Child(_) | Program::LimitsChild { .. } => {
            unreachable!("not a program with a verdict")
        }
    }
}

fn replay(file: &Path, crash: Option<u64>, fault: Option<faults::Plan>) -> ExitCode {
    let script = match std::fs::read_to_string(file) {
        Ok(text) => text.parse::<Script>(),
        Err(error) => Err(error.to_string()),
    };
    let lived = script.and_then(|script| {
        if let Some(seed) = crash {
            let plan = Plan { variants: &Persist::ALL, draws: 2, from: 0, seed };
            let swept = Sweep::run(&script, plan);
            return swept.map(|sweep| sweep.to_string()).map_err(|violation| violation.to_string());
        }
        if fault.is_some() {
            return faults::live(&script, fault).map(|outcome| format!("{outcome:x?}"));
        }
        live(&script, &Pulse::default())
            .map(|outcome| format!("{outcome:x?}"))
            .map_err(|failure| failure.to_string())
    });
    match lived {
        Ok(outcome) => {
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(what) => failed(&format!("{}: {what}", file.display())),
    }
}

fn failed(what: &str) -> ExitCode {
    eprintln!("{what}");
    ExitCode::FAILURE
}
