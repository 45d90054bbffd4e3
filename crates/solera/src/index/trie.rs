//! DobLIX's way to a block: `Trie`, over 8-byte chunks of the separators (docs/PAPERS.md, "DobLIX:
//! the way to a block").
//!
//! A node holds the sorted `chunks` that follow a common prefix, under a radix table. Where one
//! chunk does not tell a separator, a redirector says how to go on: with rests, or in another node.
//! Smooth keys need one node and no redirector.
//!
//! What must hold: `locate` gives exactly how many separators are not above the key, of a trie that
//! was built or read as written. Of any other bytes that decode, a lookup still ends and gives no
//! more than there are. So a file holds lengths and no places.
//!
//! Caller: `index::mod`, for the kinds `doblix-pla` and `doblix-pra`.

use super::{
    chunks::{Chunks, Column},
    separators::Separators,
    sorted::{compare_with_prefix, told_by_head},
};
use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_varint},
    key::{common_prefix_len, head},
};
use std::{cmp::Ordering, collections::VecDeque, ops::Range};

/// Bytes of a key that one node looks at.
const CHUNK_BYTES: usize = 8;

/// A trie of 8-byte chunks that locates keys among separators.
#[derive(Clone, Debug)]
pub struct Trie {
    /// The first is the root.
    nodes: Box<[Node]>,
    /// The chunks of all nodes.
    chunks: Chunks,
    /// The redirectors of all nodes.
    redirects: Box<[Redirect]>,
    /// The prefixes of all nodes, and the ends of separators that leave the trie.
    bytes: Box<[u8]>,
    /// The lengths of separators that end within a redirected chunk.
    ends: Box<[u8]>,
}

/// Separators `first..last`, which share a path and then `prefix`.
#[derive(Clone, Debug)]
struct Node {
    first: u32,
    last: u32,
    prefix: Range<usize>,
    chunks: Column,
    redirects: Part,
}

/// Consecutive elements of one of the trie's arrays, each of which has at most as many as there are
/// separators.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u32,
    end: u32,
}

impl Part {
    fn new(range: Range<usize>) -> Part {
        Part { start: range.start as u32, end: range.end as u32 }
    }

    #[inline]
    fn of<T>(self, array: &[T]) -> &[T] {
        &array[self.start as usize..self.end as usize]
    }
}

/// Separators `first..last` have chunk number `chunk` of their node, and it does not tell them
/// apart.
#[derive(Clone, Debug)]
struct Redirect {
    chunk: u32,
    first: u32,
    last: u32,
    /// In `Trie::ends`, ascending: the separators that end within the chunk, which come first.
    ends: Part,
    /// Where the others are.
    beyond: Beyond,
}

#[derive(Clone, Debug)]
enum Beyond {
    Nothing,
    /// One separator; what follows its chunk, in `Trie::bytes`.
    Rest(Range<usize>),
    /// Several; a node.
    Node(u32),
}

impl Trie {
    /// The trie over these separators, of which there are less than 2^31.
    pub fn build(separators: &Separators) -> Trie {
        Builder::default().build(separators)
    }

    /// Puts `begin`, which was left out of all separators, before the root's prefix.
    pub fn put_behind(&mut self, begin: &[u8]) {
        self.bytes = [begin, &self.bytes].concat().into();
        let moved = |range: &mut Range<usize>| *range = range.start + begin.len()..range.end + begin.len();
        self.nodes.iter_mut().for_each(|node| moved(&mut node.prefix));
        self.redirects.iter_mut().for_each(|redirect| {
            if let Beyond::Rest(rest) = &mut redirect.beyond {
                moved(rest);
            }
        });
        // The root's comes first.
        self.nodes[0].prefix.start = 0;
    }

