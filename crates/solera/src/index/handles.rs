//! Where each block of a table lies: `Handles`, the sizes of consecutive blocks in a few bits each.
//!
//! Blocks lie one after another, so an offset is the sum of the sizes before it. A block's number
//! is the rank of its size, or where sizes are many the size itself. 256 blocks share a beginning,
//! a zero, and the width of their codes: how much a number is above that zero. The rare numbers
//! below it, or too far above it, are exceptions. The last block has no code. `offset` sums up from
//! the group's beginning or its middle. `stretch` says how many blocks from one on fit in so many
//! bytes.
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
/// So much wider codes than half of the numbers need are tried.
const WIDTHS: u32 = 3;

/// The places of consecutive blocks.
#[derive(Clone, Debug)]
pub struct Handles {
    groups: Box<[Group]>,
    /// Bits, the low ones first, those of a group from a [`UNIT`] on; and a word more, so that two
    /// can always be read. A group has its zero, then its codes. If it has exceptions, there follow
    /// one less than there are and how many bits each has more than codes have (8 bits each), and
    /// for each its place (8 bits) and those bits ([`folded`]), by place.
    codes: Box<[u64]>,
    /// Bits of a group's zero.
    zero_bits: usize,
    /// The sizes by rank, if numbers are ranks.
    ranks: Option<Box<[u32]>>,
    blocks: usize,
    /// Where the last block ends. It is mostly shorter than the others, and has no code.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// Where the first block begins, above 8 bits: whether there are exceptions, and the bits of
    /// each code, 0 to 56.
    begin: u64,
    /// Bytes of the first [`MIDDLE`] blocks; 0 if there are less, or if it is not known.
    middle: u32,
    /// Where the group's bits begin, in [`UNIT`]s.
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
        let (ranks, numbers) = ranks(coded).map_or_else(|| (None, coded.to_vec()), |(r, n)| (Some(r), n));
        let shapes: Vec<Shape> = numbers.chunks(GROUP).map(Shape::of).collect();
        let zero_bits = shapes.iter().map(|shape| bits_of(shape.zero)).max().unwrap_or(0);
        let mut bits = Bits::default();
        let mut groups = Vec::with_capacity(sizes.len().div_ceil(GROUP));
        let (mut begin, mut rest) = (start, &numbers[..]);
        for (number, sizes) in sizes.chunks(GROUP).enumerate() {
            let numbers = rest.split_off(..sizes.len().min(rest.len())).unwrap_or_default();
            let shape = shapes.get(number).copied().unwrap_or_default();
            let sum = |sizes: &[u64]| sizes.iter().fold(0u64, |sum, &size| sum.saturating_add(size));
            let middle = sizes.get(..MIDDLE).and_then(|first| u32::try_from(sum(first)).ok()).unwrap_or(0);
            bits.len = bits.len.next_multiple_of(UNIT as u64);
            let at = u32::try_from(bits.len / UNIT as u64).expect("blocks are less than 2^31");
            groups.push(Group { begin: begin << 8 | shape.flags(), middle, at });
            bits.push(shape.zero, zero_bits);
            shape.write(numbers, &mut bits);
            begin = begin.saturating_add(sum(sizes));
            assert!(begin <= OFFSET_MAX, "a file is smaller than 2^56");
        }
        bits.words.push(0);
        let (groups, codes, zero_bits) = (groups.into(), bits.words.into(), zero_bits as usize);
        Handles { groups, codes, zero_bits, ranks, blocks: sizes.len(), end: begin }
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
        if place == first {
            return begin;
        }
        let zero = self.zero(group);
        let (mut at, mut end) = (first, begin);
        let exceptions = self.exceptions(i / GROUP).skip_while(|(at, _)| *at < first);
        for (exception, number) in exceptions.take_while(|(at, _)| *at < place) {
            end += self.sum(group, zero, at..exception) + self.size(number);
            at = exception + 1;
        }
        end + self.sum(group, zero, at..place)
    }

    /// The bytes of blocks at these places of a group, none of which is an exception.
    #[inline]
    fn sum(&self, group: Group, zero: u64, places: Range<usize>) -> u64 {
        match group.width() {
            0 if places.is_empty() => 0,
            0 => places.len() as u64 * self.size(zero),
            _ => places.map(|place| self.size(zero + self.code(group, place))).sum(),
        }
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
        let number = exception.map(|(_, number)| number);
        offset + self.size(number.unwrap_or_else(|| self.zero(group) + self.code(group, place)))
    }

    /// The size that this number stands for.
    #[inline]
    fn size(&self, number: u64) -> u64 {
        self.ranks.as_ref().map_or(number, |sizes| sizes[number as usize].into())
    }

    /// What the codes of a group are above.
    #[inline]
    fn zero(&self, group: Group) -> u64 {
        self.bits(group, 0, self.zero_bits)
    }

    /// The code of the block at this place of its group, which is not the last of all; of an
    /// exception the lowest bits of it.
    #[inline]
    fn code(&self, group: Group, place: usize) -> u64 {
        self.bits(group, self.zero_bits + place * group.width(), group.width())
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

    /// Places and numbers of a group's exceptions, ascending by place.
    fn exceptions(&self, number: usize) -> impl Iterator<Item = (usize, u64)> {
        let group = self.groups[number];
        let coded = (self.blocks - 1 - number * GROUP).min(GROUP);
        let place_bits = PLACE_BITS as usize;
        let at = self.zero_bits + coded * group.width();
        let (count, more) = match group.has_exceptions() {
            true => (1 + self.bits(group, at, place_bits), self.bits(group, at + place_bits, place_bits)),
            false => (0, 0),
        };
        (0..count as usize).map(move |exception| {
            let at = at + 2 * place_bits + exception * (place_bits + more as usize);
            let place = self.bits(group, at, place_bits) as usize;
            let high = unfolded(self.bits(group, at + place_bits, more as usize));
            let code = high << group.width() | self.code(group, place) as i64;
            (place, self.zero(group).wrapping_add_signed(code))
        })
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.groups) + size_of_val(&*self.codes) + self.ranks.as_deref().map_or(0, size_of_val)
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

/// How the numbers of a group are coded.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    /// What codes are above.
    zero: u64,
    /// Bits of a code.
    width: u32,
    /// How many bits more an exception has; 0 if there is none.
    more: u32,
}

