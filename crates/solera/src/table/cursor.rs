//! Walking a table: `TableCursor`, a `Cursor` within a clip, and `Access`, how it gets at blocks.
//!
//! It holds one block at a time by a count, so that values can be pinned. It lends stretches of it
//! (`Lending`), upward also of cached ones behind it. Reads of users go through the cache. After 2
//! misses in a row they read ahead, in pieces that double from 16 KiB to 256 KiB. Compactions take
//! what is cached and read the rest, 128 KiB at once forward. They add nothing to the cache. They
//! have it `doze` at a large value.
//!
//! What must hold: entries outside the clip do not exist for it. A seek finds the right block
//! whatever the index says, by `table::lookup`. Where a user's read ahead fails, the block is read
//! alone.
//! Callers: `version::cursor` (runs, for walks and jobs), `version::pointers`, `engine::census`,
//! `engine::resting` and `inspect::objects`; the `evilmodel` of `solera-sim` and `fuzz`.

use super::{TableFile, lookup::Fetched, reader::Table};
use crate::{
    block::{Block, BlockBuilder, LastMile, LentEntries},
    cursor::{Cursor, Lending, VERSIONS_STEPPED_MAX},
    error::Result,
    ids::Seqno,
    index::Span,
    key::{self, KeyEnd, KeyRange, Kind},
    pin::Slice,
    stats::LevelCounter,
    vfs::read_exact_at,
};
use std::{ops::Range, sync::Arc};

/// A sequential cursor reads this many bytes at once, if it goes forward.
const READ_AHEAD_BYTES: u64 = 128 << 10;

/// With a small cache it reads as little as cursors through the cache do, but so much at least.
const READ_AHEAD_BYTES_MIN: u64 = 32 << 10;

/// A cursor through the cache reads at most so many bytes at once. Larger pieces leave the
/// processor's cache before their last block is taken.
const CACHED_AHEAD_BYTES_MAX: u64 = 256 << 10;
/// Such a cursor reads ahead after so many blocks in a row that were not cached: a short scan needs
/// no more.
const MISSES_ALONE: u32 = 2;
/// So many blocks that are cached may lie between two of them.
const CACHED_BETWEEN_MAX: usize = 2;
/// The first piece that it reads ahead has about so many bytes; each one after it twice as many.
const CACHED_AHEAD_BYTES_MIN: u64 = 16 << 10;

/// Room for a key, made when a cursor is: most keys need no more.
const KEY_BYTES_EXPECTED: usize = 96;
/// A value of so many bytes is let go of while a merge waits at it. It costs a second read.
const DOZE_BYTES_MIN: usize = 1 << 20;

/// A block, a key or a piece of so many bytes counts while a user's walk holds it.
const HELD_BYTES_MIN: usize = 16 << 10;

/// How a cursor gets at blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through the cache: for users' reads, which are counted for this level.
    Cached(u32),
    /// From the cache, which stays as it is, or from the file, ahead of need: for compaction, which
    /// reads every block once.
    Sequential,
    /// As `Sequential`. Where the cache is full, blocks leave it when the job comes to them: its
    /// outputs take their place.
    Passing,
    /// From the cache or the file, block by block; nothing is counted, and the cache stays as it
    /// is: for estimates, which look at a few keys.
    Sparse,
}

impl Access {
    /// The level that reads are counted for.
    fn level(self) -> Option<u32> {
        match self {
            Access::Cached(level) => Some(level),
            Access::Sequential | Access::Passing | Access::Sparse => None,
        }
    }
}

/// A position in a table. Entries outside its clip do not exist for it.
#[derive(Debug)]
pub struct TableCursor {
    source: Source,
    clip: Clip,
    place: Option<Place>,
    /// While the entries around the place are lent: the number of their block, and the ranks that
    /// the clip admits.
    lent: (usize, Range<usize>),
    /// The user key at `place`, kept for its memory.
    key: Vec<u8>,
    /// The key that the cursor leaves, kept for its memory.
    left: Vec<u8>,
    /// Bytes that the cache was told that this cursor holds.
    held: usize,
}

/// Where blocks come from.
#[derive(Debug)]
struct Source {
    file: Arc<TableFile>,
    access: Access,
    ahead: Ahead,
}

#[derive(Debug)]
struct Clip {
    start: Box<[u8]>,
    /// The first key behind the clip.
    end: Option<Box<[u8]>>,
}

