//! Files in memory, and what a power cut leaves of them: `MemFs`.
//!
//! Beside the content and names that a program sees it keeps what is durable. That is content at
//! the file's last sync, names at the directory's, and the changes since. `crash` makes the image
//! that the machine wakes up with, by a `Persist` and a seed. `crash_after` cuts the power at an
//! ordered operation; `record_cuts` keeps the cut of every operation of one life. `kill` ends a
//! process, `lie` makes syncs do nothing. `content` and `set_content` read and plant a file's
//! bytes, past any handle.
//!
//! What must hold: everything is a function of the calls and the seed, so a life can be lived
//! again. An image shares nothing that is written later.
//! Callers: nearly every test that needs files, `solera-sim`, `solera-tune`, `solera-bench` and
//! `fuzz`.

use super::{Fs, ReadFile, WriteFile};
use crate::{
    error::{Error, Result},
    key,
};
use content::Content;
use names::{Directory, NameChange};
use parking_lot::{Mutex, RwLock};
use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

mod content;
mod names;
mod persist;
#[cfg(test)]
mod tests;

pub use persist::Persist;

/// A file system in memory. A clone is another handle of the same one.
#[derive(Clone)]
pub struct MemFs(Arc<Disk>);

struct Disk {
    dirs: Mutex<BTreeMap<PathBuf, Directory>>,
    locks: Arc<Mutex<BTreeMap<PathBuf, Holders>>>,
    operations: AtomicU64,
    /// How many were given ([`Fs::nonce`]). Of a disk and of what becomes of it together.
    nonces: AtomicU64,
    /// The mutating operation, counted from 0, that the power cut interrupts.
    crash_at: AtomicU64,
    /// Syncs return success and do nothing.
    lying: AtomicBool,
    /// The disk as a power cut during each operation would find it, while that is recorded.
    cuts: Mutex<Option<Vec<MemFs>>>,
}

type Inode = Arc<RwLock<Content>>;

/// What becomes of a mutating operation.
#[derive(PartialEq)]
enum Fate {
    /// It is done.
    Done,
    /// The power fails during it: its effect may be found after the crash, but it never returns.
    Interrupted,
}

impl MemFs {
    /// An empty file system. Its root directory exists.
    pub fn new() -> Self {
        MemFs::of(BTreeMap::from([(PathBuf::new(), Directory::default())]), 0)
    }

    fn of(dirs: BTreeMap<PathBuf, Directory>, nonces: u64) -> Self {
        MemFs(Arc::new(Disk {
            dirs: Mutex::new(dirs),
            locks: Arc::default(),
            operations: AtomicU64::new(0),
            nonces: AtomicU64::new(nonces),
            crash_at: AtomicU64::new(u64::MAX),
            lying: AtomicBool::new(false),
            cuts: Mutex::new(None),
        }))
    }

    /// What the machine wakes up with if the power is cut now: an independent file system on which
    /// everything is durable and nothing is locked. The same history, `persist` and `seed` give the
    /// same image; `seed` matters where `persist` is random ([`Persist::is_random`]).
    pub fn crash(&self, persist: Persist, seed: u64) -> MemFs {
        let mut rng = Rng(seed);
        let live = self.0.dirs.lock();
        // What the blocks of a file that grew may have held before.
        let stale: Vec<&Inode> = match persist {
            Persist::Stale => live.values().flat_map(Directory::ever).collect(),
            _ => Vec::new(),
        };
        // Hard links stay links: each inode's fate is decided once.
        let mut images: BTreeMap<*const RwLock<Content>, Inode> = BTreeMap::new();
        let mut dirs = BTreeMap::new();
        for (path, dir) in &*live {
            let mut image = Directory::default();
            for (name, inode) in dir.after_crash(persist, &mut rng) {
                let content = images.entry(Arc::as_ptr(&inode)).or_insert_with(|| {
                    let former = (!stale.is_empty()).then(|| stale[rng.below(stale.len() as u64) as usize]);
                    let former = former.filter(|former| !Arc::ptr_eq(former, &inode)).map(|f| f.read());
                    let after = inode.read().after_crash(persist, former.as_deref(), &mut rng);
                    Arc::new(RwLock::new(after))
                });
                image.names.insert(name.clone(), content.clone());
                image.durable.insert(name, content.clone());
            }
            dirs.insert(path.clone(), image);
        }
        MemFs::of(dirs, self.0.nonces.load(Ordering::SeqCst))
    }

