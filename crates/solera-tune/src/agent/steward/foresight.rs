//! What operations will cost under a plan: `Foresight`, the cost model begun with the tree as it
//! is, corrected by what was measured.
//!
//! `walk` runs the window's tree forward under a `Plan`, `walk_back` under one that is tried and
//! taken back. `price` says what an operation of the `Walk` costs in the goal's unit. `counted` and
//! `modelled` are what a window did by its counts and by the model. `hazards` are what later
//! workloads would read of what is left.
//!
//! What must hold: a walk is short (`FLUSHES_MAX`): a thread that tunes has a hundredth of the
//! time. Percentiles are priced by the mean time; tables over the goal's bound are refused.
//! Callers: `steward` and `prices`.

#[cfg(test)]
mod tests;

use super::{
    apart::{self, Apart, Costs},
    plan::{BUFFERS, Plan, divided_bytes},
    scales::{Parts, Scales},
    seen::{
        TIMES_MEAN_MIN, arriving, is_monkey, keys, missed_share, read_on, table_bytes, table_of, times_mean,
    },
};
use crate::{
    cost::{
        Data, Mix, Model, Setting, Units,
        model::{Cost, Load},
        skew::Skew,
        tree::{Moved, Tree},
        units::PAGE_BYTES,
    },
    sight::{Goal, Measure, Objective, Window},
};
use solera::Shape;

/// Flushes that a walk goes through, at most, under the settings that there are: each takes some
/// microseconds.
const FLUSHES_MAX: f64 = 600.0;
/// States of a walk at which reads are looked at: each takes some ten microseconds.
const STATES: u32 = 8;
/// What level 0 waits for, as the engine reckons it (docs/decisions/0016): nanoseconds for a byte
/// of a merge, for a table that a lookup asks, for a block that a scan comes to, and for a block
/// that comes from a file.
const PRICE_NS_PER_BYTE: f64 = 0.5;
const TABLE_ASKED_NS: f64 = 100.0;
const SCAN_BLOCK_NS: f64 = 1_000.0;
const FILE_BLOCK_NS: f64 = 20_000.0;
/// What reads pay for the merge of levels that a new shape does not need: nanoseconds for a byte
/// (docs/decisions/0024).
const LIFTED_NS_PER_BYTE: f64 = 2.0;
/// The least of the divided memory that a cache keeps.
const CACHE_MIN: f64 = 1.0 / 8.0;
/// Entries of scans that may come.
const SCAN: f64 = 16.0;
/// Windows after which a change that does not help is taken back: one to settle, two to judge.
const TRIAL: f64 = 3.0;
/// How much of what background threads do makes operations slower, where only operations are timed.
/// They alone cannot tell, and to take it for nothing would have the tree merged for ever.
const BACKGROUND: f64 = 0.5;

/// What operations did while a tree was run forward, and what reads of what it left cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Walk {
    /// What an operation did, uncorrected.
    parts: Parts,
    /// Reads of values that lie apart, and the nanoseconds that they take, of an operation. What
    /// the model is wrong by is known of blocks alone.
    value_reads: [f64; 2],
    /// Bytes of all tables and value files at its end.
    data_bytes: f64,
    /// Entries of a block.
    block_entries: f64,
    /// What an absent lookup, a found one and a scan cost on the tree that it leaves, in
    /// nanoseconds.
    left: [f64; 3],
    /// The same once reads have paid for the merge of level 0.
    settled: [f64; 3],
    /// Of its time, what is done once: levels are lifted, values leave their entries.
    pub(super) once: f64,
}

impl Walk {
    /// What workloads to come cost ([`TO_COME`]) on the tree that this leaves, each as a share of
    /// what it costs on the one that `stay` leaves. They hardly write, so the tree stays as it is.
    pub(super) fn hazards(&self, stay: &Walk) -> [f64; 3] {
        shares(self.left, stay.left)
    }

    /// The same once reads have paid for what they may pay for: level 0 has been merged, and levels
    /// that a new shape does not need have left. Runs below level 0 stay until something is
    /// written.
    pub(super) fn hazards_below(&self, stay: &Walk) -> [f64; 3] {
        shares(self.settled, stay.settled)
    }
}

