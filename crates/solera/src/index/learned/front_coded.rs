//! Ascending separators without what each shares with the one before: `FrontCoded`, buckets of
//! 32.
//!
//! The `bucket`s stand one behind the other, without the prefix that all separators share. `locate`
//! counts the separators that are not above a key. An S-tree holds the first eight bytes of each
//! bucket, and leads to the last one that begins no later than the key. Where several begin with
//! the key's eight bytes, their first separators are compared: a bucket holds its first one whole.
//!
//! What must hold: the answer is exact. What `decode` lets pass may give wrong numbers, but none
//! above `len`.
//!
//! Caller: `index::learned`.

use super::{
    super::{separators::Separators, sorted::compare_with_prefix},
    bucket::{self, BUCKET, Walker},
    bucket_of_16::{self, SIXTEEN},
};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    key::head,
    prefetch::{prefetch, prefetch_lines},
};
use solera_model::stree::STree;
use std::cmp::Ordering;

/// Cache lines of most buckets of paths.
const BUCKET_LINES: usize = 5;
/// Cache lines of a bucket: where it begins, two of its own, and now and then those of another. The
/// walk in it, whose steps the processor cannot foresee, is worth as much again.
const WALK_LINES: f64 = 6.5;

/// Separators in buckets.
#[derive(Clone, Debug)]
pub(super) struct FrontCoded {
    /// What all separators begin with.
    prefix: Box<[u8]>,
    /// The head of each bucket's first separator.
    heads: STree,
    /// Where each bucket begins in `bytes`.
    starts: Box<[u32]>,
    bytes: Box<[u8]>,
    len: u32,
    walker: Walker,
}

