//! Appending without a system call: `MappedFile`, a file reserved ahead and mapped
//! (docs/decisions/0009).
//!
//! What is copied into a shared mapping is in the system's memory at once, as after `write`. It
//! survives the process, and `sync` makes it survive the machine. The file is reserved before it is
//! mapped, so a full disk is an error of `append` and not a signal. Once the file has grown, or is
//! expected to (`expect`), `ahead` prepares its next windows.
//!
//! What must hold: the window lies within the file; nothing but zeros lies behind the last append.
//! Nothing else cuts the file while it is written; the database's lock sees to that.
//!
//! Caller: `vfs::posix` (`create_reserving`, on Linux), for logs.

use super::{
    ahead::Ahead,
    place::Place,
    uninterrupted,
    window::{self, Window},
    write_back::{self, WriteBack},
};
use crate::{
    error::{Error, Result},
    vfs::WriteFile,
};
use std::{
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file is reserved ahead by as many bytes as it has, but no less than this,
const RESERVED_BYTES_MIN: u64 = 64 << 10;
/// and no more than this.
const RESERVED_BYTES_MAX: u64 = 512 << 10;
/// A file that was not synced for so many bytes has its next window prepared by another thread: a
/// window of a quarter of what is not synced. What is prepared counts as written, so that a sync
/// would write the zeros in it.
const UNSYNCED_BYTES_MIN: u64 = 4 * RESERVED_BYTES_MAX;
/// Of what a file is expected to get, its first window of that kind is one part in so many, no
/// larger than [`RESERVED_BYTES_MAX`].
const EXPECTED_PARTS: u64 = 8;
/// Such a window is no larger than this: what is mapped counts as the process's memory. There may
/// be two of that size, and a third while it is given back.
const WINDOW_BYTES_MAX: u64 = 2 << 20;

/// A file that grows by many small appends.
#[derive(Debug)]
pub(super) struct MappedFile {
    file: Arc<File>,
    path: PathBuf,
    /// Where the next append goes.
    len: u64,
    /// How far the file is reserved, as far as this thread knows: zeros lie between.
    reserved: u64,
    window: Option<Window>,
    /// The thread that prepares the next one, once the file has shown that it grows.
    ahead: Option<Ahead>,
    /// The least that is prepared while the file has not been synced, which is expected to grow; 0
    /// if it is not.
    expected: u64,
    /// Where the file ended when it was synced, or cut, last.
    synced: u64,
    written_back: WriteBack,
}

impl MappedFile {
    /// The empty `file`, open for reading and writing, with a first part reserved and mapped. Gives
    /// it back, perhaps with zeros in it, if its file system cannot reserve or map, or has no
    /// space.
    pub(super) fn new(file: File, path: &Path) -> Result<MappedFile, File> {
        let reserved = RESERVED_BYTES_MIN;
        match window::reserve(&file, 0..reserved).and_then(|()| Window::new(&file, 0..reserved)) {
            Ok(window) => Ok(MappedFile {
                file: Arc::new(file),
                path: path.into(),
                len: 0,
                reserved,
                window: Some(window),
                ahead: None,
                expected: 0,
                synced: 0,
                written_back: WriteBack::default(),
            }),
            Err(_) => Err(file),
        }
    }

    /// Goes on to the next window, with room for at least one byte of `bytes` more.
    fn advance(&mut self, bytes: u64) -> io::Result<()> {
        let filled = self.window.take();
        let due = self.written_back.due(self.len);
        match self.ahead.as_mut().and_then(Ahead::await_window) {
            Some((window, end)) => {
                (self.window, self.reserved) = (Some(window), end);
                self.look_ahead(filled, due);
            }
            None => {
                self.release(filled, due);
                self.reserve(bytes)?;
                let end = self.reserved.min(self.len + WINDOW_BYTES_MAX);
                self.window = Some(Window::new(&self.file, self.len..end)?);
                // Where only what was needed could be had, there is no more. And the next window is
                // asked for from the last one of what is reserved.
                if end == self.reserved && end >= self.len + bytes + RESERVED_BYTES_MIN {
                    self.look_ahead(None, None);
                }
            }
        }
        Ok(())
    }

    /// Reserves room for `bytes` more, at least 1, and where there is space for what will follow.
    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let needed = self.len + bytes;
        if self.reserved < needed {
            let ahead = self.len.clamp(RESERVED_BYTES_MIN, RESERVED_BYTES_MAX);
            let roomy = (needed + ahead).next_multiple_of(RESERVED_BYTES_MIN);
            let reserve = |to| window::reserve(&self.file, self.reserved..to).map(|()| to);
            self.reserved = reserve(roomy).or_else(|_| reserve(needed))?;
        }
        Ok(())
    }

    /// Has another thread release what is filled and prepare the next window, if that is worth it
    /// and can be had.
    fn look_ahead(&mut self, filled: Option<Window>, due: Option<Range<u64>>) {
        let unsynced = self.len - self.synced;
        if unsynced < UNSYNCED_BYTES_MIN && self.expected == 0 {
            return self.release(filled, due);
        }
        if self.ahead.is_none() {
            self.ahead = Ahead::start(Arc::clone(&self.file)).ok();
        }
        let bytes = (unsynced / 4).min(WINDOW_BYTES_MAX).next_multiple_of(RESERVED_BYTES_MIN);
        let bytes = bytes.max(self.expected);
        match &mut self.ahead {
            Some(ahead) => ahead.ask(filled, due, self.reserved..self.reserved + bytes),
            None => self.release(filled, due),
        }
    }

    /// Gives a window back, and begins to write what is due.
    fn release(&self, filled: Option<Window>, due: Option<Range<u64>>) {
        drop(filled);
        if let Some(due) = due {
            write_back::begin(&self.file, due);
        }
    }

    /// Makes the file end at `len`. Windows go first: touching one that lies behind the end is
    /// fatal. (One that is filled may still be on its way to be given back; no thread touches it.)
    fn end_at(&mut self, len: u64) -> io::Result<()> {
        self.window = None;
        drop(self.ahead.as_mut().and_then(Ahead::await_window));
        uninterrupted(|| self.file.set_len(len))?;
        (self.len, self.reserved, self.synced, self.expected) = (len, len, len, 0);
        self.written_back.cut(len);
        Ok(())
    }
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

    fn expect(&mut self, bytes: u64) {
        if bytes < UNSYNCED_BYTES_MIN || self.ahead.is_some() {
            return;
        }
        if let Some(window) = &mut self.window {
            window.populate();
        }
        let first = (bytes / EXPECTED_PARTS).min(RESERVED_BYTES_MAX);
        self.expected = first.next_multiple_of(RESERVED_BYTES_MIN);
        self.look_ahead(None, None);
    }

    fn sync(&mut self) -> Result<()> {
        // A writer that syncs so may do it again: what is prepared would be written for nothing.
        self.expected = 0;
        // What was written through a mapping is among the file's dirty pages: the system notes each
        // page at its first write after it was last written back.
        let synced = uninterrupted(|| self.file.sync_data());
        self.synced = self.len;
        synced.map_err(|error| Error::io("sync", &self.path, error))
    }

    fn is_gone(&self) -> bool {
        self.file.has_left(&self.path)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    fn mapped(path: &Path) -> MappedFile {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        MappedFile::new(file, path).expect("the file system reserves and maps")
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    fn another_thread_prepares_windows_of_a_file_that_grows_unsynced_and_of_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let part = vec![7; 100_000];
        for (name, appends_a_sync, prepared) in [("unsynced", 1000, true), ("synced", 5, false)] {
            let mut file = mapped(&dir.path().join(name));
            for i in 1..=60 {
                file.append(&part).unwrap();
                if i % appends_a_sync == 0 {
                    file.sync().unwrap();
                }
            }
            assert_eq!(file.ahead.is_some(), prepared, "{name}");
            let (len, reserved) = (file.len, std::fs::metadata(&file.path).unwrap().len());
            // On a busy machine 2.6 MiB were seen: the thread that prepares windows was late.
            let most = UNSYNCED_BYTES_MIN + 2 * RESERVED_BYTES_MAX;
            assert!(reserved >= len && reserved - len <= most, "{reserved} for {len}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    #[expect(clippy::disallowed_methods, reason = "sees what the machine has")]
    fn a_file_that_is_expected_to_grow_has_each_window_prepared_from_the_beginning_until_it_is_synced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = mapped(&path);
        file.append(b"header").unwrap();
        file.sync().unwrap();
        file.expect(UNSYNCED_BYTES_MIN - 1);
        assert!(file.ahead.is_none(), "a small one is not worth a thread");
        file.expect(4 << 20);
        let mut content = b"header".to_vec();
        for part in 0..30u8 {
            assert_eq!(file.expected, 512 << 10);
            assert!(file.reserved >= file.len && file.ahead.is_some());
            let bytes = vec![part | 1; 50_001];
            file.append(&bytes).unwrap();
            content.extend(bytes);
        }
        file.sync().unwrap();
        assert_eq!(file.expected, 0, "who syncs once may do it again");
        file.append(&content.clone()).unwrap();
        content.extend(content.clone());
        drop(file);
        assert!(std::fs::read(&path).unwrap() == content);
    }

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    #[expect(clippy::disallowed_methods, reason = "sees what the machine has")]
    fn a_file_that_is_cut_while_its_next_window_is_prepared_ends_where_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let mut file = mapped(&path);
        let mut content = Vec::new();
        for round in 0..24u8 {
            // Ends right behind a new window was begun, so that the one after it is on the way.
            let bytes = (UNSYNCED_BYTES_MIN + 2 * RESERVED_BYTES_MAX) as usize + usize::from(round) * 4099;
            let part: Vec<u8> = (0..bytes).map(|i| round | 1 | (i / 4096) as u8).collect();
            file.append(&part).unwrap();
            content.extend(part);
            content.truncate(content.len() - usize::from(round % 3) * 300_001);
            file.truncate(content.len() as u64).unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().len(), content.len() as u64);
            assert!(std::fs::read(&path).unwrap() == content, "round {round}");
        }
        file.append(&content[..5_000_000]).unwrap();
        content.extend_from_within(..5_000_000);
        drop(file);
        assert!(std::fs::read(&path).unwrap() == content);
    }
}
