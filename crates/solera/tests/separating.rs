//! Tests of a keyspace whose values begin to be kept apart, or cease to be, while it is in use.
//!
//! What is written from then on obeys at once. What lies there already follows as merges move it: a
//! conversion, and a `compact_range`, write each value as the settings of now say. No answer
//! changes by that. It costs writers little, and files take what live data and the spare percent
//! allow.

mod made;

use made::{key, value};
use solera::{
    Db, ManualClock, Options, Reclaim, Shape, Snapshot,
    control::{Change, knob},
    operator::Append,
    vfs::{Fs, mem::MemFs},
};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

const DIR: &str = "/db";
const KEYS: u32 = 2_000;
const VALUE_BYTES: usize = 1_000;
const SPARE_PERCENT: u64 = 30;

struct World {
    fs: MemFs,
    clock: Arc<ManualClock>,
    db: Db,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn hash(n: u32, round: u32) -> u32 {
    u32::from_le_bytes(value(n, round, 4).try_into().unwrap())
}

impl World {
    fn new(way: Reclaim) -> World {
        let (fs, clock) = (MemFs::new(), Arc::new(ManualClock::at_unix_ms(1_000_000)));
        let shape = Shape { table_bytes: 128 << 10, ..Shape::default() };
        let options = Options::new().memory(4 << 20).write_buffer(64 << 10).shape(shape).seed(1);
        let options = options.background_threads(0).clock(clock.clone()).reclaim(way);
        let options = options.value_spare_percent(SPARE_PERCENT as u32).merge_operator(Arc::new(Append));
        let db = options.fs(Arc::new(fs.clone())).open(DIR).unwrap();
        World { fs, clock, db, model: BTreeMap::new() }
    }

    fn put(&mut self, n: u32, round: u32, len: usize) {
        let value = value(n, round, len);
        self.db.put(key(n), &value).unwrap();
        self.model.insert(key(n), value);
        while self.db.step().unwrap() {}
    }

    /// Values of so many bytes and more are kept apart from now on; 0: none.
    fn separate_from(&self, bytes: u32) {
        let bytes = if bytes == 0 { u32::MAX } else { bytes };
        let change = Change::new("test", "what follows");
        self.db.control().apply(change.set(knob::find("separate_from").unwrap(), bytes)).unwrap();
    }

    /// Bytes of tables, and of files that may hold values.
    fn bytes(&self) -> (u64, u64) {
        let of = |ending: &str| -> u64 {
            let names = self.fs.list_dir(DIR.as_ref()).unwrap();
            let names = names.iter().filter(|name| name.ends_with(ending));
            names.map(|name| self.fs.content(&Path::new(DIR).join(name)).unwrap().len() as u64).sum()
        };
        (of(".table"), of(".log") + of(".values"))
    }

    fn separated(&self) -> u64 {
        self.db.default().stats().separated_bytes
    }

    /// Bytes that flushes and merges have written so far.
    fn merged(&self) -> u64 {
        let counters = self.db.control().observe().keyspaces[0].counters;
        counters.bytes_written_flush + counters.bytes_written_compaction
    }

    fn assert_holds(&self) {
        let mut all = self.db.range(..);
        let mut model = self.model.iter();
        while all.advance().unwrap() {
            let (key, value) = model.next().expect("no more than was written");
            assert_eq!((all.key(), all.value()), (&key[..], &value[..]));
        }
        assert_eq!(model.next(), None);
        for n in (0..KEYS).step_by(7) {
            assert_eq!(self.db.get(key(n)).unwrap().as_deref(), self.model.get(&key(n)).map(Vec::as_slice));
        }
        let report = self.db.verify().unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }

