//! Which thread counts where.
//!
//! Owns the numbers of shards: one below [`OWNED_SHARDS`] belongs to at most one living thread; every other thread
//! gets the last.

use parking_lot::Mutex;

/// Threads that count without locked instructions. More than that only count slower.
pub(super) const OWNED_SHARDS: usize = 64;

/// The number of this thread's shard.
#[inline]
pub(super) fn of_this_thread() -> usize {
    SEAT.try_with(|seat| seat.0).unwrap_or(OWNED_SHARDS)
}

/// Who sits where. The lock also orders one owner's counts before the next owner's.
struct Seats {
    free: Vec<usize>,
    taken_ever: usize,
}

static SEATS: Mutex<Seats> = Mutex::new(Seats { free: Vec::new(), taken_ever: 0 });

/// A thread's hold on a shard number; given back when the thread ends.
struct Seat(usize);

impl Seat {
    fn take() -> Self {
        let mut seats = SEATS.lock();
        if let Some(seat) = seats.free.pop() {
            return Seat(seat);
        }
        let seat = seats.taken_ever.min(OWNED_SHARDS);
        seats.taken_ever += usize::from(seat < OWNED_SHARDS);
        Seat(seat)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if self.0 < OWNED_SHARDS {
            SEATS.lock().free.push(self.0);
        }
    }
}

thread_local! {
    static SEAT: Seat = Seat::take();
}
