//! RusKey's tuning model: `Lerp` learns run limits level by level (RusKey §5, §7; docs/PAPERS.md,
//! "RusKey").
//!
//! A model of actor and critic (`learn::ddpg`) learns one level's K from missions, which are
//! windows. An action is K − 1, K or K + 1; the reward is what the level and the whole cost,
//! negated. `Scheme` says which levels learn, and what follows for the others (`infer`, Lemma 5.1).
//!
//! What must hold: level 0's K is never set. Once all is found, it rests until the workload shifts,
//! and learns again with what it knows. Blocked windows do not count.
//! Callers: `agent::make` (with Monkey's filters), and the page `lerp` of `solera-bench`.

use super::{Agent, Outcome, Proposal, Set, constants::LerpConstants};
use crate::{
    cost::{Units, forms::ruskey, units::PAGE_BYTES},
    learn::{Ddpg, DdpgOptions, MixShift, Standard, Transition, elementary::ln},
    sight::{Goal, LevelSight, Window},
};
use serde::{Deserialize, Serialize};
use solera::control::knob;
use std::collections::VecDeque;

/// Its name.
pub const NAME: &str = "ruskey-lerp";
/// Numbers of a level's state.
const LEVEL_FEATURES: usize = 6;
/// Those of them that are seen as distances from their mean.
const SCORED: usize = 4;
/// Outputs of the actor below and above which K changes: three equal parts of −1 to 1.
const ACTION_EDGE: f32 = 1.0 / 3.0;
/// Levels that the joint model has outputs for.
const JOINT_LEVELS: u32 = 4;

/// What is learned, and what is concluded from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// Level 1 is learned; where filters have the same bits in all levels, the others want the same
    /// (§5.2.1).
    Uniform,
    /// Levels 1 and 2 are learned, one after the other; with Monkey's filters the others follow
    /// from Lemma 5.1 (§5.2.2).
    Monkey,
    /// Every level is learned, one after the other: the paper's second brute-force variant (§7).
    EveryLevel,
    /// All levels are learned at once by one model: its first (§7).
    Joint,
}

/// A model, and what it waits to hear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Model {
    ddpg: Ddpg,
    /// Mean and deviation of the costs since the last shift.
    costs: Standard,
    /// What was seen and done when it decided last.
    pending: Option<(Vec<f32>, Vec<f32>)>,
    /// Latencies of the level and of the whole in the missions since then: their sums and number.
    since: (f64, f64, u32),
    /// Latencies of the level and of the whole since the last shift.
    parts: [Standard; 2],
    /// What each is measured in, and how far the whole's may be from 1; `None` until there were
    /// enough missions to know.
    scale: Option<[f64; 3]>,
    /// What was done until then, and what came of it.
    waiting: Vec<(Vec<Transition>, [f64; 2])>,
    /// K of its levels in the last missions.
    recent: VecDeque<Vec<u32>>,
    /// How far the critic was from its targets in the last update, as a share of what a mission
    /// costs, and missions that it learned from.
    surprise: f32,
    missions: u64,
}

/// What it remembers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Memory {
    models: Vec<Model>,
    /// Means and deviations of what states are made of.
    features: Vec<Standard>,
    /// Which model learns; as many as there are when all have.
    turn: usize,
    /// K that was found, level by level.
    found: Vec<u32>,
    /// Whether what was learned has been propagated.
    propagated: bool,
    /// Whether the mix is still the one that is learned for.
    mix: MixShift,
    missions: u64,
}

/// The agent.
#[derive(Clone, Debug)]
pub struct Lerp {
    constants: LerpConstants,
    units: Units,
    goal: Goal,
    scheme: Scheme,
    seed: u64,
    memory: Memory,
}

