//! Experiments of papers, repeated, and three of our own: `run`, what `solera bench paper` runs.
//!
//! `Paper` is the list of them, `Part` a part of one that has several, `Scale` how large an
//! experiment is. Our own are `safety`, `together` and `keys`. Experiments stand in the files
//! beside this one and return sections of a `Document`. That says with figures where a claim holds
//! here and where not. `run` adds the conditions: command, commit, machine, method.
//!
//! What must hold: a wrong answer that an experiment finds fails the run. Parts are refused that
//! are not of the paper. A claim that does not hold fails nothing.
//!
//! Callers: `solera bench paper` in `solera-cli`; `solera explain` and `solera-bench-peers` use
//! `document`.

pub mod document;
pub mod formats;
mod blocks;
mod camal;
mod camal_dynamic;
mod camal_lab;
mod camal_learned;
mod contest;
mod counted;
mod device;
mod doblix;
mod epochs;
mod doblix_agent;
mod foresight;
mod keeper;
mod keys;
mod learnedkv;
mod learning;
mod lerp;
mod missions;
mod ruskey;
mod safety;
mod sherry;
mod standstill;
mod subject;
mod together;
mod training;
mod transition;
mod turns;

pub use document::{Document, Verdict};

use crate::{
    data::DataSet,
    data::{Family, Keys, Recipe, Sizes},
    machine::{self, Machine, ProcessorTime},
    report::number::{bytes, count, date, digits},
    runner::{Error, Progress, Result},
};
use document::Section;
use solera::{
    clock::{Clock, SystemClock},
    vfs::posix::PosixFs,
};
use solera_tune::cost::{self, Units};
use std::{fmt, path::PathBuf, str::FromStr};
use subject::Effort;

/// A paper whose experiments can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// DobLIX: block cuts and models chosen together. Experiments D1 to D3 of the plan.
    Doblix,
    /// Sherry: an index block that is a piecewise linear model. Experiments S1 and S2.
    Sherry,
    /// RusKey: run limits under static mixes. Experiment R1.
    RuskeyStatic,
    /// RusKey: a run limit changed under load, by three transitions. Experiment R3.
    RuskeyTransition,
    /// CAMAL: size ratio and memory under static mixes. Experiment C1.
    CamalStatic,
    /// Whether a tuner ever hurts. Experiment X2.
    Safety,
    /// DobLIX: its tuning agent against the grid. Experiment D4.
    DoblixAgent,
    /// RusKey: Lerp and its opponents. Experiments R1 and R2, Fig. 8, 12 and 13.
    Ruskey,
    /// CAMAL: its learners and their opponents. Experiments C1, C2 and C3.
    Camal,
    /// Five ideas of the papers, each on and off, together. Experiment X1.
    Together,
    /// LearnedKV: values kept apart, and ways to give their space back. Experiments L1 to L3.
    LearnedKv,
    /// No paper: keys as applications have them, `learned` beside the classical indexes.
    Keys,
}

impl Paper {
    /// All of them.
    pub const ALL: [Paper; 12] = [
        Paper::Doblix,
        Paper::Sherry,
        Paper::RuskeyStatic,
        Paper::RuskeyTransition,
        Paper::CamalStatic,
        Paper::Safety,
        Paper::DoblixAgent,
        Paper::Ruskey,
        Paper::Camal,
        Paper::Together,
        Paper::LearnedKv,
        Paper::Keys,
    ];

    /// The name that users write, and of the files with the results.
    pub fn name(self) -> &'static str {
        match self {
            Paper::Doblix => "doblix",
            Paper::Sherry => "sherry",
            Paper::RuskeyStatic => "ruskey-static",
            Paper::RuskeyTransition => "ruskey-transition",
            Paper::CamalStatic => "camal-static",
            Paper::Safety => "safety",
            Paper::DoblixAgent => "doblix-agent",
            Paper::Ruskey => "ruskey",
            Paper::Camal => "camal",
            Paper::Together => "together",
            Paper::LearnedKv => "learnedkv",
            Paper::Keys => "keys",
        }
    }
}

