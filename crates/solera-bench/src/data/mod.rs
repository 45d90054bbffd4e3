//! The data that is loaded: `DataSet`, made by a `Recipe` of `Keys` and `Sizes`, or from the
//! repository's sample of real rows.
//!
//! Keys of a recipe come from families, from files of the SOSD benchmark, or from lines of text
//! files. A set may have several versions of keys.
//!
//! What must hold: every set also has keys that are held out, about one in nine. They are of the
//! same kind and from the same places as the loaded ones, but never written. Absent reads ask for
//! them; random bytes would be too easy, since most lie outside any block's range. A file of one
//! key alone has a made-up absent key. The same recipe gives the same set.
//!
//! Callers: `runner`, `arm`, `probes`, `paper`, `solera-bench-peers`, tests. `solera bench` and
//! `solera bench paper` read `Keys` from their arguments.

mod applications;
mod family;
mod lines;
mod sizes;
mod sosd;

pub use family::{Family, HEXADECIMAL_BYTES, STRING_BYTES};
pub use sizes::{NUMBER_BYTES, Sizes};

use crate::{machine::Machine, packed::Packed, random::Random};
use sizes::{KeyMaker, ValueMaker};
use std::{fmt, io::Read, path::PathBuf, str::FromStr};

/// One key in this many is held out.
const HELD_OUT_OF: usize = 9;
/// Most versions of one key: a bench that keeps them all holds a snapshot for each.
pub const VERSIONS_MAX: usize = 12;

/// Where keys come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// A generator.
    Family(Family),
    /// A file of the SOSD benchmark: `u64`s, little-endian, behind their number. A key that comes
    /// several times has as many versions.
    Sosd(PathBuf),
    /// A text file, a key in each line. A line that comes several times has as many versions.
    Lines(PathBuf),
}

impl Keys {
    /// Whether keys are text, of lengths of their own.
    pub fn is_text(&self) -> bool {
        match self {
            Keys::Family(family) => family.is_text(),
            Keys::Sosd(_) => false,
            Keys::Lines(_) => true,
        }
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keys::Family(family) => family.fmt(f),
            Keys::Sosd(path) | Keys::Lines(path) => match path.file_name() {
                Some(name) => f.pad(&name.to_string_lossy()),
                None => f.pad("keys"),
            },
        }
    }
}

impl FromStr for Keys {
    type Err = String;

    /// The name of a family, `sosd:FILE` or `lines:FILE`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("sosd:") {
            return Ok(Keys::Sosd(path.into()));
        }
        if let Some(path) = text.strip_prefix("lines:") {
            return Ok(Keys::Lines(path.into()));
        }
        text.parse().map(Keys::Family).map_err(|what: String| what + ", or sosd:FILE, or lines:FILE")
    }
}

