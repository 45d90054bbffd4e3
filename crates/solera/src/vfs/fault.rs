//! Faults on purpose: `FaultFs`, any `Fs` with chosen calls made to fail, by `Fault`, `Call` and
//! `Effect`.
//!
//! It passes calls on to another file system, and counts those that a `Call` names. A `Fault` names
//! classes of calls, lets the first few through, and then fails one, some, or all that follow. So a
//! loop over `skip` visits every call of a life. `heal` removes the faults; `over` takes them to
//! the next process's files.
//!
//! What must hold: which call is hit is a function of the calls made. A file whose sync was made to
//! fail is never synced again, though later syncs return success. Some kernels do that: they mark
//! the pages clean.
//! Callers: tests of the engine, and `solera-sim` (`faults`).

use super::{Fs, ReadFile, WriteFile};
use crate::error::{Error, Result};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    io, mem,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A class of calls of [`Fs`], [`ReadFile`] and [`WriteFile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// [`Fs::open`].
    Open,
    /// [`ReadFile::read_at`] and [`ReadFile::read_needed`].
    Read,
    /// [`ReadFile::len`].
    Len,
    /// [`Fs::create`].
    Create,
    /// [`WriteFile::append`].
    Append,
    /// [`WriteFile::truncate`].
    Truncate,
    /// [`WriteFile::sync`].
    Sync,
    /// [`Fs::rename`]; the path is the old one.
    Rename,
    /// [`Fs::remove_file`] and [`Fs::remove_dir`].
    Remove,
    /// [`Fs::hard_link`]; the path is the new one.
    Link,
    /// [`Fs::sync_dir`].
    SyncDir,
    /// [`Fs::create_dir_all`].
    CreateDir,
    /// [`Fs::list_dir`].
    List,
    /// [`Fs::exists`].
    Exists,
    /// [`Fs::lock`].
    Lock,
}

impl Call {
    /// Every class.
    pub const ALL: [Call; 15] = [
        Call::Open,
        Call::Read,
        Call::Len,
        Call::Create,
        Call::Append,
        Call::Truncate,
        Call::Sync,
        Call::Rename,
        Call::Remove,
        Call::Link,
        Call::SyncDir,
        Call::CreateDir,
        Call::List,
        Call::Exists,
        Call::Lock,
    ];

    fn verb(self) -> &'static str {
        match self {
            Call::Open => "open",
            Call::Read => "read",
            Call::Len => "measure",
            Call::Create => "create",
            Call::Append => "append to",
            Call::Truncate => "truncate",
            Call::Sync => "sync",
            Call::Rename => "rename",
            Call::Remove => "remove",
            Call::Link => "link",
            Call::SyncDir => "sync directory",
            Call::CreateDir => "create directory",
            Call::List => "list",
            Call::Exists => "look for",
            Call::Lock => "lock",
        }
    }
}

/// What happens to a call that is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does nothing and fails with this kind of error.
    Fail(io::ErrorKind),
    /// It does nothing and fails with this error number of the system, for those that have no kind.
    FailOs(i32),
    /// A read returns about half of what was asked for. An append writes about half and fails as if
    /// the disk were full. Other calls fail with [`io::ErrorKind::Other`].
    Short,
}

impl Effect {
    fn error(self) -> io::Error {
        match self {
            Effect::Fail(kind) => io::Error::new(kind, "injected fault"),
            Effect::FailOs(number) => io::Error::from_raw_os_error(number),
            Effect::Short => io::Error::other("injected fault"),
        }
    }
}

/// Which calls are hit, and what happens to them.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The classes of calls; none: every class.
    pub calls: Vec<Call>,
    /// Only calls on paths that contain this text.
    pub path_contains: String,
    /// How many such calls pass before the first is hit.
    pub skip: u64,
    /// How many are hit after that; `u64::MAX` for all.
    pub times: u64,
    /// What happens to them.
    pub effect: Effect,
}

impl Fault {
    /// One call of this class fails, after `skip` of them have passed, whatever the path.
    pub fn once(call: Call, skip: u64, effect: Effect) -> Self {
        Fault { calls: vec![call], path_contains: String::new(), skip, times: 1, effect }
    }

    /// All calls of this class fail, after `skip` of them have passed, whatever the path.
    pub fn sticky(call: Call, skip: u64, effect: Effect) -> Self {
        Fault { times: u64::MAX, ..Fault::once(call, skip, effect) }
    }

    /// The same fault, for paths that contain `text` only.
    pub fn on(self, text: &str) -> Self {
        Fault { path_contains: text.into(), ..self }
    }
}

/// A file system with faults. A clone is another handle of the same one.
#[derive(Clone, Debug)]
pub struct FaultFs {
    below: Arc<dyn Fs>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<Fault>,
    calls: BTreeMap<Call, u64>,
    hits: u64,
    hits_of: BTreeMap<Call, u64>,
    first_hit: Option<(Call, PathBuf)>,
}

impl FaultFs {
    /// `below`, without faults as yet.
    pub fn new(below: Arc<dyn Fs>) -> Self {
        FaultFs { below, state: Arc::default() }
    }

    /// Adds a fault. Where several apply to a call, the first added that is due decides.
    pub fn inject(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    /// Heals: removes all faults. Files whose sync failed stay unsyncable.
    pub fn heal(&self) {
        self.state.lock().faults.clear();
    }

    /// How many calls of this class were made, hit ones included.
    pub fn calls(&self, call: Call) -> u64 {
        self.state.lock().calls.get(&call).copied().unwrap_or(0)
    }

    /// How many calls were hit.
    pub fn hits(&self) -> u64 {
        self.state.lock().hits
    }

    /// How many calls of this class were hit.
    pub fn hits_of(&self, call: Call) -> u64 {
        self.state.lock().hits_of.get(&call).copied().unwrap_or(0)
    }

    /// The first call that was hit.
    pub fn first_hit(&self) -> Option<(Call, PathBuf)> {
        self.state.lock().first_hit.clone()
    }

    /// Takes the faults, counts included, to other files, those of the next process: what is left
    /// of the process before goes on without them, and without being counted.
    pub fn over(&self, below: Arc<dyn Fs>) -> FaultFs {
        FaultFs { below, state: Arc::new(Mutex::new(mem::take(&mut *self.state.lock()))) }
    }

    /// Counts the call; the effect if it is hit.
    fn effect(&self, call: Call, path: &Path) -> Option<Effect> {
        let mut state = self.state.lock();
        *state.calls.entry(call).or_default() += 1;
        let whole = path;
        let path = path.to_string_lossy();
        let mut hit = None;
        for fault in &mut state.faults {
            if !(fault.calls.is_empty() || fault.calls.contains(&call))
                || !path.contains(&fault.path_contains)
            {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
            } else if fault.times > 0 && hit.is_none() {
                fault.times -= u64::from(fault.times != u64::MAX);
                hit = Some(fault.effect);
            }
        }
        if hit.is_some() {
            state.hits += 1;
            *state.hits_of.entry(call).or_default() += 1;
            state.first_hit.get_or_insert_with(|| (call, whole.to_path_buf()));
        }
        hit
    }

    /// Lets the call pass or fails it.
    fn pass(&self, call: Call, path: &Path) -> Result<()> {
        match self.effect(call, path) {
            None => Ok(()),
            Some(effect) => Err(Error::io(call.verb(), path, effect.error())),
        }
    }
}

impl Fs for FaultFs {
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.pass(Call::Open, path)?;
        Ok(Arc::new(FaultReadFile { below: self.below.open(path)?, fs: self.clone() }))
    }

    fn open_direct(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        self.pass(Call::Open, path)?;
        Ok(Arc::new(FaultReadFile { below: self.below.open_direct(path)?, fs: self.clone() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.pass(Call::Create, path)?;
        let below = self.below.create(path)?;
        Ok(Box::new(FaultWriteFile { below, fs: self.clone(), unsyncable: false, path: path.into() }))
    }

    fn create_reserving(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.pass(Call::Create, path)?;
        let below = self.below.create_reserving(path)?;
        Ok(Box::new(FaultWriteFile { below, fs: self.clone(), unsyncable: false, path: path.into() }))
    }

    fn nonce(&self) -> u64 {
        self.below.nonce()
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.pass(Call::Rename, from)?;
        self.below.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.pass(Call::Remove, path)?;
        self.below.remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.pass(Call::Link, to)?;
        self.below.hard_link(from, to)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.pass(Call::SyncDir, path)?;
        self.below.sync_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.pass(Call::CreateDir, path)?;
        self.below.create_dir_all(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.pass(Call::Remove, path)?;
        self.below.remove_dir(path)
    }

    fn list_dir(&self, path: &Path) -> Result<Vec<String>> {
        self.pass(Call::List, path)?;
        self.below.list_dir(path)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.below.absolute(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.pass(Call::Exists, path)?;
        self.below.exists(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.pass(Call::Lock, path)?;
        self.below.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
        self.pass(Call::Lock, path)?;
        self.below.lock_shared(path)
    }
}

#[derive(Debug)]
struct FaultReadFile {
    below: Arc<dyn ReadFile>,
    fs: FaultFs,
}

impl FaultReadFile {
    /// Lets a read pass, of less perhaps than was asked for, or fails it.
    fn read(&self, buf: &mut [u8], read: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<usize> {
        match self.fs.effect(Call::Read, self.path()) {
            None => read(buf),
            Some(Effect::Short) => {
                let half = buf.len().div_ceil(2);
                read(&mut buf[..half])
            }
            Some(effect) => Err(Error::io(Call::Read.verb(), self.path(), effect.error())),
        }
    }
}

impl ReadFile for FaultReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read(buf, |buf| self.below.read_at(buf, offset))
    }

    fn will_need(&self, offset: u64, len: u64) {
        self.below.will_need(offset, len);
    }

    fn read_needed(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.read(buf, |buf| self.below.read_needed(buf, offset))
    }

    fn len(&self) -> Result<u64> {
        self.fs.pass(Call::Len, self.path())?;
        self.below.len()
    }

    fn path(&self) -> &Path {
        self.below.path()
    }
}

#[derive(Debug)]
struct FaultWriteFile {
    below: Box<dyn WriteFile>,
    fs: FaultFs,
    /// A sync failed: what was not durable then never will be.
    unsyncable: bool,
    path: PathBuf,
}

impl WriteFile for FaultWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        match self.fs.effect(Call::Append, &self.path) {
            None => self.below.append(bytes),
            Some(Effect::Short) => {
                self.below.append(&bytes[..bytes.len() / 2])?;
                Err(Error::io(Call::Append.verb(), &self.path, io::ErrorKind::StorageFull.into()))
            }
            Some(effect) => Err(Error::io(Call::Append.verb(), &self.path, effect.error())),
        }
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.fs.pass(Call::Truncate, &self.path)?;
        self.below.truncate(len)
    }

    fn trim(&mut self) -> Result<()> {
        self.fs.pass(Call::Truncate, &self.path)?;
        self.below.trim()
    }

    fn expect(&mut self, bytes: u64) {
        self.below.expect(bytes);
    }

    fn sync(&mut self) -> Result<()> {
        if let Err(error) = self.fs.pass(Call::Sync, &self.path) {
            self.unsyncable = true;
            return Err(error);
        }
        if self.unsyncable { Ok(()) } else { self.below.sync() }
    }

    fn is_gone(&self) -> bool {
        self.below.is_gone()
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::{
        mem::{MemFs, Persist},
        posix::PosixFs,
        read_all,
    };

    fn path() -> &'static Path {
        Path::new("d/f")
    }

    fn on_memory() -> (MemFs, FaultFs) {
        let memory = MemFs::new();
        memory.create_dir_all(Path::new("d")).unwrap();
        (memory.clone(), FaultFs::new(Arc::new(memory)))
    }

    #[test]
    fn a_fault_hits_the_chosen_call_on_the_chosen_path_once() {
        let (_, fs) = on_memory();
        let full = Effect::Fail(io::ErrorKind::StorageFull);
        fs.inject(Fault::once(Call::Append, 1, full).on("f"));
        let (mut file, mut other) = (fs.create(path()).unwrap(), fs.create(Path::new("d/o")).unwrap());
        other.append(b"..").unwrap();
        other.append(b"..").unwrap();
        file.append(b"one").unwrap();
        assert_eq!(file.append(b"two").unwrap_err().io_kind(), Some(io::ErrorKind::StorageFull));
        file.append(b"three").unwrap();
        assert_eq!(read_all(&*fs.open(path()).unwrap()).unwrap(), b"onethree");
        assert_eq!((fs.hits(), fs.hits_of(Call::Append), fs.hits_of(Call::Sync)), (1, 1, 0));
        assert_eq!(fs.calls(Call::Append), 5);
    }

    /// A file that notes the calls which have a default.
    #[derive(Debug)]
    struct Noting {
        below: Arc<dyn ReadFile>,
        noted: Mutex<Vec<&'static str>>,
    }

    impl ReadFile for Noting {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
            self.below.read_at(buf, offset)
        }
        fn will_need(&self, _: u64, _: u64) {
            self.noted.lock().push("will_need");
        }
        fn read_needed(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
            self.noted.lock().push("read_needed");
            self.below.read_needed(buf, offset)
        }
        fn len(&self) -> Result<u64> {
            self.below.len()
        }
        fn path(&self) -> &Path {
            self.below.path()
        }
    }

    #[test]
    fn reads_ahead_reach_the_file_below_and_can_fail() {
        let (_, fs) = on_memory();
        fs.create(path()).unwrap().append(b"12345678").unwrap();
        let below = Arc::new(Noting { below: fs.below.open(path()).unwrap(), noted: Mutex::default() });
        let (file, mut buf) = (FaultReadFile { below: below.clone(), fs: fs.clone() }, [0; 8]);
        file.will_need(0, 8);
        assert_eq!(file.read_needed(&mut buf, 0).unwrap(), 8);
        assert_eq!(*below.noted.lock(), ["will_need", "read_needed"]);
        fs.inject(Fault::once(Call::Read, 0, Effect::Short));
        assert_eq!(file.read_needed(&mut buf, 0).unwrap(), 4);
        fs.inject(Fault::once(Call::Read, 0, Effect::Fail(io::ErrorKind::Other)));
        file.read_needed(&mut buf, 0).unwrap_err();
        assert_eq!((fs.calls(Call::Read), fs.hits()), (3, 2));
    }

    #[test]
    fn a_directory_is_removed_below_unless_a_fault_hits() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, inner) = (FaultFs::new(Arc::new(PosixFs::new())), dir.path().join("inner"));
        fs.create_dir_all(&inner).unwrap();
        fs.inject(Fault::once(Call::Remove, 0, Effect::Fail(io::ErrorKind::PermissionDenied)));
        fs.remove_dir(&inner).unwrap_err();
        assert!(inner.is_dir());
        fs.remove_dir(&inner).unwrap();
        assert!(!inner.exists() && fs.calls(Call::Remove) == 2);
    }

    #[test]
    fn the_next_process_takes_the_faults_along() {
        let (memory, fs) = on_memory();
        let mut old = fs.create(path()).unwrap();
        fs.inject(Fault::once(Call::Append, 1, Effect::Short));
        old.append(b"counted").unwrap();
        let next = fs.over(Arc::new(memory));
        old.append(b"by nobody").unwrap();
        next.create(Path::new("d/o")).unwrap().append(b"..").unwrap_err();
        assert_eq!((fs.hits(), next.hits(), next.calls(Call::Append)), (0, 1, 2));
    }

    #[test]
    fn a_sticky_fault_hits_until_healed() {
        let (_, fs) = on_memory();
        fs.inject(Fault::sticky(Call::Create, 0, Effect::FailOs(24)));
        for _ in 0..3 {
            fs.create(path()).unwrap_err();
        }
        fs.heal();
        fs.create(path()).unwrap();
    }

    #[test]
    fn a_short_append_writes_a_part_and_a_short_read_is_completed_by_read_all() {
        let (_, fs) = on_memory();
        let mut file = fs.create(path()).unwrap();
        fs.inject(Fault::once(Call::Append, 0, Effect::Short));
        file.append(b"12345678").unwrap_err();
        fs.inject(Fault::sticky(Call::Read, 0, Effect::Short));
        assert_eq!(read_all(&*fs.open(path()).unwrap()).unwrap(), b"1234");
    }

    #[test]
    fn after_a_failed_sync_a_successful_one_makes_nothing_durable() {
        let (memory, fs) = on_memory();
        let mut file = fs.create(path()).unwrap();
        fs.sync_dir(Path::new("d")).unwrap();
        file.append(b"kept").unwrap();
        file.sync().unwrap();
        file.append(b"lost").unwrap();
        fs.inject(Fault::once(Call::Sync, 0, Effect::Fail(io::ErrorKind::Other)));
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(memory.crash(Persist::Nothing, 0).content(path()).unwrap(), b"kept");
    }
}
