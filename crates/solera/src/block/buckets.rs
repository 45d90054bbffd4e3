//! A block's hash index: `fill` writes it, `find` asks it, `count` says how many buckets there
//! are.
//!
//! A bucket is a byte: the rank of a key's first entry, or 255 for none. A key is put into the
//! first empty bucket from its hash's on (linear probing). Three quarters are taken if all keys
//! differ. A block of more than 255 entries has no buckets. RocksDB's (`kDataBlockBinaryAndHash`)
//! has the same load, but names nothing for keys that share a bucket.
//!
//! What must hold: buckets are a hint. `read` looks whether the entry named has the key, and
//! searches the heads if none has. So bytes that lie change no answer.
//!
//! Callers: `block::build` fills, `block::format` counts, `block::read` asks.

/// A block of more entries has no buckets: ranks and a mark are a byte.
pub(super) const ENTRIES_MAX: usize = NONE as usize;
/// What an empty bucket holds.
const NONE: u8 = 255;

/// Buckets of a block of `n` entries, of which three quarters are taken if all have keys of their
/// own; 0 if it has none.
pub(super) fn count(n: usize) -> usize {
    if n > ENTRIES_MAX { 0 } else { (4 * n).div_ceil(3) }
}

/// The bucket of this hash among `count`: less than that, if it is not 0.
#[inline]
fn bucket(hash: u64, count: usize) -> usize {
    (((hash >> 32) * count as u64) >> 32) as usize
}

/// Numbers of the buckets among `count` in the order in which a key of this hash is looked for.
#[inline]
fn places(hash: u64, count: usize) -> impl Iterator<Item = usize> {
    let first = bucket(hash, count);
    (first..count).chain(0..first)
}

/// Fills the buckets of distinct keys, fewer than there are buckets, each given by its hash and the
/// rank of its first entry, less than [`ENTRIES_MAX`].
pub(super) fn fill(buckets: &mut [u8], keys: impl Iterator<Item = (u64, usize)>) {
    buckets.fill(NONE);
    for (hash, rank) in keys {
        let empty = places(hash, buckets.len()).find(|&place| buckets[place] == NONE);
        if let Some(empty) = empty {
            buckets[empty] = rank as u8;
        }
    }
}

/// The first rank that a key of this hash may have for which `is_it` holds. Asks for each bucket
/// once at most.
#[inline]
pub(super) fn find(buckets: &[u8], hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
    // One loop, whose first step mostly is the last: two chained ones cost 60 instructions more.
    let mut place = bucket(hash, buckets.len());
    for _ in 0..buckets.len() {
        let rank = *buckets.get(place)?;
        if rank == NONE {
            return None;
        }
        if is_it(rank.into()) {
            return Some(rank.into());
        }
        place = if place + 1 == buckets.len() { 0 } else { place + 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;

    #[test]
    fn every_key_is_named_and_few_others_before_it() {
        for n in [1, 2, 55, ENTRIES_MAX] {
            let hashes: Vec<u64> = (0..n as u64).map(|i| key::hash(&i.to_be_bytes())).collect();
            let mut buckets = vec![7; count(n)];
            assert!(buckets.len() > n);
            fill(&mut buckets, hashes.iter().copied().zip(0..));
            let looks = |(i, &hash): (usize, &u64)| {
                let mut others = 0;
                let found = find(&buckets, hash, |rank| {
                    others += usize::from(rank != i);
                    rank == i
                });
                assert_eq!(found, Some(i));
                others
            };
            let looks: Vec<_> = hashes.iter().enumerate().map(looks).collect();
            // Knuth: (1 + 1 / (1 - 0.75)) / 2 = 2.5 buckets on average in large tables, so 1.5
            // others.
            assert!(looks.iter().sum::<usize>() <= 2 * n, "{looks:?}");
        }
    }

    #[test]
    fn buckets_without_an_end_are_looked_through_once() {
        let asked = |buckets: &[u8], hash: u64| {
            let mut asked = 0;
            let found = find(buckets, hash, |_| {
                asked += 1;
                false
            });
            assert_eq!(found, None);
            asked
        };
        assert_eq!(asked(&[3; 9], u64::MAX), 9);
        assert_eq!(asked(&[NONE; 9], 5), 0);
        assert_eq!((asked(&[], u64::MAX), count(ENTRIES_MAX + 1)), (0, 0));
    }
}
