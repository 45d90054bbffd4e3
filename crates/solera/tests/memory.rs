//! Test that memory follows its knobs, by the engine's own accounting, through `Control`.
//!
//! What write buffers and cache must give up, when the split is changed, is given back within a
//! window of 10,000 operations. It counts what pools hold, and what cache and write buffers say
//! that they have. One test and a process of its own, because the pools are the process's.

use solera::{
    Db, Options,
    control::{Change, Knob, knob},
    pool::{BLOCKS, CHUNKS},
    vfs::mem::MemFs,
};
use std::sync::Arc;

/// Operations of a window, the time in which what was shrunk must have shrunk.
const WINDOW: u32 = 10_000;
const KEYS: u32 = 40_000;
/// 44 MiB of this are divided: 16 MiB and 1/16 are for what is not counted.
const BUDGET: u64 = 64 << 20;
const DIVIDED: usize = 44 << 20;

fn put(db: &Db, n: u32, bytes: usize) {
    db.put(n.to_be_bytes(), vec![n as u8; bytes]).unwrap();
}

fn set(db: &Db, knob: &Knob, percent: f64) {
    db.control().apply(Change::new("test", "less").set(knob, percent)).unwrap();
}

/// Does all work that is due and returns the bytes of the write buffers.
fn write_buffers(db: &Db) -> usize {
    while db.step().unwrap() {}
    db.default().stats().memtable_bytes as usize
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_write_buffers_and_cache_must_give_up_is_given_back_within_a_window() {
    let options = Options::new().fs(Arc::new(MemFs::new())).background_threads(0).memory(BUDGET).seed(1);
    let db = options.open("/db").unwrap();
    for n in 0..KEYS {
        put(&db, n, 1000);
        if n % 100 == 0 {
            write_buffers(&db);
        }
    }
    db.flush().unwrap();
    // Write buffers: 2 % of the memory, where one of them had 4 MiB.
    (0..3000).for_each(|n| put(&db, n, 1000));
    let large = (write_buffers(&db), CHUNKS.held_bytes());
    assert!(large.0 > 2 << 20 && large.1 > 2 << 20, "{large:?}");
    set(&db, &knob::WRITE_BUFFER_PERCENT, 2.0);
    for n in 0..WINDOW {
        put(&db, n, 100);
        if n % 100 == 0 {
            write_buffers(&db);
        }
    }
    let small = (write_buffers(&db), CHUNKS.held_bytes());
    let most = DIVIDED / 100 * 2;
    assert!(small.0 <= most && small.1 <= most, "{small:?} of {most}");

    // The cache: 10 %, where all that is left was its own.
    let read_all = || assert_eq!(db.iter().map(Result::unwrap).count(), KEYS as usize);
    // What a walk comes to is cached the second time.
    read_all();
    read_all();
    let large = (db.stats().block_cache_bytes as usize, BLOCKS.held_bytes());
    assert!(large.0 > 15 << 20 && large.1 > 15 << 20, "{large:?}");
    set(&db, &knob::CACHE_PERCENT, 10.0);
    for n in 0..WINDOW {
        assert!(db.get((n * 3 % KEYS).to_be_bytes()).unwrap().is_some());
    }
    let small = (db.stats().block_cache_bytes as usize, BLOCKS.held_bytes());
    let most = DIVIDED / 10;
    // What is on its way in and out, and what waits to be used again: 1/16 and 1 MiB.
    let in_passing = most / 16 + (1 << 20);
    assert!(small.0 <= most && small.1 <= most + in_passing, "{small:?} of {most} and {in_passing}");
}
