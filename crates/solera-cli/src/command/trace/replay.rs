//! `solera trace replay`: does what a trace says again, in this or another database, and reports
//! times and what it found.
//!
//! One thread keeps the trace's own pace, a multiple of it (`--speed`), or does not wait
//! (`--asap`). Values are made up at their recorded lengths; what had a time to live gets ten
//! years. Missing databases and keyspaces are made. With `--preload` it first puts the keys that
//! the trace finds before it writes them.
//!
//! What must hold: operations are done in the trace's order, and batches whole. Range deletions of
//! hashed keys are left out and counted. A replay says how late it was, if it could not keep the
//! pace. One that would merge by an operator that is not given does nothing.
//!
//! Caller: `command::trace`.

use super::{
    go_on, read_trace, remark,
    summary::{Names, Summary},
};
use crate::{
    command::tuning::Tuning,
    failure::{Failure, Outcome, Result},
    output::{print_json, print_text},
    progress, signal,
    target::Database,
    units,
};
use indicatif::ProgressBar;
use serde_json::{Map, Value, json};
use solera::{
    Batch, Clock, Db, Keyspace, KeyspaceOptions, Options, SystemClock,
    control::Histogram,
    error::Error,
    key,
    operator::Max,
    trace::{Operation, Traced},
};
use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// Do what a trace says again, in this or another database, and report how long it took and what it
/// found
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Replay {
    /// Directory of the database; SOLERA_DIR, which may name one in use, is not taken
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Also into a database that has entries: what the trace writes takes the place of what is
    /// there, and keyspaces that it drops are gone
    #[arg(long)]
    overwrite: bool,
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// So many times as fast as it was recorded
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = speed)]
    speed: f64,
    /// Without waiting for the recorded times
    #[arg(long, conflicts_with = "speed")]
    asap: bool,
    /// First put every key that the trace finds before it writes it
    #[arg(long)]
    preload: bool,
    /// Bytes of a value that is preloaded [default: the mean of those that the trace puts in the
    /// keyspace, or 100]
    #[arg(long, value_name = "BYTES", requires = "preload", value_parser = units::whole::<u32>(0, u32::MAX.into()))]
    value_bytes: Option<u32>,
    /// Memory that the engine may use, such as 64M or 1G
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    memory: Option<u64>,
    #[command(flatten)]
    tuning: Tuning,
    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
One thread does the operations in the order of the trace, each at its recorded time or, when it is late, at once. The \
keyspaces are made where they are missing, the database too. Values have the recorded lengths; what they are is made up, and \
does not compress. What had a time to live gets one of ten years. Operands are merged as the keyspace's own operator says, \
and where it has none the largest stands. A keyspace whose operator is a program's own cannot be merged into.

To find what the recorded process found, replay into a checkpoint of its database from before the recording, with \
--overwrite, or give --preload. A trace of hashed keys has lost their order: its scans begin elsewhere, and its range deletions are \
left out and counted.";

/// Bytes of a preloaded value if neither the trace nor the user says.
const VALUE_BYTES: u64 = 100;
/// The time to live of what had one.
const TTL: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Offsets at which values begin in the bytes that they are made of.
const VALUE_BEGINS: usize = 4096;
/// Waiting for less than this costs more than being early.
const WAIT_NS_MIN: u64 = 20_000;
/// Between two looks whether a signal has come.
const WAIT_NS_MAX: u64 = 100_000_000;

/// The failure of a replay that has done so many operations of those that were counted, if a signal
/// is the reason.
fn stopped(failure: Failure, done: Option<(u64, &Summary)>) -> Failure {
    if !signal::stop_asked() {
        return failure;
    }
    Failure::Interrupted(match done {
        None => "stopped by a signal; nothing is done".to_owned(),
        Some((done, summary)) => format!(
            "stopped by a signal; {} of {} done",
            units::count(done),
            units::plural(summary.operations(), "operation")
        ),
    })
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| "a speed is a number above 0, such as 0.5 or 10".into())
}

