//! At most 32 ascending separators in little memory: `push` writes a bucket, `begin` gives its
//! first separator, a `Walker` looks a key up in it.
//!
//! Each separator is kept without what it shares with the one before. Lanes at the front hold how
//! much each shares, with which byte it goes on, and how many bytes follow. A few steps over all
//! lanes at once lead to the place. What a key has in common with a separator is not compared
//! again. Where numbers do not fit a byte, the bucket has no lanes.
//!
//! What must hold: `is_sound` says whether bytes are a bucket that `begin` and a `Walker` may
//! read. The latter then gives no more than there are.
//!
//! Callers: `index::learned::front_coded`; `index::learned` takes the size, `BUCKET`.

use super::super::separators::Separators;
use crate::{
    codec::{Decoder, put_varint},
    key::common_prefix_len,
};
use solera_model::lanes::Lanes;
use std::{cmp::Ordering, ops::Range};

/// Separators of a bucket: the whole first ones and what leads to them are then a byte of each, and
/// a bucket of paths is five cache lines.
pub(super) const BUCKET: usize = 32;

/// First byte of a bucket without lanes.
const WIDE: u8 = u8::MAX;
/// What a lane without a separator shares; no separator of a bucket with lanes is that long.
const NONE: u8 = u8::MAX;
/// Bytes of a lane's length are halves of a byte: lanes `i` and `i + HALF` have one.
const HALF: usize = BUCKET / 2;
/// A half that says that the length is longer than it can tell: by what `more` has.
const LONG: u8 = 15;
/// Bytes of a bucket's lanes.
const LANES_BYTES: usize = 2 * BUCKET + HALF;

/// Writes the separators in `range`, at most [`BUCKET`], without their first `prefix` bytes, behind
/// what `bytes` has.
///
/// ```text
/// bucket = m shared[1..32] first[32] length[16] more[m] tail*   a byte each
///        | 255 (shared length rest[length])*                    varints: where a byte is too small
/// rest   = first tail                                           beyond what a separator shares
/// ```
///
/// The first separator shares nothing; `m` stands in its place. A byte of lengths has that of tail
/// `i` in its lower half, that of tail `i + 16` in its upper one. Of the `m` tails with 15 there,
/// `more` says how much longer they are. Lanes that no separator has share [`NONE`].
pub(super) fn push(bytes: &mut Vec<u8>, separators: &Separators, range: Range<usize>, prefix: usize) {
    let rest = |i: usize| &separators.get(i)[prefix..];
    let shared = |i: usize| if i == range.start { 0 } else { common_prefix_len(rest(i - 1), rest(i)) };
    let own = |i: usize| &rest(i)[shared(i)..];
    if range.clone().any(|i| own(i).is_empty() || rest(i).len() >= usize::from(NONE)) {
        bytes.push(WIDE);
        for i in range.clone() {
            put_varint(bytes, shared(i) as u64);
            put_varint(bytes, own(i).len() as u64);
            bytes.extend_from_slice(own(i));
        }
        return;
    }
    let mut lanes = [0; LANES_BYTES];
    lanes[..BUCKET].fill(NONE);
    let (mut more, mut tails) = (Vec::new(), Vec::new());
    for (lane, i) in range.clone().enumerate() {
        let (first, tail) = own(i).split_first().expect("it is not empty");
        (lanes[lane], lanes[BUCKET + lane]) = (shared(i) as u8, *first);
        let len = tail.len() as u8;
        more.extend(len.checked_sub(LONG));
        lanes[2 * BUCKET + lane % HALF] |= len.min(LONG) << (4 * (lane / HALF));
        tails.extend_from_slice(tail);
    }
    lanes[0] = more.len() as u8;
    [&lanes[..], &more, &tails].into_iter().for_each(|part| bytes.extend_from_slice(part));
}

