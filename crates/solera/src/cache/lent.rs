//! The part of a cache that lies in memory which is lent: write buffers that no writer needs.
//!
//! A block that finds no room in the cache's own memory is copied into a lent chunk. It has a place
//! in a ring of its own. So what lies in lent chunks, and nothing else, goes when they are called
//! in (docs/decisions/0027). Where a lent chunk has no room either, the hands of both rings turn, each
//! as far as its part of the memory goes.
//!
//! What must hold: once a loan was called in, no slot holds a block of it. What readers still have
//! of it counts as held (`Cache::lent_held`), not as leaving.
//!
//! Callers: `engine::memory` lends and calls in; `Slots` and `apart` find room here.

use super::{Cache, Ground, Place, Slots, held};
use crate::{
    pin::Pin,
    pool::Loan,
    sync::atomic::{AtomicUsize, Ordering},
};
use crossbeam_epoch as epoch;
use std::sync::Arc;

/// Blocks that are released by one thread at once when a loan is called in: it may be a reader's.
const RELEASED_AT_ONCE: usize = 256;

/// What is lent to a cache.
#[derive(Default)]
pub(super) struct Lent {
    pub(super) loan: Loan,
    /// Weight that the lent ring's hand is to turn for, and has not.
    owed: AtomicUsize,
}

impl Cache {
    /// The cache may use so many bytes of the memory of memtables, beside its own, until
    /// [`Cache::call_in`].
    pub fn lend(&self, bytes: usize) {
        self.lent.loan.allow(bytes);
    }

    /// Most bytes of lent memory that the cache may use now.
    pub fn lent(&self) -> usize {
        self.lent.loan.allowed()
    }

    /// Bytes of lent memory that the cache, or readers of what it had there, have now.
    pub fn lent_held(&self) -> usize {
        self.lent.loan.held()
    }

    /// The cache empties all that is lent to it, and uses no more. Each chunk goes back once no
    /// reader has anything of it.
    pub fn call_in(&self) {
        self.lent.loan.allow(0);
        let mut pins = self.rings[Ground::Lent as usize].turn(None, false, |_| true).pins;
        let guard = epoch::pin();
        while !pins.is_empty() {
            let some = pins.split_off(pins.len().saturating_sub(RELEASED_AT_ONCE));
            guard.defer(move || drop(some));
        }
        guard.flush();
        drop(guard);
        // What no reader looks at goes in the third epoch.
        (0..3).for_each(|_| epoch::pin().flush());
    }

    /// A block of this weight found no lent memory, though it came again: something there has to go
    /// as well, for those that come next.
    fn turn_lent(&self, weight: usize) {
        let (lent, own) = (self.lent(), self.own_capacity());
        if lent == 0 {
            return;
        }
        let share = (weight as u128 * lent as u128 / (lent as u128 + own as u128)) as usize;
        let owed = self.lent.owed.fetch_add(share, Ordering::Relaxed) + share;
        if owed < weight {
            return;
        }
        self.lent.owed.fetch_sub(owed, Ordering::Relaxed);
        let evicted = self.rings[Ground::Lent as usize].turn(None, true, |gone| gone < owed);
        // Lent memory itself says what is not back yet.
        self.release(evicted.pins, 0, evicted.flush);
    }
}

impl Slots {
    /// Fills slot `i`, for which the cache's own memory has no room: with a copy in lent memory, if
    /// `copy` finds any. Else, if the block has come `again`, with the block itself, and others go.
    pub(super) fn fill_over(
        self: &Arc<Self>,
        i: usize,
        pin: Pin,
        weight: usize,
        again: bool,
        copy: impl FnOnce(&Loan) -> Option<Pin>,
    ) -> bool {
        if held(self.slots[i].load(Ordering::Relaxed)).is_some() {
            return false;
        }
        match copy(&self.cache.lent.loan) {
            Some(copy) => self.fill_lent(i, copy, weight),
            None if again => {
                self.cache.turn_lent(weight);
                self.fill(i, pin, weight)
            }
            None => false,
        }
    }

    /// Fills slot `i` with a block that lies in lent memory, unless it is full already.
    fn fill_lent(self: &Arc<Self>, i: usize, pin: Pin, weight: usize) -> bool {
        if !self.put(i, pin, weight, Ground::Lent) {
            return false;
        }
        let place = Place { table: Arc::downgrade(self), slot: i as u32, weight };
        self.cache.rings[Ground::Lent as usize].push(place);
        // Either the emptying of the ring has come to this place, or this thread sees that the loan
        // was called in before.
        if self.cache.lent() == 0 {
            self.cache.call_in();
        }
        true
    }
}
