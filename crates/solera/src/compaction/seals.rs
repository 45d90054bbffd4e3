//! Which runs take no more data: `Seals`, by level the newest sealed run; all older ones are sealed
//! too.
//!
//! A level is emptied piece by piece: `seal` closes the runs that it has at that moment, and
//! arrivals open a new run. A full level is emptied so. So is one that is not full, if that frees
//! space (`space`), or after a greedy change of its run limit. `target_run` says which run of a
//! level takes arrivals: the newest. If that is sealed, or full where the run limit is above 1, it
//! is a new one. `is_draining` says whether a level is being emptied.
//!
//! What must hold: a seal is never taken back. Seals are not on disk. After a restart a level that
//! was being emptied goes on filling until it is full again.
//!
//! Callers: `Ledger` keeps them, and seals when a plan starts or a limit changes; `Picture`,
//! `patience`, `want`, `pick`, `lift` and `space` ask.

use super::shape::Shape;
use crate::{
    ids::RunId,
    version::{Run, Version},
};
use std::sync::Arc;

/// By level: the newest run that is sealed. All older runs of the level are sealed too.
#[derive(Clone, Debug, Default)]
pub struct Seals {
    of_levels: Vec<RunId>,
}

impl Seals {
    /// The newest sealed run of `level`; run 0, which no level has, if none is.
    pub fn of(&self, level: u32) -> RunId {
        self.of_levels.get(level as usize).copied().unwrap_or_default()
    }

    /// From now on `run` of `level` and all older ones take no more data.
    pub(super) fn seal(&mut self, level: u32, run: RunId) {
        if self.of_levels.len() <= level as usize {
            self.of_levels.resize(level as usize + 1, RunId(0));
        }
        let sealed = &mut self.of_levels[level as usize];
        *sealed = run.max(*sealed);
    }

    /// Whether the level of `runs`, all that it has, is being emptied: its oldest run is sealed.
    pub(super) fn is_draining(&self, runs: &[Arc<Run>]) -> bool {
        runs.last().is_some_and(|oldest| oldest.id() <= self.of(oldest.level()))
    }

    /// The run of `level` that takes what comes from above: the newest one, unless it is full or
    /// sealed; then a new one.
    pub(super) fn target_run(&self, version: &Version, shape: &Shape, level: u32) -> RunId {
        let (at, sealed) = (version.level(level), self.of(level));
        let has_room =
            |run: &Run| shape.run_limit(level) == 1 || run.bytes() < shape.run_capacity_bytes(level);
        match at.runs().first() {
            Some(newest) if newest.id() > sealed && has_room(newest) => newest.id(),
            _ => at.next_run().max(RunId(sealed.0 + 1)),
        }
    }
}
