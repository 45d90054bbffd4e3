//! Tab-separated columns: `Tsv`, a `Records`. `record::columns` says which of them are the key and
//! the value.
//!
//! With `--header`, `new` takes the first line for the names of the columns, and it is no record.
//! A line with more or fewer columns than the first is a record if it has those asked for. `notes`
//! tells how many such lines there were.
//!
//! What must hold: there is no quoting. A tab always separates, everything else in a line is
//! content. A line that is empty, too long, or without the columns asked for, is a bad one.
//!
//! Caller: `record::Options::open`.

use super::{
    Next, Passed, Record, Records,
    columns::{Projection, Selectors, ragged_note},
    lines::{Line, LineReader},
};
use crate::failure::Result;

/// Records of which each is a line of columns.
pub(super) struct Tsv {
    lines: LineReader,
    projection: Projection,
    /// Where the present line's columns end.
    ends: Vec<usize>,
    /// Columns of the header, or of the first line.
    columns: Option<usize>,
    /// Lines with fewer or more.
    ragged: u64,
}

impl Tsv {
    /// Reads the header, if there is one.
    pub(super) fn new(
        mut lines: LineReader,
        key: &Selectors,
        value: Option<&Selectors>,
        header: bool,
    ) -> Result<Self> {
        let names: Option<Vec<Vec<u8>>> = match header {
            true => {
                lines.advance()?;
                Some(lines.content().split(|&byte| byte == b'\t').map(<[u8]>::to_vec).collect())
            }
            false => None,
        };
        let projection = Projection::new(key, value, names.as_deref())?;
        let columns = names.map(|names| names.len());
        Ok(Tsv { lines, projection, ends: Vec::new(), columns, ragged: 0 })
    }
}

impl Records for Tsv {
    fn next(&mut self, record: &mut Record) -> Result<Next> {
        let line = self.lines.advance()?;
        record.line = self.lines.number();
        match line {
            Line::Whole => {}
            Line::TooLong => return Ok(self.lines.too_long()),
            Line::End => return Ok(Next::End),
        }
        let content = self.lines.content();
        if content.is_empty() {
            return Ok(self.lines.bad("the line is empty".to_owned()));
        }
        self.ends.clear();
        self.ends.extend(content.iter().enumerate().filter(|(_, byte)| **byte == b'\t').map(|(i, _)| i));
        self.ends.push(content.len());
        let is_ragged = *self.columns.get_or_insert(self.ends.len()) != self.ends.len();
        let ends = &self.ends;
        let column = |i: usize| &content[if i == 0 { 0 } else { ends[i - 1] + 1 }..ends[i]];
        Ok(match self.projection.apply(ends.len(), column, &mut record.key, &mut record.value) {
            Ok(()) => {
                self.ragged += u64::from(is_ragged);
                Next::Record
            }
            Err(reason) => self.lines.bad(reason),
        })
    }

    fn text(&self) -> Vec<u8> {
        self.lines.content().to_vec()
    }

    fn passed(&self) -> Passed {
        self.lines.passed()
    }

    fn notes(&self) -> Vec<String> {
        let ragged = self.columns.and_then(|columns| ragged_note(self.ragged, columns));
        let separators = if self.columns == Some(1) && self.ragged == 0 { &b",;|"[..] } else { b"" };
        self.lines.notes("the last column", separators).into_iter().chain(ragged).collect()
    }
}
