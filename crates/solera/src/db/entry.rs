//! A value and what is stored with it: `Entry`, the value of a key and the moment at which it
//! expires.
//!
//! The moment is Unix milliseconds, or none. The value is a `Slice`, so it shares the memory that
//! it lies in.
//!
//! What must hold: an `Entry` is given only for a key that has not expired at the time of the read.
//! A value folded from operands has no moment.
//!
//! Callers: `Keyspace::get_entry` and `Snapshot::get_entry` give one to applications;
//! `db::compound` reads one for `set_expiry`.

use crate::pin::Slice;

/// The value of a key, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The value.
    pub value: Slice,
    /// The moment from which the key is absent, in Unix milliseconds; `None`: the value does not
    /// expire. A value that merge operands were folded into has no moment of its own.
    pub expires_ms: Option<u64>,
}
