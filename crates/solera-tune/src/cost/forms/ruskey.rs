//! RusKey §5.2 and Monkey together (docs/PAPERS.md, "RusKey: the run limits"): run limits and
//! filters of all levels in one form.
//!
//! `Levels` is what it is given. `allot` is Monkey's allotment, `solve` gives a `Solution`, `limit`
//! one level's K.
//!
//! A level of K runs costs a lookup K probes and K f reads, and a write (T−1+K)/(2K) merges. With
//! Monkey's f_i = λ n_i/K_i, each level is a quadratic in 1/K_i; a damped iteration finds λ.
//!
//! What must hold: the bits are all used; no level has less than none.
//!
//! Callers: `cost::choose`, the agents `lerp` and `camal`.

use super::BLOOM_EXPONENT;
use crate::learn::elementary::{exp, ln};

/// Rounds of the damped iteration for λ: it converges in under twenty.
const ROUNDS: usize = 60;
/// A level that lets through more than this has no filter.
const FILTERED: f64 = 1.0 - 1e-9;

/// What the form is given. Costs in any unit of time, the same for all.
#[derive(Clone, Debug, PartialEq)]
pub struct Levels {
    /// n_i: entries of each level, from the newest on.
    pub entries: Vec<f64>,
    /// M_f in bits, over all levels.
    pub filter_bits: f64,
    /// T.
    pub size_ratio: f64,
    /// γ: the share of lookups among lookups and writes.
    pub lookups: f64,
    /// I_r: cost of reading a block.
    pub read: f64,
    /// c_r: cost of asking a run: its fence, its filter.
    pub probe: f64,
    /// (E/B)(I_r + I_w) + c_w: cost of merging an entry once.
    pub merge: f64,
}

/// Run limits, not rounded, and the false positives that Monkey gives each level.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// K_i, from 1 to T.
    pub run_limits: Vec<f64>,
    /// f_i.
    pub false_positives: Vec<f64>,
}

impl Levels {
    /// Monkey's allotment over runs: f_i = λ n_i/K_i, 1 where that is 1 or more, with the bits all
    /// used.
    pub fn allot(&self, run_limits: &[f64]) -> Vec<f64> {
        let share = |level: usize| self.entries[level] / run_limits[level];
        let mut filtered: Vec<usize> = (0..self.entries.len()).filter(|&i| self.entries[i] > 0.0).collect();
        loop {
            let sum: f64 = filtered.iter().map(|&i| self.entries[i]).sum();
            let weighted: f64 = filtered.iter().map(|&i| self.entries[i] * ln(share(i))).sum();
            let ln_lambda = -(BLOOM_EXPONENT * self.filter_bits + weighted) / sum;
            let false_positives = |i: usize| exp(ln_lambda + ln(share(i)));
            let before = filtered.len();
            let kept: Vec<usize> = filtered.iter().copied().filter(|&i| false_positives(i) < 1.0).collect();
            if kept.len() == before || kept.is_empty() {
                let of = |i: usize| if kept.contains(&i) { false_positives(i) } else { 1.0 };
                return (0..self.entries.len()).map(of).collect();
            }
            filtered = kept;
        }
    }

    /// The best run limits and the filters that go with them (the joint form).
    pub fn solve(&self) -> Solution {
        let mut run_limits = vec![self.size_ratio.sqrt(); self.entries.len()];
        for _ in 0..ROUNDS {
            let false_positives = self.allot(&run_limits);
            let best: Vec<f64> = run_limits
                .iter()
                .zip(&false_positives)
                // λ n_i = K_i f_i, which the new K_i leaves as it is; a level without a filter pays
                // for each run.
                .map(|(&k, &f)| if f < FILTERED { self.limit(k * f, 0.0) } else { self.limit(0.0, 1.0) })
                .collect();
            run_limits.iter_mut().zip(best).for_each(|(k, best)| *k = (*k + best) / 2.0);
        }
        Solution { false_positives: self.allot(&run_limits), run_limits }
    }

    /// The best run limit of a level whose runs together let `spread` absent keys through however
    /// many they are, and each `fixed` of them: the root of 1/K, 1 to T. With `spread` 0 it is
    /// RusKey's form of fixed filters, K² = (1−γ) W/(γ (f I_r + c_r)).
    pub fn limit(&self, spread: f64, fixed: f64) -> f64 {
        let writes = (1.0 - self.lookups) * (self.size_ratio - 1.0) / 2.0 * self.merge;
        let reads = self.lookups * spread * self.read;
        let probes = self.lookups * (self.probe + fixed * self.read);
        if writes <= 0.0 {
            return 1.0;
        }
        let inverse = (reads + (reads * reads + 4.0 * writes * probes).sqrt()) / (2.0 * writes);
        (1.0 / inverse).clamp(1.0, self.size_ratio)
    }

