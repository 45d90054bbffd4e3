//! Solera beside RocksDB, fjall, LMDB, redb and other engines: the same data, the same memory, in
//! one run.
//!
//! It owns the command line (`Cli`): `compare` engines, `measure` what aims ask for, tell the
//! `aims`, count `instructions`, do `updates`, write a `report`. Three hidden commands are for its
//! own children: `compare` and `measure` start `serve`, `updates` starts `updates-once`, and
//! `instructions` starts `once`.
//!
//! What must hold: `compare` and `measure` run phases in the order of `Phase`, whatever order was
//! asked for. They always have `load-random` among them, since the phases behind that use the
//! database that it leaves. `instructions` takes them as asked: each of its processes loads for
//! itself.

// Which files of its user a program may write over is the command's rule, and a command is no
// library. Its rules for clocks and files do not hold here.
#[path = "../../solera-cli/src/failure.rs"]
#[expect(dead_code, reason = "of the command's own file only what refuses is used")]
mod failure;
#[path = "../../solera-cli/src/given.rs"]
#[expect(dead_code, reason = "as above")]
#[allow(unfulfilled_lint_expectations)]
mod given;
#[path = "../../solera-cli/src/own.rs"]
#[expect(dead_code, reason = "as above")]
#[allow(unfulfilled_lint_expectations)]
mod own;

mod aim;
mod child;
mod column;
mod compare;
mod engine;
mod engines;
mod instructions;
mod phase;
mod pieces;
mod process;
mod report;
mod results;
mod source;
mod updates;

use clap::{Parser, Subcommand};
use compare::{Memory, Results, SetResults};
use phase::Phase;
use results::{Kind, PROGRAM, scratch};
use source::Source;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Pairs of a generated set that does not say.
const DEFAULT_ENTRIES: usize = 10_000_000;
/// Reads of a pass, at least.
const OPERATIONS_MIN: usize = 1000;
/// Client threads, at most: each has a read at least.
const CLIENTS_MAX: usize = OPERATIONS_MIN;

/// Measures Solera and other engines side by side
#[derive(Debug, Parser)]
#[command(version)]
enum Cli {
    /// Run the phases over all engines, interleaved
    Compare(Compare),
    /// Measure what the aims ask for, piece by piece, and print every aim beside its number
    Measure(Measure),
    /// Print every aim beside its number
    Aims {
        /// What `compare`, `measure` and `instructions` wrote
        #[arg(required = true)]
        results: Vec<PathBuf>,
    },
    /// Count instructions and cache misses per operation, under valgrind
    Instructions {
        /// Engines, with commas between them
        #[arg(long, value_delimiter = ',', default_value = "solera,rocksdb-tuned,fjall,lmdb")]
        engines: Vec<String>,
        /// Phases, with commas between them; what a mixed phase lays out before its clock starts is
        /// counted with it
        #[arg(
            long,
            value_delimiter = ',',
            default_value = "found-uniform,absent,multi-get,scan-100,full-scan"
        )]
        phases: Vec<Phase>,
        /// Data, as for compare
        #[arg(long, default_value = "uniform/8+64@100000")]
        data: Source,
        /// Operations per pass
        #[arg(long, default_value_t = 20_000)]
        operations: usize,
        /// Where the counts are written, for `report`
        #[arg(long, default_value = "instructions.json")]
        json: PathBuf,
    },
    /// Update keys by Zipf's law, three times as often as there are pairs, and tell what that
    /// writes and takes
    Updates(Updates),
    /// Write results as a Markdown page with pictures
    Report {
        /// What `compare --json` wrote, one run or several
        #[arg(required = true)]
        results: Vec<PathBuf>,
        /// The page; its pictures lie in a directory of the same name without .md
        #[arg(long, default_value = "docs/results/peers.md")]
        out: PathBuf,
    },
    #[command(flatten)]
    Hidden(Hidden),
}

