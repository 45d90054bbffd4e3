//! What a key-value store with snapshots, expiry, merging and transactions must answer, in the
//! plainest form: `Oracle`.
//!
//! `commit` applies `Change`s as one `Moment`; `get` and `scan` answer at a moment, by the model's
//! own time (`advance`). `pin` keeps the present readable. A `Transaction` of the model stages
//! changes and notes reads: `get_in` by itself, walks only by `walked`. `conflicts` says whether
//! its commit must fail with a conflict: `Must`, `May` or `No`. `end` commits if told to, and does
//! not ask.
//!
//! What must hold: it knows nothing of files, memtables or levels, and shares no code with the
//! engine. A keyspace that was made anew is another one. For a transaction nothing expires after
//! it began.
//!
//! Callers: `life`, `crash::history`, `image`, `program::crowd`. `tell` puts scripts into its
//! `Change`s, which `crash::life` and `faults::world` use too.

use crate::setting::Operator;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, RangeBounds},
};

/// A moment in the commit order: the number of commits before it.
pub type Moment = u64;

/// One change to one keyspace, in the oracle's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key gets this value, until a time if one is given.
    Put {
        /// Key.
        key: Vec<u8>,
        /// Value.
        value: Vec<u8>,
        /// The Unix millisecond at which it is gone.
        expires_ms: Option<u64>,
    },
    /// The key is gone.
    Delete {
        /// Key.
        key: Vec<u8>,
    },
    /// The keys from `start` up to, not including, `end` are gone.
    DeleteRange {
        /// First key deleted.
        start: Vec<u8>,
        /// First key not deleted.
        end: Vec<u8>,
    },
    /// The operand is merged onto what is there.
    Merge {
        /// Key.
        key: Vec<u8>,
        /// Operand.
        operand: Vec<u8>,
    },
}

/// What a key holds: a base that may expire, and operands that came after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cell {
    base: Option<(Vec<u8>, Option<u64>)>,
    operands: Vec<Vec<u8>>,
}

impl Cell {
    fn change(&mut self, operator: Operator, change: &Change) {
        match change {
            Change::Put { value, expires_ms, .. } => {
                *self = Cell { base: Some((value.clone(), *expires_ms)), operands: Vec::new() };
            }
            Change::Delete { .. } | Change::DeleteRange { .. } => *self = Cell::default(),
            Change::Merge { operand, .. } => {
                self.operands.push(operand.clone());
                // A base that can expire must be kept apart: what the operands are merged onto
                // depends on when one looks.
                if !matches!(self.base, Some((_, Some(_)))) {
                    let value =
                        operator.apply(self.base.as_ref().map(|(value, _)| &value[..]), &self.operands);
                    *self = Cell { base: Some((value, None)), operands: Vec::new() };
                }
            }
        }
    }

    fn read(&self, operator: Operator, now_ms: u64) -> Option<Vec<u8>> {
        let base = self.base.as_ref().filter(|(_, expires_ms)| expires_ms.is_none_or(|at| at > now_ms));
        let base = base.map(|(value, _)| &value[..]);
        if self.operands.is_empty() {
            base.map(<[u8]>::to_vec)
        } else {
            Some(operator.apply(base, &self.operands))
        }
    }
}

impl Operator {
    /// The value after `operands`, oldest first, are merged onto `base`.
    fn apply(self, base: Option<&[u8]>, operands: &[Vec<u8>]) -> Vec<u8> {
        let number = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("counters are 8 bytes"));
        match self {
            Operator::None => panic!("a keyspace without an operator takes no operands"),
            Operator::Counter => operands
                .iter()
                .fold(base.map_or(0, number), |sum, operand| sum.wrapping_add(number(operand)))
                .to_le_bytes()
                .to_vec(),
            Operator::Append => [base.unwrap_or_default(), &operands.concat()].concat(),
            Operator::Max => {
                operands.iter().map(|operand| &operand[..]).chain(base).max().unwrap_or_default().to_vec()
            }
        }
    }
}

/// One keyspace.
#[derive(Clone, Debug)]
struct Space {
    operator: Operator,
    /// Which of all keyspaces ever created this is.
    generation: u64,
    /// The states of each key, oldest first, each from a moment on.
    cells: BTreeMap<Vec<u8>, Vec<(Moment, Cell)>>,
    /// The last change to each key ever written, and range deletions while transactions are open.
    touched: BTreeMap<Vec<u8>, Moment>,
    swept: Vec<(Vec<u8>, Vec<u8>, Moment)>,
}

