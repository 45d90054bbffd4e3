//! What threads meet at: locks, atomics, and values that are replaced while they are read.
//!
//! Owns the choice of where these come from. They are `parking_lot`'s, `arc-swap`'s and the standard library's; in a
//! build with `--cfg shuttle` they are such that a scheduler decides at each of them which thread goes on, so that
//! `tests/interleavings.rs` runs this very engine through thousands of orders of its steps, each of which a seed
//! brings back.
//!
//! What must hold: whoever holds a lock and gets to one of these meanwhile takes that lock from here too; else the scheduler
//! could stop a thread that makes another one wait outside of its sight. Not from here are the locks and counts of leaves that
//! get to nothing (`pin`, `pool`, `stats`, `vfs`).

#[cfg(shuttle)]
mod scheduled;
#[cfg(shuttle)]
pub(crate) use scheduled::{ArcSwap, Condvar, Guard, Mutex, MutexGuard, RwLock, RwLockWriteGuard, atomic};

#[cfg(not(shuttle))]
pub(crate) use {
    arc_swap::{ArcSwap, Guard},
    parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard},
    std::sync::atomic,
};
