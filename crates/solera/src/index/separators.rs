//! The separators between a table's blocks, ascending in one allocation: `Separators`.
//!
//! Separator `i` is above every key of block `i` and not above any key of block `i + 1`. Where the
//! versions of one key `k` go on from block to block it is `k` and a zero byte. So `k` is found
//! where its versions begin. `push_between` makes the shortest separator of two keys. What all
//! begin with is held once if it is long (`begin`). `encode` and `decode` store each without what
//! it shares with the one before.
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

/// What separators begin with is left out of them if it is at least so long.
const BEGIN_BYTES_MIN: usize = 256;
/// Where less is left out than before, so many bytes more are put back too: so that of separators
/// which have ever less in common all are not written again each time.
const BEGIN_SPARE: usize = 32;

/// Ascending byte strings in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Separators {
    /// What is left out of each. Nothing of what was not collected for a table.
    begin: Vec<u8>,
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

    /// Bytes of all separators together, without what is left out.
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// What separators begin with and is left out of them.
    pub fn begin(&self) -> &[u8] {
        &self.begin
    }

    /// Separator `i`, without what is left out.
    pub fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// The last one's length, without its last byte, and that byte.
    pub fn last_bound(&self) -> Option<(usize, u8)> {
        let last = self.get(self.len().checked_sub(1)?);
        let byte = last.last().or(self.begin.last())?;
        Some((self.begin.len() + last.len() - 1, *byte))
    }

    /// All, ascending, without what is left out.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Appends the shortest separator between a block that ends with `lower` and one that begins
    /// with `upper`; `lower <= upper`. Returns what was left out of all before and is not now.
    pub fn push_between(&mut self, lower: &[u8], upper: &[u8]) -> Vec<u8> {
        let (text, end) =
            if lower == upper { (lower, &[0][..]) } else { (&upper[..separator_len(lower, upper)], &[][..]) };
        if self.is_empty() && text.len() >= BEGIN_BYTES_MIN {
            self.begin = text.into();
        }
        let tail = self.leave_out(common_prefix_len(&self.begin, text));
        self.bytes.extend_from_slice(&text[self.begin.len()..]);
        self.bytes.extend_from_slice(end);
        self.ends.push(self.bytes.len());
        tail
    }

    /// Bytes that separators would take more with one that begins like `key`.
    pub fn spread_by(&self, key: &[u8]) -> usize {
        (self.begin.len() - common_prefix_len(&self.begin, key)) * self.len()
    }

    /// How much is left out where a separator has only so much in common with the others.
    fn left_out(&self, common: usize) -> usize {
        if common >= self.begin.len() {
            return self.begin.len();
        }
        Some(common.saturating_sub(BEGIN_SPARE)).filter(|&len| len >= BEGIN_BYTES_MIN).unwrap_or(0)
    }

    /// Leaves out what `common` allows. Returns what is put back.
    fn leave_out(&mut self, common: usize) -> Vec<u8> {
        let tail = self.begin.split_off(self.left_out(common));
        if !tail.is_empty() {
            self.put_back(&tail);
        }
        tail
    }

    /// Puts `tail` before each.
    pub(super) fn put_back(&mut self, tail: &[u8]) {
        let mut bytes = Vec::with_capacity(self.bytes.len() + self.len() * tail.len());
        for i in 0..self.len() {
            bytes.extend_from_slice(tail);
            bytes.extend_from_slice(self.get(i));
        }
        self.bytes = bytes;
        (1..).zip(&mut self.ends).for_each(|(count, end)| *end += count * tail.len());
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
        let mut previous: Option<&[u8]> = None;
        for separator in self.iter() {
            match previous {
                None => {
                    put_varint(out, 0);
                    put_varint(out, (self.begin.len() + separator.len()) as u64);
                    out.extend_from_slice(&self.begin);
                    out.extend_from_slice(separator);
                }
                Some(previous) => {
                    let shared = common_prefix_len(previous, separator);
                    put_varint(out, (self.begin.len() + shared) as u64);
                    put_bytes(out, &separator[shared..]);
                }
            }
            previous = Some(separator);
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
        let ends = Vec::with_capacity(count as usize);
        let mut separators = Separators { begin: Vec::new(), bytes: Vec::new(), ends };
        for number in 0..count {
            let start = separators.ends.iter().rev().nth(1).map_or(0, |&start| start);
            let previous = separators.begin.len() + separators.bytes.len() - start;
            let previous = if number == 0 { 0 } else { previous };
            let shared = decoder.varint_up_to(previous as u64, "a shared length")? as usize;
            let rest = decoder.bytes("the rest of a separator")?;
            let spread = (separators.begin.len() - separators.left_out(shared)) * separators.len();
            let is_long = shared + rest.len() > KEY_BYTES_MAX + 1;
            if is_long || (separators.bytes.len() + spread) as u64 > bytes_max {
                return decoder.fail("separators of a possible size");
            }
            if number == 0 && rest.len() >= BEGIN_BYTES_MIN {
                separators.begin = rest.into();
                separators.ends.push(0);
                continue;
            }
            separators.leave_out(shared);
            let start = separators.ends.iter().rev().nth(1).map_or(0, |&start| start);
            let end = separators.bytes.len();
            let shared = shared - separators.begin.len();
            let ascends = match (separators.bytes.get(start + shared), rest.first()) {
                (Some(old), Some(new)) => old < new,
                (Some(_), None) => false,
                (None, _) => true,
            };
            if !ascends {
                return decoder.fail("separators that ascend");
            }
            if (end + shared + rest.len()) as u64 > bytes_max {
                return decoder.fail("separators of a possible size");
            }
            separators.bytes.extend_from_within(start..start + shared);
            separators.bytes.extend_from_slice(rest);
            separators.ends.push(separators.bytes.len());
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

    /// Those of blocks of one key each.
    fn between(keys: &[Vec<u8>]) -> Separators {
        let mut separators = Separators::new();
        keys.windows(2).for_each(|pair| drop(separators.push_between(&pair[0], &pair[1])));
        separators
    }

    fn whole(separators: &Separators) -> Vec<Vec<u8>> {
        separators.iter().map(|rest| [separators.begin(), rest].concat()).collect()
    }

    /// What all begin with, for so many; then what each ends with.
    fn long(begin: usize, count: u32) -> Vec<Vec<u8>> {
        (0..count).map(|i| [vec![7; begin], i.to_be_bytes().into()].concat()).collect()
    }

    #[test]
    fn few_bytes_cannot_stand_for_very_many() {
        // All but the last have 60,000 bytes in common, which that one puts back.
        let separators: Separators = long(60_000, 1000).iter().map(Vec::as_slice).chain([&[8][..]]).collect();
        let mut bytes = Vec::new();
        separators.encode(&mut bytes);
        assert!(bytes.len() < 80_000);
        assert!(Separators::decode(&mut Decoder::new(&bytes), 1 << 20).is_err());
        assert!(Separators::decode(&mut Decoder::new(&bytes), 1 << 30).is_ok());
    }

    /// Symptom: 1,500 keys of 60,000 bytes took 118 MiB under a budget of 64. Cause: a separator
    /// between keys that differ at their ends is as long as they are, and each was held whole.
    /// Cure: what all begin with is held once, as they are collected and as they are read.
    #[test]
    fn what_separators_begin_with_is_held_once() {
        let keys = long(60_000, 1001);
        let separators = between(&keys);
        let shortest = |pair: &[Vec<u8>]| pair[1][..separator_len(&pair[0], &pair[1])].to_vec();
        assert!(whole(&separators).into_iter().eq(keys.windows(2).map(shortest)));
        assert!(separators.total_bytes() < 1000 * 50, "{}", separators.total_bytes());
        let mut bytes = Vec::new();
        separators.encode(&mut bytes);
        let read = Separators::decode(&mut Decoder::new(&bytes), 2 << 20).unwrap();
        assert!(whole(&read) == whole(&separators));
        assert!(read.total_bytes() < 1000 * 50, "{}", read.total_bytes());
        let mut again = Vec::new();
        read.encode(&mut again);
        assert_eq!(again, bytes);
    }

    #[test]
    fn what_fewer_bytes_are_common_to_is_put_back() {
        let mut keys = long(60_000, 20);
        keys.push([vec![7; 50_000], vec![8]].concat());
        keys.push([vec![7; 400], vec![8]].concat());
        keys.push([vec![7; 300], vec![8]].concat());
        keys.push(vec![9]);
        let mut separators = Separators::new();
        for (count, pair) in (1..).zip(keys.windows(2)) {
            let (before, spread) = (separators.begin().len(), separators.spread_by(&pair[1]));
            let tail = separators.push_between(&pair[0], &pair[1]);
            assert!(whole(&separators) == keys[1..=count]);
            assert_eq!(before.max(separators.begin().len()), separators.begin().len() + tail.len());
            assert!(tail.len() * (count - 1) >= spread, "{} {spread}", tail.len());
        }
        assert!(separators.begin().is_empty());
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
