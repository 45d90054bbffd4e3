//! Tests of what flushes and merges write of what was in memory: it stays there
//! (docs/decisions/0033), through a database.

use solera::{Db, Durability, Options, vfs::mem::MemFs};
use std::sync::Arc;

const KEYS: u32 = 30_000;

fn key(n: u32) -> [u8; 4] {
    n.wrapping_mul(0x9e37_79b1).to_be_bytes()
}

fn value(n: u32, round: u8) -> Vec<u8> {
    let mut state = u64::from(n) + 1;
    let next = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8 ^ round
    });
    next.take(100).collect()
}

fn open(fs: &MemFs, memory: u64, threads: usize) -> Db {
    let options = Options::new().fs(Arc::new(fs.clone())).memory(memory).background_threads(threads);
    options.durability(Durability::Buffered).open("/db").unwrap()
}

fn put_all(db: &Db, round: u8) {
    (0..KEYS).for_each(|n| db.put(key(n), value(n, round)).unwrap());
}

/// Reads all, and says how many blocks readers took from files for it.
fn read_all(db: &Db, round: u8) -> u64 {
    let read = || db.default().stats().counters.blocks_read;
    let before = read();
    (0..KEYS).for_each(|n| assert_eq!(&*db.get(key(n)).unwrap().unwrap(), value(n, round)));
    let mut entries = db.range(&[][..]..);
    let mut count = 0;
    while entries.advance().unwrap() {
        count += 1;
    }
    assert_eq!(count, KEYS);
    read() - before
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_was_just_written_is_read_without_a_file() {
    for threads in [0, 2] {
        let db = open(&MemFs::new(), 128 << 20, threads);
        put_all(&db, 0);
        db.flush().unwrap();
        assert_eq!(read_all(&db, 0), 0, "flushed, {threads} threads");
        // It is merged with what replaces it.
        for round in 1..4 {
            put_all(&db, round);
            db.flush().unwrap();
            db.wait_idle().unwrap();
            assert_eq!(read_all(&db, round), 0, "round {round}, {threads} threads");
        }
        db.compact_range(..).unwrap();
        assert_eq!(read_all(&db, 3), 0, "compacted, {threads} threads");
        db.close().unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_merge_of_what_is_not_in_memory_brings_nothing_in() {
    let fs = MemFs::new();
    let db = open(&fs, 128 << 20, 0);
    for round in 0..3 {
        put_all(&db, round);
        db.flush().unwrap();
    }
    db.close().unwrap();
    let db = open(&fs, 128 << 20, 0);
    db.compact_range(..).unwrap();
    assert_eq!(db.stats().block_cache_bytes, 0);
    assert!(read_all(&db, 2) > 100);
    db.close().unwrap();
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_stays_is_within_the_budget() {
    for threads in [0, 2] {
        // Much less than the data.
        let db = open(&MemFs::new(), 16 << 20, threads);
        for round in 0..12 {
            put_all(&db, round);
            let stats = db.stats();
            assert!(
                stats.block_cache_bytes <= stats.block_cache_capacity_bytes,
                "{} of {}",
                stats.block_cache_bytes,
                stats.block_cache_capacity_bytes
            );
        }
        db.flush().unwrap();
        db.compact_range(..).unwrap();
        read_all(&db, 11);
        let stats = db.stats();
        assert!(stats.block_cache_bytes <= stats.block_cache_capacity_bytes);
        db.close().unwrap();
    }
}
