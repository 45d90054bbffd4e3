//! The sorted 8-byte chunks of a trie's nodes, packed under radix tables: `Chunks`, and `Column`,
//! one node's part.
//!
//! A chunk is kept as its distance to the column's first. The distance's leading bits pick a
//! bucket. The next bits are its code, of the width (2, 4 or 8 bytes) that makes the column
//! smallest. What remains is kept only where it is not zero. `push` adds a column; `locate` counts
//! the chunks that are not above a number, exactly; `encode` and `decode` are its bytes.
//!
//! What must hold: the starts of a column ascend from none to all of its chunks, whichever program
//! wrote them. So a search stays within the arrays and counts no more chunks than there are,
//! whatever else is wrong in a file.
//! Caller: `index::trie`.

use crate::codec::{DecodeError, Decoder, put_varint};
use solera_model::knots::radix_bits;
use std::{iter, ops::Range};

/// Buckets up to this many chunks are counted through; larger ones are halved first.
const COUNTED_MAX: usize = 16;
/// Bytes that a remainder takes.
const REMAINDER_BYTES: usize = size_of::<u32>() + size_of::<u64>();

/// The arrays of all columns.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunks {
    narrow: Vec<u16>,
    middle: Vec<u32>,
    wide: Vec<u64>,
    /// Numbers, within their columns, of the chunks that have remainders; and these.
    with_remainder: Vec<u32>,
    remainders: Vec<u64>,
}

/// Which of the arrays.
#[derive(Clone, Copy, Debug)]
enum Width {
    Narrow,
    Middle,
    Wide,
}

impl Width {
    const ALL: [Width; 3] = [Width::Narrow, Width::Middle, Width::Wide];

    fn bytes(self) -> usize {
        match self {
            Width::Narrow => size_of::<u16>(),
            Width::Middle => size_of::<u32>(),
            Width::Wide => size_of::<u64>(),
        }
    }

    /// Of the starts of a column of so many chunks.
    fn of_starts(chunks: usize) -> Width {
        if chunks <= usize::from(u16::MAX) { Width::Narrow } else { Width::Middle }
    }
}

/// Numbers somewhere in the arrays.
#[derive(Clone, Copy, Debug)]
struct Place {
    width: Width,
    start: u32,
}

/// Ascending, distinct chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    first: u64,
    len: u32,
    buckets: u32,
    /// Bits of a chunk's distance to the first that follow those of its bucket.
    shift: u8,
    /// Of these, how many the code leaves to the remainder.
    dropped: u8,
    /// For each bucket, how many chunks lie before it; one number more at the end.
    starts: Place,
    codes: Place,
    remainders: (u32, u32),
}

impl Chunks {
    /// Adds a column of these chunks, which ascend.
    pub(super) fn push(&mut self, chunks: &[u64]) -> Column {
        debug_assert!(chunks.is_sorted_by(|a, b| a < b));
        let first = chunks.first().copied().unwrap_or(0);
        let span = chunks.last().map_or(0, |last| last - first);
        let significant = u64::BITS - span.leading_zeros();
        let shift = significant.saturating_sub(radix_bits(chunks.len()));
        let buckets = shifted(span, shift) as usize + 1;
        let mut starts = vec![0u64; buckets + 1];
        for chunk in chunks {
            starts[shifted(chunk - first, shift) as usize + 1] += 1;
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }

        let below = || chunks.iter().map(|chunk| (chunk - first) & low_bits(shift));
        let zeros = below().fold(0, |all, below| all | below).trailing_zeros().min(shift);
        let dropped = |width: Width| shift.saturating_sub(8 * width.bytes() as u32).max(zeros);
        let bytes = |width: &Width| {
            let remainders = below().filter(|below| below & low_bits(dropped(*width)) != 0).count();
            chunks.len() * width.bytes() + remainders * REMAINDER_BYTES
        };
        let width = Width::ALL.into_iter().min_by_key(bytes).unwrap_or(Width::Wide);
        let dropped = dropped(width);
        let start = self.remainders.len() as u32;
        for (i, remainder) in below().map(|below| below & low_bits(dropped)).enumerate() {
            if remainder != 0 {
                self.with_remainder.push(i as u32);
                self.remainders.push(remainder);
            }
        }
        Column {
            first,
            len: chunks.len() as u32,
            buckets: buckets as u32,
            shift: shift as u8,
            dropped: dropped as u8,
            starts: self.store(Width::of_starts(chunks.len()), starts.into_iter()),
            codes: self.store(width, below().map(|below| shifted(below, dropped))),
            remainders: (start, self.remainders.len() as u32),
        }
    }

