//! Which database and keyspace a command works on, and how it is opened: `Database` (`--dir`),
//! `Place` (with `--keyspace`), `NewPlace` (with `--create-keyspace`).
//!
//! `open_to_read`, `open_to_change` and `open_or_create` open. `must_exist` says what is wrong with
//! a directory, `damage` tells of damaged files. `operating_system` is for commands that read
//! files of a database and do not open it, such as `check` and `dump`.
//!
//! What must hold: what is opened by `open_to_read` is opened read-only, so it works on read-only
//! media and creates nothing. `open_to_change` refuses to create a database. `load`, `put` and
//! `trace replay` create one, but none in the directory of another. In an existing database `load`
//! and `put` create a keyspace only when told to.
//!
//! Callers: the commands that look at a database or its files, or change one.

use crate::{
    failure::{Failure, Result},
    own::{self, not_in_another_database},
    units,
};
use solera::{
    Db, Keyspace, KeyspaceStats, Options,
    error::Error,
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
        Options::new()
            .read_only(true)
            .create_if_missing(false)
            .open(&self.dir)
            .map_err(|error| self.is_none(error))
    }

    /// Opens an existing database for writing.
    pub(crate) fn open_to_change(&self) -> Result<Db> {
        self.must_exist()?;
        Options::new().create_if_missing(false).open(&self.dir).map_err(|error| self.is_none(error))
    }

    /// Opens the database with these options, and creates it if there is none.
    pub(crate) fn open_or_create(&self, options: Options) -> Result<Db> {
        if std::fs::symlink_metadata(&self.dir).is_ok() {
            self.must_exist()?;
        }
        not_in_another_database(&self.dir)?;
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

    /// What to say when opening failed. A command that makes no database found none: an empty
    /// directory does not help it.
    pub(crate) fn is_none(&self, error: Error) -> Failure {
        let remedy = match self.has_files() {
            true => "name the directory of a database",
            false => "`solera load` and `solera put` create one",
        };
        match error {
            Error::NotADatabase { path, what } => {
                Failure::Missing(format!("{} is not a Solera database: {what}; {remedy}", path.display()))
            }
            other => other.into(),
        }
    }

    /// Whether something lies in the directory.
    fn has_files(&self) -> bool {
        std::fs::read_dir(&self.dir).is_ok_and(|mut entries| entries.next().is_some())
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Fails if the directory is not there; the engine says what it thinks of what is in it.
    pub(crate) fn must_exist(&self) -> Result<()> {
        if self.dir.as_os_str().is_empty() {
            return Err(Failure::Usage("--dir is empty; it names the directory of a database".to_owned()));
        }
        match std::fs::metadata(&self.dir) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(Failure::Missing(format!(
                "{} is a file; --dir names the directory of a database",
                self.dir.display()
            ))),
            Err(error) if own::leads_nowhere(&self.dir, &error) => Err(Failure::Missing(format!(
                "{} is a link that leads nowhere; --dir names the directory of a database",
                self.dir.display()
            ))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Failure::Missing(format!(
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

/// The keyspace of a command that writes, and whether it may make it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct NewPlace {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Make the keyspace if the database does not have it; a new database gets it without being
    /// told
    #[arg(long)]
    create_keyspace: bool,
}

impl NewPlace {
    /// Opens the database with `options`, or makes it. A keyspace that an existing database lacks
    /// is a mistake in its name, unless `--create-keyspace` says otherwise.
    pub(crate) fn open_or_create(&self, options: Options) -> Result<Db> {
        let Place { database, keyspace } = &self.place;
        // Before anything is made for it.
        if keyspace.len() > KEYSPACE_NAME_BYTES_MAX {
            return Err(Failure::Usage(format!(
                "the name of --keyspace has {} bytes; at most {KEYSPACE_NAME_BYTES_MAX} are allowed",
                keyspace.len()
            )));
        }
        let is_new = !database.has_files();
        let db = database.open_or_create(options)?;
        let names = db.keyspaces();
        if is_new || self.create_keyspace || names.contains(keyspace) {
            return Ok(db);
        }
        Err(no_keyspace(database.path(), keyspace, &names).and("--create-keyspace makes one"))
    }
}

/// Longest name that the engine gives a keyspace.
const KEYSPACE_NAME_BYTES_MAX: usize = 255;

/// Tells of the files of `stats` that are damaged or cannot be read, if there are any.
pub(crate) fn damage(stats: &[KeyspaceStats]) -> Option<Failure> {
    let of = |is_io: bool| {
        let all = stats.iter().flat_map(|stats| &stats.damaged);
        let mut found = all.filter(move |found| found.io.is_some() == is_io);
        let first = found.next()?;
        Some((first, units::plural(1 + found.count() as u64, "file")))
    };
    let unread = of(true).map(|(first, count)| {
        format!(
            "not readable: {count}; the first is {}: {}; see to its owner and mode, and to the device",
            first.file.display(),
            first.what
        )
    });
    let Some((first, count)) = of(false) else { return unread.map(Failure::Error) };
    let damaged = Failure::Damage(format!(
        "damaged: {count}; the first is {}, at byte {}: {}; `solera check` shows the extent",
        first.file.display(),
        first.offset,
        first.what
    ));
    Some(match unread {
        Some(unread) => damaged.and(unread),
        None => damaged,
    })
}

/// A keyspace that must be there: asking for one must not create it.
fn existing_keyspace(db: &Db, dir: &Path, name: &str) -> Result<Keyspace> {
    let names = db.keyspaces();
    match names.iter().any(|known| known == name) {
        true => Ok(db.keyspace(name)?),
        false => Err(no_keyspace(dir, name, &names)),
    }
}

fn no_keyspace(dir: &Path, name: &str, names: &[String]) -> Failure {
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    Failure::Missing(format!("{} has no keyspace {name:?}; it has {}", dir.display(), names.join(", ")))
}
