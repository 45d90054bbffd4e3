//! How long level 0 waits with its merge, until reads have paid for it: `Reckoning` and `Level0`.
//!
//! A merge of level 0 writes most of level 1 anew, so it should take many runs at once; but each
//! waiting run costs reads. This is ski rental (Karlin, Manasse, Rudolph, Sleator, 1988): rent
//! until the rent comes to the price, then buy. The rent is what reads did in level 0 since its
//! last merge; the price is that merge (docs/decisions/0016).
//!
//! What must hold: where a merge can be spared, level 0 is due once reads have paid, however few
//! runs it has. Else it is due at as many runs as the knob `level0_patience` says. Where none can
//! be spared, it is due at its run limit. So it is where tables can move, a user waits, or that
//! knob is not above the limit.
//!
//! Callers: `Ledger::picture` (`look`), `want` (`Level0::due_at`), `control::observe`,
//! `engine::work` (`waits`), `tree::settings` (the default); `surplus` prices reads by its
//! constants.

use super::{seals::Seals, shape::Shape};
use crate::{
    ids::RunId,
    key::KeyRange,
    stats::LevelCounters,
    version::{TableRef, Version},
};
use std::fmt;

/// Runs that level 0 comes to without reads: three times T-1 of the default size ratio. With T-1
/// runs of a whole write buffer, level 0 would be to level 1 as level 1 to level 2. But a write
/// buffer of small entries leaves half of its bytes, and where no reader reads, an earlier merge
/// saves disk alone (docs/decisions/0016 has the figures).
pub const LEVEL0_PATIENCE_DEFAULT: u32 = 27;

/// What a lookup pays for a table of level 0: its filter, its fence, its share of the cache.
pub(super) const PROBE_NS: u64 = 100;
/// What a scan pays for each block of level 0 that it comes to: to find the place in it, and to be
/// one source more for a while.
pub(super) const SCAN_BLOCK_NS: u64 = 1000;
/// What both pay for a block of level 0 that has to be read from a file.
pub(super) const BLOCK_READ_NS: u64 = 20_000;
/// Bytes of a merge whose price is a nanosecond of rent. A background thread takes some 4 ns to
/// read and write a byte again. Rent is time that a reader waits for, and is weighed eight times as
/// much.
const BYTES_PER_NS: u64 = 2;

/// What reads ever paid for runs of level 0, in nanoseconds. The unit costs are those of one
/// machine; only their relation counts.
fn rent_ns(level0: &LevelCounters) -> u64 {
    let probes = level0.tables_probed().saturating_mul(PROBE_NS);
    let blocks = level0.scan_blocks.saturating_mul(SCAN_BLOCK_NS);
    probes.saturating_add(blocks).saturating_add(level0.blocks_read().saturating_mul(BLOCK_READ_NS))
}

/// What a merge that concerns `bytes` costs, in nanoseconds of rent.
fn price_ns(bytes: u64) -> u64 {
    bytes / BYTES_PER_NS
}

/// When level 0 is due, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level0 {
    /// When it is due.
    pub due: Level0Due,
    /// What reads have paid since runs of it were last merged, in nanoseconds; 0 if no merge can be
    /// spared.
    pub rent_ns: u64,
    /// What its merge costs, in nanoseconds of rent; 0 if no merge can be spared.
    pub price_ns: u64,
}

/// When level 0 is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level0Due {
    /// When it comes to its run limit.
    #[default]
    AtLimit,
    /// When it comes to so many runs, more than its limit, or reads have paid for its merge.
    AtRuns(u32),
    /// Now, however few runs it has: reads have paid for its merge.
    Paid,
}

impl fmt::Display for Level0 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.due {
            Level0Due::AtLimit => f.write_str("due at its run limit")?,
            Level0Due::AtRuns(runs) => write!(f, "due at {runs} runs, or when reads have paid")?,
            Level0Due::Paid => f.write_str("due, since reads have paid")?,
        }
        match self.price_ns {
            0 => f.write_str("; no merge can be spared"),
            price_ns => write!(f, "; {} of {price_ns} ns are paid", self.rent_ns),
        }
    }
}

impl Level0 {
    /// Whether level 0 would be due if reads had paid for its merge.
    pub fn waits(&self) -> bool {
        matches!(self.due, Level0Due::AtRuns(_))
    }

    /// Runs at which it is due where `limit` is its run limit, if reads do not pay before.
    pub fn due_at(&self, limit: u32) -> u32 {
        match self.due {
            Level0Due::AtRuns(patience) => patience,
            Level0Due::AtLimit | Level0Due::Paid => limit,
        }
    }
}

