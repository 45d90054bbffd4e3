//! `solera get`: prints the value of a key, in the notation that was asked for (`output::Form`).
//!
//! JSON has the key too. Raw output is the value alone, without a newline.
//!
//! What must hold: an absent key is an exit status of its own. Then a message goes to standard
//! error, and nothing to standard output. The database is opened read-only.
//!
//! Caller: `main`.

use crate::{
    escape::escaped,
    failure::{Outcome, Result},
    output::{Form, say, stdout},
    target::Place,
};
use std::{ffi::OsString, io::Write};

/// Print the value of a key
#[derive(Debug, clap::Args)]
pub(crate) struct Get {
    #[command(flatten)]
    place: Place,
    /// The key; put -- before it if it begins with a hyphen
    key: OsString,
    #[command(flatten)]
    form: Form,
}

impl Get {
    pub(crate) fn run(self) -> Result<Outcome> {
        let key = self.form.notation().read(&self.key)?;
        let (_db, keyspace) = self.place.open_to_read()?;
        let Some(value) = keyspace.get(&key)? else {
            let named = if key.is_empty() { "empty key".into() } else { format!("key {}", escaped(&key)) };
            say(&format!("there is no {named} in {:?}", self.place.keyspace));
            return Ok(Outcome::NotFound);
        };
        let mut out = stdout();
        if self.form.is_raw() {
            // Exactly the value: a newline would be one byte too many for a program that stores it.
            out.write_all(&value)?;
        } else {
            let mut line = Vec::new();
            if self.form.is_json() {
                self.form.write_entry(&mut line, &key, Some(&value))?;
            } else {
                self.form.write_bytes(&mut line, &value);
                line.push(b'\n');
            }
            out.write_all(&line)?;
        }
        out.flush()?;
        Ok(Outcome::Done)
    }
}
