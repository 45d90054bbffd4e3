//! What can go wrong, said so that the reader knows where and what to do: `Error` and `Result`.
//!
//! `Error::io` and `Error::corrupt` make the commonest; `io_kind` and `is_retryable` (a transaction
//! conflict) ask.
//!
//! What must hold: every variant that concerns a file names the file; damage also names the offset.
//! Nothing is half done when a call returns an error, unless the variant says so; a long call may
//! have finished whole steps. Errors are cheap to clone, because one failed group commit is
//! reported to every writer that waited.
//!
//! Callers: nearly every fallible function of the crate (decoders have `codec::DecodeError`), and
//! all crates that open databases.

use std::{fmt, io, path::PathBuf, sync::Arc};

/// The result of every fallible call in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. Nothing is half done when a call returns an error, unless the variant says
/// so.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused a file operation.
    Io {
        /// The operation, a verb such as `read` or `sync`.
        op: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's own error.
        source: Arc<io::Error>,
    },
    /// A file does not hold what was written to it. Reads elsewhere go on working.
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Byte offset of the damaged structure in that file.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The directory holds no database, or files of another program.
    NotADatabase {
        /// The directory.
        path: PathBuf,
        /// What was found or missed.
        what: String,
    },
    /// The file was written by a build before the first release, whose formats no release reads.
    OlderFormat {
        /// The file.
        file: PathBuf,
    },
    /// The file was written by a newer release.
    NewerFormat {
        /// The file.
        file: PathBuf,
        /// Format version found in it.
        found: u32,
        /// Newest format version that this release reads.
        supported: u32,
    },
    /// Another process, or another handle in this one, has the database open.
    Locked {
        /// The database directory.
        path: PathBuf,
        /// The process that has it open for writing, where that is known.
        pid: Option<u32>,
    },
    /// An optimistic transaction read something that has changed since. Retry it.
    Conflict,
    /// A key, value, batch or count is over its limit; nothing was written.
    TooLarge {
        /// What is too large, for example `key`.
        what: &'static str,
        /// Its size, in bytes unless `what` says otherwise.
        len: u64,
        /// The largest size allowed.
        limit: u64,
    },
    /// An argument or option is not legal; the text says which values are.
    Invalid(String),
    /// A change of knobs was to be made only while another one was the newest, and it is not. Look
    /// at the database again, and decide again.
    Outdated {
        /// Number of the change that was expected to be the newest; 0: none.
        expected: u64,
        /// Number of the change that is; 0: none was made yet.
        newest: u64,
        /// The author of that one; empty if the author gave no name.
        who: String,
    },
    /// The database was opened read-only.
    ReadOnly,
    /// An earlier failure (a failed sync, a panicked worker) made further writes unsafe. Reads go
    /// on; reopen the database to write again.
    Poisoned(String),
    /// The keyspace was dropped, or it is not there and a read-only database cannot create it.
    NoKeyspace(String),
    /// A merge operator refused its operands.
    Merge {
        /// Name of the operator.
        operator: String,
        /// Its reason.
        what: String,
    },
    /// The database is closed.
    Closed,
}

impl Error {
    /// Wraps an I/O error with the operation and the path that it concerns.
    pub fn io(op: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Io { op, path: path.into(), source: Arc::new(source) }
    }

    /// Damage in `file` at byte `offset`.
    pub fn corrupt(file: impl Into<PathBuf>, offset: u64, what: impl Into<String>) -> Self {
        Error::Corrupt { file: file.into(), offset, what: what.into() }
    }

    /// The kind of the underlying I/O error, if this is one.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// What failed a read: a file whose device refuses it, or that another release wrote, cannot be
    /// read any more than a damaged one, and is told like that. A shortage of memory or of handles
    /// passes, so it stays what it is.
    pub(crate) fn of_read(self) -> Self {
        let file = match &self {
            Error::Io { path, source, .. } if !is_shortage(source) => path,
            Error::OlderFormat { file } | Error::NewerFormat { file, .. } => file,
            _ => return self,
        };
        Error::corrupt(file, 0, self.to_string())
    }

    /// Whether the same call may succeed when simply tried again: a transaction conflict.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Conflict)
    }
}

/// Whether the system lacked memory or handles: ENOMEM, ENFILE, EMFILE.
fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(12 | 23 | 24)) || error.kind() == io::ErrorKind::OutOfMemory
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { op, path, source } => {
                write!(f, "cannot {op} {}: {source}", path.display())?;
                match source.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        f.write_str("; free some space: a database that is open then goes on by itself")
                    }
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; check the owner and mode of the directory")
                    }
                    _ => Ok(()),
                }
            }
            Error::Corrupt { file, offset, what } => write!(
                f,
                "{}: damaged at byte {offset}: {what}; run `solera check --dir` on the directory to see the extent, and restore the database from a backup (a checkpoint on the same disk shares its files)",
                file.display()
            ),
            Error::NotADatabase { path, what } => {
                write!(
                    f,
                    "{} is not a Solera database: {what}; name an empty directory or an existing database",
                    path.display()
                )
            }
            Error::OlderFormat { file } => write!(
                f,
                "{}: written by a build before 0.1, whose formats no release reads; open it with the build that made it, and load what `solera scan` prints of it into a new database",
                file.display()
            ),
            Error::NewerFormat { file, found, supported } => write!(
                f,
                "{}: format version {found} is newer than {supported}, the newest this release reads; use a newer release",
                file.display()
            ),
            Error::Locked { path, pid } => {
                write!(f, "{} is open elsewhere", path.display())?;
                if let Some(pid) = pid {
                    write!(f, ", by process {pid}")?;
                }
                f.write_str("; close the other handle or process first")
            }
            Error::Conflict => f.write_str("the transaction conflicts with a later write; run it again"),
            Error::TooLarge { what, len, limit } => {
                write!(f, "{what} of {len} bytes is over the limit of {limit} bytes")
            }
            Error::Invalid(what) => f.write_str(what),
            Error::Outdated { expected, newest, who } => write!(
                f,
                "change {expected} of the knobs was expected to be the newest, but change {newest} by {who:?} is; look at the history, then decide again"
            ),
            Error::ReadOnly => f.write_str("the database is open read-only"),
            Error::Poisoned(why) => {
                write!(f, "writes are refused after an earlier failure ({why}); reopen the database")
            }
            Error::NoKeyspace(name) => write!(f, "there is no keyspace named {name:?}"),
            Error::Merge { operator, what } => write!(f, "merge operator {operator:?}: {what}"),
            Error::Closed => f.write_str("the database is closed"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source.as_ref()),
            _ => None,
        }
    }
}
