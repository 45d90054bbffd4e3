//! The cheapest setting: `choose` for a mix and a `Budget`, and `Model::price` for one setting.
//!
//! A `Budget` is what is held fixed: the memory, and knobs that are not to be chosen. The closed
//! forms say where to look, for each `Family` of run limits. From the best of each, and from an
//! untuned database, a walk over neighbours goes where the model says that it is cheaper. `Choice`
//! has each family's candidates, the best of all, and its terms.
//!
//! What must hold: neighbours are legal settings. All are priced in one way: from the tree that
//! loading leaves, over as many operations as write every entry once more. If nothing is written,
//! one is priced.
//!
//! Callers: `solera cost`, and the pages `camal`, `ruskey` and `camal_learned` of `solera-bench`;
//! `Family` also by `together`; `SIZE_RATIO_MAX` by the steward.

use super::{
    forms::{BLOOM_EXPONENT, camal, ruskey},
    mix::Mix,
    model::{Cost, Load, Model, Setting, Term},
};
use crate::learn::elementary::{pow, powi};
use serde::Serialize;
use solera::{BITS_PER_KEY_MAX, LEVELS_MAX, Shape};
use std::{cell::RefCell, collections::HashMap};

/// Largest size ratio that is tried for itself; beyond it only what the closed form and the steps
/// of ⌈L⌉ name.
const SIZE_RATIOS_TRIED: u32 = 6;
/// Largest size ratio that is considered at all: level 1 holds T(T−1) write buffers then, a
/// thousand.
pub const SIZE_RATIO_MAX: u32 = 32;
/// Filter bits are whole halves: finer is below what the model knows.
const BITS_STEP: f64 = 0.5;
/// Largest filter that is considered, in bits per key, as long as the write buffer may have the
/// rest of the memory.
const BITS_MAX: f64 = 20.0;
/// Run limits of level 0 that are tried.
const LEVEL0_LIMITS: [u32; 7] = [1, 2, 3, 4, 6, 9, 16];
/// Steps of a walk over neighbours, at most.
const STEPS_MAX: usize = 16;
/// Steps in filter bits per key to a neighbour.
const BITS_STEPS: [f64; 6] = [-3.0, -1.5, -0.5, 0.5, 1.5, 3.0];
/// The families that are priced at every size ratio. A walk to cheaper neighbours begins at the
/// best of each: costs are rugged over the settings, because run limits, levels and tables are
/// whole numbers.
const FAMILIES: [Family; 4] = [Family::Leveling, Family::LazyLeveling, Family::Tiering, Family::Joint];

/// A family of run limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// One run in every level.
    Leveling,
    /// T runs in every level.
    Tiering,
    /// T runs above, one in the last level (Dostoevsky).
    LazyLeveling,
    /// Run limits from the joint form of Monkey and FLSM (docs/PAPERS.md, "RusKey: the run
    /// limits").
    Joint,
    /// A neighbour of one of the others that the model finds cheaper.
    Neighbour,
}

impl Family {
    /// Its name for readers.
    pub fn name(self) -> &'static str {
        match self {
            Family::Leveling => "leveling",
            Family::Tiering => "tiering",
            Family::LazyLeveling => "lazy leveling",
            Family::Joint => "closed form",
            Family::Neighbour => "neighbour",
        }
    }
}

/// What is held fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    /// M_b + M_f, in bytes.
    pub memory_bytes: f64,
    /// M_c, in bytes.
    pub cache_bytes: f64,
    /// The smallest and the largest write buffer that are allowed, in bytes.
    pub write_buffer_bytes: (u64, u64),
    /// K₀, if it is not to be chosen.
    pub level0_runs: Option<u32>,
    /// T, if it is not to be chosen.
    pub size_ratio: Option<u32>,
    /// Filter bits per key, if they are not to be chosen: the write buffer has the rest.
    pub filter_bits: Option<f64>,
    /// Whether smaller levels get more of the filters' bits.
    pub monkey: bool,
    /// Size at which tables are cut.
    pub table_bytes: u64,
}

/// A setting and its price.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where it comes from.
    pub family: Family,
    /// The setting.
    pub setting: Setting,
    /// What operations do.
    pub cost: Cost,
    /// Blocks read and merged per operation.
    pub blocks: f64,
    /// Nanoseconds per operation.
    pub ns: f64,
}

