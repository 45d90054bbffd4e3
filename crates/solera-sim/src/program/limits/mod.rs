//! `limits`: memory, open files, and the sizes at which engines give in; `run`, and `run_child`.
//!
//! - *memory*: under a budget with twenty times the data, the largest resident set (`VmHWM`).
//! - *tables*: 10,000 tables, opened and read. *shapes*: 100,000 deleted keys, 10,000 iterators.
//! - *pieces*: one large batch, transaction or value, long keys, many keyspaces; what users hold;
//!   bursts of writes after rests.
//!
//! What must hold: each measurement is a process of its own (`Task`) with at most 64 files open. A
//! child fails on a wrong answer where it looks at answers, and prints names and numbers; `run` and
//! `pieces` judge them. Times are judged only where a quiet machine is promised; what is timed by
//! the wall clock runs alone. A seed fixes the data, not the figures.
//!
//! Callers: `solera-sim limits`, and `main` for its hidden child command.

mod held;
mod keyspaces;
mod large;
mod pieces;
mod rests;

use super::{Scale, Verdict};
use crate::random::Random;
use solera::{Clock, Compression, Db, Layout, Options, Shape, SystemClock};
use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

/// Most that a process may take, as parts of a hundred of its budget.
const RSS_PERCENT_MAX: u64 = 110;
/// The data is so many times as large as the budget.
const DATA_FACTOR: u64 = 20;
const VALUE_BYTES: u64 = 1000;
const KEY_BYTES: u64 = 16;
/// From so many bytes on values are kept apart, where they are.
const SEPARATE_FROM: u64 = 256;
/// Fewest operations under a budget: what an allocator keeps of a process's memory grows for about
/// so long.
const OPERATIONS_MIN: u64 = 300_000;
/// Threads that use the database.
const USERS: u64 = 2;
/// Descriptors of each process.
const DESCRIPTORS: u64 = 64;
const TABLES: u64 = 10_000;
/// Longest that opening them may take.
const OPEN_MS_MAX: u64 = 1000;
const TOMBSTONES: u64 = 100_000;
const ITERATORS: usize = 10_000;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Amount {
    /// Seed of the load.
    pub seed: u64,
    /// The memory budgets to try, MiB.
    pub budgets_mib: Vec<u64>,
    /// Operations under each: so many for each MiB of the budget, and 300,000 at least.
    pub operations_per_mib: u64,
    /// Everything that is large in one piece is so many times as large as in the quick run.
    pub piece_factor: u64,
    /// Whether nothing else runs here: then times are judged, too.
    pub quiet: bool,
    /// This program, to run as the child.
    pub program: PathBuf,
    /// Where databases are made; a new directory in it is used and removed.
    pub dir: PathBuf,
}

impl Amount {
    /// As much as the scale says, with `program` as the child and databases in the system's
    /// directory for temporary files.
    pub fn at(scale: Scale, seed: u64, program: PathBuf) -> Amount {
        Amount {
            seed,
            budgets_mib: scale.of(vec![64, 256], vec![64, 256, 1024]),
            operations_per_mib: scale.of(1000, 5000),
            piece_factor: scale.of(1, 4),
            quiet: false,
            program,
            dir: std::env::temp_dir(),
        }
    }
}

