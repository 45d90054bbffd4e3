//! The part of a cache that lies in idle write buffers, which the cache may borrow: `lend`,
//! `call_in`, and `fill_over`, which finds room there.
//!
//! A block that finds no room in the cache's own memory is copied into a lent chunk. All copied
//! blocks share a second ring of places. So only they go when the chunks are called in
//! (docs/decisions/0027). If the loan is full too, only a block that comes again is cached, in own
//! memory. The own hand makes room for it, and the lent hand turns for the loan's share of the
//! block's weight.
//!
//! What must hold: once a loan was called in, no slot holds a block of it. Blocks that readers
//! still hold count in `Cache::lent_held`.
//!
//! Callers: `engine::memory` lends and calls in; `Slots` and `apart` find room here.

use super::{Cache, Ground, Place, Slots, held};
use crate::{
    pin::Pin,
    pool::Loan,
    sync::atomic::{AtomicUsize, Ordering},
};
use crossbeam_epoch as epoch;
use std::sync::{Arc, atomic};

/// Blocks that are released by one thread at once when a loan is called in: it may be a reader's.
const RELEASED_AT_ONCE: usize = 256;

/// Turns of the epoch in which a thread that calls in waits for readers. What they hold for longer
/// comes back without it.
const TURNS_MAX: usize = 32;

/// No more than one part in so many of what is lent may have left and wait for readers.
const LEAVING_PARTS: usize = 16;

/// What is lent to a cache.
#[derive(Default)]
pub(super) struct Lent {
    pub(super) loan: Loan,
    /// Weight that the lent ring's hand is to turn for, and has not.
    owed: AtomicUsize,
    /// Weight that its hand has evicted and that is not released yet. It gets to nothing else, and
    /// is counted whenever garbage is collected, even where no scheduler knows of the thread.
    leaving: Arc<atomic::AtomicUsize>,
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

