//! What CAMAL has learned, and what it chooses by it (CAMAL §5, §7, §8): `Sample`, `Believed` and
//! `Tuned`.
//!
//! `Believed` is a regression of one policy's samples, by one of three `Learner`s. `Tuned` has one
//! for each policy that was sampled. `choose` takes the cheapest choice of all, for other scales by
//! Lemma 5.1; `choose_within` in the mean over mixes within ρ of one (`mixes_within`).
//!
//! What must hold: each sample counts by one over its cost, as in the authors' code. Of choices
//! that are believed to cost the same, the nearest to the closed forms is taken.
//! Callers: `camal`, `sampling`, and `solera-bench` (`camal_learned`, `camal_dynamic`, opponent
//! `plain`).

use super::{
    super::constants::CamalConstants,
    space::{Knobs, Policy, Space},
};
use crate::{
    cost::Mix,
    learn::{Kind, Random, Regression, elementary::ln},
};

/// Which model is learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learner {
    /// A weighted sum of the cost model's terms.
    Poly,
    /// Boosted trees.
    Trees,
    /// A network.
    Network,
}

impl Learner {
    /// All of them, with the names of the agents that use them.
    pub const ALL: [(&'static str, Learner); 3] =
        [("camal-poly", Learner::Poly), ("camal-trees", Learner::Trees), ("camal-nn", Learner::Network)];

    /// The name of the agent that uses it.
    pub fn agent(self) -> &'static str {
        Learner::ALL.iter().find(|(_, learner)| *learner == self).expect("all are listed").0
    }

    fn kind(self, constants: &CamalConstants) -> Kind {
        match self {
            Learner::Poly => Kind::Straight { penalty: constants.poly_penalty },
            Learner::Trees => Kind::Trees(constants.trees),
            Learner::Network => Kind::Network {
                layers: constants.network_layers,
                width: constants.network_width,
                epochs: constants.network_epochs,
                rate: constants.network_rate,
            },
        }
    }

    fn features(self, space: &Space, mix: &Mix, knobs: &Knobs) -> Vec<f64> {
        match self {
            Learner::Poly => space.terms(mix, knobs),
            Learner::Trees | Learner::Network => space.factors(mix, knobs),
        }
    }
}

/// A measured choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Under which mix.
    pub mix: Mix,
    /// What was chosen.
    pub knobs: Knobs,
    /// What an operation cost, in whatever unit is to be small. Positive.
    pub cost: f64,
}

/// A model of what choices cost.
#[derive(Clone, Debug)]
pub struct Believed {
    learner: Learner,
    space: Space,
    regression: Regression,
}

impl Believed {
    /// Learns from samples, of which there is at least one. Each counts by one over its cost, as in
    /// the authors' code.
    pub fn learn(
        learner: Learner,
        constants: &CamalConstants,
        space: &Space,
        samples: &[Sample],
        seed: u64,
    ) -> Believed {
        let of = |sample: &Sample| learner.features(space, &sample.mix, &sample.knobs);
        let rows: Vec<Vec<f64>> = samples.iter().map(of).collect();
        let costs: Vec<f64> = samples.iter().map(|sample| sample.cost).collect();
        let mean = costs.iter().sum::<f64>() / costs.len() as f64;
        let weights: Vec<f64> = costs.iter().map(|cost| mean / cost).collect();
        let regression = Regression::learn(learner.kind(constants), &rows, &costs, &weights, seed);
        Believed { learner, space: *space, regression }
    }

    /// What a choice is believed to cost.
    pub fn cost(&self, mix: &Mix, knobs: &Knobs) -> f64 {
        self.cost_in(&self.space, mix, knobs)
    }

    fn cost_in(&self, space: &Space, mix: &Mix, knobs: &Knobs) -> f64 {
        self.regression.predict(&self.learner.features(space, mix, knobs))
    }
}

/// What was learned, for all policies that were tried.
#[derive(Clone, Debug)]
pub struct Tuned {
    constants: CamalConstants,
    /// Of what was trained on.
    space: Space,
    policies: Vec<(Policy, Believed)>,
    seed: u64,
}

impl Tuned {
    /// Learns from each policy's samples, of which each has at least one.
    pub fn learn(
        learner: Learner,
        constants: &CamalConstants,
        space: &Space,
        samples: &[(Policy, &[Sample])],
        seed: u64,
    ) -> Tuned {
        let of = |(policy, samples): &(Policy, &[Sample])| {
            (*policy, Believed::learn(learner, constants, space, samples, seed))
        };
        let policies = samples.iter().map(of).collect();
        Tuned { constants: constants.clone(), space: *space, policies, seed }
    }

