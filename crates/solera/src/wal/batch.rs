//! What one record of the log says, a batch: `BatchEncoder`, `BatchReader` and `Operation`. A batch
//! in memory is the same bytes (docs/FORMAT.md, "4. The log"). The encoder collects puts, deletes,
//! operands and range deletes; `finish` numbers them. `place` fills in the checksums of values that
//! stay in the log, once it is known where the payload will stand. `record_in` says where such a
//! value's record begins.
//! What must hold:
//! - The numbers of `Op` are on disk and never change.
//! - Operation `i` of a batch, from 0, has the sequence number `first_seqno + i`.
//! - A payload with separated values is finished, then placed, then appended.
//!
//! Callers: `db::batch` fills; `engine` commits, applies and replays; `engine::rewrite` writes
//! values again; `engine::{values, reads, tracing}`, `inspect` and `fuzz` read.

use crate::{
    codec::{Binding, DecodeError, Decoder, put_bytes, put_end, put_varint},
    ids::{FileId, KeyspaceId, SEQNO_MAX, Seqno},
    key::{EXPIRY_BYTES, KEY_BYTES_MAX, Kind, VALUE_BYTES_MAX},
    values::record::{self, CHECKSUM_BYTES},
};

const HEADER_BYTES: usize = 12;

/// What an operation of a batch does. The numbers are the log's own, and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Op {
    Delete = 0,
    Put = 1,
    Merge = 2,
    DeleteRange = 3,
    PutExpiring = 4,
    PutSeparated = 5,
    PutExpiringSeparated = 6,
}

impl Op {
    const ALL: [Op; 7] = [
        Op::Delete,
        Op::Put,
        Op::Merge,
        Op::DeleteRange,
        Op::PutExpiring,
        Op::PutSeparated,
        Op::PutExpiringSeparated,
    ];

    /// The operation with this number on disk.
    fn from_u8(byte: u8) -> Option<Op> {
        Op::ALL.into_iter().find(|&op| op as u8 == byte)
    }

    /// The operation that makes an entry of this kind.
    fn of(kind: Kind) -> Op {
        match kind {
            Kind::Delete => Op::Delete,
            Kind::Put => Op::Put,
            Kind::Merge => Op::Merge,
            Kind::PutExpiring => Op::PutExpiring,
            Kind::PutSeparated => Op::PutSeparated,
            Kind::PutExpiringSeparated => Op::PutExpiringSeparated,
        }
    }

    /// The kind of entry that it makes; `None` if it makes none.
    fn kind(self) -> Option<Kind> {
        match self {
            Op::Delete => Some(Kind::Delete),
            Op::Put => Some(Kind::Put),
            Op::Merge => Some(Kind::Merge),
            Op::DeleteRange => None,
            Op::PutExpiring => Some(Kind::PutExpiring),
            Op::PutSeparated => Some(Kind::PutSeparated),
            Op::PutExpiringSeparated => Some(Kind::PutExpiringSeparated),
        }
    }
}

/// Builds a payload. The caller has checked that keys and values are within their limits.
#[derive(Clone, Debug)]
pub struct BatchEncoder {
    bytes: Vec<u8>,
    count: u32,
    /// Operations whose values stay in the log.
    separated: u32,
    /// Operations that delete ranges.
    ranges: u32,
    /// The log where the payload stands, and where in it.
    placed: Option<(FileId, u64)>,
}

impl Default for BatchEncoder {
    fn default() -> Self {
        BatchEncoder::new()
    }
}

impl BatchEncoder {
    /// An empty batch.
    pub fn new() -> Self {
        BatchEncoder { bytes: vec![0; HEADER_BYTES], count: 0, separated: 0, ranges: 0, placed: None }
    }

    /// Sets a value.
    pub fn put(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) {
        self.entry(keyspace, Kind::Put, key, &[value]);
    }

