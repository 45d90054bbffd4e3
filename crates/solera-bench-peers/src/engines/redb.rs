//! redb, an embedded B-tree store: `Redb`, an `Engine`.
//!
//! What must hold: a transaction does not wait for the disk. So it promises less than most other
//! engines keep: a killed process loses what was not synced. `settle` commits durably. A reader
//! sees the moment of its making, so `reader_is_live` is false. `put_all` takes a thousand pairs to
//! a transaction. Direct reads and LZ4 change nothing.
//!
//! Caller: `engines::open`.

use crate::engine::{Engine, Reader, Result, Setting, TRANSACTION_ENTRIES};
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition, WriteTransaction};

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

pub struct Redb(Database);

impl Redb {
    pub fn open(setting: &Setting) -> Result<Self> {
        let mut builder = Database::builder();
        builder.set_cache_size(setting.memory_bytes as usize);
        let database = builder.create(setting.directory.join("pairs.redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(PAIRS)?;
        transaction.commit()?;
        Ok(Redb(database))
    }

    /// A transaction that does not wait for the disk. It promises less than the other engines keep:
    /// a killed process loses everything since the last durable commit. There is no promise between
    /// that and a sync.
    fn transaction(&self) -> Result<WriteTransaction> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::None)?;
        Ok(transaction)
    }
}

impl Engine for Redb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let transaction = self.transaction()?;
        transaction.open_table(PAIRS)?.insert(key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let transaction = self.transaction()?;
        transaction.open_table(PAIRS)?.remove(key)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        let mut pairs = pairs.peekable();
        while pairs.peek().is_some() {
            let transaction = self.transaction()?;
            let mut table = transaction.open_table(PAIRS)?;
            for (key, value) in pairs.by_ref().take(TRANSACTION_ENTRIES) {
                table.insert(key, value)?;
            }
            drop(table);
            transaction.commit()?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading(self.0.begin_read()?.open_table(PAIRS)?)))
    }

    fn reader_is_live(&self) -> bool {
        false
    }

    fn settle(&self) -> Result<()> {
        let mut transaction = self.0.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        Ok(transaction.commit()?)
    }
}

struct Reading(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Reader for Reading {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.0.get(key)?;
        found.iter().for_each(|slice| value(slice.value()));
        Ok(found.is_some())
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut count = 0;
        let range = self.0.range::<&[u8]>(from..)?;
        let mut take = |pair: std::result::Result<
            (redb::AccessGuard<'_, &[u8]>, redb::AccessGuard<'_, &[u8]>),
            redb::StorageError,
        >|
         -> Result<()> {
            let (key, value) = pair?;
            entry(key.value(), value.value());
            count += 1;
            Ok(())
        };
        if backwards {
            range.rev().take(limit).try_for_each(&mut take)?;
        } else {
            range.take(limit).try_for_each(&mut take)?;
        }
        Ok(count)
    }
}
