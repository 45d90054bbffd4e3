//! Deep deterministic policy gradient (Lillicrap et al., ICLR 2016): `Ddpg`, of `DdpgOptions`.
//!
//! An actor says what to do in a state (`act`), a critic what that is worth. `learn` draws a batch
//! from what `remember` kept: the critic learns from it, the actor follows the critic's slope. A
//! second pair follows both slowly; the critic's targets are made of it. `explore` is `act` with
//! noise, less each time, down to a least.
//!
//! What must hold: transitions have the sizes of the options. Before `warm` of them are kept,
//! `learn` does nothing. After `shift` the noise is at its first again and memories count half.
//!
//! Caller: `agent::lerp`.

use super::{
    network::{Adam, Network, Output, Trace},
    random::Random,
    replay::{Replay, Transition},
};
use serde::{Deserialize, Serialize};

/// What the last layers' weights begin within: DDPG's own.
const LAST_WEIGHTS: f32 = 3e-3;

/// The sizes and rates of a learner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DdpgOptions {
    /// Numbers of a state.
    pub state: usize,
    /// Numbers of an action, each from −1 to 1.
    pub action: usize,
    /// Units of each hidden layer, of the actor and of the critic.
    pub hidden: Vec<usize>,
    /// Adam's rate for the actor.
    pub actor_rate: f32,
    /// Adam's rate for the critic.
    pub critic_rate: f32,
    /// γ: what a reward is worth one step later.
    pub discount: f32,
    /// τ: how far the second pair follows in a step.
    pub follow: f32,
    /// Transitions that a step learns from; one may be among them twice.
    pub batch: usize,
    /// Transitions without which nothing is learned.
    pub warm: usize,
    /// Transitions that are remembered.
    pub memory: usize,
    /// Deviation of the noise that is added to actions: at first, at the end.
    pub noise: (f32, f32),
    /// What is left of the noise after a step.
    pub noise_keep: f32,
    /// Farthest that a reward counts from the centre, in units of the spread.
    pub reward_max: f32,
    /// What the square of an action costs the actor, in units of the spread: where the critic sees
    /// no difference, nothing is done.
    pub action_price: f32,
}

/// What a step learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learned {
    /// Mean distance of the critic from its targets.
    pub surprise: f32,
    /// Mean size of the targets.
    pub size: f32,
}

/// The learner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ddpg {
    options: DdpgOptions,
    actor: Network,
    critic: Network,
    /// The pair that follows.
    slow_actor: Network,
    slow_critic: Network,
    actor_adam: Adam,
    critic_adam: Adam,
    replay: Replay,
    noise: f32,
    random: Random,
}

impl Ddpg {
    /// A learner that knows nothing.
    pub fn new(options: DdpgOptions, seed: u64) -> Ddpg {
        assert!(options.batch > 0, "a step that learns from nothing");
        let mut random = Random::new(seed);
        let sizes = |inputs: usize, outputs: usize| {
            [inputs].into_iter().chain(options.hidden.iter().copied()).chain([outputs]).collect::<Vec<_>>()
        };
        let actor =
            Network::new(&sizes(options.state, options.action), Output::Tanh, LAST_WEIGHTS, &mut random);
        let critic = Network::new(
            &sizes(options.state + options.action, 1),
            Output::Linear,
            LAST_WEIGHTS,
            &mut random,
        );
        Ddpg {
            actor_adam: Adam::new(&actor, options.actor_rate),
            critic_adam: Adam::new(&critic, options.critic_rate),
            slow_actor: actor.clone(),
            slow_critic: critic.clone(),
            replay: Replay::new(options.memory),
            noise: options.noise.0,
            options,
            actor,
            critic,
            random,
        }
    }

    /// What the actor does in `state`.
    pub fn act(&self, state: &[f32]) -> Vec<f32> {
        self.actor.forward(state)
    }

