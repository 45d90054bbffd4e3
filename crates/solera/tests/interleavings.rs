//! Tests of the engine where threads meet, run through many orders of its steps by
//! `.ci/interleavings`.
//!
//! With `--cfg shuttle` the engine's locks and atomics (src/sync.rs) ask a scheduler which thread
//! goes on. Half of the orders are random, half are of few changes of priorities (PCT, Burckhardt
//! et al. 2010). A failure prints the schedule that repeats it. Tested: memtable readers beside a
//! writer, blocks evicted under readers, whole batches, group commits, the ends of logs,
//! transactions, memory that is split anew.
//!
//! What this does not see: orders that only weak memory allows, and steps inside of crossbeam-epoch
//! and the file system. All threads are one to crossbeam-epoch, so a missing guard is not found.
#![cfg(shuttle)]

use shuttle::{
    Config, MaxSteps, Runner,
    rand::{Rng, thread_rng},
    scheduler::{PctScheduler, RandomScheduler},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};
use solera::{
    Db, Durability, Error, ManualClock, Options, Slice,
    cache::{Cache, Slots},
    control::{Change, knob},
    cursor::{Cursor, Probe},
    ids::Seqno,
    key::{self, Kind},
    memtable::Memtable,
    pin::{Pin, PinHeader},
    vfs::mem::{MemFs, Persist},
};
use std::{
    ptr::NonNull,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

const DIR: &str = "/db";
/// Switches of priority that PCT makes: as many as a race needs it finds.
const DEPTH: usize = 3;

/// Runs `test` in `orders` orders; times `INTERLEAVINGS`, if that is set.
fn explore(orders: usize, test: impl Fn() + Send + Sync + 'static) {
    let times = std::env::var("INTERLEAVINGS").map_or(1, |times| times.parse().expect("a number"));
    let seed = std::env::var("SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::FailAfter(5_000_000);
    config.silence_warnings = true;
    let test = Arc::new(test);
    let again = test.clone();
    let orders = (orders * times).div_ceil(2);
    Runner::new(RandomScheduler::new_from_seed(seed, orders), config.clone()).run(move || test());
    Runner::new(PctScheduler::new_from_seed(seed, DEPTH, orders), config).run(move || again());
}

fn spawn_all(threads: Vec<Box<dyn FnOnce() + Send>>) {
    let threads: Vec<_> = threads.into_iter().map(thread::spawn).collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
}

/// Entries that the memtable has before readers come: so many that splits of leaves and of inner
/// nodes are met.
const BEFORE_MAX: u64 = 300;

fn readers_follow_a_writer(orders: usize, key: fn(u64) -> Vec<u8>) {
    explore(orders, move || {
        let memtable = Memtable::new();
        let before = thread_rng().gen_range(0..BEFORE_MAX);
        let last = before + 4;
        let value = |seqno: Seqno| seqno.to_le_bytes();
        (1..=before).for_each(|seqno| memtable.insert(&key(seqno), seqno, Kind::Put, &[&value(seqno)]));
        let published = Arc::new(AtomicU64::new(before));
        let writes = (memtable.clone(), published.clone());
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = vec![Box::new(move || {
            for seqno in before + 1..=last {
                writes.0.insert(&key(seqno), seqno, Kind::Put, &[&value(seqno)]);
                writes.1.store(seqno, Ordering::Release);
            }
        })];
        for reader in 0..2 {
            let (memtable, published) = (memtable.clone(), published.clone());
            threads.push(Box::new(move || {
                let snapshot = published.load(Ordering::Acquire);
                // The newest entries are where the writer is.
                for seqno in snapshot.saturating_sub(2).max(1)..=snapshot {
                    let wanted = key(seqno);
                    let probe = Probe { key: &wanted, hash: key::hash(&wanted), snapshot };
                    let found = memtable.lookup(&probe, |hit| (hit.seqno, hit.value().to_vec()));
                    let (found, bytes) = found.expect("published");
                    assert!(seqno <= found && found <= snapshot && bytes == value(found));
                }
                let mut cursor = memtable.cursor();
                let backwards = reader == 1;
                if backwards { cursor.seek_last() } else { cursor.seek_first() }
                    .expect("memory does not fail");
                let (mut seen, mut previous) = (0, None);
                while cursor.valid() {
                    let here = (cursor.key().to_vec(), std::cmp::Reverse(cursor.seqno()));
                    assert_eq!((&here.0, cursor.value()), (&key(here.1.0), &value(here.1.0)[..]));
                    seen += u64::from(here.1.0 <= snapshot);
                    if let Some(previous) = previous {
                        assert!(if backwards { here < previous } else { previous < here });
                    }
                    previous = Some(here);
                    if backwards { cursor.prev() } else { cursor.next() }.expect("memory does not fail");
                }
                assert_eq!(seen, snapshot, "everything published is walked over, once");
            }));
        }
        spawn_all(threads);
    });
}

#[test]
fn readers_find_scattered_keys_while_they_are_written() {
    readers_follow_a_writer(300, |seqno| (seqno as u16).wrapping_mul(40_503).to_be_bytes().to_vec());
}

#[test]
fn readers_find_ascending_keys_while_they_are_written() {
    readers_follow_a_writer(300, |seqno| seqno.to_be_bytes().to_vec());
}

#[test]
fn readers_find_versions_of_few_keys_while_they_are_written() {
    readers_follow_a_writer(300, |seqno| (seqno % 5 * (seqno % 2)).to_be_bytes().to_vec());
}

#[test]
fn readers_find_descending_keys_while_they_are_written() {
    readers_follow_a_writer(300, |seqno| (u64::MAX - seqno).to_be_bytes().to_vec());
}

#[test]
fn readers_find_keys_with_long_prefixes_while_they_are_written() {
    readers_follow_a_writer(300, |seqno| {
        [&vec![b'/'; seqno as usize % 3 * 20][..], &(seqno as u16).wrapping_mul(40_503).to_be_bytes()]
            .concat()
    });
}

#[test]
fn a_reader_beside_a_split_finds_both_halves() {
    explore(6000, || {
        let memtable = Memtable::new();
        // Even numbers fill a leaf or a few; the odd one splits some leaf, or a node above.
        let before = thread_rng().gen_range(14..60u64);
        let key = |number: u64| number.to_be_bytes();
        (0..before).for_each(|i| memtable.insert(&key(2 * i), i + 1, Kind::Put, &[]));
        let odd = 2 * thread_rng().gen_range(0..before) + 1;
        let writes = memtable.clone();
        let mut threads: Vec<Box<dyn FnOnce() + Send>> =
            vec![Box::new(move || writes.insert(&key(odd), before + 1, Kind::Put, &[]))];
        for _ in 0..2 {
            let memtable = memtable.clone();
            threads.push(Box::new(move || {
                let mut cursor = memtable.cursor();
                cursor.seek_last().expect("memory does not fail");
                assert!(cursor.valid() && cursor.key() >= &key(2 * before - 2)[..]);
                for even in
                    (odd.saturating_sub(9)..odd + 16).filter(|number| number % 2 == 0 && *number < 2 * before)
                {
                    cursor.seek_before(&key(even + 2)).expect("memory does not fail");
                    assert!(cursor.valid() && cursor.key() >= &key(even)[..], "{even} is there, {odd} comes");
                    cursor.seek(&key(even)).expect("memory does not fail");
                    assert!(cursor.valid() && cursor.key() == &key(even)[..], "{even} is there, {odd} comes");
                }
            }));
        }
        spawn_all(threads);
    });
}

/// A block that says when it is released.
#[repr(C)]
struct Witness {
    header: PinHeader,
    number: usize,
    released: Arc<AtomicBool>,
}

impl Witness {
    fn pin(number: usize) -> Pin {
        let header = PinHeader::new(release);
        let witness = Box::leak(Box::new(Witness { header, number, released: Arc::default() }));
        // SAFETY: repr(C) with the header first, immutable, Send + Sync, and its one reference is
        // ours.
        unsafe { Pin::from_raw(NonNull::from(witness).cast()) }
    }

    fn of(pin: &Pin) -> &Witness {
        // SAFETY: this test puts nothing but witnesses into slots.
        unsafe { pin.as_ptr().cast::<Witness>().as_ref() }
    }
}

/// # Safety
/// `header` begins a witness that `Witness::pin` made, and nothing refers to it any more.
unsafe fn release(header: NonNull<PinHeader>) {
    // SAFETY: `pin` leaked this box.
    let witness = unsafe { Box::from_raw(header.cast::<Witness>().as_ptr()) };
    witness.released.store(true, Ordering::SeqCst);
}

#[test]
fn what_a_reader_found_in_the_cache_outlives_its_eviction() {
    explore(4000, || {
        let cache = Cache::new(250);
        let tables = [Slots::new(&cache, 3), Slots::new(&cache, 3)];
        let reader = |moves: u64| {
            let (tables, cache) = (tables.clone(), cache.clone());
            Box::new(move || {
                for step in 0..6 {
                    let number = thread_rng().gen_range(0..6usize);
                    let slots = &tables[number / 3];
                    let guard = crossbeam_epoch::pin();
                    match slots.get(number % 3, &guard) {
                        Some(pin) => {
                            let released = Witness::of(&pin).released.clone();
                            for _ in 0..3 {
                                assert!(!released.load(Ordering::SeqCst), "released under a guard");
                                assert_eq!(Witness::of(&pin).number, number);
                                thread::yield_now();
                            }
                        }
                        None => slots.insert(number % 3, Witness::pin(number), 100),
                    }
                    if step == moves {
                        cache.set_capacity(if moves.is_multiple_of(2) { 120 } else { 250 });
                    }
                }
            }) as Box<dyn FnOnce() + Send>
        };
        let readers = (0..3).map(reader).collect();
        spawn_all(readers);
        let guard = crossbeam_epoch::pin();
        let full =
            tables.iter().flat_map(|slots| (0..3).filter(|&i| slots.peek(i, &guard).is_some())).count();
        assert!(cache.used() == 100 * full && cache.used() <= cache.capacity(), "{full} of {cache:?}");
        drop(tables);
        assert_eq!(cache.used(), 0);
    });
}

fn open(fs: &MemFs) -> Db {
    let options = Options::new().memory(4 << 20).write_buffer(16 << 10).background_threads(0).seed(1);
    options.fs(Arc::new(fs.clone())).open(DIR).expect("the file system does not fail")
}

fn number(value: Option<Slice>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("8 bytes")))
}

