//! Chunks of memtables that blocks have for a while: `Loan`, one owner's.
//!
//! A loan takes chunks from `CHUNKS` and carves pieces out of them, one behind the other. A piece
//! that comes back serves the next one of its size. A chunk of which no piece is out is whole: it
//! is carved anew. Once the loan is called in, a whole chunk goes back to `CHUNKS`. Of one that is
//! not, `give_back_pages` gives the system the pages on which no piece lies (`paging`).
//!
//! What must hold:
//! - `BLOCKS` neither keeps nor frees a lent piece: `give` knows it by its address.
//! - A chunk is `LENT` as long as a piece of it may be out.
//! - What a loan holds is at most what it was told, or what it held when it was told less.
//!
//! Callers: `cache` owns a loan; `pool::mod` asks of each piece that comes back whether it is lent.

use super::{ALIGN, BLOCKS, CHUNK_BYTES, CHUNKS, COARSE_BYTES_MAX, paging::Pages};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeMap,
    fmt,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The chunks that are lent, of all owners.
static LENT: Register = Register { count: AtomicUsize::new(0), owners: RwLock::new(BTreeMap::new()) };

struct Register {
    /// How many they are: where none is, no address is looked up.
    count: AtomicUsize,
    /// Whose the chunk at an address is.
    owners: RwLock<BTreeMap<usize, Arc<Owner>>>,
}

/// Chunks on loan to one owner, which drops it to call them in.
pub struct Loan(Arc<Owner>);

/// What a loan shares with the pieces that are out.
struct Owner {
    /// Most bytes of chunks that it may hold. Changes under the lock of `state`.
    allowed: AtomicUsize,
    /// Bytes of the chunks in `state`, without the pages that were given back.
    held: AtomicUsize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By address.
    chunks: BTreeMap<usize, Chunk>,
    /// The chunk that is carved.
    open: Option<usize>,
    /// Chunks of which no piece is out, but for the open one.
    whole: Vec<usize>,
    /// Pieces that came back, by size.
    free: BTreeMap<usize, Vec<Free>>,
    /// Turns of all chunks so far.
    turns: u64,
    /// Bytes of pages of these chunks that were given back.
    given_back: usize,
}

struct Chunk {
    start: NonNull<u8>,
    /// Pieces that are out, and on which pages they lie.
    pieces: usize,
    pages: Pages,
    /// Bytes from the start that were carved.
    carved: usize,
    /// The number of its turn: each begins when it is taken or whole.
    turn: u64,
}

/// A piece that came back in this turn of its chunk. Once another one has begun it is no piece any
/// more.
struct Free {
    chunk: usize,
    offset: usize,
    turn: u64,
}

// SAFETY: a chunk is plain memory. Of what lies in it, each piece is handed to one caller.
unsafe impl Send for Chunk {}

impl Loan {
    /// A loan of nothing.
    pub fn new() -> Loan {
        Loan(Arc::new(Owner {
            allowed: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            state: Mutex::default(),
        }))
    }

    /// Most bytes that it may hold.
    #[inline]
    pub fn allowed(&self) -> usize {
        self.0.allowed.load(Ordering::Relaxed)
    }

