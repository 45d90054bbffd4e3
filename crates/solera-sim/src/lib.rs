//! What tries to break Solera.
//!
//! The engine takes its files, its clock and its randomness by argument, so a whole database life
//! is a function of a seed. The rooms, bottom to top:

pub mod random;
pub mod digest;
pub mod script;
pub mod setting;
pub mod oracle;
pub mod tell;
pub mod tuning;
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
