//! What the levels want, and how badly: `wants`, `Want` and `urgency`, pure functions of a
//! `Picture`.
//!
//! A level wants work when its score comes to 1. The score of a level below 0 is its bytes, without
//! those that running plans take out, over its capacity. More runs there than `run_count_max` count
//! too. Level 0's score is its runs over those at which it is due; at least 1 where reads have
//! paid. A level that is being drained scores at least 1 until its sealed runs are gone.
//!
//! What must hold: the most pressing want comes first; of equals, the upper level. Each reason to
//! work because of a level's fill stands here.
//!
//! Callers: `pick` serves the wants in order; `engine::work` compares trees by `urgency`; `space`
//! sums what is due (`debt_bytes`); the tests `golden`.

use super::{picture::Picture, plan::Reason};

/// One level wants work.
#[derive(Clone, Debug, PartialEq)]
pub struct Want {
    /// How badly: 1 or more means now.
    pub score: f64,
    /// The level.
    pub level: u32,
    /// Why.
    pub reason: Reason,
}

/// What the levels want now, the most pressing first; of equals, the upper level first.
pub fn wants(picture: &Picture<'_>) -> Vec<Want> {
    let mut wants: Vec<Want> = picture.levels().filter_map(|level| want(picture, level)).collect();
    wants.sort_by(|a, b| b.score.total_cmp(&a.score));
    wants
}

/// The score of the tree's most pressing want in thousandths, to be compared with other trees'; 0:
/// it wants nothing.
pub fn urgency(picture: &Picture<'_>) -> u64 {
    wants(picture).first().map_or(0, |most| (most.score * 1000.0) as u64)
}

/// What `level` wants now. One that is being drained wants work until its sealed runs are gone.
fn want(picture: &Picture<'_>, level: u32) -> Option<Want> {
    let runs = picture.runs(level);
    if runs.is_empty() {
        return None;
    }
    let (mut score, mut reason) = if level == 0 {
        level0_fill(picture, runs.len())
    } else {
        let at = picture.version.level(level);
        let bytes = at.bytes().saturating_sub(picture.claims.leaving_bytes(level));
        let capacity = picture.shape.capacity_bytes(level);
        (bytes as f64 / capacity as f64, Reason::Bytes { bytes, capacity })
    };
    let excess = runs.len() as f64 / f64::from(picture.shape.run_count_max() + 1);
    if level > 0 && excess >= 1.0 && excess > score {
        (score, reason) = (excess, Reason::Excess { count: runs.len() });
    }
    if score < 1.0 && picture.seals.is_draining(runs) {
        (score, reason) = (1.0, Reason::Drain);
    }
    (score >= 1.0).then_some(Want { score, level, reason })
}

/// How full level 0 of `count` runs is, and why it is due if that is 1 or more.
fn level0_fill(picture: &Picture<'_>, count: usize) -> (f64, Reason) {
    use super::patience::Level0Due;
    let limit = picture.level0.due_at(picture.shape.run_limit(0));
    let fill = count as f64 / f64::from(limit);
    match picture.level0.due {
        Level0Due::Paid if fill < 1.0 => (1.0, Reason::Paid { count }),
        _ => (fill, Reason::Runs { count, limit }),
    }
}
