//! The least-squares line of a block (DobLIX's PRA): `least_squares`.
//!
//! Moments are taken about the middle of the keys and moved to the mean afterwards. Near 2^64, sums
//! of squares about the first key would cancel to noise. Sums run in four lanes, always in the same
//! order. Welford's way would need no middle, but takes three times as long.
//!
//! What must hold: the slope is not negative, equal keys give a flat line, and every machine gives
//! the same bits.
//!
//! Caller: `dual::fit`, for `Policy::Pra`.

use crate::segment::Line;
use std::array;

/// Sums run side by side, so that an addition need not wait for the one before; always in the same
/// order.
const LANES: usize = 4;

/// Of distances from the middle, of their squares, and of them by their ranks from the mean rank.
#[derive(Default)]
struct Sums {
    off: [f64; LANES],
    squared: [f64; LANES],
    both: [f64; LANES],
}

impl Sums {
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
#[inline(always)]
pub fn least_squares(xs: &[u64]) -> Line {
    let (Some(&x0), Some(&last)) = (xs.first(), xs.last()) else { return Line::FLAT };
    let distance = |x: u64| x.saturating_sub(x0) as f64;
    let middle = distance(last) / 2.0;
    let mean_rank = (xs.len() - 1) as f64 / 2.0;
    let mut sums = Sums::default();
    let mut ranks: [f64; LANES] = array::from_fn(|lane| lane as f64 - mean_rank);
    let (whole, rest) = xs.as_chunks::<LANES>();
    for xs in whole {
        let mut offs = [0.0; LANES];
        for (off, &x) in offs.iter_mut().zip(xs) {
            *off = distance(x) - middle;
        }
        sums.add(offs, ranks);
        for rank in &mut ranks {
            *rank += LANES as f64;
        }
    }
    let mut offs = [0.0; LANES];
    for (off, &x) in offs.iter_mut().zip(rest) {
        *off = distance(x) - middle;
    }
    sums.add(offs, ranks);
    let [off, squared, both] = [sums.off, sums.squared, sums.both].map(|lanes| lanes.iter().sum::<f64>());
    let mean_off = off / xs.len() as f64;
    // Ranks from their mean sum to 0, so that only the square has to be moved.
    let squared = squared - off * mean_off;
    let slope = if squared > 0.0 { (both / squared).max(0.0) } else { 0.0 };
    Line::new(slope, mean_rank - slope * (middle + mean_off)).unwrap_or(Line::FLAT)
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
