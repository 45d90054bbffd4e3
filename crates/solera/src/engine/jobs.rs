//! The jobs: a flush or a compaction, carried out and installed.
//!
//! Owns what a unit of work does once it is claimed. A panic in the work (a user's merge operator
//! is called there) is the work's failure, not the thread's: it poisons the database, and everybody
//! who waits is told.

use super::{
    commit::{Environment, Terms, Writer},
    core::Core,
    logs::Present,
    options::Durability,
    poison::Poison,
    reclaiming::{self, Reclaimer},
    store::Flushed,
    work::{Claim, Job, NextStep},
};
use crate::{
    canary::{Bug, planted},
    compaction::{self, Horizon, JobContext, ManualCompaction, Plan, Reason, Reclaim, Victims, Written},
    error::{Error, Result},
    ids::Seqno,
    key::KeyRange,
    memtable::Memtable,
    stats::Counter,
    tree::Tree,
    version::TreeEdit,
    wal::batch::BatchEncoder,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

/// Trees of which so little waits to be flushed are flushed together,
const LITTLE_BYTES: usize = 64 << 10;
/// so many at once.
const TOGETHER: usize = 256;
/// Fewest deletes for which a flush looks whether they have anything to hide in tables: a few cost
/// nobody anything.
const DELETES_MIN: usize = 1024;

/// How often somebody who waits for all work looks whether values are still put again.
const LOOK_PERIOD: Duration = Duration::from_millis(1);

/// Does `work` on `tree`; a panic in it is its failure. It may have stopped anywhere, so nothing
/// more may be written.
pub(super) fn guarded<R>(
    poison: &Poison,
    what: &str,
    tree: &Tree,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(panic) => {
            let message = panic.downcast_ref::<&str>().copied();
            let message = message.or(panic.downcast_ref::<String>().map(String::as_str));
            let (name, message) = (&tree.name, message.unwrap_or("no message"));
            poison.set(format_args!("{what} of keyspace {name:?} panicked: {message}"));
            poison.check().and(Err(Error::Closed))
        }
    }
}

