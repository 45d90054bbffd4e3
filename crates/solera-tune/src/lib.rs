//! What a shape of the tree costs under a workload on this machine, which one costs least, and who
//! sees to it that a database is kept in it.
//!
//! The module list is the architecture: it runs bottom to top, and each module may use only those
//! above it in this list. All of it knows the engine through its public face alone, and the engine
//! knows nothing of it. docs/TUNING.md says what a user needs.

pub mod learn;
pub mod cost;
pub mod world;
pub mod sight;
pub mod agent;
pub mod coordinator;
pub mod attach;

pub use attach::{Attach, Stepper, Tuner, attach};
pub use sight::Goal;
