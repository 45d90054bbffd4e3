//! A tuner on an open database: `Attach` says how it is tuned, `Tuner` is a thread that does it,
//! `Stepper` does it step by step.
//!
//! `attach` is the short way, for a `Goal`: the steward on the default keyspace.
//!
//! What must hold: the engine answers as if no tuner ran. An agent that panics and a journal that
//! fails end the tuning with a reason; what such an agent left open is taken back. A change that
//! the engine refuses ends nothing. Else the database goes on with what was set. A database has one
//! tuner (`TUNED.lock`).
//!
//! Callers: programs that have a database tuned. Here they are `--tune` of `solera load`, `solera
//! trace replay` and `solera bench`; `solera-bench`'s `arm` and its pages `learning` and `epochs`;
//! `solera-sim`'s `tuner`; tests.

mod stepper;
#[cfg(test)]
mod tests;
mod tuner;

pub use stepper::{Progress, Stepper};
pub use tuner::Tuner;

use crate::{
    agent,
    coordinator::Rules,
    cost::{Units, probe::probe},
    sight::{Goal, Pace},
};
use solera::{Db, Result};

/// The author of a tuner's changes, in receipts.
pub const WHO: &str = "solera-tune";
/// The lock file of the tuner of a database.
pub const LOCK_NAME: &str = "TUNED.lock";

/// How a database is to be tuned.
#[derive(Clone, Debug)]
pub struct Attach {
    goal: Goal,
    keyspace: String,
    agent: String,
    seed: u64,
    units: Option<Units>,
    rules: Rules,
    pace: Pace,
}

/// Has `db` tune itself to `goal`, on a thread of its own, until the result is dropped. The default
/// keyspace is looked at, by the steward; [`Attach`] has other ways.
///
/// ```
/// # fn main() -> solera::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = solera::Db::open(dir.path())?;
/// use solera_tune::{Goal, attach};
/// let tuner = attach(&db, Goal::default())?;
/// db.put(b"key", b"value")?;
/// drop(tuner); // The database goes on with the last settings.
/// # Ok(()) }
/// ```
///
/// # Errors
/// As [`Attach::thread`].
pub fn attach(db: &Db, goal: Goal) -> Result<Tuner> {
    Attach::new(goal).thread(db)
}

impl Attach {
    /// The steward, on the default keyspace.
    pub fn new(goal: Goal) -> Attach {
        Attach {
            goal,
            keyspace: "default".into(),
            agent: agent::steward::NAME.into(),
            seed: 0,
            units: None,
            rules: Rules::default(),
            pace: Pace::default(),
        }
    }

    /// Another keyspace.
    pub fn keyspace(self, name: &str) -> Attach {
        Attach { keyspace: name.into(), ..self }
    }

    /// Another agent, one of [`agent::NAMES`].
    pub fn agent(self, name: &str) -> Attach {
        Attach { agent: name.into(), ..self }
    }

    /// Seed of what the agent draws. Default: 0.
    pub fn seed(self, seed: u64) -> Attach {
        Attach { seed, ..self }
    }

    /// What this machine takes for the steps of operations. Default: what the journal has from the
    /// last time; else they are measured, for two seconds, once a window's operations were done.
    pub fn units(self, units: Units) -> Attach {
        Attach { units: Some(units), ..self }
    }

    /// Other rules for changes.
    pub fn rules(self, rules: Rules) -> Attach {
        Attach { rules, ..self }
    }

    /// Other windows.
    pub fn pace(self, pace: Pace) -> Attach {
        Attach { pace, ..self }
    }

    /// Tunes `db` on a thread of its own until the result is dropped or the database is closed.
    ///
    /// # Errors
    /// [`Error::Invalid`](solera::Error::Invalid) if there is no such agent or unit costs cannot
    /// be; [`Error::Locked`](solera::Error::Locked) if the database is being tuned already;
    /// [`Error::NoKeyspace`](solera::Error::NoKeyspace); [`Error::Corrupt`](solera::Error::Corrupt)
    /// if the journal in its directory is damaged or none, with what to do;
    /// [`Error::Io`](solera::Error::Io).
    pub fn thread(self, db: &Db) -> Result<Tuner> {
        Tuner::start(self, db.control())
    }

    /// Tunes `db` whenever the result is [told to](Stepper::step).
    ///
    /// # Errors
    /// As [`Attach::thread`].
    pub fn stepped(self, db: &Db) -> Result<Stepper> {
        let mut prepared = stepper::Prepared::new(self, db.control())?;
        if prepared.units.is_none() {
            let control = db.control();
            prepared.units = Some(probe(&*control.fs(), &control.dir())?);
        }
        prepared.begin()
    }
}
