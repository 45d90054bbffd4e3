//! Whether something has changed: `total_variation` of two distributions (0 to 1), `MixShift`, a
//! test for a mix that moves, and `PageHinkley`, a test for a mean that moves (Page, 1954).
//!
//! What must hold: distributions are over the same kinds, numbers are finite. Tests begin again
//! after a change. Few operations alone are no shift of a mix, whatever chance makes of them.
//!
//! Callers: `agent::lerp` and the opponents `arms`, `planner` and `search` of `solera-bench` keep a
//! `MixShift`. Nothing but its own tests uses `PageHinkley`.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Operations that the present mix is made of: of so many, chance makes a share wrong by 0.016 at
/// most, in one deviation.
const PRESENT_OPERATIONS: f64 = 1_000.0;

/// Total variation of two distributions over the same kinds: half of the sum of differences, 0 to
/// 1.
pub fn total_variation(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "distributions over other kinds");
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

/// Operations by kind.
type Counts = [f64; 4];

/// Whether a mix has moved: the last thousand operations beside those before them.
///
/// One mission of 150 operations would not do: at equal shares chance alone moves one mission in
/// twelve by more than a tenth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MixShift {
    /// Total variation that is no shift.
    tolerance: f64,
    /// What came since the last shift, but for the present.
    before: Counts,
    /// The last missions.
    present: VecDeque<Counts>,
}

impl MixShift {
    /// A test in which mixes that are `tolerance` apart in total variation are one.
    pub fn new(tolerance: f64) -> MixShift {
        MixShift { tolerance, before: [0.0; 4], present: VecDeque::new() }
    }

    /// Sees so many operations and the shares of their kinds; whether the mix has shifted. If so,
    /// it begins again with these.
    pub fn see(&mut self, shares: [f64; 4], operations: u64) -> bool {
        let operations = shares.map(|share| share * operations as f64);
        self.present.push_back(operations);
        let mut present = summed(&self.present);
        while let Some(first) = self.present.front()
            && total(&present) - total(first) >= PRESENT_OPERATIONS
        {
            (0..4).for_each(|kind| {
                self.before[kind] += first[kind];
                present[kind] -= first[kind];
            });
            self.present.pop_front();
        }
        let counts = [total(&self.before), total(&present)];
        if counts.contains(&0.0) {
            return false;
        }
        let shares = |of: &Counts| of.map(|count| count / total(of));
        let chance = counts.iter().map(|count| 1.0 / count).sum::<f64>().sqrt();
        let has_shifted = total_variation(&shares(&self.before), &shares(&present)) > self.tolerance + chance;
        if has_shifted {
            *self = MixShift::new(self.tolerance);
            self.present.push_back(operations);
        }
        has_shifted
    }
}

fn total(of: &Counts) -> f64 {
    of.iter().sum()
}

fn summed(of: &VecDeque<Counts>) -> Counts {
    of.iter().fold([0.0; 4], |sum, counts| std::array::from_fn(|kind| sum[kind] + counts[kind]))
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

    /// Shows a mission of so many operations, of which each is a lookup with this chance.
    fn shows(shift: &mut MixShift, random: &mut Random, lookups: f64, operations: usize) -> bool {
        let share = (0..operations).filter(|_| random.unit() < lookups).count() as f64 / operations as f64;
        shift.see([0.0, share, 0.0, 1.0 - share], operations as u64)
    }

    #[test]
    fn chance_in_short_missions_is_no_shift() {
        for (operations, missions) in [(10, 20_000), (150, 20_000), (5_000, 500)] {
            let (mut random, mut shift) = (Random::new(6), MixShift::new(0.1));
            let shifts = (0..missions).filter(|_| shows(&mut shift, &mut random, 0.5, operations)).count();
            assert_eq!(shifts, 0, "of {missions} missions of {operations} operations");
        }
    }

    #[test]
    fn a_mix_that_moves_by_a_fifth_has_shifted_within_a_thousand_operations_and_once() {
        for operations in [10, 150, 5_000] {
            let (mut random, mut shift) = (Random::new(7), MixShift::new(0.1));
            let mut show = |lookups, missions: usize| {
                (0..missions).filter(|_| shows(&mut shift, &mut random, lookups, operations)).count()
            };
            show(0.5, 2_000usize.div_ceil(operations));
            for lookups in [0.7, 0.5].repeat(20) {
                let soon = show(lookups, 1_000usize.div_ceil(operations));
                let later = show(lookups, 2_000usize.div_ceil(operations));
                assert!(soon == 1 && later <= 1, "missions of {operations}: {soon} and {later}");
            }
        }
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
