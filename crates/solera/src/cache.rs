//! The cache of blocks: `Cache`, which keeps them within a budget of bytes, and `Slots`, where they
//! lie. `Slots` are one table's places, by block number: there a hit is an array access, without
//! hash, lock or count. To put a block in takes the mutex of a `ring`. There the clock hand turns,
//! and evicts what was not used since it last came by. A lookup's block comes in at once while
//! nothing has to go for it. Other blocks mostly come in when they are read a second time. `apart`
//! holds values, `lent` uses lent memory, `beside` counts what walks hold.
//! What must hold:
//! - A slot fills only in `put`, and empties only under a ring's mutex or in `Drop`.
//! - What leaves is released through the epoch, so an older guard keeps what it found.
//! - `leaving` is what left the cache's own memory and is not released. While it and what is used
//!   fill that memory, nothing is inserted there; nor is what outweighs the cache.
//!
//! Callers: `block::slots` (tables); `engine::open` makes one for each database, `engine::memory`
//! sets its budget, `engine::resident` keeps values in it. `inspect` and `table::open_alone` make
//! one of 0 bytes.

mod apart;
mod beside;
mod lent;
mod reserved;
mod ring;

pub use apart::{ApartSlots, Room, Whereabouts};
pub use reserved::Reserved;

use crate::{
    pin::{Pin, PinHeader},
    pool::{self, BLOCK_CLASSES, BLOCKS, Loan, Settled, Share},
    prefetch::prefetch,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
};
use beside::Beside;
use crossbeam_epoch::{self as epoch, Guard};
use lent::Lent;
use ring::{Left, Place, Ring};
use std::{
    fmt,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::{self, NonNull},
    sync::{Arc, atomic},
};

/// Bytes that blocks beside the cached ones may take, and that wait to be used again: those evicted
/// and not yet released, and the differences in which sizes are cached. Without it hardly a block
/// would follow another in its memory.
const IN_PASSING_BYTES: usize = 1 << 20;
/// The same as a share of the budget: 1/16.
const IN_PASSING_SHARE: usize = 16;
/// All of it where memory is scarce: 1/4.
const IN_PASSING_SHARE_SCARCE: usize = 4;

/// What an empty slot holds if its block has come to a reader in passing: no address of a header,
/// which is aligned.
const PASSED: *mut PinHeader = ptr::without_provenance_mut(1);

/// The block that a slot with this content holds.
#[inline]
fn held(slot: *mut PinHeader) -> Option<NonNull<PinHeader>> {
    NonNull::new(slot).filter(|_| slot != PASSED)
}

/// Of the cache's capacity, a walk may take one part in so many for what it reads ahead.
const AHEAD_SHARE: usize = 128;

/// Readers put blocks in before others go for them: by one part in so many it may hold too much.
const CROWDED_SHARE: usize = 64;

/// Memory beside a cache of this capacity.
fn in_passing(capacity_bytes: usize) -> usize {
    (capacity_bytes / IN_PASSING_SHARE).saturating_add(IN_PASSING_BYTES)
}

/// Where a block lies.
#[derive(Clone, Copy)]
enum Ground {
    /// In the cache's own memory.
    Own,
    /// In a chunk that is lent.
    Lent,
}

const GROUNDS: [Ground; 2] = [Ground::Own, Ground::Lent];

/// A budget of bytes for blocks.
pub struct Cache {
    /// What its own memory may hold.
    capacity: AtomicUsize,
    /// What blocks leave behind when they go is kept for the next ones, as far as the budget
    /// reaches.
    memory: Share<BLOCK_CLASSES>,
    lent: Lent,
    beside: Beside,
    /// Weight of what has left its own memory and is not released yet. It gets to nothing else, and
    /// is counted whenever garbage is collected, even where no scheduler knows of the thread.
    leaving: Arc<atomic::AtomicUsize>,
    /// The budget is so small that what is beside the cache counts too.
    is_scarce: AtomicBool,
    /// Full slots, by [`Ground`].
    rings: [Ring; 2],
}

impl Cache {
    /// A cache of `capacity_bytes`; 0 keeps nothing.
    pub fn new(capacity_bytes: usize) -> Arc<Self> {
        Arc::new(Cache {
            capacity: AtomicUsize::new(capacity_bytes),
            memory: BLOCKS.share(capacity_bytes.saturating_add(in_passing(capacity_bytes))),
            lent: Lent::default(),
            beside: Beside::default(),
            leaving: Arc::default(),
            is_scarce: AtomicBool::new(false),
            rings: GROUNDS.map(Ring::new),
        })
    }

