//! Files that are read, and how many have a descriptor at once: `PosixReadFile` and `Handles`.
//!
//! Files to read share half of the process's descriptors. A `PosixReadFile` gives its own up when
//! others need one, and opens itself anew when it is read. A clock over a ring chooses: files that
//! rest first; if none does, the next. `with_descriptor` does what needs a descriptor. Where the
//! system has none left, it closes such files, one by one, until the call succeeds or none is open.
//!
//! `will_need` has the system begin to read. A file of direct reads has a second file for that,
//! which goes through the system's cache. `read_needed` reads there, and has that cache forget it.
//!
//! What must hold: the counter `open` is the number of files that have a descriptor or are about to
//! get one. Each that has one has a place in the ring. Files are opened without the lock of the
//! ring. There is one `Handles` for a process. A read under way keeps its descriptor, so there may
//! be as many more as threads.
//!
//! Callers: `vfs::posix` (`open`, `open_direct`; `with_descriptor` for creations, locks, lists and
//! directory syncs). Value files call `will_need` and `read_needed`, by `ReadFile`.

use super::{
    direct,
    place::{Place, open_to_read},
    read_ahead,
};
use crate::{
    error::{Error, Result},
    vfs::ReadFile,
};
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    fmt,
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// Descriptors of a process for which the system names no limit: the smallest default of the
/// systems in use.
const LIMIT_UNKNOWN: usize = 256;
/// Share of the process's descriptors that files to read may take. The other half is for logs,
/// tables being written, directories being synced, and the program around the database.
const SHARE: usize = 2;
/// Files that may be open however small the limit is.
const MIN: usize = 4;
/// `EMFILE`: this process has too many open files. The same number on every Unix.
const TOO_MANY_HERE: i32 = 24;
/// `ENFILE`: the machine has.
const TOO_MANY_EVERYWHERE: i32 = 23;
/// Places of files that are gone are swept out when there are so many more of them than of living
/// ones.
const DEAD_PLACES_MAX: usize = 64;
/// A page of the system's cache has so many bytes, or more.
const PAGE_BYTES: u64 = 4 << 10;

/// The files that are open for reading.
#[derive(Debug)]
pub(super) struct Handles {
    max: usize,
    /// Opens a file to read, past the system's cache if told.
    open_file: fn(&Path, bool) -> io::Result<File>,
    open: AtomicUsize,
    /// Files that have a descriptor, the one that got it first in front. The hand stands there.
    ring: Mutex<VecDeque<Weak<PosixReadFile>>>,
}

impl Handles {
    pub(super) fn new(max: usize) -> Handles {
        let open_file = |path: &Path, direct| match direct {
            true => direct::open(path),
            false => open_to_read(path),
        };
        Handles { max, open_file, open: AtomicUsize::new(0), ring: Mutex::default() }
    }

    /// Those of this process.
    pub(super) fn of_process() -> &'static Handles {
        static HANDLES: OnceLock<Handles> = OnceLock::new();
        HANDLES.get_or_init(|| Handles::new((descriptors_of_process() / SHARE).max(MIN)))
    }

    /// Does what needs a descriptor. If the process has none left, files that are not being read
    /// give theirs up until it succeeds.
    pub(super) fn with_descriptor<T>(&self, mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match call() {
                Err(error) if is_exhausted(&error) && self.close_one(&mut self.ring.lock()) => {}
                result => return result,
            }
        }
    }

    /// Opens a file.
    pub(super) fn open(&'static self, path: &Path) -> io::Result<Arc<PosixReadFile>> {
        self.open_aligned(path, None)
    }

    /// Opens a file for direct reads.
    pub(super) fn open_direct(&'static self, path: &Path) -> io::Result<Arc<PosixReadFile>> {
        self.open_aligned(path, Some(direct::alignment(path)?))
    }

    fn open_aligned(&'static self, path: &Path, alignment: Option<usize>) -> io::Result<Arc<PosixReadFile>> {
        let opened = Arc::new_cyclic(|this| PosixReadFile {
            handles: self,
            this: this.clone(),
            path: path.into(),
            alignment,
            file: ArcSwapOption::empty(),
            used: AtomicBool::new(false),
            beside: OnceLock::new(),
        });
        opened.file()?;
        Ok(opened)
    }

    /// Closes one file that is not in use, or, if all are, the next one. False: none is open.
    fn close_one(&self, ring: &mut VecDeque<Weak<PosixReadFile>>) -> bool {
        let mut second_chances = ring.len();
        while let Some(place) = ring.pop_front() {
            let Some(file) = place.upgrade() else { continue };
            if file.used.swap(false, Ordering::Relaxed) && second_chances > 0 {
                second_chances -= 1;
                ring.push_back(place);
                continue;
            }
            if file.file.swap(None).is_some() {
                self.open.fetch_sub(1, Ordering::Relaxed);
                return true;
            }
        }
        false
    }
}

fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(TOO_MANY_HERE | TOO_MANY_EVERYWHERE))
}

/// How many descriptors this process may have, as far as the system tells.
fn descriptors_of_process() -> usize {
    // Without a call into C, only Linux tells.
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    soft_limit(&limits).unwrap_or(LIMIT_UNKNOWN)
}

fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

/// A file to read, with a descriptor or without.
pub(super) struct PosixReadFile {
    handles: &'static Handles,
    this: Weak<PosixReadFile>,
    path: PathBuf,
    /// Of direct reads; `None` if it is read through the system's cache.
    alignment: Option<usize>,
    file: ArcSwapOption<File>,
    /// Read since the hand last passed.
    used: AtomicBool,
    /// Of direct reads: the same file through the system's cache, once parts of it were begun with
    /// there; none if it could not be opened.
    beside: OnceLock<Option<Arc<PosixReadFile>>>,
}

impl PosixReadFile {
    /// The open file; opens it if it has no descriptor.
    fn file(&self) -> io::Result<Arc<File>> {
        let handles = self.handles;
        let mut ring = handles.ring.lock();
        if let Some(file) = self.file.load_full() {
            return Ok(file);
        }
        while handles.open.load(Ordering::Relaxed) >= handles.max && handles.close_one(&mut ring) {}
        handles.open.fetch_add(1, Ordering::Relaxed);
        drop(ring);
        // A file system may take long for it, for which no other file is to wait.
        let opened = handles.with_descriptor(|| (handles.open_file)(&self.path, self.alignment.is_some()));
        let mut ring = handles.ring.lock();
        let file = match (self.file.load_full(), opened) {
            (None, Ok(file)) => Arc::new(file),
            (faster, opened) => {
                handles.open.fetch_sub(1, Ordering::Relaxed);
                // If there is one, another thread has opened it meanwhile.
                return faster.map_or_else(|| opened.map(Arc::new), Ok);
            }
        };
        self.file.store(Some(file.clone()));
        if ring.len() > 2 * handles.open.load(Ordering::Relaxed) + DEAD_PLACES_MAX {
            ring.retain(|place| place.strong_count() > 0);
        }
        ring.push_back(self.this.clone());
        Ok(file)
    }

    fn with_file<T>(&self, call: impl Fn(&File) -> io::Result<T>) -> io::Result<T> {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        // Usually it has a descriptor, and then nothing is counted and nothing locked.
        match &*self.file.load() {
            Some(file) => call(file),
            None => call(&*self.file()?),
        }
    }
}