impl FrontCoded {
    /// These separators, which all begin with `prefix`. `None` if they take more than 4 GiB.
    pub(super) fn new(separators: &Separators, prefix: &[u8]) -> Option<FrontCoded> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::with_capacity(separators.len().div_ceil(BUCKET)));
        for first in (0..separators.len()).step_by(BUCKET) {
            starts.push(u32::try_from(bytes.len()).ok()?);
            bucket::push(&mut bytes, separators, first..separators.len().min(first + BUCKET), prefix.len());
        }
        let firsts =
            (0..separators.len()).step_by(BUCKET).map(|first| &separators.get(first)[prefix.len()..]);
        Some(FrontCoded {
            prefix: prefix.into(),
            heads: STree::new(&firsts.map(head).collect::<Vec<_>>()),
            starts: starts.into(),
            bytes: bytes.into(),
            len: separators.len() as u32,
            walker: Walker::detect(),
        })
    }

    /// Puts `begin`, which was left out of all separators, before their prefix.
    pub(super) fn put_behind(&mut self, begin: &[u8]) {
        self.prefix = [begin, &self.prefix].concat().into();
    }

    /// Appends the prefix (length as varint, bytes), how many separators there are (varint), and
    /// the buckets (each as the prefix).
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.prefix);
        put_varint(out, self.len.into());
        (0..self.starts.len()).for_each(|number| put_bytes(out, self.bucket(number)));
    }

    /// Reads what [`FrontCoded::encode`] wrote. What passes may say wrong numbers, but none above
    /// [`FrontCoded::len`].
    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<FrontCoded, DecodeError> {
        let prefix = decoder.bytes("what separators begin with")?.into();
        let len = decoder.varint_up_to(u32::MAX.into(), "a count of separators")? as usize;
        let buckets = len.div_ceil(BUCKET);
        // Each takes two bytes at least.
        if buckets > decoder.remaining() / 2 {
            return decoder.fail("as many buckets as separators need");
        }
        let (mut bytes, mut starts) = (Vec::with_capacity(decoder.remaining()), Vec::with_capacity(buckets));
        let mut heads = Vec::with_capacity(buckets);
        for number in 0..buckets {
            let Ok(start) = u32::try_from(bytes.len()) else {
                return decoder.fail("buckets of less than 4 GiB");
            };
            starts.push(start);
            let bucket = decoder.bytes("a bucket")?;
            if !bucket::is_sound(bucket, BUCKET.min(len - number * BUCKET)) {
                return decoder.fail("a bucket of separators");
            }
            heads.push(bucket::begin(bucket).head());
            bytes.extend_from_slice(bucket);
        }
        if !heads.is_sorted() {
            return decoder.fail("buckets that ascend");
        }
        let (heads, len, walker) = (STree::new(&heads), len as u32, Walker::detect());
        Ok(FrontCoded { prefix, heads, starts: starts.into(), bytes: bytes.into(), len, walker })
    }

    /// Reads what was written when buckets were of sixteen. The separators take `bytes_max` bytes
    /// at most.
    pub(super) fn decode_sixteens(
        decoder: &mut Decoder<'_>,
        bytes_max: u64,
    ) -> Result<FrontCoded, DecodeError> {
        let prefix = decoder.bytes("what separators begin with")?;
        let len = decoder.varint_up_to(u32::MAX.into(), "a count of separators")? as usize;
        let (mut separators, mut bytes_left) = (Vec::new(), bytes_max);
        while separators.len() < len {
            let (bucket, count) = (decoder.bytes("a bucket")?, SIXTEEN.min(len - separators.len()));
            if bucket_of_16::append(&mut separators, bucket, count, &mut bytes_left).is_none() {
                return decoder.fail("a bucket of separators");
            }
        }
        if !separators.is_sorted() {
            return decoder.fail("separators that ascend");
        }
        let separators: Separators = separators.iter().collect();
        match FrontCoded::new(&separators, &[]) {
            Some(coded) => Ok(FrontCoded { prefix: [prefix, separators.begin()].concat().into(), ..coded }),
            None => decoder.fail("separators of less than 4 GiB"),
        }
    }

    /// How many separators are not above `key`. `early` is told half a bucket beside, before the
    /// bucket is walked.
    #[inline]
    pub(super) fn locate(&self, key: &[u8], early: impl Fn(usize)) -> usize {
        match compare_with_prefix(key, &self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let rest = &key[self.prefix.len()..];
        let Some(bucket) = self.begun(rest).checked_sub(1) else { return 0 };
        early(bucket * BUCKET + BUCKET / 2);
        bucket * BUCKET + self.up_to(bucket, rest)
    }

    /// How many buckets begin with a separator that is not above `key`.
    #[inline]
    fn begun(&self, key: &[u8]) -> usize {
        let x = head(key);
        let up_to =
            self.heads.up_to_early(x, |near| prefetch(self.starts.as_ptr().wrapping_add(near).cast()));
        // Heads do not tell those that have the key's own.
        let is_above = |bucket: usize| bucket::begin(self.bucket(bucket)).is_above(key);
        match up_to.checked_sub(1).filter(|&last| self.heads.get(last) == x && is_above(last)) {
            None => up_to,
            Some(last) => {
                let (mut low, mut high) = (x.checked_sub(1).map_or(0, |below| self.heads.up_to(below)), last);
                while low < high {
                    let middle = low.midpoint(high);
                    if is_above(middle) { high = middle } else { low = middle + 1 }
                }
                low
            }
        }
    }

    /// How many separators of a bucket are not above `key`.
    #[inline]
    fn up_to(&self, number: usize, key: &[u8]) -> usize {
        let bucket = self.bucket(number);
        // A walk goes from tail to tail and would wait for each line anew.
        prefetch_lines::<BUCKET_LINES>(bucket.as_ptr());
        self.walker.up_to(bucket, BUCKET.min(self.len() - number * BUCKET), key)
    }

    #[inline]
    fn bucket(&self, number: usize) -> &[u8] {
        let start = self.starts[number] as usize;
        let end = self.starts.get(number + 1).map_or(self.bytes.len(), |&end| end as usize);
        &self.bytes[start..end]
    }

    /// How many buckets there are, for people.
    pub(super) fn describe(&self) -> String {
        format!("{} buckets, found by their first bytes", self.starts.len())
    }

    /// Cache lines that a lookup touches.
    pub(super) fn lines(&self) -> f64 {
        self.heads.lines() as f64 + WALK_LINES
    }

    /// Separators.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.prefix.len() + self.heads.bytes() + size_of_val(&*self.starts) + self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    fn check(separators: &[Vec<u8>], keys: &[Vec<u8>], prefix: usize) {
        let built: Separators = separators.iter().collect();
        let coded = FrontCoded::new(&built, &separators[0][..prefix]).unwrap();
        assert_eq!(coded.len(), separators.len());
        let own = separators.iter().flat_map(|separator| {
            let (mut above, mut below) = (separator.clone(), separator.clone());
            above.push(0);
            below.pop();
            [separator.clone(), above, below]
        });
        for key in own.chain(keys.iter().cloned()) {
            let expected = separators.partition_point(|separator| *separator <= key);
            let told = Cell::new(None);
            assert_eq!(coded.locate(&key, |near| told.set(Some(near))), expected, "{key:?}");
            assert!(told.get().is_none_or(|near| near.abs_diff(expected) <= BUCKET / 2), "{key:?}");
        }
    }

    proptest! {
        #[test]
        fn keys_are_located_where_counting_does(
            prefix in prop::collection::vec(0u8..2, 0..4),
            mut separators in prop::collection::vec(prop::collection::vec(0u8..3, 0..12), 1..80),
            keys in prop::collection::vec(prop::collection::vec(0u8..3, 0..14), 0..40),
        ) {
            separators.iter_mut().for_each(|separator| *separator = [&prefix[..], separator].concat());
            separators.sort();
            check(&separators, &keys, prefix.len());
        }
    }

    /// Eight bytes do not tell most of them; nor the first of a bucket from the key.
    #[test]
    fn among_buckets_that_begin_alike_whole_separators_are_compared() {
        let stems = [&b"a"[..], b"all of these begin alike", b"all of this, too", b"z"];
        let behind = |stem: &'static [u8]| (0..400u32).map(move |i| [stem, &(i * 7).to_be_bytes()].concat());
        let separators: Vec<Vec<u8>> = stems.into_iter().flat_map(behind).collect();
        let coded = FrontCoded::new(&separators.iter().collect(), &[]).unwrap();
        let heads: Vec<u64> = separators.iter().step_by(BUCKET).map(|first| head(first)).collect();
        assert!(heads.windows(9).any(|nine| nine[0] == nine[8]), "a run of buckets that begin alike");
        assert_eq!(coded.starts.len(), heads.len());
        let beside =
            [&b"all of these begin alik"[..], b"all of these begin alikf", b"all of th", b"all of tg", b""];
        check(&separators, &beside.map(<[u8]>::to_vec), 0);
    }

    #[test]
    fn long_separators_have_lengths_of_several_bytes() {
        let separators: Vec<Vec<u8>> = (0..40u8).map(|i| [vec![7; 60_000], vec![i; 300]].concat()).collect();
        check(&separators, &[vec![7; 60_001], vec![8], vec![]], 100);
        check(&separators, &[], 0);
    }
}
