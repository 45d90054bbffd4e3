//! Range tombstones, "every key from here to there was deleted at this moment": `RangeTombstones`,
//! an immutable set.
//!
//! `covering` finds the newest tombstone over a key that a snapshot sees. `fragment_end` and
//! `fragment_start` say how far a cover goes. `clip` cuts the set to a range, `thinned` leaves out
//! what no reader can tell. `encode` and `decode` are its bytes.
//!
//! What must hold: a set does not compare ages with entries; that is the caller's part
//! (`sight::hides`). There a tombstone hides, under its keys, all of older sources and nothing of
//! newer ones. Of its own source it hides smaller sequence numbers.
//! Callers: `engine::{apply, large, open}` make tombstones, `memtable` and `db::writes` extend a
//! set, `table` stores one; `tree`, `version::run`, `merge::visible`, `compaction`,
//! `engine::ingest`, `inspect`, `db` and `fuzz` ask.

use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_end, put_varint},
    ids::{SEQNO_MAX, Seqno},
    key::{KeyEnd, KeyRange, head},
};
use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
    sync::Arc,
};

/// Every key in `[start, end)` was deleted at `seqno`. All copies share their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First key deleted.
    pub start: Arc<[u8]>,
    /// The first key not deleted any more. May be one byte longer than a user key.
    pub end: Arc<[u8]>,
    /// When.
    pub seqno: Seqno,
}

impl RangeTombstone {
    /// Whether `key` lies in the range.
    #[inline]
    pub fn contains(&self, key: &[u8]) -> bool {
        &self.start[..] <= key && key < &self.end[..]
    }

    /// Whether no key can lie in the range.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Newest first; ties in any fixed order.
    fn by_age(&self, other: &Self) -> Ordering {
        let same_age = || (&self.start, &self.end).cmp(&(&other.start, &other.end));
        other.seqno.cmp(&self.seqno).then_with(same_age)
    }
}

/// A stretch of keys over which one tombstone is the newest.
#[derive(Clone, Debug)]
struct Fragment {
    /// [`head`] of `start`.
    head: u64,
    newest: Seqno,
    start: Arc<[u8]>,
    end: Arc<[u8]>,
}

impl Fragment {
    fn new(start: &Arc<[u8]>, end: &Arc<[u8]>, newest: Seqno) -> Self {
        Fragment { head: head(start), newest, start: start.clone(), end: end.clone() }
    }

    /// Whether `next` continues this fragment without a gap.
    fn adjoins(&self, next: &Fragment) -> bool {
        self.end == next.start
    }
}

/// A set of range tombstones. Immutable; cheap to clone, cheap when empty.
///
/// What must hold: the set is kept twice. `newest_first` has every tombstone; `fragments` is the
/// same set as seen from above, sorted and disjoint, where each point shows only its newest
/// tombstone. Nearly every question ends at a fragment, found by binary search. Only a snapshot
/// older than that newest tombstone walks the list. (Keeping all sequence numbers at each fragment
/// would answer both by search, but a queue that deletes `0..i` for ever larger `i` then takes
/// memory and time quadratic in `i`.)
#[derive(Clone, Debug, Default)]
pub struct RangeTombstones {
    newest_first: Vec<Arc<RangeTombstone>>,
    fragments: Vec<Fragment>,
}

impl PartialEq for RangeTombstones {
    fn eq(&self, other: &Self) -> bool {
        self.newest_first == other.newest_first
    }
}
impl Eq for RangeTombstones {}

impl RangeTombstones {
    /// The set of `tombstones`, in any order. Empty ranges and repetitions are left out.
    pub fn new(tombstones: Vec<RangeTombstone>) -> Self {
        RangeTombstones::from_shared(tombstones.into_iter().map(Arc::new).collect())
    }

    /// As [`RangeTombstones::new`], of tombstones that other sets may have too.
    pub fn from_shared(mut tombstones: Vec<Arc<RangeTombstone>>) -> Self {
        tombstones.retain(|tombstone| !tombstone.is_empty());
        tombstones.sort_by(|a, b| a.by_age(b));
        tombstones.dedup();
        RangeTombstones { fragments: seen_from_above(&tombstones), newest_first: tombstones }
    }

