//! What wants knobs changed: `Agent`, what all are to the coordinator, and the words that they
//! exchange: `Proposal`, `Set` and `Outcome`.
//!
//! An agent sees windows, proposes changes when it is its turn, and hears what became of them.
//! Where nothing else may be changed, it may still ask for knobs to be unset (`homeward`). `make`
//! makes one by its name (`Maker`, `NAMES`).
//!
//! What must hold: an agent never touches the database. It is a function of how it was made, was
//! shown and heard. It asks for no time, no file, and no chance but its seed's, so a journal can be
//! decided again.
//!
//! Callers: `coordinator` asks it; `attach::stepper` and `coordinator::replay` make it; journals
//! keep its words. `solera-bench` has agents of its own (`opponent`) and asks them (`learning`).
//! `solera-cli` and `solera-sim` name agents.

pub mod camal;
pub mod constants;
pub mod credit;
pub mod doblix;
pub mod lerp;
pub mod random;
pub mod steward;
pub mod worst;
#[cfg(test)]
pub mod brittle;
#[cfg(test)]
mod imagined;
#[cfg(test)]
mod lerp_tests;
#[cfg(test)]
mod doblix_tests;

pub use credit::{Credit, Step};

use crate::{
    cost::Units,
    sight::{Goal, Window},
};
use serde::{Deserialize, Serialize};
use solera::control::knob::RUN_LIMIT;
use std::fmt;

/// One knob that is to be set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// The knob's name.
    pub knob: String,
    /// The level, for a knob that levels have; `None` for all of them.
    pub level: Option<u32>,
    /// The value as text; `None` for what it would be had it never been set.
    pub value: Option<String>,
}

impl Set {
    /// `knob` for all levels, or for the keyspace or the database.
    pub fn new(knob: impl AsRef<str>, value: impl fmt::Display) -> Set {
        Set { knob: knob.as_ref().into(), level: None, value: Some(value.to_string()) }
    }

    /// `knob` for one level.
    pub fn of_level(knob: impl AsRef<str>, level: u32, value: impl fmt::Display) -> Set {
        Set { level: Some(level), ..Set::new(knob, value) }
    }

    /// Whether it may change what `knob` is for `level`. What is set for all levels is set for
    /// each, but for level 0's run limit.
    pub fn touches(&self, knob: &str, level: Option<u32>) -> bool {
        let covers = match (level, self.level) {
            (None, Some(0)) => self.knob != RUN_LIMIT.name,
            (None, _) | (_, None) => true,
            (of, level) => of == level,
        };
        covers && self.knob == knob
    }

    /// `knob` as if it had never been set.
    pub fn reset(knob: impl AsRef<str>, level: Option<u32>) -> Set {
        Set { knob: knob.as_ref().into(), level, value: None }
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.knob)?;
        if let Some(level) = self.level {
            write!(f, "[{level}]")?;
        }
        match &self.value {
            Some(value) => write!(f, "={value}"),
            None => f.write_str(" as nobody set it"),
        }
    }
}

/// A change that an agent wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Proposal {
    /// What is to be set, all in one change of the database. At least one, at most 256.
    pub sets: Vec<Set>,
    /// Why, for people: at most 400 bytes.
    pub why: String,
    /// What the cost of an operation will be, as a share of what it is now. 1 if the agent does not
    /// know.
    pub predicted: f64,
    /// Windows that are to pass before the effect is there and is judged, such as those in which
    /// tables are written anew. 0: the next window is judged.
    pub settle: u32,
    /// What it takes once, in windows, such as to merge levels that are not needed any more. The
    /// coordinator sets that much aside before it judges. 0: nothing, or it is judged with it.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub once: f64,
}

fn is_nothing(windows: &f64) -> bool {
    *windows == 0.0
}

impl Proposal {
    /// Whether it only resets knobs.
    pub fn is_homeward(&self) -> bool {
        self.sets.iter().all(|set| set.value.is_none())
    }

