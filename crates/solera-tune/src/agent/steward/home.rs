//! The way back to settings that the database begins with: `Home`, what knobs stand at while they
//! are not set.
//!
//! `note` learns that from windows. `way` says which knobs to reset, and the plan that this comes
//! to.
//!
//! What must hold: what a person or another program has set is not reset. If one of the other knobs
//! was never seen unset, where it would stand is not known. Then there is no way, and nothing is
//! reset.
//!
//! Caller: `steward`, which goes home where nothing else may be changed.

use super::plan::Plan;
use crate::{
    agent::Set,
    sight::{Setting, Window},
};
use serde::{Deserialize, Serialize};
use solera::control::knob::RUN_LIMIT;

/// What knobs stand at while they are not set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Home(Vec<Unset>);

/// A knob, its level if it has one, and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Unset {
    knob: String,
    level: Option<u32>,
    value: String,
}

impl Home {
    /// Notes the knobs that are not set.
    pub(super) fn note(&mut self, window: &Window) {
        let is_set = |knob: &str, level| window.setting(knob, level).is_some_and(|of| of.is_set);
        for Setting { knob, level, value, is_set: own } in &window.settings {
            // What is set for all levels shows in each, but for level 0's run limit.
            let of_all = level.is_some() && (*level, knob.as_str()) != (Some(0), RUN_LIMIT.name);
            if *own || (of_all && is_set(knob, None)) {
                continue;
            }
            match self.0.iter_mut().find(|unset| (&unset.knob, unset.level) == (knob, *level)) {
                Some(unset) => unset.value.clone_from(value),
                None => self.0.push(Unset { knob: knob.clone(), level: *level, value: value.clone() }),
            }
        }
    }

    fn value(&self, knob: &str, level: Option<u32>) -> Option<&str> {
        let of = |level| self.0.iter().find(|unset| unset.knob == knob && unset.level == level);
        of(level).or_else(|| of(None)).map(|unset| unset.value.as_str())
    }

    /// What resets the knobs of `window` that are set, but for `foreign` ones, and the plan that it
    /// has then; `None` if there are none, or it is not known where they stood.
    pub(super) fn way(&self, window: &Window, foreign: &[(String, Option<u32>)]) -> Option<(Vec<Set>, Plan)> {
        let is_foreign = |set: &Set| foreign.iter().any(|(knob, level)| set.touches(knob, *level));
        let set = window.settings.iter().filter(|setting| setting.is_set);
        let sets = set.map(|setting| Set::reset(&setting.knob, setting.level));
        let sets: Vec<Set> = sets.filter(|set| !is_foreign(set)).collect();
        let mut home = window.clone();
        let touched =
            |setting: &&mut Setting| sets.iter().any(|set| set.touches(&setting.knob, setting.level));
        for setting in home.settings.iter_mut().filter(touched) {
            setting.value = self.value(&setting.knob, setting.level)?.to_owned();
            setting.is_set = false;
        }
        (!sets.is_empty()).then(|| (sets, Plan::of(&home)))
    }
}
