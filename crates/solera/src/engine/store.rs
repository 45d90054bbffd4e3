//! The store: `Store`, what the database consists of, and the manifest that says so durably.
//!
//! `install` and `install_flushed` show readers new versions, `append` records knobs. It creates
//! and drops keyspaces, records how they are kept, begins logs and lets them go. It writes the
//! manifest anew when that is twice as long as when it was new, and 64 KiB more.
//!
//! What must hold: a change is first one manifest record, synced; only then do readers see it.
//! Useless tables and value files are marked, and go when no reader reads them (`leaving`). An edit
//! is made from the version that it changes, under the store lock.
//!
//! Callers: `job_parts`, `large` and `ingest` install; `logs`, `change` and `handle` change other
//! things; `open` makes it. Most parts of `engine`, `db` and `control` read its parts.

use super::{
    assignments::Assignments,
    catalog::{Catalog, check_name},
    expiry::Expiry,
    files::Files,
    keyspace_record,
    leaving::Leaving,
    memory::Budget,
    options::KeyspaceOptions,
    poison::Poison,
    snapshots::Snapshots,
};
use crate::{
    canary::{Bug, planted},
    compaction::{Horizon, Shape, Written},
    dir::FileName,
    error::{Error, Result},
    ids::{FileId, KeyspaceId, Seqno},
    key::KeyRange,
    memtable::Memtable,
    sync::{Mutex, MutexGuard},
    table::TableFile,
    tree::{Settings, Tree, View},
    values::ValueFile,
    version::{Applied, CreatedKeyspace, Edit, Manifest, TableRef, TreeEdit, Version},
    wal,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The manifest is written anew when it has grown by as many bytes and by its first size.
const MANIFEST_GROWTH_BYTES: u64 = 64 << 10;

/// A new manifest says what trees there are in records of about so many bytes.
const GROUP_BYTES: usize = 256 << 10;
/// About what a tree's settings take of that.
const TREE_BYTES: usize = 64;
/// About what is said of a table, its keys aside.
const TABLE_BYTES: usize = 64;

/// What was flushed of a tree and is to be installed.
pub(super) struct Flushed {
    pub(super) tree: Arc<Tree>,
    pub(super) written: Written,
    /// The memtables that were written,
    pub(super) memtables: Vec<Arc<Memtable>>,
    /// and the last number in them.
    pub(super) last: Option<Seqno>,
}

/// The flushes of one tree that are installed together.
struct Flushes<'f> {
    tree: &'f Tree,
    before: Arc<Version>,
    after: Arc<Version>,
    memtables: Vec<Arc<Memtable>>,
    unreferenced: Vec<Arc<TableFile>>,
}

impl<'f> Flushes<'f> {
    fn none_of(tree: &'f Tree) -> Flushes<'f> {
        let before = tree.view().version.clone();
        Flushes { tree, after: before.clone(), before, memtables: Vec::new(), unreferenced: Vec::new() }
    }
}

/// What the database consists of. The manifest is behind the lock; the rest is read by all threads.
pub(crate) struct Store {
    pub(crate) files: Files,
    pub(crate) poison: Poison,
    pub(crate) catalog: Catalog,
    pub(crate) snapshots: Snapshots,
    pub(crate) expiry: Expiry,
    /// What no version names any more.
    pub(super) leaving: Leaving,
    state: Mutex<State>,
}

/// What the store lock guards.
pub(super) struct State {
    /// `None` in a read-only database, and in one that was closed.
    manifest: Option<Manifest>,
    is_closed: bool,
    /// Size at which the manifest is written anew.
    rotate_at: u64,
    /// Logs that recovery read, with their valid ends; they matter until the logs are gone.
    log_ends: Vec<(FileId, u64)>,
    /// Every log that is needed, the one in use last.
    logs: Vec<FileId>,
    /// What the manifest says of the latest time by which something expired, in Unix milliseconds.
    clock_recorded_ms: u64,
    /// Knobs that were set while the database ran, this time or earlier.
    pub(super) assignments: Assignments,
}

impl State {
    /// As recovered: the `logs` that are needed, the one in use last, and the valid ends of older
    /// ones.
    pub(super) fn new(log_ends: Vec<(FileId, u64)>, logs: Vec<FileId>, assignments: Assignments) -> State {
        State {
            manifest: None,
            is_closed: false,
            rotate_at: 0,
            log_ends,
            logs,
            clock_recorded_ms: 0,
            assignments,
        }
    }
}

/// About what the record of a table takes.
fn recorded_bytes(table: &TableRef) -> usize {
    let of = |range: &KeyRange| range.start.len() + range.end.key().map_or(0, <[u8]>::len);
    TABLE_BYTES + of(&table.descriptor().range) + of(table.clip())
}

/// The size at which a manifest that is new now is written anew: twice the first size and some.
fn rotate_at(manifest: &Manifest) -> u64 {
    manifest.bytes() * 2 + MANIFEST_GROWTH_BYTES
}

impl Store {
    /// The parts and their state, without a manifest: nothing can be recorded.
    pub(super) fn new(
        files: Files,
        catalog: Catalog,
        snapshots: Snapshots,
        expiry: Expiry,
        state: State,
    ) -> Store {
        let (poison, leaving) = (Poison::default(), Leaving::default());
        Store { files, poison, catalog, snapshots, expiry, leaving, state: Mutex::new(state) }
    }

