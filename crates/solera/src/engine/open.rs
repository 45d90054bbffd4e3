//! Opening and recovery: `open` locks, reads the manifest, replays the logs, then writes a new log
//! and a new manifest. It creates a missing database if it may, and its default keyspace.
//!
//! Records that are not known to be durable are written again, to the new log. Memtables over their
//! size are sealed, to be flushed first; with more than 8 logs all are.
//!
//! What must hold: nothing of the old state is changed before the new manifest is in force
//! (`CURRENT` names it). So a crash before leaves the old database. Then files of ours that it does
//! not name go. Where a log or table is missing, the open fails. A read-only open changes nothing
//! and shares the lock.
//!
//! Caller: `Handle::open`, for `Options::open`.

use super::{
    apply,
    assignments::Assignments,
    callers::Callers,
    catalog::{Catalog, DEFAULT_KEYSPACE},
    change::Obeying,
    commit::Commit,
    core::Core,
    drops::Drops,
    expiry::Expiry,
    files::Files,
    keyspace_record,
    leaving::Leaving,
    lending::Lending,
    logs::{LOGS_AT_OPEN_MAX, LOGS_MAX, Logs, Present},
    memory::{Budget, Memory},
    options::{KeyspaceOptions, Options},
    reclaiming::Reclaiming,
    resting::Resting,
    snapshots::Snapshots,
    store::{State, Store, new_tree},
    throttle::Throttle,
    tracing::Tracing,
    values::{Moved, Place},
    work::Work,
};
use crate::{
    cache::Cache,
    canary::{Bug, planted},
    codec::DecodeError,
    dir::{FileName, magic},
    error::{Error, Result},
    frame::FRAME_HEADER_BYTES,
    ids::{DatabaseId, FileId, KeyspaceId, Seqno},
    stats::Stats,
    sync::{Mutex, atomic::AtomicBool},
    table::TableFile,
    tombstone::RangeTombstone,
    tree::Tree,
    values::Pointer,
    version::{Edit, Manifest, TreeEdit, Version, manifest},
    vfs::{Fs, read_exact_at},
    wal::{
        self, Tail,
        batch::{BatchReader, Operation},
    },
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
    /// The names of all of them.
    names: BTreeSet<String>,
    next_file: u64,
    next_keyspace: u32,
    last_seqno: Seqno,
    clock_high_ms: u64,
    oldest_log: FileId,
    logs: BTreeSet<FileId>,
    log_ends: BTreeMap<FileId, u64>,
    assignments: Assignments,
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
            let is_new = !self.keyspaces.contains_key(&created.id) && self.names.insert(created.name.clone());
            if !is_new || created.id.0 == u32::MAX {
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
            .assignments
            .iter()
            .filter_map(|assignment| assignment.keyspace)
            .find(|id| !self.keyspaces.contains_key(id))
        {
            return Err(unknown(id));
        }
        self.assignments.add(edit.receipts, edit.assignments);
        for (id, tree) in edit.trees {
            self.keyspaces.get_mut(&id).ok_or_else(|| unknown(id))?.edits.push(tree);
        }
        for id in edit.dropped {
            let dropped = self.keyspaces.remove(&id).ok_or_else(|| unknown(id))?;
            self.names.remove(&dropped.name);
            self.assignments.forget(id);
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

    /// Numbers of files that exist are never given out again, recorded or not: they may be what a
    /// crash left of a creation or a job.
    fn pass_over_files(&mut self, fs: &dyn Fs, dir: &Path) -> Result<()> {
        for name in fs.list_dir(dir)?.into_iter().filter(|_| !planted(Bug::ReuseFileNumber)) {
            let file = FileName::parse(&name).and_then(FileName::number);
            self.next_file = self.next_file.max(file.map_or(0, |file| file.0.saturating_add(1)));
        }
        Ok(())
    }

    /// The keyspaces, as recorded but for what this open says, and the default one. They are taken
    /// out one after the other: of very many, all are never there twice.
    fn catalog(
        &mut self,
        options: &Options,
        budget: &Budget,
        files: &Files,
        manifest: &Path,
    ) -> Result<Catalog> {
        let catalog = Catalog::new(self.next_keyspace);
        self.names.clear();
        while let Some((id, keyspace)) = self.keyspaces.pop_first() {
            let tree = recorded_tree(id, &keyspace, options, budget, files, manifest)?;
            catalog.insert(Arc::new(tree), |_| ());
        }
        if catalog.named(DEFAULT_KEYSPACE).is_none() {
            let id = KeyspaceId(catalog.next_id());
            let tree = new_tree(files, budget, id, DEFAULT_KEYSPACE, options.keyspace.clone());
            catalog.insert(Arc::new(tree), |_| ());
        }
        Ok(catalog)
    }
}

/// Opens or creates the database in `dir`.
pub(super) fn open(options: Options, dir: &Path) -> Result<Core> {
    options.validate()?;
    let fs = options.fs.clone();
    // The program may change its current directory.
    let dir = &fs.absolute(dir)?;
    if !Manifest::exists(&*fs, dir)? {
        prepare(&options, &*fs, dir)?;
    }
    let path = FileName::Lock.in_dir(dir);
    let lock = match if options.read_only { fs.lock_shared(&path) } else { fs.lock(&path).map(Some) } {
        Ok(lock) => lock,
        Err(Error::Locked { pid, .. }) => return Err(Error::Locked { path: dir.to_path_buf(), pid }),
        Err(error) => return Err(error),
    };
    if options.direct_reads {
        // A copy that is only read may be without the first.
        let file = if lock.is_some() { FileName::Lock } else { FileName::Current };
        probe_direct_reads(&*fs, dir, &file.in_dir(dir))?;
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

/// Refuses direct reads where there are none, at the open and not at the first read of a table.
/// `file` exists.
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
    let path = FileName::Manifest(loaded.file).in_dir(dir);
    let mut recorded = Recorded::default();
    for edit in loaded.edits {
        recorded.add(edit, &path)?;
    }
    recorded.pass_over_files(&*options.fs, dir)?;
    start(options, dir, lock, loaded.database, recorded, Some(loaded.file))
}

/// Builds the parts from what is recorded (nothing, for a new database), replays the logs, and,
/// unless read-only, puts a new manifest and a new log in force.
fn start(
    options: Options,
    dir: &Path,
    lock: Option<Box<dyn Send + Sync>>,
    database: DatabaseId,
    mut recorded: Recorded,
    manifest: Option<FileId>,
) -> Result<Core> {
    let (opened_unix_ms, opened_ns) = (options.clock.unix_ms(), options.clock.monotonic_ns());
    let cache = Cache::new(0);
    let fs = options.fs.clone();
    let files = Files::new(fs, dir, database, options.direct_reads, cache.clone(), recorded.next_file);
    let holdings = files.holdings.clone();
    let memory = Memory::new(Budget::given(&options), cache, holdings, options.read_only);
    files.gap_room.set_bytes_max(memory.gap_bytes_max());
    let manifest_path = FileName::Manifest(manifest.unwrap_or_default()).in_dir(dir);
    let catalog = recorded.catalog(&options, &memory.budget, &files, &manifest_path)?;
    let work = Work::new();
    Obeying { catalog: &catalog, memory: &memory, work: &work }.obey_at_open(&recorded.assignments);
    let mut replayed = replay(&recorded, &files, &catalog, None)?;
    let last_seqno = replayed.iter().map(|log| log.last_seqno).fold(recorded.last_seqno, Seqno::max);
    memory.fit_cache(&catalog);
    let (mut log, mut logs) = (None, Vec::new());
    if !options.read_only {
        // An open that writes nothing leaves an empty log, of which nothing would ever be flushed.
        replayed.retain(|log| !log.is_empty);
        let (begun, moved) = begin_log(&replayed, &files)?;
        log = Some(begun);
        if !moved.to.is_empty() {
            // Pointers to what was written again lead to the new log: nothing proves the old one.
            catalog.trees().iter().for_each(|tree| tree.empty_memtables());
            replay(&recorded, &files, &catalog, Some(&moved))?;
        }
        logs = replayed.iter().map(|log| log.file).chain(log.as_ref().map(wal::Writer::file)).collect();
    }
    // Who writes has written again what was not proven; who only reads may lose it yet.
    let durable = if options.read_only { proven(&replayed, last_seqno) } else { last_seqno };
    let log_ends = replayed.iter().map(|log| (log.file, log.durable)).collect();
    let snapshots = Snapshots::new(last_seqno);
    let expiry = Expiry::new(options.clock.clone(), recorded.clock_high_ms);
    let state = State::new(log_ends, logs, recorded.assignments);
    let mut store = Store::new(files, catalog, snapshots, expiry, state);
    store.leaving = Leaving::new(options.background_threads > 0 && !options.read_only);
    let closed = replayed.iter().map(|log| (log.file, log.last_seqno, log.end)).collect();
    let core = Core {
        opened_unix_ms,
        opened_ns,
        stats: Stats::new(),
        store,
        commit: Commit::new(Present::new(log, closed), last_seqno).proven_to(durable),
        logs: Logs::default(),
        reclaiming: Reclaiming::default(),
        resting: Resting::default(),
        drops: Drops::default(),
        lending: Lending::default(),
        memory,
        work,
        throttle: Throttle::new(options.clock.clone(), options.background_threads == 0),
        tracing: Tracing::default(),
        closed: AtomicBool::new(false),
        callers: Callers::default(),
        lock: Mutex::new(lock),
        options,
    };
    if !core.options.read_only {
        let manifest = core.store.begin_manifest()?;
        remove_unreferenced(&core.store, &core.commit.lock().log.files(), manifest);
        seal_recovered(&core);
    }
    Ok(core)
}

/// A log that recovery read.
struct ReplayedLog {
    file: FileId,
    end: u64,
    /// Known to be durable up to here.
    durable: u64,
    /// Where its last batch ends: marks may follow.
    batches_end: u64,
    last_seqno: Seqno,
    /// It holds no batch.
    is_empty: bool,
}

/// Up to which number all that was replayed is known to be durable, if `last` is the newest.
fn proven(replayed: &[ReplayedLog], last: Seqno) -> Seqno {
    match replayed.iter().position(|log| log.durable < log.batches_end) {
        Some(at) => at.checked_sub(1).map_or(0, |before| replayed[before].last_seqno),
        None => last,
    }
}

/// The tree of a keyspace that is recorded in `manifest`.
fn recorded_tree(
    id: KeyspaceId,
    keyspace: &RecordedKeyspace,
    options: &Options,
    budget: &Budget,
    files: &Files,
    manifest: &Path,
) -> Result<Tree> {
    let recorded = keyspace_record::decode(&keyspace.settings).map_err(|error| error.in_file(manifest, 0))?;
    let operator = keyspace_record::find_operator(&recorded.operator, &options.operators);
    let mut kept = KeyspaceOptions::new().layout(recorded.layout).shape(recorded.shape);
    kept.merge_operator = operator;
    kept.separate_from = recorded.separate_from;
    if keyspace.name == DEFAULT_KEYSPACE {
        kept = keyspace_record::of_default(options, kept)?;
    }
    let tree = new_tree(files, budget, id, &keyspace.name, kept);
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
        if !files.fs.exists(path)? {
            return Err(Error::corrupt(path, 0, "the table is missing; the manifest names it"));
        }
    }
    files.keep_values(&mut version);
    let empty = tree.view().version.clone();
    tree.install(&empty, Arc::new(version), &[]);
    Ok(tree)
}

/// Replays every log that is still needed into the memtables, in order.
fn replay(
    recorded: &Recorded,
    files: &Files,
    catalog: &Catalog,
    moved: Option<&Moved>,
) -> Result<Vec<ReplayedLog>> {
    // A log that was created just before a crash and is not recorded holds nothing.
    let needed = recorded.logs.range(recorded.oldest_log..);
    let mut replayed: Vec<ReplayedLog> = Vec::new();
    let mut logs = wal::Replay::new(&*files.fs, &files.dir, files.database);
    let mut last_seqno = recorded.last_seqno;
    let mut newest = 0;
    let mut deleted: BTreeMap<KeyspaceId, Vec<RangeTombstone>> = BTreeMap::new();
    for &file in needed {
        let path = files.path(FileName::Log(file));
        if !files.fs.exists(&path)? {
            return Err(Error::corrupt(path, 0, "the log is missing; the manifest names it"));
        }
        let end = recorded.log_ends.get(&file).map_or(Tail::Open, |&end| Tail::CutAt(end));
        let mut batches_end = 0;
        let value_file = files.values.file(file, false);
        let log = logs.next(file, end, |offset, payload| {
            batches_end = offset + (FRAME_HEADER_BYTES + payload.len()) as u64;
            let damaged = |what: &str| Error::corrupt(&path, offset, what.to_string());
            let reader = BatchReader::new(payload).map_err(|error| error.in_file(&path, offset))?;
            if reader.next_seqno() <= newest {
                return Err(damaged("operations are out of the commit order"));
            }
            for operation in reader {
                let (seqno, operation) = operation.map_err(|error| error.in_file(&path, offset))?;
                newest = seqno;
                let Some(tree) = catalog.numbered(operation.keyspace()) else {
                    continue;
                };
                if seqno > tree.flushed_seqno() {
                    let payload_at = offset + FRAME_HEADER_BYTES as u64;
                    let place = Place { log: &value_file, payload, payload_at, moved };
                    let deleted = deleted.entry(tree.id).or_default();
                    apply::operation_to(&tree.view().active, seqno, operation, Some(&place), deleted);
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
        let (end, durable, is_empty) = (log.end, log.durable, batches_end == 0);
        replayed.push(ReplayedLog { file, end, durable, batches_end, last_seqno, is_empty });
    }
    for tree in catalog.trees() {
        tree.view().active.add_range_tombstones(deleted.remove(&tree.id).unwrap_or_default());
    }
    Ok(replayed)
}

/// Begins a log for what is written from now on. What is not known to be durable in the old ones is
/// written to it again.
fn begin_log(replayed: &[ReplayedLog], files: &Files) -> Result<(wal::Writer, Moved)> {
    let mut log = wal::Writer::create(&*files.fs, &files.dir, files.database, files.new_file())?;
    let mut moved = Moved { log: files.values.file(log.file(), false), to: BTreeMap::new() };
    let mut unproven = replayed.iter().filter(|old| old.durable < old.end);
    if let Err(error) = unproven.try_for_each(|old| write_again(old, files, &mut log, &mut moved.to)) {
        // No manifest names it. On a full disk each try would leave another one.
        let path = files.path(FileName::Log(log.file()));
        drop((log, moved));
        let _ = files.fs.remove_file(&path);
        return Err(error);
    }
    Ok((log, moved))
}

/// Writes what follows the durable part of a log to the new one, durably.
///
/// It may be nowhere but in the system's memory, if its process was killed before it synced, or if
/// a sync failed. A second sync of the old file would prove nothing then: some systems forget what
/// they could not write and report success. Notes in `moved` which values lie elsewhere now.
fn write_again(
    old: &ReplayedLog,
    files: &Files,
    log: &mut wal::Writer,
    moved: &mut BTreeMap<Pointer, Pointer>,
) -> Result<()> {
    let mut group: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    let mut next_at = log.next_payload_at();
    let tail = Tail::CutAt(old.end);
    wal::replay(&*files.fs, &files.dir, files.database, old.file, tail, |offset, payload| {
        if offset < old.durable {
            return Ok(());
        }
        bytes += payload.len();
        let mut payload = payload.to_vec();
        let from = (old.file, offset + FRAME_HEADER_BYTES as u64);
        note_moved(&payload, from, (log.file(), next_at), moved)
            .and_then(|()| wal::batch::place(&mut payload, log.binding(), next_at))
            .map_err(|error| error.in_file(files.path(FileName::Log(old.file)), offset))?;
        next_at += (payload.len() + FRAME_HEADER_BYTES) as u64;
        group.push(payload);
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

/// Notes where the separated values of a batch lie that is written again; places are a file and
/// where the payload begins.
fn note_moved(
    payload: &[u8],
    from: (FileId, u64),
    to: (FileId, u64),
    moved: &mut BTreeMap<Pointer, Pointer>,
) -> Result<(), DecodeError> {
    for numbered in BatchReader::new(payload)? {
        if let (_, Operation::Entry { kind, value, .. }) = numbered?
            && kind.is_separated()
        {
            let (at, len) = wal::batch::record_in(payload, kind, value);
            let place = |(file, payload_at): (FileId, u64)| Pointer {
                file,
                offset: payload_at + at as u64,
                len,
                sorted: false,
            };
            moved.insert(place(from), place(to));
        }
    }
    Ok(())
}

/// Removes files of ours that the new manifest does not name: outputs of unfinished jobs, old
/// manifests, logs that are not needed. Files that are not ours are left alone.
fn remove_unreferenced(store: &Store, logs: &[FileId], manifest: FileId) {
    let files = &store.files;
    let (mut tables, mut value_files) = (BTreeSet::new(), BTreeSet::new());
    for tree in store.catalog.trees() {
        let view = tree.view();
        tables.extend(view.version.tables().map(|table| table.id()));
        value_files.extend(view.version.values().iter().map(|(file, _)| file));
    }
    let Ok(names) = files.fs.list_dir(&files.dir) else { return };
    for name in names.iter().filter_map(|name| FileName::parse(name)) {
        let stranger = match name {
            FileName::Table(file) => !tables.contains(&file),
            FileName::Manifest(file) => file != manifest,
            FileName::Log(file) => !logs.contains(&file) && !value_files.contains(&file),
            FileName::Values(file) => !value_files.contains(&file),
            // One that is under way in another process fails, and says so.
            FileName::Probe(_) => true,
            // Of a process that was killed: no other has the database now.
            FileName::Observed => true,
            FileName::Current
            | FileName::NextCurrent
            | FileName::Lock
            | FileName::NextObserved
            | FileName::Tuned
            | FileName::NextTuned
            | FileName::TunedLock => false,
        };
        let path = files.path(name);
        let is_ours = || match name {
            FileName::Observed => is_observation(&*files.fs, &path),
            _ => manifest::may_be_ours(&*files.fs, &path),
        };
        if stranger && is_ours().unwrap_or(false) {
            // One that cannot be removed now is removed at a later open.
            let _ = files.fs.remove_file(&path);
        }
    }
}

/// Whether the file at `path` begins as what a database publishes.
fn is_observation(fs: &dyn Fs, path: &Path) -> Result<bool> {
    let mut front = magic::Magic::default();
    read_exact_at(&*fs.open(path)?, &mut front, 0)?;
    Ok(front == magic::OBSERVATION)
}

/// Recovered memtables that are over their size are flushed first thing; all are if too many logs
/// wait for that: a database that is opened often and written little would else gather logs
/// forever. Where programs end too soon for workers to do it, the opener does it itself: it takes
/// about as long as to read those logs once more.
fn seal_recovered(core: &Core) {
    let limit = core.memory.write_buffer_bytes();
    let logs = core.commit.lock().log.files().len();
    for tree in core.trees() {
        if logs > LOGS_MAX || tree.view().active.is_full(limit) {
            tree.seal();
            core.work.wake();
        }
    }
    if logs > LOGS_AT_OPEN_MAX
        && let Err(error) = core.flush_trees(&core.trees())
    {
        // The logs stay, and workers try again.
        core.work.note_failure(&error);
    }
}
