//! Comma-separated values (RFC 4180): `Csv`, a `Records`. Quoted fields may hold separators,
//! doubled quotes and line ends. Another separator may be given, and lines that are empty are
//! passed over.
//!
//! What must hold: it is read strictly where a mistake would swallow data. Text after a closing
//! quote, and a quote that is never closed, make the line on which the record begins a bad one.
//! Reading goes on at the line after it. So a stray quote costs one line, and is reported. A quote
//! inside an unquoted field is content.
//!
//! Caller: `record::Options::open`.

use super::{
    Next, Passed, Record, Records,
    columns::{Projection, Selectors, ragged_note},
    lines::{Line, LineReader},
};
use crate::failure::{Failure, Result};
use std::collections::VecDeque;

/// Records of which each is a CSV record.
pub(super) struct Csv {
    lines: LineReader,
    /// Lines that were read as part of a record that went wrong, to be read again; `None` for one
    /// that is too long.
    again: VecDeque<(Place, Option<Vec<u8>>)>,
    /// The line last read.
    place: Place,
    /// All lines up to the end of the present record.
    passed: Passed,
    projection: Projection,
    fields: Fields,
    /// The present record as it is written, line ends included.
    text: Vec<u8>,
    /// Columns of the header, or of the first record.
    columns: Option<usize>,
    /// Records with fewer or more.
    ragged: u64,
}

impl Csv {
    /// Reads the header, if there is one.
    pub(super) fn new(
        lines: LineReader,
        delimiter: u8,
        key: &Selectors,
        value: Option<&Selectors>,
        header: bool,
    ) -> Result<Self> {
        let mut this = Csv {
            lines,
            again: VecDeque::new(),
            place: Place::default(),
            passed: Passed::default(),
            projection: Projection::new(&Selectors::first_column(), None, None)?,
            fields: Fields::new(delimiter),
            text: Vec::new(),
            columns: None,
            ragged: 0,
        };
        let mut names = None;
        if header {
            if let Next::Bad { reason, .. } = this.advance(&mut Record::default())? {
                return Err(Failure::Error(format!("the header cannot be read: {reason}")));
            }
            this.columns = Some(this.fields.count());
            names = Some((0..this.fields.count()).map(|i| this.fields.get(i).to_vec()).collect::<Vec<_>>());
        }
        this.projection = Projection::new(key, value, names.as_deref())?;
        Ok(this)
    }

    /// Appends the next line to the text.
    fn line(&mut self) -> Result<Line> {
        if let Some((place, line)) = self.again.pop_front() {
            self.place = place;
            self.text.extend_from_slice(line.as_deref().unwrap_or_default());
            return Ok(if line.is_some() { Line::Whole } else { Line::TooLong });
        }
        let line = self.lines.advance()?;
        self.place = Place { number: self.lines.number(), came: self.lines.came() };
        if matches!(line, Line::Whole) {
            self.text.extend_from_slice(self.lines.content());
        }
        Ok(line)
    }

    /// Reads the fields of the next record; `record` gets its line.
    fn advance(&mut self, record: &mut Record) -> Result<Next> {
        loop {
            self.text.clear();
            let line = self.line()?;
            record.line = self.place.number;
            if !matches!(line, Line::End) {
                self.passed.add(self.place.came);
            }
            match line {
                Line::Whole if matches!(self.text[..], [] | [b'\r']) => {}
                Line::Whole => break,
                Line::TooLong => return Ok(self.lines.too_long()),
                Line::End => return Ok(Next::End),
            }
        }
        let first_line = self.text.len();
        self.fields.clear();
        let mut fed = self.fields.feed(&self.text);
        // Lines after the first, in case they must be read again.
        let mut taken = Vec::new();
        while fed == Fed::Open {
            let before = self.text.len();
            self.text.push(b'\n');
            let goes_on = (before as u64) < self.lines.line_bytes_max();
            let line = if goes_on { self.line()? } else { Line::End };
            fed = match line {
                Line::Whole => {
                    taken.push((self.place, Some(self.text[before + 1..].to_vec())));
                    self.fields.feed(&self.text[before + 1..])
                }
                Line::TooLong => {
                    taken.push((self.place, None));
                    Fed::never_closed()
                }
                Line::End => Fed::never_closed(),
            };
        }
        let Fed::Wrong(reason) = fed else {
            taken.iter().for_each(|(place, _)| self.passed.add(place.came));
            self.passed.end_record();
            return Ok(Next::Record);
        };
        self.passed.end_record();
        taken.into_iter().rev().for_each(|line| self.again.push_front(line));
        self.text.truncate(first_line);
        Ok(Next::Bad { reason, text: self.text.clone() })
    }
}