impl Lerp {
    /// An agent that has learned nothing, on a machine of these unit costs.
    pub fn new(constants: LerpConstants, units: Units, goal: Goal, scheme: Scheme, seed: u64) -> Lerp {
        let memory = Memory {
            models: Vec::new(),
            features: vec![Standard::of_all(); SCORED],
            turn: 0,
            found: Vec::new(),
            propagated: false,
            mix: MixShift::new(constants.shift),
            missions: 0,
        };
        let mut lerp = Lerp { constants, units, goal, scheme, seed, memory };
        let first = match scheme {
            Scheme::Uniform | Scheme::EveryLevel | Scheme::Joint => 1,
            Scheme::Monkey => 2,
        };
        (0..first).for_each(|_| lerp.add_model());
        lerp
    }

    /// Missions that it has seen.
    pub fn missions(&self) -> u64 {
        self.memory.missions
    }

    /// Whether it has learned what it wanted to, and told the other levels.
    pub fn has_settled(&self) -> bool {
        self.memory.propagated
    }

    /// Numbers of one action: levels that one model turns.
    fn width(&self) -> usize {
        if self.scheme == Scheme::Joint { JOINT_LEVELS as usize } else { 1 }
    }

    fn add_model(&mut self) {
        let LerpConstants { hidden, actor_rate, critic_rate, discount, follow, .. } = self.constants.clone();
        let LerpConstants { batch, warm, memory, noise, noise_keep, action_price, .. } = self.constants;
        let width = self.width();
        let options = DdpgOptions {
            state: LEVEL_FEATURES * width + 1,
            action: width,
            hidden,
            actor_rate,
            critic_rate,
            discount,
            follow,
            batch,
            warm,
            memory,
            noise,
            noise_keep,
            reward_max: f32::MAX,
            action_price,
        };
        let seed = self.seed.wrapping_add(self.memory.models.len() as u64);
        self.memory.models.push(Model {
            ddpg: Ddpg::new(options, seed),
            costs: Standard::of_all(),
            pending: None,
            since: (0.0, 0.0, 0),
            parts: [Standard::of_all(), Standard::of_all()],
            scale: None,
            waiting: Vec::new(),
            recent: VecDeque::new(),
            surprise: f32::MAX,
            missions: 0,
        });
    }

    /// The levels that model `number` turns.
    fn levels(&self, number: usize) -> Vec<u32> {
        match self.scheme {
            Scheme::Joint => (1..=JOINT_LEVELS).collect(),
            _ => vec![number as u32 + 1],
        }
    }

    /// What a level's reads and merges cost in a window by what was counted, in nanoseconds.
    fn level_ns(&self, window: &Window, level: &LevelSight) -> f64 {
        let units = &self.units;
        let block = window.number(&knob::BLOCK_BYTES, None).unwrap_or(PAGE_BYTES);
        let read = units.read_ns(block) + units.block_load_ns;
        level.tables_probed as f64 * units.run_probe_ns
            + level.blocks_probed as f64 * units.block_find_ns
            + (level.lookup_blocks_read + level.scan_blocks_read) as f64 * read
            + level.bytes_in as f64 / PAGE_BYTES * units.write_ns_per_page
            + level.bytes_out as f64 / PAGE_BYTES * units.read_ahead_ns_per_page
            + level.entries_in as f64 * units.merge_ns_per_entry
    }

    /// t_i and t', for one operation.
    fn latencies(&self, window: &Window, levels: &[u32]) -> Option<[f64; 2]> {
        let operations = window.operations.total().max(1) as f64;
        let own = window.levels.iter().filter(|level| levels.contains(&level.level));
        let own: f64 = own.map(|level| self.level_ns(window, level)).sum();
        Some([own / operations, self.goal.cost(window)?])
    }

    /// α t_i + (1 − α) t', each in its own unit. All levels together are the whole.
    fn cost(&self, [own, whole]: [f64; 2], [own_unit, whole_unit, most]: [f64; 3]) -> f64 {
        let share = if self.scheme == Scheme::Joint { 0.0 } else { self.constants.level_share };
        share * own / own_unit + (1.0 - share) * (whole / whole_unit).clamp(1.0 - most, 1.0 + most)
    }

