//! CAMAL's experiment C1 without learners: `run_static`, three arms with the same memory for write
//! buffer and filters.
//!
//! The arms are a well-tuned default, the closed form as printed, and the corrected one, under
//! static mixes. Each form is measured beside the default, in turns of the same mix, so a machine
//! that drifts drifts for both. `Foreseen` is what the cost model predicts.
//!
//! What must hold: every arm has the same memory. There is no room for the trees of all forms at
//! once, so they are loaded two at a time.
//!
//! Callers: `paper::mod`; `camal_lab`, `camal_learned` and `camal_dynamic` take its constants and
//! helpers.

pub(super) use solera_tune::agent::camal::TRAINING;

use super::{
    Scale,
    document::{Bars, Section, Table},
    foresight::Foresight,
    missions::{Measured, Site, Tenant},
    ruskey::{TABLE_BYTES_MIN, WRITE_BUFFER_BYTES_MIN, how},
    verdict,
};
use crate::{
    report::{
        Spread,
        number::{Quantity, digits},
    },
    runner::{Error, Progress, Result},
};
use solera::{Shape, clock::Clock};
use solera_tune::cost::{
    Budget, Candidate, Cost, Data, Mix, Model, Setting, Units, choose,
    forms::{BLOOM_EXPONENT_AS_PRINTED, camal},
    model::Load,
    reads::Reads,
    tree::Tree,
};
use std::{panic::resume_unwind, thread};

/// Bytes of a key and its value.
pub(super) const ENTRY_BYTES: f64 = 1000.0;
/// M: bits per key for write buffer and filters together, CAMAL's own.
pub(super) const MEMORY_BITS: f64 = 12.8;
/// s: short scans, one or two blocks in a level.
pub(super) const SCAN_ENTRIES: f64 = 8.0;
/// The well-tuned default: T and bits per key (Monkey's setting in CAMAL).
pub(super) const DEFAULT: (u32, f64) = (10, 10.0);
/// K₀ of the arms that do not choose it: the engine's default.
pub(super) const LEVEL0_RUNS: u32 = 4;
/// Largest T that the printed form may ask for: the engine's.
const SIZE_RATIO_MAX: f64 = 100.0;
/// Smallest write buffer, of the memory: what a few entries need.
const BUFFER_SHARE_MIN: f64 = 1.0 / 16.0;

/// CAMAL's Table 2: the same four, shifting.
pub(super) const SHIFTING: [[f64; 4]; 24] = [
    [60., 5., 5., 30.],
    [75., 5., 5., 15.],
    [91., 3., 3., 3.],
    [75., 15., 5., 5.],
    [60., 30., 5., 5.],
    [45., 45., 5., 5.],
    [30., 60., 5., 5.],
    [15., 75., 5., 5.],
    [3., 91., 3., 3.],
    [5., 75., 15., 5.],
    [5., 60., 30., 5.],
    [5., 45., 45., 5.],
    [5., 30., 60., 5.],
    [5., 15., 75., 5.],
    [3., 3., 91., 3.],
    [5., 5., 75., 15.],
    [5., 5., 60., 30.],
    [5., 5., 45., 45.],
    [5., 5., 30., 60.],
    [5., 5., 15., 75.],
    [3., 3., 3., 91.],
    [15., 5., 5., 75.],
    [30., 5., 5., 60.],
    [45., 5., 5., 45.],
];

/// The arms, in the order of the tables.
const ARMS: [&str; 3] = ["T = 10, 10 bits", "form as printed", "corrected form"];
/// The forms among them.
const PRINTED: usize = 1;
const CORRECTED: usize = 2;
/// Trees that are loaded at once.
const LOADS_AT_ONCE: usize = 2;
/// Slices in which a form and the default take turns.
const SLICES: u64 = 10;

/// One mix under one form.
struct Task {
    /// Which mix, of both tables.
    mix: usize,
    form: usize,
    setting: Setting,
}

/// What an operation of a mix costs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PerOperation {
    pub(super) us: f64,
    pub(super) blocks: f64,
}

