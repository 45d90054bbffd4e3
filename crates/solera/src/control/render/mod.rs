//! An observation as text that other programs read.
//!
//! Owns [`Observation::to_json`](super::Observation::to_json) and
//! [`Observation::to_prometheus`](super::Observation::to_prometheus). The command line, servers and
//! bindings all print what these give, so that a number has one name everywhere. What must hold:
//! every number of an observation is in both texts, a name is never given to another number, and
//! its unit is in the name.

mod json;
mod prometheus;
