//! Ascending separators in little memory: each without what it shares with the one before.
//!
//! Owns [`FrontCoded`]. Sixteen separators are a *bucket*, whose first is whole but for the prefix that all share. A bucket is read
//! from its beginning; of a key, no byte is compared twice on the way.
//!
//! ```text
//! bucket    = separator*                                 16, fewer in the last
//! separator = shared length rest[length]                 varints; the first of a bucket shares nothing
//! ```

use super::super::{separators::Separators, sorted::compare_with_prefix};
use crate::{codec::put_varint, key::common_prefix_len};
use std::cmp::Ordering;

/// Separators of a bucket: the whole ones are then a few bytes of each, and a bucket of paths is two cache lines.
pub(super) const BUCKET: usize = 16;

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
        let mut before: &[u8] = &[];
        for (i, separator) in separators.iter().enumerate() {
            let rest = &separator[prefix.len()..];
            let shared = if i % BUCKET == 0 {
                starts.push(u32::try_from(bytes.len()).ok()?);
                0
            } else {
                common_prefix_len(before, rest)
            };
            put_varint(&mut bytes, shared as u64);
            put_varint(&mut bytes, (rest.len() - shared) as u64);
            bytes.extend_from_slice(&rest[shared..]);
            before = rest;
        }
        let len = separators.len() as u32;
        Some(FrontCoded { prefix: prefix.into(), starts: starts.into(), bytes: bytes.into(), len })
    }

    /// How many separators are not above `key`, of which `buckets` buckets, or all but the last of these, begin with one that is
    /// not.
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
    fn up_to(&self, bucket: usize, key: &[u8]) -> usize {
        let start = self.starts[bucket] as usize;
        let end = self.starts.get(bucket + 1).map_or(self.bytes.len(), |&end| end as usize);
        let mut bytes = &self.bytes[start..end];
        // Of the separator before, which is not above the key, so much is the key's, too.
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

    /// Separators.
    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// Bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        self.prefix.len() + size_of_val(&*self.starts) + self.bytes.len()
    }
}

/// Takes a varint off the front of `bytes`, which were written here.
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
