//! Changes that did not help and are not to be tried again for a while: `Tabus`.
//!
//! What is forbidden is a knob's direction in a context (`moves`), not one value: an agent that was
//! hurt by 12 is not to try 13. Of a knob with names it is the name. What the engine refused is
//! forbidden too.
//!
//! What must hold: the pause grows with each time: by the default rules 8, 16, and from then on 32
//! windows. 256 are remembered; the oldest makes room.
//!
//! Callers: `coordinator` adds and asks, `state` keeps it.

use super::rules::Rules;
use crate::agent::Set;
use crate::sight::Window;
use serde::{Deserialize, Serialize};
use solera::knob::Value;

/// Entries that are remembered.
const TABUS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Tabu {
    context: u32,
    what: String,
    /// The window from which on it may be tried again.
    until: u64,
    times: u32,
}

/// What is not to be tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tabus(Vec<Tabu>);

impl Tabus {
    /// `sets`, as they differ from what `window` has, did not help: not again for a while.
    pub fn add(&mut self, context: u32, window: u64, moves: &[String], rules: &Rules) {
        for what in moves {
            let known = self.0.iter().position(|tabu| tabu.context == context && tabu.what == *what);
            let times = known.map_or(0, |at| self.0.remove(at).times);
            if self.0.len() == TABUS_MAX {
                self.0.remove(0);
            }
            let pause = rules.pauses[(times as usize).min(rules.pauses.len() - 1)];
            let until = window.saturating_add(pause);
            self.0.push(Tabu { context, what: what.clone(), until, times: times.saturating_add(1) });
        }
    }

    /// Which of `moves` is not to be tried in window `window`, and until which.
    pub fn forbids(&self, context: u32, window: u64, moves: &[String]) -> Option<(&str, u64)> {
        let found = self
            .0
            .iter()
            .find(|tabu| tabu.context == context && tabu.until > window && moves.contains(&tabu.what));
        found.map(|tabu| (tabu.what.as_str(), tabu.until))
    }
}

/// What `sets` do to what `window` has, each as a knob, a level and a direction.
pub fn moves(window: &Window, sets: &[Set]) -> Vec<String> {
    sets.iter().map(|set| one_move(window, set)).collect()
}

fn one_move(window: &Window, set: &Set) -> String {
    let level = set.level.map_or(String::new(), |level| format!("[{level}]"));
    let old = window.setting(&set.knob, set.level).map(|setting| Value::parse(&setting.value));
    let numbers = old
        .and_then(|old| old.number())
        .zip(set.value.as_deref().and_then(|value| value.parse::<f64>().ok()));
    let direction = match (numbers, &set.value) {
        (Some((old, new)), _) if new > old => "up".to_owned(),
        (Some((old, new)), _) if new < old => "down".to_owned(),
        (Some(_), _) => "the same".to_owned(),
        (None, Some(name)) => format!("to {name}"),
        (None, None) => "as nobody set it".to_owned(),
    };
    format!("{}{level} {direction}", set.knob)
}
