//! Tests of `Merge`, `Forward` and `Backward` against a history of writes played onto a map.
//!
//! A merge is the sorted list of all entries. Walkers show what the history left at any snapshot,
//! also through lent entries, and a failing source fails the walk until the next seek. Operands
//! without an operator, refusing operators and malformed expiries are errors of one pair. Calls are
//! counted: a key written a thousand times costs a few steps, and a deleted range is passed by
//! seeking.

use super::{
    visible::{Backward, Forward, Scope},
    *,
};
use crate::{
    block::{Block, BlockBuilder, LastMile, LentEntries},
    cursor::{Cursor, Lending, Lent},
    error::{Error, Result},
    ids::{SEQNO_MAX, Seqno},
    key::{KeyEnd, KeyRange, Kind, SharedRange, head},
    memtable::{Memtable, MemtableCursor},
    operator::Append,
    pin::Slice,
    sight::Reader,
    tombstone::{RangeTombstone, RangeTombstones},
};
use proptest::prelude::*;
use std::{cell::Cell, collections::BTreeMap, ops::Range, rc::Rc, sync::Arc};

type Key = Vec<u8>;
type Pair = (Key, Vec<u8>);

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: Key,
    seqno: Seqno,
    kind: Kind,
    value: Vec<u8>,
}

/// A source that is a sorted list. Counts its calls, and fails when it is told to.
#[derive(Clone)]
struct ListCursor {
    entries: Arc<Vec<Entry>>,
    at: Option<usize>,
    calls: Rc<Cell<usize>>,
    /// How often it has lent entries.
    lent: Rc<Cell<usize>>,
    /// The place of the first entry in the block that it lent last, and of the first one behind it.
    lent_from: usize,
    lent_to: usize,
    /// How often it has gone on to lend, and for which snapshot.
    went_on: Rc<Cell<usize>>,
    lent_for: Seqno,
    fails_at_call: Option<usize>,
    /// What it expects, and where it then goes.
    expects: Option<(Key, Option<usize>)>,
}

impl ListCursor {
    fn new(entries: Arc<Vec<Entry>>) -> Self {
        ListCursor {
            entries,
            at: None,
            calls: Rc::default(),
            lent: Rc::default(),
            lent_from: 0,
            lent_to: 0,
            went_on: Rc::default(),
            lent_for: 0,
            fails_at_call: None,
            expects: None,
        }
    }

    /// Expects the entry at a place, if there is one, by one of two keys that it does not come
    /// before: its own, or `bound`.
    fn expect_at(&mut self, at: Option<usize>, bound: Option<Key>) -> Result<()> {
        let own = at.and_then(|at| Some(self.entries.get(at)?.key.clone()));
        match (bound, own) {
            (Some(bound), None) => self.expects = Some((bound, None)),
            (Some(bound), Some(own)) => {
                let is_own = at.is_some_and(|at| at.is_multiple_of(2));
                self.expects = Some((if is_own { own } else { bound }, at));
            }
            (None, _) => return self.go(at),
        }
        self.at = None;
        Ok(())
    }

    fn go(&mut self, at: Option<usize>) -> Result<()> {
        self.expects = None;
        self.calls.set(self.calls.get() + 1);
        if self.fails_at_call.is_some_and(|call| call == self.calls.get()) {
            self.at = None;
            return Err(Error::Closed);
        }
        self.at = at.filter(|&at| at < self.entries.len());
        Ok(())
    }

    fn here(&self) -> &Entry {
        &self.entries[self.at.expect("valid")]
    }
}

