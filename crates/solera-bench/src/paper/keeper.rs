//! One database that keeps its values in one way, and what work on it took: `Keeper`, `Way`,
//! `Phase`, `Holding`.
//!
//! `load` puts every key once, `mixed` updates and reads by popularity (Zipf), `scans` and `reads`
//! ask, `put_in_order` walks until walks have paid for order. A `Phase` has times, bytes written by
//! what for, and space.
//!
//! What must hold: tables and sorted value files are read past the system's cache, if
//! `Setting::direct` says so. Logs are not, and what was just written lies there too. So what the
//! system keeps of the files is dropped again and again: no arm has more memory than another.
//! Every answer is checked, down to the version of the value.
//!
//! Caller: `paper::learnedkv`.

use super::{standstill::Standstill, subject::of_process};
use crate::{
    measure::histogram,
    random::Random,
    runner::{Error, Result},
    zipf::Zipf,
};
use hdrhistogram::Histogram;
use solera::{Compression, Db, Layout, Options, Reclaim, clock::Clock};
use std::{
    fs::{self, File},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::PathBuf,
};
use tempfile::TempDir;

/// Bytes of a key.
pub(super) const KEY_BYTES: u64 = 8;
/// Bytes of a value that say whose it is: the number of its key, and its version.
const MARK_BYTES: usize = 12;
/// Random bytes that values are parts of.
const VALUE_POOL_BYTES: usize = 1 << 20;
/// Most walks over everything that put values into order.
const WALKS_MAX: usize = 16;
/// After so many of them in a row for which nothing was moved, no more will be: what walks pay adds
/// up.
const WALKS_IN_VAIN: usize = 4;
/// An operation that takes so long is asked whether it waited for a processor or a device.
const SLOW_NS: u64 = 5_000_000;
/// Operations between two looks at whether values are being moved, and at the space.
const LOOK_OPERATIONS: u64 = 512;
/// What the system's cache holds of the files is dropped so many times in a phase, and in reads and
/// scans at rest.
const DROPS: u64 = 16;
/// Popularity of the keys that are updated and read, as in YCSB.
const ZIPF_EXPONENT: f64 = 0.99;
/// A prime above every count of pairs: multiples of it spread ranks over numbers.
const SPREAD: u64 = 2_654_435_761;
/// Looks at the same clock cost so little that each operation is timed.
const SIDES: usize = 2;

/// A way to keep values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// In the tables.
    Inline,
    /// Of their own, their space given back in this way.
    Separated(Reclaim),
}

impl Way {
    /// All of them.
    pub(super) fn all() -> Vec<Way> {
        [Way::Inline].into_iter().chain(Reclaim::ALL.map(Way::Separated)).collect()
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Inline => "inline",
            Way::Separated(Reclaim::Off) => "never reclaimed",
            Way::Separated(reclaim) => reclaim.name(),
        }
    }
}

/// What a database is made of.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) way: Way,
    pub(super) pairs: u64,
    pub(super) value_bytes: usize,
    pub(super) spare_percent: u32,
    pub(super) layout: Layout,
    pub(super) memory_bytes: u64,
    pub(super) direct: bool,
    pub(super) directory: PathBuf,
    pub(super) seed: u64,
}

impl Setting {
    /// Bytes of the keys and values that are live.
    pub(super) fn live_bytes(&self) -> u64 {
        self.pairs * (KEY_BYTES + self.value_bytes as u64)
    }

    fn options(&self) -> Options {
        // Values are random bytes: compression would measure itself.
        let layout = Layout { compression: Compression::None, ..self.layout };
        let options = Options::new()
            .memory(self.memory_bytes)
            .layout(layout)
            .direct_reads(self.direct)
            .value_spare_percent(self.spare_percent)
            .background_threads(1);
        match self.way {
            Way::Inline => options,
            Way::Separated(reclaim) => options.separate_values_from(1).reclaim(reclaim),
        }
    }
}

