//! Tests of queues, through `Db`: what was popped costs nothing any more.
//!
//! Keys that walks passed are counted, not timed: a queue without history passes none. Pops pass a
//! few keys each, however many were popped before, also by transactions, under very many prefixes,
//! of long keys, in rings, with expiries, and after reopening. A snapshot sees what was popped
//! after it, an entry put into a gap is seen at once, and conflicts. Readers see what a map says.
//! A queue that was emptied in memory leaves nothing on disk.

use solera::{Db, Error, Iter, Keyspace, Options, Shape, Snapshot, TransactionIter, vfs::mem::MemFs};
use std::{collections::VecDeque, sync::Arc};

const DIR: &str = "/db";
/// Keys that a pop may pass in the mean: what was popped since the last gap was learned, and as
/// many again to know that a gap begins.
const PASSED_MEAN: u64 = 6;

fn options(fs: &Arc<MemFs>) -> Options {
    let shape = Shape { table_bytes: 64 << 10, ..Shape::default() };
    Options::new()
        .memory(8 << 20)
        .write_buffer(256 << 10)
        .shape(shape)
        .background_threads(0)
        .seed(1)
        .fs(fs.clone())
}

fn open() -> Db {
    options(&Arc::new(MemFs::new())).open(DIR).unwrap()
}

/// Everything stays in the memtable.
fn open_in_memory() -> Db {
    options(&Arc::new(MemFs::new())).memory(512 << 20).write_buffer(128 << 20).open(DIR).unwrap()
}

fn key(n: u32) -> Vec<u8> {
    format!("job{n:010}").into_bytes()
}

fn passed(db: &Db) -> u64 {
    db.stats().keyspaces.iter().map(|keyspace| keyspace.counters.entries_passed).sum()
}

fn push(keyspace: &Keyspace, n: u32) {
    keyspace.put(key(n), n.to_le_bytes()).unwrap();
}

fn first_of(
    mut iter: impl Iterator<Item = solera::Result<(solera::Slice, solera::Slice)>>,
) -> Option<Vec<u8>> {
    iter.next().map(|entry| entry.unwrap().0.to_vec())
}

fn first(iter: Iter) -> Option<Vec<u8>> {
    first_of(iter)
}

fn last(mut iter: Iter) -> Option<Vec<u8>> {
    iter.next_back().map(|entry| entry.unwrap().0.to_vec())
}

fn pop(keyspace: &Keyspace, end: impl Fn(Iter) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let found = end(keyspace.iter())?;
    keyspace.delete(&found).unwrap();
    Some(found)
}

/// Pops all of `expected`, in this order, and says how many keys were passed for each.
fn pop_all(
    db: &Db,
    keyspace: &Keyspace,
    end: impl Fn(Iter) -> Option<Vec<u8>>,
    expected: impl ExactSizeIterator<Item = u32>,
) {
    let (before, pops) = (passed(db), expected.len() as u64);
    for n in expected {
        assert_eq!(pop(keyspace, &end), Some(key(n)));
    }
    let steps = passed(db) - before;
    assert!(steps <= pops * PASSED_MEAN, "{steps} keys passed in {pops} pops");
}

/// Symptom: 12 µs for a pop after 1,024 pops, 320 after 30,000: a queue took time quadratic in its
/// length. Cause: each walk to the first entry passed all deletes in front of it. Cure: what a walk
/// found to be a gap, the next one crosses by a seek.
#[test]
fn pops_pass_a_few_keys_each_however_many_were_popped_before() {
    for db in [open_in_memory(), open()] {
        let queue = db.default();
        (0..30_000).for_each(|n| push(queue, n));
        pop_all(&db, queue, first, 0..15_000);
        pop_all(&db, queue, last, (15_001..30_000).rev());
        assert_eq!(pop(queue, last), Some(key(15_000)));
        assert_eq!((first(queue.iter()), last(queue.iter())), (None, None));
    }
}

