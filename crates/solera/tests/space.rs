//! Tests that space comes back, through `Db`: what no reader can see any more leaves the disk
//! without being asked.
//!
//! Each is a case that users of other engines reported, in a small size. Old versions go when their
//! snapshot does, also the only one between two others. Expired entries go at their moment, deleted
//! keys at rest, and tables under a range deletion unread. An open transaction is still told of a
//! delete that a merge could drop. No answer changes. Stats tell the bytes by cause.

use solera::{
    Clock, Db, Keyspace, KeyspaceOptions, ManualClock, Options, Reclaim, Shape, Slice, operator,
    vfs::{Fs, mem::MemFs},
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

const DIR: &str = "/db";
const WRITE_BUFFER: u64 = 64 << 10;
const VALUE_BYTES: usize = 200;

struct World {
    fs: Arc<MemFs>,
    clock: Arc<ManualClock>,
    threads: usize,
}

impl World {
    fn new(threads: usize) -> World {
        World { fs: Arc::new(MemFs::new()), clock: Arc::new(ManualClock::at_unix_ms(1_000_000)), threads }
    }

    fn open(&self) -> Db {
        let shape = Shape { table_bytes: 64 << 10, ..Shape::default() };
        let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).shape(shape).seed(1);
        let options = options.background_threads(self.threads).clock(self.clock.clone());
        options.fs(self.fs.clone()).open(DIR).unwrap()
    }

    /// Bytes of all files of the database.
    fn disk_bytes(&self) -> u64 {
        let dir = Path::new(DIR);
        let files = self.fs.list_dir(dir).unwrap();
        // A file may go between the two calls.
        let bytes = |name: &String| self.fs.open(&dir.join(name)).and_then(|file| file.len()).unwrap_or(0);
        files.iter().map(bytes).sum()
    }
}

fn key(n: u32) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

/// No two alike, so that nothing of them can be pressed out.
fn value(n: u32, round: u32) -> Vec<u8> {
    let mut state = u64::from(n) << 32 | u64::from(round) << 1 | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..VALUE_BYTES).map(|_| next()).collect()
}

fn put_all(keyspace: &Keyspace, count: u32, round: u32) {
    (0..count).for_each(|n| keyspace.put(key(n), value(n, round)).unwrap());
}

fn compact(db: &Db) {
    db.flush().unwrap();
    db.compact_range(..).unwrap();
}

fn all(iter: impl Iterator<Item = solera::Result<(Slice, Slice)>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    iter.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

fn table_bytes(db: &Db) -> u64 {
    db.default().stats().table_bytes
}

/// Looks again and again until `holds`. Only a test that fails waits to the end: a busy machine
/// gets five minutes.
fn soon(what: &str, holds: impl Fn() -> bool) {
    let clock = solera::SystemClock::new();
    while !holds() {
        assert!(clock.monotonic_ns() < 300_000_000_000, "not within five minutes: {what}");
        clock.sleep(Duration::from_millis(20));
    }
}

/// Symptom: after an overwrite under a snapshot the database stayed twice as large for ever. Cause:
/// the bottom was written anew only where tables had tombstones, operands or keys in common with
/// another run. Cure: a table knows its old versions and which snapshots hold them.
#[test]
fn versions_kept_for_a_snapshot_go_when_it_is_dropped_without_a_call() {
    let world = World::new(2);
    let db = world.open();
    put_all(db.default(), 3000, 0);
    compact(&db);
    let live = table_bytes(&db);
    let snapshot = db.snapshot();
    put_all(db.default(), 3000, 1);
    compact(&db);
    db.wait_idle().unwrap();
    assert!(table_bytes(&db) > live * 19 / 10, "the snapshot needs the old versions");
    assert_eq!(snapshot.get(db.default(), key(7)).unwrap().as_deref(), Some(&value(7, 0)[..]));
    drop(snapshot);
    soon("old versions leave", || table_bytes(&db) < live * 11 / 10);
    assert_eq!(db.get(key(7)).unwrap().as_deref(), Some(&value(7, 1)[..]));
}

#[test]
fn versions_kept_for_a_snapshot_go_after_reopening() {
    let world = World::new(0);
    let db = world.open();
    put_all(db.default(), 2000, 0);
    let snapshot = db.snapshot();
    put_all(db.default(), 2000, 1);
    compact(&db);
    let both = table_bytes(&db);
    drop((snapshot, db));
    let db = world.open();
    db.wait_idle().unwrap();
    assert!(table_bytes(&db) < both * 6 / 10, "{} of {both}", table_bytes(&db));
    assert_eq!(all(db.iter()).len(), 2000);
}

/// The middle of three versions belongs to one snapshot alone.
#[test]
fn a_version_goes_with_the_only_snapshot_that_sees_it_though_an_older_one_lives() {
    let world = World::new(0);
    let db = world.open();
    put_all(db.default(), 1000, 0);
    let oldest = db.snapshot();
    put_all(db.default(), 1000, 1);
    let middle = db.snapshot();
    put_all(db.default(), 1000, 2);
    compact(&db);
    assert_eq!(db.default().stats().entries, 3000);
    drop(middle);
    db.wait_idle().unwrap();
    assert_eq!(db.default().stats().entries, 2000);
    assert_eq!(oldest.get(db.default(), key(5)).unwrap().as_deref(), Some(&value(5, 0)[..]));
}

/// Old operands and old values apart go with the snapshot that sees them, too.
#[test]
fn old_operands_and_old_values_apart_go_when_the_snapshot_is_dropped() {
    const KEYS: u32 = 500;
    type Write = fn(&Db, u32, u32);
    let ways: [(&str, Write); 2] = [
        ("operands", |db, n, round| db.merge(key(n), value(n, round)).unwrap()),
        ("values apart", |db, n, round| db.put(key(n), value(n, round).repeat(20)).unwrap()),
    ];
    for (what, write) in ways {
        for run_limits in [vec![4, 1], vec![4, 3, 3]] {
            let world = World::new(0);
            let shape = Shape { table_bytes: 64 << 10, run_limits: run_limits.clone(), ..Shape::default() };
            let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).seed(1).shape(shape);
            let options = options.background_threads(0).fs(world.fs.clone()).clock(world.clock.clone());
            let options =
                options.separate_values_from(1000).merge_operator(operator::builtin("append").unwrap());
            let db = options.open(DIR).unwrap();
            (0..KEYS).for_each(|n| write(&db, n, 0));
            let before = db.snapshot();
            for round in 1..4 {
                (0..KEYS).for_each(|n| write(&db, n, round));
                db.flush().unwrap();
            }
            let seen = all(before.iter(db.default()));
            drop(before);
            rest(&world, &db);
            rest(&world, &db);
            let now = all(db.iter());
            let live: u64 = now.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
            let most = live * 13 / 10 + 2 * WRITE_BUFFER + 40_000;
            let at_rest = world.disk_bytes();
            assert!(at_rest <= most, "{what} {run_limits:?}: {at_rest} of {live}");
            assert_eq!((seen.len(), now.len()), (KEYS as usize, KEYS as usize));
        }
    }
}

