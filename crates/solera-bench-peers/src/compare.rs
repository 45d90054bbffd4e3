//! The parent: `run`, which starts a process for each engine and data set, has them run the phases
//! in turn, and collects what they say (`Results`).
//!
//! `Comparison` says what to compare. `Memory` names the budget that each engine gets. `read` reads
//! results of earlier runs. `HUGE_PAGES` is what every process of an engine is started with.
//!
//! What must hold: every engine takes its turn within every repeat of every phase, and the next
//! engine begins the next repeat. A wrong answer, or any failure of a child, ends the run. The
//! caller's `keep` gets all results after each phase, so an interrupted run loses one phase.
//!
//! Callers: `main` runs it and reads results; `pieces` makes comparisons; `instructions`, `aim`,
//! `column` and `report` use its types of results.

use crate::{
    child::{Answer, Ask, Task},
    engine::Result,
    engines,
    phase::{Measured, Phase},
    source::Source,
};
use serde::{Deserialize, Serialize};
use solera_bench::{Machine, machine};
use std::{
    io::{BufRead, BufReader, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

/// What to compare.
#[derive(Clone, Debug)]
pub struct Comparison {
    pub engines: Vec<String>,
    pub phases: Vec<Phase>,
    pub data: Vec<Source>,
    pub entries: usize,
    pub direct: bool,
    pub repeats: usize,
    pub load_repeats: usize,
    pub memory: Memory,
    pub lz4: bool,
    pub operations: usize,
    pub pass_seconds: f64,
    pub seed: u64,
    /// Client threads: at least one.
    pub threads: usize,
    pub directory: PathBuf,
    pub command: String,
}

/// How large the memory budget of every engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// One and a half times the data, 64 MiB at least: all of the data and what lies around it.
    Whole,
    /// So many bytes.
    Bytes(u64),
    /// This part of the data: 8 is an eighth.
    Part(u64),
}

impl Memory {
    pub fn bytes(self, source: &Source, entries: usize) -> u64 {
        let data_bytes = source.entries(entries) as u64 * source.pair_bytes();
        match self {
            Memory::Whole => (data_bytes * 3 / 2).max(64 << 20),
            Memory::Bytes(bytes) => bytes,
            Memory::Part(part) => data_bytes / part,
        }
    }
}

impl Comparison {
    fn repeats_of(&self, phase: Phase) -> usize {
        if phase.is_load() { self.load_repeats } else { self.repeats }
    }
}

/// Everything that was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    pub command: String,
    pub commit: Option<String>,
    pub machine: String,
    /// Which peers, and how they were compiled. Older results do not say.
    #[serde(default)]
    pub peers: String,
    pub started_unix_s: u64,
    pub run_s: f64,
    pub repeats: usize,
    pub sets: Vec<SetResults>,
}

/// All engines over one data set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetResults {
    pub name: String,
    pub entries: usize,
    pub data_bytes: u64,
    pub memory_bytes: u64,
    pub direct: bool,
    pub lz4: bool,
    /// Client threads. Older results do not say, and had one.
    #[serde(default = "one_client")]
    pub threads: usize,
    pub engines: Vec<EngineResults>,
}

impl Results {
    /// Of this machine, and nothing yet.
    pub fn here(command: String, repeats: usize) -> Result<Self> {
        let here = Machine::here();
        Ok(Results {
            command,
            commit: machine::commit(),
            machine: format!(
                "{}, {} cores, {:.1} GiB of memory, {}",
                here.cpu_model.unwrap_or_default(),
                here.cores,
                here.memory_bytes.unwrap_or(0) as f64 / f64::from(1 << 30),
                here.system
            ),
            peers: format!("{}; all run with {}={}", engines::versions(), HUGE_PAGES.0, HUGE_PAGES.1),
            started_unix_s: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs(),
            run_s: 0.0,
            repeats,
            sets: Vec::new(),
        })
    }
}

fn one_client() -> usize {
    1
}

/// One engine: for each phase its repeats.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EngineResults {
    pub engine: String,
    pub phases: Vec<(Phase, Vec<Measured>)>,
}

/// Runs the comparison, every engine in turn within every repeat of every phase. What there is
/// after each phase is handed to `keep`: a run takes long, and may end early.
pub fn run(comparison: &Comparison, keep: &dyn Fn(&Results) -> Result<()>) -> Result<Results> {
    let begun = Instant::now();
    let mut results = Results::here(comparison.command.clone(), comparison.repeats)?;
    for (number, source) in comparison.data.iter().enumerate() {
        let before = results.sets.len();
        run_set(comparison, number, source, &mut |set| {
            results.sets.truncate(before);
            results.sets.push(set);
            results.run_s = begun.elapsed().as_secs_f64();
            keep(&results)
        })?;
    }
    Ok(results)
}

