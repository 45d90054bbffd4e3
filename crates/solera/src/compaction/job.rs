//! Carrying out what was decided: `flush` writes memtables as level 0's newest run, `run` a
//! `Plan`'s tables. Both merge sorted sources (`merge::Merge`), pass the entries through `Retain`,
//! and cut the rest into tables of about `table_bytes` (`is_full`). `Written` is the result;
//! `JobContext` is what a job may know. Nothing counts until `engine` installs it.
//! What must hold:
//! - Outputs have disjoint ranges, tombstones included. All versions of a key share a table.
//! - Every entry that a finished job has read is kept or dropped, once (`Reckoning` asserts it).
//! - Outputs are durable on return, their names only with `syncs_dir`. A job that fails removes its
//!   files.
//!
//! Callers: `engine::flushing` (flushes), `engine::jobs` (plans), `engine::large` (batches too
//! large for memtables), `engine::store` (`flushed`, a flush's edit), `engine::ingest` (`is_full`).

use super::{
    moves::{Kept, Moves},
    plan::{Plan, Reason, Work},
    reclaim::{Side, Victims},
    retain::{Entry, Readers, Retain, Sink, Why},
    shape::Shape,
};
use crate::{
    canary::{Bug, planted},
    cursor::Cursor,
    error::{Error, Result},
    filter::FilterSpec,
    ids::{FileId, SEQNO_MAX, Seqno},
    key::{KeyEnd, KeyRange, Kind},
    memtable::Memtable,
    merge::Merge,
    operator::MergeOperator,
    pool,
    sight::Reader,
    sync::atomic::{AtomicBool, Ordering},
    table::{Access, FreshBlocks, Layout, TableContext, TableDescriptor, TableWriter, waste::ENTRY_BYTES},
    tombstone::{RangeTombstone, RangeTombstones},
    values::{Tally, ValueFiles, WrittenValues},
    version::{Added, RunCursor, TableRef, TreeEdit, Version, collect_tombstones},
};
use std::{collections::BTreeSet, sync::Arc};

/// Entries read between two looks at whether the job was cancelled.
const ENTRIES_PER_CANCEL_CHECK: u64 = 4096;
/// Entries read between two looks at what others wait for.
const ENTRIES_PER_MEANWHILE: u64 = 256;
/// How often, while a table fills, one looks how large it has become.
const SIZE_CHECKS_PER_TABLE: u64 = 64;
/// When so many bytes were freed in large pieces, a job has the allocator give them back to the
/// system.
const LARGE_KEPT_MAX: u64 = 16 << 20;
/// A table points to values of so many times the bytes that it may have itself, at most: a
/// conversion concerns whole tables.
const SEPARATED_TABLE_BYTES: u64 = 2;
/// What a range tombstone takes in a table besides its two keys, nearly.
const TOMBSTONE_BYTES: u64 = 16;

/// Whether a table of so many bytes, whose entries point to so many bytes of values, is as large as
/// it should be.
pub fn is_full(bytes: u64, separated_bytes: u64, table_bytes: u64) -> bool {
    bytes >= table_bytes || separated_bytes >= table_bytes.saturating_mul(SEPARATED_TABLE_BYTES)
}

/// What a job may know of the world.
pub struct JobContext<'j> {
    /// Where tables are written.
    pub context: Arc<TableContext>,
    /// How they are laid out.
    pub layout: Layout,
    /// The filter of each.
    pub filter: FilterSpec,
    /// Gives the size at which outputs are cut.
    pub shape: Shape,
    /// All live snapshots, ascending, listed no earlier than the sources were.
    pub snapshots: Vec<Seqno>,
    /// What a snapshot taken now would see.
    pub visible: Seqno,
    /// Where separated values lie.
    pub values: Arc<ValueFiles>,
    /// The value files whose values are moved where they are met.
    pub victims: Victims,
    /// A value of so many bytes and more is kept apart, where a job that moves values meets it.
    pub separate_from: u64,
    /// The oldest snapshot of an open transaction; what is visible now if there is none.
    pub oldest_transaction: Seqno,
    /// The keyspace's merge operator.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// Now, in Unix milliseconds, as every later reader will agree.
    pub now_ms: u64,
    /// Blocks of its tables stay in memory for the cache, where that has room.
    pub keeps_blocks: bool,
    /// The names of its files are durable on return; else the caller sees to that.
    pub syncs_dir: bool,
    /// Set when the job should end with [`Error::Closed`].
    pub cancelled: &'j AtomicBool,
    /// Called again and again while entries are merged, by a job that takes long: does what others
    /// wait for. If it fails, so does the job.
    pub meanwhile: Option<&'j dyn Fn() -> Result<()>>,
    /// Gives numbers to new files.
    pub new_file: Box<dyn Fn() -> FileId + 'j>,
}

