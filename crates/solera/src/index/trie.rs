//! DobLIX's way to a block: a trie over 8-byte chunks of the separators (the RSS of NOTES §1).
//!
//! Owns [`Trie`]. A node holds the sorted [`chunks`](super::chunks) that follow a common prefix, under a
//! radix table. Where one chunk does not tell a separator — several share it, it goes on beyond it, or zero bytes at its end
//! hide in the padding — a *redirector* says how to go on. Smooth keys need one node and no redirector:
//! a search is then one radix entry and one cache line of chunks.
//!
//! What must hold: the number that [`Trie::locate`] gives is exactly how many separators are not above
//! the key. The trie is built from validated separators and never read from disk.

use super::{
    chunks::{Chunks, Column},
    separators::Separators,
    sorted::{compare_with_prefix, told_by_head},
};
use crate::key::{common_prefix_len, head};
use std::{cmp::Ordering, ops::Range};

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

/// Separators `first..last` have chunk number `chunk` of their node, and it does not tell them apart.
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
    /// The trie over these separators, of which there are less than 2^32.
    pub fn build(separators: &Separators) -> Trie {
        Builder::new(separators).build()
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

    /// Cache lines that a lookup touches, on average over separators: of each node itself, its radix table
    /// and its chunks, and two of redirectors where there are any.
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

struct Builder<'s> {
    separators: &'s Separators,
    nodes: Vec<Node>,
    chunks: Chunks,
    redirects: Vec<Redirect>,
    bytes: Vec<u8>,
    ends: Vec<u8>,
}

impl<'s> Builder<'s> {
    fn new(separators: &'s Separators) -> Self {
        Builder {
            separators,
            nodes: Vec::new(),
            chunks: Chunks::default(),
            redirects: Vec::new(),
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Breadth first, without recursion: the depth is up to the keys.
    fn build(mut self) -> Trie {
        // Nodes that a redirector already names, in order: separators and the length of their path.
        let mut pending = std::collections::VecDeque::from([(0..self.separators.len(), 0)]);
        let mut named = 1;
        while let Some((range, path)) = pending.pop_front() {
            let first_redirect = self.redirects.len();
            let children = self.node(range, path);
            for (redirect, range, path) in children {
                self.redirects[first_redirect + redirect].beyond = Beyond::Node(named);
                named += 1;
                pending.push_back((range, path));
            }
        }
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

    /// Adds the node of the separators in `range`, which share their first `path` bytes. Returns the
    /// nodes to come: number of the redirector within the node, separators, path.
    fn node(&mut self, range: Range<usize>, path: usize) -> Vec<(usize, Range<usize>, usize)> {
        let separators = self.separators;
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
