//! What an open transaction has written, before any other reader can see it: `Writes`, and
//! `WritesCursor` over them.
//!
//! Writes are a list of bytes in the order in which they were made. The first read sorts their
//! places, and later reads sort what has come since, in runs that grow by halves. So a transaction
//! that only writes costs little more than a batch. `newest` and `covers` answer a lookup, `each`
//! shows all for the commit. `emptied` is where walks over them found nothing.
//!
//! What must hold: later writes hide earlier ones just as they will once committed. From 65,536
//! writes on, hidden ones are taken out where a sample of keys says that they are most. Numbers are
//! 0, so order is by position.
//! Caller: `db::transaction`, which lays the cursor over a walk (`Walk::with_fronts`).

use super::emptied::Emptied;
use crate::{
    cursor::Cursor,
    error::Result,
    ids::{SEQNO_MAX, Seqno},
    key::{self, KeyRange, Kind},
    pin::Slice,
    sync::Mutex,
    tombstone::{RangeTombstone, RangeTombstones},
};
use std::{collections::BTreeSet, sync::Arc};

/// Before the key and the stored bytes of a write: kind, and both lengths.
const HEAD_BYTES: usize = 1 + 2 + 8;
/// One key of so many is counted, to know how many different ones there are.
const SAMPLE: u64 = 64;
/// With fewer writes than this, the list does not check whether most of them are hidden.
const LOOK_WRITES_MIN: u64 = 1 << 16;

/// A source that a transaction lays in front of a walk, and its range tombstones.
pub(super) type FrontSource = (Box<dyn Cursor + Send + Sync>, Arc<RangeTombstones>);

/// One private write, as an entry would store it.
#[derive(Clone, Copy)]
pub(super) struct Write<'w> {
    pub(super) key: &'w [u8],
    pub(super) kind: Kind,
    pub(super) stored: &'w [u8],
}

