//! What a database does, seen window by window.
//!
//! Owns [`Window`], what happened between two observations as plain numbers; [`Watch`], which cuts
//! time into windows and says which of them are not to be judged; [`Contexts`], which gives
//! workloads that are alike one number; and [`Goal`], what a window is measured by.
//!
//! What must hold: a window is all that anybody decides from, it can be written down and read back
//! without loss, and no number in it is other than finite.

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
