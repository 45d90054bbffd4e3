//! Values in the cache that lie apart from their entries: `ApartSlots`, found by `Whereabouts`, a
//! place on disk.
//!
//! Values have no numbers as blocks do. A hash names two places, and `keep` takes one that is free;
//! a value larger than a sixteenth of the cache is not kept. `get` gives a value that stays alive
//! while it is held.
//!
//! What must hold: a value is shown only to who asks for the same place on disk, under a key of the
//! same hash. What the places themselves take counts as used.
//!
//! Caller: `engine::resident`, for value files.

use super::{Cache, Slots};
use crate::pin::{Pin, PinHeader, Slice};
use crossbeam_epoch as epoch;
use std::{
    ptr::NonNull,
    sync::{Arc, atomic::Ordering},
};

/// One place for so many bytes of the cache: values are seldom smaller, and half of the places
/// should be free.
const BYTES_PER_PLACE: usize = 512;
/// Fewest and most places.
const PLACES: (usize, usize) = (64, 1 << 24);
/// A value takes no more than one part in so many of the cache.
const VALUE_PARTS: usize = 16;
/// What a value takes in the cache besides its bytes.
const HELD_BYTES: usize = size_of::<Held>() + 32;

/// Where a value lies on disk, and a hash of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The number of its file.
    pub file: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length, in bytes.
    pub len: u32,
    /// A hash of the key that it belongs to.
    pub key: u64,
}

impl Whereabouts {
    /// Numbers that name its two places.
    fn hashes(&self) -> [u64; 2] {
        let mixed =
            (self.file.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.offset).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mixed = mixed ^ mixed >> 32;
        [mixed, mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 17]
    }
}

#[repr(C)]
struct Held {
    header: PinHeader,
    at: Whereabouts,
    bytes: Box<[u8]>,
}

/// Releases a value.
///
/// # Safety
/// `header` begins an object that `ApartSlots::keep` made, and nobody refers to it any more.
unsafe fn free_held(header: NonNull<PinHeader>) {
    // SAFETY: only `ApartSlots::keep` uses this function, on a leaked `Box<Held>`.
    drop(unsafe { Box::from_raw(header.cast::<Held>().as_ptr()) });
}

/// Places for values in a cache.
#[derive(Debug)]
pub struct ApartSlots {
    cache: Arc<Cache>,
    slots: Arc<Slots>,
    /// A power of two.
    places: usize,
}

impl ApartSlots {
    /// As many places as the present budget of `cache` can fill.
    pub fn new(cache: &Arc<Cache>) -> ApartSlots {
        let places = (cache.capacity() / BYTES_PER_PLACE).next_power_of_two().clamp(PLACES.0, PLACES.1);
        cache.used.fetch_add(places * size_of::<usize>(), Ordering::Relaxed);
        ApartSlots { cache: cache.clone(), slots: Slots::new(cache, places), places }
    }

    fn places_of(&self, at: &Whereabouts) -> [usize; 2] {
        at.hashes().map(|hash| hash as usize & (self.places - 1))
    }

    /// The value that lies there, if it is in the cache.
    pub fn get(&self, at: &Whereabouts) -> Option<Slice> {
        let guard = epoch::pin();
        self.places_of(at).into_iter().find_map(|place| {
            let pin = self.slots.peek(place, &guard)?;
            // SAFETY: `keep` alone fills these places, with a `Held` that is immutable and lives as
            // long as the pin.
            let held = unsafe { pin.as_ptr().cast::<Held>().as_ref() };
            if held.at != *at {
                return None;
            }
            held.header.touch();
            // SAFETY: the bytes belong to the object that the pin keeps.
            Some(unsafe { Slice::pinned(&pin, &held.bytes) })
        })
    }

    /// Puts a value into the cache, if one of its places is free.
    pub fn keep(self: &ApartSlots, at: Whereabouts, bytes: &[u8]) {
        let weight = bytes.len() + HELD_BYTES;
        let guard = epoch::pin();
        let free = self.places_of(&at).into_iter().find(|&place| self.slots.peek(place, &guard).is_none());
        let Some(place) = free.filter(|_| weight <= self.cache.capacity() / VALUE_PARTS) else { return };
        drop(guard);
        let held = Held { header: PinHeader::new(free_held), at, bytes: bytes.into() };
        let held = NonNull::from(Box::leak(Box::new(held)));
        // SAFETY: `Held` is repr(C) with the header first, immutable, `Send` and `Sync`, and its
        // one reference is ours.
        let pin = unsafe { Pin::from_raw(held.cast()) };
        self.slots.insert(place, pin, weight);
    }
}

impl Drop for ApartSlots {
    fn drop(&mut self) {
        self.cache.used.fetch_sub(self.places * size_of::<usize>(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Whereabouts {
        Whereabouts { file: n % 7, offset: n * 1000, len: 100, key: n * 3 }
    }

    fn value(n: u64) -> Vec<u8> {
        n.to_le_bytes().repeat(100 / 8)
    }

    #[test]
    fn a_value_comes_back_to_who_asks_for_its_place_and_key() {
        let cache = Cache::new(1 << 20);
        let slots = ApartSlots::new(&cache);
        (0..1000).for_each(|n| slots.keep(at(n), &value(n)));
        let found = (0..1000).filter(|&n| slots.get(&at(n)).is_some_and(|kept| *kept == value(n))).count();
        assert!(found > 500, "{found} of 1000 values in {} places", slots.places);
        for n in 0..1000 {
            let other = Whereabouts { key: 1, ..at(n) };
            assert!(slots.get(&other).is_none(), "a value of another key");
            assert!(slots.get(&Whereabouts { file: 8, ..at(n) }).is_none(), "a value of another file");
        }
    }

    #[test]
    fn values_stay_within_the_budget_and_leave_nothing_behind() {
        let cache = Cache::new(64 << 10);
        let slots = ApartSlots::new(&cache);
        assert!(slots.get(&at(0)).is_none());
        let large = |n: u64| vec![n as u8; 900];
        for n in 0..20_000 {
            slots.keep(at(n), &large(n));
            assert!(cache.used() <= cache.capacity(), "{} bytes", cache.used());
        }
        let held: Vec<(u64, Slice)> =
            (0..20_000).filter_map(|n| slots.get(&at(n)).map(|kept| (n, kept))).collect();
        assert!(held.len() > 20, "{} values", held.len());
        let other = Whereabouts { file: 8, ..at(1) };
        slots.keep(other, &vec![0; 60 << 10]);
        assert!(slots.get(&other).is_none(), "a value as large as the cache");
        drop(slots);
        assert_eq!(cache.used(), 0);
        assert!(held.iter().all(|(n, kept)| **kept == large(*n)), "who holds a value keeps it");
    }
}
