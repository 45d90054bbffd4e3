//! A tuner as a step of a life: `look`, by one of `AGENTS`, `ended` and `agrees`.
//!
//! A tuner is attached at the first look, and each look is a step of it. A look by another agent
//! ends it and attaches that one. Its windows are a few operations long. All agents but the steward
//! have no guard, so they change as much as they may. `ended` says whether it has noticed the end
//! of its database, `agrees` whether journal and manifest tell one story.
//!
//! What must hold: a tuner changes how fast an answer comes, never the answer. Nothing but another
//! agent or the end of its database ends it. Journal and manifest agree, whatever the power cut.
//! The manifest has no change that the journal did not order first, and has each that the journal
//! calls made. What was decided is decided again word for word.
//!
//! Callers: `life::world`, `crash`, `program::{isolate, crashsim, metamorph}`.

use solera::{Db, control::Receipt, vfs::Fs};
use solera_tune::{
    Attach, Goal, Stepper, agent,
    attach::{Progress, WHO},
    coordinator::{
        Answer, Rules,
        journal::{JOURNAL_NAME, Record, read},
        replay::replay,
    },
    sight::{Measure, Pace},
    world::device,
};
use std::{collections::BTreeSet, path::Path, time::Duration};

/// The agents that may turn the knobs.
pub const AGENTS: [&str; 3] = [agent::steward::NAME, agent::random::NAME, agent::worst::NAME];
/// The keyspace that is tuned where nothing else is said.
pub const DEFAULT: &str = "default";
/// Operations of a window.
const WINDOW_OPERATIONS: u64 = 12;
/// What a look moves the clock by: a window must have taken some time. It is so little that no
/// entry expires by it.
const TICK: Duration = Duration::from_nanos(100);
/// Why a change that the last process left open is taken back.
const LEFT_OPEN: &str = "its process ended before it was judged";

/// A tuner at work.
#[derive(Debug)]
pub struct Tuner {
    agent: &'static str,
    stepper: Stepper,
}

impl Tuner {
    /// A tuner on a database that has none: journal and manifest agree by then.
    fn attached(db: &Db, keyspace: &str, agent: &'static str) -> Result<Tuner, String> {
        let pace =
            Pace { operations_min: WINDOW_OPERATIONS, flushes_min: 0, elapsed_ns_min: 0, ..Pace::default() };
        let goal = Goal { measure: Measure::Elapsed, ..Goal::default() };
        let rules = if agent == agent::steward::NAME { Rules::default() } else { Rules::unguarded() };
        let attach = Attach::new(goal).keyspace(keyspace).agent(agent).rules(rules);
        let attach = attach.units(device()).seed(5).pace(pace);
        let stepper = attach.stepped(db).map_err(|error| format!("no tuner can be attached: {error}"))?;
        if let Some(why) = stepper.off() {
            return Err(format!("the tuner ended at once: {why}"));
        }
        if stepper.state().open.is_some() {
            return Err("a change is open that nobody of this process has made".into());
        }
        agrees(&*db.control().fs(), &db.control().dir(), &db.control().history())?;
        Ok(Tuner { agent, stepper })
    }
}

/// Lets the tuner of `agent` look at a keyspace. One of another agent ends first.
pub fn look(db: &Db, keyspace: &str, tuner: &mut Option<Tuner>, agent: u8) -> Result<(), String> {
    let agent = AGENTS[usize::from(agent) % AGENTS.len()];
    if tuner.as_ref().is_some_and(|tuner| tuner.agent != agent) {
        *tuner = None;
    }
    db.control().clock().sleep(TICK);
    let tuner = match tuner {
        Some(tuner) => tuner,
        None => tuner.insert(Tuner::attached(db, keyspace, agent)?),
    };
    match tuner.stepper.step() {
        Progress::Off(why) => Err(format!("the tuner ended: {why}")),
        Progress::Watching | Progress::Decided(_) => Ok(()),
    }
}

/// Whether the tuner has noticed that its database was closed.
pub fn ended(tuner: Option<Tuner>) -> Result<(), String> {
    match tuner.map(|mut tuner| tuner.stepper.step()) {
        None => Ok(()),
        Some(Progress::Off(why)) if why == "the database was closed" => Ok(()),
        Some(progress) => Err(format!("the database was closed, and the tuner goes on: {progress:?}")),
    }
}

/// Whether the journal in `dir` and the changes that the manifest has, `history`, agree.
pub fn agrees(fs: &dyn Fs, dir: &Path, history: &[Receipt]) -> Result<(), String> {
    let records = read(fs, &dir.join(JOURNAL_NAME)).map_err(|error| error.to_string())?;
    let decided = replay(&records).map_err(|what| format!("the journal cannot be replayed: {what}"))?;
    if let Some(difference) = decided.difference {
        return Err(format!("it is decided otherwise now: {difference:?}"));
    }
    let (mut ordered, mut last) = (BTreeSet::new(), None);
    for record in &records {
        match record {
            Record::Window { decision, .. } => {
                last = decision.order.as_ref().map(|order| order.tag.as_str());
                ordered.extend(last);
            }
            Record::Answer(Answer::Made(number)) => made(history, *number, last.take())?,
            Record::Begin(_) | Record::Answer(Answer::Refused(_)) | Record::End { .. } => {}
        }
    }
    let strange = history.iter().find(|receipt| {
        receipt.who == WHO && receipt.why != LEFT_OPEN && !ordered.contains(receipt.tag.as_str())
    });
    strange.map_or(Ok(()), |receipt| Err(format!("no order in the journal is for {receipt:?}")))
}

/// Whether the manifest has a change that the journal calls made, as far back as it remembers.
fn made(history: &[Receipt], number: u64, tag: Option<&str>) -> Result<(), String> {
    let tag = tag.ok_or("the journal has an answer to no order")?;
    let Some(first) = history.first() else {
        return Err(format!("the journal says that {tag} was made, and the manifest has no change"));
    };
    if number < first.number {
        return Ok(());
    }
    let found = history.iter().find(|receipt| receipt.number == number);
    match found {
        Some(receipt) if receipt.who == WHO && receipt.tag == tag => Ok(()),
        found => Err(format!("the journal says that {tag} was made as change {number}, which is {found:?}")),
    }
}
