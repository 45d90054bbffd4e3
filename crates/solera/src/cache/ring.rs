//! Full slots in the order in which a clock's hand comes to them: `Ring`, `Place`.
//!
//! `turn` turns the hand as long as it is told to, and takes what it evicts out of the slots. With
//! `spares`, a block that was touched goes round once more. In the second round being touched does
//! not help, or readers as fast as the hand could keep it turning forever.
//!
//! What must hold: each slot that fills gets one place, in the ring of the ground that its block
//! lies on. It is emptied under the mutex of that ring, or when its table drops. Places of dropped
//! tables, and of what was taken out (`Left`), stay until the hand or a sweep comes by. The hand
//! comes to such a place before it comes to a later one of the same slot. `used` is the weight of
//! the full slots; on the cache's own ground also that of the lines of `cache::apart`.
//!
//! Callers: `cache`, which has one for each ground, and its `lent`; `cache::apart` counts in
//! `used`.

use super::{Ground, Slots, held};
use crate::{
    pin::Pin,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use std::{
    collections::{BTreeMap, VecDeque},
    ptr,
    sync::Weak,
};

/// Evicted bytes that may wait in a thread's bag of garbage before it is handed over: handing over
/// costs as much as the rest of an eviction, and waiting costs memory beyond the budget.
const UNFLUSHED_BYTES_MAX: usize = 256 << 10;

/// Ring places of dropped tables are swept out when there are this many more of them than of living
/// ones.
pub(super) const DEAD_PLACES_MAX: usize = 1024;

/// Full slots on one ground.
pub(super) struct Ring {
    ground: Ground,
    pub(super) used: AtomicUsize,
    /// Places whose table is gone, or more.
    pub(super) dead: AtomicUsize,
    clock: Mutex<Clock>,
}

#[derive(Default)]
struct Clock {
    /// Full slots, the longest in the cache first. The hand stands at the front.
    places: VecDeque<Place>,
    /// Weight evicted since garbage was last handed over.
    unflushed: usize,
}

/// A slot that is full, or was when it came in.
pub(super) struct Place {
    pub(super) table: Weak<Slots>,
    pub(super) slot: u32,
    pub(super) weight: usize,
}

/// The places of one table that [`Ring::take`] left behind in the ring, by slot. They change under
/// the ring's mutex.
#[derive(Default)]
pub(super) struct Left {
    count: AtomicUsize,
    places: Mutex<BTreeMap<u32, u32>>,
}

impl Left {
    fn add(&self, slot: u32) {
        *self.places.lock().entry(slot).or_default() += 1;
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets one of a slot, if there is one.
    fn remove(&self, slot: u32) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut places = self.places.lock();
        let Some(count) = places.get_mut(&slot) else { return false };
        *count -= 1;
        if *count == 0 {
            places.remove(&slot);
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }
}

/// What [`Ring::turn`] took out of slots.
#[derive(Default)]
pub(super) struct Evicted {
    pub(super) pins: Vec<Pin>,
    pub(super) weight: usize,
    /// So much has left that this thread should hand its garbage over.
    pub(super) flush: bool,
}

impl Ring {
    pub(super) fn new(ground: Ground) -> Ring {
        Ring { ground, used: AtomicUsize::new(0), dead: AtomicUsize::new(0), clock: Mutex::default() }
    }

    /// How many places there are.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.clock.lock().places.len()
    }

    /// Puts in a place that is not to be turned away from.
    pub(super) fn push(&self, place: Place) {
        self.clock.lock().places.push_back(place);
    }

    /// Turns the hand as long as `is_over` says so of the weight that has gone, and puts `place` in
    /// last, so that a block is not evicted by its own insertion. With `spares`, what was touched
    /// goes round once more.
    pub(super) fn turn(
        &self,
        place: Option<Place>,
        spares: bool,
        is_over: impl Fn(usize) -> bool,
    ) -> Evicted {
        let mut evicted = Evicted::default();
        let mut clock = self.clock.lock();
        let Clock { places, unflushed } = &mut *clock;
        if self.dead.load(Ordering::Relaxed) > places.len() / 2 + DEAD_PLACES_MAX {
            self.dead.store(0, Ordering::Relaxed);
            places.retain(|place| match place.table.upgrade() {
                Some(table) => !self.is_left(&table, place.slot),
                None => false,
            });
        }
        let mut second_chances = if spares { places.len() } else { 0 };
        while is_over(evicted.weight) {
            let Some(place) = places.pop_front() else { break };
            let Some(table) = place.table.upgrade() else { continue };
            if self.is_left(&table, place.slot) {
                continue;
            }
            let slot = &table.slots[place.slot as usize];
            let Some(header) = held(slot.load(Ordering::Acquire)) else { continue };
            // SAFETY: a slot is emptied only under the mutex that is held here, or when its table
            // drops, which `table` keeps from happening; so it still owns the reference that keeps
            // the header alive.
            if second_chances > 0 && unsafe { header.as_ref() }.take_touched() {
                second_chances -= 1;
                places.push_back(place);
                continue;
            }
            slot.store(ptr::null_mut(), Ordering::Release);
            table.weights[self.ground as usize].fetch_sub(place.weight, Ordering::Relaxed);
            self.used.fetch_sub(place.weight, Ordering::Relaxed);
            *unflushed += place.weight;
            evicted.weight += place.weight;
            // SAFETY: the slot owned one reference, given to it by `fill`, and has just lost it.
            evicted.pins.push(unsafe { Pin::from_raw(header) });
        }
        places.extend(place);
        evicted.flush = *unflushed >= UNFLUSHED_BYTES_MAX;
        if evicted.flush {
            *unflushed = 0;
        }
        evicted
    }

    /// Takes `pin`, which lies on this ground and weighs `weight`, out of its slot, if it is still
    /// there. Its place is left behind.
    pub(super) fn take(&self, slots: &Slots, slot: u32, pin: &Pin, weight: usize) -> Option<Pin> {
        let _clock = self.clock.lock();
        let content = &slots.slots[slot as usize];
        let header = held(content.load(Ordering::Acquire)).filter(|header| *header == pin.as_ptr())?;
        content.store(ptr::null_mut(), Ordering::Release);
        slots.weights[self.ground as usize].fetch_sub(weight, Ordering::Relaxed);
        self.used.fetch_sub(weight, Ordering::Relaxed);
        self.dead.fetch_add(1, Ordering::Relaxed);
        slots.left.add(slot);
        // SAFETY: what lies on this ground leaves its slot only under the mutex that is held here,
        // or when its table drops, which the borrow keeps from happening. So the slot owned a
        // reference until now.
        Some(unsafe { Pin::from_raw(header) })
    }

    /// Whether the place that the hand came to was left behind. Its slot may have filled again:
    /// then the place of that is behind this one. The caller holds the mutex.
    fn is_left(&self, table: &Slots, slot: u32) -> bool {
        matches!(self.ground, Ground::Own) && table.left.remove(slot)
    }
}
