//! Opening and recovery: lock, manifest, logs, a new manifest, a new log.
//!
//! Nothing of the old state is changed before the new manifest is in force (CURRENT names it), so a crash
//! in the middle of an open is the same as no open. A read-only open changes nothing and shares the lock with
//! other readers.

use super::{
    Catalog, Core, DEFAULT_KEYSPACE, KeyspaceOptions, Options, Poison,
    commit::{self, Commit},
    install::Store,
    knobs::Knobs,
    memory::Memory,
    settings,
    snapshot::Snapshots,
    throttle::Delays,
    tracing::Tracing,
    workers::Work,
};
use crate::{
    cache::Cache,
    canary::{Bug, planted},
    error::{Error, Result},
    ids::{DatabaseId, FileId, KeyspaceId, Seqno},
    pool::CHUNKS,
    stats::Stats,
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    table::{self, TableFile},
    tombstone::RangeTombstone,
    tree::Tree,
    version::{Edit, Manifest, TreeEdit, Version, manifest},
    vfs::Fs,
    wal::{self, Tail, batch::BatchReader},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    io::ErrorKind,
    path::Path,
    sync::Arc,
};

/// Recovered records are written again in groups of about so many bytes.
const WRITE_AGAIN_BYTES: usize = 256 << 10;

/// What the manifest says, edit after edit.
#[derive(Default)]
struct Recorded {
    keyspaces: BTreeMap<KeyspaceId, RecordedKeyspace>,
    next_file: u64,
    next_keyspace: u32,
    last_seqno: Seqno,
    clock_high_ms: u64,
    oldest_log: FileId,
    logs: BTreeSet<FileId>,
    log_ends: BTreeMap<FileId, u64>,
    knobs: Knobs,
}

struct RecordedKeyspace {
    name: String,
    settings: Vec<u8>,
    edits: Vec<TreeEdit>,
}

impl Recorded {
    fn add(&mut self, edit: Edit, manifest: &Path) -> Result<()> {
        let unknown = |id: KeyspaceId| {
            Error::corrupt(manifest, 0, format!("an edit concerns keyspace {id}, which does not exist then"))
        };
        for created in edit.created {
            let taken = |(id, keyspace): (&KeyspaceId, &RecordedKeyspace)| {
                *id == created.id || keyspace.name == created.name
            };
            if self.keyspaces.iter().any(taken) || created.id.0 == u32::MAX {
                let what = format!("keyspace {} {:?} is created a second time", created.id, created.name);
                return Err(Error::corrupt(manifest, 0, what));
            }
            let keyspace =
                RecordedKeyspace { name: created.name, settings: created.settings, edits: Vec::new() };
            self.keyspaces.insert(created.id, keyspace);
        }
        for (id, settings) in edit.settings {
            self.keyspaces.get_mut(&id).ok_or_else(|| unknown(id))?.settings = settings;
        }
        if let Some(id) = edit
            .turned
            .iter()
            .filter_map(|turned| turned.keyspace)
            .find(|id| !self.keyspaces.contains_key(id))
        {
            return Err(unknown(id));
        }
        self.knobs.add(edit.receipts, edit.turned);
        for (id, tree) in edit.trees {
            self.keyspaces.get_mut(&id).ok_or_else(|| unknown(id))?.edits.push(tree);
        }
        for id in edit.dropped {
            self.keyspaces.remove(&id).ok_or_else(|| unknown(id))?;
            self.knobs.forget(id);
        }
        self.next_file = self.next_file.max(edit.next_file.unwrap_or(0));
        self.next_keyspace = self.next_keyspace.max(edit.next_keyspace.unwrap_or(0));
        self.last_seqno = self.last_seqno.max(edit.last_seqno.unwrap_or(0));
        self.clock_high_ms = self.clock_high_ms.max(edit.clock_high_ms.unwrap_or(0));
        self.oldest_log = self.oldest_log.max(edit.oldest_log.unwrap_or_default());
        self.logs.extend(edit.new_log);
        for (file, end) in edit.log_ends {
            self.logs.insert(file);
            self.log_ends.insert(file, end);
        }
        Ok(())
    }

    /// Numbers of files that exist are never given out again, recorded or not: they may be what a crash
    /// left of a creation or a job.
    fn pass_over_files(&mut self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        for name in fs.list_dir(dir)?.into_iter().filter(|_| !planted(Bug::ReuseFileNumber)) {
            let file = table::file_id(&name).or(wal::file_id(&name)).or(manifest::file_id(&name));
            self.next_file = self.next_file.max(file.map_or(0, |file| file.0.saturating_add(1)));
        }
        Ok(())
    }
}

