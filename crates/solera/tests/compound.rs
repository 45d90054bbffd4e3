//! Tests of calls that are made of others (`db::compound`, `db::ticket`), through `Db` and
//! `Keyspace`.
//!
//! First and last are the ends, and popping takes them out; every entry is popped by one thread
//! alone. `fetch_update` loses nothing between threads, and ends where it never stands. `transact`
//! runs again within a bound and is rolled back by an error. An expiry is set, read and cleared.
//! Lengths and space are told, exactly after a merge. A ticket tells when what can be read survives
//! a power failure.

use solera::{
    Clock, Db, Durability, Error, ManualClock, Options,
    vfs::mem::{MemFs, Persist},
};
use std::{collections::BTreeSet, path::Path, sync::Arc, thread};

fn opened(dir: &Path) -> Db {
    Options::new().memory(8 << 20).background_threads(0).open(dir).unwrap()
}

#[test]
fn first_and_last_are_the_ends_of_a_keyspace_and_popping_takes_them_out() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    assert!(
        db.is_empty().unwrap() && db.first_key_value().unwrap().is_none() && db.pop_last().unwrap().is_none()
    );
    for key in ["b", "a", "d", "c"] {
        db.put(key, [key, "!"].concat()).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(db.len().unwrap(), 4);
    assert_eq!(db.first_key_value().unwrap().unwrap(), ("a".into(), "a!".into()));
    assert_eq!(db.last_key_value().unwrap().unwrap().0, "d");
    assert_eq!(db.pop_first().unwrap().unwrap(), ("a".into(), "a!".into()));
    assert_eq!(db.pop_last().unwrap().unwrap().0, "d");
    assert_eq!(db.pop_first().unwrap().unwrap().0, "b");
    assert!(!db.is_empty().unwrap() && db.len().unwrap() == 1);
    assert_eq!(db.pop_last().unwrap().unwrap().0, "c");
    assert!(db.pop_first().unwrap().is_none() && db.is_empty().unwrap());
}

#[test]
fn every_entry_is_popped_by_one_thread_alone_from_either_end() {
    const ENTRIES: u32 = 400;
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memory(8 << 20).background_threads(1).open(dir.path()).unwrap();
    (0..ENTRIES).for_each(|n| db.put(n.to_be_bytes(), "job").unwrap());
    let popped: Vec<Vec<u8>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let db = &db;
                let pop = move || if thread % 2 == 0 { db.pop_first() } else { db.pop_last() };
                scope.spawn(move || {
                    std::iter::from_fn(|| pop().unwrap()).map(|(key, _)| key.into()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(popped.len(), ENTRIES as usize);
    assert_eq!(popped.into_iter().collect::<BTreeSet<_>>().len(), ENTRIES as usize);
}

#[test]
fn updates_in_one_step_lose_nothing_between_threads() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let number =
        |bytes: Option<&[u8]>| bytes.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    db.fetch_update("n", |n| Some((number(n) + 1).to_be_bytes().to_vec())).unwrap();
                    db.transact(|transaction| {
                        let n = number(transaction.get(db.default(), "m")?.as_deref()) + 1;
                        transaction.put(db.default(), "m", n.to_be_bytes())
                    })
                    .unwrap();
                }
            });
        }
    });
    assert_eq!(number(db.get("n").unwrap().as_deref()), 400);
    assert_eq!(number(db.get("m").unwrap().as_deref()), 400);
    assert_eq!(number(db.fetch_update("n", |_| None).unwrap().as_deref()), 400, "the value before");
    assert!(!db.contains_key("n").unwrap());
    assert!(db.fetch_update("n", |before| before.map(Vec::from)).unwrap().is_none());
}

#[test]
fn a_transaction_is_run_again_within_a_bound_and_rolled_back_by_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let mut runs = 0;
    let never = db.transact_within(3, |transaction| {
        runs += 1;
        transaction.get(db.default(), "k")?;
        db.put("k", "in between")?;
        transaction.put(db.default(), "k", "mine")
    });
    assert!(matches!(never, Err(Error::Conflict)) && runs == 3);
    let failed: solera::Result<()> = db.transact(|transaction| {
        transaction.put(db.default(), "other", "v")?;
        Err(Error::Invalid("changed its mind".into()))
    });
    assert!(matches!(failed, Err(Error::Invalid(_))) && !db.contains_key("other").unwrap());
    assert_eq!(db.transact(|transaction| transaction.get(db.default(), "k")).unwrap().unwrap(), "in between");
}

