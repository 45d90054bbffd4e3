//! What the coordinator knows between two windows: `State`, with a `Place` for each context and the
//! `Open` change.
//!
//! A `Place` knows what its context costs, and the settings under which it cost least (`Anchor`). A
//! window of twice the cost, or of half, waits until the next tells what it was. All is written to
//! the journal now and then, so that a decision can be made again from there. `after` is what
//! settings become by sets; `way` says how to come from one set of settings to another.
//!
//! What must hold: the way from one set of settings to another ends there.
//!
//! Callers: `coordinator` owns one; `journal`, `replay` and `attach::stepper` keep and restore it.

use super::{
    baseline::{Baseline, FAR, Measured},
    merging::Merging,
    regret::Regret,
    rules::Rules,
    tabu::Tabus,
};
use crate::{
    agent::{Credit, Proposal, Set},
    sight::Traits,
};
use serde::{Deserialize, Serialize};
use solera::control::knob::RUN_LIMIT;
use std::collections::BTreeMap;

/// Windows that a baseline must have to be held up as what a context can be.
const ANCHOR_WINDOWS: u32 = 2;
/// How many times as much as its context did a window must cost, or as little, to be odd.
const ODD: f64 = 2.0;
/// How many times as much as is usual one may move, or as little, to be odd before it is known what
/// merges cost.
const ODD_MOVED_MAX: f64 = 2.0;
/// How many times as much as is known of them merges may have cost, where a window is odd.
const ODD_MERGES: f64 = 2.0;

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Number of the newest change of knobs that is known of.
    pub expected: u64,
    /// What this tuner has set and stands, ordered by knob and level.
    pub own: Vec<Set>,
    /// What is known of each context.
    pub places: BTreeMap<u32, Place>,
    /// The change that is open.
    pub open: Option<Open>,
    /// What is not to be tried.
    pub tabus: Tabus,
    /// What changes that hurt have cost.
    pub regret: Regret,
    /// What merges make windows dearer by.
    pub merging: Merging,
    /// The context of the newest window that was judged.
    pub stay: Stay,
    /// Windows that are still not to be measured.
    pub rest: u32,
    /// The same, at most, as long as they are worse than before what was taken back.
    pub recover: u32,
    /// Of these, how many in a row were far worse.
    #[serde(default)]
    pub astray: u32,
    /// What its agent's changes came to.
    pub credit: Credit,
    /// The window before which no change is made.
    pub muted_until: u64,
    /// Orders that were given.
    pub orders: u64,
    /// Why nothing is changed any more.
    pub off: Option<String>,
}

/// How long the workload has been what it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stay {
    /// The context.
    pub context: u32,
    /// Windows in a row that were of it.
    pub windows: u32,
    /// How many were of the one before.
    pub before: u32,
}

impl Stay {
    /// One more window, of `context`.
    pub fn add(&mut self, context: u32) {
        *self = match self.context == context {
            true => Stay { windows: self.windows.saturating_add(1), ..*self },
            false => Stay { context, windows: 1, before: self.windows },
        };
    }

    /// Windows in a row that were of the context before `context`, which may just have begun.
    pub fn before(&self, context: u32) -> u32 {
        if self.context == context { self.before } else { self.windows }
    }
}

/// What is known of one context.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// What it costs under the settings of [`Place::under`].
    pub baseline: Baseline,
    /// What this tuner had set when the baseline was measured.
    pub under: Vec<Set>,
    /// The least that it has cost, and under which settings.
    pub anchor: Option<Anchor>,
    /// Changes that agents made in it.
    pub changes: u32,
    /// How often settings were restored in it.
    pub restores: u32,
    /// Windows in a row that were worse than the anchor.
    pub worse: u32,
    /// The least that it has cost under the settings of [`Place::under`].
    #[serde(default)]
    pub least: Option<Least>,
    /// Windows in a row that were worse than that.
    #[serde(default)]
    pub dearer: u32,
    /// The newest window, if it is odd: the next tells whether chance made it so, or the workload
    /// has become another.
    #[serde(default)]
    pub odd: Option<Measured>,
    /// Whether the baseline began anew and what operations cost has fallen ever since. A change
    /// would have the credit for it.
    #[serde(default)]
    pub falls: bool,
    /// The window from which on settings may be restored again.
    pub restore_from: u64,
    /// Whether it was ever measured with no knob set.
    #[serde(default)]
    pub home: bool,
}