/// Writes `value` under both keys.
fn write_pair(db: &Db, value: u64, durability: Durability) -> Result<Seqno, Error> {
    let mut batch = db.batch();
    batch.put(db.default(), b"a", &value.to_le_bytes())?;
    batch.put(db.default(), b"b", &value.to_le_bytes())?;
    batch.durability(durability);
    db.write(batch)
}

#[test]
fn readers_see_whole_batches_and_never_an_older_one_while_versions_are_published() {
    explore(300, || {
        let db = Arc::new(open(&MemFs::new()));
        write_pair(&db, 1, Durability::Buffered).unwrap();
        let writes = db.clone();
        let (moves, flushes) = (db.clone(), db.clone());
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(move || {
                for value in 2..6 {
                    write_pair(&writes, value, Durability::Buffered).unwrap();
                }
            }),
            Box::new(move || {
                moves.flush().unwrap();
                moves.compact_range(..).unwrap();
            }),
            // A memtable is sealed while the other thread installs tables.
            Box::new(move || (0..3).for_each(|_| flushes.flush().unwrap())),
        ];
        for _ in 0..2 {
            let db = db.clone();
            threads.push(Box::new(move || {
                let mut before = 1;
                for _ in 0..3 {
                    let snapshot = db.snapshot();
                    let pair = [b"a", b"b"].map(|key| number(snapshot.get(db.default(), key).unwrap()));
                    assert!(pair[0] == pair[1] && pair[0] >= before, "{pair:?} after {before}");
                    let walked: Vec<u64> =
                        snapshot.iter(db.default()).map(|entry| number(Some(entry.unwrap().1))).collect();
                    assert_eq!(walked, pair);
                    before = pair[0];
                    let now = number(db.get(b"a").unwrap());
                    assert!(now >= before, "{now} after {before}");
                    before = now;
                }
            }));
        }
        spawn_all(threads);
        assert_eq!(number(db.get(b"b").unwrap()), 5);
    });
}