    /// The choice that is believed to cost least under `mix`, for so many entries and so much
    /// memory, and what it is believed to cost. The space that was trained on is taken to be k
    /// times smaller (Lemma 5.1): T, K, bits per key and shares of the memory stay, what is of the
    /// memory grows k times. Of choices that are believed to cost the same, as trees believe of all
    /// that lie beyond what was sampled, the nearest to the closed forms is taken.
    pub fn choose(&self, mix: &Mix, entries: f64, memory_bytes: f64) -> (Knobs, f64) {
        self.choose_for(&[*mix], entries, memory_bytes, |_| true)
    }

    /// The same where the mix may be any within `rho` of `mix` by their Kullback–Leibler
    /// divergence: the choice that costs least over mixes drawn from there, in the mean (§8.4).
    /// A choice is considered only if it is the best for one of these mixes. What others cost under
    /// the mixes was never sampled, and the least of many guesses is mostly a wrong one.
    pub fn choose_within(&self, mix: &Mix, rho: f64, entries: f64, memory_bytes: f64) -> (Knobs, f64) {
        let mixes = mixes_within(mix, rho, self.constants.uncertain_mixes, self.seed);
        let alone: Vec<Knobs> = mixes.iter().map(|mix| self.choose(mix, entries, memory_bytes).0).collect();
        self.choose_for(&mixes, entries, memory_bytes, |knobs| alone.contains(knobs))
    }

    fn choose_for(
        &self,
        mixes: &[Mix],
        entries: f64,
        memory_bytes: f64,
        is_considered: impl Fn(&Knobs) -> bool,
    ) -> (Knobs, f64) {
        let k = entries / self.space.entries;
        let space = Space { memory_bytes: memory_bytes / k, ..self.space };
        let mut best: Option<(Knobs, f64, f64)> = None;
        for (policy, believed) in &self.policies {
            let choices = space.choices(*policy, &self.constants);
            for knobs in choices.into_iter().filter(&is_considered) {
                let sum: f64 = mixes.iter().map(|mix| believed.cost_in(&space, mix, &knobs)).sum();
                let cost = sum / mixes.len() as f64;
                if best.is_some_and(|(_, least, _)| cost > least) {
                    continue;
                }
                let apart = space.apart(&mixes[0], *policy, &self.constants, &knobs);
                if best.is_none_or(|(_, least, nearest)| cost < least || apart < nearest) {
                    best = Some((knobs, cost, apart));
                }
            }
        }
        let (knobs, cost, _) = best.expect("there is a choice");
        (knobs, cost)
    }
}

/// Mixes within `rho` of one, that one first: drawn about it, ever nearer until they are near
/// enough.
pub fn mixes_within(mix: &Mix, rho: f64, count: usize, seed: u64) -> Vec<Mix> {
    let mut random = Random::new(seed);
    let mut mixes = vec![*mix];
    while mixes.len() < count.max(1) {
        let drawn: [f64; 4] = std::array::from_fn(|_| -ln(1.0 - random.unit()));
        let sum: f64 = drawn.iter().sum();
        let mut share = 1.0;
        let near = loop {
            let own = mix.shares();
            let between: [f64; 4] = std::array::from_fn(|i| own[i] + share * (drawn[i] / sum - own[i]));
            if divergence(&between, &own) <= rho {
                break between;
            }
            share /= 2.0;
        };
        let [absent, found, scan, write] = near;
        mixes.push(Mix { absent, found, scan, write });
    }
    mixes
}

/// Σ p ln(p/q). What q does not have at all, p may not have either: infinite.
fn divergence(p: &[f64; 4], q: &[f64; 4]) -> f64 {
    let part = |(p, q): (&f64, &f64)| match (*p, *q) {
        (0.0, _) => 0.0,
        (_, 0.0) => f64::INFINITY,
        (p, q) => p * ln(p / q),
    };
    p.iter().zip(q).map(part).sum::<f64>().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_about_one_lie_within_rho_of_it() {
        let mix = Mix::new([0.4, 0.3, 0.2, 0.1]).unwrap();
        for rho in [0.0, 0.1, 1.0] {
            let mixes = mixes_within(&mix, rho, 20, 3);
            assert_eq!((mixes.len(), mixes[0]), (20, mix));
            for other in &mixes {
                assert!(divergence(&other.shares(), &mix.shares()) <= rho + 1e-12);
                assert!((other.shares().iter().sum::<f64>() - 1.0).abs() < 1e-9);
            }
        }
        let spread = |rho| {
            let mixes = mixes_within(&mix, rho, 20, 3);
            mixes.iter().map(|of| (of.absent - 0.4).abs()).fold(0.0, f64::max)
        };
        assert!(spread(1.0) > spread(0.05) && spread(0.05) > 0.0);
    }
}