/// Symptom: a reader as of a moment right before the newest pop passed 253, 1,002 and 2,002 keys in
/// the mean after 1,000, 4,000 and 8,000 pops. Cause: each pop makes the gap one for later readers
/// alone, and it hid what it was before. Cure: a large gap keeps earlier selves.
#[test]
fn a_reader_of_a_while_ago_passes_about_as_many_keys_as_were_popped_since() {
    for (pops, lag, most) in [(1000, 1, 8), (8000, 1, 8), (8000, 20, 32), (8000, 300, 400)] {
        for (end, is_front) in [(first as fn(Iter) -> Option<Vec<u8>>, true), (last, false)] {
            let db = open_in_memory();
            let queue = db.default();
            let nth = |n: u32| key(if is_front { n } else { 2 * pops - 1 - n });
            (0..2 * pops).for_each(|n| push(queue, n));
            let (mut held, mut steps, mut steps_max) = (VecDeque::new(), 0, 0);
            for n in 0..pops {
                held.push_back(db.snapshot());
                assert_eq!(pop(queue, end), Some(nth(n)));
                let before = passed(&db);
                let oldest: &Snapshot = held.front().unwrap();
                assert_eq!(end(oldest.iter(queue)), Some(nth(n + 1 - held.len() as u32)));
                steps += passed(&db) - before;
                steps_max = steps_max.max(passed(&db) - before);
                if held.len() == lag {
                    held.pop_front();
                }
            }
            let mean = steps / u64::from(pops);
            assert!(mean <= most, "{mean} keys passed by a reader {lag} pops ago, after {pops}");
            assert!(steps_max <= 4 * lag as u64 + 80, "{steps_max} by one reader {lag} pops ago");
        }
    }
}

/// As of any moment the walk passes fewer keys than were popped since, and a few.
#[test]
fn however_old_a_snapshot_is_its_first_walk_passes_no_more_than_was_popped_since() {
    const POPS: u32 = 6000;
    let db = open_in_memory();
    let queue = db.default();
    (0..POPS + 1).for_each(|n| push(queue, n));
    let mut held = Vec::new();
    for n in 0..POPS {
        if n % 97 == 0 {
            held.push((n, db.snapshot()));
        }
        assert_eq!(pop(queue, first), Some(key(n)));
    }
    for (n, snapshot) in held {
        let before = passed(&db);
        assert_eq!(first(snapshot.iter(queue)), Some(key(n)));
        let steps = passed(&db) - before;
        let most = u64::from((POPS - n).min(n / 2)) + 80;
        assert!(steps <= most, "{steps} keys passed as of {n} of {POPS} pops");
    }
}

/// Symptom: to pop 3,000 entries in one transaction took time quadratic in their number. Cause: no
/// gap was remembered of what the transaction itself had deleted. Cure: it notes where its walks
/// found nothing, and begins behind that.
#[test]
fn a_transaction_passes_a_few_keys_for_each_of_its_pops() {
    const ENTRIES: u32 = 3_000;
    for db in [open_in_memory(), open()] {
        let queue = db.default();
        (0..ENTRIES).for_each(|n| push(queue, n));
        let before = passed(&db);
        let mut transaction = db.transaction();
        for n in 0..ENTRIES / 2 {
            let found = first_of(transaction.iter(queue)).unwrap();
            assert_eq!(found, key(n));
            transaction.delete(queue, found).unwrap();
            let (found, _) = transaction.prefix(queue, "job").next_back().unwrap().unwrap();
            // What was popped at the back comes again every now and then.
            if n % 100 == 7 {
                transaction.put(queue, key(ENTRIES + n), "again").unwrap();
                let again = transaction.iter(queue).keys().next_back().unwrap().unwrap();
                assert_eq!(again, key(ENTRIES + n));
                transaction.delete(queue, again).unwrap();
            }
            transaction.delete(queue, found).unwrap();
        }
        assert!(transaction.iter(queue).next().is_none() && transaction.iter(queue).next_back().is_none());
        let steps = passed(&db) - before;
        assert!(steps <= u64::from(ENTRIES) * PASSED_MEAN, "{steps} keys passed");
        transaction.commit().unwrap();
        assert!(db.is_empty().unwrap());
    }
}

