//! Memory that is used again, on whatever thread: `Pool`, its two instances `BLOCKS` and `CHUNKS`,
//! `Share`, `Loan`, `Settled`.
//!
//! An allocator keeps for a thread what was freed on it, so blocks that one thread reads in and
//! another evicts spread over all heaps. The engine hands its large pieces on by itself: blocks and
//! cached values up to 64 KiB, rounded up to a step, and memtable chunks of 1 MiB. `take` and
//! `give` exchange pieces; larger ones are mapped. Those of large pools lie in regions of huge
//! pages (`extents`). `Settled` counts other memory to regions that get huge pages.
//! `trim_after_large` has the system's allocator give back what it keeps of large pieces.
//!
//! What must hold: once pieces in use and kept exceed the sum of all open databases' `Share`s, what
//! comes back is not kept. At the next `take` of new memory, or smaller share, kept pieces go back
//! to the allocator. All databases of a process share the pools.
//!
//! Callers: `block::memory`, `memtable::arena`, `cache::apart` and `values::stretch` take pieces.
//! `cache` and `engine::memory` hold shares; `cache`, `filter` and `table::reader` settle.
//! `engine::memory` (which has large pieces mapped), `compaction::job` and `merge::visible` trim;
//! `control::observe` asks for `kept_bytes`.

mod extents;
mod huge;
mod loan;
mod mapped;
mod paging;
mod regions;

use extents::Extents;
use huge::REGION_BYTES;
pub use loan::{Loan, is_lent};
use mapped::MAPPED_BYTES_MIN;
pub use mapped::{map, unmap};

use parking_lot::Mutex;
use regions::Regions;
use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Bytes of pieces that are too large to be kept, given back since [`trim_after_large`] last saw
/// enough of them.
static LARGE_GIVEN: AtomicUsize = AtomicUsize::new(0);
/// Pieces from this size on count as large.
const LARGE_BYTES: usize = 1 << 20;
/// What the allocator may keep at the end of a heap where large pieces are mapped.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
const HEAP_END_BYTES: usize = 2 << 20;

/// What every piece is aligned to: a cache line.
pub const ALIGN: usize = 64;
/// Bytes of a large chunk of a memtable, the only size that [`CHUNKS`] keeps.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Up to so many bytes, blocks and values are rounded up to [`FINE_BYTES`]: a step of a large piece
/// would be a quarter of them.
const FINE_BYTES_MAX: usize = 2 << 10;
const FINE_BYTES: usize = 64;
/// The step of larger ones, and the largest that are kept.
const COARSE_BYTES: usize = 256;
const COARSE_BYTES_MAX: usize = 64 << 10;
/// Sizes of blocks and values that are kept.
pub const BLOCK_CLASSES: usize =
    FINE_BYTES_MAX / FINE_BYTES + (COARSE_BYTES_MAX - FINE_BYTES_MAX) / COARSE_BYTES;
/// A pool that may hold so much has its pieces in regions of 2 MiB. To one that may hold less, what
/// is not carved of a region would be much.
const EXTENTS_FROM: usize = 64 << 20;
/// Where a pool takes more than its limit by one part in so many of it, free pages of regions go
/// back.
const SHRINK_SHARE: usize = 16;
/// So many kept pieces are released to find room for one.
const RELEASES_MAX: usize = 32;
/// Most that one share counts for: no sum of shares overflows.
const SHARE_MAX: usize = 1 << 44;

/// Memory of blocks, and of values apart from them: in steps up to 64 KiB, larger ones are not
/// kept.
pub static BLOCKS: Pool<BLOCK_CLASSES> = Pool::with_fine(COARSE_BYTES, FINE_BYTES, FINE_BYTES_MAX);
/// Memory of memtables.
pub static CHUNKS: Pool<1> = Pool::new(CHUNK_BYTES);

/// Where the pieces of both lie, and what is settled among them.
static REGIONS: Regions = Regions::new();

/// A piece that is not in use.
struct Piece(NonNull<u8>);

// SAFETY: a piece is plain memory that no other code has.
unsafe impl Send for Piece {}

