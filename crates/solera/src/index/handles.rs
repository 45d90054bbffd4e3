//! Where each block lies in the file.
//!
//! Owns [`Handles`]. Blocks lie one after another, so a handle is an offset, and an offset is close to
//! the line through its neighbours: 128 offsets share a base and a slope, and each keeps only its residual, in as
//! many bits as the largest of them needs. Blocks of one size need none.
//! Nothing here is touched by a read that the cache serves.

use crate::codec::{DecodeError, Decoder, put_varint};
use std::ops::Range;

/// Offsets that share a base and a slope.
const GROUP: usize = 128;

/// The places of consecutive blocks.
#[derive(Clone, Debug)]
pub struct Handles {
    groups: Box<[Group]>,
    /// The residuals' bits, one after the other, low bits first; and a word more, so that two can always be read.
    residuals: Box<[u64]>,
    blocks: usize,
    /// Where the last block ends. It is mostly shorter than the others, and would widen all residuals.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// What the line and the residuals are added to; may wrap below zero.
    base: u64,
    /// In bytes per [`SLOPE_ONE`] blocks.
    slope: u64,
    /// Where the group's residuals begin, in bits.
    bit: u64,
    /// Bits of each residual, 0 to 64.
    width: u32,
}

/// The fixed point of slopes.
const SLOPE_ONE: u64 = 256;

impl Handles {
    /// Blocks of these sizes, the first at `start`.
    ///
    /// # Panics
    /// If they end beyond 2^63.
    pub fn new(start: u64, sizes: &[u64]) -> Handles {
        let mut end = start;
        let offsets: Vec<u64> = sizes
            .iter()
            .map(|size| {
                let offset = end;
                end = end.checked_add(*size).expect("a file is smaller than 2^63");
                offset
            })
            .collect();
        assert!(end <= i64::MAX as u64, "a file is smaller than 2^63");
        let mut bits = Bits::default();
        let groups = offsets.chunks(GROUP).map(|offsets| Group::through(offsets, &mut bits)).collect();
        bits.words.push(0);
        Handles { groups, residuals: bits.words.into(), blocks: offsets.len(), end }
    }

    /// How many blocks there are.
    #[inline]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Where block `i` begins; for `i == blocks()`, where the last one ends.
    pub fn offset(&self, i: usize) -> u64 {
        if i == self.blocks {
            return self.end;
        }
        let group = self.groups[i / GROUP];
        let residual = if group.width == 0 {
            0
        } else {
            let bit = group.bit + (i % GROUP) as u64 * u64::from(group.width);
            let word = (bit / 64) as usize;
            let two = u128::from(self.residuals[word]) | u128::from(self.residuals[word + 1]) << 64;
            (two >> (bit % 64)) as u64 & u64::MAX >> (64 - group.width)
        };
        group.base.wrapping_add(line(group.slope, i % GROUP)).wrapping_add(residual)
    }

    /// Where block `i` lies.
    #[inline]
    pub fn range(&self, i: usize) -> Range<u64> {
        self.offset(i)..self.offset(i + 1)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.groups) + size_of_val(&*self.residuals)
    }

    /// Appends block sizes: count, then each (varints).
    pub fn encode_sizes(sizes: &[u64], out: &mut Vec<u8>) {
        put_varint(out, sizes.len() as u64);
        sizes.iter().for_each(|&size| put_varint(out, size));
    }

    /// Reads what [`Handles::encode_sizes`] wrote, of blocks that fill `place` exactly.
    pub fn decode(decoder: &mut Decoder<'_>, place: Range<u64>) -> Result<Handles, DecodeError> {
        let count = decoder.varint("a count of blocks")?;
        if count > decoder.remaining() as u64 {
            return decoder.fail("as many block sizes as are counted");
        }
        let mut left = place.end - place.start;
        let mut sizes = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let size = decoder.varint_up_to(left, "a block size")?;
            if size == 0 {
                return decoder.fail("a block size");
            }
            left -= size;
            sizes.push(size);
        }
        if left != 0 {
            return decoder.fail("blocks up to the next section");
        }
        Ok(Handles::new(place.start, &sizes))
    }
}

