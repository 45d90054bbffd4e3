//! Key ranges in which walks found nothing, so that the next walk need not look again: `Gaps`, and
//! `Eye`, the reader that looks.
//!
//! Deletes say of one key each that it is gone. So each pop of a queue would pass all that was ever
//! popped. `learn` adds a gap and joins neighbours; `end_into`, `start_into` and `last_into` give
//! the end to seek to, `unwritten_in` what needs no validation. `wrote` and `wrote_in` take keys
//! out. A large gap that grows keeps what it was before, for readers of then: its selves. A `Room`
//! bounds what the gaps of all trees take.
//! What must hold: readers as of a gap's moments see no pair in it. A visible entry's key leaves
//! its gap before the entry is visible. A walk that learns and a writer each do their part, then a
//! fence, then look for the other's.
//! Callers: `merge::visible::trail` learns and asks; `tree::gaps` tells of writes and asks for
//! validations; `Tree::seal` forgets unused gaps; `engine::memory` counts.

use crate::{
    ids::Seqno,
    key::{KeyEnd, KeyRange, is_before},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering, fence},
    },
};
use std::sync::Arc;

/// Most gaps that a tree keeps for readers of now.
const GAPS_MAX: usize = 16 << 10;
/// Most gaps that it keeps for readers as of the past.
const PAST_MAX: usize = 16;
/// What a gap takes besides its bounds.
const GAP_BYTES: usize = 128;
/// Where there is no room, a tree keeps gaps of so many bytes all the same.
const TREE_BYTES_LEAST: usize = 512;
/// Bytes of gaps of a database that was given no size.
const ROOM_BYTES: usize = 1 << 20;
/// Where there are too many gaps, one part in so many goes at once.
const THINNED_SHARE: usize = 4;
/// So many gaps that are not for a validation are looked at in search of one that is.
const LOOKED_AT_MAX: usize = 64;
/// A validation steps over keys of a gap that saves it fewer steps.
const UNWRITTEN_MIN: u64 = 16;
/// A gap that saves fewer steps than this is not worth its place.
const PASSED_MIN: u64 = 4;
/// So many gaps that lie side by side are crossed at once.
const CROSSED_MAX: usize = 4;
/// What a gap was is kept if walks passed so many keys to find it.
const SELF_PASSED_MIN: u64 = 64;
/// Most earlier selves of a gap, and most bytes that they take.
const SELVES_MAX: usize = 64;
const SELVES_BYTES_MAX: usize = 16 << 10;
/// Selves are kept anew while the gaps of all trees take one part in so many of what they may.
const ROOM_PARTS_FOR_SELVES: usize = 2;

/// What the gaps of all trees of a database take, and may take.
#[derive(Debug)]
pub struct Room {
    bytes: AtomicUsize,
    bytes_max: AtomicUsize,
}

impl Default for Room {
    fn default() -> Self {
        Room { bytes: AtomicUsize::new(0), bytes_max: AtomicUsize::new(ROOM_BYTES) }
    }
}

impl Room {
    /// Bytes that all gaps take.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// From now on gaps may take so many bytes, and each tree a few in any case.
    pub fn set_bytes_max(&self, bytes: usize) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// A tree's gaps took so many bytes before, and so many now.
    fn changed(&self, before: usize, now: usize) {
        match now.checked_sub(before) {
            Some(more) => self.bytes.fetch_add(more, Ordering::Relaxed),
            None => self.bytes.fetch_sub(before - now, Ordering::Relaxed),
        };
    }
}

/// The reader that looks: what decides whether a gap is one for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eye {
    /// It sees entries up to this one.
    pub snapshot: Seqno,
    /// It does not see what has expired at this moment, in Unix milliseconds.
    pub now_ms: u64,
}

/// A stretch of keys `start..end` without a pair.
#[derive(Clone, Debug, Default)]
struct Gap {
    start: Box<[u8]>,
    end: Box<[u8]>,
    /// For snapshots from here,
    from: Seqno,
    /// to here.
    upto: Seqno,
    /// For moments from this on.
    now_ms: u64,
    /// Keys that the walks that found it passed.
    passed: u64,
    /// Behind `end` there is no pair either.
    is_last: bool,
    /// What it was before, for snapshots from an earlier one, the oldest first. Each lies in the
    /// next one. Only a gap of now has any, and they have none.
    selves: Vec<Gap>,
}

impl Gap {
    fn is_for(&self, eye: Eye) -> bool {
        (self.from..=self.upto).contains(&eye.snapshot) && self.now_ms <= eye.now_ms
    }

    /// The gap, or what it was last that is for this eye.
    #[inline]
    fn as_of(&self, eye: Eye) -> Option<&Gap> {
        if self.is_for(eye) {
            return Some(self);
        }
        let are_before = self.selves.partition_point(|gap| gap.from <= eye.snapshot);
        self.selves[..are_before].iter().rev().find(|gap| gap.is_for(eye))
    }

