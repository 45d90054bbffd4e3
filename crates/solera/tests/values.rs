//! Tests of values that are kept apart from their entries, through `Db` against a model.
//!
//! Everything that works for others works for them: reads, batches, transactions, ingests,
//! checkpoints, recovery. A value is written once, and tables hold a pointer. A log stays while a
//! pointer leads to it. A damaged value file harms its own values alone, and does not stop the
//! reclaim of others. Keys alone are read without values. A slow scan looks ahead, as far as such
//! scans go, and yields the same. A value that was read stays in memory, and `verify` reads the
//! file all the same.

use solera::{
    Clock, Db, Durability, Error, KeyspaceOptions, Options, Reclaim, Shape,
    error::Result,
    operator::Append,
    vfs::{
        Fs, ReadFile, WriteFile,
        fault::{Call, Effect, Fault, FaultFs},
        mem::{MemFs, Persist},
        posix::PosixFs,
    },
};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

const DIR: &str = "/db";
/// Values of so many bytes are kept apart here.
const FROM: usize = 40;

fn options(fs: Arc<dyn Fs>) -> Options {
    let shape = Shape { table_bytes: 4 << 10, ..Shape::default() };
    Options::new()
        .memory(4 << 20)
        .write_buffer(8 << 10)
        .shape(shape)
        .background_threads(0)
        .separate_values_from(FROM as u64)
        .merge_operator(Arc::new(Append))
        .seed(1)
        .fs(fs)
}

