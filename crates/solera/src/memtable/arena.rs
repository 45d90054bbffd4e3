//! Where a memtable's bytes lie: `Arena`, chunks that are freed together, `Bump`, a writer's place,
//! and `Holdings`, what the arenas of one database take.
//!
//! A bump takes pieces from the last chunk. Chunks double up to the largest that the holdings
//! allow. Those of the pool's size go from memtable to memtable by `pool`. A piece above a quarter
//! of the largest gets its own chunk. Other chunks from 64 KiB on are mapped by themselves.
//! What must hold: nothing is moved or freed before the arena goes, and the arena goes with its
//! last `pin::Pin`. The memtable holds some, and each value slice of more than 24 bytes holds one;
//! shorter values are copied. Pieces of one bump are aligned alike.
//! Callers: `memtable::tree` owns an arena with a bump for records, and one for nodes and the words
//! of the filter. `memtable::record` writes into the former. `engine::memory` asks the holdings how
//! much is taken, and sets the largest chunk.

use crate::{
    pin::{Pin, PinHeader},
    pool::{self, CHUNK_BYTES, CHUNKS},
    tombstone::RangeTombstones,
};
use parking_lot::Mutex;
use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Chunks double up to this, so that the last one wastes little of a write buffer. Chunks of
/// this size go from memtable to memtable.
const CHUNK_BYTES_MAX: usize = CHUNK_BYTES;
/// Chunks of so many bytes have mappings of their own. A worker frees what a writer took, so they
/// would leave holes in the writers' heaps, and under a small budget all chunks are of such sizes.
const MAPPED_CHUNK_BYTES_MIN: usize = 64 << 10;
/// Chunks begin on a cache line, so that nodes do.
const CHUNK_ALIGN: usize = pool::ALIGN;

/// What the memtables of one database take, those included that were flushed and that readers hold.
/// A count that no scheduler needs to know of: writers read it as it comes.
#[derive(Debug)]
pub struct Holdings {
    bytes: AtomicUsize,
    chunk_bytes_max: AtomicUsize,
    /// What memtables without range tombstones share.
    pub(super) no_tombstones: Arc<RangeTombstones>,
}

impl Default for Holdings {
    fn default() -> Self {
        Holdings {
            bytes: AtomicUsize::new(0),
            chunk_bytes_max: AtomicUsize::new(CHUNK_BYTES_MAX),
            no_tombstones: Arc::default(),
        }
    }
}

impl Holdings {
    /// Bytes of all chunks, with what is not used of them yet.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Largest chunk, where no piece needs a larger one.
    pub fn chunk_bytes_max(&self) -> usize {
        self.chunk_bytes_max.load(Ordering::Relaxed)
    }

    /// Chunks that are made from now on have at most so many bytes: a power of two, at most that of
    /// the pool.
    pub fn set_chunk_bytes_max(&self, bytes: usize) {
        debug_assert!(bytes.is_power_of_two() && bytes <= CHUNK_BYTES_MAX);
        self.chunk_bytes_max.store(bytes, Ordering::Relaxed);
    }
}

/// Memory that a memtable's nodes and records live in.
#[repr(C)]
pub(super) struct Arena {
    header: PinHeader,
    chunks: Mutex<Vec<Chunk>>,
    holdings: Arc<Holdings>,
}

