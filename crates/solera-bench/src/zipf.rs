//! Zipf-distributed ranks: `Zipf`, which draws rank r with probability proportional to (r+1)^-s.
//!
//! It is rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates
//! from monotone discrete distributions", 1996).
//!
//! What must hold: exact, in constant time, without a table over the ranks.
//!
//! Callers: `probes`, `paper::keeper`, the examples `reclaim` and `victims`, and
//! `solera-bench-peers`.

use crate::random::Random;

/// The distribution over ranks `0..n`, of which 0 is the most popular.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    exponent: f64,
    integral_low: f64,
    integral_high: f64,
    accept: f64,
}

impl Zipf {
    /// Over `n >= 1` ranks, with `exponent > 0`; YCSB's is 0.99.
    pub fn new(n: u64, exponent: f64) -> Self {
        assert!(n >= 1 && exponent > 0.0, "a Zipf distribution needs ranks and a positive exponent");
        let mut zipf = Zipf { n: n as f64, exponent, integral_low: 0.0, integral_high: 0.0, accept: 0.0 };
        zipf.integral_low = zipf.integral(1.5) - 1.0;
        zipf.integral_high = zipf.integral(zipf.n + 0.5);
        zipf.accept = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// A rank in `[0, n)`.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.integral_high + random.unit() * (self.integral_low - self.integral_high);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.accept || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the density from 1 to `x`.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.exponent) * log;
        // (e^t - 1) / t, which is 1 in the limit.
        let factor = if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 };
        factor * log
    }

    fn inverse(&self, integral: f64) -> f64 {
        let t = (integral * (1.0 - self.exponent)).max(-1.0);
        // ln(1 + t) / t, which is 1 in the limit.
        let factor = if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 };
        (factor * integral).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_drawn_as_often_as_the_law_says() {
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let n = 1000;
            let zipf = Zipf::new(n, exponent);
            let mut random = Random::new(11);
            let mut counts = vec![0f64; n as usize];
            let draws = 400_000;
            (0..draws).for_each(|_| counts[zipf.draw(&mut random) as usize] += 1.0);
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
            let total: f64 = (0..n as usize).map(weight).sum();
            for rank in [0, 1, 2, 5, 20] {
                let expected = weight(rank) / total * draws as f64;
                let slack = 5.0 * expected.sqrt();
                assert!(
                    (counts[rank] - expected).abs() < slack,
                    "{exponent} {rank} {} {expected}",
                    counts[rank]
                );
            }
        }
    }

    #[test]
    fn a_single_rank_is_always_drawn() {
        let zipf = Zipf::new(1, 0.99);
        assert_eq!(zipf.draw(&mut Random::new(1)), 0);
    }
}
