//! Writing sorted value files, front to back: `ValueWriter` for one file, `SortedValues` for all of
//! one job.
//!
//! `add` takes a value, in the order of the keys, and gives the pointer that its entry then holds.
//! `copy` takes one over from another file in pieces. `finish` writes the footer and syncs.
//! `SortedValues` begins another file at 64 MiB, so that what is reclaimed at once is bounded.
//!
//! What must hold: until a file is finished it has no footer and no pointer leads to it. Its name
//! is durable once the caller has synced the directory. What is dropped before it is finished is
//! removed, if it can be.
//! Callers: `compaction::moves` (values that leave victims), `engine::ingest` (large ingested
//! values).

use super::{Pointer, SORTED, ValueFile, file::FOOTER_BYTES, record};
use crate::{
    canary::{Bug, planted},
    codec::{Binding, put_bytes, put_varint},
    dir::{FileName, magic},
    error::Result,
    ids::{DatabaseId, FileId},
    vfs::{Fs, WriteFile},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Records are collected up to this many bytes, then written by one call.
const WRITE_BYTES: usize = 256 << 10;

/// A sorted value file under construction. Dropped before it is finished, it removes its file.
pub struct ValueWriter {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    file: FileId,
    /// `None` once the file is closed.
    output: Option<Box<dyn WriteFile>>,
    binding: Binding,
    /// Not yet written; its first byte belongs at `written`.
    buffer: Vec<u8>,
    written: u64,
    values: u64,
    value_bytes: u64,
    last_key: Vec<u8>,
}

/// A sorted value file that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenValues {
    /// Its number.
    pub file: FileId,
    /// Length of the file, in bytes.
    pub bytes: u64,
    /// Values in it.
    pub values: u64,
}

impl ValueWriter {
    /// Creates the file, which must not exist.
    pub fn create(fs: &Arc<dyn Fs>, dir: &Path, database: DatabaseId, file: FileId) -> Result<ValueWriter> {
        let path = FileName::Values(file).in_dir(dir);
        let output = fs.create(&path)?;
        let nonce = fs.nonce();
        Ok(ValueWriter {
            fs: fs.clone(),
            path,
            file,
            output: Some(output),
            binding: Binding::of_frames(database, file, nonce),
            buffer: SORTED.header(database, file, nonce).to_vec(),
            written: 0,
            values: 0,
            value_bytes: 0,
            last_key: Vec::new(),
        })
    }

    /// The file's number.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// Length of the file if it were finished now, in bytes.
    pub fn bytes(&self) -> u64 {
        self.written + (self.buffer.len() + FOOTER_BYTES) as u64
    }

