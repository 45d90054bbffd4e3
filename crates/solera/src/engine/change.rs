//! Changing knobs, and putting in force what was set: `Changing`, the right to change, and
//! `Obeying`, the parts that obey.
//!
//! `control` checks a change under the store lock that `Changing` holds. `record` numbers it,
//! writes one manifest record and has it obeyed. `give` does so with what a program gives a
//! keyspace that exists.
//!
//! What must hold: a change is durable before any part of the engine obeys it. It is in force for
//! all decisions that come next, while work that is under way ends as it began. The cache is fitted
//! last, without the lock.
//!
//! Callers: `Control::apply` begins one (`handle::begin_change`), has `control::check` check it,
//! and records it. `handle` gives. `open` obeys what was recorded.

use super::{
    assignments::Assignments,
    catalog::Catalog,
    keyspace_record,
    memory::{Budget, Memory},
    options::KeyspaceOptions,
    store::{self, State, Store},
    work::Work,
};
use crate::{
    clock::Clock,
    compaction::{self, Transition},
    error::{Error, Result},
    sync::MutexGuard,
    tree::Tree,
    version::{Assignment, Edit, Receipt},
};
use std::sync::Arc;

/// The parts of the engine that obey knobs.
#[derive(Clone, Copy)]
pub(super) struct Obeying<'c> {
    pub(super) catalog: &'c Catalog,
    pub(super) memory: &'c Memory,
    pub(super) work: &'c Work,
}

/// The knobs by which a tree may need another number of levels.
const KNOBS_OF_DEPTH: [&str; 2] = ["size_ratio", "write_buffer_percent"];

impl Obeying<'_> {
    /// As [`Obeying::obey`], by an open, which does not know how far earlier processes came: where
    /// knobs of depth were ever changed, trees may be deeper than they need be.
    pub(super) fn obey_at_open(self, assignments: &Assignments) {
        self.obey(assignments);
        let mut changed = assignments.history().flat_map(|receipt| &receipt.changed);
        if changed.any(|changed| KNOBS_OF_DEPTH.contains(&&*changed.knob)) {
            self.catalog.trees().iter().for_each(|tree| self.work.reshape(tree, Transition::Flexible));
        }
    }

    /// Puts what was set in force, but for the size of the cache. Under the store lock.
    pub(super) fn obey(self, assignments: &Assignments) {
        self.memory.split_like(assignments.split());
        self.catalog.trees().iter().for_each(|tree| self.keep(tree, assignments));
    }

    /// Keeps one tree like what it was given and what was set. Under the store lock.
    fn keep(self, tree: &Tree, assignments: &Assignments) {
        let settings = assignments.settings_of(tree, &self.memory.budget);
        let view = tree.view_owned();
        if *view.settings != settings {
            let (old, new) = (&view.settings.shape, &settings.shape);
            // First, so that no thread decides by the new run limit what is to be decided by the
            // old one.
            let changes = compaction::limit_changes(&view.version, old, new, settings.transition);
            self.work.change_limits(tree, changes);
            if compaction::changes_depth(old, new) {
                self.work.reshape(tree, settings.transition);
            }
            tree.use_settings(Arc::new(settings));
        }
    }
}

/// The right to change knobs. No other thread changes one, nor the tables, while this lives. So
/// what a change was checked against is what it is recorded over.
pub(crate) struct Changing<'c> {
    store: &'c Store,
    state: MutexGuard<'c, State>,
    obeying: Obeying<'c>,
    clock: &'c dyn Clock,
}

impl<'c> Changing<'c> {
    /// Takes the store lock. Nothing is changed before [`Changing::record`].
    pub(super) fn begin(store: &'c Store, obeying: Obeying<'c>, clock: &'c dyn Clock) -> Self {
        Changing { store, state: store.lock(), obeying, clock }
    }

    /// What was set so far.
    pub(crate) fn assignments(&self) -> &Assignments {
        &self.state.assignments
    }

    /// The keyspace of this name.
    pub(crate) fn tree(&self, name: &str) -> Option<Arc<Tree>> {
        self.obeying.catalog.named(name)
    }

    /// The memory that there is to split.
    pub(crate) fn budget(&self) -> &Budget {
        &self.obeying.memory.budget
    }

    /// Records what is to be set, which was checked, and puts it in force. The receipt gets its
    /// number and time.
    pub(crate) fn record(mut self, assignments: Vec<Assignment>, receipt: Receipt) -> Result<Receipt> {
        let number = self.assignments().next_number();
        let receipt = Receipt { number, unix_ms: self.clock.unix_ms(), ..receipt };
        let edit = Edit { receipts: vec![receipt.clone()], assignments, ..Edit::default() };
        self.store.append(&mut self.state, &edit)?;
        self.state.assignments.add(edit.receipts, edit.assignments);
        let Changing { state, obeying, .. } = self;
        obeying.obey(&state.assignments);
        drop(state);
        obeying.memory.fit_cache(obeying.catalog);
        obeying.work.wake();
        Ok(receipt)
    }

    /// Has `tree` kept like `given` from now on, as far as that says something. What was set by
    /// knobs stands.
    pub(super) fn give(mut self, tree: &Tree, given: &KeyspaceOptions) -> Result<()> {
        if tree.is_dropped() {
            return Err(Error::NoKeyspace(tree.name.clone()));
        }
        if let Some(operator) = &given.merge_operator {
            keyspace_record::check_operator(&tree.name, tree.operator(), operator)?;
        }
        let options = given.over(&store::kept(tree));
        self.store.record_settings(&mut self.state, tree, &options)?;
        given.merge_operator.iter().for_each(|operator| tree.set_operator(operator.clone()));
        tree.give(store::given(&self.store.files, self.budget(), &options));
        self.obeying.keep(tree, &self.state.assignments);
        self.obeying.work.wake();
        Ok(())
    }
}
