//! Walking one block alone.
//!
//! Owns [`Stretch`]: neighbouring entries of one block that a walk takes without asking its sources for each. A
//! table's cursor lends one when it is told what comes between, the walkers of `merge` use it and give it back.

use super::{
    format::{KINDS, SEQNOS},
    memory::Block,
};
use crate::pin::Slice;
use std::ops::Range;

/// A shorter stretch costs more to lend and to give back than its entries would.
const ENTRIES_MIN: usize = 4;

/// Entries of one block, all puts whose sequence numbers are elided; it stands on one of them.
#[derive(Debug)]
pub struct Stretch {
    block: Block,
    rank: usize,
    /// The ranks that it may come to.
    ranks: Range<usize>,
    /// The user key at `rank`.
    key: Vec<u8>,
}

impl Block {
    /// Whether all entries are puts whose sequence numbers are elided: no other block has stretches.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.geometry().flags & (SEQNOS | KINDS) == 0
    }

    /// The entries of a plain block in `ranks`, to be walked from `rank`, whose key is `key`. `None`, and `key` is left, if they
    /// are few.
    pub fn stretch(&self, rank: usize, ranks: Range<usize>, key: &mut Vec<u8>) -> Option<Stretch> {
        debug_assert!(self.is_plain() && ranks.end <= self.len());
        if ranks.end < ranks.start + ENTRIES_MIN {
            return None;
        }
        debug_assert!(ranks.contains(&rank));
        Some(Stretch { block: self.clone(), rank, ranks, key: std::mem::take(key) })
    }
}

impl Stretch {
    /// To the next entry; false, and it stays, if that has the same key or lies outside.
    #[inline]
    pub fn advance(&mut self) -> bool {
        let next = self.rank + 1;
        if next >= self.ranks.end || self.block.same_key(next, self.rank) {
            return false;
        }
        self.rank = next;
        self.block.key_beside_into(next, &mut self.key);
        true
    }

    /// To the entry before, if it is the only one of its key; else, or if it lies outside, false, and it stays. What it
    /// stands on is the newest of its key, and an entry lies before all that it may come to.
    #[inline]
    pub fn retreat(&mut self) -> bool {
        debug_assert!(self.ranks.start > 0);
        let previous = self.rank - 1;
        if previous < self.ranks.start || self.block.same_key(previous - 1, previous) {
            return false;
        }
        self.rank = previous;
        self.block.key_beside_into(previous, &mut self.key);
        true
    }

    /// The user key; the bytes live until the stretch moves.
    #[inline]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.block.value(self.rank)
    }

    /// The value, kept alive by its block.
    pub fn pin_value(&self) -> Slice {
        self.block.pin_value(self.rank)
    }

    /// The rank that it stands on, and the key there.
    pub fn into_place(self) -> (usize, Vec<u8>) {
        (self.rank, self.key)
    }
}
