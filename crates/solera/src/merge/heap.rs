//! The merge itself, which source goes first: `Merge`, a `Cursor` over several cursors.
//!
//! The source in front stands outside a binary heap of the others. As long as it stays in front, a
//! step costs one comparison, heads first. Positioning is lazy: a source may only expect an entry
//! (`Cursor::expect`), and looks for it when it comes to the front (`arrive`).
//!
//! `skip_to`, `skip_before` and `skip_unseen` take some sources on in one go, and leave the others
//! where they are. `lend` and `lend_back` have the front source lend the entries that come before
//! those of all others. With `seek_first_late` and `next_late` only the front source keeps a large
//! value in memory.
//!
//! What must hold: forward, the order is user key ascending, then age, then position in the source;
//! backward it is exactly the reverse. Sequence numbers are not compared between sources. A merge
//! moves in the direction of its last positioning.
//!
//! Callers: `merge::visible` (walkers), `compaction::job`.

use crate::{
    cursor::{Cursor, Lending},
    error::Result,
    ids::Seqno,
    key::{Kind, head},
    pin::Slice,
};
use std::cmp::Ordering;

/// Bytes of a key that its head tells.
const HEAD_BYTES: usize = size_of::<u64>();

/// A source that stands on an entry, with the head of its key and as much of the key's length as
/// orders short ones.
#[derive(Clone, Copy)]
struct Standing {
    head: u64,
    /// The key's length, where head and length tell all of it; else [`LONG`].
    len: u32,
    age: u32,
}

/// The length of keys that heads do not tell.
const LONG: u32 = u32::MAX;

impl Standing {
    #[inline]
    fn of<C: Cursor>(source: &C, age: u32) -> Standing {
        match source.expected() {
            None => Standing::at(source.key().len(), source.head(), age),
            Some(key) => Standing::at(key.len(), head(key), age),
        }
    }

    #[inline]
    fn at(len: usize, head: u64, age: u32) -> Standing {
        Standing { head, len: if len <= HEAD_BYTES { len as u32 } else { LONG }, age }
    }

    #[inline]
    fn age(self) -> usize {
        self.age as usize
    }
}

/// The key that a source stands on, or the one that it expects.
#[inline]
fn bound<C: Cursor>(source: &C) -> &[u8] {
    source.expected().unwrap_or_else(|| source.key())
}

/// Whether a source stands on an entry or expects one.
#[inline]
fn stands<C: Cursor>(source: &C) -> bool {
    source.valid() || source.expected().is_some()
}

/// The entries of several sources in one order: forward by user key ascending, then age ascending,
/// then position in the source; backward in exactly the reverse order. A source's age is its place
/// in the list, the newest first.
///
/// Itself a [`Cursor`]. After an error it is not valid until positioned again.
pub struct Merge<C> {
    sources: Vec<C>,
    /// The source in front; `None`: not valid.
    front: Option<Standing>,
    /// The other sources that stand on an entry: a binary heap.
    waiting: Vec<Standing>,
    /// Which way the last positioning call went.
    back: bool,
}

impl<C: Cursor> Merge<C> {
    /// A merge of `sources`, in the order of their ages. Not valid until positioned.
    pub fn new(sources: Vec<C>) -> Self {
        Merge { waiting: Vec::new(), sources, front: None, back: false }
    }

    /// The sources, in the order of their ages.
    pub fn sources(&self) -> &[C] {
        &self.sources
    }

    /// Is not valid any more, and has each source stand nowhere.
    pub fn rest(&mut self, rest: impl FnMut(&mut C)) {
        self.front = None;
        self.waiting.clear();
        self.sources.iter_mut().for_each(rest);
    }

    /// The age of the source that the present entry comes from. Must be valid.
    #[inline]
    pub fn age(&self) -> usize {
        self.front.expect("the merge stands on an entry").age()
    }

