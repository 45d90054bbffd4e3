//! Tests of the engine through its public API (`Db`, `Options`): each test is one promise of the
//! documentation.
//!
//! What is put is got, through flushes, compactions, crashes and reopenings. Batches are whole at
//! every crash point, snapshots see their moment, and transactions conflict exactly when they must.
//! Ingests, checkpoints, read-only databases, limits, and dropped keyspaces behave as told.
//! Regression tests name symptom, cause and cure: manifests written anew, expired keys, files of
//! other programs, waits of level 0.

use solera::{
    Batch, Db, Durability, Error, IndexKind, KeyspaceOptions, ManualClock, Options, Shape, Slice,
    control::{Change, knob},
    operator::{Append, Counter},
    vfs::{
        Fs,
        fault::{Call, Effect, Fault, FaultFs},
        mem::{MemFs, Persist},
        posix::PosixFs,
    },
};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

const DIR: &str = "/db";

fn small() -> Options {
    let shape = Shape { table_bytes: 16 << 10, ..Shape::default() };
    Options::new().memory(4 << 20).write_buffer(16 << 10).shape(shape).background_threads(0).seed(1)
}

fn open(fs: &Arc<MemFs>) -> Db {
    small().fs(fs.clone()).open(DIR).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

fn all(iter: impl Iterator<Item = solera::Result<(Slice, Slice)>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

#[test]
fn what_is_put_is_got_through_flushes_compactions_and_reopens() {
    let fs = Arc::new(MemFs::new());
    live_through_flushes_compactions_and_reopens(|| open(&fs));
}

#[test]
fn direct_reads_give_the_same_answers_and_where_there_are_none_the_open_says_so() {
    let memory = MemFs::new();
    drop(open(&Arc::new(memory.clone())));
    let memory: Arc<dyn Fs> = Arc::new(memory);
    let refused = |options: Options, dir: &Path| match options.direct_reads(true).open(dir) {
        Err(Error::Invalid(what)) => what.contains("O_DIRECT") && what.contains(&*dir.to_string_lossy()),
        other => panic!("{other:?}"),
    };
    assert!(refused(small().fs(memory.clone()), Path::new(DIR)));
    // Symptom: a copy without the file LOCK opened, and failed at its first read of a table.
    memory.remove_file(&Path::new(DIR).join("LOCK")).unwrap();
    assert!(refused(small().fs(memory).read_only(true), Path::new(DIR)));

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("probe");
    drop(PosixFs::new().create(&file).unwrap());
    if PosixFs::new().open_direct(&file).is_err() {
        // A system or a file system without them.
        assert!(refused(small(), dir.path()));
        return;
    }
    let db = dir.path().join("db");
    // A cache of next to nothing, so that blocks are read again and again.
    live_through_flushes_compactions_and_reopens(|| {
        small().memory(1 << 20).direct_reads(true).open(&db).unwrap()
    });
}

fn live_through_flushes_compactions_and_reopens(open: impl Fn() -> Db) {
    let mut model = BTreeMap::new();
    let mut db = open();
    for round in 0..6u32 {
        for n in 0..2000u32 {
            let number = n.wrapping_mul(2_654_435_761) % 5000;
            if n % 7 == 3 {
                db.delete(key(number)).unwrap();
                model.remove(&key(number));
            } else {
                let value = format!("value {round} {n}").into_bytes();
                db.put(key(number), &value).unwrap();
                model.insert(key(number), value);
            }
        }
        match round % 3 {
            0 => while db.step().unwrap() {},
            1 => {
                db.close().unwrap();
                db = open();
            }
            _ => db.compact_range(..).unwrap(),
        }
        for number in 0..5000 {
            assert_eq!(db.get(key(number)).unwrap().map(|v| v.to_vec()), model.get(&key(number)).cloned());
        }
        let expected: Vec<_> = model.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(all(db.iter()), expected);
        let mut backwards = all(db.iter().rev());
        backwards.reverse();
        assert_eq!(backwards, expected);
    }
    let report = db.verify().unwrap();
    assert!(report.problems.is_empty() && report.tables > 0, "{report:?}");
}

#[test]
fn an_iterator_meets_itself_in_the_middle() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    for n in 0..100 {
        db.put(key(n), b"v").unwrap();
        if n == 50 {
            db.flush().unwrap();
        }
    }
    let mut iter = db.iter();
    let mut seen = Vec::new();
    for turn in 0.. {
        let next = if turn % 3 == 0 { iter.next_back() } else { iter.next() };
        match next {
            Some(entry) => seen.push(entry.unwrap().0.to_vec()),
            None => break,
        }
    }
    assert!(iter.next().is_none() && iter.next_back().is_none());
    seen.sort();
    assert_eq!(seen, (0..100).map(key).collect::<Vec<_>>());

    iter = db.range(&key(10)[..]..&key(20)[..]);
    iter.seek(key(15)).unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0, key(15));
    iter.seek_back(key(17)).unwrap();
    assert_eq!(iter.next_back().unwrap().unwrap().0, key(17));
    assert_eq!(iter.next_back().unwrap().unwrap().0, key(16));
    assert!(iter.next_back().is_none());
    iter.seek(key(5)).unwrap();
    assert_eq!(iter.next().unwrap().unwrap().0, key(10));
}

