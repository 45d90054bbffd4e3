//! Stretches of keys in which an open transaction sees nothing: `Emptied`.
//!
//! A transaction that pops its first key again and again would pass all that it has popped, each
//! time. What a walk of it finds to be empty is noted here, and later walks begin behind it. The
//! tree's own gaps (`merge::visible::gaps`) are of what was committed, and do not know its writes.
//!
//! What must hold: the transaction sees no pair in a stretch, by its snapshot, its time and the
//! writes beside which the stretches are kept. A put or an operand leaves its stretch. At most 16
//! are kept, those used last.
//!
//! Callers: `db::writes` keeps one for the writes to a keyspace and tells of new ones;
//! `db::transaction` learns and asks.

use crate::key::{KeyEnd, KeyRange};

/// Most stretches that are kept.
const STRETCHES_MAX: usize = 16;

/// Stretches without a pair, the one used last at the end. No two overlap or adjoin.
#[derive(Clone, Debug, Default)]
pub(super) struct Emptied {
    stretches: Vec<KeyRange>,
}

impl Emptied {
    /// A walk found nothing in `range`.
    pub(super) fn learn(&mut self, range: KeyRange) {
        if range.is_empty() {
            return;
        }
        let mut whole = range;
        self.stretches.retain(|other| {
            let joins = reaches(&whole.end, &other.start) && reaches(&other.end, &whole.start);
            if joins {
                whole = whole.hull(other);
            }
            !joins
        });
        if self.stretches.len() == STRETCHES_MAX {
            self.stretches.remove(0);
        }
        self.stretches.push(whole);
    }

    /// `key` has a value now, or may have one.
    pub(super) fn wrote(&mut self, key: &[u8]) {
        let Some(at) = self.stretches.iter().position(|stretch| stretch.contains(key)) else { return };
        let stretch = self.stretches.remove(at);
        let before = KeyRange { start: stretch.start, end: KeyEnd::Excluded(key.into()) };
        let behind = KeyRange { start: [key, &[0]].concat().into(), end: stretch.end };
        let parts = [behind, before].into_iter().filter(|part| !part.is_empty());
        self.stretches.splice(at..at, parts);
        self.stretches.truncate(STRETCHES_MAX);
    }

    /// What is left of `range` without what is known to be empty at its ends; `None` if that is all
    /// of it.
    pub(super) fn narrowed(&mut self, range: &KeyRange) -> Option<KeyRange> {
        let mut start = None;
        if let Some(at) = self.stretches.iter().position(|stretch| stretch.contains(&range.start)) {
            start = match &self.use_again(at).end {
                KeyEnd::Excluded(end) => Some(end.clone()),
                KeyEnd::Included(last) => Some([last, &[0][..]].concat().into()),
                // Nothing is left, whatever the end was.
                KeyEnd::Unbounded => return Some(KeyRange::half_open(&range.start, &range.start)),
            };
        }
        let holds_end = |stretch: &KeyRange| stretch.end >= range.end && reaches(&range.end, &stretch.start);
        let at = self.stretches.iter().position(holds_end);
        let end = at.map(|at| KeyEnd::Excluded(self.use_again(at).start.clone()));
        (start.is_some() || end.is_some()).then(|| KeyRange {
            start: start.unwrap_or_else(|| range.start.clone()),
            end: end.unwrap_or_else(|| range.end.clone()),
        })
    }

    /// The stretch at `at`, which is used last now.
    fn use_again(&mut self, at: usize) -> &KeyRange {
        self.stretches[at..].rotate_left(1);
        &self.stretches[self.stretches.len() - 1]
    }
}

/// Whether a range with this `end` comes up to `start`: nothing lies between the two.
fn reaches(end: &KeyEnd, start: &[u8]) -> bool {
    match end {
        KeyEnd::Included(last) => start <= &last[..] || start.strip_prefix(&last[..]) == Some(&[0]),
        KeyEnd::Excluded(end) => start <= &end[..],
        KeyEnd::Unbounded => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..2, 0..4)
    }

    fn range() -> impl Strategy<Value = KeyRange> {
        let end = prop_oneof![
            key().prop_map(|key| KeyEnd::Included(key.into())),
            key().prop_map(|key| KeyEnd::Excluded(key.into())),
            Just(KeyEnd::Unbounded),
        ];
        (key(), end).prop_map(|(start, end)| KeyRange { start: start.into(), end })
    }

    #[derive(Clone, Debug)]
    enum Step {
        Learn(KeyRange),
        Write(Vec<u8>),
        Narrow(KeyRange),
    }

    proptest! {
        /// A range loses only keys of which it was said that nothing is there.
        #[test]
        fn a_range_is_narrowed_by_what_is_empty_alone(
            steps in prop::collection::vec(
                prop_oneof![
                    range().prop_map(Step::Learn),
                    key().prop_map(Step::Write),
                    range().prop_map(Step::Narrow),
                ],
                0..60,
            ),
        ) {
            // All keys of up to four bytes that are used, and those right behind them.
            let bytes = [0u8, 1];
            let mut all: BTreeSet<Vec<u8>> = BTreeSet::from([Vec::new()]);
            for _ in 0..5 {
                let longer = all.iter().flat_map(|key| bytes.map(|byte| [&key[..], &[byte]].concat()));
                all.extend(longer.collect::<Vec<_>>());
            }
            let (mut emptied, mut empty) = (Emptied::default(), BTreeSet::new());
            for step in steps {
                match step {
                    Step::Learn(range) => {
                        empty.extend(all.iter().filter(|key| range.contains(key)).cloned());
                        emptied.learn(range);
                    }
                    Step::Write(key) => {
                        empty.remove(&key);
                        emptied.wrote(&key);
                    }
                    Step::Narrow(range) => {
                        let narrow = emptied.narrowed(&range).unwrap_or_else(|| range.clone());
                        for key in &all {
                            let is_left = narrow.contains(key);
                            prop_assert!(!is_left || range.contains(key), "{key:?} was not asked for");
                            let is_lost = range.contains(key) && !is_left;
                            prop_assert!(!is_lost || empty.contains(key), "{key:?} of {range} is lost");
                        }
                    }
                }
                prop_assert!(emptied.stretches.len() <= STRETCHES_MAX);
            }
        }
    }

    #[test]
    fn what_is_popped_from_both_ends_is_two_stretches_and_a_push_cuts_one() {
        let mut emptied = Emptied::default();
        for n in 0..100u8 {
            emptied.learn(KeyRange { start: Box::default(), end: KeyEnd::Excluded([n].into()) });
            emptied.learn(KeyRange { start: [255 - n, 0].into(), end: KeyEnd::Unbounded });
        }
        assert_eq!(emptied.stretches.len(), 2);
        let range = emptied.narrowed(&KeyRange::all()).unwrap();
        assert_eq!(range, KeyRange { start: [99].into(), end: KeyEnd::Excluded([156, 0].into()) });
        emptied.wrote(&[200]);
        let range = emptied.narrowed(&KeyRange::all()).unwrap();
        assert_eq!(range.end, KeyEnd::Excluded([200, 0].into()));
    }
}