    /// Adds a value. Stops if `key` is below the last one: keys do not descend.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Pointer> {
        self.assert_in_order(key);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        put_bytes(&mut self.buffer, key);
        put_varint(&mut self.buffer, value.len() as u64);
        let offset = self.written + self.buffer.len() as u64;
        let sum = record::checksum(self.binding, offset, key, value);
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        self.buffer.extend_from_slice(value);
        self.values += 1;
        self.value_bytes += value.len() as u64;
        if self.buffer.len() >= WRITE_BYTES {
            self.write()?;
        }
        Ok(Pointer { file: self.file, offset, len: value.len() as u32, sorted: true })
    }

    /// Adds the value of `key` that lies where `pointer` leads to in `from`, without taking all of
    /// it into memory. `sum` is its [`ValueFile::value_sum`]. Stops as [`ValueWriter::add`] does.
    pub fn copy(&mut self, key: &[u8], from: &ValueFile, pointer: &Pointer, sum: u32) -> Result<Pointer> {
        self.assert_in_order(key);
        let mut head = Vec::with_capacity(key.len() + 2 * size_of::<u64>());
        put_bytes(&mut head, key);
        put_varint(&mut head, u64::from(pointer.len));
        let offset = self.written + (self.buffer.len() + head.len()) as u64;
        let sum = record::checksum_of_sum(self.binding, offset, key, (sum, pointer.len));
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.buffer.extend_from_slice(&head);
        self.buffer.extend_from_slice(&sum.to_le_bytes());
        from.pieces(pointer, |piece| {
            self.buffer.extend_from_slice(piece);
            if self.buffer.len() >= WRITE_BYTES { self.write() } else { Ok(()) }
        })?;
        self.values += 1;
        self.value_bytes += u64::from(pointer.len);
        Ok(Pointer { file: self.file, offset, len: pointer.len, sorted: true })
    }

    /// Writes the footer and syncs the file; its name is durable once the caller has synced the
    /// directory.
    pub fn finish(mut self) -> Result<WrittenValues> {
        let offset = self.written + self.buffer.len() as u64;
        let mut footer = [0; FOOTER_BYTES];
        footer[..8].copy_from_slice(&self.values.to_le_bytes());
        footer[8..16].copy_from_slice(&self.value_bytes.to_le_bytes());
        let sum = self.binding.checksum(offset, &footer[..16]);
        footer[16..20].copy_from_slice(&sum.to_le_bytes());
        footer[20..].copy_from_slice(&magic::VALUES);
        self.buffer.extend_from_slice(&footer);
        self.write()?;
        if let Some(output) = &mut self.output
            && !planted(Bug::PointerBeforeValue)
        {
            output.sync()?;
        }
        self.output = None;
        Ok(WrittenValues { file: self.file, bytes: self.written, values: self.values })
    }

    fn assert_in_order(&self, key: &[u8]) {
        assert!(
            self.values == 0 || self.last_key[..] <= *key,
            "keys of a value file ascend, and \"{}\" comes after \"{}\"",
            key.escape_ascii(),
            self.last_key.escape_ascii()
        );
    }

    fn write(&mut self) -> Result<()> {
        if let Some(output) = &mut self.output {
            output.append(&self.buffer)?;
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        // A large value is not to keep its memory until the file ends.
        self.buffer.shrink_to(2 * WRITE_BYTES);
        Ok(())
    }
}

/// A sorted value file ends when it has so many bytes, so that what is reclaimed at once is
/// bounded.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Sorted value files, one after the other, for the values of one job. Dropped before they are
/// finished, they are removed.
pub struct SortedValues<'f> {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    database: DatabaseId,
    new_file: &'f dyn Fn() -> FileId,
    open: Option<ValueWriter>,
    written: Vec<WrittenValues>,
}

impl<'f> SortedValues<'f> {
    /// No file yet: the first value makes one. `new_file` gives numbers to them.
    pub fn new(fs: Arc<dyn Fs>, dir: &Path, database: DatabaseId, new_file: &'f dyn Fn() -> FileId) -> Self {
        SortedValues { fs, dir: dir.into(), database, new_file, open: None, written: Vec::new() }
    }

    /// Adds a value. Stops if `key` is below the last one: keys do not descend.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<Pointer> {
        self.with_room()?.add(key, value)
    }

    /// As [`ValueWriter::copy`].
    pub fn copy(&mut self, key: &[u8], from: &ValueFile, pointer: &Pointer, sum: u32) -> Result<Pointer> {
        self.with_room()?.copy(key, from, pointer, sum)
    }

    fn with_room(&mut self) -> Result<&mut ValueWriter> {
        if let Some(full) = self.open.take_if(|open| open.bytes() >= FILE_BYTES_MAX) {
            self.written.push(full.finish()?);
        }
        Ok(match &mut self.open {
            Some(open) => open,
            none => none.insert(ValueWriter::create(&self.fs, &self.dir, self.database, (self.new_file)())?),
        })
    }

    /// Syncs the last file. The names are durable once the caller has synced the directory; the
    /// files are the caller's now.
    pub fn finish(&mut self) -> Result<Vec<WrittenValues>> {
        if let Some(last) = self.open.take() {
            self.written.push(last.finish()?);
        }
        Ok(std::mem::take(&mut self.written))
    }
}

impl Drop for SortedValues<'_> {
    fn drop(&mut self) {
        for file in &self.written {
            // One that cannot be removed now is removed at the next open.
            let _ = self.fs.remove_file(&FileName::Values(file.file).in_dir(&self.dir));
        }
    }
}

impl Drop for ValueWriter {
    fn drop(&mut self) {
        if self.output.take().is_some() {
            // What cannot be removed now is removed by the next open: no manifest names it.
            let _ = self.fs.remove_file(&self.path);
        }
    }
}

impl fmt::Debug for ValueWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueWriter")
            .field("path", &self.path)
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}
