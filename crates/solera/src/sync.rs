//! What threads meet at: `Mutex`, `RwLock`, `Condvar`, `ArcSwap` and `atomic`, by one choice of
//! where they come from.
//!
//! They are `parking_lot`'s, `arc-swap`'s and the standard library's. In a build with `--cfg
//! shuttle` they are `scheduled`'s: a scheduler decides at each of them which thread goes on. So
//! `tests/interleavings.rs` runs this engine through thousands of orders of its steps, and a seed
//! brings each back.
//! What must hold: a thread that comes to one of these while it holds a lock has taken that lock
//! from here too. Not from here are `OnceLock`, and locks and counts that get to nothing else
//! (`pin`, `pool`, `stats`, `vfs`, `memtable::{arena, known}`).
//! Callers: `memtable`, `tree`, `cache`, `values`, `trace`, `control`, `engine`, `db`;
//! `compaction::job`, `dir::owned`, `merge::visible::gaps`, `table::file`.

#[cfg(shuttle)]
mod scheduled;
#[cfg(shuttle)]
pub(crate) use scheduled::{ArcSwap, Condvar, Guard, Mutex, MutexGuard, RwLock, atomic};
#[cfg(shuttle)]
pub(crate) use shuttle::thread::{ThreadId, current};

#[cfg(not(shuttle))]
pub(crate) use {
    arc_swap::{ArcSwap, Guard},
    parking_lot::{Condvar, Mutex, MutexGuard, RwLock},
    std::{
        sync::atomic,
        thread::{ThreadId, current},
    },
};
