//! Random numbers of a seed: `Random`, which is xoshiro256++ seeded by splitmix64.
//!
//! `bits`, `unit`, `below`, `normal` (Marsaglia's polar method) and `weighted` draw from it.
//!
//! What must hold: a seed gives the same bits on every processor, those of the published generator.
//!
//! Callers: the learners that draw, the agents `doblix` and `camal`, `agent::imagined`; the page
//! `camal_learned` and opponents of `solera-bench`. The agent `lerp` draws through its learner. The
//! agent `random` has a generator of its own; so has `solera-bench`, and so has `solera-sim`.

use super::elementary::ln;
use serde::{Deserialize, Serialize};

/// A generator. Two of the same seed give the same numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Random {
        let mut z = seed;
        let state = std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = z;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        });
        Random { state }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0, inclusive, to 1, exclusive.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        assert!(count > 0, "there is no number below 0");
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// A number of the standard normal distribution (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }

    /// A place of `weights`, each as likely as its weight; the last where all are 0.
    pub fn weighted(&mut self, weights: &[f64]) -> usize {
        assert!(!weights.is_empty() && weights.iter().all(|weight| *weight >= 0.0), "{weights:?}");
        let mut left = self.unit() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(weights.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::digest;

    #[test]
    fn the_first_numbers_of_a_seed_are_those_of_the_published_generator() {
        // Blackman and Vigna's reference code, with the state 1, 2, 3, 4.
        let mut random = Random { state: [1, 2, 3, 4] };
        assert_eq!([random.bits(), random.bits(), random.bits()], [41943041, 58720359, 3588806011781223]);
    }

    #[test]
    fn the_moments_are_those_of_the_distributions() {
        let mut random = Random::new(7);
        let count = 200_000;
        let units: Vec<f64> = (0..count).map(|_| random.unit()).collect();
        let normals: Vec<f64> = (0..count).map(|_| random.normal()).collect();
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let square = |of: &[f64]| of.iter().map(|x| x * x).sum::<f64>() / of.len() as f64;
        assert!((mean(&units) - 0.5).abs() < 0.003 && (square(&units) - 1.0 / 3.0).abs() < 0.003);
        assert!(mean(&normals).abs() < 0.01 && (square(&normals) - 1.0).abs() < 0.02);
        let mut counts = [0u32; 3];
        (0..30_000).for_each(|_| counts[random.weighted(&[1.0, 0.0, 2.0])] += 1);
        assert!(counts[1] == 0 && counts[0].abs_diff(10_000) < 400, "{counts:?}");
        let mut below = [0u32; 5];
        (0..50_000).for_each(|_| below[random.below(5)] += 1);
        assert!(below.iter().all(|count| count.abs_diff(10_000) < 500), "{below:?}");
    }

    #[test]
    fn a_seed_gives_the_same_bits_on_every_processor() {
        let mut random = Random::new(1);
        let numbers = (0..1000).map(|_| random.unit() + random.normal()).collect::<Vec<_>>();
        assert_eq!(digest(numbers), 0x4b5e_b06f_ba34_7ad3);
    }
}
