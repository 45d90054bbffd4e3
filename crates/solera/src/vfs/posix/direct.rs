//! Reading past the system's cache (`O_DIRECT`): `alignment`, `open` and `read_at`.
//!
//! Offset, length and memory of such a read are multiples of what the device asks for. Where the
//! caller's are, `read_at` reads straight into the caller's memory. Else it reads an aligned
//! superset into memory that the thread keeps, and copies the part out. A call takes 1 MiB or so at
//! most; a thread keeps 64 KiB at most. A copy of 4 KiB takes 0.1 µs, the device tens.
//!
//! What must hold: a read gives what is there at any offset. It may be short, but gives 0 bytes
//! only at the end of the file. What was written through the system's cache is written to the
//! device first, by the system.
//!
//! Callers: `vfs::posix::handles`, for `Fs::open_direct`. Tables and value files are opened so
//! where `Options::direct_reads` is set; the probe in `solera-tune` tries it. Linux only; elsewhere
//! `Unsupported`.

use super::place::Place;
use std::{cell::Cell, fs::File, io, path::Path};

/// Most bytes that one call reads, so that reading a whole section takes no more memory than this
/// beside it.
const READ_BYTES_MAX: usize = 1 << 20;
/// Memory that a thread keeps for its next read, at most: blocks, but not the read-ahead of
/// compactions.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What offsets, lengths and memory of direct reads of this file must be multiples of, in bytes:
/// the system's own word, else 4096, which suits every device in use.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if the system knows that the file cannot be read so.
#[cfg(target_os = "linux")]
pub(super) fn alignment(path: &Path) -> io::Result<usize> {
    use std::{ffi::CString, mem::MaybeUninit, os::unix::ffi::OsStrExt};
    /// Of file systems that do not tell, before Linux 6.1 all.
    const UNTOLD: usize = 4096;

    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut facts = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the name ends with a zero byte, and the system fills at most one `statx`.
    let asked =
        unsafe { libc::statx(libc::AT_FDCWD, name.as_ptr(), 0, libc::STATX_DIOALIGN, facts.as_mut_ptr()) };
    if asked != 0 {
        return match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::NotFound => Err(error),
            _ => Ok(UNTOLD),
        };
    }
    // SAFETY: plain numbers, of which any bytes are valid: zeros, or what the system filled in.
    let facts = unsafe { facts.assume_init() };
    if facts.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Ok(UNTOLD);
    }
    match facts.stx_dio_offset_align.max(facts.stx_dio_mem_align) as usize {
        _ if facts.stx_dio_offset_align == 0 => Err(io::ErrorKind::Unsupported.into()),
        told if told.is_power_of_two() => Ok(told),
        _ => Ok(UNTOLD),
    }
}

/// Direct reads are Linux's.
#[cfg(not(target_os = "linux"))]
pub(super) fn alignment(_: &Path) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens a file for direct reads.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path) -> io::Result<File> {
    super::place::open_with(path, libc::O_DIRECT)
}

/// Direct reads are Linux's.
#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Reads from a file that was opened for direct reads with this alignment, a power of two, by one
/// call. As [`Place::read_at`]: may read less than there is room for, and 0 bytes only at the end.
pub(super) fn read_at(file: &File, alignment: usize, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let before = (offset % alignment as u64) as usize;
    let is_aligned = before == 0 && buf.as_ptr().addr().is_multiple_of(alignment);
    if is_aligned && !buf.is_empty() && buf.len().is_multiple_of(alignment) {
        let most = buf.len().min(READ_BYTES_MAX.next_multiple_of(alignment));
        return fill_beyond(0, alignment, &mut buf[..most], |to, at| file.read_at(to, offset + at));
    }
    let wanted = (before + buf.len().min(READ_BYTES_MAX)).next_multiple_of(alignment);
    let mut memory = KEPT.try_with(Cell::take).unwrap_or_default();
    if memory.len() < wanted + alignment {
        memory.resize(wanted + alignment, 0);
    }
    let aligned = memory.as_ptr().align_offset(alignment);
    let place = &mut memory[aligned..aligned + wanted];
    let start = offset - before as u64;
    let read = fill_beyond(before, alignment, place, |to, at| file.read_at(to, start + at)).map(|read| {
        let part = &place[before.min(read)..read.min(before + buf.len())];
        buf[..part.len()].copy_from_slice(part);
        part.len()
    });
    if memory.len() <= KEPT_BYTES_MAX {
        // A thread that is ending keeps nothing.
        let _ = KEPT.try_with(|kept| kept.set(memory));
    }
    read
}

