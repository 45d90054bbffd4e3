//! Looking ahead of an iterator for values that it will read one by one: `Scout`.
//!
//! A log is in the order of the writes, so a walk reads each value there by a read of its own.
//! Where values have moved often, a range is spread over dozens of sorted files. After four such
//! reads of 20 µs or more, or one where walks lately went far, the scout walks ahead of the
//! iterator. It has the device begin with what comes, so that many reads are under way together
//! (`ValueFiles::will_need`, `ReadAhead::expect`). It looks as far as such walks went.
//!
//! What must hold: it changes nothing of what the iterator yields. Where it fails it stops, and the
//! iterator comes to the same failure by itself.
//!
//! Caller: `db::iterator`, for the front of an `Iter` without a transaction's writes.

use crate::{
    error::Result,
    merge::visible::Forward,
    tree::{Lengths, Onward, Source, Tree},
    values::{self, Pointer, ReadAhead, ValueFiles},
};

/// A read that takes so long waits for a device.
const SLOW_NS: u64 = 20_000;
/// After so many of them the scout goes ahead.
const SLOW_READS: u32 = 4;
/// It looks as far as values cost so many bytes at first, and twice as many each time,
const LOOK_BYTES_FIRST: u64 = 256 << 10;
/// up to so many. Where values are scattered, each look costs a read of each file, so a few long
/// looks are cheaper than many short ones.
const LOOK_BYTES_MAX: u64 = 512 << 10;
/// What a value in a sorted file costs at least, in bytes: one that lies beside others.
const SORTED_BYTES_MIN: u64 = 2 << 10;
/// What a value in a log costs at least: a read of its own takes a device as long as many bytes.
const LOG_BYTES_MIN: u64 = 8 << 10;
/// Where it is known how far walks go, it looks so far, but at most as far as values cost so many
/// bytes: what was begun with has room in the windows of a walk, with the gaps that are read over.
const LOOK_BYTES_KNOWN: u64 = 1536 << 10;
/// It looks again when one part in so many of the entries that it looked at last is left. What was
/// begun with and is not come to is wasted, so that part is small; it is not nothing, so that the
/// device is busy meanwhile.
const LEFT_PARTS: usize = 4;

/// Walks ahead of the front of an iterator, if that is worth it.
#[derive(Default)]
pub(super) struct Scout {
    slow: u32,
    walker: Option<Box<Forward<Source>>>,
    /// Entries that the front has come to since it was placed.
    walked: usize,
    /// Entries between the front and the walker, and how many it looked at last.
    ahead: usize,
    step: usize,
    /// What values may cost at the next look.
    bytes_max: u64,
    /// There is nothing more ahead, or it cannot be read.
    is_done: bool,
}

impl Scout {
    /// Whether it does not look ahead and would, if reads took long.
    pub(super) fn waits(&self) -> bool {
        self.walker.is_none() && !self.is_done
    }

    /// Whether the front stands where it was placed.
    pub(super) fn is_at_first(&self) -> bool {
        self.walked == 1
    }

    /// A read of a value alone, or of a few, took so long. Whether it is time to go ahead: after
    /// the first one already, if walks here go so far that it is worth it.
    pub(super) fn timed(&mut self, took_ns: u64, lengths: &Lengths) -> bool {
        if took_ns < SLOW_NS {
            return false;
        }
        self.slow += 1;
        let goes_on = |onward| matches!(onward, Onward::Entries(entries) if entries >= SLOW_READS as usize);
        self.slow >= SLOW_READS || goes_on(lengths.onward(self.walked, 0))
    }

    /// Goes ahead with a walker that stands where the front stands.
    pub(super) fn begin(&mut self, walker: Result<Forward<Source>>, tree: &Tree, ahead: &mut ReadAhead) {
        (self.walker, self.ahead, self.bytes_max) = (walker.ok().map(Box::new), 0, LOOK_BYTES_FIRST);
        self.is_done = self.walker.is_none();
        self.look(tree, ahead);
    }

    /// The front has come to its next entry.
    #[inline]
    pub(super) fn follow(&mut self, tree: &Tree, ahead: &mut ReadAhead) {
        self.walked += 1;
        if let Some(walker) = &mut self.walker {
            if self.ahead > 0 {
                self.ahead -= 1;
            } else if walker.next().is_err() || !walker.valid() {
                (self.walker, self.is_done) = (None, true);
            }
            if self.ahead <= self.step / LEFT_PARTS {
                self.look(tree, ahead);
            }
        }
    }

    fn look(&mut self, tree: &Tree, ahead: &mut ReadAhead) {
        let (entries_max, bytes_max) = match tree.lengths.onward(self.walked, self.ahead) {
            Onward::Unknown => (usize::MAX, self.bytes_max),
            Onward::Entries(entries) => (entries, LOOK_BYTES_KNOWN),
        };
        let Some(walker) = &mut self.walker else { return };
        let (mut bytes, mut sorted) = (0, Vec::new());
        self.step = 0;
        while bytes < bytes_max && self.step < entries_max {
            if walker.next().is_err() || !walker.valid() {
                (self.walker, self.is_done) = (None, true);
                break;
            }
            self.step += 1;
            bytes += SORTED_BYTES_MIN;
            if walker.is_separated()
                && let Ok(pointer) = values::decode(walker.value(), walker.key())
            {
                let least = if pointer.sorted { SORTED_BYTES_MIN } else { LOG_BYTES_MIN };
                bytes += least.max(pointer.len.into()) - SORTED_BYTES_MIN;
                expect(pointer, walker.key(), &tree.values, &mut sorted);
            }
        }
        if entries_max == usize::MAX {
            self.bytes_max = (2 * self.bytes_max).min(LOOK_BYTES_MAX);
        }
        self.ahead += self.step;
        ahead.expect(&tree.values, &mut sorted);
    }

    /// The front is placed anew, or the walk ends.
    pub(super) fn leave(&mut self, lengths: &Lengths) {
        if self.slow > 0 {
            lengths.note(self.walked);
        }
        *self = Scout::default();
    }
}

/// The device begins with the value of `key` if it lies in a log; else its pointer goes to those
/// into sorted files.
fn expect(pointer: Pointer, key: &[u8], values: &ValueFiles, sorted: &mut Vec<Pointer>) {
    if !pointer.sorted {
        values.will_need(&pointer, key);
    } else if !values.is_in_memory(&pointer, key) {
        sorted.push(pointer);
    }
}
