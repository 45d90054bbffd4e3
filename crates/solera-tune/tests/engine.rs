//! The promise: the cost model foresees what the engine counts. The same load runs on a database in
//! memory that does its work in the caller's thread.
//!
//! They compare merges of loads and updates for eight shapes, of every family. Blocks that lookups
//! and scans read, and runs asked in vain, are compared for some of them.

use solera::{
    Compression, Db, Layout, Options, Shape,
    control::{Change, knob},
    stats::Counters,
    vfs::mem::MemFs,
};
use solera_tune::cost::{
    Cost, Data, Mix, Model, Setting, Units,
    model::Load,
    tree::{Tree, Work},
};
use std::sync::Arc;

const ENTRIES: u64 = 20_000;
const BUFFER_BYTES: u64 = 32 << 10;

fn shape(size_ratio: u32, run_limits: &[u32]) -> Shape {
    Shape {
        size_ratio,
        run_limits: run_limits.to_vec(),
        write_buffer_bytes: BUFFER_BYTES,
        // Filters have whole lines of 64 keys: a full table is not to be on the edge between two
        // counts of them.
        table_bytes: 120 << 10,
    }
}

fn setting(shape: Shape) -> Setting {
    Setting { shape, filter_bits: 8.0, monkey: false, cache_bytes: (8 << 20) as f64 / 8.0 }
}

fn model() -> Model {
    let data = Data { entries: ENTRIES as f64, entry_bytes: 500.0, block_bytes: 2048.0, scan_entries: 8.0 };
    Model { data, units: Units::of_blocks() }
}

/// The engine under a setting.
struct Engine {
    db: Db,
    draw: u64,
}

/// Spreads numbers over the key space. Even numbers are loaded, odd ones are not.
fn key(number: u64) -> [u8; 8] {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).to_be_bytes()
}

impl Engine {
    fn loaded(setting: &Setting) -> Engine {
        Engine::loaded_after(setting, Change::new("test", "as the model"))
    }

    /// Merges read everything from files, as the model's do: hardly anything is cached.
    fn loaded_uncached(setting: &Setting) -> Engine {
        let uncached = Change::new("test", "as the model").set(&knob::CACHE_PERCENT, 1.0);
        Engine::loaded_after(setting, uncached)
    }

    fn loaded_after(setting: &Setting, change: Change) -> Engine {
        let layout = Layout {
            compression: Compression::None,
            block_bytes: 2048,
            filter: setting.filters(),
            ..Layout::default()
        };
        let options = Options::new().fs(Arc::new(MemFs::new())).background_threads(0).layout(layout);
        let options = options.memory(8 << 20).write_buffer(BUFFER_BYTES).shape(setting.shape.clone());
        let mut engine = Engine { db: options.open("/d").unwrap(), draw: 1 };
        // The model's level 0 is due at its run limit, whatever is read.
        engine.db.control().apply(change.set(&knob::LEVEL0_PATIENCE, 0u32)).unwrap();
        (0..ENTRIES).for_each(|i| engine.put(2 * i));
        engine.db.flush().unwrap();
        while engine.db.step().unwrap() {}
        engine
    }

    fn put(&mut self, number: u64) {
        self.db.put(key(number), [7; 492]).unwrap();
        while self.db.step().unwrap() {}
    }

    fn below(&mut self, n: u64) -> u64 {
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.draw >> 33) % n
    }

    fn run(&mut self, mix: &Mix, operations: u64) {
        for _ in 0..operations {
            let (kind, number) = (self.below(1_000_000) as f64 / 1e6, 2 * self.below(ENTRIES));
            let absent = 2 * self.below(1 << 30) + 1;
            let [v, r, q, _] = mix.shares();
            if kind < v {
                assert!(self.db.get(key(absent)).unwrap().is_none());
            } else if kind < v + r {
                assert!(self.db.get(key(number)).unwrap().is_some());
            } else if kind < v + r + q {
                let first = key(number);
                let (mut scan, mut scanned) = (self.db.range(&first[..]..), 0);
                while scanned < 8 && scan.advance().unwrap() {
                    scanned += 1;
                }
            } else {
                self.put(number);
            }
        }
    }

    fn counters(&self) -> Counters {
        self.db.default().stats().counters
    }

    fn levels(&self) -> Vec<Vec<f64>> {
        let levels = self.db.default().stats().levels;
        levels.iter().map(|level| level.runs.iter().map(|run| run.entries as f64).collect()).collect()
    }
}

