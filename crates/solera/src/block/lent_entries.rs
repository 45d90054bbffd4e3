//! Walking one block alone: `LentEntries`, neighbouring entries that a walk takes without asking
//! its sources.
//!
//! `Block::into_entries` makes one of a range of ranks. `advance` and `retreat` go from entry to
//! entry, without the table's cursor or the merge; `enter` goes on in another block.
//!
//! What must hold: the block is plain (`is_plain`): all its entries are puts with elided numbers. A
//! piece has at least four entries. It gives block, rank and key back (`into_place`), from which
//! the cursor goes on.
//!
//! Callers: `table::cursor` lends them, when the merge tells it what comes between;
//! `merge::visible` walkers take and return them through `Merge`.

use super::{
    format::{HEAD_BYTES, KINDS, SEQNOS},
    memory::{Block, RecordPlace},
};
use crate::{
    cursor::Lent,
    key,
    pin::{PinStock, Slice},
};
use std::ops::Range;

/// A shorter piece costs more to lend and to give back than its entries would.
const ENTRIES_MIN: usize = 4;

/// Entries of one block, all puts whose sequence numbers are elided; it stands on one of them.
#[derive(Debug)]
pub struct LentEntries {
    block: Block,
    rank: usize,
    /// The ranks that it may come to.
    ranks: Range<usize>,
    /// The user key at `rank`, and its head.
    key: Vec<u8>,
    head: u64,
    /// Where the record at `rank` has its parts.
    place: RecordPlace,
    /// Heads tell all: every key ends with its head of 8 bytes, and records are of one size.
    by_heads: bool,
    /// From one record to the next, if heads tell all.
    distance: isize,
    /// What keeps values alive that are handed out, once any is.
    stock: Option<PinStock>,
}

impl Block {
    /// Whether all entries are puts whose sequence numbers are elided: no other block
    /// lends any.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.geometry().flags & (SEQNOS | KINDS) == 0
    }

    /// The entries of a plain block in `ranks`, to be walked from `rank`, whose key is `key`.
    pub fn into_entries(self, rank: usize, ranks: Range<usize>, key: Vec<u8>) -> LentEntries {
        debug_assert!(self.is_plain() && ranks.end <= self.len() && ranks.contains(&rank));
        let distance = self.record_distance().filter(|_| self.keys_end_with_heads());
        LentEntries {
            rank,
            ranks,
            key,
            head: self.heads()[rank],
            place: self.record_place(rank),
            by_heads: distance.is_some(),
            distance: distance.unwrap_or_default() as isize,
            stock: None,
            block: self,
        }
    }
}

impl LentEntries {
    /// Whether a walk gains by so many entries as there are in `ranks`.
    #[inline]
    pub fn are_worth(ranks: &Range<usize>) -> bool {
        ranks.end >= ranks.start + ENTRIES_MIN
    }

    /// Whether it stands on the last entry of the block, of whose key there are no more versions.
    #[inline]
    pub fn ends_block(&self) -> bool {
        self.rank + 1 == self.block.len() && !self.block.continues()
    }

    /// Leaves its block for the entries of another one in `ranks`, and stands on the first of them.
    pub fn enter(&mut self, block: Block, ranks: Range<usize>) {
        let mut key = std::mem::take(&mut self.key);
        block.key_into(ranks.start, &mut key);
        *self = block.into_entries(ranks.start, ranks, key);
    }

    /// The block, the rank that it stands on, and the key there.
    pub fn into_place(self) -> (Block, usize, Vec<u8>) {
        (self.block, self.rank, self.key)
    }

    /// To entry `rank`, the next one, or if it goes `BACK` the one before, if its key is another:
    /// heads mostly say so, and mostly are the ends of the keys.
    #[inline]
    fn step_to<const BACK: bool>(&mut self, rank: usize) -> bool {
        let head = self.block.heads()[rank];
        if head != self.head
            && self.by_heads
            && let Some(end) = self.key.last_chunk_mut::<HEAD_BYTES>()
        {
            *end = head.to_be_bytes();
            (self.rank, self.head) = (rank, head);
            self.place = self.place.moved_by(if BACK { -self.distance } else { self.distance });
            return true;
        }
        self.step_apart::<BACK>(rank, head)
    }

    /// [`LentEntries::step_to`], where `head` is, if keys have to be read. Apart, so that the step
    /// beside it needs no room for what only this does.
    #[inline(never)]
    fn step_apart<const BACK: bool>(&mut self, rank: usize, head: u64) -> bool {
        let LentEntries { block, key, .. } = self;
        // SAFETY: both places are those of records of this block, and going forward, `rank` is that
        // of the record behind the present one.
        unsafe {
            let place = match BACK {
                true => block.record_place(rank),
                false => block.record_place_behind(rank, &self.place),
            };
            if head == self.head
                && place.suffix_len == self.place.suffix_len
                && key::equal(block.tail_at(&place), block.tail_at(&self.place))
            {
                return false;
            }
            block.key_there_into(head, &place, key);
            (self.rank, self.head, self.place) = (rank, head, place);
        }
        true
    }
}

impl Lent for LentEntries {
    #[inline]
    fn advance(&mut self) -> bool {
        let next = self.rank + 1;
        next < self.ranks.end && self.step_to::<false>(next)
    }

    /// What it stands on is the newest of its key, and an entry lies before all that it may come
    /// to.
    #[inline]
    fn retreat(&mut self) -> bool {
        debug_assert!(self.ranks.start > 0);
        let previous = self.rank - 1;
        if previous < self.ranks.start || self.block.same_key(previous - 1, previous) {
            return false;
        }
        self.step_to::<true>(previous)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    fn value(&self) -> &[u8] {
        // SAFETY: the place is that of the record at `rank` of this block.
        unsafe { self.block.value_at(&self.place) }
    }

    #[inline]
    fn pin_value(&mut self) -> Slice {
        let LentEntries { block, place, stock, .. } = self;
        let pin = || stock.get_or_insert_with(|| PinStock::of(block.pin())).hand_out();
        // SAFETY: the place is that of the record at `rank` of this block, which never changes and
        // which the pin keeps alive.
        unsafe { Slice::pinned_by(pin, block.value_at(place)) }
    }
}
