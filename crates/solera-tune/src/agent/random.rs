//! An agent that draws its changes: `Random`, what a guard must live with.
//!
//! At each turn it proposes one knob, drawn from all that there are, for a drawn level or for all.
//! Its value is legal by itself, and small ones are as likely as large ones.
//!
//! What must hold: what it draws is a function of its state and of how many levels there are. Its
//! seed begins the state, and it remembers it. It sees nothing else.
//!
//! Callers: `agent::make`, under the name `random`. By that name it runs in tests of `attach` and
//! `coordinator`, `tests/seeds.rs`, `tests/unharmed.rs`, `solera-sim`'s `tuner`, and
//! `solera-bench`'s page `safety`.

use super::{Agent, Outcome, Proposal, Set};
use crate::learn::elementary::{exp2, log2};
use crate::sight::Window;
use solera::knob::{Knob, Legal, Scope};

/// Its name.
pub const NAME: &str = "random";

/// Draws changes.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// One that draws from `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    fn below(&mut self, n: u64) -> u64 {
        // splitmix64
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(z ^ (z >> 31)) * u128::from(n)) >> 64) as u64
    }

    /// A number from `min` to `max`, small ones and large ones alike.
    fn between(&mut self, min: f64, max: f64) -> f64 {
        let halvings = self.below((log2(max - min + 1.0).ceil() as u64).max(1)) as i32;
        min + ((max - min) / exp2(f64::from(halvings))).floor()
    }

    fn value(&mut self, legal: &Legal) -> String {
        match legal {
            Legal::Whole { min, max } => self.between(*min as f64, *max as f64).to_string(),
            Legal::Real { min, max } | Legal::ZeroOr { min, max } => self.between(*min, *max).to_string(),
            Legal::Names(names) => names[self.below(names.len() as u64) as usize].to_owned(),
        }
    }
}

impl Agent for Random {
    fn name(&self) -> &'static str {
        NAME
    }

    fn see(&mut self, _: &Window) {}

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        let knobs: Vec<&'static Knob> = solera::control::knob::all().collect();
        let knob = knobs[self.below(knobs.len() as u64) as usize];
        let levels = window.levels.len().max(1) as u64;
        let level = (knob.scope == Scope::Level && self.below(2) == 0).then(|| self.below(levels) as u32);
        let value = self.value(&knob.legal);
        let set = Set { level, ..Set::new(knob.name, value) };
        Some(Proposal {
            sets: vec![set],
            why: "drawn".into(),
            predicted: 1.0,
            settle: self.below(3) as u32,
            once: 0.0,
        })
    }

    fn hear(&mut self, _: &Outcome) {}

    fn remember(&self) -> serde_json::Value {
        self.state.into()
    }

    fn restore(&mut self, memory: &serde_json::Value) -> Result<(), String> {
        match memory {
            serde_json::Value::Null => Ok(()),
            memory => {
                self.state = memory.as_u64().ok_or("a random agent remembers one number")?;
                Ok(())
            }
        }
    }
}
