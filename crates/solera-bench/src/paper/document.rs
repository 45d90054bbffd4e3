//! What a repeated experiment writes down: `Document`, of `Section`s with `Verdict`s, `Table`s,
//! `Bars` and `Lines`.
//!
//! `to_markdown` makes a page that begins with the verdicts; `pictures` makes its charts as SVG
//! files. `wrapped` breaks paragraphs at 120 columns; `cell` writes a median with quartiles.
//!
//! What must hold: the page shows every picture that it has, and no word is lost in wrapping.
//!
//! Callers: all experiments of `paper` make sections, `paper::mod` the document, and `solera bench
//! paper` writes it out. `solera explain` makes one too; `solera-bench-peers` wraps by `wrapped`.

use crate::report::{
    Spread,
    chart::Chart,
    lines::LineChart,
    number::{Quantity, digits},
    picture::{Drawing, sheet},
};
use std::fmt::Write;

/// A document.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// Under which conditions it was made: command, commit, machine.
    pub facts: Vec<(&'static str, String)>,
    /// Its parts.
    pub sections: Vec<Section>,
}

/// A part of a document.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its title.
    pub title: String,
    /// Which claims hold. The page begins with them.
    pub verdicts: Vec<Verdict>,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Tables, below the text.
    pub tables: Vec<Table>,
    /// Charts.
    pub bars: Vec<Bars>,
    /// Charts of how something went over a run.
    pub lines: Vec<Lines>,
}

/// Whether a claim holds.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What was claimed.
    pub asked: String,
    /// The figures.
    pub measured: String,
    /// Whether they bear the claim out.
    pub holds: bool,
}

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows, with the unit.
    pub title: String,
    /// Heads of its columns; the first is that of the rows' names.
    pub columns: Vec<String>,
    /// Name and cells of each row.
    pub rows: Vec<(String, Vec<String>)>,
}

/// A bar for each of several things.
#[derive(Clone, Debug)]
pub struct Bars {
    /// What is shown.
    pub title: String,
    /// Its unit.
    pub quantity: Quantity,
    /// What is better, `higher` or `lower`.
    pub better: &'static str,
    /// Name and number of each.
    pub bars: Vec<(String, Spread)>,
}

/// A line for each of several things, at most five.
#[derive(Clone, Debug)]
pub struct Lines {
    /// What is shown.
    pub title: String,
    /// Its unit.
    pub quantity: Quantity,
    /// What is better, `higher` or `lower`.
    pub better: &'static str,
    /// What runs from left to right.
    pub over: &'static str,
    /// Where something happened, and what.
    pub mark: (f64, &'static str),
    /// Name and points of each.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Document {
    /// The document as Markdown, whose pictures lie in `pictures`.
    pub fn to_markdown(&self, pictures: &str) -> String {
        let mut out = format!("# {}\n\n", self.title);
        let verdicts: Vec<&Verdict> = self.sections.iter().flat_map(|section| &section.verdicts).collect();
        if !verdicts.is_empty() {
            out.push_str("| asked | measured | verdict |\n|---|---|---|\n");
            for Verdict { asked, measured, holds } in verdicts {
                let holds = if *holds { "holds" } else { "**does not hold**" };
                let _ = writeln!(out, "| {asked} | {measured} | {holds} |");
            }
            out.push('\n');
        }
        out.push_str("A program writes this page.\n\n");
        for (name, fact) in &self.facts {
            let fact = if *name == "command" { format!("`{fact}`") } else { fact.clone() };
            out.push_str(&wrapped(&format!("- **{name}**: {fact}")));
        }
        for (number, section) in self.sections.iter().enumerate() {
            if section.text.is_empty() && section.tables.is_empty() && !section.has_picture() {
                continue;
            }
            let _ = writeln!(out, "\n## {}", section.title);
            section.text.iter().for_each(|text| {
                let _ = write!(out, "\n{}", wrapped(text));
            });
            if section.has_picture() {
                let _ = writeln!(out, "\n![{}]({pictures}/{})", section.title, picture_name(number));
            }
            for table in &section.tables {
                let _ = writeln!(out, "\n{}", wrapped(&format!("{}:", table.title)));
                let _ = writeln!(out, "| {} |", table.columns.join(" | "));
                let _ = writeln!(out, "|---|{}", "---:|".repeat(table.columns.len() - 1));
                for (name, cells) in &table.rows {
                    let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
                }
            }
        }
        out
    }

    /// The pictures that the Markdown shows: file name and SVG.
    pub fn pictures(&self) -> Vec<(String, String)> {
        let sections = self.sections.iter().enumerate().filter(|(_, section)| section.has_picture());
        sections.map(|(number, section)| (picture_name(number), section.picture())).collect()
    }
}

/// The name of the picture of a section.
fn picture_name(section: usize) -> String {
    format!("{}.svg", section + 1)
}

impl Section {
    fn has_picture(&self) -> bool {
        !(self.bars.is_empty() && self.lines.is_empty())
    }

