//! An observation as text that other programs read: `json` (`Observation::to_json`), `prometheus`
//! (`to_prometheus`).
//!
//! What must hold: all counts, sizes, times and settings of an observation are in both texts, under
//! names with units. Keyspaces go by their names, never by their numbers. The window is in JSON
//! alone. A name is never given to another number.
//!
//! Callers: `solera control watch`, and applications such as servers and bindings. They print what
//! these give, so that a number has one name everywhere.

mod json;
mod prometheus;
