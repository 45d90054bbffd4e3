//! That some keys are used more than others, as one number: `Skew`. It is the share of the
//! operations that go to the favoured keys. These are as small a share of all keys as the rest of
//! the operations is of all (90 % of the operations, 10 % of the keys).
//!
//! `covered` says which share of the favoured keys, and of the others, a run of a given size holds.
//! `served` says how many lookups the newest runs answer, `met` how many runs of a level lookups
//! ask. `of_served` finds the skew from what was served.
//!
//! What must hold: reads and writes favour the same keys, wherever these lie. Below 65 % all keys
//! count as alike, and nothing is priced otherwise than without a skew.
//!
//! Callers: `cost::tree` keeps it, `cost::reads` asks what it makes of runs, `steward::foresight`
//! finds it out.

use crate::learn::elementary::{exp, ln};
use serde::{Deserialize, Serialize};

/// The share from which on keys are told apart: what is less is chance.
const TOLD_MIN: f64 = 0.65;
/// The largest share that is believed.
const SHARE_MAX: f64 = 0.98;
/// Steps of Newton's in the search for how much was written.
const STEPS: usize = 12;
/// Halvings in the search for a skew, and for how many runs there are; and the most.
const HALVINGS: usize = 20;
const RUNS_MAX: f64 = 128.0;
/// The most keys of a run that were written again, as a share: more are all.
const COVERED_MAX: f64 = 0.999;

/// How unevenly keys are used.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skew {
    share: f64,
}

impl Default for Skew {
    fn default() -> Skew {
        Skew::EVEN
    }
}

impl Skew {
    /// All keys alike.
    pub const EVEN: Skew = Skew { share: 0.5 };

    /// So large a share of the operations goes to the favoured keys.
    pub fn new(share: f64) -> Skew {
        Skew { share: if share.is_finite() { share.clamp(0.5, SHARE_MAX) } else { 0.5 } }
    }

    /// Whether it can be: one that was read from a file may be anything.
    pub fn is_sound(self) -> bool {
        (0.5..=SHARE_MAX).contains(&self.share)
    }

    /// The share of the operations that goes to the favoured keys.
    pub fn share(self) -> f64 {
        self.share
    }

    /// Whether keys are not to be told apart.
    pub fn is_even(self) -> bool {
        self.share < TOLD_MIN
    }

    /// The shares of the operations that go to the favoured keys and to the others.
    pub fn operations(self) -> [f64; 2] {
        if self.is_even() { [0.5, 0.5] } else { [self.share, 1.0 - self.share] }
    }

    /// Of the favoured keys and of the others, which share was written by so many writes for each
    /// key that there is.
    pub fn written(self, writes: f64) -> [f64; 2] {
        if self.is_even() {
            return [1.0 - exp(-writes); 2];
        }
        self.operations().map(|share| 1.0 - exp(-writes * share / (1.0 - share)))
    }

    /// The same where versions of the share `covered` of all keys lie in a run, each once.
    pub fn covered(self, covered: f64) -> [f64; 2] {
        let covered = covered.clamp(0.0, COVERED_MAX);
        if self.is_even() || covered == 0.0 {
            return [covered; 2];
        }
        // Each step stays below what is looked for: what is covered grows ever more slowly.
        let mut writes = covered;
        for _ in 0..STEPS {
            let left = self.written(writes).map(|written| 1.0 - written);
            let [many, few] = self.operations();
            let (now, slope) = (1.0 - few * left[0] - many * left[1], many * left[0] + few * left[1]);
            writes += (covered - now) / slope.max(1e-6);
        }
        self.written(writes)
    }

    /// The share of lookups that find their key in one of `above`: so many runs, each with versions
    /// of so large a share of all keys.
    pub fn served(self, above: &[(f64, f64)]) -> f64 {
        let missed = |of: usize| -> f64 {
            above.iter().map(|&(runs, covered)| pow(1.0 - self.covered(covered)[of], runs)).product()
        };
        let operations = self.operations();
        (0..2).map(|of| operations[of] * (1.0 - missed(of))).sum()
    }

