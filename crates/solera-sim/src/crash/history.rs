//! What a script's commits make of the database, commit by commit: what a recovered database is compared
//! with.

use super::NOW_MS;
use crate::{
    oracle::{self, Oracle},
    script::{Operation, Script},
    setting::Setting,
};
use std::collections::{BTreeMap, BTreeSet};

/// The pairs of every keyspace that is there, by slot.
pub(super) type Contents = BTreeMap<usize, BTreeMap<Vec<u8>, Vec<u8>>>;

/// The states that the script's commits run through. Creating and dropping a keyspace count as commits.
pub(super) struct History {
    /// The state after so many commits.
    states: Vec<Contents>,
}

impl History {
    /// The history of a script.
    pub(super) fn of(script: &Script) -> History {
        let mut oracle = Oracle::new(NOW_MS);
        let mut states = vec![Contents::new()];
        let mut there = BTreeSet::new();
        let mut note = |oracle: &Oracle, there: &BTreeSet<usize>| {
            let state = there
                .iter()
                .map(|&slot| (slot, oracle.scan(slot, .., oracle.moment()).into_iter().collect()));
            states.push(state.collect());
        };
        for (slot, space) in script.setting.spaces.iter().enumerate() {
            oracle.create(slot, space.operator);
            there.insert(slot);
            note(&oracle, &there);
        }
        for operation in &script.operations {
            match commit_of(operation, &script.setting, &there) {
                Some(Commit::Changes(changes)) => {
                    oracle.commit(&changes);
                }
                Some(Commit::Drop(slot)) => {
                    there.remove(&slot);
                }
                None => continue,
            }
            note(&oracle, &there);
        }
        History { states }
    }

    /// The state after so many commits.
    pub(super) fn after(&self, commits: usize) -> &Contents {
        &self.states[commits]
    }

    /// The states that a recovery may give: at least `low` commits, at most `high`.
    pub(super) fn allowed(&self, low: usize, high: usize) -> &[Contents] {
        &self.states[low..=high]
    }

    /// A keyspace's creation or drop is durable once acknowledged, whatever becomes of buffered writes.
    pub(super) fn keyspaces_agree(&self, found: &Contents, low: usize, high: usize) -> Result<(), String> {
        let slots: BTreeSet<usize> = self.states.iter().flat_map(|state| state.keys().copied()).collect();
        for slot in slots {
            let there = found.contains_key(&slot);
            // The default keyspace is there before anything is done.
            if slot > 0 && !self.allowed(low, high).iter().any(|state| state.contains_key(&slot) == there) {
                let what = if there { "is back after its drop" } else { "is lost" };
                return Err(format!("keyspace {slot} {what}"));
            }
        }
        Ok(())
    }
}

/// What one operation commits.
pub(super) enum Commit {
    /// Changes, all or nothing.
    Changes(Vec<(usize, oracle::Change)>),
    /// The end of a keyspace.
    Drop(usize),
}

/// What the operation commits, if anything, when these keyspaces are there. An operation that the engine
/// would refuse commits nothing and is not done.
pub(super) fn commit_of(operation: &Operation, setting: &Setting, there: &BTreeSet<usize>) -> Option<Commit> {
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
            // The first of equal keys wins, as in `super::act`.
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
        _ => None,
    }
}

/// Whether what was found is this state, as far as keyspaces are there.
pub(super) fn agrees(state: &Contents, found: &Contents) -> bool {
    let nothing = BTreeMap::new();
    found.iter().all(|(slot, pairs)| state.get(slot).unwrap_or(&nothing) == pairs)
}

/// Which keys make the difference to the first and the last state allowed.
pub(super) fn explain(found: &Contents, allowed: &[Contents]) -> String {
    let mut text = format!("none of the {} allowed states;", allowed.len());
    for (name, state) in [("first", allowed.first()), ("last", allowed.last())] {
        let Some(state) = state else { continue };
        let mut differences = 0;
        let mut example = String::new();
        for (slot, pairs) in found {
            let nothing = BTreeMap::new();
            let wanted = state.get(slot).unwrap_or(&nothing);
            for key in pairs.keys().chain(wanted.keys()).collect::<BTreeSet<_>>() {
                if pairs.get(key) != wanted.get(key) {
                    differences += 1;
                    if example.is_empty() {
                        let side = |pairs: &BTreeMap<Vec<u8>, Vec<u8>>| match pairs.get(key) {
                            Some(value) => format!(
                                "{} bytes \"{}\"",
                                value.len(),
                                value[..value.len().min(20)].escape_ascii()
                            ),
                            None => "nothing".to_owned(),
                        };
                        example = format!(
                            "keyspace {slot} key \"{}\" holds {}, not {}",
                            key[..key.len().min(60)].escape_ascii(),
                            side(pairs),
                            side(wanted)
                        );
                    }
                }
            }
        }
        text.push_str(&format!(" {differences} keys differ from the {name}: {example};"));
    }
    text
}
