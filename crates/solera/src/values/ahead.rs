//! Reading values ahead: `ReadAhead`, windows on value files, of one end of a walk or one list.
//!
//! A walk, up or down, reads up to 64 sorted value files in stretches. Its first value is read
//! alone, and so is one that lies apart. A file's first stretch has 8 or 16 KiB, and each next one
//! is four times as long, up to 256 KiB. Gaps of up to 16 KiB are read over. Where a walk says what
//! comes (`expect`), and for a list (`read_listed`), just that is read. From a log, in the order of
//! the writes, a walk reads values one by one.
//! What must hold: each value is checked once, as `ValueFile::read` checks it. Values share the
//! memory of their stretch. What is read ahead stays with the walk. Beside it, a walk of a user's
//! has stretches stay in memory to which it comes again, if there is room (`values::stretch`). All
//! windows together have 2 MiB, what slices keep, and the stretch of each that it is in.
//! Callers: `db::iterator` and `db::scout` (scans), `db::keyspace` (`multi_get`),
//! `compaction::moves` (values that move).

use super::{
    Pointer, ValueFile, ValueFiles, record,
    stretch::{self, Visited},
};
use crate::{
    error::Result,
    ids::FileId,
    pin::{Piece, Slice},
};
use std::{ops::Range, sync::Arc};

/// Windows on so many files at once: where values have moved often, a key range is spread over many
/// sorted files.
const WINDOWS: usize = 64;
/// The second stretch of a window has so many bytes at least.
const STRETCH_BYTES_MIN: usize = 16 << 10;
/// The first one of a walk that has come to a second value: what lies behind the value it needs
/// anyway costs a device little.
const STRETCH_BYTES_FIRST: usize = 8 << 10;
/// Each stretch has so many times the bytes of the one before: a read costs a device as much as
/// many kilobytes.
const STRETCH_GROWTH: usize = 4;
/// Most bytes of a stretch. Larger ones leave the processor's cache before they are used up.
const STRETCH_BYTES_MAX: usize = 256 << 10;
/// Most bytes of all windows.
const BYTES_MAX: usize = 2 << 20;
/// A gap up to this many bytes is read over: it costs less than another read.
const GAP_BYTES_MAX: u64 = 16 << 10;
/// Parts of a file that the device was asked for and that were not read yet, at most.
const EXPECTED_MAX: usize = 16;
/// After so many values of a walk that lay one behind the other, it will also go on in a file that
/// it comes to.
const IN_ORDER_MIN: u32 = 4;
/// A read of up to so many bytes does not make much of a device: values that need such reads had
/// better lie together.
const SHORT_BYTES: usize = 32 << 10;

/// What was read ahead of one file.
#[derive(Debug)]
struct Window {
    id: FileId,
    file: Arc<ValueFile>,
    /// Memory of the last stretch, and which part of the file it holds.
    piece: Option<Piece>,
    held: Range<u64>,
    /// The record that was asked for last; none before the first.
    last: Option<Range<u64>>,
    /// The stretch that was asked for last; nothing if it did not stay in memory.
    kept: Option<(usize, Option<Visited>)>,
    /// Bytes of the last stretch.
    stretch: usize,
    /// When it was used last, in reads.
    used: u64,
    /// What the device was asked for and was not read yet.
    expected: Vec<Range<u64>>,
}

/// Windows on value files, for one end of a walk, or a list.
#[derive(Debug)]
pub struct ReadAhead {
    windows: Vec<Window>,
    /// The window that was used last.
    at: usize,
    reads: u64,
    /// Values in a row that lay one behind the other in their file.
    in_order: u32,
    was_short: bool,
    was_first: bool,
    /// Whether stretches of files may stay in memory.
    keeps: bool,
    /// Where the window on a file was last, by the file's number: most likely it is there.
    places: [u8; WINDOWS],
}

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead {
            windows: Vec::new(),
            at: 0,
            reads: 0,
            in_order: 0,
            was_short: false,
            was_first: false,
            keeps: false,
            places: [0; WINDOWS],
        }
    }
}

