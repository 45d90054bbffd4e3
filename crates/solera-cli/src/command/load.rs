//! `solera load`: records from a file or standard input into a keyspace (`Load`).
//!
//! Records are written in atomic batches, in the order of the input, or, if sorted, straight into
//! tables. Lines that are no record are reported (`report`) and left out. `--resume` goes on where
//! an earlier load came to.
//!
//! What must hold: a load that was killed leaves a prefix; a sorted one leaves all or nothing, and
//! cannot be resumed. A load that ends by itself on a signal or an error of the input keeps what
//! came before. How far it came stands in the report of `--bad-lines`, or else in a note in the
//! database's directory, named by the load. A mark is written only after everything up to it is
//! durable. Resuming refuses other options, and an input that is another one up to the mark. It
//! refuses a database that is another one or older than the mark, and a keyspace that was made
//! anew.
//!
//! Caller: `main`.

use super::bench::must_be_available;
use crate::{
    command::tuning::Tuning,
    escape::unescape,
    failure::{Failure, Outcome, Result},
    input::{Consumed, Input},
    output::{print_json, print_text, say},
    own, progress,
    record::{Format, Next, Options, Record, Records, Selectors},
    report::{self, KEYSPACE_NUMBER, Mark, Report},
    signal,
    target::NewPlace,
    units,
};
use indicatif::ProgressBar;
use serde_json::{Value, json};
use solera::{
    Batch, Compression, Db, IndexKind, Keyspace, KeyspaceOptions,
    clock::{Clock, SystemClock},
    control::KeyspaceObservation,
    key::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
    trace::{Recorded, TraceOptions},
};
use std::{
    cmp::Ordering,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{self, AtomicBool},
    },
    time::Duration,
};

/// Load records from a file or standard input; creates the database if there is none
#[derive(Debug, clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Load {
    #[command(flatten)]
    place: NewPlace,
    /// The input, or - for standard input; gzip and Zstandard are recognised by their first bytes
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// Format of the input [default: by the name: .tsv .csv .jsonl .ndjson .txt, before .gz or
    /// .zst]
    #[arg(long)]
    format: Option<Format>,
    /// What makes the key: columns (numbers from 1, or names with --header; default 1) or JSON
    /// fields (names, or pointers such as /user/id), joined by tabs
    #[arg(long, value_name = "LIST")]
    key: Option<Selectors>,
    /// What makes the value, in the same way [default: the other columns; for JSON the whole line]
    #[arg(long, value_name = "LIST")]
    value: Option<Selectors>,
    /// The first line names the columns (tsv, csv)
    #[arg(long)]
    header: bool,
    /// What separates columns in CSV: one ASCII character [default: a comma]
    #[arg(long, value_name = "CHAR", value_parser = ascii_character)]
    delimiter: Option<u8>,
    /// Lines end with a carriage return and a newline (tsv, lines)
    #[arg(long)]
    crlf: bool,
    /// Leave out a UTF-8 byte order mark at the beginning (tsv, lines); csv and jsonl always do
    #[arg(long)]
    bom: bool,
    /// Longest line, and longest CSV record; longer ones are bad lines [default: 256M]
    #[arg(long, value_name = "SIZE", value_parser = line_limit)]
    line_limit: Option<u64>,
    /// Bits of a SOSD key, 32 or 64 [default: by the length of the file]
    #[arg(long, value_name = "BITS", value_parser = key_bits)]
    key_bits: Option<u32>,
    /// Keys and values are escaped text, as scan prints it: \\ \t \n \r \xNN
    #[arg(long)]
    escaped: bool,
    /// Keys come in strictly ascending order: write tables directly, without log or merging; all
    /// becomes visible at the end, and a key out of order is a bad line
    #[arg(long, conflicts_with_all = ["batch", "resume"])]
    sorted: bool,
    /// Records written at once; a batch also ends at 1 MiB
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = units::whole::<u64>(1, 1_000_000))]
    batch: u64,
    /// Report every bad line to this file, and how far the load has come
    #[arg(long, value_name = "FILE")]
    bad_lines: Option<PathBuf>,
    /// Go on where a load that was stopped came to; give the same input and options
    #[arg(long)]
    resume: bool,
    /// Index of tables that the keyspace writes from now on, one of the kinds in docs/TUNING.md,
    /// such as learned or s-tree
    #[arg(long, value_name = "KIND")]
    index: Option<IndexKind>,
    /// Their compression: none, lz4 or (where built in) zstd
    #[arg(long, value_name = "NAME")]
    compression: Option<Compression>,
    /// Memory that the engine may use, such as 64M or 1G
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    memory: Option<u64>,
    /// Let `solera control watch` see what is done meanwhile, in the file OBSERVED in the
    /// database's directory
    #[arg(long)]
    publish: bool,
    #[command(flatten)]
    tuning: Tuning,
    /// Record every write, without its value, in this new file, for `solera trace`
    #[arg(long, value_name = "FILE", conflicts_with = "sorted")]
    trace: Option<PathBuf>,
    /// Put hashes for keys into the trace, under a key that the run draws and forgets
    #[arg(long, requires = "trace")]
    hash_keys: bool,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
