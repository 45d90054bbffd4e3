//! Files that a command makes for its user, such as reports, pages and traces: where they may lie,
//! and which older ones may be replaced.
//!
//! `write` puts a whole file in its place. `check` and `check_new` say beforehand whether that may
//! be done. The maker tells by an `is_own` of the first bytes whether an older file is its own.
//! `replace` is for the report of `load`, which may lie in its database. `not_in_database` refuses
//! a place in any database. `is_within` and `is_same` compare paths with links followed;
//! `leads_nowhere` is of a link that cannot be.
//!
//! What must hold: no older file is written over unless it is the command's own, and it stays as
//! it was until the new one is whole. Devices and pipes are written to as they are. `write`,
//! `check` and `check_new` refuse a file in the directory of a database; `check_new` also refuses
//! whatever is there already.
//!
//! Callers: `report`, `given` and `target`, and the commands that make files, directories or
//! databases. A report that is resumed is opened by `report`, a trace by the engine.
//! `solera-bench-peers` compiles this file, too.

use crate::{
    failure::{Failure, Result},
    given::beginning,
};
use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
};
use tempfile::NamedTempFile;

/// Whether `dir` has the two files that every database has, or a copy of one.
fn is_database(dir: &Path) -> bool {
    dir.join(CURRENT).is_file()
        && std::fs::read_dir(dir).is_ok_and(|mut files| {
            files.any(|file| file.is_ok_and(|file| file.file_name().as_encoded_bytes().starts_with(MANIFEST)))
        })
}

/// What they are called, and how the name of the second begins.
const CURRENT: &str = "CURRENT";
const MANIFEST: &[u8] = b"MANIFEST-";

/// Fails where [`write`] would: the file there is another program's, or none can be put there.
pub(crate) fn check(path: &Path, noun: &str, is_own: impl FnOnce(&[u8]) -> bool) -> Result<()> {
    not_in_database(path, noun)?;
    check_own(path, noun, is_own)
}

fn check_own(path: &Path, noun: &str, is_own: impl FnOnce(&[u8]) -> bool) -> Result<()> {
    check_name(path, noun)?;
    let failed = |error: std::io::Error| Failure::file("create", path.display(), &error);
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Ok(()),
        Ok(_) if is_own(&beginning(path)?) => {
            // One that may not be written to is not to be replaced either.
            OpenOptions::new().append(true).open(path).map_err(failed)?;
            takes_files(path)
        }
        Ok(_) => Err(Failure::Usage(format!(
            "{} is there already and is not {noun}; name another file, or remove it",
            path.display()
        ))),
        // A link that leads nowhere is there, and nothing can be put behind it.
        Err(error) if std::fs::symlink_metadata(path).is_ok() => Err(failed(error)),
        Err(_) => takes_files(path),
    }
}

/// Fails unless a file can be made beside `path`, links followed.
fn takes_files(path: &Path) -> Result<()> {
    beside(path).map(|_| ())
}

/// A new file in the directory of `path`, which is removed unless it takes the place of `path`.
fn beside(path: &Path) -> Result<NamedTempFile> {
    let failed = |error: std::io::Error| Failure::file("create", path.display(), &error);
    let whole = resolved(path).unwrap_or_else(|| path.to_owned());
    let dir = whole.parent().unwrap_or(&whole);
    // Said in the system's words.
    std::fs::metadata(dir).map_err(failed)?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(NEW);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As any file is made: the process's mask takes from it.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    // Its own name would be told otherwise.
    builder.tempfile_in(dir).map_err(|error| failed(error.kind().into()))
}

/// How files begin that are to take the place of others.
const NEW: &str = ".solera-new-";

/// Fails if `path` cannot be the name of a file to write.
fn check_name(path: &Path, noun: &str) -> Result<()> {
    if path.as_os_str() == "-" {
        return Err(Failure::Usage(format!("- is not a file for {noun}; name one, ./- if it is called so")));
    }
    match path.is_dir() {
        true => Err(Failure::Usage(format!("{} is a directory; name a file for {noun}", path.display()))),
        false => Ok(()),
    }
}

