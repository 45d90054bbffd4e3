//! The learners: what estimates, predicts and decides from numbers, and knows nothing of databases.
//!
//! - Functions from points: `ridge`, `boost`, `network`, and `regression` over these; `gauss`.
//! - What to do next: `qtable`, `ddpg` (with `replay`) and `bandit`.
//! - What they are made of: `random`, `standard`, `cholesky`, `bits`; `drift` tells of a change.
//!
//! What must hold: the same seed and numbers give the same answer, bit for bit, on every processor.
//! So no learner uses the platform's elementary functions (`elementary` has others), an iteration
//! order that changes, or a sum whose order the compiler chooses. Files test on problems whose
//! answer is known; most compare a run's digest with a fixed value.
//! Numbers that are not finite must not reach a learner: callers look first, and most learners
//! assert it.
//!
//! Callers: the agents `doblix`, `lerp` and `camal`, the steward's `scales`, and opponents and
//! pages of `solera-bench`. `cost`, `sight` and the agent `random` take `elementary` from here.

pub mod bits;
pub mod random;
pub mod standard;
pub mod cholesky;
pub mod ridge;
pub mod boost;
pub mod network;
pub mod regression;
pub mod gauss;
pub mod qtable;
pub mod replay;
pub mod ddpg;
pub mod bandit;
pub mod drift;

pub use bandit::{Bandit, Policy};
pub use boost::{Boost, Boosted};
pub use ddpg::{Ddpg, DdpgOptions, Learned};
pub use drift::{MixShift, PageHinkley, total_variation};
pub use gauss::Process;
pub use network::{Adam, Network, Output};
pub use qtable::{Exploration, QTable};
pub use random::Random;
pub use regression::{Kind, Regression};
pub use replay::{Replay, Transition};
pub use ridge::Ridge;
pub use solera_model::elementary;
pub use standard::Standard;

/// Points of which other libraries were asked, for tests that hold a learner against them: the
/// features of the `i`th.
#[cfg(test)]
fn sample(i: usize) -> Vec<f64> {
    [(37, 101), (53, 97), (71, 89)]
        .map(|(step, modulus)| (i * step % modulus) as f64 / modulus as f64)
        .to_vec()
}

/// The first sixty of them, their values, and how much each counts.
#[cfg(test)]
fn samples() -> (Vec<Vec<f64>>, Vec<f64>, Vec<f64>) {
    let rows: Vec<Vec<f64>> = (0..60).map(sample).collect();
    let value = |row: &Vec<f64>| row[0] * row[1] + if row[2] > 0.5 { 1.0 } else { 0.0 };
    let values = rows.iter().map(value).collect();
    (rows, values, (0..60).map(|i| (1 + i % 3) as f64).collect())
}

/// FNV-1a over the bits of numbers: two runs that have the same digest gave the same numbers.
#[cfg(test)]
fn digest(numbers: impl IntoIterator<Item = f64>) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let bytes = numbers.into_iter().flat_map(|number| number.to_bits().to_le_bytes());
    bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
