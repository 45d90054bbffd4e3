//! Tests of LearnedKV's conversion (`Reclaim::LearnedKv`), through `Db`: a frozen keyspace becomes
//! a list of keys and values.
//!
//! A conversion leaves one sorted list, and less waste than allowed converts nothing. What is
//! deleted, put or flushed during one shadows what it writes; readers from before read what was
//! then. The operator `Gate` lets something happen in its midst: a power cut at any step, a full
//! disk, a second conversion. Damaged lists and values harm themselves alone.

use solera::{
    Db, Error, IndexKind, KeyspaceOptions, Options, Reclaim, Shape,
    operator::MergeOperator,
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::{MemFs, Persist},
    },
};
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
};

const DIR: &str = "/db";
const KEYS: u32 = 300;
/// The operand of this key is folded in the first conversion, and then something happens.
const GATE: &[u8] = b"key000150gate";

type Model = BTreeMap<Vec<u8>, Vec<u8>>;
type Deed = Box<dyn FnOnce() + Send>;

/// Appends; and where it is told, does something once when it is asked about the gate.
#[derive(Default)]
struct Gate(Mutex<Option<Deed>>);

impl MergeOperator for Gate {
    fn name(&self) -> &str {
        "gate"
    }

    fn merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        // The deed reads the gate too.
        let deed = if key == GATE { self.0.lock().unwrap().take() } else { None };
        if let Some(deed) = deed {
            deed();
        }
        Ok([base.unwrap_or_default(), &operands.concat()].concat())
    }
}

fn options(fs: Arc<dyn Fs>) -> Options {
    let shape = Shape { table_bytes: 4 << 10, ..Shape::default() };
    Options::new()
        .memory(4 << 20)
        .write_buffer(8 << 10)
        .shape(shape)
        .background_threads(0)
        .separate_values_from(40)
        .reclaim(Reclaim::LearnedKv)
        .merge_operator(Arc::new(Gate::default()))
        .seed(1)
        .fs(fs)
}

fn open(fs: &MemFs) -> Db {
    options(Arc::new(fs.clone())).open(DIR).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn put(db: &Db, model: &mut Model, n: u32, round: u32) {
    let value = vec![(n + round) as u8; 60 + n as usize % 90];
    db.put(key(n), &value).unwrap();
    model.insert(key(n), value);
}

/// All keys, in an order that is not theirs, then `rounds` times a half of them; some are deleted.
/// All is in tables then.
fn written(db: &Db, rounds: u32) -> Model {
    let mut model = Model::new();
    (0..KEYS).for_each(|n| put(db, &mut model, n * 7 % KEYS, 0));
    for round in 1..=rounds {
        (0..KEYS).filter(|n| n % 2 == round % 2).for_each(|n| put(db, &mut model, n * 11 % KEYS, round));
        for n in [round * 5, round * 5 + 1, KEYS + round] {
            db.delete(key(n)).unwrap();
            model.remove(&key(n));
        }
    }
    db.flush().unwrap();
    model
}

fn assert_holds(db: &Db, model: &Model, when: &str) {
    for n in 0..KEYS + 20 {
        let read = db.get(key(n)).unwrap();
        assert_eq!(read.as_deref(), model.get(&key(n)).map(Vec::as_slice), "{when}: key {n}");
    }
    let all: Vec<_> = db.iter().map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(all, expected, "{when}");
}

fn files(fs: &dyn Fs, ending: &str) -> Vec<String> {
    fs.list_dir(DIR.as_ref()).unwrap().into_iter().filter(|name| name.ends_with(ending)).collect()
}

/// Closes the database and lets all of it be checked.
fn assert_sound(fs: &MemFs, db: Db, when: &str) {
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{when}: {:?}", report.problems);
    db.close().unwrap();
    let check = solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), DIR.as_ref()).unwrap();
    assert!(check.problems.is_empty(), "{when}: {:?}", check.problems);
}

/// Whether all is in one run at the last level, whose tables are lists of keys.
fn is_converted(db: &Db) -> bool {
    let observed = db.control().observe();
    let layouts = &observed.keyspace("default").unwrap().layouts;
    let tables = layouts.iter().filter(|layout| layout.tables > 0);
    let kinds: Vec<_> = tables.filter_map(|layout| layout.tag.map(|tag| tag.index)).collect();
    let runs: Vec<usize> = db.default().stats().levels.iter().map(|level| level.runs.len()).collect();
    kinds == [IndexKind::GreedyPlr] && runs.iter().sum::<usize>() == 1 && runs.last() == Some(&1)
}

