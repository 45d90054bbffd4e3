//! Appending without a system call: a file that is reserved ahead and mapped (docs/decisions/0009).
//!
//! Owns [`MappedFile`]. What is copied into a shared mapping is in the system's memory at once, as after `write`:
//! it survives the process, and `sync` makes it survive the machine. The file is reserved before it is mapped, so
//! that a full disk is an error of `append` and not a signal in the middle of a copy.
//!
//! What must hold: the window lies within the file, whatever part of it is reserved; nothing but zeros lies
//! behind the last append. Nobody else may cut the file while it is written; the database's lock sees to that.

use super::{uninterrupted, write_back::WriteBack};
use crate::{
    error::{Error, Result},
    vfs::WriteFile,
};
use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    ptr::{self, NonNull},
};

/// A file is reserved ahead by as many bytes as it has, but no less than this,
const RESERVED_BYTES_MIN: u64 = 64 << 10;
/// and no more than this: what is mapped counts as the process's memory.
const RESERVED_BYTES_MAX: u64 = 1 << 20;

/// A file that grows by many small appends.
#[derive(Debug)]
pub(super) struct MappedFile {
    file: File,
    path: PathBuf,
    /// Where the next append goes.
    len: u64,
    /// The file's length: zeros lie between.
    reserved: u64,
    window: Option<Window>,
    written_back: WriteBack,
}

/// A part of a file in memory.
#[derive(Debug)]
struct Window {
    start: NonNull<u8>,
    bytes: usize,
    /// Where in the file it begins.
    offset: u64,
}

// SAFETY: a window is memory that its owner alone writes.
unsafe impl Send for Window {}

impl Window {
    /// Maps the file from the page of `from` up to `to`, which is not past its end.
    fn new(file: &File, from: u64, to: u64) -> io::Result<Window> {
        let offset = from / page_bytes() * page_bytes();
        let bytes = usize::try_from(to - offset).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let place =
            libc::off_t::try_from(offset).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping overlaps no memory of anybody.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), place) };
        match NonNull::new(start.cast::<u8>()) {
            Some(mapped) if start != libc::MAP_FAILED => Ok(Window { start: mapped, bytes, offset }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Copies as much of `bytes` to `at` as lies in the window; says how much that was.
    fn copy(&mut self, bytes: &[u8], at: u64) -> usize {
        let Some(skip) = at.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok()) else {
            return 0;
        };
        let count = bytes.len().min(self.bytes.saturating_sub(skip));
        // SAFETY: `count` bytes from `skip` on lie in the mapping, which lies in the file; nobody else refers
        // to it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(skip).as_ptr(), count) }
        count
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nobody refers to it any more. It cannot fail.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(RESERVED_BYTES_MIN)
}

impl MappedFile {
    /// The empty `file`, open for reading and writing, with a first part reserved and mapped. Gives it back,
    /// perhaps with zeros in it, if its file system cannot reserve or map, or has no space.
    pub(super) fn new(file: File, path: &Path) -> Result<MappedFile, File> {
        let reserved = RESERVED_BYTES_MIN;
        match reserve(&file, 0, reserved).and_then(|()| Window::new(&file, 0, reserved)) {
            Ok(window) => {
                let written_back = WriteBack::default();
                Ok(MappedFile {
                    file,
                    path: path.into(),
                    len: 0,
                    reserved,
                    window: Some(window),
                    written_back,
                })
            }
            Err(_) => Err(file),
        }
    }

    /// Reserves and maps room for `bytes` more, at least 1, and where there is space for what will follow.
    fn advance(&mut self, bytes: u64) -> io::Result<()> {
        let needed = self.len + bytes;
        if self.reserved < needed {
            let ahead = self.len.clamp(RESERVED_BYTES_MIN, RESERVED_BYTES_MAX);
            let roomy = (needed + ahead).next_multiple_of(RESERVED_BYTES_MIN);
            let reserve = |to| reserve(&self.file, self.reserved, to).map(|()| to);
            self.reserved = reserve(roomy).or_else(|_| reserve(needed))?;
        }
        self.window = None;
        self.written_back.advance(&self.file, self.len);
        self.window = Some(Window::new(&self.file, self.len, self.reserved)?);
        Ok(())
    }

    /// Makes the file end at `len`. The window goes first: touching one that lies behind the end is fatal.
    fn end_at(&mut self, len: u64) -> io::Result<()> {
        self.window = None;
        uninterrupted(|| self.file.set_len(len))?;
        (self.len, self.reserved) = (len, len);
        self.written_back.cut(len);
        Ok(())
    }
}

/// Makes a file of `from` bytes `to` bytes long, with space for all of them.
fn reserve(file: &File, from: u64, to: u64) -> io::Result<()> {
    let place = |at: u64| libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
    let (start, bytes) = (place(from)?, place(to - from)?);
    uninterrupted(|| {
        // SAFETY: a call about an open file.
        match unsafe { libc::fallocate(file.as_raw_fd(), 0, start, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

impl WriteFile for MappedFile {
    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            let copied = self.window.as_mut().map_or(0, |window| window.copy(bytes, self.len));
            self.len += copied as u64;
            bytes = &bytes[copied..];
            if bytes.is_empty() {
                return Ok(());
            }
            self.advance(bytes.len() as u64).map_err(|error| Error::io("append to", &self.path, error))?;
        }
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.end_at(len).map_err(|error| Error::io("truncate", &self.path, error))
    }

    fn trim(&mut self) -> Result<()> {
        self.truncate(self.len)
    }

    fn sync(&mut self) -> Result<()> {
        // What was written through a mapping is among the file's dirty pages: the system notes each page at its
        // first write after it was last written back.
        let synced = uninterrupted(|| self.file.sync_data());
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // What a killed process leaves reserved, the next open takes for what it is: zeros.
        let _ = self.end_at(self.len);
    }
}
