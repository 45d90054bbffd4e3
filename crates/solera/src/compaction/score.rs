//! How badly a level wants work.
//!
//! Owns [`score`], by which `pick` serves the highest level first, and [`urgency`], by which `db` does so
//! with trees.

use super::{
    plan::{InFlight, Reason},
    shape::Shape,
};
use crate::version::Version;

/// How full `level` is, and why it is due. 1 or more means due; a level that is being drained stays due
/// until it is.
pub fn score(version: &Version, shape: &Shape, in_flight: &InFlight, level: u32) -> Option<(f64, Reason)> {
    let runs = version.level(level).runs();
    let oldest = runs.last()?;
    let (mut score, mut reason) = if level == 0 {
        in_flight.level0_score(shape, runs.len())
    } else {
        let bytes = version.level(level).bytes().saturating_sub(in_flight.leaving_bytes(level));
        let capacity = shape.capacity_bytes(level);
        (bytes as f64 / capacity as f64, Reason::Bytes { bytes, capacity })
    };
    let excess = runs.len() as f64 / f64::from(shape.run_count_max() + 1);
    if level > 0 && excess >= 1.0 && excess > score {
        (score, reason) = (excess, Reason::Excess { count: runs.len() });
    }
    if score < 1.0 && oldest.id() <= in_flight.sealed(level) {
        (score, reason) = (1.0, Reason::Drain);
    }
    (score >= 1.0).then_some((score, reason))
}

/// The highest score of the tree's levels, in thousandths, to be compared with other trees'; 0: nothing is
/// due.
pub fn urgency(version: &Version, shape: &Shape, in_flight: &InFlight) -> u64 {
    let shape = &*in_flight.in_force(version, shape);
    let levels = 0..version.levels().len() as u32;
    let scores = levels.filter_map(|level| score(version, shape, in_flight, level));
    scores.map(|(score, _)| (score * 1000.0) as u64).max().unwrap_or(0)
}