    /// The same with noise, of which there is less each time.
    pub fn explore(&mut self, state: &[f32]) -> Vec<f32> {
        let mut action = self.act(state);
        for part in &mut action {
            *part = (*part + self.noise * self.random.normal() as f32).clamp(-1.0, 1.0);
        }
        self.noise = (self.noise * self.options.noise_keep).max(self.options.noise.1);
        action
    }

    /// What the critic holds `action` in `state` for.
    pub fn worth(&self, state: &[f32], action: &[f32]) -> f32 {
        self.critic.forward(&joined(state, action))[0]
    }

    /// The deviation of the noise now.
    pub fn noise(&self) -> f32 {
        self.noise
    }

    /// The world has changed: the noise is at its first again, and what is remembered counts half.
    pub fn shift(&mut self) {
        self.noise = self.options.noise.0;
        self.replay.fade(0.5);
    }

    /// Whether it has the sizes of `other`, so that it can take its place.
    pub fn is_like(&self, other: &Ddpg) -> bool {
        let DdpgOptions { state, action, .. } = other.options;
        self.options == other.options
            && [&self.actor, &self.slow_actor].iter().all(|network| network.is_like(&other.actor))
            && [&self.critic, &self.slow_critic].iter().all(|network| network.is_like(&other.critic))
            && self.actor_adam.is_of(&other.actor)
            && self.critic_adam.is_of(&other.critic)
            && self.replay.is_like(&other.replay, state, action)
            && self.noise.is_finite()
    }

    /// Remembers a transition. Its reward may be in any unit: [`Ddpg::learn`] is told the unit.
    pub fn remember(&mut self, transition: Transition) {
        assert_eq!(
            (transition.state.len(), transition.action.len()),
            (self.options.state, self.options.action)
        );
        self.replay.keep(transition);
    }

    /// One step of both networks, from a batch; `None` as long as too little is remembered.
    /// Rewards count as their distance from `centre`, in units of `spread`.
    pub fn learn(&mut self, centre: f32, spread: f32) -> Option<Learned> {
        if self.replay.len() < self.options.warm.max(1) {
            return None;
        }
        let batch: Vec<(Transition, f32)> = (0..self.options.batch)
            .map(|_| self.replay.draw(&mut self.random))
            .map(|(of, weight)| {
                let most = self.options.reward_max;
                let reward = ((of.reward - centre) / spread).clamp(-most, most);
                (Transition { reward, ..of.clone() }, weight)
            })
            .collect();
        let learned = self.learn_critic(&batch);
        self.learn_actor(&batch);
        self.slow_actor.approach(&self.actor, self.options.follow);
        self.slow_critic.approach(&self.critic, self.options.follow);
        Some(learned)
    }

    fn learn_critic(&mut self, batch: &[(Transition, f32)]) -> Learned {
        let mut trace = Trace::default();
        let (mut surprise, mut size) = (0.0, 0.0);
        let mut gradient = self.critic.no_gradient();
        for (of, weight) in batch {
            let then = self.slow_actor.forward(&of.next);
            let ahead = self.slow_critic.forward(&joined(&of.next, &then))[0];
            let target = of.reward + self.options.discount * ahead;
            self.critic.trace(&joined(&of.state, &of.action), &mut trace);
            let error = trace.output()[0] - target;
            (surprise, size) = (surprise + error.abs(), size + target.abs());
            self.critic.backward(&trace, &[2.0 * weight * error], &mut gradient);
        }
        let share = 1.0 / batch.len() as f32;
        self.critic_adam.step(&mut self.critic, &gradient, share);
        Learned { surprise: surprise * share, size: size * share }
    }

    fn learn_actor(&mut self, batch: &[(Transition, f32)]) {
        let (mut of_actor, mut of_critic) = (Trace::default(), Trace::default());
        let mut gradient = self.actor.no_gradient();
        for (of, weight) in batch {
            self.actor.trace(&of.state, &mut of_actor);
            self.critic.trace(&joined(&of.state, of_actor.output()), &mut of_critic);
            // Up the critic's slope is down its negative's.
            let mut slopes = self.critic.slopes(&of_critic, &[-weight]);
            let slopes = &mut slopes[self.options.state..];
            if self.options.action_price > 0.0 {
                let prices =
                    of_actor.output().iter().map(|part| 2.0 * weight * self.options.action_price * part);
                slopes.iter_mut().zip(prices).for_each(|(slope, price)| *slope += price);
            }
            self.actor.backward(&of_actor, slopes, &mut gradient);
        }
        self.actor_adam.step(&mut self.actor, &gradient, 1.0 / batch.len() as f32);
    }
}