impl Drop for Arena {
    fn drop(&mut self) {
        let bytes: usize = self.chunks.get_mut().drain(..).map(|chunk| chunk.layout.size()).sum();
        self.holdings.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Arena {
    /// An arena without chunks, which counts in `holdings`. The pin is its only reference.
    pub(super) fn pinned(holdings: &Arc<Holdings>) -> Pin {
        let (header, holdings) = (PinHeader::new(free_arena), holdings.clone());
        let arena = Arena { header, chunks: Mutex::default(), holdings };
        let arena = NonNull::from(Box::leak(Box::new(arena)));
        // SAFETY: `Arena` is repr(C) with the header first, its fields are Send + Sync, and its one
        // reference is ours.
        unsafe { Pin::from_raw(arena.cast()) }
    }

    /// The arena behind a pin made by [`Arena::pinned`].
    ///
    /// # Safety
    /// `pin` came from `Arena::pinned`, directly or by cloning.
    unsafe fn of(pin: &Pin) -> &Arena {
        // SAFETY: the caller vouches for the type, and the pin keeps the arena alive.
        unsafe { pin.as_ptr().cast::<Arena>().as_ref() }
    }
}

/// Releases an arena.
///
/// # Safety
/// `header` begins an arena that `Arena::pinned` made, and nothing refers to it any more.
unsafe fn free_arena(header: NonNull<PinHeader>) {
    // SAFETY: only `Arena::pinned` uses this function, on a leaked `Box<Arena>`.
    drop(unsafe { Box::from_raw(header.cast::<Arena>().as_ptr()) });
}

struct Chunk {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a chunk is plain memory; the memtable decides which thread may touch which bytes.
unsafe impl Send for Chunk {}
// SAFETY: as above; a shared chunk gives access to nothing.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(bytes: usize) -> Self {
        let Ok(layout) = Layout::from_size_align(bytes, CHUNK_ALIGN) else {
            // Larger than the address space.
            handle_alloc_error(Layout::new::<u8>())
        };
        if bytes == CHUNK_BYTES {
            return Chunk { start: CHUNKS.take(bytes), layout };
        }
        if bytes >= MAPPED_CHUNK_BYTES_MIN {
            return Chunk { start: pool::map(bytes), layout };
        }
        // SAFETY: no caller asks for zero bytes.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        Chunk { start, layout }
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.layout.size() == CHUNK_BYTES {
            // SAFETY: taken in `Chunk::new` with this size; every user of it held the arena.
            return unsafe { CHUNKS.give(self.start, CHUNK_BYTES) };
        }
        pool::gave_large(self.layout.size());
        if self.layout.size() >= MAPPED_CHUNK_BYTES_MIN {
            // SAFETY: mapped in `Chunk::new` with this size; every user of it held the arena.
            return unsafe { pool::unmap(self.start, self.layout.size()) };
        }
        // SAFETY: allocated in `Chunk::new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The writer's place in an arena. What one bump hands out is aligned alike, so that nothing is
/// lost between pieces: a memtable has one for records and one for nodes.
pub(super) struct Bump {
    arena: Pin,
    align: usize,
    chunk_bytes: usize,
    next: NonNull<u8>,
    left: usize,
    used: usize,
}

// SAFETY: `next` is the unused rest of a chunk that only this bump hands out.
unsafe impl Send for Bump {}

impl Bump {
    /// A bump for pieces aligned to `align`, in the arena that `arena` pins. Its first chunk has
    /// `first_bytes`, and is made with the first piece.
    ///
    /// # Safety
    /// `arena` came from [`Arena::pinned`], directly or by cloning.
    pub(super) unsafe fn new(arena: Pin, align: usize, first_bytes: usize) -> Self {
        debug_assert!(align.is_power_of_two() && align <= CHUNK_ALIGN);
        let (chunk_bytes, next) = (first_bytes, NonNull::dangling());
        Bump { arena, align, chunk_bytes, next, left: 0, used: 0 }
    }

    /// What the pieces are aligned to.
    pub(super) fn align(&self) -> usize {
        self.align
    }

    /// Bytes handed out so far, and what was lost at the ends of large chunks.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// At least `bytes` of uninitialised memory that no other piece has, alive as long as the
    /// arena.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(self.align);
        self.used += bytes;
        if bytes > self.left {
            return self.take_from_new_chunk(bytes);
        }
        let piece = self.next;
        // SAFETY: `left` bytes of the chunk follow `next`.
        self.next = unsafe { piece.add(bytes) };
        self.left -= bytes;
        piece
    }

    #[cold]
    fn take_from_new_chunk(&mut self, bytes: usize) -> NonNull<u8> {
        // SAFETY: by the contract of `Bump::new`.
        let arena = unsafe { Arena::of(&self.arena) };
        let largest = arena.holdings.chunk_bytes_max();
        // A large value gets a chunk of its own, and the rest of the present chunk stays in use.
        let own = bytes > largest / 4;
        let chunk = Chunk::new(if own { bytes } else { self.chunk_bytes.max(bytes) });
        let (piece, left) = (chunk.start, chunk.layout.size() - bytes);
        arena.holdings.bytes.fetch_add(chunk.layout.size(), Ordering::Relaxed);
        arena.chunks.lock().push(chunk);
        if !own {
            // The rest of the chunk before is lost until the arena goes. Of the first chunks, which
            // are small, that is little.
            if self.chunk_bytes >= largest {
                self.used += self.left;
            }
            // SAFETY: the chunk is at least `bytes` long.
            self.next = unsafe { piece.add(bytes) };
            self.left = left;
            self.chunk_bytes = (self.chunk_bytes * 2).min(largest);
        }
        piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: eight threads that put values of 262,000 bytes took a tenth more than the budget.
    /// Cause: three such records fill a chunk of 1 MiB, and its last quarter was counted nowhere.
    /// Cure: a bump counts what it leaves behind in large chunks.
    #[test]
    fn what_is_lost_at_the_ends_of_large_chunks_is_counted() {
        for bytes in [40, 3000, 262_016, 300_000, (1 << 20) + 64] {
            let arena = Arena::pinned(&Arc::default());
            // SAFETY: the arena is one of `Arena::pinned`.
            let mut bump = unsafe { Bump::new(arena.clone(), 8, 1024) };
            let pieces = if cfg!(miri) { 10 } else { (20 << 20) / bytes };
            for _ in 0..pieces {
                bump.take(bytes);
            }
            // SAFETY: as above.
            let chunks = unsafe { Arena::of(&arena) }.chunks.lock();
            let taken: usize = chunks.iter().map(|chunk| chunk.layout.size()).sum();
            let lost = taken - bump.used() - bump.left;
            assert!(lost < CHUNK_BYTES_MAX, "{bytes}: {lost} of the first chunks");
        }
    }

    /// Symptom: under 16 MiB seven memtables took 3.4 MiB, where 2 are granted. Cause: chunks
    /// doubled, and the last one was half empty. Cure: the holdings say how large a chunk may be.
    #[test]
    fn holdings_count_every_chunk_until_the_last_pin_goes_and_bound_the_chunks() {
        let holdings: Arc<Holdings> = Arc::default();
        holdings.set_chunk_bytes_max(32 << 10);
        let arena = Arena::pinned(&holdings);
        // SAFETY: the arena is one of `Arena::pinned`.
        let mut bump = unsafe { Bump::new(arena.clone(), 8, 1024) };
        for _ in 0..(512 << 10) / 104 {
            bump.take(104);
        }
        // The largest piece that shares a chunk, and one that has its own.
        bump.take(8 << 10);
        bump.take(100 << 10);
        let used = bump.used();
        assert!(holdings.bytes() >= used && holdings.bytes() < used + (32 << 10) + 2048, "{used}");
        let slice = arena.clone();
        drop((bump, arena));
        assert!(holdings.bytes() >= used, "a slice holds all of it");
        drop(slice);
        assert_eq!(holdings.bytes(), 0);
    }
}
