//! What tries to break Solera: scripts, oracles, faults and judges, and the programs that run them.
//!
//! The engine takes its files, its clock and its randomness by argument, so a whole database life
//! is a function of a seed. The modules stand bottom to top. `script` and `oracle` open no
//! database; `tell` says a script's words to engine and oracle. `life`, `crash`, `faults`,
//! `isolation` and `victim` live databases and judge them; `image` and `forge` make what is
//! damaged. `program` is what `solera-sim` runs. `layers` and `pages` check the source itself.
//!
//! What must hold: a module uses only those above it in the list. A failure names a seed, or prints
//! a script, that repeats it where threads do not decide.
//!
//! Callers: `main.rs`, this crate's tests and example, and the fuzz targets.

pub mod random;
pub mod digest;
pub mod script;
pub mod setting;
pub mod oracle;
pub mod tell;
pub mod tuning;
pub mod tuner;
pub mod life;
pub mod crash;
pub mod image;
pub mod faults;
pub mod isolation;
pub mod forge;
pub mod victim;
pub mod program;
pub mod layers;
pub mod pages;
