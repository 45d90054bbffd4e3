//! Handing what users do to a recorder, while there is one.
//!
//! Whether there is one, lookups, single writes and scans are not asked: while a recording goes on, every operation is one
//! that is timed ([`Stats::time_all`](crate::stats::Stats::time_all)), and only what is timed comes here.
//! Batches and `multi_get`, which do much at a time, look at a flag.

use super::{Batch, Core, commit::Single};
use crate::{
    error::{Error, Result},
    ids::Seqno,
    key::{KeyEnd, Kind, split_expiry},
    sync::{
        ArcSwap,
        atomic::{AtomicBool, Ordering},
    },
    trace::{self, Operation, Recorder, TraceOptions},
    tree::Tree,
    wal::batch::{self, BatchEncoder, BatchReader},
};
use std::{iter, path::Path, sync::Arc, thread::JoinHandle};

/// The recorder, if there is one.
pub(crate) struct Tracing {
    /// A recording goes on, or begins or ends.
    taken: AtomicBool,
    /// There is a recorder.
    on: AtomicBool,
    recorder: ArcSwap<Option<Arc<Recorder>>>,
}

impl Default for Tracing {
    fn default() -> Self {
        Tracing {
            taken: AtomicBool::new(false),
            on: AtomicBool::new(false),
            recorder: ArcSwap::from_pointee(None),
        }
    }
}

impl Tracing {
    fn recorder(&self) -> Option<Arc<Recorder>> {
        if !self.on.load(Ordering::Relaxed) {
            return None;
        }
        (*self.recorder.load_full()).clone()
    }
}

impl Core {
    /// From now on records what is done in the file at `path`, which must not exist. Until [`Core::end_trace`].
    pub(crate) fn begin_trace(
        &self,
        path: &Path,
        options: TraceOptions,
    ) -> Result<(Arc<Recorder>, JoinHandle<Result<()>>)> {
        if self.tracing.taken.swap(true, Ordering::AcqRel) {
            return Err(Error::Invalid(
                "the database is being recorded already; end that recording first".into(),
            ));
        }
        let started =
            trace::start(&*self.options.fs, path, self.database, options, self.options.clock.clone());
        match &started {
            Ok((recorder, _)) => self.trace_to(Some(recorder.clone())),
            Err(_) => self.tracing.taken.store(false, Ordering::Release),
        }
        started
    }

    /// Ends what [`Core::begin_trace`] began.
    pub(crate) fn end_trace(&self, recorder: &Recorder) {
        self.trace_to(None);
        recorder.end();
        self.tracing.taken.store(false, Ordering::Release);
    }

    fn trace_to(&self, recorder: Option<Arc<Recorder>>) {
        let on = recorder.is_some();
        // Keyspaces that come later see the flag, under the same lock: `Core::trace_new`.
        let catalog = self.catalog.read();
        self.tracing.recorder.store(Arc::new(recorder));
        self.tracing.on.store(on, Ordering::Relaxed);
        catalog.by_id.values().for_each(|tree| tree.context.stats.time_all(on));
    }

    /// Has a new tree recorded if the others are. The caller holds the catalog's lock.
    pub(super) fn trace_new(&self, tree: &Tree) {
        if self.is_traced() {
            tree.context.stats.time_all(true);
        }
    }

    /// Whether somebody records.
    pub(super) fn is_traced(&self) -> bool {
        self.tracing.on.load(Ordering::Relaxed)
    }

    /// Records something that was done.
    fn trace(&self, tree: &Tree, operation: Operation<'_>) {
        if let Some(recorder) = self.tracing.recorder() {
            recorder.add(iter::once((operation, &*tree.name)));
        }
    }

