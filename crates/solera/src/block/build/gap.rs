//! Where a full block ends, at the widest gap among its last keys: `BlockBuilder::step_back` and
//! `take_up`.
//!
//! A boundary in a wide gap is easy to tell: codes may be coarse, separators are short, and no key
//! lies right below it. A block gives up a tenth of its entries for that, and seven at most. The
//! gap must be 4 times as wide as the one where the block is full, or 256 times where records have
//! one size. What lies behind the gap begins the next block.
//!
//! What must hold: no entry is lost or put twice, versions of one key stay together, and a shorter
//! block is no larger.
//!
//! Caller: `table::writer`, for the index kinds `learned` and `auto`; `block::build` keeps `Recent`
//! extents for it.

use super::{BlockBuilder, Extent, Staged};
use crate::{
    ids::Seqno,
    key::{Kind, common_prefix_len, head_after},
};
use std::ops::Range;

/// A block gives up one entry in so many at most.
const GIVEN_UP_OF: usize = 10;
/// Only for a gap that is so many times as wide as the one at which it is full; where records have
/// one size, so that a block with fewer than others would have a size of its own.
const WIDER: u64 = 256;
/// The same where each block has a size of its own anyway.
const WIDER_OF_VARIED: u64 = 4;
/// So many extents are kept: one entry more than are given up at most.
const EXTENTS: usize = 8;

/// What the last few entries were added to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent([Extent; EXTENTS]);

impl Recent {
    /// Keeps an extent, which has at least one entry.
    #[inline]
    pub(super) fn keep(&mut self, extent: Extent) {
        self.0[extent.n % EXTENTS] = extent;
    }

    /// The extent of so many entries, which must be among the last [`EXTENTS`] that were kept.
    fn of(&self, entries: usize) -> Extent {
        let extent = self.0[entries % EXTENTS];
        assert_eq!(extent.n, entries, "an extent that was kept");
        extent
    }
}

/// Entries that a block gave up.
#[derive(Debug, Default)]
pub(super) struct GivenUp {
    keys: Vec<u8>,
    values: Vec<u8>,
    /// Ends count from the beginning of these keys and values.
    entries: Vec<Staged>,
}

impl BlockBuilder {
    /// Lets the block, which refused the entry of key `next`, end at a wider gap before its last
    /// entries, if there is one. Its last entries are put aside then; [`BlockBuilder::take_up`]
    /// puts them into the next block. Gives their first key, with which the next block begins;
    /// `next` if there is none.
    pub fn step_back<'n>(&'n mut self, next: &'n [u8]) -> &'n [u8] {
        debug_assert!(self.given_up.entries.is_empty(), "what was put aside was taken up");
        let len = self.len();
        let most = (len / GIVEN_UP_OF).min(EXTENTS - 1);
        if most == 0 || self.continues {
            return next;
        }
        let end = self.widest_gap(len - most..len, next);
        if end == len {
            return next;
        }
        let kept = self.entries[end - 1];
        self.given_up.keys.extend_from_slice(&self.keys[kept.key_end..]);
        self.given_up.values.extend_from_slice(&self.values[kept.value_end..]);
        self.given_up.entries.extend(self.entries[end..].iter().map(|entry| Staged {
            key_end: entry.key_end - kept.key_end,
            value_end: entry.value_end - kept.value_end,
            ..*entry
        }));
        self.keys.truncate(kept.key_end);
        self.values.truncate(kept.value_end);
        self.entries.truncate(end);
        self.extent = self.recent.of(end);
        &self.given_up.keys[..self.given_up.entries[0].key_end]
    }

    /// Where the block ends best: before one of the entries in `candidates`, or where it does,
    /// before `next`.
    fn widest_gap(&self, candidates: Range<usize>, next: &[u8]) -> usize {
        let len = candidates.end;
        let skip = common_prefix_len(self.key(candidates.start - 1), next);
        let (mut upper, mut widest, mut at) = (head_after(next, skip), 0, len);
        let mut at_end = 0;
        for end in (candidates.start..=len).rev() {
            let lower = head_after(self.key(end - 1), skip);
            let gap = upper - lower;
            if end == len {
                (at_end, widest) = (gap, gap);
            } else if gap > widest {
                (widest, at) = (gap, end);
            }
            upper = lower;
        }
        let Extent { key_len_min, key_len_max, value_len_min, value_len_max, .. } = self.extent;
        let is_varied = key_len_min < key_len_max || value_len_min < value_len_max;
        let wider = if is_varied { WIDER_OF_VARIED } else { WIDER };
        if widest / wider >= at_end.max(1) { at } else { len }
    }

    /// Begins an empty block with what the one before put aside. Nothing, if that is nothing.
    pub fn take_up(&mut self) {
        debug_assert!(self.is_empty(), "a new block");
        if self.given_up.entries.is_empty() {
            return;
        }
        let GivenUp { mut keys, mut values, mut entries } = std::mem::take(&mut self.given_up);
        let (mut key_start, mut value_start) = (0, 0);
        for Staged { key_end, value_end, seqno, kind } in entries.drain(..) {
            self.append(&keys[key_start..key_end], seqno, kind, &values[value_start..value_end]);
            (key_start, value_start) = (key_end, value_end);
        }
        // The memory is kept, unless a large value needed it.
        keys.clear();
        values.clear();
        values.shrink_to(self.block_bytes as usize);
        self.given_up = GivenUp { keys, values, entries };
    }

    /// Adds an entry that is known to fit: some of a block's entries take no more than all of them.
    fn append(&mut self, key: &[u8], seqno: Seqno, kind: Kind, value: &[u8]) {
        let taken = self.try_add(key, seqno, kind, value);
        assert!(taken, "a part of a block fits where the block did");
    }
}
