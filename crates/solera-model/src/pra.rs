//! The least-squares line of a block (DobLIX's PRA): `least_squares`.
//!
//! Moments are taken about the middle of the keys and moved to the mean afterwards. Near 2^64, sums
//! of squares about the first key would cancel to noise. Sums run in eight lanes, always in one
//! order. Welford's way would need no middle, but takes three times as long.
//!
//! What must hold: the slope is not negative, equal keys give a flat line, and every machine gives
//! the same bits.
//!
//! Callers: `dual::fit`, for `Policy::Pra`; `avx512`, which takes the sums too.

use crate::segment::Line;
use std::array;

/// Sums run side by side, so that an addition need not wait for the one before; always in the same
/// order.
pub(crate) const LANES: usize = 8;

/// Of distances from the middle, of their squares, and of them by their ranks from the mean rank.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) off: [f64; LANES],
    pub(crate) squared: [f64; LANES],
    pub(crate) both: [f64; LANES],
}

/// Where the sums of a block are taken from.
#[derive(Clone, Copy)]
pub(crate) struct Middle {
    /// The first key.
    pub(crate) x0: u64,
    /// Half of the way to the last key.
    pub(crate) off: f64,
    /// The mean rank.
    pub(crate) rank: f64,
}

impl Sums {
    /// The sums over these keys, in plain instructions.
    #[inline(always)]
    pub(crate) fn of(xs: &[u64], middle: Middle) -> Sums {
        let mut sums = Sums::default();
        let mut ranks: [f64; LANES] = array::from_fn(|lane| lane as f64 - middle.rank);
        let (whole, rest) = xs.as_chunks::<LANES>();
        let off = |x: u64| x.saturating_sub(middle.x0) as f64 - middle.off;
        for xs in whole {
            sums.add(xs.map(off), ranks);
            ranks = ranks.map(|rank| rank + LANES as f64);
        }
        let mut offs = [0.0; LANES];
        for (at, &x) in offs.iter_mut().zip(rest) {
            *at = off(x);
        }
        sums.add(offs, ranks);
        sums
    }

    /// Loops over lanes, one sum after the other, are what compilers make vectors of.
    #[inline(always)]
    fn add(&mut self, offs: [f64; LANES], ranks: [f64; LANES]) {
        for (sum, off) in self.off.iter_mut().zip(offs) {
            *sum += off;
        }
        for (sum, off) in self.squared.iter_mut().zip(offs) {
            *sum += off * off;
        }
        for ((sum, off), rank) in self.both.iter_mut().zip(offs).zip(ranks) {
            *sum += off * rank;
        }
    }
}

/// The line of rank over the distance to the first key with the least sum of squared errors; `xs`
/// ascends, one key for each rank. Flat at the mean rank if all keys are equal, [`Line::FLAT`] if
/// there are none. The slope is never negative, whatever the order of the keys.
pub fn least_squares(xs: &[u64]) -> Line {
    least_squares_by(xs, Sums::of)
}

/// [`least_squares`] by what takes the same sums as [`Sums::of`], perhaps by other instructions.
#[inline(always)]
pub(crate) fn least_squares_by(xs: &[u64], sums_of: impl Fn(&[u64], Middle) -> Sums) -> Line {
    let (Some(&x0), Some(&last)) = (xs.first(), xs.last()) else { return Line::FLAT };
    let middle = Middle { x0, off: last.saturating_sub(x0) as f64 / 2.0, rank: (xs.len() - 1) as f64 / 2.0 };
    let Sums { off, squared, both } = sums_of(xs, middle);
    let [off, squared, both] = [off, squared, both].map(total);
    let mean_off = off / xs.len() as f64;
    // Ranks from their mean sum to 0, so that only the square has to be moved.
    let squared = squared - off * mean_off;
    let slope = if squared > 0.0 { (both / squared).max(0.0) } else { 0.0 };
    Line::new(slope, middle.rank - slope * (middle.off + mean_off)).unwrap_or(Line::FLAT)
}

/// The sum of all lanes, in pairs.
#[inline(always)]
fn total([a, b, c, d, e, f, g, h]: [f64; LANES]) -> f64 {
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_give_a_flat_line() {
        assert_eq!(least_squares(&[]), Line::FLAT);
        assert_eq!(least_squares(&[7]), Line::FLAT);
        assert_eq!(least_squares(&[7; 5]), Line::new(0.0, 2.0).unwrap());
    }

    #[test]
    fn keys_on_a_line_are_fitted_through_the_whole_range() {
        let step = u64::MAX / 1000;
        let xs: Vec<u64> = (0..=1000).map(|rank| rank * step).collect();
        let line = least_squares(&xs);
        for rank in 0..=1000 {
            assert!((line.predict(rank * step) - rank as f64).abs() < 1e-9);
        }
    }

    #[test]
    fn the_fit_is_the_textbook_formula() {
        for xs in [&[5, 6, 7, 15, 16][..], &[5, 6, 7, 15, 16, 30, 31, 33], &[9, 9, 11], &[1, 100]] {
            let points: Vec<_> = xs.iter().enumerate().map(|(y, x)| ((x - xs[0]) as f64, y as f64)).collect();
            let n = points.len() as f64;
            let sum = |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, y)| f(x, y)).sum::<f64>();
            let (x, y, xx, xy) = (sum(&|x, _| x), sum(&|_, y| y), sum(&|x, _| x * x), sum(&|x, y| x * y));
            let slope = (n * xy - x * y) / (n * xx - x * x);
            let line = least_squares(xs);
            assert!((line.slope() - slope).abs() < 1e-12);
            assert!((line.intercept() - (y - slope * x) / n).abs() < 1e-12);
        }
    }
}
