//! Walks over a whole view in key order: `Walk`, `Source`, `value_of` and `Tree::fold`.
//!
//! `Source` is one cursor of a walk: a memtable's, a run's, or one in front. `Walk::new` collects
//! the sources that may hold keys of a range, newest first, with the range tombstones of each.
//! `forward` and `backward` make a `merge::visible` walker of them, which yields what a reader
//! sees. `value_of` gives the value of the pair that a walker stands on. `Tree::fold` walks one
//! key's versions and folds its operands into a value.
//!
//! What must hold: sources stand in the order of their ages, each with its own tombstones. A
//! transaction's writes (`with_fronts`) stand before all.
//!
//! Callers: `db::iterator` with `db::scout`, and `db::transaction` (walks); `db::keyspace` (`fold`,
//! when a lookup meets an operand).

use super::{Tree, View};
use crate::{
    block::LentEntries,
    cursor::{Cursor, Lending},
    error::Result,
    ids::Seqno,
    key::{KeyRange, Kind, SharedRange},
    memtable::MemtableCursor,
    merge::visible::{self, Backward, Forward, Remembers},
    pin::Slice,
    sight::Reader,
    table::Access,
    tombstone::RangeTombstones,
    values::ValueFiles,
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
    Front(Box<dyn Cursor + Send + Sync>),
}

impl Source {
    pub(super) fn is_memtable(&self) -> bool {
        matches!(self, Source::Memtable(_))
    }

    pub(super) fn is_run(&self) -> bool {
        matches!(self, Source::Run(_))
    }

    /// Stands nowhere, and keeps no block in memory.
    pub(super) fn rest(&mut self) {
        if let Source::Run(cursor) = self {
            cursor.rest();
        }
    }
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
    fn expect_first(&mut self) -> Result<()> {
        each!(self, cursor => cursor.expect_first())
    }
    fn expect_last(&mut self) -> Result<()> {
        each!(self, cursor => cursor.expect_last())
    }
    fn expect(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.expect(key))
    }
    fn expect_before(&mut self, key: &[u8]) -> Result<()> {
        each!(self, cursor => cursor.expect_before(key))
    }
    #[inline]
    fn expected(&self) -> Option<&[u8]> {
        match self {
            Source::Run(cursor) => cursor.expected(),
            Source::Memtable(_) | Source::Front(_) => None,
        }
    }
    fn arrive(&mut self) -> Result<()> {
        match self {
            Source::Run(cursor) => cursor.arrive(),
            Source::Memtable(_) | Source::Front(_) => Ok(()),
        }
    }
}

impl Lending for Source {
    type Lent = LentEntries;

    fn lend(&mut self, snapshot: Seqno, before: Option<&[u8]>, end: Option<&[u8]>) -> Option<LentEntries> {
        match self {
            Source::Run(cursor) => cursor.lend(snapshot, before, end),
            Source::Memtable(_) | Source::Front(_) => None,
        }
    }

    fn lend_back(&mut self, snapshot: Seqno, after: Option<&[u8]>, start: &[u8]) -> Option<LentEntries> {
        match self {
            Source::Run(cursor) => cursor.lend_back(snapshot, after, start),
            Source::Memtable(_) | Source::Front(_) => None,
        }
    }

    fn lend_on(&mut self, lent: &mut LentEntries, before: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        match self {
            Source::Run(cursor) => cursor.lend_on(lent, before, end),
            Source::Memtable(_) | Source::Front(_) => false,
        }
    }

    fn take_back(&mut self, lent: LentEntries) {
        match self {
            Source::Run(cursor) => cursor.take_back(lent),
            Source::Memtable(_) | Source::Front(_) => unreachable!("this source lends nothing"),
        }
    }
}

/// The sources of one walk and their range tombstones, both from new to old.
#[derive(Default)]
pub struct Walk {
    sources: Vec<Source>,
    tombstones: Vec<Arc<RangeTombstones>>,
    range: SharedRange,
    /// What knows the gaps of all sources but what was added in front.
    memory: Option<Arc<dyn Remembers>>,
    in_front: usize,
}

