//! Which thread counts where: `of_this_thread`, the number of its shard.
//!
//! A thread takes a free number when it first counts, and gives it back when it ends. There are
//! `OWNED_SHARDS` (64) numbers.
//!
//! What must hold: a number below 64 belongs to at most one living thread. Every other thread gets
//! the last number, whose shard is counted with locked instructions. The lock of the free numbers
//! orders one owner's counts before the next owner's.
//!
//! Callers: `Stats::here`, `stats::lane_of_this_thread`.

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
