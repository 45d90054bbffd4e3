//! DobLIX's dual objective, where to cut a sorted stream into blocks: `Cutter`; and `fit`, the line
//! of a finished block with its measured error.
//!
//! A `Policy` is the kind of model: within a corridor of ε (`Pla`), or by least squares (`Pra`). No
//! block may outgrow its bytes; with `Pla` none may leave its corridor either. This is Algorithm 1
//! as corrected in docs/PAPERS.md, "DobLIX: corrections", rows 1 to 7. A key is tested before it is
//! added, bytes and records are two counters, and an error of ε is accepted. The line starts at the
//! block's own first key.
//! What must hold: the cutter spends O(1) on each key, but `reproject` and `fit` go over a block's
//! keys. Keys ascend; an empty block takes any key. A fitted line may err by more than ε, and says
//! so.
//! Callers: `fit` serves `block::build` and `version::run_index` in `solera`, `paper::training` in
//! `solera-bench`, and the fuzz example `seeds`. Only tests here use `Cutter`: Solera's blocks have
//! sizes of their own to cut by, and keep a `Corridor`.

#[cfg(target_arch = "x86_64")]
use crate::avx512;
use crate::{
    bound,
    pla::Corridor,
    pra::{Sums, least_squares_by},
    segment::Line,
};

/// What a block's model is, and with it what may end a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Piecewise linear approximation: a block ends when it is full or when its next key leaves the
    /// corridor of `epsilon` ranks.
    Pla {
        /// The error bound, in records.
        epsilon: u32,
    },
    /// Piecewise regression: a block ends when it is full; its line is the least-squares one.
    Pra,
}

/// Why a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The next key does not fit into the block's bytes.
    Bytes,
    /// No line passes the block's keys and the next one within ε.
    Error,
}

/// Decides, key by key, where blocks end. O(1) per key. Keys come in ascending order.
#[derive(Clone, Debug)]
pub struct Cutter {
    policy: Policy,
    bytes_max: u64,
    bytes: u64,
    records: usize,
    corridor: Option<Corridor>,
}

impl Cutter {
    /// A cutter at the start of an empty block; blocks are to hold at most `bytes_max` encoded
    /// bytes, but always at least one key.
    pub fn new(policy: Policy, bytes_max: u64) -> Self {
        Cutter { policy, bytes_max, bytes: 0, records: 0, corridor: None }
    }

    /// Whether the block must end before a key projected to `x` that takes `bytes`, and why. An
    /// empty block never ends.
    #[inline]
    pub fn cut_before(&self, x: u64, bytes: u64) -> Option<Cut> {
        if self.records == 0 {
            return None;
        }
        if self.bytes.saturating_add(bytes) > self.bytes_max {
            return Some(Cut::Bytes);
        }
        match &self.corridor {
            Some(corridor) if !corridor.admits(x, self.records) => Some(Cut::Error),
            _ => None,
        }
    }

    /// Adds a key projected to `x`, with all its `records` versions and the `bytes` they take
    /// together. A key that should have been cut before is counted too, and leaves the corridor as
    /// it was.
    #[inline]
    pub fn push(&mut self, x: u64, bytes: u64, records: usize) {
        if let Policy::Pla { epsilon } = self.policy {
            let rank = self.records;
            self.corridor.get_or_insert_with(|| Corridor::new(x, epsilon)).push(x, rank);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.records += records;
    }

    /// The block under construction is to be projected anew: a shorter common prefix has moved its
    /// keys to other numbers. `keys` are all its keys so far as `(x, records)` and, where the
    /// caller wants to know about it, the next one. Returns whether the corridor admits them all;
    /// if not (or if there are none), nothing has changed and the caller cuts before the key that
    /// shortened the prefix. Bytes and records stay as they are.
    pub fn reproject(&mut self, keys: impl IntoIterator<Item = (u64, usize)>) -> bool {
        let Policy::Pla { epsilon } = self.policy else { return true };
        let mut keys = keys.into_iter();
        let Some((x0, mut rank)) = keys.next() else { return false };
        let mut corridor = Corridor::new(x0, epsilon);
        for (x, records) in keys {
            if !corridor.push(x, rank) {
                return false;
            }
            rank += records;
        }
        self.corridor = Some(corridor);
        true
    }

    /// Encoded bytes pushed into the block under construction.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Records pushed into the block under construction.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Starts the next block, empty.
    pub fn start_block(&mut self) {
        *self = Cutter::new(self.policy, self.bytes_max);
    }
}

/// A line and how far off it is at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Rank over the distance to the first key.
    pub line: Line,
    /// Its [`bound::measured_error`], in ranks.
    pub error: u32,
}

