//! `solera check`: is everything on disk as it was written? `Check::run` prints what
//! `solera::inspect::check` found.
//!
//! It lists each file with its kind and what it holds, then problems with file and offset, then a
//! summary, as text or JSON.
//!
//! `report`, `write_problems`, `problem_json` and `found` do that for another directory.
//!
//! What must hold: a problem makes the exit status that of damage, unless all that is wrong is that
//! files could not be read. A reader of the output that has gone does not change it. The database
//! is not opened; one that a process has open is refused.
//!
//! Callers: `main`, and `checkpoint` for a copy.

use crate::{
    failure::{Failure, Outcome, Result},
    output::stdout,
    target::{Database, operating_system},
    units,
};
use serde_json::{Value, json};
use solera::Error;
pub(super) use solera::inspect::CheckReport as Report;
use solera_tune::coordinator::journal::{self, JOURNAL_NAME};
use std::{
    io::{self, Write},
    path::Path,
};

/// Verify every file of the database: checksums, order, counts, filters, index and model bounds
#[derive(Debug, clap::Args)]
pub(crate) struct Check {
    #[command(flatten)]
    database: Database,
    /// Print one JSON object per file and per problem, and a summary as the last. A problem has its
    /// "file", "offset" and "what", where they are known
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> Result<Outcome> {
        self.database.must_exist()?;
        let report = report(self.database.path()).map_err(|error| self.database.is_none(error))?;
        let mut out = stdout();
        let printed = match self.json {
            true => write_json(&mut out, &report),
            false => write_text(&mut out, &report),
        };
        let printed = printed.and_then(|()| out.flush()).map_err(Failure::from);
        Failure::told(found(&report.problems), printed)
    }
}

/// What is in the database in `dir`, every block of it read.
pub(super) fn report(dir: &Path) -> solera::Result<Report> {
    let mut report = solera::inspect::check(&operating_system(), dir)?;
    // No part of the database, but `solera explain` reads it.
    let journal = dir.join(JOURNAL_NAME);
    report.problems.extend(journal::read(&*operating_system(), &journal).err());
    Ok(report)
}

/// What a command that found these problems ends by.
pub(super) fn found(problems: &[Error]) -> Result<Outcome> {
    match problems {
        [] => Ok(Outcome::Done),
        _ if problems.iter().all(|problem| problem.io_kind().is_some()) => Err(Failure::Error(format!(
            "{} could not be looked at, which may be whole; see to its owner and mode, and to the device",
            units::plural(problems.len() as u64, "file")
        ))),
        _ => Ok(Outcome::Damaged),
    }
}

/// A problem in words. What an error elsewhere advises is to do this check.
fn words(problem: &Error) -> String {
    match problem {
        Error::Corrupt { file, offset, what } => {
            format!("{}: damaged at byte {offset}: {what}", file.display())
        }
        problem => problem.to_string(),
    }
}

/// What to do about damage.
fn remedy(problems: &[Error]) -> Option<&'static str> {
    let is_journal = |problem: &Error| match problem {
        Error::Corrupt { file, .. } => Some(file.file_name() == Some(JOURNAL_NAME.as_ref())),
        _ => None,
    };
    let damaged: Vec<bool> = problems.iter().filter_map(is_journal).collect();
    match damaged[..] {
        [] => None,
        _ if damaged.iter().all(|&is_journal| is_journal) => Some(
            "the database is whole; only what `solera explain` tells of its tuning is lost, and TUNED can be removed",
        ),
        _ => Some(
            "restore the database from a backup (a checkpoint on the same disk shares its files), or load what \
             `solera scan` can still read into a new one",
        ),
    }
}

fn write_json(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for file in &report.files {
        let object = json!({
            "file": file.name,
            "kind": file.kind,
            "bytes": file.bytes,
            "entries": file.entries,
            "live": file.live,
        });
        writeln!(out, "{object}")?;
    }
    for problem in &report.problems {
        writeln!(out, "{}", problem_json(problem))?;
    }
    let summary = json!({
        "files": report.files.len(),
        "entries": report.entries,
        "bytes": report.bytes,
        "torn_log_bytes": report.torn_log_bytes,
        "problems": report.problems.len(),
    });
    writeln!(out, "{summary}")
}

/// A problem in words, and apart where it is and what is wrong there.
pub(super) fn problem_json(problem: &Error) -> Value {
    let mut object = json!({ "problem": words(problem) });
    let (file, offset, what) = match problem {
        Error::Corrupt { file, offset, what } => (file, Some(*offset), what.clone()),
        Error::NewerFormat { file, found, .. } => (file, None, format!("format version {found}")),
        Error::Io { path, source, .. } => (path, None, source.to_string()),
        _ => return object,
    };
    object["file"] = file.to_string_lossy().into();
    object["offset"] = offset.into();
    object["what"] = what.into();
    object
}

fn write_text(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for file in &report.files {
        let holds = match (file.kind, file.live) {
            ("stranger", _) => "not a file of the database".to_owned(),
            ("progress", _) => "how far a load came that was stopped".to_owned(),
            ("temporary", _) => "left behind by a process that was killed; it may be removed".to_owned(),
            ("observed", _) => "what the database does, for `solera control watch`".to_owned(),
            ("tuned", _) => "why knobs were changed, for `solera explain`".to_owned(),
            (_, false) => "no longer needed; the next open removes it".to_owned(),
            ("table" | "log", _) => format!("{} entries", units::count(file.entries)),
            ("manifest", _) => units::plural(file.entries, "record"),
            _ => String::new(),
        };
        let line = format!("{:<20} {:<9} {:>10}  {holds}", file.name, file.kind, units::bytes(file.bytes));
        writeln!(out, "{}", line.trim_end())?;
    }
    if report.torn_log_bytes > 0 {
        writeln!(
            out,
            "the log ends in {} that a crash tore off; nothing acknowledged as synced was in them",
            units::plural(report.torn_log_bytes, "byte")
        )?;
    }
    write_problems(out, report)
}

/// What is wrong, what to do about it, and a summary.
pub(super) fn write_problems(out: &mut impl Write, report: &Report) -> io::Result<()> {
    for problem in &report.problems {
        writeln!(out, "{}", words(problem))?;
    }
    if let Some(remedy) = remedy(&report.problems) {
        writeln!(out, "{remedy}")?;
    }
    let found = match report.problems.len() as u64 {
        0 => "no damage".to_owned(),
        problems => units::plural(problems, "problem"),
    };
    writeln!(
        out,
        "{}, {} entries, {}: {found}",
        units::plural(report.files.len() as u64, "file"),
        units::count(report.entries),
        units::bytes(report.bytes)
    )
}
