//! Phases that write everything: `Child::load`, its parts, the check of what was loaded (`verify`),
//! and `overwrite`.
//!
//! `load` puts every pair into a new database, in random or in key order. `overwrite` writes every
//! key again. Clients put their shares at the same time, as far as the engine allows: LMDB and redb
//! have one writer at a time. In key order each client puts a range of keys of its own.
//!
//! What must hold: an engine settles when all clients have ended, and that is part of the time. A
//! load in key order and `overwrite` are not checked. After a load in random order every pair is
//! scanned and one in two read, as are absent keys; with direct reads, one in 64. That also warms
//! the engine.
//!
//! Callers: `Child::measure`; `fresh` and `opened`, for the parts and the check.

use super::{
    Child, FRESH_VALUES,
    mixed::HeldOut,
    reads::{PAIR, found},
    threads::{Done, shares, together},
    with_cpu,
};
use crate::{
    engine::{Asked, Engine, Result, Setting},
    engines,
    phase::{Measured, Phase},
    process,
};
use hdrhistogram::Histogram;
use solera::clock::Clock;
use solera_bench::random::Random;

/// After a load every pair is scanned, and one in so many read. That is also what an engine has to
/// become warm by: with one in eight, reads went on getting faster for many passes.
const VERIFIED_BY_READ: usize = 2;
/// One in so many where each is a read of the device.
const VERIFIED_BY_DIRECT_READ: usize = 64;

