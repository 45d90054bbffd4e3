//! The tree of a memtable, how keys are found and where new ones go: `Tree`, `Writer` and `Place`.
//!
//! It is a B+tree of nodes of fifteen slots in an arena: inner nodes and linked leaves.
//! `first_from` and `last_before` give a `Place`, which leads to a key's newest `Record`. `insert`
//! splits a full node into two new ones and swaps the pointer in its parent. Only for a key behind
//! all others a full last node stays as it is, and a new one follows it.
//!
//! What must hold: there is one writer, and readers never wait. A reader finds every entry that was
//! there when it started. Keys never leave a node, and a replaced node does not change. The writer
//! announces a right half in the parent before it puts the left half in the old one's place.
//!
//! Callers: `memtable::mod` inserts and looks up; `memtable::cursor` walks.

use super::{
    arena::{Arena, Bump, Holdings},
    known::{Known, Room},
    node::{Inner, Leaf, Link, Order, Position, SLOTS, Slot, choose_skip},
    record::{RECORD_ALIGN, Record},
};
use crate::{
    ids::Seqno,
    key::{Kind, hash, head, is_before},
    pin::Pin,
    sync::atomic::{AtomicPtr, Ordering},
};
use std::{ptr::NonNull, sync::Arc};

/// How many of the sixteen keys of a split node go left.
const SPLIT_EVEN: usize = 8;
/// The same where the new key is the last one: ascending keys fill nodes well, and if it was the
/// last by chance, the right node is not nearly empty.
const SPLIT_ASCENDING: usize = 12;

/// Bytes of the first chunk of records: a keyspace of a few entries should cost little.
const RECORDS_FIRST_BYTES: usize = 256;

/// More levels than 2^48 keys need with the emptiest nodes that splits make.
const HEIGHT_MAX: usize = 24;

/// The sorted keys of a memtable.
///
/// What must hold, and why readers may walk while the writer splits: *a reader finds every entry
/// that was there when it started.* Keys never leave a node. A node is replaced only by nodes that
/// together hold the same keys, and does not change afterwards. A reader inside it, or one that
/// gets to a neighbour through it, sees the tree as it was at the replacement. That moment is later
/// than the reader's start. On the way down a replaced child could be taken for more than it is. So
/// the writer announces the right half in the parent's order before it puts the left half in the
/// old one's place. The reader looks at the order again after it has read the child.
///
/// Heads begin after a node's skip, which is sound only for keys between the bounds that the node
/// was made with. The way down keeps to that: a child's bounds only ever narrow, and the order that
/// was checked with the child says that the key lies between them. Following a leaf to its
/// successor does not, so there keys are compared whole.
///
/// This is a B+tree and not the usual skip list because of what an insertion waits for. With 500
/// thousand entries a skip list, heads and all, visits about twenty nodes, one after the other,
/// eight of them outside the cache. Here there are six inner nodes, of which the caches hold nearly
/// all, and one leaf.
pub(super) struct Tree {
    /// Null until the first insertion: of ten thousand keyspaces most have nothing in memory.
    root: AtomicPtr<Inner>,
    known: Known,
    arena: Pin,
}

/// What the one writer of a [`Tree`] owns.
pub(super) struct Writer {
    records: Bump,
    nodes: Bump,
    room: Room,
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

/// A step on the way from the root to a leaf: an inner node, its skip, and the rank of the child
/// taken.
#[derive(Clone, Copy)]
struct Step<'t> {
    node: &'t Inner,
    skip: usize,
    rank: usize,
}

/// Where a key lies, so that its neighbours can be found.
#[derive(Clone, Copy)]
pub(super) struct Place<'t> {
    pub(super) leaf: &'t Leaf,
    pub(super) skip: usize,
    pub(super) order: Order,
    pub(super) rank: usize,
}

impl<'t> Place<'t> {
    /// The key's newest version.
    #[inline]
    pub(super) fn record(&self) -> Record<'t> {
        self.leaf.record(self.order.slot(self.rank))
    }

    /// The key's head.
    #[inline]
    pub(super) fn head(&self) -> u64 {
        if self.skip == 0 { self.leaf.head(self.order.slot(self.rank)) } else { head(self.record().key()) }
    }

    /// Whether the key is the one that the position is of.
    #[inline]
    pub(super) fn has_key_of(&self, position: Position<'_>) -> bool {
        // Heads first: most keys that are not there need not be read.
        self.leaf.head(self.order.slot(self.rank)) == position.head(self.skip)
            && self.record().key() == position.key
    }
}

