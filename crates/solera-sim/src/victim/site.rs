//! The named points at which a process can be told to die: `Site`, and `SITES`, the list of those
//! that mean something.
//!
//! A site is a call of the file system, on a file of a `Role`, and a `Moment`: before, after, or in
//! the middle. It is written as its words with hyphens between them: `log-sync-before`. `concerns`
//! says whether a call is one of its.
//!
//! What must hold: every point has a name of its own, and reads back from it.
//!
//! Callers: `victim::fatal` waits for one; `program::kill9` chooses one.

use solera::{
    dir::FileName,
    vfs::fault::Call::{self, Append, Create, Link, Read, Remove, Rename, Sync, SyncDir},
};
use std::{fmt, path::Path, str::FromStr};

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The log.
    Log,
    /// A table.
    Table,
    /// A sorted value file.
    Values,
    /// A manifest.
    Manifest,
    /// What names the manifest that counts; its next version before it is renamed, too.
    Current,
    /// A directory.
    Directory,
}

/// When to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The call is not made.
    Before,
    /// Half of the bytes are appended.
    Amid,
    /// The call was made; no thread learns that.
    After,
}

/// A named point. Written as its words with hyphens between them: `log-sync-before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The files concerned.
    pub role: Role,
    /// The calls concerned.
    pub call: Call,
    /// When.
    pub moment: Moment,
    /// How many such calls an open makes, about; 0: none.
    pub in_open: u64,
    /// How many such calls a fraction of a second of work makes, about; 0: none.
    pub at_work: u64,
}

use Moment::{After, Amid, Before};
use Role::{Current, Directory, Log, Manifest, Table, Values};

const fn site(role: Role, call: Call, moment: Moment, in_open: u64, at_work: u64) -> Site {
    Site { role, call, moment, in_open, at_work }
}

/// Every point. What follows an `After` is what the name does not say: after `table-sync` comes the
/// manifest's record, after `manifest-append` its sync, after `current-sync` the renaming.
pub const SITES: [Site; 38] = [
    // A commit, and the log that the next one goes to.
    site(Log, Append, Amid, 3, 300),
    site(Log, Append, After, 3, 300),
    site(Log, Sync, Before, 2, 20),
    site(Log, Sync, After, 2, 20),
    site(Log, Create, Before, 1, 20),
    site(Log, Create, After, 1, 20),
    // A flush, a compaction, a bulk load.
    site(Table, Create, After, 2, 20),
    site(Table, Append, Amid, 4, 100),
    site(Table, Sync, Before, 2, 20),
    site(Table, Sync, After, 2, 20),
    // A conversion: values, then their tables, then the directory and the manifest.
    site(Values, Create, Before, 0, 10),
    site(Values, Create, After, 0, 10),
    site(Values, Append, Amid, 0, 10),
    site(Values, Sync, Before, 0, 10),
    site(Values, Sync, After, 0, 10),
    site(Directory, SyncDir, Before, 4, 40),
    site(Directory, SyncDir, After, 4, 40),
    site(Manifest, Append, Before, 3, 40),
    site(Manifest, Append, Amid, 3, 40),
    site(Manifest, Append, After, 3, 40),
    site(Manifest, Sync, After, 3, 40),
    // A new manifest: at every open, every checkpoint, and whenever the old one has grown too long.
    site(Manifest, Create, After, 1, 6),
    site(Current, Create, After, 1, 6),
    site(Current, Append, Amid, 1, 6),
    site(Current, Sync, After, 1, 6),
    site(Current, Rename, Before, 1, 6),
    site(Current, Rename, After, 1, 6),
    // Files that are not needed any more.
    site(Log, Remove, Before, 2, 10),
    site(Log, Remove, After, 2, 10),
    site(Values, Remove, Before, 0, 10),
    site(Values, Remove, After, 0, 10),
    site(Table, Remove, Before, 2, 20),
    site(Table, Remove, After, 2, 20),
    site(Manifest, Remove, Before, 1, 2),
    site(Manifest, Remove, After, 1, 2),
    // A checkpoint.
    site(Table, Link, Before, 0, 40),
    site(Table, Link, After, 0, 40),
    // Recovery, in the middle of a log.
    site(Log, Read, After, 6, 0),
];

impl Site {
    /// Whether a call of this class on this path is one of the site's.
    pub fn concerns(&self, call: Call, path: &Path) -> bool {
        self.call == call && self.role == role(call, path)
    }
}

fn role(call: Call, path: &Path) -> Role {
    if call == SyncDir {
        return Directory;
    }
    match FileName::of(path) {
        Some(FileName::Log(_)) => Log,
        Some(FileName::Table(_)) => Table,
        Some(FileName::Values(_)) => Values,
        Some(FileName::Manifest(_)) => Manifest,
        Some(FileName::Current | FileName::NextCurrent) => Current,
        Some(_) | None => Directory,
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{:?}-{:?}-{:?}", self.role, self.call, self.moment);
        f.write_str(&name.to_lowercase())
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Site, String> {
        let found = SITES.iter().find(|site| site.to_string() == text);
        found.copied().ok_or_else(|| format!("{text:?} is no named point"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_has_a_name_of_its_own() {
        for site in SITES {
            assert_eq!(site.to_string().parse(), Ok(site));
        }
    }

    #[test]
    fn a_call_belongs_to_the_role_of_its_file() {
        let at = |name: &str| Path::new("dir.log").join(name);
        assert_eq!(role(Append, &at("000007.log")), Log);
        assert_eq!(role(Link, &at("000007.table")), Table);
        assert_eq!(role(Sync, &at("MANIFEST-000007")), Manifest);
        assert_eq!(role(Rename, &at("CURRENT.tmp")), Current);
        assert_eq!(role(SyncDir, Path::new("dir/000007.log")), Directory);
        assert!("log-sync-before".parse::<Site>().unwrap().concerns(Sync, &at("000007.log")));
        assert!(!"log-sync-before".parse::<Site>().unwrap().concerns(Sync, &at("000007.table")));
    }
}