#[test]
fn a_batch_over_keyspaces_is_whole_after_every_crash_point() {
    let life = |fs: Arc<MemFs>| -> solera::Result<u32> {
        let db = small().fs(fs).open(DIR)?;
        let (a, b) = (db.keyspace("a")?, db.keyspace("b")?);
        let mut done = 0;
        for n in 0..60u32 {
            let mut batch: Batch = db.batch();
            batch.put(&a, key(n), [n as u8; 600])?;
            batch.put(&b, key(n), [n as u8; 600])?;
            batch.durability(if n % 5 == 0 { Durability::Sync } else { Durability::Buffered });
            db.write(batch)?;
            if n % 5 == 0 {
                done = n + 1;
            }
            if n % 16 == 15 {
                db.step()?;
            }
        }
        Ok(done)
    };
    let fs = Arc::new(MemFs::new());
    life(fs.clone()).unwrap();
    let operations = fs.operations();
    for point in (0..operations).step_by(7) {
        let fs = Arc::new(MemFs::new());
        fs.crash_after(point);
        let _ = life(fs.clone());
        for persist in [Persist::Nothing, Persist::Everything, Persist::RandomPages(4096)] {
            let image = Arc::new(fs.crash(persist, point));
            let db = match small().fs(image.clone()).open(DIR) {
                Ok(db) => db,
                Err(error) => panic!("point {point} {persist:?}: {error}"),
            };
            let (a, b) = (db.keyspace("a").unwrap(), db.keyspace("b").unwrap());
            let (in_a, in_b) = (all(a.iter()), all(b.iter()));
            assert_eq!(in_a, in_b, "half a batch at point {point} {persist:?}");
            let expected: Vec<_> = (0..in_a.len() as u32).map(key).collect();
            assert_eq!(in_a.into_iter().map(|(k, _)| k).collect::<Vec<_>>(), expected, "not a prefix");
        }
    }
}

#[test]
fn a_snapshot_sees_its_moment_whatever_happens_later() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    for n in 0..500 {
        db.put(key(n), b"old").unwrap();
    }
    let snapshot = db.snapshot();
    for n in 0..500 {
        db.put(key(n), b"new").unwrap();
    }
    db.delete_range(key(100)..key(200)).unwrap();
    db.compact_range(..).unwrap();
    let default = db.default();
    assert_eq!(snapshot.get(default, key(150)).unwrap().unwrap(), b"old");
    assert_eq!(snapshot.iter(default).count(), 500);
    assert_eq!(db.iter().count(), 400);
    drop(snapshot);
    db.compact_range(..).unwrap();
    assert_eq!(db.iter().count(), 400);
    assert_eq!(db.default().stats().entries, 400);
}

#[test]
fn operands_merge_and_entries_expire() {
    let fs = Arc::new(MemFs::new());
    let clock = Arc::new(ManualClock::at_unix_ms(1_000_000));
    let db = small().fs(fs).clock(clock.clone()).open(DIR).unwrap();
    let counters = db.keyspace_with("n", KeyspaceOptions::new().merge_operator(Arc::new(Counter))).unwrap();
    let words = db.keyspace_with("w", KeyspaceOptions::new().merge_operator(Arc::new(Append))).unwrap();
    for n in 0..50 {
        counters.merge(b"hits", Counter::encode(n)).unwrap();
        words.merge(b"line", [b'a' + (n % 26) as u8]).unwrap();
        if n % 20 == 10 {
            db.flush().unwrap();
        }
    }
    assert_eq!(Counter::decode(&counters.get(b"hits").unwrap().unwrap()), Some((0..50).sum()));
    assert_eq!(words.get(b"line").unwrap().unwrap().len(), 50);
    assert!(matches!(db.merge(b"k", b"v"), Err(Error::Invalid(_))));

    db.put_with_ttl(b"lease", b"held", Duration::from_secs(10)).unwrap();
    clock.advance(Duration::from_millis(9_999));
    assert_eq!(db.get(b"lease").unwrap().unwrap(), b"held");
    clock.advance(Duration::from_millis(1));
    assert_eq!(db.get(b"lease").unwrap(), None);
    assert_eq!(db.iter().count(), 0);
    clock.set_unix_ms(1_000_000);
    assert_eq!(db.get(b"lease").unwrap(), None, "what has expired does not come back");
}

#[test]
fn a_transaction_conflicts_exactly_when_what_it_read_was_written() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let default = db.default().clone();
    db.put(b"a", b"1").unwrap();

    let mut one = db.transaction();
    assert_eq!(one.get(&default, b"a").unwrap().unwrap(), b"1");
    one.put(&default, b"b", b"2").unwrap();
    assert_eq!(one.get(&default, b"b").unwrap().unwrap(), b"2");
    db.put(b"c", b"3").unwrap();
    one.commit().unwrap();

    let mut two = db.transaction();
    two.get(&default, b"a").unwrap();
    two.put(&default, b"d", b"4").unwrap();
    db.put(b"a", b"5").unwrap();
    db.flush().unwrap();
    let outcome = two.commit();
    assert!(matches!(outcome, Err(Error::Conflict)), "{outcome:?}");
    assert_eq!(db.get(b"d").unwrap(), None);

    let mut three = db.transaction();
    assert_eq!(three.range(&default, &b"x"[..]..).count(), 0);
    three.put(&default, b"seen", b"nothing").unwrap();
    db.put(b"y", b"phantom").unwrap();
    assert!(matches!(three.commit(), Err(Error::Conflict)));

    let mut four = db.transaction();
    four.delete_range(&default, b"a"..b"c").unwrap();
    four.put(&default, b"aa", b"kept").unwrap();
    let seen: Vec<_> = all(four.iter(&default)).into_iter().map(|(key, _)| key).collect();
    assert_eq!(seen, [&b"aa"[..], b"c", b"y"]);
    four.commit().unwrap();
    assert_eq!(all(db.iter()).len(), 3);
}

