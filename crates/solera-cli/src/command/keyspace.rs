//! `solera keyspace`: lists, makes and drops keyspaces (`KeyspaceCommand`).
//!
//! What must hold: listing opens read-only. A keyspace that is to be made must not be there; one
//! that is to be dropped must be, and goes only with `--yes`.
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::{print_json, print_text},
    target::Database,
    units,
};
use serde_json::{Value, json};

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
    /// Drop a keyspace and everything in it; there is no way back
    Drop {
        #[command(flatten)]
        database: Database,
        /// Its name
        name: String,
        /// Say that its data may go
        #[arg(long)]
        yes: bool,
        /// Print what was dropped as one JSON object
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
                told(json, || json!({ "created": name }))
            }
            Action::Drop { database, name, yes, json } => {
                let entries = drop_keyspace(&database, &name, yes)?;
                told(json, || json!({ "dropped": name, "entries": entries }))
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

/// Says what was done, if that was asked for.
fn told(as_json: bool, what: impl FnOnce() -> Value) -> Result<Outcome> {
    if as_json {
        print_json(&what())?;
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

/// Drops the keyspace, and says about how many entries went with it.
fn drop_keyspace(database: &Database, name: &str, yes: bool) -> Result<u64> {
    let db = database.open_to_change()?;
    let entries = database.existing_keyspace(&db, name)?.stats().entries;
    if !yes {
        return Err(Failure::Usage(format!(
            "keyspace {name:?} has about {}, which would be gone; say --yes",
            match entries {
                1 => "1 entry".to_owned(),
                _ => format!("{} entries", units::count(entries)),
            }
        )));
    }
    db.drop_keyspace(name)?;
    db.close()?;
    Ok(entries)
}
