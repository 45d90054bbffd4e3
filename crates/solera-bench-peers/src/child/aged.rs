//! Phases of scans over what was overwritten and deleted: `Child::hot_scan` and `delete_scan`. Old
//! versions must be skipped, not walked.
//!
//! `hot_scan` scans 100 neighbouring keys, overwrites each a thousand times, and scans them again.
//! Its answer has both p95 latencies. `delete_scan` deletes every second key, in its first repeat;
//! then it scans 100 entries from random keys.
//!
//! What must hold: clients share the scans. The calling thread alone overwrites and deletes, and
//! that is not measured. `hot_scan` checks how many keys come; `delete_scan` checks nothing.
//!
//! Caller: `Child::measure`.

use super::{
    Child, FRESH_VALUES,
    threads::{Done, random_of, shares, together},
};
use crate::{engine::Result, phase::Measured, process};
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
        let fresh = self.scan_again(&keys)?;
        engine.put_all(&mut updates.map(|(i, key)| (*key, &self.fresh[i % FRESH_VALUES][..])))?;
        let cpu = process::cpu_seconds();
        let aged = self.scan_again(&keys)?;
        Ok(Measured {
            cpu_seconds: process::cpu_seconds() - cpu,
            fresh_p95_ns: fresh.quantiles().map(|[_, p95, ..]| p95),
            wrong: fresh.wrong + aged.wrong,
            ..aged.measured()
        })
    }

    /// Scans these keys, all that lie between the first and the last, over and over.
    fn scan_again(&self, keys: &[&[u8]]) -> Result<Done> {
        let (engine, clock, limit_ns) = (self.engine()?, &self.clock, self.limit_ns());
        let done = together(
            shares(self.task.operations / 100, self.task.threads),
            || engine.reader(),
            |share, mut reader| {
                let mut done = Done::begin_timed(clock);
                let mut touched = 0u64;
                while done.operations < share.len() as u64 && done.ns() < limit_ns {
                    let count = reader
                        .scan(keys[0], keys.len(), false, &mut |_, value| touched += value.len() as u64)?;
                    done.wrong += u64::from(count != keys.len());
                    done.lap(clock, 1);
                }
                black_box(touched);
                Ok(done)
            },
        )?;
        Done::of_all(done)
    }

    /// In the first repeat deletes every second key; the scans of every repeat start anywhere.
    pub(super) fn delete_scan(&self, repeat: usize, seed: u64) -> Result<Measured> {
        let (engine, clock, limit_ns) = (self.engine()?, &self.clock, self.limit_ns());
        let key = |rank: usize| self.set.pairs.get(self.set.sorted[rank] as usize).0;
        let n = self.set.sorted.len();
        if repeat == 0 {
            (0..n).step_by(2).try_for_each(|rank| engine.delete(key(rank)))?;
        }
        let cpu = process::cpu_seconds();
        let scans = shares(self.task.operations / 10, self.task.threads);
        let done = together(
            scans.into_iter().enumerate().collect(),
            || engine.reader(),
            |(client, share), mut reader| {
                let mut random = random_of(seed, client);
                let mut done = Done::begin_timed(clock);
                let mut touched = 0u64;
                while done.operations < share.len() as u64 && done.ns() < limit_ns {
                    reader.scan(key(random.below(n as u64) as usize), 100, false, &mut |_, value| {
                        touched += value.len() as u64
                    })?;
                    done.lap(clock, 1);
                }
                black_box(touched);
                Ok(done)
            },
        )?;
        let cpu_seconds = process::cpu_seconds() - cpu;
        Ok(Measured { cpu_seconds, ..Done::of_all(done)?.measured() })
    }
}
