//! Background work: which flush or compaction is next, who does it, what happens when it fails.
//!
//! A unit of work is chosen under the work lock and done without it, under a [`Claim`] that ends whatever
//! becomes of the work. With background threads the first thread only flushes, so that writers never wait
//! for a compaction to end before a memtable is written out; the others do either. Without threads
//! [`Core::step`] does one unit on the caller's thread.
//!
//! A panic in the work (a user's merge operator is called there) is the work's failure, not the thread's:
//! it poisons the database, and everybody who waits is told.

use super::{Core, commit::Writer};
use crate::{
    compaction::{self, InFlight, JobContext, LevelFilters, Plan, Step, Sweep, Ticket, Turn},
    error::{Error, Result},
    ids::{KeyspaceId, RunId, Seqno},
    key::KeyRange,
    memtable::Memtable,
    stats::Counter,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    table::TableDescriptor,
    tree::{Settings, Tree, View, stall::STALL_MAX},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

/// How long a worker rests after a failure; doubles with each failure in a row.
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// Longest rest between tries: a disk that is full stays full for a while.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Longest rest while a writer is held: what he is told in the end comes of a try that was made meanwhile.
const RETRY_MAX_HELD: Duration = STALL_MAX.checked_div(3).expect("not zero");
/// Longest that a writer is held while work that has failed is tried again: to write a large memtable takes longer than [`STALL_MAX`].
const TRIED_MAX: Duration = RETRY_MAX;
/// How often reads look whether they have paid for a merge: to sum up what they did takes about a microsecond.
const LOOK_PERIOD_NS: u64 = 1_000_000;
/// How often a thread that wants a flush claim looks whether it is free, in case it missed the call.
const CLAIM_POLL: Duration = Duration::from_millis(10);

/// State of the background work.
pub(crate) struct Work {
    state: Mutex<State>,
    /// Something may be worth doing.
    wake: Condvar,
    /// Something was done, or failed.
    progress: Condvar,
    /// Who rests after a failure had better try again now. Not `wake`: the failure of one worker would be the other's call.
    retry: Condvar,
    stopping: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    flushing: BTreeSet<KeyspaceId>,
    in_flight: BTreeMap<KeyspaceId, InFlight>,
    running: usize,
    /// Writers that wait for progress.
    held: usize,
    /// Failures since the last success, and the last one.
    failures: u32,
    failure: Option<Error>,
    /// Counts wake-ups, so that one that comes while a worker looks for work is not lost.
    calls: u64,
}

impl State {
    /// The running plans of `tree`; none are begun any more once it is dropped.
    fn in_flight(&mut self, tree: &Tree) -> Option<&mut InFlight> {
        if tree.is_dropped() { None } else { Some(self.in_flight.entry(tree.id).or_default()) }
    }

    /// Whether somebody flushes or compacts `tree`.
    fn works_on(&self, tree: &Tree) -> bool {
        self.flushing.contains(&tree.id)
            || self.in_flight.get(&tree.id).is_some_and(|plans| !plans.is_empty())
    }

    /// Work was done, or there is none.
    fn forget_failure(&mut self) {
        self.failures = 0;
        self.failure = None;
    }
}

/// What a [`Claim`] keeps others from doing.
enum Claimed {
    /// Flush the tree.
    Flush,
    /// Touch what a plan needs for itself.
    Plan(Ticket),
}

/// The right to do one piece of work on one tree. Given back when dropped, in a panic too.
pub(super) struct Claim<'c> {
    core: &'c Core,
    tree: Arc<Tree>,
    claimed: Claimed,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let work = &self.core.work;
        let mut state = work.state.lock();
        state.running -= 1;
        let id = self.tree.id;
        match self.claimed {
            Claimed::Flush => {
                state.flushing.remove(&id);
            }
            Claimed::Plan(ticket) => {
                if let Some(in_flight) = state.in_flight.get_mut(&id) {
                    in_flight.finish(ticket);
                    if in_flight.is_empty() && self.tree.is_dropped() {
                        state.in_flight.remove(&id);
                    }
                }
            }
        }
        // What was done may have made more possible.
        state.calls += 1;
        drop(state);
        work.progress.notify_all();
        work.wake.notify_all();
    }
}