impl Cursor for ListCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.go(Some(0))
    }
    fn seek_last(&mut self) -> Result<()> {
        self.go(self.entries.len().checked_sub(1))
    }
    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(Some(self.entries.partition_point(|entry| &entry.key[..] < key)))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go(self.entries.partition_point(|entry| &entry.key[..] < key).checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.go(Some(self.at.expect("valid") + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.go(self.at.expect("valid").checked_sub(1))
    }
    fn valid(&self) -> bool {
        self.at.is_some()
    }
    fn key(&self) -> &[u8] {
        &self.here().key
    }
    fn head(&self) -> u64 {
        head(self.key())
    }
    fn seqno(&self) -> Seqno {
        self.here().seqno
    }
    fn kind(&self) -> Kind {
        self.here().kind
    }
    fn value(&self) -> &[u8] {
        &self.here().value
    }
    fn pin_value(&self) -> Slice {
        Slice::copy_from(self.value())
    }
    fn expect_first(&mut self) -> Result<()> {
        self.expect_at(Some(0), Some(Vec::new()))
    }
    fn expect_last(&mut self) -> Result<()> {
        self.expect_at(self.entries.len().checked_sub(1), Some(vec![0xff; 70]))
    }
    fn expect(&mut self, key: &[u8]) -> Result<()> {
        let at = self.entries.partition_point(|entry| &entry.key[..] < key);
        let above = [key, &[0]].concat();
        let is_above = self.entries.get(at).is_none_or(|entry| entry.key >= above);
        self.expect_at(Some(at), is_above.then_some(above))
    }
    fn expect_before(&mut self, key: &[u8]) -> Result<()> {
        let at = self.entries.partition_point(|entry| &entry.key[..] < key).checked_sub(1);
        let above = at.map(|at| [&self.entries[at].key[..], &[0]].concat());
        self.expect_at(at, above.filter(|above| &above[..] < key))
    }
    fn expected(&self) -> Option<&[u8]> {
        self.expects.as_ref().map(|(key, _)| &key[..])
    }
    fn arrive(&mut self) -> Result<()> {
        match self.expects.take() {
            Some((_, at)) => self.go(at),
            None => Ok(()),
        }
    }
}

/// What it lends are ranks of a block that it builds for that.
impl ListCursor {
    /// Lends those `ranks` of a block of so many entries, the first of which is at `from`.
    fn lend_part(&mut self, from: usize, count: usize, ranks: Range<usize>) -> Option<LentEntries> {
        let at = self.at.expect("valid");
        let block = self.block(from, count);
        let entries = LentEntries::are_worth(&ranks)
            .then(|| block.into_entries(at - from, ranks, self.entries[at].key.clone()));
        self.lent.set(self.lent.get() + usize::from(entries.is_some()));
        entries
    }

    /// A block of so many entries, the first of which is at `from`.
    fn block(&mut self, from: usize, count: usize) -> Block {
        let mut builder = BlockBuilder::new(1 << 20, LastMile::LeastSquares, SEQNO_MAX);
        for entry in &self.entries[from..from + count] {
            assert!(builder.try_add(&entry.key, entry.seqno, entry.kind, &entry.value));
        }
        let mut payload = Vec::new();
        builder.finish(&[], &mut payload);
        (self.lent_from, self.lent_to) = (from, from + count);
        Block::from_payload(&payload).unwrap()
    }

    /// How many entries from `at` on may be lent together.
    fn lendable(&self, at: usize, before: Option<&[u8]>, end: Option<&[u8]>) -> usize {
        let below = |bound: Option<&[u8]>, key: &[u8]| bound.is_none_or(|bound| key < bound);
        let plain = |entry: &&Entry| {
            entry.kind == Kind::Put
                && entry.seqno <= self.lent_for
                && below(before, &entry.key)
                && below(end, &entry.key)
        };
        // Blocks are of several sizes.
        self.entries[at..].iter().take(4 + at % 7).take_while(plain).count()
    }
}

impl Lending for MemtableCursor {
    type Lent = LentEntries;

    fn lend(&mut self, _: Seqno, _: Option<&[u8]>, _: Option<&[u8]>) -> Option<LentEntries> {
        None
    }
    fn lend_back(&mut self, _: Seqno, _: Option<&[u8]>, _: &[u8]) -> Option<LentEntries> {
        None
    }
    fn take_back(&mut self, _: LentEntries) {
        unreachable!("a memtable lends nothing")
    }
}

impl Lending for ListCursor {
    type Lent = LentEntries;

    fn lend(&mut self, snapshot: Seqno, before: Option<&[u8]>, end: Option<&[u8]>) -> Option<LentEntries> {
        let at = self.at.expect("valid");
        self.lent_for = snapshot;
        match self.lendable(at, before, end) {
            0 => None,
            count => self.lend_part(at, count, 0..count),
        }
    }

    fn lend_on(&mut self, lent: &mut LentEntries, before: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        let at = self.lent_to;
        let count = self.lendable(at, before, end);
        let is_end = lent.ends_block() && self.entries.get(at).is_some_and(|next| next.key != lent.key());
        if !is_end || !LentEntries::are_worth(&(0..count)) {
            return false;
        }
        lent.enter(self.block(at, count), 0..count);
        self.went_on.set(self.went_on.get() + 1);
        true
    }

    fn lend_back(&mut self, snapshot: Seqno, after: Option<&[u8]>, start: &[u8]) -> Option<LentEntries> {
        let at = self.at.expect("valid");
        let plain = |entry: &&Entry| {
            entry.kind == Kind::Put
                && entry.seqno <= snapshot
                && after.is_none_or(|after| &entry.key[..] > after)
                && &entry.key[..] >= start
        };
        let count = self.entries[..=at].iter().rev().take_while(plain).count();
        if count == 0 {
            return None;
        }
        // A block goes on below what may be lent, if that is puts.
        let below = self.entries[..at + 1 - count].iter().rev();
        let below = below.take(3).take_while(|entry| entry.kind == Kind::Put).count();
        let from = at + 1 - count - below;
        // Of the first entry of a block it is not known whether it is the newest of its key.
        if at == from || self.entries[at - 1].key == self.entries[at].key {
            return None;
        }
        self.lend_part(from, below + count, below.max(1)..below + count)
    }

    fn take_back(&mut self, lent: LentEntries) {
        let (_, rank, key) = lent.into_place();
        self.at = Some(self.lent_from + rank);
        assert_eq!(key, self.here().key);
    }
}

/// What is written, in the order of writing. The value of an entry is its sequence number, so that
/// every one is different.
#[derive(Clone, Debug)]
enum Write {
    Entry(Key, Kind, u64),
    DeleteRange(Key, Key),
}

#[derive(Clone, Debug)]
struct History {
    writes: Vec<Write>,
    /// Where the history is cut into sources, oldest first.
    cuts: Vec<usize>,
}

const MOMENT: u64 = 1_700_000_000_000;

fn value_of(seqno: Seqno) -> Vec<u8> {
    // Some values fit into a slice and some do not.
    format!("<{seqno}>{}", "-".repeat(seqno as usize % 40)).into_bytes()
}

impl History {
    fn seqno(at: usize) -> Seqno {
        at as Seqno + 1
    }

    /// The sources, newest first. With `elide_below`, sequence numbers up to it read 0 in sources
    /// without range tombstones.
    fn sources(&self, elide_below: Seqno) -> (Vec<Arc<Vec<Entry>>>, Vec<Arc<RangeTombstones>>) {
        let mut edges = vec![0];
        edges.extend(self.cuts.iter().map(|cut| cut % (self.writes.len() + 1)));
        edges.push(self.writes.len());
        edges.sort();
        let (mut sources, mut tombstones) = (Vec::new(), Vec::new());
        for edge in edges.windows(2).rev() {
            let (mut entries, mut deleted) = (Vec::new(), Vec::new());
            for at in edge[0]..edge[1] {
                let seqno = History::seqno(at);
                match &self.writes[at] {
                    Write::Entry(key, kind, moment) => {
                        let mut value = if *kind == Kind::Delete { vec![] } else { value_of(seqno) };
                        if *kind == Kind::PutExpiring {
                            value.splice(0..0, moment.to_be_bytes());
                        }
                        entries.push(Entry { key: key.clone(), seqno, kind: *kind, value });
                    }
                    Write::DeleteRange(start, end) => {
                        deleted.push(RangeTombstone { start: start[..].into(), end: end[..].into(), seqno })
                    }
                }
            }
            entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.seqno.cmp(&a.seqno)));
            let deleted = RangeTombstones::new(deleted);
            if deleted.is_empty() && entries.iter().all(|entry| entry.seqno <= elide_below) {
                entries.iter_mut().for_each(|entry| entry.seqno = 0);
            }
            sources.push(Arc::new(entries));
            tombstones.push(Arc::new(deleted));
        }
        (sources, tombstones)
    }

    /// What a snapshot sees at a moment.
    fn visible(&self, snapshot: Seqno, now: u64, range: &KeyRange) -> Vec<Pair> {
        let mut map: BTreeMap<&Key, Option<Vec<u8>>> = BTreeMap::new();
        for (at, write) in self.writes.iter().enumerate() {
            let seqno = History::seqno(at);
            if seqno > snapshot {
                break;
            }
            match write {
                Write::Entry(key, kind, moment) => {
                    let value = map.entry(key).or_default();
                    *value = match kind {
                        Kind::Delete => None,
                        Kind::Put => Some(value_of(seqno)),
                        Kind::PutExpiring => (*moment > now).then(|| value_of(seqno)),
                        Kind::Merge => Some([value.take().unwrap_or_default(), value_of(seqno)].concat()),
                        Kind::PutSeparated | Kind::PutExpiringSeparated => unreachable!("none is written"),
                    };
                }
                Write::DeleteRange(start, end) => {
                    map.iter_mut()
                        .filter(|(key, _)| start <= **key && **key < end)
                        .for_each(|(_, v)| *v = None);
                }
            }
        }
        map.into_iter()
            .filter(|(key, _)| range.contains(key))
            .filter_map(|(key, value)| Some((key.clone(), value?)))
            .collect()
    }
}

