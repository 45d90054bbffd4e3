//! Tests of very many of something in one call, through `Db`.
//!
//! Many keys of a `multi_get` are what they are one by one, and keys of one block share it. 100,000
//! range deletions fit into a batch and a recovery, and a memtable of many gives way. Thousands of
//! keyspaces are flushed together and keep few logs, and so does a database that is opened very
//! often. A batch larger than write buffers is seen whole or not at all, within the memory budget.
//! A very large value is kept apart and leaves no copies.

use solera::{Compression, Db, Layout, Options, Shape, control::Change, operator::Append, vfs::mem::MemFs};
use std::{sync::Arc, time::Duration};

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

#[test]
fn many_keys_at_once_are_what_they_are_one_by_one() {
    let fs = Arc::new(MemFs::new());
    let options = || small().merge_operator(Arc::new(Append)).fs(fs.clone());
    let db = options().open(DIR).unwrap();
    // Several runs, a memtable, every kind of entry, range deletions beside newer and older
    // entries.
    for round in 0..5 {
        for n in (round..3000).step_by(5 + round as usize) {
            match n % 11 {
                0 => db.delete(key(n)).unwrap(),
                1 => db.merge(key(n), b"+").unwrap(),
                2 => db.put_with_ttl(key(n), b"soon", Duration::ZERO).unwrap(),
                3 => db.delete_range(key(n)..key(n + 3)).unwrap(),
                _ => db.put(key(n), format!("{round} {n}").as_bytes()).unwrap(),
            }
        }
        if round < 4 {
            db.flush().unwrap();
        }
    }
    let asked: Vec<_> = (0..4000).map(|n: u32| key(n.wrapping_mul(2_654_435_761) % 3500)).collect();
    for _ in 0..2 {
        let one_by_one: Vec<_> = asked.iter().map(|key| db.get(key).unwrap()).collect();
        assert_eq!(db.multi_get(&asked).unwrap(), one_by_one);
        assert!(one_by_one.iter().any(Option::is_some) && one_by_one.iter().any(Option::is_none));
        db.compact_range(..).unwrap();
    }
    assert_eq!(db.multi_get::<&[u8]>(&[]).unwrap(), []);
}

/// A block that is larger than the cache is read once for all keys of a wave that are in it.
#[test]
fn keys_of_one_block_share_it_though_the_cache_does_not_take_it() {
    let fs = Arc::new(MemFs::new());
    let layout = Layout { block_bytes: 1 << 20, compression: Compression::None, ..Layout::default() };
    let db = small().shape(Shape::default()).layout(layout).fs(fs.clone()).open(DIR).unwrap();
    db.control().apply(Change::new("test", "a small cache").set("cache_percent", 1u32)).unwrap();
    db.ingest((0..512).map(|n| (key(n), vec![n as u8; 1024]))).unwrap();
    let blocks_read = || db.default().stats().counters.blocks_read;
    let asked: Vec<_> = (0..32).map(key).collect();
    for _ in 0..2 {
        let before = blocks_read();
        let values = db.multi_get(&asked).unwrap();
        assert!(
            values
                .iter()
                .zip(0u8..)
                .all(|(value, n)| value.as_ref().is_some_and(|value| value[..] == [n; 1024]))
        );
        assert_eq!(blocks_read() - before, 1);
    }
}

/// Symptom: a batch of 100,000 range deletions took minutes, and so did the open after it. Cause:
/// each copied the list of all that were in the memtable. Cure: those of a batch, and those of the
/// logs that an open replays, go in together.
#[test]
fn very_many_range_deletions_fit_into_one_batch_and_one_recovery() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let default = db.default().clone();
    (0..1000).for_each(|n| db.put(key(n), b"value").unwrap());
    let mut batch = db.batch();
    for n in 0..100_000u32 {
        let start = [&key(n % 1000)[..], &n.to_be_bytes()].concat();
        let end = [&start[..], &[0]].concat();
        batch.delete_range(&default, start..end).unwrap();
    }
    batch.delete_range(&default, key(10)..key(990)).unwrap();
    batch.put(&default, key(11), b"after").unwrap();
    db.write(batch).unwrap();
    drop((db, default));
    for _ in 0..2 {
        let db = open(&fs);
        assert_eq!(db.iter().count(), 21);
        assert_eq!(db.get(key(11)).unwrap().as_deref(), Some(&b"after"[..]));
    }
}