/// One unit of background work.
enum Job {
    Flush(Vec<Arc<Memtable>>),
    Compact(Plan),
}

impl Job {
    fn plan(&self) -> Option<&Plan> {
        match self {
            Job::Flush(_) => None,
            Job::Compact(plan) => Some(plan),
        }
    }
}

impl Work {
    pub(super) fn new() -> Self {
        Work {
            state: Mutex::default(),
            wake: Condvar::new(),
            progress: Condvar::new(),
            retry: Condvar::new(),
            stopping: Arc::new(AtomicBool::new(false)),
        }
    }

    /// As [`State::in_flight`], for who is about to ask what is due in `view`, the tree's present one. Whoever finds that level 0
    /// has waited long enough tells the workers: nobody else would.
    fn weighed<'s>(&self, state: &'s mut State, tree: &Tree, view: &View) -> Option<&'s mut InFlight> {
        let Settings { shape, level0_patience, .. } = &*view.settings;
        let in_flight = state.in_flight(tree)?;
        let waited = in_flight.level0_waits();
        in_flight.weigh(&view.version, shape, *level0_patience, &tree.context.stats.level(0));
        if waited && !in_flight.level0_waits() {
            state.calls += 1;
            self.wake.notify_all();
        }
        state.in_flight(tree)
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
        self.retry.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Holds a writer of `tree` while it `is_behind`, at most [`STALL_MAX`]. Workers that rest after a failure try again at once:
    /// space may have been made since.
    ///
    /// # Errors
    /// What the work is stuck on, as of a try that was made meanwhile: the writer would fill the memory.
    pub(super) fn hold_writer(
        &self,
        tree: &Tree,
        is_behind: impl Fn() -> bool,
        elapsed: impl Fn() -> Duration,
    ) -> Result<()> {
        let mut state = self.state.lock();
        state.held += 1;
        if state.held == 1 {
            self.retry.notify_all();
        }
        let mut held = Ok(());
        while is_behind() && !self.is_stopping() {
            let is_tried = state.failure.is_some() && state.works_on(tree);
            let left = if is_tried { TRIED_MAX } else { STALL_MAX }.saturating_sub(elapsed());
            if left.is_zero() {
                held = state.failure.clone().map_or(Ok(()), Err);
                break;
            }
            self.progress.wait_for(&mut state, left);
        }
        state.held -= 1;
        held
    }

    /// Notes how a unit of work ended.
    fn note(&self, done: &Result<()>) {
        match done {
            Ok(()) => {
                self.state.lock().forget_failure();
                self.retry.notify_all();
            }
            Err(error) => self.note_failure(error),
        }
    }

    /// Notes a failure of background work.
    pub(super) fn note_failure(&self, error: &Error) {
        let mut state = self.state.lock();
        state.failures += 1;
        state.failure = Some(error.clone());
    }

    /// Forgets a dropped tree. Plans that run still are forgotten when they end.
    pub(super) fn forget(&self, tree: &Tree) {
        let mut state = self.state.lock();
        if state.in_flight.get(&tree.id).is_some_and(InFlight::is_empty) {
            state.in_flight.remove(&tree.id);
        }
    }

    /// Run limits of `tree` are about to change.
    pub(super) fn turn(&self, tree: &Tree, turns: Vec<Turn>) {
        let mut state = self.state.lock();
        if let Some(in_flight) = state.in_flight(tree) {
            turns.into_iter().for_each(|turn| in_flight.turn(turn));
        }
    }

    /// The tables of `tree` that compactions found damaged.
    pub(super) fn damaged(&self, tree: &Tree) -> Vec<Error> {
        let mut state = self.state.lock();
        let Some(in_flight) = state.in_flight.get_mut(&tree.id) else { return Vec::new() };
        in_flight.forget_replaced(&tree.view().version);
        in_flight.damaged().values().cloned().collect()
    }

    /// The failure that background work is stuck on, if it is.
    pub(crate) fn failure(&self) -> Result<()> {
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
                let longest = if state.held > 0 { RETRY_MAX_HELD } else { RETRY_MAX };
                let rest = RETRY_FIRST.saturating_mul(1 << state.failures.min(8)).min(longest);
                if !core.work.is_stopping() {
                    core.work.retry.wait_for(&mut state, rest);
                }
            }
        }
    }
}

