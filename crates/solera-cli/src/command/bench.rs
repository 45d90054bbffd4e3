//! `solera bench`: measures the engine on this machine (`solera_bench::run`), in databases that are
//! gone afterwards. `bench paper` and `bench space` lie beside it.
//!
//! `Bench::run` reads the arguments, makes a `Config`, runs it and prints the report as text or
//! JSON. With `--html` it also writes the report as a page. `Shown` says how far a run has come.
//!
//! What must hold: it is known before anything is measured that the page can be written. It is
//! written only if the run succeeds; until then an older one stays. Wrong answers end the command
//! as a failure.
//!
//! Callers: `main`; `command::paper` shares `Shown`, `failed`, `count` and `command_line`, `cost`
//! `count`, `load` `must_be_available`.

use super::{paper::PaperBench, scratch::Scratch, space::SpaceBench};
use crate::{
    failure::{Failure, Outcome, Result},
    given,
    output::print_text,
    own, units,
};
use indicatif::{ProgressBar, ProgressStyle};
use solera::{Clock, Compression, IndexKind, Layout, SystemClock, key::VALUE_BYTES_MAX, trace::TraceOptions};
use solera_bench::{
    Config, Family, Keys, Progress,
    report::{
        Report,
        html::{TITLE, beginning},
    },
};
use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// Measure loading, reads, scans and space on this machine, for each index kind
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Without --n and --keys: a sample of real data (paths and times of a git history) and 2,000,000 uniform keys; \
under two minutes on two cores. With either: that generated set alone.

Every answer is checked; a wrong one ends the run with an error. The databases lie in a temporary directory \
and are removed, also when Ctrl-C or SIGTERM ends the run."
)]
pub(crate) struct Bench {
    #[command(subcommand)]
    experiment: Option<Experiment>,
    /// Keys of a generated set [default: 2000000]
    #[arg(long, value_name = "N", value_parser = count)]
    n: Option<usize>,
    #[arg(long, value_name = "FAMILY", help = keys_help())]
    keys: Option<Keys>,
    /// Bytes of each generated value
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = units::whole::<usize>(0, VALUE_BYTES_MAX))]
    value_bytes: usize,
    /// Index kinds to compare, separated by commas [default: binary,s-tree,doblix-pra,learned]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    index: Vec<IndexKind>,
    /// Compression of the tables: none, lz4 or (where built in) zstd [default: lz4]
    #[arg(long, value_name = "NAME")]
    compression: Option<Compression>,
    /// Memory of each database, such as 64M or 1G [default: twice the data: everything in memory]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    memory: Option<u64>,
    /// Background threads of each database
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = units::whole::<usize>(0, THREADS_MAX))]
    threads: usize,
    /// Repeats of every read phase, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = units::whole::<usize>(1, REPEATS_MAX))]
    repeats: usize,
    /// Seed of data and probes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole::<u64>(0, u64::MAX))]
    seed: u64,
    /// Where to make the temporary databases [default: the system's place]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Let `solera control watch --file` see what is done meanwhile: each database in a file of its
    /// own in this directory, named by keys and index kind
    #[arg(long, value_name = "DIR")]
    publish: Option<PathBuf>,
    #[command(flatten)]
    tuning: super::tuning::Tuning,
    /// Record what is done, without values, for `solera trace`: each database in a new file of its
    /// own in this directory, named by keys and index kind. Every operation takes longer for it
    #[arg(long, value_name = "DIR")]
    trace: Option<PathBuf>,
    /// Put hashes for keys into the traces, under a key that the run draws and forgets
    #[arg(long, requires = "trace")]
    hash_keys: bool,
    /// Write the same as a page with charts. A page of an earlier run is replaced, another file
    /// never
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

/// Most background threads that the engine takes.
const THREADS_MAX: u64 = 1024;
/// More repeats tell no more.
pub(super) const REPEATS_MAX: u64 = 1000;

#[derive(Debug, clap::Subcommand)]
enum Experiment {
    Paper(PaperBench),
    Space(SpaceBench),
}

