//! Visible pairs in ascending order: `Forward`, which walks a `Merge` upward for one reader.
//!
//! It stops at what the reader sees of a key: a value, a pointer to one, or operands folded into
//! one. It steps over what is newer than the snapshot, deleted or expired, and seeks past covers of
//! range tombstones. It crosses gaps that others have learned, and takes entries that a source
//! lends without asking the merge for each.
//!
//! What must hold: it stands on each visible key once, in order. After an error of one pair alone
//! it stands there (`is_refused`) and can go on; after another error it must be positioned anew.
//!
//! Caller: `tree::scan` (`Walk::forward`, `Tree::fold`), for `db::iterator`, `db::scout`,
//! `db::transaction` and lookups of operands.

use super::{COVERED_STEPPED_MAX, Remembers, STEADY_PAIRS, Scope, Scratch, Shown, Sight, trail::Trail};
use crate::{
    cursor::{Cursor, Lending, Lent, VERSIONS_STEPPED_MAX},
    error::Result,
    key::{KeyEnd, SharedRange},
    merge::Merge,
    pin::Slice,
    sight::{Reader, expires_ms},
};
use std::sync::Arc;

/// Walks the visible pairs of a scope upward. After an error it is not valid until positioned
/// again, unless the error is of one pair alone: then it [stands](Forward::is_refused) there.
pub struct Forward<C: Lending> {
    merge: Merge<C>,
    sight: Sight,
    at: At<C::Lent>,
    /// How many pairs in a row the source of this age had.
    steady: (usize, usize),
    /// Its key is the one that the walker stands on after a merge.
    scratch: Scratch,
    /// The head of the last entry that the snapshot did not see.
    head: u64,
    trail: Trail,
}

enum At<L> {
    Nowhere,
    /// On the merge's present entry, whose value begins after so many bytes.
    Entry(usize),
    /// The same, of an entry that has a pointer to its value there.
    Separated(usize),
    /// On the key and the merged value in the scratch.
    Merged,
    /// On the key in the scratch, whose value cannot be told.
    Refused,
    /// On an entry that the merge has lent.
    Lent(L),
}

impl<C: Lending> Forward<C> {
    /// A walker over `sources`, in the order of their ages. Not valid until positioned.
    pub fn new(sources: Vec<C>, scope: Scope) -> Self {
        Forward {
            merge: Merge::new(sources),
            sight: Sight::new(scope),
            at: At::Nowhere,
            steady: (0, 0),
            scratch: Scratch::default(),
            head: 0,
            trail: Trail::default(),
        }
    }

    /// Crosses the gaps that `memory` knows, and has it learn others. They are gaps of the sources
    /// of this age on.
    pub fn remember(&mut self, memory: Arc<dyn Remembers>, age: usize) {
        self.trail.remember(memory, age);
    }

    /// The sources, in the order of their ages.
    pub fn sources(&self) -> &[C] {
        self.merge.sources()
    }

    /// No reader walks by it any more: it forgets reader, range and memory, and has each source
    /// stand nowhere.
    pub fn rest(&mut self, rest: impl FnMut(&mut C)) {
        self.leave_for_good();
        self.merge.rest(rest);
        self.trail.rest();
        self.scratch = Scratch::default();
        self.steady = (0, 0);
        self.serve(Reader { snapshot: 0, now_ms: 0, operator: None, values: None }, SharedRange::default());
    }

    /// Walks for this reader, in this range, from now on. Not valid until positioned.
    pub fn serve(&mut self, reader: Reader, range: SharedRange) {
        (self.sight.scope.reader, self.sight.scope.range) = (reader, range);
    }

    /// Keys that were passed because they are gone, since this was last asked.
    pub fn take_passed(&mut self) -> u64 {
        self.trail.take_passed()
    }

    /// To the first pair.
    pub fn seek_first(&mut self) -> Result<()> {
        self.leave_for_good();
        let Scope { range, reader, .. } = &self.sight.scope;
        match &range.start[..] {
            start if self.trail.place(start, reader) => self.merge.seek(&self.trail.bound)?,
            [] => self.merge.seek_first()?,
            start => self.merge.seek(start)?,
        }
        self.settle()
    }

