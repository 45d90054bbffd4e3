//! Tests of tables that an idle worker reads to the end (docs/decisions/0032), through a database.

use solera::{Db, Options, vfs::mem::MemFs};
use std::{sync::Arc, thread::sleep, time::Duration};

const KEYS: u32 = 40_000;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Opens a database with 40,000 pairs in a few tables. Nothing of them was read yet, and workers
/// have nothing to do.
fn opened(options: impl Fn(Options) -> Options) -> Db {
    let fs = Arc::new(MemFs::new());
    let open = || options(Options::new().fs(fs.clone()).memory(128 << 20)).open("/db").unwrap();
    let db = open();
    (0..KEYS).for_each(|n| db.put(key(n), value(n)).unwrap());
    db.flush().unwrap();
    db.compact_range(..).unwrap();
    db.close().unwrap();
    let db = open();
    db.wait_idle().unwrap();
    db
}

fn read_by_readers(db: &Db) -> u64 {
    db.default().stats().counters.blocks_read
}

fn value(n: u32) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    });
    next.take(200).collect()
}

/// Reads all, and says how many blocks readers took from files for it.
fn read_the_rest(db: &Db) -> u64 {
    let before = read_by_readers(db);
    (0..KEYS).for_each(|n| assert_eq!(&*db.get(key(n)).unwrap().unwrap(), value(n)));
    read_by_readers(db) - before
}

/// Reads the blocks of the first fifth of each stretch of 4,000 keys, and says how
/// many blocks were read for it.
fn begin(db: &Db) -> u64 {
    (0..KEYS)
        .filter(|n| n % 4_000 < 800 && n % 20 == 0)
        .for_each(|n| assert!(db.get(key(n)).unwrap().is_some()));
    read_by_readers(db)
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_readers_have_begun_with_is_in_memory_soon_after_and_most_other_reads_need_no_file() {
    let db = opened(|options| options);
    let levels = db.default().stats().levels;
    let live: u64 = levels.iter().flat_map(|level| &level.runs).map(|run| run.bytes).sum();
    let begun = begin(&db);
    let is_read = || db.default().stats().counters.bytes_read >= live * 9 / 10;
    for _ in 0..300_000 {
        if is_read() {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    assert!(is_read(), "{:?}", db.default().stats().counters);
    // A last piece may be read and not cached yet.
    assert!(read_the_rest(&db) < 2 * begun, "{begun}, {}", db.default().stats().counters.blocks_read);
    db.close().unwrap();
}

#[test]
#[cfg_attr(miri, ignore)]
fn without_workers_nothing_is_read_that_no_reader_asked_for() {
    let db = opened(|options| options.background_threads(0));
    let begun = begin(&db);
    while db.step().unwrap() {}
    let rest = read_the_rest(&db);
    assert!(rest > 3 * begun, "{begun}, {rest}");
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_database_can_be_closed_while_a_worker_reads_on() {
    for _ in 0..10 {
        let db = opened(|options| options);
        begin(&db);
        db.close().unwrap();
    }
}