/// Symptom: entries that had expired stayed on disk, through `compact_range` and reopening. Cause:
/// the engine did not know that a table of the bottom had any. Cure: a table knows when its entries
/// expire.
#[test]
fn what_has_expired_goes_when_its_moment_has_come() {
    let world = World::new(0);
    let db = world.open();
    for n in 0..2000 {
        // The longer half is longer by an hour.
        let ttl = Duration::from_secs(if n % 2 == 0 { 5 } else { 3600 });
        db.put_with_ttl(key(n), value(n, 0), ttl).unwrap();
    }
    compact(&db);
    let full = table_bytes(&db);
    world.clock.advance(Duration::from_secs(6));
    db.wait_idle().unwrap();
    assert_eq!(db.default().stats().entries, 1000);
    assert!(table_bytes(&db) < full * 6 / 10);
    world.clock.advance(Duration::from_secs(3600));
    let written = db.default().stats().counters.bytes_written_compaction;
    db.wait_idle().unwrap();
    assert_eq!(table_bytes(&db), 0);
    assert_eq!(db.default().stats().counters.bytes_written_compaction, written, "tables went unread");
}

#[test]
fn what_has_expired_goes_in_the_background_and_after_reopening() {
    let world = World::new(1);
    let db = world.open();
    for n in 0..1000 {
        db.put_with_ttl(key(n), value(n, 0), Duration::from_millis(300)).unwrap();
    }
    compact(&db);
    world.clock.advance(Duration::from_secs(1));
    soon("expired entries leave", || table_bytes(&db) == 0);
    for n in 0..1000 {
        db.put_with_ttl(key(n), value(n, 0), Duration::from_secs(3600)).unwrap();
    }
    compact(&db);
    db.close().unwrap();
    world.clock.advance(Duration::from_secs(7200));
    let db = world.open();
    soon("expired entries leave after reopening", || table_bytes(&db) == 0);
}

/// Deletes nine keys of ten as `which` says, then rests, and nothing is asked for.
fn delete_nine_of_ten(which: impl Fn(&Db, u32)) {
    const KEYS: u32 = 10_000;
    let world = World::new(2);
    let db = world.open();
    put_all(db.default(), KEYS, 0);
    compact(&db);
    let live = table_bytes(&db) / 10;
    which(&db, KEYS);
    assert_eq!(all(db.iter()).len() as u32, KEYS / 10);
    let most = live * 13 / 10 + 2 * WRITE_BUFFER;
    soon("deleted entries leave", || world.disk_bytes() <= most);
    assert_eq!(all(db.iter()).len() as u32, KEYS / 10);
}

/// Symptom: of 202 MiB of which 90 % were deleted, all stayed until a user called `compact_range`.
/// Cause: deletes went down only when their level was full, and stayed in memory until the memtable
/// was. Cure: what deletes may hide is weighed against what their merge costs.
#[test]
fn keys_deleted_at_random_give_their_space_back_at_rest() {
    delete_nine_of_ten(|db, keys| {
        let scattered = (0..keys).map(|n| n * 7919 % keys).filter(|n| n % 10 != 3);
        scattered.for_each(|n| db.delete(key(n)).unwrap());
    });
}