    /// Appends how many separators there are (varint), then the nodes, breadth first. A node is its
    /// prefix (length as varint, bytes), how many redirectors it has (varint), these, and the
    /// column of its chunks ([`Chunks::encode`]).
    ///
    /// A redirector is how many chunks lie between it and the one before, how many separators have
    /// its own chunk (varints), the lengths of those that end within it (count as varint, a byte
    /// each), and, if one goes on beyond, what follows there (length as varint, bytes). If several
    /// do, the next node that is not named yet is theirs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        for node in &self.nodes {
            put_bytes(out, &self.bytes[node.prefix.clone()]);
            let redirects = node.redirects.of(&self.redirects);
            put_varint(out, redirects.len() as u64);
            let mut chunk = 0;
            for redirect in redirects {
                put_varint(out, u64::from(redirect.chunk - chunk));
                put_varint(out, u64::from(redirect.last - redirect.first));
                put_bytes(out, redirect.ends.of(&self.ends));
                if let Beyond::Rest(rest) = &redirect.beyond {
                    put_bytes(out, &self.bytes[rest.clone()]);
                }
                chunk = redirect.chunk + 1;
            }
            self.chunks.encode(&node.chunks, out);
        }
    }

    /// Reads what [`Trie::encode`] wrote; the decoder holds less than 4 GiB. A trie that another
    /// program wrote may be wrong about where a key is, but no lookup in it panics or gives more
    /// than [`Trie::len`].
    pub fn decode(decoder: &mut Decoder<'_>) -> Result<Trie, DecodeError> {
        Builder::default().decode(decoder)
    }

    /// How many separators are not above `key`: the number of its block.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> usize {
        let mut node = &self.nodes[0];
        let mut rest = key;
        loop {
            match compare_with_prefix(rest, &self.bytes[node.prefix.clone()]) {
                Ordering::Less => return node.first as usize,
                Ordering::Greater => return node.last as usize,
                Ordering::Equal => rest = &rest[node.prefix.len()..],
            }
            let (up_to, exact) = self.chunks.locate(&node.chunks, head(rest));
            let redirects = node.redirects.of(&self.redirects);
            if redirects.is_empty() {
                return node.first as usize + up_to;
            }
            let Some(redirect) =
                redirects[..redirects.partition_point(|redirect| (redirect.chunk as usize) < up_to)].last()
            else {
                return node.first as usize + up_to;
            };
            let after = up_to - 1 - redirect.chunk as usize;
            if after > 0 || !exact {
                return redirect.last as usize + after;
            }
            let Some(beyond) = rest.get(CHUNK_BYTES..).filter(|beyond| !beyond.is_empty()) else {
                let ends = redirect.ends.of(&self.ends);
                return redirect.first as usize + ends.partition_point(|&end| end as usize <= rest.len());
            };
            match &redirect.beyond {
                Beyond::Nothing => return redirect.last as usize,
                Beyond::Rest(range) => {
                    return redirect.last as usize - usize::from(self.bytes[range.clone()] > *beyond);
                }
                Beyond::Node(child) => (node, rest) = (&self.nodes[*child as usize], beyond),
            }
        }
    }

    /// Cache lines that a lookup touches, on average over separators: of each node itself, its
    /// radix table and its chunks, and two of redirectors where there are any.
    pub fn lines(&self) -> f64 {
        let visits: u64 = self.nodes.iter().map(|node| u64::from(node.last - node.first)).sum();
        let depth = visits as f64 / self.len().max(1) as f64;
        4.0 * depth.max(1.0) + if self.redirects.is_empty() { 0.0 } else { 2.0 }
    }

    /// Separators.
    pub fn len(&self) -> usize {
        self.nodes[0].last as usize
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.nodes)
            + self.chunks.bytes()
            + size_of_val(&*self.redirects)
            + self.bytes.len()
            + self.ends.len()
    }
}

/// A trie to be, node by node.
#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    chunks: Chunks,
    redirects: Vec<Redirect>,
    bytes: Vec<u8>,
    ends: Vec<u8>,
}

impl Builder {
    /// Breadth first, without recursion: the depth is up to the keys.
    fn build(mut self, separators: &Separators) -> Trie {
        // Nodes that a redirector already names, in order: separators and the length of their path.
        let mut pending = VecDeque::from([(0..separators.len(), 0)]);
        let mut named = 1;
        while let Some((range, path)) = pending.pop_front() {
            let first_redirect = self.redirects.len();
            let children = self.node(separators, range, path);
            for (redirect, range, path) in children {
                self.redirects[first_redirect + redirect].beyond = Beyond::Node(named);
                named += 1;
                pending.push_back((range, path));
            }
        }
        self.finish()
    }