/// The keys and range tombstones of `memtables`: from the first to the last; `None` if there are
/// none.
pub fn extent(memtables: &[Arc<Memtable>]) -> Result<Option<KeyRange>> {
    let mut extent: Option<KeyRange> = None;
    let mut widen = |range: KeyRange| {
        extent = Some(extent.as_ref().map_or_else(|| range.clone(), |extent| extent.hull(&range)));
    };
    for memtable in memtables {
        let mut cursor = memtable.cursor();
        cursor.seek_first()?;
        if cursor.valid() {
            let first = cursor.key().to_vec();
            cursor.seek_last()?;
            widen(KeyRange::closed(&first, cursor.key()));
        }
        memtable.tombstones().span().into_iter().for_each(&mut widen);
    }
    Ok(extent)
}

/// What a job wrote.
#[derive(Debug, Default)]
pub struct Written {
    /// The tables.
    pub tables: Vec<TableDescriptor>,
    /// Which pointers to value files are in them that were in no table before, and which were and
    /// are not any more.
    pub values: Tally,
    /// Sorted value files.
    pub value_files: Vec<WrittenValues>,
    /// Files whose values were to move, and hold some that cannot be read.
    pub unreadable: BTreeSet<FileId>,
    /// Blocks of the tables that stayed in memory.
    pub fresh: Vec<(FileId, FreshBlocks)>,
}

impl Written {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let tables = self.tables.iter().map(|table| table.bytes);
        tables.chain(self.value_files.iter().map(|file| file.bytes)).sum()
    }
}

/// Writes what is in `memtables`, newest first. May be nothing. `is_all`: no table holds anything
/// older of their keys, so that deletes hide only what lies in the memtables.
///
/// # Errors
/// [`Error::Io`], [`Error::Corrupt`], [`Error::Closed`]; no file is left then.
pub fn flush(memtables: &[Arc<Memtable>], is_all: bool, job: &JobContext<'_>) -> Result<Written> {
    let cursors = memtables.iter().map(|memtable| memtable.cursor()).collect();
    let tombstones = memtables.iter().map(|memtable| memtable.tombstones()).collect();
    let oldest = memtables.iter().filter_map(|memtable| memtable.first_seqno()).min();
    let oldest = oldest.unwrap_or(0);
    let inputs = Inputs { are_tables: false, drops_tombstones: is_all, oldest, divides: false };
    write(job, cursors, tombstones, inputs)
}

/// The edit that makes flushed tables the newest run of level 0.
pub fn flushed(version: &Version, written: &Written, flushed_seqno: Option<Seqno>) -> TreeEdit {
    let run = version.level(0).next_run();
    let added = written.tables.iter().map(|output| Added::whole(0, run, output.clone()));
    TreeEdit { added: added.collect(), flushed_seqno, values: written.values.clone(), ..TreeEdit::default() }
}

