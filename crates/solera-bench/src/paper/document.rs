//! What a repeated experiment writes down: text, tables and charts, as Markdown for the repository and as a web
//! page that needs nothing else. Both say the same.

use crate::report::{
    Spread,
    chart::Chart,
    html::{escape, page},
    lines::LineChart,
    number::{Quantity, digits},
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
    /// Paragraphs.
    pub text: Vec<String>,
    /// Tables, below the text.
    pub tables: Vec<Table>,
    /// Charts, on the page only.
    pub bars: Vec<Bars>,
    /// Charts of how something went over a run, on the page only.
    pub lines: Vec<Lines>,
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
    /// The document as Markdown; `page` is the name of the page beside it.
    pub fn to_markdown(&self, page: &str) -> String {
        let mut out = format!("# {}\n\nWritten by a program; with charts: [{page}]({page}).\n\n", self.title);
        for (name, fact) in &self.facts {
            let fact = if *name == "command" { format!("`{fact}`") } else { fact.clone() };
            let _ = writeln!(out, "- **{name}**: {fact}");
        }
        for section in &self.sections {
            let _ = writeln!(out, "\n## {}", section.title);
            section.text.iter().for_each(|text| {
                let _ = writeln!(out, "\n{text}");
            });
            for table in &section.tables {
                let _ = writeln!(out, "\n{}:\n", table.title);
                let _ = writeln!(out, "| {} |", table.columns.join(" | "));
                let _ = writeln!(out, "|---|{}", "---:|".repeat(table.columns.len() - 1));
                for (name, cells) in &table.rows {
                    let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
                }
            }
        }
        out
    }

    /// The document as a web page.
    pub fn to_html(&self) -> String {
        let mut out = String::new();
        for section in &self.sections {
            let _ = writeln!(out, "<h2>{}</h2>", escape(&section.title));
            section.text.iter().for_each(|text| {
                let _ = writeln!(out, "<p>{}</p>", escape(text));
            });
            if !section.bars.is_empty() || !section.lines.is_empty() {
                out.push_str("<div class=\"charts\">\n");
                for Lines { title, quantity, better, over, mark, lines } in &section.lines {
                    let lines = lines.iter().map(|(name, points)| (&name[..], &points[..])).collect();
                    let mark = Some(*mark);
                    out.push_str(
                        &LineChart { title, quantity: *quantity, better, over, mark, lines }.render(),
                    );
                }
                for Bars { title, quantity, better, bars } in &section.bars {
                    let bars = bars.iter().map(|(name, spread)| (&name[..], spread.clone())).collect();
                    out.push_str(&Chart { title, quantity: *quantity, better, bars }.render());
                }
                out.push_str("</div>\n");
            }
            for table in &section.tables {
                let _ = write!(
                    out,
                    "<p><b>{}</b></p><div class=\"wide\"><table><thead><tr>",
                    escape(&table.title)
                );
                table.columns.iter().for_each(|head| {
                    let _ = write!(out, "<th>{}</th>", escape(head));
                });
                out.push_str("</tr></thead><tbody>\n");
                for (name, cells) in &table.rows {
                    let _ = write!(out, "<tr><td>{}</td>", escape(name));
                    cells.iter().for_each(|cell| {
                        let _ = write!(out, "<td>{}</td>", escape(cell));
                    });
                    out.push_str("</tr>\n");
                }
                out.push_str("</tbody></table></div>\n");
            }
        }
        page(&self.title, &self.facts, &out)
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
            text: vec!["Said.".into()],
            tables: vec![table],
            bars,
            ..Section::default()
        };
        let facts = vec![("command", "solera bench paper doblix".into())];
        Document { title: "DobLIX, repeated".into(), facts, sections: vec![section] }
    }

    #[test]
    fn markdown_and_page_say_the_same() {
        let (markdown, page) = (example().to_markdown("doblix.html"), example().to_html());
        for text in ["2.00 [1.50 – 2.50]", "Said.", "solera bench paper doblix", "Reads, M/s", "–"] {
            assert!(markdown.contains(text) && page.contains(text), "{text}");
        }
        assert!(markdown.contains("\n| binary | 2.00 [1.50 – 2.50] | – |\n"));
        assert!(markdown.contains("\n|---|---:|---:|\n"));
        assert!(page.contains("D1 &lt;hot&gt;") && page.contains("<svg"));
        for element in ["table", "tr", "td", "th", "p", "div", "figure"] {
            let opened =
                page.matches(&format!("<{element}>")).count() + page.matches(&format!("<{element} ")).count();
            assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        }
    }
}