#[derive(Debug, Subcommand)]
enum Hidden {
    /// One engine under measurement: the child of compare
    #[command(hide = true)]
    Serve {
        /// What to do, as JSON
        task: String,
    },
    /// One engine under updates: the child of updates
    #[command(hide = true)]
    UpdatesOnce {
        /// What to do, as JSON
        task: String,
    },
    /// One engine that counts its operations: the child of instructions
    #[command(hide = true)]
    Once {
        /// What to do, as JSON
        task: String,
        /// The phase
        phase: Phase,
        /// How often
        passes: usize,
    },
}

#[derive(Debug, clap::Args)]
struct Compare {
    /// Engines, with commas between them
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "solera,rocksdb-tuned,fjall,lmdb,redb,surrealkv,coordinode"
    )]
    engines: Vec<String>,
    /// Phases, with commas between them [default: all]
    #[arg(long, value_delimiter = ',')]
    phases: Vec<Phase>,
    /// Data, with commas between them: git-history, or KEYS[/SIZES][@PAIRS], where KEYS are a
    /// family, sosd:FILE or lines:FILE, SIZES bytes as 8+64, or udb, zippydb, up2x, and PAIRS as
    /// --n
    #[arg(long, value_delimiter = ',', default_value = "uniform/8+64")]
    data: Vec<Source>,
    /// Pairs of a generated set that does not say
    #[arg(long, default_value_t = DEFAULT_ENTRIES)]
    n: usize,
    /// Repeats of every phase
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Repeats of the phases that write everything [default: as --repeat]
    #[arg(long)]
    load_repeat: Option<usize>,
    /// Memory budget of each engine, in MiB [default: one and a half times the data, 64 at least]
    #[arg(long)]
    memory_mib: Option<u64>,
    /// Memory budget of each engine as a part of the data: 8 for an eighth
    #[arg(long, conflicts_with = "memory_mib", value_parser = clap::value_parser!(u64).range(1..))]
    memory_part: Option<u64>,
    /// Read tables past the system's page cache (O_DIRECT), in the engines that can: Solera and
    /// RocksDB
    #[arg(long)]
    direct: bool,
    /// Compress data blocks with LZ4, in the engines that can, and with Snappy in SurrealKV, which
    /// has no LZ4; LMDB and redb do not compress. Generated values do not compress
    #[arg(long)]
    lz4: bool,
    /// Reads per pass; scans are fewer
    #[arg(long, default_value_t = 1_000_000)]
    operations: usize,
    /// No pass but loads and full scans takes longer than about this, in seconds
    #[arg(long, default_value_t = 10.0)]
    pass_seconds: f64,
    /// Seed of data and operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Client threads that share the operations of a phase; full scans have one, and the phase
    /// two-threads two
    #[arg(long, default_value = "1", value_parser = clients)]
    threads: usize,
    /// Where the databases are made [default: the system's directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the results are written; an older file is replaced if this program made it
    #[arg(long, default_value = "peers.json")]
    json: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Updates {
    /// Engines, with commas between them; each may have settings of its own behind a colon, with +
    /// between them: rocksdb-blob:blob_garbage_collection_age_cutoff=0.1+write_buffer_size=2097152
    #[arg(long, value_delimiter = ',', default_value = "solera-values,rocksdb-blob,fjall-values")]
    engines: Vec<String>,
    /// Pairs
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    n: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 1016, value_parser = clap::value_parser!(u32).range(16..=65536))]
    value_bytes: u32,
    /// Reads among the updates of each phase, and at rest
    #[arg(long, default_value_t = 40_000)]
    lookups: u64,
    /// Repeats
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Memory budget of each engine as a part of the live bytes, 8 MiB at least
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..))]
    memory_part: u64,
    /// Read tables past the system's page cache (O_DIRECT), in the engines that can
    #[arg(long)]
    direct: bool,
    /// Seed of data and operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the databases are made [default: the system's directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// The page; it is written anew after each engine
    #[arg(long, default_value = "peers-updates.md")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Measure {
    /// Which pieces [default: all]
    pieces: Vec<String>,
    /// Directory of the results, one file for each piece; what lies there already is told, too
    #[arg(long, default_value = "peers")]
    into: PathBuf,
    /// Sets of more than a million pairs have so many times fewer, but a million at least
    #[arg(long, default_value_t = 1)]
    shrink: usize,
    /// Repeats of every phase
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Repeats of the phases that write everything
    #[arg(long, default_value_t = 1)]
    load_repeat: usize,
    /// Reads per pass; scans are fewer
    #[arg(long, default_value_t = 300_000)]
    operations: usize,
    /// No pass but loads and full scans takes longer than about this, in seconds
    #[arg(long, default_value_t = 2.0)]
    pass_seconds: f64,
    /// Seed of data and operations
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the databases are made [default: the system's directory for temporary files]
    #[arg(long)]
    dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Cli::parse() {
        Cli::Compare(compare) => run(compare),
        Cli::Measure(measure) => run_pieces(&measure),
        Cli::Aims { results } => read_all(&results).map(|results| print!("{}", aim::table(&results))),
        Cli::Instructions { engines, phases, data, operations, json } => {
            count(&engines, &phases, &data, operations, &json)
        }
        Cli::Updates(updates) => update(updates),
        Cli::Report { results, out } => write_report(&results, &out),
        Cli::Hidden(Hidden::Serve { task }) => child::serve(&task),
        Cli::Hidden(Hidden::UpdatesOnce { task }) => updates::once(&task),
        Cli::Hidden(Hidden::Once { task, phase, passes }) => instructions::once(&task, phase, passes),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn clients(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=CLIENTS_MAX).contains(count));
    count.ok_or_else(|| format!("client threads are a whole number from 1 to {CLIENTS_MAX}"))
}

