//! Tuning step by step: `Stepper` looks at the database, has the coordinator decide, and makes what
//! was ordered. It ends a window early where an open change hurts much. `Progress` is what a step
//! came to.
//!
//! `Prepared` has looked at all that can be refused, before anything that takes seconds. Its
//! `begin` takes back a change that the last tuner made and never judged. It does so only where
//! agent, seed, unit costs, keyspace and goal are the journal's. If the journal or the agent's
//! memory is of no use, or another's, what was set stays.
//!
//! What must hold: an order of a step is durable in the journal before it is made. Its answer is
//! added after, durable with the next sync. What `begin` takes back is no record of its own: a new
//! beginning follows it. `step` never fails: what goes wrong ends the tuning, but what the engine
//! refuses is an answer.
//!
//! Callers: `Attach::stepped`, `tuner`'s thread; the pages `learning` and `epochs` of
//! `solera-bench`; `solera-sim`'s `tuner`; `attach::tests`, `tests/seeds.rs` and
//! `tests/unharmed.rs`.

use super::{Attach, LOCK_NAME, WHO};
use crate::{
    agent::{self, Maker, Outcome, Set},
    coordinator::{
        Answer, Coordinator, Decision, Order, Purpose, State,
        decision::order_of,
        journal::{Begin, FORMAT, Journal, Record},
        replay::{self, Resumed},
    },
    cost::Units,
    sight::{Contexts, Look, Watch, Window},
};
use solera::{
    Error, Result,
    control::{Change, Changed, Control, Observation, Receipt, Setting},
    knob::Value,
};
use std::fmt;

/// Windows between two records of everything that is known.
const CHECKPOINT_WINDOWS: u64 = 64;

/// How many times as much harm a second look must find to be no accident.
const HARM_GROWS: f64 = 1.25;

/// What a step came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    /// The window goes on.
    Watching,
    /// A window ended, and this was decided.
    Decided(Box<Decision>),
    /// Tuning has ended, for this reason.
    Off(String),
}

/// Everything that can be refused has been looked at; what may take seconds has not been done.
pub(super) struct Prepared {
    attach: Attach,
    control: Control,
    lock: Box<dyn Send + Sync>,
    journal: Journal,
    resumed: Option<Resumed>,
    notes: Vec<String>,
    /// Unit costs, as far as they are known.
    pub(super) units: Option<Units>,
    /// Operations that were done when it was prepared.
    operations: u64,
}

impl Prepared {
    /// Whether enough was done since to be worth the probe of the machine: a window.
    pub(super) fn is_worth_a_probe(&self) -> bool {
        let now = operations(&self.control.observe(), &self.attach.keyspace);
        now.saturating_sub(self.operations) >= self.attach.pace.operations_min
    }

    pub(super) fn new(attach: Attach, control: Control) -> Result<Prepared> {
        if !agent::NAMES.contains(&attach.agent.as_str()) {
            let names = agent::NAMES.join(", ");
            return Err(Error::Invalid(format!("there is no agent {:?}; there are {names}", attach.agent)));
        }
        if !attach.rules.is_sane() {
            return Err(Error::Invalid("a rule is no number, or too large a one".into()));
        }
        if attach.units.as_ref().is_some_and(|units| !units.is_sane()) {
            return Err(Error::Invalid("a unit cost is negative, no number, or more than a minute".into()));
        }
        let now = control.observe();
        if now.keyspace(&attach.keyspace).is_none() {
            return Err(Error::NoKeyspace(attach.keyspace));
        }
        let operations = operations(&now, &attach.keyspace);
        let (fs, dir) = (control.fs(), control.dir());
        let lock = fs.lock(&dir.join(LOCK_NAME))?;
        let (journal, records) = Journal::open(fs, &dir)?;
        let mut notes = Vec::new();
        // A journal that this release would have decided otherwise is history, and nothing to go on
        // from.
        let resumed = replay::resume(&records).unwrap_or_else(|why| {
            notes.push(format!("the journal cannot be gone on from: {why}"));
            None
        });
        let last = resumed.as_ref().map(|resumed| &resumed.begin.maker.units);
        // A tuner that was dropped before it had something to do measured nothing.
        let last = last.filter(|units| **units != Units::assumed());
        let units = attach.units.clone().or_else(|| last.cloned());
        Ok(Prepared { attach, control, lock, journal, resumed, notes, units, operations })
    }