#[test]
fn keys_deleted_from_the_front_give_their_space_back_at_rest() {
    delete_nine_of_ten(|db, keys| (0..keys / 10 * 9).for_each(|n| db.delete(key(n)).unwrap()));
}

#[test]
fn keys_deleted_by_one_range_give_their_space_back_at_rest() {
    delete_nine_of_ten(|db, keys| db.delete_range(key(0)..key(keys / 10 * 9)).unwrap());
}

/// Nothing rested in between: what was deleted is known from the log alone when it opens again.
#[test]
fn keys_deleted_right_before_a_close_give_their_space_back_after_reopening() {
    const KEYS: u32 = 10_000;
    type Way = fn(&Db);
    let ways: [Way; 3] = [
        |db| {
            (0..KEYS)
                .map(|n| n * 7919 % KEYS)
                .filter(|n| n % 10 != 3)
                .for_each(|n| db.delete(key(n)).unwrap())
        },
        |db| (KEYS / 10..KEYS).rev().for_each(|n| db.delete(key(n)).unwrap()),
        |db| db.delete_range(key(0)..key(KEYS / 10 * 9)).unwrap(),
    ];
    for free in ways {
        let world = World::new(2);
        let db = world.open();
        put_all(db.default(), KEYS, 0);
        compact(&db);
        let live = table_bytes(&db) / 10;
        free(&db);
        db.close().unwrap();
        let db = world.open();
        let most = live * 13 / 10 + 2 * WRITE_BUFFER;
        soon("deleted entries leave", || world.disk_bytes() <= most);
        assert_eq!(all(db.iter()).len() as u32, KEYS / 10);
    }
}

/// Levels of several runs give space back as those of one do.
#[test]
fn levels_of_several_runs_give_space_back_at_rest() {
    const KEYS: u32 = 6000;
    type Way = fn(&World, &Db);
    let ways: [(&str, Way); 4] = [
        ("deletes", |_, db| {
            (0..KEYS)
                .map(|n| n * 7919 % KEYS)
                .filter(|n| n % 10 != 3)
                .for_each(|n| db.delete(key(n)).unwrap());
        }),
        ("a range", |_, db| db.delete_range(key(0)..key(KEYS / 10 * 9)).unwrap()),
        ("a snapshot", |_, db| {
            let snapshot = db.snapshot();
            (0..10).for_each(|round| put_all(db.default(), KEYS / 10, round));
            drop(snapshot);
            (KEYS / 10..KEYS).for_each(|n| db.delete(key(n)).unwrap());
        }),
        ("expiry", |world, db| {
            for n in (0..KEYS).filter(|n| n % 10 != 3) {
                db.put_with_ttl(key(n), value(n, 1), Duration::from_secs(1)).unwrap();
            }
            world.clock.advance(Duration::from_secs(2));
        }),
    ];
    for (what, free) in ways {
        let world = World::new(0);
        let shape = Shape { table_bytes: 64 << 10, run_limits: vec![4, 3, 3], ..Shape::default() };
        let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).seed(1).shape(shape);
        let options = options.background_threads(0).fs(world.fs.clone()).clock(world.clock.clone());
        let db = options.open(DIR).unwrap();
        (0..3).for_each(|round| put_all(db.default(), KEYS, round));
        free(&world, &db);
        rest(&world, &db);
        rest(&world, &db);
        let live: u64 = all(db.iter()).iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        let (most, at_rest) = (live * 13 / 10 + 2 * WRITE_BUFFER, world.disk_bytes());
        assert!(at_rest <= most, "{what}: {at_rest} of {live}");
        assert_eq!(all(db.iter()).len() as u32, KEYS / 10);
    }
}

/// Symptom: of 2.1 MB of which 90 % were deleted, half stayed where the last deletes came during a
/// merge. Cause: only a commit asked what deletes in memory hide, and none came after the merge.
/// Cure: a worker that finds no other work asks too.
#[test]
fn deletes_that_came_while_a_memtable_waited_give_space_back_at_rest() {
    for by_range in [false, true] {
        let world = World::new(0);
        let db = world.open();
        put_all(db.default(), 4000, 0);
        compact(&db);
        let live = table_bytes(&db) / 10;
        // More than a write buffer, so that one memtable waits.
        (0..300).for_each(|n| db.put(key(n), value(n, 1)).unwrap());
        assert_eq!(db.default().stats().sealed_memtables, 1);
        match by_range {
            true => db.delete_range(key(0)..key(3600)).unwrap(),
            // As few as fit into the memtable; they hide a fifth.
            false => (0..900).for_each(|n| db.delete(key(n * 4 + 1)).unwrap()),
        }
        let before = table_bytes(&db);
        assert_eq!(db.default().stats().sealed_memtables, 1, "nobody has worked");
        db.wait_idle().unwrap();
        match by_range {
            true => assert!(table_bytes(&db) < live * 11 / 10, "{} of {live}", table_bytes(&db)),
            false => assert!(table_bytes(&db) < before * 85 / 100, "{} of {before}", table_bytes(&db)),
        }
    }
}

