//! Background work: which flush or compaction is next, who does it, what happens when it fails.
//!
//! A unit of work is chosen under the work lock and done without it. With background threads the first
//! thread only flushes, so that writers never wait for a compaction to end before a memtable is written
//! out; the others do either. Without threads [`Core::step`] does one unit on the caller's thread.

use super::{Core, commit::Writer};
use crate::{
    compaction::{self, InFlight, JobContext, Plan, Step, Sweep, Ticket},
    error::{Error, Result},
    ids::{KeyspaceId, Seqno},
    key::KeyRange,
    memtable::Memtable,
    stats::Counter,
    table::TableDescriptor,
    tree::Tree,
};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// How long a worker rests after a failure; doubles with each failure in a row.
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// Longest rest between tries: a disk that is full stays full for a while.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How often a thread that wants a flush claim looks whether it is free, in case it missed the call.
const CLAIM_POLL: Duration = Duration::from_millis(10);

/// State of the background work.
pub(crate) struct Work {
    state: Mutex<State>,
    /// Something may be worth doing.
    wake: Condvar,
    /// Something was done, or failed.
    progress: Condvar,
    stopping: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    flushing: BTreeSet<KeyspaceId>,
    in_flight: BTreeMap<KeyspaceId, InFlight>,
    running: usize,
    /// Failures since the last success, and the last one.
    failures: u32,
    failure: Option<Error>,
    /// Counts wake-ups, so that one that comes while a worker looks for work is not lost.
    calls: u64,
}

/// The right to flush one tree; given back when dropped.
pub(super) struct FlushClaim<'c> {
    core: &'c Core,
    tree: KeyspaceId,
}

impl Drop for FlushClaim<'_> {
    fn drop(&mut self) {
        let mut state = self.core.work.state.lock();
        state.flushing.remove(&self.tree);
        state.running -= 1;
        state.calls += 1;
        drop(state);
        self.core.work.progress.notify_all();
        self.core.work.wake.notify_all();
    }
}

/// One unit of background work.
enum Job {
    Flush(Arc<Tree>, Vec<Arc<Memtable>>),
    Compact(Arc<Tree>, Plan, Ticket),
}

impl Work {
    pub(super) fn new() -> Self {
        Work {
            state: Mutex::default(),
            wake: Condvar::new(),
            progress: Condvar::new(),
            stopping: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Tells the workers that something may be worth doing.
    pub(super) fn wake(&self) {
        self.state.lock().calls += 1;
        self.wake.notify_all();
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
        self.progress.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until a unit of work ends, at most `limit`.
    pub(super) fn wait_for_progress(&self, limit: Duration) {
        let mut state = self.state.lock();
        self.progress.wait_for(&mut state, limit);
    }

    /// Notes a failure of background work that happened on a writer's thread.
    pub(super) fn note_failure(&self, error: &Error) {
        let mut state = self.state.lock();
        state.failures += 1;
        state.failure = Some(error.clone());
    }

    /// The failure that background work is stuck on, if it is.
    pub(super) fn failure(&self) -> Result<()> {
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }
}

/// Starts the background threads.
pub(super) fn spawn(core: &Arc<Core>) -> Result<Vec<JoinHandle<()>>> {
    if core.options.read_only {
        return Ok(Vec::new());
    }
    let count = core.options.background_threads;
    let mut threads = Vec::with_capacity(count);
    for number in 0..count {
        let flush_only = number == 0 && count > 1;
        let core_of_thread = core.clone();
        let spawned = std::thread::Builder::new()
            .name(format!("solera-{}", if flush_only { "flush" } else { "compact" }))
            .spawn(move || work_until_stopped(&core_of_thread, flush_only));
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                core.work.stop();
                threads.into_iter().for_each(|thread: JoinHandle<()>| drop(thread.join()));
                return Err(Error::io("start a background thread for", core.dir(), error));
            }
        }
    }
    Ok(threads)
}

fn work_until_stopped(core: &Arc<Core>, flush_only: bool) {
    struct PoisonOnPanic<'c>(&'c Core);
    impl Drop for PoisonOnPanic<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                self.0.poison.set("a background worker panicked");
                self.0.work.progress.notify_all();
            }
        }
    }
    let _poison = PoisonOnPanic(core);
    loop {
        let calls = core.work.state.lock().calls;
        if core.work.is_stopping() {
            return;
        }
        match core.do_one(flush_only) {
            Ok(true) => {}
            Ok(false) => {
                let mut state = core.work.state.lock();
                if state.calls == calls && !core.work.is_stopping() {
                    core.work.wake.wait(&mut state);
                }
            }
            Err(_) => {
                // The failure is noted; rest before the next try.
                let mut state = core.work.state.lock();
                let rest = RETRY_FIRST.saturating_mul(1 << state.failures.min(8)).min(RETRY_MAX);
                if !core.work.is_stopping() {
                    core.work.wake.wait_for(&mut state, rest);
                }
            }
        }
    }
}

