//! The layer check: no module of the engine may use a module that stands above it.
//!
//! `order` reads the module order from a crate's `lib.rs`, `rooms` judges every path in its files,
//! `files` the order of files inside a room. `forbidden_words` finds words that a crate may not
//! say. A `Violation` is where a rule is broken.
//!
//! What must hold: no test module is exempt from the order of rooms. Only tests may use all files
//! of their room, and what ARCHITECTURE forbids. A test that needs a room above belongs into that
//! room, or into `tests/`.
//!
//! Callers: `tests/layers.rs`; `pages` shares `Violation`.

mod tokens;
mod source;
mod order;
pub mod rooms;
pub mod files;

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// A place where a rule is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The file.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file.display(), self.line, self.what)
    }
}

/// Every line under `src` that says one of `words` (lower case, compared as whole words of prose or
/// of an identifier, plural included).
pub fn forbidden_words(src: &Path, words: &[&str]) -> io::Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in rust_files(src)? {
        for (number, line) in std::fs::read_to_string(&file)?.lines().enumerate() {
            for said in words_of(line) {
                if words.iter().any(|word| said == *word || said.strip_suffix('s') == Some(word)) {
                    let what = format!("says {said:?}, a word that has no meaning in this crate");
                    violations.push(Violation { file: file.clone(), line: number + 1, what });
                }
            }
        }
    }
    Ok(violations)
}

/// The words of a line: split at everything that is no letter, and where camel case rises.
fn words_of(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut lower_before = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && lower_before) {
            words.push(String::new());
        }
        if c.is_alphabetic() {
            words.last_mut().expect("starts with one word").extend(c.to_lowercase());
        }
        lower_before = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The `.rs` files under a directory, sorted.
fn rust_files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_case_and_punctuation() {
        assert_eq!(words_of("let my_agentId = reAgent(2);"), ["let", "my", "agent", "id", "re", "agent"]);
        assert_eq!(words_of("magenta reagents"), ["magenta", "reagents"]);
    }
}
