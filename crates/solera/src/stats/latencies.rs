//! What is timed, and how long it took: `Sampled`, `Latency` and `Latencies`.
//!
//! `Sampled` is what a thread decides to time before it is done (lookup, scan, write). `Latency` is
//! what it turned out to be, one of four. `Latencies` has a histogram of each, in nanoseconds;
//! `named` and `since` serve observations.
//!
//! What must hold: each kind of `Sampled` is counted by a counter that its operations move anyway.
//! That counter also moves for what is never timed, such as the lookups of `multi_get`.
//!
//! Callers: `db::keyspace`, `db::iterator` and `engine::tracing` name what they time; `Stats`
//! records; `control` shows and stores them; `solera-tune` reads.

use super::{Counter, Histogram};

/// Operations that are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// Point lookups, counted by [`Counter::Gets`].
    Lookup,
    /// Placings of an iterator, counted by [`Counter::Scans`].
    Scan,
    /// Calls that write, counted by [`Counter::Writes`].
    Write,
}

impl Sampled {
    pub(super) const ALL: [Sampled; 3] = [Sampled::Lookup, Sampled::Scan, Sampled::Write];

    /// What counts such operations.
    pub(super) const fn counter(self) -> Counter {
        match self {
            Sampled::Lookup => Counter::Gets,
            Sampled::Scan => Counter::Scans,
            Sampled::Write => Counter::Writes,
        }
    }
}

/// What a time is the time of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Latency {
    /// A point lookup that found no value.
    LookupAbsent,
    /// A point lookup that found a value.
    LookupFound,
    /// Placing an iterator on its first entry.
    Scan,
    /// A call that writes, with what it waited for others and for background work.
    Write,
}

/// How many kinds of sampled operations there are.
pub(super) const SAMPLED: usize = Sampled::ALL.len();
/// How many kinds of times there are.
pub(super) const LATENCIES: usize = 4;

/// How long sampled operations took, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Point lookups that found no value.
    pub lookup_absent_ns: Histogram,
    /// Point lookups that found a value.
    pub lookup_found_ns: Histogram,
    /// Placings of an iterator: until its first entry. What its further steps take depends on the
    /// caller.
    pub scan_ns: Histogram,
    /// Calls that write, with what they waited for others and for background work.
    pub write_ns: Histogram,
}

impl Latencies {
    /// Every histogram with its name.
    pub fn named(&self) -> [(&'static str, &Histogram); LATENCIES] {
        [
            ("lookup_absent_ns", &self.lookup_absent_ns),
            ("lookup_found_ns", &self.lookup_found_ns),
            ("scan_ns", &self.scan_ns),
            ("write_ns", &self.write_ns),
        ]
    }

    /// Those that came since `before`, an earlier moment.
    pub fn since(&self, before: &Latencies) -> Latencies {
        Latencies {
            lookup_absent_ns: self.lookup_absent_ns.since(&before.lookup_absent_ns),
            lookup_found_ns: self.lookup_found_ns.since(&before.lookup_found_ns),
            scan_ns: self.scan_ns.since(&before.scan_ns),
            write_ns: self.write_ns.since(&before.write_ns),
        }
    }
}