#[test]
fn an_ingest_is_newer_than_what_was_there_and_older_than_what_comes() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    for n in 0..300 {
        db.put(key(n), b"before").unwrap();
    }
    let report = db.ingest((100..2000).map(|n| (key(n), b"ingested"))).unwrap();
    assert_eq!(report.entries, 1900);
    db.put(key(150), b"after").unwrap();
    for wait in 0..2 {
        assert_eq!(db.get(key(99)).unwrap().unwrap(), b"before", "{wait}");
        assert_eq!(db.get(key(100)).unwrap().unwrap(), b"ingested");
        assert_eq!(db.get(key(150)).unwrap().unwrap(), b"after");
        db.compact_range(..).unwrap();
    }
    assert!(matches!(db.ingest([(b"b", b""), (b"a", b"")]), Err(Error::Invalid(_))));
    drop(db);
    assert_eq!(open(&fs).iter().count(), 2000);
}

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let other = db.keyspace("other").unwrap();
    for n in 0..1000 {
        db.put(key(n), b"first").unwrap();
        other.put(key(n), b"second").unwrap();
    }
    db.checkpoint("/copy").unwrap();
    db.delete_range(key(0)..key(900)).unwrap();
    db.compact_range(..).unwrap();
    let copy = small().fs(fs.clone()).open("/copy").unwrap();
    assert_eq!(copy.iter().count(), 1000);
    assert_eq!(copy.keyspace("other").unwrap().iter().count(), 1000);
    copy.put(b"mine", b"alone").unwrap();
    assert_eq!(db.get(b"mine").unwrap(), None);
    assert!(matches!(db.checkpoint("/copy"), Err(Error::Invalid(_))));
}

#[test]
fn limits_are_errors_and_leave_nothing_behind() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let long = vec![7; 65_536];
    assert!(matches!(db.put(&long, b""), Err(Error::TooLarge { what: "key", .. })));
    assert!(matches!(db.get(&long), Ok(None)));
    db.put(&long[..65_535], b"").unwrap();
    db.put(b"", b"").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get(&long[..65_535]).unwrap().unwrap(), b"");
    assert_eq!(db.get(b"").unwrap().unwrap(), b"");
    assert_eq!(db.iter().count(), 2);
}

#[test]
fn a_read_only_database_changes_nothing() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    db.put(b"a", b"1").unwrap();
    assert!(matches!(small().fs(fs.clone()).open(DIR), Err(Error::Locked { .. })));
    drop(db);
    let before = fs.operations();
    let db = small().fs(fs.clone()).read_only(true).open(DIR).unwrap();
    assert_eq!(db.get(b"a").unwrap().unwrap(), b"1");
    assert!(matches!(db.put(b"b", b"2"), Err(Error::ReadOnly)));
    assert!(matches!(db.keyspace("new"), Err(Error::NoKeyspace(_))));
    drop(db);
    assert_eq!(fs.operations(), before);
    let missing = small().fs(fs).read_only(true).open("/nowhere");
    assert!(matches!(missing, Err(Error::NotADatabase { .. })));
}

#[test]
fn a_dropped_keyspace_is_gone_and_its_name_is_free() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let old = db.keyspace("k").unwrap();
    old.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    old.put(b"b", b"2").unwrap();
    db.drop_keyspace("k").unwrap();
    assert!(matches!(old.get(b"a"), Err(Error::NoKeyspace(_))));
    let new = db.keyspace("k").unwrap();
    assert_eq!(new.iter().count(), 0);
    new.put(b"c", b"3").unwrap();
    drop((old, new, db));
    let db = open(&fs);
    assert_eq!(db.keyspaces(), ["default", "k"]);
    assert_eq!(all(db.keyspace("k").unwrap().iter()), [(b"c".to_vec(), b"3".to_vec())]);
    assert!(db.drop_keyspace("default").is_err());
}