/// What a transaction did, one by one.
pub(super) enum Made<'w> {
    /// It wrote.
    Write(Write<'w>),
    /// It deleted a range.
    Deleted(&'w KeyRange),
}

/// A range that was deleted, and how long the list of writes was then: it hides all of those.
#[derive(Clone)]
struct Deleted {
    range: KeyRange,
    after: u64,
}

/// A transaction's writes to one keyspace.
///
/// To the database's own merge all of them are newer than the ranges deleted: the tombstones carry
/// number 0 and so cover nothing of their own rank. What a range hides is left out here.
#[derive(Default)]
pub(super) struct Writes {
    list: Vec<u8>,
    deleted: Vec<Deleted>,
    count: u64,
    /// The hashes of one in [`SAMPLE`] of the keys.
    sampled: BTreeSet<u64>,
    /// With so many writes, whether most are hidden is looked at next.
    look_at: u64,
    index: Mutex<Index>,
    /// Where walks over just these writes found nothing.
    emptied: Mutex<Emptied>,
}

impl Clone for Writes {
    fn clone(&self) -> Self {
        let Writes { list, deleted, count, sampled, look_at, index, emptied } = self;
        Writes {
            list: list.clone(),
            deleted: deleted.clone(),
            count: *count,
            sampled: sampled.clone(),
            look_at: *look_at,
            index: Mutex::new(index.lock().clone()),
            emptied: Mutex::new(emptied.lock().clone()),
        }
    }
}

/// Where a write lies in the list, and the head of its key.
#[derive(Clone, Copy)]
struct Place {
    head: u64,
    at: usize,
}

/// The writes in the order of their keys, as far as a read has asked for it.
#[derive(Clone, Default)]
struct Index {
    /// Everything in the list before this is in the runs.
    upto: usize,
    /// Sorted by key, newest first. What is in a later run is newer.
    runs: Vec<Arc<Vec<Place>>>,
    /// The deleted ranges: a write is hidden by one with a larger number than its place.
    covers: Ranges,
    /// The same ranges with number 0, as far as a walk has asked for them: all are older than what
    /// a cursor shows.
    hides: Ranges,
}

/// Deleted ranges as tombstones, the first `upto` of all. In sets that grow by halves, so that one
/// more costs little however many there are.
#[derive(Clone, Default)]
struct Ranges {
    upto: usize,
    sets: Vec<Arc<RangeTombstones>>,
}

impl Ranges {
    /// Takes in those that came since, each with its number.
    fn refresh(&mut self, deleted: &[Deleted], number: impl Fn(&Deleted) -> Seqno) {
        if self.upto == deleted.len() {
            return;
        }
        let new = deleted[self.upto..].iter().filter_map(|one| one.numbered(number(one)));
        self.sets.push(Arc::new(RangeTombstones::new(new.collect())));
        self.upto = deleted.len();
        while let [.., older, newer] = &self.sets[..]
            && older.len() <= 2 * newer.len()
        {
            let both = older.shared().iter().chain(newer.shared()).cloned().collect();
            self.sets.truncate(self.sets.len() - 2);
            self.sets.push(Arc::new(RangeTombstones::from_shared(both)));
        }
    }

    /// The largest number of a range that holds `key`.
    fn covering(&self, key: &[u8]) -> Option<Seqno> {
        self.sets.iter().filter_map(|set| set.covering(key, SEQNO_MAX)).max()
    }
}

/// The write at `at` of the list, and where the next one begins.
fn write_at(list: &[u8], at: usize) -> (Write<'_>, usize) {
    let head = &list[at..at + HEAD_BYTES];
    let kind = Kind::from_u8(head[0]).expect("written by `set`");
    let key_len = usize::from(u16::from_le_bytes([head[1], head[2]]));
    let stored_len = u64::from_le_bytes(std::array::from_fn(|i| head[3 + i])) as usize;
    let (key_at, stored_at) = (at + HEAD_BYTES, at + HEAD_BYTES + key_len);
    let next = stored_at + stored_len;
    (Write { key: &list[key_at..stored_at], kind, stored: &list[stored_at..next] }, next)
}

impl Writes {
    /// A write whose stored bytes are the concatenation of `stored`.
    pub(super) fn set(&mut self, key: &[u8], kind: Kind, stored: &[&[u8]]) {
        push(&mut self.list, key, kind, stored);
        if kind != Kind::Delete {
            self.emptied.lock().wrote(key);
        }
        self.count += 1;
        let hash = key::hash(key);
        if hash.is_multiple_of(SAMPLE) {
            self.sampled.insert(hash);
        }
        if self.count >= self.look_at.max(LOOK_WRITES_MIN) {
            let different = self.sampled.len() as u64 * SAMPLE;
            if different < self.count / 2 {
                self.drop_hidden();
            }
            self.look_at = self.count * 2;
        }
    }

    pub(super) fn delete_range(&mut self, start: &[u8], end: &[u8]) {
        self.deleted.push(Deleted { range: KeyRange::half_open(start, end), after: self.list.len() as u64 });
    }

    /// What a walk sees of the writes, each source newer than the one before it, with the range
    /// tombstones that go with it. All but the last have nothing but tombstones.
    pub(super) fn sources(self: &Arc<Self>) -> Vec<FrontSource> {
        let cursor = WritesCursor::new(self.clone());
        let mut index = self.index.lock();
        index.hides.refresh(&self.deleted, |_| 0);
        let nothing = || Box::new(WritesCursor::new(Arc::default())) as Box<dyn Cursor + Send + Sync>;
        let mut sources: Vec<_> = index.hides.sets.iter().map(|set| (nothing(), set.clone())).collect();
        sources.push((Box::new(cursor), Arc::default()));
        sources
    }

    /// The newest write to `key`, unless a range that was deleted later hides it.
    pub(super) fn newest(&self, key: &[u8]) -> Option<Write<'_>> {
        let mut index = self.index.lock();
        index.refresh(self);
        index.versions(&self.list, key).first().map(|&at| write_at(&self.list, at).0)
    }

    /// Whether a range that was deleted holds `key`.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        if self.deleted.is_empty() {
            return false;
        }
        let mut index = self.index.lock();
        index.refresh(self);
        index.covers.covering(key).is_some()
    }

    /// Where walks over just these writes found nothing.
    pub(super) fn emptied(&self) -> &Mutex<Emptied> {
        &self.emptied
    }

    /// Shows each write and each deleted range, in the order in which they were made.
    pub(super) fn each(&self, mut show: impl FnMut(Made<'_>) -> Result<()>) -> Result<()> {
        let (mut at, mut ranges) = (0, self.deleted.iter().peekable());
        while at < self.list.len() {
            while let Some(range) = ranges.next_if(|range| range.after <= at as u64) {
                show(Made::Deleted(&range.range))?;
            }
            let (one, next) = write_at(&self.list, at);
            show(Made::Write(one))?;
            at = next;
        }
        ranges.try_for_each(|range| show(Made::Deleted(&range.range)))
    }

    /// Makes the list anew of what is not hidden. The ranges stand before it then: of the rest they
    /// hide nothing.
    fn drop_hidden(&mut self) {
        let mut index = self.index.lock();
        index.refresh(self);
        let mut kept: Vec<usize> = Vec::new();
        let mut key = index.first_key(&self.list).map(<[u8]>::to_vec);
        while let Some(one) = key {
            kept.extend(index.versions(&self.list, &one));
            key = index.key_after(&self.list, &one).map(<[u8]>::to_vec);
        }
        drop(index);
        kept.sort_unstable();
        let mut list = Vec::new();
        for &at in &kept {
            let (Write { key, kind, stored }, _) = write_at(&self.list, at);
            push(&mut list, key, kind, &[stored]);
        }
        self.deleted.iter_mut().for_each(|deleted| deleted.after = 0);
        (self.list, self.count) = (list, kept.len() as u64);
        self.index = Mutex::default();
    }
}

