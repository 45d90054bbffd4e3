//! The running text of a file: `Text`, lines joined without comment marks, and `Page`, what can be
//! cited in a Markdown page.
//!
//! Of Rust source `Text` has the comments alone. `Text::line` leads from a byte back to its line.
//! `Page` answers whether a heading, a numbered section, an anchor or a table's row is there.
//! `without_code` empties the lines of code blocks.
//!
//! What must hold: joined lines read as one, so that a citation over a line's end is found.
//!
//! Callers: `pages::citations`, `pages::sentences` and `pages::widths`.

/// Lines joined by single spaces, with the line that each byte came from.
pub(super) struct Text {
    pub(super) joined: String,
    /// Where each line begins in `joined`.
    starts: Vec<usize>,
}

impl Text {
    /// The text of a Markdown page, or of the comments in Rust source.
    pub(super) fn of(source: &str, markdown: bool) -> Text {
        let mut text = Text { joined: String::with_capacity(source.len()), starts: Vec::new() };
        for line in source.lines() {
            text.starts.push(text.joined.len());
            let line = line.trim();
            let comment = ["//!", "///", "//"].iter().find_map(|mark| line.strip_prefix(mark));
            text.joined.push_str(if markdown { line } else { comment.unwrap_or_default().trim() });
            text.joined.push(' ');
        }
        text
    }

    /// The line, from 1, that the byte at `at` is in.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|start| *start <= at)
    }
}

/// What can be cited in a Markdown page.
pub(super) struct Page {
    /// Headings, and what stands bold at the beginning of a paragraph.
    headings: Vec<String>,
    text: String,
}

impl Page {
    pub(super) fn of(source: &str) -> Page {
        let mut headings = Vec::new();
        for line in without_code(source).lines() {
            if let Some(heading) = line.strip_prefix('#') {
                headings.push(heading.trim_matches(['#', ' ']).to_owned());
            } else if let Some((bold, _)) = line.strip_prefix("**").and_then(|rest| rest.split_once("**")) {
                headings.push(bold.trim_end_matches(['.', ':']).to_owned());
            }
        }
        Page { headings, text: source.to_owned() }
    }

    pub(super) fn has_heading(&self, heading: &str) -> bool {
        self.headings.iter().any(|is| is == heading)
    }

    /// Whether a heading is numbered `number`: `3. Frames`, `3 Frames`.
    pub(super) fn has_section(&self, number: &str) -> bool {
        self.headings.iter().any(|heading| {
            let rest = heading.trim_start_matches('§').strip_prefix(number);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ', ':']))
        })
    }

    /// Whether a link `#anchor` leads into the page.
    pub(super) fn has_anchor(&self, anchor: &str) -> bool {
        self.headings.iter().any(|heading| slug(heading) == anchor)
    }

    /// The row of the page's tables whose first column is `name`.
    pub(super) fn row(&self, name: &str) -> Option<&str> {
        self.text.lines().find(|line| line.strip_prefix(&format!("| {name} |")).is_some())
    }
}

/// The anchor of a heading, as hosts of repositories make it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A page with the lines of its code blocks left empty.
pub(super) fn without_code(source: &str) -> String {
    let mut in_code = false;
    let mut kept = String::with_capacity(source.len());
    for line in source.lines() {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        if !(in_code || fence) {
            kept.push_str(line);
        }
        kept.push('\n');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comment_marks_go_and_lines_are_counted() {
        let text = Text::of("//! See docs/A.md,\n//! \"b c\".\n    /// d\nlet x = 1;", false);
        assert_eq!(text.joined, "See docs/A.md, \"b c\". d  ");
        assert_eq!((text.line(0), text.line(text.joined.find("b c").unwrap()), text.line(22)), (1, 2, 3));
    }

    #[test]
    fn an_anchor_is_a_heading_in_small_letters() {
        let page = Page::of("# A, b: ε\n```\n# not one\n```\n**Why.** x\n## 3. Frames\n");
        assert!(page.has_anchor("a-b-ε") && page.has_heading("Why") && !page.has_heading("not one"));
        assert!(page.has_section("3") && !page.has_section("4"));
    }
}