    /// All charts of the section in one picture.
    fn picture(&self) -> String {
        let lines = self.lines.iter().map(|Lines { title, quantity, better, over, mark, lines }| {
            let lines = lines.iter().map(|(name, points)| (&name[..], &points[..])).collect();
            LineChart { title, quantity: *quantity, better, over, mark: Some(*mark), lines }.draw()
        });
        let bars = self.bars.iter().map(|Bars { title, quantity, better, bars }| {
            let bars = bars.iter().map(|(name, spread)| (&name[..], spread.clone())).collect();
            Chart { title, quantity: *quantity, better, bars }.draw()
        });
        sheet(&self.title, &lines.chain(bars).collect::<Vec<Drawing>>())
    }
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|head| head.to_string()).collect();
        Table { title: title.into(), columns, rows: Vec::new() }
    }

    /// Appends a row.
    pub fn row(&mut self, name: impl Into<String>, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(cells.len() + 1, self.columns.len(), "a cell for every column");
        self.rows.push((name.into(), cells));
    }
}

/// A paragraph of Markdown in lines of at most 120 columns; those of a list's item after the first
/// are indented.
pub fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 120;
    let indent = if text.starts_with("- ") { "  " } else { "" };
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let columns = word.chars().count();
        if column > 0 && column + 1 + columns > COLUMNS {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += columns;
    }
    out.push('\n');
    out
}

/// Median and quartiles, divided: `1.40 [1.37 – 1.47]`.
pub fn cell(spread: &Spread, divisor: f64) -> String {
    let (low, high) = spread.quartiles();
    let show = |x: f64| digits(x / divisor);
    match spread.repeats.len() {
        1 => show(spread.median),
        _ => format!("{} [{} – {}]", show(spread.median), show(low), show(high)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Document {
        let mut table = Table::new("Reads, M/s", &["index", "uniform", "clustered"]);
        let spread = Spread::of(vec![1.0e6, 1.5e6, 2.0e6, 2.5e6, 3.0e6]);
        table.row("binary", [cell(&spread, 1e6), "–".into()]);
        let bars = vec![("binary".to_owned(), spread)];
        let bars =
            vec![Bars { title: "Reads".into(), quantity: Quantity::Rate("reads"), better: "higher", bars }];
        let section = Section {
            title: "D1 <hot>".into(),
            verdicts: vec![Verdict { asked: "fast".into(), measured: "2 M/s".into(), holds: false }],
            text: vec!["Said.".into()],
            tables: vec![table],
            bars,
            ..Section::default()
        };
        let facts = vec![("command", "solera bench paper doblix".into())];
        Document { title: "DobLIX, repeated".into(), facts, sections: vec![section] }
    }

    #[test]
    fn paragraphs_are_wrapped_and_lose_no_word() {
        let text = format!("- {}", "word ".repeat(100).trim_end());
        let lines = wrapped(&text);
        assert!(
            lines.lines().all(|line| line.len() <= 120)
                && lines.lines().skip(1).all(|line| line.starts_with("  "))
        );
        assert_eq!(lines.split_whitespace().count(), 101);
    }

    #[test]
    fn the_page_begins_with_verdicts_and_shows_its_pictures() {
        let markdown = example().to_markdown("doblix");
        for text in ["2.00 [1.50 – 2.50]", "Said.", "solera bench paper doblix", "Reads, M/s", "–"] {
            assert!(markdown.contains(text), "{text}");
        }
        assert!(markdown.starts_with("# DobLIX, repeated\n\n| asked | measured | verdict |\n|---|---|---|\n| fast | 2 M/s | **does not hold** |\n") && markdown.contains("](doblix/1.svg)"));
        assert!(markdown.contains("\n| binary | 2.00 [1.50 – 2.50] | – |\n"));
        assert!(markdown.contains("\n|---|---:|---:|\n"));
        let pictures = example().pictures();
        let [(name, svg)] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
        assert!(name == "1.svg" && svg.contains("D1 &lt;hot&gt;") && svg.contains("binary"));
    }
}