/// Symptom: tables and values of a dropped keyspace stayed on the disk, and its memtables in
/// memory, as long as any handle of it lived (rocksdb#1541, #4280). Cause: the handle's tree went
/// on showing them, though every read of it fails. Cure: the tree gives them up, and only an
/// iterator that walks over them keeps them.
#[test]
fn a_dropped_keyspace_gives_its_space_back_though_handles_live() {
    for threads in [0, 1] {
        let fs = Arc::new(MemFs::new());
        let db = small().background_threads(threads).fs(fs.clone()).open(DIR).unwrap();
        let files = || {
            let names = fs.list_dir(Path::new(DIR)).unwrap();
            names.into_iter().filter(|name| name.ends_with(".table") || name.ends_with(".values")).count()
        };
        let kept = db.keyspace_with("k", KeyspaceOptions::new().separate_values_from(500)).unwrap();
        for n in 0..400 {
            kept.put(key(n), vec![n as u8; if n % 2 == 0 { 40 } else { 600 }]).unwrap();
        }
        kept.flush().unwrap();
        kept.ingest([(key(900), [9; 700])]).unwrap();
        kept.put(key(1000), "in memory").unwrap();
        let (snapshot, mut walk, batch) = (db.snapshot(), kept.iter(), db.batch());
        assert!(walk.next().unwrap().is_ok() && files() > 1);
        db.drop_keyspace("k").unwrap();
        db.wait_idle().unwrap();
        assert_eq!(walk.by_ref().map(Result::unwrap).count(), 401, "who walks over it still does");
        assert!(files() > 1);
        drop(walk);
        assert_eq!(files(), 0);
        assert!(matches!(kept.get(key(0)), Err(Error::NoKeyspace(_))));
        assert!(matches!(snapshot.get(&kept, key(0)), Err(Error::NoKeyspace(_))));
        assert!(matches!(kept.iter().next(), Some(Err(Error::NoKeyspace(_)))));
        assert!(matches!(kept.compact_range(..), Err(Error::NoKeyspace(_))));
        assert_eq!((kept.stats().entries, kept.approximate_len(), kept.disk_space()), (0, 0, 0));
        drop((kept, snapshot, batch));
    }
}

/// A keyspace that is being dropped is never taken for an empty one.
#[test]
fn who_reads_while_a_keyspace_is_dropped_finds_what_it_held_or_that_it_is_gone() {
    let db = small().background_threads(1).fs(Arc::new(MemFs::new())).open(DIR).unwrap();
    for round in 0..100 {
        let keyspace = db.keyspace("k").unwrap();
        keyspace.put("a", "1").unwrap();
        if round % 2 == 0 {
            keyspace.flush().unwrap();
        }
        let (begun, waits) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut reads = 0;
                loop {
                    let found = match reads % 3 {
                        0 => keyspace.get("a"),
                        1 => keyspace.multi_get(&["a"]).map(|mut found| found.remove(0)),
                        _ => keyspace.iter().next().transpose().map(|found| found.map(|(_, value)| value)),
                    };
                    match found {
                        Ok(found) => assert_eq!(found.expect("it held the key"), "1"),
                        Err(error) => return assert!(matches!(error, Error::NoKeyspace(_)), "{error}"),
                    }
                    reads += 1;
                    if reads == 10 {
                        begun.send(()).unwrap();
                    }
                }
            });
            waits.recv().unwrap();
            db.drop_keyspace("k").unwrap();
            reader.join().unwrap();
        });
    }
}

/// Symptom: to drop 10,000 keyspaces took as long as 10,000 syncs of the device. Cause: each was
/// made durable by itself, and there was no other way. Cure: many are dropped by one record.
#[test]
fn many_keyspaces_are_dropped_together_or_not_at_all_by_one_sync() {
    const KEYSPACES: usize = 40;
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let names: Vec<String> = (0..KEYSPACES).map(|number| format!("k{number:02}")).collect();
    let handles: Vec<_> = names.iter().map(|name| db.keyspace(name).unwrap()).collect();
    handles.iter().for_each(|handle| handle.put("a", "1").unwrap());
    db.flush().unwrap();
    let tables =
        || fs.list_dir(Path::new(DIR)).unwrap().iter().filter(|name| name.ends_with(".table")).count();
    assert_eq!(tables(), KEYSPACES);

    let with = |name: &str| [&names[..2], &[name.to_owned()]].concat();
    assert!(matches!(db.drop_keyspaces(&with("nowhere")), Err(Error::NoKeyspace(name)) if name == "nowhere"));
    assert!(matches!(db.drop_keyspaces(&with("default")), Err(Error::Invalid(_))));
    db.drop_keyspaces::<&str>(&[]).unwrap();
    assert_eq!(db.keyspaces().len(), KEYSPACES + 1, "none was dropped");

    fs.record_cuts(true);
    let before = fs.operations();
    // A name may come twice.
    db.drop_keyspaces(&[&names[1..], &names[1..3]].concat()).unwrap();
    let (operations, cuts) = (fs.operations() - before, fs.take_cuts());
    fs.record_cuts(false);
    assert_eq!(db.keyspaces(), ["default", "k00"]);
    assert!(handles[1..].iter().all(|handle| matches!(handle.get("a"), Err(Error::NoKeyspace(_)))));
    assert_eq!(handles[0].get("a").unwrap().unwrap(), "1");
    assert_eq!(tables(), 1);
    // The record, its sync and what vouches for it; and a removal for each table.
    let others = operations - (KEYSPACES as u64 - 1);
    assert!((1..10).contains(&others), "{others} operations beside the removals");
    for (at, cut) in cuts.iter().enumerate() {
        let found = open(&Arc::new(cut.crash(Persist::Nothing, at as u64))).keyspaces().len();
        assert!([2, KEYSPACES + 1].contains(&found), "{found} keyspaces after a cut at {at}");
    }
    let after = Arc::new(fs.crash(Persist::Nothing, 1));
    assert_eq!(open(&after).keyspaces(), ["default", "k00"]);
}