impl PerOperation {
    /// Of an arm that did `slices` of `mix`, and `overwrites` between them: reads cost what they
    /// did in the slices, writes what all of them did together.
    pub(super) fn of(mix: &Mix, slices: &Measured, overwrites: &Measured, data: &Data) -> PerOperation {
        let mut writes = *slices;
        writes.add(overwrites);
        let per = |sum: f64, count: u64| sum / count.max(1) as f64;
        let reads = slices.operations - slices.writes;
        let sum = |read: f64, write: f64| {
            (1.0 - mix.write) * per(read, reads) + mix.write * per(write, writes.writes)
        };
        PerOperation {
            us: sum((slices.ns - slices.write_ns) as f64, writes.write_ns as f64) / 1e3,
            blocks: sum(slices.blocks_read as f64, writes.merged_blocks(data)),
        }
    }

    fn midway(self, other: PerOperation) -> PerOperation {
        PerOperation { us: self.us.midpoint(other.us), blocks: self.blocks.midpoint(other.blocks) }
    }
}

/// A form, and the default beside it.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    form: PerOperation,
    default: PerOperation,
}

/// C1.
pub(super) fn run_static(
    scale: &Scale,
    clock: &dyn Clock,
    units: &Units,
    progress: &mut dyn Progress,
) -> Result<Vec<Section>> {
    let data = Data {
        entries: scale.entries_small as f64,
        entry_bytes: ENTRY_BYTES,
        block_bytes: 4096.0,
        scan_entries: SCAN_ENTRIES,
    };
    let site = Site::new(data, scale)?;
    let model = Model { data, units: units.clone() };
    let memory_bytes = data.entries * MEMORY_BITS / 8.0;
    let training = &TRAINING[..scale.mixes.min(TRAINING.len())];
    let shifting = &SHIFTING[..scale.mixes.min(SHIFTING.len())];
    let mixes: Vec<Mix> = training
        .iter()
        .chain(shifting)
        .map(|shares| Mix::new(*shares).map_err(Error::Config))
        .collect::<Result<_>>()?;
    let cache_bytes = site.cache_bytes() as f64;
    let mut tasks = Vec::new();
    for (number, mix) in mixes.iter().enumerate() {
        progress.at("choosing", number as u64, mixes.len() as u64);
        let settings = [printed(&data, mix, memory_bytes), corrected(&model, mix, memory_bytes, cache_bytes)];
        let tasks_of_mix = settings.into_iter().zip([PRINTED, CORRECTED]);
        tasks.extend(tasks_of_mix.map(|(setting, form)| Task { mix: number, form, setting }));
    }
    // Mixes that want the same tree stand together: it is loaded once.
    tasks.sort_by_key(|task| format!("{} {}", task.setting.shape, task.setting.filter_bits));
    let mut measured = vec![[Pair::default(); ARMS.len()]; mixes.len()];
    let mut foresight = Foresight::default();
    progress.at("loading the default", 0, 1);
    let default = Tenant::loaded(&site, &default(&data, memory_bytes), |_, _| ())?;
    let (mut loads, mut done) = (1, 0);
    let groups: Vec<&[Task]> = tasks.chunk_by(|a, b| same_tree(&a.setting, &b.setting)).collect();
    for groups in groups.chunks(LOADS_AT_ONCE) {
        progress.at("mixes", done, tasks.len() as u64);
        let tenants = loaded_together(&site, groups)?;
        loads += tenants.len();
        let tasks_of = |(tenant, tasks)| std::iter::repeat(tenant).zip(tasks);
        for (tenant, task) in tenants.iter().zip(groups.iter().copied()).flat_map(tasks_of) {
            let mix = &mixes[task.mix];
            let mut arms = [default.fork()?, tenant.fork()?];
            let (did, foreseen) = in_turns(&mut arms, clock, &model, mix, scale.operations)?;
            for (number, Foreseen { found, blind }) in [0, task.form].into_iter().zip(&foreseen) {
                // The default is foreseen once for each mix.
                if number == task.form || task.form == CORRECTED {
                    let of = if number == 0 { &did.default } else { &did.form };
                    let shape = &arms[usize::from(number > 0)].setting.shape;
                    let blocks = |cost| model.blocks(mix, cost);
                    let name = format!("{}, {mix}, {shape}", ARMS[number]);
                    foresight.add(name, blocks(found), blocks(blind), of.blocks);
                }
            }
            measured[task.mix][task.form] = did;
            done += 1;
        }
    }
    let rows: Vec<[PerOperation; 3]> = measured
        .iter()
        .map(|pairs| {
            let beside = pairs[PRINTED].default.midway(pairs[CORRECTED].default);
            [beside, pairs[PRINTED].form, pairs[CORRECTED].form]
        })
        .collect();
    let mut by_mix = tasks;
    by_mix.sort_by_key(|task| (task.mix, task.form));
    let first_of_shifting = training.len();
    let (training, shifting) = rows.split_at(first_of_shifting);
    // What the corrected form saves, held against the default beside it.
    let saved = |pairs: &[[Pair; 3]], of: fn(&PerOperation) -> f64| {
        let sum = |did: fn(&Pair) -> PerOperation| {
            pairs.iter().map(|forms| of(&did(&forms[CORRECTED]))).sum::<f64>()
        };
        1.0 - sum(|pair| pair.form) / sum(|pair| pair.default)
    };
    let (pairs_training, pairs_shifting) = measured.split_at(first_of_shifting);
    let (mut verdicts, mut sections) = (Vec::new(), Vec::new());
    for (what, unit, of) in [
        ("Time", "µs", (|cost: &PerOperation| cost.us) as fn(&PerOperation) -> f64),
        ("Blocks", "blocks", |cost| cost.blocks),
    ] {
        let mean = |rows: &[[PerOperation; 3]], arm: usize| {
            rows.iter().map(|arms| of(&arms[arm])).sum::<f64>() / rows.len() as f64
        };
        let less = saved(pairs_shifting, of);
        verdicts.push(verdict(
            &format!(
                "over the {} shifting mixes the corrected form takes at least 20 % less {} than the default",
                shifting.len(),
                what.to_lowercase()
            ),
            less >= 0.2,
            &format!(
                "{:.0} % less ({} against {} {unit} per operation; as printed {}); over Table 1 {:.0} % less",
                less * 100.0,
                digits(mean(shifting, 2)),
                digits(mean(shifting, 0)),
                digits(mean(shifting, 1)),
                saved(pairs_training, of) * 100.0,
            ),
        ));
        let mut section = Section { title: format!("{what} per operation"), ..Section::default() };
        for (name, rows, first) in [("Table 1", training, 0), ("Table 2", shifting, first_of_shifting)] {
            let mut table = Table::new(
                format!("CAMAL's {name}, {unit} per operation"),
                &["mix", ARMS[0], ARMS[1], ARMS[2], "corrected: shape"],
            );
            for (at, arms) in rows.iter().enumerate() {
                let setting = &by_mix[(first + at) * 2 + 1].setting;
                let figures = arms.iter().map(|cost| digits(of(cost)));
                table.row(mixes[first + at].to_string(), figures.chain([describe(setting)]));
            }
            table.row("mean", (0..3).map(|arm| digits(mean(rows, arm))).chain(["".into()]));
            section.tables.push(table);
            section.bars.push(Bars {
                title: format!("{name}: mean {} per operation", what.to_lowercase()),
                quantity: Quantity::Plain(unit),
                better: "lower",
                bars: (0..3).map(|arm| (ARMS[arm].to_owned(), Spread::of(vec![mean(rows, arm)]))).collect(),
            });
        }
        sections.push(section);
    }
    sections.insert(0, foresight.section(verdicts));
    let text = vec![
        format!(
            "{} entries of {} bytes, uncompressed, four to a block; {:.0} KiB for write buffer and filters in every arm; block cache \
             {:.0} KiB; {} operations per mix and arm on a tree that was just loaded ({loads} loads), each form and the default in turns, {SLICES} \
             slices each, with overwrites between them that carry level 0 through one whole cycle; reads cost what they do in the \
             slices, writes what they and the overwrites do together; scans of {} entries.",
            data.entries,
            data.entry_bytes,
            memory_bytes / 1024.0,
            default.setting.cache_bytes / 1024.0,
            scale.operations,
            SCAN_ENTRIES,
        ),
        "In every arm smaller levels get more of the filters' bits (Monkey), as in the paper. Default: T = 10, leveling, 10 bits per key. As printed: T* and M_f* of CAMAL's Eq. 5 and 6 with its exponent of 1, \
         leveling. Corrected: T, run limits, bits and K₀ from the corrected forms and their neighbours, priced by the model \
         with this machine's unit costs (docs/decisions/0012)."
            .into(),
        how(&site),
    ];
    sections.insert(1, Section { title: "Conditions".into(), text, ..Section::default() });
    Ok(sections)
}

