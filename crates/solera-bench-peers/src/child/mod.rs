//! One engine in a process of its own: `serve` makes the data, then does the phases that the parent
//! asks for. `alone` loads and does phases without a parent.
//!
//! Owns the `Task`, and one line of JSON each way: `Ask` and `Answer`. Each load opens the engine
//! anew. The files beside it do the phases, and `threads` says how clients share one.
//!
//! What must hold: engines share no allocator, so their memory and processor time are the
//! process's. A load comes before phases that use what is loaded. `Measured::wrong` counts wrong
//! answers where a phase checks (values, presence, last keys, counts). `load-sorted`, `overwrite`,
//! `delete-scan` and the reads of the device check nothing. One wrong answer fails the run.
//!
//! Callers: `main` makes tasks and calls `serve` in the process that `compare` starts; `compare`
//! makes tasks, asks and reads answers; `instructions` calls `alone`.

mod aged;
mod device;
mod fresh;
mod load;
mod mixed;
mod opened;
mod reads;
mod threads;

use crate::{
    engine::{Engine, Result},
    phase::{Measured, Phase},
    process,
    source::Source,
};
use mixed::HeldOut;
use serde::{Deserialize, Serialize};
use solera::clock::SystemClock;
use solera_bench::{
    data::DataSet,
    probes::{Prober, Probes},
    random::Random,
};
use std::{
    io::{BufRead, Write},
    path::PathBuf,
    sync::Arc,
};

/// Different values that updates choose from.
const FRESH_VALUES: usize = 1024;
/// Probes of one kind take at most about so many bytes, values included: several processes are
/// there at once.
const PROBE_BYTES_MAX: usize = 256 << 20;

/// What a child is told when it starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub engine: String,
    pub directory: PathBuf,
    pub source: Source,
    pub entries: usize,
    pub memory_bytes: u64,
    pub direct: bool,
    pub lz4: bool,
    pub operations: usize,
    pub pass_seconds: f64,
    pub seed: u64,
    /// Client threads that share a phase: at least one.
    pub threads: usize,
}

/// One line from the parent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Ask {
    pub phase: Phase,
    pub repeat: usize,
}

/// One line to the parent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The data is made: how many pairs, and the bytes of all of them.
    Ready {
        pairs: usize,
        bytes: u64,
    },
    Measured(Box<Measured>),
    Failed(String),
}

/// Serves the parent until it closes the pipe.
pub fn serve(task: &str) -> Result<()> {
    let task: Task = serde_json::from_str(task)?;
    let set = task.source.make(task.entries, task.seed)?;
    let mut out = std::io::stdout();
    let mut say = move |answer: &Answer| -> Result<()> {
        writeln!(out, "{}", serde_json::to_string(answer)?)?;
        Ok(out.flush()?)
    };
    say(&Answer::Ready { pairs: set.pairs.len(), bytes: set.pairs.bytes() })?;
    let mut child = Child::new(&task, &set);
    for line in std::io::stdin().lock().lines() {
        let ask: Ask = serde_json::from_str(&line?)?;
        say(&match child.measure(ask) {
            Ok(measured) => Answer::Measured(Box::new(measured)),
            Err(error) => Answer::Failed(error.to_string()),
        })?;
    }
    Ok(())
}

/// Makes and loads the data, and does these phases, without a parent.
pub fn alone(task: &Task, asks: impl Iterator<Item = Ask>, done: &mut dyn FnMut(Measured)) -> Result<()> {
    let set = task.source.make(task.entries, task.seed)?;
    let mut child = Child::new(task, &set);
    let mut right = |ask| -> Result<Measured> {
        let measured = child.measure(ask)?;
        (measured.wrong == 0).then_some(()).ok_or("wrong answers")?;
        Ok(measured)
    };
    right(Ask { phase: Phase::LoadRandom, repeat: 0 })?;
    asks.into_iter().try_for_each(|ask| {
        done(right(ask)?);
        Ok(())
    })
}

struct Child<'a> {
    task: &'a Task,
    set: &'a DataSet,
    prober: Prober<'a>,
    drawn: Option<([usize; 4], Arc<Probes>)>,
    clock: SystemClock,
    engine: Option<Box<dyn Engine>>,
    fresh: Vec<Vec<u8>>,
    held_out: HeldOut,
    /// Memory of the process, data and probes included, before its first engine.
    idle_bytes: Option<u64>,
}

impl<'a> Child<'a> {
    fn new(task: &'a Task, set: &'a DataSet) -> Self {
        let mut random = Random::new(task.seed ^ 0xf4e5);
        let mean = (set.value_bytes / set.pairs.len() as u64) as usize;
        let fresh = (0..FRESH_VALUES).map(|_| {
            let mut value = vec![0; mean];
            random.fill(&mut value);
            value
        });
        let fresh = fresh.collect();
        let prober = Prober::new(set, task.seed);
        let clock = SystemClock::new();
        let held_out = HeldOut::new(set.absent.len());
        Child { task, set, prober, drawn: None, clock, engine: None, fresh, held_out, idle_bytes: None }
    }

