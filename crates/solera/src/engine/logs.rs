//! All of a log's life: begun, written, ended, made durable, and removed. It goes when all it holds
//! is in tables and no table points into it.
//!
//! `Present` is what the commit lock guards: the log that is written, and older ones that are
//! needed. `with_room` gives the log to append to, and begins the next where it is full. `Logs` has
//! ended ones that are not durable yet, and the next one, made ahead; `tend` makes the first
//! durable and the second ready. `retire` ends a log of 64 KiB or more once all of it is in tables.
//! Where logs are too many, memtables that keep them are sealed.
//!
//! What must hold: nothing in a log counts as durable before all logs before it are
//! (docs/decisions/0004). Commit lock first, then those here, then the store's.
//!
//! Callers: `core` appends, seals, syncs and retires, for `flushing` and `large` too. `jobs` tends,
//! and ends one at a freeze; `checkpoint` ends the live one; `handle` settles at its close;
//! `ingest` syncs; `open` begins; `reclaim` asks `unflushed_max`.

use super::{
    commit::{Commit, Writer},
    poison::Poison,
    store::Store,
    work::Work,
};
use crate::{
    canary::{Bug, planted},
    error::{Error, Result},
    ids::{FileId, Seqno},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    tree::Tree,
    wal,
};
use std::{collections::VecDeque, sync::Arc};

/// Logs that have ended and wait for workers, at most: each is an open file.
const ENDED_MAX: usize = 4;
/// With more logs than this kept, or more bytes of them than so many full ones have, the keyspaces
/// that pin the oldest are flushed, however small.
pub(super) const LOGS_MAX: usize = 8;
/// With more logs than this, an open flushes all memtables before it returns.
pub(super) const LOGS_AT_OPEN_MAX: usize = 2 * LOGS_MAX;
/// If memtables are no more than one part in so many of the logs that they keep, these hold
/// separated values mostly: then a flush costs little, and it shows what of the logs is live.
const POINTER_PARTS: u64 = 8;
/// Logs of separated values that recovery needs, the present one apart, take at most one part in so
/// many of the live values, or are one log. It is not known what of them is live.
const UNFLUSHED_PARTS: u64 = 32;
/// A log grows to as many write buffers before the next one is begun.
const LOG_WRITE_BUFFERS: u64 = 1;
/// A log smaller than this is read at an open in less time than it takes to begin another.
const LOG_RETIRE_BYTES_MIN: u64 = 64 << 10;

/// A log that takes no more writes, kept until all that it holds is in tables.
struct ClosedLog {
    file: FileId,
    last_seqno: Seqno,
    bytes: u64,
}

/// The logs that the commit lock guards: the one that is written, and older ones that are needed
/// still.
pub(crate) struct Present {
    /// `None` while read-only, and between the end of one log and the beginning of the next.
    log: Option<wal::Writer>,
    closed: Vec<ClosedLog>,
}

impl Present {
    /// `closed` are the logs that recovery read, oldest first, with the newest number in each and
    /// its bytes.
    pub(super) fn new(log: Option<wal::Writer>, closed: Vec<(FileId, Seqno, u64)>) -> Self {
        let closed =
            closed.into_iter().map(|(file, last_seqno, bytes)| ClosedLog { file, last_seqno, bytes });
        Present { log, closed: closed.collect() }
    }

    /// Bytes of the logs that are needed, but the one that is written.
    fn closed_bytes(&self) -> u64 {
        self.closed.iter().map(|log| log.bytes).sum()
    }

    /// Bytes of all logs that are needed.
    pub(super) fn bytes(&self) -> u64 {
        self.closed_bytes() + self.log.as_ref().map_or(0, wal::Writer::len)
    }