#[derive(Debug)]
struct Place {
    block: Block,
    number: usize,
    rank: usize,
    /// The ranks of `block` that the clip admits.
    clip: Range<usize>,
    /// While it dozes, rank and clip in the block that it has let go of. `block` holds the entry
    /// without its value then.
    asleep: Option<Box<(usize, Range<usize>)>>,
}

/// Stored blocks that were read ahead.
#[derive(Debug, Default)]
struct Ahead {
    /// What was read, and perhaps older bytes behind it.
    bytes: Vec<u8>,
    offset: u64,
    numbers: Range<usize>,
    /// Of a walk that leaves the cache alone, the block behind the one that it came to last, in the
    /// cache or not.
    next: usize,
    misses: Misses,
}

/// Blocks in a row, or nearly so, that a cursor did not find in the cache.
#[derive(Debug, Default)]
struct Misses {
    /// The block that would be the next of them.
    next: usize,
    count: u32,
    /// Bytes to read at once for the next one.
    piece_bytes: u64,
}

impl Misses {
    /// Block `number` is not cached.
    fn add(&mut self, number: usize) {
        if self.count == 0 || !(self.next..=self.next + CACHED_BETWEEN_MAX).contains(&number) {
            *self = Misses { next: number, count: 0, piece_bytes: CACHED_AHEAD_BYTES_MIN };
        }
        self.next = number + 1;
        self.count += 1;
    }

    /// Whether so many were missed that the walk is likely to go on.
    fn are_steady(&self) -> bool {
        self.count > MISSES_ALONE
    }
}

impl Source {
    fn fetch(&mut self, number: usize) -> Result<Block> {
        let table = self.file.table()?;
        match self.access {
            Access::Cached(level) => match table.pinned(level, number) {
                Some(block) => Ok(block),
                None => self.ahead.missed(table, level, number),
            },
            Access::Sequential | Access::Passing => match table.peek_cached(number) {
                Some(block) => {
                    self.ahead.next = number + 1;
                    table.prefetch_next(number + 1);
                    if self.access == Access::Passing {
                        table.make_way(number, &block);
                    }
                    Ok(block)
                }
                None => self.ahead.block(table, number),
            },
            Access::Sparse => table.peek(number),
        }
    }

    /// The block where `target` belongs, its number, and the rank of the first entry not below
    /// `target`.
    fn find(&mut self, target: &[u8]) -> Result<Option<(Block, usize, usize)>> {
        let table = self.file.table()?;
        if table.blocks() == 0 {
            return Ok(None);
        }
        let span = table.locate_unmeasured(target);
        let block = self.fetch(span.begin)?;
        let rank = block.find(target);
        if self.file.table()?.admits(span.begin, &block, rank, target)? {
            return Ok(Some((block, span.begin, rank)));
        }
        self.find_beside(target, span, rank > 0).map(Some)
    }

    /// [`Source::find`] where the block is not the one that the index's span begins with.
    #[cold]
    fn find_beside(&mut self, target: &[u8], span: Span, is_behind: bool) -> Result<(Block, usize, usize)> {
        let file = self.file.clone();
        let level = self.access.level();
        let fetch = |number| self.fetch(number).map(Fetched::Loaded);
        let (number, found, rank) = file.table()?.settle(level, target, span, is_behind, fetch)?;
        Ok((Block::clone(&found), number, rank))
    }
}

impl Clip {
    /// What `clip` admits of a table whose keys lie in `all`. Mostly that is every key; then no
    /// block has to be searched for the ends.
    fn of(clip: &KeyRange, all: &KeyRange) -> Clip {
        if clip.covers(all) {
            return Clip { start: Box::default(), end: None };
        }
        let end = match &clip.end {
            KeyEnd::Included(last) => Some([last, &[0][..]].concat().into()),
            KeyEnd::Excluded(end) => Some(end.clone()),
            KeyEnd::Unbounded => None,
        };
        Clip { start: clip.start.clone(), end }
    }
}

impl TableFile {
    /// A cursor over the entries in `clip`. Opens the table.
    pub fn cursor(self: &Arc<Self>, clip: &KeyRange, access: Access) -> Result<TableCursor> {
        self.table()?;
        Ok(TableCursor::new(self.clone(), clip, access))
    }
}

impl TableCursor {
    /// A cursor over a table that is open.
    fn new(file: Arc<TableFile>, clip: &KeyRange, access: Access) -> TableCursor {
        TableCursor {
            clip: Clip::of(clip, &file.descriptor().range),
            source: Source { file, access, ahead: Ahead::default() },
            place: None,
            lent: (0, 0..0),
            key: Vec::with_capacity(KEY_BYTES_EXPECTED),
            left: Vec::new(),
            held: 0,
        }
    }

