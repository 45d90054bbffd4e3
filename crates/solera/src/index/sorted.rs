//! Searches over the sorted separators, an 8-byte head for each: `Sorted`, the classical indexes.
//!
//! It keeps the prefix that all separators share, their heads in an `Order`, and what heads do not
//! tell. An `Order` is how heads are laid out and searched: by halving, by interpolation, as an
//! S-tree, or in Eytzinger's order. `locate` counts the separators that are not above a key.
//! `shared_prefix`, `told_by_head` and `compare_with_prefix` serve the neighbours too.
//!
//! What must hold: the count is exact. Where several separators have the key's head, rests are
//! compared.
//!
//! Callers: `index::mod` for the kinds without a model; `index::learned` for its halved form.

use super::separators::Separators;
use crate::key::{common_prefix_len, equal, head};
use solera_model::{eytzinger::Eytzinger, interpolation, stree::STree};
use std::cmp::Ordering;

/// Bytes that a head tells.
const HEAD_BYTES: usize = 8;

/// The heads of the separators, laid out for one way to search them.
#[derive(Clone, Debug)]
pub enum Order {
    /// Ascending; halved.
    Halved(Box<[u64]>),
    /// Ascending; by interpolation.
    Interpolated(Box<[u64]>),
    /// Breadth first.
    Eytzinger(Eytzinger),
    /// In nodes of a cache line.
    STree(STree),
}

impl Order {
    /// How many heads are not above `x`.
    #[inline]
    fn up_to(&self, x: u64) -> usize {
        self.up_to_early(x, |_| {})
    }

    /// [`Order::up_to`]; an S-tree tells `early` about how many.
    #[inline]
    fn up_to_early(&self, x: u64, early: impl Fn(usize)) -> usize {
        match self {
            Order::Halved(heads) => heads.partition_point(|&head| head <= x),
            Order::Interpolated(heads) => interpolation::up_to(heads, x),
            Order::Eytzinger(heads) => heads.up_to(x),
            Order::STree(heads) => heads.up_to_early(x, early),
        }
    }

    fn len(&self) -> usize {
        match self {
            Order::Halved(heads) | Order::Interpolated(heads) => heads.len(),
            Order::Eytzinger(heads) => heads.len(),
            Order::STree(heads) => heads.len(),
        }
    }

    /// Cache lines that a search touches.
    fn lines(&self) -> f64 {
        // Halving ends within a line of 8 heads.
        let halvings = f64::from((self.len() as u32).checked_ilog2().unwrap_or(0));
        match self {
            Order::Halved(_) | Order::Interpolated(_) => (halvings - 2.0).max(1.0),
            Order::Eytzinger(_) => halvings.max(1.0),
            Order::STree(heads) => heads.lines() as f64,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Order::Halved(heads) | Order::Interpolated(heads) => size_of_val(&**heads),
            Order::Eytzinger(heads) => heads.bytes(),
            Order::STree(heads) => heads.bytes(),
        }
    }
}

/// Sorted separators: the prefix that all share once, then the heads of the rests.
#[derive(Clone, Debug)]
pub struct Sorted {
    prefix: Box<[u8]>,
    heads: Order,
    /// The rests that their heads do not tell; `None` if there are none.
    rests: Option<Rests>,
}

#[derive(Clone, Debug)]
struct Rests {
    /// Where the tail of each ends: what it has beyond its head.
    ends: Box<[u32]>,
    tails: Box<[u8]>,
    /// Numbers and lengths of those that end within the head, with zeros, which the head does not
    /// tell from its padding.
    zeros: Box<[(u32, u8)]>,
}

impl Rests {
    fn new<'s, I: Iterator<Item = &'s [u8]>>(rests: impl Fn() -> I) -> Rests {
        let mut tails = Vec::new();
        let ends = rests().map(|rest| {
            tails.extend_from_slice(rest.get(HEAD_BYTES..).unwrap_or_default());
            tails.len() as u32
        });
        let ends = ends.collect();
        let end_in_head =
            rests().zip(0..).filter(|(rest, _)| rest.len() <= HEAD_BYTES && !told_by_head(rest));
        let zeros = end_in_head.map(|(rest, i)| (i, rest.len() as u8)).collect();
        Rests { ends, tails: tails.into(), zeros }
    }

