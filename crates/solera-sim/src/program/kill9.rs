//! `kill9`: a real process on the real file system, killed at random moments and opened again.
//!
//! The child is this program itself, writing through the public API from several threads and acknowledging
//! each commit over a pipe; or, when told where it is, `solera load`. A kill loses what the process had in
//! memory but nothing that it gave to the system, so even `Durability::Buffered` must lose nothing that was
//! acknowledged.

use super::{Scale, Verdict};
use crate::random::Random;
use solera::{
    Clock, Db, Durability, IndexKind, Keyspace, KeyspaceOptions, Layout, Options, SystemClock,
    operator::{Counter, builtin},
};
use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Writing threads of the child: group commit needs company.
const WRITERS: u64 = 3;
/// Each writer deletes what it wrote this many commits ago, so that the database stays small.
const WINDOW: u64 = 2000;
/// A database is killed this often before a new one is begun.
const KILLS_PER_DATABASE: u64 = 20;
/// Longest life of a child, microseconds.
const LIFE_MAX_US: u64 = 250_000;

/// How much to do.
#[derive(Clone, Debug)]
pub struct Amount {
    /// Seed of the moments at which children are killed.
    pub seed: u64,
    /// How many kills.
    pub kills: u64,
    /// This program, to run as the child.
    pub program: PathBuf,
    /// The `solera` command to kill during a load, instead of this program's own child.
    pub solera: Option<PathBuf>,
    /// Where databases are made; a new directory in it is used and removed.
    pub dir: PathBuf,
}

impl Amount {
    /// As much as the scale says, with `program` as the child and databases in the system's directory for
    /// temporary files.
    pub fn at(scale: Scale, seed: u64, program: PathBuf) -> Amount {
        Amount { seed, kills: scale.of(50, 1000), program, solera: None, dir: std::env::temp_dir() }
    }
}

/// What all kills together showed.
#[derive(Default)]
struct Seen {
    acknowledged: u64,
    lost: u64,
    wrong: u64,
    open_ms_max: u64,
}

