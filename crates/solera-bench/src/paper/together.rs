//! The papers' ideas together: `run`, experiment X1, 2⁵ settings over YCSB's workloads and RusKey's
//! sessions.
//!
//! An `Idea` is what is switched on and off: separation, shape, memory, blocks, index. Where they
//! are on, shape, memory and blocks are chosen for each workload by the cost model. Each setting is
//! measured in a world of counted time. `Effects` says what each idea does, and what two do to each
//! other.
//!
//! What must hold: effects are of logarithms of times, so that what multiplies adds up.
//!
//! Caller: `paper::mod`.

use super::{
    Scale,
    contest::mean,
    document::{Section, Table, Verdict},
    row, said,
};
use crate::{
    report::number::digits,
    runner::{Progress, Result},
};
use solera::{Compression, Filters, IndexKind, Layout, Shape};
use solera_tune::{
    cost::{Data, Mix, Model, Setting, choose::Family},
    world::{Drift, Phase, Setup, World, device},
};

/// What is switched on and off, in the order in which it is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idea {
    /// Values lie apart (LearnedKV).
    Separation,
    /// K of each level by the cost model (RusKey).
    Shape,
    /// Write buffer against filters by the cost model (CAMAL).
    Memory,
    /// The size of blocks by the cost model (DobLIX).
    Blocks,
    /// Models in place of a search over last keys (DobLIX, Sherry).
    Index,
}

impl Idea {
    const ALL: [Idea; 5] = [Idea::Separation, Idea::Shape, Idea::Memory, Idea::Blocks, Idea::Index];

    fn name(self) -> &'static str {
        match self {
            Idea::Separation => "separation",
            Idea::Shape => "shape",
            Idea::Memory => "memory",
            Idea::Blocks => "blocks",
            Idea::Index => "index",
        }
    }
}

/// Which ideas are on: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct On(usize);

impl On {
    const COUNT: usize = 1 << Idea::ALL.len();

    fn has(self, idea: Idea) -> bool {
        self.0 >> idea as usize & 1 == 1
    }
}

/// Write buffer of every setting in which memory is not divided anew, in bytes: so small that the
/// tree has three levels.
const BUFFER_BYTES: u64 = 8 << 10;
/// The smallest that the engine has.
const BUFFER_BYTES_MIN: u64 = 4 << 10;
/// Filter bits for each key by default.
const FILTER_BITS: f64 = 10.0;
/// Tables, in write buffers.
const TABLE_BYTES: u64 = 64 << 10;
/// Size ratio and K₀ of every setting.
const SIZE_RATIO: u32 = 10;
const LEVEL0_RUNS: u32 = 4;
/// Bytes of a key, and of what stands in its place where values lie apart.
const KEY_BYTES: f64 = 8.0;
const POINTER_BYTES: f64 = 24.0;
/// Values from so many bytes on lie apart.
const SEPARATE_FROM: u64 = 64;
/// What is chosen among.
const RUN_LIMITS: [&[u32]; 8] = [&[1], &[2], &[3], &[4], &[5], &[7], &[10], &[10, 10, 1]];
const FILTERS: [f64; 6] = [2.0, 4.0, 6.0, 8.0, 10.0, 12.0];
const BLOCKS: [u32; 5] = [1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10];
/// Bytes of values.
const VALUES: [usize; 2] = [1000, 100];
/// γ of RusKey's sessions.
const SESSIONS: [f64; 5] = [0.9, 0.5, 0.1, 0.3, 0.7];
/// An effect that is less than this is none.
const NOTHING: f64 = 0.01;

/// A workload.
struct Workload {
    name: String,
    phase: Phase,
}