    /// Stands nowhere, and keeps no block in memory and no memory for long keys.
    pub fn rest(&mut self) {
        self.place = None;
        self.source.ahead = Ahead::default();
        key::let_go_of_long(&mut self.key);
        key::let_go_of_long(&mut self.left);
        self.weigh();
    }

    /// Stands nowhere, and goes on to read ahead where it did.
    pub fn leave(&mut self) {
        self.place = None;
        self.weigh();
    }

    /// Tells the cache what the cursor holds now, if that is much or was.
    #[inline]
    fn weigh(&mut self) {
        let block = self.place.as_ref().map_or(0, |place| place.block.memory_bytes());
        let (key, left, ahead) =
            (self.key.capacity(), self.left.capacity(), self.source.ahead.bytes.capacity());
        if (block | key | left | ahead | self.held) >= HELD_BYTES_MIN {
            let counts = |bytes: &usize| *bytes >= HELD_BYTES_MIN;
            self.note_held([block, key, left, ahead].into_iter().filter(counts).sum());
        }
    }

    /// The cursor holds so many bytes in large pieces. What jobs hold is not counted.
    #[cold]
    fn note_held(&mut self, bytes: usize) {
        if bytes != self.held
            && self.source.access.level().is_some()
            && let Some(table) = self.source.file.opened()
        {
            table.slots.note_held(self.held, bytes);
            self.held = bytes;
        }
    }

    /// Puts the cursor before the entry at `rank` of `block`; `rank` may be the length.
    fn enter(&mut self, block: Block, number: usize, rank: usize) {
        let Clip { start, end } = &self.clip;
        let low = if start.is_empty() { 0 } else { block.find(start) };
        let high = end.as_ref().map_or(block.len(), |end| block.find(end));
        self.place = Some(Place { block, number, rank, clip: low..high.max(low), asleep: None });
    }

    /// To the first entry of block `number`, or the first one behind it that the clip admits. The
    /// cursor is valid after it unless there is none.
    pub fn seek_block(&mut self, number: usize) -> Result<()> {
        self.place = None;
        let block = self.source.fetch(number)?;
        self.enter(block, number, 0);
        if let Some(place) = &mut self.place {
            place.rank = place.clip.start;
        }
        self.settle_forward()
    }

    /// To the first entry at or after the present place that the clip admits.
    fn settle_forward(&mut self) -> Result<()> {
        while let Some(place) = &self.place {
            if place.clip.contains(&place.rank) {
                place.block.key_into(place.rank, &mut self.key);
                self.weigh();
                return Ok(());
            }
            let next = place.number + 1;
            if place.clip.end < place.block.len() || next >= self.source.file.table()?.blocks() {
                break;
            }
            self.place = None;
            let block = self.source.fetch(next)?;
            self.enter(block, next, 0);
        }
        self.leave();
        Ok(())
    }

    /// To the last entry before the present place that the clip admits.
    fn settle_back(&mut self) -> Result<()> {
        while let Some(place) = &mut self.place {
            if place.rank > place.clip.start && place.rank <= place.clip.end {
                place.rank -= 1;
                place.block.key_into(place.rank, &mut self.key);
                self.weigh();
                return Ok(());
            }
            let Some(previous) = place.number.checked_sub(1).filter(|_| place.clip.start == 0) else { break };
            self.place = None;
            let block = self.source.fetch(previous)?;
            let len = block.len();
            self.enter(block, previous, len);
        }
        self.leave();
        Ok(())
    }

    /// [`Cursor::next_key`] where the next entry is one of the same key, or in the next block.
    fn pass_versions(&mut self) -> Result<()> {
        let place = self.place.as_mut().expect("the cursor is valid");
        let stepped = place.clip.end.min(place.rank + 1 + VERSIONS_STEPPED_MAX);
        for rank in place.rank + 2..stepped {
            if !place.block.same_key(rank, place.rank) {
                place.rank = rank;
                place.block.key_beside_into(rank, &mut self.key);
                return Ok(());
            }
        }
        self.leave_key(stepped)
    }

