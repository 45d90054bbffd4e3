//! The separators between a table's blocks, ascending in one allocation: `Separators`.
//!
//! Separator `i` is above every key of block `i` and not above any key of block `i + 1`. Where the
//! versions of one key `k` go on from block to block it is `k` and a zero byte. So `k` is found
//! where its versions begin. `push_between` makes the shortest separator of two keys. `encode` and
//! `decode` store each without what it shares with the one before.
//!
//! What must hold: separators do not descend; equal neighbours are legal. Together they take at
//! most 4 GiB.
//! Callers: `table::writer` collects them; `index::{mod, sorted, trie, sherry, learned}` are built
//! from them. `LastKeys`, `solera-bench`, `solera-sim` and `fuzz` make some too. A table stores
//! them for kinds without a model and for a halved `learned`; its blocks have them as fences.

use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    key::{KEY_BYTES_MAX, common_prefix_len, separator_len},
};

/// Separators take at most this many bytes together: indexes count them in 32 bits.
pub const SEPARATOR_BYTES_MAX: usize = u32::MAX as usize;

/// Ascending byte strings in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Separators {
    bytes: Vec<u8>,
    /// `ends[i]` is where separator `i` ends in `bytes`.
    ends: Vec<usize>,
}

impl Separators {
    /// None yet.
    pub fn new() -> Self {
        Separators::default()
    }

    /// How many there are: one less than there are blocks.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all separators together.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Separator `i`.
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// All, ascending.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Appends the shortest separator between a block that ends with `lower` and one that begins
    /// with `upper`; `lower <= upper`.
    pub fn push_between(&mut self, lower: &[u8], upper: &[u8]) {
        if lower == upper {
            self.bytes.extend_from_slice(lower);
            self.bytes.push(0);
        } else {
            self.bytes.extend_from_slice(&upper[..separator_len(lower, upper)]);
        }
        self.ends.push(self.bytes.len());
    }

    /// Appends a separator that is not less than the last one.
    pub fn push(&mut self, separator: &[u8]) {
        debug_assert!(self.is_empty() || self.get(self.len() - 1) <= separator, "separators ascend");
        self.bytes.extend_from_slice(separator);
        self.ends.push(self.bytes.len());
    }

    /// Appends the count (varint), then for each separator the length that it shares with its
    /// predecessor (varint), and the rest (length as varint, bytes).
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        let mut previous: &[u8] = &[];
        for separator in self.iter() {
            let shared = common_prefix_len(previous, separator);
            put_varint(out, shared as u64);
            put_bytes(out, &separator[shared..]);
            previous = separator;
        }
    }

    /// Reads what [`Separators::encode`] wrote. Separators that do not ascend are refused, and ones
    /// that take more than `bytes_max` or [`SEPARATOR_BYTES_MAX`] together: prefix sharing lets few
    /// bytes stand for very many.
    pub fn decode(decoder: &mut Decoder<'_>, bytes_max: u64) -> Result<Separators, DecodeError> {
        let bytes_max = bytes_max.min(SEPARATOR_BYTES_MAX as u64);
        let count = decoder.varint("a count of separators")?;
        // Each takes two bytes at least.
        if count > decoder.remaining() as u64 / 2 {
            return decoder.fail("as many separators as are counted");
        }
        let mut separators = Separators { bytes: Vec::new(), ends: Vec::with_capacity(count as usize) };
        let mut start = 0;
        for _ in 0..count {
            let end = separators.bytes.len();
            let previous = end - start;
            let shared = decoder.varint_up_to(previous as u64, "a shared length")? as usize;
            let rest = decoder.bytes("the rest of a separator")?;
            let ascends = match (separators.bytes.get(start + shared), rest.first()) {
                (Some(old), Some(new)) => old < new,
                (Some(_), None) => false,
                (None, _) => true,
            };
            if !ascends {
                return decoder.fail("separators that ascend");
            }
            let len = shared + rest.len();
            if len > KEY_BYTES_MAX + 1 || (end + len) as u64 > bytes_max {
                return decoder.fail("separators of a possible size");
            }
            separators.bytes.extend_from_within(start..start + shared);
            separators.bytes.extend_from_slice(rest);
            separators.ends.push(separators.bytes.len());
            start = end;
        }
        Ok(separators)
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Separators {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        let mut separators = Separators::new();
        iter.into_iter().for_each(|separator| separators.push(separator.as_ref()));
        separators
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn separators_come_back_from_bytes(mut keys in prop::collection::vec(prop::collection::vec(0u8..4, 0..12), 0..60)) {
            keys.sort();
            let separators: Separators = keys.iter().collect();
            let mut bytes = Vec::new();
            separators.encode(&mut bytes);
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(Separators::decode(&mut decoder, 1 << 20).unwrap(), separators);
            decoder.finish("the end").unwrap();
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(bytes: Vec<u8>) {
            if let Ok(separators) = Separators::decode(&mut Decoder::new(&bytes), 1 << 20) {
                prop_assert!(separators.iter().is_sorted());
            }
        }
    }

    #[test]
    fn few_bytes_cannot_stand_for_very_many() {
        let long = vec![7u8; 60_000];
        let separators: Separators = (0..1000).map(|_| &long).collect();
        let mut bytes = Vec::new();
        separators.encode(&mut bytes);
        assert!(bytes.len() < 70_000);
        assert!(Separators::decode(&mut Decoder::new(&bytes), 1 << 20).is_err());
        assert!(Separators::decode(&mut Decoder::new(&bytes), 1 << 30).is_ok());
    }

    #[test]
    fn a_key_whose_versions_go_on_lies_before_its_separator() {
        let mut separators = Separators::new();
        separators.push_between(b"apple", b"banana");
        separators.push_between(b"banana", b"banana");
        separators.push_between(b"banana", b"banana");
        separators.push_between(b"banana", b"bananas");
        let all: Vec<&[u8]> = separators.iter().collect();
        assert_eq!(all, [&b"b"[..], b"banana\0", b"banana\0", b"bananas"]);
    }
}
