//! Filters, "this table certainly does not hold that key" answered from memory: `Filter` and
//! `FilterBuilder`.
//!
//! - `bloom`: blocked by cache lines. One memory access for an answer.
//! - `ribbon`: a quarter fewer bits for the same answers, but more lines and arithmetic.
//!
//! A table gets a `FilterSpec`, a keyspace asks for `Filters`; `allotment` divides bits among
//! levels. `curve` says how many absent keys a filter lets pass. Bytes: the kind's own, then one
//! byte, the `FilterKind`; none at all: no filter.
//! What must hold: a key whose hash (`crate::key::hash`) was added is admitted. Unknown kinds are
//! refused.
//! Callers: `table::writer` builds, `table::reader` decodes, `table::lookup` and `table::verify`
//! ask; `fuzz` builds and decodes. The files of this room name who uses specs, shares and curves.

pub mod allotment;
mod bloom;
mod curve;
mod ribbon;
mod spec;

pub use curve::{false_positives, false_positives_over};
pub use spec::{BITS_PER_KEY_MAX, FilterKind, FilterSpec, FilterSpread, Filters};

use crate::{codec::DecodeError, pool::Settled};
use bloom::Bloom;
use ribbon::Ribbon;

/// Collects the hashes of a table's keys.
#[derive(Debug)]
pub struct FilterBuilder {
    spec: FilterSpec,
    hashes: Vec<u64>,
}

impl FilterBuilder {
    /// A builder of filters like `spec` (bits of 0 or less, or not a number: none).
    pub fn new(spec: FilterSpec) -> Self {
        FilterBuilder { spec, hashes: Vec::new() }
    }

    /// Adds a key by its hash. Equal neighbours (versions of one key) count once.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.spec.bits_per_key > 0.0 && self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Keys added since the last filter, 0 if none is wanted.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether no key was added, or none is wanted.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// The filter's bytes; empty if it is empty. The builder is empty afterwards.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.hashes.is_empty() {
            let bits_per_key = self.spec.bits_per_key.min(BITS_PER_KEY_MAX);
            match self.spec.kind {
                FilterKind::Bloom => bloom::build(&self.hashes, bits_per_key, &mut bytes),
                FilterKind::Ribbon => ribbon::build(&mut self.hashes, bits_per_key, &mut bytes),
            }
            bytes.push(self.spec.kind as u8);
            self.hashes.clear();
        }
        bytes
    }
}

/// A filter in memory.
#[derive(Clone, Debug)]
pub enum Filter {
    /// Every key may be there.
    None,
    /// A blocked Bloom filter.
    Bloom(Bloom),
    /// A Ribbon filter.
    Ribbon(Ribbon),
}

