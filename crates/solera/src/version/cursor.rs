//! Walking a run as if it were one table: `RunCursor`, a `Cursor` over disjoint tables in key
//! order.
//!
//! It opens a table when it comes to it, and has at most one open. At a table's end it goes on in
//! the next one, or in the one before. It lends stretches of a block (`Lending`) as a table's
//! cursor does. Where a whole table comes next, it can expect that without a look (`expect`).
//!
//! What must hold: the tables are disjoint and ascend, so no two are asked for one key. Entries
//! outside a table's clip do not exist for it. While it expects, the open table stands nowhere.
//!
//! Callers: `tree::scan` makes one for each run of a walk, `compaction::job` one for each run that
//! a plan reads.

use super::run::{TableRef, first_reaching};
use crate::{
    block::LentEntries,
    cursor::{Cursor, Lending},
    error::Result,
    ids::Seqno,
    key::{KeyEnd, Kind, head, is_before},
    pin::Slice,
    table::{Access, TableCursor},
};
use std::sync::Arc;

/// A cursor over disjoint tables in key order, of which at most one is open.
#[derive(Debug)]
pub struct RunCursor {
    tables: Arc<[TableRef]>,
    access: Access,
    /// The number of the open table.
    at: usize,
    open: Option<TableCursor>,
    /// It expects the first entry, or the last, of table `at`.
    expects: Expects,
}

/// Which entry of a table is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expects {
    Nothing,
    First,
    Last,
}

impl RunCursor {
    /// A cursor over `tables`: a run's, or some of them with smaller clips.
    pub fn new(tables: Arc<[TableRef]>, access: Access) -> RunCursor {
        RunCursor { tables, access, at: 0, open: None, expects: Expects::Nothing }
    }

    /// Opens table `at` unless it is open. `None` if there is no such table; then nothing is open.
    fn enter(&mut self, at: usize) -> Result<Option<&mut TableCursor>> {
        self.expects = Expects::Nothing;
        if self.at != at || self.open.is_none() {
            self.open = None;
            let Some(table) = self.tables.get(at) else { return Ok(None) };
            self.open = Some(table.file().cursor(table.clip(), self.access)?);
            self.at = at;
        }
        Ok(self.open.as_mut())
    }

    /// Stands nowhere, and keeps no block in memory. The open table stays open.
    pub fn rest(&mut self) {
        self.expects = Expects::Nothing;
        if let Some(open) = &mut self.open {
            open.rest();
        }
    }

    /// On to the next entry if the open table has no more.
    fn settle_forward(&mut self) -> Result<()> {
        while self.open.as_ref().is_some_and(|cursor| !cursor.valid()) {
            if let Some(cursor) = self.enter(self.at + 1)? {
                cursor.seek_first()?;
            }
        }
        Ok(())
    }

