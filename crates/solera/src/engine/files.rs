//! The database's place: `Files`, its directory, its number, the numbers of its files, and what its
//! tables share.
//!
//! `new_file` gives a number, `path` a place, `keep_values` makes a version keep the value files
//! that its tables point to. `check_directory` refuses a directory in which `CURRENT` is not found.
//!
//! What must hold: while the database is open, a number is given once. An open passes over numbers
//! that are recorded or that files in the directory have. A file that cannot be removed now is
//! removed at a later open that may write (`open::remove_unreferenced`).
//!
//! Callers: `open` makes it and `store` owns it; these, `job_parts` and `ingest` take numbers from
//! it. Much of `engine`, `db` and `control` ask for places, values or the file system.

use super::resident::CachedValues;
use crate::{
    cache::Cache,
    dir::FileName,
    error::{Error, Result},
    ids::{DatabaseId, FileId},
    memtable::Holdings,
    merge::visible::gaps::Room,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    table::{TableContext, Wanted},
    tree::Settings,
    values::ValueFiles,
    version::Version,
    vfs::Fs,
    wal,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The directory and its files.
pub(crate) struct Files {
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) dir: PathBuf,
    pub(crate) database: DatabaseId,
    pub(super) direct_reads: bool,
    pub(super) cache: Arc<Cache>,
    /// Where values lie that are kept apart from their entries.
    pub(crate) values: Arc<ValueFiles>,
    /// Where the memory of all memtables counts.
    pub(super) holdings: Arc<Holdings>,
    /// Where what walks have learned counts.
    pub(super) gap_room: Arc<Room>,
    /// Tables that readers have begun with.
    pub(super) wanted: Arc<Wanted>,
    /// What the last tree was given: of very many trees nearly all are given the same.
    settings: Mutex<Option<Arc<Settings>>>,
    next: AtomicU64,
}

impl Files {
    /// The files of `database` in `dir`; the next one gets the number `next`.
    pub(super) fn new(
        fs: Arc<dyn Fs>,
        dir: &Path,
        database: DatabaseId,
        direct_reads: bool,
        cache: Arc<Cache>,
        next: u64,
    ) -> Self {
        let values = ValueFiles::new(fs.clone(), dir.to_path_buf(), database, direct_reads, wal::FILE_KIND);
        let values = values.with_resident(Box::new(CachedValues::new(cache.clone())));
        let (values, holdings, next) = (Arc::new(values), Arc::default(), AtomicU64::new(next));
        let (wanted, settings) = (Arc::default(), Mutex::new(None));
        let (dir, gap_room) = (dir.to_path_buf(), Arc::default());
        Files { fs, dir, database, direct_reads, cache, values, holdings, gap_room, wanted, settings, next }
    }

    /// These settings, shared with the tree that was made before if that has the same.
    pub(super) fn shared_settings(&self, settings: Settings) -> Arc<Settings> {
        let mut last = self.settings.lock();
        if let Some(last) = last.as_ref().filter(|last| ***last == settings) {
            return last.clone();
        }
        let settings = Arc::new(settings);
        *last = Some(settings.clone());
        settings
    }

    /// A number that no file has had.
    pub(super) fn new_file(&self) -> FileId {
        FileId(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that the next file gets.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Where the file of this name is.
    pub(super) fn path(&self, name: FileName) -> PathBuf {
        name.in_dir(&self.dir)
    }

    /// Refuses a directory that is not there any more: what is written there reaches no reader.
    pub(super) fn check_directory(&self) -> Result<()> {
        let current = self.path(FileName::Current);
        match self.fs.exists(&current)? {
            true => Ok(()),
            false => Err(Error::io("find", current, std::io::ErrorKind::NotFound.into())),
        }
    }

    /// Removes a file that is of no use. One that cannot be removed now is removed at the next
    /// open.
    pub(super) fn remove(&self, name: FileName) {
        let _ = self.fs.remove_file(&self.path(name));
    }

    /// Has `version`, which is about to be installed, keep the files that its tables point to.
    pub(super) fn keep_values(&self, version: &mut Version) {
        version.keep_value_files(|file, live| self.values.file(file, live.sorted));
    }

    /// What the tables of one keyspace share.
    pub(super) fn table_context(&self) -> Arc<TableContext> {
        Arc::new(TableContext {
            fs: self.fs.clone(),
            dir: self.dir.clone(),
            database: self.database,
            direct_reads: self.direct_reads,
            cache: self.cache.clone(),
            stats: Arc::default(),
            wanted: self.wanted.clone(),
        })
    }
}