/// Writes the tables that a plan leads to; none for a plan that only moves tables. What they mean
/// for the tree is said by [`Plan::edit`].
///
/// # Errors
/// As [`flush`].
pub fn run(plan: &Plan, job: &JobContext<'_>) -> Result<Written> {
    match plan.work {
        Work::Move => return Ok(Written::default()),
        // What they point to is known without reading them, or they would not be dropped.
        Work::Drop => {
            let mut values = Tally::default();
            plan.target.tables.iter().for_each(|table| values.leave(&table.descriptor().waste.pointers));
            return Ok(Written { values, ..Written::default() });
        }
        Work::Merge => {}
    }
    let runs: Vec<&[TableRef]> =
        plan.sources.iter().map(|source| &source.tables[..]).chain([&plan.target.tables[..]]).collect();
    let mut cursors = Vec::with_capacity(runs.len());
    let mut tombstones = Vec::with_capacity(runs.len());
    for tables in runs {
        let fewer: Vec<TableRef>;
        let tables = if planted(Bug::LoseLargestKey) && plan.reason == Reason::Reclaim {
            fewer = tables.iter().filter_map(without_last_key).collect();
            &fewer[..]
        } else {
            tables
        };
        let access = if job.keeps_blocks { Access::Passing } else { Access::Sequential };
        cursors.push(RunCursor::new(tables.into(), access));
        tombstones.push(Arc::new(collect_tombstones(tables)?));
    }
    let tables = plan.sources.iter().flat_map(|source| &source.tables).chain(&plan.target.tables);
    let oldest = tables.map(|table| table.descriptor().seqno_min).min().unwrap_or(0);
    // Who asks for everything to be merged has it as the settings of now say.
    let divides = matches!(plan.reason, Reason::Requested | Reason::Reclaim) || !job.victims.is_empty();
    let drops_tombstones = plan.drops_tombstones;
    write(job, cursors, tombstones, Inputs { are_tables: true, drops_tombstones, oldest, divides })
}

/// The table without its largest key: for a bug that the simulator plants.
fn without_last_key(table: &TableRef) -> Option<TableRef> {
    let last = table.clip().end.key().unwrap_or_default();
    table.within(&KeyRange { start: Box::default(), end: KeyEnd::Excluded(last.into()) })
}

/// What a merge may take for granted of its sources.
#[derive(Clone, Copy)]
struct Inputs {
    /// They are tables, whose pointers to values are counted.
    are_tables: bool,
    /// Nothing older lies below them.
    drops_tombstones: bool,
    /// No entry and no range tombstone is older.
    oldest: Seqno,
    /// Values that the entries hold leave them if they are long enough.
    divides: bool,
}

/// Merges the sources, which are in the order of their ranks, into tables.
fn write<C: Cursor>(
    job: &JobContext<'_>,
    sources: Vec<C>,
    tombstones: Vec<Arc<RangeTombstones>>,
    inputs: Inputs,
) -> Result<Written> {
    // Sources may hold what is not visible yet. A snapshot taken now would tell it from what is.
    let mut snapshots = job.snapshots.clone();
    snapshots.retain(|&snapshot| snapshot < job.visible);
    snapshots.push(job.visible);
    let readers = Readers {
        snapshots: &snapshots,
        drops_tombstones: inputs.drops_tombstones,
        oldest_transaction: job.oldest_transaction.min(job.visible),
        oldest_input: inputs.oldest,
    };
    let leaving = (&job.victims, job.separate_from);
    let moves = Moves::new(&job.context, &job.values, leaving, &*job.new_file, inputs.are_tables);
    let mut outputs = Outputs::new(job, readers, moves);
    outputs.divides = inputs.divides;
    let done = merge_into(&mut outputs, readers, sources, tombstones).and_then(|()| {
        let skips = planted(Bug::SkipDirectorySync) || !job.syncs_dir;
        if skips { Ok(()) } else { job.context.fs.sync_dir(&job.context.dir) }
    });
    match done {
        Ok(()) => Ok(Written {
            tables: outputs.written,
            values: outputs.moves.tally.without_rests(),
            value_files: outputs.moves.written,
            unreadable: outputs.moves.unreadable,
            fresh: outputs.fresh,
        }),
        Err(error) => {
            outputs.remove();
            Err(error)
        }
    }
}