/// The least that a context has cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anchor {
    /// The cost.
    pub mean: f64,
    /// How much worse than that a window may be, as a share.
    pub tolerance: f64,
    /// What this tuner had set then.
    pub own: Vec<Set>,
    /// What the context cost then.
    pub baseline: Baseline,
}

/// The least that a context has cost under some settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Least {
    /// The cost.
    pub mean: f64,
    /// How much worse than that a window may be, as a share.
    pub tolerance: f64,
}

/// A change that was made and is being judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Open {
    /// The window after which it was proposed.
    pub window: u64,
    /// What was proposed.
    pub proposal: Proposal,
    /// The context in which it was.
    pub context: u32,
    /// What was asked then.
    #[serde(default)]
    pub asked: Option<Traits>,
    /// What it does: knobs and directions.
    pub moves: Vec<String>,
    /// What this tuner had set before.
    pub before: Vec<Set>,
    /// Windows that are still to pass before it is judged.
    pub settle: u32,
    /// Costs of windows since, as shares of their baselines.
    pub ratios: Vec<f64>,
    /// Windows since, by context.
    pub costs: Vec<(u32, Measured)>,
    /// Of the newest of them, how many in a row were too bad.
    pub worse: u32,
    /// Windows that said nothing of it.
    pub waited: u32,
    /// Windows in which background work was behind.
    pub behind: u32,
    /// What windows cost more than any before the change did, as a share of the baseline.
    #[serde(default)]
    pub beyond: f64,
    /// Whether the coordinator itself made it, and no agent hears of it.
    #[serde(default)]
    pub of_guard: bool,
}

impl Place {
    /// What it costs under the settings `own`, if that is known.
    pub fn baseline_under(&self, own: &[Set]) -> Option<&Baseline> {
        let now = (self.under == own).then_some(&self.baseline);
        let then = || self.anchor.as_ref().filter(|anchor| anchor.own == own).map(|anchor| &anchor.baseline);
        now.or_else(then).filter(|baseline| baseline.windows() > 0)
    }

    /// Measures from now on what it costs under the settings `own`.
    pub fn settle(&mut self, own: &[Set]) {
        if self.under != own {
            self.baseline = self.baseline_under(own).cloned().unwrap_or_default();
            self.under = own.to_vec();
            self.odd = None;
            self.forget_least();
        }
    }

    /// Whether `window` cost far more than the baseline (1) or far less (-1), though nothing was
    /// changed and merges do not explain it; 0 if not.
    fn oddity(&self, window: &Measured, merging: &Merging) -> i8 {
        let (mean, usual) = (self.baseline.mean(merging), self.baseline.usual());
        let moved = (window.moved.min(usual), window.moved.max(usual));
        let is_unlike = moved.1 > ODD_MOVED_MAX * moved.0;
        if !self.is_measured() || (is_unlike && merging.slope() <= 0.0) {
            return 0;
        }
        // Whether merges are spread evenly or not, and if they cost more than is known of them.
        let evened = window.cost - ODD_MERGES * merging.slope() * (window.moved - usual);
        match (window.cost.min(evened), window.cost.max(evened)) {
            (least, _) if least > ODD * mean => 1,
            (_, most) if most < mean / ODD => -1,
            _ => 0,
        }
    }

    /// Adds a window during which nothing was changed. False while it is odd, so that it is not
    /// known what the context costs. After two that are odd alike the baseline is of another
    /// workload, and begins anew with them. What was measured under other settings stays: it may be
    /// these that hurt.
    pub fn add(&mut self, window: Measured, merging: &mut Merging) -> bool {
        let (oddity, before) = (self.oddity(&window, merging), self.odd.take());
        if oddity != 0 && before.is_none() {
            self.odd = Some(window);
            return false;
        }
        if oddity != 0 && before.is_some_and(|before| self.oddity(&before, merging) == oddity) {
            self.begin_anew();
            before.into_iter().chain([window]).for_each(|window| self.baseline.add(window));
            return true;
        }
        for window in before.into_iter().chain([window]) {
            if self.is_measured() {
                let mean = (self.baseline.mean(merging), self.baseline.usual());
                merging.learn(mean, (window.cost, window.moved));
            }
            self.baseline.add(window);
        }
        self.falls &= self.baseline.falls(merging);
        true
    }

    /// Nothing that was measured under the settings that stand holds any more.
    pub fn begin_anew(&mut self) {
        (self.baseline, self.falls) = (Baseline::default(), true);
        self.forget_least();
        if self.anchor.as_ref().is_some_and(|anchor| anchor.own == self.under) {
            (self.anchor, self.worse) = (None, 0);
        }
    }