/// What a child is to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Task {
    /// Load and use a database under a memory budget
    Memory {
        /// Bytes
        budget: u64,
        /// Of all threads together
        operations: u64,
        /// Of the load
        seed: u64,
        /// Values of so many bytes and more are kept apart; 0: none
        separate_from: u64,
    },
    /// Make a database of many tables
    MakeTables,
    /// Open and read it
    ReadTables,
    /// Seek across deleted keys, and hold many iterators
    Shapes,
    /// Write one batch, or one transaction
    Batch {
        /// Bytes
        budget: u64,
        /// In the batch
        puts: u64,
        /// 1: as a transaction
        as_transaction: u64,
    },
    /// Write one large value again and again
    Value {
        /// Bytes
        budget: u64,
        /// Of the value
        bytes: u64,
        /// How often it is written
        times: u64,
    },
    /// Write and read long keys that differ at their ends
    LongKeys {
        /// Bytes
        budget: u64,
        /// How many
        keys: u64,
    },
    /// Merge large operands of one key, read them, compact them
    Operands {
        /// Bytes
        budget: u64,
        /// Of each operand
        bytes: u64,
        /// How many
        count: u64,
        /// The operator's name
        operator: String,
    },
    /// Hold many iterators at once
    Iterators {
        /// Bytes
        budget: u64,
        /// How many keys there are
        keys: u64,
        /// Of each key
        key_bytes: u64,
        /// Of each value
        value_bytes: u64,
        /// How many iterators
        count: u64,
        /// Of each iterator
        steps: u64,
    },
    /// Delete many ranges by one batch
    Ranges {
        /// Bytes
        budget: u64,
        /// How many keys there are
        count: u64,
    },
    /// Put values that are nearly large, on several threads
    Near {
        /// Bytes
        budget: u64,
        /// How many threads
        writers: u64,
        /// Of each value
        bytes: u64,
        /// How many values each puts
        times: u64,
    },
    /// Rest with reads and then write a burst, again and again
    Rests {
        /// Bytes
        budget: u64,
        /// How often
        rounds: u64,
        /// Of the load
        seed: u64,
    },
    /// Make, flush, open and read keyspaces of one key each
    Keyspaces {
        /// Bytes
        budget: u64,
        /// How many
        count: u64,
    },
}

/// Runs the measurements.
pub fn run(amount: &Amount) -> Result<Verdict, String> {
    let place = amount.dir.join(format!("solera-limits-{}", std::process::id()));
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let measured = measure(amount, &place);
    std::fs::remove_dir_all(&place).map_err(|error| error.to_string())?;
    measured
}

fn measure(amount: &Amount, place: &Path) -> Result<Verdict, String> {
    let tables = place.join("tables");
    let (memory, made, pieces) = std::thread::scope(|scope| {
        let pieces = scope.spawn(|| pieces::measure(amount, place));
        let of_budget = |(mib, separate_from): (u64, u64)| {
            scope.spawn(move || {
                Ok::<_, String>((mib, separate_from, memory_figures(amount, place, mib, separate_from)?))
            })
        };
        let inline = amount.budgets_mib.iter().map(|mib| (*mib, 0));
        // Once more with values apart, under the smallest budget.
        let apart = amount.budgets_mib.iter().min().map(|mib| (*mib, SEPARATE_FROM));
        let memory: Vec<_> = inline.chain(apart).map(of_budget).collect();
        let made = child(&amount.program, &tables, &["make-tables"]);
        let joined = memory.into_iter().map(|thread| thread.join().map_err(|_| "a measurement panicked")?);
        let joined = joined.collect::<Result<Vec<_>, String>>();
        (joined, made, pieces.join().map_err(|_| "a measurement panicked".to_owned()))
    });
    made?;
    let pieces = pieces??;
    let (mut over, mut worst, mut factor) = (0, 0, u64::MAX);
    for (mib, separate_from, found) in memory? {
        let budget = mib << 20;
        let percent = ((figure(&found, "rss_kib")? << 10) * 100).div_ceil(budget);
        let values = if separate_from > 0 { ", values apart" } else { "" };
        println!("budget of {mib} MiB{values}: {percent} % resident: {found:?}");
        (over, worst) = (over + u64::from(percent > RSS_PERCENT_MAX), percent.max(worst));
        factor = factor.min(figure(&found, "loaded_bytes")? / budget);
    }
    let budgets: Vec<_> = amount.budgets_mib.iter().map(u64::to_string).collect();
    let verdict = Verdict::new("limits")
        .figure("budgets_mib", budgets.join(","))
        .figure("data_factor", factor)
        .must_be_none("too_little_data", u64::from(factor < DATA_FACTOR))
        .figure("rss_percent_max", worst)
        .must_be_none("over_budget", over);

    let found = child(&amount.program, &tables, &["read-tables"])?;
    let (open_ms, count) = (figure(&found, "open_ms")?, figure(&found, "tables")?);
    let verdict = verdict
        .figure("tables", count)
        .must_be_none("too_few_tables", TABLES.saturating_sub(count))
        .figure("open_ms", open_ms)
        .must_be_none("slow_opens", u64::from(amount.quiet && open_ms > OPEN_MS_MAX))
        .figure("fd_limit", DESCRIPTORS)
        .figure("fd_max", figure(&found, "fd_max")?);

    let verdict = pieces.into_iter().fold(verdict, pieces::judge);
    let found = child(&amount.program, &place.join("shapes"), &["shapes"])?;
    Ok(verdict
        .figure("tombstones", TOMBSTONES)
        .figure("seek_us", figure(&found, "seek_us")?)
        .figure("iterators", figure(&found, "iterators")?)
        .figure("iterator_bytes", figure(&found, "iterator_bytes")?))
}

