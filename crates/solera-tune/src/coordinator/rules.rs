//! The rules that every agent's changes obey: `Rules`. Each number says here what it is for: how
//! changes are judged, what they may lose, how long what hurt must wait.
//!
//! What must hold: with any rules, one change at a time is all there is. `unguarded` takes nothing
//! back that hurts, for experiments that repeat a paper's agent as it was printed. Only what an
//! agent that panics, or another process, left open is taken back. `is_sane` refuses numbers that
//! no journal can hold.
//!
//! Callers: `coordinator` and its `baseline`, `regret`, `tabu`, `state` and `journal`.
//! `Attach::rules` takes others: from the pages `safety` and `epochs` of `solera-bench`,
//! `solera-sim`'s `tuner`, and tests.

use serde::{Deserialize, Serialize};

/// What is allowed, and what is taken back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Whether changes are judged and taken back. Without it an agent does as it likes, as the
    /// papers' agents do; one change at a time is still all there is.
    pub guarded: bool,
    /// Windows of a context that must be measured before something is changed in it.
    pub windows_before: u32,
    /// Windows by which a change is judged, at least. Two: one may be chance.
    pub windows_judged: u32,
    /// The same, at most: a change that is now worse and now not is judged by their mean.
    pub windows_judged_max: u32,
    /// How much worse a window may be than its context's baseline, as a share of it.
    pub loss_max: f64,
    /// The same in median absolute deviations of the baseline: the larger of the two counts.
    pub loss_mads_max: f64,
    /// How many times its baseline's cost a single window may have before the change is taken back
    /// at once.
    pub cost_factor_max: f64,
    /// How many times its baseline's 99th percentile a window may have.
    pub p99_factor_max: f64,
    /// What changes that hurt may cost in all, as a share of the time that was served so far.
    pub regret_share: f64,
    /// What they may cost before anything was done, in windows.
    pub regret_windows: f64,
    /// What an open change may lose, in windows, before its window is ended early and it is taken
    /// back.
    pub stop_windows: f64,
    /// What a change may take once, in windows.
    #[serde(default = "once_windows")]
    pub once_windows: f64,
    /// The same as a share of the windows that its context has lasted.
    #[serde(default = "once_share")]
    pub once_share: f64,
    /// Windows for which no change is made after one that hurt; doubles with each that hurts too.
    pub mute: u64,
    /// Windows for which a change that hurt is not tried again: the first time, the second, and
    /// from then on.
    pub pauses: [u64; 3],
    /// Changes that are made in one context, at most.
    pub changes_per_context: u32,
    /// Windows that are not measured after something was taken back: the tree is on its way.
    pub rest: u32,
    /// The same, at most, as long as they are worse than what was before the change.
    pub rest_max: u32,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            guarded: true,
            windows_before: 1,
            windows_judged: 2,
            windows_judged_max: 4,
            loss_max: 0.05,
            loss_mads_max: 3.0,
            cost_factor_max: 2.0,
            p99_factor_max: 2.0,
            regret_share: 0.03,
            regret_windows: 0.15,
            stop_windows: 0.15,
            once_windows: once_windows(),
            once_share: once_share(),
            mute: 8,
            pauses: [8, 16, 32],
            changes_per_context: 6,
            rest: 1,
            rest_max: 8,
        }
    }
}

/// One that is longer than a window cannot be told from harm.
fn once_windows() -> f64 {
    1.0
}

/// What a context loses by it at most that ends right afterwards.
fn once_share() -> f64 {
    0.1
}

impl Rules {
    /// No guard: for experiments that repeat a paper's agent as it was printed.
    pub fn unguarded() -> Rules {
        Rules { guarded: false, windows_before: 0, changes_per_context: u32::MAX, ..Rules::default() }
    }

    /// Whether a journal can hold them, and what is reckoned by them: JSON has no number that is
    /// not finite.
    pub fn is_sane(&self) -> bool {
        const MOST: f64 = 1e12;
        let rules = serde_json::to_value(self).expect("rules are a map with names for keys");
        let is_sane = |rule: &serde_json::Value| match rule {
            serde_json::Value::Number(number) if number.is_f64() => {
                number.as_f64().is_some_and(|number| number.abs() <= MOST)
            }
            // What is not finite.
            serde_json::Value::Null => false,
            _ => true,
        };
        rules.as_object().is_some_and(|rules| rules.values().all(is_sane))
    }
}
