//! What an operation costs: `Model` prices the tree's expectation by the machine's units.
//!
//! `Data` is what cannot be chosen, `Setting` what can. `loaded` is the tree that a load leaves;
//! `run` goes on writing to it and looks at reads on the way. `Cost` says what reads and merges
//! did, in blocks and entries; `terms`, `blocks` and `ns` price that. `filter_bits` says what the
//! filters of each level get, `misses` how often a level is asked for a key that it lacks.
//!
//! What must hold: filters come from the engine's own functions, and the constants of blocks and
//! memtables follow its formats. `tests/engine.rs` compares the model with the engine. `PASSING`
//! remembers rates of false positives, and changes no price.
//!
//! Callers: `cost::choose` (and so `solera cost`), `agent::steward::foresight`, the tests'
//! `agent::imagined`, and the pages and opponents (`arce`, `two_steps`) of `solera-bench`.

use super::{
    mix::Mix,
    reads::{Operation, Reading, Reads},
    tree::{Tree, Work},
    units::{PAGE_BYTES, Units},
};
use crate::learn::elementary::{exp2, floor_log2};
use serde::Serialize;
use solera::{FilterKind, FilterSpec, Filters, LevelFilters, Shape, false_positives_over};
use std::{cell::RefCell, collections::HashMap};

/// What a data block has besides its entries, in bytes, as far as it counts when a block is cut.
const BLOCK_CUT_OVERHEAD_BYTES: f64 = 46.0;
/// What it has in a file.
const BLOCK_OVERHEAD_BYTES: f64 = 54.0;
/// What a block has in a table's index and fences, in bytes.
const BLOCK_INDEX_BYTES: f64 = 4.0;
/// What an entry takes in a memtable besides its key and value, in bytes.
const MEMTABLE_OVERHEAD_BYTES: f64 = 56.0;
/// How often, while a table fills, a job looks how large it has become.
const TABLE_LOOKS: f64 = 64.0;
/// States of the tree at which reads are looked at, about, if the caller does not say otherwise.
const STATES_MAX: u32 = 32;

/// What cannot be chosen: the data, and what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Data {
    /// N: keys that are there.
    pub entries: f64,
    /// E: bytes of a key and its value.
    pub entry_bytes: f64,
    /// Bytes of a data block, as the layout says.
    pub block_bytes: f64,
    /// s: entries that a scan returns.
    pub scan_entries: f64,
}

impl Data {
    /// B: entries in a block.
    pub fn block_entries(&self) -> f64 {
        ((self.block_bytes - BLOCK_CUT_OVERHEAD_BYTES) / self.entry_bytes).floor().max(1.0)
    }

    /// Bytes of a block in a file.
    pub fn block_stored_bytes(&self) -> f64 {
        self.block_entries() * self.entry_bytes + BLOCK_OVERHEAD_BYTES
    }

    /// Bytes of a table file per entry, at this many filter bits.
    pub fn stored_bytes(&self, filter_bits: f64) -> f64 {
        (self.block_stored_bytes() + BLOCK_INDEX_BYTES) / self.block_entries() + filter_bits / 8.0
    }

    /// Entries of a full table: a job looks at its size so often, and ends it where it has come to
    /// the size.
    pub fn table_entries(&self, setting: &Setting) -> f64 {
        let table_bytes = setting.shape.table_bytes as f64;
        let between_looks = (table_bytes / TABLE_LOOKS / self.entry_bytes).ceil().max(1.0);
        (table_bytes / self.stored_bytes(setting.filter_bits) / between_looks).ceil() * between_looks
    }

    /// Entries of a full memtable.
    pub fn memtable_entries(&self, write_buffer_bytes: u64) -> f64 {
        self.memtable_entries_of(write_buffer_bytes, 1.0)
    }

    /// The same where the entries that come in are so many times as large as the mean.
    pub fn memtable_entries_of(&self, write_buffer_bytes: u64, times: f64) -> f64 {
        (write_buffer_bytes as f64 / (times * self.entry_bytes + MEMTABLE_OVERHEAD_BYTES)).max(1.0)
    }
}

/// What can be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// T, K_i and M_b.
    pub shape: Shape,
    /// Filter bits per key, in the mean.
    pub filter_bits: f64,
    /// Whether smaller levels get more of them.
    pub monkey: bool,
    /// M_c: bytes of the block cache.
    pub cache_bytes: f64,
}

impl Setting {
    /// What a keyspace is asked for, so that it has these filters.
    pub fn filters(&self) -> Filters {
        let bits = self.filter_bits as f32;
        if self.monkey { Filters::monkey(bits) } else { Filters::uniform(bits) }
    }
}

