//! A part of a file in memory, with space reserved for it: `Window`, `reserve` and `write_zeros`.
//!
//! `Window::new` maps the part, `populate` has its pages ready to be written, `copy` writes into
//! it; dropping unmaps it. `reserve` lengthens a file with space for all of it, `write_zeros`
//! brings that into the system's memory in large pieces.
//!
//! What must hold: a window that is written to lies within its file. Its maker has reserved that
//! part before, and writes to it no more once the file is cut there. A touch behind the end kills
//! the process.
//!
//! Callers: `vfs::posix::mapped` (the writer), `vfs::posix::ahead` (its thread).

use super::uninterrupted;
use std::{
    fs::File,
    io,
    ops::Range,
    os::{fd::AsRawFd, unix::fs::FileExt},
    ptr::{self, NonNull},
};

/// A part of a file in memory.
#[derive(Debug)]
pub(super) struct Window {
    start: NonNull<u8>,
    bytes: usize,
    /// Where in the file it begins.
    offset: u64,
}

// SAFETY: a window is memory that its owner alone writes.
unsafe impl Send for Window {}

impl Window {
    /// Maps that part of the file, from the page of its begin on; its end is not past the file's.
    pub(super) fn new(file: &File, part: Range<u64>) -> io::Result<Window> {
        let offset = part.start / page_bytes() * page_bytes();
        let bytes =
            usize::try_from(part.end - offset).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (file, place) = (file.as_raw_fd(), place(offset)?);
        // SAFETY: a new mapping overlaps no other memory.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file, place) };
        match NonNull::new(start.cast::<u8>()) {
            Some(mapped) if start != libc::MAP_FAILED => Ok(Window { start: mapped, bytes, offset }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Has the system bring all of it into memory, ready to be written, so that the writer need not
    /// wait for that page by page. Its pages count as written from now on. Where the system cannot
    /// (Linux before 5.14), nothing happens.
    pub(super) fn populate(&mut self) {
        // SAFETY: advice about our own mapping, which changes no content. A page that cannot be had
        // is tried again when it is written, and a file system that has none to give then ends the
        // process, as of any mapping.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes, libc::MADV_POPULATE_WRITE) };
    }

    /// Copies as much of `bytes` to `at` as lies in the window; says how much that was.
    pub(super) fn copy(&mut self, bytes: &[u8], at: u64) -> usize {
        let Some(skip) = at.checked_sub(self.offset).and_then(|skip| usize::try_from(skip).ok()) else {
            return 0;
        };
        let count = bytes.len().min(self.bytes.saturating_sub(skip));
        // SAFETY: `count` bytes from `skip` on lie in the mapping, which lies in the file; nothing
        // else refers to it.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(skip).as_ptr(), count) }
        count
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing refers to it any more. It cannot fail.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Lengthens a file that ends at the part's begin to the part's end, with space for all of it.
pub(super) fn reserve(file: &File, part: Range<u64>) -> io::Result<()> {
    let (start, bytes) = (place(part.start)?, place(part.end - part.start)?);
    uninterrupted(|| {
        // SAFETY: a call about an open file.
        match unsafe { libc::fallocate(file.as_raw_fd(), 0, start, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

/// Bytes of zeros that are written at once. Where a file system has large folios (ext4 since Linux
/// 6.16, XFS), what is written together is one piece of memory, which is mapped in one step, and
/// written to the device whole when a byte of it was changed.
const PIECE_BYTES: usize = 64 << 10;

/// Writes zeros into that part of the file, which holds nothing else and has space. It is then in
/// the system's memory, in large pieces where there are such: to bring it there page by page, when
/// each is first touched in a window, takes four to six times as long (docs/decisions/0009).
pub(super) fn write_zeros(file: &File, part: Range<u64>) -> io::Result<()> {
    static ZEROS: [u8; PIECE_BYTES] = [0; PIECE_BYTES];
    let mut at = part.start;
    while at < part.end {
        let bytes = (part.end - at).min(PIECE_BYTES as u64);
        file.write_all_at(&ZEROS[..bytes as usize], at)?;
        at += bytes;
    }
    Ok(())
}

fn place(at: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(at).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(64 << 10)
}
