//! Shared ownership of memory that slices point into: `Pin`, `PinStock`, `Slice`, `Piece`.
//!
//! A `Pin` is a counted handle of one word. So a cache slot is one atomic word, and a lookup
//! reaches the bytes with one dependent load. A `PinStock` counts 32 references at once, and takes
//! them back uncounted. A `Slice` is bytes that stay valid while it lives: up to 24 in itself, more
//! by a pin. A `Piece` is memory that slices share, and that is read into again without them; into
//! `Copies` bytes are copied one after the other.
//!
//! What must hold: the object behind a pin begins with a `PinHeader` (`#[repr(C)]`, first field)
//! whose `free` knows its true type. Pinned bytes stay where and as they are.
//!
//! Callers: `block::memory`, `memtable::arena`, `values::stretch` and `cache::apart` make pinned
//! objects; `cache` holds them. Slices go through `cursor`, `merge`, `values` and `db` to users.

mod copied;

pub use self::copied::Copies;

use self::copied::Copied;
use std::{
    borrow::Borrow,
    cmp, fmt, hash,
    mem::ManuallyDrop,
    num::NonZeroUsize,
    ops::{Deref, Range},
    ptr::NonNull,
    sync::atomic::{AtomicBool, AtomicU32, Ordering, fence},
};

/// First field of every pinnable object.
#[repr(C)]
#[derive(Debug)]
pub struct PinHeader {
    references: AtomicU32,
    /// Set by readers, cleared by the cache's clock hand: "used since the hand last passed".
    hot: AtomicBool,
    /// SAFETY: called once, by the last reference, on the object that this header begins.
    free: unsafe fn(NonNull<PinHeader>),
}

impl PinHeader {
    /// A header for an object with one reference. `free` releases the whole object; the maker of a
    /// [`Pin`] answers for that ([`Pin::from_raw`]).
    pub fn new(free: unsafe fn(NonNull<PinHeader>)) -> Self {
        PinHeader { references: AtomicU32::new(1), hot: AtomicBool::new(false), free }
    }

    /// Marks the object as used. Reads first, so that a hot object's line stays shared.
    #[inline]
    pub fn touch(&self) {
        if !self.hot.load(Ordering::Relaxed) {
            self.hot.store(true, Ordering::Relaxed);
        }
    }

    /// Counts `n` references more.
    #[inline]
    fn count(&self, n: u32) {
        let before = self.references.fetch_add(n, Ordering::Relaxed);
        // A count that wraps would free memory in use: 2^31 references is a leak, not a workload.
        if before > u32::MAX / 2 {
            std::process::abort();
        }
    }

    /// Whether the object was touched since the last call.
    #[inline]
    pub fn take_touched(&self) -> bool {
        self.hot.swap(false, Ordering::Relaxed)
    }
}

/// A counted reference to an object that begins with a [`PinHeader`].
pub struct Pin(NonNull<PinHeader>);

// SAFETY: the count is atomic, and constructors require the object itself to be Send + Sync.
unsafe impl Send for Pin {}
// SAFETY: as above; a shared Pin only reads the header's atomics and the immutable object.
unsafe impl Sync for Pin {}

impl Pin {
    /// Takes over one reference.
    ///
    /// # Safety
    /// `header` points to a live object that begins with a `PinHeader`, is `Send + Sync`, and whose
    /// reference the caller owns and gives up. The header's `free` may be called once on that
    /// object, on any thread. The object stays where it is and does not change but through its
    /// atomics, or by an owner that has the only reference.
    #[inline]
    pub unsafe fn from_raw(header: NonNull<PinHeader>) -> Self {
        Pin(header)
    }

    /// Gives up ownership of one reference without releasing it.
    #[inline]
    pub fn into_raw(self) -> NonNull<PinHeader> {
        let header = self.0;
        std::mem::forget(self);
        header
    }

    /// The object, as a raw pointer.
    #[inline]
    pub fn as_ptr(&self) -> NonNull<PinHeader> {
        self.0
    }

