//! Blocks, the unit of reading and caching, and the last mile of a lookup.
//!
//! `BlockBuilder` writes a block's bytes, `Block` reads them, `seal` and `open` compress and check
//! them, `BlockSlots` holds a table's cached blocks. `LentEntries` walks one block alone. The
//! comment of `mod format` says what a lookup touches, and what the bytes are.
//!
//! What must hold: a payload is validated once, when it becomes a `Block`. Every later access stays
//! inside it, whatever its bytes. A line or hash index that lies changes no answer.
//!
//! Callers: `table`, which also seals what else it stores. `version`, `tree` and `db` pass
//! `LentEntries` through; `engine::options` takes a `Compression`. `fuzz` and `solera-sim` forge
//! blocks.

mod buckets;
mod build;
mod compression;
/// # What a lookup touches
///
/// A block in memory is one allocation, aligned to cache lines. It begins with two lines of
/// control; the second serves only sequence numbers and prefixes. The payload follows, which begins
/// with the heads. A lookup of an 8-byte key reads the first control line, one or two lines of
/// heads, and the lines of its record. The model in the control says which lines of heads. Where
/// records differ in size the lookup also reads a line of record ends. Everything else that an
/// entry has lies in its record.
///
/// # Format
///
/// Numbers are little-endian. A **stored block** is a body and a trailer:
///
/// | bytes | what |
/// |---|---|
/// | … | body: the payload; or, if compressed, its length as a varint, then the compressed payload |
/// | 1 | codec: the number of a [`Compression`] |
/// | 4 | CRC-32C of body and codec, bound to database, file and offset ([`crate::codec::Binding`]) |
///
/// The **payload** of a data block with `n` entries, in order:
///
/// | bytes | what |
/// |---|---|
/// | 8 n | heads: the 8 bytes of each key after the prefix as a big-endian number (stored little-endian); keys that end before are padded with zeros |
/// | w n | record ends, counted from the start of the records, ascending. Absent (w = 0) if all records have the same size: all values are equally long, and all keys are or have at most 8 bytes after the prefix |
/// | 0–63 | zeros, so that the records begin at a multiple of 64, only if w = 0 and the records' size is a multiple of 64 other than 0 |
/// | h | hash index: buckets of a byte, each the rank of a key's first entry, or 255. A key's is the first of those from number `(hash >> 32) * h >> 32` on, round the end, that was empty when keys were put there in order; `hash` is xxh3's |
/// | … | records |
/// | p | prefix: bytes that all keys begin with; only as many as the heads must skip to reach further into the keys |
/// | 0–255 | note: what the table wrote beside the block |
/// | 40 | footer |
///
/// A **record**:
///
/// | bytes | what |
/// |---|---|
/// | l | length of the key after the prefix; absent (l = 0) if all keys have the same length |
/// | m | meta: `(seqno - base) << 6 \| kind` if kinds are stored, `seqno - base` if not; absent (m = 0) if kinds are not stored and it is 0 in every record |
/// | … | tail: the key after prefix and head |
/// | … | value: up to the record's end |
///
/// The **footer**:
///
/// | at | bytes | what |
/// |---|---|---|
/// | 0 | 8 | slope of the line, a double: ranks per unit of head |
/// | 8 | 8 | intercept of the line, a double: rank at the first head |
/// | 16 | 7 | base: smallest sequence number; 0 if they are elided |
/// | 23 | 1 | m, 0 to 8 |
/// | 24 | 4 | n, 1 to 2^26 |
/// | 28 | 4 | size of each record if w = 0, else 0 |
/// | 32 | 2 | measured error of the line, in ranks; if there is no line, h: 0 where there is no hash index |
/// | 34 | 2 | p |
/// | 36 | 2 | length of every key after the prefix if l = 0, else 0 |
/// | 38 | 2 | flags, below |
///
/// The **flags**:
///
/// | bits | what |
/// |---|---|
/// | 0–1 | w: 0, 2, 4, 8 as 0, 1, 2, 3 |
/// | 2–3 | l: 0, 1 or 2 |
/// | 4 | kinds are stored; if not, every entry is a `Put` |
/// | 5 | sequence numbers are stored; if not, they are elided |
/// | 6 | there is a line; if not, its bytes are zeros |
/// | 7 | the last key's versions go on in the next block |
/// | 8–15 | length of the note |
///
/// A payload is validated once, when it becomes a [`Block`]: every later access stays inside it,
/// whatever its bytes, and every kind is one. That heads and keys ascend is left to
/// [`Block::check`]: bytes that pass the checksum are those that were written, and a search among
mod format;
mod memory;
mod read;
mod seal;
mod slots;
mod lent_entries;
#[cfg(feature = "zstd")]
mod zstd;
#[cfg(test)]
mod tests;

pub use build::{BlockBuilder, Finished, LastMile, NOTE_BYTES_MAX};
pub use compression::Compression;
pub use lent_entries::LentEntries;
pub use memory::{Block, BlockAllocation, RecordGrid};
pub use seal::{TRAILER_BYTES, open, seal};
pub use slots::{BlockRef, BlockSlots};
