//! The work that is done next, as methods of `Core`: `step` does one unit of it.
//!
//! It tends the logs; if they need nothing, it flushes, else compacts, else gives back space
//! (`give_back`). That seals memtables that hide much or keep logs, then gives back space of
//! values. It also lends idle write buffers, cleans up after drops, and looks at trees that rest.
//! `wait_idle` and `compact_range` do such work on a user's thread. `throttle` holds a writer;
//! without background threads the writer does a step.
//!
//! What must hold: a failure is noted and the work tried again, unless the failure poisons, as a
//! panic in a flush or compaction does. Damage that a compaction meets is noted for its tree; later
//! plans go around it.
//!
//! Callers: `workers`; `db` (step, wait, compact); `handle` and `ingest` (`throttle`). `convert`,
//! `rewrite` and `reclaim` ask through `reclaiming`'s `Environment`, which is here.

use super::{
    commit::{Terms, Writer},
    core::Core,
    flushing,
    options::Durability,
    reclaiming::{self, Reclaimer},
    resting::Looked,
    warming,
    work::{Job, NextStep},
};
use crate::{
    compaction::{self, Horizon, JobContext, ManualCompaction, Plan, Reason, Reclaim, Victims, Written},
    error::{Error, Result},
    key::KeyRange,
    stats::Counter,
    tree::Tree,
    version::TreeEdit,
    wal::batch::BatchEncoder,
};
use std::{sync::Arc, time::Duration};

/// How often a user's thread that waits for all work looks whether values are still put again.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

impl Core {
    /// Carries `plan` out and installs the result; the values of `victims` move.
    fn compact(&self, tree: &Arc<Tree>, plan: &Plan, victims: Victims) -> Result<Written> {
        let parts = self.job_parts();
        parts.guarded("a compaction", tree, || {
            // However few threads there are, writers do not wait until all is converted.
            let flush = || self.step(true).map(drop);
            // Tables that come up are the last level's in all but its number.
            let context = parts.context(tree, plan.target.level, plan.deepest_level(), &plan.hull());
            // What was in memory stays there.
            let are_cached = warming::are_cached(plan);
            let keeps_blocks = are_cached && self.memory.keeps_blocks();
            let mut job = JobContext { victims, keeps_blocks, ..context };
            // It may concern a whole keyspace.
            if plan.reason == Reason::Reclaim {
                job.meanwhile = Some(&flush);
            }
            let begun_ns = self.clock().monotonic_ns();
            let mut outputs = compaction::run(plan, &job)?;
            let fresh = std::mem::take(&mut outputs.fresh);
            parts.install(tree, &outputs, fresh, Vec::new(), |version| TreeEdit {
                values: outputs.values.clone(),
                ..plan.edit(version, &outputs.tables)
            })?;
            if are_cached {
                warming::merged(tree, &outputs, &self.memory.cache);
            }
            tree.context.stats.add_rarely(Counter::BytesWrittenCompaction, outputs.bytes());
            tree.context.stats.add_rarely(Counter::Compactions, 1);
            // One that moves values takes its time for these.
            if plan.reason != Reason::Reclaim {
                let took_ns = self.clock().monotonic_ns().saturating_sub(begun_ns);
                tree.context.stats.pace().merged(plan.work_bytes(), took_ns);
            }
            plan.count(&outputs.tables, &tree.context.stats);
            Ok(outputs)
        })
    }