    /// In the order of [`Builder::build`], so that every part of an array and every node gets the
    /// number that it had there.
    fn decode(mut self, decoder: &mut Decoder<'_>) -> Result<Trie, DecodeError> {
        // Whatever is counted in 32 bits takes a byte at least.
        if decoder.remaining() > u32::MAX as usize {
            return decoder.fail("a trie of less than 4 GiB");
        }
        let len = decoder.varint_up_to(i32::MAX as u64, "a count of separators")? as u32;
        let mut pending = VecDeque::new();
        pending.push_back(0..len);
        let mut named = 1;
        while let Some(Range { start: first, end: last }) = pending.pop_front() {
            let prefix = self.append(decoder.bytes("the prefix of a node")?);
            let first_redirect = self.redirects.len();
            // Chunks so far, and how far their separators go.
            let (mut chunk, mut at) = (0, first);
            for _ in 0..decoder.varint("a count of redirectors")? {
                let alone = decoder.varint_up_to((last - at).into(), "chunks of a node's separators")? as u32;
                (chunk, at) = (chunk + alone, at + alone);
                let alike = decoder.varint_up_to((last - at).into(), "separators of a node")? as u32;
                if alike == 0 {
                    return decoder.fail("a redirector's separators");
                }
                let (start, ends) = (self.ends.len(), decoder.bytes("lengths of a redirector's separators")?);
                self.ends.extend_from_slice(ends);
                let beyond = match (alike as usize).checked_sub(ends.len()) {
                    None => return decoder.fail("as many lengths as separators"),
                    Some(0) => Beyond::Nothing,
                    Some(1) => Beyond::Rest(self.append(decoder.bytes("the rest of a separator")?)),
                    Some(_) => {
                        pending.push_back(at + ends.len() as u32..at + alike);
                        named += 1;
                        Beyond::Node(named - 1)
                    }
                };
                self.redirects.push(Redirect {
                    chunk,
                    first: at,
                    last: at + alike,
                    ends: Part::new(start..self.ends.len()),
                    beyond,
                });
                (chunk, at) = (chunk + 1, at + alike);
            }
            let chunks = self.chunks.decode(chunk + (last - at), decoder)?;
            let redirects = Part::new(first_redirect..self.redirects.len());
            self.nodes.push(Node { first, last, prefix, chunks, redirects });
        }
        Ok(self.finish())
    }

