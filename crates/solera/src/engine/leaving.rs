//! Files that no version names any more, until no reader has them: `Leaving`.
//!
//! The last owner of a file removes it, and the file system takes long to remove a large one. A
//! reader that took a view just before it was exchanged would often be that owner, and wait. So the
//! thread that installs a version leaves the files that it does not name here. A worker drops each
//! when it is the last to have it.
//!
//! What must hold: everything here is marked as obsolete. Without background threads nothing is
//! held. A reader that has a file for more than two seconds is its last owner after all. Once the
//! database is closed it is not (`keep_rest`): its directory may be another's, with files of the
//! same names. The next open removes what stays.
//!
//! Callers: `store` (`hold`, `note`, `keep_rest`), `workers`, and `jobs` and `handle`, when a call
//! ends that frees space.

use crate::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    table::TableFile,
    values::ValueFile,
};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};

/// A worker with nothing else to do looks so often.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// For so long it is looked whether readers are gone.
const HELD_NS_MAX: u64 = 2_000_000_000;

/// A file that is to go.
enum Left {
    Table(Arc<TableFile>),
    Values(Arc<ValueFile>),
}

impl Left {
    fn owners(&self) -> usize {
        match self {
            Left::Table(file) => Arc::strong_count(file),
            Left::Values(file) => Arc::strong_count(file),
        }
    }
}

/// One that goes with its last owner.
enum Marked {
    Table(Weak<TableFile>),
    Values(Weak<ValueFile>),
}

impl Marked {
    fn is_there(&self) -> bool {
        match self {
            Marked::Table(file) => file.strong_count() > 0,
            Marked::Values(file) => file.strong_count() > 0,
        }
    }

    fn keep(&self) {
        match self {
            Marked::Table(file) => file.upgrade().iter().for_each(|file| file.keep()),
            Marked::Values(file) => file.upgrade().iter().for_each(|file| file.keep()),
        }
    }
}

/// Files that are to go, each with the time at which that was seen first.
#[derive(Default)]
pub(super) struct Leaving {
    held: Mutex<Vec<(Left, Option<u64>)>>,
    /// How many they are.
    count: AtomicUsize,
    /// All that were marked and may still be there.
    marked: Mutex<Vec<Marked>>,
    /// Held while files are taken from there and removed.
    removing: Mutex<()>,
    has_workers: bool,
}

impl Leaving {
    /// `has_workers`: workers call [`Leaving::let_go`] again and again.
    pub(super) fn new(has_workers: bool) -> Leaving {
        Leaving { has_workers, ..Leaving::default() }
    }

    /// Files that were marked.
    pub(super) fn note(&self, tables: &[Arc<TableFile>], values: &[Arc<ValueFile>]) {
        if tables.is_empty() && values.is_empty() {
            return;
        }
        let tables = tables.iter().map(|file| Marked::Table(Arc::downgrade(file)));
        let values = values.iter().map(|file| Marked::Values(Arc::downgrade(file)));
        let mut marked = self.marked.lock();
        marked.retain(Marked::is_there);
        marked.extend(tables.chain(values));
    }

    /// The same, and holds them. The caller holds no lock.
    pub(super) fn hold(&self, tables: Vec<Arc<TableFile>>, values: Vec<Arc<ValueFile>>) {
        self.note(&tables, &values);
        if !self.has_workers || (tables.is_empty() && values.is_empty()) {
            return;
        }
        let left = tables.into_iter().map(Left::Table).chain(values.into_iter().map(Left::Values));
        let mut held = self.held.lock();
        held.extend(left.map(|left| (left, None)));
        self.count.store(held.len(), Ordering::Relaxed);
    }