impl fmt::Display for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Paper {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Paper::ALL.into_iter().find(|paper| paper.name() == name).ok_or_else(|| {
            format!("there is no paper {name:?}; the papers are {}", Paper::ALL.map(Paper::name).join(", "))
        })
    }
}

/// A part of a paper that has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// DobLIX: D1 in memory.
    InMemory,
    /// DobLIX: D1 from the device.
    Device,
    /// DobLIX: the grid of ε and block size.
    Grid,
    /// DobLIX: D2, key and value sizes.
    Sizes,
    /// DobLIX: D3, what models cost to build.
    Build,
    /// RusKey: R1 with equal filters.
    Equal,
    /// RusKey: R1 with Monkey's filters.
    Monkey,
    /// RusKey: R2.
    Sessions,
    /// CAMAL: C1.
    Learners,
    /// CAMAL: C2.
    Scales,
    /// CAMAL: the steward under every mix.
    Steward,
    /// CAMAL: C3.
    Dynamic,
    /// CAMAL: mixes that are certain to within ρ.
    Uncertain,
    /// Safety: in worlds of twice the pairs and longer epochs.
    Long,
    /// LearnedKV: L1 and L2.
    Phases,
    /// LearnedKV: L3, value sizes.
    ValueSizes,
    /// LearnedKV: L3, over-provisions.
    Spares,
    /// LearnedKV: L3, error bounds.
    Bounds,
    /// LearnedKV: with memory for everything.
    Resident,
}

impl Part {
    /// All of them, in the order of the documents.
    pub const ALL: [Part; 19] = [
        Part::InMemory,
        Part::Device,
        Part::Grid,
        Part::Sizes,
        Part::Build,
        Part::Equal,
        Part::Monkey,
        Part::Sessions,
        Part::Learners,
        Part::Scales,
        Part::Steward,
        Part::Dynamic,
        Part::Uncertain,
        Part::Long,
        Part::Phases,
        Part::ValueSizes,
        Part::Spares,
        Part::Bounds,
        Part::Resident,
    ];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Part::InMemory => "in-memory",
            Part::Device => "device",
            Part::Grid => "grid",
            Part::Sizes => "sizes",
            Part::Build => "build",
            Part::Equal => "equal",
            Part::Monkey => "monkey",
            Part::Sessions => "sessions",
            Part::Learners => "learners",
            Part::Scales => "scales",
            Part::Steward => "steward",
            Part::Dynamic => "dynamic",
            Part::Uncertain => "uncertain",
            Part::Long => "long",
            Part::Phases => "phases",
            Part::ValueSizes => "value-sizes",
            Part::Spares => "spares",
            Part::Bounds => "bounds",
            Part::Resident => "resident",
        }
    }

    /// Whose it is.
    pub fn paper(self) -> Paper {
        match self {
            Part::InMemory | Part::Device | Part::Grid | Part::Sizes | Part::Build => Paper::Doblix,
            Part::Equal | Part::Monkey | Part::Sessions => Paper::Ruskey,
            Part::Learners | Part::Scales | Part::Steward | Part::Dynamic | Part::Uncertain => Paper::Camal,
            Part::Long => Paper::Safety,
            Part::Phases | Part::ValueSizes | Part::Spares | Part::Bounds | Part::Resident => {
                Paper::LearnedKv
            }
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Part::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| {
            format!("there is no part {name:?}; the parts are {}", Part::ALL.map(Part::name).join(", "))
        })
    }
}

