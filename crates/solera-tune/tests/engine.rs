//! The model against the engine: the same load, on a database in memory that does its work in the caller's
//! thread. What the engine counted is the truth.

use solera::{Compression, Db, Filters, Layout, Options, Shape, stats::Counters, vfs::mem::MemFs};
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
        table_bytes: 128 << 10,
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
        let layout = Layout {
            compression: Compression::None,
            block_bytes: 2048,
            filter: Filters::uniform(setting.filter_bits as f32),
            ..Layout::default()
        };
        let options = Options::new().fs(Arc::new(MemFs::new())).background_threads(0).layout(layout);
        let options = options.memory(8 << 20).write_buffer(BUFFER_BYTES).shape(setting.shape.clone());
        let mut engine = Engine { db: options.open("/d").unwrap(), draw: 1 };
        (0..ENTRIES).for_each(|i| engine.put(2 * i));
        engine.db.flush().unwrap();
        while engine.db.step().unwrap() {}
        engine
    }

    fn put(&mut self, number: u64) {
        self.db.put(&key(number), &[7; 492]).unwrap();
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
                assert!(self.db.get(&key(absent)).unwrap().is_none());
            } else if kind < v + r {
                assert!(self.db.get(&key(number)).unwrap().is_some());
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
        let mut engine = Engine::loaded(&setting);
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
            let cost = Cost { reads, work_per_write: Work::default() };
            // A few false positives are a small number.
            let tolerance = if mix.absent > 0.0 { 0.3 } else { 0.1 };
            close(&format!("{limits:?}, {mix}"), model.blocks(&mix, &cost), read, tolerance);
        }
    }
}
