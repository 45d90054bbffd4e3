//! Visible pairs in ascending order.

use super::{COVERED_STEPPED_MAX, Found, Scratch, Sight, VERSIONS_STEPPED_MAX, View};
use crate::{cursor::Cursor, error::Result, merge::Merge, pin::Slice};

/// Walks the visible pairs of a view upward. After an error it is not valid until positioned again.
pub struct Forward<C> {
    merge: Merge<C>,
    sight: Sight,
    at: At,
    /// Its key is the one that the walker leaves, or stands on after a merge.
    scratch: Scratch,
    /// The head of the key that the walker left last.
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
            self.leave()?;
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
    fn settle(&mut self) -> Result<()> {
        let (mut unseen, mut covered) = (0, 0);
        while self.merge.valid() {
            if !self.sight.view.range.end.admits(self.merge.key()) {
                return Ok(());
            }
            if self.merge.seqno() > self.sight.view.snapshot {
                self.pass_unseen(&mut unseen)?;
                continue;
            }
            match self.sight.judge(&mut self.merge, &mut self.scratch)? {
                Found::Here(skipped) => {
                    self.at = At::Entry(skipped);
                    return Ok(());
                }
                Found::Merged => {
                    self.at = At::Merged;
                    return Ok(());
                }
                Found::Absent => self.leave()?,
                Found::Covered(rank) => {
                    covered += 1;
                    self.leave()?;
                    if covered > COVERED_STEPPED_MAX {
                        covered = 0;
                        self.leave_cover(rank)?;
                    }
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

    /// Over the present entry and everything else of its key, which is kept in the scratch.
    #[inline]
    fn leave(&mut self) -> Result<()> {
        self.head = self.merge.head();
        self.scratch.keep_key(self.merge.key());
        for _ in 0..VERSIONS_STEPPED_MAX {
            self.merge.next()?;
            if !self.merge.valid()
                || self.merge.head() != self.head
                || self.merge.key() != &self.scratch.key[..]
            {
                return Ok(());
            }
        }
        // The smallest larger key.
        self.scratch.key.push(0);
        let skipped = self.merge.skip_to(0, &self.scratch.key);
        self.scratch.key.pop();
        skipped
    }

    /// To the end of the cover that a tombstone of rank `rank` lays over the key just left. What is as new as it, or
    /// newer, is not skipped.
    #[cold]
    fn leave_cover(&mut self, rank: usize) -> Result<()> {
        let view = &self.sight.view;
        match view.tombstones[rank].fragment_end(&self.scratch.key, view.snapshot) {
            Some(end) => self.merge.skip_to(rank + 1, end),
            None => Ok(()),
        }
    }
}
