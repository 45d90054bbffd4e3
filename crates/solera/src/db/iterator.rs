//! Iteration over one keyspace as of one moment, from both ends: `Iter`, and `Keys`, which looks at
//! no value.
//!
//! Each end is a walk of its own (`tree::Walk`), begun when it is first used. It stops where the
//! other has been. `advance` and `advance_back` move without allocating; `next` hands out slices.
//! `seek` and `seek_back` place an end anew. Values that lie apart are read when the end stands on
//! them, by `ReadAhead`; a `Scout` looks ahead for slow ones. Over large entries ends `pause`.
//!
//! What must hold: it sees the keyspace as it was when it was made, also what had expired. Without
//! seeks it yields each entry once. An error of one pair is told once, and the walk goes on. After
//! any other error it yields nothing until the end that failed is placed anew.
//!
//! Callers: applications and other crates, by `Keyspace::{iter, range, prefix}`, `Snapshot` and
//! `Db`; `db::transaction`, with its own writes laid over (`with_overlay`).

mod left;
mod pause;

use self::left::Left;
use super::{Keyspace, Snapshot, scout::Scout, writes::FrontSource};
use crate::{
    block::LentEntries,
    canary::{Bug, planted},
    cursor::Lent,
    engine::{snapshots::Moment, tracing::Placed},
    error::{Error, Result},
    ids::Seqno,
    key::{KeyEnd, SharedRange},
    merge::visible::{Backward, Forward},
    pin::{Copies, Slice},
    sight::Reader,
    stats::{Counter, Latency, Sampled},
    tree::{Source, Spare, View, Walk},
    values::{self, Pointer, ReadAhead},
};
use std::{fmt, iter::FusedIterator, sync::Arc};

/// Entries after which an iterator says how many it came to: one that lives for long is seen
/// meanwhile.
const ENTRIES_PER_COUNT: u64 = 4096;

/// What a transaction lays over the keyspace: its own writes, newer than everything.
pub(super) type Front = dyn Fn() -> Vec<FrontSource> + Send + Sync;

/// The moment that an iterator sees.
enum Seen {
    /// Its own, which it holds and gives back.
    Own(Moment),
    /// A snapshot's.
    Of(Snapshot),
}

impl Seen {
    #[inline]
    fn seqno(&self) -> Seqno {
        match self {
            Seen::Own(moment) => moment.seqno(),
            Seen::Of(snapshot) => snapshot.seqno(),
        }
    }

    /// By which time entries have expired for it; `None`: by the clock.
    fn now_ms(&self) -> Option<u64> {
        match self {
            Seen::Own(_) => None,
            Seen::Of(snapshot) => snapshot.now_ms(),
        }
    }
}

/// Which end moved last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Neither,
    Front,
    Back,
}

/// Entries in key order; also from the back, and both at once until they meet. Sees the keyspace as
/// it was when the iterator was made.
///
/// An error may be of one entry alone: its merge operator refuses or was not given, or its
/// separated value cannot be read. It is yielded in the place of the entry, and the walk goes on
/// behind it. After any other error the iterator yields nothing more until the end that failed is
/// placed anew, the front by [`Iter::seek`], the back by [`Iter::seek_back`].
pub struct Iter {
    keyspace: Keyspace,
    moment: Seen,
    /// Always there; taken out when the iterator is dropped.
    view: Option<Arc<View>>,
    /// Walkers over the view that no walk uses.
    spare: Option<Spare>,
    overlay: Option<Box<Front>>,
    /// Whether the keyspace was there when the iterator was made. One that is dropped later stays
    /// until the iterator is gone.
    live: Result<()>,
    now_ms: u64,
    /// What is left between the two ends.
    left: Left,
    front: Option<Box<Forward<Source>>>,
    back: Option<Box<Backward<Source>>>,
    last: Last,
    /// The front (back) stands on the entry that it yielded last; else on one that it would yield
    /// next.
    front_yielded: bool,
    back_yielded: bool,
    /// The back has yielded entries down to `back_key`: the front stops before it.
    back_began: bool,
    back_key: Vec<u8>,
    /// The back was moved or placed at any time: the front may have to stop before the whole range
    /// ends.
    back_was_placed: bool,
    /// The last move of the front (back) failed, and where it stands is not known.
    front_failed: bool,
    back_failed: bool,
    /// The front (back) has let go of its walker, and goes on where the range begins (ends) now.
    front_pauses: bool,
    back_pauses: bool,
    /// Why the value of the pair that the front (back) stands on cannot be told.
    front_refusal: Option<Error>,
    back_refusal: Option<Error>,
    front_tally: Tally,
    back_tally: Tally,
    /// Separated values are read.
    resolves: bool,
    front_ahead: ReadAhead,
    back_ahead: ReadAhead,
    scout: Scout,
    /// The value of the entry that the last move came to, if it lies apart.
    apart: Option<Slice>,
    /// Keys that are handed out.
    keys: Copies,
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
            keyspace.handle().tracing.scan(keyspace.tree(), &recorded.0, recorded.1);
        }
    }
}