fn joined(state: &[f32], action: &[f32]) -> Vec<f32> {
    [state, action].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::digest;

    fn options() -> DdpgOptions {
        DdpgOptions {
            state: 1,
            action: 1,
            hidden: vec![32, 32],
            actor_rate: 1e-3,
            critic_rate: 3e-3,
            discount: 0.9,
            follow: 0.02,
            batch: 32,
            warm: 32,
            memory: 5_000,
            noise: (0.4, 0.05),
            noise_keep: 0.998,
            reward_max: f32::MAX,
            action_price: 0.0,
        }
    }

    /// A cart on a line: an action moves it by a fifth, and being away from 0 costs the square. The
    /// best is to go to 0 at once: −5 x where that is legal.
    fn drive(steps: usize, seed: u64) -> Ddpg {
        let mut ddpg = Ddpg::new(options(), seed);
        let mut places = Random::new(seed + 1);
        let mut x = 0.5f32;
        for n in 0..steps {
            if n % 20 == 0 {
                x = 2.0 * places.unit() as f32 - 1.0;
            }
            let action = ddpg.explore(&[x]);
            let next = (x + 0.2 * action[0]).clamp(-1.0, 1.0);
            let reward = -next * next;
            ddpg.remember(Transition { state: vec![x], action, reward, next: vec![next] });
            ddpg.learn(0.0, 1.0);
            x = next;
        }
        ddpg
    }

    #[test]
    fn a_cart_is_driven_to_the_middle() {
        let ddpg = drive(3_000, 1);
        for x in [-0.8f32, -0.4, 0.4, 0.8] {
            let best = (-5.0 * x).clamp(-1.0, 1.0);
            let action = ddpg.act(&[x])[0];
            assert!((action - best).abs() < 0.25, "{x}: {action} instead of {best}");
        }
        assert!(ddpg.worth(&[0.5], &[-1.0]) > ddpg.worth(&[0.5], &[1.0]));
        assert!(ddpg.noise() <= 0.0501);
    }

    #[test]
    fn a_change_of_the_world_brings_the_noise_back() {
        let mut ddpg = Ddpg::new(options(), 1);
        (0..2_000).for_each(|_| drop(ddpg.explore(&[0.0])));
        assert!(ddpg.noise() < 0.06);
        ddpg.shift();
        assert_eq!(ddpg.noise(), 0.4);
        assert_eq!(ddpg.learn(0.0, 1.0), None);
    }

    #[test]
    fn what_was_remembered_goes_on_as_what_was_not() {
        let mut ddpg = drive(100, 3);
        let text = serde_json::to_string(&ddpg).unwrap();
        let mut back: Ddpg = serde_json::from_str(&text).unwrap();
        assert!(back == ddpg && back.is_like(&Ddpg::new(options(), 9)));
        for of in [&mut ddpg, &mut back] {
            (0..5).for_each(|_| assert!(of.learn(0.0, 1.0).is_some()));
        }
        assert_eq!(ddpg.explore(&[0.3]), back.explore(&[0.3]));
        let other = Ddpg::new(DdpgOptions { hidden: vec![8], ..options() }, 1);
        assert!(!back.is_like(&other));
    }

    #[test]
    fn it_gives_the_same_bits_on_every_processor() {
        let ddpg = drive(200, 2);
        let weights = ddpg.actor.weights().chain(ddpg.slow_critic.weights());
        assert_eq!(digest(weights.map(f64::from)), 0x0e38_1d7f_2058_fb83);
    }
}
