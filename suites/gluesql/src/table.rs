//! Tables: schemas and rows, and what GlueSQL asks for of them.
//!
//! A table has a number, and its rows' keys begin with it. So a renamed table keeps its rows, and
//! dropping one is a deletion of a key range, whatever it holds.
//! What must hold: an index has an entry for each row, and for no other. A row lists its entries,
//! so they are found again when what they were computed from has changed. GlueSQL calls.

use crate::{Storage, decode, encode, failed, key};
use gluesql_core::{
    chrono::{NaiveDateTime, Utc},
    data::{Key, Schema, Value},
    error::{AlterTableError, Error, Result},
    store::{AlterTable, MetaIter, Metadata, RowIter, Store, StoreMut},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Counts the tables. A table's own counter has the table's number for its key, of another length.
const TABLES: &[u8] = b"tables";

/// What is kept of a table beside its rows.
#[derive(Serialize, Deserialize)]
pub(crate) struct Table {
    pub number: u32,
    created: NaiveDateTime,
    pub schema: Schema,
}

impl Table {
    /// What the keys of its rows and index entries begin with.
    pub fn prefix(&self) -> [u8; 4] {
        self.number.to_be_bytes()
    }

    fn row_key(&self, primary: &Key) -> Vec<u8> {
        let mut bytes = self.prefix().to_vec();
        key::append(&mut bytes, primary);
        bytes
    }
}

#[derive(Serialize, Deserialize)]
struct Row {
    primary: Key,
    values: Vec<Value>,
    /// The keys of its index entries, some perhaps of indexes that are gone.
    entries: Vec<Vec<u8>>,
}

impl Storage {
    pub(crate) fn table(&self, name: &str) -> Result<Option<Table>> {
        self.get(&self.schemas, name)?.map(|bytes| decode(&bytes)).transpose()
    }

    fn tables(&self) -> impl Iterator<Item = Result<Table>> {
        self.all(&self.schemas).map(|entry| decode(&entry.map_err(failed)?.1))
    }

    pub(crate) fn put_table(&mut self, table: &Table) -> Result<()> {
        let (schemas, value) = (self.schemas.clone(), encode(table)?);
        self.write(|transaction| transaction.put(&schemas, &table.schema.table_name, value))
    }

    fn row(&self, row_key: &[u8]) -> Result<Option<Row>> {
        self.get(&self.rows, row_key)?.map(|bytes| decode(&bytes)).transpose()
    }

    /// The row that an index entry leads to.
    pub(crate) fn indexed_row(&self, row_key: &[u8]) -> Result<(Key, Vec<Value>)> {
        let row = self.row(row_key)?;
        let row = row.ok_or_else(|| Error::StorageMsg("an index entry leads nowhere".to_owned()))?;
        Ok((row.primary, row.values))
    }

    /// Puts a row in its place, and its entries in each index.
    pub(crate) fn put_row(&mut self, table: &Table, primary: Key, values: Vec<Value>) -> Result<()> {
        let row_key = table.row_key(&primary);
        let old = self.row(&row_key)?.map_or_else(Vec::new, |old| old.entries);
        let new = table.index_entries(&values, &row_key[table.prefix().len()..])?;
        let value = encode(&Row { primary, values, entries: new.clone() })?;
        let (rows, entries) = (self.rows.clone(), self.entries.clone());
        self.write(|transaction| {
            old.iter().try_for_each(|entry| transaction.delete(&entries, entry))?;
            new.iter().try_for_each(|entry| transaction.put(&entries, entry, &row_key))?;
            transaction.put(&rows, &row_key, value)
        })
    }

    fn existing(&self, name: &str) -> Result<Table> {
        self.table(name)?.ok_or_else(|| AlterTableError::TableNotFound(name.to_owned()).into())
    }
}

impl Store for Storage {
    fn fetch_schema(&self, name: &str) -> Result<Option<Schema>> {
        Ok(self.table(name)?.map(|table| table.schema))
    }

    fn fetch_all_schemas(&self) -> Result<Vec<Schema>> {
        self.tables().map(|table| Ok(table?.schema)).collect()
    }

    fn fetch_data(&self, name: &str, primary: &Key) -> Result<Option<Vec<Value>>> {
        let Some(table) = self.table(name)? else { return Ok(None) };
        Ok(self.row(&table.row_key(primary))?.map(|row| row.values))
    }

    fn scan_data<'a>(&'a self, name: &str) -> Result<RowIter<'a>> {
        let Some(table) = self.table(name)? else { return Ok(Box::new(std::iter::empty())) };
        Ok(Box::new(self.prefix(&self.rows, &table.prefix()).map(|entry| {
            let row: Row = decode(&entry.map_err(failed)?.1)?;
            Ok((row.primary, row.values))
        })))
    }
}

impl StoreMut for Storage {
    fn insert_schema(&mut self, schema: &Schema) -> Result<()> {
        let schema = schema.clone();
        let table = match self.table(&schema.table_name)? {
            Some(table) => Table { schema, ..table },
            None => {
                let number = self.count(TABLES)?;
                let number =
                    number.try_into().map_err(|_| Error::StorageMsg("too many tables".to_owned()))?;
                Table { number, created: Utc::now().naive_utc(), schema }
            }
        };
        self.put_table(&table)
    }

    fn delete_schema(&mut self, name: &str) -> Result<()> {
        let Some(table) = self.table(name)? else { return Ok(()) };
        let keyspaces = [self.rows.clone(), self.entries.clone(), self.counters.clone()];
        let schemas = self.schemas.clone();
        self.write(|transaction| {
            keyspaces.iter().try_for_each(|keyspace| transaction.delete_prefix(keyspace, table.prefix()))?;
            transaction.delete(&schemas, name)
        })
    }

    fn append_data(&mut self, name: &str, rows: Vec<Vec<Value>>) -> Result<()> {
        let table = self.existing(name)?;
        for values in rows {
            let number = self.count(&table.prefix())?;
            self.put_row(&table, Key::U64(number), values)?;
        }
        Ok(())
    }

    fn insert_data(&mut self, name: &str, rows: Vec<(Key, Vec<Value>)>) -> Result<()> {
        let table = self.existing(name)?;
        rows.into_iter().try_for_each(|(primary, values)| self.put_row(&table, primary, values))
    }

    fn delete_data(&mut self, name: &str, primaries: Vec<Key>) -> Result<()> {
        let table = self.existing(name)?;
        let (rows, entries) = (self.rows.clone(), self.entries.clone());
        for primary in primaries {
            let row_key = table.row_key(&primary);
            let Some(row) = self.row(&row_key)? else { continue };
            self.write(|transaction| {
                row.entries.iter().try_for_each(|entry| transaction.delete(&entries, entry))?;
                transaction.delete(&rows, &row_key)
            })?;
        }
        Ok(())
    }
}

impl AlterTable for Storage {
    fn rename_schema(&mut self, name: &str, new_name: &str) -> Result<()> {
        let mut table = self.existing(name)?;
        new_name.clone_into(&mut table.schema.table_name);
        let schemas = self.schemas.clone();
        self.write(|transaction| transaction.delete(&schemas, name))?;
        self.put_table(&table)
    }
}

impl Metadata for Storage {
    fn scan_table_meta(&self) -> Result<MetaIter> {
        let tables = self.tables().map(|table| {
            let table = table?;
            let about = BTreeMap::from([("CREATED".to_owned(), Value::Timestamp(table.created))]);
            Ok((table.schema.table_name, about))
        });
        // Collected, because GlueSQL keeps it longer than it borrows the storage.
        Ok(Box::new(tables.collect::<Vec<_>>().into_iter()))
    }
}
