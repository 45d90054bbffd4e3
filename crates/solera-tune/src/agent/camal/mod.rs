//! CAMAL: active learning of size ratio and memory, guided by the cost model (CAMAL §4 to §8;
//! docs/PAPERS.md, "CAMAL").
//!
//! `Camal` is the agent of its dynamic mode (§6): what was learned before, applied when the mix has
//! moved. Below it, `space` is what can be chosen, `learned` what is known of it, `sampling` what
//! is measured to know it.
//!
//! What must hold: by the default constants it looks at the mix every 10,000 operations. It asks
//! for a reconfiguration at its first look, then when a share has moved by over a tenth. It heeds
//! no outcome. Made from samples, it has no name in `agent::NAMES`.
//! Callers: the page `camal_dynamic` of `solera-bench`. Its parts: the pages `camal`, `camal_lab`
//! and `camal_learned`, and the opponent `plain`.

pub mod space;
pub mod learned;
pub mod sampling;
#[cfg(test)]
mod tests;

pub use learned::{Believed, Learner, Sample, Tuned, mixes_within};
pub use sampling::{Decoupled, Sampler, TRAINING};
pub use space::{Knobs, Policy, Space};

use super::{Agent, Outcome, Proposal, Set, constants::CamalConstants, steward::divided_bytes};
use crate::{
    cost::Mix,
    sight::{Operations, Window},
};
use serde::{Deserialize, Serialize};
use solera::control::knob;

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Memory {
    /// What was done since it last looked.
    since: Operations,
    /// The mix at its last reconfiguration.
    configured: Option<[f64; 4]>,
    /// The mix that it wants to configure for.
    wanted: Option<[f64; 4]>,
    reconfigurations: u64,
}

/// The agent: what was learned before, applied whenever the mix has moved.
#[derive(Debug)]
pub struct Camal {
    learner: Learner,
    constants: CamalConstants,
    tuned: Tuned,
    /// M of the whole, as a share of the database's budget.
    memory_share: f64,
    /// ρ: how uncertain the mix is. 0: not at all.
    rho: f64,
    memory: Memory,
}

impl Camal {
    /// An agent that chooses by what was learned. `memory_share` of the database's budget is for
    /// one write buffer, filters and the cache together.
    pub fn new(
        learner: Learner,
        constants: CamalConstants,
        tuned: Tuned,
        memory_share: f64,
        rho: f64,
    ) -> Camal {
        Camal { learner, constants, tuned, memory_share, rho, memory: Memory::default() }
    }

    /// Reconfigurations that it asked for.
    pub fn reconfigurations(&self) -> u64 {
        self.memory.reconfigurations
    }

    /// The knobs of the engine for a choice, where so many bytes are the budget and so many of
    /// those are what percents are of. The engine's write buffers are four; CAMAL's is one of them.
    pub fn sets(&self, knobs: &Knobs, entries: f64, budget_bytes: f64, divided_bytes: f64) -> Vec<Set> {
        const BUFFERS: f64 = 4.0;
        let memory = self.memory_share * budget_bytes;
        let filters = knobs.filter_bits * entries / 8.0;
        let buffer = memory * (1.0 - knobs.cache_share) - filters;
        let percent = |bytes: f64| (10_000.0 * bytes / divided_bytes).floor() / 100.0;
        let mut sets = vec![
            Set::new(&knob::SIZE_RATIO, knobs.size_ratio),
            Set::new(&knob::RUN_LIMIT, knobs.runs),
            Set::new(&knob::FILTER_BITS_PER_KEY, knobs.filter_bits),
            Set::new(&knob::WRITE_BUFFER_PERCENT, percent(BUFFERS * buffer).max(0.01)),
        ];
        if knobs.cache_share > 0.0 {
            sets.push(Set::new(&knob::CACHE_PERCENT, percent(knobs.cache_share * memory).max(1.0)));
        }
        sets
    }
}

impl Agent for Camal {
    fn name(&self) -> &'static str {
        self.learner.agent()
    }

    fn see(&mut self, window: &Window) {
        let (since, of) = (&mut self.memory.since, &window.operations);
        since.absent += of.absent;
        since.found += of.found;
        since.scans += of.scans;
        since.writes += of.writes;
        if since.total() < self.constants.period {
            return;
        }
        let Some(mix) = std::mem::take(since).mix() else { return };
        let shares = mix.shares();
        let moved = |configured: &[f64; 4]| {
            let apart = |(now, then): (&f64, &f64)| (now - then).abs() > self.constants.threshold;
            shares.iter().zip(configured).any(apart)
        };
        if self.memory.configured.as_ref().is_none_or(moved) {
            self.memory.wanted = Some(shares);
        }
    }

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        let shares = self.memory.wanted.take()?;
        let [absent, found, scan, write] = shares;
        let mix = Mix { absent, found, scan, write };
        let entries = window.table_entries().max(1) as f64;
        let budget = window.memory_bytes.max(1) as f64;
        let memory = self.memory_share * budget;
        let (knobs, _) = match self.rho {
            0.0 => self.tuned.choose(&mix, entries, memory),
            rho => self.tuned.choose_within(&mix, rho, entries, memory),
        };
        self.memory.configured = Some(shares);
        self.memory.reconfigurations += 1;
        let why = format!("{mix}: T = {}, K = {}, {} bits", knobs.size_ratio, knobs.runs, knobs.filter_bits);
        Some(Proposal {
            sets: self.sets(&knobs, entries, budget, divided_bytes(window)),
            why,
            predicted: 1.0,
            settle: 1,
            once: 0.0,
        })
    }

    fn hear(&mut self, _: &Outcome) {}

    fn remember(&self) -> serde_json::Value {
        serde_json::to_value(&self.memory).expect("a memory has no keys that are not text")
    }

    fn restore(&mut self, memory: &serde_json::Value) -> Result<(), String> {
        if memory.is_null() {
            return Ok(());
        }
        let memory: Memory = serde_json::from_value(memory.clone()).map_err(|error| error.to_string())?;
        let is_mix = |shares: &[f64; 4]| shares.iter().all(|share| (0.0..=1.0).contains(share));
        if ![&memory.configured, &memory.wanted].into_iter().flatten().all(is_mix) {
            return Err("shares that are none".into());
        }
        self.memory = memory;
        Ok(())
    }
}