/// What is asked, for how long.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Which operations.
    pub mix: &'a Mix,
    /// How many.
    pub operations: f64,
}

/// What an operation costs, on average over a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// What reads do.
    pub reads: Reads,
    /// Entries that flushes and merges read and wrote, per write.
    pub work_per_write: Work,
    /// Bits per key of the filters of each level, at the end of the load.
    pub filter_bits: Vec<f64>,
}

/// One term of the cost of an operation of a mix.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Term {
    /// What it is for.
    pub name: &'static str,
    /// Blocks read and pages merged, per operation.
    pub blocks: f64,
    /// Time, in nanoseconds per operation.
    pub ns: f64,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Model {
    /// What cannot be chosen.
    pub data: Data,
    /// The machine.
    pub units: Units,
}

impl Model {
    /// The tree that loading all entries in random order leaves, flushed.
    pub fn loaded(&self, setting: &Setting) -> Tree {
        let mut tree = Tree::new(setting.shape.clone(), self.data.stored_bytes(setting.filter_bits));
        let memtable = self.data.memtable_entries(setting.shape.write_buffer_bytes);
        let mut left = self.data.entries;
        while left > 0.0 {
            tree.flush(left.min(memtable), 0.0);
            tree.settle();
            left -= memtable;
        }
        tree.work = Work::default();
        tree
    }

    /// What operations cost on average while `load` runs on `tree`, which is left as it is then.
    /// Writes are of keys that are there.
    pub fn run(&self, setting: &Setting, load: Load<'_>, tree: &mut Tree) -> Cost {
        self.run_looking(setting, load, tree, STATES_MAX)
    }

    /// The same, where reads are looked at in about so many states of the tree: most of the time
    /// that it takes is theirs.
    pub fn run_looking(&self, setting: &Setting, load: Load<'_>, tree: &mut Tree, states: u32) -> Cost {
        let before = tree.work.clone();
        let memtable = self.memtable(setting, tree);
        let writes = load.operations * load.mix.write;
        let flushes = (writes / memtable).floor();
        // Reads are looked at in whole cycles of level 0, which comes back to the same number of
        // runs every K₀ flushes: single states in even steps could all stand at the same place of
        // it.
        let cycle = setting.shape.run_limit(0).max(1) as usize;
        let cycles = (flushes as usize + 1).div_ceil(cycle);
        let every = (((cycles * cycle) as f64 / f64::from(states.max(1))).ceil() as usize).min(cycles);
        let looked_at = |flush: usize| flush / cycle % every == (every - 1) / 2;
        // The share of the load between two flushes, and what is left for the last.
        let share = if flushes > 0.0 { memtable / writes } else { 1.0 };
        let (mut reads, mut parts) = (Reads::default(), 0.0);
        for flush in 0..=flushes as usize {
            let part = if flush as f64 == flushes { 1.0 - share * flushes } else { share };
            if looked_at(flush) {
                reads.add(&self.reads(setting, load.mix, tree), part);
                parts += part;
            }
            if (flush as f64) < flushes {
                tree.flush(0.0, memtable);
                tree.settle();
            }
        }
        let mut cost = Cost::default();
        cost.reads.add(&reads, 1.0 / parts);
        // Writes that are still in the memtable will be flushed as well; merges that they bring
        // about are left to the windows that see them.
        let per_write = |work: f64| if writes > 0.0 { work / writes } else { 0.0 };
        let since = |now: &[f64], then: &[f64]| {
            let then = then.iter().chain(std::iter::repeat(&0.0));
            now.iter().zip(then).map(|(now, then)| per_write(now - then)).collect()
        };
        cost.work_per_write = Work {
            flushed: per_write(tree.work.flushed - before.flushed),
            read: since(&tree.work.read, &before.read),
            written: since(&tree.work.written, &before.written),
            sizes: std::array::from_fn(|of| per_write(tree.work.sizes[of] - before.sizes[of])),
            tables: per_write(tree.work.tables - before.tables),
        };
        cost.filter_bits = self.filter_bits(setting, load.mix, tree);
        cost
    }

    /// What reads of `tree` as it is now do.
    pub fn reads(&self, setting: &Setting, mix: &Mix, tree: &Tree) -> Reads {
        let reading = self.reading(setting, mix, tree);
        let filters = self.level_filters(setting, &reading, tree);
        let table = self.data.table_entries(setting);
        reading.of(tree, |level, run| {
            // Full tables, and one with the rest: a small filter's lines are not all used.
            let (entries, spec) = (run.entries(), filters.of(level as u32));
            let rest = entries % table;
            let full = entries - rest;
            (full * passing(spec, table) + rest * passing(spec, rest)) / entries
        })
    }