/// Symptom: a queue whose jobs transactions take was quadratic. Causes: as soon as anyone had
/// written meanwhile, the commit stepped over every popped key of the memtables. And a transaction
/// that wrote to the keyspace before it walked taught no gap. Cures: the commit skips gaps that
/// nobody has written into. What a transaction's own writes do not hide it learns.
#[test]
fn a_queue_that_transactions_work_costs_a_few_steps_for_each_pop() {
    const POPS: u32 = 4000;
    let ends: [fn(TransactionIter) -> Option<Vec<u8>>; 2] =
        [|iter| first_of(iter), |mut iter| iter.next_back().map(|entry| entry.unwrap().0.to_vec())];
    for (db, writes_first) in [(open_in_memory(), true), (open_in_memory(), false), (open(), true)] {
        let queue = db.default();
        (0..2 * POPS).for_each(|n| push(queue, n));
        for (end, from_back) in ends.into_iter().zip([false, true]) {
            let before = passed(&db);
            for n in 0..POPS - 1 {
                let found = db.transact(|transaction| {
                    if writes_first {
                        transaction.put(queue, "mark", n.to_le_bytes())?;
                    }
                    let found = end(transaction.prefix(queue, "job")).unwrap();
                    transaction.delete(queue, &found)?;
                    // Another writer, so that the commit has to look.
                    queue.put("other", n.to_le_bytes())?;
                    Ok(found)
                });
                assert_eq!(found.unwrap(), key(if from_back { 2 * POPS - 1 - n } else { n }));
            }
            let steps = passed(&db) - before;
            assert!(steps <= u64::from(POPS) * 8, "{steps} steps in {POPS} pops, {from_back}");
        }
        assert_eq!(queue.prefix("job").count(), 2);
    }
}

/// A commit skips gaps, and finds all the same whatever was written that it would have read.
#[test]
fn what_is_written_into_a_gap_conflicts_with_a_transaction_that_crossed_it() {
    let clock = Arc::new(solera::ManualClock::at_unix_ms(1_000_000));
    let fs = Arc::new(MemFs::new());
    let db = options(&fs).write_buffer(2 << 20).clock(clock.clone()).open(DIR).unwrap();
    let queue = db.default();
    (0..2000).for_each(|n| push(queue, n));
    pop_all(&db, queue, first, 0..1000);
    assert_eq!(first(queue.iter()), Some(key(1000)));
    let commit = |meanwhile: &dyn Fn()| {
        let mut transaction = db.transaction();
        assert_eq!(first_of(transaction.iter(queue)), Some(key(1000)));
        transaction.put(queue, "zzz", "mine").unwrap();
        meanwhile();
        transaction.commit()
    };
    let conflicts = |meanwhile: &dyn Fn()| {
        assert!(matches!(commit(meanwhile), Err(Error::Conflict)));
    };
    commit(&|| queue.put("zz", "elsewhere").unwrap()).unwrap();
    for n in [0, 1, 500, 999] {
        conflicts(&|| push(queue, n));
        queue.delete(key(n)).unwrap();
        // It is gone again, and has been there meanwhile.
        conflicts(&|| {
            push(queue, n);
            queue.delete(key(n)).unwrap();
        });
        assert_eq!(first(queue.iter()), Some(key(1000)));
    }
    conflicts(&|| {
        db.ingest([(key(20), b"in")]).unwrap();
    });
    queue.delete(key(20)).unwrap();
    assert_eq!(first(queue.iter()), Some(key(1000)));
    conflicts(&|| push(queue, 1000));
    conflicts(&|| queue.delete_range(key(500)..=key(1000)).unwrap());
    // What a transaction sees may have expired for the walk that found a gap.
    for n in 0..100 {
        db.put_with_ttl(key(n), b"soon", std::time::Duration::from_secs(5)).unwrap();
    }
    let mut transaction = db.transaction();
    assert_eq!(first_of(transaction.iter(queue)), Some(key(0)));
    transaction.put(queue, "zzz", "mine").unwrap();
    clock.advance(std::time::Duration::from_secs(6));
    assert_eq!(first(queue.iter()), Some(key(1001)));
    queue.delete(key(0)).unwrap();
    assert!(matches!(transaction.commit(), Err(Error::Conflict)));
}

