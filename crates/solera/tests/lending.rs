//! Tests that idle write buffers serve as block cache, and come back before memtables need them.
//!
//! A database whose clock is set by hand rests, reads and writes. Reads of files are counted, and
//! memory by what the pools hold, which are the process's: one test runs at a time.

use solera::{
    Compression, Db, Layout, ManualClock, Options, Slice,
    control::{Change, Knob, knob},
    pool::CHUNKS,
    vfs::mem::MemFs,
};
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

const MIB: u64 = 1 << 20;
/// 36 MiB of it are divided, of which four write buffers have 16.
const BUDGET: u64 = 64 * MIB;
const BUFFER: u64 = BUDGET / 16;
/// What is lent of them.
const LENT: u64 = 8 * MIB;
const VALUE_BYTES: usize = 1000;
/// More than the cache has of its own, less than it has with what is lent.
const KEYS: u32 = 24_000;
/// After so long without a write, buffers are idle.
const REST: Duration = Duration::from_secs(2);

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Cellar {
    db: Db,
    clock: Arc<ManualClock>,
}

impl Cellar {
    fn options(fs: &MemFs) -> (Options, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
        let layout = Layout { compression: Compression::None, ..Layout::default() };
        let options = Options::new().fs(Arc::new(fs.clone())).background_threads(0).memory(BUDGET).seed(1);
        (options.layout(layout).clock(clock.clone()), clock)
    }

    /// A database of [`KEYS`] pairs, which has settled.
    fn filled(dir: &str) -> Cellar {
        let (options, clock) = Cellar::options(&MemFs::new());
        let cellar = Cellar { db: options.open(Path::new(dir)).unwrap(), clock };
        (0..KEYS).for_each(|n| cellar.put(n));
        cellar.db.compact_range(..).unwrap();
        cellar.work();
        cellar
    }

    /// Does what is due.
    fn work(&self) {
        while self.db.step().unwrap() {}
    }

    fn put(&self, n: u32) {
        self.db.put(n.to_be_bytes(), value(n)).unwrap();
        if n.is_multiple_of(100) {
            self.work();
        }
    }

    fn rest(&self) {
        for _ in 0..2 {
            self.clock.advance(REST);
            self.work();
        }
    }

    /// Reads every key, and says how many bytes of files that took.
    fn read_all(&self) -> u64 {
        let before = self.bytes_read();
        for n in 0..KEYS {
            let n = n * 7 % KEYS;
            assert_eq!(&*self.db.get(n.to_be_bytes()).unwrap().unwrap(), value(n));
        }
        self.bytes_read() - before
    }

    /// Has in the cache what fits there.
    fn warm(&self) {
        (0..2).for_each(|_| {
            self.read_all();
        });
    }

    fn bytes_read(&self) -> u64 {
        self.db.default().stats().counters.bytes_read
    }

    fn lent(&self) -> u64 {
        self.db.stats().block_cache_lent_bytes
    }

    fn capacity(&self) -> u64 {
        self.db.stats().block_cache_capacity_bytes
    }

    fn set(&self, knob: &Knob, percent: f64) {
        self.db.control().apply(Change::new("test", "less").set(knob, percent)).unwrap();
    }

    /// Reads until nothing of a loan is held any more: each read may advance the epoch.
    fn until_returned(&self) {
        for n in 0..2_000_000u32 {
            if self.lent() == 0 {
                return;
            }
            assert_eq!(&*self.db.get((n % KEYS).to_be_bytes()).unwrap().unwrap(), value(n % KEYS));
        }
        panic!("{} bytes are not returned", self.lent());
    }
}

