//! What giving back the space of separated values costs: a load, then Zipf updates of as many
//! values, three times; then reads.
//!
//! The ways (`inline`, `tier`, `rewrite`, `off`, and `learnedkv` if it is asked for) are
//! interleaved; any other name is `inline`. For each it prints medians over the rounds: bytes
//! written for each byte put, by cause too; bytes on disk for each live byte, at the peak, in the
//! mean and at the end; updates, found reads and scans a second; the longest puts. Before them
//! stand the fewest bytes that any way could move (`bound`).
//!
//! `cargo run --release -p solera-bench --example reclaim -- [entries] [value bytes] [rounds]
//! [ways] [memory in MiB] [background threads]`

use solera::{Clock, Compression, Db, Layout, Options, Reclaim, SystemClock};
use solera_bench::{random::Random, zipf::Zipf};
use std::{env, error::Error, fs, hint::black_box, path::Path};

const PHASES: u64 = 3;
const SCAN_ENTRIES: usize = 500;
const EXPONENT: f64 = 0.99;
/// The directory is measured once in so many puts.
const PUTS_PER_LOOK: u64 = 4096;

/// A put that takes so long is asked whether it waited for a processor. What puts since the last
/// one waited is taken for its own.
const SLOW_NS: u64 = 5_000_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

const FIGURES: [&str; 16] = [
    "load B/B",
    "update B/B",
    "log",
    "flushes",
    "tables merged",
    "values moved",
    "peak",
    "mean",
    "end",
    "updates/s",
    "reads/s",
    "scans/s",
    "put p99.9 us",
    "put max ms",
    "put max ms on a processor or asleep",
    "held max ms",
];

fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (entries, value_bytes, rounds) = (number(1, 200_000)?, number(2, 1016)? as usize, number(3, 3)?);
    let ways = arguments.get(4).map_or("inline,tier,rewrite,off", String::as_str);
    let ways: Vec<&str> = ways.split(',').collect();
    let (memory, threads) = (number(5, 64)?, number(6, 2)? as usize);
    let shape = Shape { entries, value_bytes, memory_bytes: memory << 20, threads };
    for spare in [0.1, 0.2, 0.3, 0.5, 1.0] {
        println!(
            "at least {:.3} bytes are moved for each byte put, with {spare} to spare",
            bound(entries, spare)
        );
    }
    let mut measured: Vec<Vec<[f64; FIGURES.len()]>> = vec![Vec::new(); ways.len()];
    for round in 0..rounds {
        for (way, measured) in ways.iter().zip(&mut measured) {
            measured.push(life(way, shape, round)?);
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

/// What is the same in all lives.
#[derive(Clone, Copy)]
struct Shape {
    entries: u64,
    value_bytes: usize,
    memory_bytes: u64,
    threads: usize,
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

/// For how long this thread was ready to run, and others were on the processors. 0 where the system
/// does not tell.
fn waited_ns() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    told.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Bytes written so far: to logs, by flushes, to tables by merges, to sorted value files.
fn written(db: &Db) -> [u64; 4] {
    let stats = db.stats();
    let counters = &stats.keyspaces[0].counters;
    let flushed = counters.bytes_written_flush;
    let observed = db.control().observe();
    let levels = observed.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    let merged = levels.map(|level| level.merges.bytes_in).sum::<u64>() - flushed;
    [stats.bytes_written_log, flushed, merged, counters.bytes_written_compaction - merged]
}

fn life(way: &str, shape: Shape, seed: u64) -> Outcome<[f64; FIGURES.len()]> {
    let Shape { entries, value_bytes, .. } = shape;
    let dir = tempfile::tempdir()?;
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    let options = Options::new().memory(shape.memory_bytes).layout(layout).background_threads(shape.threads);
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
    let (mut peak, mut space, mut looks, mut spent_ns) = (0, 0, 0, 0);
    let (mut took, mut own_max, mut waited) = (Vec::new(), 0, waited_ns());
    for nth in 0..entries * PHASES {
        random.fill(&mut value);
        let key = key(zipf.draw(&mut random).wrapping_mul(0x5851_f42d_4c95_7f2d) % entries);
        let begun = clock.monotonic_ns();
        db.put(key, &value)?;
        took.push(clock.monotonic_ns() - begun);
        let last = took[took.len() - 1];
        if last >= SLOW_NS || nth % PUTS_PER_LOOK == 0 {
            let now = waited_ns();
            own_max = own_max.max(last.saturating_sub(now - waited));
            waited = now;
        }
        if nth % PUTS_PER_LOOK == 0 {
            let bytes = bytes_on_disk(dir.path())?;
            (peak, space, looks) = (peak.max(bytes), space + bytes, looks + 1);
        }
    }
    spent_ns += took.iter().sum::<u64>();
    let begun = clock.monotonic_ns();
    db.flush()?;
    db.wait_idle()?;
    spent_ns += clock.monotonic_ns() - begun;
    let updated = written(&db);
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
    let of_put = |causes: &[usize]| {
        causes.iter().map(|&cause| updated[cause] - loaded[cause]).sum::<u64>() as f64 / put
    };
    Ok([
        loaded.iter().sum::<u64>() as f64 / live as f64,
        of_put(&[0, 1, 2, 3]),
        of_put(&[0]),
        of_put(&[1]),
        of_put(&[2]),
        of_put(&[3]),
        peak as f64 / live as f64,
        (space / looks) as f64 / live as f64,
        end as f64 / live as f64,
        (entries * PHASES) as f64 * 1e9 / spent_ns as f64,
        reads,
        scans,
        took[took.len() * 999 / 1000] as f64 / 1e3,
        took[took.len() - 1] as f64 / 1e6,
        own_max as f64 / 1e6,
        db.stats().keyspaces[0].counters.stall_us_max as f64 / 1e3,
    ])
}

/// What is moved for each byte put, at least, by an engine that moves values out of files that hold
/// garbage. It has so much room to `spare`, in parts of what is live. It knows how often each key
/// is written, and keeps keys of about the same rate in files of their own. In such files garbage
/// comes evenly. If each is emptied in turn when the part `p` of it is live, files are live for
/// `(p - 1) / ln p` in the mean, and `p / (1 - p)` is moved for each byte put. The room goes where
/// it saves most.
fn bound(entries: u64, spare: f64) -> f64 {
    const CLASSES: u32 = 60;
    let weight = |rank: u64| (rank as f64).powf(-EXPONENT);
    let all: f64 = (1..=entries).map(weight).sum();
    let edge = |class: u32| (entries as f64).powf(f64::from(class) / f64::from(CLASSES)).round() as u64;
    // The share of the keys and of the writes of each class.
    let classes: Vec<(f64, f64)> = (0..=CLASSES)
        .map(|class| (if class == 0 { 1 } else { edge(class - 1) + 1 }, edge(class)))
        .filter(|(first, last)| first <= last)
        .map(|(first, last)| {
            ((last - first + 1) as f64 / entries as f64, (first..=last).map(weight).sum::<f64>() / all)
        })
        .collect();
    let lives: Vec<f64> = (1..400).map(|step| 1.0 / (1.0 + (f64::from(step) / 20.0 - 10.0).exp())).collect();
    let room = |p: f64| p.ln() / (p - 1.0) - 1.0;
    // At a price of room, each class takes as much of it as is worth it.
    let at = |price: f64| {
        let (mut taken, mut moved) = (0.0, 0.0);
        for (keys, writes) in &classes {
            let cost = |p: f64| writes * p / (1.0 - p) + price * keys * room(p);
            let best = lives.iter().copied().min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(0.5);
            taken += keys * room(best);
            moved += writes * best / (1.0 - best);
        }
        (taken, moved)
    };
    let (mut cheap, mut dear) = (1e-9f64, 1e6f64);
    for _ in 0..60 {
        let price = (cheap * dear).sqrt();
        if at(price).0 > spare { cheap = price } else { dear = price }
    }
    at(dear).1
}