fn a_key() -> impl Strategy<Value = Key> {
    prop_oneof![
        3 => prop::collection::vec(0u8..3, 0..3),
        3 => (0u8..12).prop_map(|i| [b"equal heads/", &[i][..]].concat()),
        1 => prop::collection::vec(0u8..2, 8..10),
    ]
}

fn a_write() -> impl Strategy<Value = Write> {
    let kind = prop_oneof![
        5 => Just(Kind::Put),
        2 => Just(Kind::Delete),
        3 => Just(Kind::Merge),
        2 => Just(Kind::PutExpiring),
    ];
    prop_oneof![
        12 => (a_key(), kind, MOMENT - 1..=MOMENT + 1).prop_map(|(key, kind, moment)| Write::Entry(key, kind, moment)),
        1 => (a_key(), a_key()).prop_map(|(a, b)| Write::DeleteRange((&a).min(&b).clone(), (&a).max(&b).clone())),
    ]
}

fn a_history() -> impl Strategy<Value = History> {
    let writes = prop_oneof![
        prop::collection::vec(a_write(), 0..120),
        // Many versions of few keys.
        (prop::collection::vec(a_write(), 1..8), 1usize..20)
            .prop_map(|(some, times)| (0..times).flat_map(|_| some.clone()).collect()),
    ];
    (writes, prop::collection::vec(0usize..200, 0..6)).prop_map(|(writes, cuts)| History { writes, cuts })
}