    /// Sets a value that is gone at `expiry_ms`, in Unix milliseconds.
    pub fn put_expiring(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8], expiry_ms: u64) {
        self.entry(keyspace, Kind::PutExpiring, key, &[&expiry_ms.to_be_bytes(), value]);
    }

    /// As [`BatchEncoder::put`]; the value stays in the log, and the entry points to it.
    pub fn put_separated(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8]) {
        self.separated += 1;
        self.entry(keyspace, Kind::PutSeparated, key, &[&[0; CHECKSUM_BYTES], value]);
    }

    /// As [`BatchEncoder::put_expiring`]; the value stays in the log, and the entry points to it.
    pub fn put_expiring_separated(&mut self, keyspace: KeyspaceId, key: &[u8], value: &[u8], expiry_ms: u64) {
        self.separated += 1;
        let stored: [&[u8]; 3] = [&expiry_ms.to_be_bytes(), &[0; CHECKSUM_BYTES], value];
        self.entry(keyspace, Kind::PutExpiringSeparated, key, &stored);
    }

    /// Whether some value stays in the log: then [`place`] must be told where the payload will
    /// stand.
    pub fn has_separated(&self) -> bool {
        self.separated > 0
    }

    /// Removes a key.
    pub fn delete(&mut self, keyspace: KeyspaceId, key: &[u8]) {
        self.entry(keyspace, Kind::Delete, key, &[]);
    }

    /// Merges an operand onto a key.
    pub fn merge(&mut self, keyspace: KeyspaceId, key: &[u8], operand: &[u8]) {
        self.entry(keyspace, Kind::Merge, key, &[operand]);
    }

    /// Removes every key from `start` up to, not including, `end`, which may be
    /// [`END_OF_KEYS`](crate::key::END_OF_KEYS).
    pub fn delete_range(&mut self, keyspace: KeyspaceId, start: &[u8], end: &[u8]) {
        self.ranges += 1;
        self.begin(Op::DeleteRange, keyspace, start);
        put_end(&mut self.bytes, end);
    }

    /// Any entry; the parts make up its value as stored.
    pub fn entry(&mut self, keyspace: KeyspaceId, kind: Kind, key: &[u8], value: &[&[u8]]) {
        self.begin(Op::of(kind), keyspace, key);
        if kind != Kind::Delete {
            put_varint(&mut self.bytes, value.iter().map(|part| part.len() as u64).sum());
            value.iter().for_each(|part| self.bytes.extend_from_slice(part));
        }
    }

    fn begin(&mut self, op: Op, keyspace: KeyspaceId, key: &[u8]) {
        debug_assert!(key.len() <= KEY_BYTES_MAX);
        self.count += 1;
        self.bytes.push(op as u8);
        put_varint(&mut self.bytes, keyspace.0.into());
        put_bytes(&mut self.bytes, key);
    }

    /// Number of operations.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of operations that delete ranges.
    pub fn ranges(&self) -> u32 {
        self.ranges
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Length of the payload in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all operations, keeping the memory.
    pub fn clear(&mut self) {
        self.bytes.truncate(HEADER_BYTES);
        (self.count, self.separated, self.ranges, self.placed) = (0, 0, 0, None);
    }

    /// The payload, its operations numbered from `first_seqno`.
    pub fn finish(&mut self, first_seqno: Seqno) -> &[u8] {
        self.bytes[..8].copy_from_slice(&first_seqno.to_le_bytes());
        self.bytes[8..HEADER_BYTES].copy_from_slice(&self.count.to_le_bytes());
        &self.bytes
    }

    /// The payload will stand at `payload_at` of the log `file` with this binding: fills in the
    /// checksums of values that stay there.
    pub fn place(&mut self, file: FileId, binding: Binding, payload_at: u64) -> Result<(), DecodeError> {
        self.placed = Some((file, payload_at));
        place(&mut self.bytes, binding, payload_at)
    }

    /// Where [`BatchEncoder::place`] was told that the payload stands: the log, and where in it.
    pub fn placed(&self) -> Option<(FileId, u64)> {
        self.placed
    }

    /// The payload as [`BatchEncoder::finish`] left it.
    pub fn payload(&self) -> &[u8] {
        &self.bytes
    }
}

/// Bytes of a stored value before the value itself: its moment, and in the log the checksum of one
/// that stays there.
fn before_value(kind: Kind) -> usize {
    let moment = if kind.expires() { EXPIRY_BYTES } else { 0 };
    moment + if kind.is_separated() { CHECKSUM_BYTES } else { 0 }
}

/// The length of the user's value in what an operation of this kind holds.
pub fn value_len(kind: Kind, stored: &[u8]) -> usize {
    stored.len().saturating_sub(before_value(kind))
}

