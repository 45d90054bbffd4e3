//! `solera-sim PROGRAM`: the programs that try to break Solera.

use clap::{Args, Parser, Subcommand};
use solera::vfs::mem::Persist;
use solera_sim::{
    life::{Pulse, live},
    program::{crashsim, crowd, diffmodel, kill9},
    script::Script,
};
use std::{path::PathBuf, process::ExitCode};

/// Programs that try to break Solera; each ends with one line of figures and fails if a promise was broken
#[derive(Debug, Parser)]
#[command(name = "solera-sim", version)]
struct Cli {
    /// End with a line of JSON instead
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    program: Program,
}

#[derive(Debug, Args)]
struct Seeds {
    /// How many seeds
    #[arg(long, default_value_t = 50)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Lives lived at the same time
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// Random operations against an in-memory oracle, over random layouts and shapes
    Diffmodel {
        #[command(flatten)]
        seeds: Seeds,
        /// Operations per seed
        #[arg(long, default_value_t = 100_000)]
        ops: usize,
        /// Live every script twice: answers and files must be the same
        #[arg(long)]
        twice: bool,
    },
    /// Power cuts at every file operation of a life
    Crashsim {
        #[command(flatten)]
        seeds: Seeds,
        /// Operations of a random life
        #[arg(long, default_value_t = 120)]
        ops: usize,
        /// Every way of losing unsynced changes, not only nothing, everything and random pages
        #[arg(long)]
        all: bool,
    },
    /// Many threads on one database with its background workers
    Crowd {
        /// How many databases, one after the other
        #[arg(long, default_value_t = 20)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Operations of each thread
        #[arg(long, default_value_t = 20_000)]
        ops: usize,
        /// Threads that use the database
        #[arg(long, default_value_t = 4)]
        threads: u8,
        /// Threads of the database
        #[arg(long, default_value_t = 2)]
        background: usize,
    },
    /// A child process on the real file system, killed at random moments
    Kill9 {
        /// How many kills
        #[arg(long, default_value_t = 100)]
        kills: u64,
        /// Seed of the moments
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Kill this `solera` command during a load
        #[arg(long, value_name = "PATH")]
        solera: Option<PathBuf>,
        /// Where databases are made [default: the system's directory for temporary files]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
    /// Lives a printed script
    Replay {
        /// The file with the script
        file: PathBuf,
        /// Cut the power at every file operation of it
        #[arg(long)]
        crash: bool,
    },
    /// The child of kill9
    #[command(hide = true)]
    Kill9Child {
        /// The database
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let concluded = match cli.program {
        Program::Diffmodel { seeds, ops, twice } => Ok(diffmodel::run(diffmodel::Amount {
            first_seed: seeds.seed,
            seeds: seeds.seeds,
            operations: ops,
            threads: seeds.threads,
            twice,
        })),
        Program::Crashsim { seeds, ops, all } => Ok(crashsim::run(&crashsim::Amount {
            first_seed: seeds.seed,
            seeds: seeds.seeds,
            operations: ops,
            variants: if all { Persist::ALL.to_vec() } else { crashsim::USUAL.to_vec() },
            threads: seeds.threads,
        })),
        Program::Crowd { seeds, seed, ops, threads, background } => Ok(crowd::run(crowd::Amount {
            first_seed: seed,
            seeds,
            operations: ops,
            threads,
            background_threads: background,
        })),
        Program::Kill9 { kills, seed, solera, dir } => {
            let dir = dir.unwrap_or_else(std::env::temp_dir);
            std::env::current_exe()
                .and_then(|program| kill9::run(&kill9::Amount { seed, kills, program, solera, dir }))
                .map_err(|error| error.to_string())
        }
        Program::Replay { file, crash } => return replay(&file, crash),
        Program::Kill9Child { dir } => {
            return match kill9::child(&dir) {
                Ok(()) => ExitCode::SUCCESS,
                Err(what) => failed(&what),
            };
        }
    };
    match concluded {
        Ok(verdict) => verdict.conclude(cli.json),
        Err(what) => failed(&what),
    }
}

fn replay(file: &std::path::Path, crash: bool) -> ExitCode {
    let script = match std::fs::read_to_string(file) {
        Ok(text) => text.parse::<Script>(),
        Err(error) => Err(error.to_string()),
    };
    let lived = script.and_then(|script| {
        if crash {
            let swept = solera_sim::crash::Sweep::run(&script, &crashsim::USUAL, 0);
            return swept.map(|sweep| format!("{sweep:?}")).map_err(|violation| violation.to_string());
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
