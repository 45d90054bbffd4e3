//! What each system says in its own words: `Place` (reads and writes at an offset, whether an open
//! file has left its path), `open_to_read`, `sync_dir`.
//!
//! On Unix these are `pread`, `pwrite`, device and inode number, and a directory's `fsync`. On
//! Windows their fellows read and write; a file has left its path if nothing is there. `sync_dir`
//! there only looks into the directory, since the file system keeps a journal of names.
//!
//! What must hold: a call at a place depends on no position that another thread moves.
//! `write_all_at` goes on after an interruption.
//!
//! Callers: `PosixFs`, and its files in `handles`, `direct` and `mapped`. On Windows it is compiled
//! (`.ci/packages`) and was never run.

use std::{
    fs::{File, Metadata, OpenOptions},
    io,
    path::Path,
};

/// Reads and writes at a place of a file.
pub(super) trait Place {
    /// Reads what is at `offset`: 0 bytes at the end, else at least one.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`, again after an interruption.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Whether `path`, by which the open file was made, leads to it no more, as far as the system
    /// tells: it was removed or renamed, alone or with a directory above it.
    fn has_left(&self, path: &Path) -> bool;
}

#[cfg(unix)]
impl Place for File {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, offset)
    }

    fn has_left(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let number = |metadata: Metadata| (metadata.dev(), metadata.ino());
        match named(path) {
            Ok(there) => self.metadata().is_ok_and(|own| number(own) != number(there)),
            Err(error) => is_absence(&error),
        }
    }
}

#[cfg(windows)]
impl Place for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, buf, offset)
    }

    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match std::os::windows::fs::FileExt::seek_write(self, bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn has_left(&self, path: &Path) -> bool {
        named(path).is_err_and(|error| is_absence(&error))
    }
}

fn named(path: &Path) -> io::Result<Metadata> {
    std::fs::metadata(path)
}

/// Whether the error says that there is nothing at the path.
fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Opens a file to read. Refuses what is no file: a pipe would let its opener wait for a writer.
pub(super) fn open_to_read(path: &Path) -> io::Result<File> {
    open_with(path, 0)
}

/// As [`open_to_read`], with flags of the system's own, such as `O_DIRECT`.
#[cfg(target_os = "linux")]
pub(super) fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    // `O_NONBLOCK` opens a pipe at once, and means nothing for a file.
    let opened = OpenOptions::new().read(true).custom_flags(flags | libc::O_NONBLOCK).open(path)?;
    only_file(&opened.metadata()?)?;
    Ok(opened)
}

#[cfg(not(target_os = "linux"))]
fn open_with(path: &Path, _: i32) -> io::Result<File> {
    only_file(&named(path)?)?;
    OpenOptions::new().read(true).open(path)
}

fn only_file(metadata: &Metadata) -> io::Result<()> {
    match metadata.file_type() {
        kind if kind.is_file() => Ok(()),
        kind if kind.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a pipe or a device, not a file")),
    }
}

/// Makes the names in a directory durable.
#[cfg(not(windows))]
#[expect(clippy::disallowed_methods, reason = "the part of `PosixFs` that differs by system")]
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes the names in a directory durable. Windows opens no directory as a file; its file system
/// keeps a journal of names.
#[cfg(windows)]
pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    path.read_dir().map(|_| ())
}