impl Space {
    fn cell(&self, key: &[u8], at: Moment) -> Option<&Cell> {
        seen(self.cells.get(key)?, at)
    }

    fn commit(&mut self, change: &Change, at: Moment, pins: &BTreeMap<Moment, usize>) {
        let keys: Vec<Vec<u8>> = match change {
            Change::DeleteRange { start, end } if start < end => {
                self.swept.push((start.clone(), end.clone(), at));
                self.cells.range(start.clone()..end.clone()).map(|(key, _)| key.clone()).collect()
            }
            Change::DeleteRange { .. } => Vec::new(),
            Change::Put { key, .. } | Change::Delete { key } | Change::Merge { key, .. } => {
                self.touched.insert(key.clone(), at);
                vec![key.clone()]
            }
        };
        for key in keys {
            let versions = self.cells.entry(key).or_default();
            let mut cell = versions.last().map(|(_, cell)| cell.clone()).unwrap_or_default();
            cell.change(self.operator, change);
            match versions.last_mut() {
                Some((moment, last)) if *moment == at => *last = cell,
                _ => versions.push((at, cell)),
            }
            // Keep what a pinned moment sees, and the newest.
            let ends: Vec<Moment> = versions.iter().skip(1).map(|(moment, _)| *moment).collect();
            let mut place = 0;
            versions.retain(|(from, _)| {
                let keep = ends.get(place).is_none_or(|to| pins.range(*from..*to).next().is_some());
                place += 1;
                keep
            });
        }
    }
}

fn seen(versions: &[(Moment, Cell)], at: Moment) -> Option<&Cell> {
    versions.iter().rev().find(|(from, _)| *from <= at).map(|(_, cell)| cell)
}

/// The two ends of a range of keys.
pub type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// The whole model.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    spaces: BTreeMap<usize, Space>,
    now_ms: u64,
    moment: Moment,
    pins: BTreeMap<Moment, usize>,
    generations: u64,
}

/// A transaction of the model.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// What it reads.
    pub snapshot: Moment,
    /// When it began: nothing expires for it later.
    began_ms: u64,
    changes: Vec<(Place, Change)>,
    /// What its outcome depends on.
    needs: Reads,
    /// What it has looked at all the same.
    looks: Reads,
}

/// A keyspace, and which generation of it: one that was made anew is another one.
type Place = (usize, Option<u64>);

/// Keys and ranges that were read, and where.
#[derive(Clone, Debug, Default)]
struct Reads {
    keys: BTreeSet<(Place, Vec<u8>)>,
    ranges: Vec<(Place, Bound<Vec<u8>>, Bound<Vec<u8>>)>,
}

/// Whether a commit must fail with a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Nothing that it looked at has changed.
    No,
    /// Something has changed that it looked at but that its outcome does not depend on: a key that
    /// it had set itself, or the part of a range that its walk did not reach.
    May,
    /// What it read has changed.
    Must,
}

impl Transaction {
    /// Whether anything was staged.
    pub fn wrote(&self) -> bool {
        !self.changes.is_empty()
    }

    /// The changes staged for a keyspace.
    fn staged(&self, place: Place) -> Vec<&Change> {
        self.changes.iter().filter(|(of, _)| *of == place).map(|(_, change)| change).collect()
    }

    /// Whether what a key holds is decided by the transaction's own changes.
    fn decides(&self, place: Place, key: &[u8]) -> bool {
        let mut own = self.staged(place).into_iter().rev().filter(|change| change.concerns(key));
        own.find(|change| !matches!(change, Change::Merge { .. })).is_some_and(|change| match change {
            Change::Put { expires_ms, .. } => expires_ms.is_none(),
            _ => true,
        })
    }
}

impl Oracle {
    /// No keyspaces, at this time.
    pub fn new(now_ms: u64) -> Oracle {
        Oracle { now_ms, ..Oracle::default() }
    }

    /// The time, Unix milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Moves the time.
    pub fn advance(&mut self, ms: u64) {
        self.now_ms += ms;
    }

    /// The last commit.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// Creates a keyspace.
    pub fn create(&mut self, space: usize, operator: Operator) {
        self.generations += 1;
        let empty = Space {
            operator,
            generation: self.generations,
            cells: BTreeMap::new(),
            touched: BTreeMap::new(),
            swept: Vec::new(),
        };
        self.spaces.insert(space, empty);
    }