impl ReadFile for PosixReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        // The closure is called once at a time; the cell only tells the compiler so.
        let buf = std::cell::RefCell::new(buf);
        let read = self.with_file(|file| {
            loop {
                let buf = &mut *buf.borrow_mut();
                let read = match self.alignment {
                    Some(alignment) => direct::read_at(file, alignment, buf, offset),
                    None => file.read_at(buf, offset),
                };
                match read {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    read => return read,
                }
            }
        });
        read.map_err(|error| Error::io("read", &self.path, error))
    }

    fn len(&self) -> Result<u64> {
        let measured = self.with_file(|file| file.metadata());
        Ok(measured.map_err(|error| Error::io("measure", &self.path, error))?.len())
    }

    fn will_need(&self, offset: u64, len: u64) {
        if self.alignment.is_some() {
            // Only the system's cache takes what no reader waits for yet. It is there in passing.
            let beside = self.beside.get_or_init(|| self.handles.open(&self.path).ok());
            return beside.iter().for_each(|beside| beside.will_need(offset, len));
        }
        // A file that cannot be opened now is missed by the read that follows.
        let _ = self.with_file(|file| {
            read_ahead::begin(file, offset, len);
            Ok(())
        });
    }

    fn read_needed(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let Some(Some(beside)) = self.beside.get() else { return self.read_at(buf, offset) };
        let read = beside.read_at(buf, offset)?;
        // The next reader reads past that cache again. The last page stays: what is needed next may
        // begin in it, and be on its way already.
        let len = (buf.len() as u64).saturating_sub(PAGE_BYTES);
        if len > 0 {
            let _ = beside.with_file(|file| {
                read_ahead::forget(file, offset, len);
                Ok(())
            });
        }
        Ok(read)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PosixReadFile {
    fn drop(&mut self) {
        if self.file.swap(None).is_some() {
            self.handles.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for PosixReadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PosixReadFile")
            .field("path", &self.path)
            .field("direct", &self.alignment.is_some())
            .field("has_descriptor", &self.file.load().is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{Fs, posix::PosixFs, read_all};

    fn files(dir: &Path, count: usize) -> Vec<PathBuf> {
        (0..count)
            .map(|number| {
                let path = dir.join(number.to_string());
                PosixFs::new().create(&path).unwrap().append(number.to_string().as_bytes()).unwrap();
                path
            })
            .collect()
    }

    fn open_count(files: &[Arc<PosixReadFile>]) -> usize {
        files.iter().filter(|file| file.file.load().is_some()).count()
    }

    #[test]
    fn more_files_than_descriptors_are_all_read() {
        let dir = tempfile::tempdir().unwrap();
        let handles: &'static Handles = Box::leak(Box::new(Handles::new(5)));
        let paths = files(dir.path(), 30);
        let opened: Vec<_> = paths.iter().map(|path| handles.open(path).unwrap()).collect();
        for round in 0..3 {
            for (number, file) in opened.iter().enumerate() {
                assert_eq!(read_all(&**file).unwrap(), number.to_string().as_bytes(), "round {round}");
                assert!(open_count(&opened) <= 5);
                assert_eq!(open_count(&opened), handles.open.load(Ordering::Relaxed));
            }
        }
        drop(opened);
        assert_eq!(handles.open.load(Ordering::Relaxed), 0);
    }

    /// Symptom: while a file system took long to open one file, no other was opened in the process,
    /// on whatever file system. Cause: files were opened under the lock of all. Cure: beside it.
    #[test]
    fn no_file_waits_for_another_to_be_opened() {
        use std::{
            sync::{Barrier, mpsc},
            thread,
            time::Duration,
        };
        static OTHERS_ARE_READ: Barrier = Barrier::new(2);
        let dir = tempfile::tempdir().unwrap();
        let open_file = |path: &Path, _| {
            if path.ends_with("0") {
                OTHERS_ARE_READ.wait();
            }
            open_to_read(path)
        };
        let handles: &'static Handles = Box::leak(Box::new(Handles { open_file, ..Handles::new(3) }));
        let paths = files(dir.path(), 20);
        let (read, waits) = mpsc::channel();
        thread::scope(|scope| {
            let slow = scope.spawn(|| handles.open(&paths[0]).map(drop));
            while handles.open.load(Ordering::Relaxed) == 0 {
                thread::yield_now();
            }
            scope.spawn(|| {
                for path in &paths[1..] {
                    assert!(!read_all(&*handles.open(path).unwrap()).unwrap().is_empty());
                }
                read.send(()).unwrap();
            });
            let others = waits.recv_timeout(Duration::from_secs(60));
            OTHERS_ARE_READ.wait();
            slow.join().unwrap().unwrap();
            assert_eq!(others, Ok(()));
        });
        assert_eq!(handles.open.load(Ordering::Relaxed), 0);
    }

    /// Symptom: with a named pipe in place of CURRENT, `Db::open` never came back. Cause: opening a
    /// pipe waits for a writer. Cure: what is no file is refused.
    #[cfg(unix)]
    #[test]
    #[cfg_attr(miri, ignore)]
    fn a_pipe_is_refused_and_no_opener_waits() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let refused = |result: crate::error::Result<()>| {
            assert!(result.unwrap_err().to_string().contains("a pipe or a device, not a file"));
        };
        let fs = PosixFs::new();
        refused(fs.open(&pipe).map(drop));
        refused(fs.lock_shared(&pipe).map(drop));
        refused(fs.open(Path::new("/dev/null")).map(drop));
        assert_eq!(fs.lock_owner(&pipe), None);
    }

    #[test]
    fn a_file_that_is_read_keeps_its_descriptor_before_one_that_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let handles: &'static Handles = Box::leak(Box::new(Handles::new(3)));
        let paths = files(dir.path(), 20);
        let hot = handles.open(&paths[0]).unwrap();
        let cold: Vec<_> = paths[1..]
            .iter()
            .map(|path| {
                read_all(&*hot).unwrap();
                handles.open(path).unwrap()
            })
            .collect();
        assert!(hot.file.load().is_some());
        assert_eq!(open_count(&cold), 2);
    }

    #[test]
    fn places_of_files_that_are_gone_do_not_gather() {
        let dir = tempfile::tempdir().unwrap();
        let handles: &'static Handles = Box::leak(Box::new(Handles::new(4)));
        let paths = files(dir.path(), 1);
        for _ in 0..10 * DEAD_PLACES_MAX {
            handles.open(&paths[0]).unwrap();
        }
        assert!(handles.ring.lock().len() <= 2 * DEAD_PLACES_MAX);
    }

    #[test]
    fn many_readers_of_few_descriptors_read_what_they_should() {
        let dir = tempfile::tempdir().unwrap();
        let handles: &'static Handles = Box::leak(Box::new(Handles::new(2)));
        let opened: Vec<_> = files(dir.path(), 12).iter().map(|path| handles.open(path).unwrap()).collect();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let opened = &opened;
                scope.spawn(move || {
                    for step in 0..if cfg!(miri) { 30 } else { 3000 } {
                        let number = (step * (thread + 3)) % opened.len();
                        assert_eq!(read_all(&*opened[number]).unwrap(), number.to_string().as_bytes());
                    }
                });
            }
        });
        assert_eq!(open_count(&opened), handles.open.load(Ordering::Relaxed));
        assert!(open_count(&opened) <= 2);
    }

    #[test]
    fn a_call_that_finds_no_descriptor_gets_one_from_a_file_that_rests() {
        let dir = tempfile::tempdir().unwrap();
        let handles: &'static Handles = Box::leak(Box::new(Handles::new(10)));
        let opened: Vec<_> = files(dir.path(), 4).iter().map(|path| handles.open(path).unwrap()).collect();
        let mut refused = 2;
        let done = handles.with_descriptor(|| {
            if refused == 0 {
                return Ok(());
            }
            refused -= 1;
            Err(io::Error::from_raw_os_error(TOO_MANY_HERE))
        });
        assert!(done.is_ok());
        assert_eq!(open_count(&opened), 2);
        let refused = handles.with_descriptor(|| Err::<(), _>(io::Error::from_raw_os_error(TOO_MANY_HERE)));
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(TOO_MANY_HERE));
        assert_eq!(open_count(&opened), 0);
    }

    #[test]
    fn the_limit_is_read_where_linux_tells_it() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\nMax open files            64                   4096                 files\n";
        assert_eq!(soft_limit(limits), Some(64));
        assert_eq!(soft_limit("Max open files            unlimited            unlimited"), Some(usize::MAX));
        assert_eq!(soft_limit(""), None);
    }
}
