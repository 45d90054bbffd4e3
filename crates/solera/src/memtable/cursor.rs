//! Walking a memtable: `MemtableCursor`, a `Cursor` over its entries, versions of a key newest
//! first.
//!
//! It stands on a place in a leaf and on one of the versions there. From leaf to leaf it follows
//! their links, and asks for records before it comes to them. Walking back it goes down from the
//! root to the leaf before.
//!
//! What must hold: a cursor may be open while the writer goes on. It finds every entry that was
//! there when it was positioned. It may or may not find later ones, which no snapshot of its time
//! sees. Its operations do not fail.
//!
//! Callers: `Memtable::cursor`, for `tree::{scan, gaps, mod}`, flushes (`compaction::job`) and
//! `engine::ingest`.

use super::{
    Memtable,
    node::{Leaf, Order, Position},
    record::{Record, RecordHeader},
    tree::Place,
};
use crate::{cursor::Cursor, error::Result, ids::Seqno, key::Kind, pin::Slice};
use std::{ptr::NonNull, sync::Arc};

/// A [`Cursor`] over the entries of a memtable. Its operations do not fail.
pub struct MemtableCursor {
    at: Option<At>,
    memtable: Arc<Memtable>,
}

/// A [`Place`] in the cursor's own memtable, and one of the versions there.
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
// keeps alive; what they lead to is read through atomics or immutable. That its writing happened
// before comes along with whatever hands the cursor to another thread.
unsafe impl Send for MemtableCursor {}
// SAFETY: as above; what takes `&self` only reads.
unsafe impl Sync for MemtableCursor {}

impl At {
    /// At one of the versions of the key at `place`.
    #[inline]
    fn version(place: Place<'_>, record: Record<'_>) -> Self {
        At {
            leaf: NonNull::from(place.leaf),
            skip: place.skip,
            order: place.order,
            rank: place.rank,
            head: place.head(),
            record: record.into_raw(),
        }
    }

    /// At the newest version of the key at `place`.
    #[inline]
    fn newest(place: Place<'_>) -> Self {
        At::version(place, place.record())
    }

    /// At the oldest version of the key at `place`.
    #[inline]
    fn oldest(place: Place<'_>) -> Self {
        At::version(place, place.record().oldest())
    }

    /// At the newest version at `place`, from where a walk forward begins or goes on in another
    /// leaf: what it will come to is asked for.
    fn entering(place: Place<'_>) -> Self {
        place.leaf.prefetch_records(place.order, place.rank + 1);
        place.leaf.prefetch_next();
        At::newest(place)
    }

    /// At the oldest version at `place`, from where a walk backward begins or goes on in another
    /// leaf.
    fn entering_from_behind(place: Place<'_>) -> Self {
        place.leaf.prefetch_records(place.order, 0);
        At::oldest(place)
    }
}

impl MemtableCursor {
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

    /// To the newest version of the next key.
    #[inline]
    fn enter_next_key(&mut self) {
        let At { order, rank, .. } = *self.at();
        if rank + 1 == order.len() {
            self.at = self.memtable.tree.first_after(self.leaf()).map(At::entering);
            return;
        }
        if rank == order.len() / 2
            && let Some(next) = self.memtable.tree.first_after(self.leaf())
        {
            next.leaf.prefetch_records(next.order, 0);
        }
        self.at = Some(At::newest(self.place(rank + 1)));
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
        self.at = self.memtable.tree.first_from(Position::of(key)).map(At::entering);
        Ok(())
    }

    fn seek_version(&mut self, key: &[u8], snapshot: Seqno) -> Result<()> {
        self.seek(key)?;
        if !self.valid() || self.seqno() <= snapshot || self.key() != key {
            return Ok(());
        }
        match self.record().seen_by(snapshot).map(Record::into_raw) {
            Some(record) => self.at = self.at.map(|at| At { record, ..at }),
            None => self.enter_next_key(),
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.memtable.tree.last_before(Position::of(key)).map(At::entering_from_behind);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        match self.record().older().map(Record::into_raw) {
            Some(record) => self.at = self.at.map(|at| At { record, ..at }),
            None => self.enter_next_key(),
        }
        Ok(())
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        self.enter_next_key();
        Ok(())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let (here, rank) = (self.record(), self.at().rank);
        let newest = self.place(rank).record();
        self.at = if newest.seqno() > here.seqno() {
            Some(At::version(self.place(rank), newest.last_newer_than(here.seqno())))
        } else if let Some(before) = rank.checked_sub(1) {
            Some(At::oldest(self.place(before)))
        } else {
            // Leaves know only their successor: down from the root again.
            self.memtable.tree.last_before(Position::of(here.key())).map(At::entering_from_behind)
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
        // SAFETY: the value lies in the arena that the memtable's pin keeps alive, and never
        // changes.
        unsafe { Slice::pinned(self.memtable.tree.arena(), self.value()) }
    }
}