impl Filter {
    /// Reads a filter from what [`FilterBuilder::finish`] made.
    ///
    /// # Errors
    /// The bytes do not end with a known kind, or are not what that kind is made of.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((&kind, of_kind)) = bytes.split_last() else { return Ok(Filter::None) };
        match FilterKind::from_u8(kind) {
            Some(FilterKind::Bloom) => Bloom::decode(of_kind).map(Filter::Bloom),
            Some(FilterKind::Ribbon) => Ribbon::decode(of_kind).map(Filter::Ribbon),
            None => Err(DecodeError { at: of_kind.len(), what: "a known kind of filter" }),
        }
    }

    /// Its kind; `None` if there is no filter.
    pub fn kind(&self) -> Option<FilterKind> {
        match self {
            Filter::None => None,
            Filter::Bloom(_) => Some(FilterKind::Bloom),
            Filter::Ribbon(_) => Some(FilterKind::Ribbon),
        }
    }

    /// Whether there is no filter, so that every key may be there.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Filter::None)
    }

    /// Whether a key with this hash may be in the table. `false` is certain.
    #[inline(always)]
    pub fn may_contain(&self, hash: u64) -> bool {
        match self {
            Filter::None => true,
            Filter::Bloom(bloom) => bloom.may_contain(hash),
            Filter::Ribbon(ribbon) => ribbon.may_contain(hash),
        }
    }

    /// Asks for what [`Filter::may_contain`] reads first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        match self {
            Filter::None => {}
            Filter::Bloom(bloom) => bloom.prefetch(hash),
            Filter::Ribbon(ribbon) => ribbon.prefetch(hash),
        }
    }

    /// Has its memory on huge pages for as long as the result lives.
    pub fn settle(&self) -> Option<Settled> {
        match self {
            Filter::None => None,
            Filter::Bloom(bloom) => Some(bloom.settle()),
            Filter::Ribbon(ribbon) => Some(ribbon.settle()),
        }
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Filter::None => 0,
            Filter::Bloom(bloom) => bloom.memory_bytes(),
            Filter::Ribbon(ribbon) => ribbon.memory_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use proptest::prelude::*;

    fn hash(i: u64) -> u64 {
        key::hash(&i.to_be_bytes())
    }

    fn built(spec: FilterSpec, keys: u64) -> Filter {
        let mut builder = FilterBuilder::new(spec);
        (0..keys).for_each(|i| builder.add(hash(i)));
        Filter::decode(&builder.finish()).unwrap()
    }

    /// The share of absent keys that pass, of so many.
    fn measured(spec: FilterSpec, keys: u64, absent: u64) -> f64 {
        let filter = built(spec, keys);
        assert!((0..keys).all(|i| filter.may_contain(hash(i))), "{spec}: a key that was added");
        (keys..keys + absent).filter(|&i| filter.may_contain(hash(i))).count() as f64 / absent as f64
    }

    #[test]
    #[cfg_attr(miri, ignore = "counts, for which Miri is too slow")]
    fn more_bits_let_fewer_absent_keys_pass() {
        for kind in FilterKind::ALL {
            for keys in [10, 1000, 200_000] {
                let measured = [4.0, 7.0, 10.0, 16.0]
                    .map(|bits_per_key| measured(FilterSpec { kind, bits_per_key }, keys, 100_000));
                assert!(measured[2] <= 0.015, "{kind}: {measured:?} of {keys} keys");
                assert!(measured.is_sorted_by(|a, b| a >= b), "{kind}: {measured:?} of {keys} keys");
            }
        }
    }

    /// What the allotment of bits goes by.
    #[test]
    #[cfg_attr(miri, ignore = "counts, for which Miri is too slow")]
    fn measured_and_expected_false_positives_agree() {
        for kind in FilterKind::ALL {
            for (bits_per_key, absent) in [
                (1.5f32, 100_000),
                (3.0, 100_000),
                (5.0, 100_000),
                (10.0, 400_000),
                (14.5, 4_000_000),
                (20.0, 8_000_000),
            ] {
                let spec = FilterSpec { kind, bits_per_key };
                let expected = false_positives(spec);
                // So many of a kind that 20 % are at least four standard deviations.
                if expected * (absent as f64) < 400.0 {
                    continue;
                }
                let measured = measured(spec, 100_000, absent);
                assert!((measured / expected - 1.0).abs() < 0.2, "{spec}: {measured} against {expected}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "counts, for which Miri is too slow")]
    fn a_ribbon_saves_a_quarter_of_the_bits() {
        let bloom = FilterSpec { kind: FilterKind::Bloom, bits_per_key: 10.0 };
        let ribbon = FilterSpec { kind: FilterKind::Ribbon, bits_per_key: 7.5 };
        let [bytes, fewer] = [bloom, ribbon].map(|spec| built(spec, 200_000).memory_bytes() as f64);
        assert!((0.745..0.76).contains(&(fewer / bytes)), "{fewer} of {bytes}");
        assert!(measured(ribbon, 200_000, 400_000) < 1.05 * measured(bloom, 200_000, 400_000));
    }

    #[test]
    #[cfg_attr(miri, ignore = "counts, for which Miri is too slow")]
    fn a_filter_takes_the_bits_that_it_was_given() {
        for kind in FilterKind::ALL {
            for bits_per_key in [1.0f32, 2.3, 7.6, 10.0, 17.9, 33.0] {
                let filter = built(FilterSpec { kind, bits_per_key }, 100_000);
                let ratio = filter.memory_bytes() as f64 * 8.0 / (100_000.0 * f64::from(bits_per_key));
                // A ribbon cannot have less than one column.
                let most = if kind == FilterKind::Ribbon && bits_per_key < 1.1 { 1.08 } else { 1.005 };
                assert!((0.998..most).contains(&ratio), "{kind} of {bits_per_key} bits: {ratio}");
            }
        }
    }

    #[test]
    fn no_bits_make_no_filter_and_it_passes_everything() {
        for kind in FilterKind::ALL {
            for bits_per_key in [0.0, -1.0, f32::NAN] {
                let mut builder = FilterBuilder::new(FilterSpec { kind, bits_per_key });
                builder.add(1);
                let bytes = builder.finish();
                assert!(bytes.is_empty());
                let filter = Filter::decode(&bytes).unwrap();
                assert!(filter.is_none() && filter.may_contain(0) && filter.may_contain(u64::MAX));
            }
        }
    }

    #[test]
    fn versions_of_one_key_count_once_and_a_builder_starts_again() {
        for kind in FilterKind::ALL {
            let mut builder = FilterBuilder::new(FilterSpec { kind, bits_per_key: 10.0 });
            for hash in [1, 1, 1, 2] {
                builder.add(hash);
            }
            assert_eq!(builder.len(), 2);
            assert!(!builder.finish().is_empty());
            assert!(builder.is_empty() && builder.finish().is_empty());
        }
    }

    #[test]
    fn an_unknown_kind_is_refused() {
        let mut builder = FilterBuilder::new(FilterSpec { kind: FilterKind::Bloom, bits_per_key: 10.0 });
        builder.add(1);
        let mut bytes = builder.finish();
        *bytes.last_mut().unwrap() = 2;
        assert_eq!(Filter::decode(&bytes).unwrap_err().what, "a known kind of filter");
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_answer(mut bytes in prop::collection::vec(any::<u8>(), 0..300), probes in 0u8..30, kind in 0u8..3, hash: u64) {
            bytes.extend([probes, kind]);
            for bytes in [&bytes[..], &bytes[bytes.len() % 64..], &bytes[(bytes.len() - 2) % 64..], &bytes[bytes.len().saturating_sub(6) % 8..]] {
                if let Ok(filter) = Filter::decode(bytes) {
                    let _ = filter.may_contain(hash);
                }
            }
        }

        #[test]
        fn what_was_added_may_be_contained(hashes: Vec<u64>, bits_per_key in 0.1f32..100.0) {
            for kind in FilterKind::ALL {
                let mut builder = FilterBuilder::new(FilterSpec { kind, bits_per_key });
                hashes.iter().for_each(|&hash| builder.add(hash));
                let filter = Filter::decode(&builder.finish()).unwrap();
                prop_assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
            }
        }
    }
}