/// A deleted range that covers no table frees none by itself; many may together.
#[test]
fn many_small_deleted_ranges_drop_the_tables_that_they_cover_together() {
    let world = World::new(0);
    let db = world.open();
    put_all(db.default(), 10_000, 0);
    compact(&db);
    let full = table_bytes(&db);
    (0..900).for_each(|n| db.delete_range(key(n * 10)..key(n * 10 + 10)).unwrap());
    db.wait_idle().unwrap();
    assert!(table_bytes(&db) < full * 13 / 100, "{} of {full}", table_bytes(&db));
    assert_eq!(all(db.iter()).len(), 1000);
}

/// Deletes of large values are small: by the bytes of their tables they hide nothing.
#[test]
fn deletes_of_a_few_large_values_give_their_space_back_at_rest() {
    let world = World::new(2);
    let db = world.open();
    let large = vec![7; 1 << 20];
    (0..20).for_each(|n| db.put(key(n), &large).unwrap());
    db.flush().unwrap();
    assert!(db.default().stats().separated_bytes >= 20 << 20, "values of 256 KiB are kept apart");
    (0..18).for_each(|n| db.delete(key(n)).unwrap());
    soon("deleted values leave", || world.disk_bytes() < 4 << 20);
    assert_eq!(all(db.iter()).len(), 2);
}

/// Symptom: a range deletion freed nothing before a compaction had read all that it covered. Cure:
/// tables that it covers as a whole leave at once, unread.
#[test]
fn a_range_deletion_drops_the_tables_that_it_covers_unread_once_no_snapshot_needs_them() {
    let world = World::new(0);
    let db = world.open();
    put_all(db.default(), 10_000, 0);
    compact(&db);
    let full = table_bytes(&db);
    let snapshot = db.snapshot();
    db.delete_range(key(0)..key(9000)).unwrap();
    db.wait_idle().unwrap();
    assert!(table_bytes(&db) >= full, "a snapshot needs them");
    assert_eq!(all(snapshot.iter(db.default())).len(), 10_000);
    drop(snapshot);
    let before = db.default().stats().counters;
    db.wait_idle().unwrap();
    let after = db.default().stats().counters;
    assert!(table_bytes(&db) < full * 13 / 100, "{} of {full}", table_bytes(&db));
    // What lies on both sides of the end of the range is written anew, and no more.
    let written = after.bytes_written_compaction - before.bytes_written_compaction;
    assert!(written < full * 13 / 100, "{written} of {full}");
    assert_eq!(all(db.iter()).len(), 1000);
}

/// Symptom: with one value of 300 KiB in the keyspace a range deletion read all that it covered.
/// Cause: only who read a table knew which values go with it. Cure: its descriptor tells where its
/// entries point to.
#[test]
fn a_range_deletion_drops_tables_unread_beside_value_files_too() {
    type Apart = fn(u32) -> bool;
    // A value that stays, one that goes, and values all over.
    let cases: [(Apart, usize); 3] =
        [(|n| n == 9500, 300 << 10), (|n| n == 100, 300 << 10), (|n| n % 10 == 0, 2000)];
    for ((is_apart, large), reopens) in cases.into_iter().flat_map(|case| [(case, false), (case, true)]) {
        let world = World::new(0);
        let open = || {
            let shape = Shape { table_bytes: 64 << 10, ..Shape::default() };
            let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).shape(shape).seed(1);
            let options = options.background_threads(0).clock(world.clock.clone());
            options.separate_values_from(1000).fs(world.fs.clone()).open(DIR).unwrap()
        };
        let db = open();
        for n in 0..10_000 {
            match is_apart(n) {
                true => db.put(key(n), vec![n as u8; large]).unwrap(),
                false => db.put(key(n), value(n, 0)).unwrap(),
            }
        }
        compact(&db);
        let db = if reopens {
            db.close().unwrap();
            open()
        } else {
            db
        };
        let live = |db: &Db| db.default().stats().separated_bytes;
        let (full, apart) = (table_bytes(&db), (0..10_000).filter(|&n| is_apart(n)).count() as u64);
        assert_eq!(live(&db), apart * large as u64);
        let read = |db: &Db| {
            let observed = db.control().observe();
            let levels = observed.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
            levels.map(|level| level.merges.bytes_out).sum::<u64>()
        };
        let before = read(&db);
        db.delete_range(key(0)..key(9000)).unwrap();
        // Flushed, merged where it covers parts of tables, and no values moved.
        while table_bytes(&db) > full * 13 / 100 && db.step().unwrap() {}
        assert!(table_bytes(&db) <= full * 13 / 100, "{} of {full}", table_bytes(&db));
        let read = read(&db) - before;
        assert!(read < full * 13 / 100, "{read} of {full} read, {apart} values of {large} bytes");
        db.wait_idle().unwrap();
        let left = (9000..10_000).filter(|&n| is_apart(n)).count() as u64;
        assert_eq!((all(db.iter()).len(), live(&db)), (1000, left * large as u64));
        db.close().unwrap();
        assert_eq!(all(open().iter()).len(), 1000);
    }
}

