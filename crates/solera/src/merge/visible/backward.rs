//! Visible pairs in descending order.
//!
//! Going down, a key's oldest version comes first and its newest last, so a pair is known only when the
//! merge has left its key: the walker stands one key ahead of its merge, and holds the value by its pin.

use super::{COVERED_STEPPED_MAX, Found, Sight, VERSIONS_STEPPED_MAX, View};
use crate::{
    cursor::Cursor,
    error::Result,
    key::{KeyEnd, Kind},
    merge::{Merge, resolve},
    pin::Slice,
};

/// Walks the visible pairs of a view downward. After an error it is not valid until positioned again.
pub struct Backward<C> {
    merge: Merge<C>,
    sight: Sight,
    key: Vec<u8>,
    /// The value of `key`; `None`: not valid.
    value: Option<Slice>,
    /// The operands over `value`, oldest first.
    operands: Vec<Slice>,
}

impl<C: Cursor> Backward<C> {
    /// A walker over `sources`, in the order of their ranks. Not valid until positioned.
    pub fn new(sources: Vec<C>, view: View) -> Self {
        Backward {
            merge: Merge::new(sources),
            sight: Sight::new(view),
            key: Vec::new(),
            value: None,
            operands: Vec::new(),
        }
    }

    /// To the last pair.
    pub fn seek_last(&mut self) -> Result<()> {
        self.value = None;
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
        self.value = None;
        self.merge.seek_before(key)?;
        self.settle()
    }

    /// To the pair before this one. Must be valid.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        assert!(self.value.is_some(), "the walker stands on no pair");
        self.value = None;
        self.settle()
    }

    /// Whether the walker stands on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.value.is_some()
    }

    /// The key. Must be valid; the bytes live until the walker moves. The same holds below.
    #[inline]
    pub fn key(&self) -> &[u8] {
        debug_assert!(self.valid());
        &self.key
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.value.as_ref().expect("the walker stands on a pair")
    }

    /// The value, kept alive.
    #[inline]
    pub fn pin_value(&self) -> Slice {
        self.value.clone().expect("the walker stands on a pair")
    }

    /// From the merge's present entry, the oldest of its key, down to the first visible pair.
    fn settle(&mut self) -> Result<()> {
        let mut covered = 0;
        while self.merge.valid() && self.merge.key() >= &self.sight.view.range.start[..] {
            self.key.clear();
            self.key.extend_from_slice(self.merge.key());
            let (value, cover) = self.pass_key()?;
            if value.is_some() {
                self.value = value;
                return Ok(());
            }
            match cover {
                None => covered = 0,
                Some(_) if covered < COVERED_STEPPED_MAX => covered += 1,
                Some(rank) => {
                    covered = 0;
                    self.leave_cover(rank)?;
                }
            }
        }
        Ok(())
    }

    /// Over all entries of `key`, on whose oldest one the merge stands. What they amount to: a value, or
    /// none, and then perhaps because of a range tombstone of some rank.
    fn pass_key(&mut self) -> Result<(Option<Slice>, Option<usize>)> {
        let (mut base, mut cover) = (None, None);
        self.operands.clear();
        for _ in 0..VERSIONS_STEPPED_MAX {
            if self.merge.seqno() <= self.sight.view.snapshot {
                cover = self.sight.cover(&self.merge);
                let kind = if cover.is_some() { Kind::Delete } else { self.merge.kind() };
                if kind == Kind::Merge {
                    self.operands.push(self.merge.pin_value());
                } else {
                    // Whatever is older does not count any more.
                    self.operands.clear();
                    base = match kind {
                        Kind::Put => Some(self.merge.pin_value()),
                        Kind::PutExpiring => self
                            .sight
                            .unexpired(&self.key, self.merge.value())?
                            .map(|skipped| self.merge.pin_value().after(skipped)),
                        Kind::Delete | Kind::Merge => None,
                    };
                }
            }
            self.merge.prev()?;
            if !self.merge.valid() || self.merge.key() != &self.key[..] {
                if self.operands.is_empty() {
                    return Ok((base, cover));
                }
                self.operands.reverse();
                let operator = self.sight.view.operator.as_deref();
                let value = resolve(&self.key, operator, base.as_deref(), &self.operands)?;
                return Ok((Some(value.into()), None));
            }
        }
        self.pass_much_written_key()
    }

    /// The same for a key with many versions: looks at it from the front, where the newest is, and then
    /// seeks past it.
    #[cold]
    fn pass_much_written_key(&mut self) -> Result<(Option<Slice>, Option<usize>)> {
        let key = std::mem::take(&mut self.key);
        let judged = self.judge_from_front(&key);
        self.key = key;
        let judged = judged?;
        self.merge.seek_before(&self.key)?;
        Ok(judged)
    }

    fn judge_from_front(&mut self, key: &[u8]) -> Result<(Option<Slice>, Option<usize>)> {
        self.merge.seek_version(key, self.sight.view.snapshot)?;
        if !self.merge.valid() || self.merge.key() != key {
            return Ok((None, None));
        }
        // `judge` uses the key buffer, which is why ours was taken out.
        Ok(match self.sight.judge(&mut self.merge, &mut self.key, &mut self.operands)? {
            Found::Absent => (None, None),
            Found::Covered(rank) => (None, Some(rank)),
            Found::Here(skipped) => (Some(self.merge.pin_value().after(skipped)), None),
            Found::Merged(value) => (Some(value.into()), None),
        })
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
