//! Letting other processes see what this one's database does: `Publisher`, and `published`, which
//! reads.
//!
//! `Control::publish` starts a thread that writes an encoded observation to a file every so often,
//! at least 10 ms apart. `published` decodes the file.
//!
//! What must hold: the file is replaced by a rename, so a reader sees one observation or the next,
//! whole. It is not synced, since it is of use only while its writer lives, and goes with it
//! (docs/decisions/0013). `publish` refuses to begin where another program's file is; later it does
//! not look again. `close` waits until the thread has removed the file: the next owner of the
//! directory publishes under the same name. What another database published there meanwhile stays.
//!
//! Callers: applications, `solera load` and `solera-bench` publish; `solera control watch` reads.

use super::{Control, Observation};
use crate::{
    dir::{FileName, magic},
    error::{Error, Result},
    sync::atomic::{AtomicBool, Ordering},
    vfs::{Fs, posix::PosixFs, read_all, read_exact_at},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc::sync_channel},
    thread::JoinHandle,
    time::Duration,
};

/// The shortest time between two observations: an observation of thousands of tables takes about a
/// millisecond.
pub const PUBLISH_EVERY_MIN: Duration = Duration::from_millis(10);

/// Bytes at the front of a file that tell one observation from another: its checksum is there.
const FRONT_BYTES: usize = 16;

/// Publishes what a database does until it is dropped or the database is closed; then the file is
/// removed. Keeps the database open.
#[derive(Debug)]
pub struct Publisher {
    control: Control,
    /// Whether the thread is to stop.
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    path: PathBuf,
}

/// A place where observations are written, and the front of the one that was written last.
struct Place<'a> {
    fs: &'a dyn Fs,
    path: &'a Path,
    last: Vec<u8>,
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
        let (stops, (tells, told)) = (Arc::<AtomicBool>::default(), sync_channel(1));
        let of_thread = (self.clone(), stops.clone(), path.clone());
        let run = move || {
            let (control, stops, path) = of_thread;
            let begun = control.publish_until(&path, every, &stops, || _ = tells.send(Ok(())));
            begun.unwrap_or_else(|error| _ = tells.send(Err(error)));
        };
        let thread = std::thread::Builder::new().name("solera-publish".into()).spawn(run);
        let thread = thread.map_err(|error| Error::io("start a thread for", &path, error))?;
        told.recv().unwrap_or(Err(Error::Closed))?;
        Ok(Publisher { control: self.clone(), stops, thread: Some(thread), path })
    }

    /// Writes observations until it `stops` or the database is closed. Has `begun` once the first
    /// is there.
    ///
    /// # Errors
    /// The first could not be written.
    fn publish_until(
        &self,
        path: &Path,
        every: Duration,
        stops: &AtomicBool,
        begun: impl FnOnce(),
    ) -> Result<()> {
        // The database keeps the directory until this thread has left.
        let _caller = self.handle.callers.enter()?;
        let mut place = Place { fs: &*self.handle.store.files.fs, path, last: Vec::new() };
        place.write(&self.observe())?;
        begun();
        while !self.handle.callers.rest(every, || stops.load(Ordering::Acquire)) {
            // The next one may succeed.
            let _ = place.write(&self.observe());
        }
        // One that cannot be removed grows old, and that says as much.
        let _ = place.clear();
        Ok(())
    }
}

impl Place<'_> {
    fn write(&mut self, observation: &Observation) -> Result<()> {
        let next = next_of(self.path);
        // One that a killed process left behind.
        if self.fs.exists(&next)? {
            self.fs.remove_file(&next)?;
        }
        let bytes = observation.encode();
        let mut file = self.fs.create(&next)?;
        file.append(&bytes)?;
        drop(file);
        self.fs.rename(&next, self.path)?;
        self.last = bytes[..FRONT_BYTES].into();
        Ok(())
    }

    /// Removes the file if it is the one that was written last.
    fn clear(&self) -> Result<()> {
        if front_of::<FRONT_BYTES>(self.fs, self.path)? == self.last {
            self.fs.remove_file(self.path)?;
        }
        Ok(())
    }
}

/// The first bytes of the file at `path`; fewer if it is shorter.
fn front_of<const MOST: usize>(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>> {
    let file = fs.open(path)?;
    let mut front = vec![0; file.len()?.min(MOST as u64) as usize];
    read_exact_at(&*file, &mut front, 0)?;
    Ok(front)
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
    let front = front_of::<{ magic::OBSERVATION.len() }>(fs, path)?;
    if front == magic::OBSERVATION || may_be_torn && magic::OBSERVATION.starts_with(&front) {
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

impl Drop for Publisher {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Release);
        self.control.handle.callers.call();
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
