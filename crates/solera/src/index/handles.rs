//! Where each block of a table lies: `Handles`, the sizes of consecutive blocks in a few bits each.
//!
//! Blocks lie one after another, so an offset is the sum of the sizes before it. A block's code is
//! the rank of its size, or how much it is above the least where sizes are many. 256 blocks share a
//! beginning and the width of their codes; rare codes that need more bits are exceptions. The last
//! block has no code. `offset` sums up from the group's beginning or its middle.
//!
//! What must hold: `decode` accepts only sizes that fill the given place exactly. Offsets are less
//! than 2^56.
//! Callers: `table::writer` encodes sizes, `table::reader` decodes them and asks where a block lies
//! when the cache lacks it. `solera-bench` (`paper::{blocks, training}`) and `fuzz` measure and
//! decode.

use crate::codec::{DecodeError, Decoder, put_varint};
use std::ops::Range;

/// Blocks that share a beginning.
const GROUP: usize = 256;
/// Sums begin with the group or here.
const MIDDLE: usize = GROUP / 2;
/// Bits in which it counts where the codes of a group begin.
const UNIT: usize = 16;
/// Most sizes that have ranks.
const RANKS_MAX: usize = 64;
/// Offsets are less: a group's beginning and the width of its codes share a word.
const OFFSET_MAX: u64 = 1 << 56;
/// In the width of a group's codes: whether there are exceptions.
const EXCEPTIONS: u64 = 1 << 7;
/// Bits of the place of an exception, of how many there are, and of how many bits each has.
const PLACE_BITS: u32 = GROUP.ilog2();

/// The places of consecutive blocks.
#[derive(Clone, Debug)]
pub struct Handles {
    groups: Box<[Group]>,
    /// The codes' bits, low bits first, those of a group from a [`UNIT`] on; and a word more, so
    /// that two can always be read. Behind the codes of a group with exceptions: how many there
    /// are and how many bits each has more than codes have (8 bits each), and for each its place (8
    /// bits) and those bits, by place.
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
    /// Where the first block begins, above 8 bits: whether there are exceptions, and the bits of
    /// each code, 0 to 64.
    begin: u64,
    /// Bytes of the first [`MIDDLE`] blocks; 0 if there are less, or if it is not known.
    middle: u32,
    /// Where the group's codes begin, in [`UNIT`]s.
    at: u32,
}

impl Group {
    #[inline]
    fn width(self) -> usize {
        (self.begin & (EXCEPTIONS - 1)) as usize
    }

    #[inline]
    fn has_exceptions(self) -> bool {
        self.begin & EXCEPTIONS != 0
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
            let (width, widest) = widths(codes);
            let sum = |sizes: &[u64]| sizes.iter().fold(0u64, |sum, &size| sum.saturating_add(size));
            let middle = sizes.get(..MIDDLE).and_then(|first| u32::try_from(sum(first)).ok()).unwrap_or(0);
            bits.len = bits.len.next_multiple_of(UNIT as u64);
            let at = u32::try_from(bits.len / UNIT as u64).expect("blocks are less than 2^31");
            let flag = if widest > width { EXCEPTIONS } else { 0 };
            groups.push(Group { begin: begin << 8 | flag | u64::from(width), middle, at });
            codes.iter().for_each(|&code| bits.push(code & !above(width), width));
            if widest > width {
                let exceptions = codes.iter().enumerate().filter(|(_, code)| *code & above(width) != 0);
                bits.push(exceptions.clone().count() as u64, PLACE_BITS);
                bits.push((widest - width).into(), PLACE_BITS);
                for (place, code) in exceptions {
                    bits.push(place as u64, PLACE_BITS);
                    bits.push(code >> width, widest - width);
                }
            }
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
        let (first, begin) = match place {
            MIDDLE.. if group.middle > 0 => (MIDDLE, begin + u64::from(group.middle)),
            _ => (0, begin),
        };
        let of_codes = match group.width() {
            0 if place == first => 0,
            0 => (place - first) as u64 * self.meaning.size(0),
            _ => (first..place).map(|place| self.meaning.size(self.code(group, place))).sum::<u64>(),
        };
        let before = self.exceptions(i / GROUP).take_while(|(at, _)| *at < place);
        let more = before.filter(|(at, _)| *at >= first);
        let (more, less) = more.fold((0, 0), |(more, less), (at, code)| {
            (more + self.meaning.size(code), less + self.meaning.size(self.code(group, at)))
        });
        begin + of_codes + more - less
    }

    /// Where block `i` lies.
    #[inline]
    pub fn range(&self, i: usize) -> Range<u64> {
        let offset = self.offset(i);
        offset..self.end_from(i, offset)
    }

