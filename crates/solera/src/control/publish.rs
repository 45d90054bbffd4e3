//! Letting other processes see what this one's database does: `Publisher`, and `published`, which
//! reads.
//!
//! `Control::publish` starts a thread that writes an encoded observation to a file every so often,
//! at least 10 ms apart. `published` decodes the file.
//!
//! What must hold: the file is replaced by a rename, so a reader sees one observation or the next,
//! whole. It is not synced, since it is of use only while its writer lives, and goes with it
//! (docs/decisions/0013). `publish` refuses to begin where another program's file is; later it does
//! not look again.
//!
//! Callers: applications, `solera load` and `solera-bench` publish; `solera control watch` reads.

use super::{Control, Observation};
use crate::{
    dir::{FileName, magic},
    error::{Error, Result},
    sync::{Condvar, Mutex, atomic::Ordering},
    vfs::{Fs, posix::PosixFs, read_all, read_exact_at},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

/// The shortest time between two observations: an observation of thousands of tables takes about a
/// millisecond.
pub const PUBLISH_EVERY_MIN: Duration = Duration::from_millis(10);

/// Publishes what a database does until it is dropped; then the file is removed. Keeps the database
/// open.
#[derive(Debug)]
pub struct Publisher {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

/// Whether the thread is to stop.
#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    call: Condvar,
}

impl Control {
    /// Writes an observation to the file at `path` now and after every `every`, from a thread of
    /// its own, for `solera control watch` and [`published`] in other processes. `None` is the file
    /// `OBSERVED` in the database's directory. Ends when the result is dropped or the database is
    /// closed; the file is removed then.
    ///
    /// A failure to write after the first time is passed over: the next one may succeed, and
    /// readers see by its age that an observation is not replaced.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// let publisher = db.control().publish(None, std::time::Duration::from_secs(1))?;
    /// db.put(b"key", b"value")?;
    /// let seen = solera::control::published(publisher.path())?;
    /// assert_eq!(seen.keyspaces[0].name, "default");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Invalid`] if `every` is under 10 ms, or if another program's file is at `path`;
    /// [`Error::Io`] if the file cannot be written, [`Error::Closed`].
    pub fn publish(&self, path: Option<&Path>, every: Duration) -> Result<Publisher> {
        if every < PUBLISH_EVERY_MIN {
            return Err(Error::Invalid(format!(
                "an observation every {every:?}; it must be at least {PUBLISH_EVERY_MIN:?}"
            )));
        }
        self.handle.not_closed()?;
        let fs = &*self.handle.store.files.fs;
        // The program may change its current directory: another file there has the same name.
        let path = match path {
            Some(path) => fs.absolute(path)?,
            None => FileName::Observed.in_dir(&self.handle.store.files.dir),
        };
        refuse_other(fs, &path, false)?;
        refuse_other(fs, &next_of(&path), true)?;
        self.write_observation(&path)?;
        let stop = Arc::<Stop>::default();
        let publisher = (self.clone(), stop.clone(), path.clone());
        let run = move || {
            let (control, stop, path) = publisher;
            let closed = || control.handle.closed.load(Ordering::Acquire);
            while !stop.comes_within(every) && !closed() {
                // The next one may succeed.
                let _ = control.write_observation(&path);
            }
            // One that cannot be removed grows old, and that says as much.
            let _ = control.handle.store.files.fs.remove_file(&path);
        };
        let thread = std::thread::Builder::new().name("solera-publish".into()).spawn(run);
        let thread = thread.map_err(|error| Error::io("start a thread for", &path, error))?;
        Ok(Publisher { stop, thread: Some(thread), path })
    }

    fn write_observation(&self, path: &Path) -> Result<()> {
        let fs = self.handle.store.files.fs.clone();
        let next = next_of(path);
        // One that a killed process left behind.
        if fs.exists(&next)? {
            fs.remove_file(&next)?;
        }
        let mut file = fs.create(&next)?;
        file.append(&self.observe().encode())?;
        drop(file);
        fs.rename(&next, path)
    }
}

/// Where an observation is written before it takes its place.
fn next_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".next");
    path.with_file_name(name)
}

/// Refuses a file at `path` that is no observation: it would be written over, and removed in the
/// end. One that `may_be_torn` is what a killed process left of one.
fn refuse_other(fs: &dyn Fs, path: &Path, may_be_torn: bool) -> Result<()> {
    if !fs.exists(path)? {
        return Ok(());
    }
    let file = fs.open(path)?;
    let mut front = [0; magic::OBSERVATION.len()];
    let len = file.len()?.min(front.len() as u64) as usize;
    read_exact_at(&*file, &mut front[..len], 0)?;
    if front == magic::OBSERVATION || may_be_torn && magic::OBSERVATION.starts_with(&front[..len]) {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{} is there already and is not what a database publishes; name another file",
        path.display()
    )))
}

impl Publisher {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Stop {
    /// Waits for the call to stop for at most `time`, and says whether it came.
    fn comes_within(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.call.wait_for(&mut stopped, time);
        }
        *stopped
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        *self.stop.stopped.lock() = true;
        self.stop.call.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does nothing that panics; if it did, no caller is left to tell.
            let _ = thread.join();
        }
    }
}

/// The observation that another process published in the file at `path`. How old it is, it says
/// itself.
///
/// # Errors
/// [`Error::Io`] of kind [`NotFound`](std::io::ErrorKind::NotFound) if there is none; else as
/// [`Observation::decode`].
pub fn published(path: &Path) -> Result<Observation> {
    let file = PosixFs::new().open(path)?;
    Observation::decode(path, &read_all(&*file)?)
}
