//! DobLIX's tuning agent: `Doblix`, Q-learning over index models and block sizes (DobLIX §III-F,
//! Algorithm 4; docs/PAPERS.md). It is rewarded for fast reads, and, if ν < 1, for a small index.
//!
//! A `State` is a model (PLA of one of four error bounds, or PRA) and a block size, 20 in all. An
//! action is one step up or down in either, or none. An episode ends with every 20 tables written.
//! `pretrain` learns from a sample. Unlike in the paper, latency and bytes count against their own
//! running mean and deviation. A layout gets credit for lookups in its own tables alone.
//!
//! What must hold: it steps up to no size beyond the first at which this machine takes much longer
//! for a read. Nothing is learned from a change that was forbidden, refused or undone. A memory of
//! other states is refused.
//! Callers: `agent::make`; `doblix_agent` and `learning` (`State`) in `solera-bench`'s `paper`.

use super::{Agent, Outcome, Proposal, Set, constants::DoblixConstants};
use crate::{
    cost::Units,
    learn::{Exploration, QTable, Random, Standard, elementary::tanh},
    sight::{LayoutSight, Window},
};
use serde::{Deserialize, Serialize};
use solera::control::knob;

/// Its name.
pub const NAME: &str = "doblix-qlearn";
/// Models: four error bounds of PLA, and PRA.
pub const MODELS: usize = 5;
/// Block sizes.
pub const SIZES: usize = 4;
/// States.
pub const STATES: usize = MODELS * SIZES;
const PLA: &str = "doblix-pla";
const PRA: &str = "doblix-pra";

/// The actions, the one that changes nothing first: of equal ones the first is taken.
const ACTIONS: [(isize, isize); 5] = [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)];

/// A layout that the agent can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Which model: 0 to 3 are error bounds of PLA, 4 is PRA.
    pub model: usize,
    /// Which block size.
    pub size: usize,
}

impl State {
    /// The state of this number.
    pub fn of(number: usize) -> State {
        State { model: number / SIZES, size: number % SIZES }
    }

    /// Its number, below [`STATES`].
    pub fn number(self) -> usize {
        self.model * SIZES + self.size
    }

    fn after(self, action: usize) -> Option<State> {
        let (model, size) = ACTIONS[action];
        let model = self.model.checked_add_signed(model).filter(|model| *model < MODELS)?;
        let size = self.size.checked_add_signed(size).filter(|size| *size < SIZES)?;
        Some(State { model, size })
    }
}

/// What it remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Memory {
    table: QTable,
    exploration: Exploration,
    random: Random,
    latency: Standard,
    index: Standard,
    /// The state before, and the action that was taken in it.
    before: Option<(usize, usize)>,
    episodes: u64,
    episode: Episode,
}

/// What was seen since the last episode ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Episode {
    tables: f64,
    /// Sum of the latencies of lookups that the present layout is credited with, and how many
    /// windows it is of.
    latency_ns: f64,
    windows: u64,
    /// Bytes of index for every entry, at the end.
    index_bytes: f64,
    searches: u64,
}

/// The agent.
#[derive(Clone, Debug)]
pub struct Doblix {
    constants: DoblixConstants,
    units: Units,
    /// Block sizes that it may ask for.
    sizes: usize,
    memory: Memory,
}

impl Doblix {
    /// An agent that has learned nothing, on a machine of these unit costs.
    pub fn new(constants: DoblixConstants, units: Units, seed: u64) -> Doblix {
        let DoblixConstants { rate, discount, explore_first, explore_least, explore_keep, .. } = constants;
        let memory = Memory {
            table: QTable::new(STATES, ACTIONS.len(), rate, discount),
            exploration: Exploration::new(explore_first, explore_least, explore_keep),
            random: Random::new(seed),
            latency: Standard::of_last(constants.baseline_episodes),
            index: Standard::of_last(constants.baseline_episodes),
            before: None,
            episodes: 0,
            episode: Episode::default(),
        };
        Doblix { sizes: sizes_bound(&constants, &units), constants, units, memory }
    }