impl Core {
    /// Chooses and does one unit of work. False: there was none.
    fn do_one(&self, flush_only: bool) -> Result<bool> {
        let Some(job) = self.next_job(flush_only) else { return Ok(false) };
        let done = self.poison.check().and_then(|()| self.run(&job));
        let mut state = self.work.state.lock();
        self.finish(&mut state, &job);
        match &done {
            Ok(()) => {
                state.failures = 0;
                state.failure = None;
            }
            Err(error) => {
                state.failures += 1;
                state.failure = Some(error.clone());
            }
        }
        // What was done may have made more possible.
        state.calls += 1;
        drop(state);
        self.work.progress.notify_all();
        self.work.wake.notify_all();
        done.map(|()| true)
    }

    fn next_job(&self, flush_only: bool) -> Option<Job> {
        let trees = self.trees();
        let mut state = self.work.state.lock();
        for tree in &trees {
            let sealed = &tree.view().sealed;
            if !sealed.is_empty() && state.flushing.insert(tree.id) {
                state.running += 1;
                return Some(Job::Flush(tree.clone(), sealed.clone()));
            }
        }
        if flush_only {
            return None;
        }
        for tree in &trees {
            let in_flight = state.in_flight.entry(tree.id).or_default();
            let version = tree.view().version.clone();
            if let Some(plan) = compaction::pick(&version, &tree.shape, in_flight) {
                let ticket = in_flight.start(&plan);
                state.running += 1;
                return Some(Job::Compact(tree.clone(), plan, ticket));
            }
        }
        None
    }

    fn finish(&self, state: &mut State, job: &Job) {
        state.running -= 1;
        match job {
            Job::Flush(tree, _) => {
                state.flushing.remove(&tree.id);
            }
            Job::Compact(tree, _, ticket) => {
                if let Some(in_flight) = state.in_flight.get_mut(&tree.id) {
                    in_flight.finish(*ticket);
                }
            }
        }
    }

    fn run(&self, job: &Job) -> Result<()> {
        match job {
            Job::Flush(tree, memtables) => self.flush_memtables(tree, memtables),
            Job::Compact(tree, plan, _) => self.compact(tree, plan),
        }
    }