/// Whether trees of both settings are the same once they are loaded.
fn same_tree(a: &Setting, b: &Setting) -> bool {
    a.shape == b.shape && a.filter_bits == b.filter_bits
}

/// The tree that each group of tasks begins with, loaded at the same time: nothing is measured
/// meanwhile.
fn loaded_together(site: &Site, groups: &[&[Task]]) -> Result<Vec<Tenant>> {
    thread::scope(|scope| {
        let load = |tasks: &&[Task]| {
            let setting = tasks[0].setting.clone();
            scope.spawn(move || Tenant::loaded(site, &setting, |_, _| ()))
        };
        let loading: Vec<_> = groups.iter().map(load).collect();
        let tenants =
            loading.into_iter().map(|load| load.join().unwrap_or_else(|panic| resume_unwind(panic)));
        tenants.collect()
    })
}

/// What the model foresees of an arm: from its tree as found, and from nothing but its setting and
/// the data.
struct Foreseen {
    found: Cost,
    blind: Cost,
}

impl Foreseen {
    /// The work of writes over whole cycles of level 0; reads are added as their trees are seen.
    fn of_writes(model: &Model, mix: &Mix, arm: &Tenant, operations: u64) -> Foreseen {
        let cycle = if mix.write > 0.0 { arm.level0_cycle() as f64 / mix.write } else { 0.0 };
        let load = Load { mix, operations: cycle.max(operations as f64) };
        let writes_of = |mut tree: Tree| {
            let reads = Reads::default();
            Cost { reads, ..model.run(&arm.setting, load, &mut tree) }
        };
        let mut blind = writes_of(model.loaded(&arm.setting));
        let mut tree = model.loaded(&arm.setting);
        let limit = arm.setting.shape.run_limit(0);
        for _ in 0..limit {
            blind.reads.add(&model.reads(&arm.setting, mix, &tree), 1.0 / f64::from(limit));
            tree.flush(0.0, model.data.memtable_entries(arm.setting.shape.write_buffer_bytes));
            tree.settle();
        }
        Foreseen { found: writes_of(arm.tree()), blind }
    }
}

