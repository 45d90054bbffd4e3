//! One window: `Window`, what one keyspace did between two observations, and its parts
//! (`Operations`, `Setting`, `LevelSight`, `LayoutSight`).
//!
//! `between` subtracts observations. `number` and `text` say what a knob stood at. `Blocked` says
//! why a window is not to be judged, such as a load, a backlog, writers that waited, a clock that
//! jumped.
//!
//! What must hold: plain data that a journal can keep. A window whose numbers cannot be true is
//! blocked. `watch` adds its number, its context and the reasons that need more than two
//! observations.
//!
//! Callers: `watch` makes them; `context`, `goal`, the coordinator, all agents, the opponents and
//! pages of `solera-bench` and `solera explain` read them; `coordinator::journal` keeps them.

use crate::cost::Mix;
use serde::{Deserialize, Serialize};
use solera::{
    control::{Histogram, KeyspaceObservation, Latencies, LayoutObservation, Observation},
    knob::Value,
};

/// Share of writes from which a window that makes the data grow counts as a bulk load.
const LOAD_WRITE_SHARE: f64 = 0.95;
/// Growth of the data in one window from which such a window counts as a bulk load.
const LOAD_GROWTH: f64 = 0.2;
/// Memtables that may wait for their flush before work counts as behind.
const SEALED_MAX: u64 = 3;
/// A level that holds so many times its capacity is behind.
const BACKLOG: f64 = 2.0;
/// Share of the time that writes may wait for background work.
const STALL_SHARE_MAX: f64 = 0.1;
/// How far the two clocks may part in one window, in microseconds and as a share of it.
const CLOCKS_PART_US: f64 = 1e6;
const CLOCKS_PART: f64 = 0.1;

/// Why a window is not to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocked {
    /// There were too few operations for a mean.
    TooFew,
    /// The clocks jumped, or went backwards.
    Clock,
    /// A number is not finite or cannot be.
    NotANumber,
    /// The database was opened anew, or is another one.
    Reopened,
    /// The data is being loaded.
    BulkLoad,
    /// Background work has fallen behind, or writes waited for it.
    Backlog,
    /// Background work fails.
    Stuck,
    /// The workload is on its way from one context to another.
    Unsettled,
    /// The workload changed several times.
    Mixed,
    /// It has only begun: a workload that is known has come back.
    Arrived,
}

impl Blocked {
    /// Whether such a window says what workload it is of.
    pub fn has_context(self) -> bool {
        use Blocked::{Arrived, Clock, Mixed, NotANumber, Reopened, TooFew};
        !matches!(self, Clock | Reopened | NotANumber | TooFew | Mixed | Arrived)
    }

    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Blocked::TooFew => "too few operations",
            Blocked::Clock => "the clock jumped",
            Blocked::NotANumber => "a number that cannot be",
            Blocked::Reopened => "the database was opened anew",
            Blocked::BulkLoad => "a bulk load",
            Blocked::Backlog => "background work is behind",
            Blocked::Stuck => "background work fails",
            Blocked::Unsettled => "the workload is changing",
            Blocked::Mixed => "the workload changed several times",
            Blocked::Arrived => "a workload that is known has come back",
        }
    }
}

/// How many operations of each kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operations {
    /// Lookups that found no value (v).
    pub absent: u64,
    /// Lookups that found a value (r).
    pub found: u64,
    /// Placings of iterators (q).
    pub scans: u64,
    /// Entries written (w).
    pub writes: u64,
}

impl Operations {
    /// All operations.
    pub fn total(&self) -> u64 {
        self.absent + self.found + self.scans + self.writes
    }

    /// Shares of them in the order v, r, q, w. `None` if there are none.
    pub fn mix(&self) -> Option<Mix> {
        let all = self.total() as f64;
        let share = |count: u64| count as f64 / all;
        (all > 0.0).then(|| Mix {
            absent: share(self.absent),
            found: share(self.found),
            scan: share(self.scans),
            write: share(self.writes),
        })
    }
}

/// A knob's value at the end of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The knob's name.
    pub knob: String,
    /// The level; `None` for what holds for all that have nothing of their own, and for knobs that
    /// levels do not have.
    pub level: Option<u32>,
    /// The value, as text.
    pub value: String,
    /// Whether a change set it.
    pub is_set: bool,
}

