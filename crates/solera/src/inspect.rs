//! Looking at a database's files without opening it: `check` verifies those that count, `dump`
//! prints one for people, `dump_json` for programs.
//!
//! `check` plays the manifest's edits, then checks every table, log and value file that they need.
//! It counts pointers anew against the manifest's counts. If the manifest is damaged, only tables
//! are checked. A `CheckReport` lists what was read (`FileReport`) and every problem. `dump`
//! understands tables, logs, manifests, value files and CURRENT, by name.
//!
//! What must hold: it reads only, and creates no file, not even LOCK where it is missing. `check`
//! refuses an open database. It goes on after damage, so that one bad file does not hide the next;
//! `dump` and `dump_json` stop at it.
//! Callers: `solera check` and `solera dump`, `solera-sim`, `fuzz`, tests.

mod edits;
mod objects;

use crate::{
    cache::Cache,
    dir::FileName,
    error::{Error, Result},
    frame::FILE_HEADER_BYTES,
    ids::{DatabaseId, FileId},
    key::KeyRange,
    table::{self, TableContext, TableDescriptor, TableFile},
    values::{self, LiveValues, Tally, ValueFiles},
    version::{Edit, Manifest, TableRef, each_pointer},
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
    /// `manifest`, `log`, `table`, `values`, `current`, `lock`, `observed`, `tuned`, `progress` of
    /// a load, `temporary` or `stranger`.
    pub kind: &'static str,
    /// Its length.
    pub bytes: u64,
    /// Entries or records in it.
    pub entries: u64,
    /// Whether the database still needs it, or may, where the manifest cannot say so.
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
    /// Bytes torn off the end of the last log that counts by a crash, and logs after it. Not a
    /// problem: nothing acknowledged as synced was in them.
    pub torn_log_bytes: u64,
    /// Entries in tables and logs.
    pub entries: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// A table that the manifest names: what it should be, and every place that it has in a tree
/// (keyspace, level, run, start of the clip).
struct LiveTable {
    descriptor: Arc<TableDescriptor>,
    places: BTreeMap<(u32, u32, u64, Box<[u8]>), KeyRange>,
}

/// What the manifest's edits come to, as far as a check needs it.
#[derive(Default)]
struct Live {
    tables: BTreeMap<FileId, LiveTable>,
    logs: BTreeSet<FileId>,
    log_ends: BTreeMap<FileId, u64>,
    oldest_log: FileId,
    /// Of each keyspace, the pointers to value files that its edits add up to; `None` if they do
    /// not.
    values: BTreeMap<u32, Option<LiveValues>>,
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
                    places: BTreeMap::new(),
                });
                table.places.insert(place, added.clip.clone());
            }
        }
        for (keyspace, tree) in &edit.trees {
            let live = self.values.entry(keyspace.0).or_insert_with(|| Some(LiveValues::default()));
            *live = live.as_ref().and_then(|live| live.after(&tree.values).ok());
        }
        for dropped in &edit.dropped {
            self.values.remove(&dropped.0);
            self.tables.values_mut().for_each(|table| table.places.retain(|place, _| place.0 != dropped.0));
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

/// Reads every file of the database in `dir` and verifies every checksum and invariant that can be
/// seen without opening it. Damage is reported, not returned.
///
/// # Errors
/// [`Error::NotADatabase`] if there is none; [`Error::Io`] if the directory cannot be read;
/// [`Error::Locked`] if the database is open, since its files change meanwhile.
pub fn check(fs: &Arc<dyn Fs>, dir: &Path) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    if !fs.exists(&FileName::Current.in_dir(dir))? {
        return Err(Manifest::without_current(&**fs, dir));
    }
    let _lock = fs.lock_shared(&FileName::Lock.in_dir(dir)).map_err(|error| match error {
        Error::Locked { pid, .. } => Error::Locked { path: dir.into(), pid },
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
        match FileName::parse(name) {
            Some(FileName::Current) => (file.kind, file.live) = ("current", true),
            Some(FileName::Lock) => (file.kind, file.live) = ("lock", true),
            Some(FileName::Manifest(id)) => {
                (file.kind, file.live) = ("manifest", loaded.is_none());
                if let Some(loaded) = loaded.as_ref().filter(|loaded| loaded.file == id) {
                    file.live = true;
                    file.entries = loaded.edits.len() as u64;
                }
            }
            Some(FileName::Log(id)) => {
                file.kind = "log";
                file.live = loaded.is_none() || live.logs.contains(&id) && id >= live.oldest_log;
                match logs.remove(&id) {
                    Some(Ok((entries, torn))) => {
                        file.entries = entries;
                        report.torn_log_bytes += torn;
                    }
                    Some(Err(error)) => report.problems.push(error),
                    None => {}
                }
            }
            Some(FileName::Table(id)) => {
                file.kind = "table";
                if let (Some(loaded), Some(table)) = (&loaded, live.tables.get(&id)) {
                    file.live = true;
                    // Opened as the database would open it: the file must be the one that the
                    // manifest means.
                    let context = alone(fs, dir, loaded.database);
                    let table = TableFile::new(&context, table.descriptor.clone());
                    match table.table().and_then(|table| table.check()) {
                        Ok(check) => {
                            file.entries = check.entries;
                            report.problems.extend(check.problems);
                        }
                        Err(error) => report.problems.push(error),
                    }
                } else if loaded.is_none() {
                    // Nothing says which tables count: each is read for itself.
                    file.live = true;
                    match table::open_alone(fs, &path).and_then(|table| table.table()?.check()) {
                        Ok(check) => {
                            file.entries = check.entries;
                            report.problems.extend(check.problems);
                        }
                        Err(error) => report.problems.push(error),
                    }
                }
            }
            Some(FileName::Values(_)) if loaded.is_none() => (file.kind, file.live) = ("values", true),
            // What tells of the database, and is no part of it.
            Some(FileName::Observed) => (file.kind, file.live) = ("observed", true),
            Some(FileName::Tuned) => (file.kind, file.live) = ("tuned", true),
            Some(FileName::TunedLock) => (file.kind, file.live) = ("lock", true),
            Some(
                FileName::NextCurrent | FileName::NextObserved | FileName::NextTuned | FileName::Probe(_),
            ) => {
                file.kind = "temporary";
            }
            // Value files are looked at below, when it is known what points to them.
            Some(FileName::Values(_)) => {}
            None => (file.kind, file.live) = kind_beside(name),
        }
        report.entries += if matches!(file.kind, "log" | "table") { file.entries } else { 0 };
        report.bytes += if file.live { file.bytes } else { 0 };
        report.files.push(file);
    }
    if let Some(loaded) = &loaded {
        check_values(fs, dir, loaded.database, &live, &there, &mut report);
    }
    let logs = live.logs.range(live.oldest_log..).map(|&id| FileName::Log(id));
    for name in live.tables.keys().map(|&id| FileName::Table(id)).chain(logs) {
        if !there.contains(name.to_string().as_str()) {
            report.problems.push(Error::corrupt(
                name.in_dir(dir),
                0,
                "the file is missing; the manifest names it",
            ));
        }
    }
    Ok(report)
}

/// Reads every value to which a table points, counts the pointers anew, and marks the files that
/// they lead to as live. Tables that cannot be read have been told of.
fn check_values(
    fs: &Arc<dyn Fs>,
    dir: &Path,
    database: DatabaseId,
    live: &Live,
    there: &BTreeSet<&str>,
    report: &mut CheckReport,
) {
    let files = ValueFiles::new(fs.clone(), dir.into(), database, false, wal::FILE_KIND);
    let context = alone(fs, dir, database);
    let mut counted: BTreeMap<u32, Tally> = BTreeMap::new();
    // Keyspaces with a table that cannot be read: what it holds cannot be counted.
    let mut in_part: BTreeSet<u32> = BTreeSet::new();
    // Of each value file with values that cannot be read, what is wrong with the first of them, and
    // how many they are.
    let mut lost: BTreeMap<FileId, (Error, u64)> = BTreeMap::new();
    let has_values = live.values.values().any(|live| live.as_ref().is_none_or(|live| !live.is_empty()));
    for table in live.tables.values().filter(|_| has_values) {
        if !there.contains(FileName::Table(table.descriptor.file).to_string().as_str()) {
            in_part.extend(table.places.keys().map(|place| place.0));
            continue;
        }
        let file = TableFile::new(&context, table.descriptor.clone());
        for (place, clip) in &table.places {
            let Some(part) = TableRef::new(file.clone(), clip) else { continue };
            let tally = counted.entry(place.0).or_default();
            let walked = each_pointer(&part, |key, pointer| {
                tally.add(&pointer);
                match files.read(&pointer, key) {
                    Ok(value) => report.bytes += value.len() as u64,
                    Err(error) => {
                        lost.entry(pointer.file).or_insert_with(|| (error, 0)).1 += 1;
                    }
                }
                Ok(())
            });
            if walked.is_err() {
                in_part.insert(place.0);
            }
        }
    }
    report.problems.extend(lost.into_values().map(|(error, entries)| match error {
        Error::Corrupt { file, offset, what } if entries > 1 => Error::Corrupt {
            file,
            offset,
            what: format!("{what} ({entries} entries have lost their values)"),
        },
        error => error,
    }));
    for (keyspace, live) in &live.values {
        let counted = counted.remove(keyspace).unwrap_or_default();
        let manifest = FileName::Current.in_dir(dir);
        let other = live.as_ref().is_none_or(|live| live.to_tally() != counted);
        if other && !in_part.contains(keyspace) {
            let what = format!(
                "the manifest counts other pointers to value files for keyspace {keyspace} than its tables hold"
            );
            report.problems.push(Error::corrupt(manifest, 0, what));
        }
    }
    let has = |id: FileId| live.values.values().flatten().any(|live| live.has(id));
    for file in &mut report.files {
        match FileName::parse(&file.name) {
            Some(FileName::Values(id)) => {
                (file.kind, file.live) = ("values", has(id));
                if file.live {
                    match values::check_sorted(&**fs, &dir.join(&file.name), Some(database), id, |_, _, _| ())
                    {
                        Ok(values) => file.entries = values,
                        Err(error) => report.problems.push(error),
                    }
                }
            }
            Some(FileName::Log(id)) => file.live |= has(id),
            Some(_) | None => {}
        }
    }
}

/// What a file is that other parts of Solera put into a database's directory, and whether it is
/// needed: the note of a load that was stopped, and a page or note that was not put in its place.
fn kind_beside(name: &str) -> (&'static str, bool) {
    let is = |prefix: &str, suffix: &str| name.starts_with(prefix) && name.ends_with(suffix);
    if name == "load.progress" || is("load-", ".progress") {
        ("progress", true)
    } else if name.starts_with(".solera-new-") {
        ("temporary", false)
    } else {
        ("stranger", false)
    }
}

/// What a table needs that is read without a database.
fn alone(fs: &Arc<dyn Fs>, dir: &Path, database: DatabaseId) -> Arc<TableContext> {
    Arc::new(TableContext {
        fs: fs.clone(),
        dir: dir.to_path_buf(),
        database,
        direct_reads: false,
        cache: Cache::new(0),
        stats: Arc::default(),
        wanted: Arc::default(),
    })
}

/// For each live log that is there, the operations in it, and the bytes that a crash tore off its
/// end.
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
    let logs = live_logs.filter(|&&id| there.contains(FileName::Log(id).to_string().as_str()));
    let check = |&id: &FileId| {
        let tail = live.log_ends.get(&id).map_or(Tail::Open, |&end| Tail::CutAt(end));
        let path = FileName::Log(id).in_dir(dir);
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
                // It came after a log without its end, and does not count. Nothing is lost with one
                // to which nothing was written.
                None if wal::is_unwritten(&**fs, &path)? => 0,
                None => fs.open(&path)?.len()?.saturating_sub(FILE_HEADER_BYTES as u64),
            })
        });
        (id, found.map(|torn| (operations, torn)))
    };
    logs.map(check).collect()
}

