//! Twelve workloads, most of which do not stay as they are: `Drift`, a name and a sequence of
//! epochs, each a `Phase`.
//!
//! `Drift::all` has hot keys that move, mixes in turns, YCSB's A to F, storms of deletes, values of
//! changing size, and others. `length` says how long its epochs are, beside those of the others.
//!
//! What must hold: a tuner that was right in one epoch may be wrong in the next. Three are there
//! for the contrary: growth, reads and writes, each of which stays the same for six epochs.
//!
//! Callers: the pages `epochs`, `safety` and `together` of `solera-bench`.

use super::{Keys, Phase};

/// A workload that drifts.
#[derive(Clone, Debug)]
pub struct Drift {
    /// Its name.
    pub name: &'static str,
    /// What is asked for, one after the other.
    pub epochs: Vec<Phase>,
    /// How long an epoch is, of those of the others.
    pub length: f64,
}

/// Hot keys at a place: 90 % of the operations are of 10 % of the keys.
fn hot(at_permille: u64) -> Keys {
    Keys::Hot { at_permille, size_permille: 100, share_permille: 900 }
}

fn phase(shares: [f64; 4], keys: Keys) -> Phase {
    Phase { keys, ..Phase::of(shares) }
}

impl Drift {
    /// All twelve.
    pub fn all() -> Vec<Drift> {
        let of = |name, epochs| Drift { name, epochs, length: 1.0 };
        vec![
            of("ycsb in turns", ycsb()),
            of(
                "moving hot set",
                [0, 200, 400, 600, 800, 100].map(|at| phase([0.0, 80.0, 0.0, 20.0], hot(at))).into(),
            ),
            of("delete storm", delete_storm()),
            of("scan bursts", turns(3, [0.0, 70.0, 0.0, 30.0], [0.0, 10.0, 80.0, 10.0])),
            of("growth", growth()),
            of(
                "value sizes",
                [100, 400, 50, 1000, 100, 200]
                    .map(|bytes| Phase {
                        value_bytes: Some(bytes),
                        ..phase([5.0, 45.0, 0.0, 50.0], Keys::Even)
                    })
                    .into(),
            ),
            Drift {
                length: 1.0 / 12.0,
                ..of("oscillation", turns(36, [0.0, 90.0, 0.0, 10.0], [0.0, 10.0, 0.0, 90.0]))
            },
            Drift {
                length: 1.5,
                ..of("night and day", turns(2, [5.0, 5.0, 0.0, 90.0], [10.0, 80.0, 5.0, 5.0]))
            },
            of("reads that stay", vec![phase([20.0, 75.0, 0.0, 5.0], Keys::Even); 6]),
            of("writes that stay", vec![phase([0.0, 10.0, 0.0, 90.0], Keys::Even); 6]),
            of(
                "slow ramp",
                [90.0, 75.0, 60.0, 45.0, 30.0, 15.0]
                    .map(|write| phase([0.0, 100.0 - write, 0.0, write], Keys::Even))
                    .into(),
            ),
            of("absent keys", turns(3, [80.0, 10.0, 0.0, 10.0], [5.0, 35.0, 0.0, 60.0])),
        ]
    }
}

/// One after the other, so many times.
fn turns(times: usize, one: [f64; 4], other: [f64; 4]) -> Vec<Phase> {
    (0..times).flat_map(|_| [phase(one, Keys::Even), phase(other, Keys::Even)]).collect()
}

/// YCSB's workloads A to F: updates, some updates, reads, newest, short scans, read and write back.
fn ycsb() -> Vec<Phase> {
    let insert = |phase: Phase| Phase { inserts_permille: 1000, ..phase };
    vec![
        phase([0.0, 50.0, 0.0, 50.0], hot(0)),
        phase([0.0, 95.0, 0.0, 5.0], hot(0)),
        phase([0.0, 100.0, 0.0, 0.0], hot(0)),
        insert(phase([0.0, 95.0, 0.0, 5.0], hot(900))),
        insert(phase([0.0, 0.0, 95.0, 5.0], hot(0))),
        phase([0.0, 67.0, 0.0, 33.0], hot(0)),
    ]
}

fn delete_storm() -> Vec<Phase> {
    let quiet = phase([10.0, 60.0, 0.0, 30.0], Keys::Even);
    let storm = Phase { deletes_permille: 500, ..phase([10.0, 30.0, 0.0, 60.0], Keys::Even) };
    let refill = Phase { inserts_permille: 600, ..phase([10.0, 30.0, 0.0, 60.0], Keys::Even) };
    vec![quiet, storm, refill, quiet, storm, refill]
}

fn growth() -> Vec<Phase> {
    let grow = Phase { inserts_permille: 1000, ..phase([5.0, 35.0, 0.0, 60.0], Keys::Even) };
    vec![grow; 6]
}
