//! A database under measurement, open (`Subject`) or closed (`Stored`), and repeats over several of
//! them (`Inquiry`).
//!
//! An `Arm` is a name and a layout; `Ask` is what is asked, `Answer` what came. `Subject::create`
//! loads all pairs in one run, `settled` as a random-order load leaves them. `of_open` asks
//! databases in turns, `of_stored` opens each for its turn alone.
//!
//! What must hold: every answer is compared with the set. `create_all` also walks each database
//! after its load. `of_stored` gives all databases the same memory, and none comes to lie behind
//! another.
//!
//! Callers: `paper::{doblix, device, keys, sherry, training, turns}`; `paper::keeper` asks
//! `of_process`.

use crate::{
    data::DataSet,
    measure::{self, Pass},
    packed::Packed,
    probes::{Prober, Probes},
    report::Spread,
    runner::{Error, Progress, Result},
};
use solera::{
    Db, IndexKind, Layout, Options, Snapshot,
    clock::SystemClock,
    control::{Change, knob},
    stats::Counters,
};
use std::{
    ops::Range,
    path::{Path, PathBuf},
    rc::Rc,
};
use tempfile::TempDir;

/// A chosen budget holds this many times the data.
const MEMORY_PER_DATA: u64 = 2;
/// The same where all blocks are to be in the cache: it has less than half of a budget, and a block
/// weighs somewhat more than its data.
const IN_MEMORY_PER_DATA: u64 = 4;
/// The least budget, in bytes.
const MEMORY_BYTES_LEAST: u64 = 64 << 20;
/// Reads of each block, about, that fill the cache.
const READS_PER_BLOCK: usize = 4;
/// A prime above the number of those reads: its multiples are all of them, in no order.
const SHUFFLE: u64 = 4_294_967_311;
/// One probe in this many is timed for itself.
const TIMED_OF: usize = 4;

/// What to call a layout, and the layout.
#[derive(Clone, Debug)]
pub struct Arm {
    /// A short name.
    pub name: String,
    /// How its tables are laid out.
    pub layout: Layout,
}

impl Arm {
    /// The default layout with this index and ε.
    pub fn new(name: &str, index: IndexKind, epsilon: u32) -> Arm {
        // Values are random bytes: compression would measure itself.
        let layout = Layout { index, epsilon, compression: solera::Compression::None, ..Layout::default() };
        Arm { name: name.into(), layout }
    }

    /// With other blocks.
    pub fn block_bytes(mut self, block_bytes: u32) -> Arm {
        self.layout.block_bytes = block_bytes;
        self
    }
}

/// An open database that holds a set in one run.
pub struct Subject {
    /// What is measured.
    pub arm: Arm,
    db: Db,
    /// They keep older versions where they are.
    snapshots: Vec<Snapshot>,
    directory: Rc<TempDir>,
}

/// A closed one.
pub struct Stored {
    /// What is measured.
    pub arm: Arm,
    /// Data blocks.
    pub blocks: u64,
    /// Bytes of index and handles in memory while it is open.
    pub index_bytes: u64,
    directory: Rc<TempDir>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Present keys, each equally likely.
    Found,
    /// Present keys, Zipf-distributed.
    FoundZipf,
    /// Keys that were never written.
    Absent,
}

/// What the repeats came to.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Operations per second.
    pub per_second: Spread,
    /// Half of the operations took no longer, in nanoseconds.
    pub p50_ns: Spread,
    /// 99 % of the operations took no longer, in nanoseconds.
    pub p99_ns: Spread,
    /// Data blocks looked into, per operation that got so far: a found one, or an absent one that
    /// passed a filter.
    pub blocks_probed: f64,
    /// Data blocks read from a file, per operation.
    pub blocks_read: f64,
    /// Bytes that the device gave, per operation, if the system tells.
    pub device_bytes: Option<f64>,
    /// Read calls of this process, per operation, if the system tells.
    pub read_calls: Option<f64>,
}