    /// What the filters of each level of `tree` have in bits per key: what the engine gives to
    /// tables that it writes while `mix` runs.
    pub fn filter_bits(&self, setting: &Setting, mix: &Mix, tree: &Tree) -> Vec<f64> {
        let filters = self.level_filters(setting, &self.reading(setting, mix, tree), tree);
        (0..tree.depth().max(1)).map(|level| filters.of(level as u32).bits_per_key.into()).collect()
    }

    /// q_i: how often an operation of `mix` asks a run of each level of `tree` for a key that it
    /// does not hold.
    pub fn misses(&self, setting: &Setting, mix: &Mix, tree: &Tree) -> Vec<f64> {
        self.reading(setting, mix, tree).misses(tree)
    }

    /// Entries of a full memtable of what comes into `tree`.
    fn memtable(&self, setting: &Setting, tree: &Tree) -> f64 {
        self.data.memtable_entries_of(setting.shape.write_buffer_bytes, tree.arriving())
    }

    fn reading<'a>(&self, setting: &Setting, mix: &'a Mix, tree: &Tree) -> Reading<'a> {
        let memtable = self.memtable(setting, tree);
        Reading {
            mix,
            block_entries: self.data.block_entries(),
            cache_blocks: setting.cache_bytes / self.data.block_stored_bytes(),
            scan_entries: self.data.scan_entries,
            in_memory: if mix.write > 0.0 { memtable / 2.0 / self.data.entries.max(memtable) } else { 0.0 },
        }
    }

    /// The engine's own filters for such a tree. Where nothing is written they are of the load, in
    /// which nothing was read and no level counts more than another.
    fn level_filters(&self, setting: &Setting, reading: &Reading<'_>, tree: &Tree) -> LevelFilters {
        let entries: Vec<f64> = (0..tree.depth()).map(|level| tree.entries(level)).collect();
        let misses = if reading.mix.write > 0.0 { reading.misses(tree) } else { Vec::new() };
        let entry_bytes = self.data.stored_bytes(setting.filter_bits);
        LevelFilters::expected(&entries, entry_bytes, &setting.shape, &setting.filters(), &misses)
    }

    /// The terms of what an operation of `mix` costs; their sum is its cost.
    pub fn terms(&self, mix: &Mix, cost: &Cost) -> Vec<Term> {
        let (data, units) = (&self.data, &self.units);
        let stored = data.block_stored_bytes();
        let read = units.read_ns(stored) + units.block_load_ns;
        let lookup = |name, share: f64, of: &Operation| Term {
            name,
            blocks: share * of.blocks_read,
            ns: share
                * (units.get_ns
                    + of.probes * units.run_probe_ns
                    + of.blocks * units.block_find_ns
                    + of.blocks_read * read),
        };
        let scan = &cost.reads.scan;
        let pages = |size: f64| size * data.stored_bytes(0.0) / PAGE_BYTES;
        let work = &cost.work_per_write;
        let [flushed, read_size, written] = work.sizes;
        let mut terms = vec![
            lookup("absent lookups", mix.absent, &cost.reads.absent),
            lookup("found lookups", mix.found, &cost.reads.found),
            Term {
                name: "scans",
                blocks: mix.scan * scan.blocks_read,
                ns: mix.scan
                    * (units.get_ns
                        + scan.probes * (units.run_seek_ns + units.block_find_ns)
                        + data.scan_entries * units.step_ns
                        + (scan.blocks_read - scan.read_on) * read
                        + scan.read_on * (units.read_on_ns(stored) + units.block_load_ns)),
            },
            Term {
                name: "writes: log, memtable, flush",
                blocks: mix.write * flushed / data.block_entries(),
                ns: mix.write
                    * (units.put_ns
                        + work.flushed * units.merge_ns_per_entry
                        + pages(flushed) * units.write_ns_per_page),
            },
        ];
        terms.push(Term {
            name: "writes: merges",
            blocks: mix.write * (read_size + written) / data.block_entries(),
            ns: mix.write
                * (work.tables * units.seek_ns()
                    + work.read_total() * units.merge_ns_per_entry
                    + pages(read_size) * units.read_ahead_ns_per_page
                    + pages(written) * units.write_ns_per_page),
        });
        terms
    }

    /// Blocks read and merged per operation of `mix`.
    pub fn blocks(&self, mix: &Mix, cost: &Cost) -> f64 {
        self.terms(mix, cost).iter().map(|term| term.blocks).sum()
    }

    /// Nanoseconds per operation of `mix`.
    pub fn ns(&self, mix: &Mix, cost: &Cost) -> f64 {
        self.terms(mix, cost).iter().map(|term| term.ns).sum()
    }
}

