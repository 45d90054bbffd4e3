//! `solera bench space`: whether the space of what is gone comes back, and what is passed over for
//! it.
//!
//! Owns the rows: what each does, what is asked of it, and the verdict. Most look at the space of
//! old versions, of expired and of deleted entries. Some of these call `compact_range`. One counts
//! entries left after deletes under a snapshot; others time the first step over a queue.
//! `--percent` scales the counts of entries and pops, not what is asked. With `--counted` databases
//! lie in memory, time is a number, and background work is done in steps that are counted.
//!
//! What must hold: where space is to come back without a call, none is made once it could. Such a
//! row looks at the directory until it has, or ten seconds are over. A row that does not hold makes
//! the command fail, after all rows. An error ends it at once. What is counted does not depend on
//! the machine, nor on what else runs there.
//!
//! Caller: `command::bench`.

use super::scratch::Scratch;
use crate::{
    failure::{Failure, Outcome, Result},
    output::{print_json, print_text},
    units,
};
use serde_json::json;
use solera::{
    Clock, Db, ManualClock, Options, SystemClock,
    vfs::{Fs, mem::MemFs},
};
use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Space may be so many times that of what is live, in tenths, and two write buffers.
const SPACE_TENTHS: u64 = 13;
/// Within so long after the last write.
const REST: Duration = Duration::from_secs(10);
/// Between two looks at the directory.
const LOOK: Duration = Duration::from_millis(100);
/// A first step may take so many times that of a queue without a history.
const FIRST_TIMES: f64 = 2.0;
/// A first step that is counted may pass so many keys and blocks more than there.
const FIRST_MORE: u64 = 8;
/// First steps that are measured together; their median counts.
const FIRSTS: usize = 101;
/// Entries that stay in a queue.
const LEFT: u64 = 1000;
const VALUE_BYTES: usize = 200;

/// Measure whether space comes back: of old versions, expired and deleted entries, and queues
#[derive(Debug, clap::Args)]
pub(super) struct SpaceBench {
    /// Sizes, in percent of those of the rows: 100,000 entries, 1,000,000 where most are deleted,
    /// and queues of 10,000,000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = units::whole::<u64>(1, 1000))]
    percent: u64,
    /// Memory of each database, such as 64M or 1G
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = units::parse_bytes)]
    memory: u64,
    /// Count instead of measuring: databases in memory, time that passes when nothing is left to
    /// do, steps of background work, and what a first step passes. Two runs print the same
    #[arg(long)]
    counted: bool,
    /// Where to make the temporary databases [default: the system's place]
    #[arg(long, value_name = "DIR", conflicts_with = "counted")]
    dir: Option<PathBuf>,
    /// Print each row as one JSON object
    #[arg(long)]
    json: bool,
}

/// What one row asked and measured.
struct Row {
    what: String,
    asked: String,
    measured: String,
    holds: bool,
}

impl SpaceBench {
    pub(super) fn run(&self) -> Result<Outcome> {
        let scratch = Scratch::new(self.dir.as_deref())?;
        let mut missed = 0;
        let rows: [&dyn Fn(&Bench<'_>) -> Result<Vec<Row>>; 5] =
            [&old_versions, &expired, &deleted, &held_tombstones, &queues];
        if !self.json {
            print_text("| what | asked | measured | verdict |\n|---|---|---|---|")?;
        }
        for (number, row) in rows.iter().enumerate() {
            let dir = scratch.path().join(number.to_string());
            let bench =
                Bench { dir: &dir, percent: self.percent, memory: self.memory, counted: self.counted };
            for Row { what, asked, measured, holds } in row(&bench)? {
                missed += u64::from(!holds);
                if self.json {
                    print_json(&json!({"what": what, "asked": asked, "measured": measured, "holds": holds}))?;
                } else {
                    let verdict = if holds { "holds" } else { "**does not hold**" };
                    print_text(&format!("| {what} | {asked} | {measured} | {verdict} |"))?;
                }
            }
        }
        match missed {
            0 => Ok(Outcome::Done),
            1 => Err(Failure::Error("a row does not hold".into())),
            _ => Err(Failure::Error(format!("{missed} rows do not hold"))),
        }
    }
}

/// Where a row makes its databases, and how large they are.
struct Bench<'b> {
    dir: &'b Path,
    percent: u64,
    memory: u64,
    counted: bool,
}

impl Bench<'_> {
    fn sized(&self, count: u64) -> u64 {
        (count * self.percent / 100).max(1)
    }

