//! Filters: "this table certainly does not hold that key", in one cache line.
//!
//! Owns [`Filter`], a Bloom filter blocked by cache lines of 512 bits, and its builder. A key's hash
//! ([`crate::key::hash`]) picks one line; all its probes are bits of that line, so that an answer costs one
//! memory access. Blocking costs false positives (lines fill unevenly): about 1 % instead of 0.8 % at 10
//! bits per key.
//!
//! Bytes: the lines, 64 bytes each (eight little-endian `u64`), then one byte, the number of probes (1 to
//! [`PROBES_MAX`]). No bytes at all: no filter.

mod line;

use crate::{codec::DecodeError, prefetch::prefetch};
use line::{LINE_BITS, LINE_BYTES, Line, PROBES_MAX};
use solera_model::lanes::Lanes;

/// A line is chosen by a 32-bit multiplication, which reaches no further.
const LINES_MAX: usize = u32::MAX as usize;

/// The line of a hash among `lines`: its upper half, scaled.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// The share of absent keys that pass, expected of lines of 512 bits at `bits_per_key`: the number of keys in
/// a line is Poisson-distributed, and each line is a small Bloom filter.
fn false_positives_expected(bits_per_key: f64, probes: u8) -> f64 {
    let mean = f64::from(LINE_BITS) / bits_per_key;
    let mut chance = (-mean).exp();
    let mut sum = 0.0;
    for keys in 1..=(mean + 12.0 * mean.sqrt() + 12.0) as i32 {
        chance *= mean / f64::from(keys);
        let bit_clear = (1.0 - 1.0 / f64::from(LINE_BITS)).powi(keys * i32::from(probes));
        sum += chance * (1.0 - bit_clear).powi(probes.into());
    }
    sum
}

/// The number of probes that lets the fewest absent keys pass. The share falls and then rises with the
/// probes, so the search ends where it first rises: every table asks, small ones too.
fn probes_for(bits_per_key: f32) -> u8 {
    let bits = f64::from(bits_per_key).clamp(0.5, 64.0);
    let (mut best, mut least) = (1, false_positives_expected(bits, 1));
    for probes in 2..=PROBES_MAX {
        let share = false_positives_expected(bits, probes);
        if share >= least {
            break;
        }
        (best, least) = (probes, share);
    }
    best
}

/// Collects the hashes of a table's keys.
#[derive(Debug)]
pub struct FilterBuilder {
    bits_per_key: f32,
    probes: u8,
    hashes: Vec<u64>,
}

impl FilterBuilder {
    /// A builder of filters of `bits_per_key` (0 or less, or not a number: none).
    pub fn new(bits_per_key: f32) -> Self {
        let probes = if bits_per_key > 0.0 { probes_for(bits_per_key) } else { 1 };
        FilterBuilder { bits_per_key, probes, hashes: Vec::new() }
    }