    pub(super) fn begin(self) -> Result<Stepper> {
        let Prepared { attach, control, lock, journal, resumed, mut notes, units, .. } = self;
        let units = units.unwrap_or_else(Units::assumed);
        let name = attach.agent.clone();
        let maker = Maker { name, seed: attach.seed, units, goal: attach.goal.clone() };
        let make = || agent::make(&maker).map_err(Error::Invalid);
        let now = control.observe();
        let mut before = Before::default();
        if let Some(resumed) = &resumed {
            let (keyspace, own) = (&resumed.begin.keyspace, &resumed.coordinator.state().own);
            before = Before { keyspace: keyspace.clone(), own: own.clone() };
        }
        let goes_on = resumed.filter(|resumed| {
            let begin = &resumed.begin;
            (&begin.maker, &begin.keyspace, &begin.goal) == (&maker, &attach.keyspace, &attach.goal)
        });
        let (mut state, contexts, windows, memory) = match goes_on {
            None => (State::default(), Contexts::default(), 0, serde_json::Value::Null),
            Some(mut resumed) => {
                let state = settle(&control, &mut resumed, &mut notes);
                match resumed.coordinator.remember() {
                    Ok(memory) => (state, resumed.contexts, resumed.windows, memory),
                    Err(why) => {
                        notes.push(format!("what the agent remembers is of no use: {why}"));
                        (State::default(), Contexts::default(), resumed.windows, serde_json::Value::Null)
                    }
                }
            }
        };
        if state == State::default() {
            // What was changed before a first window is no change of others during one.
            state.expected = now.changes;
        }
        state.own = own_settings(&control.history(), &now, &attach.keyspace, &before);
        state.off = None;
        // A tag stands for one order, whichever tuner had the database before.
        let orders = control.history_of(WHO).iter().filter_map(|receipt| order_of(&receipt.tag)).max();
        state.orders = state.orders.max(orders.unwrap_or(0));
        let mut agent = make()?;
        if let Err(why) = agent.restore(&memory) {
            notes.push(format!("what the agent remembers is of no use: {why}"));
        }
        let watch = Watch::new(&attach.keyspace, attach.pace, now, windows).with_contexts(contexts);
        let coordinator = Coordinator::new(attach.rules.clone(), attach.goal.clone(), agent, state);
        let mut stepper = Stepper {
            attach,
            control,
            journal,
            watch,
            coordinator,
            maker,
            windows,
            notes,
            harm: None,
            off: None,
            _lock: lock,
        };
        stepper.write_begin(false)?;
        stepper.undo_what_was_open()?;
        Ok(stepper)
    }
}

/// Operations that were done in `keyspace` since the database was opened.
fn operations(now: &Observation, keyspace: &str) -> u64 {
    let counters = now.keyspace(keyspace).map(|keyspace| keyspace.counters);
    counters.map_or(0, |of| of.gets + of.scans + of.entries_written)
}

/// What is known at the end of a journal, brought to agree with the manifest.
fn settle(control: &Control, resumed: &mut Resumed, notes: &mut Vec<String>) -> State {
    if let Some(order) = resumed.unanswered.take() {
        // The process ended between an order and its answer. The manifest says whether it was made.
        let history = control.history_of(WHO);
        let made = history.iter().rev().find(|receipt| receipt.tag == order.tag);
        resumed.coordinator.answer(&match made {
            Some(receipt) => Answer::Made(receipt.number),
            None => Answer::Refused("the process ended before it was made".into()),
        });
        let made = if made.is_some() { "was" } else { "was not" };
        notes.push(format!("the last process ended in the middle of {}, which {made} made", order.tag));
    }
    resumed.coordinator.state().clone()
}

/// What the tuner had set at the end of the journal.
#[derive(Default)]
struct Before {
    keyspace: String,
    own: Vec<Set>,
}

impl Before {
    /// Whether it had set this, to what it is now.
    fn has_set(&self, setting: &Setting) -> bool {
        let is_it = |set: &Set| {
            let value = set.value.as_deref().map(Value::parse);
            (&set.knob, set.level) == (&setting.knob, setting.level) && value.as_ref() == Some(&setting.value)
        };
        setting.keyspace.as_ref().is_none_or(|of| *of == self.keyspace) && self.own.iter().any(is_it)
    }
}

