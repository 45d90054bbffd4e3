//! The victim's database: `Spaces`, what is written, so that whatever is found of it can be judged.
//!
//! Each writer's commits are numbered, and a commit touches three keyspaces, so that half of one
//! shows. A keeper works in rounds. It loads tables in bulk over those of its last round, makes a
//! checkpoint, and creates and drops a keyspace named after the round.
//!
//! What must hold: `check` says whether the database holds exactly what so many commits of a writer
//! make.
//!
//! Callers: `victim::live` writes; `victim::told` and `program::kill9` judge.

use crate::random::Random;
use solera::{
    Batch, Db, Durability, Error, IndexKind, Keyspace, KeyspaceOptions, Layout, Options, Reclaim, Result,
    Shape,
    operator::{Counter, builtin},
    vfs::Fs,
};
use std::{path::Path, sync::Arc};

/// Writing threads: group commit needs company.
pub const WRITERS: usize = 3;
/// Each writer deletes what it wrote this many commits ago, so that the database stays small.
const WINDOW: u64 = 2000;
/// Keys of a bulk load. Each makes a table of its own, and they are long, so that the manifest,
/// which names the first and last key of each table, has to be written anew after a few rounds.
const LOADED_KEYS: u8 = 6;
const LOADED_KEY_BYTES: usize = 4 << 10;
/// Values of so many bytes and more are kept apart, by most kinds.
const SEPARATE_FROM: u64 = 16;
/// How their space is given back, by kind.
const WAYS: [Reclaim; 3] = [Reclaim::Tier, Reclaim::Rewrite, Reclaim::LearnedKv];
/// What the names of the keeper's keyspaces begin with; the round follows.
const PASSING: &str = "passing-";

/// The open database.
pub struct Spaces {
    /// All of it.
    pub db: Db,
    /// Whether its tables are read past the system's cache.
    pub direct: bool,
    records: Keyspace,
    latest: Keyspace,
    counts: Keyspace,
    loaded: Keyspace,
}

impl Spaces {
    /// Opens or creates the database in `dir`. `kind` chooses the index of its records; databases
    /// of odd kinds are read past the system's cache where the file system can do so.
    pub fn open(dir: &Path, fs: Arc<dyn Fs>, kind: usize) -> Result<Spaces> {
        // A small write buffer, so that flushes and compactions are under way at every moment.
        let options = Options::new()
            .memory(16 << 20)
            .write_buffer(64 << 10)
            .durability(Durability::Buffered)
            .reclaim(WAYS[kind % WAYS.len()])
            .value_spare_percent(5)
            .fs(fs);
        let direct = kind % 2 == 1;
        match options.clone().direct_reads(direct).open(dir) {
            // So it is refused where there are no such reads.
            Err(Error::Invalid(_)) if direct => Spaces::within(options.open(dir)?, kind, false),
            opened => Spaces::within(opened?, kind, direct),
        }
    }

    /// A checkpoint of it, which must be there.
    pub fn checkpoint(dir: &Path, kind: usize) -> Result<Spaces> {
        let options = Options::new().memory(16 << 20).create_if_missing(false);
        Spaces::within(options.open(dir)?, kind, false)
    }

    fn within(db: Db, kind: usize, direct: bool) -> Result<Spaces> {
        let index = IndexKind::ALL[kind % IndexKind::ALL.len()];
        let layout = Layout { block_bytes: 1024, index, ..Layout::default() };
        let mut recording = KeyspaceOptions::new().layout(layout);
        if kind % 4 < 3 {
            recording = recording.separate_values_from(SEPARATE_FROM);
        }
        let records = db.keyspace_with("records", recording)?;
        let latest = db.keyspace("latest")?;
        let mut counting = KeyspaceOptions::new();
        if let Some(counter) = builtin("counter") {
            counting = counting.merge_operator(counter);
        }
        let counts = db.keyspace_with("counts", counting)?;
        let shape = Shape { table_bytes: 1 << 10, ..Shape::default() };
        let loading = KeyspaceOptions::new().shape(shape).separate_values_from(SEPARATE_FROM);
        let loaded = db.keyspace_with("loaded", loading)?;
        Ok(Spaces { db, direct, records, latest, counts, loaded })
    }

    /// How many commits of a writer are there.
    pub fn commits(&self, writer: usize) -> Result<u64> {
        let stored = self.counts.get((writer as u64).to_be_bytes())?;
        Ok(stored.and_then(|stored| Some(u64::from_le_bytes((*stored).try_into().ok()?))).unwrap_or(0))
    }

