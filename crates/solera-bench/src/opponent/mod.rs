//! Rival tuners, with which the papers' agents and the steward are compared.
//!
//! All but `plain` are agents that set run limits. `ecotune`, `arce` and `two_steps` compute those
//! of a whole tree from a model; `planner` makes agents of them. `threshold` follows shares of
//! lookups, `arms` is a bandit, `search` is Bayesian optimisation. `plain` has samplers for CAMAL's
//! models: they choose what to measure, over all of CAMAL's knobs.
//!
//! What must hold: an agent here sees every mission and sets knobs through `Agent`, as the papers'
//! agents do. The types of `plain` implement `Sampler`.
//!
//! Callers: `paper::{lerp, camal_dynamic}` run the agents; `paper::camal_learned` runs `plain`.

pub mod planner;
pub mod arce;
pub mod arms;
pub mod ecotune;
pub mod plain;
pub mod search;
pub mod threshold;
pub mod two_steps;

pub use arce::Arce;
pub use arms::Arms;
pub use ecotune::EcoTune;
pub use plain::{Bayes, Grid, PlainActive};
pub use planner::{Plan, Planner};
pub use search::Search;
pub use threshold::Threshold;
pub use two_steps::TwoSteps;