    /// Drops a keyspace with all that it holds, from every snapshot too.
    pub fn drop_space(&mut self, space: usize) {
        self.spaces.remove(&space);
    }

    /// Whether the keyspace is there.
    pub fn has(&self, space: usize) -> bool {
        self.spaces.contains_key(&space)
    }

    /// The operator of a keyspace.
    pub fn operator(&self, space: usize) -> Option<Operator> {
        self.spaces.get(&space).map(|space| space.operator)
    }

    /// Commits changes, all or nothing, as one moment.
    pub fn commit(&mut self, changes: &[(usize, Change)]) -> Moment {
        self.moment += 1;
        for (space, change) in changes {
            if let Some(space) = self.spaces.get_mut(space) {
                space.commit(change, self.moment, &self.pins);
            }
        }
        self.moment
    }

    /// Keeps the present readable until [`Oracle::unpin`].
    pub fn pin(&mut self) -> Moment {
        *self.pins.entry(self.moment).or_default() += 1;
        self.moment
    }

    /// Gives a pinned moment up.
    pub fn unpin(&mut self, moment: Moment) {
        let count = self.pins.get_mut(&moment).expect("unpins only what was pinned");
        *count -= 1;
        if *count == 0 {
            self.pins.remove(&moment);
        }
        if self.pins.is_empty() {
            self.spaces.values_mut().for_each(|space| space.swept.clear());
        }
    }

    /// What a key holds at a moment.
    pub fn get(&self, space: usize, key: &[u8], at: Moment) -> Option<Vec<u8>> {
        let space = self.spaces.get(&space)?;
        space.cell(key, at)?.read(space.operator, self.now_ms)
    }

