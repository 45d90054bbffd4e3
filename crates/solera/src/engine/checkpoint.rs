//! Checkpoints: `Core::checkpoint` makes a second directory that is the database at one moment, by
//! hard links. It takes tables, value files and settings along, and no log to replay.
//!
//! What must hold: everything is flushed at one moment of the commit order, under the claims of all
//! trees and the commit lock. The versions of that moment keep the files while they are linked.
//! `CURRENT` comes last: an unfinished directory is no database.
//!
//! The target is missing or empty, on the same file system, and not inside the database. After a
//! failure what was put there is removed again, as far as that is possible. `CURRENT` goes first,
//! durably: no power cut leaves one whose tables are gone.
//!
//! Caller: `Db::checkpoint`.

use super::{core::Core, files::Files};
use crate::{
    dir::FileName,
    error::{Error, Result},
    ids::FileId,
    version::{Edit, Manifest, Version},
    vfs::Fs,
};
use std::{
    io::ErrorKind,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

impl Core {
    pub(crate) fn checkpoint(&self, to: &Path) -> Result<()> {
        let _caller = self.enter()?;
        let fs = &self.store.files.fs;
        // Another thread may change the current directory meanwhile.
        let to = &fs.absolute(to)?;
        let existed = fs.exists(to)?;
        if existed && !fs.list_dir(to)?.iter().all(|name| FileName::is_of_system(name)) {
            return Err(Error::Invalid(format!(
                "{} is not empty; a checkpoint needs a directory that is missing or empty",
                to.display()
            )));
        }
        if without_parents(to).starts_with(without_parents(&self.store.files.dir)) {
            return Err(Error::Invalid(format!(
                "{} lies in the database's own directory; name another place on the same file system",
                to.display()
            )));
        }
        // Most of the flush happens before writers are held up.
        self.flush_trees(&self.trees())?;
        let (whole, versions) = self.whole_flushed()?;
        self.remove_flushed_logs();
        // The versions keep their files from being removed while they are linked.
        fs.create_dir_all(to)?;
        fill(to, &self.store.files, whole, &versions).inspect_err(|_| {
            // What cannot be removed is in the way of the next try, which says so.
            let _ = take_back(&**fs, to, existed);
        })
    }

    /// The state at one moment of the commit order, all of it in tables, with the versions that
    /// hold the tables.
    fn whole_flushed(&self) -> Result<(Edit, Vec<Arc<Version>>)> {
        let (flusher, poison) = (self.flusher(), &self.store.poison);
        loop {
            let trees = self.trees();
            let claims: Vec<_> = trees.iter().map(|tree| self.work.claim_flush(tree)).collect();
            let mut writer = self.commit.lock();
            if !self.trees().iter().map(|tree| tree.id).eq(trees.iter().map(|tree| tree.id)) {
                // A keyspace came or went before the lock was ours.
                continue;
            }
            for claim in &claims {
                flusher.flush_locked(claim, || writer.sync(|log| self.logs.sync(poison, log)))?;
            }
            self.logs.end_live(self.around_logs(), &mut writer)?;
            let state = self.store.lock();
            let whole = self.store.whole_trees(&state);
            let versions = trees.iter().map(|tree| tree.view().version.clone()).collect();
            return Ok((whole, versions));
        }
    }
}

/// `path`, which is absolute, without `..`, as far as its text says where that leads.
fn without_parents(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
        plain
    })
}

/// A link of `file` that cannot be made: to another file system, said with the remedy; or since the
/// database has lost the file.
fn unlinked(fs: &dyn Fs, file: &Path, to: &Path, error: Error) -> Error {
    match error.io_kind() {
        Some(ErrorKind::NotFound) if matches!(fs.exists(file), Ok(false)) => {
            Error::corrupt(file, 0, "the file is missing; the database needs it")
        }
        Some(ErrorKind::CrossesDevices) => Error::Invalid(format!(
            "{} lies on another file system, where a checkpoint cannot share the database's files; make it on the \
             database's own, and copy it",
            to.display()
        )),
        _ => error,
    }
}

/// Removes what was put into `to`, and `to` unless it `existed`. While `CURRENT` may come back
/// after a power cut, all that it leads to stays.
fn take_back(fs: &dyn Fs, to: &Path, existed: bool) -> Result<()> {
    let current = FileName::Current.in_dir(to);
    if fs.exists(&current)? {
        fs.remove_file(&current)?;
        fs.sync_dir(to)?;
    }
    for name in fs.list_dir(to)?.iter().filter(|name| FileName::parse(name).is_some()) {
        let _ = fs.remove_file(&to.join(name));
    }
    if existed { Ok(()) } else { fs.remove_dir(to) }
}

/// Links the tables of `versions`, and the value files that they point to, into `to` and writes a
/// manifest of `whole` there.
fn fill(to: &Path, files: &Files, whole: Edit, versions: &[Arc<Version>]) -> Result<()> {
    let fs = &files.fs;
    let mut linked = std::collections::BTreeSet::new();
    for table_ref in versions.iter().flat_map(|version| version.tables()) {
        let file = table_ref.id();
        if linked.insert(file) {
            let name = FileName::Table(file);
            let from = files.path(name);
            fs.hard_link(&from, &name.in_dir(to)).map_err(|error| unlinked(&**fs, &from, to, error))?;
        }
    }
    let of_version = |version: &Arc<Version>| version.value_files().to_vec();
    for file in versions.iter().flat_map(of_version) {
        if linked.insert(file.id()) {
            let name = file.path().file_name().unwrap_or_default();
            let from = file.path();
            fs.hard_link(from, &to.join(name)).map_err(|error| unlinked(&**fs, from, to, error))?;
        }
    }
    fs.sync_dir(to)?;
    // The manifest comes last and CURRENT last of all: a crash before leaves no database, not half
    // a one.
    let manifest = FileId(whole.next_file.unwrap_or(0));
    let whole = Edit { next_file: Some(manifest.0 + 1), ..whole };
    Manifest::create(&**fs, to, files.database, manifest, [whole])?;
    match to.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => fs.sync_dir(parent),
        None => Ok(()),
    }
}
