//! Models as bytes: `Malformed`, why bytes are no model, and `Fields`, a reader of fields that may
//! say anything.
//!
//! `rows` takes so many rows of fixed width, `mean` a finite number that is not negative. `descent`
//! finds where starts do not ascend.
//!
//! What must hold:
//! - Nothing is allocated for a count before as many bytes are known to be there.
//! - Whatever decodes is safe to ask. It may be the model of other keys, but no query panics, reads
//!   beside the model, or answers more than its length.
//!
//! Callers: `boundaries::stored` and `plr`, whose `decode`s check what their queries rely on;
//! `index::stored` in `solera` passes `Malformed` on.

use std::{error, fmt};

/// Why bytes are no model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset in the bytes.
    pub at: usize,
    /// What was expected there.
    pub what: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at byte {}", self.what, self.at)
    }
}

impl error::Error for Malformed {}

/// Fields of fixed width, one after the other, from untrusted bytes.
pub(crate) struct Fields<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Fields<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Fields<'b> {
        Fields { bytes, at: 0 }
    }

    /// Offset of the next field.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// So many rows of `N` bytes.
    pub(crate) fn rows<const N: usize>(
        &mut self,
        count: u32,
        what: &'static str,
    ) -> Result<&'b [[u8; N]], Malformed> {
        let rest = &self.bytes[self.at..];
        let rows = (count as usize).checked_mul(N).and_then(|bytes| rest.get(..bytes));
        let rows = rows.ok_or(Malformed { at: self.at, what })?;
        self.at += rows.len();
        Ok(rows.as_chunks().0)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.rows(1, what)?[0]))
    }

    /// A mean: finite, not negative.
    pub(crate) fn mean(&mut self, what: &'static str) -> Result<f32, Malformed> {
        let at = self.at;
        let mean = f32::from_bits(self.u32(what)?);
        if mean.is_finite() && mean >= 0.0 { Ok(mean) } else { Err(Malformed { at, what }) }
    }
}

/// The `N` bytes of a row from `at` on, which must be there.
#[inline]
pub(crate) fn part<const N: usize>(row: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| row[at + i])
}

/// The first of `starts` that is not above the one before it; `None` if they ascend strictly.
pub(crate) fn descent(starts: impl Iterator<Item = u64>) -> Option<usize> {
    let mut before = None;
    starts.enumerate().find_map(|(i, start)| (before.replace(start) >= Some(start)).then_some(i))
}
