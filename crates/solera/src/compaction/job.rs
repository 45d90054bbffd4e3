//! Carrying out what was decided: a merge of sorted sources into new tables.
//!
//! Owns [`flush`] (memtables become the newest run of level 0) and [`run`] (a [`Plan`] becomes tables).
//! Both only write files; `db` makes them count with one manifest record, or removes them.
//!
//! What must hold: outputs of one job have disjoint ranges, tombstones included, so that they can be one
//! run; versions of one user key are never in two of them; they and their names are durable on return.

use super::{
    plan::Plan,
    retain::{Circumstances, Entry, Retain, Sink},
    shape::Shape,
};
use crate::{
    canary::{Bug, planted},
    cursor::Cursor,
    error::{Error, Result},
    filter::FilterSpec,
    ids::{FileId, Seqno},
    key::{KeyEnd, KeyRange},
    memtable::Memtable,
    merge::Merge,
    operator::MergeOperator,
    sync::atomic::{AtomicBool, Ordering},
    table::{Access, Layout, TableContext, TableDescriptor, TableWriter},
    tombstone::{RangeTombstone, RangeTombstones},
    version::{Added, RunCursor, TableRef, TreeEdit, Version, collect_tombstones},
};
use std::sync::Arc;

/// Entries read between two looks at whether the job was cancelled.
const ENTRIES_PER_CANCEL_CHECK: u64 = 4096;
/// How often, while a table fills, one looks how large it has become.
const SIZE_CHECKS_PER_TABLE: u64 = 64;
/// What a range tombstone takes in a table besides its two keys, nearly.
const TOMBSTONE_BYTES: u64 = 16;

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
    /// The keyspace's merge operator.
    pub operator: Option<Arc<dyn MergeOperator>>,
    /// Now, in Unix milliseconds, as every later reader will agree.
    pub now_ms: u64,
    /// Set when the job should end with [`Error::Closed`].
    pub cancelled: &'j AtomicBool,
    /// Gives numbers to new files.
    pub new_file: Box<dyn Fn() -> FileId + 'j>,
}

/// The keys and range tombstones of `memtables`: from the first to the last; `None` if there are none.
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

/// Writes what is in `memtables`, newest first. May be nothing.
///
/// # Errors
/// [`Error::Io`], [`Error::Corrupt`], [`Error::Closed`]; no file is left then.
pub fn flush(memtables: &[Arc<Memtable>], job: &JobContext<'_>) -> Result<Vec<TableDescriptor>> {
    let cursors = memtables.iter().map(|memtable| memtable.cursor()).collect();
    let tombstones = memtables.iter().map(|memtable| memtable.tombstones()).collect();
    write(job, cursors, tombstones, false)
}

/// The edit that makes flushed tables the newest run of level 0.
pub fn flushed(version: &Version, outputs: &[TableDescriptor], flushed_seqno: Option<Seqno>) -> TreeEdit {
    let run = version.level(0).next_run();
    let added = outputs.iter().map(|output| Added::whole(0, run, output.clone()));
    TreeEdit { added: added.collect(), flushed_seqno, ..TreeEdit::default() }
}

/// Writes the tables that a plan leads to; none for a plan that only moves tables. What they mean for the
/// tree is said by [`Plan::edit`].
///
/// # Errors
/// As [`flush`].
pub fn run(plan: &Plan, job: &JobContext<'_>) -> Result<Vec<TableDescriptor>> {
    if plan.moves {
        return Ok(Vec::new());
    }
    let runs: Vec<&[TableRef]> =
        plan.sources.iter().map(|source| &source.tables[..]).chain([&plan.target.tables[..]]).collect();
    let mut cursors = Vec::with_capacity(runs.len());
    let mut tombstones = Vec::with_capacity(runs.len());
    for tables in runs {
        cursors.push(RunCursor::new(tables.into(), Access::Sequential));
        tombstones.push(Arc::new(collect_tombstones(tables)?));
    }
    write(job, cursors, tombstones, plan.drops_tombstones)
}

/// Merges the sources, which are in the order of their ranks, into tables.
fn write<C: Cursor>(
    job: &JobContext<'_>,
    sources: Vec<C>,
    tombstones: Vec<Arc<RangeTombstones>>,
    drops_tombstones: bool,
) -> Result<Vec<TableDescriptor>> {
    // Sources may hold what is not visible yet. A snapshot taken now would tell it from what is.
    let mut snapshots = job.snapshots.clone();
    snapshots.retain(|&snapshot| snapshot < job.visible);
    snapshots.push(job.visible);
    let circumstances = Circumstances {
        snapshots: &snapshots,
        operator: job.operator.as_deref(),
        now_unix_ms: job.now_ms,
        drops_tombstones,
    };
    let mut outputs = Outputs::new(job, snapshots[0]);
    let done = merge_into(&mut outputs, circumstances, sources, tombstones).and_then(|()| {
        if planted(Bug::SkipDirectorySync) { Ok(()) } else { job.context.fs.sync_dir(&job.context.dir) }
    });
    match done {
        Ok(()) => Ok(outputs.written),
        Err(error) => {
            outputs.remove();
            Err(error)
        }
    }
}

fn merge_into<C: Cursor>(
    outputs: &mut Outputs<'_, '_>,
    circumstances: Circumstances<'_>,
    sources: Vec<C>,
    tombstones: Vec<Arc<RangeTombstones>>,
) -> Result<()> {
    let cancelled = outputs.job.cancelled;
    let mut retain = Retain::new(circumstances, tombstones, outputs);
    let kept = retain.tombstones().clone();
    retain.sink().keep_tombstones(kept);
    let mut merge = Merge::new(sources);
    merge.seek_first()?;
    let mut entries = 0u64;
    while merge.valid() {
        if entries.is_multiple_of(ENTRIES_PER_CANCEL_CHECK) && cancelled.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        entries += 1;
        let entry =
            Entry { key: merge.key(), seqno: merge.seqno(), kind: merge.kind(), value: merge.value() };
        retain.add(merge.rank(), entry, || merge.pin_value())?;
        merge.next()?;
    }
    retain.finish()?.finish()
}