fn a_range() -> impl Strategy<Value = KeyRange> {
    let end = prop_oneof![
        Just(KeyEnd::Unbounded),
        a_key().prop_map(|key| KeyEnd::Included(key.into())),
        a_key().prop_map(|key| KeyEnd::Excluded(key.into())),
    ];
    (prop_oneof![Just(vec![]), a_key()], end).prop_map(|(start, end)| KeyRange { start: start.into(), end })
}

fn entry_of(cursor: &Merge<impl Cursor>) -> Option<(usize, Entry)> {
    cursor.valid().then(|| {
        let value = cursor.value().to_vec();
        assert_eq!(cursor.pin_value(), value);
        assert_eq!(cursor.head(), head(cursor.key()));
        (
            cursor.age(),
            Entry { key: cursor.key().to_vec(), seqno: cursor.seqno(), kind: cursor.kind(), value },
        )
    })
}

fn pair_forward(walker: &mut Forward<impl Lending>) -> Option<Pair> {
    walker.valid().then(|| {
        assert_eq!(walker.pin_value(), walker.value().to_vec());
        (walker.key().to_vec(), walker.value().to_vec())
    })
}

fn pair_backward(walker: &mut Backward<impl Lending>) -> Option<Pair> {
    walker.valid().then(|| {
        assert_eq!(walker.pin_value(), walker.value().to_vec());
        (walker.key().to_vec(), walker.value().to_vec())
    })
}

/// Walks `limit` pairs from where the walker stands and compares them with `expected`.
fn follow_forward(walker: &mut Forward<impl Lending>, expected: &[Pair], limit: usize) {
    for pair in expected.iter().map(Some).chain([None]).take(limit) {
        assert_eq!(pair_forward(walker).as_ref(), pair);
        if pair.is_some() {
            walker.next().unwrap();
        }
    }
}

