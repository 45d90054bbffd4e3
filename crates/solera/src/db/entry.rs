//! A value and what is stored with it.
//!
//! Owns [`Entry`], which lookups give to those who ask for the expiry too.

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
