//! Tests of `Transaction`: what joins the read set, what is a conflict, which one waits for which.
//!
//! A transaction reads no other database. What an iterator passes over is read even if the iterator
//! is leaked, and so are many keys at once. Transactions that commit together are serializable, and
//! share one sync of the log.

use solera::{
    Db, Durability, Error, Options,
    vfs::{
        fault::{Call, FaultFs},
        mem::MemFs,
        posix::PosixFs,
    },
};
use std::sync::{
    Arc, Barrier,
    atomic::{AtomicU64, Ordering},
};

fn open(dir: &str) -> Db {
    Options::new().fs(Arc::new(MemFs::new())).background_threads(0).seed(1).open(dir).unwrap()
}

/// A read of another database's keyspace was answered, from a moment that means nothing there.
#[test]
fn a_transaction_reads_no_other_database() {
    let (a, b) = (open("/a"), open("/b"));
    b.put(b"key", b"of b").unwrap();
    (0..10).for_each(|_| a.put(b"z", b"z").unwrap());
    let mut transaction = a.transaction();
    assert!(matches!(transaction.get(b.default(), b"key"), Err(Error::Invalid(_))));
    transaction.put(a.default(), b"own", b"of a").unwrap();
    assert!(matches!(transaction.get(b.default(), b"own"), Err(Error::Invalid(_))));
    assert!(matches!(transaction.multi_get(b.default(), &[b"own"]), Err(Error::Invalid(_))));
    assert!(matches!(transaction.iter(b.default()).next(), Some(Err(Error::Invalid(_)))));
    assert!(matches!(transaction.put(b.default(), b"own", b""), Err(Error::Invalid(_))));
}

/// An iterator's reads were noted when it was dropped, so one that never was hid a phantom.
#[test]
fn what_an_iterator_passes_over_is_read_even_if_the_iterator_is_leaked() {
    let db = open("/db");
    let space = db.default();
    for mode in 0..6 {
        db.put(b"p1", b"").unwrap();
        db.put(b"p9", b"").unwrap();
        let mut transaction = db.transaction();
        let mut iter = transaction.range(space, b"p".to_vec()..b"q".to_vec());
        match mode {
            0 => assert_eq!(iter.by_ref().count(), 2),
            1 => assert_eq!(iter.by_ref().rev().count(), 2),
            2 => {
                iter.seek(b"p5").unwrap();
                assert_eq!(iter.next().unwrap().unwrap().0, b"p9");
            }
            3 => {
                iter.seek_back(b"p8").unwrap();
                assert_eq!(iter.next_back().unwrap().unwrap().0, b"p1");
            }
            4 => {
                let mut keys = iter.keys();
                assert_eq!(keys.next_back().unwrap().unwrap(), b"p9");
                assert_eq!(keys.next_back().unwrap().unwrap(), b"p1");
                std::mem::forget(keys);
                iter = transaction.range(space, b"x".to_vec()..b"y".to_vec());
            }
            _ => assert_eq!(iter.next().unwrap().unwrap().0, b"p1"),
        }
        std::mem::forget(iter);
        transaction.put(space, b"result", b"").unwrap();
        db.put(b"p7", b"").unwrap();
        let committed = transaction.commit();
        match mode {
            5 => drop(committed.expect("the iterator had not come so far")),
            _ => assert!(matches!(committed, Err(Error::Conflict)), "mode {mode}: {committed:?}"),
        }
        db.delete(b"p7").unwrap();
    }
}

#[test]
fn many_keys_are_read_at_once_and_into_a_buffer() {
    let db = open("/db");
    let space = db.default();
    db.put(b"a", b"1").unwrap();
    let mut transaction = db.transaction();
    transaction.put(space, b"b", b"2").unwrap();
    let values = transaction.multi_get(space, &[b"a", b"b", b"c"]).unwrap();
    assert_eq!(values[0].as_deref(), Some(&b"1"[..]));
    assert_eq!(values[1].as_deref(), Some(&b"2"[..]));
    assert!(values[2].is_none());
    let mut buffer = b"old".to_vec();
    assert!(!transaction.get_into(space, b"d", &mut buffer).unwrap() && buffer == b"old");
    assert!(transaction.get_into(space, b"a", &mut buffer).unwrap() && buffer == b"1");
    db.put(b"d", b"").unwrap();
    assert!(matches!(transaction.commit(), Err(Error::Conflict)), "d was read, absent");
}

