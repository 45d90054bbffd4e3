//! Huge pages for memory that is full of pieces: `Regions`, and its thread (docs/decisions/0008).
//!
//! It counts how many bytes of each region of 2 MiB are pieces. Where 15 of 16 parts are, the
//! thread asks the system to make the region one page (`MADV_COLLAPSE`, Linux only). A processor
//! remembers the places of some thousand pages. With 4 KiB each, a random read in a gigabyte waits
//! as long for its place as for itself.
//!
//! What must hold: nothing rests on the answer, and no content changes. Where the system cannot at
//! all, the thread asks no more; where it cannot now, it is asked up to six times. It also calls a
//! request invalid that is for a region of which a part is another owner's, or was never written
//! to. So that says nothing of the system before many were invalid and none was granted.
//!
//! Caller: `pool::mod` (`add` and `remove` of each piece that lies in no region of `pool::huge`).

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// What one huge page covers, on x86-64 and, with pages of 4 KiB, on AArch64.
const REGION_BYTES: usize = 2 << 20;
/// A region with so many bytes of pieces is nearly full: between pieces lie an allocator's own
/// bytes.
const FULL_BYTES: usize = REGION_BYTES / 16 * 15;
/// How often the system is asked for a region.
const TRIES_MAX: u8 = 6;
/// A system that calls so many requests invalid, and has granted none, does not know them.
const INVALID_MAX: u32 = 64;
/// Time between two rounds over regions that were refused.
const PAUSE: Duration = Duration::from_millis(20);

/// Stretches of [`REGION_BYTES`], by their number: address divided by size.
pub(super) struct Regions {
    state: Mutex<State>,
    /// Asks the system to make the region at an address one page.
    collapse: fn(usize) -> Answer,
}

struct State {
    regions: BTreeMap<usize, Region>,
    /// Regions to make one page each, oldest first.
    waiting: VecDeque<usize>,
    /// Whether a thread works on them.
    working: bool,
    /// Whether the system has not refused.
    able: bool,
    /// Requests that were invalid, as long as none was granted.
    invalid: Option<u32>,
}

impl State {
    const fn new(able: bool) -> State {
        State { regions: BTreeMap::new(), waiting: VecDeque::new(), working: false, able, invalid: Some(0) }
    }
}

#[derive(Clone, Copy, Default)]
struct Region {
    /// Bytes of pieces.
    used: usize,
    /// Whether it has been asked for since it was last half empty.
    asked: bool,
    /// How often it was refused since.
    refused: u8,
}

/// What the system says.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "elsewhere there is one answer"))]
enum Answer {
    /// The region is one page.
    Done,
    /// The region will not be one.
    Refused,
    /// Not now.
    Later,
    /// Not for this region as it is; or the system does not know how.
    Invalid,
}

impl Regions {
    pub(super) const fn new() -> Self {
        Regions::asking(collapse)
    }

    const fn asking(collapse: fn(usize) -> Answer) -> Self {
        let state = State::new(cfg!(target_os = "linux") && !cfg!(miri));
        Regions { state: Mutex::new(state), collapse }
    }

    /// Counts a piece at `address`. What it fills up is asked for in the background.
    pub(super) fn add(&'static self, address: usize, bytes: usize) {
        let mut state = self.state.lock();
        if !state.able {
            return;
        }
        for (number, bytes) in parts(address, bytes) {
            let region = state.regions.entry(number).or_default();
            region.used += bytes;
            if region.used >= FULL_BYTES && !region.asked {
                region.asked = true;
                state.waiting.push_back(number);
            }
        }
        if !state.waiting.is_empty() && !state.working {
            let thread = std::thread::Builder::new().name("solera-pages".into());
            // Where no thread can be had, the next piece tries again.
            state.working = thread.spawn(move || self.work()).is_ok();
        }
    }

