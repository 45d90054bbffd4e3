//! Looking at a database's files without opening it: `check` walks and verifies all of them, `dump`
//! prints one for people.
//!
//! Reads only (but `check` creates the file LOCK if it is missing). Used by `solera check` and `solera dump`.

use crate::{
    cache::Cache,
    error::{Error, Result},
    ids::{DatabaseId, FileId},
    key::KeyRange,
    table::{self, TableContext, TableDescriptor, TableFile},
    version::{Edit, Manifest, manifest},
    vfs::{Fs, read_all},
    wal::{
        self, Tail,
        batch::{BatchReader, Operation},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What one file is and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileReport {
    /// Its name in the directory.
    pub name: String,
    /// `manifest`, `log`, `table`, `current`, `lock` or `stranger`.
    pub kind: &'static str,
    /// Its length.
    pub bytes: u64,
    /// Entries or records in it.
    pub entries: u64,
    /// Whether the database still needs it.
    pub live: bool,
}

/// What [`check`] read and found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Every file in the directory.
    pub files: Vec<FileReport>,
    /// Everything that is not as it should be; empty is good.
    pub problems: Vec<Error>,
    /// Bytes torn off the end of the last log that counts by a crash, and logs after it. Not a problem: nothing acknowledged
    /// as synced was in them.
    pub torn_log_bytes: u64,
    /// Entries in tables and logs.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// A table that the manifest names: what it should be, and every place that it has in a tree (keyspace,
/// level, run, start of the clip).
struct LiveTable {
    descriptor: Arc<TableDescriptor>,
    places: BTreeSet<(u32, u32, u64, Box<[u8]>)>,
}

/// What the manifest's edits come to, as far as a check needs it.
#[derive(Default)]
struct Live {
    tables: BTreeMap<FileId, LiveTable>,
    logs: BTreeSet<FileId>,
    log_ends: BTreeMap<FileId, u64>,
    oldest_log: FileId,
}

impl Live {
    fn add(&mut self, edit: &Edit) {
        for (keyspace, tree) in &edit.trees {
            for removed in &tree.removed {
                let place = (keyspace.0, removed.level, removed.run.0, removed.clip_start.clone());
                if let Some(table) = self.tables.get_mut(&removed.file) {
                    table.places.remove(&place);
                }
            }
            for added in &tree.added {
                let place = (keyspace.0, added.level, added.run.0, added.clip.start.clone());
                let table = self.tables.entry(added.descriptor.file).or_insert_with(|| LiveTable {
                    descriptor: Arc::new(added.descriptor.clone()),
                    places: BTreeSet::new(),
                });
                table.places.insert(place);
            }
        }
        for dropped in &edit.dropped {
            self.tables.values_mut().for_each(|table| table.places.retain(|place| place.0 != dropped.0));
        }
        self.tables.retain(|_, table| !table.places.is_empty());
        self.logs.extend(edit.new_log);
        for (file, end) in &edit.log_ends {
            self.logs.insert(*file);
            self.log_ends.insert(*file, *end);
        }
        self.oldest_log = self.oldest_log.max(edit.oldest_log.unwrap_or_default());
    }
}

/// Reads every file of the database in `dir` and verifies every checksum and invariant that can be seen
/// without opening it. Damage is reported, not returned.
///
/// # Errors
/// [`Error::NotADatabase`] if there is none; [`Error::Io`] if the directory cannot be read;
/// [`Error::Locked`] if the database is open, since its files change meanwhile.
pub fn check(fs: &Arc<dyn Fs>, dir: &Path) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    if !fs.exists(&dir.join(manifest::CURRENT))? {
        return Err(Error::NotADatabase { path: dir.into(), what: "the file CURRENT is missing".into() });
    }
    let _lock = fs.lock_shared(&dir.join(manifest::LOCK)).map_err(|error| match error {
        Error::Locked { .. } => Error::Locked { path: dir.into() },
        error => error,
    })?;
    let mut live = Live::default();
    let loaded = match Manifest::load(&**fs, dir) {
        Ok(loaded) => {
            loaded.edits.iter().for_each(|edit| live.add(edit));
            Some(loaded)
        }
        Err(error @ Error::Corrupt { .. }) => {
            report.problems.push(error);
            None
        }
        Err(error) => return Err(error),
    };
    let names = fs.list_dir(dir)?;
    let there: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let mut logs = check_logs(fs, dir, loaded.as_ref().map(|loaded| loaded.database), &live, &there);
    for name in &names {
        let path = dir.join(name);
        let len = |path: &Path| fs.open(path).and_then(|file| file.len()).unwrap_or(0);
        let mut file =
            FileReport { name: name.clone(), kind: "stranger", bytes: len(&path), entries: 0, live: false };
        if name == manifest::CURRENT {
            (file.kind, file.live) = ("current", true);
        } else if name == manifest::LOCK {
            (file.kind, file.live) = ("lock", true);
        } else if let Some(id) = manifest::file_id(name) {
            file.kind = "manifest";
            if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.file == id) {
                file.live = true;
                file.entries = loaded.edits.len() as u64;
            }
        } else if let Some(id) = wal::file_id(name) {
            file.kind = "log";
            file.live = live.logs.contains(&id) && id >= live.oldest_log;
            match logs.remove(&id) {
                Some(Ok((entries, torn))) => {
                    file.entries = entries;
                    report.torn_log_bytes += torn;
                }
                Some(Err(error)) => report.problems.push(error),
                None => {}
            }
        } else if let Some(id) = table::file_id(name) {
            file.kind = "table";
            if let (Some(loaded), Some(table)) = (&loaded, live.tables.get(&id)) {
                file.live = true;
                // Opened as the database would open it: the file must be the one that the manifest means.
                let context = Arc::new(TableContext {
                    fs: fs.clone(),
                    dir: dir.to_path_buf(),
                    database: loaded.database,
                    direct_reads: false,
                    cache: Cache::new(0),
                    stats: Arc::default(),
                });
                let table = TableFile::new(&context, table.descriptor.clone());
                match table.table().and_then(|table| table.check()) {
                    Ok(check) => {
                        file.entries = check.entries;
                        report.problems.extend(check.problems);
                    }
                    Err(error) => report.problems.push(error),
                }
            }
        }
        report.entries += if matches!(file.kind, "log" | "table") { file.entries } else { 0 };
        report.bytes += if file.live { file.bytes } else { 0 };
        report.files.push(file);
    }
    let logs = live.logs.range(live.oldest_log..).map(|&id| wal::file_name(id));
    for name in live.tables.keys().map(|&id| table::file_name(id)).chain(logs) {
        if !there.contains(name.as_str()) {
            report.problems.push(Error::corrupt(
                dir.join(&name),
                0,
                "the file is missing; the manifest names it",
            ));
        }
    }
    Ok(report)
}