/// What stands of what this tuner, or one before it, has set. The newest receipt of a setting tells
/// whose it is, if that made it what it is now. A setting without one, as old receipts are
/// forgotten, is the tuner's if it was `before`.
fn own_settings(history: &[Receipt], now: &Observation, keyspace: &str, before: &Before) -> Vec<Set> {
    let is_own = |setting: &&Setting| {
        // A knob of the database has no keyspace.
        let of = setting.keyspace.as_deref().unwrap_or_default();
        let is_of = |changed: &&Changed| {
            (&*changed.keyspace, &changed.knob, changed.level) == (of, &setting.knob, setting.level)
        };
        let newest = |receipt: &Receipt| {
            let changed = receipt.changed.iter().find(is_of)?;
            Some(receipt.who == WHO && changed.new == setting.value.to_string())
        };
        history.iter().rev().find_map(newest).unwrap_or_else(|| before.has_set(setting))
    };
    let of_keyspace = now
        .settings
        .iter()
        .filter(|setting| setting.is_set && setting.keyspace.as_deref().is_none_or(|of| of == keyspace));
    let own = of_keyspace.filter(is_own);
    let own = own.map(|setting| Set { level: setting.level, ..Set::new(&setting.knob, &setting.value) });
    let mut own: Vec<Set> = own.collect();
    own.sort_by(|a, b| (&a.knob, a.level).cmp(&(&b.knob, b.level)));
    own
}

/// Tunes a database step by step. Dropping it leaves the database with the last settings.
pub struct Stepper {
    attach: Attach,
    control: Control,
    journal: Journal,
    watch: Watch,
    coordinator: Coordinator,
    maker: Maker,
    windows: u64,
    notes: Vec<String>,
    /// What an open change had lost at the last look, in windows, if it was too much.
    harm: Option<f64>,
    off: Option<String>,
    _lock: Box<dyn Send + Sync>,
}

impl fmt::Debug for Stepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stepper")
            .field("dir", &self.control.dir())
            .field("off", &self.off)
            .finish_non_exhaustive()
    }
}

impl Stepper {
    /// Looks at the database; if a window has ended, decides, and makes what was decided. Never
    /// fails: what goes wrong ends the tuning, and the answer says why.
    pub fn step(&mut self) -> Progress {
        if let Some(off) = &self.off {
            return Progress::Off(off.clone());
        }
        if self.control.is_closed() {
            return self.end("the database was closed");
        }
        if let Some(why) = self.agent_is_gone() {
            return self.end(&why);
        }
        let now = self.control.observe();
        let look = match self.watch.look(now.clone()) {
            Look::TooSoon if self.hurts(&now) => self.watch.end_early(now),
            look => look,
        };
        let window = match look {
            Look::TooSoon => return Progress::Watching,
            Look::Gone => return self.end("the keyspace was dropped"),
            Look::Ended(window) => window,
        };
        match self.decide(&window) {
            Err(error) => self.end(&error.to_string()),
            Ok(decision) => {
                if let Some(why) = self.agent_is_gone() {
                    self.end(&why);
                }
                Progress::Decided(Box::new(decision))
            }
        }
    }

    /// What is to be said of how tuning began.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Why tuning has ended, if it has.
    pub fn off(&self) -> Option<&str> {
        self.off.as_deref()
    }

    /// What the coordinator knows.
    pub fn state(&self) -> &State {
        self.coordinator.state()
    }

    /// Whether an open change hurts too much to wait for the end of the window: at two looks in a
    /// row, and more at the second. One alone may be a merge.
    fn hurts(&mut self, now: &Observation) -> bool {
        if self.coordinator.state().open.is_none() {
            self.harm = None;
            return false;
        }
        let before = self.harm.take();
        self.harm = self.watch.so_far(now).and_then(|so_far| self.coordinator.harm(&so_far));
        before.zip(self.harm).is_some_and(|(before, now)| now > before * HARM_GROWS)
    }

    /// Why the agent is gone, once what it left open has been taken back. The next window that ends
    /// does that.
    fn agent_is_gone(&self) -> Option<String> {
        let gone = self.coordinator.off().filter(|_| self.coordinator.state().open.is_none());
        gone.map(str::to_owned)
    }

    fn decide(&mut self, window: &Window) -> Result<Decision> {
        self.windows = window.number;
        self.harm = None;
        self.coordinator.forget_all_but(self.watch.contexts());
        let mut decision = self.coordinator.window(window);
        let record =
            Record::Window { window: Box::new(window.clone()), decision: Box::new(decision.clone()) };
        self.journal.add(&record)?;
        if let Some(order) = decision.order.clone() {
            // After a crash the journal must know of every change that the manifest has.
            self.journal.sync()?;
            let answer = self.make(&order, window.changes)?;
            self.journal.add(&Record::Answer(answer.clone()))?;
            let outcome = self.coordinator.answer(&answer);
            decision.outcome = decision.outcome.or(outcome);
            if let Answer::Refused(why) = answer {
                decision.notes.push(format!("the engine says: {why}"));
            }
            // The window to come is of the new settings alone.
            self.watch.restart(self.control.observe());
        }
        if window.number.is_multiple_of(CHECKPOINT_WINDOWS) || self.journal.is_full() {
            self.write_begin(true)?;
        }
        Ok(decision)
    }

