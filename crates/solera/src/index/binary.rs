//! Plain binary search over the separators: the honest baseline that a learned index is compared with.

use super::separators::Separators;
use crate::key::{common_prefix_len, head};
use std::cmp::Ordering;

/// Sorted separators: the prefix that all share once, then the heads of the rests in one array.
#[derive(Clone, Debug)]
pub struct Binary {
    prefix: Box<[u8]>,
    heads: Box<[u64]>,
    /// The rests that their heads do not tell; `None` if there are none.
    rests: Option<Rests>,
}

#[derive(Clone, Debug)]
struct Rests {
    /// Where each ends; one that its head tells is empty.
    ends: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl Rests {
    fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start as usize..self.ends[i] as usize]
    }

    /// Whether separator `i`, whose head is that of `rest`, is not above it.
    fn is_up_to(&self, i: usize, rest: &[u8]) -> bool {
        self.get(i) <= rest
    }
}

/// Whether the head of `rest` says all of it: a key with the same head is then not below it. (It is not so
/// for `a` and `a\0`, which have one head.)
pub(super) fn told_by_head(rest: &[u8]) -> bool {
    rest.len() <= 8 && rest.last() != Some(&0)
}

/// The bytes that [`head`] was made of, without the zeros that filled it up.
pub(super) fn head_bytes(head: u64) -> ([u8; 8], usize) {
    (head.to_be_bytes(), 8 - (head.trailing_zeros() / 8) as usize)
}

/// How the keys that begin like `key` lie to those that begin with `prefix`: `Equal` if `key` begins with
/// `prefix` itself.
#[inline]
pub(super) fn compare_with_prefix(key: &[u8], prefix: &[u8]) -> Ordering {
    if prefix.is_empty() {
        return Ordering::Equal;
    }
    match key.get(..prefix.len()) {
        Some(start) => start.cmp(prefix),
        None => match key.cmp(prefix) {
            // A shorter key that agrees lies before everything that begins with the prefix.
            Ordering::Equal => Ordering::Less,
            other => other,
        },
    }
}

impl Binary {
    /// The index over these separators.
    pub fn build(separators: &Separators) -> Binary {
        let count = separators.len();
        let prefix: &[u8] = match count {
            0 => &[],
            _ => {
                let (first, last) = (separators.get(0), separators.get(count - 1));
                &first[..common_prefix_len(first, last)]
            }
        };
        let rests = || separators.iter().map(|separator| &separator[prefix.len()..]);
        let stored = (!rests().all(told_by_head)).then(|| {
            let mut bytes = Vec::new();
            let ends = rests().map(|rest| {
                bytes.extend_from_slice(if told_by_head(rest) { &[] } else { rest });
                bytes.len() as u32
            });
            Rests { ends: ends.collect(), bytes: bytes.into() }
        });
        Binary { prefix: prefix.into(), heads: rests().map(head).collect(), rests: stored }
    }

    /// How many separators are not above `key`: the number of its block.
    #[inline]
    pub fn locate(&self, key: &[u8]) -> usize {
        match compare_with_prefix(key, &self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.heads.len(),
            Ordering::Equal => {}
        }
        let rest = &key[self.prefix.len()..];
        let head = head(rest);
        let up_to = self.heads.partition_point(|&other| other <= head);
        match &self.rests {
            Some(rests) if up_to > 0 && self.heads[up_to - 1] == head => {
                let mut low = self.heads[..up_to].partition_point(|&other| other < head);
                let mut high = up_to;
                while low < high {
                    let middle = low.midpoint(high);
                    if rests.is_up_to(middle, rest) { low = middle + 1 } else { high = middle }
                }
                low
            }
            _ => up_to,
        }
    }

    /// Appends separator `i`.
    pub fn separator(&self, i: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.prefix);
        match self.rests.as_ref().map_or(&[][..], |rests| rests.get(i)) {
            [] => {
                let (bytes, len) = head_bytes(self.heads[i]);
                out.extend_from_slice(&bytes[..len]);
            }
            rest => out.extend_from_slice(rest),
        }
    }

    /// Separators.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        let rests = self.rests.as_ref().map_or(0, |rests| size_of_val(&*rests.ends) + rests.bytes.len());
        self.prefix.len() + size_of_val(&*self.heads) + rests
    }
}
