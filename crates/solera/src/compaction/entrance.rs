//! Where tables that are newer than everything enter the tree.
//!
//! Owns [`entrance`], a pure function. A flush enters level 0, since its keys may be anywhere.
//! Tables that somebody ingests may enter lower: the deeper they enter, the less is merged again.

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
/// keys there or a plan that could bring some (invariant R). Whoever enters below level 0 keeps the
/// place by [`Ledger::enter`](super::Ledger::enter) until the tables are installed.
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
