//! What the papers' agents and the steward are held against: other ways to the same knobs.
//!
//! `threshold`, `arms` and `search` turn run limits by what they measure. `ecotune`, `arce` and
//! `two_steps` plan them at once, and `planner` makes agents of those. `plain` samples for CAMAL's
//! models without its guidance.
//!
//! What must hold: an opponent sees what the others see, and sets knobs by the same `Agent`
//! interface. Those of `plain` are `Sampler`s instead.
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
