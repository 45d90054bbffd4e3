//! Bulk load: `Core::ingest` puts sorted entries straight into tables, and answers with an
//! `IngestReport`. Keys that do not strictly ascend are refused.
//!
//! Tables are written without any lock. Then they enter the tree under the flush claim and the
//! commit lock, as deep as older versions of their keys and running plans allow.
//!
//! What must hold: no memtable above them holds an older version of an ingested key. What was
//! acknowledged before is durable first. All entries have one sequence number, which is chosen at
//! the installing. A load that fails leaves no file, unless it poisons; the next open removes
//! those. A panic poisons while tables enter; one of the caller's entries does not.
//!
//! Callers: `Keyspace::ingest`, which `Db::ingest` calls.

use super::{
    core::{Core, check_sizes},
    files::Files,
    logs::Present,
    store::Store,
};
use crate::{
    compaction::{self, Written},
    error::{Error, Result},
    filter::FilterSpec,
    ids::SEQNO_MAX,
    key::{KeyRange, Kind},
    table::{TableDescriptor, TableWriter},
    tree::Tree,
    values::SortedValues,
    version::{Added, LEVELS_MAX, TreeEdit},
};
use std::{mem, sync::Arc};

/// What an ingest did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestReport {
    /// Entries loaded.
    pub entries: u64,
    /// Bytes of the files written.
    pub bytes: u64,
    /// Tables written.
    pub tables: u64,
}

/// What was written and is not in the tree. Its files go with it: after an error, and where the
/// caller's entries panic.
struct Unused<'c> {
    store: &'c Store,
    written: Written,
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        self.store.remove_written(&self.written);
    }
}

impl Core {
    pub(crate) fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Arc<Tree>,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        let _caller = self.enter()?;
        let mut unused = Unused { store: &self.store, written: Written::default() };
        // Few ingests enter above the last level.
        let filters = self.memory.level_filters(tree, &tree.view_owned(), 0, &self.store.catalog);
        let filter = filters.of(LEVELS_MAX);
        let table_bytes = self.memory.table_bytes(tree.view().settings.shape.table_bytes);
        write_tables(tree, entries, &self.store.files, filter, table_bytes, &mut unused.written)?;
        self.store.files.fs.sync_dir(&self.store.files.dir)?;
        let what = format_args!("an ingest into keyspace {:?}", tree.name);
        self.store.poison.guarded(what, || self.install_ingest(tree, &unused.written))?;
        let written = mem::take(&mut unused.written);
        Ok(IngestReport {
            entries: written.tables.iter().map(|table| table.entries).sum(),
            bytes: written.bytes(),
            tables: written.tables.len() as u64,
        })
    }

    /// Installs the tables as deep as older versions of their keys allow. Under the commit lock,
    /// with no memtable that could hold an older version of an ingested key above them.
    fn install_ingest(&self, tree: &Arc<Tree>, written: &Written) -> Result<()> {
        let tables = &written.tables;
        let Some((first, rest)) = tables.split_first() else { return Ok(()) };
        let range = rest.iter().fold(first.range.clone(), |range, table| range.hull(&table.range));
        if tree.view().version.level(0).runs().iter().any(|run| !run.overlapping(&range).is_empty()) {
            // They will be one more run of level 0.
            self.throttle(tree, tables.iter().map(|table| table.bytes).sum(), 0)?;
        }
        // Most of the flush happens before writers are held up.
        if memtables_touch(tree, &range)? {
            self.flush_trees(std::slice::from_ref(tree))?;
        }
        let claim = self.work.claim_flush(tree);
        let mut writer = self.commit.lock();
        let sync = |log: &mut Present| self.logs.sync(&self.store.poison, log);
        if memtables_touch(tree, &range)? {
            self.flusher().flush_locked(&claim, || writer.sync(sync))?;
        }
        // What was acknowledged before must not be lost while this survives.
        writer.sync(sync)?;
        let seqno = writer.next_seqno()?;
        let (level, run, place) = self.work.claim_entrance(tree, &range, &self.horizon())?;
        self.store.install(tree, &Written::default(), &[], Some(seqno), |_| {
            let table = |descriptor: &TableDescriptor| descriptor.clone().ingested_at(seqno);
            let added = tables.iter().map(|descriptor| Added::whole(level, run, table(descriptor)));
            TreeEdit { added: added.collect(), values: written.values.clone(), ..TreeEdit::default() }
        })?;
        compaction::count_written(level, tables, &tree.context.stats);
        tables.iter().for_each(|table| tree.ingested(&table.range));
        self.store.snapshots.publish(seqno);
        self.memory.fit_cache(&self.store.catalog);
        let ranges: Vec<_> = tables.iter().map(|table| table.range.clone()).collect();
        self.commit.announcements.written(tree.id, &ranges);
        drop(place);
        drop(writer);
        drop(claim);
        self.remove_flushed_logs();
        Ok(())
    }
}

/// Writes the tables. All entries share one sequence number, which the tables do not hold: it is
/// chosen when they are installed.
fn write_tables<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    tree: &Tree,
    entries: impl IntoIterator<Item = (K, V)>,
    files: &Files,
    filter: FilterSpec,
    table_bytes: u64,
    written: &mut Written,
) -> Result<()> {
    let view = tree.view_owned();
    let (settings, layout) = (view.settings.clone(), view.settings.layout_of(0));
    let new_file = || files.new_file();
    let mut values = SortedValues::new(files.fs.clone(), &files.dir, files.database, &new_file);
    let (mut separated, mut stored) = (0u64, Vec::new());
    let mut writer: Option<TableWriter> = None;
    let mut last: Option<Vec<u8>> = None;
    for (at, (key, value)) in entries.into_iter().enumerate() {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_sizes(key, value.len())?;
        match &mut last {
            Some(last) if &last[..] >= key => {
                return Err(Error::Invalid(format!(
                    "entry {at} to ingest, key b\"{}\", is not above the one before it, b\"{}\"; sort the input and remove duplicates",
                    key.escape_ascii(),
                    last.escape_ascii()
                )));
            }
            Some(last) => {
                last.clear();
                last.extend_from_slice(key);
            }
            None => last = Some(key.to_vec()),
        }
        let is_full = |writer: &TableWriter| compaction::is_full(writer.extent(), separated, table_bytes);
        if writer.as_ref().is_some_and(is_full)
            && let Some(full) = writer.take()
        {
            separated = 0;
            written.tables.extend(full.finish()?);
        }
        let writer = match &mut writer {
            Some(writer) => writer,
            None => {
                let file = files.new_file();
                writer.insert(TableWriter::create(&tree.context, file, &layout, filter, SEQNO_MAX)?)
            }
        };
        if settings.separates(value.len()) {
            let pointer = values.add(key, value)?;
            written.values.add(&pointer);
            separated += value.len() as u64;
            stored.clear();
            pointer.encode(&mut stored);
            writer.add(key, 0, Kind::PutSeparated, &stored)?;
        } else {
            writer.add(key, 0, Kind::Put, value)?;
        }
    }
    if let Some(writer) = writer {
        written.tables.extend(writer.finish()?);
    }
    written.value_files = values.finish()?;
    Ok(())
}

/// Whether anything in the memtables of `tree` lies in `range`.
fn memtables_touch(tree: &Tree, range: &KeyRange) -> Result<bool> {
    let view = tree.view();
    for memtable in view.memtables() {
        use crate::cursor::Cursor;
        let mut cursor = memtable.cursor();
        cursor.seek(&range.start)?;
        if (cursor.valid() && range.end.admits(cursor.key()))
            || memtable.tombstones().overlaps_newer_than(range, 0)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
