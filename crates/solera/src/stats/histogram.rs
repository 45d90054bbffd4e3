//! How long operations took, in a fixed amount of memory: `Histogram`, plain data, and `Recorder`,
//! which threads share.
//!
//! Buckets are log-linear, as in HdrHistogram (Tene): 16 for each doubling, so that a value is
//! known to 1/16, and exact below 16. A quantile is the middle of its bucket. `quantile`, `mean`,
//! `buckets` tell; `add` and `since` combine.
//! What must hold: buckets follow one another without a gap. Values of 2^42 or more count in the
//! last bucket. Only a sample of what happens comes to a `Recorder` (or all, for a trace), so its
//! counts are plain atomics.
//! Callers: `stats::latencies` and `stats::mod` record; `control::record` and `control::render`
//! store and show; `solera-bench`, `solera-bench-peers` and `solera trace replay` measure with it;
//! `solera-tune` reads it.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Buckets for each doubling, as a power of two.
const FINE_BITS: u32 = 4;
const FINE: usize = 1 << FINE_BITS;
/// Values from 2 to this power are counted in the last bucket: 73 minutes in nanoseconds.
const VALUE_BITS: u32 = 42;
/// How many buckets there are.
pub const BUCKETS: usize = (VALUE_BITS - FINE_BITS + 1) as usize * FINE;

/// The bucket of `value`.
fn bucket(value: u64) -> usize {
    let value = value.min((1 << VALUE_BITS) - 1);
    let Some(exponent) = value.checked_ilog2().filter(|&exponent| exponent >= FINE_BITS) else {
        return value as usize;
    };
    let shift = exponent - FINE_BITS;
    (shift as usize + 1) * FINE + ((value >> shift) as usize & (FINE - 1))
}

/// The values of a bucket.
fn values(bucket: usize) -> Range<u64> {
    let Some(shift) = (bucket / FINE).checked_sub(1) else {
        return bucket as u64..bucket as u64 + 1;
    };
    let low = ((FINE + bucket % FINE) as u64) << shift;
    low..low + (1 << shift)
}

/// How often values came, by bucket. Histograms can be added and subtracted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By bucket, without empty ones at the end.
    counts: Vec<u64>,
}

impl Histogram {
    /// Counts by bucket. `None` if there are more than [`BUCKETS`].
    pub(crate) fn from_counts(mut counts: Vec<u64>) -> Option<Histogram> {
        while counts.pop_if(|count| *count == 0).is_some() {}
        (counts.len() <= BUCKETS).then_some(Histogram { counts })
    }

    /// Counts by bucket, without empty ones at the end.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Adds one value.
    pub fn record(&mut self, value: u64) {
        let bucket = bucket(value);
        self.counts.resize(self.counts.len().max(bucket + 1), 0);
        self.counts[bucket] += 1;
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Every bucket that is not empty: its values, and how many came.
    pub fn buckets(&self) -> impl Iterator<Item = (Range<u64>, u64)> + '_ {
        let all = self.counts.iter().enumerate();
        all.filter(|(_, count)| **count > 0).map(|(bucket, count)| (values(bucket), *count))
    }

    /// The value below which the share `quantile` (0 to 1) of all values lies, to 1/32; `None` if
    /// there are no values.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut below = 0u64;
        for (values, count) in self.buckets() {
            below = below.saturating_add(count);
            if below >= rank {
                return Some(values.start + (values.end - values.start) / 2);
            }
        }
        None
    }

    /// The mean of all values, to 1/32; `None` if there are none.
    pub fn mean(&self) -> Option<f64> {
        let sum = self.buckets().map(|(values, count)| {
            let middle = (values.start + (values.end - values.start) / 2) as f64;
            middle * count as f64
        });
        let sum: f64 = sum.sum();
        (self.count() > 0).then(|| sum / self.count() as f64)
    }

    /// Adds the values of `other`.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// The values that came since `before`, an earlier moment.
    pub fn since(&self, before: &Histogram) -> Histogram {
        let earlier = before.counts.iter().copied().chain(std::iter::repeat(0));
        let counts = self.counts.iter().zip(earlier).map(|(count, before)| count.saturating_sub(before));
        Histogram::from_counts(counts.collect()).unwrap_or_default()
    }
}

/// A histogram that grows. Threads share it: only a sample of what happens comes here.
#[derive(Debug)]
pub(super) struct Recorder {
    counts: [AtomicU64; BUCKETS],
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder { counts: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

impl Recorder {
    pub(super) fn record(&self, value: u64) {
        self.counts[bucket(value)].fetch_add(1, Relaxed);
    }

    pub(super) fn histogram(&self) -> Histogram {
        Histogram::from_counts(self.counts.iter().map(|count| count.load(Relaxed)).collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        let mut next = 0;
        for number in 0..BUCKETS {
            let values = values(number);
            assert_eq!(values.start, next);
            assert_eq!((bucket(values.start), bucket(values.end - 1)), (number, number));
            next = values.end;
        }
        assert_eq!(next, 1 << VALUE_BITS);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_as_exact_as_promised(mut values in prop::collection::vec(0u64..1 << 41, 1..200), share in 0.0..=1.0f64) {
            let mut histogram = Histogram::default();
            values.iter().for_each(|&value| histogram.record(value));
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).max(1) - 1;
            let (exact, told) = (values[rank] as f64, histogram.quantile(share).unwrap() as f64);
            prop_assert!((told - exact).abs() <= exact / 32.0 + 1.0, "{told} for {exact}");
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((histogram.mean().unwrap() - mean).abs() <= mean / 32.0 + 1.0);
        }

        #[test]
        fn what_was_added_can_be_taken_away(first: Vec<u64>, second: Vec<u64>) {
            let of = |values: &[u64]| {
                let mut histogram = Histogram::default();
                values.iter().for_each(|&value| histogram.record(value));
                histogram
            };
            let mut both = of(&first);
            both.add(&of(&second));
            prop_assert_eq!(&both, &of(&[&first[..], &second[..]].concat()));
            prop_assert_eq!(both.since(&of(&first)), of(&second));
            prop_assert_eq!(both.count(), (first.len() + second.len()) as u64);
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!((Histogram::default().quantile(0.5), Histogram::default().mean()), (None, None));
        let recorder = Recorder::default();
        recorder.record(100);
        assert_eq!(recorder.histogram().quantile(0.99), Some(102));
        assert_eq!(Histogram::from_counts(vec![0; BUCKETS + 1]), Some(Histogram::default()));
        assert_eq!(Histogram::from_counts(vec![1; BUCKETS + 1]), None);
    }
}
