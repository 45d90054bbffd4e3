//! Files whose reads and writes take time by a world's clock: `WorldFs`, any `Fs` with a price on
//! each read and append.
//!
//! What must hold: a read that goes on where the last one of its file ended is sequential. It costs
//! by the page, and at most as another of its length. Another costs what a random read does.
//! Appends cost by the page. All else costs nothing, syncs too.
//!
//! Callers: `world::World`, `tests/unharmed.rs`, and the counted machine of `solera-bench`
//! (`paper::counted`).

use super::WorldClock;
use crate::cost::{Units, units::PAGE_BYTES};
use solera::{
    Result,
    vfs::{Fs, ReadFile, WriteFile},
};
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

#[derive(Debug)]
struct Prices {
    clock: Arc<WorldClock>,
    units: Units,
}

/// A file system in a world.
#[derive(Debug)]
pub struct WorldFs<F> {
    fs: F,
    prices: Arc<Prices>,
}

impl<F: Fs> WorldFs<F> {
    /// `fs`, at these prices.
    pub fn new(fs: F, clock: Arc<WorldClock>, units: Units) -> WorldFs<F> {
        WorldFs { fs, prices: Arc::new(Prices { clock, units }) }
    }

    fn priced(&self, file: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(Written { file, prices: self.prices.clone() })
    }
}

impl<F: Fs> Fs for WorldFs<F> {
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let (file, prices) = (self.fs.open(path)?, self.prices.clone());
        Ok(Arc::new(Read { file, prices, end: AtomicU64::new(u64::MAX) }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(self.priced(self.fs.create(path)?))
    }

    fn create_reserving(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(self.priced(self.fs.create_reserving(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.fs.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        self.fs.remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.fs.hard_link(from, to)
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.fs.sync_dir(path)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.fs.create_dir_all(path)
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.fs.remove_dir(path)
    }

    fn list_dir(&self, path: &Path) -> Result<Vec<String>> {
        self.fs.list_dir(path)
    }

    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.fs.absolute(path)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.fs.exists(path)
    }

    fn nonce(&self) -> u64 {
        self.fs.nonce()
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.fs.lock(path)
    }

    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
        self.fs.lock_shared(path)
    }
}

#[derive(Debug)]
struct Read {
    file: Arc<dyn ReadFile>,
    prices: Arc<Prices>,
    /// Where the last read ended.
    end: AtomicU64,
}

impl ReadFile for Read {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        let units = &self.prices.units;
        let pages = read as f64 / PAGE_BYTES;
        let goes_on = self.end.swap(offset + read as u64, Relaxed) == offset;
        let random = units.read_ns(read as f64);
        self.prices.clock.charge(match goes_on {
            true => (pages * units.read_ahead_ns_per_page).min(random),
            false => random,
        });
        Ok(read)
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[derive(Debug)]
struct Written {
    file: Box<dyn WriteFile>,
    prices: Arc<Prices>,
}

impl WriteFile for Written {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes)?;
        self.prices.clock.charge(bytes.len() as f64 / PAGE_BYTES * self.prices.units.write_ns_per_page);
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> Result<()> {
        self.file.truncate(len)
    }

    fn trim(&mut self) -> Result<()> {
        self.file.trim()
    }

    fn expect(&mut self, bytes: u64) {
        self.file.expect(bytes);
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }

    fn is_gone(&self) -> bool {
        self.file.is_gone()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}
