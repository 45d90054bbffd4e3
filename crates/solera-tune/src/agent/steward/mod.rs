//! The steward: `Steward`, the agent that users get. It prices by the cost model, and corrects that
//! by what it measures.
//!
//! After each judged window it corrects what an operation's parts take (`scales`), and the blocks
//! that a context's reads and merges really move. In its turn it looks for wishes in each group of
//! knobs (`wishes`), which `prices` allows and prices. Pricing runs the engine's tree forward
//! (`foresight`) for as long as contexts have lasted, so a change's cost is in its price.
//!
//! What must hold: of wishes it proposes the one that gains most. That is 6 % at least, and more
//! where the model was wrong lately or the group is risky. Reads of a workload to come suffer
//! little (`hazard_max`). A group of knobs that did not help rests. Where nothing else may be
//! changed it goes `home`.
//! Callers: `agent::make`, under the name `steward`, the default of `attach`.

mod apart;
mod foresight;
mod home;
mod plan;
mod prices;
mod scales;
mod seen;
#[cfg(test)]
mod tests;
mod wishes;

use super::{Agent, Credit, Maker, Outcome, Proposal};
use crate::{
    cost::{Units, skew::Skew},
    sight::{Blocked, Goal, Objective, Window},
};
use foresight::Foresight;
use home::Home;
use plan::Plan;
pub(super) use plan::divided_bytes;
use prices::Prices;
use scales::Scales;
use serde::{Deserialize, Serialize};
use solera::control::knob::TRANSITION;
use std::collections::BTreeMap;
use wishes::{Group, Wish};

/// Its name.
pub const NAME: &str = "steward";

/// The least gain that is worth a change, as a share of the cost.
const GAIN_MIN: f64 = 0.06;
/// The least that one must gain for as long as contexts last, over what it takes once.
const GAIN_ONCE_MIN: f64 = 0.02;
/// Of what the model was wrong by lately, how much a gain must exceed.
const DOUBT: f64 = 0.3;
/// What the model is taken to be wrong by before anything was measured; and in a context that is
/// new, at least.
const DOUBT_FIRST: f64 = 0.5;
const DOUBT_NEW: f64 = 0.2;
/// Windows that a context is taken to last when nothing is known of it, and the least and the most.
const DWELL: (f64, f64, f64) = (24.0, 12.0, 64.0);
/// Windows from which on a context lasts: the coordinator restores its settings when it is back.
const LASTS: f64 = 3.0;
/// How much worse than staying it may be to go home in a context that is new, as a share.
const HOME_LOSS_MAX: f64 = 0.05;
/// Windows of which contexts are remembered.
const RECENT: usize = 96;
/// Of what a group is predicted to gain, how much is believed at first.
const TRUST_FIRST: f64 = 0.8;
/// Weight of the newest window in what is known of a context.
const WEIGHT: f64 = 0.3;
/// Windows for which a group of knobs rests in a context after it did not help; doubles with each
/// time.
const PAUSE: u64 = 10;
/// Contexts that are remembered.
const CONTEXTS_MAX: usize = 64;
/// Windows that the model's own count of moved entries counts as much as: merges come seldom.
const MOVED_BELIEF: f64 = 6.0;
/// What counts of the entries that were moved before when a window comes.
const MOVED_FADES: f64 = 0.96;
/// Farthest that a context's count of blocks may be from the model's, as a factor.
const RESIDUAL_MAX: f64 = 20.0;

/// What is known of one context.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Its newest window, without the settings of levels that do not matter.
    window: Window,
    /// Blocks that reads read, as a share of what the model says.
    reads: f64,
    /// How unevenly its keys are used.
    #[serde(default)]
    skew: Skew,
    /// How far the corrected model is off, in the mean, as a share.
    doubt: f64,
    /// Windows that were judged.
    windows: u64,
    /// Groups that did not help: until which window they rest, and how often that was.
    rests: BTreeMap<Group, (u64, u32)>,
}

/// What it learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Memory {
    scales: Scales,
    known: BTreeMap<u32, Known>,
    /// Contexts of the newest windows, the newest last.
    recent: Vec<u32>,
    /// Windows that contexts lasted, in the mean; 0 before the first has ended.
    dwell: f64,
    /// What was proposed last, in which context.
    last: Option<(u32, Group, f64)>,
    /// Entries that flushes and merges moved, measured and as the model says.
    moved: (f64, f64),
    /// What came of its changes: how large the next may be.
    credit: Credit,
    /// Of what each group was predicted to gain, how much it did.
    trust: BTreeMap<Group, f64>,
    /// Where knobs stand that are not set.
    #[serde(default)]
    home: Home,
    /// Whether the workload changed several times within a window, and none has lasted since.
    #[serde(default)]
    restless: bool,
    /// Levels below 0 that the newest window had.
    #[serde(default)]
    depth: usize,
    now: u64,
}

