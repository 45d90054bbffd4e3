//! SQL in a Solera database, for GlueSQL: an example of embedding.
//!
//! It owns the layout: five keyspaces, for schemas, rows, index entries, functions and counters.
//! What must hold:
//! - Every statement is one transaction, or part of the one that `BEGIN` opened: what it changes of
//!   schemas, rows and indexes takes effect together, or not at all.
//! - A `Storage` is one session. Several may be open on one database, in one process; where two
//!   got in each other's way the later commit is refused, and may be tried again.
//!
//! `tests/suite.rs` runs GlueSQL's suite for storages, `tests/session.rs` what that leaves out.

mod function;
mod index;
mod key;
mod table;

use gluesql_core::{
    data::CustomFunction,
    error::{Error, Result},
    store::Transaction,
};
use serde::{Serialize, de::DeserializeOwned};
use solera::{Db, Keyspace, Slice};
use std::collections::BTreeMap;

/// Tables, indexes and functions in the keyspaces of one database. Other keyspaces of it stay free.
pub struct Storage {
    db: Db,
    /// A table's name leads to its record.
    schemas: Keyspace,
    /// A table's number and a primary key lead to a row.
    rows: Keyspace,
    /// A table's number, an index's name, a value and a primary key lead to the row's key.
    entries: Keyspace,
    /// A function's name leads to its definition.
    definitions: Keyspace,
    /// The last number given to a table; by table, the last given to a row.
    counters: Keyspace,
    /// What `definitions` holds, since GlueSQL borrows from it.
    functions: BTreeMap<String, CustomFunction>,
    open: Option<solera::Transaction>,
}

/// Entries of a keyspace, in order, from either end.
type Entries = Box<dyn DoubleEndedIterator<Item = solera::Result<(Slice, Slice)>>>;

impl Storage {
    /// A session on `db`. What its commits survive is what the database was opened for
    /// ([`solera::Options::durability`]).
    ///
    /// # Errors
    /// As [`Db::keyspace`], and if a function cannot be read.
    pub fn new(db: &Db) -> Result<Storage> {
        let keyspace = |name| db.keyspace(name).map_err(failed);
        let mut storage = Storage {
            db: db.clone(),
            schemas: keyspace("sql/schemas")?,
            rows: keyspace("sql/rows")?,
            entries: keyspace("sql/indexes")?,
            definitions: keyspace("sql/functions")?,
            counters: keyspace("sql/counters")?,
            functions: BTreeMap::new(),
            open: None,
        };
        storage.read_functions()?;
        Ok(storage)
    }

    /// Reads as the open transaction does, or as of now.
    fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Slice>> {
        match &self.open {
            Some(transaction) => transaction.get(keyspace, key),
            None => keyspace.get(key),
        }
        .map_err(failed)
    }

    /// Walks as the open transaction does, or as of now.
    fn range(&self, keyspace: &Keyspace, start: &[u8], end: &[u8]) -> Entries {
        match &self.open {
            Some(transaction) => Box::new(transaction.range(keyspace, start..end)),
            None => Box::new(keyspace.range(start..end)),
        }
    }

    /// The keys that begin with `prefix`, which is not all of 0xFF.
    fn prefix(&self, keyspace: &Keyspace, prefix: &[u8]) -> Entries {
        self.range(keyspace, prefix, &key::after(prefix))
    }

    /// Everything in a keyspace.
    fn all(&self, keyspace: &Keyspace) -> Entries {
        match &self.open {
            Some(transaction) => Box::new(transaction.iter(keyspace)),
            None => Box::new(keyspace.iter()),
        }
    }

    /// Writes in the open transaction.
    fn write(&mut self, change: impl FnOnce(&mut solera::Transaction) -> solera::Result<()>) -> Result<()> {
        let open =
            self.open.as_mut().ok_or_else(|| Error::StorageMsg("no transaction is open".to_owned()))?;
        change(open).map_err(failed)
    }

    /// Counts one on, and returns what was counted.
    fn count(&mut self, key: &[u8]) -> Result<u64> {
        let last = self.get(&self.counters, key)?.map_or(Ok(0), |bytes| decode(&bytes))?;
        let (counters, next) = (self.counters.clone(), last + 1);
        let value = encode(&next)?;
        self.write(|transaction| transaction.put(&counters, key, value))?;
        Ok(next)
    }
}

impl Transaction for Storage {
    fn begin(&mut self, autocommit: bool) -> Result<bool> {
        match (&self.open, autocommit) {
            (Some(_), true) => Ok(false),
            (Some(_), false) => Err(Error::StorageMsg("a transaction is open already".to_owned())),
            (None, _) => {
                self.open = Some(self.db.transaction());
                Ok(autocommit)
            }
        }
    }

    fn rollback(&mut self) -> Result<()> {
        // Dropping it rolls it back.
        self.open = None;
        self.read_functions()
    }

    fn commit(&mut self) -> Result<()> {
        let Some(transaction) = self.open.take() else { return Ok(()) };
        let committed = transaction.commit();
        if committed.is_err() {
            self.read_functions()?;
        }
        committed.map(drop).map_err(failed)
    }
}

fn failed(error: solera::Error) -> Error {
    Error::StorageMsg(error.to_string())
}

/// A value as it is stored.
fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(|error| Error::StorageMsg(error.to_string()))
}

/// What [`encode`] made.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| Error::StorageMsg(error.to_string()))
}
