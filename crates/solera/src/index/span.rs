//! What an index says of a key: `Span`, consecutive blocks, and the one to begin with.
//!
//! It has the block to begin with, and how many blocks lie before and behind it. It may say how far
//! into that block the key is, in 256ths (`within`).
//!
//! What must hold: first ≤ begin ≤ last. An exact kind gives one block (`only`); a model gives
//! those within its error (`new`). The key's block may also lie right before the span, by
//! `Index::reach`.
//!
//! Callers: `index` makes spans; `table` looks into their blocks; `tree::read` carries them between
//! steps.

/// Consecutive blocks: where to look for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of the block to begin with.
    pub begin: usize,
    /// How many blocks before it.
    before: u32,
    /// How many behind it.
    after: u32,
    /// How far into the block the key is, in 256ths, where the index knows: what may be asked for
    /// early.
    within: Option<u8>,
}

impl Span {
    /// One block.
    #[inline]
    pub(crate) const fn only(block: usize) -> Span {
        Span { begin: block, before: 0, after: 0, within: None }
    }

    /// The blocks from `first` up to `last`, of which there are less than 2^32, to begin with
    /// `begin` among them.
    #[inline]
    pub(super) const fn new(first: usize, begin: usize, last: usize) -> Span {
        Span { begin, before: (begin - first) as u32, after: (last - begin) as u32, within: None }
    }

    /// The same blocks, and how far into the one that it begins with the key is.
    #[inline]
    pub(super) const fn with_within(self, within: Option<u8>) -> Span {
        Span { within, ..self }
    }

    /// How far into the block that it begins with the key is, in 256ths, about; `None` where the
    /// index does not know.
    #[inline]
    pub const fn within(self) -> Option<u8> {
        self.within
    }

    /// The number of the first block.
    #[inline]
    pub const fn first(self) -> usize {
        self.begin - self.before as usize
    }

    /// The number of the last block.
    #[inline]
    pub const fn last(self) -> usize {
        self.begin + self.after as usize
    }
}