    fn bytes(&self) -> usize {
        self.start.len() + self.end.len() + GAP_BYTES + self.selves_bytes()
    }

    fn selves_bytes(&self) -> usize {
        self.selves.iter().map(Gap::bytes).sum()
    }

    /// A pair may lie behind it.
    fn is_not_last(&mut self) {
        self.is_last = false;
        self.selves.iter_mut().for_each(|gap| gap.is_last = false);
    }

    /// `other` is about to be joined. What it was is kept, and what it is, if `keeps`; unless there
    /// is more of this gap's own.
    fn succeed(&mut self, other: &mut Gap, keeps: bool) {
        let mut selves = std::mem::take(&mut other.selves);
        let is_worth_it = other.passed >= SELF_PASSED_MIN && other.bytes() <= SELVES_BYTES_MAX;
        if keeps && other.from < self.from && is_worth_it {
            let Gap { from, upto, now_ms, passed, is_last, .. } = *other;
            let (start, end) = (other.start.clone(), other.end.clone());
            selves.push(Gap { start, end, from, upto, now_ms, passed, is_last, selves: Vec::new() });
        }
        let passed = |selves: &[Gap]| selves.last().map_or(0, |gap| gap.passed);
        if passed(&selves) > passed(&self.selves) {
            self.selves = selves;
        }
    }

    /// Forgets selves that others nearly are. Of any three in a row the middle one goes if the
    /// oldest is at most twice as long ago as the newest, and at least half as much. So a reader
    /// finds one that is at most twice as old as it, and at least half of what it could cross.
    fn thin_selves(&mut self) {
        let age = |gap: &Gap| self.from - gap.from;
        let mut at = self.selves.len().saturating_sub(1);
        while at >= 2 {
            let (older, newer) = (&self.selves[at - 2], &self.selves[at]);
            if age(older) <= 2 * age(newer) && newer.passed <= 2 * older.passed {
                self.selves.remove(at - 1);
            }
            at -= 1;
        }
        let mut bytes = self.selves_bytes();
        while self.selves.len() > SELVES_MAX || bytes > SELVES_BYTES_MAX {
            bytes -= self.selves.remove(0).bytes();
        }
    }

    /// Whether the two overlap or adjoin and have a moment in common that `snapshot` is.
    fn joins(&self, other: &Gap, snapshot: Seqno) -> bool {
        let (from, upto) = (self.from.max(other.from), self.upto.min(other.upto));
        self.start <= other.end && other.start <= self.end && (from..=upto).contains(&snapshot)
    }

    fn join(&mut self, other: Gap) {
        self.passed += other.passed;
        self.is_last |= other.is_last;
        self.from = self.from.max(other.from);
        self.upto = self.upto.min(other.upto);
        self.now_ms = self.now_ms.max(other.now_ms);
        if other.start < self.start {
            self.start = other.start;
        }
        if other.end > self.end {
            self.end = other.end;
        }
    }
}

/// Gaps by their starts. Those of [`Lists::now`] do not overlap, and only the last of them may be
/// the last of all.
#[derive(Debug, Default)]
struct Lists {
    /// For all snapshots from some moment on.
    now: Vec<Gap>,
    /// Into which a writer has written since.
    past: Vec<Gap>,
    /// What both take.
    bytes: usize,
    /// A walk learned or skipped one since this was last asked.
    is_used: bool,
}

impl Lists {
    /// The place in `now` of the last gap that starts at or before `key`.
    fn at(&self, key: &[u8]) -> Option<usize> {
        self.now.partition_point(|gap| !is_before(key, &gap.start)).checked_sub(1)
    }

    /// The gap that holds `key`, for this eye.
    fn over(&self, key: &[u8], eye: Eye) -> Option<&Gap> {
        let holds = |gap: &&Gap| !is_before(key, &gap.start) && is_before(key, &gap.end);
        let now = self.at(key).and_then(|at| self.now[at].as_of(eye)).filter(holds);
        // Numbers first: gaps of the past are for few.
        now.or_else(|| self.past.iter().filter(|gap| gap.is_for(eye)).find(holds))
    }

    /// The gap that holds the keys right before `key`, for this eye.
    fn before(&self, key: &[u8], eye: Eye) -> Option<&Gap> {
        let holds = |gap: &&Gap| is_before(&gap.start, key) && !is_before(&gap.end, key);
        let at = self.now.partition_point(|gap| is_before(&gap.start, key)).checked_sub(1);
        let now = at.and_then(|at| self.now[at].as_of(eye)).filter(holds);
        now.or_else(|| self.past.iter().filter(|gap| gap.is_for(eye)).find(holds))
    }

