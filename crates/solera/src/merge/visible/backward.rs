//! Visible pairs in descending order.
//!
//! Going down, a key's oldest version comes first and its newest last, so a pair is known only when the
//! merge has left its key: the walker stands one key ahead of its merge, and holds the value by its pin. On a pair that the
//! merge has lent both stand together.

use super::{COVERED_STEPPED_MAX, Found, STEADY_PAIRS, Scratch, Sight, View};
use crate::{
    block::Stretch,
    cursor::{Cursor, VERSIONS_STEPPED_MAX},
    error::Result,
    key::{KeyEnd, Kind},
    merge::{Lending, Merge, resolve},
    pin::Slice,
};

/// Walks the visible pairs of a view downward. After an error it is not valid until positioned again.
pub struct Backward<C> {
    merge: Merge<C>,
    sight: Sight,
    valid: bool,
    /// The key that the walker stands on, or whose entries it is passing; and its head.
    key: Vec<u8>,
    head: u64,
    /// The value of `key`, or what is known of it so far.
    value: Slice,
    /// What the merge has lent: key and value are those that it stands on.
    lent: Option<Stretch>,
    /// How many pairs in a row the source of this rank had.
    steady: (usize, usize),
    scratch: Scratch,
}

/// What the entries of a key amount to.
#[derive(Clone, Copy)]
enum Passed {
    /// No value.
    Absent,
    /// No value, because of a range tombstone of this rank.
    Covered(usize),
    /// The walker's value.
    Present,
}

impl<C: Lending> Backward<C> {
    /// A walker over `sources`, in the order of their ranks. Not valid until positioned.
    pub fn new(sources: Vec<C>, view: View) -> Self {
        Backward {
            merge: Merge::new(sources),
            sight: Sight::new(view),
            valid: false,
            key: Vec::new(),
            head: 0,
            value: Slice::empty(),
            lent: None,
            steady: (0, 0),
            scratch: Scratch::default(),
        }
    }

