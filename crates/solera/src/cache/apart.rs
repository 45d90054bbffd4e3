//! Values in the cache that lie apart from their entries: `ApartSlots`, found by `Whereabouts`, a
//! place on disk.
//!
//! Values have no numbers as blocks do. The hash of the key names two lines of eight places, and a
//! tag says which of a line may have it. The hash is known before the pointer: `prefetch_line` and
//! `prefetch_value` ask for memory while the pointer is looked for. `Room` is memory that a record
//! is read into; `keep` leaves it in the first place that is free, if one is. `takes` refuses a
//! value larger than a sixteenth of the cache.
//!
//! What must hold: a value is shown only to a reader that asks for its place on disk, under a key
//! of the same hash. What the places themselves take counts as used.
//!
//! Caller: `engine::resident`, for value files.

use super::{Cache, Slots};
use crate::{
    pin::{Pin, PinHeader, Slice},
    pool::{self, BLOCKS, Loan, Settled},
    prefetch::{LINE_BYTES, prefetch, prefetch_lines},
    sync::atomic::{AtomicU64, Ordering},
};
use crossbeam_epoch::{self as epoch, Guard};
use std::{mem, ptr::NonNull, slice, sync::Arc};

/// One place for so many bytes of the cache: values are seldom smaller, and half of the places
/// should be free.
const BYTES_PER_PLACE: usize = 512;
/// Places of a line, one for each byte of its tags.
const LINE_PLACES: usize = 8;
/// Fewest and most lines.
const LINES: (usize, usize) = (8, 1 << 21);
/// What a line takes.
const LINE_MEMORY_BYTES: usize = LINE_PLACES * size_of::<usize>() + size_of::<u64>();
/// A value takes no more than one part in so many of the cache.
const VALUE_PARTS: usize = 16;
/// The one of all bytes.
const ONES: u64 = 0x0101_0101_0101_0101;
/// So many cache lines of a value are asked for. Behind them the processor sees by itself that they
/// follow each other.
const PREFETCHED_LINES: usize = 4;

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

/// What lies in front of a record that is kept.
#[repr(C)]
struct Held {
    header: PinHeader,
    at: Whereabouts,
    /// Bytes of the record.
    bytes: usize,
}

const HELD_BYTES: usize = size_of::<Held>();
const _: () = assert!(align_of::<Held>() <= pool::ALIGN);
/// Blocks have their own control there, with padding, which is not initialised.
const CLEARED_BYTES: usize = 2 * LINE_BYTES;
const _: () = assert!(HELD_BYTES <= CLEARED_BYTES);

/// Bytes of memory for a record of `bytes`.
fn allocated(bytes: usize) -> usize {
    (HELD_BYTES + bytes).max(CLEARED_BYTES)
}

/// Memory for one record, to be filled.
#[derive(Debug)]
pub struct Room {
    start: NonNull<u8>,
    bytes: usize,
}

impl Room {
    /// Memory for a record of `bytes`. The caller has checked a length that came from a file.
    pub fn new(bytes: usize) -> Room {
        let start = BLOCKS.take(allocated(bytes));
        // SAFETY: there are more bytes than these.
        unsafe { start.write_bytes(0, CLEARED_BYTES) };
        Room { start, bytes }
    }

    /// The record's bytes, to be written.
    pub fn record(&mut self) -> &mut [u8] {
        // SAFETY: so many follow what is held in front of them, and this room alone has them. They
        // are initialised: the pool's memory begins as zeros, blocks leave padding in the cleared
        // bytes alone, and values write nothing but bytes behind `Held`.
        unsafe { slice::from_raw_parts_mut(self.start.add(HELD_BYTES).as_ptr(), self.bytes) }
    }

    /// What it weighs once it is kept.
    fn weight(&self) -> usize {
        BLOCKS.rounded(allocated(self.bytes))
    }

