//! What CAMAL chooses among, and what its models see of a choice (CAMAL §4, §7): `Knobs`, `Policy`
//! and `Space`.
//!
//! `Space` is the data and the memory, `Policy` how runs and size ratio go together, `Knobs` a
//! choice. `ratio_form` and `bits_form` are the closed forms' optima; `sampling` measures around
//! them. `choices` are all of a policy: whole bits, and the cache's shares of `CamalConstants`.
//! `terms` are what the straight model sees, `factors` what trees and network see. `apart` says how
//! far a choice lies from the closed forms.
//!
//! What must hold: each of `choices` leaves the smallest write buffer or more beside filters and
//! cache.
//!
//! Callers: `learned`, `sampling` and `camal`; the pages `camal_learned`, `camal_lab` and
//! `camal_dynamic` and the opponent `plain` of `solera-bench`.

use super::super::constants::CamalConstants;
use crate::{
    cost::{
        Mix,
        forms::{BLOOM_EXPONENT, camal},
    },
    learn::elementary::{exp, ln},
};
use serde::{Deserialize, Serialize};

/// How runs and size ratio go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One run in each level.
    Leveling,
    /// T runs in each level.
    Tiering,
    /// K runs in each level, chosen together with T (§8.4).
    Grouped,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knobs {
    /// T.
    pub size_ratio: u32,
    /// K: runs of each level below level 0.
    pub runs: u32,
    /// Filter bits per key: M_f.
    pub filter_bits: f64,
    /// M_c, as a share of the memory. The write buffer has what is left.
    pub cache_share: f64,
}

/// The data and the memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Space {
    /// N.
    pub entries: f64,
    /// E, in bytes.
    pub entry_bytes: f64,
    /// B.
    pub block_entries: f64,
    /// s.
    pub scan_entries: f64,
    /// M, in bytes: write buffer, filters and cache.
    pub memory_bytes: f64,
    /// Smallest write buffer, as a share of the memory.
    pub buffer_share_min: f64,
    /// T_lim.
    pub ratio_max: u32,
}

impl Space {
    /// The same at another scale: k times the data and k times the memory.
    pub fn scaled(&self, k: f64) -> Space {
        Space { entries: self.entries * k, memory_bytes: self.memory_bytes * k, ..*self }
    }

    /// M_b of a choice, in bytes.
    pub fn buffer_bytes(&self, knobs: &Knobs) -> f64 {
        self.memory_bytes * (1.0 - knobs.cache_share) - knobs.filter_bits * self.entries / 8.0
    }

    /// Largest bits per key, in whole ones, beside such a cache.
    pub fn bits_max(&self, cache_share: f64) -> f64 {
        let most = self.memory_bytes * (1.0 - cache_share - self.buffer_share_min).max(0.0);
        (most * 8.0 / self.entries).floor().min(f64::from(solera::filter::BITS_PER_KEY_MAX))
    }

    /// Bits per key while another knob is sampled.
    pub fn bits_default(&self, constants: &CamalConstants) -> f64 {
        constants.bits_default.min(self.bits_max(0.0))
    }

    fn tree(&self, cache_share: f64) -> camal::Tree {
        camal::Tree {
            entries: self.entries,
            entry_bytes: self.entry_bytes,
            block_entries: self.block_entries,
            scan_entries: self.scan_entries,
            memory_bytes: self.memory_bytes * (1.0 - cache_share),
            bloom_exponent: BLOOM_EXPONENT,
            merge_weight: 1.0,
        }
    }

    /// T* of the closed form: Eq. 5 for leveling; for tiering the root of Eq. 7.
    pub fn ratio_form(&self, mix: &Mix, policy: Policy, constants: &CamalConstants) -> u32 {
        let tree = self.tree(0.0);
        let max = f64::from(self.ratio_max);
        let ratio = match policy {
            Policy::Leveling | Policy::Grouped => tree.size_ratio(mix, max),
            Policy::Tiering => {
                let filter_bytes = self.bits_default(constants) * self.entries / 8.0;
                let slope = |size_ratio| tree.tiering_slope(mix, camal::Knobs { size_ratio, filter_bytes });
                let (mut low, mut high) = (2.0, max);
                for _ in 0..40 {
                    let middle = (low + high) / 2.0;
                    if slope(middle) < 0.0 { low = middle } else { high = middle }
                }
                low
            }
        };
        (ratio.round() as u32).clamp(2, self.ratio_max)
    }

    /// Bits per key of the closed form at this T (Eq. 6 with a Bloom filter's exponent), not
    /// rounded.
    pub fn bits_form(&self, mix: &Mix, size_ratio: u32, cache_share: f64) -> f64 {
        self.tree(cache_share).filter_bytes(mix, size_ratio.into()) * 8.0 / self.entries
    }

    /// How far a choice lies from the closed forms': in powers of e of T, and in tens of bits.
    pub fn apart(&self, mix: &Mix, policy: Policy, constants: &CamalConstants, knobs: &Knobs) -> f64 {
        let form = self.ratio_form(mix, policy, constants);
        let bits = self.bits_form(mix, form, knobs.cache_share);
        (ln(f64::from(knobs.size_ratio)) - ln(f64::from(form))).abs()
            + (knobs.filter_bits - bits).abs() / 10.0
    }

