//! Iteration over one keyspace as of one moment, from both ends.
//!
//! Owns [`Iter`] and [`Keys`]. The two ends are two independent walks; each stops where the other has
//! been. Neither is begun before it is used.

use super::{Keyspace, Snapshot, tracing::Placed};
use crate::{
    canary::{Bug, planted},
    cursor::Cursor,
    error::Result,
    key::{KeyEnd, KeyRange},
    merge::visible::{Backward, Forward},
    pin::Slice,
    stats::{Counter, Latency, Sampled},
    tombstone::RangeTombstones,
    tree::{Source, View, Walk},
};
use std::{fmt, iter::FusedIterator, sync::Arc};

/// Entries after which an iterator says how many it came to: one that lives for long is seen meanwhile.
const ENTRIES_PER_COUNT: u64 = 4096;

/// What a transaction lays over the keyspace: its own writes, newer than everything.
pub(super) type Front = dyn Fn() -> (Box<dyn Cursor + Send>, Arc<RangeTombstones>) + Send;

/// Which end moved last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Neither,
    Front,
    Back,
}

/// Entries in key order; also from the back, and both at once until they meet. Sees the keyspace as it
/// was when the iterator was made. After an error it yields nothing more until the end that failed is
/// placed anew, the front by [`Iter::seek`], the back by [`Iter::seek_back`].
pub struct Iter {
    keyspace: Keyspace,
    snapshot: Snapshot,
    view: Arc<View>,
    overlay: Option<Box<Front>>,
    /// Whether the keyspace was there when the iterator was made. One that is dropped later stays until
    /// the iterator is gone.
    live: Result<()>,
    now_ms: u64,
    /// What is left between the two ends.
    range: KeyRange,
    /// The whole range asked for; seeks go back to it.
    whole: KeyRange,
    front: Option<Forward<Source>>,
    back: Option<Backward<Source>>,
    last: Last,
    /// The front (back) stands on the entry that it yielded last; else on one that it would yield next.
    front_yielded: bool,
    back_yielded: bool,
    /// The back has yielded entries down to `back_key`: the front stops before it.
    back_began: bool,
    back_key: Vec<u8>,
    /// The last move of the front (back) failed, and where it stands is not known.
    front_failed: bool,
    back_failed: bool,
    front_tally: Tally,
    back_tally: Tally,
}

/// The entries that an end came to.
#[derive(Default)]
struct Tally {
    /// Those that are not counted yet.
    uncounted: u64,
    /// Where it was placed, if it is recorded, and those that were counted since.
    recorded: Option<Box<(Placed, u64)>>,
}

impl Tally {
    #[inline]
    fn add(&mut self, keyspace: &Keyspace) {
        self.uncounted += 1;
        if self.uncounted == ENTRIES_PER_COUNT {
            self.count(keyspace);
        }
    }

    fn count(&mut self, keyspace: &Keyspace) {
        let entries = std::mem::take(&mut self.uncounted);
        keyspace.tree().context.stats.add(Counter::EntriesScanned, entries);
        if let Some(recorded) = &mut self.recorded {
            recorded.1 += entries;
        }
    }

    /// What was recorded of the end is all: it is placed anew, or dropped.
    fn leave(&mut self, keyspace: &Keyspace) {
        if self.uncounted > 0 {
            self.count(keyspace);
        }
        if let Some(recorded) = self.recorded.take() {
            keyspace.handle().trace_scan(keyspace.tree(), &recorded.0, recorded.1);
        }
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter({:?} {})", self.keyspace.name(), self.whole)
    }
}

impl Iter {
    pub(super) fn new(keyspace: &Keyspace, snapshot: Snapshot, range: KeyRange) -> Self {
        // The snapshot is registered, so a view taken after it still holds all that it sees.
        Iter {
            view: keyspace.tree().view_owned(),
            now_ms: keyspace.handle().now_ms(),
            keyspace: keyspace.clone(),
            live: keyspace.live().and_then(|()| snapshot.sees(keyspace)),
            snapshot,
            overlay: None,
            range: range.clone(),
            whole: range,
            front: None,
            back: None,
            last: Last::Neither,
            front_yielded: false,
            back_yielded: false,
            back_began: false,
            back_key: Vec::new(),
            front_failed: false,
            back_failed: false,
            front_tally: Tally::default(),
            back_tally: Tally::default(),
        }
    }

