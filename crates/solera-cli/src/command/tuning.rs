//! `--tune`: a tuner beside a command that works on a database (`Tuning`).
//!
//! `start` has a keyspace tuned by `solera_tune` until the result is dropped; `end` tells if it had
//! ended by itself.
//!
//! What must hold: without the argument nothing is started.
//!
//! Callers: `command::load` and `command::trace::replay`; `command::bench` reads the argument.

use crate::{failure::Result, output::say};
use solera::Db;
use solera_tune::{Attach, Goal, Tuner, agent};

/// Whether a database tunes itself meanwhile.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Tuning {
    /// Let the database tune itself meanwhile, by this agent; `solera explain` tells what it did
    #[arg(long, value_name = "AGENT", num_args = 0..=1, require_equals = true, default_missing_value = agent::steward::NAME,
          value_parser = agent_name)]
    pub(crate) tune: Option<String>,
}

fn agent_name(name: &str) -> Result<String, String> {
    match agent::NAMES.contains(&name) {
        true => Ok(name.into()),
        false => Err(format!("there is no agent {name:?}; there are {}", agent::NAMES.join(", "))),
    }
}

impl Tuning {
    /// Has `keyspace` of `db` tuned, if that was asked for, until the result is dropped.
    pub(crate) fn start(&self, db: &Db, keyspace: &str) -> Result<Option<Tuner>> {
        let attach = |agent: &String| Attach::new(Goal::default()).agent(agent).keyspace(keyspace).thread(db);
        Ok(self.tune.as_ref().map(attach).transpose()?)
    }

    /// Ends the tuning, and tells on standard error if it had ended by itself.
    pub(crate) fn end(tuner: Option<Tuner>) {
        if let Some(why) = tuner.as_ref().and_then(Tuner::off) {
            say(&format!("tuning ended early: {why}"));
        }
    }
}