/// Whether these bytes are a bucket of `count` separators, at least one, as far as [`begin`] and a
/// [`Walker`] rely on it.
pub(super) fn is_sound(bucket: &[u8], count: usize) -> bool {
    let Some((&form, rest)) = bucket.split_first() else { return false };
    if form == WIDE {
        let mut decoder = Decoder::new(rest);
        let mut separator = || {
            decoder.varint_up_to(u32::MAX.into(), "a shared length")?;
            decoder.bytes("the rest of a separator")
        };
        return (0..count).all(|_| separator().is_ok()) && decoder.remaining() == 0;
    }
    let Some((lanes, rest)) = bucket.split_first_chunk::<LANES_BYTES>() else { return false };
    let Some((more, tails)) = rest.split_at_checked(form.into()) else { return false };
    let mut more = more.iter();
    let mut tail_len = |lane: usize| match lanes[2 * BUCKET + lane % HALF] >> (4 * (lane / HALF)) & LONG {
        LONG => more.next().map(|more| usize::from(LONG) + usize::from(*more)),
        len => Some(len.into()),
    };
    let mut sum = 0;
    for (lane, &shared) in lanes[..BUCKET].iter().enumerate() {
        let Some(len) = tail_len(lane) else { return false };
        // What a walk has matched is never as much as a lane without a separator shares.
        let is_lane = match lane {
            // The count of long tails stands in its place.
            0 => count > 0 && 1 + len < usize::from(NONE),
            _ if lane < count => usize::from(shared) + 1 + len < usize::from(NONE),
            _ => shared == NONE && len == 0,
        };
        if !is_lane {
            return false;
        }
        sum += len;
    }
    more.next().is_none() && sum == tails.len()
}

/// The lanes of a bucket that has some, and what is behind them.
struct Laned<'b> {
    shared: &'b [u8; BUCKET],
    first: &'b [u8; BUCKET],
    lengths: &'b [u8; HALF],
    more: &'b [u8],
    tails: &'b [u8],
}

impl<'b> Laned<'b> {
    #[inline]
    fn of(bucket: &'b [u8]) -> Option<Laned<'b>> {
        let (shared, rest) = bucket.split_first_chunk::<BUCKET>()?;
        let (first, rest) = rest.split_first_chunk::<BUCKET>()?;
        let (lengths, rest) = rest.split_first_chunk::<HALF>()?;
        if shared[0] == WIDE {
            return None;
        }
        let (more, tails) = rest.split_at(shared[0].into());
        Some(Laned { shared, first, lengths, more, tails })
    }

    /// The first separator.
    #[inline]
    fn begin(&self) -> Begin<'b> {
        Begin { first: &self.first[..1], tail: &self.tails[..self.len(0, 0)] }
    }

    #[inline(always)]
    fn tail(&self, lane: usize, by: impl Instructions) -> &'b [u8] {
        let (mut start, long) = by.below(self.lengths, lane);
        // Those of the long ones that lie below.
        let (mut more, mut left) = (0, long & !(u32::MAX << lane));
        while left != 0 {
            start += usize::from(self.more[more]);
            (more, left) = (more + 1, left & (left - 1));
        }
        &self.tails[start..][..self.len(lane, more)]
    }

    /// How long a tail is, before which there are so many long ones.
    #[inline]
    fn len(&self, lane: usize, before: usize) -> usize {
        match self.lengths[lane % HALF] >> (4 * (lane / HALF)) & LONG {
            LONG => usize::from(LONG) + usize::from(self.more[before]),
            len => len.into(),
        }
    }
}

/// The first separator of a bucket, in two pieces.
pub(super) struct Begin<'b> {
    first: &'b [u8],
    tail: &'b [u8],
}

/// The first separator of a bucket that [is sound](is_sound).
#[inline]
pub(super) fn begin(bucket: &[u8]) -> Begin<'_> {
    if let Some(laned) = Laned::of(bucket) {
        return laned.begin();
    }
    let mut rest = &bucket[1..];
    let _shared = length(&mut rest);
    let len = length(&mut rest);
    Begin { first: &rest[..len], tail: &[] }
}

