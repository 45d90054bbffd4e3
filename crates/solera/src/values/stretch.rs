//! `Stretch`, a piece of a sorted value file that the cache keeps; `Visited`, the stretch that a
//! walk reads now; `Stretches`, which finds and keeps the stretches of one file.
//!
//! A file is cut at multiples of 48 KiB. A stretch has the whole of each short record that begins
//! between two cuts. Walks bring stretches in; lookups only find them. Reading one checks nothing:
//! a value is checked when it is first shown, and a bit notes that. Later reads compare key and
//! length with those that the file has in front of the record.
//!
//! What must hold: a shown value has passed its checksum over file, place, key and value. The bytes
//! in a shared stretch never change, only the bits are set.
//!
//! Callers: `ahead` (walks) and `files` (both); `engine::resident` keeps them as pins of the cache.

use super::{Pointer, ValueFile, record};
use crate::{
    pin::{Pin, PinHeader, PinStock, Slice},
    pool::{self, BLOCKS},
    prefetch::{LINE_BYTES, prefetch_bytes},
    sync::atomic::{AtomicU64, Ordering},
};
use std::{fmt, mem, ptr::NonNull, slice};

/// Where a file is cut.
const CUT_BYTES: usize = 48 << 10;
/// Records up to this long are whole in the stretch in which they begin: those of values of 4 KiB.
const RECORD_BYTES_MAX: usize = (4 << 10) + 256;
/// So many bytes behind a record are asked for.
const NEXT_BYTES: usize = 2 * LINE_BYTES;
/// About so many bytes of an entry are neither key nor record.
const ENTRY_BYTES: usize = 3;
/// Most bytes of a stretch.
const STRETCH_BYTES: usize = CUT_BYTES + RECORD_BYTES_MAX;
/// One bit for so many bytes: no two records begin in the same.
const BIT_BYTES: usize = 4;
const WORDS: usize = STRETCH_BYTES / BIT_BYTES / 64;
const _: () = assert!(STRETCH_BYTES.is_multiple_of(BIT_BYTES * 64));
/// Where the file's bytes begin in the memory of a stretch.
const BYTES_AT: usize = size_of::<Control>() + WORDS * size_of::<AtomicU64>();
const STRETCH_MEMORY_BYTES: usize = BYTES_AT + STRETCH_BYTES;
const _: () = assert!(align_of::<Control>() <= pool::ALIGN);

/// What lies in front of a stretch's bits.
#[repr(C, align(64))]
struct Control {
    header: PinHeader,
    /// Where in the file it begins.
    start: u64,
    /// How many bytes of the file it has.
    len: usize,
}

/// Stretches of one file that stay in memory for a while, by their numbers.
pub trait Stretches: Send + Sync {
    /// What was kept under this number, if it is still there.
    fn find(&self, number: usize) -> Option<Pin>;

    /// Whether what weighs so much may be kept there: it has come to a walk before, and nothing
    /// would have to go for it. It has come from now on.
    fn wants(&self, number: usize, weight: usize) -> bool;

    /// Keeps a pin that weighs so much under this number.
    fn keep(&self, number: usize, pin: Pin, weight: usize);
}

/// A part of a sorted value file, in memory.
pub(super) struct Stretch(Pin);

/// How many stretches a file of so many bytes has.
pub(super) fn count(file_bytes: u64) -> usize {
    usize::try_from(file_bytes / CUT_BYTES as u64 + 1).unwrap_or(usize::MAX)
}

/// The stretch that has the record of `pointer`, if its file has any.
#[inline]
pub(super) fn number_of(pointer: &Pointer) -> Option<usize> {
    let is_short = record::CHECKSUM_BYTES + pointer.len as usize <= RECORD_BYTES_MAX;
    (pointer.sorted && is_short).then(|| usize::try_from(pointer.offset / CUT_BYTES as u64).ok())?
}

impl Stretch {
    /// What a stretch weighs.
    pub(super) fn weight() -> usize {
        BLOCKS.rounded(STRETCH_MEMORY_BYTES)
    }

