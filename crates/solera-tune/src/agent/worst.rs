//! An agent that proposes harmful changes, to test the guard and the engine: `Worst`.
//!
//! It has six changes that hurt mixes with more reads than writes, and six for all other mixes. At
//! each turn it proposes the next of the six, and predicts a tenth of the present cost.
//!
//! What must hold: a proposal depends only on the window's mix and size ratio, and on the number of
//! turns. It ignores outcomes. It remembers the number of turns, and nothing else.
//!
//! Callers: `agent::make`, under the name `worst`. By that name it runs in tests of `attach`,
//! `tests/seeds.rs`, `tests/unharmed.rs`, `solera-sim`'s `tuner`, and `solera-bench`'s page
//! `safety`.

use super::{Agent, Outcome, Proposal, Set};
use crate::sight::Window;

/// Its name.
pub const NAME: &str = "worst";

/// Wants the worst.
#[derive(Clone, Debug, Default)]
pub struct Worst {
    turn: u64,
}

impl Worst {
    /// One that has tried nothing yet.
    pub fn new() -> Worst {
        Worst::default()
    }
}

impl Agent for Worst {
    fn name(&self) -> &'static str {
        NAME
    }

    fn see(&mut self, _: &Window) {}

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        self.turn += 1;
        let mix = window.mix();
        let reads = mix.absent + mix.found + mix.scan;
        let ratio = window.number("size_ratio", None).unwrap_or(10.0);
        let harms: [Vec<Set>; 6] = match reads > mix.write {
            true => [
                vec![Set::new("filter_bits_per_key", 0)],
                vec![Set::new("cache_percent", 1)],
                vec![Set::new("run_limit", ratio)],
                vec![Set::new("block_bytes", 1 << 20)],
                vec![Set::of_level("run_limit", 0, 64), Set::new("level0_patience", 64)],
                vec![Set::new("index", "interpolation")],
            ],
            false => [
                vec![Set::new("write_buffer_percent", 0.5)],
                vec![Set::new("level0_patience", 0), Set::of_level("run_limit", 0, 1)],
                vec![Set::new("run_limit", 1), Set::new("size_ratio", 100)],
                vec![Set::new("block_bytes", 256)],
                vec![Set::new("filter_bits_per_key", 64)],
                vec![Set::new("index", "doblix-pra")],
            ],
        };
        let sets = harms[(self.turn % 6) as usize].clone();
        Some(Proposal { sets, why: "it will be much better".into(), predicted: 0.1, settle: 2, once: 0.0 })
    }

    fn hear(&mut self, _: &Outcome) {}

    fn remember(&self) -> serde_json::Value {
        self.turn.into()
    }

    fn restore(&mut self, memory: &serde_json::Value) -> Result<(), String> {
        match memory {
            serde_json::Value::Null => Ok(()),
            memory => {
                self.turn = memory.as_u64().ok_or("the worst agent remembers one number")?;
                Ok(())
            }
        }
    }
}