    /// Bytes of the chunks that it holds, without pages that were given back. They may be more than
    /// it may hold, as long as pieces are out that were carved before.
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::Relaxed)
    }

    /// From now on it may hold `bytes` of chunks. They are taken when they are needed, and what is
    /// more goes back as soon as it is whole.
    pub fn allow(&self, bytes: usize) {
        let mut state = self.0.state.lock();
        self.0.allowed.store(bytes, Ordering::Relaxed);
        if bytes > 0 && self.held() <= bytes {
            return;
        }
        if bytes == 0 {
            state.free.clear();
            let open = state.open.take();
            state.whole.extend(open);
        }
        let mut going = Vec::new();
        for chunk in std::mem::take(&mut state.whole) {
            let is_whole = state.chunks.get(&chunk).is_some_and(|chunk| chunk.pieces == 0);
            if is_whole && (state.chunks.len() - going.len()) * CHUNK_BYTES > bytes {
                going.push(chunk);
            } else if is_whole {
                state.whole.push(chunk);
            }
        }
        let going: Vec<Chunk> = going.iter().filter_map(|chunk| state.remove(*chunk)).collect();
        self.0.count_held(&state);
        drop(state);
        going.into_iter().for_each(give_chunk);
    }

    /// Gives the system the pages of chunks on which no piece lies, if the loan was called in. What
    /// is still out of it may be out for long, and is little beside its chunks.
    pub fn give_back_pages(&self) {
        let mut state = self.0.state.lock();
        if self.allowed() > 0 {
            return;
        }
        let more: usize = state.chunks.values_mut().map(|chunk| chunk.pages.give_back()).sum();
        state.given_back += more;
        self.0.count_held(&state);
    }

    /// Memory for what `BLOCKS` would give `bytes`, of whatever content, aligned to [`ALIGN`].
    /// `None` if there is none. With `again`, pieces that came back serve too; else only what was
    /// not carved yet does. `BLOCKS` takes it back.
    pub fn take(&self, bytes: usize, again: bool) -> Option<NonNull<u8>> {
        let rounded = BLOCKS.rounded(bytes);
        if self.allowed() == 0 || rounded > COARSE_BYTES_MAX {
            return None;
        }
        let mut state = self.0.state.lock();
        // It may have been called in meanwhile.
        if self.allowed() == 0 {
            return None;
        }
        if again && let Some(piece) = state.take_free(rounded) {
            self.0.count_held(&state);
            return Some(piece);
        }
        if state.open.is_none_or(|open| state.chunks[&open].carved + rounded > CHUNK_BYTES) {
            self.0.open_chunk(&mut state)?;
        }
        let open = state.open.expect("a chunk was opened");
        let piece = state.carve(open, rounded);
        self.0.count_held(&state);
        Some(piece)
    }
}

impl Owner {
    /// Opens a whole chunk, or a new one.
    fn open_chunk(self: &Arc<Self>, state: &mut State) -> Option<()> {
        if let Some(chunk) = state.whole.pop() {
            state.open = Some(chunk);
            return Some(());
        }
        let held = (state.chunks.len() + 1) * CHUNK_BYTES;
        if held > self.allowed.load(Ordering::Relaxed) {
            return None;
        }
        let start = CHUNKS.take(CHUNK_BYTES);
        let chunk = start.addr().get();
        state.turns += 1;
        let turn = state.turns;
        let pages = Pages::of(start, CHUNK_BYTES);
        state.chunks.insert(chunk, Chunk { start, pieces: 0, pages, carved: 0, turn });
        state.open = Some(chunk);
        LENT.count.fetch_add(1, Ordering::Relaxed);
        LENT.owners.write().insert(chunk, self.clone());
        Some(())
    }

    /// Counts what it holds anew.
    fn count_held(&self, state: &State) {
        self.held.store(state.chunks.len() * CHUNK_BYTES - state.given_back, Ordering::Relaxed);
    }

    /// The piece at `offset` of a chunk comes back.
    fn give(&self, chunk: usize, offset: usize, bytes: usize) {
        let mut locked = self.state.lock();
        let state = &mut *locked;
        let allowed = self.allowed.load(Ordering::Relaxed);
        let entry = state.chunks.get_mut(&chunk).expect("a chunk stays until its pieces are back");
        assert!(entry.pieces > 0 && offset + bytes <= entry.carved, "the piece is out");
        entry.pieces -= 1;
        entry.pages.leave(offset, bytes);
        if entry.pieces > 0 {
            let turn = entry.turn;
            if allowed > 0 {
                state.free.entry(bytes).or_default().push(Free { chunk, offset, turn });
            }
            return;
        }
        state.turns += 1;
        (entry.carved, entry.turn) = (0, state.turns);
        if state.chunks.len() * CHUNK_BYTES <= allowed {
            if state.open != Some(chunk) {
                state.whole.push(chunk);
            }
            return;
        }
        if state.open == Some(chunk) {
            state.open = None;
        }
        let going = state.remove(chunk);
        self.count_held(state);
        drop(locked);
        going.into_iter().for_each(give_chunk);
    }
}