/// One level: what it holds at the end of a window, and what happened in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LevelSight {
    /// Its number; 0 is the newest.
    pub level: u32,
    /// Runs in it.
    pub runs: u64,
    /// Tables in it.
    pub tables: u64,
    /// Entries in it.
    pub entries: u64,
    /// Bytes of its tables.
    pub bytes: u64,
    /// Bytes that it may hold.
    pub capacity_bytes: u64,
    /// Runs that it may hold.
    pub run_limit: u32,
    /// Filter bits for every entry, in the mean of its tables.
    pub filter_bits: f64,
    /// Tables that lookups asked.
    pub tables_probed: u64,
    /// Tables that lookups asked for keys that they do not hold.
    pub misses: u64,
    /// Filters that let such a lookup pass.
    pub false_positives: u64,
    /// Blocks that lookups searched.
    pub blocks_probed: u64,
    /// Blocks that lookups read from files.
    pub lookup_blocks_read: u64,
    /// Blocks that scans came to.
    pub scan_blocks: u64,
    /// Blocks that scans read from files.
    pub scan_blocks_read: u64,
    /// Bytes that flushes and merges wrote to it.
    pub bytes_in: u64,
    /// Entries that flushes and merges wrote to it.
    pub entries_in: u64,
    /// Bytes that merges read from it.
    pub bytes_out: u64,
}

/// Tables that are cut and indexed alike: what they hold at the end of a window, and what reads did
/// in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutSight {
    /// The kind of their index.
    pub index: String,
    /// Bytes of their blocks.
    pub block_bytes: u32,
    /// The error bound of their index; 0 where it has none.
    pub epsilon: u32,
    /// How many there are.
    pub tables: u64,
    /// Their entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Lookups that looked into one of them.
    pub searches: u64,
    /// Blocks that lookups and scans read from their files.
    pub blocks_read: u64,
    /// Blocks looked into beyond the one where an index's answer began.
    pub index_steps: u64,
    /// Searches in which a model was of no use.
    pub index_fallbacks: u64,
}

/// What one keyspace did between two observations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Its number; windows of a watch count from 1.
    pub number: u64,
    /// When it ended, in Unix milliseconds.
    pub unix_ms: u64,
    /// How long it was by the database's clock, in nanoseconds.
    pub elapsed_ns: u64,
    /// Number of the newest change of knobs at its end.
    pub changes: u64,
    /// What was asked.
    pub operations: Operations,
    /// Entries that scans came to.
    pub scanned: u64,
    /// Mean time of a lookup that found nothing, one that found a value, a scan's placing and a
    /// call that writes, in nanoseconds. 0 where none was sampled.
    pub mean_ns: [f64; 4],
    /// Calls that write. One may write many entries.
    pub write_calls: u64,
    /// How many operations were timed.
    pub samples: u64,
    /// The median of all times, in nanoseconds. 0 where none was sampled.
    pub p50_ns: u64,
    /// The 99th percentile of all times, in nanoseconds. 0 where none was sampled.
    pub p99_ns: u64,
    /// Blocks read from files by lookups and scans.
    pub blocks_read: u64,
    /// Blocks found in the cache.
    pub blocks_hit: u64,
    /// Bytes read from table files, by merges too.
    pub bytes_read: u64,
    /// Table bytes written by flushes.
    pub bytes_flushed: u64,
    /// Table bytes written by compactions.
    pub bytes_compacted: u64,
    /// Flushes finished.
    pub flushes: u64,
    /// Bytes appended to the log; 0 where it is not known, since other keyspaces wrote to it too.
    #[serde(default)]
    pub log_bytes: u64,
    /// Reads of values that are kept apart, out of files, by merges too; 0 where other keyspaces
    /// have such values.
    #[serde(default)]
    pub value_reads: u64,
    /// Bytes that these read.
    #[serde(default)]
    pub value_bytes_read: u64,
    /// Values kept apart.
    #[serde(default)]
    pub separated_values: u64,
    /// Bytes of these.
    #[serde(default)]
    pub separated_bytes: u64,
    /// Time that writes waited for background work, in microseconds, summed over writes.
    pub stall_us: u64,
    /// The keyspace's levels.
    pub levels: Vec<LevelSight>,
    /// Its tables, by how they are cut and indexed.
    #[serde(default)]
    pub layouts: Vec<LayoutSight>,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// The budget of memory, in bytes.
    pub memory_bytes: u64,
    /// Memory of filters, in bytes.
    pub filter_bytes: u64,
    /// Memory of indexes, in bytes.
    pub index_bytes: u64,
    /// What the block cache may hold, in bytes.
    pub cache_bytes: u64,
    /// What the block cache holds, in bytes.
    pub cached_bytes: u64,
    /// Every knob of the database and of the keyspace.
    pub settings: Vec<Setting>,
    /// Number of its context. 0: none yet.
    pub context: u32,
    /// Whether its context is another than the window's before it.
    pub drifted: bool,
    /// Whether it was looked at several times, and was asked for the same each time.
    #[serde(default)]
    pub steady: bool,
    /// Whether it was ended before its time, because a change hurt in it.
    #[serde(default)]
    pub early: bool,
    /// Why it is not to be judged, if it is not.
    pub blocked: Option<Blocked>,
}

