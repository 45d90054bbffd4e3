//! Room for blocks of tables that are being written: `Reserved`.
//!
//! Such a block has no slot before its table is open. Its weight is counted as cached from the
//! moment that it is made, so that the budget holds, and nothing has to go for it.
//!
//! What must hold: what is reserved leaves the count when a block gets its slot, or at the end. The
//! cache cannot evict it. So its owner asks `is_crowded`, and gives it up.
//!
//! Caller: `table::fresh`.

use super::Cache;
use crate::sync::atomic::Ordering;
use std::sync::Arc;

/// Room in a cache, in bytes.
pub struct Reserved {
    cache: Arc<Cache>,
    bytes: usize,
}

impl Reserved {
    /// No room as yet.
    pub fn new(cache: &Arc<Cache>) -> Reserved {
        Reserved { cache: cache.clone(), bytes: 0 }
    }

    /// Reserves so many bytes more if nothing has to go for them: whether it did.
    pub fn add(&mut self, bytes: usize) -> bool {
        if !self.cache.is_room(bytes) {
            return false;
        }
        if !self.cache.has_room(bytes) {
            // Hands this thread's garbage over, so that any thread can release it.
            crossbeam_epoch::pin().flush();
            return false;
        }
        self.cache.own().used.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        true
    }

    /// Whether this is some room that should be left: the cache has become too small for what it
    /// holds.
    pub fn is_crowded(&self) -> bool {
        self.bytes > 0 && self.cache.is_crowded()
    }

    /// So many of them are reserved no more.
    pub fn leave(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.bytes, "what was reserved is left once");
        self.cache.own().used.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes -= bytes;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.leave(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reserved_is_no_more_than_there_is_room_for_and_leaves() {
        let cache = Cache::new(1000);
        let mut one = Reserved::new(&cache);
        let mut two = Reserved::new(&cache);
        assert!(one.add(600) && !two.add(500) && two.add(300));
        assert_eq!(cache.used(), 900);
        one.leave(200);
        assert!(two.add(300) && !one.add(1));
        drop(two);
        assert_eq!(cache.used(), 400);
        drop(one);
        assert_eq!(cache.used(), 0);
    }
}