    /// Appends the first chunk (8 bytes), the shift, how many bits of it are dropped and the width
    /// of the codes: 0, 1, 2 for 2, 4 and 8 bytes (a byte each); how many buckets there are besides
    /// the first (varint) and how many chunks lie before each (2 bytes, or 4 in a column of more
    /// than 65535); the codes; how many chunks have remainders (varint), their numbers (4 bytes
    /// each), the remainders (8 bytes each). How many chunks there are is for the caller to tell.
    pub(super) fn encode(&self, column: &Column, out: &mut Vec<u8>) {
        out.extend_from_slice(&column.first.to_le_bytes());
        out.extend([column.shift, column.dropped, column.codes.width as u8]);
        put_varint(out, u64::from(column.buckets) - 1);
        self.put(column.starts, 1..column.buckets, out);
        self.put(column.codes, 0..column.len, out);
        let remainders = column.remainders.0 as usize..column.remainders.1 as usize;
        put_varint(out, remainders.len() as u64);
        out.extend(self.with_remainder[remainders.clone()].iter().flat_map(|number| number.to_le_bytes()));
        out.extend(self.remainders[remainders].iter().flat_map(|remainder| remainder.to_le_bytes()));
    }

    fn put(&self, place: Place, numbers: Range<u32>, out: &mut Vec<u8>) {
        for i in numbers {
            out.extend_from_slice(&self.number(place, i as usize).to_le_bytes()[..place.width.bytes()]);
        }
    }

    /// Adds a column of `len` chunks, which [`Chunks::encode`] wrote. The decoder holds less than 4
    /// GiB.
    pub(super) fn decode(&mut self, len: u32, decoder: &mut Decoder<'_>) -> Result<Column, DecodeError> {
        let first = decoder.u64("the first chunk of a node")?;
        let shift = decoder.u8("the bits below a bucket")?;
        let dropped = decoder.u8("the bits below a code")?;
        let width = usize::from(decoder.u8("a width of codes")?);
        let Some(&width) = Width::ALL.get(width) else { return decoder.fail("a width of codes") };
        let more = decoder.varint_up_to(decoder.remaining() as u64, "a count of buckets")?;
        let starts_width = Width::of_starts(len as usize);
        let starts = self.store(starts_width, iter::once(0));
        self.load(starts_width, more as usize, decoder)?;
        self.store(starts_width, iter::once(len.into()));
        if (0..=more as usize).any(|bucket| self.number(starts, bucket) > self.number(starts, bucket + 1)) {
            return decoder.fail("buckets that ascend");
        }
        let codes = self.load(width, len as usize, decoder)?;
        let remainders = self.remainders.len() as u32;
        let count = decoder.varint_up_to(len.into(), "a count of remainders")? as usize;
        read(&mut self.with_remainder, count, u32::from_le_bytes, decoder)?;
        read(&mut self.remainders, count, u64::from_le_bytes, decoder)?;
        Ok(Column {
            first,
            len,
            buckets: more as u32 + 1,
            shift,
            dropped,
            starts,
            codes,
            remainders: (remainders, self.remainders.len() as u32),
        })
    }

    fn load(&mut self, width: Width, count: usize, decoder: &mut Decoder<'_>) -> Result<Place, DecodeError> {
        let place = self.store(width, iter::empty());
        match width {
            Width::Narrow => read(&mut self.narrow, count, u16::from_le_bytes, decoder)?,
            Width::Middle => read(&mut self.middle, count, u32::from_le_bytes, decoder)?,
            Width::Wide => read(&mut self.wide, count, u64::from_le_bytes, decoder)?,
        }
        Ok(place)
    }

    fn store(&mut self, width: Width, numbers: impl Iterator<Item = u64>) -> Place {
        let start = match width {
            Width::Narrow => self.narrow.len(),
            Width::Middle => self.middle.len(),
            Width::Wide => self.wide.len(),
        };
        match width {
            Width::Narrow => self.narrow.extend(numbers.map(|number| number as u16)),
            Width::Middle => self.middle.extend(numbers.map(|number| number as u32)),
            Width::Wide => self.wide.extend(numbers),
        }
        Place { width, start: start as u32 }
    }

    #[inline]
    fn number(&self, place: Place, i: usize) -> u64 {
        let at = place.start as usize + i;
        match place.width {
            Width::Narrow => self.narrow[at].into(),
            Width::Middle => self.middle[at].into(),
            Width::Wide => self.wide[at],
        }
    }

