//! A block's memory, and all unchecked accesses to it: `Block`, `BlockAllocation`, `RecordGrid`.
//!
//! An allocation is two cache lines of control, then the payload. `into_block` validates bytes that
//! were read in place; `copy_in` copies a block into memory that it is given. `heads`, `record`,
//! `record_place`, `buckets`, `prefix` and `note` are unchecked accesses; `prefetch_*` ask for
//! memory ahead. A `RecordGrid` says where the records of like blocks lie.
//!
//! What must hold: accesses rest on what `Geometry::parse` proved of these very bytes, and the
//! bytes never change afterwards. A block is one counted word (`Pin`). Its memory comes from
//! `pool`, or from a loan of it, and returns there.
//!
//! Callers: `block::read`, `block::seal`, `block::slots`, `block::lent_entries`; `table::reader`
//! allocates; `table::lookup` prefetches.

use super::format::{BUCKETS, FOOTER_BYTES, Geometry, HEAD_BYTES, tail_len};
use crate::{
    codec::DecodeError,
    pin::{Pin, PinHeader},
    pool::{self, BLOCKS},
    prefetch::{LINE_BYTES, prefetch, prefetch_bytes, prefetch_lines},
};
use std::{
    mem::{self, offset_of},
    ptr::NonNull,
};

/// What lies in front of a payload.
#[repr(C, align(64))]
struct Control {
    header: PinHeader,
    geometry: Geometry,
    /// Bytes allocated behind the control.
    capacity: usize,
}

const CONTROL_BYTES: usize = size_of::<Control>();
const _: () = assert!(CONTROL_BYTES == 128);
const _: () = assert!(align_of::<Control>() <= pool::ALIGN);
const _: () = assert!(offset_of!(Control, geometry) + offset_of!(Geometry, base) == 64);
// `meta_word` reads 8 bytes at any record's start.
const _: () = assert!(FOOTER_BYTES >= 8);

/// Tails are copied in pieces of so many bytes: mostly one, whose length is known.
const COPIED_BYTES: usize = 32;
const _: () = assert!(FOOTER_BYTES >= COPIED_BYTES);

/// Heads that are asked for with a block's control. Most blocks have hardly more.
const PREFETCHED_HEADS: usize = 56;

/// Bytes behind those heads in which the buckets of a block of about as many entries lie, perhaps
/// behind record ends of 2 bytes.
const PREFETCHED_BUCKETS_BYTES: usize = 192;

/// Of a block that is read next, so much is asked for at most.
const PREFETCHED_WHOLE_BYTES_MAX: usize = 32 << 10;

/// Records of more bytes are not asked for before it is known which.
const PREFETCHED_RECORD_BYTES_MAX: usize = 128;

/// Records of more bytes together are not all asked for.
const PREFETCHED_TAILS_BYTES_MAX: usize = 1024;

/// Bytes of an allocation whose payload has `capacity`.
fn allocated(capacity: usize) -> usize {
    CONTROL_BYTES.checked_add(capacity).expect("a block fits the address space")
}

/// Memory for a block's bytes, aligned as a block needs it, so that what is read into it becomes a
/// [`Block`] where it stands.
#[derive(Debug)]
pub struct BlockAllocation {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the memory is owned and plain.
unsafe impl Send for BlockAllocation {}
// SAFETY: as above.
unsafe impl Sync for BlockAllocation {}

impl BlockAllocation {
    /// Memory for `capacity` bytes of whatever content. The caller has checked a length that came
    /// from a file against the file's; a length over the address space panics.
    pub fn new(capacity: usize) -> Self {
        BlockAllocation { start: BLOCKS.take(allocated(capacity)), capacity }
    }

    /// The bytes.
    pub fn buffer(&self) -> &[u8] {
        // SAFETY: `capacity` bytes follow the control. They are initialised: the pool's memory
        // begins as zeros, only blocks have it, and behind the control, which has padding, they
        // write nothing but bytes.
        unsafe { NonNull::slice_from_raw_parts(self.start.add(CONTROL_BYTES), self.capacity).as_ref() }
    }

