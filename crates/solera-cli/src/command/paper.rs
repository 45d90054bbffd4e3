//! `solera bench paper`: repeats a paper's experiments (`solera_bench::paper::run`) and writes what
//! came out.
//!
//! It makes a `Scale` of the arguments and runs it in a scratch directory. It writes a Markdown
//! page with its pictures, and prints the page.
//!
//! What must hold: a page or picture is written only over an older result of this command.
//!
//! Caller: `command::bench`.

use super::{
    bench::{REPEATS_MAX, Shown, command_line, count, failed, must_be_there},
    scratch::Scratch,
};
use crate::{
    failure::{Failure, Outcome, Result},
    given,
    output::print_text,
    own, units,
};
use solera_bench::{
    Keys,
    paper::{self, Paper, Part, Scale},
    report::picture::is_sheet,
};
use std::path::{Path, PathBuf};

/// Repeat the experiments of a paper and write tables and charts
///
/// doblix: reads under every index kind over key families, in memory and from the device; the grid
/// of ε and block size; key and value sizes; index bytes and build time. sherry: index bytes
/// against RocksDB's format over the same blocks; reads. ruskey-static: run limits under mixes of
/// lookups and updates. ruskey-transition: a run limit changed under load, by each of three
/// transitions. camal-static: size ratio and memory under CAMAL's 15 and 24 mixes. The two static
/// ones also say how well `solera cost` foresaw what was measured. doblix-agent: its Q-learning
/// against the grid of layouts. ruskey: Lerp under static mixes and in five sessions, against fixed
/// run limits, the steward and other ways to choose. camal: its learners against other ways of
/// sampling; mixes that follow each other. together: five ideas of the papers, each on and off.
/// learnedkv: values in tables and kept apart, with every way to give their space back. keys: no
/// paper; keys as applications have them, `learned` beside the classical indexes. safety: no paper;
/// whether a database that tunes itself ever becomes slower, in twelve workloads that drift.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Writes NAME.md and its pictures, NAME/1.svg and so on, into the directory --out. A quarter of an hour at the default scale, of ruskey-transition \
about five minutes; every answer is checked. \
The databases lie in a temporary directory, several at a time, and are removed.")]
pub(crate) struct PaperBench {
    /// doblix, sherry, ruskey-static, ruskey-transition, camal-static, doblix-agent, ruskey,
    /// camal, together, learnedkv, keys or safety
    #[arg(value_name = "NAME")]
    paper: Paper,
    /// Parts to run, separated by commas. doblix: in-memory, device, grid, sizes, build; ruskey:
    /// equal, monkey, sessions; camal: learners, scales, steward, dynamic, uncertain; safety: long;
    /// learnedkv: phases, value-sizes, spares, bounds, resident. Results are named after them
    /// then [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Pairs of each set of the main comparisons [default: 2000000;
    /// learnedkv: 1000000]
    #[arg(long, value_name = "N", value_parser = count)]
    n: Option<usize>,
    /// Pairs where many sets or layouts are compared, and from the device [default: 1000000;
    /// ruskey-transition and learnedkv: 100000]
    #[arg(long, value_name = "N", value_parser = count)]
    n_small: Option<usize>,
    /// Reads per pass [default: 300000; learnedkv, per phase: 250000]
    #[arg(long, value_name = "N", value_parser = count)]
    lookups: Option<usize>,
    /// Missions of each mix and arm, for ruskey-static [default: 300], and of each run of
    /// ruskey-transition [default: 80]
    #[arg(long, value_name = "N", value_parser = units::whole::<usize>(1, u32::MAX.into()))]
    missions: Option<usize>,
    /// Operations of each mix and arm, for camal-static [default: 50000]
    #[arg(long, value_name = "N", value_parser = units::whole::<u64>(1, u64::MAX))]
    operations: Option<u64>,
    /// Mixes of each of CAMAL's two tables, at most [default: 24]
    #[arg(long, value_name = "N", value_parser = units::whole::<usize>(1, u32::MAX.into()))]
    mixes: Option<usize>,
    /// Interleaved repeats, of which the median counts [default: 5; ruskey-transition: 3]
    #[arg(long, value_name = "N", value_parser = units::whole::<usize>(1, REPEATS_MAX))]
    repeats: Option<usize>,
    /// Key families of doblix's main comparison, sosd:FILE for a file of the SOSD benchmark, or
    /// lines:FILE for a text file with a key in each line, separated by commas [default: the
    /// families that papers use]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    keys: Vec<Keys>,
    /// Seed of data and probes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::whole::<u64>(0, u64::MAX))]
    seed: u64,
    /// Where to make the temporary databases [default: the system's place]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Where camal-static loads its databases, before they are moved to --dir: a load with little
    /// memory writes each entry up to ninety times, which a memory file system does sooner
    /// [default: --dir]
    #[arg(long, value_name = "DIR")]
    load_dir: Option<PathBuf>,
    /// Where to write the results
    #[arg(long, value_name = "DIR", default_value = "docs/results")]
    out: PathBuf,
    /// Run missions in a place whose time is counted, files in memory and a clock that moves by
    /// what reads, writes and steps cost on a middling device: the same figures on every machine.
    /// For what runs missions: ruskey, ruskey-static, camal, camal-static and doblix-agent
    #[arg(long)]
    world: bool,
    /// Everything once in seconds: to see that it works, not what it says
    #[arg(long)]
    quick: bool,
}

