//! The cost model: closed forms, the engine's own behaviour, and the machine's unit costs.
//!
//! Three layers, each usable without the next:
//! * [`forms`]: the papers' closed forms as corrected in docs/PAPERS.md, in the papers' terms. They
//!   say *where* the least cost lies, at once, and why.
//! * [`tree`] and [`reads`]: the tree that this engine keeps, run by run, as the expectation over
//!   random keys. Where the engine differs from the papers' tree (docs/decisions/0006, 0012), this
//!   is where it is written down.
//! * [`model`] and [`mod@choose`]: what an operation costs in blocks and, with the [`units`] of
//!   this machine, in time; and the cheapest setting: the closed form, and its neighbours priced by
//!   the model.

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
