//! Every file name of a database directory, made and read in one place: `FileName`.
//!
//! It has the numbered kinds (log, table, value file, manifest, probe) and the single ones
//! (CURRENT, LOCK and others). `parse` reads a name, `Display` and `in_dir` write it; `number`
//! gives the number. `is_of_system` knows names that a file system or desktop puts into any
//! directory.
//!
//! What must hold: a name has one spelling, so what `parse` takes is what `Display` prints. Names
//! that it does not take are not Solera's. Traces have no names here, since users place them.
//! Callers: all that create or list files: `wal`, `values`, `table`, `version::manifest`,
//! `control::publish`, `engine`, `compaction::moves`, `db::compound`, `inspect`; `solera-cli`,
//! `solera-sim`, `solera-bench` and `fuzz`.

use crate::ids::FileId;
use std::{
    fmt,
    path::{Path, PathBuf},
};

/// A file of a database directory, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileName {
    /// `CURRENT`: names the manifest that counts.
    Current,
    /// `CURRENT.tmp`: the next `CURRENT`, before it is renamed.
    NextCurrent,
    /// `LOCK`: stands for the lock on the directory.
    Lock,
    /// `MANIFEST-000002`: what the database consists of.
    Manifest(FileId),
    /// `000001.log`: what was written, and values.
    Log(FileId),
    /// `000003.table`: sorted entries.
    Table(FileId),
    /// `000004.values`: values in the order of their keys.
    Values(FileId),
    /// `OBSERVED`: what the database does, for other processes.
    Observed,
    /// `OBSERVED.next`: the next `OBSERVED`, before it is renamed.
    NextObserved,
    /// `TUNED`: why knobs were changed.
    Tuned,
    /// `TUNED.next`: the next `TUNED`, before it is renamed.
    NextTuned,
    /// `TUNED.lock`: stands for the lock of the tuner of the database.
    TunedLock,
    /// `000000.probe`: what a tuner has measured the device with. Whoever opens the database next
    /// removes it.
    Probe(FileId),
}

impl FileName {
    /// The names without a number.
    const SINGLE: [FileName; 8] = [
        FileName::Current,
        FileName::NextCurrent,
        FileName::Lock,
        FileName::Observed,
        FileName::NextObserved,
        FileName::Tuned,
        FileName::NextTuned,
        FileName::TunedLock,
    ];

    /// The file of this name; `None` if it is none of ours, or one of ours in another spelling.
    pub fn parse(name: &str) -> Option<FileName> {
        if let Some(single) = FileName::SINGLE.into_iter().find(|single| single.word() == name) {
            return Some(single);
        }
        let number = |digits: &str| digits.parse().ok().map(FileId);
        let parsed = match name.split_once('.') {
            None => FileName::Manifest(number(name.strip_prefix(MANIFEST)?)?),
            Some((digits, "log")) => FileName::Log(number(digits)?),
            Some((digits, "table")) => FileName::Table(number(digits)?),
            Some((digits, "values")) => FileName::Values(number(digits)?),
            Some((digits, "probe")) => FileName::Probe(number(digits)?),
            Some(_) => return None,
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// Whether a directory may hold something of this name and be empty all the same: what a file
    /// system or a desktop puts there by itself, and what is hidden.
    pub fn is_of_system(name: &str) -> bool {
        const OF_SYSTEM: [&str; 5] =
            ["lost+found", "System Volume Information", "$RECYCLE.BIN", "desktop.ini", "Thumbs.db"];
        name.starts_with('.') || OF_SYSTEM.contains(&name)
    }

    /// The name of the file at `path`, as [`FileName::parse`].
    pub fn of(path: &Path) -> Option<FileName> {
        FileName::parse(path.file_name()?.to_str()?)
    }

    /// The number in the name, if it is one of the database's files.
    pub fn number(self) -> Option<FileId> {
        match self {
            FileName::Manifest(file)
            | FileName::Log(file)
            | FileName::Table(file)
            | FileName::Values(file) => Some(file),
            FileName::Current
            | FileName::NextCurrent
            | FileName::Lock
            | FileName::Observed
            | FileName::NextObserved
            | FileName::Tuned
            | FileName::NextTuned
            | FileName::TunedLock
            | FileName::Probe(_) => None,
        }
    }

    /// The path of the file in the directory `dir`.
    pub fn in_dir(self, dir: &Path) -> PathBuf {
        dir.join(self.to_string())
    }

    /// The part of the name that is not a number.
    fn word(self) -> &'static str {
        match self {
            FileName::Current => "CURRENT",
            FileName::NextCurrent => "CURRENT.tmp",
            FileName::Lock => "LOCK",
            FileName::Manifest(_) => MANIFEST,
            FileName::Log(_) => "log",
            FileName::Table(_) => "table",
            FileName::Values(_) => "values",
            FileName::Observed => "OBSERVED",
            FileName::NextObserved => "OBSERVED.next",
            FileName::Tuned => "TUNED",
            FileName::NextTuned => "TUNED.next",
            FileName::TunedLock => "TUNED.lock",
            FileName::Probe(_) => "probe",
        }
    }
}

/// How the name of a manifest begins.
const MANIFEST: &str = "MANIFEST-";

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FileName::Manifest(file) => write!(f, "{MANIFEST}{:06}", file.0),
            FileName::Log(file) | FileName::Table(file) | FileName::Values(file) | FileName::Probe(file) => {
                write!(f, "{:06}.{}", file.0, self.word())
            }
            FileName::Current
            | FileName::NextCurrent
            | FileName::Lock
            | FileName::Observed
            | FileName::NextObserved
            | FileName::Tuned
            | FileName::NextTuned
            | FileName::TunedLock => f.write_str(self.word()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = FileName> {
        let numbered = (any::<u64>(), 0u32..64, 0usize..5).prop_map(|(number, shift, kind)| {
            let file = FileId(number >> shift);
            [FileName::Manifest, FileName::Log, FileName::Table, FileName::Values, FileName::Probe][kind](
                file,
            )
        });
        prop_oneof![4 => numbered, 1 => prop::sample::select(&FileName::SINGLE[..])]
    }

    proptest! {
        #[test]
        fn names_go_both_ways(name in names()) {
            prop_assert_eq!(FileName::parse(&name.to_string()), Some(name));
            prop_assert_eq!(FileName::of(&name.in_dir(Path::new("/db"))), Some(name));
        }

        #[test]
        fn a_name_is_ours_only_as_we_write_it(name in "[0-9+]{0,7}\\.?(log|table|values|probe|MANIFEST-|CURRENT)?[0-9]{0,7}") {
            if let Some(parsed) = FileName::parse(&name) {
                prop_assert_eq!(parsed.to_string(), name);
            }
        }
    }

    #[test]
    fn other_spellings_are_not_ours() {
        assert_eq!(FileName::Log(FileId(3)).to_string(), "000003.log");
        assert_eq!(FileName::Manifest(FileId(2)).to_string(), "MANIFEST-000002");
        assert_eq!(FileName::parse("12345678.table"), Some(FileName::Table(FileId(12_345_678))));
        for other in [
            "3.log",
            "+00003.log",
            "000003.tables",
            "log",
            "",
            "000003",
            "MANIFEST-2",
            "current",
            "000003.log.1",
        ] {
            assert_eq!(FileName::parse(other), None, "{other:?}");
        }
        assert_eq!(FileName::of(Path::new("/")), None);
    }
}
