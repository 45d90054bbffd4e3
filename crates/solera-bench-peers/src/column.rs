//! The quantities that a comparison reports for each phase: `Column`, and the list `COLUMNS`.
//!
//! They are rates, latencies, processor time and counters, reads, bytes written, space and memory.
//! A column says how its value comes from a `Measured`, its unit, and whether higher is better.
//! `cells` gives one quantity's spread over the repeats, by engine; `median` gives one engine's
//! median.
//!
//! What must hold: a phase that did not measure a quantity has `None` for it, not 0. One repeat
//! without the quantity makes the engine's whole cell `None`.
//!
//! Callers: `report` prints columns and draws rates; `aim` compares medians.

use crate::{
    compare::SetResults,
    phase::{Measured, Phase},
};
use solera_bench::{Spread, report::number::Quantity};

/// A quantity of a phase.
pub struct Column {
    pub title: &'static str,
    pub quantity: Quantity,
    pub higher_is_better: bool,
    of: fn(&Measured) -> Option<f64>,
}

pub const RATE: Column = Column {
    title: "rate",
    quantity: Quantity::Rate("op"),
    higher_is_better: true,
    of: |m| (m.seconds > 0.0).then(|| m.operations as f64 / m.seconds),
};
pub const P50: Column = Column {
    title: "p50",
    quantity: Quantity::Nanoseconds,
    higher_is_better: false,
    of: |m| Some(m.latency_ns?[0] as f64),
};
pub const P95: Column = Column {
    title: "p95",
    quantity: Quantity::Nanoseconds,
    higher_is_better: false,
    of: |m| Some(m.latency_ns?[1] as f64),
};
pub const P99: Column = Column {
    title: "p99",
    quantity: Quantity::Nanoseconds,
    higher_is_better: false,
    of: |m| Some(m.latency_ns?[2] as f64),
};
pub const P999: Column = Column {
    title: "p99.9",
    quantity: Quantity::Nanoseconds,
    higher_is_better: false,
    of: |m| Some(m.latency_ns?[3] as f64),
};
pub const LONGEST_WRITE: Column = Column {
    title: "longest write",
    quantity: Quantity::Nanoseconds,
    higher_is_better: false,
    of: |m| Some(m.write_ns_max? as f64),
};
pub const PROCESSOR_TIME: Column = Column {
    title: "processor time per million",
    quantity: Quantity::Plain("s"),
    higher_is_better: false,
    of: |m| (m.cpu_seconds > 0.0).then(|| m.cpu_seconds * 1e6 / m.operations as f64),
};
pub const WRITTEN: Column = Column {
    title: "written per byte put",
    quantity: Quantity::Plain("B/B"),
    higher_is_better: false,
    of: |m| m.written_per_byte,
};
pub const SPACE: Column = Column {
    title: "space per byte",
    quantity: Quantity::Plain("B/B"),
    higher_is_better: false,
    of: |m| m.space_per_byte,
};
pub const RESIDENT: Column = Column {
    title: "resident memory",
    quantity: Quantity::Bytes,
    higher_is_better: false,
    of: |m| Some(m.resident_bytes? as f64),
};
pub const INDEXES: Column = Column {
    title: "indexes and filters",
    quantity: Quantity::Bytes,
    higher_is_better: false,
    of: |m| Some((m.index_bytes? + m.filter_bytes?) as f64),
};
pub const READ_CALLS: Column = Column {
    title: "reads of files",
    quantity: Quantity::Plain("/op"),
    higher_is_better: false,
    of: |m| Some(m.read_calls? as f64 / m.operations as f64),
};

pub const BYTES_READ: Column = Column {
    title: "bytes of the data",
    quantity: Quantity::Plain("MB/s"),
    higher_is_better: true,
    of: |m| (m.seconds > 0.0).then_some(m.bytes_read? as f64 / 1e6 / m.seconds),
};
pub const INSTRUCTIONS: Column = Column {
    title: "instructions",
    quantity: Quantity::Plain("/op"),
    higher_is_better: false,
    of: |m| Some(m.counts?[0]),
};
pub const FIRST_MISSES: Column = Column {
    title: "first-level data misses",
    quantity: Quantity::Plain("/op"),
    higher_is_better: false,
    of: |m| Some(m.counts?[1]),
};
pub const LAST_MISSES: Column = Column {
    title: "last-level data misses",
    quantity: Quantity::Plain("/op"),
    higher_is_better: false,
    of: |m| Some(m.counts?[2]),
};
pub const AGED: Column = Column {
    title: "p95 to that of the same scans before",
    quantity: Quantity::Plain(""),
    higher_is_better: false,
    of: |m| Some(m.latency_ns?[1] as f64 / m.fresh_p95_ns? as f64),
};

/// All of them, in the order in which they are told.
pub const COLUMNS: [Column; 17] = [
    RATE,
    P50,
    P95,
    P99,
    P999,
    AGED,
    LONGEST_WRITE,
    PROCESSOR_TIME,
    READ_CALLS,
    BYTES_READ,
    INSTRUCTIONS,
    FIRST_MISSES,
    LAST_MISSES,
    WRITTEN,
    SPACE,
    RESIDENT,
    INDEXES,
];

/// Of each engine that has it, the spread of this quantity in this phase.
pub fn cells<'a>(set: &'a SetResults, phase: Phase, column: &Column) -> Vec<(&'a str, Option<Spread>)> {
    set.engines.iter().map(|engine| (&engine.engine[..], spread(&engine.phases, phase, column))).collect()
}

/// The middle of what this quantity was for one engine in this phase.
pub fn median(set: &SetResults, engine: &str, phase: Phase, column: &Column) -> Option<f64> {
    let engine = set.engines.iter().find(|results| results.engine == engine)?;
    Some(spread(&engine.phases, phase, column)?.median)
}

fn spread(phases: &[(Phase, Vec<Measured>)], phase: Phase, column: &Column) -> Option<Spread> {
    let (_, repeats) = phases.iter().find(|(measured, _)| *measured == phase)?;
    let values: Option<Vec<f64>> = repeats.iter().map(column.of).collect();
    values.filter(|values| !values.is_empty()).map(Spread::of)
}