/// Threads that each move what they read; whatever is committed together, nothing is lost or made.
#[test]
fn transactions_that_commit_together_are_serializable() {
    const ACCOUNTS: u64 = 6;
    const EACH: u64 = 100;
    let db = open("/db");
    let key = |n: u64| (n % ACCOUNTS).to_be_bytes();
    let amount = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    (0..ACCOUNTS).for_each(|n| db.put(key(n), EACH.to_be_bytes()).unwrap());
    let conflicts = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (db, conflicts) = (&db, &conflicts);
            scope.spawn(move || {
                let space = db.default();
                for turn in 0..500u64 {
                    loop {
                        let mut transaction = db.transaction();
                        // Some read everything, some two accounts.
                        if turn % 7 == 0 {
                            let total: u64 = transaction.iter(space).map(|e| amount(&e.unwrap().1)).sum();
                            assert_eq!(total, ACCOUNTS * EACH);
                        }
                        let (from, to) = (key(turn * (thread + 1)), key(turn * (thread + 3) + 1));
                        let read = |key: &[u8]| amount(&transaction.get(space, key).unwrap().unwrap());
                        let (has, gets) = (read(&from), read(&to));
                        if from == to || has == 0 {
                            break;
                        }
                        transaction.put(space, from, (has - 1).to_be_bytes()).unwrap();
                        transaction.put(space, to, (gets + 1).to_be_bytes()).unwrap();
                        match transaction.commit() {
                            Ok(_) => break,
                            Err(Error::Conflict) => drop(conflicts.fetch_add(1, Ordering::Relaxed)),
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(db.iter().map(|entry| amount(&entry.unwrap().1)).sum::<u64>(), ACCOUNTS * EACH);
}

/// Each synced transaction cost a sync of its own. Files are real: a sync in memory takes no time,
/// and where processors are busy no commit comes while one is under way.
#[test]
fn transactions_share_the_sync_of_the_log() {
    const THREADS: usize = 8;
    const EACH: usize = 50;
    let dir = tempfile::tempdir().unwrap();
    let fs = FaultFs::new(Arc::new(PosixFs::new()));
    let db = Options::new().fs(Arc::new(fs.clone())).background_threads(0).open(dir.path()).unwrap();
    let before = fs.calls(Call::Sync);
    let together = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, together) = (&db, &together);
            scope.spawn(move || {
                for turn in 0..EACH {
                    together.wait();
                    let mut transaction = db.transaction();
                    let key = [thread as u8, turn as u8];
                    assert!(transaction.get(db.default(), key).unwrap().is_none());
                    transaction.put(db.default(), key, [7; 20_000]).unwrap();
                    transaction.durability(Durability::Sync);
                    transaction.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(db.iter().count(), THREADS * EACH);
    let syncs = fs.calls(Call::Sync) - before;
    assert!(syncs < (THREADS * EACH) as u64, "{syncs} syncs of {} commits", THREADS * EACH);
}

/// Symptom: n deleted ranges with a look after each took n² steps. Cause: each look put all ranges
/// in order anew. Cure: they stand in sets that grow by halves (`db::writes`).
#[test]
fn walks_and_lookups_among_ranges_that_are_deleted_one_by_one_see_just_the_rest() {
    let db = open("/db");
    let (space, key) = (db.default(), |n: u32| n.wrapping_mul(0x9e37_79b1).to_be_bytes());
    let mut left: std::collections::BTreeSet<_> = (0..400).map(key).collect();
    left.iter().for_each(|key| db.put(key, b"old").unwrap());
    let mut transaction = db.transaction();
    for n in 0..300 {
        let one = key(n);
        transaction.delete_range(space, &one[..]..=&one[..]).unwrap();
        left.remove(&one);
        if n % 3 == 0 {
            // What is written after its range was deleted is there, what was before is not.
            transaction.put(space, one, b"new").unwrap();
            transaction.put(space, key(n + 1), b"goes").unwrap();
            left.insert(one);
        }
        assert_eq!(transaction.contains_key(space, one).unwrap(), n % 3 == 0);
        let (first, last) = (left.first().unwrap(), left.last().unwrap());
        assert_eq!(transaction.iter(space).next().unwrap().unwrap().0, first);
        assert_eq!(transaction.iter(space).next_back().unwrap().unwrap().0, last);
        if n % 50 == 49 {
            let seen: Vec<_> = transaction.iter(space).map(|entry| entry.unwrap().0.to_vec()).collect();
            assert_eq!(seen, left.iter().map(|key| key.to_vec()).collect::<Vec<_>>());
        }
    }
    transaction.commit().unwrap();
    assert!(db.iter().map(|entry| entry.unwrap().0).eq(left.iter().map(|key| &key[..])));
}