SOSD keys are stored big-endian, so that byte order is number order; the value is the key's position in the \
file, from 0, as a big-endian u64. When a key occurs twice, the later record wins.

Bad lines (no such column or field, not JSON, a key over 65,535 bytes, ..) are left out, the rest is loaded, \
and the exit status is 3. Without --bad-lines the first of them are named on standard error. The report is \
JSON lines; `jq -r 'select(.text).text' REPORT` gives the lines again, to be mended and loaded. FILE is made, or \
replaced if it is the report of an earlier load; any other file is left alone.

A load that was stopped, by a signal or a full disk, goes on with the same arguments and --resume; --trace then needs \
the name of a new file. So does one that \
was complete and whose input has more lines now. The lines that were loaded must be the same: their hash is compared. \
A --sorted load is the exception.

A compressed FILE is read twice: its checksums are compared before the first record is loaded. Compressed \
standard input is kept in a temporary file until then.

Examples:
  zstd -dc history.tsv.zst | solera load --dir DB --format tsv --key 1,2 -
  solera load --dir DB --header --key id --bad-lines bad.jsonl people.csv.gz
  solera load --dir DB --keyspace users --key /user/id users.jsonl
  solera scan --dir DB | solera load --dir COPY --format tsv --escaped -";

/// What is said of a load that was stopped before it began.
const NOT_BEGUN: &str = "stopped by a signal; nothing is loaded";
/// Bytes after which a batch is written whatever its count.
const BATCH_BYTES: usize = 1 << 20;
/// Bad lines that are named on standard error when there is no report.
const BAD_LINES_SHOWN: u64 = 20;
/// Time between two observations that are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// Where the file behind standard input is found, if there is one.
const STANDARD_INPUT: &str = "/dev/stdin";
/// Time between two marks in the report; each costs a sync.
const MARK_NS: u64 = 2_000_000_000;