/// Prints what a file holds, for people. Understands tables, logs, manifests, value files and
/// CURRENT, by name.
///
/// # Errors
/// [`Error::Invalid`] if the name is not one of a database's files; [`Error::Corrupt`] where the
/// file stops making sense. What came before was printed, if header and footer are whole; of a
/// damaged manifest nothing was.
pub fn dump(fs: &Arc<dyn Fs>, path: &Path, out: &mut dyn Write) -> Result<()> {
    let dir = path.parent().map_or(PathBuf::from("."), Path::to_path_buf);
    let print = |error| Error::io("print what is in", path, error);
    match FileName::of(path) {
        Some(FileName::Current) => {
            let content = read_all(&*fs.open(path)?)?;
            let line = content.strip_suffix(b"\n").unwrap_or(&content);
            writeln!(out, "{}", line.escape_ascii()).map_err(print)?;
            Manifest::check_current(path, &content)
        }
        Some(FileName::Manifest(_)) => dump_manifest(fs, path, out),
        Some(FileName::Log(id)) => {
            let database = wal::database_of(&**fs, path)?;
            let replayed = wal::replay(&**fs, &dir, database, id, Tail::Open, |offset, payload| {
                dump_batch(offset, payload, path, out)
            })?;
            match replayed.cut {
                Some(cut) => writeln!(out, "{:>10}  torn: {} bytes", cut.offset, cut.bytes).map_err(print),
                None => writeln!(out, "{:>10}  end", replayed.end).map_err(print),
            }
        }
        Some(FileName::Values(id)) => dump_values(fs, path, id, out),
        Some(FileName::Table(_)) => table::open_alone(fs, path)?.table()?.dump(out),
        Some(
            FileName::Lock
            | FileName::NextCurrent
            | FileName::Observed
            | FileName::NextObserved
            | FileName::Tuned
            | FileName::NextTuned
            | FileName::TunedLock
            | FileName::Probe(_),
        )
        | None => Err(not_of_a_database(path)),
    }
}

