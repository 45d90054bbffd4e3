//! The record of every edit, which is what the disk knows of the database: `Manifest`, and the file
//! CURRENT.
//!
//! A manifest is a file of frames, each an `Edit`; the first ones say everything from scratch
//! (docs/FORMAT.md, "5. CURRENT and manifest"). CURRENT names the manifest that counts and how much
//! of it was durable then. `create` and `rotate` replace it by renaming; `append` adds a durable
//! edit; `load` reads.
//! What must hold: CURRENT never names a manifest that is not durable up to that length. So damage
//! before it is never a torn end. Only the handle that created a manifest appends. A failed sync,
//! or a rotation that may or may not count, poisons it.
//! Callers: `engine::open` loads, `engine::store` creates, appends and rotates,
//! `engine::checkpoint` creates, `inspect` and `fuzz` read.

use super::edit::{Edit, FORMAT_VERSION};
use crate::{
    dir::{
        FileName,
        magic::{self, MAGIC_BYTES},
    },
    error::{Error, Result},
    frame::{Cut, FILE_HEADER_BYTES, FileKind, FrameWriter, Identity, walk},
    ids::{DatabaseId, FileId},
    vfs::{Fs, read_all, read_exact_at},
    wal,
};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// How a manifest begins.
pub const FILE_KIND: FileKind =
    FileKind { magic: magic::MANIFEST, version: FORMAT_VERSION, noun: "manifest", reserves: false };
/// Writes the manifest that counts.
#[derive(Debug)]
pub struct Manifest {
    frames: FrameWriter,
    database: DatabaseId,
    file: FileId,
}

/// What [`Manifest::load`] found.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The database.
    pub database: DatabaseId,
    /// The manifest that counts.
    pub file: FileId,
    /// Its edits, oldest first.
    pub edits: Vec<Edit>,
    /// Bytes of it that count.
    pub bytes: u64,
    /// What a crash left torn after them, if anything.
    pub cut: Option<Cut>,
}

impl Manifest {
    /// Whether `dir` holds a database. No if it is missing, empty, or holds no more than the
    /// remains of an interrupted creation. Files of another program are [`Error::NotADatabase`], a
    /// database without its CURRENT is [`Error::Corrupt`]. What is hidden, or the system's own
    /// (`lost+found`), does not count.
    pub fn exists(fs: &dyn Fs, dir: &Path) -> Result<bool> {
        if !fs.exists(dir)? {
            return Ok(false);
        }
        let names = fs.list_dir(dir)?;
        if names.iter().any(|name| FileName::parse(name) == Some(FileName::Current)) {
            return Ok(true);
        }
        for name in &names {
            let of_creation = match FileName::parse(name) {
                Some(FileName::Lock | FileName::NextCurrent | FileName::Manifest(_) | FileName::Probe(_)) => {
                    true
                }
                Some(FileName::Log(_)) => wal::is_unwritten(fs, &dir.join(name))?,
                Some(
                    FileName::Current
                    | FileName::Table(_)
                    | FileName::Values(_)
                    | FileName::Observed
                    | FileName::NextObserved
                    | FileName::Tuned
                    | FileName::NextTuned
                    | FileName::TunedLock,
                )
                | None => FileName::is_of_system(name),
            };
            if !of_creation {
                return Err(Manifest::without_current(fs, dir));
            }
        }
        Ok(false)
    }

    /// What is wrong with `dir`, which has files but no CURRENT: a manifest of ours says that there
    /// was a database.
    pub fn without_current(fs: &dyn Fs, dir: &Path) -> Error {
        let names = match fs.list_dir(dir) {
            Ok(names) => names,
            Err(error) => return error,
        };
        let is_manifest = |name: &&String| matches!(FileName::parse(name), Some(FileName::Manifest(_)));
        let is_ours = |name: &&String| may_be_ours(fs, &dir.join(name)).unwrap_or(false);
        let has_content = |name: &&String| match FileName::parse(name) {
            Some(FileName::Table(_) | FileName::Values(_)) => true,
            Some(FileName::Log(_)) => !wal::is_unwritten(fs, &dir.join(name)).unwrap_or(true),
            _ => false,
        };
        if let Some(manifest) = names.iter().filter(is_manifest).find(is_ours)
            && names.iter().any(|name| has_content(&name))
        {
            return Error::corrupt(
                FileName::Current.in_dir(dir),
                0,
                format!(
                    "the file is missing, and {manifest} is there: it was removed, or a checkpoint was not finished"
                ),
            );
        }
        let found = names.iter().find(|name| !FileName::is_of_system(name));
        let found = found
            .map_or(String::new(), |name| format!("it holds {name:?} but no file {}", FileName::Current));
        not_a_database(dir, if found.is_empty() { "it is empty".into() } else { found })
    }