impl Memory {
    /// What flushes and merges move, as a share of what the model says.
    fn merges(&self) -> f64 {
        let (measured, foreseen) = self.moved;
        if foreseen > 0.0 { (measured / foreseen).clamp(1.0 / RESIDUAL_MAX, RESIDUAL_MAX) } else { 1.0 }
    }
}

/// The default agent.
#[derive(Clone, Debug)]
pub struct Steward {
    units: Units,
    goal: Goal,
    memory: Memory,
    /// Knobs that a person or another program has set, with their levels. It is told before it is
    /// asked.
    foreign: Vec<(String, Option<u32>)>,
    /// Windows that a change may take once. It is told before it is asked.
    once_most: f64,
}

impl Steward {
    /// One that knows nothing but the machine.
    pub fn new(maker: &Maker) -> Steward {
        let (units, goal) = (maker.units.clone(), maker.goal.clone());
        Steward { units, goal, memory: Memory::default(), foreign: Vec::new(), once_most: 0.0 }
    }

    fn foresight(&self, context: u32) -> Foresight<'_> {
        let skew = self.memory.known.get(&context).map_or(Skew::EVEN, |known| known.skew);
        Foresight { units: &self.units, goal: &self.goal, scales: &self.memory.scales, skew }
    }

    /// What the log takes of an operation of `window`, where time is what counts.
    fn log_ns(&self, window: &Window) -> f64 {
        let is_time = matches!(self.goal.objective, Objective::MeanTime | Objective::P50 | Objective::P99);
        if is_time { apart::log_ns(window, &self.units) } else { 0.0 }
    }

    /// How long contexts last, in windows.
    fn dwell(&self) -> f64 {
        let (unknown, least, most) = DWELL;
        let mean = if self.memory.dwell > 0.0 { self.memory.dwell } else { unknown };
        // One that has lasted longer already will last as long again.
        mean.max(self.lasted()).clamp(least, most)
    }

    /// Windows that the context of now has lasted.
    fn lasted(&self) -> f64 {
        let newest = self.memory.recent.last();
        self.memory.recent.iter().rev().take_while(|context| Some(*context) == newest).count() as f64
    }

    /// Shares of the other contexts that came back lately, in time. One that was there once and
    /// went is over.
    fn others(&self, context: u32) -> Vec<(u32, f64)> {
        let recent = &self.memory.recent;
        let share = 1.0 / recent.len().max(1) as f64;
        // By context: its share, and how often it began.
        let mut seen: BTreeMap<u32, (f64, u32)> = BTreeMap::new();
        for (at, id) in recent.iter().enumerate().filter(|(_, id)| **id != context && **id != 0) {
            let begins = at == 0 || recent[at - 1] != *id;
            let (sum, times) = seen.entry(*id).or_default();
            (*sum, *times) = (*sum + share, *times + u32::from(begins));
        }
        let back =
            seen.into_iter().filter(|(id, (_, times))| *times > 1 && self.memory.known.contains_key(id));
        back.map(|(id, (share, _))| (id, share)).collect()
    }

    /// How far the model is taken to be off in a context that is new: as far as in others. Where
    /// there are none, only a clear gain is worth a change after the first window.
    fn doubt_of_new(&self) -> f64 {
        let known = &self.memory.known;
        let sum: f64 = known.values().map(|known| known.doubt).sum();
        if known.is_empty() { DOUBT_FIRST } else { (sum / known.len() as f64).max(DOUBT_NEW) }
    }

    fn note_context(&mut self, window: &Window) {
        let is_mixed = window.blocked == Some(Blocked::Mixed);
        if window.context == 0 && !is_mixed {
            return;
        }
        let recent = &mut self.memory.recent;
        let last = recent.last().copied().unwrap_or(0);
        if last != 0 && last != window.context {
            let lasted = recent.iter().rev().take_while(|context| **context == last).count() as f64;
            let dwell = &mut self.memory.dwell;
            *dwell = if *dwell == 0.0 { lasted } else { *dwell + WEIGHT * (lasted - *dwell) };
        }
        if recent.len() == RECENT {
            recent.remove(0);
        }
        // A mixed one is of none, and ends what was before it.
        recent.push(window.context);
        self.memory.restless = is_mixed || (self.memory.restless && self.lasted() < LASTS);
    }

    /// Corrects the model by a window that may be judged.
    fn learn(&mut self, window: &Window) {
        let (known, scales) = (self.memory.known.get(&window.context), &self.memory.scales);
        let (reads, doubt) =
            known.map_or_else(|| (1.0, self.doubt_of_new()), |known| (known.reads, known.doubt));
        let before = known.map_or(Skew::EVEN, |known| known.skew);
        let skew = seen::skew(window).map_or(before, |skew| match known {
            Some(_) => Skew::new(before.share() + WEIGHT * (skew.share() - before.share())),
            None => skew,
        });
        let foresight = Foresight { units: &self.units, goal: &self.goal, scales, skew };
        let counted = foresight.counted(window);
        let modelled = foresight.modelled(window);
        let factor = |measured: f64, modelled: f64, before: f64| {
            if modelled <= 0.0 || measured < 0.0 {
                return before;
            }
            let factor = (measured / modelled).clamp(1.0 / RESIDUAL_MAX, RESIDUAL_MAX);
            before + WEIGHT * (factor - before)
        };
        // The model's blocks of a window that has hardly any are no measure.
        let reads = factor(counted.blocks_read, modelled.blocks_read.max(1e-3), reads);
        let operations = window.operations.total() as f64;
        let (measured, foreseen) = (counted.merged, foresight.moved(window, DWELL.0));
        let belief = MOVED_BELIEF * foreseen * operations;
        if self.memory.moved == (0.0, 0.0) {
            self.memory.moved = (belief, belief);
        }
        // A level that has left was merged once, which says nothing of what is to come.
        let depth = window.levels.iter().filter(|level| level.level > 0 && level.entries > 0).count();
        let has_lifted = std::mem::replace(&mut self.memory.depth, depth) > depth;
        let moved = &mut self.memory.moved;
        if !has_lifted {
            moved.0 = MOVED_FADES * moved.0 + measured * operations;
            moved.1 = MOVED_FADES * moved.1 + foreseen * operations;
        }
        let error = self.goal.mean_ns(window).map(|measured| {
            let foreseen = scales.ns(&counted);
            ((foreseen - measured) / measured.max(1.0)).abs().min(1.0)
        });
        let doubt = doubt + WEIGHT * (error.unwrap_or(0.2) - doubt);
        if let Some(measured) = self.goal.mean_ns(window) {
            self.memory.scales.learn(&counted, measured);
        }
        let known = &mut self.memory.known;
        if known.len() == CONTEXTS_MAX && !known.contains_key(&window.context) {
            let oldest = known.iter().min_by_key(|(_, known)| known.window.number).map(|(id, _)| *id);
            known.remove(&oldest.expect("there are contexts"));
        }
        let entry = known.entry(window.context).or_insert_with(|| Known {
            window: window.clone(),
            reads,
            skew,
            doubt,
            windows: 0,
            rests: BTreeMap::new(),
        });
        (entry.reads, entry.skew, entry.doubt) = (reads, skew, doubt);
        entry.windows += 1;
        entry.window = window.clone();
    }

    /// The wish that gains most, with what an operation will cost but for what it takes once.
    fn best(&self, window: &Window) -> Option<(Wish, f64)> {
        let known = self.memory.known.get(&window.context)?;
        let mut stay = Plan::of(window);
        // What a person or another program has set stays.
        stay.at_once &= !self.foreign.iter().any(|(knob, _)| knob == TRANSITION.name);
        let gain_min = Steward::gain_min(known);
        let prices = Prices::new(self, window, &stay);
        let mut best: Option<(Wish, f64, f64)> = None;
        for group in Group::ALL {
            // What is harder to take back than anything else comes last.
            if group == Group::Values && best.is_some() {
                continue;
            }
            if known.rests.get(&group).is_some_and(|(until, _)| *until > window.number) {
                continue;
            }
            let trust = self.memory.trust.get(&group).copied().unwrap_or(TRUST_FIRST);
            let wish = wishes::search(group, window, &stay, |plan| prices.allowed(plan, group));
            let Some((mut wish, ratio)) = wish else { continue };
            // Where it does not do what is foreseen, it is taken back, and leaves a tree behind.
            let ratio = trust * ratio + (1.0 - trust) * prices.undone(&wish.plan).max(1.0);
            let (once, of_all) = prices.once(&wish.plan);
            wish.once = once;
            let is_worth_it = 1.0 - (ratio - of_all) >= gain_min * group.caution(window, &stay, &wish.plan);
            let is_paid_back = once == 0.0 || 1.0 - ratio >= GAIN_ONCE_MIN;
            if !is_worth_it || !is_paid_back {
                continue;
            }
            if best.as_ref().is_none_or(|(_, _, least)| ratio < *least) {
                best = Some((wish, ratio - of_all, ratio));
            }
        }
        best.map(|(wish, predicted, _)| (wish, predicted))
    }

    /// What a gain must be in a context that is `known`, as a share.
    fn gain_min(known: &Known) -> f64 {
        GAIN_MIN.max(DOUBT * known.doubt.min(0.5))
    }

    /// The wish to go home, with what that costs of what staying does. A context that is new must
    /// not gain by it: what the settings of others do in it is not known.
    fn wish_home(&self, window: &Window) -> Option<(Wish, f64)> {
        let known = self.memory.known.get(&window.context)?;
        let rests = known.rests.get(&Group::Home).is_some_and(|(until, _)| *until > window.number);
        let (sets, plan) = self.memory.home.way(window, &self.foreign).filter(|_| !rests)?;
        let stay = Plan::of(window);
        let ratio = Prices::new(self, window, &stay).ratio(&plan)?;
        let most = if known.windows <= 1 { 1.0 + HOME_LOSS_MAX } else { 1.0 - Steward::gain_min(known) };
        let (group, why, settle) = (Group::Home, "as nobody set it".into(), wishes::settle(&stay, &plan));
        (plan != stay && ratio <= most).then_some((Wish { group, plan, sets, why, settle, once: 0.0 }, ratio))
    }

    fn proposal(&mut self, window: &Window, (wish, predicted): (Wish, f64)) -> Proposal {
        self.memory.last = Some((window.context, wish.group, predicted));
        let why = format!("{} over {:.0} windows, {}", wish.why, self.dwell(), window.mix());
        Proposal { sets: wish.sets, why, predicted, settle: wish.settle, once: wish.once }
    }

    /// A group did not help: it rests.
    fn rest(&mut self, context: u32, group: Group) {
        let now = self.memory.now;
        if let Some(known) = self.memory.known.get_mut(&context) {
            let (until, times) = known.rests.entry(group).or_insert((0, 0));
            *until = now + (PAUSE << (*times).min(4));
            *times += 1;
        }
    }
}

