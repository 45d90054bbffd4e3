//! How a level comes from one run limit to another: `Transition` (flexible, greedy, lazy; RusKey
//! §4.1).
//!
//! `limit_changes`, a pure function, says which levels a change of the shape concerns; empty ones
//! never. `HeldLimits` remembers what is not over. A lazy level keeps its old limit until it was
//! emptied. A greedy one is merged into the next level at once, and rewritten for it. `in_force`
//! gives the shape that counts meanwhile.
//!
//! What must hold: level 0 is never lazy, since writers are held back by its run limit. Held limits
//! are not on disk: a restart ends every transition, as if it had been flexible.
//! Callers: `engine::change` (`limit_changes`), `Ledger` (`HeldLimits`), `tree::settings`, `knob`
//! and `engine::descriptions` (the choice by name).

use super::shape::Shape;
use crate::{
    ids::RunId,
    version::{Run, Version},
};
use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr, sync::Arc};

/// How a level comes from one run limit to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transition {
    /// The new limit is in force at once, and nothing is rewritten for it: a smaller one lets the
    /// newest run grow, a larger one makes the next arrival open another.
    #[default]
    Flexible,
    /// The new limit is in force at once, and all that the level holds is merged into the next
    /// level, full or not. It is read and written for that (D/B in RusKey §4.1), also where its
    /// tables could be moved as they are.
    Greedy,
    /// The old limit stays in force until all that the level holds has moved down because it was
    /// full; below level 0, which is flexible then.
    Lazy,
}

impl Transition {
    const ALL: [Transition; 3] = [Transition::Flexible, Transition::Greedy, Transition::Lazy];
    /// Their names.
    pub const NAMES: [&'static str; 3] = ["flexible", "greedy", "lazy"];

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

/// The run limit of one level has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitChange {
    /// The level.
    pub level: u32,
    /// The newest run that it had when the limit was changed.
    pub newest: RunId,
    /// The limit that it had.
    pub run_limit: u32,
    /// How it is to come to the new one.
    pub transition: Transition,
}

impl fmt::Display for LimitChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LimitChange { level, newest, run_limit, transition } = self;
        write!(f, "level {level}: {transition} from {run_limit} runs, up to run {newest}")
    }
}

/// The changes of run limits between two shapes, for the levels that hold something. Level 0 is
/// never lazy: writers are held back by the limit that is wanted, so compactions have to obey that
/// one too.
pub fn limit_changes(
    version: &Version,
    old: &Shape,
    new: &Shape,
    transition: Transition,
) -> Vec<LimitChange> {
    let levels = 0..version.levels().len() as u32;
    let change = |level| {
        let (run_limit, newest) = (old.run_limit(level), version.level(level).runs().first()?.id());
        let transition = match transition {
            Transition::Lazy if level == 0 => Transition::Flexible,
            other => other,
        };
        (run_limit != new.run_limit(level)).then_some(LimitChange { level, newest, run_limit, transition })
    };
    levels.filter_map(change).collect()
}

/// What levels owe to changes of their run limits that are not over yet.
#[derive(Clone, Debug, Default)]
pub struct HeldLimits {
    /// By level: a limit that is in force until the runs that the level had are gone (lazy).
    held: BTreeMap<u32, LimitChange>,
    /// By level: runs up to this id are rewritten on their way down (greedy).
    rewritten: BTreeMap<u32, RunId>,
}

impl HeldLimits {
    /// Takes a change over. The last change of a level counts, but a lazy one after a lazy one
    /// keeps the limit that has been in force for longest.
    pub(super) fn note(&mut self, change: LimitChange) {
        if change.transition != Transition::Lazy {
            self.held.remove(&change.level);
            self.rewritten.remove(&change.level);
        }
        match change.transition {
            Transition::Flexible => {}
            Transition::Greedy => drop(self.rewritten.insert(change.level, change.newest)),
            Transition::Lazy => drop(self.held.entry(change.level).or_insert(change)),
        }
    }

    /// The run limit that is in force in the level of `runs`, all that it has, though another is
    /// wanted.
    pub(super) fn held(&self, runs: &[Arc<Run>]) -> Option<u32> {
        let oldest = runs.last()?;
        let change = self.held.get(&oldest.level()).filter(|change| oldest.id() <= change.newest);
        change.map(|change| change.run_limit)
    }

    /// Whether the oldest of `runs`, all that a level has, is to be rewritten on its way down, even
    /// where its tables could be moved as they are.
    pub(super) fn rewrites(&self, runs: &[Arc<Run>]) -> bool {
        let oldest = runs.last();
        oldest.is_some_and(|run| self.rewritten.get(&run.level()).is_some_and(|newest| run.id() <= *newest))
    }

    /// The shape that is in force where `wanted` is wanted.
    pub(super) fn in_force<'s>(&self, version: &Version, wanted: &'s Shape) -> Cow<'s, Shape> {
        let mut shape = Cow::Borrowed(wanted);
        for &level in self.held.keys() {
            if let Some(limit) = self.held(version.level(level).runs()) {
                shape.to_mut().set_run_limit(Some(level), limit);
            }
        }
        shape
    }
}
