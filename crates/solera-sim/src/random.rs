//! Randomness that is a function of a seed: `Random`, a SplitMix64 stream.
//!
//! `fork` gives a stream of its own for one purpose. `below`, `between`, `pick`, `weighted` and
//! `length` draw.
//!
//! What must hold: the same seed gives the same life on every machine, forever. So it is written
//! out here, and not taken from a crate whose stream may change.
//!
//! Callers: `script`, `setting`, `tuning`, `life`, `crash`, `faults`, `victim` and the programs;
//! this crate's tests, the fuzz targets and their example `seeds`.

/// A SplitMix64 stream.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// A stream of its own for one purpose, so that drawing more for it does not disturb the
    /// others.
    pub fn fork(&mut self) -> Random {
        Random::new(self.next())
    }

    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an endless stream is no Iterator")]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`. `n` must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0);
        // The bias of a 64-bit multiply is far below anything that a test could feel.
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// An index below `n`, which must not be 0.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.index(choices.len())]
    }

    /// An index, drawn with these weights. Their sum must not be 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.below(weights.iter().map(|&weight| u64::from(weight)).sum());
        for (index, &weight) in weights.iter().enumerate() {
            match left.checked_sub(u64::from(weight)) {
                Some(rest) => left = rest,
                None => return index,
            }
        }
        unreachable!("the draw is below the sum of the weights")
    }

    /// A length in `0..=max`, mostly short: every power of two is as likely as the next.
    pub fn length(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(64 - max.leading_zeros()) + 1);
        self.below(1 << bits).min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream_forever() {
        let mut random = Random::new(7);
        assert_eq!([random.next(), random.next()], [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c]);
    }

    #[test]
    fn draws_stay_in_their_ranges() {
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            assert!(random.below(3) < 3);
            assert!((5..=9).contains(&random.between(5, 9)));
            assert!(random.length(100) <= 100);
            assert_ne!(random.weighted(&[1, 0, 2]), 1);
        }
    }
}
