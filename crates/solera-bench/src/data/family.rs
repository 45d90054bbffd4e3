//! How generated keys are spread: `Family`, eight families of papers and text, ten as applications
//! make; `draw`, `texts`.
//!
//! `draw` makes numbers, `texts` makes text; `hexadecimal` is numbers that `DataSet::of` writes as
//! text. Most of what applications make comes from `data::applications`.
//!
//! What must hold:
//! - The same seed gives the same keys.
//! - Numbers may come several times. Texts come sorted, and none comes twice.
//! - A `*-like` family has what troubles a model in a data set of SOSD (Marcus et al., PVLDB 2020).
//!   It does not have the data: `Keys::Sosd` reads that.
//!
//! Caller: `DataSet::of`. Benches and experiments choose the family by name.

use super::{applications, sample_rows};
use crate::random::Random;
use serde::Serialize;
use std::{fmt, str::FromStr};

/// Keys of [`Family::FbLike`] that lie far above all others, as many as in SOSD's `fb`.
pub(super) const FB_OUTLIERS: usize = 21;
/// Bytes of the keys of [`Family::Strings`].
pub const STRING_BYTES: usize = 64;
/// Bytes of the keys of [`Family::Hexadecimal`].
pub const HEXADECIMAL_BYTES: usize = 16;
/// Digits of a time at the end of a key of [`Family::Strings`], behind a tab.
const TIME_DIGITS: usize = 10;

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
    /// Gaps with an exponential distribution whose mean drifts slowly over a factor of thousands:
    /// smooth in the large and rough in the small, as SOSD's `books`.
    BooksLike,
    /// Identifiers with gaps of very different sizes below 2^40, and 21 keys far above them up to
    /// 2^64, as in SOSD's `fb`: a line over the whole range is of no use.
    FbLike,
    /// Seconds in which something was edited, with days, weeks and growth; in the end most seconds
    /// come several times. As SOSD's `wiki_ts`, of whose 200 million keys 90 million are different.
    /// A key that comes again is another version of it.
    WikiLike,
    /// 64-byte text: real paths of the repository's sample, padded with spaces, a tab and a time.
    Strings,
    /// All of `u64` equally, written in 16 hexadecimal digits: identifiers as text, whose bytes are
    /// far from even.
    Hexadecimal,
    /// Order and line, 32 bits each: 1 to 165 lines an order. Numbers whose upper half of each part
    /// is never used.
    Composite,
    /// Tenant and number, 32 bits each: 19 of 20 tenants have 100 rows, the others 20,000, at
    /// random places.
    Tenants,
    /// First and last addresses of ranges, of which half begin right where another ends.
    Ranges,
    /// Points along coasts, longitude and latitude as bits in turns (Morton codes): crowded at
    /// every scale.
    Coordinates,
    /// Words of made-up morphemes, by Zipf's law: text of several letters, a few of two bytes,
    /// without a length of its own.
    Words,
    /// UUIDs of version 7 as text of 36 bytes: a time, then chance.
    Uuid7,
    /// ULIDs, 26 letters: a time, then chance.
    Ulid,
    /// Dense runs of 32 to 4,096 numbers at random places.
    Runs,
    /// Paths of files in a made-up tree: text that shares beginnings, without a
    /// length of its own.
    Paths,
    /// Hash of a file and line, 32 bits each: 8 to 3,000 lines a file, runs that are often longer
    /// than a block, at random places.
    HashLines,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 18] = [
        Family::Uniform,
        Family::Lognormal,
        Family::Clustered,
        Family::BooksLike,
        Family::FbLike,
        Family::WikiLike,
        Family::Strings,
        Family::Hexadecimal,
        Family::Composite,
        Family::Tenants,
        Family::Ranges,
        Family::Coordinates,
        Family::Words,
        Family::Uuid7,
        Family::Ulid,
        Family::Runs,
        Family::Paths,
        Family::HashLines,
    ];
    /// Those that papers use, and text: what a paper's experiments take if nothing else is asked
    /// for.
    pub const OF_PAPERS: [Family; 8] = {
        let [a, b, c, d, e, f, g, h, ..] = Family::ALL;
        [a, b, c, d, e, f, g, h]
    };

    /// The name that users write.
    pub fn name(self) -> &'static str {
        match self {
            Family::Uniform => "uniform",
            Family::Lognormal => "lognormal",
            Family::Clustered => "clustered",
            Family::BooksLike => "books-like",
            Family::FbLike => "fb-like",
            Family::WikiLike => "wiki-like",
            Family::Strings => "strings",
            Family::Hexadecimal => "hexadecimal",
            Family::Composite => "composite",
            Family::Tenants => "tenants",
            Family::Ranges => "ranges",
            Family::Coordinates => "coordinates",
            Family::Words => "words",
            Family::Uuid7 => "uuid7",
            Family::Ulid => "ulid",
            Family::Runs => "runs",
            Family::Paths => "paths",
            Family::HashLines => "hash-lines",
        }
    }

    /// Whether its keys are text, of lengths of their own.
    pub fn is_text(self) -> bool {
        self.text_bytes_mean().is_some()
    }

    /// How long its keys are, in bytes, if they are text and all have one length of their own.
    pub fn text_bytes(self) -> Option<usize> {
        match self {
            Family::Strings => Some(STRING_BYTES),
            Family::Hexadecimal => Some(HEXADECIMAL_BYTES),
            Family::Uuid7 => Some(36),
            Family::Ulid => Some(26),
            _ => None,
        }
    }

    /// How long its keys are, in bytes, if they are text: in the mean, about.
    pub fn text_bytes_mean(self) -> Option<usize> {
        match self {
            Family::Words => Some(14),
            // 27 of four million.
            Family::Paths => Some(24),
            other => other.text_bytes(),
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

/// `n` keys of a family of numbers, in no order; [`Family::WikiLike`] gives keys several times,
/// others may.
pub(super) fn draw(family: Family, n: usize, random: &mut Random) -> Vec<u64> {
    match family {
        Family::Uniform | Family::Hexadecimal => (0..n).map(|_| random.draw()).collect(),
        Family::Lognormal => (0..n).map(|_| ((2.0 * random.normal()).exp() * 1e9) as u64).collect(),
        Family::Clustered => clustered(n, random),
        Family::BooksLike => books_like(n, random),
        Family::FbLike => fb_like(n, random),
        Family::WikiLike => wiki_like(n, random),
        Family::Composite => applications::composite(n, random),
        Family::Tenants => applications::tenants(n, random),
        Family::Ranges => applications::ranges(n, random),
        Family::Coordinates => applications::coordinates(n, random),
        Family::Runs => applications::runs(n, random),
        Family::HashLines => applications::hash_lines(n, random),
        Family::Strings | Family::Words | Family::Uuid7 | Family::Ulid | Family::Paths => {
            panic!("text is no numbers")
        }
    }
}

/// `n` different keys of a family of text that is not numbers in other writing, sorted; `None` for
/// the others.
pub(super) fn texts(family: Family, n: usize, random: &mut Random) -> Option<Vec<Vec<u8>>> {
    let mut keys = match family {
        Family::Strings => return Some(strings(n, random)),
        Family::Words => words(n, random),
        Family::Paths => different_paths(n, random),
        Family::Uuid7 => applications::uuid7(n, random),
        Family::Ulid => applications::ulid(n, random),
        _ => return None,
    };
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), n, "identifiers and words differ");
    Some(keys)
}