    /// The bytes, to be filled.
    pub fn buffer_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `buffer`, and the allocation is borrowed mutably.
        unsafe { NonNull::slice_from_raw_parts(self.start.add(CONTROL_BYTES), self.capacity).as_mut() }
    }

    /// Validates the first `payload_len` bytes as a payload and makes them a block.
    pub(super) fn into_block(mut self, payload_len: usize) -> Result<Block, DecodeError> {
        let geometry = Geometry::parse(&self.buffer()[..payload_len])?;
        if cfg!(target_endian = "big") {
            for head in self.buffer_mut()[..geometry.n as usize * HEAD_BYTES].chunks_exact_mut(HEAD_BYTES) {
                head.reverse();
            }
        }
        let control = Control { header: PinHeader::new(free), geometry, capacity: self.capacity };
        let start = self.start;
        mem::forget(self);
        // SAFETY: `start` is aligned for a `Control` and has room for one; nothing in use is there
        // yet. What it holds from now on is `Send + Sync`, begins with a `PinHeader` that `free`
        // releases, and has the one reference that goes into the pin.
        unsafe {
            start.cast::<Control>().write(control);
            Ok(Block(Pin::from_raw(start.cast())))
        }
    }
}

impl Drop for BlockAllocation {
    fn drop(&mut self) {
        // SAFETY: taken in `new`, and this is the end of it.
        unsafe { BLOCKS.give(self.start, allocated(self.capacity)) }
    }
}

/// Releases a block's allocation.
///
/// # Safety
/// `header` begins a block that `into_block` or `copy_in` made, and no reference to it is left.
unsafe fn free(header: NonNull<PinHeader>) {
    let start = header.cast::<u8>();
    // SAFETY: only these two name this function, on an allocation that begins with a control;
    // nothing in a control needs dropping.
    let capacity = unsafe { header.cast::<Control>().as_ref() }.capacity;
    drop(BlockAllocation { start, capacity });
}

/// Where a block's records lie: about where those of its neighbours lie in theirs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecordGrid {
    records_at: u32,
    entries: u16,
    record_bytes: u8,
}

impl RecordGrid {
    /// The grid as a number; 0 for that of no records.
    pub fn to_number(self) -> u64 {
        u64::from(self.records_at) << 24 | u64::from(self.entries) << 8 | u64::from(self.record_bytes)
    }

    /// The grid that is this number.
    #[inline]
    pub fn from_number(number: u64) -> RecordGrid {
        RecordGrid {
            records_at: (number >> 24) as u32,
            entries: (number >> 8) as u16,
            record_bytes: number as u8,
        }
    }
}

/// Where the parts of an entry's record lie in a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RecordPlace {
    /// Bytes of the key behind the block's prefix, those in the head included.
    pub(super) suffix_len: usize,
    /// Bytes of the key's tail, which the value follows.
    tail_len: usize,
    /// Position of the value, and its length.
    value_at: usize,
    value_len: usize,
}

impl RecordPlace {
    /// Position of the key's tail.
    #[inline]
    fn tail_at(&self) -> usize {
        self.value_at - self.tail_len
    }

    /// The same, so far from it.
    #[inline]
    pub(super) fn moved_by(self, distance: isize) -> RecordPlace {
        RecordPlace { value_at: self.value_at.wrapping_add_signed(distance), ..self }
    }
}

/// A block in memory: one word, counted. Immutable.
#[derive(Clone)]
#[repr(transparent)]
pub struct Block(Pin);

impl Block {
    /// What keeps the block alive.
    #[inline]
    pub fn pin(&self) -> &Pin {
        &self.0
    }

    /// The block behind a pin.
    ///
    /// # Safety
    /// The pin is that of a [`Block`].
    #[inline]
    pub(super) unsafe fn from_pin(pin: Pin) -> Self {
        Block(pin)
    }

