//! `solera checkpoint`: a second database with the same content.

use crate::{
    failure::{Outcome, Result},
    target::Database,
};
use std::path::PathBuf;

/// Make a consistent copy of the database in a new directory; tables are shared by hard links
#[derive(Debug, clap::Args)]
pub(crate) struct Checkpoint {
    #[command(flatten)]
    database: Database,
    /// Directory of the copy; it must not exist, or be empty, and lie on the same file system
    to: PathBuf,
}

impl Checkpoint {
    pub(crate) fn run(self) -> Result<Outcome> {
        let db = self.database.open_to_change()?;
        db.checkpoint(&self.to)?;
        db.close()?;
        Ok(Outcome::Done)
    }
}
