//! Bulk load: sorted entries straight into tables.

use super::{Core, check_sizes};
use crate::{
    compaction,
    error::{Error, Result},
    ids::SEQNO_MAX,
    key::{KeyRange, Kind},
    sync::atomic::Ordering,
    table::{TableDescriptor, TableWriter},
    tree::Tree,
    version::{Added, LEVELS_MAX, TreeEdit},
};
use std::sync::Arc;

/// What an ingest did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestReport {
    /// Entries loaded.
    pub entries: u64,
    /// Bytes of the tables written.
    pub bytes: u64,
    /// Tables written.
    pub tables: u64,
}

impl Core {
    pub(super) fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Arc<Tree>,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<IngestReport> {
        self.writable()?;
        let mut written = Vec::new();
        let outcome = self
            .write_ingest_tables(tree, entries, &mut written)
            .and_then(|()| self.fs().sync_dir(self.dir()))
            .and_then(|()| self.install_ingest(tree, &written));
        outcome.inspect_err(|_| self.remove_outputs(&written))?;
        Ok(IngestReport {
            entries: written.iter().map(|table| table.entries).sum(),
            bytes: written.iter().map(|table| table.bytes).sum(),
            tables: written.len() as u64,
        })
    }

    /// Writes the tables. All entries share one sequence number, which the tables do not hold: it is
    /// chosen when they are installed.
    fn write_ingest_tables<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        entries: impl IntoIterator<Item = (K, V)>,
        written: &mut Vec<TableDescriptor>,
    ) -> Result<()> {
        let view = tree.view_owned();
        let (settings, layout) = (view.settings.clone(), view.settings.layout_of(0));
        // Few ingests enter above the last level.
        let filter = self.level_filters(tree, &view, 0).of(LEVELS_MAX);
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
            if writer.as_ref().is_some_and(|writer| writer.bytes_written() >= settings.shape.table_bytes)
                && let Some(full) = writer.take()
            {
                written.extend(full.finish()?);
            }
            let writer = match &mut writer {
                Some(writer) => writer,
                None => {
                    let file = self.new_file();
                    writer.insert(TableWriter::create(&tree.context, file, &layout, filter, SEQNO_MAX)?)
                }
            };
            writer.add(key, 0, Kind::Put, value)?;
        }
        if let Some(writer) = writer {
            written.extend(writer.finish()?);
        }
        Ok(())
    }

    /// Installs the tables as deep as older versions of their keys allow. Under the commit lock, with no
    /// memtable that could hold an older version of an ingested key above them.
    fn install_ingest(&self, tree: &Arc<Tree>, written: &[TableDescriptor]) -> Result<()> {
        let Some((first, rest)) = written.split_first() else { return Ok(()) };
        let range = rest.iter().fold(first.range.clone(), |range, table| range.hull(&table.range));
        if tree.view().version.level(0).runs().iter().any(|run| !run.overlapping(&range).is_empty()) {
            // They will be one more run of level 0.
            self.throttle(tree, written.iter().map(|table| table.bytes).sum())?;
        }
        // Most of the flush happens before writers are held up.
        if self.memtables_touch(tree, &range)? {
            self.flush_trees(std::slice::from_ref(tree))?;
        }
        let claim = self.claim_flush(tree);
        let mut writer = self.commit.lock();
        if self.memtables_touch(tree, &range)? {
            self.flush_locked(&claim, tree, &mut writer)?;
        }
        // What was acknowledged before must not be lost while this survives.
        self.sync_log_locked(&mut writer)?;
        let seqno = writer.next_seqno()?;
        let (level, run, place) = self.claim_entrance(tree, &range)?;
        self.install_at(tree, &[], &[], Some(seqno), |_| {
            let table = |descriptor: &TableDescriptor| descriptor.clone().ingested_at(seqno);
            let added = written.iter().map(|descriptor| Added::whole(level, run, table(descriptor)));
            TreeEdit { added: added.collect(), ..TreeEdit::default() }
        })?;
        compaction::count_written(level, written, &tree.context.stats);
        self.visible.store(seqno, Ordering::Release);
        let ranges: Vec<_> = written.iter().map(|table| table.range.clone()).collect();
        self.commit.announcements.written(tree.id, &ranges);
        drop(place);
        drop(writer);
        drop(claim);
        self.remove_flushed_logs();
        Ok(())
    }

    fn memtables_touch(&self, tree: &Tree, range: &KeyRange) -> Result<bool> {
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
}
