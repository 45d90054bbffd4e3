//! What a script's commits make of the database, commit by commit: `History`, with what a recovery
//! may give, `Allowed`.
//!
//! `commit_of` says what an operation commits. `allows` says whether what was found is a state that
//! a recovery may give; `explain` and `differences` tell which keys differ.
//!
//! What must hold: two orders are kept apart. Data comes back as a prefix of the commit order.
//! Creating and dropping a keyspace is durable by itself, once acknowledged, whatever becomes of
//! buffered writes before it. So keyspaces may be of a later moment than the data in them, never of
//! an earlier one.
//!
//! Callers: `crash` (sweeps), `crash::life`, `faults::world`.

use super::life::NOW_MS;
use crate::{
    oracle::{self, Oracle},
    script::{Operation, Script},
    setting::Setting,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
    sync::Arc,
};

/// The pairs of one keyspace.
pub(crate) type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;
/// The pairs of every keyspace that is there, by slot.
pub(crate) type Contents = BTreeMap<usize, Arc<Pairs>>;

/// The database after some commits.
#[derive(Clone)]
struct State {
    contents: Contents,
    /// Which keyspace of all that ever had the slot is there now.
    generations: BTreeMap<usize, usize>,
}

/// The states that commits run through. Creating and dropping a keyspace count as commits.
#[derive(Clone)]
pub(crate) struct History {
    oracle: Oracle,
    /// The state after so many commits.
    states: Vec<State>,
}

/// What a recovery may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Commits that must be there: those acknowledged as durable.
    pub(crate) low: usize,
    /// Commits acknowledged: of these every creation and drop of a keyspace must be there.
    pub(crate) acknowledged: usize,
    /// Commits that may be there: those begun.
    pub(crate) high: usize,
}

impl Allowed {
    /// Exactly so many commits.
    pub(crate) fn only(commits: usize) -> Allowed {
        Allowed { low: commits, acknowledged: commits, high: commits }
    }
}

impl History {
    /// No keyspaces and no commits.
    pub(crate) fn new() -> History {
        let nothing = State { contents: Contents::new(), generations: BTreeMap::new() };
        History { oracle: Oracle::new(NOW_MS), states: vec![nothing] }
    }

    /// The history of a script.
    pub(crate) fn of(script: &Script) -> History {
        let mut history = History::new();
        for slot in 0..script.setting.spaces.len() {
            history.push(&script.setting, &Commit::Create(slot));
        }
        for operation in &script.operations {
            let there = history.last().keys().copied().collect();
            if let Some(commit) = commit_of(operation, &script.setting, &there) {
                history.push(&script.setting, &commit);
            }
        }
        history
    }

    /// One more commit.
    pub(crate) fn push(&mut self, setting: &Setting, commit: &Commit) {
        let before = &self.states[self.states.len() - 1];
        let mut generations = before.generations.clone();
        let changed = match commit {
            Commit::Changes(changes) => {
                self.oracle.commit(changes);
                changes.iter().map(|(slot, _)| *slot).collect()
            }
            Commit::Create(slot) => {
                self.oracle.create(*slot, setting.spaces[*slot].operator);
                generations.insert(*slot, self.states.len());
                BTreeSet::from([*slot])
            }
            Commit::Drop(slot) => {
                generations.remove(slot);
                BTreeSet::new()
            }
        };
        let pairs = |slot: usize| match before.contents.get(&slot) {
            Some(pairs) if !changed.contains(&slot) => pairs.clone(),
            _ => Arc::new(self.oracle.scan(slot, .., self.oracle.moment()).into_iter().collect()),
        };
        let contents = generations.keys().map(|&slot| (slot, pairs(slot))).collect();
        self.states.push(State { contents, generations });
    }

    /// How many commits.
    pub(crate) fn len(&self) -> usize {
        self.states.len() - 1
    }

    /// The present state.
    pub(crate) fn last(&self) -> &Contents {
        self.after(self.len())
    }

    /// The state after so many commits.
    pub(crate) fn after(&self, commits: usize) -> &Contents {
        &self.states[commits].contents
    }

    /// Whether what was found is a state that a recovery may give.
    pub(crate) fn allows(&self, found: &Contents, allowed: Allowed) -> Result<(), String> {
        let agrees = |data: usize| {
            (data.max(allowed.acknowledged)..=allowed.high).any(|names| self.agrees(data, names, found))
        };
        if (allowed.low..=allowed.high).rev().any(agrees) {
            return Ok(());
        }
        let named = |at: &usize| self.states[*at].contents.keys().all(|slot| found.contains_key(slot));
        let extra = |at: &usize| found.keys().all(|slot| *slot == 0 || self.after(*at).contains_key(slot));
        let (mut lost, mut back) = (allowed.acknowledged..=allowed.high, allowed.acknowledged..=allowed.high);
        if !lost.any(|at| named(&at)) {
            return Err("a keyspace is lost".to_owned());
        }
        if !back.any(|at| extra(&at)) {
            return Err("a keyspace is back after its drop".to_owned());
        }
        Err(self.explain(found, allowed.low..=allowed.high))
    }

