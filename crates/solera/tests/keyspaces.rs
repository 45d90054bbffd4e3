//! Test of what a keyspace takes of memory that holds next to nothing, since there may be ten
//! thousand of them.
//!
//! This binary's allocator adds up what is allocated and not given back, by whatever thread. A
//! thousand keyspaces of one key take at most 8 KiB each. Door: `Db::keyspace`.

use solera::{Keyspace, Options, vfs::mem::MemFs};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The system's allocator, adding up.
struct Adding;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is the system allocator's, with the same arguments.
unsafe impl GlobalAlloc for Adding {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Adding = Adding;

const KEYSPACES: usize = 1000;
/// A share of the files in memory is in it.
const BYTES_EACH_MAX: usize = 8 << 10;

/// Symptom: 4,000 keyspaces of one key each took 25 KiB each. Cause: each made room for histograms
/// of four latencies and for counts of sixteen levels with its first operation, and its memtable
/// began with two chunks of 4 KiB. Cure: histograms come with the first operation that is timed,
/// counts of levels with the first table that is read, and chunks begin at 1 KiB.
#[test]
#[cfg_attr(miri, ignore)]
fn a_keyspace_of_one_key_takes_a_few_kilobytes() {
    // The files of this directory lie in memory too: a key's share of the log and a small table.
    let fs = Arc::new(MemFs::new());
    let open = || Options::new().background_threads(0).memory(64 << 20).fs(fs.clone()).open("/db").unwrap();
    let db = open();
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let handles: Vec<Keyspace> = (0..KEYSPACES).map(|n| db.keyspace(&format!("space{n}")).unwrap()).collect();
    handles.iter().for_each(|handle| handle.put("key", "value").unwrap());
    let each = (HELD_BYTES.load(Ordering::Relaxed) - before) / KEYSPACES;
    assert!(each <= BYTES_EACH_MAX, "{each} bytes for each keyspace");
    db.flush().unwrap();
    assert!(handles.iter().all(|handle| handle.get("key").unwrap().is_some()));
    drop((handles, db));

    let before = HELD_BYTES.load(Ordering::Relaxed);
    let db = open();
    let each = HELD_BYTES.load(Ordering::Relaxed).saturating_sub(before) / KEYSPACES;
    assert!(each <= BYTES_EACH_MAX, "{each} bytes for each keyspace after an open");
    assert_eq!(db.keyspaces().len(), KEYSPACES + 1);
}