/// Symptom: 1,000 puts and then 1,000 deletes left 1,000 entries while an older snapshot lived,
/// which sees none of them. Cause: a delete newer than any snapshot stayed. Cure: only transactions
/// ask for those.
#[test]
fn deletes_go_with_what_they_hide_under_an_old_empty_snapshot() {
    let world = World::new(0);
    let db = world.open();
    db.put(b"first", b"so that the snapshot is of something").unwrap();
    let snapshot = db.snapshot();
    put_all(db.default(), 1000, 0);
    db.flush().unwrap();
    (0..1000).for_each(|n| db.delete(key(n)).unwrap());
    compact(&db);
    assert_eq!(db.default().stats().entries, 1);
    put_all(db.default(), 1000, 0);
    db.flush().unwrap();
    db.delete_range(key(0)..key(1000)).unwrap();
    compact(&db);
    assert_eq!(db.default().stats().entries, 1);
    assert_eq!(all(snapshot.iter(db.default())).len(), 1);
}

/// The other side of it: a transaction that found a key absent is told that it was written, also if
/// the write was a delete and everything is merged to the bottom.
#[test]
fn an_open_transaction_is_told_of_a_delete_that_a_merge_could_drop() {
    let world = World::new(0);
    let db = world.open();
    let keyspace = db.default();
    put_all(keyspace, 100, 0);
    compact(&db);
    let mut transaction = db.transaction();
    assert_eq!(transaction.get(keyspace, b"absent").unwrap(), None);
    transaction.put(keyspace, b"other", b"x").unwrap();
    db.put(b"absent", b"for a moment").unwrap();
    db.delete(b"absent").unwrap();
    compact(&db);
    assert!(matches!(transaction.commit(), Err(solera::Error::Conflict)));
    db.wait_idle().unwrap();
}

/// Whatever is deleted, overwritten and held, no reader is told anything else than what it saw
/// before.
#[test]
fn giving_space_back_changes_no_answer() {
    let world = World::new(0);
    let db = world.open();
    let keyspace = db.default();
    let mut held = Vec::new();
    for round in 0..12u32 {
        let mut batch = db.batch();
        for n in 0..600u32 {
            let n = n * 31 % 1000;
            match (n + round) % 5 {
                0 => batch.delete(keyspace, key(n)).unwrap(),
                1 if round % 3 == 0 => {
                    batch.put_with_ttl(keyspace, key(n), value(n, round), Duration::from_secs(9)).unwrap();
                }
                _ => batch.put(keyspace, key(n), value(n, round)).unwrap(),
            }
        }
        db.write(batch).unwrap();
        if round % 4 == 1 {
            db.delete_range(key(round * 50)..key(round * 50 + 300)).unwrap();
        }
        let snapshot = db.snapshot();
        let seen = all(snapshot.iter(keyspace));
        held.push((snapshot, seen));
        if round % 3 == 2 {
            held.remove(round as usize % held.len());
            db.flush().unwrap();
        }
        db.wait_idle().unwrap();
        for (snapshot, seen) in &held {
            assert!(all(snapshot.iter(keyspace)) == *seen, "round {round}");
        }
    }
    let now = all(db.iter());
    held.clear();
    db.wait_idle().unwrap();
    assert!(all(db.iter()) == now);
    compact(&db);
    assert!(all(db.iter()) == now);
    assert_eq!(db.default().stats().entries as usize, now.len());
}

/// What a keyspace holds is told by cause, in `stats` and in observations.
#[test]
fn stats_tell_what_the_bytes_are_and_what_compaction_owes() {
    let world = World::new(0);
    let db = world.open();
    put_all(db.default(), 2000, 0);
    let snapshot = db.snapshot();
    put_all(db.default(), 2000, 1);
    compact(&db);
    let all = table_bytes(&db);
    let space = db.default().stats().space;
    let about = |bytes: u64, share: f64| (bytes as f64 / all as f64 - share).abs() < 0.02;
    assert!(about(space.live_bytes, 0.5) && about(space.old_version_bytes, 0.5), "{space:?} of {all}");
    assert_eq!(space.debt_bytes, 0, "a snapshot holds them");
    assert_eq!(db.control().observe().keyspaces[0].space, space);
    drop(snapshot);
    let owed = db.default().stats().space.debt_bytes;
    assert!(about(owed, 1.0), "{owed} of {all}");
    let observed = db.control().observe();
    assert_eq!(observed.keyspaces[0].space.drain_seconds(), None, "the clock stood still");
    db.wait_idle().unwrap();
    let space = db.default().stats().space;
    assert_eq!((space.old_version_bytes, space.debt_bytes), (0, 0));
    assert_eq!(space.drain_seconds(), Some(0.0));
    (0..200).for_each(|n| db.delete(key(n)).unwrap());
    db.flush().unwrap();
    let space = db.default().stats().space;
    // A tenth of half of the bytes, by an estimate from the bounds of tables.
    let hidden = all / 40..all / 15;
    assert!(space.tombstone_bytes > 0 && hidden.contains(&space.unmerged_bytes), "{space:?} of {all}");
}

