//! Where each block lies in the file.
//!
//! Owns [`Handles`]. Blocks lie one after another, so a handle is the sum of the sizes before it, and sizes are much alike: in
//! tables of pairs of one size there are a dozen, because a block ends with a whole pair. So a block has the rank of its size, the most
//! frequent first; or, where sizes are many, by how much it is above the least. 128 blocks share where the first of them
//! begins and how many bits their codes have, which is none where their blocks have one size; what lies before a block is
//! summed up from there or from the middle.
//! Nothing here is touched by a read that the cache serves.

use crate::codec::{DecodeError, Decoder, put_varint};
use std::ops::Range;

/// Blocks that share a beginning.
const GROUP: usize = 128;
/// Sums begin with the group or here.
const MIDDLE: usize = GROUP / 2;
/// Most sizes that have ranks.
const RANKS_MAX: usize = 64;
/// Offsets are less: a group's beginning and the width of its codes share a word.
const OFFSET_MAX: u64 = 1 << 56;

/// The places of consecutive blocks.
#[derive(Clone, Debug)]
pub struct Handles {
    groups: Box<[Group]>,
    /// The codes' bits, low bits first, those of a group from a word's first on; and a word more, so that two can always be read.
    codes: Box<[u64]>,
    meaning: Meaning,
    blocks: usize,
    /// Where the last block ends. It is mostly shorter than the others, and has no code.
    end: u64,
}

/// What codes stand for.
#[derive(Clone, Debug)]
enum Meaning {
    /// The size of this rank.
    Ranks(Box<[u32]>),
    /// The size that is so much above this one.
    Above(u64),
}

impl Meaning {
    #[inline]
    fn size(&self, code: u64) -> u64 {
        match self {
            Meaning::Ranks(sizes) => sizes[code as usize].into(),
            Meaning::Above(least) => least + code,
        }
    }