/// What a transaction's own writes hide, others see: it must not take it for a gap.
#[test]
fn what_a_transaction_has_deleted_itself_is_no_gap_for_others() {
    for db in [open_in_memory(), open()] {
        let queue = db.default();
        (0..3000).for_each(|n| push(queue, n));
        (0..3000).filter(|n| n % 100 >= 40).for_each(|n| queue.delete(key(n)).unwrap());
        let expected: Vec<Vec<u8>> = (0..3000).filter(|n| n % 100 < 40).map(key).collect();
        let all = |iter: Iter| iter.map(|entry| entry.unwrap().0.to_vec()).collect::<Vec<_>>();
        for by_range in [false, true] {
            let mut transaction = db.transaction();
            // From the middle of what is there to the middle of what is not.
            for n in (0..30).map(|n| n * 100) {
                match by_range {
                    true => transaction.delete_range(queue, key(n + 20)..key(n + 70)).unwrap(),
                    false => (n + 20..n + 70).for_each(|n| transaction.delete(queue, key(n)).unwrap()),
                }
            }
            for _ in 0..2 {
                let mine: Vec<Vec<u8>> = (0..3000).filter(|n| n % 100 < 20).map(key).collect();
                let keys = |iter: &mut dyn Iterator<Item = solera::Result<solera::Slice>>| {
                    iter.map(|key| key.unwrap().to_vec()).collect::<Vec<_>>()
                };
                assert_eq!(keys(&mut transaction.iter(queue).keys()), mine);
                assert_eq!(keys(&mut transaction.iter(queue).keys().rev()), {
                    let mut back = mine.clone();
                    back.reverse();
                    back
                });
                for n in (0..30).map(|n| n * 100 + 30) {
                    let next = (n < 2900).then(|| key(n + 70));
                    assert_eq!(first_of(transaction.range(queue, key(n)..)), next);
                }
                assert_eq!(all(queue.iter()), expected);
                let mut back: Vec<Vec<u8>> =
                    queue.iter().rev().map(|entry| entry.unwrap().0.to_vec()).collect();
                back.reverse();
                assert_eq!(back, expected);
                (0..3000).filter(|n| n % 100 < 40).for_each(|n| {
                    assert_eq!(first(queue.range(key(n)..)), Some(key(n)));
                    assert_eq!(last(queue.range(..=key(n))), Some(key(n)));
                });
            }
        }
    }
}

#[test]
fn one_look_at_an_end_passes_few_keys_after_very_many_pops() {
    let db = open_in_memory();
    let queue = db.default();
    (0..200_000).for_each(|n| push(queue, n));
    for end in [first, last] {
        (0..50_000).for_each(|_| drop(pop(queue, end)));
        let before = passed(&db);
        (0..100).for_each(|_| drop(end(queue.iter())));
        assert!(passed(&db) - before <= 100 * 8, "{}", passed(&db) - before);
    }
}

/// Symptom: a queue that never holds more than 1,000 took 189 ms for one look at its first entry.
#[test]
fn a_small_queue_that_lives_for_long_stays_cheap() {
    for db in [open_in_memory(), open()] {
        let queue = db.default();
        (0..1000).for_each(|n| push(queue, n));
        let before = passed(&db);
        for n in 0..60_000 {
            push(queue, 1000 + n);
            assert_eq!(pop(queue, first), Some(key(n)));
            if n % 1000 == 0 {
                while db.step().unwrap() {}
            }
        }
        let steps = passed(&db) - before;
        assert!(steps <= 60_000 * PASSED_MEAN, "{steps}");
        assert_eq!(queue.iter().count(), 1000);
    }
}

#[test]
fn seeks_into_what_was_popped_cost_no_more_than_looks_at_the_end() {
    let db = open_in_memory();
    let queue = db.default();
    (0..40_000).for_each(|n| push(queue, n));
    pop_all(&db, queue, first, 0..20_000);
    let before = passed(&db);
    for n in (0..20_000).step_by(97) {
        let mut iter = queue.iter();
        iter.seek(key(n)).unwrap();
        assert_eq!(iter.next().unwrap().unwrap().0, key(20_000));
        let mut iter = queue.range(key(0)..=key(n));
        assert!(iter.next_back().is_none());
    }
    assert!(passed(&db) - before <= 414 * 2, "{}", passed(&db) - before);
}

#[test]
fn a_snapshot_sees_what_was_popped_after_it_and_does_not_slow_the_others() {
    let db = open_in_memory();
    let queue = db.default();
    (0..20_000).for_each(|n| push(queue, n));
    let full = db.snapshot();
    pop_all(&db, queue, first, 0..5000);
    let some = db.snapshot();
    pop_all(&db, queue, first, 5000..15_000);
    assert_eq!(full.iter(queue).count(), 20_000);
    assert_eq!(some.iter(queue).count(), 15_000);
    // One that reads as of the past again and again learns too.
    let before = passed(&db);
    for _ in 0..1000 {
        assert_eq!(first(some.iter(queue)), Some(key(5000)));
        assert_eq!(first(full.iter(queue)), Some(key(0)));
    }
    assert!(passed(&db) - before <= 5000 + 1000 * PASSED_MEAN, "{}", passed(&db) - before);
    pop_all(&db, queue, first, 15_000..18_000);
}

