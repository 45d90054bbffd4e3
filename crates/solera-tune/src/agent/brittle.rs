//! An agent that panics where tests want it to: `Brittle`. It wants larger blocks.
//!
//! What must hold: of seed `HEARS` it panics when it hears that its change was made. Of seed
//! `REMEMBERS` it panics when it is to say, after that, what it remembers. That comes with each
//! 64th window, so it proposes just before that.
//!
//! Callers: `agent::make`, for tests of `attach`.

use super::{Agent, Outcome, Proposal, Set};
use crate::sight::Window;

/// Its name.
pub const NAME: &str = "brittle";
/// Panics when it hears.
pub const HEARS: u64 = 0;
/// Panics when it remembers.
pub const REMEMBERS: u64 = 1;

/// Wants larger blocks.
#[derive(Debug)]
pub struct Brittle {
    seed: u64,
    made: bool,
}

impl Brittle {
    /// One of this seed.
    pub fn new(seed: u64) -> Brittle {
        Brittle { seed, made: false }
    }
}

impl Agent for Brittle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn see(&mut self, _: &Window) {}

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        let sets = vec![Set::new("block_bytes", 8192)];
        let proposal = Proposal { sets, why: "a test".into(), predicted: 0.9, settle: 9, once: 0.0 };
        (self.seed != REMEMBERS || window.number > 60).then_some(proposal)
    }

    fn hear(&mut self, outcome: &Outcome) {
        self.made |= *outcome == Outcome::Made;
        assert!(!(self.made && self.seed == HEARS), "that is too much to hear");
    }

    fn remember(&self) -> serde_json::Value {
        assert!(!(self.made && self.seed == REMEMBERS), "that is too much to remember");
        serde_json::Value::Null
    }

    fn restore(&mut self, _: &serde_json::Value) -> Result<(), String> {
        Ok(())
    }
}
