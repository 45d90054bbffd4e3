//! Poison: the state in which nothing more may be written: `Poison`.
//!
//! The first failure after which a write could be acknowledged and lost sets it. What must hold: it
//! is never taken back, and the first reason stays. Whatever writes asks `check` first.
//!
//! Callers: `core`, `store`, `logs` and `jobs` set it; `core::writable` asks.

use crate::{
    error::{Error, Result},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use std::fmt;

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
        if self.set.load(Ordering::Acquire) {
            return Err(Error::Poisoned(self.why.lock().clone().unwrap_or_default()));
        }
        Ok(())
    }
}
