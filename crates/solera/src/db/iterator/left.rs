//! What is left between the two ends of an iterator: `Left`.
//!
//! It begins as the whole range, which the iterator shares with its walkers. A seek, or an end that
//! pauses, places one bound elsewhere; only that one is then bytes of its own.
//!
//! What must hold: both bounds lie in the whole range.
//!
//! Caller: `db::iterator`.

use crate::key::{KeyEnd, SharedRange};

/// A whole range, and what is left of it.
pub(super) struct Left {
    /// The whole range asked for; seeks go back to it.
    pub(super) whole: SharedRange,
    /// Where it begins, once the front was placed elsewhere than where the whole range does.
    start: Option<Box<[u8]>>,
    /// Where it ends, once the back was placed elsewhere.
    end: Option<KeyEnd>,
}

impl Left {
    /// All of `whole`.
    pub(super) fn all_of(whole: SharedRange) -> Left {
        Left { whole, start: None, end: None }
    }

    /// The first key that may be in it.
    #[inline]
    pub(super) fn start(&self) -> &[u8] {
        self.start.as_deref().unwrap_or_else(|| &self.whole.start)
    }

    /// Where it ends.
    #[inline]
    pub(super) fn end(&self) -> &KeyEnd {
        self.end.as_ref().unwrap_or_else(|| &self.whole.end)
    }

    /// Whether no key can be in it.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        !self.end().admits(self.start())
    }

    /// From now on it begins at `key`, if the whole range does before.
    pub(super) fn begin_at(&mut self, key: impl AsRef<[u8]> + Into<Box<[u8]>>) {
        self.start = (key.as_ref() > &self.whole.start[..]).then(|| key.into());
    }

    /// Whether `key` is at its start or behind it.
    pub(super) fn begins_by(&self, key: &[u8]) -> bool {
        self.start.as_ref().map_or_else(|| self.whole.begins_by(key), |start| &start[..] <= key)
    }

    /// From now on it ends at `end`, if the whole range does behind.
    pub(super) fn end_at(&mut self, end: KeyEnd) {
        self.end = (end < self.whole.end).then_some(end);
    }
}