    /// Adds a key by its hash. Equal neighbours (versions of one key) count once.
    #[inline]
    pub fn add(&mut self, hash: u64) {
        if self.bits_per_key > 0.0 && self.hashes.last() != Some(&hash) {
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
        if self.hashes.is_empty() {
            return Vec::new();
        }
        let bits = self.hashes.len() as f64 * f64::from(self.bits_per_key);
        let count = ((bits / f64::from(LINE_BITS)).ceil() as usize).clamp(1, LINES_MAX);
        let mut lines = vec![Line::default(); count];
        for &hash in &self.hashes {
            lines[line_of(hash, count)].set(hash, self.probes);
        }
        self.hashes.clear();
        let mut bytes = Vec::with_capacity(count * LINE_BYTES + 1);
        lines.iter().flat_map(|line| line.0).for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.push(self.probes);
        bytes
    }
}

/// A filter in memory.
#[derive(Clone, Debug)]
pub struct Filter {
    lines: Box<[Line]>,
    probes: u8,
    lanes: Lanes,
}

impl Filter {
    /// Reads a filter from what [`FilterBuilder::finish`] made.
    ///
    /// # Errors
    /// The bytes are not whole lines and a legal number of probes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((&probes, lines)) = bytes.split_last() else {
            return Ok(Filter { lines: Box::default(), probes: 0, lanes: Lanes::Scalar });
        };
        if lines.is_empty() || !lines.len().is_multiple_of(LINE_BYTES) || lines.len() / LINE_BYTES > LINES_MAX
        {
            return Err(DecodeError { at: 0, what: "filter lines of 64 bytes" });
        }
        if !(1..=PROBES_MAX).contains(&probes) {
            return Err(DecodeError { at: lines.len(), what: "a number of filter probes" });
        }
        let line = |bytes: &[u8]| {
            let mut line = Line::default();
            for (word, bytes) in line.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            line
        };
        Ok(Filter {
            lines: lines.chunks_exact(LINE_BYTES).map(line).collect(),
            probes,
            lanes: Lanes::detect(),
        })
    }

    /// Whether there is no filter, so that every key may be there.
    pub fn is_none(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a key with this hash may be in the table. `false` is certain.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let Some(line) = self.lines.get(line_of(hash, self.lines.len())) else { return true };
        line.has(hash, self.probes, self.lanes)
    }

    /// Asks for the line that [`Filter::may_contain`] reads.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.lines.as_ptr().wrapping_add(line_of(hash, self.lines.len())).cast());
    }

    /// Bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key;
    use proptest::prelude::*;

    fn false_positives(bits_per_key: f32, keys: u64) -> f64 {
        let mut builder = FilterBuilder::new(bits_per_key);
        (0..keys).for_each(|i| builder.add(key::hash(&i.to_be_bytes())));
        let filter = Filter::decode(&builder.finish()).unwrap();
        assert!((0..keys).all(|i| filter.may_contain(key::hash(&i.to_be_bytes()))));
        let passed =
            (keys..keys + 200_000).filter(|i| filter.may_contain(key::hash(&i.to_be_bytes()))).count();
        passed as f64 / 200_000.0
    }

    #[test]
    fn ten_bits_per_key_let_at_most_1_5_percent_pass_and_more_bits_less() {
        for keys in [10, 1000, 200_000] {
            let measured = [4.0, 7.0, 10.0, 16.0].map(|bits| false_positives(bits, keys));
            assert!(measured[2] <= 0.015, "{measured:?} of {keys} keys");
            assert!(measured.is_sorted_by(|a, b| a >= b), "{measured:?}");
        }
    }

    /// Symptom: half the time of opening, flushing and writing on in tiny databases went into powers. Cause:
    /// every table weighed all 24 numbers of probes, each twice. Cure: the search ends at the first rise.
    #[test]
    fn the_first_number_of_probes_after_which_it_gets_worse_is_the_best() {
        for bits in (1..=128).map(|half_bits| half_bits as f32 / 2.0) {
            let share = |probes: &u8| false_positives_expected(bits.into(), *probes);
            let best = (1..=PROBES_MAX).min_by(|a, b| share(a).total_cmp(&share(b)));
            assert_eq!(Some(probes_for(bits)), best, "{bits} bits per key");
        }
    }

    #[test]
    fn measured_and_expected_false_positives_agree() {
        for bits in [5.0f32, 10.0, 14.5] {
            let expected = false_positives_expected(bits.into(), probes_for(bits));
            let measured = false_positives(bits, 100_000);
            assert!((measured / expected - 1.0).abs() < 0.2, "{bits}: {measured} against {expected}");
        }
    }

    #[test]
    fn no_bits_make_no_filter_and_it_passes_everything() {
        for bits in [0.0, -1.0, f32::NAN] {
            let mut builder = FilterBuilder::new(bits);
            builder.add(1);
            let bytes = builder.finish();
            assert!(bytes.is_empty());
            let filter = Filter::decode(&bytes).unwrap();
            assert!(filter.is_none() && filter.may_contain(0) && filter.may_contain(u64::MAX));
        }
    }

    #[test]
    fn versions_of_one_key_count_once_and_a_builder_starts_again() {
        let mut builder = FilterBuilder::new(10.0);
        for hash in [1, 1, 1, 2] {
            builder.add(hash);
        }
        assert_eq!(builder.len(), 2);
        assert_eq!(builder.finish().len(), LINE_BYTES + 1);
        assert!(builder.is_empty() && builder.finish().is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_or_answer(mut bytes in prop::collection::vec(any::<u8>(), 0..300), probes in 0u8..30, hash: u64) {
            bytes.push(probes);
            for bytes in [&bytes[..], &bytes[..bytes.len() / 64 * 64], &bytes[bytes.len() % 64..]] {
                if let Ok(filter) = Filter::decode(bytes) {
                    let _ = filter.may_contain(hash);
                }
            }
        }

        #[test]
        fn what_was_added_may_be_contained(hashes: Vec<u64>, bits in 0.1f32..100.0) {
            let mut builder = FilterBuilder::new(bits);
            hashes.iter().for_each(|&hash| builder.add(hash));
            let filter = Filter::decode(&builder.finish()).unwrap();
            prop_assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
        }
    }
}