    fn finish(mut self) -> Trie {
        self.chunks.shrink();
        Trie {
            nodes: self.nodes.into(),
            chunks: self.chunks,
            redirects: self.redirects.into(),
            bytes: self.bytes.into(),
            ends: self.ends.into(),
        }
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Adds the node of the separators in `range`, which share their first `path` bytes. Returns
    /// the nodes to come: number of the redirector within the node, separators, path.
    fn node(
        &mut self,
        separators: &Separators,
        range: Range<usize>,
        path: usize,
    ) -> Vec<(usize, Range<usize>, usize)> {
        let prefix: &[u8] = if range.is_empty() {
            &[]
        } else {
            let (first, last) =
                (&separators.get(range.start)[path..], &separators.get(range.end - 1)[path..]);
            &first[..common_prefix_len(first, last)]
        };
        let path = path + prefix.len();
        let rest = |i: usize| &separators.get(i)[path..];
        let prefix = self.append(prefix);
        let redirects = self.redirects.len();
        let mut chunks = Vec::new();
        let mut children = Vec::new();
        let mut first = range.start;
        while first < range.end {
            let chunk = head(rest(first));
            let last = (first..range.end).find(|&i| head(rest(i)) != chunk).unwrap_or(range.end);
            if last - first > 1 || !told_by_head(rest(first)) {
                // Separators that end within the chunk are prefixes of the others: they come first.
                let beyond = (first..last).find(|&i| rest(i).len() > CHUNK_BYTES).unwrap_or(last);
                let ends = self.ends.len();
                self.ends.extend((first..beyond).map(|i| rest(i).len() as u8));
                let target = match last - beyond {
                    0 => Beyond::Nothing,
                    1 => Beyond::Rest(self.append(&rest(beyond)[CHUNK_BYTES..])),
                    _ => {
                        children.push((self.redirects.len() - redirects, beyond..last, path + CHUNK_BYTES));
                        Beyond::Nothing
                    }
                };
                self.redirects.push(Redirect {
                    chunk: chunks.len() as u32,
                    first: first as u32,
                    last: last as u32,
                    ends: Part::new(ends..self.ends.len()),
                    beyond: target,
                });
            }
            chunks.push(chunk);
            first = last;
        }
        let chunks = self.chunks.push(&chunks);
        self.nodes.push(Node {
            first: range.start as u32,
            last: range.end as u32,
            prefix,
            chunks,
            redirects: Part::new(redirects..self.redirects.len()),
        });
        children
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(trie: &Trie) -> Vec<u8> {
        let mut bytes = Vec::new();
        trie.encode(&mut bytes);
        bytes
    }

    /// Sorted: text, bytes that hide in padding or behind a chunk, long and short ones; some of
    /// them several times.
    fn separators() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let extreme = prop_oneof![0u8..2, 254u8..];
        let separator = prop_oneof![
            prop::collection::vec(extreme, 0..30),
            prop::collection::vec(0u8..2, 0..10),
            "user[ab]{0,12}/[0-9]{0,9}".prop_map(String::into_bytes),
            any::<[u8; 6]>().prop_map(Vec::from),
            (0u8..2, 0usize..300, any::<u8>())
                .prop_map(|(byte, len, last)| [vec![byte; len], vec![last]].concat()),
        ];
        let several = prop_oneof![4 => Just(1), 1 => 2usize..5];
        (prop::collection::vec(0u8..2, 0..20), prop::collection::vec((separator, several), 0..60)).prop_map(
            |(prefix, separators)| {
                let mut separators: Vec<Vec<u8>> = separators
                    .into_iter()
                    .flat_map(|(separator, times)| vec![[&prefix[..], &separator].concat(); times])
                    .collect();
                separators.sort();
                separators
            },
        )
    }

    /// The separators and keys close to them on either side.
    fn around(separators: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut keys = vec![vec![], vec![255; 40]];
        for separator in separators {
            keys.extend([
                separator.clone(),
                [separator, &[0][..]].concat(),
                [separator, &[255][..]].concat(),
            ]);
            if let Some((last, rest)) = separator.split_last() {
                keys.extend([rest.to_vec(), [rest, &[last.wrapping_sub(1), 255, 255]].concat()]);
                keys.extend([[rest, &[last.wrapping_add(1)]].concat(), [rest, &[0; 9]].concat()]);
            }
        }
        keys
    }

    /// Whether the bytes are decoded; then every answer must be one.
    fn decoded_or_refused<'k>(bytes: &[u8], keys: impl IntoIterator<Item = &'k Vec<u8>>) -> bool {
        let mut decoder = Decoder::new(bytes);
        let Ok(trie) = Trie::decode(&mut decoder) else { return false };
        assert_eq!(encoded(&trie), bytes[..decoder.position()], "nothing that is read is lost");
        assert!(trie.redirects.iter().all(|redirect| redirect.first < redirect.last));
        for key in keys {
            assert!(trie.locate(key) <= trie.len(), "{key:?} in {trie:?}");
        }
        true
    }