fn temporary(parent: Option<&Path>) -> Result<Rc<TempDir>> {
    let mut directory = tempfile::Builder::new();
    directory.prefix("solera-paper-");
    Ok(Rc::new(match parent {
        Some(parent) => directory.tempdir_in(parent)?,
        None => directory.tempdir()?,
    }))
}

/// A budget that holds all of `set`.
pub fn memory_of(set: &DataSet) -> u64 {
    (set.written_bytes() * MEMORY_PER_DATA).max(MEMORY_BYTES_LEAST)
}

fn options(arm: &Arm, memory_bytes: u64) -> Options {
    Options::new().memory(memory_bytes).layout(arm.layout).background_threads(1)
}

/// The pairs in key order.
fn in_order(pairs: &Packed) -> Vec<u32> {
    let mut order: Vec<u32> = (0..pairs.len() as u32).collect();
    order.sort_unstable_by(|&a, &b| pairs.get(a as usize).0.cmp(pairs.get(b as usize).0));
    order
}

impl Subject {
    /// A database with all pairs of `set` in one run, older versions kept, everything in memory.
    /// Loaded in key order: what tables hold in the end does not depend on the order, and 20 arms
    /// are 20 loads.
    pub fn create(arm: &Arm, set: &DataSet, parent: Option<&Path>) -> Result<Subject> {
        let directory = temporary(parent)?;
        let db = options(arm, memory_of(set)).open(directory.path())?;
        let mut snapshots = Vec::new();
        for pairs in &set.older {
            db.ingest(in_order(pairs).into_iter().map(|i| pairs.get(i as usize)))?;
            snapshots.push(db.snapshot());
        }
        db.ingest(set.sorted.iter().map(|&i| set.pairs.get(i as usize)))?;
        db.wait_idle()?;
        let subject = Subject { arm: arm.clone(), db, snapshots, directory };
        if subject.runs() > 1 {
            subject.db.compact_range(..)?;
            subject.db.wait_idle()?;
        }
        Ok(subject)
    }

    /// Closes it.
    pub fn close(self) -> Result<Stored> {
        let Subject { arm, db, snapshots, directory } = self;
        let stats = db.default().stats();
        // In this order: versions that the snapshots hold must not leave before the workers stop.
        db.close()?;
        drop(snapshots);
        Ok(Stored { arm, blocks: stats.blocks, index_bytes: stats.index_bytes, directory })
    }

    /// A database as it is after a random-order load with this budget, once background work is
    /// done.
    pub fn settled(arm: &Arm, set: &DataSet, memory_bytes: u64, parent: Option<&Path>) -> Result<Subject> {
        let directory = temporary(parent)?;
        let db = options(arm, memory_bytes).open(directory.path())?;
        // No merge is to begin because the measurement reads.
        db.control().apply(Change::new("bench", "as loaded").set(&knob::LEVEL0_PATIENCE, 0u32))?;
        for (key, value) in set.pairs.iter() {
            db.put(key, value)?;
        }
        db.flush()?;
        db.wait_idle()?;
        Ok(Subject { arm: arm.clone(), db, snapshots: Vec::new(), directory })
    }

    /// The same database, opened anew with another budget and direct reads.
    pub fn reopened_direct(self, memory_bytes: u64) -> Result<Subject> {
        let Stored { arm, directory, .. } = self.close()?;
        let db = options(&arm, memory_bytes).direct_reads(true).open(directory.path())?;
        Ok(Subject { arm, db, snapshots: Vec::new(), directory })
    }

    /// Where it lies.
    pub fn directory(&self) -> PathBuf {
        self.directory.path().into()
    }

    /// Runs at each level, from level 0, without the empty ones.
    pub fn runs(&self) -> usize {
        self.db.default().stats().levels.iter().map(|level| level.runs.len()).sum()
    }

    /// Data blocks that reads looked into so far.
    pub(super) fn blocks_probed(&self) -> u64 {
        self.counters().blocks_probed
    }

