//! A database and the hand that may turn its knobs after each mission: `Learner`, and `Hand`.
//!
//! A hand is none (a fixed arm), an agent as the papers do it, or a tuner as users have it.
//! `mission` does operations and then has the hand decide. `unseen` does some of which no agent is
//! told. `update_ns` is what an update of the agent's model takes.
//!
//! What must hold: an agent's proposals are done at once and never taken back; a tuner has its
//! windows, its guard and its journal.
//!
//! Callers: `paper::contest` and `paper::lerp`, `paper::camal_dynamic`, `paper::doblix_agent`.

use super::missions::{Measured, Tenant};
use crate::runner::{Error, Result};
use solera::{
    Clock,
    clock::SystemClock,
    control::{Change, Value},
};
use solera_tune::{
    Attach, Goal,
    agent::{Agent, Outcome, Proposal, constants::DoblixConstants, doblix::State},
    attach::{Progress, Stepper},
    cost::{Mix, Units},
    sight::{Blocked, Look, Pace, Watch, Window},
};

/// Every mission is a window, however short it is.
const PACE: Pace =
    Pace { operations_min: 1, flushes_min: 0, elapsed_ns_min: 0, elapsed_ns_max: 3_600_000_000_000 };

/// What turns the knobs.
pub(super) enum Hand {
    /// They stay as they are.
    Nobody,
    /// An agent, unguarded.
    Agent(Box<dyn Agent>),
    /// A tuner.
    Tuner(Box<Stepper>),
}

impl Hand {
    /// The tuner that users get, with windows of so many operations at least.
    pub(super) fn steward(
        tenant: &Tenant,
        goal: Goal,
        units: &Units,
        operations: u64,
        seed: u64,
    ) -> Result<Hand> {
        let pace = Pace { operations_min: operations, elapsed_ns_min: 0, ..Pace::default() };
        let attach = Attach::new(goal).units(units.clone()).seed(seed).pace(pace);
        Ok(Hand::Tuner(Box::new(attach.stepped(tenant.db())?)))
    }
}

/// A database and the hand that turns its knobs.
pub(super) struct Learner {
    /// Before the database, which a tuner must not outlive.
    hand: Hand,
    tenant: Tenant,
    watch: Watch,
    /// Time of the processor that each mission's decision took, in nanoseconds; on a system that
    /// does not tell it, time that passed.
    pub(super) thinking_ns: Vec<u64>,
    /// Changes that were made.
    pub(super) changes: u64,
}

impl Learner {
    /// A database as it is now.
    pub(super) fn new(tenant: Tenant, hand: Hand) -> Learner {
        let watch = Watch::new("default", PACE, tenant.db().control().observe(), 0);
        Learner { hand, tenant, watch, thinking_ns: Vec::new(), changes: 0 }
    }

    /// Does a mission; then it is decided. Returns what was done and what was seen.
    pub(super) fn mission(
        &mut self,
        clock: &dyn Clock,
        mix: &Mix,
        operations: u64,
    ) -> Result<(Measured, Option<Box<Window>>)> {
        let did = self.tenant.run(clock, mix, operations)?;
        let Look::Ended(mut window) = self.watch.look(self.tenant.db().control().observe()) else {
            return Ok((did, None));
        };
        // The papers' agents have no guard, and are shown every mission.
        window.blocked = window.blocked.filter(|blocked| matches!(blocked, Blocked::NotANumber));
        let clock = SystemClock::new();
        let now = || processor_ns().unwrap_or_else(|| clock.monotonic_ns());
        let begin = now();
        let thought = match &mut self.hand {
            Hand::Nobody => None,
            Hand::Tuner(stepper) => {
                if let Progress::Decided(decision) = stepper.step() {
                    self.changes += u64::from(decision.order.is_some());
                }
                Some(now() - begin)
            }
            Hand::Agent(agent) => {
                agent.see(&window);
                let proposal = agent.propose(&window);
                let thought = now() - begin;
                if let Some(proposal) = proposal {
                    self.changes += u64::from(done(&self.tenant, agent.as_mut(), &proposal)?);
                }
                Some(thought)
            }
        };
        self.thinking_ns.extend(thought);
        Ok((did, Some(window)))
    }

