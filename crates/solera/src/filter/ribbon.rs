//! A Ribbon filter: `build` solves a random band matrix, `Ribbon` asks its solution.
//!
//! It is the homogeneous form with bands of 64 bits, which cannot fail, stored by columns
//! (Dillinger, Hübschle-Schneider, Sanders and Walzer, SEA 2022). A hash names a first slot and 64
//! coefficients, the first of them 1. Columns are chosen so that each key's coefficients select an
//! even number of set bits.
//!
//! What must hold: an added key is even in all r columns. An absent key passes with 2^-r, unless
//! its row depends on those of keys around it; the slots of `overhead` make that rare.
//!
//! Callers: `filter::mod` builds and asks; `filter::curve` takes the expected false positives.

use crate::{codec::DecodeError, pool::Settled, prefetch::prefetch};
use solera_model::elementary::exp2;

/// Slots that a key's coefficients span, and slots of a segment.
const WIDTH: usize = u64::BITS as usize;
/// More columns let less than one absent key in 10^9 pass.
const COLUMNS_MAX: usize = 32;
/// A slot is chosen by a 32-bit multiplication, which reaches no further.
const SEGMENTS_MAX: usize = u32::MAX as usize / WIDTH;
/// Odd and irregular: the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Slots beyond the keys, as a share of the keys, that *r* columns need: (4 + r/4)/64. Fewer, and
/// rows of absent keys depend on those of present ones too often. Measured with a million keys: at
/// 7, 13 and 20 columns as many absent keys pass as 2^-r says, within 5 %; at (2 + r/4)/64 it was
/// 1.6 to 2.3 times as many.
fn overhead(columns: f64) -> f64 {
    (4.0 + columns / 4.0) / WIDTH as f64
}

/// Columns that `bits_per_key` pay for: c of c (1 + overhead(c)) = bits.
fn columns_for(bits_per_key: f64) -> f64 {
    let linear = 1.0 + overhead(0.0);
    let square = overhead(1.0) - overhead(0.0);
    let columns = ((linear * linear + 4.0 * square * bits_per_key).sqrt() - linear) / (2.0 * square);
    columns.clamp(1.0, COLUMNS_MAX as f64)
}

/// The share of absent keys that pass at `bits_per_key`, of many keys.
pub(super) fn false_positives_expected(bits_per_key: f64) -> f64 {
    let columns = columns_for(bits_per_key);
    let fewer = columns.floor();
    (1.0 - (columns - fewer) / 2.0) * exp2(-fewer)
}

/// The first slot of a hash, of `starts`: its upper half, scaled.
#[inline]
fn start(hash: u64, starts: usize) -> usize {
    (((hash >> 32) * starts as u64) >> 32) as usize
}

/// The coefficients of a hash: all of its bits in each half.
#[inline]
fn coefficients(hash: u64) -> u64 {
    let spread = hash.wrapping_mul(SPREAD);
    (spread ^ (spread >> 32)) | 1
}

/// Where the words of segments lie.
#[derive(Clone, Copy, Debug)]
struct Columns {
    /// Columns of the first segments.
    fewer: usize,
    /// From this segment on there is one more.
    more_from: usize,
}

impl Columns {
    fn new(words: usize, segments: usize) -> Self {
        Columns { fewer: words / segments, more_from: segments - words % segments }
    }

    /// The first word of a segment, and how many there are.
    #[inline]
    fn of(&self, segment: usize) -> (usize, usize) {
        let more = segment.saturating_sub(self.more_from);
        (segment * self.fewer + more, self.fewer + usize::from(segment >= self.more_from))
    }
}

/// Appends a filter over `hashes`, of which there is one at least: the words, segment by segment
/// and in it column by column (little-endian `u64`), then the number of segments (`u32`, at least
/// 2). Slots are grouped into segments of 64, so a column of a segment is one word. There are words
/// for 1 to [`COLUMNS_MAX`] columns: ⌊words / segments⌋, and one more in the last (words mod
/// segments) segments. So bits per key lie between two numbers of columns.
pub(super) fn build(hashes: &mut Vec<u64>, bits_per_key: f32, out: &mut Vec<u8>) {
    // In the order of their slots, so that elimination walks through memory.
    hashes.sort_unstable();
    hashes.dedup();
    let columns = columns_for(bits_per_key.into());
    let slots = hashes.len() as f64 * (1.0 + overhead(columns));
    // No row starts in the last segment: the rows of the one before reach into it.
    let segments = ((slots / WIDTH as f64).ceil() as usize).clamp(1, SEGMENTS_MAX - 1) + 1;
    let words = (segments as f64 * columns).round() as usize;
    let bands = eliminate(hashes, segments);
    let words = substitute(&bands, Columns::new(words, segments), words);
    out.reserve(words.len() * 8 + 5);
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.extend_from_slice(&(segments as u32).to_le_bytes());
}

/// Gaussian elimination: for each slot the row that begins there, 0 for none.
fn eliminate(hashes: &[u64], segments: usize) -> Vec<u64> {
    let mut rows = vec![0u64; segments * WIDTH];
    for &hash in hashes {
        let mut slot = start(hash, (segments - 1) * WIDTH);
        let mut row = coefficients(hash);
        // Both begin with a 1, so each step moves the row on; what becomes 0 follows from the
        // others.
        while row != 0 && rows[slot] != 0 {
            row ^= rows[slot];
            let zeros = row.trailing_zeros().min(WIDTH as u32 - 1);
            row >>= zeros;
            slot += zeros as usize;
        }
        if row != 0 {
            rows[slot] = row;
        }
    }
    rows
}

