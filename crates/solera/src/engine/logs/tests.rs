//! Tests of the life of logs, with logs and a manifest in memory and no writer that commits.
//!
//! What another thread has made durable is not synced again under the commit lock. A change of
//! logs waits for the oldest log alone. The next log is made before ended ones are synced.

use super::*;
use crate::{
    engine::unopened::{Unopened, WRITE_BUFFER_BYTES},
    vfs::fault::{Call, Effect, Fault},
};

/// The logs of an engine that was not opened, the first begun.
struct Life {
    engine: Unopened,
    logs: Logs,
    commit: Commit<Present>,
}

impl Life {
    fn new() -> Life {
        let engine = Unopened::new(&[]);
        let first = engine.store.begin_log().unwrap();
        let commit = Commit::new(Present::new(Some(first), Vec::new()), 0);
        Life { engine, logs: Logs::default(), commit }
    }

    fn around(&self) -> Around<'_> {
        let Unopened { store, work, .. } = &self.engine;
        Around { store, work, write_buffer_bytes: WRITE_BUFFER_BYTES }
    }

    /// Appends a write, without a sync.
    fn append(&self) -> Seqno {
        let mut writer = self.commit.lock();
        writer.last_seqno += 1;
        writer.log.log.as_mut().unwrap().append([[&b"a write"[..]]]).unwrap();
        writer.last_seqno
    }

    /// Ends the present log and goes on in the next.
    fn change(&self) {
        let mut writer = self.commit.lock();
        let Writer { log, last_seqno, .. } = &mut *writer;
        self.logs.change_full(self.around(), log, *last_seqno).unwrap();
    }

    /// From now on no file can be synced, or none is created.
    fn break_all(&self, call: Call) {
        let fault = Fault { times: u64::MAX, ..Fault::once(call, 0, Effect::Short) };
        self.engine.fs.inject(fault);
    }
}

/// Symptom: writers waited 64 ms while a flush synced the log that they wrote. Cause: another
/// thread had made the ended log durable, and had not come to note it; so the flush synced all that
/// was written. Cure: the thread that finds a log durable notes it itself.
#[test]
fn what_another_thread_made_durable_is_not_synced_again_under_the_commit_lock() {
    let life = Life::new();
    let ended = life.append();
    life.change();
    let later = life.append();
    // Another thread, before it comes to the commit lock.
    let poison = &life.engine.store.poison;
    assert!(life.logs.settle_ended(poison, 0).unwrap());
    life.break_all(Call::Sync);
    life.logs.sync_to(poison, &life.commit, ended).unwrap();
    assert!(life.commit.is_durable(ended) && !life.commit.is_durable(later));
    life.logs.sync_to(poison, &life.commit, later).unwrap_err();
}

/// Symptom: a put waited for five syncs. Cause: with many ended logs, the writer that ended another
/// made all of them durable. Cure: it makes the oldest durable, until no more wait than may.
#[test]
fn who_ends_a_log_while_many_wait_makes_the_oldest_durable_and_no_other() {
    let life = Life::new();
    let mut last = Vec::new();
    for nth in 1..=3 * ENDED_MAX {
        last.push(life.append());
        life.change();
        assert_eq!(life.logs.ended.count.load(Ordering::Acquire), nth.min(ENDED_MAX));
        let durable = nth.checked_sub(ENDED_MAX + 1).map_or(0, |newest| last[newest]);
        assert_eq!(life.logs.ended.durable(), durable);
    }
    let poison = &life.engine.store.poison;
    assert!(life.logs.settle(poison, &life.commit).unwrap());
    assert!(life.commit.is_durable(last[3 * ENDED_MAX - 1]));
}

/// Symptom: a put waited 83 ms for the next log. Cause: the worker synced ended logs before it made
/// the next one. Cure: the next one comes first.
#[test]
fn the_next_log_is_made_before_those_that_have_ended_are_synced() {
    let life = Life::new();
    life.append();
    life.change();
    // The log that has ended cannot be made durable; the header of the next one can.
    life.engine.fs.inject(Fault { skip: 2, times: u64::MAX, ..Fault::once(Call::Sync, 0, Effect::Short) });
    life.logs.tend(&life.engine.store, &life.commit).unwrap_err();
    assert!(life.logs.spare.log.lock().is_some());
}
