//! Knobs that were set while the database ran: recorded, and put in force.
//!
//! Owns [`Knobs`], what was set over what the program gives at its opens. What was set stands until it is set
//! again, whatever later opens give. A change is one manifest record, durable before anybody obeys it; then
//! it is in force for all who decide next, while work that is under way ends as it began.

use super::{Core, Split, install::Store};
use crate::{
    compaction::{self, RUN_LIMIT},
    error::Result,
    ids::KeyspaceId,
    knob::{Knob, Value},
    tree::{Settings, Tree},
    version::{Edit, Receipt, Turned},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Changes that are remembered.
const HISTORY_MAX: usize = 256;

/// What was set, and the changes that set it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knobs {
    /// Values by keyspace (`None`: the database), knob and level. What is set for all levels comes before what is
    /// set for one.
    values: BTreeMap<(Option<KeyspaceId>, String, Option<u32>), String>,
    /// The newest last.
    history: VecDeque<Receipt>,
}

impl Knobs {
    /// Takes over what an edit says.
    pub(super) fn add(&mut self, receipts: Vec<Receipt>, turned: Vec<Turned>) {
        turned.into_iter().for_each(|turned| self.turn(turned));
        self.history.extend(receipts);
        self.history.drain(..self.history.len().saturating_sub(HISTORY_MAX));
    }

    /// Sets a knob. Setting it for all levels ends what was set for single ones.
    pub(crate) fn turn(&mut self, turned: Turned) {
        let Turned { keyspace, knob, level, value } = turned;
        if level.is_none() {
            // Level 0 has a run limit of its own.
            let stays = |level: Option<u32>| level == Some(0) && knob == RUN_LIMIT.name;
            self.values.retain(|(at, name, level), _| (*at, name) != (keyspace, &knob) || stays(*level));
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
        let turned = self.values.iter().map(|((keyspace, knob, level), value)| Turned {
            keyspace: *keyspace,
            knob: knob.clone(),
            level: *level,
            value: Some(value.clone()),
        });
        Edit { receipts: self.history.iter().cloned().collect(), turned: turned.collect(), ..Edit::default() }
    }

    /// The changes that are remembered, the newest last.
    pub(crate) fn history(&self) -> impl DoubleEndedIterator<Item = &Receipt> {
        self.history.iter()
    }

    /// Whether the knob was set for exactly this.
    pub(crate) fn is_set(&self, keyspace: Option<KeyspaceId>, knob: &Knob, level: Option<u32>) -> bool {
        self.values.contains_key(&(keyspace, knob.name.to_owned(), level))
    }

    /// What was set, of the knobs among `known`; what this release cannot set is passed over.
    fn known<'k>(
        &'k self,
        keyspace: Option<KeyspaceId>,
        known: &'k [&'static Knob],
    ) -> impl Iterator<Item = (&'static Knob, Option<u32>, Value)> + 'k {
        self.values.iter().filter(move |((at, ..), _)| *at == keyspace).filter_map(
            |((_, name, level), value)| {
                let knob = known.iter().find(|knob| knob.name == name)?;
                Some((*knob, *level, Value::parse(value)))
            },
        )
    }

    /// What a tree that was `given` this is kept like.
    pub(crate) fn settings(&self, tree: KeyspaceId, given: &Settings, write_buffer_bytes: u64) -> Settings {
        let mut settings = given.clone();
        let known: Vec<_> = Settings::knobs().collect();
        for (knob, level, value) in self.known(Some(tree), &known) {
            let mut changed = settings.clone();
            if changed.set(knob, level, &value).is_ok() {
                settings = changed;
            }
        }
        settings.shape.write_buffer_bytes = write_buffer_bytes;
        // A size ratio and run limits that were set at different times, or one set and one given at this open.
        settings.fit_run_limits();
        settings
    }

    /// How the memory is split.
    pub(crate) fn split(&self) -> Split {
        let mut split = Split::default();
        for (knob, _, value) in self.known(None, &Split::KNOBS) {
            let _ = split.set(knob, &value);
        }
        split
    }
}

impl Core {
    /// Changes knobs: `decide` says what to set, and what to remember of it, but for number and time. Nothing
    /// is changed if it refuses, or if the manifest cannot be written.
    pub(crate) fn change_knobs(
        &self,
        decide: impl FnOnce(&Knobs) -> Result<(Vec<Turned>, Receipt)>,
    ) -> Result<Receipt> {
        self.writable()?;
        let mut store = self.store.lock();
        let (turned, receipt) = decide(&store.knobs)?;
        let number = store.knobs.history.back().map_or(1, |last| last.number + 1);
        let receipt = Receipt { number, unix_ms: self.clock().unix_ms(), ..receipt };
        let edit = Edit { receipts: vec![receipt.clone()], turned, ..Edit::default() };
        self.append(&mut store, &edit)?;
        store.knobs.add(edit.receipts, edit.turned);
        self.obey(&store);
        drop(store);
        self.fit_cache();
        self.work.wake();
        Ok(receipt)
    }

    /// What was set, and the changes that set it.
    pub(crate) fn knobs(&self) -> Knobs {
        self.store.lock().knobs.clone()
    }

    /// What `tree` is kept like when this was set.
    pub(crate) fn settings_of(&self, knobs: &Knobs, tree: &Tree) -> Settings {
        knobs.settings(tree.id, &tree.given, knobs.split().write_buffer_bytes(&self.options))
    }

    /// Puts what was set in force, but for the size of the cache.
    pub(super) fn obey(&self, store: &Store) {
        self.split_like(store.knobs.split());
        for tree in self.trees() {
            let settings = self.settings_of(&store.knobs, &tree);
            let view = tree.view_owned();
            if *view.settings != settings {
                let (old, new) = (&view.settings.shape, &settings.shape);
                // First, so that nobody decides by the new run limit what is to be decided by the old one.
                self.work.turn(&tree, compaction::turns(&view.version, old, new, settings.transition));
                tree.keep_like(Arc::new(settings));
            }
        }
    }
}
