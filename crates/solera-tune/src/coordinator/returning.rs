//! Going back: the part of `Coordinator` that gives contexts their own settings, rests after a
//! change was taken back, and goes home.
//!
//! `arrives` and `returns` restore the settings under which a context was cheapest when it is back,
//! `restores` when it has become dear. `rests` lets the tree have its time after a change was taken
//! back, until that is in vain. `goes_home` unsets all knobs, in a context that never was at home.
//!
//! What must hold: where `Rules` are unguarded, nothing is restored and nothing goes home.
//!
//! Callers: `coordinator`, and `judging` where the context of an open change has ended.

use super::{
    Coordinator, Decision, Purpose,
    baseline::FAR,
    judging::{measured, share},
    state, tabu,
};
use crate::{
    agent::{Outcome, Proposal, Set},
    sight::Window,
};

/// Windows in a row that are worse than the best of their context before settings are restored.
const WORSE_THAN_BEST: u32 = 3;
/// Windows in a row by which a context has lasted.
const LASTS: u32 = 3;
/// How many times the tolerance of a single window that is.
pub(super) const BEST_TOLERANCE: f64 = 2.0;

impl Coordinator {
    /// Goes home for an agent that does not price the way itself, in a context that was never
    /// measured with no knob set: what was set for other workloads may be bad for it. For one that
    /// does, where the context costs more than it did under the same settings, and nothing else
    /// may be changed: the agent may be wrong.
    pub(super) fn goes_home(&mut self, window: &Window, decision: &mut Decision) -> bool {
        let Some(place) = self.state.places.get(&window.context) else { return false };
        let is_dear = place.dearer.max(self.state.astray) >= WORSE_THAN_BEST && self.is_closed(window);
        let is_priced = self.agent.prices_home() && !is_dear;
        if !self.rules.guarded || place.home || is_priced || !self.may_go_home(window) {
            return false;
        }
        let sets = state::way(&self.state.own, &[]);
        let moves = tabu::moves(window, &sets);
        let why = "this context was never measured as nobody set it".to_owned();
        let proposal = Proposal { sets, why, predicted: 1.0, settle: 0, once: 0.0 };
        decision.proposal = Some(proposal.clone());
        self.state.astray = 0;
        self.order_try(window, proposal, moves, true, decision);
        true
    }

    /// Whether what was taken back is still on its way: a while, and longer as long as the context
    /// is worse than it was.
    pub(super) fn rests(&mut self, window: &Window, cost: f64, decision: &Decision) -> bool {
        let baseline = self.baseline(window.context);
        let ratio = baseline.map(|baseline| self.ratio(baseline, window.context, &measured(window, cost)));
        let is_worse = ratio.zip(decision.tolerance).is_some_and(|(ratio, most)| ratio > 1.0 + most);
        if self.state.recover == 0 || (self.state.rest == 0 && !is_worse) {
            (self.state.rest, self.state.recover) = (0, 0);
            return false;
        }
        self.state.rest = self.state.rest.saturating_sub(1);
        self.state.recover -= 1;
        if let Some(ratio) = ratio {
            self.state.regret.pay(ratio, window.elapsed_ns);
        }
        let is_far = decision.baseline.is_some_and(|baseline| cost > FAR * baseline);
        let is_astray = is_far
            || ratio.zip(decision.tolerance).is_some_and(|(ratio, most)| ratio > 1.0 + BEST_TOLERANCE * most);
        self.state.astray = if is_astray { self.state.astray + 1 } else { 0 };
        !self.gives_up_rest(window.context)
    }

    /// Whether a context that was never measured with no knob set has become no better by what was
    /// taken back. Then the settings that stood before are dear as well, and what it cost under
    /// them earlier was of another tree.
    pub(super) fn gives_up_rest(&mut self, context: u32) -> bool {
        let place = self.state.places.get_mut(&context).filter(|place| !place.home);
        let Some(place) = place.filter(|_| self.state.astray >= WORSE_THAN_BEST) else { return false };
        place.begin_anew();
        (self.state.rest, self.state.recover) = (0, 0);
        true
    }

