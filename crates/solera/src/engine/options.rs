//! What a database is opened with: `Options`, fixed while it is open, `KeyspaceOptions`, recorded
//! when a keyspace is created, and `Durability`, what a write survives.
//!
//! `Fs`, `Clock` and merge operators come in here too. `effective_write_buffer` derives the write
//! buffer's size from the budget if none is given; `divided_bytes` is the budget without what is
//! not counted.
//!
//! What must hold: every setting has a default; `validate` refuses what cannot be. All keyspaces
//! have the same size of write buffer. A knob that was set counts over what is given here.
//!
//! Callers: users in all crates, by `Options::open` (`db`); the engine reads them, first `open`,
//! `store`, `memory` and `keyspace_record`. `commit`, `db::batch` and `db::transaction` carry a
//! `Durability`.

use crate::{
    block::Compression,
    clock::{Clock, SystemClock},
    compaction::{BUFFER_BYTES_MAX, Reclaim, Shape},
    error::{Error, Result},
    filter::Filters,
    index::IndexKind,
    key::VALUE_BYTES_MAX,
    operator::MergeOperator,
    table::Layout,
    vfs::{Fs, posix::PosixFs},
};
use std::{ops::Range, sync::Arc};

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of this process, however sudden: the write was handed to the operating system. A
    /// power failure or a crash of the operating system may lose the latest writes, never an
    /// earlier one without every later one.
    #[default]
    Buffered,
    /// A power failure too: the log was synced to the device before the call returned.
    Sync,
}

/// Smallest memory budget, in bytes: one minimal write buffer, its successor, and a few blocks.
pub const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// Memory budget when none is given, in bytes.
pub const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// Most background threads.
const BACKGROUND_THREADS_MAX: usize = 1024;
/// Smallest write buffer, in bytes.
pub const WRITE_BUFFER_BYTES_MIN: u64 = 4 << 10;
/// Largest write buffer that is derived from the budget, in bytes: beyond it a memtable outgrows
/// the processor's last-level cache and inserts slow down.
const WRITE_BUFFER_BYTES_DERIVED_MAX: u64 = 32 << 20;
/// Space of values beyond the live ones, in percent, when none is given.
const SPARE_PERCENT_DEFAULT: u32 = 30;
/// Share of the budget that one write buffer takes when derived: two of them and a flush in
/// progress leave most of the budget to reads.
const WRITE_BUFFER_SHARE: u64 = 16;
/// The same of a [`SCARCE`] budget.
const WRITE_BUFFER_SHARE_SCARCE: u64 = 32;

/// For what is not counted: buffers of flushes and compactions, blocks on their way in and out, the
/// views of iterators, what an allocator adds to each piece and keeps for each thread. Measured
/// (`solera-sim limits`): this, and 1/16 of the budget; but no more than [`UNCOUNTED_PARTS_MAX`].
///
/// What an allocator keeps grows for a while: tables that threads open for their reads leave holes
/// in those threads' heaps, between blocks, that nothing fits any more. After 64,000 operations
/// under 64 MiB it was 10 MiB less than after 320,000.
const UNCOUNTED_BYTES: u64 = 24 << 20;
/// Most of a budget that is left to what is not counted: 7/16.
const UNCOUNTED_PARTS_MAX: (u64, u64) = (7, 16);
/// Budgets, from the smallest that is promised, of which the program's code and the buffers of two
/// jobs take more than that. Measured: 7.7 MiB are pages of the program and its libraries.
const SCARCE: Range<u64> = 16 << 20..32 << 20;
/// What is not counted of them: these bytes, and 3/32 of the budget.
const UNCOUNTED_SCARCE_BYTES: u64 = 10 << 20;
const UNCOUNTED_SCARCE_PARTS: (u64, u64) = (3, 32);

/// Whether the program itself and the buffers of two jobs are the larger part of a budget.
pub(super) fn is_scarce(budget: u64) -> bool {
    SCARCE.contains(&budget)
}

/// What there is to divide of a budget: without what is not counted.
pub(super) fn divided_bytes(budget: u64) -> u64 {
    let part = |(count, of): (u64, u64)| budget / of * count;
    let most = match is_scarce(budget) {
        true => UNCOUNTED_SCARCE_BYTES + part(UNCOUNTED_SCARCE_PARTS),
        false => part(UNCOUNTED_PARTS_MAX),
    };
    budget - (UNCOUNTED_BYTES + budget / 16).min(most)
}