    /// Whether separator `i`, whose head is that of `rest`, is not above it.
    fn is_up_to(&self, i: usize, rest: &[u8]) -> bool {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        let tail = &self.tails[start as usize..self.ends[i] as usize];
        match rest.get(HEAD_BYTES..) {
            Some(beyond) => tail <= beyond,
            // It ends within the head, and so must the separator, no later.
            None if tail.is_empty() => match self.zeros.binary_search_by_key(&(i as u32), |&(i, _)| i) {
                Ok(found) => usize::from(self.zeros[found].1) <= rest.len(),
                Err(_) => true,
            },
            None => false,
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.ends) + self.tails.len() + size_of_val(&*self.zeros)
    }
}

/// Whether the head of `rest` says all of it: a key with the same head is then not below it. (It is
/// not so for `a` and `a\0`, which have one head.)
pub(super) fn told_by_head(rest: &[u8]) -> bool {
    rest.len() <= HEAD_BYTES && rest.last() != Some(&0)
}

/// How the keys that begin like `key` lie to those that begin with `prefix`: `Equal` if `key`
/// begins with `prefix` itself.
#[inline]
pub(super) fn compare_with_prefix(key: &[u8], prefix: &[u8]) -> Ordering {
    if prefix.is_empty() {
        return Ordering::Equal;
    }
    match key.get(..prefix.len()) {
        Some(start) if equal(start, prefix) => Ordering::Equal,
        Some(start) => start.cmp(prefix),
        None => match key.cmp(prefix) {
            // A shorter key that agrees lies before everything that begins with the prefix.
            Ordering::Equal => Ordering::Less,
            other => other,
        },
    }
}

/// What all separators begin with.
pub(super) fn shared_prefix(separators: &Separators) -> &[u8] {
    match separators.len() {
        0 => &[],
        count => {
            let (first, last) = (separators.get(0), separators.get(count - 1));
            &first[..common_prefix_len(first, last)]
        }
    }
}

impl Sorted {
    /// The index over these separators, whose heads `order` lays out.
    pub fn build(separators: &Separators, order: impl FnOnce(Vec<u64>) -> Order) -> Sorted {
        let prefix = shared_prefix(separators);
        let rests = || separators.iter().map(|separator| &separator[prefix.len()..]);
        let stored = (!rests().all(told_by_head)).then(|| Rests::new(rests));
        Sorted { prefix: prefix.into(), heads: order(rests().map(head).collect()), rests: stored }
    }

    /// Puts `begin`, which was left out of all separators, before their prefix.
    pub fn put_behind(&mut self, begin: &[u8]) {
        self.prefix = [begin, &self.prefix].concat().into();
    }

    /// Bytes of these separators in an order that takes no more than their heads, with all that it
    /// consists of.
    pub fn halved_bytes(separators: &Separators) -> usize {
        let prefix = shared_prefix(separators);
        let rests = || separators.iter().map(|separator| &separator[prefix.len()..]);
        let is_zeros = |rest: &&[u8]| rest.len() <= HEAD_BYTES && !told_by_head(rest);
        let heads = prefix.len() + separators.len() * HEAD_BYTES;
        if rests().all(told_by_head) {
            return heads;
        }
        let tails: usize = rests().map(|rest| rest.len().saturating_sub(HEAD_BYTES)).sum();
        let zeros = rests().filter(is_zeros).count();
        heads + separators.len() * size_of::<u32>() + tails + zeros * size_of::<(u32, u8)>()
    }

    /// How many separators are not above `key`: the number of its block. `early` is as in
    /// [`Index::locate`](super::Index::locate).
    #[inline]
    pub fn locate(&self, key: &[u8], early: impl Fn(usize)) -> usize {
        match compare_with_prefix(key, &self.prefix) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.heads.len(),
            Ordering::Equal => {}
        }
        let rest = &key[self.prefix.len()..];
        let x = head(rest);
        let up_to = self.heads.up_to_early(x, early);
        match &self.rests {
            None => up_to,
            Some(rests) => self.among_ties(rests, rest, x, up_to),
        }
    }

    /// Goes on where separators of the key's own head may be more than heads tell.
    fn among_ties(&self, rests: &Rests, rest: &[u8], x: u64, up_to: usize) -> usize {
        let (mut low, mut high) = (x.checked_sub(1).map_or(0, |below| self.heads.up_to(below)), up_to);
        while low < high {
            let middle = low.midpoint(high);
            if rests.is_up_to(middle, rest) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Cache lines that a lookup touches; two more where rests may have to be compared.
    pub fn lines(&self) -> f64 {
        self.heads.lines() + if self.rests.is_some() { 2.0 } else { 0.0 }
    }

    /// Separators.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        let rests = self.rests.as_ref().map_or(0, Rests::bytes);
        self.prefix.len() + self.heads.bytes() + rests
    }
}