    /// Whether no other source stands on an entry, or expects one.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.waiting.is_empty()
    }

    /// To the first entry, where only the source in front keeps a large value in memory.
    pub fn seek_first_late(&mut self) -> Result<()> {
        self.position::<false>(|source| source.seek_first().and_then(|()| source.doze()))?;
        self.wake_front()
    }

    /// One entry forward, after [`seek_first_late`](Self::seek_first_late). Must be valid.
    #[inline]
    pub fn next_late(&mut self) -> Result<()> {
        let age = self.age();
        self.step::<false>()?;
        if self.front.is_none_or(|front| front.age() == age) {
            return Ok(());
        }
        self.sources[age].doze()?;
        self.wake_front()
    }

    /// The source in front is asked for its value next. An error leaves the merge not valid.
    fn wake_front(&mut self) -> Result<()> {
        let Some(front) = self.front.take() else { return Ok(()) };
        self.sources[front.age()].wake()?;
        self.front = Some(front);
        Ok(())
    }

    /// Walking forward: takes every source of age `age` or older that stands before `key` to its
    /// first entry at or after it, and leaves the others where they are.
    pub fn skip_to(&mut self, age: usize, key: &[u8]) -> Result<()> {
        debug_assert!(!self.back);
        self.reposition::<false>(age, |source| match bound(source) < key {
            true => source.expect(key),
            false => Ok(()),
        })
    }

    /// Walking forward: takes every source that stands on a version of `key` that `snapshot` does
    /// not see past all those, and leaves the others where they are.
    pub fn skip_unseen(&mut self, key: &[u8], snapshot: Seqno) -> Result<()> {
        debug_assert!(!self.back);
        self.reposition::<false>(0, |source| {
            if bound(source) != key {
                return Ok(());
            }
            source.arrive()?;
            match source.valid() && source.key() == key && source.seqno() > snapshot {
                true => source.seek_version(key, snapshot),
                false => Ok(()),
            }
        })
    }

    /// Walking backward: takes every source of age `age` or older that stands at or after `key`
    /// to its last entry before it, and leaves the others where they are.
    pub fn skip_before(&mut self, age: usize, key: &[u8]) -> Result<()> {
        debug_assert!(self.back);
        self.reposition::<true>(age, |source| match bound(source) >= key {
            true => source.expect_before(key),
            false => Ok(()),
        })
    }

    /// Moves the sources of age `age` and older that stand on an entry, and finds the front anew.
    fn reposition<const BACK: bool>(
        &mut self,
        age: usize,
        mut to: impl FnMut(&mut C) -> Result<()>,
    ) -> Result<()> {
        self.front = None;
        let mut moving = self.sources.iter_mut().skip(age).filter(|source| stands(*source));
        moving.try_for_each(&mut to)?;
        self.find_front::<BACK>()
    }

    /// Positions every source.
    fn position<const BACK: bool>(&mut self, to: impl FnMut(&mut C) -> Result<()>) -> Result<()> {
        self.front = None;
        self.back = BACK;
        self.sources.iter_mut().try_for_each(to)?;
        self.find_front::<BACK>()
    }

    fn find_front<const BACK: bool>(&mut self) -> Result<()> {
        self.waiting.clear();
        if let [alone] = &mut self.sources[..] {
            alone.arrive()?;
            self.front = alone.valid().then(|| Standing::of(alone, 0));
            return Ok(());
        }
        self.waiting.reserve(self.sources.len());
        let standing = (0..).zip(&self.sources).filter(|(_, source)| stands(*source));
        self.waiting.extend(standing.map(|(age, source)| Standing::of(source, age)));
        for at in (0..self.waiting.len() / 2).rev() {
            self.sink::<BACK>(at);
        }
        self.front_from_waiting::<BACK>();
        self.arrive::<BACK>()
    }

    /// A source in front that only expects an entry looks for it. Then another may be in front.
    #[inline]
    fn arrive<const BACK: bool>(&mut self) -> Result<()> {
        while let Some(front) = self.front
            && self.sources[front.age()].expected().is_some()
        {
            self.front = None;
            let source = &mut self.sources[front.age()];
            source.arrive()?;
            match source.valid() {
                true => {
                    let arrived = Standing::of(source, front.age);
                    self.front_from::<BACK>(arrived);
                }
                false => self.front_from_waiting::<BACK>(),
            }
        }
        Ok(())
    }

    fn front_from_waiting<const BACK: bool>(&mut self) {
        if self.waiting.is_empty() {
            self.front = None;
            return;
        }
        self.front = Some(self.waiting.swap_remove(0));
        self.sink::<BACK>(0);
    }

    #[inline]
    fn step<const BACK: bool>(&mut self) -> Result<()> {
        debug_assert!(self.back == BACK, "a cursor moves in the direction of its last positioning");
        let age = self.front.take().expect("the merge stands on an entry").age;
        // Until the step has succeeded there is no front, so that an error leaves the merge not
        // valid.
        let source = &mut self.sources[age as usize];
        if BACK { source.prev() } else { source.next() }?;
        self.front_from_moved::<BACK>(age)
    }

    /// Finds the front after the source of this age, which was the front, has moved.
    #[inline]
    fn front_from_moved<const BACK: bool>(&mut self, age: u32) -> Result<()> {
        let source = &self.sources[age as usize];
        if !source.valid() {
            self.front_from_waiting::<BACK>();
            return self.arrive::<BACK>();
        }
        let moved = Standing::at(source.key().len(), source.head(), age);
        match self.waiting.first() {
            // Mostly the same source goes on, and heads say so.
            Some(next) if (moved.head < next.head) != BACK && moved.head != next.head => {
                self.front = Some(moved);
                Ok(())
            }
            _ => {
                self.front_from::<BACK>(moved);
                self.arrive::<BACK>()
            }
        }
    }

    /// Finds the front between what was the front and now stands here, and the others.
    fn front_from<const BACK: bool>(&mut self, moved: Standing) {
        match self.waiting.first() {
            Some(&next) if !self.precedes::<BACK>(moved, next) => {
                self.front = Some(next);
                self.waiting[0] = moved;
                self.sink::<BACK>(0);
            }
            _ => self.front = Some(moved),
        }
    }

    /// Takes every waiting source that stands on the key of `front` past it.
    fn pass_waiting(&mut self, front: Standing) -> Result<()> {
        while let Some(&next) = self.waiting.first()
            && next.head == front.head
            && self.beyond_heads(next, front).is_eq()
        {
            let source = &mut self.sources[next.age()];
            match source.expected().is_some() {
                true => source.arrive()?,
                false => source.next_key()?,
            }
            if source.valid() {
                self.waiting[0] = Standing::of(source, next.age);
            } else {
                self.waiting.swap_remove(0);
            }
            self.sink::<false>(0);
        }
        Ok(())
    }

    /// Whether the entry that `a` stands on comes before the one of `b` on the way that we go.
    #[inline]
    fn precedes<const BACK: bool>(&self, a: Standing, b: Standing) -> bool {
        let order = if a.head == b.head {
            self.beyond_heads(a, b).then(a.age.cmp(&b.age))
        } else {
            a.head.cmp(&b.head)
        };
        order == if BACK { Ordering::Greater } else { Ordering::Less }
    }

    /// The order of the keys of two that have one head.
    #[inline]
    fn beyond_heads(&self, a: Standing, b: Standing) -> Ordering {
        // What a short key lacks are zeros of the other's.
        if a.len != LONG || b.len != LONG {
            return a.len.cmp(&b.len);
        }
        bound(&self.sources[a.age()])[HEAD_BYTES..].cmp(&bound(&self.sources[b.age()])[HEAD_BYTES..])
    }

    /// Restores the heap below `at`.
    #[inline]
    fn sink<const BACK: bool>(&mut self, mut at: usize) {
        loop {
            let mut child = 2 * at + 1;
            let Some(&left) = self.waiting.get(child) else { return };
            let mut first = left;
            if let Some(&right) = self.waiting.get(child + 1)
                && self.precedes::<BACK>(right, left)
            {
                (child, first) = (child + 1, right);
            }
            if !self.precedes::<BACK>(first, self.waiting[at]) {
                return;
            }
            self.waiting.swap(at, child);
            at = child;
        }
    }

    #[inline]
    fn front(&self) -> &C {
        &self.sources[self.age()]
    }
}

