//! Keeping the tree in shape.
//!
//! Deciding and doing never share a function. Decided, purely: [`Shape`] says what is wanted, [`score()`]
//! which level needs it, [`pick()`] (or a requested [`Sweep`]) what to do next: a [`Plan`], which prints;
//! [`LevelFilters`] which filters the tables get that are written; and [`entrance()`] where tables from outside
//! belong.
//! Done: [`flush`] and [`run`] write tables.

mod cut;
mod entrance;
mod filters;
mod job;
mod patience;
mod pick;
mod plan;
mod retain;
mod score;
mod shape;
mod sweep;
mod transition;

pub use entrance::entrance;
pub use filters::{LevelFilters, resting_level};
pub use job::{JobContext, extent, flush, flushed, run};
pub use patience::{LEVEL0_PATIENCE, LEVEL0_PATIENCE_DEFAULT};
pub use pick::pick;
pub use plan::{InFlight, Plan, Reason, Source, Target, Ticket, count_written};
pub use score::{score, urgency};
pub use shape::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, LEVEL0_RUN_LIMIT_MAX, RUN_LIMIT, SIZE_RATIO, SIZE_RATIO_MAX,
    SIZE_RATIO_MIN, Shape,
};
pub use sweep::{Step, Sweep};
pub use transition::{TRANSITION, Transition, Turn, turns};

#[cfg(test)]
mod retain_tests;
#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod simulation;