    fn open(&self, name: &str) -> Result<Place> {
        let dir = self.dir.join(name);
        let options = Options::new().memory(self.memory);
        let (options, world) = match self.counted {
            false => {
                std::fs::create_dir_all(&dir)
                    .map_err(|error| Failure::file("create", dir.display(), &error))?;
                (options, None)
            }
            true => {
                let (fs, clock) = (Arc::new(MemFs::new()), Arc::new(ManualClock::at_unix_ms(1_000_000)));
                let options = options.fs(fs.clone()).clock(clock.clone()).background_threads(0).seed(1);
                (options, Some(World { fs, clock }))
            }
        };
        Ok(Place { db: options.open(&dir)?, dir, world, buffers: self.memory / 16 * 2 })
    }
}

/// Files in memory, and a clock that moves when it is told to.
struct World {
    fs: Arc<MemFs>,
    clock: Arc<ManualClock>,
}

/// A database and its directory.
struct Place {
    db: Db,
    dir: PathBuf,
    /// Where files and time are not the machine's.
    world: Option<World>,
    /// Two write buffers.
    buffers: u64,
}

impl Place {
    /// What its files take of the disk.
    fn disk(&self) -> u64 {
        if let Some(World { fs, .. }) = &self.world {
            let names = fs.list_dir(&self.dir).unwrap_or_default();
            let len = |name: &String| fs.open(&self.dir.join(name)).and_then(|file| file.len()).unwrap_or(0);
            return names.iter().map(len).sum();
        }
        let files = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
    }

    /// Puts `count` entries, in an order that is not theirs, and flushes them.
    fn fill(&self, count: u64, seed: u8) -> Result<()> {
        for number in 0..count {
            self.db.put(mixed(number), value(number, seed))?;
        }
        Ok(self.db.flush()?)
    }

    /// Lets time pass.
    fn sleep(&self, time: Duration) {
        match &self.world {
            Some(world) => world.clock.advance(time),
            None => SystemClock::new().sleep(time),
        }
    }

    /// As [`Place::after_rest`], where nothing happens but what is done here.
    fn after_steps(&self, asked: u64) -> Result<(u64, String)> {
        let (mut steps, mut rested) = (0, Duration::ZERO);
        while self.disk() > asked && rested <= REST {
            match self.db.step()? {
                true => steps += 1,
                false => {
                    self.sleep(LOOK);
                    rested += LOOK;
                }
            }
        }
        Ok((self.disk(), format!("{} and {} s", units::plural(steps, "step"), rested.as_secs_f64())))
    }

    /// The space once it is at most `asked`, or when the rest is over; and how long that took.
    fn after_rest(&self, asked: u64) -> Result<(u64, String)> {
        if self.world.is_some() {
            return self.after_steps(asked);
        }
        let clock = SystemClock::new();
        let since = clock.monotonic_ns();
        loop {
            let (disk, passed) = (self.disk(), clock.monotonic_ns() - since);
            if disk <= asked || passed > REST.as_nanos() as u64 {
                return Ok((disk, format!("{:.1} s", passed as f64 / 1e9)));
            }
            clock.sleep(LOOK);
        }
    }

    /// The row of what is to come to `live` bytes without a call.
    fn comes_back(&self, what: String, live: u64) -> Result<Row> {
        let asked = live * SPACE_TENTHS / 10 + self.buffers;
        let before = self.disk();
        let (disk, within) = self.after_rest(asked)?;
        Ok(Row {
            what,
            asked: format!("{} within {} s, without a call", units::bytes(asked), REST.as_secs()),
            measured: format!("{} to {} in {within}", units::bytes(before), units::bytes(disk)),
            holds: disk <= asked,
        })
    }

    /// The row of what is `live` bytes after `compact_range`.
    fn compacted(&self, what: &str, live: u64) -> Result<Row> {
        self.db.compact_range(..)?;
        let (asked, disk) = (live * SPACE_TENTHS / 10 + self.buffers, self.disk());
        Ok(Row {
            what: format!("{what}, after `compact_range`"),
            asked: units::bytes(asked),
            measured: units::bytes(disk),
            holds: disk <= asked,
        })
    }

