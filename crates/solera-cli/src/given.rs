//! What a user gives a command to read or to work in: files (`unless_another`, `beginning`),
//! directories (`directory`, `make_directory`), and ranges (`must_hold_keys`).
//!
//! `unless_another` tells damage from a file of another kind, by its first bytes (`beginning`).
//!
//! What must hold: a name that leads to something of another kind is a mistake on the command line,
//! not damage. Only what begins as it should can be damaged.
//!
//! Callers: `trace`, `tune`, `control watch` and `cost`, which read a file other than a database's;
//! `bench` and what is below it, which make files of their own; `del` and `compact`, which change a
//! range of keys; `report` and `own`. `solera-bench-peers` compiles this file, too.

use crate::{
    failure::{Failure, Result},
    own::not_in_database,
};
use std::{cmp::Ordering, io::Read, path::Path};

/// So many first bytes of a file are looked at.
const LOOKED_AT_BYTES: u64 = 64 << 10;

/// The first bytes of the file at `path`.
#[expect(clippy::disallowed_methods, reason = "the file is the user's, not the database's")]
pub(crate) fn beginning(path: &Path) -> Result<Vec<u8>> {
    let mut beginning = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LOOKED_AT_BYTES).read_to_end(&mut beginning))
        .map_err(|error| Failure::file("read", path.display(), &error))?;
    Ok(beginning)
}

/// What a failure to read `path` as `noun` is: `failure`, unless the file is none; `begins` says of
/// its first bytes whether it is one.
pub(crate) fn unless_another(
    failure: Failure,
    path: &Path,
    noun: &str,
    begins: impl FnOnce(&[u8]) -> bool,
) -> Failure {
    match beginning(path) {
        Ok(beginning) if begins(&beginning) => failure,
        Ok(_) => Failure::Usage(format!("{} is not {noun}; name one", path.display())),
        Err(failure) => failure,
    }
}

/// Fails unless `path`, the value of `flag`, is a directory.
pub(crate) fn directory(path: &Path, flag: &str) -> Result<()> {
    let failed = |error| Failure::file("look at", path.display(), &error);
    match std::fs::metadata(path).map_err(failed)?.is_dir() {
        true => Ok(()),
        false => Err(is_file(path, flag)),
    }
}

/// Makes the directory `path`, the value of `flag`, for files that a command makes, unless it is
/// there. It may not lie in a database's.
pub(crate) fn make_directory(path: &Path, flag: &str) -> Result<()> {
    not_in_database(path, &format!("what {flag} makes"))?;
    if std::fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
        return Err(is_file(path, flag));
    }
    std::fs::create_dir_all(path).map_err(|error| Failure::file("create", path.display(), &error))
}

/// Fails if no key is from `start` on and before `end`.
pub(crate) fn must_hold_keys(start: &[u8], end: Option<&[u8]>) -> Result<()> {
    match end.map(|end| end.cmp(start)) {
        Some(Ordering::Less) => {
            Err(Failure::Usage("--to is before --from; the range would be empty".to_owned()))
        }
        Some(Ordering::Equal) => Err(Failure::Usage(
            "the range would be empty: --to is the first key that is not in it, and it begins there"
                .to_owned(),
        )),
        Some(Ordering::Greater) | None => Ok(()),
    }
}

fn is_file(path: &Path, flag: &str) -> Failure {
    Failure::Usage(format!("{} is a file; {flag} names a directory", path.display()))
}
