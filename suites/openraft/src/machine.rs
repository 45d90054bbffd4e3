//! The replicated map and its snapshots: `Machine`, `Snapshots`.
//!
//! Applying entries is one transaction: their effects, how far the log is applied, and the members.
//! What must hold: after a crash the map is exactly what the applied entries make of it. openraft
//! calls; a snapshot is built beside it, of the moment when its builder was asked for.

use crate::{Command, Types, blocking, decode, encode};
use openraft::{
    Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta, StorageError,
    StorageIOError, StoredMembership, storage::RaftStateMachine,
};
use solera::{Batch, Db, Durability, Keyspace};
use std::io::{self, Cursor};

type Applied = (Option<LogId<u64>>, StoredMembership<u64, openraft::BasicNode>);
type Meta = SnapshotMeta<u64, openraft::BasicNode>;

const APPLIED: &str = "applied";
const META: &str = "meta";
const DATA: &str = "data";

/// The replicated map of one node. A clone is the same map.
#[derive(Clone, Debug)]
pub struct Machine {
    db: Db,
    map: Keyspace,
    /// How far the log is applied, and who the members are by then.
    applied: Keyspace,
    /// The newest snapshot.
    snapshot: Keyspace,
}

impl Machine {
    pub(crate) fn new(db: &Db) -> solera::Result<Machine> {
        Ok(Machine {
            db: db.clone(),
            map: db.keyspace("raft/map")?,
            applied: db.keyspace("raft/applied")?,
            snapshot: db.keyspace("raft/snapshot")?,
        })
    }