impl PaperBench {
    pub(crate) fn run(self) -> Result<Outcome> {
        for keys in &self.keys {
            if let Keys::Sosd(path) | Keys::Lines(path) = keys {
                must_be_there(path)?;
            }
        }
        let scratch = Scratch::new(self.dir.as_deref())?;
        let scale = Scale { directory: Some(scratch.path()), ..self.scale() };
        paper::check(self.paper, &scale).map_err(failed)?;
        // Before the run: it takes minutes, and results that cannot be written must not cost them.
        given::make_directory(&self.out, "--out")?;
        if let Some(dir) = &self.load_dir {
            given::directory(dir, "--load-dir")?;
            own::not_in_database(dir, "temporary databases")?;
        }
        let name: Vec<&str> =
            [self.paper.name()].into_iter().chain(self.parts.iter().map(|part| part.name())).collect();
        let name = name.join("-");
        let page = self.out.join(format!("{name}.md"));
        own::check(&page, RESULTS, is_result)?;
        let mut progress = Shown::new();
        let document = paper::run(self.paper, &scale, &mut progress).map_err(failed)?;
        progress.finish();
        let text = document.to_markdown(&name);
        write(&page, &text)?;
        let pictures = self.out.join(&name);
        std::fs::create_dir_all(&pictures)
            .map_err(|error| Failure::file("create", pictures.display(), &error))?;
        for (picture, svg) in document.pictures() {
            write(&pictures.join(picture), &svg)?;
        }
        print_text(&text)?;
        Ok(Outcome::Done)
    }

    fn scale(&self) -> Scale {
        let scale = match (self.quick, self.world) {
            (true, _) => Scale { world: self.world, ..Scale::quick() },
            (false, true) => Scale::counted(self.paper),
            (false, false) => Scale::of_parts(self.paper, &self.parts),
        };
        Scale {
            parts: if self.parts.is_empty() { scale.parts } else { self.parts.clone() },
            entries: self.n.unwrap_or(scale.entries),
            entries_small: self.n_small.unwrap_or(scale.entries_small),
            lookups: self.lookups.unwrap_or(scale.lookups),
            repeats: self.repeats.unwrap_or(scale.repeats),
            missions: self.missions.unwrap_or(scale.missions),
            operations: self.operations.unwrap_or(scale.operations),
            mixes: self.mixes.unwrap_or(scale.mixes),
            keys: if self.keys.is_empty() { scale.keys } else { self.keys.clone() },
            seed: self.seed,
            load_directory: self.load_dir.clone(),
            command: command_line(),
            ..scale
        }
    }
}

/// What pages and pictures are called in messages.
const RESULTS: &str = "a result of `solera bench paper`";

/// Whether a file that begins so is a page or a picture of this command.
fn is_result(start: &[u8]) -> bool {
    let beginning = String::from_utf8_lossy(start);
    let mut lines = beginning.lines();
    let first = lines.next().unwrap_or_default();
    // Behind the title stand verdicts, if there are any, and then this.
    let mut below = lines.skip_while(|line| line.is_empty() || line.starts_with('|'));
    let is_page = first.starts_with("# ") && below.next() == Some("A program writes this page.");
    is_page || is_sheet(start)
}

/// Writes a page or a picture over an older one.
fn write(path: &Path, text: &str) -> Result<()> {
    own::write(path, RESULTS, is_result, text.as_bytes())
}
