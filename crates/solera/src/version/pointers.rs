//! The pointers to separated values that a table holds: `each_pointer`, a walk over a table's clip,
//! and `pointer_at`, that of one entry.
//!
//! It hands each pointer to the caller with its key, in the order of the keys, and adds nothing to
//! the cache. An entry that should hold a pointer and does not is damage.
//!
//! What must hold: what it finds in all tables of a version is what `Version::values` counts.
//!
//! Callers: `engine::report` (`Db::verify`) and `inspect`, which compare the counts;
//! `engine::rewrite`, which collects the values of a file; `engine::census` (`pointer_at`).

use super::TableRef;
use crate::{
    cursor::Cursor,
    error::Result,
    key::EXPIRY_BYTES,
    table::Access,
    values::{self, Pointer},
};

/// Hands every pointer in the part of `table` that counts to `each`, with the key that it belongs
/// to.
///
/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) or [`Error::Io`](crate::Error::Io) if the table cannot
/// be read, and what `each` returns.
pub fn each_pointer(table: &TableRef, mut each: impl FnMut(&[u8], Pointer) -> Result<()>) -> Result<()> {
    let mut cursor = table.file().cursor(table.clip(), Access::Sequential)?;
    cursor.seek_first()?;
    while cursor.valid() {
        if cursor.kind().is_separated() {
            each(cursor.key(), pointer_at(&cursor)?)?;
        }
        cursor.next()?;
    }
    Ok(())
}

/// What the entry that `cursor` stands on points to, whose kind says that it does.
///
/// # Errors
/// [`Error::Corrupt`](crate::Error::Corrupt) if it holds no pointer.
pub fn pointer_at(cursor: &impl Cursor) -> Result<Pointer> {
    let moment = if cursor.kind().expires() { EXPIRY_BYTES } else { 0 };
    let stored = cursor.value().get(moment..).unwrap_or_default();
    values::decode(stored, cursor.key())
}