    fn remainder(&self, column: &Column, i: usize) -> u64 {
        let places = column.remainders.0 as usize..column.remainders.1 as usize;
        match self.with_remainder[places.clone()].binary_search(&(i as u32)) {
            Ok(at) => self.remainders[places.start + at],
            Err(_) => 0,
        }
    }

    /// How many chunks of `column` are not above `x`, and whether the last of them is `x`.
    #[inline]
    pub(super) fn locate(&self, column: &Column, x: u64) -> (usize, bool) {
        if x < column.first || column.len == 0 {
            return (0, false);
        }
        let distance = x - column.first;
        let bucket = shifted(distance, column.shift.into());
        if bucket >= column.buckets.into() {
            return (column.len as usize, false);
        }
        let low = self.number(column.starts, bucket as usize) as usize;
        let high = self.number(column.starts, bucket as usize + 1) as usize;
        let below = distance & low_bits(column.shift.into());
        let code = shifted(below, column.dropped.into());
        let start = column.codes.start as usize;
        let codes = start + low..start + high;
        let (count, tie) = match column.codes.width {
            Width::Narrow => count_up_to(&self.narrow[codes], code as u16),
            Width::Middle => count_up_to(&self.middle[codes], code as u32),
            Width::Wide => count_up_to(&self.wide[codes], code),
        };
        if !tie {
            return (low + count, false);
        }
        self.among_equal_codes(column, low..low + count, code, below & low_bits(column.dropped.into()))
    }

