//! What knobs were set to while the database ran: `Assignments`, over what the program gives at its
//! opens.
//!
//! `settings_of` and `split` say how a tree and the memory are kept by it. `history` has at most
//! 256 changes, of one author at most 128; the author of most loses its oldest.
//!
//! What must hold: what was set stands until it is set again or reset, whatever later opens give. A
//! value that is not legal here, or unknown, is passed over. A knob set for all levels ends what
//! was set for single ones, but for level 0's run limit.
//!
//! Callers: `open` collects it; `store` keeps it; `change` adds to it; `control::check` tries
//! settings on a copy; `Control::history`, `control::observe` and `control::ranges` read.

use super::{
    descriptions::describe,
    memory::{Budget, Split},
};
use crate::{
    ids::KeyspaceId,
    knob::{KnobId, Scope, TreeKnob, Value},
    tree::{Settings, Tree},
    version::{Assignment, Edit, Receipt},
};
use std::collections::{BTreeMap, VecDeque};

/// Changes that are remembered of one author.
const HISTORY_OF_AUTHOR_MAX: usize = 128;
/// Changes that are remembered.
const HISTORY_MAX: usize = 256;

/// Where a value was set: the keyspace (`None`: the database), the number of the knob, and the
/// level.
type Place = (Option<KeyspaceId>, u32, Option<u32>);

/// What was set, and the changes that set it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assignments {
    /// What is set for all levels comes before what is set for one.
    values: BTreeMap<Place, String>,
    /// The newest last.
    history: VecDeque<Receipt>,
}

impl Assignments {
    /// Takes over what an edit says.
    pub(super) fn add(&mut self, receipts: Vec<Receipt>, assignments: Vec<Assignment>) {
        assignments.into_iter().for_each(|assignment| self.assign(assignment));
        for receipt in receipts {
            self.remember(receipt);
        }
    }

    /// Adds a receipt to the history. An author that makes many changes drives out its own first.
    fn remember(&mut self, receipt: Receipt) {
        let of_author = self.history.iter().filter(|other| other.who == receipt.who).count();
        let loser = match of_author >= HISTORY_OF_AUTHOR_MAX {
            true => Some(receipt.who.clone()),
            false if self.history.len() >= HISTORY_MAX => self.author_of_most(),
            false => None,
        };
        let oldest = loser.and_then(|who| self.history.iter().position(|other| other.who == who));
        oldest.and_then(|at| self.history.remove(at));
        self.history.push_back(receipt);
    }

    /// The author of most of the changes that are remembered; of several, the one whose oldest is
    /// the oldest.
    fn author_of_most(&self) -> Option<String> {
        let mut authors: BTreeMap<&str, (usize, std::cmp::Reverse<u64>)> = BTreeMap::new();
        for receipt in &self.history {
            authors.entry(&receipt.who).or_insert((0, std::cmp::Reverse(receipt.number))).0 += 1;
        }
        authors.into_iter().max_by_key(|(_, rank)| *rank).map(|(who, _)| who.to_owned())
    }

    /// Sets a knob. Setting it for all levels ends what was set for single ones.
    pub(crate) fn assign(&mut self, assignment: Assignment) {
        let Assignment { keyspace, knob, level, value } = assignment;
        if level.is_none() {
            // Level 0 has a run limit of its own.
            let is_run_limit = knob == KnobId::Tree(TreeKnob::RunLimit).number();
            let stays = |level: Option<u32>| level == Some(0) && is_run_limit;
            self.values.retain(|(at, other, level), _| (*at, *other) != (keyspace, knob) || stays(*level));
        }
        match value {
            Some(value) => self.values.insert((keyspace, knob, level), value),
            None => self.values.remove(&(keyspace, knob, level)),
        };
    }

    /// Forgets a keyspace.
    pub(super) fn forget(&mut self, keyspace: KeyspaceId) {
        self.values.retain(|(at, ..), _| *at != Some(keyspace));
    }

