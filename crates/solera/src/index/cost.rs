//! What an index costs, in cache lines of a lookup: `Cost`, and `total`, one number of it.
//!
//! It adds the cache lines of the index that a lookup touches. A block that it looks into in vain
//! counts 20 lines, and a byte of index for each block half a line. Costs are counted when an index
//! is built; `Display` prints them.
//!
//! What must hold: the smallest total wins, so the weights are the only exchange rate between time
//! and memory.
//!
//! Callers: `index::mod` chooses among kinds by it (`auto`), `index::learned` among forms.

use std::fmt;

/// What one block too many costs a lookup, in cache lines: its control, heads and fences, and a
/// detour on a path that is not the usual one.
const BLOCK_LINES: f64 = 20.0;
/// What a byte of index per block is worth, in cache lines of a lookup: what the S-tree's 7 bytes
/// more than the least may buy is about the three lines that they can save.
const BYTE_LINES: f64 = 0.5;

/// What an index costs, counted when it is built.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Bytes in memory per block.
    pub(super) bytes: f64,
    /// Cache lines of the index that a lookup touches.
    pub(super) lines: f64,
    /// Blocks that a lookup of a present key looks into.
    pub(super) blocks: f64,
}

impl Cost {
    pub(super) fn total(&self) -> f64 {
        self.lines + BLOCK_LINES * (self.blocks - 1.0) + BYTE_LINES * self.bytes
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { bytes, lines, blocks } = self;
        write!(f, "{bytes:.2} bytes per block, {lines:.1} lines and {blocks:.4} blocks per lookup")
    }
}