impl fmt::Debug for Iter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Iter({:?} {})", self.keyspace.name(), *self.left.whole)
    }
}

impl Iter {
    /// Over `range` of `keyspace`, as `snapshot` sees it, or as of now.
    pub(super) fn new(keyspace: &Keyspace, snapshot: Option<Snapshot>, range: SharedRange) -> Self {
        let sees = snapshot.as_ref().map_or(Ok(()), |snapshot| snapshot.sees(keyspace));
        let own = || Seen::Own(keyspace.handle().store.snapshots.hold());
        // The moment is registered, so a view taken after it still holds all that it sees.
        let moment = snapshot.map_or_else(own, Seen::Of);
        let (view, spare) = keyspace.tree().view_to_walk();
        Iter {
            view: Some(view),
            spare,
            now_ms: moment.now_ms().unwrap_or_else(|| keyspace.handle().store.expiry.now_ms()),
            keyspace: keyspace.clone(),
            live: keyspace.live().and(sees),
            moment,
            overlay: None,
            left: Left::all_of(range),
            front: None,
            back: None,
            last: Last::Neither,
            front_yielded: false,
            back_yielded: false,
            back_began: false,
            back_key: Vec::new(),
            back_was_placed: false,
            front_failed: false,
            back_failed: false,
            front_pauses: false,
            back_pauses: false,
            front_refusal: None,
            back_refusal: None,
            front_tally: Tally::default(),
            back_tally: Tally::default(),
            resolves: true,
            front_ahead: ReadAhead::of_walk(),
            back_ahead: ReadAhead::of_walk(),
            scout: Scout::default(),
            apart: None,
            keys: Copies::default(),
        }
    }

    pub(super) fn with_overlay(mut self, overlay: Box<Front>) -> Self {
        self.overlay = Some(overlay);
        self
    }

    /// Only the keys: values are not looked at.
    pub fn keys(mut self) -> Keys {
        self.resolves = false;
        Keys { entries: self }
    }

    /// From now on only keys are asked for.
    pub(super) fn reads_no_values(&mut self) {
        self.resolves = false;
    }

    fn view(&self) -> &View {
        self.view.as_ref().expect("an iterator has its view until it is dropped")
    }

    fn walk(&self) -> Result<Walk> {
        self.live.clone()?;
        let walk = Walk::new(self.view(), self.left.whole.clone())?.remembering(self.keyspace.tree());
        Ok(match &self.overlay {
            Some(overlay) => walk.with_fronts(overlay()),
            None => walk,
        })
    }

    fn reader(&self) -> Reader {
        self.keyspace.reader(self.moment.seqno(), Some(self.now_ms))
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
        self.count_passed();
        let tally = if at == Last::Back { &mut self.back_tally } else { &mut self.front_tally };
        if tally.recorded.is_some() {
            tally.leave(&self.keyspace);
        }
        let Some(begun) = begun else { return };
        let clock = self.keyspace.handle().clock();
        self.keyspace.tree().context.stats.end(Latency::Scan, begun, clock);
        self.keyspace.handle().weigh_reads(self.keyspace.tree());
        if self.keyspace.handle().tracing.is_on() {
            // What came before the placing is not of it.
            tally.leave(&self.keyspace);
            let placed = match at {
                Last::Back => Placed::Back(self.left.end().clone()),
                _ => Placed::Front(self.left.start().into()),
            };
            tally.recorded = Some(Box::new((placed, 0)));
        }
    }

