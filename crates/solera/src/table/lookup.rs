//! Point lookups in an open table: `Table::lookup`, and its steps `may_hold`, `enter`, `finish`,
//! with `Entered`.
//!
//! `may_hold` asks filter and index, `enter` gets the block and finds the key's place in it,
//! `finish` hands out what was found. The steps stand apart so that many lookups can take each
//! together, with `prefetch_*` between them.
//!
//! What must hold: a block's own keys and fences have the last word, so a model may make a read
//! slower, never wrong. A lookup that the index sends astray walks to at most `WALK_MAX` (8)
//! neighbouring blocks. Then it halves all blocks by their keys. Both are counted. The filter is
//! believed; range tombstones are the caller's.
//!
//! Callers: `tree::read` (one key, and 32 together), `tree::mod` (`written_since`), `table::cursor`
//! (`admits` and `settle`, for seeks), `table::verify` (`fences`), `engine::census` and
//! `engine::resting` (`filter_admits`).

use super::{fences::Fences, reader::Table};
use crate::{
    block::{Block, BlockRef, RecordGrid},
    canary::{Bug, planted},
    cursor::{Hit, Probe},
    error::Result,
    index::{Index, Span},
    stats::{Here, LayoutCounter, LevelCounter},
};
use crossbeam_epoch::Guard;
use std::{ops::Deref, sync::atomic::Ordering};

/// A lookup walks to so many blocks beside the one that it was sent to at most, and then searches
/// by the keys alone. Windows of models within 2 blocks are no wider; those of one that heads tell
/// nothing are as wide as the table.
pub const WALK_MAX: usize = 8;

/// A block to look into, wherever it came from.
pub(super) enum Fetched<'g> {
    Cached(BlockRef<'g>),
    Loaded(Block),
}

impl Deref for Fetched<'_> {
    type Target = Block;
    #[inline]
    fn deref(&self) -> &Block {
        match self {
            Fetched::Cached(block) => block,
            Fetched::Loaded(block) => block,
        }
    }
}

/// A lookup half done: inside the block that its span begins with.
pub struct Entered<'g> {
    span: Span,
    block: Fetched<'g>,
    /// Where the version that counts stands, if the block has one.
    found: Option<usize>,
}

impl Entered<'_> {
    /// Asks for the entry that was found.
    #[inline]
    pub fn prefetch_entry(&self) {
        if let Some(rank) = self.found {
            self.block.prefetch_record(rank);
        }
    }
}

impl Table {
    /// Looks for the newest version of the probe's key that its snapshot sees, and hands it to `f`.
    /// Range tombstones are not asked. `level` is the one that the table is in, for which it is
    /// counted.
    ///
    /// Costs no allocation, lock or system call if the filter says no or the cache has the block.
    #[inline]
    pub fn lookup<R>(
        &self,
        level: u32,
        probe: &Probe<'_>,
        guard: &Guard,
        f: impl FnOnce(Hit<'_>) -> R,
    ) -> Result<Option<R>> {
        let here = self.stats.here();
        match self.ask(here, level, probe, true) {
            Some(span) => self.finish(level, self.enter(level, span, probe, guard)?, probe, guard, f),
            None => Ok(None),
        }
    }

    /// The first step of a lookup: the filter and the index. `None` if the table does not hold the
    /// key.
    #[inline]
    pub fn may_hold(&self, level: u32, probe: &Probe<'_>) -> Option<Span> {
        self.ask(self.stats.here(), level, probe, true)
    }

    /// Whether the filter says that the table may hold a key of this hash. For estimates: nothing
    /// is counted.
    pub fn filter_admits(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// [`Table::may_hold`], counted `here`, in the counts that the table was opened with. Where
    /// filters of the level mostly say yes the index goes first, while the filter's line comes from
    /// memory; elsewhere a no costs the index nothing (docs/decisions/0007 "Filter and index").
    /// Where memory `is_far`, the span says how far into its block the key is, so that
    /// [`Table::enter`] asks for the record early.
    #[inline(always)]
    pub fn ask(&self, here: Here<'_>, level: u32, probe: &Probe<'_>, is_far: bool) -> Option<Span> {
        let index = self.index.as_ref()?;
        let index_first = !self.filter.is_none() && here.filters_say_yes(level);
        if index_first {
            self.filter.prefetch(probe.hash);
        } else if !self.admits_by_filter(here, level, probe) {
            return None;
        }
        let span = match is_far {
            true => self.locate_by(index, probe.key),
            false => self.locate_unmeasured(probe.key),
        };
        if index_first && !self.admits_by_filter(here, level, probe) {
            return None;
        }
        here.add_of(self.layout.row(), LayoutCounter::Searches, 1);
        Some(span)
    }

    /// Whether the filter says that the table may hold the key, counted.
    #[inline(always)]
    fn admits_by_filter(&self, here: Here<'_>, level: u32, probe: &Probe<'_>) -> bool {
        if self.filter.is_none() {
            here.add_at(level, LevelCounter::Unfiltered, 1);
            return true;
        }
        let yes = self.filter.may_contain(probe.hash);
        here.filter_said(level, yes);
        yes
    }

    /// The second step: the block that the span begins with, and the key's place in it.
    #[inline(always)]
    pub fn enter<'g>(
        &self,
        level: u32,
        span: Span,
        probe: &Probe<'_>,
        guard: &'g Guard,
    ) -> Result<Entered<'g>> {
        let block = self.cached(level, span.begin, guard)?;
        block.prefetch();
        if let Some(within) = span.within() {
            let grid = RecordGrid::from_number(self.record_grid.load(Ordering::Relaxed));
            block.prefetch_records_within(grid, within);
        }
        if self.has_buckets.load(Ordering::Relaxed) {
            block.prefetch_buckets();
        }
        let found = block.lookup(probe, self.descriptor.elided_seqno);
        Ok(Entered { span, block, found })
    }

