//! The pointers that a table holds.
//!
//! Owns [`each_pointer`], a walk over the separated entries of a table's clip: what the counts of a
//! version ([`Version::values`](super::Version::values)) must agree with.

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
        let kind = cursor.kind();
        if kind.is_separated() {
            let moment = if kind.expires() { EXPIRY_BYTES } else { 0 };
            let stored = cursor.value().get(moment..).unwrap_or_default();
            each(cursor.key(), values::decode(stored, cursor.key())?)?;
        }
        cursor.next()?;
    }
    Ok(())
}
