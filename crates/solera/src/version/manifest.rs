//! The record of every edit: what the database is, as far as the disk knows.
//!
//! Owns two files. A **manifest** is a file of frames ([`crate::frame`]), each one [`Edit`]; the first ones
//! say everything from scratch. **CURRENT** names the manifest that counts, and is replaced by renaming, so
//! that the change from one manifest to the next is atomic. It is one line of text:
//!
//! ```text
//! solera 1 <database: 16 hex digits> MANIFEST-<number> <length> <CRC-32C of the line so far: 8 hex digits>
//! ```
//!
//! The length is how much of the manifest was durable when it was named: header and first edits, without
//! the mark after them.
//!
//! What must hold: CURRENT never names a manifest that is not durable up to the length it gives, which is
//! why damage before that length is never a torn end. A manifest is appended to only by the handle that
//! created it: opening for writing writes a new one. Files of numbers that no manifest knows are remains of
//! a crash; the caller removes them.
//!
//! Called by `db`: it loads once, creates at every open for writing, appends at every change of a tree, and
//! rotates when the manifest has grown.

use super::edit::{Edit, FORMAT_VERSION};
use crate::{
    error::{Error, Result},
    frame::{Cut, FILE_HEADER_BYTES, FileKind, FrameWriter, Identity, walk},
    ids::{DatabaseId, FileId},
    table,
    vfs::{Fs, read_all, read_exact_at},
    wal,
};
use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// How a manifest begins.
pub const FILE_KIND: FileKind =
    FileKind { magic: *b"SOLERAMF", version: FORMAT_VERSION, noun: "manifest", reserves: false };
/// The file that names the manifest.
pub const CURRENT: &str = "CURRENT";
/// The name under which the next CURRENT is written.
pub const CURRENT_TEMPORARY: &str = "CURRENT.tmp";
/// The file that stands for the lock on a database directory.
pub const LOCK: &str = "LOCK";

/// The name of a manifest.
pub fn file_name(file: FileId) -> String {
    format!("MANIFEST-{:06}", file.0)
}

