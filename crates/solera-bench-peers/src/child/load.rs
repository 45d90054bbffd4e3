//! Writing everything: loads, the check of what was loaded, and overwriting it.

use super::{Child, FRESH_VALUES, histogram, quantiles, reads::found};
use crate::{
    engine::{Result, Setting},
    engines,
    phase::{Measured, Phase},
    process,
};
use solera::clock::Clock;
use solera_bench::random::Random;

/// After a load every pair is scanned, and one in so many read: reading them all takes longer than the phases.
const VERIFIED_BY_READ: usize = 8;

impl Child<'_> {
    /// Loads a new database in an empty directory, in random or in key order.
    pub(super) fn load(&mut self, phase: Phase) -> Result<Measured> {
        drop(self.engine.take());
        self.inserted = 0;
        let directory = &self.task.directory;
        if directory.exists() {
            std::fs::remove_dir_all(directory)?;
        }
        std::fs::create_dir_all(directory)?;
        let setting = Setting {
            directory: directory.clone(),
            memory_bytes: self.task.memory_bytes,
            data_bytes: self.set.pairs.bytes(),
            direct: self.task.direct,
            lz4: self.task.lz4,
        };
        let idle_bytes = *self.idle_bytes.get_or_insert_with(process::resident_bytes);
        let engine = engines::open(&self.task.engine, &setting)?;
        let written = process::written_bytes();
        let pairs = &self.set.pairs;
        let mut writes = histogram();
        let (cpu, start) = (process::cpu_seconds(), self.clock.monotonic_ns());
        let mut last = start;
        let mut watched = |pair| {
            // Between two pairs of the load lies one write of the engine; of some, and only now and then, a
            // transaction of many.
            let now = self.clock.monotonic_ns();
            writes.saturating_record(now - last);
            last = now;
            pair
        };
        if phase == Phase::LoadSorted {
            engine.put_all(&mut self.set.sorted.iter().map(|&i| watched(pairs.get(i as usize))))?;
        } else {
            engine.put_all(&mut pairs.iter().map(&mut watched))?;
        }
        engine.settle()?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        let cpu_seconds = process::cpu_seconds() - cpu;
        let bytes = pairs.bytes() as f64;
        let (index_bytes, filter_bytes) = engine.index_and_filter_bytes().unzip();
        self.engine = Some(engine);
        if phase == Phase::LoadRandom {
            // Everything is there, and every cache is warm.
            let wrong = self.verify()?;
            return Ok(Measured {
                operations: pairs.len() as u64,
                seconds,
                cpu_seconds,
                latency_ns: Some(quantiles(&writes)),
                write_ns_max: Some(writes.max()),
                written_per_byte: Some((process::written_bytes() - written) as f64 / bytes),
                space_per_byte: Some(process::directory_bytes(directory)? as f64 / bytes),
                resident_bytes: Some(process::resident_bytes().saturating_sub(idle_bytes)),
                index_bytes,
                filter_bytes,
                wrong,
                ..Measured::default()
            });
        }
        Ok(Measured {
            operations: pairs.len() as u64,
            seconds,
            cpu_seconds,
            latency_ns: Some(quantiles(&writes)),
            write_ns_max: Some(writes.max()),
            written_per_byte: Some((process::written_bytes() - written) as f64 / bytes),
            space_per_byte: Some(process::directory_bytes(directory)? as f64 / bytes),
            ..Measured::default()
        })
    }

    /// Scans everything, which warms every cache, then reads one in [`VERIFIED_BY_READ`] of the pairs and of the
    /// keys that are absent. Returns wrong answers.
    fn verify(&self) -> Result<u64> {
        let mut reader = self.engine()?.reader()?;
        let mut wrong = 0;
        let mut at = self.set.sorted.iter();
        let entries = reader.scan(b"", usize::MAX, false, &mut |key, value| {
            let expected = at.next().map(|&i| self.set.pairs.get(i as usize));
            wrong += u64::from(expected != Some((key, value)));
        })?;
        wrong += (self.set.pairs.len() as u64).abs_diff(entries as u64);
        for (key, value) in self.set.pairs.iter().step_by(VERIFIED_BY_READ) {
            wrong += u64::from(!found(&mut *reader, key, value)?);
        }
        for (key, _) in self.set.absent.iter().step_by(VERIFIED_BY_READ) {
            wrong += u64::from(reader.get(key, &mut |_| ())?);
        }
        Ok(wrong)
    }

    pub(super) fn overwrite(&self, seed: u64) -> Result<Measured> {
        let engine = self.engine()?;
        let mut order: Vec<u32> = (0..self.set.pairs.len() as u32).collect();
        Random::new(seed).shuffle(&mut order);
        let written = process::written_bytes();
        let mut bytes = 0;
        let mut write_ns_max = 0;
        let start = self.clock.monotonic_ns();
        let mut last = start;
        engine.put_all(&mut order.iter().enumerate().map(|(i, &at)| {
            let pair = (self.set.pairs.get(at as usize).0, &self.fresh[i % FRESH_VALUES][..]);
            bytes += (pair.0.len() + pair.1.len()) as u64;
            let now = self.clock.monotonic_ns();
            write_ns_max = write_ns_max.max(now - last);
            last = now;
            pair
        }))?;
        engine.settle()?;
        let seconds = (self.clock.monotonic_ns() - start) as f64 / 1e9;
        Ok(Measured {
            operations: order.len() as u64,
            seconds,
            write_ns_max: Some(write_ns_max),
            written_per_byte: Some((process::written_bytes() - written) as f64 / bytes.max(1) as f64),
            space_per_byte: Some(
                process::directory_bytes(&self.task.directory)? as f64 / bytes.max(1) as f64,
            ),
            resident_bytes: self.idle_bytes.map(|idle| process::resident_bytes().saturating_sub(idle)),
            ..Measured::default()
        })
    }
}
