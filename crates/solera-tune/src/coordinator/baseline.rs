//! What a context costs while nothing is changed: `Baseline`, of the newest eight windows
//! (`Measured`).
//!
//! It keeps the exponentially weighted mean of their cost and its median absolute deviation, with
//! merges spread evenly (`Merging`). `tolerance` is how much worse a window may be.
//!
//! What must hold: one window is a baseline; before the fourth its deviation is taken to be 4 %. By
//! the default rules the tolerance is three deviations, and 5 % at least.
//!
//! Callers: `coordinator` and its `state`.

use super::{merging::Merging, rules::Rules};
use serde::{Deserialize, Serialize};

/// How many times what it did a window must cost, merges and all, to be far from it: three in a row
/// are no lump.
pub const FAR: f64 = 1.75;
/// Windows that are remembered.
const KEPT: usize = 8;
/// Weight of the newest window in the mean.
const WEIGHT: f64 = 0.3;
/// The least weight of the newest window in what is usually moved: merges come seldom.
const WEIGHT_MOVED: f64 = 0.1;
/// Windows from which on their deviation is believed.
const DEVIATION_WINDOWS: usize = 4;
/// What the deviation is taken to be until then, as a share of the mean.
const DEVIATION_UNKNOWN: f64 = 0.04;
/// Two windows and two before them, and what the two cost at most of those where costs fall.
const FALLING: (usize, f64) = (2, 0.95);
/// How many windows of what was usual before count in what is usual under a change.
const USUAL_BEFORE: f64 = 3.0;

/// What one window came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Its cost.
    pub cost: f64,
    /// Bytes that flushes and merges wrote, for each operation.
    pub moved: f64,
    /// Its 99th percentile, in nanoseconds.
    pub p99_ns: u64,
}

/// Costs of the newest windows of one context under settings that did not change meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// The oldest first.
    newest: Vec<Measured>,
    /// Bytes that are moved for an operation, in the mean.
    usual: f64,
    windows: u32,
    /// The mean of the 99th percentiles, in nanoseconds.
    p99_ns: f64,
}

impl Baseline {
    /// One without windows yet, of which is known what is usually moved.
    pub fn expecting(usual: f64) -> Baseline {
        Baseline { usual, windows: USUAL_BEFORE as u32, ..Baseline::default() }
    }

    /// Adds a window.
    pub fn add(&mut self, window: Measured) {
        let weight = if self.newest.is_empty() { 1.0 } else { WEIGHT };
        self.p99_ns += weight * (window.p99_ns as f64 - self.p99_ns);
        self.windows = self.windows.saturating_add(1);
        self.usual += (1.0 / f64::from(self.windows)).max(WEIGHT_MOVED) * (window.moved - self.usual);
        if self.newest.len() == KEPT {
            self.newest.remove(0);
        }
        self.newest.push(window);
    }

    /// How many windows it is of, up to 8.
    pub fn windows(&self) -> u32 {
        self.newest.len() as u32
    }

    /// Bytes that are moved for an operation, in the mean.
    pub fn usual(&self) -> f64 {
        self.usual
    }

