//! What the system knows of this process and its files: `resident_bytes`, `cpu_seconds`,
//! `written_bytes`, `handed_bytes`, `read_calls`, `directory_bytes`.
//!
//! `files` lists a directory's files; `cache_files` and `uncache_files` bring them into the page
//! cache and put them out; `drop_cached` puts them out while an engine works. `settle_device` waits
//! until the device has all that any process has written so far.
//!
//! What must hold: Linux only. What the system does not tell of the process reads as 0; functions
//! on files return the error. `resident_bytes` first gives freed memory back to the system (glibc).
//!
//! Callers: the phases in `child`; `updates::course`; `engines::surrealkv`, to see whether the
//! process is idle.

use std::path::{Path, PathBuf};

/// Bytes of memory that the process holds: its own, and pages of mapped files.
pub fn resident_bytes() -> u64 {
    // What was freed goes back first, or the allocator's habits would be measured.
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no preconditions.
    unsafe {
        libc::malloc_trim(0);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Processor time of all threads so far, in seconds.
pub fn cpu_seconds() -> f64 {
    // SAFETY: the struct is plain numbers, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Waits until the device has all that any process has written so far: an engine's writes are not
/// to wait for those of the engine before.
pub fn settle_device() {
    // SAFETY: the call has no preconditions.
    unsafe { libc::sync() }
}

/// Bytes that the process had the system send to storage so far: pages made dirty, each counted
/// once until it is written.
pub fn written_bytes() -> u64 {
    of_io("write_bytes:")
}

/// Bytes that the process has handed to calls that write so far.
pub fn handed_bytes() -> u64 {
    of_io("wchar:")
}

/// Calls of the process to read from files so far, and the few that asking this takes.
pub fn read_calls() -> u64 {
    of_io("syscr:")
}

fn of_io(name: &str) -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Every file under a directory, and its length.
pub fn files(directory: &Path) -> std::io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let data = entry.metadata()?;
        if data.is_dir() {
            files.extend(self::files(&entry.path())?);
        } else {
            files.push((entry.path(), data.len()));
        }
    }
    Ok(files)
}

/// Brings all files under a directory into the system's page cache.
pub fn cache_files(directory: &Path) -> std::io::Result<()> {
    files(directory)?.iter().try_for_each(|(path, _)| {
        std::io::copy(&mut std::fs::File::open(path)?, &mut std::io::sink())?;
        Ok(())
    })
}

/// Puts all files under a directory out of the system's page cache. They must be on the device.
pub fn uncache_files(directory: &Path) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    files(directory)?.iter().try_for_each(|(path, _)| {
        let file = std::fs::File::open(path)?;
        // SAFETY: the descriptor is open.
        match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    })
}

/// Bytes that the files under a directory take on disk. What an engine removes meanwhile takes
/// nothing.
pub fn directory_bytes(directory: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let Ok(data) = entry.metadata() else { continue };
        bytes += if data.is_dir() { directory_bytes(&entry.path())? } else { data.blocks() * 512 };
    }
    Ok(bytes)
}

/// Drops what the page cache holds of the files under a directory and is on the device, while an
/// engine works on them.
pub fn drop_cached(directory: &Path) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            drop_cached(&path)?;
        } else if let Ok(file) = std::fs::File::open(&path) {
            // SAFETY: the descriptor is open, and the advice changes no byte of the file.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        }
    }
    Ok(())
}