impl ReadAhead {
    /// For a walk of a user's, which may come again: what it reads may stay in memory.
    pub fn of_walk() -> ReadAhead {
        ReadAhead { keeps: true, ..ReadAhead::default() }
    }

    /// The value that `pointer` leads to, which belongs to `key`, for a walk that goes on from
    /// there.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub fn read(&mut self, files: &ValueFiles, pointer: &Pointer, key: &[u8]) -> Result<Slice> {
        if !pointer.sorted {
            let resident = files.resident(pointer, key);
            self.was_short = resident.is_none();
            self.was_first = self.was_short;
            return resident.map_or_else(|| files.read_file(pointer, key), Ok);
        }
        let record = record_of(pointer);
        self.enter(files, pointer);
        let window = &self.windows[self.at];
        let way = window.last.as_ref().map(|last| Way::between(last, &record));
        self.in_order = match way {
            Some(Way::Apart) => 0,
            Some(_) => self.in_order.saturating_add(1),
            None => self.in_order,
        };
        (self.was_short, self.was_first) = (false, false);
        if let Some(value) = self.in_memory(files, pointer, key) {
            self.windows[self.at].last = Some(record);
            return Ok(value);
        }
        if !self.windows[self.at].has(&record) {
            self.fetch_around(&record, way);
        }
        let window = &mut self.windows[self.at];
        window.last = Some(record.clone());
        window.value(pointer, key, &record)
    }

    /// Reads the part of the present window's file in which `record` is expected; else the stretch
    /// that begins there, if it reaches so far. `way` leads there from the record before.
    fn fetch_around(&mut self, record: &Range<u64>, way: Option<Way>) {
        let window = &mut self.windows[self.at];
        if let Some(part) = window.take_expected(record) {
            self.was_short = part.end - part.start <= SHORT_BYTES as u64;
            return self.fetch(part, true);
        }
        let wanted = match way {
            Some(Way::Apart) => 0,
            None if self.in_order < IN_ORDER_MIN && self.reads == 1 => 0,
            None if self.in_order < IN_ORDER_MIN => STRETCH_BYTES_FIRST,
            _ => (window.stretch * STRETCH_GROWTH).clamp(STRETCH_BYTES_MIN, self.stretch_max()),
        };
        let part = match way {
            Some(Way::Down) => record.end.saturating_sub(wanted as u64)..record.end,
            _ => record.start..record.start.saturating_add(wanted as u64),
        };
        self.windows[self.at].stretch = wanted;
        self.was_short = wanted <= SHORT_BYTES;
        self.was_first = wanted <= STRETCH_BYTES_FIRST;
        if part.start <= record.start && part.end >= record.end {
            self.fetch(part, false);
        }
    }

    /// The value that `pointer` leads to, into the present window's file, if its stretch is in
    /// memory or comes there.
    #[inline]
    fn in_memory(&mut self, files: &ValueFiles, pointer: &Pointer, key: &[u8]) -> Option<Slice> {
        let number = stretch::number_of(pointer).filter(|_| self.keeps)?;
        let window = &mut self.windows[self.at];
        // Once for a stretch, whether it is there or not.
        if !matches!(window.kept, Some((kept, _)) if kept == number) {
            window.kept = Some((number, files.stretch(&window.file, number).map(Visited::new)));
        }
        let (_, visited) = window.kept.as_mut()?;
        visited.as_mut()?.value(&window.file, pointer, key)
    }

    /// Drops a value that was read: to count references costs as much as the rest of a step.
    #[inline]
    pub fn take_back(&mut self, value: Slice) {
        let kept = self.windows.get_mut(self.at).and_then(|window| window.kept.as_mut());
        if let Some((_, Some(visited))) = kept {
            visited.take_back(value);
        }
    }

    /// Whether the value that was read last came by a read of its own, or by one of a few values.
    pub fn was_short(&self) -> bool {
        self.was_short
    }

    /// Whether it came by one of the first reads of its window: where all do, values lie scattered.
    pub fn was_first(&self) -> bool {
        self.was_first
    }

    /// The walk will soon come to the values to which the pointers of `list` lead, into sorted
    /// files: the device begins with them, many reads at once. What lies together is one read.
    pub fn expect(&mut self, files: &ValueFiles, list: &mut Vec<Pointer>) {
        list.sort_unstable_by_key(|pointer| (pointer.file, pointer.offset));
        let (at, mut rest) = (self.at, &list[..]);
        while let Some(first) = rest.first() {
            let (together, part) = together(rest.iter());
            rest = &rest[together..];
            self.enter(files, first);
            let window = &mut self.windows[self.at];
            if !window.has(&part) {
                window.file.will_need_part(&part);
                // A walk that finds what it comes to in memory takes none of them.
                if window.expected.len() == EXPECTED_MAX {
                    window.expected.remove(0);
                }
                window.expected.push(part);
            }
        }
        list.clear();
        self.at = at;
    }

    /// Reads the values to which the pointers of `list` lead, which ascends, and hands each to
    /// `each` with the number beside it. `key` says whose a number's value is. What lies together
    /// is read together, and nothing besides.
    ///
    /// # Errors
    /// As [`ValueFile::read`].
    pub fn read_listed<'k>(
        &mut self,
        files: &ValueFiles,
        list: &[(Pointer, usize)],
        key: impl Fn(usize) -> &'k [u8],
        mut each: impl FnMut(usize, Slice),
    ) -> Result<()> {
        let mut rest = list;
        while let Some(&(first, number)) = rest.first() {
            let (together, stretch) = together(rest.iter().map(|(pointer, _)| pointer));
            let (now, later) = rest.split_at(together);
            rest = later;
            if together == 1 || !first.sorted {
                // One that is read alone stays in memory, as of any lookup.
                each(number, files.read(&first, key(number))?);
                for &(pointer, number) in &now[1..] {
                    each(number, files.read(&pointer, key(number))?);
                }
                continue;
            }
            self.enter(files, &first);
            self.fetch(stretch, false);
            for (pointer, number) in now {
                let window = &self.windows[self.at];
                each(*number, window.value(pointer, key(*number), &record_of(pointer))?);
            }
        }
        Ok(())
    }

    /// Goes to the window on the file of `pointer`.
    fn enter(&mut self, files: &ValueFiles, pointer: &Pointer) {
        self.reads += 1;
        if self.windows.get(self.at).is_none_or(|window| window.id != pointer.file) {
            let is_there = |window: &Window| window.id == pointer.file;
            let place = pointer.file.0 as usize % WINDOWS;
            let likely = usize::from(self.places[place]);
            self.at = match self.windows.get(likely).is_some_and(is_there) {
                true => likely,
                false => {
                    let at = self.windows.iter().position(is_there);
                    at.unwrap_or_else(|| self.open(files, pointer))
                }
            };
            self.places[place] = self.at as u8;
        }
        self.windows[self.at].used = self.reads;
    }

    /// A new window, in the place of the one that was not used for longest if there are too many.
    fn open(&mut self, files: &ValueFiles, pointer: &Pointer) -> usize {
        let file = files.file(pointer.file, pointer.sorted);
        let (id, held) = (pointer.file, 0..0);
        let (last, kept, expected) = (None, None, Vec::new());
        let window = Window { id, file, piece: None, held, last, kept, stretch: 0, used: 0, expected };
        if self.windows.len() < WINDOWS {
            self.windows.push(window);
            return self.windows.len() - 1;
        }
        let oldest = self.oldest(|_| true).unwrap_or(0);
        self.windows[oldest] = window;
        oldest
    }

    /// The window that was not used for longest, of some.
    fn oldest(&self, of: impl Fn(&Window) -> bool) -> Option<usize> {
        (0..self.windows.len()).filter(|&at| of(&self.windows[at])).min_by_key(|&at| self.windows[at].used)
    }

    fn stretch_max(&self) -> usize {
        (BYTES_MAX / self.windows.len().max(1)).clamp(STRETCH_BYTES_MIN, STRETCH_BYTES_MAX)
    }

    /// Reads `part` of the present window's file, as far as it goes. What fails is told by the read
    /// of the value alone. `is_needed`: the device was asked for it.
    fn fetch(&mut self, part: Range<u64>, is_needed: bool) {
        let window = &mut self.windows[self.at];
        let alignment = window.file.alignment() as u64;
        let start = part.start - part.start % alignment;
        let Some(end) = part.end.checked_next_multiple_of(alignment) else { return };
        let bytes = (end - start) as usize;
        window.held = 0..0;
        if window.piece.as_mut().is_none_or(|piece| piece.room() < bytes || piece.unshared().is_none()) {
            window.piece = None;
            self.make_room(bytes);
            self.windows[self.at].piece = Some(Piece::new(bytes, alignment as usize));
        }
        let window = &mut self.windows[self.at];
        if let Some(piece) = window.piece.as_mut().and_then(Piece::unshared)
            && let Ok(read) = window.file.read_ahead(&mut piece[..bytes], start, is_needed)
        {
            window.held = start..start + read as u64;
        }
    }

    /// Windows that were not used for longest give their memory up, until there is room.
    fn make_room(&mut self, bytes: usize) {
        let room = |window: &Window| window.piece.as_ref().map_or(0, Piece::room);
        let mut taken: usize = self.windows.iter().map(room).sum();
        while taken + bytes > BYTES_MAX
            && let Some(oldest) = self.oldest(|window| window.piece.is_some())
        {
            let window = &mut self.windows[oldest];
            taken -= room(window);
            (window.piece, window.held) = (None, 0..0);
        }
    }
}