/// Fills in the checksums of the values that stay in the log, in a payload that will stand at
/// `payload_at` of the log with this binding.
pub fn place(payload: &mut [u8], binding: Binding, payload_at: u64) -> Result<(), DecodeError> {
    let mut sums = Vec::new();
    for numbered in BatchReader::new(payload)? {
        if let (_, Operation::Entry { kind, key, value, .. }) = numbered?
            && kind.is_separated()
        {
            let record = &value[before_value(kind) - CHECKSUM_BYTES..];
            let at = offset_in(payload, record);
            let offset = payload_at + at as u64;
            sums.push((at, record::checksum(binding, offset, key, &record[CHECKSUM_BYTES..])));
        }
    }
    for (at, sum) in sums {
        payload[at..at + CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
    }
    Ok(())
}

/// Where the record of a value that stays in the log begins in the payload, and the value's length.
/// `value` is what the operation, of a separated kind, holds.
pub fn record_in(payload: &[u8], kind: Kind, value: &[u8]) -> (usize, u32) {
    let record = &value[before_value(kind) - CHECKSUM_BYTES..];
    (offset_in(payload, record), (record.len() - CHECKSUM_BYTES) as u32)
}

/// Where `part`, a part of `whole`, begins in it.
fn offset_in(whole: &[u8], part: &[u8]) -> usize {
    let at = part.as_ptr().addr() - whole.as_ptr().addr();
    debug_assert!(at + part.len() <= whole.len());
    at
}

/// One operation of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'b> {
    /// An entry.
    Entry {
        /// Where it belongs.
        keyspace: KeyspaceId,
        /// What it does.
        kind: Kind,
        /// The user key.
        key: &'b [u8],
        /// The value as stored; empty for a delete.
        value: &'b [u8],
    },
    /// Every key from `start` up to, not including, `end` is removed.
    DeleteRange {
        /// Where it belongs.
        keyspace: KeyspaceId,
        /// The first key removed.
        start: &'b [u8],
        /// The first key not removed.
        end: &'b [u8],
    },
}

impl Operation<'_> {
    /// Where the operation belongs.
    #[inline]
    pub fn keyspace(&self) -> KeyspaceId {
        match *self {
            Operation::Entry { keyspace, .. } | Operation::DeleteRange { keyspace, .. } => keyspace,
        }
    }
}

/// Reads a payload. Iterate over it: operations come with their sequence numbers, in order,
/// zero-copy. An error ends the iteration.
#[derive(Clone, Debug)]
pub struct BatchReader<'b> {
    decoder: Decoder<'b>,
    next_seqno: Seqno,
    left: u32,
}

impl<'b> BatchReader<'b> {
    /// A reader at the first operation.
    pub fn new(payload: &'b [u8]) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(payload);
        let next_seqno = decoder.u64("a sequence number")?;
        let left = decoder.u32("a count of operations")?;
        if next_seqno.checked_add(left.into()).is_none_or(|end| end > SEQNO_MAX + 1) {
            return decoder.fail("sequence numbers within their limit");
        }
        Ok(BatchReader { decoder, next_seqno, left })
    }

    /// The sequence number of the next operation.
    pub fn next_seqno(&self) -> Seqno {
        self.next_seqno
    }

    /// Operations not yet read.
    pub fn left(&self) -> u32 {
        self.left
    }

    fn key(&mut self, what: &'static str) -> Result<&'b [u8], DecodeError> {
        let start = self.decoder.clone();
        let key = self.decoder.bytes(what)?;
        if key.len() > KEY_BYTES_MAX { start.fail("a key within its limit") } else { Ok(key) }
    }

    fn operation(&mut self) -> Result<Operation<'b>, DecodeError> {
        let start = self.decoder.clone();
        let Some(op) = Op::from_u8(self.decoder.u8("an operation")?) else {
            return start.fail("a known operation");
        };
        let keyspace = KeyspaceId(self.decoder.varint_up_to(u32::MAX.into(), "a keyspace")? as u32);
        let key = self.key("a key")?;
        let Some(kind) = op.kind() else {
            let end = self.decoder.end("the end of a range")?;
            return Ok(Operation::DeleteRange { keyspace, start: key, end });
        };
        let at_value = self.decoder.clone();
        let value = if kind == Kind::Delete { &[] } else { self.decoder.bytes("a value")? };
        let before = before_value(kind);
        if value.len() < before || (value.len() - before) as u64 > VALUE_BYTES_MAX {
            return at_value.fail("a value of a legal length");
        }
        Ok(Operation::Entry { keyspace, kind, key, value })
    }
}