fn words(n: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let words = applications::Words::new(random);
    let mut keys = Vec::with_capacity(n);
    while keys.len() < n {
        let missing = n - keys.len();
        keys.extend((0..missing).map(|_| words.word(random)));
        keys.sort_unstable();
        keys.dedup();
    }
    keys
}

/// Some are drawn twice: more are drawn than needed, and those too many go.
fn different_paths(n: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let mut drawn = n + n / 8;
    loop {
        let mut keys = applications::paths(drawn, random);
        keys.sort_unstable();
        keys.dedup();
        if keys.len() >= n {
            random.shuffle(&mut keys);
            keys.truncate(n);
            return keys;
        }
        drawn += drawn / 4;
    }
}

fn clustered(n: usize, random: &mut Random) -> Vec<u64> {
    let mut keys = Vec::with_capacity(n);
    while keys.len() < n {
        // Sizes from 16 to 64 K keys and mean gaps from 1 to 2^16, each octave equally likely.
        let size = (16 << random.below(13)).min(n - keys.len());
        let gap_bits = random.below(17);
        let mut key = random.draw();
        for _ in 0..size {
            keys.push(key);
            key = key.wrapping_add(1 + random.below(2 << gap_bits));
        }
    }
    keys
}

/// A number with an exponential distribution of this mean.
fn exponential(mean: f64, random: &mut Random) -> f64 {
    -mean * (1.0 - random.unit()).ln()
}