/// A clock that goes on by a millisecond at each look, whatever the machine does.
#[derive(Debug, Default)]
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn unix_ms(&self) -> u64 {
        1_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000, Relaxed)
    }

    fn sleep(&self, _: Duration) {}
}

/// Symptom: the time that compaction needs was told at the rate of all the time since the open, in
/// which it may have rested for days. Cure: the rate is that of the compactions, the latest first.
#[test]
fn what_compaction_owes_is_told_in_seconds_at_the_rate_of_the_last_compactions() {
    let world = World::new(0);
    let clock = Arc::new(Ticking::default());
    let shape = Shape { table_bytes: 64 << 10, ..Shape::default() };
    let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).shape(shape).seed(1);
    let db = options.background_threads(0).clock(clock).fs(world.fs.clone()).open(DIR).unwrap();
    let space = || db.default().stats().space;
    assert_eq!((space().merged_bytes_per_second, space().drain_seconds()), (0, Some(0.0)));
    put_all(db.default(), 2000, 0);
    let snapshot = db.snapshot();
    put_all(db.default(), 2000, 1);
    compact(&db);
    let rate = space().merged_bytes_per_second;
    // The last compaction read all there is, in at least one millisecond and few more.
    assert!((1_000_000..=1000 * table_bytes(&db)).contains(&rate), "{rate}");
    drop(snapshot);
    let owed = space();
    assert!(owed.debt_bytes > table_bytes(&db) * 9 / 10, "{owed:?} of {}", table_bytes(&db));
    let seconds = owed.drain_seconds().expect("compactions were timed");
    assert!((seconds * rate as f64 - owed.debt_bytes as f64).abs() < 1.0, "{seconds} of {owed:?}");
    assert_eq!(db.control().observe().keyspaces[0].space, owed);
    db.wait_idle().unwrap();
    assert_eq!((space().debt_bytes, space().drain_seconds()), (0, Some(0.0)));
}

/// Of values apart it is told how much of their files is dead, by keyspace, until that was given
/// back.
#[test]
fn stats_tell_how_much_of_the_value_files_is_dead_and_whose_it_is() {
    let world = World::new(0);
    let open = |way| {
        let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).seed(1).reclaim(way);
        options.background_threads(0).clock(world.clock.clone()).fs(world.fs.clone()).open(DIR).unwrap()
    };
    let of = |db: &Db, name: &str| {
        let apart = KeyspaceOptions::new().separate_values_from(1000);
        db.keyspace_with(name, apart).unwrap()
    };
    let dead = |keyspace: &Keyspace| keyspace.stats().space.value_garbage_bytes;
    let large = 10 * VALUE_BYTES as u64;
    let db = open(Reclaim::Off);
    let (one, other) = (of(&db, "one"), of(&db, "other"));
    for n in 0..300 {
        one.put(key(n), value(n, 0).repeat(10)).unwrap();
        other.put(key(n), value(n, 1).repeat(10)).unwrap();
    }
    db.flush().unwrap();
    // What lies around the values.
    assert!(dead(&one) + dead(&other) < 600 * large / 20, "{} {}", dead(&one), dead(&other));
    (0..200).for_each(|n| one.delete(key(n)).unwrap());
    one.compact_range(..).unwrap();
    // The files hold 600 values, of which 400 are live, those of one by the third to the end.
    let all = dead(&one) + dead(&other);
    assert!((200 * large..230 * large).contains(&all), "{all}");
    assert!(dead(&other) > dead(&one), "{} {}", dead(&one), dead(&other));
    assert_eq!(db.default().stats().space.value_garbage_bytes, 0);
    let observed = db.control().observe();
    assert_eq!(observed.keyspace("one").unwrap().space, one.stats().space);
    assert_eq!(db.stats().keyspaces[2].space, other.stats().space);
    db.close().unwrap();
    let db = open(Reclaim::Tier);
    let (one, other) = (of(&db, "one"), of(&db, "other"));
    one.compact_range(..).unwrap();
    other.compact_range(..).unwrap();
    db.wait_idle().unwrap();
    assert!(dead(&one) + dead(&other) < 400 * large / 20, "{} {}", dead(&one), dead(&other));
}

/// Symptom: what `clear`, or a range to the end of all keys, had deleted stayed on disk. Cause: a
/// cover with a long bound was not named, and the end of all keys is the longest key. Cure: bounds
/// are shortened to within what is covered.
#[test]
fn what_is_cleared_or_deleted_to_the_end_of_keys_gives_its_space_back() {
    let ways: [(&str, fn(&Db)); 4] = [
        ("clear", |db| db.default().clear().unwrap()),
        ("to the end", |db| db.delete_range(key(1000)..).unwrap()),
        ("an empty prefix", |db| db.default().delete_prefix("").unwrap()),
        ("long bounds", |db| {
            let long = |n: u32| [key(n), vec![b'x'; 300]].concat();
            db.delete_range(long(1000)..long(9999)).unwrap();
        }),
    ];
    for (way, delete) in ways {
        let world = World::new(2);
        let db = world.open();
        put_all(db.default(), 10_000, 0);
        compact(&db);
        let live = table_bytes(&db) / 10;
        delete(&db);
        soon(way, || world.disk_bytes() < live * 13 / 10 + 2 * WRITE_BUFFER);
    }
}

