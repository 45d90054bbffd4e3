//! Entries that need no merge.
//!
//! Owns [`Lending`]: between two keys of the other sources, a walk may take the entries of one block as they lie.

use crate::{block::Stretch, cursor::Cursor, ids::Seqno, memtable::MemtableCursor, version::RunCursor};

/// A source of a walk, which may lend it entries of one block.
pub trait Lending: Cursor {
    /// The entries from the present one on, all of one block, that are puts which `snapshot` sees and whose keys are
    /// below `before` and below `end`; `None` where there are none or few. Until they are taken back, or the
    /// cursor is positioned, it may not be used. Must be valid. A source that has no blocks lends nothing.
    fn lend(&mut self, _snapshot: Seqno, _before: Option<&[u8]>, _end: Option<&[u8]>) -> Option<Stretch> {
        None
    }

    /// The same of a walk downward: the entries from the present one down whose keys are above `after` and not below
    /// `start`. The present one is the oldest of its key.
    fn lend_back(&mut self, _snapshot: Seqno, _after: Option<&[u8]>, _start: &[u8]) -> Option<Stretch> {
        None
    }

    /// Takes back what was lent: the cursor stands where the stretch came to.
    fn take_back(&mut self, _stretch: Stretch) {
        unreachable!("this source lends nothing")
    }
}

impl Lending for MemtableCursor {}

impl Lending for RunCursor {
    fn lend(&mut self, snapshot: Seqno, before: Option<&[u8]>, end: Option<&[u8]>) -> Option<Stretch> {
        RunCursor::lend(self, snapshot, before, end)
    }

    fn lend_back(&mut self, snapshot: Seqno, after: Option<&[u8]>, start: &[u8]) -> Option<Stretch> {
        RunCursor::lend_back(self, snapshot, after, start)
    }

    fn take_back(&mut self, stretch: Stretch) {
        RunCursor::take_back(self, stretch);
    }
}
