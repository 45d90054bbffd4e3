//! Where a separated value lies: `Pointer` has its file, its record's offset, and its length.
//!
//! `sorted` says whether the file is a sorted value file; else it is a log. An entry stores a
//! pointer in place of the value, as three varints: `file << 1 | sorted`, `offset`, `len`.
//!
//! What must hold: `offset` is where the value's record begins; `len` counts the value alone.
//! `decode` fails on all bytes that `encode` does not write (25 at most, `POINTER_BYTES_MAX`). If
//! the entry expires, its expiry lies before the pointer: callers cut it off first.
//!
//! Callers: `engine::{values, open, ingest}` and `values::{writer, file}` make pointers.
//! `tree::read` and `values::files` decode them. `db`, `engine`, `version::pointers`, `values` and
//! `compaction::moves` use decoded ones.

use crate::{
    codec::{DecodeError, Decoder, put_varint},
    ids::FileId,
    key::VALUE_BYTES_MAX,
};
use std::fmt;

/// Most bytes that a pointer takes.
pub const POINTER_BYTES_MAX: usize = 10 + 10 + 5;

/// Where a value lies: its file and its record there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pointer {
    /// The file's number.
    pub file: FileId,
    /// Where the record begins in the file, in bytes.
    pub offset: u64,
    /// Length of the value, in bytes.
    pub len: u32,
    /// Whether the file is a sorted value file; else it is a log.
    pub sorted: bool,
}

impl Pointer {
    /// The pointer's bytes, appended.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(self.file.0 <= u64::MAX >> 1, "file numbers count from 1");
        put_varint(out, self.file.0 << 1 | u64::from(self.sorted));
        put_varint(out, self.offset);
        put_varint(out, self.len.into());
    }

    /// Reads the bytes that [`Pointer::encode`] wrote, all of them.
    pub fn decode(bytes: &[u8]) -> Result<Pointer, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        let file = decoder.varint("the file of a value")?;
        let offset = decoder.varint("the offset of a value")?;
        let len = decoder.varint_up_to(VALUE_BYTES_MAX, "the length of a value")? as u32;
        decoder.finish("the end of a pointer")?;
        Ok(Pointer { file: FileId(file >> 1), offset, len, sorted: file & 1 == 1 })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.sorted { "values" } else { "log" };
        write!(f, "{} bytes at {} of {kind} {}", self.len, self.offset, self.file)
    }
}