/// What to generate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Where keys come from.
    pub keys: Keys,
    /// How many pairs are written, all versions counted; of a file with fewer keys, as many as it
    /// has.
    pub entries: usize,
    /// How long keys and values are.
    pub sizes: Sizes,
    /// The same seed gives the same set.
    pub seed: u64,
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
    /// Older versions of keys of `pairs`, loaded before them: in each list a key comes once at
    /// most, and the lists are loaded in their order. None but for keys that come several times.
    pub older: Vec<Packed>,
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
        let value_bytes = pairs.bytes() - key_bytes;
        DataSet { name, about, value_bytes, pairs, older: Vec::new(), sorted, absent, key_bytes }
    }

    /// `n` generated pairs of 8-byte keys (text: 64 or 16 bytes) and `value_bytes`-byte values of
    /// random, incompressible bytes; fewer pairs and older versions of them where a family's keys
    /// come several times.
    pub fn generated(family: Family, n: usize, value_bytes: usize, seed: u64) -> Self {
        let sizes = Sizes::Fixed { key_bytes: 8, value_bytes };
        let recipe = Recipe { keys: Keys::Family(family), entries: n, sizes, seed };
        DataSet::of(&recipe).expect("only a file can be wrong")
    }

    /// The set of this recipe.
    ///
    /// # Errors
    /// A file of keys that is not one; the text names it and says why. A set that has no room in
    /// this machine's memory.
    pub fn of(recipe: &Recipe) -> Result<Self, String> {
        let Recipe { ref keys, entries: n, sizes, seed } = *recipe;
        assert!(
            (1..u32::MAX as usize / 2).contains(&n),
            "a data set has at least one and at most 2^31 pairs"
        );
        refuse_too_much(keys, n, sizes)?;
        let mut random = Random::new(seed);
        let total = n + n.div_ceil(HELD_OUT_OF - 1);
        // Each key, and how often it is written.
        let texts = match keys {
            Keys::Family(family) => family::texts(*family, total, &mut random),
            Keys::Sosd(_) => None,
            Keys::Lines(path) => Some(lines::read(path, total, &mut random)?),
        };
        let mut keys_times: Vec<(Vec<u8>, u32)> = match texts {
            Some(texts) => {
                let times = texts.chunk_by(|a, b| a == b);
                times.map(|same| (same[0].clone(), same.len() as u32)).collect()
            }
            None => {
                let mut numbers = match keys {
                    Keys::Family(family @ Family::WikiLike) => family::draw(*family, total, &mut random),
                    Keys::Family(family) => different(*family, total, &mut random),
                    Keys::Sosd(path) => sosd::read(path, total, &mut random)?,
                    Keys::Lines(_) => unreachable!("lines are text"),
                };
                numbers.sort_unstable();
                let maker = KeyMaker::new(sizes, &mut random);
                let mut key = |number: u64| match keys {
                    Keys::Family(Family::Hexadecimal) => {
                        format!("{number:0HEXADECIMAL_BYTES$x}").into_bytes()
                    }
                    _ => maker.key(number, &mut random),
                };
                let times = numbers.chunk_by(|a, b| a == b);
                times.map(|same| (key(same[0]), same.len() as u32)).collect()
            }
        };
        random.shuffle(&mut keys_times);
        // Of all writes one in so many is held out, and with a key all its versions are.
        let writes: u64 = keys_times.iter().map(|(_, times)| u64::from(*times)).sum();
        let wanted = writes - writes / HELD_OUT_OF as u64;
        let mut written = 0;
        let present = keys_times.iter().position(|(_, times)| {
            written += u64::from(*times);
            written >= wanted.max(1)
        });
        let present = present.map_or(keys_times.len(), |last| last + 1).min(n);
        let (present, held_out) = keys_times.split_at(present);
        let mut values = ValueMaker::new(sizes);
        let mut older: Vec<Packed> = Vec::new();
        for (key, times) in present {
            for version in 1..(*times as usize).min(VERSIONS_MAX) {
                if older.len() < version {
                    older.push(Packed::default());
                }
                older[version - 1].push(key, values.value(&mut random));
            }
        }
        let mut pairs = Packed::default();
        present.iter().for_each(|(key, _)| pairs.push(key, values.value(&mut random)));
        let mut absent = Packed::default();
        held_out.iter().for_each(|(key, _)| absent.push(key, b""));
        if absent.is_empty() {
            // All keys of a file were one: anything else is absent.
            absent.push(&[&present[0].0[..], &[0]].concat(), b"");
        }
        let text_bytes = if let Keys::Family(family) = keys { family.text_bytes() } else { None };
        let sizes_told = match (text_bytes, sizes) {
            (Some(key_bytes), Sizes::Fixed { value_bytes, .. }) => format!("{key_bytes}+{value_bytes}"),
            (Some(_), mix) => format!("values as {mix}"),
            (None, Sizes::Fixed { value_bytes, .. }) if keys.is_text() => format!("text+{value_bytes}"),
            (None, mix) if keys.is_text() => format!("values as {mix}"),
            (None, sizes) => sizes.to_string(),
        };
        let about = format!(
            "generated: {keys} keys, sizes {sizes_told}, values of random bytes, seed {seed}{}",
            match older.iter().map(Packed::len).sum::<usize>() {
                0 => String::new(),
                versions => format!("; {versions} older versions"),
            }
        );
        let name = match sizes {
            Sizes::Fixed { key_bytes: 8, .. } => format!("{keys} {}", short_count(n)),
            _ => format!("{keys} {sizes_told} {}", short_count(n)),
        };
        Ok(DataSet { older, ..DataSet::new(name, about, pairs, absent) })
    }

    /// How many pairs are written in all, older versions included.
    pub fn writes(&self) -> usize {
        self.pairs.len() + self.older.iter().map(Packed::len).sum::<usize>()
    }

    /// Bytes of all pairs that are written, older versions included.
    pub fn written_bytes(&self) -> u64 {
        self.pairs.bytes() + self.older.iter().map(Packed::bytes).sum::<u64>()
    }

    /// Real rows: the files touched by the commits of seven storage projects. Key: path, tab, time;
    /// value: commit, tab, kind of change.
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
    const SAMPLE: &[u8] = include_bytes!("../../../../data/git-history-sample.tsv.zst");
    let mut rows = String::new();
    ruzstd::decoding::StreamingDecoder::new(SAMPLE)
        .expect("the sample in the program is a Zstandard frame")
        .read_to_string(&mut rows)
        .expect("the sample in the program decompresses to text");
    rows
}

/// `n` different keys of a family of numbers, in no order.
fn different(family: Family, n: usize, random: &mut Random) -> Vec<u64> {
    let mut keys = Vec::new();
    // More than needed, since some may come twice. A family that is a walk is walked anew, further.
    let mut drawn = n + n / 64 + 1;
    while keys.len() < n {
        keys = family::draw(family, drawn, random);
        keys.sort_unstable();
        keys.dedup();
        drawn += drawn / 4;
    }
    random.shuffle(&mut keys);
    keys.truncate(n);
    keys
}