/// Symptom: nine tenths of what lay in two tables were deleted by one range, and stayed. Cause:
/// only tables that a range covers as a whole were counted. Cure: parts count too.
#[test]
fn a_range_over_parts_of_tables_gives_their_space_back_at_rest() {
    for settled in [true, false] {
        let world = World::new(2);
        let shape = Shape { table_bytes: 4 << 20, ..Shape::default() };
        let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).shape(shape).seed(1);
        let db = options.background_threads(2).fs(world.fs.clone()).open(DIR).unwrap();
        put_all(db.default(), 10_000, 0);
        db.flush().unwrap();
        if settled {
            db.compact_range(..).unwrap();
        }
        let live = 10_000 * 213 / 10;
        db.delete_range(key(500)..key(9500)).unwrap();
        soon("the range leaves", || world.disk_bytes() < live * 13 / 10 + 2 * WRITE_BUFFER);
        assert_eq!(all(db.iter()).len(), 1000);
    }
}

/// Symptom: nine tenths of the keys of 500 keyspaces were deleted, and stayed. Cause: each keyspace
/// hid less than a write buffer. Cure: what all hide counts together.
#[test]
fn deletes_in_many_small_keyspaces_give_space_back_together() {
    for by_range in [false, true] {
        let world = World::new(2);
        let db = world.open();
        let keyspaces: Vec<_> =
            (0..100).map(|n| db.keyspace_with(&format!("k{n}"), KeyspaceOptions::new()).unwrap()).collect();
        keyspaces.iter().for_each(|keyspace| put_all(keyspace, 200, 0));
        db.flush().unwrap();
        for keyspace in &keyspaces {
            match by_range {
                true => keyspace.delete_range(key(10)..key(190)).unwrap(),
                false => (10..190).for_each(|n| keyspace.delete(key(n)).unwrap()),
            }
        }
        // A table of its own, a part of the manifest and of the logs for each.
        let live = 100 * 20 * 213 + 100 * 3000;
        soon("deleted entries leave", || world.disk_bytes() < live * 13 / 10 + 2 * WRITE_BUFFER);
    }
}

/// Does all that is to be done now, as a worker would.
fn work(db: &Db) {
    while db.step().unwrap() {}
}

/// Has workers find that no writer comes any more, and do what they do then.
fn rest(world: &World, db: &Db) {
    work(db);
    world.clock.advance(Duration::from_secs(3));
    work(db);
}

/// Symptom: 20 MiB that were overwritten six times and left alone took 121. Cause: level 0 waits
/// for reads, and nothing told how much newer versions hide. Cure: once no writer comes, a worker
/// looks for some keys of each table in older runs.
#[test]
fn what_was_overwritten_gives_its_space_back_once_nobody_writes() {
    type Way = fn(&Db);
    let overwrites: [(&str, Way); 4] = [
        ("puts", |db| {
            for round in 0..6 {
                put_all(db.default(), 250, round);
                db.flush().unwrap();
            }
        }),
        ("ingests", |db| {
            for round in 0..6 {
                db.default().ingest((0..250).map(|n| (key(n), value(n, round)))).unwrap();
            }
        }),
        ("operands, then puts", |db| {
            for round in 0..5 {
                (0..250).for_each(|n| db.default().merge(key(n), value(n, round)).unwrap());
                db.flush().unwrap();
            }
            put_all(db.default(), 250, 9);
            db.flush().unwrap();
        }),
        ("versions of snapshots that are gone", |db| {
            let mut held = Vec::new();
            for round in 0..6 {
                put_all(db.default(), 250, round);
                held.push(db.snapshot());
                db.flush().unwrap();
            }
        }),
    ];
    for (what, overwrite) in overwrites {
        let world = World::new(0);
        let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).seed(1);
        let options = options.background_threads(0).clock(world.clock.clone()).fs(world.fs.clone());
        let db = options.merge_operator(Arc::new(solera::operator::Append)).open(DIR).unwrap();
        overwrite(&db);
        work(&db);
        let live = 250 * 213;
        assert!(table_bytes(&db) > 4 * live, "{what}: level 0 waits");
        rest(&world, &db);
        assert!(table_bytes(&db) < live * 13 / 10 + 4000, "{what}: {} of {live}", table_bytes(&db));
        let round = if what.starts_with("operands") { 9 } else { 5 };
        let expected: Vec<_> = (0..250).map(|n| (key(n), value(n, round))).collect();
        assert!(all(db.iter()) == expected, "{what}");
    }
}