/// How to open a database. Every setting has a default; most users set [`memory`](Options::memory)
/// and nothing else.
///
/// ```
/// # fn main() -> solera::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// let db = solera::Options::new().memory(64 << 20).open(dir.path())?;
/// db.put(b"cask", b"oak")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) memory_bytes: u64,
    pub(crate) write_buffer_bytes: u64,
    pub(crate) durability: Durability,
    pub(crate) read_only: bool,
    pub(crate) create_if_missing: bool,
    pub(crate) direct_reads: bool,
    pub(crate) background_threads: usize,
    pub(crate) reclaim: Reclaim,
    pub(crate) spare_percent: u32,
    /// For the default keyspace, and for those that are created without options of their own.
    pub(crate) keyspace: KeyspaceOptions,
    pub(crate) operators: Vec<Arc<dyn MergeOperator>>,
    pub(crate) fs: Arc<dyn Fs>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

impl Options {
    /// The defaults: 256 MiB of memory, buffered durability, two background threads.
    pub fn new() -> Self {
        Options {
            memory_bytes: MEMORY_BYTES_DEFAULT,
            write_buffer_bytes: 0,
            durability: Durability::Buffered,
            read_only: false,
            create_if_missing: true,
            direct_reads: false,
            background_threads: 2,
            reclaim: Reclaim::default(),
            spare_percent: SPARE_PERCENT_DEFAULT,
            keyspace: KeyspaceOptions::new(),
            operators: Vec::new(),
            fs: Arc::new(PosixFs::new()),
            clock: Arc::new(SystemClock::new()),
            seed: None,
        }
    }

    /// Memory for everything together, in bytes: write buffers, filters, indexes, the block cache,
    /// and what background work and the allocator need beside them. At least 1 MiB; default 256
    /// MiB.
    ///
    /// With 16 to 128 MiB, an open tells glibc's allocator (`mallopt`) to give freed pieces of 1
    /// MiB and more back to the system at once. That holds for the whole process.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Bytes that one memtable may hold before it is written out. 0 (the default) derives it from
    /// the memory budget; else 4 KiB to a quarter of the budget. The knob `write_buffer_percent`,
    /// once set ([`Db::control`](crate::Db::control)), counts instead.
    pub fn write_buffer(mut self, bytes: u64) -> Self {
        self.write_buffer_bytes = bytes;
        self
    }

