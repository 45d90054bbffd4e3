//! Phases that read and write nothing: single reads, many at a time, and scans.

use super::{Child, histogram, quantiles};
use crate::{
    engine::{Reader, Result},
    phase::Measured,
    process,
};
use solera::clock::Clock;
use solera_bench::{measure, packed::Packed};
use std::hint::black_box;

/// Keys of one [`Phase::MultiGet`](crate::phase::Phase::MultiGet) call.
const MULTI_GET_KEYS: usize = 64;

impl Child<'_> {
    pub(super) fn found(&self, probes: &Packed) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        self.reads(probes, |key, value| found(&mut *reader, key, value))
    }

    pub(super) fn absent(&self, probes: &Packed) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        self.reads(probes, |key, _| Ok(!reader.get(key, &mut |_| ())?))
    }

    /// A pass without a clock for the rate, and one with a clock over a quarter of the probes.
    fn reads(&self, probes: &Packed, mut read: impl FnMut(&[u8], &[u8]) -> Result<bool>) -> Result<Measured> {
        let mut failed = None;
        let mut read = |key: &[u8], value: &[u8]| -> solera_bench::Result<bool> {
            Ok(read(key, value).unwrap_or_else(|error| {
                failed = Some(error);
                false
            }))
        };
        let (cpu, calls) = (process::cpu_seconds(), process::read_calls());
        let pass = measure::throughput(&self.clock, probes, 0..probes.len(), self.limit_ns(), &mut read)?;
        let cpu_seconds = process::cpu_seconds() - cpu;
        let calls = process::read_calls() - calls;
        let (timed, histogram) =
            measure::latencies(&self.clock, probes, 0..probes.len().div_ceil(4), self.limit_ns(), &mut read)?;
        failed.map_or(Ok(()), Err)?;
        Ok(Measured {
            operations: pass.operations,
            seconds: pass.ns as f64 / 1e9,
            cpu_seconds,
            latency_ns: Some(quantiles(&histogram)),
            // Only where each is a read of the device.
            read_calls: self.task.direct.then_some(calls),
            timed_operations: timed.operations,
            wrong: pass.wrong + timed.wrong,
            ..Measured::default()
        })
    }

    pub(super) fn multi_get(&self, probes: &Packed) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        let mut histogram = histogram();
        let (mut operations, mut right) = (0, 0);
        let all: Vec<_> = probes.iter().collect();
        let start = self.clock.monotonic_ns();
        let mut last = start;
        for group in all.chunks_exact(MULTI_GET_KEYS) {
            let keys: Vec<&[u8]> = group.iter().map(|(key, _)| *key).collect();
            reader.multi_get(&keys, &mut |i, value| right += u64::from(value == group[i].1))?;
            operations += MULTI_GET_KEYS as u64;
            let now = self.clock.monotonic_ns();
            histogram.saturating_record(now - last);
            last = now;
            if now - start > self.limit_ns() {
                break;
            }
        }
        Ok(Measured {
            operations,
            seconds: (last - start) as f64 / 1e9,
            latency_ns: Some(quantiles(&histogram)),
            wrong: operations - right,
            ..Measured::default()
        })
    }

    /// Each probe is the first key of a scan and the last key that it must see.
    pub(super) fn scans(&self, probes: &Packed, entries: usize) -> Result<Measured> {
        let mut reader = self.engine()?.reader()?;
        let mut failed = None;
        let mut last = Vec::new();
        let mut touched = 0u64;
        let (pass, histogram) =
            measure::latencies(&self.clock, probes, 0..probes.len(), self.limit_ns(), |from, expected| {
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
        failed.map_or(Ok(()), Err)?;
        Ok(Measured {
            operations: pass.operations,
            seconds: pass.ns as f64 / 1e9,
            latency_ns: Some(quantiles(&histogram)),
            wrong: pass.wrong,
            ..Measured::default()
        })
    }

    pub(super) fn full_scan(&self, backwards: bool) -> Result<Measured> {
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
        Ok(Measured { operations, seconds, wrong: u64::from(!right), ..Measured::default() })
    }

    pub(super) fn two_threads(&self, probes: &Packed) -> Result<Measured> {
        let engine = self.engine()?;
        let all: Vec<_> = probes.iter().collect();
        let start = self.clock.monotonic_ns();
        let halves = std::thread::scope(|scope| {
            let threads: Vec<_> = all
                .chunks(all.len().div_ceil(2))
                .map(|half| {
                    scope.spawn(move || -> Result<u64> {
                        let mut reader = engine.reader()?;
                        let mut wrong = 0;
                        for (key, value) in half {
                            wrong += u64::from(!found(&mut *reader, key, value)?);
                        }
                        Ok(wrong)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a reading thread panicked")?)
                .collect::<Result<Vec<_>>>()
        })?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        Ok(Measured {
            operations: all.len() as u64,
            seconds,
            wrong: halves.iter().sum(),
            ..Measured::default()
        })
    }
}

#[inline]
pub(super) fn found(reader: &mut dyn Reader, key: &[u8], expected: &[u8]) -> Result<bool> {
    let mut right = false;
    reader.get(key, &mut |value| right = value == expected)?;
    Ok(right)
}
