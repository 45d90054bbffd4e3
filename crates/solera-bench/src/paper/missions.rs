//! One database under a mix of operations, and what it did for them: `Tenant`, on a `Site`;
//! `Measured`.
//!
//! A `Site` is the data of an experiment and where it lies: a disk, or a place whose time is
//! counted (`counted`). `loaded` fills a tenant, `fork` copies it, `run` does operations. `foresee`
//! asks the cost model.
//!
//! What must hold: where the site has no background thread, all work is done in the caller's thread
//! at once. So an operation's time is all the work that it causes. Tables are read past the
//! system's cache where the file system allows it. Every read is checked, a value by the key that
//! it begins with; one wrong answer fails the run.
//!
//! Callers: `paper::{camal, camal_lab, camal_dynamic, ruskey, lerp, learning, contest, transition,
//! doblix_agent}`.

use super::{
    Scale,
    counted::{Counted, OwnClock},
};
use crate::{
    random::Random,
    runner::{Error, Result},
};
use solera::{
    Compression, Db, IndexKind, Layout, Options,
    clock::{Clock, SystemClock},
    control::{Change, knob},
    stats::Counters,
    vfs::{Fs, posix::PosixFs},
};
use solera_tune::cost::{Cost, Data, Mix, Model, Setting, model::Load, tree::Tree};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

/// Bytes of a key.
const KEY_BYTES: usize = 8;
/// Random bytes that values are parts of.
const VALUE_POOL_BYTES: usize = 1 << 20;
/// Bits of the numbers of keys that are there.
const PRESENT_BITS: u32 = 40;
/// Smallest budget of a database.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// The least that a database keeps of its budget for the block cache is one in so many parts.
const CACHE_PARTS: u64 = 8;
/// A budget is this share of the data: so little that the block cache is that least in every arm;
/// and enough for four write buffers of all of CAMAL's memory, 0.0016 of the data, which its
/// printed form asks for where nothing is looked up.
const MEMORY_SHARE: f64 = 0.0065;

/// The data of an experiment and where it lies.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The data, as the model sees it.
    pub(super) data: Data,
    /// Whether tables are read past the system's cache.
    pub(super) direct: bool,
    /// Where temporary directories are made.
    pub(super) directory: PathBuf,
    /// Where databases are loaded, before they are moved to `directory`; `None` for right there.
    pub(super) load_directory: Option<PathBuf>,
    /// The budget of every database, at least.
    pub(super) memory_least: u64,
    /// Seed of keys and operations.
    pub(super) seed: u64,
    /// How tables are indexed.
    pub(super) index: IndexKind,
    /// The error bound of an index that has one.
    pub(super) epsilon: u32,
    /// Threads of each database that flush and merge. 0: the writer does all that is due at once.
    pub(super) background_threads: usize,
    /// The time of this place.
    pub(super) clock: Arc<dyn Clock>,
    /// What it is computed by, if it is no disk.
    pub(super) counted: Option<Counted>,
}

/// Where a database lies; removed when this goes.
enum Home {
    Disk(TempDir),
    Counted(Counted, PathBuf),
}

impl Home {
    fn path(&self) -> &Path {
        match self {
            Home::Disk(directory) => directory.path(),
            Home::Counted(_, directory) => directory,
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Home::Counted(counted, directory) = self {
            counted.remove(directory);
        }
    }
}

impl Site {
    /// The place that `scale` says, with direct reads if it has them.
    pub(super) fn new(data: Data, scale: &Scale) -> Result<Site> {
        if scale.world {
            let counted = Counted::new();
            let clock = counted.clock();
            return Ok(Site {
                load_directory: None,
                clock,
                counted: Some(counted),
                ..Site::disk(data, scale)
            });
        }
        let directory = scale.directory.clone().unwrap_or_else(std::env::temp_dir);
        let trial = tempfile::Builder::new().prefix("solera-bench-").tempdir_in(&directory)?;
        let direct = match Options::new().direct_reads(true).open(trial.path()) {
            Ok(_) => true,
            Err(solera::Error::Invalid(_)) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Site { direct, ..Site::disk(data, scale) })
    }

    fn disk(data: Data, scale: &Scale) -> Site {
        Site {
            data,
            direct: false,
            directory: scale.directory.clone().unwrap_or_else(std::env::temp_dir),
            load_directory: scale.load_directory.clone(),
            memory_least: MEMORY_BYTES_MIN,
            seed: scale.seed,
            index: Layout::default().index,
            epsilon: Layout::default().epsilon,
            background_threads: 0,
            clock: Arc::new(SystemClock::new()),
            counted: None,
        }
    }

