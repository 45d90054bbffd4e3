//! The operating system's files: `PosixFs`. No other room names `std::fs`, but tests.
//!
//! Files to read share descriptors (`handles`), may be read past the system's cache (`direct`) and
//! ahead (`read_ahead`). A growing file is written to the device early (`write_back`). On Linux a
//! log is mapped (`mapped`), in parts (`window`) that another thread prepares (`ahead`). `lock`
//! keeps a second writer out; `place` is what systems say differently.
//!
//! What must hold: an append goes where this process knows the file to end. So a retried append
//! overwrites what a failed one has left.
//!
//! Callers, through `Fs`: the engine unless its options name another, `control::publish`,
//! `inspect`, and tools.

#[cfg(target_os = "linux")]
mod ahead;
mod direct;
mod handles;
mod lock;
#[cfg(target_os = "linux")]
mod mapped;
mod place;
mod read_ahead;
#[cfg(target_os = "linux")]
mod window;
mod write_back;

use super::{Fs, ReadFile, WriteFile};
use crate::error::{Error, Result};
use handles::Handles;
use place::Place;
use std::{
    fs::{File, OpenOptions},
    hash::{BuildHasher, RandomState},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use write_back::WriteBack;

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFs;

impl PosixFs {
    /// The machine's file system.
    pub fn new() -> Self {
        PosixFs
    }

    /// The process that has the lock of the file at `path` for writing, where that is known. Takes
    /// no lock, so it keeps no process out.
    pub fn lock_owner(&self, path: &Path) -> Option<u32> {
        lock::owner_of(path)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
impl Fs for PosixFs {
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Handles::of_process().open(path).map_err(|error| Error::io("open", path, error))?)
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let opened = Handles::of_process().open_direct(path);
        Ok(opened.map_err(|error| Error::io("open for direct reads", path, error))?)
    }

    fn nonce(&self) -> u64 {
        // The hasher's keys are the system's randomness; the rest is for a system that has none to
        // give.
        RandomState::new().hash_one((SystemTime::now(), std::process::id()))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = with_descriptor(|| OpenOptions::new().write(true).create_new(true).open(path));
        let file = file.map_err(|error| Error::io("create", path, error))?;
        Ok(Box::new(PosixWriteFile::new(file, path)))
    }

    #[cfg(target_os = "linux")]
    fn create_reserving(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let create = || OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = with_descriptor(create).map_err(|error| Error::io("create", path, error))?;
        Ok(match mapped::MappedFile::new(file, path) {
            Ok(mapped) => Box::new(mapped),
            // What cannot be mapped can still be written.
            Err(file) => Box::new(PosixWriteFile::new(file, path)),
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::rename(from, to).map_err(|error| Error::io("rename", from, error))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        std::fs::remove_file(path).map_err(|error| Error::io("remove", path, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        std::fs::hard_link(from, to).map_err(|error| Error::io("link", to, error))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let synced = with_descriptor(|| place::sync_dir(named(path)));
        synced.map_err(|error| Error::io("sync directory", path, error))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        // Ancestors from the nearest that exists downwards, each name synced in its parent.
        let mut missing = Vec::new();
        for ancestor in path.ancestors().take_while(|ancestor| !ancestor.as_os_str().is_empty()) {
            if ancestor.is_dir() {
                break;
            }
            missing.push(ancestor);
        }
        for dir in missing.into_iter().rev() {
            match std::fs::create_dir(dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
                made => made.map_err(|error| Error::io("create directory", dir, error))?,
            }
            if let Some(parent) = dir.parent() {
                self.sync_dir(parent)?;
            }
        }
        Ok(())
    }

    fn list_dir(&self, path: &Path) -> Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            // A name that is not UTF-8 is none of ours; it is listed so that it can be complained
            // about.
            let name = |entry: io::Result<std::fs::DirEntry>| -> io::Result<String> {
                Ok(entry?.file_name().to_string_lossy().into_owned())
            };
            with_descriptor(|| std::fs::read_dir(named(path)))?.map(name).collect()
        };
        let mut names = list().map_err(|error| Error::io("list", path, error))?;
        names.sort_unstable();
        Ok(names)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        std::fs::remove_dir(path).map_err(|error| Error::io("remove", path, error))
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        std::path::absolute(named(path)).map_err(|error| Error::io("find", path, error))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        named(path).try_exists().map_err(|error| Error::io("look for", path, error))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = with_descriptor(open).map_err(|error| Error::io("open", path, error))?;
        Ok(Box::new(lock::Exclusive::of(file, path)?))
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
        let file = match with_descriptor(|| place::open_to_read(path)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("open", path, error)),
        };
        Ok(Some(Box::new(lock::Shared::of(file, path)?)))
    }
}

/// The path to give the system for a directory: the empty path means the current one.
fn named(dir: &Path) -> &Path {
    if dir.as_os_str().is_empty() { Path::new(".") } else { dir }
}

/// Does what needs a descriptor, if need be with that of a file that rests.
fn with_descriptor<T>(call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    Handles::of_process().with_descriptor(call)
}

#[derive(Debug)]
struct PosixWriteFile {
    file: File,
    /// Where the next append goes.
    len: u64,
    written_back: WriteBack,
    path: PathBuf,
}

impl PosixWriteFile {
    /// The empty `file`.
    fn new(file: File, path: &Path) -> Self {
        PosixWriteFile { file, len: 0, written_back: WriteBack::default(), path: path.into() }
    }
}

/// Repeats a call that a signal interrupted. (`write_all_at` does so by itself.)
fn uninterrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl WriteFile for PosixWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.file.write_all_at(bytes, self.len);
        written.map_err(|error| Error::io("append to", &self.path, error))?;
        self.len += bytes.len() as u64;
        self.written_back.advance(&self.file, self.len);
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        let cut = uninterrupted(|| self.file.set_len(len));
        cut.map_err(|error| Error::io("truncate", &self.path, error))?;
        self.len = len;
        self.written_back.cut(len);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        // An interrupted sync was not tried yet, as far as the error can be trusted: any other
        // failure is final, see `WriteFile::sync`. The length counts as data that `sync_data` makes
        // durable.
        uninterrupted(|| self.file.sync_data()).map_err(|error| Error::io("sync", &self.path, error))
    }

    fn is_gone(&self) -> bool {
        self.file.has_left(&self.path)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
