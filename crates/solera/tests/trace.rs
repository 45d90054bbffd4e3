//! Tests of recordings, through `Control::trace` and `trace::read`: they hold what was done, and
//! get in no operation's way.
//!
//! Every operation is recorded, by whatever way it was done, also of many threads and from amid
//! operations. Recordings begin anew, one at a time, and replace nothing. A disk that fails the
//! trace fails no operation. A trace that cannot be ended says so. A recording of a random life is
//! what was done.

use proptest::prelude::*;
use solera::{
    Db, Error, KeyspaceOptions, Options, operator,
    trace::{Ending, Operation, TraceOptions, read},
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::MemFs,
    },
};
use std::{
    collections::{BTreeMap, HashMap},
    io::ErrorKind,
    path::Path,
    sync::Arc,
    time::Duration,
};

const PATH: &str = "/db/one.trace";

fn open(fs: Arc<dyn Fs>) -> Db {
    let options = Options::new().fs(fs).background_threads(0).memory(16 << 20).seed(1);
    options.open("/db").unwrap()
}

/// The operations of a trace as text, with names for keyspaces.
fn traced(fs: &dyn Fs, path: &str) -> (Vec<String>, Ending) {
    let mut names = HashMap::new();
    let mut lines = Vec::new();
    let mut last_us = 0;
    let ending = read(fs, Path::new(path), |traced| {
        assert!(traced.unix_us >= last_us);
        last_us = traced.unix_us;
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        let name = traced.operation.keyspace().and_then(|id| names.get(&id).cloned()).unwrap_or_default();
        lines.push(match traced.operation {
            Operation::Keyspace { keyspace, name } => {
                names.insert(keyspace, name.to_owned());
                return Ok(());
            }
            Operation::Lookup { key, found, .. } => format!("{name} lookup {} {found}", text(key)),
            Operation::Scan { key, entries, backward, .. } => {
                format!("{name} {} {:?} {entries}", if backward { "down" } else { "up" }, text(key))
            }
            Operation::Put { key, value_len, expires, .. } => {
                format!("{name} put {} {value_len}{}", text(key), if expires { " expires" } else { "" })
            }
            Operation::Delete { key, .. } => format!("{name} delete {}", text(key)),
            Operation::DeleteRange { start, end, .. } => {
                format!("{name} range {} {}", text(start), text(end))
            }
            Operation::Merge { key, operand_len, .. } => format!("{name} merge {} {operand_len}", text(key)),
            Operation::Batch { writes } => format!("batch {writes}"),
            Operation::Dropped { operations } => format!("dropped {operations}"),
            Operation::DropKeyspace { .. } => format!("{name} dropped"),
            other => panic!("{other:?}"),
        });
        Ok(())
    });
    (lines, ending.unwrap())
}

