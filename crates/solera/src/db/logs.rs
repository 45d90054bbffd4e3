//! The logs beside the one that is written: those that have ended and are not durable yet, and the next one.
//!
//! Owns [`Ended`] and [`Spare`]. A writer that comes to the end of a log only changes over to one that is there already; what the
//! device takes its time for, making the old log durable and a new one's name, is done by whoever has the time
//! ([`Core::tend_logs`]), or by whoever needs it.
//!
//! What must hold: nothing is made durable in a log before all logs before it are (docs/decisions/0004). Order of locks: the commit
//! lock, then those here, then the store's; nobody waits for the commit lock while he has one of these.

use super::Core;
use crate::{
    canary::{Bug, planted},
    error::Result,
    ids::Seqno,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    wal,
};
use std::collections::VecDeque;

/// Logs that have ended and wait for workers, at most: each is an open file.
const ENDED_MAX: usize = 4;

/// Logs that have ended and are not durable yet, oldest first.
#[derive(Default)]
pub(super) struct Ended {
    /// With the newest sequence number in each.
    queue: Mutex<VecDeque<(wal::Writer, Seqno)>>,
    /// Whoever makes them durable: one at a time, so that they become so in order.
    turn: Mutex<()>,
    /// Those in the queue, and the one that is being made durable.
    count: AtomicUsize,
}

impl Ended {
    /// Adds a log that has just ended. Under the commit lock.
    pub(super) fn push(&self, log: wal::Writer, last_seqno: Seqno) {
        // Counted first: whoever makes it durable counts it off.
        self.count.fetch_add(1, Ordering::Release);
        self.queue.lock().push_back((log, last_seqno));
    }

    /// Whether every log that has ended is durable. Under the commit lock, since others may end at any time.
    pub(super) fn are_durable(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Whether so many wait that whoever adds another had better make them durable himself.
    pub(super) fn are_many(&self) -> bool {
        self.count.load(Ordering::Acquire) > ENDED_MAX
    }

    /// Makes all of them durable, waiting for whoever does it already. Returns the newest number in those that it did. A log
    /// that cannot be made durable stays the first, and all later calls fail too.
    fn settle(&self) -> Result<Option<Seqno>> {
        let mut newest = None;
        if self.are_durable() {
            return Ok(newest);
        }
        let _turn = self.turn.lock();
        loop {
            let Some((mut log, last_seqno)) = self.queue.lock().pop_front() else { return Ok(newest) };
            if let Err(error) = log.settle() {
                self.queue.lock().push_front((log, last_seqno));
                return Err(error);
            }
            newest = Some(last_seqno);
            // Given back before anybody can count on it, since that takes a while too.
            drop(log);
            self.count.fetch_sub(1, Ordering::Release);
        }
    }
}

/// The log that will follow the present one: empty, its name durable, and named by the manifest.
#[derive(Default)]
pub(super) struct Spare {
    log: Mutex<Option<wal::Writer>>,
    /// A log came to its end by being full, so that others will too, and there is no spare one.
    is_wanted: AtomicBool,
}

impl Spare {
    /// Has one made, by who has the time.
    pub(super) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// The spare log, also one that is being made; if there is none, what `begin` makes. Until then no other is begun: a later
    /// log has a larger number.
    pub(super) fn take_or(&self, begin: impl FnOnce() -> Result<wal::Writer>) -> Result<wal::Writer> {
        let mut place = self.log.lock();
        place.take().map_or_else(begin, Ok)
    }

    /// The place for one, if one is wanted. While the place is held nobody begins a log, so that the spare one
    /// has a smaller number than all that come after it.
    fn wanted(&self) -> Option<MutexGuard<'_, Option<wal::Writer>>> {
        if !self.is_wanted.load(Ordering::Relaxed) {
            return None;
        }
        let place = self.log.lock();
        self.is_wanted.store(false, Ordering::Relaxed);
        Some(place).filter(|place| place.is_none())
    }
}

impl Core {
    /// Makes logs that have ended durable, and the next one ready. False: there was nothing to do.
    pub(super) fn tend_logs(&self) -> Result<bool> {
        let settled = self.settle_ended_logs()?;
        let Some(mut place) = self.commit.spare.wanted() else { return Ok(settled) };
        // Where it cannot be had now, the writer who needs one tries again, and is told why.
        *place = self.begin_log().ok();
        Ok(true)
    }

    /// Makes logs that have ended durable, and notes that they are. False: they were. Not under the commit lock, so that writers
    /// go on meanwhile.
    pub(super) fn settle_ended_logs(&self) -> Result<bool> {
        let Some(newest) = self.settle_ended()? else { return Ok(false) };
        let mut writer = self.commit.lock();
        writer.are_durable(newest);
        if self.commit.ended.are_durable()
            && let Some(log) = &mut writer.log
        {
            log.vouch();
        }
        Ok(true)
    }

    /// Makes everything in `present`, if there is a present log, durable, and in all before it. Under the commit lock.
    pub(super) fn sync_logs(&self, present: Option<&mut wal::Writer>) -> Result<()> {
        if !planted(Bug::SkipEndedLogSync) {
            self.settle_ended()?;
        }
        let Some(log) = present else { return Ok(()) };
        log.sync().inspect_err(|error| self.poison.set(error))?;
        // After the sync: that this cannot be said must not fail a commit whose frames are written.
        log.vouch();
        Ok(())
    }

    pub(super) fn settle_ended(&self) -> Result<Option<Seqno>> {
        self.commit.ended.settle().inspect_err(|error| self.poison.set(error))
    }
}