    /// A block of a payload that was not stored yet.
    ///
    /// # Errors
    /// If it is none.
    pub fn of_payload(payload: &[u8]) -> Result<Block, DecodeError> {
        let mut allocation = BlockAllocation::new(payload.len());
        allocation.buffer_mut().copy_from_slice(payload);
        allocation.into_block(payload.len())
    }

    /// [`Block::memory_bytes`] of a block of so long a payload.
    pub fn memory_bytes_of(payload_len: usize) -> usize {
        BLOCKS.rounded(allocated(payload_len))
    }

    /// A copy of the block in memory that `take` gives, if it does.
    ///
    /// # Safety
    /// `take` gives as many bytes as it is asked for, aligned to [`pool::ALIGN`], which are in no
    /// use. [`BLOCKS`] takes them back.
    pub(super) unsafe fn copy_in(&self, take: impl FnOnce(usize) -> Option<NonNull<u8>>) -> Option<Block> {
        let Control { geometry, capacity, .. } = self.control();
        let capacity = *capacity;
        let start = take(allocated(capacity))?;
        let control = Control { header: PinHeader::new(free), geometry: geometry.clone(), capacity };
        // SAFETY: both have `capacity` bytes behind the control, those of this block are
        // initialised (`BlockAllocation::buffer`), and no other code has the new ones. The rest is
        // as in `into_block`.
        unsafe {
            start
                .add(CONTROL_BYTES)
                .copy_from_nonoverlapping(NonNull::new_unchecked(self.payload().cast_mut()), capacity);
            start.cast::<Control>().write(control);
            Some(Block(Pin::from_raw(start.cast())))
        }
    }

    #[inline]
    fn control(&self) -> &Control {
        // SAFETY: a block's pin points to its control, written in `into_block`.
        unsafe { self.0.as_ptr().cast::<Control>().as_ref() }
    }

    #[inline]
    pub(super) fn geometry(&self) -> &Geometry {
        &self.control().geometry
    }

    /// The payload's first byte.
    #[inline]
    fn payload(&self) -> *const u8 {
        // SAFETY: the allocation goes on behind the control.
        unsafe { self.0.as_ptr().cast::<u8>().add(CONTROL_BYTES).as_ptr() }
    }

    /// Weight in memory, in bytes.
    pub fn memory_bytes(&self) -> usize {
        BLOCKS.rounded(allocated(self.control().capacity))
    }

    /// Asks for the control and the first heads. Heads lie where they lie, so they need not wait
    /// for the control, which says how many there are.
    #[inline]
    pub fn prefetch(&self) {
        const LINES: usize = (CONTROL_BYTES + PREFETCHED_HEADS * HEAD_BYTES).div_ceil(LINE_BYTES);
        prefetch_lines::<LINES>(self.0.as_ptr().as_ptr().cast());
    }

    /// Asks for all of it, or as much as the processor's cache takes well: for a walk that will
    /// read it soon.
    pub fn prefetch_whole(&self) {
        let bytes = CONTROL_BYTES + self.control().capacity;
        prefetch_bytes(self.0.as_ptr().as_ptr().cast(), bytes.min(PREFETCHED_WHOLE_BYTES_MAX));
    }

    /// Asks for where buckets lie in blocks of about [`PREFETCHED_HEADS`] entries, so that they
    /// need not wait for the control.
    #[inline]
    pub fn prefetch_buckets(&self) {
        let heads_end = self.payload().wrapping_add(PREFETCHED_HEADS * HEAD_BYTES);
        prefetch_bytes(heads_end, PREFETCHED_BUCKETS_BYTES);
    }

    /// Asks for the record of entry `i`.
    #[inline]
    pub fn prefetch_record(&self, i: usize) {
        let (at, len) = self.place(i);
        let start = self.payload().wrapping_add(at);
        prefetch(start);
        prefetch(start.wrapping_add(len));
    }

