//! `solera control watch`: shows what a database does while another process works with it.
//!
//! One process at a time has a database open, so watching does not open it. The process that has it
//! open publishes observations in a file (`solera load --publish`, `Control::publish`), and this
//! reads the file (docs/decisions/0013). It prints a screen (`screen`), JSON, or Prometheus's text.
//!
//! What must hold: the first look and `--prometheus` show all since the opening, as does the first
//! after the database was opened anew. Every further look shows what happened between two
//! observations that were read. An observation older than five seconds is called old. No process is
//! kept out.
//!
//! Caller: `command::control`.

mod screen;

use crate::{
    failure::{Failure, Outcome, Result},
    given::beginning,
    output::{print_json, print_text, stdout},
    units,
};
use solera::{
    Clock, SystemClock,
    control::{Observation, published},
    dir::{FileName, magic},
    error::Error,
    vfs::posix::PosixFs,
};
use std::{
    io::{ErrorKind, IsTerminal, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// Show what a database does while another process works with it: levels, mix, latencies, memory,
/// stalls, knobs
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Watch {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "SOLERA_DIR", required_unless_present = "file")]
    dir: Option<PathBuf>,
    /// The file that the database is published in, wherever it is [default: OBSERVED in its
    /// directory]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Time between two looks, such as 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::parse_period)]
    every: Duration,
    /// End after so many looks [default: when the database is no longer published]
    #[arg(long, value_name = "N", value_parser = units::whole::<u64>(1, u64::MAX))]
    count: Option<u64>,
    /// Print one JSON object per look
    #[arg(long)]
    json: bool,
    /// Print what was done since the opening in Prometheus's text format, once
    #[arg(long, conflicts_with_all = ["json", "count", "every"])]
    prometheus: bool,
}

const HELP: &str = "\
On a terminal each look takes the place of the one before; else looks follow one another. The first look tells \
what was done since the database was opened, every further one what was done since the look before. It ends when \
the database is no longer published, which is when its owner closes it, and says so; of an owner that was killed \
it says how old its last word is.

Examples:
  solera load --dir DB --publish records.tsv &
  solera control watch --dir DB
  solera bench --n 10M --publish OUT & solera control watch --file OUT/uniform-s-tree";

/// An observation older than this was not replaced because its owner hangs or was killed:
/// publishers that are worth watching are faster.
const OLD: Duration = Duration::from_secs(5);

impl Watch {
    pub(crate) fn run(self) -> Result<Outcome> {
        let path = match (&self.file, &self.dir) {
            (Some(file), _) => file.clone(),
            (None, Some(dir)) => {
                crate::target::Database { dir: dir.clone() }.must_exist()?;
                FileName::Observed.in_dir(dir)
            }
            (None, None) => return Err(Failure::Usage("give --dir or --file".into())),
        };
        let clock = SystemClock::new();
        let on_screen = std::io::stdout().is_terminal() && !self.json;
        let mut last: Option<Observation> = None;
        let mut looks = 0;
        while self.count.is_none_or(|count| looks < count) {
            let now = match published(&path) {
                Ok(now) => now,
                Err(error) if is_absent(&error) && last.is_some() => {
                    if !self.json {
                        print_text("the database is no longer published: its owner has closed it")?;
                    }
                    return Ok(Outcome::Done);
                }
                Err(error) if is_absent(&error) => return Err(not_published(&path)),
                Err(Error::Corrupt { what, offset, .. }) => {
                    return Err(not_an_observation(&path, offset, &what));
                }
                Err(error) => return Err(error.into()),
            };
            if self.prometheus {
                print_text(&now.to_prometheus())?;
                return Ok(Outcome::Done);
            }
            let age = Duration::from_millis(clock.unix_ms().saturating_sub(now.unix_ms));
            let stale = (age > OLD).then_some(age);
            // One that was not replaced since has nothing new to say, but that it is old.
            let is_another = |last: &Observation| last.opened_unix_ms != now.opened_unix_ms;
            let is_new = |last: &Observation| last.unix_ms != now.unix_ms;
            let whole = last.as_ref().is_none_or(is_another);
            if whole || last.as_ref().is_some_and(is_new) || stale.is_some() {
                let window = last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
                if self.json {
                    print_json(&to_json(&window, stale)?)?;
                } else {
                    show(&screen::draw(&window, stale, whole), on_screen)?;
                }
                looks += 1;
            }
            last = Some(now);
            if self.count != Some(looks) {
                clock.sleep(self.every);
            }
        }
        Ok(Outcome::Done)
    }
}

/// The look as JSON, with how old it is if it is too old to be true any more.
fn to_json(window: &Observation, stale: Option<Duration>) -> Result<serde_json::Value> {
    let mut look: serde_json::Value =
        serde_json::from_str(&window.to_json()).map_err(std::io::Error::from)?;
    look["stale_ms"] = stale.map(|age| age.as_millis() as u64).into();
    Ok(look)
}

fn is_absent(error: &Error) -> bool {
    error.io_kind() == Some(ErrorKind::NotFound)
}

/// What lies there is damaged, or another file.
fn not_an_observation(path: &Path, offset: u64, what: &str) -> Failure {
    match beginning(path) {
        Ok(content) if content.starts_with(&magic::OBSERVATION) => Failure::Damage(format!(
            "{}: damaged at byte {offset}: {what}; its owner writes it anew, and the database does not need it",
            path.display()
        )),
        _ => Failure::Usage(format!(
            "{} is not what a database publishes: {what}; name the file that --publish was given",
            path.display()
        )),
    }
}

/// No process publishes there. Whether a process has the database open is worth saying.
fn not_published(path: &Path) -> Failure {
    let lock = path.with_file_name(FileName::Lock.to_string());
    // Asked without taking the lock: that would keep a process out that opens the database now.
    let open = match PosixFs::new().lock_owner(&lock) {
        Some(pid) => format!("process {pid} has the database open and does not publish it"),
        None => "no process that works with the database publishes it".to_owned(),
    };
    Failure::Missing(format!(
        "there is no {}: {open}; start `solera load --publish`, `solera bench --publish`, or call Control::publish",
        path.display()
    ))
}

/// Prints a look; on a terminal in the place of the one before.
fn show(text: &str, on_screen: bool) -> Result<()> {
    let mut out = stdout();
    if on_screen {
        // To the upper left corner; each line ends by clearing what stood behind it, the last what
        // stood below.
        let text = text.replace('\n', "\x1b[K\n");
        write!(out, "\x1b[H{text}\x1b[J")?;
    } else {
        writeln!(out, "{text}")?;
    }
    out.flush()?;
    Ok(())
}