fn open(fs: &MemFs) -> Db {
    options(Arc::new(fs.clone())).open(DIR).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// A value of `round`, around the length from which values are kept apart.
fn value(n: u32, round: u32) -> Vec<u8> {
    vec![(n * 7 + round) as u8; n as usize % (3 * FROM)]
}

fn files(fs: &dyn Fs, ending: &str) -> Vec<String> {
    fs.list_dir(DIR.as_ref()).unwrap().into_iter().filter(|name| name.ends_with(ending)).collect()
}

/// Asks for everything in every way, and compares with `model`.
fn assert_holds(db: &Db, model: &BTreeMap<Vec<u8>, Vec<u8>>, keys: u32) {
    let asked: Vec<_> = (0..keys).map(key).collect();
    let many = db.multi_get(&asked).unwrap();
    let mut buffer = Vec::new();
    for (key, many) in asked.iter().zip(many) {
        let expected = model.get(key);
        assert_eq!(db.get(key).unwrap().as_deref(), expected.map(Vec::as_slice));
        assert_eq!(many.as_deref(), expected.map(Vec::as_slice));
        assert_eq!(db.contains_key(key).unwrap(), expected.is_some());
        assert_eq!(db.get_into(key, &mut buffer).unwrap(), expected.is_some());
        if let Some(expected) = expected {
            assert_eq!(&buffer, expected);
        }
    }
    let pair = |pair: solera::Result<(solera::Slice, solera::Slice)>| {
        let (key, value) = pair.unwrap();
        (key.to_vec(), value.to_vec())
    };
    let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(db.iter().map(pair).collect::<Vec<_>>(), expected);
    let mut back: Vec<_> = db.iter().rev().map(pair).collect();
    back.reverse();
    assert_eq!(back, expected);
    let keys: Vec<_> = db.iter().keys().map(|key| key.unwrap().to_vec()).collect();
    assert_eq!(keys, model.keys().cloned().collect::<Vec<_>>());
}

/// Rounds of puts, deletes, merges, range deletions and expiring puts; flushed now and then.
fn fill(db: &Db, model: &mut BTreeMap<Vec<u8>, Vec<u8>>, rounds: std::ops::Range<u32>) {
    for round in rounds {
        for n in (round % 3..300).step_by(1 + round as usize % 4) {
            match (n + round) % 13 {
                0 => {
                    db.delete(key(n)).unwrap();
                    model.remove(&key(n));
                }
                1 => {
                    db.merge(key(n), b"+more").unwrap();
                    model.entry(key(n)).or_default().extend(b"+more");
                }
                2 => {
                    db.delete_range(key(n)..key(n + 4)).unwrap();
                    (n..n + 4).for_each(|n| drop(model.remove(&key(n))));
                }
                3 => {
                    db.put_with_ttl(key(n), value(n, round), Duration::from_secs(1 << 30)).unwrap();
                    model.insert(key(n), value(n, round));
                }
                4 => {
                    db.put_with_ttl(key(n), value(n, round), Duration::ZERO).unwrap();
                    model.remove(&key(n));
                }
                _ => {
                    db.put(key(n), value(n, round)).unwrap();
                    model.insert(key(n), value(n, round));
                }
            }
        }
        if round % 2 == 1 {
            db.flush().unwrap();
        }
        while round % 3 == 1 && db.step().unwrap() {}
    }
}

#[test]
fn what_is_kept_apart_reads_as_if_it_were_not() {
    let fs = MemFs::new();
    let mut model = BTreeMap::new();
    let db = open(&fs);
    fill(&db, &mut model, 0..3);
    assert_holds(&db, &model, 320);
    let (old, old_model) = (db.snapshot(), model.clone());
    fill(&db, &mut model, 3..12);
    assert_holds(&db, &model, 320);
    for n in 0..320 {
        let seen = old.get(db.default(), key(n)).unwrap();
        assert_eq!(seen.as_deref(), old_model.get(&key(n)).map(Vec::as_slice), "key {n} of the snapshot");
    }
    drop(old);
    db.compact_range(..).unwrap();
    assert_holds(&db, &model, 320);
    db.close().unwrap();
    let db = open(&fs);
    assert_holds(&db, &model, 320);
    fill(&db, &mut model, 12..14);
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    drop(db);
    let read_only = options(Arc::new(fs.clone())).read_only(true).open(DIR).unwrap();
    assert_holds(&read_only, &model, 320);
    drop(read_only);
    let check = solera::inspect::check(&(Arc::new(fs) as Arc<dyn Fs>), DIR.as_ref()).unwrap();
    assert!(check.problems.is_empty(), "{:?}", check.problems);
}

#[test]
fn a_value_is_written_once_and_tables_hold_a_pointer() {
    let fs = MemFs::new();
    let db = open(&fs);
    for n in 0..200 {
        db.put(key(n), [n as u8; 1000]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let stats = db.stats();
    let written = stats.bytes_written_log
        + stats.keyspaces[0].counters.bytes_written_flush
        + stats.keyspaces[0].counters.bytes_written_compaction;
    assert!(written < 200 * 1000 * 115 / 100, "{written} bytes written for 200,000");
    assert!(stats.keyspaces[0].table_bytes < 20_000, "{} bytes of tables", stats.keyspaces[0].table_bytes);
}

#[test]
fn a_log_stays_while_a_pointer_leads_to_it_and_goes_with_the_last() {
    let fs = MemFs::new();
    let db = open(&fs);
    let all = |byte: u8| (0..100).for_each(|n| db.put(key(n), [byte; 500]).unwrap());
    all(1);
    db.flush().unwrap();
    let first = files(&fs, ".log");
    assert!(first.len() > 3, "{first:?}");
    let iterator = db.iter();
    all(2);
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let after = files(&fs, ".log");
    assert!(first[..3].iter().all(|log| after.contains(log)), "the iterator reads {first:?}: {after:?}");
    assert!(iterator.map(|pair| pair.unwrap().1).all(|value| value == vec![1; 500]));
    db.compact_range(..).unwrap();
    all(3);
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    let after = files(&fs, ".log");
    assert!(first[..3].iter().all(|log| !after.contains(log)), "nobody reads {first:?}: {after:?}");
    assert_eq!(db.get(key(5)).unwrap().unwrap(), vec![3; 500]);
}

#[test]
fn a_checkpoint_holds_its_values_whatever_becomes_of_the_original() {
    let fs = MemFs::new();
    let mut model = BTreeMap::new();
    let db = open(&fs);
    fill(&db, &mut model, 0..5);
    db.checkpoint("/copy").unwrap();
    for n in 0..320 {
        db.put(key(n), [9; 300]).unwrap();
    }
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    drop(db);
    for name in fs.list_dir(DIR.as_ref()).unwrap() {
        fs.remove_file(&Path::new(DIR).join(name)).unwrap();
    }
    for _ in 0..2 {
        let copy = options(Arc::new(fs.clone())).open("/copy").unwrap();
        assert_holds(&copy, &model, 320);
        fill(&copy, &mut model, 5..7);
        assert_holds(&copy, &model, 320);
    }
}

/// A killed process leaves a log whose end no sync has proved: its values are written again, and
/// pointers lead there.
#[test]
fn values_at_an_unproved_end_of_the_log_are_written_again() {
    let mut fs = MemFs::new();
    let mut model = BTreeMap::new();
    let db = open(&fs);
    for n in 0..100 {
        db.put(key(n), [1; 200]).unwrap();
        model.insert(key(n), vec![1; 200]);
    }
    db.sync().unwrap();
    for n in 50..150 {
        db.put(key(n), [2; 200]).unwrap();
        model.insert(key(n), vec![2; 200]);
    }
    for round in 3..6 {
        fs = fs.kill();
        let db = open(&fs);
        assert_holds(&db, &model, 320);
        // What was recovered is durable now, wherever it lies.
        let cut = fs.crash(Persist::Nothing, u64::from(round));
        let again = open(&cut);
        assert_holds(&again, &model, 320);
        drop(again);
        // So are tables that point to it, when the old log has lost what no sync had proved.
        db.flush().unwrap();
        let cut = fs.crash(Persist::Nothing, u64::from(round));
        assert_holds(&open(&cut), &model, 320);
        for n in 100..110 {
            db.put(key(n), [round; 200]).unwrap();
            model.insert(key(n), vec![round; 200]);
        }
        std::mem::forget(db);
    }
}

#[test]
fn a_damaged_value_file_harms_its_own_values_alone() {
    let fs = MemFs::new();
    let db = open(&fs);
    for n in 0..100 {
        db.put(key(n), [n as u8; 500]).unwrap();
        db.put([&key(n)[..], b"small"].concat(), b"inline").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let logs = files(&fs, ".log");
    let victim = Path::new(DIR).join(&logs[1]);
    let content = fs.content(&victim).unwrap();
    let other = fs.content(&Path::new(DIR).join(&logs[2])).unwrap();
    let half = content[..content.len() / 2].to_vec();
    let flipped = content.iter().map(|byte| byte ^ 0x10).collect::<Vec<_>>();
    for damaged in [Some(half), Some(other), Some(flipped), None] {
        match damaged {
            Some(bytes) => fs.set_content(&victim, &bytes).unwrap(),
            None => fs.remove_file(&victim).unwrap(),
        }
        let db = options(Arc::new(fs.clone())).read_only(true).open(DIR).unwrap();
        let mut harmed = 0;
        for n in 0..100 {
            match db.get(key(n)) {
                Ok(value) => assert_eq!(value.unwrap(), vec![n as u8; 500]),
                Err(Error::Corrupt { file, .. }) => {
                    assert_eq!(file, victim);
                    harmed += 1;
                }
                Err(other) => panic!("{other:?}"),
            }
            assert_eq!(db.get([&key(n)[..], b"small"].concat()).unwrap().unwrap(), b"inline");
        }
        assert!((1..60).contains(&harmed), "{harmed} harmed");
        assert_eq!(db.iter().keys().filter(|key| key.is_ok()).count(), 200);
        // An error stands in the place of its entry, and the walk goes on, from both ends.
        assert_eq!(db.iter().filter(|pair| pair.is_err()).count(), harmed);
        assert_eq!(db.iter().rev().filter(|pair| pair.is_ok()).count(), 200 - harmed);
    }
}

#[test]
fn keys_alone_are_read_without_a_value() {
    let memory = MemFs::new();
    let db = open(&memory);
    for n in 0..50 {
        db.put(key(n), [1; 500]).unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let fs = FaultFs::new(Arc::new(memory));
    let db = options(Arc::new(fs.clone())).open(DIR).unwrap();
    assert_eq!(db.iter().keys().count(), 50);
    fs.inject(Fault::sticky(Call::Open, 0, Effect::Fail(std::io::ErrorKind::PermissionDenied)).on(".log"));
    assert_eq!(db.iter().keys().filter(|key| key.is_ok()).count(), 50);
    assert_eq!(db.iter().keys().rev().filter(|key| key.is_ok()).count(), 50);
    assert!((0..50).all(|n| db.contains_key(key(n)).unwrap()));
    assert!(db.get(key(1)).is_err());
    fs.heal();
    assert_eq!(db.get(key(1)).unwrap().unwrap(), vec![1; 500]);
}

#[test]
fn batches_and_transactions_keep_values_apart_too() {
    let fs = MemFs::new();
    let db = open(&fs);
    let inline = db.keyspace_with("inline", KeyspaceOptions::new()).unwrap();
    let apart = db.keyspace_with("apart", KeyspaceOptions::new().separate_values_from(1)).unwrap();
    let mut batch = db.batch();
    for n in 0..40 {
        batch.put(&inline, key(n), [1; 300]).unwrap();
        batch.put(&apart, key(n), [2; 300]).unwrap();
        batch.put(db.default(), key(n), vec![3; n as usize * 2]).unwrap();
    }
    batch.durability(Durability::Sync);
    db.write(batch).unwrap();
    let mut transaction = db.transaction();
    assert_eq!(transaction.get(&apart, key(7)).unwrap().unwrap(), vec![2; 300]);
    transaction.put(&apart, key(7), [4; 300]).unwrap();
    transaction.put_with_ttl(&apart, key(8), [5; 300], Duration::from_secs(1 << 30)).unwrap();
    transaction.merge(db.default(), key(39), b"!").unwrap();
    assert_eq!(transaction.get(&apart, key(7)).unwrap().unwrap(), vec![4; 300]);
    assert_eq!(
        transaction.get(db.default(), key(39)).unwrap().unwrap(),
        [vec![3; 78], b"!".to_vec()].concat()
    );
    let seen: Vec<_> = transaction.iter(&apart).map(|pair| pair.unwrap().1.len()).collect();
    assert_eq!(seen, [300; 40]);
    transaction.commit().unwrap();
    for round in 0..2 {
        assert_eq!(apart.get(key(7)).unwrap().unwrap(), vec![4; 300], "round {round}");
        assert_eq!(apart.get(key(8)).unwrap().unwrap(), vec![5; 300]);
        assert_eq!(inline.get(key(7)).unwrap().unwrap(), vec![1; 300]);
        assert_eq!(db.get(key(39)).unwrap().unwrap(), [vec![3; 78], b"!".to_vec()].concat());
        db.flush().unwrap();
        db.compact_range(..).unwrap();
    }
    let before = files(&fs, ".log").len();
    db.drop_keyspace("apart").unwrap();
    drop((apart, inline));
    assert_eq!(db.get(key(30)).unwrap().unwrap(), vec![3; 60]);
    assert!(files(&fs, ".log").len() <= before);
}

#[test]
fn what_is_ingested_lies_in_sorted_value_files() {
    let fs = MemFs::new();
    let db = open(&fs);
    db.put(key(3), [9; 100]).unwrap();
    let report = db.ingest((0..500).map(|n| (key(n), value(n, 1)))).unwrap();
    assert_eq!(report.entries, 500);
    let model: BTreeMap<_, _> = (0..500).map(|n| (key(n), value(n, 1))).collect();
    assert_holds(&db, &model, 520);
    assert!(!files(&fs, ".values").is_empty());
    drop(db);
    let db = open(&fs);
    assert_holds(&db, &model, 520);
    db.delete_range(key(0)..key(1000)).unwrap();
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    assert_eq!(files(&fs, ".values"), [""; 0]);
    // One that fails leaves nothing behind.
    let unsorted = [(key(2), vec![1; 100]), (key(1), vec![1; 100])];
    assert!(matches!(db.ingest(unsorted), Err(Error::Invalid(_))));
    assert_eq!(files(&fs, ".values"), [""; 0]);
}

#[test]
fn a_size_out_of_range_is_refused_with_the_range() {
    for bytes in [0, 1 << 32] {
        let refused = options(Arc::new(MemFs::new())).separate_values_from(bytes).open(DIR);
        assert!(
            matches!(&refused, Err(Error::Invalid(what)) if what.contains("1 to 4294967295")),
            "{refused:?}"
        );
    }
    options(Arc::new(MemFs::new())).separate_values_from((1 << 32) - 1).open(DIR).unwrap();
}

/// Bytes of all files that may hold values.
fn value_file_bytes(fs: &MemFs) -> u64 {
    let names = files(fs, ".log").into_iter().chain(files(fs, ".values"));
    names.map(|name| fs.content(&Path::new(DIR).join(name)).unwrap().len() as u64).sum()
}

#[test]
fn space_is_given_back_while_every_answer_stays() {
    for way in [Reclaim::Tier, Reclaim::LearnedKv, Reclaim::Off] {
        let fs = MemFs::new();
        let open = || options(Arc::new(fs.clone())).reclaim(way).open(DIR).unwrap();
        let mut db = open();
        let mut model = BTreeMap::new();
        let mut held = None;
        for round in 0..6 {
            for n in 0..400u32 {
                // A few keys are written all the time, most seldom.
                let n = if n % 4 == 0 { n } else { (n * 31 + round * 7) % 40 };
                let value = vec![(n + round) as u8; 100 + n as usize];
                db.put(key(n), &value).unwrap();
                model.insert(key(n), value);
            }
            db.delete(key(round)).unwrap();
            model.remove(&key(round));
            if round == 2 {
                held = Some((db.snapshot(), model.clone()));
            }
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert_holds(&db, &model, 420);
            let report = db.verify().unwrap();
            assert!(report.problems.is_empty(), "{way:?}: {:?}", report.problems);
            if round == 3 {
                let (snapshot, then) = held.take().unwrap();
                for n in 0..420 {
                    let seen = snapshot.get(db.default(), key(n)).unwrap();
                    assert_eq!(seen.as_deref(), then.get(&key(n)).map(Vec::as_slice), "{way:?}: key {n}");
                }
                drop(snapshot);
                db.close().unwrap();
                db = open();
                assert_holds(&db, &model, 420);
            }
        }
        db.compact_range(..).unwrap();
        db.wait_idle().unwrap();
        assert_holds(&db, &model, 420);
        let live = db.default().stats().separated_bytes;
        db.close().unwrap();
        // The log that is written is reserved ahead and holds no separated value then.
        let db = open();
        let taken = value_file_bytes(&fs);
        match way {
            Reclaim::Off => assert!(taken > live * 3, "{taken} bytes for {live}"),
            _ => assert!(taken < live * 2, "{way:?}: {taken} bytes for {live}"),
        }
        db.close().unwrap();
        let check = solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), DIR.as_ref()).unwrap();
        assert!(check.problems.is_empty(), "{way:?}: {:?}", check.problems);
    }
}

/// A value that cannot be read stays where it is: all others leave its file, and work goes on.
#[test]
fn a_damaged_value_does_not_stop_the_reclaim_of_others() {
    let fs = MemFs::new();
    let open = || options(Arc::new(fs.clone())).value_spare_percent(1).open(DIR).unwrap();
    let db = open();
    (0..100).for_each(|n| db.put(key(n), [7; 300]).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let log = Path::new(DIR).join(&files(&fs, ".log")[0]);
    let mut bytes = fs.content(&log).unwrap();
    let at = bytes.windows(300).position(|window| window == [7; 300]).unwrap();
    bytes[at + 5] ^= 1;
    fs.set_content(&log, &bytes).unwrap();
    let db = open();
    (20..100).for_each(|n| db.put(key(n), [8; 300]).unwrap());
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.wait_idle().unwrap();
    let harmed = (0..100).filter(|&n| db.get(key(n)).is_err()).count();
    assert_eq!(harmed, 1);
    assert!((0..100).all(|n| db.get(key(n)).is_err() || db.get(key(n)).unwrap().is_some()));
    assert!(!files(&fs, ".values").is_empty());
}

/// Symptom: behind a damaged table `verify` told of no damaged value. Cause: it ended its walk over
/// the values of a keyspace there. Cure: it goes on, and leaves out the counts alone.
#[test]
fn a_damaged_table_hides_no_damaged_value_of_another_from_the_checks() {
    let fs = MemFs::new();
    let db = open(&fs);
    (0..600).for_each(|n| db.put(key(n), [7; 300]).unwrap());
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let tables = files(&fs, ".table");
    assert!(tables.len() > 2, "{tables:?}");
    let flip = |name: &str, at: &dyn Fn(&[u8]) -> usize| {
        let path = Path::new(DIR).join(name);
        let mut bytes = fs.content(&path).unwrap();
        let at = at(&bytes);
        bytes[at] ^= 1;
        fs.set_content(&path, &bytes).unwrap();
    };
    // A block of the first table, and the value of the last key.
    flip(&tables[0], &|_| 100);
    let last = |bytes: &[u8]| bytes.windows(300).rposition(|value| value == [7; 300]);
    let logs = files(&fs, ".values");
    let log = logs.iter().rfind(|log| last(&fs.content(&Path::new(DIR).join(log)).unwrap()).is_some());
    flip(log.unwrap(), &|bytes| last(bytes).unwrap());
    let told = |problems: &[Error], ending: &str| {
        let of = |error: &&Error| matches!(error, Error::Corrupt { file, .. } if file.to_string_lossy().ends_with(ending));
        problems.iter().filter(of).count()
    };
    let verified = open(&fs).verify().unwrap().problems;
    let checked =
        solera::inspect::check(&(Arc::new(fs.clone()) as Arc<dyn Fs>), DIR.as_ref()).unwrap().problems;
    for problems in [verified, checked] {
        // The value is told by its pointer, and by its place in the file.
        let (tables, values) = (told(&problems, ".table"), told(&problems, ".values"));
        assert!(tables == 1 && values >= 1 && problems.len() == tables + values, "{problems:?}");
    }
}

/// A clock by which everything takes long.
#[derive(Debug, Default)]
struct SlowClock(std::sync::atomic::AtomicU64);

impl Clock for SlowClock {
    fn unix_ms(&self) -> u64 {
        1_000_000
    }
    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000, std::sync::atomic::Ordering::Relaxed)
    }
    fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_nanos() as u64, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_scan_that_waits_for_its_reads_looks_ahead_and_yields_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(Arc::new(PosixFs::new())).reclaim(Reclaim::Off);
    let db = options.clock(Arc::new(SlowClock::default())).open(dir.path()).unwrap();
    let mut model = BTreeMap::new();
    fill(&db, &mut model, 0..7);
    assert_holds(&db, &model, 300);
    // Placed anew in the middle of what was looked ahead for, and written to meanwhile.
    let mut walk = db.iter();
    for start in [0, 250, 10, 120] {
        walk.seek(key(start)).unwrap();
        let expected: Vec<_> = model.range(key(start)..).take(90).collect();
        for (key, value) in expected {
            let (found, of_it) = walk.next().unwrap().unwrap();
            assert_eq!((&*found, &*of_it), (&key[..], &value[..]));
        }
        db.put(key(start), value(start, 99)).unwrap();
    }
}

/// A file system in memory that counts the parts of logs that the device was asked to begin with.
#[derive(Debug, Default, Clone)]
struct AskedFs(MemFs, Arc<std::sync::atomic::AtomicUsize>);

#[derive(Debug)]
struct AskedFile(Arc<dyn ReadFile>, Arc<std::sync::atomic::AtomicUsize>);

impl ReadFile for AskedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buf, offset)
    }
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn will_need(&self, _: u64, _: u64) {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Fs for AskedFs {
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(AskedFile(self.0.open(path)?, self.1.clone())))
    }
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.0.create(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> Result<()> {
        self.0.remove_file(path)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.hard_link(from, to)
    }
    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.0.sync_dir(path)
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.0.create_dir_all(path)
    }
    fn list_dir(&self, path: &Path) -> Result<Vec<String>> {
        self.0.list_dir(path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.exists(path)
    }
    fn nonce(&self) -> u64 {
        self.0.nonce()
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn Send + Sync>> {
        self.0.lock(path)
    }
    fn lock_shared(&self, path: &Path) -> Result<Option<Box<dyn Send + Sync>>> {
        self.0.lock_shared(path)
    }
}

/// A scan of 500 had begun with some 70 values behind its end, each by a read of the device.
#[test]
fn scans_of_one_length_have_the_device_begin_with_what_they_read_and_nothing_behind_their_end() {
    let fs = AskedFs::default();
    let options = options(Arc::new(fs.clone())).reclaim(Reclaim::Off);
    let db = options.clock(Arc::new(SlowClock::default())).open(DIR).unwrap();
    let value = |n: u32| vec![n as u8; FROM + n as usize % 7];
    // Not in the order of the keys, 3 having no part in 5000.
    (0..5000).for_each(|n| db.put(key(n * 2003 % 5000), value(n * 2003 % 5000)).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let asked = |first: u32, entries: u32| {
        let before = fs.1.load(std::sync::atomic::Ordering::Relaxed);
        let mut walk = db.range(key(first)..);
        for n in first..first + entries {
            let (found, of_it) = walk.next().unwrap().unwrap();
            assert_eq!((&*found, &*of_it), (&key(n)[..], &value(n)[..]));
        }
        fs.1.load(std::sync::atomic::Ordering::Relaxed) - before
    };
    // Nothing is known yet: it looks far.
    assert!((0..4).all(|nth| asked(nth * 200, 40) > 60));
    // The first value is read before anything is asked for.
    (4..12).for_each(|nth| assert_eq!(asked(nth * 200, 40), 39, "scan {nth}"));
    // One that goes on is looked ahead of again.
    let long = asked(2500, 400);
    assert!((399..520).contains(&long), "{long}");
    // Shorter ones become usual.
    for nth in 0..32 {
        asked(3000 + nth * 50, 8);
    }
    assert_eq!(asked(4700, 8), 7);
}

/// Reads of a separated value went to its file each time, even where all would fit into memory.
#[test]
fn a_value_that_was_read_is_in_memory_and_verify_reads_the_file_all_the_same() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let db = options(Arc::new(fs.clone())).reclaim(Reclaim::Off).open(DIR).unwrap();
    (0..50).for_each(|n| db.put(key(n), [n as u8; 100]).unwrap());
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let all = |db: &Db| {
        (0..50).filter(|&n| db.get(key(n)).is_ok_and(|found| found.unwrap()[..] == [n as u8; 100])).count()
    };
    assert_eq!(all(&db), 50);
    fs.inject(Fault::sticky(Call::Read, 0, Effect::Fail(std::io::ErrorKind::Other)).on(".log"));
    let kept = all(&db);
    assert!(kept > 40, "{kept} of 50 values are in memory");
    assert!(db.verify().is_err() || !db.verify().unwrap().problems.is_empty());
}