    /// Counts a piece no more, which goes back to the allocator.
    pub(super) fn remove(&self, address: usize, bytes: usize) {
        let mut state = self.state.lock();
        for (number, bytes) in parts(address, bytes) {
            let Some(region) = state.regions.get_mut(&number) else { continue };
            region.used = region.used.saturating_sub(bytes);
            if region.used < REGION_BYTES / 2 {
                (region.asked, region.refused) = (false, 0);
            }
            if region.used == 0 {
                state.regions.remove(&number);
            }
        }
    }

    /// Asks for one region after the other until none waits.
    fn work(&self) {
        let mut later = Vec::new();
        loop {
            let mut state = self.state.lock();
            let Some(number) = state.waiting.pop_front() else {
                if later.is_empty() {
                    state.working = false;
                    return;
                }
                state.waiting.extend(later.drain(..));
                drop(state);
                std::thread::sleep(PAUSE);
                continue;
            };
            if !state.regions.get(&number).is_some_and(|region| region.asked) {
                continue;
            }
            drop(state);
            let answer = (self.collapse)(number * REGION_BYTES);
            let mut state = self.state.lock();
            match answer {
                Answer::Done => state.invalid = None,
                Answer::Refused => {}
                Answer::Later | Answer::Invalid => {
                    if let (Answer::Invalid, Some(invalid)) = (answer, &mut state.invalid) {
                        *invalid += 1;
                        if *invalid == INVALID_MAX {
                            *state = State::new(false);
                            return;
                        }
                    }
                    let Some(region) = state.regions.get_mut(&number) else { continue };
                    region.refused += 1;
                    if region.refused < TRIES_MAX {
                        later.push(number);
                    }
                }
            }
        }
    }
}

/// The numbers of the regions that a piece lies in, and how many of its bytes lie in each.
fn parts(address: usize, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let (start, end) = (address, address + bytes);
    (start / REGION_BYTES..end.div_ceil(REGION_BYTES)).map(move |number| {
        let (first, last) = (number * REGION_BYTES, (number + 1) * REGION_BYTES);
        (number, end.min(last) - start.max(first))
    })
}

/// Asks the system to make the region at `address` one page.
#[cfg(target_os = "linux")]
fn collapse(address: usize) -> Answer {
    // The same on every processor; the C library's headers do not all have it.
    const MADV_COLLAPSE: libc::c_int = 25;
    let start = std::ptr::without_provenance_mut(address);
    // SAFETY: the request (Linux 6.1) moves memory behind its addresses and changes no byte of it;
    // where nothing is mapped any more, or something else, it does as little harm.
    if unsafe { libc::madvise(start, REGION_BYTES, MADV_COLLAPSE) } == 0 {
        return Answer::Done;
    }
    match std::io::Error::last_os_error().raw_os_error() {
        // An older system finds the request itself invalid, and any finds it so where a part of the
        // region is another owner's or was never written to.
        Some(libc::EINVAL) => Answer::Invalid,
        // A page is held elsewhere, or no huge page was free.
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOMEM) => Answer::Later,
        _ => Answer::Refused,
    }
}

