//! What an agent may change now: the part of `Coordinator` that refuses proposals.
//!
//! `forbidden` says why one may not be made, `is_closed` whether none may. `foreign` are the knobs
//! that others have set.
//!
//! What must hold: what others have set is left alone, whatever the `Rules` say.
//!
//! Callers: `coordinator`, and `returning` before it goes home.

use super::Coordinator;
use crate::{
    agent::{Proposal, Set, Step},
    sight::Window,
};
use solera::knob::Value;

impl Coordinator {
    /// Why `proposal` is not allowed, if it is not.
    pub(super) fn forbidden(&self, window: &Window, proposal: &Proposal, moves: &[String]) -> Option<String> {
        if proposal.sets.is_empty() || !proposal.predicted.is_finite() {
            return Some("it sets nothing, or predicts what is no number".into());
        }
        if let Some(set) = proposal.sets.iter().find(|set| self.is_foreign(window, set)) {
            return Some(format!("{set}: somebody else set {}", set.knob));
        }
        if !self.rules.guarded {
            return None;
        }
        if let Some(broken) = self.goal.broken(window).filter(|_| proposal.predicted >= 1.0) {
            return Some(format!("{broken}, and no gain is predicted"));
        }
        if !(0.0..=self.once_most()).contains(&proposal.once) {
            return Some(format!("it takes {:.2} windows once, which is too much now", proposal.once));
        }
        if let Some(set) = proposal.sets.iter().find(|set| !self.dares(window, set)) {
            return Some(format!("{set} is too far at once, as long as so few changes have helped"));
        }
        let tabu = self.state.tabus.forbids(window.context, window.number, moves);
        tabu.map(|(what, until)| format!("{what} did not help: not before window {until}"))
    }

    /// Whether nothing may be changed after `window`, whatever it is, so that no agent need be
    /// asked: its context has had its changes, the last ones hurt, or all of them have cost what
    /// they may.
    pub(super) fn is_closed(&self, window: &Window) -> bool {
        let changes = self.state.places.get(&window.context).map_or(0, |place| place.changes);
        let is_open = changes < self.rules.changes_per_context
            && window.number >= self.state.muted_until
            && self.state.regret.affords(&self.rules);
        self.rules.guarded && !is_open
    }

    /// Whether knobs may at least be unset: this tuner has set some, and the context
    /// has not had all its changes.
    pub(super) fn may_go_home(&self, window: &Window) -> bool {
        let changes = self.state.places.get(&window.context).map_or(0, |place| place.changes);
        changes < self.rules.changes_per_context && !self.state.own.is_empty()
    }

    /// Whether its agent's record allows a step as large as `set`.
    pub(super) fn dares(&self, window: &Window, set: &Set) -> bool {
        let old = window.number(&set.knob, set.level);
        let new = set.value.as_deref().and_then(|value| Value::parse(value).number());
        let step = |(old, new)| Step { knob: &set.knob, level: set.level, old, new };
        old.zip(new).map(step).is_none_or(|step| self.state.credit.allows(step))
    }

    /// Whether `set` would change what a person or another program has set.
    pub(super) fn is_foreign(&self, window: &Window, set: &Set) -> bool {
        self.foreign(window).iter().any(|(knob, level)| set.touches(knob, *level))
    }

    /// The knobs that a person or another program has set.
    pub(super) fn foreign(&self, window: &Window) -> Vec<(String, Option<u32>)> {
        let is_own = |setting: &&crate::sight::Setting| {
            self.state.own.iter().any(|own| (&own.knob, own.level) == (&setting.knob, setting.level))
        };
        let set = window.settings.iter().filter(|setting| setting.is_set);
        set.filter(|setting| !is_own(setting)).map(|setting| (setting.knob.clone(), setting.level)).collect()
    }
}