/// Kills children and checks what they left.
pub fn run(amount: &Amount) -> std::io::Result<Verdict> {
    let mut seen = Seen::default();
    let mut random = Random::new(amount.seed);
    let place = amount.dir.join(format!("solera-kill9-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    for kill in 0..amount.kills {
        let found = match &amount.solera {
            Some(solera) => kill_load(solera, &place, kill, &mut random, &mut seen),
            None => kill_writers(&amount.program, &place, kill, &mut random, &mut seen),
        };
        if let Err(what) = found {
            seen.wrong += 1;
            println!(
                "kill {kill} (seed {}): {what}; the database is kept in {}",
                amount.seed,
                place.display()
            );
            break;
        }
    }
    if seen.wrong == 0 {
        std::fs::remove_dir_all(&place)?;
    }
    Ok(Verdict::new("kill9")
        .figure("kills", amount.kills)
        .figure("acked", seen.acknowledged)
        .must_be_none("lost", seen.lost)
        .must_be_none("wrong", seen.wrong)
        .figure("max_open_ms", seen.open_ms_max))
}

fn kill_writers(
    program: &Path,
    place: &Path,
    kill: u64,
    random: &mut Random,
    seen: &mut Seen,
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let dir = place.join(format!("db{}", kill / KILLS_PER_DATABASE));
    let mut child = Command::new(program)
        .arg("kill9-child")
        .arg(&dir)
        .stdout(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .map_err(text)?;
    let pipe = child.stdout.take().ok_or("the child has no pipe")?;
    let reader = std::thread::spawn(move || {
        // Each line: a writer and how many commits it has had acknowledged.
        let mut acknowledged = [0_u64; WRITERS as usize];
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            // A line that the kill cut short has no second number, or a shorter and so smaller one.
            if let (Some(Ok(writer)), Some(Ok(commits))) = (numbers.next(), numbers.next()) {
                let last = &mut acknowledged[writer as usize];
                *last = commits.max(*last);
            }
        }
        acknowledged
    });
    std::thread::sleep(Duration::from_micros(random.below(LIFE_MAX_US)));
    end(&mut child)?;
    let acknowledged = reader.join().map_err(|_| "the reader of acknowledgements panicked")?;

    let clock = SystemClock::new();
    let before = clock.monotonic_ns();
    let spaces = Spaces::open(&dir).map_err(|error| format!("cannot open: {error}"))?;
    seen.open_ms_max = seen.open_ms_max.max((clock.monotonic_ns() - before) / 1_000_000);
    for (writer, acknowledged) in (0..).zip(acknowledged) {
        let commits = spaces.commits(writer).map_err(|error| error.to_string())?;
        if commits < acknowledged {
            seen.lost += acknowledged - commits;
            return Err(format!(
                "writer {writer}: {commits} commits are there, {acknowledged} were acknowledged"
            ));
        }
        // A writer has one commit under way at most.
        if acknowledged > 0 && commits > acknowledged + 1 {
            return Err(format!(
                "writer {writer}: {commits} commits are there, {acknowledged} were acknowledged"
            ));
        }
        seen.acknowledged += acknowledged;
        spaces.check(writer, commits)?;
    }
    let report = spaces.db.verify().map_err(|error| error.to_string())?;
    if !report.problems.is_empty() {
        return Err(format!("damaged: {:?}", report.problems));
    }
    Ok(())
}

/// SIGKILL, unless it ended by itself, which it must not.
fn end(child: &mut Child) -> Result<(), String> {
    let early = child.try_wait().map_err(|error| error.to_string())?;
    child.kill().map_err(|error| error.to_string())?;
    child.wait().map_err(|error| error.to_string())?;
    match early {
        Some(status) => Err(format!("the child ended by itself: {status}")),
        None => Ok(()),
    }
}

/// The child's database.
struct Spaces {
    db: Db,
    records: Keyspace,
    latest: Keyspace,
    counts: Keyspace,
}

impl Spaces {
    fn open(dir: &Path) -> solera::Result<Spaces> {
        // A small write buffer, so that flushes and compactions are under way at every moment.
        let number = dir.to_string_lossy().bytes().last().map_or(0, usize::from);
        let layout = Layout {
            block_bytes: 1024,
            index: IndexKind::ALL[number % IndexKind::ALL.len()],
            ..Layout::default()
        };
        let db = Options::new()
            .memory(16 << 20)
            .write_buffer(64 << 10)
            .durability(Durability::Buffered)
            .open(dir)?;
        let records = db.keyspace_with("records", KeyspaceOptions::new().layout(layout))?;
        let latest = db.keyspace("latest")?;
        let mut counting = KeyspaceOptions::new();
        if let Some(counter) = builtin("counter") {
            counting = counting.merge_operator(counter);
        }
        let counts = db.keyspace_with("counts", counting)?;
        Ok(Spaces { db, records, latest, counts })
    }

    /// How many commits of a writer are there.
    fn commits(&self, writer: u64) -> solera::Result<u64> {
        let stored = self.counts.get(&writer.to_be_bytes())?;
        Ok(stored.and_then(|stored| Some(u64::from_le_bytes((*stored).try_into().ok()?))).unwrap_or(0))
    }

    /// One commit: a record into the first keyspace, an old one out of it, its number into the second,
    /// and one more into the third.
    fn commit(&self, writer: u64, number: u64) -> solera::Result<()> {
        let mut batch = self.db.batch();
        batch.put(&self.records, &record_key(writer, number), &record_value(writer, number))?;
        if let Some(old) = number.checked_sub(WINDOW) {
            batch.delete(&self.records, &record_key(writer, old))?;
        }
        batch.put(&self.latest, &writer.to_be_bytes(), &number.to_be_bytes())?;
        batch.merge(&self.counts, &writer.to_be_bytes(), &Counter::encode(1))?;
        // Some of them durable, so that both ways of committing share groups.
        if number % 64 == writer {
            batch.durability(Durability::Sync);
        }
        self.db.write(batch).map(|_| ())
    }

    /// Whether the database holds exactly what `commits` commits of a writer make.
    fn check(&self, writer: u64, commits: u64) -> Result<(), String> {
        let latest = self.latest.get(&writer.to_be_bytes()).map_err(|error| error.to_string())?;
        let expected = commits.checked_sub(1).map(u64::to_be_bytes);
        if latest.as_deref() != expected.as_ref().map(|bytes| &bytes[..]) {
            return Err(format!(
                "writer {writer}: half a batch: {commits} counted, the latest is {latest:?}"
            ));
        }
        let mut found = self.records.prefix(&writer.to_be_bytes());
        for number in commits.saturating_sub(WINDOW)..commits {
            let pair = found.next().transpose().map_err(|error| error.to_string())?;
            let expected = (record_key(writer, number), record_value(writer, number));
            if pair.as_ref().is_none_or(|(key, value)| **key != expected.0 || **value != expected.1) {
                return Err(format!("writer {writer}: record {number} of {commits} is wrong: {pair:?}"));
            }
        }
        match found.next() {
            None => Ok(()),
            Some(pair) => Err(format!("writer {writer}: a record beyond its {commits} commits: {pair:?}")),
        }
    }
}

fn record_key(writer: u64, number: u64) -> Vec<u8> {
    [writer.to_be_bytes(), number.to_be_bytes()].concat()
}

fn record_value(writer: u64, number: u64) -> Vec<u8> {
    let mut random = Random::new(writer << 48 | number);
    let len = random.length(400) as usize;
    (0..len).map(|_| random.next() as u8).collect()
}

/// The child: writes until it is killed.
pub fn child(dir: &Path) -> Result<(), String> {
    let spaces = Spaces::open(dir).map_err(|error| error.to_string())?;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let spaces = &spaces;
            scope.spawn(move || {
                let written: solera::Result<()> = (|| {
                    for number in spaces.commits(writer)?.. {
                        spaces.commit(writer, number)?;
                        // One write call for the line, so that lines of writers do not mix.
                        let line = format!("{writer} {}\n", number + 1);
                        let out = std::io::stdout();
                        let mut out = out.lock();
                        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
                            return Ok(());
                        }
                    }
                    Ok(())
                })();
                if let Err(error) = written {
                    eprintln!("writer {writer}: {error}");
                    std::process::exit(1);
                }
            });
        }
    });
    Ok(())
}

