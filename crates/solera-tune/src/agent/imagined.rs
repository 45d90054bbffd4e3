//! A database that is only computed: `Imagined`, the cost model's tree, whose missions an agent
//! sees as windows.
//!
//! `mission` runs one of 5,000 operations, `apply` sets run limits as a proposal asks, `tuned_by`
//! lets an agent live in it. `cost_of` is the long run's price of run limits.
//!
//! What must hold: no engine is opened. It has the shape of RusKey's experiments, and the units of
//! a fixed machine. `apply` panics at any other knob.
//!
//! Callers: `lerp_tests`, `doblix_tests` and `camal::tests`. It is built for tests alone.

use super::{Agent, Outcome, Proposal, Set};
use crate::{
    cost::{
        Data, Mix, Model, Setting, Units,
        model::Load,
        tree::{Tree, Work},
    },
    learn::Random,
    sight::{LevelSight, Operations, Setting as Seen, Window},
};
use solera::Shape;

/// A mission's operations.
pub const OPERATIONS: f64 = 5_000.0;

/// The database.
pub struct Imagined {
    pub model: Model,
    pub setting: Setting,
    pub mix: Mix,
    tree: Tree,
    /// Writes that are in the memtable.
    pending: f64,
    random: Random,
    missions: u64,
    /// How far a mission's time may lie from what is expected, in deviations of a share.
    noise: f64,
}

/// Unit costs of a machine that reads a block in 80 µs and writes a page in 25 µs.
pub fn units() -> Units {
    Units {
        direct_reads: true,
        read_ns: [80_000.0, 90_000.0, 130_000.0, 260_000.0],
        read_ahead_ns_per_page: 10_000.0,
        write_ns_per_page: 25_000.0,
        get_ns: 400.0,
        run_probe_ns: 600.0,
        block_find_ns: 300.0,
        block_load_ns: 500.0,
        run_seek_ns: 1_000.0,
        step_ns: 50.0,
        put_ns: 1_000.0,
        merge_ns_per_entry: 500.0,
    }
}

impl Imagined {
    /// A tree of a quarter of a million entries of a thousand bytes, with the shape of RusKey's
    /// experiments.
    pub fn new(lookups: f64, monkey: bool, seed: u64) -> Imagined {
        let data = Data { entries: 250_000.0, entry_bytes: 1000.0, block_bytes: 4096.0, scan_entries: 1.0 };
        let shape = Shape {
            size_ratio: 10,
            run_limits: vec![4, 1],
            write_buffer_bytes: 64 << 10,
            table_bytes: 256 << 10,
        };
        let setting =
            Setting { shape, filter_bits: if monkey { 4.0 } else { 8.0 }, monkey, cache_bytes: 0.0 };
        let model = Model { data, units: units() };
        let tree = model.loaded(&setting);
        let mix = Mix::new([0.0, lookups, 0.0, 1.0 - lookups]).unwrap();
        Imagined {
            model,
            setting,
            mix,
            tree,
            pending: 0.0,
            random: Random::new(seed),
            missions: 0,
            noise: 0.02,
        }
    }

    /// Does a mission.
    pub fn mission(&mut self) -> Window {
        let before = self.tree.work.clone();
        let memtable = self.model.data.memtable_entries(self.setting.shape.write_buffer_bytes);
        let reads = self.model.reads(&self.setting, &self.mix, &self.tree);
        self.pending += OPERATIONS * self.mix.write;
        let mut flushes = 0;
        while self.pending >= memtable {
            self.pending -= memtable;
            self.tree.flush(0.0, memtable);
            self.tree.settle();
            flushes += 1;
        }
        let writes = (OPERATIONS * self.mix.write).max(1e-9);
        let since = |now: &[f64], then: &[f64]| -> Vec<f64> {
            let then = then.iter().chain(std::iter::repeat(&0.0));
            now.iter().zip(then).map(|(now, then)| now - then).collect()
        };
        let work = &self.tree.work;
        let (read, written) = (since(&work.read, &before.read), since(&work.written, &before.written));
        let per_write = Work {
            flushed: (work.flushed - before.flushed) / writes,
            read: read.iter().map(|x| x / writes).collect(),
            written: written.iter().map(|x| x / writes).collect(),
            sizes: std::array::from_fn(|of| (work.sizes[of] - before.sizes[of]) / writes),
            tables: (work.tables - before.tables) / writes,
        };
        let cost = crate::cost::Cost { reads, work_per_write: per_write, filter_bits: Vec::new() };
        let ns = self.model.ns(&self.mix, &cost) * (1.0 + self.noise * self.random.normal());
        self.missions += 1;
        self.window(ns, flushes, &read, &written)
    }