    /// The object's header.
    #[inline]
    pub fn header(&self) -> &PinHeader {
        // SAFETY: a Pin owns a reference, so the object is alive.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for Pin {
    #[inline]
    fn clone(&self) -> Self {
        self.header().count(1);
        Pin(self.0)
    }
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        if self.header().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            let free = self.header().free;
            // SAFETY: this was the last reference, and `free` matches the object by construction.
            unsafe { free(self.0) }
        }
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:p})", self.0)
    }
}

/// So many references are counted at once for a [`PinStock`].
const STOCKED: u32 = 32;

/// References to one object that are counted many at once, for a walk that hands out one after the
/// other. To count each would cost more than the rest of a step.
#[derive(Debug)]
pub struct PinStock {
    pin: Pin,
    /// References that are counted and not handed out, beside that of `pin`.
    spare: u32,
}

impl PinStock {
    /// References to the object of `pin`.
    pub fn of(pin: &Pin) -> Self {
        PinStock { pin: pin.clone(), spare: 0 }
    }

    /// References to the object of `pin`, which is the only one.
    fn owning(pin: Pin) -> Self {
        PinStock { pin, spare: 0 }
    }

    /// Whether no reference is out but the stock's own. Then nothing reads the object any more:
    /// what other threads read of it, they read before this.
    fn is_all_there(&mut self) -> bool {
        self.pin.header().references.load(Ordering::Acquire) == 1 + self.spare
    }

    /// One of them.
    #[inline]
    pub fn hand_out(&mut self) -> Pin {
        if self.spare == 0 {
            self.pin.header().count(STOCKED);
            self.spare = STOCKED;
        }
        self.spare -= 1;
        // It takes over one of the references that are spare.
        Pin(self.pin.0)
    }

    /// Drops `slice`; a reference to this object becomes one that is spare.
    #[inline]
    pub fn take_back(&mut self, slice: Slice) {
        if slice.as_pinned().is_some_and(|pinned| pinned.pin.0 == self.pin.0) {
            std::mem::forget(slice);
            self.spare += 1;
        }
    }
}

impl Drop for PinStock {
    fn drop(&mut self) {
        // Never the last ones: `pin` is dropped after them.
        self.pin.header().references.fetch_sub(self.spare, Ordering::Release);
    }
}

/// Bytes that fit in the slice itself.
const INLINE_BYTES: usize = 24;

/// Immutable bytes: a key or a value. Cheap to clone and to send; large ones share the block or
/// memtable that they lie in and keep it in memory, and keys of a walk share some kilobytes. So do
/// not hoard them: copy what you keep.
///
/// The length says where the bytes are. So every word is written and read whole: a copy of a tag
/// and of the bytes behind it reads across what was just written, and waits for memory.
#[repr(C)]
pub struct Slice {
    /// The length, and 1.
    behind: NonZeroUsize,
    body: Body,
}

/// `inline` of a slice of up to [`INLINE_BYTES`], else `pinned`.
#[repr(C)]
union Body {
    inline: [u8; INLINE_BYTES],
    pinned: ManuallyDrop<Pinned>,
    /// The same bytes as `inline`.
    words: Words,
}

/// Bytes in a slice itself, as words. They are put together in registers and written whole: a word
/// that is read after its bytes were written one by one waits for memory.
type Words = [u64; INLINE_BYTES / 8];

