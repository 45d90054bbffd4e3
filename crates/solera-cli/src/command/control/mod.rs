//! `solera control`: the knobs of a database, and what it does. `Control::run` chooses `get`,
//! `set`, `history` or `watch`.
//!
//! It owns how a receipt is shown: `receipt_json`, and `changed_text` (`run_limit of level 1 of
//! "default": 1 → 4`).
//!
//! What must hold: `set` and `history` show a change by these two functions. As text, `set` also
//! says when it takes effect.
//!
//! Caller: `main`.

mod get;
mod history;
mod set;
mod watch;

use crate::failure::{Outcome, Result};
use serde_json::{Value, json};
use solera::control::{Changed, Receipt};

/// Show and change the knobs of a database: shape, layout, memory; who changed them; and what it
/// does meanwhile
#[derive(Debug, clap::Args)]
pub(crate) struct Control {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Get(get::Get),
    Set(set::Set),
    History(history::History),
    Watch(watch::Watch),
}

impl Control {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Get(command) => command.run(),
            Command::Set(command) => command.run(),
            Command::History(command) => command.run(),
            Command::Watch(command) => command.run(),
        }
    }
}

fn receipt_json(receipt: &Receipt) -> Value {
    let changed = receipt.changed.iter().map(|changed| {
        json!({
            "knob": changed.knob,
            "keyspace": (!changed.keyspace.is_empty()).then_some(&changed.keyspace),
            "level": changed.level,
            "old": changed.old,
            "new": changed.new,
        })
    });
    json!({
        "number": receipt.number,
        "unix_ms": receipt.unix_ms,
        "who": receipt.who,
        "why": receipt.why,
        "tag": receipt.tag,
        "changed": changed.collect::<Vec<_>>(),
    })
}

/// `run_limit of level 1 of "default": 1 → 4`.
fn changed_text(changed: &Changed) -> String {
    let level = changed.level.map_or(String::new(), |level| format!(" of level {level}"));
    let keyspace = match changed.keyspace.as_str() {
        "" => String::new(),
        name => format!(" of {name:?}"),
    };
    format!("{}{level}{keyspace}: {} → {}", changed.knob, changed.old, changed.new)
}
