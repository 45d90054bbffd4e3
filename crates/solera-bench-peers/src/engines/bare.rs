//! `Bare`, which shows what a lookup in memory costs at least: a sorted run, a filter and
//! boundaries.
//!
//! It keeps nothing on disk and has no log. A lookup touches one line of a blocked Bloom filter, a
//! line of boundaries, the heads of a block, and the record. A straight line between the first and
//! the last boundary says where to look; uneven keys need more lines than one.
//!
//! What must hold: all keys have one length, at least 8 bytes, and all values have one. No key is
//! put twice, and none is deleted. `settle` comes between the last put and the first reader. No put
//! comes while a reader lives.
//!
//! Caller: `engines::open`.

use crate::engine::{Engine, Reader, Result, Setting};
use solera::key::head;
use std::sync::RwLock;

/// Entries of a block: as many as one of 4 KiB has of pairs of 72 bytes.
const BLOCK_ENTRIES: usize = 55;
/// Bits of a filter for each key, in lines of 512.
const FILTER_BITS: usize = 10;
const LINE_WORDS: usize = 8;

#[derive(Default)]
pub struct Bare(RwLock<Run>);

#[derive(Default)]
struct Run {
    key_bytes: usize,
    pair_bytes: usize,
    /// Pairs, those that come last until [`Engine::settle`] sorts them.
    pairs: Vec<u8>,
    /// The first eight bytes of each key, and of the first of each block.
    heads: Vec<u64>,
    boundaries: Vec<u64>,
    filter: Vec<[u64; LINE_WORDS]>,
}

impl Bare {
    pub fn open(setting: &Setting) -> Self {
        let mut run = Run::default();
        run.pairs.reserve_exact(setting.data_bytes as usize);
        Bare(RwLock::new(run))
    }
}

/// Where a key lies in a filter of so many lines: line, and words with their bits.
fn filter_place(head: u64, lines: usize) -> (usize, [u64; LINE_WORDS]) {
    let hash = (head ^ head >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let line = ((u128::from(hash) * lines as u128) >> 64) as usize;
    let bits = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mut words = [0; LINE_WORDS];
    for probe in 0..6 {
        let place = (bits >> (10 * probe)) as usize & 511;
        words[place / 64] |= 1 << (place % 64);
    }
    (line, words)
}

impl Run {
    fn len(&self) -> usize {
        self.pairs.len().checked_div(self.pair_bytes).unwrap_or(0)
    }

    fn pair(&self, rank: usize) -> (&[u8], &[u8]) {
        self.pairs[rank * self.pair_bytes..][..self.pair_bytes].split_at(self.key_bytes)
    }

    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.pairs.is_empty() {
            (self.key_bytes, self.pair_bytes) = (key.len(), key.len() + value.len());
        }
        if (self.key_bytes, self.pair_bytes) != (key.len(), key.len() + value.len()) || key.len() < 8 {
            return Err("bare reads are of keys of one length, from 8 bytes, and values of one".into());
        }
        self.pairs.extend_from_slice(key);
        self.pairs.extend_from_slice(value);
        Ok(())
    }

    fn sort(&mut self) {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by_key(|&rank| self.pair(rank as usize).0);
        let sorted = order.iter().flat_map(|&rank| {
            let start = rank as usize * self.pair_bytes;
            &self.pairs[start..start + self.pair_bytes]
        });
        self.pairs = sorted.copied().collect();
        self.heads = (0..self.len()).map(|rank| head(self.pair(rank).0)).collect();
        self.boundaries = self.heads.iter().step_by(BLOCK_ENTRIES).copied().collect();
        self.filter = vec![[0; LINE_WORDS]; (self.len() * FILTER_BITS).div_ceil(64 * LINE_WORDS).max(1)];
        for head in &self.heads {
            let (line, words) = filter_place(*head, self.filter.len());
            self.filter[line].iter_mut().zip(words).for_each(|(word, bits)| *word |= bits);
        }
    }

    fn may_have(&self, head: u64) -> bool {
        let (line, words) = filter_place(head, self.filter.len());
        self.filter[line].iter().zip(words).all(|(word, bits)| word & bits == bits)
    }

    /// How many of the sorted heads lie below this one: from where a line over their range points.
    fn rank(heads: &[u64], head: u64) -> usize {
        let (Some(&first), Some(&last)) = (heads.first(), heads.last()) else { return 0 };
        let is_below = |other: u64| other < head;
        let span = u128::from(last.saturating_sub(first)).max(1);
        let place = u128::from(head.saturating_sub(first)) * (heads.len() - 1) as u128 / span;
        let mut at = (place as usize).min(heads.len() - 1);
        // Out from there in doubling steps, then halves between.
        let (mut low, mut high);
        let mut step = 4;
        if is_below(heads[at]) {
            low = at + 1;
            high = loop {
                at += step;
                if at >= heads.len() {
                    break heads.len();
                }
                if !is_below(heads[at]) {
                    break at;
                }
                (low, step) = (at + 1, step * 2);
            };
        } else {
            high = at;
            low = loop {
                if at < step {
                    break 0;
                }
                at -= step;
                if is_below(heads[at]) {
                    break at + 1;
                }
                (high, step) = (at, step * 2);
            };
        }
        low + heads[low..high].partition_point(|&other| is_below(other))
    }

    /// The rank of the first key from this one on.
    fn seek(&self, key: &[u8]) -> usize {
        let head = head(key);
        let block = Run::rank(&self.boundaries, head).saturating_sub(1);
        let start = block * BLOCK_ENTRIES;
        let end = (start + BLOCK_ENTRIES).min(self.heads.len());
        let mut rank = start + Run::rank(&self.heads[start..end], head);
        while rank < self.len() && self.pair(rank).0 < key {
            rank += 1;
        }
        rank
    }
}

impl Engine for Bare {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.write().map_err(|_| "poisoned")?.push(key, value)
    }

    fn delete(&self, _: &[u8]) -> Result<()> {
        Err("bare reads delete nothing".into())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let run = self.0.read().map_err(|_| "poisoned")?;
        if run.heads.len() != run.len() {
            return Err("bare reads begin when the pairs are sorted".into());
        }
        Ok(Box::new(Reading(run)))
    }

    fn settle(&self) -> Result<()> {
        self.0.write().map_err(|_| "poisoned")?.sort();
        Ok(())
    }
}

struct Reading<'a>(std::sync::RwLockReadGuard<'a, Run>);

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], value: &mut dyn FnMut(&[u8])) -> Result<bool> {
        if !self.0.may_have(head(key)) {
            return Ok(false);
        }
        let rank = self.0.seek(key);
        let found = rank < self.0.len() && self.0.pair(rank).0 == key;
        if found {
            value(self.0.pair(rank).1);
        }
        Ok(found)
    }

    fn scan(
        &mut self,
        from: &[u8],
        limit: usize,
        backwards: bool,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let len = self.0.len();
        let mut ranks: Box<dyn Iterator<Item = usize>> =
            if backwards { Box::new((0..len).rev()) } else { Box::new(self.0.seek(from)..len) };
        let mut count = 0;
        ranks.by_ref().take(limit).for_each(|rank| {
            let (key, value) = self.0.pair(rank);
            entry(key, value);
            count += 1;
        });
        Ok(count)
    }
}
