//! Where choices of CAMAL's knobs are measured: `Lab`, data of one size and its memory.
//!
//! `sample` measures what a `Sampler` asks for, `costs` what choices take under mixes. A sample is
//! a database that was loaded with the choice and does operations of the mix, with overwrites
//! between.
//!
//! What must hold: a sample's time, loading included, is sampling time. A tree that was loaded for
//! one mix is forked for the next; its loading counts each time, as if it had not been kept.
//!
//! Callers: `paper::camal_learned` and `paper::camal_dynamic`.

use super::{
    Scale,
    camal::{ENTRY_BYTES, LEVEL0_RUNS, PerOperation, SCAN_ENTRIES, table_bytes},
    missions::{Measured, Site, Tenant},
};
use crate::runner::{Error, Progress, Result};
use solera::Shape;
use solera_tune::{
    agent::camal::{Knobs, Sampler, Space},
    cost::{Data, Mix, Setting},
};
use std::collections::{HashMap, VecDeque};

/// Slices in which a choice does operations, with overwrites between them.
const SLICES: u64 = 4;
/// Of a sample's operations, how many overwrites come between slices at least: rare writes have a
/// price too.
const OVERWRITES_SHARE: u64 = 4;
/// Largest T that is sampled.
const RATIO_MAX: u32 = 32;
/// Smallest write buffer, of the memory: at 12.8 bits per key it leaves 10 bits for filters, the
/// most that the authors' code tries.
pub(super) const BUFFER_SHARE_MIN: f64 = 0.2;
/// Loaded trees that are kept, in bytes of their data.
const KEPT_BYTES: f64 = 4e9;

/// A tree that was loaded.
struct Loaded {
    key: String,
    tenant: Tenant,
    seconds: f64,
}

/// What choices cost, and what it took to know.
pub(super) struct Lab<'a> {
    pub(super) scale: &'a Scale,
    pub(super) site: Site,
    pub(super) space: Space,
    pub(super) operations: u64,
    /// By mix and choice: microseconds of an operation, and seconds of sampling.
    known: HashMap<String, (f64, f64)>,
    /// The newest last.
    loaded: VecDeque<Loaded>,
}

impl<'a> Lab<'a> {
    /// `memory_bits` per key are for write buffer and filters together.
    pub(super) fn new(scale: &'a Scale, entries: f64, memory_bits: f64, operations: u64) -> Result<Lab<'a>> {
        let data =
            Data { entries, entry_bytes: ENTRY_BYTES, block_bytes: 4096.0, scan_entries: SCAN_ENTRIES };
        let space = Space {
            entries,
            entry_bytes: ENTRY_BYTES,
            block_entries: data.block_entries(),
            scan_entries: SCAN_ENTRIES,
            memory_bytes: entries * memory_bits / 8.0,
            buffer_share_min: BUFFER_SHARE_MIN,
            ratio_max: RATIO_MAX,
        };
        let mut site = Site::new(data, scale)?;
        // Four write buffers of all that there is to share out.
        site.memory_least = site.memory_least.max((4.0 * space.memory_bytes).ceil() as u64);
        Ok(Lab { scale, site, space, operations, known: HashMap::new(), loaded: VecDeque::new() })
    }

    /// The setting of a choice.
    pub(super) fn setting(&self, knobs: &Knobs) -> Setting {
        let shape = Shape {
            size_ratio: knobs.size_ratio,
            run_limits: vec![LEVEL0_RUNS, knobs.runs],
            write_buffer_bytes: self.space.buffer_bytes(knobs) as u64,
            table_bytes: table_bytes(self.space.memory_bytes),
        };
        Setting { shape, filter_bits: knobs.filter_bits, monkey: true, cache_bytes: 0.0 }
    }

    /// A database that was just loaded, and the seconds that loading takes.
    pub(super) fn tenant(&mut self, setting: &Setting) -> Result<(Tenant, f64)> {
        let key = key(setting);
        let found = match self.loaded.iter().position(|loaded| loaded.key == key) {
            Some(at) => self.loaded.remove(at).expect("it is there"),
            None => {
                let begin = self.site.clock.monotonic_ns();
                let tenant = Tenant::loaded(&self.site, setting, |_, _| ())?;
                let seconds = (self.site.clock.monotonic_ns() - begin) as f64 / 1e9;
                Loaded { key, tenant, seconds }
            }
        };
        let fork = (found.tenant.fork()?, found.seconds);
        self.loaded.push_back(found);
        let most = (KEPT_BYTES / (self.space.entries * self.space.entry_bytes)) as usize;
        while self.loaded.len() > most.max(1) {
            self.loaded.pop_front();
        }
        Ok(fork)
    }

    /// Gives back the memory of loaded trees.
    pub(super) fn forget_trees(&mut self) {
        self.loaded.clear();
    }

    /// Microseconds of an operation, and the seconds that it takes to know.
    pub(super) fn cost(&mut self, mix: &Mix, setting: &Setting) -> Result<(f64, f64)> {
        let name = format!("{mix} {}", key(setting));
        if let Some(known) = self.known.get(&name) {
            return Ok(*known);
        }
        let (mut tenant, loading) = self.tenant(setting)?;
        let clock = self.site.clock.clone();
        let begin = clock.monotonic_ns();
        let overwriting = Mix::new([0.0, 0.0, 0.0, 100.0]).map_err(Error::Config)?;
        let (mut slices, mut overwrites) = (Measured::default(), Measured::default());
        let writes = tenant.level0_cycle().max(self.operations / OVERWRITES_SHARE).div_ceil(SLICES);
        for _ in 0..SLICES {
            slices.add(&tenant.run(&*clock, mix, (self.operations / SLICES).max(1))?);
            overwrites.add(&tenant.run(&*clock, &overwriting, writes)?);
        }
        let us = PerOperation::of(mix, &slices, &overwrites, &self.site.data).us;
        let known = (us, loading + (clock.monotonic_ns() - begin) as f64 / 1e9);
        self.known.insert(name, known);
        Ok(known)
    }

    /// What each choice costs under its mix, in their order. Choices that are alike are measured
    /// one after the other, so that their tree is loaded once.
    pub(super) fn costs(
        &mut self,
        wanted: &[(Mix, Setting)],
        stage: &str,
        progress: &mut dyn Progress,
    ) -> Result<Vec<f64>> {
        let mut order: Vec<&(Mix, Setting)> = wanted.iter().collect();
        order.sort_by_key(|(mix, setting)| (key(setting), mix.to_string()));
        for (done, (mix, setting)) in order.into_iter().enumerate() {
            progress.at(stage, done as u64, wanted.len() as u64);
            self.cost(mix, setting)?;
        }
        wanted.iter().map(|(mix, setting)| Ok(self.cost(mix, setting)?.0)).collect()
    }

    /// Measures what a sampler asks for; the seconds that it took.
    pub(super) fn sample(
        &mut self,
        sampler: &mut dyn Sampler,
        stage: &str,
        of: u64,
        progress: &mut dyn Progress,
    ) -> Result<f64> {
        let mut seconds = 0.0;
        while let Some((mix, knobs)) = sampler.next() {
            progress.at(stage, (sampler.samples().len() as u64).min(of), of);
            let setting = self.setting(&knobs);
            let (us, took) = self.cost(&mix, &setting)?;
            seconds += took;
            sampler.tell(us);
        }
        Ok(seconds)
    }
}

/// What tells settings apart.
fn key(setting: &Setting) -> String {
    format!("{} {}", setting.shape, setting.filter_bits)
}