/// Symptom: a closure of `fetch_update` that wrote its own key ran for ever. Cause: what conflicts
/// was tried without bound. Cure: 10,000 times, which no crowd of threads comes near.
#[test]
fn an_update_whose_closure_writes_the_key_itself_ends_with_a_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let mut runs = 0;
    let never = db.fetch_update("k", |_| {
        runs += 1;
        db.put("k", "mine").unwrap();
        Some(b"never".to_vec())
    });
    assert!(matches!(never, Err(Error::Conflict)) && runs == 10_000, "{runs}: {never:?}");
    assert_eq!(db.get("k").unwrap().unwrap(), "mine");
}

#[test]
fn a_keyspace_that_was_created_inside_a_transaction_stays_when_that_is_rolled_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let mut transaction = db.transaction();
    let made = db.keyspace("made").unwrap();
    transaction.put(&made, "k", "v").unwrap();
    transaction.rollback();
    assert!(made.is_empty().unwrap() && db.keyspaces().contains(&"made".to_owned()));
}

#[test]
fn a_moment_of_expiry_is_set_read_and_cleared() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::at_unix_ms(1_000_000));
    let options = || Options::new().memory(8 << 20).background_threads(0).clock(clock.clone());
    let db = options().separate_values_from(100).open(dir.path()).unwrap();
    let now = clock.unix_ms();
    let moment = |key: &str| db.get_entry(key).unwrap().unwrap().expires_ms;
    let long = [7u8; 300];
    for (key, value) in [("short", &long[..3]), ("long", &long[..])] {
        db.put_until(key, value, now + 50).unwrap();
        assert_eq!(moment(key), Some(now + 50));
        assert!(db.set_expiry(key, Some(now + 500)).unwrap());
        db.flush().unwrap();
        assert_eq!(moment(key), Some(now + 500));
        assert!(db.set_expiry(key, None).unwrap());
        assert_eq!(db.get_entry(key).unwrap().unwrap().value, value);
        assert_eq!(moment(key), None);
        assert!(db.set_expiry(key, Some(now + 900)).unwrap());
    }
    assert!(!db.set_expiry("absent", Some(now + 1)).unwrap() && !db.contains_key("absent").unwrap());
    let mut batch = db.batch();
    batch.put_until(db.default(), "batch", "v", now + 10).unwrap();
    batch.put_until(db.default(), "past", "v", now).unwrap();
    db.write(batch).unwrap();
    let mut transaction = db.transaction();
    transaction.put_until(db.default(), "transaction", "v", now + 20).unwrap();
    transaction.commit().unwrap();
    assert_eq!((moment("batch"), moment("transaction")), (Some(now + 10), Some(now + 20)));
    assert!(!db.contains_key("past").unwrap());
    clock.advance(std::time::Duration::from_millis(900));
    assert!(db.is_empty().unwrap() && !db.set_expiry("short", None).unwrap(), "what has expired stays so");
}

#[test]
fn lengths_and_space_are_told_and_exact_after_a_merge() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    let keyspace = db.keyspace("k").unwrap();
    for n in 0..3000u32 {
        keyspace.put(n.to_be_bytes(), [5; 100]).unwrap();
    }
    assert_eq!((keyspace.approximate_len(), keyspace.disk_space()), (3000, 0));
    keyspace.flush().unwrap();
    for n in 0..1000u32 {
        keyspace.delete(n.to_be_bytes()).unwrap();
    }
    assert_eq!(keyspace.approximate_len(), 2000);
    (2000..2100u32).for_each(|n| keyspace.put(n.to_be_bytes(), "again").unwrap());
    assert_eq!((keyspace.approximate_len(), keyspace.len().unwrap()), (2100, 2000));
    keyspace.compact_range(..).unwrap();
    assert_eq!(keyspace.approximate_len(), 2000);
    let on_disk: u64 =
        std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(db.disk_space().unwrap(), on_disk);
    assert!((1..on_disk).contains(&keyspace.disk_space()));
}