/// Fails if `path`, a place for `noun`, is the directory of a database or lies in one.
pub(crate) fn not_in_database(path: &Path, noun: &str) -> Result<()> {
    let Some(place) = resolved(path) else { return Ok(()) };
    match place.ancestors().find(|dir| is_database(dir)) {
        Some(database) => Err(Failure::Usage(format!(
            "{} is no place for {noun}: {} is the directory of a database",
            path.display(),
            database.display()
        ))),
        None => Ok(()),
    }
}

/// Fails if a database that is made at `dir` would lie in the directory of another.
pub(crate) fn not_in_another_database(dir: &Path) -> Result<()> {
    if is_database(dir) { Ok(()) } else { not_in_database(dir, "a new database") }
}

/// Puts `content` at `path`. An older file there is replaced only if `is_own` says so of its first
/// bytes; `noun` is what such a file is called. Devices and pipes are written to as they are.
pub(crate) fn write(
    path: &Path,
    noun: &str,
    is_own: impl FnOnce(&[u8]) -> bool,
    content: &[u8],
) -> Result<()> {
    not_in_database(path, noun)?;
    replace(path, noun, is_own, content).map(|_| ())
}

/// As [`write`], also in the directory of a database. The file is open for more.
pub(crate) fn replace(
    path: &Path,
    noun: &str,
    is_own: impl FnOnce(&[u8]) -> bool,
    content: &[u8],
) -> Result<File> {
    let failed = |error: std::io::Error| Failure::file("write", path.display(), &error);
    check_own(path, noun, is_own)?;
    let older = std::fs::metadata(path).ok();
    if older.as_ref().is_some_and(|older| !older.is_file()) {
        let mut device = OpenOptions::new().write(true).open(path).map_err(failed)?;
        device.write_all(content).map_err(failed)?;
        return Ok(device);
    }
    // A link goes on leading to the file.
    let path = &resolved(path).unwrap_or_else(|| path.to_owned());
    let mut new = beside(path)?;
    // By the file itself: its other way names the name that it has for now.
    new.as_file_mut().write_all(content).map_err(failed)?;
    if let Some(older) = older {
        new.as_file().set_permissions(older.permissions()).map_err(failed)?;
    }
    // The name may otherwise come to lead to a file whose content a power cut has taken.
    new.as_file().sync_all().map_err(failed)?;
    new.persist(path).map_err(|error| failed(error.error))
}

/// Fails if something is at `path`, which must be new, or if it lies in a database.
pub(crate) fn check_new(path: &Path, noun: &str) -> Result<()> {
    not_in_database(path, noun)?;
    check_name(path, noun)?;
    match std::fs::symlink_metadata(path) {
        Ok(_) => {
            let path = path.display();
            Err(Failure::Usage(format!("{path} is there already; name a new file for {noun}")))
        }
        Err(_) => takes_files(path),
    }
}

/// Whether `path`, of which looking at what it leads to gave `error`, is a link that leads nowhere.
pub(crate) fn leads_nowhere(path: &Path, error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound && std::fs::symlink_metadata(path).is_ok()
}

/// Whether `path` lies in the directory `dir` or below it, links followed.
pub(crate) fn is_within(path: &Path, dir: &Path) -> bool {
    let (Some(path), Ok(dir)) = (resolved(path), dir.canonicalize()) else { return false };
    path.starts_with(dir)
}

/// Whether both paths lead to one file, links followed.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    match (resolved(a), resolved(b)) {
        (Some(a), Some(b)) => a == b || has_one_inode(&a, &b),
        _ => false,
    }
}