fn push(list: &mut Vec<u8>, key: &[u8], kind: Kind, stored: &[&[u8]]) {
    let stored_len: usize = stored.iter().map(|part| part.len()).sum();
    let key_len = u16::try_from(key.len()).expect("a key is under 64 KiB");
    list.reserve(HEAD_BYTES + key.len() + stored_len);
    list.push(kind as u8);
    list.extend_from_slice(&key_len.to_le_bytes());
    list.extend_from_slice(&(stored_len as u64).to_le_bytes());
    list.extend_from_slice(key);
    stored.iter().for_each(|part| list.extend_from_slice(part));
}

impl Deleted {
    /// The range as a tombstone with that number; `None`: it has no end that a tombstone can have.
    fn numbered(&self, seqno: Seqno) -> Option<RangeTombstone> {
        let end = self.range.end.key()?;
        Some(RangeTombstone { start: self.range.start[..].into(), end: end.into(), seqno })
    }
}

impl Index {
    /// Takes in what was written since.
    fn refresh(&mut self, writes: &Writes) {
        let list = &writes.list;
        self.covers.refresh(&writes.deleted, |deleted| deleted.after);
        if self.upto == list.len() {
            return;
        }
        let mut run = Vec::new();
        while self.upto < list.len() {
            let (write, next) = write_at(list, self.upto);
            run.push(Place { head: key::head(write.key), at: self.upto });
            self.upto = next;
        }
        run.sort_unstable_by(|a, b| {
            let by_key = || write_at(list, a.at).0.key.cmp(write_at(list, b.at).0.key);
            a.head.cmp(&b.head).then_with(by_key).then(b.at.cmp(&a.at))
        });
        self.runs.push(Arc::new(run));
        while let [.., older, newer] = &self.runs[..]
            && older.len() <= 2 * newer.len()
        {
            let merged = Arc::new(merged(list, older, newer));
            self.runs.truncate(self.runs.len() - 2);
            self.runs.push(merged);
        }
    }

