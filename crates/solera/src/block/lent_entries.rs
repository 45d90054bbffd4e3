//! Walking one block alone: `LentEntries`, neighbouring entries that a walk takes without asking
//! its sources.
//!
//! `Block::lend_entries` makes one of a range of ranks. `advance` and `retreat` go from entry to
//! entry, without the table's cursor or the merge.
//!
//! What must hold: the block is plain (`is_plain`): all its entries are puts with elided numbers. A
//! piece has at least four entries. It gives rank and key back (`into_place`), from which the
//! cursor goes on.
//!
//! Callers: `table::cursor` lends them, when the merge tells it what comes between;
//! `merge::visible` walkers take and return them through `Merge`.

use super::{
    format::{KINDS, SEQNOS},
    memory::Block,
};
use crate::{
    cursor::Lent,
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
    /// The user key at `rank`.
    key: Vec<u8>,
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
    /// `None`, and `key` is left, if they are few.
    pub fn lend_entries(&self, rank: usize, ranks: Range<usize>, key: &mut Vec<u8>) -> Option<LentEntries> {
        debug_assert!(self.is_plain() && ranks.end <= self.len());
        if ranks.end < ranks.start + ENTRIES_MIN {
            return None;
        }
        debug_assert!(ranks.contains(&rank));
        Some(LentEntries { block: self.clone(), rank, ranks, key: std::mem::take(key), stock: None })
    }
}

impl LentEntries {
    /// The rank that it stands on, and the key there.
    pub fn into_place(self) -> (usize, Vec<u8>) {
        (self.rank, self.key)
    }
}

impl Lent for LentEntries {
    #[inline]
    fn advance(&mut self) -> bool {
        let next = self.rank + 1;
        if next >= self.ranks.end || self.block.same_key(next, self.rank) {
            return false;
        }
        self.rank = next;
        self.block.key_beside_into(next, &mut self.key);
        true
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
        self.rank = previous;
        self.block.key_beside_into(previous, &mut self.key);
        true
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.block.value(self.rank)
    }

    #[inline]
    fn pin_value(&mut self) -> Slice {
        let LentEntries { block, rank, stock, .. } = self;
        let pin = || stock.get_or_insert_with(|| PinStock::of(block.pin())).hand_out();
        // SAFETY: the value lies in the block, which never changes and which the pin keeps alive.
        unsafe { Slice::pinned_by(pin, block.value(*rank)) }
    }
}
