//! Times in which the device under a directory stood still: `Standstill`.
//!
//! A thread reads the system's counts of the device every 5 ms. The device stands still while
//! requests wait, anyone's, and none is completed for 20 ms or more. `ns` sums up such times. They
//! are told apart from what an operation took.
//!
//! What must hold: `ns` counts only time between looks at which requests waited and nothing had
//! been completed. Where the system does not tell, it is 0. Its looks are read calls of this
//! process, so none may run while read calls are counted.
//!
//! Caller: `paper::keeper`, which has one only during a phase.

use solera::clock::{Clock, SystemClock};
use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Between two looks.
const LOOK_PERIOD: Duration = Duration::from_millis(5);
/// A device that completes nothing for so long stands still: it takes a millisecond for the
/// largest request.
const STILL_MIN: Duration = Duration::from_millis(20);

/// Adds up how long a device stood still, until it is dropped.
#[derive(Debug)]
pub(super) struct Standstill {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ns: AtomicU64,
    is_over: AtomicBool,
}

/// What a device has done and has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    completed: u64,
    waiting: u64,
}

impl Count {
    /// What a line of the system's counts says: reads, writes, discards and flushes that were
    /// completed, and requests that wait.
    fn parse(line: &str) -> Option<Count> {
        let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let completed = [0, 4, 11, 15].iter().filter_map(|&at| numbers.get(at)).sum();
        Some(Count { completed, waiting: *numbers.get(8)? })
    }
}

/// The present look, and since when the device has completed nothing.
struct Watch {
    last: Count,
    /// When it completed something, or had nothing to do, last.
    moved: Duration,
    /// Up to when it was told that it stood still.
    told: Duration,
}

impl Watch {
    /// It stands so at `now`: how long it stood still, beyond what was told before.
    fn look(&mut self, count: Count, now: Duration) -> Duration {
        let before = std::mem::replace(&mut self.last, count);
        if count.completed != before.completed || count.waiting == 0 || before.waiting == 0 {
            (self.moved, self.told) = (now, now);
        } else if now - self.moved >= STILL_MIN {
            return now - std::mem::replace(&mut self.told, now);
        }
        Duration::ZERO
    }
}

impl Standstill {
    /// Of the device on which `directory` lies.
    pub(super) fn of(directory: &Path) -> Standstill {
        let shared = Arc::new(Shared::default());
        let thread = counts_of(directory).and_then(|path| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("standstill".into()).spawn(move || shared.watch(&path)).ok()
        });
        Standstill { shared, thread }
    }

    /// For how long it stood still so far, in nanoseconds.
    pub(super) fn ns(&self) -> u64 {
        self.shared.ns.load(Ordering::Relaxed)
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there was told by the panic itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn watch(&self, path: &Path) {
        let clock = SystemClock::new();
        let now = || Duration::from_nanos(clock.monotonic_ns());
        let count = || Count::parse(&fs::read_to_string(path).ok()?);
        let Some(last) = count() else { return };
        let mut watch = Watch { last, moved: now(), told: now() };
        while !self.is_over.load(Ordering::Relaxed) {
            clock.sleep(LOOK_PERIOD);
            let Some(count) = count() else { return };
            let still = watch.look(count, now());
            self.ns.fetch_add(still.as_nanos() as u64, Ordering::Relaxed);
        }
    }
}

/// Where the system counts what the device under `directory` does.
fn counts_of(directory: &Path) -> Option<PathBuf> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (libc::major(device), libc::minor(device));
    Some(PathBuf::from(format!("/sys/dev/block/{major}:{minor}/stat"))).filter(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "70 0 8 3 40 0 16 5 2 30 8 5 0 24 1 6 1";

    #[test]
    fn a_line_of_counts_says_what_was_completed_and_what_waits() {
        assert_eq!(Count::parse(LINE), Some(Count { completed: 121, waiting: 2 }));
        // Older systems count neither discards nor flushes.
        assert_eq!(Count::parse("70 0 8 3 40 0 16 5 2 30 8"), Some(Count { completed: 110, waiting: 2 }));
        assert_eq!(Count::parse("none"), None);
    }

    #[test]
    fn a_device_stands_still_while_requests_wait_and_none_is_completed() {
        let ms = Duration::from_millis;
        let at = |completed, waiting| Count { completed, waiting };
        let mut watch = Watch { last: at(1, 2), moved: ms(0), told: ms(0) };
        let looks = [
            (at(1, 2), 5, 0),
            (at(1, 2), 15, 0),
            // It stood still since the beginning.
            (at(1, 2), 25, 25),
            (at(1, 3), 30, 5),
            // It went on at some time since.
            (at(2, 3), 60, 0),
            (at(2, 3), 79, 0),
            (at(2, 3), 80, 20),
            // Nothing waits: it rests.
            (at(2, 0), 200, 0),
            (at(2, 1), 300, 0),
            (at(2, 1), 310, 0),
        ];
        for (count, now, still) in looks {
            assert_eq!(watch.look(count, ms(now)), ms(still), "at {now} ms");
        }
    }
}