impl Child<'_> {
    /// What the engine is opened with.
    pub(super) fn setting(&self, to_scan: bool) -> Setting {
        Setting {
            directory: self.task.directory.clone(),
            memory_bytes: self.task.memory_bytes,
            data_bytes: self.set.pairs.bytes(),
            direct: self.task.direct,
            lz4: self.task.lz4,
            readers: self.task.threads.max(PAIR),
            to_scan,
            asked: Asked::default(),
        }
    }

    /// A new database in an empty directory.
    pub(super) fn new_engine(&mut self) -> Result<Box<dyn Engine>> {
        drop(self.engine.take());
        self.held_out = HeldOut::new(self.set.absent.len());
        let directory = &self.task.directory;
        if directory.exists() {
            std::fs::remove_dir_all(directory)?;
        }
        std::fs::create_dir_all(directory)?;
        process::settle_device();
        self.idle_bytes.get_or_insert_with(process::resident_bytes);
        engines::open(&self.task.engine, &self.setting(false))
    }

    /// Puts every pair once, in random or in key order, each client its share.
    pub(super) fn put_everything(&self, engine: &dyn Engine, in_key_order: bool) -> Result<Done> {
        let (clock, pairs) = (&self.clock, &self.set.pairs);
        let done = together(
            shares(pairs.len(), self.task.threads),
            || Ok(()),
            |share, ()| {
                let mut done = Done::begin_timed(clock);
                let mut watched = |pair| {
                    // Between two pairs of the load lies one write of the engine; of some, and only
                    // now and then, a transaction of many.
                    done.lap(clock, 1);
                    pair
                };
                if in_key_order {
                    let sorted = &self.set.sorted[share];
                    engine.put_all(&mut sorted.iter().map(|&i| watched(pairs.get(i as usize))))?;
                } else {
                    engine.put_all(&mut share.map(|i| watched(pairs.get(i))))?;
                }
                Ok(done)
            },
        )?;
        Done::of_all(done)
    }

    /// Loads a new database, in random or in key order, and waits until it has settled.
    pub(super) fn load(&mut self, phase: Phase) -> Result<Measured> {
        let engine = self.new_engine()?;
        let (written, cpu) = (process::written_bytes(), process::cpu_seconds());
        let done = self.put_everything(&*engine, phase == Phase::LoadSorted)?;
        engine.settle()?;
        let seconds = (self.clock.monotonic_ns() - done.start_ns) as f64 / 1e9;
        let cpu_seconds = process::cpu_seconds() - cpu;
        let bytes = self.set.pairs.bytes() as f64;
        let (index_bytes, filter_bytes) = engine.index_and_filter_bytes().unzip();
        self.engine = Some(engine);
        // Then everything is there, and every cache is warm.
        let is_used = phase == Phase::LoadRandom;
        let wrong = if is_used { self.verify()? } else { 0 };
        let measured = Measured {
            seconds,
            cpu_seconds,
            write_ns_max: done.latencies.as_ref().map(Histogram::max),
            written_per_byte: Some((process::written_bytes() - written) as f64 / bytes),
            space_per_byte: Some(process::directory_bytes(&self.task.directory)? as f64 / bytes),
            wrong,
            ..done.measured()
        };
        if !is_used {
            return Ok(measured);
        }
        let idle_bytes = self.idle_bytes.unwrap_or_default();
        let resident_bytes = Some(process::resident_bytes().saturating_sub(idle_bytes));
        Ok(Measured { resident_bytes, index_bytes, filter_bytes, ..measured })
    }

    /// Scans everything, which warms every cache, then reads one in some of the pairs and of the
    /// keys that are absent. Returns wrong answers.
    pub(super) fn verify(&self) -> Result<u64> {
        let every = if self.task.direct { VERIFIED_BY_DIRECT_READ } else { VERIFIED_BY_READ };
        let mut reader = self.engine()?.reader()?;
        let mut wrong = 0;
        let mut at = self.set.sorted.iter();
        let entries = reader.scan(b"", usize::MAX, false, &mut |key, value| {
            let expected = at.next().map(|&i| self.set.pairs.get(i as usize));
            wrong += u64::from(expected != Some((key, value)));
        })?;
        wrong += (self.set.pairs.len() as u64).abs_diff(entries as u64);
        for (key, value) in self.set.pairs.iter().step_by(every) {
            wrong += u64::from(!found(&mut *reader, key, value)?);
        }
        for (key, _) in self.set.absent.iter().step_by(every) {
            wrong += u64::from(reader.get(key, &mut |_| ())?);
        }
        Ok(wrong)
    }

    /// Writes every key again, each client its share of them.
    pub(super) fn overwrite(&self, seed: u64) -> Result<Measured> {
        let (engine, clock, pairs) = (self.engine()?, &self.clock, &self.set.pairs);
        let mut order: Vec<u32> = (0..pairs.len() as u32).collect();
        Random::new(seed).shuffle(&mut order);
        process::settle_device();
        let written = process::written_bytes();
        with_cpu(|| {
            let done = together(
                shares(order.len(), self.task.threads),
                || Ok(()),
                |share, ()| {
                    let mut done = Done::begin_timed(clock);
                    let mut bytes = 0;
                    engine.put_all(&mut share.map(|i| {
                        let pair = (pairs.get(order[i] as usize).0, &self.fresh[i % FRESH_VALUES][..]);
                        bytes += (pair.0.len() + pair.1.len()) as u64;
                        done.lap(clock, 1);
                        pair
                    }))?;
                    Ok((done, bytes))
                },
            )?;
            let (done, bytes): (Vec<Done>, Vec<u64>) = done.into_iter().unzip();
            let (done, bytes) = (Done::of_all(done)?, bytes.iter().sum::<u64>().max(1) as f64);
            engine.settle()?;
            let seconds = (self.clock.monotonic_ns() - done.start_ns) as f64 / 1e9;
            Ok(Measured {
                seconds,
                write_ns_max: done.latencies.as_ref().map(Histogram::max),
                written_per_byte: Some((process::written_bytes() - written) as f64 / bytes),
                space_per_byte: Some(process::directory_bytes(&self.task.directory)? as f64 / bytes),
                resident_bytes: self.idle_bytes.map(|idle| process::resident_bytes().saturating_sub(idle)),
                ..done.measured()
            })
        })
    }
}
