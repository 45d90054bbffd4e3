//! An agent that wants the worst: `Worst`, what a guard must live with.
//!
//! It knows six changes that hurt where reads are the larger part, and six that hurt where writes
//! are. At each turn it proposes the next of the six, and claims that it helps much.
//!
//! What must hold: what it proposes is a function of the window's mix and size ratio, and of how
//! often it was asked. It heeds no outcome.
//!
//! Callers: `agent::make`, under the name `worst`: tests of `attach`, `tests/seeds.rs`,
//! `tests/unharmed.rs`, the page `safety` of `solera-bench`.

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
        Some(Proposal { sets, why: "it will be much better".into(), predicted: 0.1, settle: 2 })
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