    /// To the first entry of a larger key, which is not among those before `rank`.
    fn leave_key(&mut self, rank: usize) -> Result<()> {
        let place = self.place.as_mut().expect("the cursor is valid");
        let is_last = rank == place.clip.end;
        if is_last && !place.block.continues() {
            // Whatever follows begins with another key.
            place.rank = rank;
            return self.settle_forward();
        }
        self.left.clone_from(&self.key);
        if is_last {
            // The next block usually begins with another key.
            place.rank = rank;
            self.settle_forward()?;
            if !self.valid() || self.key != self.left {
                return Ok(());
            }
        }
        // The smallest larger key.
        let mut above = std::mem::take(&mut self.left);
        above.push(0);
        let sought = self.seek(&above);
        key::let_go_of_long(&mut above);
        self.left = above;
        sought
    }

    /// Lends the entries in `ranks`, among them the one that it stands on, if that is worth it. The
    /// block goes with them: to count it twice would cost as much as some steps.
    fn lend_ranks(&mut self, ranks: Range<usize>) -> Option<LentEntries> {
        if !LentEntries::are_worth(&ranks) {
            return None;
        }
        let Place { block, number, rank, clip, .. } = self.place.take()?;
        self.lent = (number, clip);
        Some(block.into_entries(rank, ranks, std::mem::take(&mut self.key)))
    }

    #[inline]
    fn place(&self) -> &Place {
        self.place.as_ref().expect("the cursor is valid")
    }
}

impl Ahead {
    /// Block `number`, for a walk that leaves the cache alone.
    fn block(&mut self, table: &Table, number: usize) -> Result<Block> {
        if !self.numbers.contains(&number) {
            let forward = number == self.next || self.numbers.is_empty();
            let least = table.slots.ahead_bytes_min(READ_AHEAD_BYTES_MIN);
            let most = READ_AHEAD_BYTES.min(table.slots.ahead_bytes_max().max(least));
            let piece_bytes = if forward { most } else { 0 };
            let place = table.handles.range(number);
            if place.end - place.start > READ_AHEAD_BYTES {
                // One block larger than the buffer should be.
                return table.read(number);
            }
            self.fill(table, number, piece_bytes)?;
        }
        self.next = number + 1;
        self.take(table, number)
    }

    /// Block `number`, for a walk of `level`: it is not in the cache.
    #[cold]
    fn missed(&mut self, table: &Table, level: u32, number: usize) -> Result<Block> {
        self.misses.add(number);
        if !self.misses.are_steady() && !self.numbers.contains(&number) {
            return table.load(level, number, LevelCounter::ScanBlocksRead);
        }
        if table.slots.holds_too_much() && !self.numbers.contains(&number) {
            self.give_up();
            return table.load(level, number, LevelCounter::ScanBlocksRead);
        }
        let place = table.handles.range(number);
        // The buffer stays as long as the cursor: a block that is larger than it should be is read
        // by itself.
        let fits = place.end - place.start <= CACHED_AHEAD_BYTES_MAX;
        let has_it = self.numbers.contains(&number)
            || fits && {
                let piece_bytes = self.misses.piece_bytes;
                let most = CACHED_AHEAD_BYTES_MAX.min(table.slots.ahead_bytes_max());
                self.misses.piece_bytes = (2 * piece_bytes).min(CACHED_AHEAD_BYTES_MAX);
                // What is wrong behind the block is nothing to this one.
                self.fill(table, number, piece_bytes.min(most)).is_ok()
            };
        let block = if has_it { self.take(table, number)? } else { table.read(number)? };
        table.note_read(level, &block, LevelCounter::ScanBlocksRead);
        match table.is_direct {
            true => table.slots.insert_where_room(number, &block),
            false => table.slots.insert_when_again(number, &block),
        }
        table.whole.note_cached(&block, &table.slots);
        Ok(block)
    }

    /// Keeps nothing that was read ahead, and goes on as after a first miss.
    #[cold]
    fn give_up(&mut self) {
        (self.bytes, self.numbers) = (Vec::new(), 0..0);
        self.misses.piece_bytes = CACHED_AHEAD_BYTES_MIN;
    }

    /// Reads block `number` and those behind it, all together of `bytes_max` unless the first has
    /// more.
    fn fill(&mut self, table: &Table, number: usize, bytes_max: u64) -> Result<()> {
        let (last, place) = table.handles.stretch(number, bytes_max);
        let (start, bytes) = (place.start, (place.end - place.start) as usize);
        self.numbers = 0..0;
        if self.bytes.len() < bytes {
            self.bytes.resize(bytes, 0);
        }
        read_exact_at(&*table.file, &mut self.bytes[..bytes], start)?;
        table.count_bytes(bytes);
        (self.offset, self.numbers) = (start, number..last);
        Ok(())
    }