/// Workloads that may come, as shares of absent lookups, found ones and scans: lookups of little
/// that is there, of what is there, and scans.
const TO_COME: [[f64; 3]; 3] = [[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.2, 0.8]];

fn shares(then: [f64; 3], stays: [f64; 3]) -> [f64; 3] {
    TO_COME.map(|mix| {
        let of = |ns: [f64; 3]| mix.iter().zip(ns).map(|(share, ns)| share * ns).sum::<f64>();
        of(then) / of(stays).max(f64::MIN_POSITIVE)
    })
}

/// Levels that have left.
#[derive(Clone, Copy, Debug)]
struct Lifted {
    /// What that takes of an operation.
    merges: Parts,
    /// The share of all operations that pass before it.
    waits: f64,
}

/// The model and its corrections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foresight<'a> {
    pub(super) units: &'a Units,
    pub(super) goal: &'a Goal,
    pub(super) scales: &'a Scales,
    /// How unevenly keys are used.
    pub(super) skew: Skew,
}

impl Foresight<'_> {
    /// What `window` did, from its counts.
    pub(super) fn counted(&self, window: &Window) -> Parts {
        let units = self.units;
        let operations = window.operations.total().max(1) as f64;
        let of = &window.operations;
        let (mut probes, mut blocks, mut seeks, mut merged, mut in_and_out) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut tables = 0.0;
        for level in &window.levels {
            probes += level.tables_probed as f64;
            blocks += (level.blocks_probed + level.scan_blocks) as f64;
            seeks += (of.scans * level.runs) as f64;
            merged += level.entries_in as f64;
            in_and_out += level.bytes_out as f64;
            tables += level.bytes_out as f64 / table_of(window, level);
        }
        let lookups = (of.absent + of.found + of.scans) as f64;
        let processor = lookups * units.get_ns
            + probes * units.run_probe_ns
            + blocks * units.block_find_ns
            + seeks * units.run_seek_ns
            + window.scanned as f64 * units.step_ns
            + of.writes as f64 * units.put_ns;
        let block = window.number("block_bytes", None).unwrap_or(4096.0);
        let (read_on, value_reads) = (read_on(window), window.value_reads as f64);
        let reads = (window.blocks_read as f64 - read_on) * units.read_ns(block)
            + read_on * units.read_on_ns(block)
            + window.blocks_read as f64 * units.block_load_ns
            + value_reads * (units.read_ns(window.value_bytes_read as f64 / value_reads.max(1.0)));
        let written = (window.bytes_flushed + window.bytes_compacted) as f64;
        let merges = tables * units.seek_ns()
            + merged * units.merge_ns_per_entry
            + in_and_out / PAGE_BYTES * units.read_ahead_ns_per_page
            + written / PAGE_BYTES * units.write_ns_per_page;
        Parts {
            ns: [processor, reads, merges].map(|ns| ns / operations),
            blocks_read: window.blocks_read as f64 / operations,
            merged: merged / operations,
            bytes_written: written / operations,
        }
    }

    /// What the model says that `window` does, uncorrected.
    pub(super) fn modelled(&self, window: &Window) -> Parts {
        self.uncorrected(window, 1.0)
    }

    /// Entries that the model says flushes and merges write for each operation, in the mean over so
    /// many windows.
    pub(super) fn moved(&self, window: &Window, windows: f64) -> f64 {
        self.uncorrected(window, windows).merged
    }

    fn uncorrected(&self, window: &Window, windows: f64) -> Parts {
        let stay = Plan::of(window);
        let (model, setting) = self.model(window, &stay);
        let mix = window.mix();
        let load = self.load(window, &mix, &model, windows);
        let mut tree = self.tree(window, &stay, &model, &setting);
        let cost = model.run_looking(&setting, load, &mut tree, STATES);
        let values = self.apart(window, &stay, &model, &setting, load, None).unwrap_or_default();
        self.parts(&model, &mix, &cost).and(&values.parts)
    }

    /// What values that lie apart take of an operation under `plan`, if any are large. `share` of
    /// them lies apart at first, if that is not as `window` says.
    fn apart(
        &self,
        window: &Window,
        plan: &Plan,
        model: &Model,
        setting: &Setting,
        load: Load<'_>,
        share: Option<f64>,
    ) -> Option<Costs> {
        let apart = Apart::of(window, plan, model.data.entries)?;
        let apart = share.map_or(apart, |share| apart.beginning_at(share));
        // Entries come first: a lookup that misses one misses the value too.
        let entry = apart.entry.unwrap_or(model.data.entry_bytes);
        let cache = setting.cache_bytes - entry * model.data.entries;
        let cache = cache.max(CACHE_MIN * setting.cache_bytes);
        Some(apart.costs(model, load.mix, self.skew, load.operations, cache))
    }

    /// Operations of so many windows, as far as a walk goes: as many under every plan, or else one
    /// would have merges before it that another has behind it.
    fn load<'m>(&self, window: &Window, mix: &'m Mix, model: &Model, windows: f64) -> Load<'m> {
        let buffer = Plan::of(window).buffer_bytes(window);
        let memtable = model.data.memtable_entries_of(buffer as u64, arriving(window, &Plan::of(window)));
        let all = window.operations.total() as f64 * windows;
        let most = FLUSHES_MAX * memtable / mix.write.max(f64::MIN_POSITIVE);
        Load { mix, operations: all.min(most) }
    }

    /// Runs the tree of `window` forward over so many `windows` under `plan`.
    pub(super) fn walk(&self, window: &Window, plan: &Plan, windows: f64) -> Walk {
        let (model, setting) = self.model(window, plan);
        let mix = window.mix();
        let load = self.load(window, &mix, &model, windows);
        let mut tree = self.tree(window, plan, &model, &setting);
        let is_reshaped = changes_depth(&Plan::of(window), plan);
        let before = tree.clone();
        let lifted = if is_reshaped { self.lift(window, plan, &model, windows, &mut tree) } else { None };
        let owed = self.owed(window, &tree);
        let cost = model.run_looking(&setting, load, &mut tree, STATES);
        let owed = self.owing(&model, load, tree.owed().and(owed, -1.0));
        let values = self.apart(window, plan, &model, &setting, load, None);
        let mut parts = self.parts(&model, &mix, &cost).and(&owed);
        let differs =
            |values: &&Costs| (values.entries[0] / model.data.entry_bytes - 1.0).abs() > TIMES_MEAN_MIN;
        if let Some(values) = values.as_ref().filter(differs) {
            // Blocks hold more entries without their values.
            let model = holding(&model, values.entries[0]);
            let cost = Cost { reads: model.reads(&setting, &mix, &tree), ..Cost::default() };
            parts = parts.reading_like(&self.parts(&model, &mix, &cost), 1.0);
        }
        let at_the_end = values.as_ref().map(|values| holding(&model, values.entries[1]));
        let at_the_end = at_the_end.unwrap_or_else(|| model.clone());
        let values = values.unwrap_or_default();
        let lifting_ns = lifted.map_or(0.0, |lifted| self.scales.ns(&lifted.merges));
        if let Some(Lifted { merges, waits }) = lifted {
            let cost = Cost { reads: model.reads(&setting, &mix, &before), ..Cost::default() };
            parts = parts.reading_like(&self.parts(&model, &mix, &cost), waits).and(&merges);
        }
        let size: f64 = (0..tree.depth()).map(|level| tree.size(level)).sum();
        let data_bytes = size * model.data.stored_bytes(setting.filter_bits) + values.bytes * apart::SPACE;
        let block_entries = model.data.block_entries();
        let left = self.left(&at_the_end, &setting, &tree, &values);
        let filled = filled(&tree, &setting.shape, &Plan::of(window));
        let settled = settled(tree, is_reshaped);
        let filled = filled.map(|tree| Cost { reads: model.reads(&setting, &mix, &tree), ..Cost::default() });
        let parts = match filled.map(|cost| self.parts(&model, &mix, &cost)) {
            None => parts,
            Some(filled) => Parts {
                ns: [parts.ns[0].max(filled.ns[0]), parts.ns[1].max(filled.ns[1]), parts.ns[2]],
                blocks_read: parts.blocks_read.max(filled.blocks_read),
                ..parts
            },
        };
        let parts = parts.and(&values.parts);
        let settled = self.left(&at_the_end, &setting, &settled, &values);
        let once_ns = lifting_ns + values.once_ns;
        let once = once_ns / self.scales.ns(&parts).max(f64::MIN_POSITIVE);
        Walk { parts, value_reads: values.reads, data_bytes, block_entries, left, settled, once }
    }

    /// The same where `plan` is tried and taken back: after [`TRIAL`] windows `stay` is in force
    /// again, on the tree that the trial made. What it leaves is what the trial does.
    pub(super) fn walk_back(&self, window: &Window, plan: &Plan, stay: &Plan, windows: f64) -> Walk {
        let trial = TRIAL.min(windows);
        let mix = window.mix();
        let (model, setting) = self.model(window, plan);
        let mut tree = self.tree(window, plan, &model, &setting);
        let load = self.load(window, &mix, &model, trial);
        let is_reshaped = changes_depth(stay, plan);
        let lift = |plan: &Plan, model: &Model, windows, tree: &mut Tree| {
            let lifted = is_reshaped.then(|| self.lift(window, plan, model, windows, tree)).flatten();
            lifted.map_or(Parts::default(), |lifted| lifted.merges)
        };
        let lifted = lift(plan, &model, trial, &mut tree);
        let owed = self.owed(window, &tree);
        let cost = model.run_looking(&setting, load, &mut tree, STATES);
        let values = self.apart(window, plan, &model, &setting, load, None).unwrap_or_default();
        let tried = self.parts(&model, &mix, &cost).and(&lifted).and(&values.parts);
        let (model, setting) = self.model(window, stay);
        tree.set_shape(setting.shape.clone());
        let left = self.left(&model, &setting, &tree, &values);
        let settled = self.left(&model, &setting, &settled(tree.clone(), is_reshaped), &values);
        let rest = (windows - trial).max(1.0);
        let load = self.load(window, &mix, &model, rest);
        let lifted = lift(stay, &model, rest, &mut tree);
        let cost = model.run_looking(&setting, load, &mut tree, STATES);
        let owed = self.owing(&model, load, tree.owed().and(owed, -1.0));
        let tried_reads = values.reads;
        let values = self.apart(window, stay, &model, &setting, load, Some(values.share)).unwrap_or_default();
        let parts = self.parts(&model, &mix, &cost).and(&lifted).and(&owed).and(&values.parts);
        let share = trial / windows.max(trial);
        let parts = parts.with(&tried, share);
        let value_reads =
            [0, 1].map(|at: usize| values.reads[at] + share * (tried_reads[at] - values.reads[at]));
        let size: f64 = (0..tree.depth()).map(|level| tree.size(level)).sum();
        let data_bytes = size * model.data.stored_bytes(setting.filter_bits) + values.bytes * apart::SPACE;
        let block_entries = model.data.block_entries();
        Walk { parts, value_reads, data_bytes, block_entries, left, settled, once: 0.0 }
    }

    /// What `tree` owes under the settings of `window`.
    fn owed(&self, window: &Window, tree: &Tree) -> Moved {
        let (_, setting) = self.model(window, &Plan::of(window));
        let mut tree = tree.clone();
        tree.set_shape(setting.shape);
        tree.owed()
    }

    /// What a walk leaves to be paid that ends with so much more owed than it began with, of an
    /// operation: merges come in lumps, and one may lie just behind its end.
    fn owing(&self, model: &Model, load: Load<'_>, owed: Moved) -> Parts {
        let owed = Moved::default().and(owed, 1.0 / load.operations.max(1.0));
        self.merging(&model.data, owed, owed, 0.0)
    }

    /// Lifts levels of `tree` that its new shape does not need, if `plan` does that at once, or
    /// reads of so many `windows` pay for it: of all of them, though a walk may be shorter. `None`
    /// if they stay.
    fn lift(
        &self,
        window: &Window,
        plan: &Plan,
        model: &Model,
        windows: f64,
        tree: &mut Tree,
    ) -> Option<Lifted> {
        let surplus = tree.surplus()?;
        let operations = (window.operations.total() as f64 * windows).max(1.0);
        let Mix { absent, found, scan, .. } = window.mix();
        let of_run =
            (absent + found) * TABLE_ASKED_NS + scan * (SCAN_BLOCK_NS + missed_share(window) * FILE_BLOCK_NS);
        let runs = surplus.runs.iter().sum::<usize>();
        let spared = runs - surplus.runs.iter().copied().max().unwrap_or_default();
        let price = surplus.moved.size * model.data.stored_bytes(0.0) * LIFTED_NS_PER_BYTE;
        let paid = spared as f64 * of_run * operations;
        let waits = if runs == 1 || plan.at_once { 0.0 } else { price / paid.max(f64::MIN_POSITIVE) };
        if waits > 1.0 {
            return None;
        }
        tree.lift();
        let share = 1.0 / operations;
        let lifted = Moved { entries: tree.entries(surplus.last), size: tree.size(surplus.last) };
        let [read, written] = [surplus.moved, lifted].map(|moved| Moved::default().and(moved, share));
        let merges = match runs {
            1 => Parts::default(),
            _ => self.merging(&model.data, read, written, share * runs as f64),
        };
        Some(Lifted { merges, waits })
    }

    /// What merges of an operation are that read and write so much, of so many tables.
    fn merging(&self, data: &Data, read: Moved, written: Moved, tables: f64) -> Parts {
        let units = self.units;
        let pages = |moved: Moved| moved.size * data.stored_bytes(0.0) / PAGE_BYTES;
        let mut merges = tables * units.seek_ns()
            + written.entries * units.merge_ns_per_entry
            + pages(read) * units.read_ahead_ns_per_page
            + pages(written) * units.write_ns_per_page;
        if self.goal.measure == Measure::Sampled {
            merges *= BACKGROUND;
        }
        let bytes_written = pages(written) * PAGE_BYTES;
        Parts { ns: [0.0, 0.0, merges], blocks_read: 0.0, merged: written.entries, bytes_written }
    }

    /// What an absent lookup, a found one and a scan cost on `tree` as it is.
    fn left(&self, model: &Model, setting: &Setting, tree: &Tree, values: &Costs) -> [f64; 3] {
        let scan_entries = model.data.scan_entries.max(SCAN);
        let data = Data { scan_entries, ..model.data };
        let [of_found, of_entry] = values.left;
        let of_values = [0.0, of_found, scan_entries * of_entry];
        let model = Model { data, units: model.units.clone() };
        // Which keys they favour is not known.
        let tree = &tree.clone().skewed(Skew::EVEN);
        let nothing = Mix { absent: 0.0, found: 0.0, scan: 0.0, write: 0.0 };
        let to_come =
            [Mix { absent: 1.0, ..nothing }, Mix { found: 1.0, ..nothing }, Mix { scan: 1.0, ..nothing }];
        let of = |(mix, reads): (Mix, f64)| {
            let cost = Cost { reads: model.reads(setting, &mix, tree), ..Cost::default() };
            let parts = Parts { ns: [0.0, reads, 0.0], ..Parts::default() };
            self.scales.ns(&self.parts(&model, &mix, &cost).and(&parts))
        };
        [0, 1, 2].map(|at: usize| of((to_come[at], of_values[at])))
    }

    /// What an operation of `walk` costs in the goal's unit, where reads read and merges move so
    /// many times what the model says.
    pub(super) fn price(&self, walk: &Walk, residual: (f64, f64)) -> f64 {
        let mut parts = walk.parts;
        let [reads, reads_ns] = walk.value_reads;
        parts.ns[1] = residual.0 * parts.ns[1] + reads_ns;
        parts.blocks_read = residual.0 * parts.blocks_read + reads;
        parts.ns[2] *= residual.1;
        parts.merged *= residual.1;
        if self.goal.space_bytes_max.is_some_and(|max| walk.data_bytes > max as f64) {
            return f64::INFINITY;
        }
        let ns = self.scales.ns(&parts);
        match self.goal.objective {
            Objective::MeanTime | Objective::P50 | Objective::P99 => ns,
            Objective::TimeAndSpace => ns * walk.data_bytes,
            Objective::BytesWritten => parts.bytes_written,
            Objective::Blocks => parts.blocks_read + parts.merged * 2.0 / walk.block_entries,
        }
    }

    fn parts(&self, model: &Model, mix: &Mix, cost: &Cost) -> Parts {
        let (units, data) = (self.units, &model.data);
        let (reads, work) = (&cost.reads, &cost.work_per_write);
        let stored = data.block_stored_bytes();
        let read = units.read_ns(stored) + units.block_load_ns;
        let (absent, found, scan) = (&reads.absent, &reads.found, &reads.scan);
        let lookup = |share: f64, of: &crate::cost::reads::Operation| {
            share * (units.get_ns + of.probes * units.run_probe_ns + of.blocks * units.block_find_ns)
        };
        let processor = lookup(mix.absent, absent)
            + lookup(mix.found, found)
            + mix.scan
                * (units.get_ns
                    + scan.probes * (units.run_seek_ns + units.block_find_ns)
                    + data.scan_entries * units.step_ns)
            + mix.write * units.put_ns;
        let blocks_read =
            mix.absent * absent.blocks_read + mix.found * found.blocks_read + mix.scan * scan.blocks_read;
        let spared = mix.scan * scan.read_on * (units.read_ns(stored) - units.read_on_ns(stored));
        let [flushed_size, read_size, written_size] = work.sizes;
        let written =
            Moved { entries: work.flushed + work.written_total(), size: flushed_size + written_size };
        let merged = Moved { entries: work.read_total(), size: read_size };
        let [merged, written] = [merged, written].map(|moved| Moved::default().and(moved, mix.write));
        let merging = self.merging(data, merged, written, mix.write * work.tables);
        Parts { ns: [processor, blocks_read * read - spared, merging.ns[2]], blocks_read, ..merging }
    }

    /// The model and the setting that stand for `plan` on the data of `window`.
    fn model(&self, window: &Window, plan: &Plan) -> (Model, Setting) {
        let entries = window.table_entries().max(1) as f64;
        let filters = window.filter_bytes as f64;
        let entry_bytes = ((window.table_bytes() as f64 - filters) / entries).max(8.0);
        let data = Data {
            entries: keys(window),
            entry_bytes,
            block_bytes: plan.block_bytes,
            scan_entries: window.scan_entries().max(1.0),
        };
        let buffer = plan.buffer_bytes(window);
        let mut run_limits = vec![self.level0_runs(window, plan, &data)];
        run_limits.extend(&plan.run_limits);
        let shape = Shape {
            size_ratio: plan.size_ratio,
            run_limits,
            write_buffer_bytes: buffer as u64,
            table_bytes: table_bytes(window),
        };
        let now = Plan::of(window);
        let more_filter = (plan.filter_bits - now.filter_bits) * entries / 8.0;
        let more_buffer = BUFFERS * (buffer - now.buffer_bytes(window));
        let cache = window.cache_bytes as f64 - more_filter - more_buffer;
        let cache_bytes = cache.max(CACHE_MIN * divided_bytes(window));
        let monkey = is_monkey(window);
        let setting = Setting { shape, filter_bits: plan.filter_bits, monkey, cache_bytes };
        (Model { data, units: self.units.clone() }, setting)
    }

    /// Runs at which level 0 is merged: where reads have paid for it, and else where patience ends.
    fn level0_runs(&self, window: &Window, plan: &Plan, data: &Data) -> u32 {
        if plan.patience <= plan.level0_runs {
            return plan.level0_runs;
        }
        let mix = window.mix();
        let arriving = arriving(window, plan);
        let memtable = data.memtable_entries_of(plan.buffer_bytes(window) as u64, arriving);
        let level1 =
            window.levels.iter().find(|level| level.level == 1).map_or(0, |level| level.bytes) as f64;
        let level1 = level1 / f64::from(plan.run_limits[0].max(1));
        // What all reads between two flushes pay for each run.
        let misses = missed_share(window);
        // A lookup that finds its key in the run reads a block of it.
        let covered = self.skew.served(&[(1.0, memtable / data.entries.max(memtable))]);
        let in_run = covered * misses * FILE_BLOCK_NS;
        let lookups = (mix.absent + mix.found) * TABLE_ASKED_NS + mix.found * in_run;
        let scans = mix.scan * (SCAN_BLOCK_NS + misses * FILE_BLOCK_NS);
        let rent = (lookups + scans) * memtable / mix.write.max(1e-9);
        let flushed = memtable * arriving * data.stored_bytes(plan.filter_bits);
        // After k flushes reads have paid rent k²/2, and the price is that of k runs and of
        // level 1.
        let runs = (1..=plan.patience).find(|&runs| {
            let runs = f64::from(runs);
            rent * runs * runs / 2.0 >= PRICE_NS_PER_BYTE * (runs * flushed + level1)
        });
        runs.unwrap_or(plan.patience).clamp(1, 64)
    }

    /// The tree as `window` saw it, under the setting of `plan`.
    fn tree(&self, window: &Window, plan: &Plan, model: &Model, setting: &Setting) -> Tree {
        let levels: Vec<Vec<f64>> = window
            .levels
            .iter()
            .map(|level| vec![level.entries as f64 / level.runs.max(1) as f64; level.runs as usize])
            .collect();
        let stored = model.data.stored_bytes(setting.filter_bits);
        let tree = Tree::of(setting.shape.clone(), stored, model.data.entries, &levels);
        let sizes: Vec<f64> = window.levels.iter().map(|level| times_mean(window, level)).collect();
        tree.sized(&sizes, arriving(window, plan)).skewed(self.skew)
    }
}