    /// What acknowledged writes survive unless a batch says otherwise. Default
    /// [`Durability::Buffered`].
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Opens for reading only: nothing in the directory is changed, writes fail with
    /// [`Error::ReadOnly`]. Any number of processes may read so at the same time; one that writes
    /// has the database for itself. Default false.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether a missing database is created, or [`Error::NotADatabase`]. Default true; a read-only
    /// open never creates.
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }

    /// Whether tables are read past the operating system's cache of files (Linux: `O_DIRECT`), so
    /// that the [`memory`](Options::memory) budget is all the memory that reads have: for data much
    /// larger than memory on a device of one's own, and for measurements that want to see the
    /// device. A block that is not in the block cache is one read of the device, of the sectors
    /// that it touches; nothing is read ahead by the system. Logs and the manifest, and whatever is
    /// written, go through the system's cache as ever. Default false. Where the file system or the
    /// device has no such reads, [`open`](crate::Options::open) fails with
    /// [`Error::Invalid`]: they are never replaced by others silently.
    pub fn direct_reads(mut self, direct: bool) -> Self {
        self.direct_reads = direct;
        self
    }

    /// Threads that flush and compact. Default 2. With 0, nothing is flushed or compacted in the
    /// background: the program calls [`Db::step`](crate::Db::step), and a writer that would outrun
    /// it does a step itself. At most 1024.
    pub fn background_threads(mut self, threads: usize) -> Self {
        self.background_threads = threads;
        self
    }

    /// How the space of separated values that no reader needs is given back. Default
    /// [`Reclaim::Tier`].
    pub fn reclaim(mut self, way: Reclaim) -> Self {
        self.reclaim = way;
        self
    }

    /// How much space value files take beyond the live values, about: 1 to 1,000 percent of the
    /// live data, what lies in the tables of such keyspaces included. Default 30. What they take
    /// swings around it; docs/decisions/0019 says how far.
    pub fn value_spare_percent(mut self, percent: u32) -> Self {
        self.spare_percent = percent;
        self
    }

    /// How tables are laid out in the default keyspace, from now on, and in keyspaces that are
    /// created without their own options. Existing tables keep their layout until they are merged.
    /// A knob that was set ([`Db::control`](crate::Db::control)) stands.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.keyspace = self.keyspace.layout(layout);
        self
    }

    /// How the block of a key is found; the rest of the [`layout`](Options::layout) stays. Default
    /// [`IndexKind::Learned`].
    pub fn index(mut self, index: IndexKind) -> Self {
        self.keyspace = self.keyspace.index(index);
        self
    }

    /// Which filters tables get; the rest of the [`layout`](Options::layout) stays. Default: 10
    /// bits per key in the mean, more in smaller levels.
    pub fn filter(mut self, filter: Filters) -> Self {
        self.keyspace = self.keyspace.filter(filter);
        self
    }

    /// How blocks are compressed; the rest of the [`layout`](Options::layout) stays. Default LZ4.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.keyspace = self.keyspace.compression(compression);
        self
    }

    /// The shape of the default keyspace's tree, from now on, and of keyspaces that are created
    /// without their own options. A write buffer in it is refused with [`Error::Invalid`] unless it
    /// is the default or the database's, [`write_buffer`](Options::write_buffer). Default:
    /// leveling, size ratio 10, four runs in level 0. A knob that was set
    /// ([`Db::control`](crate::Db::control)) stands; a run limit above a size ratio that is given
    /// here counts as that ratio.
    pub fn shape(mut self, shape: Shape) -> Self {
        self.keyspace = self.keyspace.shape(shape);
        self
    }

    /// See [`KeyspaceOptions::separate_values_from`]; for the default keyspace, from now on, and
    /// for keyspaces that are created without options of their own.
    pub fn separate_values_from(mut self, bytes: u64) -> Self {
        self.keyspace = self.keyspace.separate_values_from(bytes);
        self
    }

    /// The merge operator of the default keyspace, of keyspaces that are created without options of
    /// their own, and one that existing keyspaces may ask for by its name. It is code, so it is
    /// given at every open; its name is recorded. A default keyspace that has none yet gets it; one
    /// that has another is refused with [`Error::Invalid`]. Built-in operators need not be given.
    /// Without an operator of its own a database opens too: what needs the operator then fails with
    /// [`Error::Merge`], and operands stay as they are.
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.keyspace.merge_operator = Some(operator.clone());
        self.operators.push(operator);
        self
    }

    /// Makes an operator known by its name without making it the default, for keyspaces that were
    /// created with it.
    pub fn register_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.operators.push(operator);
        self
    }

    /// The file system; default the operating system's.
    pub fn fs(mut self, fs: Arc<dyn Fs>) -> Self {
        self.fs = fs;
        self
    }

    /// The clock; default the machine's.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Makes the identity of a new database a function of `seed` instead of random, for simulation.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if self.memory_bytes < MEMORY_BYTES_MIN {
            return Err(Error::Invalid(format!(
                "memory of {} bytes is too little: the smallest budget is {MEMORY_BYTES_MIN}",
                self.memory_bytes
            )));
        }
        let buffer_max = (self.memory_bytes / 4).min(BUFFER_BYTES_MAX);
        if self.write_buffer_bytes != 0
            && !(WRITE_BUFFER_BYTES_MIN..=buffer_max).contains(&self.write_buffer_bytes)
        {
            return Err(Error::Invalid(format!(
                "a write buffer of {} bytes is out of range: {WRITE_BUFFER_BYTES_MIN} to {buffer_max} (a quarter of the memory)",
                self.write_buffer_bytes
            )));
        }
        if self.background_threads > BACKGROUND_THREADS_MAX {
            return Err(Error::Invalid(format!(
                "{} background threads are too many: at most {BACKGROUND_THREADS_MAX}",
                self.background_threads
            )));
        }
        if self.operators.iter().any(|operator| operator.name().is_empty()) {
            return Err(nameless());
        }
        if !(1..=1000).contains(&self.spare_percent) {
            return Err(Error::Invalid(format!(
                "a spare of {} percent for values is out of range: 1 to 1000",
                self.spare_percent
            )));
        }
        self.keyspace.validate()?;
        self.keyspace.check_write_buffer(self.effective_write_buffer())
    }

    /// Bytes at which a memtable is sealed.
    pub(crate) fn effective_write_buffer(&self) -> u64 {
        match self.write_buffer_bytes {
            0 => {
                let is_scarce = SCARCE.contains(&self.memory_bytes);
                let share = if is_scarce { WRITE_BUFFER_SHARE_SCARCE } else { WRITE_BUFFER_SHARE };
                (self.memory_bytes / share).clamp(64 << 10, WRITE_BUFFER_BYTES_DERIVED_MAX)
            }
            given => given,
        }
    }
}