impl Walk {
    /// Everything in `view` that may hold keys of `range`.
    pub fn new(view: &View, range: SharedRange) -> Result<Walk> {
        let mut walk = Walk::default();
        if !range.is_empty() {
            walk.add_sources(view, &range)?;
        }
        Ok(Walk { range, ..walk })
    }

    fn add_sources(&mut self, view: &View, range: &KeyRange) -> Result<()> {
        self.sources.reserve(1 + view.version.runs().len());
        for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
            if memtable.has_range_tombstones() {
                self.add_tombstones(&memtable.tombstones());
            }
            self.sources.push(Source::Memtable(memtable.cursor()));
        }
        for run in view.version.runs().iter().filter(|run| !run.overlapping(range).is_empty()) {
            self.add_tombstones(run.tombstones()?);
            self.sources.push(Source::Run(RunCursor::new(run.tables().clone(), Access::Cached(run.level()))));
        }
        Ok(())
    }

    /// Notes the tombstones of the source that comes next. None are noted as long as there are
    /// none: what the list lacks is empty.
    fn add_tombstones(&mut self, tombstones: &Arc<RangeTombstones>) {
        if !tombstones.is_empty() {
            self.tombstones.resize_with(self.sources.len(), Arc::default);
            self.tombstones.push(tombstones.clone());
        }
    }

    /// Adds sources with their range tombstones, each newer than all before it.
    pub fn with_fronts(mut self, fronts: Vec<(Box<dyn Cursor + Send + Sync>, Arc<RangeTombstones>)>) -> Walk {
        self.in_front += fronts.len();
        let (cursors, tombstones): (Vec<_>, Vec<_>) = fronts.into_iter().rev().unzip();
        self.sources.splice(0..0, cursors.into_iter().map(Source::Front));
        self.tombstones.splice(0..0, tombstones);
        self
    }

    /// Crosses gaps that `tree`, whose view it walks over, knows, and has it learn others.
    pub fn remembering(mut self, tree: &Arc<Tree>) -> Walk {
        self.memory = Some(tree.clone());
        self
    }

    /// Walks upwards.
    pub fn forward(mut self, reader: Reader) -> Forward<Source> {
        let (memory, in_front) = (self.memory.take(), self.in_front);
        let (sources, view) = self.into_parts(reader);
        let mut walker = Forward::new(sources, view);
        if let Some(memory) = memory {
            walker.remember(memory, in_front);
        }
        walker
    }

    /// Walks downwards.
    pub fn backward(mut self, reader: Reader) -> Backward<Source> {
        let (memory, in_front) = (self.memory.take(), self.in_front);
        let (sources, view) = self.into_parts(reader);
        let mut walker = Backward::new(sources, view);
        if let Some(memory) = memory {
            walker.remember(memory, in_front);
        }
        walker
    }

    fn into_parts(self, reader: Reader) -> (Vec<Source>, visible::Scope) {
        (self.sources, visible::Scope { reader, tombstones: self.tombstones, range: self.range })
    }
}

/// The value of the pair that `walker` stands on.
pub fn value_of(walker: &mut Forward<Source>, values: &ValueFiles) -> Result<Slice> {
    match walker.is_separated() {
        true => values.read_stored(walker.value(), walker.key()),
        false => Ok(walker.pin_value()),
    }
}

impl Tree {
    /// The value of `key`, folded from all its versions: what a lookup does when the newest is an
    /// operand.
    pub fn fold(&self, view: &View, key: &[u8], reader: Reader) -> Result<Option<Slice>> {
        if reader.operator.is_none() {
            return Err(super::read::no_operator(&self.name));
        }
        let mut walker = Walk::new(view, KeyRange::closed(key, key).into())?.forward(reader);
        walker.seek(key)?;
        if walker.valid() { value_of(&mut walker, &self.values).map(Some) } else { Ok(None) }
    }
}
