//! Ascending separators without what each shares with the one before: `FrontCoded`, buckets of
//! sixteen.
//!
//! The `bucket`s stand one behind the other, without the prefix that all separators share. `locate`
//! counts the separators that are not above a key, given how many buckets begin at or below it, or
//! one more. It takes the last of these, or the one before.
//!
//! What must hold: the answer is exact if the number of buckets is right or one too many. What
//! `decode` lets pass may give wrong numbers, but none above `len`.
//!
//! Caller: `index::learned`, whose nodes find the bucket.

use super::{
    super::{separators::Separators, sorted::compare_with_prefix},
    bucket::{self, BUCKET},
};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    prefetch::prefetch_lines,
};
use std::cmp::Ordering;

/// Cache lines of most buckets of paths.
const BUCKET_LINES: usize = 4;

/// Separators in buckets.
#[derive(Clone, Debug)]
pub(super) struct FrontCoded {
    /// What all separators begin with.
    prefix: Box<[u8]>,
    /// Where each bucket begins in `bytes`.
    starts: Box<[u32]>,
    bytes: Box<[u8]>,
    len: u32,
}

impl FrontCoded {
    /// These separators, which all begin with `prefix`. `None` if they take more than 4 GiB.
    pub(super) fn new(separators: &Separators, prefix: &[u8]) -> Option<FrontCoded> {
        let (mut bytes, mut starts) = (Vec::new(), Vec::with_capacity(separators.len().div_ceil(BUCKET)));
        for first in (0..separators.len()).step_by(BUCKET) {
            starts.push(u32::try_from(bytes.len()).ok()?);
            bucket::push(&mut bytes, separators, first..separators.len().min(first + BUCKET), prefix.len());
        }
        let len = separators.len() as u32;
        Some(FrontCoded { prefix: prefix.into(), starts: starts.into(), bytes: bytes.into(), len })
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
        for number in 0..buckets {
            let Ok(start) = u32::try_from(bytes.len()) else {
                return decoder.fail("buckets of less than 4 GiB");
            };
            starts.push(start);
            let bucket = decoder.bytes("a bucket")?;
            if !bucket::is_sound(bucket, BUCKET.min(len - number * BUCKET)) {
                return decoder.fail("a bucket of separators");
            }
            bytes.extend_from_slice(bucket);
        }
        Ok(FrontCoded { prefix, starts: starts.into(), bytes: bytes.into(), len: len as u32 })
    }

    /// How many separators are not above `key`, of which `buckets` buckets, or all but the last of
    /// these, begin with one that is not.
    #[inline]
    pub(super) fn locate(&self, key: &[u8], buckets: usize) -> usize {
        match compare_with_prefix(key, &self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.len(),
            Ordering::Equal => {}
        }
        let rest = &key[self.prefix.len()..];
        for bucket in (buckets.saturating_sub(2)..buckets).rev() {
            let up_to = self.up_to(bucket, rest);
            if up_to > 0 {
                return bucket * BUCKET + up_to;
            }
        }
        0
    }

    /// How many separators of a bucket are not above `key`.
    #[inline]
    fn up_to(&self, number: usize, key: &[u8]) -> usize {
        let bucket = self.bucket(number);
        // A walk goes from tail to tail and would wait for each line anew.
        prefetch_lines::<BUCKET_LINES>(bucket.as_ptr());
        bucket::up_to(bucket, BUCKET.min(self.len() - number * BUCKET), key)
    }

    #[inline]
    fn bucket(&self, number: usize) -> &[u8] {
        let start = self.starts[number] as usize;
        let end = self.starts.get(number + 1).map_or(self.bytes.len(), |&end| end as usize);
        &self.bytes[start..end]
    }

    /// Buckets.
    pub(super) fn buckets(&self) -> usize {
        self.starts.len()
    }

    /// Separators.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.prefix.len() + size_of_val(&*self.starts) + self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
            let buckets = separators.iter().step_by(BUCKET).filter(|first| **first <= key).count();
            for told in [buckets, (buckets + 1).min(separators.len().div_ceil(BUCKET))] {
                assert_eq!(coded.locate(&key, told), expected, "{key:?}, {told} buckets");
            }
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

    #[test]
    fn long_separators_have_lengths_of_several_bytes() {
        let separators: Vec<Vec<u8>> = (0..40u8).map(|i| [vec![7; 60_000], vec![i; 300]].concat()).collect();
        check(&separators, &[vec![7; 60_001], vec![8], vec![]], 100);
        check(&separators, &[], 0);
    }
}
