//! Test that iterators over large entries pause: very many of them stay within the budget, and
//! yield what they would yield without a pause.
//!
//! Symptom: 200 iterators over keys of 60,000 bytes took 151 MiB beside a budget of 64. Cause: each
//! held a block and a key for each run, which were counted nowhere. Cure: an iterator that has
//! handed out a large entry lets go of both while walks hold too much, and finds its place again.
//! One test and a process of its own, because the pools are the process's. Door: `Db`.

use solera::{Db, Iter, Options, pool::BLOCKS, vfs::mem::MemFs};
use std::{
    collections::BTreeMap,
    ops::Bound::{self, Excluded, Included, Unbounded},
    sync::Arc,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const BUDGET: u64 = 8 << 20;
const ENTRIES: u64 = 400;
const LARGE_BYTES: usize = 40_000;
const ITERATORS: usize = 200;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    /// Bytes that do not compress.
    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(len).collect()
    }
}

/// Every fourth key is long, and so is every fourth value; the others are short.
fn entry(n: u64, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let mut key = format!("{:04}", n).into_bytes();
    if n.is_multiple_of(4) {
        key.resize(LARGE_BYTES, b'k');
    }
    let value_len = if n % 4 == 2 { LARGE_BYTES } else { 20 };
    (key, random.bytes(value_len))
}

/// An iterator, and what it has left.
struct Walk {
    iter: Iter,
    left: (Bound<Vec<u8>>, Bound<Vec<u8>>),
}

impl Walk {
    /// Some random move, checked against the model.
    fn go(&mut self, model: &Model, keys: &[Vec<u8>], random: &mut Random) {
        let some_key = keys[random.below(keys.len() as u64) as usize].clone();
        let is_empty = match (&self.left.0, &self.left.1) {
            (Included(start) | Excluded(start), Included(end) | Excluded(end)) if start > end => true,
            (Excluded(start), Included(end) | Excluded(end)) | (Included(start), Excluded(end)) => {
                start == end
            }
            _ => false,
        };
        let mut rest = (!is_empty).then(|| model.range(self.left.clone()));
        match random.below(16) {
            0 => {
                self.iter.seek(&some_key).unwrap();
                self.left.0 = Included(some_key);
            }
            1 => {
                self.iter.seek_back(&some_key).unwrap();
                self.left.1 = Included(some_key);
            }
            2..6 => {
                let expected = rest.as_mut().and_then(|rest| rest.next_back());
                let found = self.iter.next_back().transpose().unwrap();
                assert_eq!(
                    found.as_ref().map(|(k, v)| (&k[..], &v[..])),
                    expected.map(|(k, v)| (&k[..], &v[..]))
                );
                if let Some((key, _)) = found {
                    self.left.1 = Excluded(key.to_vec());
                }
            }
            _ => {
                let expected = rest.as_mut().and_then(|rest| rest.next());
                let found = self.iter.next().transpose().unwrap();
                assert_eq!(
                    found.as_ref().map(|(k, v)| (&k[..], &v[..])),
                    expected.map(|(k, v)| (&k[..], &v[..]))
                );
                if let Some((key, _)) = found {
                    self.left.0 = Excluded(key.to_vec());
                }
            }
        }
    }
}

fn fill(db: &Db, model: &mut Model, numbers: impl Iterator<Item = u64>, random: &mut Random) {
    for n in numbers {
        let (key, value) = entry(n, random);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
        while db.step().unwrap() {}
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn very_many_iterators_over_large_entries_pause_and_yield_what_they_would() {
    let options = Options::new().fs(Arc::new(MemFs::new())).background_threads(0).memory(BUDGET).seed(1);
    let db = options.open("/db").unwrap();
    let (mut model, mut random) = (Model::new(), Random(7));
    fill(&db, &mut model, 0..ENTRIES, &mut random);
    db.flush().unwrap();
    // A second run over some of them, and deleted ones.
    fill(&db, &mut model, (0..ENTRIES).step_by(3), &mut random);
    for key in model.keys().step_by(7).cloned().collect::<Vec<_>>() {
        db.delete(&key).unwrap();
        model.remove(&key);
    }
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    let mut walks: Vec<Walk> =
        (0..ITERATORS).map(|_| Walk { iter: db.iter(), left: (Unbounded, Unbounded) }).collect();
    // What comes later they do not see.
    db.put("0000", "late").unwrap();
    let mut most = 0;
    for _ in 0..60 {
        for walk in &mut walks {
            walk.go(&model, &keys, &mut random);
        }
        most = most.max(BLOCKS.held_bytes());
    }
    let cache = db.stats().block_cache_bytes as usize;
    assert!(most < 8 << 20, "blocks took {most} bytes, of which the cache has {cache}");
    drop(walks);
    // Nothing is counted any more: a walk alone holds what it stands on.
    let mut iter = db.iter();
    while let Some(pair) = iter.next() {
        let (key, value) = pair.unwrap();
        assert!(iter.key().is_empty() || iter.key() == &*key && iter.value() == &*value);
    }
}
