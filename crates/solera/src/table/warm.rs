//! Bringing a table that was just written into the block cache: `Table::warm`. And how many bytes
//! of a table's blocks are in the cache: `Table::cached_bytes`.
//!
//! `warm` reads all data blocks, many by one call; other blocks give way to them. At the first that
//! cannot be read it stops and returns the error. What came before is cached, the rest is not.
//! `engine::warming` drops that error: a reader that comes to such a block is told.
//!
//! `cached_bytes` is asked of the tables that a merge has read. What it wrote is warmed only if
//! half of those bytes were cached.
//!
//! What must hold: the bytes count as read from the file. No block counts as one that a reader
//! asked for.
//!
//! Caller: `engine::warming`.

use super::reader::Table;
use crate::{block::Block, error::Result, vfs::read_exact_at};

/// Read by one call.
const PIECE_BYTES: u64 = 256 << 10;

impl Table {
    /// Weight of its blocks in the cache.
    pub fn cached_bytes(&self) -> u64 {
        self.slots.weight() as u64
    }

    /// Reads all data blocks, many by one call, and puts them into the cache, in which others give
    /// way to them.
    ///
    /// # Errors
    /// What the first piece says that cannot be read; those before it are cached.
    pub fn warm(&self) -> Result<()> {
        let (mut piece, mut number) = (Vec::new(), 0);
        while number < self.blocks() {
            let (last, place) = self.handles.stretch(number, PIECE_BYTES);
            piece.resize((place.end - place.start) as usize, 0);
            read_exact_at(&*self.file, &mut piece, place.start)?;
            self.count_bytes(piece.len());
            for number in number..last {
                let at = self.handles.range(number);
                let stored = &piece[(at.start - place.start) as usize..(at.end - place.start) as usize];
                let block = Block::copy_from_stored(stored, self.binding, at.start, self.file.path())?;
                self.slots.insert(number, &block);
            }
            number = last;
        }
        Ok(())
    }
}