impl Shape {
    /// The shape of the fewest bits for these numbers, of the widths that reach over half of them,
    /// and a little wider ones.
    fn of(numbers: &[u64]) -> Shape {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        let (Some(&least), Some(&most)) = (sorted.first(), sorted.last()) else { return Shape::default() };
        let quarter = sorted.len() / 4;
        let half = bits_of(sorted[sorted.len() - 1 - quarter] - sorted[quarter]);
        let widest = bits_of(most - least);
        let shapes = (half..=widest.min(half + WIDTHS)).chain((widest > half + WIDTHS).then_some(widest));
        let sized = shapes.map(|width| {
            let (zero, within) = fullest(&sorted, width);
            let high = |number: u64| folded(number as i64 - zero as i64, width);
            let more = bits_of(high(least).max(high(most)));
            let exceptions = (sorted.len() - within) as u32;
            let of_exceptions =
                if exceptions > 0 { 2 * PLACE_BITS + exceptions * (PLACE_BITS + more) } else { 0 };
            (width * sorted.len() as u32 + of_exceptions, Shape { zero, width, more })
        });
        sized.min_by_key(|(bits, _)| *bits).expect("there is a width").1
    }

    /// What a group keeps of its width and its exceptions.
    fn flags(self) -> u64 {
        u64::from(self.width) | if self.more > 0 { EXCEPTIONS } else { 0 }
    }

    /// Appends the codes of these numbers, and the exceptions.
    fn write(self, numbers: &[u64], bits: &mut Bits) {
        let codes = numbers.iter().map(|&number| number as i64 - self.zero as i64);
        codes.clone().for_each(|code| bits.push(code as u64 & !(u64::MAX << self.width), self.width));
        if self.more > 0 {
            let highs = codes.map(|code| folded(code, self.width)).enumerate();
            let exceptions = highs.filter(|(_, high)| *high > 0);
            bits.push(exceptions.clone().count() as u64 - 1, PLACE_BITS);
            bits.push(self.more.into(), PLACE_BITS);
            for (place, high) in exceptions {
                bits.push(place as u64, PLACE_BITS);
                bits.push(high, self.more);
            }
        }
    }
}

/// The number from which on most of these, ascending, have codes of so many bits; and how many.
fn fullest(sorted: &[u64], width: u32) -> (u64, usize) {
    let (mut from, mut best) = (0, (0, 0));
    for (at, number) in sorted.iter().enumerate() {
        while (number - sorted[from]) >> width > 0 {
            from += 1;
        }
        if at + 1 - from > best.1 {
            best = (sorted[from], at + 1 - from);
        }
    }
    best
}

/// The bits of a code above its lowest `width`, 0 if it is one of so many bits. The lowest of them
/// says whether the code is below zero.
fn folded(code: i64, width: u32) -> u64 {
    let high = code >> width;
    ((high << 1) ^ (high >> 63)) as u64
}

/// What is above the lowest bits of a code, out of [`folded`].
fn unfolded(high: u64) -> i64 {
    (high >> 1) as i64 ^ -((high & 1) as i64)
}

/// How many bits a number has.
fn bits_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
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
    fn sizes_that_lie_close_take_few_bits_wherever_they_lie_and_however_far_others_are() {
        let bytes = |size: &dyn Fn(u64) -> u64| {
            let sizes: Vec<u64> = (0..9999).map(size).chain([17]).collect();
            Handles::new(32, &sizes).bytes()
        };
        // Seven bits for 112 sizes; of one in ten, above and below, ten bits more and its place.
        let close = |i: u64| 2290 + i * 7919 % 112;
        let far = |i: u64| if i.is_multiple_of(20) { 2100 + i % 190 } else { 2402 + i % 128 };
        assert!(bytes(&|i| if i.is_multiple_of(10) { far(i) } else { close(i) }) < 11_500);
        // Each part of a table by itself.
        let part = |i: u64| if (i / 1024).is_multiple_of(2) { 1000 } else { 3000 };
        assert!(bytes(&|i| part(i) + i * 7919 % 128) < 9_700);
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
