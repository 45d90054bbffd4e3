//! The papers' closed forms, as corrected in docs/PAPERS.md: `camal` and `ruskey`, pure functions
//! in the papers' terms.
//!
//! Levels count from 1. Level i holds (M_b/E)(T−1)Tⁱ⁻¹ entries. A Bloom filter's false positives
//! are e^(−c bits), where `BLOOM_EXPONENT` is c, and `BLOOM_EXPONENT_AS_PRINTED` CAMAL's.
//!
//! What must hold: this is not this engine's tree (that is `cost::tree`). What is found here is
//! where to begin to look.
//!
//! Callers: `cost::choose`, the agents `camal` and `lerp`; the pages `camal` and `camal_learned`
//! and the opponent `ecotune` of `solera-bench`.

pub mod camal;
pub mod ruskey;

/// c of a Bloom filter: false positives are e^(−c h) at h bits per key. (ln 2)²; CAMAL writes 1
/// (docs/PAPERS.md, "CAMAL: the exponent of a Bloom filter").
pub const BLOOM_EXPONENT: f64 = std::f64::consts::LN_2 * std::f64::consts::LN_2;
/// c as CAMAL prints it.
pub const BLOOM_EXPONENT_AS_PRINTED: f64 = 1.0;
