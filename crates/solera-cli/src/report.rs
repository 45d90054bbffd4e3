//! The file behind `--bad-lines`, or the note of progress in a database's directory: `Report`,
//! which lines were left out and why; and `Mark`, how far a load has come. `progress_name` and
//! `stopped` are of such notes.
//!
//! It is JSON lines. The first says what was loaded into which keyspace. Then come bad lines
//! (`{"line":17,"reason":"..","text":".."}`; `text_hex` where not UTF-8) and marks
//! (`{"through_line":20000,"loaded":19999,"bad":1,"bytes":388001,"hash":"5f0c..","seqno":19999}`).
//!
//! What must hold: a mark is written only after everything up to it is durable, so a load may go on
//! from the last one. What stands after it is cut off on resuming. Resuming refuses the report of
//! another load. A new load replaces any report, and leaves every other file alone. A note of
//! progress is named by its load, so that no other load touches it.
//!
//! Caller: `command::load`.

use crate::{
    failure::{Failure, Result},
    given::beginning,
    output::json_bytes,
    own,
    record::Passed,
};
use serde_json::{Map, Value, json};
use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, BufWriter, Seek, Write},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// How far a load has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Everything up to this line is done.
    pub(crate) through_line: u64,
    /// Records loaded up to it.
    pub(crate) loaded: u64,
    /// Bad lines up to it.
    pub(crate) bad: u64,
    /// The input ended there.
    pub(crate) complete: bool,
    /// What was read up to it.
    pub(crate) passed: Passed,
    /// The database's newest operation was at least this one.
    pub(crate) seqno: u64,
}

impl Mark {
    fn from_json(value: &Value) -> Option<Mark> {
        let number = |name: &str| value.get(name)?.as_u64();
        let hash = u64::from_str_radix(value.get("hash")?.as_str()?, 16).ok()?;
        Some(Mark {
            through_line: number("through_line")?,
            loaded: number("loaded")?,
            bad: number("bad")?,
            complete: value.get("complete").is_some(),
            passed: Passed { bytes: number("bytes")?, hash },
            seqno: number("seqno")?,
        })
    }

    fn to_json(self) -> Value {
        let mut value = json!({
            "through_line": self.through_line,
            "loaded": self.loaded,
            "bad": self.bad,
            "bytes": self.passed.bytes,
            "hash": format!("{:016x}", self.passed.hash),
            "seqno": self.seqno,
        });
        if self.complete {
            value["complete"] = true.into();
        }
        value
    }
}

/// What such a file is called in messages.
const NOUN: &str = "a report of --bad-lines";

/// A report being written.
pub(crate) struct Report {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Report {
    /// Starts a report, replacing an older one. `load` describes what is loaded, for
    /// [`Report::resume`]. A file that is no report is left alone, unless its name is `ours`: then
    /// it is one that was torn.
    pub(crate) fn create(path: &Path, load: &Value, ours: bool) -> Result<Report> {
        let line = format!("{load}\n");
        let file = own::replace(path, NOUN, |beginning| ours || is_report(beginning), line.as_bytes())?;
        Ok(Report { path: path.to_owned(), out: BufWriter::new(file) })
    }

    /// Fails if there is a file that is no report.
    pub(crate) fn check(path: &Path) -> Result<()> {
        own::check(path, NOUN, is_report)
    }

    /// Opens the report of an earlier load to go on with it, and says how far that had come; `None`
    /// if it is no report, or lost its beginning. Fails if it is of another load than `load`.
    pub(crate) fn resume(path: &Path, load: &Value) -> Result<Option<(Report, Mark)>> {
        let failed = |op, error: std::io::Error| Failure::file(op, path.display(), &error);
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(|e| failed("open", e))?;
        // A device may have no end.
        if !file.metadata().map_err(|e| failed("look at", e))?.is_file() {
            return Ok(None);
        }
        let (mut lines, mut line) = (BufReader::new(&file), Vec::new());
        let mut mark = Mark::default();
        let (mut at, mut keep) = (0, 0);
        loop {
            line.clear();
            at += lines.read_until(b'\n', &mut line).map_err(|e| failed("read", e))?;
            // A line without its end was cut off in the middle of being written.
            let Some(value) =
                line.ends_with(b"\n").then(|| serde_json::from_slice::<Value>(&line).ok()).flatten()
            else {
                break;
            };
            if keep == 0 {
                check_description(path, &value, load)?;
                keep = at;
            } else if let Some(found) = Mark::from_json(&value) {
                mark = found;
                keep = at;
            }
        }
        if keep == 0 {
            return Ok(None);
        }
        // Another program's file is never shortened: what stands behind the last mark must be a
        // report's.
        file.set_len(keep as u64).map_err(|e| failed("shorten", e))?;
        file.seek(std::io::SeekFrom::End(0)).map_err(|e| failed("write", e))?;
        Ok(Some((Report { path: path.to_owned(), out: BufWriter::new(file) }, mark)))
    }

    /// Adds a bad line.
    pub(crate) fn bad_line(&mut self, line: u64, reason: &str, text: &[u8]) -> Result<()> {
        let mut object = Map::new();
        object.insert("line".to_owned(), line.into());
        object.insert("reason".to_owned(), reason.into());
        json_bytes(&mut object, "text", text);
        self.line(&object.into())
    }

    /// Adds a mark. Everything up to it must be durable in the database.
    pub(crate) fn mark(&mut self, mark: Mark) -> Result<()> {
        self.line(&mark.to_json())?;
        self.flush()
    }

