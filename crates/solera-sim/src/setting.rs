//! The options that a simulated database is opened with, as plain data: `Setting`, of
//! `SpaceSetting`s and `Operator`s.
//!
//! `random` draws tiny blocks, memtables and tables, and any shape, so that a short life has many
//! of them. `change` draws anew what an open may change: memory, reclaiming, and the default
//! keyspace.
//!
//! What must hold: it prints and reads back. A setting may change how fast an answer comes, never
//! the answer: so one script under two settings gives one transcript. An exception is a transaction
//! that conflicts because a value was rewritten.
//! Callers: `script::generate`, `life`, `crash`, `faults`, `image`, the programs and the fuzz
//! targets; `oracle` uses `Operator`; `tell` makes options of it.

use crate::{
    random::Random,
    script::text::{Text, Words, record},
};
use solera::{Compression, FilterKind, FilterSpread, IndexKind, Reclaim};
use std::{fmt, str::FromStr};

/// Which merge operator a keyspace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// None: merging is an error.
    None,
    /// `counter`
    Counter,
    /// `append`
    Append,
    /// `max`
    Max,
}

impl Operator {
    /// Every operator.
    pub const ALL: [Operator; 4] = [Operator::None, Operator::Counter, Operator::Append, Operator::Max];

    /// Its name in the engine, where it has one there.
    pub fn name(self) -> &'static str {
        match self {
            Operator::None => "none",
            Operator::Counter => "counter",
            Operator::Append => "append",
            Operator::Max => "max",
        }
    }
}

/// Text forms by the engine's own names.
macro_rules! named {
    ($($type:ty: $all:expr),*) => {$(
        impl Text for $type {
            fn write(&self, out: &mut String) {
                out.push_str(self.name());
            }
            fn read(words: &mut Words<'_>) -> Result<Self, String> {
                let word = words.word()?;
                $all.into_iter().find(|one: &$type| one.name() == word).ok_or_else(|| format!("{word:?} is no {}", stringify!($type)))
            }
        }
    )*};
}
named!(
    Operator: Operator::ALL,
    IndexKind: IndexKind::ALL,
    Compression: Compression::ALL,
    FilterSpread: FilterSpread::ALL,
    FilterKind: FilterKind::ALL,
    Reclaim: Reclaim::ALL
);

record! {
    /// How one keyspace is set up.
    SpaceSetting {
        /// Merge operator.
        operator: Operator,
        /// Index kind.
        index: IndexKind,
        /// Compression of blocks.
        compression: Compression,
        /// Target size of a block, bytes.
        block_bytes: u32,
        /// Error bound of lines, entries.
        epsilon: u32,
        /// Filter bits per key; 0 for none.
        filter_bits: u32,
        /// How levels share them.
        filter_spread: FilterSpread,
        /// Kind of filters at the last level.
        last_filter: FilterKind,
        /// T.
        size_ratio: u32,
        /// K_i; the last repeats.
        run_limits: Vec<u32>,
        /// Target size of a table, bytes.
        table_bytes: u32,
        /// Values of so many bytes and more are kept apart; 0 for none.
        separate_from: u32,
    }
}

record! {
    /// How a database is set up.
    Setting {
        /// Memory budget, bytes.
        memory_bytes: u64,
        /// Size at which a memtable is sealed, bytes.
        write_buffer_bytes: u64,
        /// Whether every commit is durable before it returns.
        sync: bool,
        /// How the space of values that are kept apart is given back.
        reclaim: Reclaim,
        /// How much of it may be of no use, percent of what is.
        spare_percent: u32,
        /// The keyspaces; the first is the default one.
        spaces: Vec<SpaceSetting>,
    }
}

impl Setting {
    /// The name of the keyspace in a slot.
    pub fn space_name(&self, slot: usize) -> String {
        if slot == 0 { "default".to_owned() } else { format!("space{slot}") }
    }

    /// A random setting: tiny blocks, memtables and tables, so that a short life has many of them,
    /// and any shape from leveling to tiering.
    pub fn random(random: &mut Random) -> Setting {
        let operators = [Operator::None, Operator::Counter, Operator::Append, Operator::Max];
        let mut setting = Setting {
            memory_bytes: 0,
            write_buffer_bytes: 0,
            sync: random.one_in(4),
            reclaim: Reclaim::default(),
            spare_percent: 0,
            spaces: operators.map(|operator| SpaceSetting::random(random, operator)).to_vec(),
        };
        setting.change(random);
        setting
    }

    /// Draws anew what an open may change: memory, how values are reclaimed, and layout and shape
    /// of the default keyspace.
    pub fn change(&mut self, random: &mut Random) {
        self.memory_bytes = *random.pick(&[1 << 20, 4 << 20, 64 << 20]);
        self.write_buffer_bytes = *random.pick(&[4 << 10, 4 << 10, 8 << 10, 32 << 10]);
        self.spaces[0] = SpaceSetting::random(random, self.spaces[0].operator);
        self.reclaim = *random.pick(&[Reclaim::Tier, Reclaim::Tier, Reclaim::Rewrite, Reclaim::LearnedKv]);
        self.spare_percent = *random.pick(&[1, 5, 30]);
    }
}

impl SpaceSetting {
    /// A random keyspace with this operator.
    pub fn random(random: &mut Random, operator: Operator) -> SpaceSetting {
        let available: Vec<Compression> = Compression::ALL.into_iter().filter(|c| c.available()).collect();
        let size_ratio = random.between(2, 10) as u32;
        let levels = random.between(1, 4);
        SpaceSetting {
            operator,
            index: *random.pick(&IndexKind::ALL),
            compression: *random.pick(&available),
            block_bytes: *random.pick(&[256, 256, 300, 512, 1024, 4096]),
            epsilon: *random.pick(&[1, 2, 4, 16, 64]),
            filter_bits: *random.pick(&[0, 1, 4, 10, 10]),
            filter_spread: *random.pick(&FilterSpread::ALL),
            last_filter: *random.pick(&FilterKind::ALL),
            size_ratio,
            run_limits: (0..levels).map(|_| random.between(1, size_ratio.into()) as u32).collect(),
            table_bytes: *random.pick(&[1 << 10, 2 << 10, 8 << 10, 64 << 10]),
            separate_from: *random.pick(&[0, 0, 1, 16, 100]),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        self.write(&mut line);
        f.write_str(&line)
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        Setting::read(&mut Words::new(line))
    }
}
