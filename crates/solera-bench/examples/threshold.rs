//! What separated values cost values below the threshold: a database that separates nothing beside
//! one that separates large values.
//!
//! Both take the same load, reads, scans and updates of small values, interleaved. For each kind it
//! prints operations a second in the median of all rounds, and the median of the ratios within a
//! round. A ratio below 0.99 means that separation costs more than one percent.
//!
//! `cargo run --release -p solera-bench --example threshold -- [entries] [rounds]`

use solera::{Clock, Compression, Db, Layout, Options, SystemClock};
use solera_bench::random::Random;
use std::{env, error::Error, hint::black_box};

const VALUE: [u8; 64] = [7; 64];
const SEPARATE_FROM: u64 = 1024;
const SCAN_ENTRIES: usize = 100;
const KINDS: [&str; 4] = ["load", "found", "scan", "update"];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut numbers = env::args().skip(1);
    let mut number = |default: u64| numbers.next().map_or(Ok(default), |text| text.parse());
    let (entries, rounds) = (number(300_000)?, number(9)?);
    let mut rates: Vec<[[f64; KINDS.len()]; 2]> = Vec::new();
    for round in 0..rounds {
        let mut both = [[0.0; KINDS.len()]; 2];
        // Each arm goes first in every other round.
        for arm in [round % 2, 1 - round % 2] {
            both[arm as usize] = life(entries, arm == 1, round)?;
        }
        rates.push(both);
    }
    let median = |of: &dyn Fn(&[[f64; KINDS.len()]; 2]) -> f64| {
        let mut all: Vec<f64> = rates.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!("| operation | nothing separated | large values separated | ratio |\n|---|---|---|---|");
    for (at, kind) in KINDS.iter().enumerate() {
        let (off, on) = (median(&|both| both[0][at]), median(&|both| both[1][at]));
        println!("| {kind} | {off:.0}/s | {on:.0}/s | {:.3} |", median(&|both| both[1][at] / both[0][at]));
    }
    Ok(())
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn life(entries: u64, separates: bool, seed: u64) -> Outcome<[f64; KINDS.len()]> {
    let dir = tempfile::tempdir()?;
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    let options = Options::new().memory(256 << 20).layout(layout);
    let options = if separates { options.separate_values_from(SEPARATE_FROM) } else { options };
    let db = options.open(dir.path())?;
    let (clock, mut random) = (SystemClock::new(), Random::new(seed));
    let rate = |count: u64, work: &mut dyn FnMut(&Db, u64) -> Outcome<()>| -> Outcome<f64> {
        let begun = clock.monotonic_ns();
        for n in 0..count {
            work(&db, n)?;
        }
        Ok(count as f64 * 1e9 / (clock.monotonic_ns() - begun) as f64)
    };
    let load = rate(entries, &mut |db, n| Ok(db.put(key(n), VALUE)?))?;
    db.flush()?;
    db.compact_range(..)?;
    let found = rate(entries, &mut |db, _| {
        black_box(db.get(key(random.below(entries)))?.ok_or("a key is missing")?);
        Ok(())
    })?;
    let scan = rate(entries / 50, &mut |db, _| {
        let from = key(random.below(entries));
        for pair in db.range(&from[..]..).take(SCAN_ENTRIES) {
            black_box(pair?);
        }
        Ok(())
    })?;
    let update = rate(entries, &mut |db, _| Ok(db.put(key(random.below(entries)), VALUE)?))?;
    Ok([load, found, scan, update])
}