impl Core {
    /// Chooses and does one unit of work. False: there was none.
    fn do_one(&self, flush_only: bool) -> Result<bool> {
        if self.tend_logs().inspect_err(|error| self.work.note_failure(error))? {
            return Ok(true);
        }
        let Some((claim, job)) = self.next_job(flush_only) else { return Ok(false) };
        let tree = &claim.tree;
        let done = match self.poison.check().and_then(|()| self.run(tree, &job)) {
            // There is nothing left to do for a tree that was dropped meanwhile.
            Err(Error::NoKeyspace(_)) if tree.is_dropped() => Ok(()),
            // Plans go around it from now on; `Stats` tells, and so does whoever reads there.
            Err(error) if job.plan().is_some_and(|plan| self.note_damage(tree, plan, &error)) => Ok(()),
            done => done,
        };
        self.work.note(&done);
        done.map(|()| true)
    }

    fn note_damage(&self, tree: &Tree, plan: &Plan, error: &Error) -> bool {
        let mut state = self.work.state.lock();
        state.in_flight(tree).is_some_and(|in_flight| in_flight.note_damage(plan, error))
    }

    /// The most pressing work that nobody does yet. Flushes come before compactions; among trees, the one
    /// that is furthest behind comes first, so that none starves another.
    fn next_job(&self, flush_only: bool) -> Option<(Claim<'_>, Job)> {
        let mut trees = self.trees();
        let mut state = self.work.state.lock();
        trees.retain(|tree| !tree.is_dropped());
        let waiting = |tree: &&Arc<Tree>| tree.view().sealed.len();
        let unclaimed = trees.iter().filter(|tree| waiting(tree) > 0 && !state.flushing.contains(&tree.id));
        if let Some(tree) = unclaimed.max_by_key(waiting) {
            state.flushing.insert(tree.id);
            let claim = self.claim(&mut state, tree, Claimed::Flush);
            // Read under the claim: nobody else takes memtables out of the view.
            return Some((claim, Job::Flush(tree.view().sealed.clone())));
        }
        if flush_only {
            return None;
        }
        trees.sort_by_cached_key(|tree| {
            let view = tree.view();
            let urgency = |in_flight: &mut InFlight| {
                compaction::urgency(&view.version, &view.settings.shape, in_flight)
            };
            std::cmp::Reverse(self.work.weighed(&mut state, tree, &view).map_or(0, urgency))
        });
        for tree in &trees {
            let view = tree.view();
            let Some(in_flight) = self.work.weighed(&mut state, tree, &view) else { continue };
            in_flight.forget_replaced(&view.version);
            if let Some(plan) = compaction::pick(&view.version, &view.settings.shape, in_flight) {
                let ticket = in_flight.start(&plan);
                return Some((self.claim(&mut state, tree, Claimed::Plan(ticket)), Job::Compact(plan)));
            }
        }
        if state.running == 0 {
            state.forget_failure();
        }
        None
    }

    /// Reads have looked into `tree`: if they have now paid for the merge of level 0, it is begun. Called by a reader now and
    /// then, who waits for nobody.
    pub(super) fn weigh_reads(&self, tree: &Tree) {
        let view = tree.view();
        let Settings { shape, level0_patience, .. } = &*view.settings;
        if shape.run_limit(0) >= *level0_patience
            || !(1..*level0_patience as usize).contains(&view.version.level(0).runs().len())
            || self.options.background_threads == 0
            || self.options.read_only
            || !tree.is_time_to_look(self.clock().monotonic_ns(), LOOK_PERIOD_NS)
        {
            return;
        }
        let Some(mut state) = self.work.state.try_lock() else { return };
        // As it is now that nobody changes what is known of it.
        let view = tree.view();
        if state.in_flight(tree).is_some_and(|in_flight| in_flight.level0_waits()) {
            self.work.weighed(&mut state, tree, &view);
        }
    }

