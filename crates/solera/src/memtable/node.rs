//! The nodes of a memtable's tree, and how they change under readers: `Leaf`, `Inner`, `Heads`,
//! `Order`, `Link`.
//!
//! A node has fifteen slots. One word, the `Order`, says which slots count and in what order. The
//! writer fills a slot, then replaces the word. A `Link` is a pointer with the node's skip: so many
//! first bytes that all keys between the node's bounds share, after which heads begin. A `Position`
//! is a key that is looked for, with its head.
//!
//! What must hold: a filled slot keeps its key and head. So a reader that has loaded the order sees
//! a sorted node that does not change, without lock or retry. Only what a slot points to may
//! change, by one word. A full node is replaced by two new ones.
//!
//! Callers: `memtable::tree` (searches and splits), `memtable::cursor` (walks), `memtable::mod`
//! (positions).

use super::record::{Record, RecordHeader};
use crate::{
    key::{common_prefix_len, head, head_after, is_before},
    prefetch::prefetch_bytes,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};
use std::{
    array,
    ptr::{self, NonNull},
};

/// What of a record is asked for before a walk comes to it, from the line on in which it begins: of
/// most the key and all of a small value.
const PREFETCH_BYTES: usize = 128;

/// Slots of a node: with four bits for a slot number and four for the count, what one word can
/// order.
pub(super) const SLOTS: usize = 15;

/// Which slots of a node count, in the order of their keys. Bits 0..4: how many; bits 4 + 4 i and
/// up: the slot of the i-th.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Order(u64);

impl Order {
    /// Slots 0, 1, 2 and so on.
    fn ascending(len: usize) -> Self {
        debug_assert!(len <= SLOTS);
        Order((0..len).fold(len as u64, |word, slot| word | (slot as u64) << (4 + 4 * slot)))
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot of the entry with this rank.
    #[inline]
    pub(super) fn slot(self, rank: usize) -> usize {
        debug_assert!(rank < self.len());
        ((self.0 >> (4 + 4 * rank)) & 15) as usize
    }

    /// This order with the first free slot put at `rank`.
    #[inline]
    fn with_next_slot_at(self, rank: usize) -> Self {
        debug_assert!(rank <= self.len() && self.len() < SLOTS);
        let (slots, shift) = (self.0 >> 4, 4 * rank);
        let before = slots & ((1 << shift) - 1);
        let after = slots >> shift << shift << 4;
        Order((before | (self.len() as u64) << shift | after) << 4 | (self.len() as u64 + 1))
    }
}

/// A place among keys: where this one is, or would be.
#[derive(Clone, Copy)]
pub(super) struct Position<'k> {
    pub(super) key: &'k [u8],
    head: u64,
}

impl<'k> Position<'k> {
    #[inline]
    pub(super) fn of(key: &'k [u8]) -> Self {
        Position { key, head: head(key) }
    }

    /// The key's head in a node with this skip.
    #[inline]
    pub(super) fn head(&self, skip: usize) -> u64 {
        if skip == 0 { self.head } else { head_after(self.key, skip) }
    }
}

/// A pointer to a leaf or an inner node, and the node's skip.
#[derive(Clone, Copy)]
pub(super) struct Link(*mut ());

impl Link {
    /// Nodes begin on cache lines, so that the low bits of their addresses are free.
    const SKIP_MAX: usize = align_of::<Heads>() - 1;

    pub(super) const NULL: Link = Link(ptr::null_mut());

    pub(super) fn new<T>(node: NonNull<T>, skip: usize) -> Self {
        debug_assert!(skip <= Link::SKIP_MAX);
        Link(node.cast::<()>().as_ptr().map_addr(|address| address | skip))
    }

    /// The node, if the link is not null.
    #[inline]
    pub(super) fn node<T>(self) -> Option<NonNull<T>> {
        NonNull::new(self.0.map_addr(|address| address & !Link::SKIP_MAX).cast())
    }

    #[inline]
    pub(super) fn skip(self) -> usize {
        self.0.addr() & Link::SKIP_MAX
    }
}

