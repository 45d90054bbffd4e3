//! Phases that read, and write nothing: `Child::{found, absent, multi_get, scans, full_scan,
//! two_threads}`.
//!
//! Of single reads (`found`, `absent`), a pass without a clock gives the rate. Another, with a
//! clock over a quarter of the probes, gives the latencies. `multi_get` and `scans` have both from
//! one pass; `full_scan` and `two_threads` have no latencies.
//!
//! What must hold: clients share the probes, each with a reader of its own. Full scans are of one
//! client, `two_threads` of two. Each phase counts wrong answers; of scans it checks the last key,
//! of full scans the number and bytes.
//!
//! Callers: `Child::measure`; `fresh` (`found`, `scans`), `opened` (`full_scan`), `load` (one
//! read).

use super::{
    Child,
    threads::{Done, shares, together},
    with_cpu,
};
use crate::{
    engine::{Reader, Result},
    phase::Measured,
    process,
};
use solera::clock::Clock;
use solera_bench::{measure, packed::Packed};
use std::{hint::black_box, ops::Range};

/// Keys of one [`Phase::MultiGet`](crate::phase::Phase::MultiGet) call.
const MULTI_GET_KEYS: usize = 64;
/// Clients of [`Phase::TwoThreads`](crate::phase::Phase::TwoThreads).
pub(super) const PAIR: usize = 2;

impl Child<'_> {
    pub(super) fn found(&self, probes: &Packed) -> Result<Measured> {
        self.reads(probes, found)
    }

    pub(super) fn absent(&self, probes: &Packed) -> Result<Measured> {
        self.reads(probes, |reader, key, _| Ok(!reader.get(key, &mut |_| ())?))
    }

    /// A pass without a clock for the rate, and one with a clock over a quarter of the probes.
    fn reads(
        &self,
        probes: &Packed,
        read: impl Fn(&mut dyn Reader, &[u8], &[u8]) -> Result<bool> + Sync,
    ) -> Result<Measured> {
        let clients = self.task.threads;
        let (cpu, calls) = (process::cpu_seconds(), process::read_calls());
        let pass = self.pass(probes, shares(probes.len(), clients), false, &read)?;
        let cpu_seconds = process::cpu_seconds() - cpu;
        let calls = process::read_calls() - calls;
        let timed = self.pass(probes, shares(probes.len().div_ceil(4), clients), true, &read)?;
        Ok(Measured {
            cpu_seconds,
            latency_ns: timed.quantiles(),
            read_calls: Some(calls),
            timed_operations: timed.operations,
            wrong: pass.wrong + timed.wrong,
            ..pass.measured()
        })
    }

    /// Each share of the probes is read by a client.
    fn pass(
        &self,
        probes: &Packed,
        shares: Vec<Range<usize>>,
        timed: bool,
        read: &(impl Fn(&mut dyn Reader, &[u8], &[u8]) -> Result<bool> + Sync),
    ) -> Result<Done> {
        let (engine, clock, limit_ns) = (self.engine()?, &self.clock, self.limit_ns());
        let done = together(
            shares,
            || engine.reader(),
            |share, mut reader| {
                let mut failed = None;
                let mut read = |key: &[u8], value: &[u8]| -> solera_bench::Result<bool> {
                    Ok(read(&mut *reader, key, value).unwrap_or_else(|error| {
                        failed = Some(error);
                        false
                    }))
                };
                let done = if timed {
                    let (pass, latencies) = measure::latencies(clock, probes, share, limit_ns, &mut read)?;
                    Done::of(pass, Some(latencies))
                } else {
                    Done::of(measure::throughput(clock, probes, share, limit_ns, &mut read)?, None)
                };
                failed.map_or(Ok(done), Err)
            },
        )?;
        Done::of_all(done)
    }

    pub(super) fn two_threads(&self, probes: &Packed) -> Result<Measured> {
        with_cpu(|| Ok(self.pass(probes, shares(probes.len(), PAIR), false, &found)?.measured()))
    }

    /// A client has its share of the calls.
    pub(super) fn multi_get(&self, probes: &Packed) -> Result<Measured> {
        let (engine, clock, limit_ns) = (self.engine()?, &self.clock, self.limit_ns());
        let all: Vec<_> = probes.iter().collect();
        with_cpu(|| {
            let done = together(
                shares(all.len() / MULTI_GET_KEYS, self.task.threads),
                || engine.reader(),
                |share, mut reader| {
                    let mut done = Done::begin_timed(clock);
                    let mut right = 0;
                    let share = &all[share.start * MULTI_GET_KEYS..share.end * MULTI_GET_KEYS];
                    for group in share.chunks_exact(MULTI_GET_KEYS) {
                        let keys: Vec<&[u8]> = group.iter().map(|(key, _)| *key).collect();
                        reader.multi_get(&keys, &mut |i, value| right += u64::from(value == group[i].1))?;
                        done.lap(clock, MULTI_GET_KEYS as u64);
                        if done.ns() > limit_ns {
                            break;
                        }
                    }
                    done.wrong = done.operations - right;
                    Ok(done)
                },
            )?;
            Ok(Done::of_all(done)?.measured())
        })
    }

    /// Each probe is the first key of a scan and the last key that it must see.
    pub(super) fn scans(&self, probes: &Packed, entries: usize) -> Result<Measured> {
        let (engine, clock, limit_ns) = (self.engine()?, &self.clock, self.limit_ns());
        with_cpu(|| {
            let done = together(
                shares(probes.len(), self.task.threads),
                || engine.reader(),
                |share, mut reader| {
                    let mut failed = None;
                    let mut last = Vec::new();
                    let mut touched = 0u64;
                    let (pass, latencies) =
                        measure::latencies(clock, probes, share, limit_ns, |from, expected| {
                            let scanned = reader.scan(from, entries, false, &mut |key, value| {
                                touched += value.last().copied().map_or(0, u64::from);
                                last.clear();
                                last.extend_from_slice(key);
                            });
                            if let Err(error) = scanned {
                                failed = Some(error);
                            }
                            Ok(last == expected)
                        })?;
                    black_box(touched);
                    failed.map_or(Ok(Done::of(pass, Some(latencies))), Err)
                },
            )?;
            Ok(Done::of_all(done)?.measured())
        })
    }

    pub(super) fn full_scan(&self, backwards: bool) -> Result<Measured> {
        with_cpu(|| {
            let mut reader = self.engine()?.reader()?;
            let (mut bytes, mut touched) = (0, 0u64);
            let start = self.clock.monotonic_ns();
            let operations = reader.scan(b"", usize::MAX, backwards, &mut |key, value| {
                bytes += (key.len() + value.len()) as u64;
                touched += value.last().copied().map_or(0, u64::from);
            })? as u64;
            black_box(touched);
            let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
            let right = (operations, bytes) == (self.set.pairs.len() as u64, self.set.pairs.bytes());
            let bytes_read = Some(bytes);
            Ok(Measured { operations, seconds, bytes_read, wrong: u64::from(!right), ..Measured::default() })
        })
    }
}

#[inline]
pub(super) fn found(reader: &mut dyn Reader, key: &[u8], expected: &[u8]) -> Result<bool> {
    let mut right = false;
    reader.get(key, &mut |value| right = value == expected)?;
    Ok(right)
}