#[test]
fn a_conversion_leaves_one_list_of_keys_and_values_in_their_order() {
    let fs = MemFs::new();
    let db = open(&fs);
    let model = written(&db, 4);
    let logs = files(&fs, ".log");
    db.wait_idle().unwrap();
    assert!(is_converted(&db), "{:?}", db.default().stats().levels);
    assert_holds(&db, &model, "after the conversion");
    // The last one is the log that is written next.
    let after = files(&fs, ".log");
    let frozen = &logs[..logs.len() - 1];
    assert!(frozen.iter().all(|log| !after.contains(log)), "{logs:?}, and then {after:?}");
    let (mut values, mut last) = (0, Vec::new());
    for name in files(&fs, ".values") {
        let path = Path::new(DIR).join(name);
        let id = solera::ids::FileId(path.file_stem().unwrap().to_str().unwrap().parse().unwrap());
        solera::values::check_sorted(&fs, &path, None, id, |key, _, value| {
            assert!(*last < *key && model[key] == value);
            (values, last) = (values + 1, key.to_vec());
        })
        .unwrap();
    }
    assert_eq!(values, model.len());
    assert_sound(&fs, db, "in the end");
}

#[test]
fn less_waste_than_is_allowed_converts_nothing() {
    let fs = MemFs::new();
    let db = options(Arc::new(fs.clone())).value_spare_percent(500).open(DIR).unwrap();
    let model = written(&db, 2);
    db.wait_idle().unwrap();
    assert_eq!(files(&fs, ".values"), [""; 0]);
    assert_holds(&db, &model, "nothing is due");
}

#[test]
fn what_comes_into_the_last_level_later_joins_the_list_and_moves_no_value() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut model = written(&db, 4);
    db.wait_idle().unwrap();
    let values = files(&fs, ".values");
    (0..KEYS / 20).for_each(|n| put(&db, &mut model, n * 20 + 1, 9));
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(files(&fs, ".values"), values, "a merge of lists moves no value");
    assert!(is_converted(&db), "{:?}", db.default().stats().levels);
    assert_holds(&db, &model, "after the merge");
}

/// What `deed` does while the first conversion is at the gate.
fn during_a_conversion(fs: &MemFs, deed: impl FnOnce(&Db, &mut Model) + Send + 'static) -> (Db, Model) {
    let gate = Arc::new(Gate::default());
    let db = options(Arc::new(fs.clone())).merge_operator(gate.clone()).open(DIR).unwrap();
    db.merge(GATE, b"open").unwrap();
    let model = Arc::new(Mutex::new(written(&db, 4)));
    model.lock().unwrap().insert(GATE.to_vec(), b"open".to_vec());
    let (other, shared) = (db.clone(), model.clone());
    let done = Arc::new(Mutex::new(false));
    let is_done = done.clone();
    *gate.0.lock().unwrap() = Some(Box::new(move || {
        assert!(other.stats().value_files_leaving > 0, "a conversion goes on");
        deed(&other, &mut shared.lock().unwrap());
        *is_done.lock().unwrap() = true;
    }));
    while !*done.lock().unwrap() {
        assert!(db.step().unwrap(), "the gate is on the way of a conversion");
    }
    let model = model.lock().unwrap().clone();
    (db, model)
}

#[test]
fn what_is_deleted_and_put_during_a_conversion_shadows_what_the_conversion_writes() {
    let fs = MemFs::new();
    let (db, model) = during_a_conversion(&fs, |db, model| {
        for n in (0..KEYS).step_by(3) {
            db.delete(key(n)).unwrap();
            model.remove(&key(n));
        }
        (1..KEYS).step_by(3).for_each(|n| put(db, model, n, 77));
        db.delete(key(KEYS + 9)).unwrap();
        db.delete_range(key(120)..key(130)).unwrap();
        (120..130).for_each(|n| drop(model.remove(&key(n))));
        assert_holds(db, model, "in the middle of the conversion");
    });
    assert_holds(&db, &model, "after the conversion");
    // In memory, flushed, merged into the list, and after another conversion.
    db.flush().unwrap();
    assert_holds(&db, &model, "flushed");
    db.compact_range(..).unwrap();
    assert_holds(&db, &model, "merged");
    db.wait_idle().unwrap();
    assert_holds(&db, &model, "converted again");
    assert_sound(&fs, db, "in the end");
}

