//! Where walks have lately read values out of logs: `Heat`, a sample of keys, and `Sample`, a copy
//! of it.
//!
//! A value in a log costs a walk a read of its own, since a log is in the order of the writes.
//! Every 64th such read leaves its key; the last 4,096 keys are kept. `Sample::reads_in` turns the
//! keys of a range back into a number of reads.
//!
//! What must hold: `note` never waits; where the lock is taken, the key is lost. `forget` removes a
//! range once its values are in key order.
//!
//! Callers: `db::iterator` notes reads, and every 1,024th has `engine` look for conversions;
//! `engine::convert` samples, to rank cells, and forgets a range that it has converted.

use crate::{
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
/// After so many reads, whoever gives space back had better look.
const READS_PER_LOOK: u64 = 16 * READS_PER_KEY;

/// Keys of values that walks read out of logs.
#[derive(Debug, Default)]
pub struct Heat {
    reads: AtomicU64,
    keys: Mutex<VecDeque<Box<[u8]>>>,
}

/// What a [`Heat`] knew at one moment.
#[derive(Debug)]
pub struct Sample {
    /// Ascending.
    keys: Vec<Box<[u8]>>,
}

impl Heat {
    /// A walk has read the value of `key` out of a log. Whether it is time to look who has paid.
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

    /// How many reads in `range` it stands for.
    pub fn reads_in(&self, range: &KeyRange) -> u64 {
        let first = self.keys.partition_point(|key| **key < *range.start);
        let end = match &range.end {
            KeyEnd::Unbounded => self.keys.len(),
            end => self.keys.partition_point(|key| end.admits(key)),
        };
        end.saturating_sub(first) as u64 * READS_PER_KEY
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
        heat.forget(&half);
        assert_eq!(heat.sample().reads_in(&half), 0);
        assert!(heat.sample().reads_in(&KeyRange::all()) > 28_000);
        let more = (0..64 * 10_000u32).filter(|n| heat.note(&n.to_be_bytes())).count();
        assert!(more > 0);
        assert_eq!(heat.sample().keys.len(), KEYS_MAX);
    }
}