    /// What it may hold, in bytes: its budget, and what is lent to it.
    pub fn capacity(&self) -> usize {
        self.own_capacity() + self.lent()
    }

    /// The budget, in bytes.
    fn own_capacity(&self) -> usize {
        self.capacity.load(Ordering::Relaxed)
    }

    /// Changes the budget; what is over it is released before the call returns. What is lent stays.
    pub fn set_capacity(&self, capacity_bytes: usize) {
        self.capacity.store(capacity_bytes, Ordering::Relaxed);
        self.make_room(None);
        self.memory.set(self.memory_for(capacity_bytes));
    }

    /// Weight of what is cached, in bytes.
    pub fn used(&self) -> usize {
        self.rings.iter().map(|ring| ring.used.load(Ordering::Relaxed)).sum()
    }

    fn own(&self) -> &Ring {
        &self.rings[Ground::Own as usize]
    }

    /// Keeps as little as it can beside what it holds, from now on.
    pub fn set_scarce(&self) {
        self.is_scarce.store(true, Ordering::Relaxed);
        self.memory.set(self.memory_for(self.own_capacity()));
    }

    /// Memory beside a cache of this capacity.
    fn in_passing(&self, capacity_bytes: usize) -> usize {
        match self.is_scarce.load(Ordering::Relaxed) {
            true => capacity_bytes / IN_PASSING_SHARE_SCARCE,
            false => in_passing(capacity_bytes),
        }
    }

    /// Memory for a cache of this capacity.
    fn memory_for(&self, capacity_bytes: usize) -> usize {
        capacity_bytes.saturating_add(self.in_passing(capacity_bytes))
    }

    /// Whether so many bytes more fit the budget, so that nothing has to go for them.
    pub fn is_room(&self, weight: usize) -> bool {
        self.own().used.load(Ordering::Relaxed) + weight <= self.own_room()
    }

    /// Whether so many bytes fit the budget if nothing else is there.
    pub fn can_hold(&self, weight: usize) -> bool {
        weight <= self.own_room()
    }

    /// Turns the hand until the weights fit the budget, and puts `place` into the ring.
    fn make_room(&self, place: Option<Place>) {
        let own = self.own();
        let evicted = own.turn(place, true, |_| own.used.load(Ordering::Relaxed) > self.own_room());
        self.release(evicted.pins, evicted.weight, evicted.flush);
    }

    /// Drops references to blocks that weigh `weight` together in the cache's own memory, once no
    /// reader can still be looking at them; `flush` hands this thread's garbage over to the thread
    /// that advances the epoch.
    fn release(&self, pins: Vec<Pin>, weight: usize, flush: bool) {
        if pins.is_empty() {
            return;
        }
        let before = self.leaving.fetch_add(weight, Ordering::Relaxed);
        let leaving = self.leaving.clone();
        let guard = epoch::pin();
        guard.defer(move || {
            drop(pins);
            leaving.fetch_sub(weight, Ordering::Relaxed);
        });
        // A thread that stops here may never hand its garbage over: less than half of what may wait
        // must be what such threads keep.
        if flush || before + weight > self.in_passing(self.own_capacity()) / 2 {
            guard.flush();
        }
    }

    /// Whether so much is held that what was reserved should go.
    fn is_crowded(&self) -> bool {
        let room = self.own_room();
        self.own().used.load(Ordering::Relaxed) > room + room / CROWDED_SHARE
    }

    /// Whether the cache's own memory has room for so many bytes more, those included that have
    /// left and are not released.
    fn has_room(&self, weight: usize) -> bool {
        let held = self.own().used.load(Ordering::Relaxed) + self.leaving.load(Ordering::Relaxed);
        held.saturating_add(weight) <= self.memory_for(self.own_capacity())
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("capacity", &self.capacity()).field("used", &self.used()).finish()
    }
}

/// A pin that a slot owns, borrowed for as long as a guard lives, without being counted.
#[derive(Debug)]
pub struct PinRef<'g> {
    pin: ManuallyDrop<Pin>,
    _guard: PhantomData<&'g Guard>,
}

impl Deref for PinRef<'_> {
    type Target = Pin;
    #[inline]
    fn deref(&self) -> &Pin {
        &self.pin
    }
}