/// As [`dump`], for programs: one JSON object a line, which says in `is` what it is. Keys and
/// values are whole: text under `key` and `value` where they are UTF-8, else hexadecimal digits
/// under `key_hex` and `value_hex`. Of a value that a table keeps apart, the object says where it
/// lies instead.
///
/// # Errors
/// As of [`dump`].
pub fn dump_json(fs: &Arc<dyn Fs>, path: &Path, out: &mut dyn Write) -> Result<()> {
    objects::dump(fs, path, out)
}

fn not_of_a_database(path: &Path) -> Error {
    Error::Invalid(format!(
        "{} is not a file of a database; name a .table, a .log, a .values, a MANIFEST-… or CURRENT",
        path.display()
    ))
}

fn dump_manifest(fs: &Arc<dyn Fs>, path: &Path, out: &mut dyn Write) -> Result<()> {
    let print = |error| Error::io("print what is in", path, error);
    let loaded = Manifest::read(&**fs, path)?;
    let (edits, bytes) = (loaded.edits.len(), loaded.bytes);
    writeln!(out, "database {:#018x}, {edits} edits, {bytes} bytes", loaded.database.0).map_err(print)?;
    for (number, edit) in (1..).zip(&loaded.edits) {
        edits::write(number, edit, out).map_err(print)?;
    }
    match loaded.cut {
        Some(cut) => writeln!(out, "torn at byte {}: {} bytes", cut.offset, cut.bytes).map_err(print),
        None => Ok(()),
    }
}

fn dump_values(fs: &Arc<dyn Fs>, path: &Path, id: FileId, out: &mut dyn Write) -> Result<()> {
    let print = |error| Error::io("print what is in", path, error);
    let mut lines = Vec::new();
    let walked = values::check_sorted(&**fs, path, None, id, |key, pointer, value| {
        let shown = value[..value.len().min(64)].escape_ascii();
        let (at, key, len) = (pointer.offset, key.escape_ascii(), pointer.len);
        lines.push(format!("{at:>10}  \"{key}\" = {len} bytes \"{shown}\""));
    });
    lines.iter().try_for_each(|line| writeln!(out, "{line}")).map_err(print)?;
    let values = walked?;
    writeln!(out, "{values} values").map_err(print)
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
