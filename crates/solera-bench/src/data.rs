//! The data that is loaded: a sample of real rows, and generated keys of three families.
//!
//! Every set also has keys that are held out: of the same kind and from the same places as the loaded ones,
//! but never written. Absent reads ask for them; random bytes would be too easy, since most lie outside any
//! block's range.

use crate::{packed::Packed, random::Random};
use serde::Serialize;
use std::{fmt, io::Read, str::FromStr};

/// One key in this many is held out.
const HELD_OUT_OF: usize = 9;

/// How generated keys are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// All of `u64` equally.
    Uniform,
    /// e^(2 z) times 10^9 with z standard normal: DobLIX's LOGN(0, 2, × 10^9).
    Lognormal,
    /// Dense clusters of very different sizes and densities with nothing in between, as in
    /// map data: the hard case for linear models.
    Clustered,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 3] = [Family::Uniform, Family::Lognormal, Family::Clustered];

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Family::Uniform => "uniform",
            Family::Lognormal => "lognormal",
            Family::Clustered => "clustered",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Family::ALL.into_iter().find(|family| family.name() == name).ok_or_else(|| {
            format!(
                "there is no key family {name:?}; the families are {}",
                Family::ALL.map(Family::name).join(", ")
            )
        })
    }
}

/// Pairs to load, and keys that are never loaded.
#[derive(Debug)]
pub struct DataSet {
    /// A short name.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// The pairs, in the random order in which they are loaded. No key twice.
    pub pairs: Packed,
    /// The ranks of `pairs` in key order: `pairs.get(sorted[0])` has the smallest key.
    pub sorted: Vec<u32>,
    /// Keys that are not among `pairs`, with empty values. At least one.
    pub absent: Packed,
    /// Bytes of all keys of `pairs`.
    pub key_bytes: u64,
    /// Bytes of all values of `pairs`.
    pub value_bytes: u64,
}

impl DataSet {
    fn new(name: String, about: String, pairs: Packed, absent: Packed) -> Self {
        // With their first bytes beside them most ranks are sorted without a look at the pairs.
        let heads = pairs.iter().enumerate().map(|(i, (key, _))| (solera::key::head(key), i as u32));
        let mut sorted: Vec<(u64, u32)> = heads.collect();
        let key = |i: u32| pairs.get(i as usize).0;
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
        let sorted = sorted.into_iter().map(|(_, i)| i).collect();
        let key_bytes = pairs.iter().map(|(key, _)| key.len() as u64).sum();
        DataSet { name, about, value_bytes: pairs.bytes() - key_bytes, pairs, sorted, absent, key_bytes }
    }

    /// `n` generated pairs of 8-byte keys and `value_bytes`-byte values of random, incompressible bytes.
    pub fn generated(family: Family, n: usize, value_bytes: usize, seed: u64) -> Self {
        assert!(
            (1..u32::MAX as usize / 2).contains(&n),
            "a data set has at least one and at most 2^31 pairs"
        );
        let mut random = Random::new(seed);
        let held_out = n.div_ceil(HELD_OUT_OF - 1);
        let mut keys = Vec::new();
        while keys.len() < n + held_out {
            let missing = n + held_out - keys.len();
            // A few more than needed, since some may come twice.
            draw(family, missing + missing / 64 + 1, &mut random, &mut keys);
            keys.sort_unstable();
            keys.dedup();
        }
        random.shuffle(&mut keys);
        keys.truncate(n + held_out);
        let mut pairs = Packed::with_capacity(n, n * (8 + value_bytes));
        let mut value = vec![0; value_bytes];
        for key in &keys[..n] {
            random.fill(&mut value);
            pairs.push(&key.to_be_bytes(), &value);
        }
        let mut absent = Packed::with_capacity(held_out, 8 * held_out);
        keys[n..].iter().for_each(|key| absent.push(&key.to_be_bytes(), b""));
        let about = format!(
            "generated: {family} 8-byte keys, {value_bytes}-byte values of random bytes, seed {seed}"
        );
        DataSet::new(format!("{family} {}", short_count(n)), about, pairs, absent)
    }