/// The tables that a job writes, one after the other.
///
/// Every table stands for a range of keys that begins where the one before it ends, and holds the range
/// tombstones cut to that range.
struct Outputs<'o, 'j> {
    job: &'o JobContext<'j>,
    oldest_reader: Seqno,
    elide_below: Seqno,
    /// The range tombstones of the whole job, and in the order of their starts, last first, those that
    /// start behind what was written.
    tombstones: RangeTombstones,
    ahead: Vec<RangeTombstone>,
    open: Option<TableWriter>,
    /// Bytes of entries added since the size of the open table was looked at.
    unmeasured_bytes: u64,
    /// Whether the open table ends before the next key.
    ends: bool,
    /// Where the range of the open table begins.
    start: Box<[u8]>,
    /// Bytes of the tombstones that start in the range of the open table.
    tombstone_bytes: u64,
    written: Vec<TableDescriptor>,
}

impl<'o, 'j> Outputs<'o, 'j> {
    fn new(job: &'o JobContext<'j>, oldest_reader: Seqno) -> Self {
        Outputs {
            job,
            oldest_reader,
            elide_below: oldest_reader,
            tombstones: RangeTombstones::default(),
            ahead: Vec::new(),
            open: None,
            unmeasured_bytes: 0,
            ends: false,
            start: Box::default(),
            tombstone_bytes: 0,
            written: Vec::new(),
        }
    }

    /// Said before the first entry: these range tombstones go into the tables too.
    fn keep_tombstones(&mut self, tombstones: RangeTombstones) {
        // They are told from the entries of their own table by number, so then none is elided.
        self.elide_below = if tombstones.is_empty() { self.oldest_reader } else { 0 };
        self.ahead = tombstones.iter().collect();
        self.ahead.reverse();
        self.tombstones = tombstones;
    }

    fn is_full(&self) -> bool {
        let entry_bytes = self.open.as_ref().map_or(0, TableWriter::bytes_written);
        entry_bytes + self.tombstone_bytes >= self.job.shape.table_bytes
    }

    /// Goes past the starts of range tombstones before or at `key`, or past all of them, and ends tables
    /// that they fill.
    fn pass_tombstones(&mut self, key: Option<&[u8]>) -> Result<()> {
        while let Some(next) = self.ahead.pop_if(|next| key.is_none_or(|key| next.start[..] <= *key)) {
            let last = self.open.as_ref().and_then(TableWriter::last_key);
            if self.is_full() && last.is_none_or(|last| *last < next.start[..]) && self.start < next.start {
                self.end_table(KeyEnd::Excluded(next.start.clone()))?;
            }
            self.tombstone_bytes += (next.start.len() + next.end.len()) as u64 + TOMBSTONE_BYTES;
        }
        Ok(())
    }

    /// Ends the open table, and with it the range up to `end`. A range that has nothing but tombstones
    /// gets a table of its own for them.
    fn end_table(&mut self, end: KeyEnd) -> Result<()> {
        let range = KeyRange { start: std::mem::take(&mut self.start), end };
        let mut open = self.open.take();
        if !self.tombstones.is_empty() {
            let tombstones = self.tombstones.clip(&range);
            if open.is_none() && !tombstones.is_empty() {
                open = Some(begin(self.job, self.elide_below)?);
            }
            if let Some(table) = &mut open {
                table.add_range_tombstones(&tombstones);
            }
        }
        if let Some(table) = open {
            self.written.extend(table.finish()?);
        }
        if let KeyEnd::Excluded(next) = range.end {
            self.start = next;
        }
        (self.ends, self.unmeasured_bytes, self.tombstone_bytes) = (false, 0, 0);
        Ok(())
    }

    /// After the last entry.
    fn finish(&mut self) -> Result<()> {
        self.pass_tombstones(None)?;
        self.end_table(KeyEnd::Unbounded)
    }

    /// Takes everything back.
    fn remove(self) {
        drop(self.open);
        let JobContext { context, .. } = self.job;
        for output in self.written {
            // One that cannot be removed now is removed at the next open.
            let _ = context.fs.remove_file(&context.path(output.file));
        }
    }
}

fn begin(job: &JobContext<'_>, elide_below: Seqno) -> Result<TableWriter> {
    TableWriter::create(&job.context, (job.new_file)(), &job.layout, job.filter, elide_below)
}

impl Sink for &mut Outputs<'_, '_> {
    fn keep(&mut self, entry: Entry<'_>) -> Result<()> {
        let outputs = &mut **self;
        if !outputs.ahead.is_empty() {
            outputs.pass_tombstones(Some(entry.key))?;
        }
        if outputs.unmeasured_bytes >= outputs.job.shape.table_bytes / SIZE_CHECKS_PER_TABLE {
            outputs.unmeasured_bytes = 0;
            outputs.ends = outputs.is_full();
        }
        if outputs.ends {
            let last = outputs.open.as_ref().and_then(TableWriter::last_key);
            if last.is_some_and(|last| last != entry.key) {
                outputs.end_table(KeyEnd::Excluded(entry.key.into()))?;
            }
        }
        outputs.unmeasured_bytes += (entry.key.len() + entry.value.len()) as u64;
        let table = match &mut outputs.open {
            Some(table) => table,
            none => none.insert(begin(outputs.job, outputs.elide_below)?),
        };
        table.add(entry.key, entry.seqno, entry.kind, entry.value)
    }
}
