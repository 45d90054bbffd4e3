//! What giving back the space of separated values costs: a load, then Zipf updates of as many
//! values, three times, for each way of keeping values; reads and scans after it.
//!
//! `cargo run --release -p solera-bench --example reclaim -- [entries] [value bytes] [rounds]
//! [ways]`
//!
//! For each way (`inline`, `tier`, `rewrite`, `learnedkv`, `off`), the medians over the rounds,
//! which are interleaved: bytes written per byte put in the load and in the updates, updates a
//! second, found reads a second, scans of 500 a second, and value bytes on disk per live byte, at
//! the peak and at the end.

use solera::{Clock, Compression, Db, Layout, Options, Reclaim, SystemClock};
use solera_bench::{random::Random, zipf::Zipf};
use std::{env, error::Error, fs, hint::black_box, path::Path};

const MEMORY_BYTES: u64 = 64 << 20;
const PHASES: u64 = 3;
const SCAN_ENTRIES: usize = 500;
const EXPONENT: f64 = 0.99;
/// The directory is measured once in so many puts.
const PUTS_PER_LOOK: u64 = 4096;

type Outcome<T> = Result<T, Box<dyn Error>>;

const FIGURES: [&str; 9] = [
    "load B/B",
    "update B/B",
    "peak",
    "end",
    "updates/s",
    "reads/s",
    "scans/s",
    "put p99.9 us",
    "put max ms",
];

fn main() -> Outcome<()> {
    let mut arguments = env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (entries, value_bytes, rounds) = (number(200_000)?, number(1016)? as usize, number(3)?);
    let ways = arguments.next().unwrap_or_else(|| "inline,tier,rewrite,off".to_owned());
    let ways: Vec<&str> = ways.split(',').collect();
    let mut measured: Vec<Vec<[f64; FIGURES.len()]>> = vec![Vec::new(); ways.len()];
    for round in 0..rounds {
        for (way, measured) in ways.iter().zip(&mut measured) {
            measured.push(life(way, entries, value_bytes, round)?);
        }
    }
    println!("| way | {} |\n|---{}|", FIGURES.join(" | "), "|---".repeat(FIGURES.len()));
    for (way, rounds) in ways.iter().zip(&measured) {
        let median = |figure: usize| {
            let mut all: Vec<f64> = rounds.iter().map(|figures| figures[figure]).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let figures: Vec<_> = (0..FIGURES.len()).map(|figure| format!("{:.2}", median(figure))).collect();
        println!("| {way} | {} |", figures.join(" | "));
    }
    Ok(())
}

/// Keys spread over all keys; the same for all ways.
fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn bytes_on_disk(dir: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for file in fs::read_dir(dir)? {
        // One may go meanwhile.
        bytes += file?.metadata().map_or(0, |metadata| metadata.len());
    }
    Ok(bytes)
}

fn written(db: &Db) -> u64 {
    let stats = db.stats();
    let counters = &stats.keyspaces[0].counters;
    stats.bytes_written_log + counters.bytes_written_flush + counters.bytes_written_compaction
}

fn life(way: &str, entries: u64, value_bytes: usize, seed: u64) -> Outcome<[f64; FIGURES.len()]> {
    let dir = tempfile::tempdir()?;
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    let options = Options::new().memory(MEMORY_BYTES).layout(layout);
    let db = match Reclaim::ALL.into_iter().find(|reclaim| reclaim.name() == way) {
        Some(reclaim) => options.separate_values_from(256).reclaim(reclaim),
        None => options,
    }
    .open(dir.path())?;
    let (clock, mut random) = (SystemClock::new(), Random::new(seed));
    let zipf = Zipf::new(entries, EXPONENT);
    let mut value = vec![0; value_bytes];
    let live = entries * (8 + value_bytes as u64);
    for n in 0..entries {
        random.fill(&mut value);
        db.put(key(n), &value)?;
    }
    db.flush()?;
    db.wait_idle()?;
    let loaded = written(&db);
    let (mut peak, mut spent_ns) = (0, 0);
    let mut took = Vec::new();
    for nth in 0..entries * PHASES {
        random.fill(&mut value);
        let key = key(zipf.draw(&mut random).wrapping_mul(0x5851_f42d_4c95_7f2d) % entries);
        let begun = clock.monotonic_ns();
        db.put(key, &value)?;
        took.push(clock.monotonic_ns() - begun);
        if nth % PUTS_PER_LOOK == 0 {
            peak = peak.max(bytes_on_disk(dir.path())?);
        }
    }
    spent_ns += took.iter().sum::<u64>();
    let begun = clock.monotonic_ns();
    db.flush()?;
    db.wait_idle()?;
    spent_ns += clock.monotonic_ns() - begun;
    let updated = written(&db) - loaded;
    let end = bytes_on_disk(dir.path())?;
    let rate = |count: u64, work: &mut dyn FnMut() -> Outcome<()>| -> Outcome<f64> {
        let begun = clock.monotonic_ns();
        for _ in 0..count {
            work()?;
        }
        Ok(count as f64 * 1e9 / (clock.monotonic_ns() - begun) as f64)
    };
    let reads = rate(entries / 2, &mut || {
        let found = db.get(key(zipf.draw(&mut random).wrapping_mul(0x5851_f42d_4c95_7f2d) % entries))?;
        black_box(found.ok_or("a key is missing")?);
        Ok(())
    })?;
    let scans = rate(400, &mut || {
        let from = key(random.below(entries));
        for pair in db.range(&from[..]..).take(SCAN_ENTRIES) {
            black_box(pair?);
        }
        Ok(())
    })?;
    took.sort_unstable();
    let put = (PHASES * live) as f64;
    Ok([
        loaded as f64 / live as f64,
        updated as f64 / put,
        peak as f64 / live as f64,
        end as f64 / live as f64,
        (entries * PHASES) as f64 * 1e9 / spent_ns as f64,
        reads,
        scans,
        took[took.len() * 999 / 1000] as f64 / 1e3,
        took[took.len() - 1] as f64 / 1e6,
    ])
}
