//! Having the system read a part of a file before a reader waits for it: `begin`.
//!
//! It is `posix_fadvise` on Linux and nothing elsewhere. Reads that were begun together are with
//! the device together. So a walk that needs values from many places waits for a few of them
//! instead of for each.
//!
//! What must hold: it promises nothing and waits for nothing. The reads that follow find what is
//! there by then.
//!
//! Caller: `vfs::posix::handles` (`ReadFile::will_need`), which value files call for `db::scout`.

use std::fs::File;

/// Has the system begin to read that part of the file into its cache.
#[cfg(target_os = "linux")]
pub(super) fn begin(file: &File, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
    // SAFETY: a call about an open file, which changes none of its bytes. A failure to begin is
    // none: the read that follows does it.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_WILLNEED) };
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin(_: &File, _: u64, _: u64) {}