#[test]
fn threads_write_and_read_together_on_a_real_directory() {
    let dir = tempfile::tempdir().unwrap();
    for index in IndexKind::ALL {
        let layout = solera::Layout { index, ..Default::default() };
        let options = Options::new().memory(8 << 20).write_buffer(256 << 10).layout(layout);
        let db = options.open(dir.path().join(index.to_string())).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4u32 {
                let db = db.clone();
                scope.spawn(move || {
                    for n in 0..5000 {
                        let key = key(n * 4 + writer);
                        db.put(&key, [writer as u8; 100]).unwrap();
                        assert_eq!(db.get(&key).unwrap().unwrap().len(), 100);
                    }
                });
            }
            let db = db.clone();
            scope.spawn(move || {
                for _ in 0..20 {
                    let mut last = Vec::new();
                    for entry in db.iter() {
                        let key = entry.unwrap().0.to_vec();
                        assert!(key > last);
                        last = key;
                    }
                }
            });
        });
        db.wait_idle().unwrap();
        assert_eq!(db.iter().count(), 20_000);
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

#[test]
fn seeking_one_end_keeps_what_the_other_has_yielded_out() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    for n in 0..20 {
        db.put(key(n), b"v").unwrap();
    }
    let mut iter = db.iter();
    assert_eq!(iter.next_back().unwrap().unwrap().0, key(19));
    assert_eq!(iter.next_back().unwrap().unwrap().0, key(18));
    iter.seek(key(16)).unwrap();
    let rest: Vec<_> = iter.by_ref().map(|entry| entry.unwrap().0.to_vec()).collect();
    assert_eq!(rest, [key(16), key(17)]);
    assert!(iter.next_back().is_none());
    iter.seek_back(key(15)).unwrap();
    assert!(iter.next_back().is_none(), "the front has been there");
    iter.seek(key(3)).unwrap();
    assert_eq!(iter.next_back().unwrap().unwrap().0, key(15));
    assert_eq!(iter.next().unwrap().unwrap().0, key(3));
}

/// Symptom: after the manifest had been written anew, a reopen missed the keyspace just created and
/// lost synced writes. Cause: it was written after the edit that made it too large, from a state
/// without that edit, and named only the log in use. Cure: it is written before an edit, and names
/// every log.
#[test]
fn nothing_is_forgotten_when_the_manifest_is_written_anew() {
    let fs = Arc::new(MemFs::new());
    let db = small().memory(64 << 20).fs(fs.clone()).open(DIR).unwrap();
    for n in 0..100 {
        // Fills several logs while the memtable of `kept` stays unflushed.
        db.keyspace("kept").unwrap().put(key(n), b"kept").unwrap();
        db.put(key(n), [n as u8; 2000]).unwrap();
    }
    let names: Vec<_> =
        (0..1200).map(|n| format!("keyspace {n} with a rather long name to fill the manifest")).collect();
    for (n, name) in names.iter().enumerate() {
        db.keyspace(name).unwrap().put(b"n", name.as_bytes()).unwrap();
        if n % 100 == 7 {
            db.flush().unwrap();
            db.put(key(n as u32), b"after").unwrap();
        }
    }
    db.sync().unwrap();
    let image = Arc::new(fs.crash(Persist::Nothing, 1));
    let db = small().memory(64 << 20).fs(image).open(DIR).unwrap();
    assert_eq!(db.keyspaces().len(), names.len() + 2);
    assert_eq!(db.keyspace("kept").unwrap().iter().count(), 100);
    for name in &names {
        assert_eq!(db.keyspace(name).unwrap().get(b"n").unwrap().unwrap(), name.as_bytes());
    }
    assert_eq!(db.get(key(1107)).unwrap().unwrap(), b"after");
}

/// Symptom: a transaction that had merged onto a key read others' later writes to it. Cause: below
/// its own operand, versions newer than its snapshot were folded as if they were seen. Cure: each
/// version on the way down to the base is asked whether the snapshot sees it.
#[test]
fn a_transaction_merges_onto_what_its_snapshot_sees() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let counters = db.keyspace_with("n", KeyspaceOptions::new().merge_operator(Arc::new(Counter))).unwrap();
    counters.merge(b"hits", Counter::encode(1)).unwrap();
    let mut transaction = db.transaction();
    counters.merge(b"hits", Counter::encode(10)).unwrap();
    counters.put(b"new", Counter::encode(10)).unwrap();
    transaction.merge(&counters, b"hits", Counter::encode(100)).unwrap();
    transaction.merge(&counters, b"new", Counter::encode(100)).unwrap();
    let read = |key: &[u8]| Counter::decode(&transaction.get(&counters, key).unwrap().unwrap()).unwrap();
    assert_eq!((read(b"hits"), read(b"new")), (101, 100));
    assert!(matches!(transaction.commit(), Err(Error::Conflict)));
}