#[test]
fn every_writer_of_a_group_gets_its_own_number_and_what_it_was_promised() {
    explore(400, || {
        let fs = MemFs::new();
        let db = Arc::new(open(&fs));
        // Of each writer the newest value that is promised to be durable.
        let promised: Arc<[AtomicU64; 3]> = Arc::default();
        let seqnos = Arc::new(shuttle::sync::Mutex::new(Vec::new()));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for writer in 0..3u8 {
            let (db, promised, seqnos) = (db.clone(), promised.clone(), seqnos.clone());
            threads.push(Box::new(move || {
                for value in 1..4u64 {
                    let durability = if (value + u64::from(writer)) % 2 == 0 {
                        Durability::Sync
                    } else {
                        Durability::Buffered
                    };
                    let mut batch = db.batch();
                    batch.put(db.default(), &[writer, 0], &value.to_le_bytes()).unwrap();
                    batch.put(db.default(), &[writer, 1], &value.to_le_bytes()).unwrap();
                    batch.durability(durability);
                    let seqno = db.write(batch).unwrap();
                    assert!(db.last_seqno() >= seqno, "acknowledged before it is visible");
                    assert_eq!(number(db.get(&[writer, 1]).unwrap()), value, "one reads one's own write");
                    seqnos.lock().unwrap().push((seqno, writer, value));
                    if durability == Durability::Sync {
                        promised[usize::from(writer)].store(value, Ordering::SeqCst);
                    }
                }
            }));
        }
        let power_cut = {
            let promised = promised.clone();
            move || {
                let promised = [0, 1, 2].map(|writer: usize| promised[writer].load(Ordering::SeqCst));
                let db = open(&fs.crash(Persist::Nothing, 1));
                for (writer, promised) in (0u8..).zip(promised) {
                    let pair = [0, 1].map(|key| number(db.get(&[writer, key]).unwrap()));
                    let kept = pair[0] == pair[1] && pair[0] >= promised;
                    assert!(kept, "{pair:?} of writer {writer}, promised {promised}");
                }
            }
        };
        let amid = power_cut.clone();
        threads.push(Box::new(move || (0..3).for_each(|_| amid())));
        spawn_all(threads);
        power_cut();
        let mut seqnos = std::mem::take(&mut *seqnos.lock().unwrap());
        seqnos.sort();
        assert_eq!(
            seqnos.iter().map(|(seqno, ..)| *seqno).collect::<Vec<_>>(),
            (1..=9).map(|n| 2 * n).collect::<Vec<_>>()
        );
        for writer in 0..3u8 {
            let values: Vec<u64> = seqnos.iter().filter(|of| of.1 == writer).map(|of| of.2).collect();
            assert_eq!(values, [1, 2, 3], "a writer's order is the commit order");
        }
    });
}

