//! The timed loops. Plain functions over plain data; the operation comes in as a closure and says whether
//! its answer was right.

use crate::{packed::Packed, runner::Result};
use hdrhistogram::Histogram;
use solera::clock::{Clock, SystemClock};

/// Operations between two looks at the clock in a throughput loop: under 0.1 ns per operation.
const CHUNK: usize = 1024;
/// Longest latency that a histogram tells apart: one minute, in nanoseconds.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// What a timed loop did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Operations done: all probes, or as many as fitted into the time.
    pub operations: u64,
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

/// Runs `op` over the probes, for at most `limit_ns`.
pub fn throughput(
    clock: &SystemClock,
    probes: &Packed,
    limit_ns: u64,
    mut op: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<Pass> {
    let mut pass = Pass::default();
    let start = clock.monotonic_ns();
    let mut at = 0;
    while at < probes.len() && pass.ns < limit_ns {
        let end = (at + CHUNK).min(probes.len());
        for i in at..end {
            let (key, expected) = probes.get(i);
            pass.wrong += u64::from(!op(key, expected)?);
        }
        at = end;
        pass.ns = clock.monotonic_ns() - start;
    }
    pass.operations = at as u64;
    Ok(pass)
}

/// Runs `op` over the first `count` probes, for at most `limit_ns`, and records how long each took: from the
/// end of the one before, so that a latency includes one look at the clock, the check of the answer and
/// nothing else.
pub fn latencies(
    clock: &SystemClock,
    probes: &Packed,
    count: usize,
    limit_ns: u64,
    mut op: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<(Pass, Histogram<u64>)> {
    let mut histogram = histogram();
    let mut pass = Pass::default();
    let start = clock.monotonic_ns();
    let mut last = start;
    for (key, expected) in probes.iter().take(count) {
        pass.wrong += u64::from(!op(key, expected)?);
        let now = clock.monotonic_ns();
        histogram.saturating_record(now - last);
        last = now;
        pass.operations += 1;
        if now - start > limit_ns {
            break;
        }
    }
    pass.ns = last - start;
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

fn histogram() -> Histogram<u64> {
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
        let pass = throughput(&clock, &probes, u64::MAX, |key, _| {
            seen += 1;
            Ok(key[0] != 7)
        });
        let pass = pass.unwrap();
        assert_eq!((pass.operations, seen), (5000, 5000));
        assert_eq!(pass.wrong, 5000 / 256 + 1);
        let (pass, histogram) = latencies(&clock, &probes, 100, u64::MAX, |_, _| Ok(true)).unwrap();
        assert_eq!((pass.operations, histogram.len(), pass.wrong), (100, 100, 0));
    }

    #[test]
    fn a_pass_stops_when_its_time_is_over() {
        let clock = SystemClock::new();
        let pass = throughput(&clock, &probes(100_000), 1, |_, _| Ok(true)).unwrap();
        assert_eq!(pass.operations, CHUNK as u64);
    }
}