    /// Reads a stretch of `file`; `None` if it cannot be read.
    pub(super) fn read(file: &ValueFile, number: usize) -> Option<Stretch> {
        let start = (number as u64).checked_mul(CUT_BYTES as u64)?;
        let memory = Memory(BLOCKS.take(STRETCH_MEMORY_BYTES));
        // SAFETY: `BYTES_AT` bytes are less than were taken, and this is their only owner.
        unsafe { memory.0.write_bytes(0, BYTES_AT) };
        // SAFETY: as above, so many bytes follow. They are initialised: the pool's memory begins as
        // zeros, and its users write bytes alone behind 128 bytes of control.
        let bytes = unsafe { slice::from_raw_parts_mut(memory.0.add(BYTES_AT).as_ptr(), STRETCH_BYTES) };
        let len = file.read_ahead(bytes, start, false).ok()?;
        let start = memory.0.cast::<Control>();
        let control = Control { header: PinHeader::new(free), start: number as u64 * CUT_BYTES as u64, len };
        mem::forget(memory);
        // SAFETY: the memory is aligned for a control and has room for one. It begins with its
        // header, is `Send` and `Sync`, and its one reference is ours.
        unsafe {
            start.write(control);
            Some(Stretch(Pin::from_raw(start.cast())))
        }
    }

    /// The stretch behind a pin.
    ///
    /// # Safety
    /// The pin is one that [`Stretch::pin`] gave.
    pub(super) unsafe fn from_pin(pin: Pin) -> Stretch {
        Stretch(pin)
    }

    /// What keeps the stretch.
    pub(super) fn pin(&self) -> Pin {
        self.0.clone()
    }

    #[inline]
    fn control(&self) -> &Control {
        // SAFETY: `read` wrote it.
        unsafe { self.0.as_ptr().cast::<Control>().as_ref() }
    }

    /// Bits of records that were checked.
    #[inline]
    fn checked(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: they follow the control, aligned as words are, and began as zeros.
        unsafe { self.0.as_ptr().cast::<u8>().add(size_of::<Control>()).cast().as_ref() }
    }

    /// The file's bytes.
    #[inline]
    fn bytes(&self) -> &[u8] {
        let start = self.0.as_ptr().cast::<u8>();
        // SAFETY: so many bytes were read there, and no thread writes to them any more.
        unsafe { slice::from_raw_parts(start.add(BYTES_AT).as_ptr(), self.control().len) }
    }

    /// The value of `key` that `pointer`, into `file`, leads to, kept alive by a reference that
    /// `pin` gives. `None` if it is not whole in here, or is not what was written.
    #[inline]
    pub(super) fn value_by(
        &self,
        pin: impl FnOnce() -> Pin,
        file: &ValueFile,
        pointer: &Pointer,
        key: &[u8],
    ) -> Option<Slice> {
        let at = usize::try_from(pointer.offset.checked_sub(self.control().start)?).ok()?;
        let record = self.bytes().get(at..at + record::CHECKSUM_BYTES + pointer.len as usize)?;
        let word = self.checked().get(at / BIT_BYTES / 64)?;
        let bit = 1 << (at / BIT_BYTES % 64);
        let is_checked = word.load(Ordering::Relaxed) & bit != 0;
        if !(is_checked && is_headed(&self.bytes()[..at], key, pointer.len)) {
            file.check(pointer, key, record).ok()?;
            word.fetch_or(bit, Ordering::Relaxed);
        }
        // A walk comes to the next records of the file soon: to their keys, and to where they
        // begin. Memory takes longer than a step of a walk, so the one after the next is asked for,
        // too. It lies there if both are as long as this one.
        let next = record.as_ptr_range().end;
        prefetch_bytes(next, NEXT_BYTES);
        prefetch_bytes(next.wrapping_add(ENTRY_BYTES + key.len() + record.len()), NEXT_BYTES);
        // SAFETY: the record lies in the object of the pin, whose bytes stay as they are.
        Some(unsafe { Slice::pinned_by(pin, &record[record::CHECKSUM_BYTES..]) })
    }

