//! A Gaussian process: `Process`, what a smooth function is likely to be between the points where
//! it was measured.
//!
//! `fit` takes the likeliest of five length scales and three noises. `predict` gives the mean and
//! deviation at a point. `improvement` is the expected improvement, towards smaller values, by
//! which Bayesian optimisation chooses (Jones, Schonlau and Welch, 1998).
//!
//! What must hold: features are given from 0 to 1, points are finite. Its predictions are
//! scikit-learn's.
//!
//! Callers: the opponents `plain` and `search` of `solera-bench`. No agent of this crate.

use super::{
    cholesky::Cholesky,
    elementary::{exp, normal_density, normal_share},
};

/// Length scales that are tried, as shares of a feature's range.
const LENGTHS: [f64; 5] = [0.1, 0.2, 0.4, 0.8, 1.6];
/// Measurement noise that is tried, as shares of the values' variance.
const NOISES: [f64; 3] = [1e-4, 1e-2, 1e-1];

/// A process fitted to points. Features are given from 0 to 1.
#[derive(Clone, Debug)]
pub struct Process {
    points: Vec<Vec<f64>>,
    mean: f64,
    variance: f64,
    length: f64,
    cholesky: Cholesky,
    /// K⁻¹ of the standardised values.
    weights: Vec<f64>,
}

impl Process {
    /// The process of the likeliest length scale and noise. There is at least one point.
    pub fn fit(points: &[Vec<f64>], values: &[f64]) -> Process {
        assert!(!points.is_empty() && points.len() == values.len());
        assert!(points.iter().flatten().chain(values).all(|x| x.is_finite()), "a point is not finite");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count;
        let variance = if variance > 0.0 { variance } else { 1.0 };
        let standard: Vec<f64> = values.iter().map(|value| (value - mean) / variance.sqrt()).collect();
        let mut best: Option<(f64, Process)> = None;
        for length in LENGTHS {
            for noise in NOISES {
                let Some(cholesky) = Cholesky::of(&covariances(points, length, noise), points.len()) else {
                    continue;
                };
                let weights = cholesky.solve(&standard);
                let fit: f64 = standard.iter().zip(&weights).map(|(value, weight)| value * weight).sum();
                let likelihood = -0.5 * fit - cholesky.half_ln_determinant();
                if best.as_ref().is_none_or(|(most, _)| likelihood > *most) {
                    let points = points.to_vec();
                    best = Some((likelihood, Process { points, mean, variance, length, cholesky, weights }));
                }
            }
        }
        best.expect("noise makes the covariances positive definite").1
    }

    /// Mean and deviation of the value at a point.
    pub fn predict(&self, at: &[f64]) -> (f64, f64) {
        let near: Vec<f64> = self.points.iter().map(|point| kernel(point, at, self.length)).collect();
        let mean: f64 = near.iter().zip(&self.weights).map(|(near, weight)| near * weight).sum();
        let known: f64 = self.cholesky.forward(&near).iter().map(|x| x * x).sum();
        let scale = self.variance.sqrt();
        (self.mean + mean * scale, (1.0 - known).max(0.0).sqrt() * scale)
    }

    /// By how much the value at a point is expected to lie below `least`, what lies above it
    /// counting as 0.
    pub fn improvement(&self, at: &[f64], least: f64) -> f64 {
        let (mean, deviation) = self.predict(at);
        if deviation <= 0.0 {
            return (least - mean).max(0.0);
        }
        let z = (least - mean) / deviation;
        (least - mean) * normal_share(z) + deviation * normal_density(z)
    }
}

fn kernel(a: &[f64], b: &[f64], length: f64) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    exp(-0.5 * square / (length * length))
}

fn covariances(points: &[Vec<f64>], length: f64, noise: f64) -> Vec<f64> {
    let of = |row: usize, column: usize| {
        let same = if row == column { noise } else { 0.0 };
        kernel(&points[row], &points[column], length) + same
    };
    (0..points.len())
        .flat_map(|row| (0..points.len()).map(move |column| (row, column)))
        .map(|(r, c)| of(r, c))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::digest;

    fn bowl(x: f64) -> f64 {
        (x - 0.37) * (x - 0.37)
    }

    #[test]
    fn it_is_sure_where_it_knows_and_unsure_where_it_does_not() {
        let points = [vec![0.0], vec![0.5], vec![1.0]];
        let process = Process::fit(&points, &[1.0, 0.0, 2.0]);
        let (mean, deviation) = process.predict(&[0.5]);
        assert!(mean.abs() < 0.2 && deviation < 0.3, "{mean} ± {deviation}");
        let far = Process::fit(&[vec![0.0], vec![0.1]], &[1.0, 2.0]).predict(&[1.0]).1;
        assert!(far > 0.4, "{far}");
    }

    #[test]
    fn expected_improvement_finds_the_bottom_of_a_bowl() {
        let mut points = vec![vec![0.0], vec![1.0]];
        let mut values: Vec<f64> = points.iter().map(|point| bowl(point[0])).collect();
        for _ in 0..8 {
            let process = Process::fit(&points, &values);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let improvement = |n: &usize| process.improvement(&[*n as f64 / 100.0], least);
            let next = (0..=100).max_by(|a, b| improvement(a).total_cmp(&improvement(b))).unwrap();
            points.push(vec![next as f64 / 100.0]);
            values.push(bowl(next as f64 / 100.0));
        }
        assert!(values.iter().copied().fold(f64::INFINITY, f64::min) < 4e-4, "{points:?}");
    }

    /// The likeliest of the same length scales and noises, and its predictions, by scikit-learn
    /// 1.9.1.
    #[test]
    fn predictions_are_those_of_scikit_learn() {
        let points: Vec<Vec<f64>> =
            (0..10).map(|i| vec![f64::from(i) / 10.0, f64::from(i * 3 % 7) / 7.0]).collect();
        let values: Vec<f64> = points.iter().map(|point| bowl(point[0]) + point[1]).collect();
        let process = Process::fit(&points, &values);
        assert_eq!(process.length, 0.8);
        for (at, mean, deviation) in [
            ([0.05, 0.3], 0.3944116025192445, 0.006674913383481368),
            ([0.5, 0.3], 0.3082777723258684, 0.003794486143852808),
            ([0.95, 0.9], 1.2178501650447902, 0.006272144642973987),
        ] {
            let ours = process.predict(&at);
            assert!((ours.0 - mean).abs() < 1e-9 && (ours.1 - deviation).abs() < 1e-9, "{at:?}: {ours:?}");
        }
    }

    #[test]
    fn it_gives_the_same_bits_on_every_processor() {
        let points: Vec<Vec<f64>> =
            (0..10).map(|i| vec![f64::from(i) / 10.0, f64::from(i * 3 % 7) / 7.0]).collect();
        let values: Vec<f64> = points.iter().map(|point| bowl(point[0]) + point[1]).collect();
        let process = Process::fit(&points, &values);
        let at = (0..20).map(|i| [f64::from(i) / 20.0, 0.3]);
        assert_eq!(
            digest(at.flat_map(|at| [process.predict(&at).0, process.improvement(&at, 0.1)])),
            0x90ae_905d_9478_978e
        );
    }
}
