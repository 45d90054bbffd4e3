//! One engine, from its load to the scans at the end: `run`, which does a `Task`, and `Course`,
//! what came of it.
//!
//! P0 puts every pair once, in random order. P1 to P3 are as many updates as pairs each, mixed with
//! reads, all by Zipf's law. Then come found reads and scans at rest, walks over everything until
//! nothing is written for them, and scans again. These are L1 and the end of L2 of `solera bench
//! paper learnedkv`, whose keys, values and order of operations they have.
//!
//! What must hold: every answer is checked, down to the version of the value; a wrong one ends the
//! run. What the system's cache holds of the files is dropped sixteen times in each part, so that
//! no engine has more memory than another. Times are of the operations alone.
//!
//! Caller: `updates`.

use crate::{
    engine::{Asked, Engine, Reader, Result, Setting},
    engines, process,
};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use solera::clock::{Clock, SystemClock};
use solera_bench::{probes::ZIPF_EXPONENT, random::Random, zipf::Zipf};
use std::path::PathBuf;

/// Bytes of a key.
pub(super) const KEY_BYTES: u64 = 8;
/// Phases after the load.
pub(super) const PHASES: usize = 3;
/// Entries of a scan.
pub(super) const SCAN_ENTRIES: u64 = 500;
/// Bytes of a value that say whose it is: the number of its key, and its version.
const MARK_BYTES: usize = 12;
/// Random bytes that values are parts of.
const VALUE_POOL_BYTES: usize = 1 << 20;
/// What the system's cache holds of the files is dropped so many times in each part.
const DROPS: u64 = 16;
/// Operations between two looks at the space.
const SPACE_OPERATIONS: u64 = 4096;
/// Most walks over everything, and how many in a row for which nothing is written are enough.
const WALKS_MAX: usize = 16;
const WALKS_IN_VAIN: usize = 4;
/// Bytes that a walk for which nothing is written may seem to write: logs of what was done.
const WALK_BYTES_MIN: u64 = 256 << 10;
/// A prime above every count of pairs: multiples of it spread ranks over numbers.
const SPREAD: u64 = 2_654_435_761;

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) engine: String,
    pub(super) directory: PathBuf,
    pub(super) pairs: u64,
    pub(super) value_bytes: usize,
    pub(super) lookups: u64,
    pub(super) memory_bytes: u64,
    pub(super) direct: bool,
    pub(super) seed: u64,
}

/// How long operations of one kind took, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Timed {
    pub(super) count: u64,
    pub(super) ns: u64,
    /// p50, p99, p99.9 and the greatest.
    pub(super) quantiles_ns: [u64; 4],
}

impl Timed {
    /// Operations per second of their own time.
    pub(super) fn per_second(&self) -> f64 {
        self.count as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// What a phase did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) writes: Timed,
    pub(super) reads: Timed,
    /// Until nothing was left to do afterwards.
    pub(super) settle_ns: u64,
    /// Processor time of the whole process.
    pub(super) cpu_seconds: f64,
    /// Bytes that the system sent to storage, and that the process handed to calls that write.
    pub(super) written: u64,
    pub(super) handed: u64,
    /// Most bytes that the files took.
    pub(super) space_peak: u64,
}

/// What came of one engine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Course {
    pub(super) load: Phase,
    pub(super) phases: Vec<Phase>,
    /// What the files took after the last phase.
    pub(super) space: u64,
    /// Memory that the process held then, beyond what it held before the engine was opened.
    pub(super) resident: u64,
    /// Found reads at rest, and calls that read from files for each.
    pub(super) found: Timed,
    pub(super) read_calls: f64,
    /// Entries of scans at rest, and of the same once walks have gone over everything.
    pub(super) scans: [Timed; 2],
    /// Bytes written for these walks, and what the files took then.
    pub(super) walked: (u64, u64),
}

/// The key of a number: numbers in order make keys in random order (the finalizer of splitmix64, a
/// bijection).
fn key(number: u64) -> [u8; KEY_BYTES as usize] {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_be_bytes()
}