#[test]
fn an_entry_that_is_put_where_others_were_popped_is_seen_at_once_and_only_by_later_readers() {
    let db = open();
    let queue = db.default();
    (0..10_000).for_each(|n| push(queue, n));
    pop_all(&db, queue, first, 0..9000);
    for n in [4000, 0, 8999, 4001, 17] {
        let before = db.snapshot();
        push(queue, n);
        assert_eq!(first(queue.iter()), Some(key(n)), "{n}");
        assert_eq!(first(before.iter(queue)), Some(key(9000)), "{n}");
        assert_eq!(last(queue.range(..key(9000))), Some(key(n)));
        assert_eq!(pop(queue, first), Some(key(n)));
    }
    let mut batch = db.batch();
    (2000..2010).for_each(|n| batch.put(queue, key(n), b"again").unwrap());
    db.write(batch).unwrap();
    db.merge(key(3), b"x").unwrap_err();
    assert_eq!(queue.range(..key(9000)).count(), 10);
    db.ingest([(key(100), b"in"), (key(101), b"in")]).unwrap();
    assert_eq!(first(queue.iter()), Some(key(100)));
    let mut transaction = db.transaction();
    transaction.put(queue, key(50), b"own").unwrap();
    assert_eq!(first_of(transaction.iter(queue)), Some(key(50)));
    transaction.delete(queue, key(50)).unwrap();
    assert_eq!(first_of(transaction.iter(queue)), Some(key(100)));
    transaction.delete_range(queue, key(0)..key(2005)).unwrap();
    assert_eq!(first_of(transaction.iter(queue)), Some(key(2005)));
    drop(transaction);
    assert_eq!(first(queue.iter()), Some(key(100)));
}

/// Many queues in one keyspace, each under a prefix of its own.
#[test]
fn queues_under_prefixes_are_as_cheap_as_queues_alone() {
    const QUEUES: u32 = 50;
    let db = open_in_memory();
    let keyspace = db.default();
    let name = |queue: u32| format!("queue{queue:03}:").into_bytes();
    let key = |queue: u32, n: u32| [name(queue), n.to_be_bytes().to_vec()].concat();
    let before = passed(&db);
    let mut pops = 0;
    for n in 0..1000 {
        for queue in 0..QUEUES {
            keyspace.put(key(queue, n), b"job").unwrap();
            let found = if queue % 2 == 0 { first } else { last }(keyspace.prefix(name(queue)));
            assert_eq!(found, Some(key(queue, n)));
            keyspace.delete(key(queue, n)).unwrap();
            pops += 1;
        }
    }
    let steps = passed(&db) - before;
    assert!(steps <= pops * 10, "{steps} in {pops}");
    assert!((0..QUEUES).all(|queue| first(keyspace.prefix(name(queue))).is_none()));
}

/// Symptom: with 257 queues in one keyspace each pop passed all that was ever popped of its queue.
/// Cause: 256 gaps were kept. Cure: as many as a part of the memory holds.
#[test]
fn very_many_queues_in_one_keyspace_are_as_cheap_as_a_few() {
    const QUEUES: u32 = 2000;
    const POPS: u32 = 100;
    let db = open_in_memory();
    let keyspace = db.default();
    let name = |queue: u32| format!("queue{queue:05}:").into_bytes();
    let key = |queue: u32, n: u32| [name(queue), n.to_be_bytes().to_vec()].concat();
    let before = passed(&db);
    for n in 0..POPS {
        for queue in 0..QUEUES {
            keyspace.put(key(queue, n), b"job").unwrap();
            let found = if queue % 2 == 0 { first } else { last }(keyspace.prefix(name(queue)));
            assert_eq!(found, Some(key(queue, n)));
            keyspace.delete(key(queue, n)).unwrap();
        }
    }
    let (steps, pops) = (passed(&db) - before, u64::from(QUEUES * POPS));
    // Until a queue has popped 32 nothing is learned of it.
    assert!(steps <= pops * 10, "{steps} in {pops}");
    assert!((0..QUEUES).all(|queue| first(keyspace.prefix(name(queue))).is_none()));
}

