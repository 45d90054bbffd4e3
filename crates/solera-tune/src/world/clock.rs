//! A clock that moves by what is charged: `WorldClock`, an engine `Clock` for worlds.
//!
//! `charge` moves it, `now_ns` reads it. A world begins in the year 2023, and sleeping takes its
//! time at once.
//!
//! What must hold: nothing but charges and sleeps moves it, and nothing moves it backwards.
//!
//! Callers: `files` charges, `World` charges and gives it to the database; `tests/unharmed.rs`, and
//! the counted machine of `solera-bench` (`paper::counted`).

use solera::Clock;
use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// When worlds begin, in Unix milliseconds.
const BEGIN_UNIX_MS: u64 = 1_700_000_000_000;

/// The time of a world.
#[derive(Debug, Default)]
pub struct WorldClock(AtomicU64);

impl WorldClock {
    /// Moves on by `ns` nanoseconds.
    pub fn charge(&self, ns: f64) {
        self.0.fetch_add(ns.max(0.0).round() as u64, Relaxed);
    }

    /// The time that has passed, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Clock for WorldClock {
    fn unix_ms(&self) -> u64 {
        BEGIN_UNIX_MS + self.now_ns() / 1_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.now_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.charge(duration.as_nanos() as f64);
    }
}