impl Load {
    pub(crate) fn run(self) -> Result<Outcome> {
        let format = self.format()?;
        let options = Options {
            format,
            key: self.key.clone(),
            value: self.value.clone(),
            header: self.header,
            delimiter: self.delimiter,
            line_bytes_max: self.line_limit,
            crlf: self.crlf,
            bom: self.bom,
            key_bits: self.key_bits,
            escaped: self.escaped,
        };
        let resume = match self.sorted {
            true => "the rest can be loaded from an input without them",
            false => "go on with the same arguments and --resume",
        };
        // Before the input is looked at, which takes long if it is compressed.
        let begun = Arc::new(AtomicBool::new(false));
        let has_begun = begun.clone();
        signal::watch(Box::new(move || match has_begun.load(atomic::Ordering::Acquire) {
            true => {
                format!("stopped at once; what was written before is in; {resume}")
            }
            false => NOT_BEGUN.to_owned(),
        }))?;
        // The input and its options are looked at first: nothing is created for a load that cannot
        // start.
        let input = Input::open(&self.input)?;
        if let Some(foreign) = input.foreign.filter(|_| format != Format::Sosd) {
            return Err(Failure::Usage(format!("{} is {foreign}", input.name)));
        }
        let bar = progress::bar(input.source_bytes);
        let (consumed, name) = (input.consumed.clone(), input.name.clone());
        let records = options.open(input)?;
        let database = &self.place.place.database;
        self.refuse_files_of_others()?;
        self.compression.map_or(Ok(()), must_be_available)?;
        if self.resume {
            // What the report says is done would be missing.
            database.must_exist()?;
        }

        if signal::stop_asked() {
            return Err(Failure::Interrupted(NOT_BEGUN.to_owned()));
        }
        let mut engine = solera::Options::new();
        if let Some(bytes) = self.memory {
            engine = engine.memory(bytes);
        }
        let db = self.place.open_or_create(engine)?;
        let publisher = self.publish.then(|| db.control().publish(None, PUBLISH_EVERY)).transpose()?;
        let record = |path| db.control().trace(path, TraceOptions::new().hash_keys(self.hash_keys));
        let recording = self.trace.as_deref().map(record).transpose()?;
        let keyspace = self.keyspace(&db)?;
        let tuner = self.tuning.start(&db, &self.place.place.keyspace)?;
        // Before there is a note of how far the load has come: a user that sees one may stop the
        // load.
        begun.store(true, atomic::Ordering::Release);
        let description = self.description(&db, format);
        let (report, before) = self.report(&description)?;
        if db.last_seqno() < before.seqno {
            return Err(Failure::Usage(format!(
                "{} is not the database that the load had written to, or an older copy of it: it has come to operation \
                 {}, and the load to {}; start without --resume",
                database.path().display(),
                units::count(db.last_seqno()),
                units::count(before.seqno)
            )));
        }
        let mut load = Loading {
            records,
            record: Record::default(),
            escaped: self.escaped,
            before: (before.through_line > 0).then_some(before),
            input: name,
            mark: Mark { complete: false, ..before },
            report,
            keeps_bad_lines: self.bad_lines.is_some(),
            bar,
            consumed,
            clock: SystemClock::new(),
        };
        let loaded = match self.sorted {
            true => load.ingest(&keyspace)?,
            false => load.write(&db, &keyspace, self.batch),
        };
        let ended = loaded.and_then(|()| {
            // What is left in the log would be replayed by the next open.
            let synced = keyspace.flush().and_then(|()| db.sync()).map_err(Failure::from);
            synced.and_then(|()| load.finish(&db)).map_err(|failure| failure.and(load.how_many()))
        });
        ended.map_err(|failure| match failure {
            // There is nothing to go on with.
            Failure::Usage(_) => failure,
            _ => failure.and(resume),
        })?;
        if self.bad_lines.is_none() {
            // Nothing is left to go on with. One that stays is replaced by the next load.
            let _ = remove_progress(&self.progress(&description));
        }
        let recorded = recording.map(|recording| {
            let path = recording.path().to_owned();
            (path, recording.finish())
        });
        Tuning::end(tuner);
        drop((publisher, keyspace));
        db.close()?;
        load.records.notes().iter().for_each(|note| say(note));
        self.summarise(&load, before, recorded.as_ref())
    }

    /// A report is a file of its own: not the input, and not in the database.
    fn refuse_files_of_others(&self) -> Result<()> {
        for (flag, path) in [("--bad-lines", &self.bad_lines), ("--trace", &self.trace)] {
            let Some(path) = path else { continue };
            let is_input = match self.input.as_os_str() == "-" {
                true => own::is_same(path, Path::new(STANDARD_INPUT)),
                false => own::is_same(path, &self.input),
            };
            let wrong = match path {
                _ if is_input => "the input",
                path if own::is_within(path, self.place.place.database.path()) => {
                    "in the directory of the database"
                }
                _ => continue,
            };
            return Err(Failure::Usage(format!("{flag} {} is {wrong}; name another file", path.display())));
        }
        if let (Some(bad_lines), Some(trace)) = (&self.bad_lines, &self.trace)
            && own::is_same(bad_lines, trace)
        {
            return Err(Failure::Usage(format!("{} cannot be both report and trace", trace.display())));
        }
        self.trace.as_deref().map_or(Ok(()), |path| own::check_new(path, "a trace"))?;
        self.bad_lines.as_deref().map_or(Ok(()), Report::check)
    }

