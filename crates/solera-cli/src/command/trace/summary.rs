//! What a trace holds, counted: `Summary`, with `Counts` for each keyspace; and `Names`.
//!
//! `mix` gives the shares of absent lookups, found lookups, scans and writes, which are the cost
//! model's v, r, q, w. `hottest_share` is what the hottest hundredth of the keys has. Records name
//! a keyspace by a number; `Names` learns its name as the trace is read.
//!
//! What must hold: a batch counts as many as it has writes. Operations that were left out are
//! counted apart.
//!
//! Callers: `trace show`; `trace replay` takes its beginning, what keyspaces merge, and lengths to
//! preload from it, and `Names`.

use super::{go_on, read_trace};
use crate::failure::Result;
use indicatif::ProgressBar;
use solera::{
    key,
    trace::{Ending, Operation, Traced},
};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

/// The hottest keys are one in so many.
const HOTTEST_ONE_IN: usize = 100;

/// A trace, counted.
#[derive(Default)]
pub(super) struct Summary {
    /// By name; one that was dropped and made anew is one.
    pub(super) keyspaces: BTreeMap<String, Counts>,
    pub(super) batches: u64,
    pub(super) dropped: u64,
    pub(super) hashed: bool,
    pub(super) first_us: u64,
    pub(super) last_us: u64,
}

/// What was done in a keyspace.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) absent: u64,
    pub(super) found: u64,
    pub(super) scans_up: u64,
    pub(super) scans_down: u64,
    pub(super) entries_up: u64,
    pub(super) entries_down: u64,
    pub(super) puts: u64,
    pub(super) expiring_puts: u64,
    pub(super) deletes: u64,
    pub(super) range_deletes: u64,
    pub(super) merges: u64,
    pub(super) drops: u64,
    /// Bytes of the values put and the operands merged.
    pub(super) value_bytes: u64,
    /// How often each key was looked up or written, by its hash.
    keys: HashMap<u64, u64>,
}

/// The names of a trace's keyspaces, as they become known.
#[derive(Default)]
pub(super) struct Names(HashMap<u32, String>);

impl Names {
    /// The name of the keyspace that a record is about.
    pub(super) fn of(&mut self, operation: &Operation<'_>) -> &str {
        if let Operation::Keyspace { keyspace, name } = *operation {
            self.0.insert(keyspace, name.to_owned());
        }
        // The reader sees to it that every keyspace was named.
        operation.keyspace().and_then(|number| self.0.get(&number)).map_or("", String::as_str)
    }
}

impl Summary {
    /// Reads the trace at `path`.
    pub(super) fn read(path: &Path, bar: &ProgressBar) -> Result<(Summary, Ending)> {
        let (mut summary, mut names) = (Summary::default(), Names::default());
        let ending = read_trace(path, |traced| {
            bar.set_position(traced.offset);
            go_on()?;
            let name = names.of(&traced.operation);
            summary.add(name, traced);
            Ok(())
        })?;
        Ok((summary, ending))
    }

    fn add(&mut self, name: &str, traced: &Traced<'_>) {
        if self.first_us == 0 {
            self.first_us = traced.unix_us;
        }
        self.last_us = traced.unix_us;
        self.hashed |= traced.hashed;
        match traced.operation {
            Operation::Batch { .. } => self.batches += 1,
            Operation::Dropped { operations } => self.dropped = self.dropped.saturating_add(operations),
            ref operation => {
                // By reference first: nearly always it is there.
                match self.keyspaces.get_mut(name) {
                    Some(counts) => counts.add(operation),
                    None => self.keyspaces.entry(name.to_owned()).or_default().add(operation),
                }
            }
        }
    }

    /// Between the first record and the last.
    pub(super) fn seconds(&self) -> f64 {
        self.last_us.saturating_sub(self.first_us) as f64 / 1e6
    }

    /// Operations, without those that were left out.
    pub(super) fn operations(&self) -> u64 {
        self.keyspaces.values().map(Counts::operations).sum()
    }
}

impl Counts {
    fn add(&mut self, operation: &Operation<'_>) {
        match *operation {
            Operation::Lookup { key, found, .. } => {
                *(if found { &mut self.found } else { &mut self.absent }) += 1;
                self.used(key);
            }
            Operation::Scan { entries, backward, .. } => {
                let (scans, sum) = match backward {
                    true => (&mut self.scans_down, &mut self.entries_down),
                    false => (&mut self.scans_up, &mut self.entries_up),
                };
                *scans += 1;
                *sum = sum.saturating_add(entries);
            }
            Operation::Put { key, value_len, expires, .. } => {
                *(if expires { &mut self.expiring_puts } else { &mut self.puts }) += 1;
                self.value_bytes = self.value_bytes.saturating_add(value_len);
                self.used(key);
            }
            Operation::Merge { key, operand_len, .. } => {
                self.merges += 1;
                self.value_bytes = self.value_bytes.saturating_add(operand_len);
                self.used(key);
            }
            Operation::Delete { key, .. } => {
                self.deletes += 1;
                self.used(key);
            }
            Operation::DeleteRange { .. } => self.range_deletes += 1,
            Operation::DropKeyspace { .. } => self.drops += 1,
            _ => {}
        }
    }

    fn used(&mut self, key: &[u8]) {
        *self.keys.entry(key::hash(key)).or_default() += 1;
    }

    /// Scans in either direction.
    pub(super) fn scans(&self) -> u64 {
        self.scans_up + self.scans_down
    }

    /// Writes of every kind.
    pub(super) fn writes(&self) -> u64 {
        self.puts + self.expiring_puts + self.deletes + self.range_deletes + self.merges
    }

    pub(super) fn operations(&self) -> u64 {
        self.absent + self.found + self.scans() + self.writes() + self.drops
    }

    /// The shares of absent lookups, found lookups, scans and writes: the cost model's v, r, q, w.
    pub(super) fn mix(&self) -> [f64; 4] {
        let counts = [self.absent, self.found, self.scans(), self.writes()];
        let all = counts.iter().sum::<u64>().max(1) as f64;
        counts.map(|count| count as f64 / all)
    }

    /// Keys that were looked up or written.
    pub(super) fn distinct_keys(&self) -> u64 {
        self.keys.len() as u64
    }

    /// Which share of the lookups and writes of single keys the hottest hundredth of those keys
    /// has; `None` if there are fewer than a hundred keys.
    pub(super) fn hottest_share(&self) -> Option<f64> {
        let hottest = self.keys.len() / HOTTEST_ONE_IN;
        let mut uses: Vec<u64> = self.keys.values().copied().collect();
        uses.sort_unstable_by(|a, b| b.cmp(a));
        let (all, hot) = (uses.iter().sum::<u64>(), uses.iter().take(hottest).sum::<u64>());
        (hottest > 0).then(|| hot as f64 / all as f64)
    }

    /// Bytes of a value or operand, in the mean.
    pub(super) fn value_bytes_mean(&self) -> Option<u64> {
        let values = self.puts + self.expiring_puts + self.merges;
        (values > 0).then(|| self.value_bytes / values)
    }
}