    /// The record as something that is shared.
    fn hold(self, at: Whereabouts) -> Pin {
        let held = Held { header: PinHeader::new(free_held), at, bytes: self.bytes };
        let start = self.start.cast::<Held>();
        mem::forget(self);
        // SAFETY: the memory is aligned for a `Held` and has room for one. It begins with its
        // header, is immutable from now on, `Send` and `Sync`, and its one reference is ours.
        unsafe {
            start.write(held);
            Pin::from_raw(start.cast())
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: taken in `new`, and this is the end of it.
        unsafe { BLOCKS.give(self.start, allocated(self.bytes)) }
    }
}

// SAFETY: the memory is owned and plain.
unsafe impl Send for Room {}

/// Releases a record.
///
/// # Safety
/// `header` begins an object that `Room::hold` made, and no reference to it is left.
unsafe fn free_held(header: NonNull<PinHeader>) {
    // SAFETY: only `Room::hold` names this function, on an object that begins with a `Held`;
    // nothing in it needs dropping.
    let bytes = unsafe { header.cast::<Held>().as_ref() }.bytes;
    drop(Room { start: header.cast(), bytes });
}

/// The record of `pin` without its first `skipped` bytes.
///
/// # Safety
/// The pin is one that `Room::hold` made.
#[inline]
unsafe fn shown(pin: &Pin, skipped: usize) -> Slice {
    let start = pin.as_ptr().cast::<Held>();
    // SAFETY: by the contract a `Held` is there, and a record of so many bytes behind it, in the
    // object that the pin keeps. No thread writes to it.
    unsafe {
        let record = slice::from_raw_parts(start.cast::<u8>().add(HELD_BYTES).as_ptr(), start.as_ref().bytes);
        Slice::pinned(pin, &record[skipped..])
    }
}

/// Places for values in a cache.
#[derive(Debug)]
pub struct ApartSlots {
    cache: Arc<Cache>,
    slots: Arc<Slots>,
    /// A byte of the hash of each place's key, line by line. Right for places that are full, unless
    /// two values came to one place at one moment: then one of them is not found.
    tags: Box<[AtomicU64]>,
    /// Has them on huge pages.
    _settled: Settled,
}

/// The two lines of a hash, and its tag.
#[derive(Clone, Copy)]
struct Lines {
    lines: [usize; 2],
    tag: u8,
}

impl ApartSlots {
    /// As many places as the present budget of `cache` can fill.
    pub fn new(cache: &Arc<Cache>) -> ApartSlots {
        let places = cache.own_capacity() / BYTES_PER_PLACE;
        let lines = (places / LINE_PLACES).next_power_of_two().clamp(LINES.0, LINES.1);
        cache.own().used.fetch_add(lines * LINE_MEMORY_BYTES, Ordering::Relaxed);
        let tags: Box<[_]> = (0..lines).map(|_| AtomicU64::new(0)).collect();
        let settled = Settled::of(&tags);
        let slots = Slots::new(cache, lines * LINE_PLACES);
        ApartSlots { cache: cache.clone(), slots, tags, _settled: settled }
    }

    #[inline]
    fn lines_of(&self, key: u64) -> Lines {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mask = self.tags.len() - 1;
        let line = |hash: u64| (hash >> 8) as usize & mask;
        Lines { lines: [line(mixed), line(mixed.rotate_left(29))], tag: (mixed >> 56) as u8 }
    }

    /// The places of a line that may have this tag.
    #[inline]
    fn tagged(&self, line: usize, tag: u8) -> impl Iterator<Item = usize> + use<> {
        let apart = self.tags[line].load(Ordering::Relaxed) ^ (u64::from(tag) * ONES);
        // The highest bit of bytes that are 0, and perhaps of bytes above one: those are looked at
        // in vain.
        let mut equal = apart.wrapping_sub(ONES) & !apart & (ONES << 7);
        std::iter::from_fn(move || {
            let place = (equal != 0).then(|| line * LINE_PLACES + equal.trailing_zeros() as usize / 8)?;
            equal &= equal - 1;
            Some(place)
        })
    }

    /// Asks for the first line of a key with this hash.
    #[inline]
    pub fn prefetch_line(&self, key: u64) {
        let line = self.lines_of(key).lines[0];
        prefetch(self.tags.as_ptr().wrapping_add(line).cast());
        self.slots.prefetch_slot(line * LINE_PLACES);
        self.slots.prefetch_slot(line * LINE_PLACES + LINE_PLACES - 1);
    }

    /// Asks for what the first line has for a key with this hash.
    #[inline]
    pub fn prefetch_value(&self, key: u64, guard: &Guard) {
        let Lines { lines: [line, _], tag } = self.lines_of(key);
        for place in self.tagged(line, tag) {
            if let Some(pin) = self.slots.peek(place, guard) {
                prefetch_lines::<PREFETCHED_LINES>(pin.as_ptr().as_ptr().cast());
            }
        }
    }

    /// The record that lies there without its first `skipped` bytes, if it is in the cache.
    #[inline]
    pub fn get(&self, at: &Whereabouts, skipped: usize) -> Option<Slice> {
        let guard = epoch::pin();
        let Lines { lines, tag } = self.lines_of(at.key);
        for line in lines {
            for place in self.tagged(line, tag) {
                let Some(pin) = self.slots.peek(place, &guard) else { continue };
                // SAFETY: `keep` alone fills these places, with a `Held` that is immutable and
                // lives as long as the pin.
                let held = unsafe { pin.as_ptr().cast::<Held>().as_ref() };
                if held.at == *at {
                    held.header.touch();
                    // SAFETY: a held record.
                    return Some(unsafe { shown(&pin, skipped) });
                }
            }
        }
        None
    }

    /// Whether a record of so many bytes can be kept.
    pub fn takes(&self, bytes: usize) -> bool {
        allocated(bytes) <= self.cache.own_capacity() / VALUE_PARTS
    }

    /// Whether a record of so many bytes can be kept, and nothing has to go for it.
    pub fn has_room(&self, bytes: usize) -> bool {
        let weight = BLOCKS.rounded(allocated(bytes));
        self.takes(bytes) && self.cache.is_room(weight + 1)
    }

