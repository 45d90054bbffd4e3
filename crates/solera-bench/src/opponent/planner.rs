//! Planners: the trait `Plan`, which computes all settings from one window, and `Planner`, an agent
//! of one.
//!
//! `Planner` plans again when the mix differs from the planned one by more than 0.1 in total
//! variation. It also plans at the tenth window after planning, once.
//!
//! What must hold: a plan may list settings that already have the wanted value. The agent proposes
//! the whole list, unless it equals the last one. It does not hear whether a proposal was accepted.
//!
//! Callers: `paper::lerp` and `paper::camal_dynamic` run planners; `arce`, `ecotune` and
//! `two_steps` implement `Plan`.

use serde::{Deserialize, Serialize};
use solera_tune::{
    agent::{Agent, Outcome, Proposal, Set},
    learn::total_variation,
    sight::Window,
};
use std::fmt;

/// Total variation of mixes from which a plan is made anew: ArceKV's and CAMAL's.
const SHIFT: f64 = 0.1;
/// Missions after which a plan is looked at once more, with what it brought about.
const AGAIN: u32 = 10;

/// A way to choose settings.
pub trait Plan: fmt::Debug + Send {
    /// Its name.
    fn name(&self) -> &'static str;

    /// The settings that it wants after `window`. What is as it is wanted may be among them.
    fn sets(&mut self, window: &Window) -> Vec<Set>;
}

/// An agent that does as a plan says.
#[derive(Debug)]
pub struct Planner<P> {
    plan: P,
    memory: Memory,
}

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Memory {
    /// The mix that was planned for, and missions since then.
    planned: Option<([f64; 4], u32)>,
    /// What was wanted last.
    sets: Vec<Set>,
}

impl<P: Plan> Planner<P> {
    /// One that has planned nothing.
    pub fn new(plan: P) -> Planner<P> {
        Planner { plan, memory: Memory::default() }
    }
}

impl<P: Plan> Agent for Planner<P> {
    fn name(&self) -> &'static str {
        self.plan.name()
    }

    fn see(&mut self, window: &Window) {
        let shares = window.mix().shares();
        if self.memory.planned.is_some_and(|(mix, _)| total_variation(&mix, &shares) > SHIFT) {
            self.memory.planned = None;
        }
        if let Some((_, missions)) = &mut self.memory.planned {
            *missions += 1;
        }
    }

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        if self.memory.planned.is_some_and(|(_, missions)| missions != AGAIN) {
            return None;
        }
        let missions = self.memory.planned.map_or(0, |(_, missions)| missions);
        self.memory.planned = Some((window.mix().shares(), missions));
        let sets = self.plan.sets(window);
        if sets == self.memory.sets {
            return None;
        }
        self.memory.sets = sets.clone();
        let why = format!("planned for {}", window.mix());
        (!sets.is_empty()).then_some(Proposal { sets, why, predicted: 1.0, settle: 0, once: 0.0 })
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
