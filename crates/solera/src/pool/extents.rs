//! An allocator of pieces that lie side by side in regions of 2 MiB: `Extents`
//! (docs/decisions/0008).
//!
//! `take` carves a piece out of the smallest free stretch that has room for it; `grow` adds a
//! region first. `give` joins what comes back with the free stretches on both sides. A region of
//! which nothing is out goes back to the system, but for one. `give_back_pages` gives back what is
//! free in the others, and `shed` that one, when a pool has become smaller.
//!
//! What must hold: pieces are zeros when they come. Their sizes are multiples of [`ALIGN`]. What
//! is free lies in no piece, and no two free stretches of a region touch.
//!
//! Caller: `pool::mod`, for pools that hold much.

use super::{
    ALIGN,
    huge::{Ahead, REGION_BYTES, Region},
    paging,
};
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    ptr::NonNull,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Prepared regions, for all allocators of the process.
static AHEAD: Ahead = Ahead::new();

/// Pieces of one pool, and the regions that they lie in.
pub(super) struct Extents {
    /// Bytes of regions, without pages that were given back. Where there are none, no address is
    /// looked up.
    held: AtomicUsize,
    /// Bytes of pieces that are out.
    out: AtomicUsize,
    state: Mutex<State>,
}

struct State {
    /// By address, and which of them have gone back in part.
    regions: BTreeMap<usize, Region>,
    parted: BTreeSet<usize>,
    /// Free stretches by address.
    free: BTreeMap<usize, Free>,
    /// The same as (bytes, address).
    by_size: BTreeSet<(usize, usize)>,
    /// Regions that are one free stretch.
    whole: usize,
    /// Bytes of pages that were given back.
    given_back: usize,
}

#[derive(Clone, Copy)]
struct Free {
    bytes: usize,
    /// Nothing was written there.
    is_zeros: bool,
    /// Bytes of its pages that were given back.
    given_back: usize,
}

impl Extents {
    pub(super) const fn new() -> Extents {
        Extents {
            held: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
            state: Mutex::new(State {
                regions: BTreeMap::new(),
                parted: BTreeSet::new(),
                free: BTreeMap::new(),
                by_size: BTreeSet::new(),
                whole: 0,
                given_back: 0,
            }),
        }
    }

    /// Bytes of the regions, without pages that were given back.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Bytes of pieces that are out.
    pub(super) fn out(&self) -> usize {
        self.out.load(Ordering::Relaxed)
    }

    /// Counts what is held anew.
    fn count(&self, state: &State) {
        self.held.store(state.regions.len() * REGION_BYTES - state.given_back, Ordering::Relaxed);
    }