    /// The same while a change is open in which `windows` were measured: what was usual before
    /// counts for some windows, because merges come seldom.
    pub fn usual_with<'a>(&self, windows: impl Iterator<Item = &'a Measured>) -> f64 {
        let (mut sum, mut count) = (USUAL_BEFORE * self.usual, USUAL_BEFORE);
        windows.for_each(|window| (sum, count) = (sum + window.moved, count + 1.0));
        sum / count
    }

    /// Whether its windows are enough to tell what chance makes of one.
    pub fn knows_chance(&self) -> bool {
        self.newest.len() >= DEVIATION_WINDOWS
    }

    /// What the dearest of them cost, merges and all.
    pub fn dearest(&self) -> f64 {
        self.newest.iter().map(|window| window.cost).fold(0.0, f64::max)
    }

    fn evened<'a>(&'a self, merging: &'a Merging) -> impl Iterator<Item = f64> + 'a {
        self.newest.iter().map(|window| merging.evened(window.cost, window.moved, self.usual))
    }

    /// The mean cost. 0 without windows.
    pub fn mean(&self, merging: &Merging) -> f64 {
        self.evened(merging).reduce(|mean, new| mean + WEIGHT * (new - mean)).unwrap_or(0.0)
    }

    /// Whether operations become cheaper with each window, as far as is known: a workload that is
    /// new has a tree and a cache that are still of another.
    pub fn falls(&self, merging: &Merging) -> bool {
        let (windows, most) = FALLING;
        let costs: Vec<f64> = self.evened(merging).collect();
        let Some(from) = costs.len().checked_sub(2 * windows) else { return true };
        let [before, newest] = [from, from + windows].map(|at| costs[at..][..windows].iter().sum::<f64>());
        newest < most * before
    }

    /// The mean of the 99th percentiles, in nanoseconds.
    pub fn p99_ns(&self) -> f64 {
        self.p99_ns
    }

    /// The median absolute deviation, as a share of the mean.
    pub fn deviation(&self, merging: &Merging) -> f64 {
        let mean = self.mean(merging);
        if !self.knows_chance() || mean <= 0.0 {
            return DEVIATION_UNKNOWN;
        }
        let center = median(self.evened(merging).collect());
        median(self.evened(merging).map(|cost| (cost - center).abs()).collect()) / mean
    }

    /// How much worse than the mean a window may be, as a share of it.
    pub fn tolerance(&self, rules: &Rules, merging: &Merging) -> f64 {
        rules.loss_max.max(rules.loss_mads_max * self.deviation(merging))
    }
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    match numbers.len() % 2 {
        0 => (numbers[middle - 1] + numbers[middle]) / 2.0,
        _ => numbers[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(cost: f64) -> Measured {
        Measured { cost, moved: 0.0, p99_ns: 1000 }
    }

    #[test]
    fn a_steady_context_tolerates_five_percent_and_a_restless_one_three_deviations() {
        let (rules, merging) = (Rules::default(), Merging::default());
        let mut steady = Baseline::default();
        let mut restless = Baseline::default();
        for turn in 0..8 {
            steady.add(measured(100.0));
            restless.add(measured(if turn % 2 == 0 { 90.0 } else { 110.0 }));
        }
        assert_eq!((steady.mean(&merging), steady.tolerance(&rules, &merging)), (100.0, 0.05));
        let tolerance = restless.tolerance(&rules, &merging);
        assert!((tolerance - 0.3).abs() < 0.02, "{tolerance}");
    }

    #[test]
    fn one_window_is_a_baseline_whose_deviation_is_not_known() {
        let (rules, merging) = (Rules::default(), Merging::default());
        let mut baseline = Baseline::default();
        baseline.add(Measured { cost: 10.0, moved: 1.0, p99_ns: 5 });
        assert_eq!((baseline.windows(), baseline.mean(&merging), baseline.p99_ns()), (1, 10.0, 5.0));
        assert!((baseline.tolerance(&rules, &merging) - 0.12).abs() < 1e-12);
    }

    /// Symptom: a change was taken back because a merge fell into the window after it. Cause: that
    /// window was held against ones without. Cure: merges are spread evenly.
    #[test]
    fn windows_with_merges_and_without_are_one_steady_context() {
        let (rules, mut merging, mut baseline) = (Rules::default(), Merging::default(), Baseline::default());
        for turn in 0..12 {
            let moved = if turn % 3 == 0 { 300.0 } else { 0.0 };
            let cost = 100.0 + 0.5 * moved;
            if baseline.windows() > 0 {
                merging.learn((baseline.mean(&merging), baseline.usual()), (cost, moved));
            }
            baseline.add(Measured { cost, moved, p99_ns: 9 });
        }
        let tolerance = baseline.tolerance(&rules, &merging);
        assert!(tolerance < 0.06, "{tolerance}");
        assert!((baseline.mean(&merging) / 150.0 - 1.0).abs() < 0.1, "{}", baseline.mean(&merging));
    }
}
