//! `solera tune replay`: decides again, offline, what a tuner decided, from what its journal says
//! was seen.
//!
//! What must hold: the same sights lead to the same decisions. A difference is exit status 4. A
//! file that is no journal is a mistake of the command line.
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    given::unless_another,
    output::{print_json, print_text},
    target::operating_system,
};
use serde_json::json;
use solera_tune::coordinator::{journal, replay::replay};
use std::path::PathBuf;

/// Decide again what a tuner decided
#[derive(Debug, clap::Args)]
pub(crate) struct Tune {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Replay(Replay),
}

/// Decide again, offline, from what a journal says was seen, and compare; a difference is exit
/// status 4
#[derive(Debug, clap::Args)]
struct Replay {
    /// The journal: the file TUNED in a database's directory, or a copy of it
    #[arg(value_name = "JOURNAL")]
    journal: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Tune {
    pub(crate) fn run(self) -> Result<Outcome> {
        let Command::Replay(command) = self.command;
        command.run()
    }
}

impl Replay {
    fn run(self) -> Result<Outcome> {
        let path = &self.journal;
        if !path.exists() {
            return Err(Failure::Missing(format!("there is no journal {}", path.display())));
        }
        let records = journal::read(&*operating_system(), path)
            .map_err(|error| unless_another(error.into(), path, "a tuner's journal", journal::begins))?;
        if records.is_empty() {
            return Err(Failure::Usage(format!("{} holds no record of a tuner", path.display())));
        }
        let replayed =
            replay(&records).map_err(|why| Failure::Error(format!("{}: {why}", path.display())))?;
        let printed = if self.json {
            print_json(&json!({
                "decisions": replayed.decisions,
                "orders": replayed.orders,
                "same": replayed.difference.is_none(),
                "difference": replayed.difference.as_ref().map(|difference| json!({
                    "window": difference.window,
                    "then": difference.then,
                    "now": difference.now,
                })),
            }))
        } else {
            let mut text = format!("{} decisions, {} orders", replayed.decisions, replayed.orders);
            text += &match &replayed.difference {
                None => ": all the same\n".to_owned(),
                Some(difference) => format!(
                    "; another after window {}:\n  then {}\n  now  {}\n",
                    difference.window, difference.then, difference.now
                ),
            };
            print_text(&text)
        };
        let found = if replayed.difference.is_some() { Outcome::Damaged } else { Outcome::Done };
        Failure::told(Ok(found), printed.map_err(Failure::from))
    }
}
