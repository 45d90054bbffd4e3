//! Iterators that pause: an end that has yielded a large entry lets go of what it holds of it.
//!
//! An end that stands on an entry has a block and a key in memory for each run. Many iterators over
//! long keys or large values would hold more than the budget. Where walks hold too much
//! (`Cache::holds_too_much`), an end that has handed out a large entry keeps its place alone. The
//! range that is left begins behind the entry, or ends before it. The next move seeks there.
//!
//! What must hold: a pause changes nothing of what the iterator yields, and is no placing that
//! counts. An end that failed, or of which a pair is refused, does not pause.
//!
//! Caller: `db::iterator`, after it has made an item, and after a seek.

use super::{Iter, Last};
use crate::{
    key::KeyEnd,
    tree::{SEPARATE_ALL_FROM, Spare},
};

/// Entries with a key or a value of so many bytes are large.
const LARGE_BYTES: usize = 4 << 10;
/// A value of so many bytes that lies apart is not kept for another look.
const APART_BYTES: usize = SEPARATE_ALL_FROM as usize;

/// Whether an entry is large. All that most entries are asked.
#[inline]
pub(super) fn is_large(key: &[u8], value: &[u8]) -> bool {
    (key.len() | value.len()) >= LARGE_BYTES
}

impl Iter {
    /// The end that moved last has handed out a large entry.
    #[cold]
    pub(super) fn let_go(&mut self) {
        match self.last {
            Last::Front => self.let_go_of_front(),
            Last::Back => self.let_go_of_back(),
            Last::Neither => {}
        }
        // The caller has the value already.
        drop(self.apart.take_if(|value| value.len() >= APART_BYTES));
    }

    /// The front stands on a large entry, which was yielded or is to be yielded next.
    #[cold]
    pub(super) fn let_go_of_front(&mut self) {
        if !self.holds_too_much() || self.front_refusal.is_some() {
            return;
        }
        self.count_passed();
        let Some(front) = self.front.take_if(|front| front.valid()) else { return };
        let mut start = Vec::with_capacity(front.key().len() + 1);
        start.extend_from_slice(front.key());
        if std::mem::take(&mut self.front_yielded) {
            // The smallest larger key.
            start.push(0);
        }
        self.left.begin_at(start);
        (self.front_pauses, self.last) = (true, Last::Neither);
        let unused = self.spare.take();
        self.spare = Spare::of(self.view(), Some(front), None, unused);
    }

    /// The back stands on a large entry that was yielded.
    #[cold]
    fn let_go_of_back(&mut self) {
        if !self.holds_too_much() || self.back_refusal.is_some() {
            return;
        }
        self.count_passed();
        let Some(back) = self.back.take_if(|_| self.back_yielded) else { return };
        self.left.end_at(KeyEnd::Excluded(std::mem::take(&mut self.back_key).into()));
        (self.back_yielded, self.back_began) = (false, false);
        (self.back_pauses, self.last) = (true, Last::Neither);
        let unused = self.spare.take();
        self.spare = Spare::of(self.view(), None, Some(back), unused);
    }

    fn holds_too_much(&self) -> bool {
        self.keyspace.tree().context.cache.holds_too_much()
    }
}
