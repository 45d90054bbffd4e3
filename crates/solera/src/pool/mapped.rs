//! Large pieces, each mapped by itself: `map`, `map_aligned` and `unmap`.
//!
//! A system's allocator takes large pieces from its heaps once one of them was freed, and keeps
//! what lies between those in use. A piece of its own mapping goes back to the system at once.
//!
//! What must hold: `unmap` is told the size that `map` was told.
//! Callers: `pool` (pieces from 1 MiB), `pool::huge` (regions), `memtable::arena` (chunks that the
//! pool does not keep).

use std::{alloc::Layout, ptr::NonNull};

/// Pieces of so many bytes are mapped by themselves: a mapping is a call of the system and begins
/// on a page, which is nothing to them.
pub const MAPPED_BYTES_MIN: usize = 1 << 20;

/// `bytes` of zeros, aligned to a page.
pub fn map(bytes: usize) -> NonNull<u8> {
    debug_assert!(bytes > 0);
    start_of(bytes).unwrap_or_else(|| {
        let layout = Layout::from_size_align(bytes, super::ALIGN);
        std::alloc::handle_alloc_error(layout.unwrap_or(Layout::new::<u8>()))
    })
}

#[cfg(all(unix, not(miri)))]
fn start_of(bytes: usize) -> Option<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping of no file, wherever the system has room.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, how, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

#[cfg(not(all(unix, not(miri))))]
fn start_of(bytes: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(bytes, super::ALIGN).ok()?;
    // SAFETY: the layout is not empty.
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) })
}

/// `bytes` of zeros, aligned to as many, which the system may make huge pages when they are first
/// touched. `None` where it knows no such pages, or has no room. `bytes` is a power of two.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn map_aligned(bytes: usize) -> Option<NonNull<u8>> {
    debug_assert!(bytes.is_power_of_two());
    let all = start_of(2 * bytes)?;
    // Systems map from above downward. So the upper half lies beside the one that was mapped
    // before, and both are one mapping.
    let before = match all.addr().get() % bytes {
        0 => bytes,
        beyond => bytes - beyond,
    };
    // SAFETY: the mapping has twice as many bytes. What lies before and behind is in no use, and
    // both are whole pages.
    unsafe {
        let start = all.add(before);
        if before > 0 {
            unmap(all, before);
        }
        if before < bytes {
            unmap(start.add(bytes), bytes - before);
        }
        advise_huge(start, bytes, true);
        Some(start)
    }
}

/// Has the system use huge pages for that mapping, or small ones. Where it refuses, pages are small
/// or stay as they are.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn advise_huge(start: NonNull<u8>, bytes: usize, is_huge: bool) {
    let advice = if is_huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
    // SAFETY: it says how memory is to be mapped, and changes no byte of it.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) };
}

/// No other system is asked.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn advise_huge(_start: NonNull<u8>, _bytes: usize, _is_huge: bool) {}

/// No other system is asked for huge pages.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn map_aligned(_bytes: usize) -> Option<NonNull<u8>> {
    None
}

/// Gives a piece back to the system.
///
/// # Safety
/// [`map`] or [`map_aligned`] gave `start` for the same `bytes`, or it is a part of that in whole
/// pages; and it is used no more.
pub unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
    #[cfg(all(unix, not(miri)))]
    {
        // SAFETY: by the contract these are whole pages of a mapping of one's own.
        let done = unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
        debug_assert_eq!(done, 0, "a mapping of one's own can be taken back");
    }
    #[cfg(not(all(unix, not(miri))))]
    {
        let layout = Layout::from_size_align(bytes, super::ALIGN).expect("`map` has made the same");
        // SAFETY: by the contract `map` allocated it with this layout.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_piece_is_zeros_and_comes_anew_as_zeros() {
        for bytes in [MAPPED_BYTES_MIN, (3 << 20) + 17] {
            for _ in 0..3 {
                let piece = map(bytes);
                // SAFETY: as many bytes were mapped, nothing else has them, and they are zeros.
                let content = unsafe { NonNull::slice_from_raw_parts(piece, bytes).as_mut() };
                assert!(piece.addr().get().is_multiple_of(super::super::ALIGN));
                assert!(content.iter().step_by(997).all(|&byte| byte == 0));
                content.fill(0xa5);
                // SAFETY: mapped above with this size, and used no more.
                unsafe { unmap(piece, bytes) };
            }
        }
    }
}