    fn counters(&self) -> Counters {
        self.db.default().stats().counters
    }

    /// Compares a walk with the set, pair by pair, and asks once for every absent key.
    fn verify(&self, set: &DataSet) -> Result<()> {
        let mut wrong = 0;
        let mut entries = self.db.iter();
        for &i in &set.sorted {
            let right = entries.advance()? && (entries.key(), entries.value()) == set.pairs.get(i as usize);
            wrong += u64::from(!right);
        }
        wrong += u64::from(entries.advance()?);
        for (key, value) in set.absent.iter() {
            wrong += u64::from(!self.right(Ask::Absent, key, value)?);
        }
        self.refuse_wrong(set, "check after the load", wrong)
    }

    /// An error if any of the answers of this stage was wrong.
    pub(super) fn refuse_wrong(&self, set: &DataSet, stage: &str, wrong: u64) -> Result<()> {
        match wrong {
            0 => Ok(()),
            _ => Err(Error::WrongAnswers {
                set: set.name.clone(),
                index: self.arm.layout.index,
                stage: format!("{}, {stage}", self.arm.name),
                wrong,
            }),
        }
    }

    /// Whether the answer for this key is the right one.
    #[inline]
    pub(super) fn right(&self, ask: Ask, key: &[u8], value: &[u8]) -> Result<bool> {
        let found = self.db.get(key)?;
        Ok(match ask {
            Ask::Absent => found.is_none(),
            Ask::Found | Ask::FoundZipf => found.is_some_and(|slice| *slice == *value),
        })
    }
}

impl Stored {
    /// A database for each arm, all of them right.
    pub fn create_all(
        arms: &[Arm],
        set: &DataSet,
        parent: Option<&Path>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<Stored>> {
        let mut stored = Vec::new();
        for (i, arm) in arms.iter().enumerate() {
            progress.at(&format!("{}: loading, {}", set.name, arm.name), i as u64, arms.len() as u64);
            let subject = Subject::create(arm, set, parent)?;
            subject.verify(set)?;
            stored.push(subject.close()?);
        }
        Ok(stored)
    }

    /// Opens it, and reads every block a few times, in no order. All blocks are in the cache then.
    ///
    /// # Errors
    /// [`Error::Config`] if a block was read from its file twice: then the cache is too small for
    /// them, and the slowest of its reads would be the system's.
    pub(super) fn open_in_memory(&self, set: &DataSet) -> Result<Subject> {
        let Stored { arm, blocks, directory, .. } = self;
        // No merge is to begin because the measurement reads, or because old versions may go now.
        let memory_bytes = memory_of(set) / MEMORY_PER_DATA * IN_MEMORY_PER_DATA;
        let db = options(arm, memory_bytes).background_threads(0).open(directory.path())?;
        db.control().apply(Change::new("bench", "as loaded").set(&knob::LEVEL0_PATIENCE, 0u32))?;
        if db.default().stats().blocks != *blocks {
            return Err(Error::Config(format!("{}: opening it again changed the tables", arm.name)));
        }
        let subject = Subject { arm: arm.clone(), db, snapshots: Vec::new(), directory: directory.clone() };
        let pairs = set.sorted.len();
        let step = (pairs / (READS_PER_BLOCK * (*blocks).max(1) as usize)).max(1);
        let reads = pairs.div_ceil(step) as u64;
        let mut wrong = 0;
        for nth in 0..reads {
            let rank = (nth * SHUFFLE % reads) as usize * step;
            let (key, value) = set.pairs.get(set.sorted[rank] as usize);
            wrong += u64::from(!subject.right(Ask::Found, key, value)?);
        }
        subject.refuse_wrong(set, "the first reads", wrong)?;
        let read = subject.counters().blocks_read;
        if read > *blocks {
            let what =
                format!("{}: {read} reads of {blocks} blocks filled the cache: it is too small", arm.name);
            return Err(Error::Config(what));
        }
        Ok(subject)
    }

    /// Bytes of index and handles, per block.
    pub fn index_bytes_per_block(&self) -> f64 {
        self.index_bytes as f64 / self.blocks.max(1) as f64
    }
}

/// How much to ask.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Reads per pass.
    pub lookups: usize,
    /// Interleaved repeats.
    pub repeats: usize,
    /// No pass takes longer than about this, in seconds.
    pub pass_s_max: f64,
    /// Seed of the probes.
    pub seed: u64,
}