    /// A piece of so many bytes, all zeros; `None` where no free stretch has room for it.
    pub(super) fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        if self.held() == 0 {
            return None;
        }
        self.carve(self.state.lock(), bytes)
    }

    /// [`Extents::take`] after one region more; `None` where the system gives none.
    pub(super) fn grow(&self, bytes: usize) -> Option<NonNull<u8>> {
        let region = AHEAD.take()?;
        let mut state = self.state.lock();
        state.add(region);
        self.carve(state, bytes)
    }

    fn carve(&self, mut state: MutexGuard<'_, State>, bytes: usize) -> Option<NonNull<u8>> {
        debug_assert!(bytes.is_multiple_of(ALIGN) && (1..=REGION_BYTES).contains(&bytes));
        let (piece, is_zeros) = state.carve(bytes)?;
        self.count(&state);
        self.out.fetch_add(bytes, Ordering::Relaxed);
        drop(state);
        if !is_zeros {
            // SAFETY: the piece has so many bytes, and it is this caller's alone.
            unsafe { piece.write_bytes(0, bytes) };
        }
        Some(piece)
    }

    /// Takes a piece back if it is of these regions. False: it is not.
    ///
    /// # Safety
    /// If it is, [`Extents::take`] gave it for so many bytes, and it is used no more.
    pub(super) unsafe fn give(&self, start: NonNull<u8>, bytes: usize) -> bool {
        // A thread that has a piece has seen the count that came before it.
        if self.held() == 0 {
            return false;
        }
        let at = start.addr().get();
        let mut state = self.state.lock();
        let Some((&region, _)) = state.regions.range(..=at).next_back() else { return false };
        if at >= region + REGION_BYTES {
            return false;
        }
        debug_assert!(at + bytes <= region + REGION_BYTES, "a piece lies in one region");
        let going = state.join(region, at, bytes);
        self.count(&state);
        self.out.fetch_sub(bytes, Ordering::Relaxed);
        drop(state);
        drop(going);
        true
    }

    /// Gives the system the whole pages of what is free, long stretches first, as long as
    /// `goes_on`.
    pub(super) fn give_back_pages(&self, goes_on: impl Fn() -> bool) {
        let page_bytes = paging::page_bytes();
        let mut longest = (usize::MAX, usize::MAX);
        while goes_on() {
            // Others take and give pieces between two stretches.
            let mut state = self.state.lock();
            let next = state.by_size.range(..longest).next_back().copied();
            let Some((bytes, at)) = next.filter(|(bytes, _)| *bytes >= page_bytes) else { return };
            longest = (bytes, at);
            state.give_back(at, page_bytes);
            self.count(&state);
        }
    }

    /// Gives the system what is kept for what comes: a region that is empty, and one that is ready.
    pub(super) fn shed(&self) {
        AHEAD.shed();
        let mut state = self.state.lock();
        let whole = state.free.iter().find(|(_, free)| free.bytes == REGION_BYTES).map(|(at, _)| *at);
        let going = whole.and_then(|at| {
            state.unfree(at);
            state.remove(at)
        });
        self.count(&state);
        drop(state);
        drop(going);
    }
}

impl State {
    fn add(&mut self, region: Region) {
        let at = region.start().addr().get();
        self.regions.insert(at, region);
        self.free(at, Free { bytes: REGION_BYTES, is_zeros: true, given_back: 0 });
    }

    fn free(&mut self, at: usize, stretch: Free) {
        self.free.insert(at, stretch);
        self.by_size.insert((stretch.bytes, at));
        self.whole += usize::from(stretch.bytes == REGION_BYTES);
        self.given_back += stretch.given_back;
    }

    fn unfree(&mut self, at: usize) -> Option<Free> {
        let stretch = self.free.remove(&at)?;
        self.by_size.remove(&(stretch.bytes, at));
        self.whole -= usize::from(stretch.bytes == REGION_BYTES);
        self.given_back -= stretch.given_back;
        Some(stretch)
    }

    /// A piece out of the smallest stretch that has room for it, and whether it is zeros.
    fn carve(&mut self, bytes: usize) -> Option<(NonNull<u8>, bool)> {
        let &(_, at) = self.by_size.range((bytes, 0)..).next()?;
        let mut stretch = self.unfree(at)?;
        if stretch.bytes == REGION_BYTES
            && self.parted.remove(&at)
            && let Some(region) = self.regions.get(&at)
        {
            // All of it is memory again once it is touched.
            region.set_huge(true);
            stretch.given_back = 0;
        }
        if stretch.bytes > bytes {
            let left = stretch.bytes - bytes;
            let given_back = stretch.given_back.min(left);
            self.free(at + bytes, Free { bytes: left, given_back, ..stretch });
        }
        let (start, region) = self.regions.range(..=at).next_back()?;
        // SAFETY: the stretch lies in the region.
        Some((unsafe { region.start().add(at - start) }, stretch.is_zeros))
    }