    /// What a first step from this end costs: its median time, in nanoseconds. If it is counted,
    /// one and what it passes, and the blocks that it looks into.
    fn first_cost(&self, forward: bool) -> Result<u64> {
        if self.world.is_some() {
            let counted = || {
                let counters = self.db.default().stats().counters;
                counters.entries_passed + counters.blocks_hit + counters.blocks_read
            };
            let before = counted();
            self.first(forward)?;
            return Ok(1 + counted() - before);
        }
        let clock = SystemClock::new();
        let mut times = Vec::with_capacity(FIRSTS);
        for _ in 0..FIRSTS {
            let since = clock.monotonic_ns();
            self.first(forward)?;
            times.push(clock.monotonic_ns() - since);
        }
        times.sort_unstable();
        Ok(times[FIRSTS / 2])
    }

    fn first(&self, forward: bool) -> Result<Option<solera::Slice>> {
        let mut iterator = self.db.iter();
        let pair = if forward { iterator.next() } else { iterator.next_back() };
        Ok(pair.transpose()?.map(|(key, _)| key))
    }
}

/// Spreads numbers over all keys.
fn mixed(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Bytes that do not compress.
fn value(number: u64, seed: u8) -> Vec<u8> {
    let mut state = number << 8 | u64::from(seed);
    let words = (0..VALUE_BYTES / 8).flat_map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()
    });
    words.collect()
}

/// Overwritten entries that a snapshot held.
fn old_versions(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let place = bench.open("versions")?;
    let count = bench.sized(100_000);
    place.fill(count, 1)?;
    place.db.compact_range(..)?;
    let live = place.disk();
    let snapshot = place.db.snapshot();
    place.fill(count, 2)?;
    place.db.compact_range(..)?;
    drop(snapshot);
    let what = format!("{} entries, overwritten under a snapshot that is gone", units::count(count));
    Ok(vec![place.comes_back(what.clone(), live)?, place.compacted(&what, live)?])
}

/// Entries whose time is over.
fn expired(bench: &Bench<'_>) -> Result<Vec<Row>> {
    const TTL: Duration = Duration::from_secs(5);
    let place = bench.open("expired")?;
    let count = bench.sized(100_000);
    for number in 0..count {
        place.db.put_with_ttl(mixed(number), value(number, 1), TTL)?;
    }
    place.db.flush()?;
    place.db.compact_range(..)?;
    place.sleep(TTL);
    let what = format!("{} entries that have expired", units::count(count));
    Ok(vec![place.comes_back(what.clone(), 0)?, place.compacted(&what, 0)?])
}

/// Nine of ten entries deleted: at random, from the front, by one range.
fn deleted(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let count = bench.sized(1_000_000);
    let mut rows = Vec::new();
    for how in ["at random", "from the front", "by one range"] {
        let place = bench.open(how)?;
        for number in 0..count {
            place.db.put(number.to_be_bytes(), value(number, 1))?;
        }
        place.db.flush()?;
        place.db.wait_idle()?;
        let live = place.disk() / 10;
        match how {
            "by one range" => place.db.delete_range(0u64.to_be_bytes()..(count / 10 * 9).to_be_bytes())?,
            _ => {
                let is_front = how == "from the front";
                let gone = (0..count).filter(|number| {
                    if is_front { *number < count / 10 * 9 } else { mixed(*number)[0] >= 26 }
                });
                gone.map(u64::to_be_bytes).try_for_each(|key| place.db.delete(key))?;
            }
        }
        let what = format!("{} entries, nine of ten deleted {how}", units::count(count));
        rows.push(place.comes_back(what, live)?);
    }
    Ok(rows)
}

/// Tombstones that an older snapshot has no use for.
fn held_tombstones(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let place = bench.open("tombstones")?;
    let count = bench.sized(1000);
    let snapshot = place.db.snapshot();
    place.fill(count, 1)?;
    for number in 0..count {
        place.db.delete(mixed(number))?;
    }
    place.db.flush()?;
    place.db.compact_range(..)?;
    let left = place.db.default().stats().entries;
    drop(snapshot);
    let what = format!("{} puts and deletes under an older, empty snapshot", units::count(count));
    Ok(vec![Row {
        what,
        asked: "no entries".into(),
        measured: format!("{} entries", units::count(left)),
        holds: left == 0,
    }])
}