/// Puts of each writer. A log holds two: it ends when it is as long as a write buffer.
const PUTS: u64 = 18;

/// Two writers come to the ends of logs while others make those durable and the next ones ready
/// (docs/decisions/0004). What is found of each after a power cut, whatever that left, is what it
/// wrote up to some moment, with all that was promised; after a kill, all that was acknowledged.
#[test]
fn logs_that_end_while_others_settle_them_lose_nothing() {
    explore(400, || {
        let fs = MemFs::new();
        let options = || Options::new().memory(1 << 20).write_buffer(4 << 10).background_threads(0).seed(1);
        let open = move |fs: &MemFs| options().fs(Arc::new(fs.clone())).open(DIR).expect("it opens");
        let db = Arc::new(open(&fs));
        // How many puts of each writer are acknowledged, and how many are promised to be durable.
        let [acknowledged, promised]: [Arc<[AtomicU64; 2]>; 2] = Default::default();
        let load =
            |counts: &[AtomicU64; 2]| [0, 1].map(|writer: usize| counts[writer].load(Ordering::SeqCst));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for writer in 0..2u8 {
            let (db, acknowledged, promised) = (db.clone(), acknowledged.clone(), promised.clone());
            threads.push(Box::new(move || {
                for put in 1..=PUTS {
                    db.put(&[writer, put as u8], &[writer; 2000]).unwrap();
                    acknowledged[usize::from(writer)].store(put, Ordering::SeqCst);
                    if writer == 1 && put % 5 == 0 {
                        let before = load(&acknowledged);
                        db.sync().unwrap();
                        promised
                            .iter()
                            .zip(before)
                            .for_each(|(promised, put)| promised.store(put, Ordering::SeqCst));
                    }
                }
            }));
        }
        for _ in 0..2 {
            let db = db.clone();
            threads.push(Box::new(move || (0..3).for_each(|_| db.wait_idle().unwrap())));
        }
        let look = {
            let (acknowledged, promised) = (acknowledged.clone(), promised.clone());
            move || {
                let (acknowledged, promised) = (load(&acknowledged), load(&promised));
                let random = thread_rng().gen_range(0..1000usize);
                let images = [
                    (fs.kill(), acknowledged),
                    (fs.crash(Persist::Nothing, 1), promised),
                    (fs.crash(Persist::ALL[random % Persist::ALL.len()], random as u64), promised),
                ];
                for (image, least) in images {
                    let db = open(&image);
                    for (writer, least) in (0u8..).zip(least) {
                        let is_there = |put: u64| db.get(&[writer, put as u8]).unwrap().is_some();
                        let first_lost = (1..=PUTS).find(|&put| !is_there(put)).unwrap_or(PUTS + 1);
                        assert!(
                            first_lost > least,
                            "{first_lost} of writer {writer} is lost, {least} were promised"
                        );
                        assert!(
                            !(first_lost..=PUTS).any(is_there),
                            "only {first_lost} of writer {writer} is lost"
                        );
                    }
                }
            }
        };
        let amid = look.clone();
        threads.push(Box::new(move || (0..3).for_each(|_| amid())));
        spawn_all(threads);
        look();
    });
}