impl Records for Csv {
    fn next(&mut self, record: &mut Record) -> Result<Next> {
        let next = self.advance(record)?;
        if next != Next::Record {
            return Ok(next);
        }
        let fields = &self.fields;
        let is_ragged = *self.columns.get_or_insert(fields.count()) != fields.count();
        let column = |i: usize| fields.get(i);
        Ok(match self.projection.apply(fields.count(), column, &mut record.key, &mut record.value) {
            Ok(()) => {
                self.ragged += u64::from(is_ragged);
                Next::Record
            }
            Err(reason) => Next::Bad { reason, text: self.text.clone() },
        })
    }

    fn text(&self) -> Vec<u8> {
        self.text.clone()
    }

    fn passed(&self) -> Passed {
        self.passed
    }

    /// Carriage returns before line ends belong to the format.
    fn notes(&self) -> Vec<String> {
        let separators = if self.columns == Some(1) && self.ragged == 0 { &b"\t;|"[..] } else { b"" };
        let ragged = self.columns.and_then(|columns| ragged_note(self.ragged, columns));
        self.lines.doubts(separators).into_iter().chain(ragged).collect()
    }
}

/// A line of the input: its number, and what it is known by.
#[derive(Clone, Copy, Default)]
struct Place {
    number: u64,
    came: Passed,
}

/// The fields of a record, without their quotes.
struct Fields {
    delimiter: u8,
    content: Vec<u8>,
    ends: Vec<usize>,
    /// The last line ended inside quotes.
    open: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Fed {
    /// The record is complete.
    Complete,
    /// The line ended inside quotes; the record goes on with the next line.
    Open,
    /// This is no CSV record.
    Wrong(String),
}

impl Fed {
    fn never_closed() -> Self {
        Fed::Wrong("a double quote that is opened on this line is never closed".to_owned())
    }
}

impl Fields {
    fn new(delimiter: u8) -> Self {
        Fields { delimiter, content: Vec::new(), ends: Vec::new(), open: false }
    }

    fn clear(&mut self) {
        self.content.clear();
        self.ends.clear();
        self.open = false;
    }

    fn count(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, i: usize) -> &[u8] {
        &self.content[if i == 0 { 0 } else { self.ends[i - 1] }..self.ends[i]]
    }

    /// Takes one line, without its end, of the record.
    fn feed(&mut self, line: &[u8]) -> Fed {
        let mut rest = line;
        if self.open {
            self.content.push(b'\n');
        }
        loop {
            if !self.open {
                match rest.strip_prefix(b"\"") {
                    Some(after) => {
                        self.open = true;
                        rest = after;
                    }
                    None => {
                        let end = rest.iter().position(|&byte| byte == self.delimiter);
                        let field = &rest[..end.unwrap_or(rest.len())];
                        match end {
                            Some(end) => {
                                self.end_field(field);
                                rest = &rest[end + 1..];
                                continue;
                            }
                            None => {
                                self.end_field(field.strip_suffix(b"\r").unwrap_or(field));
                                return Fed::Complete;
                            }
                        }
                    }
                }
            }
            let Some(quote) = rest.iter().position(|&byte| byte == b'"') else {
                self.content.extend_from_slice(rest);
                return Fed::Open;
            };
            self.content.extend_from_slice(&rest[..quote]);
            rest = &rest[quote + 1..];
            if let Some(after) = rest.strip_prefix(b"\"") {
                self.content.push(b'"');
                rest = after;
                continue;
            }
            self.open = false;
            self.end_field(b"");
            match rest {
                [] | [b'\r'] => return Fed::Complete,
                [delimiter, after @ ..] if *delimiter == self.delimiter => rest = after,
                _ => {
                    return Fed::Wrong(format!(
                        "column {}: text after a closing double quote; a quote inside quotes is written twice",
                        self.count()
                    ));
                }
            }
        }
    }

    fn end_field(&mut self, last: &[u8]) {
        self.content.extend_from_slice(last);
        self.ends.push(self.content.len());
    }
}
