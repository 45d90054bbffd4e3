//! What a transaction has read (`Reads`, its final form `ReadSet`), and whether something written
//! since touches it.
//!
//! It is validated in two halves. First it is announced (`Announcements`): every commit, ingest or
//! drop that touches it marks it. Then it is compared with what was written between the snapshot
//! and now, without a lock (`validate`).
//!
//! What must hold: a commit before the announcement is found by the second half, a later one by the
//! first. At the transaction's own turn only its mark and earlier batches of its group are looked
//! at.
//! Callers: `db::transaction` and `rewrite` fill; `handle` and `rewrite` announce; `commit` checks
//! and tells; `ingest` and `handle`'s drop tell.

use super::catalog::Catalog;
use crate::{
    error::{Error, Result},
    ids::KeyspaceId,
    key::{KeyEnd, KeyRange},
    merge::visible::gaps::Eye,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    wal::batch::{BatchEncoder, BatchReader, Operation},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

/// Keys and spans of keys, present or absent, in the order in which they were read.
#[derive(Default)]
pub(crate) struct Reads {
    keys: BTreeMap<KeyspaceId, BTreeSet<Box<[u8]>>>,
    spans: Vec<(KeyspaceId, KeyRange)>,
}

/// Names a span that an iterator still makes longer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(usize);

impl Reads {
    pub(crate) fn add_key(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        let keys = self.keys.entry(keyspace).or_default();
        if !keys.contains(key) {
            keys.insert(key.into());
        }
    }

    pub(crate) fn add_span(&mut self, keyspace: KeyspaceId, range: KeyRange) -> Span {
        self.spans.push((keyspace, range));
        Span(self.spans.len() - 1)
    }

    pub(crate) fn span_mut(&mut self, span: Span) -> &mut KeyRange {
        &mut self.spans[span.0].1
    }

    /// The set of all that was read.
    pub(crate) fn finish(mut self) -> ReadSet {
        let mut set = ReadSet::default();
        for (keyspace, keys) in self.keys {
            set.of.entry(keyspace).or_default().keys = keys;
        }
        self.spans.retain(|(_, range)| !range.is_empty());
        self.spans.sort_by(|(_, a), (_, b)| a.start.cmp(&b.start));
        for (keyspace, span) in self.spans {
            let spans = &mut set.of.entry(keyspace).or_default().spans;
            match spans.last_mut().filter(|last| last.overlaps(&span)) {
                Some(last) => *last = last.hull(&span),
                None => spans.push(span),
            }
        }
        set
    }
}

/// All that a transaction has read.
#[derive(Default)]
pub(crate) struct ReadSet {
    of: BTreeMap<KeyspaceId, ReadOf>,
}

/// What was read of one keyspace.
#[derive(Default)]
struct ReadOf {
    keys: BTreeSet<Box<[u8]>>,
    /// Disjoint, ascending.
    spans: Vec<KeyRange>,
}

impl ReadOf {
    fn has_key(&self, key: &[u8]) -> bool {
        self.keys.contains(key) || self.first_reaching(key).is_some_and(|span| span.start[..] <= *key)
    }

    fn has_key_in(&self, range: &KeyRange) -> bool {
        if range.is_empty() {
            return false;
        }
        let end = match &range.end {
            KeyEnd::Included(end) => Bound::Included(&end[..]),
            KeyEnd::Excluded(end) => Bound::Excluded(&end[..]),
            KeyEnd::Unbounded => Bound::Unbounded,
        };
        self.keys.range::<[u8], _>((Bound::Included(&range.start[..]), end)).next().is_some()
            || self.first_reaching(&range.start).is_some_and(|span| range.end.admits(&span.start))
    }

    /// The first span that reaches `key` or lies behind it.
    fn first_reaching(&self, key: &[u8]) -> Option<&KeyRange> {
        self.spans.get(self.spans.partition_point(|span| !span.end.admits(key)))
    }
}

impl ReadSet {
    /// Whether a batch writes to anything that was read.
    pub(super) fn touched_by(&self, batch: &BatchEncoder) -> bool {
        let touched = |operation: Operation<'_>| {
            self.of.get(&operation.keyspace()).is_some_and(|of| match operation {
                Operation::Entry { key, .. } => of.has_key(key),
                Operation::DeleteRange { start, end, .. } => of.has_key_in(&KeyRange::half_open(start, end)),
            })
        };
        // What does not decode could be anything; the code that applies it reports it.
        BatchReader::new(batch.payload()).map_or(true, |mut operations| {
            operations.any(|operation| operation.map_or(true, |(_, operation)| touched(operation)))
        })
    }

    /// Whether anything that was read of `keyspace` lies in `range`.
    fn has_key_in(&self, keyspace: KeyspaceId, range: &KeyRange) -> bool {
        self.of.get(&keyspace).is_some_and(|of| of.has_key_in(range))
    }

    /// Refuses with [`Error::Conflict`] if anything that was read by `eye`, whose snapshot is
    /// registered, has been written after that and before this call.
    pub(super) fn validate(&self, catalog: &Catalog, eye: Eye) -> Result<()> {
        for (id, of) in &self.of {
            // A keyspace that was dropped meanwhile was written: what was read is gone.
            let Some(tree) = catalog.numbered(*id) else { return Err(Error::Conflict) };
            let view = tree.view_owned();
            for key in &of.keys {
                if tree.written_since(&view, key, eye.snapshot)? {
                    return Err(Error::Conflict);
                }
            }
            for span in &of.spans {
                if tree.range_written_since(&view, span, eye)? {
                    return Err(Error::Conflict);
                }
            }
        }
        Ok(())
    }
}