fn books_like(n: usize, random: &mut Random) -> Vec<u64> {
    /// Octaves between the mean gap of the first keys and that of the last, and the reach of the
    /// walk beside it.
    const OCTAVES: f64 = 8.0;
    const GAP_LEAST: f64 = 64.0;
    let (mut key, mut walk) = (0u64, 0.0f64);
    // The walk strays by one octave over all keys, however many there are.
    let step = 1.0 / (n as f64).sqrt();
    let next = |i: usize| {
        walk += step * random.normal();
        let octave = OCTAVES * i as f64 / n as f64 + walk.clamp(-4.0, 4.0);
        key += 1 + exponential(GAP_LEAST * octave.exp2(), random) as u64;
        key
    };
    (0..n).map(next).collect()
}

fn fb_like(n: usize, random: &mut Random) -> Vec<u64> {
    let outliers = FB_OUTLIERS.min(n / 100);
    // Room for every key below 2^40 although some gaps are a thousand times the usual one.
    let gap_median = ((1u64 << 40) as f64 / n as f64 / 64.0).max(1.0);
    let mut key = 0u64;
    let mut keys: Vec<u64> = (0..n - outliers)
        .map(|_| {
            key += 1 + (gap_median * (2.0 * random.normal()).exp()) as u64;
            key
        })
        .collect();
    // Each octave equally likely.
    keys.extend((0..outliers).map(|_| random.draw() >> random.below(20) | 1 << 44));
    keys
}

fn wiki_like(n: usize, random: &mut Random) -> Vec<u64> {
    /// Edits per second in the beginning and in the end. What they come to over a growth by equal
    /// factors is 2.2 edits for every second that has one.
    const RATES: (f64, f64) = (0.02, 4.6);
    const DAY: f64 = 86_400.0;
    const START: u64 = 979_516_800;
    let growth = (RATES.1 / RATES.0).ln();
    let seconds = n as f64 * growth / (RATES.1 - RATES.0);
    let mut keys = Vec::with_capacity(n);
    let mut second = 0u64;
    while keys.len() < n {
        let past = second as f64;
        let weekend = if past / DAY % 7.0 < 2.0 { 0.8 } else { 1.06 };
        let hour = 1.0 + 0.4 * (past / DAY * std::f64::consts::TAU).sin();
        let rate = RATES.0 * (growth * past / seconds).exp() * weekend * hour;
        // Poisson: exponential waits that fit into the second.
        let mut waited = exponential(1.0 / rate, random);
        while waited < 1.0 && keys.len() < n {
            keys.push(START + second);
            waited += exponential(1.0 / rate, random);
        }
        second += 1;
    }
    keys
}

