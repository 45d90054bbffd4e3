//! Which columns make the key and which the value: `Selectors`, a list from the command line, and
//! `Projection`, what it comes to for one input.
//!
//! A selector is a number from 1, a name from the header, or a JSON field. A `Projection` writes
//! key and value of a line: several columns are joined by tabs. Without a list for the value, it is
//! all columns that are not in the key. `ragged_note` says how many lines have other columns than
//! the first.
//!
//! What must hold: a column that the header or the line lacks is said by name or number. A key that
//! would become ambiguous when joined is refused.
//!
//! Callers: `record::tsv` and `record::csv`; `record::jsonl` takes the names; `command::load` reads
//! `Selectors`.

use crate::{
    failure::{Failure, Result},
    units::plural,
};
use std::{fmt, str::FromStr};

/// A comma-separated list of columns (numbers from 1, or names from a header) or of JSON fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selectors(Vec<String>);

impl Selectors {
    /// Column 1.
    pub(super) fn first_column() -> Self {
        Selectors(vec!["1".to_owned()])
    }

    /// The names as they were given.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Positions from 0. `header` holds the names of the columns, if the input has them.
    fn positions(&self, header: Option<&[Vec<u8>]>) -> Result<Vec<usize>> {
        self.names()
            .map(|name| {
                if let Ok(number) = name.parse::<usize>() {
                    return number.checked_sub(1).ok_or_else(|| {
                        Failure::Usage("columns are numbered from 1; there is no column 0".to_owned())
                    });
                }
                let Some(header) = header else {
                    return Err(Failure::Usage(format!(
                        "column {name:?} is not a number; give --header if the first line names the columns"
                    )));
                };
                let mut named = (0..header.len()).filter(|&column| header[column] == name.as_bytes());
                match (named.next(), named.next()) {
                    (Some(column), None) => Ok(column),
                    (Some(first), Some(second)) => Err(Failure::Usage(format!(
                        "columns {} and {} are both named {name:?}; name the one that is meant by its number",
                        first + 1,
                        second + 1
                    ))),
                    (None, _) => {
                        let names: Vec<_> = header.iter().map(|name| String::from_utf8_lossy(name)).collect();
                        let kept = header.last().is_some_and(|last| last.ends_with(b"\r"));
                        Err(Failure::Usage(format!(
                            "no column is named {name:?}; the header has {}{}",
                            names.join(", ").trim_end_matches('\r'),
                            if kept {
                                ", and ends in a carriage return, which --crlf leaves out"
                            } else {
                                ""
                            }
                        )))
                    }
                }
            })
            .collect()
    }
}

impl FromStr for Selectors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<String> = text.split(',').map(str::to_owned).collect();
        match names.iter().any(String::is_empty) {
            true => Err("a comma-separated list of columns or fields has an empty name".to_owned()),
            false => Ok(Selectors(names)),
        }
    }
}

impl fmt::Display for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// How a line's columns become a key and a value.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    key: Vec<usize>,
    /// `None`: every column that is not in the key.
    value: Option<Vec<usize>>,
}

impl Projection {
    /// Resolves the selectors against the header.
    pub(super) fn new(
        key: &Selectors,
        value: Option<&Selectors>,
        header: Option<&[Vec<u8>]>,
    ) -> Result<Self> {
        let value = value.map(|value| value.positions(header)).transpose()?;
        Ok(Projection { key: key.positions(header)?, value })
    }

    /// Writes key and value of a line with `count` columns, of which `column` gives the i-th.
    pub(super) fn apply<'c>(
        &self,
        count: usize,
        column: impl Fn(usize) -> &'c [u8],
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<(), String> {
        key.clear();
        value.clear();
        for (i, &position) in self.key.iter().enumerate() {
            let content = present(position, count, "key").map(&column)?;
            if self.key.len() > 1 && content.contains(&b'\t') {
                return Err(format!(
                    "column {} contains a tab, which separates the columns of a key",
                    position + 1
                ));
            }
            join(key, i, content);
        }
        match &self.value {
            Some(positions) => {
                for (i, &position) in positions.iter().enumerate() {
                    join(value, i, present(position, count, "value").map(&column)?);
                }
            }
            None => {
                let rest = (0..count).filter(|position| !self.key.contains(position));
                rest.enumerate().for_each(|(i, position)| join(value, i, column(position)));
            }
        }
        Ok(())
    }
}

/// What is said of `ragged` records that have others than the `columns` of the first line, if there
/// are any.
pub(super) fn ragged_note(ragged: u64, columns: usize) -> Option<String> {
    let have = if ragged == 1 { "has" } else { "have" };
    (ragged > 0).then(|| {
        format!(
            "{} {have} fewer or more than the {} of the first line; they are loaded as they are; --value chooses \
             columns",
            plural(ragged, "record"),
            plural(columns as u64, "column")
        )
    })
}

fn join(out: &mut Vec<u8>, i: usize, content: &[u8]) {
    if i > 0 {
        out.push(b'\t');
    }
    out.extend_from_slice(content);
}

fn present(position: usize, count: usize, part: &str) -> Result<usize, String> {
    match position < count {
        true => Ok(position),
        false => Err(format!("{}; the {part} needs column {}", plural(count as u64, "column"), position + 1)),
    }
}
