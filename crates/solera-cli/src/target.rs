//! Which database and keyspace a command works on, and how it is opened.
//!
//! Commands that only read open the database read-only, so that they work on read-only media and never
//! create anything; commands that change an existing database refuse to create one; only `load` and
//! `put` do.

use crate::failure::{Failure, Result};
use solera::{
    Db, Keyspace, KeyspaceStats, Options,
    vfs::{Fs, posix::PosixFs},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The file system, for commands that look at files without opening the database.
pub(crate) fn operating_system() -> Arc<dyn Fs> {
    Arc::new(PosixFs::new())
}

/// The database that a command works on.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Database {
    /// Directory of the database
    #[arg(long, value_name = "DIR", env = "SOLERA_DIR")]
    pub(crate) dir: PathBuf,
}

impl Database {
    /// Opens an existing database for reading only.
    pub(crate) fn open_to_read(&self) -> Result<Db> {
        self.must_exist()?;
        Ok(Options::new().read_only(true).create_if_missing(false).open(&self.dir)?)
    }

    /// Opens an existing database for writing.
    pub(crate) fn open_to_change(&self) -> Result<Db> {
        self.must_exist()?;
        Ok(Options::new().create_if_missing(false).open(&self.dir)?)
    }

    /// Opens the database with these options, and creates it if there is none.
    pub(crate) fn open_or_create(&self, options: Options) -> Result<Db> {
        if std::fs::metadata(&self.dir).is_ok() {
            self.must_exist()?;
        }
        Ok(options.create_if_missing(true).open(&self.dir)?)
    }

    /// What the keyspaces hold: the one named, or all.
    pub(crate) fn keyspace_stats(&self, only: Option<&str>) -> Result<Vec<KeyspaceStats>> {
        let db = self.open_to_read()?;
        let names = match only {
            Some(name) => vec![name.to_owned()],
            None => db.keyspaces(),
        };
        names.iter().map(|name| Ok(existing_keyspace(&db, &self.dir, name)?.stats())).collect()
    }

    /// A keyspace that must be there.
    pub(crate) fn existing_keyspace(&self, db: &Db, name: &str) -> Result<Keyspace> {
        existing_keyspace(db, &self.dir, name)
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Fails if the directory is not there; the engine says what it thinks of what is in it.
    pub(crate) fn must_exist(&self) -> Result<()> {
        match std::fs::metadata(&self.dir) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(Failure::Error(format!(
                "{} is a file; --dir names the directory of a database",
                self.dir.display()
            ))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::Error(format!(
                "{} does not exist; `solera load` and `solera put` create a database",
                self.dir.display()
            ))),
            Err(error) => Err(Failure::file("look at", self.dir.display(), &error)),
        }
    }
}

/// The keyspace that a command works on.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) database: Database,
    /// Keyspace in the database
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) keyspace: String,
}

impl Place {
    /// Opens an existing keyspace for reading only. The database stays open as long as the handle.
    pub(crate) fn open_to_read(&self) -> Result<(Db, Keyspace)> {
        let db = self.database.open_to_read()?;
        let keyspace = existing_keyspace(&db, self.database.path(), &self.keyspace)?;
        Ok((db, keyspace))
    }

    /// Opens an existing keyspace of an existing database for writing.
    pub(crate) fn open_to_change(&self) -> Result<(Db, Keyspace)> {
        let db = self.database.open_to_change()?;
        let keyspace = existing_keyspace(&db, self.database.path(), &self.keyspace)?;
        Ok((db, keyspace))
    }
}

/// A keyspace that must be there: asking for one must not create it.
fn existing_keyspace(db: &Db, dir: &Path, name: &str) -> Result<Keyspace> {
    let names = db.keyspaces();
    if !names.iter().any(|known| known == name) {
        let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
        return Err(Failure::Error(format!(
            "{} has no keyspace {name:?}; it has {}",
            dir.display(),
            names.join(", ")
        )));
    }
    Ok(db.keyspace(name)?)
}