    /// Learns from a sample what each state costs: `costs` are latency and bytes of index of each,
    /// measured on one per cent of the data.
    pub fn pretrain(&mut self, costs: &[(f64, f64); STATES]) {
        let (mut latency, mut index) = (Standard::of_all(), Standard::of_all());
        for (ns, bytes) in costs {
            latency.see(*ns);
            index.see(*bytes);
        }
        let mut state = State::of(self.memory.random.below(STATES));
        for _ in 0..self.constants.pretraining_steps {
            let actions = self.actions(state);
            let action = actions[self.memory.random.below(actions.len())];
            let next = state.after(action).expect("the action is possible");
            let (ns, bytes) = costs[next.number()];
            let reward = self.reward(latency.score(ns), index.score(bytes));
            let ahead = self.actions(next);
            self.memory.table.learn((state.number(), action), reward, next.number(), &ahead);
            state = next;
        }
        // What is known need not be found out again; the baseline of rewards is the real data's.
        let DoblixConstants { explore_pretrained, explore_least, explore_keep, .. } = self.constants;
        self.memory.exploration = Exploration::new(explore_pretrained, explore_least, explore_keep);
    }

    /// Episodes that have ended.
    pub fn episodes(&self) -> u64 {
        self.memory.episodes
    }

    /// The state that it holds for the best: the one whose best action is worth most.
    pub fn best(&self) -> State {
        let worth = |number: usize| {
            let state = State::of(number);
            self.memory.table.value(number, self.memory.table.best(number, &self.actions(state)))
        };
        let legal = (0..STATES).filter(|number| State::of(*number).size < self.sizes);
        State::of(legal.fold(0, |best, number| if worth(number) > worth(best) { number } else { best }))
    }

    /// How many block sizes it may ask for: up to the first at which a read's time grows with its
    /// size.
    pub fn sizes(&self) -> usize {
        self.sizes
    }

    /// The knobs of a state.
    pub fn sets(&self, state: State) -> Vec<Set> {
        let mut sets = vec![Set::new(&knob::BLOCK_BYTES, self.constants.block_bytes[state.size])];
        match self.constants.epsilons.get(state.model) {
            Some(epsilon) => sets.extend([Set::new(&knob::INDEX, PLA), Set::new(&knob::EPSILON, epsilon)]),
            None => sets.push(Set::new(&knob::INDEX, PRA)),
        }
        sets
    }

    fn reward(&self, latency: f64, index: f64) -> f64 {
        let share = self.constants.latency_share;
        -share * tanh(latency) - (1.0 - share) * tanh(index)
    }

    fn actions(&self, state: State) -> Vec<usize> {
        let is_legal = |action: &usize| state.after(*action).is_some_and(|next| next.size < self.sizes);
        let legal: Vec<usize> = (0..ACTIONS.len()).filter(is_legal).collect();
        // From a block that is too large, only the way back is open.
        if legal.is_empty() { vec![1] } else { legal }
    }

    /// The state that a window shows; `None` if its layout is none of the agent's.
    fn state(&self, window: &Window) -> Option<State> {
        let bytes = window.number(&knob::BLOCK_BYTES, None)?;
        let size = self.constants.block_bytes.iter().position(|size| f64::from(*size) == bytes)?;
        let model = match window.text(&knob::INDEX, None) {
            PLA => {
                let epsilon = window.number(&knob::EPSILON, None)?;
                self.constants.epsilons.iter().position(|of| f64::from(*of) == epsilon)?
            }
            PRA => MODELS - 1,
            _ => return None,
        };
        Some(State { model, size })
    }

    fn is_of(&self, state: State, layout: &LayoutSight) -> bool {
        let bytes = self.constants.block_bytes[state.size];
        let index = match self.constants.epsilons.get(state.model) {
            Some(epsilon) => layout.index == PLA && layout.epsilon == *epsilon,
            None => layout.index == PRA,
        };
        index && layout.block_bytes == bytes
    }

    /// What lookups in tables of a layout cost by what was counted, in nanoseconds for each.
    fn counted_ns<'a>(&self, layouts: impl Iterator<Item = &'a LayoutSight>) -> Option<f64> {
        let (mut searches, mut ns) = (0, 0.0);
        for layout in layouts {
            searches += layout.searches;
            let read = self.units.read_ns(layout.block_bytes.into()) + self.units.block_load_ns;
            ns += layout.blocks_read as f64 * read + layout.index_steps as f64 * self.units.block_find_ns;
        }
        (searches >= self.constants.searches_min).then(|| ns / searches as f64)
    }

    /// Mean time of a read of the window, with what lookups of the present layout cost in place of
    /// what all cost.
    fn credited_ns(&self, state: State, window: &Window) -> Option<f64> {
        let of = &window.operations;
        let counts = [of.absent, of.found, of.scans];
        let reads: u64 = counts.iter().sum();
        let own = self.counted_ns(window.layouts.iter().filter(|layout| self.is_of(state, layout)))?;
        let all = self.counted_ns(window.layouts.iter())?;
        let sum: f64 = counts.iter().zip(window.mean_ns).map(|(count, ns)| *count as f64 * ns).sum();
        (reads > 0 && sum > 0.0).then(|| (sum / reads as f64 + own - all).max(0.0))
    }
}