/// Symptom: a queue of long keys was quadratic. Cause: no gap was kept whose bounds had more than
/// 4 KiB. Cure: bounds of any length are kept, and counted.
#[test]
fn a_queue_of_long_keys_is_as_cheap_as_any() {
    for (key_bytes, entries) in [(3000, 3000u32), (60_000, 300)] {
        let key = |n: u32| [vec![b'k'; key_bytes - 4], n.to_be_bytes().to_vec()].concat();
        for db in [open_in_memory(), options(&Arc::new(MemFs::new())).memory(64 << 20).open(DIR).unwrap()] {
            let queue = db.default();
            (0..entries).for_each(|n| queue.put(key(n), b"job").unwrap());
            let before = passed(&db);
            for n in 0..entries / 2 {
                assert!(pop(queue, first) == Some(key(n)));
                assert!(pop(queue, last) == Some(key(entries - 1 - n)));
            }
            let steps = passed(&db) - before;
            // Until 32 were popped at an end nothing is learned there.
            assert!(steps <= u64::from(entries) * PASSED_MEAN + 32 * 32, "{steps} of {key_bytes} bytes");
            assert!(queue.is_empty().unwrap());
        }
    }
}

/// Calls that pop by themselves, and pops by deleted ranges, as logs are cut off in front.
#[test]
fn pops_by_calls_and_by_ranges_pass_a_few_keys_each() {
    const POPS: u32 = 6000;
    for db in [open_in_memory(), open()] {
        let queue = db.default();
        (0..3 * POPS).for_each(|n| push(queue, n));
        let before = passed(&db);
        for n in 0..POPS {
            assert_eq!(queue.pop_first().unwrap().unwrap().0, key(n));
            assert_eq!(queue.pop_last().unwrap().unwrap().0, key(3 * POPS - 1 - n));
        }
        let steps = passed(&db) - before;
        assert!(steps <= u64::from(2 * POPS) * PASSED_MEAN, "{steps} by calls");
        let before = passed(&db);
        for n in POPS..2 * POPS {
            assert_eq!(first(queue.iter()), Some(key(n)));
            queue.delete_range(..=key(n)).unwrap();
        }
        let steps = passed(&db) - before;
        assert!(steps <= u64::from(POPS) * PASSED_MEAN, "{steps} by ranges");
        assert!(queue.is_empty().unwrap());
    }
}

#[test]
fn seeks_on_disk_into_what_was_popped_cost_no_more_than_looks_at_the_end() {
    let db = open();
    let queue = db.default();
    (0..40_000).for_each(|n| push(queue, n));
    pop_all(&db, queue, first, 0..15_000);
    pop_all(&db, queue, last, (25_000..40_000).rev());
    for flushes in [false, true] {
        if flushes {
            db.flush().unwrap();
            drop(first(queue.iter()));
            drop(last(queue.iter()));
        }
        let before = passed(&db);
        for n in (0..15_000).step_by(97) {
            let mut iter = queue.iter();
            iter.seek(key(n)).unwrap();
            assert_eq!(iter.next().unwrap().unwrap().0, key(15_000));
            iter.seek_back(key(39_999 - n)).unwrap();
            assert_eq!(iter.next_back().unwrap().unwrap().0, key(24_999));
            assert!(queue.range(key(0)..=key(n)).next_back().is_none());
            assert!(queue.range(key(39_000)..).next().is_none());
        }
        assert!(passed(&db) - before <= 155 * 8, "{}", passed(&db) - before);
    }
}

#[test]
fn a_queue_beside_other_keys_is_cheap_and_so_is_a_ring_whose_keys_come_again() {
    let db = open();
    let queue = db.default();
    for n in 0..5000u32 {
        queue.put([b"aaa", &key(n)[..]].concat(), b"below").unwrap();
        queue.put([b"zzz", &key(n)[..]].concat(), b"above").unwrap();
    }
    let before = passed(&db);
    for n in 0..40_000 {
        // Keys come again after 3,000.
        queue.put(key(n % 3000), n.to_le_bytes()).unwrap();
        let found = first(queue.prefix("job"));
        assert_eq!(found, Some(key(n % 3000)));
        queue.delete(key(n % 3000)).unwrap();
    }
    let steps = passed(&db) - before;
    assert!(steps <= 40_000 * PASSED_MEAN, "{steps}");
    assert_eq!(queue.iter().count(), 10_000);
}

