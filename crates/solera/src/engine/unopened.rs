//! The parts of an engine whose database was not opened: `Unopened`, for tests of single parts.
//!
//! Its trees, tables and manifest are real, on files in memory. It is the `Environment` of flushes
//! and commits. As such it writes down most calls (`ask`), with the tables there were then. It
//! seals, inserts and publishes for real, and has no log of its own.
//!
//! What must hold: the call that a test names (`fail`) fails; one that returns no `Result` panics.
//! Asking whether it is writable, poisoning, and a commit's seal are not written down.
//!
//! Callers: the tests of `flushing` and `large`, as `Environment`; those of `logs`, `store` and
//! `values`, for its parts.

use super::{
    apply,
    assignments::Assignments,
    catalog::Catalog,
    commit,
    expiry::Expiry,
    files::Files,
    flushing::{self, Flusher},
    job_parts::JobParts,
    memory::{Budget, Memory},
    options::KeyspaceOptions,
    reclaiming::Reclaiming,
    snapshots::Snapshots,
    store::{State, Store, new_tree},
    work::Work,
};
use crate::{
    cache::Cache,
    clock::ManualClock,
    compaction::Reclaim,
    dir::FileName,
    error::{Error, Result},
    ids::{DatabaseId, KeyspaceId, Seqno},
    key::Kind,
    sync::Mutex,
    tree::Tree,
    vfs::{Fs, fault::FaultFs, mem::MemFs},
    wal::batch::BatchEncoder,
};
use std::{path::Path, sync::Arc};

const DIR: &str = "/db";
pub(super) const WRITE_BUFFER_BYTES: u64 = 64 << 10;

pub(super) struct Unopened {
    pub(super) fs: Arc<FaultFs>,
    pub(super) store: Store,
    pub(super) work: Work,
    pub(super) memory: Memory,
    pub(super) reclaiming: Reclaiming,
    /// What was asked, in order, and how many tables there were then.
    asked: Mutex<Vec<String>>,
    /// The call that fails, by its name.
    failing: Mutex<Option<&'static str>>,
    /// What a writer does while the log is synced next.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What memtables took when logs were last to be removed.
    pub(super) held: Mutex<usize>,
}

impl Unopened {
    /// Keyspaces of these names, all empty.
    pub(super) fn new(names: &[&str]) -> Unopened {
        let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
        fs.create_dir_all(Path::new(DIR)).unwrap();
        let cache = Cache::new(0);
        let budget = Budget { bytes: 64 << 20, write_buffer_bytes: WRITE_BUFFER_BYTES };
        let files = Files::new(fs.clone(), Path::new(DIR), DatabaseId(1), false, cache.clone(), 1);
        let memory = Memory::new(budget, cache, files.holdings.clone(), false);
        let catalog = Catalog::new(0);
        for (&name, id) in names.iter().zip(0..) {
            let tree = new_tree(&files, &budget, KeyspaceId(id), name, KeyspaceOptions::new());
            catalog.insert(Arc::new(tree), |_| ());
        }
        let state = State::new(Vec::new(), Vec::new(), Assignments::default());
        let expiry = Expiry::new(Arc::new(ManualClock::at_unix_ms(1)), 0);
        let store = Store::new(files, catalog, Snapshots::new(0), expiry, state);
        store.begin_manifest().unwrap();
        Unopened {
            fs,
            store,
            work: Work::new(),
            memory,
            reclaiming: Reclaiming::default(),
            asked: Mutex::default(),
            failing: Mutex::default(),
            meanwhile: Mutex::default(),
            held: Mutex::default(),
        }
    }

    pub(super) fn flusher(&self) -> Flusher<'_> {
        let Unopened { store, work, memory, reclaiming, .. } = self;
        Flusher { parts: JobParts { reclaim: Reclaim::Off, store, work, memory, reclaiming }, rest: self }
    }

    pub(super) fn tree(&self, name: &str) -> Arc<Tree> {
        self.store.catalog.named(name).unwrap()
    }

    /// Puts `key` into memory, as the write `seqno`.
    pub(super) fn put(&self, tree: &Tree, key: &str, seqno: Seqno) {
        tree.view().active.insert(key.as_bytes(), seqno, Kind::Put, &[b"value"]);
        self.store.snapshots.publish(seqno);
    }

    /// Files of tables in the directory.
    pub(super) fn written(&self) -> usize {
        let names = self.fs.list_dir(Path::new(DIR)).unwrap();
        names.iter().filter(|name| matches!(FileName::parse(name), Some(FileName::Table(_)))).count()
    }

    /// Tables that readers see.
    pub(super) fn named(&self) -> usize {
        let trees = self.store.catalog.trees();
        trees.iter().map(|tree| tree.view().version.tables().count()).sum()
    }

    /// Writes down that `name` is asked. Fails if it is to.
    pub(super) fn ask(&self, name: &'static str, details: impl std::fmt::Display) -> Result<()> {
        let (written, named) = (self.written(), self.named());
        self.asked.lock().push(format!("{name}{details}: {written} written, {named} named"));
        match *self.failing.lock() {
            Some(failing) if failing == name => Err(Error::Invalid(format!("{name} fails"))),
            _ => Ok(()),
        }
    }

    /// Has the call of this name fail from now on.
    pub(super) fn fail(&self, name: Option<&'static str>) {
        *self.failing.lock() = name;
    }

    /// Has a writer do this while the log is synced next.
    pub(super) fn meanwhile(&self, write: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock() = Some(Box::new(write));
    }

    pub(super) fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock())
    }
}

impl flushing::Environment for Unopened {
    fn writable(&self) -> Result<()> {
        self.store.poison.check()
    }

    fn seal(&self, trees: &[Arc<Tree>]) -> Vec<Option<Seqno>> {
        self.ask("seal", "").unwrap();
        let newest = |tree: &Arc<Tree>| {
            tree.seal();
            tree.view().sealed.iter().filter_map(|memtable| memtable.last_seqno()).max()
        };
        trees.iter().map(newest).collect()
    }

    fn sync_to(&self, seqno: Seqno) -> Result<()> {
        if let Some(write) = self.meanwhile.lock().take() {
            write();
        }
        self.ask("sync to ", seqno)
    }

    fn remove_flushed_logs(&self) {
        *self.held.lock() = self.store.files.holdings.bytes();
        self.ask("remove logs", "").unwrap();
    }

    fn retire_log(&self) -> Result<()> {
        self.ask("retire", "")
    }
}

impl commit::Environment for Unopened {
    type Log = ();

    fn writable(&self) -> Result<()> {
        self.store.poison.check()
    }

    fn append(&self, (): &mut (), _: Seqno, _: &mut [BatchEncoder]) -> Result<()> {
        self.ask("append", "")
    }

    fn sync(&self, (): &mut ()) -> Result<()> {
        self.ask("sync", "")
    }

    fn insert(&self, batch: &BatchEncoder, full: &mut Vec<Arc<Tree>>) -> Result<()> {
        self.ask("insert", "")?;
        let insert =
            |trees: &_| apply::batch(trees, WRITE_BUFFER_BYTES, batch, &self.store.files.values, full);
        self.store.catalog.look(insert).map(drop)
    }

    fn publish(&self, last: Seqno) {
        self.ask("publish ", last).unwrap();
        self.store.snapshots.publish(last);
    }

    fn seal(&self, (): &mut (), _: Seqno, full: &[Arc<Tree>]) {
        for tree in full {
            tree.seal();
        }
    }

    fn poison(&self, why: &Error) {
        self.store.poison.set(why);
    }
}