/// Symptom: a table of long keys that Zstandard shortened 500 times could be written but not
/// opened. Cause: the bound on what its separators take assumed LZ4. Cure: the bound is that of the
/// table's compression.
#[cfg(feature = "zstd")]
#[test]
fn long_keys_that_compress_extremely_well_come_back() {
    let fs = Arc::new(MemFs::new());
    let options = || {
        let layout = solera::Layout { compression: solera::Compression::Zstd, ..Default::default() };
        Options::new().memory(64 << 20).layout(layout).background_threads(0).seed(1).fs(fs.clone())
    };
    let long = |n: u32| [vec![b'a'; 60_000], key(n)].concat();
    let db = options().open(DIR).unwrap();
    for n in 0..200 {
        db.put(long(n), b"").unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    let db = options().open(DIR).unwrap();
    assert_eq!(db.iter().count(), 200);
    assert_eq!(db.get(long(123)).unwrap().as_deref(), Some(&b""[..]));
}

/// Symptom: files of another program were deleted, in a directory of its that had lost its CURRENT.
/// Cause: names like `MANIFEST-000004` counted as ours, whatever they held. Cure: only what begins
/// like a file of ours, or with nothing, is removed.
#[test]
fn files_of_another_program_are_not_removed() {
    let fs = Arc::new(MemFs::new());
    fs.create_dir_all(Path::new(DIR)).unwrap();
    let foreign = ["MANIFEST-000004", "000007.table"].map(|name| Path::new(DIR).join(name));
    fs.set_content(&foreign[0], b"another format").unwrap();
    open(&fs).close().unwrap();
    fs.set_content(&foreign[1], b"another format").unwrap();
    let db = open(&fs);
    db.put(b"a", b"1").unwrap();
    db.close().unwrap();
    for file in &foreign {
        assert_eq!(fs.content(file).unwrap(), b"another format", "{}", file.display());
    }
}

#[test]
fn readers_share_a_database_and_a_writer_has_it_alone() {
    let fs = Arc::new(MemFs::new());
    open(&fs).put(b"a", b"1").unwrap();
    let read = || small().fs(fs.clone()).read_only(true).open(DIR);
    let (one, two) = (read().unwrap(), read().unwrap());
    assert_eq!(one.get(b"a").unwrap(), two.get(b"a").unwrap());
    let write = || small().fs(fs.clone()).open(DIR);
    assert!(matches!(write(), Err(Error::Locked { .. })));
    drop(one);
    assert!(matches!(write(), Err(Error::Locked { .. })));
    drop(two);
    let writer = write().unwrap();
    assert!(matches!(read(), Err(Error::Locked { .. })));
    drop(writer);
    read().unwrap();
}

/// Symptom: after a bulk load failed, the database did not open: "the table is missing; the
/// manifest names it" (faultloop, EIO at the manifest's sync). Cause: the load removed its tables
/// after any failure, also after one that leaves open whether the manifest names them. Cure: then
/// they stay, for recovery to judge.
#[test]
fn tables_of_a_bulk_load_stay_if_the_manifest_may_name_them() {
    let fs = Arc::new(MemFs::new());
    let faulty = FaultFs::new(fs.clone());
    let db = small().fs(Arc::new(faulty.clone())).open(DIR).unwrap();
    db.put(b"a", b"1").unwrap();
    db.sync().unwrap();
    faulty.inject(Fault::once(Call::Sync, 0, Effect::FailOs(5)).on("MANIFEST"));
    db.ingest([(b"b", b"2")]).unwrap_err();
    assert_eq!(faulty.hits(), 1);
    assert!(matches!(db.put(b"c", b"3"), Err(Error::Poisoned(_))));
    drop(db);
    let db = open(&fs);
    assert_eq!(db.get(b"a").unwrap().unwrap(), b"1");
    db.put(b"c", b"3").unwrap();
}

/// Symptom: none seen, found by reading: a sync reported success though the log with what was
/// written was not durable. Cause: the log had ended and the next could not be begun, so there was
/// none to be synced. Cure: a sync sees to those that have ended.
#[test]
fn a_sync_counts_where_one_log_has_ended_and_the_next_cannot_be_begun() {
    let fs = Arc::new(MemFs::new());
    let faulty = FaultFs::new(fs.clone());
    let db = small().fs(Arc::new(faulty.clone())).open(DIR).unwrap();
    let full = Effect::Fail(std::io::ErrorKind::StorageFull);
    faulty.inject(Fault { times: u64::MAX, ..Fault::once(Call::Create, 0, full).on(".log") });
    let written = (0..100).take_while(|&n| faulty.hits() == 0 && db.put(key(n), [7; 1000]).is_ok()).count();
    assert!(faulty.hits() > 0 && written > 0, "{written} writes, {} failures", faulty.hits());
    db.sync().unwrap();
    let db = open(&Arc::new(fs.crash(Persist::Nothing, 1)));
    assert_eq!(db.iter().count(), written);
}

/// Symptom: none seen, found by reading: after a failed sync, a reopening and a power cut the log
/// would have been too short for what the manifest says of it. Cause: recovery synced the file a
/// second time and took the success for a proof; some systems forget what they could not write and
/// report success. Cure: what no sync has proved durable is written again, to the new log.
#[test]
fn a_reopening_does_not_trust_a_second_sync_of_a_file_whose_sync_failed() {
    let fs = Arc::new(MemFs::new());
    let faulty = FaultFs::new(fs.clone());
    let open_faulty = || small().fs(Arc::new(faulty.clone())).open(DIR).unwrap();
    let db = open_faulty();
    db.put(b"proved", b"1").unwrap();
    db.sync().unwrap();
    for n in 0..200 {
        db.put(key(n), b"not synced").unwrap();
    }
    faulty.inject(Fault::once(Call::Sync, 0, Effect::FailOs(5)).on(".log"));
    assert!(matches!(db.sync(), Err(Error::Io { .. })));
    assert!(matches!(db.put(b"refused", b""), Err(Error::Poisoned(_))));
    assert_eq!(db.get(key(7)).unwrap().unwrap(), b"not synced", "reads go on");
    drop(db);
    // What the failed sync left in the system's memory is read, and is durable from here on.
    let db = open_faulty();
    assert_eq!(db.iter().count(), 201);
    drop(db);
    let image = Arc::new(fs.crash(Persist::Nothing, 0));
    let db = open(&image);
    assert_eq!(db.iter().count(), 201);
    assert_eq!(db.get(b"refused").unwrap(), None);
}

/// Symptom: a key that had expired was back after a reopening with the clock set back. Cause: the
/// time by which it was found expired was in memory, and on disk only with the next change of a
/// table. Cure: closing records it. (A killed process records nothing more.)
#[test]
fn what_has_expired_does_not_come_back_after_a_reopening() {
    let fs = Arc::new(MemFs::new());
    let clock = Arc::new(ManualClock::at_unix_ms(1_000_000));
    let open = || small().fs(fs.clone()).clock(clock.clone()).open(DIR).unwrap();
    let db = open();
    db.put_with_ttl(b"lease", b"held", Duration::from_secs(10)).unwrap();
    clock.advance(Duration::from_secs(11));
    assert_eq!(db.get(b"lease").unwrap(), None);
    db.close().unwrap();
    clock.set_unix_ms(1_000_000);
    assert_eq!(open().get(b"lease").unwrap(), None);
}

/// An ingest always became a run of level 0 and was never held back: 172 runs, where puts stop
/// at 20.
/// Symptom: the tables that an ingest had written stayed on disk. Cause: they were removed after
/// errors alone. Cure: they go with what holds them.
#[test]
fn entries_that_panic_in_an_ingest_leave_no_file_and_a_database_that_goes_on() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let files = || fs.list_dir(Path::new(DIR)).unwrap();
    let before = files();
    let entries = (0..5000u32).map(|n| {
        assert!(n < 4000, "the caller's own");
        (n.to_be_bytes(), [7; 100])
    });
    let ingest = std::panic::AssertUnwindSafe(|| db.ingest(entries));
    assert!(std::panic::catch_unwind(ingest).is_err());
    assert_eq!(files(), before);
    db.put(b"k", b"v").unwrap();
    db.ingest([(b"l", b"w")]).unwrap();
    assert_eq!(db.iter().count(), 2);
}

