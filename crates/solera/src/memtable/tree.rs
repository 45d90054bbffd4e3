//! The tree of a memtable: how entries are found and where new ones go.
//!
//! Owns [`Tree`]: a root, inner nodes and leaves in an arena. One writer, any number of readers, who
//! never wait. Called by the memtable and its cursors.
//!
//! What must hold, and why readers may walk while the writer splits: *a reader finds every entry that was
//! there when it started.* Entries never leave a node. A node is replaced only by nodes that together
//! hold the same entries, and afterwards does not change any more; a reader inside it, and a reader that
//! gets to a neighbour through it, sees the tree as it was at the moment of the replacement, which is
//! later than the reader's start. On the way down a replaced child could be taken for more than it is:
//! the writer announces the right half in the parent's order before it puts the left half in the old
//! one's place, and the reader looks at the order again after it has read the child.
//!
//! This is a B+tree and not the usual skip list because of what an insertion waits for: with 500 thousand
//! entries a skip list, heads and all, visits about twenty nodes, eight of them outside the cache, one
//! after the other; here there are six inner nodes, of which the caches hold nearly all, and one leaf.

use super::{
    arena::{Arena, Bump, RECORD_ALIGN, Record},
    node::{Bound, Child, Inner, Leaf, Order, Position, SLOTS},
};
use crate::{
    ids::Seqno,
    key::{Kind, head},
    pin::Pin,
};
use std::{
    ptr::{self, NonNull},
    sync::atomic::{AtomicPtr, Ordering},
};

/// How many of the sixteen entries of a split node go left.
const SPLIT_EVEN: usize = 8;
/// The same where the new entry is the last one: ascending keys fill nodes well, and four entries on the
/// right keep a key that is overwritten again and again from making a leaf each time.
const SPLIT_ASCENDING: usize = 12;

/// More levels than 2^48 entries need with the emptiest nodes that splits make.
const HEIGHT_MAX: usize = 24;

/// The sorted entries of a memtable.
pub(super) struct Tree {
    root: AtomicPtr<Inner>,
    arena: Pin,
}

/// What the one writer of a [`Tree`] owns.
pub(super) struct Writer {
    records: Bump,
    nodes: Bump,
}

impl Writer {
    /// Bytes of the arena in use.
    pub(super) fn bytes(&self) -> usize {
        self.records.used() + self.nodes.used()
    }

    fn place<T>(&mut self, node: T) -> NonNull<T> {
        let place = self.nodes.take(size_of::<T>()).cast::<T>();
        // SAFETY: the piece is ours alone, long enough, and aligned to a cache line like the nodes.
        unsafe { place.write(node) };
        place
    }
}

/// A step on the way from the root to a leaf: an inner node and the rank of the child taken.
type Step<'t> = (&'t Inner, usize);

/// An entry and where it lies, so that its neighbours can be found.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    pub(super) leaf: &'t Leaf,
    pub(super) order: Order,
    pub(super) rank: usize,
}

impl<'t> Place<'t> {
    #[inline]
    pub(super) fn record(&self) -> Record<'t> {
        self.leaf.record(self.order.slot(self.rank))
    }

    #[inline]
    pub(super) fn head(&self) -> u64 {
        self.leaf.head(self.order.slot(self.rank))
    }
}

/// Which leaf a walk down the tree goes to.
enum Way<'k> {
    To(Position<'k>),
    Last,
}

impl Tree {
    /// An empty tree and its only writer.
    pub(super) fn new() -> (Self, Writer) {
        let arena = Arena::pinned();
        // SAFETY: the pin comes from `Arena::pinned`.
        let bump = |align| unsafe { Bump::new(arena.clone(), align) };
        let mut writer = Writer { records: bump(RECORD_ALIGN), nodes: bump(align_of::<Leaf>()) };
        let leaf = writer.place(Leaf::new(&[], ptr::null_mut()));
        let root = writer.place(Inner::new(1, &[(Bound::LOWEST, leaf.cast().as_ptr())]));
        (Tree { root: AtomicPtr::new(root.as_ptr()), arena }, writer)
    }

    /// What keeps records and nodes alive.
    #[inline]
    pub(super) fn arena(&self) -> &Pin {
        &self.arena
    }

