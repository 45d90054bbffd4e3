//! How a script's words are told to the engine and to the oracle: methods of `Setting`,
//! `SpaceSetting`, `Value`, `Change`.
//!
//! `options` makes the engine's options. `in_oracle`, `commit`, `add_to` and `stage_in` say a
//! change in the oracle's words, at once, in a batch, or in a transaction. `Work` adds up what the
//! engine did behind the calls.
//!
//! What must hold: the same change means the same in both worlds. `Work` is evidence that a life
//! reached what it was meant to test.
//!
//! Callers: `life`, `crash`, `faults`, `image`, and the programs (`options`, `Work`).

use crate::{
    oracle,
    script::{Change, Value, text::Bytes},
    setting::{Operator, Setting, SpaceSetting},
};
use solera::{
    Batch, Db, Filters, Keyspace, KeyspaceOptions, Layout, Options, Shape, Transaction, clock::Clock,
    key::END_OF_KEYS, operator::builtin, vfs::Fs,
};
use std::{ops::Bound, sync::Arc, time::Duration};

impl Setting {
    /// Options for a database without threads on these files and this clock.
    pub fn options(&self, fs: Arc<dyn Fs>, clock: Arc<dyn Clock>) -> Options {
        let durability = if self.sync { solera::Durability::Sync } else { solera::Durability::Buffered };
        let options = Options::new()
            .memory(self.memory_bytes)
            .durability(durability)
            .background_threads(0)
            .reclaim(self.reclaim)
            .value_spare_percent(self.spare_percent)
            .fs(fs)
            .clock(clock)
            .seed(1);
        let first = &self.spaces[0];
        let options =
            options.layout(first.layout()).shape(first.shape()).write_buffer(self.write_buffer_bytes);
        let options = match first.separate_from {
            0 => options,
            bytes => options.separate_values_from(bytes.into()),
        };
        match builtin(first.operator.name()) {
            Some(operator) => options.merge_operator(operator),
            None => options,
        }
    }
}

impl SpaceSetting {
    /// Options for this keyspace.
    pub fn options(&self) -> KeyspaceOptions {
        let options = KeyspaceOptions::new().layout(self.layout()).shape(self.shape());
        let options = match self.separate_from {
            0 => options,
            bytes => options.separate_values_from(bytes.into()),
        };
        match builtin(self.operator.name()) {
            Some(operator) => options.merge_operator(operator),
            None => options,
        }
    }

    fn layout(&self) -> Layout {
        Layout {
            block_bytes: self.block_bytes,
            index: self.index,
            epsilon: self.epsilon,
            filter: Filters {
                bits_per_key: self.filter_bits as f32,
                spread: self.filter_spread,
                last_level: self.last_filter,
            },
            compression: self.compression,
        }
    }

    fn shape(&self) -> Shape {
        Shape {
            size_ratio: self.size_ratio,
            run_limits: self.run_limits.clone(),
            table_bytes: u64::from(self.table_bytes),
            ..Shape::default()
        }
    }
}

impl Value {
    /// The bytes as a keyspace with this operator stores them.
    pub fn stored(self, operator: Operator) -> Vec<u8> {
        if operator == Operator::Counter { self.number().to_le_bytes().to_vec() } else { self.bytes() }
    }
}

impl Change {
    /// The keyspace slot, as an index into the setting's keyspaces.
    pub fn slot(&self, setting: &Setting) -> usize {
        usize::from(self.space()) % setting.spaces.len()
    }

    /// Whether it changes nothing: an empty range deleted.
    pub fn is_void(&self) -> bool {
        matches!(self, Change::DeleteRange { start, end, .. } if start >= end && !end.0.is_empty())
    }

    /// Whether the keyspace has no operator for this merge.
    pub fn lacks_operator(&self, setting: &Setting) -> bool {
        matches!(self, Change::Merge { .. }) && setting.spaces[self.slot(setting)].operator == Operator::None
    }