/// `bytes` and zeros behind them, if they fit into a slice.
#[inline(always)]
fn words_of(bytes: &[u8]) -> Option<Words> {
    /// The word at the beginning of `bytes`, which are 8 or more.
    #[inline]
    fn word(bytes: &[u8]) -> u64 {
        bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
    }
    /// The last 1 to 7 bytes, of 8 or more.
    #[inline]
    fn last(bytes: &[u8], count: usize) -> u64 {
        bytes.last_chunk().map_or(0, |word| u64::from_le_bytes(*word) >> (64 - 8 * count))
    }
    let len = bytes.len();
    let words = match len {
        0 => [0; 3],
        1 => [bytes[0].into(), 0, 0],
        2..4 => {
            let ends = bytes.first_chunk::<2>().zip(bytes.last_chunk::<2>())?;
            let (first, last) = (u16::from_le_bytes(*ends.0), u16::from_le_bytes(*ends.1));
            [u64::from(first) | u64::from(last) << (8 * (len - 2)), 0, 0]
        }
        4..8 => {
            let ends = bytes.first_chunk::<4>().zip(bytes.last_chunk::<4>())?;
            let (first, last) = (u32::from_le_bytes(*ends.0), u32::from_le_bytes(*ends.1));
            [u64::from(first) | u64::from(last) << (8 * (len - 4)), 0, 0]
        }
        8 => [word(bytes), 0, 0],
        9..16 => [word(bytes), last(bytes, len - 8), 0],
        16 => [word(bytes), word(&bytes[8..]), 0],
        17..INLINE_BYTES => [word(bytes), word(&bytes[8..]), last(bytes, len - 16)],
        INLINE_BYTES => [word(bytes), word(&bytes[8..]), word(&bytes[16..])],
        _ => return None,
    };
    Some(words.map(u64::to_le))
}

/// Bytes that `pin` keeps where and as they are.
#[derive(Clone)]
#[repr(C)]
struct Pinned {
    start: *const u8,
    pin: Pin,
}

// SAFETY: the pointer reads immutable memory that the pin keeps alive.
unsafe impl Send for Slice {}
// SAFETY: as above.
unsafe impl Sync for Slice {}

#[repr(C)]
struct Owned {
    header: PinHeader,
    bytes: Box<[u8]>,
}

/// Memory that is read into, then shared by slices, then read into again once the last of them is
/// gone.
#[derive(Debug)]
pub struct Piece {
    pin: Pin,
    /// Where its bytes begin, at a multiple of the alignment, and how many they are.
    start: *mut u8,
    len: usize,
}

// SAFETY: the pointer leads into the object that the pin keeps, which any thread may drop. Only the
// owner of the piece, which has it exclusively, writes through it.
unsafe impl Send for Piece {}
// SAFETY: as above; a shared piece only reads.
unsafe impl Sync for Piece {}

impl Piece {
    /// `len` bytes, zeros, that begin at a multiple of `alignment`, a power of two.
    pub fn new(len: usize, alignment: usize) -> Piece {
        let pin = owning(vec![0; len + alignment - 1].into());
        // SAFETY: `owning` made the object, and no other code has it yet.
        let bytes = unsafe { &mut pin.as_ptr().cast::<Owned>().as_mut().bytes };
        let skipped = bytes.as_ptr().addr().next_multiple_of(alignment) - bytes.as_ptr().addr();
        let start = bytes[skipped..].as_mut_ptr();
        Piece { pin, start, len }
    }

    /// How many bytes there is room for.
    pub fn room(&self) -> usize {
        self.len
    }

    /// The bytes, to be written, if no slice of them is left.
    pub fn unshared(&mut self) -> Option<&mut [u8]> {
        // Acquire: what other threads read through their slices, they read before this.
        let is_alone = self.pin.header().references.load(Ordering::Acquire) == 1;
        // SAFETY: the object is the piece's alone, and new slices are made by `slice` only, which
        // borrows the piece.
        is_alone.then(|| unsafe { std::slice::from_raw_parts_mut(self.start, self.len) })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: they lie in the object that the pin keeps, and are written only by an owner that
        // has the piece exclusively.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// A part of the bytes, which keeps all of them. Panics if there are fewer.
    #[inline]
    pub fn slice(&self, part: Range<usize>) -> Slice {
        // SAFETY: the part lies in the object of the pin. It is not written while a slice of it
        // lives, since `unshared` counts them.
        unsafe { Slice::pinned(&self.pin, &self.bytes()[part]) }
    }
}

/// The only reference to an object that owns `bytes`. They stay where they are.
fn owning(bytes: Box<[u8]>) -> Pin {
    let owned = Box::into_raw(Box::new(Owned { header: PinHeader::new(free_owned), bytes }));
    // SAFETY: `Owned` is repr(C) with the header first, immutable but for an owner that has it
    // alone, and its one reference is ours. A box is not null.
    unsafe { Pin::from_raw(NonNull::new_unchecked(owned).cast()) }
}

/// Releases bytes that a slice owned.
///
/// # Safety
/// `header` begins an object that `Slice::owned` made, and no reference to it is left.
unsafe fn free_owned(header: NonNull<PinHeader>) {
    // SAFETY: only `Slice::owned` uses this function, on a leaked `Box<Owned>`.
    drop(unsafe { Box::from_raw(header.cast::<Owned>().as_ptr()) });
}

impl Slice {
    /// `bytes` in the slice itself, if they fit.
    #[inline(always)]
    fn inline(bytes: &[u8]) -> Option<Slice> {
        let words = words_of(bytes)?;
        Some(Slice { behind: behind(bytes.len()), body: Body { words } })
    }

