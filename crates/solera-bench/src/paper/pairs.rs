//! Two databases compared closely: both open in memory, asked the same in short turns.
//!
//! Where a cache's blocks come to lie differs from one opening to the next and moves a database's rate, so that medians of
//! five openings each still differ by some per cent where nothing else does. Turns take the machine's drift out of a ratio, and
//! the order of opening, another one in each repeat, what being first gains; what is left is in the quartiles.

use super::subject::{Ask, Effort, Stored, Subject};
use crate::{
    data::DataSet,
    measure,
    packed::Packed,
    probes::Prober,
    report::Spread,
    runner::{Progress, Result},
};
use solera::clock::SystemClock;

/// Turns of each database in a repeat.
const TURNS: usize = 40;
/// Turns that together are one pass of the effort's reads.
const TURNS_PER_PASS: usize = 20;
/// For this many reads that are timed together, another one is timed for itself.
const TIMED_OF: usize = 4;

/// What one database does beside another, in multiples of what the other does: a number per repeat.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    /// Found reads per second, uniform: the median over the turns of a repeat.
    pub reads: Spread,
    /// The 99th percentile of their latencies: the median over the turns of a repeat.
    pub p99: Spread,
}

/// What `stored` does beside `other`, which holds the same set.
pub(super) fn beside(
    stored: &Stored,
    other: &Stored,
    set: &DataSet,
    clock: &SystemClock,
    effort: Effort,
    progress: &mut dyn Progress,
) -> Result<Beside> {
    let prober = Prober::new(set, effort.seed);
    let together = effort.lookups.div_ceil(TURNS_PER_PASS);
    let size = Turn { start: 0, together, alone: together.div_ceil(TIMED_OF) };
    let stage = format!("{}: {} beside {}", set.name, stored.arm.name, other.arm.name);
    let (mut reads, mut p99) = (Vec::new(), Vec::new());
    for repeat in 0..effort.repeats {
        progress.at(&stage, repeat as u64, effort.repeats as u64);
        let probes = prober.probes(repeat, TURNS * size.reads(), 0, 1).uniform;
        let pair = if repeat % 2 == 0 {
            [stored.open_in_memory(set)?, other.open_in_memory(set)?]
        } else {
            let other = other.open_in_memory(set)?;
            [stored.open_in_memory(set)?, other]
        };
        let (mut faster, mut slower) = (Vec::new(), Vec::new());
        for turn in 0..TURNS {
            let reads = Turn { start: turn * size.reads(), ..size };
            let (mut ns, mut slow_ns) = ([0.0; 2], [0.0; 2]);
            for arm in [turn % 2, 1 - turn % 2] {
                (ns[arm], slow_ns[arm]) = reads.of(&pair[arm], set, &probes, clock)?;
            }
            faster.push(ns[1] / ns[0]);
            slower.push(slow_ns[0] / slow_ns[1]);
        }
        reads.push(Spread::of(faster).median);
        p99.push(Spread::of(slower).median);
        for subject in pair {
            subject.close()?;
        }
    }
    Ok(Beside { reads: Spread::of(reads), p99: Spread::of(p99) })
}

/// A turn's probes: those that are timed together, then those that are timed one by one. Others, because a processor's cache
/// may still hold the blocks of the first.
#[derive(Clone, Copy)]
struct Turn {
    start: usize,
    together: usize,
    alone: usize,
}

impl Turn {
    fn reads(self) -> usize {
        self.together + self.alone
    }

    /// Nanoseconds per read of the first, and the 99th percentile of the others.
    fn of(
        self,
        subject: &Subject,
        set: &DataSet,
        probes: &Packed,
        clock: &SystemClock,
    ) -> Result<(f64, f64)> {
        let (middle, end) = (self.start + self.together, self.start + self.reads());
        let right = |key: &[u8], value: &[u8]| subject.right(Ask::Found, key, value);
        let pass = measure::throughput(clock, probes, self.start..middle, u64::MAX, right)?;
        let (timed, latencies) = measure::latencies(clock, probes, middle..end, u64::MAX, right)?;
        subject.refuse_wrong(set, "reads in turns", pass.wrong + timed.wrong)?;
        Ok((pass.ns as f64 / pass.operations as f64, latencies.value_at_quantile(0.99) as f64))
    }
}
