//! `solera scan`: prints entries in key order, from either end, of a range or prefix, up to a
//! limit.
//!
//! What must hold: output is buffered, in the notation that was asked for. A reader that stops
//! reading is no failure. An entry that cannot be read is left out, and the status says so. Of keys
//! alone no value is read. The database is opened read-only.
//!
//! Caller: `main`.

use crate::{
    failure::{Failure, Outcome, Result},
    output::{Form, stdout},
    target::Place,
    units,
};
use solera::{Iter, Keys, Slice, dir::FileName, error::Error, key::prefix_end};
use std::{ffi::OsString, io::Write, ops::Bound};

/// Print the entries of a range in key order, one per line: key, tab, value
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
By default keys and values are escaped text: printable ASCII as it is, \\\\ for a backslash, \\t, \\n, \\r, and \
\\xNN for every other byte; so the tab between them is the only one on its line. With --raw nothing is \
escaped: lines can be told apart only if keys and values have no newline in them.

The range is what all of --prefix, --from and --to admit. With --rev the entries come from its end; --limit \
counts the entries printed.")]
pub(crate) struct Scan {
    #[command(flatten)]
    place: Place,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// At most this many entries
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    rev: bool,
    /// Without values
    #[arg(long)]
    keys_only: bool,
    #[command(flatten)]
    form: Form,
}

/// Bytes of output collected before they are written.
const LINE_BUFFER_BYTES: usize = 64 << 10;

/// Whether `error` is of a table: then entries are lost whose number nobody knows, and the iterator
/// ends.
fn is_of_table(error: &Error) -> bool {
    match error {
        Error::Corrupt { file: path, .. } | Error::Io { path, .. } => {
            matches!(FileName::of(path), Some(FileName::Table(_)))
        }
        _ => false,
    }
}

/// What is walked over.
enum Walk {
    Entries(Iter),
    /// And the key that was walked to, if there was one.
    Keys(Keys, Option<Slice>),
}

impl Walk {
    /// Whether there is one more, to which it then moved.
    fn advance(&mut self, back: bool) -> Result<bool, Error> {
        match self {
            Walk::Entries(entries) if back => entries.advance_back(),
            Walk::Entries(entries) => entries.advance(),
            Walk::Keys(keys, at) => {
                *at = if back { keys.next_back() } else { keys.next() }.transpose()?;
                Ok(at.is_some())
            }
        }
    }

    fn at(&self) -> (&[u8], Option<&[u8]>) {
        match self {
            Walk::Entries(entries) => (entries.key(), Some(entries.value())),
            Walk::Keys(_, at) => (at.as_deref().unwrap_or_default(), None),
        }
    }
}

impl Scan {
    pub(crate) fn run(self) -> Result<Outcome> {
        let (start, end) = self.bounds()?;
        let (_db, keyspace) = self.place.open_to_read()?;
        let mut out = stdout();
        let iter = keyspace.range((Bound::Included(start), end.map_or(Bound::Unbounded, Bound::Excluded)));
        let mut walk = match self.keys_only {
            true => Walk::Keys(iter.keys(), None),
            false => Walk::Entries(iter),
        };
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut lines = Vec::with_capacity(LINE_BUFFER_BYTES * 2);
        // An error may be of one entry alone; after any other the iterator ends.
        let mut unread: Option<(Failure, u64)> = None;
        let mut ends = false;
        while left > 0 {
            match walk.advance(self.rev) {
                Ok(true) => left -= 1,
                Ok(false) => break,
                Err(error) => {
                    ends |= is_of_table(&error);
                    unread.get_or_insert_with(|| (error.into(), 0)).1 += 1;
                    continue;
                }
            }
            let (key, value) = walk.at();
            self.form.write_entry(&mut lines, key, value)?;
            if lines.len() >= LINE_BUFFER_BYTES {
                out.write_all(&lines)?;
                lines.clear();
            }
        }
        out.write_all(&lines)?;
        out.flush()?;
        let unread = unread.map(|(failure, count)| match ends {
            true => (failure.and("the output ends there: no entry behind it is printed"), count),
            false => (failure, count),
        });
        match unread {
            None => Ok(Outcome::Done),
            Some((failure, 1)) => Err(failure),
            Some((failure, count)) => {
                Err(failure.and(format!("{} entries are left out in all", units::count(count))))
            }
        }
    }

    /// First key, and the key before which to stop.
    fn bounds(&self) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
        let read = |argument: &Option<OsString>| {
            argument.as_deref().map(|text| self.form.notation().read(text)).transpose()
        };
        let (prefix, from, to) = (read(&self.prefix)?, read(&self.from)?, read(&self.to)?);
        let after_prefix = prefix.as_deref().and_then(prefix_end);
        let start = prefix.into_iter().chain(from).max().unwrap_or_default();
        let end = after_prefix.into_iter().chain(to).min();
        Ok((start, end))
    }
}