/// The path without links. The file itself need not be there, nor the directories above it.
fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(found) = path.canonicalize() {
        return Some(found);
    }
    let whole = std::path::absolute(path).ok()?;
    whole.ancestors().skip(1).find_map(|dir| {
        let rest = whole.strip_prefix(dir).ok()?;
        Some(dir.canonicalize().ok()?.join(rest))
    })
}

#[cfg(unix)]
fn has_one_inode(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let of = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((of(a), of(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(not(unix))]
fn has_one_inode(_: &Path, _: &Path) -> bool {
    false
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the files are the user's, not the database's")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_a_file_of_its_own_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report");
        let own = |beginning: &[u8]| beginning.starts_with(b"own");
        write(&path, "a report", own, b"").unwrap();
        assert!(write(&path, "a report", own, b"x").is_err(), "an empty file may be anybody's");
        fs::write(&path, "own: much").unwrap();
        check(&path, "a report", own).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"own: much", "it is there until the new one is");
        write(&path, "a report", own, b"own: more").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"own: more");
        fs::write(&path, "letters of a friend").unwrap();
        let refused = write(&path, "a report", own, b"own").unwrap_err();
        assert!(matches!(&refused, Failure::Usage(what) if what.contains("not a report")), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"letters of a friend");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_cannot_be_made_is_refused_before_the_work_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("no directory/page");
        let refused = check(&path, "a page", |_| true).unwrap_err().to_string();
        assert!(refused.contains("no directory/page: No such file") && !refused.contains(NEW), "{refused}");
        assert!(matches!(check_new(&path, "a trace"), Err(Failure::Missing(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_replaced_where_a_link_leads_and_keeps_its_mode() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let [file, link, astray] = ["file", "link", "astray"].map(|name| dir.path().join(name));
        fs::write(&file, "own").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        std::os::unix::fs::symlink("nowhere", &astray).unwrap();
        write(&link, "a page", |_| true, b"new").unwrap();
        assert_eq!(
            (fs::read(&file).unwrap(), fs::read_link(&link).unwrap()),
            (b"new".to_vec(), "file".into())
        );
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(check(&astray, "a page", |_| true).is_err(), "nothing can be put behind it");
    }

    /// Symptom: `man --to D`, `bench --publish D`, `bench --trace D`, `bench paper --out D` and
    /// `bench --html D/page` left their files in the directory of a database. Cause: only `load`
    /// looked, and only at its own database. Cure: whatever is made for a user may not lie in any.
    #[test]
    fn nothing_is_put_into_the_directory_of_a_database() {
        let dir = tempfile::tempdir().unwrap();
        let [database, beside] = ["database", "beside"].map(|name| dir.path().join(name));
        fs::create_dir(&database).unwrap();
        let report = database.join("report");
        assert!(not_in_database(&database, "reports").is_ok(), "it is no database yet");
        [CURRENT, "MANIFEST-000002"].iter().for_each(|name| fs::write(database.join(name), "x").unwrap());
        for place in [&database, &report, &database.join("dir"), &database.join("dir/in/it")] {
            assert!(not_in_database(place, "reports").is_err(), "{}", place.display());
            assert!(check_new(place, "a trace").is_err(), "{}", place.display());
            assert_eq!(not_in_another_database(place).is_ok(), place == &database, "{}", place.display());
        }
        assert!(write(&report, "a report", |_| true, b"").is_err() && !report.exists());
        assert!(
            not_in_database(&beside, "reports").is_ok() && not_in_database(dir.path(), "reports").is_ok()
        );
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_hide_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let [file, hard, soft, inner] = ["file", "hard", "soft", "inner"].map(|name| dir.path().join(name));
        fs::write(&file, "x").unwrap();
        fs::hard_link(&file, &hard).unwrap();
        std::os::unix::fs::symlink(&file, &soft).unwrap();
        fs::create_dir(&inner).unwrap();
        assert!(is_same(&file, &hard) && is_same(&soft, &file) && !is_same(&file, &inner.join("file")));
        assert!(is_within(&inner.join("none"), dir.path()) && !is_within(&file, &inner));
    }
}
