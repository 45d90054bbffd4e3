//! The nodes of a memtable's tree and how they change under readers.
//!
//! Owns [`Leaf`], [`Inner`] and [`Order`], the word that publishes both. A node has fifteen slots. A
//! slot, once filled, keeps its head and its record; which slots count, and in which order, is said by
//! one word that the writer replaces after filling a slot. So a reader that has loaded the word sees a
//! sorted node that does not change any more, without a lock, a version or a retry. What can change later
//! is only what a slot of an inner node points to, and that is one word too.
//!
//! A full node is not emptied: the writer builds two new ones and swaps the pointer. Whoever is still
//! in the old node finds there everything that was written before he came.
//!
//! Heads lie together in two cache lines with the order word, so that searching a node costs two
//! parallel misses; records are looked at only where heads tie.

use super::arena::{Record, RecordHeader};
use crate::ids::Seqno;
use std::{
    array,
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, AtomicU64, Ordering},
};

/// Slots of a node: with four bits for a slot number and four for the count, what one word can order.
pub(super) const SLOTS: usize = 15;

/// Which slots of a node count, in the order of their keys. Bits 0..4: how many; bits 4 + 4 i and up: the
/// slot of the i-th.
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

/// A place among entries: before the newest version of a key that a sequence number sees.
#[derive(Clone, Copy)]
pub(super) struct Position<'k> {
    pub(super) head: u64,
    pub(super) key: &'k [u8],
    pub(super) seqno: Seqno,
}

/// What a search reads first.
#[repr(C, align(64))]
pub(super) struct Heads {
    order: AtomicU64,
    heads: [AtomicU64; SLOTS],
}