/// What this process asked of devices so far: bytes read, read calls.
fn device() -> Option<(u64, u64)> {
    Some((of_process("read_bytes:")?, of_process("syscr:")?))
}

/// A count that the system keeps of this process's files, by its name there.
pub(super) fn of_process(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a fact about the process, not a file of the database")]
    let text = std::fs::read("/proc/self/io").ok()?;
    String::from_utf8(text).ok()?.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// Which of the probes are read, and how.
pub(super) struct Reads {
    /// First, and not timed.
    pub untimed: Range<usize>,
    /// Then these together.
    pub together: Range<usize>,
    /// At last these one by one.
    pub alone: Range<usize>,
}

/// What the passes over one database came to, for one question.
#[derive(Clone, Default)]
pub(super) struct Tally {
    operations: u64,
    reaching: u64,
    probed: u64,
    read: u64,
    device: Option<(u64, u64)>,
    /// Operations per second of each pass.
    pub rates: Vec<f64>,
    p50_ns: Vec<f64>,
    /// 99th percentile of each pass.
    pub p99_ns: Vec<f64>,
}

impl Tally {
    /// Adds what is counted in `turns`, and the medians of what is timed.
    pub(super) fn add_median(&mut self, turns: Tally) {
        self.operations += turns.operations;
        self.reaching += turns.reaching;
        self.probed += turns.probed;
        self.read += turns.read;
        if let Some((bytes, calls)) = turns.device {
            let sum = self.device.get_or_insert_default();
            sum.0 += bytes;
            sum.1 += calls;
        }
        self.rates.push(Spread::of(turns.rates).median);
        self.p50_ns.push(Spread::of(turns.p50_ns).median);
        self.p99_ns.push(Spread::of(turns.p99_ns).median);
    }

    pub(super) fn answer(self) -> Answer {
        let per = |count: u64| count as f64 / self.operations.max(1) as f64;
        Answer {
            blocks_probed: self.probed as f64 / self.reaching.max(1) as f64,
            blocks_read: per(self.read),
            device_bytes: self.device.map(|(bytes, _)| per(bytes)),
            read_calls: self.device.map(|(_, calls)| per(calls)),
            per_second: Spread::of(self.rates),
            p50_ns: Spread::of(self.p50_ns),
            p99_ns: Spread::of(self.p99_ns),
        }
    }
}

/// What is asked of several databases that hold one set.
pub struct Inquiry<'a> {
    /// Times everything.
    pub clock: &'a SystemClock,
    /// What they hold.
    pub set: &'a DataSet,
    /// The questions.
    pub asks: &'a [Ask],
    /// How often each.
    pub effort: Effort,
}

