//! What is made when it is first needed, behind one word: `MadeOnce`.
//!
//! Counters of levels, layouts and times are many, and of ten thousand keyspaces most never count
//! any of them. A word stands for those that are not there. `get_or_make` makes what is missing,
//! `get` only looks.
//!
//! What must hold: it is made once, and stays where it is as long as the word is. To come to it
//! costs one load.
//!
//! Caller: `stats::mod`, for shards, their parts and times.

use std::{
    fmt,
    marker::PhantomData,
    ptr::{self, NonNull},
    sync::atomic::{
        AtomicPtr,
        Ordering::{AcqRel, Acquire},
    },
};

/// Nothing, or a `T` on the heap that any thread made.
pub(super) struct MadeOnce<T> {
    made: AtomicPtr<T>,
    owns: PhantomData<Box<T>>,
}

impl<T> MadeOnce<T> {
    /// What was made.
    #[inline]
    pub(super) fn get(&self) -> Option<&T> {
        let made = NonNull::new(self.made.load(Acquire))?;
        // SAFETY: what is not null came from `Box::into_raw` in `make`, and goes with `self`.
        Some(unsafe { made.as_ref() })
    }
}

impl<T: Default> MadeOnce<T> {
    /// What was made, by this call if by none before.
    #[inline]
    pub(super) fn get_or_make(&self) -> &T {
        match self.get() {
            Some(made) => made,
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> &T {
        let new = Box::into_raw(Box::<T>::default());
        if self.made.compare_exchange(ptr::null_mut(), new, AcqRel, Acquire).is_err() {
            // SAFETY: another thread was faster, and no other thread has seen this one.
            drop(unsafe { Box::from_raw(new) });
        }
        self.get().expect("it was made, here or by another thread")
    }
}

impl<T> Default for MadeOnce<T> {
    fn default() -> Self {
        MadeOnce { made: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }
}

impl<T> Drop for MadeOnce<T> {
    fn drop(&mut self) {
        let made = *self.made.get_mut();
        if !made.is_null() {
            // SAFETY: it came from `Box::into_raw`, and every borrower of it borrowed `self`.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

// SAFETY: it owns a `T` as a box does, and hands it out to every thread that shares it.
unsafe impl<T: Send + Sync> Sync for MadeOnce<T> {}
// SAFETY: as a box.
unsafe impl<T: Send> Send for MadeOnce<T> {}

impl<T: fmt::Debug> fmt::Debug for MadeOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn all_threads_come_to_the_same_one_and_it_goes_with_the_word() {
        static LIVING: AtomicU64 = AtomicU64::new(0);
        struct Counted(AtomicU64);
        impl Default for Counted {
            fn default() -> Self {
                LIVING.fetch_add(1, Relaxed);
                Counted(AtomicU64::new(0))
            }
        }
        impl Drop for Counted {
            fn drop(&mut self) {
                LIVING.fetch_sub(1, Relaxed);
            }
        }
        let once = MadeOnce::<Counted>::default();
        assert!(once.get().is_none());
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    barrier.wait();
                    once.get_or_make().0.fetch_add(1, Relaxed)
                });
            }
        });
        assert_eq!((once.get().map(|made| made.0.load(Relaxed)), LIVING.load(Relaxed)), (Some(4), 1));
        drop(once);
        assert_eq!(LIVING.load(Relaxed), 0);
    }
}