    /// Block `number`, which was read.
    fn take(&self, table: &Table, number: usize) -> Result<Block> {
        let place = table.handles.range(number);
        let stored = &self.bytes[(place.start - self.offset) as usize..(place.end - self.offset) as usize];
        Block::copy_from_stored(stored, table.binding, place.start, table.file.path())
    }
}

impl Drop for TableCursor {
    fn drop(&mut self) {
        if self.held > 0 {
            self.note_held(0);
        }
    }
}

impl Lending for TableCursor {
    type Lent = LentEntries;

    /// The entries from here on, to be walked alone: those of this block whose keys are below
    /// `before` and below `end`, if `snapshot` sees them. `None` if they are not worth it; then
    /// nothing has happened. Until it is taken back, or this cursor is positioned, it may not be
    /// used. Must be valid.
    fn lend(&mut self, snapshot: Seqno, before: Option<&[u8]>, end: Option<&[u8]>) -> Option<LentEntries> {
        let place = self.place.as_ref().expect("the cursor is valid");
        let Place { block, rank, clip, .. } = place;
        if !block.is_plain() || self.source.file.descriptor().elided_seqno > snapshot {
            return None;
        }
        let below = |key: Option<&[u8]>| key.map_or(usize::MAX, |key| block.find(key));
        let ranks = *rank..clip.end.min(below(before)).min(below(end));
        self.lend_ranks(ranks)
    }

    /// As `lend`, of a walk downward: the entries from here down whose keys are above `after` and
    /// not below `start`. The cursor stands on the oldest entry of its key.
    fn lend_back(&mut self, snapshot: Seqno, after: Option<&[u8]>, start: &[u8]) -> Option<LentEntries> {
        let place = self.place.as_ref().expect("the cursor is valid");
        let Place { block, rank, clip, .. } = place;
        if !block.is_plain() || self.source.file.descriptor().elided_seqno > snapshot {
            return None;
        }
        // Whether the block's first entry is the newest of its key, only the block before it knows.
        if *rank == 0 || block.same_key(rank - 1, *rank) {
            return None;
        }
        let mut from = clip.start.max(1);
        if !start.is_empty() {
            from = from.max(block.find(start));
        }
        if let Some(after) = after {
            from = from.max(block.find(after));
            while from <= *rank && block.key_eq(from, after) {
                from += 1;
            }
        }
        let ranks = from..rank + 1;
        self.lend_ranks(ranks)
    }

    /// Into the next block, if that is cached and small, as nearly all are: without what a step out
    /// of one block and into another takes otherwise.
    fn lend_on(&mut self, lent: &mut LentEntries, before: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        let number = self.lent.0 + 1;
        let Access::Cached(level) = self.source.access else { return false };
        let Some(table) = self.source.file.opened() else { return false };
        // What it holds was small, or is to be counted anew.
        if !lent.ends_block() || self.clip.end.is_some() || self.held > 0 || number >= table.blocks() {
            return false;
        }
        let mut ranks = 0..0;
        let takes = |block: &Block| {
            let below = |key: Option<&[u8]>| key.map_or(usize::MAX, |key| block.find(key));
            ranks.end = block.len().min(below(before)).min(below(end));
            block.is_plain() && block.memory_bytes() < HELD_BYTES_MIN && LentEntries::are_worth(&ranks)
        };
        let Some(block) = table.pinned_if(level, number, takes) else { return false };
        self.lent = (number, 0..block.len());
        lent.enter(block, ranks);
        true
    }

    /// Ends what was lent: the cursor stands where the stretch came to.
    fn take_back(&mut self, lent: LentEntries) {
        debug_assert!(self.place.is_none(), "a cursor that has lent is not moved");
        let (number, clip) = std::mem::take(&mut self.lent);
        let (block, rank, key) = lent.into_place();
        self.place = Some(Place { block, number, rank, clip, asleep: None });
        self.key = key;
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.seek(&[])
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place = None;
        let found = match &self.clip.end {
            Some(end) if *end <= self.clip.start => None,
            Some(end) => self.source.find(end)?,
            None => match self.source.file.table()?.blocks().checked_sub(1) {
                Some(last) => {
                    let block = self.source.fetch(last)?;
                    let len = block.len();
                    Some((block, last, len))
                }
                None => None,
            },
        };
        let Some((block, number, rank)) = found else { return Ok(()) };
        self.enter(block, number, rank);
        self.settle_back()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.place = None;
        let start = &self.clip.start[..];
        let target = if key::is_before(key, start) { start } else { key };
        if self.clip.end.as_ref().is_some_and(|end| target >= end) {
            return Ok(());
        }
        let Some((block, number, rank)) = self.source.find(target)? else { return Ok(()) };
        self.enter(block, number, rank);
        self.settle_forward()
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.place = None;
        let target = self.clip.end.as_ref().map_or(key, |end| key.min(end));
        if !key::is_before(&self.clip.start, target) {
            return Ok(());
        }
        let Some((block, number, rank)) = self.source.find(target)? else { return Ok(()) };
        self.enter(block, number, rank);
        self.settle_back()
    }