    /// Bytes on the heap.
    fn bytes(&self) -> usize {
        match self {
            Meaning::Ranks(sizes) => size_of_val(&**sizes),
            Meaning::Above(_) => 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// Where the first block begins, above 8 bits: the bits of each code, 0 to 64.
    begin: u64,
    /// Bytes of the first [`MIDDLE`] blocks; 0 if there are less, or if it is not known.
    middle: u32,
    /// Where in the words the group's codes begin.
    word: u32,
}

impl Group {
    #[inline]
    fn width(self) -> usize {
        (self.begin & 0xff) as usize
    }
}

impl Handles {
    /// Blocks of these sizes, the first at `start`; less than 2^31.
    ///
    /// # Panics
    /// If they end beyond 2^56.
    pub fn new(start: u64, sizes: &[u64]) -> Handles {
        let coded = &sizes[..sizes.len().saturating_sub(1)];
        let ranked =
            ranks(coded).map(|(ranks, codes)| Handles::coded(start, sizes, Meaning::Ranks(ranks), &codes));
        let above = || {
            let least = coded.iter().copied().min().unwrap_or(0);
            let codes: Vec<u64> = coded.iter().map(|size| size - least).collect();
            Handles::coded(start, sizes, Meaning::Above(least), &codes)
        };
        ranked.unwrap_or_else(above)
    }

    /// The blocks of these sizes, of which all but the last have these codes.
    fn coded(start: u64, sizes: &[u64], meaning: Meaning, codes: &[u64]) -> Handles {
        let mut bits = Bits::default();
        let mut groups = Vec::with_capacity(sizes.len().div_ceil(GROUP));
        let mut begin = start;
        for (number, sizes) in sizes.chunks(GROUP).enumerate() {
            let codes = &codes[number * GROUP..codes.len().min((number + 1) * GROUP)];
            let width = u64::BITS - codes.iter().fold(0, |all, code| all | code).leading_zeros();
            let sum = |sizes: &[u64]| sizes.iter().fold(0u64, |sum, &size| sum.saturating_add(size));
            let middle = sizes.get(..MIDDLE).and_then(|first| u32::try_from(sum(first)).ok()).unwrap_or(0);
            let word = u32::try_from(bits.words.len()).expect("blocks are less than 2^31");
            groups.push(Group { begin: begin << 8 | u64::from(width), middle, word });
            bits.len = bits.words.len() as u64 * u64::from(u64::BITS);
            codes.iter().for_each(|&code| bits.push(code, width));
            begin = begin.saturating_add(sum(sizes));
            assert!(begin <= OFFSET_MAX, "a file is smaller than 2^56");
        }
        bits.words.push(0);
        let (groups, codes) = (groups.into(), bits.words.into());
        Handles { groups, codes, meaning, blocks: sizes.len(), end: begin }
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
        let (group, place) = (self.groups[i / GROUP], i % GROUP);
        let begin = group.begin >> 8;
        if group.width() == 0 {
            return begin + place as u64 * if place == 0 { 0 } else { self.meaning.size(0) };
        }
        let (first, begin) = match place {
            MIDDLE.. if group.middle > 0 => (MIDDLE, begin + u64::from(group.middle)),
            _ => (0, begin),
        };
        begin + (first..place).map(|place| self.size(group, place)).sum::<u64>()
    }

    /// Where block `i` lies.
    #[inline]
    pub fn range(&self, i: usize) -> Range<u64> {
        let offset = self.offset(i);
        let end = if i + 1 >= self.blocks {
            self.end
        } else {
            offset + self.size(self.groups[i / GROUP], i % GROUP)
        };
        offset..end
    }

    /// The size of the block at this place of its group; it is not the last of all.
    #[inline]
    fn size(&self, group: Group, place: usize) -> u64 {
        let width = group.width();
        if width == 0 {
            return self.meaning.size(0);
        }
        let bit = place * width;
        let word = group.word as usize + bit / 64;
        let two = u128::from(self.codes[word]) | u128::from(self.codes[word + 1]) << 64;
        self.meaning.size((two >> (bit % 64)) as u64 & u64::MAX >> (64 - width))
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.groups) + size_of_val(&*self.codes) + self.meaning.bytes()
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

/// The sizes, the most frequent first, and of each block the rank of its own; `None` if they are too many or too large.
fn ranks(sizes: &[u64]) -> Option<(Box<[u32]>, Vec<u64>)> {
    // Each size and how many have it, ascending.
    let mut counts: Vec<(u32, u32)> = Vec::new();
    for &size in sizes {
        let size = u32::try_from(size).ok()?;
        match counts.binary_search_by_key(&size, |(size, _)| *size) {
            Ok(at) => counts[at].1 += 1,
            Err(_) if counts.len() == RANKS_MAX => return None,
            Err(at) => counts.insert(at, (size, 1)),
        }
    }
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(counts[at].1));
    let mut rank_of = vec![0; counts.len()];
    order.iter().enumerate().for_each(|(rank, &at)| rank_of[at] = rank as u64);
    let code = |&size: &u64| {
        counts.binary_search_by_key(&size, |(size, _)| (*size).into()).ok().map(|at| rank_of[at])
    };
    let codes: Option<Vec<u64>> = sizes.iter().map(code).collect();
    Some((order.iter().map(|&at| counts[at].0).collect(), codes?))
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
    fn blocks_of_few_sizes_take_few_bits_each_and_of_one_size_none() {
        let bytes = |size: &dyn Fn(u64) -> u64| {
            let sizes: Vec<u64> = (0..9999).map(size).chain([17]).collect();
            Handles::new(32, &sizes).bytes()
        };
        // 16 bytes for each group of 128 are 0.125 bytes a block.
        assert!(bytes(&|i| 3000 + i * 7919 % 1021) < 14_000);
        assert!(bytes(&|i| 4080 + i * 7919 % 5) < 5_300);
        // The rare sizes have the long codes, and only their groups.
        assert!(bytes(&|i| 4063 + if i % 1000 == 0 { i * 73 % 1000 } else { i % 2 * 73 }) < 3_200);
        assert!(bytes(&|_| 4096) < 1_300);
    }

    #[test]
    fn blocks_whose_middle_is_far_are_summed_up_from_the_first() {
        let sizes: Vec<u64> = (0..300).map(|i| (1 << 31) + i % 3).collect();
        let handles = Handles::new(32, &sizes);
        assert!(handles.groups.iter().all(|group| group.middle == 0 && group.width() == 2));
        let sum = |upto: usize| 32 + sizes[..upto].iter().sum::<u64>();
        assert!((0..300).all(|i| handles.range(i) == (sum(i)..sum(i + 1))));
    }
}
