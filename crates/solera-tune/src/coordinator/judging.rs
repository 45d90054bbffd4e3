//! Whether an open change helped: the part of `Coordinator` that judges it, window by window.
//!
//! `judge` holds a window against the baseline of its context (`held_against`), with merges spread
//! evenly (`ratio`). `judge_whole` says what the windows say together; the change is kept (`keep`)
//! or taken back (`undo`). `harm` says before a window has ended that it hurts too much.
//!
//! What must hold: what a change takes once is set aside (`once_of`, `without`). Merges that take
//! more than any before count against it, whatever is spread (`goes_beyond`).
//!
//! Caller: `coordinator`; `returning` asks what a window came to.

use super::{
    Coordinator, Decision, Purpose, Rules,
    baseline::{Baseline, Measured},
    state::{self, Open},
};
use crate::{
    agent::Outcome,
    sight::{Blocked, Traits, Window},
};

/// Windows that say nothing of an open change before it is let be.
const WAIT_MAX: u32 = 4;
/// Windows in a row in which background work is behind before an open change is held to be the
/// cause.
const BEHIND_MAX: u32 = 2;
/// How much worse than its baseline the part of a window must be that is ended early, in
/// tolerances of a whole one: a part holds less of the tree's work, and so more of chance.
const EARLY_TOLERANCES: f64 = 2.0;
/// What windows under an open change may cost together beyond the dearest of the baseline, of what
/// one costs.
const BEYOND_MAX: f64 = 0.5;
/// Samples without which a 99th percentile is not believed.
const P99_SAMPLES: u64 = 400;
/// Loss below which a change that was judged counts as having helped as little as it hurt, as a
/// share.
const GAIN_MIN: f64 = 0.01;

impl Coordinator {
    /// What an open change has lost, in windows, by what was `so_far` done in a window, if that is
    /// enough to end it early.
    pub fn harm(&self, so_far: &Window) -> Option<f64> {
        let open = self.state.open.as_ref().filter(|_| self.rules.guarded)?;
        // The way home has a price that was put off. Who turns back on it pays, and stays away.
        if open.proposal.is_homeward() {
            return None;
        }
        let cost = self.goal.cost(so_far)?;
        let baseline = self.held_against(so_far, cost)?;
        let window = measured(so_far, cost);
        if !self.state.merging.explains(window.moved, baseline.usual()) {
            return None;
        }
        let ratio = self.ratio(baseline, so_far.context, &window);
        let once_ns = self.once_of(baseline, cost, so_far.elapsed_ns);
        let (ratio, elapsed_ns) = self.without(once_ns, ratio, baseline, so_far, cost);
        let lost = self.state.regret.of_open_with(ratio, elapsed_ns);
        let most = 1.0 + EARLY_TOLERANCES * baseline.tolerance(&self.rules, &self.state.merging);
        (ratio > most && lost > self.rules.stop_windows).then_some(lost)
    }

    /// What `context` costs under the settings that stood before the change that is open; that
    /// stand, if there is none.
    pub(super) fn baseline(&self, context: u32) -> Option<&Baseline> {
        let own = self.state.open.as_ref().map_or(&self.state.own, |open| &open.before);
        self.state.places.get(&context)?.baseline_under(own)
    }

    /// What `window`, which cost so much, is held against: what its context costs. Where that is
    /// unknown, a change may have made it another context, by the sizes of what is stored. So one
    /// that is asked the same as before an open change, and costs far more, is held against that.
    pub(super) fn held_against(&self, window: &Window, cost: f64) -> Option<&Baseline> {
        let of_context = self.baseline(window.context);
        of_context.or_else(|| {
            let open = self.state.open.as_ref()?;
            let is_alike = open.asked.as_ref()?.is_asked_like(&Traits::of(window));
            let before = self.baseline(open.context).filter(|_| is_alike)?;
            let most = self.rules.cost_factor_max * before.mean(&self.state.merging);
            (cost > most).then_some(before)
        })
    }

    /// What `window` cost of what its context did, with merges spread evenly; under the change
    /// that is open, if there is one.
    pub(super) fn ratio(&self, baseline: &Baseline, context: u32, window: &Measured) -> f64 {
        let merging = &self.state.merging;
        let open = self.state.open.iter().flat_map(|open| &open.costs);
        let others = open.filter(|(of, _)| *of == context).map(|(_, window)| window);
        let usual = match self.state.open {
            Some(_) => baseline.usual_with(others.chain([window])),
            None => baseline.usual(),
        };
        share(merging.evened(window.cost, window.moved, usual), baseline.mean(merging))
    }

    /// Of a window that cost so much, the nanoseconds that are what the open change takes once.
    pub(super) fn once_of(&self, baseline: &Baseline, cost: f64, elapsed_ns: u64) -> f64 {
        self.state.regret.once_of(share(cost, baseline.mean(&self.state.merging)), elapsed_ns)
    }