    /// What is no newer than this is to be flushed, so that logs can go; `None`: they may stay.
    fn too_old(&self, write_buffer_bytes: u64) -> Option<Seqno> {
        let most = write_buffer_bytes * LOG_WRITE_BUFFERS * LOGS_MAX as u64;
        if self.closed.iter().map(|log| log.bytes).sum::<u64>() > most {
            return self.closed.last().map(|log| log.last_seqno);
        }
        // Half of them are to go at once, so that those that pin them are flushed together.
        let is_many = self.closed.len() > LOGS_MAX;
        is_many.then(|| self.closed[self.closed.len() - LOGS_MAX / 2 - 1].last_seqno)
    }

    /// Takes out the present log. No writer writes to it any more.
    pub(super) fn take(&mut self) -> Option<wal::Writer> {
        self.log.take()
    }

    /// Every log that is needed, the one that is written included.
    pub(super) fn files(&self) -> Vec<FileId> {
        self.closed.iter().map(|log| log.file).chain(self.log.as_ref().map(wal::Writer::file)).collect()
    }
}

/// Logs that have ended and are not durable yet, oldest first.
#[derive(Default)]
struct Ended {
    /// With the newest sequence number in each.
    queue: Mutex<VecDeque<(wal::Writer, Seqno)>>,
    /// Held by the thread that makes them durable: one at a time, so that they become so in order.
    turn: Mutex<()>,
    /// Those in the queue, and the one that is being made durable.
    count: AtomicUsize,
    /// The newest number in those that were made durable.
    durable: AtomicU64,
}

impl Ended {
    /// Adds a log that has just ended. Under the commit lock.
    fn push(&self, log: wal::Writer, last_seqno: Seqno) {
        // Counted first: the thread that makes it durable counts it off.
        self.count.fetch_add(1, Ordering::Release);
        self.queue.lock().push_back((log, last_seqno));
    }

    /// Whether every log that has ended is durable. Under the commit lock, since others may end at
    /// any time.
    fn are_durable(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The newest number that is durable because its log was made so, by any thread.
    fn durable(&self) -> Seqno {
        self.durable.load(Ordering::Acquire)
    }

    /// Makes them durable, oldest first, until no more than `left` wait. False: no more waited, or
    /// another thread did it. A log that cannot be made durable stays the first, and all later
    /// calls fail too.
    fn settle(&self, left: usize) -> Result<bool> {
        let mut settled = false;
        let are_more = || self.count.load(Ordering::Acquire) > left;
        while are_more() {
            // Taken for each anew: a thread that waits for one of them does not wait for all.
            let _turn = self.turn.lock();
            if !are_more() {
                break;
            }
            let Some((mut log, last_seqno)) = self.queue.lock().pop_front() else { break };
            if let Err(error) = log.settle() {
                self.queue.lock().push_front((log, last_seqno));
                return Err(error);
            }
            // Given back before any thread can count on it, since that takes a while too.
            drop(log);
            self.durable.store(last_seqno, Ordering::Release);
            self.count.fetch_sub(1, Ordering::Release);
            settled = true;
        }
        Ok(settled)
    }
}

/// The log that will follow the present one: empty, its name durable, and named by the manifest.
#[derive(Default)]
struct Spare {
    log: Mutex<Option<wal::Writer>>,
    /// A log came to its end by being full, so that others will too, and there is no spare one.
    is_wanted: AtomicBool,
    /// Bytes that it will get before a sync, if it is like the one that was full; else 0.
    expected: AtomicU64,
}

impl Spare {
    /// Has one made, by a thread that has the time. `expected`: so many bytes come into it before a
    /// sync.
    fn want(&self, expected: u64) {
        self.expected.store(expected, Ordering::Relaxed);
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// The spare log, also one that is being made; if there is none, what `begin` makes. Until then
    /// no other is begun: a later log has a larger number.
    fn take_or(&self, begin: impl FnOnce() -> Result<wal::Writer>) -> Result<wal::Writer> {
        let mut place = self.log.lock();
        place.take().map_or_else(begin, Ok)
    }

    /// The place for one, if one is wanted. While the place is held no thread begins a log, so that
    /// the spare one has a smaller number than all that come after it.
    fn wanted(&self) -> Option<MutexGuard<'_, Option<wal::Writer>>> {
        // A thread that comes while it is being made does other work meanwhile.
        if !self.is_wanted.swap(false, Ordering::Relaxed) {
            return None;
        }
        Some(self.log.lock()).filter(|place| place.is_none())
    }
}

/// The logs beside those that the commit lock guards.
#[derive(Default)]
pub(crate) struct Logs {
    /// Logs that are not written any more and not durable yet.
    ended: Ended,
    /// The log after the present one.
    spare: Spare,
}

/// What a change of logs needs to know of the rest.
#[derive(Clone, Copy)]
pub(super) struct Around<'c> {
    pub(super) store: &'c Store,
    pub(super) work: &'c Work,
    pub(super) write_buffer_bytes: u64,
}

