//! Calls that are made of others, on `Keyspace` and `Db`.
//!
//! They are ends (`first_key_value`, `pop_first` and their fellows), updates in one step
//! (`fetch_update`, `set_expiry`), and counts (`len`, `approximate_len`, `disk_space`).
//! `Db::transact` runs a transaction again when it conflicts.
//!
//! What must hold: what reads and then writes is a transaction, so that no other writer writes that
//! key between. Of many threads that pop, each gets another entry. A pop may miss an entry put in
//! front meanwhile. `transact` tries 100 times at most, `transact_within` as often as it is told,
//! calls of one key 10,000 times.
//!
//! Callers: applications; `Db` forwards to its default keyspace.

use super::{Db, Entry, Keyspace, Transaction};
use crate::{
    dir::FileName,
    error::{Error, Result},
    pin::Slice,
};
use std::thread;

/// How often [`Db::transact`] runs a transaction at most.
const TRIES: u32 = 100;
/// How often calls of one key try. Each conflict is another write of that very key, so that many
/// threads that update one key come nowhere near it. A closure that writes the key itself does.
const TRIES_OF_ONE_KEY: u32 = 10_000;

impl Keyspace {
    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn first_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next().transpose()
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn last_key_value(&self) -> Result<Option<(Slice, Slice)>> {
        self.iter().next_back().transpose()
    }

    /// Takes the entry with the smallest key out, and returns it. Of many threads that call it at
    /// once each gets another entry. An entry that another thread puts in front while the call runs
    /// may be missed.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// let queue = db.keyspace("queue")?;
    /// queue.put(1u64.to_be_bytes(), "first")?;
    /// queue.put(2u64.to_be_bytes(), "second")?;
    /// let (_, job) = queue.pop_first()?.unwrap();
    /// assert_eq!(job, "first");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::fetch_update`].
    pub fn pop_first(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop(|transaction| transaction.seen(self).next())
    }

    /// As [`Keyspace::pop_first`], of the largest key.
    ///
    /// # Errors
    /// As [`Keyspace::pop_first`].
    pub fn pop_last(&self) -> Result<Option<(Slice, Slice)>> {
        self.pop(|transaction| transaction.seen(self).next_back())
    }

    fn pop(
        &self,
        end: impl Fn(&Transaction) -> Option<Result<(Slice, Slice)>>,
    ) -> Result<Option<(Slice, Slice)>> {
        self.until_it_stands(|transaction| {
            let Some((key, value)) = end(transaction).transpose()? else { return Ok(None) };
            // The key alone is what must not have changed: to look again at all that lies in front
            // of it would cost as much as the deletes that lie there.
            transaction.has_read(self, &key);
            transaction.delete(self, &key)?;
            Ok(Some((key, value)))
        })
    }

    /// Sets the value of `key` to what `update` makes of it, in one step; `None` is an absent key,
    /// before and after. Returns the value before. A value with a moment of expiry loses it.
    /// `update` may run several times: no other writer has written the key between its last run and
    /// the write. It must not write the key itself.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// let add = |count: Option<&[u8]>| Some(vec![count.map_or(0, |count| count[0]) + 1]);
    /// assert!(db.fetch_update("visits", add)?.is_none());
    /// assert_eq!(db.fetch_update("visits", add)?.unwrap(), [1]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`] if the key was written meanwhile, 10,000 times in a row; else as
    /// [`Keyspace::get`] and [`Keyspace::put`].
    pub fn fetch_update(
        &self,
        key: impl AsRef<[u8]>,
        mut update: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Option<Slice>> {
        let key = key.as_ref();
        self.until_it_stands(|transaction| {
            let before = transaction.get(self, key)?;
            match update(before.as_deref()) {
                Some(value) => transaction.put(self, key, value)?,
                None if before.is_some() => transaction.delete(self, key)?,
                None => {}
            }
            Ok(before)
        })
    }

    /// Sets the moment from which `key` is absent, in Unix milliseconds; `None`: it does not
    /// expire. The value stays. Returns whether there is one. [`Keyspace::get_entry`] tells the
    /// moment.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// db.put("session", "open")?;
    /// assert!(db.set_expiry("session", Some(4_000_000_000_000))?);
    /// assert_eq!(db.get_entry("session")?.unwrap().expires_ms, Some(4_000_000_000_000));
    /// assert!(db.set_expiry("session", None)?);
    /// assert_eq!(db.get_entry("session")?.unwrap().expires_ms, None);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::fetch_update`].
    pub fn set_expiry(&self, key: impl AsRef<[u8]>, expires_ms: Option<u64>) -> Result<bool> {
        let key = key.as_ref();
        self.until_it_stands(|transaction| {
            transaction.has_read(self, key);
            let found = self.entry_at(key, transaction.as_of())?;
            let Some(Entry { value, .. }) = found else { return Ok(false) };
            match expires_ms {
                Some(moment) => transaction.put_until(self, key, value, moment)?,
                None => transaction.put(self, key, value)?,
            }
            Ok(true)
        })
    }

    /// Runs a transaction of one key until it does not conflict.
    fn until_it_stands<R>(&self, run: impl FnMut(&mut Transaction) -> Result<R>) -> Result<R> {
        within(TRIES_OF_ONE_KEY, || Transaction::new(self.handle().clone()), run)
    }

    /// Whether there is no entry.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter().keys().next().transpose()?.is_none())
    }

