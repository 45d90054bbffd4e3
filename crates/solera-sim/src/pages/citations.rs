//! Whether each citation in comments and pages leads somewhere: `unresolved`.
//!
//! It knows the kinds of citation that docs/STYLE.md, "Citations" allows. They are a path in the
//! repository, a heading of a page, and a decision by its number. It also knows a section of a
//! paper or of docs/FORMAT.md, and a relative link in Markdown.
//!
//! What must hold: a citation that goes over a line's end is read as one (`pages::text`).
//!
//! Callers: `tests/pages.rs` and the example `prose`.

use super::{
    files,
    text::{Page, Text, without_code},
    violation,
};
use crate::layers::Violation;
use std::{
    collections::HashMap,
    io,
    path::{Path, PathBuf},
};

/// What a path in running text begins with.
const PATHS: [&str; 3] = ["docs/", "decisions/", "crates/"];

/// Every citation under `root` that leads nowhere.
pub fn unresolved(root: &Path) -> io::Result<Vec<Violation>> {
    let mut check = Check { root, pages: HashMap::new(), found: Vec::new() };
    for file in files(root, &["rs", "md"])? {
        let source = std::fs::read_to_string(&file)?;
        check.paths(&file, &source);
        check.sections(&file, &source);
        if is_markdown(&file) {
            check.links(&file, &source);
        }
    }
    Ok(check.found)
}

fn is_markdown(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

struct Check<'a> {
    root: &'a Path,
    pages: HashMap<PathBuf, Option<Page>>,
    found: Vec<Violation>,
}

impl Check<'_> {
    /// The page at a path; `None` if there is no such page.
    fn page(&mut self, path: &Path) -> Option<&Page> {
        let read = || std::fs::read_to_string(path).ok().map(|source| Page::of(&source));
        self.pages.entry(path.to_owned()).or_insert_with(read).as_ref()
    }

    /// Paths of the repository in running text, each with the heading or the further decisions
    /// behind it.
    fn paths(&mut self, file: &Path, source: &str) {
        let text = Text::of(source, is_markdown(file));
        for prefix in PATHS {
            for (at, _) in text.joined.match_indices(prefix) {
                let before = text.joined[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '*')) {
                    continue;
                }
                let rest = &text.joined[at..];
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/_-.".contains(c)));
                let (cited, behind) = rest.split_at(end.unwrap_or(rest.len()));
                let cited = cited.trim_end_matches(['.', '/', '-']);
                if behind.starts_with(['*', '{', '$', '<', '…']) || cited.len() <= prefix.len() {
                    continue;
                }
                if let Err(what) = self.path(cited, behind) {
                    self.found.push(violation(file, text.line(at), what));
                }
            }
        }
    }

    fn path(&mut self, cited: &str, behind: &str) -> Result<(), String> {
        let whole = if cited.starts_with("decisions") { format!("docs/{cited}") } else { cited.to_owned() };
        let is_number = |text: &str| text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = whole.strip_prefix("docs/decisions/").filter(|name| is_number(name));
        let page = match number {
            Some(number) => self.decision(number).ok_or(format!("there is no decision {number}"))?,
            None => self.root.join(&whole),
        };
        if !page.exists() {
            return Err(format!("there is no {whole}"));
        }
        if number.is_some() {
            let further = behind.split([' ', ',', ')', '.', ';']).map_while(|word| match word {
                "" | "and" | "or" => Some(""),
                word => is_number(word).then_some(word),
            });
            for number in further.filter(|word| !word.is_empty()) {
                self.decision(number).ok_or(format!("there is no decision {number}"))?;
            }
        }
        let quoted = behind.trim_start_matches(['`', ',', ' ']).strip_prefix('"');
        if let Some((heading, _)) = quoted.and_then(|rest| rest.split_once('"'))
            && whole.starts_with("docs/")
            && page.is_file()
            && !self.page(&page).is_some_and(|page| page.has_heading(heading))
        {
            return Err(format!("{whole} has no heading {heading:?}"));
        }
        Ok(())
    }

    fn decision(&self, number: &str) -> Option<PathBuf> {
        let entries = std::fs::read_dir(self.root.join("docs/decisions")).ok()?;
        let mut names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        names.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(number)))
    }

    /// Sections: of a paper that docs/PAPERS.md lists with that section, of docs/FORMAT.md, or of
    /// the page itself.
    fn sections(&mut self, file: &Path, source: &str) {
        let text = Text::of(source, is_markdown(file));
        let format = self.root.join("docs/FORMAT.md");
        let papers = self.root.join("docs/PAPERS.md");
        let mut last: Option<(usize, String)> = None;
        // A section without a name is of what the file named last.
        let mut named: Option<String> = None;
        for (at, _) in text.joined.match_indices('§') {
            let rest = &text.joined[at + '§'.len_utf8()..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
            let number = rest[..end.unwrap_or(rest.len())].trim_end_matches('.').to_owned();
            let before = text.joined[..at].trim_end_matches([' ', ',', '(', '`']);
            let source = before.rsplit(|c: char| !(c.is_alphanumeric() || "./".contains(c))).next();
            let name = match last.take() {
                Some((end, name)) if text.joined[end..at].chars().count() <= 6 => name,
                _ => {
                    let name = source.unwrap_or_default();
                    let known = name.ends_with("FORMAT.md") || self.row(&papers, name).is_some();
                    if known { name.to_owned() } else { named.clone().unwrap_or_else(|| name.to_owned()) }
                }
            };
            named = Some(name.clone());
            let known =
                if name.ends_with("FORMAT.md") || (file == format && self.row(&papers, &name).is_none()) {
                    self.page(&format).is_some_and(|page| page.has_section(&number))
                } else {
                    self.row(&papers, &name).is_some_and(|row| row.contains(&format!("§{number} ")))
                };
            if !known && file != papers {
                let what =
                    format!("`{name} §{number}` is no section that docs/PAPERS.md or docs/FORMAT.md lists");
                self.found.push(violation(file, text.line(at), what));
            }
            last = Some((at + '§'.len_utf8() + number.len(), name));
        }
    }

    fn row(&mut self, papers: &Path, name: &str) -> Option<String> {
        self.page(papers)?.row(name).map(str::to_owned)
    }

    /// Relative links of a page.
    fn links(&mut self, file: &Path, source: &str) {
        for (number, line) in without_code(source).lines().enumerate() {
            for (at, _) in line.match_indices("](") {
                let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
                if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                    continue;
                }
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let directory = file.parent().unwrap_or(self.root);
                let page = if path.is_empty() { file.to_owned() } else { directory.join(path) };
                let leads = page.exists()
                    && (anchor.is_empty() || self.page(&page).is_some_and(|page| page.has_anchor(anchor)));
                if !leads {
                    self.found.push(violation(
                        file,
                        number + 1,
                        format!("the link `{target}` leads nowhere"),
                    ));
                }
            }
        }
    }
}