/// The default, first of the `arms`, and a form do as many operations each, in turns. Between its
/// slices each overwrites as many entries as carry its level 0 through one whole cycle by the end:
/// how many runs its load has left there is chance, which a mix of few writes would keep, and so is
/// whether an emptying of level 0 falls into its writes.
fn in_turns(
    arms: &mut [Tenant; 2],
    clock: &dyn Clock,
    model: &Model,
    mix: &Mix,
    operations: u64,
) -> Result<(Pair, [Foreseen; 2])> {
    let overwriting = Mix::new([0.0, 0.0, 0.0, 100.0]).map_err(Error::Config)?;
    let mut foreseen = arms.each_ref().map(|arm| Foreseen::of_writes(model, mix, arm, operations));
    let mut did = [[Measured::default(); 2]; 2];
    for slice in 0..SLICES {
        for turn in 0..2 {
            let number = (slice as usize + turn) % 2;
            let (arm, [slices, overwrites]) = (&mut arms[number], &mut did[number]);
            let reads = model.reads(&arm.setting, mix, &arm.tree());
            foreseen[number].found.reads.add(&reads, 1.0 / SLICES as f64);
            slices.add(&arm.run(clock, mix, operations / SLICES)?);
            let writes = arm.level0_cycle().div_ceil(SLICES);
            overwrites.add(&arm.run(clock, &overwriting, writes)?);
        }
    }
    let [default, form] =
        did.map(|[slices, overwrites]| PerOperation::of(mix, &slices, &overwrites, &model.data));
    Ok((Pair { form, default }, foreseen))
}

/// `T=4 K=9,4,1 7 bits`.
fn describe(setting: &Setting) -> String {
    let limits: Vec<String> = setting.shape.run_limits.iter().map(u32::to_string).collect();
    format!("T={} K={} {} bits", setting.shape.size_ratio, limits.join(","), setting.filter_bits)
}

fn leveled(size_ratio: u32, filter_bits: f64, data: &Data, memory_bytes: f64) -> Setting {
    let write_buffer_bytes =
        ((memory_bytes - filter_bits * data.entries / 8.0) as u64).max(WRITE_BUFFER_BYTES_MIN);
    let shape = Shape {
        size_ratio,
        run_limits: vec![LEVEL0_RUNS, 1],
        write_buffer_bytes,
        table_bytes: table_bytes(memory_bytes),
    };
    Setting { shape, filter_bits, monkey: true, cache_bytes: 0.0 }
}

/// Tables of as much as write buffer and filters together, in every arm the same: each is synced
/// when it is written, which takes a device as long as writing a megabyte.
pub(super) fn table_bytes(memory_bytes: f64) -> u64 {
    (memory_bytes as u64).max(TABLE_BYTES_MIN)
}

