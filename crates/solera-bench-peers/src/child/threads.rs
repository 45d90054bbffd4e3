//! How the work of a phase is divided among client threads and put together again: `shares`,
//! `together`, `Done`.
//!
//! A phase passes the shares and two closures: the first prepares a client, the second does its
//! work. A `Done` is what one client did. Several are merged into one, which lasts from the
//! earliest start to the latest end. `random_of` gives each client random numbers of its own.
//!
//! What must hold: each item lies in exactly one share. If there is only one share, the calling
//! thread does it, so one client is measured as its loop alone. If one client cannot be prepared,
//! none begins.
//!
//! Callers: `child::{aged, device, load, mixed, reads}`.

use crate::{engine::Result, phase::Measured};
use hdrhistogram::Histogram;
use solera::clock::{Clock, SystemClock};
use solera_bench::{measure::Pass, random::Random};
use std::{
    ops::Range,
    sync::{RwLock, mpsc},
    thread::{self, Builder},
};

/// `0..count` in so many parts, one behind the other, of lengths that differ by one at most.
pub(super) fn shares(count: usize, clients: usize) -> Vec<Range<usize>> {
    (0..clients).map(|client| count * client / clients..count * (client + 1) / clients).collect()
}

/// What a client draws its operations from. The first, which may be the only one, draws what the
/// phase's seed says.
pub(super) fn random_of(seed: u64, client: usize) -> Random {
    Random::new(seed ^ (client as u64) << 24)
}

/// Does each share by a client of its own, all at the same time, and returns what they did, in the
/// order of the shares. A client first prepares what it does its share with; none begins before all
/// are prepared. One that cannot be started or prepared keeps the others from beginning.
pub(super) fn together<S: Send, P, T: Send>(
    shares: Vec<S>,
    prepare: impl Fn() -> Result<P> + Sync,
    work: impl Fn(S, P) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    if shares.len() == 1 {
        return shares.into_iter().map(|share| work(share, prepare()?)).collect();
    }
    let clients = shares.len();
    let (prepare, work) = (&prepare, &work);
    // All clients wait for the gate, and see behind it whether they may begin.
    let gate = &RwLock::new(false);
    thread::scope(|scope| {
        let mut closed = gate.write().map_err(|_| "the gate of the clients is poisoned")?;
        let (ready, is_ready) = mpsc::channel();
        let mut threads = Vec::with_capacity(clients);
        for share in shares {
            let ready = ready.clone();
            threads.push(Builder::new().name("client".into()).spawn_scoped(scope, move || {
                let prepared = prepare()?;
                let _ = ready.send(());
                drop(ready);
                let may_begin = gate.read().is_ok_and(|open| *open);
                may_begin.then(|| work(share, prepared)).transpose()
            })?);
        }
        // The channel ends when every client is ready or gone, whatever became of it.
        drop(ready);
        *closed = is_ready.iter().count() == clients;
        drop(closed);
        let done: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let done: Result<Vec<Option<T>>> =
            done.into_iter().map(|done| done.map_err(|_| "a client panicked")?).collect();
        done?.into_iter().collect::<Option<_>>().ok_or_else(|| "a client did not begin".into())
    })
}

/// What a client did, or several of them together.
#[derive(Clone, Debug)]
pub(super) struct Done {
    /// When the first client began, by the clock.
    pub start_ns: u64,
    /// When the last operation of the last client ended.
    pub end_ns: u64,
    pub operations: u64,
    /// Answers that were wrong.
    pub wrong: u64,
    /// The greatest latency of a write.
    pub write_ns_max: u64,
    /// Where each operation was timed.
    pub latencies: Option<Histogram<u64>>,
}

impl Done {
    /// Nothing yet. The clock runs from now on.
    pub fn begin(clock: &SystemClock) -> Self {
        let now = clock.monotonic_ns();
        let (start_ns, end_ns) = (now, now);
        Done { start_ns, end_ns, operations: 0, wrong: 0, write_ns_max: 0, latencies: None }
    }

    /// Nothing yet, and every operation will be timed.
    pub fn begin_timed(clock: &SystemClock) -> Self {
        let latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are legal");
        Done { latencies: Some(latencies), ..Done::begin(clock) }
    }

    /// Of a timed loop.
    pub fn of(pass: Pass, latencies: Option<Histogram<u64>>) -> Self {
        let Pass { operations, start_ns, ns, wrong } = pass;
        Done { start_ns, end_ns: start_ns + ns, operations, wrong, write_ns_max: 0, latencies }
    }

    /// One more operation or several have ended now. Returns how long they took: since those before
    /// ended.
    #[inline]
    pub fn lap(&mut self, clock: &SystemClock, operations: u64) -> u64 {
        let now = clock.monotonic_ns();
        let ns = now - self.end_ns;
        self.end_ns = now;
        self.operations += operations;
        if let Some(latencies) = &mut self.latencies {
            latencies.saturating_record(ns);
        }
        ns
    }

