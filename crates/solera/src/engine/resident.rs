//! Separated values in the block cache: `CachedValues`, the `Resident` of value files.
//!
//! Through it value files keep values that were read (`keep`, `copy`) and find them again (`find`),
//! in the one budget of blocks. `stretches` keeps pieces of one sorted value file, by their number.
//!
//! What must hold: the places of values are made for the first value that is kept, so that a
//! database that never reads one has none.
//!
//! Caller: `files`, which gives it to the value files.

use crate::{
    cache::{ApartSlots, Cache, Room, Slots, Whereabouts},
    error::Result,
    key::hash,
    pin::{Pin, Slice},
    values::{Pointer, Resident, Stretches, record},
};
use crossbeam_epoch::Guard;
use std::sync::{Arc, OnceLock};

/// Values in the cache.
pub(super) struct CachedValues {
    cache: Arc<Cache>,
    slots: OnceLock<ApartSlots>,
}

impl CachedValues {
    /// None yet.
    pub(super) fn new(cache: Arc<Cache>) -> CachedValues {
        CachedValues { cache, slots: OnceLock::new() }
    }

    /// The places, which are made if there are none.
    fn slots(&self) -> Option<&ApartSlots> {
        if self.slots.get().is_none() {
            // Made before the cell is set: inside the cell no thread may wait for another.
            let made = ApartSlots::new(&self.cache);
            let _ = self.slots.set(made);
        }
        self.slots.get()
    }
}

fn whereabouts(pointer: &Pointer, key: &[u8]) -> Whereabouts {
    Whereabouts { file: pointer.file.0, offset: pointer.offset, len: pointer.len, key: hash(key) }
}

impl Resident for CachedValues {
    #[inline]
    fn expect(&self, hash: u64) {
        if let Some(slots) = self.slots.get() {
            slots.prefetch_line(hash);
        }
    }

    #[inline]
    fn expect_value(&self, hash: u64, guard: &Guard) {
        if let Some(slots) = self.slots.get() {
            slots.prefetch_value(hash, guard);
        }
    }

    fn find(&self, pointer: &Pointer, key: &[u8]) -> Option<Slice> {
        self.slots.get()?.get(&whereabouts(pointer, key), record::CHECKSUM_BYTES)
    }

    fn keep(
        &self,
        pointer: &Pointer,
        key: &[u8],
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Option<Result<Slice>> {
        let slots = self.slots()?;
        slots.takes(bytes).then(|| {
            let mut room = Room::new(bytes);
            read(room.record())?;
            Ok(slots.keep(whereabouts(pointer, key), room, record::CHECKSUM_BYTES))
        })
    }

    fn copy(&self, pointer: &Pointer, key: &[u8], value: &[u8]) {
        let bytes = record::CHECKSUM_BYTES + value.len();
        let Some(slots) = self.slots().filter(|slots| slots.has_room(bytes)) else { return };
        let mut room = Room::new(bytes);
        // Its sum is checked already, and no reader sees it.
        room.record()[record::CHECKSUM_BYTES..].copy_from_slice(value);
        slots.keep(whereabouts(pointer, key), room, record::CHECKSUM_BYTES);
    }

    fn stretches(&self, count: usize) -> Box<dyn Stretches> {
        Box::new(CachedStretches { cache: self.cache.clone(), slots: Slots::new(&self.cache, count) })
    }
}

/// Stretches of one sorted value file in the cache.
struct CachedStretches {
    cache: Arc<Cache>,
    slots: Arc<Slots>,
}

impl Stretches for CachedStretches {
    fn find(&self, number: usize) -> Option<Pin> {
        let guard = crossbeam_epoch::pin();
        (number < self.slots.places()).then(|| self.slots.get(number, &guard).map(|pin| pin.clone()))?
    }

    fn wants(&self, number: usize, weight: usize) -> bool {
        number < self.slots.places() && self.slots.has_passed(number) && self.cache.is_room(weight)
    }

    fn keep(&self, number: usize, pin: Pin, weight: usize) {
        self.slots.insert(number, pin, weight);
    }
}
