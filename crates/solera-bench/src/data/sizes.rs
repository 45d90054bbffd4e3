//! How long keys and values are: `Sizes` (fixed, one of three published mixes, or Sherry's 1 to 400
//! bytes), `KeyMaker` and `ValueMaker`.
//!
//! The mixes are UDB, ZippyDB and UP2X, normal distributions with the means and deviations that
//! were published. A key is one of 64 random prefixes, the family's number (8 bytes), and random
//! text; one of 8 bytes is the number. A value is random, incompressible bytes.
//!
//! What must hold: the number in a key tells it from all others. Families of text have keys of
//! their own lengths. Parsing refuses illegal sizes and says what is legal.
//!
//! Callers: `data::mod` makes keys and values by them. `runner`, `paper` and `solera-bench-peers`
//! choose a `Sizes` for each set.

use crate::random::Random;
use serde::Serialize;
use std::{fmt, str::FromStr};

/// Bytes of the number in every generated key, which tells it from all others.
pub const NUMBER_BYTES: usize = 8;
/// Longest fixed key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// Longest fixed value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;
/// Prefixes of long keys: tenants, tables, column families of an application.
const PREFIXES: usize = 64;

/// How long keys and values are.
///
/// A generated key is a prefix, one of 64 random texts, then the family's number (8 bytes, the
/// first of them the most significant), then random text; 8-byte keys are the number alone. The
/// mixes are those of three uses of RocksDB at Facebook (Cao et al., FAST 2020, table 2: mean and
/// deviation of key and value sizes), drawn from normal distributions; keys have at least 8 bytes,
/// values at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All keys are equally long, and all values are.
    Fixed {
        /// Bytes of each key, from 8; families of text have [lengths of their
        /// own](super::Family::text_bytes).
        key_bytes: usize,
        /// Bytes of each value.
        value_bytes: usize,
    },
    /// Social graph in MySQL: keys of 27.1 ± 2.6 bytes, values of 126.7 ± 22.1.
    Udb,
    /// Distributed key-value store: keys of 47.9 ± 3.7 bytes, values of 42.9 ± 26.1.
    ZippyDb,
    /// Sherry's test 2: 8-byte keys, values of 1 to 400 bytes, each size equally likely.
    Sherry,
    /// Counters for machine learning: keys of 10.4 ± 1.4 bytes, values of 46.8 ± 11.6.
    Up2x,
}

/// A normal distribution of sizes, in bytes.
#[derive(Clone, Copy)]
struct Normal {
    mean: f64,
    deviation: f64,
    least: usize,
}

impl Normal {
    fn draw(self, random: &mut Random) -> usize {
        let size = self.mean + if self.deviation > 0.0 { self.deviation * random.normal() } else { 0.0 };
        (size.round().max(0.0) as usize).max(self.least)
    }
}

impl Sizes {
    /// The three mixes.
    pub const MIXES: [Sizes; 3] = [Sizes::Udb, Sizes::ZippyDb, Sizes::Up2x];

    /// Whether the sizes are in their ranges; else what is legal.
    pub fn validate(self) -> Result<(), String> {
        match self {
            Sizes::Fixed { key_bytes, .. } if !(NUMBER_BYTES..=KEY_BYTES_MAX).contains(&key_bytes) => Err(
                format!("keys of {key_bytes} bytes: generated keys have {NUMBER_BYTES} to {KEY_BYTES_MAX}"),
            ),
            Sizes::Fixed { value_bytes, .. } if value_bytes > VALUE_BYTES_MAX => {
                Err(format!("values of {value_bytes} bytes: generated values have at most {VALUE_BYTES_MAX}"))
            }
            _ => Ok(()),
        }
    }

    fn distributions(self) -> (Normal, Normal) {
        let normals = |key: (f64, f64), value: (f64, f64)| {
            (
                Normal { mean: key.0, deviation: key.1, least: NUMBER_BYTES },
                Normal { mean: value.0, deviation: value.1, least: 1 },
            )
        };
        match self {
            Sizes::Fixed { key_bytes, value_bytes } => {
                let (key, value) = normals((key_bytes as f64, 0.0), (value_bytes as f64, 0.0));
                (key, Normal { least: 0, ..value })
            }
            Sizes::Sherry => normals((8.0, 0.0), (200.5, 0.0)),
            Sizes::Udb => normals((27.1, 2.6), (126.7, 22.1)),
            Sizes::ZippyDb => normals((47.9, 3.7), (42.9, 26.1)),
            Sizes::Up2x => normals((10.4, 1.4), (46.8, 11.6)),
        }
    }

    /// Bytes of a pair, in the mean of all.
    pub fn pair_bytes(self) -> u64 {
        let (key, value) = self.distributions();
        (key.mean + value.mean) as u64
    }

    /// Bytes of prefix: what all but the shortest one or two in a hundred keys have beside the
    /// number.
    fn prefix_bytes(self) -> usize {
        let key = self.distributions().0;
        ((key.mean - 2.0 * key.deviation) as usize).saturating_sub(NUMBER_BYTES)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed { key_bytes, value_bytes } => write!(f, "{key_bytes}+{value_bytes}"),
            Sizes::Sherry => f.pad("8+1..400"),
            Sizes::Udb => f.pad("udb"),
            Sizes::ZippyDb => f.pad("zippydb"),
            Sizes::Up2x => f.pad("up2x"),
        }
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "sizes are KEY+VALUE bytes, such as 8+64, or udb, zippydb, up2x or 8+1..400, not {text:?}"
            )
        };
        if let Some(mix) = Sizes::MIXES.into_iter().chain([Sizes::Sherry]).find(|mix| mix.to_string() == text)
        {
            return Ok(mix);
        }
        let (key, value) = text.split_once('+').ok_or_else(wrong)?;
        let number = |text: &str| text.parse().map_err(|_| wrong());
        let sizes = Sizes::Fixed { key_bytes: number(key)?, value_bytes: number(value)? };
        sizes.validate().map(|()| sizes)
    }
}

