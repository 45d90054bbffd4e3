//! The directory of a database: what its files are called, how they begin, and when they go.
//!
//! Owns [`FileName`], which makes and reads every file name of a directory, [`magic`], how each
//! kind of file begins, and [`OwnedFile`], a file that is removed with its last owner.
//!
//! What must hold: a name is ours only in the spelling that we write, and files under other names
//! are left alone. Files of builds before the first release are refused by name, and never changed
//! or removed.

pub mod magic;
mod name;
mod owned;

pub use name::FileName;
pub use owned::OwnedFile;
