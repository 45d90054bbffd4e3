//! The cost model: closed forms, the engine's own behaviour, and the machine's unit costs.
//!
//! - `mix`: what is asked, in shares. `units`: what a machine's steps take; `probe` measures that.
//! - `forms`, with `lambert`: the papers' closed forms, where to begin to look (docs/PAPERS.md).
//! - `skew`: that some keys are used more than others.
//! - `tree`: this engine's tree, run by run, as an expectation over random keys.
//!   docs/decisions/0006 and 0012 say how it differs from the papers' tree.
//! - `reads`: what lookups and scans read of that tree.
//! - `model` prices operations in blocks and in time; `choose` finds the cheapest setting.
//!
//! What must hold: only `probe` looks at a clock or a file. All else is a function of its numbers.
//!
//! Callers: `solera cost`; the agents `steward`, `camal`, `lerp`, `doblix`, and `agent::make`. Also
//! `attach` (`probe`, `Units`), `sight` (`Mix`), `world` (`Mix`, `Units`), and the pages and
//! opponents of `solera-bench`.

pub mod lambert;
pub mod mix;
pub mod forms;
pub mod skew;
pub mod tree;
pub mod reads;
pub mod units;
pub mod model;
pub mod choose;
pub mod probe;

pub use choose::{Budget, Candidate, Choice, Family, SIZE_RATIO_MAX, choose};
pub use mix::Mix;
pub use model::{Cost, Data, Model, Setting, Term};
pub use units::Units;
