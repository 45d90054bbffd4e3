//! A block's hash index: `fill` writes it, `ranks` asks it, `count` says how many buckets there
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

/// Ranks of entries that may have a key of this hash.
#[inline]
pub(super) fn ranks(buckets: &[u8], hash: u64) -> impl Iterator<Item = usize> {
    places(hash, buckets.len()).map(|place| buckets[place]).take_while(|&rank| rank != NONE).map(usize::from)
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
            let looks = |(i, &hash): (usize, &u64)| ranks(&buckets, hash).position(|rank| rank == i);
            let looks: Vec<_> = hashes.iter().enumerate().map(looks).collect();
            assert!(looks.iter().all(Option::is_some), "{looks:?}");
            // Knuth: (1 + 1 / (1 - 0.75)) / 2 = 2.5 buckets on average in large tables, so 1.5
            // others.
            assert!(looks.iter().flatten().sum::<usize>() <= 2 * n, "{looks:?}");
        }
    }

    #[test]
    fn buckets_without_an_end_are_looked_through_once() {
        assert_eq!(ranks(&[3; 9], u64::MAX).count(), 9);
        assert_eq!(ranks(&[NONE; 9], 5).count(), 0);
        assert_eq!((ranks(&[], u64::MAX).count(), count(ENTRIES_MAX + 1)), (0, 0));
    }
}
