//! The line, rank over the distance to an anchor key: `Line`, and `Invalid`, why numbers are no
//! model.
//!
//! `rank` is the one formula that turns a key into a rank: the builders measure with it, and the
//! readers search with it. Distances are taken in `u64` before any float.
//!
//! What must hold: the slope is finite and not negative, the intercept finite. So larger keys never
//! get smaller ranks, no prediction is NaN, and a rank lies below the count of keys (of none, it is
//! 0).
//! Callers: in this crate `pla`, `pra`, `bound`, `avx512` and `dual`, and `knots` (`Invalid`). In
//! `solera` `block::{build, format, read}` and `version::run_index`. Also `evilmodel::search` in
//! `solera-sim`, the fuzz target `model`, and the example `segments`.

use std::{error, fmt};

/// Why numbers are not a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// A slope or an intercept is NaN or infinite.
    NotFinite,
    /// Larger keys would be predicted at smaller ranks.
    NegativeSlope,
    /// A sorted array is not sorted.
    NotSorted,
    /// An array has more elements than 32 bits count.
    TooLong,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Invalid::NotFinite => "a model's line is not finite",
            Invalid::NegativeSlope => "a model's slope is negative",
            Invalid::NotSorted => "a model's keys are not sorted",
            Invalid::TooLong => "a model has more keys than 32 bits count",
        })
    }
}

impl error::Error for Invalid {}

/// Rank as a linear function of the distance from an anchor key `x0`, which the owner of the line
/// keeps (it is the first key of the array that the line describes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    slope: f64,
    intercept: f64,
}

impl Line {
    /// Everything at rank 0: the line of an array of one key.
    pub const FLAT: Line = Line { slope: 0.0, intercept: 0.0 };

    /// A line, in ranks per unit of key and ranks.
    ///
    /// # Errors
    /// [`Invalid::NotFinite`] or [`Invalid::NegativeSlope`].
    pub fn new(slope: f64, intercept: f64) -> Result<Line, Invalid> {
        if !slope.is_finite() || !intercept.is_finite() {
            return Err(Invalid::NotFinite);
        }
        if slope < 0.0 {
            return Err(Invalid::NegativeSlope);
        }
        Ok(Line { slope, intercept })
    }

    /// Ranks per unit of key; finite, >= 0.
    #[inline]
    pub fn slope(self) -> f64 {
        self.slope
    }

    /// The rank at the anchor; finite.
    #[inline]
    pub fn intercept(self) -> f64 {
        self.intercept
    }

    /// The rank on the line at distance `dx` from the anchor, neither rounded nor clamped. Never
    /// NaN; may be infinite. Monotone in `dx`.
    #[inline]
    pub fn predict(self, dx: u64) -> f64 {
        self.slope * dx as f64 + self.intercept
    }

    /// The predicted rank of `x` among `n` keys of which `x0` is the first: the nearest rank to the
    /// line, in `[0, n)` (0 if `n` is 0; the even one of two as near). Keys below the anchor are
    /// treated as the anchor. Monotone in `x`.
    #[inline]
    pub fn rank(self, x0: u64, x: u64, n: usize) -> usize {
        // The integer is in the low bits: two instructions where a saturating cast takes ten.
        const INTEGER: u64 = (1 << 52) - 1;
        (self.shifted_rank(x0, x, n.saturating_sub(1) as f64).to_bits() & INTEGER) as usize
    }

    /// [`Line::rank`] among keys of which the last has the rank `last`, as the number that it is.
    #[inline(always)]
    pub(crate) fn float_rank(self, x0: u64, x: u64, last: f64) -> f64 {
        self.shifted_rank(x0, x, last) - Line::SHIFTER
    }

    /// Added to a number from 0 to 2^52, it leaves no bits for the fraction, which is rounded.
    pub(crate) const SHIFTER: f64 = (1u64 << 52) as f64;

    #[inline(always)]
    fn shifted_rank(self, x0: u64, x: u64, last: f64) -> f64 {
        let position = self.predict(x.saturating_sub(x0));
        // Comparisons, not `clamp`: nothing here is NaN, and these are one instruction each.
        let position = if position > 0.0 { position } else { 0.0 };
        let position = if position < last { position } else { last };
        position + Line::SHIFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_could_mislead_is_refused() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Line::new(bad, 0.0), Err(Invalid::NotFinite));
            assert_eq!(Line::new(0.0, bad), Err(Invalid::NotFinite));
        }
        assert_eq!(Line::new(-1e-300, 0.0), Err(Invalid::NegativeSlope));
        assert!(Line::new(0.0, -7.0).is_ok());
    }

    #[test]
    fn ranks_stay_in_range_even_where_the_line_overflows() {
        let steep = Line::new(f64::MAX, f64::MIN).unwrap();
        for n in [1, 2, 1000] {
            for x in [0, 1, 2, u64::MAX] {
                assert!(steep.rank(0, x, n) < n);
            }
        }
        assert_eq!(steep.rank(0, 5, 0), 0);
    }

    #[test]
    fn the_anchor_is_subtracted_before_the_float() {
        // Around 2^63 neighbouring keys are 2048 apart as floats; their distance to the anchor is
        // exact.
        let x0 = 1 << 63;
        let line = Line::new(1.0, 0.0).unwrap();
        for rank in 0..100 {
            assert_eq!(line.rank(x0, x0 + rank, 100), rank as usize);
        }
    }
}