/// How large an experiment is.
#[derive(Clone, Debug)]
pub struct Scale {
    /// Which parts of the paper, in this order; none for all that it has.
    pub parts: Vec<Part>,
    /// Pairs of each set of the main comparisons.
    pub entries: usize,
    /// Pairs of each set where many sets or many layouts are compared, and of data larger than
    /// memory.
    pub entries_small: usize,
    /// Reads per pass.
    pub lookups: usize,
    /// Reads per pass that goes to the device.
    pub lookups_cold: usize,
    /// Interleaved repeats.
    pub repeats: usize,
    /// No pass takes longer than about this, in seconds.
    pub pass_s_max: f64,
    /// Missions of each mix and arm (RusKey).
    pub missions: usize,
    /// Operations of a mission.
    pub mission_operations: u64,
    /// Operations of each mix and arm (CAMAL).
    pub operations: u64,
    /// Mixes of each of CAMAL's two tables, at most: they have 15 and 24.
    pub mixes: usize,
    /// Where the keys of the main comparisons come from.
    pub keys: Vec<Keys>,
    /// Seed of data and probes.
    pub seed: u64,
    /// Where to make the temporary directories; `None` for the system's place. Data larger than
    /// memory need a file system with direct reads there.
    pub directory: Option<PathBuf>,
    /// Where `camal-static` loads its databases, before they are moved to `directory`; `None` for
    /// right there. A load with little memory writes each entry many times over.
    pub load_directory: Option<PathBuf>,
    /// Whether missions are done in a place whose time is counted, instead of on this machine's
    /// disk.
    pub world: bool,
    /// The command, for the document.
    pub command: String,
}

impl Default for Scale {
    /// Two million pairs, five repeats: about a quarter of an hour for a paper on two cores.
    fn default() -> Self {
        Scale {
            parts: Vec::new(),
            entries: 2_000_000,
            entries_small: 1_000_000,
            lookups: 300_000,
            lookups_cold: 10_000,
            repeats: 5,
            pass_s_max: 2.0,
            missions: 300,
            mission_operations: 5_000,
            operations: 50_000,
            mixes: 24,
            keys: Family::OF_PAPERS.map(Keys::Family).into(),
            seed: 1,
            directory: None,
            load_directory: None,
            world: false,
            command: "solera bench paper".into(),
        }
    }
}

impl Scale {
    /// The default scale of a paper: a quarter of an hour; of R3, whose arms do not count blocks
    /// but are timed one after the other, about five minutes.
    pub fn of(paper: Paper) -> Self {
        match paper {
            Paper::RuskeyTransition => Scale {
                entries_small: 100_000,
                missions: 80,
                mission_operations: 500,
                repeats: 3,
                ..Scale::default()
            },
            Paper::Safety => {
                Scale { entries_small: 30_000, missions: 12, mission_operations: 2_000, ..Scale::default() }
            }
            Paper::DoblixAgent => Scale {
                entries_small: 1_000_000,
                mission_operations: 5_000,
                operations: 100_000,
                ..Scale::default()
            },
            Paper::Ruskey => Scale { missions: 600, ..Scale::default() },
            Paper::Camal => Scale { operations: 20_000, ..Scale::default() },
            Paper::Together => Scale { entries_small: 10_000, mission_operations: 4_000, ..Scale::default() },
            Paper::Keys => {
                Scale { entries: 1_000_000, keys: Family::ALL.map(Keys::Family).into(), ..Scale::default() }
            }
            Paper::LearnedKv => {
                Scale { entries: 1_000_000, entries_small: 100_000, lookups: 250_000, ..Scale::default() }
            }
            _ => Scale::default(),
        }
    }

    /// The default scale of some parts of a paper.
    pub fn of_parts(paper: Paper, parts: &[Part]) -> Self {
        let scale = Scale { parts: parts.to_vec(), ..Scale::of(paper) };
        match parts {
            [Part::Long] => Scale { entries_small: 60_000, missions: 40, ..scale },
            _ => scale,
        }
    }

    /// The scale of a paper's experiment in a place whose time is counted: some minutes.
    pub fn counted(paper: Paper) -> Self {
        let scale = Scale { world: true, ..Scale::of(paper) };
        match paper {
            Paper::DoblixAgent => {
                Scale { entries_small: 100_000, mission_operations: 1_000, operations: 20_000, ..scale }
            }
            Paper::Ruskey => Scale { entries_small: 30_000, missions: 300, mission_operations: 150, ..scale },
            Paper::Camal => Scale { entries_small: 38_400, operations: 1_920, ..scale },
            _ => scale,
        }
    }