impl Bench {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self.experiment {
            Some(Experiment::Paper(paper)) => return paper.run(),
            Some(Experiment::Space(space)) => return space.run(),
            None => {}
        }
        if let Some(Keys::Sosd(path) | Keys::Lines(path)) = &self.keys {
            must_be_there(path)?;
        }
        if let Some(compression) = self.compression {
            must_be_available(compression)?;
        }
        let scratch = Scratch::new(self.dir.as_deref())?;
        let mut config = self.config();
        config.directory = Some(scratch.path());
        // Before the run: it takes minutes, and a page that cannot be written must not cost them.
        self.html.as_deref().map_or(Ok(()), |path| own::check(path, PAGE, is_page))?;
        for (flag, dir) in [("--publish", &self.publish), ("--trace", &self.trace)] {
            dir.as_deref().map_or(Ok(()), |dir| given::make_directory(dir, flag))?;
        }
        let mut progress = Shown::new();
        let mut report = solera_bench::run(&config, &mut progress).map_err(failed)?;
        if let Some(parent) = scratch.path().parent() {
            report.settings.directory = parent.display().to_string();
        }
        progress.finish();
        let failures: Vec<&str> =
            report.sets.iter().flat_map(|set| &set.trace_failures).map(String::as_str).collect();
        let found = match failures[..] {
            [] => Ok(Outcome::Done),
            _ => Err(Failure::Error(format!("traces lack operations: {}", failures.join("; ")))),
        };
        Failure::told(found, self.print(&report))
    }

    /// Prints the report, and writes its page if one is asked for.
    fn print(&self, report: &Report) -> Result<()> {
        print_text(&if self.json { report.to_json() } else { report.to_text() })?;
        if let Some(path) = &self.html {
            own::write(path, PAGE, is_page, report.to_html().as_bytes())?;
            if !self.json {
                print_text(&format!("The same with charts: {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn config(&self) -> Config {
        let mut config = match (self.n, self.keys.clone()) {
            (None, None) => Config::default(),
            (n, keys) => {
                Config::generated(keys.unwrap_or(Keys::Family(Family::Uniform)), n.unwrap_or(2_000_000))
            }
        };
        for generated in &mut config.generated {
            generated.value_bytes = self.value_bytes;
        }
        if !self.index.is_empty() {
            config.indexes.clone_from(&self.index);
        }
        config.layout = Layout { compression: self.compression.unwrap_or_default(), ..config.layout };
        config.memory_bytes = self.memory;
        config.background_threads = self.threads;
        config.repeats = self.repeats;
        config.seed = self.seed;
        config.publish.clone_from(&self.publish);
        config.tune.clone_from(&self.tuning.tune);
        config.trace.clone_from(&self.trace);
        config.trace_options = TraceOptions::new().hash_keys(self.hash_keys);
        config.command = command_line();
        config
    }
}

/// What `--keys` takes, every family named.
fn keys_help() -> String {
    let [first @ .., last] = Family::ALL.map(Family::name);
    format!(
        "How generated keys are spread: {} or {last}; or sosd:FILE for a file of the SOSD benchmark, or lines:FILE \
         for a text file with a key in each line [default: uniform]",
        first.join(", ")
    )
}

/// What a page of `--html` is called in messages.
const PAGE: &str = "a page of `solera bench`";

/// Whether a file that begins so is such a page. An empty one holds nothing to lose.
fn is_page(start: &[u8]) -> bool {
    start.is_empty() || start.starts_with(beginning(TITLE).as_bytes())
}

/// Fails if the file of keys at `path` is not there.
pub(super) fn must_be_there(path: &Path) -> Result<()> {
    std::fs::metadata(path).map(drop).map_err(|error| Failure::file("read", path.display(), &error))
}

/// Fails if this build cannot compress so.
pub(super) fn must_be_available(compression: Compression) -> Result<()> {
    if compression.available() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "this build cannot compress with {compression}; build with --features zstd, or use none or lz4"
    )))
}

