//! What a database does, seen window by window.
//!
//! `Window` is what happened between two observations, `Watch` cuts time into windows and says
//! which are not to be judged. `Contexts` give alike workloads one number; `Goal` is what a window
//! is measured by.
//!
//! What must hold: a window is all that a decision is made from. One that may be judged can be
//! written down and read back without loss. One with a number that is not finite is blocked.
//!
//! Callers: `attach::stepper` watches, as does the page `learning` of `solera-bench`. The
//! coordinator, the agents, `solera-bench`'s opponents and pages, and `solera explain` read
//! windows. Those who attach a tuner, `solera-sim` too, give a `Goal`.

pub mod context;
pub mod goal;
pub mod watch;
pub mod window;

pub use context::{Context, Contexts, Traits};
pub use goal::{Goal, Measure, Objective};
pub use watch::{Look, Pace, Watch};
pub use window::{Blocked, LayoutSight, LevelSight, Operations, Setting, Window};

#[cfg(test)]
mod tests;
