//! One database under measurement, a data set under one index kind: `Arm`, its directory, and what
//! publishes, tunes or records it. `create`, `load` and `compact` prepare it; `found_pass`,
//! `absent_pass`, `full_scan` and the `*_latencies` ask it; `blocks` and `size` tell of it.
//!
//! What must hold:
//! - It uses the engine through its public API alone.
//! - Every point read is checked against the data set, and a scan at both its ends; `full_scan`
//!   checks counts, `verify_others` all pairs. The caller is told how many answers were wrong.
//! - Fields are dropped in their order: first what publishes, tunes and records, then the database,
//!   then its directory.
//!
//! Caller: `runner`. The experiments in `paper` open databases of their own.

use crate::{
    data::DataSet,
    measure::{self, Pass},
    packed::Packed,
    report::{Load, Size},
    runner::{Config, Result},
};
use hdrhistogram::Histogram;
use solera::{
    Db, IndexKind, Layout, Options,
    clock::{Clock, SystemClock},
    control::{Publisher, Recording},
};
use solera_tune::{Attach, Goal, Tuner};
use std::{hint::black_box, ops::Range, path::PathBuf, time::Duration};
use tempfile::TempDir;

/// Time between two observations that are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// Puts between two reports of progress.
const LOAD_CHUNK: usize = 1 << 16;

pub(crate) struct Arm {
    pub(crate) kind: IndexKind,
    pub(crate) layout: Layout,
    /// Ends before `db` is closed.
    _publisher: Option<Publisher>,
    _tuner: Option<Tuner>,
    recording: Option<Recording>,
    db: Db,
    /// Removed when the arm is dropped; after `db`, by the order of the fields.
    _directory: TempDir,
}

/// Data blocks that lookups and scans touched, since the database was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) probed: u64,
    pub(crate) read: u64,
}

impl Arm {
    /// Opens an empty database in a temporary directory of its own.
    pub(crate) fn create(config: &Config, set: &str, kind: IndexKind, memory_bytes: u64) -> Result<Self> {
        let mut directory = tempfile::Builder::new();
        directory.prefix("solera-bench-");
        let directory = match &config.directory {
            Some(parent) => directory.tempdir_in(parent)?,
            None => directory.tempdir()?,
        };
        let layout = Layout { index: kind, ..config.layout };
        let options =
            Options::new().memory(memory_bytes).layout(layout).background_threads(config.background_threads);
        let db = options.open(directory.path())?;
        // A set's name may be of several words.
        let name: String = set.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let publish = |parent: &PathBuf| {
            db.control().publish(Some(&parent.join(format!("{name}-{kind}"))), PUBLISH_EVERY)
        };
        let publisher = config.publish.as_ref().map(publish).transpose()?;
        let tune = |agent: &String| Attach::new(Goal::default()).agent(agent).thread(&db);
        let tuner = config.tune.as_ref().map(tune).transpose()?;
        let record = |parent: &PathBuf| {
            db.control().trace(&parent.join(format!("{name}-{kind}.trace")), config.trace_options)
        };
        let recording = config.trace.as_ref().map(record).transpose()?;
        Ok(Arm { kind, layout, _publisher: publisher, _tuner: tuner, recording, db, _directory: directory })
    }

    /// Ends the arm, and fails if its trace, if one was asked for, lacks operations that could not
    /// be written.
    pub(crate) fn end_trace(mut self) -> Result<()> {
        match self.recording.take().map(Recording::finish).transpose()?.and_then(|recorded| recorded.failure)
        {
            Some(failure) => Err(failure.into()),
            None => Ok(()),
        }
    }

    /// Puts every pair of the set, older versions first, in its random order, then lets background
    /// work finish.
    pub(crate) fn load(
        &self,
        clock: &SystemClock,
        set: &DataSet,
        mut progress: impl FnMut(u64),
    ) -> Result<Load> {
        let start = clock.monotonic_ns();
        let mut done = 0;
        for pairs in set.older.iter().chain([&set.pairs]) {
            let mut at = 0;
            while at < pairs.len() {
                let end = (at + LOAD_CHUNK).min(pairs.len());
                for i in at..end {
                    let (key, value) = pairs.get(i);
                    self.db.put(key, value)?;
                }
                done += end - at;
                at = end;
                progress(done as u64);
            }
        }
        let loaded = clock.monotonic_ns();
        self.db.flush()?;
        self.db.wait_idle()?;
        let settled = clock.monotonic_ns();
        let (stats, counters) = (self.db.stats(), self.db.default().stats().counters);
        let written =
            stats.bytes_written_log + counters.bytes_written_flush + counters.bytes_written_compaction;
        let load_s = (loaded - start) as f64 / 1e9;
        Ok(Load {
            puts: set.writes() as u64,
            load_s,
            puts_per_s: set.writes() as f64 / load_s,
            settle_s: (settled - loaded) as f64 / 1e9,
            compact_s: None,
            stall_us_total: counters.stall_us_total,
            stall_us_max: counters.stall_us_max,
            log_bytes: stats.bytes_written_log,
            flush_bytes: counters.bytes_written_flush,
            compaction_bytes: counters.bytes_written_compaction,
            write_amplification: written as f64 / set.written_bytes().max(1) as f64,
        })
    }

    /// Compacts everything to one run and says how long that took, in seconds.
    pub(crate) fn compact(&self, clock: &SystemClock) -> Result<f64> {
        let start = clock.monotonic_ns();
        self.db.compact_range(..)?;
        self.db.wait_idle()?;
        Ok((clock.monotonic_ns() - start) as f64 / 1e9)
    }