#[test]
fn what_is_flushed_during_a_conversion_stays_above_it() {
    let fs = MemFs::new();
    let (db, model) = during_a_conversion(&fs, |db, model| {
        (0..KEYS).step_by(2).for_each(|n| put(db, model, n, 55));
        db.flush().unwrap();
        assert_holds(db, model, "flushed in the middle");
    });
    let runs: Vec<usize> = db.default().stats().levels.iter().map(|level| level.runs.len()).collect();
    assert!(runs[0] > 0 && runs.last() == Some(&1), "{runs:?}");
    assert_holds(&db, &model, "after the conversion");
    assert_sound(&fs, db, "in the end");
}

#[test]
fn while_a_conversion_runs_none_begins_and_the_next_one_comes_after_it() {
    let fs = MemFs::new();
    let (db, model) = during_a_conversion(&fs, |db, model| {
        let frozen = db.stats().value_files_leaving;
        for round in 0..3 {
            (0..KEYS).for_each(|n| put(db, model, n, 30 + round));
            db.flush().unwrap();
            while db.step().unwrap() {}
        }
        assert_eq!(db.stats().value_files_leaving, frozen, "what is frozen stays as it is");
    });
    db.wait_idle().unwrap();
    assert_eq!(db.stats().value_files_leaving, 0);
    assert!(is_converted(&db), "{:?}", db.default().stats().levels);
    assert_holds(&db, &model, "after both");
    assert_sound(&fs, db, "in the end");
}

#[test]
fn readers_from_before_the_freeze_read_what_was_then() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut model = written(&db, 1);
    let (then, snapshot, iterator) = (model.clone(), db.snapshot(), db.iter());
    for round in 5..9 {
        (0..KEYS).for_each(|n| put(&db, &mut model, n, round));
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_holds(&db, &model, "now");
    for n in 0..KEYS {
        let seen = snapshot.get(db.default(), key(n)).unwrap();
        assert_eq!(seen.as_deref(), then.get(&key(n)).map(Vec::as_slice), "key {n} of the snapshot");
    }
    let seen: Model = iterator.map(|pair| pair.map(|(k, v)| (k.to_vec(), v.to_vec())).unwrap()).collect();
    assert_eq!(seen, then);
    drop(snapshot);
    assert_sound(&fs, db, "in the end");
}

/// The power fails at every operation of a conversion: freeze, values, list, their names, the
/// record, the removal of what was frozen.
#[test]
fn the_power_may_fail_at_any_step_of_a_conversion() {
    let fs = MemFs::new();
    let db = open(&fs);
    let model = written(&db, 3);
    db.sync().unwrap();
    fs.record_cuts(true);
    db.wait_idle().unwrap();
    assert!(is_converted(&db));
    let cuts = fs.take_cuts();
    assert!(cuts.len() > 20, "{} operations", cuts.len());
    for (at, cut) in cuts.iter().enumerate() {
        for persist in [Persist::ALL[at % Persist::ALL.len()], Persist::Nothing] {
            let when = format!("{persist:?} at operation {at}");
            let fs = cut.crash(persist, at as u64);
            let db = open(&fs);
            assert_holds(&db, &model, &when);
            db.wait_idle().unwrap();
            assert_holds(&db, &model, &when);
            assert_sound(&fs, db, &when);
        }
    }
}

#[test]
fn a_conversion_that_a_full_disk_ends_leaves_no_output_and_is_done_later() {
    for (call, on) in [
        (Call::Create, ".values"),
        (Call::Append, ".values"),
        (Call::Sync, ".values"),
        (Call::Create, ".table"),
        (Call::Append, ".table"),
        (Call::Sync, ".table"),
        (Call::SyncDir, ""),
    ] {
        let memory = MemFs::new();
        let fs = FaultFs::new(Arc::new(memory.clone()));
        let db = options(Arc::new(fs.clone())).open(DIR).unwrap();
        let mut model = written(&db, 4);
        while db.stats().value_files_leaving == 0 {
            assert!(db.step().unwrap(), "a freeze is due");
        }
        fs.inject(Fault::sticky(call, 0, Effect::Fail(std::io::ErrorKind::StorageFull)).on(on));
        let tables = files(&memory, ".table");
        assert!(db.wait_idle().is_err(), "{call:?} of {on:?}");
        assert_eq!(files(&memory, ".values"), [""; 0], "{call:?} of {on:?}");
        let after = files(&memory, ".table");
        assert!(after.iter().all(|table| tables.contains(table)), "{call:?}: {tables:?}, then {after:?}");
        assert_holds(&db, &model, "while the disk is full");
        fs.heal();
        put(&db, &mut model, 3, 99);
        db.wait_idle().unwrap();
        assert!(!files(&memory, ".values").is_empty(), "{call:?} of {on:?}");
        assert_holds(&db, &model, "when there is room again");
        db.close().unwrap();
        assert_holds(&open(&memory), &model, "opened again");
    }
}

