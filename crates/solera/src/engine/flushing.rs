//! Flushes: sealed memtables become tables. `Flusher` carries them out for one tree, several, or
//! small ones (64 KiB) together. What it asks of commit order and logs is its `Environment`.
//! `hiding` says which memtables are worth a flush for what they delete.
//!
//! What must hold: a thread that flushes a tree holds its flush claim. The log is durable up to a
//! memtable's last number before the manifest names its tables. Else tables could survive a power
//! failure that earlier writes to other keyspaces do not (docs/decisions/0004). A flush that fails,
//! of one tree or of small ones together, keeps all their memtables and leaves no file. If it
//! poisons, the next open removes the files.
//!
//! Callers: `jobs`, `large`, `checkpoint` and `ingest`; `core`, for users' flushes; the tests'
//! `unopened`.

use super::{job_parts::JobParts, store::Flushed, work::Claim};
use crate::{
    canary::{Bug, planted},
    compaction::{self, JobContext, Written},
    error::Result,
    ids::Seqno,
    key::KeyRange,
    memtable::Memtable,
    stats::Counter,
    tree::Tree,
};
use std::sync::Arc;

/// Trees of which so little waits to be flushed are flushed together,
const LITTLE_BYTES: usize = 64 << 10;
/// so many at once.
const TOGETHER: usize = 256;
/// Fewest deletes for which a flush looks whether they have anything to hide in tables: a few cost
/// nothing.
const DELETES_MIN: usize = 1024;

/// What a flush asks of the commit order and of the logs.
pub(super) trait Environment {
    /// Refuses if nothing may be written any more.
    fn writable(&self) -> Result<()>;

    /// Seals the memtables of `trees` at one moment of the commit order. Returns the newest number
    /// that each tree had in memory then.
    fn seal(&self, trees: &[Arc<Tree>]) -> Vec<Option<Seqno>>;

    /// Makes everything up to `seqno` durable. Not under the commit lock.
    fn sync_to(&self, seqno: Seqno) -> Result<()>;

    /// Removes logs whose every operation is in a table. Not under the commit lock.
    fn remove_flushed_logs(&self);

    /// Begins a new log if everything in the present one is in tables and it is worth it.
    fn retire_log(&self) -> Result<()>;
}

/// Those of `trees` whose active memtables free space if they are flushed. What one hides may be
/// little: what all hide together counts, from a write buffer of `limit` bytes on.
pub(super) fn hiding(trees: Vec<Arc<Tree>>, limit: u64) -> Vec<Arc<Tree>> {
    let mut all = 0;
    let mut hiding: Vec<(Arc<Tree>, bool)> = Vec::new();
    for tree in trees {
        let view = tree.view();
        let covered = view.covered();
        let (hidden, covers) = (view.hides(covered), view.covers_tables(covered));
        all += hidden;
        if hidden > 0 || covers {
            drop(view);
            hiding.push((tree, covers));
        }
    }
    hiding.retain(|(_, covers)| *covers || all >= limit);
    hiding.into_iter().map(|(tree, _)| tree).collect()
}

/// Writes memtables out as tables.
#[derive(Clone, Copy)]
pub(super) struct Flusher<'c> {
    pub(super) parts: JobParts<'c>,
    pub(super) rest: &'c dyn Environment,
}

