//! Bringing the blocks of a table into the block cache, many by one call: `Table::warm`, all of
//! them, and `Table::warm_next`, the next piece. And how many bytes of them are there:
//! `Table::cached_bytes`.
//!
//! For `warm` others give way. At the first piece that cannot be read it stops and returns the
//! error. What came before is cached, the rest is not. `engine::warming` drops that error: a reader
//! that comes to such a block is told. For `warm_next` nothing gives way: it ends where there is no
//! room.
//!
//! `cached_bytes` is asked of the tables that a merge will read. What it writes stays in memory, or
//! is warmed, only if half of those bytes are cached.
//!
//! What must hold: the bytes count as read from the file. No block counts as one that a reader
//! asked for.
//!
//! Callers: `engine::warming`; `table::file`.

use super::reader::Table;
use crate::{block::Block, error::Result, vfs::read_exact_at};
use std::ops::Range;

/// Read by one call at most, but for a block that has more.
const PIECE_BYTES: u64 = 256 << 10;

impl Table {
    /// Weight of its blocks in the cache.
    pub fn cached_bytes(&self) -> u64 {
        self.slots.weight() as u64
    }

    /// Reads all data blocks that are not cached, many by one call, and puts them into the cache.
    /// Others give way to them there.
    ///
    /// # Errors
    /// What the first piece says that cannot be read; those before it are cached.
    pub fn warm(&self) -> Result<()> {
        let (mut bytes, mut next) = (Vec::new(), 0);
        while let Some(piece) = self.missing(next) {
            self.read_piece(&piece, &mut bytes, |_| true)?;
            next = piece.last;
        }
        Ok(())
    }

    /// One step of [`Table::warm`], from block `next` on, while nothing has to give way: the number
    /// of the block to go on with. `None`: all are cached, or there is no room. `bytes` is used
    /// again.
    ///
    /// # Errors
    /// What is wrong with the piece.
    pub(super) fn warm_next(&self, next: usize, bytes: &mut Vec<u8>) -> Result<Option<usize>> {
        let is_room = |bytes| self.slots.is_room(bytes);
        let Some(piece) = self.missing(next) else { return Ok(None) };
        if !is_room((piece.place.end - piece.place.start) as usize) {
            return Ok(None);
        }
        let is_whole = self.read_piece(&piece, bytes, |block| is_room(block.memory_bytes()))?;
        Ok(is_whole.then_some(piece.last))
    }

    /// The piece that begins with the first block from `next` on that is not cached.
    fn missing(&self, next: usize) -> Option<Piece> {
        let first = (next..self.blocks()).find(|number| !self.is_cached(*number))?;
        let (last, place) = self.handles.stretch(first, PIECE_BYTES.min(self.slots.ahead_bytes_max()));
        Some(Piece { first, last, place })
    }

    fn is_cached(&self, number: usize) -> bool {
        self.slots.peek(number, &crossbeam_epoch::pin()).is_some()
    }

    /// Reads a piece, and caches those of its blocks that are not, up to the first that is not to
    /// come in. Whether it came to the end.
    fn read_piece(
        &self,
        piece: &Piece,
        bytes: &mut Vec<u8>,
        comes_in: impl Fn(&Block) -> bool,
    ) -> Result<bool> {
        if piece.last == piece.first + 1 {
            // It may be large: it is read into its own memory, and no other.
            let block = self.read(piece.first)?;
            return Ok(self.take_in(piece.first, &block, &comes_in));
        }
        let start = piece.place.start;
        bytes.resize((piece.place.end - start) as usize, 0);
        read_exact_at(&*self.file, bytes, start)?;
        self.count_bytes(bytes.len());
        for number in (piece.first..piece.last).filter(|number| !self.is_cached(*number)) {
            let at = self.handles.range(number);
            let stored = &bytes[(at.start - start) as usize..(at.end - start) as usize];
            let block = Block::copy_from_stored(stored, self.binding, at.start, self.file.path())?;
            if !self.take_in(number, &block, &comes_in) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Caches a block if it is to come in: whether it is.
    fn take_in(&self, number: usize, block: &Block, comes_in: impl Fn(&Block) -> bool) -> bool {
        let comes = comes_in(block);
        if comes {
            self.slots.insert(number, block);
        }
        comes
    }
}

/// Blocks that are read by one call.
struct Piece {
    first: usize,
    /// The number behind the last.
    last: usize,
    /// Where they lie.
    place: Range<u64>,
}
