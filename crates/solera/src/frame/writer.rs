//! Appending frames, syncing them, and what follows when either fails: `FrameWriter`.
//!
//! `append` writes a group of frames, in one call but for large parts. `sync` makes them durable
//! and leaves a mark that proves it. `end` and `settle` (together `finish`) end the file.
//! `withhold` and `vouch` say whether the files before this one are durable.
//!
//! What must hold: an append is whole or taken back, durably. A frame says no more than what is
//! durable, and nothing while files before it are not. After a failed sync, or an append that
//! cannot be taken back, later appends, syncs and ends fail (poison).
//!
//! Callers: `wal::Writer`, `version::manifest`, `trace::recorder`.

use super::{FileKind, FrameHeader, FrameKind, PAYLOAD_BYTES_MAX};
use crate::{
    codec::Binding,
    error::{Error, Result},
    ids::{DatabaseId, FileId},
    vfs::{Fs, WriteFile},
};
use std::path::Path;

/// Parts of a payload above this are written from where they are instead of being copied.
const COPY_BYTES_MAX: usize = 64 << 10;
/// A buffer that grew above this is not kept.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Writes a file of frames.
///
/// A failed append is taken back, and the writer goes on. If it cannot be taken back, or if a sync
/// fails, nothing is known any more of what the file holds: every later call fails with
/// [`Error::Poisoned`].
#[derive(Debug)]
pub struct FrameWriter {
    file: Box<dyn WriteFile>,
    binding: Binding,
    len: u64,
    synced: u64,
    /// Whether what lies in files before this one may not be durable: then no frame says that
    /// anything is.
    unvouched: bool,
    /// Whether there is a record after the last sync.
    dirty: bool,
    buffer: Vec<u8>,
    poison: Option<String>,
}

impl FrameWriter {
    /// Creates the file and syncs its header, so that a file that is longer than its header has a
    /// good one. The name is durable only after a `sync_dir`. After an error there is no file.
    pub fn create(
        fs: &dyn Fs,
        path: &Path,
        kind: &FileKind,
        database: DatabaseId,
        file: FileId,
    ) -> Result<FrameWriter> {
        let nonce = fs.nonce();
        let header = kind.header(database, file, nonce);
        let mut handle = if kind.reserves { fs.create_reserving(path)? } else { fs.create(path)? };
        if let Err(error) = handle.append(&header).and_then(|()| handle.sync()) {
            drop(handle);
            // One that cannot be removed now is removed at the next open.
            let _ = fs.remove_file(path);
            return Err(error);
        }
        Ok(FrameWriter {
            file: handle,
            binding: Binding::of_frames(database, file, nonce),
            len: header.len() as u64,
            synced: header.len() as u64,
            unvouched: false,
            dirty: false,
            buffer: Vec::new(),
            poison: None,
        })
    }

    /// Bytes in the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether nothing but the header was written.
    pub fn is_empty(&self) -> bool {
        self.len == super::FILE_HEADER_BYTES as u64
    }

    /// Bytes at the front of the file that are durable.
    pub fn synced_len(&self) -> u64 {
        self.synced
    }

