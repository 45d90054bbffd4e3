//! What users did, as a compact record that can be done again elsewhere: `Record`, `Operation`,
//! `Recorder`, `read`. The comment of `Record` has the bytes.
//!
//! A trace file holds kinds, names of keyspaces, keys, lengths and times to a microsecond, and no
//! value. Keys may be replaced by hashes of 8 bytes, whose secret is forgotten with the recording.
//! Then equal keys are equal still, but their order is lost. Names and lengths stay as they are.
//!
//! What must hold: an operation that is recorded waits for no disk and fails for none. Ingests,
//! flushes and compactions are not recorded. What does not fit into the recorder's memory is left
//! out and counted.
//! Callers: `engine::tracing` hands operations over, `control::trace` begins and ends a recording;
//! `solera load`, `solera bench` and `solera-bench` ask for one; `solera trace` and `fuzz` read.

mod reader;
mod recorder;

pub use reader::{Ending, Traced, read};
pub use recorder::{Recorded, TRACE_BYTES_MIN, TraceOptions};
pub(crate) use recorder::{Recorder, start};

use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_end, put_varint},
    dir::magic,
    frame::FileKind,
    key::{KEY_BYTES_MAX, VALUE_BYTES_MAX},
};

/// Trace files.
const FILE_KIND: FileKind = FileKind { magic: magic::TRACE, version: 1, noun: "trace", reserves: false };
/// The flag of frames whose keys are hashes.
const HASHED: u8 = 1;

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation<'k> {
    /// From here on the number stands for the keyspace of this name.
    Keyspace {
        /// The number: a keyspace that was dropped and made anew has another.
        keyspace: u32,
        /// The name.
        name: &'k str,
    },
    /// A point lookup.
    Lookup {
        /// Where.
        keyspace: u32,
        /// The key.
        key: &'k [u8],
        /// Whether it had a value.
        found: bool,
    },
    /// An end of an iterator that was placed, moved, and then placed anew or dropped.
    Scan {
        /// Where.
        keyspace: u32,
        /// Where it was placed: at the first entry at or above this key, or, if it moved down, at
        /// the last one below it, and the last of all if this is empty.
        key: &'k [u8],
        /// Entries that it came to.
        entries: u64,
        /// Whether it moved down.
        backward: bool,
    },
    /// A value set.
    Put {
        /// Where.
        keyspace: u32,
        /// The key.
        key: &'k [u8],
        /// Bytes of the value.
        value_len: u64,
        /// Whether it had a time to live.
        expires: bool,
    },
    /// A key removed.
    Delete {
        /// Where.
        keyspace: u32,
        /// The key.
        key: &'k [u8],
    },
    /// A range removed. Where keys are hashes, nothing says which keys were in it.
    DeleteRange {
        /// Where.
        keyspace: u32,
        /// Its first key.
        start: &'k [u8],
        /// The first key behind it.
        end: &'k [u8],
    },
    /// An operand merged.
    Merge {
        /// Where.
        keyspace: u32,
        /// The key.
        key: &'k [u8],
        /// Bytes of the operand.
        operand_len: u64,
    },
    /// The next so many writes were one batch, or the commit of a transaction.
    Batch {
        /// How many: 2 or more.
        writes: u64,
    },
    /// So many operations are missing here: those that did not fit into the recorder's memory, or
    /// that could not be written to the file.
    Dropped {
        /// How many.
        operations: u64,
    },
    /// The keyspace and its data were dropped.
    DropKeyspace {
        /// Which.
        keyspace: u32,
    },
}

impl Operation<'_> {
    /// Whether it is something that users do: not a name, a bracket or a gap.
    pub fn is_done(&self) -> bool {
        !matches!(self, Operation::Keyspace { .. } | Operation::Batch { .. } | Operation::Dropped { .. })
    }

    /// Whether it can be part of a batch.
    pub fn is_write(&self) -> bool {
        use Operation::{Delete, DeleteRange, Merge, Put};
        matches!(self, Put { .. } | Delete { .. } | DeleteRange { .. } | Merge { .. })
    }

    /// The number of its keyspace, if it has one.
    pub fn keyspace(&self) -> Option<u32> {
        match *self {
            Operation::Keyspace { keyspace, .. }
            | Operation::Lookup { keyspace, .. }
            | Operation::Scan { keyspace, .. }
            | Operation::Put { keyspace, .. }
            | Operation::Delete { keyspace, .. }
            | Operation::DeleteRange { keyspace, .. }
            | Operation::Merge { keyspace, .. }
            | Operation::DropKeyspace { keyspace } => Some(keyspace),
            Operation::Batch { .. } | Operation::Dropped { .. } => None,
        }
    }
}

