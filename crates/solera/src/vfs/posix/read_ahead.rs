//! Having the system read a part of a file before a reader waits for it: `begin`; and having it
//! keep nothing of that: `forget`.
//!
//! It is `posix_fadvise` on Linux and nothing elsewhere. Reads that were begun together are with
//! the device together. So a walk that needs values from many places waits for a few of them
//! instead of for each.
//!
//! What must hold: it promises nothing and waits for nothing. The reads that follow find what is
//! there by then.
//!
//! Caller: `vfs::posix::handles` (`ReadFile::will_need`, `read_needed`), which value files call for
//! `db::scout`.

use std::fs::File;

/// Has the system begin to read that part of the file into its cache.
pub(super) fn begin(file: &File, offset: u64, len: u64) {
    #[cfg(target_os = "linux")]
    advise(file, offset, len, libc::POSIX_FADV_WILLNEED);
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}

/// That part of the file, which was read, need not stay in the system's cache.
pub(super) fn forget(file: &File, offset: u64, len: u64) {
    #[cfg(target_os = "linux")]
    advise(file, offset, len, libc::POSIX_FADV_DONTNEED);
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}

/// Other systems are not asked.
#[cfg(target_os = "linux")]
fn advise(file: &File, offset: u64, len: u64, advice: libc::c_int) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
    // SAFETY: a call about an open file, which changes none of its bytes. A failure is none: reads
    // find what is there.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, advice) };
}