impl Replay {
    pub(crate) fn run(self) -> Result<Outcome> {
        signal::watch(Box::new(|| "stopped while an operation waited; those before it are done".to_owned()))?;
        let bytes = std::fs::metadata(&self.file).ok().map(|file| file.len());
        let bar = progress::bar(bytes);
        bar.set_message("counting");
        let counted = Summary::read(&self.file, &bar);
        let (summary, ending) = counted.map_err(|failure| stopped(failure, None))?;
        let mut options = Options::new();
        if let Some(memory) = self.memory {
            options = options.memory(memory);
        }
        let database = Database { dir: self.dir.clone() };
        let db = database.open_or_create(options)?;
        if !self.overwrite && db.stats().keyspaces.iter().any(|keyspace| keyspace.entries > 0) {
            return Err(Failure::Usage(format!(
                "{} has entries, which the trace would write over with made-up values; replay into a new directory or a \
                 checkpoint, or say --overwrite",
                self.dir.display()
            )));
        }
        let clock = SystemClock::new();
        let mut replaying = Replaying::new(db, &summary, &clock);
        replaying.can_merge()?;
        let tuner = self.tuning.start(&replaying.db, "default")?;
        if self.preload {
            bar.set_message("preloading");
            self.preload(&mut replaying, &summary, &bar)
                .map_err(|failure| stopped(failure, Some((0, &summary))))?;
        }
        bar.set_message("replaying");
        bar.set_position(0);
        bar.reset_eta();
        let speed = (!self.asap).then_some(self.speed);
        let begun_ns = clock.monotonic_ns();
        let replayed = read_trace(&self.file, |traced| {
            bar.set_position(traced.offset);
            if let Some(speed) = speed {
                let after_us = traced.unix_us.saturating_sub(summary.first_us);
                replaying.wait_until(begun_ns.saturating_add((after_us as f64 * 1e3 / speed) as u64));
            }
            go_on()?;
            replaying.step(traced)
        });
        let done = replaying.done.operations();
        replayed.map_err(|failure| stopped(failure, Some((done, &summary))))?;
        bar.finish_and_clear();
        let seconds = (clock.monotonic_ns() - begun_ns) as f64 / 1e9;
        let (db, done) = (replaying.db, replaying.done);
        drop(replaying.keyspaces);
        Tuning::end(tuner);
        db.close()?;
        if self.json {
            let mut report = done.to_json();
            report.insert("seconds".into(), seconds.into());
            report.insert("recorded_seconds".into(), summary.seconds().into());
            report.insert("dropped".into(), summary.dropped.into());
            report.insert("ended".into(), ending.ended.into());
            report.insert("cut_bytes".into(), ending.cut_bytes.into());
            print_json(&report.into())?;
        } else {
            let mut text = done.to_text(seconds, summary.seconds());
            if summary.dropped > 0 {
                let _ =
                    writeln!(text, "{} are not in the trace", units::plural(summary.dropped, "operation"));
            }
            remark(&ending).into_iter().for_each(|remark| _ = writeln!(text, "{remark}"));
            print_text(&text)?;
        }
        Ok(Outcome::Done)
    }

