//! Visible pairs in ascending order.

use super::{COVERED_STEPPED_MAX, Found, STEADY_PAIRS, Scratch, Sight, View};
use crate::{
    block::Stretch,
    cursor::{Cursor, VERSIONS_STEPPED_MAX},
    error::Result,
    key::KeyEnd,
    merge::{Lending, Merge},
    pin::Slice,
};

/// Walks the visible pairs of a view upward. After an error it is not valid until positioned again.
pub struct Forward<C> {
    merge: Merge<C>,
    sight: Sight,
    at: At,
    /// How many pairs in a row the source of this rank had.
    steady: (usize, usize),
    /// Its key is the one that the walker stands on after a merge.
    scratch: Scratch,
    /// The head of the last entry that the snapshot did not see.
    head: u64,
}

enum At {
    Nowhere,
    /// On the merge's present entry, whose value begins after so many bytes.
    Entry(usize),
    /// On the key and the merged value in the scratch.
    Merged,
    /// On an entry that the merge has lent.
    Lent(Stretch),
}

impl<C: Lending> Forward<C> {
    /// A walker over `sources`, in the order of their ranks. Not valid until positioned.
    pub fn new(sources: Vec<C>, view: View) -> Self {
        Forward {
            merge: Merge::new(sources),
            sight: Sight::new(view),
            at: At::Nowhere,
            steady: (0, 0),
            scratch: Scratch::default(),
            head: 0,
        }
    }

    /// To the first pair.
    pub fn seek_first(&mut self) -> Result<()> {
        self.leave();
        match &self.sight.view.range.start[..] {
            [] => self.merge.seek_first()?,
            start => self.merge.seek(start)?,
        }
        self.settle()
    }

    /// To the first pair whose key is `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.leave();
        self.merge.seek(self.sight.view.range.clamp_to_start(key))?;
        self.settle()
    }

    /// To the next pair. Must be valid.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the pairs are lent, which an iterator cannot do")]
    pub fn next(&mut self) -> Result<()> {
        let on_key = match &mut self.at {
            At::Lent(stretch) => {
                if stretch.advance() {
                    return Ok(());
                }
                true
            }
            At::Entry(_) => true,
            // The merge stands on the base, or already beyond.
            At::Merged => self.merge.valid() && self.merge.key() == &self.scratch.key[..],
            At::Nowhere => panic!("the walker stands on no pair"),
        };
        self.leave();
        if on_key {
            self.merge.next_key()?;
        }
        self.settle()
    }

    /// Whether the walker stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        !matches!(self.at, At::Nowhere)
    }

    /// The key. Must be valid; the bytes live until the walker moves. The same holds below.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.at {
            At::Lent(stretch) => stretch.key(),
            At::Merged => &self.scratch.key,
            At::Entry(_) | At::Nowhere => self.merge.key(),
        }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.at {
            At::Lent(stretch) => stretch.value(),
            At::Entry(skipped) => &self.merge.value()[*skipped..],
            At::Merged => &self.scratch.merged,
            At::Nowhere => panic!("the walker stands on no pair"),
        }
    }

    /// The value, kept alive.
    #[inline]
    pub fn pin_value(&self) -> Slice {
        match &self.at {
            At::Lent(stretch) => stretch.pin_value(),
            At::Entry(0) => self.merge.pin_value(),
            At::Entry(skipped) => self.merge.pin_value().after(*skipped),
            At::Merged => self.scratch.merged.clone(),
            At::Nowhere => panic!("the walker stands on no pair"),
        }
    }

    /// From the merge's present entry on to the first visible pair.
    #[inline]
    fn settle(&mut self) -> Result<()> {
        let (mut unseen, mut covered) = (0, 0);
        while self.merge.valid() {
            let end = &self.sight.view.range.end;
            if !end.is_unbounded() && !end.admits(self.merge.key()) {
                return Ok(());
            }
            let (seqno, kind) = self.merge.stamp();
            if seqno > self.sight.view.snapshot {
                self.pass_unseen(&mut unseen)?;
                continue;
            }
            match self.sight.judge(&mut self.merge, kind, &mut self.scratch)? {
                Found::Here(skipped) => {
                    self.at = At::Entry(skipped);
                    self.borrow_if_steady();
                    return Ok(());
                }
                Found::Merged => {
                    self.at = At::Merged;
                    return Ok(());
                }
                Found::Absent => self.merge.next_key()?,
                Found::Covered(_) if covered < COVERED_STEPPED_MAX => {
                    covered += 1;
                    self.merge.next_key()?;
                }
                Found::Covered(rank) => {
                    covered = 0;
                    self.leave_cover(rank)?;
                }
            }
        }
        Ok(())
    }

    /// Leaves the pair: the merge stands on it, or on what a merged one ended with.
    #[inline]
    fn leave(&mut self) {
        if let At::Lent(stretch) = std::mem::replace(&mut self.at, At::Nowhere) {
            self.merge.take_back(stretch);
        }
    }

    /// Has the next pairs lent, if the last ones came from one source.
    #[inline]
    fn borrow_if_steady(&mut self) {
        let rank = self.merge.rank();
        let (before, pairs) = self.steady;
        self.steady = (rank, if rank == before { pairs + 1 } else { 0 });
        if self.steady.1 >= STEADY_PAIRS && !self.sight.has_tombstones() {
            self.borrow();
        }
    }

    #[inline(never)]
    fn borrow(&mut self) {
        let view = &self.sight.view;
        let end = match &view.range.end {
            // Of the last key itself the merge decides.
            KeyEnd::Included(end) | KeyEnd::Excluded(end) => Some(&end[..]),
            KeyEnd::Unbounded => None,
        };
        if let Some(stretch) = self.merge.lend(view.snapshot, end) {
            self.at = At::Lent(stretch);
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
        self.merge.skip_unseen(&self.scratch.key, self.sight.view.snapshot)
    }

    /// Past the present key and to the end of the cover that a tombstone of rank `rank` lays over it. What is as
    /// new as the tombstone, or newer, is not skipped.
    #[cold]
    fn leave_cover(&mut self, rank: usize) -> Result<()> {
        self.scratch.keep_key(self.merge.key());
        self.merge.next_key()?;
        let view = &self.sight.view;
        match view.tombstones[rank].fragment_end(&self.scratch.key, view.snapshot) {
            Some(end) => self.merge.skip_to(rank + 1, end),
            None => Ok(()),
        }
    }
}
