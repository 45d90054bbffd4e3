//! A file that is removed with its last owner if it was marked: `OwnedFile`.
//!
//! `mark_obsolete` says that the file is to go; dropping the `OwnedFile` then removes it, unless
//! `keep` takes that back. `release`
//! removes a marked file at once and tells the error. It is for an owner that must close the file
//! before, in its own `drop`.
//!
//! What must hold: a file that was not marked stays. `release` takes the mark back, also if it
//! fails, so a removal is tried once. What could not be removed is left to the next open of the
//! database.
//!
//! Callers: `TableFile` (`table::file`) and `ValueFile` (`values::file`) own one each; they are
//! shared behind `Arc`s.

use crate::{
    error::Result,
    sync::atomic::{AtomicBool, Ordering},
    vfs::Fs,
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A file and what becomes of it: once it is [marked](OwnedFile::mark_obsolete), it is removed when
/// this is dropped. What shares a file holds this behind an `Arc`, so the file goes with the last
/// reader.
pub struct OwnedFile {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    obsolete: AtomicBool,
}

impl OwnedFile {
    /// The file at `path`, which stays until it is marked. Touches no disk.
    pub fn new(fs: Arc<dyn Fs>, path: PathBuf) -> OwnedFile {
        OwnedFile { fs, path, obsolete: AtomicBool::new(false) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Has the file removed when this is dropped.
    pub fn mark_obsolete(&self) {
        self.obsolete.store(true, Ordering::Release);
    }

    /// Has the file stay after all: its name may be another's by the time this is dropped.
    pub fn keep(&self) {
        self.obsolete.store(false, Ordering::Release);
    }

    /// Whether the file is to be removed.
    pub fn is_obsolete(&self) -> bool {
        self.obsolete.load(Ordering::Acquire)
    }

    /// Removes the file now if it is marked. An owner that has the file open calls this when it is
    /// dropped, after it closed the file.
    ///
    /// # Errors
    /// The file could not be removed. It is left to the next open of the database, which removes
    /// files that no manifest names.
    pub fn release(&mut self) -> Result<()> {
        if !self.obsolete.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.fs.remove_file(&self.path)
    }
}

impl Drop for OwnedFile {
    fn drop(&mut self) {
        // One that cannot be removed now is removed at the next open.
        let _ = self.release();
    }
}

impl fmt::Debug for OwnedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedFile").field("path", &self.path).field("obsolete", &self.obsolete).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{
        fault::{Call, Effect, Fault, FaultFs},
        mem::MemFs,
    };
    use std::io::ErrorKind;

    fn owned(fs: Arc<dyn Fs>, path: &Path) -> Arc<OwnedFile> {
        Arc::new(OwnedFile::new(fs, path.into()))
    }

    #[test]
    fn a_marked_file_goes_with_its_last_owner_and_others_stay() {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/db")).unwrap();
        let [marked, kept] = ["/db/000001.table", "/db/000002.table"].map(|name| {
            fs.create(Path::new(name)).unwrap();
            owned(Arc::new(fs.clone()), Path::new(name))
        });
        let reader = marked.clone();
        marked.mark_obsolete();
        assert!(marked.is_obsolete());
        drop(marked);
        assert!(fs.exists(reader.path()).unwrap(), "a reader has it");
        let path = reader.path().to_path_buf();
        drop(reader);
        assert!(!fs.exists(&path).unwrap());
        let path = kept.path().to_path_buf();
        drop(kept);
        assert!(fs.exists(&path).unwrap());
    }

    #[test]
    fn a_file_that_cannot_be_removed_is_said_once() {
        let memory = MemFs::new();
        memory.create_dir_all(Path::new("/db")).unwrap();
        let path = Path::new("/db/000001.log");
        memory.create(path).unwrap();
        let fs = Arc::new(FaultFs::new(Arc::new(memory.clone())));
        let mut file = OwnedFile::new(fs.clone(), path.into());
        file.mark_obsolete();
        fs.inject(Fault::once(Call::Remove, 0, Effect::Fail(ErrorKind::PermissionDenied)));
        file.release().unwrap_err();
        file.release().unwrap();
        drop(file);
        assert!(memory.exists(path).unwrap());
    }
}