/// Bytes by what they were written for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) log: u64,
    pub(super) flush: u64,
    /// Tables that merges wrote.
    pub(super) merges: u64,
    /// Sorted value files.
    pub(super) values: u64,
}

impl Written {
    /// All of them.
    pub(super) fn all(&self) -> u64 {
        self.log + self.flush + self.merges + self.values
    }

    fn since(&self, before: &Written) -> Written {
        Written {
            log: self.log - before.log,
            flush: self.flush - before.flush,
            merges: self.merges - before.merges,
            values: self.values.saturating_sub(before.values),
        }
    }

    /// What both are together.
    pub(super) fn plus(&self, other: &Written) -> Written {
        Written {
            log: self.log + other.log,
            flush: self.flush + other.flush,
            merges: self.merges + other.merges,
            values: self.values + other.values,
        }
    }
}

/// How long operations of one kind took.
#[derive(Clone, Debug)]
pub(super) struct Timed {
    pub(super) count: u64,
    pub(super) ns: u64,
    /// While no values were moved, and while they were.
    pub(super) latencies: [Histogram<u64>; SIDES],
    /// The longest of each side, without what it waited for a processor or a device that stood
    /// still.
    pub(super) own_ns_max: [u64; SIDES],
}

impl Timed {
    fn none() -> Timed {
        Timed { count: 0, ns: 0, latencies: [histogram(), histogram()], own_ns_max: [0; SIDES] }
    }

    /// An operation took `ns`. What this thread has `waited` since the last look is taken for the
    /// operation's, if that took long.
    fn add(&mut self, ns: u64, moving: bool, waited: &mut Waited) {
        (self.count, self.ns) = (self.count + 1, self.ns + ns);
        let own_ns = if ns < SLOW_NS { ns } else { ns.saturating_sub(waited.since_last_look()) };
        let longest = &mut self.own_ns_max[usize::from(moving)];
        *longest = own_ns.max(*longest);
        self.latencies[usize::from(moving)].saturating_record(ns);
    }

    /// Operations per second of their own time.
    pub(super) fn per_second(&self) -> f64 {
        self.count as f64 * 1e9 / self.ns.max(1) as f64
    }
}

/// For how long a thread was ready to run while others were on the processors, and for how long the
/// device stood still.
struct Waited {
    before: u64,
    /// In a phase. Else none: its looks are read calls of this process, which reads at rest count.
    standstill: Option<Standstill>,
}

impl Waited {
    fn of(standstill: Option<Standstill>) -> Waited {
        Waited { before: Waited::for_processor(), standstill }
    }

    fn for_processor() -> u64 {
        let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        // Where the system does not tell, nothing was waited for.
        told.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
    }

    fn since_last_look(&mut self) -> u64 {
        let now = Waited::for_processor() + self.standstill.as_ref().map_or(0, Standstill::ns);
        now.saturating_sub(std::mem::replace(&mut self.before, now))
    }
}

/// What a phase did.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) writes: Timed,
    pub(super) reads: Timed,
    /// What was left to do afterwards, in nanoseconds.
    pub(super) settle_ns: u64,
    pub(super) written: Written,
    /// Bytes of tables and of all files that were read, if the system tells.
    pub(super) read: Option<(u64, u64)>,
    /// Most bytes that the database's files took.
    pub(super) space_peak: u64,
}

impl Phase {
    /// Operations while values were moved, as a part of all.
    pub(super) fn moving_share(&self) -> f64 {
        let moving = [&self.writes, &self.reads].map(|timed| timed.latencies[1].len()).iter().sum::<u64>();
        moving as f64 / (self.writes.count + self.reads.count).max(1) as f64
    }
}

/// What lies where at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Holding {
    /// What the database's files take.
    pub(super) space: u64,
    pub(super) table_bytes: u64,
    pub(super) index_bytes: u64,
    pub(super) filter_bytes: u64,
}