/// One table's blocks in the cache, by number.
pub struct Slots {
    cache: Arc<Cache>,
    /// Weight of the full slots, by [`Ground`].
    weights: [AtomicUsize; 2],
    slots: Box<[AtomicPtr<PinHeader>]>,
    left: Left,
    /// Has them on huge pages.
    _settled: Settled,
}

impl Slots {
    /// Places for `n` blocks, all empty.
    pub fn new(cache: &Arc<Cache>, n: usize) -> Arc<Self> {
        assert!(u32::try_from(n).is_ok(), "a table numbers its blocks in 32 bits");
        let slots: Box<[_]> = (0..n).map(|_| AtomicPtr::default()).collect();
        let settled = Settled::of(&slots);
        let weights = GROUNDS.map(|_| AtomicUsize::new(0));
        Arc::new(Slots { cache: cache.clone(), weights, slots, left: Left::default(), _settled: settled })
    }

    /// Asks for slot `i`, if there is one or not.
    #[inline]
    pub fn prefetch_slot(&self, i: usize) {
        prefetch(self.slots.as_ptr().wrapping_add(i).cast());
    }

    /// What slot `i` holds; it lives at least as long as the guard. Marks it as used.
    #[inline]
    pub fn get<'g>(&self, i: usize, guard: &'g Guard) -> Option<PinRef<'g>> {
        let pin = self.peek(i, guard)?;
        pin.header().touch();
        Some(pin)
    }

    /// [`Slots::get`] without marking: for a reader that will not come again.
    #[inline]
    pub fn peek<'g>(&self, i: usize, guard: &'g Guard) -> Option<PinRef<'g>> {
        // Another collector's guard holds nothing back here. There is no other in this crate.
        debug_assert_eq!(guard.collector(), Some(epoch::default_collector()));
        let header = held(self.slots[i].load(Ordering::Acquire))?;
        // SAFETY: a full slot owns a reference. When it loses it, the reference is dropped through
        // the epoch, which waits for the guard, pinned before the slot was read; and `PinRef` never
        // drops it.
        let pin = unsafe { Pin::from_raw(header) };
        Some(PinRef { pin: ManuallyDrop::new(pin), _guard: PhantomData })
    }

    /// As [`Slots::fill`], for a caller that need not know whether the slot was filled.
    pub fn insert(self: &Arc<Self>, i: usize, pin: Pin, weight: usize) {
        self.fill(i, pin, weight);
    }

    /// Fills slot `i` with a block that weighs `weight` bytes, and makes room for it. Does nothing,
    /// and says so, if the slot is full already (another reader missed too and came first), the
    /// block outweighs the cache, or too much that has left waits for a reader.
    pub fn fill(self: &Arc<Self>, i: usize, pin: Pin, weight: usize) -> bool {
        if weight >= self.cache.own_capacity() {
            return false;
        }
        if !self.cache.has_room(weight) {
            // Hands this thread's garbage over, so that any thread can release it.
            epoch::pin().flush();
            return false;
        }
        if !self.put(i, pin, weight, Ground::Own) {
            return false;
        }
        self.cache.make_room(Some(Place { table: Arc::downgrade(self), slot: i as u32, weight }));
        true
    }

    /// Takes a block that weighs `weight` out of slot `i`, if it is there and lies in the cache's
    /// own memory.
    pub fn give_way(&self, i: usize, pin: &Pin, weight: usize) {
        // As long as the caller has it, it lies where it lies.
        if !pool::is_lent(pin.as_ptr().addr().get()) {
            let taken = self.cache.own().take(self, i as u32, pin, weight);
            self.cache.release(taken.into_iter().collect(), weight, false);
        }
    }

    /// Puts a block that lies on this ground into slot `i`, unless that is full. The caller has the
    /// ring get its place.
    fn put(&self, i: usize, pin: Pin, weight: usize, ground: Ground) -> bool {
        let header = pin.as_ptr();
        let slot = &self.slots[i];
        let empty = slot.load(Ordering::Relaxed);
        let is_filled = held(empty).is_none()
            && slot.compare_exchange(empty, header.as_ptr(), Ordering::Release, Ordering::Relaxed).is_ok();
        if !is_filled {
            return false;
        }
        // The slot owns the reference now.
        let _ = pin.into_raw();
        self.weights[ground as usize].fetch_add(weight, Ordering::Relaxed);
        self.cache.rings[ground as usize].used.fetch_add(weight, Ordering::Relaxed);
        true
    }
}