    /// Closes it, and has every count compared with one from scratch.
    fn assert_checks(self) {
        self.assert_holds();
        self.db.close().unwrap();
        let fs: Arc<dyn Fs> = Arc::new(self.fs);
        let check = solera::inspect::check(&fs, DIR.as_ref()).unwrap();
        assert!(check.problems.is_empty(), "{:?}", check.problems);
    }
}

/// Symptom: after `separate_from` was set on a database with data, updates of a tenth of the keys
/// wrote 90 bytes for each byte put, and took a hundred times as long. Cause: only values kept
/// apart counted as live data, so next to nothing was spared, and each conversion wrote all inline
/// values of its range anew. Cure: all live data counts, and values that a conversion meets leave
/// their entries.
#[test]
fn values_that_begin_to_be_kept_apart_cost_writers_little() {
    let mut world = World::new(Reclaim::Tier);
    (0..KEYS).for_each(|n| world.put(n, 0, VALUE_BYTES));
    world.db.flush().unwrap();
    world.db.wait_idle().unwrap();
    world.separate_from(512);
    let before = world.merged();
    let mut most = 0.0f64;
    for round in 1..=40 {
        for n in 0..KEYS / 10 {
            let of = if n.is_multiple_of(10) { KEYS } else { KEYS / 10 };
            world.put(hash(n, round) % of, round, VALUE_BYTES);
        }
        let (tables, values) = world.bytes();
        let live = world.model.values().map(|value| value.len() as u64 + 11).sum::<u64>();
        most = most.max((tables + values) as f64 / live as f64);
    }
    let written = (world.merged() - before) as f64 / f64::from(40 * KEYS / 10 * VALUE_BYTES as u32);
    assert!(written < 2.0, "{written:.2} bytes are written for each byte put");
    // A log of one write buffer is reserved ahead, and two may wait for their flush.
    assert!(most < 1.3 + 0.125 + 0.1 + 0.1, "files take {most:.2} of the live data");
    world.assert_checks();
}

/// Symptom: as above, where most values are too short to be kept apart.
#[test]
fn a_few_long_values_that_change_do_not_have_all_short_ones_rewritten_for_ever() {
    let mut world = World::new(Reclaim::Tier);
    world.separate_from(512);
    for n in 0..10 * KEYS {
        world.put(n, 0, if n.is_multiple_of(100) { VALUE_BYTES } else { 100 });
    }
    world.db.flush().unwrap();
    world.db.wait_idle().unwrap();
    let before = world.merged();
    for round in 1..=40 {
        (0..KEYS / 10).for_each(|n| world.put(n * 100, round, VALUE_BYTES));
    }
    let written = (world.merged() - before) as f64 / f64::from(40 * KEYS / 10 * VALUE_BYTES as u32);
    assert!(written < 1.0, "{written:.2} bytes are written for each byte put");
    world.assert_checks();
}

/// Symptom: where short values were updated, all of the few long ones counted as garbage, so ranges
/// were merged again and again. Cause: each short value that a newer one hid was taken for one of
/// the mean length of those kept apart. Cure: only the share that points counts.
#[test]
fn updates_of_short_values_give_nothing_back_in_value_files() {
    let mut world = World::new(Reclaim::Tier);
    world.separate_from(512);
    let len = |n: u32| if n.is_multiple_of(20) { 4 * VALUE_BYTES } else { 100 };
    for n in 0..5 * KEYS {
        world.put(n, 0, len(n));
    }
    world.db.flush().unwrap();
    world.db.wait_idle().unwrap();
    let (before, mut put) = (world.merged(), 0);
    for round in 1..=3 {
        for n in 0..5 * KEYS {
            let n = hash(n, round) % (5 * KEYS);
            put += len(n);
            world.put(n, round, len(n));
        }
    }
    let written = (world.merged() - before) as f64 / put as f64;
    assert!(written < 8.0, "{written:.2} bytes are written for each byte put");
    world.assert_checks();
}

/// Symptom: tables seemed to hold many times their size for a snapshot, and were written anew when
/// it was gone. Cause: a version that left its entry was counted as long as before. Cure: what a
/// table holds is counted as it was written.
#[test]
fn what_a_table_holds_for_a_snapshot_is_counted_as_it_was_written() {
    let mut world = World::new(Reclaim::Tier);
    (0..KEYS).for_each(|n| world.put(n, 0, VALUE_BYTES));
    let snapshot = world.db.snapshot();
    (0..KEYS).for_each(|n| world.put(n, 1, VALUE_BYTES));
    world.separate_from(512);
    (0..KEYS).step_by(21).for_each(|n| world.put(n, 2, VALUE_BYTES));
    world.db.flush().unwrap();
    world.db.compact_range(..).unwrap();
    let held = world.db.control().observe().keyspaces[0].space.old_version_bytes;
    let (tables, _) = world.bytes();
    // Each key has one old version beside the new one.
    assert!(held > 0 && held * 10 < tables * 6, "{held} bytes are held in tables of {tables}");
    drop(snapshot);
    world.assert_checks();
}

#[test]
fn a_compaction_of_all_writes_each_value_as_is_set_now() {
    let mut world = World::new(Reclaim::Tier);
    (0..KEYS).for_each(|n| world.put(n, 0, if n.is_multiple_of(2) { VALUE_BYTES } else { 100 }));
    world.db.compact_range(..).unwrap();
    let whole = world.bytes().0;
    assert_eq!(world.separated(), 0);
    world.separate_from(512);
    // A table that lies alone is not written anew.
    (0..KEYS).step_by(21).for_each(|n| world.put(n, 0, if n.is_multiple_of(2) { VALUE_BYTES } else { 100 }));
    world.db.compact_range(..).unwrap();
    assert_eq!(world.separated(), u64::from(KEYS / 2) * VALUE_BYTES as u64);
    assert!(world.bytes().0 < whole / 4, "{} of {whole} bytes are left in tables", world.bytes().0);
    world.assert_checks();
}

#[test]
fn values_come_back_into_tables_once_none_is_kept_apart() {
    for way in [Reclaim::Tier, Reclaim::LearnedKv, Reclaim::Rewrite] {
        let mut world = World::new(way);
        world.separate_from(512);
        (0..KEYS).for_each(|n| world.put(n, 0, VALUE_BYTES));
        world.db.flush().unwrap();
        world.db.wait_idle().unwrap();
        let apart = world.separated();
        assert!(apart >= u64::from(KEYS) * VALUE_BYTES as u64, "{apart}");
        world.separate_from(0);
        for round in 1..=3 {
            (0..KEYS).filter(|n| n % 3 > 0).for_each(|n| world.put(n, round, VALUE_BYTES));
        }
        world.db.compact_range(..).unwrap();
        world.db.wait_idle().unwrap();
        let left = world.separated();
        assert!(left < apart / 4, "{way:?}: {left} of {apart} bytes are still apart");
        world.assert_checks();
    }
}

/// Every kind of entry passes a conversion that divides or joins: with an expiry, with operands on
/// top, several versions that snapshots see, deleted, from before and after the change.
#[test]
fn no_answer_changes_whenever_the_threshold_does() {
    for (way, seed) in Reclaim::ALL.into_iter().zip(1u32..) {
        let mut world = World::new(way);
        let mut held: Vec<(Snapshot, BTreeMap<Vec<u8>, Vec<u8>>)> = Vec::new();
        for round in 0..24u32 {
            world.separate_from([0, 300, 2_000, 40, 0, 700][(round + seed) as usize % 6]);
            for nth in 0..300u32 {
                let n = (nth * 37 + round * 11) % (KEYS / 4);
                let len = (nth * 53 + round * 131) as usize % 1_500;
                match (nth + round) % 9 {
                    0 => {
                        world.db.delete(key(n)).unwrap();
                        world.model.remove(&key(n));
                    }
                    1 => {
                        world.db.merge(key(n), b"+").unwrap();
                        world.model.entry(key(n)).or_default().push(b'+');
                    }
                    2 => {
                        let value = value(n, round, len);
                        world.db.default().put_with_ttl(key(n), &value, Duration::from_secs(3600)).unwrap();
                        world.model.insert(key(n), value);
                    }
                    _ => world.put(n, round, len),
                }
            }
            if round % 5 == 2 {
                held.push((world.db.snapshot(), world.model.clone()));
            }
            if round % 7 == 6 {
                world.db.compact_range(key(100)..key(300)).unwrap();
            }
            world.clock.advance(Duration::from_secs(1));
            world.assert_holds();
            for (snapshot, then) in &held {
                for n in (0..KEYS / 4).step_by(3) {
                    let seen = snapshot.get(world.db.default(), key(n)).unwrap();
                    assert_eq!(seen.as_deref(), then.get(&key(n)).map(Vec::as_slice), "{way:?}: key {n}");
                }
            }
            if round % 6 == 5 && !held.is_empty() {
                held.remove(0);
            }
        }
        drop(held);
        world.assert_checks();
    }
}
