//! At most sixteen ascending separators in little memory: `push` writes a bucket, `up_to` looks a
//! key up in it.
//!
//! Each separator is kept without what it shares with the one before. Lanes at the front hold how
//! much each shares and with which byte it goes on. A few steps over all sixteen at once lead to
//! the place. What a key has in common with a separator is not compared again. Where numbers do not
//! fit a byte, the bucket has no lanes.
//!
//! What must hold: `is_sound` says whether bytes are a bucket that `up_to` may walk; it then gives
//! no more than there are.
//!
//! Callers: `index::learned::front_coded`; `index::learned` takes the size, `BUCKET`.

use super::super::separators::Separators;
use crate::{
    codec::{Decoder, put_varint},
    key::common_prefix_len,
};
use std::{cmp::Ordering, ops::Range};

/// Separators of a bucket: the whole ones are then a few bytes of each, and a bucket of paths is
/// two or three cache lines.
pub(super) const BUCKET: usize = 16;

/// First byte of a bucket without lanes.
const WIDE: u8 = 1;
/// What a lane without a separator shares; no separator of a bucket with lanes is that long.
const NONE: u8 = u8::MAX;
/// Bytes of a bucket's lanes.
const LANES_BYTES: usize = 3 * BUCKET;

/// Writes the separators in `range`, at most [`BUCKET`], without their first `prefix` bytes, behind
/// what `bytes` has.
///
/// ```text
/// bucket = 0 shared[1..16] first[16] tail length[16] tail*   numbers and first bytes: one byte for each separator
///        | 1 (shared length rest[length])*                   varints: where a number would not fit
/// rest   = first tail                                        of a separator that goes on beyond what it shares
/// ```
///
/// The zero in front is what the first separator shares. Lanes that no separator has share
/// [`NONE`].
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
    let at = bytes.len();
    bytes.resize(at + LANES_BYTES, 0);
    bytes[at..at + BUCKET].fill(NONE);
    for (lane, i) in range.clone().enumerate() {
        let (first, tail) = own(i).split_first().expect("it is not empty");
        let lanes = &mut bytes[at + lane..];
        (lanes[0], lanes[BUCKET], lanes[2 * BUCKET]) = (shared(i) as u8, *first, tail.len() as u8);
        bytes.extend_from_slice(tail);
    }
}

/// Whether these bytes are a bucket of `count` separators, at least one, as far as [`up_to`] relies
/// on it: it then gives no more than `count`.
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
    let Some((lanes, tails)) = bucket.split_first_chunk::<LANES_BYTES>() else { return false };
    let (shared, tail_lens) = (&lanes[..BUCKET], &lanes[2 * BUCKET..]);
    // What a walk has matched is never as much as a lane without a separator shares.
    let len = |lane: usize| usize::from(shared[lane]) + 1 + usize::from(tail_lens[lane]);
    shared[0] == 0
        && (0..count).all(|lane| len(lane) < usize::from(NONE))
        && (count..BUCKET).all(|lane| shared[lane] == NONE && tail_lens[lane] == 0)
        && tail_lens.iter().copied().map(usize::from).sum::<usize>() == tails.len()
}

/// How many of the `count` separators of a bucket are not above `key`, which lacks what was left
/// out of them.
#[inline]
pub(super) fn up_to(bucket: &[u8], count: usize, key: &[u8]) -> usize {
    let Some((lanes, tails)) =
        bucket.split_first_chunk::<LANES_BYTES>().filter(|(lanes, _)| lanes[0] != WIDE)
    else {
        return up_to_wide(&bucket[1..], key);
    };
    let [shared, first, tail_lens] = [0, 1, 2].map(|array: usize| {
        lanes[array * BUCKET..].first_chunk::<BUCKET>().expect("there are three of them")
    });
    // Of the separator before the lane, which is not above the key, so much is the key's, too.
    let (mut lane, mut matched) = (0, 0);
    loop {
        let next = key.get(matched).copied();
        let stops = stops(shared, first, matched as u8, next.unwrap_or(0)) & (u32::MAX << lane);
        if stops == 0 {
            return count;
        }
        lane = stops.trailing_zeros() as usize;
        // It is above the one before where that is the key; or it shares as much with it as the
        // key, and then has a later byte than the key.
        if usize::from(shared[lane]) < matched || next != Some(first[lane]) {
            return lane;
        }
        let start = sum_below(tail_lens, lane);
        let tail = &tails[start..][..usize::from(tail_lens[lane])];
        let after = &key[matched + 1..];
        let same = common_prefix_len(tail, after);
        if same < tail.len() && after.get(same).is_none_or(|byte| tail[same] > *byte) {
            return lane;
        }
        matched += 1 + same;
        lane += 1;
    }
}