#[test]
fn ingests_do_not_outrun_compaction() {
    let db = open(&Arc::new(MemFs::new()));
    set_patience(&db, 0);
    for n in 0..400u64 {
        let entries = (0..20u64).map(|j| ((j * 1000 + n).to_be_bytes(), [n as u8; 50]));
        db.ingest(entries).unwrap();
        let runs = db.stats().keyspaces[0].levels[0].runs.len();
        assert!(runs <= 20, "{runs} runs in level 0 after {n} ingests");
    }
    assert_eq!(db.iter().count(), 20 * 400);
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn an_ingest_beside_what_is_there_goes_to_the_bottom() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    for part in 0..50u32 {
        db.ingest((0..100).map(|n| (key(part * 100 + n), [part as u8; 50]))).unwrap();
    }
    let levels = &db.stats().keyspaces[0].levels;
    assert!(levels[0].runs.is_empty() && levels[1].runs.len() == 1, "{levels:?}");
    assert!(!db.step().unwrap(), "nothing has to be merged");
    // Newer versions of the same keys go above them, and the next ones above these.
    for round in 0..3u8 {
        db.ingest((0..100).map(|n| (key(n * 7), [100 + round; 50]))).unwrap();
        assert_eq!(db.get(key(77)).unwrap().unwrap(), [100 + round; 50][..]);
    }
    db.compact_range(..).unwrap();
    assert_eq!(db.get(key(77)).unwrap().unwrap(), [102; 50][..]);
    assert_eq!(db.get(key(78)).unwrap().unwrap(), [0; 50][..]);
    assert_eq!(db.iter().count(), 5000);
}

/// What a compaction has taken and not yet installed is not in the way of an ingest, nor the ingest
/// in its.
#[test]
fn ingests_and_compactions_run_side_by_side() {
    let fs = Arc::new(MemFs::new());
    let db = small().background_threads(2).fs(fs.clone()).open(DIR).unwrap();
    let mut model = BTreeMap::new();
    for round in 0..60u32 {
        for n in 0..200u32 {
            let number = (n * 7919 + round * 104_729) % 20_000;
            db.put(key(number), [round as u8; 40]).unwrap();
            model.insert(key(number), [round as u8; 40]);
        }
        let start = round * 7907 % 20_000;
        let entries: BTreeMap<_, _> = (0..50).map(|n| (key(start + n), [200; 40])).collect();
        db.ingest(&entries).unwrap();
        model.extend(entries);
    }
    for threads in [2, 0] {
        let found = all(db.iter());
        assert!(found.iter().map(|(k, v)| (k, &v[..])).eq(model.iter().map(|(k, v)| (k, &v[..]))));
        assert!(threads == 0 || db.compact_range(..).is_ok());
    }
    assert!(db.verify().unwrap().problems.is_empty());
}

