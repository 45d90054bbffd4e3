//! Sorted `u64` in the order of a breadth-first walk of their search tree: `Eytzinger`, searched by
//! `up_to`.
//!
//! The first steps of all searches share few cache lines. The eight nodes that a search may be at
//! three steps on share one, which is asked for ahead. Source: Khuong and Morin, Array Layouts for
//! Comparison-Based Searching, 2017. The rank follows from the path alone, so no permutation is
//! stored.
//!
//! What must hold: `up_to(x)` is `partition_point(|key| key <= x)`, equal keys allowed.
//!
//! Callers: `index` and `index::sorted` in `solera`, for the kind `eytzinger`; the example
//! `compare`.

use crate::lanes::prefetch;

/// Keys of a cache line.
const LINE: usize = 8;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u64; LINE]);

/// A sorted array (equal keys allowed) to be searched.
#[derive(Clone, Debug)]
pub struct Eytzinger {
    /// Node `i`, from 1 on, has its children at `2 i` and `2 i + 1`. Node 0 is none.
    lines: Box<[Line]>,
    len: usize,
}

impl Eytzinger {
    /// The layout of `keys`, which ascend (equal ones allowed).
    pub fn new(keys: &[u64]) -> Eytzinger {
        debug_assert!(keys.is_sorted());
        let mut lines = vec![Line([0; LINE]); (keys.len() + 1).div_ceil(LINE)];
        for node in 1..=keys.len() {
            lines[node / LINE].0[node % LINE] = keys[rank_of_node(node, keys.len())];
        }
        Eytzinger { lines: lines.into(), len: keys.len() }
    }

    /// `keys.partition_point(|key| key <= x)`.
    #[inline]
    pub fn up_to(&self, x: u64) -> usize {
        let mut node = 1;
        while node <= self.len {
            // Node 8 i begins the line of what is three steps below node i.
            prefetch(self.lines.as_ptr().wrapping_add(node).cast());
            let key = self.lines[node / LINE].0[node % LINE];
            node = 2 * node + usize::from(key <= x);
        }
        gap_rank(node, self.len)
    }

    /// Keys.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }
}

/// How many of the `n` keys lie before the gap that a search leaves the tree into, as if it were a
/// node numbered `node`.
#[inline]
fn gap_rank(node: usize, n: usize) -> usize {
    // Nodes of the depth of `node`, and the number of `node` among them from the left.
    let depth = node.ilog2();
    let from_left = node - (1 << depth);
    // The deepest level is filled from the left. Each of its nodes makes two gaps of one, so gaps
    // of the level above it, which lie to its right, have all of its nodes before them.
    let full = (1usize << (n + 1).ilog2()) - 1;
    let deepest = n - full;
    let above = depth == full.count_ones();
    if above && deepest > 0 { from_left + deepest } else { from_left }
}

/// The rank of the key in node `node`, from 1 to `n`.
fn rank_of_node(node: usize, n: usize) -> usize {
    // The gap left of the node: once left, then right to the end.
    let mut gap = 2 * node;
    while gap <= n {
        gap = 2 * gap + 1;
    }
    gap_rank(gap, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_of_every_size_count_as_a_scan_does() {
        for n in 0..300u64 {
            let keys: Vec<u64> = (0..n).map(|i| 5 + i / 2 * 3).collect();
            let layout = Eytzinger::new(&keys);
            for x in (0..10 + n * 2).chain([u64::MAX]) {
                assert_eq!(layout.up_to(x), keys.partition_point(|&key| key <= x), "{n} {x}");
            }
        }
    }

    #[test]
    fn every_key_has_a_place() {
        for n in 0..300 {
            let mut ranks: Vec<usize> = (1..=n).map(|node| rank_of_node(node, n)).collect();
            ranks.sort_unstable();
            assert!(ranks.into_iter().eq(0..n));
        }
    }
}