/// What a search reads first.
///
/// A full node is not emptied: the writer builds two new ones and swaps the pointer. A search that
/// is still in the old node finds there everything that was written before it came.
///
/// Heads lie together in two cache lines with the order word, so that searching a node costs two
/// parallel misses; records are looked at only where heads tie. Keys with a long common prefix
/// would always tie. So a node has a *skip*: so many first bytes that all keys between its bounds
/// share, after which its heads begin. A pointer to the node carries the skip ([`Link`]).
#[repr(C, align(64))]
pub(super) struct Heads {
    order: AtomicU64,
    heads: [AtomicU64; SLOTS],
}

impl Heads {
    fn new(slots: &[Slot]) -> Self {
        let mut heads = slots.iter().map(|slot| slot.head);
        Heads {
            order: AtomicU64::new(Order::ascending(slots.len()).0),
            heads: array::from_fn(|_| AtomicU64::new(heads.next().unwrap_or_default())),
        }
    }

    /// The node as it stands now: everything in the returned order may be read.
    #[inline]
    fn order(&self) -> Order {
        Order(self.order.load(Ordering::Acquire))
    }

    #[inline]
    fn head(&self, slot: usize) -> u64 {
        self.heads[slot].load(Ordering::Relaxed)
    }

    /// How many slots of `order` lie before a position with this head. `is_before` decides for a
    /// slot whose head ties.
    #[inline]
    fn rank(&self, order: Order, wanted: u64, is_before: impl Fn(usize) -> bool) -> usize {
        // Counting needs no order and no jumps: slots 0..len are exactly those that the order
        // names.
        let (mut below, mut through) = (0, 0);
        for slot in &self.heads[..order.len()] {
            let head = slot.load(Ordering::Relaxed);
            below += usize::from(head < wanted);
            through += usize::from(head <= wanted);
        }
        while below < through {
            let middle = below.midpoint(through);
            if is_before(order.slot(middle)) { below = middle + 1 } else { through = middle }
        }
        below
    }

    /// Publishes the slot after the last one, whose other columns are already filled.
    #[inline]
    fn publish(&self, order: Order, rank: usize, head: u64) {
        self.heads[order.len()].store(head, Ordering::Relaxed);
        self.order.store(order.with_next_slot_at(rank).0, Ordering::Release);
    }
}

/// What a slot holds: an entry of a leaf, or a child and its bound.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// The key's head in the node.
    pub(super) head: u64,
    /// The key's newest version, or any of the key that the child begins with. Null stands before
    /// everything.
    pub(super) record: *mut RecordHeader,
    /// Null in a leaf.
    pub(super) child: Link,
}

impl Slot {
    pub(super) fn entry(head: u64, record: Record<'_>) -> Self {
        Slot { head, record: record.into_raw().as_ptr(), child: Link::NULL }
    }

    /// The slot of a child that begins with `bound`, in a node with this skip; `None`: the first
    /// child.
    pub(super) fn child(bound: Option<Record<'_>>, child: Link, skip: usize) -> Self {
        Slot {
            head: bound.map_or(0, |bound| head_after(bound.key(), skip)),
            record: bound.map_or(ptr::null_mut(), |bound| bound.into_raw().as_ptr()),
            child,
        }
    }
}

/// Chooses the skip of a new node with `slots`, which have the heads of a node with the skip
/// `present`. All keys that will ever be looked for in the node lie between `lower` and `upper`
/// (`None`: no limit). If the heads tell the slots apart, all stays as it is; otherwise they are
/// made anew.
pub(super) fn choose_skip(
    slots: &mut [Slot],
    present: usize,
    lower: Option<Record<'_>>,
    upper: Option<Record<'_>>,
) -> usize {
    let (Some(lower), Some(upper)) = (lower, upper) else {
        debug_assert!(present == 0, "a node at the edge of the tree comes from one at the edge");
        return 0;
    };
    if slots.is_sorted_by(|a, b| a.head < b.head) {
        return present;
    }
    let skip = common_prefix_len(lower.key(), upper.key()).min(Link::SKIP_MAX);
    if skip != present {
        for slot in slots {
            // SAFETY: the slots of a node between two bounds all have records, which the writer
            // wrote or found in the same tree. The writer alone makes nodes.
            let record: Record<'_> = unsafe { Record::from_raw(NonNull::new_unchecked(slot.record)) };
            slot.head = head_after(record.key(), skip);
        }
    }
    skip
}

