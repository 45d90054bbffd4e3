//! One drifting workload in a world of counted time (`solera_tune::world`), with a tuner or
//! without: `run`, which gives a `Course`.
//!
//! A `Course` says what each epoch took and what the tuner did, tried and took back. `Hand` is what
//! sets the knobs: nobody, a person once, or a tuner. `Lengths` says how long epochs and windows
//! are.
//!
//! What must hold: the same drift, setup, lengths and hand give the same course.
//!
//! Caller: `paper::safety`.

use crate::runner::Result;
use solera::control::{Change, knob};
use solera_tune::{
    Attach, Goal,
    attach::Progress,
    coordinator::{Decision, Purpose, Rules},
    cost::Units,
    sight::{Measure, Pace},
    world::{Drift, Setup, World},
};

/// Looks at the database in each window.
const LOOKS: u64 = 4;

/// How a database is tuned.
#[derive(Clone, Debug)]
pub(super) struct Tuning {
    /// Name of the agent.
    pub(super) agent: &'static str,
    /// What it takes the machine for.
    pub(super) units: Units,
    /// Seed of what it draws.
    pub(super) seed: u64,
    /// What holds for its changes.
    pub(super) rules: Rules,
}

/// What sets the knobs of a database.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hand<'a> {
    /// They stay as they are.
    Nobody,
    /// A person, before anything is asked: a knob and its value.
    Person(&'static str, f64),
    /// A tuner.
    Tuner(&'a Tuning),
}

/// How long things are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// Operations of a window, at least.
    pub(super) window: u64,
    /// Windows of an epoch.
    pub(super) windows: u64,
}

/// How a workload went.
#[derive(Clone, Debug, Default)]
pub(super) struct Course {
    /// Nanoseconds of an operation, by epoch.
    pub(super) epochs: Vec<f64>,
    /// Nanoseconds of an operation over all.
    pub(super) mean_ns: f64,
    /// Every decision in which something was changed or became clear.
    pub(super) decisions: Vec<Decision>,
    /// Most changes that an agent made in one context.
    pub(super) changes_max: u32,
    /// Windows that ended.
    pub(super) windows: u64,
    /// Why tuning ended, if it did.
    pub(super) off: Option<String>,
}

impl Course {
    /// Changes that were made for an agent.
    pub(super) fn tries(&self) -> usize {
        self.of(Purpose::Try)
    }

    /// Changes that were taken back.
    pub(super) fn undone(&self) -> usize {
        self.of(Purpose::Undo) + self.of(Purpose::Restore)
    }

    fn of(&self, purpose: Purpose) -> usize {
        let orders = self.decisions.iter().filter_map(|decision| decision.order.as_ref());
        orders.filter(|order| order.purpose == purpose).count()
    }
}

/// Runs `drift` in the world of `setup`.
pub(super) fn run(drift: &Drift, setup: &Setup, lengths: Lengths, hand: Hand<'_>) -> Result<Course> {
    let mut world = World::new(setup.clone())?;
    if let Hand::Person(knob, value) = hand {
        let knob = knob::find(knob)?;
        world.db().control().apply(Change::new("bench", "for comparison").set(knob, value))?;
    }
    let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
    let pace = Pace { operations_min: lengths.window, elapsed_ns_min: 0, ..Pace::default() };
    let attach = |tuning: &Tuning| {
        let attach = Attach::new(goal).agent(tuning.agent).units(tuning.units.clone()).seed(tuning.seed);
        attach.rules(tuning.rules.clone()).pace(pace).stepped(world.db())
    };
    let mut stepper = match hand {
        Hand::Nobody | Hand::Person(..) => None,
        Hand::Tuner(tuning) => Some(attach(tuning)?),
    };
    let mut course = Course::default();
    let epoch = ((lengths.window * lengths.windows) as f64 * drift.length) as u64;
    let look = (lengths.window / LOOKS).max(1);
    let begin = world.now_ns();
    for phase in &drift.epochs {
        let (begin, mut done) = (world.now_ns(), 0);
        while done < epoch {
            let some = look.min(epoch - done);
            world.run(phase, some)?;
            done += some;
            match stepper.as_mut().map(|stepper| stepper.step()) {
                Some(Progress::Decided(decision)) => {
                    course.windows += 1;
                    if decision.order.is_some() || decision.outcome.is_some() {
                        course.decisions.push(*decision);
                    }
                }
                Some(Progress::Off(why)) => course.off = Some(why),
                Some(Progress::Watching) | None => {}
            }
        }
        course.epochs.push((world.now_ns() - begin) as f64 / epoch as f64);
    }
    let operations = epoch * drift.epochs.len() as u64;
    course.mean_ns = (world.now_ns() - begin) as f64 / operations as f64;
    if let Some(stepper) = &stepper {
        let places = &stepper.state().places;
        course.changes_max = places.values().map(|place| place.changes).max().unwrap_or(0);
    }
    Ok(course)
}
