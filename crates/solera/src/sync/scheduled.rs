//! The types of `crate::sync` over Shuttle's, with the names and manners of the real ones.
//!
//! It has `Mutex`, `RwLock`, `Condvar` and `ArcSwap`, compiled with `--cfg shuttle` only. Each
//! operation is a point where the scheduler may let another thread go on. Time does not pass:
//! `wait_for` waits until it is woken, so that a thread which no other wakes is found.
//!
//! What must hold: what compiles over the real types compiles over these and means the same. A load
//! and a store of an `ArcSwap` are one step each.
//!
//! Caller: `crate::sync`, in the builds of `.ci/interleavings`.

use shuttle::sync;
use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{Arc, PoisonError},
    time::Duration,
};

pub(crate) use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard, atomic};

/// `parking_lot::Mutex`.
#[derive(Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

/// `parking_lot::MutexGuard`. `None` only while a condition is waited for.
pub(crate) struct MutexGuard<'m, T>(Option<sync::MutexGuard<'m, T>>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutex")
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("a guard is not used while its thread waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a guard is not used while its thread waits")
    }
}

/// `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        RwLock(sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `parking_lot::Condvar`.
#[derive(Default, Debug)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar(sync::Condvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let taken = guard.0.take().expect("it is held");
        guard.0 = Some(self.0.wait(taken).unwrap_or_else(PoisonError::into_inner));
    }

    /// Time does not pass here: a thread that waits for a time waits until it is woken, and is
    /// found if no other thread wakes it.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _limit: Duration) {
        self.wait(guard);
    }
}

/// `arc_swap::ArcSwap`: a load and a store are one step each.
pub(crate) struct ArcSwap<T>(sync::Mutex<Arc<T>>);

/// `arc_swap::Guard`.
pub(crate) type Guard<T> = T;

impl<T> ArcSwap<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        ArcSwap(sync::Mutex::new(value))
    }

    pub(crate) fn from_pointee(value: T) -> Self {
        ArcSwap::new(Arc::new(value))
    }

    pub(crate) fn load(&self) -> Guard<Arc<T>> {
        self.load_full()
    }

    pub(crate) fn load_full(&self) -> Arc<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn store(&self, value: Arc<T>) {
        // What was there is dropped after the lock is released.
        let _before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), value);
    }
}

impl<T: Default> Default for ArcSwap<T> {
    fn default() -> Self {
        ArcSwap::from_pointee(T::default())
    }
}