/// The solution of the rows, from the last slot to the first. Slots without a row take any bits.
fn substitute(rows: &[u64], columns: Columns, words: usize) -> Vec<u64> {
    let mut solution = vec![0; words];
    // Of each column, the 64 bits from the slot at hand on.
    let mut ahead = [0u64; COLUMNS_MAX + 1];
    for (segment, rows) in rows.chunks_exact(WIDTH).enumerate().rev() {
        let (at, count) = columns.of(segment);
        for (i, &row) in rows.iter().enumerate().rev() {
            let any = coefficients((segment * WIDTH + i) as u64).wrapping_mul(SPREAD) >> 16;
            for (column, ahead) in ahead[..count].iter_mut().enumerate() {
                let shifted = *ahead << 1;
                let bit = if row == 0 { any >> column } else { (shifted & row).count_ones().into() };
                *ahead = shifted | (bit & 1);
            }
        }
        solution[at..at + count].copy_from_slice(&ahead[..count]);
    }
    solution
}

/// A Ribbon filter in memory.
#[derive(Clone, Debug)]
pub struct Ribbon {
    words: Box<[u64]>,
    columns: Columns,
    /// Slots at which keys may begin.
    starts: usize,
}

impl Ribbon {
    /// Reads what [`build`] made.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((words, segments)) = bytes.split_last_chunk() else {
            return Err(DecodeError { at: 0, what: "a number of ribbon segments" });
        };
        let segments = u32::from_le_bytes(*segments) as usize;
        if !(2..=SEGMENTS_MAX).contains(&segments) {
            return Err(DecodeError { at: words.len(), what: "a number of ribbon segments" });
        }
        let (chunks, rest) = words.as_chunks::<8>();
        if !rest.is_empty() || chunks.len() < segments || chunks.len().div_ceil(segments) > COLUMNS_MAX {
            return Err(DecodeError { at: 0, what: "ribbon columns of 1 to 32 words" });
        }
        Ok(Ribbon {
            words: chunks.iter().map(|word| u64::from_le_bytes(*word)).collect(),
            columns: Columns::new(chunks.len(), segments),
            starts: (segments - 1) * WIDTH,
        })
    }

    /// See [`super::Filter::may_contain`].
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let start = start(hash, self.starts);
        let (segment, slot) = (start / WIDTH, start % WIDTH);
        let (at, count) = self.columns.of(segment);
        let row = coefficients(hash);
        // The part of the row in this segment, and the part in the next, which has as many columns
        // or more.
        let (here, next) = (row << slot, (row >> 1) >> (WIDTH - 1 - slot));
        let words = &self.words[at..at + 2 * count];
        let (of_here, of_next) = words.split_at(count);
        let odd = of_here
            .iter()
            .zip(of_next)
            .fold(0, |odd, (of_here, of_next)| odd | ((of_here & here) ^ (of_next & next)).count_ones());
        odd & 1 == 0
    }

    /// Asks for the first two lines that [`Ribbon::may_contain`] reads; the processor sees that it
    /// goes on.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let (at, _) = self.columns.of(start(hash, self.starts) / WIDTH);
        let first = self.words.as_ptr().wrapping_add(at);
        prefetch(first.cast());
        prefetch(first.wrapping_add(8).cast());
    }

    /// Has its words on huge pages for as long as the result lives.
    pub(super) fn settle(&self) -> Settled {
        Settled::of(&self.words)
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn columns_cost_what_they_are_said_to() {
        for columns in [1.0, 6.0, 7.5, 20.0, 32.0] {
            let bits = columns * (1.0 + overhead(columns));
            assert!((columns_for(bits) - columns).abs() < 1e-9, "{columns} columns, {bits} bits");
        }
        assert_eq!((columns_for(0.1), columns_for(64.0)), (1.0, 32.0));
    }

    #[test]
    fn segments_lie_side_by_side_without_a_gap() {
        for (words, segments) in [(2, 2), (7, 2), (100, 33), (99, 33), (64, 2)] {
            let columns = Columns::new(words, segments);
            let mut end = 0;
            for segment in 0..segments {
                let (at, count) = columns.of(segment);
                assert_eq!(at, end, "segment {segment} of {segments}, {words} words");
                end = at + count;
            }
            assert_eq!(end, words);
        }
    }

    proptest! {
        #[test]
        fn bytes_of_any_number_are_refused_or_answer(words in 0usize..200, segments in 0u32..70, cut in 0usize..8, hash: u64) {
            let mut bytes = vec![0xa5; (words * 8).saturating_sub(cut)];
            bytes.extend(segments.to_le_bytes());
            let whole = cut == 0 || words == 0;
            let legal = whole && segments >= 2 && (segments as usize..=segments as usize * COLUMNS_MAX).contains(&words);
            let decoded = Ribbon::decode(&bytes);
            prop_assert_eq!(decoded.is_ok(), legal);
            if let Ok(ribbon) = decoded {
                for hash in [hash, 0, u64::MAX] {
                    let _ = ribbon.may_contain(hash);
                }
            }
        }
    }
}
