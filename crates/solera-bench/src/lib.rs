//! Workloads, measurement and reports for Solera: `run`, which `solera bench` runs, and `paper`,
//! which repeats papers. `opponent` has rival tuners for `paper`.
//!
//! `run` loads each data set into one database for each index kind; the pairs come in random order.
//! It checks every pair, then measures reads and scans in interleaved repeats, so that a machine
//! that drifts drifts for all. A `Report` prints itself as text, JSON and a web page.
//!
//! What must hold: probes and expected values are laid out before the clock starts. Every point
//! read of `run` is checked inside the timed loop, a scan at both ends. One wrong answer fails the
//! run. Throughput loops do not read the clock for each operation.
//!
//! Callers: `solera bench` and `solera bench paper` in `solera-cli`, where `explain` and `output`
//! use parts of `report` and `paper` too. `solera-bench-peers` measures Solera and other engines by
//! the same workloads and loops.

pub mod random;
pub mod zipf;
pub mod packed;
pub mod data;
pub mod probes;
pub mod measure;
pub mod machine;
pub mod report;
pub mod opponent;
mod arm;
mod runner;
pub mod paper;

pub use data::{Family, Keys};
pub use machine::Machine;
pub use report::{
    ArmReport, EngineFacts, Load, Phase, PhaseReport, Report, SetReport, Settings, Size, Spread,
};
pub use runner::{Config, Error, Generated, Progress, Result, run};
