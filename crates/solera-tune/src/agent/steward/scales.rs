//! What the parts of an operation really take, as shares of what the probe says: `Scales`, of
//! `Parts`.
//!
//! It is a ridge regression on three: the processor's part, blocks read, and what flushes and
//! merges move. It pulls towards 1, and what is old fades.
//!
//! What must hold: a scale stays within 0.05 and 20. A wrongly measured machine is found out as
//! soon as windows differ in what they do. Numbers that cannot be teach nothing.
//!
//! Callers: `steward` learns it, `foresight` prices by it.

use crate::learn::Ridge;
use serde::{Deserialize, Serialize};

/// The parts.
pub(super) const PARTS: usize = 3;
/// What counts of all that was learned when a window comes.
const FADES: f64 = 0.97;
/// How many windows the belief in the probe counts as much as.
const BELIEF: f64 = 0.05;
/// The least and the most that a scale can be.
const SCALES: (f64, f64) = (0.05, 20.0);

/// What one operation did, in the mean, priced as the probe says; and counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    /// The processor, blocks read, flushes and merges: nanoseconds.
    pub(super) ns: [f64; PARTS],
    /// Blocks that reads read.
    pub(super) blocks_read: f64,
    /// Entries that merges wrote.
    pub(super) merged: f64,
    /// Bytes that flushes and merges wrote.
    pub(super) bytes_written: f64,
}

impl Parts {
    /// This and `other` together.
    pub(super) fn and(&self, other: &Parts) -> Parts {
        Parts {
            ns: std::array::from_fn(|part| self.ns[part] + other.ns[part]),
            blocks_read: self.blocks_read + other.blocks_read,
            merged: self.merged + other.merged,
            bytes_written: self.bytes_written + other.bytes_written,
        }
    }

    /// This, where for so large a `share` of the operations reads are those of `other`.
    pub(super) fn reading_like(&self, other: &Parts, share: f64) -> Parts {
        let read = self.with(other, share);
        let [processor, reads, _] = read.ns;
        Parts { ns: [processor, reads, self.ns[2]], blocks_read: read.blocks_read, ..*self }
    }

    /// The mean of this and `other`, which counts for so much of it.
    pub(super) fn with(&self, other: &Parts, share: f64) -> Parts {
        let mean = |own: f64, other: f64| own + share * (other - own);
        Parts {
            ns: std::array::from_fn(|part| mean(self.ns[part], other.ns[part])),
            blocks_read: mean(self.blocks_read, other.blocks_read),
            merged: mean(self.merged, other.merged),
            bytes_written: mean(self.bytes_written, other.bytes_written),
        }
    }
}

/// What the parts really take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Scales {
    ridge: Ridge,
    scales: Vec<f64>,
}

impl Default for Scales {
    fn default() -> Scales {
        Scales { ridge: Ridge::new(PARTS, BELIEF), scales: vec![1.0; PARTS] }
    }
}

impl Scales {
    /// Whether it can be: one that was read from a file may be anything.
    pub(super) fn is_sound(&self) -> bool {
        let is_scale = |scale: &f64| (SCALES.0..=SCALES.1).contains(scale);
        self.ridge.is_of(PARTS) && self.scales.len() == PARTS && self.scales.iter().all(is_scale)
    }

    /// Nanoseconds of an operation that does these parts.
    pub(super) fn ns(&self, parts: &Parts) -> f64 {
        parts.ns.iter().zip(&self.scales).map(|(ns, scale)| ns * scale).sum()
    }

    /// Operations that did these parts took `measured` nanoseconds each.
    pub(super) fn learn(&mut self, parts: &Parts, measured: f64) {
        if !(measured.is_finite() && measured > 0.0) || parts.ns.iter().any(|ns| !ns.is_finite()) {
            return;
        }
        // Parts that are a thousand times what was measured say no more than ones that are a
        // hundred times.
        let shares = parts.ns.map(|ns| (ns / measured).min(100.0));
        self.ridge.fade(FADES);
        // Towards 1: what is estimated is how far each scale is from it.
        self.ridge.add(&shares, 1.0 - shares.iter().sum::<f64>(), 1.0);
        let apart = self.ridge.solve().into_iter();
        self.scales = apart.map(|apart| (1.0 + apart).clamp(SCALES.0, SCALES.1)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(ns: [f64; PARTS]) -> Parts {
        Parts { ns, ..Parts::default() }
    }

    #[test]
    fn what_was_probed_wrongly_by_a_factor_of_ten_is_found_out() {
        let truth = [1.0, 0.1, 5.0];
        let mut scales = Scales::default();
        let of = |turn: u64| {
            let reads = (turn * 37 % 11) as f64 / 10.0;
            [500.0 + 100.0 * reads, 20_000.0 * reads, 900.0 * (1.1 - reads)]
        };
        let time = |ns: [f64; PARTS]| ns.iter().zip(truth).map(|(ns, scale)| ns * scale).sum::<f64>();
        for turn in 0..60 {
            scales.learn(&parts(of(turn)), time(of(turn)));
        }
        for turn in 0..11 {
            let (foreseen, measured) = (scales.ns(&parts(of(turn))), time(of(turn)));
            assert!((foreseen / measured - 1.0).abs() < 0.1, "{turn}: {foreseen} for {measured}");
        }
    }

    #[test]
    fn a_part_that_was_never_seen_keeps_what_the_probe_says() {
        let mut scales = Scales::default();
        (0..50).for_each(|_| scales.learn(&parts([100.0, 0.0, 0.0]), 300.0));
        assert!((scales.ns(&parts([0.0, 10.0, 0.0])) - 10.0).abs() < 1e-6);
        assert!((scales.ns(&parts([100.0, 0.0, 0.0])) - 300.0).abs() < 15.0);
    }

    #[test]
    fn numbers_that_cannot_be_teach_nothing() {
        let mut scales = Scales::default();
        scales.learn(&parts([f64::NAN, 1.0, 1.0]), 10.0);
        scales.learn(&parts([1.0, 1.0, 1.0]), f64::INFINITY);
        scales.learn(&parts([1.0, 1.0, 1.0]), 0.0);
        assert_eq!(scales, Scales::default());
    }
}
