//! Where each block lies in the file.
//!
//! Owns [`Handles`]. Blocks lie one after another, so a handle is an offset, and an offset is close to
//! the line through its neighbours: 64 offsets share a base and a slope, and each keeps only its residual.
//! Nothing here is touched by a read that the cache serves.

use crate::codec::{DecodeError, Decoder, put_varint};
use std::ops::Range;

/// Offsets that share a base and a slope.
const GROUP: usize = 64;

/// The places of consecutive blocks.
#[derive(Clone, Debug)]
pub struct Handles {
    groups: Box<[Group]>,
    residuals: Residuals,
    /// Where the last block ends. It is mostly shorter than the others, and would widen all residuals.
    end: u64,
}

#[derive(Clone, Debug)]
struct Group {
    base: u64,
    /// In bytes per [`SLOPE_ONE`] blocks.
    slope: u64,
}

/// The fixed point of slopes.
const SLOPE_ONE: u64 = 256;

/// The narrowest that fit.
#[derive(Clone, Debug)]
enum Residuals {
    I8(Box<[i8]>),
    I16(Box<[i16]>),
    I32(Box<[i32]>),
    I64(Box<[i64]>),
}

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
        let groups: Box<[Group]> = offsets.chunks(GROUP).map(Group::through).collect();
        let residuals: Vec<i64> = offsets
            .iter()
            .enumerate()
            .map(|(i, &offset)| offset as i64 - groups[i / GROUP].at(i % GROUP) as i64)
            .collect();
        Handles { groups, residuals: Residuals::narrowest(residuals), end }
    }

    /// How many blocks there are.
    pub fn blocks(&self) -> usize {
        self.residuals.len()
    }

    /// Where block `i` begins; for `i == blocks()`, where the last one ends.
    #[inline]
    pub fn offset(&self, i: usize) -> u64 {
        if i == self.blocks() {
            return self.end;
        }
        let residual = match &self.residuals {
            Residuals::I8(residuals) => residuals[i].into(),
            Residuals::I16(residuals) => residuals[i].into(),
            Residuals::I32(residuals) => residuals[i].into(),
            Residuals::I64(residuals) => residuals[i],
        };
        self.groups[i / GROUP].at(i % GROUP).wrapping_add_signed(residual)
    }

    /// Where block `i` lies.
    #[inline]
    pub fn range(&self, i: usize) -> Range<u64> {
        self.offset(i)..self.offset(i + 1)
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        let residuals = match &self.residuals {
            Residuals::I8(residuals) => size_of_val(&**residuals),
            Residuals::I16(residuals) => size_of_val(&**residuals),
            Residuals::I32(residuals) => size_of_val(&**residuals),
            Residuals::I64(residuals) => size_of_val(&**residuals),
        };
        size_of_val(&*self.groups) + residuals
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

impl Group {
    /// The line through the first and the last of these offsets.
    fn through(offsets: &[u64]) -> Group {
        let (base, span) = match offsets {
            [first, .., last] => (*first, last - first),
            [only] => (*only, 0),
            [] => (0, 0),
        };
        let slope =
            u128::from(span) * u128::from(SLOPE_ONE) / (offsets.len() as u128).saturating_sub(1).max(1);
        // Blocks of more than 2^56 bytes get a slope too small, and wide residuals.
        Group { base, slope: u64::try_from(slope).unwrap_or(u64::MAX) }
    }

    #[inline]
    fn at(&self, i: usize) -> u64 {
        self.base + (u128::from(self.slope) * i as u128 / u128::from(SLOPE_ONE)) as u64
    }
}

impl Residuals {
    fn narrowest(residuals: Vec<i64>) -> Residuals {
        if let Ok(narrow) = residuals.iter().map(|&residual| residual.try_into()).collect() {
            Residuals::I8(narrow)
        } else if let Ok(narrow) = residuals.iter().map(|&residual| residual.try_into()).collect() {
            Residuals::I16(narrow)
        } else if let Ok(narrow) = residuals.iter().map(|&residual| residual.try_into()).collect() {
            Residuals::I32(narrow)
        } else {
            Residuals::I64(residuals.into())
        }
    }

    fn len(&self) -> usize {
        match self {
            Residuals::I8(residuals) => residuals.len(),
            Residuals::I16(residuals) => residuals.len(),
            Residuals::I32(residuals) => residuals.len(),
            Residuals::I64(residuals) => residuals.len(),
        }
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
    fn blocks_of_about_one_size_take_one_or_two_bytes_each() {
        let varied: Vec<u64> = (0..10_000u64).map(|i| 4000 + i * 7919 % 97).collect();
        assert!(Handles::new(32, &varied).bytes() < 23_000);
        let alike: Vec<u64> = (0..9999u64).map(|i| 4080 + i * 7919 % 5).chain([17]).collect();
        assert!(Handles::new(32, &alike).bytes() < 13_000);
    }
}
