//! A bandit whose arms are run limits, the same in all levels: `Arms`, an `Agent`, by discounted
//! UCB (`learn::Bandit`).
//!
//! It keeps an arm for five missions, and counts all but the first. Old rewards fade. Where the mix
//! shifts by a tenth, 5 % of the weight of what it learned is left.
//!
//! What must hold: the same seed and windows give the same choices. What it remembers can be stored
//! and restored, as of any agent.
//!
//! Caller: `paper::lerp`, as an opponent.

use serde::{Deserialize, Serialize};
use solera::control::knob;
use solera_tune::{
    agent::{Agent, Outcome, Proposal, Set},
    learn::{Bandit, MixShift, Policy, Random},
    sight::{Goal, Window},
};

/// The arms.
const LIMITS: [u32; 6] = [1, 2, 3, 5, 7, 10];
/// Missions that an arm is kept for: a level takes some to feel it.
const KEPT: u32 = 5;
/// What is left of a reward's weight when the next comes.
const KEEP: f64 = 0.97;
/// Total variation of mixes from which the workload has shifted, and what is then left of what was
/// learned.
const SHIFT: f64 = 0.1;
const AFTER_SHIFT: f64 = 0.05;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Memory {
    bandit: Bandit,
    random: Random,
    arm: Option<usize>,
    missions: u32,
    sum: f64,
    mix: MixShift,
}

/// The bandit.
#[derive(Clone, Debug)]
pub struct Arms {
    goal: Goal,
    memory: Memory,
}

impl Arms {
    /// Its name.
    pub const NAME: &'static str = "bandit";

    /// One that has tried nothing.
    pub fn new(goal: Goal, seed: u64) -> Arms {
        let bandit = Bandit::new(LIMITS.len(), KEEP, Policy::Ucb { bonus: 0.5 });
        let (random, mix) = (Random::new(seed), MixShift::new(SHIFT));
        let memory = Memory { bandit, random, arm: None, missions: 0, sum: 0.0, mix };
        Arms { goal, memory }
    }
}

impl Agent for Arms {
    fn name(&self) -> &'static str {
        Arms::NAME
    }

    fn see(&mut self, window: &Window) {
        let memory = &mut self.memory;
        if memory.mix.see(window.mix().shares(), window.operations.total()) {
            memory.bandit.fade(AFTER_SHIFT);
            (memory.missions, memory.sum) = (0, 0.0);
        }
        if let Some(cost) = self.goal.cost(window) {
            // What came right after the change is of the arm before.
            memory.missions += 1;
            memory.sum += if memory.missions > 1 { cost } else { 0.0 };
        }
    }

    fn propose(&mut self, _: &Window) -> Option<Proposal> {
        let memory = &mut self.memory;
        if let Some(arm) = memory.arm {
            if memory.missions < KEPT {
                return None;
            }
            memory.bandit.learn(arm, -memory.sum / f64::from(memory.missions - 1));
        }
        (memory.missions, memory.sum) = (0, 0.0);
        let all: Vec<usize> = (0..LIMITS.len()).collect();
        let next = memory.bandit.choose(&all, &mut memory.random);
        let before = memory.arm.replace(next);
        let sets = vec![Set::new(&knob::RUN_LIMIT, LIMITS[next])];
        let why = format!("arm K = {}", LIMITS[next]);
        (before != Some(next)).then_some(Proposal { sets, why, predicted: 1.0, settle: 0, once: 0.0 })
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
        if !memory.bandit.is_like(&self.memory.bandit) || memory.arm.is_some_and(|arm| arm >= LIMITS.len()) {
            return Err("a bandit of other arms".into());
        }
        self.memory = memory;
        Ok(())
    }
}