    /// About so many bytes will be appended before a sync.
    pub fn expect(&mut self, bytes: u64) {
        self.file.expect(bytes);
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// What frames, and what else lies in the file, are bound to.
    pub fn binding(&self) -> Binding {
        self.binding
    }

    /// Appends one frame for each item, all of them or none, in one call of the file system unless
    /// a part is larger than 64 KiB. An item is the parts of its payload.
    pub fn append<'p, F>(&mut self, frames: F) -> Result<()>
    where
        F: IntoIterator,
        F::Item: AsRef<[&'p [u8]]>,
    {
        self.check_alive()?;
        let mut at = self.len;
        let written = frames
            .into_iter()
            .try_for_each(|frame| self.put(FrameKind::Record, frame.as_ref(), &mut at))
            .and_then(|()| self.flush_buffer());
        match written {
            Ok(()) => {
                self.dirty |= at > self.len;
                self.len = at;
                Ok(())
            }
            Err(error) => {
                self.take_back(&error);
                Err(error)
            }
        }
    }

    /// Makes everything appended durable, and leaves a mark that proves it to a reader. Refuses
    /// where the file or a directory above it was removed or renamed.
    pub fn sync(&mut self) -> Result<()> {
        self.check_alive()?;
        if !self.dirty {
            return Ok(());
        }
        self.sync_file()?;
        self.mark();
        Ok(())
    }

    /// Ends the file and makes it durable. Nothing may be appended after it.
    pub fn finish(&mut self) -> Result<()> {
        self.end()?;
        self.settle()
    }

    /// The first half of [`FrameWriter::finish`]: ends the file. If the end cannot be written the
    /// file has none and may go on.
    pub fn end(&mut self) -> Result<()> {
        self.check_alive()?;
        self.put_alone(FrameKind::End).inspect_err(|error| self.take_back(error))
    }

    /// The other half: gives back what is reserved behind the end, and makes the file durable.
    pub fn settle(&mut self) -> Result<()> {
        self.check_alive()?;
        // What cannot be given back is zeros behind the end, which are none.
        let _ = self.file.trim();
        self.sync_file()
    }

    /// What lies in files before this one is not durable yet: until it is, no frame says that
    /// anything in this one is.
    pub fn withhold(&mut self) {
        self.unvouched = true;
    }

    /// What lies in files before this one is durable. Leaves a mark that says so.
    pub fn vouch(&mut self) {
        if self.unvouched && self.poison.is_none() {
            self.unvouched = false;
            self.mark();
        }
    }

    /// Refuses every later call, because of `cause`.
    pub fn poison(&mut self, cause: &Error) {
        self.poison = Some(cause.to_string());
    }

    /// Why every further call will fail, if it will.
    pub fn poisoned(&self) -> Option<&str> {
        self.poison.as_deref()
    }

    /// Says how much is durable. It is so whether that can be said or not: a failure is none of the
    /// caller's.
    fn mark(&mut self) {
        if let Err(error) = self.put_alone(FrameKind::Mark) {
            self.take_back(&error);
        }
    }

    fn check_alive(&self) -> Result<()> {
        match &self.poison {
            Some(why) => Err(Error::Poisoned(why.clone())),
            None => Ok(()),
        }
    }

    fn put_alone(&mut self, kind: FrameKind) -> Result<()> {
        let mut at = self.len;
        self.put(kind, &[], &mut at)?;
        self.flush_buffer()?;
        self.len = at;
        Ok(())
    }

    /// Encodes a frame that will stand at `at`, into the buffer as far as it is small.
    fn put(&mut self, kind: FrameKind, parts: &[&[u8]], at: &mut u64) -> Result<()> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if len > PAYLOAD_BYTES_MAX {
            return Err(Error::TooLarge { what: "record", len, limit: PAYLOAD_BYTES_MAX });
        }
        let checksum = parts.iter().fold(0, |checksum, part| crc32c::crc32c_append(checksum, part));
        let synced = if self.unvouched { 0 } else { self.synced };
        let header = FrameHeader { payload_checksum: checksum, len, kind: kind as u8, synced };
        let header = header.encode(self.binding, *at);
        self.buffer.extend_from_slice(&header);
        for part in parts {
            if part.len() > COPY_BYTES_MAX {
                self.flush_buffer()?;
                self.file.append(part)?;
            } else {
                self.buffer.extend_from_slice(part);
            }
        }
        *at += header.len() as u64 + len;
        Ok(())
    }

    fn flush_buffer(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.file.append(&self.buffer)?;
            self.buffer.clear();
            self.buffer.shrink_to(BUFFER_BYTES_MAX);
        }
        Ok(())
    }

    /// Removes what a failed append may have left after `len`, durably: otherwise a power cut could
    /// bring it back in the place of what is written there next.
    fn take_back(&mut self, cause: &Error) {
        self.buffer.clear();
        let taken = self.file.truncate(self.len).and_then(|()| self.file.sync());
        match taken {
            Ok(()) => {
                self.synced = self.len;
                self.dirty = false;
            }
            Err(error) => self.poison = Some(format!("{cause}, and then {error}")),
        }
    }

    /// Whether the file's path leads to it no more, as far as the system tells.
    pub fn is_gone(&self) -> bool {
        self.file.is_gone()
    }

    /// What reaches the device in a file that its path leads to no more is not durable: the next
    /// open does not find it.
    fn sync_file(&mut self) -> Result<()> {
        let synced = self.file.sync().and_then(|()| match self.is_gone() {
            true => Err(Error::io("find", self.file.path(), std::io::ErrorKind::NotFound.into())),
            false => Ok(()),
        });
        if let Err(error) = synced {
            self.poison(&error);
            return Err(error);
        }
        self.synced = self.len;
        self.dirty = false;
        Ok(())
    }
}