    /// Every choice of a policy, with whole bits.
    pub fn choices(&self, policy: Policy, constants: &CamalConstants) -> Vec<Knobs> {
        let mut choices = Vec::new();
        let mut cache_shares = constants.cache_shares.to_vec();
        cache_shares.dedup();
        for cache_share in cache_shares {
            for filter_bits in whole_bits(self.bits_max(cache_share)) {
                for size_ratio in 2..=self.ratio_max {
                    let runs = runs_of(policy, size_ratio);
                    choices.extend(runs.map(|runs| Knobs { size_ratio, runs, filter_bits, cache_share }));
                }
            }
        }
        choices
    }

    /// What Poly sees: the terms of the cost model (Fig. 2 of the paper, with the workload's
    /// weights that Eq. 9 lost), and what each kind of operation costs whatever the tree.
    pub fn terms(&self, mix: &Mix, knobs: &Knobs) -> Vec<f64> {
        let (ratio, runs) = (f64::from(knobs.size_ratio), f64::from(knobs.runs));
        let buffer = self.buffer_bytes(knobs).max(1.0);
        let levels = ln(self.entries * self.entry_bytes / buffer + 1.0) / ln(ratio);
        // Monkey's filters let T^(T/(T−1))/(T−1) times as many pass as equal ones would in the last
        // level.
        let monkey = exp(ratio / (ratio - 1.0) * ln(ratio)) / (ratio - 1.0);
        let passes = (exp(-BLOOM_EXPONENT * knobs.filter_bits) * monkey).min(levels) * runs;
        let data = self.entries * self.entry_bytes;
        let missed = 1.0 - (knobs.cache_share * self.memory_bytes / data).min(1.0);
        let Mix { absent, found, scan, write } = *mix;
        vec![
            absent * passes * missed,
            found * passes * missed,
            found * missed,
            scan * levels * runs * missed,
            write * levels * (ratio - 1.0 + runs) / runs / self.block_entries,
            (absent + found) * levels * runs,
            absent,
            found,
            scan,
            write,
        ]
    }

    /// What Trees and NN see: N, T, K, M_b, M_c, v, r, q, w.
    pub fn factors(&self, mix: &Mix, knobs: &Knobs) -> Vec<f64> {
        let [v, r, q, w] = mix.shares();
        let (ratio, runs) = (f64::from(knobs.size_ratio), f64::from(knobs.runs));
        let cache = knobs.cache_share * self.memory_bytes;
        vec![self.entries, ratio, runs, self.buffer_bytes(knobs), cache, v, r, q, w]
    }
}

/// The values of K that go with a T.
pub fn runs_of(policy: Policy, size_ratio: u32) -> std::ops::RangeInclusive<u32> {
    match policy {
        Policy::Leveling => 1..=1,
        Policy::Tiering => size_ratio..=size_ratio,
        Policy::Grouped => 1..=size_ratio,
    }
}

/// 0, 1, 2, … bits.
fn whole_bits(most: f64) -> impl Iterator<Item = f64> + Clone {
    (0..=most.max(0.0) as u32).map(f64::from)
}

/// So many numbers in a row about `centre`, from `least` to `most`; fewer if there are not so many.
pub fn around(centre: u32, count: usize, least: u32, most: u32) -> impl Iterator<Item = u32> {
    let count = (count as u32).min(most.saturating_sub(least) + 1);
    let first = centre.saturating_sub(count / 2).max(least).min(most.saturating_sub(count - 1).max(least));
    first..first + count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        Space {
            entries: 1e7,
            entry_bytes: 1024.0,
            block_entries: 4.0,
            scan_entries: 4.0,
            memory_bytes: 16.0 * 1_048_576.0,
            buffer_share_min: 1.0 / 16.0,
            ratio_max: 32,
        }
    }

    #[test]
    fn neighbours_are_so_many_in_a_row_within_the_bounds() {
        let of = |centre, count, least, most| around(centre, count, least, most).collect::<Vec<_>>();
        assert_eq!(of(6, 5, 2, 32), [4, 5, 6, 7, 8]);
        assert_eq!(of(2, 5, 2, 32), [2, 3, 4, 5, 6]);
        assert_eq!(of(32, 5, 2, 32), [28, 29, 30, 31, 32]);
        assert_eq!(of(3, 9, 2, 4), [2, 3, 4]);
    }

    #[test]
    fn closed_forms_are_the_centres() {
        let (space, constants) = (space(), CamalConstants::default());
        let mix = Mix::new([0.25; 4]).unwrap();
        assert_eq!(space.ratio_form(&mix, Policy::Leveling, &constants), 6);
        assert!((space.bits_form(&mix, 6, 0.0) - 3.9).abs() < 0.2);
        // Writes alone want as much tiering as there is.
        let writes = Mix::new([0.01, 0.01, 0.01, 0.97]).unwrap();
        assert!(space.ratio_form(&writes, Policy::Tiering, &constants) > 4);
        assert_eq!(space.bits_max(0.0), 12.0);
    }

    #[test]
    fn all_choices_leave_a_write_buffer() {
        let (space, constants) = (space(), CamalConstants::default());
        for policy in [Policy::Leveling, Policy::Tiering, Policy::Grouped] {
            let choices = space.choices(policy, &constants);
            assert!(choices.iter().all(|knobs| {
                let least = space.buffer_share_min * space.memory_bytes * (1.0 - 1e-9);
                space.buffer_bytes(knobs) >= least && runs_of(policy, knobs.size_ratio).contains(&knobs.runs)
            }));
        }
    }
}