fn merge_into<C: Cursor>(
    outputs: &mut Outputs<'_, '_>,
    readers: Readers<'_>,
    sources: Vec<C>,
    tombstones: Vec<Arc<RangeTombstones>>,
) -> Result<()> {
    let cancelled = outputs.job.cancelled;
    let job = outputs.job;
    let reader = Reader {
        snapshot: job.visible,
        now_ms: job.now_ms,
        operator: job.operator.clone(),
        values: Some(job.values.clone()),
    };
    let mut retain = Retain::new(readers, &reader, tombstones, outputs);
    let kept = retain.take_tombstones();
    retain.sink().keep_tombstones(kept);
    let mut merge = Merge::new(sources);
    merge.seek_first_late()?;
    let mut entries = 0u64;
    while merge.valid() {
        if entries.is_multiple_of(ENTRIES_PER_CANCEL_CHECK) && cancelled.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        if entries.is_multiple_of(ENTRIES_PER_MEANWHILE)
            && let Some(meanwhile) = job.meanwhile
        {
            meanwhile()?;
        }
        entries += 1;
        pool::trim_after_large(LARGE_KEPT_MAX);
        let entry =
            Entry { key: merge.key(), seqno: merge.seqno(), kind: merge.kind(), value: merge.value() };
        retain.sink().reckoning.read.add(&entry);
        retain.add(merge.age(), entry, || merge.pin_value())?;
        merge.next_late()?;
    }
    let outputs = retain.finish()?;
    outputs.reckoning.settle();
    outputs.finish()
}

/// Entries, and the bytes of their keys and stored values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    entries: u64,
    bytes: u64,
}

impl Amount {
    #[inline]
    fn add(&mut self, entry: &Entry<'_>) {
        self.entries += 1;
        self.bytes += (entry.key.len() + entry.value.len()) as u64;
    }
}

/// What became of the entries that a job read.
#[derive(Debug, Default)]
struct Reckoning {
    read: Amount,
    kept: Amount,
    dropped: Amount,
}

impl Reckoning {
    /// Every entry that was read was kept or dropped, once.
    fn settle(&self) {
        let accounted = Amount {
            entries: self.kept.entries + self.dropped.entries,
            bytes: self.kept.bytes + self.dropped.bytes,
        };
        assert_eq!(self.read, accounted, "a job accounts for what it read");
    }
}

/// The tables that a job writes, one after the other.
///
/// Every table stands for a range of keys that begins where the one before it ends, and holds the
/// range tombstones cut to that range.
struct Outputs<'o, 'j> {
    job: &'o JobContext<'j>,
    readers: Readers<'o>,
    elide_below: Seqno,
    /// The newest version of the present key that was written and hides all older ones.
    hides: Option<Seqno>,
    /// The range tombstones of the whole job, and in the order of their starts, last first, those
    /// that start behind what was written.
    tombstones: RangeTombstones,
    ahead: Vec<Arc<RangeTombstone>>,
    open: Option<TableWriter>,
    /// Bytes of entries added since the size of the open table was looked at.
    unmeasured_bytes: u64,
    /// Whether the open table ends before the next key.
    ends: bool,
    /// Where its keys lie from those whose values move.
    side: Side,
    /// As of [`Inputs`].
    divides: bool,
    /// Where the range of the open table begins.
    start: Box<[u8]>,
    /// Bytes of the tombstones that start in the range of the open table.
    tombstone_bytes: u64,
    /// Bytes of the values to which the open table points.
    separated_bytes: u64,
    moves: Moves<'o>,
    reckoning: Reckoning,
    written: Vec<TableDescriptor>,
    fresh: Vec<(FileId, FreshBlocks)>,
}