/// A database of one way.
pub(super) struct Keeper {
    pub(super) setting: Setting,
    db: Db,
    random: Random,
    zipf: Zipf,
    pool: Vec<u8>,
    /// The version that each key's value has.
    versions: Vec<u32>,
    wrong: u64,
    waited: Waited,
    /// Removed when the keeper goes; after `db`, by the order of the fields.
    directory: TempDir,
}

/// The key of a number: numbers in order make keys in random order (the finalizer of splitmix64, a
/// bijection).
fn key(number: u64) -> [u8; KEY_BYTES as usize] {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_be_bytes()
}

impl Keeper {
    /// An empty database.
    pub(super) fn new(setting: &Setting) -> Result<Keeper> {
        let directory = tempfile::Builder::new().prefix("solera-bench-").tempdir_in(&setting.directory)?;
        let db = setting.options().open(directory.path())?;
        let mut random = Random::new(setting.seed);
        let mut pool = vec![0; VALUE_POOL_BYTES];
        random.fill(&mut pool);
        Ok(Keeper {
            setting: setting.clone(),
            db,
            random,
            zipf: Zipf::new(setting.pairs, ZIPF_EXPONENT),
            pool,
            versions: vec![0; setting.pairs as usize],
            wrong: 0,
            waited: Waited::of(None),
            directory,
        })
    }

    /// Puts every key once, in random order.
    pub(super) fn load(&mut self, clock: &dyn Clock, mut progress: impl FnMut(u64, u64)) -> Result<Phase> {
        let pairs = self.setting.pairs;
        self.phase(clock, pairs, |keeper, at, phase, moving| {
            if at % 10_000 == 0 {
                progress(at, pairs);
            }
            keeper.put(at, clock, phase, moving)
        })
    }

