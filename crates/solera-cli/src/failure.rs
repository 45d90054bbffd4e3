//! How a command ends: `Outcome`, well, or `Failure`, with a reason and the exit status that says
//! so to a script.
//!
//! `Failure::file` is of a user's file; `and` adds to the text; errors of the engine become
//! failures by `From`. `told` puts together what was found and whether it could be printed.
//!
//! What must hold: the text is without the program's name. The statuses are those of the table in
//! `--help`. A reader of the output that has gone is a `Failure` with status 0, and hides no other.
//!
//! Callers: every command, and what commands read, open and write by, returns them. `main` exits by
//! them; the fuzz target `load` and `solera-bench-peers` compile them too.

use solera::{dir::FileName, operator::builtin};
use std::{fmt, io, process::ExitCode};

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything was done.
    Done,
    /// The key that was asked for is not there.
    NotFound,
    /// Bad lines were left out; the rest was done.
    Partly,
    /// Damage was found and printed.
    Damaged,
}

impl Outcome {
    /// The exit status: the table in the command's `--help`.
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Outcome::Done => 0,
            Outcome::NotFound => 1,
            Outcome::Partly => 3,
            Outcome::Damaged => 4,
        })
    }
}

/// Why a command stopped. The text is one line, without the program's name.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for something that cannot be: exit status 2.
    Usage(String),
    /// A file of the database is not what was written: exit status 4.
    Damage(String),
    /// Another process has the database open: exit status 5.
    Locked(String),
    /// The database, keyspace or file that was named is not there: exit status 6.
    Missing(String),
    /// Anything else: exit status 7.
    Error(String),
    /// A signal asked the command to stop, and it did: exit status 130.
    Interrupted(String),
    /// The reader of our output has stopped reading (`| head`): it has what it wanted.
    OutputClosed,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure of an operation on a file that belongs to the user, not to the database.
    pub(crate) fn file(op: &str, path: impl fmt::Display, error: &io::Error) -> Self {
        let text = format!("cannot {op} {path}: {error}");
        match error.kind() {
            io::ErrorKind::NotFound => Failure::Missing(text),
            kind if is_of_another_kind(kind) => Failure::Usage(text),
            _ => Failure::Error(text),
        }
    }

    /// The same failure with `more` behind its text.
    pub(crate) fn and(self, more: impl fmt::Display) -> Self {
        let and = |text: String| format!("{text}; {more}");
        match self {
            Failure::Usage(text) => Failure::Usage(and(text)),
            Failure::Damage(text) => Failure::Damage(and(text)),
            Failure::Locked(text) => Failure::Locked(and(text)),
            Failure::Missing(text) => Failure::Missing(and(text)),
            Failure::Error(text) => Failure::Error(and(text)),
            Failure::Interrupted(text) => Failure::Interrupted(and(text)),
            Failure::OutputClosed => Failure::OutputClosed,
        }
    }

    /// What a command that found `found` ends by, once its results are `printed`. A reader that has
    /// gone, or no space for them, does not hide what was found.
    pub(crate) fn told(found: Result<Outcome>, printed: Result<()>) -> Result<Outcome> {
        match (found, printed) {
            (found, Ok(())) => found,
            (Ok(Outcome::Done), Err(failure)) => Err(failure),
            (found, Err(Failure::OutputClosed)) => found,
            (Ok(_), Err(failure)) => Err(failure),
            (Err(found), Err(failure)) => Err(found.and(failure)),
        }
    }

    /// The exit status.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Damage(_) => 4,
            Failure::Locked(_) => 5,
            Failure::Missing(_) => 6,
            Failure::Error(_) => 7,
            Failure::Interrupted(_) => 130,
            Failure::OutputClosed => 0,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text)
            | Failure::Damage(text)
            | Failure::Locked(text)
            | Failure::Missing(text)
            | Failure::Error(text)
            | Failure::Interrupted(text) => f.write_str(text),
            Failure::OutputClosed => f.write_str("the reader of the output has gone"),
        }
    }
}

impl From<solera::error::Error> for Failure {
    fn from(error: solera::error::Error) -> Self {
        use solera::error::Error;
        let text = error.to_string();
        match (&error, error.io_kind()) {
            (_, Some(io::ErrorKind::BrokenPipe)) => Failure::OutputClosed,
            // A process that ends cannot go on when there is space: the engine's advice is for
            // those that stay.
            (
                Error::Io { op, path, source },
                Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge),
            ) => {
                let remedy = match source.kind() {
                    io::ErrorKind::FileTooLarge => "raise the limit on the size of files (`ulimit -f`) first",
                    _ => "free some space first",
                };
                Failure::Error(format!("cannot {op} {}: {source}; {remedy}", path.display()))
            }
            (_, Some(io::ErrorKind::NotFound)) => Failure::Missing(text),
            (_, Some(io::ErrorKind::AlreadyExists)) => Failure::Usage(text),
            // No name on the command line led there.
            (Error::Io { path, .. }, Some(_)) if FileName::of(path).is_some() => Failure::Error(text),
            (_, Some(kind)) if is_of_another_kind(kind) => Failure::Usage(text),
            (Error::Corrupt { .. }, _) => Failure::Damage(text),
            (Error::Locked { .. }, _) => Failure::Locked(text),
            (Error::NoKeyspace(_) | Error::NotADatabase { .. }, _) => Failure::Missing(text),
            (Error::Invalid(_) | Error::TooLarge { .. }, _) => Failure::Usage(text),
            // The command cannot be given one: the engine's advice is for programs.
            (Error::Merge { operator, .. }, _) if builtin(operator).is_none() => Failure::Error(format!(
                "the merge operator {operator:?} is needed for that, and is no part of this command; use a program that \
                     gives it to Options::register_operator, or overwrite the entries"
            )),
            _ => Failure::Error(text),
        }
    }
}

/// Whether an operation failed because its name is none, or leads to something of another kind.
fn is_of_another_kind(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{InvalidFilename, IsADirectory, NotADirectory};
    matches!(kind, IsADirectory | NotADirectory | InvalidFilename)
}

/// Plain I/O errors come from our own output: inputs are wrapped where their name is known.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Error(format!("cannot write the output: {error}")),
        }
    }
}
