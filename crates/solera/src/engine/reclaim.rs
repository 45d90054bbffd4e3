//! Giving back the space of values by LearnedKV's conversion of all keyspaces, under
//! `Reclaim::LearnedKv`: `Reclaimer::reclaim` takes the next step. And what all ways share.
//!
//! When value files take too much, all memtables become tables, a new log begins, and value files
//! that recovery does not need are frozen. Then each keyspace is one plan, one job, one manifest
//! record. Reads and writes go on.
//!
//! All ways use `spaces`: what value files take, and what of that is live. `allow_writers` tells
//! writers how much they may write until space is given back; `look` does so after other work.
//!
//! What must hold: while a conversion runs, none begins. A step that fails is done again. But a
//! keyspace with a damaged table is left as it is, and its files are spared until the next open.
//! What is frozen is not on disk: a restart begins anew. LearnedKV's way holds no writer.
//! Callers: `jobs` (`give_back` takes steps; after a job it calls `look`, under `Reclaim::Tier`);
//! `convert` and `rewrite` use what is shared.

use super::{
    logs,
    reclaiming::{Reclaimer, State},
};
use crate::{
    compaction::{self, Allowance, Reclaim, Space, Victims},
    error::{Error, Result},
    ids::FileId,
    sync::MutexGuard,
    tree::Tree,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

impl Reclaimer<'_> {
    /// The next step of a conversion; the freeze, if it is time for one. False: there is nothing to
    /// do, or others have to come to an end before.
    pub(super) fn reclaim(&self) -> Result<bool> {
        let Some(state) = self.reclaiming.state.try_lock() else { return Ok(false) };
        let trees = self.trees();
        let victims = self.reclaiming.victims();
        if victims.is_empty() {
            return self.freeze(state, &trees);
        }
        let is_left = |tree: &&Arc<Tree>| {
            !state.converted.contains(&tree.id)
                && victims.iter().any(|file| tree.view().version.values().has(file))
                && self.work.damaged(tree).is_empty()
        };
        let Some(tree) = trees.iter().find(is_left) else {
            self.end_conversion(state, &trees, &victims);
            return Ok(true);
        };
        let next = self.work.plan_of(tree, &self.horizon(), compaction::into_key_list);
        let Some((claim, plan)) = next else { return Ok(false) };
        // Readers of what is decided do not wait for the work.
        drop(state);
        let done = self.rest.carry_out(tree, &plan, victims).map(drop);
        drop(claim);
        match done {
            Ok(()) => drop(self.reclaiming.state.lock().converted.insert(tree.id)),
            Err(Error::NoKeyspace(_)) if tree.is_dropped() => {}
            // A keyspace with a table that cannot be read is left as it is.
            Err(error) if self.work.note_damage(tree, &plan, &error) => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// If it is time: brings all that was written so far into tables, begins a log for what is
    /// written from now on, and freezes the value files of what is in tables.
    fn freeze(&self, mut state: MutexGuard<'_, State>, trees: &[Arc<Tree>]) -> Result<bool> {
        let (spaces, allowance) = (self.spaces(trees, &state.spared), self.allowance(trees));
        if !self.can_be_due(trees, &spaces) {
            return Ok(false);
        }
        // A keyspace with damage is not converted.
        let sound = trees.iter().filter(|tree| self.work.damaged(tree).is_empty());
        let cells = self.cells(&mut state, &sound.cloned().collect::<Vec<_>>())?;
        let hidden = cells.iter().map(|cell| cell.hidden).fold(0, u64::saturating_add);
        if !compaction::can_be_over(allowance, &spaces, hidden) {
            return Ok(false);
        }
        self.rest.freeze(trees)?;
        let frozen = self.spaces(trees, &state.spared).iter().map(|space| space.file).collect();
        state.converted.clear();
        self.reclaiming.victims.store(Arc::new(Victims::new(frozen)));
        Ok(true)
    }

    /// Every keyspace was converted. A file that still has a live value has one that cannot be
    /// read, or belongs to a keyspace that cannot be converted: it is spared from now on.
    fn end_conversion(&self, mut state: MutexGuard<'_, State>, trees: &[Arc<Tree>], victims: &Victims) {
        let is_live = |&file: &_| trees.iter().any(|tree| tree.view().version.values().has(file));
        state.spared.extend(victims.iter().filter(is_live));
        state.converted.clear();
        self.reclaiming.victims.store(Arc::default());
    }

    /// Tells writers how much they may write until space is given back: `spaces` are the files that
    /// recovery does not need, and they may take what `allowance` says. `hidden` bytes of what is
    /// live in them are not, and conversions have `promised` bytes still to write. Writers are told
    /// before anything has to be given back, too: the thread that has to give it back may get no
    /// processor for long. Until the next look writers have two write buffers then at least,
    /// whatever the logs hold.
    pub(super) fn allow_writers(&self, allowance: Allowance, spaces: &[Space], hidden: u64, promised: u64) {
        let live = spaces.iter().map(|space| space.live).sum();
        if live == 0 {
            return self.reclaiming.allow_all();
        }
        let write_buffer_bytes = self.rest.write_buffer_bytes();
        let in_logs_max = logs::unflushed_max(live, write_buffer_bytes);
        let in_logs = self.rest.log_bytes();
        let mut headroom = compaction::headroom(allowance, spaces, hidden, promised, in_logs, in_logs_max);
        if !compaction::is_too_much(allowance, spaces, hidden) {
            let least = i64::try_from(2 * write_buffer_bytes).unwrap_or(i64::MAX);
            headroom.bytes = headroom.bytes.max(least);
        }
        self.reclaiming.allow(headroom);
    }

    /// Tells writers again how much they may write, after others have done what was more pressing.
    pub(super) fn look(&self) -> Result<()> {
        let Some(mut state) = self.reclaiming.state.try_lock() else { return Ok(()) };
        if state.is_stuck || self.clock().monotonic_ns() < state.rests_until_ns {
            return Ok(());
        }
        let trees = self.trees();
        let spaces = self.spaces(&trees, &state.spared);
        let hidden = match self.can_be_due(&trees, &spaces) {
            true => self.cells(&mut state, &trees)?.iter().map(|cell| cell.hidden).sum(),
            false => 0,
        };
        let is_left = |space: &&Space| state.emptied.contains(&space.file);
        let promised = spaces.iter().filter(is_left).map(|space| space.live).sum();
        self.allow_writers(self.allowance(&trees), &spaces, hidden, promised);
        Ok(())
    }

    /// Whether there can be anything to give back, whatever is hidden.
    pub(super) fn can_be_due(&self, trees: &[Arc<Tree>], spaces: &[Space]) -> bool {
        let horizon = self.horizon();
        let of_tree = |tree: &Arc<Tree>| compaction::hidden_max(&tree.view().version, &horizon);
        let hidden_max = trees.iter().map(of_tree).fold(0, u64::saturating_add);
        compaction::can_be_over(self.allowance(trees), spaces, hidden_max)
    }

    /// What value files may take beside the live values in them. Under `tier` what goes with small
    /// values comes out of it.
    pub(super) fn allowance(&self, trees: &[Arc<Tree>]) -> Allowance {
        let (mut values, mut bytes, mut in_tables) = (0, 0, 0);
        for tree in trees {
            let version = &tree.view().version;
            let of_tree: u64 = version.values().iter().map(|(_, live)| live.values).sum();
            if of_tree > 0 {
                let largest = version.runs().iter().map(|run| run.bytes()).max().unwrap_or(0);
                in_tables += compaction::in_tables(largest, of_tree, version.values().bytes());
            }
            (values, bytes) = (values + of_tree, bytes + version.values().bytes());
        }
        let percent = match self.options.reclaim {
            Reclaim::Tier => compaction::spared_for_files(self.options.spare_percent, values, bytes),
            _ => self.options.spare_percent,
        };
        Allowance { percent, in_tables }
    }

    /// What the value files take that recovery does not need.
    pub(super) fn spaces(&self, trees: &[Arc<Tree>], spared: &BTreeSet<FileId>) -> Vec<Space> {
        let mut live: BTreeMap<FileId, (u64, bool)> = BTreeMap::new();
        for tree in trees {
            for (file, of_tree) in tree.view().version.values().iter() {
                let (bytes, sorted) = live.entry(file).or_default();
                *bytes += of_tree.bytes;
                *sorted = of_tree.sorted;
            }
        }
        let needed = self.store.logs();
        live.retain(|file, _| !needed.contains(file) && !spared.contains(file));
        let space = |(file, (live, sorted)): (FileId, (u64, bool))| {
            // One that cannot be read takes as much as is live: it is left alone.
            let bytes = self.store.files.values.file(file, sorted).space().unwrap_or(live);
            Space { file, bytes, live }
        };
        live.into_iter().map(space).collect()
    }
}