impl Window {
    /// What `keyspace` did from `before` to `after`. `None` if `after` does not have it.
    pub(super) fn between(before: &Observation, after: &Observation, keyspace: &str) -> Option<Window> {
        let since = after.since(before);
        let seen = since.keyspace(keyspace)?;
        let counters = &seen.counters;
        let mix = seen.mix();
        let (mean_ns, all) = times(&seen.latencies);
        let is_alone = |of: &dyn Fn(&KeyspaceObservation) -> u64| {
            since.keyspaces.iter().all(|other| other.name == keyspace || of(other) == 0)
        };
        let levels = seen.levels.iter().map(level_sight).collect();
        let settings = since.settings.iter();
        let settings = settings.filter(|setting| setting.keyspace.as_deref().is_none_or(|of| of == keyspace));
        let mut window = Window {
            number: 0,
            unix_ms: after.unix_ms,
            elapsed_ns: since.window_us.saturating_mul(1000),
            changes: after.changes,
            operations: Operations {
                absent: mix.absent_lookups,
                found: mix.found_lookups,
                scans: mix.scans,
                writes: mix.entries_written,
            },
            scanned: counters.entries_scanned,
            mean_ns,
            write_calls: counters.writes,
            samples: all.count(),
            p50_ns: all.quantile(0.5).unwrap_or(0),
            p99_ns: all.quantile(0.99).unwrap_or(0),
            blocks_read: counters.blocks_read,
            blocks_hit: counters.blocks_hit,
            bytes_read: counters.bytes_read,
            bytes_flushed: counters.bytes_written_flush,
            bytes_compacted: counters.bytes_written_compaction,
            flushes: counters.flushes,
            log_bytes: if is_alone(&|of| of.counters.entries_written) { since.bytes_written_log } else { 0 },
            value_reads: if is_alone(&|of| of.separated_values) { since.value_reads } else { 0 },
            value_bytes_read: if is_alone(&|of| of.separated_values) { since.value_bytes_read } else { 0 },
            separated_values: seen.separated_values,
            separated_bytes: seen.separated_bytes,
            stall_us: counters.stall_us_total,
            levels,
            layouts: layout_sights(&seen.layouts),
            memtable_entries: seen.memtable_entries,
            memory_bytes: after.memory.budget_bytes,
            filter_bytes: after.memory.filter_bytes,
            index_bytes: after.memory.index_bytes,
            cache_bytes: after.memory.cache_capacity_bytes,
            cached_bytes: after.memory.cache_bytes,
            settings: settings
                .map(|setting| Setting {
                    knob: setting.knob.clone(),
                    level: setting.level,
                    value: setting.value.to_string(),
                    is_set: setting.is_set,
                })
                .collect(),
            context: 0,
            drifted: false,
            steady: false,
            early: false,
            blocked: None,
        };
        window.blocked = window.why_blocked(before, after, seen);
        window.forget_what_is_no_number();
        Some(window)
    }

