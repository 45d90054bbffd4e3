//! What a walker has passed since it last stood on a pair: `Trail`; and `Remembers`, what keeps
//! gaps for it.
//!
//! It notes keys of a row that turn out to be gone. After 32 of them, or 2 beside a known gap, the
//! row is a gap worth knowing. `Trail` has the memory learn it, in pieces of 1,024 keys. `place`,
//! `note_up` and `note_down` say when the walker comes into a known gap, and where that ends.
//!
//! What must hold: only whole keys are noted, of which every entry that the reader sees was looked
//! at. A key that is gone by writes that lie in front is not noted and ends the row (`own`): others
//! see it. What a trail copies of long keys it lets go of when the row ends.
//!
//! Callers: `Forward` and `Backward`, one each; `tree::gaps` implements `Remembers`.

use super::gaps::{Eye, Gaps};
use crate::{
    ids::Seqno,
    key::{self, KeyEnd, KeyRange},
    sight::Reader,
};
use std::sync::Arc;

/// A row of so many keys that are gone is a gap worth knowing.
const ROW_MIN: u64 = 32;
/// The same where it goes on from a gap that is known: each walk that begins there passes them.
const MORE_MIN: u64 = 2;
/// So many keys are learned at once: while that happens, writers wait.
const PIECE_KEYS: u64 = 1024;
/// Every so many keys of a row it is asked whether a gap begins.
const KEYS_PER_LOOK: u64 = 16;
/// Where the walk is placed is noted if the key is not longer, unless a gap ends there: most walks
/// pass nothing.
const PLACE_BYTES_MAX: usize = 4 << 10;

/// What remembers gaps, and knows what was written.
pub trait Remembers: Send + Sync {
    /// The gaps.
    fn gaps(&self) -> &Gaps;
    /// The smallest number above `since` of what was inserted in `range` and may be seen; a smaller
    /// one where that is not known.
    fn seen_from(&self, range: &KeyRange, since: Seqno) -> Option<Seqno>;
}

/// The row of keys that a walker is passing.
#[derive(Default)]
pub(super) struct Trail {
    memory: Option<Arc<dyn Remembers>>,
    /// The sources from this age on are those that the gaps are of.
    age: usize,
    /// Keys passed that were not counted yet.
    passed: u64,
    /// Keys of this row that were noted and not learned.
    noted: u64,
    /// Keys that were passed before the row began.
    before: u64,
    /// Where what is noted begins and ends.
    from: Vec<u8>,
    to: Vec<u8>,
    /// `from` is known before the first key is noted: there the walk was placed, or a gap ends.
    is_placed: bool,
    /// What is noted adjoins a gap that is known.
    adjoins: bool,
    /// The walk goes down from the very end: behind `to` there is nothing.
    is_last: bool,
    /// A bound of a gap.
    pub(super) bound: Vec<u8>,
}

impl Trail {
    /// From now on this memory is asked; its gaps are those of the sources from `age` on.
    pub(super) fn remember(&mut self, memory: Arc<dyn Remembers>, age: usize) {
        (self.memory, self.age) = (Some(memory), age);
    }

    /// Forgets the memory and what was noted.
    pub(super) fn rest(&mut self) {
        (self.memory, self.age, self.passed) = (None, 0, 0);
        self.begin();
        [&mut self.from, &mut self.to, &mut self.bound].into_iter().for_each(key::let_go_of_long);
    }

    /// The sources that may be taken over gaps are of this age and older.
    pub(super) fn age(&self) -> usize {
        self.age
    }

    /// Keys passed since this was last asked.
    pub(super) fn take_passed(&mut self) -> u64 {
        std::mem::take(&mut self.passed)
    }

    #[inline]
    fn memory(&self) -> Option<&Arc<dyn Remembers>> {
        self.memory.as_ref()
    }

    fn eye(reader: &Reader) -> Eye {
        Eye { snapshot: reader.snapshot, now_ms: reader.now_ms }
    }

    /// The walker is about to be placed at `key`, walking upward. If a gap begins there, where it
    /// ends is in `bound`, and the walker is to be placed there.
    pub(super) fn place(&mut self, key: &[u8], reader: &Reader) -> bool {
        self.begin();
        let Some(memory) = &self.memory else { return false };
        let gaps = memory.gaps();
        self.adjoins = self.age == 0 && gaps.any() && gaps.end_into(key, Self::eye(reader), &mut self.bound);
        let from = if self.adjoins { &self.bound } else { key };
        self.is_placed = self.adjoins || from.len() <= PLACE_BYTES_MAX;
        if self.is_placed {
            self.from.clear();
            self.from.extend_from_slice(from);
        }
        self.adjoins
    }

    /// The same of a walk downward that is about to be placed below `key`.
    pub(super) fn place_below(&mut self, key: &[u8], reader: &Reader) -> bool {
        self.begin();
        let Some(memory) = &self.memory else { return false };
        let gaps = memory.gaps();
        self.adjoins =
            self.age == 0 && gaps.any() && gaps.start_into(key, Self::eye(reader), &mut self.bound);
        let to = if self.adjoins { &self.bound } else { key };
        self.is_placed = self.adjoins || to.len() <= PLACE_BYTES_MAX;
        if self.is_placed {
            self.to.clear();
            self.to.extend_from_slice(to);
        }
        self.adjoins
    }