/// How many block sizes lie below or at the first at which a read's time grows as its size does.
fn sizes_bound(constants: &DoblixConstants, units: &Units) -> usize {
    let time = |size: usize| units.read_ns(constants.block_bytes[size].into()) + units.block_load_ns;
    let linear = |size: &usize| time(*size) > constants.linear_growth * time(size - 1);
    (1..SIZES).find(linear).unwrap_or(SIZES - 1) + 1
}

/// Tables that were written in a window, as their bytes tell.
fn tables_written(window: &Window) -> f64 {
    let tables: u64 = window.levels.iter().map(|level| level.tables).sum();
    let mean = window.table_bytes() as f64 / tables.max(1) as f64;
    let written = (window.bytes_flushed + window.bytes_compacted) as f64;
    if mean > 0.0 { written / mean } else { 0.0 }
}

impl Agent for Doblix {
    fn name(&self) -> &'static str {
        NAME
    }

    fn see(&mut self, window: &Window) {
        if window.drifted && window.is_judged() {
            self.memory.exploration.reset();
        }
        self.memory.episode.tables += tables_written(window);
        let Some(state) = self.state(window).filter(|_| window.is_judged()) else { return };
        if let Some(ns) = self.credited_ns(state, window) {
            let of_state = window.layouts.iter().filter(|layout| self.is_of(state, layout));
            let searches: u64 = of_state.map(|layout| layout.searches).sum();
            let episode = &mut self.memory.episode;
            episode.latency_ns += ns;
            episode.windows += 1;
            episode.searches += searches;
            episode.index_bytes = window.index_bytes as f64 / window.table_entries().max(1) as f64;
        }
    }

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        let Some(state) = self.state(window) else {
            // It begins where the paper does: with the first error bound and the smallest block.
            let sets = self.sets(State { model: 0, size: 0 });
            return Some(Proposal {
                sets,
                why: "the agent's first layout".into(),
                predicted: 1.0,
                settle: 1,
                once: 0.0,
            });
        };
        if self.memory.episode.tables < self.constants.episode_tables {
            return None;
        }
        let episode = std::mem::take(&mut self.memory.episode);
        self.memory.episodes += 1;
        let now = state.number();
        let actions = self.actions(state);
        if episode.windows > 0 {
            let latency = episode.latency_ns / episode.windows as f64;
            self.memory.latency.see(latency);
            self.memory.index.see(episode.index_bytes);
            let scores = (self.memory.latency.score(latency), self.memory.index.score(episode.index_bytes));
            let reward = self.reward(scores.0, scores.1);
            if let Some(before) = self.memory.before.take() {
                self.memory.table.learn(before, reward, now, &actions);
            }
        }
        let Memory { table, exploration, random, .. } = &mut self.memory;
        let action = exploration.choose(&actions, table.best(now, &actions), random);
        self.memory.before = Some((now, action));
        let next = state.after(action).filter(|next| *next != state)?;
        let (ratio, episode) = (self.memory.exploration.now(), self.memory.episodes);
        let why = format!("episode {episode}, exploring {:.0} %", ratio * 100.0);
        Some(Proposal { sets: self.sets(next), why, predicted: 1.0, settle: 1, once: 0.0 })
    }

    fn hear(&mut self, outcome: &Outcome) {
        // Where the action was not taken, there is nothing to learn from it.
        if matches!(outcome, Outcome::Forbidden { .. } | Outcome::Refused { .. } | Outcome::Undone { .. }) {
            self.memory.before = None;
        }
    }

    fn remember(&self) -> serde_json::Value {
        serde_json::to_value(&self.memory).expect("a memory has no keys that are not text")
    }

    fn restore(&mut self, memory: &serde_json::Value) -> Result<(), String> {
        if memory.is_null() {
            return Ok(());
        }
        let memory: Memory = serde_json::from_value(memory.clone()).map_err(|error| error.to_string())?;
        let in_range = |(state, action): (usize, usize)| state < STATES && action < ACTIONS.len();
        if !memory.table.is_like(&self.memory.table) || !memory.before.is_none_or(in_range) {
            return Err("a Q-table of other states".into());
        }
        self.memory = memory;
        Ok(())
    }
}
