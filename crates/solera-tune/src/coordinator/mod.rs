//! What an agent may change, when, and what is taken back: `Coordinator`, alike for every agent.
//!
//! It has one token: a change is open until it is judged, and no other is made meanwhile. Before a
//! change it knows what the context costs (`baseline`) and whether the agent may (`allowing`).
//! Where `Rules` are guarded, it compares afterwards and takes back what hurt (`judging`), and
//! forbids the same for a while (`tabu`). It also gives a context that comes back the settings
//! under which it was cheapest (`returning`). In one that is new it goes home for agents that do
//! not price that themselves, in one that has become dear for all.
//!
//! What must hold: a decision is a function of the windows and answers before it: no clock, no
//! file, no randomness. What others set is left alone. Where `Rules` are guarded, what changes lose
//! stays within their allowance, but for what one window can lose. An agent that panics is not
//! asked again.
//! Callers: `attach::stepper`, `coordinator::replay`; parts by `solera explain`, `solera tune
//! replay`, `solera-sim`'s `tuner` and `solera-bench` (`safety`, `epochs`).

mod allowing;
pub mod baseline;
pub mod decision;
pub mod journal;
mod judging;
pub mod merging;
pub mod regret;
pub mod replay;
mod returning;
pub mod rules;
pub mod state;
pub mod tabu;
#[cfg(test)]
mod tests;

pub use decision::{Answer, Decision, Order, Purpose};
pub use rules::Rules;
pub use state::State;

use crate::{
    agent::{Agent, Outcome, Proposal, Set},
    sight::{Blocked, Contexts, Goal, Traits, Window},
};
use decision::tag_of;
use judging::measured;
use returning::BEST_TOLERANCE;
use state::{Open, Place};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest reason in a receipt, in bytes.
const WHY_BYTES_MAX: usize = 400;

/// Decides after each window.
#[derive(Debug)]
pub struct Coordinator {
    rules: Rules,
    goal: Goal,
    agent: Box<dyn Agent>,
    state: State,
    /// What was ordered and is not answered yet, with the settings that it leads to.
    pending: Option<(Order, Vec<Set>, Option<Open>)>,
}

impl Coordinator {
    /// A coordinator that goes on from `state`.
    pub fn new(rules: Rules, goal: Goal, agent: Box<dyn Agent>, state: State) -> Coordinator {
        Coordinator { rules, goal, agent, state, pending: None }
    }

    /// What it knows.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Its agent.
    pub fn agent(&self) -> &dyn Agent {
        &*self.agent
    }

    /// Forgets all workloads but those that are `known`, and the one that the open change is of.
    /// Before each window, or what it knows would grow for ever.
    pub fn forget_all_but(&mut self, known: &Contexts) {
        let open = self.state.open.as_ref().map(|open| open.context);
        let is_known = |id: u32| Some(id) == open || known.known().iter().any(|context| context.id == id);
        self.state.places.retain(|id, _| is_known(*id));
    }

