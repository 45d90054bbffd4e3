//! The threads of users that do the database's work (flushes, merges, loads, changes of keyspaces):
//! `Callers` counts who is inside.
//!
//! What must hold: nobody is inside once it is `shut`, and nobody comes in later. A database that
//! was closed writes nothing to its directory, which others may have by then.
//!
//! Callers: `core::enter` lets a thread in; `handle`'s close shuts it.

use crate::{
    error::{Error, Result},
    sync::{Condvar, Mutex},
};

/// Who is inside, and whether anybody may come in.
#[derive(Default)]
pub(crate) struct Callers {
    state: Mutex<State>,
    left: Condvar,
}

#[derive(Default)]
struct State {
    inside: usize,
    is_shut: bool,
}

/// One who is inside, until it is dropped.
pub(crate) struct Caller<'c>(&'c Callers);

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        self.0.state.lock().inside -= 1;
        self.0.left.notify_all();
    }
}

impl Callers {
    /// Comes in; refuses with [`Error::Closed`] once it is shut. Who is inside may come in again.
    pub(super) fn enter(&self) -> Result<Caller<'_>> {
        let mut state = self.state.lock();
        if state.is_shut {
            return Err(Error::Closed);
        }
        state.inside += 1;
        Ok(Caller(self))
    }

    /// Lets nobody in any more, and waits until all have left.
    pub(super) fn shut(&self) {
        let mut state = self.state.lock();
        state.is_shut = true;
        while state.inside > 0 {
            self.left.wait(&mut state);
        }
    }
}