    /// What it cost at least under its settings is of other settings, or of another workload.
    pub fn forget_least(&mut self) {
        (self.least, self.dearer) = (None, 0);
    }

    /// Whether `window`, with merges spread evenly, cost more than `most` tolerances above the
    /// least under these settings; and it is counted.
    pub fn compare_with_least(&mut self, window: &Measured, most: f64, merging: &Merging) {
        let cost = merging.evened(window.cost, window.moved, self.baseline.usual());
        let limit = self.least.map(|least| least.mean * (1.0 + most * least.tolerance));
        let far = self.least.is_some_and(|least| window.cost > FAR * least.mean);
        let is_dearer = far || limit.is_some_and(|limit| cost > limit);
        self.dearer = if is_dearer { self.dearer.saturating_add(1) } else { 0 };
    }

    /// Remembers what it costs now, if that is the least so far and sure enough. With no knob set
    /// one window is enough: no change is safer than back to there.
    pub fn moor(&mut self, rules: &Rules, merging: &Merging) {
        let least = if self.under.is_empty() && self.home { 1 } else { ANCHOR_WINDOWS };
        if self.baseline.windows() < least {
            return;
        }
        let (mean, tolerance) = (self.baseline.mean(merging), self.baseline.tolerance(rules, merging));
        if self.least.is_none_or(|least| mean < least.mean) {
            self.least = Some(Least { mean, tolerance });
        }
        if self.anchor.as_ref().is_some_and(|anchor| anchor.mean <= mean && anchor.own != self.under) {
            return;
        }
        let own = self.under.clone();
        self.anchor = Some(Anchor { mean, tolerance, own, baseline: self.baseline.clone() });
    }
}

/// Whether a set or reset of a knob for all levels ends what `set` says of it.
fn is_ended_by(set: &Set, all_levels: &Set) -> bool {
    // Level 0 has a run limit of its own.
    let stays = set.level == Some(0) && set.knob == RUN_LIMIT.name;
    all_levels.level.is_none() && set.knob == all_levels.knob && !stays
}

/// What `own` becomes by `sets`.
pub fn after(own: &[Set], sets: &[Set]) -> Vec<Set> {
    let mut after = own.to_vec();
    for set in sets {
        after.retain(|old| !is_ended_by(old, set) && (&old.knob, old.level) != (&set.knob, set.level));
    }
    after.extend(sets.iter().filter(|set| set.value.is_some()).cloned());
    after.sort_by(|a, b| (&a.knob, a.level).cmp(&(&b.knob, b.level)));
    after
}

/// The sets that make `to` of `from`.
pub fn way(from: &[Set], to: &[Set]) -> Vec<Set> {
    let is_in = |sets: &[Set], wanted: &Set| {
        sets.iter().any(|set| (&set.knob, set.level) == (&wanted.knob, wanted.level))
    };
    let resets = from.iter().filter(|old| !is_in(to, old)).map(|old| Set::reset(&old.knob, old.level));
    let mut way: Vec<Set> = resets.collect();
    way.extend(to.iter().filter(|set| set.level.is_none() && !from.contains(set)).cloned());
    // What these end of single levels is set again.
    let ended = |set: &Set| way.iter().any(|other| is_ended_by(set, other));
    let levels = to.iter().filter(|set| set.level.is_some() && (!from.contains(set) || ended(set)));
    let levels: Vec<Set> = levels.cloned().collect();
    way.extend(levels);
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(of: &[(&str, Option<u32>, u32)]) -> Vec<Set> {
        of.iter().map(|(knob, level, value)| Set { level: *level, ..Set::new(knob, value) }).collect()
    }

    #[test]
    fn the_way_from_one_set_of_settings_to_another_ends_there() {
        let states = [
            vec![],
            sets(&[("block_bytes", None, 4096)]),
            sets(&[("run_limit", None, 3), ("size_ratio", None, 8)]),
            sets(&[("run_limit", None, 3), ("run_limit", Some(1), 5)]),
            sets(&[("run_limit", None, 4), ("run_limit", Some(1), 5), ("run_limit", Some(2), 6)]),
            sets(&[("run_limit", Some(1), 2)]),
            sets(&[("run_limit", Some(0), 9)]),
            sets(&[("run_limit", None, 3), ("run_limit", Some(0), 9)]),
        ];
        for from in &states {
            for to in &states {
                assert_eq!(after(from, &way(from, to)), *to, "{from:?} to {to:?}");
                assert_eq!(way(from, to).is_empty(), from == to);
            }
        }
    }
}