/// Opens or creates the database in `dir`.
pub(super) fn open(options: Options, dir: &Path) -> Result<Core> {
    options.validate()?;
    let fs = options.fs.clone();
    if !Manifest::exists(&*fs, dir)? {
        prepare(&options, &*fs, dir)?;
    }
    let path = dir.join(manifest::LOCK);
    let lock = match if options.read_only { fs.lock_shared(&path) } else { fs.lock(&path).map(Some) } {
        Ok(lock) => lock,
        Err(Error::Locked { .. }) => return Err(Error::Locked { path: dir.to_path_buf() }),
        Err(error) => return Err(error),
    };
    if options.direct_reads && lock.is_some() {
        probe_direct_reads(&*fs, dir, &path)?;
    }
    // Another opener may have created it between the look and the lock.
    if Manifest::exists(&*fs, dir)? {
        recover(options, dir, lock)
    } else {
        let database = new_database_id(&options);
        let mut recorded = Recorded { next_file: 1, ..Recorded::default() };
        recorded.pass_over_files(&*fs, dir)?;
        start(options, dir, lock, database, recorded, None)
    }
}

/// Refuses direct reads where there are none, at the open and not at the first read of a table. `file` exists.
fn probe_direct_reads(fs: &dyn Fs, dir: &Path, file: &Path) -> Result<()> {
    match fs.open_direct(file) {
        Ok(_) => Ok(()),
        Err(error) => match error.io_kind() {
            Some(ErrorKind::Unsupported | ErrorKind::InvalidInput) => Err(Error::Invalid(format!(
                "{}: files there cannot be read past the system's cache (O_DIRECT); open without direct_reads",
                dir.display()
            ))),
            _ => Err(error),
        },
    }
}

/// For a directory without a database: makes sure that it is there, or refuses.
fn prepare(options: &Options, fs: &dyn Fs, dir: &Path) -> Result<()> {
    if options.read_only || !options.create_if_missing {
        let what = match fs.exists(dir)? {
            true => "the file CURRENT is missing",
            false => "the directory does not exist",
        };
        return Err(Error::NotADatabase { path: dir.to_path_buf(), what: what.into() });
    }
    if fs.exists(dir)? {
        return Ok(());
    }
    fs.create_dir_all(dir)?;
    match dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => fs.sync_dir(parent),
        None => Ok(()),
    }
}

/// Two sources of entropy, so that one that fails does not make two databases the same.
fn new_database_id(options: &Options) -> DatabaseId {
    DatabaseId(match options.seed {
        Some(seed) => crate::key::hash(&seed.to_le_bytes()),
        None => RandomState::new().hash_one((
            options.clock.unix_ms(),
            options.clock.monotonic_ns(),
            std::process::id(),
        )),
    })
}

fn recover(options: Options, dir: &Path, lock: Option<Box<dyn Send + Sync>>) -> Result<Core> {
    let loaded = Manifest::load(&*options.fs, dir)?;
    let path = dir.join(manifest::file_name(loaded.file));
    let mut recorded = Recorded::default();
    for edit in loaded.edits {
        recorded.add(edit, &path)?;
    }
    recorded.pass_over_files(&*options.fs, dir)?;
    start(options, dir, lock, loaded.database, recorded, Some(loaded.file))
}