fn follow_backward(walker: &mut Backward<impl Lending>, expected: &[Pair], limit: usize) {
    for pair in expected.iter().rev().map(Some).chain([None]).take(limit) {
        assert_eq!(pair_backward(walker).as_ref(), pair);
        if pair.is_some() {
            walker.prev().unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_merge_is_the_sorted_list_of_all_entries(
        history in a_history(), probes in prop::collection::vec((a_key(), 0usize..9, 0u64..120), 0..12), elided in 0u64..150,
    ) {
        let (sources, _) = history.sources(elided);
        let mut expected: Vec<(usize, Entry)> = sources
            .iter()
            .enumerate()
            .flat_map(|(rank, entries)| entries.iter().map(move |entry| (rank, entry.clone())))
            .collect();
        expected.sort_by(|a, b| a.1.key.cmp(&b.1.key).then(a.0.cmp(&b.0)));
        let mut merge = Merge::new(sources.into_iter().map(ListCursor::new).collect());
        prop_assert!(!merge.valid());
        merge.seek_first().unwrap();
        for entry in &expected {
            assert_eq!(entry_of(&merge).as_ref(), Some(entry));
            merge.next().unwrap();
        }
        prop_assert!(!merge.valid());
        let mut newest = expected.clone();
        newest.dedup_by(|second, first| second.1.key == first.1.key);
        merge.seek_first().unwrap();
        for entry in &newest {
            assert_eq!(entry_of(&merge).as_ref(), Some(entry));
            merge.next_key().unwrap();
        }
        prop_assert!(!merge.valid());
        merge.seek_last().unwrap();
        for entry in expected.iter().rev() {
            assert_eq!(entry_of(&merge).as_ref(), Some(entry));
            merge.prev().unwrap();
        }
        prop_assert!(!merge.valid());
        for (key, steps, snapshot) in probes {
            let at = expected.partition_point(|(_, entry)| entry.key < key);
            merge.seek(&key).unwrap();
            for at in at..at + steps {
                assert_eq!(entry_of(&merge).as_ref(), expected.get(at));
                if at < expected.len() { merge.next().unwrap(); }
            }
            merge.seek_before(&key).unwrap();
            for at in (0..=at).rev().take(steps) {
                assert_eq!(entry_of(&merge).as_ref(), at.checked_sub(1).map(|at| &expected[at]));
                if at > 0 { merge.prev().unwrap(); }
            }
            merge.seek_version(&key, snapshot).unwrap();
            let seen = |entry: &Entry| entry.key != key || entry.seqno <= snapshot;
            assert_eq!(entry_of(&merge).as_ref(), expected[at..].iter().find(|(_, entry)| seen(entry)));
        }
    }

    #[test]
    fn walkers_show_what_the_history_left(
        history in a_history(), range in a_range(), snapshot in 0u64..160, now in MOMENT - 2..=MOMENT + 2,
        seeks in prop::collection::vec((a_key(), 0usize..6), 0..12), elided: bool,
    ) {
        let (sources, tombstones) = history.sources(if elided { snapshot } else { 0 });
        let expected = history.visible(snapshot, now, &range);
        let scope = Scope { reader: reader(snapshot, now), tombstones, range: range.into() };
        let cursors: Vec<ListCursor> = sources.into_iter().map(ListCursor::new).collect();
        let (mut up, mut down) = (Forward::new(cursors.clone(), scope.clone()), Backward::new(cursors, scope));
        up.seek_first().unwrap();
        follow_forward(&mut up, &expected, usize::MAX);
        down.seek_last().unwrap();
        follow_backward(&mut down, &expected, usize::MAX);
        for (key, steps) in seeks {
            let at = expected.partition_point(|pair| pair.0 < key);
            up.seek(&key).unwrap();
            follow_forward(&mut up, &expected[at..], steps);
            down.seek_before(&key).unwrap();
            follow_backward(&mut down, &expected[..at], steps);
        }
    }

    /// Keys that lie as in a settled tree: mostly puts, long stretches of one source between those
    /// of others.
    #[test]
    fn walkers_take_stretches_of_one_source(
        spans in prop::collection::vec((0u16..600, 1u16..120, prop::sample::select(vec![1u16, 1, 2, 7])), 1..8),
        others in prop::collection::vec((0u16..600, prop::sample::select(vec![Kind::Put, Kind::Delete, Kind::Merge, Kind::PutExpiring]), 0usize..2000), 0..8),
        snapshot in prop_oneof![3 => Just(SEQNO_MAX), 1 => 0u64..800], elided: bool,
        seeks in prop::collection::vec((0u16..600, 0usize..200), 0..8), range in (0u16..300, prop::option::of(300u16..700), any::<bool>()),
    ) {
        let key = |key: u16| key.to_be_bytes().to_vec();
        let mut writes: Vec<Write> = Vec::new();
        let mut cuts = Vec::new();
        for (start, count, step) in spans {
            writes.extend((0..count).map(|i| Write::Entry(key(start + i * step), Kind::Put, MOMENT)));
            cuts.push(writes.len());
        }
        for (at, kind, place) in others {
            writes.insert(place % (writes.len() + 1), Write::Entry(key(at), kind, MOMENT));
        }
        let history = History { writes, cuts };
        let end = match range {
            (_, None, _) => KeyEnd::Unbounded,
            (_, Some(end), true) => KeyEnd::Included(key(end).into()),
            (_, Some(end), false) => KeyEnd::Excluded(key(end).into()),
        };
        let range = KeyRange { start: key(range.0).into(), end };
        let (sources, tombstones) = history.sources(if elided { snapshot } else { 0 });
        let expected = history.visible(snapshot, MOMENT, &range);
        let scope = Scope { reader: reader(snapshot, MOMENT), tombstones, range: range.into() };
        let alone = sources.iter().filter(|source| !source.is_empty()).count() == 1;
        let cursors: Vec<ListCursor> = sources.into_iter().map(ListCursor::new).collect();
        let lent: usize = {
            let mut up = Forward::new(cursors.clone(), scope.clone());
            up.seek_first().unwrap();
            follow_forward(&mut up, &expected, usize::MAX);
            for &(sought, steps) in &seeks {
                up.seek(&key(sought)).unwrap();
                let at = expected.partition_point(|pair| pair.0 < key(sought));
                follow_forward(&mut up, &expected[at..], steps);
            }
            cursors.iter().map(|cursor| cursor.lent.get()).sum()
        };
        let lent_back: usize = {
            let mut down = Backward::new(cursors.clone(), scope);
            down.seek_last().unwrap();
            follow_backward(&mut down, &expected, usize::MAX);
            for (sought, steps) in seeks {
                down.seek_before(&key(sought)).unwrap();
                let at = expected.partition_point(|pair| pair.0 < key(sought));
                follow_backward(&mut down, &expected[..at], steps);
            }
            cursors.iter().map(|cursor| cursor.lent.get()).sum::<usize>() - lent
        };
        if alone && expected.len() > 10 && snapshot == SEQNO_MAX {
            prop_assert!(lent > 0 && lent_back > 0, "nothing was lent");
        }
    }

    #[test]
    fn a_failing_source_fails_the_walk_and_a_new_seek_heals_it(
        history in a_history(), call in 1usize..60, failing in 0usize..6,
    ) {
        let (sources, tombstones) = history.sources(0);
        let range = KeyRange::all();
        let expected = history.visible(SEQNO_MAX, MOMENT, &range);
        let scope = Scope { reader: reader(SEQNO_MAX, MOMENT), tombstones, range: range.into() };
        let cursors = || {
            let mut cursors: Vec<ListCursor> = sources.iter().cloned().map(ListCursor::new).collect();
            let failing = failing % cursors.len();
            cursors[failing].fails_at_call = Some(call);
            cursors
        };
        let (mut up, mut met) = (Forward::new(cursors(), scope.clone()), Vec::new());
        let mut moved = up.seek_first();
        while moved.is_ok() && let Some(pair) = pair_forward(&mut up) {
            met.push(pair);
            moved = up.next();
        }
        prop_assert!(!up.valid());
        prop_assert_eq!(&met[..], if moved.is_ok() { &expected[..] } else { &expected[..met.len()] });
        if moved.is_err() {
            up.seek_first().unwrap();
            follow_forward(&mut up, &expected, usize::MAX);
        }

        let (mut down, mut met) = (Backward::new(cursors(), scope), Vec::new());
        let mut moved = down.seek_last();
        while moved.is_ok() && let Some(pair) = pair_backward(&mut down) {
            met.insert(0, pair);
            moved = down.prev();
        }
        prop_assert!(!down.valid());
        prop_assert_eq!(&met[..], if moved.is_ok() { &expected[..] } else { &expected[expected.len() - met.len()..] });
        if moved.is_err() {
            down.seek_last().unwrap();
            follow_backward(&mut down, &expected, usize::MAX);
        }
    }
}

/// The stretches end where another source has an entry; a source that fails at one of their ends
/// fails the walk.
#[test]
fn walks_take_what_is_lent_between_the_entries_of_another_source_and_fail_with_it() {
    let puts = |step: usize, seqno: Seqno| {
        let key = |i: usize| format!("common prefix {i:05}");
        let entries = (0..300).step_by(step).map(|i| entry(&key(i), seqno, Kind::Put, b"of an old run"));
        Arc::new(entries.collect::<Vec<_>>())
    };
    let (new, old) = (puts(50, 2), puts(1, 1));
    let pairs: Vec<Pair> = (0..300)
        .map(|i| if i % 50 == 0 { &new[i / 50] } else { &old[i] })
        .map(|entry| (entry.key.clone(), entry.value.clone()))
        .collect();
    let mut failed = 0;
    for failing in [None, Some((0, 3)), Some((1, 2)), Some((1, 9)), Some((1, 14)), Some((1, 17))] {
        let cursors = || {
            let mut cursors = vec![ListCursor::new(new.clone()), ListCursor::new(old.clone())];
            if let Some((source, call)) = failing {
                let cursor: &mut ListCursor = &mut cursors[source];
                cursor.fails_at_call = Some(call);
            }
            let (lent, went_on) = (cursors[1].lent.clone(), cursors[1].went_on.clone());
            (cursors, lent, went_on)
        };
        let (sources, lent, went_on) = cursors();
        let (mut up, mut met) = (Forward::new(sources, plain_scope()), 0);
        let mut moved = up.seek_first();
        while moved.is_ok()
            && let Some(pair) = pair_forward(&mut up)
        {
            assert_eq!(pair, pairs[met]);
            (met, moved) = (met + 1, up.next());
        }
        assert!(moved.is_ok() || failing.is_some());
        failed += usize::from(moved.is_err());
        if moved.is_err() {
            assert!(!up.valid());
            up.seek_first().unwrap();
            follow_forward(&mut up, &pairs, usize::MAX);
        }
        assert!(lent.get() >= 6, "{failing:?}: lent {} times", lent.get());

        assert!(went_on.get() >= 20, "{failing:?}: went on {} times", went_on.get());
        let (sources, lent, _) = cursors();
        let (mut down, mut left) = (Backward::new(sources, plain_scope()), pairs.len());
        let mut moved = down.seek_last();
        while moved.is_ok()
            && let Some(pair) = pair_backward(&mut down)
        {
            left -= 1;
            assert_eq!(pair, pairs[left]);
            moved = down.prev();
        }
        assert!(moved.is_ok() || failing.is_some());
        failed += usize::from(moved.is_err());
        if moved.is_err() {
            assert!(!down.valid());
            down.seek_last().unwrap();
            follow_backward(&mut down, &pairs, usize::MAX);
        }
        assert!(lent.get() >= 6, "{failing:?}: lent {} times", lent.get());
    }
    assert!(failed >= 8, "{failed} walks failed");
}

fn plain_scope() -> Scope {
    let reader = Reader { operator: None, ..reader(SEQNO_MAX, MOMENT) };
    Scope { reader, tombstones: Vec::new(), range: SharedRange::default() }
}

fn reader(snapshot: Seqno, now_ms: u64) -> Reader {
    Reader { snapshot, now_ms, operator: Some(Arc::new(Append)), values: None }
}

fn entry(key: &str, seqno: Seqno, kind: Kind, value: &[u8]) -> Entry {
    Entry { key: key.into(), seqno, kind, value: value.to_vec() }
}

fn list(entries: Vec<Entry>) -> ListCursor {
    ListCursor::new(Arc::new(entries))
}

#[test]
fn operands_without_an_operator_are_an_error_that_says_so() {
    let source = list(vec![entry("a", 2, Kind::Put, b"1"), entry("b", 1, Kind::Merge, b"2")]);
    let mut up = Forward::new(vec![source.clone()], plain_scope());
    up.seek_first().unwrap();
    assert_eq!(up.key(), b"a");
    let error = up.next().unwrap_err();
    assert!(matches!(&error, Error::Invalid(what) if what.contains("merge operator")), "{error}");
    // The walkers stand on the pair that they cannot tell, and go on behind it.
    assert!(up.valid() && up.key() == b"b");
    up.next().unwrap();
    assert!(!up.valid());
    let mut down = Backward::new(vec![source], plain_scope());
    assert!(matches!(down.seek_last(), Err(Error::Invalid(_))));
    assert!(down.valid() && down.key() == b"b");
    down.prev().unwrap();
    assert_eq!(down.key(), b"a");
}

#[test]
fn a_refusing_operator_is_named() {
    let reader = Reader { operator: Some(Arc::new(crate::operator::Counter)), ..reader(SEQNO_MAX, MOMENT) };
    let scope = Scope { reader, ..plain_scope() };
    let mut up = Forward::new(vec![list(vec![entry("a", 1, Kind::Merge, b"no number")])], scope);
    assert!(matches!(up.seek_first(), Err(Error::Merge { operator, .. }) if operator == "counter"));
}

#[test]
fn an_expiring_entry_without_a_moment_is_an_error() {
    let source = list(vec![entry("a", 1, Kind::PutExpiring, b"short")]);
    assert!(Forward::new(vec![source.clone()], plain_scope()).seek_first().is_err());
    assert!(Backward::new(vec![source], plain_scope()).seek_last().is_err());
}

/// A source of `versions` versions of "hot" between two other keys.
fn hot(versions: u64) -> ListCursor {
    let mut entries = vec![entry("cold", 1, Kind::Put, b"c")];
    entries.extend((2..versions + 2).rev().map(|seqno| entry("hot", seqno, Kind::Put, &seqno.to_be_bytes())));
    entries.push(entry("warm", versions + 2, Kind::Put, b"w"));
    list(entries)
}

#[test]
fn a_key_written_a_thousand_times_costs_a_few_steps() {
    for snapshot in [SEQNO_MAX, 500] {
        let source = hot(1000);
        let calls = source.calls.clone();
        let scope = Scope { reader: reader(snapshot, MOMENT), ..plain_scope() };
        let newest = snapshot.min(1001).to_be_bytes();
        let mut up = Forward::new(vec![source.clone()], scope.clone());
        up.seek(b"d").unwrap();
        assert_eq!((up.key(), up.value()), (&b"hot"[..], &newest[..]));
        // The list walks over unseen versions one by one: it does not know better.
        let unseen = if snapshot == 500 { 501 } else { 0 };
        assert!(calls.get() <= 12 + unseen, "{} calls", calls.get());
        calls.set(0);
        up.next().unwrap();
        assert_eq!(up.valid(), snapshot != 500);
        assert!(calls.get() <= 14, "{} calls", calls.get());

        calls.set(0);
        let mut down = Backward::new(vec![source], scope);
        down.seek_last().unwrap();
        if snapshot != 500 {
            assert_eq!(down.key(), b"warm");
            down.prev().unwrap();
        }
        assert_eq!((down.key(), down.value()), (&b"hot"[..], &newest[..]));
        down.prev().unwrap();
        assert_eq!(down.key(), b"cold");
        assert!(calls.get() <= 20 + unseen, "{} calls", calls.get());
    }
}

#[test]
fn a_deleted_range_is_passed_by_seeking() {
    let key = |i: u32| format!("{i:05}");
    let old = list((0..10_000).map(|i| entry(&key(i), u64::from(i) + 1, Kind::Put, b"old")).collect());
    let new = list(vec![entry(&key(7000), 30_000, Kind::Put, b"new")]);
    let calls = old.calls.clone();
    let deleted = RangeTombstones::new(vec![RangeTombstone {
        start: key(10).as_bytes().into(),
        end: key(9_990).as_bytes().into(),
        seqno: 20_000,
    }]);
    let scope = Scope { tombstones: vec![Arc::default(), Arc::new(deleted)], ..plain_scope() };
    let sources = vec![new, list(vec![]), old];
    let mut up = Forward::new(sources.clone(), scope.clone());
    let mut keys = Vec::new();
    up.seek_first().unwrap();
    while up.valid() {
        keys.push(String::from_utf8(up.key().to_vec()).unwrap());
        up.next().unwrap();
    }
    let expected: Vec<String> = (0..10).chain([7000]).chain(9_990..10_000).map(key).collect();
    assert_eq!(keys, expected);
    assert!(calls.get() < 60, "{} calls", calls.get());

    calls.set(0);
    let mut down = Backward::new(sources, scope);
    let mut keys = Vec::new();
    down.seek_last().unwrap();
    while down.valid() {
        keys.insert(0, String::from_utf8(down.key().to_vec()).unwrap());
        down.prev().unwrap();
    }
    assert_eq!(keys, expected);
    assert!(calls.get() < 60, "{} calls", calls.get());
}

#[test]
fn memtables_merge_like_any_other_source() {
    let memtables: Vec<Arc<Memtable>> = (0..3).map(|_| Memtable::new()).collect();
    let mut expected = BTreeMap::new();
    for i in 0..9000u32 {
        let key = (i.wrapping_mul(40_503) & 0x0fff).to_be_bytes();
        let rank = 2 - i as usize / 3000;
        memtables[rank].insert(&key, u64::from(i) + 1, Kind::Put, &[&[7; 30], &i.to_be_bytes()]);
        expected.insert(key.to_vec(), [&[7; 30][..], &i.to_be_bytes()].concat());
    }
    let expected: Vec<Pair> = expected.into_iter().collect();
    let cursors = || -> Vec<MemtableCursor> { memtables.iter().map(Memtable::cursor).collect() };
    let mut up = Forward::new(cursors(), plain_scope());
    up.seek_first().unwrap();
    follow_forward(&mut up, &expected, usize::MAX);
    let mut down = Backward::new(cursors(), plain_scope());
    down.seek_last().unwrap();
    follow_backward(&mut down, &expected, usize::MAX);
}
