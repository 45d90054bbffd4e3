//! The time by which entries expire: `Expiry`, the clock and the latest time that was asked for.
//!
//! `now_ms` is for callers that act on it, and is remembered; `look_ms` is for callers that only
//! ask. `moment` is when something written now expires.
//!
//! What must hold: `now_ms` never runs backwards while the database is open, whatever the clock
//! does. Most manifest records, and a clean close, keep the latest time (`high_ms`). After a crash
//! the time may be as early as in the last record.
//!
//! Callers: `db`, for reads and writes; `job_parts` and `rewrite` act on it; `store` asks for
//! horizons and records it; `open` makes it.

use crate::{
    clock::Clock,
    sync::atomic::{AtomicU64, Ordering},
};
use std::{sync::Arc, time::Duration};

/// The clock, and the latest time by which something was found expired.
pub(crate) struct Expiry {
    clock: Arc<dyn Clock>,
    high_ms: AtomicU64,
}

impl Expiry {
    /// By `clock`, but never earlier than `high_ms`, in Unix milliseconds.
    pub(super) fn new(clock: Arc<dyn Clock>, high_ms: u64) -> Self {
        Expiry { clock, high_ms: AtomicU64::new(high_ms) }
    }

    /// Now, in Unix milliseconds: the clock's time, but never earlier than ever before.
    pub(crate) fn now_ms(&self) -> u64 {
        let now = self.clock.unix_ms();
        now.max(self.high_ms.fetch_max(now, Ordering::Relaxed))
    }

    /// As [`Expiry::now_ms`], for a caller that asks but does not act on it.
    pub(super) fn look_ms(&self) -> u64 {
        self.clock.unix_ms().max(self.high_ms.load(Ordering::Relaxed))
    }

    /// The moment at which something written now with `ttl` expires, in Unix milliseconds.
    pub(crate) fn moment(&self, ttl: Duration) -> u64 {
        self.now_ms().saturating_add(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))
    }

    /// The latest time that was asked for, in Unix milliseconds.
    pub(super) fn high_ms(&self) -> u64 {
        self.high_ms.load(Ordering::Relaxed)
    }
}
