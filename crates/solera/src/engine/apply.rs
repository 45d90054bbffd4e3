//! Operations of the log into memtables: `batch` at a commit, `operation_to` for one operation, at
//! recovery too.
//!
//! `batch` notes trees that are to be sealed: the memtable is full, or its deletes hide much of the
//! tables. Range deletions go in together, after the tree's other operations. `keys_put` lists the
//! keys of puts and merges.
//!
//! What must hold: operations of a keyspace that was dropped go nowhere. A batch that does not
//! decode is an error, for which `commit` poisons: its frame is in the log already.
//!
//! Callers: `core` and the tests' `unopened` (the commit's `insert`), `large`, and `open`'s replay.

use super::{catalog::Keyspaces, values::Place};
use crate::{
    codec::DecodeError,
    error::{Error, Result},
    ids::{KeyspaceId, Seqno},
    key::Kind,
    memtable::Memtable,
    stats::Counter,
    sync::Guard,
    tombstone::RangeTombstone,
    tree::{Tree, View},
    values::ValueFiles,
    wal::batch::{BatchEncoder, BatchReader, Operation},
};
use std::{mem, sync::Arc};

/// Fewer deletes of a memtable hide too little to look at.
const DELETES_MIN: usize = 32;

/// Puts a batch's operations into the memtables; notes trees whose memtable has `limit` bytes now,
/// or should be flushed because it frees space. True: what it deletes may do so together with what
/// other memtables hold. That is said seldom, since a thread that looks then looks at all.
pub(super) fn batch(
    keyspaces: &Keyspaces,
    limit: u64,
    encoder: &BatchEncoder,
    values: &ValueFiles,
    full: &mut Vec<Arc<Tree>>,
) -> Result<bool> {
    let undecodable = |error: DecodeError| Error::Poisoned(format!("a batch does not decode: {error:?}"));
    let log = encoder.placed().map(|(file, payload_at)| (values.file(file, false), payload_at));
    let payload = encoder.payload();
    let place = log.as_ref().map(|(log, at)| Place { log, payload, payload_at: *at, moved: None });
    // One tree after the other, each with how many operations it got, and the ranges among them.
    let mut current: Option<(&Arc<Tree>, Guard<Arc<View>>, u64, usize)> = None;
    let (mut deleted, mut is_to_look) = (Vec::new(), false);
    let mut leave = |(tree, view, entries, deletes): (&Arc<Tree>, Guard<Arc<View>>, u64, usize),
                     deleted: &mut Vec<_>,
                     full: &mut Vec<_>| {
        let deletes_ranges = !deleted.is_empty();
        view.active.add_range_tombstones(mem::take(deleted));
        tree.inserted(|| keys_put(encoder, tree.id));
        tree.context.stats.add(Counter::EntriesWritten, entries);
        let looks = deletes_ranges && view.is_to_look_at_ranges();
        let is_due = view.active.is_full(limit) || view.frees_space(limit, looks);
        if is_due && !full.iter().any(|other: &Arc<Tree>| other.id == tree.id) {
            full.push(tree.clone());
        }
        // Each time that there are about twice as many.
        let deletes_now = view.active.deletes();
        is_to_look |= looks || deletes_now > DELETES_MIN && deletes_now.ilog2() != deletes.max(1).ilog2();
    };
    for numbered in BatchReader::new(encoder.payload()).map_err(undecodable)? {
        let (seqno, operation) = numbered.map_err(undecodable)?;
        let id = operation.keyspace();
        if current.as_ref().is_none_or(|(tree, ..)| tree.id != id) {
            current.take().into_iter().for_each(|left| leave(left, &mut deleted, full));
            // A keyspace dropped since the batch was filled: its operations go nowhere.
            let Some(tree) = keyspaces.numbered(id) else { continue };
            let view = tree.view();
            let deletes = view.active.deletes();
            current = Some((tree, view, 0, deletes));
        }
        if let Some((_, view, entries, _)) = &mut current {
            operation_to(&view.active, seqno, operation, place.as_ref(), &mut deleted);
            *entries += 1;
        }
    }
    current.take().into_iter().for_each(|left| leave(left, &mut deleted, full));
    Ok(is_to_look)
}

/// The keys of what a batch does to a keyspace beyond deleting.
pub(super) fn keys_put(encoder: &BatchEncoder, keyspace: KeyspaceId) -> impl Iterator<Item = &[u8]> {
    let operations = BatchReader::new(encoder.payload()).into_iter().flatten().flatten();
    operations.filter_map(move |(_, operation)| match operation {
        Operation::Entry { keyspace: id, kind, key, .. } if id == keyspace && kind != Kind::Delete => {
            Some(key)
        }
        Operation::Entry { .. } | Operation::DeleteRange { .. } => None,
    })
}

/// Applies one operation to a memtable, at commit and at recovery. `place` is where its batch
/// stands: known if the batch has separated values. A range deletion is put with those that the
/// caller then adds together.
#[inline]
pub(super) fn operation_to(
    memtable: &Memtable,
    seqno: Seqno,
    operation: Operation<'_>,
    place: Option<&Place<'_>>,
    deleted: &mut Vec<RangeTombstone>,
) {
    match operation {
        Operation::Entry { kind, key, value, .. } if kind.is_separated() => {
            let place = place.expect("a batch with separated values was placed");
            place.insert(memtable, key, seqno, kind, value);
        }
        Operation::Entry { kind, key, value, .. } => memtable.insert(key, seqno, kind, &[value]),
        Operation::DeleteRange { start, end, .. } => {
            deleted.push(RangeTombstone { start: start.into(), end: end.into(), seqno });
        }
    }
}
