//! Walks over a whole view in key order: which sources take part, newest first, and what hides what.

use super::{Tree, View};
use crate::{
    block::Stretch,
    cursor::Cursor,
    error::Result,
    ids::Seqno,
    key::{KeyRange, Kind},
    memtable::MemtableCursor,
    merge::{
        Lending,
        visible::{self, Backward, Forward},
    },
    operator::MergeOperator,
    pin::Slice,
    table::Access,
    tombstone::RangeTombstones,
    version::RunCursor,
};
use std::sync::Arc;

/// One sorted source of a walk.
pub enum Source {
    /// A memtable.
    Memtable(MemtableCursor),
    /// A run of tables.
    Run(RunCursor),
    /// What a room above adds in front: a transaction's own writes.
    Front(Box<dyn Cursor + Send>),
}

macro_rules! each {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
            Source::Front($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    fn seek_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_first())
    }
    fn seek_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.seek_last())
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek(key))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.seek_before(key))
    }
    #[inline]
    fn next(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next())
    }
    #[inline]
    fn next_key(&mut self) -> Result<()> {
        each!(self, cursor => cursor.next_key())
    }
    #[inline]
    fn prev(&mut self) -> Result<()> {
        each!(self, cursor => cursor.prev())
    }
    #[inline]
    fn valid(&self) -> bool {
        each!(self, cursor => cursor.valid())
    }
    #[inline]
    fn key(&self) -> &[u8] {
        each!(self, cursor => cursor.key())
    }
    #[inline]
    fn head(&self) -> u64 {
        each!(self, cursor => cursor.head())
    }
    #[inline]
    fn seqno(&self) -> Seqno {
        each!(self, cursor => cursor.seqno())
    }
    #[inline]
    fn kind(&self) -> Kind {
        each!(self, cursor => cursor.kind())
    }
    #[inline]
    fn stamp(&self) -> (Seqno, Kind) {
        each!(self, cursor => cursor.stamp())
    }
    #[inline]
    fn value(&self) -> &[u8] {
        each!(self, cursor => cursor.value())
    }
    fn pin_value(&self) -> Slice {
        each!(self, cursor => cursor.pin_value())
    }
}

impl Lending for Source {
    fn lend(&mut self, snapshot: Seqno, before: Option<&[u8]>, end: Option<&[u8]>) -> Option<Stretch> {
        match self {
            Source::Run(cursor) => cursor.lend(snapshot, before, end),
            Source::Memtable(cursor) => cursor.lend(snapshot, before, end),
            Source::Front(_) => None,
        }
    }

    fn lend_back(&mut self, snapshot: Seqno, after: Option<&[u8]>, start: &[u8]) -> Option<Stretch> {
        match self {
            Source::Run(cursor) => cursor.lend_back(snapshot, after, start),
            Source::Memtable(cursor) => cursor.lend_back(snapshot, after, start),
            Source::Front(_) => None,
        }
    }

    fn take_back(&mut self, stretch: Stretch) {
        match self {
            Source::Run(cursor) => cursor.take_back(stretch),
            Source::Memtable(cursor) => cursor.take_back(stretch),
            Source::Front(_) => unreachable!("this source lends nothing"),
        }
    }
}

/// What a walk sees and how it folds.
#[derive(Clone)]
pub struct ReadContext {
    /// Versions newer than this are not seen.
    pub snapshot: Seqno,
    /// Entries that expire at or before this moment are absent, in Unix milliseconds.
    pub now_ms: u64,
    /// The keyspace's merge operator.
    pub operator: Option<Arc<dyn MergeOperator>>,
}

/// The sources of one walk and their range tombstones, both in rank order.
pub struct Walk {
    sources: Vec<Source>,
    tombstones: Vec<Arc<RangeTombstones>>,
    range: KeyRange,
}

impl Walk {
    /// Everything in `view` that may hold keys of `range`.
    pub fn new(view: &View, range: &KeyRange) -> Result<Walk> {
        let mut walk = Walk { sources: Vec::new(), tombstones: Vec::new(), range: range.clone() };
        if range.is_empty() {
            return Ok(walk);
        }
        for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
            walk.sources.push(Source::Memtable(memtable.cursor()));
            walk.tombstones.push(memtable.tombstones());
        }
        for run in view.version.runs().iter().filter(|run| !run.overlapping(range).is_empty()) {
            walk.sources.push(Source::Run(RunCursor::new(run.tables().clone(), Access::Cached(run.level()))));
            walk.tombstones.push(run.tombstones()?.clone());
        }
        Ok(walk)
    }

    /// Adds a source newer than all others.
    pub fn with_front(mut self, cursor: Box<dyn Cursor + Send>, tombstones: Arc<RangeTombstones>) -> Walk {
        self.sources.insert(0, Source::Front(cursor));
        self.tombstones.insert(0, tombstones);
        self
    }

    /// Walks upwards.
    pub fn forward(self, context: ReadContext) -> Forward<Source> {
        let (sources, sight) = self.into_parts(context);
        Forward::new(sources, sight)
    }

    /// Walks downwards.
    pub fn backward(self, context: ReadContext) -> Backward<Source> {
        let (sources, sight) = self.into_parts(context);
        Backward::new(sources, sight)
    }

    fn into_parts(self, context: ReadContext) -> (Vec<Source>, visible::View) {
        let sight = visible::View {
            snapshot: context.snapshot,
            tombstones: self.tombstones,
            operator: context.operator,
            now_unix_ms: context.now_ms,
            range: self.range,
        };
        (self.sources, sight)
    }
}

impl Tree {
    /// The value of `key`, folded from all its versions: what a lookup does when the newest is an
    /// operand.
    pub fn fold(&self, view: &View, key: &[u8], context: ReadContext) -> Result<Option<Slice>> {
        if context.operator.is_none() {
            return Err(super::read::no_operator(&self.name));
        }
        let mut walker = Walk::new(view, &KeyRange::closed(key, key))?.forward(context);
        walker.seek(key)?;
        Ok(if walker.valid() { Some(walker.pin_value()) } else { None })
    }
}
