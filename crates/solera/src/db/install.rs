//! Durable changes of what the database consists of: the manifest's writer.
//!
//! Owns the store lock. A change is first one manifest record, synced; only then do readers see it. Files
//! that a change makes useless are marked, and go when their last reader does.

use super::{Catalog, Core, KeyspaceOptions, knobs::Knobs, settings};
use crate::{
    compaction::Shape,
    error::{Error, Result},
    ids::{FileId, KeyspaceId, Seqno},
    key::KeyRange,
    memtable::Memtable,
    operator::MergeOperator,
    sync::{RwLockWriteGuard, atomic::Ordering},
    table::{TableContext, TableDescriptor, TableFile},
    tree::{Settings, Tree},
    version::{Applied, CreatedKeyspace, Edit, Manifest, TreeEdit, Version, manifest},
    wal,
};
use std::sync::Arc;

/// The manifest is written anew when it has grown by as many bytes and by its first size.
const MANIFEST_GROWTH_BYTES: u64 = 64 << 10;
/// Longest keyspace name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// What the store lock guards. `None` in a read-only database.
pub(crate) struct Store {
    manifest: Option<Manifest>,
    /// Size at which the manifest is written anew.
    rotate_at: u64,
    /// Logs that recovery read, with their valid ends; they matter until the logs are gone.
    log_ends: Vec<(FileId, u64)>,
    /// Every log that is needed, the one in use last.
    logs: Vec<FileId>,
    /// What the manifest says of [`Core::clock_high_ms`].
    clock_recorded_ms: u64,
    /// Knobs that were set while the database ran, this time or earlier.
    pub(super) knobs: Knobs,
}

impl Store {
    pub(super) fn new(
        manifest: Option<Manifest>,
        log_ends: Vec<(FileId, u64)>,
        logs: Vec<FileId>,
        clock_recorded_ms: u64,
        knobs: Knobs,
    ) -> Self {
        let rotate_at = manifest.as_ref().map_or(0, rotate_at);
        Store { manifest, rotate_at, log_ends, logs, clock_recorded_ms, knobs }
    }
}

/// The size at which a manifest that is new now is written anew: twice the first size and some.
fn rotate_at(manifest: &Manifest) -> u64 {
    manifest.bytes() * 2 + MANIFEST_GROWTH_BYTES
}

impl Core {
    /// The whole state as edits, for a new manifest. Under the store lock, between two changes.
    pub(super) fn whole(&self, store: &Store) -> Vec<Edit> {
        let (first, others) = match store.logs.split_first() {
            Some((&first, others)) => (Some(first), others),
            None => (None, &[][..]),
        };
        let whole = Edit { log_ends: store.log_ends.clone(), new_log: first, ..self.whole_trees(store) };
        let others = others.iter().map(|&log| Edit { new_log: Some(log), ..Edit::default() });
        std::iter::once(whole).chain(others).collect()
    }

    /// The part of the state that does not concern logs: what a checkpoint takes along.
    pub(super) fn whole_trees(&self, store: &Store) -> Edit {
        let mut whole = self.counters();
        Edit { receipts: whole.receipts, turned: whole.turned, .. } = store.knobs.to_edit();
        let catalog = self.catalog.read();
        for tree in catalog.by_id.values() {
            whole.created.push(created(tree));
            whole.trees.push((tree.id, tree.view().version.to_edit()));
        }
        whole
    }

    /// The counters as they are now; every edit carries them.
    fn counters(&self) -> Edit {
        Edit {
            next_file: Some(self.next_file.load(Ordering::Relaxed)),
            next_keyspace: Some(self.catalog.read().next_id),
            last_seqno: Some(self.visible()),
            clock_high_ms: Some(self.clock_high_ms.load(Ordering::Relaxed)),
            ..Edit::default()
        }
    }

    /// Makes `edit` durable.
    fn record(&self, store: &mut Store, edit: Edit) -> Result<()> {
        self.poison.check()?;
        // Before the append, not after it: what `edit` changes is not part of the state yet.
        if store.manifest.as_ref().is_some_and(|manifest| manifest.bytes() >= store.rotate_at) {
            self.rotate_manifest(store);
            self.poison.check()?;
        }
        self.append(store, &edit)
    }

    /// As [`Core::record`], but never writes the manifest anew.
    pub(super) fn append(&self, store: &mut Store, edit: &Edit) -> Result<()> {
        self.poison.check()?;
        let Some(manifest) = &mut store.manifest else { return Err(Error::ReadOnly) };
        let appended = manifest.append(edit);
        // After an error the record may or may not be in the file, and nothing may build on either. After a success the
        // mark behind the record may have failed and left something that cannot be removed: the record is durable, and
        // the last one.
        if let Some(why) = manifest.poisoned() {
            self.poison.set(why);
        }
        appended?;
        store.clock_recorded_ms = store.clock_recorded_ms.max(edit.clock_high_ms.unwrap_or(0));
        Ok(())
    }