    /// Cost of an operation at these run limits and false positives, but for what does not depend
    /// on them.
    pub fn cost(&self, run_limits: &[f64], false_positives: &[f64]) -> f64 {
        let levels = run_limits.iter().zip(false_positives);
        levels
            .map(|(k, f)| {
                self.lookups * k * (f * self.read + self.probe)
                    + (1.0 - self.lookups) * (self.size_ratio - 1.0 + k) / (2.0 * k) * self.merge
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// T = 10, four levels, 4 bits per key, and the unit costs (µs) of the check in docs/PAPERS.md,
    /// "RusKey: the run limits".
    fn notes(lookups: f64) -> Levels {
        let entries: Vec<f64> = (0..4).map(|i| 9.0 * 10f64.powi(i)).collect();
        Levels {
            filter_bits: 4.0 * entries.iter().sum::<f64>(),
            entries,
            size_ratio: 10.0,
            lookups,
            read: 80.0,
            probe: 0.6,
            merge: (80.0 + 25.0) / 4.0 + 0.5,
        }
    }

    fn cost_at(levels: &Levels, limits: [u32; 4]) -> f64 {
        let limits = limits.map(f64::from);
        levels.cost(&limits, &levels.allot(&limits))
    }

    fn brute_force(levels: &Levels) -> ([u32; 4], f64) {
        let all = (0..10_000u32).map(|n| [n % 10 + 1, n / 10 % 10 + 1, n / 100 % 10 + 1, n / 1000 + 1]);
        let priced = all.map(|limits| (limits, cost_at(levels, limits)));
        priced.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    #[test]
    fn the_joint_form_rounded_is_the_best_of_all_ten_thousand_settings() {
        for (lookups, expected) in [(0.1, [10, 10, 10, 8]), (0.5, [10, 10, 10, 3]), (0.9, [5, 5, 4, 1])] {
            let levels = notes(lookups);
            let rounded: Vec<u32> = levels.solve().run_limits.iter().map(|k| k.round() as u32).collect();
            assert_eq!(rounded, expected, "lookups {lookups}");
            assert_eq!(brute_force(&levels).0, expected, "lookups {lookups}");
        }
    }

    #[test]
    fn fixed_policies_cost_as_much_more_as_the_notes_say() {
        for (limits, more) in [
            ([10, 10, 10, 1], [75, 21, 12]),
            ([1, 1, 1, 1], [339, 169, 40]),
            ([10, 10, 10, 10], [0, 42, 261]),
        ] {
            for (lookups, more) in [0.1, 0.5, 0.9].into_iter().zip(more) {
                let levels = notes(lookups);
                let ratio = (cost_at(&levels, limits) / brute_force(&levels).1 - 1.0) * 100.0;
                assert!((ratio - f64::from(more)).abs() < 3.0, "{limits:?} at {lookups}: {ratio} %");
            }
        }
    }

    #[test]
    fn monkey_uses_all_bits_and_gives_no_level_less_than_nothing() {
        let levels = notes(0.5);
        for limits in [[1.0; 4], [10.0; 4], [10.0, 5.0, 2.0, 1.0]] {
            for filter_bits in [0.01, 1.0, 4.0, 16.0].map(|bits| bits * levels.entries.iter().sum::<f64>()) {
                let levels = Levels { filter_bits, ..levels.clone() };
                let allotted = levels.allot(&limits);
                assert!(allotted.iter().all(|f| *f > 0.0 && *f <= 1.0), "{allotted:?}");
                let bits = allotted.iter().zip(&levels.entries).map(|(f, n)| -f.ln() / BLOOM_EXPONENT * n);
                assert!((bits.sum::<f64>() / filter_bits - 1.0).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_level_without_a_filter_pays_for_every_run() {
        let levels = Levels { filter_bits: 0.0, ..notes(0.5) };
        let solution = levels.solve();
        assert!(solution.false_positives.iter().all(|f| (f - 1.0).abs() < 1e-9), "{solution:?}");
        let expected = (0.5 * 4.5 * levels.merge / (0.5 * 80.6f64)).sqrt().clamp(1.0, 10.0);
        assert!(solution.run_limits.iter().all(|k| (k - expected).abs() < 1e-6), "{solution:?}");
    }

    #[test]
    fn nothing_but_lookups_wants_one_run_and_nothing_but_writes_all() {
        assert!(notes(1.0).solve().run_limits.iter().all(|k| *k <= 1.0 + 1e-9));
        assert!(notes(0.0).solve().run_limits.iter().all(|k| *k >= 10.0 - 1e-9));
    }
}