    /// How many entries there are. They are counted, one after the other;
    /// [`Keyspace::approximate_len`] costs nothing.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn len(&self) -> Result<u64> {
        self.iter().keys().try_fold(0, |count, key| key.map(|_| count + 1))
    }

    /// About how many entries there are, from what is counted anyway. A key that was written
    /// several times counts as often until compaction has seen to it, a delete takes one away,
    /// whether or not there was something to delete, and what has expired or was deleted by range
    /// counts until it is gone. After [`Keyspace::compact_range`] of everything it is exact but for
    /// what expires.
    pub fn approximate_len(&self) -> u64 {
        let view = self.tree().view_owned();
        let tables = view.version.tables().map(|table| (table.entries(), table.deletes()));
        let memory = view.memtables().map(|table| (table.entries() as u64, table.deletes() as u64));
        let (entries, deletes) = tables
            .chain(memory)
            .fold((0u64, 0u64), |(entries, deletes), (more, gone)| (entries + more, deletes + gone));
        entries.saturating_sub(deletes.saturating_mul(2))
    }

    /// Bytes on disk of the keyspace: its tables, whole also where only a part of one counts still,
    /// and the live values that are kept apart from them. What is only in memory and in the log is
    /// not counted.
    pub fn disk_space(&self) -> u64 {
        let version = &self.tree().view_owned().version;
        version.files().map(|table| table.descriptor().bytes).sum::<u64>() + version.values().bytes()
    }
}

impl Db {
    /// Runs `run` in a transaction and commits it; once more from the beginning if it conflicts
    /// with another write, up to 100 times. An error of `run` rolls it back and is returned.
    ///
    /// ```
    /// # fn main() -> solera::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = solera::Db::open(dir.path())?;
    /// let accounts = db.keyspace("accounts")?;
    /// accounts.put("ann", "10")?;
    /// db.transact(|transaction| {
    ///     let coins = transaction.get(&accounts, "ann")?.unwrap();
    ///     transaction.put(&accounts, "bob", coins)?;
    ///     transaction.delete(&accounts, "ann")
    /// })?;
    /// assert_eq!(accounts.get("bob")?.unwrap(), "10");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Conflict`] if it conflicted every time; what `run` returns; as [`Db::write`].
    pub fn transact<R>(&self, run: impl FnMut(&mut Transaction) -> Result<R>) -> Result<R> {
        self.transact_within(TRIES, run)
    }

    /// As [`Db::transact`], but runs it up to `tries` times, and at least once.
    ///
    /// # Errors
    /// As [`Db::transact`].
    pub fn transact_within<R>(
        &self,
        tries: u32,
        run: impl FnMut(&mut Transaction) -> Result<R>,
    ) -> Result<R> {
        within(tries, || self.transaction(), run)
    }

    /// Bytes of all the database's files, logs included, as the file system tells them now.
    ///
    /// # Errors
    /// [`Error::Io`] if the directory cannot be read, [`Error::Closed`].
    pub fn disk_space(&self) -> Result<u64> {
        self.handle.not_closed()?;
        let files = &self.handle.store.files;
        let mut bytes = 0;
        for name in files.fs.list_dir(&files.dir)?.iter().filter(|name| FileName::parse(name).is_some()) {
            match files.fs.open(&files.dir.join(name)).and_then(|file| file.len()) {
                Ok(len) => bytes += len,
                // Compaction has removed it meanwhile.
                Err(error) if error.io_kind() == Some(std::io::ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(bytes)
    }
}

/// Runs `run` in a transaction that `begin` gives and commits it, once more from the beginning if
/// it conflicts, up to `tries` times and at least once.
fn within<R>(
    tries: u32,
    begin: impl Fn() -> Transaction,
    mut run: impl FnMut(&mut Transaction) -> Result<R>,
) -> Result<R> {
    let mut left = tries;
    loop {
        let mut transaction = begin();
        let result = run(&mut transaction)?;
        left = left.saturating_sub(1);
        match transaction.commit() {
            Err(Error::Conflict) if left > 0 => thread::yield_now(),
            committed => return committed.map(|_| result),
        }
    }
}
