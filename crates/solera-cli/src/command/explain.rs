//! `solera explain`: what a tuner saw, foresaw, changed and took back, from its journal
//! (`solera_tune`'s coordinator).
//!
//! It prints a timeline as text or JSON, and with `--page` also writes a page with pictures.
//!
//! What must hold: it reads the journal alone, so it works while the database is open.
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::{print_json, print_text, utc},
    own,
    target::operating_system,
};
use serde_json::{Value, json};
use solera::error::Error;
use solera_bench::{
    paper::{
        Document,
        document::{Lines, Section, Table},
    },
    report::{
        html::{beginning, escape, page},
        number::Quantity,
    },
};
use solera_tune::{
    coordinator::{
        Decision, Purpose,
        journal::{JOURNAL_NAME, Record, read},
    },
    sight::{Objective, Window},
};
use std::{fmt::Write as _, path::PathBuf};

/// Explain what a tuner did to a database, and why; works also while the database is open
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Explain {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "SOLERA_DIR")]
    dir: PathBuf,
    /// Also windows in which nothing was decided
    #[arg(long)]
    all: bool,
    /// Print one JSON object per record of the journal
    #[arg(long, conflicts_with = "all")]
    json: bool,
    /// Write a page with the timeline to this file
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

const HELP: &str = "\
Each line is a window: its number, when it ended, its context (workloads that are alike have one number), what an \
operation cost, what it was expected to cost, and what was decided. Lines below it say what was tried, what was \
foreseen of it, what came of it, and what was taken back and why. docs/TUNING.md says how to read it.";

/// What a page of this command is called in messages.
const PAGE: &str = "a page of this command's";
/// What its title is.
const TITLE: &str = "What the tuner did";

/// Whether a file that begins so is such a page. An empty one holds nothing to lose.
fn is_page(start: &[u8]) -> bool {
    start.is_empty() || start.starts_with(beginning(TITLE).as_bytes())
}

impl Explain {
    pub(crate) fn run(self) -> Result<Outcome> {
        let path = self.dir.join(JOURNAL_NAME);
        let records = read(&*operating_system(), &path).map_err(|error| match error {
            // The database is whole.
            Error::Corrupt { file, offset, what } => Failure::Damage(format!(
                "{}: damaged at byte {offset}: {what}; it only tells of the tuning, and the database does not need it: \
                 remove it, and the next tuner begins another",
                file.display()
            )),
            error => error.into(),
        })?;
        if records.is_empty() {
            let (dir, journal) = (self.dir.display(), path.display());
            return Err(Failure::Missing(match path.exists() {
                true => format!("{journal} holds no record of a tuner: it is empty"),
                false => format!("{dir} was never tuned: there is no {journal}"),
            }));
        }
        // Before anything is printed: a page that cannot be made is a mistake of the command line.
        self.page.as_deref().map_or(Ok(()), |path| own::check(path, PAGE, is_page))?;
        if self.json {
            records.iter().try_for_each(|record| print_json(&to_json(record)))?;
        } else {
            print_text(&self.to_text(&records))?;
        }
        if let Some(path) = &self.page {
            own::write(path, PAGE, is_page, to_page(&document(&records)).as_bytes())?;
        }
        Ok(Outcome::Done)
    }

    fn to_text(&self, records: &[Record]) -> String {
        let mut out = String::new();
        for record in records {
            // Writing to a String cannot fail.
            let _ = match record {
                Record::Begin(begin) if begin.goes_on => Ok(()),
                Record::Begin(begin) => writeln!(
                    out,
                    "{}  {} begins on keyspace {:?}: {} is to be small",
                    utc(begin.unix_ms),
                    begin.maker.name,
                    begin.keyspace,
                    begin.goal.objective
                ),
                Record::Window { window, decision } => {
                    if self.all || is_told(decision) {
                        out += &window_text(window, decision);
                    }
                    Ok(())
                }
                Record::Answer(solera_tune::coordinator::Answer::Made(number)) => {
                    writeln!(out, "    made, as change {number}")
                }
                Record::Answer(solera_tune::coordinator::Answer::Refused(why)) => {
                    writeln!(out, "    not made: {}", why.escape_debug())
                }
                Record::End { unix_ms, why } => {
                    writeln!(out, "{}  ended: {}", utc(*unix_ms), why.escape_debug())
                }
            };
        }
        out
    }
}

/// Whether something was decided or became clear.
fn is_told(decision: &Decision) -> bool {
    decision.order.is_some() || decision.outcome.is_some()
}