    /// What a job may drop, as of now: every job that starts later may only drop more.
    fn job_context(&self, tree: &Tree) -> JobContext<'_> {
        let (snapshots, visible) = self.snapshots.list(|| self.visible());
        JobContext {
            context: tree.context.clone(),
            layout: tree.layout,
            shape: tree.shape.clone(),
            snapshots,
            visible,
            operator: tree.operator.clone(),
            now_ms: self.now_ms(),
            cancelled: &self.work.stopping,
            new_file: Box::new(|| self.new_file()),
        }
    }

    /// Writes sealed memtables (newest first) out as the newest run of level 0. The caller holds the
    /// tree's flush claim.
    fn flush_memtables(&self, tree: &Arc<Tree>, memtables: &[Arc<Memtable>]) -> Result<()> {
        let outputs = self.write_flush(tree, memtables)?;
        let last = last_seqno(memtables);
        // In a power failure these tables must not outlive what came before them in the log.
        if let Err(error) = self.sync_log_to(last.unwrap_or(0)) {
            self.remove_outputs(&outputs);
            return Err(error);
        }
        self.install(tree, &outputs, memtables, |version| compaction::flushed(version, &outputs, last))?;
        self.remove_flushed_logs();
        Ok(())
    }

    fn write_flush(&self, tree: &Tree, memtables: &[Arc<Memtable>]) -> Result<Vec<TableDescriptor>> {
        let outputs = compaction::flush(memtables, &self.job_context(tree))?;
        let written = outputs.iter().map(|table| table.bytes).sum();
        tree.context.stats.add(Counter::BytesWrittenFlush, written);
        tree.context.stats.add(Counter::Flushes, 1);
        Ok(outputs)
    }

    /// Seals and flushes everything in `tree`'s memtables while the caller keeps writers out.
    pub(super) fn flush_locked(
        &self,
        _claim: &FlushClaim<'_>,
        tree: &Arc<Tree>,
        writer: &mut Writer,
    ) -> Result<()> {
        tree.seal();
        let sealed = tree.view().sealed.clone();
        if sealed.is_empty() {
            return Ok(());
        }
        let outputs = self.write_flush(tree, &sealed)?;
        if let Err(error) = self.sync_log_locked(writer) {
            self.remove_outputs(&outputs);
            return Err(error);
        }
        let last = last_seqno(&sealed);
        self.install(tree, &outputs, &sealed, |version| compaction::flushed(version, &outputs, last))
    }

    /// Makes this thread the only one that flushes `tree`, waiting for another that does. Taken before
    /// the commit lock, never after.
    pub(super) fn claim_flush(&self, tree: &Arc<Tree>) -> FlushClaim<'_> {
        let mut state = self.work.state.lock();
        while !state.flushing.insert(tree.id) {
            self.work.progress.wait_for(&mut state, CLAIM_POLL);
        }
        state.running += 1;
        FlushClaim { core: self, tree: tree.id }
    }

    fn compact(&self, tree: &Arc<Tree>, plan: &Plan) -> Result<()> {
        let outputs = compaction::run(plan, &self.job_context(tree))?;
        self.install(tree, &outputs, &[], |version| plan.edit(version, &outputs))?;
        let written = outputs.iter().map(|table| table.bytes).sum();
        tree.context.stats.add(Counter::BytesWrittenCompaction, written);
        tree.context.stats.add(Counter::Compactions, 1);
        Ok(())
    }

    /// One unit of background work on this thread. False: there was none.
    pub(super) fn step(&self) -> Result<bool> {
        self.do_one(false)
    }

    /// Flushes `trees` completely, as they are now.
    pub(super) fn flush_trees(&self, trees: &[Arc<Tree>]) -> Result<()> {
        let mut until = Vec::with_capacity(trees.len());
        {
            let mut writer = self.commit.lock();
            for tree in trees {
                until.push(tree.view().memtables().filter_map(|memtable| memtable.last_seqno()).max());
                self.seal(&mut writer, tree);
            }
        }
        for (tree, until) in trees.iter().zip(until) {
            let Some(until) = until else { continue };
            while tree.flushed_seqno() < until && !tree.is_dropped() {
                self.writable()?;
                let _claim = self.claim_flush(tree);
                let sealed = tree.view().sealed.clone();
                if !sealed.is_empty() {
                    self.flush_memtables(tree, &sealed)?;
                }
            }
        }
        self.retire_log()
    }

    /// Waits until there is nothing left to do.
    pub(super) fn wait_idle(&self) -> Result<()> {
        loop {
            self.writable()?;
            if self.options.background_threads == 0 {
                if !self.step()? {
                    return Ok(());
                }
                continue;
            }
            let trees = self.trees();
            let mut state = self.work.state.lock();
            let idle = state.running == 0
                && trees.iter().all(|tree| {
                    let view = tree.view();
                    let in_flight = state.in_flight.entry(tree.id).or_default();
                    view.sealed.is_empty()
                        && compaction::pick(&view.version, &tree.shape, in_flight).is_none()
                });
            if idle {
                return Ok(());
            }
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            self.work.progress.wait_for(&mut state, Duration::from_millis(100));
        }
    }

    /// Merges `range` of `tree` down to the last level.
    pub(super) fn compact_range(&self, tree: &Arc<Tree>, range: &KeyRange) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        self.flush_trees(std::slice::from_ref(tree))?;
        let mut sweep = Sweep::new(&tree.view().version, range.clone());
        loop {
            self.writable()?;
            if tree.is_dropped() {
                return Err(Error::NoKeyspace(tree.name.clone()));
            }
            let mut state = self.work.state.lock();
            let in_flight = state.in_flight.entry(tree.id).or_default();
            // The version is read under the work lock: what a plan that ended has done is in it.
            match sweep.next(&tree.view().version, &tree.shape, in_flight) {
                Step::Done => return Ok(()),
                Step::Wait => {
                    self.work.progress.wait_for(&mut state, CLAIM_POLL);
                }
                Step::Run(plan) => {
                    let ticket = in_flight.start(&plan);
                    state.running += 1;
                    drop(state);
                    let job = Job::Compact(tree.clone(), plan, ticket);
                    let done = self.run(&job);
                    self.finish(&mut self.work.state.lock(), &job);
                    self.work.progress.notify_all();
                    self.work.wake();
                    done?;
                }
            }
        }
    }
}

fn last_seqno(memtables: &[Arc<Memtable>]) -> Option<Seqno> {
    memtables.iter().filter_map(|memtable| memtable.last_seqno()).max()
}