    /// What of the block's geometry is needed to find its records, if they are small and of one
    /// size.
    pub fn record_grid(&self) -> Option<RecordGrid> {
        let geometry = self.geometry();
        let (entries, record_bytes) =
            (u16::try_from(geometry.n).ok()?, u8::try_from(geometry.record_bytes).ok()?);
        let equal = geometry.ends_width == 0 && usize::from(record_bytes) <= PREFETCHED_RECORD_BYTES_MAX;
        equal.then_some(RecordGrid { records_at: geometry.records_at, entries, record_bytes })
    }

    /// From one record to the next, if one size of records and one length of keys tell of all
    /// where their parts lie.
    pub(super) fn record_distance(&self) -> Option<usize> {
        let geometry = self.geometry();
        let is_told = geometry.ends_width == 0 && geometry.length_bytes == 0;
        is_told.then_some(geometry.record_bytes as usize)
    }

    /// Where the parts of record `i` lie.
    #[inline]
    pub(super) fn record_place(&self, i: usize) -> RecordPlace {
        let (at, len) = self.place(i);
        // SAFETY: this is the record's place.
        unsafe { self.parts_of(at, at + len) }
    }

    /// [`Block::record_place`] of entry `i`, which follows the one at `before`.
    ///
    /// # Safety
    /// `before` is what [`Block::record_place`] of this very block gives for entry `i - 1`.
    #[inline]
    pub(super) unsafe fn record_place_behind(&self, i: usize, before: &RecordPlace) -> RecordPlace {
        let geometry = self.geometry();
        assert!(i < geometry.n as usize, "an entry of the block");
        // A value ends its record, and the next one begins there (proved).
        let at = before.value_at + before.value_len;
        let end = if geometry.ends_width == 0 {
            at + geometry.record_bytes as usize
        } else {
            // SAFETY: i < n (asserted), and ends are stored.
            geometry.records_at as usize + unsafe { self.end(i) }
        };
        // SAFETY: this is the record's place.
        let place = unsafe { self.parts_of(at, end) };
        debug_assert_eq!(place, self.record_place(i));
        place
    }

    /// The parts of a record.
    ///
    /// # Safety
    /// A record of the block begins and ends there.
    #[inline]
    unsafe fn parts_of(&self, at: usize, end: usize) -> RecordPlace {
        let geometry = self.geometry();
        // SAFETY: a record is as long as its length takes (proved).
        let suffix_len = unsafe {
            let length = self.payload().add(at);
            match geometry.length_bytes {
                0 => geometry.suffix_len.into(),
                1 => length.read().into(),
                _ => u16::from_le_bytes(length.cast::<[u8; 2]>().read()).into(),
            }
        };
        let tail_len = tail_len(suffix_len);
        let value_at = at + usize::from(geometry.length_bytes + geometry.meta_bytes) + tail_len;
        // Not negative: a record is as long as its tail takes (proved).
        RecordPlace { suffix_len, tail_len, value_at, value_len: end - value_at }
    }

    /// The tail of the key of the record that lies there.
    ///
    /// # Safety
    /// [`Block::record_place`] gave the place, of this very block.
    #[inline]
    pub(super) unsafe fn tail_at(&self, place: &RecordPlace) -> &[u8] {
        // SAFETY: the tail lies in its record, inside the payload (proved), which never changes.
        unsafe { std::slice::from_raw_parts(self.payload().add(place.tail_at()), place.tail_len) }
    }

    /// [`key::head`] of that tail.
    ///
    /// # Safety
    /// As for [`Block::tail_at`].
    #[inline]
    pub(super) unsafe fn tail_head_at(&self, place: &RecordPlace) -> u64 {
        // SAFETY: the tail lies in its record, and a footer of 40 bytes follows the records
        // (proved).
        let head = unsafe { self.payload().add(place.tail_at()).cast::<[u8; HEAD_BYTES]>().read() };
        let behind = 8 * HEAD_BYTES.saturating_sub(place.tail_len) as u32;
        u64::from_be_bytes(head).checked_shr(behind).map_or(0, |tail| tail << behind)
    }

