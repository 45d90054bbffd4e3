//! Tests of iterators that take over the walkers of others: in turns with all that changes a tree,
//! and from several threads.
//!
//! An iterator that ends leaves its walker to the next one of its thread (docs/decisions/0025).
//! What must hold: an iterator that takes it sees what a new walker would. No walker that rests
//! keeps a table's file from being removed. Door: `Db`.

use solera::{Db, Options, Slice};
use std::{collections::BTreeMap, path::Path};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn open(dir: &Path) -> Db {
    Options::new().memory(64 << 20).write_buffer(64 << 10).background_threads(0).open(dir).unwrap()
}

fn key(n: u64) -> Vec<u8> {
    format!("key {n:05}").into_bytes()
}

/// Walks some entries from the back of a random range alone, beside the model.
fn walk_back(db: &Db, model: &Model, random: &mut Random) {
    let end = key(random.below(3000));
    let (mut iter, expected) = match random.below(3) {
        0 => (db.iter(), model.range(..=end.clone())),
        1 => (db.range(..end.clone()), model.range(..end.clone())),
        _ => (db.range(..=end.clone()), model.range(..=end.clone())),
    };
    if random.below(2) == 0 {
        // Placed first where the range ends.
        let _ = iter.next_back();
    }
    iter.seek_back(&end).unwrap();
    let seen = iter.rev().take(20).map(Result::unwrap);
    let right = expected.rev().take(20);
    assert!(seen.eq(right.map(|(key, value)| (Slice::from(&key[..]), Slice::from(&value[..])))));
}

/// Walks some entries of a random range, from either end or a place in it, beside the model.
fn walk(db: &Db, model: &Model, random: &mut Random) {
    let (start, steps) = (key(random.below(3000)), random.below(60));
    let mut iter = match random.below(3) {
        0 => db.iter(),
        1 => db.range(start.clone()..),
        _ => db.range(start.clone()..key(3001)),
    };
    if random.below(2) == 0 {
        // Placed first where it begins.
        let _ = iter.next();
    }
    iter.seek(&start).unwrap();
    let mut expected = model.range(start..);
    for _ in 0..steps {
        let next = iter.next().map(Result::unwrap);
        let right = expected.next();
        assert_eq!(
            next.as_ref().map(|(key, value)| (&**key, &**value)),
            right.map(|(k, v)| (&k[..], &v[..]))
        );
        if right.is_none() {
            return;
        }
    }
    // From the back, down to where the front stands.
    let mut back = expected.rev();
    for _ in 0..random.below(20) {
        let last = iter.next_back().map(Result::unwrap);
        let right = back.next();
        assert_eq!(
            last.as_ref().map(|(key, value)| (&**key, &**value)),
            right.map(|(k, v)| (&k[..], &v[..]))
        );
        if right.is_none() {
            return;
        }
    }
}

#[test]
fn iterators_in_turns_with_all_that_changes_a_tree_see_each_their_moment() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (mut model, mut random) = (Model::new(), Random(1));
    let mut held = None;
    for step in 0..6000u64 {
        match random.below(100) {
            0..50 => {
                let (key, value) =
                    (key(random.below(3000)), vec![step as u8; 40 + random.below(60) as usize]);
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            50..58 => {
                let key = key(random.below(3000));
                db.delete(&key).unwrap();
                model.remove(&key);
            }
            58 if step % 7 == 0 => {
                let from = random.below(3000);
                let (start, end) = (key(from), key(from + random.below(100)));
                db.delete_range(start.clone()..end.clone()).unwrap();
                model.retain(|key, _| *key < start || *key >= end);
            }
            59 => db.flush().unwrap(),
            60..62 => drop(db.step().unwrap()),
            62 => held = Some((db.snapshot(), model.clone())),
            63 if step % 5 == 0 => held = None,
            64..68 => {
                if let Some((snapshot, then)) = &held {
                    let seen = snapshot.range(db.default(), key(1000)..).take(30).map(Result::unwrap);
                    let right = then.range(key(1000)..).take(30);
                    assert!(
                        seen.eq(right.map(|(key, value)| (Slice::from(&key[..]), Slice::from(&value[..]))))
                    );
                }
            }
            68..70 => {
                let mut transaction = db.transaction();
                let own = (key(random.below(3000)), b"own".to_vec());
                transaction.put(db.default(), &own.0, &own.1).unwrap();
                let mut with_own = model.clone();
                with_own.insert(own.0.clone(), own.1);
                let seen = transaction.range(db.default(), own.0.clone()..).take(20).map(Result::unwrap);
                let right = with_own.range(own.0..).take(20);
                assert!(seen.eq(right.map(|(key, value)| (Slice::from(&key[..]), Slice::from(&value[..])))));
            }
            70..80 => walk_back(&db, &model, &mut random),
            _ => walk(&db, &model, &mut random),
        }
    }
}