    /// Counts the keys that both ends have passed.
    fn count_passed(&mut self) {
        let front = self.front.as_mut().map_or(0, |front| front.take_passed());
        let passed = front + self.back.as_mut().map_or(0, |back| back.take_passed());
        if passed > 0 {
            self.keyspace.tree().context.stats.add(Counter::EntriesPassed, passed);
        }
    }

    /// Moves the front so that [`next`](Iterator::next) yields the first entry whose key is `>=
    /// key`. May go back over entries that were yielded; entries that the back has yielded stay
    /// out.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.seek_bytes(key.as_ref())
    }

    fn seek_bytes(&mut self, key: &[u8]) -> Result<()> {
        self.left.begin_at(key);
        self.last = Last::Neither;
        self.front_yielded = false;
        self.front_failed = true;
        if self.keyspace.is_closed() {
            self.front = None;
            return Err(Error::Closed);
        }
        self.front_pauses = false;
        if self.left.is_empty() {
            self.front = None;
        } else {
            self.place_front()?;
        }
        self.front_failed = false;
        if self
            .front
            .as_ref()
            .is_some_and(|front| front.valid() && pause::is_large(front.key(), front.value()))
        {
            self.let_go_of_front();
        }
        Ok(())
    }

    /// A walker for the front: one that another iterator has left, or a new one.
    fn new_front(&mut self) -> Result<Box<Forward<Source>>> {
        if self.overlay.is_none()
            && let Some(mut spare) = self.spare.take()
        {
            self.live.clone()?;
            let walker = spare.front(self.view(), self.reader(), &self.left.whole);
            self.spare = Some(spare);
            if let Some(mut walker) = walker {
                walker.remember(self.keyspace.tree().clone(), 0);
                return Ok(walker);
            }
        }
        Ok(Box::new(self.walk()?.forward(self.reader())))
    }

    /// The same for the back.
    fn new_back(&mut self) -> Result<Box<Backward<Source>>> {
        if self.overlay.is_none()
            && let Some(mut spare) = self.spare.take()
        {
            self.live.clone()?;
            let walker = spare.back(self.view(), self.reader(), &self.left.whole);
            self.spare = Some(spare);
            if let Some(mut walker) = walker {
                walker.remember(self.keyspace.tree().clone(), 0);
                return Ok(walker);
            }
        }
        Ok(Box::new(self.walk()?.backward(self.reader())))
    }

    /// Leaves the walkers of both ends, or those that were not used, for the next iterator.
    fn leave_walkers(&mut self) {
        if self.overlay.is_some() || self.front_failed || self.back_failed {
            return;
        }
        let Some(view) = self.view.take() else { return };
        let (front, back, unused) = (self.front.take(), self.back.take(), self.spare.take());
        if front.is_some() || back.is_some() || unused.is_some() {
            self.keyspace.tree().rest(view, front, back, unused);
        }
    }

    /// Moves the front to where the range begins now. It is kept, so that its sources are not
    /// opened anew; a failed move leaves none behind.
    fn place_front(&mut self) -> Result<()> {
        let begun = self.begin_placing();
        self.scout.leave(&self.keyspace.tree().lengths);
        self.put_front()?;
        self.end_placing(begun, Last::Front);
        Ok(())
    }

    /// As [`Iter::place_front`], of an end that only goes on: it was counted before.
    fn put_front(&mut self) -> Result<()> {
        if self.front.is_none() {
            self.front = Some(self.new_front()?);
        }
        let start = self.left.start();
        let placed = self.front.as_mut().map_or(Ok(None), |front| {
            let placed = front.seek(start);
            of_pair(placed, front.is_refused())
        });
        match placed {
            Ok(refusal) => self.front_refusal = refusal,
            Err(error) => {
                self.front = None;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Moves the back so that [`next_back`](DoubleEndedIterator::next_back) yields the last entry
    /// whose key is `<= key`. May go back over entries that were yielded; entries that the front
    /// has yielded stay out.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.left.end_at(KeyEnd::Included(key.as_ref().into()));
        self.back_was_placed = true;
        self.last = Last::Neither;
        self.count_passed();
        self.back = None;
        self.back_yielded = false;
        self.back_began = false;
        self.back_failed = false;
        self.back_pauses = false;
        Ok(())
    }

    /// Moves the front to its next entry, without allocating, and says whether there is one:
    /// [`Iter::key`] and [`Iter::value`] then show it.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        if self.advance_beside() { Ok(true) } else { self.advance_anywhere() }
    }

    /// [`Iter::advance`] to a pair that lies beside the present one, as nearly every pair does. If
    /// that is not certain, nothing happens.
    #[inline]
    fn advance_beside(&mut self) -> bool {
        // The front has moved last and has not failed. Lent entries lie in the whole range.
        if self.last != Last::Front || self.back_was_placed || self.keyspace.is_closed() {
            return false;
        }
        let is_moved = self.front.as_mut().is_some_and(|front| front.next_lent());
        if is_moved {
            debug_assert!(self.front_yielded && self.apart.is_none() && self.front_refusal.is_none());
            self.front_tally.add(&self.keyspace);
        }
        is_moved
    }

    fn advance_anywhere(&mut self) -> Result<bool> {
        self.last = Last::Neither;
        if self.front_failed || self.back_failed {
            return Ok(false);
        }
        if self.keyspace.is_closed() {
            self.front_failed = true;
            return Err(Error::Closed);
        }
        // Failed unless we come past every `?`: an error leaves the iterator fused.
        self.front_failed = !planted(Bug::IteratorNotFused);
        if self.front.is_none() && !self.left.is_empty() {
            match std::mem::take(&mut self.front_pauses) {
                true => self.put_front()?,
                false => self.place_front()?,
            }
        }
        if let Some(front) = &mut self.front {
            if self.front_yielded
                && let Err(error) = front.next()
            {
                self.front_refusal = of_pair(Err(error), front.is_refused())?;
            }
            let end = self.left.end();
            self.front_yielded = front.valid()
                && (end.is_unbounded() || end.admits(front.key()))
                && !(self.back_began && front.key() >= &self.back_key[..]);
        }
        if self.front_yielded {
            if let Err(error) = self.read_front() {
                self.front_failed = false;
                return Err(error);
            }
            self.last = Last::Front;
            self.front_tally.add(&self.keyspace);
        }
        self.front_failed = false;
        Ok(self.front_yielded)
    }

    /// Moves the back to the entry before it, without allocating, and says whether there is one:
    /// [`Iter::key`] and [`Iter::value`] then show it.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn advance_back(&mut self) -> Result<bool> {
        self.back_was_placed = true;
        self.last = Last::Neither;
        if self.front_failed || self.back_failed {
            return Ok(false);
        }
        self.back_failed = true;
        if self.keyspace.is_closed() {
            return Err(Error::Closed);
        }
        let is_empty = self.left.is_empty();
        match &mut self.back {
            Some(back) if self.back_yielded => {
                if let Err(error) = back.prev() {
                    self.back_refusal = of_pair(Err(error), back.is_refused())?;
                }
            }
            Some(_) => {}
            None if is_empty => {}
            None => {
                let pauses = std::mem::take(&mut self.back_pauses);
                let begun = if pauses { None } else { self.begin_placing() };
                let mut back = self.new_back()?;
                let placed = match self.left.end() {
                    KeyEnd::Unbounded => back.seek_last(),
                    KeyEnd::Excluded(key) => back.seek_before(key),
                    KeyEnd::Included(key) => back.seek_before(&[key, [0].as_slice()].concat()),
                };
                self.back_refusal = of_pair(placed, back.is_refused())?;
                self.back = Some(back);
                if !pauses {
                    self.end_placing(begun, Last::Back);
                }
            }
        }
        self.back_yielded = false;
        let Some(back) = &self.back else {
            self.back_failed = false;
            return Ok(false);
        };
        if back.valid() && self.left.begins_by(back.key()) && !self.front_has_passed(back.key()) {
            self.back_key.clear();
            self.back_key.extend_from_slice(back.key());
            self.back_began = true;
            self.back_yielded = true;
            if let Err(error) = self.read_back() {
                self.back_failed = false;
                return Err(error);
            }
            self.last = Last::Back;
            self.back_tally.add(&self.keyspace);
        }
        self.back_failed = false;
        Ok(self.back_yielded)
    }

    /// Reads the value that the front stands on, if it lies apart. An error is of this pair alone.
    #[inline]
    fn read_front(&mut self) -> Result<()> {
        if let Some(apart) = self.apart.take() {
            self.front_ahead.take_back(apart);
        }
        if self.front_refusal.is_some() {
            return refused(self.front_refusal.take(), self.resolves);
        }
        self.scout.follow(self.keyspace.tree(), &mut self.front_ahead);
        let Some(front) = self.front.as_ref().filter(|front| front.is_separated()) else { return Ok(()) };
        if self.resolves {
            let (clock, pointer) =
                (self.keyspace.handle().clock(), values::decode(front.value(), front.key())?);
            // In sorted files most steps read nothing: the clock would cost as much as they do.
            let is_likely = !pointer.sorted || self.front_ahead.was_first() || self.scout.is_at_first();
            let may_be_slow = self.scout.waits() && is_likely;
            let begun = may_be_slow.then(|| clock.monotonic_ns());
            self.apart = Some(read_apart(&mut self.front_ahead, &self.keyspace, front.key(), &pointer)?);
            if let Some(begun) = begun.filter(|_| self.front_ahead.was_first())
                && self.scout.timed(clock.monotonic_ns().saturating_sub(begun), &self.keyspace.tree().lengths)
                && self.overlay.is_none()
            {
                self.look_ahead();
            }
        }
        Ok(())
    }

    /// Has the device begin with values that the front will come to.
    #[cold]
    fn look_ahead(&mut self) {
        let Some(front) = &self.front else { return };
        let placed = Walk::new(self.view(), self.left.whole.clone()).and_then(|walk| {
            let mut walker = walk.forward(self.reader());
            walker.seek(front.key())?;
            Ok(walker)
        });
        self.scout.begin(placed, self.keyspace.tree(), &mut self.front_ahead);
    }

    /// Reads the value that the back stands on, if it lies apart. An error is of this pair alone.
    fn read_back(&mut self) -> Result<()> {
        self.apart = None;
        if self.back_refusal.is_some() {
            return refused(self.back_refusal.take(), self.resolves);
        }
        let Some(back) = self.back.as_ref().filter(|back| back.is_separated()) else { return Ok(()) };
        if self.resolves {
            let pointer = values::decode(back.value(), back.key())?;
            self.apart = Some(read_apart(&mut self.back_ahead, &self.keyspace, back.key(), &pointer)?);
        }
        Ok(())
    }

    /// Whether the front has yielded `key` or stands beyond it. It stands on the entry that it
    /// yielded last, or on the one that it looked at and would yield next, or it has passed them
    /// all.
    fn front_has_passed(&self, key: &[u8]) -> bool {
        match &self.front {
            None => false,
            Some(front) if !front.valid() => true,
            Some(front) if self.front_yielded => key <= front.key(),
            Some(front) => key < front.key(),
        }
    }

    /// The entry that the last successful move came to, if the front came to it and it is lent.
    #[inline]
    fn lent(&self) -> Option<&LentEntries> {
        if self.last == Last::Front { self.front.as_ref().and_then(|front| front.lent()) } else { None }
    }

    /// Key of the entry that the last successful move came to; empty if there is none. After
    /// [`next`](Iterator::next) it may be empty too, if the entry has 4 KiB or more.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.lent().map_or_else(|| self.key_anywhere(), Lent::key)
    }

    #[inline(never)]
    fn key_anywhere(&self) -> &[u8] {
        key_of(self.last, self.front.as_deref(), self.back.as_deref())
    }

    /// Value of the entry that the last successful move came to; empty if there is none, and as
    /// [`Iter::key`] says.
    #[inline]
    pub fn value(&self) -> &[u8] {
        // The value of a lent entry lies beside it.
        self.lent().map_or_else(|| self.value_anywhere(), Lent::value)
    }

    #[inline(never)]
    fn value_anywhere(&self) -> &[u8] {
        if let Some(apart) = &self.apart {
            return if self.last == Last::Neither { &[] } else { apart };
        }
        match (self.last, &self.front, &self.back) {
            (Last::Front, Some(front), _) if !front.is_separated() => front.value(),
            (Last::Back, _, Some(back)) if !back.is_separated() => back.value(),
            _ => &[],
        }
    }

    /// When the entry that the last successful move came to expires, in Unix milliseconds; `None`
    /// if it does not, or there is none. See [`Entry::expires_ms`](crate::Entry::expires_ms).
    pub fn expires_ms(&self) -> Option<u64> {
        match (self.last, &self.front, &self.back) {
            (Last::Front, Some(front), _) => front.expires_ms(),
            (Last::Back, _, Some(back)) => back.expires_ms(),
            _ => None,
        }
    }

    fn pin_value(&mut self) -> Slice {
        if let Some(apart) = &self.apart {
            return apart.clone();
        }
        match (self.last, &mut self.front, &mut self.back) {
            (Last::Front, Some(front), _) => front.pin_value(),
            (Last::Back, _, Some(back)) => back.pin_value(),
            _ => Slice::empty(),
        }
    }

    /// [`Iter::key`], handed out.
    fn copy_key(&mut self) -> Slice {
        self.keys.copy(key_of(self.last, self.front.as_deref(), self.back.as_deref()))
    }

    /// What a move came to. After a large entry the end that moved may let go of it.
    pub(super) fn item(&mut self, moved: Result<bool>) -> Option<Result<(Slice, Slice)>> {
        match moved {
            Ok(true) => {
                let (key, value) = (self.copy_key(), self.pin_value());
                if pause::is_large(&key, &value) {
                    self.let_go();
                }
                Some(Ok((key, value)))
            }
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// As [`Iter::item`], of the key alone.
    pub(super) fn key_item(&mut self, moved: Result<bool>) -> Option<Result<Slice>> {
        match moved {
            Ok(true) => {
                let key = self.copy_key();
                if pause::is_large(&key, &[]) {
                    self.let_go();
                }
                Some(Ok(key))
            }
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// The key that the end that moved last stands on; empty if none did.
#[inline]
fn key_of<'k>(
    last: Last,
    front: Option<&'k Forward<Source>>,
    back: Option<&'k Backward<Source>>,
) -> &'k [u8] {
    match (last, front, back) {
        (Last::Front, Some(front), _) => front.key(),
        (Last::Back, _, Some(back)) => back.key(),
        _ => &[],
    }
}

/// An end has moved: why the value of the pair that it `is_refused` on cannot be told. Any other
/// failure is one of the end.
fn of_pair(moved: Result<()>, is_refused: bool) -> Result<Option<Error>> {
    match moved {
        Err(error) if is_refused => Ok(Some(error)),
        moved => moved.map(|()| None),
    }
}

/// The value of a pair cannot be told. A caller that does not ask for values need not hear of
/// operands: there is one.
#[cold]
fn refused(why: Option<Error>, resolves: bool) -> Result<()> {
    match why {
        Some(Error::Merge { .. }) if !resolves => Ok(()),
        why => why.map_or(Ok(()), Err),
    }
}

/// The value to which the pointer of an entry of `key` leads.
#[inline(never)]
fn read_apart(ahead: &mut ReadAhead, keyspace: &Keyspace, key: &[u8], pointer: &Pointer) -> Result<Slice> {
    let tree = keyspace.tree();
    let value = ahead.read(&tree.values, pointer, key)?;
    if ahead.was_short() && tree.heat.note(key) {
        // Walks may have paid for having values in order.
        keyspace.handle().work.wake();
    }
    Ok(value)
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.count_passed();
        self.scout.leave(&self.keyspace.tree().lengths);
        self.front_tally.leave(&self.keyspace);
        self.back_tally.leave(&self.keyspace);
        self.leave_walkers();
        if let Seen::Own(moment) = self.moment {
            self.keyspace.handle().release_snapshot(moment);
        }
    }
}

impl Iterator for Iter {
    type Item = Result<(Slice, Slice)>;

    // In the caller, so that what it takes apart at once is never put together.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.advance_beside()
            && let Some(entry) = self.front.as_mut().and_then(|front| front.lent_mut())
        {
            return Some(Ok((self.keys.copy(entry.key()), entry.pin_value())));
        }
        self.next_anywhere()
    }
}

impl Iter {
    #[inline(never)]
    fn next_anywhere(&mut self) -> Option<Result<(Slice, Slice)>> {
        let moved = self.advance_anywhere();
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
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.entries.seek(key)
    }

    /// As [`Iter::seek_back`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn seek_back(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.entries.seek_back(key)
    }
}

impl Iterator for Keys {
    type Item = Result<Slice>;

    fn next(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance();
        self.entries.key_item(moved)
    }
}

impl DoubleEndedIterator for Keys {
    fn next_back(&mut self) -> Option<Self::Item> {
        let moved = self.entries.advance_back();
        self.entries.key_item(moved)
    }
}

impl FusedIterator for Keys {}
