//! Asking for memory before it is read, so that several waits become one: `prefetch`,
//! `prefetch_lines`, `prefetch_bytes`.
//!
//! They are the processor's prefetch instruction on x86-64, and nothing elsewhere. `LINE_BYTES` is
//! a cache line.
//!
//! What must hold: none of them reads anything. No address is wrong; some are useless.
//!
//! Callers: `block`, `cache`, `filter`, `index::learned`, `table::lookup`, `values::stretch` and
//! `memtable::node`; `tree::read` takes 32 lookups through each step by them.

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;

/// Asks for the cache line at `address`, which will be read soon. Any address will do.
#[inline]
pub fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch has no effect that a program can see, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Asks for so many cache lines, of which the first begins at `start`.
#[inline]
pub fn prefetch_lines<const LINES: usize>(start: *const u8) {
    for line in 0..LINES {
        prefetch(start.wrapping_add(line * LINE_BYTES));
    }
}

/// Asks for the cache lines of the `bytes` from `start` on.
#[inline]
pub fn prefetch_bytes(start: *const u8, bytes: usize) {
    // Counted down: an iterator of steps takes more instructions than the prefetches.
    let mut line = start.wrapping_sub(start.addr() % LINE_BYTES);
    let mut left = start.addr() % LINE_BYTES + bytes;
    while left > 0 {
        prefetch(line);
        line = line.wrapping_add(LINE_BYTES);
        left = left.saturating_sub(LINE_BYTES);
    }
}
