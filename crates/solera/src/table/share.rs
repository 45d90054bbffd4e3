//! Which share of an open table lies in a key range, nearly: `Table::share`.
//!
//! A block of pointers leads to hundreds of values. A conversion weighs parts of a table by what
//! they point to. So parts of one block count by themselves, and all parts sum up to the table.
//!
//! What must hold: no file is read. In a block that is in the cache a key's place is exact.
//! Elsewhere the index says where it is, if it knows, or it counts as in the middle.
//! Caller: `compaction::convert`.

use super::reader::Table;
use crate::key::KeyRange;
use crossbeam_epoch as epoch;

/// The index tells places within a block in so many parts.
const PARTS_WITHIN: f64 = 256.0;

impl Table {
    /// The share of the bytes of all data blocks that lies in `range`: 0 to 1. Ranges that divide
    /// the table have 1 together. 0 if there are no blocks.
    pub fn share(&self, range: &KeyRange) -> f64 {
        if self.blocks() == 0 || range.is_empty() {
            return 0.0;
        }
        let end = range.end.key().map_or(1.0, |end| self.share_before(end));
        (end - self.share_before(&range.start)).max(0.0)
    }

    /// The same before `key`.
    fn share_before(&self, key: &[u8]) -> f64 {
        let whole = &self.descriptor().range;
        if key <= &whole.start {
            return 0.0;
        }
        if whole.end.key().is_some_and(|last| last <= key) {
            return 1.0;
        }
        let span = self.locate(key);
        let guard = epoch::pin();
        let within = match self.slots.peek(span.begin, &guard) {
            Some(block) => block.find(key) as f64 / block.len().max(1) as f64,
            None => span.within().map_or(0.5, |within| f64::from(within) / PARTS_WITHIN),
        };
        let (first, block) = (self.handles.offset(0), self.handles.range(span.begin));
        let before = (block.start - first) as f64 + within * (block.end - block.start) as f64;
        before / (self.handles.offset(self.blocks()) - first).max(1) as f64
    }
}