/// Builds the core from what is recorded (nothing, for a new database), replays the logs, and, unless
/// read-only, puts a new manifest and a new log in force.
fn start(
    options: Options,
    dir: &Path,
    lock: Option<Box<dyn Send + Sync>>,
    database: DatabaseId,
    recorded: Recorded,
    manifest: Option<FileId>,
) -> Result<Core> {
    let mut core = Core {
        dir: dir.to_path_buf(),
        opened_unix_ms: options.clock.unix_ms(),
        opened_ns: options.clock.monotonic_ns(),
        database,
        cache: Cache::new(0),
        chunks: CHUNKS.share(0),
        memory: Memory::new(&options),
        stats: Stats::new(),
        catalog: RwLock::new(Catalog { next_id: recorded.next_keyspace, ..Catalog::default() }),
        commit: Commit::new(None, Vec::new(), 0),
        visible: AtomicU64::new(0),
        snapshots: Snapshots::default(),
        store: Mutex::new(Store::new(None, Vec::new(), Vec::new(), 0, recorded.knobs.clone())),
        next_file: AtomicU64::new(recorded.next_file),
        work: Work::new(),
        delays: Delays::default(),
        poison: Poison::default(),
        clock_high_ms: AtomicU64::new(recorded.clock_high_ms),
        tracing: Tracing::default(),
        closed: AtomicBool::new(false),
        _lock: lock,
        options,
    };
    let manifest_path = dir.join(manifest::file_name(manifest.unwrap_or_default()));
    for (&id, keyspace) in &recorded.keyspaces {
        let tree = core.recorded_tree(id, keyspace, &manifest_path)?;
        core.catalog.write().insert(Arc::new(tree));
    }
    if !core.catalog.read().by_name.contains_key(DEFAULT_KEYSPACE) {
        let id = KeyspaceId(core.catalog.read().next_id);
        let tree = core.new_tree(id, DEFAULT_KEYSPACE, core.options.keyspace.clone());
        core.catalog.write().insert(Arc::new(tree));
    }
    core.obey(&core.store.lock());
    let mut logs = core.replay(&recorded)?;
    let last_seqno = logs.iter().map(|log| log.last_seqno).fold(recorded.last_seqno, Seqno::max);
    core.visible.store(last_seqno, Ordering::Release);
    core.fit_cache();
    if core.options.read_only {
        core.commit = Commit::new(None, Vec::new(), last_seqno);
        return Ok(core);
    }
    // An open that writes nothing leaves an empty log, of which nothing would ever be flushed.
    logs.retain(|log| !log.is_empty);
    let log_file = core.new_file();
    let mut log = core.create_log(log_file)?;
    for old in logs.iter().filter(|old| old.durable < old.end) {
        core.write_again(old, &mut log)?;
    }
    let log_ends: Vec<_> = logs.iter().map(|log| (log.file, log.durable)).collect();
    let closed = logs.iter().map(|log| (log.file, log.last_seqno)).collect();
    let manifest_file = core.new_file();
    let files: Vec<_> = logs.iter().map(|log| log.file).chain([log_file]).collect();
    let knobs = &recorded.knobs;
    let whole = core.whole(&Store::new(None, log_ends.clone(), files.clone(), 0, knobs.clone()));
    let manifest = Manifest::create(&*core.options.fs, dir, database, manifest_file, &whole)?;
    if let Some(why) = manifest.poisoned() {
        core.poison.set(why);
    }
    let clock_ms = recorded.clock_high_ms;
    core.store = Mutex::new(Store::new(Some(manifest), log_ends, files, clock_ms, knobs.clone()));
    core.commit = Commit::new(Some(log), closed, last_seqno);
    core.remove_strangers(manifest_file);
    core.seal_recovered();
    Ok(core)
}

/// A log that recovery read.
struct ReplayedLog {
    file: FileId,
    end: u64,
    /// Known to be durable up to here.
    durable: u64,
    last_seqno: Seqno,
    /// It holds no batch.
    is_empty: bool,
}

impl Core {
    fn recorded_tree(&self, id: KeyspaceId, keyspace: &RecordedKeyspace, manifest: &Path) -> Result<Tree> {
        let recorded = settings::decode(&keyspace.settings).map_err(|error| error.in_file(manifest, 0))?;
        let operator = settings::find_operator(&recorded.operator, &keyspace.name, &self.options.operators)?;
        let mut options = KeyspaceOptions::new().layout(recorded.layout).shape(recorded.shape);
        options.merge_operator = operator;
        if keyspace.name == DEFAULT_KEYSPACE {
            options = self.options.override_default(options)?;
        }
        let tree = self.new_tree(id, &keyspace.name, options);
        let mut version = Version::new();
        for edit in &keyspace.edits {
            let applied = version
                .apply(edit, |descriptor| TableFile::new(&tree.context, descriptor.clone()))
                .map_err(|error| match error {
                    Error::Invalid(what) => Error::corrupt(manifest, 0, what),
                    other => other,
                })?;
            version = applied.version;
        }
        for table in version.tables() {
            let path = table.file().path();
            if !self.options.fs.exists(path)? {
                return Err(Error::corrupt(path, 0, "the table is missing; the manifest names it"));
            }
        }
        tree.install(Arc::new(version), &[]);
        Ok(tree)
    }

