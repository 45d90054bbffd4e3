//! Bayesian optimisation of one run limit for all levels: `Search`, an `Agent`.
//!
//! A Gaussian process of what was measured says which limit promises most improvement. It tries 1,
//! 10 and 5 first, keeps a limit for six missions without counting the first. After ten
//! measurements it keeps what the process believes the best.
//!
//! What must hold: it begins anew for a mix that has shifted by a tenth.
//!
//! Caller: `paper::lerp`, as an opponent.

use serde::{Deserialize, Serialize};
use solera::control::knob;
use solera_tune::{
    agent::{Agent, Outcome, Proposal, Set},
    learn::{MixShift, Process},
    sight::{Goal, Window},
};

/// Missions that a limit is kept for, of which the first is not counted.
const KEPT: u32 = 6;
/// Limits that are tried before the process says where to go.
const FIRST: [u32; 3] = [1, 10, 5];
/// Measurements of a mix after which the best is kept.
const TRIES: usize = 10;
/// Total variation of mixes from which the workload has shifted.
const SHIFT: f64 = 0.1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Memory {
    /// Limits that were measured under this mix, and what they cost.
    measured: Vec<(u32, f64)>,
    limit: Option<u32>,
    missions: u32,
    sum: f64,
    mix: MixShift,
    is_done: bool,
}

impl Memory {
    /// Of nothing but what says when the mix shifts.
    fn new(mix: MixShift) -> Memory {
        Memory { measured: Vec::new(), limit: None, missions: 0, sum: 0.0, mix, is_done: false }
    }
}

/// The optimiser.
#[derive(Clone, Debug)]
pub struct Search {
    goal: Goal,
    memory: Memory,
}

impl Search {
    /// One that has measured nothing.
    pub fn new(goal: Goal) -> Search {
        Search { goal, memory: Memory::new(MixShift::new(SHIFT)) }
    }

    fn next(&mut self, ratio: u32) -> u32 {
        let measured = &self.memory.measured;
        if let Some(limit) = FIRST.get(measured.len()) {
            return (*limit).min(ratio);
        }
        let place = |limit: u32| vec![f64::from(limit) / f64::from(ratio)];
        let points: Vec<Vec<f64>> = measured.iter().map(|(limit, _)| place(*limit)).collect();
        let costs: Vec<f64> = measured.iter().map(|(_, cost)| *cost).collect();
        let process = Process::fit(&points, &costs);
        if measured.len() >= TRIES {
            self.memory.is_done = true;
            let believed = (1..=ratio).map(|limit| (process.predict(&place(limit)).0, limit));
            return believed.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a limit").1;
        }
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let gains = (1..=ratio).map(|limit| (process.improvement(&place(limit), least), limit));
        gains.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a limit").1
    }
}

impl Agent for Search {
    fn name(&self) -> &'static str {
        "Bayesian optimisation"
    }

    fn see(&mut self, window: &Window) {
        let memory = &mut self.memory;
        if memory.mix.see(window.mix().shares(), window.operations.total()) {
            *memory = Memory::new(memory.mix.clone());
        }
        if let Some(cost) = self.goal.cost(window) {
            memory.missions += 1;
            memory.sum += if memory.missions > 1 { cost } else { 0.0 };
        }
    }

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        if self.memory.is_done {
            return None;
        }
        if let Some(limit) = self.memory.limit {
            if self.memory.missions < KEPT {
                return None;
            }
            let cost = self.memory.sum / f64::from(self.memory.missions - 1);
            self.memory.measured.push((limit, cost));
        }
        (self.memory.missions, self.memory.sum) = (0, 0.0);
        let ratio = window.number(&knob::SIZE_RATIO, None).map_or(10, |ratio| ratio as u32);
        let next = self.next(ratio);
        let before = self.memory.limit.replace(next);
        let why = format!("K = {next} promises most");
        let sets = vec![Set::new(&knob::RUN_LIMIT, next)];
        (before != Some(next)).then_some(Proposal { sets, why, predicted: 1.0, settle: 0, once: 0.0 })
    }

    fn hear(&mut self, _: &Outcome) {}

    fn remember(&self) -> serde_json::Value {
        serde_json::to_value(&self.memory).expect("a memory has no keys that are not text")
    }

    fn restore(&mut self, memory: &serde_json::Value) -> Result<(), String> {
        if !memory.is_null() {
            self.memory = serde_json::from_value(memory.clone()).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