fn close(what: &str, model: f64, engine: f64, tolerance: f64) {
    assert!((model / engine - 1.0).abs() <= tolerance, "{what}: model {model:.3}, engine {engine:.3}");
}

#[test]
fn merges_of_a_load_and_of_updates_are_foreseen_for_every_family_of_shapes() {
    for (size_ratio, limits) in [
        (10, &[4, 1][..]),
        (10, &[4, 10]),
        (10, &[4, 5]),
        (10, &[4, 10, 1]),
        (4, &[4, 1]),
        (4, &[3, 4, 2]),
        (6, &[1, 6, 3, 1]),
        (3, &[2, 1]),
    ] {
        let setting = setting(shape(size_ratio, limits));
        let model = model();
        let mut engine = Engine::loaded_uncached(&setting);
        let loaded = engine.counters();
        let stored = model.data.stored_bytes(setting.filter_bits);
        let mut tree = Tree::new(setting.shape.clone(), stored);
        let memtable = model.data.memtable_entries(BUFFER_BYTES);
        close("entries of a flush", memtable, ENTRIES as f64 / loaded.flushes as f64, 0.03);
        let mut left = ENTRIES as f64;
        while left > 0.0 {
            tree.flush(left.min(memtable), 0.0);
            tree.settle();
            left -= memtable;
        }
        let name = setting.shape.to_string();
        let written = loaded.bytes_written_compaction as f64 / stored;
        close(&format!("{name}: load"), tree.work.written_total(), written, 0.15);
        let writes: Mix = "0,0,0,1".parse().unwrap();
        engine.run(&writes, ENTRIES);
        let updated = engine.counters();
        tree.work = Work::default();
        let load = Load { mix: &writes, operations: ENTRIES as f64 };
        let cost = model.run(&setting, load, &mut tree);
        let per_write = |bytes: u64| bytes as f64 / stored / ENTRIES as f64;
        let written = per_write(updated.bytes_written_compaction - loaded.bytes_written_compaction);
        let read = per_write(updated.bytes_read - loaded.bytes_read);
        close(&format!("{name}: written"), cost.work_per_write.written_total(), written, 0.15);
        close(&format!("{name}: read"), cost.work_per_write.read_total(), read, 0.15);
    }
}

#[test]
fn blocks_that_lookups_and_scans_read_are_foreseen_from_the_tree_as_it_is() {
    for limits in [&[4, 1][..], &[8, 10, 5], &[4, 5, 1]] {
        let setting = setting(shape(10, limits));
        let model = model();
        let mut engine = Engine::loaded(&setting);
        engine.run(&"0,0,0,1".parse().unwrap(), 2_345);
        engine.db.flush().unwrap();
        while engine.db.step().unwrap() {}
        let capacity = engine.db.stats().block_cache_capacity_bytes as f64;
        let setting = Setting { cache_bytes: capacity, ..setting };
        let stored = model.data.stored_bytes(setting.filter_bits);
        let tree = Tree::of(setting.shape.clone(), stored, ENTRIES as f64, &engine.levels());
        for shares in ["1,0,0,0", "0,1,0,0", "0,0,1,0"] {
            let mix: Mix = shares.parse().unwrap();
            // Before the rest is counted the cache fills, which false positives alone do slowly.
            engine.run(&mix, 60_000);
            let before = engine.counters();
            engine.run(&mix, 40_000);
            let read = (engine.counters().blocks_read - before.blocks_read) as f64 / 40_000.0;
            let reads = model.reads(&setting, &mix, &tree);
            let cost = Cost { reads, ..Cost::default() };
            // A few false positives are a small number.
            let tolerance = if mix.absent > 0.0 { 0.3 } else { 0.1 };
            close(&format!("{limits:?}, {mix}"), model.blocks(&mix, &cost), read, tolerance);
        }
    }
}

