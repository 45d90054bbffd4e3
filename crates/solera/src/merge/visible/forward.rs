//! Visible pairs in ascending order.

use super::{COVERED_STEPPED_MAX, Found, Scratch, Sight, View};
use crate::{
    cursor::{Cursor, VERSIONS_STEPPED_MAX},
    error::Result,
    merge::Merge,
    pin::Slice,
};

/// Walks the visible pairs of a view upward. After an error it is not valid until positioned again.
pub struct Forward<C> {
    merge: Merge<C>,
    sight: Sight,
    at: At,
    /// Its key is the one that the walker stands on after a merge.
    scratch: Scratch,
    /// The head of the last entry that the snapshot did not see.
    head: u64,
}

#[derive(Clone, Copy)]
enum At {
    Nowhere,
    /// On the merge's present entry, whose value begins after so many bytes.
    Entry(usize),
    /// On the key and the merged value in the scratch.
    Merged,
}

impl<C: Cursor> Forward<C> {
    /// A walker over `sources`, in the order of their ranks. Not valid until positioned.
    pub fn new(sources: Vec<C>, view: View) -> Self {
        Forward {
            merge: Merge::new(sources),
            sight: Sight::new(view),
            at: At::Nowhere,
            scratch: Scratch::default(),
            head: 0,
        }
    }

    /// To the first pair.
    pub fn seek_first(&mut self) -> Result<()> {
        self.at = At::Nowhere;
        match &self.sight.view.range.start[..] {
            [] => self.merge.seek_first()?,
            start => self.merge.seek(start)?,
        }
        self.settle()
    }

    /// To the first pair whose key is `>= key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.at = At::Nowhere;
        self.merge.seek(key.max(&self.sight.view.range.start))?;
        self.settle()
    }

    /// To the next pair. Must be valid.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the pairs are lent, which an iterator cannot do")]
    pub fn next(&mut self) -> Result<()> {
        let on_key = match self.at {
            At::Entry(_) => true,
            // The merge stands on the base, or already beyond.
            At::Merged => self.merge.valid() && self.merge.key() == &self.scratch.key[..],
            At::Nowhere => panic!("the walker stands on no pair"),
        };
        self.at = At::Nowhere;
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
        match self.at {
            At::Merged => &self.scratch.key,
            _ => self.merge.key(),
        }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.at {
            At::Entry(skipped) => &self.merge.value()[skipped..],
            At::Merged => &self.scratch.merged,
            At::Nowhere => panic!("the walker stands on no pair"),
        }
    }

    /// The value, kept alive.
    #[inline]
    pub fn pin_value(&self) -> Slice {
        match self.at {
            At::Entry(0) => self.merge.pin_value(),
            At::Entry(skipped) => self.merge.pin_value().after(skipped),
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
