//! Which filter a table gets, `FilterSpec`, and what a keyspace asks for, `Filters`; with
//! `FilterKind`, `FilterSpread`.
//!
//! A spec is a kind and bits per key. `Filters` is a spread over levels (uniform or Monkey), a kind
//! for the last level, and the mean bits. `encode` and `decode` are their bytes, `validate` their
//! ranges (0, or 1 to 64 bits).
//!
//! What must hold: ranges are checked where they are set and again where they are decoded. Numbers
//! of kinds and spreads are on disk.
//! Callers: `table::layout` holds `Filters`, `compaction::filters` makes specs of them,
//! `table::descriptor` and `table::writer` hold a table's spec. `engine` and the other crates that
//! choose filters or reckon with them name them.

use crate::{
    codec::{DecodeError, Decoder},
    error::{Error, Result},
};
use std::fmt;

/// Largest filter, in bits per key: false positives are below 1 in 10^8 before.
pub const BITS_PER_KEY_MAX: f32 = 64.0;

/// How a filter is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum FilterKind {
    /// A Bloom filter blocked by cache lines: one memory access for an answer.
    #[default]
    Bloom = 0,
    /// A Ribbon filter (Dillinger and Walzer 2021): a quarter fewer bits for as few false
    /// positives, but answers and construction take longer.
    Ribbon = 1,
}

impl FilterKind {
    /// Every kind.
    pub const ALL: [FilterKind; 2] = [FilterKind::Bloom, FilterKind::Ribbon];

    /// Its name in settings and reports.
    pub const fn name(self) -> &'static str {
        match self {
            FilterKind::Bloom => "bloom",
            FilterKind::Ribbon => "ribbon",
        }
    }

    /// The kind of a tag on disk.
    pub fn from_u8(tag: u8) -> Option<FilterKind> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == tag)
    }
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The filter of one table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FilterSpec {
    /// Its kind.
    pub kind: FilterKind,
    /// Bits for every key; 0 for no filter, else 1 to 64.
    pub bits_per_key: f32,
}

impl FilterSpec {
    /// Appends kind (u8) and bits per key (f32).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.kind as u8);
        out.extend_from_slice(&self.bits_per_key.to_bits().to_le_bytes());
    }

    /// Reads what [`FilterSpec::encode`] wrote. Bits out of range are refused.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<FilterSpec, DecodeError> {
        let Some(kind) = FilterKind::from_u8(decoder.u8("a kind of filter")?) else {
            return decoder.fail("a known kind of filter");
        };
        let bits_per_key = f32::from_bits(decoder.u32("filter bits per key")?);
        if !is_legal(bits_per_key) {
            return decoder.fail("filter bits per key in their range");
        }
        Ok(FilterSpec { kind, bits_per_key })
    }

    /// Whether the bits are in their range; the error says what is legal.
    pub fn validate(&self) -> Result<()> {
        validate(self.bits_per_key)
    }
}

impl fmt::Display for FilterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits_per_key {
            0.0 => f.write_str("none"),
            bits => write!(f, "{} {bits:.1}", self.kind),
        }
    }
}

fn is_legal(bits_per_key: f32) -> bool {
    bits_per_key == 0.0 || (1.0..=BITS_PER_KEY_MAX).contains(&bits_per_key)
}

fn validate(bits: f32) -> Result<()> {
    if is_legal(bits) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "filter bits_per_key is {bits}; it must be 0 (no filter) or 1 to {BITS_PER_KEY_MAX}"
    )))
}

/// How the levels of a tree share their filters' bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum FilterSpread {
    /// Every table gets as many bits per key as every other.
    Uniform = 0,
    /// Tables of smaller levels get more, such that together all let the fewest absent keys pass
    /// (Monkey). See [`super::allotment`].
    #[default]
    Monkey = 1,
}

impl FilterSpread {
    /// Every spread.
    pub const ALL: [FilterSpread; 2] = [FilterSpread::Uniform, FilterSpread::Monkey];

    /// Its name in settings and reports.
    pub const fn name(self) -> &'static str {
        match self {
            FilterSpread::Uniform => "uniform",
            FilterSpread::Monkey => "monkey",
        }
    }

    /// The spread of a tag on disk.
    pub fn from_u8(tag: u8) -> Option<FilterSpread> {
        Self::ALL.into_iter().find(|spread| *spread as u8 == tag)
    }
}

/// Which filters the tables of a keyspace get: how many bits, shared how between levels, of which
/// kind. A change counts for tables written after it.
///
/// ```
/// use solera::{FilterKind, Filters};
/// let filters = Filters::monkey(8.0).with_last_level(FilterKind::Ribbon);
/// # assert_eq!(filters.to_string(), "monkey, 8 bits per key, ribbon at the last level");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filters {
    /// Bits for every key in tables, in the mean of the tree; 0 for no filters, else 1 to 64.
    /// Default 10.
    pub bits_per_key: f32,
    /// How levels share them. Default [`FilterSpread::Monkey`].
    pub spread: FilterSpread,
    /// The kind of filter at the last level, which holds most keys; above it they are Bloom
    /// filters. Default [`FilterKind::Bloom`].
    pub last_level: FilterKind,
}

impl Default for Filters {
    fn default() -> Self {
        Filters::monkey(10.0)
    }
}

impl Filters {
    /// No filters: every lookup looks into a block of every run.
    pub const NONE: Filters = Filters::uniform(0.0);

    /// Bloom filters with this many bits for every key of every table.
    pub const fn uniform(bits_per_key: f32) -> Filters {
        Filters { bits_per_key, spread: FilterSpread::Uniform, last_level: FilterKind::Bloom }
    }

    /// Bloom filters with this many bits per key in the mean, more in smaller levels and fewer in
    /// larger.
    pub const fn monkey(bits_per_key: f32) -> Filters {
        Filters { bits_per_key, spread: FilterSpread::Monkey, last_level: FilterKind::Bloom }
    }

    /// The same with filters of `kind` at the last level.
    pub const fn with_last_level(self, kind: FilterKind) -> Filters {
        Filters { last_level: kind, ..self }
    }

    /// A filter with the mean number of bits, of the last level's kind: what every table gets of
    /// which nothing more is known.
    pub const fn mean(&self) -> FilterSpec {
        FilterSpec { kind: self.last_level, bits_per_key: self.bits_per_key }
    }

    /// Appends spread (u8), kind at the last level (u8) and bits per key (f32).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.spread as u8);
        self.mean().encode(out);
    }

    /// Reads what [`Filters::encode`] wrote. Bits out of range are refused.
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Filters, DecodeError> {
        let Some(spread) = FilterSpread::from_u8(decoder.u8("a spread of filter bits")?) else {
            return decoder.fail("a known spread of filter bits");
        };
        let FilterSpec { kind, bits_per_key } = FilterSpec::decode(decoder)?;
        Ok(Filters { bits_per_key, spread, last_level: kind })
    }

    /// Whether the bits are in their range; the error says what is legal.
    pub fn validate(&self) -> Result<()> {
        validate(self.bits_per_key)
    }
}

impl fmt::Display for Filters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bits_per_key == 0.0 {
            return f.write_str("none");
        }
        write!(f, "{}, {} bits per key", self.spread.name(), self.bits_per_key)?;
        match self.last_level {
            FilterKind::Bloom => Ok(()),
            kind => write!(f, ", {kind} at the last level"),
        }
    }
}