    /// This set and more.
    pub fn with_all(&self, tombstones: impl IntoIterator<Item = RangeTombstone>) -> Self {
        let mut tombstones = tombstones.into_iter().peekable();
        match (tombstones.next(), tombstones.peek()) {
            (None, _) => self.clone(),
            (Some(only), None) => self.with(only),
            (Some(first), Some(_)) => {
                let more = std::iter::once(first).chain(tombstones).map(Arc::new);
                RangeTombstones::from_shared(self.newest_first.iter().cloned().chain(more).collect())
            }
        }
    }

    /// This set and one more. Costs a copy of two lists of pointers if none is newer than
    /// `tombstone`, as in a memtable.
    fn with(&self, tombstone: RangeTombstone) -> Self {
        let older = self.newest_first.partition_point(|other| other.by_age(&tombstone).is_lt());
        let is_there = self.newest_first.get(older).is_some_and(|other| **other == tombstone);
        if tombstone.is_empty() || is_there {
            return self.clone();
        }
        let mut newest_first = Vec::with_capacity(self.newest_first.len() + 1);
        newest_first.extend_from_slice(&self.newest_first);
        let is_newest = self.max_seqno().is_none_or(|newest| newest <= tombstone.seqno);
        let tombstone = Arc::new(tombstone);
        newest_first.insert(older, tombstone.clone());
        if !is_newest {
            return RangeTombstones { fragments: seen_from_above(&newest_first), newest_first };
        }
        // As new as any, it hides what it overlaps: it takes the place of those fragments.
        let (start, end) = (&tombstone.start, &tombstone.end);
        let first = self.fragments.partition_point(|fragment| fragment.end <= *start);
        let last = self.fragments.partition_point(|fragment| fragment.start < *end);
        let mut fragments = Vec::with_capacity(self.fragments.len() + 2);
        fragments.extend_from_slice(&self.fragments[..first]);
        let hidden = &self.fragments[first..last];
        if let Some(cut) = hidden.first().filter(|cut| cut.start < *start) {
            fragments.push(Fragment { end: start.clone(), ..cut.clone() });
        }
        fragments.push(Fragment::new(start, end, tombstone.seqno));
        if let Some(cut) = hidden.last().filter(|cut| cut.end > *end) {
            fragments.push(Fragment::new(end, &cut.end, cut.newest));
        }
        fragments.extend_from_slice(&self.fragments[last..]);
        RangeTombstones { newest_first, fragments }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// How many tombstones there are.
    pub fn len(&self) -> usize {
        self.newest_first.len()
    }

    /// The largest sequence number; `None` if the set is empty.
    pub fn max_seqno(&self) -> Option<Seqno> {
        self.newest_first.first().map(|tombstone| tombstone.seqno)
    }

    /// The smallest sequence number; `None` if the set is empty.
    pub fn min_seqno(&self) -> Option<Seqno> {
        self.newest_first.last().map(|tombstone| tombstone.seqno)
    }

    /// The sequence number of the newest tombstone over `key` among those that `snapshot` sees
    /// (those not larger than it).
    #[inline]
    pub fn covering(&self, key: &[u8], snapshot: Seqno) -> Option<Seqno> {
        let fragment = &self.fragments[self.fragment_over(key)?];
        if fragment.newest <= snapshot {
            return Some(fragment.newest);
        }
        Some(self.older_covering(key, snapshot)?.seqno)
    }

    /// The set as seen from above: disjoint stretches in key order, from the first key to the first
    /// that is not in it any more, each with the number of the one tombstone that is the newest
    /// over it.
    pub fn stretches(&self) -> impl Iterator<Item = (&[u8], &[u8], Seqno)> {
        self.fragments.iter().map(|fragment| (&fragment.start[..], &fragment.end[..], fragment.newest))
    }

    /// The keys that the set covers: disjoint ranges in key order, each from its first key to the
    /// first that is not covered any more. Stretches that touch are one range.
    pub fn covers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let touching = self.fragments.chunk_by(Fragment::adjoins);
        touching.map(|all| (&all[0].start[..], &all[all.len() - 1].end[..]))
    }

