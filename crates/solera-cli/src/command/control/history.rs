//! `solera control history`: prints who changed what, when and why, the oldest first
//! (`Control::history`).
//!
//! What must hold: the database is opened read-only. The engine remembers 128 changes of an author
//! and 256 of all.
//!
//! Caller: `command::control`.

use super::{changed_text, receipt_json};
use crate::{
    failure::{Outcome, Result},
    output::{print_json, print_text, utc},
    target::Database,
};
use std::fmt::Write;

/// Print the changes of knobs that are remembered, the oldest first: 128 of an author, 256 of all
#[derive(Debug, clap::Args)]
pub(crate) struct History {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object per change
    #[arg(long)]
    json: bool,
}

impl History {
    pub(crate) fn run(self) -> Result<Outcome> {
        let history = self.database.open_to_read()?.control().history();
        if self.json {
            history.iter().try_for_each(|receipt| print_json(&receipt_json(receipt)))?;
            return Ok(Outcome::Done);
        }
        let mut out = String::new();
        for receipt in &history {
            let (number, when) = (receipt.number, utc(receipt.unix_ms));
            // What others wrote must not move the cursor of a terminal. Writing to a String cannot
            // fail.
            let (who, why) = (receipt.who.escape_debug(), receipt.why.escape_debug());
            let _ = writeln!(out, "{number}  {when}  {who}: {why}");
            for changed in &receipt.changed {
                let _ = writeln!(out, "    {}", changed_text(changed));
            }
        }
        if !out.is_empty() {
            print_text(&out)?;
        }
        Ok(Outcome::Done)
    }
}
