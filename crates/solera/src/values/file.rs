//! A file that holds values, open or not: `ValueFile`; and sorted value files as bytes (`SORTED`,
//! `check_sorted`).
//!
//! `read` makes one read of exactly the record that a pointer leads to, and checks it. `pieces` and
//! `value_sum` go through a large value in pieces of 256 KiB. `mark_obsolete` has the file removed
//! when its last owner drops it. `check_sorted` reads a whole sorted file: every record, the order
//! of the keys, the footer.
//! What must hold: the first read opens the file and checks whose it is. `read` hands out no value
//! whose checksum does not fit file, offset and key; `pieces` are unchecked. Memory above 1 MiB is
//! taken only for a record that the file has room for.
//! Callers: `ValueFiles` makes handles; versions and memtables own them; `ahead`, `stretch` and
//! `writer` read through them; `engine` keeps, marks and measures them; `inspect` checks.

use super::{Pointer, Stretches, record, stretch};
use crate::{
    codec::{Binding, Decoder},
    dir::{OwnedFile, magic},
    error::{Error, Result},
    frame::{FILE_HEADER_BYTES, FileKind},
    ids::{DatabaseId, FileId},
    key::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    pin::Slice,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    vfs::{Fs, ReadFile, read_all, read_exact_at},
};
use std::{
    fmt,
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// How a sorted value file begins.
///
/// ```text
/// file   = header entry* footer
/// entry  = key:bytes len:varint record                    record as in `record`
/// footer = values:u64 value_bytes:u64 checksum:u32 magic[8]      the checksum is bound to the footer's offset
/// ```
pub const SORTED: FileKind =
    FileKind { magic: magic::VALUES, version: 1, noun: "value file", reserves: false };
/// Bytes of its footer.
pub(super) const FOOTER_BYTES: usize = 28;
/// A record above this is compared with the file's length before memory is taken for it.
const UNCHECKED_BYTES_MAX: u64 = 1 << 20;
/// Reads past the system's cache that begin and end at multiples of this need no copy on nearly all
/// devices.
const SECTOR_BYTES: usize = 4096;
/// What is copied from file to file goes through so much memory.
const PIECE_BYTES: usize = 256 << 10;

/// What is known of a file once it is open.
#[derive(Debug)]
struct Opened {
    file: Arc<dyn ReadFile>,
    binding: Binding,
    /// Its length then, in bytes: a sorted value file keeps it.
    len: u64,
}

/// Reads of values from the files of a database, by whom ever.
#[derive(Debug, Default)]
pub(super) struct ReadCounts {
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl ReadCounts {
    fn count(&self, bytes: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// How many there were, and of how many bytes.
    pub(super) fn get(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// A file that holds values. Opened by the first read. It is removed with its last owner, if it was
/// marked.
pub struct ValueFile {
    fs: Arc<dyn Fs>,
    owned: OwnedFile,
    database: DatabaseId,
    id: FileId,
    kind: FileKind,
    direct: bool,
    counts: Arc<ReadCounts>,
    opened: OnceLock<Opened>,
    opening: Mutex<()>,
    /// Of a sorted file, bytes that its values take, once a worker has asked: it never changes.
    space: OnceLock<u64>,
    /// Where its stretches lie that stay in memory, once a walk has come here; none if they do not.
    stretches: OnceLock<Option<Box<dyn Stretches>>>,
}

impl ValueFile {
    /// The file at `path`. Touches no disk.
    pub(super) fn new(
        fs: Arc<dyn Fs>,
        path: PathBuf,
        database: DatabaseId,
        id: FileId,
        kind: FileKind,
        direct: bool,
        counts: Arc<ReadCounts>,
    ) -> ValueFile {
        ValueFile {
            owned: OwnedFile::new(fs.clone(), path),
            fs,
            database,
            id,
            kind,
            direct,
            counts,
            opened: OnceLock::new(),
            opening: Mutex::new(()),
            space: OnceLock::new(),
            stretches: OnceLock::new(),
        }
    }

    /// The file's number.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.owned.path()
    }

    /// Has the file removed when its last owner drops it. A file that cannot be removed then is
    /// removed at the next open.
    pub fn mark_obsolete(&self) {
        self.owned.mark_obsolete();
    }

    /// Has the file stay after all.
    pub fn keep(&self) {
        self.owned.keep();
    }

    #[inline]
    fn opened(&self) -> Result<&Opened> {
        match self.opened.get() {
            Some(opened) => Ok(opened),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Opened> {
        let _one_at_a_time = self.opening.lock();
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let open = |path: &Path| if self.direct { self.fs.open_direct(path) } else { self.fs.open(path) };
        let file = open(self.path()).map_err(|error| match error.io_kind() {
            Some(ErrorKind::NotFound) => Error::corrupt(
                self.path(),
                0,
                format!("the {} is missing; entries point to it", self.kind.noun),
            ),
            _ => error,
        })?;
        let mut header = [0; FILE_HEADER_BYTES];
        read_exact_at(&*file, &mut header, 0)?;
        let binding = self.kind.check(self.path(), &header, self.database, self.id)?;
        let len = file.len()?;
        Ok(self.opened.get_or_init(|| Opened { file, binding, len }))
    }

    /// Length of the file, in bytes.
    pub fn file_bytes(&self) -> Result<u64> {
        self.opened()?.file.len()
    }

    /// Bytes that the file takes, in which it is no better than another one with the same values:
    /// of a sorted value file those of its values, of a log its length.
    pub fn space(&self) -> Result<u64> {
        if let Some(space) = self.space.get() {
            return Ok(*space);
        }
        let opened = self.opened()?;
        let len = opened.file.len()?;
        if self.kind.magic != SORTED.magic {
            return Ok(len);
        }
        let Some(at) = len.checked_sub(FOOTER_BYTES as u64) else {
            return Err(Error::corrupt(self.path(), len, "the file ends before its footer"));
        };
        let mut footer = [0; FOOTER_BYTES];
        read_exact_at(&*opened.file, &mut footer, at)?;
        let (_, space) = read_footer(self.path(), opened.binding, at, &footer)?;
        Ok(*self.space.get_or_init(|| space))
    }

    /// What [`ValueFile::space`] says, if that is known without opening or reading the file.
    pub fn known_space(&self) -> Option<u64> {
        let is_log = self.kind.magic != SORTED.magic;
        let of_log = || self.opened.get().filter(|_| is_log)?.file.len().ok();
        self.space.get().copied().or_else(of_log)
    }

    /// The value that `pointer` leads to, which belongs to `key`: one read of exactly its record.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with file and offset if the file is missing, is another one, ends before,
    /// or holds no value of `key` there; [`Error::Io`].
    pub fn read(&self, pointer: &Pointer, key: &[u8]) -> Result<Slice> {
        let mut bytes = vec![0; self.record_bytes(pointer)?];
        self.read_record(pointer, key, &mut bytes)?;
        Ok(Slice::from(bytes).after(record::CHECKSUM_BYTES))
    }

    /// Reads the record that `pointer` leads to, which belongs to `key`, and checks it. It has
    /// [`ValueFile::record_bytes`].
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub(super) fn read_record(&self, pointer: &Pointer, key: &[u8], record: &mut [u8]) -> Result<()> {
        let opened = self.opened()?;
        self.counts.count(record.len());
        read_exact_at(&*opened.file, record, pointer.offset)?;
        self.verify(opened, pointer, key, record)
    }

    /// Shows `each` the value that `pointer` leads to, in pieces and unchecked.
    pub(super) fn pieces(&self, pointer: &Pointer, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let opened = self.opened()?;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, mut left) = (pointer.offset + record::CHECKSUM_BYTES as u64, u64::from(pointer.len));
        while left > 0 {
            let bytes = left.min(PIECE_BYTES as u64) as usize;
            self.counts.count(bytes);
            read_exact_at(&*opened.file, &mut piece[..bytes], at)?;
            each(&piece[..bytes])?;
            (at, left) = (at + bytes as u64, left - bytes as u64);
        }
        Ok(())
    }

    /// Reads the value that `pointer` leads to, which belongs to `key`, in pieces, and checks it.
    /// Returns the CRC-32C of the value alone.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub fn value_sum(&self, pointer: &Pointer, key: &[u8]) -> Result<u32> {
        let opened = self.opened()?;
        let mut stored = [0; record::CHECKSUM_BYTES];
        read_exact_at(&*opened.file, &mut stored, pointer.offset)?;
        let mut sum = 0;
        self.pieces(pointer, |piece| {
            sum = crc32c::crc32c_append(sum, piece);
            Ok(())
        })?;
        let here = record::checksum_of_sum(opened.binding, pointer.offset, key, (sum, pointer.len));
        if here.to_le_bytes() == stored { Ok(sum) } else { Err(self.wrong_sum(pointer, key)) }
    }

    /// How many bytes the record has that `pointer` leads to. Many only if the file has room for
    /// it.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub(super) fn record_bytes(&self, pointer: &Pointer) -> Result<usize> {
        let len = record::CHECKSUM_BYTES as u64 + u64::from(pointer.len);
        if len > UNCHECKED_BYTES_MAX {
            let file = self.opened()?.file.len()?;
            if pointer.offset.checked_add(len).is_none_or(|end| end > file) {
                let what = format!("an entry points to {pointer}, and the file has {file} bytes");
                return Err(Error::corrupt(self.path(), pointer.offset, what));
            }
        }
        Ok(len as usize)
    }

    fn verify(&self, opened: &Opened, pointer: &Pointer, key: &[u8], bytes: &[u8]) -> Result<()> {
        if record::verified(opened.binding, pointer.offset, key, bytes).is_some() {
            return Ok(());
        }
        Err(self.wrong_sum(pointer, key))
    }

    fn wrong_sum(&self, pointer: &Pointer, key: &[u8]) -> Error {
        let what = format!(
            "a value fails its checksum: {} bytes of the key \"{}\"",
            pointer.len,
            key.escape_ascii()
        );
        Error::corrupt(self.path(), pointer.offset, what)
    }

    /// The caller will soon read what `pointer` leads to.
    pub(super) fn will_need(&self, pointer: &Pointer) {
        if let Ok(Opened { file, .. }) = self.opened() {
            file.will_need(pointer.offset, record::CHECKSUM_BYTES as u64 + u64::from(pointer.len));
        }
    }

    /// The caller will soon read that part, by a read that `is_needed`.
    pub(super) fn will_need_part(&self, part: &Range<u64>) {
        if let Ok(Opened { file, .. }) = self.opened() {
            file.will_need(part.start, part.end - part.start);
        }
    }

    /// Reads `bytes` from `offset` on, as far as the sorted file goes; says how many. Its end is
    /// known: to meet it would take two more reads, past the system's cache. `is_needed`: of what
    /// [`ValueFile::will_need_part`] was told.
    pub(super) fn read_ahead(&self, bytes: &mut [u8], offset: u64, is_needed: bool) -> Result<usize> {
        let Opened { file, len, .. } = self.opened()?;
        let left = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX);
        // Behind the end, but no further than whole sectors of it.
        let reached = left.checked_next_multiple_of(self.alignment()).unwrap_or(left);
        let most = bytes.len().min(reached);
        let (bytes, most) = (&mut bytes[..most], most.min(left));
        self.counts.count(bytes.len());
        let mut done = 0;
        while done < most {
            let (rest, at) = (&mut bytes[done..], offset + done as u64);
            match if is_needed { file.read_needed(rest, at) } else { file.read_at(rest, at) }? {
                0 => break,
                read => done += read,
            }
        }
        Ok(done)
    }

    /// Checks `bytes`, the record that `pointer` leads to.
    pub(super) fn check(&self, pointer: &Pointer, key: &[u8], bytes: &[u8]) -> Result<()> {
        self.verify(self.opened()?, pointer, key, bytes)
    }

    /// Where the stretches of the file lie that stay in memory, if a walk has come here.
    #[inline]
    pub(super) fn stretches(&self) -> Option<&dyn Stretches> {
        self.stretches.get()?.as_deref()
    }

    /// As [`ValueFile::stretches`]; `make` makes room for so many if there is none.
    pub(super) fn stretches_or(
        &self,
        make: impl FnOnce(usize) -> Option<Box<dyn Stretches>>,
    ) -> Option<&dyn Stretches> {
        if self.stretches.get().is_none() {
            // Before the cell, in which no thread may wait for another.
            let made = make(stretch::count(self.file_bytes().ok()?));
            let _ = self.stretches.set(made);
        }
        self.stretches()
    }

    /// What the beginning and the memory of a long read had better be multiples of, in bytes.
    pub(super) fn alignment(&self) -> usize {
        if self.direct { SECTOR_BYTES } else { 1 }
    }
}

impl Drop for ValueFile {
    fn drop(&mut self) {
        if self.owned.is_obsolete() {
            // The open file first. One that cannot be removed now is removed at the next open.
            self.opened.take();
            let _ = self.owned.release();
        }
    }
}

impl fmt::Debug for ValueFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueFile").field("owned", &self.owned).finish()
    }
}