#[test]
fn a_memtable_with_very_many_range_deletions_gives_way_to_the_next() {
    let fs = Arc::new(MemFs::new());
    let db = small().write_buffer(1 << 20).fs(fs).open(DIR).unwrap();
    (0..3000).for_each(|n| db.delete_range(key(n)..key(n + 1)).unwrap());
    assert_eq!(db.default().stats().sealed_memtables, 2);
}

fn files_that_end(fs: &Arc<MemFs>, with: &str) -> usize {
    use solera::vfs::Fs;
    let names = fs.list_dir(std::path::Path::new(DIR)).unwrap();
    names.iter().filter(|name| name.ends_with(with)).count()
}

/// Symptom: the flush of 10,000 keyspaces took 128 s. Cause: each had a record of the manifest, a
/// look at all others and a call of the workers to itself. Cure: those that have little are flushed
/// together.
#[test]
fn very_many_keyspaces_are_flushed_together_and_all_are_there_after_reopening() {
    const KEYSPACES: u32 = 1500;
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let handles: Vec<_> = (0..KEYSPACES).map(|n| db.keyspace(&format!("space{n}")).unwrap()).collect();
    for (n, handle) in (0..).zip(&handles) {
        handle.put(key(n), format!("value {n}")).unwrap();
    }
    handles[7].put(key(8), vec![7; 200 << 10]).unwrap();
    handles[9].delete(key(9)).unwrap();
    db.drop_keyspace("space11").unwrap();
    db.flush().unwrap();
    let flushes = |handle: &solera::Keyspace| handle.stats().counters.flushes;
    assert!(handles.iter().enumerate().all(|(n, handle)| flushes(handle) == u64::from(n != 11)));
    assert!(handles.iter().all(|handle| handle.stats().memtable_bytes < 4 << 10));
    drop((handles, db));
    let db = open(&fs);
    for n in (0..KEYSPACES).filter(|n| ![9, 11].contains(n)) {
        let keyspace = db.keyspace(&format!("space{n}")).unwrap();
        assert_eq!(keyspace.get(key(n)).unwrap().as_deref(), Some(format!("value {n}").as_bytes()));
    }
    assert_eq!(db.keyspace("space9").unwrap().iter().count(), 0);
    assert_eq!(db.keyspace("space7").unwrap().get(key(8)).unwrap().unwrap().len(), 200 << 10);
}

/// Symptom: 500 idle keyspaces beside one that was written to kept 73 logs. Cause: only those were
/// flushed that kept the very oldest log, one by one. Cure: all that keep the older half of the
/// logs are, and together.
#[test]
fn idle_keyspaces_keep_few_logs() {
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let hot = db.keyspace("hot").unwrap();
    let mut most = 0;
    for n in 0..20_000u32 {
        if n % 60 == 0 {
            db.keyspace(&format!("idle{}", n / 60)).unwrap().put("once", "upon a time").unwrap();
        }
        hot.put(key(n % 500), [n as u8; 100]).unwrap();
        if n % 100 == 0 {
            while db.step().unwrap() {}
            most = most.max(files_that_end(&fs, ".log"));
        }
    }
    assert!(most <= 12, "{most} logs");
    assert_eq!(db.keyspaces().len(), 20_000usize.div_ceil(60) + 2);
}

/// Symptom: a program that opened, put one pair and ended, 800 times, left 603 files. Cause: each
/// open begins a log, and programs ended before a worker could flush. Cure: an open that finds too
/// many logs flushes them itself.
#[test]
fn a_database_that_is_opened_often_and_written_little_keeps_few_logs() {
    let fs = Arc::new(MemFs::new());
    for n in 0..100 {
        open(&fs).put(key(n), "a little").unwrap();
        let logs = files_that_end(&fs, ".log");
        assert!(logs <= 17, "{logs} logs after {n} openings");
    }
    assert_eq!(open(&fs).iter().count(), 100);
}