    /// To the first pair whose key is `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.leave_for_good();
        let Scope { range, reader, .. } = &self.sight.scope;
        let key = range.clamp_to_start(key);
        let is_in_gap = self.trail.place(key, reader);
        self.merge.seek(if is_in_gap { &self.trail.bound } else { key })?;
        self.settle()
    }

    /// To the next pair. Must be valid.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the pairs are lent, which an iterator cannot do")]
    pub fn next(&mut self) -> Result<()> {
        let on_key = match &mut self.at {
            At::Lent(entries) => {
                if entries.advance() || lend_on(&mut self.merge, &self.sight.scope, entries) {
                    return Ok(());
                }
                true
            }
            At::Entry(_) | At::Separated(_) => true,
            // The merge stands on the base, or already beyond.
            At::Merged | At::Refused => self.merge.valid() && self.merge.key() == &self.scratch.key[..],
            At::Nowhere => panic!("the walker stands on no pair"),
        };
        self.leave();
        if on_key {
            self.merge.next_key()?;
        }
        self.settle()
    }

    /// To the next pair, if that is lent and lies beside the present one; else nothing happens.
    /// What it comes to lies in the scope's range.
    #[inline]
    pub fn next_lent(&mut self) -> bool {
        match &mut self.at {
            At::Lent(entries) => entries.advance() || lend_on(&mut self.merge, &self.sight.scope, entries),
            _ => false,
        }
    }

    /// The entry that the walker stands on, if it is lent.
    #[inline]
    pub fn lent(&self) -> Option<&C::Lent> {
        match &self.at {
            At::Lent(entries) => Some(entries),
            _ => None,
        }
    }

    /// The same, to pin its value.
    #[inline]
    pub fn lent_mut(&mut self) -> Option<&mut C::Lent> {
        match &mut self.at {
            At::Lent(entries) => Some(entries),
            _ => None,
        }
    }

    /// Whether the walker stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        !matches!(self.at, At::Nowhere)
    }

    /// Whether the walker stands on a pair of which its last move could not tell the value, and
    /// failed with the reason. The next move goes on behind the pair.
    #[inline]
    pub fn is_refused(&self) -> bool {
        matches!(self.at, At::Refused)
    }

    /// The key. Must be valid; the bytes live until the walker moves. The same holds below.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.at {
            At::Lent(entries) => entries.key(),
            At::Merged | At::Refused => &self.scratch.key,
            At::Entry(_) | At::Separated(_) | At::Nowhere => self.merge.key(),
        }
    }

    /// Whether [`value`](Self::value) is a pointer to the value.
    #[inline]
    pub fn is_separated(&self) -> bool {
        matches!(self.at, At::Separated(_))
    }

    /// The value, or the pointer to it.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.at {
            At::Lent(entries) => entries.value(),
            At::Entry(skipped) | At::Separated(skipped) => &self.merge.value()[*skipped..],
            At::Merged => &self.scratch.merged,
            At::Refused => &[],
            At::Nowhere => panic!("the walker stands on no pair"),
        }
    }

    /// The moment from which the pair is gone, in Unix milliseconds; `None` if it does not expire.
    /// Must be valid.
    #[inline]
    pub fn expires_ms(&self) -> Option<u64> {
        match &self.at {
            At::Lent(_) | At::Merged | At::Refused => None,
            At::Entry(_) | At::Separated(_) => expires_ms(self.merge.kind(), self.merge.value()),
            At::Nowhere => panic!("the walker stands on no pair"),
        }
    }

    /// The value, kept alive.
    #[inline]
    pub fn pin_value(&mut self) -> Slice {
        match &mut self.at {
            At::Lent(entries) => entries.pin_value(),
            At::Entry(0) => self.merge.pin_value(),
            At::Entry(skipped) | At::Separated(skipped) => self.merge.pin_value().after(*skipped),
            At::Merged => self.scratch.merged.clone(),
            At::Refused => Slice::empty(),
            At::Nowhere => panic!("the walker stands on no pair"),
        }
    }

    /// From the merge's present entry on to the first visible pair.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        let mut passed = 0;
        let found = self.find(&mut passed);
        if passed > 0 || self.trail.is_on() {
            self.trail.end(passed, &self.sight.scope.reader);
        }
        found
    }

    /// Over so many keys that are gone to the first visible pair.
    #[inline]
    fn find(&mut self, passed: &mut u64) -> Result<()> {
        let (mut unseen, mut covered) = (0, 0);
        while self.merge.valid() {
            let end = &self.sight.scope.range.end;
            if !end.is_unbounded() && !end.admits(self.merge.key()) {
                return Ok(());
            }
            let (seqno, kind) = self.merge.stamp();
            if seqno > self.sight.scope.reader.snapshot {
                self.pass_unseen(&mut unseen)?;
                continue;
            }
            match self.sight.judge(&mut self.merge, kind, &mut self.scratch)? {
                Shown::Here(skipped) => {
                    self.at = At::Entry(skipped);
                    self.borrow_if_steady();
                    return Ok(());
                }
                Shown::Separated(skipped) => {
                    self.at = At::Separated(skipped);
                    return Ok(());
                }
                Shown::Merged => {
                    self.at = At::Merged;
                    return Ok(());
                }
                Shown::Refused => {
                    self.at = At::Refused;
                    return self.scratch.refusal.take().map_or(Ok(()), Err);
                }
                shown @ (Shown::Absent | Shown::Covered(_)) if self.is_in_gap(shown, passed) => {
                    self.merge.skip_to(self.trail.age(), &self.trail.bound)?;
                }
                Shown::Absent => self.merge.next_key()?,
                Shown::Covered(_) if covered < COVERED_STEPPED_MAX => {
                    covered += 1;
                    self.merge.next_key()?;
                }
                Shown::Covered(age) => {
                    covered = 0;
                    self.leave_cover(age)?;
                }
            }
        }
        Ok(())
    }

    /// Counts the merge's present key among those passed, and says whether it lies in a gap.
    #[inline]
    fn is_in_gap(&mut self, shown: Shown, passed: &mut u64) -> bool {
        *passed += 1;
        if !self.trail.is_on() {
            return false;
        }
        if self.trail.age() > 0 && self.is_own(shown) {
            // A write of one's own stays where it is, in front of the gap.
            self.trail.own(*passed, &self.sight.scope.reader);
            return false;
        }
        *passed > 1 && self.trail.note_up(self.merge.key(), *passed, &self.sight.scope.reader)
    }

    /// Whether the present key is gone by what lies in front.
    fn is_own(&self, shown: Shown) -> bool {
        let age = self.trail.age();
        self.merge.age() < age || matches!(shown, Shown::Covered(covering) if covering < age)
    }

    /// Leaves the pair: the merge stands on it, or on what a merged one ended with.
    #[inline]
    fn leave(&mut self) {
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Lent(entries) => self.merge.take_back(entries),
            // It may be large.
            At::Merged => self.scratch.merged = Slice::empty(),
            At::Nowhere | At::Entry(_) | At::Separated(_) | At::Refused => {}
        }
    }

    /// Leaves the pair, and the merge is positioned next.
    fn leave_for_good(&mut self) {
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Lent(entries) => self.merge.drop_lent(entries),
            At::Merged => self.scratch.merged = Slice::empty(),
            At::Nowhere | At::Entry(_) | At::Separated(_) | At::Refused => {}
        }
    }

    /// Has the next pairs lent, if the last ones came from one source, or there is but one.
    #[inline]
    fn borrow_if_steady(&mut self) {
        let age = self.merge.age();
        let (before, pairs) = self.steady;
        self.steady = (age, if age == before { pairs + 1 } else { 0 });
        let is_steady = self.steady.1 >= STEADY_PAIRS || self.merge.is_alone();
        if is_steady && !self.sight.has_tombstones() {
            self.borrow();
        }
    }

    #[inline(never)]
    fn borrow(&mut self) {
        let scope = &self.sight.scope;
        if let Some(entries) = self.merge.lend(scope.reader.snapshot, lent_before(scope)) {
            self.at = At::Lent(entries);
        }
    }

    /// Over an entry newer than the snapshot.
    fn pass_unseen(&mut self, unseen: &mut usize) -> Result<()> {
        *unseen = if self.merge.head() == self.head { *unseen + 1 } else { 0 };
        self.head = self.merge.head();
        if *unseen < VERSIONS_STEPPED_MAX {
            return self.merge.next();
        }
        *unseen = 0;
        self.scratch.keep_key(self.merge.key());
        self.merge.skip_unseen(&self.scratch.key, self.sight.scope.reader.snapshot)
    }

    /// Past the present key and to the end of the cover that a tombstone of age `age` lays over
    /// it. What is as new as the tombstone, or newer, is not skipped.
    #[cold]
    fn leave_cover(&mut self, age: usize) -> Result<()> {
        self.scratch.keep_key(self.merge.key());
        self.merge.next_key()?;
        let scope = &self.sight.scope;
        match scope.tombstones[age].fragment_end(&self.scratch.key, scope.reader.snapshot) {
            Some(end) => self.merge.skip_to(age + 1, end),
            None => Ok(()),
        }
    }
}

/// Where what is lent must end.
fn lent_before(scope: &Scope) -> Option<&[u8]> {
    match &scope.range.end {
        // Of the last key itself the merge decides.
        KeyEnd::Included(end) | KeyEnd::Excluded(end) => Some(end),
        KeyEnd::Unbounded => None,
    }
}

/// Has what was lent go on, where a step came to its end. Apart: most steps do not.
#[inline(never)]
fn lend_on<C: Lending>(merge: &mut Merge<C>, scope: &Scope, entries: &mut C::Lent) -> bool {
    merge.lend_on(entries, lent_before(scope))
}
