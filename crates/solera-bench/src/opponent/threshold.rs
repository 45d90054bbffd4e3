//! RusKey's greedy baseline (RusKey §7, Fig. 12): `Threshold`, an `Agent`.
//!
//! It looks at each level's share of lookups: its lookups / (its lookups + all writes of the
//! window). If the share is below `bottom`, the level's run limit K rises by one. If it is above
//! `top`, K falls by one. Level 0 and empty levels keep their run limits.
//!
//! What must hold: a proposal depends on the present window alone. A step up never ends above the
//! size ratio, a step down never below 1.
//!
//! Caller: `paper::lerp`, with four pairs of thresholds.

use solera::control::knob;
use solera_tune::{
    agent::{Agent, Outcome, Proposal, Set},
    sight::{LevelSight, Window},
};

/// The heuristic.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// Share of lookups below which a level counts as written to.
    bottom: f64,
    /// Share of lookups above which it counts as read.
    top: f64,
}

impl Threshold {
    /// The name of all of them.
    pub const NAME: &'static str = "ruskey-greedy";

    /// With these thresholds, from 0 to 1.
    pub fn new(bottom: f64, top: f64) -> Threshold {
        Threshold { bottom, top }
    }

    /// The share of lookups among what came to a level.
    fn lookups(window: &Window, level: &LevelSight) -> f64 {
        // A lookup asks one table at most in each run.
        let lookups = level.tables_probed as f64 / level.runs.max(1) as f64;
        let writes = window.operations.writes as f64;
        if lookups + writes > 0.0 { lookups / (lookups + writes) } else { 0.5 }
    }
}

impl Agent for Threshold {
    fn name(&self) -> &'static str {
        Threshold::NAME
    }

    fn see(&mut self, _: &Window) {}

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        let ratio = window.number(&knob::SIZE_RATIO, None).map_or(10, |ratio| ratio as u32);
        let levels = window.levels.iter().filter(|level| level.level > 0 && level.entries > 0);
        let wanted = levels.filter_map(|level| {
            let lookups = Threshold::lookups(window, level);
            let limit = match lookups {
                lookups if lookups < self.bottom => (level.run_limit + 1).min(ratio),
                lookups if lookups > self.top => level.run_limit.saturating_sub(1).max(1),
                _ => level.run_limit,
            };
            (limit != level.run_limit).then(|| Set::of_level(&knob::RUN_LIMIT, level.level, limit))
        });
        let sets: Vec<Set> = wanted.collect();
        let why = format!("lookups below {} or above {}", self.bottom, self.top);
        (!sets.is_empty()).then_some(Proposal { sets, why, predicted: 1.0, settle: 0, once: 0.0 })
    }

    fn hear(&mut self, _: &Outcome) {}

    fn remember(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    fn restore(&mut self, _: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }
}
