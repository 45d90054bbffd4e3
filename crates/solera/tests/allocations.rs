//! Tests of what the hot paths allocate: nothing, or what is named. Counted by this binary's
//! allocator, not timed.
//!
//! Lookups in tables and memtables allocate nothing. A walk allocates for each table only, and
//! `multi_get` for the call and not for each key. A put allocates only what the memtable grows by.
//!
//! What must hold: only the calling thread is counted, and one test runs at a time (`alone`). An
//! allocation costs as much as a block search, and comes back wherever code clones what could be
//! borrowed. Door: `Db`.

use solera::{Compression, Db, Options};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The system's allocator, counting.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread has taken and not given back.
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends may allocate after its counter is gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

fn weigh(bytes: i64) {
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: every call is the system allocator's, with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        weigh(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        weigh(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        weigh(size as i64 - layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        weigh(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Lets one test run at a time.
///
/// Symptom: now and then a lookup in tables allocated, two times or twelve. Cause: the epoch's
/// collector is the process's, so a lookup here released what another test's database had dropped,
/// and that allocates. Cure: no other database lives while a test counts.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const ENTRIES: u64 = 50_000;

/// Keys all over the space, in an order that is not theirs.
fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn fill(db: &Db) {
    for n in 0..ENTRIES {
        db.put(key(n), [n as u8; 64]).unwrap();
    }
}

/// A database whose entries lie in tables, all of their blocks in the cache.
fn settled(dir: &std::path::Path, compression: Compression) -> Db {
    let options = Options::new().memory(64 << 20).write_buffer(1 << 20).background_threads(0);
    let db = options.compression(compression).open(dir).unwrap();
    fill(&db);
    db.flush().unwrap();
    while db.step().unwrap() {}
    // What a walk comes to is cached the second time.
    for _ in 0..2 {
        assert_eq!(db.iter().count() as u64, ENTRIES);
    }
    db
}

fn tables(db: &Db) -> u64 {
    let levels = &db.stats().keyspaces[0].levels;
    levels.iter().flat_map(|level| &level.runs).map(|run| run.tables).sum()
}

#[test]
fn lookups_in_tables_allocate_nothing() {
    let _alone = alone();
    for compression in [Compression::None, Compression::Lz4] {
        let dir = tempfile::tempdir().unwrap();
        let db = settled(dir.path(), compression);
        let lookups = |db: &Db| {
            for n in 0..ENTRIES {
                assert!(black_box(db.get(key(n)).unwrap()).is_some());
                assert!(black_box(db.get(key(n + ENTRIES)).unwrap()).is_none());
            }
        };
        lookups(&db);
        assert_eq!(allocations(|| lookups(&db)), 0, "{compression:?}");
    }
}

#[test]
fn lookups_in_the_memtable_allocate_nothing() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().background_threads(0).open(dir.path()).unwrap();
    fill(&db);
    assert!(db.get(key(0)).unwrap().is_some());
    let lookups = || {
        for n in 0..ENTRIES {
            assert!(black_box(db.get(key(n)).unwrap()).is_some());
        }
    };
    assert_eq!(allocations(lookups), 0);
}

#[test]
fn steps_of_an_iterator_allocate_nothing_but_for_each_table() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = settled(dir.path(), Compression::Lz4);
    for n in 0..1000 {
        db.put(key(n), b"again").unwrap();
    }
    let mut iter = db.iter();
    let mut walk = |entries: u64| {
        for _ in 0..entries {
            let (key, value) = iter.next().unwrap().unwrap();
            black_box((key.len(), value.len()));
        }
    };
    // The first steps open every source.
    walk(100);
    // Beyond them, only a table that is entered has to be given a key's memory, twice.
    let tables = tables(&db);
    let count = allocations(|| walk(ENTRIES - 100));
    assert!(count <= 2 * tables, "{count} allocations in {ENTRIES} steps over {tables} tables");
}