/// Where a record lies from the one before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
    Apart,
}

impl Way {
    fn between(last: &Range<u64>, next: &Range<u64>) -> Way {
        let is_near = |gap: Option<u64>| gap.is_some_and(|gap| gap <= GAP_BYTES_MAX);
        if is_near(next.start.checked_sub(last.end)) {
            Way::Up
        } else if is_near(last.start.checked_sub(next.end)) {
            Way::Down
        } else {
            Way::Apart
        }
    }
}

/// How many of ascending pointers, of which there is one, lead to one stretch from the first on,
/// and the stretch.
fn together<'p>(mut pointers: impl Iterator<Item = &'p Pointer>) -> (usize, Range<u64>) {
    let Some(first) = pointers.next() else { return (0, 0..0) };
    let mut stretch = record_of(first);
    let joins = |pointer: &&Pointer| {
        let record = record_of(pointer);
        let joins = pointer.file == first.file
            && record.start <= stretch.end.saturating_add(GAP_BYTES_MAX)
            && record.end.saturating_sub(stretch.start) <= STRETCH_BYTES_MAX as u64;
        if joins {
            stretch.end = stretch.end.max(record.end);
        }
        joins
    };
    let count = 1 + pointers.take_while(joins).count();
    (count, stretch)
}

/// The bytes of the file that hold the value's record.
fn record_of(pointer: &Pointer) -> Range<u64> {
    let len = record::CHECKSUM_BYTES as u64 + u64::from(pointer.len);
    pointer.offset..pointer.offset.saturating_add(len)
}

impl Window {
    fn has(&self, record: &Range<u64>) -> bool {
        self.held.start <= record.start && record.end <= self.held.end
    }

    /// The part with `record` that the device was asked for. It, and what lies before it, is not
    /// expected any more.
    fn take_expected(&mut self, record: &Range<u64>) -> Option<Range<u64>> {
        let has = |part: &Range<u64>| part.start <= record.start && record.end <= part.end;
        let at = self.expected.iter().position(has)?;
        self.expected.drain(..=at).next_back()
    }

    /// The value in `record`: out of what was read, or by a read of its own, which also says what
    /// is wrong.
    fn value(&self, pointer: &Pointer, key: &[u8], record: &Range<u64>) -> Result<Slice> {
        let Some(piece) = self.piece.as_ref().filter(|_| self.has(record)) else {
            return self.file.read(pointer, key);
        };
        let part = (record.start - self.held.start) as usize..(record.end - self.held.start) as usize;
        self.file.check(pointer, key, &piece.bytes()[part.clone()])?;
        Ok(piece.slice(part.start + record::CHECKSUM_BYTES..part.end))
    }
}
