//! Moving live values out of value files, key range by key range, into the order of their keys:
//! `Reclaimer::convert` and `Reclaimer::take_all`.
//!
//! `convert` is one step of `Reclaim::Tier`, when there is no flush and no compaction to do.
//! `compaction::convert` decides: a range is worth it for the space that it gives back, or because
//! walks read many values there by short reads (`tree::heat`).
//!
//! `take_all` ends a `compact_range`, under `Tier` and `Rewrite`. It empties files that hold enough
//! garbage and, of what is live, only values of that range. It waits where other work is under way.
//! `convert` also empties small logs together, where openings left many.
//!
//! What must hold: `convert` empties chosen files before it chooses others, but for those that
//! cannot be emptied now. It tells writers how much room is left; after a failure none is held. A
//! failed conversion installs nothing, and `convert` begins none for 0.1 to 60 seconds. Damage is
//! gone around without such a rest.
//!
//! Callers: `jobs` (`give_back` calls `convert`, `compact_range` calls `take_all`); `rewrite` uses
//! `cells`, and notes by `after_conversion` how its plans ended.

use super::reclaiming::{Reclaimer, State};
use crate::{
    compaction::{self, Cell, Plan, Space, Victims, Written},
    error::{Error, Result},
    ids::FileId,
    key::KeyRange,
    sync::MutexGuard,
    tree::{Sample, Tree},
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// How long no conversion is begun after one that failed; doubles with each failure in a row.
const REST_FIRST: Duration = Duration::from_millis(100);
/// Longest rest: a disk that is full stays full for a while.
const REST_MAX: Duration = Duration::from_secs(60);
/// How often a `compact_range` tries again where other work is under way, and how long it waits in
/// between.
const TRIES: u32 = 500;
const TRY_PERIOD: Duration = Duration::from_millis(2);

/// The sorted value files of `trees`.
fn sorted(trees: &[Arc<Tree>]) -> BTreeSet<FileId> {
    let mut sorted = BTreeSet::new();
    for tree in trees {
        let view = tree.view();
        sorted.extend(view.version.values().iter().filter(|(_, live)| live.sorted).map(|(file, _)| file));
    }
    sorted
}

impl Reclaimer<'_> {
    /// Converts one key range. False: none is worth it, or others are at work there.
    pub(super) fn convert(&self) -> Result<bool> {
        let mut state = self.reclaiming.state.lock();
        if self.clock().monotonic_ns() < state.rests_until_ns {
            return Ok(false);
        }
        let trees = self.trees();
        let spaces = self.spaces(&trees, &state.spared);
        let allowance = self.allowance(&trees);
        let may_be_due = self.can_be_due(&trees, &spaces);
        state.is_stuck = false;
        if !may_be_due {
            self.allow_writers(allowance, &spaces, 0, 0);
            state.emptied.clear();
        }
        let small = compaction::small_logs(&spaces, &sorted(&trees), self.rest.write_buffer_bytes());
        if !may_be_due && small.is_empty() && trees.iter().all(|tree| tree.heat.sample().is_empty()) {
            return Ok(false);
        }
        let cells = self.cells(&mut state, &trees)?;
        let hidden = cells.iter().map(|cell| cell.hidden).sum();
        let horizon = self.horizon();
        let mut stuck = BTreeSet::new();
        loop {
            let State { emptied, moving, .. } = &mut *state;
            let mut victims = compaction::victims(&spaces, hidden, allowance, *moving, emptied, &stuck);
            if victims.is_empty() {
                victims = small.difference(&stuck).copied().collect();
            }
            emptied.clone_from(&victims);
            let is_victim = |space: &&Space| victims.contains(&space.file);
            let to_move: u64 = spaces.iter().filter(is_victim).map(|space| space.live).sum();
            self.allow_writers(allowance, &spaces, hidden, to_move);
            let conversions = compaction::convert(&spaces, &cells, &victims, allowance, *moving);
            let is_any = !conversions.is_empty();
            let planned = conversions.into_iter().find_map(|conversion| {
                let tree = trees.iter().find(|tree| tree.id == conversion.keyspace)?;
                let plan =
                    |picture: &compaction::Picture<'_>| compaction::conversion(picture, &conversion.range);
                let (claim, plan) = self.work.plan_of(tree, &horizon, plan)?;
                Some((conversion, tree, claim, plan))
            });
            if let Some((conversion, tree, claim, plan)) = planned {
                state.moving += conversion.moved;
                drop(state);
                let at_work = self.reclaiming.begin(conversion.victims.iter().count() as u64);
                let done = self.rest.carry_out(tree, &plan, conversion.victims);
                drop(at_work);
                if conversion.is_paid && done.is_ok() {
                    tree.heat.forget(&conversion.range);
                }
                let mut state = self.reclaiming.state.lock();
                state.moving -= conversion.moved;
                let done = self.after_conversion(&mut state, tree, &plan, done);
                drop(claim);
                return done.map(|_| true);
            }
            let is_damaged = || trees.iter().any(|tree| !self.work.damaged(tree).is_empty());
            if *moving > 0 || is_any && !is_damaged() {
                // Other work is under way, and its end wakes the threads that look again.
                return Ok(false);
            }
            if compaction::is_too_much(allowance, &spaces, hidden) {
                // It cannot be given back now: a snapshot holds it, or damage.
                self.reclaiming.allow_all();
                state.is_stuck = true;
            }
            if victims.is_empty() {
                return Ok(false);
            }
            let State { emptied, .. } = &mut *state;
            emptied.clear();
            stuck.extend(victims);
        }
    }

    /// Empties the value files that hold garbage and, of what is live, only values of `range` of
    /// `tree`, in which everything was merged. Few at a time, so that what is copied takes little.
    /// `goes_on` is asked before each step.
    pub(super) fn take_all(
        &self,
        tree: &Arc<Tree>,
        range: &KeyRange,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let newest = FileId(self.store.files.next());
        let mut tried = BTreeSet::new();
        loop {
            if tree.view().version.values().is_empty() {
                return Ok(());
            }
            let trees = self.trees();
            let mut state = self.reclaiming.state.lock();
            let mut spaces = self.spaces(&trees, &state.spared);
            spaces.retain(|space| space.file < newest && !tried.contains(&space.file));
            // Whole tables: what walks have read does not matter here.
            let cells = self.cells_of(&mut state, &trees, |_| Sample::default())?;
            drop(state);
            let victims = compaction::emptied_by(&spaces, &cells, tree.id, range);
            if victims.is_empty() {
                return Ok(());
            }
            tried.extend(victims.iter().copied());
            let at_work = self.reclaiming.begin(victims.len() as u64);
            let is_left = |cell: &&Cell| {
                cell.keyspace == tree.id && cell.live.keys().any(|file| victims.contains(file))
            };
            for cell in cells.iter().filter(is_left) {
                let mut left = if self.options.background_threads == 0 { 1 } else { TRIES };
                while left > 0 {
                    goes_on()?;
                    left -= 1;
                    let plan =
                        |picture: &compaction::Picture<'_>| compaction::conversion(picture, &cell.range);
                    let Some((claim, plan)) = self.work.plan_of(tree, &self.horizon(), plan) else {
                        // Other work is under way there, or damage stands in the way.
                        self.clock().sleep(TRY_PERIOD);
                        continue;
                    };
                    let done = self.rest.carry_out(
                        tree,
                        &plan,
                        Victims::new(victims.clone()).within(cell.range.clone()),
                    );
                    let mut state = self.reclaiming.state.lock();
                    self.after_conversion(&mut state, tree, &plan, done)?;
                    drop(claim);
                    break;
                }
            }
            drop(at_work);
        }
    }

    /// The cells of all keyspaces that have separated values.
    pub(super) fn cells(&self, state: &mut State, trees: &[Arc<Tree>]) -> Result<Vec<Cell>> {
        self.cells_of(state, trees, |tree| tree.heat.sample())
    }

    /// The same, divided where `read` says that walks have read.
    fn cells_of(
        &self,
        state: &mut State,
        trees: &[Arc<Tree>],
        read: impl Fn(&Tree) -> Sample,
    ) -> Result<Vec<Cell>> {
        let (mut cells, horizon) = (Vec::new(), self.horizon());
        state.census.forget_gone(trees);
        for tree in trees {
            let version = tree.view().version.clone();
            if !version.values().is_empty() {
                let heat = read(tree);
                let pointers = |run: &_, table: &_| state.census.of(&version, run, table);
                cells.extend(compaction::cells(tree.id, &version, &heat, &horizon, pointers)?);
            }
        }
        Ok(cells)
    }

    /// Notes how a plan ended that gives space back: damage, values that cannot be read, failures.
    /// Returns the tables that it wrote.
    pub(super) fn after_conversion(
        &self,
        state: &mut MutexGuard<'_, State>,
        tree: &Tree,
        plan: &Plan,
        done: Result<Written>,
    ) -> Result<BTreeSet<FileId>> {
        match done {
            Ok(written) => {
                state.failures = 0;
                state.spared.extend(written.unreadable);
                Ok(written.tables.iter().map(|table| table.file).collect())
            }
            Err(Error::NoKeyspace(_)) if tree.is_dropped() => Ok(BTreeSet::new()),
            // Plans go around it from now on.
            Err(error) if self.work.note_damage(tree, plan, &error) => Ok(BTreeSet::new()),
            Err(error) => {
                // Writers are not held for what cannot be done.
                self.reclaiming.allow_all();
                let rest = REST_FIRST.saturating_mul(1 << state.failures.min(16)).min(REST_MAX);
                state.failures += 1;
                state.rests_until_ns = self.clock().monotonic_ns().saturating_add(rest.as_nanos() as u64);
                Err(error)
            }
        }
    }
}