fn default(data: &Data, memory_bytes: f64) -> Setting {
    leveled(DEFAULT.0, DEFAULT.1, data, memory_bytes)
}

/// CAMAL's equations with e^(−M_f/N), as printed.
fn printed(data: &Data, mix: &Mix, memory_bytes: f64) -> Setting {
    let tree = camal::Tree {
        entries: data.entries,
        entry_bytes: data.entry_bytes,
        block_entries: data.block_entries(),
        scan_entries: data.scan_entries,
        memory_bytes,
        bloom_exponent: BLOOM_EXPONENT_AS_PRINTED,
        merge_weight: 1.0,
    };
    let size_ratio = tree.size_ratio(mix, SIZE_RATIO_MAX);
    let bits = tree.filter_bytes(mix, size_ratio) * 8.0 / data.entries;
    let most = MEMORY_BITS * (1.0 - BUFFER_SHARE_MIN);
    let bits = ((bits * 2.0).round() / 2.0).min(most);
    leveled(size_ratio.round() as u32, if bits < 1.0 { 0.0 } else { bits }, data, memory_bytes)
}

fn corrected(model: &Model, mix: &Mix, memory_bytes: f64, cache_bytes: f64) -> Setting {
    let least = ((memory_bytes * BUFFER_SHARE_MIN) as u64).max(WRITE_BUFFER_BYTES_MIN);
    let budget = Budget {
        memory_bytes,
        cache_bytes,
        write_buffer_bytes: (least, ((memory_bytes * 0.9) as u64).max(least)),
        level0_runs: None,
        size_ratio: None,
        filter_bits: None,
        monkey: true,
        table_bytes: table_bytes(memory_bytes),
    };
    let price: fn(&Candidate) -> f64 = |candidate| candidate.ns;
    choose(model, mix, &budget, price).best.setting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camals_mixes_are_whole_and_no_two_of_a_table_are_alike() {
        for table in [&TRAINING[..], &SHIFTING] {
            for (at, shares) in table.iter().enumerate() {
                Mix::new(*shares).unwrap();
                assert!(table[..at].iter().all(|other| other != shares), "{shares:?}");
            }
        }
    }

    #[test]
    fn reads_and_writes_count_by_their_shares_whichever_were_measured() {
        let data =
            Data { entries: 1e6, entry_bytes: ENTRY_BYTES, block_bytes: 4096.0, scan_entries: SCAN_ENTRIES };
        let mix = Mix::new([0.0, 90.0, 0.0, 10.0]).unwrap();
        let block = data.block_stored_bytes();
        let moved = |reads: u64, merged: f64| (reads as f64 * block) as u64 + (merged * block) as u64;
        // Eight reads of 100 µs and a block each; two writes of 10 µs, and no emptying of level 0
        // among them.
        let slices = Measured {
            operations: 10,
            ns: 820_000,
            blocks_read: 8,
            bytes_read: moved(8, 0.0),
            writes: 2,
            write_ns: 20_000,
            ..Measured::default()
        };
        let overwrites = Measured {
            operations: 8,
            ns: 4_000_000,
            bytes_read: moved(0, 50.0),
            bytes_written: moved(0, 50.0),
            writes: 8,
            write_ns: 3_980_000,
            ..Measured::default()
        };
        let cost = PerOperation::of(&mix, &slices, &overwrites, &data);
        assert!((cost.us - (0.9 * 100.0 + 0.1 * 400.0)).abs() < 1e-6, "{cost:?}");
        assert!((cost.blocks - (0.9 + 0.1 * 10.0)).abs() < 1e-2, "{cost:?}");
    }

    #[test]
    fn every_arm_has_the_same_memory() {
        let data =
            Data { entries: 1e6, entry_bytes: ENTRY_BYTES, block_bytes: 4096.0, scan_entries: SCAN_ENTRIES };
        let memory = data.entries * MEMORY_BITS / 8.0;
        for shares in TRAINING {
            let mix = Mix::new(shares).unwrap();
            for setting in [default(&data, memory), printed(&data, &mix, memory)] {
                let used = setting.shape.write_buffer_bytes as f64 + setting.filter_bits * data.entries / 8.0;
                assert!((used / memory - 1.0).abs() < 0.01, "{setting:?}");
                setting.shape.validate().unwrap();
            }
        }
    }
}