/// A read set that commits look at, validated in two halves:
///
/// 1. It is announced: from then on every commit that touches it marks it, under the commit lock,
///    after its operations are in the memtables.
/// 2. Then it is compared with what was written between the transaction's snapshot and now, without
///    a lock.
pub(super) struct Announced {
    reads: ReadSet,
    touched: AtomicBool,
}

impl Announced {
    /// Refuses with [`Error::Conflict`] if a commit since the announcement, or one of `before`,
    /// which are about to be committed first, touches what was read. Under the commit lock.
    pub(super) fn check<'b>(&self, mut before: impl Iterator<Item = &'b BatchEncoder>) -> Result<()> {
        if self.touched.load(Ordering::Relaxed) || before.any(|batch| self.reads.touched_by(batch)) {
            return Err(Error::Conflict);
        }
        Ok(())
    }

    /// As [`ReadSet::validate`].
    pub(super) fn validate(&self, catalog: &Catalog, eye: Eye) -> Result<()> {
        self.reads.validate(catalog, eye)
    }
}

/// The announced read sets. What changes data tells them, under the commit lock and after the
/// change shows.
#[derive(Default)]
pub(super) struct Announcements {
    all: Mutex<Vec<Arc<Announced>>>,
}

/// Keeps a read set announced until it is dropped.
pub(super) struct Announcement<'c> {
    among: &'c Announcements,
    announced: Arc<Announced>,
}

impl std::ops::Deref for Announcement<'_> {
    type Target = Arc<Announced>;
    fn deref(&self) -> &Arc<Announced> {
        &self.announced
    }
}

impl Drop for Announcement<'_> {
    fn drop(&mut self) {
        self.among.all.lock().retain(|other| !Arc::ptr_eq(other, &self.announced));
    }
}

impl Announcements {
    pub(super) fn announce(&self, reads: ReadSet) -> Announcement<'_> {
        let announced = Arc::new(Announced { reads, touched: AtomicBool::new(false) });
        self.all.lock().push(announced.clone());
        Announcement { among: self, announced }
    }

    /// These batches were committed.
    pub(super) fn committed(&self, batches: &[BatchEncoder]) {
        self.tell(|reads| batches.iter().any(|batch| reads.touched_by(batch)));
    }

    /// Something in these ranges of `keyspace` was written.
    pub(super) fn written(&self, keyspace: KeyspaceId, ranges: &[KeyRange]) {
        self.tell(|reads| ranges.iter().any(|range| reads.has_key_in(keyspace, range)));
    }

    fn tell(&self, touches: impl Fn(&ReadSet) -> bool) {
        for announced in self.all.lock().iter() {
            if !announced.touched.load(Ordering::Relaxed) && touches(&announced.reads) {
                announced.touched.store(true, Ordering::Relaxed);
            }
        }
    }
}
