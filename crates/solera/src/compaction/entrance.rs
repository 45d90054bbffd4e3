//! Where newest tables enter the tree: `entrance`, a pure function of a picture and a key range,
//! and `Entrance`.
//!
//! The answer is the deepest level such that neither it nor any level above holds keys of the range
//! or a claim on them. If level 0 itself has such keys, or nothing below is free, it is a new run
//! of level 0. The deeper tables enter, the less is merged again.
//!
//! What must hold: no older entry comes to lie above the new tables (invariant R). A caller that
//! enters tables below level 0 keeps the place by `Ledger::enter` until the tables are installed.
//!
//! Callers: `engine::work::claim_entrance`, for ingestion; `Ledger::enter` claims what it found.
//! Flushes do not ask: they enter level 0.

use super::picture::Picture;
use crate::{ids::RunId, key::KeyRange};
use std::fmt;

/// Where tables enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entrance {
    /// The level.
    pub level: u32,
    /// The run; it need not exist yet.
    pub run: RunId,
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "enter level {} run {}", self.level, self.run)
    }
}

/// The deepest run that tables with keys of `range` can enter: no level above it, nor its own, has
/// keys there or a plan that could bring some (invariant R). A caller that enters tables below
/// level 0 keeps the place by [`Ledger::enter`](super::Ledger::enter) until the tables are
/// installed.
pub fn entrance(picture: &Picture<'_>, range: &KeyRange) -> Entrance {
    let is_free = |level: &u32| {
        let at = picture.version.level(*level);
        !at.overlaps(range) && !picture.claims.overlaps(*level, range)
    };
    let bottom = picture.levels().end.saturating_sub(1).max(1);
    match (0..=bottom).take_while(is_free).last() {
        None | Some(0) => Entrance { level: 0, run: picture.version.level(0).next_run() },
        Some(level) => Entrance { level, run: picture.target_run(level) },
    }
}
