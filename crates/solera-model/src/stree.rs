//! The S-tree: `STree`, a static B+tree of sorted `u64` in nodes of one cache line, 8 keys each,
//! compared at once.
//!
//! It is the layout of Khuong and Morin's study of static search trees, with B+tree leaves. The
//! leaves are the sorted array itself, so that a rank is a position. Inner nodes, 8 keys for 9
//! children, add an eighth. A search reads one line for each level: 4 levels for 4,096 keys.
//!
//! What must hold: `up_to(x)` is `partition_point(|key| key <= x)`, equal keys allowed, with all
//! instructions (`Lanes`).
//!
//! Callers: `boundaries` and its `stored` (first boundaries of segments); `index`, `index::sorted`
//! and `version::run_index` in `solera`; the examples `compare` and `segments`.

use crate::lanes::{Instructions, Lanes, Query};

/// Keys of a node: a cache line.
const NODE: usize = 8;
/// Children of an inner node.
const CHILDREN: usize = NODE + 1;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Node([u64; NODE]);

/// Where the nodes of a level lie: the first, and the last counted from it.
#[derive(Clone, Copy, Debug)]
struct Level {
    first: u32,
    last: u32,
}

/// A sorted array (equal keys allowed) to be searched.
#[derive(Clone, Debug)]
pub struct STree {
    /// Level after level, the root's first, the leaves last.
    nodes: Box<[Node]>,
    /// Every level below the root's, the leaves' last.
    levels: Box<[Level]>,
    /// The first leaf among the nodes.
    leaves: u32,
    len: u32,
    lanes: Lanes,
}

impl STree {
    /// The tree over `keys`, which ascend (equal ones allowed), less than 2^32.
    pub fn new(keys: &[u64]) -> STree {
        STree::with_lanes(keys, Lanes::detect())
    }

    /// [`STree::new`] with instructions of one's choice, which must be [`Lanes::available`].
    ///
    /// # Panics
    /// If they are not.
    pub fn with_lanes(keys: &[u64], lanes: Lanes) -> STree {
        debug_assert!(keys.is_sorted());
        assert!(Lanes::available().contains(&lanes), "instructions that the processor has");
        assert!(u32::try_from(keys.len()).is_ok(), "an S-tree counts keys in 32 bits");
        // Positions after the last key are filled up with the largest number: it is counted only
        // for itself, and the answer is cut to the count of keys.
        let fill = |mut keys: &mut dyn Iterator<Item = u64>| {
            let mut nodes = Vec::new();
            loop {
                let mut node = Node([u64::MAX; NODE]);
                let filled = node.0.iter_mut().zip(&mut keys).map(|(place, key)| *place = key).count();
                if filled == 0 {
                    break nodes;
                }
                nodes.push(node);
            }
        };
        let mut levels = vec![fill(&mut keys.iter().copied())];
        // The keys below each child of a level: its least one leads to it.
        let mut stride = NODE;
        while let Some(below) = levels.last().filter(|below| below.len() > 1) {
            let children = below.len();
            let mut led = (0..children)
                .filter(|child| child % CHILDREN != 0)
                .map(|child| keys[(child * stride).min(keys.len() - 1)]);
            let above = fill(&mut led);
            // A last node with one child only has no key; it must be there all the same.
            let missing = children.div_ceil(CHILDREN) - above.len();
            levels.push(above.into_iter().chain((0..missing).map(|_| Node([u64::MAX; NODE]))).collect());
            stride *= CHILDREN;
        }
        levels.reverse();
        let mut first = 0;
        let places = levels.iter().map(|level| {
            let count = level.len() as u32;
            first += count;
            Level { first: first - count, last: count.saturating_sub(1) }
        });
        let levels_below: Box<[Level]> = places.skip(1).collect();
        let leaves = levels_below.last().map_or(0, |level| level.first);
        STree { levels: levels_below, nodes: levels.concat().into(), leaves, len: keys.len() as u32, lanes }
    }