    /// The pairs in a range at a moment, ascending.
    pub fn scan(&self, space: usize, range: impl RangeBounds<[u8]>, at: Moment) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.scan_under(space, range, (at, self.now_ms), &[])
    }

    fn scan_under(
        &self,
        slot: usize,
        range: impl RangeBounds<[u8]>,
        at: (Moment, u64),
        changes: &[&Change],
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let Some(space) = self.spaces.get(&slot) else { return Vec::new() };
        let (start, end) = (range.start_bound(), range.end_bound());
        if empty(start, end) {
            return Vec::new();
        }
        let mut keys: BTreeSet<&[u8]> =
            space.cells.range::<[u8], _>((start, end)).map(|(key, _)| &key[..]).collect();
        keys.extend(changes.iter().filter_map(|change| match change {
            Change::Put { key, .. } | Change::Merge { key, .. } => {
                Some(&key[..]).filter(|key| (start, end).contains(*key))
            }
            Change::Delete { .. } | Change::DeleteRange { .. } => None,
        }));
        keys.into_iter()
            .filter_map(|key| Some((key.to_vec(), self.get_under(slot, key, at, changes)?)))
            .collect()
    }

    /// At a moment of the commits, and by the time in Unix milliseconds.
    fn get_under(
        &self,
        slot: usize,
        key: &[u8],
        (at, now_ms): (Moment, u64),
        changes: &[&Change],
    ) -> Option<Vec<u8>> {
        let space = self.spaces.get(&slot)?;
        let mut cell = space.cell(key, at).cloned().unwrap_or_default();
        for change in changes.iter().filter(|change| change.concerns(key)) {
            cell.change(space.operator, change);
        }
        cell.read(space.operator, now_ms)
    }

    /// Begins a transaction on the present.
    pub fn begin(&mut self) -> Transaction {
        Transaction {
            snapshot: self.pin(),
            began_ms: self.now_ms,
            changes: Vec::new(),
            needs: Reads::default(),
            looks: Reads::default(),
        }
    }

    /// Stages a change to a keyspace in a transaction.
    pub fn stage(&self, transaction: &mut Transaction, space: usize, change: Change) {
        transaction.changes.push((self.place(space), change));
    }

    /// What a key holds for a transaction, which notes the read.
    pub fn get_in(&self, transaction: &mut Transaction, space: usize, key: &[u8]) -> Option<Vec<u8>> {
        let read = (self.place(space), key.to_vec());
        if !transaction.decides(read.0, key) {
            transaction.needs.keys.insert(read.clone());
        }
        let at = (transaction.snapshot, transaction.began_ms);
        let found = self.get_under(space, key, at, &transaction.staged(read.0));
        transaction.looks.keys.insert(read);
        found
    }

    /// The pairs in a range for a transaction. What is read of it is noted by [`Oracle::walked`].
    pub fn scan_in(
        &self,
        transaction: &Transaction,
        space: usize,
        range: impl RangeBounds<[u8]>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let at = (transaction.snapshot, transaction.began_ms);
        self.scan_under(space, range, at, &transaction.staged(self.place(space)))
    }

    /// Notes that a transaction walked through the range `passed` on its way through `asked`. Of a
    /// range that can hold no key nothing is read, whatever becomes of its keyspace.
    pub fn walked(&self, transaction: &mut Transaction, space: usize, passed: Ends, asked: Ends) {
        let place = self.place(space);
        let can_hold =
            |ends: &Ends| !empty(ends.0.as_ref().map(|key| &key[..]), ends.1.as_ref().map(|key| &key[..]));
        if can_hold(&passed) {
            transaction.needs.ranges.push((place, passed.0, passed.1));
        }
        if can_hold(&asked) {
            transaction.looks.ranges.push((place, asked.0, asked.1));
        }
    }

    fn place(&self, space: usize) -> Place {
        (space, self.spaces.get(&space).map(|space| space.generation))
    }

    /// Whether something that the transaction read was written since it began.
    pub fn conflicts(&self, transaction: &Transaction) -> Conflict {
        if self.changed(&transaction.needs, transaction.snapshot) {
            Conflict::Must
        } else if self.changed(&transaction.looks, transaction.snapshot) {
            Conflict::May
        } else {
            Conflict::No
        }
    }

    fn changed(&self, reads: &Reads, since: Moment) -> bool {
        // A keyspace that is gone was written: what was read in it is gone.
        let same = |place: &Place| self.spaces.get(&place.0).filter(|_| self.place(place.0) == *place);
        let key_changed = |space: &Space, key: &[u8]| {
            space.touched.get(key).is_some_and(|at| *at > since)
                || space
                    .swept
                    .iter()
                    .any(|(start, end, at)| *at > since && &start[..] <= key && key < &end[..])
        };
        let range_changed = |space: &Space, start: Bound<&[u8]>, end: Bound<&[u8]>| {
            !empty(start, end)
                && (space.touched.range::<[u8], _>((start, end)).any(|(_, at)| *at > since)
                    || space.swept.iter().any(|(from, to, at)| *at > since && overlaps(start, end, from, to)))
        };
        reads.keys.iter().any(|(place, key)| same(place).is_none_or(|space| key_changed(space, key)))
            || reads.ranges.iter().any(|(place, start, end)| {
                let (start, end) = (start.as_ref().map(|key| &key[..]), end.as_ref().map(|key| &key[..]));
                same(place).is_none_or(|space| range_changed(space, start, end))
            })
    }

    /// Ends a transaction, committing its changes if told to.
    pub fn end(&mut self, transaction: Transaction, commit: bool) {
        self.unpin(transaction.snapshot);
        if commit && transaction.wrote() {
            let changes = transaction.changes.into_iter().map(|((space, _), change)| (space, change));
            self.commit(&changes.collect::<Vec<_>>());
        }
    }
}

impl Change {
    fn concerns(&self, key: &[u8]) -> bool {
        match self {
            Change::Put { key: own, .. } | Change::Delete { key: own } | Change::Merge { key: own, .. } => {
                own == key
            }
            Change::DeleteRange { start, end } => &start[..] <= key && key < &end[..],
        }
    }
}