/// Pieces of up to `CLASSES` steps.
pub struct Pool<const CLASSES: usize> {
    step: usize,
    /// The step of pieces up to `fine_max`, which is a multiple of both.
    fine: usize,
    fine_max: usize,
    /// Most that may be in use and kept together.
    limit: AtomicUsize,
    in_use: AtomicUsize,
    kept: AtomicUsize,
    classes: [Class; CLASSES],
    /// Where pieces lie if the limit is at least [`EXTENTS_FROM`], or half of it once some do.
    extents: Extents,
}

/// Pieces of one size that are kept.
struct Class {
    pieces: Mutex<Vec<Piece>>,
    /// How many they are, for code that compares sizes: to lock each costs more than a piece.
    count: AtomicUsize,
}

impl Class {
    const fn new() -> Self {
        Class { pieces: Mutex::new(Vec::new()), count: AtomicUsize::new(0) }
    }

    fn pop(&self) -> Option<Piece> {
        let mut pieces = self.pieces.lock();
        let piece = pieces.pop();
        self.count.store(pieces.len(), Ordering::Relaxed);
        piece
    }

    fn push(&self, piece: Piece) {
        let mut pieces = self.pieces.lock();
        pieces.push(piece);
        self.count.store(pieces.len(), Ordering::Relaxed);
    }
}

impl<const CLASSES: usize> Pool<CLASSES> {
    const fn new(step: usize) -> Self {
        Pool::with_fine(step, step, 0)
    }

    const fn with_fine(step: usize, fine: usize, fine_max: usize) -> Self {
        Pool {
            step,
            fine,
            fine_max,
            limit: AtomicUsize::new(0),
            in_use: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            classes: [const { Class::new() }; CLASSES],
            extents: Extents::new(),
        }
    }

    /// Bytes of pieces that are kept and in no use.
    pub fn kept_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    /// What a piece of `bytes` takes.
    #[inline]
    pub fn rounded(&self, bytes: usize) -> usize {
        let step = if bytes <= self.fine_max { self.fine } else { self.step };
        bytes.checked_next_multiple_of(step).unwrap_or(usize::MAX)
    }

    /// The pieces of that size; `None` if it is not kept.
    fn class(&self, rounded: usize) -> Option<&Class> {
        let steps = match rounded.checked_sub(self.fine_max) {
            Some(above @ 1..) => self.fine_max / self.fine + above / self.step,
            _ => rounded / self.fine,
        };
        self.classes.get(steps.checked_sub(1)?)
    }

    /// The size of the pieces of each class.
    fn sizes(&self) -> impl Iterator<Item = usize> {
        let fine = self.fine_max / self.fine;
        (1..).map(move |steps| match steps <= fine {
            true => steps * self.fine,
            false => self.fine_max + (steps - fine) * self.step,
        })
    }

    fn layout(rounded: usize) -> Layout {
        Layout::from_size_align(rounded, ALIGN).expect("a piece fits the address space")
    }

    /// At least `bytes` of memory of whatever content, aligned to [`ALIGN`]. `bytes` is not 0. New
    /// memory is zeros; what was given back is as initialised as its holders left it, which is not
    /// where they wrote types with padding.
    pub fn take(&self, bytes: usize) -> NonNull<u8> {
        let rounded = self.rounded(bytes);
        self.in_use.fetch_add(rounded, Ordering::Relaxed);
        if let Some(Piece(start)) = self.class(rounded).and_then(Class::pop) {
            self.kept.fetch_sub(rounded, Ordering::Relaxed);
            return start;
        }
        // Pieces of other sizes make room.
        self.trim();
        if let Some(start) = self.in_region(rounded) {
            return start;
        }
        let start = if rounded >= MAPPED_BYTES_MIN { map(rounded) } else { Self::allocated(rounded) };
        if rounded <= CHUNK_BYTES {
            REGIONS.add(start.addr().get(), rounded);
        }
        start
    }

    /// New memory in a region, if the pool is large, or was and has room there.
    fn in_region(&self, rounded: usize) -> Option<NonNull<u8>> {
        self.class(rounded)?;
        let limit = self.limit.load(Ordering::Relaxed);
        for _ in 0..RELEASES_MAX {
            if let Some(start) = self.extents.take(rounded) {
                return Some(start);
            }
            // What lies free between pieces counts like what is kept: before another region comes,
            // kept pieces make room.
            if self.taken() + REGION_BYTES <= limit || !self.release_fullest() {
                break;
            }
        }
        // Not now one way and now the other: both would keep memory for the same.
        let from = if self.extents.held() > 0 { EXTENTS_FROM / 2 } else { EXTENTS_FROM };
        if limit >= from { self.extents.grow(rounded) } else { None }
    }