    pub(super) fn with_overlay(mut self, overlay: Box<Front>) -> Self {
        self.overlay = Some(overlay);
        self
    }

    /// Only the keys: values are not looked at.
    pub fn keys(self) -> Keys {
        Keys { entries: self }
    }

    fn walk(&self) -> Result<Walk> {
        self.live.clone()?;
        let walk = Walk::new(&self.view, &self.whole)?;
        Ok(match &self.overlay {
            Some(overlay) => {
                let (cursor, tombstones) = overlay();
                walk.with_front(cursor, tombstones)
            }
            None => walk,
        })
    }

    fn context(&self) -> crate::tree::ReadContext {
        crate::tree::ReadContext { now_ms: self.now_ms, ..self.keyspace.read_context(self.snapshot.seqno()) }
    }

    /// An end is about to be placed: the moment, if that is to be timed.
    fn begin_placing(&self) -> Option<u64> {
        let stats = &self.keyspace.tree().context.stats;
        let here = stats.here();
        let begin = || stats.begin(here, Sampled::Scan, self.keyspace.handle().clock());
        let begun = here.is_due(Sampled::Scan).then(begin);
        here.add(Counter::Scans, 1);
        begun
    }

    /// An end was placed where the range begins, or where it ends.
    fn end_placing(&mut self, begun: Option<u64>, at: Last) {
        let tally = if at == Last::Back { &mut self.back_tally } else { &mut self.front_tally };
        if tally.recorded.is_some() {
            tally.leave(&self.keyspace);
        }
        let Some(begun) = begun else { return };
        let clock = self.keyspace.handle().clock();
        self.keyspace.tree().context.stats.end(Latency::Scan, begun, clock);
        self.keyspace.handle().weigh_reads(self.keyspace.tree());
        if self.keyspace.handle().is_traced() {
            // What came before the placing is not of it.
            tally.leave(&self.keyspace);
            let placed = match at {
                Last::Back => Placed::Back(self.range.end.clone()),
                _ => Placed::Front(self.range.start.clone()),
            };
            tally.recorded = Some(Box::new((placed, 0)));
        }
    }