impl Begin<'_> {
    /// Whether it is above `key`, which lacks what was left out of the separators.
    #[inline]
    pub(super) fn is_above(&self, key: &[u8]) -> bool {
        let shared = self.shared_with(key);
        let byte = match shared.checked_sub(self.first.len()) {
            None => Some(self.first[shared]),
            Some(of_tail) => self.tail.get(of_tail).copied(),
        };
        byte.is_some_and(|byte| key.get(shared).is_none_or(|of_key| byte > *of_key))
    }

    /// How many bytes it has in common with `key`.
    #[inline(always)]
    fn shared_with(&self, key: &[u8]) -> usize {
        match common_prefix_len(self.first, key) {
            all if all == self.first.len() => all + common_prefix_len(self.tail, &key[all..]),
            some => some,
        }
    }

    /// Its [`head`](crate::key::head).
    pub(super) fn head(&self) -> u64 {
        let mut bytes = [0; size_of::<u64>()];
        let of_it = self.first.iter().chain(self.tail);
        bytes.iter_mut().zip(of_it).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(bytes)
    }
}

/// By which instructions buckets are walked: some that the processor has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walker(Lanes);

impl Walker {
    /// The widest that this processor has.
    pub(super) fn detect() -> Walker {
        Walker(Lanes::detect())
    }

    /// How many of the `count` separators of a bucket that [is sound](is_sound) are not above
    /// `key`, which lacks what was left out of them. The first one is not.
    #[inline]
    pub(super) fn up_to(self, bucket: &[u8], count: usize, key: &[u8]) -> usize {
        let Some(laned) = Laned::of(bucket) else { return up_to_wide(&bucket[1..], key) };
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the processor has them, or there would be no such walker.
            Lanes::Avx2 | Lanes::Avx512 => unsafe { x86::walk(&laned, count, key) },
            #[cfg(target_arch = "x86_64")]
            Lanes::Scalar => walk(&laned, count, key, x86::Sse2),
            #[cfg(not(target_arch = "x86_64"))]
            _ => walk(&laned, count, key, Scalar),
        }
    }
}

/// [`Walker::up_to`] by these instructions.
#[inline(always)]
fn walk(laned: &Laned<'_>, count: usize, key: &[u8], by: impl Instructions) -> usize {
    // Of the separator before the lane, which is not above the key, so much is the key's, too.
    let mut matched = laned.begin().shared_with(key);
    let mut lane = 1;
    loop {
        let next = key.get(matched).copied();
        let stops = by.stops(laned.shared, laned.first, matched as u8, next.unwrap_or(0));
        let stops = u64::from(stops) & (u64::MAX << lane);
        if stops == 0 {
            return count;
        }
        lane = stops.trailing_zeros() as usize;
        // It is above the one before where that is the key; or it shares as much with it as the
        // key, and then has a later byte than the key.
        if usize::from(laned.shared[lane]) < matched || next != Some(laned.first[lane]) {
            return lane;
        }
        let (tail, after) = (laned.tail(lane, by), &key[matched + 1..]);
        let same = common_prefix_len(tail, after);
        if same < tail.len() && after.get(same).is_none_or(|byte| tail[same] > *byte) {
            return lane;
        }
        matched += 1 + same;
        lane += 1;
    }
}