impl<C: Lending> Merge<C> {
    /// Has the source in front lend its entries from here on that come before those of all others,
    /// and before the key `end`. Until they are taken back, or the merge is positioned, it may not
    /// be used. Walking forward.
    pub fn lend(&mut self, snapshot: Seqno, end: Option<&[u8]>) -> Option<C::Lent> {
        debug_assert!(!self.back);
        let (front, next) = self.front_alone()?;
        front.lend(snapshot, next, end)
    }

    /// Has what was lent go on behind its last entry, as [`Lending::lend_on`]: before all other
    /// sources, and before the key `end`.
    pub fn lend_on(&mut self, lent: &mut C::Lent, end: Option<&[u8]>) -> bool {
        debug_assert!(!self.back);
        let age = self.age();
        match self.waiting.first().copied() {
            None => self.sources[age].lend_on(lent, None, end),
            Some(next) => {
                let apart = self.sources.get_disjoint_mut([age, next.age()]);
                let [front, next] = apart.expect("the source in front is not among those that wait");
                front.lend_on(lent, Some(bound(next)), end)
            }
        }
    }

    /// As [`lend`](Self::lend), walking backward: the entries that come before those of all others,
    /// and not below `start`. The merge stands on the first entry of its key that it came to.
    pub fn lend_back(&mut self, snapshot: Seqno, start: &[u8]) -> Option<C::Lent> {
        debug_assert!(self.back);
        let (front, next) = self.front_alone()?;
        front.lend_back(snapshot, next, start)
    }