    /// `len` bytes from `start`, more than fit into the slice itself.
    ///
    /// # Safety
    /// They lie in memory that stays unchanged while the object lives that `pin` refers to.
    #[inline]
    unsafe fn lying_at(start: *const u8, len: usize, pin: Pin) -> Slice {
        debug_assert!(len > INLINE_BYTES);
        let pinned = ManuallyDrop::new(Pinned { start, pin });
        Slice { behind: behind(len), body: Body { pinned } }
    }

    #[inline]
    fn bytes_len(&self) -> usize {
        self.behind.get() - 1
    }

    /// Where the bytes lie, if not in the slice itself.
    #[inline]
    fn as_pinned(&self) -> Option<&Pinned> {
        // SAFETY: of a slice of such a length, `pinned` was written.
        (self.bytes_len() > INLINE_BYTES).then(|| unsafe { &*self.body.pinned })
    }

    /// An empty slice.
    pub const fn empty() -> Self {
        Slice { behind: NonZeroUsize::MIN, body: Body { words: [0; INLINE_BYTES / 8] } }
    }

    /// Copies `bytes`.
    #[inline]
    pub fn copy_from(bytes: &[u8]) -> Self {
        Slice::inline(bytes).unwrap_or_else(|| {
            let (start, pin) = Copied::of(bytes);
            // SAFETY: the copy lies in the object of the pin.
            unsafe { Slice::lying_at(start, bytes.len(), pin) }
        })
    }

    fn owned(bytes: Box<[u8]>) -> Self {
        let (start, len) = (bytes.as_ptr(), bytes.len());
        // SAFETY: the bytes are the object's.
        unsafe { Slice::lying_at(start, len, owning(bytes)) }
    }

    /// Bytes inside the object that `pin` keeps alive. Short ones are copied: that is cheaper than
    /// counting.
    ///
    /// # Safety
    /// `bytes` lies in memory that stays unchanged while `pin`'s object lives.
    #[inline]
    pub unsafe fn pinned(pin: &Pin, bytes: &[u8]) -> Self {
        // SAFETY: by the contract; the clone is of the same object.
        unsafe { Slice::pinned_by(|| pin.clone(), bytes) }
    }

    /// [`Slice::pinned`], by a reference that `pin` gives if one is needed.
    ///
    /// # Safety
    /// `bytes` lies in memory that stays unchanged while the object lives that `pin` refers to.
    #[inline]
    pub unsafe fn pinned_by(pin: impl FnOnce() -> Pin, bytes: &[u8]) -> Self {
        match Slice::inline(bytes) {
            Some(slice) => slice,
            // SAFETY: by the contract.
            None => unsafe { Slice::lying_at(bytes.as_ptr(), bytes.len(), pin()) },
        }
    }

