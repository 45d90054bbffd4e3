//! Sampling for CAMAL's models without its guidance (CAMAL §8.1), all knobs at once: `Grid`,
//! `PlainActive`, `Bayes`.
//!
//! `Grid` takes the same choices for every mix. `PlainActive` begins at random and goes where the
//! model learned so far sends it. `Bayes` is Bayesian optimisation of each mix for itself, by a
//! Gaussian process.
//!
//! What must hold: each asks for so many samples of each mix and no more, as a `Sampler` does.
//!
//! Caller: `paper::camal_learned`, beside CAMAL's decoupled sampling.

use solera_tune::{
    agent::{
        camal::{Believed, Knobs, Learner, Policy, Sample, Sampler, Space},
        constants::CamalConstants,
    },
    cost::Mix,
    learn::{Process, Random},
};

/// What all of them know.
#[derive(Clone, Debug)]
struct Sampling {
    choices: Vec<Knobs>,
    space: Space,
    mixes: Vec<Mix>,
    /// Samples of each mix.
    budget: usize,
    samples: Vec<Sample>,
    asked: Option<(Mix, Knobs)>,
}

impl Sampling {
    fn new(space: Space, constants: &CamalConstants, mixes: &[Mix], budget: usize) -> Sampling {
        assert!(budget > 0 && !mixes.is_empty(), "there is nothing to sample");
        let choices = space.choices(Policy::Leveling, constants);
        Sampling { choices, space, mixes: mixes.to_vec(), budget, samples: Vec::new(), asked: None }
    }

    /// Which mix is sampled now, and how often it has been; `None` at the end.
    fn place(&self) -> Option<(Mix, usize)> {
        let (mix, done) = (self.samples.len() / self.budget, self.samples.len() % self.budget);
        self.mixes.get(mix).map(|mix| (*mix, done))
    }

    fn of_mix(&self, mix: &Mix) -> Vec<&Sample> {
        self.samples.iter().filter(|sample| sample.mix == *mix).collect()
    }

    fn ask(&mut self, mix: Mix, knobs: Knobs) -> Option<(Mix, Knobs)> {
        self.asked = Some((mix, knobs));
        self.asked
    }

    fn tell(&mut self, cost: f64) {
        let (mix, knobs) = self.asked.take().expect("a choice was asked for");
        self.samples.push(Sample { mix, knobs, cost });
    }
}

/// Evenly spread choices.
#[derive(Clone, Debug)]
pub struct Grid(Sampling);

impl Grid {
    /// So many samples for each mix.
    pub fn new(space: Space, constants: &CamalConstants, mixes: &[Mix], budget: usize) -> Grid {
        Grid(Sampling::new(space, constants, mixes, budget))
    }
}

impl Sampler for Grid {
    fn next(&mut self) -> Option<(Mix, Knobs)> {
        let (mix, done) = self.0.place()?;
        let at = (2 * done + 1) * self.0.choices.len() / (2 * self.0.budget);
        self.0.ask(mix, self.0.choices[at])
    }

    fn tell(&mut self, cost: f64) {
        self.0.tell(cost);
    }

    fn samples(&self) -> &[Sample] {
        &self.0.samples
    }
}

/// Active learning over the whole space.
#[derive(Clone, Debug)]
pub struct PlainActive {
    sampling: Sampling,
    learner: Learner,
    constants: CamalConstants,
    random: Random,
    seed: u64,
}

/// Samples that are drawn before a model says where to go.
const RANDOM_FIRST: usize = 3;

impl PlainActive {
    /// So many samples for each mix, with the model of `learner`.
    pub fn new(
        learner: Learner,
        space: Space,
        constants: &CamalConstants,
        mixes: &[Mix],
        budget: usize,
        seed: u64,
    ) -> PlainActive {
        let sampling = Sampling::new(space, constants, mixes, budget);
        PlainActive { sampling, learner, constants: constants.clone(), random: Random::new(seed), seed }
    }
}

impl Sampler for PlainActive {
    fn next(&mut self) -> Option<(Mix, Knobs)> {
        let (mix, done) = self.sampling.place()?;
        let choices = &self.sampling.choices;
        if done < RANDOM_FIRST {
            let knobs = choices[self.random.below(choices.len())];
            return self.sampling.ask(mix, knobs);
        }
        let (space, samples) = (&self.sampling.space, &self.sampling.samples);
        let believed = Believed::learn(self.learner, &self.constants, space, samples, self.seed);
        let seen = self.sampling.of_mix(&mix);
        let new = choices.iter().filter(|knobs| seen.iter().all(|sample| sample.knobs != **knobs));
        let priced = new.map(|knobs| (believed.cost(&mix, knobs), *knobs));
        let best = priced.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(choices[0], |(_, knobs)| knobs);
        self.sampling.ask(mix, best)
    }

    fn tell(&mut self, cost: f64) {
        self.sampling.tell(cost);
    }

    fn samples(&self) -> &[Sample] {
        &self.sampling.samples
    }
}

/// Bayesian optimisation: a Gaussian process for each mix, and what it expects to improve most.
#[derive(Clone, Debug)]
pub struct Bayes {
    sampling: Sampling,
    random: Random,
}

impl Bayes {
    /// So many samples for each mix.
    pub fn new(space: Space, constants: &CamalConstants, mixes: &[Mix], budget: usize, seed: u64) -> Bayes {
        Bayes { sampling: Sampling::new(space, constants, mixes, budget), random: Random::new(seed) }
    }

    fn point(&self, knobs: &Knobs) -> Vec<f64> {
        let space = &self.sampling.space;
        let ratio = f64::from(knobs.size_ratio - 2) / f64::from((space.ratio_max - 2).max(1));
        vec![ratio, knobs.filter_bits / space.bits_max(0.0).max(1.0), knobs.cache_share]
    }
}

impl Sampler for Bayes {
    fn next(&mut self) -> Option<(Mix, Knobs)> {
        let (mix, done) = self.sampling.place()?;
        let choices = self.sampling.choices.clone();
        if done < RANDOM_FIRST {
            let knobs = choices[self.random.below(choices.len())];
            return self.sampling.ask(mix, knobs);
        }
        let seen = self.sampling.of_mix(&mix);
        let points: Vec<Vec<f64>> = seen.iter().map(|sample| self.point(&sample.knobs)).collect();
        let costs: Vec<f64> = seen.iter().map(|sample| sample.cost).collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let process = Process::fit(&points, &costs);
        let gain = |knobs: &Knobs| process.improvement(&self.point(knobs), least);
        let priced = choices.iter().map(|knobs| (gain(knobs), *knobs));
        let best = priced.max_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a choice").1;
        self.sampling.ask(mix, best)
    }

    fn tell(&mut self, cost: f64) {
        self.sampling.tell(cost);
    }

    fn samples(&self) -> &[Sample] {
        &self.sampling.samples
    }
}
