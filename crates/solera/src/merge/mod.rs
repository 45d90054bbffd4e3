//! Many sorted sources as one.
//!
//! Owns [`Merge`], which walks the entries of several sources in one order, and the walkers in
//! [`visible`], which show what a reader may see of them. Iterators use the walkers, compaction the
//! bare merge.
//!
//! What must hold: sources are ordered by age, the newest first. Every version of a key in a newer
//! source is newer than every version of it in an older one. So the order is (user key, age,
//! position in the source). Sequence numbers may be elided, so the merge never compares them
//! between sources.

mod heap;
pub mod visible;

pub use heap::Merge;

#[cfg(test)]
mod tests;