    fn line(&mut self, value: &Value) -> Result<()> {
        let written = serde_json::to_writer(&mut self.out, value).map_err(std::io::Error::from);
        written
            .and_then(|()| self.out.write_all(b"\n"))
            .map_err(|error| Failure::file("write", self.path.display(), &error))
    }

    fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|error| Failure::file("write", self.path.display(), &error))
    }
}

/// The field of a description that says which keyspace of its name was loaded into.
pub(crate) const KEYSPACE_NUMBER: &str = "keyspace_number";

/// `load` without the number of its keyspace.
fn unnumbered(load: &Value) -> Value {
    let mut load = load.clone();
    load.as_object_mut().and_then(|fields| fields.remove(KEYSPACE_NUMBER));
    load
}

/// What the note of progress of `load` is called.
pub(crate) fn progress_name(load: &Value) -> String {
    format!("{PROGRESS}{:016x}{PROGRESS_END}", xxh3_64(unnumbered(load).to_string().as_bytes()))
}

/// How such names begin and end.
const PROGRESS: &str = "load-";
const PROGRESS_END: &str = ".progress";

/// What was loaded by the loads that were stopped in the database at `dir`, as far as their notes
/// tell.
pub(crate) fn stopped(dir: &Path) -> Vec<Value> {
    let Ok(files) = std::fs::read_dir(dir) else { return Vec::new() };
    let is_note = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(PROGRESS) && name.ends_with(PROGRESS_END)
    };
    let first_line = |path: PathBuf| {
        let text = beginning(&path).ok()?;
        serde_json::from_slice(text.split(|&byte| byte == b'\n').next()?).ok()
    };
    files.flatten().map(|file| file.path()).filter(is_note).filter_map(first_line).collect()
}

/// Fails unless the report at `path`, which describes its load as `found`, is one of `load`.
fn check_description(path: &Path, found: &Value, load: &Value) -> Result<()> {
    if found == load {
        return Ok(());
    }
    let path = path.display();
    Err(Failure::Usage(match unnumbered(found) == unnumbered(load) {
        true => format!(
            "the keyspace was dropped and made again since the load of {path} was stopped, and what it had loaded is gone; \
             start without --resume"
        ),
        false => {
            format!(
                "{path} is the report of another load ({found}); give the same input and options to --resume it"
            )
        }
    }))
}

/// Whether a file that begins so is a report: its first line says what was loaded.
fn is_report(beginning: &[u8]) -> bool {
    let line = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice::<Value>(line) {
        Ok(first) => ["load", "keyspace", "format"].iter().all(|name| first.get(name).is_some()),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn content(path: &Path) -> String {
        let mut text = String::new();
        OpenOptions::new().read(true).open(path).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn a_resumed_report_goes_on_after_its_last_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.jsonl");
        let load = json!({"load": "x"});
        let passed = Passed { bytes: 99, hash: 0xfe };
        let first = Mark { through_line: 10, loaded: 9, bad: 1, complete: false, passed, seqno: 7 };
        {
            let mut report = Report::create(&path, &load, false).unwrap();
            report.bad_line(3, "short", b"a\xff").unwrap();
            report.mark(first).unwrap();
            report.bad_line(12, "short", b"b").unwrap();
            report.flush().unwrap();
        }
        let (mut report, mark) = Report::resume(&path, &load).unwrap().unwrap();
        assert_eq!(mark, first);
        report.bad_line(12, "again", b"b").unwrap();
        report.mark(Mark { through_line: 20, loaded: 18, bad: 2, complete: true, ..first }).unwrap();
        assert_eq!(
            content(&path),
            "{\"load\":\"x\"}\n\
             {\"line\":3,\"reason\":\"short\",\"text_hex\":\"61ff\"}\n\
             {\"through_line\":10,\"loaded\":9,\"bad\":1,\"bytes\":99,\"hash\":\"00000000000000fe\",\"seqno\":7}\n\
             {\"line\":12,\"reason\":\"again\",\"text\":\"b\"}\n\
             {\"through_line\":20,\"loaded\":18,\"bad\":2,\"bytes\":99,\"hash\":\"00000000000000fe\",\"seqno\":7,\
             \"complete\":true}\n"
        );
        assert!(Report::resume(&path, &load).unwrap().unwrap().1.complete);
    }

    #[test]
    fn a_report_without_a_mark_starts_at_the_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.jsonl");
        drop(Report::create(&path, &json!(1), false).unwrap());
        assert_eq!(Report::resume(&path, &json!(1)).unwrap().unwrap().1, Mark::default());
    }

    #[test]
    fn the_report_of_another_load_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bad.jsonl");
        drop(Report::create(&path, &json!({"format": "csv"}), false).unwrap());
        let before = content(&path);
        assert!(matches!(Report::resume(&path, &json!({"format": "tsv"})), Err(Failure::Usage(_))));
        assert_eq!(content(&path), before);
        let path = dir.path().join("letter");
        OpenOptions::new().create_new(true).write(true).open(&path).unwrap().write_all(b"not ours").unwrap();
        assert!(matches!(Report::create(&path, &json!(1), false), Err(Failure::Usage(_))));
        assert_eq!(content(&path), "not ours");
        let empty = dir.path().join("empty");
        drop(OpenOptions::new().create_new(true).write(true).open(&empty).unwrap());
        assert!(Report::resume(&empty, &json!(1)).unwrap().is_none());
        drop(Report::create(&empty, &json!(1), true).unwrap());
        assert_eq!(content(&empty), "1\n", "one of ours that was torn is replaced");
    }
}