    /// Chooses and does one unit of background work on this thread. False: there was none.
    pub(crate) fn step(&self, flush_only: bool) -> Result<bool> {
        if self.logs.tend(&self.store, &self.commit).inspect_err(|error| self.work.note_failure(error))? {
            return Ok(true);
        }
        let next = loop {
            let horizon = self.horizon();
            let next = self.work.next_job(self.trees(), flush_only, &horizon);
            // A release that came while nothing was found was not told: no worker waited for it
            // yet.
            if flush_only || next.is_some() || self.await_release(&horizon) {
                break next;
            }
        };
        let Some((claim, job)) = next else {
            let given_back = if flush_only { Ok(false) } else { self.give_back() };
            return given_back.inspect_err(|error| self.work.note_failure(error));
        };
        let tree = &claim.tree;
        let done = match self.store.poison.check().and_then(|()| match &job {
            Job::Flush => self.flusher().flush(&claim),
            Job::Compact(plan) => self.compact(tree, plan, self.reclaiming.victims()).map(drop),
        }) {
            // There is nothing left to do for a tree that was dropped meanwhile.
            Err(Error::NoKeyspace(_)) if tree.is_dropped() => Ok(()),
            // Plans go around it from now on; `Stats` tells of it, and so does a read there.
            Err(error) if job.plan().is_some_and(|plan| self.work.note_damage(tree, plan, &error)) => Ok(()),
            done => done,
        };
        self.work.note(&done);
        self.memory.after_job();
        let is_tier = self.options.reclaim == Reclaim::Tier;
        if done.is_ok() && is_tier && !tree.view().version.values().is_empty() {
            reclaimer(self).look().inspect_err(|error| self.work.note_failure(error))?;
        }
        done.map(|()| true)
    }

    /// One step of giving back space, where nothing else is to be done. Memtables that hide much
    /// are sealed. Then that of values is given back in the way that was asked for. False: there
    /// was nothing to do.
    fn give_back(&self) -> Result<bool> {
        self.store.poison.check()?;
        // A commit could not, or need not have, while a flush or a merge was under way.
        let due = flushing::hiding(self.trees(), self.memory.write_buffer_bytes());
        if !due.is_empty() {
            flushing::Environment::seal(self, &due);
            return Ok(true);
        }
        let now_ns = self.clock().monotonic_ns();
        self.resting.begin();
        let written = || self.stats.snapshot().bytes_written_log;
        self.lending.look(&self.memory, &self.store.catalog, written, now_ns);
        // Where no writer writes, logs do not wait for memtables to be full.
        if let Some((pinning, are_little)) = self.logs.pinning(self.around_logs(), &self.commit)
            && (are_little || self.resting.is_quiet(self.visible(), now_ns))
        {
            flushing::Environment::seal(self, &pinning);
            return Ok(true);
        }
        let reclaimer = reclaimer(self);
        let given_back = match self.options.reclaim {
            Reclaim::Off => false,
            Reclaim::Tier => reclaimer.convert()?,
            Reclaim::Rewrite => reclaimer.rewrite()?,
            Reclaim::LearnedKv => reclaimer.reclaim()?,
        };
        if given_back {
            return Ok(true);
        }
        if self.drops.take(now_ns) {
            self.follow_drops();
        }
        match self.resting.look(&self.trees(), now_ns, self.memory.write_buffer_bytes(), &self.work) {
            Looked::Nothing => return Ok(false),
            Looked::Learned => {}
            Looked::Flush(tree) => drop(flushing::Environment::seal(self, &[tree])),
        }
        Ok(true)
    }

    /// After keyspaces were dropped: fits the cache to what is left, and lets logs go.
    pub(super) fn follow_drops(&self) {
        self.memory.fit_cache(&self.store.catalog);
        self.remove_flushed_logs();
    }

    /// How long a worker that finds nothing to do waits at most.
    pub(super) fn next_look(&self) -> Option<Duration> {
        let now_ns = self.clock().monotonic_ns();
        let others = [self.drops.next(now_ns), self.lending.next(now_ns), self.store.leaving.next()];
        self.resting.next(now_ns).into_iter().chain(others.into_iter().flatten()).min()
    }

    /// There is nothing to do, as of `horizon`: leaves word which snapshots' release may change
    /// that. `false` if one was released meanwhile.
    fn await_release(&self, horizon: &Horizon) -> bool {
        let awaited = self.work.awaited(&self.trees(), horizon);
        self.store.snapshots.wait_for(awaited.snapshot, horizon)
    }

