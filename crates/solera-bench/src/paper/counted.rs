//! A place without a disk: `Counted`, files in memory and a clock that moves by what reads, writes
//! and steps are charged.
//!
//! `clock`, `fs` and `directory` go into a database's options; `charge` moves the clock by what the
//! processor did in a window. Thousands of missions take minutes there.
//!
//! What must hold: the same seed gives the same figures on every machine. Tenants of one place
//! share its clock, so one works at a time. Each sees its own time alone (`OwnClock`), or its tuner
//! would take what others do for its own.
//!
//! Caller: `paper::missions`, for a site whose time is counted.

use solera::{
    Clock,
    control::Observation,
    vfs::{Fs, mem::MemFs},
};
use solera_tune::{
    cost::Units,
    world::{self, Processed, WorldClock, WorldFs},
};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// The time of one tenant: that of its place, while it works.
#[derive(Debug)]
pub(super) struct OwnClock {
    place: Arc<WorldClock>,
    /// What had passed for it when it began to work.
    own_ns: AtomicU64,
    /// When that was, by the place's clock; [`RESTS`] while it does not.
    since_ns: AtomicU64,
}

/// The tenant does not work.
const RESTS: u64 = u64::MAX;

impl OwnClock {
    /// The tenant works from now on.
    pub(super) fn begin(&self) {
        if self.since_ns.load(Relaxed) == RESTS {
            self.since_ns.store(self.place.now_ns(), Relaxed);
        }
    }

    /// It rests from now on.
    pub(super) fn end(&self) {
        let now_ns = self.monotonic_ns();
        self.own_ns.store(now_ns, Relaxed);
        self.since_ns.store(RESTS, Relaxed);
    }
}

impl Clock for OwnClock {
    fn unix_ms(&self) -> u64 {
        // The place's calendar begins with its own time.
        let begin_ms = self.place.unix_ms() - self.place.now_ns() / 1_000_000;
        begin_ms + self.monotonic_ns() / 1_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        let since_ns = self.since_ns.load(Relaxed);
        let worked = if since_ns == RESTS { 0 } else { self.place.now_ns() - since_ns };
        self.own_ns.load(Relaxed) + worked
    }

    fn sleep(&self, duration: Duration) {
        self.place.sleep(duration);
    }
}

/// The place.
#[derive(Clone)]
pub(super) struct Counted {
    clock: Arc<WorldClock>,
    fs: Arc<WorldFs<MemFs>>,
    units: Units,
    /// Directories that were given.
    given: Arc<AtomicU64>,
}

impl fmt::Debug for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counted").finish_non_exhaustive()
    }
}

impl Counted {
    /// A place of the device that worlds have.
    pub(super) fn new() -> Counted {
        let (clock, units) = (Arc::new(WorldClock::default()), world::device());
        let fs = Arc::new(WorldFs::new(MemFs::new(), clock.clone(), units.clone()));
        Counted { clock, fs, units, given: Arc::default() }
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// The time of a tenant that begins now, and rests.
    pub(super) fn own_clock(&self) -> Arc<OwnClock> {
        let own_ns = AtomicU64::new(self.clock.now_ns());
        Arc::new(OwnClock { place: self.clock.clone(), own_ns, since_ns: AtomicU64::new(RESTS) })
    }

    pub(super) fn fs(&self) -> Arc<dyn Fs> {
        self.fs.clone()
    }

    /// A directory that no database has.
    pub(super) fn directory(&self) -> PathBuf {
        format!("/counted/{}", self.given.fetch_add(1, Relaxed)).into()
    }

    /// Removes the files of a directory.
    pub(super) fn remove(&self, directory: &Path) {
        for name in self.fs.list_dir(directory).unwrap_or_default() {
            // What cannot be removed takes memory until the experiment ends.
            let _ = self.fs.remove_file(&directory.join(name));
        }
    }

    /// Moves the clock by what the processor did in a window; returns the writes' part, in
    /// nanoseconds.
    pub(super) fn charge(&self, since: &Observation) -> u64 {
        let processed = Processed::of(&self.units, since);
        self.clock.charge(processed.ns());
        processed.writes.round() as u64
    }
}