    /// Where a load without `--bad-lines` notes how far it has come.
    fn progress(&self, description: &Value) -> PathBuf {
        self.place.place.database.path().join(report::progress_name(description))
    }

    /// The report to write to, and how far an earlier load came.
    fn report(&self, description: &Value) -> Result<(Option<Report>, Mark)> {
        let in_database = self.progress(description);
        let path = self.bad_lines.as_ref().unwrap_or(&in_database);
        if self.resume {
            let found = match self.bad_lines.is_none() && !path.exists() {
                true => None,
                false => Report::resume(path, description)?,
            };
            return match found {
                Some((report, mark)) => Ok((Some(report), mark)),
                None => Err(self.nothing_to_resume()),
            };
        }
        match self.sorted && self.bad_lines.is_none() {
            true => Ok((None, Mark::default())),
            false => {
                let report = Report::create(path, description, self.bad_lines.is_none())?;
                Ok((Some(report), Mark::default()))
            }
        }
    }

    /// What to say if there is no report of this load.
    fn nothing_to_resume(&self) -> Failure {
        if let Some(path) = &self.bad_lines {
            let path = path.display();
            return Failure::Usage(format!("{path} is not the report of a load; start without --resume"));
        }
        let dir = self.place.place.database.path();
        let others: Vec<String> = report::stopped(dir).iter().map(Value::to_string).collect();
        let others = match others[..] {
            [] => String::new(),
            _ => format!(", or give the input and options of one that was: {}", others.join(", ")),
        };
        Failure::Usage(format!(
            "{} has no load that was stopped of this input with these options; start without --resume{others}",
            dir.display()
        ))
    }

