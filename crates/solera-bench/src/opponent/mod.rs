//! What the papers' agents and the steward are compared with. Each opponent sets run limits.
//!
//! `ecotune`, `arce` and `two_steps` compute all run limits from a model, and `planner` makes
//! agents of those plans. `threshold` follows shares of lookups, `arms` is a bandit, and `search`
//! is Bayesian optimisation. `plain` chooses samples for CAMAL's models in other ways than CAMAL:
//! by a grid, by active learning over the whole space, or by Bayesian optimisation.
//!
//! What must hold: an opponent is shown every mission, and sets knobs by the interface `Agent`, as
//! the papers' agents do. The types of `plain` implement `Sampler` instead.
//!
//! Callers: `paper::lerp`, `paper::camal_dynamic`, `paper::camal_learned`.

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