    /// As [`Stretch::value_by`], by a reference of its own.
    #[inline]
    pub(super) fn value(&self, file: &ValueFile, pointer: &Pointer, key: &[u8]) -> Option<Slice> {
        self.value_by(|| self.pin(), file, pointer, key)
    }
}

/// A stretch that a walk is in, and references to it that are counted many at once.
#[derive(Debug)]
pub(super) struct Visited {
    stretch: Stretch,
    stock: PinStock,
}

impl Visited {
    pub(super) fn new(stretch: Stretch) -> Visited {
        Visited { stock: PinStock::of(&stretch.0), stretch }
    }

    /// As [`Stretch::value`].
    #[inline]
    pub(super) fn value(&mut self, file: &ValueFile, pointer: &Pointer, key: &[u8]) -> Option<Slice> {
        let Visited { stretch, stock } = self;
        stretch.value_by(|| stock.hand_out(), file, pointer, key)
    }

    /// Drops a value. If it was one of this stretch, the next one needs no counting.
    #[inline]
    pub(super) fn take_back(&mut self, value: Slice) {
        self.stock.take_back(value);
    }
}

/// Whether `before` ends with what an entry has in front of its record: this key and length.
#[inline]
fn is_headed(before: &[u8], key: &[u8], len: u32) -> bool {
    let strip = |bytes: &[u8], number: u64| -> Option<usize> {
        let (varint, count) = varint(number);
        bytes.ends_with(&varint[..count]).then(|| bytes.len() - count)
    };
    let Some(key_end) = strip(before, len.into()) else { return false };
    let Some(key_at) = key_end.checked_sub(key.len()) else { return false };
    before[key_at..key_end] == *key && strip(&before[..key_at], key.len() as u64).is_some()
}

/// A number as [`crate::codec::put_varint`] writes it, and how many bytes that takes.
#[inline]
fn varint(mut number: u64) -> ([u8; 10], usize) {
    let (mut bytes, mut count) = ([0; 10], 0);
    while number >= 0x80 {
        bytes[count] = number as u8 | 0x80;
        (number, count) = (number >> 7, count + 1);
    }
    bytes[count] = number as u8;
    (bytes, count + 1)
}

/// The memory of a stretch.
struct Memory(NonNull<u8>);

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: taken in `Stretch::read` with this size, and this is the end of it.
        unsafe { BLOCKS.give(self.0, STRETCH_MEMORY_BYTES) }
    }
}

/// Releases a stretch.
///
/// # Safety
/// `header` begins an object that `Stretch::read` made, and nothing refers to it any more.
unsafe fn free(header: NonNull<PinHeader>) {
    drop(Memory(header.cast()));
}

impl fmt::Debug for Stretch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stretch").field("start", &self.control().start).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{put_bytes, put_varint};

    #[test]
    fn only_the_key_and_length_in_front_of_a_record_are_its_own() {
        for (key, len) in [(&b"k"[..], 1), (b"", 5), (&[7; 127], 127), (&[7; 128], 128), (&[7; 300], 70_000)]
        {
            let mut entry = vec![3; 9];
            put_bytes(&mut entry, key);
            put_varint(&mut entry, len);
            let len = len as u32;
            assert!(is_headed(&entry, key, len));
            assert!(!is_headed(&entry, key, len + 1) && !is_headed(&entry, &[key, b"x"].concat(), len));
            assert!(key.is_empty() || !is_headed(&entry, &key[1..], len));
            assert!(!is_headed(&entry[..entry.len() - 1], key, len) && !is_headed(b"", key, len));
        }
    }

    #[test]
    fn a_varint_is_what_the_codec_writes() {
        for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut written = Vec::new();
            put_varint(&mut written, number);
            let (bytes, count) = varint(number);
            assert_eq!(bytes[..count], written);
        }
    }
}