    #[inline]
    fn root(&self) -> &Inner {
        // SAFETY: the root is a node of this tree's arena, written before it was stored.
        unsafe { &*self.root.load(Ordering::Acquire) }
    }

    /// `child` as an inner node.
    ///
    /// # Safety
    /// `child` was loaded from an inner node of height 2 or more of this tree.
    #[inline]
    unsafe fn inner(&self, child: Child) -> &Inner {
        // SAFETY: such a child is an inner node in this tree's arena, written before it was stored.
        unsafe { &*child.cast::<Inner>() }
    }

    /// `child` as a leaf.
    ///
    /// # Safety
    /// `child` was loaded from an inner node of height 1 of this tree.
    #[inline]
    unsafe fn leaf(&self, child: Child) -> &Leaf {
        // SAFETY: such a child is a leaf in this tree's arena, written before it was stored.
        unsafe { &*child.cast::<Leaf>() }
    }

    /// The leaf after `leaf`, which is one of this tree.
    #[inline]
    pub(super) fn leaf_after<'t>(&'t self, leaf: &'t Leaf) -> Option<&'t Leaf> {
        // SAFETY: leaves point only to leaves of the same arena.
        unsafe { leaf.next().as_ref() }
    }

    /// From `node` down to a leaf; `step` is shown each inner node and the rank of the child taken.
    #[inline]
    fn descend<'t>(
        &'t self,
        mut node: &'t Inner,
        way: Way<'_>,
        mut step: impl FnMut(&'t Inner, usize),
    ) -> &'t Leaf {
        loop {
            let order = node.order();
            let rank = match way {
                Way::To(position) => node.rank(order, position),
                Way::Last => order.len() - 1,
            };
            let child = node.child(order.slot(rank));
            if node.order() != order {
                // The child may be the left half of what it was: the right half is in the new order.
                continue;
            }
            step(node, rank);
            if node.height() == 1 {
                // SAFETY: the height says so.
                return unsafe { self.leaf(child) };
            }
            // SAFETY: the height says so.
            node = unsafe { self.inner(child) };
        }
    }

    /// The first entry not before `position`.
    #[inline]
    pub(super) fn first_from(&self, position: Position<'_>) -> Option<Place<'_>> {
        let mut leaf = self.descend(self.root(), Way::To(position), |_, _| ());
        loop {
            let order = leaf.order();
            let rank = leaf.rank(order, position);
            if rank < order.len() {
                return Some(Place { leaf, order, rank });
            }
            // The next leaf begins at or after the position, or is newer than this search.
            leaf = self.leaf_after(leaf)?;
        }
    }

    /// The last entry before `position`.
    pub(super) fn last_before(&self, position: Position<'_>) -> Option<Place<'_>> {
        // A leaf that is reached holds its own bound, which is before the position: only in the first
        // leaf, which has no bound, can there be nothing.
        let leaf = self.descend(self.root(), Way::To(position), |_, _| ());
        let order = leaf.order();
        let rank = leaf.rank(order, position).checked_sub(1)?;
        Some(Place { leaf, order, rank })
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<Place<'_>> {
        self.first_from(Position { head: 0, key: &[], seqno: Seqno::MAX })
    }

    /// The last entry.
    pub(super) fn last(&self) -> Option<Place<'_>> {
        let leaf = self.descend(self.root(), Way::Last, |_, _| ());
        let order = leaf.order();
        Some(Place { leaf, order, rank: order.len().checked_sub(1)? })
    }

    /// Adds an entry. No other entry has the same key and sequence number.
    pub(super) fn insert(&self, writer: &mut Writer, key: &[u8], seqno: Seqno, kind: Kind, value: &[&[u8]]) {
        let position = Position { head: head(key), key, seqno };
        let leaf = self.descend(self.root(), Way::To(position), |_, _| ());
        let order = leaf.order();
        let rank = leaf.rank(order, position);
        debug_assert!(
            self.first_from(position)
                .is_none_or(|at| (at.record().key(), at.record().seqno()) != (key, seqno)),
            "one key has two entries with one sequence number"
        );
        let record = Record::write(&mut writer.records, key, seqno, kind, value);
        let entry = Bound { head: position.head, record: record.into_raw().as_ptr() };
        if order.len() < SLOTS {
            leaf.insert(order, rank, entry);
        } else {
            self.split(writer, position, leaf, rank, entry);
        }
    }

    /// Makes room for `entry` at `rank` of `leaf`, which is full and where `position` leads.
    #[cold]
    fn split(&self, writer: &mut Writer, position: Position<'_>, leaf: &Leaf, rank: usize, entry: Bound) {
        let mut steps: [Step<'_>; HEIGHT_MAX] = [(self.root(), 0); HEIGHT_MAX];
        let mut height = 0;
        self.descend(self.root(), Way::To(position), |node, rank| {
            steps[height] = (node, rank);
            height += 1;
        });
        let path = &steps[..height];
        let next = leaf.next();
        if rank == SLOTS && next.is_null() {
            // Ascending keys: a new last leaf, and this one stays full.
            let last = writer.place(Leaf::new(&[entry], ptr::null_mut()));
            self.add_child(writer, path, None, (entry, last.cast().as_ptr()));
            leaf.set_next(last.as_ptr());
            return;
        }
        let order = leaf.order();
        let mut entries = [entry; SLOTS + 1];
        for at in 0..SLOTS {
            entries[at + usize::from(at >= rank)] = leaf.entry(order.slot(at));
        }
        let cut = if rank == SLOTS { SPLIT_ASCENDING } else { SPLIT_EVEN };
        let (left, right) = entries.split_at(cut);
        let right_leaf = writer.place(Leaf::new(right, next));
        let left_leaf = writer.place(Leaf::new(left, right_leaf.as_ptr()));
        let before = self.leaf_left_of(path);
        self.add_child(writer, path, Some(left_leaf.cast().as_ptr()), (right[0], right_leaf.cast().as_ptr()));
        if let Some(before) = before {
            before.set_next(left_leaf.as_ptr());
        }
    }

    /// The leaf before the one that `path` leads to.
    fn leaf_left_of<'t>(&'t self, path: &[Step<'t>]) -> Option<&'t Leaf> {
        let (node, rank) = path.iter().rev().find(|(_, rank)| *rank > 0)?;
        let child = node.child(node.order().slot(rank - 1));
        if node.height() == 1 {
            // SAFETY: the height says so.
            return Some(unsafe { self.leaf(child) });
        }
        // SAFETY: the height says so.
        Some(self.descend(unsafe { self.inner(child) }, Way::Last, |_, _| ()))
    }

    /// Adds a child right after the one that `path` leads to, and puts `left`, if given, in the place of
    /// that one.
    fn add_child(&self, writer: &mut Writer, path: &[Step<'_>], left: Option<Child>, right: (Bound, Child)) {
        let Some((&(node, rank), above)) = path.split_last() else {
            let root = self.root();
            let left = left.unwrap_or(ptr::from_ref(root).cast_mut().cast());
            let taller = writer.place(Inner::new(root.height() + 1, &[(Bound::LOWEST, left), right]));
            self.root.store(taller.as_ptr(), Ordering::Release);
            return;
        };
        let order = node.order();
        let on_right_edge = || above.iter().all(|(node, rank)| rank + 1 == node.order().len());
        if order.len() < SLOTS {
            node.insert(order, rank + 1, right);
            // Only now: whoever sees the left half must see that there is a right one.
            if let Some(left) = left {
                node.replace_child(order.slot(rank), left);
            }
            return;
        }
        if left.is_none() && rank + 1 == SLOTS && on_right_edge() {
            // Ascending keys again.
            let last = writer.place(Inner::new(node.height(), &[right]));
            self.add_child(writer, above, None, (right.0, last.cast().as_ptr()));
            return;
        }
        let mut entries = [right; SLOTS + 1];
        for at in 0..SLOTS {
            entries[at + usize::from(at > rank)] = node.entry(order.slot(at));
        }
        if let Some(left) = left {
            entries[rank].1 = left;
        }
        let cut = if rank + 1 == SLOTS { SPLIT_ASCENDING } else { SPLIT_EVEN };
        let right_node = writer.place(Inner::new(node.height(), &entries[cut..]));
        let left_node = writer.place(Inner::new(node.height(), &entries[..cut]));
        self.add_child(
            writer,
            above,
            Some(left_node.cast().as_ptr()),
            (entries[cut].0, right_node.cast().as_ptr()),
        );
    }
}