    fn next(&mut self) -> Result<()> {
        let place = self.place.as_mut().expect("the cursor is valid");
        place.rank += 1;
        if place.rank < place.clip.end {
            place.block.key_beside_into(place.rank, &mut self.key);
            return Ok(());
        }
        self.settle_forward()
    }

    #[inline]
    fn next_key(&mut self) -> Result<()> {
        let place = self.place.as_mut().expect("the cursor is valid");
        let next = place.rank + 1;
        if next < place.clip.end && !place.block.same_key(next, place.rank) {
            place.rank = next;
            place.block.key_beside_into(next, &mut self.key);
            return Ok(());
        }
        self.pass_versions()
    }

    fn prev(&mut self) -> Result<()> {
        let place = self.place.as_mut().expect("the cursor is valid");
        if place.rank > place.clip.start {
            place.rank -= 1;
            place.block.key_beside_into(place.rank, &mut self.key);
            return Ok(());
        }
        self.settle_back()
    }

    #[inline]
    fn valid(&self) -> bool {
        self.place.is_some()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        debug_assert!(self.valid());
        &self.key
    }

    #[inline]
    fn head(&self) -> u64 {
        debug_assert!(self.valid());
        key::head(&self.key)
    }

    fn seqno(&self) -> Seqno {
        let place = self.place();
        place.block.seqno(place.rank, self.source.file.descriptor().elided_seqno)
    }

    fn kind(&self) -> Kind {
        let place = self.place();
        place.block.kind(place.rank)
    }

    #[inline]
    fn stamp(&self) -> (Seqno, Kind) {
        let place = self.place();
        place.block.stamp(place.rank, self.source.file.descriptor().elided_seqno)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        let place = self.place();
        debug_assert!(place.asleep.is_none(), "a cursor that dozes has no value");
        place.block.value(place.rank)
    }

    fn pin_value(&self) -> Slice {
        let place = self.place();
        place.block.pin_value(place.rank)
    }

    /// Nearly all blocks are too small for that.
    #[inline]
    fn doze(&mut self) -> Result<()> {
        if self.place.as_ref().is_some_and(|place| place.block.memory_bytes() >= DOZE_BYTES_MIN) {
            self.let_go();
        }
        Ok(())
    }

    #[inline]
    fn wake(&mut self) -> Result<()> {
        if self.place.as_ref().is_some_and(|place| place.asleep.is_some()) {
            self.fetch_again()
        } else {
            Ok(())
        }
    }
}

impl TableCursor {
    /// [`Cursor::doze`] in a large block.
    #[cold]
    fn let_go(&mut self) {
        let elided = self.source.file.descriptor().elided_seqno;
        let Some(place) = &mut self.place else { return };
        if place.asleep.is_some() || place.block.value(place.rank).len() < DOZE_BYTES_MIN {
            return;
        }
        let (seqno, kind) = place.block.stamp(place.rank, elided);
        let mut alone = BlockBuilder::new(0, LastMile::Halving, 0);
        let takes_it = alone.try_add(&self.key, seqno, kind, &[]);
        assert!(takes_it, "an empty block takes any entry");
        let mut payload = Vec::new();
        alone.finish(&[], &mut payload);
        place.block = Block::from_payload(&payload).expect("a payload as the builder makes it");
        let clip = std::mem::replace(&mut place.clip, 0..1);
        place.asleep = Some(Box::new((std::mem::take(&mut place.rank), clip)));
    }

    /// [`Cursor::wake`] of a cursor that dozes.
    #[cold]
    fn fetch_again(&mut self) -> Result<()> {
        let Some(place) = &mut self.place else { return Ok(()) };
        let Some(asleep) = place.asleep.take() else { return Ok(()) };
        let number = place.number;
        // An error leaves the cursor not valid.
        self.place = None;
        let block = self.source.fetch(number)?;
        let (rank, clip) = *asleep;
        self.place = Some(Place { block, number, rank, clip, asleep: None });
        Ok(())
    }
}