fn run(compare: Compare) -> engine::Result<()> {
    results::check(&compare.json, Kind::Json)?;
    let directory = scratch(compare.dir.as_ref())?;
    let phases = if compare.phases.is_empty() { Phase::all().to_vec() } else { sorted(compare.phases) };
    let memory = match (compare.memory_mib, compare.memory_part) {
        (Some(mib), _) => Memory::Bytes(mib << 20),
        (None, Some(part)) => Memory::Part(part),
        (None, None) => Memory::Whole,
    };
    let comparison = compare::Comparison {
        engines: compare.engines,
        phases,
        data: compare.data,
        entries: compare.n,
        direct: compare.direct,
        repeats: compare.repeat.max(1),
        load_repeats: compare.load_repeat.unwrap_or(compare.repeat).max(1),
        memory,
        lz4: compare.lz4,
        operations: compare.operations.max(OPERATIONS_MIN),
        pass_seconds: compare.pass_seconds,
        seed: compare.seed,
        threads: compare.threads,
        directory: directory.path().to_owned(),
        command: command(),
    };
    let results = compare::run(&comparison, &|results| write(results, &compare.json))?;
    println!("{}", report::markdown(&[results], None));
    Ok(())
}

fn update(asked: Updates) -> engine::Result<()> {
    results::check(&asked.out, Kind::Updates)?;
    let directory = scratch(asked.dir.as_ref())?;
    let updates = updates::Updates {
        engines: asked.engines,
        pairs: asked.n,
        value_bytes: asked.value_bytes as usize,
        lookups: asked.lookups,
        repeats: asked.repeat.max(1),
        memory_part: asked.memory_part,
        direct: asked.direct,
        seed: asked.seed,
        directory: directory.path().to_owned(),
        command: command(),
    };
    updates::run(&updates, &mut |document| updates::write(document, &asked.out))
}

fn run_pieces(measure: &Measure) -> engine::Result<()> {
    let effort = pieces::Effort {
        shrink: measure.shrink.max(1),
        operations: measure.operations.max(OPERATIONS_MIN),
        pass_seconds: measure.pass_seconds,
        repeats: measure.repeat.max(1),
        load_repeats: measure.load_repeat.max(1),
        seed: measure.seed,
    };
    let pieces: Vec<&pieces::Piece> = match &measure.pieces[..] {
        [] => pieces::PIECES.iter().collect(),
        names => names.iter().map(|name| pieces::Piece::named(name)).collect::<Result<_, _>>()?,
    };
    results::directory(&measure.into, "--into")?;
    let file = |piece: &pieces::Piece| measure.into.join(piece.name).with_extension("json");
    pieces.iter().try_for_each(|piece| results::check(&file(piece), Kind::Json))?;
    for piece in pieces {
        let directory = scratch(measure.dir.as_ref())?;
        let comparison = piece.comparison(&effort, directory.path().to_owned(), command())?;
        compare::run(&comparison, &|results| write(results, &file(piece)))?;
    }
    let files = std::fs::read_dir(&measure.into)?.map(|entry| Ok(entry?.path()));
    let mut files = files.collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort_unstable();
    print!("{}", aim::table(&read_all(&files)?));
    Ok(())
}