fn workloads() -> Vec<Workload> {
    let ycsb = Drift::all().into_iter().find(|drift| drift.name == "ycsb in turns");
    let ycsb = ycsb.map(|drift| drift.epochs).unwrap_or_default();
    let of_ycsb = ('A'..).zip(ycsb).map(|(name, phase)| Workload { name: format!("YCSB {name}"), phase });
    let of_sessions = SESSIONS.map(|lookups| Workload {
        name: format!("γ = {lookups}"),
        phase: Phase::of([0.0, lookups, 0.0, 1.0 - lookups]),
    });
    of_ycsb.chain(of_sessions).collect()
}

/// One setting: what a world is made of.
#[derive(Clone, Debug)]
struct Chosen {
    setting: Setting,
    block_bytes: u32,
}

/// Chooses for a mix, one idea after the other, each with what the ones before it have chosen.
fn chosen(on: On, mix: &Mix, entries: f64, value_bytes: f64) -> Chosen {
    let entry_bytes = KEY_BYTES + if on.has(Idea::Separation) { POINTER_BYTES } else { value_bytes };
    let price = |chosen: &Chosen| {
        let data = Data { entries, entry_bytes, block_bytes: chosen.block_bytes.into(), scan_entries: 16.0 };
        let model = Model { data, units: device() };
        model.price(Family::Neighbour, chosen.setting.clone(), mix).ns
    };
    let cheapest = |now: Chosen, others: Vec<Chosen>| {
        let priced = std::iter::once(now).chain(others).map(|chosen| (price(&chosen), chosen));
        priced.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is one").1
    };
    let shape = Shape {
        size_ratio: SIZE_RATIO,
        run_limits: vec![LEVEL0_RUNS, 1],
        write_buffer_bytes: BUFFER_BYTES,
        table_bytes: TABLE_BYTES,
    };
    let setting = Setting { shape, filter_bits: FILTER_BITS, monkey: true, cache_bytes: 0.0 };
    let mut now = Chosen { setting, block_bytes: Layout::default().block_bytes };
    if on.has(Idea::Shape) {
        let with = |below: &&[u32]| {
            let mut other = now.clone();
            other.setting.shape.run_limits = [LEVEL0_RUNS].into_iter().chain(below.iter().copied()).collect();
            other
        };
        let others = RUN_LIMITS.iter().map(with).collect();
        now = cheapest(now, others);
    }
    if on.has(Idea::Memory) {
        let memory = BUFFER_BYTES as f64 + FILTER_BITS * entries / 8.0;
        let with = |bits: f64| {
            let mut other = now.clone();
            other.setting.filter_bits = bits;
            other.setting.shape.write_buffer_bytes = (memory - bits * entries / 8.0).max(0.0) as u64;
            other
        };
        let others = FILTERS.into_iter().map(with);
        let others = others.filter(|other| other.setting.shape.write_buffer_bytes >= BUFFER_BYTES_MIN);
        let others = others.collect();
        now = cheapest(now, others);
    }
    if on.has(Idea::Blocks) {
        let others = BLOCKS.map(|block_bytes| Chosen { block_bytes, ..now.clone() }).into();
        now = cheapest(now, others);
    }
    now
}

/// Nanoseconds of an operation.
fn measured(on: On, chosen: &Chosen, setup: &Setup, workload: &Workload, operations: u64) -> Result<f64> {
    let index = if on.has(Idea::Index) { IndexKind::Learned } else { IndexKind::STree };
    let layout = Layout {
        block_bytes: chosen.block_bytes,
        index,
        filter: Filters::monkey(chosen.setting.filter_bits as f32),
        compression: Compression::None,
        ..Layout::default()
    };
    let setup = Setup {
        layout,
        shape: Some(chosen.setting.shape.clone()),
        separate_from: on.has(Idea::Separation).then_some(SEPARATE_FROM),
        ..setup.clone()
    };
    let mut world = World::new(setup)?;
    let begin = world.now_ns();
    world.run(&workload.phase, operations)?;
    Ok((world.now_ns() - begin) as f64 / operations as f64)
}

/// What ideas do to the time of one workload.
struct Effects {
    /// Logarithms of times, by which ideas are on.
    logs: Vec<f64>,
}

