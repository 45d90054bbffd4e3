//! Iterators in both worlds: `Walker`, an engine's iterator beside a plain list with two ends;
//! `scan` and `scan_keys`.
//!
//! `walk` makes one move (next, back, seek and their kin) in both worlds and compares. `scan` walks
//! a new iterator from one end and looks one beyond the end.
//!
//! What must hold: both ends yield the pairs that lie between them, and nothing once they have met.
//! A seek may set an end back, and pairs come again.
//!
//! Callers: `life::world` and `life::read`.

use super::{
    Digest, shown,
    world::{Checked, succeeded},
};
use crate::{
    oracle,
    script::{Bounds, Move},
};
use solera::{Iter, Keys, Slice};
use std::ops::Bound;

/// A pair in the oracle.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

impl Bounds {
    /// The two ends, as the oracle takes them.
    pub(super) fn ends(&self) -> oracle::Ends {
        let owned = |bound: Bound<&[u8]>| bound.map(<[u8]>::to_vec);
        match self {
            Bounds::All {} => (Bound::Unbounded, Bound::Unbounded),
            Bounds::Prefix { prefix } => {
                // The least key above all with the prefix, found the slow way: raise the last byte
                // that can be raised.
                let mut end = prefix.0.clone();
                while end.last() == Some(&0xff) {
                    end.pop();
                }
                let end = match end.last_mut() {
                    Some(last) => {
                        *last += 1;
                        Bound::Excluded(end)
                    }
                    None => Bound::Unbounded,
                };
                (Bound::Included(prefix.0.clone()), end)
            }
            Bounds::Range { start, end } => (owned(start.bound()), owned(end.bound())),
        }
    }
}

/// An open iterator: the engine's, and the pairs that it must yield with the two places where it
/// stands.
pub(super) struct Walker {
    /// The keyspace that it walks.
    pub(super) space: usize,
    engine: Iter,
    pairs: Vec<Pair>,
    front: usize,
    back: usize,
}

impl Walker {
    /// An iterator that must walk `pairs`.
    pub(super) fn new(space: usize, engine: Iter, pairs: Vec<Pair>) -> Walker {
        Walker { space, engine, front: 0, back: pairs.len(), pairs }
    }

    /// One move in both worlds.
    pub(super) fn walk(&mut self, step: &Move, digest: &mut Digest) -> Checked {
        match step {
            Move::Seek { key } => {
                succeeded(self.engine.seek(key))?;
                self.front = self.pairs.partition_point(|(own, _)| own[..] < key[..]);
                return Ok(());
            }
            Move::SeekBack { key } => {
                succeeded(self.engine.seek_back(key))?;
                self.back = self.pairs.partition_point(|(own, _)| own[..] <= key[..]);
                return Ok(());
            }
            _ => {}
        }
        let expected = match step {
            _ if self.front >= self.back => None,
            Move::Next {} | Move::Advance {} => {
                self.front += 1;
                Some(&self.pairs[self.front - 1])
            }
            _ => {
                self.back -= 1;
                Some(&self.pairs[self.back])
            }
        };
        let lent = |there: bool, iter: &Iter| there.then(|| (iter.key().to_vec(), iter.value().to_vec()));
        let found = match step {
            Move::Next {} => owned(self.engine.next())?,
            Move::Back {} => owned(self.engine.next_back())?,
            Move::Advance {} => lent(succeeded(self.engine.advance())?, &self.engine),
            _ => lent(succeeded(self.engine.advance_back())?, &self.engine),
        };
        digest_pair(digest, found.as_ref());
        if found.as_ref() == expected {
            return Ok(());
        }
        Err(format!("{step}: found {}, expected {}", shown_pair(found.as_ref()), shown_pair(expected)))
    }
}

fn owned(item: Option<solera::Result<(Slice, Slice)>>) -> Checked<Option<Pair>> {
    Ok(match item {
        Some(pair) => Some(succeeded(pair).map(|(key, value)| (key.to_vec(), value.to_vec()))?),
        None => None,
    })
}

fn digest_pair(digest: &mut Digest, pair: Option<&Pair>) {
    if let Some((key, value)) = pair {
        digest.add(key);
        digest.add(value);
    }
}

fn shown_pair(pair: Option<&Pair>) -> String {
    pair.map_or("the end".to_owned(), |(key, value)| format!("{} = {}", shown(key), shown(value)))
}

/// Walks a new iterator from one end, `limit` pairs far and one look beyond if the end should be
/// there, and compares. Returns how many pairs it yielded.
pub(super) fn scan(
    engine: impl DoubleEndedIterator<Item = solera::Result<(Slice, Slice)>>,
    expected: &[Pair],
    backward: bool,
    limit: usize,
    digest: &mut Digest,
) -> Checked<usize> {
    let pairs = engine.map(|pair| pair.map(|(key, value)| (key.to_vec(), Some(value.to_vec()))));
    compare(pairs, expected, backward, limit, digest)
}

/// As [`scan`], keys only.
pub(super) fn scan_keys(
    engine: Keys,
    expected: &[Pair],
    backward: bool,
    limit: usize,
    digest: &mut Digest,
) -> Checked<usize> {
    compare(engine.map(|key| key.map(|key| (key.to_vec(), None))), expected, backward, limit, digest)
}

fn compare(
    mut engine: impl DoubleEndedIterator<Item = solera::Result<(Vec<u8>, Option<Vec<u8>>)>>,
    expected: &[Pair],
    backward: bool,
    limit: usize,
    digest: &mut Digest,
) -> Checked<usize> {
    let mut next = || succeeded(if backward { engine.next_back() } else { engine.next() }.transpose());
    for yielded in 0..expected.len().min(limit) {
        let wanted = &expected[if backward { expected.len() - 1 - yielded } else { yielded }];
        let found = next()?;
        if let Some((key, value)) = &found {
            digest.add(key);
            digest.add(value.as_deref().unwrap_or_default());
        }
        let same = |(key, value): &(Vec<u8>, Option<Vec<u8>>)| {
            *key == wanted.0 && value.as_ref().is_none_or(|value| *value == wanted.1)
        };
        if !found.as_ref().is_some_and(same) {
            let found = found.map(|(key, value)| (key, value.unwrap_or_default()));
            let (found, wanted) = (shown_pair(found.as_ref()), shown_pair(Some(wanted)));
            return Err(format!("pair {}: found {found}, expected {wanted}", yielded + 1));
        }
    }
    if expected.len() >= limit {
        return Ok(limit);
    }
    // The end is the end, however often one asks.
    for _ in 0..2 {
        if let Some((key, _)) = next()? {
            return Err(format!("after {} pairs: found {}, expected the end", expected.len(), shown(&key)));
        }
    }
    Ok(expected.len())
}