impl Heads {
    fn new(heads: impl ExactSizeIterator<Item = u64>) -> Self {
        let order = Order::ascending(heads.len());
        let mut filled = heads;
        Heads {
            order: AtomicU64::new(order.0),
            heads: array::from_fn(|_| AtomicU64::new(filled.next().unwrap_or_default())),
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

    /// How many slots of `order` lie before `position`. `is_before` decides for a slot whose head ties.
    #[inline]
    fn rank(&self, order: Order, position: Position<'_>, is_before: impl Fn(usize) -> bool) -> usize {
        // Counting needs no order and no jumps: slots 0..len are exactly those that the order names.
        let (mut below, mut through) = (0, 0);
        for slot in &self.heads[..order.len()] {
            let head = slot.load(Ordering::Relaxed);
            below += usize::from(head < position.head);
            through += usize::from(head <= position.head);
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

/// An entry of a leaf, or the bound of a child: the head and where the record lies. A null record stands
/// before everything.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) head: u64,
    pub(super) record: *mut RecordHeader,
}

impl Bound {
    /// Before every entry.
    pub(super) const LOWEST: Bound = Bound { head: 0, record: ptr::null_mut() };
}

/// A node that holds entries: those from its own first one up to the first of `next`; in the first leaf,
/// from the beginning.
#[repr(C)]
pub(super) struct Leaf {
    heads: Heads,
    records: [AtomicPtr<RecordHeader>; SLOTS],
    next: AtomicPtr<Leaf>,
}

impl Leaf {
    /// A leaf with `entries`, in order, before `next`.
    pub(super) fn new(entries: &[Bound], next: *mut Leaf) -> Self {
        let mut records = entries.iter().map(|entry| entry.record);
        Leaf {
            heads: Heads::new(entries.iter().map(|entry| entry.head)),
            records: array::from_fn(|_| AtomicPtr::new(records.next().unwrap_or_default())),
            next: AtomicPtr::new(next),
        }
    }

    #[inline]
    pub(super) fn order(&self) -> Order {
        self.heads.order()
    }

    #[inline]
    pub(super) fn head(&self, slot: usize) -> u64 {
        self.heads.head(slot)
    }

    /// The record in a slot that an order of this leaf names.
    #[inline]
    pub(super) fn record(&self, slot: usize) -> Record<'_> {
        let record = self.records[slot].load(Ordering::Relaxed);
        debug_assert!(!record.is_null());
        // SAFETY: the slot was filled from `Record::into_raw` before the order that names it was
        // published, and leaves live in the same arena as their records.
        unsafe { Record::from_raw(NonNull::new_unchecked(record)) }
    }

    /// The entry in a slot that an order of this leaf names.
    pub(super) fn entry(&self, slot: usize) -> Bound {
        Bound { head: self.head(slot), record: self.record(slot).into_raw().as_ptr() }
    }

    /// How many entries lie before `position`.
    #[inline]
    pub(super) fn rank(&self, order: Order, position: Position<'_>) -> usize {
        self.heads.rank(order, position, |slot| self.record(slot).is_before(position.key, position.seqno))
    }

    /// Adds an entry at `rank` of `order`, the leaf's present and not full order.
    #[inline]
    pub(super) fn insert(&self, order: Order, rank: usize, entry: Bound) {
        self.records[order.len()].store(entry.record, Ordering::Relaxed);
        self.heads.publish(order, rank, entry.head);
    }

    /// The leaf after this one; null after the last.
    #[inline]
    pub(super) fn next(&self) -> *mut Leaf {
        self.next.load(Ordering::Acquire)
    }

    /// Asks for the leaf's cache lines.
    #[inline]
    pub(super) fn prefetch(leaf: *const Leaf) {
        for line in 0..size_of::<Leaf>() / 64 {
            prefetch(leaf.cast::<u8>().wrapping_add(64 * line));
        }
    }

    /// Asks for the records of the entries from `rank` on.
    #[inline]
    pub(super) fn prefetch_records(&self, order: Order, rank: usize) {
        for rank in rank..order.len() {
            prefetch(self.records[order.slot(rank)].load(Ordering::Relaxed).cast());
        }
    }

    pub(super) fn set_next(&self, next: *mut Leaf) {
        self.next.store(next, Ordering::Release);
    }
}

/// Asks for the cache line at `address`, which will be read soon. Any address will do.
#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// A leaf, or an inner node of one height less than the one that points to it.
pub(super) type Child = *mut ();

/// A node that leads to leaves. A child holds the entries from its bound up to the next child's.
#[repr(C)]
pub(super) struct Inner {
    heads: Heads,
    bounds: [AtomicPtr<RecordHeader>; SLOTS],
    /// 1 if the children are leaves.
    height: usize,
    children: [AtomicPtr<()>; SLOTS],
}

impl Inner {
    /// A node with `children`, in order.
    pub(super) fn new(height: usize, children: &[(Bound, Child)]) -> Self {
        let mut bounds = children.iter().map(|(bound, _)| bound.record);
        let mut pointers = children.iter().map(|(_, child)| *child);
        Inner {
            heads: Heads::new(children.iter().map(|(bound, _)| bound.head)),
            bounds: array::from_fn(|_| AtomicPtr::new(bounds.next().unwrap_or_default())),
            height,
            children: array::from_fn(|_| AtomicPtr::new(pointers.next().unwrap_or_default())),
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
    pub(super) fn child(&self, slot: usize) -> Child {
        self.children[slot].load(Ordering::Acquire)
    }

    /// The bound and the child in a slot that an order of this node names.
    pub(super) fn entry(&self, slot: usize) -> (Bound, Child) {
        let bound = Bound { head: self.heads.head(slot), record: self.bounds[slot].load(Ordering::Relaxed) };
        (bound, self.child(slot))
    }

    /// The rank of the child that `position` leads to: the last one whose bound lies before it.
    #[inline]
    pub(super) fn rank(&self, order: Order, position: Position<'_>) -> usize {
        let is_before = |slot: usize| match NonNull::new(self.bounds[slot].load(Ordering::Relaxed)) {
            None => true,
            // SAFETY: as in `Leaf::record`.
            Some(bound) => unsafe { Record::from_raw(bound) }.is_before(position.key, position.seqno),
        };
        // Nothing lies before the first child's bound that an ancestor would have led here.
        self.heads.rank(order, position, is_before).saturating_sub(1)
    }

    /// Adds a child at `rank` of `order`, the node's present and not full order.
    pub(super) fn insert(&self, order: Order, rank: usize, (bound, child): (Bound, Child)) {
        self.bounds[order.len()].store(bound.record, Ordering::Relaxed);
        self.children[order.len()].store(child, Ordering::Relaxed);
        self.heads.publish(order, rank, bound.head);
    }

    /// Puts another child into a slot.
    pub(super) fn replace_child(&self, slot: usize, child: Child) {
        self.children[slot].store(child, Ordering::Release);
    }
}

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