/// After reopening nothing is remembered: one walk passes what is left of the popped keys, and no
/// other does.
#[test]
fn after_reopening_one_walk_learns_and_the_others_are_cheap() {
    let fs = Arc::new(MemFs::new());
    let db = options(&fs).open(DIR).unwrap();
    (0..20_000).for_each(|n| push(db.default(), n));
    pop_all(&db, db.default(), first, 0..10_000);
    db.close().unwrap();
    let db = options(&fs).open(DIR).unwrap();
    assert_eq!(first(db.iter()), Some(key(10_000)));
    pop_all(&db, db.default(), first, 10_000..20_000);
}

/// The first look after an open passes what is deleted in the log or was not merged yet: about what
/// a write buffer holds, however much was popped before.
#[test]
fn the_first_look_after_an_open_passes_no_more_the_longer_a_queue_has_lived() {
    for pops in [10_000, 60_000] {
        let fs = Arc::new(MemFs::new());
        let db = options(&fs).open(DIR).unwrap();
        (0..1000).for_each(|n| push(db.default(), n));
        for n in 0..pops {
            push(db.default(), 1000 + n);
            assert_eq!(pop(db.default(), first), Some(key(n)));
            if n % 1000 == 0 {
                while db.step().unwrap() {}
            }
        }
        db.close().unwrap();
        let db = options(&fs).open(DIR).unwrap();
        assert_eq!(first(db.iter()), Some(key(pops)));
        assert!(passed(&db) <= (256 << 10) / 50, "{} after {pops} pops", passed(&db));
    }
}

/// What expires is gone for later readers alone, and a time to live is no queue's end.
#[test]
fn a_queue_of_what_expires_is_crossed_too() {
    let clock = Arc::new(solera::ManualClock::at_unix_ms(1_000_000));
    let db = options(&Arc::new(MemFs::new())).write_buffer(2 << 20).clock(clock.clone()).open(DIR).unwrap();
    for n in 0..5000 {
        db.put_with_ttl(key(n), b"soon", std::time::Duration::from_secs(5)).unwrap();
    }
    push(db.default(), 5000);
    let early = db.iter();
    clock.advance(std::time::Duration::from_secs(6));
    assert_eq!(first(db.iter()), Some(key(5000)));
    let before = passed(&db);
    (0..100).for_each(|_| assert_eq!(first(db.iter()), Some(key(5000))));
    assert!(passed(&db) - before <= 800);
    assert_eq!(early.count(), 5001, "an iterator keeps the moment at which it was made");
}

/// A transaction writes, walks and commits while another writer puts a key: it sees what a map
/// says, and fails if it has walked over that key and only then.
fn transact_at_random(
    db: &Db,
    model: &mut std::collections::BTreeMap<Vec<u8>, u32>,
    random: &mut impl FnMut(u32) -> u32,
    round: u32,
) {
    let queue = db.default();
    let mut transaction = db.transaction();
    // Keys, and whether they were put.
    let mut writes = vec![(5000..5001, true)];
    transaction.put(queue, key(5000), round.to_le_bytes()).unwrap();
    for _ in 0..random(12) {
        let (n, len) = (random(2200), 1 + random(60));
        match random(3) {
            0 => {
                transaction.delete_range(queue, key(n)..key(n + len)).unwrap();
                writes.push((n..n + len, false));
            }
            1 => {
                (n..n + len).for_each(|n| transaction.delete(queue, key(n)).unwrap());
                writes.push((n..n + len, false));
            }
            _ => {
                transaction.put(queue, key(n), round.to_le_bytes()).unwrap();
                writes.push((n..n + 1, true));
            }
        }
    }
    let write = |map: &mut std::collections::BTreeMap<Vec<u8>, u32>| {
        for (n, puts) in writes.iter().flat_map(|(range, puts)| range.clone().map(move |n| (n, puts))) {
            if *puts {
                map.insert(key(n), round)
            } else {
                map.remove(&key(n))
            };
        }
    };
    let mut own = model.clone();
    write(&mut own);
    let from = key(random(2200));
    let other = key(random(2200));
    let has_read = if random(2) == 0 {
        let found = first_of(transaction.range(queue, from.clone()..));
        assert_eq!(found, own.range(from.clone()..).next().map(|(key, _)| key.clone()), "round {round}");
        from <= other && found.is_none_or(|found| other <= found)
    } else {
        let mut iter = transaction.range(queue, ..from.clone());
        let found = iter.next_back().map(|entry| entry.unwrap().0.to_vec());
        assert_eq!(found, own.range(..from.clone()).next_back().map(|(key, _)| key.clone()), "round {round}");
        other < from && found.is_none_or(|found| found <= other)
    };
    queue.put(&other, round.to_le_bytes()).unwrap();
    model.insert(other, round);
    match transaction.commit() {
        Ok(_) => {
            assert!(!has_read, "round {round}: what it has read was written");
            write(model);
        }
        Err(Error::Conflict) => assert!(has_read, "round {round}: nothing that it has read was written"),
        Err(error) => panic!("{error}"),
    }
}

