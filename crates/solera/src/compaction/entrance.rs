//! Where tables that are newer than everything enter the tree.
//!
//! Owns [`entrance`]. A flush enters level 0, since its keys may be anywhere. Tables that somebody ingests may
//! enter lower, the better the less has to be merged again.

use super::{
    pick::target_run,
    plan::{InFlight, Ticket},
    shape::Shape,
};
use crate::{ids::RunId, key::KeyRange, version::Version};

/// The deepest run that tables with keys of `range` can enter: no level above it, nor its own, has keys there
/// or a plan that could bring some (invariant R). If that is not level 0, the entry holds its place until
/// [`InFlight::finish`] is called with the ticket, after the tables are installed.
pub fn entrance(
    version: &Version,
    shape: &Shape,
    in_flight: &mut InFlight,
    range: &KeyRange,
) -> (u32, RunId, Option<Ticket>) {
    let shape = &*in_flight.in_force(version, shape);
    let is_free = |level: &u32| {
        let runs = version.level(*level).runs();
        runs.iter().all(|run| run.overlapping(range).is_empty()) && !in_flight.claimed(*level, range)
    };
    let bottom = (version.levels().len() as u32).saturating_sub(1).max(1);
    match (0..=bottom).take_while(is_free).last() {
        None | Some(0) => (0, version.level(0).next_run(), None),
        Some(level) => {
            let run = target_run(version, shape, in_flight, level);
            (level, run, Some(in_flight.enter(level, range)))
        }
    }
}