    /// Drops files that no reader has, and those that readers have had for long.
    pub(super) fn let_go(&self, now_ns: u64) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.drop_if(|left, since| {
            let since = *since.get_or_insert(now_ns);
            left.owners() == 1 || now_ns.saturating_sub(since) > HELD_NS_MAX
        });
    }

    /// Drops all: a file that readers have goes with the last of them. Those that a worker is
    /// removing are gone, too, when this returns.
    pub(super) fn let_all_go(&self) {
        self.drop_if(|_, _| true);
    }

    fn drop_if(&self, mut goes: impl FnMut(&Left, &mut Option<u64>) -> bool) {
        let _removing = self.removing.lock();
        let mut held = self.held.lock();
        let gone: Vec<_> = held.extract_if(.., |(left, since)| goes(left, since)).collect();
        self.count.store(held.len(), Ordering::Relaxed);
        drop(held);
        // Not under the lock of the list: files are removed here.
        drop(gone);
    }

    /// The database gives up its directory: what readers still have stays there.
    pub(super) fn keep_rest(&self) {
        self.marked.lock().drain(..).for_each(|marked| marked.keep());
    }

    /// How long a worker with nothing else to do waits; `None`: nothing is held.
    pub(super) fn next(&self) -> Option<Duration> {
        (self.count.load(Ordering::Relaxed) > 0).then_some(LOOK_PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        dir::magic,
        frame::FileKind,
        ids::{DatabaseId, FileId},
        values::{ValueFiles, ValueWriter},
        vfs::{Fs, mem::MemFs},
    };
    use std::path::Path;

    const LOG: FileKind = FileKind { magic: magic::LOG, version: 1, noun: "log", reserves: true };

    /// A value file that is to go, and its file system.
    fn marked() -> (Arc<dyn Fs>, Arc<ValueFile>) {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        fs.create_dir_all(Path::new("d")).unwrap();
        let writer = ValueWriter::create(&fs, Path::new("d"), DatabaseId(7), FileId(3)).unwrap();
        writer.finish().unwrap();
        let file = ValueFiles::new(fs.clone(), "d".into(), DatabaseId(7), false, LOG).file(FileId(3), true);
        file.mark_obsolete();
        (fs, file)
    }

    /// Symptom: one read in some thousand took up to half a second. Cause: a reader that had taken
    /// its view just before an install was the last owner of the files that left, and removed them.
    /// Cure: the install leaves them to a worker.
    #[test]
    fn a_reader_that_is_quick_never_removes_a_file() {
        let (leaving, (fs, file)) = (Leaving::new(true), marked());
        let (path, reader) = (file.path().to_path_buf(), file.clone());
        leaving.hold(Vec::new(), vec![file]);
        leaving.let_go(0);
        assert!(fs.exists(&path).unwrap() && leaving.next().is_some(), "a reader has it");
        drop(reader);
        assert!(fs.exists(&path).unwrap(), "it did not go with the reader");
        leaving.let_go(1);
        assert!(!fs.exists(&path).unwrap() && leaving.next().is_none());
    }

    #[test]
    fn a_file_that_is_read_for_long_goes_with_its_reader() {
        let (leaving, (fs, file)) = (Leaving::new(true), marked());
        let (path, reader) = (file.path().to_path_buf(), file.clone());
        leaving.hold(Vec::new(), vec![file]);
        leaving.let_go(5);
        leaving.let_go(5 + HELD_NS_MAX);
        assert!(leaving.next().is_some());
        leaving.let_go(6 + HELD_NS_MAX);
        assert!(fs.exists(&path).unwrap() && leaving.next().is_none());
        drop(reader);
        assert!(!fs.exists(&path).unwrap());
    }

    /// Symptom: a caller that listed the directory after `wait_idle` could not open a table that it
    /// had seen there. Cause: a worker was still removing it, and was not waited for. Cure: a
    /// thread that drops all waits for a removal that is under way.
    #[test]
    fn files_that_a_worker_is_removing_are_gone_when_all_are_dropped() {
        let (leaving, (fs, file)) = (Leaving::new(true), marked());
        let path = file.path().to_path_buf();
        leaving.hold(Vec::new(), vec![file]);
        let removing = leaving.removing.lock();
        std::thread::scope(|scope| {
            let caller = scope.spawn(|| {
                leaving.let_all_go();
                assert!(!fs.exists(&path).unwrap());
            });
            // As a worker does that has taken the file from the list and is about to remove it.
            let taken = std::mem::take(&mut *leaving.held.lock());
            (0..1000).for_each(|_| std::thread::yield_now());
            assert!(fs.exists(&path).unwrap() && !caller.is_finished());
            drop(taken);
            drop(removing);
            caller.join().unwrap();
        });
    }

    #[test]
    fn nothing_is_held_where_nobody_would_let_it_go() {
        let (leaving, (fs, file)) = (Leaving::new(false), marked());
        let path = file.path().to_path_buf();
        leaving.hold(Vec::new(), vec![file]);
        assert!(!fs.exists(&path).unwrap());
    }
}
