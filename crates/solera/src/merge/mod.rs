//! Many sorted sources as one.
//!
//! Owns [`Merge`], which walks the entries of several sources in one order, the walkers in [`visible`],
//! which show what a reader may see of them, and [`resolve()`], which folds merge operands. Iterators use
//! the walkers, compaction the bare merge, lookups `resolve`.
//!
//! What must hold: sources are ranked by age, the newest first, and every version of a key in a newer
//! source is newer than every version of it in an older one. So the order is (user key, rank, position
//! in the source), and sequence numbers, which may be elided, are never compared between sources.

mod heap;
mod lending;
mod resolve;
pub mod visible;

pub use heap::Merge;
pub use lending::Lending;
pub use resolve::resolve;

#[cfg(test)]
mod tests;
