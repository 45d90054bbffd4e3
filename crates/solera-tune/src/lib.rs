//! What a shape of the tree costs under a workload on this machine, and which one costs least.
//!
//! Owns the cost model ([`cost`]). It knows the engine through its public face alone, and the engine knows
//! nothing of it.

pub mod cost;
