//! The value files of a database, found by their numbers: `ValueFiles`, and `Resident`, values kept
//! in memory.
//!
//! `file` leads from a number to the one handle that all share. `read` asks the `Resident` values
//! first, then the file, and has what it read stay in memory. `resident` looks in memory alone;
//! `read_file` does not ask; `read_stored` takes a pointer as an entry stores it. `decode` reads
//! such a pointer.
//! What must hold: the registry keeps no file. Versions and memtables do, and the handle goes with
//! the last of them. A number has at most one handle at a time.
//! Callers: `engine::files` makes one for each database, `inspect` its own. `tree`, `sight`, `db`,
//! `compaction::moves`, `engine::rewrite` and `engine::report` read. Other parts of `engine` ask
//! for handles; `engine::resident` is the `Resident`.

use super::{
    Pointer, SORTED, Stretches, ValueFile,
    file::ReadCounts,
    stretch::{self, Stretch},
};
use crate::{
    dir::FileName,
    error::{Error, Result},
    frame::FileKind,
    ids::{DatabaseId, FileId},
    pin::Slice,
    sync::{ArcSwap, Mutex},
    vfs::Fs,
};
use crossbeam_epoch::Guard;
use std::{
    collections::BTreeMap,
    fmt,
    path::PathBuf,
    sync::{Arc, Weak},
};

/// Values that stay in memory for a while, found by where they lie.
pub trait Resident: Send + Sync {
    /// A key with this hash is looked up, and its value may lie apart: its place may be asked for.
    fn expect(&self, hash: u64);

    /// As [`Resident::expect`], and what lies in that place may be asked for.
    fn expect_value(&self, hash: u64, guard: &Guard);

    /// The value of `key` to which `pointer` leads, if it is in memory.
    fn find(&self, pointer: &Pointer, key: &[u8]) -> Option<Slice>;

    /// Has `read` fill memory with the record of `bytes` to which `pointer` leads, and check it.
    /// Keeps it, and gives its value. `None` if it is too large: then nothing is read.
    fn keep(
        &self,
        pointer: &Pointer,
        key: &[u8],
        bytes: usize,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Option<Result<Slice>>;

    /// Keeps a copy of the value of `key` to which `pointer` leads, if nothing has to go for it.
    fn copy(&self, pointer: &Pointer, key: &[u8], value: &[u8]);

    /// Places for `count` stretches of one file.
    fn stretches(&self, count: usize) -> Box<dyn Stretches>;
}

/// Leads from the number of a value file to its handle.
pub struct ValueFiles {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    database: DatabaseId,
    direct: bool,
    /// How a log begins.
    logs: FileKind,
    resident: Option<Box<dyn Resident>>,
    counts: Arc<ReadCounts>,
    handles: ArcSwap<BTreeMap<FileId, Weak<ValueFile>>>,
    changing: Mutex<()>,
}

impl ValueFiles {
    /// The value files of `database` in `dir`. `direct`: sorted value files are read past the
    /// system's cache. `logs` is how a log begins.
    pub fn new(fs: Arc<dyn Fs>, dir: PathBuf, database: DatabaseId, direct: bool, logs: FileKind) -> Self {
        let handles = ArcSwap::from_pointee(BTreeMap::new());
        ValueFiles {
            fs,
            dir,
            database,
            direct,
            logs,
            resident: None,
            counts: Arc::default(),
            handles,
            changing: Mutex::new(()),
        }
    }

    /// With values that stay in memory.
    pub fn with_resident(mut self, resident: Box<dyn Resident>) -> Self {
        self.resident = Some(resident);
        self
    }

    /// How many reads of values from files there were, and of how many bytes: by lookups, walks and
    /// merges.
    pub fn reads(&self) -> (u64, u64) {
        self.counts.get()
    }

    /// The handle of a file; its owners keep the file.
    pub fn file(&self, id: FileId, sorted: bool) -> Arc<ValueFile> {
        if let Some(file) = self.handles.load().get(&id).and_then(Weak::upgrade) {
            return file;
        }
        let _changing = self.changing.lock();
        let mut handles = BTreeMap::clone(&self.handles.load());
        if let Some(file) = handles.get(&id).and_then(Weak::upgrade) {
            return file;
        }
        let (kind, name) = match sorted {
            true => (SORTED, FileName::Values(id)),
            false => (self.logs, FileName::Log(id)),
        };
        // A log may still be mapped for writing, where direct reads would fight with it.
        let direct = self.direct && sorted;
        let path = name.in_dir(&self.dir);
        let file = Arc::new(ValueFile::new(
            self.fs.clone(),
            path,
            self.database,
            id,
            kind,
            direct,
            self.counts.clone(),
        ));
        handles.retain(|_, handle| handle.strong_count() > 0);
        handles.insert(id, Arc::downgrade(&file));
        self.handles.store(Arc::new(handles));
        file
    }

    /// The handle of a file, if it has an owner.
    pub fn kept(&self, id: FileId) -> Option<Arc<ValueFile>> {
        self.handles.load().get(&id).and_then(Weak::upgrade)
    }