    /// The gap behind which there is no pair, for this eye.
    fn last(&self, eye: Eye) -> Option<&Gap> {
        let now = self.now.last().and_then(|gap| gap.as_of(eye)).filter(|gap| gap.is_last);
        now.or_else(|| self.past.iter().find(|gap| gap.is_last && gap.is_for(eye)))
    }

    /// The first gap of now that ends behind `key` and is for this eye.
    fn next(&self, key: &[u8], eye: Eye) -> Option<&Gap> {
        let ends_before = |gap: &Gap| !is_before(key, &gap.end) && !gap.is_last;
        let next = self.now.partition_point(ends_before);
        let mut near = self.now[next..].iter().take(LOOKED_AT_MAX).filter_map(|gap| gap.as_of(eye));
        near.find(|gap| gap.is_last || gap.passed >= UNWRITTEN_MIN && is_before(key, &gap.end))
    }

    /// Takes in a gap that was found as of `snapshot`. If it `keeps` selves, what it joins stays
    /// for earlier readers.
    fn add(&mut self, mut gap: Gap, snapshot: Seqno, keeps: bool) {
        self.is_used = true;
        if gap.upto == Seqno::MAX {
            // One that is for later moments is worth more, and so is what that one adjoins: what
            // was found is for those before.
            let first = self.now.partition_point(|other| other.end <= gap.start);
            let over = self.now[first..].iter().take_while(|other| other.start < gap.end);
            if let Some(from) = over.map(|other| other.from).max().filter(|&from| from > snapshot) {
                gap.upto = from - 1;
            }
        }
        let is_now = gap.upto == Seqno::MAX;
        let list = if is_now { &mut self.now } else { &mut self.past };
        // Only those of now are in the order of their ends too.
        let mut at = if is_now { list.partition_point(|other| other.end < gap.start) } else { 0 };
        // It takes the place of the first that it joins.
        let mut place = None;
        while let Some(other) = list.get_mut(at) {
            if other.start > gap.end {
                break;
            }
            if !other.joins(&gap, snapshot) {
                at += 1;
                continue;
            }
            self.bytes -= other.bytes();
            let mut other = std::mem::take(other);
            gap.succeed(&mut other, keeps && is_now);
            gap.join(other);
            match place {
                None => (place, at) = (Some(at), at + 1),
                Some(_) => drop(list.remove(at)),
            }
        }
        gap.thin_selves();
        self.bytes += gap.bytes();
        let at = match place {
            Some(at) => {
                list[at] = gap;
                at
            }
            None => {
                let at = list.partition_point(|other| other.start <= gap.start);
                list.insert(at, gap);
                at
            }
        };
        // Where another gap lies behind one, that one is not the last.
        let behind = if at + 1 < list.len() { Some(at) } else { at.checked_sub(1) };
        if let Some(at) = behind.filter(|_| is_now) {
            list[at].is_not_last();
        }
        if !is_now {
            // Joined, it may begin before others.
            list.sort_by(|a, b| a.start.cmp(&b.start));
        }
    }

    /// Forgets those that save least, while there are too many of them, or while all take more than
    /// `bytes_max`, of which other trees' take `elsewhere`.
    fn thin(&mut self, elsewhere: usize, bytes_max: usize) {
        let is_over = |lists: &Self| {
            lists.bytes > TREE_BYTES_LEAST && elsewhere.saturating_add(lists.bytes) > bytes_max
        };
        if is_over(self) {
            self.forget_selves();
        }
        while self.past.len() > PAST_MAX || !self.past.is_empty() && is_over(self) {
            Self::remove_least(&mut self.past, &mut self.bytes);
        }
        while self.now.len() > GAPS_MAX || !self.now.is_empty() && is_over(self) {
            Self::remove_least(&mut self.now, &mut self.bytes);
        }
    }

    /// Forgets what gaps were before.
    fn forget_selves(&mut self) {
        for gap in self.now.iter_mut().filter(|gap| !gap.selves.is_empty()) {
            self.bytes -= gap.selves_bytes();
            gap.selves = Vec::new();
        }
    }

    /// Removes a part of a list, and at least one.
    fn remove_least(list: &mut Vec<Gap>, bytes: &mut usize) {
        let mut passed: Vec<u64> = list.iter().map(|gap| gap.passed).collect();
        let mut count = list.len() / THINNED_SHARE + usize::from(list.len() < THINNED_SHARE);
        let (_, &mut most, _) = passed.select_nth_unstable(count - 1);
        list.retain(|gap| {
            let goes = gap.passed <= most && count > 0;
            if goes {
                count -= 1;
                *bytes -= gap.bytes();
            }
            !goes
        });
    }