impl State {
    fn remove(&mut self, chunk: usize) -> Option<Chunk> {
        let removed = self.chunks.remove(&chunk)?;
        self.given_back -= removed.pages.given_back();
        Some(removed)
    }

    /// A piece of this size that came back.
    fn take_free(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let free = self.free.get_mut(&bytes)?;
        while let Some(Free { chunk, offset, turn }) = free.pop() {
            if let Some(chunk) = self.chunks.get_mut(&chunk).filter(|chunk| chunk.turn == turn) {
                chunk.pieces += 1;
                self.given_back -= chunk.pages.enter(offset, bytes);
                // SAFETY: the piece lies inside the chunk.
                return Some(unsafe { chunk.start.add(offset) });
            }
        }
        None
    }

    /// The next piece of a chunk that has room for it.
    fn carve(&mut self, chunk: usize, bytes: usize) -> NonNull<u8> {
        let chunk = self.chunks.get_mut(&chunk).expect("the open chunk is held");
        debug_assert!(chunk.carved + bytes <= CHUNK_BYTES && chunk.carved.is_multiple_of(ALIGN));
        // SAFETY: so many bytes of the chunk were carved, and it has room for more.
        let piece = unsafe { chunk.start.add(chunk.carved) };
        self.given_back -= chunk.pages.enter(chunk.carved, bytes);
        chunk.carved += bytes;
        chunk.pieces += 1;
        piece
    }
}

/// A chunk of which no piece is out goes back to `CHUNKS`.
fn give_chunk(chunk: Chunk) {
    debug_assert_eq!(chunk.pieces, 0);
    LENT.owners.write().remove(&chunk.start.addr().get());
    LENT.count.fetch_sub(1, Ordering::Relaxed);
    // SAFETY: `open_chunk` took it with this size. No piece of it is out, so it is used no more.
    unsafe { CHUNKS.give(chunk.start, CHUNK_BYTES) }
}

/// Takes back the piece of `rounded` bytes at `start` if it is lent. False: it is not.
///
/// # Safety
/// If it is lent, [`Loan::take`] gave it for bytes that `BLOCKS` rounds to so many, and it is used
/// no more.
#[inline]
pub(super) unsafe fn give(start: NonNull<u8>, rounded: usize) -> bool {
    // A thread that has a lent piece has seen the count that came before it.
    LENT.count.load(Ordering::Relaxed) > 0 && give_lent(start.addr().get(), rounded)
}

/// Whether the piece at this address is lent, which is out.
pub fn is_lent(address: usize) -> bool {
    LENT.count.load(Ordering::Relaxed) > 0 && with_owner(address, |_, _| ()).is_some()
}

/// Tells `what` of the lent chunk that the address lies in, and whose it is.
fn with_owner<T>(address: usize, what: impl FnOnce(usize, &Arc<Owner>) -> T) -> Option<T> {
    let owners = LENT.owners.read();
    let below = owners.range(..=address).next_back();
    below.filter(|(chunk, _)| address - **chunk < CHUNK_BYTES).map(|(chunk, owner)| what(*chunk, owner))
}

#[cold]
fn give_lent(address: usize, rounded: usize) -> bool {
    let found = with_owner(address, |chunk, owner| (chunk, owner.clone()));
    let Some((chunk, owner)) = found else { return false };
    owner.give(chunk, address - chunk, rounded);
    true
}

impl Default for Loan {
    fn default() -> Loan {
        Loan::new()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.allow(0);
    }
}