/// All candidates, and the best.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Each family at each size ratio, priced.
    pub candidates: Vec<Candidate>,
    /// The cheapest.
    pub best: Candidate,
    /// T* of the closed form, not rounded.
    pub size_ratio_form: f64,
    /// Filter bits per key of the closed form at the chosen size ratio.
    pub filter_bits_form: f64,
    /// The terms of the best.
    pub terms: Vec<Term>,
}

/// The cheapest setting for `mix`. `price` says what a candidate is judged by, for example its
/// `ns`.
pub fn choose(model: &Model, mix: &Mix, budget: &Budget, price: fn(&Candidate) -> f64) -> Choice {
    let chooser = Chooser { model, mix, budget, price, priced: RefCell::default() };
    let size_ratio_form = chooser.size_ratio();
    let mut candidates = Vec::new();
    for size_ratio in chooser.size_ratios(size_ratio_form) {
        for family in FAMILIES {
            candidates.push(chooser.candidate(family, size_ratio));
        }
    }
    let starts = FAMILIES.map(|family| {
        let of_family = candidates.iter().filter(|candidate| candidate.family == family);
        chooser.cheapest(of_family.cloned()).expect("every family has a size ratio")
    });
    // And at what a database is like that was never tuned.
    let ratio = budget.size_ratio.unwrap_or(Shape::default().size_ratio);
    let untuned = chooser.candidate(Family::Leveling, ratio);
    let ends = starts.into_iter().chain([untuned]).map(|start| chooser.descend(start));
    let best = chooser.cheapest(ends).expect("there are families");
    let filter_bits_form = chooser.filter_bits(best.setting.shape.size_ratio);
    let terms = model.terms(mix, &best.cost);
    Choice { candidates, best, size_ratio_form, filter_bits_form, terms }
}

impl Model {
    /// Prices a setting: from the tree that loading leaves, over as many operations as write every
    /// entry once more (once, if nothing is written).
    pub fn price(&self, family: Family, setting: Setting, mix: &Mix) -> Candidate {
        let mut tree = self.loaded(&setting);
        let operations = if mix.write > 0.0 { self.data.entries / mix.write } else { 1.0 };
        let cost = self.run(&setting, Load { mix, operations }, &mut tree);
        let (blocks, ns) = (self.blocks(mix, &cost), self.ns(mix, &cost));
        Candidate { family, setting, cost, blocks, ns }
    }
}

struct Chooser<'a> {
    model: &'a Model,
    mix: &'a Mix,
    budget: &'a Budget,
    price: fn(&Candidate) -> f64,
    /// What neighbours cost, by T, run limits and the bits of the filter bits: walks meet.
    priced: RefCell<HashMap<(u32, Vec<u32>, u64), Candidate>>,
}