/// What the use of a database under a budget measured.
fn memory_figures(
    amount: &Amount,
    place: &Path,
    mib: u64,
    separate_from: u64,
) -> Result<BTreeMap<String, u64>, String> {
    let operations = (amount.operations_per_mib * mib).max(OPERATIONS_MIN);
    let (budget, operations) = ((mib << 20).to_string(), operations.to_string());
    let dir = place.join(format!("memory{mib}-{separate_from}"));
    let task = ["memory", &budget, &operations, &amount.seed.to_string(), &separate_from.to_string()];
    let found = child(&amount.program, &dir, &task)?;
    std::fs::remove_dir_all(&dir).map_err(|error| error.to_string())?;
    Ok(found)
}

/// Runs a child, which may have [`DESCRIPTORS`], and gives its figures.
fn child(program: &Path, dir: &Path, task: &[&str]) -> Result<BTreeMap<String, u64>, String> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"")).arg(program);
    let output =
        command.arg("limits-child").arg(dir).args(task).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{task:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().filter_map(|line| {
        let (name, number) = line.split_once(' ')?;
        Some((name.to_owned(), number.parse().ok()?))
    });
    Ok(figures.collect())
}

fn figure(figures: &BTreeMap<String, u64>, name: &str) -> Result<u64, String> {
    figures.get(name).copied().ok_or_else(|| format!("the child did not say {name}: {figures:?}"))
}

/// The child: does its task and prints the figures.
///
/// # Errors
/// Whatever went wrong.
pub fn run_child(dir: &Path, task: &Task) -> Result<(), String> {
    match *task {
        Task::Operands { budget, bytes, count, ref operator } => {
            held::operands(dir, budget, bytes, count, operator)
        }
        Task::Iterators { budget, keys, key_bytes, value_bytes, count, steps } => {
            held::iterators(dir, budget, [keys, key_bytes, value_bytes, count, steps])
        }
        Task::Ranges { budget, count } => held::ranges(dir, budget, count),
        Task::Rests { budget, rounds, seed } => rests::rests(dir, budget, rounds, seed),
        Task::Near { budget, writers, bytes, times } => held::near(dir, budget, writers, bytes, times),
        Task::Memory { budget, operations, seed, separate_from } => {
            memory(dir, budget, operations, seed, separate_from)
        }
        Task::MakeTables => make_tables(dir),
        Task::ReadTables => read_tables(dir),
        Task::Shapes => shapes(dir),
        Task::Batch { budget, puts, as_transaction } => large::batch(dir, budget, puts, as_transaction != 0),
        Task::Value { budget, bytes, times } => large::value(dir, budget, bytes, times),
        Task::LongKeys { budget, keys } => large::long_keys(dir, budget, keys),
        Task::Keyspaces { budget, count } => keyspaces::keyspaces(dir, budget, count),
    }
    .map_err(|error| error.to_string())
}

/// Largest resident set of this process so far, KiB.
fn peak_rss_kib() -> solera::Result<u64> {
    status("VmHWM:").ok_or_else(|| {
        solera::Error::Invalid(
            "memory is measured through /proc/self/status, which says no VmHWM here".to_owned(),
        )
    })
}

fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Time that this process has had of processors so far, in milliseconds.
fn processor_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything, the 12th and 13th are ticks: 10 ms each.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10
}

/// What the files of a database take of the disk.
fn disk_bytes(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|file| file.blocks() * 512).sum()
}

/// Descriptors of this process.
fn descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64)
}

/// Spreads numbers over all keys, one to one.
fn key(number: u64) -> [u8; KEY_BYTES as usize] {
    let mut key = [0; KEY_BYTES as usize];
    key[..8].copy_from_slice(&(number << 20).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// A value that shrinks to about half when compressed, as records do. The half that does not comes
/// first and the rest is all the same: values in which the two alternate cost several times as much
/// to compress, and a load of twenty budgets would do little else.
fn fill(value: &mut Vec<u8>, random: &mut Random) {
    value.clear();
    let len = (VALUE_BYTES / 2 + random.below(VALUE_BYTES)) as usize;
    while value.len() < len / 2 {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.resize(len, random.next() as u8);
}

fn memory(dir: &Path, budget: u64, operations: u64, seed: u64, separate_from: u64) -> solera::Result<()> {
    // One in a hundred more, because lengths are random.
    let keys = budget * DATA_FACTOR / (KEY_BYTES + VALUE_BYTES) * 101 / 100;
    println!("rss_begin_kib {}", peak_rss_kib()?);
    let options = Options::new().memory(budget);
    let db = match separate_from {
        0 => options,
        bytes => options.separate_values_from(bytes).value_spare_percent(10),
    }
    .open(dir)?;
    let mut random = Random::new(seed);
    let mut value = Vec::new();
    let mut loaded_bytes = 0;
    db.ingest((0..keys).map(|number| {
        fill(&mut value, &mut random);
        loaded_bytes += KEY_BYTES + value.len() as u64;
        (key(number), value.clone())
    }))?;
    println!("loaded_bytes {loaded_bytes}");
    println!("rss_loaded_kib {}", peak_rss_kib()?);
    let left = AtomicU64::new(operations);
    std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS)
            .map(|user| {
                let (db, left) = (&db, &left);
                let random = Random::new(seed << 8 | user);
                scope.spawn(move || use_database(db, keys, random, left))
            })
            .collect();
        users.into_iter().try_for_each(|user| {
            user.join().unwrap_or_else(|_| Err(solera::Error::Poisoned("a thread panicked".into())))
        })
    })?;
    println!("rss_mixed_kib {}", peak_rss_kib()?);
    // Everything that one iterator passes over, then a merge of a part of it.
    let some = db
        .iter()
        .take((keys / 4) as usize)
        .try_fold(0u64, |sum, pair| pair.map(|(_, value)| sum + value.len() as u64))?;
    db.compact_range(key(0)..key(keys / 16))?;
    db.wait_idle()?;
    let stats = db.stats();
    let spaces = || stats.keyspaces.iter();
    println!("scanned {some}");
    println!("flushes {}", spaces().map(|space| space.counters.flushes).sum::<u64>());
    println!("compactions {}", spaces().map(|space| space.counters.compactions).sum::<u64>());
    println!("table_bytes {}", spaces().map(|space| space.table_bytes).sum::<u64>());
    println!("index_kib {}", spaces().map(|space| space.index_bytes).sum::<u64>() >> 10);
    println!("filter_kib {}", spaces().map(|space| space.filter_bytes).sum::<u64>() >> 10);
    println!("cache_kib {}", stats.block_cache_bytes >> 10);
    println!("rss_end_kib {}", status("VmRSS:").unwrap_or(0));
    println!("rss_file_kib {}", status("RssFile:").unwrap_or(0));
    println!("rss_kib {}", peak_rss_kib()?);
    Ok(())
}

/// Reads, scans and writes until `left` is used up.
fn use_database(db: &Db, keys: u64, mut random: Random, left: &AtomicU64) -> solera::Result<()> {
    let mut value = Vec::new();
    while left.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let at = key(random.below(keys));
        match random.below(100) {
            0..55 => {
                db.get(at)?;
            }
            55..57 => {
                for pair in db.range(at.as_slice()..).take(100) {
                    pair?;
                }
            }
            57..58 => db.delete(at)?,
            _ => {
                fill(&mut value, &mut random);
                db.put(at, &value)?;
            }
        }
    }
    Ok(())
}