    /// What pieces take of memory, with what lies free between those in regions.
    fn taken(&self) -> usize {
        let outside = self.held_bytes().saturating_sub(self.extents.out());
        outside + self.extents.held()
    }

    /// Zeros from the allocator.
    fn allocated(rounded: usize) -> NonNull<u8> {
        let layout = Self::layout(rounded);
        // SAFETY: a multiple of the step of at least one byte is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
    }

    /// Gives a piece back.
    ///
    /// # Safety
    /// `start` came from [`Pool::take`] of this pool with the same `bytes`, and is used no more. Or
    /// it came from [`Loan::take`], and this is [`BLOCKS`].
    pub unsafe fn give(&self, start: NonNull<u8>, bytes: usize) {
        let rounded = self.rounded(bytes);
        // SAFETY: by the contract.
        if unsafe { loan::give(start, rounded) } {
            return;
        }
        let in_use = self.in_use.fetch_sub(rounded, Ordering::Relaxed);
        if let Some(class) = self.class(rounded)
            && in_use + self.kept.load(Ordering::Relaxed) <= self.limit.load(Ordering::Relaxed)
        {
            self.kept.fetch_add(rounded, Ordering::Relaxed);
            class.push(Piece(start));
            return;
        }
        gave_large(rounded);
        // SAFETY: `take` allocated it with this size; by the contract it is used no more.
        unsafe { self.release(start, rounded) }
    }

    /// Gives kept pieces back to the allocator until the rest is within the limit: each time one of
    /// the size of which most is kept, so that in the end of each size is kept what is needed of
    /// it.
    fn trim(&self) {
        while self.in_use.load(Ordering::Relaxed) + self.kept.load(Ordering::Relaxed)
            > self.limit.load(Ordering::Relaxed)
            && self.release_fullest()
        {}
    }

    /// Gives one kept piece back to the allocator, of the size of which most is kept. False: none
    /// is.
    fn release_fullest(&self) -> bool {
        if self.kept.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let fullest = self
            .sizes()
            .zip(&self.classes)
            .max_by_key(|(size, class)| size * class.count.load(Ordering::Relaxed));
        let Some((rounded, class)) = fullest else { return false };
        // Another thread may have been faster.
        let Some(Piece(start)) = class.pop() else { return false };
        self.kept.fetch_sub(rounded, Ordering::Relaxed);
        // SAFETY: `take` allocated it with this size, and it was not in use.
        unsafe { self.release(start, rounded) }
        true
    }

    /// Gives a piece back to the allocator.
    ///
    /// # Safety
    /// `take` allocated it with this size, and it is used no more.
    unsafe fn release(&self, start: NonNull<u8>, rounded: usize) {
        // SAFETY: by the contract.
        if unsafe { self.extents.give(start, rounded) } {
            return;
        }
        if rounded <= CHUNK_BYTES {
            REGIONS.remove(start.addr().get(), rounded);
        }
        if rounded >= MAPPED_BYTES_MIN {
            // SAFETY: by the contract; `take` maps pieces of such sizes.
            return unsafe { unmap(start, rounded) };
        }
        // SAFETY: by the contract.
        unsafe { dealloc(start.as_ptr(), Self::layout(rounded)) }
    }

    /// Gives the system what lies free in regions, if the pool takes more than the limit by far: it
    /// has become smaller, or its pieces are of other sizes now.
    pub fn shrink(&self) {
        if self.extents.held() == 0 {
            return;
        }
        let limit = self.limit.load(Ordering::Relaxed);
        if limit < EXTENTS_FROM / 2 {
            self.extents.shed();
        }
        self.extents.give_back_pages(|| self.taken() > limit + limit / SHRINK_SHARE);
    }

    /// Bytes of pieces in use and kept, over all databases of the process.
    pub fn held_bytes(&self) -> usize {
        self.in_use.load(Ordering::Relaxed) + self.kept.load(Ordering::Relaxed)
    }

