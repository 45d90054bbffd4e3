//! On which pages of a chunk pieces lie, and which went back to the system: `Pages`.
//!
//! A page that was given back is zeros when it is touched again, and counts as memory from then on.
//! Where a chunk does not begin or end with a page, that page is partly another owner's, and stays.
//!
//! What must hold: no page on which a piece lies is given back.
//! Callers: `pool::loan`; `pool::extents` (`discard`, `page_bytes`).

use std::{ops::Range, ptr::NonNull};

/// The pages of one chunk.
pub(super) struct Pages {
    /// Where the first page begins. It may be before the chunk.
    start: NonNull<u8>,
    /// Bytes of it that lie before the chunk.
    before: usize,
    page_bytes: usize,
    pages: Box<[Page]>,
    /// How many were given back.
    gone: usize,
}

#[derive(Clone, Copy, Default)]
struct Page {
    /// Pieces that lie on it, whole or in part; the chunk's end counts as one.
    pieces: u16,
    is_gone: bool,
}

// SAFETY: what the addresses lead to is the chunk's, which is plain memory.
unsafe impl Send for Pages {}

impl Pages {
    /// The pages of `bytes` from `start`, with no piece on them.
    pub(super) fn of(start: NonNull<u8>, bytes: usize) -> Pages {
        let page_bytes = page_bytes();
        let before = start.addr().get() % page_bytes;
        let count = (before + bytes).div_ceil(page_bytes);
        let mut pages = vec![Page::default(); count].into_boxed_slice();
        pages[0].pieces += u16::from(before > 0);
        pages[count - 1].pieces += u16::from(!(before + bytes).is_multiple_of(page_bytes));
        // Only an address: no byte before the chunk is touched.
        let start = NonNull::new(start.as_ptr().wrapping_sub(before)).expect("no page begins at 0");
        Pages { start, before, page_bytes, pages, gone: 0 }
    }

    /// Bytes of pages that were given back.
    pub(super) fn given_back(&self) -> usize {
        self.gone * self.page_bytes
    }

    /// A piece comes to lie here: so many bytes of pages are memory again.
    pub(super) fn enter(&mut self, offset: usize, bytes: usize) -> usize {
        let (range, before) = (self.range(offset, bytes), self.gone);
        for page in &mut self.pages[range] {
            page.pieces += 1;
            self.gone -= usize::from(std::mem::take(&mut page.is_gone));
        }
        (before - self.gone) * self.page_bytes
    }

    /// A piece lies here no more.
    pub(super) fn leave(&mut self, offset: usize, bytes: usize) {
        let range = self.range(offset, bytes);
        self.pages[range].iter_mut().for_each(|page| page.pieces -= 1);
    }

    fn range(&self, offset: usize, bytes: usize) -> Range<usize> {
        let from = self.before + offset;
        from / self.page_bytes..(from + bytes).div_ceil(self.page_bytes)
    }

    /// Gives the system the pages on which nothing lies: so many bytes.
    pub(super) fn give_back(&mut self) -> usize {
        let (mut from, before) = (0, self.gone);
        for run in self.pages.chunk_by_mut(|one, next| one.is_idle() == next.is_idle()) {
            let (first, count) = (from, run.len());
            from += count;
            if !run[0].is_idle() {
                continue;
            }
            let start = self.start.as_ptr().wrapping_add(first * self.page_bytes);
            // SAFETY: these are whole pages of the chunk, and no piece lies on them.
            if unsafe { discard(start, count * self.page_bytes) } {
                run.iter_mut().for_each(|page| page.is_gone = true);
                self.gone += count;
            }
        }
        (self.gone - before) * self.page_bytes
    }
}

impl Page {
    /// Whether it is memory that nothing uses.
    fn is_idle(&self) -> bool {
        self.pieces == 0 && !self.is_gone
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn page_bytes() -> usize {
    // SAFETY: it asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn page_bytes() -> usize {
    4096
}

/// Gives pages back to the system, which makes zeros of them. False: it did not.
///
/// # Safety
/// The bytes are whole pages of memory of no file, of which no byte is used.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) unsafe fn discard(start: *mut u8, bytes: usize) -> bool {
    // SAFETY: by the contract.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTNEED) == 0 }
}

/// No other system gives them back at once.
///
/// # Safety
/// None is needed.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) unsafe fn discard(_start: *mut u8, _bytes: usize) -> bool {
    false
}