    /// How many runs lookups meet in a level. Each has versions of the share `covered` of all keys.
    /// `absent` lookups ask all of them, `found` ones until they find their key. All together ask
    /// `asked` times.
    pub fn met(self, covered: f64, [absent, found]: [f64; 2], asked: f64) -> f64 {
        let held = self.covered(covered).map(|held| held.max(1e-9));
        let asks = |runs: f64| {
            let until_found = |of: usize| (1.0 - pow(1.0 - held[of], runs)) / held[of];
            let operations = self.operations();
            let found = found * (0..2).map(|of| operations[of] * until_found(of)).sum::<f64>();
            absent * runs + found
        };
        let (mut low, mut high) = (0.0, RUNS_MAX);
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if asks(middle) < asked { low = middle } else { high = middle }
        }
        low
    }

    /// The skew by which the share `served` of lookups finds its key in what lies `above`. That may
    /// depend on the skew.
    pub fn of_served(served: f64, above: impl Fn(Skew) -> Vec<(f64, f64)>) -> Skew {
        let is_less = |share: f64| {
            let skew = Skew::new(share);
            skew.served(&above(skew)) < served
        };
        let (mut low, mut high) = (TOLD_MIN, SHARE_MAX);
        if !is_less(low) {
            return Skew::EVEN;
        }
        for _ in 0..HALVINGS {
            let middle = (low + high) / 2.0;
            if is_less(middle) { low = middle } else { high = middle }
        }
        Skew::new(low)
    }
}

/// `base` to the power of `runs`, of a base between 0 and 1.
fn pow(base: f64, runs: f64) -> f64 {
    exp(runs * ln(base.max(1e-12)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_holds_of_the_favoured_keys_adds_up_to_what_it_holds() {
        for share in [0.5, 0.7, 0.8, 0.9, 0.95] {
            let skew = Skew::new(share);
            for covered in [0.001, 0.01, 0.05, 0.1, 0.3, 0.6, 0.9] {
                let [favoured, others] = skew.covered(covered);
                let [many, few] = skew.operations();
                let keys = if skew.is_even() { favoured } else { few * favoured + many * others };
                assert!((keys / covered - 1.0).abs() < 0.02, "{share}, {covered}: {keys}");
                assert!(favoured >= others && favoured <= 1.0);
            }
        }
        assert_eq!(Skew::EVEN.covered(0.25), [0.25; 2]);
    }

    #[test]
    fn a_skew_is_found_again_by_what_the_newest_runs_serve() {
        for share in [0.7, 0.8, 0.9, 0.95] {
            for above in [[(1.0, 0.02), (0.0, 0.0)], [(4.0, 0.02), (1.0, 0.2)]] {
                let skew = Skew::new(share);
                let found = Skew::of_served(skew.served(&above), |_| above.to_vec()).share();
                assert!((found - share).abs() < 0.01, "{share}, {above:?}: {found}");
            }
        }
        assert!(Skew::of_served(0.1, |_| vec![(1.0, 0.1)]).is_even(), "a tenth of all keys alike");
        assert!(Skew::of_served(f64::NAN, |_| vec![(1.0, 0.1)]).is_even());
    }

    #[test]
    fn the_runs_that_lookups_meet_are_told_by_how_often_they_ask() {
        // Ten runs of a tenth of the keys: who finds a key asks 6.5 of them.
        let asked = 1000.0 * (1.0 - 0.9f64.powi(10)) / 0.1;
        let met = Skew::EVEN.met(0.1, [500.0, 1000.0], 500.0 * 10.0 + asked);
        assert!((met - 10.0).abs() < 0.01, "{met}");
        assert!(Skew::new(0.9).met(0.1, [0.0, 1000.0], asked) > 10.0, "hot keys are found sooner");
    }
}