    /// Puts 0 in the place of what is no number. JSON has none of those: the journal would hold a
    /// window that it could not read again.
    fn forget_what_is_no_number(&mut self) {
        let bits = self.levels.iter_mut().map(|level| &mut level.filter_bits);
        for number in self.mean_ns.iter_mut().chain(bits).filter(|number| !number.is_finite()) {
            *number = 0.0;
        }
    }

    /// Why it is not to be judged, as far as two observations tell.
    fn why_blocked(
        &self,
        before: &Observation,
        after: &Observation,
        seen: &KeyspaceObservation,
    ) -> Option<Blocked> {
        if (before.database, before.opened_unix_ms) != (after.database, after.opened_unix_ms) {
            return Some(Blocked::Reopened);
        }
        if !self.is_finite() {
            return Some(Blocked::NotANumber);
        }
        let elapsed_us = self.elapsed_ns as f64 / 1e3;
        let wall_us = (after.unix_ms as f64 - before.unix_ms as f64) * 1e3;
        let part = (wall_us - elapsed_us).abs();
        if self.elapsed_ns == 0 || part > CLOCKS_PART_US.max(CLOCKS_PART * elapsed_us) {
            return Some(Blocked::Clock);
        }
        if after.background_failure.is_some() {
            return Some(Blocked::Stuck);
        }
        let entries_before = before.keyspace(&seen.name).map_or(0, KeyspaceObservation::entries) as f64;
        let writes = self.operations.writes as f64;
        let is_load = writes > LOAD_WRITE_SHARE * self.operations.total() as f64
            && seen.entries() as f64 > (1.0 + LOAD_GROWTH) * entries_before;
        if is_load {
            return Some(Blocked::BulkLoad);
        }
        let is_over = |level: &LevelSight| {
            level.level > 0 && level.bytes as f64 > BACKLOG * level.capacity_bytes as f64
        };
        let stalled = self.stall_us as f64 > STALL_SHARE_MAX * elapsed_us;
        let behind = seen.sealed_memtables > SEALED_MAX || self.levels.iter().any(is_over);
        (stalled || behind).then_some(Blocked::Backlog)
    }

    /// Whether every number is finite and the counts can be true.
    fn is_finite(&self) -> bool {
        // A count that went backwards comes out of a subtraction as almost 2^64.
        const COUNT_MAX: u64 = 1 << 60;
        let Operations { absent, found, scans, writes } = self.operations;
        let counts = [
            absent,
            found,
            scans,
            writes,
            self.scanned,
            self.blocks_read,
            self.bytes_read,
            self.bytes_compacted,
        ];
        self.mean_ns.iter().all(|ns| ns.is_finite())
            && self.levels.iter().all(|level| level.filter_bits.is_finite())
            && counts.iter().all(|count| *count < COUNT_MAX)
    }

    /// Whether it is to be judged.
    pub fn is_judged(&self) -> bool {
        self.blocked.is_none()
    }

    /// Shares of its operations; all writes where there are no operations.
    pub fn mix(&self) -> Mix {
        self.operations.mix().unwrap_or(Mix { absent: 0.0, found: 0.0, scan: 0.0, write: 1.0 })
    }

    /// What `knob` is set to for `level`.
    pub fn setting(&self, knob: impl AsRef<str>, level: Option<u32>) -> Option<&Setting> {
        let knob = knob.as_ref();
        self.settings.iter().find(|setting| setting.knob == knob && setting.level == level)
    }

    /// The same as a number. `None` also where it is a name.
    pub fn number(&self, knob: impl AsRef<str>, level: Option<u32>) -> Option<f64> {
        Value::parse(&self.setting(knob, level)?.value).number()
    }

    /// The same as text, or "" if there is no such setting.
    pub fn text(&self, knob: impl AsRef<str>, level: Option<u32>) -> &str {
        self.setting(knob, level).map_or("", |setting| &setting.value)
    }

    /// Entries that a flush wrote, in the mean; 0 without any.
    pub fn flushed_entries(&self) -> f64 {
        let level0 = self.levels.iter().find(|level| level.level == 0);
        level0.map_or(0, |level| level.entries_in) as f64 / self.flushes.max(1) as f64
    }