impl fmt::Debug for Loan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loan").field("allowed", &self.allowed()).field("held", &self.held()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = CHUNK_BYTES;

    /// All that a loan gives of pieces of `bytes`, filled with `content`.
    fn take_all(loan: &Loan, bytes: usize, again: bool, content: u8) -> Vec<NonNull<u8>> {
        let take = || {
            let piece = loan.take(bytes, again)?;
            assert!(piece.addr().get().is_multiple_of(ALIGN));
            // SAFETY: as many bytes were taken.
            unsafe { piece.write_bytes(content, bytes) };
            Some(piece)
        };
        std::iter::from_fn(take).collect()
    }

    fn give_back(pieces: impl IntoIterator<Item = NonNull<u8>>, bytes: usize, content: u8) {
        for piece in pieces {
            // SAFETY: as many bytes were taken and filled.
            let seen = unsafe { NonNull::slice_from_raw_parts(piece, bytes).as_ref() };
            assert!(seen.iter().all(|&byte| byte == content), "no other piece lies there");
            // SAFETY: `take_all` took it with this size.
            unsafe { BLOCKS.give(piece, bytes) };
        }
    }

    #[test]
    fn pieces_are_carved_side_by_side_and_no_more_than_is_allowed() {
        let loan = Loan::new();
        assert!(loan.take(4000, true).is_none());
        loan.allow(2 * MIB + MIB / 2);
        assert_eq!(loan.held(), 0, "chunks are taken when they are needed");
        let pieces = take_all(&loan, 60_000, false, 1);
        assert_eq!((pieces.len(), loan.held()), (2 * (MIB / 60_160), 2 * MIB));
        assert!(loan.take(COARSE_BYTES_MAX + 1, true).is_none(), "too large to be carved");
        give_back(pieces, 60_000, 1);
        drop(loan);
    }

    #[test]
    fn a_piece_that_came_back_serves_one_of_its_size_that_comes_again() {
        let loan = Loan::new();
        loan.allow(MIB);
        let mut pieces = take_all(&loan, 32 << 10, false, 1);
        assert_eq!(pieces.len(), 32);
        let back = pieces.remove(7);
        give_back([back], 32 << 10, 1);
        assert!(loan.take(32 << 10, false).is_none(), "only what was not carved");
        assert!(loan.take(16 << 10, true).is_none(), "of another size");
        assert_eq!(loan.take(32 << 10, true), Some(back));
        // SAFETY: as many bytes were taken.
        unsafe { back.write_bytes(1, 32 << 10) };
        give_back(pieces.into_iter().chain([back]), 32 << 10, 1);
    }

    #[test]
    fn a_whole_chunk_is_carved_anew_in_other_sizes() {
        let loan = Loan::new();
        loan.allow(2 * MIB);
        for (turn, bytes) in [64 << 10, 8 << 10, 40_960, 64 << 10].into_iter().enumerate() {
            let pieces = take_all(&loan, bytes, true, turn as u8);
            assert_eq!((pieces.len(), loan.held()), (2 * (MIB / bytes), 2 * MIB), "{bytes}");
            give_back(pieces, bytes, turn as u8);
        }
    }

    #[test]
    fn what_is_called_in_goes_back_chunk_by_chunk_and_a_piece_that_is_out_holds_one() {
        let loan = Loan::new();
        loan.allow(3 * MIB);
        let mut pieces = take_all(&loan, 64 << 10, true, 9);
        assert_eq!(loan.held(), 3 * MIB);
        loan.allow(0);
        assert_eq!((loan.held(), loan.take(64 << 10, true)), (3 * MIB, None));
        let held = pieces.remove(20);
        give_back(pieces, 64 << 10, 9);
        assert_eq!(loan.held(), MIB);
        // A new loan goes on beside what is still out of the old one.
        loan.allow(2 * MIB);
        let pieces = take_all(&loan, 64 << 10, true, 7);
        assert_eq!((pieces.len(), loan.held()), (MIB / (64 << 10), 2 * MIB));
        loan.allow(0);
        give_back(pieces, 64 << 10, 7);
        assert_eq!(loan.held(), MIB);
        give_back([held], 64 << 10, 9);
        assert_eq!(loan.held(), 0);
    }

    #[test]
    fn a_piece_that_stays_out_holds_its_pages_and_not_its_chunk() {
        let loan = Loan::new();
        loan.allow(2 * MIB);
        let mut pieces = take_all(&loan, 10_000, true, 9);
        let kept: Vec<_> = [3, 50, 51, 150].into_iter().rev().map(|at| pieces.remove(at)).collect();
        loan.give_back_pages();
        assert_eq!(loan.held(), 2 * MIB, "it was not called in");
        loan.allow(0);
        loan.give_back_pages();
        let held = loan.held();
        assert!(held > 2 * MIB - 2 * 16_384, "all pieces are out, and leave only the ends: {held}");
        give_back(pieces, 10_000, 9);
        assert_eq!(loan.held(), held);
        loan.give_back_pages();
        // A page for each end that a piece may stick out by, and the ends of both chunks.
        let most = if cfg!(all(target_os = "linux", not(miri))) { 8 * 16_384 + 4 * 4096 } else { 2 * MIB };
        assert!((40_000..=most).contains(&loan.held()), "{}", loan.held());
        // The chunks serve again when they are whole, and are as large as before.
        loan.allow(2 * MIB);
        give_back(kept, 10_000, 9);
        let pieces = take_all(&loan, 64 << 10, true, 8);
        assert_eq!((pieces.len(), loan.held()), (32, 2 * MIB));
        give_back(pieces, 64 << 10, 8);
    }

    #[test]
    fn a_piece_outlives_its_loan() {
        let loan = Loan::new();
        loan.allow(MIB);
        let pieces = take_all(&loan, 5000, false, 3);
        let owner = loan.0.clone();
        drop(loan);
        assert_eq!(owner.held.load(Ordering::Relaxed), MIB);
        give_back(pieces, 5000, 3);
        assert_eq!(owner.held.load(Ordering::Relaxed), 0);
        assert_eq!(Arc::strong_count(&owner), 1, "no chunk is its any more");
    }

    #[test]
    fn less_that_is_allowed_takes_whole_chunks_away() {
        let _share = CHUNKS.share(4 * MIB);
        let loan = Loan::new();
        loan.allow(4 * MIB);
        let mut pieces = take_all(&loan, 64 << 10, true, 5);
        // The chunks of the first and the last piece stay.
        let kept = [pieces.remove(0), pieces.pop().unwrap()];
        give_back(pieces, 64 << 10, 5);
        assert_eq!(loan.held(), 4 * MIB);
        loan.allow(3 * MIB);
        assert_eq!(loan.held(), 3 * MIB);
        loan.allow(MIB);
        assert_eq!(loan.held(), 2 * MIB);
        give_back(kept, 64 << 10, 5);
        assert_eq!(loan.held(), MIB);
        // What came back in a chunk that has gone is no piece of the one that comes to its place.
        loan.allow(4 * MIB);
        let pieces = take_all(&loan, 64 << 10, true, 6);
        assert_eq!(pieces.len(), 64);
        give_back(pieces, 64 << 10, 6);
    }

    #[test]
    fn two_owners_and_many_threads_do_not_mix_pieces_up() {
        let loans = [Loan::new(), Loan::new()];
        loans.iter().for_each(|loan| loan.allow(2 * MIB));
        let steps = if cfg!(miri) { 40 } else { 20_000 };
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let loan = &loans[usize::from(thread) % 2];
                scope.spawn(move || {
                    let mut out: Vec<(NonNull<u8>, usize)> = Vec::new();
                    for step in 0..steps {
                        let bytes = 1 + (step * 4099 + usize::from(thread)) % (40 << 10);
                        if let Some(piece) = loan.take(bytes, true) {
                            // SAFETY: as many bytes were taken.
                            unsafe { piece.write_bytes(thread, bytes) };
                            out.push((piece, bytes));
                        }
                        if step % 7 == 0 || out.len() > 12 {
                            for (piece, bytes) in out.drain(..out.len() / 2) {
                                give_back([piece], bytes, thread);
                            }
                        }
                        if thread == 0 && step % 1000 == 999 {
                            loan.allow(step % 3 * MIB);
                        }
                    }
                    out.into_iter().for_each(|(piece, bytes)| give_back([piece], bytes, thread));
                });
            }
        });
        for loan in loans {
            loan.allow(0);
            assert_eq!(loan.held(), 0);
        }
    }
}