    /// Records how late it has been, so that what has expired stays so if the clock is set back before the
    /// next open.
    pub(super) fn record_clock(&self) -> Result<()> {
        let mut store = self.store.lock();
        if self.clock_high_ms.load(Ordering::Relaxed) <= store.clock_recorded_ms {
            return Ok(());
        }
        self.record(&mut store, self.counters())
    }

    /// Writes the manifest anew. A failure costs nothing: the present one goes on, if it can.
    fn rotate_manifest(&self, store: &mut Store) {
        let whole = self.whole(store);
        let Some(manifest) = &mut store.manifest else { return };
        let old = manifest.file();
        let rotated = manifest.rotate(&*self.options.fs, self.dir(), self.new_file(), &whole);
        store.rotate_at = rotate_at(manifest);
        if let Some(why) = manifest.poisoned() {
            self.poison.set(why);
        }
        if rotated.is_ok() {
            // One that cannot be removed now is removed at the next open.
            let _ = self.options.fs.remove_file(&self.dir().join(manifest::file_name(old)));
        }
    }

    /// Records that `log` exists from now on.
    fn record_log(&self, log: FileId) -> Result<()> {
        let mut store = self.store.lock();
        self.record(&mut store, Edit { new_log: Some(log), ..self.counters() })?;
        store.logs.push(log);
        Ok(())
    }

    /// Records that logs before `oldest` are not needed.
    pub(super) fn record_oldest_log(&self, oldest: FileId) -> Result<()> {
        let mut store = self.store.lock();
        self.record(&mut store, Edit { oldest_log: Some(oldest), ..self.counters() })?;
        store.logs.retain(|file| *file >= oldest);
        store.log_ends.retain(|(file, _)| *file >= oldest);
        Ok(())
    }

    /// Creates an empty log whose name is durable.
    pub(super) fn create_log(&self, file: FileId) -> Result<wal::Writer> {
        wal::Writer::create(&*self.options.fs, self.dir(), self.database, file)
    }

    /// Creates the log that follows those that exist, and records it. No file is left of it if that fails.
    pub(super) fn begin_log(&self) -> Result<wal::Writer> {
        let file = self.new_file();
        let log = self.create_log(file)?;
        if let Err(error) = self.record_log(file) {
            drop(log);
            self.remove_unrecorded(&wal::file_name(file));
            return Err(error);
        }
        Ok(log)
    }

    /// Makes a change of `tree` durable, then visible. `edit` is made from the version that it will
    /// change; `outputs` are the tables that it adds, removed again if it does not come about; `flushed`
    /// memtables are in them.
    pub(super) fn install(
        &self,
        tree: &Tree,
        outputs: &[TableDescriptor],
        flushed: &[Arc<Memtable>],
        edit: impl FnOnce(&Version) -> TreeEdit,
    ) -> Result<()> {
        self.install_at(tree, outputs, flushed, None, edit)
    }

    /// As [`Core::install`], with `commit` as the newest sequence number given out.
    pub(super) fn install_at(
        &self,
        tree: &Tree,
        outputs: &[TableDescriptor],
        flushed: &[Arc<Memtable>],
        commit: Option<Seqno>,
        edit: impl FnOnce(&Version) -> TreeEdit,
    ) -> Result<()> {
        let mut store = self.store.lock();
        let version = tree.view().version.clone();
        let installed = self.install_in(&mut store, tree, &version, commit, edit(&version));
        let applied = match installed {
            Ok(applied) => applied,
            Err(error) => {
                drop(store);
                self.remove_outputs(outputs);
                return Err(error);
            }
        };
        tree.install(Arc::new(applied.version), flushed);
        applied.unreferenced.iter().for_each(|file| file.mark_obsolete());
        drop(store);
        self.fit_cache();
        Ok(())
    }

    fn install_in(
        &self,
        store: &mut Store,
        tree: &Tree,
        version: &Version,
        commit: Option<Seqno>,
        edit: TreeEdit,
    ) -> Result<Applied> {
        if tree.is_dropped() {
            return Err(Error::NoKeyspace(tree.name.clone()));
        }
        let applied = version.apply(&edit, |descriptor| TableFile::new(&tree.context, descriptor.clone()))?;
        let counters = self.counters();
        let last_seqno = commit.or(counters.last_seqno);
        self.record(store, Edit { trees: vec![(tree.id, edit)], last_seqno, ..counters })?;
        Ok(applied)
    }

    /// Removes tables that did not come into use.
    pub(super) fn remove_outputs(&self, outputs: &[TableDescriptor]) {
        for output in outputs {
            self.remove_unrecorded(&crate::table::file_name(output.file));
        }
    }