    /// What a model sees of its levels: reads and writes of the level, how large it is and how
    /// full, its K, its runs; and the share of lookups in the mission before.
    fn state(&self, window: &Window, levels: &[u32]) -> Vec<f32> {
        let ratio = size_ratio(window);
        let mut state = Vec::with_capacity(LEVEL_FEATURES * levels.len() + 1);
        for number in levels {
            let raw =
                window.levels.iter().find(|level| level.level == *number).map(|of| features(window, of));
            let scores = self.memory.features.iter().zip(raw.unwrap_or([0.0; SCORED]));
            state.extend(scores.map(|(standard, x)| (standard.score(x) as f32).clamp(-3.0, 3.0)));
            let runs =
                window.levels.iter().find(|level| level.level == *number).map_or(0, |level| level.runs);
            state.push(seen_limit(run_limit(window, *number), ratio));
            state.push(2.0 * runs as f32 / ratio as f32 - 1.0);
        }
        state.push(2.0 * lookups(window) as f32 - 1.0);
        state
    }

    /// The workload has shifted: what was learned is learned again, from what it was.
    fn shift(&mut self) {
        for model in &mut self.memory.models {
            model.ddpg.shift();
            model.parts = [Standard::of_all(), Standard::of_all()];
            model.scale = None;
            model.waiting.clear();
            (model.pending, model.since) = (None, (0.0, 0.0, 0));
            model.recent.clear();
            model.surprise = f32::MAX;
        }
        (self.memory.turn, self.memory.propagated) = (0, false);
        self.memory.found.clear();
    }

    /// Learns from what came of the last action, if there was one, which led to `limits`.
    fn learn(&mut self, state: &[f32], limits: &[u32], ratio: u32) {
        let LerpConstants { updates, scaled_missions, whole_max, .. } = self.constants;
        let model = &mut self.memory.models[self.memory.turn];
        let (own, whole, count) = std::mem::take(&mut model.since);
        let Some((before, action)) = model.pending.take().filter(|_| count > 0) else { return };
        let latencies = [own, whole].map(|sum| sum / f64::from(count));
        model.parts.iter_mut().zip(latencies).for_each(|(part, ns)| part.see(ns));
        model.missions += 1;
        let transition = Transition { state: before, action, reward: 0.0, next: state.to_vec() };
        model.waiting.push((all_ways(transition, limits, ratio), latencies));
        if model.scale.is_none() && model.waiting.len() >= scaled_missions {
            let [own, whole] = &model.parts;
            let most = whole_max * whole.deviation() / whole.mean().max(f64::MIN_POSITIVE);
            model.scale =
                Some([own.mean().max(f64::MIN_POSITIVE), whole.mean().max(f64::MIN_POSITIVE), most]);
            model.costs = Standard::of_all();
        }
        if let Some(scale) = model.scale {
            let waiting = std::mem::take(&mut model.waiting);
            for (transitions, latencies) in waiting {
                let cost = self.cost(latencies, scale);
                let model = &mut self.memory.models[self.memory.turn];
                model.costs.see(cost);
                for transition in transitions {
                    model.ddpg.remember(Transition { reward: -cost as f32, ..transition });
                }
            }
        }
        let model = &mut self.memory.models[self.memory.turn];
        if model.costs.weight() == 0.0 {
            return;
        }
        let spread = model.costs.deviation().max(model.costs.mean().abs() * 1e-3).max(f64::MIN_POSITIVE);
        for _ in 0..updates {
            if let Some(learned) = model.ddpg.learn(-model.costs.mean() as f32, spread as f32) {
                model.surprise = (f64::from(learned.surprise) * spread / model.costs.mean()) as f32;
            }
        }
    }