/// Symptom: a batch of 2 M puts took 3.9 times its size beside the budget. Cause: memtables held it
/// whole, a second time. Cure: a batch larger than write buffers goes into tables part by part,
/// which no reader sees before all are there.
#[test]
fn a_batch_larger_than_write_buffers_is_seen_whole_or_not_at_all() {
    const KEYS: u32 = 4000;
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let (default, other) = (db.default().clone(), db.keyspace("other").unwrap());
    (0..KEYS).for_each(|n| default.put(key(n), "old").unwrap());
    other.put("beside", "the batch").unwrap();
    let fill = |value: &str| {
        let mut batch = db.batch();
        batch.delete_range(&default, key(100)..key(200)).unwrap();
        for n in 0..KEYS {
            match n % 4 {
                0 => batch.delete(&default, key(n)).unwrap(),
                1 => batch.put(&other, key(n), value).unwrap(),
                _ => batch.put(&default, key(n), value).unwrap(),
            }
        }
        batch.delete_range(&default, key(300)..key(400)).unwrap();
        // The first key once more: the newest of a batch counts, wherever its parts end.
        batch.put(&default, key(2), "last").unwrap();
        batch
    };
    let expected = |value: &str| {
        let own = (0..KEYS).filter(|n| n % 4 > 1 && !(300..400).contains(n));
        let own = own.map(|n| (key(n), if n == 2 { "last".to_owned() } else { value.to_owned() }));
        let kept = (0..KEYS).filter(|n| n % 4 == 1 && !(100..200).contains(n) && !(300..400).contains(n));
        let mut all: Vec<_> = own.chain(kept.map(|n| (key(n), "old".to_owned()))).collect();
        all.sort();
        all
    };
    let found = |db: &Db| -> Vec<(Vec<u8>, String)> {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        db.iter().map(|pair| pair.map(|(key, value)| (key.to_vec(), text(&value))).unwrap()).collect()
    };
    let before = db.snapshot();
    let flushes = default.stats().counters.flushes;
    let last = db.write(fill("new")).unwrap();
    assert!(default.stats().counters.flushes > flushes + 2, "its parts are tables");
    assert_eq!((default.stats().memtable_bytes < 4 << 10, db.last_seqno()), (true, last));
    assert_eq!(found(&db), expected("new"));
    assert_eq!(before.iter(&default).count(), KEYS as usize);
    assert_eq!(before.get(&default, key(2)).unwrap().unwrap(), "old");
    assert_eq!(before.iter(&other).count(), 1);
    drop(before);
    // As a transaction, and after it one that has read what it changes.
    let mut reader = db.transaction();
    assert_eq!(reader.get(&default, key(2)).unwrap().unwrap(), "last");
    reader.put(&default, "from", "the reader").unwrap();
    let mut transaction = db.transaction();
    transaction.delete_range(&default, key(100)..key(200)).unwrap();
    for n in (0..KEYS).filter(|n| n % 4 > 1 && !(300..400).contains(n)) {
        transaction.put(&default, key(n), "newer").unwrap();
    }
    transaction.put(&default, key(2), "last").unwrap();
    transaction.commit().unwrap();
    assert!(reader.commit().unwrap_err().is_retryable());
    assert_eq!(found(&db), expected("newer"));
    while db.step().unwrap() {}
    assert_eq!(found(&db), expected("newer"));
    drop((db, default, other));
    let db = open(&fs);
    assert_eq!(found(&db), expected("newer"));
    assert_eq!(db.keyspace("other").unwrap().iter().count(), KEYS as usize / 4 + 1);
    assert!(db.verify().unwrap().problems.is_empty());
}

/// Symptom: one value of 256 MiB took 770 MiB beside the budget, and four of the disk when it was
/// overwritten. Cause: memtable, flush and merge each copied it. Cure: large values are always kept
/// apart from their entries, and copied from file to file in pieces.
#[test]
fn a_large_value_is_kept_apart_and_leaves_no_copies_behind() {
    const BYTES: usize = 3 << 20;
    let fs = Arc::new(MemFs::new());
    let db = open(&fs);
    let value = |round: u8| -> Vec<u8> { (0..BYTES).map(|i| round ^ (i / 1000) as u8).collect() };
    for round in 0..5 {
        db.put("large", value(round)).unwrap();
        db.put("small", [round]).unwrap();
        assert!(db.default().stats().memtable_bytes < 64 << 10);
        while db.step().unwrap() {}
    }
    db.flush().unwrap();
    db.wait_idle().unwrap();
    db.compact_range(..).unwrap();
    db.wait_idle().unwrap();
    let files = |fs: &MemFs| -> u64 {
        use solera::vfs::Fs;
        let dir = std::path::Path::new(DIR);
        let names = fs.list_dir(dir).unwrap();
        names.iter().map(|name| fs.open(&dir.join(name)).unwrap().len().unwrap()).sum()
    };
    assert!(files(&fs) < 2 * BYTES as u64, "{} bytes of files for {BYTES}", files(&fs));
    assert_eq!(db.get("large").unwrap().unwrap(), value(4));
    drop(db);
    let db = open(&fs);
    assert_eq!(db.get("large").unwrap().unwrap(), value(4));
    assert_eq!(db.get("small").unwrap().unwrap(), [4]);
    assert!(db.verify().unwrap().problems.is_empty());
}
