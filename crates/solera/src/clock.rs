//! Time, by argument: `Clock`, the machine's (`SystemClock`), and one that moves when it is told to
//! (`ManualClock`).
//!
//! A clock gives Unix milliseconds, monotonic nanoseconds, and `sleep`. A manual clock advances
//! instead of waiting.
//!
//! What must hold: engine and tuner ask only a clock for the time, but for timeouts of waits and a
//! nonce in `vfs::posix`. Monotonic time never decreases, but where `set_unix_ms` sets a manual
//! clock back. Unix time may jump, and the engine then keeps expiry from running backwards.
//!
//! Callers: `engine::options` (every database takes a clock), `engine`, `db`, `stats`, `trace`;
//! `solera-tune` by `Control::clock`, in its probe and its tuner's thread, and with one of its own
//! in worlds. `solera-cli` and both bench crates; `solera-sim` with both; tests with a manual one.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Where the engine takes the time from. Implementations must be cheap: expiry asks on every read
/// of an expiring entry.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Milliseconds since 1970-01-01T00:00:00Z. May jump; the engine never lets expiry run
    /// backwards.
    fn unix_ms(&self) -> u64;
    /// Nanoseconds since an arbitrary start; never decreases.
    fn monotonic_ns(&self) -> u64;
    /// Waits for `duration`. A simulated clock advances instead of waiting.
    fn sleep(&self, duration: Duration);
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    pub fn new() -> Self {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that asks the machine")]
    fn unix_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn monotonic_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn sleep(&self, duration: Duration) {
        std::thread::sleep(duration);
    }
}

/// A clock that moves only when told to, for simulation and for tests of expiry.
#[derive(Debug, Default)]
pub struct ManualClock {
    ns: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `unix_ms`.
    pub fn at_unix_ms(unix_ms: u64) -> Self {
        ManualClock { ns: AtomicU64::new(unix_ms * 1_000_000) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.ns.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Sets the wall time, backwards too. The monotonic time follows; the caller of a simulated
    /// jump back must not rely on it in between.
    pub fn set_unix_ms(&self, unix_ms: u64) {
        self.ns.store(unix_ms * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> u64 {
        self.ns.load(Ordering::SeqCst) / 1_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.ns.load(Ordering::SeqCst)
    }

    fn sleep(&self, duration: Duration) {
        self.advance(duration);
    }
}