    #[derive(Clone, Debug)]
    enum Change {
        To(u8),
        By(u8),
        Insert(u8),
        Remove,
        Cut,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            4 => any::<u8>().prop_map(Change::To),
            4 => prop_oneof![1u8..4, 253u8..].prop_map(Change::By),
            2 => (0u8..4).prop_map(Change::Insert),
            2 => Just(Change::Remove),
            1 => Just(Change::Cut),
        ]
    }

    proptest! {
        #[test]
        fn a_trie_comes_back_from_bytes(
            separators in separators(),
            keys in prop::collection::vec(prop::collection::vec(prop_oneof![0u8..2, any::<u8>()], 0..40), 0..40),
            behind: Vec<u8>,
        ) {
            let built = Trie::build(&separators.iter().collect());
            let bytes = encoded(&built);
            let followed = [&bytes[..], &behind].concat();
            let mut decoder = Decoder::new(&followed);
            let trie = Trie::decode(&mut decoder).unwrap();
            prop_assert_eq!(decoder.position(), bytes.len());
            prop_assert_eq!((trie.len(), trie.bytes()), (separators.len(), built.bytes()));
            prop_assert_eq!(trie.lines().to_bits(), built.lines().to_bits());
            prop_assert_eq!(encoded(&trie), bytes);
            for key in keys.iter().chain(&around(&separators)) {
                let expected = separators.partition_point(|separator| separator <= key);
                prop_assert_eq!((trie.locate(key), built.locate(key)), (expected, expected), "{:?}", key);
            }
        }

        #[test]
        fn a_trie_whose_bytes_were_changed_is_refused_or_gives_no_more_than_it_has(
            separators in separators(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), change()), 1..5),
        ) {
            let mut bytes = encoded(&Trie::build(&separators.iter().collect()));
            for (at, change) in changes {
                if bytes.is_empty() {
                    break;
                }
                let at = at.index(bytes.len());
                match change {
                    Change::To(byte) => bytes[at] = byte,
                    Change::By(step) => bytes[at] = bytes[at].wrapping_add(step),
                    Change::Insert(byte) => bytes.insert(at, byte),
                    Change::Remove => drop(bytes.remove(at)),
                    Change::Cut => bytes.truncate(at),
                }
            }
            decoded_or_refused(&bytes, &around(&separators));
        }

        #[test]
        fn arbitrary_bytes_are_decoded_or_refused(
            bytes in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..200),
                prop::collection::vec(prop_oneof![9 => 0u8..3, 1 => any::<u8>()], 0..200),
            ],
            keys: Vec<Vec<u8>>,
        ) {
            decoded_or_refused(&bytes, &keys);
        }
    }

    #[test]
    fn no_byte_of_a_trie_can_be_changed_to_one_that_breaks_a_lookup() {
        let text = [
            "",
            "\0",
            "user",
            "user\0",
            "user\0\0",
            "userabcd",
            "userabcd\0",
            "userabcdefgh/1",
            "userabcdefgh/2",
        ];
        let twice = text.iter().chain(&text[5..]).map(|text| text.as_bytes().to_vec());
        let mut separators: Vec<Vec<u8>> = twice.chain((0..40u8).map(|i| vec![b'v', i * 5, i])).collect();
        separators.sort();
        let keys = around(&separators);
        let bytes = encoded(&Trie::build(&separators.iter().collect()));
        let mut decoded = 0;
        for at in 0..bytes.len() {
            assert!(!decoded_or_refused(&bytes[..at], &keys), "cut short at {at}");
            for byte in 0..=255 {
                let mut bytes = bytes.clone();
                bytes[at] = byte;
                decoded += usize::from(decoded_or_refused(&bytes, &keys));
            }
        }
        assert!(decoded > 20 * bytes.len(), "most bytes are those of numbers that may be any: {decoded}");
    }

    #[test]
    fn no_two_bytes_of_a_small_trie_can_be_changed_to_ones_that_break_a_lookup() {
        let beyond = ["abcdefgh", "abcdefgh1", "abcdefgh1", "abcdefgh2"];
        for separators in [&["", ""][..], &["a", "a\0", "b"], &beyond[..2], &beyond[1..], &beyond] {
            let separators: Vec<Vec<u8>> = separators.iter().map(|text| text.as_bytes().to_vec()).collect();
            let (keys, bytes) = (around(&separators), encoded(&Trie::build(&separators.iter().collect())));
            for (one, other) in (0..bytes.len()).flat_map(|one| (0..one).map(move |other| (one, other))) {
                for (byte, another) in (0..4u8).flat_map(|byte| (0..4u8).map(move |another| (byte, another)))
                {
                    let mut bytes = bytes.clone();
                    (bytes[one], bytes[other]) = (byte, another);
                    decoded_or_refused(&bytes, &keys);
                }
            }
        }
    }

    #[test]
    fn a_trie_takes_no_more_bytes_in_a_file_than_in_memory() {
        let numbers = |count: u64| (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let smooth: Vec<Vec<u8>> = numbers(4000).map(|number| number.to_be_bytes()[..3].to_vec()).collect();
        let text = numbers(4000).map(|number| format!("user{:03}/{number:016x}", number % 300).into());
        for mut separators in [smooth, text.collect()] {
            separators.sort();
            let trie = Trie::build(&separators.iter().collect());
            assert!(encoded(&trie).len() < trie.bytes(), "{} {}", encoded(&trie).len(), trie.bytes());
        }
    }

    #[test]
    fn a_key_does_not_follow_a_redirector_of_another_bucket() {
        let alike = |bucket: u64, remainder: u64| ((bucket << 63) + (7 << 50) + remainder).to_be_bytes();
        let mut separators: Vec<Vec<u8>> = (0..4u8).map(|i| vec![0, i << 2]).collect();
        separators.push(alike(0, 5).to_vec());
        separators.push([&alike(0, 5)[..], b"beyond"].concat());
        separators.extend([alike(1, 9).to_vec(), vec![0x90], vec![0xa0]]);
        let trie = Trie::build(&separators.iter().collect());
        assert_eq!(trie.locate(&alike(1, 5)), 6);
    }
}