    /// `keys.partition_point(|key| key <= x)`.
    #[inline]
    pub fn up_to(&self, x: u64) -> usize {
        self.up_to_early(x, |_| {})
    }

    /// [`STree::up_to`]; `early` is told, before the leaf is read, a rank that the answer is at
    /// most half a leaf away from: 4. A caller that goes on with what lies at that rank can ask for
    /// it meanwhile.
    #[inline]
    pub fn up_to_early(&self, x: u64, early: impl Fn(usize)) -> usize {
        // SAFETY: an S-tree is made with instructions that the processor has: `with_lanes` asserts
        // it.
        unsafe { self.lanes.ask(UpTo { tree: self, x, early }) }
    }

    /// The search by these instructions.
    #[inline(always)]
    pub(crate) fn up_to_by(&self, by: impl Instructions, x: u64, early: impl Fn(usize)) -> usize {
        let Some(mut node) = self.nodes.first() else { return 0 };
        let mut number = 0;
        for level in &*self.levels {
            // The filling counts for the largest number only, and there may be no such child.
            number = (number * CHILDREN + by.up_to(&node.0, x)).min(level.last as usize);
            node = &self.nodes[level.first as usize + number];
        }
        early(number * NODE + NODE / 2);
        (number * NODE + by.up_to(&node.0, x)).min(self.len())
    }

    /// Keys.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The key at `rank`, which must be below [`STree::len`].
    #[inline]
    pub fn get(&self, rank: usize) -> u64 {
        assert!(rank < self.len(), "a key of the tree");
        self.nodes[self.leaves as usize + rank / NODE].0[rank % NODE]
    }

    /// Cache lines that a search touches: one per level.
    pub fn lines(&self) -> usize {
        self.levels.len() + usize::from(self.len > 0)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.levels)
    }
}

/// [`STree::up_to_early`].
struct UpTo<'t, E> {
    tree: &'t STree,
    x: u64,
    early: E,
}

impl<E: Fn(usize)> Query for UpTo<'_, E> {
    type Answer = usize;
    const IN_512_BITS: bool = true;

    #[inline(always)]
    fn by(self, by: impl Instructions) -> usize {
        self.tree.up_to_by(by, self.x, self.early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_of_every_size_around_their_nodes_count_as_a_scan_does() {
        let large = if cfg!(miri) { &[81][..] } else { &[647, 648, 649, 656, 720, 729, 5832, 5833, 6561] };
        for n in (0..if cfg!(miri) { 12 } else { 200 }).chain(large.iter().copied()) {
            let keys: Vec<u64> = (0..n).map(|i| 5 + i / 3 * 4).collect();
            for lanes in Lanes::available() {
                let tree = STree::with_lanes(&keys, lanes);
                assert_eq!(tree.len(), keys.len());
                for x in (0..10 + n * 4 / 3 + 8).chain([u64::MAX - 1, u64::MAX]) {
                    assert_eq!(tree.up_to(x), keys.partition_point(|&key| key <= x), "{lanes:?} {n} {x}");
                }
                assert!((0..keys.len()).all(|rank| tree.get(rank) == keys[rank]));
            }
        }
    }

    #[test]
    fn the_largest_number_is_told_from_the_filling() {
        for n in 0..if cfg!(miri) { 10 } else { 100 } {
            for of_them in 0..=n {
                let keys: Vec<u64> = (0..n).map(|i| if i < n - of_them { 7 } else { u64::MAX }).collect();
                for lanes in Lanes::available() {
                    let tree = STree::with_lanes(&keys, lanes);
                    assert_eq!(
                        (tree.up_to(u64::MAX), tree.up_to(u64::MAX - 1)),
                        (n, n - of_them),
                        "{lanes:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_tree_takes_nine_bytes_per_key() {
        let keys: Vec<u64> = (0..4096).collect();
        let tree = STree::new(&keys);
        assert!(tree.bytes() < 4096 * 9 + 256, "{}", tree.bytes());
    }
}