/// Lookups of absent keys, and of keys that are there, on loaded trees: runs asked in vain level by
/// level, and blocks that filters let them look into.
///
/// Symptom: at many runs the model saw 11 to 19 % more blocks per found lookup than were read.
/// Cause: it took every filter to have the bits that it was given, but small tables have whole
/// lines of 512 bits: level 0's of one write buffer, and full ones of 66 entries, which at 8 bits
/// have two lines and let a tenth as many pass. Cure: a filter over a table's own keys.
#[test]
fn runs_asked_in_vain_and_blocks_that_filters_let_pass_are_foreseen() {
    const LOOKUPS: u64 = 20_000;
    for (limits, monkey, bits, table_bytes) in [
        (&[4, 1][..], false, 8.0, 120 << 10),
        (&[4, 10], false, 8.0, 34 << 10),
        (&[4, 10, 1], false, 5.0, 120 << 10),
        (&[4, 1], true, 5.0, 512 << 10),
        (&[4, 10], true, 6.0, 512 << 10),
        (&[4, 5, 1], true, 5.0, 512 << 10),
    ] {
        let shape = Shape { table_bytes, ..shape(10, limits) };
        let setting = Setting { filter_bits: bits, monkey, ..setting(shape) };
        let model = model();
        let mut engine = Engine::loaded(&setting);
        engine.run(&"0,0,0,1".parse().unwrap(), 2_345);
        engine.db.flush().unwrap();
        while engine.db.step().unwrap() {}
        let stored = model.data.stored_bytes(bits);
        let tree = Tree::of(setting.shape.clone(), stored, ENTRIES as f64, &engine.levels());
        let name = format!("{limits:?}, {}, {} bytes", setting.filters(), setting.shape.table_bytes);
        for shares in ["1,0,0,0", "0,1,0,0"] {
            let mix: Mix = shares.parse().unwrap();
            let before = engine.db.default().stats().levels;
            engine.run(&mix, LOOKUPS);
            let after = engine.db.default().stats().levels;
            let per_lookup = |count: u64| count as f64 / LOOKUPS as f64;
            let mut passed = 0.0;
            let misses = model.misses(&setting, &mix, &tree);
            for ((before, after), misses) in before.iter().zip(&after).zip(misses) {
                let counted = after.counters.since(&before.counters);
                passed += per_lookup(counted.filter_false_positives);
                let (level, asked) = (after.level, per_lookup(counted.misses()));
                assert!(
                    (misses - asked).abs() < 0.05 + 0.05 * asked,
                    "{name}, {mix}, level {level}: {misses}, {asked}"
                );
            }
            let reads = model.reads(&setting, &mix, &tree);
            let foreseen = reads.absent.blocks * mix.absent + (reads.found.blocks - 1.0) * mix.found;
            assert!(passed * LOOKUPS as f64 > 150.0, "{name}, {mix}: {passed}");
            close(&format!("{name}, {mix}: filters that let pass"), foreseen, passed, 0.2);
        }
    }
}

/// After T went from 2 to 10: the levels that are left, and what the merge moved.
#[test]
fn levels_that_a_larger_size_ratio_does_not_need_are_merged_as_foreseen() {
    let (before, after) = (setting(shape(2, &[4, 1])), setting(shape(10, &[4, 1])));
    let model = model();
    let engine = Engine::loaded(&before);
    let stored = model.data.stored_bytes(before.filter_bits);
    let mut tree = Tree::of(after.shape.clone(), stored, ENTRIES as f64, &engine.levels());
    let surplus = tree.surplus().expect("T = 2 makes more levels");
    tree.lift();
    let moved = |engine: &Engine| engine.counters().bytes_written_compaction;
    let moved_before = moved(&engine);
    engine.db.control().apply(Change::new("test", "fewer levels").set(&knob::SIZE_RATIO, 10u32)).unwrap();
    engine.db.wait_idle().unwrap();
    let levels = engine.levels().iter().rposition(|runs| !runs.is_empty());
    assert_eq!(levels, Some(surplus.last), "{:?}", engine.levels());
    assert_eq!(tree.depth(), surplus.last + 1);
    let written = (moved(&engine) - moved_before) as f64 / stored;
    close("entries written", tree.work.written_total(), written, 0.15);
}