    /// To the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.leave();
        match &self.sight.view.range.end {
            KeyEnd::Unbounded => self.merge.seek_last()?,
            KeyEnd::Excluded(end) => self.merge.seek_before(end)?,
            KeyEnd::Included(end) => {
                self.key.clear();
                self.key.extend_from_slice(end);
                self.key.push(0);
                self.merge.seek_before(&self.key)?;
            }
        }
        self.settle()
    }

    /// To the last pair whose key is `< key`.
    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        if !self.sight.view.range.end.admits(key) {
            return self.seek_last();
        }
        self.leave();
        self.merge.seek_before(key)?;
        self.settle()
    }

    /// To the pair before this one. Must be valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        assert!(self.valid, "the walker stands on no pair");
        if let Some(stretch) = &mut self.lent {
            if stretch.retreat() {
                return Ok(());
            }
            self.leave();
            self.merge.prev()?;
        }
        self.valid = false;
        self.settle()
    }

    /// Leaves the pair; what was lent is taken back, and the merge stands there.
    fn leave(&mut self) {
        self.valid = false;
        if let Some(stretch) = self.lent.take() {
            self.merge.take_back(stretch);
        }
    }

    /// Whether the walker stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key. Must be valid; the bytes live until the walker moves. The same holds below.
    #[inline]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "the walker stands on no pair");
        self.lent.as_ref().map_or(&self.key, Stretch::key)
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "the walker stands on no pair");
        self.lent.as_ref().map_or(&self.value, Stretch::value)
    }

    /// The value, kept alive.
    #[inline]
    pub fn pin_value(&self) -> Slice {
        assert!(self.valid, "the walker stands on no pair");
        self.lent.as_ref().map_or_else(|| self.value.clone(), Stretch::pin_value)
    }

    /// From the merge's present entry, the oldest of its key, down to the first visible pair.
    fn settle(&mut self) -> Result<()> {
        let mut covered = 0;
        while self.merge.valid() && self.sight.view.range.begins_by(self.merge.key()) {
            let rank = self.merge.rank();
            if self.steady.1 >= STEADY_PAIRS && self.steady.0 == rank && self.borrow() {
                self.valid = true;
                return Ok(());
            }
            self.head = self.merge.head();
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            match self.pass_key()? {
                Passed::Present => {
                    let (before, pairs) = self.steady;
                    self.steady = (rank, if rank == before { pairs + 1 } else { 0 });
                    self.valid = true;
                    return Ok(());
                }
                Passed::Absent => covered = 0,
                Passed::Covered(_) if covered < COVERED_STEPPED_MAX => covered += 1,
                Passed::Covered(rank) => {
                    covered = 0;
                    self.leave_cover(rank)?;
                }
            }
        }
        Ok(())
    }

    /// Has the pairs from the merge's present entry down lent, if they need no merge.
    fn borrow(&mut self) -> bool {
        let view = &self.sight.view;
        if !self.sight.has_tombstones() {
            self.lent = self.merge.lend_back(view.snapshot, &view.range.start);
        }
        self.lent.is_some()
    }

    /// Over all entries of `key`, on whose oldest one the merge stands, to what they amount to.
    #[inline]
    fn pass_key(&mut self) -> Result<Passed> {
        let mut passed = Passed::Absent;
        self.scratch.operands.clear();
        for _ in 0..VERSIONS_STEPPED_MAX {
            if self.merge.seqno() <= self.sight.view.snapshot {
                passed = self.add_newer(passed)?;
            }
            self.merge.prev()?;
            if !self.merge.valid() || self.merge.head() != self.head || self.merge.key() != &self.key[..] {
                if !self.scratch.operands.is_empty() {
                    self.fold(passed)?;
                    passed = Passed::Present;
                }
                return Ok(passed);
            }
        }
        self.pass_much_written_key()
    }

    /// What the key amounts to with the present entry over what it was, operands left aside.
    #[inline]
    fn add_newer(&mut self, passed: Passed) -> Result<Passed> {
        let cover = self.sight.cover(&self.merge);
        if cover.is_none() && self.merge.kind() == Kind::Merge {
            self.scratch.operands.push(self.merge.pin_value());
            return Ok(passed);
        }
        // Whatever is older does not count any more.
        self.scratch.operands.clear();
        if let Some(rank) = cover {
            return Ok(Passed::Covered(rank));
        }
        let skipped = match self.merge.kind() {
            Kind::Put => Some(0),
            Kind::PutExpiring => self.sight.unexpired(&self.key, self.merge.value())?,
            Kind::Delete | Kind::Merge => None,
        };
        Ok(match skipped {
            None => Passed::Absent,
            Some(0) => {
                self.value = self.merge.pin_value();
                Passed::Present
            }
            Some(skipped) => {
                self.value = self.merge.pin_value().after(skipped);
                Passed::Present
            }
        })
    }

    /// Merges the operands, gathered oldest first, onto the value if it is present.
    fn fold(&mut self, base: Passed) -> Result<()> {
        let operands = &mut self.scratch.operands;
        operands.reverse();
        let base = matches!(base, Passed::Present).then_some(&self.value[..]);
        let value = resolve(&self.key, self.sight.view.operator.as_deref(), base, operands)?;
        self.value = value.into();
        operands.clear();
        Ok(())
    }

    /// As [`pass_key`](Self::pass_key), for a key with many versions: looks at it from the front, where
    /// the newest is, and then seeks past it.
    #[cold]
    fn pass_much_written_key(&mut self) -> Result<Passed> {
        self.scratch.operands.clear();
        self.merge.seek_version(&self.key, self.sight.view.snapshot)?;
        let mut passed = Passed::Absent;
        if self.merge.valid() && self.merge.key() == &self.key[..] {
            let kind = self.merge.kind();
            passed = match self.sight.judge(&mut self.merge, kind, &mut self.scratch)? {
                Found::Absent => Passed::Absent,
                Found::Covered(rank) => Passed::Covered(rank),
                Found::Here(skipped) => {
                    self.value = self.merge.pin_value().after(skipped);
                    Passed::Present
                }
                Found::Merged => {
                    self.value = self.scratch.merged.clone();
                    Passed::Present
                }
            };
        }
        self.merge.seek_before(&self.key)?;
        Ok(passed)
    }

    /// To the beginning of the cover that a tombstone of rank `rank` lays over `key`. What is as new as
    /// it, or newer, is not skipped.
    #[cold]
    fn leave_cover(&mut self, rank: usize) -> Result<()> {
        let view = &self.sight.view;
        match view.tombstones[rank].fragment_start(&self.key, view.snapshot) {
            Some(start) => self.merge.skip_before(rank + 1, start),
            None => Ok(()),
        }
    }
}