    /// Real rows: the files touched by the commits of seven storage projects. Key: path, tab, time; value:
    /// commit, tab, kind of change.
    pub fn git_history_sample(seed: u64) -> Self {
        let rows = sample_rows();
        let mut rows: Vec<&str> = rows.lines().collect();
        Random::new(seed).shuffle(&mut rows);
        let (mut pairs, mut absent) = (Packed::default(), Packed::default());
        for (i, row) in rows.iter().enumerate() {
            let (second_tab, _) =
                row.match_indices('\t').nth(1).expect("a row of the sample has four columns");
            let (key, value) = (&row[..second_tab], &row[second_tab + 1..]);
            if i % HELD_OUT_OF == 0 {
                absent.push(key.as_bytes(), b"");
            } else {
                pairs.push(key.as_bytes(), value.as_bytes());
            }
        }
        let about = "real rows: files touched by the commits of seven storage projects (data/git-history-sample.tsv.zst); \
                     key: path, tab, time; value: commit, tab, kind of change";
        DataSet::new("git history".into(), about.into(), pairs, absent)
    }
}

/// The rows of the repository's sample. The file is part of the program, so that it runs anywhere.
fn sample_rows() -> String {
    const SAMPLE: &[u8] = include_bytes!("../../../data/git-history-sample.tsv.zst");
    let mut rows = String::new();
    ruzstd::decoding::StreamingDecoder::new(SAMPLE)
        .expect("the sample in the program is a Zstandard frame")
        .read_to_string(&mut rows)
        .expect("the sample in the program decompresses to text");
    rows
}

/// Appends `n` keys, in no order, perhaps some twice.
fn draw(family: Family, n: usize, random: &mut Random, keys: &mut Vec<u64>) {
    match family {
        Family::Uniform => keys.extend((0..n).map(|_| random.draw())),
        Family::Lognormal => keys.extend((0..n).map(|_| ((2.0 * random.normal()).exp() * 1e9) as u64)),
        Family::Clustered => {
            let end = keys.len() + n;
            while keys.len() < end {
                // Sizes from 16 to 64 K keys and mean gaps from 1 to 2^16, each octave equally likely.
                let size = (16 << random.below(13)).min(end - keys.len());
                let gap_bits = random.below(17);
                let mut key = random.draw();
                for _ in 0..size {
                    keys.push(key);
                    key = key.wrapping_add(1 + random.below(2 << gap_bits));
                }
            }
        }
    }
}

/// `2 M`, `50 K`, `1234`: for names.
fn short_count(n: usize) -> String {
    match n {
        _ if n >= 1_000_000 && n.is_multiple_of(100_000) => format!("{} M", n as f64 / 1e6),
        _ if n >= 1_000 && n.is_multiple_of(100) => format!("{} K", n as f64 / 1e3),
        _ => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn check(set: &DataSet) {
        let keys: BTreeSet<&[u8]> = set.pairs.iter().map(|(key, _)| key).collect();
        assert_eq!(keys.len(), set.pairs.len(), "no key comes twice");
        assert!(!set.absent.is_empty());
        assert!(set.absent.iter().all(|(key, _)| !keys.contains(key)), "absent keys are absent");
        assert!(keys.into_iter().eq(set.sorted.iter().map(|&i| set.pairs.get(i as usize).0)));
        assert_eq!(set.key_bytes + set.value_bytes, set.pairs.bytes());
        assert!(!set.pairs.iter().map(|(key, _)| key).is_sorted(), "the load order is not the key order");
    }

    #[test]
    fn every_family_gives_the_keys_asked_for_and_the_same_ones_again() {
        for family in Family::ALL {
            let set = DataSet::generated(family, 10_000, 16, 5);
            assert_eq!(set.pairs.len(), 10_000);
            check(&set);
            let again = DataSet::generated(family, 10_000, 16, 5);
            assert!(set.pairs.iter().eq(again.pairs.iter()));
            assert_eq!(family.name().parse(), Ok(family));
        }
    }

    #[test]
    fn the_sample_is_whole() {
        let set = DataSet::git_history_sample(1);
        check(&set);
        assert_eq!(set.pairs.len() + set.absent.len(), 47_095);
        assert!(set.pairs.iter().all(|(key, value)| key.contains(&b'\t') && value.contains(&b'\t')));
    }

    #[test]
    fn a_set_of_one_pair_is_a_set() {
        let set = DataSet::generated(Family::Uniform, 1, 0, 0);
        assert_eq!((set.pairs.len(), set.absent.len()), (1, 1));
    }
}