    /// Bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.bytes).sum()
    }

    /// Bytes of all tables and of all values that are kept apart.
    pub fn data_bytes(&self) -> u64 {
        self.table_bytes() + self.separated_bytes
    }

    /// Bytes of an entry that comes in, with its value, as the log has it; `None` where that is not
    /// known.
    pub fn put_bytes(&self) -> Option<f64> {
        let is_known = self.log_bytes > 0 && self.operations.writes > 0;
        is_known.then(|| self.log_bytes as f64 / self.operations.writes as f64)
    }

    /// Entries in all tables, versions and tombstones included.
    pub fn table_entries(&self) -> u64 {
        self.levels.iter().map(|level| level.entries).sum()
    }

    /// Bytes of an entry that comes in, with its value: as the log has it where values are kept
    /// apart, and else as flushes wrote it to level 0. `None` without flushes.
    pub fn written_entry_bytes(&self) -> Option<f64> {
        if self.separated_values > 0 && self.operations.writes > 0 && self.log_bytes > 0 {
            return self.put_bytes();
        }
        let level0 = self.levels.iter().find(|level| level.level == 0)?;
        let is_some = level0.bytes_in > 0 && level0.entries_in > 0;
        is_some.then(|| level0.bytes_in as f64 / level0.entries_in as f64)
    }

    /// Entries that a scan came to, in the mean. 0 without scans.
    pub fn scan_entries(&self) -> f64 {
        self.scanned as f64 / self.operations.scans.max(1) as f64
    }
}

/// The mean of each kind of time, and all of them together.
fn times(latencies: &Latencies) -> ([f64; 4], Histogram) {
    let kinds =
        [&latencies.lookup_absent_ns, &latencies.lookup_found_ns, &latencies.scan_ns, &latencies.write_ns];
    let mut all = Histogram::default();
    kinds.iter().for_each(|kind| all.add(kind));
    (kinds.map(|kind| kind.mean().unwrap_or(0.0)), all)
}

/// The layouts, those together that differ in their filters alone.
fn layout_sights(layouts: &[LayoutObservation]) -> Vec<LayoutSight> {
    let mut sights: Vec<LayoutSight> = Vec::new();
    for layout in layouts {
        let Some(tag) = layout.tag else { continue };
        let index = tag.index.name();
        let is_same = |sight: &LayoutSight| {
            (sight.index.as_str(), sight.block_bytes, sight.epsilon) == (index, tag.block_bytes, tag.epsilon)
        };
        let at = sights.iter().position(is_same).unwrap_or_else(|| {
            let (block_bytes, epsilon) = (tag.block_bytes, tag.epsilon);
            sights.push(LayoutSight { index: index.into(), block_bytes, epsilon, ..LayoutSight::default() });
            sights.len() - 1
        });
        let (sight, reads) = (&mut sights[at], &layout.reads);
        sight.tables += layout.tables;
        sight.entries += layout.entries;
        sight.bytes += layout.bytes;
        sight.searches += reads.searches;
        sight.blocks_read += reads.blocks_read;
        sight.index_steps += reads.index_steps;
        sight.index_fallbacks += reads.index_fallbacks;
    }
    sights
}

fn level_sight(level: &solera::control::LevelObservation) -> LevelSight {
    let (reads, merges) = (&level.reads, &level.merges);
    LevelSight {
        level: level.level,
        runs: level.runs,
        tables: level.tables,
        entries: level.entries,
        bytes: level.bytes,
        capacity_bytes: level.capacity_bytes,
        run_limit: level.run_limit,
        filter_bits: level.filter_bits_per_key,
        tables_probed: reads.tables_probed(),
        misses: reads.misses(),
        false_positives: reads.filter_false_positives,
        blocks_probed: reads.blocks_probed(),
        lookup_blocks_read: reads.lookup_blocks_read,
        scan_blocks: reads.scan_blocks,
        scan_blocks_read: reads.scan_blocks_read,
        bytes_in: merges.bytes_in,
        entries_in: merges.entries_in,
        bytes_out: merges.bytes_out,
    }
}