    /// Where the cover of `key` ends, if the snapshot sees one: every key from `key` up to the
    /// returned one is covered by some tombstone of this set that `snapshot` sees.
    pub fn fragment_end(&self, key: &[u8], snapshot: Seqno) -> Option<&[u8]> {
        let mut at = self.fragment_over(key)?;
        if self.fragments[at].newest > snapshot {
            return Some(&self.older_covering(key, snapshot)?.end);
        }
        while let Some(next) = self.fragments.get(at + 1)
            && self.fragments[at].adjoins(next)
            && next.newest <= snapshot
        {
            at += 1;
        }
        Some(&self.fragments[at].end)
    }

    /// Where the cover of `key` begins, if the snapshot sees one: every key from the returned one
    /// up to `key` is covered by some tombstone of this set that `snapshot` sees.
    pub fn fragment_start(&self, key: &[u8], snapshot: Seqno) -> Option<&[u8]> {
        let mut at = self.fragment_over(key)?;
        if self.fragments[at].newest > snapshot {
            return Some(&self.older_covering(key, snapshot)?.start);
        }
        while let Some(before) = at.checked_sub(1).map(|before| &self.fragments[before])
            && before.adjoins(&self.fragments[at])
            && before.newest <= snapshot
        {
            at -= 1;
        }
        Some(&self.fragments[at].start)
    }

    /// Whether some key of `range` was deleted later than `seqno`.
    pub fn overlaps_newer_than(&self, range: &KeyRange, seqno: Seqno) -> bool {
        let first = self.fragments.partition_point(|fragment| fragment.end[..] <= range.start[..]);
        !range.is_empty()
            && self.fragments[first..]
                .iter()
                .take_while(|fragment| range.end.admits(&fragment.start))
                .any(|fragment| fragment.newest > seqno)
    }

    /// The tombstones, by start, newest first among equal starts.
    pub fn iter(&self) -> impl Iterator<Item = RangeTombstone> {
        self.by_start().into_iter().map(|shared| (**shared).clone())
    }

    /// The tombstones, newest first, for other sets to have too.
    pub fn shared(&self) -> &[Arc<RangeTombstone>] {
        &self.newest_first
    }

    /// As [`RangeTombstones::iter`], to be shared.
    pub fn by_start(&self) -> Vec<&Arc<RangeTombstone>> {
        let mut tombstones: Vec<&Arc<RangeTombstone>> = self.newest_first.iter().collect();
        // Stable, and the list is newest first.
        tombstones.sort_by(|a, b| a.start.cmp(&b.start));
        tombstones
    }

    /// What the set says about the keys in `range`. An end that belongs to the range, `k`, becomes
    /// the key right after it, `k` and a zero byte.
    pub fn clip(&self, range: &KeyRange) -> Self {
        if self.is_empty() || self.span().is_some_and(|span| range.covers(&span)) {
            return self.clone();
        }
        let first: Arc<[u8]> = range.start[..].into();
        let limit: Option<Arc<[u8]>> = match &range.end {
            KeyEnd::Included(end) => Some([end, &[0][..]].concat().into()),
            KeyEnd::Excluded(end) => Some(end[..].into()),
            KeyEnd::Unbounded => None,
        };
        let clipped = |tombstone: &Arc<RangeTombstone>| {
            let start = (&tombstone.start).max(&first);
            let end = limit.as_ref().map_or(&tombstone.end, |limit| limit.min(&tombstone.end));
            if start >= end {
                return None;
            }
            let is_whole = *start == tombstone.start && *end == tombstone.end;
            Some(match is_whole {
                true => tombstone.clone(),
                false => Arc::new(RangeTombstone {
                    start: start.clone(),
                    end: end.clone(),
                    seqno: tombstone.seqno,
                }),
            })
        };
        RangeTombstones::from_shared(self.newest_first.iter().filter_map(clipped).collect())
    }