/// For each live log that is there, the operations in it, and the bytes that a crash tore off its end.
fn check_logs(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    database: Option<DatabaseId>,
    live: &Live,
    there: &BTreeSet<&str>,
) -> BTreeMap<FileId, Result<(u64, u64)>> {
    let Some(database) = database else { return BTreeMap::new() };
    let mut replay = wal::Replay::new(&**fs, dir, database);
    let live_logs = live.logs.range(live.oldest_log..);
    let logs = live_logs.filter(|&&id| there.contains(wal::file_name(id).as_str()));
    let check = |&id: &FileId| {
        let tail = live.log_ends.get(&id).map_or(Tail::Open, |&end| Tail::CutAt(end));
        let path = dir.join(wal::file_name(id));
        let mut operations = 0;
        let count = |offset: u64, payload: &[u8]| {
            for operation in BatchReader::new(payload).map_err(|error| error.in_file(&path, offset))? {
                operation.map_err(|error| error.in_file(&path, offset))?;
                operations += 1;
            }
            Ok(())
        };
        let found = replay.next(id, tail, count).and_then(|replayed| {
            Ok(match replayed {
                Some(replayed) => replayed.cut.map_or(0, |cut| cut.bytes),
                None => fs.open(&path)?.len()?,
            })
        });
        (id, found.map(|torn| (operations, torn)))
    };
    logs.map(check).collect()
}

/// Prints what a file holds, for people. Understands tables, logs, manifests and CURRENT, by name.
///
/// # Errors
/// [`Error::Invalid`] if the name is not one of a database's files; [`Error::Corrupt`] where the file
/// stops making sense: what came before was printed.
pub fn dump(fs: &Arc<dyn Fs>, path: &Path, out: &mut dyn Write) -> Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let dir = path.parent().map_or(PathBuf::from("."), Path::to_path_buf);
    let print = |error| Error::io("print what is in", path, error);
    if name == manifest::CURRENT {
        let content = read_all(&*fs.open(path)?)?;
        return writeln!(out, "{}", content.escape_ascii()).map_err(print);
    }
    if manifest::file_id(&name).is_some() {
        let loaded = Manifest::read(&**fs, path)?;
        writeln!(
            out,
            "database {:#018x}, {} edits, {} bytes",
            loaded.database.0,
            loaded.edits.len(),
            loaded.bytes
        )
        .map_err(print)?;
        for edit in &loaded.edits {
            writeln!(out, "{edit:#?}").map_err(print)?;
        }
        return match loaded.cut {
            Some(cut) => writeln!(out, "torn at byte {}: {} bytes", cut.offset, cut.bytes).map_err(print),
            None => Ok(()),
        };
    }
    if let Some(id) = wal::file_id(&name) {
        let database = wal::database_of(&**fs, path)?;
        let replayed = wal::replay(&**fs, &dir, database, id, Tail::Open, |offset, payload| {
            dump_batch(offset, payload, path, out)
        })?;
        return match replayed.cut {
            Some(cut) => writeln!(out, "{:>10}  torn: {} bytes", cut.offset, cut.bytes).map_err(print),
            None => writeln!(out, "{:>10}  end", replayed.end).map_err(print),
        };
    }
    if table::file_id(&name).is_some() {
        return table::open_alone(fs, path)?.table()?.dump(out);
    }
    Err(Error::Invalid(format!(
        "{} is not a file of a database; name a .table, a .log, a MANIFEST-… or CURRENT",
        path.display()
    )))
}

fn dump_batch(offset: u64, payload: &[u8], path: &Path, out: &mut dyn Write) -> Result<()> {
    let print = |error| Error::io("print what is in", path, error);
    for operation in BatchReader::new(payload).map_err(|error| error.in_file(path, offset))? {
        let (seqno, operation) = operation.map_err(|error| error.in_file(path, offset))?;
        match operation {
            Operation::Entry { keyspace, kind, key, value } => writeln!(
                out,
                "{offset:>10}  #{seqno} keyspace {keyspace} {kind:?} \"{}\" = {} bytes \"{}\"",
                key.escape_ascii(),
                value.len(),
                value[..value.len().min(64)].escape_ascii()
            ),
            Operation::DeleteRange { keyspace, start, end } => writeln!(
                out,
                "{offset:>10}  #{seqno} keyspace {keyspace} DeleteRange {}",
                KeyRange::half_open(start, end)
            ),
        }
        .map_err(print)?;
    }
    Ok(())
}