impl Logs {
    /// The log to append to, begun anew if the present one is full or was ended without a
    /// successor. `last` is the newest number in it.
    #[inline]
    pub(super) fn with_room<'p>(
        &self,
        around: Around<'_>,
        present: &'p mut Present,
        last: Seqno,
    ) -> Result<&'p mut wal::Writer> {
        let full = around.write_buffer_bytes * LOG_WRITE_BUFFERS;
        if present.log.as_ref().is_none_or(|log| log.len() >= full) {
            self.change_full(around, present, last)?;
        }
        present.log.as_mut().ok_or(Error::ReadOnly)
    }

    /// As [`Logs::change`], and the workers tend to the old log and to the one after the new one.
    fn change_full(&self, around: Around<'_>, present: &mut Present, last: Seqno) -> Result<()> {
        let is_unsynced = present.log.as_ref().is_some_and(wal::Writer::is_unsynced);
        let changed = self.change(around, present, last);
        self.spare.want(if is_unsynced { around.write_buffer_bytes * LOG_WRITE_BUFFERS } else { 0 });
        around.work.wake();
        changed
    }

    /// Seals the memtables of `trees`. With a memtable a new log begins, so that the old log can go
    /// once the memtable is in tables. Under the commit lock; `last` is the newest number in the
    /// log.
    pub(super) fn seal(&self, around: Around<'_>, present: &mut Present, last: Seqno, trees: &[Arc<Tree>]) {
        for tree in trees {
            if tree.seal() {
                around.work.wake();
            }
            self.change_if_half_full(around, present, last);
        }
    }

    /// A memtable was sealed: a log that is half full is changed now. A failure is noted; the next
    /// commit tries again and reports it.
    fn change_if_half_full(&self, around: Around<'_>, present: &mut Present, last: Seqno) {
        let enough = around.write_buffer_bytes * LOG_WRITE_BUFFERS / 2;
        if present.log.as_ref().is_some_and(|log| log.len() >= enough)
            && let Err(error) = self.change_full(around, present, last)
        {
            around.work.note_failure(&error);
        }
    }

    /// Ends the present log and goes on with the next. The manifest names the new log before it is
    /// used, and it vouches for nothing until the old one is durable: so recovery finds a prefix of
    /// the commit order.
    pub(super) fn change(&self, around: Around<'_>, present: &mut Present, last: Seqno) -> Result<()> {
        if let Some(mut log) = present.log.take() {
            if let Err(error) = log.end() {
                poison_with(&around.store.poison, &log);
                present.log = Some(log);
                return Err(error);
            }
            present.closed.push(ClosedLog { file: log.file(), last_seqno: last, bytes: log.len() });
            self.ended.push(log, last);
        }
        // Where workers are behind, the thread that adds a log makes the oldest durable.
        self.settle_ended(&around.store.poison, ENDED_MAX)?;
        let mut next = self.spare.take_or(|| around.store.begin_log())?;
        assert!(
            present.closed.last().is_none_or(|log| log.file < next.file()),
            "recovery goes by their numbers"
        );
        if !self.ended.are_durable() {
            next.withhold();
        }
        present.log = Some(next);
        let trees = around.store.catalog.trees();
        let old = match are_values(present, &trees) {
            true => present.closed.last().map(|log| log.last_seqno),
            false => present.too_old(around.write_buffer_bytes),
        };
        if let Some(old) = old {
            let pins = |tree: &&Arc<Tree>| tree.view().active.first_seqno().is_some_and(|first| first <= old);
            for tree in trees.iter().filter(pins) {
                if tree.seal() {
                    around.work.wake();
                }
            }
        }
        Ok(())
    }

    /// Gives up all logs: no writer writes any more.
    pub(super) fn let_go(&self) {
        self.ended.queue.lock().clear();
        drop(self.spare.log.lock().take());
    }

    /// Makes logs that have ended durable, and the next one ready. False: there was nothing to do.
    pub(super) fn tend(&self, store: &Store, commit: &Commit<Present>) -> Result<bool> {
        // The next one first: a writer that comes to the end of the present log waits for it.
        let prepared = self.prepare(store);
        Ok(self.settle(&store.poison, commit)? || prepared)
    }

    /// Makes the next log ready, if one is wanted. False: none is.
    fn prepare(&self, store: &Store) -> bool {
        let Some(mut place) = self.spare.wanted() else { return false };
        // Where it cannot be had now, the writer that needs one tries again, and is told why.
        *place = store.begin_log().ok().map(|mut log| {
            log.expect(self.spare.expected.load(Ordering::Relaxed));
            log
        });
        true
    }

    /// Makes logs that have ended durable, and notes that they are. False: they were. Not under the
    /// commit lock, so that writers go on meanwhile.
    pub(super) fn settle(&self, poison: &Poison, commit: &Commit<Present>) -> Result<bool> {
        let settled = self.settle_ended(poison, 0)?;
        // Other threads may have made some durable, and not have come to note it yet.
        let newest = self.ended.durable();
        if !settled && commit.is_durable(newest) {
            return Ok(false);
        }
        let mut writer = commit.lock();
        writer.are_durable(newest);
        if self.ended.are_durable()
            && let Some(log) = &mut writer.log.log
        {
            log.vouch();
        }
        Ok(settled)
    }

    /// Makes everything durable that was acknowledged.
    pub(super) fn sync_all(&self, poison: &Poison, commit: &Commit<Present>) -> Result<()> {
        commit.lock().sync(|present| self.sync(poison, present))
    }

    /// Makes everything up to `seqno` durable.
    pub(super) fn sync_to(&self, poison: &Poison, commit: &Commit<Present>, seqno: Seqno) -> Result<()> {
        // Mostly it is in a log that has ended, and writers need not wait.
        self.settle(poison, commit)?;
        commit.lock().sync_to(seqno, |present| self.sync(poison, present))
    }

    /// Makes everything in `present` durable, and in all before it. Under the commit lock.
    pub(super) fn sync(&self, poison: &Poison, present: &mut Present) -> Result<()> {
        poison.check()?;
        if !planted(Bug::SkipEndedLogSync) {
            self.settle_ended(poison, 0)?;
        }
        let Some(log) = &mut present.log else { return Ok(()) };
        log.sync().inspect_err(|error| poison.set(error))?;
        // After the sync: that this cannot be said must not fail a commit whose frames are written.
        log.vouch();
        Ok(())
    }

    fn settle_ended(&self, poison: &Poison, left: usize) -> Result<bool> {
        self.ended.settle(left).inspect_err(|error| poison.set(error))
    }

    /// Before value files are linked: goes on in a new log if tables point to the present one, so
    /// that what is linked is not written any more, and makes those that have ended durable. Under
    /// the commit lock.
    pub(super) fn end_live(&self, around: Around<'_>, writer: &mut Writer<Present>) -> Result<()> {
        let Writer { log, last_seqno, .. } = writer;
        if log.log.as_ref().is_some_and(|log| around.store.is_live(log.file())) {
            self.change(around, log, *last_seqno)?;
        }
        self.settle_ended(&around.store.poison, 0).map(drop)
    }

    /// The trees whose memtables keep logs, where ended logs take more than a write buffer. And
    /// whether the memtables are little beside the logs: these hold values mostly, or what is gone.
    pub(super) fn pinning(
        &self,
        around: Around<'_>,
        commit: &Commit<Present>,
    ) -> Option<(Vec<Arc<Tree>>, bool)> {
        let writer = commit.lock();
        let bytes = writer.log.closed_bytes();
        let last = writer.log.closed.last()?.last_seqno;
        drop(writer);
        if bytes <= around.write_buffer_bytes {
            return None;
        }
        let mut trees = around.store.catalog.trees();
        trees.retain(|tree| tree.view().active.first_seqno().is_some_and(|first| first <= last));
        let memtables: u64 = trees.iter().map(|tree| tree.view().memtable_bytes()).sum();
        (!trees.is_empty()).then_some((trees, memtables <= bytes / POINTER_PARTS))
    }

    /// Begins a new log if everything in the present one is in tables and it is worth it: what
    /// a flush has made useless is not read again at the next open.
    pub(super) fn retire(&self, around: Around<'_>, commit: &Commit<Present>) -> Result<()> {
        let mut writer = commit.lock();
        let worth = writer.log.log.as_ref().is_some_and(|log| log.len() >= LOG_RETIRE_BYTES_MIN);
        let trees = around.store.catalog.trees();
        if worth && trees.iter().all(|tree| tree.view().oldest_unflushed().is_none()) {
            let Writer { log, last_seqno, .. } = &mut *writer;
            self.change(around, log, *last_seqno)?;
            drop(writer);
            self.settle(&around.store.poison, commit)?;
            remove_flushed(around.store, commit);
        }
        Ok(())
    }
}

