//! Whether something has changed: `total_variation` of two distributions (0 to 1), and
//! `PageHinkley`, a test for a mean that moves (Page, 1954).
//!
//! What must hold: distributions are over the same kinds, numbers are finite. The test begins again
//! after a change.
//!
//! Callers: `agent::lerp` and the opponents `arms`, `planner` and `search` of `solera-bench` ask
//! for the variation. Nothing but its own tests uses `PageHinkley`.

use serde::{Deserialize, Serialize};

/// Total variation of two distributions over the same kinds: half of the sum of differences, 0 to
/// 1.
pub fn total_variation(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "distributions over other kinds");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

/// Page and Hinkley's test for a mean that rises or falls (Page, 1954).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageHinkley {
    /// A rise or fall of the mean that is no change.
    tolerance: f64,
    /// What the sum of deviations must come to for a change.
    threshold: f64,
    count: f64,
    mean: f64,
    /// Sums of what lay above and below the mean, and the least they were.
    above: f64,
    above_least: f64,
    below: f64,
    below_least: f64,
}

impl PageHinkley {
    /// A test in the unit of the numbers that it will see.
    pub fn new(tolerance: f64, threshold: f64) -> PageHinkley {
        assert!(tolerance >= 0.0 && threshold > 0.0, "{tolerance}, {threshold}");
        PageHinkley {
            tolerance,
            threshold,
            count: 0.0,
            mean: 0.0,
            above: 0.0,
            above_least: 0.0,
            below: 0.0,
            below_least: 0.0,
        }
    }

    /// Sees a number; whether the mean has changed. If so, it begins again.
    pub fn see(&mut self, number: f64) -> bool {
        assert!(number.is_finite(), "a number that is none was observed");
        self.count += 1.0;
        self.mean += (number - self.mean) / self.count;
        self.above += number - self.mean - self.tolerance;
        self.below += self.mean - number - self.tolerance;
        self.above_least = self.above_least.min(self.above);
        self.below_least = self.below_least.min(self.below);
        let changed = (self.above - self.above_least).max(self.below - self.below_least) > self.threshold;
        if changed {
            *self = PageHinkley::new(self.tolerance, self.threshold);
        }
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::{Random, digest};

    #[test]
    fn total_variation_is_the_share_that_moved() {
        assert_eq!(total_variation(&[0.5, 0.5, 0.0], &[0.5, 0.5, 0.0]), 0.0);
        assert_eq!(total_variation(&[1.0, 0.0], &[0.0, 1.0]), 1.0);
        assert!((total_variation(&[0.5, 0.3, 0.2], &[0.4, 0.3, 0.3]) - 0.1).abs() < 1e-12);
    }

    /// Rounds until a change is seen, of numbers about 10 that are about `then` from round 200 on.
    fn seen(then: f64) -> Option<usize> {
        let (mut random, mut test) = (Random::new(4), PageHinkley::new(0.25, 8.0));
        (0..600).find(|&round| test.see(if round < 200 { 10.0 } else { then } + 0.5 * random.normal()))
    }

    #[test]
    fn a_mean_that_moves_either_way_is_seen_soon_and_one_that_does_not_never() {
        for then in [12.0, 8.0] {
            let round = seen(then).unwrap();
            assert!((200..215).contains(&round), "{then}: {round}");
        }
        assert_eq!(seen(10.0), None);
    }

    #[test]
    fn it_begins_again_after_a_change() {
        let mut test = PageHinkley::new(0.1, 1.0);
        assert!(!test.see(0.0) && !test.see(0.0));
        assert!((0..5).any(|_| test.see(5.0)));
        assert_eq!(test, PageHinkley::new(0.1, 1.0));
    }

    #[test]
    fn it_gives_the_same_bits_on_every_processor() {
        let (mut random, mut test) = (Random::new(2), PageHinkley::new(0.1, 5.0));
        let changes = (0..50).filter(|_| test.see(random.normal())).count();
        assert_eq!(digest([test.mean, test.above, test.below, changes as f64]), 0x884d_390b_c3eb_d02d);
    }
}
