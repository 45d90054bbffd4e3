//! What walks hold beside the cache, of blocks and long keys: `Beside` counts it, and the cache
//! gives way.
//!
//! A walk stands in a block of each run and has a copy of its key there. Mostly that is little. A
//! block, a key or blocks read ahead of 16 KiB and more are noted, also where the cache has the
//! block. Values read ahead and what jobs hold are not. The cache gives way by a quarter of its
//! budget at most: a note of more evicts at once. Beyond that `holds_too_much` is true. Then walks
//! read no more blocks ahead, and iterators pause after large entries.
//!
//! What must hold: who notes that it holds more notes later that it holds so much less.
//!
//! Callers: `block::slots`, for `table::cursor`, which notes and asks; `db::iterator`, which asks.

use super::Cache;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Walks may hold one part in so many of the cache's capacity, for which the cache gives way.
const WALKS_SHARE: usize = 4;

/// Bytes that walks hold.
#[derive(Default)]
pub(super) struct Beside {
    held: AtomicUsize,
}

impl Cache {
    /// A walk that held `before` bytes holds `now` bytes.
    #[cold]
    pub fn note_held(&self, before: usize, now: usize) {
        // Wraps where it shrinks, and comes out right.
        self.beside.held.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
        if now > before && !self.is_room(0) {
            self.make_room(None);
        }
    }

    /// Whether walks hold more than the cache gives way for.
    pub fn holds_too_much(&self) -> bool {
        self.beside.held.load(Ordering::Relaxed) > self.own_capacity() / WALKS_SHARE
    }

    /// What its own memory may hold now, in bytes.
    pub(super) fn own_room(&self) -> usize {
        let capacity = self.own_capacity();
        capacity - self.beside.held.load(Ordering::Relaxed).min(capacity / WALKS_SHARE)
    }
}
