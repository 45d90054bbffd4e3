//! Walking a memtable.
//!
//! Owns [`MemtableCursor`]. A cursor may be open while the writer goes on: it finds every entry that was
//! there when it was positioned, and may or may not find later ones, which no snapshot of its time sees.

use super::{
    Memtable,
    arena::{Record, RecordHeader},
    node::{Leaf, Order, Position},
    tree::Place,
};
use crate::{cursor::Cursor, error::Result, ids::Seqno, key::Kind, pin::Slice};
use std::{ptr::NonNull, sync::Arc};

/// A [`Cursor`] over the entries of a memtable. Its operations do not fail.
pub struct MemtableCursor {
    at: Option<At>,
    memtable: Arc<Memtable>,
}

/// A [`Place`] in the cursor's own memtable, and the record there.
#[derive(Clone, Copy)]
struct At {
    leaf: NonNull<Leaf>,
    skip: usize,
    order: Order,
    rank: usize,
    head: u64,
    record: NonNull<RecordHeader>,
}

// SAFETY: the pointers lead into the arena of `memtable`, which is Send + Sync and which the cursor
// keeps alive; what they lead to is read through atomics or immutable. That its writing happened before comes along
// with whatever hands the cursor to another thread.
unsafe impl Send for MemtableCursor {}

impl At {
    #[inline]
    fn new(place: Place<'_>) -> Self {
        At {
            leaf: NonNull::from(place.leaf),
            skip: place.skip,
            order: place.order,
            rank: place.rank,
            head: place.head(),
            record: place.record().into_raw(),
        }
    }
}

impl At {
    /// At `place`, from where a walk forward begins or goes on in another leaf: what it will come to is
    /// asked for.
    fn entering(place: Place<'_>) -> Self {
        place.leaf.prefetch_records(place.order, place.rank + 1);
        place.leaf.prefetch_next();
        At::new(place)
    }

    /// At `place`, from where a walk backward begins or goes on in another leaf.
    fn entering_from_behind(place: Place<'_>) -> Self {
        place.leaf.prefetch_records(place.order, 0);
        At::new(place)
    }
}

impl MemtableCursor {
    /// From one of several versions of `key` to the first entry of a larger one. Where this leaf ends with the
    /// key, the way goes down from the root: versions may fill hundreds of leaves.
    fn leave_versions(&mut self, key: &[u8]) -> Result<()> {
        // Behind every version but one of number 0, which is stepped over.
        let behind = Position::new(key, 0);
        let (leaf, At { order, skip, .. }) = (self.leaf(), *self.at());
        let rank = leaf.rank(order, behind, skip);
        self.at = if rank < order.len() {
            Some(At::new(self.place(rank)))
        } else {
            self.memtable.tree.first_from(behind).map(At::new)
        };
        while self.valid() && self.key() == key {
            self.next()?;
        }
        Ok(())
    }

    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        MemtableCursor { at: None, memtable }
    }

    #[inline]
    fn at(&self) -> &At {
        self.at.as_ref().expect("the cursor stands on an entry")
    }

    #[inline]
    fn record(&self) -> Record<'_> {
        // SAFETY: taken from a `Record` of the memtable that the cursor keeps alive.
        unsafe { Record::from_raw(self.at().record) }
    }

    #[inline]
    fn leaf(&self) -> &Leaf {
        // SAFETY: taken from a leaf of the memtable that the cursor keeps alive.
        unsafe { self.at().leaf.as_ref() }
    }

    #[inline]
    fn place(&self, rank: usize) -> Place<'_> {
        Place { leaf: self.leaf(), skip: self.at().skip, order: self.at().order, rank }
    }
}

impl Cursor for MemtableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.at = self.memtable.tree.first().map(At::entering);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.at = self.memtable.tree.last().map(At::entering_from_behind);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let position = Position::new(key, Seqno::MAX);
        self.at = self.memtable.tree.first_from(position).map(At::entering);
        Ok(())
    }

    fn seek_version(&mut self, key: &[u8], snapshot: Seqno) -> Result<()> {
        let position = Position::new(key, snapshot);
        self.at = self.memtable.tree.first_from(position).map(At::entering);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let position = Position::new(key, Seqno::MAX);
        self.at = self.memtable.tree.last_before(position).map(At::entering_from_behind);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let At { order, rank, .. } = *self.at();
        if rank + 1 == order.len() {
            self.at = self.memtable.tree.first_after(self.leaf()).map(At::entering);
            return Ok(());
        }
        if rank == order.len() / 2
            && let Some(next) = self.memtable.tree.first_after(self.leaf())
        {
            next.leaf.prefetch_records(next.order, 0);
        }
        self.at = Some(At::new(self.place(rank + 1)));
        Ok(())
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        let At { head, record, .. } = *self.at();
        self.next()?;
        if self.at.is_none_or(|at| at.head != head) {
            return Ok(());
        }
        // SAFETY: taken from a `Record` of the memtable that the cursor keeps alive, in here too: moving does
        // not change which memtable that is.
        let left = unsafe { Record::from_raw(record) }.key();
        if self.key() == left { self.leave_versions(left) } else { Ok(()) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let rank = self.at().rank;
        self.at = if let Some(before) = rank.checked_sub(1) {
            Some(At::new(self.place(before)))
        } else {
            // Leaves know only their successor: down from the root again.
            let here = self.record();
            let position = Position::new(here.key(), here.seqno());
            self.memtable.tree.last_before(position).map(At::entering_from_behind)
        };
        Ok(())
    }

    #[inline]
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.record().key()
    }

    #[inline]
    fn head(&self) -> u64 {
        self.at().head
    }

    #[inline]
    fn seqno(&self) -> Seqno {
        self.record().seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.record().kind()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.record().value()
    }

    #[inline]
    fn pin_value(&self) -> Slice {
        // SAFETY: the value lies in the arena that the memtable's pin keeps alive, and never changes.
        unsafe { Slice::pinned(self.memtable.tree.arena(), self.value()) }
    }
}