/// The command line, for the report.
pub(super) fn command_line() -> String {
    repeatable(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

/// What repeats a run of these `words`, without the place of its report.
fn repeatable(words: impl IntoIterator<Item = String>) -> String {
    let mut words = words.into_iter();
    let mut line = "solera".to_owned();
    while let Some(word) = words.next() {
        if word == "--out" {
            words.next();
        } else if !word.starts_with("--out=") {
            line = line + " " + &word;
        }
    }
    line
}

/// What a failed run means for the command.
pub(super) fn failed(error: solera_bench::Error) -> Failure {
    match error {
        solera_bench::Error::Config(what) => Failure::Usage(what),
        solera_bench::Error::Engine(error) => error.into(),
        other => Failure::Error(other.to_string()),
    }
}

/// How often a log is told how far a stage has come.
const LOG_PERIOD_NS: u64 = 60_000_000_000;

/// What is being done, and how long that will take: on a terminal one line that changes, else a
/// line for every stage and for every minute of a long one.
pub(super) struct Shown {
    /// `None`: standard error is no terminal.
    bar: Option<ProgressBar>,
    clock: SystemClock,
    stage: String,
    stage_start_ns: u64,
    logged_ns: u64,
}

impl Shown {
    pub(super) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed}  {msg}") {
                bar.set_style(style);
            }
            // Rarely: what draws takes time from what is measured.
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        Shown { bar, clock: SystemClock::new(), stage: String::new(), stage_start_ns: 0, logged_ns: 0 }
    }

    /// Takes the line away.
    pub(super) fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Progress for Shown {
    fn at(&mut self, stage: &str, done: u64, of: u64) {
        let now = self.clock.monotonic_ns();
        let begins = self.stage != stage;
        if begins {
            (self.stage, self.stage_start_ns) = (stage.to_owned(), now);
        }
        let told = || match (done, of) {
            (_, 0 | 1) => stage.to_owned(),
            (0, _) => format!("{stage} 0 %"),
            _ => {
                let left_s = (now - self.stage_start_ns) as f64 / 1e9 * (of - done) as f64 / done as f64;
                format!("{stage} {:.0} %, {left_s:.0} s left", units::percent(done, of))
            }
        };
        match &self.bar {
            Some(bar) => bar.set_message(told()),
            None if begins || now - self.logged_ns >= LOG_PERIOD_NS => {
                // Progress whose reader has gone is no failure.
                let _ = writeln!(std::io::stderr(), "{}", told());
                self.logged_ns = now;
            }
            None => {}
        }
    }
}

/// A count, with `K`, `M` and `G` for thousands, millions and billions.
pub(super) fn count(text: &str) -> Result<usize, String> {
    let wrong = || "a whole number, such as 10000000 or 10M".to_owned();
    let upper = text.to_ascii_uppercase();
    let (digits, factor) = match upper.as_bytes().last() {
        Some(b'K') => (&upper[..upper.len() - 1], 1_000),
        Some(b'M') => (&upper[..upper.len() - 1], 1_000_000),
        Some(b'G') => (&upper[..upper.len() - 1], 1_000_000_000),
        _ => (upper.as_str(), 1),
    };
    digits.parse::<usize>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Args;

    #[test]
    fn a_report_quotes_its_command_but_not_where_it_went() {
        for line in ["bench --out a b --seed 3", "bench paper x --out=a --seed 3", "bench --seed 3 --out a"] {
            let repeated = repeatable(line.split(' ').map(str::to_owned));
            assert!(repeated.starts_with("solera bench") && repeated.contains("--seed 3"), "{repeated}");
            assert!(!repeated.contains("out") && !repeated.contains(" a"), "{repeated}");
        }
    }

    #[test]
    fn the_help_of_keys_names_every_family() {
        let help = Bench::augment_args(clap::Command::new("bench")).render_long_help().to_string();
        let words: Vec<&str> = help.split(|c: char| c.is_whitespace() || ",;:".contains(c)).collect();
        let lost: Vec<&str> =
            Family::ALL.map(Family::name).into_iter().filter(|name| !words.contains(name)).collect();
        assert_eq!(lost, [""; 0], "{help}");
    }

    #[test]
    fn counts_may_have_a_decimal_unit() {
        assert_eq!(count("10000000"), Ok(10_000_000));
        assert_eq!(count("10m"), Ok(10_000_000));
        assert_eq!(count("5K"), Ok(5000));
        for wrong in ["", "M", "1.5M", "-1", "99999999999999999999"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
    }
}