/// Symptom: after a merge of a part of the keys, the length was told as 0 and tables counted twice.
/// Cause: of a table whose middle had left, each part counted for all its deletes, and for the
/// whole file. Cure: deletes count by the part, files once.
#[test]
fn lengths_and_space_are_told_of_tables_whose_middle_has_left() {
    let dir = tempfile::tempdir().unwrap();
    let db = opened(dir.path());
    for n in 0..3000u32 {
        db.put(n.to_be_bytes(), [5; 100]).unwrap();
    }
    db.flush().unwrap();
    (0..3000u32).step_by(3).for_each(|n| db.delete(n.to_be_bytes()).unwrap());
    db.flush().unwrap();
    db.compact_range(1000u32.to_be_bytes()..2000u32.to_be_bytes()).unwrap();
    let of_tables = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".table");
    let files: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap).collect();
    let tables = files.iter().filter(|file| of_tables(&file.file_name()));
    let on_disk: Vec<u64> = tables.map(|file| file.metadata().unwrap().len()).collect();
    let stats = db.default().stats();
    let parts: u64 = stats.levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum();
    assert!(parts > on_disk.len() as u64, "{parts} parts of {} tables", on_disk.len());
    assert_eq!(stats.table_bytes, on_disk.iter().sum::<u64>());
    assert_eq!(db.default().disk_space(), stats.table_bytes);
    assert_eq!(db.verify().unwrap().tables, on_disk.len() as u64);
    let (told, counted) = (db.approximate_len(), db.len().unwrap());
    assert!(told.abs_diff(counted) < counted / 10, "{told} of {counted}");
}

/// A ticket is honest in both directions: what it calls durable survives a power failure, and what
/// was written after the last sync does not.
#[test]
fn a_ticket_tells_when_what_can_be_read_survives_a_power_failure() {
    let fs = MemFs::new();
    let open = |fs: &MemFs| {
        Options::new().memory(8 << 20).background_threads(0).fs(Arc::new(fs.clone())).open("db").unwrap()
    };
    let db = open(&fs);
    let after_power_failure = |key: &str| open(&fs.crash(Persist::Nothing, 1)).contains_key(key).unwrap();
    db.put("first", "v").unwrap();
    let first = db.ticket();
    assert!(!first.is_durable() && db.contains_key("first").unwrap() && !after_power_failure("first"));
    first.wait().unwrap();
    assert!(first.is_durable() && after_power_failure("first"));

    let mut batch = db.batch();
    batch.put(db.default(), "second", "v").unwrap();
    let second = db.ticket_of(db.write(batch).unwrap());
    db.put("third", "v").unwrap();
    let third = db.ticket();
    assert!(!second.is_durable() && second.seqno() < third.seqno());
    let mut batch = db.batch();
    batch.put(db.default(), "fourth", "v").unwrap();
    batch.durability(Durability::Sync);
    db.write(batch).unwrap();
    assert!(second.is_durable() && third.is_durable(), "a durable write vouches for those before it");
    assert!(after_power_failure("third"));

    db.put("last", "v").unwrap();
    let last = db.ticket_of(u64::MAX);
    assert_eq!(last.seqno(), db.last_seqno());
    db.close().unwrap();
    assert!(last.is_durable() && last.wait().is_ok(), "close makes it so");
}

/// Symptom: a reader's ticket called durable what a killed writer had left in the system's memory,
/// and a power failure took it. Cause: what an open has replayed counted as durable, though only
/// one that writes has written it again. Cure: for one that only reads, what the log proves counts.
#[test]
fn who_only_reads_calls_durable_what_the_log_proves() {
    let fs = MemFs::new();
    let options = |fs: &MemFs| Options::new().memory(8 << 20).background_threads(0).fs(Arc::new(fs.clone()));
    let db = options(&fs).open("db").unwrap();
    db.put("synced", "v").unwrap();
    db.sync().unwrap();
    let is_durable = |fs: &MemFs| {
        let reader = options(fs).read_only(true).open("db").unwrap();
        let ticket = reader.ticket();
        assert!(ticket.seqno() == reader.last_seqno() && ticket.wait().is_ok() == ticket.is_durable());
        ticket.is_durable()
    };
    assert!(is_durable(&fs.kill()));
    db.put("buffered", "v").unwrap();
    assert!(!is_durable(&fs.kill()));
    // Who writes makes it so.
    let killed = fs.kill();
    assert!(options(&killed).open("db").unwrap().ticket().is_durable());
    db.close().unwrap();
    assert!(is_durable(&fs));
}