#[test]
fn every_operation_is_in_a_recording_by_whatever_way_it_was_done() {
    let fs = Arc::new(MemFs::new());
    let db = open(fs.clone());
    db.put(b"before", b"1").unwrap();
    let recording = db.control().trace(Path::new(PATH), TraceOptions::new()).unwrap();
    let other = db
        .keyspace_with("other", KeyspaceOptions::new().merge_operator(operator::builtin("append").unwrap()))
        .unwrap();
    db.put(b"a", b"12345").unwrap();
    db.put_with_ttl(b"b", b"123", Duration::from_secs(1000)).unwrap();
    assert!(db.get(b"a").unwrap().is_some());
    assert!(!db.contains_key(b"c").unwrap());
    assert!(db.get_into(b"b", &mut Vec::new()).unwrap());
    other.merge(b"m", b"op").unwrap();
    assert!(other.get(b"m").unwrap().is_some());
    assert_eq!(db.multi_get(&[b"b", b"x"]).unwrap().iter().flatten().count(), 1);
    db.delete(b"a").unwrap();
    db.delete_range(b"p"..b"q").unwrap();
    db.delete_range(b"q"..b"p").unwrap();
    // A batch over two keyspaces, one with a single write, one with none, one that is refused.
    let mut batch = db.batch();
    batch.put(db.default(), b"d", b"").unwrap();
    batch.put_with_ttl(&other, b"e", b"12", Duration::from_secs(1000)).unwrap();
    batch.delete(db.default(), b"d").unwrap();
    batch.merge(&other, b"m", b"more").unwrap();
    batch.delete_range(&other, b"x"..b"y").unwrap();
    db.write(batch).unwrap();
    let mut batch = db.batch();
    batch.put(&other, b"alone", b"1").unwrap();
    db.write(batch).unwrap();
    db.write(db.batch()).unwrap();
    assert!(db.merge(b"k", b"no operator").is_err());
    // Iterators: both ends of one, placed anew, never moved, over nothing.
    for key in [b"k1", b"k2", b"k3", b"k4"] {
        other.put(key, b"v").unwrap();
    }
    let mut iter = other.range(b"k1".as_slice()..=b"k4");
    iter.next().unwrap().unwrap();
    iter.next_back().unwrap().unwrap();
    iter.next_back().unwrap().unwrap();
    iter.seek(b"k2").unwrap();
    iter.next().unwrap().unwrap();
    assert!(iter.next().is_none());
    drop(iter);
    drop(other.iter());
    assert!(other.range(b"z".as_slice()..b"a".as_slice()).next().is_none());
    assert_eq!(other.prefix(b"k").keys().count(), 4);
    assert_eq!(other.iter().rev().take(2).count(), 2);
    assert_eq!(other.range(..b"k3".as_slice()).rev().count(), 4);
    // A snapshot and transactions.
    let snapshot = db.snapshot();
    assert!(snapshot.get(&other, b"k1").unwrap().is_some());
    let mut transaction = db.transaction();
    assert!(transaction.get(&other, b"k1").unwrap().is_some());
    transaction.put(&other, b"t", b"12").unwrap();
    assert!(transaction.get(&other, b"t").unwrap().is_some(), "its own, which nobody looks for");
    assert!(transaction.get(&other, b"u").unwrap().is_none());
    transaction.delete(&other, b"k1").unwrap();
    assert_eq!(transaction.prefix(&other, b"k").count(), 3);
    transaction.commit().unwrap();
    let mut lost = db.transaction();
    assert!(lost.get(&other, b"k2").unwrap().is_some());
    other.put(b"k2", b"changed").unwrap();
    lost.put(&other, b"k3", b"never").unwrap();
    assert!(matches!(lost.commit(), Err(Error::Conflict)));
    db.drop_keyspace("other").unwrap();
    let anew = db.keyspace("other").unwrap();
    anew.put(b"k", b"1").unwrap();
    let recorded = recording.finish().unwrap();
    db.put(b"after", b"1").unwrap();

    let (lines, ending) = traced(&*fs, PATH);
    let expected = "\
        default put a 5|default put b 3 expires|default lookup a true|default lookup c false|default lookup b true|\
        other merge m 2|other lookup m true|default lookup b true|default lookup x false|\
        default delete a|default range p q|\
        batch 5|default put d 0|other put e 2 expires|default delete d|other merge m 4|other range x y|\
        other put alone 1|other put k1 1|other put k2 1|other put k3 1|other put k4 1|\
        other up \"k1\" 1|other up \"k2\" 1|other down \"k4\\0\" 2|other up \"k\" 4|other down \"\" 2|other down \"k3\" 4|\
        other lookup k1 true|other lookup k1 true|other lookup u false|other up \"k\" 3|\
        batch 2|other put t 2|other delete k1|\
        other lookup k2 true|other put k2 7|other dropped|other put k 1";
    assert_eq!(lines.join("|").replace("|", "\n"), expected.replace("|", "\n"));
    assert_eq!(recorded.operations as usize, lines.len() - 2, "brackets do not count");
    assert_eq!((recorded.dropped, recorded.bytes), (0, ending.bytes));
    assert!(recorded.failure.is_none() && ending.ended && ending.cut_bytes == 0);
}

#[test]
fn recordings_begin_anew_one_at_a_time_and_replace_nothing() {
    let fs = Arc::new(MemFs::new());
    let db = open(fs.clone());
    let control = db.control();
    let trace = |path: &str| control.trace(Path::new(path), TraceOptions::new());
    let first = trace(PATH).unwrap();
    assert!(trace("/db/two.trace").unwrap_err().to_string().contains("recorded already"));
    assert!(!fs.exists(Path::new("/db/two.trace")).unwrap());
    drop(first);
    assert_eq!(trace(PATH).unwrap_err().io_kind(), Some(ErrorKind::AlreadyExists));
    let error = control.trace(Path::new("/db/two.trace"), TraceOptions::new().memory(1000)).unwrap_err();
    assert!(matches!(error, Error::Invalid(_)));
    let second = trace("/db/two.trace").unwrap();
    db.put(b"k", b"v").unwrap();
    assert_eq!(second.path(), Path::new("/db/two.trace"));
    drop(second);
    db.put(b"k", b"v").unwrap();
    assert_eq!(traced(&*fs, PATH).0.len(), 0);
    assert_eq!(traced(&*fs, "/db/two.trace").0, ["default put k 1"]);
}

