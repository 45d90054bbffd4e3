//! How fast merges go: `Pace`, the bytes that they read in a second, of which the latest count
//! most.
//!
//! What must hold: time is that of the database's clock. A merge that took none of it says nothing
//! of a pace: in a world whose clock stands still none is known.
//!
//! Callers: `engine::jobs` counts merges; `engine::garbage` reads, for stats and observations.

use parking_lot::Mutex;

/// Of what was counted before, one part in so many is forgotten with each merge.
const FADES: f64 = 8.0;
const NS_PER_SECOND: f64 = 1e9;

/// How fast one thread merges.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    sums: Mutex<Sums>,
}

/// What merges read, and how long they took; those of long ago count little.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    bytes: f64,
    ns: f64,
}

impl Pace {
    /// A merge read so many bytes and took so long.
    pub fn merged(&self, bytes: u64, ns: u64) {
        if bytes == 0 || ns == 0 {
            return;
        }
        let mut sums = self.sums.lock();
        let kept = 1.0 - 1.0 / FADES;
        *sums = Sums { bytes: sums.bytes * kept + bytes as f64, ns: sums.ns * kept + ns as f64 };
    }

    /// Bytes that a merge reads in a second; 0 until one was counted.
    pub fn bytes_per_second(&self) -> u64 {
        let Sums { bytes, ns } = *self.sums.lock();
        if ns == 0.0 { 0 } else { ((bytes / ns * NS_PER_SECOND) as u64).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_pace_is_known_once_a_merge_took_time() {
        let pace = Pace::default();
        assert_eq!(pace.bytes_per_second(), 0);
        pace.merged(1000, 0);
        pace.merged(0, SECOND);
        assert_eq!(pace.bytes_per_second(), 0, "a clock that stands still tells nothing");
        pace.merged(3000, SECOND / 2);
        assert_eq!(pace.bytes_per_second(), 6000);
        let slow = Pace::default();
        slow.merged(1, 60 * SECOND);
        assert_eq!(slow.bytes_per_second(), 1, "what was measured is never taken for unknown");
    }

    #[test]
    fn merges_of_late_count_most_and_long_ones_more_than_short_ones() {
        let pace = Pace::default();
        pace.merged(8000, 8 * SECOND);
        pace.merged(300, SECOND / 10);
        assert_eq!(pace.bytes_per_second(), (7000.0 + 300.0) as u64 * 10 / 71);
        (0..60).for_each(|_| pace.merged(300, SECOND / 10));
        assert!((2990..=3000).contains(&pace.bytes_per_second()), "{}", pace.bytes_per_second());
    }
}