    /// Whether what was found is the data after `data` commits in the keyspaces after `names`
    /// commits.
    fn agrees(&self, data: usize, names: usize, found: &Contents) -> bool {
        let (data, names) = (&self.states[data], &self.states[names]);
        let mut slots = names.contents.keys().chain(found.keys());
        slots.all(|slot| match (found.get(slot), names.generations.get(slot)) {
            (Some(pairs), Some(generation)) if data.generations.get(slot) == Some(generation) => {
                data.contents.get(slot) == Some(pairs)
            }
            (Some(pairs), Some(_)) => pairs.is_empty(),
            // The default keyspace is there before anything is done.
            (Some(pairs), None) => *slot == 0 && pairs.is_empty(),
            (None, generation) => generation.is_none(),
        })
    }

    /// Which keys make the difference to the first and the last of these states.
    pub(crate) fn explain(&self, found: &Contents, states: RangeInclusive<usize>) -> String {
        let mut text = format!("none of the states after {states:?} commits;");
        for (name, at) in [("first", *states.start()), ("last", *states.end())] {
            let (differences, example) = differences(found, self.after(at));
            text.push_str(&format!(" {differences} keys differ from the {name}: {example};"));
        }
        text
    }
}

/// How many keys differ, and one of them.
pub(crate) fn differences(found: &Contents, wanted: &Contents) -> (usize, String) {
    let nothing = Arc::new(Pairs::new());
    let mut differences = 0;
    let mut example = String::new();
    for (slot, pairs) in found {
        let wanted = wanted.get(slot).unwrap_or(&nothing);
        for key in pairs.keys().chain(wanted.keys()).collect::<BTreeSet<_>>() {
            if pairs.get(key) == wanted.get(key) {
                continue;
            }
            differences += 1;
            let side = |pairs: &Pairs| match pairs.get(key) {
                Some(value) => {
                    format!("{} bytes \"{}\"", value.len(), value[..value.len().min(20)].escape_ascii())
                }
                None => "nothing".to_owned(),
            };
            if example.is_empty() {
                let shown = key[..key.len().min(60)].escape_ascii();
                let (found, wanted) = (side(pairs), side(wanted));
                example = format!("keyspace {slot} key \"{shown}\" holds {found}, not {wanted}");
            }
        }
    }
    (differences, example)
}

/// What one operation commits.
pub(crate) enum Commit {
    /// Changes, all or nothing.
    Changes(Vec<(usize, oracle::Change)>),
    /// A keyspace that was dropped, anew.
    Create(usize),
    /// The end of a keyspace.
    Drop(usize),
}

/// What the operation commits, if anything, when these keyspaces are there. An operation that the
/// engine would refuse commits nothing and is not done.
pub(crate) fn commit_of(operation: &Operation, setting: &Setting, there: &BTreeSet<usize>) -> Option<Commit> {
    let legal = |change: &crate::script::Change| {
        there.contains(&change.slot(setting)) && !change.lacks_operator(setting)
    };
    match operation {
        Operation::Write { change } => {
            legal(change).then(|| Commit::Changes(vec![change.in_oracle(setting, NOW_MS)]))
        }
        Operation::Batch { changes, .. } => {
            let all = !changes.is_empty() && changes.iter().all(legal);
            all.then(|| {
                Commit::Changes(changes.iter().map(|change| change.in_oracle(setting, NOW_MS)).collect())
            })
        }
        Operation::Ingest { space, entries } => {
            let slot = usize::from(*space) % setting.spaces.len();
            let operator = setting.spaces[slot].operator;
            // The first of equal keys wins, as in `super::life`.
            let mut pairs = BTreeMap::new();
            for (key, value) in entries {
                pairs.entry(key.0.clone()).or_insert_with(|| value.stored(operator));
            }
            let puts = pairs
                .into_iter()
                .map(|(key, value)| (slot, oracle::Change::Put { key, value, expires_ms: None }));
            (there.contains(&slot) && !entries.is_empty()).then(|| Commit::Changes(puts.collect()))
        }
        Operation::DropSpace { space } => {
            let slot = usize::from(*space) % setting.spaces.len();
            (slot != 0 && there.contains(&slot)).then_some(Commit::Drop(slot))
        }
        Operation::CreateSpace { space } => {
            let slot = usize::from(*space) % setting.spaces.len();
            (!there.contains(&slot)).then_some(Commit::Create(slot))
        }
        _ => None,
    }
}