    /// Goes on where codes do not decide: the last chunk of `range` has the code of `x`, others of
    /// the range may have it.
    fn among_equal_codes(
        &self,
        column: &Column,
        mut range: Range<usize>,
        code: u64,
        remainder: u64,
    ) -> (usize, bool) {
        let low = range.start;
        while !range.is_empty() {
            let middle = range.start.midpoint(range.end);
            let below = self.number(column.codes, middle) < code;
            if below || self.remainder(column, middle) <= remainder {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        let count = range.start;
        // The chunk before the range is of another bucket, and may be alike in all the bits below.
        let exact = count > low
            && self.number(column.codes, count - 1) == code
            && self.remainder(column, count - 1) == remainder;
        (count, exact)
    }

    /// Gives back memory that will not be needed.
    pub(super) fn shrink(&mut self) {
        self.narrow.shrink_to_fit();
        self.middle.shrink_to_fit();
        self.wide.shrink_to_fit();
        self.with_remainder.shrink_to_fit();
        self.remainders.shrink_to_fit();
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        2 * self.narrow.capacity()
            + 4 * (self.middle.capacity() + self.with_remainder.capacity())
            + 8 * (self.wide.capacity() + self.remainders.capacity())
    }
}

/// Appends so many numbers, of which the decoder holds the bytes.
fn read<const N: usize, T>(
    array: &mut Vec<T>,
    count: usize,
    number: impl Fn([u8; N]) -> T,
    decoder: &mut Decoder<'_>,
) -> Result<(), DecodeError> {
    let bytes = decoder.take(count.saturating_mul(N), "the numbers of a node")?;
    array.extend(bytes.as_chunks().0.iter().map(|bytes| number(*bytes)));
    Ok(())
}

/// How many of the ascending codes are not above `code`, and whether the last of them is it.
#[inline]
fn count_up_to<T: Copy + Ord>(codes: &[T], code: T) -> (usize, bool) {
    let mut window: Range<usize> = 0..codes.len();
    while window.len() > COUNTED_MAX {
        let middle = window.start + window.len() / 2;
        if codes[middle] <= code { window.start = middle + 1 } else { window.end = middle }
    }
    let count = window.start + codes[window].iter().filter(|&&other| other <= code).count();
    (count, count > 0 && codes[count - 1] == code)
}

/// The lowest `bits` bits.
#[inline]
fn low_bits(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[inline]
fn shifted(number: u64, bits: u32) -> u64 {
    number.checked_shr(bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The columns as they are when they come back from bytes.
    fn stored(mut chunks: Chunks, columns: &[Column]) -> (Chunks, Vec<Column>) {
        let mut bytes = Vec::new();
        columns.iter().for_each(|column| chunks.encode(column, &mut bytes));
        let mut decoder = Decoder::new(&bytes);
        let mut read = Chunks::default();
        let columns: Vec<Column> =
            columns.iter().map(|column| read.decode(column.len, &mut decoder).unwrap()).collect();
        decoder.finish("the end").unwrap();
        let mut again = Vec::new();
        columns.iter().for_each(|column| read.encode(column, &mut again));
        assert_eq!(again, bytes);
        chunks.shrink();
        read.shrink();
        assert_eq!(read.bytes(), chunks.bytes());
        (read, columns)
    }

    fn check(families: &[Vec<u64>], probes: &[u64]) {
        let mut chunks = Chunks::default();
        let columns: Vec<Column> = families.iter().map(|family| chunks.push(family)).collect();
        let (chunks, columns) = stored(chunks, &columns);
        for (family, column) in families.iter().zip(&columns) {
            let near = family.iter().flat_map(|&chunk| [chunk.wrapping_sub(1), chunk, chunk.wrapping_add(1)]);
            for x in near.chain(probes.iter().copied()).chain([0, u64::MAX]) {
                let count = family.partition_point(|&chunk| chunk <= x);
                let exact = count > 0 && family[count - 1] == x;
                assert_eq!(chunks.locate(column, x), (count, exact), "{x:#x} in {family:x?}");
            }
        }
    }

    proptest! {
        #[test]
        fn columns_of_any_shape_locate_where_counting_does(
            families in prop::collection::vec((prop::collection::btree_set(any::<u64>(), 0..200), 0u32..64, 0u32..64), 1..5),
            probes: Vec<u64>,
        ) {
            let families: Vec<Vec<u64>> = families
                .into_iter()
                .map(|(family, right, left)| {
                    let mut family: Vec<u64> = family.into_iter().map(|chunk| chunk >> right << left).collect();
                    family.sort_unstable();
                    family.dedup();
                    family
                })
                .collect();
            check(&families, &probes);
        }

        #[test]
        fn a_column_whose_bytes_were_changed_is_refused_or_counts_no_more_chunks_than_it_has(
            family in prop::collection::btree_set(any::<u64>(), 0..60),
            right in 0u32..64,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            len_change in prop_oneof![4 => Just(0), 1 => -3i32..4],
            probes: Vec<u64>,
        ) {
            let mut family: Vec<u64> = family.into_iter().map(|chunk| chunk >> right).collect();
            family.dedup();
            let mut chunks = Chunks::default();
            let column = chunks.push(&family);
            let mut bytes = Vec::new();
            chunks.encode(&column, &mut bytes);
            for (at, byte) in changes {
                *at.get_mut(&mut bytes) = byte;
            }
            let len = column.len.saturating_add_signed(len_change);
            let mut chunks = Chunks::default();
            if let Ok(column) = chunks.decode(len, &mut Decoder::new(&bytes)) {
                let edges = (0..=column.buckets).map(|bucket| {
                    column.first.wrapping_add(u64::from(bucket).checked_shl(column.shift.into()).unwrap_or(0))
                });
                let near = edges.flat_map(|x| [x.wrapping_sub(1), x, x.wrapping_add(1)]);
                for x in near.chain(family).chain(probes).chain([0, u64::MAX]) {
                    let (count, exact) = chunks.locate(&column, x);
                    prop_assert!(count <= len as usize && (count > 0 || !exact));
                }
            }
        }
    }

    #[test]
    fn extremes_are_chunks_like_others() {
        check(&[vec![], vec![0], vec![u64::MAX], vec![0, u64::MAX], (0..100_000).collect()], &[1, 1 << 63]);
    }

    #[test]
    fn chunks_that_differ_in_their_last_bits_only_are_told_apart_by_remainders() {
        let few = (0..3000u64).map(|i| (i << 48) + if i % 100 < 3 { i % 100 } else { 0 });
        let runs = (0..3000u64).map(|i| ((i / 20) << 48) + i % 20);
        check(&[few.collect(), runs.collect()], &[]);
    }

    #[test]
    fn a_chunk_of_another_bucket_is_not_taken_for_one_that_is_alike_below() {
        let last_of_one = (7 << 50) + 5;
        let first_of_next = (1 << 63) + (7 << 50) + 9;
        check(
            &[vec![0, 1 << 50, 2 << 50, 3 << 50, last_of_one, first_of_next, 9 << 60, 10 << 60]],
            &[first_of_next - 4],
        );
    }

    #[test]
    fn short_separators_take_two_bytes_and_a_share_of_the_radix_table() {
        let mut chunks = Chunks::default();
        let three_bytes: Vec<u64> = (0..16_000u64).map(|i| (i * 1048 + i % 7) << 40).collect();
        chunks.push(&three_bytes);
        chunks.shrink();
        assert!(chunks.bytes() < 3 * three_bytes.len(), "{}", chunks.bytes());
    }
}
