//! Beginning and ending a recording of what users do: `Control::trace`, and `Recording`, its guard.
//!
//! `trace` starts a `trace::Recorder` in a new file. `recorded` tells how far it has come; `finish`
//! ends it and makes the file durable, as dropping does without telling errors.
//!
//! What must hold: at most one recording runs on a database. While it does, operations are timed
//! each time and not one in 128, but for a few such as `multi_get`. The guard keeps the database
//! open. What a trace holds is `crate::trace`'s matter, how operations come to it
//! `engine::tracing`'s.
//!
//! Callers: applications, `solera load`, and `solera-bench` (for `solera bench`).

use super::Control;
use crate::{
    engine::Handle,
    error::{Error, Result},
    trace::{Recorded, Recorder, TraceOptions},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
};

/// A recording that goes on until this is [finished](Recording::finish) or dropped. Keeps the
/// database open.
pub struct Recording {
    handle: Arc<Handle>,
    recorder: Arc<Recorder>,
    /// Writes the file; gone when it is ended.
    thread: Option<JoinHandle<Result<()>>>,
    path: PathBuf,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Control {
    /// Records from now on what is done with the database, by all its users, in a new file at
    /// `path`: which operation, which key, how long a value, when; no values. `solera trace` shows
    /// it and does it again elsewhere, [`trace::read`](crate::trace::read) reads it.
    ///
    /// It holds up no operation: operations go to memory, and a thread writes them out. Where the
    /// file is slower than they, or cannot be written at all, they are left out and counted, in the
    /// trace and in [`Recording::recorded`]. While it goes on every operation is timed, not one in
    /// 128. Recorded is what succeeded, when it ended; of a scan, when its iterator is placed anew
    /// or dropped, and how far it came. A transaction's writes are recorded as its commit. Not
    /// recorded are bulk loads ([`Keyspace::ingest`](crate::Keyspace::ingest)), flushes and
    /// compactions, and what a transaction reads of its own writes.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// use solera::trace::TraceOptions;
    /// let recording = db.control().trace(&dir.path().join("morning.trace"), TraceOptions::new())?;
    /// db.put(b"key", b"value")?;
    /// db.get(b"key")?;
    /// assert_eq!(recording.finish()?.operations, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if the database is being recorded already, or for too little memory;
    /// [`Error::Io`] if the file exists or cannot be made, [`Error::Closed`].
    pub fn trace(&self, path: &Path, options: TraceOptions) -> Result<Recording> {
        let handle = self.handle.clone();
        handle.not_closed()?;
        // The program may change its current directory, and the end looks whether the file is
        // there.
        let path = handle.store.files.fs.absolute(path)?;
        let (recorder, thread) =
            handle.tracing.begin(&path, options, &handle.store, handle.options.clock.clone())?;
        Ok(Recording { handle, recorder, thread: Some(thread), path })
    }
}

impl Recording {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How far it has come: what is in the file, and what was left out, and why.
    pub fn recorded(&self) -> Recorded {
        self.recorder.recorded()
    }

    /// Ends the recording and makes the file durable; its name is when its directory is synced.
    /// Dropping does the same, but cannot report a failure.
    ///
    /// # Errors
    /// [`Error::Io`] if the end cannot be written or the file cannot be synced; [`Error::Poisoned`]
    /// if an earlier failure left the file in an unknown state.
    pub fn finish(mut self) -> Result<Recorded> {
        self.end()?;
        Ok(self.recorded())
    }

    fn end(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.handle.tracing.end(&self.recorder, &self.handle.store.catalog);
        thread
            .join()
            .unwrap_or_else(|_| Err(Error::Poisoned("the thread that writes the trace panicked".into())))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // No caller is left to hear of a failure; `finish` is the call that reports one.
        let _ = self.end();
    }
}
