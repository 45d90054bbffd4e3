//! The order of things in `solera bench`: `run`, by a `Config`; `Error`, `Progress`.
//!
//! It generates each data set, loads an `Arm` for each index kind, and compacts it if asked. It
//! checks every pair, then measures the phases in interleaved repeats. Within a phase the arms
//! follow one another, each repeat with another one first.
//!
//! What must hold: a configuration that cannot be run is refused before anything is done. What is
//! wrong with a set (a bad file of keys, too little memory) is found when it is made. One wrong
//! answer fails the run.
//!
//! Callers: `solera bench` in `solera-cli`. `arm`, `measure` and `paper` share `Result`, `paper`
//! also `Error` and `Progress`.

use crate::{
    arm::{Arm, Blocks},
    data::{DataSet, Family, Keys, Recipe, Sizes},
    machine::{self, Machine, ProcessorTime},
    measure::{self, Pass},
    probes::{Prober, Probes, ZIPF_EXPONENT},
    report::{ArmReport, EngineFacts, Load, Phase, PhaseReport, Report, SetReport, Settings, Spread},
};
use hdrhistogram::Histogram;
use solera::{
    IndexKind, Layout,
    clock::{Clock, SystemClock},
    trace::TraceOptions,
};
use std::{fmt, io, path::PathBuf};

/// The least memory budget that is chosen for a database, in bytes.
const MEMORY_BYTES_LEAST: u64 = 64 << 20;
/// A chosen budget holds this many times the data: all of it, and what lies around it.
const MEMORY_PER_DATA: u64 = 2;
/// One probe in this many is also timed for itself.
const TIMED_OF: usize = 4;

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether to run the sample of real data.
    pub sample: bool,
    /// The generated sets to run.
    pub generated: Vec<Generated>,
    /// The index kinds to compare. At least one.
    pub indexes: Vec<IndexKind>,
    /// How tables are laid out, but for the index kind.
    pub layout: Layout,
    /// Reads per pass.
    pub lookups: usize,
    /// Scans per pass.
    pub scans: usize,
    /// Entries per scan.
    pub scan_entries: usize,
    /// Repeats of every read phase. 3 or more, to have a median worth the name.
    pub repeats: usize,
    /// No pass but the full scan takes longer than about this, in seconds.
    pub pass_s_max: f64,
    /// The memory budget of each database, in bytes; `None` for twice the data's bytes, and no less
    /// than 64 MiB: everything in memory. Databases of all index kinds are open at once.
    pub memory_bytes: Option<u64>,
    /// Whether everything is compacted to one run before the read phases. What background work
    /// leaves behind depends on its timing, and index kinds are compared on equal shapes or not at
    /// all.
    pub compact: bool,
    /// Background threads of each database.
    pub background_threads: usize,
    /// Seed of data and probes.
    pub seed: u64,
    /// Where to make the temporary directories; `None` for the system's place.
    pub directory: Option<PathBuf>,
    /// Where each database is published while it is open, in a file named by data set and index
    /// kind; `None` for nowhere.
    pub publish: Option<PathBuf>,
    /// The agent by which each database tunes itself while it is open; `None` for none.
    pub tune: Option<String>,
    /// Where each database is recorded while it is open, in a file named by data set and index
    /// kind; `None` for nowhere.
    pub trace: Option<PathBuf>,
    /// How it is recorded.
    pub trace_options: TraceOptions,
    /// The command, for the report.
    pub command: String,
}

/// A generated data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Where keys come from.
    pub keys: Keys,
    /// How many pairs.
    pub entries: usize,
    /// Bytes of each value.
    pub value_bytes: usize,
}

impl Default for Config {
    /// The sample and two million uniform keys, under the plain and the strong baseline and both
    /// forms of DobLIX: under two minutes on two cores.
    fn default() -> Self {
        Config {
            sample: true,
            generated: vec![Generated {
                keys: Keys::Family(Family::Uniform),
                entries: 2_000_000,
                value_bytes: 64,
            }],
            indexes: vec![IndexKind::Binary, IndexKind::STree, IndexKind::DoblixPra, IndexKind::Learned],
            layout: Layout::default(),
            lookups: 500_000,
            scans: 10_000,
            scan_entries: 100,
            repeats: 3,
            pass_s_max: 4.0,
            memory_bytes: None,
            compact: true,
            background_threads: 2,
            seed: 1,
            directory: None,
            publish: None,
            tune: None,
            trace: None,
            trace_options: TraceOptions::new(),
            command: "solera bench".into(),
        }
    }
}

