//! What threads meet at: locks, atomics, and values that are replaced while they are read.
//!
//! Owns the choice of where these come from. They are `parking_lot`'s, `arc-swap`'s and the
//! standard library's. In a build with `--cfg shuttle` a scheduler decides at each of them which
//! thread goes on. So `tests/interleavings.rs` runs this very engine through thousands of orders of
//! its steps, and a seed brings each of them back.
//!
//! What must hold: a thread that comes to one of these while it holds a lock has taken that lock
//! from here too. Otherwise the scheduler could stop a thread that another one waits for outside of
//! its sight. Not from here are the locks and counts of leaves that get to nothing (`pin`, `pool`,
//! `stats`, `vfs`).

#[cfg(shuttle)]
mod scheduled;
#[cfg(shuttle)]
pub(crate) use scheduled::{ArcSwap, Condvar, Guard, Mutex, MutexGuard, RwLock, atomic};

#[cfg(not(shuttle))]
pub(crate) use {
    arc_swap::{ArcSwap, Guard},
    parking_lot::{Condvar, Mutex, MutexGuard, RwLock},
    std::sync::atomic,
};