    /// The most blocks from `first` on that have `bytes_max` together, one at least: the number
    /// behind the last one, and where all of them lie.
    pub fn stretch(&self, first: usize, bytes_max: u64) -> (usize, Range<u64>) {
        let Range { start, mut end } = self.range(first);
        let mut last = first + 1;
        while last < self.blocks {
            let next = self.end_from(last, end);
            if next - start > bytes_max {
                break;
            }
            (last, end) = (last + 1, next);
        }
        (last, start..end)
    }

    /// Where block `i` ends, which begins at `offset`.
    #[inline]
    fn end_from(&self, i: usize, offset: u64) -> u64 {
        if i + 1 >= self.blocks {
            return self.end;
        }
        let (group, place) = (self.groups[i / GROUP], i % GROUP);
        let mut upto = self.exceptions(i / GROUP).skip_while(|(at, _)| *at < place);
        let exception = upto.next().filter(|(at, _)| *at == place);
        offset + self.meaning.size(exception.map_or_else(|| self.code(group, place), |(_, code)| code))
    }

    /// The code of the block at this place of its group, which is not the last of all; of an
    /// exception the lowest bits of it.
    #[inline]
    fn code(&self, group: Group, place: usize) -> u64 {
        self.bits(group, place * group.width(), group.width())
    }

    /// So many bits, 64 at most, of those of a group from this one on.
    #[inline]
    fn bits(&self, group: Group, from: usize, count: usize) -> u64 {
        if count == 0 {
            return 0;
        }
        let from = group.at as usize * UNIT + from;
        let word = from / 64;
        let two = u128::from(self.codes[word]) | u128::from(self.codes[word + 1]) << 64;
        (two >> (from % 64)) as u64 & u64::MAX >> (64 - count)
    }

    /// Places and codes of a group's exceptions, ascending by place.
    fn exceptions(&self, number: usize) -> impl Iterator<Item = (usize, u64)> {
        let group = self.groups[number];
        let coded = (self.blocks - 1 - number * GROUP).min(GROUP);
        let place_bits = PLACE_BITS as usize;
        let at = coded * group.width();
        let (count, more) = match group.has_exceptions() {
            true => (self.bits(group, at, place_bits), self.bits(group, at + place_bits, place_bits)),
            false => (0, 0),
        };
        (0..count as usize).map(move |exception| {
            let at = at + 2 * place_bits + exception * (place_bits + more as usize);
            let place = self.bits(group, at, place_bits) as usize;
            let high = self.bits(group, at + place_bits, more as usize);
            (place, high << group.width() | self.code(group, place))
        })
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

/// All bits but the lowest `width`.
fn above(width: u32) -> u64 {
    u64::MAX.checked_shl(width).unwrap_or(0)
}

/// How many bits the codes of a group have, and how many the longest: what takes the fewest bits
/// with exceptions.
fn widths(codes: &[u64]) -> (u32, u32) {
    let mut longer = [0u32; u64::BITS as usize + 1];
    codes.iter().for_each(|code| longer[(u64::BITS - code.leading_zeros()) as usize] += 1);
    let widest = (0..=u64::BITS).rev().find(|&width| longer[width as usize] > 0).unwrap_or(0);
    let count = codes.len() as u32;
    let (mut exceptions, mut best, mut least) = (0, widest, widest * count);
    for width in (0..widest).rev() {
        exceptions += longer[width as usize + 1];
        let bits = width * count + 2 * PLACE_BITS + exceptions * (PLACE_BITS + widest - width);
        if bits < least && exceptions < GROUP as u32 {
            (best, least) = (width, bits);
        }
    }
    (best, widest)
}

/// The sizes, the most frequent first, and of each block the rank of its own; `None` if they are
/// too many or too large.
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
        fn every_block_is_found_where_it_was_put(start in 0u64..1 << 40, bytes_max in 0u64..1 << 17, sizes in prop::collection::vec(prop_oneof![1u64..9000, 4000u64..4100, 1u64..1 << 33], 0..300)) {
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
            for first in 0..sizes.len() {
                let mut last = first + 1;
                while last < sizes.len() && sizes[first..=last].iter().sum::<u64>() <= bytes_max {
                    last += 1;
                }
                let place = handles.range(first).start..handles.range(last - 1).end;
                prop_assert_eq!(handles.stretch(first, bytes_max), (last, place));
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
        // 16 bytes for each group of 256 are 0.0625 bytes a block.
        assert!(bytes(&|i| 3000 + i * 7919 % 1021) < 14_000);
        assert!(bytes(&|i| 4080 + i * 7919 % 5) < 5_300);
        // The rare sizes alone have long codes.
        assert!(bytes(&|i| 4063 + if i % 1000 == 0 { i * 73 % 1000 } else { i % 2 * 73 }) < 2_700);
        assert!(bytes(&|i| 4096 - if i % 16 == 3 { 73 * (1 + i / 16 % 7) } else { 0 }) < 2_500);
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
