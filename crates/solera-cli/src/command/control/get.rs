//! `solera control get`: prints knobs, what each is, what it may be set to now, and what it means
//! (`Control::ranges`). It takes one knob or all, one keyspace or all.
//!
//! Text is one block of lines for the database and one for each keyspace; `*` marks what was set.
//! JSON is one object for each knob and level.
//!
//! What must hold: the database is opened read-only, and nothing changes.
//!
//! Caller: `command::control`.

use crate::{
    failure::{Outcome, Result},
    output::{print_json, print_text},
    target::Database,
};
use serde_json::{Value as Json, json};
use solera::control::{Knob, Legal, Range, Value, knob};
use std::fmt::Write;

/// Print every knob: what it is, what it may be set to now, and what it means
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    #[command(flatten)]
    database: Database,
    /// Only this knob, for every level [default: all knobs, and levels that have something of their
    /// own]
    #[arg(value_name = "KNOB", value_parser = |name: &str| knob::find(name))]
    knob: Option<&'static Knob>,
    /// Only this keyspace, and the database [default: all]
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// Print one JSON object per knob and level
    #[arg(long)]
    json: bool,
}

impl Get {
    pub(crate) fn run(self) -> Result<Outcome> {
        let db = self.database.open_to_read()?;
        if let Some(name) = &self.keyspace {
            self.database.existing_keyspace(&db, name)?;
        }
        let ranges = db.control().ranges();
        let is_meant = |range: &&Range| {
            self.knob.is_none_or(|knob| knob == range.knob)
                && (range.keyspace.is_none() || self.keyspace.is_none() || range.keyspace == self.keyspace)
        };
        let meant: Vec<&Range> = ranges.ranges.iter().filter(is_meant).collect();
        if self.json {
            meant.iter().try_for_each(|range| print_json(&to_json(range)))?;
        } else {
            print_text(&table(&meant, self.knob.is_some()))?;
        }
        Ok(Outcome::Done)
    }
}

fn to_json(range: &Range) -> Json {
    let legal = match &range.legal {
        Legal::Whole { min, max } => json!({"min": min, "max": max, "whole": true}),
        Legal::Real { min, max } => json!({"min": min, "max": max}),
        Legal::ZeroOr { min, max } => json!({"min": min, "max": max, "or": 0}),
        Legal::Names(names) => json!({"names": names}),
    };
    let value = match &range.value {
        Value::Name(name) => json!(name),
        number => number.whole().map_or_else(|| json!(number.number()), |whole| json!(whole)),
    };
    let knob = range.knob;
    json!({
        "knob": knob.name,
        "keyspace": range.keyspace,
        "level": range.level,
        "value": value,
        "is_set": range.is_set,
        "legal": legal,
        "unit": knob.unit,
        "default": knob.default,
        "effect": knob.effect,
        "help": knob.help,
    })
}

/// One block of lines for the database and for each keyspace. `*` marks what was set.
fn table(ranges: &[&Range], every_level: bool) -> String {
    let mut out = String::new();
    let mut block: Option<&Option<String>> = None;
    for range in ranges {
        if block != Some(&range.keyspace) {
            block = Some(&range.keyspace);
            let title =
                range.keyspace.as_ref().map_or("database".to_owned(), |name| format!("keyspace {name:?}"));
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{title}");
        }
        let of_all = || {
            let all = ranges
                .iter()
                .find(|all| all.knob == range.knob && all.keyspace == range.keyspace && all.level.is_none());
            all.is_some_and(|all| all.value == range.value)
        };
        if range.level.is_some() && !every_level && !range.is_set && of_all() {
            continue;
        }
        let name = match range.level {
            None => range.knob.name.to_owned(),
            Some(level) => format!("  of level {level}"),
        };
        let mark = if range.is_set { "*" } else { "" };
        let value = format!("{}{mark}", range.value);
        let unit = range.knob.unit;
        let _ = write!(out, "  {name:<21} {value:>13} {unit:<11}");
        let _ = match range.level {
            None => writeln!(out, "  {}\n  {:23}{}", range.legal, "", range.knob.help),
            Some(_) => writeln!(out, "  {}", range.legal),
        };
    }
    out
}