#[test]
fn keyspaces_that_share_logs_are_converted_one_after_the_other() {
    let fs = MemFs::new();
    let db = open(&fs);
    let other = db.keyspace_with("other", KeyspaceOptions::new().separate_values_from(40)).unwrap();
    let inline = db.keyspace_with("inline", KeyspaceOptions::new()).unwrap();
    for n in 0..KEYS {
        other.put(key(n), [n as u8; 100]).unwrap();
        inline.put(key(n), [n as u8; 10]).unwrap();
    }
    let model = written(&db, 4);
    let logs = files(&fs, ".log");
    db.wait_idle().unwrap();
    assert_holds(&db, &model, "converted");
    for n in 0..KEYS {
        assert_eq!(other.get(key(n)).unwrap().unwrap(), vec![n as u8; 100]);
        assert_eq!(inline.get(key(n)).unwrap().unwrap(), vec![n as u8; 10]);
    }
    // The last one is the log that is written next.
    let after = files(&fs, ".log");
    let frozen = &logs[..logs.len() - 1];
    assert!(frozen.iter().all(|log| !after.contains(log)), "{logs:?}, and then {after:?}");
    drop((other, inline));
    assert_sound(&fs, db, "in the end");
}

/// Damaged bytes of the list: what lies in that block cannot be read, all else can, and no
/// conversion is tried again and again.
#[test]
fn a_damaged_list_of_keys_harms_its_own_block_alone() {
    let fs = MemFs::new();
    let db = open(&fs);
    let mut model = written(&db, 4);
    db.wait_idle().unwrap();
    assert!(is_converted(&db));
    db.close().unwrap();
    let table = Path::new(DIR).join(files(&fs, ".table").first().unwrap());
    let mut bytes = fs.content(&table).unwrap();
    bytes[200] ^= 4;
    fs.set_content(&table, &bytes).unwrap();
    let db = open(&fs);
    let harmed =
        |db: &Db| (0..KEYS).filter(|&n| matches!(db.get(key(n)), Err(Error::Corrupt { .. }))).count();
    let before = harmed(&db);
    assert!((1..KEYS as usize).contains(&before), "{before} keys");
    (200..KEYS).for_each(|n| (0..3).for_each(|round| put(&db, &mut model, n, round)));
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert!(harmed(&db) <= before);
    for n in (0..KEYS).filter(|&n| db.get(key(n)).is_ok()) {
        assert_eq!(db.get(key(n)).unwrap().as_deref(), model.get(&key(n)).map(Vec::as_slice));
    }
}

#[test]
fn a_value_that_cannot_be_read_stays_and_the_conversion_ends() {
    let fs = MemFs::new();
    let db = open(&fs);
    let model = written(&db, 0);
    db.close().unwrap();
    let log = Path::new(DIR).join(&files(&fs, ".log")[0]);
    let mut bytes = fs.content(&log).unwrap();
    let victim = &model[&key(0)];
    let at = bytes.windows(victim.len()).position(|window| window == victim).unwrap();
    bytes[at + 5] ^= 1;
    fs.set_content(&log, &bytes).unwrap();
    let db = open(&fs);
    let mut model = model;
    for round in 1..5 {
        (20..KEYS).for_each(|n| put(&db, &mut model, n, round));
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    assert_eq!(db.stats().value_files_leaving, 0, "the conversion has ended");
    let unread: Vec<u32> = (0..KEYS).filter(|&n| db.get(key(n)).is_err()).collect();
    assert_eq!(unread, [0]);
    assert!(fs.exists(&log).unwrap() && !files(&fs, ".values").is_empty());
}