impl Slots {
    /// [`Slots::insert`] where other blocks would not have to go for it; else the block is cached
    /// when it comes the second time. What is asked for once, of data that do not fit, pushes
    /// nothing out. `copy` copies the block into lent memory, if there is some: the second time
    /// also where another one was.
    pub fn insert_where_room(
        self: &Arc<Self>,
        i: usize,
        pin: Pin,
        weight: usize,
        copy: impl FnOnce(&Loan, bool) -> Option<Pin>,
    ) {
        if self.cache.is_room(weight) {
            return self.insert(i, pin, weight);
        }
        let again = self.has_passed(i);
        self.fill_over(i, pin, weight, again, |loan| copy(loan, again));
    }

    /// [`Slots::insert`] when the block comes the second time, whether there is room or not. For a
    /// reader that passes through many blocks, of which each is cheap to read again. New memory for
    /// it costs more than that (docs/decisions/0008). `copy` is as in [`Slots::insert_where_room`].
    pub fn insert_when_again(
        self: &Arc<Self>,
        i: usize,
        pin: Pin,
        weight: usize,
        copy: impl FnOnce(&Loan, bool) -> Option<Pin>,
    ) {
        if !self.has_passed(i) {
            return;
        }
        if self.cache.is_room(weight) {
            return self.insert(i, pin, weight);
        }
        self.fill_over(i, pin, weight, true, |loan| copy(loan, true));
    }

    /// As [`Cache::can_hold`].
    pub fn can_hold(&self, weight: usize) -> bool {
        self.cache.can_hold(weight)
    }

    /// As [`Cache::is_room`].
    pub fn is_room(&self, weight: usize) -> bool {
        self.cache.is_room(weight)
    }

    /// Most bytes that one walk may read ahead of its need: a small part of the cache's.
    pub fn ahead_bytes_max(&self) -> u64 {
        (self.cache.own_capacity() / AHEAD_SHARE) as u64
    }

    /// What a walk that leaves the cache alone reads at once at least, of `bytes`: a quarter of
    /// that where memory is scarce, for a merge has many of them.
    pub fn ahead_bytes_min(&self, bytes: u64) -> u64 {
        if self.cache.is_scarce.load(Ordering::Relaxed) { bytes / 4 } else { bytes }
    }

    /// As [`Cache::note_held`].
    pub fn note_held(&self, before: usize, now: usize) {
        self.cache.note_held(before, now);
    }

    /// As [`Cache::holds_too_much`].
    pub fn holds_too_much(&self) -> bool {
        self.cache.holds_too_much()
    }

    /// Weight of what lies in them.
    pub fn weight(&self) -> usize {
        self.weights.iter().map(|weight| weight.load(Ordering::Relaxed)).sum()
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.slots.len()
    }

    /// Whether block `i`, which is not cached, has come in passing before. It has from now on.
    pub fn has_passed(&self, i: usize) -> bool {
        let before =
            self.slots[i].compare_exchange(ptr::null_mut(), PASSED, Ordering::Relaxed, Ordering::Relaxed);
        before == Err(PASSED)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        let headers = self.slots.iter_mut().filter_map(|slot| held(*slot.get_mut()));
        // SAFETY: a full slot owns a reference, which it loses here: no other thread can reach this
        // table any more. A reader that found a block before has a guard, for which `release`
        // waits.
        let pins: Vec<Pin> = headers.map(|header| unsafe { Pin::from_raw(header) }).collect();
        let weights = self.weights.each_mut().map(|weight| *weight.get_mut());
        for (ring, weight) in self.cache.rings.iter().zip(weights).filter(|(_, weight)| *weight > 0) {
            ring.used.fetch_sub(weight, Ordering::Relaxed);
            ring.dead.fetch_add(pins.len(), Ordering::Relaxed);
        }
        self.cache.release(pins, weights[Ground::Own as usize], true);
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight: usize = self.weights.iter().map(|weight| weight.load(Ordering::Relaxed)).sum();
        f.debug_struct("Slots").field("slots", &self.slots.len()).field("weight", &weight).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::AtomicU64, time::Duration};

    /// A block that counts how many of its kind are alive.
    #[repr(C)]
    struct Counted {
        header: PinHeader,
        number: u64,
        alive: Arc<AtomicU64>,
    }

