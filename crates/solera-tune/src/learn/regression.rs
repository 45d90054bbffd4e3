//! A function learned from points: `Regression`, by one of three kinds (`Kind`): straight, trees, a
//! network.
//!
//! `learn` fits one to weighted points, `predict` gives its value at another. CAMAL §7 compares the
//! three; a caller that uses one need not know which. `ridge`, `boost` and `network` do the work.
//!
//! What must hold: there is a point at least. `seed` is for the network's first weights and order.
//!
//! Callers: `agent::camal::learned`, and the opponent `two_steps` of `solera-bench`.

use super::{
    boost::{Boost, Boosted},
    network::{Adam, Network, Output, Trace},
    random::Random,
    ridge::{self, Ridge},
    standard::Standard,
};

/// How a function is learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// As a weighted sum of the features, with this penalty.
    Straight {
        /// What the squared coefficients cost.
        penalty: f64,
    },
    /// By boosted trees.
    Trees(Boost),
    /// By a network with hidden layers of this width, so many epochs long.
    Network {
        /// Hidden layers.
        layers: usize,
        /// Units of each.
        width: usize,
        /// How often each point is seen.
        epochs: usize,
        /// Adam's rate.
        rate: f32,
    },
}

/// A function that was learned.
#[derive(Clone, Debug)]
pub struct Regression {
    learned: Learned,
}

#[derive(Clone, Debug)]
enum Learned {
    Straight(Vec<f64>),
    Trees(Boosted),
    Network { network: Network, features: Vec<Standard>, value: Standard },
}

/// Points that the network sees between two steps.
const BATCH: usize = 16;

impl Regression {
    /// Learns from points: `rows` of features, their values, and how much each counts. There is at
    /// least one. `seed` is for the network's first weights and the order of points.
    pub fn learn(kind: Kind, rows: &[Vec<f64>], values: &[f64], weights: &[f64], seed: u64) -> Regression {
        assert!(!rows.is_empty() && rows.len() == values.len() && rows.len() == weights.len());
        let learned = match kind {
            Kind::Straight { penalty } => {
                let mut ridge = Ridge::new(rows[0].len(), penalty);
                for ((row, value), weight) in rows.iter().zip(values).zip(weights) {
                    ridge.add(row, *value, *weight);
                }
                Learned::Straight(ridge.solve())
            }
            Kind::Trees(boost) => Learned::Trees(boost.grow(rows, values, weights)),
            Kind::Network { layers, width, epochs, rate } => {
                let sizes: Vec<usize> = [rows[0].len()]
                    .into_iter()
                    .chain(std::iter::repeat_n(width, layers))
                    .chain([1])
                    .collect();
                network(&sizes, epochs, rate, Points { rows, values, weights }, seed)
            }
        };
        Regression { learned }
    }

    /// The function's value at a point.
    pub fn predict(&self, row: &[f64]) -> f64 {
        match &self.learned {
            Learned::Straight(coefficients) => ridge::value(coefficients, row),
            Learned::Trees(boosted) => boosted.predict(row),
            Learned::Network { network, features, value } => {
                let y = f64::from(network.forward(&scores(features, row))[0]);
                value.mean() + y * spread(value)
            }
        }
    }
}

struct Points<'a> {
    rows: &'a [Vec<f64>],
    values: &'a [f64],
    weights: &'a [f64],
}

fn scores(features: &[Standard], row: &[f64]) -> Vec<f32> {
    features.iter().zip(row).map(|(standard, x)| standard.score(*x) as f32).collect()
}

/// What one of the network's units of output is.
fn spread(value: &Standard) -> f64 {
    if value.deviation() > 0.0 { value.deviation() } else { 1.0 }
}

fn network(sizes: &[usize], epochs: usize, rate: f32, points: Points<'_>, seed: u64) -> Learned {
    let mut features = vec![Standard::of_all(); sizes[0]];
    let mut value = Standard::of_all();
    for (row, y) in points.rows.iter().zip(points.values) {
        features.iter_mut().zip(row).for_each(|(standard, x)| standard.see(*x));
        value.see(*y);
    }
    let inputs: Vec<Vec<f32>> = points.rows.iter().map(|row| scores(&features, row)).collect();
    let weight_mean = points.weights.iter().sum::<f64>() / points.weights.len() as f64;
    let mut random = Random::new(seed);
    let mut network = Network::new(sizes, Output::Linear, 0.1, &mut random);
    let (mut adam, mut trace) = (Adam::new(&network, rate), Trace::default());
    let mut gradient = network.no_gradient();
    let mut order: Vec<usize> = (0..inputs.len()).collect();
    for _ in 0..epochs {
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last + 1));
        }
        for batch in order.chunks(BATCH) {
            gradient.clear();
            for &point in batch {
                network.trace(&inputs[point], &mut trace);
                let wanted = (points.values[point] - value.mean()) / spread(&value);
                let weight = points.weights[point] / weight_mean;
                let error = 2.0 * (f64::from(trace.output()[0]) - wanted) * weight;
                network.backward(&trace, &[error as f32], &mut gradient);
            }
            adam.step(&mut network, &gradient, 1.0 / batch.len() as f32);
        }
    }
    Learned::Network { network, features, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 3] = [
        Kind::Straight { penalty: 1e-6 },
        Kind::Trees(Boost { rounds: 100, depth: 6, rate: 0.3, penalty: 1.0, leaf_weight_min: 1.0 }),
        Kind::Network { layers: 3, width: 24, epochs: 200, rate: 3e-3 },
    ];

    #[test]
    fn each_kind_learns_a_plane() {
        let mut random = Random::new(6);
        let rows: Vec<Vec<f64>> = (0..200).map(|_| vec![1.0, random.unit(), random.unit()]).collect();
        let law = |row: &[f64]| 50.0 + 30.0 * row[1] - 20.0 * row[2];
        let values: Vec<f64> = rows.iter().map(|row| law(row)).collect();
        for kind in KINDS {
            let learned = Regression::learn(kind, &rows, &values, &vec![1.0; rows.len()], 1);
            let errors = (0..100).map(|_| {
                let row = [1.0, random.unit(), random.unit()];
                (learned.predict(&row) - law(&row)).abs()
            });
            let mean = errors.sum::<f64>() / 100.0;
            assert!(mean < 1.5, "{kind:?}: {mean}");
        }
    }

    #[test]
    fn one_point_is_what_every_kind_says() {
        for kind in KINDS {
            let learned = Regression::learn(kind, &[vec![1.0, 2.0]], &[7.0], &[1.0], 1);
            assert!((learned.predict(&[1.0, 2.0]) - 7.0).abs() < 0.2, "{kind:?}");
        }
    }
}
