//! `solera trace`: what was recorded of a workload, and doing it again. `Trace::run` chooses `show`
//! or `replay`.
//!
//! A trace is recorded by the process that has the database open (`solera load --trace`,
//! `Control::trace`): docs/decisions/0015. `read_trace` reads one, and `remark` says what is to be
//! told of its end.
//!
//! What must hold: damage inside a trace is a failure with its place. A trace without its end is
//! read as far as it is whole, and told of. A file that is no trace is not damaged.
//!
//! Caller: `main`.

mod replay;
mod show;
mod summary;

use crate::{
    failure::{Failure, Outcome, Result},
    given::unless_another,
    signal,
    target::operating_system,
};
use solera::{
    dir::magic,
    error::Error,
    trace::{Ending, Traced, read},
};
use std::path::Path;

/// Show a recorded workload, and do it again elsewhere
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Trace {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "\
A process records what it does itself, because no other can see its operations: `solera load --trace FILE`, \
`solera bench --trace DIR`, and a program by `db.control().trace(path, TraceOptions::new())`. A trace holds operations, \
keys (or hashes of them), lengths of values and times; no values.

Examples:
  solera load --dir DB --trace load.trace records.tsv
  solera trace show load.trace
  solera trace replay load.trace --dir COPY --asap";

#[derive(Debug, clap::Subcommand)]
enum Command {
    Show(show::Show),
    Replay(replay::Replay),
}

impl Trace {
    pub(crate) fn run(self) -> Result<Outcome> {
        match self.command {
            Command::Show(command) => command.run(),
            Command::Replay(command) => command.run(),
        }
    }
}

/// Fails if a signal has asked to stop a command that watches for them.
fn go_on() -> Result<(), Error> {
    match signal::stop_asked() {
        true => Err(Error::Closed),
        false => Ok(()),
    }
}

/// Reads the trace at `path`.
fn read_trace(path: &Path, each: impl FnMut(&Traced<'_>) -> Result<(), Error>) -> Result<Ending> {
    read(&*operating_system(), path, each).map_err(|error| match error {
        Error::Corrupt { file, offset, what } if file == path => {
            let damage = Failure::Damage(format!(
                "{}: damaged at byte {offset}: {what}; copy the trace anew from where it was recorded, or record it again",
                file.display()
            ));
            unless_another(damage, path, "a trace", |beginning| beginning.starts_with(&magic::TRACE))
        }
        error => error.into(),
    })
}

/// What is to be said of a trace's end, if anything is.
fn remark(ending: &Ending) -> Option<String> {
    let left = match ending.cut_bytes {
        0 => String::new(),
        bytes => format!("; its last {bytes} bytes are not whole and left out"),
    };
    let says = "the recording was not ended: its process records still, or was killed";
    (!ending.ended).then(|| format!("{says}{left}"))
}
