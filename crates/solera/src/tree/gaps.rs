//! How a tree serves its walks' memory of gaps: `Remembers for Tree`, `Tree::inserted`,
//! `Tree::ingested`.
//!
//! A gap is a key range in which walks found no pair: all there is deleted, expired or covered.
//! `merge::visible::gaps` keeps the gaps. This file gives it the tree's store of them. It also
//! answers "what newer than `since` may be seen here" (`seen_from`), by tables' newest numbers and
//! by walks through newer memtables.
//!
//! What must hold: a writer of entries says so here after inserting them and before they are
//! visible. Else a walk would step over a new entry.
//! Callers: `merge::visible` walkers through `Remembers`; `engine::apply` and `engine::large`
//! (`inserted`); `engine::ingest` (`ingested`).

use super::Tree;
use crate::{
    cursor::Cursor,
    error::Result,
    ids::Seqno,
    key::{KeyRange, Kind},
    memtable::Memtable,
    merge::visible::{Remembers, gaps::Gaps},
};
use std::sync::Arc;

impl Remembers for Tree {
    fn gaps(&self) -> &Gaps {
        &self.gaps
    }

    fn seen_from(&self, range: &KeyRange, since: Seqno) -> Option<Seqno> {
        let view = self.view();
        let tables = view.version.runs().iter().flat_map(|run| run.overlapping(range));
        if tables.into_iter().any(|table| table.descriptor().seqno_max > since) {
            return Some(since + 1);
        }
        let newer =
            view.memtables().filter(|memtable| memtable.last_seqno().is_some_and(|last| last > since));
        // A walk through a memtable does not fail.
        newer.filter_map(|memtable| seen_in(memtable, range, since).unwrap_or(Some(since + 1))).min()
    }
}

/// The smallest number above `since` of what is in `memtable` and `range` and may be seen.
fn seen_in(memtable: &Arc<Memtable>, range: &KeyRange, since: Seqno) -> Result<Option<Seqno>> {
    let mut seen: Option<Seqno> = None;
    let mut cursor = memtable.cursor();
    cursor.seek(&range.start)?;
    while cursor.valid() && range.end.admits(cursor.key()) {
        let (seqno, kind) = cursor.stamp();
        if seqno <= since {
            cursor.next_key()?;
            continue;
        }
        if kind != Kind::Delete {
            seen = Some(seen.map_or(seqno, |seen| seen.min(seqno)));
        }
        cursor.next()?;
    }
    Ok(seen)
}

impl Tree {
    /// Entries with these keys were inserted and are about to be visible, among them perhaps some
    /// that only delete. The keys are asked for only if a walk must know of them.
    pub fn inserted<'k, K: Iterator<Item = &'k [u8]>>(&self, keys: impl FnOnce() -> K) {
        if self.gaps.must_hear() {
            self.gaps.wrote(keys());
        }
    }

    /// Tables over `range` were added and are about to be visible.
    pub fn ingested(&self, range: &KeyRange) {
        if self.gaps.must_hear() {
            self.gaps.wrote_in(range);
        }
    }
}
