//! What was tried and what came of it, to be learned from again: `Replay` keeps the last
//! `Transition`s.
//!
//! A full memory replaces the oldest. `draw` shows one at random, all equally likely, with its
//! weight; it stays in the memory. `fade` lowers the weights of all that are there.
//!
//! What must hold: the numbers of a transition are finite (`keep` asserts it). `draw` needs at
//! least one. A memory that was read from bytes is used only after `is_like` has found its sizes
//! right.
//!
//! Callers: `ddpg` keeps one; `agent::lerp` makes the transitions.

use super::{bits, random::Random};
use serde::{Deserialize, Serialize};

/// One step: in `state` was done `action`; it brought `reward` and led to `next`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// What was seen.
    #[serde(with = "bits")]
    pub state: Vec<f32>,
    /// What was done.
    #[serde(with = "bits")]
    pub action: Vec<f32>,
    /// What it brought.
    pub reward: f32,
    /// What was seen then.
    #[serde(with = "bits")]
    pub next: Vec<f32>,
}

/// The last transitions, each with how much it counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    capacity: usize,
    /// Where the next goes once all places are taken.
    oldest: usize,
    kept: Vec<(Transition, f32)>,
}

impl Replay {
    /// An empty memory for `capacity` transitions.
    pub fn new(capacity: usize) -> Replay {
        assert!(capacity > 0, "a memory for nothing");
        Replay { capacity, oldest: 0, kept: Vec::new() }
    }

    /// Keeps a transition, in the place of the oldest where there is no other.
    pub fn keep(&mut self, transition: Transition) {
        let numbers = [&transition.state, &transition.action, &transition.next].into_iter().flatten();
        assert!(transition.reward.is_finite() && numbers.copied().all(f32::is_finite), "not finite");
        if self.kept.len() < self.capacity {
            self.kept.push((transition, 1.0));
        } else {
            self.kept[self.oldest] = (transition, 1.0);
            self.oldest = (self.oldest + 1) % self.capacity;
        }
    }

    /// Whether all of it has so many numbers of a state and of an action, and it has the room of
    /// `other`.
    pub fn is_like(&self, other: &Replay, state: usize, action: usize) -> bool {
        let is_whole = |(of, weight): &(Transition, f32)| {
            let lens = (of.state.len(), of.action.len(), of.next.len());
            lens == (state, action, state) && of.reward.is_finite() && weight.is_finite()
        };
        self.capacity == other.capacity
            && self.kept.len() <= self.capacity
            && self.oldest < self.capacity
            && self.kept.iter().all(is_whole)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Makes all that are there count `share` of what they did.
    pub fn fade(&mut self, share: f32) {
        self.kept.iter_mut().for_each(|(_, weight)| *weight *= share);
    }

    /// One of them at random, all equally likely, and how much it counts. There is one.
    pub fn draw(&self, random: &mut Random) -> (&Transition, f32) {
        let (transition, weight) = &self.kept[random.below(self.kept.len())];
        (transition, *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transition(reward: f32) -> Transition {
        Transition { state: vec![0.0], action: vec![0.0], reward, next: vec![0.0] }
    }

    #[test]
    fn the_oldest_make_room_and_what_is_old_counts_less() {
        let mut replay = Replay::new(3);
        assert!(replay.is_empty());
        (0..4).for_each(|n| replay.keep(transition(n as f32)));
        replay.fade(0.5);
        replay.keep(transition(4.0));
        let kept: Vec<(f32, f32)> = replay.kept.iter().map(|(of, weight)| (of.reward, *weight)).collect();
        assert_eq!((kept, replay.len()), (vec![(3.0, 0.5), (4.0, 1.0), (2.0, 0.5)], 3));
        let mut random = Random::new(1);
        let mut seen: Vec<i32> = (0..60).map(|_| replay.draw(&mut random).0.reward as i32).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [2, 3, 4]);
    }
}
