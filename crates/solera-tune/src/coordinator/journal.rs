//! The journal: what a tuner saw and decided, line by line, in a file of its own (`TUNED`) in the
//! database's directory: `Journal`, of `Record`s.
//!
//! A `Record` is a beginning (`Begin`, everything that is known), a window with its decision, an
//! answer, or an end. Its line has a CRC-32C in eight hexadecimal digits, a space, and a JSON
//! object. The first is a `Begin`. A file that has 8 MiB beside its newest `Begin` is full. It is
//! written anew with its newest part (4 MiB at most beside that), from a `Begin` on.
//!
//! What must hold: what is read back is what was written, or is cut off where a power cut has torn
//! it. A damaged line that was durable, as others after it prove, and a file that is no journal are
//! refused and left as they are. What was added is durable after `sync`. A file has the journal's
//! name once its first line is durable.
//! Callers: `attach::stepper`; `replay` goes through its records; `read` by `solera explain`,
//! `solera tune replay`, `solera-sim`'s `tuner` and tests.

use super::{Answer, Decision, Rules, State};
use crate::{
    agent::Maker,
    sight::{Contexts, Goal, Pace, Window},
};
use serde::{Deserialize, Serialize};
use solera::{
    Error, Result,
    vfs::{Fs, WriteFile, read_all},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The journal's name in the directory of its database.
pub const JOURNAL_NAME: &str = "TUNED";
/// What a file that becomes the journal is called until it is whole.
const NEXT_NAME: &str = "TUNED.next";
/// Largest journal, in bytes, beside its newest beginning: how long that is, the agent says.
pub const JOURNAL_BYTES_MAX: u64 = 8 << 20;
/// What is kept of it when it is full, in bytes, beside that.
const KEPT_BYTES: usize = 4 << 20;
/// Number of the journal's form.
pub const FORMAT: u32 = 1;
/// Bytes before the JSON of a line.
const HEAD_BYTES: usize = 9;

/// What tuning begins with, or goes on from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// [`FORMAT`].
    pub format: u32,
    /// When, in Unix milliseconds.
    pub unix_ms: u64,
    /// The keyspace.
    pub keyspace: String,
    /// How the agent was made.
    pub maker: Maker,
    /// What is minimised.
    pub goal: Goal,
    /// What holds for all changes.
    pub rules: Rules,
    /// How long windows are.
    pub pace: Pace,
    /// Windows that ended before.
    pub windows: u64,
    /// Contexts that are known.
    pub contexts: Contexts,
    /// What the coordinator knows.
    pub state: State,
    /// What the agent knows.
    pub memory: serde_json::Value,
    /// Whether this goes on from the record before it, in the same process.
    pub goes_on: bool,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// Tuning begins, or its state is written down.
    Begin(Box<Begin>),
    /// A window ended and something was decided.
    Window {
        /// What was seen.
        window: Box<Window>,
        /// What was decided.
        decision: Box<Decision>,
    },
    /// What the database said to the order of the last decision.
    Answer(Answer),
    /// Tuning ended.
    End {
        /// When, in Unix milliseconds.
        unix_ms: u64,
        /// Why.
        why: String,
    },
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    file: Box<dyn WriteFile>,
    bytes: u64,
    /// Bytes of its newest beginning.
    begin_bytes: u64,
    /// Whether its file has the journal's name: a new one gets it once something in it is durable.
    is_named: bool,
}

impl Journal {
    /// The journal of the database in `dir`, with the records that are in it. A tail that a power
    /// cut has torn is cut off. A database that has no journal gets one with the first sync.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the file is no journal, or is damaged, with what to do; [`Error::Io`].
    pub fn open(fs: Arc<dyn Fs>, dir: &Path) -> Result<(Journal, Vec<Record>)> {
        let (lines, records) = read_lines(&*fs, &dir.join(JOURNAL_NAME))?;
        let file = write_next(&*fs, dir, lines.iter().map(String::as_bytes))?;
        let bytes = lines.iter().map(|line| line.len() as u64).sum();
        let begin = records.iter().rposition(|record| matches!(record, Record::Begin(_)));
        let begin_bytes = begin.map_or(0, |at| lines[at].len() as u64);
        let mut journal = Journal { fs, dir: dir.into(), file, bytes, begin_bytes, is_named: false };
        if !lines.is_empty() {
            journal.sync()?;
        }
        Ok((journal, records))
    }

    /// Adds a record. It is durable after [`Journal::sync`].
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn add(&mut self, record: &Record) -> Result<()> {
        let line = line_of(record);
        self.file.append(line.as_bytes())?;
        self.bytes += line.len() as u64;
        if matches!(record, Record::Begin(_)) {
            self.begin_bytes = line.len() as u64;
        }
        Ok(())
    }

    /// Whether it is full, so that it is to be [begun anew](Journal::begin_anew).
    pub fn is_full(&self) -> bool {
        self.bytes > JOURNAL_BYTES_MAX + self.begin_bytes
    }

    /// Makes what was added durable, and writes the file anew with its newest part, from a
    /// [`Record::Begin`] on: from the newest at least.
    ///
    /// # Errors
    /// [`Error::Io`]: the file is as it was.
    pub fn begin_anew(&mut self) -> Result<()> {
        self.sync()?;
        let content = read_all(&*self.fs.open(&self.dir.join(JOURNAL_NAME))?)?;
        let most = KEPT_BYTES + self.begin_bytes as usize;
        let (mut first, mut at) = (0, 0);
        for line in content.split_inclusive(|&byte| byte == b'\n') {
            let is_begin = line[HEAD_BYTES.min(line.len())..].starts_with(b"{\"begin\":");
            if is_begin && content.len() - first > most {
                first = at;
            }
            at += line.len();
        }
        let kept = &content[first..];
        let mut file = write_next(&*self.fs, &self.dir, [kept])?;
        file.sync()?;
        give_name(&*self.fs, &self.dir)?;
        (self.file, self.bytes) = (file, kept.len() as u64);
        Ok(())
    }

