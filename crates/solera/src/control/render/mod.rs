//! An observation as text that other programs read: `json` (`Observation::to_json`), `prometheus`
//! (`to_prometheus`).
//!
//! What must hold: every number of an observation is in both texts, under a name that has its unit.
//! A name is never given to another number.
//!
//! Callers: the command line, servers and bindings all print what these give, so that a number has
//! one name everywhere.

mod json;
mod prometheus;
