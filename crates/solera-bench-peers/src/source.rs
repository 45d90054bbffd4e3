//! Where the data of a comparison comes from: `Source`, a sample of real rows or made pairs.
//!
//! Keys of made pairs are a family's, or a file's (`sosd:FILE`, `lines:FILE`). `make` makes a
//! `solera_bench` data set. `pair_bytes` and `entries` say about how large it will be; `shrunk`
//! asks for less.
//!
//! What must hold: a source comes back from its text, as `Task` carries it. A file's path may have
//! `/` and `@`: what follows the last of them counts as sizes or pairs only if it is some. Pairs
//! are 8 and 64 bytes if the user does not say.
//!
//! Callers: `main` and `pieces` read one; `pieces` shrinks it. `main` and `compare` size it,
//! `child` makes it.

use serde::{Deserialize, Serialize};
use solera_bench::data::{DataSet, Keys, NUMBER_BYTES, Recipe, Sizes};
use std::{fmt, str::FromStr};

/// Bytes of a pair of the sample of real rows, about, and how many there are.
const SAMPLE_PAIR_BYTES: u64 = 64;
const SAMPLE_PAIRS: usize = 41_862;
/// A set of so many pairs is not made smaller.
const SHRINKS_FROM: usize = 1_000_000;
/// What the text of a source begins with whose keys are a file's.
const SOSD: &str = "sosd:";
const LINES: &str = "lines:";
/// What generated pairs are like if the user does not say.
const SIZES: Sizes = Sizes::Fixed { key_bytes: 8, value_bytes: 64 };

/// A data set, by what users write: the sample of real rows, or a family of keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    /// Real rows.
    GitHistory,
    /// Generated pairs.
    Generated { keys: Keys, sizes: Sizes, entries: Option<usize> },
}

impl Source {
    /// Keys of a file: `sosd:FILE` or `lines:FILE`, perhaps with sizes and pairs behind it.
    fn of_file(text: &str) -> Result<Self, String> {
        let split = |text, by| str::rsplit_once(text, by);
        let pairs = split(text, '@').and_then(|(rest, count)| {
            let count: usize = count.parse().ok().filter(|&count| count > 0)?;
            Some((rest, count))
        });
        let (rest, entries) = pairs.map_or((text, None), |(rest, count)| (rest, Some(count)));
        let sized = split(rest, '/').and_then(|(keys, sizes)| Some((keys, sizes.parse().ok()?)));
        let (keys, sizes) = sized.unwrap_or((rest, SIZES));
        Ok(Source::Generated { keys: keys.parse()?, sizes, entries })
    }

    /// Makes the data: so many pairs, unless it says how many itself.
    pub fn make(&self, entries: usize, seed: u64) -> Result<DataSet, String> {
        match self {
            Source::GitHistory => Ok(DataSet::git_history_sample(seed)),
            Source::Generated { keys, sizes, entries: own } => DataSet::of(&Recipe {
                keys: keys.clone(),
                entries: own.unwrap_or(entries),
                sizes: *sizes,
                seed,
            }),
        }
    }

    /// Bytes of a pair, about.
    pub fn pair_bytes(&self) -> u64 {
        match self {
            Source::GitHistory => SAMPLE_PAIR_BYTES,
            // Text is as long as it is, whatever was asked for.
            Source::Generated { keys, sizes, .. } => {
                let text_bytes = match keys {
                    Keys::Family(family) => family.text_bytes_mean(),
                    Keys::Sosd(_) | Keys::Lines(_) => None,
                };
                sizes.pair_bytes() + text_bytes.map_or(0, |bytes| bytes.saturating_sub(NUMBER_BYTES) as u64)
            }
        }
    }

    /// With so many times fewer pairs where it has more than a million, but a million at least.
    pub fn shrunk(self, times: usize) -> Self {
        match self {
            Source::Generated { keys, sizes, entries: Some(entries) } if entries > SHRINKS_FROM => {
                let entries = Some((entries / times).max(SHRINKS_FROM));
                Source::Generated { keys, sizes, entries }
            }
            other => other,
        }
    }

    /// How many pairs if so many are asked for.
    pub fn entries(&self, entries: usize) -> usize {
        match self {
            Source::GitHistory => SAMPLE_PAIRS,
            Source::Generated { entries: own, .. } => own.unwrap_or(entries),
        }
    }
}

impl FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "git-history" {
            return Ok(Source::GitHistory);
        }
        if text.starts_with(SOSD) || text.starts_with(LINES) {
            return Source::of_file(text);
        }
        let (rest, entries) = match text.rsplit_once('@') {
            None => (text, None),
            Some((rest, count)) => match count.parse() {
                Ok(count) if count > 0 => (rest, Some(count)),
                _ => return Err(format!("{count:?} is no number of pairs")),
            },
        };
        let (keys, sizes) = match rest.split_once('/') {
            Some((keys, sizes)) => (keys, sizes.parse()?),
            None => (rest, SIZES),
        };
        let keys = keys.parse().map_err(|what: String| format!("{what}, or git-history"))?;
        Ok(Source::Generated { keys, sizes, entries })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::GitHistory => f.write_str("git-history"),
            Source::Generated { keys, sizes, entries } => {
                match keys {
                    Keys::Family(family) => write!(f, "{family}/{sizes}")?,
                    Keys::Sosd(path) => write!(f, "{SOSD}{}/{sizes}", path.display())?,
                    Keys::Lines(path) => write!(f, "{LINES}{}/{sizes}", path.display())?,
                }
                entries.map_or(Ok(()), |entries| write!(f, "@{entries}"))
            }
        }
    }
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Source> for String {
    fn from(source: Source) -> String {
        source.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_as_large_as_its_budget_says() {
        let pairs = Source::GitHistory.make(1, 1).unwrap().pairs;
        assert_eq!((pairs.len(), Source::GitHistory.entries(1)), (SAMPLE_PAIRS, SAMPLE_PAIRS));
        let bytes = SAMPLE_PAIR_BYTES * SAMPLE_PAIRS as u64;
        assert!((bytes * 4 / 5..=bytes * 5 / 4).contains(&pairs.bytes()), "{} bytes", pairs.bytes());
    }

    #[test]
    fn sources_come_back_from_their_text() {
        for text in ["git-history", "uniform/8+64", "wiki-like/udb@1000", "strings/8+1024"] {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for (text, path, entries) in [
            ("lines:/usr/share/dict/words", "/usr/share/dict/words", None),
            ("lines:/usr/share/dict/words/up2x", "/usr/share/dict/words", None),
            ("sosd:data/books@1000", "data/books", Some(1000)),
            ("sosd:me@home/books/8+64@1000", "me@home/books", Some(1000)),
            ("lines:words@5/8+64", "words@5", None),
            ("lines:words@5", "words", Some(5)),
        ] {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.to_string().parse(), Ok(source.clone()), "{text}");
            let Source::Generated { keys, entries: told, .. } = source else { panic!("{text}") };
            let is_lines = text.starts_with(LINES);
            let expected = if is_lines { Keys::Lines(path.into()) } else { Keys::Sosd(path.into()) };
            assert_eq!((keys, told), (expected, entries), "{text}");
        }
        assert_eq!("clustered".parse::<Source>().unwrap().to_string(), "clustered/8+64");
        for wrong in ["", "uniform@", "uniform@0", "uniform/7", "nobody/8+64", "git-history@5"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }
}
