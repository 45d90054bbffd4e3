//! The directory of a database: what its files are called, how they begin, and when they go.
//!
//! `FileName` makes and reads every file name of a directory, and `magic` says how each kind of
//! file begins. An `OwnedFile` is removed with its last owner.
//!
//! What must hold: a name is ours only in the spelling that we write, and files under other names
//! are left alone. Files of builds before the first release are refused by name, and never changed
//! or removed.
//!
//! Callers: `wal`, `values`, `table`, `version::manifest`, `compaction::moves`, `engine`,
//! `control::publish` and `db::compound` name files by it; `trace` takes its magic. `inspect` and
//! `engine::open` list directories. `solera-cli`, `solera-sim`, `solera-bench` and `fuzz` name
//! files too.

pub mod magic;
mod name;
mod owned;

pub use name::FileName;
pub use owned::OwnedFile;