    /// What this node has applied to `key`.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get(&self, key: &[u8]) -> solera::Result<Option<solera::Slice>> {
        self.map.get(key)
    }

    fn applied(&self) -> io::Result<Applied> {
        let applied = self.applied.get(APPLIED).map_err(io::Error::other)?;
        applied.map_or_else(|| Ok(Applied::default()), |bytes| decode(&bytes))
    }

    fn apply(&self, entries: Vec<Entry<Types>>) -> io::Result<Vec<Option<Vec<u8>>>> {
        let (mut last, mut members) = self.applied()?;
        let mut before = Vec::with_capacity(entries.len());
        // A transaction, because a command answers with the value before it, and that may be one of
        // this call. Nobody else writes these keyspaces, so it meets no conflict. No sync: what a
        // power failure takes is applied again, out of the log.
        let mut transaction = self.db.transaction();
        transaction.durability(Durability::Buffered);
        let mut run = |key: &[u8], value: Option<&[u8]>| -> solera::Result<Option<Vec<u8>>> {
            let old = transaction.get(&self.map, key)?.map(|old| old.to_vec());
            match value {
                Some(value) => transaction.put(&self.map, key, value)?,
                None => transaction.delete(&self.map, key)?,
            }
            Ok(old)
        };
        for entry in entries {
            last = Some(entry.log_id);
            before.push(match entry.payload {
                EntryPayload::Blank => None,
                EntryPayload::Normal(Command::Put { key, value }) => {
                    run(&key, Some(&value)).map_err(io::Error::other)?
                }
                EntryPayload::Normal(Command::Delete { key }) => run(&key, None).map_err(io::Error::other)?,
                EntryPayload::Membership(membership) => {
                    members = StoredMembership::new(last, membership);
                    None
                }
            });
        }
        let applied: Applied = (last, members);
        transaction.put(&self.applied, APPLIED, encode(&applied)?).map_err(io::Error::other)?;
        transaction.commit().map_err(io::Error::other)?;
        Ok(before)
    }

    /// Adds to `batch` that this is the newest snapshot.
    fn keep_snapshot(&self, batch: &mut Batch, meta: &Meta, data: &[u8]) -> io::Result<()> {
        batch.put(&self.snapshot, META, encode(meta)?).map_err(io::Error::other)?;
        batch.put(&self.snapshot, DATA, data).map_err(io::Error::other)
    }

    fn install(&self, meta: &Meta, data: &[u8]) -> io::Result<()> {
        let map: Vec<(Vec<u8>, Vec<u8>)> = decode(data)?;
        let applied: Applied = (meta.last_log_id, meta.last_membership.clone());
        let mut batch = self.db.batch();
        batch.delete_range(&self.map, ..).map_err(io::Error::other)?;
        for (key, value) in map {
            batch.put(&self.map, key, value).map_err(io::Error::other)?;
        }
        batch.put(&self.applied, APPLIED, encode(&applied)?).map_err(io::Error::other)?;
        self.keep_snapshot(&mut batch, meta, data)?;
        // The leader counts on it from now on, and may purge what it stands for.
        batch.durability(Durability::Sync);
        self.db.write(batch).map(drop).map_err(io::Error::other)
    }

    fn newest_snapshot(&self) -> io::Result<Option<Snapshot<Types>>> {
        let moment = self.db.snapshot();
        let meta = moment.get(&self.snapshot, META).map_err(io::Error::other)?;
        let data = moment.get(&self.snapshot, DATA).map_err(io::Error::other)?;
        let Some((meta, data)) = meta.zip(data) else { return Ok(None) };
        Ok(Some(Snapshot { meta: decode(&meta)?, snapshot: Box::new(Cursor::new(data.to_vec())) }))
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Snapshots;

    async fn applied_state(&mut self) -> Result<Applied, StorageError<u64>> {
        let machine = self.clone();
        let applied = blocking(move || machine.applied()).await;
        applied.map_err(|error| StorageIOError::read_state_machine(&error).into())
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Option<Vec<u8>>>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let (machine, entries) = (self.clone(), entries.into_iter().collect());
        let before = blocking(move || machine.apply(entries)).await;
        before.map_err(|error| StorageIOError::write_state_machine(&error).into())
    }

    async fn get_snapshot_builder(&mut self) -> Snapshots {
        Snapshots { machine: self.clone(), moment: self.db.snapshot().into() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError<u64>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &Meta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError<u64>> {
        let (machine, signed, meta) = (self.clone(), meta.signature(), meta.clone());
        let installed = blocking(move || machine.install(&meta, snapshot.get_ref())).await;
        installed.map_err(|error| StorageIOError::write_snapshot(Some(signed), &error).into())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError<u64>> {
        let machine = self.clone();
        let newest = blocking(move || machine.newest_snapshot()).await;
        newest.map_err(|error| StorageIOError::read_snapshot(None, &error).into())
    }
}

/// Builds a snapshot of one moment, while entries go on being applied.
#[derive(Debug)]
pub struct Snapshots {
    machine: Machine,
    moment: std::sync::Arc<solera::Snapshot>,
}

impl RaftSnapshotBuilder<Types> for Snapshots {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError<u64>> {
        let (machine, moment) = (self.machine.clone(), self.moment.clone());
        let built = blocking(move || {
            let applied = moment.get(&machine.applied, APPLIED).map_err(io::Error::other)?;
            let (last_log_id, last_membership) =
                applied.map_or_else(|| Ok(Applied::default()), |bytes| decode(&bytes))?;
            let map: Vec<_> = moment
                .iter(&machine.map)
                .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect::<solera::Result<_>>()
                .map_err(io::Error::other)?;
            let data = encode(&map)?;
            // Two nodes that applied the same entries make the same bytes, in key order.
            let snapshot_id = last_log_id.map_or_else(String::new, |id: LogId<u64>| id.to_string());
            let meta = Meta { last_log_id, last_membership, snapshot_id };
            // No sync: the entries that this stands for are purged later in the commit order.
            let mut batch = machine.db.batch();
            machine.keep_snapshot(batch.durability(Durability::Buffered), &meta, &data)?;
            machine.db.write(batch).map_err(io::Error::other)?;
            Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(data)) })
        });
        built.await.map_err(|error| StorageIOError::write_snapshot(None, &error).into())
    }
}