    /// # Safety
    /// `header` begins a block that `counted` made, and no reference to it is left.
    unsafe fn free(header: NonNull<PinHeader>) {
        // SAFETY: `counted` leaked this box, with the header as its first field.
        let counted = unsafe { Box::from_raw(header.cast::<Counted>().as_ptr()) };
        counted.alive.fetch_sub(1, Ordering::SeqCst);
    }

    fn counted(number: u64, alive: &Arc<AtomicU64>) -> Pin {
        alive.fetch_add(1, Ordering::SeqCst);
        let header = PinHeader::new(free);
        let counted = Box::leak(Box::new(Counted { header, number, alive: alive.clone() }));
        // SAFETY: repr(C) with the header first, immutable, and its one reference is ours.
        unsafe { Pin::from_raw(NonNull::from(counted).cast()) }
    }

    fn number(pin: &Pin) -> u64 {
        // SAFETY: the tests put only `Counted` into slots.
        unsafe { pin.as_ptr().cast::<Counted>().as_ref() }.number
    }

    /// Symptom: a count of cached bytes came out below 0. Cause: the hand of the own memory came to
    /// a place that a block had left, took the block that another had put there, in lent memory,
    /// and counted it as its own.
    #[test]
    fn a_slot_that_was_left_and_filled_again_is_emptied_by_its_own_place_alone() {
        let alive = Arc::new(AtomicU64::new(0));
        let cache = Cache::new(1000);
        let slots = Slots::new(&cache, 100);
        let pins: Vec<Pin> = (0..10).map(|i| counted(i, &alive)).collect();
        (0..10).for_each(|i| slots.insert(i, pins[i].clone(), 90));
        // Of another block nothing is taken.
        slots.give_way(3, &pins[4], 90);
        assert_eq!((slots.weight(), cached(&slots, 10).len()), (900, 10));
        slots.give_way(3, &pins[3], 90);
        slots.give_way(4, &pins[4], 90);
        slots.give_way(4, &pins[4], 90);
        assert_eq!((slots.weight(), cache.used(), cached(&slots, 10).len()), (720, 720, 8));
        // On the other ground, and of another weight on the same.
        assert!(slots.put(3, counted(13, &alive), 50, Ground::Lent));
        slots.insert(4, counted(14, &alive), 70);
        assert_eq!((slots.weight(), cache.used()), (840, 840));
        // The hand passes both places, and more than once.
        (20..60).for_each(|i| slots.insert(i, counted(i as u64, &alive), 80));
        let guard = epoch::pin();
        assert_eq!(slots.peek(3, &guard).map(|pin| number(&pin)), Some(13));
        assert!(slots.peek(4, &guard).is_none());
        drop(guard);
        let own: usize = cached(&slots, 100).len() - 1;
        assert_eq!((slots.weight(), cache.used()), (own * 80 + 50, own * 80 + 50));
        drop(slots);
        assert_eq!(cache.used(), 0);
    }

    fn cached(slots: &Slots, n: usize) -> Vec<usize> {
        let guard = epoch::pin();
        (0..n).filter(|&i| slots.peek(i, &guard).is_some()).collect()
    }

    /// Turns the epoch until everything released is dropped.
    fn settle(alive: &AtomicU64, expected: u64) {
        for step in 0..20_000 {
            if alive.load(Ordering::SeqCst) == expected {
                return;
            }
            epoch::pin().flush();
            // Guards of other tests may be on threads that do not run.
            if step < 100 { std::thread::yield_now() } else { std::thread::sleep(Duration::from_millis(1)) }
        }
        panic!("{} alive, {expected} expected", alive.load(Ordering::SeqCst));
    }

    #[test]
    fn what_was_touched_stays_and_what_was_not_goes_first() {
        let alive = Arc::default();
        let cache = Cache::new(400);
        let slots = Slots::new(&cache, 10);
        for i in 0..4 {
            slots.insert(i, counted(i as u64, &alive), 100);
        }
        assert_eq!((cached(&slots, 10), cache.used()), (vec![0, 1, 2, 3], 400));
        assert_eq!(slots.get(0, &epoch::pin()).map(|pin| number(&pin)), Some(0));
        slots.insert(4, counted(4, &alive), 100);
        assert_eq!((cached(&slots, 10), cache.used()), (vec![0, 2, 3, 4], 400));
        slots.insert(5, counted(5, &alive), 350);
        assert_eq!((cached(&slots, 10), cache.used()), (vec![5], 350));
        settle(&alive, 1);
    }

