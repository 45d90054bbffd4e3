//! Checks of what is written for people, comments and Markdown pages: `citations`, `widths`,
//! `sentences`; and `files`.
//!
//! `files` lists the files under a directory by the ends of their names, and passes directories
//! over that hold no source.
//!
//! What must hold: a check finds and does not mend; each finding is a `layers::Violation` with file
//! and line.
//!
//! Callers: `tests/pages.rs` runs them; the example `prose` prints what they find.

mod text;
pub mod citations;
pub mod widths;
pub mod sentences;

use crate::layers::Violation;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The files under `root` whose names end in one of `extensions`, sorted. Directories that hold no
/// source are passed over: what a build makes, what begins with a dot, and `data`.
pub fn files(root: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let path = entry?.path();
        let name = path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
        if path.is_dir() {
            if !(name.starts_with('.') || ["target", "data", "corpus", "artifacts"].contains(&name.as_str()))
            {
                files.extend(self::files(&path, extensions)?);
            }
        } else if path.extension().is_some_and(|e| extensions.iter().any(|wanted| e == *wanted)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn violation(file: &Path, line: usize, what: String) -> Violation {
    Violation { file: file.to_owned(), line, what }
}