    /// The source in front, and the key where it must stop, at which the first of the others
    /// stands; `None` if it has no entry before that.
    fn front_alone(&mut self) -> Option<(&mut C, Option<&[u8]>)> {
        let front = self.front.expect("the merge stands on an entry");
        let age = front.age();
        match self.waiting.first().copied() {
            None => Some((&mut self.sources[age], None)),
            // Another version of this very key.
            Some(next) if next.head == front.head && self.beyond_heads(next, front).is_eq() => None,
            Some(next) => {
                let apart = self.sources.get_disjoint_mut([age, next.age()]);
                let [front, next] = apart.expect("the source in front is not among those that wait");
                Some((front, Some(bound(next))))
            }
        }
    }

    /// Ends what was lent, and the merge is not valid any more.
    pub fn drop_lent(&mut self, lent: C::Lent) {
        let front = self.front.take().expect("the merge stands on an entry");
        self.sources[front.age()].take_back(lent);
    }

    /// Ends what was lent: the merge stands where that came to.
    pub fn take_back(&mut self, lent: C::Lent) {
        let age = self.front.expect("the merge stands on an entry").age;
        let source = &mut self.sources[age as usize];
        source.take_back(lent);
        self.front = Some(Standing::of(source, age));
    }
}

impl<C: Cursor> Cursor for Merge<C> {
    fn seek_first(&mut self) -> Result<()> {
        self.position::<false>(|source| source.expect_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.position::<true>(|source| source.expect_last())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.position::<false>(|source| source.expect(key))
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.position::<true>(|source| source.expect_before(key))
    }

    fn seek_version(&mut self, key: &[u8], snapshot: Seqno) -> Result<()> {
        self.position::<false>(|source| source.seek_version(key, snapshot))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.step::<false>()
    }

    /// The key is compared where it stands: nothing is copied, and sources that stand on it never
    /// come to the front.
    #[inline]
    fn next_key(&mut self) -> Result<()> {
        debug_assert!(!self.back, "a cursor moves in the direction of its last positioning");
        let front = self.front.take().expect("the merge stands on an entry");
        if self.waiting.first().is_some_and(|next| next.head == front.head) {
            self.pass_waiting(front)?;
        }
        self.sources[front.age()].next_key()?;
        self.front_from_moved::<false>(front.age)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        self.step::<true>()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.front.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.front().key()
    }

    #[inline]
    fn head(&self) -> u64 {
        self.front.expect("the merge stands on an entry").head
    }

    #[inline]
    fn seqno(&self) -> Seqno {
        self.front().seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.front().kind()
    }

    #[inline]
    fn stamp(&self) -> (Seqno, Kind) {
        self.front().stamp()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.front().value()
    }

    #[inline]
    fn pin_value(&self) -> Slice {
        self.front().pin_value()
    }
}