/// `2 M`, `50 K`, `1234`: for names.
fn short_count(n: usize) -> String {
    match n {
        _ if n >= 1_000_000 && n.is_multiple_of(100_000) => format!("{} M", n as f64 / 1e6),
        _ if n >= 1_000 && n.is_multiple_of(100) => format!("{} K", n as f64 / 1e3),
        _ => n.to_string(),
    }
}

/// Bytes that a pair takes beside its value while a set is made: its key, and the lists that it is
/// in.
const PAIR_BYTES: u128 = 48;

/// Fails if a set certainly has no room in this machine's memory: to take it ends the process.
fn refuse_too_much(keys: &Keys, entries: usize, sizes: Sizes) -> Result<(), String> {
    let Sizes::Fixed { value_bytes, .. } = sizes else { return Ok(()) };
    let (Keys::Family(_), Some(memory)) = (keys, Machine::here().memory_bytes) else { return Ok(()) };
    let bytes = entries as u128 * (PAIR_BYTES + value_bytes as u128);
    if bytes <= u128::from(memory) {
        return Ok(());
    }
    Err(format!(
        "{entries} keys with values of {value_bytes} bytes take {} MB of memory, and this machine has {} MB",
        bytes / 1_000_000,
        memory / 1_000_000
    ))
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
            check(&set);
            assert_eq!(set.older.is_empty(), family != Family::WikiLike);
            assert!(
                set.writes() == 10_000 || family == Family::WikiLike && set.writes().abs_diff(10_000) < 300
            );
            let again = DataSet::generated(family, 10_000, 16, 5);
            assert!(set.pairs.iter().eq(again.pairs.iter()) && set.older.len() == again.older.len());
            assert!(!set.pairs.iter().eq(DataSet::generated(family, 10_000, 16, 6).pairs.iter()));
            assert_eq!(family.name().parse(), Ok(family));
            assert_eq!(family.name().parse(), Ok(Keys::Family(family)));
        }
    }

    #[test]
    fn older_versions_are_of_keys_that_are_there_and_have_other_values() {
        let set = DataSet::generated(Family::WikiLike, 10_000, 16, 5);
        let truth: std::collections::BTreeMap<&[u8], &[u8]> = set.pairs.iter().collect();
        assert!(set.older.len() < VERSIONS_MAX && set.older[0].len() > 2_000);
        for round in &set.older {
            let keys: BTreeSet<&[u8]> = round.iter().map(|(key, _)| key).collect();
            assert_eq!(keys.len(), round.len(), "once in each round");
            assert!(round.iter().all(|(key, value)| truth.get(key).is_some_and(|newest| *newest != value)));
        }
    }

    #[test]
    fn every_size_can_be_had_and_files_of_keys_are_read() {
        for sizes in [Sizes::Fixed { key_bytes: 32, value_bytes: 100 }].into_iter().chain(Sizes::MIXES) {
            let keys = Keys::Family(Family::Clustered);
            let set = DataSet::of(&Recipe { keys, entries: 2_000, sizes, seed: 1 }).unwrap();
            check(&set);
            assert_eq!(set.pairs.len(), 2_000);
        }
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let words = [6u64, 1, 2, 2, 2, 3, 9];
        words.iter().for_each(|word| std::io::Write::write_all(&mut file, &word.to_le_bytes()).unwrap());
        let sizes = Sizes::Fixed { key_bytes: 8, value_bytes: 1 };
        let keys: Keys = format!("sosd:{}", file.path().display()).parse().unwrap();
        let set = DataSet::of(&Recipe { keys, entries: 100, sizes, seed: 1 }).unwrap();
        let keys = |packed: &Packed| packed.iter().map(|(key, _)| key.to_vec()).collect::<BTreeSet<_>>();
        assert!(keys(&set.pairs).is_disjoint(&keys(&set.absent)));
        assert_ne!(keys(&set.pairs).contains(&2u64.to_be_bytes()[..]), set.older.is_empty());
        let mut file = tempfile::NamedTempFile::new().unwrap();
        std::io::Write::write_all(&mut file, b"pear\napple\npear\nfig\nquince\nplum\nmedlar\n").unwrap();
        let keys: Keys = format!("lines:{}", file.path().display()).parse().unwrap();
        let set = DataSet::of(&Recipe { keys, entries: 100, sizes, seed: 1 }).unwrap();
        let all = set.pairs.iter().chain(set.absent.iter()).map(|(key, _)| key.to_vec());
        let all: BTreeSet<Vec<u8>> = all.collect();
        for line in ["pear", "apple", "fig", "quince", "plum", "medlar"] {
            assert!(all.contains(line.as_bytes()), "{line} is a key");
        }
        for keys in [Keys::Sosd("/nowhere".into()), Keys::Lines("/nowhere".into())] {
            let missing = Recipe { keys, entries: 9, sizes, seed: 1 };
            assert!(DataSet::of(&missing).unwrap_err().contains("/nowhere"));
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