/// Lines in the file that is loaded.
const LOAD_LINES: u64 = 400_000;

fn kill_load(
    solera: &Path,
    place: &Path,
    kill: u64,
    random: &mut Random,
    seen: &mut Seen,
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let input = place.join("input.tsv");
    if kill == 0 {
        let mut lines = String::new();
        for line in 0..LOAD_LINES {
            let (key, value) = load_record(line);
            lines.push_str(&format!("{key}\t{value}\n"));
        }
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).open(&input).map_err(text)?;
        file.write_all(lines.as_bytes()).map_err(text)?;
    }
    let dir = place.join("loaded");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).map_err(text)?;
    }
    let mut child = Command::new(solera)
        .args(["load", "--format", "tsv", "--key", "1", "--dir"])
        .arg(&dir)
        .arg(&input)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(text)?;
    std::thread::sleep(Duration::from_micros(random.below(4 * LIFE_MAX_US)));
    // It may have loaded everything by now.
    child.kill().map_err(text)?;
    child.wait().map_err(text)?;
    if !dir.exists() {
        return Ok(());
    }
    let clock = SystemClock::new();
    let before = clock.monotonic_ns();
    let db = Db::open(&dir).map_err(|error| format!("cannot open: {error}"))?;
    seen.open_ms_max = seen.open_ms_max.max((clock.monotonic_ns() - before) / 1_000_000);
    let mut found = 0;
    for pair in db.iter() {
        pair.map_err(|error| error.to_string())?;
        found += 1;
    }
    for line in 0..found {
        let (key, value) = load_record(line);
        let stored = db.get(key.as_bytes()).map_err(|error| error.to_string())?;
        if stored.as_deref() != Some(value.as_bytes()) {
            return Err(format!("{found} records are there, but not that of line {}", line + 1));
        }
    }
    seen.acknowledged += found;
    println!("kill {kill}: the first {found} lines are there");
    Ok(())
}

/// Every line has its own key, and keys come in no order.
fn load_record(line: u64) -> (String, String) {
    let key = (line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (format!("{key:016x}"), format!("value of line {line}"))
}
