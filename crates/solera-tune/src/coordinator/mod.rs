//! What an agent may change, when, and what is taken back: `Coordinator`, alike for every agent.
//!
//! It has one token: a change is open until it is judged, and no other is made meanwhile. Before a
//! change it knows what the context costs (`baseline`). Where `Rules` are guarded, it compares
//! afterwards, takes back what hurt, and forbids the same for a while (`tabu`). It also gives a
//! context that comes back the settings under which it was cheapest. In one that is new it goes
//! home for agents that do not price that themselves, in one that has become dear for all.
//!
//! What must hold: a decision is a function of the windows and answers before it: no clock, no
//! file, no randomness. What others set is left alone. Where `Rules` are guarded, what changes lose
//! stays within their allowance, but for what one window can lose. An agent that panics is not
//! asked again.
//! Callers: `attach::stepper`, `coordinator::replay`; parts by `solera explain`, `solera tune
//! replay`, `solera-sim`'s `tuner` and `solera-bench` (`safety`, `epochs`).

pub mod baseline;
pub mod decision;
pub mod journal;
pub mod merging;
pub mod regret;
pub mod replay;
pub mod rules;
pub mod state;
pub mod tabu;
#[cfg(test)]
mod tests;

pub use decision::{Answer, Decision, Order, Purpose};
pub use rules::Rules;
pub use state::State;

