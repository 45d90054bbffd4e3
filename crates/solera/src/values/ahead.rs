//! Reading values ahead of a walk: `ReadAhead`, up to 8 windows on value files, one walk's own.
//!
//! A sorted value file is read in one stretch by a walk in key order. Where a file is reached twice
//! in a row, its window reads 16 KiB, and twice as much each time, up to 256 KiB. Gaps of up to 16
//! KiB are read over. A log is in the order of the writes, so from a log values are read one by one
//! (`ValueFiles::read_once`).
//!
//! What must hold: each value is checked as `ValueFile::read` checks it. What is read ahead stays
//! with the walk: it is never put into `Resident` memory, which only reads from logs ask.
//!
//! Callers: `db::iterator` (scans), `db::keyspace` (`multi_get`), `compaction::moves` (values that
//! move).

use super::{Pointer, ValueFile, ValueFiles, record};
use crate::{error::Result, pin::Slice};
use std::sync::Arc;

/// Windows on so many files at once: a key range is seldom spread over more sorted files.
const WINDOWS: usize = 8;
/// A window that was reached twice in a row begins with so many bytes, and doubles from there.
const WINDOW_BYTES_MIN: usize = 16 << 10;
/// Most bytes of a window.
const WINDOW_BYTES_MAX: usize = 256 << 10;
/// A gap up to this many bytes is read over: it costs less than another read.
const GAP_BYTES_MAX: u64 = 16 << 10;

/// What was read ahead of one file.
#[derive(Debug)]
struct Window {
    file: Arc<ValueFile>,
    bytes: Vec<u8>,
    /// Where in the file `bytes` begin.
    offset: u64,
    /// Where the last record that was asked for ended.
    expected: u64,
    /// Bytes to read the next time.
    next_bytes: usize,
}

/// Windows on value files, for one walk.
#[derive(Debug, Default)]
pub struct ReadAhead {
    /// The one used last comes first.
    windows: Vec<Window>,
}

impl ReadAhead {
    /// The value that `pointer` leads to, which belongs to `key`.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub fn read(&mut self, files: &ValueFiles, pointer: &Pointer, key: &[u8]) -> Result<Slice> {
        if !pointer.sorted {
            return files.read_once(pointer, key);
        }
        let at = self.windows.iter().position(|window| window.file.id() == pointer.file);
        match at {
            Some(at) => self.windows[..=at].rotate_right(1),
            None => {
                self.windows.truncate(WINDOWS - 1);
                let file = files.file(pointer.file, pointer.sorted);
                let window = Window { file, bytes: Vec::new(), offset: 0, expected: 0, next_bytes: 0 };
                self.windows.insert(0, window);
            }
        }
        self.windows[0].read(pointer, key)
    }
}

impl Window {
    fn read(&mut self, pointer: &Pointer, key: &[u8]) -> Result<Slice> {
        let len = record::CHECKSUM_BYTES + pointer.len as usize;
        let follows = pointer.offset.checked_sub(self.expected).is_some_and(|gap| gap <= GAP_BYTES_MAX);
        self.expected = pointer.offset.saturating_add(len as u64);
        if let Some(held) = self.held(pointer.offset, len) {
            return self.file.taken(pointer, key, held);
        }
        self.next_bytes = match follows {
            true => (self.next_bytes * 2).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX),
            false => 0,
        };
        if self.next_bytes <= len {
            return self.file.read(pointer, key);
        }
        self.bytes.resize(self.next_bytes, 0);
        self.offset = pointer.offset;
        let read = self.file.read_ahead(&mut self.bytes, pointer.offset);
        self.bytes.truncate(read.as_ref().map_or(0, |&read| read));
        read?;
        match self.held(pointer.offset, len) {
            Some(held) => self.file.taken(pointer, key, held),
            // The file ends before: the plain read says so.
            None => self.file.read(pointer, key),
        }
    }

    fn held(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }
}