    /// The value that `pointer` leads to, which belongs to `key`. One that was read stays in
    /// memory.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub fn read(&self, pointer: &Pointer, key: &[u8]) -> Result<Slice> {
        let Some(resident) = &self.resident else { return self.read_file(pointer, key) };
        if let Some(value) = resident.find(pointer, key) {
            return Ok(value);
        }
        let file = self.of(pointer);
        if let Some(number) = stretch::number_of(pointer)
            && let Some(pin) = file.stretches().and_then(|stretches| stretches.find(number))
            // SAFETY: `Stretch::pin` gave what is kept there.
            && let Some(value) = unsafe { Stretch::from_pin(pin) }.value(&file, pointer, key)
        {
            // The next lookup finds it by one probe, if nothing has to go for that.
            resident.copy(pointer, key, &value);
            return Ok(value);
        }
        let bytes = file.record_bytes(pointer)?;
        let kept = resident.keep(pointer, key, bytes, &mut |record| file.read_record(pointer, key, record));
        kept.unwrap_or_else(|| file.read(pointer, key))
    }

    /// The stretch of `file` with this number, for a walk, if it is in memory or now comes there.
    pub(super) fn stretch(&self, file: &ValueFile, number: usize) -> Option<Stretch> {
        let make = |count| self.resident.as_ref().map(|resident| resident.stretches(count));
        let stretches = file.stretches_or(make)?;
        if let Some(pin) = stretches.find(number) {
            // SAFETY: `Stretch::pin` gave what is kept there.
            return Some(unsafe { Stretch::from_pin(pin) });
        }
        if !stretches.wants(number, Stretch::weight()) {
            return None;
        }
        let stretch = Stretch::read(file, number)?;
        stretches.keep(number, stretch.pin(), Stretch::weight());
        Some(stretch)
    }

    /// A key with this hash is looked up, and its value may lie apart: where it would be in memory
    /// is asked for.
    #[inline]
    pub fn expect(&self, hash: u64) {
        if let Some(resident) = &self.resident {
            resident.expect(hash);
        }
    }

    /// As [`ValueFiles::expect`], and what is there is asked for.
    #[inline]
    pub fn expect_value(&self, hash: u64, guard: &Guard) {
        if let Some(resident) = &self.resident {
            resident.expect_value(hash, guard);
        }
    }

    /// The value of `key` to which `pointer` leads, if it is in memory. For callers that read many
    /// values once: they would push others out of memory.
    pub fn resident(&self, pointer: &Pointer, key: &[u8]) -> Option<Slice> {
        self.resident.as_ref()?.find(pointer, key)
    }

    /// Whether the value of `key` to which `pointer` leads is in memory, alone or in a stretch.
    pub fn is_in_memory(&self, pointer: &Pointer, key: &[u8]) -> bool {
        let in_stretch = || {
            let number = stretch::number_of(pointer)?;
            self.kept(pointer.file)?.stretches()?.find(number)
        };
        self.resident(pointer, key).is_some() || in_stretch().is_some()
    }

    /// The caller will soon read the value of `key`, to which `pointer` leads. If it lies in a log,
    /// where each value costs a read of its own, the device may begin with it.
    pub fn will_need(&self, pointer: &Pointer, key: &[u8]) {
        if !pointer.sorted
            && self.resident(pointer, key).is_none()
            && let Some(file) = self.kept(pointer.file)
        {
            file.will_need(pointer);
        }
    }

    /// As [`ValueFiles::read`], out of the file, whatever is in memory.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub fn read_file(&self, pointer: &Pointer, key: &[u8]) -> Result<Slice> {
        self.of(pointer).read(pointer, key)
    }

    /// The file that `pointer` leads to.
    fn of(&self, pointer: &Pointer) -> Arc<ValueFile> {
        // It has no owner: a pointer from damaged bytes; or a file that is being counted anew.
        self.kept(pointer.file).unwrap_or_else(|| self.file(pointer.file, pointer.sorted))
    }

    /// As [`ValueFiles::read`], of a pointer as an entry of `key` stores it.
    ///
    /// # Errors
    /// As [`ValueFile::read`]; [`Error::Invalid`] if the bytes are no pointer.
    pub fn read_stored(&self, stored: &[u8], key: &[u8]) -> Result<Slice> {
        self.read(&decode(stored, key)?, key)
    }
}

/// The pointer that an entry of `key` stores.
///
/// # Errors
/// [`Error::Invalid`] if the bytes are none: their block was damaged before it was sealed.
pub fn decode(stored: &[u8], key: &[u8]) -> Result<Pointer> {
    Pointer::decode(stored).map_err(|_| not_a_pointer(key))
}

/// The error for an entry of `key` that should hold a pointer.
pub fn not_a_pointer(key: &[u8]) -> Error {
    Error::Invalid(format!(
        "the entry of the key \"{}\" holds no pointer to its value: its table was damaged before it was sealed",
        key.escape_ascii()
    ))
}

impl fmt::Debug for ValueFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueFiles").field("dir", &self.dir).finish_non_exhaustive()
    }
}
