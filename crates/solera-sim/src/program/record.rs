//! Figures of finished programs in a document, written there by the programs themselves: `record`.
//!
//! The document has a table between two marks. A program's row for a scale takes the place of the
//! one that was there, with its command, time and commit.
//!
//! What must hold: a document without the marks is refused, and nothing else in it changes.
//!
//! Caller: `main.rs`, for `--record`.

use super::{Scale, Verdict};
use std::{path::Path, process::Command, time::Duration};

const BEGIN: &str = "<!-- figures: begin, written by solera-sim --record -->";
const END: &str = "<!-- figures: end -->";
const HEAD: &str =
    "| program | scale | kept | figures | took | command | commit |\n|---|---|---|---|---|---|---|";

/// Puts the row of `verdict` into the table of the document at `path`.
///
/// # Errors
/// If the document cannot be read or written or has no such table.
pub fn record(
    path: &Path,
    verdict: &Verdict,
    scale: Scale,
    command: &str,
    took: Duration,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let row = format!(
        "| {} | {} | {} | {} | {:.0} s | `{command}` | {} |",
        verdict.program(),
        scale.name(),
        if verdict.kept() { "yes" } else { "**no**" },
        verdict.figures(),
        took.as_secs_f64(),
        commit(),
    );
    let text = with_row(&text, &row).ok_or_else(|| {
        format!("{}: no table between the lines {BEGIN:?} and {END:?}; put them there", path.display())
    })?;
    #[expect(clippy::disallowed_methods, reason = "a document is no part of a database")]
    std::fs::write(path, text).map_err(failed)
}

fn with_row(text: &str, row: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (table, after) = rest.split_once(END)?;
    let key =
        |row: &str| row.split('|').skip(1).take(2).map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut rows: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    rows.retain(|old| key(old) != key(row));
    rows.push(row);
    rows.sort_unstable_by_key(|row| key(row));
    Some(format!("{before}{BEGIN}\n\n{HEAD}\n{}\n\n{END}{after}", rows.join("\n")))
}

/// The commit that is checked out, with a plus sign if files differ from it; "unknown" without git.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let clean = git(&["status", "--porcelain", "--untracked-files=no", "--", "crates", "Cargo.lock"]);
    if clean.is_some_and(|changes| changes.is_empty()) { commit } else { commit + "+" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_the_place_of_the_one_before_it() {
        let text = format!("above\n{BEGIN}\n{END}\nbelow\n");
        let text = with_row(&text, "| kill9 | quick | yes | a |").unwrap();
        let text = with_row(&text, "| crashsim | quick | yes | b |").unwrap();
        let text = with_row(&text, "| kill9 | quick | **no** | c |").unwrap();
        let expected = format!(
            "above\n{BEGIN}\n\n{HEAD}\n| crashsim | quick | yes | b |\n| kill9 | quick | **no** | c |\n\n{END}\nbelow\n"
        );
        assert_eq!(text, expected);
        assert_eq!(with_row("no table", "| kill9 | quick |"), None);
    }
}