    /// Takes `key` out.
    fn cut(&mut self, key: &[u8]) {
        if let Some(last) = self.now.last_mut().filter(|last| &last.end[..] <= key) {
            last.is_not_last();
        }
        let Some(at) = self.at(key).filter(|&at| key < &self.now[at].end[..]) else { return };
        let mut gap = std::mem::take(&mut self.now[at]);
        self.bytes -= gap.bytes();
        // Earlier readers learn anew.
        gap.selves = Vec::new();
        let above: Box<[u8]> = [key, &[0]].concat().into();
        // At an end, nearly all of it is left.
        let is_inside = *gap.start < *key && above < gap.end;
        let passed = if is_inside { gap.passed / 2 } else { gap.passed };
        let parts = [
            Gap { start: above, passed, ..gap.clone() },
            Gap { end: key.into(), passed, is_last: false, ..gap },
        ];
        let mut place = Some(at);
        for part in parts.into_iter().filter(|part| part.start < part.end && part.passed >= PASSED_MIN) {
            self.bytes += part.bytes();
            match place.take() {
                Some(at) => self.now[at] = part,
                None => self.now.insert(at, part),
            }
        }
        if place.is_some() {
            self.now.remove(at);
        }
    }
}

/// The gaps of a tree.
#[derive(Debug, Default)]
pub struct Gaps {
    /// Whether there is any: writers and walks look here first.
    any: AtomicBool,
    lists: Mutex<Lists>,
    room: Arc<Room>,
}

impl Drop for Gaps {
    fn drop(&mut self) {
        self.room.changed(self.lists.lock().bytes, 0);
    }
}

impl Gaps {
    /// None, which are to count in `room`.
    pub fn counted(room: Arc<Room>) -> Gaps {
        Gaps { any: AtomicBool::new(false), lists: Mutex::default(), room }
    }

    /// What they take.
    pub fn bytes(&self) -> usize {
        if self.any() { self.lists.lock().bytes } else { 0 }
    }

    /// Changes the lists, which are kept within the room.
    fn change<R>(&self, lists: &mut Lists, change: impl FnOnce(&mut Lists) -> R) -> R {
        let before = lists.bytes;
        let changed = change(lists);
        let elsewhere = self.room.bytes().saturating_sub(before);
        lists.thin(elsewhere, self.room.bytes_max());
        self.room.changed(before, lists.bytes);
        changed
    }

    /// Whether there is any that a walk could skip.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether a writer that has just inserted entries must say so, by [`Gaps::wrote`], before they
    /// are visible.
    #[inline]
    pub fn must_hear(&self) -> bool {
        fence(Ordering::SeqCst);
        self.any.load(Ordering::Relaxed)
    }

    /// The first key behind the gap that holds `key`, into `end`; false if none does.
    pub fn end_into(&self, key: &[u8], eye: Eye, end: &mut Vec<u8>) -> bool {
        let mut lists = self.lists.lock();
        end.clear();
        let mut next = lists.over(key, eye);
        for _ in 0..CROSSED_MAX {
            let Some(gap) = next else { break };
            end.clear();
            end.extend_from_slice(&gap.end);
            next = lists.over(end, eye);
        }
        lists.is_used |= !end.is_empty();
        !end.is_empty()
    }

    /// The first key of the gap that holds the keys right before `key`, into `start`; false if none
    /// does.
    pub fn start_into(&self, key: &[u8], eye: Eye, start: &mut Vec<u8>) -> bool {
        let mut lists = self.lists.lock();
        let mut next = lists.before(key, eye);
        let found = next.is_some();
        for _ in 0..CROSSED_MAX {
            let Some(gap) = next else { break };
            start.clear();
            start.extend_from_slice(&gap.start);
            next = lists.before(start, eye);
        }
        lists.is_used |= found;
        found
    }

    /// The first key of the gap that holds the last keys of all, into `start`; false if none does.
    pub fn last_into(&self, eye: Eye, start: &mut Vec<u8>) -> bool {
        let mut lists = self.lists.lock();
        let mut next = lists.last(eye);
        let found = next.is_some();
        for _ in 0..CROSSED_MAX {
            let Some(gap) = next else { break };
            start.clear();
            start.extend_from_slice(&gap.start);
            next = lists.before(start, eye);
        }
        lists.is_used |= found;
        found
    }

    /// The first stretch of `range` in which `eye` saw nothing, and nothing that may be seen was
    /// written since, if it spares a validation enough steps.
    pub fn unwritten_in(&self, range: &KeyRange, eye: Eye) -> Option<KeyRange> {
        let lists = self.lists.lock();
        let gap = lists.next(&range.start, eye)?;
        let end = if gap.is_last { KeyEnd::Unbounded } else { KeyEnd::Excluded(gap.end.clone()) };
        let stretch = KeyRange { start: gap.start.clone(), end }.intersection(range);
        (!stretch.is_empty()).then_some(stretch)
    }