impl Effects {
    /// By how much the logarithm changes with an idea, in the mean over all others.
    fn of(&self, idea: Idea) -> f64 {
        self.contrast(|on| if on.has(idea) { 1.0 } else { -1.0 })
    }

    /// By how much more it changes with one where the other is on: below 0 they help each other.
    fn between(&self, one: Idea, other: Idea) -> f64 {
        self.contrast(|on| if on.has(one) == on.has(other) { 1.0 } else { -1.0 })
    }

    fn contrast(&self, sign: impl Fn(On) -> f64) -> f64 {
        let sum: f64 = self.logs.iter().enumerate().map(|(on, log)| sign(On(on)) * log).sum();
        sum / (self.logs.len() / 2) as f64
    }

    /// The time with these ideas, of that with none.
    fn ratio(&self, on: On) -> f64 {
        (self.logs[on.0] - self.logs[0]).exp()
    }

    fn best(&self) -> On {
        let all = (0..self.logs.len()).min_by(|a, b| self.logs[*a].total_cmp(&self.logs[*b]));
        On(all.expect("there are settings"))
    }
}

/// X1.
pub(super) fn run(scale: &Scale, progress: &mut dyn Progress) -> Result<Vec<Section>> {
    let (workloads, entries) = (workloads(), scale.entries_small as u64);
    let (mut asked, mut sections) = (Vec::new(), Vec::new());
    for value_bytes in VALUES {
        let setup = Setup {
            seed: scale.seed,
            entries,
            value_bytes,
            memory_bytes: (entries * value_bytes as u64 / 10).max(1 << 20),
            ..Setup::default()
        };
        let mut effects = Vec::new();
        for (number, workload) in workloads.iter().enumerate() {
            progress.at(&format!("values of {value_bytes} bytes"), number as u64, workloads.len() as u64);
            let mut logs = Vec::new();
            for on in (0..On::COUNT).map(On) {
                let chosen = chosen(on, &workload.phase.mix, entries as f64, value_bytes as f64);
                logs.push(measured(on, &chosen, &setup, workload, scale.mission_operations)?.ln());
            }
            effects.push(Effects { logs });
        }
        asked_of(value_bytes, &effects, &mut asked);
        sections.push(section(value_bytes, &workloads, &effects));
    }
    sections.insert(0, said(asked));
    sections.insert(1, conditions(scale));
    Ok(sections)
}

fn all(idea: impl Fn(&Effects) -> f64, effects: &[Effects]) -> f64 {
    mean(&effects.iter().map(idea).collect::<Vec<f64>>())
}

/// A change of the logarithm as a change of the time, in per cent.
fn percent(log: f64) -> String {
    format!("{:+.1} %", (log.exp() - 1.0) * 100.0)
}

fn asked_of(value_bytes: usize, effects: &[Effects], asked: &mut Vec<Verdict>) {
    let everything = On(On::COUNT - 1);
    let ratio = all(|of| of.logs[everything.0] - of.logs[0], effects);
    row(
        asked,
        format!("values of {value_bytes} bytes: all five together are faster than none"),
        format!("{} in the mean of the workloads", percent(ratio)),
        ratio < 0.0,
    );
    let worst = effects.iter().map(|of| of.ratio(everything) / of.ratio(of.best())).fold(0.0, f64::max);
    row(
        asked,
        format!(
            "values of {value_bytes} bytes: all five are within 10 % of the best of the 32 under every workload"
        ),
        format!("at most {worst:.2} of it"),
        worst <= 1.10,
    );
    let substitutes = all(|of| of.between(Idea::Separation, Idea::Shape), effects);
    row(
        asked,
        format!("values of {value_bytes} bytes: separation leaves less for the shape to gain"),
        format!("together they are slower by {} than their effects say", percent(substitutes)),
        substitutes > NOTHING,
    );
}