/// Makes numbers into keys.
pub(super) struct KeyMaker {
    key: Normal,
    prefixes: Vec<Vec<u8>>,
}

impl KeyMaker {
    pub(super) fn new(sizes: Sizes, random: &mut Random) -> Self {
        let bytes = sizes.prefix_bytes();
        KeyMaker {
            key: sizes.distributions().0,
            prefixes: (0..PREFIXES).map(|_| text(bytes, random)).collect(),
        }
    }

    pub(super) fn key(&self, number: u64, random: &mut Random) -> Vec<u8> {
        let len = self.key.draw(random);
        let mut key = match self.prefixes.first() {
            Some(only) if only.is_empty() => Vec::with_capacity(len),
            _ => self.prefixes[random.below(PREFIXES as u64) as usize].clone(),
        };
        key.extend_from_slice(&number.to_be_bytes());
        let tail = len.saturating_sub(key.len());
        key.extend_from_slice(&text(tail, random));
        key
    }
}

/// Makes values of random, incompressible bytes.
pub(super) struct ValueMaker {
    value: Normal,
    /// Every size up to this one, equally likely, instead of a normal distribution.
    even_max: Option<u64>,
    bytes: Vec<u8>,
}

impl ValueMaker {
    pub(super) fn new(sizes: Sizes) -> Self {
        let even_max = (sizes == Sizes::Sherry).then_some(400);
        ValueMaker { value: sizes.distributions().1, even_max, bytes: Vec::new() }
    }

    pub(super) fn value(&mut self, random: &mut Random) -> &[u8] {
        let bytes = match self.even_max {
            Some(max) => 1 + random.below(max) as usize,
            None => self.value.draw(random),
        };
        self.bytes.resize(bytes, 0);
        random.fill(&mut self.bytes);
        &self.bytes
    }
}

fn text(bytes: usize, random: &mut Random) -> Vec<u8> {
    (0..bytes).map(|_| b'a' + random.below(26) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_have_the_means_and_deviations_that_were_published() {
        let moments = |sizes: &[usize]| {
            let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
            let variance = sizes.iter().map(|&size| (size as f64 - mean).powi(2)).sum::<f64>();
            (mean, (variance / sizes.len() as f64).sqrt())
        };
        for (sizes, key, value) in [
            (Sizes::Udb, (27.1, 2.6), (126.7, 22.1)),
            // Deviations shrink and means grow a little where sizes are cut off below.
            (Sizes::ZippyDb, (47.9, 3.7), (43.3, 25.2)),
            (Sizes::Up2x, (10.45, 1.35), (46.8, 11.6)),
        ] {
            let mut random = Random::new(2);
            let (keys, mut values) = (KeyMaker::new(sizes, &mut random), ValueMaker::new(sizes));
            let lens: (Vec<usize>, Vec<usize>) = (0..20_000)
                .map(|i| (keys.key(i, &mut random).len(), values.value(&mut random).len()))
                .unzip();
            for (found, expected) in [(moments(&lens.0), key), (moments(&lens.1), value)] {
                assert!((found.0 - expected.0).abs() < 0.6, "{sizes}: {found:?}, not {expected:?}");
                assert!((found.1 - expected.1).abs() < 0.6, "{sizes}: {found:?}, not {expected:?}");
            }
            assert_eq!(sizes.to_string().parse(), Ok(sizes));
        }
    }

    #[test]
    fn fixed_keys_begin_with_one_of_64_prefixes_and_end_with_their_number() {
        let mut random = Random::new(4);
        let short = KeyMaker::new(Sizes::Fixed { key_bytes: 8, value_bytes: 0 }, &mut random);
        assert_eq!(short.key(77, &mut random), 77u64.to_be_bytes());
        let long = KeyMaker::new(Sizes::Fixed { key_bytes: 128, value_bytes: 0 }, &mut random);
        let keys: Vec<Vec<u8>> = (0..10_000).map(|i| long.key(i, &mut random)).collect();
        assert!(keys.iter().enumerate().all(|(i, key)| key[120..] == (i as u64).to_be_bytes()));
        let prefixes: std::collections::BTreeSet<&[u8]> = keys.iter().map(|key| &key[..120]).collect();
        assert_eq!(prefixes.len(), 64);
    }

    #[test]
    fn sizes_are_written_as_they_are_read_and_illegal_ones_refused_with_what_is_legal() {
        let fixed = Sizes::Fixed { key_bytes: 24, value_bytes: 400 };
        assert_eq!(("24+400".parse(), fixed.to_string()), (Ok(fixed), "24+400".to_owned()));
        for wrong in ["", "24", "7+64", "8+", "a+b", "8+99999999", "rocks"] {
            let error = wrong.parse::<Sizes>().unwrap_err();
            assert!(error.contains("bytes"), "{error}");
        }
    }
}
