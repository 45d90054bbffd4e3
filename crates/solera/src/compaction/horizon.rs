//! What readers may still see, at one moment: `Horizon`.
//!
//! It has the live snapshots, the newest visible number, the oldest snapshot of an open
//! transaction, and the time. That time is not past the start of an open transaction
//! (`is_held_back` says if by the clock it is). `is_read(from, to)` says whether a reader reads, or
//! may yet read, as of a number in that range. `last_read` gives the newest snapshot in it, or
//! `visible` if that is newer and not above `to`.
//!
//! What must hold: it was taken no later than the decision that uses it. A snapshot taken
//! afterwards sees all that was visible then, so the decision cannot harm it.
//!
//! Callers: `engine::snapshots` makes them, and `engine` hands them on. `engine::job_parts` makes
//! the context of a job from one. `Ledger::picture` takes one; `space` asks it which deletes and
//! old versions no reader sees.

use crate::ids::{SEQNO_MAX, Seqno};

/// The live snapshots, what is visible, and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horizon {
    /// All live snapshots, ascending.
    pub snapshots: Vec<Seqno>,
    /// What a snapshot taken now would see.
    pub visible: Seqno,
    /// The oldest snapshot of an open transaction; what is visible now if there is none.
    pub oldest_transaction: Seqno,
    /// Now, in Unix milliseconds, as every later reader and every open transaction will agree.
    pub now_ms: u64,
    /// By the clock it is later: a transaction that began then is open still.
    pub is_held_back: bool,
}

impl Default for Horizon {
    /// No reader reads as of the past, everything is visible, and time has not begun.
    fn default() -> Self {
        Horizon {
            snapshots: Vec::new(),
            visible: SEQNO_MAX,
            oldest_transaction: SEQNO_MAX,
            now_ms: 0,
            is_held_back: false,
        }
    }
}

impl Horizon {
    /// Whether a reader reads, or may yet read, as of a moment in `from..=to`.
    pub fn is_read(&self, from: Seqno, to: Seqno) -> bool {
        let at = self.snapshots.partition_point(|&snapshot| snapshot < from);
        self.visible <= to || self.snapshots.get(at).is_some_and(|&snapshot| snapshot <= to)
    }

    /// The newest moment that a reader may read as of in `from..=to`.
    pub(super) fn last_read(&self, from: Seqno, to: Seqno) -> Option<Seqno> {
        let at = self.snapshots.partition_point(|&snapshot| snapshot <= to);
        let newest = at.checked_sub(1).map(|at| self.snapshots[at]).filter(|&snapshot| snapshot >= from);
        newest.max((self.visible <= to).then_some(self.visible))
    }
}
