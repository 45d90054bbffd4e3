//! Visible pairs in descending order: `Backward`, which walks a `Merge` downward for one reader.
//!
//! `seek_last`, `seek_before` and `prev` stand on the next lower key that exists for the reader. It
//! crosses known gaps, takes lent entries, and fails as `Forward` does.
//! What must hold:
//! - Going down, a key's newest version comes last. So a pair is known only when the merge has left
//!   its key. The walker keeps key and value, and the merge stands one key further down.
//! - While the merge lends entries, walker and merge stand on the same pair.
//! - Of a key with many versions a few are stepped through; then it seeks to the newest visible
//!   one.
//!
//! Caller: `tree::scan` (`Walk::backward`), for `db::iterator`.

use super::{COVERED_STEPPED_MAX, Remembers, STEADY_PAIRS, Scope, Scratch, Shown, Sight, trail::Trail};
use crate::{
    cursor::{Cursor, Lending, Lent, VERSIONS_STEPPED_MAX},
    error::{Error, Result},
    key::{self, KeyEnd, SharedRange},
    merge::Merge,
    pin::Slice,
    sight::{Reader, Verdict, expires_ms, malformed},
};
use std::sync::Arc;

/// Walks the visible pairs of a scope downward. After an error it is not valid until positioned
/// again, unless the error is of one pair alone: then it [stands](Backward::is_refused) there.
pub struct Backward<C: Lending> {
    merge: Merge<C>,
    sight: Sight,
    valid: bool,
    /// The value of the pair that it stands on cannot be told.
    refused: bool,
    /// The key that the walker stands on, or whose entries it is passing; and its head.
    key: Vec<u8>,
    head: u64,
    /// The value of `key`, or what is known of it so far.
    value: Slice,
    /// Whether it is a pointer to the value.
    separated: bool,
    /// When it expires, in Unix milliseconds.
    expires_ms: Option<u64>,
    /// What the merge has lent: key and value are those that it stands on.
    lent: Option<C::Lent>,
    /// How many pairs in a row the source of this age had.
    steady: (usize, usize),
    scratch: Scratch,
    trail: Trail,
    /// Among the entries of `key` are some that lie in front of those that the trail's gaps are of.
    is_own: bool,
}

/// What the entries of a key amount to.
#[derive(Clone, Copy)]
enum Passed {
    /// No value.
    Absent,
    /// No value, because of a range tombstone of this age.
    Covered(usize),
    /// The walker's value.
    Present,
    /// It cannot be said; why is in the scratch.
    Refused,
}