    /// Lets the pool hold `bytes` more for as long as the share lives.
    pub fn share(&'static self, bytes: usize) -> Share<CLASSES> {
        let share = Share { pool: self, bytes: AtomicUsize::new(0) };
        share.set(bytes);
        share
    }
}

/// Has the allocator give back to the system what it keeps of freed memory, on all threads' heaps.
/// It keeps some mebibytes of each thread's, which is nothing to a large budget and much to a small
/// one. Does nothing where the allocator is none of the system's, or knows no such call.
pub fn trim_allocator() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: it may be called at any time, from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the system's allocator map each piece of a mebibyte or more by itself, from now on and in
/// the whole process, so that it is the system's again once it is freed. By itself the allocator
/// takes pieces of such sizes from its heaps as soon as it has freed some, and keeps them there.
/// Does nothing where the allocator is none of the system's, or knows no such call.
pub fn map_large_allocations() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        static DONE: std::sync::Once = std::sync::Once::new();
        DONE.call_once(|| {
            // SAFETY: they may be called at any time, from any thread.
            unsafe {
                libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES as libc::c_int);
                // Else the end of a heap would come and go with every piece of 128 KiB.
                libc::mallopt(libc::M_TRIM_THRESHOLD, HEAP_END_BYTES as libc::c_int);
            }
        });
    }
}