/// Whether logs that are kept for recovery hold separated values mostly, and more of them than may
/// wait. Where tables point to none, nothing has to be given back.
fn are_values(present: &Present, trees: &[Arc<Tree>]) -> bool {
    let bytes = present.closed_bytes();
    let live: u64 = trees.iter().map(|tree| tree.view().version.values().bytes()).sum();
    let memtables: u64 = trees.iter().map(|tree| tree.view().memtable_bytes()).sum();
    live > 0 && bytes > live / UNFLUSHED_PARTS && memtables <= bytes / POINTER_PARTS
}

/// Most bytes of logs of separated values that recovery needs, the one that is written and the one
/// that is being flushed among them, while `live` bytes are live.
pub(super) fn unflushed_max(live: u64, write_buffer_bytes: u64) -> u64 {
    live / UNFLUSHED_PARTS + 2 * LOG_WRITE_BUFFERS * write_buffer_bytes
}

/// Forgets and removes logs whose every operation is in a table.
pub(super) fn remove_flushed(store: &Store, commit: &Commit<Present>) {
    let writer = commit.lock();
    let needed = store.catalog.trees().iter().filter_map(|tree| tree.view().oldest_unflushed()).min();
    let unneeded = |log: &&ClosedLog| needed.is_none_or(|needed| log.last_seqno < needed);
    let gone = writer.log.closed.iter().take_while(unneeded).count();
    let oldest = writer.log.files().get(gone).copied();
    drop(writer);
    let (Some(oldest), true) = (oldest, gone > 0) else { return };
    // They are forgotten only once the manifest has forgotten them: else no later call would try
    // again.
    if store.let_logs_go(oldest).is_err() {
        return;
    }
    let mut writer = commit.lock();
    let closed = &mut writer.log.closed;
    let kept = closed.partition_point(|log| log.file < oldest);
    closed.drain(..kept);
}

/// If `log` can no longer be trusted or appended to, neither can the database.
pub(super) fn poison_with(poison: &Poison, log: &wal::Writer) {
    if let Some(why) = log.poisoned() {
        poison.set(why);
    }
}

#[cfg(test)]
mod tests;
