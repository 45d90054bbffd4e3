//! Bytes that a slice has copied, in one allocation with their count of references: `Copied`.
//!
//! What must hold: `of` alone makes such an object, and `free_copied` alone releases it, by the
//! layout that both work out from its length. Nothing in it is changed, and nothing needs dropping.
//!
//! Caller: `Slice::copy_from`.

use super::{Pin, PinHeader};
use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    ptr::{self, NonNull},
};

/// What a slice that was copied refers to: one allocation, in which the bytes follow.
#[repr(C)]
pub(super) struct Copied {
    header: PinHeader,
    len: usize,
}

impl Copied {
    fn layout(len: usize) -> Layout {
        let bytes = size_of::<Copied>().checked_add(len).expect("a slice fits the address space");
        Layout::from_size_align(bytes, align_of::<Copied>()).expect("a slice fits the address space")
    }

    /// The only reference to a copy of `bytes`, and where that lies.
    // Apart, so that a copy that fits into a slice stays as small as it is. Gives what fits into
    // registers: a whole slice would have its place in memory, and the others would be put together
    // there, word by word, and read again too early.
    #[inline(never)]
    pub(super) fn of(bytes: &[u8]) -> (*const u8, Pin) {
        let layout = Copied::layout(bytes.len());
        // SAFETY: the layout is not of no bytes.
        let start = unsafe { alloc(layout) };
        let Some(object) = NonNull::new(start.cast::<Copied>()) else { handle_alloc_error(layout) };
        // SAFETY: there is room for the object and for the bytes behind it, and no other code has
        // it. It is repr(C) with the header first, immutable from now on, and its one reference is
        // ours.
        unsafe {
            object.write(Copied { header: PinHeader::new(free_copied), len: bytes.len() });
            let copy = object.as_ptr().add(1).cast::<u8>();
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
            (copy, Pin::from_raw(object.cast()))
        }
    }
}

/// Releases bytes that were copied.
///
/// # Safety
/// `header` begins an object that `Copied::of` made, and no reference to it is left.
unsafe fn free_copied(header: NonNull<PinHeader>) {
    let object = header.cast::<Copied>();
    // SAFETY: only `Copied::of` uses this function, on what it allocated by this layout. Nothing in
    // it needs dropping.
    unsafe { dealloc(object.as_ptr().cast(), Copied::layout(object.as_ref().len)) }
}
