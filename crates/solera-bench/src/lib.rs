//! Workloads, measurement and reports for Solera: what `solera bench` runs.
//!
//! [`run`] loads each data set once per index kind, in random order, into a database of its own in
//! a temporary directory; checks every pair; and then measures found reads (uniform and Zipf),
//! absent reads, scans and the full scan in interleaved repeats: kind after kind within each phase,
//! so that a machine that drifts drifts for all. A [`Report`] is plain data; it prints itself as
//! text, JSON and a web page.
//!
//! **What is promised.** Probe keys and expected values are laid out before the clock starts, in
//! the order of use. Every read is checked inside the timed loop: a found read must return the very
//! value that was written, an absent one nothing; one wrong answer fails the run. Throughput loops
//! do not read the clock per operation; percentiles come from a separate pass that does, and the
//! clock's own cost is reported.
//!
//! The workloads and the timed loops are public, so that other engines can be measured with the
//! very same.

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