    /// Where the writes to `key` lie that count, newest first: up to the first that is no operand.
    fn versions(&self, list: &[u8], key: &[u8]) -> Vec<usize> {
        let covered = self.covers.covering(key).unwrap_or(0);
        let mut versions = Vec::new();
        for run in self.runs.iter().rev() {
            for place in &run[rank(list, run, key)..] {
                let (write, _) = write_at(list, place.at);
                if write.key != key || covered > place.at as u64 {
                    break;
                }
                versions.push(place.at);
                if write.kind != Kind::Merge {
                    return versions;
                }
            }
        }
        versions
    }

    /// The smallest key that was written.
    fn first_key<'l>(&self, list: &'l [u8]) -> Option<&'l [u8]> {
        self.smallest(list, |_| 0)
    }

    /// The smallest key that was written and is at least `key`.
    fn key_from<'l>(&self, list: &'l [u8], key: &[u8]) -> Option<&'l [u8]> {
        self.smallest(list, |run| rank(list, run, key))
    }

    /// The smallest key that was written and is above `key`.
    fn key_after<'l>(&self, list: &'l [u8], key: &[u8]) -> Option<&'l [u8]> {
        self.smallest(list, |run| rank_after(list, run, key))
    }

    /// The largest key that was written, and is below `key` if one is given.
    fn key_before<'l>(&self, list: &'l [u8], key: Option<&[u8]>) -> Option<&'l [u8]> {
        let last = |run: &Arc<Vec<Place>>| {
            let end = key.map_or(run.len(), |key| rank(list, run, key));
            Some(write_at(list, run.get(end.checked_sub(1)?)?.at).0.key)
        };
        self.runs.iter().filter_map(last).max()
    }

    fn smallest<'l>(&self, list: &'l [u8], from: impl Fn(&[Place]) -> usize) -> Option<&'l [u8]> {
        let first = |run: &Arc<Vec<Place>>| run.get(from(run)).map(|place| write_at(list, place.at).0.key);
        self.runs.iter().filter_map(first).min()
    }
}

/// How many writes of a run are to keys below `key`.
fn rank(list: &[u8], run: &[Place], key: &[u8]) -> usize {
    let head = key::head(key);
    run.partition_point(|place| {
        place.head < head || place.head == head && write_at(list, place.at).0.key < key
    })
}

/// How many writes of a run are to keys up to `key`.
fn rank_after(list: &[u8], run: &[Place], key: &[u8]) -> usize {
    let head = key::head(key);
    run.partition_point(|place| {
        place.head < head || place.head == head && write_at(list, place.at).0.key <= key
    })
}

/// Two runs as one; what is in `newer` is newer.
fn merged(list: &[u8], older: &[Place], newer: &[Place]) -> Vec<Place> {
    let mut all = Vec::with_capacity(older.len() + newer.len());
    let (mut older, mut newer) = (older.iter().copied().peekable(), newer.iter().copied().peekable());
    while let (Some(old), Some(new)) = (older.peek(), newer.peek()) {
        let by_key = || write_at(list, old.at).0.key.cmp(write_at(list, new.at).0.key);
        let next = match old.head.cmp(&new.head).then_with(by_key).is_lt() {
            true => &mut older,
            false => &mut newer,
        };
        all.extend(next.next());
    }
    all.extend(older);
    all.extend(newer);
    all
}

/// Walks a transaction's writes to one keyspace. Numbers are 0: visible at every snapshot; order is
/// by position.
pub(super) struct WritesCursor {
    writes: Arc<Writes>,
    index: Index,
    /// Where the writes lie that count of the key that it stands on, newest first; empty: nowhere.
    versions: Vec<usize>,
    /// On which of them it stands.
    at: usize,
}

impl WritesCursor {
    pub(super) fn new(writes: Arc<Writes>) -> Self {
        let index = {
            let mut index = writes.index.lock();
            index.refresh(&writes);
            index.clone()
        };
        WritesCursor { writes, index, versions: Vec::new(), at: 0 }
    }

    /// Stands on the first key from `key` on that has writes that count.
    fn stand_from(&mut self, key: Option<Vec<u8>>) {
        let mut key = key;
        while let Some(one) = key {
            self.versions = self.index.versions(&self.writes.list, &one);
            if !self.versions.is_empty() {
                self.at = 0;
                return;
            }
            key = self.index.key_after(&self.writes.list, &one).map(<[u8]>::to_vec);
        }
        self.versions.clear();
    }