    /// From the beginning to the end.
    #[inline]
    pub fn ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }

    /// All that clients did at the same time: from the moment the first began until the last ended.
    pub fn of_all(clients: Vec<Done>) -> Result<Done> {
        clients.into_iter().reduce(Done::and).ok_or_else(|| "nobody did anything".into())
    }

    fn and(mut self, other: Done) -> Done {
        self.start_ns = self.start_ns.min(other.start_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.operations += other.operations;
        self.wrong += other.wrong;
        self.write_ns_max = self.write_ns_max.max(other.write_ns_max);
        self.latencies = self.latencies.zip(other.latencies).map(|(sum, more)| sum + more);
        self
    }

    /// Its latencies, if any was timed: p50, p95, p99, p99.9 and the greatest.
    pub fn quantiles(&self) -> Option<[u64; 5]> {
        let latencies = self.latencies.as_ref()?;
        let at = |quantile| latencies.value_at_quantile(quantile);
        Some([at(0.5), at(0.95), at(0.99), at(0.999), latencies.max()])
    }

    /// As it is told, without what only the phase knows.
    pub fn measured(&self) -> Measured {
        Measured {
            operations: self.operations,
            seconds: self.ns() as f64 / 1e9,
            latency_ns: self.quantiles(),
            wrong: self.wrong,
            ..Measured::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::{Duration, Instant},
    };

    #[test]
    fn shares_lose_nothing_and_have_nothing_twice() {
        for (count, clients) in [(0, 1), (0, 3), (1, 1), (2, 3), (3, 3), (10, 4), (1_000_003, 7), (5, 1000)] {
            let shares = shares(count, clients);
            assert_eq!(shares.len(), clients);
            assert!(shares.iter().cloned().flatten().eq(0..count), "{count} {clients}");
            let lengths = || shares.iter().map(ExactSizeIterator::len);
            assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1, "{count} {clients}");
        }
    }

    #[test]
    fn clients_do_their_shares_at_the_same_time_and_one_does_it_where_it_is() {
        let here = thread::current().id();
        for clients in [1, 2, 5] {
            let (prepared, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let done = together(
                (0..clients).collect(),
                || Ok(prepared.fetch_add(1, Ordering::SeqCst)),
                |share: usize, _| {
                    let prepared = prepared.load(Ordering::SeqCst);
                    begun.fetch_add(1, Ordering::SeqCst);
                    let last = Instant::now() + Duration::from_secs(60);
                    while begun.load(Ordering::SeqCst) < clients && Instant::now() < last {
                        thread::yield_now();
                    }
                    let met = begun.load(Ordering::SeqCst);
                    Ok((share * share, (prepared, met, thread::current().id())))
                },
            )
            .unwrap();
            let (squares, threads): (Vec<_>, Vec<_>) = done.into_iter().unzip();
            assert!(squares.into_iter().eq((0..clients).map(|share| share * share)));
            for (prepared, met, thread) in threads {
                assert_eq!((prepared, met, thread == here), (clients, clients, clients == 1));
            }
        }
    }

    #[test]
    fn no_client_begins_if_one_fails_or_panics_before() {
        for panics in [false, true] {
            let (prepared, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let prepare = || match prepared.fetch_add(1, Ordering::SeqCst) {
                1 if panics => panic!("a reader panics"),
                1 => Err("no reader".into()),
                _ => Ok(()),
            };
            let done = together(vec![(); 4], prepare, |(), ()| Ok(begun.fetch_add(1, Ordering::SeqCst)));
            let said = done.unwrap_err().to_string();
            assert_eq!(said, if panics { "a client panicked" } else { "no reader" });
            assert_eq!((prepared.into_inner(), begun.into_inner()), (4, 0));
        }
    }

    #[test]
    fn what_one_client_meets_later_fails_all() {
        let work = |share, ()| if share == 2 { Err("disk full".into()) } else { Ok(share) };
        assert_eq!(together(vec![1, 2, 3], || Ok(()), work).unwrap_err().to_string(), "disk full");
        assert_eq!(together(vec![2], || Ok(()), work).unwrap_err().to_string(), "disk full");
    }

    #[test]
    fn what_clients_did_is_from_the_first_beginning_to_the_last_end() {
        let clock = SystemClock::new();
        let client = |start_ns, end_ns, wrong, latencies: &[u64]| {
            let mut done = Done::begin_timed(&clock);
            let histogram = done.latencies.as_mut().unwrap();
            latencies.iter().for_each(|&ns| histogram.record(ns).unwrap());
            let (operations, write_ns_max) = (latencies.len() as u64, latencies[0]);
            Done { start_ns, end_ns, operations, wrong, write_ns_max, ..done }
        };
        let alone = Done::of_all(vec![client(50, 80, 1, &[7])]).unwrap();
        assert_eq!((alone.ns(), alone.operations, alone.wrong, alone.write_ns_max), (30, 1, 1, 7));
        let all = vec![
            client(100, 1100, 1, &[10; 60]),
            client(90, 600, 2, &[500; 39]),
            client(95, 1090, 0, &[900]),
        ];
        let all = Done::of_all(all).unwrap();
        assert_eq!((all.start_ns, all.end_ns, all.write_ns_max), (90, 1100, 900));
        // Not the median of medians: each operation counts as one.
        assert_eq!(all.quantiles(), Some([10, 500, 500, 900, 900]));
        let measured = all.measured();
        assert_eq!((measured.operations, measured.wrong, measured.seconds), (100, 3, 1010.0 / 1e9));
        assert!(Done::of_all(Vec::new()).is_err());
    }

    #[test]
    fn laps_follow_one_another() {
        let clock = SystemClock::new();
        let mut done = Done::begin_timed(&clock);
        let ns = done.lap(&clock, 64) + done.lap(&clock, 64);
        assert_eq!((done.operations, done.ns()), (128, ns));
        assert_eq!(done.latencies.unwrap().len(), 2);
    }
}