    /// Records lookups of several keys.
    pub(super) fn trace_lookups<'k>(&self, tree: &Tree, lookups: impl Iterator<Item = (&'k [u8], bool)>) {
        let Some(recorder) = self.tracing.recorder() else { return };
        for (key, found) in lookups {
            recorder.add(iter::once((Operation::Lookup { keyspace: tree.id.0, key, found }, &*tree.name)));
        }
    }

    /// Records an end of an iterator that was placed at `from` and came to so many entries.
    pub(super) fn trace_scan(&self, tree: &Tree, from: &Placed, entries: u64) {
        let (keyspace, backward) = (tree.id.0, matches!(from, Placed::Back(_)));
        let behind;
        let key = match from {
            Placed::Front(key) => &key[..],
            Placed::Back(KeyEnd::Unbounded) => &[],
            Placed::Back(KeyEnd::Excluded(key)) => &key[..],
            Placed::Back(KeyEnd::Included(key)) => {
                behind = [key, [0].as_slice()].concat();
                &behind[..]
            }
        };
        self.trace(tree, Operation::Scan { keyspace, key, entries, backward });
    }

    /// Records a write.
    pub(super) fn trace_single(&self, tree: &Tree, single: Single<'_>) {
        let (keyspace, len) = (tree.id.0, |value: &[u8]| value.len() as u64);
        let put = |key, value, expires| Operation::Put { keyspace, key, value_len: len(value), expires };
        let operation = match single {
            Single::Put { key, value } => put(key, value, false),
            Single::PutExpiring { key, value, .. } => put(key, value, true),
            Single::Delete { key } => Operation::Delete { keyspace, key },
            Single::DeleteRange { start, end } => Operation::DeleteRange { keyspace, start, end },
            Single::Merge { key, operand } => Operation::Merge { keyspace, key, operand_len: len(operand) },
        };
        self.trace(tree, operation);
    }

    /// Records that a keyspace was dropped.
    pub(super) fn trace_drop(&self, tree: &Tree) {
        self.trace(tree, Operation::DropKeyspace { keyspace: tree.id.0 });
    }

    /// Does `write`, and records `batch`, if somebody records, when it has succeeded.
    pub(super) fn traced_write(
        &self,
        batch: Batch,
        write: impl FnOnce(Batch) -> Result<Seqno>,
    ) -> Result<Seqno> {
        let Some(recorder) = self.tracing.recorder() else { return write(batch) };
        let (encoder, trees) = (batch.encoder.clone(), batch.trees.clone());
        let written = write(batch)?;
        trace_batch(&recorder, encoder, &trees);
        Ok(written)
    }
}

/// Where an end of an iterator was placed.
pub(super) enum Placed {
    /// At the first entry from here on.
    Front(Box<[u8]>),
    /// At the last entry before this end.
    Back(KeyEnd),
}

fn trace_batch(recorder: &Recorder, mut encoder: BatchEncoder, trees: &[Arc<Tree>]) {
    // A batch that was committed decodes.
    let Ok(reader) = BatchReader::new(encoder.finish(0)) else { return };
    let operations: Vec<_> = reader
        .flatten()
        .filter_map(|(_, operation)| {
            let tree = trees.iter().find(|tree| tree.id == operation.keyspace())?;
            Some((of_batch(operation), &*tree.name))
        })
        .collect();
    recorder.add(operations.into_iter());
}

fn of_batch(operation: batch::Operation<'_>) -> Operation<'_> {
    let keyspace = operation.keyspace().0;
    match operation {
        batch::Operation::DeleteRange { start, end, .. } => Operation::DeleteRange { keyspace, start, end },
        batch::Operation::Entry { kind, key, value, .. } => {
            let value_len = value.len() as u64;
            match kind {
                Kind::Put => Operation::Put { keyspace, key, value_len, expires: false },
                Kind::PutExpiring => {
                    let value_len = split_expiry(value).map_or(0, |(_, value)| value.len() as u64);
                    Operation::Put { keyspace, key, value_len, expires: true }
                }
                Kind::Delete => Operation::Delete { keyspace, key },
                Kind::Merge => Operation::Merge { keyspace, key, operand_len: value_len },
            }
        }
    }
}
