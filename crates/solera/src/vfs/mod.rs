//! Files, by argument: the traits `Fs`, `ReadFile` and `WriteFile`, `read_all` and `read_exact_at`.
//! The engine reaches the disk only through `Fs`. It is implemented by the operating system
//! (`posix`), memory with power cuts (`mem`), and any of them with faults (`fault`).
//!
//! What must hold is POSIX's weakest contract:
//! - An append is durable after the file's `sync`. After an error of `sync`, nothing is known of
//!   it.
//! - A created, renamed or removed name is durable after `sync_dir` of its directory.
//! - Before that a crash may keep any part. `rename` replaces atomically.
//!
//! Callers: `frame`, `wal`, `trace`, `values`, `table`, `version::manifest`, `dir`, `engine`,
//! `control::publish`, `inspect`. Of the other crates, `solera-bench`, `solera-cli`, `solera-sim`
//! and `solera-tune` pass an `Fs`; the last two also wrap one in their own.

pub mod fault;
pub mod mem;
pub mod posix;

use crate::error::{Error, Result};
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file system. Errors are [`Error::Io`] and name the operation and the path.
pub trait Fs: fmt::Debug + Send + Sync + 'static {
    /// Opens an existing file for reading at any offset.
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;
    /// [`Fs::open`] for reads that go to the device, past the system's cache of files. Fails with
    /// an [`Error::Io`] of kind [`Unsupported`](io::ErrorKind::Unsupported) or
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) where there are no such reads.
    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Err(Error::io("open for direct reads", path, io::ErrorKind::Unsupported.into()))
    }
    /// Creates a file that must not exist, for appending.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;
    /// [`Fs::create`] of a file that will grow by very many small appends. It may be longer than
    /// what was appended, with zeros behind, until it is [trimmed](WriteFile::trim) or dropped: a
    /// process that is killed leaves them there.
    fn create_reserving(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.create(path)
    }
    /// Gives a file a new name, atomically replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a file. Nothing more may be read through handles that are open.
    fn remove_file(&self, path: &Path) -> Result<()>;
    /// Gives a file a second name, which must not exist.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> Result<()>;
    /// Creates a directory and its parents where missing, durably: no `sync_dir` of theirs is
    /// needed.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory. Where directories are names alone there is nothing to do.
    fn remove_dir(&self, path: &Path) -> Result<()> {
        let _ = path;
        Ok(())
    }
    /// The names in a directory, sorted.
    fn list_dir(&self, path: &Path) -> Result<Vec<String>>;
    /// The same path, named so that it stays the same whatever becomes of the process's current
    /// directory.
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        Ok(path.to_path_buf())
    }
    /// Whether a file or directory exists.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// A number that no file was made with yet, here or on any other machine: random, or, where
    /// everything must come out the same again, never the same twice on one disk.
    fn nonce(&self) -> u64;
    /// Takes the exclusive lock that `path` (created if missing) stands for, until the result is
    /// dropped. Fails with [`Error::Locked`] if it is held, by another process or by this one.
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>>;
    /// Takes a share of the lock that `path` stands for, until the result is dropped: others may
    /// share it, no holder has it exclusively. Changes nothing: `None` if there is no such file, so
    /// that it cannot be held. Fails with [`Error::Locked`] if it is held exclusively.
    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn Send + Sync>>>;
}

/// A file open for reading.
pub trait ReadFile: fmt::Debug + Send + Sync + 'static {
    /// Reads up to `buf.len()` bytes at `offset` and says how many; 0 only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;
    /// The file's length in bytes.
    fn len(&self) -> Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
    /// The caller will read `len` bytes at `offset` soon: a file that can has the device begin with
    /// it. Waits for nothing and promises nothing.
    fn will_need(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }
    /// As [`ReadFile::read_at`], of what [`ReadFile::will_need`] was told: it may be on its way.
    fn read_needed(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read_at(buf, offset)
    }
    /// The path that the file was opened by, for messages.
    fn path(&self) -> &Path;
}

/// A file open for appending.
pub trait WriteFile: fmt::Debug + Send + 'static {
    /// Appends all bytes. On an error any part of them may have been appended.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Cuts the file to `len` bytes, to take back a part of a failed append.
    fn truncate(&mut self, len: u64) -> Result<()>;
    /// Makes the file end behind the last append, if it was [created longer](Fs::create_reserving).
    /// An append may make it longer again.
    fn trim(&mut self) -> Result<()> {
        Ok(())
    }
    /// About so many bytes will be appended before a sync: a file that can gets ready for them, off
    /// the way of the appends. Promises nothing.
    fn expect(&mut self, bytes: u64) {
        let _ = bytes;
    }
    /// Makes content and length durable. After an error nothing is known of any byte that was
    /// appended since the last success, and trying again proves nothing.
    fn sync(&mut self) -> Result<()>;
    /// Whether the file's path is known to lead to it no more, because the file, or a directory
    /// above it, was removed or renamed. No reader finds there then what was made durable.
    fn is_gone(&self) -> bool {
        false
    }
    /// The path that the file was created by, for messages.
    fn path(&self) -> &Path;
}

/// Fills `buf` from `offset`. A file that ends before is [`Error::Corrupt`].
pub fn read_exact_at(file: &dyn ReadFile, buf: &mut [u8], offset: u64) -> Result<()> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64)? {
            0 => {
                return Err(Error::corrupt(
                    file.path(),
                    offset + done as u64,
                    format!("the file ends here, {} bytes short", buf.len() - done),
                ));
            }
            read => done += read,
        }
    }
    Ok(())
}

/// The whole content of a file.
pub fn read_all(file: &dyn ReadFile) -> Result<Vec<u8>> {
    let len = usize::try_from(file.len()?)
        .map_err(|_| Error::corrupt(file.path(), 0, "longer than the address space"))?;
    let mut content = vec![0; len];
    read_exact_at(file, &mut content, 0)?;
    Ok(content)
}

#[cfg(test)]
mod tests;