    /// Does operations that are not shown to the hand.
    pub(super) fn unseen(&mut self, clock: &dyn Clock, mix: &Mix, operations: u64) -> Result<()> {
        self.tenant.run(clock, mix, operations)?;
        let now = self.tenant.db().control().observe();
        self.watch = Watch::new("default", PACE, now, 0);
        if let Hand::Tuner(stepper) = &mut self.hand {
            // A tuner looks when it likes; it sees what came as a window of its own.
            stepper.step();
        }
        Ok(())
    }

    /// What an update of the agent's model takes, in nanoseconds: the median of the missions in
    /// which it took longest, so that neither missions without an update nor the machine's other
    /// programs count.
    pub(super) fn update_ns(&self) -> f64 {
        let most = self.thinking_ns.iter().copied().max().unwrap_or(0);
        let mut updates: Vec<u64> = self.thinking_ns.iter().copied().filter(|ns| *ns > most / 100).collect();
        updates.sort_unstable();
        updates.get(updates.len() / 2).copied().unwrap_or(0) as f64
    }

    /// The agent, where there is one without a tuner.
    fn agent(&self) -> Option<&dyn Agent> {
        match &self.hand {
            Hand::Agent(agent) => Some(agent.as_ref()),
            Hand::Nobody | Hand::Tuner(_) => None,
        }
    }

    /// Episodes that the agent has ended, if it is DobLIX's.
    pub(super) fn episodes(&self) -> u64 {
        let memory = self.agent().map(|agent| agent.remember());
        memory.and_then(|memory| memory["episodes"].as_u64()).unwrap_or(0)
    }

    /// The layout that new tables get, as a state of DobLIX's agent.
    pub(super) fn state(&self, constants: &DoblixConstants) -> Option<State> {
        let now = self.tenant.db().control().observe();
        let setting = |name: &str| now.setting(name, "default", None).cloned();
        let number = |name: &str| setting(name).and_then(|value| value.number());
        let size =
            constants.block_bytes.iter().position(|of| Some(f64::from(*of)) == number("block_bytes"))?;
        let model = match setting("index")?.name()? {
            "doblix-pla" => {
                constants.epsilons.iter().position(|of| Some(f64::from(*of)) == number("epsilon"))?
            }
            _ => constants.epsilons.len(),
        };
        Some(State { model, size })
    }

    /// T.
    pub(super) fn size_ratio(&self) -> f64 {
        let now = self.tenant.db().control().observe();
        let setting = now.setting("size_ratio", "default", None);
        setting.and_then(|value| value.number()).unwrap_or_default()
    }

    /// What every level may hold in runs, from level 1 to the deepest that holds anything: one that
    /// was just emptied is among them.
    pub(super) fn run_limits(&self) -> Vec<u32> {
        let levels = self.tenant.db().control().observe();
        let levels = levels.keyspace("default").map(|keyspace| keyspace.levels.clone()).unwrap_or_default();
        let deepest = levels.iter().filter(|level| level.entries > 0).map(|level| level.level).max();
        levels
            .iter()
            .filter(|level| level.level > 0 && Some(level.level) <= deepest)
            .map(|level| level.run_limit)
            .collect()
    }
}

/// What the processor has done for this thread, in nanoseconds.
fn processor_ns() -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the time.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    (told == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Does what an agent proposed, and tells it; whether it was done.
fn done(tenant: &Tenant, agent: &mut dyn Agent, proposal: &Proposal) -> Result<bool> {
    let outcome = match tenant.db().control().apply(change(agent.name(), proposal)) {
        Ok(_) => {
            agent.hear(&Outcome::Made);
            Outcome::Kept { ratio: 1.0 }
        }
        Err(solera::Error::Invalid(why)) => Outcome::Refused { why },
        Err(error) => return Err(Error::Engine(error)),
    };
    agent.hear(&outcome);
    Ok(matches!(outcome, Outcome::Kept { .. }))
}

fn change(who: &str, proposal: &Proposal) -> Change {
    let mut change = Change::new(who, proposal.why.clone());
    for set in &proposal.sets {
        change = match (&set.value, set.level) {
            (Some(value), None) => change.set(&set.knob, Value::parse(value)),
            (Some(value), Some(level)) => change.set_level(&set.knob, level, Value::parse(value)),
            (None, level) => change.reset(&set.knob, level),
        };
    }
    change
}