    /// The agent becomes what it remembers, and the memory is returned.
    ///
    /// # Errors
    /// What is wrong with the memory, which is the agent's own fault: it is not asked again.
    pub fn remember(&mut self) -> Result<serde_json::Value, String> {
        let agent = &mut self.agent;
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let memory = agent.remember();
            agent.restore(&memory).map(|()| memory)
        }));
        let memory = asked.unwrap_or_else(|panic| Err(panic_text(&*panic)));
        if let Err(why) = &memory {
            let name = self.agent.name();
            self.state.off.get_or_insert_with(|| format!("{name} cannot tell what it remembers: {why}"));
        }
        memory
    }

    /// Whether it changes nothing any more, and why.
    pub fn off(&self) -> Option<&str> {
        self.state.off.as_deref()
    }

    /// Decides after `window`. An order in the decision must be [answered](Coordinator::answer)
    /// before the next window.
    pub fn window(&mut self, window: &Window) -> Decision {
        assert!(self.pending.is_none(), "an order has not been answered");
        let cost = self.goal.cost(window).filter(|_| window.is_judged());
        let (merging, baseline) = (&self.state.merging, self.baseline(window.context));
        let mut decision = Decision {
            cost,
            baseline: baseline.map(|baseline| baseline.mean(merging)),
            tolerance: baseline.map(|baseline| baseline.tolerance(&self.rules, merging)),
            notes: window.blocked.map(|blocked| blocked.words().to_owned()).into_iter().collect(),
            ..Decision::after(window.number)
        };
        if self.off().is_some() && self.state.open.is_none() {
            return decision;
        }
        if window.blocked == Some(Blocked::Arrived) {
            self.heed_others(window, &mut decision);
            self.arrives(window, &mut decision);
            return decision;
        }
        self.ask(&mut decision, |agent| agent.see(window));
        self.heed_others(window, &mut decision);
        if self.state.open.is_some() {
            self.judge(window, &mut decision);
        } else {
            self.rest_or_measure(window, &mut decision);
        }
        decision
    }

    /// Takes back a change that was open when another process ended: it was not judged.
    pub fn begin_again(&mut self) -> Option<Decision> {
        let open = self.state.open.take()?;
        self.state.regret.close();
        self.begin_rest();
        let mut decision = Decision::after(self.state.orders);
        let why = "its process ended before it was judged".to_owned();
        let sets = state::way(&self.state.own, &open.before);
        self.tell_of(&open, &mut decision, Outcome::Undone { ratio: 1.0, why: why.clone() });
        if !sets.is_empty() {
            self.order(Purpose::Undo, sets, why, None, &mut decision);
        }
        Some(decision)
    }

    /// Asks the agent. One that panics is not asked again, and what it left open is taken back.
    fn ask<R>(&mut self, decision: &mut Decision, ask: impl FnOnce(&mut dyn Agent) -> R) -> Option<R> {
        if self.off().is_some() {
            return None;
        }
        let agent = &mut *self.agent;
        match catch_unwind(AssertUnwindSafe(|| ask(agent))) {
            Ok(answer) => Some(answer),
            Err(panic) => {
                let why = format!("{} panicked: {}", self.agent.name(), panic_text(&*panic));
                decision.notes.push(why.clone());
                self.state.off = Some(why);
                None
            }
        }
    }

    /// Notes what became of a proposal in the agent's record, and tells the agent and the decision.
    fn tell(&mut self, decision: &mut Decision, outcome: Outcome) {
        let hurt = self.state.credit.hurt();
        self.state.credit.hear(&outcome);
        let by = match &outcome {
            Outcome::Undone { ratio, .. } => ratio - 1.0,
            _ => 0.0,
        };
        // What is not worse than chance makes it is a pause for its knobs alone.
        if self.state.credit.hurt() > hurt && by > 0.5 * decision.tolerance.unwrap_or(0.0) {
            let pause = self.rules.mute << hurt.min(16);
            self.state.muted_until = decision.window.saturating_add(pause);
        }
        self.inform(decision, outcome);
    }

    /// The same of a change that was open. Going home and back again does no harm, so it is in
    /// nobody's record; where nobody but the coordinator wanted it, no agent hears of it.
    fn tell_of(&mut self, open: &Open, decision: &mut Decision, outcome: Outcome) {
        let in_vain = open.proposal.is_homeward() && matches!(outcome, Outcome::Undone { .. });
        if open.of_guard {
            decision.outcome = Some(outcome)
        } else if in_vain {
            self.inform(decision, outcome)
        } else {
            self.tell(decision, outcome)
        }
    }

    /// Tells the agent what became of its proposal, and the decision too.
    fn inform(&mut self, decision: &mut Decision, outcome: Outcome) {
        self.ask(decision, |agent| agent.hear(&outcome));
        decision.outcome = Some(outcome);
    }

    /// A person or program may have changed knobs since the last window: then nothing that was
    /// measured holds.
    fn heed_others(&mut self, window: &Window, decision: &mut Decision) {
        if window.changes == self.state.expected {
            return;
        }
        self.state.expected = window.changes;
        let stands = |set: &Set| {
            let now = window.setting(&set.knob, set.level);
            now.is_some_and(|now| now.is_set && set.value.as_deref() == Some(now.value.as_str()))
        };
        self.state.own.retain(stands);
        for place in self.state.places.values_mut() {
            (place.baseline, place.anchor, place.worse) = (Default::default(), None, 0);
            place.home = false;
            place.forget_least();
            place.under.clone_from(&self.state.own);
        }
        decision.notes.push("somebody else changed knobs: what was measured before does not count".into());
        if let Some(open) = self.state.open.take() {
            self.state.regret.close();
            self.tell_of(&open, decision, Outcome::Untold);
        }
    }

    /// A window in which no change is open: it is measured, and then it is the agent's turn.
    fn rest_or_measure(&mut self, window: &Window, decision: &mut Decision) {
        let Some(cost) = decision.cost else { return };
        self.state.regret.pass(window.elapsed_ns, window.early);
        if self.rests(window, cost, decision) {
            return decision.notes.push("what was taken back has its time to take effect".into());
        }
        self.state.stay.add(window.context);
        self.state.regret.repay(window.context, window.elapsed_ns);
        if self.returns(window, decision) || self.restores(window, cost, decision) {
            return;
        }
        let (rules, merging) = (&self.rules, &mut self.state.merging);
        let place = self.state.places.entry(window.context).or_default();
        place.settle(&self.state.own);
        place.compare_with_least(&measured(window, cost), BEST_TOLERANCE, merging);
        if !place.add(measured(window, cost), merging) {
            return decision.notes.push("it is unlike its context: the next window tells why".into());
        }
        place.home |= self.state.own.is_empty();
        place.moor(rules, merging);
        if place.baseline.windows() < rules.windows_before {
            return;
        }
        let falls = self.rules.guarded && place.falls;
        if self.goes_home(window, decision) {
            return;
        }
        let is_closed = self.is_closed(window) || falls;
        if is_closed && !self.may_go_home(window) {
            return;
        }
        let (foreign, once) = (self.foreign(window), self.once_most());
        let proposal = self.ask(decision, |agent| {
            agent.leave(&foreign);
            agent.afford(once);
            if is_closed { agent.homeward(window) } else { agent.propose(window) }
        });
        let proposal = proposal.flatten().filter(|proposal| !is_closed || proposal.is_homeward());
        let Some(proposal) = proposal else { return };
        let moves = tabu::moves(window, &proposal.sets);
        let forbidden = self.forbidden(window, &proposal, &moves);
        let proposal = proposal.in_numbers();
        decision.proposal = Some(proposal.clone());
        match forbidden {
            Some(why) => self.tell(decision, Outcome::Forbidden { why }),
            None => self.order_try(window, proposal, moves, false, decision),
        }
    }

    fn order_try(
        &mut self,
        window: &Window,
        proposal: Proposal,
        moves: Vec<String>,
        of_guard: bool,
        decision: &mut Decision,
    ) {
        let open = Open {
            of_guard,
            window: window.number,
            context: window.context,
            asked: Some(Traits::of(window)),
            moves,
            before: self.state.own.clone(),
            settle: proposal.settle,
            ratios: Vec::new(),
            costs: Vec::new(),
            worse: 0,
            waited: 0,
            behind: 0,
            beyond: 0.0,
            proposal,
        };
        let sets = open.proposal.sets.clone();
        let why = format!(
            "{}; predicted {:+.1} % of the cost",
            open.proposal.why,
            (open.proposal.predicted - 1.0) * 100.0
        );
        self.order(Purpose::Try, sets, why, Some(open), decision);
    }

    fn order(
        &mut self,
        purpose: Purpose,
        sets: Vec<Set>,
        why: String,
        open: Option<Open>,
        decision: &mut Decision,
    ) {
        self.state.orders += 1;
        let mut why = why;
        let end = (0..=WHY_BYTES_MAX.min(why.len())).rev().find(|&end| why.is_char_boundary(end));
        why.truncate(end.unwrap_or(0));
        let order = Order { purpose, why, tag: tag_of(self.state.orders), sets };
        let own = state::after(&self.state.own, &order.sets);
        decision.order = Some(order.clone());
        self.pending = Some((order, own, open));
    }

    /// Hears what the database said to the order of the last decision, and says what became of a
    /// proposal.
    pub fn answer(&mut self, answer: &Answer) -> Option<Outcome> {
        let (order, own, open) = self.pending.take().expect("there was an order");
        let of_guard = open.as_ref().is_some_and(|open| open.of_guard);
        let outcome = match answer {
            Answer::Made(number) => {
                self.state.expected = *number;
                self.state.own = own;
                let of_try = open.is_some();
                if let Some(open) = open {
                    // Without a guard nothing is judged.
                    self.state.regret.set_aside(if self.rules.guarded { open.proposal.once } else { 0.0 });
                    self.state.places.entry(open.context).or_default().changes += 1;
                    self.state.open = Some(open);
                }
                of_try.then_some(Outcome::Made)?
            }
            // What cannot be taken back is not tried for ever: the next proposal begins from what
            // stands.
            Answer::Refused(_) if order.purpose != Purpose::Try => return None,
            Answer::Refused(why) => {
                let open = open.expect("an agent's change");
                self.state.tabus.add(open.context, open.window, &open.moves, &self.rules);
                if of_guard {
                    self.state.places.entry(open.context).or_default().home = true;
                }
                Outcome::Refused { why: why.clone() }
            }
        };
        if of_guard {
            return Some(outcome);
        }
        let agent = &mut *self.agent;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| agent.hear(&outcome))) {
            self.state.off = Some(format!("{} panicked: {}", self.agent.name(), panic_text(&*panic)));
        }
        Some(outcome)
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a word".into())
}

impl Place {
    /// Whether anything is known of what it costs.
    pub fn is_measured(&self) -> bool {
        self.baseline.windows() > 0
    }
}
