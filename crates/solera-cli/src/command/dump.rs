//! `solera dump`: prints what one file of a database holds, as lines for people or as JSON, by
//! `solera::inspect`.
//!
//! It knows tables, logs, manifests, value files and CURRENT by their names; others are refused.
//!
//! What must hold: nothing is opened but that file. Damage ends it with the place, after what was
//! readable before.
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::stdout,
    target::operating_system,
};
use std::{io::Write, path::PathBuf};

/// Print what a file of a database holds: a table, log, value file, manifest or
/// CURRENT
#[derive(Debug, clap::Args)]
pub(crate) struct Dump {
    /// The file
    file: PathBuf,
    /// Print one JSON object per line; "is" says what it is. Keys and values are whole: text under
    /// "key" and "value" where they are UTF-8, hexadecimal digits under "key_hex" and "value_hex"
    /// where they are not; so with "from", "to" and "through" of ranges
    #[arg(long)]
    json: bool,
}

impl Dump {
    pub(crate) fn run(self) -> Result<Outcome> {
        // What is not there is no file of another kind.
        std::fs::metadata(&self.file)
            .map_err(|error| Failure::file("look at", self.file.display(), &error))?;
        let mut out = stdout();
        let dump = if self.json { solera::inspect::dump_json } else { solera::inspect::dump };
        let dumped = dump(&operating_system(), &self.file, &mut out);
        // What was readable before the damage has been printed: show it before the error.
        out.flush()?;
        dumped?;
        Ok(Outcome::Done)
    }
}