    fn window(&self, ns: f64, flushes: u64, read: &[f64], written: &[f64]) -> Window {
        let count = |share: f64| (share * OPERATIONS).round() as u64;
        let bytes = self.model.data.entry_bytes;
        let lookups = (self.mix.absent + self.mix.found) * OPERATIONS;
        let depth = self.tree.depth();
        let levels = (0..depth).map(|level| {
            let runs = self.tree.runs().filter(|(at, _)| *at == level).count() as f64;
            let entries = self.tree.entries(level);
            let held = entries / self.tree.keys();
            let passes = runs * (-0.4805 * self.setting.filter_bits).exp() + held;
            let of = |work: &[f64]| (work.get(level).copied().unwrap_or(0.0) * bytes) as u64;
            LevelSight {
                level: level as u32,
                runs: runs as u64,
                tables: (entries * bytes / self.setting.shape.table_bytes as f64).ceil() as u64,
                entries: entries as u64,
                bytes: (entries * bytes) as u64,
                capacity_bytes: self.setting.shape.capacity_bytes(level as u32),
                run_limit: self.setting.shape.run_limit(level as u32),
                filter_bits: self.setting.filter_bits,
                tables_probed: (lookups * runs) as u64,
                blocks_probed: (lookups * passes) as u64,
                lookup_blocks_read: (lookups * passes) as u64,
                bytes_in: of(written),
                bytes_out: of(read),
                entries_in: (of(written) as f64 / bytes) as u64,
                ..LevelSight::default()
            }
        });
        let knobs = [
            ("size_ratio", None, f64::from(self.setting.shape.size_ratio)),
            ("run_limit", None, f64::from(self.setting.shape.run_limit(9))),
            ("block_bytes", None, self.model.data.block_bytes),
            ("filter_bits_per_key", None, self.setting.filter_bits),
        ];
        let settings = knobs.map(|(knob, level, value)| Seen {
            knob: knob.into(),
            level,
            value: value.to_string(),
            is_set: false,
        });
        let mean_ns = [ns; 4];
        Window {
            number: self.missions,
            unix_ms: self.missions * 1000,
            elapsed_ns: (ns * OPERATIONS) as u64,
            changes: 0,
            operations: Operations {
                absent: count(self.mix.absent),
                found: count(self.mix.found),
                scans: count(self.mix.scan),
                writes: count(self.mix.write),
            },
            scanned: 0,
            mean_ns,
            write_calls: count(self.mix.write),
            samples: 100,
            p50_ns: ns as u64,
            p99_ns: ns as u64,
            blocks_read: 0,
            blocks_hit: 0,
            bytes_read: 0,
            bytes_flushed: 0,
            bytes_compacted: 0,
            flushes,
            log_bytes: 0,
            value_reads: 0,
            value_bytes_read: 0,
            separated_values: 0,
            separated_bytes: 0,
            stall_us: 0,
            levels: levels.collect(),
            layouts: Vec::new(),
            memtable_entries: self.pending as u64,
            memory_bytes: 1 << 20,
            filter_bytes: 0,
            index_bytes: 0,
            cache_bytes: 0,
            cached_bytes: 0,
            settings: settings.into(),
            context: 1,
            drifted: false,
            steady: false,
            early: false,
            blocked: None,
        }
    }

    /// Does what a proposal asks.
    pub fn apply(&mut self, proposal: &Proposal) {
        let depth = self.tree.depth().max(2);
        let shape = &mut self.setting.shape;
        let named = shape.run_limits.clone();
        let of = |level: usize| named.get(level).or(named.last()).copied().unwrap();
        shape.run_limits = (0..depth).map(of).collect();
        for Set { knob, level, value } in &proposal.sets {
            let value: u32 = value.as_ref().unwrap().parse().unwrap();
            match (knob.as_str(), level) {
                ("run_limit", Some(level)) => shape.run_limits[*level as usize] = value,
                ("run_limit", None) => shape.run_limits[1..].fill(value),
                other => panic!("{other:?}"),
            }
        }
        self.tree.set_shape(shape.clone());
    }

    /// Lets an agent do as it likes for so many missions; what each cost for one operation.
    pub fn tuned_by(&mut self, agent: &mut dyn Agent, missions: usize) -> Vec<f64> {
        let mut costs = Vec::with_capacity(missions);
        for _ in 0..missions {
            let window = self.mission();
            costs.push(window.elapsed_ns as f64 / OPERATIONS);
            agent.see(&window);
            if let Some(proposal) = agent.propose(&window) {
                self.apply(&proposal);
                agent.hear(&Outcome::Made);
                agent.hear(&Outcome::Kept { ratio: 1.0 });
            }
        }
        costs
    }

    /// Run limits of the levels that there are.
    pub fn limits(&self) -> Vec<u32> {
        (0..self.tree.depth() as u32).map(|level| self.setting.shape.run_limit(level)).collect()
    }

    /// What an operation costs in the long run with these run limits in all levels below 0, at this
    /// mix.
    pub fn cost_of(&self, below: &[u32]) -> f64 {
        self.cost_of_k0(4, below)
    }

    pub fn cost_of_k0(&self, k0: u32, below: &[u32]) -> f64 {
        let mut setting = self.setting.clone();
        setting.shape.run_limits = [k0].into_iter().chain(below.iter().copied()).collect();
        let mut tree = self.model.loaded(&setting);
        let operations = 2.0 * self.model.data.entries / self.mix.write.max(0.05);
        let cost = self.model.run(&setting, Load { mix: &self.mix, operations }, &mut tree);
        self.model.ns(&self.mix, &cost)
    }
}