fn section(value_bytes: usize, workloads: &[Workload], effects: &[Effects]) -> Section {
    let names = Idea::ALL.map(Idea::name);
    let heads =
        ["workload", "none, µs"].into_iter().chain(names).chain(["all, of none", "best of 32", "with"]);
    let heads: Vec<&str> = heads.collect();
    let mut main = Table::new(
        format!(
            "Values of {value_bytes} bytes: what each idea does to the time of an operation, over all others"
        ),
        &heads,
    );
    let with = |on: On| {
        let names: Vec<&str> = Idea::ALL.into_iter().filter(|idea| on.has(*idea)).map(Idea::name).collect();
        names.join(", ")
    };
    for (workload, of) in workloads.iter().zip(effects) {
        let changes = Idea::ALL.map(|idea| percent(of.of(idea)));
        let none = [digits(of.logs[0].exp() / 1e3)];
        let best = of.best();
        let last =
            [format!("{:.2}", of.ratio(On(On::COUNT - 1))), format!("{:.2}", of.ratio(best)), with(best)];
        main.row(workload.name.clone(), none.into_iter().chain(changes).chain(last));
    }
    let heads: Vec<&str> = ["idea"].into_iter().chain(names).collect();
    let mut pairs = Table::new(
        format!(
            "Values of {value_bytes} bytes: how much slower two are together than their effects say, in the mean"
        ),
        &heads,
    );
    for one in Idea::ALL {
        let cells = Idea::ALL.map(|other| match one == other {
            true => percent(all(|of| of.of(one), effects)),
            false => percent(all(|of| of.between(one, other), effects)),
        });
        pairs.row(one.name(), cells);
    }
    Section {
        title: format!("Values of {value_bytes} bytes"),
        text: vec![
            "On the diagonal of the second table: the idea itself. Below 0 is faster, or helping each other."
                .into(),
        ],
        tables: vec![main, pairs],
        ..Section::default()
    }
}

fn conditions(scale: &Scale) -> Section {
    Section {
        title: "Conditions".into(),
        text: vec![
            "In worlds times are counted, not measured.".into(),
            format!(
                "{} keys; {} operations of each workload on a tree that was just loaded with the setting. Without an idea: values in the tables; one run in each level below level 0; a write buffer of {} KiB and \
             {FILTER_BITS} filter bits for each key; blocks of 4 KiB; an s-tree over last keys. With it: values from {SEPARATE_FROM} bytes on lie \
             apart; the cost model's cheapest of {} run limits, of {} filters (the write buffer has the rest of the same memory), of {} \
             block sizes, each chosen for the workload after the ideas before it; learned indexes. What an index saves of the \
             processor's time within a block is not counted in a world: here it counts by its bytes and by blocks read in vain.",
                scale.entries_small,
                scale.mission_operations,
                BUFFER_BYTES >> 10,
                RUN_LIMITS.len(),
                FILTERS.len(),
                BLOCKS.len(),
            ),
        ],
        ..Section::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_of_products_are_their_factors_and_pairs_that_only_multiply_have_none() {
        let factors = [0.8f64, 1.1, 0.5, 1.0, 0.9];
        let time = |on: On| {
            let own = Idea::ALL.into_iter().filter(|idea| on.has(*idea)).map(|idea| factors[idea as usize]);
            let both = on.has(Idea::Separation) && on.has(Idea::Shape);
            own.product::<f64>() * if both { 1.5 } else { 1.0 }
        };
        let effects = Effects { logs: (0..On::COUNT).map(|on| time(On(on)).ln()).collect() };
        assert!((effects.of(Idea::Memory).exp() - 0.5).abs() < 1e-12);
        // Half of what both bring is in each one's mean.
        assert!((effects.of(Idea::Separation) - (0.8f64.ln() + 1.5f64.ln() / 2.0)).abs() < 1e-12);
        assert!((effects.between(Idea::Separation, Idea::Shape) - 1.5f64.ln() / 2.0).abs() < 1e-12);
        assert!(effects.between(Idea::Memory, Idea::Index).abs() < 1e-12);
    }
}
