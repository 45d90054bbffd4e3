//! Numbers that name things: `Seqno`, `FileId`, `KeyspaceId`, `RunId`, `DatabaseId`.
//!
//! They live at the bottom, so that a room can speak of a file, a keyspace or a moment without
//! knowing its owner. Each but `Seqno` is a type of its own, made by the macro `id`.
//!
//! What must hold: a sequence number has 56 bits (`SEQNO_MAX`), because it shares a word with the
//! entry's kind. 0 is "before everything", and stands for numbers that were elided.
//!
//! Callers: nearly every room above, `solera-sim` and `fuzz`.

use std::fmt;

/// A position in the commit order. 0 is "before everything" and doubles as the sequence number of
/// entries whose own number no reader can need any more.
pub type Seqno = u64;

/// Largest sequence number: 56 bits, because it shares a word with the entry's kind.
pub const SEQNO_MAX: Seqno = (1 << 56) - 1;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $int:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { write!(f, "{}", self.0) }
        }
    };
}

id!(
    /// A file of the database, never reused within one database.
    FileId, u64
);
id!(
    /// A keyspace, never reused, even after the keyspace is dropped.
    KeyspaceId, u32
);
id!(
    /// A run. Within a level, a larger id is a newer run.
    RunId, u64
);
id!(
    /// A database; random, written once when the database is created, copied by checkpoints.
    DatabaseId, u64
);
