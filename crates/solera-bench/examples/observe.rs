//! What being observed costs: the same operations with sampling of times off, on, and on while an
//! observation is published.
//!
//! The three take turns on the same database, so that the machine's moods meet all. For each kind
//! of operation it prints nanoseconds in the median of all passes. It also prints the median of the
//! ratios to the pass without sampling of the same round.
//!
//! `cargo run --release -p solera-bench --example observe -- [entries] [operations per pass]
//! [rounds]`

use solera::{Compression, Db, Layout, Options, clock::Clock};
use solera_bench::random::Random;
use std::{env, error::Error, hint::black_box, time::Duration};

const VALUE: [u8; 64] = [7; 64];
const SCAN_ENTRIES: usize = 100;
/// A scan takes as long as so many lookups, nearly.
const LOOKUPS_PER_SCAN: u64 = 20;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Operation = fn(&Db, &[[u8; 8]]) -> Outcome<()>;

#[derive(Clone, Copy, PartialEq)]
enum Arm {
    Off,
    On,
    Published,
}

const ARMS: [Arm; 3] = [Arm::Off, Arm::On, Arm::Published];

fn main() -> Outcome<()> {
    let mut numbers = env::args().skip(1);
    let mut number = |default: u64| numbers.next().map_or(Ok(default), |text| text.parse());
    let (entries, operations, rounds) = (number(2_000_000)?, number(300_000)?, number(15)?);
    let directory = tempfile::tempdir()?;
    let db = load(directory.path(), entries)?;
    let kinds: [(&str, bool, u64, Operation); 4] = [
        ("found", false, operations, lookups),
        ("absent", true, operations, lookups),
        ("scan", false, (operations / LOOKUPS_PER_SCAN).max(1), scans),
        ("put", false, operations, puts),
    ];
    for (name, absent, operations, operation) in kinds {
        let mut ns = [const { Vec::new() }; ARMS.len()];
        for round in 0..=rounds {
            let mut random = Random::new(round);
            let keys: Vec<_> = (0..operations).map(|_| key(random.below(entries), absent)).collect();
            for turn in 0..ARMS.len() {
                let number = (turn + round as usize) % ARMS.len();
                let taken = pass(&db, ARMS[number], operation, &keys)?;
                // The first round warms up.
                if round > 0 {
                    ns[number].push(taken);
                }
            }
        }
        let ratios = |of: usize| ns[of].iter().zip(&ns[0]).map(|(on, off)| on / off).collect::<Vec<f64>>();
        println!(
            "{name:<7} off {:>8.1} ns   on {:>8.1} ns, {:.4} of off   published {:>8.1} ns, {:.4} of off",
            median(ns[0].clone()),
            median(ns[1].clone()),
            median(ratios(1)),
            median(ns[2].clone()),
            median(ratios(2)),
        );
    }
    Ok(())
}

/// The `i`-th key in the order of writing: even numbers are present, odd ones absent.
fn key(i: u64, absent: bool) -> [u8; 8] {
    (Random::new(i).draw() << 1 | u64::from(absent)).to_be_bytes()
}

/// A database in memory with a run in each of its levels.
fn load(directory: &std::path::Path, entries: u64) -> Outcome<Db> {
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    let options = Options::new().memory((entries * 200).max(64 << 20)).layout(layout);
    let db = options.open(directory)?;
    for i in 0..entries {
        db.put(key(i, false), VALUE)?;
    }
    db.flush()?;
    db.wait_idle()?;
    for entry in db.iter() {
        black_box(entry?);
    }
    Ok(db)
}

/// Nanoseconds of an operation, in the mean.
fn pass(db: &Db, arm: Arm, operation: Operation, keys: &[[u8; 8]]) -> Outcome<f64> {
    let control = db.control();
    control.sample_one_in(if arm == Arm::Off { 0 } else { solera::stats::SAMPLE_PERIOD });
    let every = Duration::from_millis(250);
    let _publisher = (arm == Arm::Published).then(|| control.publish(None, every)).transpose()?;
    let clock = solera::SystemClock::new();
    let before = clock.monotonic_ns();
    operation(db, keys)?;
    let ns = (clock.monotonic_ns() - before) as f64 / keys.len() as f64;
    // What puts left to be done is done before the next pass.
    db.wait_idle()?;
    Ok(ns)
}

fn lookups(db: &Db, keys: &[[u8; 8]]) -> Outcome<()> {
    for key in keys {
        black_box(db.get(key)?);
    }
    Ok(())
}

fn scans(db: &Db, keys: &[[u8; 8]]) -> Outcome<()> {
    for key in keys {
        let mut scan = db.range(&key[..]..);
        for _ in 0..SCAN_ENTRIES {
            if !scan.advance()? {
                break;
            }
            black_box(scan.value());
        }
    }
    Ok(())
}

fn puts(db: &Db, keys: &[[u8; 8]]) -> Outcome<()> {
    for key in keys {
        db.put(key, VALUE)?;
    }
    Ok(())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
