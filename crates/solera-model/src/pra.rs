//! The least-squares line of a block, one key at a time (DobLIX's PRA).
//!
//! Means and centred moments are updated per key (Welford), not sums of squares: with distances near 2^64
//! the sums would cancel to noise.

use crate::segment::Line;

/// The running fit. O(1) time per key, O(1) space.
#[derive(Clone, Debug, Default)]
pub struct LeastSquares {
    count: f64,
    mean_dx: f64,
    mean_rank: f64,
    moment_dx: f64,
    moment_both: f64,
}

impl LeastSquares {
    /// The fit of no keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the key at distance `dx` from the block's first key, at `rank`.
    #[inline]
    pub fn push(&mut self, dx: u64, rank: usize) {
        let (dx, rank) = (dx as f64, rank as f64);
        self.count += 1.0;
        let off = dx - self.mean_dx;
        self.mean_dx += off / self.count;
        self.mean_rank += (rank - self.mean_rank) / self.count;
        self.moment_dx += off * (dx - self.mean_dx);
        self.moment_both += off * (rank - self.mean_rank);
    }

    /// The line with the least sum of squared errors; flat at the mean rank if all distances are equal,
    /// [`Line::FLAT`] if there are none. The slope is never negative, whatever the order of the keys.
    pub fn fit(&self) -> Line {
        let slope = if self.moment_dx > 0.0 { (self.moment_both / self.moment_dx).max(0.0) } else { 0.0 };
        Line::new(slope, self.mean_rank - slope * self.mean_dx).unwrap_or(Line::FLAT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_key_gives_a_flat_line() {
        assert_eq!(LeastSquares::new().fit(), Line::FLAT);
        let mut fit = LeastSquares::new();
        fit.push(0, 0);
        assert_eq!(fit.fit(), Line::FLAT);
    }

    #[test]
    fn keys_on_a_line_are_fitted_through_the_whole_range() {
        let step = u64::MAX / 1000;
        let mut fit = LeastSquares::new();
        (0..=1000).for_each(|rank| fit.push(rank as u64 * step, rank));
        let line = fit.fit();
        for rank in 0..=1000 {
            assert!((line.predict(rank as u64 * step) - rank as f64).abs() < 1e-9);
        }
    }

    #[test]
    fn the_fit_is_the_textbook_formula() {
        let points = [(0, 0), (1, 1), (2, 2), (10, 3), (11, 4)];
        let mut fit = LeastSquares::new();
        points.iter().for_each(|&(dx, rank)| fit.push(dx, rank));
        let n = points.len() as f64;
        let sum =
            |f: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, y)| f(x as f64, y as f64)).sum::<f64>();
        let (x, y, xx, xy) = (sum(&|x, _| x), sum(&|_, y| y), sum(&|x, _| x * x), sum(&|x, y| x * y));
        let slope = (n * xy - x * y) / (n * xx - x * x);
        assert!((fit.fit().slope() - slope).abs() < 1e-12);
        assert!((fit.fit().intercept() - (y - slope * x) / n).abs() < 1e-12);
    }
}