fn window_text(window: &Window, decision: &Decision) -> String {
    let mut out = format!("{}  window {}", utc(window.unix_ms), window.number);
    if window.context > 0 {
        let _ = write!(out, ", context {}", window.context);
    }
    let _ = write!(out, " ({})", window.mix());
    if let Some(cost) = decision.cost {
        let _ = write!(out, ": cost {cost:.1}");
    }
    if let (Some(baseline), Some(tolerance)) = (decision.baseline, decision.tolerance) {
        let _ = write!(out, ", expected {baseline:.1} ± {:.0} %", 100.0 * tolerance);
    }
    out.push('\n');
    for note in &decision.notes {
        let _ = writeln!(out, "    {}", note.escape_debug());
    }
    if let (Some(proposal), None) = (&decision.proposal, &decision.order) {
        let sets: Vec<String> = proposal.sets.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "    wanted: {}: {}", sets.join(" "), proposal.why.escape_debug());
    }
    if let Some(outcome) = &decision.outcome {
        let _ = writeln!(out, "    {}", outcome.to_string().escape_debug());
    }
    if let Some(order) = &decision.order {
        let sets: Vec<String> = order.sets.iter().map(ToString::to_string).collect();
        let what = purpose(order.purpose);
        let _ = writeln!(out, "    {what}: {}: {}", sets.join(" "), order.why.escape_debug());
    }
    out
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Try => "try",
        Purpose::Undo => "take back",
        Purpose::Restore => "restore",
    }
}

fn to_json(record: &Record) -> Value {
    serde_json::to_value(record).unwrap_or_else(|error| json!({ "error": error.to_string() }))
}

/// The document as one page, its picture in it.
fn to_page(document: &Document) -> String {
    let mut body: String = document.pictures().into_iter().map(|(_, picture)| picture).collect();
    for table in document.sections.iter().flat_map(|section| &section.tables) {
        body += "<table>";
        for (name, cells) in &table.rows {
            let cells: Vec<String> = cells.iter().map(|cell| escape(cell)).collect();
            // Writing to a String cannot fail.
            let _ = write!(body, "<tr><td>{}</td><td>{}</td></tr>", escape(name), cells.join("</td><td>"));
        }
        body += "</table>";
    }
    page(&document.title, &document.facts, &body)
}

/// The timeline.
fn document(records: &[Record]) -> Document {
    let (mut costs, mut expected) = (Vec::new(), Vec::new());
    let mut rows = Vec::new();
    let mut facts = Vec::new();
    let (mut first, mut changes) = (None, 0.0);
    let mut quantity = Quantity::Nanoseconds;
    for record in records {
        if let Record::Begin(begin) = record
            && !begin.goes_on
        {
            facts = vec![
                ("agent", begin.maker.name.clone()),
                ("keyspace", begin.keyspace.clone()),
                ("small is to be", begin.goal.objective.to_string()),
            ];
            quantity = match begin.goal.objective {
                Objective::MeanTime | Objective::P50 | Objective::P99 => Quantity::Nanoseconds,
                Objective::BytesWritten => Quantity::Bytes,
                Objective::Blocks => Quantity::Plain("blocks"),
                Objective::TimeAndSpace => Quantity::Plain("ns · bytes"),
            };
        }
        let Record::Window { window, decision } = record else { continue };
        let number = window.number as f64;
        costs.extend(decision.cost.map(|cost| (number, cost)));
        expected.extend(decision.baseline.map(|baseline| (number, baseline)));
        if decision.order.is_some() {
            changes += 1.0;
            first.get_or_insert(number);
        }
        if is_told(decision) {
            let mut text = window_text(window, decision);
            let rest = text.split_off(text.find('\n').map_or(0, |end| end + 1));
            rows.push((text.trim().to_owned(), vec![rest.trim().replace("\n    ", "; ")]));
        }
    }
    let lines = Lines {
        title: "what an operation cost, by window".into(),
        quantity,
        better: "lower",
        over: "windows",
        mark: (first.unwrap_or(0.0), "first change"),
        lines: vec![("cost".into(), costs), ("expected".into(), expected)],
    };
    let columns = vec!["window".into(), "what was decided".into()];
    let table = Table { title: "decisions".into(), columns, rows };
    Document {
        title: TITLE.into(),
        facts,
        sections: vec![Section {
            title: "Timeline".into(),
            text: vec![format!("{changes} changes were made or taken back.")],
            tables: vec![table],
            lines: vec![lines],
            ..Section::default()
        }],
    }
}