    /// Asks the database. What it refuses is an answer; that it is closed or broken is an error.
    fn make(&self, order: &Order, newest: u64) -> Result<Answer> {
        let change = Change::new(WHO, &order.why).tag(&order.tag).only_if_newest(newest);
        let change = change.keyspace(&self.attach.keyspace);
        let change = order.sets.iter().fold(change, |change, set| match (&set.value, set.level) {
            (None, level) => change.reset(&set.knob, level),
            (Some(value), None) => change.set(&set.knob, Value::parse(value)),
            (Some(value), Some(level)) => change.set_level(&set.knob, level, Value::parse(value)),
        });
        match self.control.apply(change) {
            Ok(receipt) => Ok(Answer::Made(receipt.number)),
            Err(error @ (Error::Invalid(_) | Error::Outdated { .. } | Error::NoKeyspace(_))) => {
                Ok(Answer::Refused(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes down everything that is known, in a journal begun anew if it is full.
    fn write_begin(&mut self, goes_on: bool) -> Result<()> {
        // An agent that cannot tell what it remembers is gone: the state says so.
        let memory = self.coordinator.remember().unwrap_or_default();
        let begin = Begin {
            format: FORMAT,
            unix_ms: self.control.clock().unix_ms(),
            keyspace: self.attach.keyspace.clone(),
            maker: self.maker.clone(),
            goal: self.attach.goal.clone(),
            rules: self.attach.rules.clone(),
            pace: self.attach.pace,
            windows: self.windows,
            contexts: self.watch.contexts().clone(),
            state: self.coordinator.state().clone(),
            memory,
            goes_on,
        };
        self.journal.add(&Record::Begin(Box::new(begin)))?;
        match self.journal.is_full() {
            true => self.journal.begin_anew(),
            false => self.journal.sync(),
        }
    }

    /// A change that was open when the last process ended was never judged: it is taken back.
    fn undo_what_was_open(&mut self) -> Result<()> {
        let Some(decision) = self.coordinator.begin_again() else { return Ok(()) };
        if let Some(order) = &decision.order {
            let newest = self.control.observe().changes;
            let answer = self.make(order, newest)?;
            self.coordinator.answer(&answer);
            self.notes.push(format!("taken back: {}", order.why));
        }
        self.write_begin(false)
    }

    fn end(&mut self, why: &str) -> Progress {
        self.off = Some(why.to_owned());
        let unix_ms = self.control.clock().unix_ms();
        // The journal may be what is broken.
        let _ = self.journal.add(&Record::End { unix_ms, why: why.to_owned() });
        let _ = self.journal.sync();
        Progress::Off(why.to_owned())
    }
}

#[cfg(test)]
impl Stepper {
    /// Goes on with another agent, which may be one that only tests know.
    pub(super) fn give_agent(&mut self, name: &str, seed: u64) {
        self.maker = Maker { name: name.into(), seed, ..self.maker.clone() };
        let (rules, goal) = (self.attach.rules.clone(), self.attach.goal.clone());
        let (agent, state) = (agent::make(&self.maker).unwrap(), self.coordinator.state().clone());
        self.coordinator = Coordinator::new(rules, goal, agent, state);
        self.write_begin(false).unwrap();
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        if self.off.is_none() {
            self.end("the tuner was dropped");
        }
    }
}

/// What a decision says in one line, for people who watch.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window {}", self.window)?;
        if let Some(cost) = self.cost {
            write!(f, ", cost {cost:.1}")?;
        }
        if let Some(outcome) = &self.outcome {
            write!(f, ": {outcome}")?;
        }
        if let Some(order) = &self.order {
            let sets: Vec<String> = order.sets.iter().map(Set::to_string).collect();
            let what = match order.purpose {
                Purpose::Try => "try",
                Purpose::Undo => "undo",
                Purpose::Restore => "restore",
            };
            write!(f, "; {what} {} ({})", sets.join(" "), order.why)?;
        }
        Ok(())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Made => f.write_str("made"),
            Outcome::Forbidden { why } => write!(f, "not allowed: {why}"),
            Outcome::Refused { why } => write!(f, "refused: {why}"),
            Outcome::Kept { ratio } => write!(f, "kept, at {ratio:.2} of the cost before"),
            Outcome::Undone { ratio, why } => write!(f, "undone at {ratio:.2} of the cost before: {why}"),
            Outcome::Untold => f.write_str("let be, untold"),
        }
    }
}