    /// Everything once in seconds: to see that it works, not what it says.
    pub fn quick() -> Self {
        Scale {
            entries: 20_000,
            entries_small: 10_000,
            lookups: 2_000,
            lookups_cold: 200,
            repeats: 2,
            missions: 4,
            mission_operations: 500,
            operations: 1_000,
            mixes: 3,
            ..Scale::default()
        }
    }

    fn validate(&self) -> Result<()> {
        let entries = 100..=1usize << 30;
        if !entries.contains(&self.entries) || !entries.contains(&self.entries_small) {
            return Err(Error::Config("an experiment has 100 to 2^30 pairs".into()));
        }
        let counts =
            [self.lookups, self.lookups_cold, self.repeats, self.missions, self.mixes, self.keys.len()];
        if counts.contains(&0) || self.mission_operations == 0 || self.operations == 0 {
            return Err(Error::Config(
                "reads, repeats, missions, operations and key families must each be at least 1".into(),
            ));
        }
        if self.lookups.max(self.lookups_cold) > 1 << 27 {
            return Err(Error::Config("an experiment has at most 2^27 reads in a pass".into()));
        }
        if (1..self.parts.len()).any(|i| self.parts[..i].contains(&self.parts[i])) {
            return Err(Error::Config("a part is named twice; name each once".into()));
        }
        Ok(())
    }

    /// The parts of `paper` that are asked for.
    fn parts_of(&self, paper: Paper) -> Vec<Part> {
        match self.parts[..] {
            [] => Part::ALL.into_iter().filter(|part| part.paper() == paper).collect(),
            _ => self.parts.clone(),
        }
    }

    /// Whether a part is asked for.
    fn has(&self, part: Part) -> bool {
        self.parts_of(part.paper()).contains(&part)
    }

    fn effort(&self) -> Effort {
        Effort { lookups: self.lookups, repeats: self.repeats, pass_s_max: self.pass_s_max, seed: self.seed }
    }

    fn set(&self, keys: &Keys, entries: usize, sizes: Sizes) -> Result<DataSet> {
        DataSet::of(&Recipe { keys: keys.clone(), entries, sizes, seed: self.seed }).map_err(Error::Config)
    }
}

/// Fails if [`run`] would refuse `scale` for `paper`.
///
/// # Errors
/// [`Error::Config`] for a scale that is not legal, or has a part of another paper.
pub fn check(paper: Paper, scale: &Scale) -> Result<()> {
    scale.validate()?;
    if let Some(part) = scale.parts.iter().find(|part| part.paper() != paper) {
        let own: Vec<&str> =
            Part::ALL.iter().filter(|part| part.paper() == paper).map(|part| part.name()).collect();
        return Err(Error::Config(match own[..] {
            [] => format!("{paper} has no parts to choose from; leave --parts out"),
            _ => format!("{paper} has no part {}; its parts are {}", part.name(), own.join(", ")),
        }));
    }
    Ok(())
}