    fn format(&self) -> Result<Format> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let name = self.input.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("tsv") => Ok(Format::Tsv),
            Some("csv") => Ok(Format::Csv),
            Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
            Some("txt") => Ok(Format::Lines),
            _ => Err(Failure::Usage(format!(
                "{}; give --format tsv, csv, jsonl, sosd or lines",
                match self.input.as_os_str() == "-" {
                    true => "standard input has no name that tells the format".to_owned(),
                    false => format!("the name {} does not tell the format", self.input.display()),
                }
            ))),
        }
    }

    /// The keyspace, created if it is not there.
    fn keyspace(&self, db: &Db) -> Result<Keyspace> {
        let name = &self.place.place.keyspace;
        if self.resume && !db.keyspaces().contains(name) {
            return Err(Failure::Usage(format!(
                "keyspace {name:?} is not there any more, and what a load had put there is gone; start without --resume"
            )));
        }
        let mut options = KeyspaceOptions::new();
        if let Some(index) = self.index {
            options = options.index(index);
        }
        if let Some(compression) = self.compression {
            options = options.compression(compression);
        }
        Ok(db.keyspace_with(name, options)?)
    }

    /// What must be the same for a load to be gone on with.
    fn description(&self, db: &Db, format: Format) -> Value {
        let observed = db.control().observe();
        let is_ours = |space: &&KeyspaceObservation| space.name == self.place.place.keyspace;
        let number = observed.keyspaces.iter().find(is_ours).map(|space| space.id.0);
        let list = |selectors: &Option<Selectors>| selectors.as_ref().map(ToString::to_string);
        // A note of progress lies in the database itself, which may be moved.
        let database = self.place.place.database.path();
        let database = self.bad_lines.is_some().then(|| database.canonicalize().ok()).flatten();
        json!({
            "load": self.input.to_string_lossy(),
            "database": database.map(|path| path.to_string_lossy().into_owned()),
            "keyspace": self.place.place.keyspace,
            KEYSPACE_NUMBER: number,
            "format": format.to_string(),
            "key": list(&self.key),
            "value": list(&self.value),
            "header": self.header,
            "delimiter": self.delimiter.map(char::from),
            "crlf": self.crlf,
            "bom": self.bom,
            "key_bits": self.key_bits,
            "escaped": self.escaped,
        })
    }

    /// Prints what was done. A trace that is not whole is a failure.
    fn summarise(
        &self,
        load: &Loading,
        before: Mark,
        recorded: Option<&(PathBuf, solera::Result<Recorded>)>,
    ) -> Result<Outcome> {
        let lost = recorded.and_then(|(path, recorded)| {
            let error = match recorded {
                Ok(recorded) => recorded.failure.as_ref()?,
                Err(error) => error,
            };
            let why = Failure::from(error.clone());
            Some(format!("{why}; {} lacks operations, though all records are loaded", path.display()))
        });
        let recorded = recorded.and_then(|(_, recorded)| recorded.as_ref().ok());
        let printed = self.print_summary(load, before, recorded, lost.as_deref());
        let found = match lost {
            Some(lost) => Err(Failure::Error(lost)),
            None if load.mark.bad > 0 => Ok(Outcome::Partly),
            None => Ok(Outcome::Done),
        };
        Failure::told(found, printed)
    }

    fn print_summary(
        &self,
        load: &Loading,
        before: Mark,
        recorded: Option<&Recorded>,
        lost: Option<&str>,
    ) -> Result<()> {
        let mark = load.mark;
        let seconds = load.clock.monotonic_ns() as f64 / 1e9;
        let loaded = mark.loaded - before.loaded;
        let rate = loaded as f64 / seconds.max(1e-9);
        if self.json {
            let mut summary = json!({
                "keyspace": self.place.place.keyspace,
                "loaded": mark.loaded,
                "loaded_now": loaded,
                "bad_lines": mark.bad,
                "lines": mark.through_line,
                "input_bytes": load.consumed.bytes(),
                "seconds": seconds,
                "records_per_second": rate,
            });
            if let Some(recorded) = recorded {
                summary["traced"] = recorded.operations.into();
                summary["trace_dropped"] = recorded.dropped.into();
            }
            if let Some(lost) = lost {
                summary["trace_failure"] = lost.into();
            }
            print_json(&summary)?;
        } else {
            let mut text = format!(
                "{} loaded in {} ({} records/s), {} read",
                units::plural(loaded, "record"),
                units::seconds(seconds),
                units::count(rate as u64),
                units::bytes(load.consumed.bytes())
            );
            if self.resume {
                text.push_str(&format!("; {} in all", units::count(mark.loaded)));
            }
            if before.complete && loaded == 0 {
                text.push_str("; the load was complete, and the input has no more lines than then");
            }
            if mark.bad > 0 {
                text.push_str(&format!("; {} left out", units::plural(mark.bad, "bad line")));
                if let Some(path) = &self.bad_lines {
                    text.push_str(&format!(", see {}", path.display()));
                }
            }
            if let Some(recorded) = recorded {
                text.push_str(&format!("; {} in the trace", units::plural(recorded.operations, "operation")));
                if recorded.dropped > 0 {
                    text.push_str(&format!(", {} left out", units::count(recorded.dropped)));
                }
            }
            print_text(&text)?;
        }
        Ok(())
    }
}

