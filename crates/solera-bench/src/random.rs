//! Deterministic random numbers: `Random`, with `draw`, `below`, `unit`, `normal`, `fill` and
//! `shuffle`.
//!
//! It is xoshiro256++ seeded by splitmix64 (Blackman and Vigna, public domain); normal numbers are
//! by Marsaglia's polar method.
//!
//! What must hold: the same seed gives the same numbers on every machine. Only `normal` takes the
//! platform's logarithm, which may round otherwise elsewhere. Not for secrets.
//!
//! Callers: `data`, `probes`, `zipf`, `paper::{keeper, missions}`, the examples, and
//! `solera-bench-peers`. Opponents and `paper::camal_learned` have that of `solera_tune::learn`.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        let mut split = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Random { state: [split(), split(), split(), split()] }
    }

    /// Any number, all equally likely.
    #[inline]
    pub fn draw(&mut self) -> u64 {
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

    /// A number in `[0, limit)`; `limit` is at least 1.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        // The high word of the product: biased by less than limit / 2^64, nothing for a workload.
        ((u128::from(self.draw()) * u128::from(limit)) >> 64) as u64
    }

    /// A number in `[0, 1)`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number from the standard normal distribution (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
    }

    /// Puts `items` into random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_a_function_of_the_seed() {
        let stream = |seed| {
            std::iter::repeat_with({
                let mut r = Random::new(seed);
                move || r.draw()
            })
            .take(8)
            .collect::<Vec<_>>()
        };
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
    }

    #[test]
    fn numbers_are_spread_evenly_and_normally() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|_| counts[random.below(10) as usize] += 1);
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
        let normals: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = normals.iter().sum::<f64>() / 1e5;
        let variance = normals.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03, "{mean} {variance}");
    }

    #[test]
    fn a_shuffle_is_a_permutation() {
        let mut items: Vec<u32> = (0..1000).collect();
        Random::new(3).shuffle(&mut items);
        assert!(!items.is_sorted());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