/// The other side of it: what is in one run alone is not merged for nothing, and what is written to
/// still waits as long as it did.
#[test]
fn level_0_waits_for_reads_where_nothing_was_overwritten_and_while_somebody_writes() {
    let world = World::new(0);
    let db = world.open();
    let merged = || db.default().stats().counters.bytes_written_compaction;
    for round in 0..6 {
        (0..250).for_each(|n| db.put(key(n * 6 + round), value(n, round)).unwrap());
        db.flush().unwrap();
    }
    rest(&world, &db);
    assert_eq!(merged(), 0, "no key was written twice");
    let world = World::new(0);
    let db = world.open();
    let merged = || db.default().stats().counters.bytes_written_compaction;
    for round in 0..6 {
        put_all(db.default(), 250, round);
        db.flush().unwrap();
        work(&db);
        world.clock.advance(Duration::from_secs(1));
        db.put("one", "more").unwrap();
        work(&db);
    }
    assert_eq!(merged(), 0, "somebody writes");
}

/// Symptom: of the operands of nine keys of ten, which were deleted, all stayed. Cause: a delete
/// counted as one entry of many. Cure: tables know how many of their entries repeat a key.
#[test]
fn a_delete_of_a_key_with_many_operands_counts_for_all_of_them() {
    let world = World::new(0);
    let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).seed(1);
    let options = options.background_threads(0).clock(world.clock.clone()).fs(world.fs.clone());
    let db = options.merge_operator(Arc::new(solera::operator::Append)).open(DIR).unwrap();
    let snapshots: Vec<_> = (0..40)
        .map(|round| {
            (0..100).for_each(|n| db.default().merge(key(n), value(n, round)).unwrap());
            db.snapshot()
        })
        .collect();
    db.flush().unwrap();
    db.wait_idle().unwrap();
    drop(snapshots);
    let full = table_bytes(&db);
    (0..90).for_each(|n| db.delete(key(n)).unwrap());
    db.wait_idle().unwrap();
    assert!(table_bytes(&db) < full * 15 / 100, "{} of {full}", table_bytes(&db));
    assert_eq!(all(db.iter()).len(), 10);
}

/// Symptom: of 20 MB of separated values, of which nine tenths were deleted, all stayed, also after
/// `compact_range`. Cause: their keys were in memory, so nothing told what of the logs is live; and
/// what was asked for moved no values. Cure: memtables that are little beside the logs that they
/// keep are flushed, and `compact_range` empties value files with garbage.
#[test]
fn separated_values_give_their_space_back_at_rest_and_all_of_it_when_asked() {
    const KEYS: u32 = 600;
    type Way = fn(&Db);
    let ways: [(&str, u64, Way); 5] = [
        ("deletes", 10, |db| {
            (0..KEYS).filter(|n| n % 10 != 3).for_each(|n| db.delete(key(n)).unwrap());
        }),
        ("a range", 10, |db| db.delete_range(key(0)..key(KEYS / 10 * 9)).unwrap()),
        ("everything", 1000, |db| db.default().clear().unwrap()),
        ("small values in their place", 1000, |db| {
            (0..KEYS).for_each(|n| db.put(key(n), "small").unwrap());
        }),
        ("expiry", 10, |db| {
            for n in (0..KEYS).filter(|n| n % 10 != 3) {
                assert!(db.default().set_expiry(key(n), Some(1_001_000)).unwrap());
            }
        }),
    ];
    for (what, parts, free) in ways {
        for flushed in [false, true] {
            let world = World::new(0);
            let shape = Shape { table_bytes: 64 << 10, ..Shape::default() };
            let open = || {
                let options = Options::new().memory(4 << 20).write_buffer(WRITE_BUFFER).seed(1);
                let options = options.shape(shape.clone()).background_threads(0).fs(world.fs.clone());
                options.clock(world.clock.clone()).separate_values_from(1000).open(DIR).unwrap()
            };
            let db = open();
            for n in 0..KEYS {
                db.put(key(n), value(n, 0).repeat(20)).unwrap();
            }
            if flushed {
                db.flush().unwrap();
            }
            free(&db);
            let live = u64::from(KEYS) * 4000 / parts;
            let most = live * 13 / 10 + 2 * WRITE_BUFFER + 40_000;
            rest(&world, &db);
            rest(&world, &db);
            let at_rest = world.disk_bytes();
            assert!(at_rest <= most, "{what}, flushed {flushed}: {at_rest} of {live}");
            drop(db);
            let db = open();
            rest(&world, &db);
            assert!(
                world.disk_bytes() <= most,
                "{what}, flushed {flushed}, reopened: {}",
                world.disk_bytes()
            );
            db.compact_range(..).unwrap();
            let asked = world.disk_bytes();
            assert!(asked <= live * 11 / 10 + 40_000, "{what}, flushed {flushed}, asked: {asked} of {live}");
            let left = all(db.iter());
            let is_whole = |n: u32, value: &[u8]| *value == self::value(n, 0).repeat(20);
            for (found, value) in &left {
                let n = String::from_utf8_lossy(&found[3..]).parse().unwrap();
                assert!(value == b"small" || is_whole(n, value), "{what}: {n}");
            }
            let count = if parts == 10 {
                KEYS / 10
            } else if what == "everything" {
                0
            } else {
                KEYS
            };
            assert_eq!(left.len() as u32, count, "{what}");
        }
    }
}