/// The operator given at a later open was ignored, and a keyspace could never gain one.
#[test]
fn a_keyspace_gains_a_merge_operator_once_and_keeps_its_name() {
    let fs = Arc::new(MemFs::new());
    let with = |fs: &Arc<MemFs>, operator: Arc<dyn solera::MergeOperator>| {
        small().fs(fs.clone()).merge_operator(operator).open(DIR)
    };
    let db = open(&fs);
    db.keyspace("other").unwrap();
    assert!(matches!(db.merge(b"k", b"a"), Err(Error::Invalid(_))));
    drop(db);
    let db = with(&fs, Arc::new(Append)).unwrap();
    db.merge(b"k", b"a").unwrap();
    let options = || KeyspaceOptions::new().merge_operator(Arc::new(Counter));
    let other = db.keyspace_with("other", options()).unwrap();
    other.merge(b"n", Counter::encode(1)).unwrap();
    assert!(matches!(db.keyspace_with("default", options()), Err(Error::Invalid(_))));
    drop((db, other));
    let refused = with(&fs, Arc::new(Counter)).unwrap_err();
    assert!(refused.to_string().contains("append"), "{refused}");
    let db = open(&fs);
    db.merge(b"k", b"b").unwrap();
    assert_eq!(db.get(b"k").unwrap().unwrap(), b"ab");
    let other = db.keyspace("other").unwrap();
    other.merge(b"n", Counter::encode(2)).unwrap();
    assert_eq!(other.get(b"n").unwrap().unwrap(), Counter::encode(3)[..]);
}

/// Writes a run of level 0 whose values do not compress: runs that are small are merged with each
/// other.
fn flush_a_run(db: &Db, run: u32) {
    for n in 0..100 {
        let word = |at: u8| solera::key::hash(&[n as u8, run as u8, at]).to_le_bytes();
        db.put(key(n * 100 + run), (0..8).flat_map(word).collect::<Vec<_>>()).unwrap();
    }
    db.flush().unwrap();
}

/// Does what is due.
fn work(db: &Db) {
    while db.step().unwrap() {}
}

fn level0_runs(db: &Db) -> usize {
    db.stats().keyspaces[0].levels[0].runs.len()
}

/// Has level 0 merged at so many runs though no reader comes.
fn set_patience(db: &Db, runs: u32) {
    db.control().apply(Change::new("test", "as the test says").set(&knob::LEVEL0_PATIENCE, runs)).unwrap();
}

/// Level 0 is merged when reads have paid for it, and when it has as many runs as its patience is
/// long.
#[test]
fn level_0_waits_with_its_merge_until_reads_have_paid_for_it() {
    let db = open(&Arc::new(MemFs::new()));
    set_patience(&db, 9);
    let flush_runs = |runs: std::ops::Range<u32>| {
        runs.for_each(|run| {
            flush_a_run(&db, run);
            work(&db);
        })
    };
    let read = |keys: u32| {
        (0..keys).for_each(|n| _ = db.get(key(n)).unwrap());
        work(&db);
    };
    // No reader comes: eight runs stay, the ninth takes all down.
    flush_runs(0..8);
    assert_eq!(level0_runs(&db), 8);
    flush_runs(8..9);
    assert_eq!(level0_runs(&db), 0);
    // Six runs and what they overlap are some hundred kilobytes: by the reckoning, the reads of a
    // few thousand keys are dearer than their merge.
    flush_runs(10..16);
    read(1);
    assert_eq!(level0_runs(&db), 6, "one read is no reason");
    read(10_000);
    assert_eq!(level0_runs(&db), 0, "these were");
    // Fewer runs than the limit too.
    flush_runs(20..23);
    read(1);
    assert_eq!(level0_runs(&db), 3);
    read(10_000);
    assert_eq!(level0_runs(&db), 0);
    // A small one alone is not worth a merge.
    flush_runs(23..24);
    read(10_000);
    assert_eq!(level0_runs(&db), 1);
    // What was paid for those that are gone is not paid for others.
    db.compact_range(..).unwrap();
    work(&db);
    flush_runs(30..36);
    assert_eq!(level0_runs(&db), 6);
    // Without patience the run limit alone counts.
    set_patience(&db, 0);
    work(&db);
    assert_eq!(level0_runs(&db), 0);
}

/// Reads gain nothing by a merge of one run that lies over no other; of several they do, small ones
/// too.
#[test]
fn a_run_alone_stays_and_small_runs_are_gathered() {
    let db = open(&Arc::new(MemFs::new()));
    let read = || {
        (0..10_000).for_each(|n| _ = db.get(key(n)).unwrap());
        work(&db);
    };
    flush_a_run(&db, 0);
    read();
    assert_eq!(level0_runs(&db), 1);
    db.put(key(0), b"small").unwrap();
    db.flush().unwrap();
    work(&db);
    assert_eq!(level0_runs(&db), 2, "nobody has read since");
    read();
    assert_eq!(level0_runs(&db), 1);
}

#[test]
fn reads_start_the_merge_that_they_have_paid_for_and_who_waits_for_idleness_any() {
    let dir = tempfile::tempdir().unwrap();
    let db = small().background_threads(2).open(dir.path()).unwrap();
    (0..6).for_each(|run| flush_a_run(&db, run));
    assert_eq!(level0_runs(&db), 6);
    let mut rounds = 0;
    while level0_runs(&db) > 0 {
        (0..10_000).for_each(|n| _ = db.get(key(n)).unwrap());
        rounds += 1;
        assert!(rounds < 10_000, "nobody merges");
    }
    (10..16).for_each(|run| flush_a_run(&db, run));
    assert_eq!(level0_runs(&db), 6);
    db.wait_idle().unwrap();
    assert_eq!(level0_runs(&db), 0);
}
