//! The cost model: closed forms, the engine's own behaviour, and the machine's unit costs.
//!
//! - `mix`: what is asked, as shares of operations. `units`: what a step takes on a machine;
//!   `probe` measures that in two seconds.
//! - `forms`: the papers' closed forms, as corrected in docs/PAPERS.md: where to begin to look.
//! - `tree` and `reads`: this engine's tree, run by run, as an expectation over random keys.
//!   docs/decisions/0006 and 0012 say how it differs from the papers' tree.
//! - `model` prices operations in blocks and in time; `choose` finds the cheapest setting.
//!
//! Callers: `solera cost`; the agents `steward`, `camal`, `lerp` and `doblix`; `attach` (`probe`);
//! `sight` and `world` (`Mix`, `Units`); the pages and opponents of `solera-bench`.

pub mod lambert;
pub mod mix;
pub mod forms;
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
