//! The directory that a measurement makes its databases and other files in: `Scratch`.
//!
//! It lies in a given parent, or in the system's place for such.
//!
//! What must hold: it is gone when the measurement ends, and when a signal ends it, though other
//! threads still write there. One that a signal cannot remove is named.
//!
//! Callers: `command::bench`, `command::cost`, `command::paper` and `command::space`.

use crate::{
    failure::{Failure, Result},
    given, own, signal,
};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Tries to remove a directory to which other threads still write.
const REMOVALS: usize = 100;

/// A directory of its own, removed when dropped or when a signal comes.
pub(super) struct Scratch(TempDir);

impl Scratch {
    /// Makes one in `parent`, or in the system's place for such.
    pub(super) fn new(parent: Option<&Path>) -> Result<Scratch> {
        parent.map_or(Ok(()), |parent| given::directory(parent, "--dir"))?;
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        own::not_in_database(&parent, "temporary databases")?;
        let made = tempfile::Builder::new().prefix("solera-bench-").tempdir_in(&parent);
        let made = made.map_err(|error| Failure::file("make a directory in", parent.display(), &error))?;
        let path = made.path().to_path_buf();
        signal::end_at_once(Box::new(move || match remove(&path) {
            true => "stopped; its temporary files are removed".to_owned(),
            false => format!("stopped; remove {}, which could not be removed", path.display()),
        }))?;
        Ok(Scratch(made))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }
}

/// Removes `path`. A thread that makes a file meanwhile makes one attempt fail.
fn remove(path: &Path) -> bool {
    (0..REMOVALS).any(|_| std::fs::remove_dir_all(path).is_ok() || !path.exists())
}
