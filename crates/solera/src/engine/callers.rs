//! The threads of users that do the database's work: `Callers` counts those inside. They flush,
//! compact, take steps, ingest, make checkpoints, create or drop keyspaces, give one its merge
//! operator, or write large batches. A thread that publishes observations is inside for as long as
//! it does.
//!
//! What must hold: `shut` lets no thread in any more and waits until all have left. So a database
//! that was closed does no such work in its directory, which others may have by then. A thread that
//! is inside would wait for itself, so `is_inside` tells. One that only waits there does so by
//! `rest`, which ends with `shut`. Plain commits and changes of knobs are not counted: they fail
//! once log and manifest are given up.
//!
//! Callers: `core::enter` lets a thread in, for `db`, `handle`, `jobs`, `ingest` and `checkpoint`;
//! `control::publish` comes in by itself; `handle`'s close shuts it.

use crate::{
    error::{Error, Result},
    sync::{Condvar, Mutex, ThreadId, current},
};
use std::time::Duration;

/// Which threads are inside, and whether another may come in.
#[derive(Default)]
pub(crate) struct Callers {
    state: Mutex<State>,
    left: Condvar,
    /// Calls those that rest.
    call: Condvar,
}

#[derive(Default)]
struct State {
    inside: Vec<ThreadId>,
    is_shut: bool,
}

/// A thread that is inside, until this is dropped.
pub(crate) struct Caller<'c>(&'c Callers, ThreadId);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        let at = state.inside.iter().position(|thread| *thread == self.1);
        state.inside.swap_remove(at.expect("who leaves is inside"));
        drop(state);
        self.0.left.notify_all();
    }
}

impl Callers {
    /// Lets this thread in; refuses with [`Error::Closed`] once it is shut. A thread that is inside
    /// may come in again.
    pub(crate) fn enter(&self) -> Result<Caller<'_>> {
        let mut state = self.state.lock();
        if state.is_shut {
            return Err(Error::Closed);
        }
        let thread = current().id();
        state.inside.push(thread);
        Ok(Caller(self, thread))
    }

    /// Whether this thread is inside.
    pub(super) fn is_inside(&self) -> bool {
        self.state.lock().inside.contains(&current().id())
    }

    /// Waits for at most `time` until it is shut, or `ends`, of which [`Callers::call`] tells. Says
    /// whether one of them is so.
    pub(crate) fn rest(&self, time: Duration, ends: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        if !state.is_shut && !ends() {
            self.call.wait_for(&mut state, time);
        }
        state.is_shut || ends()
    }

    /// Has those that rest look again.
    pub(crate) fn call(&self) {
        // Under the lock: a thread that is about to wait is not missed.
        let _state = self.state.lock();
        self.call.notify_all();
    }

    /// Lets no thread in any more, calls those that rest, and waits until all have left.
    pub(super) fn shut(&self) {
        let mut state = self.state.lock();
        state.is_shut = true;
        self.call.notify_all();
        while !state.inside.is_empty() {
            self.left.wait(&mut state);
        }
    }
}
