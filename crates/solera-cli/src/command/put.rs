//! `solera put`: stores a value under a key, durably, perhaps with a time to live.
//!
//! The value is an argument or standard input.
//!
//! What must hold: it makes the database if there is none. In an existing database it makes a
//! keyspace only when told to.
//!
//! Caller: `main`.

use crate::{
    escape::Notation,
    failure::{Failure, Outcome, Result},
    output::print_json,
    target::NewPlace,
    units,
};
use serde_json::json;
use solera::{
    Durability, Options,
    key::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
};
use std::{ffi::OsString, io::Read, time::Duration};

/// Store a value under a key, durably; creates the database if there is none
#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    #[command(flatten)]
    place: NewPlace,
    /// The key, which may be empty; put -- before it if it begins with a hyphen
    key: OsString,
    /// The value; read from standard input, to its end and as it is, when it is not given
    value: Option<OsString>,
    /// Key and value are escaped text, as scan prints it: \\ \t \n \r \xNN
    #[arg(long, conflicts_with = "hex")]
    escaped: bool,
    /// Key and value are hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Let the entry expire after this time: a number and s, m, h or d, such as 90s or 7d
    #[arg(long, value_name = "TIME", value_parser = units::parse_ttl)]
    ttl: Option<Duration>,
    /// Print what was stored as one JSON object
    #[arg(long)]
    json: bool,
}

impl Put {
    pub(crate) fn run(self) -> Result<Outcome> {
        let notation = Notation::from_flags(self.escaped, self.hex);
        let key = notation.read(&self.key)?;
        let value = match &self.value {
            Some(value) => notation.read(value)?,
            None => {
                let mut value = Vec::new();
                // What has no end is refused when it is too long.
                std::io::stdin()
                    .lock()
                    .take(VALUE_BYTES_MAX + 1)
                    .read_to_end(&mut value)
                    .map_err(|error| Failure::file("read", "standard input", &error))?;
                value
            }
        };
        // Before a database is made for what it refuses.
        for (what, bytes, max) in
            [("key", key.len() as u64, KEY_BYTES_MAX as u64), ("value", value.len() as u64, VALUE_BYTES_MAX)]
        {
            if bytes > max {
                return Err(Failure::Usage(format!("a {what} has at most {max} bytes, not {bytes}")));
            }
        }
        let db = self.place.open_or_create(Options::new().durability(Durability::Sync))?;
        let keyspace = db.keyspace(&self.place.place.keyspace)?;
        match self.ttl {
            Some(ttl) => keyspace.put_with_ttl(&key, &value, ttl)?,
            None => keyspace.put(&key, &value)?,
        }
        drop(keyspace);
        db.close()?;
        if self.json {
            let keyspace = &self.place.place.keyspace;
            print_json(&json!({"keyspace": keyspace, "key_bytes": key.len(), "value_bytes": value.len()}))?;
        }
        Ok(Outcome::Done)
    }
}
