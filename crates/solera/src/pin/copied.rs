//! Bytes that slices have copied, in one allocation with their count of references: `Copied` for
//! one slice, `Copies` for those that a walk hands out one after the other.
//!
//! What must hold:
//! - `Copied::with_room` alone makes such an object, and `free_copied` alone releases it, by the
//!   layout that both work out from its length. Nothing in it needs dropping.
//! - Bytes that a slice has are not changed. `Copies` writes behind all that it has handed out, and
//!   begins anew only where no slice is left.
//!
//! Callers: `Slice::copy_from`; `db::iterator`, for keys.

use super::{Pin, PinHeader, PinStock, Slice};
use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    fmt,
    ptr::{self, NonNull},
};

/// Room that [`Copies`] takes first. It takes twice as much whenever slices still hold what is
/// full.
const ROOM_FIRST: usize = 512;
/// Most room that it takes at once: who keeps one slice keeps so much.
const ROOM_MAX: usize = 4096;
/// Longer bytes are copied into memory of their own.
const LEN_MAX: usize = 256;

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
        let pin = Copied::with_room(bytes.len());
        let copy = Copied::bytes_of(&pin);
        // SAFETY: there is room for the bytes behind the object, and no other code has it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
        (copy, pin)
    }

    /// The only reference to room for `len` bytes, whatever they are.
    fn with_room(len: usize) -> Pin {
        let layout = Copied::layout(len);
        // SAFETY: the layout is not of no bytes.
        let start = unsafe { alloc(layout) };
        let Some(object) = NonNull::new(start.cast::<Copied>()) else { handle_alloc_error(layout) };
        // SAFETY: there is room for the object, and no other code has it. It is repr(C) with the
        // header first, immutable from now on but for the bytes behind it, and its one reference is
        // ours.
        unsafe {
            object.write(Copied { header: PinHeader::new(free_copied), len });
            Pin::from_raw(object.cast())
        }
    }

    /// Where the bytes of such an object begin.
    #[inline]
    fn bytes_of(pin: &Pin) -> *mut u8 {
        pin.as_ptr().as_ptr().cast::<Copied>().wrapping_add(1).cast()
    }
}

/// Memory that bytes are copied into one after the other. Their slices share it, so that few of
/// them have to take memory. As long as one of them lives, all of that memory does.
#[derive(Default)]
pub struct Copies {
    /// References to the memory, once there is some.
    stock: Option<PinStock>,
    /// Bytes of it that slices may have, and how many there are.
    used: usize,
    room: usize,
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Copies({} of {})", self.used, self.room)
    }
}

impl Copies {
    /// A slice of a copy of `bytes`.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) -> Slice {
        match Slice::inline(bytes) {
            Some(slice) => slice,
            None => {
                let (start, pin) = self.copy_behind(bytes);
                // SAFETY: the copy lies in the object of the pin.
                unsafe { Slice::lying_at(start, bytes.len(), pin) }
            }
        }
    }

    /// A copy of bytes that do not fit into a slice itself, and what keeps it.
    // Apart, and in registers, as `Copied::of`.
    #[inline(never)]
    fn copy_behind(&mut self, bytes: &[u8]) -> (*const u8, Pin) {
        if bytes.len() > self.room - self.used && !self.make_room(bytes.len()) {
            return Copied::of(bytes);
        }
        let Some(stock) = &mut self.stock else { return Copied::of(bytes) };
        let pin = stock.hand_out();
        // SAFETY: the stock's object was made by `with_room` with `room` bytes, and `used` and what
        // is copied are not more. Slices have bytes before `used` alone, so these are written while
        // no other code reads them. From now on they are before `used`, and stay as they are.
        unsafe {
            let copy = Copied::bytes_of(&pin).add(self.used);
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
            self.used += bytes.len();
            (copy, pin)
        }
    }

    /// Has room for `len` bytes, unless these are too many.
    #[inline(never)]
    fn make_room(&mut self, len: usize) -> bool {
        if len > LEN_MAX {
            return false;
        }
        if !self.stock.as_mut().is_some_and(PinStock::is_all_there) {
            self.room = (2 * self.room).clamp(ROOM_FIRST, ROOM_MAX);
            self.stock = Some(PinStock::owning(Copied::with_room(self.room)));
        }
        self.used = 0;
        true
    }
}

/// Releases bytes that were copied.
///
/// # Safety
/// `header` begins an object that `Copied::with_room` made, and no reference to it is left.
unsafe fn free_copied(header: NonNull<PinHeader>) {
    let object = header.cast::<Copied>();
    // SAFETY: only `Copied::with_room` uses this function, on what it allocated by this layout.
    // Nothing in it needs dropping.
    unsafe { dealloc(object.as_ptr().cast(), Copied::layout(object.as_ref().len)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(len: usize, of: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + of * 31) as u8).collect()
    }

    #[test]
    fn copies_stay_as_they_are_while_others_are_made_beside_them() {
        let mut copies = Copies::default();
        let mut kept: Vec<(usize, usize, Slice)> = Vec::new();
        for nth in 0..400 {
            let len = [0, 24, 25, 40, 90, LEN_MAX, LEN_MAX + 1, 3 * ROOM_MAX][nth % 8];
            let slice = copies.copy(&bytes(len, nth));
            assert_eq!(slice, bytes(len, nth));
            // Some stay for long, some for a while, and most go at once.
            if nth % 5 == 0 || nth % 50 < 20 {
                kept.push((len, nth, slice));
            }
            kept.retain(|(_, of, _)| of % 15 == 0 || of + 20 > nth);
        }
        drop(copies);
        let kept = std::thread::spawn(move || kept).join().unwrap();
        for (len, of, slice) in kept {
            assert_eq!(slice, bytes(len, of));
        }
    }

    #[test]
    fn memory_is_used_again_once_no_slice_of_it_is_left_and_not_before() {
        let mut copies = Copies::default();
        let first = copies.copy(&[1; 100]);
        let place = first.as_ptr();
        let mut places = Vec::new();
        // A clone that another thread drops counts like the slice itself.
        std::thread::spawn(move || drop(first.clone())).join().unwrap();
        for nth in 0..50u8 {
            places.push(copies.copy(&[nth; 100]).as_ptr());
        }
        assert!(places.contains(&place) && copies.room == ROOM_FIRST, "one piece serves them all");
        let held: Vec<Slice> = (0..50u8).map(|nth| copies.copy(&[nth; 100])).collect();
        assert!(held.iter().zip(0..).all(|(slice, nth)| *slice == [nth; 100]));
        assert_eq!(copies.room, ROOM_MAX);
    }
}