    fn engine(&self) -> Result<&dyn Engine> {
        self.engine.as_deref().ok_or_else(|| "the load phase must come before the others".into())
    }

    /// What to ask for in this repeat: fewer lookups where values are large. The same as last time
    /// is not drawn again.
    fn probes(&mut self, repeat: usize, lookups: usize, scans: usize, entries: usize) -> Arc<Probes> {
        let pair_bytes = (self.set.pairs.bytes() as usize).div_ceil(self.set.pairs.len());
        let lookups = lookups.min(PROBE_BYTES_MAX / pair_bytes.max(1));
        let wanted = [repeat, lookups, scans, entries];
        if self.drawn.as_ref().is_none_or(|(drawn, _)| *drawn != wanted) {
            // Both would not fit beside each other.
            self.drawn = None;
            self.drawn = Some((wanted, Arc::new(self.prober.probes(repeat, lookups, scans, entries))));
        }
        self.drawn.as_ref().map(|(_, probes)| probes.clone()).expect("drawn above")
    }

    fn limit_ns(&self) -> u64 {
        (self.task.pass_seconds * 1e9) as u64
    }

    fn measure(&mut self, ask: Ask) -> Result<Measured> {
        let (operations, wide) = (self.task.operations, self.task.operations / 10);
        let seed = self.task.seed ^ (ask.repeat as u64 + 1) << 40 ^ (ask.phase as u64) << 56;
        let probes = match ask.phase {
            Phase::Scan10 => self.probes(ask.repeat, 1, wide, 10),
            Phase::Scan100 | Phase::FreshScan100 => self.probes(ask.repeat, 1, wide, 100),
            Phase::Scan1000 => self.probes(ask.repeat, 1, wide / 10 + 1, 1000),
            _ => self.probes(ask.repeat, operations, 1, 1),
        };
        Ok(match ask.phase {
            Phase::LoadSorted | Phase::LoadRandom => self.load(ask.phase)?,
            Phase::FreshFound => self.fresh_found(&probes.uniform)?,
            Phase::FreshScan100 => self.fresh_scans(&probes.scans, 100)?,
            Phase::FoundUniform => self.found(&probes.uniform)?,
            Phase::FoundZipf => self.found(&probes.zipf)?,
            Phase::MultiGet => self.multi_get(&probes.uniform)?,
            Phase::Absent => self.absent(&probes.absent)?,
            Phase::Scan10 => self.scans(&probes.scans, 10)?,
            Phase::Scan100 => self.scans(&probes.scans, 100)?,
            Phase::Scan1000 => self.scans(&probes.scans, 1000)?,
            Phase::FullScan => self.full_scan(false)?,
            Phase::FullScanBack => self.full_scan(true)?,
            Phase::TwoThreads => self.two_threads(&probes.uniform)?,
            Phase::OpenedScan => self.opened_scan(true)?,
            Phase::ColdScan => self.opened_scan(false)?,
            Phase::DeviceRead => self.device_reads(seed)?,
            Phase::DeviceScan => self.device_scan()?,
            Phase::Overwrite => self.overwrite(seed)?,
            Phase::HotScan => self.hot_scan(seed)?,
            Phase::DeleteScan => self.delete_scan(ask.repeat, seed)?,
            Phase::Mix90
            | Phase::Mix50
            | Phase::Mix10
            | Phase::YcsbA
            | Phase::YcsbB
            | Phase::YcsbC
            | Phase::YcsbD
            | Phase::YcsbE
            | Phase::YcsbF => {
                let mix = ask.phase.mix().ok_or("a phase without a mix")?;
                self.mixed(mix, seed)?
            }
        })
    }
}

/// What the work comes to, and the processor time that the process spends meanwhile. What a phase
/// prepares lies outside.
fn with_cpu(work: impl FnOnce() -> Result<Measured>) -> Result<Measured> {
    let cpu = process::cpu_seconds();
    let measured = work()?;
    Ok(Measured { cpu_seconds: process::cpu_seconds() - cpu, ..measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_tells_its_processor_time() {
        let directory = tempfile::tempdir().unwrap();
        let task = Task {
            engine: "solera".into(),
            directory: directory.path().join("database"),
            source: "uniform/8+64@20000".parse().unwrap(),
            entries: 1,
            memory_bytes: 64 << 20,
            direct: false,
            lz4: false,
            operations: 2000,
            pass_seconds: 1.0,
            seed: 1,
            threads: 1,
        };
        // Not every file system can be read past the page cache.
        let is_of_device = |phase: &Phase| matches!(phase, Phase::DeviceRead | Phase::DeviceScan);
        let mut phases = Phase::all().to_vec();
        phases.retain(|phase| !is_of_device(phase));
        let asks = phases.iter().map(|&phase| Ask { phase, repeat: 0 });
        let mut told = Vec::new();
        alone(&task, asks, &mut |measured| told.push(measured.cpu_seconds)).unwrap();
        assert_eq!(told.len(), phases.len());
        let without = phases.iter().zip(&told).filter(|(_, cpu_seconds)| **cpu_seconds <= 0.0);
        assert_eq!(without.map(|(phase, _)| phase.name()).collect::<Vec<_>>(), [""; 0]);
    }
}
