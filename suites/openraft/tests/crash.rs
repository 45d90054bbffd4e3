//! What openraft's suite leaves out: power cuts, and a node that stops and starts again.

use openraft::{
    BasicNode, Config, Entry, EntryPayload, LogId, Raft, RaftLogReader, RaftNetwork, RaftNetworkFactory,
    RaftSnapshotBuilder, ServerState, StorageError, Vote,
    error::{InstallSnapshotError, RPCError, RaftError, Unreachable},
    network::RPCOption,
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
        VoteRequest, VoteResponse,
    },
    storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine},
};
use solera::{
    Db, Options,
    vfs::mem::{MemFs, Persist},
};
use solera_suite_openraft::{Command, Types, storage};
use std::{collections::BTreeMap, io, sync::Arc};

const ENTRIES: u64 = 40;
const KEYS: u64 = 7;

fn id(index: u64) -> LogId<u64> {
    LogId::new(openraft::CommittedLeaderId::new(1, 0), index)
}

/// Entry `index` sets one of a few keys to its index.
fn entry(index: u64) -> Entry<Types> {
    let command = Command::Put { key: vec![b'k', (index % KEYS) as u8], value: index.to_be_bytes().to_vec() };
    Entry { log_id: id(index), payload: EntryPayload::Normal(command) }
}

/// What the map holds when entries up to `applied` have had their effect.
fn map_after(applied: Option<u64>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let entries = (0..=applied.unwrap_or(0)).filter(|_| applied.is_some());
    entries.map(|i| (vec![b'k', (i % KEYS) as u8], i.to_be_bytes().to_vec())).collect()
}

/// What a node was promised before the power went.
#[derive(Debug, Default)]
struct Promised {
    vote: Option<Vote<u64>>,
    last: Option<u64>,
}

fn open(fs: &MemFs) -> solera::Result<Db> {
    Options::new().fs(Arc::new(fs.clone())).memory(16 << 20).open("/node")
}

/// Appends, votes, applies, snapshots and purges, until it is done or the power fails.
async fn live(fs: &MemFs, promised: &mut Promised) -> Result<(), StorageError<u64>> {
    let Ok((mut log, mut machine)) = open(fs).and_then(|db| storage(&db)) else { return Ok(()) };
    for index in 0..ENTRIES {
        if index % 9 == 0 {
            let vote = Vote::new(index + 1, 0);
            log.save_vote(&vote).await?;
            promised.vote = Some(vote);
        }
        log.blocking_append([entry(index)]).await?;
        promised.last = Some(index);
        machine.apply([entry(index)]).await?;
        if index % 16 == 15 {
            machine.get_snapshot_builder().await.build_snapshot().await?;
            log.purge(id(index - 3)).await?;
        }
    }
    Ok(())
}

/// Checks what is found after a power cut.
async fn check(fs: &MemFs, promised: &Promised) {
    let db = open(fs).unwrap();
    let (mut log, mut machine) = storage(&db).unwrap();
    assert!(log.read_vote().await.unwrap() >= promised.vote);
    let state = log.get_log_state().await.unwrap();
    let last = state.last_log_id.map(|id| id.index);
    assert!(last >= promised.last, "{state:?}");
    let first = state.last_purged_log_id.map_or(0, |id| id.index + 1);
    let found: Vec<u64> =
        log.try_get_log_entries(0..).await.unwrap().iter().map(|entry| entry.log_id.index).collect();
    assert_eq!(found, (first..last.map_or(0, |last| last + 1)).collect::<Vec<_>>());
    // What is applied is in the log or was purged from it, and the map is exactly that.
    let applied = machine.applied_state().await.unwrap().0.map(|id| id.index);
    assert!(applied <= last && applied >= state.last_purged_log_id.map(|id| id.index));
    for (key, value) in (0..KEYS).map(|key| vec![b'k', key as u8]).map(|key| (key.clone(), machine.get(&key)))
    {
        let value = value.unwrap().map(|value| value.to_vec());
        assert_eq!(value.as_ref(), map_after(applied).get(&key), "{applied:?}");
    }
    // A snapshot stands for all that was purged.
    if let Some(purged) = state.last_purged_log_id {
        let snapshot = machine.get_current_snapshot().await.unwrap().unwrap();
        assert!(snapshot.meta.last_log_id >= Some(purged));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_and_flushed_entries_survive_a_power_cut_at_any_operation() {
    let mut cuts = 0;
    loop {
        let fs = MemFs::new();
        fs.crash_after(cuts);
        let mut promised = Promised::default();
        let lived = live(&fs, &mut promised).await;
        if !fs.crashed() {
            lived.unwrap();
            assert_eq!(promised.last, Some(ENTRIES - 1));
            break;
        }
        for persist in [Persist::Nothing, Persist::RandomPages(4096), Persist::Torn] {
            check(&fs.crash(persist, cuts), &promised).await;
        }
        cuts += 1;
    }
    assert!(cuts > ENTRIES, "every append syncs the log, so there were more than {cuts} operations");
}

/// The network of a cluster that has one node.
struct Nobody;

fn unreachable<E: std::error::Error>() -> RPCError<u64, BasicNode, E> {
    RPCError::Unreachable(Unreachable::new(&io::Error::other("there is one node")))
}

impl RaftNetworkFactory<Types> for Nobody {
    type Network = Nobody;

    async fn new_client(&mut self, _target: u64, _node: &BasicNode) -> Nobody {
        Nobody
    }
}

impl RaftNetwork<Types> for Nobody {
    async fn append_entries(
        &mut self,
        _rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(unreachable())
    }

    async fn install_snapshot(
        &mut self,
        _rpc: InstallSnapshotRequest<Types>,
        _option: RPCOption,
    ) -> Result<InstallSnapshotResponse<u64>, RPCError<u64, BasicNode, RaftError<u64, InstallSnapshotError>>>
    {
        Err(unreachable())
    }

    async fn vote(
        &mut self,
        _rpc: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, RPCError<u64, BasicNode, RaftError<u64>>> {
        Err(unreachable())
    }
}

/// A cluster of one node stops cleanly and starts over the same directory, which `close` must have
/// let go of though openraft still holds parts of the storage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    for life in 0..3u8 {
        let db = Db::open(dir.path()).unwrap();
        let (log, machine) = storage(&db).unwrap();
        let config = Arc::new(Config::default().validate().unwrap());
        let raft = Raft::<Types>::new(1, config, Nobody, log, machine.clone()).await.unwrap();
        if life == 0 {
            raft.initialize(BTreeMap::from([(1, BasicNode::default())])).await.unwrap();
        }
        raft.wait(None).state(ServerState::Leader, "one node is a majority of one").await.unwrap();
        for n in 0..50u8 {
            let put = Command::Put { key: vec![b'n', n], value: vec![life] };
            let before = raft.client_write(put).await.unwrap().data;
            assert_eq!(before, life.checked_sub(1).map(|before| vec![before]));
        }
        raft.shutdown().await.unwrap();
        db.close().unwrap();
        assert!(matches!(machine.get(b"n"), Err(solera::Error::Closed)));
    }
}