    /// Fails unless `content`, of the CURRENT at `path`, is a line of ours.
    pub fn check_current(path: &Path, content: &[u8]) -> Result<()> {
        Current::parse(path.parent().unwrap_or(Path::new("")), path, content).map(|_| ())
    }

    /// Creates the manifest numbered `file`, an unused number, which `snapshot` begins, and makes
    /// it the one that counts. Everything is durable on return. After an error the former manifest,
    /// if there is one, may or may not count still.
    pub fn create(
        fs: &dyn Fs,
        dir: &Path,
        database: DatabaseId,
        file: FileId,
        snapshot: impl IntoIterator<Item = Edit>,
    ) -> Result<Manifest> {
        let manifest = Manifest::prepare(fs, dir, database, file, snapshot)?;
        publish(fs, dir)?;
        Ok(manifest)
    }

    /// Goes on in a new manifest numbered `file`, an unused number, which `snapshot` begins. After
    /// an error this manifest counts and can be appended to still, or, if that is not certain, it
    /// is poisoned.
    pub fn rotate(
        &mut self,
        fs: &dyn Fs,
        dir: &Path,
        file: FileId,
        snapshot: impl IntoIterator<Item = Edit>,
    ) -> Result<()> {
        let next = Manifest::prepare(fs, dir, self.database, file, snapshot)?;
        if let Err(error) = publish(fs, dir) {
            self.frames.poison(&error);
            return Err(error);
        }
        *self = next;
        Ok(())
    }

    /// Writes a manifest and the CURRENT that would name it, both durably, but does not name it
    /// yet.
    fn prepare(
        fs: &dyn Fs,
        dir: &Path,
        database: DatabaseId,
        file: FileId,
        snapshot: impl IntoIterator<Item = Edit>,
    ) -> Result<Manifest> {
        let path = FileName::Manifest(file).in_dir(dir);
        let write = || -> Result<Manifest> {
            let frames = FrameWriter::create(fs, &path, &FILE_KIND, database, file)?;
            let mut manifest = Manifest { frames, database, file };
            for edit in snapshot {
                manifest.put(&edit)?;
            }
            manifest.frames.sync()?;
            let current = Current { database, file, len: manifest.frames.synced_len() };
            let temporary = FileName::NextCurrent.in_dir(dir);
            if fs.exists(&temporary)? {
                fs.remove_file(&temporary)?;
            }
            let mut handle = fs.create(&temporary)?;
            handle.append(current.to_string().as_bytes())?;
            handle.sync()?;
            fs.sync_dir(dir)?;
            Ok(manifest)
        };
        let existed = fs.exists(&path)?;
        let written = write();
        if written.is_err() && !existed {
            // Best effort: what stays is removed with the other remains at the next open.
            let _ = fs.remove_file(&path);
        }
        written
    }

    /// The database that `dir` holds. Reads only.
    pub fn load(fs: &dyn Fs, dir: &Path) -> Result<Loaded> {
        let path = FileName::Current.in_dir(dir);
        let current = match fs.open(&path) {
            Ok(file) => Current::parse(dir, &path, &read_all(&*file)?)?,
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => {
                return Err(match fs.exists(dir)? {
                    true => Manifest::without_current(fs, dir),
                    false => not_a_database(dir, format!("it has no file {}", FileName::Current)),
                });
            }
            Err(error) => return Err(error),
        };
        let manifest = FileName::Manifest(current.file).in_dir(dir);
        match read(fs, &manifest, Some(&current)) {
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => {
                let what = format!("it names {}, which is missing", manifest.display());
                Err(Error::corrupt(path, 0, what))
            }
            loaded => loaded,
        }
    }

    /// Reads the manifest at `path`, whether it counts or not.
    pub fn read(fs: &dyn Fs, path: &Path) -> Result<Loaded> {
        read(fs, path, None)
    }

    /// Appends an edit and makes it durable. If that fails before the sync, nothing happened and
    /// the manifest can be appended to still; after a failed sync every later call fails with
    /// [`Error::Poisoned`], and the edit may or may not be found at the next open.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        self.put(edit)?;
        self.frames.sync()
    }

    fn put(&mut self, edit: &Edit) -> Result<()> {
        let mut bytes = Vec::new();
        edit.encode(&mut bytes);
        self.frames.append([[&bytes[..]]])
    }

    /// Why every further change will be refused, if it will.
    pub fn poisoned(&self) -> Option<&str> {
        self.frames.poisoned()
    }

    /// Whether its path leads to it no more: the directory was removed or renamed, and another
    /// database may have its place.
    pub fn is_gone(&self) -> bool {
        self.frames.is_gone()
    }

    /// Length of the manifest in bytes.
    pub fn bytes(&self) -> u64 {
        self.frames.len()
    }

    /// The manifest's number.
    pub fn file(&self) -> FileId {
        self.file
    }

    /// The database.
    pub fn database(&self) -> DatabaseId {
        self.database
    }
}