    /// The smallest set that no reader can tell from this one: between two neighbouring `snapshots`
    /// (ascending), only the newest tombstone over each key is kept. Tombstones that adjoin are
    /// joined only if they were written together.
    pub fn thinned(&self, snapshots: &[Seqno]) -> Self {
        let stripe = |tombstone: &RangeTombstone| snapshots.partition_point(|&seen| seen < tombstone.seqno);
        let visible = self
            .newest_first
            .chunk_by(|newer, older| stripe(newer) == stripe(older))
            .flat_map(seen_from_above)
            .map(|fragment| {
                Arc::new(RangeTombstone { start: fragment.start, end: fragment.end, seqno: fragment.newest })
            });
        RangeTombstones::from_shared(visible.collect())
    }

    /// From the first key covered to the end of the last cover; `None` if the set is empty.
    pub fn span(&self) -> Option<KeyRange> {
        let (first, last) = (self.fragments.first()?, self.fragments.last()?);
        Some(KeyRange::half_open(&first.start, &last.end))
    }

    /// Appends the set: the number of tombstones as a varint, then for each, by start, newest first
    /// among equal starts: start and end (a varint of the length, then the bytes) and the sequence
    /// number (varint).
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.len() as u64);
        for tombstone in self.by_start() {
            put_bytes(out, &tombstone.start);
            put_end(out, &tombstone.end);
            put_varint(out, tombstone.seqno);
        }
    }

    /// Reads what [`encode`](RangeTombstones::encode) wrote, to the last byte. Equal starts may
    /// come in any order.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut decoder = Decoder::new(bytes);
        // The shortest tombstone takes four bytes, so a count beyond that is a lie.
        let count = decoder.varint_up_to(bytes.len() as u64 / 4, "a number of range tombstones")?;
        let mut tombstones: Vec<Arc<RangeTombstone>> = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let start: Arc<[u8]> = decoder.bytes("the start of a range tombstone")?.into();
            if tombstones.last().is_some_and(|before| before.start > start) {
                return decoder.fail("range tombstones in order of their starts");
            }
            let end: Arc<[u8]> = decoder.end("the end of a range tombstone")?.into();
            if start >= end {
                return decoder.fail("a range tombstone that ends after its start");
            }
            let seqno = decoder.varint_up_to(SEQNO_MAX, "the sequence number of a range tombstone")?;
            tombstones.push(Arc::new(RangeTombstone { start, end, seqno }));
        }
        decoder.finish("the end of the range tombstones")?;
        Ok(RangeTombstones::from_shared(tombstones))
    }

    /// The number of the fragment that holds `key`.
    #[inline]
    fn fragment_over(&self, key: &[u8]) -> Option<usize> {
        if self.fragments.is_empty() {
            return None;
        }
        let wanted = head(key);
        let starts_up_to = |fragment: &Fragment| match fragment.head.cmp(&wanted) {
            Ordering::Less => true,
            Ordering::Equal => &fragment.start[..] <= key,
            Ordering::Greater => false,
        };
        let at = self.fragments.partition_point(starts_up_to).checked_sub(1)?;
        (key < &self.fragments[at].end[..]).then_some(at)
    }

    /// The newest tombstone over `key` that `snapshot` sees, where it does not see the newest of
    /// all.
    #[cold]
    fn older_covering(&self, key: &[u8], snapshot: Seqno) -> Option<&RangeTombstone> {
        let seen = self.newest_first.partition_point(|tombstone| tombstone.seqno > snapshot);
        self.newest_first[seen..].iter().map(|arc| &**arc).find(|tombstone| tombstone.contains(key))
    }
}

