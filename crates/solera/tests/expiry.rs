//! Tests that the moment of expiry can be read back, through `get_entry`, `Iter::expires_ms` and
//! transactions.
//!
//! It is the same from memtables, tables and separated values, at a snapshot and now, by lookup and
//! by walk. A transaction reads its own expiring write until its moment.

use solera::{Db, Entry, ManualClock, Options, operator, vfs::mem::MemFs};
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
fn a_transaction_reads_its_own_expiring_write_until_its_moment() {
    let (db, clock) = open(&MemFs::new(), None);
    db.put(b"key", b"committed").unwrap();
    let mut transaction = db.transaction();
    transaction.put_with_ttl(db.default(), b"key", b"own", Duration::from_secs(1)).unwrap();
    assert_eq!(transaction.get(db.default(), b"key").unwrap().unwrap(), b"own"[..]);
    clock.advance(Duration::from_secs(1));
    assert_eq!(transaction.get(db.default(), b"key").unwrap(), None);
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"committed"[..]);
}