fn nameless() -> Error {
    Error::Invalid("a merge operator needs a name: it is recorded with the keyspace".into())
}

/// How one keyspace is kept. What is not given is the default for a new keyspace, and stays as it
/// is for one that exists.
#[derive(Clone, Debug, Default)]
pub struct KeyspaceOptions {
    pub(crate) layout: Layout,
    pub(crate) shape: Shape,
    pub(crate) merge_operator: Option<Arc<dyn MergeOperator>>,
    /// `None`: only large values are separated.
    pub(crate) separate_from: Option<u64>,
    given: Given,
}

/// Which settings a program gave, where their values do not say so.
#[derive(Clone, Copy, Debug, Default)]
struct Given {
    /// All of the layout.
    layout: bool,
    index: bool,
    filter: bool,
    compression: bool,
    shape: bool,
}

impl KeyspaceOptions {
    /// The defaults.
    pub fn new() -> Self {
        KeyspaceOptions::default()
    }

    /// How tables are cut into blocks, indexed, filtered and compressed.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self.given.layout = true;
        self
    }

    /// How the block of a key is found; the rest of the layout stays.
    pub fn index(mut self, index: IndexKind) -> Self {
        self.layout.index = index;
        self.given.index = true;
        self
    }

    /// Which filters tables get; the rest of the layout stays.
    pub fn filter(mut self, filter: Filters) -> Self {
        self.layout.filter = filter;
        self.given.filter = true;
        self
    }

    /// How blocks are compressed; the rest of the layout stays.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.layout.compression = compression;
        self.given.compression = true;
        self
    }

    /// The shape of the tree: size ratio, run limits and size of tables. All keyspaces have the
    /// write buffer of the database: another one in the shape is refused with [`Error::Invalid`].
    pub fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self.given.shape = true;
        self
    }

    /// How [`merge`](crate::Keyspace::merge) folds its operands. A keyspace without one refuses to
    /// merge.
    pub fn merge_operator(mut self, operator: Arc<dyn MergeOperator>) -> Self {
        self.merge_operator = Some(operator);
        self
    }

    /// Keeps values of at least `bytes` bytes, 1 to 2^32 - 1, apart from their entries: such a
    /// value is written once, to the log, and merges move only a pointer to it. Worth it for values
    /// of about a kibibyte and more. Values that were written before follow as conversions and
    /// [`compact_range`](crate::Db::compact_range) come to them. Default: only values of 256 KiB
    /// and more, which always are.
    pub fn separate_values_from(mut self, bytes: u64) -> Self {
        self.separate_from = Some(bytes);
        self
    }

    /// How a keyspace is kept from now on that was kept like `recorded`: what is given counts over
    /// it. The operator is never another one than it has.
    pub(super) fn over(&self, recorded: &KeyspaceOptions) -> KeyspaceOptions {
        let mut kept = recorded.clone();
        if self.given.layout {
            kept.layout = self.layout;
        }
        if self.given.index {
            kept.layout.index = self.layout.index;
        }
        if self.given.filter {
            kept.layout.filter = self.layout.filter;
        }
        if self.given.compression {
            kept.layout.compression = self.layout.compression;
        }
        if self.given.shape {
            kept.shape = self.shape.clone();
        }
        kept.separate_from = self.separate_from.or(kept.separate_from);
        kept.merge_operator = kept.merge_operator.or_else(|| self.merge_operator.clone());
        kept
    }

    /// Refuses a write buffer of its own: all keyspaces share the database's, of `bytes`.
    pub(super) fn check_write_buffer(&self, bytes: u64) -> Result<()> {
        let asked = self.shape.write_buffer_bytes;
        if asked == Shape::default().write_buffer_bytes || asked == bytes {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "a shape with a write buffer of {asked} bytes: all keyspaces have that of the database, of {bytes} bytes; set it by Options::write_buffer, and leave it at its default in the shape"
        )))
    }

    pub(crate) fn validate(&self) -> Result<()> {
        if let Some(bytes) = self.separate_from
            && !(1..=VALUE_BYTES_MAX).contains(&bytes)
        {
            return Err(Error::Invalid(format!(
                "values separated from {bytes} bytes is out of range: 1 to {VALUE_BYTES_MAX}"
            )));
        }
        if self.merge_operator.as_ref().is_some_and(|operator| operator.name().is_empty()) {
            return Err(nameless());
        }
        self.layout.validate()?;
        self.shape.validate()
    }
}