/// `model`, where an entry of a table has so many bytes.
fn holding(model: &Model, entry_bytes: f64) -> Model {
    Model { data: Data { entry_bytes, ..model.data }, units: model.units.clone() }
}

/// Whether a tree may need another number of levels under `plan`.
fn changes_depth(stay: &Plan, plan: &Plan) -> bool {
    (stay.size_ratio, stay.buffer_percent) != (plan.size_ratio, plan.buffer_percent)
}

/// `tree` once level 0 has been merged, however few runs it has, and, where its shape was changed,
/// levels that it does not need have left.
fn settled(mut tree: Tree, is_reshaped: bool) -> Tree {
    if is_reshaped {
        tree.lift();
    }
    let shape = tree.shape();
    let limit = |level: u32| if level == 0 { 1 } else { shape.run_limit(level) };
    let run_limits = (0..shape.run_limits.len().max(2) as u32).map(limit).collect();
    tree.set_shape(Shape { run_limits, ..shape.clone() });
    tree.settle();
    tree
}

/// `tree` once levels below 0 that get more runs by `shape` have as many as they do in the mean;
/// `None` if none does. A walk is too short to fill them.
fn filled(tree: &Tree, shape: &Shape, stay: &Plan) -> Option<Tree> {
    let limit_now = |level: usize| *stay.run_limits.get(level - 1).or(stay.run_limits.last()).unwrap_or(&1);
    let mut grows = false;
    let mut levels: Vec<Vec<f64>> = vec![Vec::new(); tree.depth()];
    tree.runs().for_each(|(level, run)| levels[level].push(run.entries()));
    for (level, runs) in levels.iter_mut().enumerate().skip(1).filter(|(_, runs)| !runs.is_empty()) {
        let limit = shape.run_limit(level as u32);
        let mean = limit.div_ceil(2).max(if limit > 1 { 2 } else { 1 }) as usize;
        if limit > limit_now(level) && runs.len() < mean {
            let entries = runs.iter().sum::<f64>() / mean as f64;
            (*runs, grows) = (vec![entries; mean], true);
        }
    }
    let times =
        |level: usize| if tree.entries(level) > 0.0 { tree.size(level) / tree.entries(level) } else { 1.0 };
    let sizes: Vec<f64> = (0..tree.depth()).map(times).collect();
    let of = || Tree::of(shape.clone(), tree.stored_bytes(), tree.keys(), &levels);
    grows.then(|| of().sized(&sizes, tree.arriving()).skewed(tree.skew()))
}