/// Whether the file named like a manifest, log or table may be one of ours, which a crash may have
/// left without its first page or with nothing at all: other programs use such names, too.
pub fn may_be_ours(fs: &dyn Fs, path: &Path) -> Result<bool> {
    let file = fs.open(path)?;
    let mut front = [0; MAGIC_BYTES];
    let len = file.len()?.min(front.len() as u64) as usize;
    read_exact_at(&*file, &mut front[..len], 0)?;
    Ok(magic::may_be_ours(&front[..len]))
}

/// Makes the prepared CURRENT count.
fn publish(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.rename(&FileName::NextCurrent.in_dir(dir), &FileName::Current.in_dir(dir))?;
    fs.sync_dir(dir)
}

fn read(fs: &dyn Fs, path: &Path, current: Option<&Current>) -> Result<Loaded> {
    let manifest = fs.open(path)?;
    let len = manifest.len()?;
    let mut header = vec![0; len.min(FILE_HEADER_BYTES as u64) as usize];
    read_exact_at(&*manifest, &mut header, 0)?;
    let Identity { database, file, frames } = FILE_KIND.identify(path, &header)?;
    let mut proven = 0;
    if let Some(current) = current {
        FILE_KIND.check(path, &header, current.database, current.file)?;
        proven = current.len;
        if len < proven {
            let (short, current) = (proven - len, FileName::Current);
            let what = format!("the file ends here, {short} bytes short of what {current} says");
            return Err(Error::corrupt(path, len, what));
        }
    }
    let mut edits = Vec::new();
    let span = FILE_HEADER_BYTES as u64..len;
    let walked = walk(&*manifest, frames, span, proven, |offset, payload| {
        let base = offset + crate::frame::FRAME_HEADER_BYTES as u64;
        edits.push(Edit::decode(path, base, payload)?);
        Ok(())
    })?;
    Ok(Loaded { database, file, edits, bytes: walked.end, cut: walked.cut })
}

fn not_a_database(dir: &Path, what: String) -> Error {
    Error::NotADatabase { path: PathBuf::from(dir), what }
}

/// What CURRENT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Current {
    database: DatabaseId,
    file: FileId,
    /// How much of the manifest was durable when it was named.
    len: u64,
}

/// Version of the line in CURRENT.
const CURRENT_VERSION: u32 = 1;

impl fmt::Display for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Current { database, file, len } = self;
        let line =
            format!("solera {CURRENT_VERSION} {:016x} {} {len} ", database.0, FileName::Manifest(*file));
        writeln!(f, "{line}{:08x}", crc32c::crc32c(line.as_bytes()))
    }
}

impl Current {
    fn parse(dir: &Path, path: &Path, bytes: &[u8]) -> Result<Current> {
        let damaged = || Error::corrupt(path, 0, "its line is not what was written");
        // Others of the family have a file of this name, which holds the name of a manifest alone.
        if bytes.starts_with(b"MANIFEST-") {
            return Err(not_a_database(dir, format!("{} is another program's", FileName::Current)));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let line = text.strip_suffix('\n').ok_or_else(damaged)?;
        let (said, checksum) = line.split_at(line.rfind(' ').ok_or_else(damaged)? + 1);
        if checksum != format!("{:08x}", crc32c::crc32c(said.as_bytes())) {
            return Err(damaged());
        }
        let mut words = said.split(' ');
        let mut word = || words.next().ok_or_else(damaged);
        if word()? != "solera" {
            return Err(not_a_database(dir, format!("{} is another program's", FileName::Current)));
        }
        let found: u32 = word()?.parse().map_err(|_| damaged())?;
        if found > CURRENT_VERSION {
            return Err(Error::NewerFormat { file: path.into(), found, supported: CURRENT_VERSION });
        }
        let current = Current {
            database: DatabaseId(u64::from_str_radix(word()?, 16).map_err(|_| damaged())?),
            file: match FileName::parse(word()?) {
                Some(FileName::Manifest(file)) => file,
                Some(_) | None => return Err(damaged()),
            },
            len: word()?.parse().map_err(|_| damaged())?,
        };
        if current.to_string() == text { Ok(current) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests;