    /// Joins what comes back at `at` of a region with its neighbours. The region, if it goes.
    fn join(&mut self, region: usize, mut at: usize, mut bytes: usize) -> Option<Region> {
        let before = self.free.range(..at).next_back().map(|(start, free)| (*start, start + free.bytes));
        if let Some((start, end)) = before
            && end == at
            && start >= region
        {
            bytes += self.unfree(start)?.bytes;
            at = start;
        }
        let end = at + bytes;
        if end < region + REGION_BYTES
            && let Some(behind) = self.unfree(end)
        {
            bytes += behind.bytes;
        }
        if bytes == REGION_BYTES && self.whole > 0 {
            return self.remove(region);
        }
        self.free(at, Free { bytes, is_zeros: false, given_back: 0 });
        None
    }

    fn remove(&mut self, region: usize) -> Option<Region> {
        self.parted.remove(&region);
        self.regions.remove(&region)
    }

    /// Gives the system the whole pages of the free stretch at `at`.
    fn give_back(&mut self, at: usize, page_bytes: usize) {
        let Some(&stretch) = self.free.get(&at) else { return };
        let first = at.next_multiple_of(page_bytes);
        let bytes = (at + stretch.bytes).saturating_sub(first) / page_bytes * page_bytes;
        if stretch.given_back >= bytes {
            return;
        }
        self.unfree(at);
        let mut given_back = stretch.given_back;
        if let Some((start, region)) = self.regions.range(..=at).next_back() {
            if self.parted.insert(*start) {
                region.set_huge(false);
            }
            // SAFETY: these are whole pages of the region, and no piece lies there.
            let is_given = unsafe { paging::discard(region.start().add(first - start).as_ptr(), bytes) };
            given_back = if is_given { bytes } else { 0 };
        }
        self.free(at, Free { given_back, ..stretch });
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    fn extents() -> Extents {
        Extents::new()
    }

    /// Takes a piece, which must be zeros, and fills it.
    fn take(extents: &Extents, bytes: usize, content: u8) -> NonNull<u8> {
        let piece = extents.take(bytes).or_else(|| extents.grow(bytes));
        let piece = piece.expect("the system has room for a test");
        assert!(piece.addr().get().is_multiple_of(ALIGN));
        // SAFETY: so many bytes were taken, and they are zeros.
        let memory = unsafe { NonNull::slice_from_raw_parts(piece, bytes).as_mut() };
        assert!(memory.iter().all(|&byte| byte == 0), "zeros come");
        memory.fill(content);
        piece
    }

    fn give(extents: &Extents, piece: NonNull<u8>, bytes: usize, content: u8) {
        // SAFETY: so many bytes were taken and filled.
        let memory = unsafe { NonNull::slice_from_raw_parts(piece, bytes).as_ref() };
        assert!(memory.iter().all(|&byte| byte == content), "no other piece lies there");
        // SAFETY: taken with this size, and used no more.
        assert!(unsafe { extents.give(piece, bytes) });
    }

    #[test]
    fn pieces_lie_side_by_side_and_what_comes_back_serves_again() {
        let extents = extents();
        let first = take(&extents, 4096, 1);
        let second = take(&extents, 8192, 2);
        assert_eq!(second.addr().get() - first.addr().get(), 4096);
        give(&extents, first, 4096, 1);
        // Two small ones lie where the large one was.
        let pair = [take(&extents, 1024, 3), take(&extents, 3072, 4)];
        assert_eq!(pair.map(|piece| piece.addr().get() - first.addr().get()), [0, 1024]);
        give(&extents, second, 8192, 2);
        give(&extents, pair[0], 1024, 3);
        give(&extents, pair[1], 3072, 4);
        // All of it is one stretch again.
        let all = take(&extents, REGION_BYTES, 5);
        assert_eq!((all, extents.held()), (first, REGION_BYTES));
        give(&extents, all, REGION_BYTES, 5);
    }

    #[test]
    fn a_region_of_which_nothing_is_out_goes_back_but_for_one() {
        let extents = extents();
        let pieces: Vec<_> = (0..64).map(|i| take(&extents, 64 << 10, i)).collect();
        assert_eq!(extents.held(), 2 * REGION_BYTES);
        for (i, piece) in pieces.into_iter().enumerate() {
            give(&extents, piece, 64 << 10, i as u8);
        }
        assert_eq!(extents.held(), REGION_BYTES);
    }

    #[test]
    fn what_is_free_goes_back_page_by_page_and_comes_again_as_zeros() {
        let extents = extents();
        let mut pieces: Vec<_> = (0..256).map(|i| take(&extents, 8 << 10, i as u8)).collect();
        extents.give_back_pages(|| true);
        assert_eq!(extents.held(), REGION_BYTES, "nothing is free");
        let stay = pieces.split_off(250);
        for (i, piece) in pieces.into_iter().enumerate() {
            give(&extents, piece, 8 << 10, i as u8);
        }
        assert_eq!(extents.held(), REGION_BYTES);
        extents.give_back_pages(|| false);
        assert_eq!(extents.held(), REGION_BYTES);
        (0..3).for_each(|_| extents.give_back_pages(|| true));
        let held = extents.held();
        assert!(held <= REGION_BYTES - 250 * (8 << 10) + (64 << 10), "{held}");
        let again: Vec<_> = (0..250).map(|i| take(&extents, 8 << 10, i as u8)).collect();
        assert_eq!(extents.held(), REGION_BYTES);
        for (i, piece) in again.into_iter().chain(stay).enumerate() {
            give(&extents, piece, 8 << 10, i as u8);
        }
        assert_eq!(extents.held(), REGION_BYTES);
        extents.shed();
        assert_eq!(extents.held(), 0);
    }

    #[test]
    fn memory_of_others_is_not_taken() {
        let extents = extents();
        let mut other = [0u64; 64];
        let start = NonNull::from(&mut other).cast();
        // SAFETY: it is not of these regions.
        assert!(!unsafe { extents.give(start, 512) });
        let piece = take(&extents, 512, 1);
        // SAFETY: as above.
        assert!(!unsafe { extents.give(start, 512) });
        give(&extents, piece, 512, 1);
    }

    /// What a cache of blocks of changing sizes does for long leaves few holes.
    #[test]
    fn holes_stay_few() {
        const IN_USE: usize = 32 << 20;
        let extents = extents();
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (random >> 33) as usize
        };
        let mut out: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
        let mut in_use = 0;
        for step in 0..60_000 {
            // Sizes drift: what goes is of other sizes than what comes.
            let bytes = (2048 + step / 10 + next() % 6000).next_multiple_of(256);
            let content = step as u8;
            out.push((take(&extents, bytes, content), bytes, content));
            in_use += bytes;
            while in_use > IN_USE {
                let (piece, bytes, content) = out.swap_remove(next() % out.len());
                give(&extents, piece, bytes, content);
                in_use -= bytes;
            }
        }
        let held = extents.held();
        assert!(held <= IN_USE / 8 * 9 + REGION_BYTES, "{} of {} MiB", held >> 20, IN_USE >> 20);
        out.into_iter().for_each(|(piece, bytes, content)| give(&extents, piece, bytes, content));
        assert_eq!(extents.held(), REGION_BYTES);
    }

    #[test]
    fn threads_do_not_mix_pieces_up() {
        let extents = extents();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let extents = &extents;
                scope.spawn(move || {
                    let mut out = Vec::new();
                    for step in 0..5000 {
                        let bytes =
                            (1 + (step * 4099 + usize::from(thread)) % (40 << 10)).next_multiple_of(64);
                        out.push((take(extents, bytes, thread), bytes));
                        if step % 7 == 0 || out.len() > 50 {
                            for (piece, bytes) in out.drain(..out.len() / 2) {
                                give(extents, piece, bytes, thread);
                            }
                        }
                    }
                    out.into_iter().for_each(|(piece, bytes)| give(extents, piece, bytes, thread));
                });
            }
        });
        assert_eq!(extents.held(), REGION_BYTES);
    }
}
