//! Asking for memory before it is read, so that several waits become one.
//!
//! Owns [`prefetch`] and [`prefetch_bytes`]. Neither reads anything: no address is wrong, some are
//! useless.

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

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

/// Asks for the cache lines of the `bytes` from `start` on.
#[inline]
pub fn prefetch_bytes(start: *const u8, bytes: usize) {
    let in_line = start.addr() % LINE_BYTES;
    for offset in (0..in_line + bytes).step_by(LINE_BYTES) {
        prefetch(start.wrapping_sub(in_line).wrapping_add(offset));
    }
}
