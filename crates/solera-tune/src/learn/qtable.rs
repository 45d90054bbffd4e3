//! Tabular Q-learning (Watkins and Dayan, 1992): `QTable`, what each action in each state is worth,
//! and `Exploration`.
//!
//! `learn` moves a value towards the reward and what the next state's best action is worth.
//! `Exploration` is ε: how often an action is drawn at random instead of taking the best, less with
//! every step.
//!
//! What must hold: rewards are finite. Of equal actions the first is the best.
//!
//! Caller: `agent::doblix`.

use super::random::Random;
use serde::{Deserialize, Serialize};

/// What each action in each state is worth, as far as is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QTable {
    actions: usize,
    /// α: how far a value moves towards what was seen.
    rate: f64,
    /// γ: what a reward is worth one step later.
    discount: f64,
    values: Vec<f64>,
    visits: Vec<u32>,
}

impl QTable {
    /// A table of zeros.
    pub fn new(states: usize, actions: usize, rate: f64, discount: f64) -> QTable {
        assert!(states > 0 && actions > 0, "{states} states, {actions} actions");
        assert!((0.0..=1.0).contains(&rate) && (0.0..1.0).contains(&discount));
        QTable {
            actions,
            rate,
            discount,
            values: vec![0.0; states * actions],
            visits: vec![0; states * actions],
        }
    }

    /// Whether it has the states and actions of `other`, so that it can take its place.
    pub fn is_like(&self, other: &QTable) -> bool {
        (self.actions, self.values.len(), self.visits.len())
            == (other.actions, other.values.len(), other.visits.len())
            && self.values.iter().all(|value| value.is_finite())
    }

    /// What `action` in `state` is worth.
    pub fn value(&self, state: usize, action: usize) -> f64 {
        self.values[state * self.actions + action]
    }

    /// How often it was learned from.
    pub fn visits(&self, state: usize, action: usize) -> u32 {
        self.visits[state * self.actions + action]
    }

    /// The best of these actions in `state`, the first of equal ones. There is at least one.
    pub fn best(&self, state: usize, actions: &[usize]) -> usize {
        let better = |best: usize, &action: &usize| {
            if self.value(state, action) > self.value(state, best) { action } else { best }
        };
        actions[1..].iter().fold(actions[0], better)
    }

    /// Learns that `action` in `state` brought `reward` and led to `next`, where `actions` are
    /// possible.
    pub fn learn(&mut self, (state, action): (usize, usize), reward: f64, next: usize, actions: &[usize]) {
        assert!(reward.is_finite(), "a reward that is no number");
        let ahead = self.value(next, self.best(next, actions));
        let at = state * self.actions + action;
        self.values[at] += self.rate * (reward + self.discount * ahead - self.values[at]);
        self.visits[at] += 1;
    }
}

/// ε: how often an action is tried that is not the best, less with every step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exploration {
    /// At the beginning.
    pub first: f64,
    /// At the end.
    pub least: f64,
    /// What is left of it after a step.
    pub keep: f64,
    now: f64,
}

impl Exploration {
    /// From `first` to `least`, each step a share `keep` of the one before.
    pub fn new(first: f64, least: f64, keep: f64) -> Exploration {
        Exploration { first, least, keep, now: first }
    }

    /// What it is now.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Begins again.
    pub fn reset(&mut self) {
        self.now = self.first;
    }

    /// One of these actions: one at random as often as ε says, `best` otherwise. Then ε is less.
    pub fn choose(&mut self, actions: &[usize], best: usize, random: &mut Random) -> usize {
        let chosen = if random.unit() < self.now { actions[random.below(actions.len())] } else { best };
        self.now = (self.now * self.keep).max(self.least);
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::digest;

    const STATES: usize = 6;
    const ACTIONS: [usize; 2] = [0, 1];
    const DISCOUNT: f64 = 0.8;

    /// A corridor: 0 goes left for nothing, 1 goes right and costs 1; the right end pays 10 for
    /// each step right.
    fn step(state: usize, action: usize) -> (usize, f64) {
        match action {
            0 => (state.saturating_sub(1), 0.0),
            _ if state == STATES - 1 => (state, 10.0),
            _ => (state + 1, -1.0),
        }
    }

    /// What actions are worth, by going over all of them until nothing changes.
    fn optimum() -> Vec<f64> {
        let mut values = vec![0.0f64; STATES * 2];
        for _ in 0..500 {
            for at in 0..STATES * 2 {
                let (next, reward) = step(at / 2, at % 2);
                values[at] = reward + DISCOUNT * values[next * 2].max(values[next * 2 + 1]);
            }
        }
        values
    }

    fn learned(seed: u64) -> QTable {
        let mut random = Random::new(seed);
        let mut exploration = Exploration::new(0.99, 0.5, 0.999);
        let mut table = QTable::new(STATES, 2, 0.2, DISCOUNT);
        let mut state = 0;
        for n in 0..20_000 {
            if n % 50 == 0 {
                state = random.below(STATES);
            }
            let action = exploration.choose(&ACTIONS, table.best(state, &ACTIONS), &mut random);
            let (next, reward) = step(state, action);
            table.learn((state, action), reward, next, &ACTIONS);
            state = next;
        }
        table
    }

    #[test]
    fn it_finds_the_values_that_going_over_all_of_them_finds() {
        let (table, optimum) = (learned(3), optimum());
        for (at, best) in optimum.iter().enumerate() {
            let value = table.value(at / 2, at % 2);
            assert!((value - best).abs() < 0.05 * best.abs().max(1.0), "{at}: {value} for {best}");
            assert!(table.visits(at / 2, at % 2) > 0);
        }
        assert_eq!(table.best(0, &ACTIONS), 1);
    }

    #[test]
    fn exploration_falls_to_its_least_and_can_begin_again() {
        let mut exploration = Exploration::new(0.99, 0.02, 0.9);
        let mut random = Random::new(1);
        let tried = (0..50).filter(|_| exploration.choose(&[0, 1, 2], 0, &mut random) != 0).count();
        assert!((3..20).contains(&tried), "{tried}");
        assert_eq!(exploration.now(), 0.02);
        exploration.reset();
        assert_eq!(exploration.now(), 0.99);
    }

    #[test]
    fn it_gives_the_same_bits_on_every_processor() {
        assert_eq!(digest(learned(5).values), 0xf139_19ed_d81c_f0c6);
    }
}
