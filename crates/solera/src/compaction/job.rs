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
    cursor::Cursor,
    error::{Error, Result},
    ids::{FileId, Seqno},
    key::{KeyEnd, KeyRange},
    memtable::Memtable,
    merge::Merge,
    operator::MergeOperator,
    table::{Access, Layout, TableContext, TableDescriptor, TableWriter},
    tombstone::RangeTombstones,
    version::{Added, RunCursor, TableRef, TreeEdit, Version, collect_tombstones},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Entries between two looks at whether the job was cancelled.
const ENTRIES_PER_CANCEL_CHECK: u64 = 1024;

/// What a job may know of the world.
pub struct JobContext<'j> {
    /// Where tables are written.
    pub context: Arc<TableContext>,
    /// How they are laid out.
    pub layout: Layout,
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
    // Range tombstones are told from the entries of their own table by number, so then none is elided.
    let has_tombstones = tombstones.iter().any(|set| !set.is_empty());
    let oldest_reader = job.snapshots.first().copied().unwrap_or(job.visible);
    let mut outputs = Outputs {
        job,
        elide_through: if has_tombstones { 0 } else { oldest_reader },
        tombstones: RangeTombstones::default(),
        open: None,
        start: Box::default(),
        last_key: Vec::new(),
        entries: 0,
        written: Vec::new(),
    };
    let circumstances = Circumstances {
        snapshots: &job.snapshots,
        operator: job.operator.as_deref(),
        now_unix_ms: job.now_ms,
        drops_tombstones,
    };
    let done = merge_into(&mut outputs, circumstances, sources, tombstones)
        .and_then(|()| job.context.fs.sync_dir(&job.context.dir));
    let Outputs { open, written, .. } = outputs;
    match done {
        Ok(()) => Ok(written),
        Err(error) => {
            drop(open);
            for output in written {
                // One that cannot be removed now is removed at the next open.
                let _ = job.context.fs.remove_file(&job.context.path(output.file));
            }
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
    let mut retain = Retain::new(circumstances, tombstones, outputs);
    retain.sink().tombstones = retain.tombstones().clone();
    let mut merge = Merge::new(sources);
    merge.seek_first()?;
    while merge.valid() {
        let entry =
            Entry { key: merge.key(), seqno: merge.seqno(), kind: merge.kind(), value: merge.value() };
        retain.add(merge.rank(), entry, || merge.pin_value())?;
        merge.next()?;
    }
    retain.finish()?.close(KeyEnd::Unbounded)
}

/// The tables that a job writes, one after the other.
struct Outputs<'o, 'j> {
    job: &'o JobContext<'j>,
    elide_through: Seqno,
    /// The range tombstones of the whole job.
    tombstones: RangeTombstones,
    open: Option<TableWriter>,
    /// Where the range of the open table begins: where the one before it ended.
    start: Box<[u8]>,
    last_key: Vec<u8>,
    entries: u64,
    written: Vec<TableDescriptor>,
}

impl Outputs<'_, '_> {
    fn begin(&self) -> Result<TableWriter> {
        TableWriter::create(&self.job.context, (self.job.new_file)(), &self.job.layout, self.elide_through)
    }

    /// Ends the open table, and with it the range up to `end`. The tombstones in that range are its; a
    /// range that has nothing else gets a table of its own for them.
    fn close(&mut self, end: KeyEnd) -> Result<()> {
        let range = KeyRange { start: std::mem::take(&mut self.start), end };
        let tombstones = match self.tombstones.is_empty() {
            true => RangeTombstones::default(),
            false => self.tombstones.clip(&range),
        };
        let mut open = self.open.take();
        if open.is_none() && !tombstones.is_empty() {
            open = Some(self.begin()?);
        }
        if let Some(mut table) = open {
            table.add_range_tombstones(&tombstones);
            self.written.extend(table.finish()?);
        }
        if let KeyEnd::Excluded(next) = range.end {
            self.start = next;
        }
        Ok(())
    }
}

impl Sink for &mut Outputs<'_, '_> {
    fn keep(&mut self, entry: Entry<'_>) -> Result<()> {
        self.entries += 1;
        if self.entries.is_multiple_of(ENTRIES_PER_CANCEL_CHECK) && self.job.cancelled.load(Ordering::Relaxed)
        {
            return Err(Error::Closed);
        }
        let is_full =
            self.open.as_ref().is_some_and(|table| table.bytes_written() >= self.job.shape.table_bytes);
        if is_full && self.last_key != entry.key {
            self.close(KeyEnd::Excluded(entry.key.into()))?;
        }
        if self.open.is_none() {
            self.open = Some(self.begin()?);
        }
        if self.last_key != entry.key {
            self.last_key.clear();
            self.last_key.extend_from_slice(entry.key);
        }
        let Some(table) = &mut self.open else { return Ok(()) };
        table.add(entry.key, entry.seqno, entry.kind, entry.value)
    }
}
