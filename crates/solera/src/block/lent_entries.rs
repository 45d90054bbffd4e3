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
    format::{HEAD_BYTES, KINDS, SEQNOS},
    memory::{Block, PartPlace, ValueGrid},
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
    /// Heads tell all: every key ends with its head of 8 bytes, and there is a grid.
    by_heads: bool,
    /// Bytes of the prefix that all keys share.
    prefix_len: usize,
    /// Where the values lie, if that is known without a look at the records.
    grid: Option<ValueGrid>,
    /// Where the value at `rank` lies, if there is no grid.
    value: PartPlace,
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
        let grid = self.value_grid();
        let value = if grid.is_some() { PartPlace::default() } else { self.parts(rank).value };
        Some(LentEntries {
            rank,
            ranks,
            key: std::mem::take(key),
            head: self.heads()[rank],
            by_heads: grid.is_some() && self.keys_end_with_heads(),
            prefix_len: self.prefix().len(),
            grid,
            value,
            stock: None,
            block: self.clone(),
        })
    }
}

impl LentEntries {
    /// The rank that it stands on, and the key there.
    pub fn into_place(self) -> (usize, Vec<u8>) {
        (self.rank, self.key)
    }

    /// To entry `rank`, the one beside the present one, if its key is another: heads mostly say so,
    /// and mostly are the ends of the keys.
    #[inline]
    fn step_to(&mut self, rank: usize) -> bool {
        let head = self.block.heads()[rank];
        if head != self.head
            && self.by_heads
            && let Some(end) = self.key.last_chunk_mut::<HEAD_BYTES>()
        {
            *end = head.to_be_bytes();
            (self.rank, self.head) = (rank, head);
            return true;
        }
        self.step_apart(rank)
    }

    /// [`LentEntries::step_to`] where keys have to be read. Apart, so that the step beside it needs
    /// no room for what only this does.
    #[inline(never)]
    fn step_apart(&mut self, rank: usize) -> bool {
        let LentEntries { block, key, prefix_len, .. } = self;
        let (head, parts) = (block.heads()[rank], block.parts(rank));
        let in_head = *prefix_len + parts.suffix_len.min(HEAD_BYTES);
        let is_same = head == self.head
            && key.len() == *prefix_len + parts.suffix_len
            && key::equal(&key[in_head..], parts.tail);
        if is_same {
            return false;
        }
        key.truncate(*prefix_len);
        // All 8 bytes and back again: a copy of a length that is known is one instruction.
        key.extend_from_slice(&head.to_be_bytes());
        key.truncate(in_head);
        key.extend_from_slice(parts.tail);
        (self.rank, self.head, self.value) = (rank, head, parts.value);
        true
    }
}

impl Lent for LentEntries {
    #[inline]
    fn advance(&mut self) -> bool {
        let next = self.rank + 1;
        next < self.ranks.end && self.step_to(next)
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
        self.step_to(previous)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    fn value(&self) -> &[u8] {
        // SAFETY: grid and place were made of this block.
        unsafe { value_at(&self.block, self.grid.as_ref(), self.rank, self.value) }
    }

    #[inline]
    fn pin_value(&mut self) -> Slice {
        let LentEntries { block, rank, grid, value, stock, .. } = self;
        let pin = || stock.get_or_insert_with(|| PinStock::of(block.pin())).hand_out();
        // SAFETY: grid and place were made of this block. The value lies in the block, which never
        // changes and which the pin keeps alive.
        unsafe { Slice::pinned_by(pin, value_at(block, grid.as_ref(), *rank, *value)) }
    }
}

/// The value at `rank`, by the grid, if there is one, or else at `place`.
///
/// # Safety
/// The one that counts is that of `block`.
#[inline]
unsafe fn value_at<'a>(
    block: &'a Block,
    grid: Option<&ValueGrid>,
    rank: usize,
    place: PartPlace,
) -> &'a [u8] {
    // SAFETY: the caller's.
    unsafe {
        match grid {
            Some(grid) => block.value_on(grid, rank),
            None => block.part_at(place),
        }
    }
}