impl<'o, 'j> Outputs<'o, 'j> {
    fn new(job: &'o JobContext<'j>, readers: Readers<'o>, moves: Moves<'o>) -> Self {
        Outputs {
            job,
            readers,
            elide_below: readers.snapshots[0],
            hides: None,
            tombstones: RangeTombstones::default(),
            ahead: Vec::new(),
            open: None,
            unmeasured_bytes: 0,
            ends: false,
            side: Side::Within,
            divides: false,
            start: Box::default(),
            tombstone_bytes: 0,
            separated_bytes: 0,
            moves,
            reckoning: Reckoning::default(),
            written: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Said before the first entry: these range tombstones go into the tables too.
    fn keep_tombstones(&mut self, tombstones: RangeTombstones) {
        // They are told from the entries of their own table by number, so then none is elided.
        self.elide_below = if tombstones.is_empty() { self.readers.snapshots[0] } else { 0 };
        self.ahead = tombstones.by_start().into_iter().cloned().collect();
        self.ahead.reverse();
        self.tombstones = tombstones;
    }

    fn is_full(&self) -> bool {
        let entry_bytes = self.open.as_ref().map_or(0, TableWriter::extent);
        is_full(entry_bytes + self.tombstone_bytes, self.separated_bytes, self.job.shape.table_bytes)
    }

    /// Goes past the starts of range tombstones before or at `key`, or past all of them, and ends
    /// tables that they fill.
    fn pass_tombstones(&mut self, key: Option<&[u8]>) -> Result<()> {
        while let Some(next) = self.ahead.pop_if(|next| key.is_none_or(|key| next.start[..] <= *key)) {
            let last = self.open.as_ref().and_then(TableWriter::last_key);
            if self.is_full()
                && last.is_none_or(|last| *last < next.start[..])
                && self.start[..] < next.start[..]
            {
                self.end_table(KeyEnd::Excluded(next.start[..].into()))?;
            }
            self.tombstone_bytes += (next.start.len() + next.end.len()) as u64 + TOMBSTONE_BYTES;
        }
        Ok(())
    }

    /// Ends the open table, and with it the range up to `end`. A range that has nothing but
    /// tombstones gets a table of its own for them.
    fn end_table(&mut self, end: KeyEnd) -> Result<()> {
        let range = KeyRange { start: std::mem::take(&mut self.start), end };
        let mut open = self.open.take();
        if !self.tombstones.is_empty() {
            let tombstones = self.tombstones.clip(&range);
            if open.is_none() && !tombstones.is_empty() {
                open = Some(self.begin()?);
            }
            if let Some(table) = &mut open {
                if let Some(newest) = tombstones.max_seqno().filter(|_| self.readers.drops_tombstones) {
                    hold_tombstone(table, self.readers.snapshots[0], newest);
                }
                table.add_range_tombstones(tombstones);
            }
        }
        if let Some(table) = open
            && let Some((written, fresh)) = table.finish_with_blocks()?
        {
            self.fresh.iter_mut().for_each(|(_, blocks)| blocks.yield_to_others());
            self.fresh.extend(fresh.map(|blocks| (written.file, blocks)));
            self.written.push(written);
        }
        if let KeyEnd::Excluded(next) = range.end {
            self.start = next;
        }
        (self.ends, self.unmeasured_bytes) = (false, 0);
        (self.tombstone_bytes, self.separated_bytes) = (0, 0);
        Ok(())
    }

    /// Writes the next entry.
    fn write(&mut self, entry: Entry<'_>) -> Result<()> {
        if !self.ahead.is_empty() {
            self.pass_tombstones(Some(entry.key))?;
        }
        if self.unmeasured_bytes >= self.job.shape.table_bytes / SIZE_CHECKS_PER_TABLE {
            self.unmeasured_bytes = 0;
            self.ends = self.is_full();
        }
        self.change_sides(entry.key);
        let of_separators = self.open.as_ref().map_or(0, |open| open.extent_of_separators_with(entry.key));
        if self.ends || of_separators >= self.job.shape.table_bytes {
            let last = self.open.as_ref().and_then(TableWriter::last_key);
            if last.is_some_and(|last| last != entry.key) {
                self.end_table(KeyEnd::Excluded(entry.key.into()))?;
            }
        }
        if self.open.is_none() {
            self.open = Some(self.begin()?);
        }
        let mut kept = Kept { kind: entry.kind, stored: entry.value, separated: 0 };
        if entry.kind.is_separated() {
            kept = self.moves.keep(&entry)?;
        } else if self.divides && self.side == Side::Within {
            kept = self.moves.divide(&entry)?;
        }
        let Kept { kind, stored, separated } = kept;
        let bytes = (entry.key.len() + stored.len()) as u64 + ENTRY_BYTES;
        self.separated_bytes += u64::from(separated);
        self.unmeasured_bytes +=
            (entry.key.len() + stored.len()) as u64 + u64::from(separated) / SEPARATED_TABLE_BYTES;
        let table = self.open.as_mut().expect("it was opened above");
        table.add(entry.key, entry.seqno, kind, stored)?;
        self.note_waste(&entry, bytes, separated.into());
        Ok(())
    }

    /// No table lies on both sides of an end of the range whose values move: what is there of the
    /// files that are emptied is then known by table, and not by an estimate.
    fn change_sides(&mut self, key: &[u8]) {
        let side = self.moves.side(key);
        if side != self.side {
            self.ends |= self.open.is_some();
            self.side = side;
        }
    }

    fn begin(&self) -> Result<TableWriter> {
        let JobContext { context, layout, filter, new_file, .. } = self.job;
        let mut table = TableWriter::create(context, new_file(), layout, *filter, self.elide_below)?;
        table.written_since(self.readers.oldest_input);
        if self.job.keeps_blocks {
            table.keep_blocks(&context.cache);
        }
        Ok(table)
    }

    /// Notes for which snapshots `entry` is kept, which takes so many `bytes`, and `apart` in a
    /// value file, if only readers as of the past see it.
    #[inline]
    fn note_waste(&mut self, entry: &Entry<'_>, bytes: u64, apart: u64) {
        let above = self.hides;
        let covering = match self.tombstones.is_empty() {
            true => None,
            false => self.tombstones.covering(entry.key, SEQNO_MAX),
        };
        if let Some(newer) = above.max(covering).filter(|&seqno| seqno > entry.seqno) {
            self.hold_hidden(entry, (bytes, apart), newer);
        }
        if entry.kind == Kind::Delete
            && self.readers.drops_tombstones
            && let Some(table) = &mut self.open
        {
            hold_tombstone(table, self.readers.snapshots[0], entry.seqno);
        }
        self.hides = match entry.kind {
            Kind::Merge => above,
            _ => above.max(Some(entry.seqno)),
        };
    }

    /// Notes which snapshots see `entry` and not what hides it, whose number is `newer`.
    fn hold_hidden(&mut self, entry: &Entry<'_>, (bytes, apart): (u64, u64), newer: Seqno) {
        let snapshots = self.readers.snapshots;
        let seen = |seqno| snapshots.partition_point(|&snapshot| snapshot < seqno);
        let from = snapshots.get(seen(entry.seqno)).copied().unwrap_or(entry.seqno);
        // A later snapshot sees what is visible now, but not all that is written already.
        let to = match seen(newer) {
            at if at < snapshots.len() => snapshots[at.saturating_sub(1)],
            _ => newer - 1,
        };
        if let Some(table) = &mut self.open {
            table.waste().hold(from, to.max(from), bytes, apart);
        }
    }

    /// After the last entry.
    fn finish(&mut self) -> Result<()> {
        self.pass_tombstones(None)?;
        self.end_table(KeyEnd::Unbounded)?;
        self.moves.finish()
    }

    /// Takes everything back.
    fn remove(self) {
        drop(self.open);
        let JobContext { context, .. } = self.job;
        self.moves.remove();
        for output in self.written {
            // One that cannot be removed now is removed at the next open.
            let _ = context.fs.remove_file(&context.path(output.file));
        }
    }
}

/// Notes that a tombstone of this number stays in `table` though nothing older lies below.
fn hold_tombstone(table: &mut TableWriter, oldest_snapshot: Seqno, seqno: Seqno) {
    let (from, to) = table.waste().tombstones_held.unwrap_or((oldest_snapshot, 0));
    table.waste().tombstones_held = Some((from, to.max(seqno.saturating_sub(1)).max(from)));
}

impl Sink for &mut Outputs<'_, '_> {
    fn keep(&mut self, entry: Entry<'_>) -> Result<()> {
        self.reckoning.kept.add(&entry);
        self.write(entry)
    }

    fn made(&mut self, entry: Entry<'_>) -> Result<()> {
        self.write(entry)
    }

    fn dropped(&mut self, entry: Entry<'_>, _: Why) -> Result<()> {
        self.reckoning.dropped.add(&entry);
        if entry.kind.is_separated() {
            self.moves.drop_entry(entry.key, entry.kind.expires(), entry.value)?;
        }
        Ok(())
    }

    #[inline]
    fn next_key(&mut self) {
        self.hides = None;
    }

    fn dropped_tombstone(&mut self, _: &RangeTombstone, _: Why) {}
}
