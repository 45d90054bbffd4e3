//! `solera control set`: sets knobs, all of them or none (`Control::apply`), and prints the
//! receipt.
//!
//! A setting is `knob=value`, for a keyspace or a level if the arguments say so; the reason is
//! recorded with it.
//!
//! What must hold: an illegal setting is refused with what is legal, and nothing changes.
//!
//! Caller: `command::control`.

use super::{changed_text, receipt_json};
use crate::{
    failure::{Failure, Outcome, Result},
    output::{print_json, print_text},
    target::Place,
    units,
};
use clap::builder::NonEmptyStringValueParser;
use solera::{
    Error,
    control::{Change, Changed, Knob, Scope, Value, knob},
};

/// Set knobs, all of them or none; recorded with the reason, in force from then on, also after
/// every later open
#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    #[command(flatten)]
    place: Place,
    /// What to set, such as run_limit=4; VALUE `default` undoes what was set before, and the
    /// engine chooses again
    #[arg(value_name = "KNOB=VALUE", required = true, value_parser = setting)]
    settings: Vec<(&'static Knob, Option<Value>)>,
    /// Why, for the history
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    why: String,
    /// Who, for the history [default: the user's name, as USER tells it]
    #[arg(long, value_name = "TEXT")]
    who: Option<String>,
    /// A mark to find this change by in the history
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    tag: String,
    /// Only if change N is still the newest of the history (0: if there is none)
    #[arg(long, value_name = "N", value_parser = units::whole::<u64>(0, u64::MAX))]
    if_newest: Option<u64>,
    /// Only for this level [default: for all, which ends what single ones were set to; of run_limit
    /// all but level 0]
    #[arg(long, value_name = "N", value_parser = units::whole::<u32>(0, u32::MAX.into()))]
    level: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn setting(text: &str) -> Result<(&'static Knob, Option<Value>), String> {
    let (name, value) = text.split_once('=').ok_or("a setting is KNOB=VALUE, such as run_limit=4")?;
    let knob = knob::find(name).map_err(|error| error.to_string())?;
    if value.is_empty() {
        return Err(format!("{name} is set to nothing; `default` undoes what was set before"));
    }
    Ok((knob, (value != "default").then(|| Value::parse(value))))
}

/// The name of the user, if the system tells one that is text.
fn user() -> Option<String> {
    std::env::var("USER").ok().filter(|name| !name.is_empty())
}

impl Set {
    pub(crate) fn run(self) -> Result<Outcome> {
        let (db, keyspace) = self.place.open_to_change()?;
        let who = self.who.or_else(user).unwrap_or_else(|| "solera control".to_owned());
        let mut change = Change::new(who, self.why).tag(self.tag).keyspace(keyspace.name());
        if let Some(newest) = self.if_newest {
            change = change.only_if_newest(newest);
        }
        for (knob, value) in &self.settings {
            let level = self.level.filter(|_| knob.scope == Scope::Level);
            if level != self.level {
                let scope = knob.scope.name();
                return Err(Failure::Usage(format!("{} is set for a {scope}, not for a level", knob.name)));
            }
            change = match (level, value.clone()) {
                (None, Some(value)) => change.set(knob, value),
                (Some(level), Some(value)) => change.set_level(knob, level, value),
                (level, None) => change.reset(knob, level),
            };
        }
        let receipt = db.control().apply(change).map_err(|error| match error {
            Error::Invalid(what) => Failure::Usage(what),
            error => error.into(),
        })?;
        drop(keyspace);
        db.close()?;
        if self.json {
            print_json(&receipt_json(&receipt))?;
        } else {
            let line = |changed: &Changed| {
                let effect = knob::find(&changed.knob).map_or("", |knob| knob.effect);
                format!("{} ({effect})", changed_text(changed))
            };
            let lines: Vec<_> = receipt.changed.iter().map(line).collect();
            print_text(&lines.join("\n"))?;
        }
        Ok(Outcome::Done)
    }
}