    /// Back to the entry before if the open table has no more.
    fn settle_backward(&mut self) -> Result<()> {
        while self.open.as_ref().is_some_and(|cursor| !cursor.valid()) {
            match self.at.checked_sub(1) {
                None => self.open = None,
                Some(before) => {
                    if let Some(cursor) = self.enter(before)? {
                        cursor.seek_last()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Expects an entry of table `at`, which is open or is opened when it is asked for.
    fn expect_in(&mut self, at: usize, expects: Expects) {
        match &mut self.open {
            Some(open) if self.at == at => open.leave(),
            open => *open = None,
        }
        (self.at, self.expects) = (at, expects);
    }

    #[inline]
    fn here(&self) -> &TableCursor {
        self.open.as_ref().expect("a valid cursor stands in an open table")
    }
}

impl Lending for RunCursor {
    type Lent = LentEntries;

    fn lend(&mut self, snapshot: Seqno, before: Option<&[u8]>, end: Option<&[u8]>) -> Option<LentEntries> {
        self.open.as_mut()?.lend(snapshot, before, end)
    }

    fn lend_back(&mut self, snapshot: Seqno, after: Option<&[u8]>, start: &[u8]) -> Option<LentEntries> {
        self.open.as_mut()?.lend_back(snapshot, after, start)
    }

    fn lend_on(&mut self, lent: &mut LentEntries, before: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        self.open.as_mut().is_some_and(|open| open.lend_on(lent, before, end))
    }

    fn take_back(&mut self, lent: LentEntries) {
        self.open.as_mut().expect("a cursor that has lent is not moved").take_back(lent);
    }
}

impl Cursor for RunCursor {
    fn seek_first(&mut self) -> Result<()> {
        if let Some(cursor) = self.enter(0)? {
            cursor.seek_first()?;
        }
        self.settle_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        if let Some(last) = self.tables.len().checked_sub(1)
            && let Some(cursor) = self.enter(last)?
        {
            cursor.seek_last()?;
        }
        self.settle_backward()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let first = first_reaching(&self.tables, key);
        if let Some(cursor) = self.enter(first)? {
            cursor.seek(key)?;
        }
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let behind = self.tables.partition_point(|table| table.clip().start[..] < *key);
        let Some(last) = behind.checked_sub(1) else {
            (self.open, self.expects) = (None, Expects::Nothing);
            return Ok(());
        };
        if let Some(cursor) = self.enter(last)? {
            cursor.seek_before(key)?;
        }
        self.settle_backward()
    }

    fn expect_first(&mut self) -> Result<()> {
        match self.tables.is_empty() {
            true => self.seek_first(),
            false => {
                self.expect_in(0, Expects::First);
                Ok(())
            }
        }
    }

    fn expect_last(&mut self) -> Result<()> {
        match &self.tables[..] {
            [.., last] if matches!(last.clip().end, KeyEnd::Included(_)) => {
                self.expect_in(self.tables.len() - 1, Expects::Last);
                Ok(())
            }
            _ => self.seek_last(),
        }
    }

    fn expect(&mut self, key: &[u8]) -> Result<()> {
        let first = first_reaching(&self.tables, key);
        match self.tables.get(first) {
            Some(table) if is_before(key, &table.clip().start) => {
                self.expect_in(first, Expects::First);
                Ok(())
            }
            _ => self.seek(key),
        }
    }

    fn expect_before(&mut self, key: &[u8]) -> Result<()> {
        let behind = self.tables.partition_point(|table| table.clip().start[..] < *key);
        match behind.checked_sub(1).map(|last| (last, &self.tables[last].clip().end)) {
            Some((last, KeyEnd::Included(end))) if end[..] < *key => {
                self.expect_in(last, Expects::Last);
                Ok(())
            }
            _ => self.seek_before(key),
        }
    }

    #[inline]
    fn expected(&self) -> Option<&[u8]> {
        match self.expects {
            Expects::Nothing => None,
            Expects::First => Some(&self.tables[self.at].clip().start),
            Expects::Last => self.tables[self.at].clip().end.key(),
        }
    }

    fn arrive(&mut self) -> Result<()> {
        let expects = self.expects;
        if expects == Expects::Nothing {
            return Ok(());
        }
        let cursor = self.enter(self.at)?.expect("a table that is expected is there");
        if expects == Expects::First {
            cursor.seek_first()?;
            self.settle_forward()
        } else {
            cursor.seek_last()?;
            self.settle_backward()
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let cursor = self.open.as_mut().expect("a valid cursor stands in an open table");
        cursor.next()?;
        if cursor.valid() { Ok(()) } else { self.settle_forward() }
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        let cursor = self.open.as_mut().expect("a valid cursor stands in an open table");
        cursor.next_key()?;
        // A key's versions are all in one table.
        if cursor.valid() { Ok(()) } else { self.settle_forward() }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let cursor = self.open.as_mut().expect("a valid cursor stands in an open table");
        cursor.prev()?;
        if cursor.valid() { Ok(()) } else { self.settle_backward() }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.open.as_ref().is_some_and(TableCursor::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.here().key()
    }

    #[inline]
    fn head(&self) -> u64 {
        debug_assert_eq!(self.here().head(), head(self.here().key()));
        self.here().head()
    }

    #[inline]
    fn seqno(&self) -> Seqno {
        self.here().seqno()
    }

    #[inline]
    fn kind(&self) -> Kind {
        self.here().kind()
    }

    #[inline]
    fn stamp(&self) -> (Seqno, Kind) {
        self.here().stamp()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.here().value()
    }

    #[inline]
    fn pin_value(&self) -> Slice {
        self.here().pin_value()
    }

    #[inline]
    fn doze(&mut self) -> Result<()> {
        self.open.as_mut().map_or(Ok(()), TableCursor::doze)
    }

    #[inline]
    fn wake(&mut self) -> Result<()> {
        self.open.as_mut().map_or(Ok(()), TableCursor::wake)
    }
}
