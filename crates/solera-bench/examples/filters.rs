//! What filters by level are worth: spreads and kinds of filters with equally many bits, and one
//! with three quarters of them, interleaved.
//!
//! The same random writes are loaded under each; then come lookups of absent and of present keys.
//! For each it prints, by level, bits for each entry and how many filters a lookup asks and passes.
//! Then come blocks that an absent lookup looks into, expected and measured, and nanoseconds of a
//! lookup.
//!
//! `cargo run --release -p solera-bench --example filters -- [entries] [bits per key]`

use solera::{
    Compression, Db, FilterKind, FilterSpec, Filters, Layout, Options, Shape, clock::Clock, filter,
};
use solera_bench::random::Random;
use std::{env, error::Error};

const VALUE: [u8; 64] = [7; 64];
const LOOKUPS: u64 = 400_000;
const REPEATS: usize = 5;

struct Arm {
    filters: Filters,
    db: Db,
    _directory: tempfile::TempDir,
    absent_ns: Vec<f64>,
    found_ns: Vec<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = env::args().skip(1);
    let entries: u64 = numbers.next().map_or(Ok(2_000_000), |text| text.parse())?;
    let bits: f32 = numbers.next().map_or(Ok(10.0), |text| text.parse())?;
    let asked = [
        Filters::uniform(bits),
        Filters::monkey(bits),
        Filters::uniform(bits).with_last_level(FilterKind::Ribbon),
        Filters::monkey(bits).with_last_level(FilterKind::Ribbon),
        Filters::monkey(0.75 * bits).with_last_level(FilterKind::Ribbon),
    ];
    let mut arms =
        asked.map(|filters| Arm::load(filters, entries)).into_iter().collect::<Result<Vec<_>, _>>()?;
    for repeat in 0..=REPEATS as u64 {
        for arm in &mut arms {
            let [absent, found] = [arm.read(entries, repeat, true)?, arm.read(entries, repeat, false)?];
            if repeat > 0 {
                arm.absent_ns.push(absent);
                arm.found_ns.push(found);
            }
        }
    }
    for arm in &mut arms {
        arm.report()?;
    }
    Ok(())
}

/// The `i`-th key in the order of writing: even numbers are present, odd ones absent.
fn key(i: u64, absent: bool) -> [u8; 8] {
    (Random::new(i).draw() << 1 | u64::from(absent)).to_be_bytes()
}

impl Arm {
    fn load(filters: Filters, entries: u64) -> Result<Arm, Box<dyn Error>> {
        let directory = tempfile::tempdir()?;
        let shape = Shape { table_bytes: 2 << 20, ..Shape::default() };
        let layout = Layout { filter: filters, compression: Compression::None, ..Layout::default() };
        let options = Options::new().memory((entries * 160).max(64 << 20)).write_buffer(128 << 10);
        // Without threads, every arm comes to a tree of the same levels and runs.
        let db = options.layout(layout).shape(shape).background_threads(0).open(directory.path())?;
        for i in 0..entries {
            db.put(key(i, false), VALUE)?;
        }
        db.flush()?;
        while db.step()? {}
        // Two more runs in level 0: as many as there are in the mean.
        for part in 0..2 {
            for i in 0..1500 {
                db.put(key(i * 2 + part, false), VALUE)?;
            }
            db.flush()?;
        }
        Ok(Arm { filters, db, _directory: directory, absent_ns: Vec::new(), found_ns: Vec::new() })
    }

    /// Nanoseconds of a lookup, in the mean.
    fn read(&self, entries: u64, repeat: u64, absent: bool) -> Result<f64, Box<dyn Error>> {
        let mut random = Random::new(repeat);
        let keys: Vec<_> = (0..LOOKUPS).map(|_| key(random.below(entries), absent)).collect();
        let clock = solera::SystemClock::new();
        let before = clock.monotonic_ns();
        let mut found = 0;
        for key in &keys {
            found += u64::from(self.db.get(key)?.is_some());
        }
        let ns = (clock.monotonic_ns() - before) as f64 / LOOKUPS as f64;
        match found == if absent { 0 } else { LOOKUPS } {
            true => Ok(ns),
            false => Err(format!("{found} of {LOOKUPS} keys found").into()),
        }
    }

    fn report(&mut self) -> Result<(), Box<dyn Error>> {
        let stats = self.db.default().stats();
        println!("{}", self.filters);
        let last = stats.levels.iter().rposition(|level| !level.runs.is_empty()).unwrap_or(0);
        let before = stats;
        self.read(before.entries, 77, true)?;
        let stats = self.db.default().stats();
        let per_lookup = |count: u64| count as f64 / LOOKUPS as f64;
        let (mut asked, mut expected) = (0.0, 0.0);
        for (level, before) in
            stats.levels.iter().zip(&before.levels).filter(|(level, _)| !level.runs.is_empty())
        {
            let kind = if level.level as usize == last { self.filters.last_level } else { FilterKind::Bloom };
            let spec = FilterSpec { kind, bits_per_key: level.filter_bits_per_key as f32 };
            let counted = level.counters.since(&before.counters);
            asked += per_lookup(counted.filter_probes());
            expected += per_lookup(counted.filter_probes()) * filter::false_positives(spec);
            println!(
                "  level {}: {} runs, {} entries, {:.2} bits per entry, next {}; {:.2} filters asked, {:.5} passes",
                level.level,
                level.runs.len(),
                level.runs.iter().map(|run| run.entries).sum::<u64>(),
                level.filter_bits_per_key,
                level.filter_next,
                per_lookup(counted.tables_probed()),
                per_lookup(counted.filter_passes),
            );
        }
        let blocks = stats.counters.blocks_probed - before.counters.blocks_probed;
        println!(
            "  {:.2} bits per entry; an absent lookup asks {asked:.2} filters and looks into {:.4} blocks, expected {expected:.4}; {:.0} ns, found {:.0} ns",
            stats.filter_bytes as f64 * 8.0 / stats.entries as f64,
            per_lookup(blocks),
            median(&mut self.absent_ns),
            median(&mut self.found_ns),
        );
        Ok(())
    }
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