    /// Waits until there is nothing left to do, and helps as long as there is work that no other
    /// thread does. Nor is any work put off then that waits for reads to pay for it.
    pub(crate) fn wait_idle(&self) -> Result<()> {
        loop {
            self.writable()?;
            self.work.hurry(&self.trees(), &self.horizon());
            if self.step(false)? {
                continue;
            }
            if self.reclaiming.is_at_work() {
                self.clock().sleep(LOOK_PERIOD);
                continue;
            }
            if self.options.background_threads == 0
                || self.work.is_idle_or_wait(&self.trees(), &self.horizon())?
            {
                if self.drops.take_all() {
                    self.follow_drops();
                }
                self.store.leaving.let_all_go();
                return Ok(());
            }
        }
    }

    /// Merges `range` of `tree` down to the last level.
    pub(crate) fn compact_range(&self, tree: &Arc<Tree>, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.flush_trees(std::slice::from_ref(tree))?;
        let mut compaction = ManualCompaction::new(&tree.view().version, range.clone());
        loop {
            self.writable()?;
            match self.work.next_step(tree, &mut compaction, &self.horizon())? {
                NextStep::Done => break,
                NextStep::Waited => {}
                NextStep::Run(_claim, plan) => {
                    self.compact(tree, &plan, self.reclaiming.victims()).inspect_err(|error| {
                        self.work.note_damage(tree, &plan, error);
                    })?;
                }
            }
        }
        let taken = match self.options.reclaim {
            // A user that asks for that way keeps what it keeps.
            Reclaim::Off | Reclaim::LearnedKv => Ok(()),
            Reclaim::Tier | Reclaim::Rewrite => {
                reclaimer(self).take_all(tree, range, || self.writable().map(drop))
            }
        };
        self.store.leaving.let_all_go();
        self.memory.after_job();
        taken
    }

    /// Slows a writer of `bytes` down when flush and compaction are behind. It adds a large entry
    /// of `coming` bytes to a memtable.
    #[inline]
    pub(super) fn throttle(&self, tree: &Tree, bytes: u64, coming: u64) -> Result<()> {
        let crowded = || self.memory.delay(bytes, coming, tree);
        let delay = crowded();
        // Without background threads no flush is under way that would end.
        if !delay.is_zero() && self.options.background_threads > 0 {
            self.throttle.await_flush(tree, delay, &self.work, || !crowded().is_zero())?;
        }
        self.throttle.admit(tree, bytes, self.reclaiming.delay(bytes), &self.work, || {
            let _caller = self.enter()?;
            self.step(false)
        })
    }
}

/// What gives back the space of values.
fn reclaimer(core: &Core) -> Reclaimer<'_> {
    Reclaimer {
        options: &core.options,
        store: &core.store,
        work: &core.work,
        reclaiming: &core.reclaiming,
        announcements: &core.commit.announcements,
        rest: core,
    }
}

impl reclaiming::Environment for Core {
    fn freeze(&self, trees: &[Arc<Tree>]) -> Result<()> {
        {
            let mut writer = self.commit.lock();
            let Writer { log, last_seqno, .. } = &mut *writer;
            self.logs.seal(self.around_logs(), log, *last_seqno, trees);
            self.logs.change(self.around_logs(), log, *last_seqno)?;
        }
        self.flush_trees(trees)?;
        // Where nothing was left to flush, no flush has settled the logs.
        self.logs.settle(&self.store.poison, &self.commit)?;
        self.remove_flushed_logs();
        Ok(())
    }

    fn flush(&self, tree: &Arc<Tree>) -> Result<()> {
        self.flush_trees(std::slice::from_ref(tree))
    }

    fn carry_out(&self, tree: &Arc<Tree>, plan: &Plan, victims: Victims) -> Result<Written> {
        self.compact(tree, plan, victims)
    }

    fn put(&self, encoder: BatchEncoder, terms: Terms) -> Result<()> {
        self.commit.batch(encoder, terms, Durability::Buffered, self).map(drop)
    }

    fn log_bytes(&self) -> u64 {
        self.commit.lock().log.bytes()
    }

    fn write_buffer_bytes(&self) -> u64 {
        self.memory.write_buffer_bytes()
    }
}