fn line_limit(text: &str) -> Result<u64, String> {
    match units::parse_bytes(text)? {
        0 => Err("a line has at least 1 byte".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A load under way.
struct Loading {
    records: Box<dyn Records>,
    record: Record,
    escaped: bool,
    /// Where an earlier load of this input came to, until the input has come there too.
    before: Option<Mark>,
    /// The input's name in messages.
    input: String,
    mark: Mark,
    report: Option<Report>,
    /// The report is the user's, and bad lines go into it.
    keeps_bad_lines: bool,
    bar: ProgressBar,
    consumed: Consumed,
    clock: SystemClock,
}

impl Loading {
    /// Goes to the next good record that is not yet loaded, reporting bad ones; false at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            let next = self.records.next(&mut self.record)?;
            if self.is_before_the_mark(next == Next::End)? {
                continue;
            }
            if next == Next::End {
                return Ok(false);
            }
            (self.mark.through_line, self.mark.passed) = (self.record.line, self.records.passed());
            match next {
                Next::Record => match self.usable() {
                    Ok(()) => return Ok(true),
                    Err(reason) => self.bad(&reason, None)?,
                },
                Next::Bad { reason, text } => self.bad(&reason, Some(text))?,
                Next::End => return Ok(false),
            }
        }
    }

    /// Whether an earlier load has done the present record. Fails if what was read up to its mark
    /// is not what that load had read.
    fn is_before_the_mark(&mut self, ended: bool) -> Result<bool> {
        let Some(before) = self.before else { return Ok(false) };
        let is_another = match (ended, self.record.line.cmp(&before.through_line)) {
            (false, Ordering::Less) => return Ok(true),
            (false, Ordering::Equal) => self.records.passed() != before.passed,
            _ => true,
        };
        if !is_another {
            self.before = None;
            return Ok(true);
        }
        Err(Failure::Usage(format!(
            "{} is not the input that the load had read up to line {}: {}; give that input, or load this one without \
             --resume",
            self.input,
            units::count(before.through_line),
            match ended {
                true => format!("it ends at line {}", units::count(self.record.line)),
                false => "its lines up to there are others".to_owned(),
            }
        )))
    }

    /// Takes the escapes out of the record and checks its sizes, so that one oversized record does
    /// not fail the batch that it is in.
    fn usable(&mut self) -> Result<(), String> {
        let Record { key, value, .. } = &mut self.record;
        if self.escaped {
            *key = unescape(key).map_err(|what| format!("key: {what}"))?;
            *value = unescape(value).map_err(|what| format!("value: {what}"))?;
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(format!("the key has {} bytes; at most {KEY_BYTES_MAX} are allowed", key.len()));
        }
        if value.len() as u64 > VALUE_BYTES_MAX {
            return Err(format!(
                "the value has {} bytes; at most {VALUE_BYTES_MAX} are allowed",
                value.len()
            ));
        }
        Ok(())
    }

    fn bad(&mut self, reason: &str, text: Option<Vec<u8>>) -> Result<()> {
        self.mark.bad += 1;
        let line = self.record.line;
        if let Some(report) = self.report.as_mut().filter(|_| self.keeps_bad_lines) {
            let text = text.unwrap_or_else(|| self.records.text());
            return report.bad_line(line, reason, &text);
        }
        let shown = self.mark.bad;
        self.bar.suspend(|| {
            if shown <= BAD_LINES_SHOWN {
                say(&format!("line {line}: {reason}"));
            }
            if shown == BAD_LINES_SHOWN {
                say("further bad lines are only counted; --bad-lines FILE reports all");
            }
        });
        Ok(())
    }

    /// Writes all records in batches. A failure says how many records are in.
    fn write(&mut self, db: &Db, keyspace: &Keyspace, batch_records: u64) -> Result<()> {
        let mut marked_ns = self.clock.monotonic_ns();
        let mut batch = db.batch();
        let mut bytes = 0;
        // What the database has.
        let mut written = self.mark;
        let ended = loop {
            match self.advance() {
                Ok(true) => {}
                ended => break ended.map(|_| ()),
            }
            batch.put(keyspace, &self.record.key, &self.record.value)?;
            self.mark.loaded += 1;
            bytes += self.record.key.len() + self.record.value.len();
            if batch.len() as u64 >= batch_records || bytes >= BATCH_BYTES {
                self.write_batch(db, std::mem::replace(&mut batch, db.batch()), &mut written)?;
                bytes = 0;
                self.show();
                if signal::stop_asked() {
                    break Err(Failure::Interrupted("stopped by a signal".to_owned()));
                }
                let now_ns = self.clock.monotonic_ns();
                if self.report.is_some() && now_ns - marked_ns >= MARK_NS {
                    self.write_mark(db).map_err(|failure| failure.and(self.how_many()))?;
                    marked_ns = now_ns;
                }
            }
        };
        self.write_batch(db, batch, &mut written)?;
        ended.map_err(|failure| {
            if matches!(failure, Failure::Usage(_)) {
                return failure;
            }
            let noted = keyspace.flush().map_err(Failure::from).and_then(|()| self.write_mark(db));
            let failure = match noted {
                // What fails once fails again: of a full report that is said once.
                Err(again) if again.to_string() != failure.to_string() => failure.and(again),
                _ => failure,
            };
            failure.and(self.how_many())
        })
    }

    /// Writes a batch. After a failure the mark is what `written` says that the database has.
    fn write_batch(&mut self, db: &Db, batch: Batch, written: &mut Mark) -> Result<()> {
        match db.write(batch) {
            Ok(_) => *written = self.mark,
            Err(error) => {
                self.mark = *written;
                return Err(Failure::from(error).and(self.how_many()));
            }
        }
        Ok(())
    }

    fn how_many(&self) -> String {
        format!("the {} records before that are loaded", units::count(self.mark.loaded))
    }

    /// Notes in the report, if there is one, that everything up to here is durable.
    fn write_mark(&mut self, db: &Db) -> Result<()> {
        if let Some(report) = &mut self.report {
            db.sync()?;
            self.mark.seqno = db.last_seqno();
            report.mark(self.mark)?;
        }
        Ok(())
    }

    /// Writes all records as tables. They become visible together, or not at all: then this fails.
    /// What it gives is a failure of the input, before which all records are in.
    fn ingest(&mut self, keyspace: &Keyspace) -> Result<Result<()>> {
        let mut failure = None;
        let mut last: Option<Vec<u8>> = None;
        let mut rows = 0u64;
        let ingested = keyspace.ingest(std::iter::from_fn(|| {
            loop {
                if signal::stop_asked() {
                    failure = Some(Failure::Interrupted("stopped by a signal".to_owned()));
                    return None;
                }
                match self.advance() {
                    Ok(true) => {}
                    Ok(false) => return None,
                    // The iterator has no way to fail: end it, and see to the failure afterwards.
                    Err(error) => {
                        failure = Some(error);
                        return None;
                    }
                }
                if last.as_ref().is_some_and(|last| self.record.key <= *last) {
                    let reason = "the key is not greater than the one before (--sorted)";
                    if let Err(error) = self.bad(reason, None) {
                        failure = Some(error);
                        return None;
                    }
                    continue;
                }
                last.get_or_insert_default().clone_from(&self.record.key);
                self.mark.loaded += 1;
                rows += 1;
                if rows.is_multiple_of(1000) {
                    self.show();
                }
                return Some((self.record.key.clone(), self.record.value.clone()));
            }
        }));
        ingested.map_err(|error| Failure::from(error).and("nothing of the input is loaded"))?;
        Ok(match failure {
            Some(failure) => Err(failure.and(self.how_many())),
            None => Ok(()),
        })
    }

    fn show(&self) {
        self.bar.set_position(self.consumed.bytes());
        self.bar.set_message(format!("{} records", units::count(self.mark.loaded)));
    }

    fn finish(&mut self, db: &Db) -> Result<()> {
        self.bar.finish_and_clear();
        (self.mark.complete, self.mark.seqno) = (true, db.last_seqno());
        match &mut self.report {
            Some(report) => report.mark(self.mark),
            None => Ok(()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the file is the command's, not the engine's")]
fn remove_progress(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path)
}

fn ascii_character(text: &str) -> Result<u8, String> {
    match text {
        "\\t" => Ok(b'\t'),
        _ => match text.as_bytes() {
            [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
            _ => Err("one ASCII character, or \\t; not a quote or a line end".to_owned()),
        },
    }
}

fn key_bits(text: &str) -> Result<u32, String> {
    match text {
        "32" => Ok(32),
        "64" => Ok(64),
        _ => Err("32 or 64".to_owned()),
    }
}
