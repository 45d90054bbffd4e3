//! Batches that are larger than two write buffers: `LargeWriter`, `is_large`. A batch of more than
//! 16 trees or 1,024 range deletions is not taken.
//!
//! Memtables would hold such a batch a second time, beside any budget. So it goes to the log,
//! always synced, and then by one memtable after the other into tables. No reader sees them before
//! all are written; other writers wait.
//!
//! What must hold: the batch's trees are flushed first, so nothing older lies above its tables. One
//! manifest record names all, after the log is durable: readers and crashes see it whole or not.
//! Where tables cannot be written or named, memtables take it after all.
//!
//! Caller: `handle`, for batches and transactions; single writes never come here.

use super::{
    apply,
    commit::{Commit, Environment, Operations, Terms, Writer},
    flushing::{Flusher, count_flush},
    job_parts::JobParts,
    store::Flushed,
    values::Place,
    work::Claim,
};
use crate::{
    codec::DecodeError,
    compaction::{self, JobContext},
    error::{Error, Result},
    ids::{KeyspaceId, Seqno},
    key::KeyRange,
    memtable::Memtable,
    stats::Counter,
    tombstone::RangeTombstone,
    tree::Tree,
    wal::batch::{BatchEncoder, BatchReader},
};
use std::{collections::BTreeMap, mem, sync::Arc};

/// A batch is large if it has more bytes than so many write buffers.
const LARGE_WRITE_BUFFERS: u64 = 2;
/// A batch of more trees goes into memtables: each of them would get a table.
const TREES_MAX: usize = 16;

/// Nor does one with more range deletions go into tables: tables are cut between them, and each cut
/// looks at all.
const RANGES_MAX: u32 = 1024;

/// The part of a large batch that is on its way into one tree's next table.
struct Part {
    tree: Arc<Tree>,
    memtable: Arc<Memtable>,
    deleted: Vec<RangeTombstone>,
    operations: u64,
}

impl Part {
    fn new(tree: &Arc<Tree>) -> Part {
        Part { tree: tree.clone(), memtable: Memtable::new(), deleted: Vec::new(), operations: 0 }
    }
}

/// Whether a batch is committed by a [`LargeWriter`], where write buffers have so many bytes.
pub(super) fn is_large(operations: &Operations, write_buffer_bytes: u64) -> bool {
    operations.encoder.bytes() as u64 > write_buffer_bytes * LARGE_WRITE_BUFFERS
        && operations.trees.len() <= TREES_MAX
        && operations.encoder.ranges() <= RANGES_MAX
}

/// Commits large batches.
pub(super) struct LargeWriter<'c, E: Environment> {
    pub(super) flusher: Flusher<'c>,
    pub(super) commit: &'c Commit<E::Log>,
    /// What a commit works on.
    pub(super) env: &'c E,
}