    /// Moves the front so that [`next`](Iterator::next) yields the first entry whose key is `>= key`. May
    /// go back over entries that were yielded; entries that the back has yielded stay out.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.range.start = self.whole.clamp_to_start(key).into();
        self.last = Last::Neither;
        self.front_yielded = false;
        // Kept, so that its sources are not opened anew; a failed move leaves none behind.
        let front = self.front.take();
        self.front_failed = true;
        if !self.range.is_empty() {
            let begun = self.begin_placing();
            let mut front = match front {
                Some(front) => front,
                None => self.walk()?.forward(self.context()),
            };
            front.seek(&self.range.start)?;
            self.front = Some(front);
            self.end_placing(begun, Last::Front);
        }
        self.front_failed = false;
        Ok(())
    }

    /// Moves the back so that [`next_back`](DoubleEndedIterator::next_back) yields the last entry whose
    /// key is `<= key`. May go back over entries that were yielded; entries that the front has yielded
    /// stay out.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.range.end = KeyEnd::Included(key.into()).min(self.whole.end.clone());
        self.last = Last::Neither;
        self.back = None;
        self.back_yielded = false;
        self.back_began = false;
        self.back_failed = false;
        Ok(())
    }

    /// Moves the front to its next entry, without allocating, and says whether there is one:
    /// [`Iter::key`] and [`Iter::value`] then show it.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        self.last = Last::Neither;
        if self.front_failed || self.back_failed {
            return Ok(false);
        }
        // Failed unless we come past every `?`: an error leaves the iterator fused.
        self.front_failed = !planted(Bug::IteratorNotFused);
        if self.front.is_none() && !self.range.is_empty() {
            let begun = self.begin_placing();
            let mut front = self.walk()?.forward(self.context());
            front.seek(&self.range.start)?;
            self.front = Some(front);
            self.end_placing(begun, Last::Front);
        }
        if let Some(front) = &mut self.front {
            if self.front_yielded {
                front.next()?;
            }
            self.front_yielded = front.valid()
                && (self.range.end.is_unbounded() || self.range.end.admits(front.key()))
                && !(self.back_began && front.key() >= &self.back_key[..]);
        }
        self.front_failed = false;
        if self.front_yielded {
            self.last = Last::Front;
            self.front_tally.add(&self.keyspace);
        }
        Ok(self.front_yielded)
    }

    /// Moves the back to the entry before it, without allocating, and says whether there is one:
    /// [`Iter::key`] and [`Iter::value`] then show it.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn advance_back(&mut self) -> Result<bool> {
        self.last = Last::Neither;
        if self.front_failed || self.back_failed {
            return Ok(false);
        }
        self.back_failed = true;
        match &mut self.back {
            Some(back) if self.back_yielded => back.prev()?,
            Some(_) => {}
            None if self.range.is_empty() => {}
            None => {
                let begun = self.begin_placing();
                let mut back = self.walk()?.backward(self.context());
                match &self.range.end {
                    KeyEnd::Unbounded => back.seek_last()?,
                    KeyEnd::Excluded(key) => back.seek_before(key)?,
                    KeyEnd::Included(key) => back.seek_before(&[key, [0].as_slice()].concat())?,
                }
                self.back = Some(back);
                self.end_placing(begun, Last::Back);
            }
        }
        self.back_failed = false;
        self.back_yielded = false;
        let Some(back) = &self.back else { return Ok(false) };
        if back.valid() && self.range.begins_by(back.key()) && !self.front_has_passed(back.key()) {
            self.back_key.clear();
            self.back_key.extend_from_slice(back.key());
            self.back_began = true;
            self.back_yielded = true;
            self.last = Last::Back;
            self.back_tally.add(&self.keyspace);
        }
        Ok(self.back_yielded)
    }

    /// Whether the front has yielded `key` or stands beyond it. It stands on the entry that it yielded
    /// last, or on the one that it looked at and would yield next, or it has passed them all.
    fn front_has_passed(&self, key: &[u8]) -> bool {
        match &self.front {
            None => false,
            Some(front) if !front.valid() => true,
            Some(front) if self.front_yielded => key <= front.key(),
            Some(front) => key < front.key(),
        }
    }

    /// Key of the entry that the last successful move came to; empty if there is none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match (self.last, &self.front, &self.back) {
            (Last::Front, Some(front), _) => front.key(),
            (Last::Back, _, Some(back)) => back.key(),
            _ => &[],
        }
    }

    /// Value of the entry that the last successful move came to; empty if there is none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match (self.last, &self.front, &self.back) {
            (Last::Front, Some(front), _) => front.value(),
            (Last::Back, _, Some(back)) => back.value(),
            _ => &[],
        }
    }

    fn pin_value(&self) -> Slice {
        match (self.last, &self.front, &self.back) {
            (Last::Front, Some(front), _) => front.pin_value(),
            (Last::Back, _, Some(back)) => back.pin_value(),
            _ => Slice::empty(),
        }
    }

    pub(super) fn item(&self, moved: Result<bool>) -> Option<Result<(Slice, Slice)>> {
        match moved {
            Ok(true) => Some(Ok((Slice::copy_from(self.key()), self.pin_value()))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.front_tally.leave(&self.keyspace);
        self.back_tally.leave(&self.keyspace);
    }
}

impl Iterator for Iter {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.advance();
        self.item(moved)
    }
}

impl DoubleEndedIterator for Iter {
    fn next_back(&mut self) -> Option<Self::Item> {
        let moved = self.advance_back();
        self.item(moved)
    }
}

impl FusedIterator for Iter {}

/// As [`Iter`], but yields keys only.
#[derive(Debug)]
pub struct Keys {
    entries: Iter,
}

impl Keys {
    /// As [`Iter::seek`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.entries.seek(key)
    }

    /// As [`Iter::seek_back`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: &[u8]) -> Result<()> {
        self.entries.seek_back(key)
    }

    fn item(&self, moved: Result<bool>) -> Option<Result<Slice>> {
        match moved {
            Ok(true) => Some(Ok(Slice::copy_from(self.entries.key()))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl Iterator for Keys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance();
        self.item(moved)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance_back();
        self.item(moved)
    }
}

impl FusedIterator for Keys {}
