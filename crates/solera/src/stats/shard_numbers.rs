//! Which thread counts where.
//!
//! Owns the numbers of shards: one below [`OWNED_SHARDS`] belongs to at most one living thread;
//! every other thread gets the last.

use parking_lot::Mutex;

/// Threads that count without locked instructions. More than that only count slower.
pub(super) const OWNED_SHARDS: usize = 64;

/// The number of this thread's shard.
#[inline]
pub(super) fn of_this_thread() -> usize {
    NUMBER.try_with(|number| number.0).unwrap_or(OWNED_SHARDS)
}

/// Which numbers are free. The lock also orders one owner's counts before the next owner's.
struct Numbers {
    free: Vec<usize>,
    taken_ever: usize,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { free: Vec::new(), taken_ever: 0 });

/// A thread's hold on a shard number; given back when the thread ends.
struct Number(usize);

impl Number {
    fn take() -> Self {
        let mut numbers = NUMBERS.lock();
        if let Some(number) = numbers.free.pop() {
            return Number(number);
        }
        let number = numbers.taken_ever.min(OWNED_SHARDS);
        numbers.taken_ever += usize::from(number < OWNED_SHARDS);
        Number(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if self.0 < OWNED_SHARDS {
            NUMBERS.lock().free.push(self.0);
        }
    }
}

thread_local! {
    static NUMBER: Number = Number::take();
}