    /// Stands on the oldest write that counts of the last key up to `key` that has any.
    fn stand_up_to(&mut self, key: Option<Vec<u8>>) {
        let mut key = key;
        while let Some(one) = key {
            self.versions = self.index.versions(&self.writes.list, &one);
            if let Some(oldest) = self.versions.len().checked_sub(1) {
                self.at = oldest;
                return;
            }
            key = self.index.key_before(&self.writes.list, Some(&one)).map(<[u8]>::to_vec);
        }
        self.versions.clear();
    }

    fn current(&self) -> Option<Write<'_>> {
        self.versions.get(self.at).map(|&at| write_at(&self.writes.list, at).0)
    }
}

impl Cursor for WritesCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand_from(self.index.first_key(&self.writes.list).map(<[u8]>::to_vec));
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        self.stand_up_to(self.index.key_before(&self.writes.list, None).map(<[u8]>::to_vec));
        Ok(())
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.stand_from(self.index.key_from(&self.writes.list, key).map(<[u8]>::to_vec));
        Ok(())
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.stand_up_to(self.index.key_before(&self.writes.list, Some(key)).map(<[u8]>::to_vec));
        Ok(())
    }
    fn next(&mut self) -> Result<()> {
        if self.at + 1 < self.versions.len() {
            self.at += 1;
            return Ok(());
        }
        let Some(write) = self.current() else { return Ok(()) };
        let next = self.index.key_after(&self.writes.list, write.key).map(<[u8]>::to_vec);
        self.stand_from(next);
        Ok(())
    }
    fn next_key(&mut self) -> Result<()> {
        self.at = self.versions.len().saturating_sub(1);
        self.next()
    }
    fn prev(&mut self) -> Result<()> {
        if self.at > 0 {
            self.at -= 1;
            return Ok(());
        }
        let Some(write) = self.current() else { return Ok(()) };
        let before = self.index.key_before(&self.writes.list, Some(write.key)).map(<[u8]>::to_vec);
        self.stand_up_to(before);
        Ok(())
    }
    fn valid(&self) -> bool {
        !self.versions.is_empty()
    }
    fn key(&self) -> &[u8] {
        self.current().map_or(&[], |write| write.key)
    }
    fn head(&self) -> u64 {
        key::head(self.key())
    }
    fn seqno(&self) -> Seqno {
        0
    }
    fn kind(&self) -> Kind {
        self.current().map_or(Kind::Delete, |write| write.kind)
    }
    fn value(&self) -> &[u8] {
        self.current().map_or(&[], |write| write.stored)
    }
    fn pin_value(&self) -> Slice {
        Slice::copy_from(self.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum Step {
        Set(Vec<u8>, Kind, Vec<u8>),
        Delete(Vec<u8>, Vec<u8>),
        Look,
        DropHidden,
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = || prop::collection::vec(0u8..3, 0..11);
        let kind = prop_oneof![Just(Kind::Put), Just(Kind::Merge), Just(Kind::Delete)];
        prop_oneof![
            8 => (key(), kind, any::<Vec<u8>>()).prop_map(|(key, kind, stored)| Step::Set(key, kind, stored)),
            1 => (key(), key()).prop_map(|(start, end)| Step::Delete(start, end)),
            2 => Just(Step::Look),
            1 => Just(Step::DropHidden),
        ]
    }

    /// For each key the writes that count, newest first.
    type Model = BTreeMap<Vec<u8>, Vec<(Kind, Vec<u8>)>>;

    fn shown(cursor: &WritesCursor) -> (Vec<u8>, Kind, Vec<u8>) {
        (cursor.key().to_vec(), cursor.kind(), cursor.value().to_vec())
    }

    fn check(writes: &Writes, model: &Model) {
        let expected: Vec<_> = model
            .iter()
            .flat_map(|(key, versions)| {
                versions.iter().map(|(kind, stored)| (key.clone(), *kind, stored.clone()))
            })
            .collect();
        let mut cursor = WritesCursor::new(Arc::new(writes.clone()));
        let mut forth = Vec::new();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            forth.push(shown(&cursor));
            cursor.next().unwrap();
        }
        assert_eq!(forth, expected);
        let mut back = Vec::new();
        cursor.seek_last().unwrap();
        while cursor.valid() {
            back.push(shown(&cursor));
            cursor.prev().unwrap();
        }
        back.reverse();
        assert_eq!(back, expected);
        for (key, versions) in model {
            let newest = writes.newest(key).map(|write| (write.kind, write.stored.to_vec()));
            assert_eq!(newest.as_ref(), versions.first());
            cursor.seek(key).unwrap();
            assert_eq!(cursor.key(), &key[..]);
            cursor.next_key().unwrap();
            let after = model.range(key.clone()..).nth(1).map(|(key, _)| key.clone());
            assert_eq!(cursor.valid().then(|| cursor.key().to_vec()), after);
            cursor.seek_before(key).unwrap();
            let before = model.range(..key.clone()).next_back().map(|(key, _)| key.clone());
            assert_eq!(cursor.valid().then(|| cursor.key().to_vec()), before);
        }
    }

    proptest! {
        #[test]
        fn writes_are_what_a_map_of_lists_says(steps in prop::collection::vec(step(), 0..60)) {
            let (mut writes, mut model) = (Writes::default(), Model::new());
            for step in steps {
                match step {
                    Step::Set(key, kind, stored) => {
                        let (first, second) = stored.split_at(stored.len() / 2);
                        writes.set(&key, kind, &[first, second]);
                        let versions = model.entry(key).or_default();
                        if kind != Kind::Merge {
                            versions.clear();
                        }
                        versions.insert(0, (kind, stored));
                    }
                    Step::Delete(start, end) => {
                        writes.delete_range(&start, &end);
                        model.retain(|key, _| !(start <= *key && *key < end));
                    }
                    Step::Look => check(&writes, &model),
                    Step::DropHidden => writes.drop_hidden(),
                }
            }
            check(&writes, &model);
        }
    }

    /// Symptom: a counter that a transaction counted up ten million times would take as many
    /// entries. Cause: writes are a list. Cure: what is hidden goes before it outweighs the rest.
    #[test]
    fn a_key_that_is_written_again_and_again_takes_no_more_and_more_memory() {
        let mut writes = Writes::default();
        for n in 0..3 * LOOK_WRITES_MIN {
            writes.set(b"counter", Kind::Put, &[&n.to_le_bytes()]);
        }
        assert!(writes.count <= LOOK_WRITES_MIN && writes.list.len() < 2 << 20);
        let newest = writes.newest(b"counter").unwrap();
        assert_eq!(newest.stored, (3 * LOOK_WRITES_MIN - 1).to_le_bytes());
        let mut count = 0;
        writes
            .each(|_| {
                count += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(count, writes.count);
    }

    /// Symptom: n deleted ranges with a lookup after each took n² steps, 30 s for 20,000. Cause:
    /// all were put in order anew. Cure: sets that grow by halves.
    #[test]
    fn ranges_that_are_deleted_one_by_one_are_put_in_order_a_few_times_each() {
        let (mut writes, mut ordered) = (Writes::default(), 0);
        let mut sets = Vec::new();
        for n in 0..4096u32 {
            let key = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
            writes.delete_range(&key, &[&key[..], &[0]].concat());
            assert!(writes.covers(&key));
            let now = writes.index.lock().covers.sets.clone();
            let is_new = |set: &&Arc<RangeTombstones>| !sets.iter().any(|old| Arc::ptr_eq(old, set));
            ordered += now.iter().filter(is_new).map(|set| set.len()).sum::<usize>();
            sets = now;
        }
        assert!(sets.len() <= 12 && ordered <= 4096 * 16, "{} sets, {ordered} ordered", sets.len());
    }
}