impl Chooser<'_> {
    fn cheapest(&self, of: impl Iterator<Item = Candidate>) -> Option<Candidate> {
        of.min_by(|a, b| (self.price)(a).total_cmp(&(self.price)(b)))
    }

    /// A neighbour and its price.
    fn neighbour(&self, setting: Setting) -> Candidate {
        let Shape { size_ratio, run_limits, .. } = &setting.shape;
        let key = (*size_ratio, run_limits.clone(), setting.filter_bits.to_bits());
        let mut priced = self.priced.borrow_mut();
        priced.entry(key).or_insert_with(|| self.model.price(Family::Neighbour, setting, self.mix)).clone()
    }

    /// Costs of a block read and of a merged entry, as the closed forms take them.
    fn unit_costs(&self) -> (f64, f64) {
        let (data, units) = (&self.model.data, &self.model.units);
        let read = units.read_ns(data.block_stored_bytes()) + units.block_load_ns;
        let page = units.read_ahead_ns_per_page + units.write_ns_per_page;
        (read, page / data.block_entries() + units.merge_ns_per_entry)
    }

    /// T* with the processor's part (docs/PAPERS.md, "CAMAL: the processor's part"): A = (v+r)
    /// c_r + q (I_r + c_q), D = w ((I_r+I_w)/B + c_w).
    fn size_ratio(&self) -> f64 {
        let ((read, merge), units) = (self.unit_costs(), &self.model.units);
        let reads = (self.mix.absent + self.mix.found) * units.run_probe_ns
            + self.mix.scan * (read + units.run_seek_ns);
        camal::size_ratio(reads, self.mix.write * merge, SIZE_RATIO_MAX.into())
    }

    /// The size ratios to price: small ones, the closed form's neighbours, and both sides of every
    /// step of ⌈L⌉.
    fn size_ratios(&self, form: f64) -> Vec<u32> {
        if let Some(size_ratio) = self.budget.size_ratio {
            return vec![size_ratio];
        }
        let data = &self.model.data;
        let buffers =
            data.entries * data.entry_bytes / self.write_buffer_bytes(form.round() as u32) as f64 + 1.0;
        let steps = (2..5).map(|levels| pow(buffers, 1.0 / f64::from(levels)));
        let near = steps.chain([form]).flat_map(|ratio| [ratio.floor() as u32, ratio.ceil() as u32]);
        let mut ratios: Vec<u32> = (2..=SIZE_RATIOS_TRIED).chain(near).collect();
        ratios.retain(|ratio| (2..=SIZE_RATIO_MAX).contains(ratio));
        ratios.sort_unstable();
        ratios.dedup();
        ratios
    }

    /// Filter bits per key of the closed form, in whole steps, such that the write buffer is legal.
    fn filter_bits(&self, size_ratio: u32) -> f64 {
        if let Some(bits) = self.budget.filter_bits {
            return bits;
        }
        let (data, ratio) = (&self.model.data, f64::from(size_ratio.max(2)));
        let spread = if self.budget.monkey { pow(ratio, ratio / (ratio - 1.0)) / (ratio - 1.0) } else { 1.0 };
        let tree = camal::Tree {
            // Monkey's factor multiplies what lookups gain from a bit: as if there were so many
            // more of them.
            entries: data.entries,
            entry_bytes: data.entry_bytes,
            block_entries: data.block_entries(),
            scan_entries: data.scan_entries,
            memory_bytes: self.budget.memory_bytes,
            bloom_exponent: BLOOM_EXPONENT,
            merge_weight: 1.0,
        };
        let mix = Mix { absent: self.mix.absent * spread, found: self.mix.found * spread, ..*self.mix };
        self.legal_bits(tree.filter_bytes(&mix, ratio) * 8.0 / data.entries)
    }

    fn legal_bits(&self, bits: f64) -> f64 {
        let entries = self.model.data.entries;
        let (least, most) = self.budget.write_buffer_bytes;
        let of_rest = |buffer: u64| (self.budget.memory_bytes - buffer as f64) * 8.0 / entries;
        let down = |bits: f64| (bits / BITS_STEP).floor() * BITS_STEP;
        let bits = down(bits).clamp(0.0, BITS_MAX).min(down(of_rest(least)).max(0.0));
        // What neither may use is given to the filters, so that the memory is equal for all; as far
        // as filters may be that large.
        let bits = bits.max((of_rest(most) / BITS_STEP).ceil() * BITS_STEP).min(BITS_PER_KEY_MAX.into());
        match bits {
            bits if bits >= 1.0 => bits,
            _ if bits > 0.0 && of_rest(least) >= 1.0 => 1.0,
            _ => 0.0,
        }
    }

    fn write_buffer_bytes(&self, size_ratio: u32) -> u64 {
        self.buffer_beside(self.filter_bits(size_ratio))
    }

    fn buffer_beside(&self, filter_bits: f64) -> u64 {
        let (least, most) = self.budget.write_buffer_bytes;
        let rest = self.budget.memory_bytes - filter_bits * self.model.data.entries / 8.0;
        (rest.max(0.0) as u64).clamp(least, most)
    }

    fn setting(&self, size_ratio: u32, run_limits: Vec<u32>, filter_bits: f64) -> Setting {
        Setting {
            shape: Shape {
                size_ratio,
                run_limits,
                write_buffer_bytes: self.buffer_beside(filter_bits),
                table_bytes: self.budget.table_bytes,
            },
            filter_bits,
            monkey: self.budget.monkey,
            cache_bytes: self.budget.cache_bytes,
        }
    }

    fn candidate(&self, family: Family, size_ratio: u32) -> Candidate {
        let bits = self.filter_bits(size_ratio);
        let level0 = self.budget.level0_runs.unwrap_or(4);
        let depth = self.depth(size_ratio, self.buffer_beside(bits));
        let below: Vec<u32> = match family {
            Family::Leveling | Family::Neighbour => vec![1],
            Family::Tiering => vec![size_ratio],
            Family::LazyLeveling => {
                let mut limits = vec![size_ratio; depth.saturating_sub(1)];
                limits.push(1);
                limits
            }
            Family::Joint => self.joint(size_ratio, bits, depth),
        };
        let run_limits = [level0].into_iter().chain(below).collect();
        self.model.price(family, self.setting(size_ratio, run_limits, bits), self.mix)
    }

    /// Levels below level 0 that the data needs.
    fn depth(&self, size_ratio: u32, write_buffer_bytes: u64) -> usize {
        let data = &self.model.data;
        let shape = Shape { size_ratio, write_buffer_bytes, ..Shape::default() };
        let mut held = 0u64;
        let needed = (data.entries * data.entry_bytes) as u64;
        let deeper = (1..LEVELS_MAX).take_while(|&level| {
            let more = held < needed;
            held = held.saturating_add(shape.capacity_bytes(level));
            more
        });
        deeper.count().max(1)
    }

    /// Run limits of the levels below level 0 from the joint form. The ratio of a level to what
    /// arrives in it is T, but for level 1, whose is larger, and the last, whose is smaller.
    fn joint(&self, size_ratio: u32, bits: f64, depth: usize) -> Vec<u32> {
        let (data, ratio) = (&self.model.data, f64::from(size_ratio));
        let (read, merge) = self.unit_costs();
        let buffer = self.buffer_beside(bits) as f64 / data.entry_bytes;
        let mut left = data.entries;
        let entries = (1..=depth).map(|level| {
            let capacity = buffer * (ratio - 1.0) * powi(ratio, level as u32);
            let held = if level == depth { left } else { capacity.min(left) };
            left -= held;
            held.max(1.0)
        });
        let entries: Vec<f64> = entries.collect();
        // Scans pay a read for every run, as a lookup without a filter would.
        let reads = self.mix.absent + self.mix.found + self.mix.scan;
        let probes = (self.mix.absent + self.mix.found) * self.model.units.run_probe_ns
            + self.mix.scan * (read + self.model.units.run_seek_ns);
        let lookups = if reads + self.mix.write > 0.0 { reads / (reads + self.mix.write) } else { 1.0 };
        let levels = ruskey::Levels {
            filter_bits: bits * data.entries,
            entries,
            size_ratio: ratio,
            lookups,
            read: read * (self.mix.absent + self.mix.found) / reads.max(f64::MIN_POSITIVE),
            probe: probes / reads.max(f64::MIN_POSITIVE),
            merge,
        };
        levels.solve().run_limits.iter().map(|limit| (limit.round() as u32).clamp(1, size_ratio)).collect()
    }

    /// Walks to cheaper neighbours until there is none.
    fn descend(&self, mut best: Candidate) -> Candidate {
        for _ in 0..STEPS_MAX {
            let settings = self.neighbours(&best.setting).into_iter();
            let Some(next) = self.cheapest(settings.map(|setting| self.neighbour(setting))) else { break };
            // A neighbour must be worth its name: less is within what the model does not know.
            if (self.price)(&next) >= (self.price)(&best) * 0.995 {
                break;
            }
            best = next;
        }
        best
    }

    fn neighbours(&self, setting: &Setting) -> Vec<Setting> {
        let shape = &setting.shape;
        let (ratio, limits) = (shape.size_ratio, &shape.run_limits);
        let mut out = Vec::new();
        let mut push = |size_ratio: u32, run_limits: Vec<u32>, bits: f64| {
            let next = self.setting(size_ratio, run_limits, bits);
            if next.shape.validate().is_ok() && next != *setting {
                out.push(next);
            }
        };
        for level in 1..limits.len() {
            for limit in [limits[level] - 1, limits[level] + 1, limits[level] * 2] {
                let mut limits = limits.clone();
                limits[level] = limit.clamp(1, ratio);
                push(ratio, limits, setting.filter_bits);
            }
        }
        if self.budget.level0_runs.is_none() {
            for limit in LEVEL0_LIMITS {
                let mut limits = limits.clone();
                limits[0] = limit;
                push(ratio, limits, setting.filter_bits);
            }
        }
        if self.budget.size_ratio.is_none() {
            let ratios = [ratio - 1, ratio + 1, (ratio * 3).div_ceil(4), (ratio * 4).div_ceil(3)];
            for next in ratios.map(|next| next.min(SIZE_RATIO_MAX)) {
                let follow = |&limit: &u32| if limit == ratio { next } else { limit.min(next) };
                let below = limits.iter().skip(1).map(follow);
                push(next, limits[..1].iter().copied().chain(below).collect(), setting.filter_bits);
            }
        }
        if self.budget.filter_bits.is_none() {
            for step in BITS_STEPS {
                push(ratio, limits.clone(), self.legal_bits(setting.filter_bits + step));
            }
        }
        out
    }
}
