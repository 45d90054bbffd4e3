//! Lines of an input: `LineReader`, and `Lines`, the format whose records are lines (the key;
//! values are empty).
//!
//! It reads line by line into one buffer. If told to, it leaves out a byte order mark at the
//! beginning, or a carriage return at the end of each line.
//!
//! What must hold: a line over the limit is a bad one, and reading goes on after it. What was kept
//! of these and may not have been meant is told at the end (`notes`). The last line needs no end.
//!
//! Callers: `record::csv`, `tsv` and `jsonl` read through it; `record::Options::open` makes
//! `Lines`.

use super::{Next, Passed, Record, Records, buffered, passed::Pieces};
use crate::{
    failure::{Failure, Result},
    input::{Consumed, Input},
    units::plural,
};
use std::io::{self, BufRead, BufReader, Read};

/// Reads an input line by line into one buffer.
pub(super) struct LineReader {
    reader: BufReader<Box<dyn Read>>,
    name: String,
    consumed: Consumed,
    line: Vec<u8>,
    /// The present line as it came.
    came: Passed,
    /// All lines up to it.
    passed: Passed,
    number: u64,
    line_bytes_max: u64,
    strip_carriage_return: bool,
    strip_byte_order_mark: bool,
    /// Lines that end in a carriage return, which was kept.
    carriage_returns: u64,
    /// The first line begins with a byte order mark, which was kept.
    keeps_byte_order_mark: bool,
    /// How the first line begins.
    first: Vec<u8>,
}

/// So much of the first line is looked at.
const FIRST_BYTES: usize = 4096;

/// What some programs put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What the line reader found.
pub(super) enum Line {
    /// A line; [`LineReader::content`] has it.
    Whole,
    /// A line over the limit, passed over.
    TooLong,
    /// Nothing more.
    End,
}

impl LineReader {
    /// Reads the lines of `input`.
    pub(super) fn new(input: Input, line_bytes_max: u64, strip_carriage_return: bool) -> Self {
        LineReader {
            reader: buffered(input.reader),
            name: input.name,
            consumed: input.consumed,
            line: Vec::new(),
            came: Passed::default(),
            passed: Passed::default(),
            number: 0,
            line_bytes_max,
            strip_carriage_return,
            strip_byte_order_mark: false,
            carriage_returns: 0,
            keeps_byte_order_mark: false,
            first: Vec::new(),
        }
    }

    /// Leaves out a UTF-8 byte order mark at the beginning of the input.
    pub(super) fn without_byte_order_mark(mut self) -> Self {
        self.strip_byte_order_mark = true;
        self
    }

    /// Goes to the next line.
    pub(super) fn advance(&mut self) -> Result<Line> {
        let line = self.read_line().map_err(|error| {
            Failure::Error(format!(
                "cannot read {} after line {}, near byte {}: {error}",
                self.name,
                self.number,
                self.consumed.bytes()
            ))
        })?;
        if !matches!(line, Line::End) {
            self.passed.add(self.came);
        }
        Ok(line)
    }

    fn read_line(&mut self) -> io::Result<Line> {
        self.line.clear();
        let limit = self.line_bytes_max.saturating_add(1);
        if self.reader.by_ref().take(limit).read_until(b'\n', &mut self.line)? == 0 {
            return Ok(Line::End);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        } else if self.line.len() as u64 > self.line_bytes_max {
            self.came = self.skip_rest()?;
            self.number += 1;
            return Ok(Line::TooLong);
        }
        self.came = Passed::line(&self.line);
        if self.line.last() == Some(&b'\r') {
            match self.strip_carriage_return {
                true => drop(self.line.pop()),
                false => self.carriage_returns += 1,
            }
        }
        if self.number == 0 {
            self.first.extend_from_slice(&self.line[..self.line.len().min(FIRST_BYTES)]);
        }
        if self.number == 0 && self.line.starts_with(BYTE_ORDER_MARK) {
            match self.strip_byte_order_mark {
                true => drop(self.line.drain(..BYTE_ORDER_MARK.len())),
                false => self.keeps_byte_order_mark = true,
            }
        }
        self.number += 1;
        Ok(Line::Whole)
    }

