//! The cost model in three layers, from the papers' closed forms to this machine's time.
//!
//! - [`forms`]: the papers' closed forms as corrected in docs/PAPERS.md. They say where the least
//!   cost lies, at once.
//! - [`tree`] and [`reads`]: the tree that this engine keeps, run by run, as the expectation over
//!   random keys. They hold how the engine differs from the papers' tree (docs/decisions/0006,
//!   0012).
//! - [`model`] and [`mod@choose`]: what an operation costs in blocks and, by [`units`], in time;
//!   and the cheapest setting.
//!
//! What must hold: each layer is usable without the next.
//! Callers: `solera cost`, the agents `steward`, `camal` and `lerp`, and `solera-bench`.

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