#[test]
fn steps_backward_and_steps_that_show_their_pairs_in_place_allocate_no_more() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = settled(dir.path(), Compression::Lz4);
    for n in 0..1000 {
        db.put(key(n), b"again").unwrap();
    }
    let tables = tables(&db);
    let mut back = db.iter();
    let mut forth = db.iter();
    let mut walk = |entries: u64| {
        for _ in 0..entries {
            assert!(back.advance_back().unwrap() && !back.value().is_empty());
        }
    };
    walk(100);
    let count = allocations(|| walk(ENTRIES - 100));
    assert!(count <= 4 * tables, "{count} allocations backward over {tables} tables");
    let mut walk = |entries: u64| {
        for _ in 0..entries {
            assert!(forth.advance().unwrap() && !forth.value().is_empty());
        }
    };
    walk(100);
    let count = allocations(|| walk(ENTRIES - 100));
    assert!(count <= 4 * tables, "{count} allocations forward over {tables} tables");
}

#[test]
fn lookups_of_many_keys_allocate_for_the_call_and_not_for_the_key() {
    let _alone = alone();
    const AT_ONCE: u64 = 256;
    let dir = tempfile::tempdir().unwrap();
    let db = settled(dir.path(), Compression::Lz4);
    let asked: Vec<Vec<[u8; 8]>> =
        (0..20).map(|call| (0..AT_ONCE).map(|n| key((call * AT_ONCE + n) * 7 % ENTRIES)).collect()).collect();
    let lookups = || {
        for keys in &asked {
            assert!(black_box(db.multi_get(keys).unwrap()).iter().all(Option::is_some));
        }
    };
    lookups();
    let count = allocations(lookups);
    let keys = asked.len() as u64 * AT_ONCE;
    assert!(count * 4 <= keys, "{count} allocations for {keys} keys");
}

#[test]
fn puts_allocate_only_what_the_memtable_grows_by() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().background_threads(0).open(dir.path()).unwrap();
    for n in 0..100 {
        db.put(key(n), [n as u8; 64]).unwrap();
    }
    let puts = || {
        for n in 100..ENTRIES {
            db.put(key(n), [n as u8; 64]).unwrap();
        }
    };
    let count = allocations(puts);
    assert!(count * 500 < ENTRIES, "{count} allocations in {ENTRIES} puts");
    assert_eq!(db.stats().keyspaces[0].counters.flushes, 0, "no put did the work of a flush");
}

/// Symptom: 10,000 keyspaces of one key took 135 MiB under a budget of 64. Cause: each had counters
/// of all levels, places for the shards of 65 threads, and the first nodes of a memtable, used or
/// not. Cure: they are made when they are needed.
#[test]
fn a_keyspace_takes_little_whether_it_is_empty_or_has_a_key_in_memory_or_in_a_table() {
    const KEYSPACES: u64 = 400;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = Options::new().memory(64 << 20).background_threads(0).open(dir.path()).unwrap();
    let spaces: Vec<_> = (0..8).map(|n| db.keyspace(&format!("first {n}")).unwrap()).collect();
    spaces.iter().for_each(|space| space.put(key(0), b"v").unwrap());
    db.flush().unwrap();
    let since = LIVE_BYTES.get();
    let each = || (LIVE_BYTES.get() - since) / KEYSPACES as i64;
    let spaces: Vec<_> = (0..KEYSPACES).map(|n| db.keyspace(&format!("space {n}")).unwrap()).collect();
    let empty = each();
    spaces.iter().for_each(|space| space.put(key(1), b"v").unwrap());
    let written = each();
    db.flush().unwrap();
    let flushed = each();
    spaces.iter().for_each(|space| assert!(space.get(key(1)).unwrap().is_some()));
    let read = each();
    let all = [empty, written, flushed, read];
    assert!(empty <= 2560 && written <= 4096 && flushed <= 4608 && read <= 8192, "{all:?}");
}
