//! Files that kill their own process at a named point: `FatalFs`, by a `Fate`.
//!
//! It passes every call on. At the n-th call of a `Site` it sends its process SIGKILL, before the
//! call, after it, or in the middle of an append. Calls count once the database is open (`arm`), or
//! from the first one if the fate says so.
//!
//! What must hold: nothing runs after the kill, no thread of the process and no destructor.
//!
//! Callers: `victim::live`; `program::kill9` draws a `Fate`.

use super::site::{Moment, Site};
use rustix::process::{Signal, getpid, kill_process};
use solera::{
    Result,
    vfs::{Fs, ReadFile, WriteFile, fault::Call},
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Where a process is to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fate {
    /// The point.
    pub site: Site,
    /// How often it is passed before.
    pub skip: u64,
    /// Whether calls count from the first one, not only once the database is open.
    pub in_open: bool,
}

/// A file system that is the death of its process. A clone is another handle of the same one.
#[derive(Clone, Debug)]
pub struct FatalFs {
    below: Arc<dyn Fs>,
    watch: Arc<Watch>,
}

#[derive(Debug)]
struct Watch {
    fate: Fate,
    armed: AtomicBool,
    left: AtomicU64,
}

impl FatalFs {
    /// The files of `below` with this fate.
    pub fn new(below: Arc<dyn Fs>, fate: Fate) -> FatalFs {
        let (armed, left) = (AtomicBool::new(fate.in_open), AtomicU64::new(fate.skip));
        FatalFs { below, watch: Arc::new(Watch { fate, armed, left }) }
    }

    /// The database is open: calls count from now on, if they did not before.
    pub fn arm(&self) {
        self.watch.armed.store(true, Ordering::SeqCst);
    }

    /// Makes the call, unless the process dies before, and dies after it if that is its fate.
    fn pass<T>(&self, call: Call, path: &Path, make: impl FnOnce() -> T) -> T {
        let due = self.watch.due(call, path);
        if due == Some(Moment::Before) {
            die();
        }
        let made = make();
        if due.is_some() {
            die();
        }
        made
    }
}

impl Watch {
    /// If this is the call, the moment of it.
    fn due(&self, call: Call, path: &Path) -> Option<Moment> {
        let counts = self.armed.load(Ordering::SeqCst) && self.fate.site.concerns(call, path);
        (counts && self.left.fetch_sub(1, Ordering::SeqCst) == 0).then_some(self.fate.site.moment)
    }
}

/// Ends this process like a kill from outside.
fn die() -> ! {
    // It cannot fail for one's own process; if it did, aborting is as sudden.
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}

impl Fs for FatalFs {
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let below = self.pass(Call::Open, path, || self.below.open(path))?;
        Ok(Arc::new(FatalReadFile { below, fs: self.clone() }))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let below = self.pass(Call::Open, path, || self.below.open_direct(path))?;
        Ok(Arc::new(FatalReadFile { below, fs: self.clone() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let below = self.pass(Call::Create, path, || self.below.create(path))?;
        Ok(Box::new(FatalWriteFile { below, fs: self.clone(), path: path.into() }))
    }

    fn create_reserving(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let below = self.pass(Call::Create, path, || self.below.create_reserving(path))?;
        Ok(Box::new(FatalWriteFile { below, fs: self.clone(), path: path.into() }))
    }

    fn nonce(&self) -> u64 {
        self.below.nonce()
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.pass(Call::Rename, from, || self.below.rename(from, to))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.pass(Call::Remove, path, || self.below.remove_file(path))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.pass(Call::Link, to, || self.below.hard_link(from, to))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.pass(Call::SyncDir, path, || self.below.sync_dir(path))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.pass(Call::CreateDir, path, || self.below.create_dir_all(path))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.pass(Call::Remove, path, || self.below.remove_dir(path))
    }

    fn list_dir(&self, path: &Path) -> Result<Vec<String>> {
        self.pass(Call::List, path, || self.below.list_dir(path))
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.below.absolute(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.pass(Call::Exists, path, || self.below.exists(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.pass(Call::Lock, path, || self.below.lock(path))
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
        self.pass(Call::Lock, path, || self.below.lock_shared(path))
    }
}

#[derive(Debug)]
struct FatalReadFile {
    below: Arc<dyn ReadFile>,
    fs: FatalFs,
}

impl ReadFile for FatalReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.fs.pass(Call::Read, self.below.path(), || self.below.read_at(buf, offset))
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.below.will_need(offset, len);
    }

    fn read_needed(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.fs.pass(Call::Read, self.below.path(), || self.below.read_needed(buf, offset))
    }

    fn len(&self) -> Result<u64> {
        self.fs.pass(Call::Len, self.below.path(), || self.below.len())
    }

    fn path(&self) -> &Path {
        self.below.path()
    }
}

#[derive(Debug)]
struct FatalWriteFile {
    below: Box<dyn WriteFile>,
    fs: FatalFs,
    path: PathBuf,
}

impl WriteFile for FatalWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let FatalWriteFile { below, fs, path } = self;
        let due = fs.watch.due(Call::Append, path);
        let written = match due {
            None | Some(Moment::After) => below.append(bytes),
            Some(Moment::Amid) => below.append(&bytes[..bytes.len() / 2]),
            Some(Moment::Before) => Ok(()),
        };
        if due.is_some() {
            die();
        }
        written
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        let FatalWriteFile { below, fs, path } = self;
        fs.pass(Call::Truncate, path, || below.truncate(len))
    }

    fn trim(&mut self) -> Result<()> {
        let FatalWriteFile { below, fs, path } = self;
        fs.pass(Call::Truncate, path, || below.trim())
    }

    fn expect(&mut self, bytes: u64) {
        self.below.expect(bytes);
    }

    fn sync(&mut self) -> Result<()> {
        let FatalWriteFile { below, fs, path } = self;
        fs.pass(Call::Sync, path, || below.sync())
    }

    fn is_gone(&self) -> bool {
        self.below.is_gone()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
