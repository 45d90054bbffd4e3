//! The work queue: `Work`, which flush or compaction is next, which thread has it, and how the last
//! ones ended.
//!
//! It has what compaction remembers of each tree (`Ledger`), the failure that work is stuck on, and
//! all waiting. Workers wait for calls, for moments of expiry, and rest after failures; writers too
//! far ahead are held. The most sealed memtables come first, then the most urgent compaction.
//!
//! What must hold: a unit is chosen under the work lock, from a picture taken under it, and done
//! without it. Its `Claim` ends when dropped, in a panic too. How work is done is for `flushing`
//! and `jobs`.
//! Callers: `flushing`, `jobs`, `workers`, `throttle`, `resting`, the ways of `reclaiming`, and the
//! other parts of `engine` that claim a tree, call workers or report. Readers come through `core`;
//! `control::observe` asks what is next.

use crate::{
    clock::Clock,
    compaction::{
        self, Awaited, Horizon, Ledger, LimitChange, ManualCompaction, Overlap, Picture, Plan, Step, Ticket,
        Transition,
    },
    error::{Error, Result},
    ids::{KeyspaceId, RunId},
    key::KeyRange,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    tree::{Settings, Tree, View, stall::STALL_MAX},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// How long a worker rests after a failure; doubles with each failure in a row.
const RETRY_FIRST: Duration = Duration::from_millis(20);
/// Longest rest between tries: a disk that is full stays full for a while.
const RETRY_MAX: Duration = Duration::from_secs(2);
/// Longest rest while a writer is held: what the writer is told in the end comes of a try that was
/// made meanwhile.
const RETRY_MAX_HELD: Duration = STALL_MAX.checked_div(3).expect("not zero");
/// Longest that a writer is held while work that has failed is tried again: to write a large
/// memtable takes longer than [`STALL_MAX`].
const TRIED_MAX: Duration = RETRY_MAX;
/// How often reads look whether they have paid for a merge: to sum up what they did takes about a
/// microsecond.
const LOOK_PERIOD_NS: u64 = 1_000_000;
/// How often a thread that wants a flush claim looks whether it is free, in case it missed the
/// call.
const CLAIM_POLL: Duration = Duration::from_millis(10);
/// Shortest and longest wait for something to expire: the clock may be set, and a wait in between
/// costs little.
const MOMENT_MIN: Duration = Duration::from_millis(10);
const MOMENT_MAX: Duration = Duration::from_secs(60);
/// How long a thread that waits for all work to end waits for a call before it looks again.
const IDLE_POLL: Duration = Duration::from_millis(100);

/// State of the background work.
pub(crate) struct Work {
    state: Mutex<State>,
    /// Something may be worth doing.
    wake: Condvar,
    /// Something was done, or failed.
    progress: Condvar,
    /// A worker that rests after a failure had better try again now. Not `wake`: the failure of one
    /// worker would be the other's call.
    retry: Condvar,
    pub(super) stopping: AtomicBool,
}

#[derive(Default)]
struct State {
    flushing: BTreeSet<KeyspaceId>,
    /// Each by itself: a map of ten thousand would have room for as many more between them.
    ledgers: BTreeMap<KeyspaceId, Box<Ledger>>,
    running: usize,
    /// Writers that wait for progress.
    held: usize,
    /// Failures since the last success, and the last one.
    failures: u32,
    failure: Option<Error>,
    /// When something will have expired that is worth a plan: Unix milliseconds.
    moment_ms: Option<u64>,
    /// Counts wake-ups, so that one that comes while a worker looks for work is not lost.
    calls: u64,
}

impl State {
    /// What compaction remembers of `tree`; no plans are begun any more once it is dropped.
    fn ledger(&mut self, tree: &Tree) -> Option<&mut Ledger> {
        if tree.is_dropped() { None } else { Some(&mut **self.ledgers.entry(tree.id).or_default()) }
    }

    /// Whether a thread flushes or compacts `tree`.
    fn works_on(&self, tree: &Tree) -> bool {
        self.flushing.contains(&tree.id) || self.ledgers.get(&tree.id).is_some_and(|ledger| !ledger.is_idle())
    }

    /// Work was done, or there is none.
    fn forget_failure(&mut self) {
        self.failures = 0;
        self.failure = None;
    }
}

/// What a [`Claim`] keeps other threads from doing.
enum Claimed {
    /// Flush the tree.
    Flush,
    /// Touch what a plan needs for itself.
    Plan(Ticket),
}

/// The right to do one piece of work on one tree. Given back when dropped, in a panic too.
pub(super) struct Claim<'c> {
    work: &'c Work,
    pub(super) tree: Arc<Tree>,
    claimed: Claimed,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let work = self.work;
        let mut state = work.state.lock();
        state.running -= 1;
        let id = self.tree.id;
        match self.claimed {
            Claimed::Flush => {
                state.flushing.remove(&id);
            }
            Claimed::Plan(ticket) => {
                if let Some(ledger) = state.ledgers.get_mut(&id) {
                    ledger.finish(ticket);
                    if ledger.is_idle() && self.tree.is_dropped() {
                        state.ledgers.remove(&id);
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
pub(super) enum Job {
    Flush,
    Compact(Plan),
}

impl Job {
    /// The plan that it carries out, if it is a compaction.
    pub(super) fn plan(&self) -> Option<&Plan> {
        match self {
            Job::Flush => None,
            Job::Compact(plan) => Some(plan),
        }
    }
}

/// What [`Work::next_step`] came to.
pub(super) enum NextStep<'w> {
    /// Nothing is left to do.
    Done,
    /// Something was in the way; ask again.
    Waited,
    /// This plan is to be carried out under this claim.
    Run(Claim<'w>, Plan),
}

impl Work {
    /// No work, and no thread at it.
    pub(super) fn new() -> Self {
        Work {
            state: Mutex::default(),
            wake: Condvar::new(),
            progress: Condvar::new(),
            retry: Condvar::new(),
            stopping: AtomicBool::new(false),
        }
    }

    /// The picture of `tree`, whose present view is `view`, for one decision; `None` once the tree
    /// is dropped. If it shows that level 0 or surplus levels have waited long enough, the workers
    /// are woken: nothing else would wake them.
    fn picture<'s>(
        &self,
        state: &'s mut State,
        tree: &Tree,
        view: &'s View,
        horizon: &'s Horizon,
    ) -> Option<Picture<'s>> {
        if tree.is_dropped() {
            return None;
        }
        let Settings { shape, level0_patience, .. } = &*view.settings;
        let ledger = state.ledgers.entry(tree.id).or_default();
        let (level0_waited, surplus_waited) = (ledger.level0().waits(), ledger.surplus_waits());
        let reads = |level| tree.context.stats.level(level);
        let picture = ledger.picture(&view.version, shape, *level0_patience, &reads, horizon);
        let surplus_waits = picture.surplus.is_some_and(|surplus| !surplus.is_due);
        tree.note_surplus(surplus_waits);
        if level0_waited && !picture.level0.waits() || surplus_waited && !surplus_waits {
            state.calls += 1;
            self.wake.notify_all();
        }
        Some(picture)
    }

    /// Shows `show` what compaction would decide on now; `None` once the tree is dropped.
    pub(crate) fn show<R>(
        &self,
        tree: &Tree,
        view: &View,
        horizon: &Horizon,
        show: impl FnOnce(&Picture<'_>) -> R,
    ) -> Option<R> {
        let mut state = self.state.lock();
        self.picture(&mut state, tree, view, horizon).map(|picture| show(&picture))
    }

    /// Tells the workers that something may be worth doing.
    pub(crate) fn wake(&self) {
        self.state.lock().calls += 1;
        self.wake.notify_all();
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
        self.progress.notify_all();
        self.retry.notify_all();
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Holds a writer of `tree` while it `is_behind`, for at most so long. Workers that rest
    /// after a failure try again at once: space may have been made since.
    ///
    /// # Errors
    /// What the work is stuck on, as of a try that was made meanwhile: the writer would fill the
    /// memory.
    pub(super) fn hold_writer(
        &self,
        tree: &Tree,
        is_behind: impl Fn() -> bool,
        at_most: Duration,
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
            let left = if is_tried { TRIED_MAX } else { at_most }.saturating_sub(elapsed());
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
    pub(super) fn note(&self, done: &Result<()>) {
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
        if state.ledgers.get(&tree.id).is_some_and(|ledger| ledger.is_idle()) {
            state.ledgers.remove(&tree.id);
        }
    }

    /// Run limits of `tree` are about to change.
    pub(super) fn change_limits(&self, tree: &Tree, changes: Vec<LimitChange>) {
        let mut state = self.state.lock();
        if let Some(ledger) = state.ledger(tree) {
            changes.into_iter().for_each(|change| ledger.change_limit(change));
        }
    }

    /// The shape of `tree` is about to change, so that it may need fewer levels.
    pub(super) fn reshape(&self, tree: &Tree, transition: Transition) {
        if let Some(ledger) = self.state.lock().ledger(tree) {
            ledger.reshape(transition);
        }
    }

    /// `tree` rests, and this is known of its tables.
    pub(super) fn note_overlap(&self, tree: &Tree, overlap: Overlap) {
        if let Some(ledger) = self.state.lock().ledger(tree) {
            ledger.note_overlap(overlap);
        }
    }

    /// The tables of `tree` that compactions found damaged.
    pub(super) fn damaged(&self, tree: &Tree) -> Vec<Error> {
        let mut state = self.state.lock();
        let Some(ledger) = state.ledgers.get_mut(&tree.id) else { return Vec::new() };
        ledger.damage(&tree.view().version).errors().cloned().collect()
    }

    /// The failure that background work is stuck on, if it is.
    pub(crate) fn failure(&self) -> Result<()> {
        self.state.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Whether `error` is damage that `plan` came upon; plans go around it from now on.
    pub(super) fn note_damage(&self, tree: &Tree, plan: &Plan, error: &Error) -> bool {
        let mut state = self.state.lock();
        state.ledger(tree).is_some_and(|ledger| ledger.note_damage(plan, error))
    }

    /// The most pressing work that no thread does yet. Flushes come before compactions; among
    /// trees, the one that is furthest behind comes first, so that none starves another.
    pub(super) fn next_job(
        &self,
        mut trees: Vec<Arc<Tree>>,
        flush_only: bool,
        horizon: &Horizon,
    ) -> Option<(Claim<'_>, Job)> {
        let mut state = self.state.lock();
        trees.retain(|tree| !tree.is_dropped());
        let waiting = |tree: &&Arc<Tree>| tree.view().sealed.len();
        let unclaimed = trees.iter().filter(|tree| waiting(tree) > 0 && !state.flushing.contains(&tree.id));
        if let Some(tree) = unclaimed.max_by_key(waiting) {
            state.flushing.insert(tree.id);
            let claim = self.claim(&mut state, tree, Claimed::Flush);
            return Some((claim, Job::Flush));
        }
        if flush_only {
            return None;
        }
        trees.sort_by_cached_key(|tree| {
            let view = tree.view();
            let picture = self.picture(&mut state, tree, &view, horizon);
            std::cmp::Reverse(picture.as_ref().map_or(0, compaction::urgency))
        });
        for tree in &trees {
            let view = tree.view();
            let plan = self.picture(&mut state, tree, &view, horizon).as_ref().and_then(compaction::pick);
            if let Some(plan) = plan
                && let Some(ledger) = state.ledger(tree)
            {
                let ticket = ledger.start(&plan);
                return Some((self.claim(&mut state, tree, Claimed::Plan(ticket)), Job::Compact(plan)));
            }
        }
        if state.running == 0 {
            state.forget_failure();
        }
        None
    }

    /// Reads have looked into `tree`: if they have now paid for the merge of level 0, or of surplus
    /// levels, it is begun. Called by a reader now and then, which does not wait for the lock.
    pub(super) fn weigh_reads(&self, tree: &Tree, clock: &dyn Clock, horizon: impl FnOnce() -> Horizon) {
        let view = tree.view();
        let Settings { shape, level0_patience, .. } = &*view.settings;
        let level0_may_wait = shape.run_limit(0) < *level0_patience
            && (1..*level0_patience as usize).contains(&view.version.level(0).runs().len());
        if !level0_may_wait && !tree.surplus_waits()
            || !tree.is_time_to_look(clock.monotonic_ns(), LOOK_PERIOD_NS)
        {
            return;
        }
        let horizon = horizon();
        let Some(mut state) = self.state.try_lock() else { return };
        // As it is now that no other thread changes what is known of it.
        let view = tree.view();
        if state.ledger(tree).is_some_and(|ledger| ledger.level0().waits() || ledger.surplus_waits()) {
            self.picture(&mut state, tree, &view, &horizon);
        }
    }

    /// Where tables over `range`, newer than everything in `tree`, enter it. The claim keeps the
    /// place for them. The caller holds the tree's flush claim and keeps writers out.
    pub(super) fn claim_entrance(
        &self,
        tree: &Arc<Tree>,
        range: &KeyRange,
        horizon: &Horizon,
    ) -> Result<(u32, RunId, Option<Claim<'_>>)> {
        let mut state = self.state.lock();
        let view = tree.view();
        let Some(picture) = self.picture(&mut state, tree, &view, horizon) else {
            return Err(Error::NoKeyspace(tree.name.clone()));
        };
        let entrance = compaction::entrance(&picture, range);
        let ticket = state.ledger(tree).and_then(|ledger| ledger.enter(&entrance, range));
        let claim = ticket.map(|ticket| self.claim(&mut state, tree, Claimed::Plan(ticket)));
        Ok((entrance.level, entrance.run, claim))
    }

    /// What was claimed in `state` is given back when the result is dropped.
    fn claim(&self, state: &mut State, tree: &Arc<Tree>, claimed: Claimed) -> Claim<'_> {
        state.running += 1;
        Claim { work: self, tree: tree.clone(), claimed }
    }

    /// Makes this thread the only one that flushes `tree`, waiting for another that does. Taken
    /// before the commit lock, never after.
    pub(super) fn claim_flush(&self, tree: &Arc<Tree>) -> Claim<'_> {
        let mut state = self.state.lock();
        while !state.flushing.insert(tree.id) {
            self.progress.wait_for(&mut state, CLAIM_POLL);
        }
        self.claim(&mut state, tree, Claimed::Flush)
    }

    /// The same for those of `trees` that no thread flushes now, `most` of them, without waiting.
    pub(super) fn claim_flushes<'t>(
        &self,
        trees: impl Iterator<Item = &'t Arc<Tree>>,
        most: usize,
    ) -> Vec<Claim<'_>> {
        let mut state = self.state.lock();
        let mut claims = Vec::new();
        for tree in trees {
            if claims.len() == most {
                break;
            }
            if state.flushing.insert(tree.id) {
                claims.push(self.claim(&mut state, tree, Claimed::Flush));
            }
        }
        claims
    }

    /// Has level 0 of `trees` merged that waits for reads to pay for it, and surplus levels too.
    pub(super) fn hurry(&self, trees: &[Arc<Tree>], horizon: &Horizon) {
        let mut state = self.state.lock();
        for tree in trees {
            let view = tree.view();
            // Finds whether level 0 waits.
            self.picture(&mut state, tree, &view, horizon);
            if let Some(ledger) = state.ledger(tree) {
                ledger.hurry(&view.version, &view.settings.shape);
                // Tells the workers that the wait is over.
                self.picture(&mut state, tree, &view, horizon);
            }
        }
    }

    /// Whether nothing is done and nothing is left to do for `trees`. If not, waits a while for
    /// progress.
    ///
    /// # Errors
    /// What the work is stuck on.
    pub(super) fn is_idle_or_wait(&self, trees: &[Arc<Tree>], horizon: &Horizon) -> Result<bool> {
        let mut state = self.state.lock();
        let idle = state.running == 0
            && trees.iter().all(|tree| {
                let view = tree.view();
                let Some(picture) = self.picture(&mut state, tree, &view, horizon) else { return true };
                view.sealed.is_empty() && compaction::pick(&picture).is_none()
            });
        if !idle {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            self.progress.wait_for(&mut state, IDLE_POLL);
        }
        Ok(idle)
    }

    /// The next plan of a manual compaction of `tree`, claimed; `None`: it is done. Waits for plans
    /// that are in its way.
    pub(super) fn next_step(
        &self,
        tree: &Arc<Tree>,
        compaction: &mut ManualCompaction,
        horizon: &Horizon,
    ) -> Result<NextStep<'_>> {
        let gone = || Error::NoKeyspace(tree.name.clone());
        let mut state = self.state.lock();
        // The version is read under the work lock: what a plan that ended has done is in it.
        let view = tree.view_owned();
        let picture = self.picture(&mut state, tree, &view, horizon).ok_or_else(gone)?;
        match compaction.next(&picture) {
            Step::Done => Ok(NextStep::Done),
            Step::Wait => {
                self.progress.wait_for(&mut state, CLAIM_POLL);
                Ok(NextStep::Waited)
            }
            Step::Run(plan) => {
                let ticket = state.ledger(tree).ok_or_else(gone)?.start(&plan);
                Ok(NextStep::Run(self.claim(&mut state, tree, Claimed::Plan(ticket)), plan))
            }
        }
    }

    /// The plan of `tree` that `decide` makes, claimed.
    pub(super) fn plan_of(
        &self,
        tree: &Arc<Tree>,
        horizon: &Horizon,
        decide: impl FnOnce(&Picture<'_>) -> Option<Plan>,
    ) -> Option<(Claim<'_>, Plan)> {
        let mut state = self.state.lock();
        let view = tree.view_owned();
        let plan = decide(&self.picture(&mut state, tree, &view, horizon)?)?;
        let ticket = state.ledger(tree)?.start(&plan);
        Some((self.claim(&mut state, tree, Claimed::Plan(ticket)), plan))
    }

    /// How often the workers were called. Read before work is looked for: a later call is then not
    /// lost.
    pub(super) fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// What of `trees` waits for the release of a snapshot, or for a moment. The next
    /// [`Work::wait_for_call`] ends when that moment comes.
    pub(super) fn awaited(&self, trees: &[Arc<Tree>], horizon: &Horizon) -> Awaited {
        let mut state = self.state.lock();
        let mut awaited = Awaited::default();
        for tree in trees {
            let view = tree.view();
            let picture = self.picture(&mut state, tree, &view, horizon);
            awaited = awaited.or(picture.as_ref().map(compaction::awaited).unwrap_or_default());
        }
        state.moment_ms = awaited.moment_ms;
        awaited
    }

    /// Waits until there were more than so many `calls`, or for `at_most` so long, or until the
    /// moment comes that is waited for: `now_ms` is the time by the database's clock, in Unix
    /// milliseconds.
    pub(super) fn wait_for_call(&self, calls: u64, now_ms: u64, at_most: Option<Duration>) {
        let mut state = self.state.lock();
        if state.calls == calls && !self.is_stopping() {
            let moment = state.moment_ms.map(|moment| Duration::from_millis(moment.saturating_sub(now_ms)));
            match moment.into_iter().chain(at_most).min() {
                Some(left) => drop(self.wake.wait_for(&mut state, left.clamp(MOMENT_MIN, MOMENT_MAX))),
                None => self.wake.wait(&mut state),
            }
        }
    }

    /// Rests after a failure, which is noted, before the next try.
    pub(super) fn rest(&self) {
        let mut state = self.state.lock();
        let longest = if state.held > 0 { RETRY_MAX_HELD } else { RETRY_MAX };
        let rest = RETRY_FIRST.saturating_mul(1 << state.failures.min(8)).min(longest);
        if !self.is_stopping() {
            self.retry.wait_for(&mut state, rest);
        }
    }
}