impl Agent for Steward {
    fn name(&self) -> &'static str {
        NAME
    }

    fn see(&mut self, window: &Window) {
        self.memory.now = window.number;
        self.note_context(window);
        self.memory.home.note(window);
        if window.is_judged() && window.operations.total() > 0 {
            self.learn(window);
        }
    }

    fn leave(&mut self, foreign: &[(String, Option<u32>)]) {
        self.foreign = foreign.to_vec();
    }

    fn afford(&mut self, once: f64) {
        self.once_most = once;
    }

    fn propose(&mut self, window: &Window) -> Option<Proposal> {
        // A workload that has just come out of others is judged by none of its windows.
        let best = if self.memory.restless { None } else { self.best(window) };
        best.map(|best| self.proposal(window, best))
    }

    fn prices_home(&self) -> bool {
        true
    }

    fn homeward(&mut self, window: &Window) -> Option<Proposal> {
        self.wish_home(window).map(|wish| self.proposal(window, wish))
    }

    fn hear(&mut self, outcome: &Outcome) {
        // Going home in vain is no mark against its own changes: the coordinator's record has none.
        let from_home = self.memory.last.is_some_and(|(_, group, _)| group == Group::Home)
            && matches!(outcome, Outcome::Undone { .. });
        if !from_home {
            self.memory.credit.hear(outcome);
        }
        let Some((context, group, predicted)) = self.memory.last else { return };
        let measured = match outcome {
            Outcome::Made => return,
            Outcome::Untold => None,
            Outcome::Forbidden { .. } | Outcome::Refused { .. } => {
                self.rest(context, group);
                None
            }
            Outcome::Kept { ratio } => Some(*ratio),
            Outcome::Undone { ratio, .. } => {
                self.rest(context, group);
                Some(*ratio)
            }
        };
        if let Some(measured) = measured.filter(|_| group != Group::Home) {
            let share = ((1.0 - measured) / (1.0 - predicted).max(0.01)).clamp(0.0, 1.0);
            let trust = self.memory.trust.entry(group).or_insert(TRUST_FIRST);
            *trust = (*trust + WEIGHT * (share - *trust)).max(0.2);
        }
        self.memory.last = None;
    }

    fn remember(&self) -> serde_json::Value {
        serde_json::to_value(&self.memory).expect("a memory is a map with names for keys")
    }

    fn restore(&mut self, memory: &serde_json::Value) -> Result<(), String> {
        if memory.is_null() {
            return Ok(());
        }
        let memory: Memory = serde_json::from_value(memory.clone())
            .map_err(|error| format!("a steward remembers something else: {error}"))?;
        let factors = memory.known.values().flat_map(|known| [known.reads, known.doubt]);
        let is_finite = factors.chain(memory.trust.values().copied()).all(f64::is_finite);
        let (measured, foreseen) = memory.moved;
        let is_finite = is_finite && measured.is_finite() && foreseen.is_finite();
        let is_skew = memory.known.values().all(|known| known.skew.is_sound());
        if !memory.scales.is_sound() || !is_skew || !is_finite || !memory.dwell.is_finite() {
            return Err("a steward remembers numbers that can be".into());
        }
        self.memory = memory;
        Ok(())
    }
}
