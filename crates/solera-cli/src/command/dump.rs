//! `solera dump`: prints what one file of a database holds, by `solera::inspect::dump`.
//!
//! It knows tables, logs, manifests, value files and CURRENT by their names.
//!
//! What must hold: nothing is opened but that file. Damage ends it with the place.
//!
//! Caller: `main`.

use crate::{
    failure::{Outcome, Result},
    output::stdout,
    target::operating_system,
};
use std::{io::Write, path::PathBuf};

/// Print what a file of a database holds: a table, log, manifest or CURRENT
#[derive(Debug, clap::Args)]
pub(crate) struct Dump {
    /// The file
    file: PathBuf,
}

impl Dump {
    pub(crate) fn run(self) -> Result<Outcome> {
        let mut out = stdout();
        let dumped = solera::inspect::dump(&operating_system(), &self.file, &mut out);
        // What was readable before the damage has been printed: show it before the error.
        out.flush()?;
        dumped?;
        Ok(Outcome::Done)
    }
}