    /// [`Table::enter`], where `other` has entered a block of this table: if that is the same and
    /// had to be read, it is not read again, whether or not the cache took it.
    #[inline]
    pub fn enter_beside<'g>(
        &self,
        level: u32,
        span: Span,
        probe: &Probe<'_>,
        guard: &'g Guard,
        other: &Entered<'g>,
    ) -> Result<Entered<'g>> {
        match &other.block {
            Fetched::Loaded(block) if other.span.begin == span.begin => {
                let found = block.lookup(probe, self.descriptor.elided_seqno);
                Ok(Entered { span, block: Fetched::Loaded(block.clone()), found })
            }
            _ => self.enter(level, span, probe, guard),
        }
    }

    /// The last step: what was found is handed to `f`, or looked for in the blocks beside that one.
    #[inline]
    pub fn finish<R>(
        &self,
        level: u32,
        entered: Entered<'_>,
        probe: &Probe<'_>,
        guard: &Guard,
        f: impl FnOnce(Hit<'_>) -> R,
    ) -> Result<Option<R>> {
        match entered.found {
            // A version that stands first may have newer ones in the block before, which the fences
            // know.
            Some(rank) if rank > 0 => Ok(Some(f(entered.block.hit(rank, self.descriptor.elided_seqno)))),
            _ => self.finish_at_edge(level, entered, probe, guard, f),
        }
    }

    /// Asks for the line of the filter that [`Table::may_hold`] reads.
    #[inline]
    pub fn prefetch_filter(&self, hash: u64) {
        self.filter.prefetch(hash);
    }

    /// Asks for the cache's place of the block that the span begins with.
    #[inline]
    pub fn prefetch_slot(&self, span: Span) {
        self.slots.prefetch_slot(span.begin);
    }

    /// Asks for what [`Table::enter`] reads first, if it is in the cache.
    #[inline]
    pub fn prefetch_block(&self, span: Span, guard: &Guard) {
        self.slots.prefetch(span.begin, guard);
    }

    /// Goes on where a look into the block that a span begins with did not settle the matter: the
    /// key stands first, or is not there.
    fn finish_at_edge<'g, R>(
        &self,
        level: u32,
        entered: Entered<'g>,
        probe: &Probe<'_>,
        guard: &'g Guard,
        f: impl FnOnce(Hit<'_>) -> R,
    ) -> Result<Option<R>> {
        let Entered { span, mut block, mut found } = entered;
        let elided = self.descriptor.elided_seqno;
        let mut number = span.begin;
        let rank = found.unwrap_or_else(|| block.find(probe.key));
        if !planted(Bug::TrustIndexOnMiss) && !self.admits(number, &block, rank, probe.key)? {
            let fetch = |number| self.beyond(level, number, guard);
            (number, block, _) = self.settle(Some(level), probe.key, span, rank > 0, fetch)?;
            found = block.lookup(probe, elided);
        }
        loop {
            if let Some(rank) = found {
                return Ok(Some(f(block.hit(rank, elided))));
            }
            if !block.continues() || !block.ends_with(probe.key) {
                break;
            }
            number += 1;
            if number == self.blocks() {
                return Err(self.damage(number, "the last block says that another one follows"));
            }
            block = self.beyond(level, number, guard)?;
            found = block.lookup(probe, elided);
        }
        let rank = block.find(probe.key);
        if rank == block.len() || !block.key_eq(rank, probe.key) {
            let miss = match self.filter.is_none() {
                true => LevelCounter::UnfilteredMisses,
                false => LevelCounter::FilterFalsePositives,
            };
            self.stats.here().add_at(level, miss, 1);
        }
        Ok(None)
    }

    /// Whether `block`, where `key` has `rank`, is responsible for the key. Only a key that is not
    /// between two of the block's keys can belong elsewhere.
    #[inline]
    pub(super) fn admits(&self, number: usize, block: &Block, rank: usize, key: &[u8]) -> Result<bool> {
        if rank > 0 && rank < block.len() {
            return Ok(true);
        }
        let fences = self.fences(number, block)?;
        Ok(if rank == 0 {
            fences.admit_before_first(block, key)
        } else {
            fences.admit_after_last(block, key)
        })
    }

    /// The fences in the note of `block`.
    pub(super) fn fences(&self, number: usize, block: &Block) -> Result<Fences> {
        Fences::of(block).map_err(|error| self.damage(number, &format!("expected {}", error.what)))
    }

    /// Finds the block of `key`, which is not the one that the index's span begins with, but
    /// `is_behind` or before it: block by block through the span and what may lie beside it,
    /// [`WALK_MAX`] of them at most. If that is not enough, or the index was wrong, it searches
    /// without the index. Gives the rank in it too. Counted for `level`; a compaction's search for
    /// none.
    #[cold]
    pub(super) fn settle<'g>(
        &self,
        level: Option<u32>,
        key: &[u8],
        span: Span,
        mut is_behind: bool,
        mut fetch: impl FnMut(usize) -> Result<Fetched<'g>>,
    ) -> Result<(usize, Fetched<'g>, usize)> {
        let mut number = span.begin;
        let steps_max = span.last() - span.first() + self.index.as_ref().map_or(0, Index::reach);
        for _ in 0..steps_max.min(WALK_MAX) {
            let next = if is_behind { number + 1 } else { number.wrapping_sub(1) };
            if next >= self.blocks() {
                break;
            }
            if let Some(level) = level {
                self.count(level, LevelCounter::IndexSteps, LayoutCounter::IndexSteps);
            }
            number = next;
            let block = fetch(number)?;
            let rank = block.find(key);
            if self.admits(number, &block, rank, key)? {
                return Ok((number, block, rank));
            }
            is_behind = rank > 0;
        }
        if let Some(level) = level {
            self.count(level, LevelCounter::IndexFallbacks, LayoutCounter::IndexFallbacks);
        }
        self.search(key, fetch)
    }

    /// Finds the block of `key` by the keys alone, whatever the index and the fences say: a binary
    /// search for the first block of which the last key is not below `key`; the last block, if
    /// there is none. Gives the rank in it too.
    fn search<'g>(
        &self,
        key: &[u8],
        mut fetch: impl FnMut(usize) -> Result<Fetched<'g>>,
    ) -> Result<(usize, Fetched<'g>, usize)> {
        let (mut low, mut high) = (0, self.blocks() - 1);
        while low < high {
            let middle = low.midpoint(high);
            let block = fetch(middle)?;
            if block.find(key) == block.len() { low = middle + 1 } else { high = middle }
        }
        let block = fetch(low)?;
        let rank = block.find(key);
        Ok((low, block, rank))
    }

    /// Block `number`, for a lookup. Only what is not in the cache is counted: the first block of
    /// each search, and so what is, follows from the counts of searches.
    #[inline]
    fn cached<'g>(&self, level: u32, number: usize, guard: &'g Guard) -> Result<Fetched<'g>> {
        match self.slots.get(number, guard) {
            Some(block) => Ok(Fetched::Cached(block)),
            None => self.load(level, number, LevelCounter::LookupBlocksRead).map(Fetched::Loaded),
        }
    }

    /// [`Table::cached`], for a block that is not the first of its search.
    fn beyond<'g>(&self, level: u32, number: usize, guard: &'g Guard) -> Result<Fetched<'g>> {
        self.stats.here().add_at(level, LevelCounter::BlocksBeyond, 1);
        self.cached(level, number, guard)
    }
}
