//! One table's cached blocks: `BlockSlots`, places in the cache that hold nothing but blocks, and
//! `BlockRef`.
//!
//! `get` and `peek` give a `BlockRef`, which lives as long as an epoch guard and is not counted.
//! `insert` puts a block in, and others go for it. `insert_where_room` does so only while the cache
//! has room. Once it is full, a block enters when it comes for the second time.
//! `insert_when_again` always waits for the second time. `prefetch_*` ask for a slot or its block
//! early.
//!
//! What must hold: no other code puts anything into these slots. That makes the cast from a pin to
//! a block sound.
//!
//! Callers: `table::reader` (owns them), `table::lookup`, `table::cursor`, `table::warm` and
//! `table::share`.

use super::memory::Block;
use crate::{
    cache::{Cache, PinRef, Slots},
    pin::Pin,
    pool::Loan,
};
use crossbeam_epoch::Guard;
use std::{marker::PhantomData, mem::ManuallyDrop, ops::Deref, sync::Arc};

/// A table's blocks in the cache, by number.
#[derive(Debug)]
pub struct BlockSlots(Arc<Slots>);

impl BlockSlots {
    /// Places for `n` blocks, all empty.
    pub fn new(cache: &Arc<Cache>, n: usize) -> Self {
        BlockSlots(Slots::new(cache, n))
    }

    /// Block `i`, if it is cached; marks it as used. Costs the load of the slot: nothing is
    /// counted.
    #[inline]
    pub fn get<'g>(&self, i: usize, guard: &'g Guard) -> Option<BlockRef<'g>> {
        self.0.get(i, guard).map(block_of)
    }

    /// Asks for the place of block `i`.
    #[inline]
    pub fn prefetch_slot(&self, i: usize) {
        self.0.prefetch_slot(i);
    }

    /// Asks for the places of block `i` and of those next to it, 4 at least on either side. There
    /// may be no such blocks.
    #[inline]
    pub fn prefetch_slots(&self, i: usize) {
        self.0.prefetch_slot(i.wrapping_sub(4));
        self.0.prefetch_slot(i.wrapping_add(4));
    }

    /// Asks for the control and the heads of block `i`, if it is cached.
    #[inline]
    pub fn prefetch(&self, i: usize, guard: &Guard) {
        if let Some(block) = self.peek(i, guard) {
            block.prefetch();
        }
    }

    /// [`BlockSlots::get`] without marking: for a reader that will not come again.
    #[inline]
    pub fn peek<'g>(&self, i: usize, guard: &'g Guard) -> Option<BlockRef<'g>> {
        self.0.peek(i, guard).map(block_of)
    }

    /// Puts block `i` into the cache, unless another reader was faster, and has others give way.
    pub fn insert(&self, i: usize, block: &Block) {
        self.0.insert(i, block.pin().clone(), block.memory_bytes());
    }

    /// Block `i` leaves the cache, if it lies in the cache's own memory.
    pub fn give_way(&self, i: usize, block: &Block) {
        self.0.give_way(i, block.pin(), block.memory_bytes());
    }

    /// Weight of the blocks that are cached.
    pub fn weight(&self) -> usize {
        self.0.weight()
    }

    /// Puts block `i` into the cache, unless another reader was faster, where other blocks do not
    /// have to go for it; else when it comes the second time.
    pub fn insert_where_room(&self, i: usize, block: &Block) {
        self.0.insert_where_room(i, block.pin().clone(), block.memory_bytes(), |loan, again| {
            copy_in(loan, block, again)
        });
    }

    /// Puts block `i` into the cache when it comes the second time: for a reader that passes
    /// through many blocks which are cheap to read again.
    pub fn insert_when_again(&self, i: usize, block: &Block) {
        self.0.insert_when_again(i, block.pin().clone(), block.memory_bytes(), |loan, again| {
            copy_in(loan, block, again)
        });
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.0.places()
    }

    /// As [`Cache::can_hold`].
    pub fn can_hold(&self, bytes: usize) -> bool {
        self.0.can_hold(bytes)
    }

    /// As [`Cache::is_room`].
    pub fn is_room(&self, bytes: usize) -> bool {
        self.0.is_room(bytes)
    }

    /// Most bytes that may be read ahead of a walk's need, beside what is cached.
    pub fn ahead_bytes_max(&self) -> u64 {
        self.0.ahead_bytes_max()
    }

    /// As [`Cache::note_held`].
    pub fn note_held(&self, before: usize, now: usize) {
        self.0.note_held(before, now);
    }

    /// As [`Cache::holds_too_much`].
    pub fn holds_too_much(&self) -> bool {
        self.0.holds_too_much()
    }

    /// As [`cache::Slots::ahead_bytes_min`](crate::cache::Slots::ahead_bytes_min).
    pub fn ahead_bytes_min(&self, bytes: u64) -> u64 {
        self.0.ahead_bytes_min(bytes)
    }
}

/// The pin of a copy of `block` in lent memory, if there is some.
fn copy_in(loan: &Loan, block: &Block, again: bool) -> Option<Pin> {
    // SAFETY: a loan gives memory that `BLOCKS` takes back, for just this.
    let copy = unsafe { block.copy_in(|bytes| loan.take(bytes, again)) }?;
    Some(copy.pin().clone())
}

#[inline]
fn block_of<'g>(pin: PinRef<'g>) -> BlockRef<'g> {
    // SAFETY: `insert` puts nothing but blocks into these slots, and no other code has them. The
    // reference is the slot's and outlives the guard; `ManuallyDrop` keeps it from being given back
    // here.
    let block = unsafe { Block::from_pin(Pin::from_raw(pin.as_ptr())) };
    BlockRef { block: ManuallyDrop::new(block), _guard: PhantomData }
}

/// A cached block that stays in memory as long as the guard, without being counted. Clone the
/// [`Block`] in it to keep it longer.
#[derive(Debug)]
pub struct BlockRef<'g> {
    block: ManuallyDrop<Block>,
    _guard: PhantomData<&'g Guard>,
}

impl Deref for BlockRef<'_> {
    type Target = Block;
    #[inline]
    fn deref(&self) -> &Block {
        &self.block
    }
}