/// A node that holds keys, each with its versions: from its own first one up to the first of
/// `next`; in the first leaf, from the beginning.
#[repr(C)]
pub(super) struct Leaf {
    heads: Heads,
    records: [AtomicPtr<RecordHeader>; SLOTS],
    next: AtomicPtr<()>,
}

impl Leaf {
    /// A leaf with `slots`, in order, before `next`.
    pub(super) fn new(slots: &[Slot], next: Link) -> Self {
        Leaf { heads: Heads::new(slots), records: records_of(slots), next: AtomicPtr::new(next.0) }
    }

    #[inline]
    pub(super) fn order(&self) -> Order {
        self.heads.order()
    }

    /// The head, after the leaf's skip, in a slot that an order of this leaf names.
    #[inline]
    pub(super) fn head(&self, slot: usize) -> u64 {
        self.heads.head(slot)
    }

    /// The newest version of the key in a slot that an order of this leaf names.
    #[inline]
    pub(super) fn record(&self, slot: usize) -> Record<'_> {
        let record = self.records[slot].load(Ordering::Acquire);
        debug_assert!(!record.is_null());
        // SAFETY: the slot was filled from `Record::into_raw` before the order that names it was
        // published, and leaves live in the same arena as their records. A record that has replaced
        // it since was written before, which the load acquires.
        unsafe { Record::from_raw(NonNull::new_unchecked(record)) }
    }

    /// What is in a slot that an order of this leaf names.
    pub(super) fn slot(&self, slot: usize) -> Slot {
        Slot::entry(self.head(slot), self.record(slot))
    }

    /// How many keys lie before `position`.
    #[inline]
    pub(super) fn rank(&self, order: Order, position: Position<'_>, skip: usize) -> usize {
        self.heads.rank(order, position.head(skip), |slot| is_before(self.record(slot).key(), position.key))
    }

    /// Puts a newer version of the same key into a slot that the leaf's present order names.
    #[inline]
    pub(super) fn overwrite(&self, slot: usize, newer: Record<'_>) {
        self.records[slot].store(newer.into_raw().as_ptr(), Ordering::Release);
    }

    /// Adds a key at `rank` of `order`, the leaf's present and not full order.
    #[inline]
    pub(super) fn insert(&self, order: Order, rank: usize, entry: Slot) {
        self.records[order.len()].store(entry.record, Ordering::Relaxed);
        self.heads.publish(order, rank, entry.head);
    }

    /// The leaf after this one; null after the last.
    #[inline]
    pub(super) fn next(&self) -> Link {
        Link(self.next.load(Ordering::Acquire))
    }

    pub(super) fn set_next(&self, next: Link) {
        self.next.store(next.0, Ordering::Release);
    }

    /// Asks for the records of the keys from `rank` on.
    #[inline]
    pub(super) fn prefetch_records(&self, order: Order, rank: usize) {
        for rank in rank..order.len() {
            let record = self.records[order.slot(rank)].load(Ordering::Relaxed).cast();
            prefetch_bytes(record, PREFETCH_BYTES);
        }
    }

    /// Asks for the cache lines of the next leaf.
    #[inline]
    pub(super) fn prefetch_next(&self) {
        prefetch_bytes(self.next().0.cast(), size_of::<Leaf>());
    }
}

/// A node that leads to leaves. A child holds the keys from its bound up to the next child's.
#[repr(C)]
pub(super) struct Inner {
    heads: Heads,
    bounds: [AtomicPtr<RecordHeader>; SLOTS],
    /// 1 if the children are leaves.
    height: usize,
    children: [AtomicPtr<()>; SLOTS],
}

