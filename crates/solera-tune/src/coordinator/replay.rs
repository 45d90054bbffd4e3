//! Deciding again, offline, from a journal's records: `replay` compares each decision with the one
//! that was written down, and gives a `Replay`.
//!
//! `resume` brings a tuner back to what it knew when its process ended (`Resumed`). It decides
//! again, without comparing, what was decided after the newest beginning.
//!
//! What must hold: what `replay` decides now is what was decided then, and known at each beginning
//! that goes on; the first `Difference` ends it. Records that cannot follow each other are an
//! error.
//!
//! Callers: `attach::stepper` resumes; `solera tune replay`, `solera-sim`'s `tuner` and the tests
//! replay.

use super::{
    Answer, Coordinator, Order, State,
    journal::{Begin, Record},
};
use crate::{
    agent,
    sight::{Contexts, Traits, Window},
};

/// What deciding again came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Decisions that were made again.
    pub decisions: u64,
    /// Orders in them.
    pub orders: u64,
    /// Beginnings.
    pub begins: u64,
    /// The first difference: the window, what was decided then, and what is decided now, as JSON.
    pub difference: Option<Difference>,
}

/// A decision that is another now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the window; of the last one before a beginning that differs.
    pub window: u64,
    /// What is in the journal.
    pub then: String,
    /// What it would be now.
    pub now: String,
}

/// Where a tuner stood when its journal ended.
#[derive(Debug)]
pub struct Resumed {
    /// The newest beginning.
    pub begin: Begin,
    /// The coordinator, with its agent.
    pub coordinator: Coordinator,
    /// Contexts that are known.
    pub contexts: Contexts,
    /// Windows that ended.
    pub windows: u64,
    /// An order whose answer is not in the journal.
    pub unanswered: Option<Order>,
}

/// Decides again what is in `records`, from their first beginning on.
///
/// # Errors
/// If a record cannot be: an agent of a name that is not known, an answer to nothing.
pub fn replay(records: &[Record]) -> Result<Replay, String> {
    let mut replay = Replay::default();
    let mut at: Option<Resumed> = None;
    for record in records {
        match record {
            Record::Begin(begin) => {
                replay.begins += 1;
                let now = at.take().filter(|_| begin.goes_on);
                at = Some(match now {
                    None => begun(begin)?,
                    Some(now) => match goes_on(now, begin)? {
                        Ok(resumed) => resumed,
                        Err(difference) => {
                            replay.difference = Some(difference);
                            return Ok(replay);
                        }
                    },
                });
            }
            Record::Window { window, decision } => {
                let now = at.as_mut().ok_or("the journal begins with a window")?;
                let decided = step(now, window)?;
                replay.decisions += 1;
                replay.orders += u64::from(decided.order.is_some());
                let (then, again) = (json(decision), json(&decided));
                if then != again {
                    let window = window.number;
                    replay.difference = Some(Difference { window, then, now: again });
                    return Ok(replay);
                }
            }
            Record::Answer(answer) => hear(at.as_mut().ok_or("the journal begins with an answer")?, answer)?,
            Record::End { .. } => {}
        }
    }
    Ok(replay)
}

/// Where a tuner stood at the end of `records`; `None` if there are none. What was decided after
/// the newest beginning is decided again.
///
/// # Errors
/// As [`replay`].
pub fn resume(records: &[Record]) -> Result<Option<Resumed>, String> {
    let newest = records.iter().rposition(|record| matches!(record, Record::Begin(_)));
    let Some(newest) = newest else { return Ok(None) };
    let mut at: Option<Resumed> = None;
    for record in &records[newest..] {
        match record {
            Record::Begin(begin) => at = Some(begun(begin)?),
            Record::Window { window, .. } => drop(step(at.as_mut().expect("begun"), window)?),
            Record::Answer(answer) => hear(at.as_mut().expect("begun"), answer)?,
            Record::End { .. } => {}
        }
    }
    Ok(at)
}

fn json<T: serde::Serialize>(what: &T) -> String {
    serde_json::to_string(what).expect("decisions are maps with names for keys")
}

/// A coordinator as `begin` says.
fn begun(begin: &Begin) -> Result<Resumed, String> {
    let mut agent = agent::make(&begin.maker)?;
    agent.restore(&begin.memory)?;
    let (rules, goal) = (begin.rules.clone(), begin.goal.clone());
    Ok(Resumed {
        coordinator: Coordinator::new(rules, goal, agent, begin.state.clone()),
        contexts: begin.contexts.clone(),
        windows: begin.windows,
        begin: begin.clone(),
        unanswered: None,
    })
}

/// What is known now must be what was known then.
fn goes_on(mut now: Resumed, begin: &Begin) -> Result<Result<Resumed, Difference>, String> {
    let memory = now.coordinator.remember().unwrap_or_default();
    let state = now.coordinator.state();
    let told = |state: &State, memory: &serde_json::Value| format!("{} {}", json(state), json(memory));
    let (then, is) = (told(&begin.state, &begin.memory), told(state, &memory));
    Ok(match then == is {
        true => Ok(begun(begin)?),
        false => Err(Difference { window: now.windows, then, now: is }),
    })
}

fn step(at: &mut Resumed, window: &Window) -> Result<super::Decision, String> {
    if at.unanswered.is_some() {
        return Err(format!("window {} comes before an answer", window.number));
    }
    if window.blocked.is_none_or(|blocked| blocked.has_context()) {
        at.contexts.enter(window.number, &Traits::of(window), window.steady);
    }
    at.windows = window.number;
    at.coordinator.forget_all_but(&at.contexts);
    let decision = at.coordinator.window(window);
    at.unanswered = decision.order.clone();
    Ok(decision)
}

fn hear(at: &mut Resumed, answer: &Answer) -> Result<(), String> {
    at.unanswered.take().ok_or("an answer to nothing")?;
    at.coordinator.answer(answer);
    Ok(())
}