/// Tables of a few entries each.
fn small_tables() -> Options {
    let shape = Shape { table_bytes: 1 << 10, ..Shape::default() };
    let layout = Layout { compression: Compression::None, ..Layout::default() };
    Options::new().shape(shape).layout(layout)
}

fn make_tables(dir: &Path) -> solera::Result<()> {
    // Nothing in the background: the tables shall stay as they are.
    let db = small_tables().background_threads(0).open(dir)?;
    let mut tables = 0;
    let mut next = 0;
    while tables < TABLES {
        let from = next;
        next += (TABLES - tables) * 2;
        tables += db.ingest((from..next).map(|number| (key(number), [number as u8; 600])))?.tables;
    }
    db.close()
}

fn read_tables(dir: &Path) -> solera::Result<()> {
    let clock = SystemClock::new();
    let before = clock.monotonic_ns();
    let db = small_tables().background_threads(0).create_if_missing(false).open(dir)?;
    println!("open_ms {}", (clock.monotonic_ns() - before) / 1_000_000);
    let (mut fd_max, mut entries) = (descriptors(), 0u64);
    for pair in db.iter() {
        let (found, value) = pair?;
        if *found != key(entries)[..] || *value != [entries as u8; 600] {
            return Err(solera::Error::Invalid(format!("entry {entries} is {found:?}")));
        }
        entries += 1;
        if entries.is_multiple_of(1000) {
            fd_max = fd_max.max(descriptors());
        }
    }
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let number = random.below(entries);
        let found = db.get(key(number))?;
        if found.as_deref() != Some(&[number as u8; 600][..]) {
            return Err(solera::Error::Invalid(format!("entry {number} is {found:?}")));
        }
    }
    let stats = db.stats();
    let tables = stats.keyspaces.iter().flat_map(|space| &space.levels).flat_map(|level| &level.runs);
    println!("tables {}", tables.map(|run| run.tables).sum::<u64>());
    println!("fd_max {}", fd_max.max(descriptors()));
    Ok(())
}

fn shapes(dir: &Path) -> solera::Result<()> {
    let clock = SystemClock::new();
    let db = Options::new().background_threads(0).open(dir)?;
    for number in 0..=TOMBSTONES {
        db.put(key(number), b"here")?;
    }
    db.flush()?;
    for number in 0..TOMBSTONES {
        db.delete(key(number))?;
    }
    db.flush()?;
    // The second time, when the blocks are in memory.
    let mut seek_us = 0;
    for _ in 0..2 {
        let before = clock.monotonic_ns();
        let first = db.iter().next().transpose()?;
        seek_us = (clock.monotonic_ns() - before) / 1000;
        if first.is_none_or(|(found, _)| *found != key(TOMBSTONES)[..]) {
            return Err(solera::Error::Invalid("the first key that is left was not found".into()));
        }
    }
    println!("seek_us {seek_us}");

    let rss_before = peak_rss_kib()?;
    let mut iterators = Vec::with_capacity(ITERATORS);
    for number in 0..ITERATORS as u64 {
        let mut iterator = db.range(key(number)..);
        iterator.seek(key(TOMBSTONES))?;
        iterators.push(iterator);
    }
    db.put(key(TOMBSTONES + 1), b"too late to be seen")?;
    for iterator in &mut iterators {
        let (first, second) = (iterator.next().transpose()?, iterator.next().transpose()?);
        if first.is_none_or(|(found, _)| *found != key(TOMBSTONES)[..]) || second.is_some() {
            return Err(solera::Error::Invalid("an iterator saw what it should not".into()));
        }
    }
    println!("iterators {}", iterators.len());
    println!("iterator_bytes {}", ((peak_rss_kib()? - rss_before) << 10) / iterators.len() as u64);
    Ok(())
}