#[test]
fn of_transactions_that_read_and_write_one_key_no_increment_is_lost() {
    explore(300, || {
        let db = Arc::new(open(&MemFs::new()));
        let committed = Arc::new(AtomicU64::new(0));
        let mut threads: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
        for _ in 0..3 {
            let (db, committed) = (db.clone(), committed.clone());
            threads.push(Box::new(move || {
                for _ in 0..2 {
                    let mut transaction = db.transaction();
                    let before = number(transaction.get(db.default(), b"n").unwrap());
                    transaction.put(db.default(), b"n", &(before + 1).to_le_bytes()).unwrap();
                    match transaction.commit() {
                        Ok(_) => _ = committed.fetch_add(1, Ordering::SeqCst),
                        Err(Error::Conflict) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }));
        }
        let flushes = db.clone();
        threads.push(Box::new(move || flushes.flush().unwrap()));
        spawn_all(threads);
        let committed = committed.load(Ordering::SeqCst);
        assert!(committed > 0 && number(db.get(b"n").unwrap()) == committed);
    });
}

/// Symptom: a change of `write_buffer_percent` could poison a database. Cause: a thread that fitted
/// the cache meanwhile compared what was lent under the old split with the new one. Cure: the split
/// changes while nobody deals the memory out.
#[test]
fn a_change_of_write_buffers_beside_a_fit_panics_nobody() {
    explore(200, || {
        let clock = Arc::new(ManualClock::at_unix_ms(1_700_000_000_000));
        let options = Options::new().memory(64 << 20).background_threads(0).seed(1).clock(clock.clone());
        let db = Arc::new(options.fs(Arc::new(MemFs::new())).open(DIR).unwrap());
        for _ in 0..2 {
            clock.advance(Duration::from_secs(2));
            while db.step().unwrap() {}
        }
        assert!(db.stats().block_cache_lent_bytes > 0);
        db.put("a", "1").unwrap();
        let changes = db.clone();
        spawn_all(vec![
            Box::new(move || db.flush().unwrap()),
            Box::new(move || {
                let less = Change::new("test", "less").set(&knob::WRITE_BUFFER_PERCENT, 10.0);
                changes.control().apply(less).unwrap();
            }),
        ]);
    });
}
