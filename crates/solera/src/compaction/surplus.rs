//! Levels that the shape needs no more since it changed: `Reshaping`, what a tree remembers of the
//! change, and `Surplus`, what its last look found. `changes_depth` says which changes count.
//!
//! With a larger T or larger write buffers the upper levels hold all that there is. Nothing fills
//! them, so nothing would ever leave the levels below. Those are surplus if they, and the last
//! level that is needed, fit into that one. They wait until reads have paid for the merge
//! (docs/decisions/0024), unless the transition is greedy or a user waits.
//!
//! What must hold: without a change of T or of write buffers no level is surplus. It ends: each
//! plan of `lift` takes something out of a surplus level; once there is none the change is over.
//! Nothing of it is on disk. So an open counts as a change if the history of knobs names
//! `size_ratio` or `write_buffer_percent`.
//!
//! Callers: `Ledger` keeps a `Reshaping`; `lift`, `Picture` and `engine::work` look at `Surplus`;
//! `engine::change` asks `changes_depth`.

use super::{
    patience::{BLOCK_READ_NS, PROBE_NS, SCAN_BLOCK_NS},
    shape::Shape,
};
use crate::{stats::LevelCounters, version::Version};
use std::fmt;

/// What a byte of the merge costs, in nanoseconds of rent: four times what level 0's costs, since
/// the next change of the shape may undo it.
const NS_PER_BYTE: u64 = 2;

/// Whether a tree may need another number of levels under another shape.
pub fn changes_depth(old: &Shape, new: &Shape) -> bool {
    (old.size_ratio, old.write_buffer_bytes) != (new.size_ratio, new.write_buffer_bytes)
}

/// Levels that the shape needs no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surplus {
    /// The last level that it needs: what lies deeper comes up into it.
    pub last: u32,
    /// What reads have paid for the levels beyond it since the shape changed, in nanoseconds.
    pub rent_ns: u64,
    /// What the merge costs, in nanoseconds of rent.
    pub price_ns: u64,
    /// Reads have paid, or the merge need not be paid.
    pub is_due: bool,
}

impl fmt::Display for Surplus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Surplus { last, rent_ns, price_ns, is_due } = self;
        let due = if *is_due { "due" } else { "waiting" };
        write!(f, "what lies below level {last} is surplus, {due}; {rent_ns} of {price_ns} ns are paid")
    }
}

/// What is remembered of a change of the shape until no level is surplus.
#[derive(Clone, Debug, Default)]
pub struct Reshaping {
    /// The shape was changed, and a level may be surplus still.
    is_under_way: bool,
    /// By level: what reads had done in vain when they were first looked at.
    settled_ns: Vec<u64>,
    /// Nothing waits for reads any more.
    is_due: bool,
    /// What the last look found.
    found: Option<Surplus>,
}

impl Reshaping {
    /// The shape is about to change; at once: levels that it does not need do not wait for reads.
    pub(super) fn begin(&mut self, at_once: bool) {
        if !self.is_under_way {
            *self = Reshaping { is_under_way: true, ..Reshaping::default() };
        }
        self.is_due |= at_once;
    }

    /// Says which levels are surplus. `reads` gives all that reads ever did in a level.
    pub(super) fn look(
        &mut self,
        version: &Version,
        shape: &Shape,
        reads: &dyn Fn(u32) -> LevelCounters,
    ) -> Option<Surplus> {
        if !self.is_under_way {
            return None;
        }
        let deepest = version.runs().last().map_or(0, |run| run.level());
        let last = last_needed(version, shape);
        if last >= deepest {
            *self = Reshaping::default();
            return None;
        }
        for level in self.settled_ns.len() as u32..=deepest {
            self.settled_ns.push(in_vain_ns(&reads(level)));
        }
        let of_levels = (last..=deepest)
            .map(|level| in_vain_ns(&reads(level)).saturating_sub(self.settled_ns[level as usize]));
        // One of them would be looked into all the same.
        let (sum, most) = of_levels.fold((0, 0), |(sum, most): (u64, u64), ns| (sum + ns, most.max(ns)));
        let rent_ns = sum - most;
        let price_ns = merged_bytes(version, last, deepest).saturating_mul(NS_PER_BYTE);
        self.is_due |= rent_ns >= price_ns;
        self.found = Some(Surplus { last, rent_ns, price_ns, is_due: self.is_due });
        self.found
    }

    /// Surplus levels are not to wait any longer for reads: a user waits for them.
    pub(super) fn hurry(&mut self) {
        self.is_due |= self.found.is_some();
    }

    /// Whether some level would be emptied if reads had paid for it.
    pub(super) fn waits(&self) -> bool {
        self.found.is_some_and(|surplus| !surplus.is_due)
    }
}

/// The last level that `shape` needs: the first that is not filled by what lies in it and deeper.
/// The deepest if there is no such level.
fn last_needed(version: &Version, shape: &Shape) -> u32 {
    let deepest = version.runs().last().map_or(0, |run| run.level());
    let mut bytes = 0u64;
    let fits = |level: &u32| {
        bytes += version.level(*level).bytes();
        bytes < shape.capacity_bytes(*level)
    };
    (1..=deepest).rev().take_while(fits).last().unwrap_or(deepest)
}

/// Bytes that have to be merged for all from level `last` on to lie in it; 0 if a single run can
/// come up as it is.
fn merged_bytes(version: &Version, last: u32, deepest: u32) -> u64 {
    let runs = version.runs().iter().filter(|run| (last..=deepest).contains(&run.level()));
    let (count, bytes) = runs.fold((0, 0), |(count, bytes), run| (count + 1, bytes + run.bytes()));
    if count > 1 { bytes } else { 0 }
}

/// What reads did in a level that they would not have done without it, in nanoseconds: a lookup
/// that finds its key there would have found it elsewhere. Of a scan each block counts: that is too
/// much for long ones, and they pay sooner.
fn in_vain_ns(level: &LevelCounters) -> u64 {
    let looked_into = level.filter_passes + level.unfiltered;
    let in_vain = level.misses().saturating_sub(level.filter_negatives).min(looked_into);
    let share = in_vain as f64 / looked_into.max(1) as f64;
    let blocks_read = (level.lookup_blocks_read as f64 * share) as u64 + level.scan_blocks_read;
    level
        .misses()
        .saturating_mul(PROBE_NS)
        .saturating_add(level.scan_blocks.saturating_mul(SCAN_BLOCK_NS))
        .saturating_add(blocks_read.saturating_mul(BLOCK_READ_NS))
}