    /// Learns that `eye`, which passed so many keys there, sees nothing in `start..end`, and, if it
    /// `is_last`, nothing behind it. `seen_from` tells the smallest number above the snapshot's of
    /// what was inserted there since and may be seen.
    pub fn learn(
        &self,
        (start, end): (&[u8], &[u8]),
        is_last: bool,
        eye: Eye,
        passed: u64,
        seen_from: impl FnOnce() -> Option<Seqno>,
    ) {
        if start >= end || start.len() + end.len() + GAP_BYTES > self.room.bytes_max().max(TREE_BYTES_LEAST) {
            return;
        }
        let mut lists = self.lists.lock();
        self.any.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let upto = seen_from().map_or(Seqno::MAX, |seqno| seqno.saturating_sub(1).max(eye.snapshot));
        let gap = Gap {
            start: start.into(),
            end: end.into(),
            from: eye.snapshot,
            upto,
            now_ms: eye.now_ms,
            passed,
            is_last,
            selves: Vec::new(),
        };
        let keeps = self.room.bytes() < self.room.bytes_max() / ROOM_PARTS_FOR_SELVES;
        self.change(&mut lists, |lists| lists.add(gap, eye.snapshot, keeps));
    }

    /// Entries with these keys, not deletes, were inserted and are about to be visible.
    pub fn wrote<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        let mut lists = self.lists.lock();
        self.change(&mut lists, |lists| keys.for_each(|key| lists.cut(key)));
    }

    /// Entries somewhere in `range` are about to be visible.
    pub fn wrote_in(&self, range: &KeyRange) {
        let mut lists = self.lists.lock();
        self.change(&mut lists, |lists| {
            lists.now.retain(|gap| {
                let end = if gap.is_last { KeyEnd::Unbounded } else { KeyEnd::Excluded(gap.end.clone()) };
                KeyRange { start: gap.start.clone(), end }.intersection(range).is_empty()
            });
            lists.bytes = lists.now.iter().chain(&lists.past).map(Gap::bytes).sum();
        });
    }

    /// Forgets all if none was of use since this was last called.
    pub fn forget_unused(&self) {
        if !self.any() {
            return;
        }
        let mut lists = self.lists.lock();
        if !std::mem::take(&mut lists.is_used) {
            self.change(&mut lists, |lists| *lists = Lists::default());
            self.any.store(false, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SEQNO_MAX;

    const NOW: Eye = Eye { snapshot: 100, now_ms: 5 };

    fn end(gaps: &Gaps, key: &[u8], eye: Eye) -> Option<Vec<u8>> {
        let mut end = Vec::new();
        gaps.end_into(key, eye, &mut end).then_some(end)
    }

    fn start(gaps: &Gaps, key: &[u8], eye: Eye) -> Option<Vec<u8>> {
        let mut start = Vec::new();
        gaps.start_into(key, eye, &mut start).then_some(start)
    }

    #[test]
    fn a_gap_is_crossed_by_those_who_see_nothing_in_it_and_by_nobody_else() {
        let gaps = Gaps::default();
        assert!(!gaps.any() && !gaps.must_hear());
        gaps.learn((b"b", b"d"), false, NOW, 10, || None);
        assert!(gaps.any() && gaps.must_hear());
        for (key, crosses) in [(&b"a"[..], false), (b"b", true), (b"c", true), (b"d", false)] {
            assert_eq!(end(&gaps, key, NOW).is_some(), crosses, "{key:?}");
        }
        for (key, crosses) in [(&b"b"[..], false), (b"c", true), (b"d", true), (b"e", false)] {
            assert_eq!(start(&gaps, key, NOW).is_some(), crosses, "{key:?}");
        }
        let later = Eye { snapshot: 101, now_ms: 6 };
        assert_eq!(end(&gaps, b"c", later).as_deref(), Some(&b"d"[..]));
        assert_eq!(end(&gaps, b"c", Eye { snapshot: 99, ..NOW }), None, "it may see what was deleted");
        assert_eq!(end(&gaps, b"c", Eye { now_ms: 4, ..NOW }), None, "it may see what has expired");
    }

    #[test]
    fn what_is_found_piece_by_piece_becomes_one_gap() {
        let gaps = Gaps::default();
        for n in 0..200u8 {
            let eye = Eye { snapshot: 100 + u64::from(n), ..NOW };
            gaps.learn((&[n], &[n + 1]), false, eye, 10, || None);
        }
        let last = Eye { snapshot: 300, ..NOW };
        assert_eq!(end(&gaps, &[3], last), Some(vec![200]));
        assert_eq!(start(&gaps, &[200], last), Some(vec![0]));
        assert_eq!(gaps.lists.lock().now.len(), 1);
        assert_eq!(end(&gaps, &[3], NOW), None);
    }

    /// A gap that grew from 1 to 20,000 is for readers of any moment, as it was a little before.
    #[test]
    fn an_earlier_reader_crosses_at_least_half_of_what_it_could_and_what_a_little_earlier_one_could() {
        const GROWN: u32 = 20_000;
        let gaps = Gaps::default();
        let eye = |n: u32| Eye { snapshot: u64::from(n), ..NOW };
        let learn =
            |n: u32| gaps.learn((&n.to_be_bytes(), &(n + 1).to_be_bytes()), false, eye(n), 1, || None);
        for n in 0..GROWN {
            learn(n);
            if n % 1000 != 999 {
                continue;
            }
            for age in (1..n).step_by(37) {
                let could = n - age + 1;
                let crossed = end(&gaps, &0u32.to_be_bytes(), eye(n - age))
                    .map_or(0, |end| u32::from_be_bytes(end.try_into().unwrap()));
                assert!(crossed <= could, "{crossed} as of {could} of {n}");
                let least = (could / 2).max(could.saturating_sub(age + 1));
                assert!(
                    crossed >= least || could <= SELF_PASSED_MIN as u32,
                    "{crossed} as of {could} of {n}"
                );
            }
        }
        let lists = gaps.lists.lock();
        assert!(lists.now.len() == 1 && lists.now[0].selves.len() <= 40, "{}", lists.now[0].selves.len());
        assert_eq!((lists.bytes, gaps.room.bytes()), (lists.now[0].bytes(), lists.now[0].bytes()));
        drop(lists);
        // From both sides, and as what is written goes.
        assert_eq!(start(&gaps, &100u32.to_be_bytes(), eye(200)), Some(0u32.to_be_bytes().into()));
        gaps.wrote([&50u32.to_be_bytes()[..]].into_iter());
        assert_eq!(end(&gaps, &0u32.to_be_bytes(), eye(GROWN / 2)), None);
        assert_eq!(end(&gaps, &0u32.to_be_bytes(), eye(GROWN)), Some(50u32.to_be_bytes().into()));
        let lists = gaps.lists.lock();
        assert_eq!(lists.bytes, lists.now.iter().map(Gap::bytes).sum::<usize>());
    }

    #[test]
    fn earlier_selves_take_no_room_from_gaps_and_those_of_long_keys_are_few() {
        let room = Arc::new(Room::default());
        room.set_bytes_max(8 << 10);
        let gaps = Gaps::counted(room.clone());
        let learn = |start: u32, len: usize, n: u32| {
            let bound = |n: u32| [&start.to_be_bytes()[..], &vec![7; len], &n.to_be_bytes()].concat();
            let eye = Eye { snapshot: 100 + u64::from(n), ..NOW };
            gaps.learn((&bound(n), &bound(n + 1)), false, eye, 40, || None);
        };
        for gap in 0..20 {
            (0..100).for_each(|n| learn(gap, 0, n));
        }
        let lists = gaps.lists.lock();
        assert_eq!(lists.now.len(), 20, "no gap goes for what another was");
        assert!(lists.bytes <= 8 << 10);
        drop(lists);
        room.set_bytes_max(ROOM_BYTES);
        (0..100).for_each(|n| learn(100, 3000, n));
        let lists = gaps.lists.lock();
        let of_long = lists.now.last().unwrap();
        assert!((1..=2).contains(&of_long.selves.len()), "{}", of_long.selves.len());
    }

    /// What an earlier self says of what lies behind it ends with it.
    #[test]
    fn an_earlier_self_is_the_last_until_a_key_is_put_behind_it() {
        let last = |gaps: &Gaps, eye| {
            let mut start = Vec::new();
            gaps.last_into(eye, &mut start).then_some(start)
        };
        for key in [&b"z"[..], b"e"] {
            let gaps = Gaps::default();
            gaps.learn((b"d", b"f"), true, NOW, 100, || None);
            gaps.learn((b"b", b"d"), false, Eye { snapshot: 110, ..NOW }, 100, || None);
            assert_eq!(last(&gaps, Eye { snapshot: 110, ..NOW }).as_deref(), Some(&b"b"[..]));
            assert_eq!(last(&gaps, NOW).as_deref(), Some(&b"d"[..]));
            gaps.wrote([key].into_iter());
            assert_eq!(last(&gaps, NOW), None);
        }
    }

    #[test]
    fn who_writes_into_a_gap_takes_the_key_out_of_it() {
        let gaps = Gaps::default();
        gaps.learn((b"b", b"d"), false, NOW, 100, || None);
        gaps.wrote([&b"c"[..]].into_iter());
        let later = Eye { snapshot: 101, ..NOW };
        assert_eq!(end(&gaps, b"b", later).as_deref(), Some(&b"c"[..]));
        assert_eq!(end(&gaps, b"c", later), None);
        assert_eq!(end(&gaps, b"c\0", later).as_deref(), Some(&b"d"[..]));
        gaps.wrote_in(&KeyRange::closed(b"cc", b"z"));
        assert_eq!(end(&gaps, b"c\0", later), None);
        assert!(end(&gaps, b"b", later).is_some());
    }

    #[test]
    fn what_was_written_since_the_snapshot_bounds_who_may_cross() {
        let gaps = Gaps::default();
        gaps.learn((b"b", b"d"), false, NOW, 100, || Some(120));
        assert!(end(&gaps, b"c", Eye { snapshot: 119, ..NOW }).is_some());
        assert!(end(&gaps, b"c", Eye { snapshot: 120, ..NOW }).is_none());
        // Joined, it is for those readers alone for which both parts are.
        gaps.learn((b"d", b"f"), false, Eye { snapshot: 110, ..NOW }, 100, || Some(130));
        assert_eq!(end(&gaps, b"c", Eye { snapshot: 119, ..NOW }).as_deref(), Some(&b"f"[..]));
        assert!(end(&gaps, b"c", Eye { snapshot: 109, ..NOW }).is_none());
    }

    #[test]
    fn gaps_stay_few_and_the_widest_stay() {
        let gaps = Gaps::default();
        for n in 0..2 * GAPS_MAX as u32 {
            let (start, end) = ((2 * n).to_be_bytes(), (2 * n + 1).to_be_bytes());
            gaps.learn((&start, &end), false, NOW, if n == 7 { 1_000_000 } else { u64::from(n) }, || None);
            gaps.learn((&start, &end), false, Eye { snapshot: 50, ..NOW }, u64::from(n), || Some(60));
        }
        let lists = gaps.lists.lock();
        assert!(lists.now.len() <= GAPS_MAX && lists.past.len() <= PAST_MAX);
        let bytes: usize = lists.now.iter().chain(&lists.past).map(Gap::bytes).sum();
        assert_eq!((lists.bytes, gaps.room.bytes()), (bytes, bytes));
        assert!(bytes <= ROOM_BYTES);
        drop(lists);
        assert!(end(&gaps, &14u32.to_be_bytes(), NOW).is_some());
        let long = vec![7; ROOM_BYTES];
        gaps.learn((b"b", &long), false, Eye { snapshot: SEQNO_MAX, ..NOW }, u64::MAX / 2, || None);
        assert!(gaps.room.bytes() <= ROOM_BYTES);
        let room = gaps.room.clone();
        drop(gaps);
        assert_eq!(room.bytes(), 0);
    }

    /// Gaps of all trees share their room, and a tree that comes late has a little in any case.
    #[test]
    fn gaps_of_all_trees_are_counted_together() {
        let room = Arc::new(Room::default());
        room.set_bytes_max(64 << 10);
        let trees: Vec<Gaps> = (0..40).map(|_| Gaps::counted(room.clone())).collect();
        for gaps in &trees {
            for n in 0..100u32 {
                let (start, end) = ((2 * n).to_be_bytes(), (2 * n + 1).to_be_bytes());
                gaps.learn((&start, &end), false, NOW, 100, || None);
            }
            assert!(gaps.lists.lock().now.len() >= 3);
        }
        let bytes = |gaps: &Gaps| gaps.lists.lock().bytes;
        assert_eq!(room.bytes(), trees.iter().map(bytes).sum::<usize>());
        assert!(room.bytes() <= (64 << 10) + 40 * TREE_BYTES_LEAST, "{}", room.bytes());
        trees[0].forget_unused();
        trees[0].forget_unused();
        assert_eq!(bytes(&trees[0]), 0);
        assert_eq!(room.bytes(), trees.iter().map(bytes).sum::<usize>());
    }

    /// Symptom: a reader of a while ago made the gap of all that was popped one of the past.
    /// Cause: what it found there overlapped what was learned since, and took along what it joined.
    #[test]
    fn a_late_learner_takes_nothing_from_readers_of_now() {
        let gaps = Gaps::default();
        let (late, later) = (Eye { snapshot: 110, ..NOW }, Eye { snapshot: 120, ..NOW });
        gaps.learn((b"b", b"d"), false, NOW, 100, || None);
        gaps.learn((b"e", b"f"), false, later, 100, || None);
        gaps.learn((b"d", b"ef"), false, late, 100, || None);
        assert_eq!(end(&gaps, b"b", later).as_deref(), Some(&b"d"[..]));
        assert_eq!(end(&gaps, b"e", later).as_deref(), Some(&b"f"[..]));
        assert_eq!(end(&gaps, b"b", late).as_deref(), Some(&b"ef"[..]));
    }

    #[test]
    fn a_validation_spares_itself_what_nobody_wrote_into_since() {
        let gaps = Gaps::default();
        let unwritten = |range: KeyRange, eye| gaps.unwritten_in(&range, eye);
        let all = KeyRange::all;
        assert_eq!(unwritten(all(), NOW), None);
        gaps.learn((b"b", b"d"), false, NOW, 100, || None);
        gaps.learn((b"f", b"g"), false, NOW, UNWRITTEN_MIN - 1, || None);
        assert_eq!(unwritten(all(), NOW), Some(KeyRange::half_open(b"b", b"d")));
        assert_eq!(unwritten(KeyRange::half_open(b"c", b"cc"), NOW), Some(KeyRange::half_open(b"c", b"cc")));
        assert_eq!(unwritten(KeyRange::half_open(b"d", b"x"), NOW), None, "a few steps are cheaper");
        assert_eq!(unwritten(KeyRange::half_open(b"", b"b"), NOW), None);
        assert_eq!(unwritten(all(), Eye { snapshot: 99, ..NOW }), None, "it may have seen what was deleted");
        assert_eq!(unwritten(all(), Eye { now_ms: 4, ..NOW }), None, "it may have seen what has expired");
        // What was written since its snapshot is in no gap of now.
        gaps.learn((b"p", b"r"), true, NOW, 100, || Some(120));
        assert_eq!(unwritten(KeyRange::half_open(b"p", b"q"), NOW), None);
        gaps.learn((b"p", b"r"), true, Eye { snapshot: 130, ..NOW }, 100, || None);
        assert_eq!(unwritten(KeyRange::half_open(b"p", b"q"), NOW), None);
        let later = Eye { snapshot: 130, ..NOW };
        let behind = KeyRange { start: (*b"x").into(), end: KeyEnd::Unbounded };
        assert_eq!(unwritten(behind.clone(), later), Some(behind.clone()), "the last has no end");
        gaps.wrote([&b"c"[..], b"z"].into_iter());
        assert_eq!(unwritten(behind, later), None);
        assert_eq!(unwritten(all(), later), Some(KeyRange::half_open(b"b", b"c")));
        assert_eq!(
            unwritten(KeyRange::half_open(b"c", b"cc"), later),
            Some(KeyRange::half_open(b"c\0", b"cc"))
        );
    }

    #[test]
    fn behind_the_last_gap_there_is_nothing_until_a_writer_puts_a_key_there() {
        let last = |gaps: &Gaps, eye| {
            let mut start = Vec::new();
            gaps.last_into(eye, &mut start).then_some(start)
        };
        let (gaps, later) = (Gaps::default(), Eye { snapshot: 110, ..NOW });
        gaps.learn((b"b", b"d"), false, NOW, 100, || None);
        assert_eq!(last(&gaps, NOW), None, "a pair may lie behind it");
        gaps.learn((b"d", b"f"), true, NOW, 100, || None);
        assert_eq!(last(&gaps, NOW).as_deref(), Some(&b"b"[..]));
        assert_eq!(last(&gaps, Eye { snapshot: 99, ..NOW }), None, "it may see what was deleted");
        gaps.learn((b"x", b"y"), false, NOW, 100, || None);
        assert_eq!(last(&gaps, NOW), None, "what lies between the two is known of no gap");
        gaps.learn((b"f", b"y"), true, later, 100, || None);
        assert_eq!(last(&gaps, later).as_deref(), Some(&b"b"[..]));
        gaps.wrote([&b"z"[..]].into_iter());
        assert_eq!(last(&gaps, later), None);
        assert!(end(&gaps, b"c", later).is_some(), "the gap itself stays");
        // Into the gap: only its upper part is the last.
        gaps.learn((b"w", b"y"), true, later, 100, || None);
        gaps.wrote([&b"c"[..]].into_iter());
        assert_eq!(last(&gaps, later).as_deref(), Some(&b"c\0"[..]));
        gaps.wrote_in(&KeyRange::closed(b"zz", b"zz"));
        assert_eq!(last(&gaps, later), None);
        assert!(end(&gaps, b"b", later).is_some());
        // What was seen behind it since bounds who may cross.
        gaps.learn((b"p", b"q"), true, later, 100, || Some(120));
        assert_eq!(last(&gaps, Eye { snapshot: 119, ..NOW }).as_deref(), Some(&b"p"[..]));
        assert_eq!(last(&gaps, Eye { snapshot: 120, ..NOW }), None);
    }

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let gaps = Gaps::default();
        gaps.learn((b"b", b"d"), false, NOW, 100, || None);
        gaps.forget_unused();
        assert!(end(&gaps, b"b", NOW).is_some());
        gaps.forget_unused();
        gaps.forget_unused();
        assert!(!gaps.any() && end(&gaps, b"b", NOW).is_none());
    }
}