impl Config {
    /// Only a generated set of `entries` pairs of 8-byte keys and 64-byte values.
    pub fn generated(keys: Keys, entries: usize) -> Self {
        let generated = vec![Generated { keys, entries, value_bytes: 64 }];
        Config { sample: false, generated, ..Config::default() }
    }

    fn validate(&self) -> Result<()> {
        let illegal = |what: &str| Err(Error::Config(what.into()));
        if self.indexes.is_empty() {
            return illegal("no index kind to measure; name at least one");
        }
        if self.lookups == 0 || self.scans == 0 || self.scan_entries == 0 || self.repeats == 0 {
            return illegal("reads, scans, entries per scan and repeats must each be at least 1");
        }
        if !self.sample && self.generated.is_empty() {
            return illegal("no data set to run");
        }
        if self.pass_s_max.is_nan() || self.pass_s_max <= 0.0 {
            return illegal("a pass must have more than 0 seconds");
        }
        let legal = 1..=1usize << 30;
        if self.generated.iter().any(|generated| !legal.contains(&generated.entries)) {
            return illegal("a generated set has 1 to 2^30 pairs");
        }
        Ok(())
    }
}

/// Why a run failed.
#[derive(Debug)]
pub enum Error {
    /// The engine refused or failed.
    Engine(solera::Error),
    /// A temporary directory could not be made.
    Io(io::Error),
    /// The configuration is not legal.
    Config(String),
    /// The engine gave wrong answers.
    WrongAnswers {
        /// The data set.
        set: String,
        /// The index kind.
        index: IndexKind,
        /// When.
        stage: String,
        /// How many.
        wrong: u64,
    },
}

/// The result of a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Engine(error) => error.fmt(f),
            Error::Io(error) => write!(f, "cannot make a temporary directory: {error}"),
            Error::Config(what) => f.write_str(what),
            Error::WrongAnswers { set, index, stage, wrong } => {
                write!(f, "{wrong} wrong answers ({set}, {index}, {stage}): this is a bug; please report it")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Engine(error) => Some(error),
            Error::Io(error) => Some(error),
            Error::Config(_) | Error::WrongAnswers { .. } => None,
        }
    }
}