/// What remains visible of `newest_first` when newer tombstones hide older ones: one sweep over all
/// starts and ends, keeping the tombstones under the sweep in a heap.
fn seen_from_above(newest_first: &[Arc<RangeTombstone>]) -> Vec<Fragment> {
    let mut by_start: Vec<usize> = (0..newest_first.len()).collect();
    by_start.sort_by(|&a, &b| newest_first[a].start.cmp(&newest_first[b].start));
    let mut edges: Vec<&Arc<[u8]>> = newest_first.iter().flat_map(|t| [&t.start, &t.end]).collect();
    edges.sort_unstable();
    edges.dedup();

    let mut fragments: Vec<Fragment> = Vec::new();
    // Positions in the list: the smallest is the newest.
    let mut under: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut coming = by_start.into_iter().peekable();
    for edge in edges.windows(2) {
        let (from, to) = (edge[0], edge[1]);
        while let Some(at) = coming.next_if(|&at| &newest_first[at].start <= from) {
            under.push(Reverse(at));
        }
        while under.peek().is_some_and(|&Reverse(at)| &newest_first[at].end <= from) {
            under.pop();
        }
        let Some(&Reverse(newest)) = under.peek() else { continue };
        let seqno = newest_first[newest].seqno;
        match fragments.last_mut() {
            Some(last) if last.newest == seqno && last.end == *from => last.end = to.clone(),
            _ => fragments.push(Fragment::new(from, to, seqno)),
        }
    }
    fragments
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tombstone(start: &[u8], end: &[u8], seqno: Seqno) -> RangeTombstone {
        RangeTombstone { start: start.into(), end: end.into(), seqno }
    }

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![prop::collection::vec(0u8..3, 0..3), prop::collection::vec(0u8..2, 7..10)]
    }

    fn some_tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
        prop::collection::vec((keys(), keys(), 0u64..20), 0..12)
            .prop_map(|list| list.iter().map(|(a, b, seqno)| tombstone(a, b, *seqno)).collect())
    }

    fn covering(list: &[RangeTombstone], key: &[u8], snapshot: Seqno) -> Option<Seqno> {
        list.iter().filter(|t| t.contains(key) && t.seqno <= snapshot).map(|t| t.seqno).max()
    }

    /// Every key near an edge of `list`.
    fn interesting(list: &[RangeTombstone]) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = list
            .iter()
            .flat_map(|t| [&t.start, &t.end])
            .flat_map(|edge| [edge.to_vec(), [edge, &[0][..]].concat(), edge[..edge.len() / 2].to_vec()])
            .chain([vec![], vec![255]])
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    proptest! {
        #[test]
        fn the_set_agrees_with_a_list(list in some_tombstones()) {
            let set = RangeTombstones::new(list.clone());
            let one_by_one = list.iter().cloned().fold(RangeTombstones::default(), |set, t| set.with(t));
            let mut by_age = list.clone();
            by_age.sort_by_key(|t| t.seqno);
            let in_order = by_age.iter().cloned().fold(RangeTombstones::default(), |set, t| set.with(t));
            prop_assert_eq!(&set, &one_by_one);
            prop_assert_eq!(&set, &in_order);
            let half = list.len() / 2;
            let in_two = RangeTombstones::new(list[..half].to_vec()).with_all(list[half..].iter().cloned());
            prop_assert_eq!(&set, &in_two);
            for key in interesting(&list) {
                for snapshot in 0..21 {
                    let expected = covering(&list, &key, snapshot);
                    prop_assert_eq!(set.covering(&key, snapshot), expected);
                    prop_assert_eq!(in_order.covering(&key, snapshot), expected);
                }
            }
        }

        #[test]
        fn every_key_of_a_stretch_is_covered(list in some_tombstones()) {
            let set = RangeTombstones::new(list.clone());
            let keys = interesting(&list);
            for key in &keys {
                for snapshot in 0..21 {
                    let (start, end) = (set.fragment_start(key, snapshot), set.fragment_end(key, snapshot));
                    let covered = covering(&list, key, snapshot).is_some();
                    prop_assert_eq!((start.is_some(), end.is_some()), (covered, covered));
                    let (Some(start), Some(end)) = (start, end) else { continue };
                    prop_assert!(start <= &key[..] && &key[..] < end);
                    for other in keys.iter().filter(|other| start <= &other[..] && &other[..] < end) {
                        prop_assert!(covering(&list, other, snapshot).is_some());
                    }
                }
            }
        }

        #[test]
        fn an_encoded_set_comes_back(list in some_tombstones()) {
            let set = RangeTombstones::new(list);
            let mut bytes = Vec::new();
            set.encode(&mut bytes);
            prop_assert_eq!(RangeTombstones::decode(&bytes).unwrap(), set);
            for len in 0..bytes.len() {
                prop_assert!(RangeTombstones::decode(&bytes[..len]).is_err());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(0u8..6, 0..60)) {
            let _ = RangeTombstones::decode(&bytes);
        }

        #[test]
        fn a_clipped_set_says_the_same_inside_and_nothing_outside(
            list in some_tombstones(), a in keys(), b in keys(), included: bool, bounded: bool,
        ) {
            let end = match (bounded, included) {
                (false, _) => KeyEnd::Unbounded,
                (true, true) => KeyEnd::Included(b.into()),
                (true, false) => KeyEnd::Excluded(b.into()),
            };
            let range = KeyRange { start: a.into(), end };
            let clipped = RangeTombstones::new(list.clone()).clip(&range);
            let mut keys = interesting(&list);
            keys.extend([&range.start[..], range.end.key().unwrap_or_default()].map(<[u8]>::to_vec));
            for key in keys {
                for snapshot in 0..21 {
                    let expected = covering(&list, &key, snapshot).filter(|_| range.contains(&key));
                    prop_assert_eq!(clipped.covering(&key, snapshot), expected);
                }
            }
        }

        #[test]
        fn no_snapshot_tells_a_thinned_set_from_the_whole(
            list in some_tombstones(), mut snapshots in prop::collection::vec(0u64..20, 0..4),
        ) {
            snapshots.sort();
            let set = RangeTombstones::new(list.clone());
            let thinned = set.thinned(&snapshots);
            let stripe = |seqno: Seqno| snapshots.partition_point(|&seen| seen < seqno);
            for key in interesting(&list) {
                for &snapshot in snapshots.iter().chain([&SEQNO_MAX]) {
                    let (whole, thin) = (set.covering(&key, snapshot), thinned.covering(&key, snapshot));
                    prop_assert_eq!(whole.map(stripe), thin.map(stripe));
                    prop_assert_eq!(whole, thin);
                }
            }
        }

        #[test]
        fn an_overlap_is_newer_only_if_a_covered_key_is(
            list in some_tombstones(), a in keys(), b in keys(), seqno in 0u64..20,
        ) {
            let range = KeyRange::half_open(&a, &b);
            let set = RangeTombstones::new(list.clone());
            let mut keys = interesting(&list);
            keys.push(a);
            let expected = keys
                .iter()
                .any(|key| range.contains(key) && covering(&list, key, SEQNO_MAX).is_some_and(|s| s > seqno));
            prop_assert_eq!(set.overlaps_newer_than(&range, seqno), expected);
        }
    }

    #[test]
    fn a_set_knows_its_extent() {
        let set = RangeTombstones::new(vec![
            tombstone(b"m", b"p", 7),
            tombstone(b"a", b"c", 3),
            tombstone(b"z", b"z", 9),
        ]);
        assert_eq!(set.span(), Some(KeyRange::half_open(b"a", b"p")));
        assert_eq!((set.min_seqno(), set.max_seqno(), set.len()), (Some(3), Some(7), 2));
        assert_eq!(set.iter().map(|t| t.seqno).collect::<Vec<_>>(), [3, 7]);
        assert_eq!(RangeTombstones::default().span(), None);
    }

    #[test]
    fn a_queue_that_deletes_from_its_front_stays_small() {
        let mut set = RangeTombstones::default();
        for i in 1..2000u32 {
            set = set.with(tombstone(&0u32.to_be_bytes(), &i.to_be_bytes(), u64::from(i)));
        }
        assert_eq!(set.fragments.len(), 1);
        assert_eq!(set.thinned(&[]).len(), 1);
        assert_eq!(set.covering(&500u32.to_be_bytes(), 1000), Some(1000));
        assert_eq!(set.covering(&500u32.to_be_bytes(), 500), None);
    }
}