/// Fills `place` from its beginning until more than `before` bytes are there, or the file ends;
/// says how many. `read` reads at an aligned distance from where `place` begins. A read that comes
/// to the same end as the one before it has met the file's end; any other that is short goes on,
/// from a multiple of the alignment.
fn fill_beyond(
    before: usize,
    alignment: usize,
    place: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        let from = filled - filled % alignment;
        let end = from + read(&mut place[from..], from as u64)?;
        if end == filled || end > before {
            return Ok(end);
        }
        filled = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: none was seen; Miri makes reads short. A read that was short of the part that had
    /// been asked for gave 0 bytes, as at the end of the file. Cause: one call was trusted to come
    /// so far. Cure: it goes on.
    #[test]
    fn a_short_read_is_not_the_end_of_the_file() {
        let content: Vec<u8> = (0..200u8).collect();
        for (before, most, expected) in
            [(0, 16, 16), (15, 16, 16), (16, 16, 32), (63, 16, 64), (63, 32, 64), (190, 16, 192)]
        {
            let mut place = [0; 256];
            let read = |to: &mut [u8], at: u64| {
                let rest = &content[content.len().min(at as usize)..];
                let len = rest.len().min(to.len()).min(most);
                to[..len].copy_from_slice(&rest[..len]);
                Ok(len)
            };
            assert_eq!(fill_beyond(before, 16, &mut place, read).unwrap(), expected);
            assert_eq!(place[..expected], content[..expected]);
            // Beyond the end there is an end, on a multiple of the alignment or not.
            assert_eq!(fill_beyond(200, 16, &mut place, read).unwrap(), 200);
        }
        assert_eq!(fill_beyond(9, 16, &mut [0; 32], |_, _| Ok(0)).unwrap(), 0);
        assert!(fill_beyond(9, 16, &mut [0; 32], |_, _| Err(io::ErrorKind::Other.into())).is_err());
    }

    #[test]
    fn what_is_aligned_is_read_where_it_is_wanted() {
        let content: Vec<u8> = (0..10_000u32).map(|i| (i / 7) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &content).unwrap();
        for (at, len) in [(0, 512), (512, 4096), (9728, 512), (9728, 4096), (10_240, 512), (0, 12_288)] {
            let mut memory = vec![0xee; len + 512];
            let skipped = memory.as_ptr().align_offset(512);
            let buf = &mut memory[skipped..skipped + len];
            let read = read_at(&file, 512, buf, at as u64).unwrap();
            let expected = &content[at.min(content.len())..(at + len).min(content.len())];
            assert!(read == expected.len() || cfg!(miri) && read < expected.len());
            assert_eq!(buf[..read], expected[..read], "{len} at {at}");
        }
    }

    #[test]
    fn the_part_that_was_asked_for_comes_out_of_the_aligned_whole() {
        let content: Vec<u8> = (0..10_000u32).map(|i| (i / 7) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &content).unwrap();
        // Aligned reads need no special file.
        for alignment in [1, 8, 512, 4096, 65_536].into_iter().take(if cfg!(miri) { 2 } else { 5 }) {
            for at in [0, 1, 511, 512, 4095, 4096, 8000, 9990, 9999, 10_000, 10_001, 70_000] {
                for len in [0, 1, 2, 511, 512, 4096, 5000, 20_000] {
                    let mut buf = vec![0xee; len];
                    let read = read_at(&file, alignment, &mut buf, at as u64).unwrap();
                    let expected = &content[at.min(content.len())..(at + len).min(content.len())];
                    // A read may be short; of a file on a disk it is not, but Miri makes some so.
                    assert!(read == expected.len() || cfg!(miri) && read < expected.len());
                    assert_eq!(buf[..read], expected[..read], "{len} at {at}, aligned to {alignment}");
                    assert!(buf[read..].iter().all(|&byte| byte == 0xee));
                }
            }
        }
    }
}