/// Hands over what there is of the set after each phase.
fn run_set(
    comparison: &Comparison,
    set: usize,
    source: &Source,
    keep: &mut dyn FnMut(SetResults) -> Result<()>,
) -> Result<()> {
    let mut workers: Vec<(Worker, Vec<(Phase, Vec<Measured>)>)> = Vec::new();
    let (mut entries, mut data_bytes) = (0, 0);
    let memory_bytes = comparison.memory.bytes(source, comparison.entries);
    for engine in &comparison.engines {
        let task = Task {
            engine: engine.clone(),
            directory: comparison.directory.join(format!("{set}-{engine}")),
            source: source.clone(),
            entries: comparison.entries,
            direct: comparison.direct,
            memory_bytes,
            lz4: comparison.lz4,
            operations: comparison.operations,
            pass_seconds: comparison.pass_seconds,
            seed: comparison.seed,
            threads: comparison.threads,
        };
        let (worker, pairs, bytes) = Worker::start(&task)?;
        (entries, data_bytes) = (pairs, bytes);
        workers.push((worker, Vec::new()));
    }
    let repeats = comparison.phases.iter().map(|&phase| comparison.repeats_of(phase));
    let steps = repeats.sum::<usize>() * workers.len();
    let mut progress = Progress::new(source.to_string(), steps);
    for &phase in &comparison.phases {
        workers.iter_mut().for_each(|(_, phases)| phases.push((phase, Vec::new())));
        for repeat in 0..comparison.repeats_of(phase) {
            for turn in 0..workers.len() {
                let number = (turn + repeat) % workers.len();
                let (worker, phases) = &mut workers[number];
                progress.step(&format!("{} {}", phase.name(), worker.engine));
                let measured = worker.ask(Ask { phase, repeat })?;
                if measured.wrong > 0 {
                    return Err(format!(
                        "{}: {} wrong answers in {}",
                        worker.engine,
                        measured.wrong,
                        phase.name()
                    )
                    .into());
                }
                if let Some((_, repeats)) = phases.last_mut() {
                    repeats.push(measured);
                }
            }
        }
        let results = |(worker, phases): &(Worker, Vec<_>)| EngineResults {
            engine: worker.engine.clone(),
            phases: phases.clone(),
        };
        keep(SetResults {
            name: source.to_string(),
            entries,
            data_bytes,
            memory_bytes,
            direct: comparison.direct,
            lz4: comparison.lz4,
            threads: comparison.threads,
            engines: workers.iter().map(results).collect(),
        })?;
    }
    progress.end();
    Ok(())
}

/// A process with one engine.
struct Worker {
    engine: String,
    process: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    directory: PathBuf,
}

/// What every engine's process has the allocator do: ask for huge pages. Caches of blocks are in
/// its memory, except LMDB's, and lookups in them wait for page tables otherwise: found reads of
/// RocksDB and Solera are 1.18 times as fast with it.
pub const HUGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

impl Worker {
    /// The worker, and how many pairs of how many bytes it has made.
    fn start(task: &Task) -> Result<(Self, usize, u64)> {
        engines::NAMES.contains(&&task.engine[..]).then_some(()).ok_or_else(|| {
            format!("there is no engine {:?}; the engines are {}", task.engine, engines::NAMES.join(", "))
        })?;
        let mut process = Command::new(std::env::current_exe()?)
            .arg("serve")
            .arg(serde_json::to_string(task)?)
            .env(HUGE_PAGES.0, HUGE_PAGES.1)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ask = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().ok_or("a child without output")?);
        let mut worker =
            Worker { engine: task.engine.clone(), process, ask, answers, directory: task.directory.clone() };
        match worker.answer()? {
            Answer::Ready { pairs, bytes } => Ok((worker, pairs, bytes)),
            other => Err(format!("{}: {other:?} instead of being ready", task.engine).into()),
        }
    }

    fn ask(&mut self, ask: Ask) -> Result<Measured> {
        let pipe = self.ask.as_mut().ok_or("the pipe is closed")?;
        writeln!(pipe, "{}", serde_json::to_string(&ask)?)?;
        pipe.flush()?;
        match self.answer()? {
            Answer::Measured(measured) => Ok(*measured),
            Answer::Failed(what) => Err(format!("{}, {}: {what}", self.engine, ask.phase.name()).into()),
            Answer::Ready { .. } => Err(format!("{} is ready twice", self.engine).into()),
        }
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("the process of {} ended: {}", self.engine, self.process.wait()?).into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A closed pipe ends the child; then no process uses its files.
        drop(self.ask.take());
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Which step runs, and how long the rest will take if steps go on like this.
struct Progress {
    set: String,
    done: usize,
    steps: usize,
    begun: Instant,
    shown: bool,
}

impl Progress {
    fn new(set: String, steps: usize) -> Self {
        Progress { set, done: 0, steps, begun: Instant::now(), shown: std::io::stderr().is_terminal() }
    }

    fn step(&mut self, what: &str) {
        let elapsed = self.begun.elapsed();
        let rest = if self.done == 0 {
            Duration::ZERO
        } else {
            elapsed / self.done as u32 * (self.steps - self.done) as u32
        };
        let line = format!(
            "{}: {}/{} {what}, about {} s to go",
            self.set,
            self.done + 1,
            self.steps,
            rest.as_secs()
        );
        if self.shown {
            eprint!("\r\x1b[2K{line}");
        } else {
            eprintln!("{line}");
        }
        self.done += 1;
    }

    fn end(&self) {
        if self.shown {
            eprintln!();
        }
    }
}

/// Reads results.
pub fn read(path: &Path) -> Result<Results> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_without_a_number_of_clients_had_one() {
        let set = r#"{"name": "uniform/8+64", "entries": 5, "data_bytes": 360, "memory_bytes": 1000,
            "direct": false, "lz4": false, "engines": []}"#;
        let mut set: SetResults = serde_json::from_str(set).unwrap();
        assert_eq!(set.threads, 1);
        set.threads = 4;
        let again: SetResults = serde_json::from_str(&serde_json::to_string(&set).unwrap()).unwrap();
        assert_eq!(again.threads, 4);
    }
}