    /// The same, with what an agent that does not know says in the place of what is no number. JSON
    /// has none of those: the journal would hold a proposal that it could not read again.
    pub(crate) fn in_numbers(self) -> Proposal {
        let or = |number: f64, otherwise| if number.is_finite() { number } else { otherwise };
        Proposal { predicted: or(self.predicted, 1.0), once: or(self.once, 0.0), ..self }
    }
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Outcome {
    /// The change was made, and is judged from now on.
    Made,
    /// The coordinator did not allow it.
    Forbidden {
        /// Why.
        why: String,
    },
    /// The engine did not make it.
    Refused {
        /// What the engine says.
        why: String,
    },
    /// It was judged and stays.
    Kept {
        /// The cost of an operation, as a share of what it was before.
        ratio: f64,
    },
    /// It was judged and taken back.
    Undone {
        /// The cost of an operation, as a share of what it was before.
        ratio: f64,
        /// Why.
        why: String,
    },
    /// What it did cannot be told, because the workload changed. It stays, or is taken back.
    Untold,
}

/// What wants knobs changed.
pub trait Agent: fmt::Debug + Send {
    /// Its name, as users write it and as receipts say it.
    fn name(&self) -> &'static str;

    /// Sees a window that has ended. Every window is shown, also those that are not to be judged
    /// ([`Window::blocked`]) and those in which a change is open; but for those that only tell that
    /// a known workload has come back.
    fn see(&mut self, window: &Window);

    /// Hears, before it is asked, which knobs another author has set, with their levels: the
    /// coordinator would refuse to change them.
    fn leave(&mut self, foreign: &[(String, Option<u32>)]) {
        let _ = foreign;
    }

    /// Hears, before it is asked, how many windows a change may take once ([`Proposal::once`]).
    fn afford(&mut self, once: f64) {
        let _ = once;
    }

    /// What it wants changed after `window`, which it saw last. Asked only when no change is open
    /// and the window is to be judged. `None`: nothing.
    fn propose(&mut self, window: &Window) -> Option<Proposal>;

    /// Whether knobs are to be unset, where nothing else may be changed: because of
    /// what its changes have lost, or because the last one hurt. Only resets are allowed. `None`:
    /// they stay.
    fn homeward(&mut self, window: &Window) -> Option<Proposal> {
        let _ = window;
        None
    }

    /// Whether it says itself ([`Agent::homeward`]) when knobs are to be unset in a workload that
    /// is new. Otherwise the coordinator unsets them.
    fn prices_home(&self) -> bool {
        false
    }

    /// Hears what became of its last proposal. [`Outcome::Made`] is followed by one of `Kept`,
    /// `Undone` and `Untold`, windows later; each other outcome is the only one of its proposal.
    /// `Undone` may come once more, long after a change was kept: its context has become worse, and
    /// older settings were restored.
    fn hear(&mut self, outcome: &Outcome);

    /// All that it has learned, in a form that [`Agent::restore`] takes.
    fn remember(&self) -> serde_json::Value;

    /// Becomes what an agent was that was made in the same way and remembered `memory`: from then
    /// on both do the same. What was not remembered must not matter.
    ///
    /// # Errors
    /// What is wrong with `memory`, which may come from a damaged or foreign file. The agent is
    /// then as it was.
    fn restore(&mut self, memory: &serde_json::Value) -> Result<(), String>;
}

/// How an agent is made: all that it depends on besides what it sees and hears.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Maker {
    /// Its name.
    pub name: String,
    /// Seed of whatever it draws.
    pub seed: u64,
    /// What this machine takes for the steps of operations.
    pub units: Units,
    /// What is to be minimised.
    pub goal: Goal,
}

/// The agents, by the names that users write. CAMAL's are not among them: they are made from
/// samples, and not from a name.
pub const NAMES: [&str; 5] = [steward::NAME, doblix::NAME, lerp::NAME, random::NAME, worst::NAME];

/// The agent that `maker` describes.
///
/// # Errors
/// If there is none of that name, with those that there are.
pub fn make(maker: &Maker) -> Result<Box<dyn Agent>, String> {
    match maker.name.as_str() {
        steward::NAME => Ok(Box::new(steward::Steward::new(maker))),
        doblix::NAME => {
            let constants = constants::DoblixConstants::default();
            Ok(Box::new(doblix::Doblix::new(constants, maker.units.clone(), maker.seed)))
        }
        lerp::NAME => {
            let (constants, scheme) = (constants::LerpConstants::default(), lerp::Scheme::Monkey);
            let (units, goal) = (maker.units.clone(), maker.goal.clone());
            Ok(Box::new(lerp::Lerp::new(constants, units, goal, scheme, maker.seed)))
        }
        random::NAME => Ok(Box::new(random::Random::new(maker.seed))),
        worst::NAME => Ok(Box::new(worst::Worst::new())),
        #[cfg(test)]
        brittle::NAME => Ok(Box::new(brittle::Brittle::new(maker.seed))),
        name => Err(format!("there is no agent {name:?}; there are {}", NAMES.join(", "))),
    }
}
