//! Numbers of any size as distances from their mean, in deviations: `Standard`, the z-score
//! (`score`).
//!
//! `of_all` counts all numbers alike. `of_last` counts the last ones more.
//!
//! What must hold: numbers are finite. Where there is no deviation to speak of, the score is 0.
//!
//! Callers: the agents `doblix` and `lerp`, for rewards and states, and `regression` for its
//! network.

use serde::{Deserialize, Serialize};

/// Deviations smaller than this, as a share of the mean, are taken for none.
const DEVIATION_MIN: f64 = 1e-9;

/// Mean and deviation of the numbers seen so far. With a memory, the last numbers count more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standard {
    /// What a number's weight becomes when the next is seen.
    keep: f64,
    weight: f64,
    mean: f64,
    variance: f64,
}

impl Standard {
    /// Of all numbers alike.
    pub fn of_all() -> Standard {
        Standard { keep: 1.0, weight: 0.0, mean: 0.0, variance: 0.0 }
    }

    /// Of about the last `count` numbers, which is at least 1.
    pub fn of_last(count: f64) -> Standard {
        assert!(count >= 1.0, "a memory of {count} numbers");
        Standard { keep: 1.0 - 1.0 / count, ..Standard::of_all() }
    }

    /// Sees a number.
    pub fn see(&mut self, number: f64) {
        assert!(number.is_finite(), "a number that is none was observed");
        let before = self.weight * self.keep;
        self.weight = before + 1.0;
        let step = number - self.mean;
        self.mean += step / self.weight;
        self.variance = (before * self.variance + step * (number - self.mean)) / self.weight;
    }

    /// How much has been seen: the sum of weights.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The mean; 0 before any number was seen.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard deviation.
    pub fn deviation(&self) -> f64 {
        self.variance.max(0.0).sqrt()
    }

    /// How many deviations `number` lies above the mean; 0 if there is none.
    pub fn score(&self, number: f64) -> f64 {
        let deviation = self.deviation();
        let none = deviation <= DEVIATION_MIN * self.mean.abs();
        if none || deviation == 0.0 { 0.0 } else { (number - self.mean) / deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_deviation_are_those_of_the_numbers() {
        let mut standard = Standard::of_all();
        assert_eq!((standard.score(5.0), standard.mean()), (0.0, 0.0));
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().for_each(|number| standard.see(number));
        assert!((standard.mean() - 5.0).abs() < 1e-12 && (standard.deviation() - 2.0).abs() < 1e-12);
        assert!((standard.score(9.0) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_memory_forgets_what_was() {
        let mut standard = Standard::of_last(10.0);
        (0..100).for_each(|_| standard.see(1.0));
        assert_eq!(standard.score(2.0), 0.0);
        (0..200).for_each(|i| standard.see(100.0 + f64::from(i % 2)));
        assert!((standard.mean() - 100.5).abs() < 0.1 && (standard.deviation() - 0.5).abs() < 0.1);
        assert!((standard.weight() - 10.0).abs() < 0.1);
    }
}