/// The number of the manifest with this name; `None` if it is not a manifest's name.
pub fn file_id(name: &str) -> Option<FileId> {
    let file = FileId(name.strip_prefix("MANIFEST-")?.parse().ok()?);
    (file_name(file) == name).then_some(file)
}

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
    /// Whether `dir` holds a database. No if it is missing, empty, or holds no more than the remains of an
    /// interrupted creation; files of another program, or a database without its CURRENT, are
    /// [`Error::NotADatabase`]. Hidden files do not count.
    pub fn exists(fs: &dyn Fs, dir: &Path) -> Result<bool> {
        if !fs.exists(dir)? {
            return Ok(false);
        }
        let names = fs.list_dir(dir)?;
        if names.iter().any(|name| name == CURRENT) {
            return Ok(true);
        }
        for name in &names {
            let of_creation = name == LOCK
                || name == CURRENT_TEMPORARY
                || file_id(name).is_some()
                || name.starts_with('.')
                || is_empty_log(fs, &dir.join(name))?;
            if !of_creation {
                return Err(not_a_database(dir, format!("it holds {name:?} but no file {CURRENT}")));
            }
        }
        Ok(false)
    }

    /// Creates the manifest numbered `file`, an unused number, which `snapshot` begins, and makes it the one
    /// that counts. Everything is durable on return. After an error the former manifest, if there is one,
    /// may or may not count still.
    pub fn create(
        fs: &dyn Fs,
        dir: &Path,
        database: DatabaseId,
        file: FileId,
        snapshot: &[Edit],
    ) -> Result<Manifest> {
        let manifest = Manifest::prepare(fs, dir, database, file, snapshot)?;
        publish(fs, dir)?;
        Ok(manifest)
    }

    /// Goes on in a new manifest numbered `file`, an unused number, which `snapshot` begins. After an error
    /// this manifest counts and can be appended to still, or, if that is not certain, it is poisoned.
    pub fn rotate(&mut self, fs: &dyn Fs, dir: &Path, file: FileId, snapshot: &[Edit]) -> Result<()> {
        let next = Manifest::prepare(fs, dir, self.database, file, snapshot)?;
        if let Err(error) = publish(fs, dir) {
            self.frames.poison(&error);
            return Err(error);
        }
        *self = next;
        Ok(())
    }

    /// Writes a manifest and the CURRENT that would name it, both durably, but does not name it yet.
    fn prepare(
        fs: &dyn Fs,
        dir: &Path,
        database: DatabaseId,
        file: FileId,
        snapshot: &[Edit],
    ) -> Result<Manifest> {
        let path = dir.join(file_name(file));
        let write = || -> Result<Manifest> {
            let frames = FrameWriter::create(fs, &path, &FILE_KIND, database, file)?;
            let mut manifest = Manifest { frames, database, file };
            manifest.append_all(snapshot)?;
            let current = Current { database, file, len: manifest.frames.synced_len() };
            let temporary = dir.join(CURRENT_TEMPORARY);
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
        let path = dir.join(CURRENT);
        let current = match fs.open(&path) {
            Ok(file) => Current::parse(dir, &path, &read_all(&*file)?)?,
            Err(error) if error.io_kind() == Some(io::ErrorKind::NotFound) => {
                return Err(not_a_database(dir, format!("it has no file {CURRENT}")));
            }
            Err(error) => return Err(error),
        };
        let manifest = dir.join(file_name(current.file));
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

    /// Appends an edit and makes it durable. If that fails before the sync, nothing happened and the
    /// manifest can be appended to still; after a failed sync every later call fails with
    /// [`Error::Poisoned`], and the edit may or may not be found at the next open.
    pub fn append(&mut self, edit: &Edit) -> Result<()> {
        self.append_all(std::slice::from_ref(edit))
    }

    fn append_all(&mut self, edits: &[Edit]) -> Result<()> {
        let encoded: Vec<Vec<u8>> = edits
            .iter()
            .map(|edit| {
                let mut bytes = Vec::new();
                edit.encode(&mut bytes);
                bytes
            })
            .collect();
        self.frames.append(encoded.iter().map(|edit| [&edit[..]]))?;
        self.frames.sync()
    }

    /// Why every further change will be refused, if it will.
    pub fn poisoned(&self) -> Option<&str> {
        self.frames.poisoned()
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

/// Whether this is a log that nothing was written to: a creation makes one before the first CURRENT.
fn is_empty_log(fs: &dyn Fs, path: &Path) -> Result<bool> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    Ok(wal::file_id(name).is_some() && wal::is_unwritten(fs, path)?)
}

/// Whether the file named like a manifest, log or table may be one of ours, which a crash may have left
/// without its first page or with nothing at all: other programs use such names, too.
pub fn may_be_ours(fs: &dyn Fs, path: &Path) -> Result<bool> {
    let file = fs.open(path)?;
    let mut magic = [0; 8];
    let len = file.len()?.min(magic.len() as u64) as usize;
    read_exact_at(&*file, &mut magic[..len], 0)?;
    let magic = &magic[..len];
    let ours = [FILE_KIND.magic, wal::FILE_KIND.magic, table::MAGIC];
    Ok(magic.iter().all(|&byte| byte == 0) || ours.iter().any(|ours| ours.starts_with(magic)))
}

/// Makes the prepared CURRENT count.
fn publish(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.rename(&dir.join(CURRENT_TEMPORARY), &dir.join(CURRENT))?;
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
            let what = format!("the file ends here, {} bytes short of what {CURRENT} says", proven - len);
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
        let line = format!("solera {CURRENT_VERSION} {:016x} {} {len} ", database.0, file_name(*file));
        writeln!(f, "{line}{:08x}", crc32c::crc32c(line.as_bytes()))
    }
}

impl Current {
    fn parse(dir: &Path, path: &Path, bytes: &[u8]) -> Result<Current> {
        let damaged = || Error::corrupt(path, 0, "its line is not what was written");
        // Others of the family have a file of this name, which holds the name of a manifest alone.
        if bytes.starts_with(b"MANIFEST-") {
            return Err(not_a_database(dir, format!("{CURRENT} is another program's")));
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
            return Err(not_a_database(dir, format!("{CURRENT} is another program's")));
        }
        let found: u32 = word()?.parse().map_err(|_| damaged())?;
        if found > CURRENT_VERSION {
            return Err(Error::NewerFormat { file: path.into(), found, supported: CURRENT_VERSION });
        }
        let current = Current {
            database: DatabaseId(u64::from_str_radix(word()?, 16).map_err(|_| damaged())?),
            file: file_id(word()?).ok_or_else(damaged)?,
            len: word()?.parse().map_err(|_| damaged())?,
        };
        if current.to_string() == text { Ok(current) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests;
