//! Where walks have lately read values by short reads: `Heat`, a sample of keys, and `Sample`, a
//! copy of it (`WalkReads`).
//!
//! A value in a log costs a walk a read of its own. So do values that are scattered over many
//! sorted files, nearly. Every 64th such read leaves its key; the last 4,096 keys are kept.
//! `Sample::reads_in` turns the keys of a range back into a number of reads.
//!
//! What must hold: `note` never waits; where the lock is taken, the key is lost. `forget` removes a
//! range once its values are in key order.
//!
//! Callers: `db::iterator` notes reads, and every 1,024th has `engine` look for conversions;
//! `engine::convert` samples, to rank cells, and forgets a range that it has converted.

use crate::{
    compaction::WalkReads,
    key::{KeyEnd, KeyRange},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};
use std::collections::VecDeque;

/// Of so many reads one is noted.
const READS_PER_KEY: u64 = 64;
/// So many keys are remembered: those that were read last.
const KEYS_MAX: usize = 4096;
/// A range is divided where at least so many keys are in each part.
const KEYS_PER_PART: usize = 4;
/// After so many reads, a worker looks for conversions that walks have paid for.
const READS_PER_LOOK: u64 = 16 * READS_PER_KEY;

/// Keys of values that walks read by short reads.
#[derive(Debug, Default)]
pub struct Heat {
    reads: AtomicU64,
    keys: Mutex<VecDeque<Box<[u8]>>>,
}

/// What a [`Heat`] knew at one moment; by default nothing.
#[derive(Debug, Default)]
pub struct Sample {
    /// Ascending.
    keys: Vec<Box<[u8]>>,
}

impl Heat {
    /// A walk has read the value of `key` by a short read. Whether it is time to look what walks
    /// have paid for.
    #[inline]
    pub fn note(&self, key: &[u8]) -> bool {
        let nth = self.reads.fetch_add(1, Ordering::Relaxed) + 1;
        nth.is_multiple_of(READS_PER_KEY) && self.keep(key, nth)
    }

    #[cold]
    fn keep(&self, key: &[u8], nth: u64) -> bool {
        if let Some(mut keys) = self.keys.try_lock() {
            if keys.len() == KEYS_MAX {
                keys.pop_front();
            }
            keys.push_back(key.into());
        }
        nth.is_multiple_of(READS_PER_LOOK)
    }

    /// What is known now.
    pub fn sample(&self) -> Sample {
        let mut keys: Vec<_> = self.keys.lock().iter().cloned().collect();
        keys.sort_unstable();
        Sample { keys }
    }

    /// The values of `range` were put into the order of their keys.
    pub fn forget(&self, range: &KeyRange) {
        self.keys.lock().retain(|key| !range.contains(key));
    }
}

impl Sample {
    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The keys in `range`.
    fn within(&self, range: &KeyRange) -> &[Box<[u8]>] {
        let first = self.keys.partition_point(|key| **key < *range.start);
        let end = match &range.end {
            KeyEnd::Unbounded => self.keys.len(),
            end => self.keys.partition_point(|key| end.admits(key)),
        };
        self.keys.get(first..end).unwrap_or_default()
    }
}

impl WalkReads for Sample {
    fn reads_in(&self, range: &KeyRange) -> u64 {
        self.within(range).len() as u64 * READS_PER_KEY
    }

    fn dividing(&self, range: &KeyRange, parts: usize) -> Vec<Box<[u8]>> {
        let keys = self.within(range);
        let parts = parts.min(keys.len() / KEYS_PER_PART).max(1);
        let mut dividing: Vec<Box<[u8]>> =
            (1..parts).map(|part| keys[keys.len() * part / parts].clone()).collect();
        dividing.dedup();
        dividing.retain(|key| **key > *range.start);
        dividing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_counted_where_they_were_until_the_range_is_in_order() {
        let heat = Heat::default();
        assert!(heat.sample().is_empty());
        let looks = (0..64_000u32).filter(|n| heat.note(&(n % 1000).to_be_bytes())).count();
        assert_eq!(looks as u64, 64_000 / READS_PER_LOOK);
        let half = KeyRange::half_open(&0u32.to_be_bytes(), &500u32.to_be_bytes());
        let all = heat.sample();
        assert_eq!(all.reads_in(&KeyRange::all()), 64_000);
        assert!((28_000..36_000).contains(&all.reads_in(&half)), "{}", all.reads_in(&half));
        let parts = all.dividing(&half, 4);
        assert!(parts.len() == 3 && parts.is_sorted(), "{parts:?}");
        let first = KeyRange::half_open(&0u32.to_be_bytes(), &parts[0]);
        assert!((6000..10_000).contains(&all.reads_in(&first)), "{}", all.reads_in(&first));
        assert!(all.dividing(&KeyRange::half_open(&[9], &[10]), 4).is_empty(), "nothing was read there");
        heat.forget(&half);
        assert_eq!(heat.sample().reads_in(&half), 0);
        assert!(heat.sample().reads_in(&KeyRange::all()) > 28_000);
        let more = (0..64 * 10_000u32).filter(|n| heat.note(&n.to_be_bytes())).count();
        assert!(more > 0);
        assert_eq!(heat.sample().keys.len(), KEYS_MAX);
    }
}