/// What is put under `n`: bytes that do not repeat.
fn value(n: u32) -> Vec<u8> {
    let mut word = u64::from(n) + 1;
    let mut value = Vec::with_capacity(VALUE_BYTES + 8);
    while value.len() < VALUE_BYTES {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend_from_slice(&(word >> 8).to_le_bytes());
    }
    value.truncate(VALUE_BYTES);
    value
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_database_that_rests_reads_nothing_from_files_if_its_data_fit_with_idle_write_buffers() {
    let _alone = alone();
    let cellar = Cellar::filled("/db");
    cellar.warm();
    assert!(cellar.read_all() > MIB, "they do not fit what the cache has of its own");
    let (own, held) = (cellar.capacity(), CHUNKS.held_bytes());
    assert!(own < 21 * MIB && cellar.lent() == 0);

    cellar.rest();
    assert_eq!(cellar.lent(), LENT, "four buffers of 4 MiB without one, and 4 MiB");
    let capacity = cellar.capacity();
    assert!(capacity.abs_diff(own + LENT) < MIB / 4, "{capacity} after {own}");
    cellar.read_all();
    assert_eq!(cellar.read_all(), 0);
    assert!(cellar.db.stats().block_cache_bytes > own, "{} bytes", cellar.db.stats().block_cache_bytes);
    let memory = cellar.db.control().observe().memory;
    assert_eq!((memory.lent_bytes, memory.cache_capacity_bytes), (LENT, cellar.capacity()));
    assert!(CHUNKS.held_bytes() as u64 <= (held as u64).max(4 * BUFFER), "{held}");
}

#[test]
#[cfg_attr(miri, ignore)]
fn writers_that_come_back_get_their_memory_before_memtables_need_it() {
    let _alone = alone();
    let cellar = Cellar::filled("/db");
    let own = cellar.capacity();
    cellar.rest();
    cellar.warm();
    assert!(cellar.lent() == LENT && CHUNKS.held_bytes() as u64 > 2 * MIB);
    // Writers fill more than a buffer, which no worker flushes yet.
    let mut called_in_at = None;
    for n in 0..12 * KEYS / 24 {
        cellar.db.put(n.to_be_bytes(), value(n)).unwrap();
        let memtables = cellar.db.default().stats().memtable_bytes;
        if cellar.lent() < LENT {
            called_in_at.get_or_insert(memtables);
            assert_eq!(cellar.lent(), 0, "no reader holds any of it");
        }
        assert!(memtables + cellar.lent() <= 4 * BUFFER + BUFFER / 4, "{memtables}");
        // The chunks of memtables begin small, and the last is not full.
        assert!(CHUNKS.held_bytes() as u64 <= 4 * BUFFER + 2 * MIB, "{}", CHUNKS.held_bytes());
    }
    let called_in_at = called_in_at.unwrap();
    assert!(called_in_at > BUFFER && called_in_at < 2 * BUFFER, "{called_in_at}");
    cellar.work();
    // The tables are others now.
    assert!(cellar.lent() == 0 && cellar.capacity().abs_diff(own) < MIB / 4, "{}", cellar.capacity());
    assert!(cellar.db.stats().block_cache_bytes <= cellar.capacity());
    // And it is lent again, and again.
    cellar.rest();
    assert_eq!(cellar.lent(), LENT);
    cellar.warm();
    assert_eq!(cellar.read_all(), 0);
}

#[test]
#[cfg_attr(miri, ignore)]
fn slices_that_readers_hold_keep_their_chunks_for_a_while_and_all_come_back() {
    let _alone = alone();
    let cellar = Cellar::filled("/db");
    cellar.rest();
    cellar.warm();
    let slices: Vec<(u32, Slice)> = (0..KEYS)
        .step_by(KEYS as usize / 300)
        .map(|n| (n, cellar.db.get(n.to_be_bytes()).unwrap().unwrap()))
        .collect();
    (0..9 * KEYS / 24).for_each(|n| cellar.db.put(n.to_be_bytes(), value(n)).unwrap());
    // A slice holds the pages of its block, and not the chunk of a mebibyte that they lie in.
    let held = cellar.lent();
    assert!(held > 0 && held < MIB, "{held} bytes are held by slices");
    cellar.work();
    // What slices hold is nobody else's: the cache gives way where memtables need the rest.
    let memory = cellar.db.control().observe().memory;
    assert_eq!(memory.lent_bytes, held);
    let divided = memory.cache_capacity_bytes + memory.lent_bytes + memory.memtable_bytes;
    assert!(divided <= BUDGET - 28 * MIB, "{memory:?}");
    assert!(slices.iter().all(|(n, slice)| **slice == value(*n)[..]));
    drop(slices);
    cellar.until_returned();
    assert!(CHUNKS.held_bytes() as u64 <= 4 * BUFFER + 2 * MIB);
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_trickle_of_writes_neither_calls_in_nor_lends_anew() {
    let _alone = alone();
    let cellar = Cellar::filled("/db");
    cellar.rest();
    cellar.warm();
    for n in 0..500u32 {
        cellar.db.put(n.to_be_bytes(), value(n)).unwrap();
        cellar.clock.advance(Duration::from_secs(5));
        cellar.work();
        assert_eq!(cellar.lent(), LENT, "{n}");
    }
    assert_eq!(cellar.read_all(), 0);
    // They come from two keyspaces, of which none fills a buffer, and reach what is kept back.
    let other = cellar.db.keyspace("other").unwrap();
    let mut both = 0;
    for n in 0.. {
        other.put(u32::to_be_bytes(n), value(n)).unwrap();
        cellar.db.put(n.to_be_bytes(), value(n)).unwrap();
        both = other.stats().memtable_bytes + cellar.db.default().stats().memtable_bytes;
        if cellar.lent() == 0 {
            break;
        }
        assert!(both < 2 * BUFFER);
    }
    assert!(both > BUFFER && other.stats().sealed_memtables == 0, "{both}");
}

#[test]
#[cfg_attr(miri, ignore)]
fn what_was_set_for_buffers_and_cache_is_obeyed_also_while_something_is_lent() {
    let _alone = alone();
    let cellar = Cellar::filled("/db");
    cellar.rest();
    cellar.warm();
    assert_eq!(cellar.lent(), LENT);
    cellar.set(&knob::CACHE_PERCENT, 10.0);
    cellar.until_returned();
    cellar.rest();
    assert_eq!((cellar.lent(), cellar.capacity()), (0, 36 * MIB / 10));

    let cellar = Cellar::filled("/other");
    cellar.rest();
    cellar.warm();
    cellar.set(&knob::WRITE_BUFFER_PERCENT, 20.0);
    cellar.until_returned();
    cellar.rest();
    assert_eq!(cellar.lent(), 0, "what was set for write buffers is theirs");
}

#[test]
#[cfg_attr(miri, ignore)]
fn two_databases_of_a_process_each_lend_their_own() {
    let _alone = alone();
    let (one, two) = (Cellar::filled("/one"), Cellar::filled("/two"));
    for cellar in [&one, &two] {
        cellar.rest();
        cellar.warm();
        assert_eq!((cellar.lent(), cellar.read_all()), (LENT, 0));
    }
    (0..KEYS / 3).for_each(|n| one.db.put(n.to_be_bytes(), value(n)).unwrap());
    one.until_returned();
    assert_eq!((two.lent(), two.read_all()), (LENT, 0));
    let slice = one.db.get(7u32.to_be_bytes()).unwrap().unwrap();
    one.rest();
    one.warm();
    assert!(one.lent() > 0);
    // The other one goes, by a close, and this one by a drop.
    let of_two = two.db.get(9u32.to_be_bytes()).unwrap().unwrap();
    two.db.close().unwrap();
    one.read_all();
    drop(one);
    assert_eq!((&*slice, &*of_two), (&value(7)[..], &value(9)[..]));
    drop((slice, of_two));
    let cellar = Cellar::filled("/three");
    for _ in 0..200 {
        cellar.read_all();
        if CHUNKS.held_bytes() as u64 <= 4 * BUFFER {
            return;
        }
    }
    panic!("{} bytes of chunks are held by nobody", CHUNKS.held_bytes());
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_read_only_database_keeps_no_memory_for_writers() {
    let _alone = alone();
    let fs = MemFs::new();
    let (options, _) = Cellar::options(&fs);
    let db = options.open("/db").unwrap();
    (0..KEYS).for_each(|n| db.put(n.to_be_bytes(), value(n)).unwrap());
    db.flush().unwrap();
    let own = db.stats().block_cache_capacity_bytes;
    db.close().unwrap();
    let (options, clock) = Cellar::options(&fs);
    let cellar = Cellar { db: options.read_only(true).open("/db").unwrap(), clock };
    assert!(cellar.capacity() > own + 15 * MIB, "{} and {own}", cellar.capacity());
    cellar.warm();
    assert_eq!(cellar.read_all(), 0);
}