use crate::{
    agent::{Agent, Outcome, Proposal, Set, Step},
    sight::{Blocked, Contexts, Goal, Traits, Window},
};
use baseline::{Baseline, Measured};
use decision::tag_of;
use solera::knob::Value;
use state::{Open, Place};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Windows that say nothing of an open change before it is let be.
const WAIT_MAX: u32 = 4;
/// Windows in a row in which background work is behind before an open change is held to be the
/// cause.
const BEHIND_MAX: u32 = 2;
/// Windows in a row that are worse than the best of their context before settings are restored.
const WORSE_THAN_BEST: u32 = 3;
/// Windows in a row by which a context has lasted.
const LASTS: u32 = 3;
/// How many times the tolerance of a single window that is.
const BEST_TOLERANCE: f64 = 2.0;
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
    fn baseline(&self, context: u32) -> Option<&Baseline> {
        let own = self.state.open.as_ref().map_or(&self.state.own, |open| &open.before);
        self.state.places.get(&context)?.baseline_under(own)
    }

    /// What `window`, which cost so much, is held against: what its context costs. Where that is
    /// unknown, a change may have made it another context, by the sizes of what is stored. So one
    /// that is asked the same as before an open change, and costs far more, is held against that.
    fn held_against(&self, window: &Window, cost: f64) -> Option<&Baseline> {
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
    fn ratio(&self, baseline: &Baseline, context: u32, window: &Measured) -> f64 {
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
    fn once_of(&self, baseline: &Baseline, cost: f64, elapsed_ns: u64) -> f64 {
        self.state.regret.once_of(share(cost, baseline.mean(&self.state.merging)), elapsed_ns)
    }

    /// What `window` cost of its baseline and how long it took, where `once_ns` of it are left out;
    /// `ratio` with them.
    fn without(
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
    fn once_most(&self) -> f64 {
        let Rules { once_windows, once_share, .. } = self.rules;
        let of_context = once_share * f64::from(self.state.stay.windows);
        if self.state.regret.owes() { 0.0 } else { once_windows.min(of_context) }
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

    /// Goes home for an agent that does not price the way itself, in a context that was never
    /// measured with no knob set: what was set for other workloads may be bad for it. For one that
    /// does, where the context costs more than it did under the same settings, and nothing else
    /// may be changed: the agent may be wrong.
    fn goes_home(&mut self, window: &Window, decision: &mut Decision) -> bool {
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
    fn rests(&mut self, window: &Window, cost: f64, decision: &Decision) -> bool {
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
        let is_astray =
            ratio.zip(decision.tolerance).is_some_and(|(ratio, most)| ratio > 1.0 + BEST_TOLERANCE * most);
        self.state.astray = if is_astray { self.state.astray + 1 } else { 0 };
        !self.gives_up_rest(window.context)
    }

    /// Whether a context that was never measured with no knob set has become no better by what was
    /// taken back. Then the settings that stood before are dear as well, and what it cost under
    /// them earlier was of another tree.
    fn gives_up_rest(&mut self, context: u32) -> bool {
        let place = self.state.places.get_mut(&context).filter(|place| !place.home);
        let Some(place) = place.filter(|_| self.state.astray >= WORSE_THAN_BEST) else { return false };
        place.begin_anew();
        (self.state.rest, self.state.recover) = (0, 0);
        true
    }

    /// What was set is taken back: the tree has its time.
    fn begin_rest(&mut self) {
        self.state.astray = 0;
        self.state.rest = self.rules.rest;
        self.state.recover = self.rules.rest_max.max(self.rules.rest);
    }

    /// Why `proposal` is not allowed, if it is not.
    fn forbidden(&self, window: &Window, proposal: &Proposal, moves: &[String]) -> Option<String> {
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
    fn is_closed(&self, window: &Window) -> bool {
        let changes = self.state.places.get(&window.context).map_or(0, |place| place.changes);
        let is_open = changes < self.rules.changes_per_context
            && window.number >= self.state.muted_until
            && self.state.regret.affords(&self.rules);
        self.rules.guarded && !is_open
    }

    /// Whether knobs may at least be unset: this tuner has set some, and the context
    /// has not had all its changes.
    fn may_go_home(&self, window: &Window) -> bool {
        let changes = self.state.places.get(&window.context).map_or(0, |place| place.changes);
        changes < self.rules.changes_per_context && !self.state.own.is_empty()
    }

    /// Whether its agent's record allows a step as large as `set`.
    fn dares(&self, window: &Window, set: &Set) -> bool {
        let old = window.number(&set.knob, set.level);
        let new = set.value.as_deref().and_then(|value| Value::parse(value).number());
        let step = |(old, new)| Step { knob: &set.knob, level: set.level, old, new };
        old.zip(new).map(step).is_none_or(|step| self.state.credit.allows(step))
    }

    /// Whether `set` would change what a person or another program has set.
    fn is_foreign(&self, window: &Window, set: &Set) -> bool {
        self.foreign(window).iter().any(|(knob, level)| set.touches(knob, *level))
    }

    /// The knobs that a person or another program has set.
    fn foreign(&self, window: &Window) -> Vec<(String, Option<u32>)> {
        let is_own = |setting: &&crate::sight::Setting| {
            self.state.own.iter().any(|own| (&own.knob, own.level) == (&setting.knob, setting.level))
        };
        let set = window.settings.iter().filter(|setting| setting.is_set);
        set.filter(|setting| !is_own(setting)).map(|setting| (setting.knob.clone(), setting.level)).collect()
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

    /// The settings under which `context` was cheapest, if they are others than those that stand,
    /// under which it is not known, and the context before it lasted.
    fn own_settings(&self, context: u32) -> Option<Vec<Set>> {
        if self.state.stay.before(context) < LASTS || !self.rules.guarded {
            return None;
        }
        let place = self.state.places.get(&context)?;
        let anchor = place.anchor.as_ref().filter(|anchor| anchor.own != self.state.own)?;
        let is_known = self.state.open.is_none() && place.baseline_under(&self.state.own).is_some();
        (!is_known).then(|| anchor.own.clone())
    }

    /// A known context is back, and its window has only begun.
    fn arrives(&mut self, window: &Window, decision: &mut Decision) {
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
    fn must_leave(&self) -> bool {
        self.rules.guarded && !self.state.regret.gains()
    }

    /// The context of the open change has ended before the change was judged or has gained
    /// anything, and the one that has begun cannot judge it: what it cost before is unknown.
    fn leaves(&mut self, decision: &mut Decision) {
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
    fn returns(&mut self, window: &Window, decision: &mut Decision) -> bool {
        let Some(own) = self.own_settings(window.context) else { return false };
        let sets = state::way(&self.state.own, &own);
        let why = format!("context {} is back: these were its settings", window.context);
        self.order(Purpose::Restore, sets, why, None, decision);
        true
    }

    /// Whether the context is worse than it has been under other settings of this tuner, for long
    /// enough: then those are restored.
    fn restores(&mut self, window: &Window, cost: f64, decision: &mut Decision) -> bool {
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

    /// Judges the open change by one more window.
    fn judge(&mut self, window: &Window, decision: &mut Decision) {
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
    fn goes_beyond(&self, open: &mut Open, baseline: &Baseline, cost: f64, once: f64) -> Option<f64> {
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
    fn judge_whole(&mut self, window: &Window, open: Open, tolerance: f64, decision: &mut Decision) {
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
    fn keep(&mut self, open: Open, ratio: Option<f64>, decision: &mut Decision) {
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
    fn undo(&mut self, window: &Window, open: Open, why: String, decision: &mut Decision) {
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
fn measured(window: &Window, cost: f64) -> Measured {
    // A value that is kept apart is written by the log in the place of a flush.
    let apart = if window.separated_values > 0 { window.log_bytes } else { 0 };
    let moved = (window.bytes_flushed + window.bytes_compacted + apart) as f64;
    Measured { cost, moved: moved / window.operations.total().max(1) as f64, p99_ns: window.p99_ns }
}

/// What `cost` is of `baseline`, where either may be nothing at all.
fn share(cost: f64, baseline: f64) -> f64 {
    const NOTHING: f64 = 1e-9;
    (cost + NOTHING) / (baseline + NOTHING)
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