    /// The same of a walk downward that is about to be placed at the very end.
    pub(super) fn place_last(&mut self, reader: &Reader) -> bool {
        self.begin();
        let Some(memory) = &self.memory else { return false };
        let gaps = memory.gaps();
        self.adjoins = self.age == 0 && gaps.any() && gaps.last_into(Self::eye(reader), &mut self.bound);
        // Where there is no gap, the first key that is noted is the end.
        (self.is_placed, self.is_last) = (self.adjoins, !self.adjoins);
        if self.adjoins {
            self.to.clone_from(&self.bound);
        }
        self.adjoins
    }

    /// A key is gone that the sources of the gaps may show: the row of those that they do not show
    /// ends before it.
    #[cold]
    pub(super) fn own(&mut self, passed: u64, reader: &Reader) {
        self.end_row(passed, reader);
        self.begin();
        self.before = passed;
    }

    /// The walker goes on from a pair, or nothing is known of where it is about to be placed.
    #[inline]
    pub(super) fn begin(&mut self) {
        (self.noted, self.is_placed, self.adjoins, self.is_last) = (0, false, false, false);
        self.before = 0;
    }

    /// Whether there is a memory, so that keys that are passed are to be noted. (Upward not the
    /// first of a row: most rows are of one. A walk down from the very end knows no key before it.)
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.memory.is_some()
    }

    fn looks(&self, passed: u64) -> bool {
        let is_time = passed == 2 || passed.is_multiple_of(KEYS_PER_LOOK);
        is_time && self.memory().is_some_and(|memory| memory.gaps().any())
    }

    /// Notes that `key`, the next of an upward row of `passed`, is gone. If it lies in a gap, that
    /// ends at `bound`, and the walker is to go on from there.
    pub(super) fn note_up(&mut self, key: &[u8], passed: u64, reader: &Reader) -> bool {
        if self.looks(passed)
            && let Some(memory) = &self.memory
            && memory.gaps().end_into(key, Self::eye(reader), &mut self.bound)
        {
            // From where the walk was placed to the gap there is nothing either. A walk with writes
            // in front was perhaps placed in the gap.
            let is_known = self.age > 0
                && self.is_placed
                && memory.gaps().end_into(&self.from, Self::eye(reader), &mut self.to)
                && self.to >= self.bound;
            if !is_known && (self.is_placed && !self.adjoins || self.noted >= MORE_MIN) {
                self.to.clear();
                self.to.extend_from_slice(key);
                self.noted = self.noted.max(1);
                self.learn(reader);
            }
            self.from.clone_from(&self.bound);
            (self.noted, self.is_placed, self.adjoins) = (0, true, true);
            return true;
        }
        if self.noted == 0 && !self.is_placed {
            self.from.clear();
            self.from.extend_from_slice(key);
            self.is_placed = true;
        }
        self.noted += 1;
        self.to.clear();
        self.to.extend_from_slice(key);
        self.to.push(0);
        if self.noted == PIECE_KEYS {
            self.learn(reader);
            self.from.clone_from(&self.to);
            (self.noted, self.adjoins) = (0, true);
        }
        false
    }

    /// Notes that `key`, the next of a downward row of `passed`, is gone. If it lies in a gap, that
    /// begins at `bound`, and the walker is to go on below.
    pub(super) fn note_down(&mut self, key: &[u8], passed: u64, reader: &Reader) -> bool {
        if self.noted == 0 && !self.is_placed {
            self.to.clear();
            self.to.extend_from_slice(key);
            self.to.push(0);
            self.is_placed = true;
        }
        self.noted += 1;
        self.from.clear();
        self.from.extend_from_slice(key);
        if self.looks(passed)
            && let Some(memory) = &self.memory
        {
            let (gaps, eye) = (memory.gaps(), Self::eye(reader));
            let holds_all = gaps.start_into(&self.to, eye, &mut self.bound) && self.bound <= self.from;
            if !holds_all && !gaps.start_into(key, eye, &mut self.bound) {
                return self.note_piece_down(reader);
            }
            if !holds_all || self.is_last {
                self.learn(reader);
            }
            self.to.clone_from(&self.bound);
            (self.noted, self.adjoins, self.is_last) = (0, true, false);
            return true;
        }
        self.note_piece_down(reader)
    }

    fn note_piece_down(&mut self, reader: &Reader) -> bool {
        if self.noted == PIECE_KEYS {
            self.learn(reader);
            self.to.clone_from(&self.from);
            (self.noted, self.adjoins, self.is_last) = (0, true, false);
        }
        false
    }

    /// The walk came to a pair, or to its end, after `passed` keys.
    #[inline]
    pub(super) fn end(&mut self, passed: u64, reader: &Reader) {
        self.passed += passed;
        if passed > 0 || self.is_placed {
            self.end_row(passed, reader);
        }
        self.begin();
    }

    /// The row ended.
    fn end_row(&mut self, passed: u64, reader: &Reader) {
        let row_min = if self.adjoins { MORE_MIN } else { ROW_MIN };
        if self.noted > 0 && passed - self.before >= row_min {
            self.learn(reader);
        }
        [&mut self.from, &mut self.to, &mut self.bound].into_iter().for_each(key::let_go_of_long);
    }

    /// Has the tree learn what is noted.
    #[cold]
    fn learn(&mut self, reader: &Reader) {
        let Some(memory) = &self.memory else { return };
        let (from, to) = (&self.from[..], &self.to[..]);
        let seen_from = || {
            let end = if self.is_last { KeyEnd::Unbounded } else { KeyEnd::Excluded(to.into()) };
            memory.seen_from(&KeyRange { start: from.into(), end }, reader.snapshot)
        };
        memory.gaps().learn((from, to), self.is_last, Self::eye(reader), self.noted, seen_from);
    }
}
