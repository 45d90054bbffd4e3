//! The parts of the engine that every job works with: `JobParts`, for a flush, a large batch and a
//! compaction.
//!
//! `context` is what a job is told when it begins: layout, filters, what it may drop. `guarded`
//! turns its panic into poison. `install` and `install_flushed` bring its result into force and fit
//! the cache.
//!
//! What must hold: a job is told what readers see as of its beginning. Readers that come later see
//! what it keeps. Key lists have a layout of their own under `Reclaim::LearnedKv`.
//!
//! Callers: `core` and the tests' `unopened` make it; `flushing` and `jobs` use it. `large` does
//! too, but installs by `store`.

use super::{
    memory::Memory,
    reclaiming::Reclaiming,
    store::{Flushed, Store},
    warming::{self, Fresh},
    work::Work,
};
use crate::{
    compaction::{self, Horizon, JobContext, Reclaim, Written},
    error::Result,
    key::KeyRange,
    memtable::Memtable,
    tree::Tree,
    version::{TreeEdit, Version},
};
use std::sync::Arc;

/// What jobs share.
#[derive(Clone, Copy)]
pub(super) struct JobParts<'c> {
    /// How the space of values is given back: it says how the tables of a key list are written.
    pub(super) reclaim: Reclaim,
    pub(super) store: &'c Store,
    pub(super) work: &'c Work,
    pub(super) memory: &'c Memory,
    pub(super) reclaiming: &'c Reclaiming,
}

impl<'c> JobParts<'c> {
    /// How tables of `level` over `range` are written now, with filters as of level `rests`; and
    /// what the job may drop, as of now.
    pub(super) fn context(&self, tree: &Tree, level: u32, rests: u32, range: &KeyRange) -> JobContext<'c> {
        let store = self.store;
        let horizon = store.snapshots.horizon(|| store.expiry.now_ms());
        let Horizon { snapshots, visible, oldest_transaction, now_ms, .. } = horizon;
        let view = tree.view_owned();
        let of_levels = self.memory.level_filters(tree, &view, rests, &store.catalog);
        let mut layout = view.settings.layout_of(level);
        let mut filter = of_levels.of(compaction::resting_level(&view.version, rests, range));
        if self.reclaim == Reclaim::LearnedKv
            && view.settings.separate_from.is_some()
            && compaction::is_key_list(&view.version, level)
        {
            (layout, filter) = compaction::key_list(layout);
        }
        let mut shape = view.settings.shape.clone();
        shape.table_bytes = self.memory.table_bytes(shape.table_bytes);
        JobContext {
            context: tree.context.clone(),
            layout,
            filter,
            shape,
            snapshots,
            visible,
            values: tree.values.clone(),
            victims: self.reclaiming.victims(),
            // Where nothing is given back, what is apart stays for ever.
            separate_from: match self.reclaim {
                Reclaim::Off => u64::MAX,
                _ => view.settings.bytes_separated(),
            },
            oldest_transaction,
            operator: tree.operator().cloned(),
            now_ms,
            keeps_blocks: false,
            syncs_dir: true,
            cancelled: &self.work.stopping,
            meanwhile: None,
            new_file: Box::new(|| store.files.new_file()),
        }
    }

    /// Does `what` on `tree`. A panic in it is its failure, and poisons: it may have stopped
    /// anywhere.
    pub(super) fn guarded<R>(&self, what: &str, tree: &Tree, job: impl FnOnce() -> Result<R>) -> Result<R> {
        let what = format_args!("{what} of keyspace {:?}", tree.name);
        self.store.poison.guarded(what, job)
    }

    /// As [`Store::install`], and the cache is fitted to what is left. `fresh` blocks come into it,
    /// and tables that were `flushed`. Their memtables are let go of first: a worker that a busy
    /// machine stops here holds none.
    pub(super) fn install(
        &self,
        tree: &Tree,
        written: &Written,
        fresh: Fresh,
        flushed: Vec<Arc<Memtable>>,
        edit: impl FnOnce(&Version) -> TreeEdit,
    ) -> Result<()> {
        self.store.install(tree, written, &flushed, None, edit)?;
        let are_flushed = !flushed.is_empty();
        drop(flushed);
        self.memory.fit_cache(&self.store.catalog);
        self.memory.wrote(written.bytes());
        warming::take_in(tree, fresh);
        if are_flushed {
            warming::flushed(tree, &warming::files(written), &self.memory.cache);
        }
        Ok(())
    }

    /// As [`Store::install_flushed`], and the cache is fitted to what is left. The tables come into
    /// it.
    pub(super) fn install_flushed(&self, mut flushed: Vec<Flushed>) -> Result<()> {
        let files = |one: &Flushed| (one.tree.clone(), warming::files(&one.written));
        let new: Vec<_> = flushed.iter().map(files).collect();
        let fresh: Vec<Fresh> =
            flushed.iter_mut().map(|one| std::mem::take(&mut one.written.fresh)).collect();
        self.store.install_flushed(flushed, None)?;
        self.memory.fit_cache(&self.store.catalog);
        for ((tree, files), fresh) in new.iter().zip(fresh) {
            warming::take_in(tree, fresh);
            warming::flushed(tree, files, &self.memory.cache);
        }
        Ok(())
    }
}