/// Reads a whole sorted value file and checks every record, the order of the keys, and the footer.
/// Hands each key with its pointer and value to `each`; returns how many there are.
///
/// # Errors
/// [`Error::Corrupt`] where the file is not what was written.
pub fn check_sorted(
    fs: &dyn Fs,
    path: &Path,
    database: Option<DatabaseId>,
    id: FileId,
    mut each: impl FnMut(&[u8], Pointer, &[u8]),
) -> Result<u64> {
    let bytes = read_all(&*fs.open(path)?)?;
    let found = SORTED.identify(path, &bytes)?;
    let binding = SORTED.check(path, &bytes, database.unwrap_or(found.database), id)?;
    let Some(end) = bytes.len().checked_sub(FOOTER_BYTES).filter(|&end| end >= FILE_HEADER_BYTES) else {
        return Err(Error::corrupt(path, bytes.len() as u64, "the file ends before its footer"));
    };
    let (values, value_bytes) = read_footer(path, binding, end as u64, &bytes[end..])?;
    let (mut at, mut counted, mut counted_bytes) = (FILE_HEADER_BYTES, 0, 0);
    let mut last: Option<&[u8]> = None;
    while at < end {
        let mut decoder = Decoder::new(&bytes[at..end]);
        let damaged = |error: crate::codec::DecodeError| error.in_file(path, at as u64);
        let key = decoder.bytes("a key").map_err(damaged)?;
        let len = decoder.varint_up_to(VALUE_BYTES_MAX, "the length of a value").map_err(damaged)?;
        let offset = (at + decoder.position()) as u64;
        let record = decoder.take(record::CHECKSUM_BYTES + len as usize, "a value").map_err(damaged)?;
        let Some(value) = record::verified(binding, offset, key, record) else {
            return Err(Error::corrupt(path, offset, "a value fails its checksum"));
        };
        if key.len() > KEY_BYTES_MAX || last.is_some_and(|last| last > key) {
            return Err(Error::corrupt(path, at as u64, "the keys of a value file are not in order"));
        }
        each(key, Pointer { file: id, offset, len: len as u32, sorted: true }, value);
        (counted, counted_bytes, last) = (counted + 1, counted_bytes + len, Some(key));
        at += decoder.position();
    }
    if (counted, counted_bytes) != (values, value_bytes) {
        let what = format!(
            "the footer counts {values} values of {value_bytes} bytes, the file holds {counted} of {counted_bytes}"
        );
        return Err(Error::corrupt(path, end as u64, what));
    }
    Ok(counted)
}

/// The counts in a footer.
fn read_footer(path: &Path, binding: Binding, offset: u64, bytes: &[u8]) -> Result<(u64, u64)> {
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    if bytes[20..] != magic::VALUES || binding.checksum(offset, &bytes[..16]).to_le_bytes() != bytes[16..20] {
        return Err(Error::corrupt(path, offset, "the footer of the value file fails its checksum"));
    }
    Ok((number(0), number(8)))
}