    /// Fills a place with a held record of `at`: where the cache is full, with a copy of it in lent
    /// memory, if there is some.
    fn fill(&self, place: usize, pin: Pin, weight: usize, at: Whereabouts) -> bool {
        if self.cache.is_room(weight) {
            return self.slots.fill(place, pin, weight);
        }
        // SAFETY: a held record.
        let record = unsafe { shown(&pin, 0) };
        let copy = |loan: &Loan| {
            let start = loan.take(allocated(record.len()), true)?;
            // SAFETY: there are more bytes than these.
            unsafe { start.write_bytes(0, CLEARED_BYTES) };
            let room = Room { start, bytes: record.len() };
            // SAFETY: so many bytes follow what is held in front of them, of memory that is this
            // room's alone.
            unsafe { room.start.add(HELD_BYTES).copy_from(NonNull::from(&*record).cast(), record.len()) };
            Some(room.hold(at))
        };
        self.slots.fill_over(place, pin, weight, true, copy)
    }

    /// Puts a record into the cache, if one of its places is free, and shows it without its first
    /// `skipped` bytes.
    pub fn keep(&self, at: Whereabouts, record: Room, skipped: usize) -> Slice {
        let weight = record.weight();
        let pin = record.hold(at);
        // SAFETY: a held record.
        let shown = unsafe { shown(&pin, skipped) };
        let Lines { lines, tag } = self.lines_of(at.key);
        let guard = epoch::pin();
        let mut places = lines.into_iter().flat_map(|line| line * LINE_PLACES..(line + 1) * LINE_PLACES);
        let free = places.find(|&place| self.slots.peek(place, &guard).is_none());
        drop(guard);
        if let Some(place) = free
            && self.fill(place, pin, weight, at)
        {
            let (tags, shift) = (&self.tags[place / LINE_PLACES], place % LINE_PLACES * 8);
            let before = (tags.load(Ordering::Relaxed) >> shift) as u8;
            tags.fetch_xor(u64::from(before ^ tag) << shift, Ordering::Relaxed);
        }
        shown
    }
}

impl Drop for ApartSlots {
    fn drop(&mut self) {
        self.cache.own().used.fetch_sub(self.tags.len() * LINE_MEMORY_BYTES, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(n: u64) -> Whereabouts {
        Whereabouts { file: n % 7, offset: n * 1000, len: 100, key: n.wrapping_mul(0x5851_f42d_4c95_7f2d) }
    }

    fn value(n: u64) -> Vec<u8> {
        n.to_le_bytes().repeat(100 / 8)
    }

    fn keep(slots: &ApartSlots, at: Whereabouts, value: &[u8]) -> Slice {
        let mut room = Room::new(4 + value.len());
        room.record()[4..].copy_from_slice(value);
        slots.keep(at, room, 4)
    }

    #[test]
    fn a_value_comes_back_to_who_asks_for_its_place_and_key() {
        let cache = Cache::new(1 << 20);
        let slots = ApartSlots::new(&cache);
        for n in 0..1000 {
            assert_eq!(keep(&slots, at(n), &value(n)), value(n));
        }
        for n in 0..1000 {
            assert_eq!(slots.get(&at(n), 4).unwrap(), value(n), "half of the places are free");
            let other = Whereabouts { key: 1, ..at(n) };
            assert!(slots.get(&other, 4).is_none(), "a value of another key");
            assert!(slots.get(&Whereabouts { file: 8, ..at(n) }, 4).is_none(), "a value of another file");
            assert!(slots.get(&Whereabouts { offset: 1, ..at(n) }, 4).is_none(), "at another place");
            assert!(slots.get(&Whereabouts { len: 99, ..at(n) }, 4).is_none(), "of another length");
        }
    }

    #[test]
    fn versions_of_one_key_are_told_apart() {
        let cache = Cache::new(1 << 20);
        let slots = ApartSlots::new(&cache);
        let version = |n: u64| Whereabouts { key: 5, ..at(n) };
        (0..16).for_each(|n| drop(keep(&slots, version(n), &value(n))));
        for n in 0..16 {
            assert_eq!(slots.get(&version(n), 4).unwrap(), value(n));
        }
        drop(keep(&slots, version(16), &value(16)));
        assert!(slots.get(&version(16), 4).is_none(), "no place is left");
        assert_eq!(slots.get(&version(3), 4).unwrap(), value(3));
    }

    #[test]
    fn values_stay_within_the_budget_and_leave_nothing_behind() {
        let cache = Cache::new(64 << 10);
        let slots = ApartSlots::new(&cache);
        assert!(slots.get(&at(0), 4).is_none());
        let large = |n: u64| vec![n as u8; 900];
        for n in 0..20_000 {
            keep(&slots, at(n), &large(n));
            assert!(cache.used() <= cache.capacity(), "{} bytes", cache.used());
        }
        let held: Vec<(u64, Slice)> =
            (0..20_000).filter_map(|n| slots.get(&at(n), 4).map(|kept| (n, kept))).collect();
        assert!(held.len() > 20, "{} values", held.len());
        assert!(slots.takes(900) && !slots.takes(60 << 10), "a value as large as the cache");
        drop(slots);
        assert_eq!(cache.used(), 0);
        assert!(held.iter().all(|(n, kept)| **kept == large(*n)), "who holds a value keeps it");
    }
}