impl Inquiry<'_> {
    /// Asks open databases in turns. For each an answer per question.
    pub fn of_open(&self, subjects: &[Subject], progress: &mut dyn Progress) -> Result<Vec<Vec<Answer>>> {
        self.repeat(subjects.len(), progress, |which, probes, tallies| {
            self.ask(&subjects[which], probes, &self.whole_pass(), tallies)
        })
    }

    /// Asks databases in memory, and opens each for its turn alone: so all have the same memory,
    /// and none comes to lie behind another, where rates differ by some per cent. For each an
    /// answer per question.
    pub fn of_stored(&self, stored: &[Stored], progress: &mut dyn Progress) -> Result<Vec<Vec<Answer>>> {
        self.repeat(stored.len(), progress, |which, probes, tallies| {
            let subject = stored[which].open_in_memory(self.set)?;
            self.ask(&subject, probes, &self.whole_pass(), tallies)?;
            subject.close()?;
            Ok(())
        })
    }

    /// Calls `each` for every database `repeats` times, in each repeat with the next one first.
    fn repeat(
        &self,
        databases: usize,
        progress: &mut dyn Progress,
        mut each: impl FnMut(usize, &Probes, &mut [Tally]) -> Result<()>,
    ) -> Result<Vec<Vec<Answer>>> {
        let prober = Prober::new(self.set, self.effort.seed);
        let mut tallies = vec![vec![Tally::default(); self.asks.len()]; databases];
        let stage = format!("{}: measuring {databases} layouts", self.set.name);
        let steps = (self.effort.repeats * databases) as u64;
        for repeat in 0..self.effort.repeats {
            let probes = prober.probes(repeat, self.effort.lookups, 0, 1);
            for turn in 0..databases {
                progress.at(&stage, (repeat * databases + turn) as u64, steps);
                let which = (turn + repeat) % databases;
                each(which, &probes, &mut tallies[which])?;
            }
        }
        progress.at(&stage, steps, steps);
        Ok(tallies.into_iter().map(|tallies| tallies.into_iter().map(Tally::answer).collect()).collect())
    }

    /// All probes, and a quarter of them again.
    fn whole_pass(&self) -> Reads {
        let lookups = self.effort.lookups;
        Reads { untimed: 0..0, together: 0..lookups, alone: 0..lookups.div_ceil(TIMED_OF) }
    }

    /// Asks a database each question.
    pub(super) fn ask(
        &self,
        subject: &Subject,
        probes: &Probes,
        reads: &Reads,
        tallies: &mut [Tally],
    ) -> Result<()> {
        for (&ask, tally) in self.asks.iter().zip(tallies) {
            self.measure(subject, ask, probes, reads, tally)?;
        }
        Ok(())
    }

    fn measure(
        &self,
        subject: &Subject,
        ask: Ask,
        probes: &Probes,
        reads: &Reads,
        tally: &mut Tally,
    ) -> Result<()> {
        let probes = match ask {
            Ask::Found => &probes.uniform,
            Ask::FoundZipf => &probes.zipf,
            Ask::Absent => &probes.absent,
        };
        let limit_ns = (self.effort.pass_s_max * 1e9) as u64;
        let right = |key: &[u8], value: &[u8]| subject.right(ask, key, value);
        let untimed = measure::throughput(self.clock, probes, reads.untimed.clone(), limit_ns, right)?;
        let (before, device_before) = (subject.counters(), device());
        let pass: Pass = measure::throughput(self.clock, probes, reads.together.clone(), limit_ns, right)?;
        let (after, device_after) = (subject.counters(), device());
        let (timed, histogram) =
            measure::latencies(self.clock, probes, reads.alone.clone(), limit_ns, right)?;
        subject.refuse_wrong(self.set, "reads", untimed.wrong + pass.wrong + timed.wrong)?;
        tally.operations += pass.operations;
        tally.reaching += match ask {
            Ask::Absent => after.filter_false_positives - before.filter_false_positives,
            Ask::Found | Ask::FoundZipf => pass.operations,
        };
        tally.probed += after.blocks_probed - before.blocks_probed;
        tally.read += after.blocks_read - before.blocks_read;
        if let Some(((bytes, calls), (bytes_before, calls_before))) = device_after.zip(device_before) {
            let sum = tally.device.get_or_insert_default();
            sum.0 += bytes - bytes_before;
            // Reading the counts is among them: two calls in a pass.
            sum.1 += calls - calls_before;
        }
        tally.rates.push(pass.per_second());
        tally.p50_ns.push(histogram.value_at_quantile(0.5) as f64);
        tally.p99_ns.push(histogram.value_at_quantile(0.99) as f64);
        Ok(())
    }
}