impl<E: Environment> LargeWriter<'_, E> {
    /// Commits a large batch, durably. Other writers wait until its tables are written.
    pub(super) fn write(&self, encoder: BatchEncoder, terms: Terms) -> Result<Seqno> {
        let JobParts { store, work, memory, .. } = self.flusher.parts;
        let mut trees = terms.trees.clone();
        // In one order everywhere: two that wait for each other's claims would wait for ever.
        trees.sort_unstable_by_key(|tree| tree.id);
        let claims: Vec<_> = trees.iter().map(|tree| work.claim_flush(tree)).collect();
        let flushed = |writer: &mut Writer<E::Log>| {
            let mut sync = || writer.sync(|log| self.env.sync(log));
            claims.iter().try_for_each(|claim| self.flusher.flush_locked(claim, &mut sync))
        };
        let insert = |encoder: &BatchEncoder, full: &mut Vec<_>| {
            let written =
                self.write_parts(encoder, &claims).and_then(|parts| self.install_parts(encoder, parts));
            match written {
                Ok(()) => Ok(()),
                Err(error) => {
                    work.note_failure(&error);
                    self.env.insert(encoder, full)
                }
            }
        };
        let committed = self.commit.large(encoder, terms, self.env, flushed, insert);
        drop(claims);
        let seqno = committed?;
        work.wake();
        memory.fit_cache(&store.catalog);
        self.flusher.rest.remove_flushed_logs();
        // What it takes in the log is in tables. A failure is met again by the next writer.
        let _ = self.flusher.rest.retire_log();
        Ok(seqno)
    }

    /// Writes the tables of a batch that is in the log. The caller holds the claims of its trees,
    /// which have nothing in memtables, and keeps writers out.
    fn write_parts(&self, encoder: &BatchEncoder, claims: &[Claim<'_>]) -> Result<Vec<Flushed>> {
        let JobParts { store, .. } = self.flusher.parts;
        let mut written = Vec::new();
        let done = self.write_each_part(encoder, claims, &mut written);
        let synced = done.and_then(|()| store.files.fs.sync_dir(&store.files.dir));
        if let Err(error) = synced {
            written.iter().for_each(|one: &Flushed| store.remove_written(&one.written));
            return Err(error);
        }
        Ok(written)
    }

    fn write_each_part(
        &self,
        encoder: &BatchEncoder,
        claims: &[Claim<'_>],
        written: &mut Vec<Flushed>,
    ) -> Result<()> {
        let undecodable = |error: DecodeError| Error::Invalid(format!("a batch does not decode: {error:?}"));
        let JobParts { store, memory, .. } = self.flusher.parts;
        let payload = encoder.payload();
        let log = encoder.placed().map(|(file, at)| (store.files.values.file(file, false), at));
        let place = log.as_ref().map(|(log, at)| Place { log, payload, payload_at: *at, moved: None });
        let limit = memory.write_buffer_bytes() * LARGE_WRITE_BUFFERS / claims.len().max(1) as u64;
        let mut parts: BTreeMap<KeyspaceId, Part> =
            claims.iter().map(|claim| (claim.tree.id, Part::new(&claim.tree))).collect();
        for numbered in BatchReader::new(payload).map_err(undecodable)? {
            let (seqno, operation) = numbered.map_err(undecodable)?;
            // A keyspace dropped since the batch was filled: its operations go nowhere.
            let Some(part) = parts.get_mut(&operation.keyspace()) else { continue };
            part.operations += 1;
            apply::operation_to(&part.memtable, seqno, operation, place.as_ref(), &mut part.deleted);
            if part.memtable.is_full(limit) {
                let full = mem::replace(part, Part::new(&part.tree));
                self.write_part(full, written)?;
            }
        }
        parts.into_values().try_for_each(|part| self.write_part(part, written))
    }

    fn write_part(&self, part: Part, written: &mut Vec<Flushed>) -> Result<()> {
        let Part { tree, memtable, deleted, operations } = part;
        memtable.add_range_tombstones(deleted);
        if memtable.is_empty() {
            return Ok(());
        }
        let last = memtable.last_seqno();
        let output = self.flusher.parts.guarded("a flush", &tree, || {
            let memtables = [memtable];
            let range = compaction::extent(&memtables)?.unwrap_or_else(KeyRange::all);
            let job = JobContext { syncs_dir: false, ..self.flusher.parts.context(&tree, 0, 0, &range) };
            // What came before it in the batch lies below it, and is in no version yet.
            compaction::flush(&memtables, false, &job)
        })?;
        count_flush(&tree, &output);
        tree.context.stats.add(Counter::EntriesWritten, operations);
        written.push(Flushed { tree, written: output, memtables: Vec::new(), last });
        Ok(())
    }

    /// Shows readers the tables of a batch, all at once; the batch is visible after that.
    fn install_parts(&self, encoder: &BatchEncoder, parts: Vec<Flushed>) -> Result<()> {
        let trees: BTreeMap<_, _> = parts.iter().map(|one| (one.tree.id, one.tree.clone())).collect();
        let last = parts.iter().filter_map(|one| one.last).max();
        self.flusher.parts.store.install_flushed(parts, last)?;
        trees.values().for_each(|tree| tree.inserted(|| apply::keys_put(encoder, tree.id)));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