/// How many files of tables are in the directory.
fn table_files(dir: &Path) -> usize {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".table")).count()
}

#[test]
fn a_walker_that_rests_keeps_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for round in 0..5u8 {
        (0..3000).for_each(|n| db.put(key(n), [round; 100]).unwrap());
        db.flush().unwrap();
        assert_eq!(db.iter().count(), 3000);
        db.compact_range(..).unwrap();
        while db.step().unwrap() {}
        let levels = &db.stats().keyspaces[0].levels;
        let tables: u64 = levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum();
        assert_eq!(table_files(dir.path()) as u64, tables, "round {round}");
        assert!(tables > 0);
    }
}

#[test]
fn walkers_of_several_threads_see_whole_batches_while_tables_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory(64 << 20).write_buffer(64 << 10).background_threads(1);
    let db = options.open(dir.path()).unwrap();
    let write = |db: &Db, round: u32| {
        let mut batch = db.batch();
        (0..40).for_each(|n| batch.put(db.default(), key(n * 7), round.to_le_bytes()).unwrap());
        db.write(batch).unwrap();
    };
    write(&db, 0);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let db = &db;
            scope.spawn(move || {
                let (mut random, mut newest) = (Random(thread + 1), 0);
                for _ in 0..3000 {
                    let from = random.below(20);
                    let seen = db.range(key(from * 7)..=key(39 * 7)).map(|pair| pair.unwrap().1);
                    let rounds: Vec<Vec<u8>> = seen.map(Vec::from).collect();
                    assert_eq!(rounds.len() as u64, 40 - from);
                    assert!(rounds.iter().all(|round| *round == rounds[0]), "a batch is seen whole");
                    let round = u32::from_le_bytes(rounds[0][..].try_into().unwrap());
                    assert!(round >= newest, "moments do not go back");
                    newest = round;
                }
            });
        }
        for round in 1..3000 {
            write(&db, round);
            // What fills the write buffer, so that the view changes.
            db.put(key(100_000 + u64::from(round)), [7; 500]).unwrap();
        }
    });
}

/// Symptom: the first entry of a queue on disk took three times as long as one of a queue without a
/// history. Cause: each walk looked into every run, also where all keys of it lie behind those that
/// the walk comes to. Cure: of such a run its first key is known, and that is enough until it is
/// its turn.
#[test]
fn a_walk_looks_only_into_the_runs_that_it_comes_to() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for run in 0..20u64 {
        (0..100).for_each(|n| db.put(key(run * 100 + n), b"value").unwrap());
        db.flush().unwrap();
    }
    let runs: usize = db.default().stats().levels.iter().map(|level| level.runs.len()).sum();
    assert!(runs > 10, "{runs} runs");
    let looked = |walk: &dyn Fn()| {
        let blocks = || {
            let counters = db.default().stats().counters;
            counters.blocks_read + counters.blocks_hit
        };
        let before = blocks();
        walk();
        blocks() - before
    };
    for _ in 0..2 {
        assert!(looked(&|| assert_eq!(*db.iter().next().unwrap().unwrap().0, key(0)[..])) <= 2);
        assert!(looked(&|| assert_eq!(*db.iter().next_back().unwrap().unwrap().0, key(1999)[..])) <= 2);
        let middle = || assert_eq!(*db.range(key(950)..).next().unwrap().unwrap().0, key(950)[..]);
        assert!(looked(&middle) <= 2);
        let middle = || assert_eq!(*db.range(..key(950)).next_back().unwrap().unwrap().0, key(949)[..]);
        assert!(looked(&middle) <= 2);
        // Over the border of two runs, where one is left and the next begins.
        let across = || {
            let seen: Vec<_> = db.range(key(990)..).take(20).map(|entry| entry.unwrap().0.to_vec()).collect();
            assert_eq!(seen, (990..1010).map(key).collect::<Vec<_>>());
        };
        assert!(looked(&across) <= 4);
    }
    assert_eq!(db.iter().count(), 2000);
    assert_eq!(db.iter().rev().count(), 2000);
}