    /// Whether time is computed here.
    pub(super) fn is_counted(&self) -> bool {
        self.counted.is_some()
    }

    fn home(&self, directory: &Path) -> Result<Home> {
        if let Some(counted) = &self.counted {
            return Ok(Home::Counted(counted.clone(), counted.directory()));
        }
        Ok(Home::Disk(tempfile::Builder::new().prefix("solera-bench-").tempdir_in(directory)?))
    }

    /// The budget of every database here: equal for all arms, and so small that the block cache is
    /// too.
    pub(super) fn memory_bytes(&self) -> u64 {
        ((self.data.entries * self.data.entry_bytes * MEMORY_SHARE) as u64).max(self.memory_least)
    }

    /// What their block caches come to once the data is there: the least that a database keeps.
    pub(super) fn cache_bytes(&self) -> u64 {
        self.memory_bytes() / CACHE_PARTS
    }

    fn layout(&self, setting: &Setting) -> Layout {
        Layout {
            block_bytes: self.data.block_bytes as u32,
            index: self.index,
            epsilon: self.epsilon,
            compression: Compression::None,
            filter: setting.filters(),
        }
    }
}

/// A database under a setting.
pub(super) struct Tenant {
    pub(super) setting: Setting,
    site: Site,
    db: Db,
    random: Random,
    pool: Vec<u8>,
    /// Its time, where time is counted: it goes on while the tenant works.
    own: Option<Arc<OwnClock>>,
    /// Removed when the tenant goes; after `db`, by the order of the fields.
    directory: Home,
}

/// What a database takes of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// One write buffer.
    pub(super) write_buffer_bytes: u64,
    /// What the block cache may hold.
    pub(super) cache_bytes: u64,
    /// Filters of all tables.
    pub(super) filter_bytes: u64,
    /// The same for every entry, old versions too: a tree of more runs keeps more of those.
    pub(super) filter_bits_per_entry: f64,
}

/// What operations did.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    pub(super) operations: u64,
    pub(super) ns: u64,
    /// Blocks that lookups and scans read.
    pub(super) blocks_read: u64,
    /// Bytes that lookups, scans and merges read.
    pub(super) bytes_read: u64,
    /// Bytes that flushes and merges wrote.
    pub(super) bytes_written: u64,
    /// How many operations were writes, and their part of the time.
    pub(super) writes: u64,
    pub(super) write_ns: u64,
    /// The longest write, with the work that it did for others.
    pub(super) write_ns_max: u64,
}

impl Measured {
    /// Adds what later operations did.
    pub(super) fn add(&mut self, later: &Measured) {
        self.operations += later.operations;
        self.ns += later.ns;
        self.blocks_read += later.blocks_read;
        self.bytes_read += later.bytes_read;
        self.bytes_written += later.bytes_written;
        self.writes += later.writes;
        self.write_ns += later.write_ns;
        self.write_ns_max = self.write_ns_max.max(later.write_ns_max);
    }

    /// Blocks' worth of bytes that flushes and merges read and wrote.
    pub(super) fn merged_blocks(&self, data: &Data) -> f64 {
        let block = data.block_stored_bytes();
        let merged = self.bytes_read as f64 - self.blocks_read as f64 * block + self.bytes_written as f64;
        merged.max(0.0) / block
    }

    /// Blocks read, and blocks' worth of bytes read and written by flushes and merges, per
    /// operation.
    pub(super) fn blocks(&self, data: &Data) -> f64 {
        (self.blocks_read as f64 + self.merged_blocks(data)) / self.operations.max(1) as f64
    }

    /// Microseconds per operation.
    pub(super) fn us(&self) -> f64 {
        self.ns as f64 / 1e3 / self.operations.max(1) as f64
    }
}

/// The key of a number: numbers in order make keys in random order (the finalizer of splitmix64, a
/// bijection).
fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_be_bytes()
}

/// Bytes that flushes and merges wrote.
fn tables_written(counters: &Counters) -> u64 {
    counters.bytes_written_flush + counters.bytes_written_compaction
}