/// Which leaf a walk down the tree goes to.
enum Way<'k> {
    /// The one that holds the position.
    To(Position<'k>),
    /// The one that holds the last key before it.
    Before(Position<'k>),
    Last,
}

impl Tree {
    /// An empty tree, which has no node yet, and its only writer.
    pub(super) fn new(holdings: &Arc<Holdings>) -> (Self, Writer) {
        let arena = Arena::pinned(holdings);
        // SAFETY: the pin comes from `Arena::pinned`.
        let bump = |align, first| unsafe { Bump::new(arena.clone(), align, first) };
        let records = bump(RECORD_ALIGN, RECORDS_FIRST_BYTES);
        let nodes = bump(align_of::<Leaf>(), size_of::<Leaf>() + size_of::<Inner>());
        let writer = Writer { records, nodes, room: Room::default() };
        (Tree { root: AtomicPtr::default(), known: Known::default(), arena }, writer)
    }

    /// Makes the first two nodes: a leaf, and what leads there.
    #[cold]
    fn begin(&self, writer: &mut Writer) {
        let leaf = writer.place(Leaf::new(&[], Link::NULL));
        let root = writer.place(Inner::new(1, &[Slot::child(None, Link::new(leaf, 0), 0)]));
        self.root.store(root.as_ptr(), Ordering::Release);
    }

    /// Whether a key of this hash may be there. Nothing is waited for where the filter is small.
    #[inline]
    pub(super) fn may_hold(&self, hash: u64) -> bool {
        self.known.may_hold(hash)
    }

    /// Notes that a lookup came down here in vain: a filter would have told.
    #[inline]
    pub(super) fn want_filter(&self) {
        self.known.want();
    }

    /// Makes room in the filter for a key that comes, and asks for its place there: the hash to
    /// tell `know` of once the entry is in. `None`: there is no filter. `keys` are there.
    #[inline]
    pub(super) fn announce(&self, writer: &mut Writer, key: &[u8], keys: usize) -> Option<u64> {
        if let Some(len) = self.known.words_due(&writer.room, keys) {
            self.extend_known(writer, len);
        }
        self.known.is_there().then(|| {
            let hash = hash(key);
            self.known.expect(&writer.room, hash);
            hash
        })
    }

    /// Tells the filter of a key that is in, before a reader may see it.
    #[inline]
    pub(super) fn know(&self, writer: &mut Writer, hash: u64) {
        self.known.add(&mut writer.room, hash);
    }

    /// Gives the filter a layer of `len` words.
    #[cold]
    fn extend_known(&self, writer: &mut Writer, len: usize) {
        let start = writer.nodes.take(len * size_of::<u64>()).cast::<u64>();
        // SAFETY: the piece is ours alone, long enough, and aligned to a cache line.
        unsafe { start.write_bytes(0, len) };
        let first = if self.known.is_there() { None } else { self.first_from(Position::of(&[])) };
        let places = std::iter::successors(first, |place| self.after(place));
        // SAFETY: these are zeros in the arena, which lives as long as this tree.
        unsafe { self.known.push(&mut writer.room, start, len, places.map(|at| hash(at.record().key()))) };
    }

    /// The place behind `place`.
    fn after<'t>(&'t self, place: &Place<'t>) -> Option<Place<'t>> {
        match place.rank + 1 < place.order.len() {
            true => Some(Place { rank: place.rank + 1, ..*place }),
            false => self.first_after(place.leaf),
        }
    }

    /// What keeps records and nodes alive.
    #[inline]
    pub(super) fn arena(&self) -> &Pin {
        &self.arena
    }

    /// The root, whose skip is always 0; `None` before the first insertion.
    #[inline]
    fn root(&self) -> Option<&Inner> {
        let root = NonNull::new(self.root.load(Ordering::Acquire))?;
        // SAFETY: the root is a node of this tree's arena, written before it was stored.
        Some(unsafe { root.as_ref() })
    }

    /// The inner node that `link` points to.
    ///
    /// # Safety
    /// `link` was loaded from an inner node of height 2 or more of this tree.
    #[inline]
    unsafe fn inner(&self, link: Link) -> &Inner {
        // SAFETY: such a link leads to an inner node in this tree's arena, written before it was
        // stored, and is never null.
        unsafe { link.node::<Inner>().unwrap_unchecked().as_ref() }
    }

    /// The leaf that `link` points to.
    ///
    /// # Safety
    /// `link` was loaded from an inner node of height 1 of this tree.
    #[inline]
    unsafe fn leaf(&self, link: Link) -> &Leaf {
        // SAFETY: such a link leads to a leaf in this tree's arena, written before it was stored,
        // and is never null.
        unsafe { link.node::<Leaf>().unwrap_unchecked().as_ref() }
    }

    /// The first key of the leaf after `leaf`, which is one of this tree.
    #[inline]
    pub(super) fn first_after<'t>(&'t self, leaf: &'t Leaf) -> Option<Place<'t>> {
        let link = leaf.next();
        // SAFETY: leaves point only to leaves of the same arena.
        let leaf = unsafe { link.node::<Leaf>()?.as_ref() };
        // Only the first leaf of a tree can be empty, and nothing is before it.
        Some(Place { leaf, skip: link.skip(), order: leaf.order(), rank: 0 })
    }

    /// From `node`, whose skip is `skip`, down to a leaf and its skip. `step` is shown each inner
    /// node.
    #[inline]
    fn descend<'t>(
        &'t self,
        mut node: &'t Inner,
        mut skip: usize,
        way: Way<'_>,
        mut step: impl FnMut(Step<'t>),
    ) -> (&'t Leaf, usize) {
        loop {
            let order = node.order();
            let rank = match way {
                Way::To(position) => node.rank(order, position, skip),
                Way::Before(position) => node.rank_before(order, position, skip),
                Way::Last => order.len() - 1,
            };
            let child = node.child(order.slot(rank));
            if node.order() != order {
                // The child may be the left half of what it was: the right half is in the new
                // order.
                continue;
            }
            step(Step { node, skip, rank });
            skip = child.skip();
            if node.height() == 1 {
                // SAFETY: the height says so.
                return (unsafe { self.leaf(child) }, skip);
            }
            // SAFETY: the height says so.
            node = unsafe { self.inner(child) };
        }
    }

    /// The leaf on `way` to `position`, and how many of its keys lie before the position. `None`
    /// before the first insertion.
    #[inline]
    fn approach<'k>(&self, way: fn(Position<'k>) -> Way<'k>, position: Position<'k>) -> Option<Place<'_>> {
        let (leaf, skip) = self.descend(self.root()?, 0, way(position), |_| ());
        let order = leaf.order();
        Some(Place { leaf, skip, order, rank: leaf.rank(order, position, skip) })
    }

    /// The first key not before `position`.
    #[inline]
    pub(super) fn first_from(&self, position: Position<'_>) -> Option<Place<'_>> {
        loop {
            let place = self.approach(Way::To, position)?;
            if place.rank < place.order.len() {
                return Some(place);
            }
            let next = self.first_after(place.leaf)?;
            if !is_before(next.record().key(), position.key) {
                return Some(next);
            }
            // A leaf has come in between since the way down: take it again.
        }
    }

    /// The last key before `position`.
    pub(super) fn last_before(&self, position: Position<'_>) -> Option<Place<'_>> {
        // A leaf that is reached so holds its own bound, which is before the position: only in the
        // first leaf, which has no bound, can there be nothing.
        let place = self.approach(Way::Before, position)?;
        Some(Place { rank: place.rank.checked_sub(1)?, ..place })
    }

    /// The first key.
    pub(super) fn first(&self) -> Option<Place<'_>> {
        self.first_from(Position::of(&[]))
    }

    /// The last key.
    pub(super) fn last(&self) -> Option<Place<'_>> {
        let (leaf, skip) = self.descend(self.root()?, 0, Way::Last, |_| ());
        let order = leaf.order();
        Some(Place { leaf, skip, order, rank: order.len().checked_sub(1)? })
    }

    /// Adds an entry, newer than every other one of its key.
    pub(super) fn insert(&self, writer: &mut Writer, key: &[u8], seqno: Seqno, kind: Kind, value: &[&[u8]]) {
        let position = Position::of(key);
        let place = loop {
            match self.approach(Way::To, position) {
                Some(place) => break place,
                None => self.begin(writer),
            }
        };
        let Place { leaf, skip, order, rank } = place;
        if rank < order.len() && place.has_key_of(position) {
            let older = Some(place.record());
            let newer = Record::write(&mut writer.records, key, seqno, kind, value, older);
            return leaf.overwrite(order.slot(rank), newer);
        }
        let record = Record::write(&mut writer.records, key, seqno, kind, value, None);
        let entry = Slot::entry(position.head(skip), record);
        if order.len() < SLOTS {
            leaf.insert(order, rank, entry);
        } else {
            self.split(writer, position, rank, entry);
        }
    }

    /// Makes room for `entry` at `rank` of the leaf that `position` leads to, which is full.
    #[cold]
    fn split(&self, writer: &mut Writer, position: Position<'_>, rank: usize, entry: Slot) {
        let root = self.root().expect("a full leaf was inserted into");
        let mut steps = [Step { node: root, skip: 0, rank: 0 }; HEIGHT_MAX];
        let mut height = 0;
        let (leaf, skip) = self.descend(root, 0, Way::To(position), |step| {
            steps[height] = step;
            height += 1;
        });
        let path = &steps[..height];
        let (next, next_link) = (self.first_after(leaf), leaf.next());
        // SAFETY: the entry is made of a record of this tree, as all slots of the leaf are. The
        // writer, which runs here, wrote them.
        let record = |slot: &Slot| unsafe { Record::from_raw(NonNull::new_unchecked(slot.record)) };
        if rank == SLOTS && next.is_none() {
            // Ascending keys: a new last leaf, and this one stays full. Its skip is 0, and so is
            // the skip of every leaf without a successor.
            let entry = Slot { head: position.head(0), ..entry };
            let last = Link::new(writer.place(Leaf::new(&[entry], Link::NULL)), 0);
            self.add_child(writer, path, None, record(&entry), last);
            leaf.set_next(last);
            return;
        }
        let order = leaf.order();
        let mut slots = [entry; SLOTS + 1];
        for at in 0..SLOTS {
            slots[at + usize::from(at >= rank)] = leaf.slot(order.slot(at));
        }
        let cut = if rank == SLOTS { SPLIT_ASCENDING } else { SPLIT_EVEN };
        let (left, right) = slots.split_at_mut(cut);
        let is_first = path.iter().all(|step| step.rank == 0);
        let lowest = Some(record(&left[0])).filter(|_| !is_first);
        let middle = record(&right[0]);
        let skip_left = choose_skip(left, skip, lowest, Some(middle));
        let skip_right = choose_skip(right, skip, Some(middle), next.map(|next| next.record()));
        let right = Link::new(writer.place(Leaf::new(right, next_link)), skip_right);
        let left = Link::new(writer.place(Leaf::new(left, right)), skip_left);
        let before = self.leaf_left_of(path);
        self.add_child(writer, path, Some(left), middle, right);
        if let Some(before) = before {
            before.set_next(left);
        }
    }

    /// The leaf before the one that `path` leads to.
    fn leaf_left_of<'t>(&'t self, path: &[Step<'t>]) -> Option<&'t Leaf> {
        let Step { node, rank, .. } = path.iter().rev().find(|step| step.rank > 0)?;
        let child = node.child(node.order().slot(rank - 1));
        if node.height() == 1 {
            // SAFETY: the height says so.
            return Some(unsafe { self.leaf(child) });
        }
        // SAFETY: the height says so.
        let node = unsafe { self.inner(child) };
        Some(self.descend(node, child.skip(), Way::Last, |_| ()).0)
    }

    /// Adds `right`, which begins with `bound`, right after the child that `path` leads to, and
    /// puts `left`, if given, in the place of that one.
    fn add_child<'t>(
        &'t self,
        writer: &mut Writer,
        path: &[Step<'t>],
        left: Option<Link>,
        bound: Record<'t>,
        right: Link,
    ) {
        let Some((&Step { node, skip, rank }, above)) = path.split_last() else {
            let root = self.root().expect("a child was split");
            let left = left.unwrap_or(Link::new(NonNull::from(root), 0));
            let slots = [Slot::child(None, left, 0), Slot::child(Some(bound), right, 0)];
            let taller = writer.place(Inner::new(root.height() + 1, &slots));
            self.root.store(taller.as_ptr(), Ordering::Release);
            return;
        };
        let order = node.order();
        let right = Slot::child(Some(bound), right, skip);
        if order.len() < SLOTS {
            node.insert(order, rank + 1, right);
            // Only now: a search that sees the left half must see that there is a right one.
            if let Some(left) = left {
                node.replace_child(order.slot(rank), left);
            }
            return;
        }
        let upper = above.iter().rev().find_map(|step| {
            let order = step.node.order();
            step.node.bound(order.slot((step.rank + 1 < order.len()).then_some(step.rank + 1)?))
        });
        if left.is_none() && rank + 1 == SLOTS && upper.is_none() {
            // Ascending keys again.
            let right = Slot::child(Some(bound), right.child, 0);
            let last = Link::new(writer.place(Inner::new(node.height(), &[right])), 0);
            self.add_child(writer, above, None, bound, last);
            return;
        }
        let mut slots = [right; SLOTS + 1];
        for at in 0..SLOTS {
            slots[at + usize::from(at > rank)] = node.slot(order.slot(at));
        }
        if let Some(left) = left {
            slots[rank].child = left;
        }
        let cut = if rank + 1 == SLOTS { SPLIT_ASCENDING } else { SPLIT_EVEN };
        let (left, right) = slots.split_at_mut(cut);
        let lowest = node.bound(order.slot(0));
        // SAFETY: only the first child of all has no bound, and it is left of `cut`. Others have
        // records of this tree, which the writer wrote before.
        let middle = unsafe { Record::from_raw(NonNull::new_unchecked(right[0].record)) };
        let skip_left = choose_skip(left, skip, lowest, Some(middle));
        let skip_right = choose_skip(right, skip, Some(middle), upper);
        let left = Link::new(writer.place(Inner::new(node.height(), left)), skip_left);
        let right = Link::new(writer.place(Inner::new(node.height(), right)), skip_right);
        self.add_child(writer, above, Some(left), middle, right);
    }
}