    #[test]
    fn what_comes_takes_room_but_pushes_nothing_out_before_it_comes_again() {
        let alive = Arc::default();
        let cache = Cache::new(300);
        let slots = Slots::new(&cache, 10);
        slots.insert(0, counted(0, &alive), 100);
        slots.insert_where_room(1, counted(1, &alive), 100, |_, _| None);
        slots.insert_where_room(2, counted(2, &alive), 100, |_, _| None);
        assert_eq!((cached(&slots, 10), cache.used()), (vec![0, 1, 2], 300));
        for i in 3..10 {
            slots.insert_where_room(i, counted(i as u64, &alive), 100, |_, _| None);
        }
        assert_eq!((cached(&slots, 10), cache.used()), (vec![0, 1, 2], 300));
        // It comes again, in passing or not; and once it has gone, it has not come before.
        slots.insert_where_room(5, counted(5, &alive), 100, |_, _| None);
        slots.insert(6, counted(6, &alive), 100);
        assert_eq!((cached(&slots, 10), cache.used()), (vec![2, 5, 6], 300));
        slots.insert_where_room(0, counted(0, &alive), 100, |_, _| None);
        assert_eq!(cached(&slots, 10), [2, 5, 6]);
        settle(&alive, 3);
        drop((slots, cache));
        settle(&alive, 0);
    }

    #[test]
    fn what_is_cheap_to_read_again_takes_no_room_before_it_comes_again() {
        let alive = Arc::default();
        let cache = Cache::new(300);
        let slots = Slots::new(&cache, 10);
        for pass in 0..2 {
            (0..3).for_each(|i| slots.insert_when_again(i, counted(i as u64, &alive), 100, |_, _| None));
            assert_eq!(cached(&slots, 10).len(), 3 * pass);
        }
        // A reader that comes for one block, and not in passing, has it cached at once.
        slots.insert_where_room(4, counted(4, &alive), 100, |_, _| None);
        assert_eq!(cached(&slots, 10), [0, 1, 2]);
        drop((slots, cache));
        settle(&alive, 0);
    }

    #[test]
    fn a_smaller_budget_evicts_at_once_and_none_keeps_nothing() {
        let alive = Arc::default();
        let cache = Cache::new(1000);
        let slots = Slots::new(&cache, 10);
        (0..9).for_each(|i| slots.insert(i, counted(0, &alive), 100));
        cache.set_capacity(250);
        assert_eq!((cached(&slots, 10).len(), cache.used()), (2, 200));
        cache.set_capacity(0);
        assert_eq!((cached(&slots, 10).len(), cache.used()), (0, 0));
        slots.insert(0, counted(0, &alive), 1);
        assert_eq!(cached(&slots, 10).len(), 0);
        settle(&alive, 0);
    }

    #[test]
    fn the_cache_gives_way_for_what_walks_hold_by_a_quarter_at_most() {
        let alive = Arc::default();
        let cache = Cache::new(1000);
        let slots = Slots::new(&cache, 20);
        (0..9).for_each(|i| slots.insert(i, counted(0, &alive), 100));
        assert_eq!((cache.used(), cache.holds_too_much()), (900, false));
        cache.note_held(0, 200);
        assert_eq!((cache.used(), cache.holds_too_much()), (800, false));
        cache.note_held(200, 500);
        assert_eq!((cache.used(), cache.holds_too_much()), (700, true));
        slots.insert(19, counted(0, &alive), 100);
        assert_eq!(cache.used(), 700);
        cache.note_held(500, 0);
        (0..9).for_each(|i| slots.insert(i, counted(0, &alive), 100));
        assert_eq!((cache.used(), cache.holds_too_much()), (1000, false));
        drop((slots, cache));
        settle(&alive, 0);
    }

    #[test]
    fn a_dropped_table_gives_its_weight_back_and_the_ring_forgets_it() {
        let alive = Arc::default();
        let cache = Cache::new(usize::MAX / 2);
        let blocks = if cfg!(miri) { 10 } else { 100 };
        for _ in 0..blocks {
            let slots = Slots::new(&cache, blocks);
            (0..blocks).for_each(|i| slots.insert(i, counted(0, &alive), 10));
        }
        assert_eq!(cache.used(), 0);
        assert!(cache.own().places() < 3 * ring::DEAD_PLACES_MAX);
        settle(&alive, 0);
    }

