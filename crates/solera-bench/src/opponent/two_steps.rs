//! AXE's two steps (VLDB 2025; Endure's before it): `TwoSteps`, a `Plan` over mixes and the run
//! limits of three levels.
//!
//! First a network learns a cost model from 200 samples of the cost model (found lookups and
//! updates on a loaded tree). Then it takes the cheapest setting by what was learned.
//!
//! What must hold: the first step is over before the first mission (`new`). The same seed learns
//! the same.
//!
//! Caller: `paper::lerp`, as an opponent.

use super::planner::Plan;
use solera::control::knob;
use solera_tune::{
    agent::Set,
    cost::{Mix, Model, Setting, model::Load},
    learn::{Kind, Random, Regression},
    sight::Window,
};

/// Levels whose run limits are chosen; the last holds for all deeper ones.
const LEVELS: usize = 3;
/// Samples of the cost model.
const SAMPLES: usize = 200;
/// The learned model: a network, as AXE's.
const NETWORK: Kind = Kind::Network { layers: 3, width: 64, epochs: 300, rate: 1e-3 };
/// Operations for each entry over which a sample is priced.
const OVER: f64 = 1.0;

/// The learned model.
#[derive(Clone, Debug)]
pub struct TwoSteps {
    regression: Regression,
    size_ratio: u32,
}

fn features(mix: &Mix, limits: [u32; LEVELS]) -> Vec<f64> {
    // A lookup's part is proportional to runs, a merge's to one over them.
    let of_limits = limits.into_iter().flat_map(|limit| [f64::from(limit), 1.0 / f64::from(limit)]);
    mix.shares().into_iter().chain(of_limits).collect()
}

impl TwoSteps {
    /// Learns from samples of lookups and updates on databases like `like`.
    pub fn new(model: &Model, like: &Setting, seed: u64) -> TwoSteps {
        let mut random = Random::new(seed);
        let size_ratio = like.shape.size_ratio;
        let (mut rows, mut costs) = (Vec::new(), Vec::new());
        for _ in 0..SAMPLES {
            let lookups = 0.02 + 0.96 * random.unit();
            let mix = Mix { absent: 0.0, found: lookups, scan: 0.0, write: 1.0 - lookups };
            let limits: [u32; LEVELS] = std::array::from_fn(|_| 1 + random.below(size_ratio as usize) as u32);
            let mut setting = like.clone();
            setting.shape.run_limits = [like.shape.run_limit(0)].into_iter().chain(limits).collect();
            let mut tree = model.loaded(&setting);
            let load = Load { mix: &mix, operations: OVER * model.data.entries };
            let cost = model.run(&setting, load, &mut tree);
            rows.push(features(&mix, limits));
            costs.push(model.ns(&mix, &cost));
        }
        // Each counts by one over its cost: a share of it is what matters.
        let mean = costs.iter().sum::<f64>() / costs.len() as f64;
        let weights: Vec<f64> = costs.iter().map(|cost| mean / cost).collect();
        TwoSteps { regression: Regression::learn(NETWORK, &rows, &costs, &weights, seed), size_ratio }
    }

    fn choose(&self, mix: &Mix) -> [u32; LEVELS] {
        let all = 1..=self.size_ratio;
        let choices = all.clone().flat_map(|first| {
            let all = all.clone();
            all.clone().flat_map(move |second| all.clone().map(move |third| [first, second, third]))
        });
        let priced = choices.map(|limits| (self.regression.predict(&features(mix, limits)), limits));
        priced.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there is a choice").1
    }
}

impl Plan for TwoSteps {
    fn name(&self) -> &'static str {
        "AXE's two steps"
    }

    fn sets(&mut self, window: &Window) -> Vec<Set> {
        let limits = self.choose(&window.mix());
        let all = Set::new(&knob::RUN_LIMIT, limits[LEVELS - 1]);
        let of_levels = (1..).zip(limits).map(|(level, limit)| Set::of_level(&knob::RUN_LIMIT, level, limit));
        [all].into_iter().chain(of_levels).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use solera::Shape;
    use solera_tune::{cost::Data, world};

    #[test]
    fn what_it_learns_from_samples_wants_fewer_runs_the_more_is_read() {
        let data = Data { entries: 5_000.0, entry_bytes: 1000.0, block_bytes: 4096.0, scan_entries: 1.0 };
        let shape = Shape {
            size_ratio: 10,
            run_limits: vec![4, 1],
            write_buffer_bytes: 8 << 10,
            table_bytes: 64 << 10,
        };
        let like = Setting { shape, filter_bits: 8.0, monkey: false, cache_bytes: 0.0 };
        let learned = TwoSteps::new(&Model { data, units: world::device() }, &like, 1);
        let of = |lookups: f64| {
            let mix = Mix { absent: 0.0, found: lookups, scan: 0.0, write: 1.0 - lookups };
            learned.choose(&mix).iter().sum::<u32>()
        };
        assert!(of(0.95) < of(0.05), "{} {}", of(0.95), of(0.05));
    }
}