    /// What another process finds if this one is killed now: the same files, what is not durable of
    /// them still not durable, and no locks. Counts on from the same number of operations to the
    /// same power cut.
    pub fn kill(&self) -> MemFs {
        let mut copies: BTreeMap<*const RwLock<Content>, Inode> = BTreeMap::new();
        let mut copy = |inode: &Inode| {
            let fresh = || Arc::new(RwLock::new(inode.read().clone()));
            copies.entry(Arc::as_ptr(inode)).or_insert_with(fresh).clone()
        };
        let dirs = self.0.dirs.lock();
        let dirs = dirs.iter().map(|(path, dir)| (path.clone(), dir.copied(&mut copy))).collect();
        let fs = MemFs::of(dirs, self.0.nonces.load(Ordering::SeqCst));
        fs.0.operations.store(self.operations(), Ordering::SeqCst);
        fs.0.crash_at.store(self.0.crash_at.load(Ordering::SeqCst), Ordering::SeqCst);
        fs.0.lying.store(self.0.lying.load(Ordering::SeqCst), Ordering::SeqCst);
        fs
    }

    /// How many mutating operations were done: creations, appends, truncations, syncs and changes
    /// of names.
    pub fn operations(&self) -> u64 {
        self.0.operations.load(Ordering::SeqCst)
    }

    /// Cuts the power after `count` more mutating operations: the next one fails, as does every
    /// later one. The interrupted operation's effect is there but not durable, except that a sync
    /// has none. Use [`MemFs::crash`] to go on.
    pub fn crash_after(&self, count: u64) {
        self.0.crash_at.store(self.operations().saturating_add(count), Ordering::SeqCst);
    }

    /// Whether the power cut that [`MemFs::crash_after`] ordered has come.
    pub fn crashed(&self) -> bool {
        self.operations() >= self.0.crash_at.load(Ordering::SeqCst).saturating_add(1)
    }

    /// Whether to keep from now on, for each mutating operation, the disk as the power cut that
    /// [`MemFs::crash_after`] orders for it would leave it. Not for concurrent use: what another
    /// thread changes meanwhile is found in the copy too.
    pub fn record_cuts(&self, recording: bool) {
        *self.0.cuts.lock() = recording.then(Vec::new);
    }

    /// Takes what [`MemFs::record_cuts`] has kept so far, in the order of the operations; recording
    /// goes on. [`MemFs::crash`] makes an image of each.
    pub fn take_cuts(&self) -> Vec<MemFs> {
        self.0.cuts.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Whether syncs, of files and of directories, return success and do nothing, as with a device
    /// that acknowledges what lies in its cache.
    pub fn lie(&self, lying: bool) {
        self.0.lying.store(lying, Ordering::SeqCst);
    }

    /// Every file's path, sorted by directory, then name.
    pub fn files(&self) -> Vec<PathBuf> {
        let dirs = self.0.dirs.lock();
        dirs.iter().flat_map(|(path, dir)| dir.names.keys().map(move |name| path.join(name))).collect()
    }

    /// The content of a file, beside any handle or fault.
    pub fn content(&self, path: &Path) -> Result<Vec<u8>> {
        let inode = self.inode("read", path)?;
        let content = inode.read();
        let mut bytes = vec![0; content.len() as usize];
        content.read_at(&mut bytes, 0);
        Ok(bytes)
    }

    /// Puts `bytes` in the place of a file's content, or makes a file of them, durably and beside
    /// any handle: for planting damage. Not counted as an operation. The directory must exist.
    pub fn set_content(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let inode: Inode = Arc::new(RwLock::new(Content::durable(bytes)));
        let (parent, name) = split("write", path)?;
        let mut dirs = self.0.dirs.lock();
        let dir = dirs.get_mut(&parent).ok_or_else(|| not_found("write", path))?;
        dir.durable.insert(name.clone(), inode.clone());
        dir.names.insert(name, inode);
        Ok(())
    }

    fn inode(&self, op: &'static str, path: &Path) -> Result<Inode> {
        let (parent, name) = split(op, path)?;
        let dirs = self.0.dirs.lock();
        dirs.get(&parent).and_then(|dir| dir.names.get(&name)).cloned().ok_or_else(|| not_found(op, path))
    }

    /// Makes a file that does not exist.
    fn create_inode(&self, path: &Path) -> Result<Inode> {
        let inode = Inode::default();
        self.change_name("create", path, |dir, name| {
            if dir.names.contains_key(&name) {
                return Err(Error::io("create", path, io::ErrorKind::AlreadyExists.into()));
            }
            dir.change(NameChange::Set(name, inode.clone()));
            Ok(())
        })?;
        Ok(inode)
    }

    /// Counts a mutating operation and says what becomes of it.
    fn mutation(&self, op: &'static str, path: &Path) -> Result<Fate> {
        let crash_at = self.0.crash_at.load(Ordering::SeqCst);
        let count = |done: u64| (done <= crash_at).then_some(done.saturating_add(1));
        match self.0.operations.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count) {
            Ok(done) if done == crash_at => Ok(Fate::Interrupted),
            Ok(_) => Ok(Fate::Done),
            Err(_) => Err(power_cut(op, path)),
        }
    }