#[cfg(not(target_os = "linux"))]
fn collapse(_address: usize) -> Answer {
    Answer::Invalid
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        alloc::{Layout, alloc, dealloc},
        ptr::NonNull,
        sync::atomic::{AtomicU8, Ordering},
    };

    fn regions() -> &'static Regions {
        Box::leak(Box::new(Regions::new()))
    }

    #[test]
    fn a_piece_counts_where_it_lies() {
        let list = |address, bytes| parts(address, bytes).collect::<Vec<_>>();
        assert_eq!(list(REGION_BYTES, 64), [(1, 64)]);
        assert_eq!(list(2 * REGION_BYTES - 64, 64), [(1, 64)]);
        assert_eq!(list(2 * REGION_BYTES - 64, 65), [(1, 64), (2, 1)]);
        assert_eq!(
            list(REGION_BYTES + 1, 2 * REGION_BYTES),
            [(1, REGION_BYTES - 1), (2, REGION_BYTES), (3, 1)]
        );
    }

    #[test]
    fn what_is_added_and_removed_leaves_nothing_behind() {
        let regions = regions();
        for address in (REGION_BYTES / 2..3 * REGION_BYTES).step_by(5000) {
            regions.add(address, 3000);
        }
        assert_eq!(regions.state.lock().regions.values().map(|region| region.used).sum::<usize>() % 3000, 0);
        for address in (REGION_BYTES / 2..3 * REGION_BYTES).step_by(5000) {
            regions.remove(address, 3000);
        }
        assert!(regions.state.lock().regions.is_empty());
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn a_full_region_keeps_its_content_and_is_asked_for_once() {
        let regions = regions();
        let layout = Layout::from_size_align(REGION_BYTES, REGION_BYTES).unwrap();
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc(layout) }).unwrap();
        // SAFETY: as many bytes were allocated.
        let memory = unsafe { NonNull::slice_from_raw_parts(start, REGION_BYTES).as_mut() };
        memory.iter_mut().enumerate().for_each(|(i, byte)| *byte = (i / 7) as u8);
        (0..16).for_each(|i| regions.add(start.addr().get() + i * REGION_BYTES / 16, REGION_BYTES / 16));
        while regions.state.lock().working {
            std::thread::yield_now();
        }
        assert!(memory.iter().enumerate().all(|(i, &byte)| byte == (i / 7) as u8));
        let state = regions.state.lock();
        assert!(state.waiting.is_empty());
        assert!(!state.able || state.regions.values().all(|region| region.asked));
        drop(state);
        // SAFETY: allocated above with this layout.
        unsafe { dealloc(start.as_ptr(), layout) }
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "asks the system")]
    fn a_region_that_is_refused_is_asked_for_again_but_not_for_ever() {
        static ASKED: [AtomicU8; 3] = [const { AtomicU8::new(0) }; 3];
        fn fake(address: usize) -> Answer {
            let number = address / REGION_BYTES;
            match (number, ASKED[number].fetch_add(1, Ordering::Relaxed)) {
                (1, 0..2) | (2, _) => Answer::Later,
                _ => Answer::Done,
            }
        }
        let regions: &'static Regions = Box::leak(Box::new(Regions::asking(fake)));
        (0..3).for_each(|number| regions.add(number * REGION_BYTES, REGION_BYTES));
        while regions.state.lock().working {
            std::thread::yield_now();
        }
        assert_eq!(ASKED.each_ref().map(|asked| asked.load(Ordering::Relaxed)), [1, 3, TRIES_MAX]);
        assert!(regions.state.lock().able);
    }

    fn wait(regions: &Regions) {
        while regions.state.lock().working {
            std::thread::yield_now();
        }
    }

    /// Symptom: the same program looked keys up at 1.6 or at 2.2 million a second, by chance.
    /// Cause: one region that a piece of memory shared with a mapped log was invalid, and no other
    /// region was asked for from then on.
    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "nobody is asked there")]
    fn a_region_that_is_invalid_stands_in_no_others_way() {
        static GRANTED: AtomicU8 = AtomicU8::new(0);
        fn fake(address: usize) -> Answer {
            if (address / REGION_BYTES).is_multiple_of(3) {
                return Answer::Invalid;
            }
            GRANTED.fetch_add(1, Ordering::Relaxed);
            Answer::Done
        }
        let regions: &'static Regions = Box::leak(Box::new(Regions::asking(fake)));
        (0..90).for_each(|number| regions.add(number * REGION_BYTES, REGION_BYTES));
        wait(regions);
        assert_eq!(GRANTED.load(Ordering::Relaxed), 60);
        assert!(regions.state.lock().able);
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "nobody is asked there")]
    fn a_system_that_does_not_know_the_request_is_asked_no_more() {
        let regions: &'static Regions = Box::leak(Box::new(Regions::asking(|_| Answer::Invalid)));
        (0..200).for_each(|number| regions.add(number * REGION_BYTES, REGION_BYTES));
        wait(regions);
        regions.add(300 * REGION_BYTES, REGION_BYTES);
        let state = regions.state.lock();
        assert!(!state.able && !state.working && state.regions.is_empty() && state.waiting.is_empty());
    }
}
