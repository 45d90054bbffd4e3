//! Beginning to write a growing file to the device before a sync waits for it: `WriteBack`,
//! `begin`.
//!
//! A sync waits for all that is not written yet: tens of megabytes of an unsynced log. `advance`
//! begins with each mebibyte as it fills (`SYNC_FILE_RANGE_WRITE` alone). `due` only says what to
//! `begin` with elsewhere. `cut` is told of a shorter length.
//!
//! What must hold: nothing is promised, and no write is awaited. Elsewhere than on Linux nothing is
//! done. If such a write fails, the next sync reports it. A last page that is not full is left.
//!
//! Callers: `vfs::posix` (`advance`, `cut`), `vfs::posix::mapped` (`due`, `begin`, `cut`), `ahead`
//! (`begin`).

use std::{fs::File, mem, ops::Range};

/// Bytes that a file grows by between two beginnings.
const STRIDE_BYTES: u64 = 1 << 20;
/// What may still be appended to is not begun with: it would be written twice.
const PAGE_BYTES: u64 = 4096;

/// How far the system was asked to write a file.
#[derive(Debug, Default)]
pub(super) struct WriteBack {
    begun: u64,
}

impl WriteBack {
    /// Now that the file has `len` bytes, perhaps has the system begin to write what it has not
    /// begun with.
    #[inline]
    pub(super) fn advance(&mut self, file: &File, len: u64) {
        if let Some(due) = self.due(len) {
            begin(file, due);
        }
    }

    /// What is to be begun with now that the file has `len` bytes; it counts as begun. For callers
    /// that have it done elsewhere.
    #[inline]
    pub(super) fn due(&mut self, len: u64) -> Option<Range<u64>> {
        if len < self.begun + STRIDE_BYTES {
            return None;
        }
        let to = len / PAGE_BYTES * PAGE_BYTES;
        Some(mem::replace(&mut self.begun, to)..to)
    }

    /// Now that the file was cut to `len` bytes.
    pub(super) fn cut(&mut self, len: u64) {
        self.begun = self.begun.min(len / PAGE_BYTES * PAGE_BYTES);
    }
}

/// Has the system begin to write that part of the file.
#[cfg(target_os = "linux")]
pub(super) fn begin(file: &File, due: Range<u64>) {
    use std::os::fd::AsRawFd;
    // Behind what can be said to the system lies nothing that it could write either.
    let (Ok(start), Ok(bytes)) = (due.start.try_into(), (due.end - due.start).try_into()) else { return };
    // SAFETY: a call about an open file. A failure to begin is none: the sync will write it.
    unsafe { libc::sync_file_range(file.as_raw_fd(), start, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
fn begin(_: &File, _: Range<u64>) {}