    /// What the model in turn has found, if it has: K that stayed within one of each other for as
    /// many missions as it takes, by a model that is no longer surprised. Of two, the one that was
    /// there more often.
    fn found(&mut self, limits: &[u32]) -> Option<Vec<u32>> {
        let LerpConstants { settled_missions, settled_surprise, settled_spread, settled_noise, .. } =
            self.constants;
        let model = &mut self.memory.models[self.memory.turn];
        model.recent.push_back(limits.to_vec());
        if model.recent.len() > settled_missions {
            model.recent.pop_front();
        }
        let explores = model.ddpg.noise() > settled_noise;
        let spread = (model.costs.deviation() / model.costs.mean()) as f32;
        let settled_surprise = settled_surprise.max(settled_spread * spread);
        if model.recent.len() < settled_missions || explores || model.surprise > settled_surprise {
            return None;
        }
        let of_level = |at: usize| {
            let of = model.recent.iter().map(move |limits| limits[at]);
            let least = of.clone().min()?;
            let above = of.clone().filter(|limit| *limit > least).count();
            let is_steady = of.max()? <= least + 1;
            is_steady.then_some(least + u32::from(2 * above > model.recent.len()))
        };
        (0..limits.len()).map(of_level).collect()
    }

    /// The run limits of the levels below those that were learned, for which `limits` were found.
    fn propagate(&self, window: &Window, limits: &[u32]) -> Vec<Set> {
        match (self.scheme, limits) {
            (Scheme::Uniform, [first, ..]) => vec![Set::new(&knob::RUN_LIMIT, first)],
            (Scheme::Monkey, [first, second, ..]) => {
                let deepest = deepest(window);
                let inferred = infer(*first, *second, size_ratio(window), deepest as usize)
                    .unwrap_or_else(|| self.closed_form(window));
                let levels = (1..).zip(inferred).take(deepest as usize);
                levels.map(|(level, limit)| Set::of_level(&knob::RUN_LIMIT, level, limit)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The run limits of the joint form of Monkey and FLSM, with this machine's costs
    /// (docs/PAPERS.md, "RusKey").
    fn closed_form(&self, window: &Window) -> Vec<u32> {
        let levels: Vec<&LevelSight> = window.levels.iter().filter(|level| level.level > 0).collect();
        let entry_bytes = window.table_bytes() as f64 / window.table_entries().max(1) as f64;
        let block = window.number(&knob::BLOCK_BYTES, None).unwrap_or(PAGE_BYTES);
        let page = self.units.read_ahead_ns_per_page + self.units.write_ns_per_page;
        let bits: f64 = levels.iter().map(|level| level.filter_bits * level.entries as f64).sum();
        let ratio = size_ratio(window);
        let form = ruskey::Levels {
            entries: levels.iter().map(|level| level.entries.max(1) as f64).collect(),
            filter_bits: bits,
            size_ratio: f64::from(ratio),
            lookups: lookups(window),
            read: self.units.read_ns(block) + self.units.block_load_ns,
            probe: self.units.run_probe_ns,
            merge: page * entry_bytes / PAGE_BYTES + self.units.merge_ns_per_entry,
        };
        form.solve().run_limits.iter().map(|limit| (limit.round() as u32).clamp(1, ratio)).collect()
    }

    /// The model in turn has found its K: the next one's turn, or what follows for the others.
    fn hand_on(&mut self, window: &Window, found: &[u32]) -> Option<Proposal> {
        let levels = self.levels(self.memory.turn);
        let own = levels.iter().zip(found).filter(|(level, limit)| run_limit(window, **level) != **limit);
        let mut sets: Vec<Set> =
            own.map(|(level, limit)| Set::of_level(&knob::RUN_LIMIT, *level, limit)).collect();
        self.memory.found.extend(found);
        self.memory.turn += 1;
        let is_last = self.memory.turn == self.memory.models.len();
        if self.scheme == Scheme::EveryLevel && is_last && self.memory.turn < deepest(window) as usize {
            self.add_model();
        }
        if self.memory.turn == self.memory.models.len() {
            self.memory.propagated = true;
            let inferred = self.propagate(window, &self.memory.found);
            if !inferred.is_empty() {
                sets = inferred;
            }
        }
        let why = format!("found K = {}", words(&self.memory.found));
        (!sets.is_empty()).then_some(Proposal { sets, why, predicted: 1.0, settle: 0, once: 0.0 })
    }
}

/// `9,7`.
fn words(limits: &[u32]) -> String {
    limits.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Reads and writes of a level for every operation, in blocks; its size, as a logarithm; how full
/// it is.
fn features(window: &Window, level: &LevelSight) -> [f64; SCORED] {
    let operations = window.operations.total().max(1) as f64;
    let block = window.number(&knob::BLOCK_BYTES, None).unwrap_or(PAGE_BYTES).max(1.0);
    [
        (level.lookup_blocks_read + level.scan_blocks_read) as f64 / operations,
        (level.bytes_in + level.bytes_out) as f64 / block / operations,
        ln(level.capacity_bytes.max(1) as f64),
        level.bytes as f64 / level.capacity_bytes.max(1) as f64,
    ]
}

fn size_ratio(window: &Window) -> u32 {
    window.number(&knob::SIZE_RATIO, None).map_or(10, |ratio| ratio as u32).max(2)
}

fn run_limit(window: &Window, level: u32) -> u32 {
    let seen = window.levels.iter().find(|of| of.level == level).map(|of| of.run_limit);
    seen.or_else(|| window.number(&knob::RUN_LIMIT, Some(level)).map(|limit| limit as u32)).unwrap_or(1)
}

fn deepest(window: &Window) -> u32 {
    window.levels.iter().filter(|level| level.entries > 0).map(|level| level.level).max().unwrap_or(0)
}

/// γ: the share of lookups and scans.
fn lookups(window: &Window) -> f64 {
    1.0 - window.mix().write
}

/// Lemma 5.1, as far as it may be trusted: run limits of `depth` levels whose first two were found.
/// `None` where the recurrence has no sense: the second is not below the first, or either sits at a
/// bound, which says only that it would be beyond.
pub fn infer(first: u32, second: u32, ratio: u32, depth: usize) -> Option<Vec<u32>> {
    let at_bound = |limit: u32| limit <= 1 || limit >= ratio;
    if second >= first || at_bound(first) || at_bound(second) {
        return None;
    }
    let mut limits = vec![first, second];
    while limits.len() < depth {
        let [.., before, last] = limits[..] else { unreachable!("there are two") };
        let inverse = |limit: u32| 1.0 / f64::from(limit * limit);
        let square = inverse(last) + f64::from(ratio) * (inverse(last) - inverse(before));
        limits.push(((1.0 / square.sqrt()).round() as u32).clamp(1, last));
    }
    limits.truncate(depth.max(2));
    Some(limits)
}

impl Agent for Lerp {
    fn name(&self) -> &'static str {
        NAME
    }

    fn see(&mut self, window: &Window) {
        if !window.is_judged() {
            return;
        }
        if self.memory.mix.see(window.mix().shares(), window.operations.total()) {
            self.shift();
        }
        self.memory.missions += 1;
        for level in window.levels.iter().filter(|level| level.level > 0) {
            let seen = features(window, level);
            self.memory.features.iter_mut().zip(seen).for_each(|(standard, x)| standard.see(x));
        }
        let turn = self.memory.turn;
        if turn < self.memory.models.len()
            && let Some([own, whole]) = self.latencies(window, &self.levels(turn))
        {
            let since = &mut self.memory.models[turn].since;
            *since = (since.0 + own, since.1 + whole, since.2 + 1);
        }
    }

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        if self.memory.propagated {
            return None;
        }
        let levels = self.levels(self.memory.turn);
        let state = self.state(window, &levels);
        let limits: Vec<u32> = levels.iter().map(|level| run_limit(window, *level)).collect();
        self.learn(&state, &limits, size_ratio(window));
        if let Some(found) = self.found(&limits) {
            return self.hand_on(window, &found);
        }
        let model = &mut self.memory.models[self.memory.turn];
        let action = model.ddpg.explore(&state);
        model.pending = Some((state, action.clone()));
        let ratio = size_ratio(window);
        let deepest = deepest(window).max(1);
        let wanted = limits.iter().zip(&action).map(|(limit, part)| turned(*limit, *part, ratio));
        let changed = levels.iter().zip(&limits).zip(wanted);
        let changed = changed.filter(|((level, limit), wanted)| **level <= deepest && **limit != *wanted);
        let sets: Vec<Set> =
            changed.map(|((level, _), wanted)| Set::of_level(&knob::RUN_LIMIT, *level, wanted)).collect();
        let why = format!("mission {}, K = {} before", self.memory.missions, words(&limits));
        (!sets.is_empty()).then_some(Proposal { sets, why, predicted: 1.0, settle: 0, once: 0.0 })
    }

    fn hear(&mut self, outcome: &Outcome) {
        if matches!(outcome, Outcome::Forbidden { .. } | Outcome::Refused { .. } | Outcome::Undone { .. })
            && let Some(model) = self.memory.models.get_mut(self.memory.turn)
        {
            (model.pending, model.since) = (None, (0.0, 0.0, 0));
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
        let fresh = Lerp::new(self.constants.clone(), self.units.clone(), self.goal.clone(), self.scheme, 0);
        let like = &fresh.memory.models[0];
        let sizes = (LEVEL_FEATURES * self.width() + 1, self.width());
        let is_whole = |model: &Model| {
            let pending = model.pending.as_ref();
            let same_width = model.recent.iter().all(|limits| limits.len() == self.width());
            let transitions = model.waiting.iter().flat_map(|(transitions, _)| transitions);
            let mut sizes_of = transitions.map(|of| (of.state.len(), of.action.len()));
            same_width
                && sizes_of.all(|of| of == sizes)
                && model.waiting.len() <= self.constants.scaled_missions
                && model.ddpg.is_like(&like.ddpg)
                && pending.is_none_or(|(state, action)| (state.len(), action.len()) == sizes)
        };
        let turn_is_legal = memory.turn < memory.models.len() || memory.propagated;
        if memory.features.len() != SCORED
            || memory.models.len() < fresh.memory.models.len()
            || !turn_is_legal
            || !memory.models.iter().all(is_whole)
        {
            return Err("models of other sizes".into());
        }
        self.memory = memory;
        Ok(())
    }
}

/// A transition to a level's K, and those from every other K that an action leads there from:
/// K alone is what a mission's latency follows from, whence it came from is not. Where one model
/// turns several levels, it is left at what was done.
fn all_ways(transition: Transition, limits: &[u32], ratio: u32) -> Vec<Transition> {
    let [limit] = limits else { return vec![transition] };
    let ways = [-1.0f32, 0.0, 1.0].map(|way| 2.0 * ACTION_EDGE * way);
    let from = (1..=ratio).flat_map(|before| ways.map(|action| (before, action)));
    let others =
        from.filter(|(before, action)| turned(*before, *action, ratio) == *limit).map(|(before, action)| {
            let mut other = Transition { action: vec![action], ..transition.clone() };
            other.state[SCORED] = seen_limit(before, ratio);
            other
        });
    others.chain([transition.clone()]).collect()
}

/// A K as states have it.
fn seen_limit(limit: u32, ratio: u32) -> f32 {
    2.0 * limit as f32 / ratio as f32 - 1.0
}

/// K after an action.
fn turned(limit: u32, action: f32, ratio: u32) -> u32 {
    match action {
        action if action < -ACTION_EDGE => limit.saturating_sub(1).max(1),
        action if action > ACTION_EDGE => (limit + 1).min(ratio),
        _ => limit,
    }
}
