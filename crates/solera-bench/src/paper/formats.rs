//! How many bytes other index formats take for the same boundaries: `rocksdb_index_bytes`,
//! `sherry_index_bytes`.
//!
//! They are exact counts from the formats' descriptions, which the comments of the two functions
//! give. `rocksdb_separator` is RocksDB's `FindShortestSeparator`; a `DataBlock` is what an index
//! must know of a block.
//!
//! What must hold: RocksDB's block is that of format version 5 or later, with defaults and keys
//! without sequence numbers. Sherry's is as the paper has it (docs/PAPERS.md, "Sherry: the index").
//!
//! Callers: `paper::sherry` compares; `paper::blocks` makes `DataBlock`s, `paper::device` reads
//! them.

/// A data block: what an index must know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataBlock {
    /// Its first key.
    pub first: Vec<u8>,
    /// Its last key.
    pub last: Vec<u8>,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes in the file, trailer included.
    pub size: u64,
}

/// Bytes behind every block that its handle does not count: compression type and checksum.
pub const TRAILER_BYTES: u64 = 5;

/// Bytes of a number as a varint.
fn varint(mut number: u64) -> u64 {
    let mut bytes = 1;
    while number >= 0x80 {
        number >>= 7;
        bytes += 1;
    }
    bytes
}

fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// RocksDB's `FindShortestSeparator` of its bytewise comparator: a short key in `[last, next)`.
pub fn rocksdb_separator(last: &[u8], next: &[u8]) -> Vec<u8> {
    let common = shared(last, next);
    if common >= last.len().min(next.len()) {
        // One is a prefix of the other.
        return last.to_vec();
    }
    let mut separator = last.to_vec();
    if last[common] >= next[common] {
        return separator;
    }
    if common + 1 < next.len() || last[common] + 1 < next[common] {
        separator[common] += 1;
        separator.truncate(common + 1);
        return separator;
    }
    // The byte cannot be raised: the first one behind it that can.
    match (common + 1..last.len()).find(|&at| last[at] < 0xff) {
        Some(at) => {
            separator[at] += 1;
            separator.truncate(at + 1);
            separator
        }
        None => separator,
    }
}

/// Bytes of RocksDB's index block of a table with these blocks.
///
/// **RocksDB's index block** (`BlockBuilder` and `IndexValue` of its source; format version 5 or
/// later, keys without sequence numbers). An entry for each data block, keyed by the shortest
/// separator between its last key and the first of the next block, the last one by its last key
/// (both are defaults). Entry number `i` with restart interval `R`:
///
/// ```text
/// shared = 0 if i is a multiple of R, else the length that the key shares with its predecessor
/// entry  = varint(shared) + varint(length - shared) + (length - shared) bytes of key
///        + (shared = 0: varint(offset) + varint(size);  else: zigzag varint(size - size of the predecessor))
/// block  = entries + 4 bytes for each restart + 4 bytes + 5 bytes of trailer
/// ```
///
/// It lies in memory as it lies in the file. `R` is 1 unless a user changes it.
pub fn rocksdb_index_bytes(blocks: &[DataBlock], restart_interval: usize) -> u64 {
    let mut bytes = 0;
    let mut previous: Option<(Vec<u8>, u64)> = None;
    for (i, block) in blocks.iter().enumerate() {
        let key = match blocks.get(i + 1) {
            Some(next) => rocksdb_separator(&block.last, &next.first),
            None => block.last.clone(),
        };
        let size = block.size - TRAILER_BYTES;
        let predecessor = previous.as_ref().filter(|_| i % restart_interval != 0);
        let kept = predecessor.map_or(0, |(before, _)| shared(before, &key));
        let rest = (key.len() - kept) as u64;
        bytes += varint(kept as u64) + varint(rest) + rest;
        bytes += match predecessor {
            Some((_, before)) if kept > 0 => varint(zigzag(size as i64 - *before as i64)),
            _ => varint(block.offset) + varint(size),
        };
        previous = Some((key, size));
    }
    let restarts = blocks.len().div_ceil(restart_interval).max(1) as u64;
    bytes + 4 * restarts + 4 + TRAILER_BYTES
}

/// Bytes of Sherry's index block, as printed, with this many segments.
///
/// **Sherry's index block**, as the paper has it: γ (8 bytes), 40 bytes for each segment (it checks
/// "divisible by 40"; its three numbers need 24; docs/PAPERS.md, "Sherry: the index"), the first
/// offset (8), the size of each block (8: "one 8-byte data per data block").
pub fn sherry_index_bytes(blocks: usize, segments: usize) -> u64 {
    const NUMBER: u64 = 8;
    const SEGMENT: u64 = 40;
    NUMBER + SEGMENT * segments as u64 + NUMBER + NUMBER * blocks as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(keys: &[&str], sizes: &[u64]) -> Vec<DataBlock> {
        let mut offset = 0;
        let block = |(key, &size): (&&str, &u64)| {
            offset += size;
            let bytes = key.as_bytes().to_vec();
            DataBlock { first: bytes.clone(), last: bytes, offset: offset - size, size }
        };
        keys.iter().zip(sizes).map(block).collect()
    }

    #[test]
    fn a_small_index_block_is_counted_byte_by_byte() {
        let blocks = blocks(&["apple", "apricot", "banana"], &[105, 205, 206]);
        let separators = [rocksdb_separator(b"apple", b"apricot"), rocksdb_separator(b"apricot", b"banana")];
        assert_eq!(separators, [b"apq".to_vec(), b"b".to_vec()]);
        // Each entry: two lengths, key, offset (one or two bytes), size (1, 2, 2); three restarts,
        // count, trailer.
        let each = (2 + 3 + 1 + 1) + (2 + 1 + 1 + 2) + (2 + 6 + 2 + 2);
        assert_eq!(rocksdb_index_bytes(&blocks, 1), each + 4 * 3 + 4 + 5);
        // "banana" shares "b" with its predecessor: one byte less, and of its handle only by how
        // much it is larger.
        assert_eq!(rocksdb_index_bytes(&blocks, 16), each - 1 - 3 + 4 + 4 + 5);
    }

    #[test]
    fn shared_prefixes_and_deltas_are_counted_where_there_is_no_restart() {
        let blocks = blocks(&["user/0001", "user/0002", "user/0003", "user/0004"], &[4101; 4]);
        // Neighbours differ in the last byte by one and cannot be shortened.
        let whole = |offset: u64| 2 + 9 + varint(offset) + 2;
        let delta = 2 + 1 + 1;
        assert_eq!(rocksdb_index_bytes(&blocks, 2), whole(0) + delta + whole(8202) + delta + 4 * 2 + 4 + 5);
    }

    #[test]
    fn numbers_take_as_many_bytes_as_their_seven_bit_digits() {
        assert_eq!([0, 127, 128, 16_383, 16_384, u64::MAX].map(varint), [1, 1, 2, 2, 3, 10]);
        assert_eq!([0, -1, 1, -64, 64].map(zigzag), [0, 1, 2, 127, 128]);
    }

    proptest! {
        #[test]
        fn separators_lie_between_and_are_no_longer_than_the_key_below(
            a in prop::collection::vec(prop_oneof![0u8..3, 254u8..], 0..6),
            b in prop::collection::vec(prop_oneof![0u8..3, 254u8..], 0..6),
        ) {
            prop_assume!(a != b);
            let (last, next) = if a < b { (a, b) } else { (b, a) };
            let separator = rocksdb_separator(&last, &next);
            prop_assert!(separator >= last && separator < next && separator.len() <= last.len());
        }
    }
}