    /// What `window` cost of its baseline and how long it took, where `once_ns` of it are left out;
    /// `ratio` with them.
    pub(super) fn without(
        &self,
        once_ns: f64,
        ratio: f64,
        baseline: &Baseline,
        window: &Window,
        cost: f64,
    ) -> (f64, u64) {
        if once_ns <= 0.0 {
            return (ratio, window.elapsed_ns);
        }
        let rest = (window.elapsed_ns as f64 - once_ns).max(0.0);
        let cost = cost * rest / window.elapsed_ns.max(1) as f64;
        // A window of which something is left out never speaks for the change. Merges that are
        // spread evenly may be more than it said.
        (ratio.min(share(cost, baseline.mean(&self.state.merging)).max(1.0)), rest as u64)
    }

    /// What a change may take once, in windows.
    pub(super) fn once_most(&self) -> f64 {
        let Rules { once_windows, once_share, .. } = self.rules;
        let of_context = once_share * f64::from(self.state.stay.windows);
        if self.state.regret.owes() { 0.0 } else { once_windows.min(of_context) }
    }

    /// Judges the open change by one more window.
    pub(super) fn judge(&mut self, window: &Window, decision: &mut Decision) {
        let ratio = decision.cost.and_then(|cost| {
            let baseline = self.held_against(window, cost)?.clone();
            let (window, context) = (measured(window, cost), window.context);
            if !self.state.merging.explains(window.moved, baseline.usual()) {
                // The first that has merges: what it cost more is taken to be theirs.
                let mean = (baseline.mean(&self.state.merging), baseline.usual());
                self.state.merging.learn(mean, (cost, window.moved));
            }
            Some((self.ratio(&baseline, context, &window), baseline))
        });
        if decision.cost.is_some() {
            self.state.stay.add(window.context);
            self.state.regret.repay(window.context, window.elapsed_ns);
        }
        let elsewhere = self.state.open.as_ref().is_some_and(|open| open.context != window.context);
        if decision.cost.is_some() && elsewhere && self.own_settings(window.context).is_some() {
            let open = self.state.open.take().expect("a change is open");
            self.state.regret.close();
            self.tell_of(&open, decision, Outcome::Untold);
            self.returns(window, decision);
            return;
        }
        let untold = decision.cost.is_some() && elsewhere && ratio.is_none();
        if untold && self.must_leave() {
            return self.leaves(decision);
        }
        let mut open = self.state.open.take().expect("a change is open");
        if self.off().is_some() {
            return self.undo(window, open, "its agent is gone".into(), decision);
        }
        let behind = window.blocked == Some(Blocked::Backlog);
        open.behind = if behind { open.behind + 1 } else { 0 };
        if behind && open.behind >= BEHIND_MAX && self.rules.guarded {
            return self.undo(window, open, "background work fell behind".into(), decision);
        }
        let (Some(cost), Some((ratio, baseline))) = (decision.cost, ratio) else {
            if let Some(cost) = decision.cost {
                open.costs.push((window.context, measured(window, cost)));
            }
            open.waited += 1;
            // To wait for windows of its own context would keep the present one from changes.
            let is_over = untold && self.rules.guarded;
            return match is_over || open.waited >= WAIT_MAX {
                true => self.keep(open, None, decision),
                false => self.state.open = Some(open),
            };
        };
        let tolerance = baseline.tolerance(&self.rules, &self.state.merging);
        let once_ns = self.once_of(&baseline, cost, window.elapsed_ns);
        let (ratio, elapsed_ns) = self.without(once_ns, ratio, &baseline, window, cost);
        let beyond = self.goes_beyond(&mut open, &baseline, cost, once_ns / window.elapsed_ns.max(1) as f64);
        let ratio = beyond.unwrap_or(ratio);
        self.state.regret.take(once_ns);
        let p99_limit = baseline.p99_ns() * self.rules.p99_factor_max;
        self.state.regret.pass(window.elapsed_ns, window.early);
        self.state.regret.charge(ratio, elapsed_ns);
        // What is taken once says nothing of the windows to come.
        if once_ns <= 0.0 {
            open.costs.push((window.context, measured(window, cost)));
        }
        if self.rules.guarded {
            let p99 = window.samples >= P99_SAMPLES && p99_limit > 0.0 && window.p99_ns as f64 > p99_limit;
            let factor = ratio > self.rules.cost_factor_max;
            let broken = self.goal.broken(window);
            open.worse = if ratio > 1.0 + tolerance { open.worse + 1 } else { 0 };
            let why = match broken {
                Some(broken) => Some(broken),
                None if window.early => Some("it hurt so much that its window was ended early".into()),
                None if beyond.is_some() => Some("its merges took more than any before it".into()),
                None if factor => Some("one window was enough to see that it hurts".into()),
                None if p99 && open.worse > 0 => Some("the 99th percentile more than doubled".into()),
                None if open.worse >= 2 => Some("two windows in a row were worse".into()),
                None => None,
            };
            if let Some(why) = why {
                open.ratios.push(ratio);
                return self.undo(window, open, why, decision);
            }
        }
        if open.settle > 0 {
            open.settle -= 1;
            self.state.open = Some(open);
            return;
        }
        open.ratios.push(ratio);
        // From the second window that judges on, what is worse by chance must count.
        self.state.regret.end_aside();
        self.judge_whole(window, open, tolerance, decision);
    }

