//! What a database does and holds, as plain data: `Observation`, and its parts for keyspaces,
//! levels, layouts and memory.
//!
//! `since` subtracts an earlier observation, so two of them make a window. `Mix` is a workload in
//! four shares (lookups of absent and present keys, scans, writes). `setting` finds what a knob is
//! set to.
//!
//! What must hold: counts go on from the opening of the database, and only grow. Those of a layout
//! begin anew if it was gone in between. Sizes and settings are those of the moment. Every unit is
//! in a name.
//! Callers: `control::observe` fills it, `control::record` stores it, `control::render` prints it;
//! `solera-tune`, `solera-bench` and `solera control watch` make windows of it.

use crate::{
    compaction::SpaceUse,
    ids::{DatabaseId, KeyspaceId, Seqno},
    knob::Value,
    stats::{Counters, Latencies, LayoutCounters, LevelCounters, MergeCounters},
    table::LayoutTag,
};
use std::fmt;

/// What a database does and holds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Observation {
    /// The database.
    pub database: DatabaseId,
    /// When it was opened, in Unix milliseconds: counts begin there.
    pub opened_unix_ms: u64,
    /// When it was observed, in Unix milliseconds.
    pub unix_ms: u64,
    /// What time the counts cover, in microseconds: since the opening, or in a difference between
    /// the two moments.
    pub window_us: u64,
    /// Newest committed operation.
    pub last_seqno: Seqno,
    /// Snapshots, iterators and transactions that hold back the removal of old versions.
    pub snapshots: u64,
    /// Bytes appended to logs.
    pub bytes_written_log: u64,
    /// Reads of values that are kept apart, out of files: by lookups, walks, and merges that move
    /// them. One may bring many values.
    pub value_reads: u64,
    /// Bytes that these read.
    pub value_bytes_read: u64,
    /// Number of the newest change of knobs: see [`Receipt`](super::Receipt).
    pub changes: u64,
    /// What memory is in use, by owner.
    pub memory: MemoryUse,
    /// Why background work is stuck, if it is.
    pub background_failure: Option<String>,
    /// What every knob is set to.
    pub settings: Vec<Setting>,
    /// The keyspaces, in the order in which they were created.
    pub keyspaces: Vec<KeyspaceObservation>,
}

/// Memory in use, by owner, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryUse {
    /// The budget.
    pub budget_bytes: u64,
    /// Memtables, those that wait for a flush among them.
    pub memtable_bytes: u64,
    /// Indexes of open tables, with the places of their blocks.
    pub index_bytes: u64,
    /// Filters of open tables.
    pub filter_bytes: u64,
    /// What open tables hold besides, such as the places of cached blocks.
    pub table_bytes: u64,
    /// Blocks in the cache.
    pub cache_bytes: u64,
    /// What the cache may hold now, with what is lent to it.
    pub cache_capacity_bytes: u64,
    /// What is in no use and kept for blocks and memtables to come, by all databases of the
    /// process.
    pub kept_bytes: u64,
    /// Idle write buffers that are lent to the cache, or that readers of it have not given back.
    pub lent_bytes: u64,
}

/// What a knob is set to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Setting {
    /// The knob's name.
    pub knob: String,
    /// The keyspace; `None` for a knob of the database.
    pub keyspace: Option<String>,
    /// The level; `None` for what holds for all that have nothing of their own.
    pub level: Option<u32>,
    /// What it is.
    pub value: Value,
    /// Whether it was set, rather than given at an open or by default.
    pub is_set: bool,
}

/// How many operations of each kind there were: the four that a workload is told by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Point lookups that found no value (v).
    pub absent_lookups: u64,
    /// Point lookups that found a value (r).
    pub found_lookups: u64,
    /// Placings of iterators (q).
    pub scans: u64,
    /// Entries written (w).
    pub entries_written: u64,
}

impl Mix {
    /// All operations.
    pub fn operations(&self) -> u64 {
        self.absent_lookups + self.found_lookups + self.scans + self.entries_written
    }