    #[test]
    fn the_second_of_two_insertions_is_dropped() {
        let alive = Arc::default();
        let cache = Cache::new(1000);
        let slots = Slots::new(&cache, 1);
        slots.insert(0, counted(1, &alive), 10);
        slots.insert(0, counted(2, &alive), 10);
        assert_eq!((alive.load(Ordering::SeqCst), cache.used()), (1, 10));
        assert_eq!(slots.get(0, &epoch::pin()).map(|pin| number(&pin)), Some(1));
    }

    #[test]
    fn a_block_lives_as_long_as_a_guard_that_found_it() {
        let alive = Arc::default();
        let cache = Cache::new(100);
        let slots = Slots::new(&cache, 2);
        slots.insert(0, counted(7, &alive), 60);
        let guard = epoch::pin();
        let found = slots.get(0, &guard).unwrap();
        slots.insert(1, counted(8, &alive), 60);
        slots.get(1, &guard).unwrap();
        drop(slots);
        assert_eq!((cache.used(), number(&found)), (0, 7));
        drop(guard);
        settle(&alive, 0);
    }

    #[test]
    fn what_leaves_while_a_reader_holds_it_back_is_bounded() {
        let alive = Arc::default();
        let cache = Cache::new(1000);
        let slots = Slots::new(&cache, 100);
        let weight = IN_PASSING_BYTES / 10;
        cache.set_capacity(2 * weight);
        let guard = epoch::pin();
        (0..100).for_each(|i| slots.insert(i, counted(0, &alive), weight));
        // Two in the cache, and those that left until it was enough.
        let kept = alive.load(Ordering::SeqCst);
        assert!((10..15).contains(&kept), "{kept}");
        drop(guard);
        settle(&alive, 2);
        slots.insert(99, counted(7, &alive), weight);
        assert_eq!(slots.peek(99, &epoch::pin()).map(|pin| number(&pin)), Some(7));
    }

    #[test]
    #[cfg_attr(miri, ignore = "many threads under Miri")]
    fn threads_that_stop_after_they_have_evicted_keep_half_of_what_may_wait_at_most() {
        let alive = Arc::default();
        let cache = Cache::new(1000);
        let weight = 4096;
        cache.set_capacity(10 * weight);
        let slots = Slots::new(&cache, 10_000);
        let (said, evicted) = std::sync::mpsc::channel();
        let done = std::sync::Barrier::new(41);
        let mut is_bounded = false;
        std::thread::scope(|scope| {
            // One after the other, so that each has evicted before the next begins.
            for thread in 0..40 {
                let (slots, alive, said, done) = (&slots, &alive, said.clone(), &done);
                scope.spawn(move || {
                    (0..45).for_each(|i| slots.insert(thread * 50 + i, counted(0, alive), weight));
                    let _ = said.send(());
                    done.wait();
                });
                let _ = evicted.recv();
            }
            // Other tests' guards may hold things back for a while, too.
            is_bounded = (0..5000).any(|_| {
                epoch::pin().flush();
                std::thread::sleep(Duration::from_millis(1));
                cache.leaving.load(Ordering::Relaxed) <= in_passing(cache.capacity()) / 2
            });
            done.wait();
        });
        assert!(is_bounded);
        settle(&alive, cache.used() as u64 / weight as u64);
    }

    #[test]
    fn readers_and_evictions_meet_without_losing_or_leaking_a_block() {
        let alive = Arc::default();
        let cache = Cache::new(2_000);
        std::thread::scope(|scope| {
            let tables: Vec<_> = (0..2).map(|_| Slots::new(&cache, 64)).collect();
            for thread in 0..4u64 {
                let (tables, alive, cache) = (tables.clone(), &alive, &cache);
                scope.spawn(move || {
                    let mut x = thread + 1;
                    for step in 0..if cfg!(miri) { 200 } else { 20_000 } {
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let (table, i) = ((x >> 40) as usize % 2, (x >> 50) as usize % 64);
                        let guard = epoch::pin();
                        match tables[table].get(i, &guard) {
                            Some(pin) => assert_eq!(number(&pin), (table * 64 + i) as u64),
                            None => tables[table].insert(i, counted((table * 64 + i) as u64, alive), 50),
                        }
                        if step % 1000 == 0 {
                            cache.set_capacity(1_000 + (x >> 60) as usize * 100);
                        }
                    }
                });
            }
        });
        assert_eq!(cache.used(), 0);
        settle(&alive, 0);
    }
}
