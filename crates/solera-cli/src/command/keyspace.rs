//! `solera keyspace`: lists, makes and drops keyspaces (`KeyspaceCommand`).
//!
//! What must hold: listing opens read-only. A keyspace that is to be made must not be there. One
//! that is to be dropped must be, and goes only with `--yes`; of several all go or none.
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::{print_json, print_text},
    target::Database,
    units,
};
use serde_json::json;
use std::collections::BTreeSet;

/// List, make and drop keyspaces
#[derive(Debug, clap::Args)]
pub(crate) struct KeyspaceCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print the names of all keyspaces, one per line
    List {
        #[command(flatten)]
        database: Database,
        /// Print one JSON object per keyspace
        #[arg(long)]
        json: bool,
    },
    /// Make a keyspace
    Create {
        #[command(flatten)]
        database: Database,
        /// Its name
        name: String,
        /// Print what was made as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Drop keyspaces and everything in them; there is no way back
    Drop {
        #[command(flatten)]
        database: Database,
        /// Their names; all go, or none
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
        /// Say that their data may go
        #[arg(long)]
        yes: bool,
        /// Print each that was dropped as one JSON object
        #[arg(long)]
        json: bool,
    },
}

impl KeyspaceCommand {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self.action {
            Action::List { database, json } => list(&database, json),
            Action::Create { database, name, json } => {
                create(&database, &name)?;
                if json {
                    print_json(&json!({ "created": name }))?;
                }
                Ok(Outcome::Done)
            }
            Action::Drop { database, names, yes, json } => {
                // One that is named twice goes once.
                let mut named = BTreeSet::new();
                let names: Vec<String> =
                    names.into_iter().filter(|name| named.insert(name.clone())).collect();
                let entries = drop_keyspaces(&database, &names, yes)?;
                for (name, entries) in names.iter().zip(entries).filter(|_| json) {
                    print_json(&json!({ "dropped": name, "entries": entries }))?;
                }
                Ok(Outcome::Done)
            }
        }
    }
}

fn list(database: &Database, as_json: bool) -> Result<Outcome> {
    for name in database.open_to_read()?.keyspaces() {
        match as_json {
            true => print_json(&json!({ "keyspace": name }))?,
            false => print_text(&name.escape_debug().to_string())?,
        }
    }
    Ok(Outcome::Done)
}

fn create(database: &Database, name: &str) -> Result<()> {
    let db = database.open_to_change()?;
    if db.keyspaces().iter().any(|known| known == name) {
        return Err(Failure::Usage(format!("keyspace {name:?} is there already")));
    }
    drop(db.keyspace(name)?);
    Ok(db.close()?)
}

/// Drops the keyspaces, and says about how many entries went with each.
fn drop_keyspaces(database: &Database, names: &[String], yes: bool) -> Result<Vec<u64>> {
    let db = database.open_to_change()?;
    let known: BTreeSet<String> = db.keyspaces().into_iter().collect();
    if let Some(missing) = names.iter().find(|name| !known.contains(*name)) {
        database.existing_keyspace(&db, missing)?;
    }
    let entries = |name: &String| Ok(db.keyspace(name)?.stats().entries);
    let entries = names.iter().map(entries).collect::<Result<Vec<u64>>>()?;
    if !yes {
        let all = match entries.iter().sum() {
            1 => "1 entry".to_owned(),
            count => format!("{} entries", units::count(count)),
        };
        return Err(Failure::Usage(match names {
            [name] => format!("keyspace {name:?} has about {all}, which would be gone; say --yes"),
            _ => format!("{} keyspaces have about {all}, which would be gone; say --yes", names.len()),
        }));
    }
    db.drop_keyspaces(names)?;
    db.close()?;
    Ok(entries)
}
