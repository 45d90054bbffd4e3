//! What a repeat asks for, laid out in order before the clock starts: `Prober`, and `Probes`, those
//! of one repeat.
//!
//! There are found reads (uniform and Zipf, exponent 0.99), absent reads of held-out keys, and
//! starts of scans with their expected ends.
//!
//! What must hold: the probes of a repeat are the same for every index kind; the seed decides which
//! keys are popular.
//!
//! Callers: `runner`, `paper::subject` and `paper::turns`; `solera-bench-peers`.

use crate::{data::DataSet, packed::Packed, random::Random, zipf::Zipf};

/// YCSB's exponent.
pub const ZIPF_EXPONENT: f64 = 0.99;

/// Makes the probes of each repeat over one data set.
pub struct Prober<'a> {
    set: &'a DataSet,
    /// Rank in `set.pairs` by popularity. Popularity has nothing to do with key order or age.
    by_popularity: Vec<u32>,
    zipf: Zipf,
    seed: u64,
}

/// The probes of one repeat, the same for every index kind.
pub struct Probes {
    /// Present keys, each equally likely, with their values.
    pub uniform: Packed,
    /// Present keys, Zipf-distributed, with their values.
    pub zipf: Packed,
    /// Held-out keys, each equally likely, with empty values.
    pub absent: Packed,
    /// Present keys from which a whole scan is possible, each equally likely, and as the value the
    /// last key that it must see.
    pub scans: Packed,
    /// Entries of each scan: as many as were asked for, if there are so many.
    pub scan_entries: usize,
}

impl<'a> Prober<'a> {
    /// Over this set; the seed decides which keys are popular and which are asked for.
    pub fn new(set: &'a DataSet, seed: u64) -> Self {
        let mut by_popularity: Vec<u32> = (0..set.pairs.len() as u32).collect();
        Random::new(seed).shuffle(&mut by_popularity);
        let zipf = Zipf::new(set.pairs.len() as u64, ZIPF_EXPONENT);
        Prober { set, by_popularity, zipf, seed }
    }

    /// The probes of repeat number `repeat`: `lookups` of each kind of read, `scans` of
    /// `scan_entries`.
    pub fn probes(&self, repeat: usize, lookups: usize, scans: usize, scan_entries: usize) -> Probes {
        let mut random = Random::new(self.seed ^ (repeat as u64 + 1) << 32);
        let (pairs, absent_keys) = (&self.set.pairs, &self.set.absent);
        let n = pairs.len() as u64;
        let pair_bytes = (pairs.bytes() as usize).div_ceil(pairs.len());
        let room = || Packed::with_capacity(lookups, lookups * pair_bytes);
        let (mut uniform, mut zipf, mut absent, mut starts) =
            (room(), room(), Packed::default(), Packed::default());
        for _ in 0..lookups {
            let (key, value) = pairs.get(random.below(n) as usize);
            uniform.push(key, value);
            let popular = self.by_popularity[self.zipf.draw(&mut random) as usize];
            let (key, value) = pairs.get(popular as usize);
            zipf.push(key, value);
            absent.push(absent_keys.get(random.below(absent_keys.len() as u64) as usize).0, b"");
        }
        let key_at = |rank: usize| pairs.get(self.set.sorted[rank] as usize).0;
        let scan_entries = scan_entries.min(pairs.len());
        for _ in 0..scans {
            let first = random.below(n - scan_entries as u64 + 1) as usize;
            starts.push(key_at(first), key_at(first + scan_entries - 1));
        }
        Probes { uniform, zipf, absent, scans: starts, scan_entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Family;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn probes_ask_for_what_is_there_and_for_what_is_not() {
        let set = DataSet::generated(Family::Clustered, 1000, 8, 3);
        let truth: BTreeMap<&[u8], &[u8]> = set.pairs.iter().collect();
        let prober = Prober::new(&set, 9);
        let probes = prober.probes(0, 5000, 300, 100);
        for (key, value) in probes.uniform.iter().chain(probes.zipf.iter()) {
            assert_eq!(truth.get(key), Some(&value));
        }
        assert!(probes.absent.iter().all(|(key, _)| !truth.contains_key(key)));
        for (first, last) in probes.scans.iter() {
            assert_eq!(truth.range(first..).take(100).last().map(|(&key, _)| key), Some(last));
        }
        let distinct =
            |packed: &Packed| packed.iter().map(|(key, _)| key.to_vec()).collect::<BTreeSet<_>>().len();
        assert!(distinct(&probes.zipf) < distinct(&probes.uniform));
        let again = prober.probes(0, 5000, 300, 100);
        assert!(again.zipf.iter().eq(probes.zipf.iter()));
        assert!(!prober.probes(1, 5000, 300, 100).zipf.iter().eq(probes.zipf.iter()));
    }
}
