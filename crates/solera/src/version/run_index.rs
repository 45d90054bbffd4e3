//! Which table of a run may hold a key: `RunIndex`, over the heads of the tables' first and last
//! keys.
//!
//! If a line over the first heads is right within 8 tables, `find` predicts by it and walks a few.
//! Else it searches an S-tree of the heads (docs/decisions/0007 "The tables of a run"). Heads
//! follow the prefix that all bounds share. Key bytes beyond are compared only where heads tie.
//! `share` guesses which part of a key range lies in another, by heads.
//!
//! What must hold: the ranges are sorted, disjoint and not empty. `find` gives the range that holds
//! the key, or none.
//!
//! Caller: `run` (`Run::find` for lookups; `share` in `TableRef::new` and `bytes_within`).

use crate::key::{KeyEnd, KeyRange, begins_with, common_prefix_len, head_after};
use solera_model::{
    Line,
    dual::{self, Fit, Policy},
    search,
    stree::STree,
};

/// A line that is off by more tables than this is not used: a walk of one cache line of heads.
const LINE_ERROR_MAX: usize = 8;

/// The ends of sorted, disjoint ranges of keys.
#[derive(Debug)]
pub(super) struct RunIndex {
    /// What all bounds have in common. A key in any of the ranges has it too, because between two
    /// keys with a common prefix there are only keys with that prefix.
    prefix: Box<[u8]>,
    /// The 8 bytes after the prefix of every range's start.
    starts: Starts,
    /// The same of every range's end; the largest number for a range without end.
    ends: Box<[u64]>,
}

/// Ascending heads (equal ones allowed), and what says where one is among them.
#[derive(Debug)]
enum Starts {
    /// The number of a head over the head, and by how many it is off at most.
    Line {
        heads: Box<[u64]>,
        line: Line,
        error: usize,
    },
    Tree(STree),
}

impl Starts {
    fn new(heads: Vec<u64>) -> Starts {
        let Fit { line, error } = dual::fit(Policy::Pra, &heads);
        match error as usize {
            error @ 0..=LINE_ERROR_MAX => Starts::Line { heads: heads.into(), line, error },
            _ => Starts::Tree(STree::new(&heads)),
        }
    }

    #[inline]
    fn get(&self, i: usize) -> u64 {
        match self {
            Starts::Line { heads, .. } => heads[i],
            Starts::Tree(tree) => tree.get(i),
        }
    }

    /// How many are not above `wanted`.
    #[inline(always)]
    fn up_to(&self, wanted: u64) -> usize {
        match self {
            // A small keyspace has one table: no line has to be asked.
            Starts::Line { heads, .. } if heads.len() == 1 => usize::from(heads[0] <= wanted),
            Starts::Line { heads, line, error } => {
                let (Some(&first), Some(behind)) = (heads.first(), wanted.checked_add(1)) else {
                    return heads.len();
                };
                search::lower_bound(heads, behind, line.rank(first, wanted, heads.len()), *error)
            }
            Starts::Tree(tree) => tree.up_to(wanted),
        }
    }
}

