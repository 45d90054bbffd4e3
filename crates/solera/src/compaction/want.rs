//! What the levels want, and how badly.
//!
//! Owns [`wants`], which `pick` serves in order, and [`urgency`], by which the workers choose among
//! trees. A reason to work that does not come from a level's fill belongs here too: it is one more
//! [`Want`].

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

/// What `level` wants now. One that is being drained wants work until it is empty.
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
