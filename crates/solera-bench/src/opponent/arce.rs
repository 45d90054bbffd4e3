//! ArceKV's forward simulation ("ArceKV: Towards Workload-driven LSM-compactions", 2025, section
//! 5): `Arce`, a `Plan`.
//!
//! From the live runs `cost::model` simulates 1,000 flushes under many run limits. These are five
//! limits of level 0, each with every uniform limit below it, and with lazy leveling. From the
//! cheapest it steps to cheaper neighbours below level 0. The run limits are its actions. ArceKV's
//! threshold of write stalls is level 0's run limit here; time lost in stalls is not simulated.
//!
//! What must hold: its choice is no dearer, by its own model, than any arm that it begins with.
//! Where nothing is written it asks for nothing.
//!
//! Callers: `paper::camal_dynamic` and `paper::lerp`, as an opponent.

use super::planner::Plan;
use solera::control::knob;
use solera_tune::{
    agent::Set,
    cost::{Mix, Model, Setting, model::Load, tree::Tree},
    sight::Window,
};

/// Flushes that are simulated: ArceKV's.
const FLUSHES: f64 = 1000.0;
/// Run limits of level 0 that are tried, in the place of thresholds at which writes stall.
const STALLS: [u32; 5] = [2, 4, 8, 16, 32];
/// Steps to cheaper neighbours, at most.
const STEPS_MAX: usize = 8;

/// The simulation.
#[derive(Clone, Debug)]
pub struct Arce {
    model: Model,
    /// What the database is like but for its run limits.
    like: Setting,
}

impl Arce {
    /// Over data and machine of `model`, for a database like `like`.
    pub fn new(model: Model, like: Setting) -> Arce {
        Arce { model, like }
    }

    /// What an operation costs from `tree` on, with these run limits from level 0 on.
    fn price(&self, mix: &Mix, tree: &Tree, limits: &[u32]) -> f64 {
        let mut setting = self.like.clone();
        setting.shape.run_limits = limits.to_vec();
        let mut tree = tree.clone();
        tree.set_shape(setting.shape.clone());
        let memtable = self.model.data.memtable_entries(setting.shape.write_buffer_bytes);
        let load = Load { mix, operations: FLUSHES * memtable / mix.write };
        self.model.ns(mix, &self.model.run(&setting, load, &mut tree))
    }

    /// The cheapest run limits from level 0 on.
    fn choose(&self, mix: &Mix, tree: &Tree) -> Vec<u32> {
        let (depth, ratio) = (tree.depth().max(2), self.like.shape.size_ratio);
        let alike = |runs: u32| vec![runs; depth - 1];
        let mut lazy = alike(ratio);
        lazy[depth - 2] = 1;
        let starts = (1..=ratio).map(alike).chain([lazy]).flat_map(|below| {
            STALLS.map(|stall| [stall].into_iter().chain(below.iter().copied()).collect::<Vec<u32>>())
        });
        let priced = |limits: Vec<u32>| (self.price(mix, tree, &limits), limits);
        let cheaper = |a: &(f64, Vec<u32>), b: &(f64, Vec<u32>)| a.0.total_cmp(&b.0);
        let mut best = starts.map(priced).min_by(cheaper).expect("there are starts");
        for _ in 0..STEPS_MAX {
            let neighbours = (1..depth).flat_map(|level| {
                [-2i64, -1, 1, 2].map(|step| {
                    let mut limits = best.1.clone();
                    limits[level] = (i64::from(limits[level]) + step).clamp(1, ratio.into()) as u32;
                    limits
                })
            });
            let next = neighbours.map(priced).min_by(cheaper).expect("there is a level");
            if next.0 >= best.0 {
                break;
            }
            best = next;
        }
        best.1
    }
}

impl Plan for Arce {
    fn name(&self) -> &'static str {
        "Arce's simulation"
    }

    fn sets(&mut self, window: &Window) -> Vec<Set> {
        let mix = window.mix();
        if mix.write == 0.0 {
            return Vec::new();
        }
        // Of each level the runs' number and their sum are known.
        let runs = |level: &solera_tune::sight::LevelSight| {
            vec![level.entries as f64 / level.runs.max(1) as f64; level.runs as usize]
        };
        let levels: Vec<Vec<f64>> = window.levels.iter().map(runs).collect();
        let stored = self.model.data.stored_bytes(self.like.filter_bits);
        let shape = self.like.shape.clone();
        let limits = self.choose(&mix, &Tree::of(shape, stored, self.model.data.entries, &levels));
        let last = *limits.last().expect("there is a level");
        let of_levels =
            (0..).zip(&limits).map(|(level, limit)| Set::of_level(&knob::RUN_LIMIT, level, limit));
        // The deepest level's holds for those to come.
        [Set::new(&knob::RUN_LIMIT, last)].into_iter().chain(of_levels).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solera::Shape;
    use solera_tune::{cost::Data, world};

    #[test]
    fn it_chooses_few_runs_for_reads_many_for_writes_and_no_dearer_than_any_fixed_arm() {
        let data = Data { entries: 20_000.0, entry_bytes: 1000.0, block_bytes: 4096.0, scan_entries: 1.0 };
        let shape = Shape {
            size_ratio: 10,
            run_limits: vec![4, 1],
            write_buffer_bytes: 16 << 10,
            table_bytes: 64 << 10,
        };
        let like = Setting { shape, filter_bits: 8.0, monkey: false, cache_bytes: 0.0 };
        let model = Model { data, units: world::device() };
        let tree = model.loaded(&like);
        let arce = Arce::new(model, like);
        let mut sums = Vec::new();
        for lookups in [0.95, 0.5, 0.05] {
            let mix = Mix::new([0.0, lookups, 0.0, 1.0 - lookups]).unwrap();
            let chosen = arce.choose(&mix, &tree);
            let price = arce.price(&mix, &tree, &chosen);
            for runs in [1, 5, 10] {
                assert!(price <= arce.price(&mix, &tree, &[4, runs]), "{lookups}: {chosen:?}");
            }
            sums.push(chosen.iter().sum::<u32>());
        }
        assert!(sums.is_sorted() && sums[0] < sums[2], "{sums:?}");
    }
}