    /// The share of each kind, in the order v, r, q, w, adding up to 1. `None` if there are no
    /// operations.
    pub fn shares(&self) -> Option<[f64; 4]> {
        let counts = [self.absent_lookups, self.found_lookups, self.scans, self.entries_written];
        let all = self.operations() as f64;
        (all > 0.0).then(|| counts.map(|count| count as f64 / all))
    }
}

/// What one keyspace does and holds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct KeyspaceObservation {
    /// Its number, never reused.
    pub id: KeyspaceId,
    /// Its name.
    pub name: String,
    /// What it did.
    pub counters: Counters,
    /// How long a sample of its operations took.
    pub latencies: Latencies,
    /// Bytes in memtables.
    pub memtable_bytes: u64,
    /// Entries in memtables.
    pub memtable_entries: u64,
    /// Memtables that wait to be flushed.
    pub sealed_memtables: u64,
    /// Compactions and entries from outside that are under way.
    pub running_plans: u64,
    /// What the bytes of its tables are, by cause, what compaction owes and how fast it goes; and
    /// what is dead of values kept apart, as far as their files were looked at.
    pub space: SpaceUse,
    /// Values kept apart to which entries of its tables lead.
    pub separated_values: u64,
    /// Bytes of these.
    pub separated_bytes: u64,
    /// When level 0 is due, and what reads have paid for its merge.
    pub level0: Level0Observation,
    /// Its levels, newest first.
    pub levels: Vec<LevelObservation>,
    /// The layouts that its tables have; the last may stand for all that could not be told apart.
    pub layouts: Vec<LayoutObservation>,
}

impl KeyspaceObservation {
    /// How many operations of each kind there were.
    pub fn mix(&self) -> Mix {
        let Counters { gets, gets_found, scans, entries_written, .. } = self.counters;
        Mix {
            // Counts are read while other threads count.
            absent_lookups: gets.saturating_sub(gets_found),
            found_lookups: gets_found,
            scans,
            entries_written,
        }
    }

    /// Entries in tables and memtables, versions and tombstones included.
    pub fn entries(&self) -> u64 {
        self.memtable_entries + self.levels.iter().map(|level| level.entries).sum::<u64>()
    }
}

/// When level 0 is due, and what reads have paid for its merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Level0Observation {
    /// Whether it waits for reads to pay for its merge.
    pub waits: bool,
    /// Runs at which it is merged, if reads do not pay before.
    pub due_runs: u32,
    /// What reads have paid since runs of it were last merged, in nanoseconds; 0 if no merge can be
    /// spared.
    pub rent_ns: u64,
    /// What its merge costs, in nanoseconds of rent; 0 if no merge can be spared.
    pub price_ns: u64,
}

/// What one level does and holds.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LevelObservation {
    /// Its number; 0 is the newest.
    pub level: u32,
    /// Runs in it.
    pub runs: u64,
    /// Tables in it.
    pub tables: u64,
    /// Entries of its tables, versions and tombstones included.
    pub entries: u64,
    /// Bytes of its tables' live parts.
    pub bytes: u64,
    /// Bytes that it may hold before it is merged down.
    pub capacity_bytes: u64,
    /// Runs that it may hold before they are merged down: the limit that is in force.
    pub run_limit: u32,
    /// The run limit that is wanted. It differs from the one in force while a lazy transition goes
    /// on.
    pub run_limit_wanted: u32,
    /// Bits of filter that its tables have for every entry, in the mean.
    pub filter_bits_per_key: f64,
    /// What reads did in it. At the last level that is counted for itself
    /// ([`LEVELS_COUNTED`](crate::stats::LEVELS_COUNTED) - 1) also what they did in deeper ones.
    pub reads: LevelCounters,
    /// What went into it and out of it; at the last level as for `reads`.
    pub merges: MergeCounters,
}

/// What the tables of one layout do and hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayoutObservation {
    /// The layout; `None`: all that could not be told apart, because there were too many.
    pub tag: Option<LayoutTag>,
    /// Tables that have it now.
    pub tables: u64,
    /// Their entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What reads did in such tables.
    pub reads: LayoutCounters,
}