/// Whether no key can lie between the ends.
pub fn empty(start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    match (start, end) {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (Bound::Included(start) | Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => {
            start >= end
        }
        (Bound::Unbounded, Bound::Excluded(end)) => end.is_empty(),
        _ => false,
    }
}

/// Whether a range shares a key with `from..to`.
fn overlaps(start: Bound<&[u8]>, end: Bound<&[u8]>, from: &[u8], to: &[u8]) -> bool {
    let starts_before = match start {
        Bound::Unbounded => true,
        Bound::Included(start) => start < to,
        // The first key after `start` is `start` with a zero byte.
        Bound::Excluded(start) => [start, &[0]].concat() < to.to_vec(),
    };
    let ends_after = match end {
        Bound::Unbounded => true,
        Bound::Included(end) => from <= end,
        Bound::Excluded(end) => from < end,
    };
    starts_before && ends_after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str, expires_ms: Option<u64>) -> (usize, Change) {
        (0, Change::Put { key: key.into(), value: value.into(), expires_ms })
    }

    fn merge(key: &str, operand: &str) -> (usize, Change) {
        (0, Change::Merge { key: key.into(), operand: operand.into() })
    }

    fn text(oracle: &Oracle, key: &str, at: Moment) -> Option<String> {
        oracle.get(0, key.as_bytes(), at).map(|value| String::from_utf8(value).unwrap())
    }

    #[test]
    fn a_pinned_moment_stays_and_an_unpinned_one_is_forgotten() {
        let mut oracle = Oracle::new(0);
        oracle.create(0, Operator::None);
        oracle.commit(&[put("a", "1", None), put("b", "1", None)]);
        let before = oracle.pin();
        oracle.commit(&[put("a", "2", None)]);
        oracle.commit(&[(0, Change::DeleteRange { start: "a".into(), end: "b".into() })]);
        assert_eq!(text(&oracle, "a", before).as_deref(), Some("1"));
        assert_eq!(text(&oracle, "a", oracle.moment()), None);
        assert_eq!(oracle.scan(0, .., before).len(), 2);
        assert_eq!(oracle.scan(0, .., oracle.moment()).len(), 1);
        oracle.unpin(before);
        oracle.commit(&[put("a", "3", None)]);
        assert_eq!(oracle.spaces[&0].cells[&b"a"[..]].len(), 1);
    }

    #[test]
    fn operands_see_an_expiring_base_only_while_it_lives() {
        let mut oracle = Oracle::new(0);
        oracle.create(0, Operator::Append);
        oracle.commit(&[put("a", "x", Some(10))]);
        oracle.commit(&[merge("a", "y")]);
        assert_eq!(text(&oracle, "a", 2).as_deref(), Some("xy"));
        oracle.advance(10);
        assert_eq!(text(&oracle, "a", 2).as_deref(), Some("y"));
        assert_eq!(text(&oracle, "a", 1), None);
    }

    #[test]
    fn a_transaction_reads_its_own_writes_and_conflicts_only_on_what_it_read() {
        let mut oracle = Oracle::new(0);
        oracle.create(0, Operator::Append);
        oracle.commit(&[put("a", "1", None)]);
        let mut blind = oracle.begin();
        oracle.stage(&mut blind, 0, merge("a", "2").1);
        let mut reader = blind.clone();
        let mut walker = blind.clone();
        let mut setter = blind.clone();
        (0..3).for_each(|_| _ = oracle.pin());
        assert_eq!(oracle.get_in(&mut reader, 0, b"a"), Some(b"12".to_vec()));
        oracle.stage(&mut setter, 0, put("a", "9", None).1);
        assert_eq!(oracle.get_in(&mut setter, 0, b"a"), Some(b"9".to_vec()));
        let all = || (Bound::Unbounded, Bound::Unbounded);
        oracle.walked(&mut walker, 0, (Bound::Excluded(b"a".to_vec()), Bound::Unbounded), all());
        oracle.commit(&[(0, Change::DeleteRange { start: "a".into(), end: "a\0".into() })]);
        assert_eq!(oracle.conflicts(&blind), Conflict::No);
        assert_eq!(oracle.conflicts(&setter), Conflict::May);
        assert_eq!(oracle.conflicts(&walker), Conflict::May, "the range passed holds no key after a");
        assert_eq!(oracle.conflicts(&reader), Conflict::Must);
        oracle.commit(&[put("b", "3", None)]);
        assert_eq!(oracle.conflicts(&walker), Conflict::Must);
        oracle.end(blind, true);
        assert_eq!(text(&oracle, "a", oracle.moment()).as_deref(), Some("2"));
        [reader, walker, setter].into_iter().for_each(|transaction| oracle.end(transaction, false));
    }

    #[test]
    fn a_keyspace_made_anew_is_another_one() {
        let mut oracle = Oracle::new(0);
        oracle.create(0, Operator::None);
        let mut before = oracle.begin();
        assert_eq!(oracle.get_in(&mut before, 0, b"a"), None);
        oracle.stage(&mut before, 0, put("b", "1", None).1);
        assert_eq!(oracle.scan_in(&before, 0, ..).len(), 1);
        oracle.drop_space(0);
        oracle.create(0, Operator::None);
        assert_eq!(oracle.scan_in(&before, 0, ..), []);
        assert_eq!(oracle.conflicts(&before), Conflict::Must);
        let mut after = oracle.begin();
        assert_eq!(oracle.get_in(&mut after, 0, b"a"), None);
        assert_eq!(oracle.conflicts(&after), Conflict::No);
    }
}