/// Repeats the experiments of a paper.
///
/// # Errors
/// [`Error::Config`] for a scale that is not legal or a file of keys that is not one;
/// [`Error::WrongAnswers`] as soon as there is one; [`Error::Engine`] and [`Error::Io`].
pub fn run(paper: Paper, scale: &Scale, progress: &mut dyn Progress) -> Result<Document> {
    check(paper, scale)?;
    let clock = SystemClock::new();
    let (start, started_unix_s) = (clock.monotonic_ns(), clock.unix_ms() / 1000);
    let processor = ProcessorTime::now();
    let (title, sections) = match paper {
        Paper::Doblix => ("DobLIX, repeated on Solera", doblix::run(scale, &clock, progress)?),
        Paper::Sherry => ("Sherry, repeated on Solera", sherry::run(scale, &clock, progress)?),
        Paper::RuskeyStatic => {
            let units = units(scale, progress)?;
            (
                "RusKey's static mixes, repeated on Solera",
                ruskey::run_static(scale, &clock, &units, progress)?,
            )
        }
        Paper::RuskeyTransition => {
            ("RusKey's transitions, repeated on Solera", transition::run(scale, &clock, progress)?)
        }
        Paper::CamalStatic => {
            let units = units(scale, progress)?;
            ("CAMAL's static mixes, repeated on Solera", camal::run_static(scale, &clock, &units, progress)?)
        }
        Paper::Together => ("The papers' ideas together", together::run(scale, progress)?),
        Paper::Safety => {
            let title = match scale.parts[..] {
                [Part::Long] => "Whether a tuner ever hurts, in longer epochs",
                _ => "Whether a tuner ever hurts",
            };
            (title, safety::run_all(scale, progress)?)
        }
        Paper::DoblixAgent => {
            let units = units(scale, progress)?;
            ("DobLIX's tuning agent, repeated on Solera", doblix_agent::run(scale, &units, progress)?)
        }
        Paper::Ruskey => {
            let units = units(scale, progress)?;
            ("RusKey with Lerp, repeated on Solera", lerp::run(scale, &units, progress)?)
        }
        Paper::Camal => {
            let units = units(scale, progress)?;
            ("CAMAL with its learners, repeated on Solera", camal_learned::run(scale, &units, progress)?)
        }
        Paper::LearnedKv => ("LearnedKV, repeated on Solera", learnedkv::run(scale, &clock, progress)?),
        Paper::Keys => ("Keys as applications have them", keys::run(scale, &clock, progress)?),
    };
    let run_s = (clock.monotonic_ns() - start) as f64 / 1e9;
    let others = processor.zip(ProcessorTime::now()).map(|(before, now)| now.others_since(before, run_s));
    Ok(Document { title: title.into(), facts: facts(paper, scale, started_unix_s, run_s, others), sections })
}

/// Under which conditions a document was made.
fn facts(
    paper: Paper,
    scale: &Scale,
    started_unix_s: u64,
    run_s: f64,
    others_cores: Option<f64>,
) -> Vec<(&'static str, String)> {
    let machine = Machine::here();
    let commit = machine::commit().map_or(String::new(), |commit| format!(", commit {commit}"));
    let cpu = machine.cpu_model.as_deref().unwrap_or("unknown processor");
    let memory = machine.memory_bytes.map_or(String::new(), |n| format!(", {} of memory", bytes(n)));
    let directory = scale.directory.clone().unwrap_or_else(std::env::temp_dir);
    let filesystem = machine::filesystem_of(&directory).unwrap_or_else(|| "unknown file system".into());
    let mut facts = vec![
        ("command", scale.command.clone()),
        ("engine", format!("soleradb {}{commit}", env!("CARGO_PKG_VERSION"))),
        ("machine", format!("{cpu}, {} cores{memory}, {}; {filesystem}", machine.cores, machine.system)),
        ("method", method(paper, scale)),
        (
            "run",
            format!(
                "{}, {} s{}",
                date(started_unix_s),
                digits(run_s),
                others_cores.map_or(String::new(), |cores| format!(
                    "; other programs kept {cores:.2} of {} cores busy meanwhile",
                    machine.cores
                ))
            ),
        ),
    ];
    if cfg!(debug_assertions) {
        facts
            .push(("WARNING", "built with debug assertions: these times mean nothing; use --release".into()));
    }
    facts
}

