//! The files that a run leaves for its user: results as JSON, pages and their pictures.
//!
//! `check` says before a run whether its file may be written, `write` writes it. `scratch` is the
//! directory of the databases of a run, `directory` one of results.
//!
//! What must hold: a file is written over only if this program made it, and none lies in the
//! directory of a database. A run that would fail by that fails before it measures.
//!
//! Caller: `main`, and `updates` for its page.

use crate::{engine::Result, failure::Failure, given, own};
use solera_bench::report::picture::is_sheet;
use std::path::{Path, PathBuf};

/// A file that this program makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Of `compare`, `measure` and `instructions`.
    Json,
    /// Of `report`.
    Page,
    /// Of `updates`.
    Updates,
    /// Of either page.
    Picture,
}

/// How a command line that is told in results begins.
pub const PROGRAM: &str = "solera-bench-peers ";
/// The title of the page of `report`.
pub const PAGE_TITLE: &str = "Solera beside its peers";
/// The title of the page of `updates`.
pub const UPDATES_TITLE: &str = "Values apart under updates, beside peers";

impl Kind {
    fn noun(self) -> &'static str {
        match self {
            Kind::Json => "a file of results of this program",
            Kind::Page => "a page of `report`",
            Kind::Updates => "a page of `updates`",
            Kind::Picture => "a picture of this program",
        }
    }

    /// Whether a file that begins so is one. An empty file is nothing that can be lost.
    fn is(self, beginning: &[u8]) -> bool {
        let begins = |text: String| beginning.starts_with(text.as_bytes());
        beginning.is_empty()
            || match self {
                Kind::Json => begins(format!("{{\n  \"command\": \"{PROGRAM}")),
                Kind::Page => begins(format!("# {PAGE_TITLE}\n")),
                Kind::Updates => begins(format!("# {UPDATES_TITLE}\n")),
                Kind::Picture => is_sheet(beginning),
            }
    }
}

/// Fails where [`write`] would: the file there is not of this kind, or none can be put there.
pub fn check(path: &Path, kind: Kind) -> Result<()> {
    own::check(path, kind.noun(), |beginning| kind.is(beginning)).map_err(told)
}

/// Puts `content` at `path`, over an older file of the same kind if there is one.
pub fn write(path: &Path, kind: Kind, content: &str) -> Result<()> {
    own::write(path, kind.noun(), |beginning| kind.is(beginning), content.as_bytes()).map_err(told)
}

/// Makes a directory for results, the value of `flag`, unless it is there.
pub fn directory(path: &Path, flag: &str) -> Result<()> {
    given::make_directory(path, flag).map_err(told)
}

/// A directory of its own in `dir`, or among the system's temporary files, which goes with what
/// lies in it.
pub fn scratch(dir: Option<&PathBuf>) -> Result<tempfile::TempDir> {
    let parent = dir.cloned().unwrap_or_else(std::env::temp_dir);
    own::not_in_database(&parent, "temporary databases").map_err(told)?;
    Ok(tempfile::Builder::new().prefix("solera-peers-").tempdir_in(parent)?)
}

fn told(failure: Failure) -> crate::engine::Error {
    failure.to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Results;
    use std::fs;

    /// Symptom: `compare --json notes.txt` and `report --out letter.md` replaced what lay there,
    /// and `--json D/CURRENT` wrecked a database. Cause: files were written unseen. Cure: the rule
    /// of the command line, by its own code.
    #[test]
    fn a_file_of_the_user_is_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        for kind in [Kind::Json, Kind::Page, Kind::Updates, Kind::Picture] {
            for content in ["letters of a friend", "{\n  \"command\": \"rm\"\n}", "# Solera\n", "<svg>"] {
                fs::write(&path, content).unwrap();
                let refused = [check(&path, kind), write(&path, kind, "new")].map(|done| done.unwrap_err());
                assert!(refused.iter().all(|refused| refused.to_string().contains("is there already")));
                assert_eq!(fs::read_to_string(&path).unwrap(), content);
            }
        }
    }

    #[test]
    fn what_a_run_wrote_the_next_may_write_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let results = Results::here(format!("{PROGRAM}compare"), 1).unwrap();
        let json = serde_json::to_string_pretty(&results).unwrap();
        let page = crate::report::markdown(&[results], Some("page"));
        let picture = solera_bench::report::picture::sheet("S", &[]);
        for (kind, content) in [(Kind::Json, json), (Kind::Page, page), (Kind::Picture, picture)] {
            let _ = fs::remove_file(&path);
            for _ in 0..2 {
                check(&path, kind).unwrap();
                write(&path, kind, &content).unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), content);
            }
        }
    }

    #[test]
    fn nothing_is_put_into_the_directory_of_a_database() {
        let dir = tempfile::tempdir().unwrap();
        ["CURRENT", "MANIFEST-000002"].iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        let within = dir.path().join("within");
        assert!(check(&dir.path().join("CURRENT"), Kind::Json).is_err(), "though it is empty");
        assert!(check(&within, Kind::Json).is_err() && directory(&within, "--into").is_err());
        assert!(scratch(Some(&dir.path().to_owned())).is_err());
    }
}
