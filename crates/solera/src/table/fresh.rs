//! Blocks of a table that stay in memory as they are written, so that no reader has to read them:
//! `FreshBlocks` (docs/decisions/0033). `Table::take_in_fresh` puts them into the cache once the
//! table is open; `Table::make_way` has what is merged make room for them.
//!
//! What must hold: nothing but what is merged leaves the cache for them. A block that finds no room
//! is left to its readers. A block is what a reader would find in the file: it is parsed as one
//! that was read.
//!
//! Callers: `table::writer` collects; `compaction::job` hands them on; `engine::warming` has them
//! taken in. `table::cursor` makes way.

use super::reader::Table;
use crate::{
    block::Block,
    cache::{Cache, Reserved},
};
use std::{fmt, sync::Arc};

/// What a job merges makes way as long as the cache has no room for so many blocks: outputs come
/// in one after the other.
const ROOM_BLOCKS: usize = 4;

/// Blocks of one table by number, with room in the cache.
pub struct FreshBlocks {
    room: Reserved,
    /// The first blocks of the table; `None` for one that is left to its readers.
    blocks: Vec<Option<Block>>,
}

impl FreshBlocks {
    /// None so far.
    pub(super) fn new(cache: &Arc<Cache>) -> FreshBlocks {
        FreshBlocks { room: Reserved::new(cache), blocks: Vec::new() }
    }

    /// The next block has this payload.
    pub(super) fn push(&mut self, payload: &[u8]) {
        self.yield_to_others();
        let block = self.room.add(Block::memory_bytes_of(payload.len())).then(|| Block::of_payload(payload));
        debug_assert!(!matches!(block, Some(Err(_))), "what a table's writer made is a block");
        self.blocks.push(block.and_then(Result::ok));
    }

    /// Gives all of them up if the cache has become too small.
    pub fn yield_to_others(&mut self) {
        if self.room.is_crowded() {
            for block in self.blocks.iter_mut().filter_map(Option::take) {
                self.room.leave(block.memory_bytes());
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(Option::is_none)
    }
}

impl Table {
    /// Asks for the memory of a block, if there is such a block and it is cached: a job comes to it
    /// next.
    pub(super) fn prefetch_next(&self, number: usize) {
        if number < self.blocks()
            && let Some(next) = self.slots.peek(number, &crossbeam_epoch::pin())
        {
            next.prefetch_whole();
        }
    }

    /// A job has come to this cached block, and will not come again: it leaves a cache that has no
    /// room for some more.
    pub(super) fn make_way(&self, number: usize, block: &Block) {
        if !self.slots.is_room(ROOM_BLOCKS * block.memory_bytes()) {
            self.slots.give_way(number, block);
        }
    }

    /// Puts blocks of this table into the cache.
    pub fn take_in_fresh(&self, mut fresh: FreshBlocks) {
        for (number, block) in fresh.blocks.into_iter().enumerate() {
            let Some(block) = block.filter(|_| number < self.blocks()) else { continue };
            self.note_form(&block);
            fresh.room.leave(block.memory_bytes());
            self.slots.insert(number, &block);
        }
    }
}

impl fmt::Debug for FreshBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FreshBlocks").field("blocks", &self.blocks.len()).finish()
    }
}