    /// Reads these of the pairs, in the order of loading. Returns how many answers were wrong.
    pub(crate) fn verify_found(&self, set: &DataSet, which: Range<usize>) -> Result<u64> {
        let mut wrong = 0;
        for i in which {
            let (key, value) = set.pairs.get(i);
            wrong += u64::from(!self.found(key, value)?);
        }
        Ok(wrong)
    }

    /// Asks once for every absent key, and compares a full scan with the set, pair by pair. Returns
    /// how many answers were wrong.
    pub(crate) fn verify_others(&self, set: &DataSet) -> Result<u64> {
        let mut wrong = 0;
        for (key, _) in set.absent.iter() {
            wrong += u64::from(!self.absent(key)?);
        }
        let mut entries = self.db.iter();
        for &i in &set.sorted {
            let right = entries.advance()? && (entries.key(), entries.value()) == set.pairs.get(i as usize);
            wrong += u64::from(!right);
        }
        wrong += u64::from(entries.advance()?);
        Ok(wrong)
    }

    /// Whether the key has this value.
    #[inline]
    fn found(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.db.get(key)?.is_some_and(|slice| *slice == *value))
    }

    /// Whether the key is absent.
    #[inline]
    fn absent(&self, key: &[u8]) -> Result<bool> {
        Ok(self.db.get(key)?.is_none())
    }

    /// Whether a scan of `entries`, at least 1, begins at `first` and ends at `last`.
    fn scan(&self, first: &[u8], last: &[u8], entries: usize) -> Result<bool> {
        let mut scan = self.db.range(first..);
        if !scan.advance()? || scan.key() != first {
            return Ok(false);
        }
        let mut touched = 0;
        for _ in 1..entries {
            touched += scan.value().last().copied().map_or(0, u64::from);
            if !scan.advance()? {
                return Ok(false);
            }
        }
        black_box(touched);
        Ok(scan.key() == last)
    }

    /// Found reads, unclocked.
    pub(crate) fn found_pass(&self, clock: &SystemClock, probes: &Packed, limit_ns: u64) -> Result<Pass> {
        measure::throughput(clock, probes, 0..probes.len(), limit_ns, |key, value| self.found(key, value))
    }

    /// Found reads, each clocked.
    pub(crate) fn found_latencies(
        &self,
        clock: &SystemClock,
        probes: &Packed,
        count: usize,
        limit_ns: u64,
    ) -> Result<(Pass, Histogram<u64>)> {
        measure::latencies(clock, probes, 0..count, limit_ns, |key, value| self.found(key, value))
    }

    /// Absent reads, unclocked.
    pub(crate) fn absent_pass(&self, clock: &SystemClock, probes: &Packed, limit_ns: u64) -> Result<Pass> {
        measure::throughput(clock, probes, 0..probes.len(), limit_ns, |key, _| self.absent(key))
    }

    /// Absent reads, each clocked.
    pub(crate) fn absent_latencies(
        &self,
        clock: &SystemClock,
        probes: &Packed,
        count: usize,
        limit_ns: u64,
    ) -> Result<(Pass, Histogram<u64>)> {
        measure::latencies(clock, probes, 0..count, limit_ns, |key, _| self.absent(key))
    }

    /// Scans of `entries`, each clocked: next to a scan the clock costs nothing.
    pub(crate) fn scan_latencies(
        &self,
        clock: &SystemClock,
        probes: &Packed,
        entries: usize,
        limit_ns: u64,
    ) -> Result<(Pass, Histogram<u64>)> {
        measure::latencies(clock, probes, 0..probes.len(), limit_ns, |first, last| {
            self.scan(first, last, entries)
        })
    }

    /// One scan over everything; its operations are entries. Every entry is counted as wrong if
    /// their number or their bytes are.
    pub(crate) fn full_scan(&self, clock: &SystemClock, set: &DataSet) -> Result<Pass> {
        let start_ns = clock.monotonic_ns();
        let mut scan = self.db.iter();
        let (mut operations, mut bytes, mut touched) = (0, 0, 0);
        while scan.advance()? {
            let value = scan.value();
            operations += 1;
            bytes += (scan.key().len() + value.len()) as u64;
            touched += value.last().copied().map_or(0, u64::from);
        }
        black_box(touched);
        let ns = clock.monotonic_ns() - start_ns;
        let right = operations == set.pairs.len() as u64 && bytes == set.pairs.bytes();
        Ok(Pass { operations, start_ns, ns, wrong: if right { 0 } else { operations.max(1) } })
    }

    pub(crate) fn blocks(&self) -> Blocks {
        let counters = self.db.default().stats().counters;
        Blocks { probed: counters.blocks_probed, read: counters.blocks_read }
    }

    pub(crate) fn size(&self, set: &DataSet) -> Size {
        let stats = self.db.default().stats();
        let per_key = |bytes: u64| bytes as f64 / set.pairs.len() as f64;
        Size {
            table_bytes: stats.table_bytes,
            tables: stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum(),
            runs_per_level: stats.levels.iter().map(|level| level.runs.len()).collect(),
            index_file_bytes: stats.index_bytes,
            index_file_bytes_per_key: per_key(stats.index_bytes),
            filter_file_bytes: stats.filter_bytes,
            filter_file_bytes_per_key: per_key(stats.filter_bytes),
            block_cache_bytes: self.db.stats().block_cache_bytes,
        }
    }
}