    /// Passes over the rest of a line that is too long.
    fn skip_rest(&mut self) -> io::Result<Passed> {
        let mut pieces = Pieces::default();
        pieces.add(&self.line);
        loop {
            let piece = self.reader.fill_buf()?;
            let end = piece.iter().position(|&byte| byte == b'\n');
            pieces.add(&piece[..end.unwrap_or(piece.len())]);
            let taken = end.map_or(piece.len(), |end| end + 1);
            self.reader.consume(taken);
            if end.is_some() || taken == 0 {
                return Ok(pieces.line());
            }
        }
    }

    /// Why the input may not be what it was taken for. `separators` are what could separate columns
    /// of records that have one each.
    pub(super) fn doubts(&self, separators: &[u8]) -> Vec<String> {
        let first = &self.first[..];
        let nuls = first.iter().filter(|&&byte| byte == 0).count();
        let mut doubts = Vec::new();
        if self.number == 1 && first.strip_suffix(b"\r").unwrap_or(first).contains(&b'\r') {
            doubts.push(
                "the input is one line, with carriage returns in it; if they end its lines, load what \
                 `tr '\\r' '\\n'` makes of it"
                    .to_owned(),
            );
        }
        if nuls * 4 > first.len() {
            doubts.push(
                "much of the first line is NUL bytes: the input may be UTF-16 text, which iconv converts, or no text"
                    .to_owned(),
            );
        }
        if let Some(&separator) = first.iter().find(|byte| separators.contains(byte)) {
            doubts.push(format!(
                "every record has one column, and the first line has {:?} in it; if that separates columns, load again \
                 with --format csv and --delimiter",
                char::from(separator)
            ));
        }
        doubts
    }

    /// What was kept and may not have been meant, and [`LineReader::doubts`]. `end` is where the
    /// end of a line lies now.
    pub(super) fn notes(&self, end: &str, separators: &[u8]) -> Vec<String> {
        let mut notes = self.doubts(separators);
        if self.carriage_returns > 0 {
            let ends = if self.carriage_returns == 1 { "ends" } else { "end" };
            notes.push(format!(
                "{} {ends} in a carriage return, which is in {end} now; if it is part of the line end, load again with \
                 --crlf, into a new keyspace where it is in keys: those that are in stay",
                plural(self.carriage_returns, "line")
            ));
        }
        if self.keeps_byte_order_mark {
            notes.push(
                "the input begins with a UTF-8 byte order mark, which is in the first key now; --bom leaves it out"
                    .to_owned(),
            );
        }
        notes
    }

    /// Number of the present line, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The present line as it came, to know it again.
    pub(super) fn came(&self) -> Passed {
        self.came
    }

    /// All lines up to the present one.
    pub(super) fn passed(&self) -> Passed {
        self.passed
    }

    /// The present line without its end.
    pub(super) fn content(&self) -> &[u8] {
        &self.line
    }

    /// The present line as a bad one.
    pub(super) fn bad(&self, reason: String) -> Next {
        Next::Bad { reason, text: self.line.clone() }
    }

    /// A line that is too long. Its text would fit neither the memory nor a report.
    pub(super) fn too_long(&self) -> Next {
        let reason = format!("longer than {} bytes (--line-limit)", self.line_bytes_max);
        Next::Bad { reason, text: Vec::new() }
    }

    /// Longest line and longest record of several lines, in bytes.
    pub(super) fn line_bytes_max(&self) -> u64 {
        self.line_bytes_max
    }
}

/// Records of which each is a line: the key. Values are empty.
pub(super) struct Lines {
    lines: LineReader,
}

impl Lines {
    /// Reads every line as a key.
    pub(super) fn new(lines: LineReader) -> Self {
        Lines { lines }
    }
}

impl Records for Lines {
    fn next(&mut self, record: &mut Record) -> Result<Next> {
        let line = self.lines.advance()?;
        record.line = self.lines.number();
        record.key.clear();
        record.value.clear();
        Ok(match line {
            Line::Whole => {
                record.key.extend_from_slice(self.lines.content());
                Next::Record
            }
            Line::TooLong => self.lines.too_long(),
            Line::End => Next::End,
        })
    }

    fn text(&self) -> Vec<u8> {
        self.lines.content().to_vec()
    }

    fn passed(&self) -> Passed {
        self.lines.passed()
    }

    fn notes(&self) -> Vec<String> {
        self.lines.notes("the key", b"")
    }
}
