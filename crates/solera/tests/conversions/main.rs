//! Tests of giving back the space of separated values (`Options::reclaim`), through `Db`, in three
//! ways.
//!
//! The ways are tier, rewrite and LearnedKV. Whatever comes in between, every answer stays, and
//! what no reader needs goes. In between come power cuts at every step, a full disk, threads that
//! write, deletes, snapshots, torn or swapped value files, operands and expiries. Value files take
//! at most an eighth of the live values besides what is spared. Ranges that walks have read by
//! short reads are put in order.

use solera::{
    Db, Options, Reclaim, Shape,
    operator::Append,
    vfs::{Fs, mem::MemFs},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

mod content;
mod losses;
mod order;
mod readers;
mod space;

const DIR: &str = "/db";
const WAYS: [Reclaim; 3] = [Reclaim::Tier, Reclaim::Rewrite, Reclaim::LearnedKv];
/// Value files may take so much beyond what is live, in percent.
const SPARE: u32 = 20;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options(fs: Arc<dyn Fs>, way: Reclaim) -> Options {
    Options::new()
        .memory(4 << 20)
        .write_buffer(4 << 10)
        .shape(Shape { table_bytes: 4 << 10, ..Shape::default() })
        .background_threads(0)
        .separate_values_from(16)
        .reclaim(way)
        .value_spare_percent(SPARE)
        .merge_operator(Arc::new(Append))
        .seed(1)
        .fs(fs)
}

fn open(fs: &MemFs, way: Reclaim) -> Db {
    options(Arc::new(fs.clone()), way).open(DIR).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn put(db: &Db, model: &mut Model, n: u32, value: Vec<u8>) {
    db.put(key(n), &value).unwrap();
    model.insert(key(n), value);
}

/// Puts `keys`, each with a value that tells the round and has some 200 bytes.
fn round(db: &Db, model: &mut Model, keys: impl IntoIterator<Item = u32>, round: u32) {
    for n in keys {
        put(
            db,
            model,
            n,
            [&round.to_le_bytes()[..], &vec![(n + round) as u8; 150 + n as usize % 100]].concat(),
        );
    }
}

/// A database whose value files have more garbage than they may, nothing of which is given back
/// yet: half of all keys were written three times.
fn wasteful(fs: &MemFs, keys: u32) -> Model {
    let mut model = Model::new();
    let db = open(fs, Reclaim::Off);
    round(&db, &mut model, 0..keys, 0);
    for again in 1..4 {
        round(&db, &mut model, (0..keys).filter(|n| n * 7 % 10 < 5), again);
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.close().unwrap();
    model
}

fn assert_holds(db: &Db, model: &Model) {
    for (key, value) in model {
        let found = db.get(key).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]), "{}", key.escape_ascii());
    }
    let all: Model =
        db.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect();
    assert_eq!(all.len(), model.len());
    assert!(all == *model);
}

fn named(fs: &dyn Fs, ending: &str) -> Vec<PathBuf> {
    let mut names: Vec<_> =
        fs.list_dir(DIR.as_ref()).unwrap().into_iter().filter(|name| name.ends_with(ending)).collect();
    names.sort();
    names.into_iter().map(|name| Path::new(DIR).join(name)).collect()
}

fn value_file_bytes(fs: &MemFs) -> u64 {
    let files = named(fs, ".log").into_iter().chain(named(fs, ".values"));
    files.map(|file| fs.content(&file).unwrap().len() as u64).sum()
}

fn live_bytes(model: &Model) -> u64 {
    model.values().map(|value| value.len() as u64).sum()
}

fn assert_whole(fs: &MemFs) {
    let check = solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), DIR.as_ref()).unwrap();
    assert!(check.problems.is_empty(), "{:?}", check.problems);
}