/// What the user wrote.
fn command() -> String {
    format!("{PROGRAM}{}", std::env::args().skip(1).collect::<Vec<_>>().join(" "))
}

fn write(results: &Results, file: &Path) -> engine::Result<()> {
    results::write(file, Kind::Json, &serde_json::to_string_pretty(results)?)
}

fn read_all(files: &[PathBuf]) -> engine::Result<Vec<Results>> {
    files.iter().map(|file| compare::read(file)).collect()
}

fn count(
    engines: &[String],
    phases: &[Phase],
    data: &Source,
    operations: usize,
    json: &Path,
) -> engine::Result<()> {
    results::check(json, Kind::Json)?;
    let directory = scratch(None)?;
    let entries = data.entries(DEFAULT_ENTRIES);
    let memory_bytes = Memory::Whole.bytes(data, entries);
    let task = |engine: &String| child::Task {
        engine: engine.clone(),
        directory: directory.path().join(engine),
        source: data.clone(),
        entries,
        memory_bytes,
        direct: false,
        lz4: false,
        operations,
        // A simulated processor takes its time.
        pass_seconds: 1e6,
        seed: 1,
        threads: 1,
    };
    let mut results = Results::here(command(), 1)?;
    results.sets.push(SetResults {
        name: data.to_string(),
        entries,
        data_bytes: entries as u64 * data.pair_bytes(),
        memory_bytes,
        direct: false,
        lz4: false,
        threads: 1,
        engines: instructions::run(&engines.iter().map(task).collect::<Vec<_>>(), phases)?,
    });
    write(&results, json)?;
    println!("{}", report::markdown(&[results], None));
    Ok(())
}

/// In the order in which phases run, whatever order was asked for: loads come first.
fn sorted(mut phases: Vec<Phase>) -> Vec<Phase> {
    if !phases.contains(&Phase::LoadRandom) {
        phases.push(Phase::LoadRandom);
    }
    phases.sort_unstable();
    phases.dedup();
    phases
}

fn write_report(results: &[PathBuf], out: &Path) -> engine::Result<()> {
    let runs = read_all(results)?;
    let pictures = out.with_extension("");
    // The directory of the page with it.
    results::directory(&pictures, "--out without .md")?;
    let name = pictures.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    results::write(out, Kind::Page, &report::markdown(&runs, Some(&name)))?;
    report::pictures(&runs)
        .iter()
        .try_for_each(|(picture, svg)| results::write(&pictures.join(picture), Kind::Picture, svg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_threads_are_one_unless_a_whole_number_says_otherwise() {
        let threads = |arguments: &[&str]| {
            let command = ["solera-bench-peers", "compare"].iter().chain(arguments);
            match Cli::try_parse_from(command) {
                Ok(Cli::Compare(compare)) => Ok(compare.threads),
                Ok(other) => panic!("{other:?} is not compare"),
                Err(error) => Err(error.to_string()),
            }
        };
        assert_eq!(threads(&[]), Ok(1));
        assert_eq!(threads(&["--threads", "1"]), Ok(1));
        assert_eq!(threads(&["--threads", "1000"]), Ok(1000));
        for wrong in
            ["--threads=0", "--threads=-1", "--threads=2.5", "--threads=two", "--threads=", "--threads=1001"]
        {
            let said = threads(&[wrong]).unwrap_err();
            assert!(said.contains("a whole number from 1 to 1000"), "{wrong}: {said}");
        }
    }
}
