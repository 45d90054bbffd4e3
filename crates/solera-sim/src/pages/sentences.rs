//! Whether sentences are short enough to be understood at once: `too_long`, those of more than 30
//! words (`WORDS`).
//!
//! It looks at the lines of a source file that begin with `//!`, and at all of a Markdown page,
//! code left out. A paragraph, an item of a list and a cell of a table end a sentence.
//!
//! What must hold: what stands between backticks is one word, whatever is in it.
//!
//! Callers: the example `prose`, for heads and pages; `tests/pages.rs`, for planted ones.

use super::{text::without_code, violation};
use crate::layers::Violation;
use std::{io, path::PathBuf};

/// The longest sentence, in words.
pub const WORDS: usize = 30;

/// The sentences of more than [`WORDS`] words: in the head (`//!`) of a `.rs` file, in all of a
/// `.md` file. A paragraph, an item of a list and a cell of a table end a sentence too; code counts
/// as one word.
pub fn too_long(files: &[PathBuf]) -> io::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for file in files {
        let source = std::fs::read_to_string(file)?;
        let source =
            if file.extension().is_some_and(|extension| extension == "md") { source } else { head(&source) };
        for (line, sentence) in sentences(&source) {
            let words = words(&sentence);
            if words > WORDS {
                let begin: String = sentence.split_whitespace().take(8).collect::<Vec<_>>().join(" ");
                found.push(violation(file, line, format!("{words} words: {begin} …")));
            }
        }
    }
    Ok(found)
}

/// The lines of a source file that begin with `//!`, without the mark; other lines are left empty.
fn head(source: &str) -> String {
    source
        .lines()
        .map(|line| line.strip_prefix("//!").unwrap_or("").trim_start_matches(' ').to_owned() + "\n")
        .collect()
}

/// The sentences of a page, each with the line it begins in.
fn sentences(source: &str) -> Vec<(usize, String)> {
    let mut sentences = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in without_code(source).lines().enumerate() {
        let text = line.trim();
        let item = text.starts_with(['|', '#', '-', '*', '>']) && !text.starts_with("**");
        let numbered =
            text.split_once(". ").is_some_and(|(n, _)| n.bytes().all(|byte| byte.is_ascii_digit()));
        if text.is_empty() || item || numbered {
            sentences.extend(open.take());
        }
        let parts: Vec<&str> = if text.starts_with('|') { text.split('|').collect() } else { vec![text] };
        let cells = parts.len();
        for part in parts {
            for word in part.split_whitespace() {
                let (_, sentence) = open.get_or_insert((number + 1, String::new()));
                sentence.push_str(word);
                sentence.push(' ');
                let bare = word.trim_end_matches([')', '*', '"', '_', '`']);
                if bare.ends_with(['.', '!', '?']) && !matches!(bare, "e.g." | "i.e." | "vs.") {
                    sentences.extend(open.take());
                }
            }
            if cells > 1 {
                sentences.extend(open.take());
            }
        }
    }
    sentences.extend(open.take());
    sentences
}

/// Words of a sentence; what stands between backticks is one, whatever is in it.
fn words(sentence: &str) -> usize {
    let mut plain = String::new();
    for (n, part) in sentence.split('`').enumerate() {
        plain.push_str(if n % 2 == 0 { part } else { "code" });
    }
    plain.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_goes_over_lines_and_ends_with_its_item() {
        let page = "One two\nthree. Four `a b c`\n- five\n\n| six | seven |\n1. eight\n";
        let found: Vec<_> = sentences(page).into_iter().map(|(line, s)| (line, words(&s))).collect();
        assert_eq!(found, [(1, 3), (2, 2), (3, 1), (5, 1), (5, 1), (6, 1), (6, 1)]);
    }
}