/// What is in the database, and what the next operations are.
struct Known<'t> {
    task: &'t Task,
    random: Random,
    zipf: Zipf,
    pool: Vec<u8>,
    /// The version that each key's value has.
    versions: Vec<u32>,
    wrong: u64,
    clock: SystemClock,
}

/// Times of one kind while they come in.
struct Timing {
    ns: u64,
    all: Histogram<u64>,
}

impl Timing {
    fn none() -> Timing {
        Timing { ns: 0, all: Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are legal") }
    }

    fn add(&mut self, ns: u64) {
        self.ns += ns;
        self.all.saturating_record(ns);
    }

    /// Of so many operations.
    fn timed(&self, count: u64) -> Timed {
        let quantiles_ns = [0.5, 0.99, 0.999, 1.0].map(|quantile| self.all.value_at_quantile(quantile));
        Timed { count, ns: self.ns, quantiles_ns }
    }
}

/// Does all of it.
pub(super) fn run(task: &Task) -> Result<Course> {
    let (name, asked) = Asked::of(&task.engine)?;
    if task.directory.exists() {
        std::fs::remove_dir_all(&task.directory)?;
    }
    std::fs::create_dir_all(&task.directory)?;
    let mut known = Known::new(task);
    process::settle_device();
    let idle_bytes = process::resident_bytes();
    let engine = engines::open(
        name,
        &Setting {
            directory: task.directory.clone(),
            memory_bytes: task.memory_bytes,
            data_bytes: task.pairs * (KEY_BYTES + task.value_bytes as u64),
            direct: task.direct,
            lz4: false,
            readers: 1,
            to_scan: false,
            asked,
        },
    )?;
    let engine = &*engine;
    let load = known.phase(engine, 0)?;
    let phases = (0..PHASES).map(|_| known.phase(engine, task.lookups)).collect::<Result<_>>()?;
    let space = process::directory_bytes(&task.directory)?;
    let resident = process::resident_bytes().saturating_sub(idle_bytes);
    let (found, read_calls) = known.reads(engine)?;
    let scans = known.scans(engine)?;
    let before = process::written_bytes();
    known.walks(engine)?;
    let walked = (process::written_bytes() - before, process::directory_bytes(&task.directory)?);
    let scans = [scans, known.scans(engine)?];
    Ok(Course { load, phases, space, resident, found, read_calls, scans, walked })
}

impl<'t> Known<'t> {
    fn new(task: &'t Task) -> Self {
        let mut random = Random::new(task.seed);
        let mut pool = vec![0; VALUE_POOL_BYTES];
        random.fill(&mut pool);
        Known {
            task,
            random,
            zipf: Zipf::new(task.pairs, ZIPF_EXPONENT),
            pool,
            versions: vec![0; task.pairs as usize],
            wrong: 0,
            clock: SystemClock::new(),
        }
    }

    /// As many puts as pairs, mixed with so many `reads`; then all that is due. Where nothing is
    /// loaded yet, each pair is put once; else keys are by their popularity.
    fn phase(&mut self, engine: &dyn Engine, reads: u64) -> Result<Phase> {
        let (pairs, load) = (self.task.pairs, self.versions[0] == 0);
        let (written, handed) = (process::written_bytes(), process::handed_bytes());
        let cpu = process::cpu_seconds();
        let (mut put, mut read) = (Timing::none(), Timing::none());
        let (mut puts_left, all, mut space_peak) = (pairs, pairs + reads, 0);
        let mut reader = engine.reader()?;
        for at in 0..all {
            if at.is_multiple_of(all.div_ceil(DROPS)) {
                process::drop_cached(&self.task.directory)?;
            }
            if at.is_multiple_of(SPACE_OPERATIONS) {
                space_peak = space_peak.max(process::directory_bytes(&self.task.directory)?);
            }
            let number = if load { at } else { self.popular() };
            if load || self.random.below(all - at) < puts_left {
                puts_left -= 1;
                let value = self.next_value(number);
                let begin = self.clock.monotonic_ns();
                engine.put(&key(number), &self.pool[value])?;
                put.add(self.clock.monotonic_ns() - begin);
            } else {
                if !engine.reader_is_live() {
                    reader = engine.reader()?;
                }
                read.add(self.read(&mut *reader, number)?);
            }
        }
        drop(reader);
        let begin = self.clock.monotonic_ns();
        engine.settle()?;
        let settle_ns = self.clock.monotonic_ns() - begin;
        self.answered("updates and reads")?;
        Ok(Phase {
            writes: put.timed(pairs),
            reads: read.timed(reads),
            settle_ns,
            cpu_seconds: process::cpu_seconds() - cpu,
            written: process::written_bytes() - written,
            handed: process::handed_bytes() - handed,
            space_peak: space_peak.max(process::directory_bytes(&self.task.directory)?),
        })
    }

