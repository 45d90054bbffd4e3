//! `solera put`: one entry.

use crate::{
    escape::Notation,
    failure::{Failure, Outcome, Result},
    target::Place,
};
use solera::{Durability, Options};
use std::{ffi::OsString, io::Read, time::Duration};

/// Store a value under a key, durably; creates the database if there is none
#[derive(Debug, clap::Args)]
pub(crate) struct Put {
    #[command(flatten)]
    place: Place,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: OsString,
    /// The value; read from standard input, to its end and as it is, when it is not given
    #[arg(allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Key and value are escaped text, as scan prints it: \\ \t \n \r \xNN
    #[arg(long, conflicts_with = "hex")]
    escaped: bool,
    /// Key and value are hexadecimal digits
    #[arg(long)]
    hex: bool,
    /// Let the entry expire after this time: a number and s, m, h or d, such as 90s or 7d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,
}

impl Put {
    pub(crate) fn run(self) -> Result<Outcome> {
        let notation = Notation::from_flags(self.escaped, self.hex);
        let key = notation.read(&self.key)?;
        let value = match &self.value {
            Some(value) => notation.read(value)?,
            None => {
                let mut value = Vec::new();
                std::io::stdin()
                    .lock()
                    .read_to_end(&mut value)
                    .map_err(|error| Failure::file("read", "standard input", &error))?;
                value
            }
        };
        let db = self.place.database.open_or_create(Options::new().durability(Durability::Sync))?;
        let keyspace = db.keyspace(&self.place.keyspace)?;
        match self.ttl {
            Some(ttl) => keyspace.put_with_ttl(&key, &value, ttl)?,
            None => keyspace.put(&key, &value)?,
        }
        drop(keyspace);
        db.close()?;
        Ok(Outcome::Done)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a whole number and one of s, m, h, d, such as 90s".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    if number.is_empty() || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| format!("{text} is longer than 2^64 seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for wrong in
            ["", "s", "90", "1w", "-1s", "1.5h", "é", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
