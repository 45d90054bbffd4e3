//! LMDB, through the crate `heed`: `Lmdb`, an `Engine`, and why it is set as it is.
//!
//! What must hold:
//! - A killed process loses no committed write. A machine that loses power may.
//! - A reader sees the moment of its making. So `reader_is_live` is false, and mixed phases make
//!   readers anew after writes.
//! - The system's page cache holds the data. So memory budget, direct reads and LZ4 change nothing.
//! - The only way to write is a transaction: `put_all` takes a thousand pairs to one.
//!
//! Caller: `engines::open`.

use crate::engine::{Engine, Reader, Result, Setting, TRANSACTION_ENTRIES};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls, types::Bytes};
use std::ops::Bound;

/// Readers that it has room for if the caller does not say.
const READERS: usize = 126;

pub struct Lmdb {
    env: Env<WithoutTls>,
    pairs: Database<'static, Bytes, Bytes>,
}

impl Lmdb {
    pub fn open(setting: &Setting) -> Result<Self> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        // Pages split half full under random inserts, and freed ones are not given back.
        let map_bytes = (setting.data_bytes as usize * 4).max(1 << 30);
        // LMDB takes whole pages only.
        options.map_size(map_bytes.next_multiple_of(1 << 20));
        options.max_readers(setting.readers.max(READERS) as u32);
        // SAFETY: the directory is this process's own. Writing through the map spares a copy of
        // every page, and leaving out the sync of every commit is what the other engines do, too: a
        // killed process loses nothing of what it committed, a machine that loses power may.
        let env = unsafe {
            let mut flags = EnvFlags::WRITE_MAP | EnvFlags::NO_SYNC;
            // Single reads fetch pages that are not asked for otherwise; long scans want them.
            flags.set(EnvFlags::NO_READ_AHEAD, !setting.to_scan);
            options.flags(flags);
            options.open(&setting.directory)?
        };
        let made = env.create_databases_and_commit(env.write_txn()?, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })?;
        let pairs = made.commit().ok_or("the database was not made")?;
        Ok(Lmdb { env, pairs })
    }
}

impl Engine for Lmdb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.pairs.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.pairs.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn put_all(&self, pairs: &mut dyn Iterator<Item = (&[u8], &[u8])>) -> Result<()> {
        let mut pairs = pairs.peekable();
        while pairs.peek().is_some() {
            let mut transaction = self.env.write_txn()?;
            for (key, value) in pairs.by_ref().take(TRANSACTION_ENTRIES) {
                self.pairs.put(&mut transaction, key, value)?;
            }
            transaction.commit()?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reading { transaction: self.env.read_txn()?, pairs: self.pairs }))
    }

    fn reader_is_live(&self) -> bool {
        false
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

struct Reading<'a> {
    transaction: RoTxn<'a, WithoutTls>,
    pairs: Database<'static, Bytes, Bytes>,
}

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self.pairs.get(&self.transaction, key)?;
        found.iter().for_each(|slice| value(slice));
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
        let mut take = |pair: heed::Result<(&[u8], &[u8])>| -> Result<()> {
            let (key, value) = pair?;
            entry(key, value);
            count += 1;
            Ok(())
        };
        if backwards {
            self.pairs.rev_iter(&self.transaction)?.take(limit).try_for_each(&mut take)?;
        } else if from.is_empty() {
            // It has no empty keys and does not take one for a bound.
            self.pairs.iter(&self.transaction)?.take(limit).try_for_each(&mut take)?;
        } else {
            self.pairs
                .range(&self.transaction, &(Bound::Included(from), Bound::Unbounded))?
                .take(limit)
                .try_for_each(&mut take)?;
        }
        Ok(count)
    }
}