    /// What was set is taken back: the tree has its time.
    pub(super) fn begin_rest(&mut self) {
        self.state.astray = 0;
        self.state.rest = self.rules.rest;
        self.state.recover = self.rules.rest_max.max(self.rules.rest);
    }

    /// The settings under which `context` was cheapest, if they are others than those that stand,
    /// under which it is not known, and the context before it lasted.
    pub(super) fn own_settings(&self, context: u32) -> Option<Vec<Set>> {
        if self.state.stay.before(context) < LASTS || !self.rules.guarded {
            return None;
        }
        let place = self.state.places.get(&context)?;
        let anchor = place.anchor.as_ref().filter(|anchor| anchor.own != self.state.own)?;
        let is_known = self.state.open.is_none() && place.baseline_under(&self.state.own).is_some();
        (!is_known).then(|| anchor.own.clone())
    }

    /// A known context is back, and its window has only begun.
    pub(super) fn arrives(&mut self, window: &Window, decision: &mut Decision) {
        let elsewhere = self.state.open.as_ref().is_none_or(|open| open.context != window.context);
        if self.off().is_some() || !elsewhere {
            return;
        }
        if self.own_settings(window.context).is_some() {
            if let Some(open) = self.state.open.take() {
                self.state.regret.close();
                self.tell_of(&open, decision, Outcome::Untold);
            }
            self.returns(window, decision);
        } else if self.state.open.is_some() && self.must_leave() {
            self.leaves(decision);
        }
    }

    /// Whether the open change is taken back in a context that cannot judge it: it has gained
    /// nothing so far.
    pub(super) fn must_leave(&self) -> bool {
        self.rules.guarded && !self.state.regret.gains()
    }

    /// The context of the open change has ended before the change was judged or has gained
    /// anything, and the one that has begun cannot judge it: what it cost before is unknown.
    pub(super) fn leaves(&mut self, decision: &mut Decision) {
        let open = self.state.open.take().expect("a change is open");
        self.state.regret.close();
        let sets = state::way(&self.state.own, &open.before);
        self.tell_of(&open, decision, Outcome::Untold);
        if !sets.is_empty() {
            let why = "its context ended before it was judged".into();
            self.order(Purpose::Undo, sets, why, None, decision);
        }
    }

    /// Gives a context that has come back its own settings.
    pub(super) fn returns(&mut self, window: &Window, decision: &mut Decision) -> bool {
        let Some(own) = self.own_settings(window.context) else { return false };
        let sets = state::way(&self.state.own, &own);
        let why = format!("context {} is back: these were its settings", window.context);
        self.order(Purpose::Restore, sets, why, None, decision);
        true
    }

    /// Whether the context is worse than it has been under other settings of this tuner, for long
    /// enough: then those are restored.
    pub(super) fn restores(&mut self, window: &Window, cost: f64, decision: &mut Decision) -> bool {
        let number = window.number;
        if !self.rules.guarded {
            return false;
        }
        let Some(place) = self.state.places.get_mut(&window.context) else { return false };
        let Some(anchor) = place.anchor.clone() else { return false };
        let merging = &self.state.merging;
        let moved = measured(window, cost).moved;
        let ratio = share(merging.evened(cost, moved, place.baseline.usual()), anchor.mean);
        let is_worse = anchor.own != self.state.own && ratio > 1.0 + BEST_TOLERANCE * anchor.tolerance;
        place.worse = if is_worse { place.worse + 1 } else { 0 };
        if place.worse < WORSE_THAN_BEST || number < place.restore_from {
            return false;
        }
        let pause = self.rules.pauses[(place.restores as usize).min(self.rules.pauses.len() - 1)];
        place.restores += 1;
        place.restore_from = number.saturating_add(pause);
        (place.worse, place.anchor) = (0, None);
        self.state.regret.write_off();
        let sets = state::way(&self.state.own, &anchor.own);
        let moves: Vec<String> = tabu::moves(window, &state::way(&anchor.own, &self.state.own));
        self.state.tabus.add(window.context, number, &moves, &self.rules);
        self.begin_rest();
        let why = format!("the context cost {ratio:.2} times what it did under other settings");
        self.tell(decision, Outcome::Undone { ratio, why: why.clone() });
        self.order(Purpose::Restore, sets, why, None, decision);
        true
    }
}