impl<'b> Iterator for BatchReader<'b> {
    type Item = Result<(Seqno, Operation<'b>), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            let rest = std::mem::replace(&mut self.decoder, Decoder::new(&[]));
            return rest.finish("the end of the batch").err().map(Err);
        }
        match self.operation() {
            Ok(operation) => {
                let seqno = self.next_seqno;
                self.next_seqno += 1;
                self.left -= 1;
                Some(Ok((seqno, operation)))
            }
            Err(error) => {
                self.left = 0;
                self.decoder = Decoder::new(&[]);
                Some(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Asked {
        Put(Vec<u8>, Vec<u8>),
        Expiring(Vec<u8>, Vec<u8>, u64),
        Delete(Vec<u8>),
        Merge(Vec<u8>, Vec<u8>),
        Range(Vec<u8>, Vec<u8>),
    }

    fn op() -> impl Strategy<Value = (u32, Asked)> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..300);
        let op = prop_oneof![
            (bytes(), bytes()).prop_map(|(k, v)| Asked::Put(k, v)),
            (bytes(), bytes(), any::<u64>()).prop_map(|(k, v, at)| Asked::Expiring(k, v, at)),
            bytes().prop_map(Asked::Delete),
            (bytes(), bytes()).prop_map(|(k, v)| Asked::Merge(k, v)),
            (bytes(), bytes()).prop_map(|(a, b)| Asked::Range(a, b)),
        ];
        (any::<u32>(), op)
    }

    fn encode(ops: &[(u32, Asked)], batch: &mut BatchEncoder) {
        for (keyspace, op) in ops {
            let keyspace = KeyspaceId(*keyspace);
            match op {
                Asked::Put(k, v) => batch.put(keyspace, k, v),
                Asked::Expiring(k, v, at) => batch.put_expiring(keyspace, k, v, *at),
                Asked::Delete(k) => batch.delete(keyspace, k),
                Asked::Merge(k, v) => batch.merge(keyspace, k, v),
                Asked::Range(a, b) => batch.delete_range(keyspace, a, b),
            }
        }
    }

    #[test]
    fn operations_have_numbers_of_their_own_and_every_kind_has_one() {
        assert_eq!(Op::ALL.map(|op| op as u8), [0, 1, 2, 3, 4, 5, 6], "the numbers are on disk");
        for kind in Kind::ALL {
            assert_eq!(Op::of(kind).kind(), Some(kind));
        }
        let of_entries = Op::ALL.into_iter().filter(|op| op.kind().is_some());
        assert_eq!(of_entries.count(), Kind::ALL.len());
        for byte in 0..=u8::MAX {
            assert_eq!(Op::from_u8(byte).is_some(), usize::from(byte) < Op::ALL.len());
        }
    }

    proptest! {
        #[test]
        fn operations_come_back_in_order_with_their_numbers(ops in prop::collection::vec(op(), 0..20), first in 0..SEQNO_MAX - 20) {
            let mut batch = BatchEncoder::new();
            batch.put(KeyspaceId(9), b"forgotten", b"by clear");
            batch.clear();
            prop_assert!(batch.is_empty());
            encode(&ops, &mut batch);
            prop_assert_eq!(batch.count() as usize, ops.len());
            let payload = batch.finish(first).to_vec();
            let read: Vec<_> = BatchReader::new(&payload).unwrap().map(Result::unwrap).collect();
            prop_assert_eq!(read.len(), ops.len());
            for (nth, ((seqno, read), (keyspace, op))) in read.into_iter().zip(&ops).enumerate() {
                prop_assert_eq!(seqno, first + nth as u64);
                let keyspace = KeyspaceId(*keyspace);
                let entry = |kind, key, value| Operation::Entry { keyspace, kind, key, value };
                let expected = match op {
                    Asked::Put(k, v) => entry(Kind::Put, k, v),
                    Asked::Merge(k, v) => entry(Kind::Merge, k, v),
                    Asked::Delete(k) => entry(Kind::Delete, k, &[]),
                    Asked::Range(start, end) => Operation::DeleteRange { keyspace, start, end },
                    Asked::Expiring(k, v, at) => {
                        let stored = [&at.to_be_bytes()[..], v].concat();
                        prop_assert_eq!(read, entry(Kind::PutExpiring, k, &stored));
                        continue;
                    }
                };
                prop_assert_eq!(read, expected);
            }
        }

        #[test]
        fn a_batch_that_was_cut_or_extended_is_refused(ops in prop::collection::vec(op(), 1..5), cut: prop::sample::Index, extra in 1usize..9) {
            let mut batch = BatchEncoder::new();
            encode(&ops, &mut batch);
            let mut payload = batch.finish(1).to_vec();
            let refused = |bytes: &[u8]| BatchReader::new(bytes).map(|reader| reader.last().is_some_and(|op| op.is_err())).unwrap_or(true);
            prop_assert!(refused(&payload[..cut.index(payload.len())]));
            payload.extend(vec![0; extra]);
            prop_assert!(refused(&payload));
        }

        #[test]
        fn arbitrary_payloads_never_panic_and_end(bytes: Vec<u8>) {
            if let Ok(reader) = BatchReader::new(&bytes) {
                prop_assert!(reader.count() <= bytes.len() + 1);
            }
        }
    }
}