/// Bits, the first the lowest of the first word.
#[derive(Debug, Default)]
struct Bits {
    words: Vec<u64>,
    len: u64,
}

impl Bits {
    fn push(&mut self, number: u64, width: u32) {
        let within = (self.len % 64) as u32;
        self.len += u64::from(width);
        self.words.resize(self.len.div_ceil(64) as usize, 0);
        let shifted = u128::from(number) << within;
        let first = (self.len - u64::from(width)) as usize / 64;
        for (word, part) in self.words[first..].iter_mut().zip([shifted as u64, (shifted >> 64) as u64]) {
            *word |= part;
        }
    }
}

/// What a line of this slope adds to the base of block `i` of a group.
#[inline]
fn line(slope: u64, i: usize) -> u64 {
    (u128::from(slope) * i as u128 / u128::from(SLOPE_ONE)) as u64
}

impl Group {
    /// The line through the first and the last of these offsets; puts their residuals into `bits`.
    fn through(offsets: &[u64], bits: &mut Bits) -> Group {
        let (first, span) = match offsets {
            [first, .., last] => (*first, last - first),
            [only] => (*only, 0),
            [] => (0, 0),
        };
        let slope =
            u128::from(span) * u128::from(SLOPE_ONE) / (offsets.len() as u128).saturating_sub(1).max(1);
        // Blocks of more than 2^56 bytes get a slope too small, and wide residuals.
        let slope = u64::try_from(slope).unwrap_or(u64::MAX);
        let off =
            |(i, &offset): (usize, &u64)| offset.wrapping_sub(first).wrapping_sub(line(slope, i)) as i64;
        let least = offsets.iter().enumerate().map(off).min().unwrap_or(0);
        let residual = |place| off(place).wrapping_sub(least) as u64;
        let largest = offsets.iter().enumerate().map(residual).max().unwrap_or(0);
        let group = Group {
            base: first.wrapping_add_signed(least),
            slope,
            bit: bits.len,
            width: u64::BITS - largest.leading_zeros(),
        };
        offsets.iter().enumerate().for_each(|place| bits.push(residual(place), group.width));
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_block_is_found_where_it_was_put(start in 0u64..1 << 40, sizes in prop::collection::vec(prop_oneof![1u64..9000, 4000u64..4100, 1u64..1 << 33], 0..300)) {
            let mut bytes = Vec::new();
            Handles::encode_sizes(&sizes, &mut bytes);
            let end = start + sizes.iter().sum::<u64>();
            let handles = Handles::decode(&mut Decoder::new(&bytes), start..end).unwrap();
            prop_assert_eq!(handles.blocks(), sizes.len());
            let mut offset = start;
            for (i, size) in sizes.iter().enumerate() {
                prop_assert_eq!(handles.range(i), offset..offset + size);
                offset += size;
            }
            prop_assert!(Handles::decode(&mut Decoder::new(&bytes), start..end + 1).is_err());
            prop_assert!(end == start || Handles::decode(&mut Decoder::new(&bytes), start + 1..end).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>, len in 0u64..2000) {
            let _ = Handles::decode(&mut Decoder::new(&bytes), 100..100 + len);
        }
    }

    #[test]
    fn blocks_of_about_one_size_take_a_byte_or_little_more_each_and_of_one_size_none() {
        let varied: Vec<u64> = (0..10_000u64).map(|i| 4000 + i * 7919 % 97).collect();
        assert!(Handles::new(32, &varied).bytes() < 14_000, "{}", Handles::new(32, &varied).bytes());
        let alike: Vec<u64> = (0..9999u64).map(|i| 4080 + i * 7919 % 5).chain([17]).collect();
        assert!(Handles::new(32, &alike).bytes() < 8_000, "{}", Handles::new(32, &alike).bytes());
        let equal: Vec<u64> = (0..9999u64).map(|_| 4096).chain([17]).collect();
        assert!(Handles::new(32, &equal).bytes() < 3_000, "{}", Handles::new(32, &equal).bytes());
    }
}