    /// What readers hold since a loan was called in, or is about to come back, keeps its pages.
    /// Those beside go back to the system.
    pub fn give_back_held(&self) {
        self.lent.loan.give_back_pages();
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
        // What no reader looks at goes in the third epoch. A thread that does not run may be in the
        // way.
        for round in 0..TURNS_MAX {
            if self.lent_held() == 0 {
                break;
            }
            epoch::pin().flush();
            if round > 3 {
                std::thread::yield_now();
            }
        }
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
        // While readers hold back what has left, more would leave for nothing.
        if self.lent.leaving.load(Ordering::Relaxed) > lent / LEAVING_PARTS {
            self.lent.owed.store(0, Ordering::Relaxed);
            return epoch::pin().flush();
        }
        self.lent.owed.fetch_sub(owed, Ordering::Relaxed);
        let evicted = self.rings[Ground::Lent as usize].turn(None, true, |gone| gone < owed);
        let (pins, weight, leaving) = (evicted.pins, evicted.weight, self.lent.leaving.clone());
        leaving.fetch_add(weight, Ordering::Relaxed);
        let guard = epoch::pin();
        guard.defer(move || {
            drop(pins);
            leaving.fetch_sub(weight, Ordering::Relaxed);
        });
        if evicted.flush {
            guard.flush();
        }
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

#[cfg(test)]
mod tests {
    use crate::{
        cache::{ApartSlots, Cache, Room, Slots, Whereabouts},
        pin::Slice,
        pool::CHUNK_BYTES,
    };
    use crossbeam_epoch as epoch;
    use std::{sync::Arc, time::Duration};

    const OWN_BYTES: usize = 256 << 10;
    const VALUE_BYTES: usize = 9000;
    /// More than there is memory for.
    const VALUES: u64 = 400;

    fn at(n: u64) -> Whereabouts {
        Whereabouts { file: 1, offset: n * 10_000, len: 9000, key: n.wrapping_mul(0x5851_f42d_4c95_7f2d) }
    }

    /// Keeps value `n`, unless it is there already.
    fn visit(slots: &ApartSlots, n: u64) -> Slice {
        let found = slots.get(&at(n), 0).unwrap_or_else(|| {
            let mut room = Room::new(VALUE_BYTES);
            room.record().fill(n as u8);
            slots.keep(at(n), room, 0)
        });
        assert!(found.len() == VALUE_BYTES && found.iter().all(|&byte| byte == n as u8), "{n}");
        found
    }

    fn cached(slots: &ApartSlots) -> Vec<u64> {
        (0..VALUES).filter(|&n| slots.get(&at(n), 0).is_some()).collect()
    }

    /// Turns the epoch until readers hold no more than `held` of what was lent.
    fn settle(cache: &Cache, held: usize) {
        for step in 0..20_000 {
            if cache.lent_held() <= held {
                return;
            }
            epoch::pin().flush();
            // Guards of other tests may be on threads that do not run.
            if step < 100 { std::thread::yield_now() } else { std::thread::sleep(Duration::from_millis(1)) }
        }
        panic!("{} bytes are held, {held} expected", cache.lent_held());
    }

    fn filled(lent: usize) -> (Arc<Cache>, ApartSlots) {
        let cache = Cache::new(OWN_BYTES);
        let slots = ApartSlots::new(&cache);
        cache.lend(lent);
        (0..VALUES).for_each(|n| drop(visit(&slots, n)));
        (cache, slots)
    }

    #[test]
    fn what_finds_no_room_lies_in_lent_memory_until_that_is_called_in() {
        let (cache, slots) = filled(2 * CHUNK_BYTES);
        assert_eq!((cache.capacity(), cache.lent()), (OWN_BYTES + 2 * CHUNK_BYTES, 2 * CHUNK_BYTES));
        // The hands of both rings have turned for what came last.
        assert!(cache.used() > CHUNK_BYTES + OWN_BYTES && cache.used() <= cache.capacity(), "{cache:?}");
        assert_eq!(cache.lent_held(), 2 * CHUNK_BYTES);
        assert!(cached(&slots).len() > (CHUNK_BYTES + OWN_BYTES) / VALUE_BYTES);
        cache.call_in();
        assert!(cache.used() <= OWN_BYTES && cache.capacity() == OWN_BYTES, "{cache:?}");
        settle(&cache, 0);
        let left = cached(&slots);
        assert!(!left.is_empty(), "what lay in its own memory stays");
        left.iter().for_each(|&n| drop(visit(&slots, n)));
    }

    #[test]
    fn a_reader_keeps_the_chunk_of_what_it_holds_and_no_other() {
        let (cache, slots) = filled(2 * CHUNK_BYTES);
        let held: Vec<(u64, Slice)> = cached(&slots).into_iter().map(|n| (n, visit(&slots, n))).collect();
        cache.set_capacity(0);
        cache.call_in();
        assert_eq!((cache.lent(), cache.lent_held()), (0, 2 * CHUNK_BYTES));
        assert!(held.iter().all(|(n, slice)| slice.iter().all(|&byte| byte == *n as u8)));
        drop((slots, cache));
        assert!(held.iter().all(|(n, slice)| slice.iter().all(|&byte| byte == *n as u8)));
    }

    #[test]
    fn lent_memory_that_is_full_serves_what_comes_later_too() {
        let (cache, slots) = filled(CHUNK_BYTES);
        let before = cached(&slots);
        let left = |of: &mut dyn Iterator<Item = u64>| of.filter(|&n| slots.get(&at(n), 0).is_some()).count();
        // Others come again and again. Guards of other tests may hold back what leaves for a while.
        let are_others = (0..if cfg!(miri) { 20 } else { 5000 }).any(|_| {
            (VALUES..2 * VALUES).for_each(|n| drop(visit(&slots, n)));
            epoch::pin().flush();
            std::thread::sleep(Duration::from_micros(100));
            let of_before = left(&mut before.iter().copied());
            let of_others = left(&mut (VALUES..2 * VALUES));
            of_before * 4 < before.len() && of_others * VALUE_BYTES * 4 > CHUNK_BYTES * 3
        });
        assert!(are_others);
        assert!(cache.used() <= cache.capacity());
    }

    #[test]
    fn a_table_that_goes_takes_what_it_has_in_lent_memory_with_it() {
        let (cache, slots) = filled(2 * CHUNK_BYTES);
        drop(slots);
        assert_eq!(cache.used(), 0);
        cache.call_in();
        settle(&cache, 0);
        let slots = Slots::new(&cache, 1);
        assert!(slots.peek(0, &epoch::pin()).is_none());
    }

    #[test]
    fn readers_fill_it_while_it_is_lent_and_called_in_and_nothing_stays_behind() {
        let cache = Cache::new(OWN_BYTES);
        let slots = ApartSlots::new(&cache);
        let rounds = if cfg!(miri) { 2 } else { 60 };
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2u64)
                .map(|reader| {
                    let slots = &slots;
                    scope.spawn(move || {
                        for n in 0..rounds * 100 {
                            visit(slots, (n * 7 + reader * 31) % VALUES);
                        }
                    })
                })
                .collect();
            while !readers.iter().all(|reader| reader.is_finished()) {
                cache.lend(2 * CHUNK_BYTES);
                std::thread::yield_now();
                cache.call_in();
            }
        });
        cache.call_in();
        assert!(cache.used() <= OWN_BYTES, "{cache:?}");
        settle(&cache, 0);
    }
}