impl<C: Lending> Backward<C> {
    /// A walker over `sources`, in the order of their ages. Not valid until positioned.
    pub fn new(sources: Vec<C>, scope: Scope) -> Self {
        Backward {
            merge: Merge::new(sources),
            sight: Sight::new(scope),
            valid: false,
            refused: false,
            key: Vec::new(),
            head: 0,
            value: Slice::empty(),
            separated: false,
            expires_ms: None,
            lent: None,
            steady: (0, 0),
            scratch: Scratch::default(),
            trail: Trail::default(),
            is_own: false,
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
        self.leave();
        self.merge.rest(rest);
        self.trail.rest();
        self.scratch = Scratch::default();
        self.steady = (0, 0);
        // It would keep a block, or a memtable.
        self.value = Slice::empty();
        key::let_go_of_long(&mut self.key);
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

    /// To the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.leave();
        self.key.clear();
        match &self.sight.scope.range.end {
            KeyEnd::Unbounded => {
                match self.trail.place_last(&self.sight.scope.reader) {
                    true => self.merge.seek_before(&self.trail.bound)?,
                    false => self.merge.seek_last()?,
                }
                return self.settle();
            }
            KeyEnd::Excluded(end) => self.key.extend_from_slice(end),
            KeyEnd::Included(end) => {
                self.key.extend_from_slice(end);
                self.key.push(0);
            }
        }
        self.place_below()
    }

    /// Places the merge below `key`, or below the gap that ends there.
    fn place_below(&mut self) -> Result<()> {
        let is_behind_gap = self.trail.place_below(&self.key, &self.sight.scope.reader);
        self.merge.seek_before(if is_behind_gap { &self.trail.bound } else { &self.key })?;
        self.settle()
    }

    /// To the last pair whose key is `< key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if !self.sight.scope.range.end.admits(key) {
            return self.seek_last();
        }
        self.leave();
        self.key.clear();
        self.key.extend_from_slice(key);
        self.place_below()
    }

    /// To the pair before this one. Must be valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        assert!(self.valid, "the walker stands on no pair");
        if let Some(entries) = &mut self.lent {
            if entries.retreat() {
                return Ok(());
            }
            self.leave();
            self.merge.prev()?;
        }
        (self.valid, self.refused) = (false, false);
        self.settle()
    }

    /// Leaves the pair; what was lent is taken back, and the merge stands there.
    fn leave(&mut self) {
        (self.valid, self.refused) = (false, false);
        if let Some(entries) = self.lent.take() {
            self.merge.take_back(entries);
        }
    }

    /// Whether the walker stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Whether the walker stands on a pair of which its last move could not tell the value, and
    /// failed with the reason. The next move goes on behind the pair.
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// The key. Must be valid; the bytes live until the walker moves. The same holds below.
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "the walker stands on no pair");
        self.lent.as_ref().map_or(&self.key, Lent::key)
    }

    /// Whether [`value`](Self::value) is a pointer to the value.
    #[inline]
    pub fn is_separated(&self) -> bool {
        self.separated && self.lent.is_none()
    }

    /// The value, or the pointer to it.
    #[inline]
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "the walker stands on no pair");
        self.lent.as_ref().map_or(&self.value, Lent::value)
    }

    /// The moment from which the pair is gone, in Unix milliseconds; `None` if it does not expire.
    /// Must be valid.
    pub fn expires_ms(&self) -> Option<u64> {
        assert!(self.valid, "the walker stands on no pair");
        if self.lent.is_some() { None } else { self.expires_ms }
    }

    /// The value, kept alive.
    #[inline]
    pub fn pin_value(&mut self) -> Slice {
        assert!(self.valid, "the walker stands on no pair");
        self.lent.as_mut().map_or_else(|| self.value.clone(), Lent::pin_value)
    }

    /// From the merge's present entry, the oldest of its key, down to the first visible pair.
    fn settle(&mut self) -> Result<()> {
        let mut passed = 0;
        let found = self.find(&mut passed);
        self.trail.end(passed, &self.sight.scope.reader);
        found
    }

    /// Over so many keys that are gone down to the first visible pair.
    fn find(&mut self, passed: &mut u64) -> Result<()> {
        let mut covered = 0;
        while self.merge.valid() && self.sight.scope.range.begins_by(self.merge.key()) {
            let age = self.merge.age();
            if self.steady.1 >= STEADY_PAIRS && self.steady.0 == age && self.borrow() {
                self.valid = true;
                return Ok(());
            }
            self.head = self.merge.head();
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            match self.pass_key()? {
                Passed::Present => {
                    let (before, pairs) = self.steady;
                    self.steady = (age, if age == before { pairs + 1 } else { 0 });
                    self.valid = true;
                    return Ok(());
                }
                Passed::Refused => {
                    (self.value, self.separated, self.expires_ms) = (Slice::empty(), false, None);
                    (self.valid, self.refused) = (true, true);
                    return self.scratch.refusal.take().map_or(Ok(()), Err);
                }
                gone @ (Passed::Absent | Passed::Covered(_)) if self.is_in_gap(gone, passed) => {
                    self.merge.skip_before(self.trail.age(), &self.trail.bound)?;
                }
                Passed::Absent => covered = 0,
                Passed::Covered(_) if covered < COVERED_STEPPED_MAX => covered += 1,
                Passed::Covered(age) => {
                    covered = 0;
                    self.leave_cover(age)?;
                }
            }
        }
        Ok(())
    }

    /// Counts `key` among those passed, and says whether a gap lies below it.
    #[inline]
    fn is_in_gap(&mut self, gone: Passed, passed: &mut u64) -> bool {
        *passed += 1;
        if !self.trail.is_on() {
            return false;
        }
        let age = self.trail.age();
        if age > 0 && (self.is_own || matches!(gone, Passed::Covered(covering) if covering < age)) {
            self.trail.own(*passed, &self.sight.scope.reader);
            return false;
        }
        self.trail.note_down(&self.key, *passed, &self.sight.scope.reader)
    }

    /// Has the pairs from the merge's present entry down lent, if they need no merge.
    fn borrow(&mut self) -> bool {
        let scope = &self.sight.scope;
        if !self.sight.has_tombstones() {
            self.lent = self.merge.lend_back(scope.reader.snapshot, &scope.range.start);
        }
        self.lent.is_some()
    }

    /// Over all entries of `key`, on whose oldest one the merge stands, to what they amount to.
    #[inline]
    fn pass_key(&mut self) -> Result<Passed> {
        let mut passed = Passed::Absent;
        self.scratch.clear_operands();
        self.is_own = false;
        for _ in 0..VERSIONS_STEPPED_MAX {
            self.is_own |= self.merge.age() < self.trail.age();
            if self.merge.seqno() <= self.sight.scope.reader.snapshot {
                passed = self.add_newer(passed)?;
            }
            self.merge.prev()?;
            if !self.merge.valid() || self.merge.head() != self.head || self.merge.key() != &self.key[..] {
                if !self.scratch.operands.is_empty() {
                    passed = self.fold(passed);
                }
                return Ok(passed);
            }
        }
        self.pass_much_written_key()
    }

    /// What the key amounts to with the present entry over what it was, operands left aside.
    #[inline]
    fn add_newer(&mut self, passed: Passed) -> Result<Passed> {
        if let Some(age) = self.sight.cover(&self.merge) {
            self.scratch.clear_operands();
            return Ok(Passed::Covered(age));
        }
        let verdict = self.sight.scope.reader.judge(self.merge.kind(), || self.merge.value(), false);
        if verdict == Verdict::Operand {
            let (operand, reader) = (self.merge.pin_value(), &self.sight.scope.reader);
            self.scratch.add_operand(&self.key, operand, reader, false);
            return Ok(passed);
        }
        // Whatever is older does not count any more.
        self.scratch.clear_operands();
        Ok(match verdict {
            Verdict::Absent | Verdict::Operand => Passed::Absent,
            Verdict::Value(0) => {
                (self.value, self.separated, self.expires_ms) = (self.merge.pin_value(), false, None);
                Passed::Present
            }
            Verdict::Value(skipped) => self.stand_on(skipped, false),
            Verdict::Separated(skipped) => self.stand_on(skipped, true),
            Verdict::Malformed => self.refuse(malformed(&self.key)),
        })
    }

    /// The stored bytes of the present entry, without so many in front, are the value, or a pointer
    /// to it.
    fn stand_on(&mut self, skipped: usize, separated: bool) -> Passed {
        (self.value, self.separated) = (self.merge.pin_value().after(skipped), separated);
        self.expires_ms = expires_ms(self.merge.kind(), self.merge.value());
        Passed::Present
    }

    /// What the key amounts to cannot be said, because of this.
    #[cold]
    fn refuse(&mut self, why: Error) -> Passed {
        self.scratch.refuse(why);
        Passed::Refused
    }

    /// Merges the operands, gathered oldest first, onto the value if it is present.
    fn fold(&mut self, base: Passed) -> Passed {
        if matches!(base, Passed::Refused) {
            self.scratch.clear_operands();
            return base;
        }
        self.scratch.operands.reverse();
        if matches!(base, Passed::Present) && self.separated {
            match self.sight.scope.reader.value_apart(&self.value, &self.key) {
                Ok(value) => self.value = value,
                Err(error) => return self.refuse(error),
            }
        }
        (self.separated, self.expires_ms) = (false, None);
        let base = matches!(base, Passed::Present).then_some(&self.value[..]);
        let folded = self.sight.scope.reader.fold(&self.key, base, &self.scratch.operands);
        self.scratch.clear_operands();
        match folded {
            Ok(value) => {
                self.value = value.into();
                Passed::Present
            }
            Err(error) => self.refuse(error),
        }
    }

    /// As [`pass_key`](Self::pass_key), for a key with many versions: looks at it from the front,
    /// where the newest is, and then seeks past it.
    #[cold]
    fn pass_much_written_key(&mut self) -> Result<Passed> {
        self.scratch.clear_operands();
        self.merge.seek_version(&self.key, self.sight.scope.reader.snapshot)?;
        let mut passed = Passed::Absent;
        if self.merge.valid() && self.merge.key() == &self.key[..] {
            self.is_own |= self.merge.age() < self.trail.age();
            let kind = self.merge.kind();
            passed = match self.sight.judge(&mut self.merge, kind, &mut self.scratch)? {
                Shown::Absent => Passed::Absent,
                Shown::Covered(age) => Passed::Covered(age),
                Shown::Here(skipped) => self.stand_on(skipped, false),
                Shown::Separated(skipped) => self.stand_on(skipped, true),
                Shown::Refused => Passed::Refused,
                Shown::Merged => {
                    (self.separated, self.expires_ms) = (false, None);
                    self.value = self.scratch.merged.clone();
                    Passed::Present
                }
            };
        }
        self.merge.seek_before(&self.key)?;
        Ok(passed)
    }

    /// To the beginning of the cover that a tombstone of age `age` lays over `key`. What is as
    /// new as it, or newer, is not skipped.
    #[cold]
    fn leave_cover(&mut self, age: usize) -> Result<()> {
        let scope = &self.sight.scope;
        match scope.tombstones[age].fragment_start(&self.key, scope.reader.snapshot) {
            Some(start) => self.merge.skip_before(age + 1, start),
            None => Ok(()),
        }
    }
}
