//! Walking one block alone.
//!
//! Owns [`Stretch`]: neighbouring entries of one block that a walk takes without asking its sources for each. A
//! table's cursor lends one when it is told what comes between, the walkers of `merge` use it and give it back.

use super::{
    format::{KINDS, SEQNOS},
    memory::Block,
};
use crate::pin::Slice;

/// A shorter stretch costs more to lend and to give back than its entries would.
const ENTRIES_MIN: usize = 4;

/// Entries of one block, all puts whose sequence numbers are elided; it stands on one of them.
#[derive(Debug)]
pub struct Stretch {
    block: Block,
    rank: usize,
    /// The rank behind the last one.
    end: usize,
    /// The user key at `rank`.
    key: Vec<u8>,
}

impl Block {
    /// The entries from `rank`, whose key is `key`, up to `end`, which is at most the block's length. `None`, and `key`
    /// is left, if they are few, or if it is not said of all entries of this block that they are puts whose
    /// sequence numbers are elided.
    pub fn stretch(&self, rank: usize, end: usize, key: &mut Vec<u8>) -> Option<Stretch> {
        debug_assert!(end <= self.len());
        if self.geometry().flags & (SEQNOS | KINDS) != 0 || end < rank + ENTRIES_MIN {
            return None;
        }
        Some(Stretch { block: self.clone(), rank, end, key: std::mem::take(key) })
    }
}

impl Stretch {
    /// To the next entry; false, and it stays, if that has the same key or lies outside.
    #[inline]
    pub fn advance(&mut self) -> bool {
        let next = self.rank + 1;
        if next >= self.end || self.block.same_key(next, self.rank) {
            return false;
        }
        self.rank = next;
        self.block.key_beside_into(next, &mut self.key);
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