/// The lanes, lane 0 the lowest bit, that a walk does not pass whose key is the separator before up
/// to `matched` and goes on with `next`: those that share less, and those that share as much and go
/// on with no lesser byte. Those that share more are on the same side of the key as the one before.
#[inline]
fn stops(shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { x86::stops(shared, first, matched, next) };
    #[cfg(not(target_arch = "x86_64"))]
    stops_scalar(shared, first, matched, next)
}

/// The twin that defines [`stops`], in a form that compilers make few comparisons of.
#[cfg(any(test, not(target_arch = "x86_64")))]
fn stops_scalar(shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32 {
    let mut bits = [0u16; BUCKET];
    for lane in 0..BUCKET {
        let stops = (shared[lane] < matched) | ((shared[lane] == matched) & (first[lane] >= next));
        bits[lane] = u16::from(stops) << lane;
    }
    bits.iter().fold(0, |all, bit| all | u32::from(*bit))
}

/// The sum of the lanes below `lane`, which is one.
#[inline]
fn sum_below(lanes: &[u8; BUCKET], lane: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 is part of x86-64.
    return unsafe { x86::sum_below(lanes, lane) };
    #[cfg(not(target_arch = "x86_64"))]
    sum_below_scalar(lanes, lane)
}

/// The twin that defines [`sum_below`].
#[cfg(any(test, not(target_arch = "x86_64")))]
fn sum_below_scalar(lanes: &[u8; BUCKET], lane: usize) -> usize {
    lanes[..lane].iter().copied().map(usize::from).sum()
}

/// All lanes at once, by the instructions that every such processor has.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::BUCKET;
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

    #[inline]
    #[target_feature(enable = "sse2")]
    fn vector(lanes: &[u8; BUCKET]) -> __m128i {
        // SAFETY: a vector has as many bytes.
        unsafe { _mm_loadu_si128(lanes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn stops(shared: &[u8; BUCKET], first: &[u8; BUCKET], matched: u8, next: u8) -> u32 {
        let (shared, first) = (vector(shared), vector(first));
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
    pub(super) fn sum_below(lanes: &[u8; BUCKET], lane: usize) -> usize {
        let mask = MASKS[BUCKET - lane..].first_chunk().expect("a lane is below the length of a bucket");
        let sums = _mm_sad_epu8(_mm_and_si128(vector(lanes), vector(mask)), _mm_setzero_si128());
        let high = _mm_unpackhi_epi64(sums, sums);
        (_mm_cvtsi128_si64(sums) + _mm_cvtsi128_si64(high)) as usize
    }
}

/// [`up_to`] of a bucket without lanes.
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
                let expected = stops_scalar(&shared, &first, matched, next);
                prop_assert_eq!(stops(&shared, &first, matched, next), expected);
                prop_assert_eq!(sum_below(&shared, lane), sum_below_scalar(&shared, lane));
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
                prop_assert_eq!(up_to(&narrow, separators.len(), &key), expected, "{:?}", key);
                prop_assert_eq!(up_to(&wide, separators.len(), &far(&key)), expected, "{:?}, wide", key);
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
                        prop_assert!(up_to(&bytes, count, &key) <= count);
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
                prop_assert_eq!(up_to(&bytes, separators.len(), &key), expected, "{:?}", key);
            }
        }
    }
}