impl RunIndex {
    /// The index of `ranges`, which are sorted, disjoint and not empty.
    pub(super) fn new<'r>(ranges: impl Iterator<Item = &'r KeyRange> + Clone) -> RunIndex {
        let bounds = || ranges.clone().flat_map(|range| [Some(&range.start[..]), range.end.key()]);
        let mut prefix: &[u8] = bounds().next().flatten().unwrap_or_default();
        for bound in bounds() {
            prefix = &prefix[..common_prefix_len(prefix, bound.unwrap_or_default())];
        }
        let skip = prefix.len();
        RunIndex {
            prefix: prefix.into(),
            starts: Starts::new(ranges.clone().map(|range| head_after(&range.start, skip)).collect()),
            ends: ranges.map(|range| range.end.key().map_or(u64::MAX, |end| head_after(end, skip))).collect(),
        }
    }

    /// The number of the range that holds `key`. `range(i)` is the i-th range, asked for only when
    /// the heads do not decide.
    #[inline(always)]
    pub(super) fn find<'r>(&self, key: &[u8], range: impl Fn(usize) -> &'r KeyRange) -> Option<usize> {
        if !begins_with(key, &self.prefix) {
            return None;
        }
        let wanted = head_after(key, self.prefix.len());
        let mut upto = self.starts.up_to(wanted);
        if upto > 0 && self.starts.get(upto - 1) == wanted {
            upto = self.upto_among_ties(key, wanted, upto, &range);
        }
        let at = upto.checked_sub(1)?;
        let inside = match self.ends[at].cmp(&wanted) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => range(at).end.admits(key),
        };
        inside.then_some(at)
    }

    /// How many ranges start at or before `key`, when the last of `upto` has the key's head.
    #[cold]
    fn upto_among_ties<'r>(
        &self,
        key: &[u8],
        wanted: u64,
        upto: usize,
        range: &impl Fn(usize) -> &'r KeyRange,
    ) -> usize {
        let mut low = wanted.checked_sub(1).map_or(0, |below| self.starts.up_to(below));
        let mut high = upto;
        while low < high {
            let middle = low.midpoint(high);
            if range(middle).start[..] <= *key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// Which part of `whole` lies within `part`, judged by the heads of their bounds: 0 to 1. A guess
/// for planning; keys need not be spread evenly.
pub(super) fn share(whole: &KeyRange, part: &KeyRange) -> f64 {
    if part == whole {
        return 1.0;
    }
    let (KeyEnd::Included(last) | KeyEnd::Excluded(last)) = &whole.end else { return 1.0 };
    let skip = common_prefix_len(&whole.start, last);
    let place = |bound: &[u8]| head_after(bound, skip);
    let (low, high) = (place(&whole.start), place(last));
    let from = place(&part.start).clamp(low, high);
    let to = part.end.key().map_or(high, |end| place(end).clamp(from, high));
    if high == low { 0.5 } else { (to - from) as f64 / (high - low) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sorted disjoint ranges over short keys of few letters behind a common prefix.
    fn ranges() -> impl Strategy<Value = Vec<KeyRange>> {
        let key = prop::collection::vec(0u8..3, 0..12);
        let bounds = prop::collection::btree_set(key, 0..200);
        (prop::collection::vec(0u8..3, 0..12), bounds, any::<u64>()).prop_map(|(prefix, bounds, ends)| {
            let bounds: Vec<Vec<u8>> =
                bounds.into_iter().map(|bound| [&prefix[..], &bound].concat()).collect();
            let pairs = bounds.chunks_exact(2).enumerate();
            pairs
                .map(|(i, pair)| match ends >> (i % 64) & 1 {
                    0 => KeyRange::closed(&pair[0], &pair[1]),
                    _ => KeyRange::half_open(&pair[0], &pair[1]),
                })
                .collect()
        })
    }

    #[test]
    fn a_run_gets_a_line_if_that_is_nearly_right_and_a_tree_if_not() {
        let index = |start: fn(u64) -> u64| {
            let start = |i| start(i).to_be_bytes();
            let ranges: Vec<_> = (0..500).map(|i| KeyRange::closed(&start(i), &start(i))).collect();
            RunIndex::new(ranges.iter())
        };
        assert!(matches!(index(|i| i << 50).starts, Starts::Line { error: 0 | 1, .. }));
        assert!(matches!(index(|i| i * i * i * i).starts, Starts::Tree(_)));
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_scan_of_the_ranges_finds(
            mut ranges in ranges(),
            unbounded: bool,
            keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..20), 0..40),
        ) {
            if let Some(last) = ranges.last_mut().filter(|_| unbounded) {
                last.end = KeyEnd::Unbounded;
            }
            let index = RunIndex::new(ranges.iter());
            let bounds: Vec<Vec<u8>> =
                ranges.iter().flat_map(|r| [Some(&r.start[..]), r.end.key()]).flatten().map(<[u8]>::to_vec).collect();
            for key in keys.iter().chain(&bounds) {
                let scanned = ranges.iter().position(|range| range.contains(key));
                prop_assert_eq!(index.find(key, |i| &ranges[i]), scanned);
            }
        }

        #[test]
        fn the_model_of_a_run_counts_as_halving_does(
            starts in prop_oneof![
                prop::collection::vec(any::<u64>(), 0..200),
                prop::collection::vec(0u64..100, 0..200),
                prop::collection::vec((0u64..64).prop_map(|shift| u64::MAX >> shift), 0..200),
                // Few clusters: one line is off by tens.
                prop::collection::vec((0u64..3, 0u64..1 << 20).prop_map(|(far, near)| far << 40 | near), 0..200),
            ],
            wanted: Vec<u64>,
        ) {
            let mut starts = starts;
            starts.sort_unstable();
            let ranges: Vec<KeyRange> =
                starts.iter().map(|start| KeyRange::closed(&start.to_be_bytes(), &start.to_be_bytes())).collect();
            let index = RunIndex::new(ranges.iter());
            let starts: Vec<u64> = ranges.iter().map(|range| head_after(&range.start, index.prefix.len())).collect();
            let near = starts.iter().flat_map(|&start| [start.saturating_sub(1), start, start.saturating_add(1)]);
            for x in near.chain(wanted).chain([0, u64::MAX]) {
                prop_assert_eq!(index.starts.up_to(x), starts.partition_point(|&start| start <= x));
            }
        }

        #[test]
        fn shares_of_a_split_range_add_up_to_one(cut in 1u64..9999) {
            let key = |n: u64| [b"user".to_vec(), n.to_be_bytes().to_vec()].concat();
            let whole = KeyRange::closed(&key(0), &key(10_000));
            let left = KeyRange::half_open(&key(0), &key(cut));
            let right = KeyRange { start: key(cut).into(), end: whole.end.clone() };
            let sum = share(&whole, &left) + share(&whole, &right);
            prop_assert!((sum - 1.0).abs() < 1e-9);
            prop_assert!((share(&whole, &left) - cut as f64 / 10_000.0).abs() < 1e-9);
        }
    }
}