impl Tenant {
    fn open(site: &Site, setting: &Setting, directory: Home) -> Result<Tenant> {
        let own = site.counted.as_ref().map(Counted::own_clock);
        let options = match site.counted.as_ref().zip(own.clone()) {
            Some((counted, own)) => Options::new().fs(counted.fs()).clock(own),
            None => Options::new(),
        };
        let options = options
            .memory(site.memory_bytes())
            .write_buffer(setting.shape.write_buffer_bytes)
            .layout(site.layout(setting))
            .shape(setting.shape.clone())
            .direct_reads(site.direct)
            .background_threads(site.background_threads);
        let db = options.open(directory.path())?;
        // The papers' trees and the model's have no more runs in level 0 than its run limit.
        db.control().apply(Change::new("bench", "as the papers").set(&knob::LEVEL0_PATIENCE, 0u32))?;
        let mut random = Random::new(site.seed);
        let mut pool = vec![0; VALUE_POOL_BYTES];
        random.fill(&mut pool);
        let cache_bytes = db.stats().block_cache_capacity_bytes as f64;
        let setting = Setting { cache_bytes, ..setting.clone() };
        Ok(Tenant { setting, site: site.clone(), db, random, pool, own, directory })
    }

    /// A database with every key, put in random order and flushed.
    pub(super) fn loaded(
        site: &Site,
        setting: &Setting,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Tenant> {
        let (place, here) = match &site.load_directory {
            Some(place) => (place, &Site { direct: false, ..site.clone() }),
            None => (&site.directory, site),
        };
        let directory = here.home(place)?;
        let mut tenant = Tenant::open(here, setting, directory)?;
        let entries = site.data.entries as u64;
        for number in 0..entries {
            if number % 10_000 == 0 {
                progress(number, entries);
            }
            tenant.put(number)?;
        }
        tenant.db.flush()?;
        tenant.rest()?;
        if site.load_directory.is_some() {
            tenant = tenant.moved_to(site)?;
        }
        tenant.setting.cache_bytes = tenant.db.stats().block_cache_capacity_bytes as f64;
        Ok(tenant)
    }

    /// The same database in the directory of `site`, perhaps on another file system.
    #[expect(clippy::disallowed_methods, reason = "a closed database is moved as anybody would move it")]
    fn moved_to(self, site: &Site) -> Result<Tenant> {
        let Tenant { setting, db, directory: from, .. } = self;
        db.close()?;
        let to = site.home(&site.directory)?;
        for entry in std::fs::read_dir(from.path())? {
            let entry = entry?;
            let copy = to.path().join(entry.file_name());
            std::fs::copy(entry.path(), &copy)?;
            // What is written back later would be counted as work of what is measured then.
            std::fs::File::open(copy)?.sync_all()?;
        }
        Tenant::open(site, &setting, to)
    }

    /// A second database that begins as this one is now.
    pub(super) fn fork(&self) -> Result<Tenant> {
        let directory = self.site.home(&self.site.directory)?;
        self.db.checkpoint(directory.path())?;
        Tenant::open(&self.site, &self.setting, directory)
    }

    /// Does all work that is due, where no background thread does it.
    fn settle(&self) -> Result<()> {
        if self.site.background_threads == 0 {
            while self.db.step()? {}
        }
        Ok(())
    }

    /// Waits until all work that is due is done, by whatever thread.
    pub(super) fn rest(&self) -> Result<()> {
        Ok(self.db.wait_idle()?)
    }

    /// The database.
    pub(super) fn db(&self) -> &Db {
        &self.db
    }

    /// What it has of the memory that the arms of a comparison must share out alike.
    pub(super) fn memory(&self) -> Memory {
        let (whole, stats) = (self.db.stats(), self.db.default().stats());
        Memory {
            write_buffer_bytes: self.setting.shape.write_buffer_bytes,
            cache_bytes: whole.block_cache_capacity_bytes,
            filter_bytes: stats.filter_bytes,
            filter_bits_per_entry: stats.filter_bytes as f64 * 8.0 / stats.entries.max(1) as f64,
        }
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let value_bytes = self.site.data.entry_bytes as usize - KEY_BYTES;
        let at = self.random.below((VALUE_POOL_BYTES - value_bytes) as u64) as usize;
        // A value begins with its key, so that a read can be checked.
        let value = &mut self.pool[at..at + value_bytes];
        value[..KEY_BYTES].copy_from_slice(&key(number));
        self.db.put(key(number), value)?;
        self.settle()
    }

    /// Whether a scan from a key that is there begins with it and finds its entries.
    fn scan(&self, number: u64) -> Result<bool> {
        let first = key(number);
        let mut scan = self.db.range(&first[..]..);
        let mut right = scan.advance()? && scan.key() == first;
        for _ in 1..self.site.data.scan_entries as u64 {
            if !scan.advance()? {
                break;
            }
            right &= scan.value()[..KEY_BYTES] == *scan.key();
        }
        Ok(right)
    }

    /// Does `operations` operations of `mix`, all keys equally likely; writes are of keys that are
    /// there.
    pub(super) fn run(&mut self, clock: &dyn Clock, mix: &Mix, operations: u64) -> Result<Measured> {
        self.run_with(clock, mix, operations, |_| ())
    }

    /// The same; `wrote` hears how many nanoseconds each write took.
    pub(super) fn run_with(
        &mut self,
        clock: &dyn Clock,
        mix: &Mix,
        operations: u64,
        mut wrote: impl FnMut(u64),
    ) -> Result<Measured> {
        if let Some(own) = &self.own {
            own.begin();
        }
        let before = self.counters();
        let observed = self.site.counted.as_ref().map(|_| self.db.control().observe());
        let [v, r, q, _] = mix.shares();
        let entries = self.site.data.entries as u64;
        let (mut wrong, mut writes, mut write_ns, mut write_ns_max) = (0u64, 0, 0, 0);
        let start = clock.monotonic_ns();
        for _ in 0..operations {
            let kind = self.random.unit();
            let number = self.random.below(entries);
            let right = if kind < v {
                let absent = (1 << PRESENT_BITS) + self.random.below(1 << PRESENT_BITS);
                self.db.get(key(absent))?.is_none()
            } else if kind < v + r {
                let key = key(number);
                self.db.get(key)?.is_some_and(|value| value[..KEY_BYTES] == key)
            } else if kind < v + r + q {
                self.scan(number)?
            } else {
                let begin = clock.monotonic_ns();
                self.put(number)?;
                let ns = clock.monotonic_ns() - begin;
                (writes, write_ns, write_ns_max) = (writes + 1, write_ns + ns, write_ns_max.max(ns));
                wrote(ns);
                true
            };
            wrong += u64::from(!right);
        }
        if let (Some(counted), Some(before)) = (&self.site.counted, observed) {
            // What the processor did is charged at the end, to reads and to writes.
            write_ns += counted.charge(&self.db.control().observe().since(&before));
        }
        let ns = clock.monotonic_ns() - start;
        if let Some(own) = &self.own {
            own.end();
        }
        if wrong > 0 {
            return Err(Error::WrongAnswers {
                set: format!("{entries} entries"),
                index: self.site.layout(&self.setting).index,
                stage: mix.to_string(),
                wrong,
            });
        }
        let after = self.counters();
        Ok(Measured {
            operations,
            ns,
            blocks_read: after.blocks_read - before.blocks_read,
            bytes_read: after.bytes_read - before.bytes_read,
            bytes_written: tables_written(&after) - tables_written(&before),
            writes,
            write_ns,
            write_ns_max,
        })
    }

    /// Bytes of its manifest.
    pub(super) fn manifest_bytes(&self) -> Result<u64> {
        let directory = self.directory.path();
        let fs: Arc<dyn Fs> = match &self.site.counted {
            Some(counted) => counted.fs(),
            None => Arc::new(PosixFs::new()),
        };
        let mut bytes = 0;
        for name in fs.list_dir(directory)? {
            if name.starts_with("MANIFEST") {
                bytes += fs.open(&directory.join(name))?.len()?;
            }
        }
        Ok(bytes)
    }

    /// Bytes of tables read and written since it was opened.
    pub(super) fn table_bytes_moved(&self) -> u64 {
        let counters = self.counters();
        counters.bytes_read + tables_written(&counters)
    }

    fn counters(&self) -> Counters {
        self.db.default().stats().counters
    }

    /// The tree as it is now, for the model.
    pub(super) fn tree(&self) -> Tree {
        let levels = self.db.default().stats().levels;
        let entries = |runs: &[solera::RunStats]| runs.iter().map(|run| run.entries as f64).collect();
        let levels: Vec<Vec<f64>> = levels.iter().map(|level| entries(&level.runs)).collect();
        let data = &self.site.data;
        Tree::of(
            self.setting.shape.clone(),
            data.stored_bytes(self.setting.filter_bits),
            data.entries,
            &levels,
        )
    }

    /// Writes from one emptying of level 0 to the next.
    pub(super) fn level0_cycle(&self) -> u64 {
        let shape = &self.setting.shape;
        let memtable = self.site.data.memtable_entries(shape.write_buffer_bytes);
        (memtable * f64::from(shape.run_limit(0))).ceil() as u64
    }

    /// What the model foresees for `operations` operations: from the tree as it is now, and from
    /// nothing but the setting and the data.
    pub(super) fn foresee(&self, model: &Model, mix: &Mix, operations: u64) -> (Cost, Cost) {
        let load = Load { mix, operations: operations as f64 };
        let found = model.run(&self.setting, load, &mut self.tree());
        let blind = model.run(&self.setting, load, &mut model.loaded(&self.setting));
        (found, blind)
    }
}