    /// The same bytes without the first `skipped` ones. Panics if there are fewer.
    pub fn after(self, skipped: usize) -> Self {
        let left = &self[skipped..];
        match self.as_pinned() {
            // SAFETY: what is left lies in the same object.
            Some(pinned) => unsafe { Slice::pinned(&pinned.pin, left) },
            None => Slice::copy_from(left),
        }
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        let start = match self.as_pinned() {
            Some(pinned) => pinned.start,
            // SAFETY: of a slice of such a length, `inline` was written.
            None => unsafe { self.body.inline.as_ptr() },
        };
        // SAFETY: so many bytes lie there: in the slice, or in memory that the pin keeps alive and
        // unchanged.
        unsafe { std::slice::from_raw_parts(start, self.bytes_len()) }
    }
}

#[inline]
fn behind(len: usize) -> NonZeroUsize {
    NonZeroUsize::MIN.saturating_add(len)
}

impl Clone for Slice {
    #[inline]
    fn clone(&self) -> Self {
        match self.as_pinned() {
            // SAFETY: the same bytes of the same object.
            Some(pinned) => unsafe { Slice::lying_at(pinned.start, self.bytes_len(), pinned.pin.clone()) },
            // SAFETY: of a slice of such a length, `words` was written.
            None => Slice { behind: self.behind, body: Body { words: unsafe { self.body.words } } },
        }
    }
}

impl Drop for Slice {
    #[inline]
    fn drop(&mut self) {
        if self.bytes_len() > INLINE_BYTES {
            // SAFETY: of a slice of such a length, `pinned` was written, and this is its end.
            unsafe { ManuallyDrop::drop(&mut self.body.pinned) }
        }
    }
}

impl From<Vec<u8>> for Slice {
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.len() <= INLINE_BYTES { Slice::copy_from(&bytes) } else { Slice::owned(bytes.into()) }
    }
}

impl Deref for Slice {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Slice {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}
impl Eq for Slice {}

/// Slices and what else holds bytes compare by their bytes, from either side.
macro_rules! compares_with {
    ($($other:ty $(, const $n:ident)?;)*) => {
        $(
            impl $(<const $n: usize>)? PartialEq<$other> for Slice {
                fn eq(&self, other: &$other) -> bool {
                    **self == *AsRef::<[u8]>::as_ref(other)
                }
            }
            impl $(<const $n: usize>)? PartialEq<Slice> for $other {
                fn eq(&self, other: &Slice) -> bool {
                    other == self
                }
            }
        )*
    };
}

compares_with! {
    [u8];
    &[u8];
    [u8; N], const N;
    &[u8; N], const N;
    Vec<u8>;
    Box<[u8]>;
    str;
    &str;
    String;
}

impl From<Slice> for Vec<u8> {
    fn from(slice: Slice) -> Vec<u8> {
        slice.as_bytes().to_vec()
    }
}
impl From<Slice> for Box<[u8]> {
    fn from(slice: Slice) -> Box<[u8]> {
        slice.as_bytes().into()
    }
}
impl From<&[u8]> for Slice {
    fn from(bytes: &[u8]) -> Slice {
        Slice::copy_from(bytes)
    }
}
impl From<&str> for Slice {
    fn from(text: &str) -> Slice {
        Slice::copy_from(text.as_bytes())
    }
}
impl From<String> for Slice {
    fn from(text: String) -> Slice {
        Slice::from(text.into_bytes())
    }
}
impl<const N: usize> From<&[u8; N]> for Slice {
    fn from(bytes: &[u8; N]) -> Slice {
        Slice::copy_from(bytes)
    }
}
impl PartialOrd for Slice {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Slice {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}
impl hash::Hash for Slice {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}
impl Default for Slice {
    fn default() -> Self {
        Slice::empty()
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.as_bytes().escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_written_again_only_when_no_slice_of_it_is_left() {
        let mut piece = Piece::new(4096, 512);
        assert!(piece.room() == 4096 && piece.bytes().as_ptr().addr().is_multiple_of(512));
        piece.unshared().unwrap().fill(1);
        let (short, long) = (piece.slice(0..INLINE_BYTES), piece.slice(100..300));
        assert!(piece.unshared().is_none(), "a slice shares it");
        let other = long.clone();
        drop(long);
        assert!(piece.unshared().is_none(), "a clone shares it");
        let kept = std::thread::spawn(move || other[..].to_vec()).join().unwrap();
        assert_eq!(kept, [1; 200]);
        // A short one has its bytes in itself.
        piece.unshared().unwrap().fill(2);
        assert_eq!((&short[..], &piece.slice(0..100)[..]), (&[1; INLINE_BYTES][..], &[2; 100][..]));
        let last = piece.slice(4000..4096);
        drop(piece);
        assert_eq!(last, [2; 96]);
    }

    #[test]
    fn a_slice_outlives_the_vector_it_came_from() {
        for len in [0, 1, INLINE_BYTES, INLINE_BYTES + 1, 5000] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let slice = Slice::from(bytes.clone());
            let copy = slice.clone();
            drop(slice);
            assert_eq!(copy, bytes);
        }
    }

