//! All that a compaction decision may look at: `Picture`, one tree at one moment.
//!
//! It borrows the version, claims, seals, damage, held limits, overlap and the `Horizon`. It holds
//! the shape in force beside the shape wanted, when level 0 is due, and which levels are surplus.
//! `target_run` says which run of a level takes arrivals; `is_leveled` whether a level stays one
//! run. `Display` prints it, one thing a line.
//!
//! What must hold: a picture does not change. Every decision is a pure function of one, so two
//! decisions on one picture never disagree about what is in force.
//!
//! Callers: `Ledger::picture` makes it, under the work lock, for `engine::work`. `pick`, `lift`,
//! `cut`, `want`, `manual`, `entrance`, `space`, `convert`, `key_list` and `control::observe` read
//! it.

use super::{
    claims::Claims, damage::Damage, horizon::Horizon, overlap::Overlap, patience::Level0, seals::Seals,
    shape::Shape, surplus::Surplus, transition::HeldLimits,
};
use crate::{
    ids::RunId,
    version::{Run, Version},
};
use std::{borrow::Cow, fmt, sync::Arc};

/// One tree at one moment, for decisions.
#[derive(Clone, Debug)]
pub struct Picture<'p> {
    /// The tables.
    pub version: &'p Version,
    /// The shape that is wanted.
    pub wanted: &'p Shape,
    /// The shape that is in force: as wanted, but for run limits that a lazy transition holds.
    pub shape: Cow<'p, Shape>,
    /// When level 0 is due.
    pub level0: Level0,
    /// Levels that the shape needs no more since it was changed.
    pub surplus: Option<Surplus>,
    /// What is being worked on.
    pub claims: &'p Claims,
    /// Which runs take no more data.
    pub seals: &'p Seals,
    /// What changes of run limits still ask for.
    pub held: &'p HeldLimits,
    /// Which tables cannot be read.
    pub damage: &'p Damage,
    /// What readers may still see.
    pub horizon: &'p Horizon,
    /// Which keys lie in several runs, if the tree rests.
    pub overlap: &'p Overlap,
}

impl<'p> Picture<'p> {
    /// The runs of `level`, newest first.
    pub(super) fn runs(&self, level: u32) -> &'p [Arc<Run>] {
        self.version.level(level).runs()
    }

    /// The run of `level` that takes what comes from above.
    pub(super) fn target_run(&self, level: u32) -> RunId {
        self.seals.target_run(self.version, &self.shape, level)
    }

    /// The levels that the tree has.
    pub(super) fn levels(&self) -> std::ops::Range<u32> {
        0..self.version.levels().len() as u32
    }

    /// Whether the level of `runs`, all that it has, is one run that takes all arrivals, and goes
    /// on doing so.
    pub(super) fn is_leveled(&self, runs: &[Arc<Run>]) -> bool {
        let [run] = runs else { return false };
        let level = run.level();
        level > 0
            && self.shape.run_limit(level) == 1
            && run.id() > self.seals.of(level)
            && self.held.held(runs).is_none()
    }
}

impl fmt::Display for Picture<'_> {
    /// The runs, then what is in force and why, one thing a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.version)?;
        writeln!(f, "in force {}", self.shape)?;
        if *self.shape != *self.wanted {
            writeln!(f, "wanted {}", self.wanted)?;
        }
        writeln!(f, "level 0 is {}", self.level0)?;
        self.surplus.iter().try_for_each(|surplus| writeln!(f, "{surplus}"))?;
        for level in self.levels().filter(|level| self.seals.of(*level) > RunId(0)) {
            writeln!(f, "level {level} is sealed up to run {}", self.seals.of(level))?;
        }
        self.claims.iter().try_for_each(|(level, range)| writeln!(f, "claimed: {range} of level {level}"))?;
        self.damage.tables().try_for_each(|table| writeln!(f, "damaged: table {table}"))
    }
}
