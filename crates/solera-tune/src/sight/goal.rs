//! What a database is to be good at: `Goal`, one `Objective` of a window that is to be small,
//! others under bounds.
//!
//! `cost` is what a window cost for one operation, `mean_ns` its mean time, `broken` names the
//! bound that it breaks. `Measure` says how the mean time is had.
//!
//! What must hold: a window that does not tell has no cost: one without operations, or without
//! samples where times are sampled. Each objective's name comes back from its text.
//!
//! Callers: users and the command line's `--tune` give one to `Attach`, as do `solera-sim` and
//! `solera-bench`. The coordinator judges by it, and keeps it in journals. `agent::lerp`, the
//! steward, and the opponents `arms` and `search` price by it. `solera explain` names its
//! objective.

use super::window::Window;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// What is to be small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Mean time of an operation.
    #[default]
    MeanTime,
    /// The 99th percentile of the times of operations.
    P99,
    /// The median of the times of operations.
    P50,
    /// Blocks and values read by lookups and scans, and blocks' worth of bytes that flushes and
    /// merges read and write, per operation (CAMAL's first objective).
    Blocks,
    /// Bytes written by flushes and merges for every operation: wear of a device (CAMAL's write
    /// amplification).
    BytesWritten,
    /// Mean time multiplied by the bytes of all tables, so that half the space is worth half the
    /// time (CAMAL's space objective).
    TimeAndSpace,
}

impl Objective {
    /// All of them, with the names that users write.
    pub const ALL: [(&'static str, Objective); 6] = [
        ("mean-time", Objective::MeanTime),
        ("p99", Objective::P99),
        ("p50", Objective::P50),
        ("blocks", Objective::Blocks),
        ("bytes-written", Objective::BytesWritten),
        ("time-and-space", Objective::TimeAndSpace),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Objective::ALL.iter().find(|(_, objective)| *objective == self).expect("all are listed").0
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(name: &str) -> Result<Objective, String> {
        let found = Objective::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, objective)| *objective).ok_or_else(|| {
            let names: Vec<&str> = Objective::ALL.iter().map(|(name, _)| *name).collect();
            format!("there is no objective {name:?}; there are {}", names.join(", "))
        })
    }
}

/// How the mean time of an operation is had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// From the operations that the engine times, one in 128: right whatever the program does
    /// between them. What background threads do counts as far as it makes operations slower.
    #[default]
    Sampled,
    /// The time of the window over its operations: exact where one thread does nothing else, as in
    /// a load, a replay or an experiment.
    Elapsed,
}

/// What to minimise, and under which bounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// What is to be small.
    pub objective: Objective,
    /// How times are had.
    pub measure: Measure,
    /// Bytes that all tables may take.
    pub space_bytes_max: Option<u64>,
    /// What the 99th percentile of times may be, in nanoseconds.
    pub p99_ns_max: Option<u64>,
}

impl Goal {
    /// What `window` cost, for one operation: nanoseconds, blocks or bytes, as the objective says.
    /// `None` if the window does not tell.
    pub fn cost(&self, window: &Window) -> Option<f64> {
        let operations = window.operations.total() as f64;
        if operations == 0.0 {
            return None;
        }
        let cost = match self.objective {
            Objective::MeanTime => self.mean_ns(window)?,
            Objective::P99 if window.samples > 0 => window.p99_ns as f64,
            Objective::P50 if window.samples > 0 => window.p50_ns as f64,
            Objective::P99 | Objective::P50 => return None,
            Objective::Blocks => blocks(window) / operations,
            Objective::BytesWritten => (window.bytes_flushed + window.bytes_compacted) as f64 / operations,
            Objective::TimeAndSpace => self.mean_ns(window)? * window.data_bytes().max(1) as f64,
        };
        cost.is_finite().then_some(cost)
    }

    /// Nanoseconds of an operation, in the mean.
    pub fn mean_ns(&self, window: &Window) -> Option<f64> {
        let operations = window.operations.total();
        match self.measure {
            Measure::Elapsed => (operations > 0).then(|| window.elapsed_ns as f64 / operations as f64),
            Measure::Sampled => {
                let of = &window.operations;
                let counts = [of.absent, of.found, of.scans, window.write_calls];
                let times = counts.iter().zip(window.mean_ns);
                let sum: f64 = times.map(|(count, ns)| *count as f64 * ns).sum();
                (window.samples > 0 && operations > 0).then(|| sum / operations as f64)
            }
        }
    }

    /// Which bound `window` breaks, in words.
    pub fn broken(&self, window: &Window) -> Option<String> {
        if let Some(max) = self.space_bytes_max.filter(|max| window.data_bytes() > *max) {
            return Some(format!("tables and values take {} bytes; the bound is {max}", window.data_bytes()));
        }
        let p99 = self.p99_ns_max.filter(|max| window.samples > 0 && window.p99_ns > *max);
        p99.map(|max| format!("the 99th percentile is {} ns; the bound is {max}", window.p99_ns))
    }
}

/// Blocks and values read by lookups and scans, and blocks' worth of bytes that flushes and merges
/// moved.
fn blocks(window: &Window) -> f64 {
    let block = window.number("block_bytes", None).unwrap_or(4096.0).max(1.0);
    let merged: u64 = window.levels.iter().map(|level| level.bytes_in + level.bytes_out).sum();
    (window.blocks_read + window.value_reads) as f64 + merged as f64 / block
}