    /// Replays every log that is still needed into the memtables, in order.
    fn replay(&self, recorded: &Recorded) -> Result<Vec<ReplayedLog>> {
        let fs = &self.options.fs;
        // A log that was created just before a crash and is not recorded holds nothing.
        let files = recorded.logs.range(recorded.oldest_log..);
        let mut replayed: Vec<ReplayedLog> = Vec::new();
        let mut logs = wal::Replay::new(&**fs, &self.dir, self.database);
        let mut last_seqno = recorded.last_seqno;
        let mut newest = 0;
        let mut deleted: BTreeMap<KeyspaceId, Vec<RangeTombstone>> = BTreeMap::new();
        for &file in files {
            let path = self.dir.join(wal::file_name(file));
            if !fs.exists(&path)? {
                return Err(Error::corrupt(path, 0, "the log is missing; the manifest names it"));
            }
            let end = recorded.log_ends.get(&file).map_or(Tail::Open, |&end| Tail::CutAt(end));
            let mut is_empty = true;
            let log = logs.next(file, end, |offset, payload| {
                is_empty = false;
                let damaged = |what: &str| Error::corrupt(&path, offset, what.to_string());
                let reader = BatchReader::new(payload).map_err(|error| error.in_file(&path, offset))?;
                if reader.next_seqno() <= newest {
                    return Err(damaged("operations are out of the commit order"));
                }
                for operation in reader {
                    let (seqno, operation) = operation.map_err(|error| error.in_file(&path, offset))?;
                    newest = seqno;
                    let Some(tree) = self.catalog.read().by_id.get(&operation.keyspace()).cloned() else {
                        continue;
                    };
                    if seqno > tree.flushed_seqno() {
                        let deleted = deleted.entry(tree.id).or_default();
                        commit::insert(&tree.view().active, seqno, operation, deleted);
                    }
                }
                Ok(())
            })?;
            // One that follows a torn end goes when the new manifest does not name it.
            let Some(log) = log else { continue };
            if log.vouches {
                replayed.iter_mut().for_each(|before| before.durable = before.end);
            }
            last_seqno = last_seqno.max(newest);
            replayed.push(ReplayedLog { file, end: log.end, durable: log.durable, last_seqno, is_empty });
        }
        for tree in self.trees() {
            tree.view().active.add_range_tombstones(deleted.remove(&tree.id).unwrap_or_default());
        }
        Ok(replayed)
    }

    /// Writes what follows the durable part of a log to the new one, durably.
    ///
    /// It may be nowhere but in the system's memory, if its process was killed before it synced, or if a sync
    /// failed. A second sync of the old file would prove nothing then: some systems forget what they could
    /// not write and report success.
    fn write_again(&self, old: &ReplayedLog, log: &mut wal::Writer) -> Result<()> {
        let mut group: Vec<Vec<u8>> = Vec::new();
        let mut bytes = 0;
        let tail = Tail::CutAt(old.end);
        wal::replay(&*self.options.fs, &self.dir, self.database, old.file, tail, |offset, payload| {
            if offset < old.durable {
                return Ok(());
            }
            bytes += payload.len();
            group.push(payload.to_vec());
            if bytes < WRITE_AGAIN_BYTES {
                return Ok(());
            }
            bytes = 0;
            let full = std::mem::take(&mut group);
            log.append(full.iter().map(|payload| [&payload[..]]))
        })?;
        log.append(group.iter().map(|payload| [&payload[..]]))?;
        log.sync()
    }

    /// Removes files of ours that the new manifest does not name: outputs of unfinished jobs, old
    /// manifests, logs that are not needed. Files of others are left alone.
    fn remove_strangers(&self, manifest: FileId) {
        let mut tables = BTreeSet::new();
        for tree in self.trees() {
            tables.extend(tree.view().version.tables().map(|table| table.id()));
        }
        let logs = self.commit.lock().logs();
        let Ok(names) = self.options.fs.list_dir(&self.dir) else { return };
        for name in names {
            let stranger = table::file_id(&name).is_some_and(|file| !tables.contains(&file))
                || manifest::file_id(&name).is_some_and(|file| file != manifest)
                || wal::file_id(&name).is_some_and(|file| !logs.contains(&file));
            let path = self.dir.join(name);
            if stranger && manifest::may_be_ours(&*self.options.fs, &path).unwrap_or(false) {
                // One that cannot be removed now is removed at a later open.
                let _ = self.options.fs.remove_file(&path);
            }
        }
    }

    /// Recovered memtables that are over their size are flushed first thing; all are if too many logs wait
    /// for that: a database that is opened often and written little would else gather logs forever.
    fn seal_recovered(&self) {
        let limit = self.write_buffer_bytes();
        let too_many_logs = self.commit.lock().logs().len() > commit::LOGS_MAX;
        for tree in self.trees() {
            if too_many_logs || tree.view().active.is_full(limit) {
                tree.seal();
                self.work.wake();
            }
        }
    }
}