/// The line of a finished block with these projected keys, ascending, one per record, and its
/// measured error. For [`Policy::Pla`] it is the middle of the corridor (keys that the corridor
/// does not admit, such as many versions of one, do not bend it); the error may then exceed ε, and
/// says so.
pub fn fit(policy: Policy, xs: &[u64]) -> Fit {
    match policy {
        Policy::Pla { epsilon } => {
            let line = corridor_line(epsilon, xs);
            Fit { line, error: bound::measured_error(line, xs) }
        }
        Policy::Pra => regression(xs),
    }
}

/// The middle of the corridor of `epsilon` ranks.
fn corridor_line(epsilon: u32, xs: &[u64]) -> Line {
    let Some(&x0) = xs.first() else { return Line::FLAT };
    let mut corridor = Corridor::new(x0, epsilon);
    let mut previous = x0;
    for (rank, &x) in xs.iter().enumerate().skip(1) {
        // As the cutter pushes them: each distinct key once, at its first rank.
        if x != previous {
            corridor.push(x, rank);
            previous = x;
        }
    }
    corridor.line()
}

/// The least-squares line and its error, by the widest instructions that the processor has: all
/// give the same bits.
fn regression(xs: &[u64]) -> Fit {
    #[cfg(target_arch = "x86_64")]
    if avx512::is_there() {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { regression_avx512(xs) };
    }
    regression_plain(xs)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn regression_avx512(xs: &[u64]) -> Fit {
    let line = least_squares_by(xs, |xs, middle| avx512::sums_of(xs, middle));
    Fit { line, error: avx512::error_of(line, xs) as u32 }
}

fn regression_plain(xs: &[u64]) -> Fit {
    let line = least_squares_by(xs, Sums::of);
    Fit { line, error: bound::measured_error_plain(line, xs) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_block_takes_any_key_and_a_full_one_none() {
        let mut cutter = Cutter::new(Policy::Pra, 100);
        assert_eq!(cutter.cut_before(1, u64::MAX), None);
        cutter.push(1, 60, 1);
        assert_eq!(cutter.cut_before(2, 40), None);
        assert_eq!(cutter.cut_before(2, 41), Some(Cut::Bytes));
        cutter.start_block();
        assert_eq!((cutter.bytes(), cutter.records()), (0, 0));
        assert_eq!(cutter.cut_before(2, 101), None);
    }

    #[test]
    fn a_key_outside_the_corridor_ends_a_pla_block_but_not_a_pra_block() {
        for (policy, cut) in [(Policy::Pla { epsilon: 2 }, Some(Cut::Error)), (Policy::Pra, None)] {
            let mut cutter = Cutter::new(policy, 1 << 20);
            (0..50).for_each(|x| cutter.push(x, 10, 1));
            assert_eq!(cutter.cut_before(50, 10), None);
            assert_eq!(cutter.cut_before(1_000_000, 10), cut);
        }
    }

    #[test]
    fn versions_advance_the_rank_and_not_the_key() {
        let mut cutter = Cutter::new(Policy::Pla { epsilon: 1 }, 1 << 20);
        cutter.push(0, 10, 1);
        cutter.push(1, 10, 1);
        cutter.push(2, 1000, 100);
        // The next key is at rank 102, two units from the keys before it at ranks 0, 1, 2.
        assert_eq!(cutter.cut_before(3, 10), Some(Cut::Error));
        assert_eq!(cutter.records(), 102);
    }

    #[test]
    fn reprojection_replays_the_block_or_changes_nothing() {
        let mut cutter = Cutter::new(Policy::Pla { epsilon: 1 }, 1 << 20);
        (0..20).for_each(|x| cutter.push(x << 8, 10, 1));
        assert!(cutter.reproject((0..20).map(|x| (x, 1))));
        assert_eq!(cutter.cut_before(20, 10), None);
        assert!(!cutter.reproject((0..20).map(|x| (if x < 10 { x } else { 1 << 40 }, 1))));
        assert!(!cutter.reproject([]));
        assert_eq!(cutter.cut_before(20, 10), None);
        assert_eq!(cutter.records(), 20);
    }

    #[test]
    fn every_processor_fits_alike() {
        let mut x = 7u64;
        for n in [0, 1, 2, 3, 4, 5, 7, 8, 9, 56, 57, 255, 1000] {
            for shift in [0, 8, 20, 40, 60, 63] {
                let mut next = || {
                    x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    x >> shift
                };
                let mut xs: Vec<u64> = (0..n).map(|_| next()).collect();
                xs.sort_unstable();
                let (here, everywhere) = (fit(Policy::Pra, &xs), regression_plain(&xs));
                let bits = |fit: Fit| (fit.line.slope().to_bits(), fit.line.intercept().to_bits(), fit.error);
                assert_eq!(bits(here), bits(everywhere), "{n} keys of {} bits", 64 - shift);
            }
        }
    }
}