/// `n` different keys of [`Family::Strings`], sorted.
pub(super) fn strings(n: usize, random: &mut Random) -> Vec<Vec<u8>> {
    let rows = sample_rows();
    let columns = rows.lines().filter_map(|row| {
        let mut columns = row.split('\t');
        Some((columns.next()?, columns.next()?.parse::<u64>().ok()?))
    });
    // A path as often as it was changed.
    let (paths, times): (Vec<&str>, Vec<u64>) = columns.unzip();
    let first = times.iter().min().copied().unwrap_or_default();
    let span = times.iter().max().copied().unwrap_or_default() - first + 1;
    let mut keys: Vec<Vec<u8>> = Vec::with_capacity(n);
    while keys.len() < n {
        let missing = n - keys.len();
        keys.extend((0..missing).map(|_| {
            let path = paths[random.below(paths.len() as u64) as usize].as_bytes();
            let path_bytes = STRING_BYTES - TIME_DIGITS - 1;
            let mut key = path[..path.len().min(path_bytes)].to_vec();
            key.resize(path_bytes, b' ');
            let time = first + random.below(span);
            key.extend_from_slice(format!("\t{time:0TIME_DIGITS$}").as_bytes());
            key
        }));
        keys.sort_unstable();
        keys.dedup();
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: usize = 50_000;

    fn sorted(family: Family) -> Vec<u64> {
        let mut keys = draw(family, N, &mut Random::new(3));
        assert_eq!(keys.len(), N);
        keys.sort_unstable();
        keys
    }

    /// Gaps between different keys, sorted.
    fn gaps(keys: &[u64]) -> Vec<u64> {
        let mut gaps: Vec<u64> = keys.windows(2).map(|two| two[1] - two[0]).filter(|&gap| gap > 0).collect();
        gaps.sort_unstable();
        gaps
    }

    fn share(keys: &[u64], quantile: f64) -> f64 {
        keys[(quantile * (keys.len() - 1) as f64) as usize] as f64
    }

    #[test]
    fn uniform_and_lognormal_keys_have_the_quantiles_of_their_distributions() {
        let uniform = sorted(Family::Uniform);
        for quantile in [0.1, 0.5, 0.9] {
            assert!((share(&uniform, quantile) / u64::MAX as f64 - quantile).abs() < 0.01);
        }
        let lognormal = sorted(Family::Lognormal);
        // The median of e^(2 z), and its quantile at one standard deviation.
        assert!((share(&lognormal, 0.5) / 1e9 - 1.0).abs() < 0.05);
        assert!((share(&lognormal, 0.8413) / 1e9 / 2f64.exp() - 1.0).abs() < 0.1);
    }

    #[test]
    fn clustered_keys_lie_in_a_vanishing_part_of_the_range_they_span() {
        let keys = sorted(Family::Clustered);
        let gaps = gaps(&keys);
        let span = (keys[N - 1] - keys[0]) as f64;
        let within: f64 = gaps.iter().filter(|&&gap| gap < 1 << 20).map(|&gap| gap as f64).sum();
        assert!(within / span < 1e-6 && gaps[N / 2] < 1 << 17, "{within} of {span}");
    }

    #[test]
    fn books_like_keys_are_smooth_in_the_large_and_rough_in_the_small() {
        let keys = sorted(Family::BooksLike);
        let mean = |part: &[u64]| (part[part.len() - 1] - part[0]) as f64 / part.len() as f64;
        let means: Vec<f64> = keys.chunks_exact(N / 50).map(mean).collect();
        assert!(means.windows(2).all(|two| (0.4..2.5).contains(&(two[1] / two[0]))), "{means:?}");
        assert!(means[49] / means[0] > 20.0);
        // Exponential gaps: the deviation is the mean.
        let gaps: Vec<f64> = keys[..N / 50].windows(2).map(|two| (two[1] - two[0]) as f64).collect();
        let variance = gaps.iter().map(|gap| (gap - means[0]).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((0.7..1.4).contains(&(variance.sqrt() / means[0])));
    }

    #[test]
    fn fb_like_keys_have_a_few_outliers_far_above_the_rest() {
        let keys = sorted(Family::FbLike);
        assert!(keys[N - FB_OUTLIERS - 1] < 1 << 44 && keys[N - FB_OUTLIERS] >= 1 << 44);
        assert!(keys[N - 1] > 1 << 60);
        let gaps = gaps(&keys[..N - FB_OUTLIERS]);
        assert!(gaps[gaps.len() - 1] > 100 * gaps[gaps.len() / 2]);
    }

    #[test]
    fn wiki_like_keys_come_twice_and_more_often_towards_the_end() {
        let keys = sorted(Family::WikiLike);
        let different = |keys: &[u64]| keys.chunk_by(|a, b| a == b).count() as f64;
        let times = N as f64 / different(&keys);
        assert!((1.9..2.6).contains(&times), "{times}");
        let (early, late) = (&keys[..N / 10], &keys[N - N / 10..]);
        assert!(early.len() as f64 / different(early) < 1.3);
        assert!(late.len() as f64 / different(late) > 3.0);
        assert!(keys[0] >= 979_516_800 && keys[N - 1] < 1 << 31);
    }

    #[test]
    fn text_is_as_long_as_its_family_says() {
        for family in Family::ALL {
            let Some(bytes) = family.text_bytes_mean() else { continue };
            let Some(keys) = texts(family, N, &mut Random::new(3)) else { continue };
            let mean = keys.iter().map(Vec::len).sum::<usize>() / N;
            assert!(mean.abs_diff(bytes) <= bytes / 4, "{family}: {mean} bytes");
        }
    }

    #[test]
    fn strings_are_real_paths_of_64_bytes_that_share_prefixes() {
        let keys = strings(5_000, &mut Random::new(1));
        assert_eq!(keys.len(), 5_000);
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert!(keys.iter().all(|key| key.len() == STRING_BYTES && key[53] == b'\t'));
        let shared = |two: &[Vec<u8>]| two[0].iter().zip(&two[1]).take_while(|(a, b)| a == b).count();
        let mean = keys.windows(2).map(shared).sum::<usize>() as f64 / keys.len() as f64;
        assert!(mean > 15.0, "{mean}");
        assert!(keys.iter().any(|key| key.starts_with(b"pebble/")));
    }
}