/// What is remembered of level 0 from one decision to the next, to know what reads have paid.
#[derive(Clone, Debug, Default)]
pub struct Reckoning {
    /// What reads had paid when a run of level 0 was last merged, or when no merge could be spared.
    settled_ns: u64,
    /// No merge could be spared at the last look, or the merge was under way.
    is_rent_free: bool,
    /// The runs of level 0 at the last look.
    runs: Vec<RunId>,
    /// A user waits for level 0, which waits for reads: its next merge need not be paid.
    is_hurried: bool,
    /// What the last look found.
    last: Level0,
}

impl Reckoning {
    /// Says when level 0 is due. `reads` is all that reads ever did there; `patience` is the runs
    /// at which it is merged though they have not paid, and none if it is not above the run limit.
    pub(super) fn look(
        &mut self,
        version: &Version,
        shape: &Shape,
        seals: &Seals,
        patience: u32,
        reads: &LevelCounters,
    ) -> Level0 {
        self.last = Level0::default();
        let limit = shape.run_limit(0);
        if patience <= limit {
            self.is_rent_free = true;
            return self.last;
        }
        let runs = version.level(0).runs();
        let all_rent_ns = rent_ns(reads);
        let is_merged = self.runs.iter().any(|&run| runs.iter().all(|at| at.id() != run));
        if self.is_rent_free || is_merged {
            self.settled_ns = all_rent_ns;
            self.is_hurried = false;
        }
        self.runs.clear();
        self.runs.extend(runs.iter().map(|run| run.id()));

        let bytes = merge_bytes(version, shape, seals);
        self.is_rent_free = bytes == 0 || seals.is_draining(runs);
        if self.is_rent_free {
            return self.last;
        }
        let (rent_ns, price_ns) = (all_rent_ns.saturating_sub(self.settled_ns), price_ns(bytes));
        let is_full = runs.len() >= limit as usize;
        let due = match is_full && (self.is_hurried || shape.are_small(runs)) {
            true => Level0Due::AtLimit,
            false if runs.len() >= patience as usize => Level0Due::AtLimit,
            false if rent_ns >= price_ns => Level0Due::Paid,
            false => Level0Due::AtRuns(patience),
        };
        self.last = Level0 { due, rent_ns, price_ns };
        self.last
    }

    /// What the last look found.
    pub(super) fn last(&self) -> Level0 {
        self.last
    }

    /// Level 0 of `runs` runs is not to wait any longer for reads, if it does and has come to its
    /// run limit: a user waits for it.
    pub(super) fn hurry(&mut self, version: &Version, shape: &Shape) {
        let is_full = version.level(0).runs().len() >= shape.run_limit(0) as usize;
        self.is_hurried |= self.last.waits() && is_full;
    }
}

/// Bytes that a merge of level 0 concerns: its own and those of level 1 that they overlap; 0 if its
/// tables can move down as they are. Small runs are merged with each other, and one alone is not.
fn merge_bytes(version: &Version, shape: &Shape, seals: &Seals) -> u64 {
    let runs = version.level(0).runs();
    if shape.is_little(runs) {
        return if runs.len() > 1 { version.level(0).bytes() } else { 0 };
    }
    let target = version.level(1).run(seals.target_run(version, shape, 1));
    let mut ranges: Vec<KeyRange> = runs.iter().map(|run| run.range()).collect();
    ranges.sort_by(|a, b| a.start.cmp(&b.start));
    let overlapped: u64 = match (target, ranges.iter().cloned().reduce(|a, b| a.hull(&b))) {
        (Some(run), Some(hull)) => run.overlapping(&hull).iter().map(TableRef::bytes).sum(),
        _ => 0,
    };
    match overlapped == 0 && ranges.iter().zip(ranges.iter().skip(1)).all(|(a, b)| !a.overlaps(b)) {
        true => 0,
        false => version.level(0).bytes() + overlapped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pay_by_what_they_did_in_level_0() {
        let reads =
            LevelCounters { filter_negatives: 600, unfiltered: 400, scan_blocks: 30, ..Default::default() };
        let rent = rent_ns(&reads);
        assert_eq!(rent, 1000 * PROBE_NS + 30 * SCAN_BLOCK_NS);
        assert!(rent >= price_ns(rent * BYTES_PER_NS) && rent < price_ns((rent + 1) * BYTES_PER_NS));
        let cold = LevelCounters { scan_blocks_read: 20, lookup_blocks_read: 10, ..reads };
        assert_eq!(rent_ns(&cold), rent + 30 * BLOCK_READ_NS);
        assert_eq!(rent_ns(&LevelCounters::default()), 0);
        let all = LevelCounters { unfiltered: u64::MAX / 2, ..reads };
        assert!(rent_ns(&all) >= price_ns(u64::MAX));
    }
}