/// What looks at all lanes of a bucket at once. Who has a value of it runs where the processor has
/// the instructions.
trait Instructions: Copy {
    /// The lanes, lane 0 the lowest bit, that a walk does not pass whose key is the separator
    /// before up to `matched` and goes on with `next`: those that share less, and those that share
    /// as much and go on with no lesser byte. Those that share more are on the same side of the key
    /// as the one before.
    fn stops(self, shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32;

    /// The sum of the halves of lanes below `lane`, which is one; and which lanes are [`LONG`],
    /// lane 0 the lowest bit.
    fn below(self, lengths: &[u8; HALF], lane: usize) -> (usize, u32);
}

/// The twin that defines the others, in a form that compilers make few comparisons of.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[derive(Clone, Copy)]
struct Scalar;

#[cfg(any(test, not(target_arch = "x86_64")))]
impl Instructions for Scalar {
    #[inline(always)]
    fn stops(self, shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32 {
        let mut bits = [0u32; BUCKET];
        for lane in 0..BUCKET {
            let stops = (shared[lane] < matched) | ((shared[lane] == matched) & (first[lane] >= next));
            bits[lane] = u32::from(stops) << lane;
        }
        bits.iter().fold(0, |all, bit| all | bit)
    }

    #[inline(always)]
    fn below(self, lengths: &[u8; HALF], lane: usize) -> (usize, u32) {
        let half = |lane: usize| lengths[lane % HALF] >> (4 * (lane / HALF)) & LONG;
        let sum = (0..lane).map(|lane| usize::from(half(lane))).sum();
        (sum, (0..BUCKET).fold(0, |all, lane| all | u32::from(half(lane) == LONG) << lane))
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{BUCKET, HALF, Instructions, LONG, Laned};
    use std::arch::x86_64::*;

    /// Ones as many as lanes, and zeros as many.
    const MASKS: [u8; 2 * BUCKET] = {
        let mut masks = [0; 2 * BUCKET];
        let mut lane = 0;
        while lane < BUCKET {
            masks[lane] = u8::MAX;
            lane += 1;
        }
        masks
    };

    /// Ones below `lane`.
    #[inline(always)]
    fn mask(lane: usize) -> &'static [u8; BUCKET] {
        MASKS[BUCKET - lane..].first_chunk().expect("a lane is below the length of a bucket")
    }

    /// [`super::walk`] by AVX2.
    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
    pub(super) fn walk(laned: &Laned<'_>, count: usize, key: &[u8]) -> usize {
        super::walk(laned, count, key, Avx2)
    }

    /// What every such processor has.
    #[derive(Clone, Copy)]
    pub(super) struct Sse2;

    impl Instructions for Sse2 {
        #[inline(always)]
        fn stops(self, shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32 {
            // SAFETY: SSE2 is part of x86-64.
            unsafe {
                let ([shared_low, shared_high], [first_low, first_high]) = (halves(shared), halves(first));
                let low = stops_of_half(shared_low, first_low, matched, next);
                low | stops_of_half(shared_high, first_high, matched, next) << HALF
            }
        }

        #[inline(always)]
        fn below(self, lengths: &[u8; HALF], lane: usize) -> (usize, u32) {
            // SAFETY: SSE2 is part of x86-64.
            unsafe { below_by_sse2(lengths, lane) }
        }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn half(lanes: &[u8; HALF]) -> __m128i {
        // SAFETY: a vector has as many bytes.
        unsafe { _mm_loadu_si128(lanes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn halves(lanes: &[u8; BUCKET]) -> [__m128i; 2] {
        let (low, high) = lanes.split_first_chunk().expect("two halves");
        [half(low), half(high.first_chunk().expect("two halves"))]
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn stops_of_half(shared: __m128i, first: __m128i, matched: u8, next: u8) -> u32 {
        let (matched, next) = (_mm_set1_epi8(matched as i8), _mm_set1_epi8(next as i8));
        // There is no comparison of unsigned bytes: of two, the larger one is compared with one.
        let goes_on_no_less = _mm_cmpeq_epi8(_mm_max_epu8(first, next), first);
        let is_as_much = _mm_cmpeq_epi8(shared, matched);
        let is_no_less = _mm_cmpeq_epi8(_mm_max_epu8(shared, matched), shared);
        let passes = _mm_andnot_si128(_mm_and_si128(is_as_much, goes_on_no_less), is_no_less);
        !_mm_movemask_epi8(passes) as u32 & 0xffff
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn below_by_sse2(lengths: &[u8; HALF], lane: usize) -> (usize, u32) {
        let ([of_low, of_high], lengths) = (halves(mask(lane)), half(lengths));
        let ones = _mm_set1_epi8(LONG as i8);
        let low = _mm_and_si128(lengths, ones);
        // Bits that come from the byte beside are cut off again.
        let high = _mm_and_si128(_mm_srli_epi16::<4>(lengths), ones);
        // Two halves are at most 30.
        let both = _mm_add_epi8(_mm_and_si128(low, of_low), _mm_and_si128(high, of_high));
        let sums = _mm_sad_epu8(both, _mm_setzero_si128());
        let sum = _mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
        let long = |halves| _mm_movemask_epi8(_mm_cmpeq_epi8(halves, ones)) as u32;
        (sum as usize, long(low) | long(high) << HALF)
    }

    /// All lanes in one vector.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2;

    impl Instructions for Avx2 {
        #[inline(always)]
        fn stops(self, shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32 {
            // SAFETY: who has a value of this type runs where the processor has AVX2.
            unsafe { stops_by_avx2(shared, first, matched, next) }
        }

        #[inline(always)]
        fn below(self, lengths: &[u8; HALF], lane: usize) -> (usize, u32) {
            // SAFETY: as above.
            unsafe { below_by_avx2(lengths, lane) }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn all(lanes: &[u8; BUCKET]) -> __m256i {
        // SAFETY: a vector has as many bytes.
        unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn stops_by_avx2(shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32 {
        let (shared, first) = (all(shared), all(first));
        let (matched, next) = (_mm256_set1_epi8(matched as i8), _mm256_set1_epi8(next as i8));
        let goes_on_no_less = _mm256_cmpeq_epi8(_mm256_max_epu8(first, next), first);
        let is_as_much = _mm256_cmpeq_epi8(shared, matched);
        let is_no_less = _mm256_cmpeq_epi8(_mm256_max_epu8(shared, matched), shared);
        let passes = _mm256_andnot_si256(_mm256_and_si256(is_as_much, goes_on_no_less), is_no_less);
        !_mm256_movemask_epi8(passes) as u32
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn below_by_avx2(lengths: &[u8; HALF], lane: usize) -> (usize, u32) {
        let (lengths, ones) = (half(lengths), _mm256_set1_epi8(LONG as i8));
        let both = _mm256_set_m128i(_mm_srli_epi16::<4>(lengths), lengths);
        let halves = _mm256_and_si256(both, ones);
        let sums = _mm256_sad_epu8(_mm256_and_si256(halves, all(mask(lane))), _mm256_setzero_si256());
        let sums = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        let sum = _mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums)));
        (sum as usize, _mm256_movemask_epi8(_mm256_cmpeq_epi8(halves, ones)) as u32)
    }
}

/// [`Walker::up_to`] of a bucket without lanes.
fn up_to_wide(mut bytes: &[u8], key: &[u8]) -> usize {
    let (mut count, mut matched) = (0, 0);
    while !bytes.is_empty() {
        let shared = length(&mut bytes);
        let len = length(&mut bytes);
        let (rest, others) = bytes.split_at(len);
        match shared.cmp(&matched) {
            // It is above the one before where that is the key.
            Ordering::Less => break,
            // It is the one before where that is below the key.
            Ordering::Greater => {}
            Ordering::Equal => {
                let key = &key[matched..];
                let same = common_prefix_len(rest, key);
                if same < rest.len() && key.get(same).is_none_or(|byte| rest[same] > *byte) {
                    break;
                }
                matched += same;
            }
        }
        count += 1;
        bytes = others;
    }
    count
}

/// Takes a varint off the front of `bytes`, which [are sound](is_sound).
#[inline]
fn length(bytes: &mut &[u8]) -> usize {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return length;
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket(separators: &[Vec<u8>], prefix: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, &separators.iter().collect(), 0..separators.len(), prefix);
        bytes
    }

    /// [`Walker::up_to`] of any key, by all instructions alike.
    fn counted(bucket: &[u8], count: usize, key: &[u8]) -> usize {
        if begin(bucket).is_above(key) {
            return 0;
        }
        let mut all = Lanes::available().into_iter().map(|lanes| Walker(lanes).up_to(bucket, count, key));
        let by_first = all.next().unwrap();
        assert!(all.all(|other| other == by_first), "{key:?}");
        by_first
    }

    /// Keys at and beside the separators, and their beginnings.
    fn beside(separators: &[Vec<u8>]) -> impl Iterator<Item = Vec<u8>> {
        separators.iter().flat_map(|separator| {
            let cut = separator.len() / 2;
            let changed = |at: usize, by: u8| {
                let mut key = separator.clone();
                if let Some(byte) = key.get_mut(at) {
                    *byte = byte.wrapping_add(by);
                }
                key
            };
            let longer = [&separator[..], &[0]].concat();
            let shorter = separator[..separator.len().saturating_sub(1)].to_vec();
            [
                separator.clone(),
                longer,
                shorter,
                separator[..cut].to_vec(),
                changed(cut, 1),
                changed(cut, 255),
            ]
        })
    }

    proptest! {
        #[test]
        fn all_instructions_stop_and_add_alike(
            lanes: [u8; BUCKET], others: [u8; BUCKET], few in prop::collection::vec(0u8..3, 2 * BUCKET),
            matched: u8, next: u8, lane in 0..BUCKET,
        ) {
            let (some, rest) = few.split_at(BUCKET);
            let (some, rest) = (some.try_into().unwrap(), rest.try_into().unwrap());
            for (shared, first, matched, next) in
                [(lanes, others, matched, next), (some, rest, matched % 3, next % 3)]
            {
                let lengths = shared.first_chunk().unwrap();
                let by = (Scalar.stops(&shared, &first, matched, next), Scalar.below(lengths, lane));
                #[cfg(target_arch = "x86_64")]
                for lanes in Lanes::available() {
                    prop_assert_eq!(by, match lanes {
                        Lanes::Scalar => {
                            (x86::Sse2.stops(&shared, &first, matched, next), x86::Sse2.below(lengths, lane))
                        }
                        _ => (x86::Avx2.stops(&shared, &first, matched, next), x86::Avx2.below(lengths, lane)),
                    });
                }
            }
        }
    }

    proptest! {
        #[test]
        fn with_lanes_and_without_it_counts_the_separators_that_are_not_above(
            mut separators in prop::collection::vec(prop::collection::vec(0u8..3, 0..12), 1..=BUCKET),
            keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..14), 0..40),
            distinct: bool,
        ) {
            separators.sort();
            if distinct {
                separators.retain(|separator| !separator.is_empty());
                separators.dedup();
            }
            prop_assume!(!separators.is_empty());
            let narrow = bucket(&separators, 0);
            prop_assert!(!distinct || narrow[0] != WIDE, "they fit into lanes");
            // The same behind as many bytes as no lane can count.
            let far = |key: &Vec<u8>| [&[7; 300][..], key].concat();
            let wide = bucket(&separators.iter().map(far).collect::<Vec<_>>(), 0);
            prop_assert_eq!(wide[0], WIDE);
            for key in beside(&separators).chain(keys) {
                let expected = separators.partition_point(|separator| *separator <= key);
                prop_assert_eq!(counted(&narrow, separators.len(), &key), expected, "{:?}", key);
                prop_assert_eq!(counted(&wide, separators.len(), &far(&key)), expected, "{:?}, wide", key);
            }
        }

        #[test]
        fn what_passes_for_a_bucket_is_walked_to_its_end_at_most(
            mut separators in prop::collection::vec(prop::collection::vec(0u8..3, 1..12), 1..=BUCKET),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
            wide: bool,
            keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..300), 0..20),
        ) {
            separators.sort();
            if wide {
                separators[0] = Vec::new();
            } else {
                separators.dedup();
            }
            let count = separators.len();
            let mut bytes = bucket(&separators, 0);
            prop_assert!(is_sound(&bytes, count));
            prop_assert!(!is_sound(&bytes, count - 1) && (count == BUCKET || !is_sound(&bytes, count + 1)));
            for (at, byte) in &changes {
             let at = at.index(bytes.len());
             bytes[at] = *byte;
         }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            for count in 1..=BUCKET {
                if is_sound(&bytes, count) {
                    for key in beside(&separators).chain(keys.iter().cloned()) {
                        prop_assert!(counted(&bytes, count, &key) <= count);
                        prop_assert!(Walker::detect().up_to(&bytes, count, &key) <= count);
                    }
                }
            }
        }

        #[test]
        fn all_bytes_and_lengths(
            mut separators in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..259), 1..=BUCKET),
            shared in prop::collection::vec(0usize..259, BUCKET),
        ) {
            // Each begins as the one before does.
            for i in 1..separators.len() {
                let (before, own) = separators.split_at_mut(i);
                let len = shared[i].min(before[i - 1].len()).min(own[0].len());
                own[0][..len].copy_from_slice(&before[i - 1][..len]);
            }
            separators.sort();
            let bytes = bucket(&separators, 0);
            for key in beside(&separators) {
                let expected = separators.partition_point(|separator| *separator <= key);
                prop_assert_eq!(counted(&bytes, separators.len(), &key), expected, "{:?}", key);
            }
        }
    }
}