impl Core {
    /// How tables of `level` over `range` are written now; and what the job may drop, as of now:
    /// every job that starts later may only drop more.
    pub(super) fn job_context(&self, tree: &Tree, level: u32, range: &KeyRange) -> JobContext<'_> {
        let now_ms = self.store.expiry.now_ms();
        let Horizon { snapshots, visible, oldest_transaction, .. } = self.store.snapshots.horizon(now_ms);
        let view = tree.view_owned();
        let of_levels = self.memory.level_filters(tree, &view, level, &self.store.catalog);
        let mut layout = view.settings.layout_of(level);
        let mut filter = of_levels.of(compaction::resting_level(&view.version, level, range));
        if self.options.reclaim == Reclaim::LearnedKv
            && view.settings.separate_from.is_some()
            && compaction::is_key_list(&view.version, level)
        {
            (layout, filter) = compaction::key_list(layout);
        }
        JobContext {
            context: tree.context.clone(),
            layout,
            filter,
            shape: view.settings.shape.clone(),
            snapshots,
            visible,
            values: tree.values.clone(),
            victims: self.reclaiming.victims(),
            oldest_transaction,
            operator: tree.operator().cloned(),
            now_ms,
            syncs_dir: true,
            cancelled: &self.work.stopping,
            meanwhile: None,
            new_file: Box::new(|| self.store.files.new_file()),
        }
    }

    /// Writes sealed memtables (newest first) out as the newest run of level 0. The caller holds
    /// the tree's flush claim.
    fn flush_memtables(&self, tree: &Arc<Tree>, memtables: &[Arc<Memtable>]) -> Result<()> {
        guarded(&self.store.poison, "a flush", tree, || {
            let outputs = self.write_flush(tree, memtables, true)?;
            let last = last_seqno(memtables);
            // In a power failure these tables must not outlive what came before them in the log.
            if let Err(error) = self.sync_log_to(last.unwrap_or(0)) {
                self.store.remove_written(&outputs);
                return Err(error);
            }
            self.install(tree, &outputs, memtables, |version| compaction::flushed(version, &outputs, last))?;
            self.remove_flushed_logs();
            Ok(())
        })
    }

    /// As [`Core::flush_memtables`], of many trees that have little each: what a flush costs
    /// whatever its size, they pay for together. The caller holds the claims.
    fn flush_together(&self, claims: &[Claim<'_>]) -> Result<()> {
        let mut flushed = Vec::with_capacity(claims.len());
        let mut written = || {
            for Claim { tree, .. } in claims.iter().filter(|claim| !claim.tree.is_dropped()) {
                let memtables = tree.view().sealed.clone();
                if memtables.is_empty() {
                    continue;
                }
                let written = guarded(&self.store.poison, "a flush", tree, || {
                    self.write_flush(tree, &memtables, false)
                })?;
                let (tree, last) = (tree.clone(), last_seqno(&memtables));
                flushed.push(Flushed { tree, written, memtables, last });
            }
            if !planted(Bug::SkipDirectorySync) {
                self.store.files.fs.sync_dir(&self.store.files.dir)?;
            }
            self.sync_log_to(flushed.iter().filter_map(|one| one.last).max().unwrap_or(0))
        };
        if let Err(error) = written() {
            flushed.iter().for_each(|one| self.store.remove_written(&one.written));
            return Err(error);
        }
        if !flushed.is_empty() {
            self.store.install_flushed(flushed, None)?;
            self.memory.fit_cache(&self.store.catalog);
            self.remove_flushed_logs();
        }
        Ok(())
    }

    /// Flushes those of `trees` together that have little to flush and that nobody flushes now.
    fn flush_small<'t>(&self, trees: impl Iterator<Item = &'t Arc<Tree>>) -> Result<()> {
        let small: Vec<&Arc<Tree>> = trees.filter(|tree| has_little_to_flush(tree)).collect();
        for group in small.chunks(TOGETHER) {
            self.writable()?;
            let claims = self.work.claim_flushes(group.iter().copied(), TOGETHER);
            self.flush_together(&claims)?;
            self.work.note(&Ok(()));
        }
        Ok(())
    }

    fn write_flush(&self, tree: &Tree, memtables: &[Arc<Memtable>], syncs_dir: bool) -> Result<Written> {
        let range = compaction::extent(memtables)?.unwrap_or_else(KeyRange::all);
        // Older memtables were flushed before, and what is ingested meanwhile is newer.
        let deletes: usize = memtables.iter().map(|memtable| memtable.deletes()).sum();
        let is_all = deletes >= DELETES_MIN
            && tree.view().version.runs().iter().all(|run| run.overlapping(&range).is_empty());
        let job = JobContext { syncs_dir, ..self.job_context(tree, 0, &range) };
        let outputs = compaction::flush(memtables, is_all, &job)?;
        count_flush(tree, &outputs);
        Ok(outputs)
    }

    /// Seals and flushes everything in `tree`'s memtables while the caller keeps writers out.
    pub(super) fn flush_locked(
        &self,
        _claim: &Claim<'_>,
        tree: &Arc<Tree>,
        writer: &mut Writer<Present>,
    ) -> Result<()> {
        tree.seal();
        let sealed = tree.view().sealed.clone();
        if sealed.is_empty() {
            return Ok(());
        }
        let outputs = guarded(&self.store.poison, "a flush", tree, || self.write_flush(tree, &sealed, true))?;
        if let Err(error) = writer.sync(self) {
            self.store.remove_written(&outputs);
            return Err(error);
        }
        let last = last_seqno(&sealed);
        self.install(tree, &outputs, &sealed, |version| compaction::flushed(version, &outputs, last))
    }

    pub(super) fn compact(&self, tree: &Arc<Tree>, plan: &Plan) -> Result<()> {
        self.compact_moving(tree, plan, self.reclaiming.victims()).map(drop)
    }

    /// Carries `plan` out; the values of `victims` move.
    fn compact_moving(&self, tree: &Arc<Tree>, plan: &Plan, victims: Victims) -> Result<Written> {
        guarded(&self.store.poison, "a compaction", tree, || {
            // However few threads there are, writers do not wait until all is converted.
            let flush = || self.step(true).map(drop);
            let context = self.job_context(tree, plan.target.level, &plan.hull());
            let mut job = JobContext { victims, ..context };
            // It may concern a whole keyspace.
            if plan.reason == Reason::Reclaim {
                job.meanwhile = Some(&flush);
            }
            let outputs = compaction::run(plan, &job)?;
            self.install(tree, &outputs, &[], |version| TreeEdit {
                values: outputs.values.clone(),
                ..plan.edit(version, &outputs.tables)
            })?;
            tree.context.stats.add(Counter::BytesWrittenCompaction, outputs.bytes());
            tree.context.stats.add(Counter::Compactions, 1);
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
            // A release that came while nothing was found was not told: nobody waited for it yet.
            if flush_only || next.is_some() || self.await_release(&horizon) {
                break next;
            }
        };
        let Some((claim, job)) = next else {
            let given_back = if flush_only { Ok(false) } else { self.give_back() };
            return given_back.inspect_err(|error| self.work.note_failure(error));
        };
        let tree = &claim.tree.clone();
        let done = match self.store.poison.check().and_then(|()| match &job {
            Job::Flush(memtables) if has_little_to_flush(tree) => {
                let trees = self.trees();
                let others = trees.iter().filter(|other| other.id != tree.id && has_little_to_flush(other));
                let mut claims = self.work.claim_flushes(others, TOGETHER);
                match claims.is_empty() {
                    true => self.flush_memtables(tree, memtables),
                    false => {
                        claims.push(claim);
                        self.flush_together(&claims)
                    }
                }
            }
            Job::Flush(memtables) => self.flush_memtables(tree, memtables),
            Job::Compact(plan) => self.compact(tree, plan),
        }) {
            // There is nothing left to do for a tree that was dropped meanwhile.
            Err(Error::NoKeyspace(_)) if tree.is_dropped() => Ok(()),
            // Plans go around it from now on; `Stats` tells, and so does whoever reads there.
            Err(error) if job.plan().is_some_and(|plan| self.work.note_damage(tree, plan, &error)) => Ok(()),
            done => done,
        };
        self.work.note(&done);
        let is_tier = self.options.reclaim == Reclaim::Tier;
        if done.is_ok() && is_tier && !tree.view().version.values().is_empty() {
            self.reclaimer().look().inspect_err(|error| self.work.note_failure(error))?;
        }
        done.map(|()| true)
    }

    /// Who gives back the space of values.
    fn reclaimer(&self) -> Reclaimer<'_> {
        Reclaimer {
            options: &self.options,
            store: &self.store,
            work: &self.work,
            reclaiming: &self.reclaiming,
            announcements: &self.commit.announcements,
            rest: self,
        }
    }

    /// One step of giving back the space of values, in the way that was asked for. False: there was
    /// nothing to do.
    fn give_back(&self) -> Result<bool> {
        self.store.poison.check()?;
        let reclaimer = self.reclaimer();
        match self.options.reclaim {
            Reclaim::Off => Ok(false),
            Reclaim::Tier => reclaimer.convert(),
            Reclaim::Rewrite => reclaimer.rewrite(),
            Reclaim::LearnedKv => reclaimer.reclaim(),
        }
    }

    /// There is nothing to do, as of `horizon`: leaves word which snapshots' release may change
    /// that. `false` if one was released meanwhile.
    fn await_release(&self, horizon: &Horizon) -> bool {
        let awaited = self.work.awaited(&self.trees(), horizon);
        self.store.snapshots.wait_for(awaited.snapshot, horizon)
    }

    /// Flushes `trees` completely, as they are now.
    pub(crate) fn flush_trees(&self, trees: &[Arc<Tree>]) -> Result<()> {
        let mut until = Vec::with_capacity(trees.len());
        {
            let mut writer = self.commit.lock();
            for tree in trees {
                until.push(tree.view().memtables().filter_map(|memtable| memtable.last_seqno()).max());
            }
            let Writer { log, last_seqno, .. } = &mut *writer;
            Environment::seal(self, log, *last_seqno, trees);
        }
        self.flush_small(trees.iter())?;
        for (tree, until) in trees.iter().zip(until) {
            let Some(until) = until else { continue };
            while tree.flushed_seqno() < until && !tree.is_dropped() {
                self.writable()?;
                let _claim = self.work.claim_flush(tree);
                let sealed = tree.view().sealed.clone();
                if !sealed.is_empty()
                    && let Err(error) = self.flush_memtables(tree, &sealed)
                    && !tree.is_dropped()
                {
                    return Err(error);
                }
                self.work.note(&Ok(()));
            }
        }
        self.logs.retire(self.around_logs(), &self.commit)
    }

    /// Waits until there is nothing left to do, and helps as long as there is something that nobody
    /// does. Nor is anything put off then that waits for reads to pay for it.
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
                NextStep::Done => return Ok(()),
                NextStep::Waited => {}
                NextStep::Run(_claim, plan) => {
                    self.compact(tree, &plan).inspect_err(|error| {
                        self.work.note_damage(tree, &plan, error);
                    })?;
                }
            }
        }
    }

    /// Slows a writer of `bytes` down when flush and compaction are behind.
    #[inline]
    pub(super) fn throttle(&self, tree: &Tree, bytes: u64) -> Result<()> {
        self.throttle.admit(tree, bytes, self.reclaiming.delay(bytes), &self.work, || {
            let _caller = self.enter()?;
            self.step(false)
        })
    }
}