    /// The value of the record that lies there.
    ///
    /// # Safety
    /// [`Block::record_place`] gave the place, of this very block, or it is as far from such a one
    /// as another record is by [`Block::record_distance`].
    #[inline]
    pub(super) unsafe fn value_at(&self, place: &RecordPlace) -> &[u8] {
        // SAFETY: the value ends its record, inside the payload (proved), which never changes.
        unsafe { std::slice::from_raw_parts(self.payload().add(place.value_at), place.value_len) }
    }

    /// Makes `key`, which begins with the block's prefix, the key of this head and of the record
    /// that lies there.
    ///
    /// # Safety
    /// As for [`Block::tail_at`].
    #[inline]
    pub(super) unsafe fn key_there_into(&self, head: u64, place: &RecordPlace, key: &mut Vec<u8>) {
        let prefix_len = usize::from(self.geometry().prefix_len);
        assert!(prefix_len <= key.len(), "the prefix is there");
        let tail_len = place.tail_len;
        let room = prefix_len + HEAD_BYTES + tail_len + COPIED_BYTES;
        if key.capacity() < room {
            key.reserve(room - key.len());
        }
        // SAFETY: there is room for prefix, head, tail and one piece more. Pieces are read from
        // before the tail's end on, so to less than `COPIED_BYTES` behind the records, where the
        // footer lies (proved). A suffix is as long as tail and head, or shorter than the head.
        unsafe {
            let to = key.as_mut_ptr().add(prefix_len);
            to.cast::<[u8; HEAD_BYTES]>().write(head.to_be_bytes());
            let (from, to) = (self.payload().add(place.tail_at()), to.add(HEAD_BYTES));
            let mut copied = 0;
            while copied < tail_len {
                let piece = from.add(copied).cast::<[u8; COPIED_BYTES]>().read();
                to.add(copied).cast::<[u8; COPIED_BYTES]>().write(piece);
                copied += COPIED_BYTES;
            }
            key.set_len(prefix_len + place.suffix_len);
        }
    }

    /// Asks for the beginnings of the records of the entries from `low` up to `high`, of which
    /// there are some: of all, or where they are far apart, of every eighth part of them.
    #[inline]
    pub(super) fn prefetch_tails(&self, low: usize, high: usize) {
        let (begin, end) = (self.place(low).0, self.place(high - 1).0);
        let start = self.payload().wrapping_add(begin);
        // Where record ends lie, they ascend (proved).
        if end - begin <= PREFETCHED_TAILS_BYTES_MAX {
            prefetch_bytes(start, end - begin + 1);
        } else {
            let ranks = (low..high).step_by((high - low).div_ceil(8));
            ranks.for_each(|i| prefetch(self.payload().wrapping_add(self.place(i).0)));
        }
    }

    /// Asks for the records so far into the block, in 256ths, if it is like one with this grid.
    #[inline]
    pub fn prefetch_records_within(&self, grid: RecordGrid, within: u8) {
        let rank = usize::from(within) * usize::from(grid.entries) / 256;
        let bytes = usize::from(grid.record_bytes);
        let at = grid.records_at as usize + rank * bytes;
        prefetch_bytes(self.payload().wrapping_add(at).wrapping_sub(bytes), 3 * bytes);
    }

    /// Asks for the records of entry `i` and of its neighbours, where they are small and of one
    /// size, so that nothing must be read to know their places. There may be no such entries.
    #[inline]
    pub(super) fn prefetch_records_around(&self, i: usize) {
        let geometry = self.geometry();
        let bytes = geometry.record_bytes as usize;
        if geometry.ends_width == 0 && bytes <= PREFETCHED_RECORD_BYTES_MAX {
            let at = geometry.records_at as usize + i * bytes;
            prefetch_bytes(self.payload().wrapping_add(at).wrapping_sub(bytes), 3 * bytes);
        }
    }