/// Steps of a number of keys, and of bits per key, at which filters are looked at: between them
/// nothing differs that the model knows.
const KEYS_STEPS: f64 = 128.0;
const BITS_STEPS: f32 = 32.0;
/// Most answers that are remembered.
const PASSING_MAX: usize = 1 << 16;

thread_local! {
    /// What filters were found to let pass. It makes pricing a tree of many runs some fifty times
    /// as fast, and changes no price.
    static PASSING: RefCell<HashMap<(bool, u32, u64), f64>> = RefCell::default();
}

/// The share of absent keys that a filter over so many `keys` lets pass.
fn passing(spec: FilterSpec, keys: f64) -> f64 {
    if keys <= 0.0 {
        return 0.0;
    }
    // Not finer than steps of each doubling.
    let step = (exp2(f64::from(floor_log2(keys))) / KEYS_STEPS).max(1e-3);
    let keys = (keys / step).round() * step;
    let spec = FilterSpec { bits_per_key: (spec.bits_per_key * BITS_STEPS).round() / BITS_STEPS, ..spec };
    PASSING.with_borrow_mut(|known| {
        if known.len() >= PASSING_MAX {
            known.clear();
        }
        let key = (spec.kind == FilterKind::Bloom, spec.bits_per_key.to_bits(), keys.to_bits());
        *known.entry(key).or_insert_with(|| false_positives_over(spec, keys))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states at which reads are looked at must not stand at the same place of level 0's cycle
    /// each time.
    #[test]
    fn reads_of_a_long_load_are_those_of_all_its_states() {
        let data = Data { entries: 100_000.0, entry_bytes: 1000.0, block_bytes: 4096.0, scan_entries: 8.0 };
        let model = Model { data, units: Units::of_blocks() };
        let mix = Mix::new([5.0, 5.0, 75.0, 15.0]).unwrap();
        for (runs, stretch) in [(4, 12), (3, 12), (6, 12), (9, 9), (16, 16), (4, 13)] {
            let shape = Shape {
                size_ratio: 16,
                run_limits: vec![runs, 1],
                write_buffer_bytes: 1 << 20,
                table_bytes: 1 << 20,
            };
            let setting = Setting { shape, filter_bits: 2.0, monkey: false, cache_bytes: 0.0 };
            let memtable = data.memtable_entries(setting.shape.write_buffer_bytes);
            let flushes = stretch * STATES_MAX as usize - 1;
            let load = |flushes: f64| Load { mix: &mix, operations: (flushes + 1e-6) * memtable / mix.write };
            let scan = |cost: Cost| cost.reads.scan.blocks_read;
            let whole = scan(model.run(&setting, load(flushes as f64), &mut model.loaded(&setting)));
            let mut tree = model.loaded(&setting);
            let each = (0..flushes).map(|_| scan(model.run(&setting, load(1.0), &mut tree)));
            let all = each.sum::<f64>() / flushes as f64;
            assert!((whole / all - 1.0).abs() < 0.02, "K₀ = {runs}, {stretch}: {whole} of {all}");
        }
    }

    /// Symptom: `solera cost` and Arce's simulation took small tables for as cheap as large ones.
    /// Cause: a merge read all its pages at the price of reading ahead. Cure: the first page of
    /// each table has the price of a read at random.
    #[test]
    fn the_first_read_of_each_table_that_a_merge_reads_is_priced() {
        let data = Data { entries: 20_000.0, entry_bytes: 100.0, block_bytes: 4096.0, scan_entries: 1.0 };
        let model = Model { data, units: Units::assumed() };
        let mix = Mix::new([0.0, 0.0, 0.0, 1.0]).unwrap();
        let work = |tables: f64| {
            let sizes = [1.0, 4.0, 3.0];
            let work = Work { flushed: 1.0, read: vec![0.0, 4.0], written: vec![0.0, 3.0], sizes, tables };
            model.ns(&mix, &Cost { work_per_write: work, ..Cost::default() })
        };
        let apart = work(0.5) - work(0.1);
        assert!((apart - 0.4 * (60_000.0 - 5_000.0)).abs() < 1e-6, "{apart}");
    }
}