    /// A number by its popularity.
    fn popular(&mut self) -> u64 {
        let rank = self.zipf.draw(&mut self.random);
        // Neighbours in popularity are neighbours neither in the order of loading nor of keys.
        (u128::from(rank) * u128::from(SPREAD) % u128::from(self.task.pairs)) as u64
    }

    /// Where in the pool the next value of this key lies.
    fn next_value(&mut self, number: u64) -> std::ops::Range<usize> {
        let len = self.task.value_bytes;
        let at = self.random.below((VALUE_POOL_BYTES - len) as u64) as usize;
        let version = &mut self.versions[number as usize];
        *version += 1;
        self.pool[at..at + 8].copy_from_slice(&number.to_le_bytes());
        self.pool[at + 8..at + MARK_BYTES].copy_from_slice(&version.to_le_bytes());
        at..at + len
    }

    fn is_right(&self, number: u64, value: &[u8]) -> bool {
        value.len() == self.task.value_bytes
            && value[..8] == number.to_le_bytes()
            && value[8..MARK_BYTES] == self.versions[number as usize].to_le_bytes()
    }

    /// Reads one key that is there: nanoseconds.
    fn read(&mut self, reader: &mut dyn Reader, number: u64) -> Result<u64> {
        let mut right = false;
        let begin = self.clock.monotonic_ns();
        reader.get(&key(number), &mut |value| right = self.is_right(number, value))?;
        let ns = self.clock.monotonic_ns() - begin;
        self.wrong += u64::from(!right);
        Ok(ns)
    }

    /// Fails if an answer was wrong.
    fn answered(&self, stage: &str) -> Result<()> {
        match self.wrong {
            0 => Ok(()),
            wrong => Err(format!("{}: {wrong} wrong answers in {stage}", self.task.engine).into()),
        }
    }

    /// Waits until nothing is left to do and all is on the device, and drops what is cached.
    fn come_to_rest(&self, engine: &dyn Engine) -> Result<()> {
        engine.settle()?;
        process::settle_device();
        Ok(process::drop_cached(&self.task.directory)?)
    }

    /// Found reads of random keys, once everything was walked over twice: what of the keys an
    /// engine keeps in its memory is there. And calls that read from files for each.
    fn reads(&mut self, engine: &dyn Engine) -> Result<(Timed, f64)> {
        engine.settle()?;
        for number in 0..self.task.pairs {
            let mut reader = engine.reader()?;
            self.read(&mut *reader, number)?;
        }
        self.come_to_rest(engine)?;
        let mut reader = engine.reader()?;
        let (mut timing, calls) = (Timing::none(), process::read_calls());
        for at in 0..self.task.lookups {
            if at.is_multiple_of(self.task.lookups.div_ceil(DROPS)) {
                process::drop_cached(&self.task.directory)?;
            }
            let number = self.random.below(self.task.pairs);
            timing.add(self.read(&mut *reader, number)?);
        }
        self.answered("reads")?;
        let calls = (process::read_calls() - calls) as f64 / self.task.lookups.max(1) as f64;
        Ok((timing.timed(self.task.lookups), calls))
    }