    /// What a window under `open` cost of its `baseline`, merges and all, if such windows together
    /// took more than merges ever made one take before; `once` is the share that is set aside.
    pub(super) fn goes_beyond(
        &self,
        open: &mut Open,
        baseline: &Baseline,
        cost: f64,
        once: f64,
    ) -> Option<f64> {
        let mean = baseline.mean(&self.state.merging);
        let most =
            baseline.dearest().max(mean * (1.0 + baseline.tolerance(&self.rules, &self.state.merging)));
        let rest = cost * (1.0 - once).max(0.0);
        if rest > most {
            open.beyond += share(rest - most, mean);
        }
        let is_judged = self.rules.guarded && baseline.knows_chance() && !open.proposal.is_homeward();
        (is_judged && open.beyond > BEYOND_MAX).then(|| share(rest, mean))
    }

    /// Whether enough windows have judged the change, and what they say together.
    pub(super) fn judge_whole(
        &mut self,
        window: &Window,
        open: Open,
        tolerance: f64,
        decision: &mut Decision,
    ) {
        let judged = open.ratios.len() as u32;
        let mean = open.ratios.iter().sum::<f64>() / f64::from(judged);
        if !self.rules.guarded {
            return self.keep(open, Some(mean), decision);
        }
        // What the mean of so many windows may be off by.
        let noise = (tolerance / self.rules.loss_mads_max.max(1.0) / f64::from(judged).sqrt()).max(GAIN_MIN);
        let enough = judged >= self.rules.windows_judged;
        let last = judged >= self.rules.windows_judged_max;
        // One window is enough where it is better by more than chance ever makes one.
        if (enough && mean < 1.0 - noise) || mean < 1.0 - tolerance {
            self.keep(open, Some(mean), decision);
        } else if last {
            match mean < 1.0 {
                true => self.keep(open, Some(mean), decision),
                false => self.undo(window, open, "it did not help".into(), decision),
            }
        } else {
            self.state.open = Some(open);
        }
    }

    /// The change stays: what contexts cost from now on is not what they did.
    pub(super) fn keep(&mut self, open: Open, ratio: Option<f64>, decision: &mut Decision) {
        let (rules, own, merging) = (&self.rules, &self.state.own, &self.state.merging);
        for (id, place) in &mut self.state.places {
            let of_place = open.costs.iter().filter(|(context, _)| context == id);
            let of_place: Vec<&Measured> = of_place.map(|(_, window)| window).collect();
            if of_place.is_empty() {
                continue;
            }
            let before = place.baseline_under(&open.before);
            let after = before.map(|before| before.usual_with(of_place.iter().copied()));
            (place.baseline, place.worse) = (after.map(Baseline::expecting).unwrap_or_default(), 0);
            place.forget_least();
            place.under.clone_from(own);
            place.home |= own.is_empty();
            of_place.into_iter().for_each(|window| place.baseline.add(*window));
            place.moor(rules, merging);
        }
        self.state.regret.lend(open.context, ratio.unwrap_or(1.0));
        self.state.regret.close();
        let outcome = ratio.map_or(Outcome::Untold, |ratio| Outcome::Kept { ratio });
        self.tell_of(&open, decision, outcome);
    }

    /// The change is taken back, and not tried again for a while.
    pub(super) fn undo(&mut self, window: &Window, open: Open, why: String, decision: &mut Decision) {
        let judged = open.ratios.len().max(1) as f64;
        let ratio = if open.ratios.is_empty() { 1.0 } else { open.ratios.iter().sum::<f64>() / judged };
        self.state.tabus.add(open.context, window.number, &open.moves, &self.rules);
        if self.state.own.is_empty() {
            self.state.places.entry(open.context).or_default().home = true;
        }
        // Going home and back again does no harm, so no setting is charged with it.
        if open.proposal.is_homeward() {
            self.state.regret.forgive()
        } else {
            self.state.regret.close()
        }
        self.begin_rest();
        let sets = state::way(&self.state.own, &open.before);
        self.tell_of(&open, decision, Outcome::Undone { ratio, why: why.clone() });
        if !sets.is_empty() {
            self.order(Purpose::Undo, sets, why, None, decision);
        }
    }
}

/// What `window` came to, at this cost.
pub(super) fn measured(window: &Window, cost: f64) -> Measured {
    // A value that is kept apart is written by the log in the place of a flush.
    let apart = if window.separated_values > 0 { window.log_bytes } else { 0 };
    let moved = (window.bytes_flushed + window.bytes_compacted + apart) as f64;
    Measured { cost, moved: moved / window.operations.total().max(1) as f64, p99_ns: window.p99_ns }
}

/// What `cost` is of `baseline`, where either may be nothing at all.
pub(super) fn share(cost: f64, baseline: f64) -> f64 {
    const NOTHING: f64 = 1e-9;
    (cost + NOTHING) / (baseline + NOTHING)
}
