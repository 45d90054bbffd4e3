//! Loops over operations: `throughput` and `latencies`, which are timed, and `in_turns`, which is
//! not.
//!
//! A `Pass` says what a timed loop did. The operation is a closure that says whether its answer was
//! right. `throughput` reads the clock once in 1,024 operations, `latencies` after each one, into a
//! `histogram`. `in_turns` fills the caches of several databases alike: each database takes 4,096
//! operations, then the next one does. `clock_ns` measures what one reading of the clock costs.
//!
//! What must hold: a timed loop runs each probe of its range once, and stops early when its time is
//! over. A `Pass` counts wrong answers. An operation that fails ends a loop.
//!
//! Callers: `arm`, `runner` (`in_turns` too) and `paper::subject`; `paper::{keeper, learnedkv}` for
//! `histogram`; `solera-bench-peers` for other engines.

use crate::{packed::Packed, runner::Result};
use hdrhistogram::Histogram;
use solera::clock::{Clock, SystemClock};
use std::ops::Range;

/// Operations between two looks at the clock in a throughput loop: under 0.1 ns per operation.
const CHUNK: usize = 1024;
/// Longest latency that a histogram tells apart: one minute, in nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Operations of one database before it is the next one's turn, where several are to grow into
/// memory alike: the blocks of that many reads are a few huge pages.
const TURN: usize = 4096;

/// `count` operations on each of `databases`, in turns: `op` does those of a range. For the first
/// pass over databases of one process, which fills their caches. What is put into memory first lies
/// better there: of three databases that were each read whole before the next was loaded, the last
/// answered 8 % fewer lookups and scans, whichever it was.
pub fn in_turns<D>(
    databases: &[D],
    count: usize,
    mut op: impl FnMut(usize, &D, Range<usize>) -> Result<()>,
) -> Result<()> {
    for (turn, start) in (0..count).step_by(TURN).enumerate() {
        for place in 0..databases.len() {
            let number = (turn + place) % databases.len();
            op(number, &databases[number], start..count.min(start + TURN))?;
        }
    }
    Ok(())
}

/// What a timed loop did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Operations done: all probes, or as many as fitted into the time.
    pub operations: u64,
    /// When it began, by the clock that it was given, in nanoseconds.
    pub start_ns: u64,
    /// Time taken, in nanoseconds.
    pub ns: u64,
    /// Operations whose answer was wrong.
    pub wrong: u64,
}

impl Pass {
    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        self.operations as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// Runs `op` over these of the probes, for at most `limit_ns`.
pub fn throughput(
    clock: &SystemClock,
    probes: &Packed,
    which: Range<usize>,
    limit_ns: u64,
    mut op: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<Pass> {
    let start_ns = clock.monotonic_ns();
    let mut pass = Pass { start_ns, ..Pass::default() };
    let mut at = which.start;
    while at < which.end && pass.ns < limit_ns {
        let end = (at + CHUNK).min(which.end);
        for i in at..end {
            let (key, expected) = probes.get(i);
            pass.wrong += u64::from(!op(key, expected)?);
        }
        at = end;
        pass.ns = clock.monotonic_ns() - start_ns;
    }
    pass.operations = (at - which.start) as u64;
    Ok(pass)
}

/// Runs `op` over these of the probes, for at most `limit_ns`, and records how long each took: from
/// the end of the one before, so that a latency includes one look at the clock, the check of the
/// answer and nothing else.
pub fn latencies(
    clock: &SystemClock,
    probes: &Packed,
    which: Range<usize>,
    limit_ns: u64,
    mut op: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<(Pass, Histogram<u64>)> {
    let mut histogram = histogram();
    let start_ns = clock.monotonic_ns();
    let mut pass = Pass { start_ns, ..Pass::default() };
    let mut last = start_ns;
    for (key, expected) in which.map(|i| probes.get(i)) {
        pass.wrong += u64::from(!op(key, expected)?);
        let now = clock.monotonic_ns();
        histogram.saturating_record(now - last);
        last = now;
        pass.operations += 1;
        if now - start_ns > limit_ns {
            break;
        }
    }
    pass.ns = last - start_ns;
    Ok((pass, histogram))
}

/// The cost of one look at the clock, in nanoseconds: the least of several means.
pub fn clock_ns(clock: &SystemClock) -> f64 {
    const LOOKS: u32 = 100_000;
    let mean = |_| {
        let start = clock.monotonic_ns();
        let mut last = start;
        (0..LOOKS).for_each(|_| last = std::hint::black_box(clock.monotonic_ns()));
        (last - start) as f64 / f64::from(LOOKS)
    };
    (0..5).map(mean).fold(f64::INFINITY, f64::min)
}

pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are legal")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probes(n: u32) -> Packed {
        let mut probes = Packed::default();
        (0..n).for_each(|i| probes.push(&i.to_le_bytes(), b""));
        probes
    }

    #[test]
    fn every_probe_is_run_once_and_wrong_answers_are_counted() {
        let clock = SystemClock::new();
        let probes = probes(5000);
        let mut seen = 0;
        let pass = throughput(&clock, &probes, 0..5000, u64::MAX, |key, _| {
            seen += 1;
            Ok(key[0] != 7)
        });
        let pass = pass.unwrap();
        assert_eq!((pass.operations, seen), (5000, 5000));
        assert_eq!(pass.wrong, 5000 / 256 + 1);
        let (pass, histogram) = latencies(&clock, &probes, 0..100, u64::MAX, |_, _| Ok(true)).unwrap();
        assert_eq!((pass.operations, histogram.len(), pass.wrong), (100, 100, 0));
    }

    #[test]
    fn a_part_of_the_probes_is_run_alone() {
        let clock = SystemClock::new();
        let probes = probes(5000);
        let mut seen = Vec::new();
        let mut see = |key: &[u8], _: &[u8]| {
            seen.push(u32::from_le_bytes(key.try_into().expect("keys of 4 bytes")));
            Ok(true)
        };
        let before = clock.monotonic_ns();
        let pass = throughput(&clock, &probes, 1000..3000, u64::MAX, &mut see).unwrap();
        let (timed, histogram) = latencies(&clock, &probes, 4990..5000, u64::MAX, &mut see).unwrap();
        assert!(seen.into_iter().eq((1000..3000).chain(4990..5000)));
        assert_eq!((pass.operations, timed.operations, histogram.len()), (2000, 10, 10));
        assert!(before <= pass.start_ns && pass.start_ns + pass.ns <= timed.start_ns);
    }

    #[test]
    fn a_pass_stops_when_its_time_is_over() {
        let clock = SystemClock::new();
        let pass = throughput(&clock, &probes(100_000), 0..100_000, 1, |_, _| Ok(true)).unwrap();
        assert_eq!(pass.operations, CHUNK as u64);
    }
}