    #[test]
    fn a_slice_holds_the_bytes_that_it_was_made_of_whatever_their_length() {
        let bytes: Vec<u8> = (1..=64).collect();
        for len in 0..=bytes.len() {
            let slice = Slice::copy_from(&bytes[..len]);
            assert_eq!(slice, bytes[..len]);
            assert_eq!(slice.clone(), bytes[..len]);
        }
        assert_eq!(size_of::<Option<Slice>>(), size_of::<Slice>());
    }

    #[test]
    fn a_slice_can_lose_its_front() {
        for len in [0, 8, INLINE_BYTES, INLINE_BYTES + 8, INLINE_BYTES + 9, 500] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8).collect();
            for skipped in [0, 1, 8, len] {
                if skipped <= len {
                    assert_eq!(Slice::from(bytes.clone()).after(skipped), bytes[skipped..].to_vec());
                }
            }
        }
    }

    #[test]
    fn the_last_reference_frees_the_object() {
        static FREED: AtomicU32 = AtomicU32::new(0);
        /// # Safety
        /// `header` was leaked from a box, and no reference to it is left.
        unsafe fn free(header: NonNull<PinHeader>) {
            FREED.fetch_add(1, Ordering::SeqCst);
            // SAFETY: leaked from a Box below.
            drop(unsafe { Box::from_raw(header.as_ptr()) });
        }
        let header = NonNull::from(Box::leak(Box::new(PinHeader::new(free))));
        // SAFETY: the box is live and its one reference is ours.
        let pin = unsafe { Pin::from_raw(header) };
        let second = pin.clone();
        drop(pin);
        assert_eq!(FREED.load(Ordering::SeqCst), 0);
        // What a stock has handed out counts like any other, and what it has not goes with it.
        let mut stock = PinStock::of(&second);
        let handed_out: Vec<_> = (0..3 * STOCKED + 1).map(|_| stock.hand_out()).collect();
        drop((second, stock));
        for pin in handed_out {
            assert_eq!(FREED.load(Ordering::SeqCst), 0);
            drop(pin);
        }
        assert_eq!(FREED.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_a_stock_takes_back_is_handed_out_again_and_no_reference_is_lost_or_freed_twice() {
        let pin = owning(vec![7; 4096].into());
        let references = || pin.header().references.load(Ordering::SeqCst);
        let mut stock = PinStock::of(&pin);
        let bytes = Slice::from(vec![7; 100]);
        // SAFETY: what a box owns stays where it is, and the object of `pin` keeps its own.
        let lie = |pin: Pin| unsafe { Slice::lying_at(bytes.as_ptr(), bytes.len(), pin) };
        for _ in 0..3 * STOCKED {
            let slice = lie(stock.hand_out());
            stock.take_back(slice);
        }
        assert_eq!(references(), 2 + STOCKED, "counted once");
        let (kept, cloned) = (lie(stock.hand_out()), lie(pin.clone()));
        stock.take_back(cloned);
        let other = Slice::from(vec![1; 100]);
        let others = other.as_pinned().unwrap().pin.clone();
        stock.take_back(other);
        assert_eq!(others.header().references.load(Ordering::SeqCst), 1, "another object's is dropped");
        stock.take_back(Slice::copy_from(b"short"));
        drop(stock);
        assert_eq!(references(), 2);
        drop(kept);
        assert_eq!(references(), 1);
    }
}
