//! An observation as text that other programs read: `json` (`Observation::to_json`), `prometheus`
//! (`to_prometheus`).
//!
//! What must hold: all counts, sizes, times and settings of an observation are in both texts, under
//! names with units. The numbers of keyspaces are in neither, the window is in JSON alone. A name
//! is never given to another number.
//!
//! Callers: the command line, servers and bindings all print what these give, so that a number has
//! one name everywhere.

mod json;
mod prometheus;
