//! Regions of 2 MiB that are one page of the system from their first byte on: `Region`. It is
//! mapped, and goes back when it is dropped. `Ahead::take` gives one that is prepared, if it can,
//! and has a thread prepare the next.
//!
//! The first touch of a huge page makes the system fill 2 MiB with zeros, and in a virtual machine
//! perhaps find memory for it first: 0.1 to 3 ms. The thread touches it before a reader has to.
//!
//! What must hold: a region is zeros when it comes. Nothing rests on its being one page: where the
//! system has none it consists of small ones. At most one region waits.
//!
//! Caller: `pool::extents`.

use super::mapped;
use parking_lot::Mutex;
use std::ptr::NonNull;

/// What one huge page covers, on x86-64 and, with pages of 4 KiB, on AArch64.
pub(super) const REGION_BYTES: usize = 2 << 20;
/// A small page. Where they are larger, each is touched more than once.
const PAGE_BYTES: usize = 4096;

/// Where a region comes from.
pub(super) struct Ahead(Mutex<State>);

struct State {
    ready: Option<Region>,
    /// Whether the system has not refused.
    able: bool,
    /// Whether a thread prepares more.
    working: bool,
}

/// [`REGION_BYTES`] of memory, aligned to as many.
#[derive(Debug)]
pub(super) struct Region(NonNull<u8>);

// SAFETY: it owns plain memory.
unsafe impl Send for Region {}

impl Region {
    /// A region of zeros; `None` where the system knows no such, or has no room.
    fn map() -> Option<Region> {
        mapped::map_aligned(REGION_BYTES).map(Region)
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.0
    }

    /// Has the system make it one page when it is touched, or leave it in small ones: those that go
    /// back one by one would come again as one page.
    pub(super) fn set_huge(&self, is_huge: bool) {
        mapped::advise_huge(self.0, REGION_BYTES, is_huge);
    }

    /// Touches its pages, so that no reader has to wait for them.
    fn prepare(&self) {
        for at in (0..REGION_BYTES).step_by(PAGE_BYTES) {
            // SAFETY: it lies in the region, which no other code has yet. Volatile: the store is
            // there for the touch.
            unsafe { self.0.add(at).write_volatile(0) };
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped with this size, and its owner uses it no more.
        unsafe { mapped::unmap(self.0, REGION_BYTES) }
    }
}

impl Ahead {
    pub(super) const fn new() -> Ahead {
        let able = cfg!(target_os = "linux") && !cfg!(miri);
        Ahead(Mutex::new(State { ready: None, able, working: false }))
    }

    /// A region, prepared if one is ready; `None` as [`Region::map`], and from then on.
    pub(super) fn take(&'static self) -> Option<Region> {
        let mut state = self.0.lock();
        if !state.able {
            return None;
        }
        let ready = state.ready.take();
        if !state.working {
            let thread = std::thread::Builder::new().name("solera-pages".into());
            // Where no thread can be had, the next call tries again.
            state.working = thread.spawn(move || self.prepare()).is_ok();
        }
        drop(state);
        let region = ready.or_else(Region::map);
        if region.is_none() {
            self.0.lock().able = false;
        }
        region
    }

    /// Gives back the region that is ready.
    pub(super) fn shed(&self) {
        let ready = self.0.lock().ready.take();
        drop(ready);
    }

    /// Prepares a region.
    fn prepare(&self) {
        let region = Region::map();
        region.iter().for_each(Region::prepare);
        let mut state = self.0.lock();
        (state.ready, state.working) = (region, false);
    }
}
