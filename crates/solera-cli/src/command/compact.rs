//! `solera compact`: merges a range of keys, or all, down to its last level, by
//! `Keyspace::compact_range`.
//!
//! It prints bytes of tables and entries before and after, and how long it took.
//!
//! What must hold: no answer changes. Damaged files are told of, and are a failure, when all is
//! done.
//!
//! Caller: `main`.

use crate::{
    escape::Notation,
    failure::{Failure, Outcome, Result},
    given::must_hold_keys,
    output::{print_json, print_text},
    target::{Place, damage},
    units,
};
use serde_json::json;
use solera::clock::{Clock, SystemClock};
use std::{ffi::OsString, ops::Bound};

/// Merge all levels of a range of keys into the last: reads get faster, deleted data gives its
/// space back
#[derive(Debug, clap::Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    place: Place,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Keys are escaped text, as scan prints it: \\ \t \n \r \xNN
    #[arg(long, conflicts_with = "hex")]
    escaped: bool,
    /// Keys are hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Compact {
    pub(crate) fn run(self) -> Result<Outcome> {
        let notation = Notation::from_flags(self.escaped, self.hex);
        let read =
            |argument: &Option<OsString>| argument.as_deref().map(|text| notation.read(text)).transpose();
        let (from, to) = (read(&self.from)?, read(&self.to)?);
        must_hold_keys(from.as_deref().unwrap_or_default(), to.as_deref())?;
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let end = to.map_or(Bound::Unbounded, Bound::Excluded);

        let clock = SystemClock::new();
        let (db, keyspace) = self.place.open_to_change()?;
        let before = keyspace.stats();
        keyspace.compact_range((start, end))?;
        let after = keyspace.stats();
        drop(keyspace);
        db.close()?;

        let seconds = clock.monotonic_ns() as f64 / 1e9;
        let printed = if self.json {
            print_json(&json!({
                "keyspace": self.place.keyspace,
                "table_bytes_before": before.table_bytes,
                "table_bytes_after": after.table_bytes,
                "entries_before": before.entries,
                "entries_after": after.entries,
                "seconds": seconds,
            }))
        } else {
            print_text(&format!(
                "{}: {} → {}, {} → {} entries, in {}",
                self.place.keyspace,
                units::bytes(before.table_bytes),
                units::bytes(after.table_bytes),
                units::count(before.entries),
                units::count(after.entries),
                units::seconds(seconds)
            ))
        };
        Failure::told(damage(&[after]).map_or(Ok(Outcome::Done), Err), printed.map_err(Failure::from))
    }
}
