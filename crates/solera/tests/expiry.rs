//! Tests that the moment of expiry can be read back, through `get_entry`, `Iter::expires_ms` and
//! transactions.
//!
//! It is the same from memtables, tables and separated values, at a snapshot and now, by lookup and
//! by walk. A transaction reads by the time at which it began, also of its own writes.

use solera::{Clock, Db, Entry, ManualClock, Options, operator, vfs::mem::MemFs};
use std::{sync::Arc, time::Duration};

const NOW_MS: u64 = 1_700_000_000_000;

fn open(fs: &MemFs, separate_from: Option<u64>) -> (Db, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at_unix_ms(NOW_MS));
    let mut options = Options::new().fs(Arc::new(fs.clone())).background_threads(0).memory(16 << 20).seed(1);
    options = options.clock(clock.clone()).merge_operator(Arc::new(operator::Append));
    if let Some(bytes) = separate_from {
        options = options.separate_values_from(bytes);
    }
    (options.open("/db").unwrap(), clock)
}

const BRIEF: &[u8] = b"brief, and longer than eight bytes";

fn write(db: &Db) {
    db.put(b"a lasting", b"for good, and longer than eight").unwrap();
    db.put_with_ttl(b"b brief", BRIEF, Duration::from_secs(5)).unwrap();
    db.put_with_ttl(b"c short", b"", Duration::from_secs(9)).unwrap();
    db.put_with_ttl(b"d made lasting", BRIEF, Duration::from_secs(5)).unwrap();
    db.put(b"d made lasting", b"v").unwrap();
    db.put_with_ttl(b"e merged", b"base", Duration::from_secs(5)).unwrap();
    db.merge(b"e merged", b"+operand").unwrap();
    db.put_with_ttl(b"f gone", BRIEF, Duration::from_millis(1)).unwrap();
}

/// What [`write`] leaves after a second, from the first key to the last.
fn expected() -> Vec<(&'static [u8], Entry)> {
    let entry = |value: &[u8], expires_ms| Entry { value: solera::Slice::copy_from(value), expires_ms };
    vec![
        (b"a lasting", entry(b"for good, and longer than eight", None)),
        (b"b brief", entry(BRIEF, Some(NOW_MS + 5000))),
        (b"c short", entry(b"", Some(NOW_MS + 9000))),
        (b"d made lasting", entry(b"v", None)),
        (b"e merged", entry(b"base+operand", None)),
    ]
}

fn check(db: &Db) {
    let expected = expected();
    for (key, entry) in &expected {
        assert_eq!(db.get_entry(key).unwrap().as_ref(), Some(entry), "{}", key.escape_ascii());
        let seen = db.snapshot().get_entry(db.default(), key).unwrap();
        assert_eq!(seen.as_ref(), Some(entry), "{}", key.escape_ascii());
    }
    assert_eq!(db.get_entry(b"f gone").unwrap(), None);
    assert_eq!(db.get_entry(b"nothing").unwrap(), None);
    let mut up = db.iter();
    for (key, entry) in &expected {
        assert!(up.advance().unwrap());
        assert_eq!((up.key(), up.value(), up.expires_ms()), (*key, &entry.value[..], entry.expires_ms));
    }
    assert!(!up.advance().unwrap());
    let mut down = db.iter();
    for (key, entry) in expected.iter().rev() {
        assert!(down.advance_back().unwrap());
        assert_eq!((down.key(), down.value(), down.expires_ms()), (*key, &entry.value[..], entry.expires_ms));
    }
    assert!(!down.advance_back().unwrap());
}

#[test]
fn the_moment_is_read_back_from_memtables_and_tables_and_of_values_that_lie_apart() {
    for separate_from in [None, Some(16)] {
        let fs = MemFs::new();
        let (db, clock) = open(&fs, separate_from);
        write(&db);
        clock.advance(Duration::from_secs(1));
        check(&db);
        db.flush().unwrap();
        check(&db);
        db.compact_range(..).unwrap();
        check(&db);
        clock.advance(Duration::from_secs(4));
        assert_eq!(db.get_entry(b"b brief").unwrap(), None, "its moment has come");
        assert!(db.get_entry(b"c short").unwrap().is_some());
    }
}

