//! `solera checkpoint`: makes a second database with the same content in a new directory
//! (`Checkpoint`), by `Db::checkpoint`.
//!
//! The directory must be missing or empty. A file in its place and a place in any database are
//! refused here; the rest `Db::checkpoint` refuses.
//!
//! What must hold: tables are shared by hard links, so both databases lie on one file system.
//! Files known to be damaged are shared too: the checkpoint is made, and the command then fails
//! and tells of them.
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::print_json,
    own,
    target::{Database, damage},
};
use serde_json::json;
use std::path::PathBuf;

/// Make a consistent copy of the database in a new directory; tables are shared by hard links
#[derive(Debug, clap::Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    database: Database,
    /// Directory of the copy; it must not exist, or be empty, and lie on the same file system
    to: PathBuf,
    /// Print what was copied as one JSON object
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    pub(crate) fn run(self) -> Result<Outcome> {
        let what = match std::fs::metadata(&self.to) {
            Ok(found) if !found.is_dir() => Some("a file"),
            Err(error) if own::leads_nowhere(&self.to, &error) => Some("a link that leads nowhere"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(Failure::Usage(format!(
                "{} is {what}; a checkpoint needs a directory that is missing or empty",
                self.to.display()
            )));
        }
        own::not_in_database(&self.to, "a checkpoint")?;
        let db = self.database.open_to_change()?;
        db.checkpoint(&self.to)?;
        let stats = db.stats();
        let (keyspaces, seqno) = (stats.keyspaces.len(), stats.last_seqno);
        db.close()?;
        let printed = match self.json {
            true => print_json(
                &json!({"to": self.to.to_string_lossy(), "keyspaces": keyspaces, "last_seqno": seqno}),
            ),
            false => Ok(()),
        };
        let found = match damage(&stats.keyspaces) {
            None => Ok(Outcome::Done),
            Some(found) => Err(found.and("the checkpoint shares these files, and their damage")),
        };
        Failure::told(found, printed.map_err(Failure::from))
    }
}
