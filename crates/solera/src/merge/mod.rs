//! Many sorted sources as one: `Merge`, all entries in one order, and `visible`, what a reader sees
//! of them.
//!
//! `heap` is the merge; `visible::Forward` and `Backward` walk it for one reader and stand on one
//! pair for each key.
//!
//! What must hold: sources are ordered by age, newest first. Every version of a key in a newer
//! source is newer than every version in an older one. So the order is (user key, age, position in
//! the source). Sequence numbers may be elided, so the merge never compares them between sources.
//!
//! Callers: `tree::scan` makes the walkers (for iterators and folds), `db::{iterator, scout}` walk
//! by them, `compaction::job` uses the bare merge.

mod heap;
pub mod visible;

pub use heap::Merge;

#[cfg(test)]
mod tests;