    /// Removes a file that the manifest was to name and does not. After a failed sync of the manifest its
    /// record may be there after all, so then the file stays for the next open to judge.
    fn remove_unrecorded(&self, name: &str) {
        if self.poison.check().is_ok() {
            // One that cannot be removed now is removed at the next open.
            let _ = self.options.fs.remove_file(&self.dir.join(name));
        }
    }

    /// What the tables of a keyspace share.
    pub(super) fn table_context(&self) -> Arc<TableContext> {
        Arc::new(TableContext {
            fs: self.fs(),
            dir: self.dir().to_path_buf(),
            database: self.database,
            direct_reads: self.options.direct_reads,
            cache: self.cache.clone(),
            stats: Arc::default(),
        })
    }

    pub(super) fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Arc<Tree>> {
        if let Some(tree) = self.catalog.read().by_name.get(name) {
            return Ok(tree.clone());
        }
        if self.options.read_only {
            return Err(Error::NoKeyspace(name.into()));
        }
        self.writable()?;
        check_name(name)?;
        options.validate()?;
        let settings = settings::encode(&options);
        let mut store = self.store.lock();
        if let Some(tree) = self.catalog.read().by_name.get(name) {
            return Ok(tree.clone());
        }
        let id = KeyspaceId(self.catalog.read().next_id);
        let created = CreatedKeyspace { id, name: name.into(), settings };
        let next_keyspace = Some(id.0 + 1);
        self.record(&mut store, Edit { created: vec![created], next_keyspace, ..self.counters() })?;
        let tree = Arc::new(self.new_tree(id, name, options));
        tree.keep_like(Arc::new(self.settings_of(&store.knobs, &tree)));
        let mut catalog = self.catalog.write();
        self.trace_new(&tree);
        catalog.insert(tree.clone());
        drop(catalog);
        Ok(tree)
    }

    /// Gives an existing keyspace the merge operator that it lacks, durably. One that it has is code that is
    /// given at every open: only its name is recorded, and no other may take its place.
    pub(super) fn adopt_operator(&self, tree: &Tree, given: Option<Arc<dyn MergeOperator>>) -> Result<()> {
        let Some(given) = given else { return Ok(()) };
        settings::check_operator(&tree.name, tree.operator(), &given)?;
        if tree.operator().is_some() {
            return Ok(());
        }
        self.writable()?;
        let mut store = self.store.lock();
        settings::check_operator(&tree.name, tree.operator(), &given)?;
        if tree.is_dropped() {
            return Err(Error::NoKeyspace(tree.name.clone()));
        }
        let options = KeyspaceOptions {
            layout: tree.given.layout,
            shape: tree.given.shape.clone(),
            merge_operator: Some(given.clone()),
        };
        options.validate()?;
        let settings = vec![(tree.id, settings::encode(&options))];
        self.record(&mut store, Edit { settings, ..self.counters() })?;
        tree.set_operator(given);
        Ok(())
    }

    pub(super) fn new_tree(&self, id: KeyspaceId, name: &str, options: KeyspaceOptions) -> Tree {
        let shape = Shape { write_buffer_bytes: self.options.effective_write_buffer(), ..options.shape };
        Tree::new(
            id,
            name.into(),
            Settings::new(options.layout, shape),
            options.merge_operator,
            self.table_context(),
            Version::new(),
        )
    }

    pub(super) fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.writable()?;
        if name == super::DEFAULT_KEYSPACE {
            return Err(Error::Invalid("the default keyspace cannot be dropped".into()));
        }
        // No commit is under way while the keyspace goes.
        let _writer = self.commit.lock();
        let mut store = self.store.lock();
        let Some(tree) = self.catalog.read().by_name.get(name).cloned() else {
            return Err(Error::NoKeyspace(name.into()));
        };
        self.record(&mut store, Edit { dropped: vec![tree.id], ..self.counters() })?;
        store.knobs.forget(tree.id);
        tree.mark_dropped();
        let mut catalog: RwLockWriteGuard<'_, Catalog> = self.catalog.write();
        catalog.remove(&tree);
        drop(catalog);
        self.commit.announcements.written(tree.id, &[KeyRange::all()]);
        for table in tree.view().version.tables() {
            table.file().mark_obsolete();
        }
        drop(store);
        drop(_writer);
        self.trace_drop(&tree);
        self.work.forget(&tree);
        self.fit_cache();
        self.remove_flushed_logs();
        Ok(())
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "a keyspace name has 1 to {NAME_BYTES_MAX} bytes, not {}",
            name.len()
        )));
    }
    Ok(())
}

/// The record that creates `tree`.
fn created(tree: &Tree) -> CreatedKeyspace {
    let options = KeyspaceOptions {
        layout: tree.given.layout,
        shape: tree.given.shape.clone(),
        merge_operator: tree.operator().cloned(),
    };
    CreatedKeyspace { id: tree.id, name: tree.name.clone(), settings: settings::encode(&options) }
}
