//! Whether lines that people read are narrow enough: `too_wide`.
//!
//! Comment lines of sources may have 100 characters (`COMMENT_COLUMNS`), lines of Markdown 120
//! (`MARKDOWN_COLUMNS`). Tables, code blocks and lines without a space are not asked.
//!
//! What must hold: characters are counted, not bytes, and indentation counts.
//!
//! Callers: `tests/pages.rs` and the example `prose`.

use super::violation;
use crate::layers::Violation;
use std::{io, path::PathBuf};

/// The widest line of a comment, in characters, indentation included.
pub const COMMENT_COLUMNS: usize = 100;
/// The widest line of a Markdown page, in characters; tables and code blocks are not asked.
pub const MARKDOWN_COLUMNS: usize = 120;

/// The lines of these files that are too wide: comment lines of `.rs`, lines of `.md`.
pub fn too_wide(files: &[PathBuf]) -> io::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(file)?;
        let markdown = file.extension().is_some_and(|extension| extension == "md");
        let text = if markdown { super::text::without_code(&source) } else { without_comment_code(&source) };
        for (number, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            let (asked, limit) = if markdown {
                (!trimmed.starts_with('|'), MARKDOWN_COLUMNS)
            } else {
                (trimmed.starts_with("//") && !is_table(trimmed), COMMENT_COLUMNS)
            };
            let columns = line.chars().count();
            if asked && columns > limit && trimmed.contains(' ') {
                found.push(violation(file, number + 1, format!("{columns} columns; at most {limit}")));
            }
        }
    }
    Ok(found)
}

/// Source with the lines of code blocks in its comments left empty.
fn without_comment_code(source: &str) -> String {
    let mut in_code = false;
    let mut kept = String::with_capacity(source.len());
    for line in source.lines() {
        let trimmed = line.trim_start();
        let comment = trimmed.starts_with("//");
        let fence = comment && trimmed.trim_start_matches(['/', '!', ' ']).starts_with("```");
        in_code = comment && (in_code ^ fence);
        if !(in_code || fence) {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

/// Whether a comment line is the row of a table.
fn is_table(line: &str) -> bool {
    line.trim_start_matches(['/', '!']).trim_start().starts_with('|')
}
