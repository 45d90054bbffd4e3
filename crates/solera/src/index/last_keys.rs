//! `LastKeys`: the last few keys of each block but the table's last one, at most 8 (`KEPT_MAX`).
//!
//! They lie right below the boundaries, where an index errs. What an index says ascends with keys,
//! so the keys that it sends too far are the last of their block. If it sends the least kept key
//! aright, all smaller ones go aright too: keys that go astray are counted from few.
//!
//! What must hold: the keys of a block are pushed ascending, at least one. Fewer than `KEPT_MAX`
//! means that it has no others. They may be beginnings of keys that stay between the separators
//! around their block. `of` counts the different keys of the whole table.
//!
//! Callers: `table::writer` fills it, and pages of `solera-bench` do. `index::learned` trains and
//! counts by it; `index::mod` hands it on, and takes `of` for `GreedyPlr`.

use super::separators::Separators;

/// So many different keys of a block are kept at most.
pub const KEPT_MAX: usize = 8;

/// The last keys of every block but the last one.
#[derive(Clone, Debug, Default)]
pub struct LastKeys {
    /// Ascending; or beginnings of them that go on some bytes beyond where the separators around
    /// their block end. What is left out of separators is left out here.
    keys: Separators,
    /// Those of the first block, whole, if something is left out: they may begin otherwise.
    first: Vec<Box<[u8]>>,
    /// Where the keys of each block end.
    ends: Vec<u32>,
    /// Different keys of the table.
    of: u64,
}

impl LastKeys {
    /// Of a table of so many different keys, that has no blocks yet.
    pub fn new(of: u64) -> LastKeys {
        LastKeys { of, ..LastKeys::default() }
    }

    /// Adds a block: its last keys, at least one, ascending. If they are less than [`KEPT_MAX`], it
    /// has no others.
    pub fn push<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) {
        keys.into_iter().for_each(|key| self.keys.push(key.as_ref()));
        debug_assert!(self.keys.len() > self.begin(self.ends.len()), "a block has a key");
        self.ends.push(self.keys.len() as u32);
    }

    /// [`LastKeys::push`] where separators begin with `begin`, which is left out of keys too.
    /// `tail` was left out before and is not now. A key that begins otherwise is below all
    /// separators: it counts as empty.
    pub(crate) fn push_behind<'k>(
        &mut self,
        begin: &[u8],
        tail: &[u8],
        keys: impl IntoIterator<Item = &'k [u8]>,
    ) {
        let behind = |key: &'k [u8]| key.strip_prefix(begin).unwrap_or_default();
        if begin.is_empty() && tail.is_empty() {
            return self.push(keys);
        }
        if self.ends.is_empty() {
            self.first = keys.into_iter().map(Box::from).collect();
            let LastKeys { keys, first, ends, .. } = self;
            first.iter().for_each(|key| keys.push(key.strip_prefix(begin).unwrap_or_default()));
            return ends.push(keys.len() as u32);
        }
        if !tail.is_empty() {
            self.put_back(begin, tail);
        }
        self.push(keys.into_iter().map(behind));
    }

    /// Puts `tail` before what is behind it, of all keys; they are behind `begin` then.
    fn put_back(&mut self, begin: &[u8], tail: &[u8]) {
        self.keys.put_back(tail);
        let mut keys = Separators::new();
        self.first.iter().for_each(|key| keys.push(key.strip_prefix(begin).unwrap_or_default()));
        self.keys.iter().skip(self.first.len()).for_each(|key| keys.push(key));
        self.keys = keys;
    }

    /// Says how many different keys the table has.
    pub fn set_of(&mut self, of: u64) {
        self.of = of;
    }

    /// Different keys of the table.
    pub fn of(&self) -> u64 {
        self.of
    }

    /// Blocks, without the last one.
    pub fn blocks(&self) -> usize {
        self.ends.len()
    }

    /// The last key of a block.
    pub fn last(&self, block: usize) -> &[u8] {
        self.keys.get(self.ends[block] as usize - 1)
    }

    /// The least of the last keys of a block.
    pub fn least(&self, block: usize) -> &[u8] {
        self.keys.get(self.begin(block))
    }

    /// The least of the last keys of a block that may have others.
    pub(super) fn least_of_more(&self, block: usize) -> Option<&[u8]> {
        let kept = self.ends[block] as usize - self.begin(block);
        (kept >= KEPT_MAX).then(|| self.least(block))
    }

    /// The last keys of a block, the last first.
    pub fn backwards(&self, block: usize) -> impl Iterator<Item = &[u8]> {
        (self.begin(block)..self.ends[block] as usize).rev().map(|i| self.keys.get(i))
    }

    /// The last keys of some of the blocks, ascending, as if a table had no others.
    pub(super) fn only(&self, blocks: impl Iterator<Item = usize>) -> LastKeys {
        let mut some = LastKeys::default();
        for block in blocks {
            some.push((self.begin(block)..self.ends[block] as usize).map(|i| self.keys.get(i)));
        }
        some.of = self.of * (some.blocks() as u64 + 1) / (self.blocks() as u64 + 1);
        some
    }

    /// Of so many boundaries one may lie above a last key and be taken to lie below it, if no more
    /// than one key in `one_in` is to be sent too far.
    pub(super) fn part(&self, one_in: f64) -> f64 {
        self.of as f64 / (self.blocks() + 1) as f64 / one_in
    }

    fn begin(&self, block: usize) -> usize {
        if block == 0 { 0 } else { self.ends[block - 1] as usize }
    }
}
