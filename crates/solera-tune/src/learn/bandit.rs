//! A choice among arms whose rewards change slowly: `Bandit` has what is known of each arm,
//! `Policy` is how one is chosen.
//!
//! Discounted UCB (Garivier and Moulines, 2011) takes the arm that could be best. Thompson's policy
//! takes each as often as it is likely to be best. Old rewards count less (`keep`, `fade`).
//!
//! What must hold: a legal arm that was never tried, or whose rewards have faded, is chosen first.
//! Rewards are finite. The same rewards and seed give the same choices.
//!
//! Caller: the opponent in `crates/solera-bench/src/opponent/arms.rs`, with UCB. No agent of this
//! crate.

use super::{elementary::ln, random::Random};
use serde::{Deserialize, Serialize};

/// How an arm is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Policy {
    /// The highest mean with a bonus for what is not known, in units of the rewards' deviation.
    Ucb {
        /// How large the bonus is; 2 in the theory, less in practice.
        bonus: f64,
    },
    /// The highest of one draw for each arm.
    Thompson,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Arm {
    weight: f64,
    sum: f64,
    squares: f64,
}

impl Arm {
    fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }
}

/// What is known about each arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bandit {
    policy: Policy,
    /// What is left of a reward's weight when the next comes.
    keep: f64,
    arms: Vec<Arm>,
}

impl Bandit {
    /// Of `arms` arms, none of which was tried; a reward's weight is a share `keep` with each one
    /// after it.
    pub fn new(arms: usize, keep: f64, policy: Policy) -> Bandit {
        assert!(arms > 0 && keep > 0.0 && keep <= 1.0, "{arms} arms, {keep} kept");
        Bandit { policy, keep, arms: vec![Arm::default(); arms] }
    }

    /// Whether it has the arms of `other`, so that it can take its place.
    pub fn is_like(&self, other: &Bandit) -> bool {
        let is_finite =
            |arm: &Arm| [arm.weight, arm.sum, arm.squares].iter().all(|number| number.is_finite());
        (self.policy, self.keep, self.arms.len()) == (other.policy, other.keep, other.arms.len())
            && self.arms.iter().all(is_finite)
    }

    /// Mean reward of an arm, what is old counting less; 0 if it was never tried.
    pub fn mean(&self, arm: usize) -> f64 {
        self.arms[arm].mean()
    }

    /// How much of an arm's rewards still counts.
    pub fn weight(&self, arm: usize) -> f64 {
        self.arms[arm].weight
    }

    /// Deviation of rewards about their arm's mean, over all arms.
    fn deviation(&self) -> f64 {
        let sum = |of: fn(&Arm) -> f64| self.arms.iter().map(of).sum::<f64>();
        let about = sum(|arm| arm.squares - arm.sum * arm.mean());
        let weight = sum(|arm| arm.weight);
        if weight > 0.0 { (about / weight).max(0.0).sqrt() } else { 0.0 }
    }

    /// The arm to try next, of `legal` ones: one that has not been tried if there is one.
    pub fn choose(&self, legal: &[usize], random: &mut Random) -> usize {
        assert!(!legal.is_empty(), "there is no arm to choose");
        // What has faded to nothing is as good as never tried.
        const TRIED: f64 = 1e-3;
        if let Some(new) = legal.iter().find(|arm| self.arms[**arm].weight < TRIED) {
            return *new;
        }
        let deviation = self.deviation();
        let all: f64 = self.arms.iter().map(|arm| arm.weight).sum();
        let mut best = (f64::NEG_INFINITY, legal[0]);
        for &number in legal {
            let arm = &self.arms[number];
            let score = arm.mean()
                + match self.policy {
                    Policy::Ucb { bonus } => bonus * deviation * (ln(all.max(1.0)) / arm.weight).sqrt(),
                    Policy::Thompson => deviation / arm.weight.sqrt() * random.normal(),
                };
            if score > best.0 {
                best = (score, number);
            }
        }
        best.1
    }

    /// Learns that `arm` brought `reward`.
    pub fn learn(&mut self, arm: usize, reward: f64) {
        assert!(reward.is_finite(), "a reward that is no number");
        for arm in &mut self.arms {
            *arm = Arm {
                weight: arm.weight * self.keep,
                sum: arm.sum * self.keep,
                squares: arm.squares * self.keep,
            };
        }
        let arm = &mut self.arms[arm];
        arm.weight += 1.0;
        arm.sum += reward;
        arm.squares += reward * reward;
    }

    /// Makes all that was learned count `share` of what it did.
    pub fn fade(&mut self, share: f64) {
        for arm in &mut self.arms {
            *arm = Arm { weight: arm.weight * share, sum: arm.sum * share, squares: arm.squares * share };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::digest;

    const ARMS: [usize; 3] = [0, 1, 2];
    const POLICIES: [Policy; 2] = [Policy::Ucb { bonus: 1.0 }, Policy::Thompson];

    /// How often each arm is chosen in 500 rounds after the change at 500, where the best arm was
    /// the last and is the first from there on.
    fn choices(policy: Policy) -> [u32; 3] {
        let (mut random, mut bandit) = (Random::new(11), Bandit::new(3, 0.98, policy));
        let mut counts = [0; 3];
        for round in 0..1000 {
            let arm = bandit.choose(&ARMS, &mut random);
            let means = if round < 500 { [1.0, 2.0, 3.0] } else { [4.0, 2.0, 3.0] };
            bandit.learn(arm, means[arm] + 0.3 * random.normal());
            if round >= 500 {
                counts[arm] += 1;
            }
        }
        counts
    }

    #[test]
    fn the_best_arm_is_found_again_when_another_has_become_it() {
        for policy in POLICIES {
            let [first, second, third] = choices(policy);
            assert!(first > 300 && second < 100, "{policy:?}: {first}, {second}, {third}");
        }
    }

    #[test]
    fn what_was_not_tried_comes_first_and_what_is_not_legal_never() {
        let mut bandit = Bandit::new(3, 0.9, Policy::Ucb { bonus: 1.0 });
        let mut random = Random::new(1);
        assert_eq!(bandit.choose(&[1, 2], &mut random), 1);
        bandit.learn(1, 5.0);
        assert_eq!(bandit.choose(&[1, 2], &mut random), 2);
        bandit.learn(2, 1.0);
        assert_eq!((bandit.choose(&[1, 2], &mut random), bandit.mean(1), bandit.mean(0)), (1, 5.0, 0.0));
        bandit.fade(1e-6);
        assert!(bandit.weight(1) < 1e-5 && (bandit.mean(1) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn it_gives_the_same_bits_on_every_processor() {
        let counts = POLICIES.map(choices).concat();
        assert_eq!(digest(counts.into_iter().map(f64::from)), 0x0f0f_7e65_9ef0_2671);
    }
}