impl From<solera::Error> for Error {
    fn from(error: solera::Error) -> Self {
        Error::Engine(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

/// Hears how far a run has come.
pub trait Progress {
    /// `done` of `of` steps of `stage`, a few words for people. Called at the start of a stage with
    /// `done` 0, and now and then; never inside a timed read loop.
    fn at(&mut self, stage: &str, done: u64, of: u64);
}

/// Hears nothing.
impl Progress for () {
    fn at(&mut self, _: &str, _: u64, _: u64) {}
}

/// Runs everything that `config` asks for.
///
/// # Errors
/// [`Error::Config`] before anything is done; [`Error::WrongAnswers`] as soon as a stage ends with
/// one; [`Error::Engine`] and [`Error::Io`].
pub fn run(config: &Config, progress: &mut dyn Progress) -> Result<Report> {
    config.validate()?;
    let clock = SystemClock::new();
    let processor_before = ProcessorTime::now();
    let started_unix_s = clock.unix_ms() / 1000;
    let start = clock.monotonic_ns();
    let clock_ns = measure::clock_ns(&clock);
    let mut sets = Vec::new();
    if config.sample {
        progress.at("unpacking the sample", 0, 1);
        sets.push(run_set(config, &clock, &DataSet::git_history_sample(config.seed), progress)?);
    }
    for Generated { keys, entries, value_bytes } in &config.generated {
        progress.at("generating", 0, 1);
        let sizes = Sizes::Fixed { key_bytes: 8, value_bytes: *value_bytes };
        let recipe = Recipe { keys: keys.clone(), entries: *entries, sizes, seed: config.seed };
        let set = DataSet::of(&recipe).map_err(Error::Config)?;
        sets.push(run_set(config, &clock, &set, progress)?);
    }
    let run_s = (clock.monotonic_ns() - start) as f64 / 1e9;
    let directory = config.directory.clone().unwrap_or_else(std::env::temp_dir);
    Ok(Report {
        format: 1,
        engine: EngineFacts {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: machine::commit(),
            debug_build: cfg!(debug_assertions),
        },
        machine: Machine::here(),
        settings: Settings {
            command: config.command.clone(),
            lookups: config.lookups,
            lookups_timed: timed(config.lookups),
            scans: config.scans,
            scan_entries: config.scan_entries,
            repeats: config.repeats,
            pass_s_max: config.pass_s_max,
            client_threads: 1,
            background_threads: config.background_threads,
            durability: "buffered".into(),
            zipf_exponent: ZIPF_EXPONENT,
            seed: config.seed,
            filesystem: machine::filesystem_of(&directory),
            directory: directory.display().to_string(),
            clock_ns,
            warm_up: "every pair read once, the databases in turns; every absent key, one full scan; all compared with the \
                      data"
                .into(),
        },
        started_unix_s,
        run_s,
        others_cores: processor_before
            .zip(ProcessorTime::now())
            .map(|(before, now)| now.others_since(before, run_s)),
        sets,
    })
}

fn timed(lookups: usize) -> usize {
    lookups.div_ceil(TIMED_OF)
}

/// Reads everything once, compares it with the data, and leaves it in the caches.
fn verify(set: &DataSet, arms: &[Arm], progress: &mut dyn Progress) -> Result<()> {
    const STAGE: &str = "check after the load";
    let stage = format!("{}: checking every pair", set.name);
    let pairs = set.pairs.len() as u64;
    measure::in_turns(arms, set.pairs.len(), |number, arm, which| {
        if number == 0 {
            progress.at(&stage, which.start as u64, pairs);
        }
        refuse_wrong(set, arm.kind, STAGE, arm.verify_found(set, which)?)
    })?;
    progress.at(&stage, pairs, pairs);
    arms.iter().try_for_each(|arm| refuse_wrong(set, arm.kind, STAGE, arm.verify_others(set)?))
}

fn run_set(
    config: &Config,
    clock: &SystemClock,
    set: &DataSet,
    progress: &mut dyn Progress,
) -> Result<SetReport> {
    let memory_budget_bytes =
        config.memory_bytes.unwrap_or_else(|| (set.pairs.bytes() * MEMORY_PER_DATA).max(MEMORY_BYTES_LEAST));
    let (mut arms, mut loads) = (Vec::new(), Vec::new());
    for &kind in &config.indexes {
        let arm = Arm::create(config, &set.name, kind, memory_budget_bytes)?;
        let stage = format!("{}: loading, {kind}", set.name);
        let puts = set.writes() as u64;
        progress.at(&stage, 0, puts);
        let mut load = arm.load(clock, set, |done| progress.at(&stage, done, puts))?;
        if config.compact {
            progress.at(&format!("{}: compacting, {kind}", set.name), 0, 1);
            load.compact_s = Some(arm.compact(clock)?);
        }
        loads.push(load);
        arms.push(arm);
    }
    verify(set, &arms, progress)?;
    let tallies = measure_phases(config, clock, set, &arms, progress)?;
    let arm_report = |((arm, load), tallies): ((&Arm, Load), Vec<Tally>)| ArmReport {
        index: arm.kind.to_string(),
        load,
        size: arm.size(set),
        phases: tallies.into_iter().zip(Phase::ALL).map(|(tally, phase)| tally.report(phase)).collect(),
    };
    let layout = arms[0].layout;
    Ok(SetReport {
        name: set.name.clone(),
        about: set.about.clone(),
        entries: set.pairs.len() as u64,
        key_bytes: set.key_bytes,
        value_bytes: set.value_bytes,
        absent_keys: set.absent.len() as u64,
        memory_budget_bytes,
        block_bytes: layout.block_bytes,
        compression: layout.compression.to_string(),
        arms: arms.iter().zip(loads).zip(tallies).map(arm_report).collect(),
        trace_failures: arms
            .into_iter()
            .filter_map(|arm| arm.end_trace().err())
            .map(|error| error.to_string())
            .collect(),
    })
}

/// Every phase of every arm, `repeats` times; for each arm a tally per phase. Within a phase the
/// arms follow one another, and each repeat begins with another arm.
fn measure_phases(
    config: &Config,
    clock: &SystemClock,
    set: &DataSet,
    arms: &[Arm],
    progress: &mut dyn Progress,
) -> Result<Vec<Vec<Tally>>> {
    let mut tallies = vec![vec![Tally::default(); Phase::ALL.len()]; arms.len()];
    let prober = Prober::new(set, config.seed);
    let stage = format!("{}: measuring", set.name);
    let steps = (config.repeats * Phase::ALL.len()) as u64;
    for repeat in 0..config.repeats {
        progress.at(&stage, (repeat * Phase::ALL.len()) as u64, steps);
        let probes = prober.probes(repeat, config.lookups, config.scans, config.scan_entries);
        for (phase_number, phase) in Phase::ALL.into_iter().enumerate() {
            progress.at(&stage, (repeat * Phase::ALL.len() + phase_number) as u64, steps);
            for turn in 0..arms.len() {
                let number = (turn + repeat) % arms.len();
                let arm = &arms[number];
                let measured = measure_phase(config, clock, set, arm, phase, &probes)?;
                refuse_wrong(set, arm.kind, phase.operations(), measured.wrong)?;
                tallies[number][phase_number].add(measured);
            }
        }
    }
    progress.at(&stage, steps, steps);
    Ok(tallies)
}

/// One phase of one arm, once.
struct Measured {
    pass: Pass,
    percentiles: Option<(u64, u64)>,
    blocks: Option<Blocks>,
    wrong: u64,
}

fn measure_phase(
    config: &Config,
    clock: &SystemClock,
    set: &DataSet,
    arm: &Arm,
    phase: Phase,
    probes: &Probes,
) -> Result<Measured> {
    let limit_ns = (config.pass_s_max * 1e9) as u64;
    let count = timed(config.lookups);
    let before = arm.blocks();
    let (pass, blocks, timed) = match phase {
        Phase::FoundUniform | Phase::FoundZipf => {
            let probes = if phase == Phase::FoundZipf { &probes.zipf } else { &probes.uniform };
            let pass = arm.found_pass(clock, probes, limit_ns)?;
            (pass, Some(arm.blocks()), Some(arm.found_latencies(clock, probes, count, limit_ns)?))
        }
        Phase::Absent => {
            let pass = arm.absent_pass(clock, &probes.absent, limit_ns)?;
            (pass, Some(arm.blocks()), Some(arm.absent_latencies(clock, &probes.absent, count, limit_ns)?))
        }
        Phase::Scan => {
            let (pass, histogram) =
                arm.scan_latencies(clock, &probes.scans, probes.scan_entries, limit_ns)?;
            (pass, None, Some((Pass { wrong: 0, ..pass }, histogram)))
        }
        Phase::FullScan => (arm.full_scan(clock, set)?, None, None),
    };
    let percentiles =
        |histogram: &Histogram<u64>| (histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99));
    Ok(Measured {
        pass,
        percentiles: timed.as_ref().map(|(_, histogram)| percentiles(histogram)),
        blocks: blocks
            .map(|after| Blocks { probed: after.probed - before.probed, read: after.read - before.read }),
        wrong: pass.wrong + timed.map_or(0, |(timed, _)| timed.wrong),
    })
}

/// What the repeats of one phase of one arm came to.
#[derive(Clone, Debug, Default)]
struct Tally {
    operations: u64,
    rates: Vec<f64>,
    p50_ns: Vec<f64>,
    p99_ns: Vec<f64>,
    blocks: Option<Blocks>,
}

impl Tally {
    fn add(&mut self, measured: Measured) {
        self.operations += measured.pass.operations;
        self.rates.push(measured.pass.per_second());
        if let Some((p50, p99)) = measured.percentiles {
            self.p50_ns.push(p50 as f64);
            self.p99_ns.push(p99 as f64);
        }
        if let Some(Blocks { probed, read }) = measured.blocks {
            let sum = self.blocks.get_or_insert_default();
            sum.probed += probed;
            sum.read += read;
        }
    }

    fn report(self, phase: Phase) -> PhaseReport {
        let spread = |values: Vec<f64>| (!values.is_empty()).then(|| Spread::of(values));
        let per_operation = |blocks: u64| blocks as f64 / self.operations.max(1) as f64;
        PhaseReport {
            phase,
            operations: self.operations,
            blocks_probed_per_operation: self.blocks.map(|blocks| per_operation(blocks.probed)),
            blocks_read_per_operation: self.blocks.map(|blocks| per_operation(blocks.read)),
            per_second: Spread::of(self.rates),
            p50_ns: spread(self.p50_ns),
            p99_ns: spread(self.p99_ns),
        }
    }
}

fn refuse_wrong(set: &DataSet, index: IndexKind, stage: &str, wrong: u64) -> Result<()> {
    if wrong == 0 {
        return Ok(());
    }
    Err(Error::WrongAnswers { set: set.name.clone(), index, stage: stage.into(), wrong })
}
