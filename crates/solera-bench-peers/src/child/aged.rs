//! Scans over what was overwritten and deleted: old versions must be skipped, not walked.

use super::{Child, FRESH_VALUES, histogram, quantiles};
use crate::{engine::Result, phase::Measured, process};
use hdrhistogram::Histogram;
use solera::clock::Clock;
use solera_bench::random::Random;
use std::hint::black_box;

impl Child<'_> {
    /// Old versions must be skipped, not walked.
    pub(super) fn hot_scan(&self, seed: u64) -> Result<Measured> {
        const HOT: usize = 100;
        const TIMES: usize = 1000;
        let engine = self.engine()?;
        let n = self.set.sorted.len();
        let hot = HOT.min(n);
        let first = Random::new(seed).below((n - hot) as u64 + 1) as usize;
        let keys: Vec<&[u8]> =
            self.set.sorted[first..first + hot].iter().map(|&i| self.set.pairs.get(i as usize).0).collect();
        let updates =
            (0..TIMES).flat_map(|time| keys.iter().enumerate().map(move |(i, key)| (time + i, key)));
        let (_, fresh, _) = self.scan_again(&keys)?;
        engine.put_all(&mut updates.map(|(i, key)| (*key, &self.fresh[i % FRESH_VALUES][..])))?;
        let cpu = process::cpu_seconds();
        let (seconds, aged, wrong) = self.scan_again(&keys)?;
        Ok(Measured {
            operations: aged.len(),
            seconds,
            cpu_seconds: process::cpu_seconds() - cpu,
            latency_ns: Some(quantiles(&aged)),
            fresh_p95_ns: Some(quantiles(&fresh)[1]),
            wrong,
            ..Measured::default()
        })
    }

    /// Scans these keys, all that lie between the first and the last, over and over. Returns seconds, latencies and
    /// wrong answers.
    fn scan_again(&self, keys: &[&[u8]]) -> Result<(f64, Histogram<u64>, u64)> {
        let mut reader = self.engine()?.reader()?;
        let mut histogram = histogram();
        let (mut touched, mut wrong) = (0u64, 0);
        let start = self.clock.monotonic_ns();
        let mut last = start;
        while histogram.len() < (self.task.operations / 100) as u64 && last - start < self.limit_ns() {
            let count =
                reader.scan(keys[0], keys.len(), false, &mut |_, value| touched += value.len() as u64)?;
            wrong += u64::from(count != keys.len());
            let now = self.clock.monotonic_ns();
            histogram.saturating_record(now - last);
            last = now;
        }
        black_box(touched);
        Ok(((last - start) as f64 / 1e9, histogram, wrong))
    }

    /// In the first repeat deletes every second key; the scans of every repeat start anywhere.
    pub(super) fn delete_scan(&self, repeat: usize, seed: u64) -> Result<Measured> {
        let engine = self.engine()?;
        let key = |rank: usize| self.set.pairs.get(self.set.sorted[rank] as usize).0;
        let n = self.set.sorted.len();
        if repeat == 0 {
            (0..n).step_by(2).try_for_each(|rank| engine.delete(key(rank)))?;
        }
        let mut reader = engine.reader()?;
        let mut random = Random::new(seed);
        let mut histogram = histogram();
        let (mut touched, mut operations) = (0u64, 0);
        let cpu = process::cpu_seconds();
        let start = self.clock.monotonic_ns();
        let mut last = start;
        while operations < (self.task.operations / 10) as u64 && last - start < self.limit_ns() {
            reader.scan(key(random.below(n as u64) as usize), 100, false, &mut |_, value| {
                touched += value.len() as u64
            })?;
            operations += 1;
            let now = self.clock.monotonic_ns();
            histogram.saturating_record(now - last);
            last = now;
        }
        black_box(touched);
        Ok(Measured {
            operations,
            seconds: (last - start) as f64 / 1e9,
            cpu_seconds: process::cpu_seconds() - cpu,
            latency_ns: Some(quantiles(&histogram)),
            ..Measured::default()
        })
    }
}