    /// Where tables over `range`, newer than everything in `tree`, enter it. The claim keeps the place for
    /// them. The caller holds the tree's flush claim and keeps writers out.
    pub(super) fn claim_entrance(
        &self,
        tree: &Arc<Tree>,
        range: &KeyRange,
    ) -> Result<(u32, RunId, Option<Claim<'_>>)> {
        let mut state = self.work.state.lock();
        let Some(in_flight) = state.in_flight(tree) else {
            return Err(Error::NoKeyspace(tree.name.clone()));
        };
        let view = tree.view();
        let (level, run, ticket) =
            compaction::entrance(&view.version, &view.settings.shape, in_flight, range);
        let claim = ticket.map(|ticket| self.claim(&mut state, tree, Claimed::Plan(ticket)));
        Ok((level, run, claim))
    }

    /// What was claimed in `state` is given back when the result is dropped.
    fn claim(&self, state: &mut State, tree: &Arc<Tree>, claimed: Claimed) -> Claim<'_> {
        state.running += 1;
        Claim { core: self, tree: tree.clone(), claimed }
    }

    fn run(&self, tree: &Arc<Tree>, job: &Job) -> Result<()> {
        match job {
            Job::Flush(memtables) => self.flush_memtables(tree, memtables),
            Job::Compact(plan) => self.compact(tree, plan),
        }
    }

    /// Does `work` on `tree`; a panic in it is its failure. It may have stopped anywhere, so nothing more
    /// may be written.
    fn guarded<R>(&self, what: &str, tree: &Tree, work: impl FnOnce() -> Result<R>) -> Result<R> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => done,
            Err(panic) => {
                let message = panic.downcast_ref::<&str>().copied();
                let message = message.or(panic.downcast_ref::<String>().map(String::as_str));
                let (name, message) = (&tree.name, message.unwrap_or("no message"));
                self.poison.set(format_args!("{what} of keyspace {name:?} panicked: {message}"));
                self.poison.check().and(Err(Error::Closed))
            }
        }
    }

    /// How tables of `level` over `range` are written now; and what the job may drop, as of now: every job that
    /// starts later may only drop more.
    fn job_context(&self, tree: &Tree, level: u32, range: &KeyRange) -> JobContext<'_> {
        let (snapshots, visible) = self.snapshots.list(|| self.visible());
        let view = tree.view_owned();
        let of_levels = self.level_filters(tree, &view, level);
        JobContext {
            context: tree.context.clone(),
            layout: view.settings.layout_of(level),
            filter: of_levels.of(compaction::resting_level(&view.version, level, range)),
            shape: view.settings.shape.clone(),
            snapshots,
            visible,
            operator: tree.operator().cloned(),
            now_ms: self.now_ms(),
            cancelled: &self.work.stopping,
            new_file: Box::new(|| self.new_file()),
        }
    }

    /// The filters of tables that are written now, if `deepest` is the last level of `view`, or a deeper one is.
    pub(super) fn level_filters(&self, tree: &Tree, view: &View, deepest: u32) -> LevelFilters {
        tree.level_filters(view, deepest, |wanted| self.filter_bits_allowed(wanted))
    }

    /// Writes sealed memtables (newest first) out as the newest run of level 0. The caller holds the
    /// tree's flush claim.
    fn flush_memtables(&self, tree: &Arc<Tree>, memtables: &[Arc<Memtable>]) -> Result<()> {
        self.guarded("a flush", tree, || self.flush_unguarded(tree, memtables))
    }

    fn flush_unguarded(&self, tree: &Arc<Tree>, memtables: &[Arc<Memtable>]) -> Result<()> {
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
        let range = compaction::extent(memtables)?.unwrap_or_else(KeyRange::all);
        let outputs = compaction::flush(memtables, &self.job_context(tree, 0, &range))?;
        let written = outputs.iter().map(|table| table.bytes).sum();
        tree.context.stats.add(Counter::BytesWrittenFlush, written);
        tree.context.stats.add(Counter::Flushes, 1);
        compaction::count_written(0, &outputs, &tree.context.stats);
        Ok(outputs)
    }

    /// Seals and flushes everything in `tree`'s memtables while the caller keeps writers out.
    pub(super) fn flush_locked(
        &self,
        _claim: &Claim<'_>,
        tree: &Arc<Tree>,
        writer: &mut Writer,
    ) -> Result<()> {
        tree.seal();
        let sealed = tree.view().sealed.clone();
        if sealed.is_empty() {
            return Ok(());
        }
        let outputs = self.guarded("a flush", tree, || self.write_flush(tree, &sealed))?;
        if let Err(error) = self.sync_log_locked(writer) {
            self.remove_outputs(&outputs);
            return Err(error);
        }
        let last = last_seqno(&sealed);
        self.install(tree, &outputs, &sealed, |version| compaction::flushed(version, &outputs, last))
    }

    /// Makes this thread the only one that flushes `tree`, waiting for another that does. Taken before
    /// the commit lock, never after.
    pub(super) fn claim_flush(&self, tree: &Arc<Tree>) -> Claim<'_> {
        let mut state = self.work.state.lock();
        while !state.flushing.insert(tree.id) {
            self.work.progress.wait_for(&mut state, CLAIM_POLL);
        }
        self.claim(&mut state, tree, Claimed::Flush)
    }

    fn compact(&self, tree: &Arc<Tree>, plan: &Plan) -> Result<()> {
        self.guarded("a compaction", tree, || {
            let outputs = compaction::run(plan, &self.job_context(tree, plan.target.level, &plan.hull()))?;
            self.install(tree, &outputs, &[], |version| plan.edit(version, &outputs))?;
            let written = outputs.iter().map(|table| table.bytes).sum();
            tree.context.stats.add(Counter::BytesWrittenCompaction, written);
            tree.context.stats.add(Counter::Compactions, 1);
            plan.count(&outputs, &tree.context.stats);
            Ok(())
        })
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
                if !sealed.is_empty()
                    && let Err(error) = self.flush_memtables(tree, &sealed)
                    && !tree.is_dropped()
                {
                    return Err(error);
                }
                self.work.note(&Ok(()));
            }
        }
        self.retire_log()
    }

    /// Waits until there is nothing left to do, and helps as long as there is something that nobody does. Nor is anything put off
    /// then that waits for reads to pay for it.
    pub(super) fn wait_idle(&self) -> Result<()> {
        loop {
            self.writable()?;
            self.hurry();
            if self.step()? {
                continue;
            }
            if self.options.background_threads == 0 {
                return Ok(());
            }
            let trees = self.trees();
            let mut state = self.work.state.lock();
            let idle = state.running == 0
                && trees.iter().all(|tree| {
                    let view = tree.view();
                    let Some(in_flight) = self.work.weighed(&mut state, tree, &view) else { return true };
                    view.sealed.is_empty()
                        && compaction::pick(&view.version, &view.settings.shape, in_flight).is_none()
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

    /// Has level 0 of every tree merged that waits for reads to pay for it.
    fn hurry(&self) {
        let trees = self.trees();
        let mut state = self.work.state.lock();
        for tree in &trees {
            let view = tree.view();
            if let Some(in_flight) = self.work.weighed(&mut state, tree, &view) {
                in_flight.hurry(&view.version, &view.settings.shape);
                // Tells the workers that the wait is over.
                self.work.weighed(&mut state, tree, &view);
            }
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
            let mut state = self.work.state.lock();
            let Some(in_flight) = state.in_flight(tree) else {
                return Err(Error::NoKeyspace(tree.name.clone()));
            };
            // The version is read under the work lock: what a plan that ended has done is in it.
            let view = tree.view_owned();
            match sweep.next(&view.version, &view.settings.shape, in_flight) {
                Step::Done => return Ok(()),
                Step::Wait => {
                    self.work.progress.wait_for(&mut state, CLAIM_POLL);
                }
                Step::Run(plan) => {
                    let ticket = in_flight.start(&plan);
                    let _claim = self.claim(&mut state, tree, Claimed::Plan(ticket));
                    drop(state);
                    self.compact(tree, &plan).inspect_err(|error| {
                        self.note_damage(tree, &plan, error);
                    })?;
                }
            }
        }
    }
}

fn last_seqno(memtables: &[Arc<Memtable>]) -> Option<Seqno> {
    memtables.iter().filter_map(|memtable| memtable.last_seqno()).max()
}