#[test]
fn a_transaction_reads_its_own_expiring_write_by_the_time_at_which_it_began() {
    let (db, clock) = open(&MemFs::new(), None);
    db.put(b"key", b"committed").unwrap();
    let mut transaction = db.transaction();
    transaction.put_with_ttl(db.default(), b"key", b"own", Duration::from_secs(1)).unwrap();
    transaction.put_until(db.default(), b"past", b"own", NOW_MS).unwrap();
    for _ in 0..2 {
        assert_eq!(transaction.get(db.default(), b"key").unwrap().unwrap(), b"own"[..]);
        assert_eq!(transaction.get(db.default(), b"past").unwrap(), None);
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"committed"[..]);
    transaction.commit().unwrap();
    assert_eq!(db.get(b"key").unwrap(), None, "it has expired by the clock");
}

/// Symptom: a transaction read a key as there, and then as gone. Cause: each read asked the clock.
/// Cure: a transaction has the time at which it began. Nothing that is there for it is dropped.
#[test]
fn what_expires_while_a_transaction_runs_stays_for_it_and_goes_after_it() {
    for separate_from in [None, Some(16)] {
        let (db, clock) = open(&MemFs::new(), separate_from);
        let keyspace = db.default();
        write(&db);
        clock.advance(Duration::from_secs(1));
        let mut transaction = db.transaction();
        let keys = [&b"b brief"[..], b"c short", b"e merged", b"f gone"];
        let read = |transaction: &solera::Transaction| {
            let got: Vec<_> = keys.iter().map(|key| transaction.get(keyspace, key).unwrap()).collect();
            assert_eq!(transaction.multi_get(keyspace, &keys).unwrap(), got);
            let walked: Vec<_> = transaction.iter(keyspace).map(Result::unwrap).collect();
            let mut back: Vec<_> = transaction.iter(keyspace).rev().map(Result::unwrap).collect();
            back.reverse();
            assert_eq!(back, walked);
            (got, walked)
        };
        let before = read(&transaction);
        let expected: Vec<_> = expected().into_iter().map(|(key, entry)| (key, entry.value)).collect();
        assert!(before.1.iter().map(|(key, value)| (&key[..], value.clone())).eq(expected));
        clock.advance(Duration::from_secs(3600));
        assert_eq!(db.iter().count(), 3, "others see what is left");
        for round in 0..3 {
            assert!(read(&transaction) == before, "round {round}");
            db.flush().unwrap();
            db.compact_range(..).unwrap();
            db.wait_idle().unwrap();
        }
        transaction.put(keyspace, b"g written", b"by it").unwrap();
        assert!(read(&transaction).0 == before.0);
        transaction.commit().unwrap();
        db.wait_idle().unwrap();
        db.compact_range(..).unwrap();
        assert_eq!(db.default().stats().entries, 4, "what had expired is dropped now");
    }
}

/// The workers are told when the transaction ends that held time back.
#[test]
fn what_a_transaction_kept_from_expiring_goes_without_a_call_once_it_ends() {
    let clock = Arc::new(ManualClock::at_unix_ms(NOW_MS));
    let options = Options::new().fs(Arc::new(MemFs::new())).background_threads(1).memory(16 << 20).seed(1);
    let db = options.clock(clock.clone()).open("/db").unwrap();
    for n in 0..1000u32 {
        db.put_with_ttl(n.to_be_bytes(), [7; 100], Duration::from_secs(5)).unwrap();
    }
    db.flush().unwrap();
    let transaction = db.transaction();
    let wall = solera::SystemClock::new();
    clock.advance(Duration::from_secs(60));
    db.put("wakes", "the workers").unwrap();
    db.flush().unwrap();
    assert_eq!(db.default().stats().entries, 1001);
    assert_eq!(transaction.iter(db.default()).count(), 1000);
    drop(transaction);
    while db.default().stats().entries > 1 {
        assert!(wall.monotonic_ns() < 300_000_000_000, "not within five minutes");
        wall.sleep(Duration::from_millis(20));
    }
}
