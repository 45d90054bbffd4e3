//! The commands of `solera`, a file or a directory for each; `completions` has `man` too.
//!
//! A command is a struct of arguments with a method `run`, which gives an `Outcome` or a `Failure`.
//! `paper` and `space` are commands of `bench`. `scratch` and `tuning` are no commands: several
//! share them.
//!
//! What must hold: a command uses the engine and the other crates through their public faces alone.
//!
//! Caller: `main`, which chooses one.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod checkpoint;
pub(crate) mod compact;
pub(crate) mod completions;
pub(crate) mod control;
pub(crate) mod cost;
pub(crate) mod del;
pub(crate) mod dump;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod keyspace;
pub(crate) mod levels;
pub(crate) mod load;
pub(crate) mod paper;
pub(crate) mod put;
pub(crate) mod scan;
mod scratch;
mod space;
pub(crate) mod stats;
pub(crate) mod trace;
pub(crate) mod tune;
pub(crate) mod tuning;