    /// Puts what the trace finds before it writes it.
    fn preload(&self, replaying: &mut Replaying<'_>, summary: &Summary, bar: &ProgressBar) -> Result<()> {
        let mut there: HashSet<(String, u64)> = HashSet::new();
        let mut names = Names::default();
        bar.set_position(0);
        read_trace(&self.file, |traced| {
            bar.set_position(traced.offset);
            go_on()?;
            let name = names.of(&traced.operation);
            let (key, found) = match traced.operation {
                Operation::Lookup { key, found, .. } => (key, found),
                Operation::Put { key, .. } | Operation::Merge { key, .. } | Operation::Delete { key, .. } => {
                    (key, false)
                }
                _ => return Ok(()),
            };
            // A lookup that finds nothing does not say what is there later.
            if !found && !traced.operation.is_write() {
                return Ok(());
            }
            let is_first = there.insert((name.to_owned(), key::hash(key)));
            if is_first && found {
                let mean = summary.keyspaces.get(name).and_then(|counts| counts.value_bytes_mean());
                let len = self.value_bytes.map_or(mean.unwrap_or(VALUE_BYTES), u64::from);
                replaying.preload(name, key, len)?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// A replay under way.
struct Replaying<'c> {
    db: Db,
    clock: &'c SystemClock,
    names: Names,
    keyspaces: HashMap<String, Keyspace>,
    /// Those in which the trace merges.
    merging: HashSet<String>,
    values: Values,
    /// The batch that is being filled, and its writes that are still to come.
    batch: Option<(Batch, u64)>,
    done: Done,
}

/// What was done.
#[derive(Default)]
struct Done {
    latencies: [Histogram; KINDS.len()],
    preloaded: u64,
    /// Writes that were part of a batch, which is timed as a whole.
    batched: u64,
    lookups: u64,
    /// Lookups that found what the trace says they found.
    lookups_alike: u64,
    entries_scanned: u64,
    entries_recorded: u64,
    /// Range deletions of hashed keys.
    skipped: u64,
    late_ns: u64,
}

/// What is timed, in the order of [`Kind`].
const KINDS: [&str; 8] =
    ["lookup_found", "lookup_absent", "scan", "put", "delete", "delete_range", "merge", "batch"];

#[derive(Clone, Copy)]
enum Kind {
    LookupFound,
    LookupAbsent,
    Scan,
    Put,
    Delete,
    DeleteRange,
    Merge,
    Batch,
}

impl<'c> Replaying<'c> {
    fn new(db: Db, summary: &Summary, clock: &'c SystemClock) -> Self {
        let merging = summary.keyspaces.iter().filter(|(_, counts)| counts.merges > 0);
        Replaying {
            db,
            clock,
            names: Names::default(),
            keyspaces: HashMap::new(),
            merging: merging.map(|(name, _)| name.clone()).collect(),
            values: Values::default(),
            batch: None,
            done: Done::default(),
        }
    }

    /// Fails if the trace merges in a keyspace that is there and has an operator of a program's
    /// own.
    fn can_merge(&self) -> Result<(), Error> {
        let names = self.db.keyspaces();
        let mut there = self.merging.iter().filter(|name| names.contains(name));
        there.try_for_each(|name| match self.db.batch().merge(&self.db.keyspace(name)?, b"", b"") {
            // One that has no operator gets one.
            Err(Error::Invalid(_)) => Ok(()),
            can => can,
        })
    }

    /// Waits for the moment of an operation, and notes how late it is if that is past.
    fn wait_until(&mut self, due_ns: u64) {
        loop {
            let now = self.clock.monotonic_ns();
            let Some(early) = due_ns.checked_sub(now) else {
                self.done.late_ns = self.done.late_ns.max(now - due_ns);
                return;
            };
            if early <= WAIT_NS_MIN || signal::stop_asked() {
                return;
            }
            self.clock.sleep(Duration::from_nanos(early.min(WAIT_NS_MAX)));
            if early <= WAIT_NS_MAX {
                return;
            }
        }
    }

    fn preload(&mut self, name: &str, key: &[u8], value_len: u64) -> Result<(), Error> {
        let keyspace = self.keyspace(name)?;
        keyspace.put(key, self.values.of(key, value_len))?;
        self.done.preloaded += 1;
        Ok(())
    }

    /// The keyspace of this name, made if it is not there.
    fn keyspace(&mut self, name: &str) -> Result<Keyspace, Error> {
        if let Some(keyspace) = self.keyspaces.get(name) {
            return Ok(keyspace.clone());
        }
        let keyspace = if self.merging.contains(name) {
            match self.db.keyspace_with(name, KeyspaceOptions::new().merge_operator(Arc::new(Max))) {
                // It is there and has an operator of its own.
                Err(Error::Invalid(_)) => self.db.keyspace(name)?,
                opened => opened?,
            }
        } else {
            self.db.keyspace(name)?
        };
        self.keyspaces.insert(name.to_owned(), keyspace.clone());
        Ok(keyspace)
    }

    fn step(&mut self, traced: &Traced<'_>) -> Result<(), Error> {
        let name = self.names.of(&traced.operation).to_owned();
        match traced.operation {
            Operation::Keyspace { .. } | Operation::Dropped { .. } => return Ok(()),
            Operation::Batch { writes } => {
                self.batch = Some((self.db.batch(), writes));
                return Ok(());
            }
            Operation::DropKeyspace { .. } => {
                self.keyspaces.remove(&name);
                return match self.db.drop_keyspace(&name) {
                    // Nothing was done in it here.
                    Err(Error::NoKeyspace(_)) => Ok(()),
                    dropped => dropped,
                };
            }
            _ => {}
        }
        let keyspace = self.keyspace(&name)?;
        // What it takes to make a value is not the engine's time.
        let value = match traced.operation {
            Operation::Put { key, value_len: len, .. } | Operation::Merge { key, operand_len: len, .. } => {
                self.values.of(key, len)
            }
            _ => &[],
        };
        if let Some((batch, _)) = &mut self.batch {
            self.done.batched += 1;
            self.done.skipped += u64::from(!add(batch, &keyspace, traced, value)?);
            return self.end_batch();
        }
        let begun_ns = self.clock.monotonic_ns();
        let Some(kind) = self.done.one(&keyspace, traced, value)? else { return Ok(()) };
        self.done.latencies[kind as usize].record(self.clock.monotonic_ns() - begun_ns);
        Ok(())
    }

    /// One write more is in the batch: commits it if that was the last.
    fn end_batch(&mut self) -> Result<(), Error> {
        let Some((batch, left)) = self.batch.take() else { return Ok(()) };
        if left > 1 {
            self.batch = Some((batch, left - 1));
            return Ok(());
        }
        let begun_ns = self.clock.monotonic_ns();
        self.db.write(batch)?;
        self.done.latencies[Kind::Batch as usize].record(self.clock.monotonic_ns() - begun_ns);
        Ok(())
    }
}

/// Adds a write to a batch; false if it cannot be done again.
fn add(batch: &mut Batch, keyspace: &Keyspace, traced: &Traced<'_>, value: &[u8]) -> Result<bool, Error> {
    match traced.operation {
        Operation::Put { key, expires: false, .. } => batch.put(keyspace, key, value)?,
        Operation::Put { key, .. } => batch.put_with_ttl(keyspace, key, value, TTL)?,
        Operation::Delete { key, .. } => batch.delete(keyspace, key)?,
        Operation::DeleteRange { .. } if traced.hashed => return Ok(false),
        Operation::DeleteRange { start, end, .. } => batch.delete_range(keyspace, start..end)?,
        Operation::Merge { key, .. } => batch.merge(keyspace, key, value)?,
        _ => {}
    }
    Ok(true)
}

impl Done {
    /// Does an operation that is in no batch; `None` if it cannot be done again.
    fn one(&mut self, keyspace: &Keyspace, traced: &Traced<'_>, value: &[u8]) -> Result<Option<Kind>, Error> {
        Ok(Some(match traced.operation {
            Operation::Lookup { key, found: recorded, .. } => {
                let found = match keyspace.get(key) {
                    // It is there, but what it is no operator says.
                    Err(Error::Merge { .. }) => true,
                    found => found?.is_some(),
                };
                self.lookups += 1;
                self.lookups_alike += u64::from(found == recorded);
                if found { Kind::LookupFound } else { Kind::LookupAbsent }
            }
            Operation::Scan { key, entries, backward, .. } => {
                self.entries_recorded = self.entries_recorded.saturating_add(entries);
                self.entries_scanned += scan(keyspace, key, entries, backward)?;
                Kind::Scan
            }
            Operation::Put { key, expires: false, .. } => {
                keyspace.put(key, value)?;
                Kind::Put
            }
            Operation::Put { key, .. } => {
                keyspace.put_with_ttl(key, value, TTL)?;
                Kind::Put
            }
            Operation::Delete { key, .. } => {
                keyspace.delete(key)?;
                Kind::Delete
            }
            Operation::DeleteRange { .. } if traced.hashed => {
                self.skipped += 1;
                return Ok(None);
            }
            Operation::DeleteRange { start, end, .. } => {
                keyspace.delete_range(start..end)?;
                Kind::DeleteRange
            }
            Operation::Merge { key, .. } => {
                keyspace.merge(key, value)?;
                Kind::Merge
            }
            _ => return Ok(None),
        }))
    }

    /// Calls that were timed, a batch being one.
    fn calls(&self) -> u64 {
        self.latencies.iter().map(Histogram::count).sum()
    }

    /// As `trace show` counts them: a batch is as many as it has writes.
    fn operations(&self) -> u64 {
        self.calls() - self.latencies[Kind::Batch as usize].count() + self.batched
    }

    fn to_json(&self) -> Map<String, Value> {
        let timed = KINDS.iter().zip(&self.latencies).filter(|(_, latency)| latency.count() > 0);
        let kind = |(&name, latency): (&&str, &Histogram)| {
            let (p50, p99) = (latency.quantile(0.5), latency.quantile(0.99));
            (name.to_owned(), json!({ "count": latency.count(), "p50_ns": p50, "p99_ns": p99 }))
        };
        let report = json!({
            "operations": self.operations(),
            "calls": self.calls(),
            "latencies": timed.map(kind).collect::<Map<_, _>>(),
            "lookups": self.lookups,
            "lookups_alike": self.lookups_alike,
            "entries_scanned": self.entries_scanned,
            "entries_recorded": self.entries_recorded,
            "preloaded": self.preloaded,
            "skipped_range_deletes": self.skipped,
            "latest_ms": self.late_ns as f64 / 1e6,
        });
        match report {
            Value::Object(report) => report,
            _ => Map::new(),
        }
    }

    fn to_text(&self, seconds: f64, recorded_seconds: f64) -> String {
        let operations = self.operations();
        let rate = units::count((operations as f64 / seconds.max(1e-9)) as u64);
        let mut out = format!(
            "{} in {} ({rate} per second), recorded in {}\n",
            units::plural(operations, "operation"),
            units::seconds(seconds),
            units::seconds(recorded_seconds),
        );
        // Writing to a String cannot fail.
        for (name, latency) in KINDS.iter().zip(&self.latencies).filter(|(_, latency)| latency.count() > 0) {
            let us = |quantile| latency.quantile(quantile).unwrap_or(0) as f64 / 1e3;
            let (name, count) = (name.replace('_', " "), units::count(latency.count()));
            let _ = writeln!(out, "  {name:<14} {count:>14}  p50 {:.1} µs  p99 {:.1} µs", us(0.5), us(0.99));
        }
        if self.lookups > 0 {
            let (alike, of) = (units::count(self.lookups_alike), units::count(self.lookups));
            let _ = writeln!(out, "{alike} of {of} lookups found what the trace says");
        }
        if self.entries_recorded > 0 {
            let (here, there) = (units::count(self.entries_scanned), units::count(self.entries_recorded));
            let _ = writeln!(out, "scans came to {here} entries, {there} in the trace");
        }
        if self.preloaded > 0 {
            let _ = writeln!(out, "{} preloaded", units::plural(self.preloaded, "key"));
        }
        if self.skipped > 0 {
            let what = units::plural(self.skipped, "range deletion");
            let _ = writeln!(out, "{what} of hashed keys left out");
        }
        if self.late_ns > 0 {
            let _ = writeln!(
                out,
                "at most {} behind the recorded times",
                units::seconds(self.late_ns as f64 / 1e9)
            );
        }
        out
    }
}

/// Places an iterator and moves it so far; how many entries it came to.
fn scan(keyspace: &Keyspace, key: &[u8], entries: u64, backward: bool) -> Result<u64, Error> {
    let mut iter = match (backward, key) {
        (true, []) => keyspace.iter(),
        (true, _) => keyspace.range(..key),
        (false, _) => keyspace.range(key..),
    };
    let mut came_to = 0;
    // One that came to nothing was placed all the same.
    for _ in 0..entries.max(1) {
        match if backward { iter.advance_back() } else { iter.advance() } {
            // As with a lookup: the iterator goes on behind it.
            Ok(true) | Err(Error::Merge { .. }) => came_to += 1,
            Ok(false) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(came_to)
}

/// Made-up values: parts of one string of bytes that does not compress.
#[derive(Default)]
struct Values(Vec<u8>);

impl Values {
    /// The value of `key` of this length.
    fn of(&mut self, key: &[u8], len: u64) -> &[u8] {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let mut word = self.0.len() as u64;
        while self.0.len() < len.saturating_add(VALUE_BEGINS) {
            word += 1;
            self.0.extend_from_slice(&key::hash(&word.to_le_bytes()).to_le_bytes());
        }
        let begin = key::hash(key) as usize % VALUE_BEGINS;
        &self.0[begin..begin + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_their_length_and_differ() {
        let mut values = Values::default();
        let first = values.of(b"a", 100).to_vec();
        assert_eq!(
            (first.len(), values.of(b"a", 0).len(), values.of(b"b", 1 << 20).len()),
            (100, 0, 1 << 20)
        );
        assert_eq!(values.of(b"a", 100), first, "the same every time");
        assert_ne!(values.of(b"b", 100), first);
    }

    #[test]
    fn speeds_are_above_zero() {
        assert_eq!(speed("0.5"), Ok(0.5));
        for wrong in ["", "0", "-1", "inf", "NaN", "fast"] {
            assert!(speed(wrong).is_err(), "{wrong}");
        }
    }
}