    /// All of it as an edit of a manifest that begins.
    pub(super) fn to_edit(&self) -> Edit {
        let assignment = |(&(keyspace, knob, level), value): (&Place, &String)| Assignment {
            keyspace,
            knob,
            level,
            value: Some(value.clone()),
        };
        Edit {
            receipts: self.history.iter().cloned().collect(),
            assignments: self.values.iter().map(assignment).collect(),
            ..Edit::default()
        }
    }

    /// The number of the next change.
    pub(super) fn next_number(&self) -> u64 {
        self.history.back().map_or(1, |last| last.number + 1)
    }

    /// The changes that are remembered, the newest last.
    pub(crate) fn history(&self) -> impl DoubleEndedIterator<Item = &Receipt> {
        self.history.iter()
    }

    /// Whether the knob was set for exactly this.
    pub(crate) fn is_set(&self, keyspace: Option<KeyspaceId>, knob: KnobId, level: Option<u32>) -> bool {
        self.values.contains_key(&(keyspace, knob.number(), level))
    }

    /// What was set for a keyspace or the database. What this release does not know, or could not
    /// be set to here, is passed over: the bytes may be another release's.
    fn of(&self, keyspace: Option<KeyspaceId>) -> impl Iterator<Item = (KnobId, Option<u32>, Value)> {
        let values = self.values.iter().filter(move |((at, ..), _)| *at == keyspace);
        values.filter_map(|((_, number, level), value)| {
            let knob = describe(KnobId::from_number(*number)?);
            let value = Value::parse(value);
            let is_legal = knob.legal.admits(&value) && (level.is_none() || knob.scope == Scope::Level);
            is_legal.then_some((knob.id, *level, value))
        })
    }

    /// What `tree` is kept like when this was set.
    pub(crate) fn settings_of(&self, tree: &Tree, budget: &Budget) -> Settings {
        let mut settings = Settings::clone(&tree.given());
        for (knob, level, value) in self.of(Some(tree.id)) {
            match knob {
                KnobId::Tree(knob) => settings.set(knob, level, &value),
                // No keyspace has one.
                KnobId::Memory(_) => {}
            }
        }
        settings.shape.write_buffer_bytes = self.split().write_buffer_bytes(budget);
        // A size ratio and run limits that were set at different times, or one set and one given at
        // this open.
        settings.fit_run_limits();
        settings
    }

    /// How the memory is split.
    pub(crate) fn split(&self) -> Split {
        let mut split = Split::default();
        for (knob, _, value) in self.of(None) {
            match knob {
                KnobId::Memory(knob) => split.set(knob, &value),
                // The database has none.
                KnobId::Tree(_) => {}
            }
        }
        split
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receipts(who: &str, numbers: impl IntoIterator<Item = u64>) -> Vec<Receipt> {
        let receipt = |number| Receipt { number, who: who.into(), ..Receipt::default() };
        numbers.into_iter().map(receipt).collect()
    }

    #[test]
    fn an_author_of_many_changes_drives_out_his_own_and_nobody_elses() {
        let mut knobs = Assignments::default();
        knobs.add(receipts("operator", 1..=2), Vec::new());
        knobs.add(receipts("steward", 3..=1000), Vec::new());
        let of = |knobs: &Assignments, who: &str| {
            knobs
                .history()
                .filter(|receipt| receipt.who == who)
                .map(|receipt| receipt.number)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&knobs, "operator"), [1, 2]);
        assert_eq!(of(&knobs, "steward"), (873..=1000).collect::<Vec<_>>());
        for number in 1001..=1400 {
            knobs.add(receipts(&format!("author {}", number % 40), [number]), Vec::new());
        }
        assert_eq!(knobs.history.len(), HISTORY_MAX);
        assert_eq!(of(&knobs, "operator"), [1, 2], "the few of an author outlive the many of another");
        assert_eq!(knobs.history().next_back().map(|receipt| receipt.number), Some(1400));
        assert!(knobs.history.iter().is_sorted_by_key(|receipt| receipt.number));
    }
}
