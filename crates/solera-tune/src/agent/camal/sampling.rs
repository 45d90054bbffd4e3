//! Which choices are measured: decoupled active learning (CAMAL §4, Algorithm 2).
//!
//! `Sampler` is what every way of sampling is to the code that measures: `next`, `tell`, `samples`.
//! `Decoupled` is CAMAL's own: for each training mix it samples T about T* (with K, where that is
//! chosen too), learns and fixes it. Then come bits per key about their optimum, then the cache's
//! share. Table 1 is `TRAINING`.
//!
//! What must hold: a choice is told its cost before the next is asked for. Costs are finite and
//! positive. Both are asserted.
//!
//! Callers: the pages `camal_learned`, `camal_lab` (which measures) and `camal` (`TRAINING`) of
//! `solera-bench`; its opponent `plain` is another `Sampler`.

use super::{
    super::constants::CamalConstants,
    learned::{Believed, Learner, Sample},
    space::{Knobs, Policy, Space, around, runs_of},
};
use crate::cost::{
    Mix,
    forms::{BLOOM_EXPONENT, ruskey},
};
use std::collections::VecDeque;

/// CAMAL's Table 1: v, r, q, w in per cent.
pub const TRAINING: [[f64; 4]; 15] = [
    [25., 25., 25., 25.],
    [97., 1., 1., 1.],
    [1., 97., 1., 1.],
    [1., 1., 97., 1.],
    [1., 1., 1., 97.],
    [49., 49., 1., 1.],
    [49., 1., 49., 1.],
    [49., 1., 1., 49.],
    [1., 49., 49., 1.],
    [1., 49., 1., 49.],
    [1., 1., 49., 49.],
    [33., 33., 33., 1.],
    [33., 33., 1., 33.],
    [33., 1., 33., 33.],
    [1., 33., 33., 33.],
];

/// Says what to measure next.
pub trait Sampler {
    /// The next choice to measure, and under which of its mixes; `None` when it has seen enough.
    fn next(&mut self) -> Option<(Mix, Knobs)>;

    /// Hears what the last choice cost.
    fn tell(&mut self, cost: f64);

    /// All that was measured.
    fn samples(&self) -> &[Sample];
}

/// What is sampled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ratio,
    Bits,
    Cache,
}

/// CAMAL's sampling.
#[derive(Clone, Debug)]
pub struct Decoupled {
    learner: Learner,
    constants: CamalConstants,
    space: Space,
    policy: Policy,
    mixes: Vec<Mix>,
    seed: u64,
    samples: Vec<Sample>,
    /// Which mix, and which of its knobs.
    at: (usize, Stage),
    /// What is fixed for this mix so far.
    fixed: Knobs,
    queue: VecDeque<Knobs>,
    asked: Option<Knobs>,
}

impl Decoupled {
    /// Sampling for these mixes, of which there is one at least.
    pub fn new(
        learner: Learner,
        constants: CamalConstants,
        space: Space,
        policy: Policy,
        mixes: &[Mix],
        seed: u64,
    ) -> Decoupled {
        assert!(!mixes.is_empty(), "there is nothing to learn for");
        let mut sampling = Decoupled {
            fixed: Knobs { size_ratio: 2, runs: 1, filter_bits: 0.0, cache_share: 0.0 },
            learner,
            constants,
            space,
            policy,
            mixes: mixes.to_vec(),
            seed,
            samples: Vec::new(),
            at: (0, Stage::Ratio),
            queue: VecDeque::new(),
            asked: None,
        };
        sampling.begin_mix();
        sampling
    }

    fn mix(&self) -> Mix {
        self.mixes[self.at.0]
    }

    /// T, or T and K together, about the closed form's; everything else by default.
    fn begin_mix(&mut self) {
        let (mix, space, constants) = (self.mix(), &self.space, &self.constants);
        let form = space.ratio_form(&mix, self.policy, constants);
        let knobs =
            Knobs { size_ratio: form, runs: 1, filter_bits: space.bits_default(constants), cache_share: 0.0 };
        self.fixed = knobs;
        let of_ratio = |size_ratio: u32, runs: u32| Knobs { size_ratio, runs, ..knobs };
        self.queue = match self.policy {
            Policy::Leveling | Policy::Tiering => around(form, constants.ratio_samples, 2, space.ratio_max)
                .map(|ratio| of_ratio(ratio, *runs_of(self.policy, ratio).start()))
                .collect(),
            Policy::Grouped => {
                let side = (constants.pair_samples as f64).sqrt().round() as usize;
                let runs = self.runs_form(&mix, form);
                let pairs = around(form, side, 2, space.ratio_max)
                    .flat_map(|ratio| around(runs, side, 1, ratio).map(move |runs| (ratio, runs)));
                pairs.map(|(ratio, runs)| of_ratio(ratio, runs)).collect()
            }
        };
        self.at.1 = Stage::Ratio;
    }