    /// The end of a mutating operation whose effect is there.
    fn done(&self, fate: Fate, op: &'static str, path: &Path) -> Result<()> {
        self.keep_cut();
        if fate == Fate::Interrupted { Err(power_cut(op, path)) } else { Ok(()) }
    }

    /// Counts a sync; false: it does nothing. One that the power cut interrupts has no effect.
    fn syncs(&self, op: &'static str, path: &Path) -> Result<bool> {
        let fate = self.mutation(op, path)?;
        self.done(fate, op, path)?;
        Ok(!self.0.lying.load(Ordering::SeqCst))
    }

    fn keep_cut(&self) {
        if self.0.cuts.lock().is_some() {
            let cut = self.kill();
            if let Some(cuts) = &mut *self.0.cuts.lock() {
                cuts.push(cut);
            }
        }
    }

    /// Makes one change of names in the directory of `path`; `change` may refuse.
    fn change_name(
        &self,
        op: &'static str,
        path: &Path,
        change: impl FnOnce(&mut Directory, String) -> Result<()>,
    ) -> Result<()> {
        let fate = self.mutation(op, path)?;
        let (parent, name) = split(op, path)?;
        let mut dirs = self.0.dirs.lock();
        if dirs.contains_key(&parent.join(&name)) {
            return Err(Error::io(op, path, io::ErrorKind::IsADirectory.into()));
        }
        change(dirs.get_mut(&parent).ok_or_else(|| not_found(op, path))?, name)?;
        drop(dirs);
        self.done(fate, op, path)
    }
}

impl Default for MemFs {
    fn default() -> Self {
        MemFs::new()
    }
}

impl fmt::Debug for MemFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemFs").field("files", &self.files()).field("operations", &self.operations()).finish()
    }
}

fn power_cut(op: &'static str, path: &Path) -> Error {
    Error::io(op, path, io::Error::other("crashed"))
}

fn not_found(op: &'static str, path: &Path) -> Error {
    Error::io(op, path, io::ErrorKind::NotFound.into())
}

/// `path` from the root, without `.`; absolute and relative paths mean the same.
fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir)).collect()
}

/// The directory and the name in it.
fn split(op: &'static str, path: &Path) -> Result<(PathBuf, String)> {
    let whole = normal(path);
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Ok((parent.into(), name.to_string_lossy().into_owned())),
        _ => Err(Error::io(op, path, io::ErrorKind::IsADirectory.into())),
    }
}