    /// Scans from random keys. Operations are entries.
    fn scans(&mut self, engine: &dyn Engine) -> Result<Timed> {
        self.come_to_rest(engine)?;
        let scans = (self.task.lookups / SCAN_ENTRIES).clamp(10, 1000);
        let mut reader = engine.reader()?;
        let (mut timing, mut seen) = (Timing::none(), 0);
        for at in 0..scans {
            if at.is_multiple_of(scans.div_ceil(DROPS)) {
                process::drop_cached(&self.task.directory)?;
            }
            let first = key(self.random.below(self.task.pairs));
            let begin = self.clock.monotonic_ns();
            seen += self.walk(&mut *reader, &first, SCAN_ENTRIES)?;
            timing.add(self.clock.monotonic_ns() - begin);
        }
        self.answered("scans")?;
        Ok(timing.timed(seen))
    }

    /// Walks over everything until the engine writes nothing more for them.
    fn walks(&mut self, engine: &dyn Engine) -> Result<()> {
        let mut in_vain = 0;
        for _ in 0..WALKS_MAX {
            let written = process::written_bytes();
            let mut reader = engine.reader()?;
            let seen = self.walk(&mut *reader, &[], u64::MAX)?;
            self.wrong += seen.abs_diff(self.task.pairs);
            drop(reader);
            engine.settle()?;
            let wrote = process::written_bytes() - written >= WALK_BYTES_MIN;
            in_vain = if wrote { 0 } else { in_vain + 1 };
            if in_vain == WALKS_IN_VAIN {
                break;
            }
        }
        self.answered("walks over everything")
    }

    /// Walks over `entries` entries from `first` on, as far as there are any, and checks each.
    fn walk(&mut self, reader: &mut dyn Reader, first: &[u8], entries: u64) -> Result<u64> {
        let (mut wrong, mut last) = (0, None);
        let limit = usize::try_from(entries).unwrap_or(usize::MAX);
        let seen = reader.scan(first, limit, false, &mut |here, value| {
            let number = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
            let here: Option<[u8; KEY_BYTES as usize]> = here.try_into().ok();
            let is_known = number < self.task.pairs && here == Some(key(number)) && last < here;
            wrong += u64::from(!is_known || !self.is_right(number, value));
            last = here;
        })?;
        self.wrong += wrong;
        Ok(seen as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(directory: PathBuf) -> Task {
        Task {
            engine: "solera-values".into(),
            directory,
            pairs: 3000,
            value_bytes: 1016,
            lookups: 1500,
            memory_bytes: 8 << 20,
            direct: false,
            seed: 1,
        }
    }

    #[test]
    fn a_course_counts_each_operation_and_what_all_of_them_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let task = task(directory.path().join("database"));
        let course = run(&task).unwrap();
        let live = task.pairs * 1024;
        assert_eq!((course.load.writes.count, course.load.reads.count), (3000, 0));
        assert_eq!(course.phases.len(), PHASES);
        for phase in &course.phases {
            assert_eq!((phase.writes.count, phase.reads.count), (3000, 1500));
            assert!(phase.handed > 0 && phase.space_peak >= live);
            assert!(phase.writes.ns > 0 && phase.cpu_seconds > 0.0);
        }
        assert!(course.space >= live && course.load.space_peak >= live);
        assert_eq!(course.found.count, 1500);
        assert!(course.scans.iter().all(|scans| scans.count > 0 && scans.count <= 10 * SCAN_ENTRIES));
    }

    #[test]
    fn an_older_version_of_a_value_is_a_wrong_answer() {
        let directory = tempfile::tempdir().unwrap();
        let task = task(directory.path().join("database"));
        let mut known = Known::new(&task);
        let first = known.next_value(7);
        let old = known.pool[first].to_vec();
        assert!(known.is_right(7, &old));
        let second = known.next_value(7);
        assert!(!known.is_right(7, &old) && !known.is_right(8, &old));
        assert!(known.is_right(7, &known.pool[second]));
    }
}