    /// In the oracle's words.
    pub fn in_oracle(&self, setting: &Setting, now_ms: u64) -> (usize, oracle::Change) {
        let slot = self.slot(setting);
        let operator = setting.spaces[slot].operator;
        let change = match self {
            Change::Put { key, value, .. } => {
                oracle::Change::Put { key: key.0.clone(), value: value.stored(operator), expires_ms: None }
            }
            Change::PutTtl { key, value, ttl_ms, .. } => oracle::Change::Put {
                key: key.0.clone(),
                value: value.stored(operator),
                expires_ms: Some(now_ms + u64::from(*ttl_ms)),
            },
            Change::Delete { key, .. } => oracle::Change::Delete { key: key.0.clone() },
            Change::DeleteRange { start, end, .. } => {
                let end = if end.0.is_empty() { &END_OF_KEYS[..] } else { &end.0[..] };
                oracle::Change::DeleteRange { start: start.0.clone(), end: end.to_vec() }
            }
            Change::Merge { key, operand, .. } => {
                oracle::Change::Merge { key: key.0.clone(), operand: operand.stored(operator) }
            }
        };
        (slot, change)
    }

    /// Committed at once.
    pub fn commit(&self, setting: &Setting, space: &Keyspace) -> solera::Result<()> {
        let operator = setting.spaces[self.slot(setting)].operator;
        match self {
            Change::Put { key, value, .. } => space.put(key, value.stored(operator)),
            Change::PutTtl { key, value, ttl_ms, .. } => {
                space.put_with_ttl(key, value.stored(operator), Duration::from_millis(u64::from(*ttl_ms)))
            }
            Change::Delete { key, .. } => space.delete(key),
            Change::DeleteRange { start, end, .. } => space.delete_range(between(start, end)),
            Change::Merge { key, operand, .. } => space.merge(key, operand.stored(operator)),
        }
    }
}

/// The range from `start` up to `end`; to the end of all keys if that is empty.
fn between<'c>(start: &'c Bytes, end: &'c Bytes) -> (Bound<&'c [u8]>, Bound<&'c [u8]>) {
    let end = if end.0.is_empty() { Bound::Unbounded } else { Bound::Excluded(&end.0[..]) };
    (Bound::Included(&start.0), end)
}

/// The same change into a batch or a transaction, which speak alike.
macro_rules! stage {
    ($change:expr, $setting:expr, $space:expr, $target:expr) => {{
        let operator = $setting.spaces[$change.slot($setting)].operator;
        match $change {
            Change::Put { key, value, .. } => $target.put($space, key, &value.stored(operator)),
            Change::PutTtl { key, value, ttl_ms, .. } => {
                let ttl = Duration::from_millis(u64::from(*ttl_ms));
                $target.put_with_ttl($space, key, &value.stored(operator), ttl)
            }
            Change::Delete { key, .. } => $target.delete($space, key),
            Change::DeleteRange { start, end, .. } => $target.delete_range($space, between(start, end)),
            Change::Merge { key, operand, .. } => $target.merge($space, key, &operand.stored(operator)),
        }
    }};
}

impl Change {
    /// Into a batch.
    pub fn add_to(&self, batch: &mut Batch, setting: &Setting, space: &Keyspace) -> solera::Result<()> {
        stage!(self, setting, space, batch)
    }

    /// Into a transaction.
    pub fn stage_in(
        &self,
        transaction: &mut Transaction,
        setting: &Setting,
        space: &Keyspace,
    ) -> solera::Result<()> {
        stage!(self, setting, space, transaction)
    }
}

/// What the engine did behind the calls: evidence that a life reached the rooms it was meant to
/// test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Memtables written out, over all keyspaces.
    pub flushes: u64,
    /// Compactions done.
    pub compactions: u64,
    /// Bytes appended to logs.
    pub log_bytes: u64,
}

impl Work {
    /// Adds what a database has done since it was opened.
    pub fn note(&mut self, db: &Db) {
        let stats = db.stats();
        self.add(&Work {
            flushes: stats.keyspaces.iter().map(|space| space.counters.flushes).sum(),
            compactions: stats.keyspaces.iter().map(|space| space.counters.compactions).sum(),
            log_bytes: stats.bytes_written_log,
        });
    }

    /// Adds the work of another life.
    pub fn add(&mut self, other: &Work) {
        self.flushes += other.flushes;
        self.compactions += other.compactions;
        self.log_bytes += other.log_bytes;
    }
}
