//! `solera checkpoint`: makes a second database with the same content in a new directory
//! (`Checkpoint`), by `Db::checkpoint`.
//!
//! The directory must be missing or empty. A file in its place and a place in any database are
//! refused here; the rest `Db::checkpoint` refuses. With `--verify` all of the copy is read.
//!
//! What must hold: tables are shared by hard links, so both databases lie on one file system.
//! Files that are damaged are shared too: the checkpoint is made, and the command then fails and
//! tells of those that are known, with `--verify` of all. Without it the output says that blocks
//! were not read.
//!
//! Caller: `main`.

use super::check;
use crate::{
    failure::{Failure, Outcome, Result},
    output::{print_json, stdout},
    own,
    target::{Database, damage},
};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Make a consistent copy of the database in a new directory; tables are shared by hard links
#[derive(Debug, clap::Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    database: Database,
    /// Directory of the copy; it must not exist, or be empty, and lie on the same file system
    to: PathBuf,
    /// Read every block of the copy, as `solera check` does. Without it damage that nothing has met
    /// yet is shared unseen
    #[arg(long)]
    verify: bool,
    /// Print what was copied as one JSON object; "problems" are null unless --verify looked for
    /// them
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
        let verified = self.verify.then(|| check::report(&self.to)).transpose()?;
        let printed = match self.json {
            true => {
                let problems: Option<Vec<Value>> =
                    verified.as_ref().map(|report| report.problems.iter().map(check::problem_json).collect());
                print_json(&json!({
                    "to": self.to.to_string_lossy(), "keyspaces": keyspaces, "last_seqno": seqno, "problems": problems,
                }))
            }
            false => self.print_text(verified.as_ref()),
        };
        let found = match damage(&stats.keyspaces) {
            None => verified.map_or(Ok(Outcome::Done), |report| check::found(&report.problems)),
            Some(found) => Err(found.and("the checkpoint shares these files, and their damage")),
        };
        Failure::told(found, printed.map_err(Failure::from))
    }

    fn print_text(&self, verified: Option<&check::Report>) -> io::Result<()> {
        let mut out = stdout();
        match verified {
            Some(report) => check::write_problems(&mut out, report)?,
            None => writeln!(
                out,
                "{} has the same tables by hard links, and shares their damage; --verify reads them all",
                self.to.display()
            )?,
        }
        out.flush()
    }
}
