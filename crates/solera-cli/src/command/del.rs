//! `solera del`: deletes keys, a prefix, or all keys of a range, durably and at once, in one batch.
//!
//! What must hold: it opens an existing database and makes none. A key that is not there is no
//! mistake. An empty `--prefix`, `--from` or `--to` is refused: only `--all` means all. An empty
//! key is a key like any other.
//!
//! Caller: `main`.

use crate::{
    escape::Notation,
    failure::{Failure, Outcome, Result},
    given::must_hold_keys,
    output::print_json,
    target::Place,
};
use serde_json::json;
use solera::{Durability, key::prefix_end};
use std::ffi::OsString;

/// Delete keys, or all keys of a range, durably and at once
#[derive(Debug, clap::Args)]
pub(crate) struct Del {
    #[command(flatten)]
    place: Place,
    /// The keys; put -- before them if one begins with a hyphen
    #[arg(required_unless_present_any = ["prefix", "from", "to", "all"])]
    keys: Vec<OsString>,
    /// Delete every key that begins so
    #[arg(long, value_name = "KEY", conflicts_with_all = ["keys", "from"])]
    prefix: Option<OsString>,
    /// Delete from this key on, to the end unless --to is given
    #[arg(long, value_name = "KEY", conflicts_with = "keys")]
    from: Option<OsString>,
    /// Delete up to this key, itself not, from the beginning unless --from is given
    #[arg(long, value_name = "KEY", conflicts_with_all = ["keys", "prefix"])]
    to: Option<OsString>,
    /// Delete every key of the keyspace
    #[arg(long, conflicts_with_all = ["keys", "prefix", "from", "to"])]
    all: bool,
    /// Keys are escaped text, as scan prints it: \\ \t \n \r \xNN
    #[arg(long, conflicts_with = "hex")]
    escaped: bool,
    /// Keys are hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Print what was asked for as one JSON object: keys count whether they were there or not
    #[arg(long)]
    json: bool,
}

impl Del {
    pub(crate) fn run(self) -> Result<Outcome> {
        let notation = Notation::from_flags(self.escaped, self.hex);
        let read =
            |argument: &Option<OsString>| argument.as_deref().map(|text| notation.read(text)).transpose();
        let (prefix, from, to) = (read(&self.prefix)?, read(&self.from)?, read(&self.to)?);
        // An unset variable of a shell's becomes an empty argument.
        let is_empty = |given: &Option<Vec<u8>>| given.as_ref().is_some_and(|key| key.is_empty());
        for (flag, given) in [("--prefix", &prefix), ("--from", &from), ("--to", &to)] {
            if is_empty(given) {
                let message =
                    format!("{flag} is empty, as an unset variable is; say --all to delete every key");
                return Err(Failure::Usage(message));
            }
        }
        let is_range = self.all || prefix.is_some() || from.is_some() || to.is_some();
        let end = prefix.as_deref().and_then(prefix_end).or(to);
        let start = prefix.or(from).unwrap_or_default();
        must_hold_keys(&start, end.as_deref())?;
        let keys = self.keys.iter().map(|key| notation.read(key)).collect::<Result<Vec<_>>>()?;

        let (db, keyspace) = self.place.open_to_change()?;
        let mut batch = db.batch();
        match (is_range, end) {
            (true, Some(end)) => batch.delete_range(&keyspace, start..end)?,
            (true, None) => batch.delete_range(&keyspace, start..)?,
            (false, _) => {
                for key in &keys {
                    batch.delete(&keyspace, key)?;
                }
            }
        }
        batch.durability(Durability::Sync);
        db.write(batch)?;
        drop(keyspace);
        db.close()?;
        if self.json {
            print_json(&match is_range {
                true => json!({"keyspace": self.place.keyspace, "ranges": 1}),
                false => json!({"keyspace": self.place.keyspace, "keys": keys.len()}),
            })?;
        }
        Ok(Outcome::Done)
    }
}
