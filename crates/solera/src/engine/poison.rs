//! Poison: the state in which nothing more may be written: `Poison`.
//!
//! The first failure after which a write could be acknowledged and lost sets it. A failed sync is
//! one. So is a panic in a flush, a compaction, a large batch's tables or an ingest's installing
//! (`guarded`). A user's merge operator may be called there; the work may have stopped anywhere.
//!
//! What must hold: it is never taken back, and the first reason stays. Commits, syncs of the log,
//! manifest records and background jobs ask `check` first; reads never do.
//!
//! Callers: `core`, `store`, `logs` and `values` set it; `core`, `store`, `logs` and `jobs` ask it.
//! `job_parts` and `ingest` guard their work by it.

use crate::{
    error::{Error, Result},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Set once, by the first failure after which a write could be acknowledged and lost.
#[derive(Default)]
pub(crate) struct Poison {
    set: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Poison {
    /// Refuses all writes from now on. The first reason stays.
    pub(crate) fn set(&self, why: impl fmt::Display) {
        self.why.lock().get_or_insert_with(|| why.to_string());
        self.set.store(true, Ordering::Release);
    }

    /// Refuses with [`Error::Poisoned`] once it was set.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.set.load(Ordering::Acquire) { Err(self.refusal()) } else { Ok(()) }
    }

    /// Out of line: each put asks [`Poison::check`].
    #[cold]
    fn refusal(&self) -> Error {
        Error::Poisoned(self.why.lock().clone().unwrap_or_default())
    }

    /// Does `work`. A panic in it poisons with `what` panicked, and is its failure.
    pub(super) fn guarded<R>(&self, what: impl fmt::Display, work: impl FnOnce() -> Result<R>) -> Result<R> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(done) => done,
            Err(panic) => {
                let message = panic.downcast_ref::<&str>().copied();
                let message = message.or(panic.downcast_ref::<String>().map(String::as_str));
                self.set(format_args!("{what} panicked: {}", message.unwrap_or("no message")));
                self.check().and(Err(Error::Closed))
            }
        }
    }
}
