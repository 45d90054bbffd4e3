//! Ridge regression: `Ridge`, the line through weighted points that has the least squared error and
//! small slopes.
//!
//! It keeps sums and not points: a point costs n² steps, and `fade` makes what is old count less.
//! `solve` makes the coefficients (by `cholesky`), `value` uses them.
//!
//! What must hold: `penalty` is positive. A caller that wants a constant gives a feature that is 1.
//! A memory from a file is checked by `is_of`.
//!
//! Callers: `agent::steward::scales`, and `regression` for straight functions.

use super::cholesky::Cholesky;
use serde::{Deserialize, Serialize};

/// A penalty that rounding swallows counts so many times, again and again, until it does not.
const PENALTY_GROWS: f64 = 4.0;

/// Sums over points, of which [`Ridge::solve`] makes the coefficients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ridge {
    size: usize,
    /// What the squared slopes cost.
    penalty: f64,
    gram: Vec<f64>,
    moments: Vec<f64>,
}

impl Ridge {
    /// Of points with `size` features and no constant: a caller that wants one gives a feature that
    /// is 1. `penalty` is positive.
    pub fn new(size: usize, penalty: f64) -> Ridge {
        assert!(penalty > 0.0, "without a penalty there may be no solution");
        Ridge { size, penalty, gram: vec![0.0; size * size], moments: vec![0.0; size] }
    }

    /// Whether it is of points with `size` features, and sound: one that was read from a file may
    /// be anything.
    pub fn is_of(&self, size: usize) -> bool {
        self.size == size
            && self.gram.len() == size * size
            && self.moments.len() == size
            && self.penalty > 0.0
            && self.gram.iter().chain(&self.moments).all(|sum| sum.is_finite())
    }

    /// Adds a point that counts `weight` times.
    pub fn add(&mut self, features: &[f64], value: f64, weight: f64) {
        assert_eq!(features.len(), self.size, "a point has as many features as the others");
        assert!(value.is_finite() && features.iter().all(|x| x.is_finite()), "a point is not finite");
        for (row, x) in features.iter().enumerate() {
            for (column, y) in features.iter().enumerate() {
                self.gram[row * self.size + column] += weight * x * y;
            }
            self.moments[row] += weight * x * value;
        }
    }

    /// Makes all points so far count `share` of what they did.
    pub fn fade(&mut self, share: f64) {
        self.gram.iter_mut().chain(&mut self.moments).for_each(|sum| *sum *= share);
    }

    /// The coefficients. All are 0 as long as there is no point, or once a sum has overflowed.
    /// Where rounding swallows the penalty, so that there is no solution, it counts as more, as
    /// little as it takes.
    pub fn solve(&self) -> Vec<f64> {
        let largest = self.gram.iter().fold(0.0, |largest: f64, sum| largest.max(sum.abs()));
        let mut penalty = self.penalty;
        while self.is_of(self.size) && penalty.is_finite() {
            let mut penalised = self.gram.clone();
            (0..self.size).for_each(|i| penalised[i * self.size + i] += penalty);
            if let Some(cholesky) = Cholesky::of(&penalised, self.size) {
                return cholesky.solve(&self.moments);
            }
            penalty = (penalty * PENALTY_GROWS).max(largest * f64::EPSILON);
        }
        vec![0.0; self.size]
    }
}

/// The value of coefficients at a point.
pub fn value(coefficients: &[f64], features: &[f64]) -> f64 {
    coefficients.iter().zip(features).map(|(coefficient, x)| coefficient * x).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{Random, digest, samples};

    /// (Xᵀ X + λ I)⁻¹ Xᵀ y of one feature is Σxy / (Σx² + λ).
    #[test]
    fn one_feature_has_the_closed_form() {
        let mut ridge = Ridge::new(1, 2.0);
        assert_eq!(ridge.solve(), [0.0]);
        for (x, y) in [(1.0, 2.0), (2.0, 3.0), (3.0, 7.0)] {
            ridge.add(&[x], y, 1.0);
        }
        assert!((ridge.solve()[0] - 29.0 / 16.0).abs() < 1e-12);
        ridge.fade(0.5);
        assert!((ridge.solve()[0] - 14.5 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn a_penalty_that_rounding_swallows_leaves_coefficients_that_fit_the_points() {
        for penalty in [1e-300, 1e-30, 1e-18] {
            let mut ridge = Ridge::new(2, penalty);
            // Two features that are one: only the penalty tells what share each has.
            (1..=100).map(f64::from).for_each(|x| ridge.add(&[x, x], 6.0 * x, 1.0));
            let found = ridge.solve();
            assert!((value(&found, &[1.0, 1.0]) - 6.0).abs() < 1e-6, "{penalty}: {found:?}");
            // Whether sums are large or small.
            let mut small = Ridge::new(2, penalty * 1e-20);
            (1..=100).map(|x| f64::from(x) * 1e-10).for_each(|x| small.add(&[x, x], 6.0 * x, 1.0));
            assert!((value(&small.solve(), &[1.0, 1.0]) - 6.0).abs() < 1e-6, "{:?}", small.solve());
        }
    }

    #[test]
    fn sums_that_overflowed_give_zeros_and_the_same_sums_are_refused_from_a_file() {
        let mut ridge = Ridge::new(1, 1.0);
        ridge.add(&[1e200], 1e200, 1.0);
        assert_eq!(ridge.solve(), [0.0]);
        assert!(!ridge.is_of(1));
    }

    #[test]
    fn a_line_is_found_again_and_weights_say_which() {
        let mut random = Random::new(5);
        let mut ridge = Ridge::new(3, 1e-9);
        for n in 0..200 {
            let x = [1.0, random.normal(), random.normal()];
            // Two laws; one counts almost nothing.
            let (law, weight) = if n % 2 == 0 { ([3.0, -2.0, 0.5], 1.0) } else { ([9.0, 9.0, 9.0], 1e-9) };
            ridge.add(&x, value(&law, &x), weight);
        }
        for (found, law) in ridge.solve().into_iter().zip([3.0, -2.0, 0.5]) {
            assert!((found - law).abs() < 1e-6, "{found} for {law}");
        }
    }

    /// `Ridge(alpha=0.7, fit_intercept=False).fit(X, y, sample_weight=w)` of scikit-learn 1.9.1.
    #[test]
    fn coefficients_are_those_of_scikit_learn() {
        let (rows, values, weights) = samples();
        let mut ridge = Ridge::new(3, 0.7);
        for ((row, value), weight) in rows.iter().zip(&values).zip(&weights) {
            ridge.add(row, *value, *weight);
        }
        let theirs = [0.21850580722197455, 0.16324007509791935, 1.197936029633842];
        assert!(ridge.solve().iter().zip(theirs).all(|(ours, theirs)| (ours - theirs).abs() < 1e-12));
    }

    #[test]
    fn it_gives_the_same_bits_on_every_processor() {
        let mut random = Random::new(9);
        let mut ridge = Ridge::new(6, 0.1);
        for _ in 0..100 {
            let x: Vec<f64> = (0..6).map(|_| random.normal()).collect();
            ridge.add(&x, random.normal(), random.unit());
        }
        assert_eq!(digest(ridge.solve()), 0x617f_0fcb_8048_eafe);
    }
}
