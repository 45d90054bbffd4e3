//! Handing what users do to a recorder, while there is one: `Tracing`, with `begin` and `end`.
//!
//! Lookups, single writes and scans come here only when they are timed. While a recording runs all
//! are (`Stats::time_all`); else a sample is, and those look at a flag. Batches, transactions and
//! `multi_get`, which do much at a time, look at it each time.
//!
//! `timed_write` does the write of a batch or a transaction. It counts the write in each keyspace,
//! and times it when one is due. `scan` is told when an end of an iterator is placed anew or
//! dropped, and how many entries it came to. Drops of keyspaces are recorded. Creating one,
//! ingests and flushes are not.
//!
//! What must hold: a write is recorded after it has succeeded. What is done in a keyspace that was
//! made during a recording is recorded too (`new_tree`). `begin` refuses a second recording.
//!
//! Callers: `db` (keyspace, iterator, batches, transactions) and `handle` (new and dropped
//! keyspaces); `control::trace` begins and ends.

use super::{
    catalog::Catalog,
    commit::{Operations, Single},
    store::Store,
};
use crate::{
    clock::Clock,
    error::{Error, Result},
    ids::Seqno,
    key::{KeyEnd, Kind},
    stats::{Counter, Latency, Sampled},
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
        if !self.on.load(Ordering::Acquire) {
            return None;
        }
        (*self.recorder.load_full()).clone()
    }
}

impl Tracing {
    /// From now on records what is done in the file at `path`, which must not exist. Until
    /// [`Tracing::end`].
    pub(crate) fn begin(
        &self,
        path: &Path,
        options: TraceOptions,
        store: &Store,
        clock: Arc<dyn Clock>,
    ) -> Result<(Arc<Recorder>, JoinHandle<Result<()>>)> {
        if self.taken.swap(true, Ordering::AcqRel) {
            return Err(Error::Invalid(
                "the database is being recorded already; end that recording first".into(),
            ));
        }
        let started = trace::start(&*store.files.fs, path, store.files.database, options, clock);
        match &started {
            Ok((recorder, _)) => self.record_to(Some(recorder.clone()), &store.catalog),
            Err(_) => self.taken.store(false, Ordering::Release),
        }
        started
    }

    /// Ends what [`Tracing::begin`] began.
    pub(crate) fn end(&self, recorder: &Recorder, catalog: &Catalog) {
        self.record_to(None, catalog);
        recorder.end();
        self.taken.store(false, Ordering::Release);
    }

    fn record_to(&self, recorder: Option<Arc<Recorder>>, catalog: &Catalog) {
        let on = recorder.is_some();
        // Keyspaces that come later see the flag, under the same lock: `Tracing::new_tree`.
        catalog.look(|keyspaces| {
            self.recorder.store(Arc::new(recorder));
            keyspaces.trees().for_each(|tree| tree.context.stats.time_all(on));
            // Only now: before, what is timed by chance would be recorded, and what comes between
            // would not.
            self.on.store(on, Ordering::Release);
        });
    }

    /// Has a new tree recorded if the others are. The caller holds the catalog's lock.
    pub(super) fn new_tree(&self, tree: &Tree) {
        if self.is_on() {
            tree.context.stats.time_all(true);
        }
    }

    /// Whether a recording runs.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Records something that was done.
    fn done(&self, tree: &Tree, operation: Operation<'_>) {
        if let Some(recorder) = self.recorder() {
            recorder.add(iter::once((operation, &*tree.name)));
        }
    }

    /// Records lookups of several keys.
    pub(crate) fn lookups<'k>(&self, tree: &Tree, lookups: impl Iterator<Item = (&'k [u8], bool)>) {
        let Some(recorder) = self.recorder() else { return };
        for (key, found) in lookups {
            recorder.add(iter::once((Operation::Lookup { keyspace: tree.id.0, key, found }, &*tree.name)));
        }
    }

    /// Records an end of an iterator that was placed at `from` and came to so many entries.
    pub(crate) fn scan(&self, tree: &Tree, from: &Placed, entries: u64) {
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
        self.done(tree, Operation::Scan { keyspace, key, entries, backward });
    }

    /// Records a write.
    pub(crate) fn single(&self, tree: &Tree, single: Single<'_>) {
        let (keyspace, len) = (tree.id.0, |value: &[u8]| value.len() as u64);
        let put = |key, value, expires| Operation::Put { keyspace, key, value_len: len(value), expires };
        let operation = match single {
            Single::Put { key, value } | Single::PutSeparated { key, value } => put(key, value, false),
            Single::PutExpiring { key, value, .. } | Single::PutExpiringSeparated { key, value, .. } => {
                put(key, value, true)
            }
            Single::Delete { key } => Operation::Delete { keyspace, key },
            Single::DeleteRange { start, end } => Operation::DeleteRange { keyspace, start, end },
            Single::Merge { key, operand } => Operation::Merge { keyspace, key, operand_len: len(operand) },
        };
        self.done(tree, operation);
    }

    /// Records that a keyspace was dropped.
    pub(super) fn dropped(&self, tree: &Tree) {
        self.done(tree, Operation::DropKeyspace { keyspace: tree.id.0 });
    }

    /// Does `write`, recorded if a recording runs, and counted for every keyspace that they write
    /// to. If it is one that is timed, its time is the first keyspace's.
    pub(crate) fn timed_write(
        &self,
        operations: Operations,
        clock: &dyn Clock,
        write: impl FnOnce(Operations) -> Result<Seqno>,
    ) -> Result<Seqno> {
        let mut timed = None;
        for (number, tree) in operations.trees.iter().enumerate() {
            let stats = &tree.context.stats;
            let here = stats.here();
            if number == 0 && here.is_due(Sampled::Write) {
                timed = Some((tree.clone(), stats.begin(here, Sampled::Write, clock)));
            }
            here.add(Counter::Writes, 1);
        }
        let written = self.traced_write(operations, write);
        if let Some((tree, begun)) = timed {
            tree.context.stats.end(Latency::Write, begun, clock);
        }
        written
    }

    /// Does `write`, and records `operations`, if a recording runs, when it has succeeded.
    fn traced_write(
        &self,
        operations: Operations,
        write: impl FnOnce(Operations) -> Result<Seqno>,
    ) -> Result<Seqno> {
        let Some(recorder) = self.recorder() else { return write(operations) };
        let (encoder, trees) = (operations.encoder.clone(), operations.trees.clone());
        let written = write(operations)?;
        trace_batch(&recorder, encoder, &trees);
        Ok(written)
    }
}

/// Where an end of an iterator was placed.
pub(crate) enum Placed {
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
            let value_len = batch::value_len(kind, value) as u64;
            match kind {
                Kind::Put | Kind::PutExpiring | Kind::PutSeparated | Kind::PutExpiringSeparated => {
                    Operation::Put { keyspace, key, value_len, expires: kind.expires() }
                }
                Kind::Delete => Operation::Delete { keyspace, key },
                Kind::Merge => Operation::Merge { keyspace, key, operand_len: value_len },
            }
        }
    }
}