/// Notes that a piece of so many bytes goes back. What was made of its content has mostly gone back
/// to the allocator too. That keeps it: once it has freed large pieces it takes the next ones from
/// its heaps, and leaves holes there.
pub fn gave_large(bytes: usize) {
    if bytes > LARGE_BYTES {
        LARGE_GIVEN.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// As [`trim_allocator`], if large pieces of so many bytes together were given back since.
pub fn trim_after_large(bytes: u64) {
    if LARGE_GIVEN.load(Ordering::Relaxed) as u64 >= bytes && LARGE_GIVEN.swap(0, Ordering::Relaxed) > 0 {
        trim_allocator();
    }
}

/// Memory of another owner, large and read at random, that is to lie on huge pages like the pools'
/// (docs/decisions/0008): a table's filter, the places of its blocks.
#[derive(Debug)]
pub struct Settled {
    address: usize,
    bytes: usize,
}

impl Settled {
    /// Counts this memory as a piece for as long as the result lives, which should be as long as
    /// the memory.
    pub fn of<T>(memory: &[T]) -> Settled {
        let settled = Settled { address: memory.as_ptr().addr(), bytes: size_of_val(memory) };
        REGIONS.add(settled.address, settled.bytes);
        settled
    }
}

impl Drop for Settled {
    fn drop(&mut self) {
        REGIONS.remove(self.address, self.bytes);
    }
}

/// A part of what a pool may hold.
pub struct Share<const CLASSES: usize> {
    pool: &'static Pool<CLASSES>,
    bytes: AtomicUsize,
}

impl<const CLASSES: usize> Share<CLASSES> {
    /// Makes the share this large.
    pub fn set(&self, bytes: usize) {
        let bytes = bytes.min(SHARE_MAX);
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        // Wraps where it shrinks, and comes out right.
        self.pool.limit.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
        if bytes < before {
            self.pool.trim();
            self.pool.shrink();
        }
    }
}

impl<const CLASSES: usize> Drop for Share<CLASSES> {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> &'static Pool<8> {
        Box::leak(Box::new(Pool::new(100)))
    }

    /// Bytes in use and kept.
    fn held(pool: &Pool<8>) -> (usize, usize) {
        (pool.in_use.load(Ordering::Relaxed), pool.kept.load(Ordering::Relaxed))
    }

    #[test]
    fn what_is_given_back_is_taken_again_by_a_piece_of_nearly_its_size() {
        let pool = pool();
        let share = pool.share(1000);
        let first = pool.take(301);
        assert_eq!((first.addr().get() % ALIGN, held(pool)), (0, (400, 0)));
        // SAFETY: taken above.
        unsafe { pool.give(first, 301) };
        assert_eq!(held(pool), (0, 400));
        let second = pool.take(390);
        assert_eq!((second, held(pool)), (first, (400, 0)));
        // SAFETY: taken above.
        unsafe { pool.give(second, 390) };
        drop(share);
        assert_eq!(held(pool), (0, 0));
    }

    #[test]
    fn small_pieces_are_rounded_less_and_every_size_has_a_class_of_its_own() {
        let pool: Pool<8> = Pool::with_fine(100, 20, 100);
        assert_eq!(
            [1, 20, 21, 100, 101, 200, 201].map(|bytes| pool.rounded(bytes)),
            [20, 20, 40, 100, 200, 200, 300]
        );
        let sizes: Vec<usize> = pool.sizes().take(8).collect();
        assert_eq!(sizes, [20, 40, 60, 80, 100, 200, 300, 400]);
        for (class, &size) in pool.classes.iter().zip(&sizes) {
            assert!(pool.class(size).is_some_and(|of| std::ptr::eq(of, class)), "{size}");
        }
        assert!(pool.class(500).is_none());
        assert!(BLOCKS.class(COARSE_BYTES_MAX).is_some());
        assert!(BLOCKS.class(COARSE_BYTES_MAX + COARSE_BYTES).is_none());
    }

    #[test]
    fn no_more_is_kept_than_the_shares_allow() {
        let pool = pool();
        let share = pool.share(500);
        let pieces = [(); 10].map(|()| pool.take(100));
        assert_eq!(held(pool), (1000, 0));
        for piece in pieces {
            // SAFETY: taken above.
            unsafe { pool.give(piece, 100) };
        }
        assert_eq!(held(pool), (0, 500));
        share.set(200);
        assert_eq!(held(pool), (0, 200));
        // A piece of another size makes those go that are in its way.
        let other = pool.take(150);
        assert_eq!(held(pool), (200, 0));
        // SAFETY: taken above.
        unsafe { pool.give(other, 150) };
        drop(share);
        assert_eq!(held(pool), (0, 0));
    }

    #[test]
    fn a_piece_of_a_size_that_is_not_kept_comes_and_goes() {
        let pool = pool();
        let _share = pool.share(1 << 20);
        for bytes in [801, (1 << 20) + 1] {
            let large = pool.take(bytes);
            // SAFETY: as many bytes were taken.
            unsafe { large.write_bytes(7, bytes) };
            // SAFETY: taken above.
            unsafe { pool.give(large, bytes) };
            assert_eq!(held(pool), (0, 0));
        }
    }

    /// Symptom: 64 operands of 8 MiB of which the largest counts took 564 MiB. Cause: the allocator
    /// kept what was freed of such sizes. Cure: each has a mapping of its own.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn what_a_large_piece_took_is_the_systems_again_at_once() {
        let resident = |start: NonNull<u8>, bytes: usize| {
            let mut pages = vec![0u8; bytes.div_ceil(4096)];
            // SAFETY: a vector has a byte for each page; the call only tells of mappings.
            let found = unsafe { libc::mincore(start.as_ptr().cast(), bytes, pages.as_mut_ptr()) };
            (found == 0).then(|| pages.iter().filter(|&&page| page & 1 == 1).count())
        };
        const BYTES: usize = 9 << 20;
        let pool = pool();
        let _share = pool.share(64 << 20);
        let large = pool.take(BYTES);
        // SAFETY: as many bytes were taken.
        unsafe { large.write_bytes(7, BYTES) };
        assert_eq!(resident(large, BYTES), Some(BYTES / 4096));
        // SAFETY: taken above.
        unsafe { pool.give(large, BYTES) };
        // Another thread may have mapped a part of the place since, but hardly all of it.
        assert_ne!(resident(large, BYTES), Some(BYTES / 4096));
    }

    #[test]
    fn threads_hand_pieces_on_without_mixing_them_up() {
        let pool = pool();
        let _share = pool.share(2000);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    for step in 0..if cfg!(miri) { 50 } else { 20_000 } {
                        let bytes = 1 + (step * 37 + usize::from(thread)) % 700;
                        let piece = pool.take(bytes);
                        // SAFETY: as many bytes were taken.
                        unsafe { piece.write_bytes(thread, bytes) };
                        // SAFETY: as above.
                        let seen = unsafe { NonNull::slice_from_raw_parts(piece, bytes).as_ref() };
                        assert!(seen.iter().all(|&byte| byte == thread));
                        // SAFETY: taken above.
                        unsafe { pool.give(piece, bytes) };
                    }
                });
            }
        });
        let (in_use, kept) = held(pool);
        assert_eq!(in_use, 0);
        assert!(kept <= 2000);
    }
}
