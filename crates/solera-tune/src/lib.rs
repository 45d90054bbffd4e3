//! What a shape of the tree costs under a workload on this machine, which one costs least, and what
//! keeps a database in it.
//!
//! From bottom to top: `learn` and `cost` compute, `sight` cuts windows, an `agent` proposes, the
//! `coordinator` decides, `attach` makes it so. `world` is a counted database to learn in.
//!
//! What must hold: tests apart, a module uses only those named before it. All know the engine
//! through its public face alone, and the engine knows nothing of them.
//!
//! Callers: `solera cost`, `solera explain`, `solera tune replay`, and `--tune` of `solera load`,
//! `solera trace replay` and `solera bench`; `solera-bench` and `solera-sim`. docs/TUNING.md is for
//! users.

pub mod learn;
pub mod cost;
pub mod world;
pub mod sight;
pub mod agent;
pub mod coordinator;
pub mod attach;

pub use attach::{Attach, Stepper, Tuner, attach};
pub use sight::Goal;
