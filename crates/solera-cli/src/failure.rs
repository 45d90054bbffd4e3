//! How a command ends: well, or with a reason, and the exit status that says so to a script.

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
    /// Anything else: exit status 4.
    Error(String),
    /// Whoever read our output has stopped reading (`| head`): they have what they wanted.
    OutputClosed,
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure of an operation on a file that belongs to the user, not to the database.
    pub(crate) fn file(op: &str, path: impl fmt::Display, error: &io::Error) -> Self {
        Failure::Error(format!("cannot {op} {path}: {error}"))
    }

    /// The exit status.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::Usage(_) => 2,
            Failure::Error(_) => 4,
            Failure::OutputClosed => 0,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(text) | Failure::Error(text) => f.write_str(text),
            Failure::OutputClosed => f.write_str("the reader of the output has gone"),
        }
    }
}

impl From<solera::error::Error> for Failure {
    fn from(error: solera::error::Error) -> Self {
        match error.io_kind() {
            Some(io::ErrorKind::BrokenPipe) => Failure::OutputClosed,
            _ => Failure::Error(error.to_string()),
        }
    }
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