impl Inner {
    /// A node with `slots`, in order.
    pub(super) fn new(height: usize, slots: &[Slot]) -> Self {
        let mut children = slots.iter().map(|slot| slot.child.0);
        Inner {
            heads: Heads::new(slots),
            bounds: records_of(slots),
            height,
            children: array::from_fn(|_| AtomicPtr::new(children.next().unwrap_or_default())),
        }
    }

    #[inline]
    pub(super) fn height(&self) -> usize {
        self.height
    }

    #[inline]
    pub(super) fn order(&self) -> Order {
        self.heads.order()
    }

    #[inline]
    pub(super) fn child(&self, slot: usize) -> Link {
        Link(self.children[slot].load(Ordering::Acquire))
    }

    /// The bound in a slot that an order of this node names; `None` for the first child of all.
    pub(super) fn bound(&self, slot: usize) -> Option<Record<'_>> {
        let bound = NonNull::new(self.bounds[slot].load(Ordering::Relaxed))?;
        // SAFETY: as in `Leaf::record`; bounds are not replaced.
        Some(unsafe { Record::from_raw(bound) })
    }

    /// What is in a slot that an order of this node names.
    pub(super) fn slot(&self, slot: usize) -> Slot {
        let record = self.bounds[slot].load(Ordering::Relaxed);
        Slot { head: self.heads.head(slot), record, child: self.child(slot) }
    }

    /// The rank of the child that holds `position`: the last one whose bound does not lie behind
    /// it.
    #[inline]
    pub(super) fn rank(&self, order: Order, position: Position<'_>, skip: usize) -> usize {
        self.rank_by(order, position, skip, |bound| bound <= position.key)
    }

    /// The rank of the child that holds what is right before `position`: the last one whose bound
    /// lies before it.
    #[inline]
    pub(super) fn rank_before(&self, order: Order, position: Position<'_>, skip: usize) -> usize {
        self.rank_by(order, position, skip, |bound| bound < position.key)
    }

    #[inline]
    fn rank_by(
        &self,
        order: Order,
        position: Position<'_>,
        skip: usize,
        counts: impl Fn(&[u8]) -> bool,
    ) -> usize {
        let counts = |slot: usize| self.bound(slot).is_none_or(|bound| counts(bound.key()));
        // Nothing lies before the first child's bound that an ancestor would have led here.
        self.heads.rank(order, position.head(skip), counts).saturating_sub(1)
    }

    /// Adds a child at `rank` of `order`, the node's present and not full order.
    pub(super) fn insert(&self, order: Order, rank: usize, slot: Slot) {
        self.bounds[order.len()].store(slot.record, Ordering::Relaxed);
        self.children[order.len()].store(slot.child.0, Ordering::Relaxed);
        self.heads.publish(order, rank, slot.head);
    }

    /// Puts another child into a slot.
    pub(super) fn replace_child(&self, slot: usize, child: Link) {
        self.children[slot].store(child.0, Ordering::Release);
    }
}

fn records_of(slots: &[Slot]) -> [AtomicPtr<RecordHeader>; SLOTS] {
    let mut records = slots.iter().map(|slot| slot.record);
    array::from_fn(|_| AtomicPtr::new(records.next().unwrap_or_default()))
}

#[cfg(not(shuttle))]
const _: () = assert!(size_of::<Leaf>() == 256 && size_of::<Inner>() == 384);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_order_is_a_sorted_list_of_slots(ranks in prop::collection::vec(0usize..SLOTS, 0..=SLOTS)) {
            let (mut order, mut list) = (Order::ascending(0), Vec::new());
            for rank in ranks {
                let rank = rank.min(list.len());
                order = order.with_next_slot_at(rank);
                list.insert(rank, list.len());
                prop_assert_eq!(order.len(), list.len());
                prop_assert_eq!((0..order.len()).map(|rank| order.slot(rank)).collect::<Vec<_>>(), list.clone());
            }
        }
    }
}