impl Fs for MemFs {
    fn nonce(&self) -> u64 {
        key::hash(&self.0.nonces.fetch_add(1, Ordering::SeqCst).to_le_bytes())
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(MemReadFile { inode: self.inode("open", path)?, path: path.into() }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let inode = self.create_inode(path)?;
        Ok(Box::new(MemWriteFile { fs: self.clone(), inode, path: path.into(), reserves: false }))
    }

    fn create_reserving(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let inode = self.create_inode(path)?;
        Ok(Box::new(MemWriteFile { fs: self.clone(), inode, path: path.into(), reserves: true }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let (from_parent, from_name) = split("rename", from)?;
        let (to_parent, to_name) = split("rename", to)?;
        if from_parent == to_parent {
            return self.change_name("rename", from, |dir, from_name| {
                let inode = dir.names.get(&from_name).ok_or_else(|| not_found("rename", from))?.clone();
                dir.change(NameChange::Rename(from_name, to_name, inode));
                Ok(())
            });
        }
        // Across directories the two halves persist each with its own directory.
        let fate = self.mutation("rename", from)?;
        let inode = self.inode("rename", from)?;
        let mut dirs = self.0.dirs.lock();
        let target = dirs.get_mut(&to_parent).ok_or_else(|| not_found("rename", to))?;
        target.change(NameChange::Set(to_name, inode));
        if let Some(source) = dirs.get_mut(&from_parent) {
            source.change(NameChange::Remove(from_name));
        }
        drop(dirs);
        self.done(fate, "rename", from)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.change_name("remove", path, |dir, name| {
            if !dir.names.contains_key(&name) {
                return Err(not_found("remove", path));
            }
            dir.change(NameChange::Remove(name));
            Ok(())
        })
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let inode = self.inode("link", from)?;
        self.change_name("link", to, |dir, name| {
            if dir.names.contains_key(&name) {
                return Err(Error::io("link", to, io::ErrorKind::AlreadyExists.into()));
            }
            dir.change(NameChange::Set(name, inode));
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let honest = self.syncs("sync directory", path)?;
        let mut dirs = self.0.dirs.lock();
        let dir = dirs.get_mut(&normal(path)).ok_or_else(|| not_found("sync directory", path))?;
        if honest {
            dir.sync();
        }
        Ok(())
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let whole = normal(path);
        let missing: Vec<PathBuf> = {
            let dirs = self.0.dirs.lock();
            whole.ancestors().take_while(|dir| !dirs.contains_key(*dir)).map(PathBuf::from).collect()
        };
        for dir in missing.into_iter().rev() {
            let fate = self.mutation("create directory", path)?;
            if self.inode("create directory", &dir).is_ok() {
                return Err(Error::io("create directory", path, io::ErrorKind::AlreadyExists.into()));
            }
            self.0.dirs.lock().entry(dir).or_default();
            self.done(fate, "create directory", path)?;
        }
        Ok(())
    }

    fn list_dir(&self, path: &Path) -> Result<Vec<String>> {
        let dirs = self.0.dirs.lock();
        let whole = normal(path);
        let dir = dirs.get(&whole).ok_or_else(|| not_found("list", path))?;
        let children = dirs.keys().filter(|child| child.parent() == Some(&whole));
        let children = children.filter_map(|child| child.file_name());
        let mut names: Vec<String> = children.map(|name| name.to_string_lossy().into_owned()).collect();
        names.extend(dir.names.keys().cloned());
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let is_dir = self.0.dirs.lock().contains_key(&normal(path));
        Ok(is_dir || self.inode("look for", path).is_ok())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        let whole = normal(path);
        let mut locks = self.0.locks.lock();
        if locks.contains_key(&whole) {
            return Err(Error::Locked { path: path.parent().unwrap_or(path).into(), pid: None });
        }
        if self.inode("lock", path).is_err() {
            self.create(path)?;
        }
        locks.insert(whole.clone(), Holders::One);
        Ok(Box::new(MemLock { locks: self.0.locks.clone(), path: whole }))
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
        if self.inode("lock", path).is_err() {
            return Ok(None);
        }
        let whole = normal(path);
        let mut locks = self.0.locks.lock();
        match locks.entry(whole.clone()).or_insert(Holders::Sharing(0)) {
            Holders::One => {
                return Err(Error::Locked { path: path.parent().unwrap_or(path).into(), pid: None });
            }
            Holders::Sharing(count) => *count += 1,
        }
        Ok(Some(Box::new(MemLock { locks: self.0.locks.clone(), path: whole })))
    }
}

/// How many holders a lock has.
#[derive(Clone, Copy, Debug)]
enum Holders {
    One,
    Sharing(usize),
}

struct MemLock {
    locks: Arc<Mutex<BTreeMap<PathBuf, Holders>>>,
    path: PathBuf,
}

impl Drop for MemLock {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        match locks.get_mut(&self.path) {
            Some(Holders::Sharing(count)) if *count > 1 => *count -= 1,
            _ => drop(locks.remove(&self.path)),
        }
    }
}

struct MemReadFile {
    inode: Inode,
    path: PathBuf,
}

impl fmt::Debug for MemReadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemReadFile").field(&self.path).finish()
    }
}

impl ReadFile for MemReadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        Ok(self.inode.read().read_at(buf, offset))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.inode.read().len())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

struct MemWriteFile {
    fs: MemFs,
    inode: Inode,
    path: PathBuf,
    /// The file is longer than what was appended, as with `posix::mapped`.
    reserves: bool,
}

impl fmt::Debug for MemWriteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemWriteFile").field(&self.path).finish()
    }
}

impl WriteFile for MemWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let fate = self.fs.mutation("append to", &self.path)?;
        let mut content = self.inode.write();
        content.append(bytes);
        if self.reserves {
            content.reserve();
        }
        drop(content);
        self.fs.done(fate, "append to", &self.path)
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        let fate = self.fs.mutation("truncate", &self.path)?;
        self.inode.write().truncate(len);
        self.fs.done(fate, "truncate", &self.path)
    }

    fn trim(&mut self) -> Result<()> {
        if !self.reserves {
            return Ok(());
        }
        let fate = self.fs.mutation("trim", &self.path)?;
        self.inode.write().trim();
        self.fs.done(fate, "trim", &self.path)
    }

    fn sync(&mut self) -> Result<()> {
        if self.fs.syncs("sync", &self.path)? {
            self.inode.write().sync();
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for MemWriteFile {
    fn drop(&mut self) {
        // What a killed process leaves reserved, the next open takes for what it is: zeros.
        let _ = self.trim();
    }
}

/// SplitMix64: small, good enough to choose pages by, and the same everywhere.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}
