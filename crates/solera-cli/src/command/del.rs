//! `solera del`: keys, or a range of them, away.

use crate::{
    escape::Notation,
    failure::{Failure, Outcome, Result},
    target::Place,
};
use solera::{Durability, key::prefix_end};
use std::ffi::OsString;

/// Delete keys, or all keys of a range, durably and at once
#[derive(Debug, clap::Args)]
pub(crate) struct Del {
    #[command(flatten)]
    place: Place,
    /// The keys; put -- before them if one begins with a hyphen
    #[arg(required_unless_present_any = ["prefix", "from"])]
    keys: Vec<OsString>,
    /// Delete every key that begins so
    #[arg(long, value_name = "KEY", conflicts_with_all = ["keys", "from"])]
    prefix: Option<OsString>,
    /// Delete from this key on
    #[arg(long, value_name = "KEY", requires = "to", conflicts_with = "keys")]
    from: Option<OsString>,
    /// Delete up to this key, itself not
    #[arg(long, value_name = "KEY", requires = "from")]
    to: Option<OsString>,
    /// Keys are escaped text, as scan prints it: \\ \t \n \r \xNN
    #[arg(long, conflicts_with = "hex")]
    escaped: bool,
    /// Keys are hexadecimal digits
    #[arg(long)]
    hex: bool,
}

impl Del {
    pub(crate) fn run(self) -> Result<Outcome> {
        let notation = Notation::from_flags(self.escaped, self.hex);
        let range = match (&self.prefix, &self.from, &self.to) {
            (Some(prefix), _, _) => {
                let start = notation.read(prefix)?;
                let end = prefix_end(&start).ok_or_else(|| {
                    Failure::Usage(
                        "no key follows all keys with this prefix; give --from and --to".to_owned(),
                    )
                })?;
                Some((start, end))
            }
            (_, Some(from), Some(to)) => Some((notation.read(from)?, notation.read(to)?)),
            _ => None,
        };
        let keys = self.keys.iter().map(|key| notation.read(key)).collect::<Result<Vec<_>>>()?;

        let (db, keyspace) = self.place.open_to_change()?;
        let mut batch = db.batch();
        match range {
            Some((start, end)) => batch.delete_range(&keyspace, &start, &end)?,
            None => {
                for key in &keys {
                    batch.delete(&keyspace, key)?;
                }
            }
        }
        batch.durability(Durability::Sync);
        db.write(batch)?;
        drop(keyspace);
        db.close()?;
        Ok(Outcome::Done)
    }
}