    /// The heads.
    #[inline]
    pub(super) fn heads(&self) -> &[u64] {
        // SAFETY: the payload begins with n heads (proved) and is aligned to 64 bytes.
        unsafe { std::slice::from_raw_parts(self.payload().cast(), self.geometry().n as usize) }
    }

    /// Whether the block has a hash index.
    #[inline]
    pub fn has_buckets(&self) -> bool {
        self.geometry().flags & BUCKETS != 0
    }

    /// The buckets of the hash index; none if there is none.
    #[inline]
    pub(super) fn buckets(&self) -> &[u8] {
        let geometry = self.geometry();
        let len = if self.has_buckets() { geometry.error_or_buckets.into() } else { 0 };
        // SAFETY: so many buckets lie inside the payload, right before the records (proved).
        unsafe { std::slice::from_raw_parts(self.payload().add(geometry.records_at as usize - len), len) }
    }

    /// The prefix.
    #[inline]
    pub(super) fn prefix(&self) -> &[u8] {
        let geometry = self.geometry();
        let len = usize::from(geometry.prefix_len);
        match geometry.prefix.get(..len) {
            Some(inline) => inline,
            // SAFETY: the prefix lies inside the payload (proved).
            None => unsafe { std::slice::from_raw_parts(self.payload().add(geometry.prefix_at), len) },
        }
    }

    /// What the builder was given to keep with the block.
    pub fn note(&self) -> &[u8] {
        let geometry = self.geometry();
        let at = geometry.prefix_at + usize::from(geometry.prefix_len);
        // SAFETY: the note follows the prefix inside the payload (proved).
        unsafe { std::slice::from_raw_parts(self.payload().add(at), geometry.note_len.into()) }
    }

    /// Where record `i` ends, counted from the start of the records.
    ///
    /// # Safety
    /// `i < n`, and ends are stored.
    #[inline]
    unsafe fn end(&self, i: usize) -> usize {
        let geometry = self.geometry();
        let width = usize::from(geometry.ends_width);
        // SAFETY: n ends of this width follow the n heads (proved), and i < n.
        unsafe {
            let end = self.payload().add(geometry.n as usize * HEAD_BYTES + i * width);
            match width {
                2 => u16::from_le_bytes(end.cast::<[u8; 2]>().read()).into(),
                4 => u32::from_le_bytes(end.cast::<[u8; 4]>().read()) as usize,
                _ => u64::from_le_bytes(end.cast::<[u8; 8]>().read()) as usize,
            }
        }
    }

    /// Position in the payload and length of record `i`.
    #[inline]
    pub(super) fn place(&self, i: usize) -> (usize, usize) {
        let geometry = self.geometry();
        assert!(i < geometry.n as usize, "an entry of the block");
        let (start, len) = if geometry.ends_width == 0 {
            let bytes = geometry.record_bytes as usize;
            (i * bytes, bytes)
        } else {
            // SAFETY: i < n, and ends are stored.
            unsafe {
                let start = if i == 0 { 0 } else { self.end(i - 1) };
                (start, self.end(i) - start)
            }
        };
        (geometry.records_at as usize + start, len)
    }

    /// The record of entry `i`.
    #[inline]
    pub(super) fn record(&self, i: usize) -> &[u8] {
        let (at, len) = self.place(i);
        // SAFETY: i < n (asserted); such records lie inside the payload (proved).
        unsafe { std::slice::from_raw_parts(self.payload().add(at), len) }
    }

    /// The 8 bytes that follow the length of entry `i`: its meta, and what comes after it.
    #[inline]
    pub(super) fn meta_word(&self, i: usize) -> u64 {
        let at = self.place(i).0 + usize::from(self.geometry().length_bytes);
        // SAFETY: i < n (asserted); the length lies inside the record, and a footer of 40 bytes
        // follows the records (proved).
        unsafe { u64::from_le_bytes(self.payload().add(at).cast::<[u8; 8]>().read()) }
    }
}
