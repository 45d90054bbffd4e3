//! How a level comes from one run limit to another.
//!
//! Owns [`Transition`], the ways to do it that RusKey compares (§4.1; NOTES §3a), and [`turns`], what a change asks of
//! the levels that it concerns: a pure function. [`InFlight`](super::InFlight) remembers it, so it is known to the
//! running process only: what a restart interrupts goes on as a flexible transition.

use super::shape::Shape;
use crate::{
    ids::RunId,
    knob::{Knob, Legal, Scope},
    version::Version,
};
use std::{fmt, str::FromStr};

/// The way to do it.
pub static TRANSITION: Knob = Knob::new("transition", Scope::Keyspace, Legal::Names(&Transition::NAMES))
    .with(
        "flexible",
        "with the next change of a run limit",
        "How a level comes to a new run limit: flexible rewrites nothing and waits for nothing, greedy merges the \
         level into the next one first, lazy waits until the level has been emptied (level 0: flexible).",
    )
    .experiment();

/// How a level comes from one run limit to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transition {
    /// The new limit is in force at once, and nothing is rewritten for it: a smaller one lets the newest run grow, a
    /// larger one makes the next arrival open another.
    #[default]
    Flexible,
    /// The new limit is in force at once, and all that the level holds is merged into the next level, full or not. It is
    /// read and written for that (RusKey's D/B, §4.1), also where its tables could be moved as they are.
    Greedy,
    /// The old limit stays in force until all that the level holds has moved down because it was full; below level 0,
    /// which is flexible then.
    Lazy,
}

impl Transition {
    const ALL: [Transition; 3] = [Transition::Flexible, Transition::Greedy, Transition::Lazy];
    const NAMES: [&'static str; 3] = ["flexible", "greedy", "lazy"];

    /// Its name.
    pub fn name(self) -> &'static str {
        Transition::NAMES[self as usize]
    }
}

impl FromStr for Transition {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Transition::ALL.into_iter().find(|one| one.name() == name).ok_or(())
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a change of its run limit asks of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The level.
    pub level: u32,
    /// The newest run that it had when the limit was changed.
    pub newest: RunId,
    /// The limit that it had.
    pub run_limit: u32,
    /// How it is to come to the new one.
    pub transition: Transition,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Turn { level, newest, run_limit, transition } = self;
        write!(f, "level {level}: {transition} from {run_limit} runs, up to run {newest}")
    }
}

/// What the change from one shape to another asks of the levels: of those that hold something and get another run
/// limit. Level 0 never waits for a new one: writers are held back by the limit that is wanted, so it has to be the one
/// that compactions go by.
pub fn turns(version: &Version, old: &Shape, new: &Shape, transition: Transition) -> Vec<Turn> {
    let levels = 0..version.levels().len() as u32;
    let turn = |level| {
        let (run_limit, newest) = (old.run_limit(level), version.level(level).runs().first()?.id());
        let transition = match transition {
            Transition::Lazy if level == 0 => Transition::Flexible,
            other => other,
        };
        (run_limit != new.run_limit(level)).then_some(Turn { level, newest, run_limit, transition })
    };
    levels.filter_map(turn).collect()
}
