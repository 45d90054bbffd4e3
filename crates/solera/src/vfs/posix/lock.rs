//! Locks on files, one writer or many readers: `Exclusive`, `Shared`, and `owner_of`.
//!
//! The writer writes its process number into the file, so that an error can name the process that
//! keeps other processes out. `owner_of` reads it without a lock.
//!
//! What must hold: both unlock the file when they are dropped, and do not leave it to the closing
//! of the descriptor. A process that is being started has copies of its parent's descriptors, which
//! would hold the lock longer than its owner lives. On Linux a process number counts only while
//! that process lives.
//!
//! Caller: `vfs::posix` (`Fs::lock`, `lock_shared`, `PosixFs::lock_owner`), for the file LOCK of a
//! database and the lock of its tuner.

use super::place::open_to_read;
use crate::error::{Error, Result};
use std::{
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    path::Path,
};

/// So many bytes hold any process number.
const PID_BYTES_MAX: u64 = 20;

/// The lock of a writer.
pub(super) struct Exclusive {
    file: File,
    /// The file was empty or had a process number in it. Any other belongs to another program, and
    /// is not written over.
    is_ours: bool,
}

impl Exclusive {
    /// Locks `file`, which lies at `path`.
    pub(super) fn of(file: File, path: &Path) -> Result<Exclusive> {
        held(file.try_lock(), &file, path)?;
        let is_ours = content(&file).is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let mut lock = Exclusive { file, is_ours };
        // Only so that other processes can name the holder: where it cannot be written, no holder
        // is named.
        let _ = lock.write(&std::process::id().to_string());
        Ok(lock)
    }

    fn write(&mut self, text: &str) -> std::io::Result<()> {
        if !self.is_ours {
            return Ok(());
        }
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        let _ = self.write("");
        let _ = self.file.unlock();
    }
}

/// The lock of a reader.
pub(super) struct Shared(File);

impl Shared {
    /// Takes a share of the lock of `file`, which lies at `path`.
    pub(super) fn of(file: File, path: &Path) -> Result<Shared> {
        held(file.try_lock_shared(), &file, path)?;
        Ok(Shared(file))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn held(locked: Result<(), TryLockError>, file: &File, path: &Path) -> Result<()> {
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => {
            Error::Locked { path: path.parent().unwrap_or(path).into(), pid: owner(file) }
        }
        TryLockError::Error(error) => Error::io("lock", path, error),
    })
}

/// The process that has the lock of the file at `path` for writing, where that is known. Takes no
/// lock, so it keeps no process out.
pub(super) fn owner_of(path: &Path) -> Option<u32> {
    owner(&open_to_read(path).ok()?)
}

/// The process that the file names. One that was killed may stand there still: it is named only
/// while it lives, as far as that can be seen.
fn owner(file: &File) -> Option<u32> {
    let text = content(file)?;
    let pid = text.parse().ok()?;
    (!cfg!(target_os = "linux") || Path::new("/proc").join(&text).exists()).then_some(pid)
}

/// What is in the file, if it is text and not too long for a process number.
fn content(mut file: &File) -> Option<String> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(PID_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= PID_BYTES_MAX).then_some(text)
}