/// How was measured.
fn method(paper: Paper, scale: &Scale) -> String {
    match paper {
        Paper::Doblix | Paper::Sherry | Paper::Keys => format!(
            "median [quartiles] of {} repeats, the layouts of a comparison in turns, another one first in each repeat; in \
                 memory, each database is opened anew in each repeat, for its turn alone where nothing else is said, and its blocks are read before it is timed; {} reads per pass ({} where they go to \
                 the device), a quarter of them again one by one for the percentiles; one client thread; seed {}; every \
                 answer checked",
            scale.repeats,
            count(scale.lookups as u64),
            count(scale.lookups_cold as u64),
            scale.seed
        ),
        Paper::RuskeyStatic | Paper::Ruskey => format!(
            "{} missions of {} operations for each mix and arm, the arms of a mix in turns; every answer checked; seed {}",
            scale.missions,
            count(scale.mission_operations),
            scale.seed
        ),
        Paper::RuskeyTransition => format!(
            "{} repeats of {} missions of {} operations for each transition, the transitions in another order in each repeat; \
             every answer checked; seed {}",
            scale.repeats,
            scale.missions.max(2),
            count(scale.mission_operations),
            scale.seed
        ),
        Paper::CamalStatic | Paper::Camal | Paper::DoblixAgent => format!(
            "{} operations for each mix and arm on a tree that was just loaded; every answer checked; seed {}",
            count(scale.operations),
            scale.seed
        ),
        Paper::LearnedKv => format!(
            "every answer checked, down to the version of the value; median [quartiles] of {} repeats of every way to keep values, \
             another one first in each repeat; seed {}",
            scale.repeats, scale.seed
        ),
        Paper::Together => format!(
            "worlds of {} pairs whose time is counted, one for each of 32 settings and each workload; {} operations; every answer checked; seed {}",
            count(scale.entries_small as u64),
            count(scale.mission_operations),
            scale.seed
        ),
        Paper::Safety => format!(
            "worlds of {} pairs whose time is counted, so that the machine does not matter; {} windows of at least {} operations and four flushes in an epoch; \
             every answer checked; seed {}",
            count(scale.entries_small.min(60_000) as u64),
            scale.missions,
            count(scale.mission_operations.min(2_000)),
            scale.seed
        ),
    }
}

/// What this machine's reads, writes and steps take, where the databases will lie.
fn units(scale: &Scale, progress: &mut dyn Progress) -> Result<Units> {
    if scale.world {
        return Ok(solera_tune::world::device());
    }
    progress.at("measuring the machine", 0, 1);
    let directory = scale.directory.clone().unwrap_or_else(std::env::temp_dir);
    Ok(cost::probe::probe(&PosixFs::new(), &directory)?)
}

/// Whether a claim holds.
fn verdict(claim: &str, holds: bool, figures: &str) -> Verdict {
    Verdict { asked: claim.to_owned(), measured: figures.to_owned(), holds }
}

/// Adds what was asked, what came, and whether that is what was asked.
fn row(asked: &mut Vec<Verdict>, claim: impl Into<String>, measured: impl Into<String>, holds: bool) {
    asked.push(verdict(&claim.into(), holds, &measured.into()));
}

/// A section that has nothing but verdicts.
fn said(verdicts: Vec<Verdict>) -> Section {
    Section { title: "Asked and measured".into(), verdicts, ..Section::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_known_by_their_names() {
        for paper in Paper::ALL {
            assert_eq!(paper.name().parse(), Ok(paper));
        }
        for part in Part::ALL {
            assert_eq!(part.name().parse(), Ok(part));
        }
        assert!("alex".parse::<Paper>().unwrap_err().contains("doblix, sherry"));
    }

    #[test]
    fn a_scale_that_says_nothing_or_what_is_not_there_is_refused() {
        for scale in [
            Scale { entries: 0, ..Scale::quick() },
            Scale { repeats: 0, ..Scale::quick() },
            Scale { keys: Vec::new(), ..Scale::quick() },
            Scale { parts: vec![Part::Grid], ..Scale::quick() },
        ] {
            assert!(matches!(run(Paper::Sherry, &scale, &mut ()), Err(Error::Config(_))));
        }
        let twice = Scale { parts: vec![Part::Grid, Part::Grid], ..Scale::quick() };
        assert!(matches!(run(Paper::Doblix, &twice, &mut ()), Err(Error::Config(_))));
    }
    /// Symptom: the run of long epochs wrote over the page of short ones. Cause: both were one
    /// experiment, told apart by its scale alone. Cure: long epochs are a part, and pages are named
    /// after parts.
    #[test]
    fn long_epochs_are_a_part_of_their_own_whose_scale_is_larger() {
        let (short, long) = (Scale::of(Paper::Safety), Scale::of_parts(Paper::Safety, &[Part::Long]));
        assert_eq!((Part::Long.paper(), Part::Long.name()), (Paper::Safety, "long"));
        assert_eq!((short.entries_small, short.missions), (30_000, 12));
        assert_eq!((long.entries_small, long.missions), (60_000, 40));
        assert_eq!(Scale::of_parts(Paper::Safety, &[]).missions, short.missions);
    }
}
