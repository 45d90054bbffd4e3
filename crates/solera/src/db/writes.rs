//! What an open transaction has written, before anybody else can see it.
//!
//! Owns [`Writes`] and the cursor over them, through which the transaction's own reads merge them
//! with the database. What must hold: later writes hide earlier ones just as they will once they
//! are committed.

use crate::{
    cursor::Cursor,
    error::Result,
    ids::Seqno,
    key::{self, KeyRange, Kind},
    pin::Slice,
    tombstone::{RangeTombstone, RangeTombstones},
};
use std::{collections::BTreeMap, ops::Bound, sync::Arc};

/// One private write, as an entry would store it.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) kind: Kind,
    pub(super) stored: Slice,
}

/// A transaction's writes to one keyspace: for each key the writes that count, newest first, and
/// the ranges deleted. A later range deletion removes the keys' earlier writes from the map, so
/// within the map a key's writes are always newer than the ranges: the tombstones carry number 0
/// and so cover nothing of their own rank (see `cursor`).
#[derive(Clone, Default)]
pub(super) struct Writes {
    pub(super) keys: BTreeMap<Box<[u8]>, Vec<Write>>,
    pub(super) deleted: Vec<KeyRange>,
}

impl Writes {
    pub(super) fn set(&mut self, key: &[u8], kind: Kind, stored: Slice) {
        let writes = self.keys.entry(key.into()).or_default();
        if kind != Kind::Merge {
            writes.clear();
        }
        writes.insert(0, Write { kind, stored });
    }

    pub(super) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        let range = KeyRange::half_open(start, end);
        let covered: Vec<_> = self
            .keys
            .range::<[u8], _>((Bound::Included(start), Bound::Excluded(end)))
            .map(|(key, _)| key.clone())
            .collect();
        for key in covered {
            self.keys.remove(&key);
        }
        self.deleted.push(range);
    }

    pub(super) fn tombstones(&self) -> RangeTombstones {
        RangeTombstones::new(
            self.deleted
                .iter()
                .filter_map(|range| {
                    let end = range.end.key()?;
                    Some(RangeTombstone { start: range.start.clone(), end: end.into(), seqno: 0 })
                })
                .collect(),
        )
    }
}

/// Walks a transaction's writes to one keyspace. Numbers are 0: visible at every snapshot; order is
/// by position.
pub(super) struct WritesCursor {
    writes: Arc<Writes>,
    key: Option<Box<[u8]>>,
    at: usize,
}

impl WritesCursor {
    pub(super) fn new(writes: Arc<Writes>) -> Self {
        WritesCursor { writes, key: None, at: 0 }
    }

    fn versions(&self) -> &[Write] {
        self.key.as_ref().and_then(|key| self.writes.keys.get(key)).map_or(&[], Vec::as_slice)
    }

    fn stand_on(&mut self, key: Option<Box<[u8]>>, oldest: bool) {
        self.key = key;
        self.at = if oldest { self.versions().len().saturating_sub(1) } else { 0 };
    }

    fn current(&self) -> &Write {
        &self.versions()[self.at]
    }
}

impl Cursor for WritesCursor {
    fn seek_first(&mut self) -> Result<()> {
        let first = self.writes.keys.keys().next().cloned();
        self.stand_on(first, false);
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        let last = self.writes.keys.keys().next_back().cloned();
        self.stand_on(last, true);
        Ok(())
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let bounds = (Bound::Included(key), Bound::Unbounded);
        let found = self.writes.keys.range::<[u8], _>(bounds).next().map(|(key, _)| key.clone());
        self.stand_on(found, false);
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let bounds = (Bound::Unbounded, Bound::Excluded(key));
        let found = self.writes.keys.range::<[u8], _>(bounds).next_back().map(|(key, _)| key.clone());
        self.stand_on(found, true);
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        if self.at + 1 < self.versions().len() {
            self.at += 1;
            return Ok(());
        }
        let Some(key) = self.key.take() else { return Ok(()) };
        let bounds = (Bound::Excluded(&key[..]), Bound::Unbounded);
        let next = self.writes.keys.range::<[u8], _>(bounds).next().map(|(key, _)| key.clone());
        self.stand_on(next, false);
        Ok(())
    }
    fn next_key(&mut self) -> Result<()> {
        self.at = self.versions().len();
        self.next()
    }
    fn prev(&mut self) -> Result<()> {
        if self.at > 0 {
            self.at -= 1;
            return Ok(());
        }
        let Some(key) = self.key.take() else { return Ok(()) };
        self.seek_before(&key)
    }
    fn valid(&self) -> bool {
        self.key.is_some()
    }
    fn key(&self) -> &[u8] {
        self.key.as_deref().unwrap_or_default()
    }
    fn head(&self) -> u64 {
        key::head(self.key())
    }
    fn seqno(&self) -> Seqno {
        0
    }
    fn kind(&self) -> Kind {
        self.current().kind
    }
    fn value(&self) -> &[u8] {
        &self.current().stored
    }
    fn pin_value(&self) -> Slice {
        self.current().stored.clone()
    }
}