/// Whatever is popped, put again, held and reread, every reader sees what a plain map says.
#[test]
fn readers_see_what_a_map_says_whatever_was_popped_between() {
    let db = open();
    let keyspace = db.default();
    let mut model = std::collections::BTreeMap::new();
    let mut held: Vec<(Snapshot, std::collections::BTreeMap<Vec<u8>, u32>)> = Vec::new();
    let mut state = 7u64;
    let mut random = |below: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u32 % below
    };
    for round in 0..3000u32 {
        match random(11) {
            0..3 => {
                let (from, len) = (random(2000), random(80));
                for n in from..from + len {
                    keyspace.put(key(n), round.to_le_bytes()).unwrap();
                    model.insert(key(n), round);
                }
            }
            3..6 => {
                for _ in 0..random(150) {
                    let expected = match random(2) {
                        0 => (pop(keyspace, first), model.first_key_value()),
                        _ => (pop(keyspace, last), model.last_key_value()),
                    };
                    let (popped, expected) = (expected.0, expected.1.map(|(key, _)| key.clone()));
                    assert_eq!(popped, expected);
                    expected.map(|key| model.remove(&key));
                }
            }
            6 => {
                let (from, len) = (random(2000), random(200));
                for n in from..from + len {
                    keyspace.delete(key(n)).unwrap();
                    model.remove(&key(n));
                }
            }
            7 => held.push((db.snapshot(), model.clone())),
            8 if held.len() > 3 => drop(held.remove(random(held.len() as u32) as usize)),
            8 if random(20) == 0 => db.flush().unwrap(),
            10 => transact_at_random(&db, &mut model, &mut random, round),
            _ => drop(db.step().unwrap()),
        }
        let from = key(random(2200));
        let mut iter = keyspace.range(from.clone()..);
        let expected = model.range(from.clone()..).next().map(|(key, _)| key.clone());
        assert_eq!(iter.next().map(|entry| entry.unwrap().0.to_vec()), expected, "round {round}");
        let expected = model.range(..from.clone()).next_back().map(|(key, _)| key.clone());
        assert_eq!(last(keyspace.range(..from.clone())), expected, "round {round}");
        if let Some((snapshot, then)) = held.get(random(4) as usize) {
            let expected = then.range(from.clone()..).next().map(|(key, _)| key.clone());
            assert_eq!(first(snapshot.range(keyspace, from.clone()..)), expected, "round {round}");
            let expected = then.range(..from.clone()).next_back().map(|(key, _)| key.clone());
            assert_eq!(last(snapshot.range(keyspace, ..from.clone())), expected, "round {round}");
        }
    }
}

/// Symptom: a queue that is empty again had left a delete on disk for each key that it ever held.
/// Cause: a flush kept deletes, whatever lay below. Cure: where no table holds anything of its
/// keys, it keeps only what deletes do not hide.
#[test]
fn a_queue_that_was_emptied_in_memory_leaves_nothing_on_disk() {
    let db = open_in_memory();
    let queue = db.default();
    (0..5000).for_each(|n| push(queue, n));
    let snapshot = db.snapshot();
    pop_all(&db, queue, first, 0..4990);
    db.flush().unwrap();
    assert_eq!(queue.stats().entries, 5000 + 4990, "a snapshot sees them all");
    drop(snapshot);
    db.compact_range(..).unwrap();
    assert_eq!(queue.stats().entries, 10);
    for n in 6000..9000 {
        push(queue, n);
        queue.delete(key(n)).unwrap();
    }
    queue.delete_range(key(7000)..key(8000)).unwrap();
    db.flush().unwrap();
    assert_eq!(queue.stats().entries, 10, "nothing older lay where those were");
    // Where something lies, deletes stay until they have met it.
    pop_all(&db, queue, first, 4990..5000);
    db.flush().unwrap();
    assert_eq!(queue.iter().count(), 0);
    db.wait_idle().unwrap();
    assert_eq!((queue.iter().count(), queue.stats().entries), (0, 0));
}
