//! The Raft log and the vote: `Log`.
//!
//! An entry's key is its index as eight big-endian bytes, so Solera's order is the log's order, and
//! truncating and purging are one range deletion each.
//! What must hold: entries can be read when `append` returns, and are durable when its callback is
//! called. openraft calls, one after the other; its replication reads through clones meanwhile.

use crate::{Types, blocking, decode, encode};
use openraft::{
    Entry, LogId, LogState, OptionalSend, RaftLogReader, StorageError, StorageIOError, Vote,
    storage::{LogFlushed, RaftLogStorage},
};
use serde::{Serialize, de::DeserializeOwned};
use solera::{Db, Durability, Keyspace};
use std::{fmt::Debug, io, ops::RangeBounds};

const VOTE: &str = "vote";
const COMMITTED: &str = "committed";
const PURGED: &str = "purged";

/// The log of one node. A clone reads the same log.
#[derive(Clone, Debug)]
pub struct Log {
    db: Db,
    entries: Keyspace,
    /// The vote, the last committed and the last purged log id.
    state: Keyspace,
}

impl Log {
    pub(crate) fn new(db: &Db) -> solera::Result<Log> {
        Ok(Log { db: db.clone(), entries: db.keyspace("raft/log")?, state: db.keyspace("raft/state")? })
    }

    async fn state<T: DeserializeOwned + Send + 'static>(&self, name: &'static str) -> io::Result<Option<T>> {
        let state = self.state.clone();
        blocking(move || state.get(name).map_err(io::Error::other)?.map(|bytes| decode(&bytes)).transpose())
            .await
    }

    async fn set_state(
        &self,
        name: &'static str,
        value: &impl Serialize,
        durability: Durability,
    ) -> io::Result<()> {
        let (log, value) = (self.clone(), encode(value)?);
        blocking(move || {
            let mut batch = log.db.batch();
            batch.durability(durability).put(&log.state, name, value).map_err(io::Error::other)?;
            log.db.write(batch).map(drop).map_err(io::Error::other)
        })
        .await
    }

    /// Entries whose indices are in `range`.
    async fn read(&self, range: impl RangeBounds<u64>) -> io::Result<Vec<Entry<Types>>> {
        let keys = (
            range.start_bound().map(|index| index.to_be_bytes()),
            range.end_bound().map(|index| index.to_be_bytes()),
        );
        let entries = self.entries.clone();
        blocking(move || {
            entries
                .range(keys)
                .map(|entry| entry.map_err(io::Error::other).and_then(|(_, bytes)| decode(&bytes)))
                .collect()
        })
        .await
    }

    /// The newest entry.
    async fn last(&self) -> io::Result<Option<Entry<Types>>> {
        let entries = self.entries.clone();
        blocking(move || {
            let last = entries.last_key_value().map_err(io::Error::other)?;
            last.map(|(_, bytes)| decode(&bytes)).transpose()
        })
        .await
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<Types>>, StorageError<u64>> {
        self.read(range).await.map_err(|error| StorageIOError::read_logs(&error).into())
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Log;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError<u64>> {
        let read = |error: io::Error| StorageIOError::read_logs(&error);
        let purged: Option<LogId<u64>> = self.state(PURGED).await.map_err(read)?;
        let last = self.last().await.map_err(read)?;
        Ok(LogState { last_purged_log_id: purged, last_log_id: last.map(|entry| entry.log_id).or(purged) })
    }

    async fn get_log_reader(&mut self) -> Log {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote<u64>) -> Result<(), StorageError<u64>> {
        // Who forgets a vote may give two in one term.
        let saved = self.set_state(VOTE, vote, Durability::Sync).await;
        saved.map_err(|error| StorageIOError::write_vote(&error).into())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote<u64>>, StorageError<u64>> {
        self.state(VOTE).await.map_err(|error| StorageIOError::read_vote(&error).into())
    }

    async fn save_committed(&mut self, committed: Option<LogId<u64>>) -> Result<(), StorageError<u64>> {
        // An older one costs time at the next start, nothing else.
        let saved = self.set_state(COMMITTED, &committed, Durability::Buffered).await;
        saved.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId<u64>>, StorageError<u64>> {
        let committed: io::Result<Option<Option<LogId<u64>>>> = self.state(COMMITTED).await;
        committed.map(Option::flatten).map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn append<I>(&mut self, entries: I, flushed: LogFlushed<Types>) -> Result<(), StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let write = |error: io::Error| StorageIOError::write_logs(&error);
        let mut batch = self.db.batch();
        batch.durability(Durability::Buffered);
        for entry in entries {
            let value = encode(&entry).map_err(write)?;
            batch
                .put(&self.entries, entry.log_id.index.to_be_bytes(), value)
                .map_err(|error| write(io::Error::other(error)))?;
        }
        let db = self.db.clone();
        let ticket = blocking(move || {
            let seqno = db.write(batch).map_err(io::Error::other)?;
            Ok(db.ticket_of(seqno))
        });
        let ticket = ticket.await.map_err(write)?;
        // openraft goes on meanwhile. Appends of several groups in one database share a sync.
        tokio::task::spawn_blocking(move || {
            flushed.log_io_completed(ticket.wait().map_err(io::Error::other));
        });
        Ok(())
    }

    async fn truncate(&mut self, since: LogId<u64>) -> Result<(), StorageError<u64>> {
        // Whatever is appended next is durable only together with this, so no sync is needed.
        let entries = self.entries.clone();
        let deleted =
            blocking(move || entries.delete_range(since.index.to_be_bytes()..).map_err(io::Error::other));
        deleted.await.map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn purge(&mut self, upto: LogId<u64>) -> Result<(), StorageError<u64>> {
        let log = self.clone();
        let purged = blocking(move || {
            let mut batch = log.db.batch();
            batch.put(&log.state, PURGED, encode(&upto)?).map_err(io::Error::other)?;
            batch.delete_range(&log.entries, ..=upto.index.to_be_bytes()).map_err(io::Error::other)?;
            log.db.write(batch).map(drop).map_err(io::Error::other)
        });
        purged.await.map_err(|error| StorageIOError::write_logs(&error).into())
    }
}