/// An operation, and when it was done.
///
/// ```text
/// file     = file header, frames (`frame`), magic `Solera/R`
/// payload  = flags:u8 unix_us:varint record*      flags: 1, keys are hashes; unix_us: what the first record's time is
/// record   = kind:u8 after_us:varint body                                                           counted from
/// ```
///
/// | kind | operation | body |
/// |---|---|---|
/// | 0 | a keyspace has this number from here on | keyspace:varint name:bytes |
/// | 1 | a lookup that found nothing | keyspace:varint key:bytes |
/// | 2 | a lookup that found a value | keyspace:varint key:bytes |
/// | 3 | an iterator placed at or above the key and moved up | keyspace:varint key:bytes entries:varint |
/// | 4 | an iterator placed below the key (none: at the end) and moved down | keyspace:varint key:bytes entries:varint |
/// | 5 | put | keyspace:varint key:bytes value_len:varint |
/// | 6 | put of what expires | keyspace:varint key:bytes value_len:varint |
/// | 7 | delete | keyspace:varint key:bytes |
/// | 8 | range deletion | keyspace:varint start:bytes end:bytes |
/// | 9 | merge | keyspace:varint key:bytes operand_len:varint |
/// | 10 | the next so many writes, all in this frame, were one batch; names may stand between them | writes:varint |
/// | 11 | so many operations were left out here | operations:varint |
/// | 12 | the keyspace was dropped | keyspace:varint |
///
/// `bytes` is a length as a varint, and so many bytes. Names hold beyond their frame; all else of a
/// frame is read by itself. Nothing is synced before the recording ends; then all frames are, and
/// an end says that this is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'k> {
    /// Microseconds after the record before; for the first of a frame after the frame's moment.
    pub after_us: u64,
    /// What was done.
    pub operation: Operation<'k>,
}

impl<'k> Record<'k> {
    /// Appends the record.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let kind = match self.operation {
            Operation::Keyspace { .. } => 0,
            Operation::Lookup { found, .. } => 1 + u8::from(found),
            Operation::Scan { backward, .. } => 3 + u8::from(backward),
            Operation::Put { expires, .. } => 5 + u8::from(expires),
            Operation::Delete { .. } => 7,
            Operation::DeleteRange { .. } => 8,
            Operation::Merge { .. } => 9,
            Operation::Batch { .. } => 10,
            Operation::Dropped { .. } => 11,
            Operation::DropKeyspace { .. } => 12,
        };
        out.push(kind);
        put_varint(out, self.after_us);
        if let Some(keyspace) = self.operation.keyspace() {
            put_varint(out, keyspace.into());
        }
        match self.operation {
            Operation::Keyspace { name, .. } => put_bytes(out, name.as_bytes()),
            Operation::Lookup { key, .. } | Operation::Delete { key, .. } => put_bytes(out, key),
            Operation::Scan { key, entries: number, .. }
            | Operation::Put { key, value_len: number, .. }
            | Operation::Merge { key, operand_len: number, .. } => {
                put_bytes(out, key);
                put_varint(out, number);
            }
            Operation::DeleteRange { start, end, .. } => {
                put_bytes(out, start);
                put_end(out, end);
            }
            Operation::Batch { writes: number } | Operation::Dropped { operations: number } => {
                put_varint(out, number);
            }
            Operation::DropKeyspace { .. } => {}
        }
    }

    /// Reads what [`Record::encode`] wrote.
    ///
    /// # Errors
    /// Where bytes are no record, or name a key or a value over its limit.
    pub fn decode(from: &mut Decoder<'k>) -> Result<Record<'k>, DecodeError> {
        let at = from.clone();
        let kind = from.u8("a kind of operation")?;
        let after_us = from.varint("a time")?;
        let operation = match kind {
            0 => Operation::Keyspace { keyspace: keyspace(from)?, name: name(from)? },
            1 | 2 => Operation::Lookup { keyspace: keyspace(from)?, key: key(from)?, found: kind == 2 },
            3 | 4 => Operation::Scan {
                keyspace: keyspace(from)?,
                key: key(from)?,
                entries: from.varint("a count of entries")?,
                backward: kind == 4,
            },
            5 | 6 => Operation::Put {
                keyspace: keyspace(from)?,
                key: key(from)?,
                value_len: value_len(from)?,
                expires: kind == 6,
            },
            7 => Operation::Delete { keyspace: keyspace(from)?, key: key(from)? },
            8 => Operation::DeleteRange {
                keyspace: keyspace(from)?,
                start: key(from)?,
                end: from.end("the end of a range")?,
            },
            9 => {
                Operation::Merge { keyspace: keyspace(from)?, key: key(from)?, operand_len: value_len(from)? }
            }
            10 => Operation::Batch { writes: from.varint("a count of writes")? },
            11 => Operation::Dropped { operations: from.varint("a count of operations")? },
            12 => Operation::DropKeyspace { keyspace: keyspace(from)? },
            _ => return at.fail("a known kind of operation"),
        };
        Ok(Record { after_us, operation })
    }
}

fn keyspace(from: &mut Decoder<'_>) -> Result<u32, DecodeError> {
    Ok(from.varint_up_to(u32::MAX.into(), "a keyspace")? as u32)
}

fn name<'k>(from: &mut Decoder<'k>) -> Result<&'k str, DecodeError> {
    let at = from.clone();
    std::str::from_utf8(from.bytes("a keyspace's name")?).or_else(|_| at.fail("a name in UTF-8"))
}

fn key<'k>(from: &mut Decoder<'k>) -> Result<&'k [u8], DecodeError> {
    let at = from.clone();
    let key = from.bytes("a key")?;
    // An iterator may begin right behind the longest key.
    if key.len() > KEY_BYTES_MAX + 1 { at.fail("a key of legal length") } else { Ok(key) }
}

fn value_len(from: &mut Decoder<'_>) -> Result<u64, DecodeError> {
    from.varint_up_to(VALUE_BYTES_MAX, "the length of a value")
}

#[cfg(test)]
mod tests;