impl Flusher<'_> {
    /// Flushes the sealed memtables of the claimed tree. If they are small, other trees that have
    /// as little and that no thread flushes go with it.
    pub(super) fn flush(&self, claim: &Claim<'_>) -> Result<()> {
        let mut others = Vec::new();
        if has_little_to_flush(&claim.tree) {
            let trees = self.parts.store.catalog.trees();
            let small = trees.iter().filter(|tree| tree.id != claim.tree.id && has_little_to_flush(tree));
            others = self.parts.work.claim_flushes(small, TOGETHER);
        }
        if !others.is_empty() {
            return self.together(others.iter().chain([claim]));
        }
        // Read under the claim: no other thread takes memtables out of the view. The view is let go
        // of here, or it would keep them.
        let memtables = claim.tree.view().sealed.clone();
        // A tree that was dropped meanwhile has given them up.
        if memtables.is_empty() { Ok(()) } else { self.alone(&claim.tree, memtables) }
    }

    /// Flushes `trees` completely, as they are now.
    pub(super) fn flush_trees(&self, trees: &[Arc<Tree>]) -> Result<()> {
        let until = self.rest.seal(trees);
        self.flush_small(trees)?;
        for (tree, until) in trees.iter().zip(until) {
            let Some(until) = until else { continue };
            while tree.flushed_seqno() < until && !tree.is_dropped() {
                self.rest.writable()?;
                let _claim = self.parts.work.claim_flush(tree);
                let sealed = tree.view().sealed.clone();
                if !sealed.is_empty()
                    && let Err(error) = self.alone(tree, sealed)
                    && !tree.is_dropped()
                {
                    return Err(error);
                }
                self.parts.work.note(&Ok(()));
            }
        }
        self.rest.retire_log()
    }

    /// Seals and flushes everything in the claimed tree's memtables while the caller keeps writers
    /// out. `sync` makes durable all that was acknowledged.
    pub(super) fn flush_locked(&self, claim: &Claim<'_>, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        claim.tree.seal();
        let sealed = claim.tree.view().sealed.clone();
        if sealed.is_empty() { Ok(()) } else { self.one(&claim.tree, sealed, |_| sync()) }
    }

    /// Flushes those of `trees` together that have little to flush and that no thread flushes now.
    fn flush_small(&self, trees: &[Arc<Tree>]) -> Result<()> {
        let small: Vec<&Arc<Tree>> = trees.iter().filter(|tree| has_little_to_flush(tree)).collect();
        for group in small.chunks(TOGETHER) {
            self.rest.writable()?;
            let claims = self.parts.work.claim_flushes(group.iter().copied(), TOGETHER);
            self.together(claims.iter())?;
            self.parts.work.note(&Ok(()));
        }
        Ok(())
    }

    /// Flushes one tree by itself.
    fn alone(&self, tree: &Arc<Tree>, memtables: Vec<Arc<Memtable>>) -> Result<()> {
        self.one(tree, memtables, |last| self.rest.sync_to(last))?;
        self.rest.remove_flushed_logs();
        Ok(())
    }

    /// Writes sealed memtables, newest first, out as the newest run of level 0. `sync` makes
    /// everything durable up to their last number.
    fn one(
        &self,
        tree: &Tree,
        memtables: Vec<Arc<Memtable>>,
        sync: impl FnOnce(Seqno) -> Result<()>,
    ) -> Result<()> {
        let JobParts { store, .. } = self.parts;
        self.parts.guarded("a flush", tree, || {
            let mut written = self.write(tree, &memtables, true)?;
            let last = last_seqno(&memtables);
            if let Err(error) = sync(last.unwrap_or(0)) {
                store.remove_written(&written);
                return Err(error);
            }
            let fresh = std::mem::take(&mut written.fresh);
            let edit = |version: &_| compaction::flushed(version, &written, last);
            self.parts.install(tree, &written, fresh, memtables, edit)
        })
    }

    /// Flushes many trees that have little each: what a flush costs whatever its size, they pay for
    /// together.
    fn together<'t, 'w: 't>(&self, claims: impl Iterator<Item = &'t Claim<'w>>) -> Result<()> {
        let JobParts { store, .. } = self.parts;
        let mut flushed = Vec::new();
        let write = || {
            for Claim { tree, .. } in claims.filter(|claim| !claim.tree.is_dropped()) {
                let memtables = tree.view().sealed.clone();
                if memtables.is_empty() {
                    continue;
                }
                let written = self.parts.guarded("a flush", tree, || self.write(tree, &memtables, false))?;
                let (tree, last) = (tree.clone(), last_seqno(&memtables));
                flushed.push(Flushed { tree, written, memtables, last });
            }
            if !planted(Bug::SkipDirectorySync) {
                store.files.fs.sync_dir(&store.files.dir)?;
            }
            self.rest.sync_to(flushed.iter().filter_map(|one| one.last).max().unwrap_or(0))
        };
        if let Err(error) = write() {
            flushed.iter().for_each(|one| store.remove_written(&one.written));
            return Err(error);
        }
        if !flushed.is_empty() {
            self.parts.install_flushed(flushed)?;
            self.rest.remove_flushed_logs();
        }
        Ok(())
    }

    fn write(&self, tree: &Tree, memtables: &[Arc<Memtable>], syncs_dir: bool) -> Result<Written> {
        let range = compaction::extent(memtables)?.unwrap_or_else(KeyRange::all);
        // Older memtables were flushed before, and what is ingested meanwhile is newer.
        let deletes: usize = memtables.iter().map(|memtable| memtable.deletes()).sum();
        let is_all = deletes >= DELETES_MIN
            && tree.view().version.runs().iter().all(|run| run.overlapping(&range).is_empty());
        // What was in memory stays there.
        let keeps_blocks = self.parts.memory.keeps_blocks();
        let job = JobContext { syncs_dir, keeps_blocks, ..self.parts.context(tree, 0, 0, &range) };
        let written = compaction::flush(memtables, is_all, &job)?;
        count_flush(tree, &written);
        Ok(written)
    }
}

/// Whether it has sealed memtables, and they are small.
fn has_little_to_flush(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    let bytes: usize = view.sealed.iter().map(|memtable| memtable.bytes()).sum();
    !view.sealed.is_empty() && bytes <= LITTLE_BYTES
}

/// Counts a flush.
pub(super) fn count_flush(tree: &Tree, written: &Written) {
    tree.context.stats.add_rarely(Counter::BytesWrittenFlush, written.bytes());
    tree.context.stats.add_rarely(Counter::Flushes, 1);
    compaction::count_written(0, &written.tables, &tree.context.stats);
}

fn last_seqno(memtables: &[Arc<Memtable>]) -> Option<Seqno> {
    memtables.iter().filter_map(|memtable| memtable.last_seqno()).max()
}

#[cfg(test)]
mod tests;