    /// Puts a new manifest, which holds everything, in force. Returns its number.
    pub(super) fn begin_manifest(&self) -> Result<FileId> {
        let mut state = self.lock();
        let (file, clock_ms) = (self.files.new_file(), self.expiry.high_ms());
        let whole = self.whole(&state);
        let manifest = Manifest::create(&*self.files.fs, &self.files.dir, self.files.database, file, whole)?;
        self.poison_with(&manifest);
        state.rotate_at = rotate_at(&manifest);
        state.clock_recorded_ms = clock_ms;
        state.manifest = Some(manifest);
        Ok(file)
    }

    /// What readers may see now.
    pub(super) fn horizon(&self) -> Horizon {
        self.snapshots.horizon(|| self.expiry.look_ms())
    }

    /// Takes the store lock: while it is held nothing is recorded.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// If nothing can be appended to the manifest any more, the database is poisoned.
    fn poison_with(&self, manifest: &Manifest) {
        if let Some(why) = manifest.poisoned() {
            self.poison.set(why);
        }
    }

    /// The whole state as edits, for a new manifest. Under the store lock, between two changes,
    /// until the last is taken. Trees come in groups: of very many, or of long keys, the edits
    /// would take as much memory as the trees.
    fn whole(&self, state: &State) -> impl Iterator<Item = Edit> + use<> {
        let (first, others) = match state.logs.split_first() {
            Some((&first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        let others: Vec<FileId> = others.to_vec();
        let mut trees = self.catalog.trees().into_iter().peekable();
        let mut front = Some(Edit { log_ends: state.log_ends.clone(), new_log: first, ..self.counters() });
        // What was set concerns keyspaces, and comes after all of them.
        let Edit { mut receipts, mut assignments, .. } = state.assignments.to_edit();
        let groups = std::iter::from_fn(move || {
            let is_first = front.is_some();
            let mut edit = front.take().unwrap_or_default();
            let mut bytes = 0;
            while bytes < GROUP_BYTES
                && let Some(tree) = trees.next()
            {
                let version = tree.view().version.clone();
                bytes += TREE_BYTES + version.tables().map(recorded_bytes).sum::<usize>();
                edit.created.push(created(&tree));
                edit.trees.push((tree.id, version.to_edit()));
            }
            if trees.peek().is_none() {
                edit.receipts = std::mem::take(&mut receipts);
                edit.assignments = std::mem::take(&mut assignments);
            }
            (is_first || !edit.trees.is_empty()).then_some(edit)
        });
        groups.chain(others.into_iter().map(|log| Edit { new_log: Some(log), ..Edit::default() }))
    }

    /// The part of the state that does not concern logs: what a checkpoint takes along.
    pub(super) fn whole_trees(&self, state: &State) -> Edit {
        let mut whole = self.counters();
        Edit { receipts: whole.receipts, assignments: whole.assignments, .. } = state.assignments.to_edit();
        for tree in self.catalog.trees() {
            whole.created.push(created(&tree));
            whole.trees.push((tree.id, tree.view().version.to_edit()));
        }
        whole
    }

    /// The counters as they are now; every edit carries them.
    fn counters(&self) -> Edit {
        Edit {
            next_file: Some(self.files.next()),
            next_keyspace: Some(self.catalog.next_id()),
            last_seqno: Some(self.snapshots.visible()),
            clock_high_ms: Some(self.expiry.high_ms()),
            ..Edit::default()
        }
    }

    /// Makes `edit` durable.
    fn record(&self, state: &mut State, edit: Edit) -> Result<()> {
        self.poison.check()?;
        // Before the append, not after it: what `edit` changes is not part of the state yet.
        if state.manifest.as_ref().is_some_and(|manifest| manifest.bytes() >= state.rotate_at) {
            self.rotate_manifest(state);
            self.poison.check()?;
        }
        self.append(state, &edit)
    }

    /// As [`Store::record`], but never writes the manifest anew.
    pub(super) fn append(&self, state: &mut State, edit: &Edit) -> Result<()> {
        self.poison.check()?;
        let Some(manifest) = &mut state.manifest else {
            return Err(if state.is_closed { Error::Closed } else { Error::ReadOnly });
        };
        let appended = manifest.append(edit);
        // After an error the record may or may not be in the file, and nothing may build on either.
        // After a success the mark behind the record may have failed and left something that cannot
        // be removed: the record is durable, and the last one.
        self.poison_with(manifest);
        appended?;
        state.clock_recorded_ms = state.clock_recorded_ms.max(edit.clock_high_ms.unwrap_or(0));
        Ok(())
    }

    /// Gives up the manifest: nothing is recorded any more.
    pub(super) fn let_go(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        drop(state.manifest.take());
        self.leaving.keep_rest();
    }

    /// What was set, and the changes that set it.
    pub(crate) fn assignments(&self) -> Assignments {
        self.lock().assignments.clone()
    }

    /// Records how late it has been, so that what has expired stays so if the clock is set back
    /// before the next open.
    pub(super) fn record_clock(&self) -> Result<()> {
        let mut state = self.lock();
        if self.expiry.high_ms() <= state.clock_recorded_ms {
            return Ok(());
        }
        self.record(&mut state, self.counters())
    }

    /// Refuses if the directory is not there any more, or another one has its place: what is
    /// written reaches no reader.
    pub(super) fn check_directory(&self) -> Result<()> {
        self.files.check_directory()?;
        match self.lock().manifest.as_ref().filter(|manifest| manifest.is_gone()) {
            Some(manifest) => {
                let path = self.files.path(FileName::Manifest(manifest.file()));
                Err(Error::io("find", path, std::io::ErrorKind::NotFound.into()))
            }
            None => Ok(()),
        }
    }

    /// Writes the manifest anew. A failure costs nothing: the present one goes on, if it can. Where
    /// another directory has the place, the database there would lose its own: then the present one
    /// goes on to say so.
    fn rotate_manifest(&self, state: &mut State) {
        let whole = self.whole(state);
        let Some(manifest) = &mut state.manifest else { return };
        if manifest.is_gone() {
            return;
        }
        let old = manifest.file();
        let rotated = manifest.rotate(&*self.files.fs, &self.files.dir, self.files.new_file(), whole);
        state.rotate_at = rotate_at(manifest);
        self.poison_with(manifest);
        if rotated.is_ok() {
            self.files.remove(FileName::Manifest(old));
        }
    }

    /// Records that `log` exists from now on.
    fn record_log(&self, log: FileId) -> Result<()> {
        let mut state = self.lock();
        assert!(state.logs.last().is_none_or(|last| *last < log), "recovery reads logs by their numbers");
        self.record(&mut state, Edit { new_log: Some(log), ..self.counters() })?;
        state.logs.push(log);
        Ok(())
    }

    /// Records that logs before `oldest` are not needed to recover, and removes those of them to
    /// which no table points.
    pub(super) fn let_logs_go(&self, oldest: FileId) -> Result<()> {
        let mut state = self.lock();
        self.record(&mut state, Edit { oldest_log: Some(oldest), ..self.counters() })?;
        let gone: Vec<_> = state.logs.extract_if(.., |file| *file < oldest).collect();
        state.log_ends.retain(|(file, _)| *file >= oldest);
        let gone: Vec<_> = gone.into_iter().filter(|log| !self.is_live(*log)).collect();
        drop(state);
        gone.into_iter().for_each(|log| self.remove_log(log));
        Ok(())
    }

    /// Creates an empty log whose name is durable.
    pub(super) fn create_log(&self, file: FileId) -> Result<wal::Writer> {
        wal::Writer::create(&*self.files.fs, &self.files.dir, self.files.database, file)
    }

    /// Creates the log that follows those that exist, and records it. No file is left of it if that
    /// fails.
    pub(super) fn begin_log(&self) -> Result<wal::Writer> {
        let file = self.files.new_file();
        let log = self.create_log(file)?;
        if let Err(error) = self.record_log(file) {
            drop(log);
            self.remove_unrecorded(FileName::Log(file));
            return Err(error);
        }
        Ok(log)
    }

    /// Makes a change of `tree` durable, then visible. `edit` is made from the version that it will
    /// change; `written` are the files that it adds, removed again if it does not come about;
    /// `flushed` memtables are in them; `commit` is the newest sequence number given out, if it is
    /// not visible yet.
    pub(super) fn install(
        &self,
        tree: &Tree,
        written: &Written,
        flushed: &[Arc<Memtable>],
        commit: Option<Seqno>,
        edit: impl FnOnce(&Version) -> TreeEdit,
    ) -> Result<()> {
        let mut state = self.lock();
        let version = tree.view().version.clone();
        let installed = self.install_in(&mut state, tree, &version, commit, edit(&version));
        let applied = match installed {
            Ok(applied) => applied,
            Err(error) => {
                drop(state);
                self.remove_written(written);
                return Err(error);
            }
        };
        tree.install(&version, Arc::new(applied.version), flushed);
        applied.unreferenced.iter().for_each(|file| file.mark_obsolete());
        let gone = self.release_values(&state, version.values().iter().map(|(file, _)| file));
        drop(state);
        self.leaving.hold(applied.unreferenced, gone);
        Ok(())
    }

    /// As [`Store::install`], of many flushes with one record, of one tree in their order. `commit`
    /// is as there. A tree that was dropped meanwhile is left out.
    pub(super) fn install_flushed(&self, flushed: Vec<Flushed>, commit: Option<Seqno>) -> Result<()> {
        let mut state = self.lock();
        let (gone, flushed): (Vec<_>, Vec<_>) = flushed.into_iter().partition(|one| one.tree.is_dropped());
        gone.iter().for_each(|one| self.remove_written(&one.written));
        let mut edits = Vec::with_capacity(flushed.len());
        let mut changed: BTreeMap<KeyspaceId, Flushes<'_>> = BTreeMap::new();
        let recorded = flushed.iter().try_for_each(|one| {
            let of_tree = changed.entry(one.tree.id).or_insert_with(|| Flushes::none_of(&one.tree));
            let edit = crate::compaction::flushed(&of_tree.after, &one.written, one.last);
            let context = &one.tree.context;
            let mut next = of_tree.after.apply(&edit, |table| TableFile::new(context, table.clone()))?;
            self.files.keep_values(&mut next.version);
            of_tree.after = Arc::new(next.version);
            of_tree.memtables.extend_from_slice(&one.memtables);
            of_tree.unreferenced.extend(next.unreferenced);
            edits.push((one.tree.id, edit));
            Ok(())
        });
        let counters = self.counters();
        let edit = Edit { trees: edits, last_seqno: commit.or(counters.last_seqno), ..counters };
        if let Err(error) = recorded.and_then(|()| self.record(&mut state, edit)) {
            drop(state);
            flushed.iter().for_each(|one| self.remove_written(&one.written));
            return Err(error);
        }
        let (mut gone_tables, mut gone) = (Vec::new(), Vec::new());
        for Flushes { tree, before, after, memtables, unreferenced } in changed.into_values() {
            tree.install(&before, after, &memtables);
            unreferenced.iter().for_each(|file| file.mark_obsolete());
            gone_tables.extend(unreferenced);
            gone.extend(self.release_values(&state, before.values().iter().map(|(file, _)| file)));
        }
        drop(state);
        self.leaving.hold(gone_tables, gone);
        Ok(())
    }

    fn install_in(
        &self,
        state: &mut State,
        tree: &Tree,
        version: &Version,
        commit: Option<Seqno>,
        edit: TreeEdit,
    ) -> Result<Applied> {
        if tree.is_dropped() {
            return Err(Error::NoKeyspace(tree.name.clone()));
        }
        let mut applied =
            version.apply(&edit, |descriptor| TableFile::new(&tree.context, descriptor.clone()))?;
        self.files.keep_values(&mut applied.version);
        let counters = self.counters();
        let last_seqno = commit.or(counters.last_seqno);
        self.record(state, Edit { trees: vec![(tree.id, edit)], last_seqno, ..counters })?;
        Ok(applied)
    }

    /// Removes what a job wrote that did not come into use.
    pub(super) fn remove_written(&self, written: &Written) {
        for output in &written.tables {
            self.remove_unrecorded(FileName::Table(output.file));
        }
        for file in &written.value_files {
            self.remove_unrecorded(FileName::Values(file.file));
        }
    }

    /// The logs that recovery would replay.
    pub(super) fn logs(&self) -> Vec<FileId> {
        self.lock().logs.clone()
    }

    /// Whether a pointer in some table leads to `file`.
    pub(super) fn is_live(&self, file: FileId) -> bool {
        self.catalog.look(|keyspaces| keyspaces.trees().any(|tree| tree.view().version.values().has(file)))
    }

    /// A version that counted pointers to these `files` was replaced, or dropped with its keyspace:
    /// those to which no pointer leads now and which recovery would not replay. They are removed
    /// once no reader keeps them; the caller drops them when it holds no lock. Under the store
    /// lock, as all changes of what is needed, so that none is missed (docs/decisions/0019).
    #[must_use]
    fn release_values(&self, state: &State, files: impl Iterator<Item = FileId>) -> Vec<Arc<ValueFile>> {
        let is_live = |file| self.is_live(file) && !planted(Bug::ReclaimLive);
        let gone = files.filter(|file| !state.logs.contains(file) && !is_live(*file));
        let gone: Vec<_> = gone.filter_map(|file| self.files.values.kept(file)).collect();
        gone.iter().for_each(|file| file.mark_obsolete());
        gone
    }

    /// Removes a log that recovery does not need and to which no table points, once no reader keeps
    /// it.
    fn remove_log(&self, log: FileId) {
        match self.files.values.kept(log) {
            // A reader may hold it.
            Some(kept) => {
                kept.mark_obsolete();
                self.leaving.hold(Vec::new(), vec![kept]);
            }
            None => self.files.remove(FileName::Log(log)),
        }
    }

    /// Removes a file that the manifest was to name and does not. After a failed sync of the
    /// manifest its record may be there after all, so then the file stays for the next open to
    /// judge.
    fn remove_unrecorded(&self, name: FileName) {
        if self.poison.check().is_ok() {
            self.files.remove(name);
        }
    }

    /// Creates a keyspace, unless there is one of this name. `settled` sees the new tree before any
    /// other thread.
    pub(super) fn create_keyspace(
        &self,
        name: &str,
        options: KeyspaceOptions,
        budget: &Budget,
        settled: impl FnOnce(&Tree),
    ) -> Result<Arc<Tree>> {
        check_name(name)?;
        options.validate()?;
        options.check_write_buffer(budget.write_buffer_bytes)?;
        let settings = keyspace_record::encode(&options);
        let mut state = self.lock();
        if let Some(tree) = self.catalog.named(name) {
            return Ok(tree);
        }
        let id = KeyspaceId(self.catalog.next_id());
        let created = CreatedKeyspace { id, name: name.into(), settings };
        let next_keyspace = Some(id.0 + 1);
        self.record(&mut state, Edit { created: vec![created], next_keyspace, ..self.counters() })?;
        let tree = Arc::new(new_tree(&self.files, budget, id, name, options));
        tree.use_settings(Arc::new(state.assignments.settings_of(&tree, budget)));
        self.catalog.insert(tree.clone(), settled);
        Ok(tree)
    }

    /// Drops the keyspaces of these names, all with one record; `shown` is told of each before the
    /// store lock is given back. If one is missing, none is dropped. The caller keeps writers out,
    /// and lets go of what readers saw, which removes the files, once it holds no lock.
    pub(super) fn drop_keyspaces(
        &self,
        names: &[&str],
        shown: impl Fn(&Tree),
    ) -> Result<Vec<(Arc<Tree>, Arc<View>)>> {
        let mut state = self.lock();
        let named = |name: &&str| self.catalog.named(name).ok_or_else(|| Error::NoKeyspace((*name).into()));
        let trees = names.iter().map(named).collect::<Result<Vec<_>>>()?;
        // A name may be there twice.
        let trees: BTreeMap<KeyspaceId, Arc<Tree>> = trees.into_iter().map(|tree| (tree.id, tree)).collect();
        if trees.is_empty() {
            return Ok(Vec::new());
        }
        let dropped = trees.keys().copied().collect();
        self.record(&mut state, Edit { dropped, ..self.counters() })?;
        let (mut dropped, mut values) = (Vec::with_capacity(trees.len()), BTreeSet::new());
        for tree in trees.into_values() {
            state.assignments.forget(tree.id);
            tree.mark_dropped();
            self.catalog.remove(&tree);
            shown(&tree);
            let view = tree.give_up();
            let tables: Vec<_> = view.version.tables().map(|table| table.file().clone()).collect();
            tables.iter().for_each(|file| file.mark_obsolete());
            self.leaving.note(&tables, &[]);
            values.extend(view.version.values().iter().map(|(file, _)| file));
            dropped.push((tree, view));
        }
        // The views keep these files until the caller drops them.
        let values = self.release_values(&state, values.into_iter());
        self.leaving.note(&[], &values);
        Ok(dropped)
    }

    /// Records that `tree` is kept as `options` say from now on. The caller has it obeyed.
    pub(super) fn record_settings(
        &self,
        state: &mut State,
        tree: &Tree,
        options: &KeyspaceOptions,
    ) -> Result<()> {
        let settings = vec![(tree.id, keyspace_record::encode(options))];
        self.record(state, Edit { settings, ..self.counters() })
    }
}

/// The record that creates `tree`.
fn created(tree: &Tree) -> CreatedKeyspace {
    let settings = keyspace_record::encode(&kept(tree));
    CreatedKeyspace { id: tree.id, name: tree.name.clone(), settings }
}

/// What `tree` was given, as options.
pub(super) fn kept(tree: &Tree) -> KeyspaceOptions {
    let given = tree.given();
    let mut options = KeyspaceOptions::new().layout(given.layout).shape(given.shape.clone());
    options.merge_operator = tree.operator().cloned();
    options.separate_from = given.separate_from.map(u64::from);
    options
}

/// A new tree without tables, kept as `options` say.
pub(super) fn new_tree(
    files: &Files,
    budget: &Budget,
    id: KeyspaceId,
    name: &str,
    options: KeyspaceOptions,
) -> Tree {
    let given = given(files, budget, &options);
    let (context, values) = (files.table_context(), files.values.clone());
    let counted = (files.holdings.clone(), files.gap_room.clone());
    Tree::new(id, name.into(), given, options.merge_operator, context, values, counted, Version::new())
}

/// What a tree is given that is to be kept as `options` say.
pub(super) fn given(files: &Files, budget: &Budget, options: &KeyspaceOptions) -> Arc<Settings> {
    let shape = Shape { write_buffer_bytes: budget.write_buffer_bytes, ..options.shape.clone() };
    let mut given = Settings::new(options.layout, shape);
    given.separate_from = options.separate_from.map(|bytes| bytes.try_into().unwrap_or(u32::MAX));
    files.shared_settings(given)
}

#[cfg(test)]
mod tests;