#[test]
fn no_operation_of_many_threads_is_missing() {
    let fs = Arc::new(MemFs::new());
    let db = open(fs.clone());
    // Some threads have counted before the recording begins, others have not.
    let work = |thread: u32| {
        let db = db.clone();
        move || {
            let own = db.keyspace(&format!("of {}", thread % 3)).unwrap();
            for n in 0..2000u32 {
                let key = format!("{thread}-{n}");
                own.put(key.as_bytes(), b"v").unwrap();
                assert!(own.get(key.as_bytes()).unwrap().is_some());
                assert_eq!(own.range(key.as_bytes()..).take(1).count(), 1);
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| _ = scope.spawn(work(thread))));
    let recording = db.control().trace(Path::new(PATH), TraceOptions::new().memory(64 << 20)).unwrap();
    std::thread::scope(|scope| (0..8).for_each(|thread| _ = scope.spawn(work(thread))));
    let recorded = recording.finish().unwrap();
    assert_eq!((recorded.operations, recorded.dropped), (8 * 6000, 0));
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut last: HashMap<String, u32> = HashMap::new();
    for line in traced(&*fs, PATH).0 {
        let words: Vec<_> = line.split(' ').collect();
        *counts.entry(words[2].to_owned()).or_default() += 1;
        if words[2] == "put" {
            // Each thread's own order is kept.
            let (thread, n) = words[3].split_once('-').unwrap();
            let n = n.parse().unwrap();
            assert!(last.insert(thread.to_owned(), n).is_none_or(|before| before < n));
        }
    }
    let expected = ["lookup", "put", "up"].map(|kind| (kind.to_owned(), 16_000));
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_recording_that_begins_amid_operations_has_all_from_then_on() {
    let fs = Arc::new(MemFs::new());
    let db = open(fs.clone());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (db, stop) = (db.clone(), &stop);
            scope.spawn(move || {
                let mut n = 0u64;
                while !stop.load(relaxed) {
                    n += 1;
                    db.put(format!("{thread}-{n}").as_bytes(), b"").unwrap();
                }
            });
        }
        // Also where this fails: the writers would go on for ever.
        let _stops = OnDrop(|| stop.store(true, relaxed));
        for round in 0..40 {
            let path = format!("/db/{round}.trace");
            // Room for what is written while a busy machine lets the recorder wait.
            let options = TraceOptions::new().memory(64 << 20);
            let recording = db.control().trace(Path::new(&path), options).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            assert_eq!(recording.finish().unwrap().dropped, 0);
            let mut last: HashMap<String, u64> = HashMap::new();
            for line in traced(&*fs, &path).0 {
                let (thread, n) = line.split(' ').nth(2).unwrap().split_once('-').unwrap();
                let n: u64 = n.parse().unwrap();
                let before = last.insert(thread.to_owned(), n);
                assert!(before.is_none_or(|before| before + 1 == n), "thread {thread}: {before:?}, then {n}");
            }
        }
    });
}

/// Does something when it goes.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_disk_that_fails_the_trace_fails_nobody_else() {
    for effect in [Effect::Fail(ErrorKind::StorageFull), Effect::Short] {
        let below = Arc::new(MemFs::new());
        let fs = Arc::new(FaultFs::new(below.clone()));
        let db = open(fs.clone());
        let recording = db.control().trace(Path::new(PATH), TraceOptions::new()).unwrap();
        db.put(b"first", b"1").unwrap();
        while recording.recorded().operations == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        fs.inject(Fault::sticky(Call::Append, 0, effect).on("one.trace"));
        for n in 0..1000u32 {
            db.put(n.to_be_bytes(), b"v").unwrap();
            assert!(db.get(n.to_be_bytes()).unwrap().is_some());
        }
        while recording.recorded().dropped < 2000 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let failure = recording.recorded().failure.unwrap().to_string();
        assert!(failure.contains("one.trace"), "{failure}");
        // There is room again: the trace goes on and says what is missing.
        fs.heal();
        db.put(b"last", b"1").unwrap();
        let recorded = recording.finish().unwrap();
        assert_eq!((recorded.operations, recorded.dropped), (2, 2000));
        assert_eq!(traced(&*below, PATH).0, ["default put first 1", "dropped 2000", "default put last 1"]);
    }
}