    /// One commit: a record into the first keyspace, an old one out of it, its number into the
    /// second, and one more into the third.
    pub fn commit(&self, writer: usize, number: u64) -> Result<()> {
        let writer_key = (writer as u64).to_be_bytes();
        let mut batch: Batch = self.db.batch();
        batch.put(&self.records, record_key(writer, number), record_value(writer, number))?;
        if let Some(old) = number.checked_sub(WINDOW) {
            batch.delete(&self.records, record_key(writer, old))?;
        }
        batch.put(&self.latest, writer_key, number.to_be_bytes())?;
        batch.merge(&self.counts, writer_key, Counter::encode(1))?;
        // Some of them durable, so that both ways of committing share groups.
        if number % 64 == writer as u64 {
            batch.durability(Durability::Sync);
        }
        self.db.write(batch).map(|_| ())
    }

    /// Whether the database holds exactly what `commits` commits of a writer make.
    pub fn check(&self, writer: usize, commits: u64) -> std::result::Result<(), String> {
        let writer_key = (writer as u64).to_be_bytes();
        let latest = self.latest.get(writer_key).map_err(|error| error.to_string())?;
        let expected = commits.checked_sub(1).map(u64::to_be_bytes);
        if latest.as_deref() != expected.as_ref().map(|bytes| &bytes[..]) {
            return Err(format!(
                "writer {writer}: half a batch: {commits} counted, the latest is {latest:?}"
            ));
        }
        let mut found = self.records.prefix(writer_key);
        for number in commits.saturating_sub(WINDOW)..commits {
            let pair = found.next().transpose().map_err(|error| error.to_string())?;
            let expected = (record_key(writer, number), record_value(writer, number));
            if pair.as_ref().is_none_or(|(key, value)| **key != expected.0 || **value != expected.1) {
                return Err(format!("writer {writer}: record {number} of {commits} is wrong: {pair:?}"));
            }
        }
        match found.next() {
            None => Ok(()),
            Some(pair) => Err(format!("writer {writer}: a record beyond its {commits} commits: {pair:?}")),
        }
    }

    /// The last round whose bulk load is there; 0: none. The load must be whole.
    pub fn round(&self) -> std::result::Result<u64, String> {
        let pairs: Result<Vec<_>> = self.loaded.iter().collect();
        let pairs = pairs.map_err(|error| error.to_string())?;
        let rounds: Vec<_> =
            pairs.iter().map(|(_, value)| value[..].try_into().map_or(0, u64::from_be_bytes)).collect();
        match rounds.first() {
            None => Ok(0),
            Some(&round)
                if rounds.iter().all(|other| *other == round)
                    && pairs.iter().map(|(key, _)| key.to_vec()).eq((0..LOADED_KEYS).map(loaded_key)) =>
            {
                Ok(round)
            }
            Some(_) => Err(format!("half a bulk load: its keys are of rounds {rounds:?}")),
        }
    }

    /// The bulk load of a round.
    pub fn load(&self, round: u64) -> Result<()> {
        self.loaded.ingest((0..LOADED_KEYS).map(|key| (loaded_key(key), round.to_be_bytes()))).map(|_| ())
    }

    /// Merges the tables of bulk loads.
    pub fn merge_loads(&self) -> Result<()> {
        self.loaded.compact_range(..)
    }

    /// The rounds whose keyspaces exist, in order.
    pub fn passing(&self) -> Vec<u64> {
        let names = self.db.keyspaces();
        let mut rounds: Vec<_> =
            names.iter().filter_map(|name| name.strip_prefix(PASSING)?.parse().ok()).collect();
        rounds.sort_unstable();
        rounds
    }

    /// Creates the keyspace of a round, and puts the round into it.
    pub fn create_passing(&self, round: u64) -> Result<()> {
        let passing = self.db.keyspace(&format!("{PASSING}{round}"))?;
        passing.put(b"round", round.to_be_bytes())
    }

    /// Whether the keyspace of a round, which exists, has what was put into it.
    pub fn passing_is_whole(&self, round: u64) -> Result<bool> {
        let found = self.db.keyspace(&format!("{PASSING}{round}"))?.get(b"round")?;
        Ok(found.as_deref() == Some(&round.to_be_bytes()[..]))
    }

    /// Drops the keyspace of a round.
    pub fn drop_passing(&self, round: u64) -> Result<()> {
        self.db.drop_keyspace(&format!("{PASSING}{round}"))
    }
}

fn record_key(writer: usize, number: u64) -> Vec<u8> {
    [(writer as u64).to_be_bytes(), number.to_be_bytes()].concat()
}

fn record_value(writer: usize, number: u64) -> Vec<u8> {
    let mut random = Random::new((writer as u64) << 48 | number);
    let len = random.length(400) as usize;
    (0..len).map(|_| random.next() as u8).collect()
}

fn loaded_key(number: u8) -> Vec<u8> {
    let mut key = vec![7; LOADED_KEY_BYTES];
    key.push(number);
    key
}