    /// K* beside this T: the closed form of RusKey's level cost, in blocks.
    fn runs_form(&self, mix: &Mix, size_ratio: u32) -> u32 {
        let passes = crate::learn::elementary::exp(-BLOOM_EXPONENT * self.fixed.filter_bits);
        let reads = mix.absent + mix.found + mix.scan;
        let level = ruskey::Levels {
            entries: Vec::new(),
            filter_bits: 0.0,
            size_ratio: size_ratio.into(),
            lookups: reads,
            read: 1.0,
            // A scan reads of every run.
            probe: if reads > 0.0 { mix.scan / reads } else { 0.0 },
            merge: 2.0 / self.space.block_entries,
        };
        (level.limit(0.0, passes).round() as u32).clamp(1, size_ratio)
    }

    fn believed(&self) -> Believed {
        Believed::learn(self.learner, &self.constants, &self.space, &self.samples, self.seed)
    }

    /// The best of `choices` by what has been learned so far; of equal ones, the nearest to the
    /// closed forms.
    fn best(&self, choices: impl Iterator<Item = Knobs>) -> Knobs {
        let (believed, mix) = (self.believed(), self.mix());
        let priced = choices.map(|knobs| {
            let apart = self.space.apart(&mix, self.policy, &self.constants, &knobs);
            (believed.cost(&mix, &knobs), apart, knobs)
        });
        let least = priced.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        least.expect("there is a choice").2
    }

    /// The knob that was sampled is learned and fixed; the next one's samples, or the next mix.
    fn advance(&mut self) {
        let (space, constants) = (self.space, self.constants.clone());
        match self.at.1 {
            Stage::Ratio => {
                let fixed = self.fixed;
                let choices = (2..=space.ratio_max).flat_map(|size_ratio| {
                    runs_of(self.policy, size_ratio).map(move |runs| Knobs { size_ratio, runs, ..fixed })
                });
                self.fixed = self.best(choices);
                let form = space.bits_form(&self.mix(), self.fixed.size_ratio, 0.0);
                let most = space.bits_max(0.0) as u32;
                let bits = around(form.round() as u32, constants.bits_samples, 0, most);
                let fixed = self.fixed;
                self.queue = bits.map(|bits| Knobs { filter_bits: bits.into(), ..fixed }).collect();
                self.at.1 = Stage::Bits;
            }
            Stage::Bits => {
                let fixed = self.fixed;
                let bits = 0..=space.bits_max(0.0) as u32;
                self.fixed = self.best(bits.map(|bits| Knobs { filter_bits: bits.into(), ..fixed }));
                let fixed = self.fixed;
                let legal = |share: &f64| *share > 0.0 && fixed.filter_bits <= space.bits_max(*share);
                let shares = constants.cache_shares.into_iter().filter(legal).take(constants.cache_samples);
                self.queue = shares.map(|cache_share| Knobs { cache_share, ..fixed }).collect();
                self.at.1 = Stage::Cache;
            }
            Stage::Cache => {
                self.at.0 += 1;
                if self.at.0 < self.mixes.len() {
                    self.begin_mix();
                }
            }
        }
    }
}

impl Sampler for Decoupled {
    fn next(&mut self) -> Option<(Mix, Knobs)> {
        assert!(self.asked.is_none(), "the last choice has not been measured");
        while self.queue.is_empty() {
            if self.at.0 == self.mixes.len() {
                return None;
            }
            self.advance();
        }
        if self.at.0 == self.mixes.len() {
            return None;
        }
        self.asked = self.queue.pop_front();
        self.asked.map(|knobs| (self.mix(), knobs))
    }

    fn tell(&mut self, cost: f64) {
        assert!(cost.is_finite() && cost > 0.0, "a cost of {cost}");
        let knobs = self.asked.take().expect("a choice was asked for");
        self.samples.push(Sample { mix: self.mix(), knobs, cost });
    }

    fn samples(&self) -> &[Sample] {
        &self.samples
    }
}