#[test]
fn a_trace_that_cannot_be_ended_says_so() {
    let fs = Arc::new(FaultFs::new(Arc::new(MemFs::new())));
    let db = open(fs.clone());
    let recording = db.control().trace(Path::new(PATH), TraceOptions::new()).unwrap();
    db.put(b"k", b"1").unwrap();
    fs.inject(Fault::sticky(Call::Sync, 0, Effect::Fail(ErrorKind::Other)).on("one.trace"));
    assert!(recording.finish().unwrap_err().to_string().contains("one.trace"));
    db.put(b"k", b"2").unwrap();
    // What cannot be created begins no recording, and the next one may.
    fs.heal();
    fs.inject(Fault::sticky(Call::Create, 0, Effect::Fail(ErrorKind::StorageFull)).on("two.trace"));
    let two = Path::new("/db/two.trace");
    assert!(db.control().trace(two, TraceOptions::new()).is_err());
    fs.heal();
    assert!(db.control().trace(two, TraceOptions::new()).is_ok());
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16),
    Get(u8),
    MultiGet(Vec<u8>),
    Delete(u8),
    DeleteRange(u8, u8),
    Batch(Vec<(u8, u16)>),
    Transaction(u8, u8, u16),
    Scan(u8, u8, bool),
    Flush,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u8>(), 0..300u16).prop_map(|(key, len)| Step::Put(key, len)),
        4 => any::<u8>().prop_map(Step::Get),
        1 => prop::collection::vec(any::<u8>(), 0..5).prop_map(Step::MultiGet),
        2 => any::<u8>().prop_map(Step::Delete),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(start, end)| Step::DeleteRange(start, end)),
        1 => prop::collection::vec((any::<u8>(), 0..300u16), 0..5).prop_map(Step::Batch),
        1 => (any::<u8>(), any::<u8>(), 0..300u16).prop_map(|(read, write, len)| Step::Transaction(read, write, len)),
        2 => (any::<u8>(), 0..9u8, any::<bool>()).prop_map(|(from, steps, back)| Step::Scan(from, steps, back)),
        1 => Just(Step::Flush),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_recording_of_a_random_life_is_what_was_done(steps in prop::collection::vec((any::<bool>(), step()), 0..60)) {
        let fs = Arc::new(MemFs::new());
        let db = open(fs.clone());
        let spaces = [db.default().clone(), db.keyspace("b").unwrap()];
        let recording = db.control().trace(Path::new(PATH), TraceOptions::new()).unwrap();
        let mut expected = Vec::new();
        let key = |n: u8| format!("k{n:03}").into_bytes();
        for (second, step) in &steps {
            let space = &spaces[usize::from(*second)];
            let name = space.name();
            let mut told = |line: String| expected.push(line);
            match *step {
                Step::Put(n, len) => {
                    space.put(key(n), vec![1; len.into()]).unwrap();
                    told(format!("{name} put k{n:03} {len}"));
                }
                Step::Get(n) => {
                    let found = space.get(key(n)).unwrap().is_some();
                    told(format!("{name} lookup k{n:03} {found}"));
                }
                Step::MultiGet(ref keys) => {
                    let wanted: Vec<_> = keys.iter().map(|&n| key(n)).collect();
                    for (n, value) in keys.iter().zip(space.multi_get(&wanted).unwrap()) {
                        told(format!("{name} lookup k{n:03} {}", value.is_some()));
                    }
                }
                Step::Delete(n) => {
                    space.delete(key(n)).unwrap();
                    told(format!("{name} delete k{n:03}"));
                }
                Step::DeleteRange(start, end) => {
                    space.delete_range(key(start)..key(end)).unwrap();
                    if start < end {
                        told(format!("{name} range k{start:03} k{end:03}"));
                    }
                }
                Step::Batch(ref puts) => {
                    let mut batch = db.batch();
                    if puts.len() > 1 {
                        told(format!("batch {}", puts.len()));
                    }
                    for &(n, len) in puts {
                        batch.put(space, key(n), vec![1; len.into()]).unwrap();
                        told(format!("{name} put k{n:03} {len}"));
                    }
                    db.write(batch).unwrap();
                }
                Step::Transaction(read, write, len) => {
                    let mut transaction = db.transaction();
                    let found = transaction.contains_key(space, key(read)).unwrap();
                    told(format!("{name} lookup k{read:03} {found}"));
                    transaction.put(space, key(write), vec![1; len.into()]).unwrap();
                    transaction.commit().unwrap();
                    told(format!("{name} put k{write:03} {len}"));
                }
                Step::Scan(from, steps, back) => {
                    let steps = usize::from(steps);
                    let entries = match back {
                        false => space.range(key(from)..).take(steps).count(),
                        true => space.range(..key(from)).rev().take(steps).count(),
                    };
                    // One that is not moved is not placed.
                    if steps > 0 {
                        told(format!("{name} {} \"k{from:03}\" {entries}", if back { "down" } else { "up" }));
                    }
                }
                Step::Flush => db.flush().unwrap(),
            }
        }
        let recorded = recording.finish().unwrap();
        let (lines, _) = traced(&*fs, PATH);
        prop_assert_eq!(&lines, &expected);
        let brackets = expected.iter().filter(|line| line.starts_with("batch")).count();
        prop_assert_eq!(recorded.operations as usize, expected.len() - brackets);
    }
}