impl Observation {
    /// What happened since `earlier`: every count is that of the time between, all else is as it is
    /// now. Of another opening of the database there is nothing to be told from `earlier`: then
    /// this is as it was.
    pub fn since(&self, earlier: &Observation) -> Observation {
        let mut window = self.clone();
        if (self.database, self.opened_unix_ms) != (earlier.database, earlier.opened_unix_ms) {
            return window;
        }
        window.window_us = self.window_us.saturating_sub(earlier.window_us);
        window.bytes_written_log = self.bytes_written_log.saturating_sub(earlier.bytes_written_log);
        window.value_reads = self.value_reads.saturating_sub(earlier.value_reads);
        window.value_bytes_read = self.value_bytes_read.saturating_sub(earlier.value_bytes_read);
        for keyspace in &mut window.keyspaces {
            // One that was created since has counted from 0.
            if let Some(before) = earlier.keyspaces.iter().find(|before| before.id == keyspace.id) {
                keyspace.subtract(before);
            }
        }
        window
    }

    /// The keyspace of this name.
    pub fn keyspace(&self, name: &str) -> Option<&KeyspaceObservation> {
        self.keyspaces.iter().find(|keyspace| keyspace.name == name)
    }

    /// What knob `name` is set to in `keyspace` (of no meaning for a knob of the database), for
    /// `level`.
    pub fn setting(&self, name: &str, keyspace: &str, level: Option<u32>) -> Option<&Value> {
        let is_meant = |setting: &&Setting| {
            setting.knob == name
                && setting.level == level
                && setting.keyspace.as_deref().is_none_or(|of| of == keyspace)
        };
        self.settings.iter().find(is_meant).map(|setting| &setting.value)
    }
}

impl KeyspaceObservation {
    fn subtract(&mut self, before: &KeyspaceObservation) {
        let Counters { stall_us_max, .. } = self.counters;
        self.counters = Counters { stall_us_max, ..self.counters.since(&before.counters) };
        self.latencies = self.latencies.since(&before.latencies);
        for level in &mut self.levels {
            if let Some(before) = before.levels.iter().find(|before| before.level == level.level) {
                level.reads = level.reads.since(&before.reads);
                level.merges = level.merges.since(&before.merges);
            }
        }
        for layout in &mut self.layouts {
            let before = before.layouts.iter().find(|before| before.tag == layout.tag);
            // One that was gone in between counts from 0 again.
            if let Some(before) = before.filter(|before| layout.reads.may_follow(&before.reads)) {
                layout.reads = layout.reads.since(&before.reads);
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.knob)?;
        if let Some(level) = self.level {
            write!(f, " of level {level}")?;
        }
        write!(f, " {}", self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::LayoutCounters;

    /// Symptom: a tuner that had changed filters often panicked where additions are checked, and
    /// else saw billions of blocks. Cause: a layout that was gone in between counts from 0 again.
    /// That was told by its searches alone, and it had more of these and fewer blocks than before.
    /// Cure: no count may be less.
    #[test]
    fn a_layout_that_was_gone_in_between_counts_from_nothing_whatever_it_did_since() {
        let seen = |searches, blocks_read| {
            let reads = LayoutCounters { searches, blocks_read, ..LayoutCounters::default() };
            let layouts = vec![LayoutObservation { reads, ..LayoutObservation::default() }];
            KeyspaceObservation { layouts, ..KeyspaceObservation::default() }
        };
        for (before, now, shown) in [
            (seen(10, 10), seen(30, 15), (20, 5)),
            (seen(10, 10), seen(5, 2), (5, 2)),
            (seen(10, 10), seen(30, 2), (30, 2)),
        ] {
            let mut window = now;
            window.subtract(&before);
            let LayoutCounters { searches, blocks_read, .. } = window.layouts[0].reads;
            assert_eq!((searches, blocks_read), shown);
        }
    }
}