    /// Makes what was added durable, under the journal's name.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        if !self.is_named {
            give_name(&*self.fs, &self.dir)?;
            self.is_named = true;
        }
        Ok(())
    }
}

/// The records of the journal at `path`; none if there is no such file. Changes nothing.
///
/// # Errors
/// As [`Journal::open`].
pub fn read(fs: &dyn Fs, path: &Path) -> Result<Vec<Record>> {
    Ok(read_lines(fs, path)?.1)
}

/// A file that holds `lines` and is to become the journal.
fn write_next<'a>(
    fs: &dyn Fs,
    dir: &Path,
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Box<dyn WriteFile>> {
    let next = dir.join(NEXT_NAME);
    // One that a killed process left behind.
    if fs.exists(&next)? {
        fs.remove_file(&next)?;
    }
    let mut file = fs.create(&next)?;
    lines.into_iter().try_for_each(|line| file.append(line))?;
    Ok(file)
}

/// Gives the file that is to become the journal its name.
fn give_name(fs: &dyn Fs, dir: &Path) -> Result<()> {
    fs.rename(&dir.join(NEXT_NAME), &dir.join(JOURNAL_NAME))?;
    fs.sync_dir(dir)
}

fn line_of(record: &Record) -> String {
    let json =
        serde_json::to_string(record).expect("records are maps with names for keys and finite numbers");
    format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()))
}

/// What a line says, if it is whole.
fn record_of(line: &str) -> Result<Record, String> {
    let json = line.get(HEAD_BYTES..).ok_or("it is too short")?;
    let sum = line.get(..8).and_then(|sum| u32::from_str_radix(sum, 16).ok());
    let sum = sum.ok_or("it does not begin with a checksum")?;
    if crc32c::crc32c(json.as_bytes()) != sum {
        return Err("its checksum is another".into());
    }
    serde_json::from_str(json).map_err(|error| format!("its record is none of this release: {error}"))
}

/// Whether a file that begins so is a journal, or was one.
pub fn begins(content: &[u8]) -> bool {
    content.len() > HEAD_BYTES && is_torn_begin(content)
}

/// A line that is whole, with its record, or what is wrong with it.
type Line = std::result::Result<(String, Record), String>;

fn read_lines(fs: &dyn Fs, path: &Path) -> Result<(Vec<String>, Vec<Record>)> {
    if !fs.exists(path)? {
        return Ok((Vec::new(), Vec::new()));
    }
    let content = read_all(&*fs.open(path)?)?;
    let (mut lines, mut at) = (Vec::new(), 0);
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        lines.push((at, parsed(line)));
        at += line.len();
    }
    match lines.first() {
        Some((_, Err(why))) if proves_what_is_before(lines[1..].iter().map(|(_, line)| line)) => {
            return Err(refusal(path, 0, why));
        }
        // A file whose first line is broken is another program's, unless nothing but the beginning
        // of one is there.
        None | Some((_, Err(_))) if is_torn_begin(&content) => return Ok((Vec::new(), Vec::new())),
        Some((_, Err(why))) => return Err(refusal(path, 0, why)),
        Some((_, Ok((_, Record::Begin(_))))) | None => {}
        Some(_) => return Err(refusal(path, 0, "the first line does not begin anything")),
    }
    let broken = lines.iter().position(|(_, line)| line.is_err());
    if let Some(broken) = broken {
        let (at, line) = &lines[broken];
        let after = lines[broken + 1..].iter().map(|(_, line)| line);
        if let Err(why) = line
            && proves_what_is_before(after)
        {
            return Err(refusal(path, *at, why));
        }
        lines.truncate(broken);
    }
    Ok(lines.into_iter().filter_map(|(_, line)| line.ok()).unzip())
}

fn parsed(line: &[u8]) -> Line {
    let whole = line.strip_suffix(b"\n").ok_or("it has no end")?;
    let line = std::str::from_utf8(whole).map_err(|_| "it is no text")?;
    Ok((line.to_owned() + "\n", record_of(line)?))
}

/// Whether lines could only be written once all that is before them was durable, so that what is
/// broken there was damaged. Without that it is a tail that a power cut tore: of what was not made
/// durable, later pages may be kept and earlier ones not.
fn proves_what_is_before<'a>(after: impl Iterator<Item = &'a Line>) -> bool {
    let (mut begun, mut ordered) = (false, false);
    for line in after {
        let Ok((_, record)) = line else {
            ordered = false;
            continue;
        };
        // A beginning is made durable before anything follows it, an order before its answer.
        let is_proof = match record {
            Record::Begin(begin) => !begin.goes_on,
            Record::Answer(_) => ordered,
            Record::Window { .. } | Record::End { .. } => false,
        };
        if begun || is_proof {
            return true;
        }
        begun = matches!(record, Record::Begin(_));
        ordered = matches!(record, Record::Window { decision, .. } if decision.order.is_some());
    }
    false
}

/// Whether `content` can be the beginning of a journal's first line.
fn is_torn_begin(content: &[u8]) -> bool {
    let head = content.iter().take(8).all(u8::is_ascii_hexdigit);
    let expected = b" {\"begin\":";
    head && content.iter().skip(8).zip(expected).all(|(byte, expected)| byte == expected)
}

fn refusal(path: &Path, at: usize, why: &str) -> Error {
    let what = format!(
        "the line that begins here is none of a tuning journal: {why}; move the file away, and tuning begins anew from \
         the settings that stand"
    );
    Error::corrupt(path, at as u64, what)
}
