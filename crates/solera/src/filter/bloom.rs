//! A Bloom filter blocked by cache lines of 512 bits: `build`, and `Bloom`, which answers.
//!
//! A key's hash picks one line, and all probes are bits of it, so an answer costs one memory
//! access. Lines fill unevenly, which costs false positives: about 1 % instead of 0.8 % at 10 bits
//! for each key. `best_probes` finds the number of probes that lets the fewest pass.
//! `false_positives_over` is the share that a filter over so many keys is expected to let pass.
//!
//! Bytes: the lines, 64 bytes each (eight little-endian `u64`), then one byte, the number of probes
//! (1 to `PROBES_MAX`).
//!
//! What must hold: a key that was added is always admitted. Any bytes that `decode` accepts answer.
//!
//! Callers: `filter::mod` builds and asks; `filter::curve` takes the expected false positives.

mod line;

use crate::{codec::DecodeError, pool::Settled, prefetch::prefetch};
use line::{LINE_BITS, LINE_BYTES, Line, PROBES_MAX};
use solera_model::{
    elementary::{exp, ln_1p, pow, powi},
    lanes::Lanes,
};

/// A line is chosen by a 32-bit multiplication, which reaches no further.
const LINES_MAX: usize = u32::MAX as usize;

/// The line of a hash among `lines`: its upper half, scaled.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

/// The share of absent keys that pass, expected of lines of 512 bits at `bits_per_key`: the number
/// of keys in a line is Poisson-distributed, and each line is a small Bloom filter.
fn false_positives_expected(bits_per_key: f64, probes: u8) -> f64 {
    let mean = f64::from(LINE_BITS) / bits_per_key;
    let mut chance = exp(-mean);
    let mut sum = 0.0;
    for keys in 1..=(mean + 12.0 * mean.sqrt() + 12.0) as u32 {
        chance *= mean / f64::from(keys);
        let bit_clear = powi(1.0 - 1.0 / f64::from(LINE_BITS), keys * u32::from(probes));
        sum += chance * powi(1.0 - bit_clear, probes.into());
    }
    sum
}

/// The share of absent keys that pass a filter over so many `keys`. It has whole lines, so a small
/// one has more bits than it was given, and the keys of a line are binomially distributed: in a
/// single line there are all.
pub(super) fn false_positives_over(keys: f64, bits_per_key: f32) -> f64 {
    let lines = lines_for(keys, bits_per_key) as f64;
    let (probes, _) = best_probes(bits_per_key);
    let one_key_leaves_clear = powi(1.0 - 1.0 / f64::from(LINE_BITS), probes.into());
    if lines == 1.0 {
        return powi(1.0 - pow(one_key_leaves_clear, keys), probes.into());
    }
    let mean = keys / lines;
    let most = (mean + 12.0 * mean.sqrt() + 12.0).min(keys) as u64;
    let mut chance = exp(keys * ln_1p(-1.0 / lines));
    let (mut clear, mut sum) = (1.0, 0.0);
    for in_line in (1..=most).map(|n| n as f64) {
        chance *= (keys - in_line + 1.0) / in_line / (lines - 1.0);
        clear *= one_key_leaves_clear;
        sum += chance * powi(1.0 - clear, probes.into());
    }
    sum
}

/// Lines of a filter over so many keys.
fn lines_for(keys: f64, bits_per_key: f32) -> usize {
    let bits = keys * f64::from(bits_per_key);
    ((bits / f64::from(LINE_BITS)).ceil() as usize).clamp(1, LINES_MAX)
}

/// The number of probes that lets the fewest absent keys pass, and their share. The share falls and
/// then rises with the probes, so the search ends where it first rises: every table asks, small
/// ones too.
fn best_probes(bits_per_key: f32) -> (u8, f64) {
    let bits = f64::from(bits_per_key).clamp(0.5, 64.0);
    let (mut best, mut least) = (1, false_positives_expected(bits, 1));
    for probes in 2..=PROBES_MAX {
        let share = false_positives_expected(bits, probes);
        if share >= least {
            break;
        }
        (best, least) = (probes, share);
    }
    (best, least)
}

/// Appends a filter over `hashes`, of which there is one at least.
pub(super) fn build(hashes: &[u64], bits_per_key: f32, out: &mut Vec<u8>) {
    let count = lines_for(hashes.len() as f64, bits_per_key);
    let (probes, _) = best_probes(bits_per_key);
    let mut lines = vec![Line::default(); count];
    for &hash in hashes {
        lines[line_of(hash, count)].set(hash, probes);
    }
    out.reserve(count * LINE_BYTES + 2);
    lines.iter().flat_map(|line| line.0).for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    out.push(probes);
}

/// A blocked Bloom filter in memory.
#[derive(Clone, Debug)]
pub struct Bloom {
    lines: Box<[Line]>,
    probes: u8,
    lanes: Lanes,
}

impl Bloom {
    /// Reads what [`build`] made.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (&probes, lines) = bytes.split_last().unwrap_or((&0, &[]));
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
        let lines = lines.chunks_exact(LINE_BYTES).map(line).collect();
        Ok(Bloom { lines, probes, lanes: Lanes::detect() })
    }

    /// See [`super::Filter::may_contain`].
    #[inline(always)]
    pub(super) fn may_contain(&self, hash: u64) -> bool {
        let Some(line) = self.lines.get(line_of(hash, self.lines.len())) else { return true };
        line.has(hash, self.probes, self.lanes)
    }

    /// Asks for the line that [`Bloom::may_contain`] reads.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch(self.lines.as_ptr().wrapping_add(line_of(hash, self.lines.len())).cast());
    }

    /// Has its lines on huge pages for as long as the result lives.
    pub(super) fn settle(&self) -> Settled {
        Settled::of(&self.lines)
    }

    /// Bytes in memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{FilterKind, FilterSpec, false_positives};

    /// Symptom: half the time of opening, flushing and writing on in tiny databases went into
    /// powers. Cause: every table weighed all 24 numbers of probes, each twice. Cure: the search
    /// ends at the first rise.
    #[test]
    #[cfg_attr(miri, ignore = "counts, for which Miri is too slow")]
    fn the_first_number_of_probes_after_which_it_gets_worse_is_the_best() {
        for bits in (1..=128).map(|half_bits| half_bits as f32 / 2.0) {
            let share = |probes: &u8| false_positives_expected(bits.into(), *probes);
            let best = (1..=PROBES_MAX).min_by(|a, b| share(a).total_cmp(&share(b)));
            assert_eq!(Some(best_probes(bits).0), best, "{bits} bits per key");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "counts, for which Miri is too slow")]
    fn the_curve_is_what_lines_are_expected_to_let_pass() {
        for quarters in 4..=256 {
            let bits_per_key = quarters as f32 / 4.0;
            let (_, expected) = best_probes(bits_per_key);
            let curve = false_positives(FilterSpec { kind: FilterKind::Bloom, bits_per_key });
            let tolerance = if quarters % 4 == 0 { 0.001 } else { 0.06 };
            assert!((curve / expected - 1.0).abs() < tolerance, "{bits_per_key}: {curve}, {expected}");
        }
    }
}