impl reclaiming::Environment for Core {
    fn freeze(&self, trees: &[Arc<Tree>]) -> Result<()> {
        {
            let mut writer = self.commit.lock();
            let Writer { log, last_seqno, .. } = &mut *writer;
            Environment::seal(self, log, *last_seqno, trees);
            self.logs.change(self.around_logs(), log, *last_seqno)?;
        }
        self.flush_trees(trees)?;
        // Where nothing was left to flush, nobody else has.
        self.logs.settle(&self.store.poison, &self.commit)?;
        self.remove_flushed_logs();
        Ok(())
    }

    fn flush(&self, tree: &Arc<Tree>) -> Result<()> {
        self.flush_trees(std::slice::from_ref(tree))
    }

    fn carry_out(&self, tree: &Arc<Tree>, plan: &Plan, victims: Victims) -> Result<Written> {
        self.compact_moving(tree, plan, victims)
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

/// Whether it has sealed memtables, and they are small.
fn has_little_to_flush(tree: &Arc<Tree>) -> bool {
    let view = tree.view();
    let bytes: usize = view.sealed.iter().map(|memtable| memtable.bytes()).sum();
    !view.sealed.is_empty() && bytes <= LITTLE_BYTES
}

/// Counts a flush.
pub(super) fn count_flush(tree: &Tree, written: &Written) {
    tree.context.stats.add(Counter::BytesWrittenFlush, written.bytes());
    tree.context.stats.add(Counter::Flushes, 1);
    compaction::count_written(0, &written.tables, &tree.context.stats);
}

fn last_seqno(memtables: &[Arc<Memtable>]) -> Option<Seqno> {
    memtables.iter().filter_map(|memtable| memtable.last_seqno()).max()
}
