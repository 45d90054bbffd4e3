//! What merges make windows dearer and cheaper by, though nothing has changed: `Merging`.
//!
//! Merges come in lumps: a window that has one may cost twice what the next does. `learn` takes the
//! slope of cost over moved bytes, from windows of one context under the same settings. By it,
//! `evened` says what a window would have cost with merges spread evenly.
//!
//! What must hold: merges make up nine tenths of a cost at most. A window that moves unusually much
//! is not explained before merges were seen.
//!
//! Callers: `coordinator`, `baseline` and `state`.

use serde::{Deserialize, Serialize};

/// What counts of all windows before when one comes.
const FADES: f64 = 0.95;
/// How large deviations of moved bytes must be to be believed, as a share of their mean.
const BELIEVED: f64 = 0.15;
/// How many times what is usual a window must move to be unlike all that were seen.
const UNUSUAL: f64 = 2.0;
/// The most of a window's cost that merges are taken to make up.
const SHARE_MAX: f64 = 0.9;

/// Sums over windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Merging {
    /// Of deviations of cost times those of moved bytes.
    covariance: f64,
    /// Of squared deviations of moved bytes.
    variance: f64,
}

impl Merging {
    /// Under the same settings a context's windows cost `mean.0` for `mean.1` moved bytes an
    /// operation, and this one cost `window.0` for `window.1`.
    pub fn learn(&mut self, mean: (f64, f64), window: (f64, f64)) {
        let (cost, moved) = (window.0 - mean.0, window.1 - mean.1);
        let believed = BELIEVED * mean.1;
        if !(cost * moved).is_finite() || moved * moved <= believed * believed {
            return;
        }
        self.covariance = FADES * self.covariance + cost * moved;
        self.variance = FADES * self.variance + moved * moved;
    }

    /// Whether it can tell what a window costs that moved so many bytes where `usual` are moved:
    /// before it has seen merges, only for one that moved no more.
    pub fn explains(&self, moved: f64, usual: f64) -> bool {
        self.variance > 0.0 || moved <= UNUSUAL * usual
    }

    /// What a moved byte costs.
    pub fn slope(&self) -> f64 {
        if self.variance > 0.0 { (self.covariance / self.variance).max(0.0) } else { 0.0 }
    }

    /// What a window that cost `cost` for `moved` bytes an operation would have cost for `usual`
    /// ones.
    pub fn evened(&self, cost: f64, moved: f64, usual: f64) -> f64 {
        let of_merges = |bytes: f64| self.slope() * bytes;
        (cost - of_merges(moved - usual)).max((1.0 - SHARE_MAX) * cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_a_merge_and_one_without_cost_the_same_when_evened() {
        let mut merging = Merging::default();
        let cost = |moved: f64| 5000.0 + 3.0 * moved;
        for moved in [0.0, 4000.0, 0.0, 100.0, 4000.0] {
            merging.learn((cost(1000.0), 1000.0), (cost(moved), moved));
        }
        assert!((merging.slope() - 3.0).abs() < 1e-9);
        for moved in [0.0, 1000.0, 4000.0] {
            assert!((merging.evened(cost(moved), moved, 1000.0) - cost(1000.0)).abs() < 1e-6);
        }
    }

    #[test]
    fn windows_that_move_alike_say_nothing_and_merges_never_make_up_all_of_a_cost() {
        let mut merging = Merging::default();
        merging.learn((100.0, 1000.0), (200.0, 1010.0));
        assert_eq!(merging.slope(), 0.0);
        merging.learn((100.0, 1000.0), (5000.0, 2000.0));
        assert!(merging.evened(1000.0, 9000.0, 0.0) >= 100.0 - 1e-9);
        merging.learn((100.0, 1000.0), (f64::INFINITY, 3000.0));
        assert!(merging.slope().is_finite());
    }
}