    /// Updates and reads, mixed, of keys by their popularity.
    pub(super) fn mixed(
        &mut self,
        clock: &dyn Clock,
        updates: u64,
        reads: u64,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Phase> {
        let (all, mut updates_left) = (updates + reads, updates);
        self.phase(clock, all, |keeper, at, phase, moving| {
            if at % 10_000 == 0 {
                progress(at, all);
            }
            let number = keeper.popular();
            if keeper.random.below(all - at) < updates_left {
                updates_left -= 1;
                return keeper.put(number, clock, phase, moving);
            }
            let begin = clock.monotonic_ns();
            let value = keeper.db.get(key(number))?;
            phase.reads.add(clock.monotonic_ns() - begin, moving, &mut keeper.waited);
            keeper.check(number, value.as_deref());
            Ok(())
        })
    }

    /// `operations` times `operation`, then all work that is due.
    fn phase(
        &mut self,
        clock: &dyn Clock,
        operations: u64,
        mut operation: impl FnMut(&mut Keeper, u64, &mut Phase, bool) -> Result<()>,
    ) -> Result<Phase> {
        let (written, read) = (self.written(), self.read());
        let mut phase = Phase {
            writes: Timed::none(),
            reads: Timed::none(),
            settle_ns: 0,
            written: Written::default(),
            read: None,
            space_peak: 0,
        };
        let mut moving = false;
        self.waited = Waited::of(Some(Standstill::of(self.directory.path())));
        for at in 0..operations {
            if at.is_multiple_of(operations.div_ceil(DROPS)) {
                self.drop_cached()?;
            }
            if at.is_multiple_of(LOOK_OPERATIONS) {
                moving = self.db.stats().value_files_leaving > 0;
                self.waited.since_last_look();
            }
            if at.is_multiple_of(8 * LOOK_OPERATIONS) {
                phase.space_peak = phase.space_peak.max(self.space()?);
            }
            operation(self, at, &mut phase, moving)?;
        }
        self.waited = Waited::of(None);
        let begin = clock.monotonic_ns();
        self.db.wait_idle()?;
        phase.settle_ns = clock.monotonic_ns() - begin;
        phase.space_peak = phase.space_peak.max(self.space()?);
        phase.written = self.written().since(&written);
        phase.read = read.zip(self.read()).map(|(before, now)| (now.0 - before.0, now.1 - before.1));
        self.answered("updates and reads")?;
        Ok(phase)
    }

    /// A number by its popularity.
    fn popular(&mut self) -> u64 {
        let rank = self.zipf.draw(&mut self.random);
        // Neighbours in popularity are neighbours neither in the order of loading nor of keys.
        (u128::from(rank) * u128::from(SPREAD) % u128::from(self.setting.pairs)) as u64
    }

    fn put(&mut self, number: u64, clock: &dyn Clock, phase: &mut Phase, moving: bool) -> Result<()> {
        let len = self.setting.value_bytes;
        let at = self.random.below((VALUE_POOL_BYTES - len) as u64) as usize;
        let version = &mut self.versions[number as usize];
        *version += 1;
        let value = &mut self.pool[at..at + len];
        value[..8].copy_from_slice(&number.to_le_bytes());
        value[8..MARK_BYTES].copy_from_slice(&version.to_le_bytes());
        let begin = clock.monotonic_ns();
        self.db.put(key(number), &*value)?;
        phase.writes.add(clock.monotonic_ns() - begin, moving, &mut self.waited);
        Ok(())
    }

    fn check(&mut self, number: u64, value: Option<&[u8]>) {
        let right = value.is_some_and(|value| {
            value.len() == self.setting.value_bytes
                && value[..8] == number.to_le_bytes()
                && value[8..MARK_BYTES] == self.versions[number as usize].to_le_bytes()
        });
        self.wrong += u64::from(!right);
    }

    /// Fails if an answer was wrong.
    fn answered(&self, stage: &str) -> Result<()> {
        if self.wrong == 0 {
            return Ok(());
        }
        Err(Error::WrongAnswers {
            set: format!("{} pairs, {}", self.setting.pairs, self.setting.way.name()),
            index: self.setting.layout.index,
            stage: stage.into(),
            wrong: self.wrong,
        })
    }

    /// Scans of `entries` entries from random keys: entries per second.
    pub(super) fn scans(&mut self, clock: &dyn Clock, scans: u64, entries: u64) -> Result<f64> {
        self.come_to_rest()?;
        let (mut seen, mut ns) = (0u64, 0);
        for at in 0..scans {
            if at.is_multiple_of(scans.div_ceil(DROPS)) {
                self.drop_cached()?;
            }
            let first = key(self.random.below(self.setting.pairs));
            let begin = clock.monotonic_ns();
            seen += self.walk(&first, entries)?;
            ns += clock.monotonic_ns() - begin;
        }
        self.answered("scans")?;
        Ok(seen as f64 * 1e9 / ns.max(1) as f64)
    }

    /// Reads each value once, so that what there is room for is in memory.
    pub(super) fn read_all(&mut self) -> Result<()> {
        for number in 0..self.setting.pairs {
            let value = self.db.get(key(number))?;
            self.check(number, value.as_deref());
        }
        self.answered("reads of everything")
    }

    /// Brings what is in memtables into tables: where memory is large, pointers never fill one.
    pub(super) fn flush(&self) -> Result<()> {
        self.db.flush()?;
        Ok(self.db.wait_idle()?)
    }

    /// Walks over all entries until no more values are moved for walks, and `WALKS_MAX` times at
    /// most: bytes that were written for it.
    pub(super) fn put_in_order(&mut self) -> Result<u64> {
        let before = self.written();
        let mut in_vain = 0;
        for _ in 0..WALKS_MAX {
            let written = self.written().all();
            self.walk(&[], u64::MAX)?;
            self.db.wait_idle()?;
            in_vain = if self.written().all() == written { in_vain + 1 } else { 0 };
            if in_vain == WALKS_IN_VAIN {
                break;
            }
        }
        self.answered("walks over everything")?;
        Ok(self.written().since(&before).all())
    }

    /// Walks over `entries` entries from `first` on, as far as there are any, and checks each.
    fn walk(&mut self, first: &[u8], entries: u64) -> Result<u64> {
        let db = self.db.clone();
        let mut scan = db.range(first..);
        let (mut seen, mut last) = (0, None);
        while seen < entries && scan.advance()? {
            seen += 1;
            let value = scan.value();
            let number = value.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
            let here: Option<[u8; KEY_BYTES as usize]> = scan.key().try_into().ok();
            if number >= self.setting.pairs || here != Some(key(number)) || last >= here {
                self.wrong += 1;
            } else {
                self.check(number, Some(value));
            }
            last = here;
        }
        Ok(seen)
    }

    /// Reads of random keys that are there, with nothing else to do: reads per second, and read
    /// calls of the system for each read, if it tells.
    pub(super) fn reads(&mut self, clock: &dyn Clock, reads: u64) -> Result<(f64, Option<f64>)> {
        // The pointers' blocks come into the cache first, if they fit: a walk leaves a block there
        // when it comes to it for the second time. What is due may write them anew.
        self.db.wait_idle()?;
        for _ in 0..2 {
            for key in self.db.range(..).keys() {
                key?;
            }
        }
        self.come_to_rest()?;
        let calls = of_process("syscr:");
        let mut ns = 0;
        for at in 0..reads {
            if at.is_multiple_of(reads.div_ceil(DROPS)) {
                self.drop_cached()?;
            }
            let number = self.random.below(self.setting.pairs);
            let begin = clock.monotonic_ns();
            let value = self.db.get(key(number))?;
            ns += clock.monotonic_ns() - begin;
            self.check(number, value.as_deref());
        }
        self.answered("reads")?;
        let calls = calls.zip(of_process("syscr:"));
        let per_read = calls.map(|(before, now)| (now - before) as f64 / reads.max(1) as f64);
        Ok((reads as f64 * 1e9 / ns.max(1) as f64, per_read))
    }

    /// What lies where now.
    pub(super) fn holding(&self) -> Result<Holding> {
        let stats = self.db.default().stats();
        Ok(Holding {
            space: self.space()?,
            table_bytes: stats.table_bytes,
            index_bytes: stats.index_bytes,
            filter_bytes: stats.filter_bytes,
        })
    }

    fn written(&self) -> Written {
        let counters = self.db.default().stats().counters;
        let observed = self.db.control().observe();
        let levels = observed.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        let tables: u64 = levels.map(|level| level.merges.bytes_in).sum();
        let merges = tables.saturating_sub(counters.bytes_written_flush);
        Written {
            log: self.db.stats().bytes_written_log,
            flush: counters.bytes_written_flush,
            merges,
            values: counters.bytes_written_compaction.saturating_sub(merges),
        }
    }

    /// Bytes of tables and of all files read so far.
    fn read(&self) -> Option<(u64, u64)> {
        Some((self.db.default().stats().counters.bytes_read, of_process("rchar:")?))
    }

    /// Bytes that the files take on the device.
    fn space(&self) -> Result<u64> {
        const SECTOR_BYTES: u64 = 512;
        let mut bytes = 0;
        for entry in fs::read_dir(self.directory.path())? {
            // One that was removed meanwhile takes nothing.
            bytes += entry?.metadata().map_or(0, |data| data.blocks() * SECTOR_BYTES);
        }
        Ok(bytes)
    }

    /// Waits until nothing is left to do that scans before have brought about, and until no arm has
    /// its files in the system's cache: what is not yet on the device would stay there.
    fn come_to_rest(&self) -> Result<()> {
        self.db.wait_idle()?;
        self.db.sync()?;
        self.drop_cached()
    }

    /// Drops what the system's cache holds of the files. What is not yet on the device stays.
    #[expect(clippy::disallowed_methods, reason = "as any program may do from outside")]
    fn drop_cached(&self) -> Result<()> {
        for entry in fs::read_dir(self.directory.path())? {
            // One that was removed meanwhile has nothing there.
            if let Ok(file) = File::open(entry?.path()) {
                // SAFETY: the descriptor is open, and the advice changes no byte of the file.
                unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            }
        }
        Ok(())
    }
}