/// Queues that were popped often, from either end: in memory alone, and mostly on disk.
fn queues(bench: &Bench<'_>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (pops, is_on_disk) in [(bench.sized(10_000), false), (bench.sized(10_000_000), true)] {
        for forward in [true, false] {
            rows.push(queue(bench, pops, is_on_disk, forward)?);
        }
    }
    Ok(rows)
}

/// A queue that is popped so often, beside one of what is left that lies where most of it lies.
fn queue(bench: &Bench<'_>, pops: u64, is_on_disk: bool, forward: bool) -> Result<Row> {
    let end = if forward { "front" } else { "back" };
    let at = if is_on_disk { "on disk" } else { "in memory" };
    let fresh = bench.open(&format!("without a history, {at}, {end}"))?;
    (0..LEFT).try_for_each(|number| fresh.db.put(number.to_be_bytes(), b"queued"))?;
    if is_on_disk {
        fresh.db.flush()?;
    }
    let place = bench.open(&format!("{at}, {end}"))?;
    let total = pops + LEFT;
    (0..total).try_for_each(|number| place.db.put(number.to_be_bytes(), b"queued"))?;
    // One pair of times at each tenth of the pops, one right after the other.
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    for pop in 1..=pops {
        let Some(key) = place.first(forward)? else {
            return Err(Failure::Error(format!("the queue is empty after {pop} pops")));
        };
        place.db.delete(key)?;
        if pop.is_multiple_of((pops / 10).max(1)) {
            pairs.push((place.first_cost(forward)?, fresh.first_cost(forward)?));
        }
    }
    let times = |&(with, without): &(u64, u64)| with as f64 / without.max(1) as f64;
    pairs.sort_by(|a, b| times(a).total_cmp(&times(b)));
    let [best, median, worst] = [&pairs[0], &pairs[pairs.len() / 2], &pairs[pairs.len() - 1]];
    let what = format!("the first of a queue after {} pops from its {end}, {at}", units::count(pops));
    if bench.counted {
        let more = pairs.iter().map(|&(with, without)| with.saturating_sub(without)).max().unwrap_or(0);
        return Ok(Row {
            what,
            asked: format!(
                "at most {FIRST_MORE} keys and blocks passed more than in a queue without a history"
            ),
            measured: units::count(more),
            holds: more <= FIRST_MORE,
        });
    }
    Ok(Row {
        what,
        asked: format!("at most {FIRST_TIMES} × that of a queue without a history"),
        measured: format!(
            "median {:.2} × ({} ns, {} ns), {:.2} to {:.2} ×",
            times(median),
            median.0,
            median.1,
            times(best),
            times(worst)
        ),
        holds: times(worst) <= FIRST_TIMES,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a row is asked can fail: a snapshot that lives keeps the space of old versions.
    #[test]
    fn space_that_does_not_come_back_does_not_hold() {
        let bench = Bench { dir: Path::new("/rows"), percent: 5, memory: 4 << 20, counted: true };
        let place = bench.open("held").unwrap();
        place.fill(bench.sized(100_000), 1).unwrap();
        place.db.compact_range(..).unwrap();
        let live = place.disk();
        let snapshot = place.db.snapshot();
        place.fill(bench.sized(100_000), 2).unwrap();
        place.db.compact_range(..).unwrap();
        let row = || place.comes_back("overwritten".into(), live).unwrap();
        let held = row();
        assert!(!held.holds && held.measured.contains(" and 10"), "{}", held.measured);
        assert!(!place.compacted("overwritten", live).unwrap().holds);
        drop(snapshot);
        assert!(row().holds, "{}", row().measured);
    }

    #[test]
    fn a_first_step_that_passes_what_was_popped_is_counted() {
        let bench = Bench { dir: Path::new("/rows"), percent: 1, memory: 4 << 20, counted: true };
        let place = bench.open("queue").unwrap();
        (0..1000u64).for_each(|number| place.db.put(number.to_be_bytes(), b"queued").unwrap());
        let fresh = place.first_cost(true).unwrap();
        // Unseen by any walk, so that the first one has all of them in its way.
        (0..900u64).for_each(|number| place.db.delete(number.to_be_bytes()).unwrap());
        let passed = place.first_cost(true).unwrap();
        assert!(fresh == 1 && passed > 900, "{fresh}, {passed}");
        assert!(place.first_cost(true).unwrap() <= 2, "what was passed once is known");
    }
}
